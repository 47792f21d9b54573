//! Back to where something last happened.

use std::time::{Duration, Instant};

use super::{
    Debuggee,
    judge::{Claims, Judge},
    losses::{code_losses, last_written_by_system},
};
use crate::{
    record::{Event, Log},
    replay::{
        Arrival, Bound, Context, Functions, Gate, Label, Past, Pause, Position, ReplayError, Replica, check,
    },
    sys::{DebugRegisters, WatchKind, share_pages},
};

/// What is looked for in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quarry {
    /// Whatever would have stopped the program: breakpoints and watchpoints as they are now, and these signals.
    Stops(SignalSet),
    /// Getting to an address with this stack pointer, or with any.
    Call { address: u64, stack: Option<u64> },
    /// A write to memory, also one that left the value as it was.
    Write { address: u64, size: u64 },
    /// An access to memory, by the program itself.
    Access { address: u64, size: u64 },
}

/// A search that was interrupted: behind this stretch there is nothing.
#[derive(Debug)]
pub(super) struct Interrupted {
    quarry: Quarry,
    position: Position,
    label: Label,
    bound: Bound,
}

/// Where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Right after it happened, or right before the instruction at the address.
    pub(crate) position: Position,
    /// What stopped there; nothing where the system wrote or a signal came.
    pub(crate) pause: Option<Pause>,
    /// Who wants to stop there.
    pub(crate) claims: Claims,
    /// Whether other code was mapped up to this moment: nothing was found behind it.
    pub(crate) is_other_code: bool,
}

impl Found {
    pub(super) fn at(position: Position, pause: Option<Pause>) -> Self {
        Self { position, pause, claims: Claims::default(), is_other_code: false }
    }
}

/// Some of the signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Those that always stop.
    pub(crate) fn faults() -> Self {
        const FAULTS: [i32; 6] =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];
        FAULTS.into_iter().fold(Self(0), Self::with)
    }

    pub(crate) fn with(self, signal: i32) -> Self {
        Self(self.0 | 1 << (signal & 63))
    }

    pub(crate) fn contains(self, signal: i32) -> bool {
        self.0 >> (signal & 63) & 1 == 1
    }
}

/// A search that was interrupted looks at one stretch before it can be interrupted again, for no longer than this.
const DEAF: Duration = Duration::from_secs(5);
/// More stops than this in one stretch, and a shorter one is looked at first.
const MANY: usize = 4000;
/// A stretch that takes no longer than this is not divided any more: all its stops are seen in a second or so.
const SHORT: Duration = Duration::from_millis(1);

impl Debuggee {
    /// Has a judge count all stops between two moments, those at the later one included.
    pub(crate) fn count_between(
        &mut self,
        earlier: &Position,
        later: &Position,
        judge: &mut dyn Judge,
        functions: Functions<'_>,
    ) -> Result<(), ReplayError> {
        let quarry = Quarry::Stops(SignalSet::none());
        self.hunted(later, Some(earlier), quarry, Some(judge), functions).map(drop)
    }

    /// Where a judge last wants to stop between two moments.
    pub(crate) fn find_between(
        &mut self,
        earlier: &Position,
        later: &Position,
        judge: &mut dyn Judge,
        functions: Functions<'_>,
    ) -> Result<Option<Found>, ReplayError> {
        self.hunted(later, Some(earlier), Quarry::Stops(SignalSet::none()), Some(judge), functions)
    }

    /// Where something last happened before a moment; `judge` is for stops.
    pub(crate) fn find_before(
        &mut self,
        position: &Position,
        quarry: Quarry,
        judge: Option<&mut dyn Judge>,
        functions: Functions<'_>,
    ) -> Result<Option<Found>, ReplayError> {
        self.hunted(position, None, quarry, judge, functions)
    }

    /// Where something last happened before a moment, and behind another one if there is one, that a judge wants.
    pub(crate) fn find_change(
        &mut self,
        before: &Position,
        behind: Option<&Position>,
        quarry: Quarry,
        judge: &mut dyn Judge,
        functions: Functions<'_>,
    ) -> Result<Option<Found>, ReplayError> {
        self.hunted(before, behind, quarry, Some(judge), functions)
    }

    fn hunted(
        &mut self,
        position: &Position,
        floor: Option<&Position>,
        quarry: Quarry,
        judge: Option<&mut dyn Judge>,
        functions: Functions<'_>,
    ) -> Result<Option<Found>, ReplayError> {
        let own = judge.as_ref().and_then(|judge| judge.places());
        let (overlay, debug_registers) = match (own, &self.past) {
            (Some(places), _) => (places, DebugRegisters::default()),
            (None, Some(past)) => (past.replica.overlay.addresses(), past.replica.debug_registers()),
            (None, None) => (self.live.overlay().addresses(), self.live.debug_registers()),
        };
        let arm = move |replica: &mut Replica| -> Result<(), ReplayError> {
            match quarry {
                Quarry::Stops(_) => {
                    for &address in &overlay {
                        replica.arm(address);
                    }
                    replica.set_debug_registers(debug_registers)?;
                }
                Quarry::Call { address, .. } => {
                    replica.arm(address);
                }
                Quarry::Write { address, size } | Quarry::Access { address, size } => {
                    let is_write = matches!(quarry, Quarry::Write { .. });
                    let kind = if is_write { WatchKind::Write } else { WatchKind::ReadWrite };
                    if replica.watch(address, size, kind)?.is_none() {
                        return Err(ReplayError::TooLarge(size));
                    }
                }
            }
            Ok(())
        };
        let resumes = |interrupted: &Interrupted| {
            interrupted.quarry == quarry && interrupted.position == *position && judge.is_none()
        };
        let mut reached = self.interrupted.take().filter(resumes);
        let result = self.travel(functions, |context, _, window| {
            let changes = match (quarry, floor) {
                (Quarry::Stops(_), None) => code_losses(context.log),
                _ => Vec::new(),
            };
            let gates = match &judge {
                // Code of ours would be seen by what watches memory.
                Some(judge) if debug_registers.is_empty() => judge.gates(),
                _ => Vec::new(),
            };
            let mut hunt = Hunt { quarry, arm: &arm, origin: position, floor, judge, gates };
            let executes = position.steps > 0 || !context.gives_way_at(&position.anchor);
            if hunt.judge.is_some() && executes {
                hunt.pass_origin(context.replica_of(position, window)?)?;
            }
            let mut label = position.anchor.clone();
            let mut bound = Bound::Steps(position.steps);
            if let Some(reached) =
                reached.as_ref().filter(|reached| context.timeline.get(&reached.label).is_some())
            {
                (label, bound) = (reached.label.clone(), reached.bound.clone());
                context.deaf_until = Some(Instant::now() + DEAF);
            }
            loop {
                if floor.is_some_and(|floor| label < floor.anchor) {
                    return Ok(None);
                }
                reached = Some(Interrupted {
                    quarry,
                    position: position.clone(),
                    label: label.clone(),
                    bound: bound.clone(),
                });
                let start = context.timeline.get(&label).map_or(0, |anchor| anchor.event);
                let end = match &bound {
                    Bound::Anchor(next) => context.timeline.get(next).map_or(start, |anchor| anchor.event),
                    Bound::Events(count) => *count,
                    // What ends it is looked at by itself.
                    Bound::Boundary => match context.timeline.after(&label) {
                        Some(next) => context.timeline.get(next).map_or(start, |anchor| anchor.event - 1),
                        None => context.log.len(),
                    },
                    Bound::Steps(_) => start,
                };
                let change = changes.iter().rev().copied().find(|change| (start..end).contains(change));
                if let Some(change) = change {
                    let behind = context.after_event(label.clone(), change)?.anchor;
                    if let Some(found) = hunt.stretch(context, &behind, &bound)? {
                        return Ok(Some(found));
                    }
                    let before = context.before_event(label, change)?;
                    return Ok(Some(Found { is_other_code: true, ..Found::at(before, None) }));
                }
                if let Some(found) = hunt.stretch(context, &label, &bound)? {
                    return Ok(Some(found));
                }
                let Some(previous) = context.timeline.before(&label).cloned() else { return Ok(None) };
                bound = context.bound_after(&previous);
                if matches!(bound, Bound::Boundary | Bound::Events(_))
                    && let Some(found) = hunt.across_barrier(context, &previous, &label, &changes)?
                {
                    return Ok(Some(found));
                }
                label = previous;
                context.deaf_until = None;
            }
        });
        if matches!(result, Err(ReplayError::Interrupted)) {
            self.interrupted = reached;
        }
        result
    }
}

/// A search through the past, stretch by stretch.
pub(super) struct Hunt<'a, 'judge> {
    pub(super) quarry: Quarry,
    arm: &'a dyn Fn(&mut Replica) -> Result<(), ReplayError>,
    /// What happened right there is known already.
    pub(super) origin: &'a Position,
    /// What happened up to there does not matter.
    pub(super) floor: Option<&'a Position>,
    /// For stops.
    pub(super) judge: Option<&'a mut (dyn Judge + 'judge)>,
    /// What can be counted by code.
    pub(super) gates: Vec<Gate>,
}

/// What there is in a stretch.
pub(super) struct Counted {
    /// Who wants to stop, in the order of time.
    pub(super) hits: Vec<Claims>,
    /// How often it was stopped for that.
    pauses: usize,
    /// How many events had happened at the last of them.
    last_event: u64,
    /// How many had happened at its end.
    end: u64,
}

impl Hunt<'_, '_> {
    /// A breakpoint that the search begins at is one of those that were met up to there.
    fn pass_origin(&mut self, mut replica: Replica) -> Result<(), ReplayError> {
        let claims = self.claims_here(&mut replica)?;
        if let (Some(judge), false) = (&mut self.judge, claims.is_empty()) {
            judge.stops(&claims);
        }
        Ok(())
    }

    /// Who wants to stop where a replica stands, before it goes on.
    pub(super) fn claims_here(&mut self, replica: &mut Replica) -> Result<Claims, ReplayError> {
        (self.arm)(replica)?;
        let pc = replica.pc()?;
        match replica.overlay.contains(pc) {
            true => Ok(self.meet(replica, &Pause::Breakpoint(pc))?.unwrap_or_default()),
            false => Ok(Claims::default()),
        }
    }

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
        if self.is_untouched(context, label, bound) {
            return Ok(None);
        }
        if let Some(found) = self.sifted(context, label, bound)? {
            return match (found, self.floor.filter(|floor| floor.anchor == *label)) {
                (None, None) => self.at_start(context, label),
                (found, _) => Ok(found),
            };
        }
        let mut counted = self.count(context, label, bound, MANY)?;
        if counted.pauses > MANY {
            if let Bound::Anchor(end) = bound
                && let Some(found) = self.divided(context, label, end)?
            {
                return Ok(found);
            }
            counted = self.count(context, label, bound, usize::MAX)?;
        }
        let start = context.timeline.get(label).map_or(0, |anchor| anchor.event);
        let Counted { hits, last_event, end, .. } = counted;
        if let Some(event) = self.written_by_system(context.log, start, end)
            && (hits.is_empty() || event >= last_event)
        {
            let position = context.after_event(label.clone(), event)?;
            return Ok(Some(Found::at(position, None)));
        }
        let floor = self.floor.filter(|floor| floor.anchor == *label);
        let skipped = match floor {
            Some(floor) if floor.steps > 0 => {
                let mut replica = context.replica_of(floor, &mut None)?;
                let there = usize::from(!self.claims_here(&mut replica)?.is_empty());
                self.count(context, label, &Bound::Steps(floor.steps), usize::MAX)?.hits.len() + there
            }
            _ => 0,
        };
        for (index, claims) in hits.into_iter().enumerate().skip(skipped).rev() {
            if self.judge.as_mut().is_some_and(|judge| !judge.stops(&claims)) {
                continue;
            }
            let found = self.catch(context, label, bound, index + 1)?;
            if found.position != *self.origin || matches!(self.quarry, Quarry::Write { .. }) {
                return Ok(Some(Found { claims, ..found }));
            }
        }
        if floor.is_some() { Ok(None) } else { self.at_start(context, label) }
    }

    /// The anchor that a stretch begins with can be what is looked for.
    fn at_start(&mut self, context: &mut Context<'_>, label: &Label) -> Result<Option<Found>, ReplayError> {
        let mut replica = context.replica_at(label)?;
        let position = Position { anchor: label.clone(), steps: 0 };
        if position == *self.origin || context.gives_way_at(label) {
            return Ok(None);
        }
        (self.arm)(&mut replica)?;
        let pc = replica.pc()?;
        if !replica.overlay.contains(pc) {
            return Ok(None);
        }
        let pause = Pause::Breakpoint(pc);
        let Some(claims) = self.meet(&replica, &pause)? else { return Ok(None) };
        if self.judge.as_mut().is_some_and(|judge| !judge.stops(&claims)) {
            return Ok(None);
        }
        Ok(Some(Found { claims, ..Found::at(position, Some(pause)) }))
    }

    /// How many there are in a stretch, if it is not stopped more than so often for them.
    pub(super) fn count(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
        most: usize,
    ) -> Result<Counted, ReplayError> {
        let (mut hits, mut pauses, mut last_event) = (Vec::new(), 0, 0);
        let (asked, deaf_until) = (context.asked, context.deaf_until);
        let mut replica = context.replica_at(label)?;
        self.begin(&mut replica)?;
        context.run(&mut replica, bound, &mut |replica, pause| {
            check(asked, deaf_until)?;
            if let Some(claims) = self.meet(replica, pause)? {
                hits.push(claims);
                last_event = replica.event();
            }
            // What a condition refuses is as slow where memory is watched.
            pauses = if matches!(self.quarry, Quarry::Write { .. } | Quarry::Access { .. }) {
                pauses + 1
            } else {
                hits.len()
            };
            Ok(pauses > most)
        })?;
        Ok(Counted { hits, pauses, last_event, end: replica.event() })
    }

    pub(super) fn begin(&mut self, replica: &mut Replica) -> Result<(), ReplayError> {
        (self.arm)(replica)?;
        if let Some(judge) = &mut self.judge {
            judge.begin(replica);
        }
        Ok(())
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

    /// Goes to one of them again.
    fn catch(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
        hit: usize,
    ) -> Result<Found, ReplayError> {
        let mut replica = context.replica_at(label)?;
        self.begin(&mut replica)?;
        let mut left = hit;
        let arrival = context.run(&mut replica, bound, &mut |replica, pause| {
            if self.meet(replica, pause)?.is_some() {
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
        Ok(Found::at(position, pause.or(Some(Pause::Watch(Vec::new())))))
    }

    /// Who wants to stop for what a replica met, if that is what is looked for.
    pub(super) fn meet(&mut self, replica: &Replica, pause: &Pause) -> Result<Option<Claims>, ReplayError> {
        Ok(match (self.quarry, pause) {
            (Quarry::Stops(_), Pause::Breakpoint(_) | Pause::Watch(_)) => match &mut self.judge {
                Some(judge) => Some(judge.meet(replica, pause)?).filter(|claims| !claims.is_empty()),
                None => Some(Claims::default()),
            },
            (Quarry::Write { .. } | Quarry::Access { .. }, Pause::Watch(_)) => match &mut self.judge {
                Some(judge) => Some(judge.meet(replica, pause)?).filter(|claims| !claims.is_empty()),
                None => Some(Claims::default()),
            },
            (Quarry::Call { address, stack }, Pause::Breakpoint(at))
                if *at == address && (stack.is_none() || Some(replica.registers()?.sp()) == stack) =>
            {
                Some(Claims::default())
            }
            _ => None,
        })
    }

    /// Whether nothing can have written between an anchor and the next one: both still have the same page, and the system
    /// did nothing to it.
    fn is_untouched(&self, context: &Context<'_>, label: &Label, bound: &Bound) -> bool {
        let Quarry::Write { address, size } = self.quarry else { return false };
        let next = match bound {
            Bound::Anchor(next) => Some(next),
            Bound::Steps(_) => None,
            Bound::Boundary | Bound::Events(_) => context.timeline.after(label),
        };
        let next = next.and_then(|next| context.timeline.get(next));
        let (Some(here), Some(next)) = (context.timeline.get(label), next) else { return false };
        self.written_by_system(context.log, here.event, next.event).is_none()
            && share_pages(here.frozen.tid(), next.frozen.tid(), address..address + size)
    }

    /// The last event in which the system wrote there, or put other memory there.
    fn written_by_system(&self, log: &Log, start: u64, end: u64) -> Option<u64> {
        let Quarry::Write { address, size } = self.quarry else { return None };
        last_written_by_system(log, start, end, &(address..address + size))
    }

    /// Whether something that cannot be replayed changed the memory.
    fn across_barrier(
        &mut self,
        context: &mut Context<'_>,
        previous: &Label,
        label: &Label,
        changes: &[u64],
    ) -> Result<Option<Found>, ReplayError> {
        let (address, size) = match self.quarry {
            Quarry::Write { address, size } => (address, size),
            Quarry::Call { .. } | Quarry::Access { .. } => return Ok(None),
            Quarry::Stops(signals) => {
                let last = context.timeline.get(label).and_then(|anchor| anchor.event.checked_sub(1));
                if let Some(last) = last.filter(|last| changes.contains(last)) {
                    let before = context.before_event(previous.clone(), last)?;
                    return Ok(Some(Found { is_other_code: true, ..Found::at(before, None) }));
                }
                let stops = last.and_then(|last| context.log.get(last)).is_some_and(
                    |event| matches!(&*event, Event::Signal { number, .. } if signals.contains(*number)),
                );
                let position = Position { anchor: previous.clone(), steps: 0 };
                return Ok(stops.then(|| Found::at(position, None)));
            }
        };
        let bound = context.bound_after(previous);
        if self.is_untouched(context, previous, &bound) {
            return Ok(None);
        }
        let mut replica = context.replica_at(previous)?;
        context.run(&mut replica, &bound, &mut |_, _| Ok(false))?;
        let after = context.replica_at(label)?;
        let (mut old, mut new) = (vec![0; size as usize], vec![0; size as usize]);
        let (had, has) =
            (replica.memory.read_some(address, &mut old), after.memory.read_some(address, &mut new));
        let changed = had != has || old != new;
        Ok(changed.then(|| Found::at(Position { anchor: label.clone(), steps: 0 }, None)))
    }
}
