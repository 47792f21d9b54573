//! The past as it is being looked at: a replica between two anchors, which moves forwards.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use super::{
    Advance, Frozen, Functions, Pause, Position, ReplayError, Replica, Timeline,
    landmark::run_to_state,
    state::{Likeness, State},
    timeline::Label,
};
use crate::{
    record::{Event, Log},
    sys::{self, TraceError},
};

/// A replica, and where in the recording it is.
pub(crate) struct Past {
    pub(crate) replica: Replica,
    /// The last anchor that it passed, or stands at.
    pub(crate) anchor: Label,
    /// How many steps ago, while that is known.
    pub(crate) steps: Option<u32>,
}

impl Past {
    /// Goes back to a moment a few steps ago; false where it cannot.
    pub(crate) fn wind_back(&mut self, position: &Position) -> Result<bool, TraceError> {
        let steps = self.steps.filter(|_| self.anchor == position.anchor);
        let Some(count) = steps.and_then(|steps| steps.checked_sub(position.steps)) else { return Ok(false) };
        if !self.replica.wind_back(count)? {
            return Ok(false);
        }
        self.steps = Some(position.steps);
        Ok(true)
    }
}

/// What a replay works with.
pub(crate) struct Context<'a> {
    pub(crate) log: &'a Log,
    pub(crate) timeline: &'a mut Timeline,
    pub(crate) functions: Functions<'a>,
    /// Set by who wants the replay to end.
    pub(crate) asked: &'a AtomicBool,
    /// Until then nobody is heard, so that what is interrupted again and again comes to an end all the same.
    pub(crate) deaf_until: Option<Instant>,
}

/// How far a replica may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// To this anchor.
    Anchor(Label),
    /// So many steps.
    Steps(u32),
    /// To what cannot be replayed.
    Boundary,
    /// Until so many events have happened, and not an instruction further.
    Events(u64),
}

/// How a bounded run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrival {
    AtBound,
    /// `visit` wanted it.
    Stopped(Pause),
}

/// Says whether to stop for what a replica met on its way.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&mut Replica, &Pause) -> Result<bool, ReplayError>;

/// Refuses a copy that has a file mapped which is not as it was then.
pub(super) fn check_files(log: &Log, copy: &Frozen) -> Result<(), ReplayError> {
    let changed = log.files.changed();
    if changed.is_empty() {
        return Ok(());
    }
    let mappings = sys::mappings(copy.tid()).map_err(|_| TraceError::Gone)?;
    let is_mapped = |inode: u64| mappings.iter().any(|mapping| mapping.inode == inode);
    changed.iter().find(|file| is_mapped(file.inode())).map_or(Ok(()), |file| Err(ReplayError::changed(file)))
}

/// Ends a replay if somebody asked for that, and is heard already.
pub(crate) fn check(asked: &AtomicBool, deaf_until: Option<Instant>) -> Result<(), ReplayError> {
    let is_heard = || deaf_until.is_none_or(|end| Instant::now() >= end);
    if asked.load(Ordering::Relaxed) && is_heard() { Err(ReplayError::Interrupted) } else { Ok(()) }
}

impl Context<'_> {
    /// Ends the replay if somebody asked for that.
    pub(crate) fn check(&self) -> Result<(), ReplayError> {
        check(self.asked, self.deaf_until)
    }

    /// A replica at an anchor.
    pub(crate) fn replica_at(&mut self, label: &Label) -> Result<Replica, ReplayError> {
        self.check()?;
        let anchor = self.timeline.get_mut(label).ok_or(ReplayError::NoSuchMoment)?;
        check_files(self.log, &anchor.frozen)?;
        match anchor.frozen.fork() {
            Ok(copy) => Ok(Replica::new(copy, anchor.event)?),
            Err(TraceError::Gone) => {
                self.timeline.drop_lost(self.log);
                Err(ReplayError::CopyLost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a thread's turn ends at an anchor: the instruction that it stands at there is executed when it goes on.
    pub(crate) fn gives_way_at(&self, label: &Label) -> bool {
        self.timeline.gives_way_at(label, self.log)
    }

    /// How far one can go from `label` without leaving the stretch to the next anchor.
    pub(crate) fn bound_after(&self, label: &Label) -> Bound {
        match self.timeline.after(label) {
            Some(next) if self.timeline.follows_interruption(next, self.log) => {
                Bound::Events(self.timeline.get(next).map_or(0, |anchor| anchor.event - 1))
            }
            Some(next) if self.timeline.follows_barrier(next, self.log) => Bound::Boundary,
            Some(next) => Bound::Anchor(next.clone()),
            None => self.end_after(label),
        }
    }

    /// How far one can go from the last anchor: behind the last event nobody knows how long the program went on.
    fn end_after(&self, label: &Label) -> Bound {
        let end = self.log.len();
        let event = self.timeline.get(label).map_or(end, |anchor| anchor.event);
        match end.checked_sub(1).filter(|last| *last >= event).and_then(|last| self.log.get(last)).as_deref()
        {
            Some(Event::Barrier { .. }) => Bound::Boundary,
            _ => Bound::Events(end),
        }
    }

    /// Lets a replica run to a bound.
    pub(crate) fn run(
        &mut self,
        replica: &mut Replica,
        bound: &Bound,
        visit: Visit<'_>,
    ) -> Result<Arrival, ReplayError> {
        match bound {
            Bound::Steps(count) => self.walk(replica, *count, visit),
            Bound::Boundary => self.run_to_event(replica, u64::MAX, visit),
            Bound::Events(count) => self.run_to_event(replica, *count, visit),
            Bound::Anchor(label) => {
                let anchor = self.timeline.get(label).ok_or(ReplayError::NoSuchMoment)?;
                let (event, aligned) = (anchor.event, anchor.aligned);
                let state = if aligned { None } else { Some(self.state_of(label)?) };
                let arrival = self.run_to_event(replica, event, visit)?;
                match state {
                    Some(state) if arrival == Arrival::AtBound => self.run_to_state(replica, &state, visit),
                    _ => Ok(arrival),
                }
            }
        }
    }

    /// Until so many events have happened, or something cannot be replayed.
    pub(super) fn run_to_event(
        &self,
        replica: &mut Replica,
        event: u64,
        visit: Visit<'_>,
    ) -> Result<Arrival, ReplayError> {
        while replica.event() < event {
            self.check()?;
            match replica.advance(self.log, Advance::Run, event)? {
                Pause::Event | Pause::Stepped | Pause::Alarm => {}
                Pause::Boundary if event == u64::MAX => return Ok(Arrival::AtBound),
                Pause::Boundary => {
                    return Err(ReplayError::Diverged("the recording ends too early".into()));
                }
                Pause::Interrupted => return Err(ReplayError::Interrupted),
                pause @ (Pause::Breakpoint(_) | Pause::Watch(_)) => {
                    if visit(replica, &pause)? {
                        return Ok(Arrival::Stopped(pause));
                    }
                }
            }
        }
        Ok(Arrival::AtBound)
    }

    pub(super) fn run_to_state(
        &self,
        replica: &mut Replica,
        state: &State,
        visit: Visit<'_>,
    ) -> Result<Arrival, ReplayError> {
        match run_to_state(replica, self.log, self.functions, state, None, visit)? {
            Pause::Event => Ok(Arrival::AtBound),
            Pause::Interrupted => Err(ReplayError::Interrupted),
            pause => Ok(Arrival::Stopped(pause)),
        }
    }

    /// So many steps. What stops it at the last of them is not told: that is the bound itself.
    fn walk(&self, replica: &mut Replica, count: u32, visit: Visit<'_>) -> Result<Arrival, ReplayError> {
        for step in 1..=count {
            self.check()?;
            let mut pause = replica.advance(self.log, Advance::Step, u64::MAX)?;
            if pause == Pause::Boundary {
                return Err(ReplayError::Diverged("a moment lies behind what can be replayed".into()));
            }
            let pc = replica.pc()?;
            if pause == Pause::Stepped && replica.overlay.contains(pc) {
                pause = Pause::Breakpoint(pc);
            }
            let at_end = step == count && !matches!(pause, Pause::Watch(_));
            if matches!(pause, Pause::Breakpoint(_) | Pause::Watch(_)) && !at_end && visit(replica, &pause)? {
                return Ok(Arrival::Stopped(pause));
            }
        }
        Ok(Arrival::AtBound)
    }

    /// Names the moment at which a replica stands, unless it has a name.
    pub(crate) fn name(&mut self, past: &mut Past) -> Result<Position, ReplayError> {
        if let Some(steps) = past.steps {
            // Names sort in the order of time: they are steps behind the last event.
            let event = past.replica.event();
            if self.timeline.get(&past.anchor).is_some_and(|anchor| anchor.event < event) {
                let copy = past.replica.fork()?;
                let anchor = self.anchor_at_event(past.anchor.clone(), event)?;
                let from_there = self.steps_to(&anchor, &State::of(&copy)?, steps)?;
                // Both or none: an interruption ends it half-way.
                past.steps = Some(from_there.ok_or(ReplayError::NoSuchMoment)?);
                past.anchor = anchor;
                return self.name(past);
            }
            self.told(&past.anchor, steps);
            return Ok(Position { anchor: past.anchor.clone(), steps });
        }
        let copy = past.replica.fork()?;
        let walked = self.timeline.get(&past.anchor).map_or(0, |anchor| anchor.walked);
        let steps = match walked {
            0 => None,
            walked => self.steps_to(&past.anchor, &State::of(&copy)?, walked)?,
        };
        match steps {
            Some(steps) => past.steps = Some(steps),
            None => {
                let event = past.replica.event();
                past.anchor = self.timeline.insert_right_after(&past.anchor, copy, event);
                past.steps = Some(0);
            }
        }
        self.name(past)
    }

    /// Somebody knows of this moment: its anchor must stay.
    pub(crate) fn told(&mut self, label: &Label, steps: u32) {
        if let Some(anchor) = self.timeline.get_mut(label) {
            anchor.pinned = true;
            anchor.walked = anchor.walked.max(steps);
        }
    }

    /// How many steps from an anchor a state is, if not more than `most`.
    fn steps_to(&mut self, label: &Label, state: &State, most: u32) -> Result<Option<u32>, ReplayError> {
        let mut replica = self.replica_at(label)?;
        for steps in 0..=most {
            self.check()?;
            if state.has_registers(&replica.registers()?) && state.compare(&replica)? == Likeness::Same {
                return Ok(Some(steps));
            }
            if replica.advance(self.log, Advance::Step, u64::MAX)? == Pause::Boundary {
                break;
            }
        }
        Ok(None)
    }

    /// Notices that a replica stands at the next anchor. Several can be the same moment: right behind a call, and where a
    /// signal came at once.
    pub(crate) fn passed(&mut self, past: &mut Past) -> Result<(), ReplayError> {
        while let Some(next) = self.timeline.after(&past.anchor).cloned()
            && let Some(anchor) = self.timeline.get(&next)
            && anchor.event == past.replica.event()
            && !self.timeline.follows_barrier(&next, self.log)
            && anchor.frozen.registers()?.pc() == past.replica.pc()?
            && State::of(&anchor.frozen)?.compare(&past.replica)? == Likeness::Same
        {
            past.anchor = next;
            past.steps = Some(0);
        }
        Ok(())
    }
}
