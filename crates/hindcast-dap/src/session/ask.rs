//! Asking an adapter, and waiting for what comes in.

use std::{
    io::Read,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hindcast_core::debug::{DebugError, Reason};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ROOT, Session, State};
use crate::{
    profile::StartedBy,
    protocol::Message,
    transport::{ConnectionId, Incoming},
};

/// How long an adapter may take to answer an ordinary question.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before the system is made to acknowledge what was sent.
pub(super) const POKE_AFTER: Duration = Duration::from_millis(3);
pub(super) const MOST_POKES: u32 = 6;
/// So much of what an adapter prints is kept.
const MURMUR: usize = 4 << 10;

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// The adapter says so.
    Refused(String),
    /// It did not answer in time.
    Late { command: String, waited: Duration },
    /// It reads nothing any more.
    Deaf(String),
    /// It is gone.
    Gone(String),
    /// It answered something else.
    Strange { command: String, why: String },
}

impl Refusal {
    /// What the adapter says, or what became of it.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Refused(why) => why.clone(),
            Self::Late { command, waited } => {
                format!("the debug adapter has not answered `{command}` within {} s", waited.as_secs_f32())
            }
            Self::Deaf(command) => {
                format!("the debug adapter does not read what it is asked, such as `{command}`")
            }
            Self::Gone(why) => format!("the debug adapter is gone: {why}"),
            Self::Strange { command, why } => {
                format!("the debug adapter's answer to `{command}` cannot be read: {why}")
            }
        }
    }
}

impl From<Refusal> for DebugError {
    fn from(refusal: Refusal) -> Self {
        let reason = Reason::new(refusal.why());
        match refusal {
            Refusal::Gone(_) => Self::Lost(reason.what),
            Refusal::Late { .. } => Self::System(
                reason
                    .advise("wait and ask again, or end the session; the program may be busy in native code"),
            ),
            Refusal::Deaf(_) => Self::System(reason.advise("end the session, and launch the program again")),
            Refusal::Refused(_) | Refusal::Strange { .. } => Self::System(reason),
        }
    }
}

impl Session {
    /// How long the adapter may take to answer.
    pub(super) fn answer_within(&self) -> Duration {
        self.profile.answer_within_ms.map_or(ANSWER_WITHIN, Duration::from_millis)
    }

    /// Asks and waits for the answer, looking at all that comes in meanwhile.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        to: ConnectionId,
        command: &str,
        arguments: Value,
    ) -> Result<T, Refusal> {
        let within = self.answer_within();
        self.ask_within(to, command, arguments, within)
    }

    /// The same with a limit of one's own.
    pub(super) fn ask_within<T: DeserializeOwned>(
        &mut self,
        to: ConnectionId,
        command: &str,
        arguments: Value,
        within: Duration,
    ) -> Result<T, Refusal> {
        let seq = self.client.send(to, command, arguments).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Refusal::Deaf(command.to_owned()),
            _ => self.gone(to),
        })?;
        let until = Instant::now() + within;
        let mut pokes = self.pokes_for(to, command);
        loop {
            if let Some(response) = self.client.take_answer(to, seq) {
                if !response.success {
                    return Err(Refusal::Refused(response.failure()));
                }
                // Many answers have no content.
                let body = if response.body.is_null() { json!({}) } else { response.body };
                return serde_json::from_value(body).map_err(|error| Refusal::Strange {
                    command: command.to_owned(),
                    why: error.to_string(),
                });
            }
            if self.client.connections[to.0].closed.is_some() {
                return Err(self.gone(to));
            }
            if pokes > 0 {
                pokes -= 1;
                if !self.pump(Some(until.min(Instant::now() + POKE_AFTER))) {
                    self.poke(to);
                }
                continue;
            }
            if !self.pump(Some(until)) {
                self.client.forget(to, seq);
                if self.client.connections[to.0].capabilities.supports_cancel_request {
                    let _ = self.client.send_and_forget(to, "cancel", json!({ "requestId": seq }));
                }
                return Err(Refusal::Late { command: command.to_owned(), waited: within });
            }
        }
    }

    /// How often to poke while waiting for an answer.
    pub(super) fn pokes_for(&self, to: ConnectionId, command: &str) -> u32 {
        const BEGINNING: [&str; 4] = ["initialize", "launch", "attach", "configurationDone"];
        // The first connection of such an adapter leads to no program.
        let is_quick = to == ROOT
            || BEGINNING.contains(&command)
            || self.profile.poke.is_empty()
            // It would stop where we poked it.
            || self.awaits_pause;
        if is_quick { 0 } else { MOST_POKES }
    }

    /// Makes the system acknowledge what the program has sent.
    pub(super) fn poke(&mut self, to: ConnectionId) {
        let arguments = json!({ "expression": self.profile.poke, "context": "hover" });
        // Whoever is gone needs no poke.
        let _ = self.client.send_and_forget(to, "evaluate", arguments);
    }

    /// Asks for what has no answer worth looking at.
    pub(super) fn tell(&mut self, to: ConnectionId, command: &str, arguments: Value) -> Result<(), Refusal> {
        self.ask::<Value>(to, command, arguments).map(drop)
    }

    fn gone(&self, connection: ConnectionId) -> Refusal {
        let closed = self.client.connections[connection.0].closed.clone();
        let mut why = closed.unwrap_or_else(|| "it has closed its connection".into());
        let murmured = self.murmur.last_words();
        if connection == ROOT && !murmured.is_empty() {
            why = format!("{why}; it printed: {murmured}");
        }
        Refusal::Gone(why)
    }

    /// Looks at the next thing that comes in; false where nothing has by then.
    pub(super) fn pump(&mut self, until: Option<Instant>) -> bool {
        let Some(incoming) = self.client.next(until) else { return false };
        match incoming {
            Incoming::Message(from, Message::Response(response)) => self.client.keep_answer(from, response),
            Incoming::Message(from, Message::Event(event)) => self.on_event(from, event),
            Incoming::Message(from, Message::Request(request)) => self.on_request(from, request),
            Incoming::Closed(from, why) => self.on_close(from, why),
            Incoming::ProgramEnded | Incoming::Bell => {}
        }
        self.adopt_children();
        true
    }

    /// Looks at all that has come in already.
    pub(super) fn catch_up(&mut self) {
        let now = Instant::now();
        while self.pump(Some(now)) {}
    }

    /// Whether the adapter is a part of the program, and so ends with it.
    pub(super) fn is_program_the_adapter(&self) -> bool {
        self.profile.program_is_started_by == StartedBy::Adapter
            && self.profile.launch_request == "attach"
            && !self.was_attached
    }

    fn on_close(&mut self, from: ConnectionId, why: Option<String>) {
        self.client.close(from, why);
        self.standing.remove(&from);
        self.stops.retain(|(of, _)| *of != from);
        if from == ROOT && matches!(self.state, State::Configuring | State::Live) {
            let lost = match self.gone(ROOT) {
                Refusal::Gone(why) => format!("the debug adapter ({}) is gone: {why}", self.profile.adapter),
                other => other.why(),
            };
            // Where its program has ended, that is what is to be told.
            let program_ended = self.program.as_ref().is_some_and(|program| program.ended().is_some())
                || self.is_program_the_adapter();
            self.state = if program_ended { State::Ended { told: false } } else { State::Lost(lost) };
            if !program_ended {
                // An adapter may have hung up and live on; what it was to debug ends with it.
                self.adapter = None;
                self.program = None;
            }
        }
    }
}

/// What an adapter prints to its standard error, which is no part of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Murmur(Mutex<Vec<u8>>);

impl Murmur {
    /// Keeps the end of what is printed, on a thread of its own.
    pub(super) fn listen(
        self: std::sync::Arc<Self>,
        mut from: impl Read + Send + 'static,
    ) -> std::io::Result<()> {
        std::thread::Builder::new().name("murmur".into()).spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&bytes[..count]);
                let surplus = kept.len().saturating_sub(MURMUR);
                kept.drain(..surplus);
            }
        })?;
        Ok(())
    }

    /// Its last lines, on one line.
    pub(super) fn last_words(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept).into_owned();
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" · ")
    }
}
