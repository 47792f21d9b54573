//! Where a run with sieves ends.

use std::ops::Range;

use super::super::{
    Advance, Arrival, Bound, Context, Label, Pause, ReplayError, Replica,
    history::Visit,
    landmark::run_to_mark,
    state::{Likeness, State},
};

/// The end of a stretch as a replica with sieves finds it.
pub(crate) struct End {
    /// So many events have happened then.
    event: u64,
    /// Behind the last event it is a state, and the anchor that has it.
    state: Option<(Label, State)>,
}

impl End {
    /// How many steps behind the end of the stretch it is: where a state has to be recognised by a later one.
    fn overrun(&self) -> usize {
        self.state.as_ref().and_then(|(_, state)| state.lead()).map_or(0, |lead| lead.steps)
    }
}

impl Context<'_> {
    /// Whether a replica stands at a bound already. With a sieve where it stands it would not be recognised there any more,
    /// because it goes on in the sieve's code.
    pub(crate) fn is_at(&self, replica: &Replica, bound: &Bound) -> Result<bool, ReplayError> {
        let Bound::Anchor(label) = bound else { return Ok(false) };
        let anchor = self.timeline.get(label).ok_or(ReplayError::NoSuchMoment)?;
        Ok(anchor.event == replica.event() && State::of(&anchor.frozen)?.compare(replica)? == Likeness::Same)
    }

    /// The end of the stretch to a bound, if it can be found with other code in these places.
    pub(crate) fn end_beside(
        &mut self,
        bound: &Bound,
        taken: &[Range<u64>],
    ) -> Result<Option<End>, ReplayError> {
        Ok(match bound {
            Bound::Steps(_) => None,
            Bound::Boundary => Some(End { event: u64::MAX, state: None }),
            Bound::Events(count) => Some(End { event: *count, state: None }),
            Bound::Anchor(label) => {
                let anchor = self.timeline.get(label).ok_or(ReplayError::NoSuchMoment)?;
                let event = anchor.event;
                if anchor.aligned {
                    return Ok(Some(End { event, state: None }));
                }
                let (state, is_clear) = self.state_beside(label, taken)?;
                is_clear.then(|| End { event, state: Some((label.clone(), state)) })
            }
        })
    }

    /// Runs to the end, and a few steps further where it is recognised by a later state.
    pub(crate) fn run_to_end(
        &self,
        replica: &mut Replica,
        end: &End,
        visit: Visit<'_>,
    ) -> Result<Arrival, ReplayError> {
        let arrival = self.run_to_event(replica, end.event, visit)?;
        match (&end.state, arrival) {
            (Some((_, state)), Arrival::AtBound) => {
                match run_to_mark(replica, self.log, self.functions, state, visit)? {
                    Pause::Event => Ok(Arrival::AtBound),
                    Pause::Interrupted => Err(ReplayError::Interrupted),
                    pause => Ok(Arrival::Stopped(pause)),
                }
            }
            (_, arrival) => Ok(arrival),
        }
    }

    /// Where a replica stands from the end of the stretch to where a run to it ends, which is too far.
    pub(crate) fn beyond(
        &mut self,
        end: &End,
        visit: &mut dyn FnMut(&mut Replica, u64) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let (Some((label, _)), steps @ 1..) = (&end.state, end.overrun()) else { return Ok(()) };
        let mut replica = self.replica_at(label)?;
        for _ in 0..steps {
            let pc = replica.pc()?;
            visit(&mut replica, pc)?;
            replica.advance(self.log, Advance::Step, u64::MAX)?;
        }
        Ok(())
    }
}
