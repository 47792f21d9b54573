//! Ending a session.

use std::time::Duration;

use hindcast_core::debug::{DebugError, Ending};
use serde_json::{Value, json};

use super::{ROOT, Session, State};

/// How long an adapter may take to end what it has begun; what is left then is killed.
pub(super) const END_WITHIN: Duration = Duration::from_millis(700);
/// How long it may take to let go, which must not be cut short.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

impl Session {
    pub(super) fn finish(&mut self, how: Ending) -> Result<(), DebugError> {
        let is_live = matches!(self.state, State::Configuring | State::Live);
        if is_live {
            // Launched programs are killed with all that they started, so the adapter need not be asked first.
            match how {
                Ending::Detach => self.say_goodbye(false, DETACH_WITHIN),
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
            }
            Ending::Terminate => self.program = None,
        }
        self.adapter = None;
        if let Some(pump) = self.pump.take() {
            pump.drain();
        }
        if let Some(folder) = self.scratch.take() {
            let _ = std::fs::remove_dir_all(folder);
        }
        Ok(())
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
