//! Stops at breakpoints that are passed very often, found with sieves: they are counted first, so that a replica stops at
//! the wanted one only.

use hindcast_core::debug::BreakpointId;

use super::{
    hunt::{Found, Hunt, Quarry},
    judge::Claims,
};
use crate::replay::{
    Arrival, Bound, Caught, Context, End, Label, Past, Pause, ReplayError, Replica, Sieves, check,
};

/// What a replica with sieves met on its way.
struct Met {
    claims: Claims,
    /// Where a sieve stopped it, the breakpoint that it belongs to.
    sieved: Option<BreakpointId>,
    /// The hits of all that are counted, up to and with this one.
    hits: Hits,
}

/// Of each breakpoint that is counted, how many hits there were.
type Hits = Vec<(BreakpointId, u64)>;

pub(super) fn hits_of(hits: &Hits, breakpoint: BreakpointId) -> u64 {
    hits.iter().find(|(id, _)| *id == breakpoint).map_or(0, |(_, hits)| *hits)
}

/// A stretch in which sieves count.
struct Stretch<'l> {
    label: &'l Label,
    end: End,
    /// How many events have happened at its end, at most.
    until: u64,
}

/// All that was counted in a stretch.
struct Counts {
    hits: Hits,
    /// How many stops of other breakpoints there were.
    others: usize,
}

/// How a run with sieves ended.
enum Ran {
    Arrived(Arrival),
    /// A sieve took for a hit what is none.
    Wrong,
}

impl Hunt<'_, '_> {
    /// The last stop in a stretch. `None` where sieves are of no use there: then nothing is counted as passed.
    pub(super) fn sifted(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        bound: &Bound,
    ) -> Result<Option<Option<Found>>, ReplayError> {
        if self.gates.is_empty() || !matches!(self.quarry, Quarry::Stops(_)) {
            return Ok(None);
        }
        let next = context.timeline.after(label).and_then(|next| context.timeline.get(next));
        let until = next.map_or(context.log.len(), |anchor| anchor.event);
        let mut replica = context.replica_at(label)?;
        if context.is_at(&replica, bound)? {
            return Ok(None);
        }
        let sieves = self.sieve(context, &mut replica, until, &|_| None)?;
        if sieves.is_empty() {
            return Ok(None);
        }
        let Some(end) = context.end_beside(bound, &sieves.ranges())? else { return Ok(None) };
        let stretch = Stretch { label, end, until };
        let counted = self.counted(context, &stretch, replica, &sieves)?;
        let Some(counts) = counted else { return Ok(None) };
        let early = self.before_floor(context, label, &sieves)?;
        let Some(judge) = &self.judge else { return Ok(None) };
        let wanted: Hits = counts
            .hits
            .iter()
            .filter_map(|&(id, hits)| {
                let stop = judge.last_stop(id, hits - hits_of(&early.hits, id).min(hits))?;
                Some((id, stop + hits_of(&early.hits, id)))
            })
            .collect();
        let Some(mut met) = self.meetings(context, &stretch, &counts, &wanted)? else { return Ok(None) };
        while met.all.len() > early.others {
            let Some(last) = met.all.pop() else { break };
            let stops = match (&mut self.judge, last.sieved) {
                (_, Some(_)) => true,
                (Some(judge), None) => judge.stops(&last.claims),
                (None, None) => false,
            };
            let standing = met.at_last.take();
            if !stops {
                continue;
            }
            let (replica, sieves) = match standing {
                Some(standing) => standing,
                None => self.go_to_meeting(context, &stretch, &wanted, met.all.len() + 1)?,
            };
            let found = named(context, &stretch, replica, sieves)?;
            if found.position == *self.origin {
                continue;
            }
            self.pass(&counts.hits, |id| hits_of(&last.hits, id) - u64::from(last.sieved == Some(id)));
            return Ok(Some(Some(Found { claims: last.claims, ..found })));
        }
        self.pass(&counts.hits, |id| hits_of(&early.hits, id));
        Ok(Some(None))
    }

    /// What comes after so many hits of each breakpoint is passed.
    fn pass(&mut self, hits: &Hits, left: impl Fn(BreakpointId) -> u64) {
        if let Some(judge) = &mut self.judge {
            for &(id, hits) in hits {
                judge.pass(id, hits.saturating_sub(left(id)));
            }
        }
    }

    /// Puts sieves into a replica, and breakpoint instructions where these do not fit.
    fn sieve(
        &mut self,
        context: &Context<'_>,
        replica: &mut Replica,
        until: u64,
        limit: &dyn Fn(BreakpointId) -> Option<u64>,
    ) -> Result<Sieves, ReplayError> {
        self.begin(replica)?;
        put_in(context, replica, &self.gates, until, limit)
    }

    /// Runs through a stretch; `on` says whether to stop for what is met.
    fn sift(
        &mut self,
        context: &Context<'_>,
        replica: &mut Replica,
        sieves: &Sieves,
        end: &End,
        on: &mut dyn FnMut(Met) -> bool,
    ) -> Result<Ran, ReplayError> {
        let (asked, deaf_until) = (context.asked, context.deaf_until);
        let mut is_wrong = false;
        let arrival = context.run_to_end(replica, end, &mut |replica, pause| {
            check(asked, deaf_until)?;
            let Pause::Breakpoint(address) = pause else { return Ok(false) };
            let Some(caught) = sieves.catch(replica, *address)? else {
                let Some(claims) = self.meet(replica, pause)? else { return Ok(false) };
                return Ok(on(Met { claims, sieved: None, hits: sieves.hits(replica) }));
            };
            let claims = self.meet(replica, &Pause::Breakpoint(caught.address))?;
            let Some(claims) = is_wanted(replica, sieves, &caught, claims, &mut is_wrong)? else {
                return Ok(is_wrong);
            };
            let stops = on(Met { claims, sieved: Some(caught.breakpoint), hits: sieves.hits(replica) });
            if !stops {
                sieves.leave(replica, &caught)?;
            }
            Ok(stops)
        })?;
        Ok(if is_wrong { Ran::Wrong } else { Ran::Arrived(arrival) })
    }

    /// The hits in a stretch, and what else would stop there. `None` where a sieve was wrong.
    fn counted(
        &mut self,
        context: &mut Context<'_>,
        stretch: &Stretch<'_>,
        mut replica: Replica,
        sieves: &Sieves,
    ) -> Result<Option<Counts>, ReplayError> {
        let mut others = 0;
        let count = &mut |met: Met| {
            others += usize::from(met.sieved.is_none());
            false
        };
        if let Ran::Wrong = self.sift(context, &mut replica, sieves, &stretch.end, count)? {
            return Ok(None);
        }
        let mut hits = sieves.hits(&replica);
        let plain = replica.overlay.addresses();
        let gates = self.gates.clone();
        context.beyond(&stretch.end, &mut |replica, pc| {
            let gate = gates.iter().find(|gate| gate.address == pc && sieves.has(gate.breakpoint));
            if (gate.is_some() || plain.contains(&pc))
                && self.meet(replica, &Pause::Breakpoint(pc))?.is_some()
            {
                match gate.and_then(|gate| hits.iter_mut().find(|(id, _)| *id == gate.breakpoint)) {
                    Some((_, hits)) => *hits -= 1,
                    None => others -= 1,
                }
            }
            Ok(())
        })?;
        Ok(Some(Counts { hits, others }))
    }

    /// What of it lies before the floor.
    fn before_floor(
        &mut self,
        context: &mut Context<'_>,
        label: &Label,
        sieves: &Sieves,
    ) -> Result<Counts, ReplayError> {
        let mut counts = Counts { hits: Vec::new(), others: 0 };
        let Some(floor) = self.floor.filter(|floor| floor.anchor == *label && floor.steps > 0) else {
            return Ok(counts);
        };
        let mut replica = context.replica_of(floor, &mut None)?;
        let there = self.claims_here(&mut replica)?;
        let mut met = self.count(context, label, &Bound::Steps(floor.steps), usize::MAX)?.hits;
        met.push(there);
        for claims in met {
            match claims.breakpoints.iter().find(|id| sieves.has(**id)) {
                Some(&id) => match counts.hits.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, hits)) => *hits += 1,
                    None => counts.hits.push((id, 1)),
                },
                None => counts.others += usize::from(!claims.is_empty()),
            }
        }
        Ok(counts)
    }

    /// The wanted hits and what else would stop. `None` where a sieve was wrong.
    fn meetings(
        &mut self,
        context: &mut Context<'_>,
        stretch: &Stretch<'_>,
        counts: &Counts,
        wanted: &Hits,
    ) -> Result<Option<Meetings>, ReplayError> {
        let expected = counts.others + wanted.len();
        if expected == 0 {
            return Ok(Some(Meetings { all: Vec::new(), at_last: None }));
        }
        let (mut replica, sieves) = self.limited_replica(context, stretch, wanted)?;
        let mut all = Vec::new();
        let ran = self.sift(context, &mut replica, &sieves, &stretch.end, &mut |here| {
            all.push(here);
            all.len() == expected
        })?;
        let is_right = matches!(ran, Ran::Arrived(Arrival::Stopped(_)));
        Ok(is_right.then_some(Meetings { all, at_last: Some((replica, sieves)) }))
    }

    /// A replica at the beginning of a stretch that is caught at the wanted hits.
    fn limited_replica(
        &mut self,
        context: &mut Context<'_>,
        stretch: &Stretch<'_>,
        wanted: &Hits,
    ) -> Result<(Replica, Sieves), ReplayError> {
        let limit = |id| Some(hits_of(wanted, id)).filter(|hits| *hits > 0);
        let mut replica = context.replica_at(stretch.label)?;
        let sieves = self.sieve(context, &mut replica, stretch.until, &limit)?;
        Ok((replica, sieves))
    }

    /// Goes to one of the meetings again.
    fn go_to_meeting(
        &mut self,
        context: &mut Context<'_>,
        stretch: &Stretch<'_>,
        wanted: &Hits,
        meeting: usize,
    ) -> Result<(Replica, Sieves), ReplayError> {
        let (mut replica, sieves) = self.limited_replica(context, stretch, wanted)?;
        let mut left = meeting;
        let ran = self.sift(context, &mut replica, &sieves, &stretch.end, &mut |_| {
            left -= 1;
            left == 0
        })?;
        match ran {
            Ran::Arrived(Arrival::Stopped(_)) => Ok((replica, sieves)),
            _ => Err(ReplayError::Diverged("a stop was not met again".into())),
        }
    }
}

/// The wanted hits and what else would stop, in the order of time.
struct Meetings {
    all: Vec<Met>,
    /// A replica at the last of them.
    at_last: Option<(Replica, Sieves)>,
}

/// The moment at which a replica with sieves stands.
fn named(
    context: &mut Context<'_>,
    stretch: &Stretch<'_>,
    mut replica: Replica,
    sieves: Sieves,
) -> Result<Found, ReplayError> {
    sieves.remove(&mut replica)?;
    let pause = Pause::Breakpoint(replica.pc()?);
    let mut past = Past { replica, anchor: stretch.label.clone(), steps: None };
    let position = context.name(&mut past)?;
    Ok(Found::at(position, Some(pause)))
}

/// Puts sieves into a replica whose breakpoint instructions are in place, and takes out those that are not needed then.
pub(super) fn put_in(
    context: &Context<'_>,
    replica: &mut Replica,
    gates: &[crate::replay::Gate],
    until: u64,
    limit: &dyn Fn(BreakpointId) -> Option<u64>,
) -> Result<Sieves, ReplayError> {
    let armed: Vec<_> = gates.iter().filter(|gate| replica.overlay.contains(gate.address)).collect();
    for gate in &armed {
        replica.overlay.remove(&replica.memory, gate.address);
    }
    let sieves = Sieves::place(replica, context.functions, gates, limit, context.log, until)?;
    for gate in armed.into_iter().filter(|gate| !sieves.has(gate.breakpoint)) {
        let _ = replica.overlay.insert(&replica.memory, gate.address);
    }
    Ok(sieves)
}

/// The claims where a replica was caught by a sieve, if that is to be told. What is in doubt and no hit is passed; what a
/// sieve takes for a hit and is none tells that it is wrong.
pub(super) fn is_wanted(
    replica: &Replica,
    sieves: &Sieves,
    caught: &Caught,
    claims: Option<Claims>,
    is_wrong: &mut bool,
) -> Result<Option<Claims>, ReplayError> {
    if caught.in_doubt && !(claims.is_some() && sieves.count(replica, caught)?) {
        sieves.leave(replica, caught)?;
        return Ok(None);
    }
    *is_wrong = claims.is_none();
    Ok(claims)
}
