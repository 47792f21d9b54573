//! Begins sessions through debug adapters.

use hindcast_core::debug::{
    AttachRequest, CoreRequest, DebugBackend, DebugEngine, DebugError, Language, LaunchRequest, Reason,
};

use crate::{
    profile::{Profile, Profiles},
    session::Session,
};

/// Begins sessions through the adapters of these profiles.
#[derive(Debug, Clone)]
pub struct AdapterEngine {
    profiles: Profiles,
}

impl AdapterEngine {
    /// With these profiles.
    pub fn new(profiles: Profiles) -> Self {
        Self { profiles }
    }

    fn profile(&self, language: &Language) -> Result<Option<&Profile>, DebugError> {
        let Language::Other(name) = language else { return Ok(None) };
        self.profiles.named(name).map(Some).ok_or_else(|| {
            let known = self.profiles.languages().join("`, `");
            DebugError::Unsupported(
                Reason::new(format!("there is no language `{name}`"))
                    .advise(format!("`language` is `auto`, `c`, `cpp`, `rust`, `dotnet`, `{known}`, or a profile of `debug.adapters` in the configuration")),
            )
        })
    }
}

impl DebugEngine for AdapterEngine {
    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let named = self.profile(&request.language)?;
        let profile = named.or_else(|| self.profiles.of_program(&request.program)).ok_or_else(|| {
            let what = format!("no debug adapter is for `{}`", request.program.display());
            DebugError::Unsupported(Reason::new(what).advise("say what it is written in with `language`"))
        })?;
        Ok(Box::new(Session::launch(profile, request)?))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let program = std::fs::read_link(format!("/proc/{}/exe", request.pid)).ok();
        let profile = match self.profile(&request.language)? {
            Some(profile) => Some(profile),
            None => program.as_deref().and_then(|program| match request.port {
                Some(_) => self.profiles.of_listener(program),
                None => self.profiles.of_program(program),
            }),
        };
        let profile = profile.ok_or_else(|| {
            let what = format!("no debug adapter is for process {}", request.pid);
            DebugError::Unsupported(Reason::new(what).advise("say what it is written in with `language`"))
        })?;
        if request.port.is_some() && !profile.attaches_to_ports() {
            let what = format!("hindcast does not attach by a port through {}", profile.adapter);
            return Err(DebugError::Unsupported(Reason::new(what).advise("attach by `pid`")));
        }
        Ok(Box::new(Session::attach(profile, request)?))
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Err(DebugError::Unsupported(
            Reason::new(format!("a debug adapter cannot open the core file `{}`", request.core.display()))
                .advise("open it with `language: c` to see the interpreter's own frames"),
        ))
    }
}
