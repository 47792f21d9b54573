//! The clock seam: logic never reads the wall clock itself.

use jiff::Timestamp;

/// Tells the time. Tests move a manual clock; the program wires the system's.
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// A clock that moves only when told to.
#[cfg(feature = "test-support")]
pub struct ManualClock(std::sync::Mutex<Timestamp>);

#[cfg(feature = "test-support")]
impl ManualClock {
    /// A clock standing at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self(std::sync::Mutex::new(start))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: std::time::Duration) {
        let mut now = self.0.lock().expect("a clock is never poisoned");
        *now = now.checked_add(by).expect("tests stay within the calendar");
    }
}

#[cfg(feature = "test-support")]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("a clock is never poisoned")
    }
}
