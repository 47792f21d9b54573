//! Events that put something else in the place of code or memory.

use std::ops::Range;

use crate::record::{Call, Event, Log, Replay, redefined};

/// The events at which code of the program went away: another program was begun, or a library was unloaded. Before them
/// breakpoints are elsewhere.
pub(super) fn code_losses(log: &Log) -> Vec<u64> {
    let mut code: Vec<Range<u64>> = Vec::new();
    let mut losses = Vec::new();
    for (index, event) in log.range(0, log.len()) {
        match &*event {
            Event::Barrier { number: libc::SYS_execve | libc::SYS_execveat, .. } => {
                code.clear();
                losses.push(index);
            }
            Event::Call(Call {
                number: libc::SYS_mmap,
                arguments,
                result,
                replay: Replay::Map(Some(_)),
                ..
            }) if arguments[2] & libc::PROT_EXEC as u64 != 0 => {
                let start = *result as u64;
                code.push(start..start.saturating_add(arguments[1]));
            }
            Event::Call(Call { number: libc::SYS_munmap, arguments, result: 0, .. }) => {
                let gone = arguments[0]..arguments[0].saturating_add(arguments[1]);
                let before = code.len();
                code.retain(|code| code.start >= gone.end || gone.start >= code.end);
                if code.len() < before {
                    losses.push(index);
                }
            }
            _ => {}
        }
    }
    losses
}

/// The last of some events in which the system wrote to memory, or put other memory there.
pub(super) fn last_written_by_system(log: &Log, start: u64, end: u64, wanted: &Range<u64>) -> Option<u64> {
    let overlaps = |range: Range<u64>| range.start < wanted.end && wanted.start < range.end;
    let mut events = log.range(start, end).rev();
    let found = events.find(|(index, event)| match &**event {
        Event::Call(Call { replay: Replay::Emulate(_) | Replay::Thread(_), .. })
        | Event::Interrupted { .. }
        | Event::Left { .. } => event.wrote_to(wanted),
        _ => redefined(log, *index).into_iter().any(overlaps),
    });
    found.map(|(index, _)| index)
}
