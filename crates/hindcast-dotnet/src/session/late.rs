//! Callers that come late: an async method may go on in another thread before its caller has come to wait for it.
//!
//! Nobody can tell then who awaits it, and a step out of it has nowhere to go. So the caller, which is still on its way in
//! another thread, gets a little time while the thread that went on stands.

use std::time::{Duration, Instant};

use hindcast_core::debug::{DebugError, Interrupt, Stop};

use super::{Session, State, failed, stack::ManagedFrame};
use crate::cor::{Com, Next, Thread};

/// When to look again; each time takes twice as long as the one before.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// How many times to look, half a second in all. A caller that has something else to do before it waits would take any time.
const LOOKS: u32 = 8;
/// The longest stack that is looked through for an async method.
const NEAR: usize = 64;

impl Session {
    /// Lets other threads run until those that call the async method in which a thread stands wait for it. A stop where
    /// something happens to them meanwhile.
    pub(super) fn let_callers_wait(&mut self, thread: &Com<Thread>) -> Result<Option<Stop>, DebugError> {
        let frame = self.frames(thread, 1)?.0.first().and_then(Self::frame_identity);
        let call = thread.id().ok().zip(frame);
        // Threads that wait to be told of stay where they are.
        let is_needless = !self.postponed.is_empty() || call.is_some() && call == self.threads.waited_for;
        if is_needless || !self.is_awaited_soon(thread)? {
            return Ok(None);
        }
        self.threads.waited_for = call;
        thread.hold(true).map_err(failed)?;
        let outcome = self.run_without(thread);
        if self.state != State::Ended {
            self.hold()?;
            thread.hold(false).map_err(failed)?;
        }
        outcome
    }

    fn run_without(&mut self, thread: &Com<Thread>) -> Result<Option<Stop>, DebugError> {
        for look in 0..LOOKS {
            let until = Instant::now() + FIRST_LOOK * 2u32.pow(look);
            loop {
                self.go_on()?;
                match self.events.next(Some(until.saturating_duration_since(Instant::now()))) {
                    Next::Event(event) => {
                        if let Some(stop) = self.take_in(event)? {
                            return Ok(Some(stop));
                        }
                        if Instant::now() >= until {
                            break;
                        }
                    }
                    Next::Woken if self.bell.take() => {
                        // The movement itself ends by it.
                        self.bell.interrupt();
                        return Ok(None);
                    }
                    Next::Woken => {}
                    Next::TimedOut => break,
                }
            }
            self.hold()?;
            if !self.is_awaited_soon(thread)? {
                self.threads.waited_for = None;
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether a thread stands in an async method that nobody on its stack has called: it was resumed.
    pub(super) fn is_resumed(&mut self, thread: &Com<Thread>) -> Result<bool, DebugError> {
        if !self.frames(thread, 1)?.0.first().is_some_and(is_async) {
            return Ok(false);
        }
        let (frames, _) = self.frames(thread, NEAR)?;
        Ok(frames.iter().skip(1).all(|frame| frame.frame.is_none()))
    }

    /// Whether nobody waits for a thread's async method, or for the last of those that wait for it, but another thread runs an
    /// async method, which may be about to.
    fn is_awaited_soon(&mut self, thread: &Com<Thread>) -> Result<bool, DebugError> {
        if !self.is_resumed(thread)? {
            return Ok(false);
        }
        let (frames, _) = self.frames(thread, NEAR)?;
        if !frames.last().is_some_and(|last| self.is_unclaimed(last)) {
            return Ok(false);
        }
        let own = thread.id().map_err(failed)?;
        for other in self.all_threads()? {
            if other.id().map_err(failed)? == own {
                continue;
            }
            let (frames, _) = self.frames(&other, NEAR)?;
            if frames.iter().any(|frame| frame.frame.is_some() && is_async(frame)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a frame is of an async method, or an async iterator.
fn is_async(frame: &ManagedFrame) -> bool {
    frame.module.pdb().is_some_and(|pdb| matches!(pdb.async_stepping(frame.method), Ok(Some(_))))
}
