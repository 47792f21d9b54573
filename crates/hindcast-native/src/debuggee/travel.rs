//! Moving in the past: forwards through it, to a moment, and back to where something last happened.

use std::{
    sync::{PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use super::Debuggee;
use crate::{
    process::Halt,
    record::{Event, Log, Recorder, Replay},
    replay::{
        Advance, Arrival, Bound, Context, Functions, Label, Past, Pause, Position, ReplayError, Replica,
    },
    sys::{GeneralRegisters, TraceError, WatchKind},
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
    /// Works on the recording, if there is one.
    fn travel<T>(
        &mut self,
        functions: Functions<'_>,
        work: impl FnOnce(
            &mut Context<'_>,
            &mut Option<Past>,
            &mut Option<crate::replay::Window>,
        ) -> Result<T, ReplayError>,
    ) -> Result<T, ReplayError> {
        let bell = self.interrupt.clone();
        let recorder: &mut Recorder = self.live.recorder_mut().ok_or(TraceError::Gone)?;
        let mut context =
            Context { log: &recorder.log, timeline: &mut recorder.timeline, functions, asked: &bell.asked };
        let result = work(&mut context, &mut self.past, &mut self.window);
        bell.asked.store(false, Ordering::SeqCst);
        result
    }

    /// Interruptions are for the replay until [`Self::arrive`].
    pub(crate) fn depart(&mut self) {
        self.interrupt.asked.store(false, Ordering::SeqCst);
        self.interrupt.travelling.store(true, Ordering::SeqCst);
    }

    /// Interruptions are for what is looked at now.
    pub(crate) fn arrive(&mut self) {
        let replica = self.past.as_ref().and_then(|past| past.replica.interrupt().try_clone().ok());
        self.interrupt.travelling.store(replica.is_some(), Ordering::SeqCst);
        *self.interrupt.replica.lock().unwrap_or_else(PoisonError::into_inner) = replica;
    }

    /// The moment that is looked at; `None` where it has no name.
    pub(crate) fn position(&mut self) -> Result<Option<Position>, ReplayError> {
        if self.past.is_some() {
            return self.travel(&|_| None, |context, past, _| {
                past.as_mut().map(|past| context.name(past)).transpose()
            });
        }
        self.live.anchor()?;
        let Some(recorder) = self.live.recorder_mut() else { return Ok(None) };
        let Some(position) = recorder.timeline.frontier().cloned() else { return Ok(None) };
        if let Some(anchor) = recorder.timeline.get_mut(&position.anchor) {
            anchor.pinned = true;
            anchor.walked = anchor.walked.max(position.steps);
        }
        Ok(Some(position))
    }

    /// The moment that is looked at, if it has a name already.
    pub(crate) fn known_position(&self) -> Option<Position> {
        match &self.past {
            Some(past) => past.steps.map(|steps| Position { anchor: past.anchor.clone(), steps }),
            None => self.live.recorder()?.timeline.frontier().cloned(),
        }
    }

    /// The last moment of the recording before what is not recorded.
    pub(crate) fn end_of_history(
        &mut self,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, _| {
            let Some(last) = context.timeline.last().cloned() else { return Ok(None) };
            let end = context.log.len();
            match end.checked_sub(1).map(|index| context.log.get(index)) {
                Some(Some(Event::Barrier { .. }))
                    if context.timeline.get(&last).is_some_and(|anchor| anchor.event < end) =>
                {
                    context.before_event(last, end - 1).map(Some)
                }
                _ => Ok(Some(Position { anchor: last, steps: 0 })),
            }
        })
    }

    /// Makes sure that a moment exists: one right behind an event may have no anchor yet.
    pub(crate) fn materialise(
        &mut self,
        position: Position,
        functions: Functions<'_>,
    ) -> Result<Position, ReplayError> {
        self.travel(functions, |context, _, _| {
            if context.timeline.get(&position.anchor).is_some() {
                return Ok(position);
            }
            let unknown = || ReplayError::NoSuchMoment;
            let event = position.anchor.aligned_event().ok_or_else(unknown)?;
            let before = context.timeline.at_event(event).cloned().ok_or_else(unknown)?;
            if event > context.log.len() || event == 0 {
                return Err(unknown());
            }
            let anchor = context.after_event(before, event - 1)?.anchor;
            Ok(Position { anchor, steps: position.steps })
        })
    }

    /// Goes to a moment.
    pub(crate) fn go_to(&mut self, position: &Position, functions: Functions<'_>) -> Result<(), ReplayError> {
        if self.past.is_none()
            && self.live.ended().is_none()
            && self.known_position().as_ref() == Some(position)
        {
            return Ok(());
        }
        let frontier = self.live.recorder().and_then(|recorder| recorder.timeline.frontier().cloned());
        if frontier.as_ref() == Some(position) && self.live.ended().is_none() {
            self.go_live();
            return Ok(());
        }
        let replica = self.travel(functions, |context, _, window| {
            let replica = context.replica_of(position, window)?;
            context.told(&position.anchor, position.steps);
            Ok(replica)
        })?;
        self.show(replica, position.anchor.clone(), Some(position.steps))?;
        Ok(())
    }

    /// Looks at a replica from now on, with the breakpoints of what was looked at before.
    fn show(&mut self, mut replica: Replica, anchor: Label, steps: Option<u32>) -> Result<(), TraceError> {
        let (overlay, debug_registers) = match &self.past {
            Some(past) => (&past.replica.overlay, past.replica.debug_registers()),
            None => (self.live.overlay(), self.live.debug_registers()),
        };
        replica.overlay.adopt(&replica.memory, overlay);
        replica.set_debug_registers(debug_registers)?;
        self.past = Some(Past { replica, anchor, steps });
        self.arrive();
        Ok(())
    }

    /// Looks at the live process again.
    pub(crate) fn go_live(&mut self) {
        if let Some(past) = self.past.take() {
            self.live.take_over(&past.replica.overlay, past.replica.debug_registers());
        }
        self.arrive();
    }

    /// Forwards through the past.
    pub(super) fn replay(&mut self, functions: Functions<'_>) -> Result<Halt, TraceError> {
        let pid = self.pid();
        loop {
            let ran = self.travel(functions, |context, past, _| {
                let past = past.as_mut().ok_or(TraceError::Gone)?;
                let frontier = context.timeline.frontier().cloned();
                if frontier.as_ref().is_some_and(|frontier| frontier.anchor == past.anchor) {
                    context.name(past)?;
                }
                let bound = match (frontier, past.steps) {
                    (Some(frontier), Some(steps)) if frontier.anchor == past.anchor => {
                        Bound::Steps(frontier.steps.saturating_sub(steps))
                    }
                    _ => context.bound_after(&past.anchor),
                };
                past.steps = None;
                Ok((context.run(&mut past.replica, &bound, &mut |_, _| Ok(true))?, bound))
            });
            match ran {
                Ok((Arrival::Stopped(Pause::Breakpoint(address)), _)) => {
                    return Ok(Halt::Breakpoint(pid, address));
                }
                Ok((Arrival::Stopped(Pause::Watch(slots)), _)) => return Ok(Halt::Watch(pid, slots)),
                Ok((Arrival::Stopped(_), _)) => {}
                Ok((Arrival::AtBound, bound)) => {
                    if let Some(halt) = self.arrived(bound)? {
                        return Ok(halt);
                    }
                }
                Err(ReplayError::Interrupted) => return Ok(Halt::Interrupted(pid)),
                Err(ReplayError::Diverged(reason)) => return Err(TraceError::Diverged(reason)),
                Err(ReplayError::Trace(error)) => return Err(error),
                Err(error) => return Err(TraceError::Diverged(error.to_string())),
            }
        }
    }

    /// A replica got to the end of a stretch.
    fn arrived(&mut self, bound: Bound) -> Result<Option<Halt>, TraceError> {
        let pid = self.pid();
        match bound {
            Bound::Steps(_) => {
                self.go_live();
                return Ok(Some(Halt::Present(pid)));
            }
            Bound::Anchor(label) => {
                let past = self.past.as_mut().ok_or(TraceError::Gone)?;
                past.anchor = label;
                past.steps = Some(0);
            }
            Bound::Boundary if !self.jump()? => {
                self.go_live();
                return Ok(Some(Halt::Present(pid)));
            }
            Bound::Boundary => {}
        }
        if self.is_present() {
            self.go_live();
            return Ok(Some(Halt::Present(pid)));
        }
        let past = self.past.as_ref().ok_or(TraceError::Gone)?;
        let pc = past.replica.pc()?;
        Ok(past.replica.overlay.contains(pc).then_some(Halt::Breakpoint(pid, pc)))
    }

    fn is_present(&self) -> bool {
        let frontier = self.live.recorder().and_then(|recorder| recorder.timeline.frontier());
        self.past.is_some() && frontier.is_some() && self.known_position().as_ref() == frontier
    }

    /// Over what cannot be replayed, to the anchor behind it; false where there is none.
    fn jump(&mut self) -> Result<bool, TraceError> {
        let next = self.travel(&|_| None, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            let Some(next) = context.timeline.after(&past.anchor).cloned() else { return Ok(None) };
            let replica = context.replica_at(&next)?;
            Ok(Some((next, replica)))
        });
        match next {
            Ok(Some((next, replica))) => {
                self.show(replica, next, Some(0))?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(ReplayError::Trace(error)) => Err(error),
            Err(error) => Err(TraceError::Diverged(error.to_string())),
        }
    }

    /// One step forwards in the past.
    pub(super) fn replay_step(&mut self) -> Result<Halt, TraceError> {
        let pid = self.pid();
        let stepped = self.travel(&|_| None, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            if past.steps == Some(0) && enters_handler(context, &past.anchor) {
                return Ok(Pause::Boundary);
            }
            let pause = past.replica.advance(context.log, Advance::Step, u64::MAX)?;
            if matches!(pause, Pause::Stepped | Pause::Watch(_)) {
                past.steps = past.steps.map(|steps| steps + 1);
                context.passed(past)?;
            }
            Ok(pause)
        });
        let halt = match stepped {
            Ok(Pause::Watch(slots)) => Halt::Watch(pid, slots),
            Ok(Pause::Boundary) => {
                if !self.jump()? {
                    self.go_live();
                    return Ok(Halt::Present(pid));
                }
                Halt::Stepped(pid)
            }
            Ok(Pause::Interrupted) | Err(ReplayError::Interrupted) => return Ok(Halt::Interrupted(pid)),
            Ok(_) => Halt::Stepped(pid),
            Err(ReplayError::Diverged(reason)) => return Err(TraceError::Diverged(reason)),
            Err(ReplayError::Trace(error)) => return Err(error),
            Err(error) => return Err(TraceError::Diverged(error.to_string())),
        };
        if self.is_present() {
            self.go_live();
        }
        Ok(halt)
    }

    /// The moment one step before another; `None` at the start.
    pub(crate) fn before(
        &mut self,
        position: &Position,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, window| context.before(position, window))
    }

    /// The registers at a moment.
    pub(crate) fn registers_at(
        &mut self,
        position: &Position,
        functions: Functions<'_>,
    ) -> Result<GeneralRegisters, ReplayError> {
        self.travel(functions, |context, _, window| context.registers_at(position, window))
    }

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
                if bound == Bound::Boundary
                    && let Some(found) = hunt.across_barrier(context, &previous, &label)?
                {
                    return Ok(Some(found));
                }
                label = previous;
            }
        })
    }
}

/// Whether the next thing after an anchor is a signal handler, or a change by the user.
fn enters_handler(context: &Context<'_>, label: &Label) -> bool {
    let Some(next) = context.timeline.after(label) else { return false };
    let (Some(here), Some(there)) = (context.timeline.get(label), context.timeline.get(next)) else {
        return false;
    };
    there.event == here.event + 1
        && matches!(context.log.get(here.event), Some(Event::Signal { .. } | Event::Edit))
        && context.timeline.follows_barrier(next, context.log)
}

/// A search through the past, stretch by stretch.
struct Hunt<'a> {
    quarry: Quarry,
    arm: &'a dyn Fn(&mut Replica) -> Result<(), ReplayError>,
    /// What happened right there is known already.
    origin: &'a Position,
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
        let (mut hits, mut last_event) = self.count(context, label, bound, MANY)?;
        if hits > MANY {
            if let Bound::Anchor(end) = bound
                && let Some(found) = self.divided(context, label, end)?
            {
                return Ok(found);
            }
            (hits, last_event) = self.count(context, label, bound, u64::MAX)?;
        }
        if let Some(event) = self.written_by_system(
            context.log,
            context.timeline.get(label).map_or(0, |anchor| anchor.event),
            self.end_event(context, bound),
        ) && (hits == 0 || event >= last_event)
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

    /// How many there are in a stretch, if not more than `most`, and in which event the last of them was.
    fn count(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
        most: u64,
    ) -> Result<(u64, u64), ReplayError> {
        let (mut hits, mut last_event) = (0, 0);
        context.scan(label, bound, self.arm, &mut |replica, pause| {
            if self.is_quarry(replica, pause)? {
                hits += 1;
                last_event = replica.event();
            }
            Ok(hits > most)
        })?;
        Ok((hits, last_event))
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

    fn end_event(&self, context: &Context<'_>, bound: &Bound) -> u64 {
        match bound {
            Bound::Anchor(label) => context.timeline.get(label).map_or(0, |anchor| anchor.event),
            // A few steps: what happens in them is found by them.
            Bound::Steps(_) => 0,
            Bound::Boundary => context.log.len(),
        }
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

    /// The last event in which the system wrote there.
    fn written_by_system(&self, log: &Log, start: u64, end: u64) -> Option<u64> {
        let Quarry::Write { address, size } = self.quarry else { return None };
        let wanted = address..address + size;
        let mut events = log.range(start, end).rev();
        events.find_map(|(index, event)| {
            // What a program prints is kept as if it were written; it is not.
            let Event::Call(call) = event else { return None };
            if call.number == libc::SYS_write {
                return None;
            }
            let Replay::Emulate(writes) = &call.replay else { return None };
            let overlaps = writes.iter().any(|write| {
                write.address < wanted.end && wanted.start < write.address + write.bytes.len() as u64
            });
            overlaps.then_some(index)
        })
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
        context.run(&mut replica, &Bound::Boundary, &mut |_, _| Ok(false))?;
        let after = context.replica_at(label)?;
        let (mut old, mut new) = (vec![0; size as usize], vec![0; size as usize]);
        let (had, has) =
            (replica.memory.read_some(address, &mut old), after.memory.read_some(address, &mut new));
        let changed = had != has || old != new;
        Ok(changed.then(|| Found { position: Position { anchor: label.clone(), steps: 0 }, pause: None }))
    }
}
