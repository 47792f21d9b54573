//! The log: everything that a program was told from outside, in order.

mod chunks;
mod numbers;
mod packing;
mod spill;
#[cfg(test)]
mod tests;
mod unpacking;

use std::rc::Rc;

pub(crate) use self::{
    chunks::{BUDGET, Log, MOST_EVENTS},
    packing::{Kept, Packed, pack},
    unpacking::unpack,
};
use super::mapped_files::MappedFile;
use crate::{
    replay::Actor,
    sys::{GeneralRegisters, Tid},
};

/// One piece of input.
#[derive(Debug)]
pub(crate) enum Event {
    /// A system call that can be replayed.
    Call(Call),
    /// A system call that cannot: a checkpoint right after it is where history goes on.
    Barrier { number: i64, arguments: [u64; 6], pc: u64, result: i64 },
    /// A system call was interrupted, and the program stands before it again. It may have written how much was left of it.
    Interrupted { number: i64, pc: u64, writes: Box<[Write]> },
    /// A signal was delivered; history goes on at a checkpoint in its handler.
    Signal { number: i32, code: i32, address: Option<u64> },
    /// The user changed memory or registers; history goes on at a checkpoint.
    Edit,
    /// The processor told something that it tells only once.
    Answer(Answer),
    /// Another thread runs from here on.
    Turn { to: Tid, leaves: Leaves },
    /// A thread has ended, by the call behind which `pc` is; another one runs from here on.
    Left { pc: u64, writes: Box<[Write]>, to: Tid },
    /// There was an event, which the disk no longer gives back.
    Unreadable,
}

/// Where the thread that ran stands when another one takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Before a system call, whose end comes when it runs again.
    AtCall { number: i64, pc: u64 },
    /// Right behind the event before.
    BehindEvent,
    /// Anywhere: it was preempted. The checkpoint before tells where, and another one is right behind.
    Anywhere,
}

/// What an instruction told a program.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) pc: u64,
    /// Of the instruction, in bytes.
    pub(crate) length: u8,
    pub(crate) told: Told,
}

#[derive(Debug)]
pub(crate) enum Told {
    /// The time stamp counter.
    Counter { value: u64, processor: Option<u32> },
    /// What the processor can do.
    Features([u32; 4]),
    /// A random number, for the lowest bytes of a register, by its number in machine code.
    Random { register: u8, bytes: u8, value: u64 },
}

/// A system call, with what it did.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    /// Behind the instruction.
    pub(crate) pc: u64,
    pub(crate) result: i64,
    pub(crate) replay: Replay,
}

/// How a call is made again.
#[derive(Debug)]
pub(crate) enum Replay {
    /// Not at all: what it wrote is written.
    Emulate(Box<[Write]>),
    /// In the replica itself.
    Real,
    /// A file is mapped again.
    Map(Option<Rc<MappedFile>>),
    /// A thread is made.
    Thread(Box<Made>),
}

/// A thread that a call made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) tid: Tid,
    /// At its first instruction.
    pub(crate) actor: Rc<Actor>,
    pub(crate) writes: Box<[Write]>,
}

/// Bytes that the system wrote.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) address: u64,
    pub(crate) bytes: Box<[u8]>,
}

impl Event {
    /// Who runs behind it, where that is another thread than before.
    pub(crate) fn taker(&self) -> Option<Tid> {
        match self {
            Self::Turn { to, .. } | Self::Left { to, .. } => Some(*to),
            _ => None,
        }
    }

    /// Whether it came at a moment of its own, between two instructions. The anchor before it stands at that moment, and
    /// history goes on at the one behind it.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(self, Self::Signal { .. } | Self::Edit | Self::Turn { leaves: Leaves::Anywhere, .. })
    }
}

/// The registers with which a program goes on after a call was emulated.
pub(crate) fn after_call(mut registers: GeneralRegisters, result: i64) -> GeneralRegisters {
    // Single steps show in the flags that a system call leaves there.
    const SINGLE_STEP: u64 = 1 << 8;
    registers.set("rax", result as u64);
    registers.set("r11", registers.get("r11").unwrap_or(0) & !SINGLE_STEP);
    registers
}
