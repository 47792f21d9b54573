//! Moments near each other: the steps on the way to one are kept, so that going back among them costs little.

use super::{
    Frozen, Position, ReplayError, Replica,
    history::{Bound, Context, check_files},
    search::WALK,
    timeline::Label,
    turns::Standing,
};
use crate::sys::TraceError;

/// The steps from an anchor to a moment that was looked for, with copies on the way.
pub(crate) struct Window {
    pub(super) base: Label,
    /// Where it stood after each step, from this one on.
    pub(super) first: u32,
    pub(super) trail: Vec<Standing>,
    pub(super) copies: Vec<Copy>,
    /// The anchor behind the last step, where it was made to find that.
    pub(super) end: Option<Label>,
}

/// A copy so many steps behind the anchor.
pub(super) struct Copy {
    pub(super) steps: u32,
    pub(super) event: u64,
    pub(super) frozen: Frozen,
}

/// How many steps lie between two copies.
pub(super) const COPY_EVERY: u32 = 128;

impl Window {
    /// The moment of an anchor as steps from another one, where these are the steps between the two.
    pub(super) fn way(&self, from: &Label, to: &Label) -> Option<Position> {
        let is_known = self.base == *from && self.end.as_ref() == Some(to);
        let steps = self.first + self.trail.len() as u32;
        is_known.then(|| Position { anchor: from.clone(), steps: steps - 1 })
    }

    /// Whether it has seen a moment, and what came before it.
    fn has_seen(&self, position: &Position) -> bool {
        let step = position.steps.checked_sub(self.first);
        self.base == position.anchor && step.is_some_and(|step| step < self.trail.len() as u32)
    }
}

pub(super) fn standing(replica: &Replica) -> Result<Standing, TraceError> {
    let thread = replica.frozen.cast().acting();
    Ok(Standing { thread, registers: replica.registers()?, event: replica.event() })
}

impl Context<'_> {
    /// A replica at a moment.
    pub(crate) fn replica_of(
        &mut self,
        position: &Position,
        window: &mut Option<Window>,
    ) -> Result<Replica, ReplayError> {
        let known = window.as_mut().filter(|window| window.base == position.anchor);
        let copy =
            known.and_then(|window| window.copies.iter_mut().rev().find(|copy| copy.steps <= position.steps));
        let (mut replica, mut steps) = match copy {
            Some(copy) => {
                check_files(self.log, &copy.frozen)?;
                (Replica::new(copy.frozen.fork()?, copy.event)?, copy.steps)
            }
            None => (self.replica_at(&position.anchor)?, 0),
        };
        let walk = |context: &mut Self, replica: &mut Replica, count: u32| {
            context.run(replica, &Bound::Steps(count), &mut |_, _| Ok(false)).map(drop)
        };
        let is_near = position.steps - steps <= COPY_EVERY;
        if is_near && window.as_ref().is_some_and(|window| window.has_seen(position)) {
            replica.keep_steps();
            walk(self, &mut replica, position.steps - steps)?;
            return Ok(replica);
        }
        // Who came from far may go further back.
        let first = position.steps.saturating_sub(WALK).max(steps);
        walk(self, &mut replica, first - steps)?;
        let base = position.anchor.clone();
        let mut made = Window { base, first, trail: Vec::new(), copies: Vec::new(), end: None };
        steps = first;
        loop {
            made.trail.push(standing(&replica)?);
            if steps == position.steps {
                break;
            }
            if position.steps - steps <= COPY_EVERY {
                replica.keep_steps();
            }
            if (steps - first).is_multiple_of(COPY_EVERY) {
                made.copies.push(Copy { steps, event: replica.event(), frozen: replica.fork()? });
            }
            walk(self, &mut replica, 1)?;
            steps += 1;
        }
        // The moment of an anchor has no way to it, and another window may still be of use.
        if !made.copies.is_empty() {
            *window = Some(made);
        }
        Ok(replica)
    }

    /// Who runs at a moment, and where it stands.
    pub(crate) fn standing_at(
        &mut self,
        position: &Position,
        window: &mut Option<Window>,
    ) -> Result<Standing, ReplayError> {
        if let Some(window) = window.as_ref().filter(|window| window.base == position.anchor)
            && let Some(step) = position.steps.checked_sub(window.first)
            && let Some(standing) = window.trail.get(step as usize)
        {
            return Ok(*standing);
        }
        if position.steps == 0 {
            let anchor = self.timeline.get(&position.anchor).ok_or(ReplayError::NoSuchMoment)?;
            let (thread, registers) = (anchor.frozen.cast().acting(), anchor.frozen.registers()?);
            return Ok(Standing { thread, registers, event: anchor.event });
        }
        Ok(standing(&self.replica_of(position, window)?)?)
    }
}
