//! The log, in the chunks that it is kept in.

use std::{io, rc::Rc};

use super::{
    ArchiveError, cast,
    files::{FileList, Files},
    machine::Machine,
    stream::{Sink, Source},
};
use crate::record::{self, Call, Event, Kept, Log, MOST_EVENTS, Packed, Replay, is_made_again};

/// What a chunk refers to.
const FILE: u64 = 0;
const THREAD: u64 = 1;

/// In the place of the number of events: there are no more chunks.
const END: u64 = 0;
/// More than the system writes for the events of a chunk.
pub(super) const MOST_BYTES: u64 = 2 << 30;
/// A recorder keeps to a budget for its log, with no more beyond it than a few chunks.
const LARGEST_LOG: u64 = record::BUDGET + (256 << 20);
const LAST_SIGNAL: i32 = 64;
/// No recording has come to as many events, however many of them were forgotten.
pub(super) const LAST_EVENT: u64 = 1 << 48;

pub(super) fn write(
    log: &Log,
    (start, end): (u64, u64),
    files: &FileList,
    sink: &mut Sink<'_, '_>,
) -> io::Result<()> {
    sink.number(start)?;
    for packed in log.packed(start, end) {
        let Packed { count, bytes, kept } = packed?;
        sink.number(count as u64)?;
        sink.block(&bytes)?;
        sink.number(kept.len() as u64)?;
        for kept in &kept {
            write_kept(kept, files, sink)?;
        }
    }
    sink.number(END)
}

fn write_kept(kept: &Kept, files: &FileList, sink: &mut Sink<'_, '_>) -> io::Result<()> {
    match kept {
        Kept::File(file) => {
            let index = files.of_file(file).ok_or_else(|| io::Error::other("a mapped file is gone"))?;
            sink.numbers(&[FILE, index as u64])
        }
        Kept::Thread(actor) => {
            sink.number(THREAD)?;
            cast::write_actor(actor, sink)
        }
    }
}

pub(super) fn read(source: &mut Source, files: &Files, machine: &Machine) -> Result<Log, ArchiveError> {
    let mut log = Log::starting_at(source.count(LAST_EVENT)?);
    loop {
        let count = match source.count(MOST_EVENTS as u64)? {
            END => return Ok(log),
            count => count as usize,
        };
        let bytes = source.block(MOST_BYTES)?;
        let mut kept = Vec::new();
        for _ in 0..source.count(count as u64)? {
            kept.push(read_kept(source, files, machine)?);
        }
        let events = record::unpack(count, &bytes, &kept);
        for event in events.map_err(|_| ArchiveError::Malformed("its events cannot be unpacked"))? {
            add(event, &mut log)?;
        }
    }
}

fn read_kept(source: &mut Source, files: &Files, machine: &Machine) -> Result<Kept, ArchiveError> {
    match source.number()? {
        FILE => Ok(Kept::File(files.get(source.number()?)?.clone())),
        THREAD => Ok(Kept::Thread(Rc::new(cast::read_actor(source, machine)?))),
        _ => Err(ArchiveError::Malformed("its events refer to something unknown")),
    }
}

/// Adds an event from a file to a log, if it may be in one.
pub(super) fn add(event: Event, log: &mut Log) -> Result<(), ArchiveError> {
    check(&event)?;
    log.push(event);
    if let Some(failure) = log.failure() {
        return Err(ArchiveError::NoRoom(failure.to_owned()));
    }
    if log.bytes() > LARGEST_LOG {
        return Err(ArchiveError::Malformed("it has more events than can be kept"));
    }
    Ok(())
}

fn check(event: &Event) -> Result<(), ArchiveError> {
    let is_allowed = match event {
        // Nothing else may ever be done for real, whoever wrote the file.
        Event::Call(Call { number, arguments, replay, .. }) => match replay {
            Replay::Emulate(_) => true,
            Replay::Real => is_made_again(*number, arguments),
            Replay::Map(_) => *number == libc::SYS_mmap,
            Replay::Thread(made) => {
                matches!(*number, libc::SYS_clone | libc::SYS_clone3) && cast::is_tid(made.tid)
            }
        },
        Event::Signal { number, .. } => (0..=LAST_SIGNAL).contains(number),
        Event::Turn { to, .. } | Event::Left { to, .. } => cast::is_tid(*to),
        Event::Unreadable => false,
        Event::Barrier { .. } | Event::Interrupted { .. } | Event::Edit | Event::Answer(_) => true,
    };
    if is_allowed { Ok(()) } else { Err(ArchiveError::Malformed("there is an event in it that cannot be")) }
}
