//! Values that are to be watched but have no place yet: what a pointer will point to, a local that is not yet
//! declared. They are looked for again at every stop, and whenever something is written that their place depends on.

use std::cell::RefCell;

use hindcast_core::debug::{BreakpointId, DebugError, Location, RuntimeAddr, Trigger, Watchpoint};
use hindcast_symbols::{
    Memory, Unreadable,
    expression::ExpressionError,
    value::{Absence, Placed, Storage},
};

use super::{Session, breakpoints::in_words, system, watch::Watching};
use crate::{
    look::{FrameScope, PhysicalFrame, Scene},
    sys::{Tid, WatchKind},
};

/// Frames that are searched for the one that an expression was written for.
const DEEPEST: u32 = 256;

/// A value without a place.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    /// Whose names the expression has.
    frame: AwaitedFrame,
    /// Debug registers that watch what its place depends on.
    slots: Vec<usize>,
}

/// A frame, to be found again as long as its function has not returned.
#[derive(Debug, Clone, PartialEq)]
struct AwaitedFrame {
    thread: Tid,
    cfa: Option<u64>,
    function: Option<String>,
}

/// What became of a value that is to be watched.
pub(super) enum Watch {
    Begun(Watching),
    /// Not yet, for this reason.
    Awaited(Awaited, String),
}

/// Where the value of an expression is.
pub(super) enum Sought {
    Found(Placed),
    /// Nowhere yet, for this reason; what was read to find that out.
    NotYet(String, Vec<(u64, u64)>),
}

impl Session {
    /// Where the value of `text` is, in a frame of `tid`.
    pub(super) fn seek(&self, tid: Tid, frame: u32, text: &str) -> Result<Sought, DebugError> {
        let thread = self.thread_scene(tid)?;
        let memory = Noted { memory: &self.process.memory(), reads: RefCell::default() };
        let scene = Scene { symbols: &self.symbols, image: &self.image, memory: &memory, main: self.main };
        let scope = FrameScope::enter(&scene, &thread, frame)?;
        memory.reads.borrow_mut().clear();
        let not_yet = |reason: String| Ok(Sought::NotYet(reason, memory.reads.take()));
        match scope.place_of(text) {
            Ok(Placed { storage: Storage::Gone(Absence::NotYetInitialised), .. })
            | Err(ExpressionError::NotYetInitialised { .. }) => {
                not_yet(format!("`{text}` is not yet initialised here"))
            }
            Ok(Placed { storage: Storage::Gone(Absence::Unreadable(address)), .. })
            | Err(ExpressionError::Unreadable { address, .. }) => {
                not_yet(format!("nothing is mapped at {address:#x}, on the way to `{text}`"))
            }
            Ok(Placed { storage: Storage::Memory(address), .. })
                if memory.memory.read(address, &mut [0]).is_err() =>
            {
                not_yet(format!("nothing is mapped at {address:#x}, where `{text}` is"))
            }
            Ok(placed) => Ok(Sought::Found(placed)),
            Err(error) => Err(DebugError::BreakpointFailed(error.into())),
        }
    }

    /// Begins to wait for the place of an expression.
    pub(super) fn await_place(
        &mut self,
        tid: Tid,
        frame: u32,
        reason: &str,
        reads: &[(u64, u64)],
    ) -> Result<Watch, DebugError> {
        let walk = self.walk(tid, frame + 1)?;
        let logical = walk.logical.get(frame as usize);
        let physical = logical.and_then(|logical| walk.physical.get(logical.physical));
        let function = logical.and_then(|logical| logical.source.as_ref()?.function.clone());
        let frame = AwaitedFrame { thread: tid, cfa: physical.and_then(|frame| frame.cfa), function };
        let slots = self.watch_reads(reads)?;
        let reason = format!("{reason}; it is watched as soon as something is there");
        Ok(Watch::Awaited(Awaited { frame, slots }, reason))
    }

    /// Watches what the place of an expression was computed from, as far as there are debug registers.
    fn watch_reads(&mut self, reads: &[(u64, u64)]) -> Result<Vec<usize>, DebugError> {
        let mut slots = Vec::new();
        for &(address, size) in reads {
            let found = self.process.watch(address, size, WatchKind::Write).map_err(system)?;
            slots.extend(found.into_iter().flatten());
        }
        Ok(slots)
    }

    /// Gives back the debug registers of a watchpoint that waits.
    pub(super) fn stop_awaiting(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(awaited) = &mut self.breakpoints.get_mut(id)?.awaited else { return Ok(()) };
        let slots = std::mem::take(&mut awaited.slots);
        if slots.is_empty() {
            return Ok(());
        }
        let released = self.process.unwatch(&slots).map_err(system);
        // What has ended has no registers to give back.
        if self.process.ended().is_some() { Ok(()) } else { released }
    }

    /// Looks again for what has no place yet, and at what could not be read yet.
    pub(super) fn look_for_awaited(&mut self) -> Result<(), DebugError> {
        if self.process.ended().is_some() {
            return Ok(());
        }
        let awaited: Vec<_> = self
            .breakpoints
            .iter()
            .filter(|(_, entry)| entry.is_enabled() && entry.awaited.is_some())
            .map(|(id, _)| id)
            .collect();
        for id in awaited {
            self.look_for(id)?;
        }
        Ok(())
    }

    /// Whether debug registers tell of something that an awaited place depends on.
    pub(super) fn is_awaited_by(&self, slots: &[usize]) -> bool {
        self.breakpoints.iter().any(|(_, entry)| {
            let awaited = entry.awaited.as_ref();
            awaited.is_some_and(|awaited| awaited.slots.iter().any(|slot| slots.contains(slot)))
        })
    }

    fn look_for(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let entry = self.breakpoints.get(id)?;
        let (Trigger::Watch(wanted), Some(awaited)) = (entry.trigger.clone(), entry.awaited.clone()) else {
            return Ok(());
        };
        let Some(frame) = self.find_frame(&awaited.frame) else { return Ok(()) };
        // Its own registers are free for it.
        self.stop_awaiting(id)?;
        let begun = self.watch_in(&wanted, awaited.frame.thread, frame);
        let entry = self.breakpoints.get_mut(id)?;
        match begun {
            Ok(Watch::Begun(watching)) => entry.begin_watching(watching),
            Ok(Watch::Awaited(awaited, reason)) => {
                (entry.awaited, entry.note) = (Some(awaited), Some(reason));
            }
            Err(error) => entry.note = Some(in_words(&error, &error.remedies())),
        }
        Ok(())
    }

    /// The number of a frame that was seen before, if it is still there.
    fn find_frame(&self, wanted: &AwaitedFrame) -> Option<u32> {
        if !self.process.has_thread(wanted.thread) {
            return None;
        }
        let walk = self.walk(wanted.thread, DEEPEST).ok()?;
        let index = walk.logical.iter().position(|logical| {
            let function = logical.source.as_ref().and_then(|source| source.function.as_ref());
            let cfa = |frame: &PhysicalFrame| frame.cfa;
            walk.physical.get(logical.physical).and_then(cfa) == wanted.cfa
                && function == wanted.function.as_ref()
        });
        index.and_then(|index| u32::try_from(index).ok())
    }

    /// As [`Self::watch`], in a frame that may have another number by now.
    fn watch_in(&mut self, wanted: &Watchpoint, thread: Tid, index: u32) -> Result<Watch, DebugError> {
        let mut wanted = wanted.clone();
        if let hindcast_core::debug::Watched::Expression { frame, .. } = &mut wanted.watched {
            frame.thread = super::movement::thread_id(thread);
            frame.index = index;
        }
        self.watch(&wanted)
    }
}

impl super::breakpoints::Entry {
    /// The value has a place from now on.
    pub(super) fn begin_watching(&mut self, watching: Watching) {
        self.targets = vec![Location { address: Some(RuntimeAddr(watching.address)), ..Location::default() }];
        self.note = watching.note();
        self.awaited = None;
        self.watching = Some(watching);
    }
}

/// Memory that remembers what was read of it.
struct Noted<'a> {
    memory: &'a dyn Memory,
    reads: RefCell<Vec<(u64, u64)>>,
}

impl Memory for Noted<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let read = (address, buffer.len() as u64);
        let mut reads = self.reads.borrow_mut();
        if (1..=8).contains(&read.1) && !reads.contains(&read) {
            reads.push(read);
        }
        self.memory.read(address, buffer)
    }
}
