//! How much one answer may read.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// How many values one answer reads. A value that holds itself many times would never end otherwise.
const MOST_LOOKS: i64 = 50_000;
/// How long one answer follows the items of collections.
const LOOK_WITHIN: Duration = Duration::from_millis(1500);
/// After how many items the clock is read.
const UNTIMED: u64 = 256;

thread_local! {
    static ENTERED: Cell<u32> = const { Cell::new(0) };
    static LOOKS: Cell<i64> = const { Cell::new(0) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// An answer that is being made: the outermost one sets what all within it may read.
pub(crate) struct Answer(());

impl Answer {
    pub(crate) fn enter() -> Self {
        if ENTERED.get() == 0 {
            LOOKS.set(MOST_LOOKS);
            UNTIL.set(Some(Instant::now() + LOOK_WITHIN));
        }
        ENTERED.set(ENTERED.get() + 1);
        Self(())
    }

    /// Counts a value that is read.
    pub(super) fn count_look() {
        LOOKS.set(LOOKS.get() - 1);
    }

    /// Whether more may be read.
    pub(super) fn has_room() -> bool {
        ENTERED.get() == 0 || LOOKS.get() > 0
    }

    /// Whether following items takes too long, after so many of one collection. The first ones are always read.
    pub(super) fn is_late(items: u64) -> bool {
        items % UNTIMED == UNTIMED - 1 && Self::is_over()
    }

    /// Whether it has taken as long as it may.
    pub(super) fn is_over() -> bool {
        UNTIL.get().is_some_and(|until| Instant::now() > until)
    }

    /// Makes one of `among` parts that share what is left, so that the first one does not take all of it.
    pub(crate) fn share<T>(among: usize, make: impl FnOnce() -> T) -> T {
        let (whole, until) = (LOOKS.get(), UNTIL.get());
        let share = whole / i64::try_from(among.max(1)).unwrap_or(i64::MAX);
        LOOKS.set(share);
        let now = Instant::now();
        let among = u32::try_from(among.max(1)).unwrap_or(u32::MAX);
        UNTIL.set(until.map(|until| now + until.saturating_duration_since(now) / among));
        let made = make();
        UNTIL.set(until);
        LOOKS.set(whole - (share - LOOKS.get()));
        made
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        ENTERED.set(ENTERED.get() - 1);
        if ENTERED.get() == 0 {
            UNTIL.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_part_does_not_read_is_left_for_the_others() {
        let _answer = Answer::enter();
        let read = |many: i64| (0..many).for_each(|_| Answer::count_look());
        Answer::share(2, || {
            read(MOST_LOOKS / 2 + 10);
            assert!(!Answer::has_room());
        });
        assert!(Answer::has_room());
        Answer::share(1, || {
            assert_eq!(LOOKS.get(), MOST_LOOKS / 2 - 10);
            drop(Answer::enter());
            assert_eq!(LOOKS.get(), MOST_LOOKS / 2 - 10);
        });
    }
}
