//! Which moment it was when a share of the recorded time had passed.

use std::time::Duration;

use super::{
    Pause, Position, ReplayError, Replica, history::Context, landmark::run_for, state::State, timeline::Label,
};

/// Shares of a stretch that are tried one after the other: a replica can be faster than the program was.
const SHARES: [f64; 3] = [1.0, 0.7, 0.4];
/// A state that is looked for comes later than one that is not.
const SLOWER: f64 = 16.0;
/// Below that the beginning of a stretch will do.
const WORTHWHILE: Duration = Duration::from_millis(1);

impl Context<'_> {
    /// The moment at which the process had computed for this share of the time from the first anchor to the end of the
    /// recording; `None` where there is no recording.
    pub(crate) fn at_share(&mut self, share: f64) -> Result<Option<Position>, ReplayError> {
        let times = self.times();
        let (Some((_, start)), Some((_, last))) = (times.first(), times.last()) else { return Ok(None) };
        let end = self.timeline.end_time().unwrap_or(*last).max(*last);
        let wanted = *start + end.saturating_sub(*start).mul_f64(share);
        let (label, time) = times.iter().rev().find(|(_, time)| *time <= wanted).unwrap_or(&times[0]);
        let anchor = self.run_for_about(label, wanted.saturating_sub(*time))?;
        if anchor != *label
            && let Some(anchor) = self.timeline.get_mut(&anchor)
        {
            anchor.time.get_or_insert(wanted);
        }
        Ok(Some(Position { anchor, steps: 0 }))
    }

    /// All anchors, and how long the process had computed there; those of which that is not known lie evenly between the
    /// others.
    fn times(&self) -> Vec<(Label, Duration)> {
        let mut times: Vec<(Label, Duration)> = Vec::new();
        let mut unknown = Vec::new();
        for (label, anchor) in self.timeline.iter() {
            unknown.push(label.clone());
            let Some(time) = anchor.time else { continue };
            let from = times.last().map_or(time, |(_, time)| *time);
            let time = time.max(from);
            let count = unknown.len() as u32;
            let step = (time - from) / count;
            times.extend((1..=count).zip(unknown.drain(..)).map(|(index, label)| match index == count {
                true => (label, time),
                false => (label, from + step * index),
            }));
        }
        let last = times.last().map_or(Duration::ZERO, |(_, time)| *time);
        times.extend(unknown.into_iter().map(|label| (label, last)));
        times
    }

    /// An anchor about so long after another one, and before the next.
    fn run_for_about(&mut self, label: &Label, time: Duration) -> Result<Label, ReplayError> {
        let event =
            |context: &Self, label: &Label| context.timeline.get(label).map_or(0, |anchor| anchor.event);
        let next = self.timeline.after(label).cloned();
        let until = match &next {
            Some(next) if self.timeline.follows_barrier(next, self.log) => event(self, next) - 1,
            Some(next) => event(self, next),
            // The last event is what ended the recording.
            None => self.log.len().saturating_sub(1),
        };
        let (mut near, mut left) = (label.clone(), time);
        if until > event(self, label) {
            let mut replica = self.replica_at(label)?;
            let pause = replica.run_for(self.log, time, until)?;
            match pause {
                Pause::Alarm | Pause::Event => {}
                Pause::Interrupted => return Err(ReplayError::Interrupted),
                pause => return Err(ReplayError::Diverged(format!("a run ended early ({pause:?})"))),
            }
            left = time.saturating_sub(replica.time());
            let copy = replica.fork()?;
            near = self.timeline.insert_after(label, copy, replica.event(), pause == Pause::Event);
            if pause == Pause::Alarm {
                return Ok(near);
            }
        }
        let is_aligned = |label: &Label| self.timeline.get(label).is_some_and(|anchor| anchor.aligned);
        match next.filter(|next| left > WORTHWHILE && !is_aligned(next)) {
            Some(next) => {
                let state = self.state_of(&next)?;
                self.before_state(near, &state, left)
            }
            None => Ok(near),
        }
    }

    /// The same without input, before a state.
    fn before_state(&mut self, near: Label, state: &State, time: Duration) -> Result<Label, ReplayError> {
        for share in SHARES {
            let mut replica = self.replica_at(&near)?;
            let event = replica.event();
            match replica.run_for(self.log, time.mul_f64(share), event + 1) {
                Ok(Pause::Alarm) => {}
                Ok(Pause::Interrupted) => return Err(ReplayError::Interrupted),
                _ => continue,
            }
            // Whether the state is still to come.
            let mut scout = Replica::new(replica.fork()?, event)?;
            match run_for(&mut scout, self.log, self.functions, state, time.mul_f64(SLOWER), &mut 0) {
                Ok(Pause::Event) => {
                    let copy = replica.fork()?;
                    return Ok(self.timeline.insert_after(&near, copy, event, false));
                }
                Ok(Pause::Interrupted) => return Err(ReplayError::Interrupted),
                _ => {}
            }
        }
        Ok(near)
    }
}
