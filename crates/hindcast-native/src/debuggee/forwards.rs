//! Forwards through the past to where breakpoints stop it that are passed very often.

use super::{
    Debuggee,
    judge::{Claims, Judge},
    sift::{hits_of, is_wanted, put_in},
};
use crate::{
    process::Halt,
    replay::{
        Arrival, Bound, Context, End, Functions, Gate, Label, Past, Pause, ReplayError, Replica, Sieves,
        check,
    },
    sys::TraceError,
};

/// How far a stretch was gone through with sieves.
enum Sifted {
    /// Not at all.
    Not,
    /// Through all of it; nothing stopped.
    Passed(Bound),
    /// A replica stands at a breakpoint.
    Stopped(Box<Replica>, u64),
}

/// A stretch from where a replica stands, and who judges.
struct Way<'a> {
    judge: &'a mut dyn Judge,
    gates: Vec<Gate>,
    end: End,
    until: u64,
}

impl Debuggee {
    /// As [`run`](Self::run) in the past, with hits counted by code where that is possible.
    pub(crate) fn run_sifting(
        &mut self,
        functions: Functions<'_>,
        judge: &mut dyn Judge,
    ) -> Result<Halt, TraceError> {
        while self.past.is_some() {
            match self.sift_stretch(functions, judge) {
                Ok(Sifted::Not) => {
                    self.unsifted = self.past.as_ref().map(|past| past.anchor.clone());
                    if let Some(halt) = self.replay_stretch(functions, None)? {
                        return Ok(halt);
                    }
                }
                Ok(Sifted::Passed(bound)) => {
                    if let Some(halt) = self.pass_stretch(functions, bound)? {
                        return Ok(halt);
                    }
                }
                Ok(Sifted::Stopped(replica, address)) => {
                    return self.stop_sifting(functions, *replica, address);
                }
                Err(ReplayError::Interrupted) => return Ok(Halt::Interrupted(self.acting())),
                Err(ReplayError::Trace(error)) => return Err(error),
                Err(error) => return Err(TraceError::Diverged(error.to_string())),
            }
        }
        self.going_on()?.run()
    }

    fn sift_stretch(
        &mut self,
        functions: Functions<'_>,
        judge: &mut dyn Judge,
    ) -> Result<Sifted, ReplayError> {
        let unsifted = self.unsifted.take();
        self.travel(functions, |context, past, _| {
            let past = past.as_mut().ok_or(TraceError::Gone)?;
            let frontier = context.timeline.frontier();
            if unsifted.as_ref() == Some(&past.anchor) {
                return Ok(Sifted::Not);
            }
            let is_last = frontier.is_some_and(|frontier| frontier.anchor == past.anchor);
            if is_last || !past.replica.debug_registers().is_empty() {
                return Ok(Sifted::Not);
            }
            let bound = context.bound_after(&past.anchor);
            if context.is_at(&past.replica, &bound)? {
                return Ok(Sifted::Not);
            }
            let next = context.timeline.after(&past.anchor).and_then(|next| context.timeline.get(next));
            let until = next.map_or(context.log.len(), |anchor| anchor.event);
            let gates = judge.gates();
            let (_, sieves) = sieved(context, past, &gates, until, &|_| None)?;
            if sieves.is_empty() {
                return Ok(Sifted::Not);
            }
            let Some(end) = context.end_beside(&bound, &sieves.ranges())? else { return Ok(Sifted::Not) };
            Way { judge, gates, end, until }.go(context, past, bound)
        })
    }

    /// Nothing stopped in the stretch up to a bound.
    fn pass_stretch(&mut self, functions: Functions<'_>, bound: Bound) -> Result<Option<Halt>, TraceError> {
        if let Bound::Anchor(label) = &bound {
            let there = self.travel(functions, |context, _, _| context.replica_at(label));
            match there {
                Ok(replica) => self.show(replica, label.clone(), Some(0))?,
                Err(ReplayError::Interrupted) => return Ok(Some(Halt::Interrupted(self.acting()))),
                Err(ReplayError::Trace(error)) => return Err(error),
                Err(error) => return Err(TraceError::Diverged(error.to_string())),
            }
        }
        self.arrived(bound, None)
    }

    fn stop_sifting(
        &mut self,
        functions: Functions<'_>,
        replica: Replica,
        address: u64,
    ) -> Result<Halt, TraceError> {
        let anchor: Label = self.past.as_ref().map(|past| past.anchor.clone()).ok_or(TraceError::Gone)?;
        self.show(replica, anchor, None)?;
        let passed = self
            .travel(functions, |context, past, _| past.as_mut().map_or(Ok(()), |past| context.passed(past)));
        match passed {
            Ok(()) => Ok(Halt::Breakpoint(self.acting(), address)),
            Err(ReplayError::Trace(error)) => Err(error),
            Err(error) => Err(TraceError::Diverged(error.to_string())),
        }
    }
}

/// Another replica where one stands, with its breakpoint instructions, and sieves where they fit.
fn sieved(
    context: &Context<'_>,
    past: &mut Past,
    gates: &[Gate],
    until: u64,
    limit: &dyn Fn(hindcast_core::debug::BreakpointId) -> Option<u64>,
) -> Result<(Replica, Sieves), ReplayError> {
    let mut replica = Replica::new(past.replica.fork()?, past.replica.event())?;
    replica.overlay.adopt(&replica.memory, &past.replica.overlay);
    let sieves = put_in(context, &mut replica, gates, until, limit)?;
    Ok((replica, sieves))
}

impl Way<'_> {
    /// Counts up to the end, or to the first breakpoint without a sieve; then goes to the first hit that stops, if there
    /// is one before that.
    fn go(mut self, context: &mut Context<'_>, past: &mut Past, bound: Bound) -> Result<Sifted, ReplayError> {
        let (mut replica, sieves) = sieved(context, past, &self.gates, self.until, &|_| None)?;
        let ran = self.run(context, &mut replica, &sieves)?;
        let Some(stopped) = ran else { return Ok(Sifted::Not) };
        let mut hits = sieves.hits(&replica);
        if stopped.is_none() {
            let gates = &self.gates;
            let judge = &mut *self.judge;
            context.beyond(&self.end, &mut |replica, pc| {
                let gate = gates.iter().find(|gate| gate.address == pc && sieves.has(gate.breakpoint));
                if let Some(gate) = gate
                    && !judge.meet(replica, &Pause::Breakpoint(pc))?.is_empty()
                    && let Some((_, hits)) = hits.iter_mut().find(|(id, _)| *id == gate.breakpoint)
                {
                    *hits -= 1;
                }
                Ok(())
            })?;
        }
        let first = |&(id, hits): &(_, u64)| Some((id, self.judge.first_stop(id, hits)?));
        let wanted: Vec<_> = hits.iter().filter_map(first).collect();
        if wanted.is_empty() {
            for (id, hits) in hits {
                self.judge.go_past(id, hits);
            }
            return Ok(match stopped {
                None => Sifted::Passed(bound),
                Some(address) => {
                    sieves.remove(&mut replica)?;
                    Sifted::Stopped(Box::new(replica), address)
                }
            });
        }
        let limit = |id| Some(hits_of(&wanted, id)).filter(|hits| *hits > 0);
        let (mut replica, sieves) = sieved(context, past, &self.gates, self.until, &limit)?;
        let Some(Some(address)) = self.run(context, &mut replica, &sieves)? else { return Ok(Sifted::Not) };
        for (id, hits) in sieves.hits(&replica) {
            let is_here = self.gates.iter().any(|gate| gate.address == address && gate.breakpoint == id);
            self.judge.go_past(id, hits - u64::from(is_here));
        }
        sieves.remove(&mut replica)?;
        Ok(Sifted::Stopped(Box::new(replica), address))
    }

    /// Runs to the end, or to where it is stopped: there. `None` where a sieve was wrong.
    fn run(
        &mut self,
        context: &Context<'_>,
        replica: &mut Replica,
        sieves: &Sieves,
    ) -> Result<Option<Option<u64>>, ReplayError> {
        let (asked, deaf_until) = (context.asked, context.deaf_until);
        let (mut is_wrong, mut at) = (false, None);
        let arrival = context.run_to_end(replica, &self.end, &mut |replica, pause| {
            check(asked, deaf_until)?;
            let Pause::Breakpoint(address) = pause else { return Ok(false) };
            let Some(caught) = sieves.catch(replica, *address)? else {
                at = Some(*address);
                return Ok(true);
            };
            let claims = self.judge.meet(replica, &Pause::Breakpoint(caught.address))?;
            let claims = Some(claims).filter(|claims: &Claims| !claims.is_empty());
            at = Some(caught.address);
            Ok(is_wanted(replica, sieves, &caught, claims, &mut is_wrong)?.is_some() || is_wrong)
        })?;
        if is_wrong {
            return Ok(None);
        }
        Ok(Some(at.filter(|_| arrival != Arrival::AtBound)))
    }
}
