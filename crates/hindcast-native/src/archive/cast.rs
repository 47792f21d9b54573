//! The threads of a program, as they stood.

use std::{collections::BTreeMap, io, rc::Rc};

use super::{
    ArchiveError,
    machine::Machine,
    stream::{Sink, Source},
};
use crate::{
    replay::{Actor, Cast},
    sys::{GeneralRegisters, Tid, VectorRegisters},
};

const LONGEST_VECTORS: u64 = 64 << 10;
/// As many as a system has at most.
const MOST_THREADS: u64 = 1 << 22;

pub(super) fn write_tid(tid: Tid, sink: &mut Sink<'_, '_>) -> io::Result<()> {
    sink.number(u64::from(tid.0.unsigned_abs()))
}

pub(super) fn read_tid(source: &mut Source) -> Result<Tid, ArchiveError> {
    Ok(Tid(source.count(MOST_THREADS)? as i32))
}

/// Whether a thread can have this number.
pub(super) fn is_tid(tid: Tid) -> bool {
    u64::try_from(tid.0).is_ok_and(|number| number <= MOST_THREADS)
}

pub(super) fn write_actor(actor: &Actor, sink: &mut Sink<'_, '_>) -> io::Result<()> {
    sink.numbers(&actor.registers.words())?;
    sink.block(actor.vectors.area())
}

pub(super) fn read_actor(source: &mut Source, machine: &Machine) -> Result<Actor, ArchiveError> {
    let registers = GeneralRegisters::from_words(source.numbers()?);
    let vectors = VectorRegisters::new(source.block(LONGEST_VECTORS)?);
    if vectors.layout() != machine.vectors {
        return Err(ArchiveError::Malformed("its vector registers are not those of its processor"));
    }
    Ok(Actor { registers, vectors })
}

pub(super) fn write(cast: &Cast, sink: &mut Sink<'_, '_>) -> io::Result<()> {
    write_tid(cast.acting(), sink)?;
    sink.number(cast.others().len() as u64)?;
    for (&tid, actor) in cast.others() {
        write_tid(tid, sink)?;
        write_actor(actor, sink)?;
    }
    Ok(())
}

pub(super) fn read(source: &mut Source, machine: &Machine) -> Result<Cast, ArchiveError> {
    let acting = read_tid(source)?;
    let mut others = BTreeMap::new();
    for _ in 0..source.count(MOST_THREADS)? {
        let tid = read_tid(source)?;
        let actor = Rc::new(read_actor(source, machine)?);
        if tid == acting || others.insert(tid, actor).is_some() {
            return Err(ArchiveError::Malformed("a thread is in it twice"));
        }
    }
    Ok(Cast::new(acting, others))
}
