//! The replica that a thread waits for, so that another thread can end the wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hindcast_core::debug::Interrupt as _;

use crate::sys::ProcessInterrupt;

thread_local! {
    /// A replica belongs to the thread that traces it, and that one waits for one at a time.
    static OF_THIS_THREAD: Arc<Running> = Arc::default();
}

/// What a thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Wait>);

#[derive(Debug, Default)]
struct Wait {
    process: Option<Arc<ProcessInterrupt>>,
    /// Whether nothing is lost where it ends in the middle.
    is_brief: bool,
    is_over: bool,
}

impl Running {
    pub(crate) fn of_this_thread() -> Arc<Self> {
        OF_THIS_THREAD.with(Arc::clone)
    }

    /// Does what [`Self::end`] may end anywhere.
    pub(crate) fn while_brief<T>(&self, work: impl FnOnce() -> T) -> T {
        *self.lock() = Wait { is_brief: true, ..Wait::default() };
        let done = work();
        *self.lock() = Wait::default();
        done
    }

    /// Ends the wait, and all that begin before the work is over. Without brief work nothing happens.
    pub(crate) fn end(&self) {
        let mut wait = self.lock();
        wait.is_over = wait.is_brief;
        if let Some(process) = wait.process.as_ref().filter(|_| wait.is_over) {
            process.interrupt();
        }
    }

    /// Lets a process run and waits until it stands still; `None` where it is not to begin.
    pub(super) fn wait<T>(&self, process: &Arc<ProcessInterrupt>, run: impl FnOnce() -> T) -> Option<T> {
        let mut wait = self.lock();
        if wait.is_over {
            return None;
        }
        wait.process = wait.is_brief.then(|| process.clone());
        drop(wait);
        let ran = run();
        self.lock().process = None;
        Some(ran)
    }

    fn lock(&self) -> MutexGuard<'_, Wait> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
