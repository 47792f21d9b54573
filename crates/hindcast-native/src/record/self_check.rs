//! The self-check of a recording: with `HINDCAST_SELF_CHECK=1` every event is replayed at once, and the result compared with
//! the live program. An effect of a system call that was forgotten is then an error, instead of a false value later.

use std::sync::OnceLock;

use super::{Event, Recorder};
use crate::{
    process::Overlay,
    replay::{Comparison, Follower, Live},
    sys::{Stopped, TraceError},
};

#[cfg(test)]
thread_local! {
    /// Whether what a test records from now on is checked, whatever the environment says.
    pub(crate) static SELF_CHECK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn is_asked_for() -> bool {
    #[cfg(test)]
    if SELF_CHECK.get() {
        return true;
    }
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| std::env::var_os("HINDCAST_SELF_CHECK").is_some_and(|value| value == "1"))
}

impl Recorder {
    /// Compares after an event.
    pub(super) fn follow(&mut self, thread: &Stopped, overlay: &Overlay) -> Result<(), TraceError> {
        self.compare(thread, overlay, Comparison::WhenCheap)
    }

    /// Compares before the program's last call.
    pub(super) fn follow_to_end(&mut self, thread: &Stopped, overlay: &Overlay) -> Result<(), TraceError> {
        if !self.is_active() {
            return Ok(());
        }
        self.compare(thread, overlay, Comparison::AtEnd)
    }

    /// Begins anew at a checkpoint that cannot be reached by replaying what was before.
    pub(super) fn follow_checkpoint(&mut self) -> Result<(), TraceError> {
        let reached = |event: Option<&Event>| matches!(event, Some(Event::Call(_) | Event::Answer(_)));
        let event = self.log.len();
        let last = event.checked_sub(1).and_then(|last| self.log.get(last));
        let Some(label) = self.timeline.last().cloned().filter(|_| is_asked_for()) else { return Ok(()) };
        let is_aligned = label.aligned_event() == Some(event);
        if is_aligned && (self.follower.is_none() || !reached(last.as_deref())) {
            let anchor = self.timeline.get_mut(&label).ok_or(TraceError::Gone)?;
            self.follower = Some(Follower::new(anchor.frozen.fork()?, event, self.follower.as_ref())?);
        }
        Ok(())
    }

    fn compare(
        &mut self,
        thread: &Stopped,
        overlay: &Overlay,
        comparison: Comparison,
    ) -> Result<(), TraceError> {
        let Some(follower) = &mut self.follower else { return Ok(()) };
        let live = Live { thread, overlay, areas: self.sharing.areas() };
        match follower.follow(&self.log, &live, comparison) {
            Err(TraceError::SelfCheck(difference)) => match self.sharing.look() {
                // It is known why: somebody else wrote.
                Err(unrepeatable) => {
                    self.withdraw(unrepeatable.reason);
                    Ok(())
                }
                // A test fails at once; everybody else is told why the history ends.
                Ok(()) if cfg!(test) => Err(TraceError::SelfCheck(difference)),
                Ok(()) => {
                    tracing::error!("self-check: {difference}");
                    self.withdraw(format!("the self-check failed: {difference}"));
                    Ok(())
                }
            },
            followed => followed,
        }
    }
}
