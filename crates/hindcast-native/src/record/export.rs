//! A recording written out, event by event.

use std::io;

use hindcast_core::debug::{Moment, ThreadId, TraceEvent};
use syscalls::Sysno;

use super::{Call, Event, Recorder, Replay, Told};
use crate::{
    replay::{Label, Position},
    sys,
};

/// Some of the events, with the moment right behind each.
pub(crate) fn export(
    recorder: &Recorder,
    (start, end): (u64, u64),
    write: &mut dyn FnMut(TraceEvent, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut acting = recorder.thread_after(start);
    for (index, event) in recorder.log.range(start, end) {
        let thread = ThreadId(acting.0.unsigned_abs());
        acting = event.taker().unwrap_or(acting);
        let moment = Position { anchor: Label::after_events(index + 1), steps: 0 };
        let (kind, what) = description(&event);
        let event = TraceEvent { moment: Moment(moment.to_string()), thread, kind: kind.into(), what };
        write(event, end.saturating_sub(start))?;
    }
    Ok(())
}

fn description(event: &Event) -> (&'static str, String) {
    match event {
        Event::Call(Call { number, arguments, result, replay, .. }) => {
            let bytes: usize = match replay {
                Replay::Emulate(writes) => writes.iter().map(|write| write.bytes.len()).sum(),
                Replay::Thread(made) => made.writes.iter().map(|write| write.bytes.len()).sum(),
                Replay::Real | Replay::Map(_) => 0,
            };
            let wrote = if bytes == 0 { String::new() } else { format!(", {bytes} bytes written") };
            ("system_call", format!("{}({}) = {result}{wrote}", call_name(*number), list(arguments)))
        }
        Event::Barrier { number, arguments, result, .. } => {
            ("barrier", format!("{}({}) = {result}, not replayed", call_name(*number), list(arguments)))
        }
        Event::Interrupted { number, .. } => {
            ("interrupted", format!("{}, which is made again", call_name(*number)))
        }
        Event::Signal { number, .. } => ("signal", sys::signal_name(*number)),
        Event::Unreadable => ("unreadable", "the disk does not give it back".into()),
        Event::Edit => ("edit", "memory or registers were changed by the user".into()),
        Event::Turn { to, .. } => ("turn", format!("thread {} runs", to.0)),
        Event::Left { to, .. } => ("thread_end", format!("the thread has ended, thread {} runs", to.0)),
        Event::Answer(answer) => match &answer.told {
            Told::Counter { value, .. } => ("time_stamp", value.to_string()),
            Told::Features([eax, ebx, ecx, edx]) => ("cpuid", format!("{eax:#x} {ebx:#x} {ecx:#x} {edx:#x}")),
            Told::Random { value, .. } => ("random", format!("{value:#x}")),
        },
    }
}

/// A system call's name, or its number where it is newer than all that we know.
pub(crate) fn call_name(number: i64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| number.to_string(), |call| call.name().to_owned())
}

fn list(arguments: &[u64; 6]) -> String {
    arguments.map(|argument| format!("{argument:#x}")).join(", ")
}
