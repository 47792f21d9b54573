//! Going back: which moment came right before another, and where something last happened.

use std::{
    collections::HashMap,
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    Advance, Pause, Position, ReplayError, Replica,
    history::{Bound, Context, Visit},
    landmark::{Landmark, run_for, run_shortly_before, run_to_pass, run_to_state},
    repeat::Repeat,
    room::fits,
    sieve::is_clear,
    state::{Likeness, State},
    timeline::Label,
    window::{COPY_EVERY, Copy, Window, standing},
};
use crate::{
    record::{Event, Leaves},
    sys::{GeneralRegisters, SYSCALL_LENGTH},
};

/// So many steps are made one by one; what is further away is found by landmarks first.
pub(super) const WALK: u32 = 1500;
/// Tries to come nearer, each of which at least halves the distance in most programs, and walks in all.
const ROUNDS: usize = 400;
/// Tries to stop in the middle of a stretch, each of which waits half as long.
const SPLITS: usize = 6;
/// From a state to what it is recognised by there are not more steps than this.
const LONGEST_LEAD: u32 = 24;
/// So many rounds of a repetition are made one by one.
const ROUNDS_BEFORE: u64 = 200;
/// Two jumps nearer to each other than this would overlap.
const APART: u64 = 16;

/// What a walk found.
enum Walked {
    /// The state, after so many steps.
    Met(u32),
    /// It is later than this replica; addresses by how often they were passed, most often first.
    Not(Box<Replica>, Vec<u64>),
}

impl Context<'_> {
    /// The moment one step before; `None` at the start of the recording.
    pub(crate) fn before(
        &mut self,
        position: &Position,
        window: &mut Option<Window>,
    ) -> Result<Option<Position>, ReplayError> {
        if position.steps > 0 {
            return Ok(Some(Position { steps: position.steps - 1, ..position.clone() }));
        }
        let Some(previous) = self.timeline.before(&position.anchor).cloned() else { return Ok(None) };
        let anchor = self.timeline.get(&position.anchor).ok_or(ReplayError::NoSuchMoment)?;
        if !anchor.aligned {
            let known = window.as_ref().and_then(|window| window.way(&previous, &position.anchor));
            let near = match known {
                Some(known) => known,
                None => self.approach(previous, &position.anchor, window)?,
            };
            // At zero steps both are the same moment.
            return self.before(&near, window);
        }
        let last = anchor.event - 1;
        match self.log.get(last) {
            // Such a moment has an anchor of its own.
            Some(event) if event.is_interruption() => Ok(Some(Position { anchor: previous, steps: 0 })),
            Some(_) => self.before_event(previous, last).map(Some),
            None => Ok(None),
        }
    }

    /// Where the program stood right before an event: at the instruction that made it.
    pub(crate) fn before_event(&mut self, previous: Label, event: u64) -> Result<Position, ReplayError> {
        let address = match self.log.get(event).as_deref() {
            Some(Event::Call(call)) => call.pc - SYSCALL_LENGTH,
            Some(
                Event::Barrier { pc, .. }
                | Event::Interrupted { pc, .. }
                | Event::Left { pc, .. }
                | Event::Turn { leaves: Leaves::AtCall { pc, .. }, .. },
            ) => pc - SYSCALL_LENGTH,
            Some(Event::Turn { leaves: Leaves::BehindEvent, .. }) => {
                let anchor = self.anchor_at_event(previous, event)?;
                return Ok(Position { anchor, steps: 0 });
            }
            Some(Event::Answer(answer)) => answer.pc,
            _ => return Err(ReplayError::Diverged("there is no such event".into())),
        };
        let mut replica = self.replica_at(&previous)?;
        self.run_events(&mut replica, event)?;
        if replica.pc()? != address {
            replica.overlay.insert(&replica.memory, address).map_err(|error| {
                ReplayError::Diverged(format!("no code where an event came from: {error}"))
            })?;
            let pause = replica.advance(self.log, Advance::Run, event + 1)?;
            if pause != Pause::Breakpoint(address) {
                return Err(ReplayError::Diverged(format!("event {event} came from elsewhere ({pause:?})")));
            }
            replica.overlay.remove(&replica.memory, address);
        } else if self.timeline.get(&previous).is_some_and(|anchor| anchor.event == event) {
            return Ok(Position { anchor: previous, steps: 0 });
        }
        let copy = replica.fork()?;
        let anchor = self.timeline.insert_after(&previous, copy, event, false);
        Ok(Position { anchor, steps: 0 })
    }

    fn run_events(&self, replica: &mut Replica, event: u64) -> Result<(), ReplayError> {
        while replica.event() < event {
            self.check()?;
            if replica.advance(self.log, Advance::Run, event)? == Pause::Boundary {
                return Err(ReplayError::Diverged("the recording ends too early".into()));
            }
        }
        Ok(())
    }

    /// Finds an anchor from which a later one is only a few steps away, and how many.
    fn approach(
        &mut self,
        previous: Label,
        anchor: &Label,
        window: &mut Option<Window>,
    ) -> Result<Position, ReplayError> {
        let state = self.state_of(anchor)?;
        let event = self.timeline.get(anchor).ok_or(ReplayError::NoSuchMoment)?.event;
        let near = self.anchor_at_event(previous, event)?;
        let start = self.within_repeat(near, &state)?;
        let mut near = self.hasten(start.clone(), anchor, &state)?;
        let mut time = Duration::MAX;
        for _ in 0..ROUNDS {
            let (mut replica, sites) = match self.walk_to(&near, &state, window)? {
                Walked::Met(steps) => {
                    if let Some(window) = window {
                        window.end = Some(anchor.clone());
                    }
                    return Ok(Position { anchor: near, steps });
                }
                Walked::Not(replica, sites) => (replica, sites),
            };
            self.hurry(&mut replica, &state)?;
            let copy = replica.fork()?;
            let walked = self.timeline.insert_after(&near, copy, replica.event(), false);
            self.timeline.discard(&near, &start);
            let nearer = match self.nearer(&walked, &state, &sites, &mut time)? {
                Some(nearer) => Some(nearer),
                None => self.split(&walked, &state, time / 2)?,
            };
            near = walked;
            if let Some(nearer) = nearer {
                self.timeline.discard(&near, &start);
                near = nearer;
            }
        }
        Err(ReplayError::Diverged("the moment before could not be found".into()))
    }

    /// Runs most of the way to a state without looking for it, by how long that took the first time, and then to the
    /// last pass before it.
    fn hasten(&mut self, near: Label, anchor: &Label, state: &State) -> Result<Label, ReplayError> {
        /// How much of the way; what is left is searched, which takes several times as long.
        const SHARES: [f64; 2] = [0.6, 0.9];
        const SLOWER: f64 = 16.0;
        const WORTHWHILE: Duration = Duration::from_millis(2);
        let time = |label: &Label| self.timeline.get(label).and_then(|anchor| anchor.time);
        let way = match (time(&near), time(anchor)) {
            (Some(start), Some(end)) => end.saturating_sub(start),
            _ => Duration::ZERO,
        };
        if way < WORTHWHILE {
            return Ok(near);
        }
        let mut replica = self.replica_at(&near)?;
        let until = replica.event() + 1;
        let mut reached = Vec::new();
        for share in SHARES {
            let left = way.mul_f64(share).saturating_sub(replica.time());
            match replica.run_for(self.log, left, until) {
                Ok(Pause::Alarm) => {}
                Ok(Pause::Interrupted) => return Err(ReplayError::Interrupted),
                // Too far: something else comes after the state.
                _ => break,
            }
            reached.push((share, replica.time(), replica.fork()?));
        }
        for (share, time, copy) in reached.into_iter().rev() {
            self.check()?;
            let mut from = Replica::new(copy, until - 1)?;
            if self.has_come_to(&mut from, state)? {
                continue;
            }
            let mut scout = Replica::new(from.fork()?, until - 1)?;
            let limit = way.mul_f64((1.0 - share) * SLOWER) + WORTHWHILE;
            let mut passes = 0;
            match run_for(&mut scout, self.log, self.functions, state, limit, &mut passes) {
                Ok(Pause::Event) => {}
                Ok(Pause::Interrupted) => return Err(ReplayError::Interrupted),
                _ => continue,
            }
            let (mark, late) = state.mark();
            let wanted = passes.saturating_sub(u64::from(late));
            let label = self.insert_timed(&near, &mut from, false, time)?;
            if wanted <= 1 {
                return Ok(label);
            }
            let last = self.at_pass(&label, mark, wanted)?;
            self.timeline.discard(&label, &near);
            return Ok(last);
        }
        Ok(near)
    }

    /// An anchor where a replica stands that took so long from another one.
    fn insert_timed(
        &mut self,
        from: &Label,
        replica: &mut Replica,
        aligned: bool,
        time: Duration,
    ) -> Result<Label, ReplayError> {
        let begun = self.timeline.get(from).and_then(|anchor| anchor.time);
        let copy = replica.fork()?;
        let label = self.timeline.insert_after(from, copy, replica.event(), aligned);
        if let Some(anchor) = self.timeline.get_mut(&label) {
            anchor.time = begun.map(|begun| begun + time);
        }
        Ok(label)
    }

    /// In the middle of a repetition, an anchor a few rounds before.
    fn within_repeat(&mut self, near: Label, state: &State) -> Result<Label, ReplayError> {
        let mut replica = self.replica_at(&near)?;
        if Repeat::at(&replica, state.pc()).is_none() {
            return Ok(near);
        }
        let met = run_shortly_before(&mut replica, self.log, self.functions, state, ROUNDS_BEFORE);
        match met {
            Ok(Pause::Interrupted) => return Err(ReplayError::Interrupted),
            Ok(_) => {}
            // At its first round there are other ways to it.
            Err(ReplayError::TooFar) => return Ok(near),
            Err(error) => return Err(error),
        }
        if state.compare(&replica)? == Likeness::Same {
            return Ok(near);
        }
        let event = replica.event();
        let copy = replica.fork()?;
        Ok(self.timeline.insert_after(&near, copy, event, false))
    }

    /// Lets a replica that stands in a repetition, which the state is not in, do most of it.
    fn hurry(&self, replica: &mut Replica, state: &State) -> Result<(), ReplayError> {
        let registers = replica.registers()?;
        let Some(repeat) = Repeat::at(replica, registers.pc()) else { return Ok(()) };
        let rounds = registers.get("rcx").unwrap_or(0).saturating_sub(ROUNDS_BEFORE);
        if rounds > 0 && repeat.leads_to(replica, self.log, state)?.is_none() {
            repeat.run(replica, self.log, rounds)?;
        }
        Ok(())
    }

    /// The state of an anchor, so that it can be recognised.
    pub(super) fn state_of(&mut self, label: &Label) -> Result<State, ReplayError> {
        self.state_beside(label, &[]).map(|(state, _)| state)
    }

    /// The same with a landmark that leaves this code as it is; says whether there is one.
    pub(super) fn state_beside(
        &mut self,
        label: &Label,
        taken: &[Range<u64>],
    ) -> Result<(State, bool), ReplayError> {
        let anchor = self.timeline.get_mut(label).ok_or(ReplayError::NoSuchMoment)?;
        let state = State::of(&anchor.frozen)?;
        if matches!(self.log.get(anchor.event).as_deref(), Some(Event::Signal { number: libc::SIGTRAP, .. }))
        {
            // Right behind the program's own breakpoint instruction, where a replay stops anyway.
            return Ok((state, taken.is_empty()));
        }
        let mut scout = Replica::new(anchor.frozen.fork()?, anchor.event)?;
        let (log, functions) = (self.log, self.functions);
        let mut way = Vec::new();
        for _ in 0..=LONGEST_LEAD {
            let address = scout.pc()?;
            if fits(&scout.memory, functions, address).is_some_and(|length| is_clear(taken, address, length))
            {
                return match way.is_empty() {
                    true => Ok((state, true)),
                    false => Ok((state.with_lead(&way, scout.fork()?)?, true)),
                };
            }
            way.push(address);
            let event = scout.event();
            match scout.advance(log, Advance::Step, u64::MAX) {
                Ok(Pause::Stepped) if scout.event() == event => {}
                // What comes next is input: there it is recognised as it is, by a stop where it stands.
                _ => {
                    let address = way.first().copied().unwrap_or_default();
                    return Ok((state, !taken.iter().any(|range| range.contains(&address))));
                }
            }
        }
        Ok((state, taken.is_empty()))
    }

    /// An anchor right behind the last event before a moment.
    pub(super) fn anchor_at_event(&mut self, previous: Label, event: u64) -> Result<Label, ReplayError> {
        if self.timeline.get(&previous).is_some_and(|anchor| anchor.event == event) {
            return Ok(previous);
        }
        let mut replica = self.replica_at(&previous)?;
        self.run_events(&mut replica, event)?;
        let time = replica.time();
        self.insert_timed(&previous, &mut replica, true, time)
    }

    fn walk_to(
        &mut self,
        near: &Label,
        state: &State,
        window: &mut Option<Window>,
    ) -> Result<Walked, ReplayError> {
        let mut replica = self.replica_at(near)?;
        let mut trail = Vec::new();
        let mut copies = Vec::new();
        let mut passes: HashMap<u64, u32> = HashMap::new();
        for steps in 0.. {
            let here = standing(&replica)?;
            let registers = here.registers;
            trail.push(here);
            if state.has_registers(&registers) && state.compare(&replica)? == Likeness::Same {
                *window = Some(Window { base: near.clone(), first: 0, trail, copies, end: None });
                return Ok(Walked::Met(steps));
            }
            if steps == WALK {
                break;
            }
            *passes.entry(registers.pc()).or_default() += 1;
            if steps % COPY_EVERY == 0 {
                self.check()?;
                copies.push(Copy { steps, event: replica.event(), frozen: replica.fork()? });
            }
            match replica.advance(self.log, Advance::Step, u64::MAX)? {
                Pause::Stepped => {}
                Pause::Boundary if state.compare(&replica)? == Likeness::Same => {}
                Pause::Interrupted => return Err(ReplayError::Interrupted),
                pause => return Err(ReplayError::Diverged(format!("a walk ended early ({pause:?})"))),
            }
        }
        let mut sites: Vec<_> = passes.into_iter().collect();
        sites.sort_unstable_by_key(|&(address, count)| (std::cmp::Reverse(count), address));
        let sites = sites.into_iter().map(|(address, _)| address).collect();
        Ok(Walked::Not(Box::new(replica), sites))
    }

    /// The last pass of one of these addresses before the state.
    fn nearer(
        &mut self,
        near: &Label,
        state: &State,
        sites: &[u64],
        time: &mut Duration,
    ) -> Result<Option<Label>, ReplayError> {
        let here = self.registers_of(near)?.pc();
        let apart = |left: u64, right: u64| left.abs_diff(right) >= APART;
        let (mark, late) = state.mark();
        let replica = self.replica_at(near)?;
        let candidates = sites
            .iter()
            .copied()
            .filter(|&site| apart(site, mark) && (site == here || apart(site, here)))
            // A stop at a repetition counts its rounds, a run to a pass counts it once.
            .filter(|&site| Repeat::at(&replica, site).is_none())
            .take(2);
        for site in std::iter::once(mark).chain(candidates) {
            let begun = Instant::now();
            let passes = self.count(near, state, site)?;
            *time = begun.elapsed();
            // Passes of another address between the state and what it is recognised by are few.
            let beyond = if site == mark { u64::from(late) } else { u64::from(LONGEST_LEAD) };
            let wanted = passes.saturating_sub(beyond);
            if wanted > u64::from(site == here) {
                return self.at_pass(near, site, wanted).map(Some);
            }
        }
        Ok(None)
    }

    fn registers_of(&self, label: &Label) -> Result<GeneralRegisters, ReplayError> {
        let anchor = self.timeline.get(label).ok_or(ReplayError::NoSuchMoment)?;
        Ok(anchor.frozen.registers()?)
    }

    /// How often an address is passed on the way to a state, which itself counts.
    fn count(&mut self, near: &Label, state: &State, site: u64) -> Result<u64, ReplayError> {
        let mut replica = self.replica_at(near)?;
        let mut counter = match site == state.mark().0 {
            true => None,
            false => Some(Landmark::place(&mut replica, self.functions, site, u64::MAX, None)?),
        };
        let mut own = 0;
        let mark = state.lead().map_or(state, |lead| &lead.state);
        let pause = run_to_state(
            &mut replica,
            self.log,
            self.functions,
            mark,
            Some(&mut own),
            &mut |replica, pause| {
                if let (Some(counter), Pause::Breakpoint(address)) = (&mut counter, pause)
                    && counter.stops_at(*address)
                {
                    counter.arrive(replica)?;
                }
                Ok(false)
            },
        )?;
        if pause == Pause::Interrupted {
            return Err(ReplayError::Interrupted);
        }
        Ok(counter.map_or(own, |counter| counter.passes(&replica)))
    }

    /// An anchor at a pass of an address.
    fn at_pass(&mut self, near: &Label, site: u64, pass: u64) -> Result<Label, ReplayError> {
        let mut replica = self.replica_at(near)?;
        let event = replica.event();
        let pause = run_to_pass(&mut replica, self.log, self.functions, site, pass, &mut |_, _| Ok(false))?;
        if pause == Pause::Interrupted {
            return Err(ReplayError::Interrupted);
        }
        let copy = replica.fork()?;
        Ok(self.timeline.insert_after(near, copy, event, false))
    }

    /// An anchor somewhere between, by the clock; `None` where they are too near to each other for that.
    pub(crate) fn split(
        &mut self,
        near: &Label,
        state: &State,
        mut time: Duration,
    ) -> Result<Option<Label>, ReplayError> {
        for _ in 0..SPLITS {
            let mut replica = self.replica_at(near)?;
            let pause = run_for(&mut replica, self.log, self.functions, state, time, &mut 0)?;
            if pause == Pause::Alarm && !self.has_come_to(&mut replica, state)? {
                let event = replica.event();
                let copy = replica.fork()?;
                return Ok(Some(self.timeline.insert_after(near, copy, event, false)));
            }
            time /= 2;
        }
        Ok(None)
    }

    /// Whether a replica stands at a state or, where that is recognised by a later one, between the two.
    fn has_come_to(&self, replica: &mut Replica, state: &State) -> Result<bool, ReplayError> {
        if state.compare(replica)? == Likeness::Same {
            return Ok(true);
        }
        let Some(lead) = state.lead() else { return Ok(false) };
        let mut scout = Replica::new(replica.fork()?, replica.event())?;
        for _ in 0..lead.steps {
            if lead.state.compare(&scout)? == Likeness::Same {
                return Ok(true);
            }
            scout.advance(self.log, Advance::Step, u64::MAX)?;
        }
        Ok(false)
    }

    /// The moment right behind an event.
    pub(crate) fn after_event(&mut self, previous: Label, event: u64) -> Result<Position, ReplayError> {
        let anchor = self.anchor_at_event(previous, event + 1)?;
        Ok(Position { anchor, steps: 0 })
    }

    /// An anchor between two others, if one can be made.
    pub(crate) fn middle(
        &mut self,
        from: &Label,
        to: &Label,
        time: Duration,
    ) -> Result<Option<Label>, ReplayError> {
        let (start, end) = (self.event_of(from)?, self.event_of(to)?);
        if start < end {
            // By events first.
            let event = start + (end - start).div_ceil(2);
            if event < end || !self.timeline.get(to).is_some_and(|anchor| anchor.aligned) {
                return self.anchor_at_event(from.clone(), event).map(Some);
            }
            return Ok(None);
        }
        let state = self.state_of(to)?;
        self.split(from, &state, time / 2)
    }

    fn event_of(&self, label: &Label) -> Result<u64, ReplayError> {
        Ok(self.timeline.get(label).ok_or(ReplayError::NoSuchMoment)?.event)
    }

    /// Runs from an anchor through the stretch that ends at `bound`.
    pub(crate) fn scan(
        &mut self,
        label: &Label,
        bound: &Bound,
        arm: &dyn Fn(&mut Replica) -> Result<(), ReplayError>,
        visit: Visit<'_>,
    ) -> Result<Replica, ReplayError> {
        let mut replica = self.replica_at(label)?;
        arm(&mut replica)?;
        self.run(&mut replica, bound, visit)?;
        Ok(replica)
    }
}
