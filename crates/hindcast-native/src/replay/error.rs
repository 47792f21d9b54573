//! Why a moment cannot be made again.

use hindcast_core::debug::{Reason, Remedy};

use crate::{record::MappedFile, sys::TraceError};

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// It did something else than the first time. Nothing that it shows is the past.
    #[error("the replay differs from the recording: {0}")]
    Diverged(String),
    /// It is not in the recording, or its checkpoint had to go.
    #[error("there is no such moment in this recording any more")]
    NoSuchMoment,
    /// It would take too long to find.
    #[error("that moment lies too far from what can be found quickly")]
    TooFar,
    /// More memory than the processor can watch.
    #[error("{0} bytes are more than can be looked for at once (32, aligned)")]
    TooLarge(u64),
    /// The program saw something else there than is there now.
    #[error("`{0}` has changed since the program mapped it, so what it saw then is lost")]
    Changed(String),
    /// The copy of the program that the moment is reached from is gone.
    #[error(
        "a copy of the program that is kept for its past was ended from outside, perhaps for lack of memory"
    )]
    CopyLost,
    /// Somebody asked.
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl ReplayError {
    pub(super) fn unreadable(event: u64) -> Self {
        Self::Diverged(format!("event {event} cannot be read back from the disk"))
    }

    pub(super) fn changed(file: &MappedFile) -> Self {
        Self::Changed(file.path().unwrap_or_else(|_| "a file".into()))
    }
}

impl From<ReplayError> for Reason {
    fn from(error: ReplayError) -> Self {
        let reason = Self::new(error.to_string());
        match error {
            ReplayError::NoSuchMoment => reason.remedy(Remedy::ListMoments),
            ReplayError::TooFar => reason.advise("go to a moment near it first").remedy(Remedy::ListMoments),
            ReplayError::TooLarge(_) => reason.advise("ask for a field or an element of it"),
            ReplayError::Changed(_) => {
                reason.advise("go to a moment before it was mapped").advise("record the program again")
            }
            ReplayError::CopyLost => reason
                .advise("ask again: an earlier copy is used then, if there is one")
                .advise("go on and ask at the next stop"),
            ReplayError::Diverged(_) | ReplayError::Interrupted | ReplayError::Trace(_) => reason,
        }
    }
}
