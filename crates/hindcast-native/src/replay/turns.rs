//! Which thread runs when: steps of one thread, with the turns of others between them.

use super::{
    Position, ReplayError,
    history::{Bound, Context},
    timeline::Label,
    window::Window,
};
use crate::{
    record::{Event, Leaves},
    sys::{GeneralRegisters, Tid},
};

/// A thread that runs, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) thread: Tid,
    pub(crate) registers: GeneralRegisters,
    /// How many events have happened.
    pub(crate) event: u64,
}

impl Context<'_> {
    /// How many events have happened when a thread has its next turn.
    pub(crate) fn turn_of(&self, tid: Tid, from: u64) -> Option<u64> {
        let mut events = self.log.range(from, self.log.len());
        events.find(|(_, event)| event.taker() == Some(tid)).map(|(index, _)| index + 1)
    }

    /// Whether so many events have happened before the next anchor, and can be replayed up to there.
    pub(crate) fn is_within(&self, event: u64, label: &Label) -> bool {
        let is_replayed = event.checked_sub(1).and_then(|last| self.log.get(last));
        let end = match (self.bound_after(label), self.timeline.after(label)) {
            (Bound::Events(end), _) => end,
            (_, Some(next)) => self.timeline.get(next).map_or(0, |anchor| anchor.event),
            (_, None) => self.log.len(),
        };
        event <= end && is_replayed.is_some_and(|event| !event.is_interruption())
    }

    /// The event by which a thread last gave way to another, of those before `event`.
    fn turn_from(&self, tid: Tid, event: u64) -> Option<u64> {
        let first = self.timeline.first().and_then(|label| self.timeline.get(label));
        let start = first.map_or(0, |anchor| anchor.event);
        let mut later = None;
        for (index, taker) in
            self.log.range(start, event).rev().filter_map(|(index, event)| Some((index, event.taker()?)))
        {
            if taker == tid && later.is_some() {
                return later;
            }
            later = Some(index);
        }
        later.filter(|_| first.is_some_and(|anchor| anchor.frozen.cast().acting() == tid))
    }

    /// The last moment before so many events at which a thread ran. It has not moved since.
    fn last_of_thread(&mut self, tid: Tid, event: u64) -> Result<Option<Position>, ReplayError> {
        let Some(turn) = self.turn_from(tid, event) else { return Ok(None) };
        if let Some(Event::Turn { leaves: Leaves::Anywhere, .. }) = self.log.get(turn).as_deref() {
            let anchor = self.timeline.before(&Label::after_events(turn + 1)).cloned();
            return Ok(anchor.map(|anchor| Position { anchor, steps: 0 }));
        }
        let previous = self.timeline.at_event(turn).cloned().ok_or(ReplayError::NoSuchMoment)?;
        self.before_event(previous, turn).map(Some)
    }

    /// The last moment up to another one at which a thread ran, if it did.
    pub(crate) fn last_in_thread(
        &mut self,
        position: &Position,
        tid: Tid,
        window: &mut Option<Window>,
    ) -> Result<Option<Position>, ReplayError> {
        let here = self.standing_at(position, window)?;
        if here.thread == tid { Ok(Some(position.clone())) } else { self.last_of_thread(tid, here.event) }
    }

    /// The moment one step of a thread before another; `None` at the start of the recording, or of the thread.
    pub(crate) fn before_in_thread(
        &mut self,
        position: &Position,
        tid: Tid,
        window: &mut Option<Window>,
    ) -> Result<Option<Position>, ReplayError> {
        let mut position = position.clone();
        loop {
            self.check()?;
            let here = self.standing_at(&position, window)?;
            if here.thread == tid {
                let Some(earlier) = self.before(&position, window)? else { return Ok(None) };
                let there = self.standing_at(&earlier, window)?;
                if there.thread == tid {
                    return Ok(Some(earlier));
                }
                position = earlier;
                continue;
            }
            // It stands where it gave way, and made its last step before that.
            match self.last_of_thread(tid, here.event)? {
                Some(last) => position = last,
                None => return Ok(None),
            }
        }
    }
}
