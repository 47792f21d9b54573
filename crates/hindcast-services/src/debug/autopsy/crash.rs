//! A failure as it is kept beyond its session.

use std::sync::{Arc, PoisonError};

use hindcast_core::debug::{DebugBackend, Frame, Moment};

use super::{Autopsy, Session, is_own};
use crate::{
    Failure,
    debug::{
        secrets::Mask,
        source::{self, AllowedSources},
    },
};

/// So many frames of one's own code have their statements read.
const WITH_STATEMENTS: usize = 8;

/// What a failure was, without secrets. It does not change when the session goes on.
#[derive(Debug, Clone, Default)]
pub struct Crash {
    /// The autopsy as it is told, up to its hints.
    pub told: String,
    /// In a sentence.
    pub summary: String,
    /// The signal's name or the exception's type.
    pub kind: String,
    /// What was wrong with a memory access, such as `null_dereference read`.
    pub access: String,
    /// What the exception, or what caught the signal's cause, said.
    pub message: String,
    /// The expression that held the bad pointer.
    pub expression: String,
    /// Innermost first.
    pub stack: Vec<CrashFrame>,
    /// The name of the program.
    pub program: String,
    /// What tells this build from others.
    pub build: Option<String>,
    /// When it was, in a recording.
    pub moment: Option<Moment>,
}

/// A frame of it.
#[derive(Debug, Clone, Default)]
pub struct CrashFrame {
    /// As the engine names it.
    pub function: String,
    /// Whether it is the program's own code.
    pub is_own: bool,
    /// Where, as in `orders.c:12`.
    pub place: String,
    /// The source line.
    pub statement: String,
}

/// All frames, with the statements of those of the program's own code.
pub(super) fn frames(
    backend: &mut dyn DebugBackend,
    frames: &[Frame],
    (mask, sources): (Mask, &AllowedSources),
) -> Vec<CrashFrame> {
    let mut read = 0;
    let mut frame = |frame: &Frame| {
        let location = &frame.location;
        let is_read = is_own(frame) && read < WITH_STATEMENTS;
        read += usize::from(is_read);
        let statement = if is_read { source::line_of(backend, location, sources, mask) } else { None };
        let name = location.file.as_deref().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
        let place = name.zip(location.line).map(|(name, line)| format!("{name}:{line}"));
        CrashFrame {
            function: location.function.clone().unwrap_or_default(),
            is_own: is_own(frame),
            place: place.unwrap_or_default(),
            statement: statement.unwrap_or_default(),
        }
    };
    frames.iter().map(&mut frame).collect()
}

impl Session {
    /// The failure that the session stands at; else the last one that was looked at in it.
    pub async fn crash(&self) -> Result<Option<Arc<Crash>>, Failure> {
        // A session whose program runs or has ended still has what was seen of it.
        match self.autopsy(super::FRAMES_FOR_RECURSION, 1).await {
            Ok(_) => {}
            Err(failure) if self.known_crash().is_none() => return Err(failure),
            Err(_) => {}
        }
        let Some(known) = self.known_crash() else { return Ok(None) };
        if known.build.is_some() {
            return Ok(Some(known));
        }
        let build = self.build().await;
        let crash = Arc::new(Crash { build, ..(*known).clone() });
        *self.crash.lock().unwrap_or_else(PoisonError::into_inner) = Some(crash.clone());
        Ok(Some(crash))
    }

    fn known_crash(&self) -> Option<Arc<Crash>> {
        self.crash.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what an autopsy found, if something failed.
    pub(super) fn remember(&self, autopsy: &Autopsy) {
        let (kind, message) = match (&autopsy.exception, &autopsy.signal) {
            (Some(raised), _) => (raised.exception_type.clone(), raised.message.clone()),
            (None, Some(signal)) => (signal.name.clone(), signal.cause.clone()),
            (None, None) => return,
        };
        let access = autopsy.access.as_ref().map(|access| {
            let wanted = access.access.map(|wanted| format!(" {wanted:?}").to_lowercase());
            format!("{}{}", access.kind, wanted.unwrap_or_default())
        });
        let standing = self.standing();
        let (told, when) =
            (autopsy.without_hints(), standing.scene.as_ref().and_then(|scene| scene.when.clone()));
        let crash = Crash {
            told,
            summary: autopsy.summary.clone(),
            kind,
            access: access.unwrap_or_default(),
            // What the processor says of an access is in its kind.
            message: message.filter(|_| autopsy.access.is_none()).unwrap_or_default(),
            expression: autopsy.expression.clone().unwrap_or_default(),
            stack: autopsy.stack.clone(),
            program: standing.target.as_ref().map(|target| target.name.clone()).unwrap_or_default(),
            build: None,
            moment: when.map(|when| when.moment),
        };
        *self.crash.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(crash));
    }

    /// The build id of the program; where it has none, nothing.
    async fn build(&self) -> Option<String> {
        let executable = self.standing().target.map(|target| target.executable.clone())?;
        let modules = self.modules().await.ok()?;
        // A path may have been given with links or `..` in it.
        let name = executable.rsplit('/').next().unwrap_or(&executable);
        let is_it = modules.iter().find(|module| module.path == executable);
        is_it.or_else(|| modules.iter().find(|module| module.name == name))?.build_id.clone()
    }

    /// The kept recording that the session is about, where it is about one.
    pub fn kept_recording(&self) -> Option<&std::path::Path> {
        self.recording.as_deref()
    }
}
