//! Ending a session.

use std::time::{Duration, Instant};

use hindcast_core::debug::{DebugError, Ending};
use serde_json::{Value, json};

use super::{ROOT, Session, State};

/// How long an adapter may take to end what it has begun; what is left then is killed.
pub(super) const END_WITHIN: Duration = Duration::from_millis(700);
/// How long it may take to let go, which must not be cut short.
const DETACH_WITHIN: Duration = Duration::from_secs(2);
/// How long a program may take to go on after it was told to. Ruby's debugger answers before it lets the program go, and no event
/// follows.
const NOTED_WITHIN: Duration = Duration::from_millis(200);
const MOST_FRAMES: usize = 50;

impl Session {
    pub(super) fn finish(&mut self, how: Ending) -> Result<(), DebugError> {
        let is_live = matches!(self.state, State::Configuring | State::Live);
        if is_live {
            // Launched programs are killed with all that they started, so the adapter need not be asked first.
            match how {
                Ending::Detach => {
                    self.leave_nothing();
                    self.say_goodbye(false, DETACH_WITHIN);
                }
                Ending::Terminate if self.was_attached => self.say_goodbye(true, END_WITHIN),
                Ending::Terminate => {}
            }
        }
        self.state = State::Ended { told: true };
        self.stops.clear();
        self.standing.clear();
        match how {
            Ending::Detach => {
                if let Some(program) = self.program.take() {
                    program.release();
                }
                if let Some(pump) = self.pump.take() {
                    // It goes on in any case; without a reader, to what it prints next.
                    let _ = pump.leave();
                }
            }
            Ending::Terminate => self.program = None,
        }
        self.client.hang_up();
        self.adapter = None;
        if let Some(pump) = self.pump.take() {
            pump.drain();
        }
        if let Some(folder) = self.scratch.take() {
            let _ = std::fs::remove_dir_all(folder);
        }
        Ok(())
    }

    /// Takes out the breakpoints of a program that goes on without us, and lets it run: what listens for debuggers there would
    /// stop it again, or leave it as it stands.
    fn leave_nothing(&mut self) {
        if !(self.was_attached && self.profile.port_speaks_protocol) {
            return;
        }
        let ids: Vec<_> = self.breakpoints.entries().map(|entry| entry.id).collect();
        // What fails here is over already.
        if !self.profile.let_go.is_empty() {
            if self.breakpoints.were_there() {
                self.take_out_by_evaluating();
            }
            self.stops.clear();
            if !self.standing.is_empty() {
                let _ = self.go_on();
                // It dies if we hang up before it has taken note, which it does not tell.
                std::thread::sleep(NOTED_WITHIN);
            }
            return;
        }
        for id in ids {
            let _ = self.removed(id);
        }
        self.stops.clear();
        let _ = self.go_on();
    }

    /// The program must stand for that, and must not be asked to stop when we are gone.
    fn take_out_by_evaluating(&mut self) {
        self.catch_up();
        let is_asked = self.standing.is_empty() && self.ask_for_pause().is_ok();
        self.await_standing();
        let is_pause = self.stops.back().is_some_and(|(_, stopped)| stopped.reason == "pause");
        let let_go = self.profile.let_go.clone();
        for (connection, dap) in self.standing.clone() {
            let thread = self.threads.number(connection, dap);
            self.seen.forget();
            let frames = self.frames(thread, MOST_FRAMES).unwrap_or_default();
            // Nothing is evaluated in functions that are not written in the language.
            let Some(frame) = frames.iter().find(|frame| !frame.name.starts_with("[C]")) else { continue };
            let arguments = json!({ "expression": let_go, "frameId": frame.id, "context": "watch" });
            let _ = self.ask::<Value>(connection, "evaluate", arguments);
        }
        self.stops.clear();
        if is_asked && !is_pause {
            // A breakpoint was faster: the stop that was asked for is still to come.
            let _ = self.go_on();
            self.await_standing();
            self.stops.clear();
        }
    }

    fn await_standing(&mut self) {
        let until = Instant::now() + DETACH_WITHIN;
        while self.standing.is_empty() && self.pump(Some(until)) {}
    }

    pub(super) fn say_goodbye(&mut self, terminate: bool, within: Duration) {
        let connections: Vec<_> =
            self.client.connections.iter().filter(|it| it.closed.is_none()).map(|it| it.id).collect();
        for connection in connections.into_iter().rev() {
            let capabilities = &self.client.connections[connection.0].capabilities;
            let can_choose =
                capabilities.supports_terminate_debuggee || capabilities.support_terminate_debuggee;
            let mut arguments = json!({ "restart": false });
            if can_choose || connection != ROOT {
                arguments["terminateDebuggee"] = terminate.into();
            }
            let _ = self.ask_within::<Value>(connection, "disconnect", arguments, within);
        }
    }
}
