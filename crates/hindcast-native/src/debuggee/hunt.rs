//! Back to where something last happened.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::Debuggee;
use crate::{
    record::{Call, Event, Log, Replay, redefined},
    replay::{Arrival, Bound, Context, Functions, Label, Past, Pause, Position, ReplayError, Replica},
    sys::WatchKind,
};

/// What is looked for in the past.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Quarry {
    /// Whatever would have stopped the program: breakpoints and watchpoints as they are now, and these signals.
    Stops(SignalSet),
    /// Getting to an address with this stack pointer.
    Call { address: u64, stack: u64 },
    /// A write to memory, also one that left the value as it was.
    Write { address: u64, size: u64 },
}

/// Where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Right after it happened, or right before the instruction at the address.
    pub(crate) position: Position,
    /// What stopped there; nothing where the system wrote.
    pub(crate) pause: Option<Pause>,
}

/// Some of the signals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    /// Those that always stop.
    pub(crate) fn faults() -> Self {
        const FAULTS: [i32; 6] =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];
        FAULTS.into_iter().fold(Self(0), Self::with)
    }

    pub(crate) fn with(self, signal: i32) -> Self {
        Self(self.0 | 1 << (signal & 63))
    }

    fn contains(self, signal: i32) -> bool {
        self.0 >> (signal & 63) & 1 == 1
    }
}

/// More stops than this in one stretch, and a shorter one is looked at first.
const MANY: u64 = 4000;
/// A stretch that takes no longer than this is not divided any more: all its stops are seen in a second or so.
const SHORT: Duration = Duration::from_millis(1);

impl Debuggee {
    /// Where something last happened before a moment.
    pub(crate) fn find_before(
        &mut self,
        position: &Position,
        quarry: Quarry,
        functions: Functions<'_>,
    ) -> Result<Option<Found>, ReplayError> {
        let (overlay, debug_registers) = match &self.past {
            Some(past) => (past.replica.overlay.addresses(), past.replica.debug_registers()),
            None => (self.live.overlay().addresses(), self.live.debug_registers()),
        };
        let arm = move |replica: &mut Replica| -> Result<(), ReplayError> {
            match quarry {
                Quarry::Stops(_) => {
                    for &address in &overlay {
                        // Where there is no such code, nothing can have stopped.
                        let _ = replica.overlay.insert(&replica.memory, address);
                    }
                    replica.set_debug_registers(debug_registers)?;
                }
                Quarry::Call { address, .. } => {
                    let _ = replica.overlay.insert(&replica.memory, address);
                }
                Quarry::Write { address, size } => {
                    if replica.watch(address, size, WatchKind::Write)?.is_none() {
                        return Err(ReplayError::TooLarge(size));
                    }
                }
            }
            Ok(())
        };
        self.travel(functions, |context, _, _| {
            let mut hunt = Hunt { quarry, arm: &arm, origin: position };
            let mut label = position.anchor.clone();
            let mut bound = Bound::Steps(position.steps);
            loop {
                if let Some(found) = hunt.stretch(context, &label, &bound)? {
                    return Ok(Some(found));
                }
                let Some(previous) = context.timeline.before(&label).cloned() else { return Ok(None) };
                bound = context.bound_after(&previous);
                if matches!(bound, Bound::Boundary | Bound::Events(_))
                    && let Some(found) = hunt.across_barrier(context, &previous, &label)?
                {
                    return Ok(Some(found));
                }
                label = previous;
            }
        })
    }
}

/// A search through the past, stretch by stretch.
struct Hunt<'a> {
    quarry: Quarry,
    arm: &'a dyn Fn(&mut Replica) -> Result<(), ReplayError>,
    /// What happened right there is known already.
    origin: &'a Position,
}

/// What there is in a stretch.
struct Counted {
    hits: u64,
    /// How many events had happened at the last of them.
    last_event: u64,
    /// How many had happened at its end.
    end: u64,
}

impl Hunt<'_> {
    /// The last in the stretch from an anchor to a bound.
    fn stretch(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
    ) -> Result<Option<Found>, ReplayError> {
        if *bound == Bound::Steps(0) {
            return Ok(None);
        }
        let mut counted = self.count(context, label, bound, MANY)?;
        if counted.hits > MANY {
            if let Bound::Anchor(end) = bound
                && let Some(found) = self.divided(context, label, end)?
            {
                return Ok(found);
            }
            counted = self.count(context, label, bound, u64::MAX)?;
        }
        let start = context.timeline.get(label).map_or(0, |anchor| anchor.event);
        let Counted { mut hits, last_event, end } = counted;
        if let Some(event) = self.written_by_system(context.log, start, end)
            && (hits == 0 || event >= last_event)
        {
            let position = context.after_event(label.clone(), event)?;
            return Ok(Some(Found { position, pause: None }));
        }
        while hits > 0 {
            let found = self.catch(context, label, bound, hits)?;
            if found.position != *self.origin || matches!(self.quarry, Quarry::Write { .. }) {
                return Ok(Some(found));
            }
            hits -= 1;
        }
        self.at_start(context, label)
    }

    /// The anchor that a stretch begins with can be what is looked for.
    fn at_start(&self, context: &mut Context<'_>, label: &Label) -> Result<Option<Found>, ReplayError> {
        let mut replica = context.replica_at(label)?;
        (self.arm)(&mut replica)?;
        let pause = Pause::Breakpoint(replica.pc()?);
        let armed = replica.overlay.contains(replica.pc()?);
        if !armed || !self.is_quarry(&replica, &pause)? {
            return Ok(None);
        }
        Ok(Some(Found { position: Position { anchor: label.clone(), steps: 0 }, pause: Some(pause) }))
    }

    /// How many there are in a stretch, if not more than `most`.
    fn count(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
        most: u64,
    ) -> Result<Counted, ReplayError> {
        let (mut hits, mut last_event) = (0, 0);
        let replica = context.scan(label, bound, self.arm, &mut |replica, pause| {
            if self.is_quarry(replica, pause)? {
                hits += 1;
                last_event = replica.event();
            }
            Ok(hits > most)
        })?;
        Ok(Counted { hits, last_event, end: replica.event() })
    }

    /// Looks at the last few steps of a stretch, then at its later half, and then at the earlier one. `None` where it
    /// cannot be divided.
    fn divided(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        end: &Label,
    ) -> Result<Option<Option<Found>>, ReplayError> {
        let last = Position { anchor: end.clone(), steps: 0 };
        let near = context.before(&last, &mut None)?.map(|position| position.anchor);
        let mut end = end.clone();
        if let Some(near) = near.filter(|near| near > label) {
            if let Some(found) = self.stretch(context, &near, &Bound::Anchor(end))? {
                return Ok(Some(Some(found)));
            }
            end = near;
        }
        let bound = Bound::Anchor(end.clone());
        let begun = Instant::now();
        context.scan(label, &bound, &|_| Ok(()), &mut |_, _| Ok(false))?;
        let time = begun.elapsed();
        let middle = if time > SHORT { context.middle(label, &end, time)? } else { None };
        let Some(middle) = middle else {
            return Ok(None);
        };
        if let Some(found) = self.stretch(context, &middle, &bound)? {
            return Ok(Some(Some(found)));
        }
        Ok(Some(self.stretch(context, label, &Bound::Anchor(middle))?))
    }

    /// Goes to the last of them again.
    fn catch(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
        hits: u64,
    ) -> Result<Found, ReplayError> {
        let mut replica = context.replica_at(label)?;
        (self.arm)(&mut replica)?;
        let mut left = hits;
        let arrival = context.run(&mut replica, bound, &mut |replica, pause| {
            if self.is_quarry(replica, pause)? {
                left -= 1;
            }
            Ok(left == 0)
        })?;
        let pause = match arrival {
            Arrival::Stopped(pause) => Some(pause),
            // At the bound itself, as a write that was watched.
            Arrival::AtBound => None,
        };
        let position = match bound {
            Bound::Anchor(end) if pause.is_none() => Position { anchor: end.clone(), steps: 0 },
            _ => {
                let mut past = Past { replica, anchor: label.clone(), steps: None };
                context.name(&mut past)?
            }
        };
        Ok(Found { position, pause: pause.or(Some(Pause::Watch(Vec::new()))) })
    }

    fn is_quarry(&self, replica: &Replica, pause: &Pause) -> Result<bool, ReplayError> {
        Ok(match (self.quarry, pause) {
            (Quarry::Stops(_), Pause::Breakpoint(_) | Pause::Watch(_))
            | (Quarry::Write { .. }, Pause::Watch(_)) => true,
            (Quarry::Call { address, stack }, Pause::Breakpoint(at)) => {
                *at == address && replica.registers()?.sp() == stack
            }
            _ => false,
        })
    }

    /// The last event in which the system wrote there, or put other memory there.
    fn written_by_system(&self, log: &Log, start: u64, end: u64) -> Option<u64> {
        let Quarry::Write { address, size } = self.quarry else { return None };
        let wanted = address..address + size;
        let overlaps = |range: Range<u64>| range.start < wanted.end && wanted.start < range.end;
        let mut events = log.range(start, end).rev();
        let found = events.find(|(index, event)| match event {
            // What a program prints is kept as if it were written; it is not.
            Event::Call(Call { number: libc::SYS_write, .. }) => false,
            Event::Call(Call { replay: Replay::Emulate(writes), .. }) | Event::Interrupted { writes, .. } => {
                writes.iter().any(|write| overlaps(write.address..write.address + write.bytes.len() as u64))
            }
            _ => redefined(log, *index).into_iter().any(overlaps),
        });
        found.map(|(index, _)| index)
    }

    /// Whether something that cannot be replayed changed the memory.
    fn across_barrier(
        &mut self,
        context: &mut Context<'_>,
        previous: &Label,
        label: &Label,
    ) -> Result<Option<Found>, ReplayError> {
        let (address, size) = match self.quarry {
            Quarry::Write { address, size } => (address, size),
            Quarry::Call { .. } => return Ok(None),
            Quarry::Stops(signals) => {
                let last = context.timeline.get(label).and_then(|anchor| anchor.event.checked_sub(1));
                let stops = last.and_then(|last| context.log.get(last)).is_some_and(
                    |event| matches!(event, Event::Signal { number } if signals.contains(*number)),
                );
                let position = Position { anchor: previous.clone(), steps: 0 };
                return Ok(stops.then_some(Found { position, pause: None }));
            }
        };
        let mut replica = context.replica_at(previous)?;
        let bound = context.bound_after(previous);
        context.run(&mut replica, &bound, &mut |_, _| Ok(false))?;
        let after = context.replica_at(label)?;
        let (mut old, mut new) = (vec![0; size as usize], vec![0; size as usize]);
        let (had, has) =
            (replica.memory.read_some(address, &mut old), after.memory.read_some(address, &mut new));
        let changed = had != has || old != new;
        Ok(changed.then(|| Found { position: Position { anchor: label.clone(), steps: 0 }, pause: None }))
    }
}
