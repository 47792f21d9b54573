//! How sessions begin.

use std::path::PathBuf;

use hindcast_core::debug::{AttachRequest, CoreRequest, HowBegun, LaunchRequest, Streams, TraceFileRequest};

/// What a session began with, and begins with again.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one in a session")]
pub(super) enum Origin {
    Launch(LaunchRequest),
    Attach(AttachRequest),
    Core(CoreRequest),
    Trace(TraceFileRequest),
}

impl Origin {
    pub(super) fn how(&self) -> HowBegun {
        match self {
            Self::Launch(_) => HowBegun::Launch,
            Self::Attach(_) => HowBegun::Attach,
            Self::Core(_) => HowBegun::Core,
            Self::Trace(_) => HowBegun::Trace,
        }
    }

    /// What the standard streams are of a program that was launched.
    pub(super) fn streams(&self) -> Option<Streams> {
        match self {
            Self::Launch(request) => Some(request.streams),
            Self::Attach(_) | Self::Core(_) | Self::Trace(_) => None,
        }
    }

    /// What is waited for before the session is about anything.
    pub(super) fn awaited(&self) -> Option<String> {
        match self {
            Self::Launch(LaunchRequest { follow_forks: true, .. }) => {
                Some("no process was forked yet".into())
            }
            Self::Launch(request) => {
                request.follow.as_ref().map(|program| format!("`{program}` was not executed yet"))
            }
            Self::Attach(_) | Self::Core(_) | Self::Trace(_) => None,
        }
    }

    /// The kept recording that is looked at.
    pub(super) fn recording(&self) -> Option<PathBuf> {
        match self {
            Self::Trace(request) => Some(request.trace.clone()),
            Self::Launch(_) | Self::Attach(_) | Self::Core(_) => None,
        }
    }

    /// Whether somebody wanted a history.
    pub(super) fn is_to_be_recorded(&self) -> bool {
        match self {
            Self::Launch(request) => request.record,
            Self::Attach(request) => request.record,
            Self::Core(_) | Self::Trace(_) => false,
        }
    }
}
