//! Forwards through a part of the past: everything that happens to some memory, or that comes to some code.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::{Debuggee, losses::last_written_by_system};
use crate::{
    record::Log,
    replay::{
        Advance, Arrival, Bound, Context, Functions, Label, Past, Pause, Position, ReplayError, Replica,
    },
    sys::{DebugRegisters, WatchKind, share_pages},
};

/// What is looked at on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sights {
    /// Whatever writes to this memory. It must fit into the debug registers.
    Memory(Vec<Range<u64>>),
    /// Whoever comes to one of these addresses.
    Code(Vec<u64>),
}

/// Something on the way. The replica stands right behind it, or before the instruction at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The program wrote.
    Write,
    /// The system wrote, in this event.
    Event(u64),
    /// Something wrote that cannot be replayed.
    Jump,
    /// It stands at this address.
    At(u64),
}

/// What to do about something on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Pass,
    /// The moment is to be told.
    Name,
    /// Nothing more is to be seen for now.
    Stop,
    NameAndStop,
    /// Something else is to be looked at from here on, see [`Surveyor::sights`].
    LookElsewhere,
}

/// Looks at what is on the way.
pub(crate) trait Surveyor {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError>;

    /// The moment of what was seen last, as it was wished.
    fn named(&mut self, replica: &Replica, position: Position) -> Result<(), ReplayError>;

    /// What is to be looked at.
    fn sights(&self) -> Sights;
}

/// How far a survey has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Surveyed {
    /// To the end.
    All,
    /// All up to this moment was seen. Nothing at it, where that is an address.
    UpTo(Position),
    /// The same. The surveyor wished to stop there, or somebody wants something else.
    Interrupted(Position),
}

/// Nobody is heard for so long while a replica runs; where it stops, everybody is.
const DEAF: Duration = Duration::from_secs(5);

impl Debuggee {
    /// Looks at the part of a stretch that begins at a moment, up to the next checkpoint or the end of the survey.
    pub(crate) fn survey(
        &mut self,
        (from, to): (&Position, &Position),
        functions: Functions<'_>,
        surveyor: &mut dyn Surveyor,
    ) -> Result<Surveyed, ReplayError> {
        let sights = surveyor.sights();
        self.travel(functions, |context, _, window| {
            if to < from {
                return Ok(Surveyed::All);
            }
            context.deaf_until = Some(Instant::now() + DEAF);
            let next = context.timeline.after(&from.anchor).cloned();
            if let Some(next) = next.filter(|_| from.anchor != to.anchor)
                && sights.are_untouched(context, &from.anchor, &next)
            {
                return Ok(Surveyed::UpTo(Position { anchor: next, steps: 0 }));
            }
            let replica = context.replica_of(from, window)?;
            // Several anchors can be the same moment, which is seen once.
            let mut past = Past { replica, anchor: from.anchor.clone(), steps: Some(from.steps) };
            context.passed(&mut past)?;
            let Past { mut replica, anchor, steps } = past;
            let is_last = anchor >= to.anchor;
            let next = context.timeline.after(&anchor).cloned();
            let bound = context.bound_after(&anchor);
            sights.arm(&mut replica)?;
            let mut walk = Walk { sights, surveyor, replica, anchor, steps, seen: false };
            let stopped = if is_last {
                walk.walk(context, to.steps.saturating_sub(steps.unwrap_or(0)))?
            } else {
                walk.stretch(context, &bound)?
            };
            if let Some(position) = stopped {
                return Ok(Surveyed::Interrupted(position));
            }
            let Some(next) = next.filter(|_| !is_last) else { return Ok(Surveyed::All) };
            walk.jump(context, &next)?;
            Ok(Surveyed::UpTo(Position { anchor: next, steps: 0 }))
        })
    }
}

impl Debuggee {
    /// Looks at a moment without going there.
    pub(crate) fn glance<T>(
        &mut self,
        position: &Position,
        functions: Functions<'_>,
        look: impl FnOnce(&Replica) -> T,
    ) -> Result<T, ReplayError> {
        self.travel(functions, |context, _, window| {
            let replica = context.replica_of(position, window)?;
            Ok(look(&replica))
        })
    }

    /// A moment between two others, if one can be made.
    pub(crate) fn middle(
        &mut self,
        from: &Position,
        to: &Position,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, _| {
            if from.anchor == to.anchor {
                let steps = from.steps + to.steps.saturating_sub(from.steps) / 2;
                return Ok((steps > from.steps).then(|| Position { steps, ..from.clone() }));
            }
            if from.steps > 0 || to.steps > 0 || context.timeline.after(&from.anchor) != Some(&to.anchor) {
                let anchor = context.timeline.after(&from.anchor).cloned();
                let anchor = anchor.filter(|anchor| *anchor < to.anchor || to.steps > 0);
                return Ok(anchor.map(|anchor| Position { anchor, steps: 0 }));
            }
            let bound = context.bound_after(&from.anchor);
            if bound != Bound::Anchor(to.anchor.clone()) {
                return Ok(None);
            }
            let begun = Instant::now();
            context.scan(&from.anchor, &bound, &|_| Ok(()), &mut |_, _| Ok(false))?;
            let middle = context.middle(&from.anchor, &to.anchor, begun.elapsed())?;
            Ok(middle.map(|anchor| Position { anchor, steps: 0 }))
        })
    }

    /// Steps on from a moment to the first at which something is so; there must be one.
    pub(crate) fn step_until(
        &mut self,
        from: &Position,
        functions: Functions<'_>,
        is_so: &mut dyn FnMut(&Replica) -> Result<bool, ReplayError>,
    ) -> Result<Position, ReplayError> {
        self.travel(functions, |context, _, window| {
            let mut replica = context.replica_of(from, window)?;
            while !is_so(&replica)? {
                context.check()?;
                if replica.advance(context.log, Advance::Step, u64::MAX)? == Pause::Boundary {
                    return Err(ReplayError::NoSuchMoment);
                }
            }
            let mut past = Past { replica, anchor: from.anchor.clone(), steps: None };
            context.passed(&mut past)?;
            context.name(&mut past)
        })
    }

    /// Whether somebody wants something else than what goes on.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.asked.load(Ordering::SeqCst)
    }
}

impl Sights {
    fn arm(&self, replica: &mut Replica) -> Result<(), ReplayError> {
        match self {
            Self::Memory(ranges) => {
                replica.set_debug_registers(DebugRegisters::default())?;
                for range in ranges {
                    let size = range.end - range.start;
                    if replica.watch(range.start, size, WatchKind::Write)?.is_none() {
                        return Err(ReplayError::TooLarge(size));
                    }
                }
            }
            Self::Code(addresses) => {
                for &address in addresses {
                    replica.arm(address);
                }
            }
        }
        Ok(())
    }

    /// Whether nothing can have written between two anchors: both still have the same pages, and the system did nothing to
    /// them.
    fn are_untouched(&self, context: &Context<'_>, label: &Label, next: &Label) -> bool {
        let Self::Memory(ranges) = self else { return false };
        let (Some(here), Some(next)) = (context.timeline.get(label), context.timeline.get(next)) else {
            return false;
        };
        ranges.iter().all(|range| {
            last_written_by_system(context.log, here.event, next.event, range).is_none()
                && share_pages(here.frozen.tid(), next.frozen.tid(), range.clone())
        })
    }

    /// The events in which the system wrote.
    fn events(&self, log: &Log, start: u64, end: u64) -> Vec<u64> {
        let Self::Memory(ranges) = self else { return Vec::new() };
        let mut events = Vec::new();
        for range in ranges {
            let mut end = end;
            while let Some(event) = last_written_by_system(log, start, end, range) {
                events.push(event);
                end = event;
            }
        }
        events.sort_unstable();
        events.dedup();
        events
    }

    fn is_written(&self, log: &Log, events: Range<u64>) -> Option<u64> {
        self.events(log, events.start, events.end).pop()
    }
}

/// What became of something on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    Passed,
    /// Its moment is to be told.
    Named,
    /// Something else is to be looked at.
    Elsewhere,
    /// Somebody wants something else.
    Stopped {
        is_named: bool,
    },
}

fn look(
    surveyor: &mut dyn Surveyor,
    seen: &mut bool,
    replica: &mut Replica,
    sight: Sight,
    asked: &AtomicBool,
) -> Result<Looked, ReplayError> {
    let is_asked = asked.load(Ordering::Relaxed);
    let is_at = matches!(sight, Sight::At(_));
    // It is seen when the survey goes on; once only, so that something is seen each time.
    if is_asked && is_at && *seen {
        return Ok(Looked::Stopped { is_named: false });
    }
    *seen = true;
    let wish = surveyor.see(replica, sight)?;
    let is_named = matches!(wish, Wish::Name | Wish::NameAndStop);
    let stops = matches!(wish, Wish::Stop | Wish::NameAndStop) || is_asked && !is_at;
    Ok(match (stops, wish) {
        (true, _) => Looked::Stopped { is_named },
        (false, Wish::Name) => Looked::Named,
        (false, Wish::LookElsewhere) => Looked::Elsewhere,
        (false, _) => Looked::Passed,
    })
}

/// A replica on its way.
struct Walk<'a> {
    sights: Sights,
    surveyor: &'a mut dyn Surveyor,
    replica: Replica,
    /// The last anchor that it passed, also those that were made on the way.
    anchor: Label,
    /// How many steps ago, until it runs.
    steps: Option<u32>,
    /// Whether anything was seen.
    seen: bool,
}

impl Walk<'_> {
    /// Up to a bound. Gives the moment at which somebody interrupted it.
    fn stretch(&mut self, context: &mut Context<'_>, bound: &Bound) -> Result<Option<Position>, ReplayError> {
        if let Some(position) = self.look_around(context)? {
            return Ok(Some(position));
        }
        let start = self.replica.event();
        let end = match bound {
            Bound::Anchor(next) => context.timeline.get(next).map_or(start, |anchor| anchor.event),
            Bound::Events(count) => *count,
            // What ends it is looked at by itself.
            Bound::Boundary => context
                .timeline
                .after(&self.anchor)
                .and_then(|next| context.timeline.get(next))
                .map_or(context.log.len(), |next| next.event - 1),
            Bound::Steps(_) => start,
        };
        loop {
            let event = self.sights.events(context.log, self.replica.event(), end).first().copied();
            let sights = self.sights.clone();
            let stopped = match event {
                Some(event) => self.run(context, &Bound::Events(event + 1))?,
                None => self.run(context, bound)?,
            };
            if stopped.is_some() {
                return Ok(stopped);
            }
            if self.sights != sights && event != Some(self.replica.event().wrapping_sub(1)) {
                // Other events may count from here on.
                continue;
            }
            let Some(event) = event else { return Ok(None) };
            if let Some(position) = self.see(context, Sight::Event(event))? {
                return Ok(Some(position));
            }
        }
    }

    /// So many steps.
    fn walk(&mut self, context: &mut Context<'_>, count: u32) -> Result<Option<Position>, ReplayError> {
        if let Some(position) = self.look_around(context)? {
            return Ok(Some(position));
        }
        for _ in 0..count {
            let event = self.replica.event();
            if let Some(position) = self.run(context, &Bound::Steps(1))? {
                return Ok(Some(position));
            }
            if let Some(event) = self.sights.is_written(context.log, event..self.replica.event())
                && let Some(position) = self.see(context, Sight::Event(event))?
            {
                return Ok(Some(position));
            }
            if let Some(position) = self.look_around(context)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Sees an address that it stands at.
    fn look_around(&mut self, context: &mut Context<'_>) -> Result<Option<Position>, ReplayError> {
        let pc = self.replica.pc()?;
        let is_there = matches!(&self.sights, Sights::Code(addresses) if addresses.contains(&pc));
        let executes = self.steps != Some(0) || !context.gives_way_at(&self.anchor);
        if is_there && executes { self.see(context, Sight::At(pc)) } else { Ok(None) }
    }

    /// Up to a bound, without what the system does.
    fn run(&mut self, context: &mut Context<'_>, bound: &Bound) -> Result<Option<Position>, ReplayError> {
        loop {
            let asked = context.asked;
            self.steps = self.steps.filter(|_| matches!(bound, Bound::Steps(_))).map(|steps| steps + 1);
            let Self { surveyor, replica, seen, .. } = self;
            let mut looked = Looked::Passed;
            let arrival = context.run(replica, bound, &mut |replica, pause| {
                let sight = match pause {
                    Pause::Breakpoint(address) => Sight::At(*address),
                    _ => Sight::Write,
                };
                looked = look(*surveyor, seen, replica, sight, asked)?;
                Ok(looked != Looked::Passed)
            })?;
            let sights = self.sights.clone();
            if let Some(position) = self.settle(context, looked)? {
                return Ok(Some(position));
            }
            // What stops it at the bound itself was a write.
            if arrival == Arrival::AtBound || matches!(bound, Bound::Steps(_)) || self.sights != sights {
                return Ok(None);
            }
        }
    }

    /// Has something seen that did not stop the replica. Gives the moment where somebody wants something else.
    fn see(&mut self, context: &mut Context<'_>, sight: Sight) -> Result<Option<Position>, ReplayError> {
        let looked = look(self.surveyor, &mut self.seen, &mut self.replica, sight, context.asked)?;
        self.settle(context, looked)
    }

    fn settle(&mut self, context: &mut Context<'_>, looked: Looked) -> Result<Option<Position>, ReplayError> {
        let (is_named, stops) = match looked {
            Looked::Passed => return Ok(None),
            Looked::Elsewhere => (false, false),
            Looked::Named => (true, false),
            Looked::Stopped { is_named } => (is_named, true),
        };
        let position = if is_named || stops { Some(self.name(context)?) } else { None };
        if let Some(position) = position.clone().filter(|_| is_named) {
            self.surveyor.named(&self.replica, position)?;
        }
        let sights = self.surveyor.sights();
        if sights != self.sights {
            sights.arm(&mut self.replica)?;
            self.sights = sights;
        }
        Ok(position.filter(|_| stops))
    }

    fn name(&mut self, context: &mut Context<'_>) -> Result<Position, ReplayError> {
        let copy = Replica::new(self.replica.fork()?, self.replica.event())?;
        let mut past = Past { replica: copy, anchor: self.anchor.clone(), steps: self.steps };
        // It may have a name from an earlier survey.
        context.passed(&mut past)?;
        let position = context.name(&mut past)?;
        (self.anchor, self.steps) = (position.anchor.clone(), Some(position.steps));
        Ok(position)
    }

    /// Over what cannot be replayed: whether it changed the memory.
    fn jump(&mut self, context: &mut Context<'_>, next: &Label) -> Result<(), ReplayError> {
        let Sights::Memory(ranges) = &self.sights else { return Ok(()) };
        if !context.timeline.follows_interruption(next, context.log)
            && !context.timeline.follows_barrier(next, context.log)
        {
            return Ok(());
        }
        let mut after = context.replica_at(next)?;
        let bytes = |replica: &Replica, range: &Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            let count = replica.memory.read_some(range.start, &mut bytes);
            bytes.truncate(count);
            bytes
        };
        if ranges.iter().all(|range| bytes(&self.replica, range) == bytes(&after, range)) {
            return Ok(());
        }
        if matches!(self.surveyor.see(&mut after, Sight::Jump)?, Wish::Name | Wish::NameAndStop) {
            let position = Position { anchor: next.clone(), steps: 0 };
            context.told(next, 0);
            self.surveyor.named(&after, position)?;
        }
        Ok(())
    }
}
