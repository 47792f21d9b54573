//! Moving in the past: forwards through it, and to a moment.

use std::{
    sync::{PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{Debuggee, Listener};
use crate::{
    process::Halt,
    record::{Event, Recorder},
    replay::{
        Advance, Arrival, Bound, Context, Functions, Label, Past, Pause, Position, ReplayError, Replica,
        Standing,
    },
    sys::{SignalDetails, Tid, TraceError},
};

/// How long a jump to another copy cannot be interrupted. It takes less.
const UNDISTURBED: Duration = Duration::from_secs(5);

impl Debuggee {
    /// Works on the recording, if there is one.
    pub(super) fn travel<T>(
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
        let mut context = Context {
            log: &recorder.log,
            timeline: &mut recorder.timeline,
            functions,
            asked: &bell.asked,
            deaf_until: None,
        };
        // Who was interrupted stays so until the movement is over, also where somebody makes do without a replay.
        work(&mut context, &mut self.past, &mut self.window)
    }

    /// Interruptions end what moves from now on, until [`Self::stop_listening`]. False where one came before: it is answered
    /// with that, and nobody listens.
    #[must_use]
    pub(crate) fn listen(&mut self, travels: bool) -> bool {
        // What is left of earlier interruptions.
        self.live.forget_interruption();
        let bell = &self.interrupt;
        bell.asked.store(false, Ordering::SeqCst);
        let listener = if travels || self.past.is_some() { Listener::Replay } else { Listener::Live };
        bell.listener.store(listener as u8, Ordering::SeqCst);
        let came_before = bell.remembered.swap(false, Ordering::SeqCst);
        if came_before {
            self.stop_listening(true);
        }
        !came_before
    }

    /// Interruptions are remembered again; the last one is `answered` where it has ended the movement.
    pub(crate) fn stop_listening(&mut self, answered: bool) {
        self.interrupt.listener.store(Listener::Nobody as u8, Ordering::SeqCst);
        self.interrupt.asked.store(false, Ordering::SeqCst);
        if answered {
            self.interrupt.remembered.store(false, Ordering::SeqCst);
        }
    }

    /// Interruptions end what is looked at now, where they end anything.
    fn look_elsewhere(&mut self) {
        let replica = self.past.as_ref().map(|past| past.replica.interrupt());
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
            let known = context.timeline.get(&last).map_or(0, |anchor| anchor.event);
            let index = context.log.len().checked_sub(1).filter(|index| *index >= known);
            let ending = index.and_then(|index| Some((index, context.log.get(index)?)));
            match ending.as_ref().map(|(index, event)| (*index, &**event)) {
                Some((index, Event::Barrier { .. })) => context.before_event(last, index).map(Some),
                Some((index, event)) if !event.is_interruption() => {
                    context.after_event(last, index).map(Some)
                }
                _ => Ok(Some(Position { anchor: last, steps: 0 })),
            }
        })
    }

    /// The moment at which so much of the recorded time had passed, from 0 to 1.
    pub(crate) fn at_share(
        &mut self,
        share: f64,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, _| context.at_share(share))
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
            if event > context.log.len() || event == 0 {
                return Err(unknown());
            }
            let before = context.timeline.at_event(event - 1).cloned().ok_or_else(unknown)?;
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
        let made = self.travel(functions, |context, past, window| {
            let is_there = past.as_mut().map_or(Ok(false), |past| past.wind_back(position))?;
            let made = if is_there { None } else { Some(context.replica_of(position, window)?) };
            context.told(&position.anchor, position.steps);
            Ok(made)
        })?;
        let Some(replica) = made else { return Ok(()) };
        self.show(replica, position.anchor.clone(), Some(position.steps))?;
        Ok(())
    }

    /// Looks at a replica from now on, with the breakpoints of what was looked at before.
    pub(super) fn show(
        &mut self,
        mut replica: Replica,
        anchor: Label,
        steps: Option<u32>,
    ) -> Result<(), TraceError> {
        let (overlay, debug_registers) = match &self.past {
            Some(past) => (&past.replica.overlay, past.replica.debug_registers()),
            None => (self.live.overlay(), self.live.debug_registers()),
        };
        replica.overlay.adopt(&replica.memory, overlay);
        replica.set_debug_registers(debug_registers)?;
        self.past = Some(Past { replica, anchor, steps });
        self.look_elsewhere();
        Ok(())
    }

    /// Looks at the live process again.
    pub(crate) fn go_live(&mut self) {
        if let Some(past) = self.past.take() {
            self.live.take_over(&past.replica.overlay, past.replica.debug_registers());
        }
        self.look_elsewhere();
    }

    /// Forwards through the past; where a thread is named, only until it is its turn, which is told as a step.
    pub(super) fn replay(
        &mut self,
        functions: Functions<'_>,
        whose: Option<Tid>,
    ) -> Result<Halt, TraceError> {
        loop {
            if let Some(halt) = self.replay_stretch(functions, whose)? {
                return Ok(halt);
            }
        }
    }

    /// The same up to the next anchor at most; `None` where nothing is to be told there.
    pub(super) fn replay_stretch(
        &mut self,
        functions: Functions<'_>,
        whose: Option<Tid>,
    ) -> Result<Option<Halt>, TraceError> {
        let ran = self.travel(functions, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            let frontier = context.timeline.frontier().cloned();
            if frontier.as_ref().is_some_and(|frontier| frontier.anchor == past.anchor) {
                context.name(past)?;
            }
            let bound = match (&frontier, past.steps) {
                (Some(frontier), Some(steps)) if frontier.anchor == past.anchor => {
                    Bound::Steps(frontier.steps.saturating_sub(steps))
                }
                _ => context.bound_after(&past.anchor),
            };
            let turn = whose.and_then(|tid| context.turn_of(tid, past.replica.event()));
            let bound = match turn.filter(|&turn| context.is_within(turn, &past.anchor)) {
                Some(turn) => Bound::Events(turn),
                None => bound,
            };
            past.steps = None;
            let mut met = None;
            let arrival = context.run(&mut past.replica, &bound, &mut |_, pause| {
                met = Some(pause.clone());
                Ok(true)
            })?;
            if arrival != Arrival::AtBound {
                // What it stopped for can be what brought it to the next anchor.
                context.passed(past)?;
                if frontier.is_some_and(|frontier| frontier.anchor == past.anchor) {
                    context.name(past)?;
                }
            }
            let is_turn = arrival == Arrival::AtBound && turn == Some(past.replica.event());
            if is_turn {
                context.passed(past)?;
            }
            Ok((arrival, bound, met, is_turn))
        });
        let acting = self.acting();
        match ran {
            Ok((Arrival::Stopped(_), ..)) if self.is_present() => {
                self.go_live();
                Ok(Some(Halt::Present(acting)))
            }
            Ok((Arrival::Stopped(Pause::Breakpoint(address)), ..)) => {
                Ok(Some(Halt::Breakpoint(acting, address)))
            }
            Ok((Arrival::Stopped(Pause::Watch(slots)), ..)) => Ok(Some(Halt::Watch(acting, slots))),
            Ok((Arrival::Stopped(_), ..)) => Ok(None),
            Ok((Arrival::AtBound, _, _, true)) => Ok(Some(Halt::Stepped(acting))),
            Ok((Arrival::AtBound, bound, met, false)) => {
                if let Some(halt) = self.arrived(bound, met)? {
                    return Ok(Some(halt));
                }
                Ok((whose == Some(self.acting())).then(|| Halt::Stepped(self.acting())))
            }
            Err(ReplayError::Interrupted) => Ok(Some(Halt::Interrupted(acting))),
            Err(ReplayError::Diverged(reason)) => Err(TraceError::Diverged(reason)),
            Err(ReplayError::Trace(error)) => Err(error),
            Err(error) => Err(TraceError::Diverged(error.to_string())),
        }
    }

    /// A replica got to the end of a stretch; `met` is what would have stopped it right there.
    pub(super) fn arrived(&mut self, bound: Bound, met: Option<Pause>) -> Result<Option<Halt>, TraceError> {
        match bound {
            Bound::Steps(_) => {
                self.go_live();
                return Ok(Some(Halt::Present(self.acting())));
            }
            Bound::Anchor(label) => {
                let past = self.past.as_mut().ok_or(TraceError::Gone)?;
                past.anchor = label;
                past.steps = Some(0);
            }
            Bound::Boundary | Bound::Events(_) if !self.jump()? => {
                self.go_live();
                return Ok(Some(Halt::Present(self.acting())));
            }
            Bound::Boundary | Bound::Events(_) if self.begins_program() => {
                self.forget_breakpoints()?;
                return Ok(Some(Halt::Exec(self.pid())));
            }
            Bound::Boundary | Bound::Events(_) => {}
        }
        if self.is_present() {
            self.go_live();
            return Ok(Some(Halt::Present(self.acting())));
        }
        if let Some(Pause::Watch(slots)) = met {
            return Ok(Some(Halt::Watch(self.acting(), slots)));
        }
        let past = self.past.as_ref().ok_or(TraceError::Gone)?;
        let pc = past.replica.pc()?;
        if past.replica.overlay.contains(pc) && !self.gives_way_here() {
            return Ok(Some(Halt::Breakpoint(self.acting(), pc)));
        }
        let position = Position { anchor: past.anchor.clone(), steps: past.steps.unwrap_or(0) };
        Ok(self.signal_after(&position).map(|details| Halt::PastSignal(self.acting(), details)))
    }

    /// Whether the turn of the thread that is looked at ends where it stands.
    fn gives_way_here(&self) -> bool {
        let Some((past, recorder)) = self.past.as_ref().zip(self.live.recorder()) else { return false };
        past.steps == Some(0) && recorder.timeline.gives_way_at(&past.anchor, &recorder.log)
    }

    /// The signal that came at a moment.
    pub(crate) fn signal_after(&self, position: &Position) -> Option<SignalDetails> {
        let recorder = self.live.recorder()?;
        let is_exact =
            position.steps == 0 && recorder.timeline.precedes_interruption(&position.anchor, &recorder.log);
        match *recorder.log.get(recorder.timeline.get(&position.anchor)?.event)? {
            Event::Signal { number: signal, code, address } if is_exact => {
                Some(SignalDetails { signal, code, address, sender: None, value: None })
            }
            _ => None,
        }
    }

    fn is_present(&self) -> bool {
        let frontier = self.live.recorder().and_then(|recorder| recorder.timeline.frontier());
        self.past.is_some() && frontier.is_some() && self.known_position().as_ref() == frontier
    }

    /// Whether the anchor that a replica stands at is the beginning of another program.
    fn begins_program(&self) -> bool {
        let last = self.past.as_ref().and_then(|past| past.anchor.aligned_event()?.checked_sub(1));
        last.and_then(|last| self.live.recorder()?.log.get(last)).is_some_and(|event| {
            matches!(*event, Event::Barrier { number: libc::SYS_execve | libc::SYS_execveat, .. })
        })
    }

    /// Over what cannot be replayed, to the anchor behind it; false where there is none.
    fn jump(&mut self) -> Result<bool, TraceError> {
        let next = self.travel(&|_| None, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            let Some(next) = context.timeline.after(&past.anchor).cloned() else { return Ok(None) };
            // The replica stands in the middle of a call, where it cannot stay.
            context.deaf_until = Some(Instant::now() + UNDISTURBED);
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

    /// One step of a thread forwards in the past. The others are run through until it is its turn.
    pub(super) fn replay_step(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        loop {
            if self.past.is_some() && self.acting() != tid && self.has_thread(tid) {
                match self.replay(&|_| None, Some(tid))? {
                    Halt::Stepped(_) => {}
                    halt => return Ok(halt),
                }
            }
            match self.replay_one()? {
                // It gave way: what it was about to do comes when it is its turn again.
                Halt::Stepped(_) if self.past.is_some() && self.acting() != tid && self.has_thread(tid) => {}
                halt => return Ok(halt),
            }
        }
    }

    /// One step forwards in the past.
    fn replay_one(&mut self) -> Result<Halt, TraceError> {
        let stepped = self.travel(&|_| None, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            // After each step that is known; who came here otherwise may stand at several anchors.
            if past.steps == Some(0) {
                context.passed(past)?;
            }
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
            Ok(Pause::Watch(slots)) => Halt::Watch(self.acting(), slots),
            Ok(Pause::Boundary) => {
                if !self.jump()? {
                    self.go_live();
                    return Ok(Halt::Present(self.acting()));
                }
                if self.begins_program() {
                    self.forget_breakpoints()?;
                    return Ok(Halt::Exec(self.pid()));
                }
                Halt::Stepped(self.acting())
            }
            Ok(Pause::Interrupted) | Err(ReplayError::Interrupted) => {
                return Ok(Halt::Interrupted(self.acting()));
            }
            Ok(_) => Halt::Stepped(self.acting()),
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

    /// Finds in advance the moment before the one that is looked at. An interruption ends that anywhere.
    pub(crate) fn prepare(&mut self, functions: Functions<'_>) -> Result<(), ReplayError> {
        if !self.listen(true) {
            return Err(ReplayError::Interrupted);
        }
        let running = self.interrupt.running.clone();
        let prepared = running.while_brief(|| match self.known_position() {
            Some(position) => self.before_in_thread(&position, self.acting(), functions).map(drop),
            None => Ok(()),
        });
        self.stop_listening(matches!(prepared, Err(ReplayError::Interrupted)));
        prepared
    }

    /// The moment one step of a thread before another; `None` at its start.
    pub(crate) fn before_in_thread(
        &mut self,
        position: &Position,
        tid: Tid,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, window| context.before_in_thread(position, tid, window))
    }

    /// The last moment up to another one at which a thread ran, if it did.
    pub(crate) fn last_in_thread(
        &mut self,
        position: &Position,
        tid: Tid,
        functions: Functions<'_>,
    ) -> Result<Option<Position>, ReplayError> {
        self.travel(functions, |context, _, window| context.last_in_thread(position, tid, window))
    }

    /// Who runs at a moment, and where it stands.
    pub(crate) fn standing_at(
        &mut self,
        position: &Position,
        functions: Functions<'_>,
    ) -> Result<Standing, ReplayError> {
        self.travel(functions, |context, _, window| context.standing_at(position, window))
    }
}

/// Whether the next thing after an anchor is a signal handler, a change by the user, or the turn of another thread.
fn enters_handler(context: &Context<'_>, label: &Label) -> bool {
    context.timeline.precedes_interruption(label, context.log)
        && context
            .timeline
            .get(label)
            .is_some_and(|here| context.log.get(here.event).is_some_and(|event| event.is_interruption()))
}
