//! How long work tells how far it is, and learns that nobody wants it any more.

/// Handed to work that may take longer than a person likes to wait.
pub trait Progress: Send + Sync {
    /// `done` of `total` items are finished.
    fn report(&self, done: u64, total: Option<u64>, message: &str);

    /// Tells how the current item goes on.
    fn note(&self, _message: &str) {}

    /// Whether the caller has given up; the work should stop at the next safe point.
    fn cancelled(&self) -> bool;
}

/// For callers that neither watch nor cancel.
pub struct Unwatched;

impl Progress for Unwatched {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}

    fn cancelled(&self) -> bool {
        false
    }
}
