//! Parts of the past in which nothing is worth a look: code beside the program finds that out, at the program's own speed.

use hindcast_core::debug::BreakpointId;

use super::{sift::put_in, survey::Surveyor};
use crate::replay::{
    Arrival, Bound, Context, End, Gate, Label, Past, Pause, Position, ReplayError, Replica, Sieves, check,
};

/// What a stretch turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Skimmed {
    /// It has to be looked at.
    Not,
    /// Nothing in it is worth a look.
    All,
    /// Nothing before this moment is. What is comes there, or next.
    UpTo(Position),
}

/// A stretch from where a replica stands.
pub(super) struct Skim<'a> {
    pub(super) replica: &'a mut Replica,
    /// The last anchor that the replica passed.
    pub(super) anchor: &'a Label,
    pub(super) bound: &'a Bound,
    pub(super) surveyor: &'a mut dyn Surveyor,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Through,
    /// At a hit.
    Caught,
    /// Where only looking tells.
    InDoubt,
}

impl Skim<'_> {
    /// Looks for the first that is worth a look. The replica stays where it is.
    pub(super) fn go(mut self, context: &mut Context<'_>) -> Result<Skimmed, ReplayError> {
        let gates = self.surveyor.gates();
        if gates.is_empty() || context.is_at(self.replica, self.bound)? {
            return Ok(Skimmed::Not);
        }
        let (mut scout, sieves) = self.sieved(context, &gates, None)?;
        if sieves.is_empty() {
            return Ok(Skimmed::Not);
        }
        let Some(end) = context.end_beside(self.bound, &sieves.ranges())? else { return Ok(Skimmed::Not) };
        if run(context, &mut scout, &sieves, &end)? != Ran::Through {
            return Ok(Skimmed::Not);
        }
        let mut hits: u64 = sieves.hits(&scout).iter().map(|(_, hits)| hits).sum();
        let mut passes = sieves.passes(&scout);
        context.beyond(&end, &mut |replica, pc| {
            if gates.iter().any(|gate| gate.address == pc) {
                passes -= 1;
                hits -= u64::from(self.surveyor.is_worth_a_look(replica)?);
            }
            Ok(())
        })?;
        if hits == 0 {
            self.surveyor.skimmed(passes, false);
            return Ok(Skimmed::All);
        }
        self.up_to_first(context, &gates, &end)
    }

    /// There is a hit: to the pass right before it, so that it can be told what was before, or to the hit itself.
    fn up_to_first(
        mut self,
        context: &mut Context<'_>,
        gates: &[Gate],
        end: &End,
    ) -> Result<Skimmed, ReplayError> {
        let (mut scout, mut sieves) = self.sieved(context, gates, Some(1))?;
        if run(context, &mut scout, &sieves, end)? != Ran::Caught {
            return Ok(Skimmed::Not);
        }
        let before = sieves.passes(&scout).saturating_sub(1);
        if before > 0 {
            let all: Vec<_> = gates.iter().map(|gate| Gate { check: None, ..gate.clone() }).collect();
            (scout, sieves) = self.sieved(context, &all, Some(before))?;
            if sieves.is_empty() || run(context, &mut scout, &sieves, end)? != Ran::Caught {
                return Ok(Skimmed::Not);
            }
        }
        sieves.remove(&mut scout)?;
        let mut past = Past { replica: scout, anchor: self.anchor.clone(), steps: None };
        context.passed(&mut past)?;
        let position = context.name(&mut past)?;
        self.surveyor.skimmed(before.saturating_sub(1), true);
        Ok(Skimmed::UpTo(position))
    }

    /// Another replica where this one stands, with sieves that stop it at the hit with this number.
    fn sieved(
        &mut self,
        context: &Context<'_>,
        gates: &[Gate],
        limit: Option<u64>,
    ) -> Result<(Replica, Sieves), ReplayError> {
        let next = context.timeline.after(self.anchor).and_then(|next| context.timeline.get(next));
        let until = next.map_or(context.log.len(), |anchor| anchor.event);
        let mut scout = self.replica.stand_in()?;
        let sieves = put_in(context, &mut scout, gates, until, &|_: BreakpointId| limit)?;
        Ok((scout, sieves))
    }
}

/// Runs to the end, or to where a sieve stops it.
fn run(context: &Context<'_>, scout: &mut Replica, sieves: &Sieves, end: &End) -> Result<Ran, ReplayError> {
    let (asked, deaf_until) = (context.asked, context.deaf_until);
    let mut ran = Ran::Through;
    let arrival = context.run_to_end(scout, end, &mut |replica, pause| {
        check(asked, deaf_until)?;
        let Pause::Breakpoint(address) = pause else { return Ok(false) };
        let Some(caught) = sieves.catch(replica, *address)? else { return Ok(false) };
        ran = if caught.in_doubt { Ran::InDoubt } else { Ran::Caught };
        Ok(true)
    })?;
    // Whatever else ends it has to be looked at.
    Ok(if ran == Ran::Through && arrival != Arrival::AtBound { Ran::InDoubt } else { ran })
}
