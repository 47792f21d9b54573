//! Ending a movement early, from another thread.

use std::sync::atomic::{AtomicBool, Ordering};

use hindcast_core::debug::Interrupt;

use crate::cor::Waker;

/// Remembers that it rang until somebody asks.
#[derive(Debug)]
pub(super) struct Bell {
    rung: AtomicBool,
    waker: Waker,
}

impl Bell {
    pub(super) fn new(waker: Waker) -> Self {
        Self { rung: AtomicBool::new(false), waker }
    }

    /// Whether it rang since the last time this was asked.
    pub(super) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }
}

impl Interrupt for Bell {
    fn interrupt(&self) {
        self.rung.store(true, Ordering::Release);
        self.waker.wake();
    }
}
