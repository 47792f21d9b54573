//! Starting workers.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt, process::ExitStatusExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use hindcast_core::debug::{
    AttachRequest, Capability, Confinement, CoreRequest, DebugBackend, DebugEngine, DebugError, Ending,
    Engine, Language, LaunchRequest, Layer, Loss, Movement, OutputLog, Reason, Remedy, Streams,
    TraceFileRequest,
};
use hindcast_dap::Profiles;
use nix::sys::signal::Signal;

use crate::{
    data_folder::usual_umask,
    engines::{engine_of_attach, engine_of_launch, with_interpreter},
};

use super::{
    backend::RemoteBackend,
    link::Link,
    variables::Variables,
    wire::{Beginning, Call, Setup},
};

/// Begins every session in a worker process, which is this program again.
#[derive(Debug, Clone)]
pub(crate) struct WorkerEngine {
    /// Where .NET is, unless a variable says so.
    pub(crate) dotnet: Option<PathBuf>,
    /// The debug adapters that there may be.
    pub(crate) profiles: Profiles,
    /// The user's part of them, for the worker: JSON.
    pub(crate) users_profiles: Option<String>,
    /// What programs have of our variables.
    pub(crate) variables: Variables,
    /// What keeps workers and their programs in.
    pub(crate) confinement: Option<Confinement>,
}

impl DebugEngine for WorkerEngine {
    fn capabilities(&self) -> Vec<Capability> {
        let circumstances =
            Circumstances { setup: self.setup(), variables: self.variables, ..Circumstances::default() };
        let asked = start(&nothing_printed(), circumstances).and_then(|link| link.ask(&Call::Capabilities));
        asked.unwrap_or_else(|error| {
            tracing::warn!(%error, "a worker process cannot tell what this machine allows");
            Vec::new()
        })
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let engine = engine_of_launch(request, &self.profiles);
        if request.streams == Streams::Inherited && engine != Engine::Native {
            let what = match engine {
                Engine::Dotnet => "a .NET program cannot be recorded",
                _ => "a program under a debug adapter cannot be recorded",
            };
            let reason = Reason::new(what).remedy(Remedy::Launch);
            return Err(DebugError::Unsupported(reason.advise("or record a native program")));
        }
        if request.streams == Streams::Inherited {
            let what = "a program in a worker process cannot have our standard streams";
            return Err(DebugError::Unsupported(what.into()));
        }
        // The worker itself has next to none.
        let mut env = self.variables.collect();
        env.extend(request.env.clone());
        if engine == Engine::Dotnet {
            self.name_dotnet(&mut env);
        }
        let request = LaunchRequest { env, ..request.clone() };
        let request = with_interpreter(&request, std::iter::empty(), &self.profiles).into_owned();
        let beginning = Beginning::Launch(request.clone());
        let begun = self.begin(beginning, &request.output);
        begun.map_err(|error| match error {
            DebugError::LaunchFailed(reason) if self.confinement.is_some() && engine != Engine::Native => {
                DebugError::LaunchFailed(reason.advise(CONFINED_RUNTIME))
            }
            error => error,
        })
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let attach = || self.begin(Beginning::Attach(request.clone()), &request.output);
        match attach() {
            Err(DebugError::Lost(_)) if hindcast_dotnet::ends_soon(request.pid) => {
                Err(DebugError::ProcessNotFound(request.pid))
            }
            // It may wait for a debugger that was killed together with its server.
            Err(DebugError::System(reason))
                if engine_of_attach(request, &self.profiles) == Engine::Dotnet =>
            {
                match hindcast_dotnet::release_abandoned(request.pid) {
                    Ok(true) => attach(),
                    _ => Err(DebugError::System(reason)),
                }
            }
            answer => answer,
        }
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.begin(Beginning::Core(request.clone()), &nothing_printed())
    }

    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.begin(Beginning::Trace(request.clone()), &nothing_printed())
    }

    fn layers(&self) -> Result<Vec<Layer>, DebugError> {
        let circumstances =
            Circumstances { setup: self.setup(), variables: self.variables, ..Circumstances::default() };
        start(&nothing_printed(), circumstances)?.ask(&Call::Layers)
    }

    fn confined(&self, confinement: Confinement) -> Option<Arc<dyn DebugEngine>> {
        let variables = Variables::Confined;
        Some(Arc::new(Self { variables, confinement: Some(confinement), ..self.clone() }))
    }
}

impl WorkerEngine {
    fn setup(&self) -> Setup {
        Setup { users_profiles: self.users_profiles.clone(), confinement: self.confinement.clone() }
    }

    fn begin(
        &self,
        beginning: Beginning,
        output: &Arc<OutputLog>,
    ) -> Result<Box<dyn DebugBackend>, DebugError> {
        let circumstances = Circumstances::of(&beginning, self);
        let link = start(output, circumstances)?;
        Ok(Box::new(RemoteBackend::begin(link, beginning)?))
    }

    fn name_dotnet(&self, env: &mut BTreeMap<String, String>) {
        let is_set = env.get(DOTNET_ROOT).is_some_and(|root| !root.is_empty());
        let root = self.dotnet.as_ref().and_then(|root| root.to_str()).filter(|_| !is_set);
        if let Some(root) = root {
            env.insert(DOTNET_ROOT.to_owned(), root.to_owned());
        }
    }
}

/// Why a runtime or a debug adapter that is installed may not be found.
const CONFINED_RUNTIME: &str = "a confined program sees only what is installed in the system's folders: for what is elsewhere, ask the \
     operator to name it in `debug.readable`, and in `debug.dotnet` or `debug.adapters`";

const DOTNET_ROOT: &str = "DOTNET_ROOT";

/// What a worker must know when it is started.
struct Circumstances {
    /// Whether it only mends what another worker has left.
    mends: bool,
    /// The process that it will be attached to. It lets go of that when the server dies; a launched program dies with it.
    attached: Option<u32>,
    /// The program's folder for temporary files: a .NET runtime and its debugger meet there.
    temporary: Option<OsString>,
    /// Whether it puts its session away when the server dies, instead of dying with it.
    gently: bool,
    /// What it is told before anything else.
    setup: Setup,
    /// What it and its program have of our variables.
    variables: Variables,
    /// Whether it has those that a debug adapter is found by that attaches.
    finds_adapters: bool,
}

impl Default for Circumstances {
    fn default() -> Self {
        Self {
            mends: false,
            attached: None,
            temporary: None,
            gently: false,
            setup: Setup::default(),
            variables: Variables::Ours,
            finds_adapters: false,
        }
    }
}

impl Circumstances {
    fn of(beginning: &Beginning, engine: &WorkerEngine) -> Self {
        let profiles = &engine.profiles;
        let its = match beginning {
            Beginning::Launch(request) => match engine_of_launch(request, profiles) {
                Engine::Dotnet => {
                    Self { temporary: request.env.get(TMPDIR).map(OsString::from), ..Self::default() }
                }
                // Adapters and their programs are not traced, so nothing but the worker ends them.
                Engine::Adapter => Self { gently: true, ..Self::default() },
                Engine::Native => Self::default(),
            },
            Beginning::Attach(request) => Self::of_attached(request, engine_of_attach(request, profiles)),
            _ => Self::default(),
        };
        Self { setup: engine.setup(), variables: engine.variables, ..its }
    }

    fn of_attached(request: &AttachRequest, engine: Engine) -> Self {
        let is_dotnet = engine == Engine::Dotnet;
        let temporary = is_dotnet.then(|| hindcast_dotnet::temporary_folder(request.pid).into());
        let finds_adapters = engine == Engine::Adapter;
        Self { attached: Some(request.pid), temporary, gently: true, finds_adapters, ..Self::default() }
    }
}

const TMPDIR: &str = "TMPDIR";

fn nothing_printed() -> Arc<OutputLog> {
    Arc::new(OutputLog::new(0))
}

fn start(output: &Arc<OutputLog>, circumstances: Circumstances) -> Result<Link, DebugError> {
    spawn(output, circumstances)
        .map_err(|error| DebugError::System(format!("cannot start a worker process: {error}").into()))
}

/// Called on the session's thread, because the system ends a worker with the thread that started it.
fn spawn(output: &Arc<OutputLog>, circumstances: Circumstances) -> io::Result<Link> {
    let Circumstances { attached, temporary, mends, gently, setup, variables, finds_adapters } =
        circumstances;
    let (mut calls, its_calls) = UnixStream::pair()?;
    let (bells, its_bells) = UnixStream::pair()?;
    // Not by its path: what is installed there by now may be another version.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("hindcast").args(["worker", "debug"]);
    if gently {
        command.arg("--gently");
    }
    if let Some(mask) = usual_umask() {
        command.arg("--umask").arg(mask.to_string());
    }
    let kept = std::env::vars_os().filter(|(name, value)| {
        variables.reach_worker(name, value) || finds_adapters && variables.find_adapters(name)
    });
    // A confined program can open what its worker has open.
    let errors = if setup.confinement.is_some() { Stdio::null() } else { Stdio::inherit() };
    let child = command
        .env_clear()
        .envs(kept)
        .envs(temporary.map(|folder| (TMPDIR, folder)))
        // What is typed at our terminal is not meant for it.
        .process_group(0)
        .stdin(OwnedFd::from(its_calls))
        .stdout(OwnedFd::from(its_bells))
        .stderr(errors)
        .spawn()?;
    let worker = Worker::of(child, attached.filter(|_| !mends));
    setup.write(&mut calls)?;
    Link::new(calls, bells, worker, output.clone())
}

/// A worker process, which is killed and waited for at the latest when nobody holds it any more.
pub(super) struct Worker {
    child: Mutex<Option<Child>>,
    /// The process that it is attached to.
    attached: Option<u32>,
}

impl Worker {
    fn of(child: Child, attached: Option<u32>) -> Self {
        Self { child: Mutex::new(Some(child)), attached }
    }

    /// A worker that is no process, for tests.
    #[cfg(test)]
    pub(super) fn thread() -> Self {
        Self { child: Mutex::new(None), attached: None }
    }

    /// Ends it without warning.
    pub(super) fn kill(&self) {
        if let Some(child) = &mut *self.child.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be gone already.
            let _ = child.kill();
        }
    }

    /// Ends it if it has not ended, and says how it did.
    pub(super) fn bury(&self) -> Loss {
        self.kill();
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.take().and_then(|mut child| child.wait().ok());
        if status.is_some_and(|status| status.signal().is_some()) {
            self.release_attached();
        }
        let Some(status) = status else { return Loss::of_engine("its worker process has ended") };
        let program_ended = status.code() == Some(hindcast_dotnet::STUCK);
        Loss { why: format!("its worker process {}", how(status)), program_ended }
    }

    /// A worker that was killed has not let go of what it was attached to. The system does that for native programs; a .NET
    /// runtime waits for its debugger.
    fn release_attached(&self) {
        let Some(pid) = self.attached else { return };
        let released = hindcast_dotnet::release_abandoned(pid).map_err(|error| error.to_string());
        let mended = released.and_then(|was_abandoned| {
            if was_abandoned { resume_threads(pid).map_err(|error| error.to_string()) } else { Ok(()) }
        });
        if let Err(error) = mended {
            tracing::warn!(pid, %error, "a .NET program that was attached to cannot be let go of");
        }
    }
}

/// Threads that a debugger has suspended stay suspended when it is killed. One that attaches resumes them.
fn resume_threads(pid: u32) -> Result<(), DebugError> {
    let request = AttachRequest {
        pid,
        port: None,
        record: false,
        language: Language::Dotnet,
        just_my_code: true,
        output: nothing_printed(),
    };
    let circumstances = Circumstances { mends: true, ..Circumstances::of_attached(&request, Engine::Dotnet) };
    let beginning = Beginning::Attach(request);
    let mut session = RemoteBackend::begin(start(&nothing_printed(), circumstances)?, beginning)?;
    session.run(Movement::Begin)?;
    session.end(Ending::Detach)
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bury();
    }
}

fn how(status: ExitStatus) -> String {
    let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
    match (signal, status.code()) {
        (Some(Signal::SIGKILL), _) => "was killed, by somebody or for want of memory".into(),
        (Some(signal), _) => format!("died of {}", signal.as_str()),
        (None, Some(hindcast_dotnet::STUCK)) => {
            "ended, because the program was killed in the middle of a call".into()
        }
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "has ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> WorkerEngine {
        let profiles = Profiles::with(&BTreeMap::new()).unwrap();
        let variables = Variables::Ours;
        WorkerEngine { dotnet: None, profiles, users_profiles: None, variables, confinement: None }
    }

    #[test]
    fn the_configured_dotnet_is_named_where_no_variable_does() {
        let named = |root: Option<&str>| {
            let engine = WorkerEngine { dotnet: Some("/opt/net".into()), ..none() };
            let mut env: BTreeMap<_, _> =
                root.map(|root| (DOTNET_ROOT.to_owned(), root.to_owned())).into_iter().collect();
            engine.name_dotnet(&mut env);
            env[DOTNET_ROOT].clone()
        };
        assert_eq!(named(None), "/opt/net");
        assert_eq!(named(Some("")), "/opt/net");
        assert_eq!(named(Some("/home/me/net")), "/home/me/net");
        let mut none = BTreeMap::new();
        self::none().name_dotnet(&mut none);
        assert!(none.is_empty());
    }
}
