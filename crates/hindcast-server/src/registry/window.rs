//! Which part of a long list is wanted.

use std::ops::Range;

/// The entries from some number on, at most so many. Whoever lists asks which of its next entries are among them, so that the others
/// need not be made: a collection may have a million documents.
#[derive(Debug)]
pub(crate) struct Window {
    skip: usize,
    left: usize,
}

impl Window {
    pub(crate) fn new(skip: usize, most: usize) -> Self {
        Self { skip, left: most }
    }

    /// Which of the next `count` entries are wanted.
    pub(crate) fn of_next(&mut self, count: usize) -> Range<usize> {
        let start = self.skip.min(count);
        let end = count.min(start.saturating_add(self.left));
        self.skip -= start;
        self.left -= end - start;
        start..end
    }

    /// The wanted ones of these, which come next.
    pub(crate) fn of<T>(&mut self, mut entries: Vec<T>) -> Vec<T> {
        let wanted = self.of_next(entries.len());
        entries.truncate(wanted.end);
        entries.drain(..wanted.start);
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_goes_over_the_ends_of_what_is_listed() {
        let mut window = Window::new(3, 4);
        assert_eq!(window.of(vec![0, 1]), [0; 0]);
        assert_eq!(window.of(vec![2, 3]), [3]);
        assert_eq!(window.of_next(0), 0..0);
        assert_eq!(window.of_next(2), 0..2);
        assert_eq!(window.of(vec![6, 7, 8]), [6]);
        assert_eq!(window.of(vec![9]), [0; 0]);
    }
}
