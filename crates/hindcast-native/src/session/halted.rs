//! Why a movement in time did not arrive.

use hindcast_core::debug::DebugError;

use super::system;
use crate::{replay::ReplayError, sys::TraceError};

/// Why a travel did not arrive.
pub(super) enum Halted {
    Interrupted,
    Failed(DebugError),
}

impl From<DebugError> for Halted {
    fn from(error: DebugError) -> Self {
        Self::Failed(error)
    }
}

impl From<TraceError> for Halted {
    fn from(error: TraceError) -> Self {
        Self::Failed(system(error))
    }
}

impl From<ReplayError> for Halted {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Interrupted => Self::Interrupted,
            ReplayError::Trace(error) => error.into(),
            error @ (ReplayError::NoSuchMoment
            | ReplayError::TooFar
            | ReplayError::Changed(_)
            | ReplayError::CopyLost) => DebugError::NoHistory(error.into()).into(),
            error @ ReplayError::TooLarge(_) => DebugError::Expression(error.into()).into(),
            ReplayError::Diverged(reason) => system(TraceError::Diverged(reason)).into(),
        }
    }
}
