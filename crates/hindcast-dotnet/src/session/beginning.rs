//! Threads that are about to begin.
//!
//! The runtime tells of a thread at its first managed instruction. Before that, the first thread that a program starts prepares that
//! code, and takes a lock of the runtime's debugger meanwhile. A thread that is stopped there keeps the lock. Whoever then asks for
//! an evaluation, a breakpoint or a step gets no answer, and after six minutes the runtime's library gives the session up (.NET 10.0,
//! at 3 of 530 stops right after a thread was started). So such a thread first comes to its beginning, while the others stand. No
//! code of the program runs meanwhile.

use std::time::{Duration, Instant};

use hindcast_core::debug::DebugError;

use super::{Session, State, failed};
use crate::cor::{Com, Next, Thread, Thread3};

/// How long a thread may take. It may wait for one that stands, and has no lock then.
const WITHIN: Duration = Duration::from_secs(1);
/// How often to look whether the process is still there.
const GLANCE: Duration = Duration::from_millis(200);
/// `STUBFRAME_JIT_COMPILATION`: code is prepared.
const PREPARES: u32 = 10;

impl Session {
    /// Lets threads come to their beginning, so that the runtime answers.
    pub(super) fn let_threads_begin(&mut self) -> Result<(), DebugError> {
        let threads = self.all_threads()?.into_iter();
        let beginning: Vec<_> = threads.filter(|thread| self.is_beginning(thread)).collect();
        if beginning.is_empty() {
            return Ok(());
        }
        self.hold_all_but(&beginning)?;
        let begun = self.run_until_begun(&beginning);
        self.stacks.forget();
        let released = self.process().hold_threads(false).map_err(failed);
        begun.and(released)
    }

    fn is_beginning(&self, thread: &Com<Thread>) -> bool {
        let frames = || thread.expect::<Thread3>("Thread::internal_frames")?.internal_frames();
        !self.threads.has_begun(thread) && frames().is_ok_and(|frames| frames.contains(&PREPARES))
    }

    fn run_until_begun(&mut self, beginning: &[Com<Thread>]) -> Result<(), DebugError> {
        let until = Instant::now() + WITHIN;
        while beginning.iter().any(|thread| self.is_beginning(thread)) {
            self.go_on()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.events.next(Some(left.min(GLANCE))) {
                Next::Event(event) => {
                    self.state = State::Standing;
                    self.answer_quietly(None, event)?;
                    for begun in beginning.iter().filter(|thread| self.threads.has_begun(thread)) {
                        begun.hold(true).map_err(failed)?;
                    }
                }
                Next::Woken => {}
                Next::TimedOut if self.is_gone() => return Err(DebugError::Ended),
                Next::TimedOut if left.is_zero() => {
                    tracing::debug!("a thread does not come to its beginning");
                    return self.hold();
                }
                Next::TimedOut => {}
            }
        }
        Ok(())
    }
}
