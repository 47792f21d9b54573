//! Forwards through a part of the past along posts.

use std::time::{Duration, Instant};

use super::Debuggee;
use crate::replay::{
    Advance, Context, Functions, Past, Pause, Plan, Position, Posts, ReplayError, Replica, Site, Tally,
    Track, check,
};

/// How far a way was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// To the end.
    All,
    /// All posts up to this moment were passed.
    UpTo(Position),
    /// To a post that is about to be passed, which is in the tally already.
    At(Position),
}

/// Says after how many more passes it wants to be asked again; at the post itself where that is none.
pub(crate) type Countdown<'a> = &'a mut dyn FnMut(Tally) -> u64;

/// Nobody is heard for so long while a replica runs.
const DEAF: Duration = Duration::from_secs(5);

impl Debuggee {
    /// Plans how posts are put into replicas of a program. A moment at which it is loaded shows its code.
    pub(crate) fn plan_track(
        &mut self,
        at: &Position,
        (posts, sites): (Posts, Vec<Site>),
        functions: Functions<'_>,
    ) -> Result<Plan, ReplayError> {
        self.travel(functions, |context, _, window| {
            let replica = context.replica_of(at, window)?;
            Plan::new(&replica, posts, sites, context.log)
        })
    }

    /// Follows the way through the stretch that begins at a moment, up to the next checkpoint or the end.
    pub(crate) fn track(
        &mut self,
        (from, to): (&Position, &Position),
        plan: &Plan,
        tally: &mut Tally,
        countdown: Countdown<'_>,
        functions: Functions<'_>,
    ) -> Result<Tracked, ReplayError> {
        self.travel(functions, |context, _, window| {
            if to <= from {
                return Ok(Tracked::All);
            }
            context.deaf_until = Some(Instant::now() + DEAF);
            let mut replica = context.replica_of(from, window)?;
            if from.anchor >= to.anchor {
                let steps = to.steps.saturating_sub(from.steps);
                let mut walk = Walk { from, plan, tally, countdown };
                return walk.steps(context, replica, steps);
            }
            let next = context.timeline.after(&from.anchor).cloned();
            let next = next.map_or(Tracked::All, |anchor| Tracked::UpTo(Position { anchor, steps: 0 }));
            let bound = context.bound_after(&from.anchor);
            // Several anchors can be the same moment.
            if context.is_at(&replica, &bound)? {
                return Ok(next);
            }
            let set = (*tally, countdown(*tally));
            let mut track = Track::place(plan, &mut replica, set, true)?;
            let end = match context.end_beside(&bound, &track.ranges())? {
                Some(end) => end,
                None => {
                    replica = context.replica_of(from, window)?;
                    track = Track::place(plan, &mut replica, set, false)?;
                    context.end_beside(&bound, &[])?.ok_or(ReplayError::NoSuchMoment)?
                }
            };
            let here = track.tally(&replica);
            if here.passes - tally.passes >= set.1 {
                *tally = here;
                match countdown(here) {
                    0 => return Ok(Tracked::At(from.clone())),
                    left => track.go_on(&replica, left)?,
                }
            }
            let (asked, deaf_until) = (context.asked, context.deaf_until);
            let mut wanted = None;
            context.run_to_end(&mut replica, &end, &mut |replica, pause| {
                check(asked, deaf_until)?;
                let Pause::Breakpoint(address) = pause else { return Ok(false) };
                let Some(here) = track.stopped(replica, *address)? else { return Ok(false) };
                match countdown(here) {
                    0 => wanted = Some(here),
                    left => track.go_on(replica, left)?,
                }
                Ok(wanted.is_some())
            })?;
            if let Some(here) = wanted {
                *tally = here;
                track.remove(&mut replica)?;
                return named(context, Past { replica, anchor: from.anchor.clone(), steps: None });
            }
            *tally = track.tally(&replica);
            let mut beyond = Vec::new();
            context.beyond(&end, &mut |_, pc| {
                beyond.extend(plan.posts().get(&pc));
                Ok(())
            })?;
            beyond.iter().rev().for_each(|post| tally.take_back(*post));
            Ok(next)
        })
    }
}

fn named(context: &mut Context<'_>, mut past: Past) -> Result<Tracked, ReplayError> {
    context.passed(&mut past)?;
    context.name(&mut past).map(Tracked::At)
}

/// The last few steps.
struct Walk<'a, 'c> {
    from: &'a Position,
    plan: &'a Plan,
    tally: &'a mut Tally,
    countdown: Countdown<'c>,
}

impl Walk<'_, '_> {
    fn steps(
        &mut self,
        context: &mut Context<'_>,
        mut replica: Replica,
        steps: u32,
    ) -> Result<Tracked, ReplayError> {
        let mut left = (self.countdown)(*self.tally);
        for step in 0..steps {
            context.check()?;
            if let Some(&post) = self.plan.posts().get(&replica.pc()?) {
                self.tally.pass(post);
                left -= 1;
                if left == 0 {
                    left = (self.countdown)(*self.tally);
                }
                if left == 0 {
                    let steps = Some(self.from.steps + step);
                    return named(context, Past { replica, anchor: self.from.anchor.clone(), steps });
                }
            }
            if replica.advance(context.log, Advance::Step, u64::MAX)? == Pause::Boundary {
                return Err(ReplayError::NoSuchMoment);
            }
        }
        Ok(Tracked::All)
    }
}
