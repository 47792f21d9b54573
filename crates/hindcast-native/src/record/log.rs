//! The log: everything that a program was told from outside, in order.

use std::{collections::VecDeque, rc::Rc};

use super::mapped_files::{MappedFile, MappedFiles};
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

/// Events in order. The first ones may have been forgotten, to keep to a budget.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: VecDeque<Event>,
    /// How many were forgotten.
    forgotten: u64,
    bytes: u64,
    /// How often another thread took over, also in what was forgotten.
    turns: u64,
    /// What the program had mapped of files.
    pub(crate) files: MappedFiles,
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

impl Log {
    pub(crate) fn push(&mut self, event: Event) {
        self.turns += u64::from(event.taker().is_some());
        self.bytes += size(&event);
        self.events.push_back(event);
    }

    /// One whose first event has this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { forgotten: first, ..Self::default() }
    }

    /// How many there have been; the number of the next one.
    pub(crate) fn len(&self) -> u64 {
        self.forgotten + self.events.len() as u64
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Event> {
        self.events.get(usize::try_from(index.checked_sub(self.forgotten)?).ok()?)
    }

    /// Those from `start` to before `end`, with their numbers.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        let from = start.saturating_sub(self.forgotten).min(self.events.len() as u64) as usize;
        let to = end.saturating_sub(self.forgotten).min(self.events.len() as u64) as usize;
        let first = self.forgotten + from as u64;
        self.events
            .range(from..to.max(from))
            .enumerate()
            .map(move |(offset, event)| (first + offset as u64, event))
    }

    /// How often another thread took over.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Withdraws what came from `index` on.
    pub(crate) fn withdraw_from(&mut self, index: u64) {
        while self.len() > index
            && let Some(event) = self.events.pop_back()
        {
            self.bytes -= size(&event);
        }
    }

    /// Forgets what was before `index`.
    pub(crate) fn forget_before(&mut self, index: u64) {
        while self.forgotten < index
            && let Some(event) = self.events.pop_front()
        {
            self.bytes -= size(&event);
            self.forgotten += 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn tamper(&mut self, index: u64, change: impl FnOnce(&mut Event)) {
        let index = (index - self.forgotten) as usize;
        change(&mut self.events[index]);
    }

    #[cfg(test)]
    pub(crate) fn drop_event(&mut self, index: u64) {
        let index = (index - self.forgotten) as usize;
        self.events.remove(index);
    }
}

fn size(event: &Event) -> u64 {
    let beside = match event {
        Event::Call(Call { replay: Replay::Emulate(writes), .. })
        | Event::Interrupted { writes, .. }
        | Event::Left { writes, .. } => {
            writes.iter().map(|write| (size_of::<Write>() + write.bytes.len()) as u64).sum()
        }
        Event::Call(Call { replay: Replay::Thread(made), .. }) => made.actor.vectors.area().len() as u64,
        _ => 0,
    };
    size_of::<Event>() as u64 + beside
}

/// The registers with which a program goes on after a call was emulated.
pub(crate) fn after_call(mut registers: GeneralRegisters, result: i64) -> GeneralRegisters {
    // Single steps show in the flags that a system call leaves there.
    const SINGLE_STEP: u64 = 1 << 8;
    registers.set("rax", result as u64);
    registers.set("r11", registers.get("r11").unwrap_or(0) & !SINGLE_STEP);
    registers
}
