//! The log of `native/1` and `native/2`: event by event, eight bytes a number.

use std::rc::Rc;

use super::{
    ArchiveError, cast,
    events::{LAST_EVENT, MOST_BYTES, add},
    files::Files,
    machine::Machine,
    stream::Source,
};
use crate::record::{Answer, CPUID_LENGTH, Call, Event, Leaves, Log, Made, Replay, Told, Write};

/// Kinds of events.
const EMULATED: u64 = 0;
const MADE_AGAIN: u64 = 1;
const MAPPED: u64 = 2;
const MAPPED_FILE: u64 = 3;
const BARRIER: u64 = 4;
const SIGNAL: u64 = 5;
const EDIT: u64 = 6;
const COUNTER: u64 = 7;
const FEATURES: u64 = 8;
const INTERRUPTED: u64 = 9;
const RANDOM: u64 = 10;
const SIGNAL_WITH: u64 = 11;
const TURN_AT_CALL: u64 = 12;
const TURN_BEHIND_EVENT: u64 = 13;
const TURN_ANYWHERE: u64 = 14;
const LEFT: u64 = 15;
const MADE_THREAD: u64 = 16;

/// What comes after the last event.
const END: u64 = u64::MAX;
const MOST_WRITES: u64 = 1 << 16;

pub(super) fn read(source: &mut Source, files: &Files, machine: &Machine) -> Result<Log, ArchiveError> {
    let mut log = Log::starting_at(source.count(LAST_EVENT)?);
    loop {
        let event = match source.number()? {
            END => return Ok(log),
            kind @ (EMULATED | MADE_AGAIN | MAPPED | MAPPED_FILE | MADE_THREAD) => {
                Event::Call(read_call(kind, source, files, machine)?)
            }
            BARRIER => {
                let number = source.number()? as i64;
                let arguments = source.numbers()?;
                let [pc, result] = source.numbers()?;
                Event::Barrier { number, arguments, pc, result: result as i64 }
            }
            INTERRUPTED => {
                let [number, pc] = source.numbers()?;
                Event::Interrupted { number: number as i64, pc, writes: read_writes(source)? }
            }
            SIGNAL => Event::Signal { number: source.count(64)? as i32, code: 0, address: None },
            SIGNAL_WITH => {
                let number = source.count(64)? as i32;
                let [code, has_address, address] = source.numbers()?;
                let address = (has_address != 0).then_some(address);
                Event::Signal { number, code: code as i32, address }
            }
            EDIT => Event::Edit,
            TURN_AT_CALL => {
                let [number, pc] = source.numbers()?;
                let leaves = Leaves::AtCall { number: number as i64, pc };
                Event::Turn { leaves, to: cast::read_tid(source)? }
            }
            TURN_BEHIND_EVENT => Event::Turn { leaves: Leaves::BehindEvent, to: cast::read_tid(source)? },
            TURN_ANYWHERE => Event::Turn { leaves: Leaves::Anywhere, to: cast::read_tid(source)? },
            LEFT => {
                let pc = source.number()?;
                Event::Left { pc, writes: read_writes(source)?, to: cast::read_tid(source)? }
            }
            COUNTER => {
                let [pc, length, value, processor] = source.numbers()?;
                let processor = (processor != u64::MAX).then_some(processor as u32);
                let told = Told::Counter { value, processor };
                Event::Answer(Answer { pc, length: length as u8, told })
            }
            FEATURES => {
                let [pc, eax, ebx, ecx, edx] = source.numbers()?;
                let told = Told::Features([eax, ebx, ecx, edx].map(|word| word as u32));
                Event::Answer(Answer { pc, length: CPUID_LENGTH, told })
            }
            RANDOM => {
                let [pc, length, register, bytes, value] = source.numbers()?;
                let told = Told::Random { register: register as u8, bytes: bytes as u8, value };
                Event::Answer(Answer { pc, length: length as u8, told })
            }
            _ => return Err(ArchiveError::Malformed("there is an unknown kind of event in it")),
        };
        add(event, &mut log)?;
    }
}

fn read_call(kind: u64, source: &mut Source, files: &Files, machine: &Machine) -> Result<Call, ArchiveError> {
    let number = source.number()? as i64;
    let arguments = source.numbers()?;
    let [pc, result] = source.numbers()?;
    let replay = match kind {
        EMULATED => Replay::Emulate(read_writes(source)?),
        MADE_AGAIN => Replay::Real,
        MAPPED => Replay::Map(None),
        MAPPED_FILE => Replay::Map(Some(files.get(source.number()?)?.clone())),
        MADE_THREAD => {
            let tid = cast::read_tid(source)?;
            let actor = Rc::new(cast::read_actor(source, machine)?);
            Replay::Thread(Box::new(Made { tid, actor, writes: read_writes(source)? }))
        }
        _ => return Err(ArchiveError::Malformed("there is an unknown kind of event in it")),
    };
    Ok(Call { number, arguments, pc, result: result as i64, replay })
}

fn read_writes(source: &mut Source) -> Result<Box<[Write]>, ArchiveError> {
    let count = source.count(MOST_WRITES)?;
    let mut left = MOST_BYTES;
    let write = |_| {
        let address = source.number()?;
        let bytes = source.block(left)?.into_boxed_slice();
        left -= bytes.len() as u64;
        Ok(Write { address, bytes })
    };
    (0..count).map(write).collect()
}

/// Writes what older versions wrote.
#[cfg(test)]
pub(super) mod writing {
    use std::io;

    use super::*;
    use crate::archive::{files::FileList, stream::Sink};

    pub(in crate::archive) fn write(
        log: &Log,
        (start, end): (u64, u64),
        files: &FileList,
        sink: &mut Sink<'_, '_>,
    ) -> io::Result<()> {
        sink.number(start)?;
        for (_, event) in log.range(start, end) {
            write_event(&event, files, sink)?;
        }
        sink.number(END)
    }

    fn write_event(event: &Event, files: &FileList, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        match event {
            Event::Call(call) => write_call(call, files, sink),
            Event::Barrier { number, arguments, pc, result } => {
                sink.numbers(&[BARRIER, *number as u64])?;
                sink.numbers(arguments)?;
                sink.numbers(&[*pc, *result as u64])
            }
            Event::Interrupted { number, pc, writes } => {
                sink.numbers(&[INTERRUPTED, *number as u64, *pc])?;
                write_writes(writes, sink)
            }
            Event::Signal { number, code, address } => {
                let address = address.map_or([0, 0], |address| [1, address]);
                sink.numbers(&[SIGNAL_WITH, *number as u64, i64::from(*code) as u64])?;
                sink.numbers(&address)
            }
            Event::Edit => sink.number(EDIT),
            Event::Unreadable => Err(io::ErrorKind::Unsupported.into()),
            Event::Turn { to, leaves } => {
                match leaves {
                    Leaves::AtCall { number, pc } => sink.numbers(&[TURN_AT_CALL, *number as u64, *pc])?,
                    Leaves::BehindEvent => sink.number(TURN_BEHIND_EVENT)?,
                    Leaves::Anywhere => sink.number(TURN_ANYWHERE)?,
                }
                cast::write_tid(*to, sink)
            }
            Event::Left { pc, writes, to } => {
                sink.numbers(&[LEFT, *pc])?;
                write_writes(writes, sink)?;
                cast::write_tid(*to, sink)
            }
            Event::Answer(Answer { pc, length, told }) => {
                let length = u64::from(*length);
                match told {
                    Told::Counter { value, processor } => {
                        let processor = processor.map_or(u64::MAX, u64::from);
                        sink.numbers(&[COUNTER, *pc, length, *value, processor])
                    }
                    Told::Features(answer) => {
                        sink.numbers(&[FEATURES, *pc])?;
                        sink.numbers(&answer.map(u64::from))
                    }
                    Told::Random { register, bytes, value } => {
                        sink.numbers(&[RANDOM, *pc, length, u64::from(*register), u64::from(*bytes), *value])
                    }
                }
            }
        }
    }

    fn write_call(call: &Call, files: &FileList, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        let kind = match &call.replay {
            Replay::Emulate(_) => EMULATED,
            Replay::Real => MADE_AGAIN,
            Replay::Map(None) => MAPPED,
            Replay::Map(Some(_)) => MAPPED_FILE,
            Replay::Thread(_) => MADE_THREAD,
        };
        sink.numbers(&[kind, call.number as u64])?;
        sink.numbers(&call.arguments)?;
        sink.numbers(&[call.pc, call.result as u64])?;
        match &call.replay {
            Replay::Emulate(writes) => write_writes(writes, sink),
            Replay::Map(Some(file)) => {
                let index = files.of_file(file).ok_or_else(|| io::Error::other("a mapped file is gone"))?;
                sink.number(index as u64)
            }
            Replay::Thread(made) => {
                cast::write_tid(made.tid, sink)?;
                cast::write_actor(&made.actor, sink)?;
                write_writes(&made.writes, sink)
            }
            Replay::Real | Replay::Map(None) => Ok(()),
        }
    }

    fn write_writes(writes: &[Write], sink: &mut Sink<'_, '_>) -> io::Result<()> {
        sink.number(writes.len() as u64)?;
        for write in writes {
            sink.number(write.address)?;
            sink.block(&write.bytes)?;
        }
        Ok(())
    }
}
