//! Panics and exceptions: where they pass by, and what can be read of them there.

use hindcast_core::debug::{
    DebugError, ExceptionBreakpoint, OutputStream, RaisedException, Reason, Stop, StopReason,
};

use super::{Session, signals};
use crate::{
    look::{FRAMES_OF_GIVING_UP, Thrown, is_unhandled_panic},
    record::{Event, Replay},
    sys::Tid,
};

/// What an exception breakpoint stops at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExceptionKind {
    Signal(i32),
    RustPanic,
    /// A C++ exception of this type; empty for any.
    Cpp(String),
}

/// Called by the standard library for every panic, after its message was printed.
const PANIC: &[&str] = &["rust_panic"];
const THROW: &str = "__cxa_throw";
const TERMINATE: &str = "_ZSt9terminatev";
/// Enough for a stack that is not about to overflow.
const FRAMES: u32 = 10_000;

impl ExceptionKind {
    pub(super) fn read(text: &str) -> Result<Self, DebugError> {
        let unknown = || {
            DebugError::BreakpointFailed(
                Reason::new(format!("`{text}` is not something a native program raises"))
                    .advise("`signal:SIGSEGV`, `rust:panic`, `cpp:std::runtime_error` or `cpp:*`"),
            )
        };
        let (family, name) = text.split_once(':').ok_or_else(unknown)?;
        match family.trim() {
            "signal" => signals::by_name(name.trim()).map(Self::Signal).ok_or_else(unknown),
            "rust" if name.trim() == "panic" => Ok(Self::RustPanic),
            "cpp" | "c++" => {
                let name = name.trim().trim_start_matches(':');
                Ok(Self::Cpp(if name == "*" { String::new() } else { name.to_owned() }))
            }
            _ => Err(unknown()),
        }
    }

    /// The functions where it can be seen.
    pub(super) fn functions(&self, wanted: &ExceptionBreakpoint) -> &'static [&'static str] {
        match self {
            Self::Signal(_) => &[],
            Self::RustPanic => PANIC,
            Self::Cpp(_) => match (wanted.first_chance, wanted.second_chance) {
                (true, true) => &[THROW, TERMINATE],
                (true, false) => &[THROW],
                (false, _) => &[TERMINATE],
            },
        }
    }
}

impl Session {
    /// What `tid` is raising, where it stands at one of the functions; `None` where it is another
    /// exception than the one that is waited for.
    pub(super) fn raised(
        &self,
        tid: Tid,
        kind: &ExceptionKind,
        wanted: &ExceptionBreakpoint,
        function: &str,
    ) -> Option<RaisedException> {
        match kind {
            ExceptionKind::Signal(_) => None,
            ExceptionKind::RustPanic => {
                self.panic(tid).filter(|panic| wanted.first_chance || wanted.second_chance && panic.unhandled)
            }
            ExceptionKind::Cpp(name) if function.contains("terminate") => {
                match self.uncaught(tid, name, wanted.include_subtypes) {
                    Some(raised) => raised,
                    // Something else than an exception, such as a thread that nobody joins.
                    None => name.is_empty().then(|| RaisedException {
                        exception_type: "cpp:*".into(),
                        message: Some("std::terminate was called".into()),
                        unhandled: true,
                        ..RaisedException::default()
                    }),
                }
            }
            ExceptionKind::Cpp(name) => {
                let registers = self.process.registers(tid).ok()?;
                let thrown = Thrown { object: registers.get("rdi")?, type_info: registers.get("rsi")? };
                self.with_scene(|scene| scene.exception(thrown, name, wanted.include_subtypes, false))
            }
        }
    }

    /// The exception that `std::terminate` was called for, if it is of the type that is wanted; `None` where there
    /// is no exception.
    fn uncaught(&self, tid: Tid, wanted: &str, include_subtypes: bool) -> Option<Option<RaisedException>> {
        let stack = self.walk(tid, FRAMES_OF_GIVING_UP as u32).ok()?;
        self.with_scene(|scene| {
            let thrown = scene.uncaught(&stack)?;
            Some(scene.exception(thrown, wanted, include_subtypes, true))
        })
    }

    fn panic(&self, tid: Tid) -> Option<RaisedException> {
        let stack = self.walk(tid, FRAMES).ok()?;
        Some(RaisedException {
            exception_type: "rust:panic".into(),
            message: self.panic_message(),
            unhandled: is_unhandled_panic(&stack),
            ..RaisedException::default()
        })
    }

    /// A panic that ends the program or its thread stops it as a fault does, without having been asked for.
    pub(super) fn unasked_panic(&self, tid: Tid, address: u64) -> Option<RaisedException> {
        let panics = self.panic_event == Some(address);
        panics.then(|| self.panic(tid)).flatten().filter(|panic| panic.unhandled)
    }

    pub(super) fn stop_at_exception(&mut self, tid: Tid, raised: RaisedException) -> Stop {
        let mut stop = self.stop_at(tid, StopReason::Exception);
        let message = raised.message.as_deref().unwrap_or("no message");
        stop.detail = Some(format!("{}: {message}", raised.exception_type));
        stop.exception = Some(raised);
        stop
    }

    /// The standard library prints the message before it lets the panic go on.
    fn panic_message(&self) -> Option<String> {
        let text = match &self.pump {
            Some(pump) => {
                pump.drain();
                let since = self.log.end().saturating_sub(16 << 10);
                let chunk = self.log.read(since, 16 << 10, Some(OutputStream::Stderr));
                chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect()
            }
            None => self.recorded_errors()?,
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        let start = text.rfind("panicked at ")?;
        let message = text[start..].split("\nnote: run with").next()?.split("\nstack backtrace:").next()?;
        Some(message.trim_end().to_owned())
    }

    /// What a recorded program wrote to stderr last, as far as the recording has it. A backtrace is many writes.
    fn recorded_errors(&self) -> Option<Vec<u8>> {
        const EVENTS: u64 = 20_000;
        let log = &self.process.recorder()?.log;
        let lately = log.range(log.len().saturating_sub(EVENTS), log.len());
        let mut written = Vec::new();
        for (_, event) in lately {
            if let Event::Call(call) = &*event
                && call.number == libc::SYS_write
                && call.arguments[0] == 2
                && let Replay::Emulate(writes) = &call.replay
            {
                written.extend(writes.iter().flat_map(|write| &write.bytes));
            }
        }
        Some(written)
    }
}
