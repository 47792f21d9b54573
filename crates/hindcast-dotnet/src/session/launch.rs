//! Beginning and ending a session.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hindcast_core::debug::{
    AttachRequest, Claim, DebugError, Ending, Engine, HowBegun, LaunchRequest, OutputLog, OutputStream,
    Reason, Remedy, StopAtEntry, Target,
};
use hindcast_streams::Pump;
use jiff::Timestamp;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Session, State, breakpoints::Breakpoints, events::Plan, interrupt::Bell, sites::Sites, stack::StackCache,
    threads::Threads,
};
use crate::{
    cor::{
        Calls, Debugging, DebuggingError, Events, Exit, Hresult, Image, MappedRuntime, Next, Prepared,
        Remains, Startup, StartupError, blame, give_up, other_debugger, temporary_folder,
    },
    modules::Modules,
    pipe::{Listening, Silent},
    program::{Program, ProgramError},
};

/// How long a process that was let go of, or killed, may take to notice.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long it may take until an end that made a call fail is known.
const NOTICED_WITHIN: Duration = Duration::from_millis(500);

/// What a session begins with.
struct Beginning {
    pid: u32,
    runtime: MappedRuntime,
    how: HowBegun,
    output: Arc<OutputLog>,
    just_my_code: bool,
    stop_at_entry: StopAtEntry,
    calls: Arc<Calls>,
}

/// Refuses options that only native programs support, instead of ignoring them.
fn refuse_what_is_for_native_programs(request: &LaunchRequest) -> Result<(), DebugError> {
    let asked = [
        (request.chaos.is_some(), "chaos"),
        (request.follow.is_some(), "follow"),
        (request.follow_forks, "follow_forks"),
        (request.record_from.is_some(), "record_from"),
    ];
    let Some((_, option)) = asked.into_iter().find(|(is_asked, _)| *is_asked) else { return Ok(()) };
    let reason = Reason::new(format!("`{option}` is for native programs, and this is a .NET program"));
    Err(DebugError::Unsupported(reason.advise(format!("launch it without `{option}`"))))
}

impl Session {
    pub(crate) fn launch(request: &LaunchRequest) -> Result<Self, DebugError> {
        refuse_what_is_for_native_programs(request)?;
        let program = Program::find(&request.program, &request.env).map_err(no_program)?;
        let opened = hindcast_streams::open(&request.stdin, request.streams)
            .map_err(|error| DebugError::LaunchFailed(error.to_string().into()))?;
        let opened = opened.ok_or_else(|| {
            DebugError::Unsupported("a .NET program cannot have our own standard streams".into())
        })?;
        let arguments: Vec<&OsStr> = program
            .host_arguments
            .iter()
            .map(|argument| argument.as_os_str())
            .chain(request.args.iter().map(OsStr::new))
            .collect();
        let environment = program.variables.iter().cloned().chain(request.env.clone());
        let failed = |error: StartupError| {
            let reason = Reason::new(error.to_string());
            DebugError::LaunchFailed(match error {
                StartupError::Folder { .. } => reason.advise("`cwd` must be an existing folder"),
                StartupError::Temporary { .. } => {
                    reason.advise("`env` can set another `TMPDIR`, which must exist and have a short path")
                }
                _ => reason,
            })
        };
        let prepared =
            Prepared::new(&program.host, &arguments, request.cwd.as_deref(), environment, opened.theirs)
                .map_err(failed)?;
        let startup = Startup::prepare(prepared.pid()).map_err(failed)?;
        let pump = Pump::start(opened.ours, request.output.clone()).map_err(|error| {
            DebugError::System(format!("cannot read what the program prints: {error}").into())
        })?;
        let calls = Arc::new(Calls::default());
        let _call = calls.enter();
        let spawned = prepared.start(calls.clone()).map_err(failed)?;
        startup.await_runtime(&spawned).map_err(|error| not_started(&error, &pump, request))?;
        let begun = runtime_of(spawned.pid()).and_then(|runtime| {
            Self::begin(Beginning {
                pid: spawned.pid(),
                runtime,
                how: HowBegun::Launch,
                output: request.output.clone(),
                just_my_code: request.just_my_code,
                stop_at_entry: request.stop_at_entry,
                calls: calls.clone(),
            })
        });
        let mut session = begun.map_err(|error| match spawned.wait(NOTICED_WITHIN) {
            Some(how) => not_started(&StartupError::Ended { how: how.to_string() }, &pump, request),
            None => error,
        })?;
        startup.release().map_err(|error| DebugError::System(error.to_string().into()))?;
        session.launched = Some(spawned);
        session.pump = Some(pump);
        session.target.args.clone_from(&request.args);
        session.target.executable = program.assembly.to_string_lossy().into_owned();
        session.target.name = stem(&program.assembly);
        Ok(session)
    }

    pub(crate) fn attach(request: &AttachRequest) -> Result<Self, DebugError> {
        let refused = |who: String| {
            let reason = Reason::new(format!("{who} is attached to process {}", request.pid));
            Err(DebugError::PermissionDenied(reason.advise("detach that one first")))
        };
        let claim = Claim::on(request.pid);
        if matches!(claim, Ok(None)) {
            return refused("another debugger".into());
        }
        if let Some(other) = other_debugger(request.pid) {
            return refused(format!("another debugger (process {other})"));
        }
        let runtime = runtime_of(request.pid)?;
        let gone = || DebugError::ProcessNotFound(request.pid);
        let remains = Remains::of(request.pid).map_err(|_| gone())?;
        let calls = Arc::new(Calls::default());
        calls.watch(remains).map_err(|error| {
            DebugError::System(format!("cannot watch process {}: {error}", request.pid).into())
        })?;
        let call = calls.enter();
        let listening = Listening::of(request.pid).map_err(|silent| match remains.is_alive() {
            true => not_connected(&silent, request.pid),
            false => gone(),
        })?;
        let beginning = Beginning {
            pid: request.pid,
            runtime,
            how: HowBegun::Attach,
            output: request.output.clone(),
            just_my_code: request.just_my_code,
            stop_at_entry: StopAtEntry::No,
            calls: calls.clone(),
        };
        let mut session = Self::begin(beginning).map_err(|error| {
            listening.hang_up();
            if remains.ends_within(NOTICED_WITHIN) { gone() } else { error }
        })?;
        // The library does not notice the end of a process in the middle of its beginning.
        if !remains.is_alive() {
            drop(call);
            return Err(gone());
        }
        // Where the system cannot lock, two at once are bad luck.
        session.claim = claim.ok().flatten();
        Ok(session)
    }

    fn begin(beginning: Beginning) -> Result<Self, DebugError> {
        let Beginning { pid, runtime, how, output, just_my_code, stop_at_entry, calls } = beginning;
        let events = Events::new();
        let remains = Remains::of(pid).map_err(|_| DebugError::ProcessNotFound(pid))?;
        blame(remains);
        let debugging =
            Debugging::attach(pid, &runtime, &events).map_err(|error| not_attached(error, pid))?;
        let bell = Arc::new(Bell::new(events.waker()));
        Ok(Self {
            target: described(pid, how, &runtime),
            debugging,
            events,
            bell,
            remains,
            image: Image::of(pid),
            calls,
            launched: None,
            claim: None,
            pump: None,
            output,
            modules: Modules::of_process(pid),
            sites: Sites::default(),
            breakpoints: Breakpoints::default(),
            threads: Threads::default(),
            stacks: StackCache::default(),
            state: State::Running,
            plan: Plan::Begin,
            stepping: None,
            stop_at_entry,
            just_my_code,
            last_stop: None,
            overflowed: None,
            stuck: Vec::new(),
            was_stopped: false,
            postponed: VecDeque::new(),
        })
    }

    /// Kills the program, or lets go of it.
    pub(super) fn finish(&mut self, how: Ending) -> Result<(), DebugError> {
        if self.state == State::Ended {
            return Ok(());
        }
        if self.is_gone() {
            self.leave();
            return Ok(());
        }
        self.modules.types.forget();
        match how {
            Ending::Terminate => self.terminate(),
            Ending::Detach => self.detach(),
        }
    }

    fn terminate(&mut self) -> Result<(), DebugError> {
        self.leave();
        match self.launched.take() {
            // Dropping it kills it and removes what it leaves.
            Some(spawned) => drop(spawned),
            None => {
                let Some(number) = self.target.pid else { return Ok(()) };
                let temporary = temporary_folder(number);
                let pid = Pid::from_raw(number.cast_signed());
                kill(pid, Signal::SIGKILL).map_err(|error| {
                    DebugError::System(format!("cannot end process {pid}: {error}").into())
                })?;
                self.remains.remove(temporary.as_os_str());
            }
        }
        if let Some(pump) = &self.pump {
            pump.drain();
        }
        Ok(())
    }

    fn detach(&mut self) -> Result<(), DebugError> {
        self.hold()?;
        // Somebody may have stopped it since it stands.
        self.wake();
        self.end_plan();
        self.breakpoints.take_out_all();
        self.drain_events();
        let detached = self.process().detach();
        // It does not while a call for an evaluation has not returned.
        if let Err(error) = detached
            && self.launched.is_none()
            && !self.is_gone_soon()
        {
            give_up(&format!("the runtime does not let go of the program: {error}"));
        }
        if self.was_stopped && detached.is_ok() {
            self.send(Signal::SIGSTOP);
        }
        self.leave();
        if let Some(spawned) = &mut self.launched {
            spawned.release();
        }
        if let Some(pump) = self.pump.take() {
            // It goes on in any case; without a reader, to what it prints next.
            let _ = pump.leave();
        }
        detached.map_err(super::failed)?;
        // Tells the runtime's library to give back what it holds.
        let _ = self.debugging.debugging.terminate();
        Ok(())
    }

    pub(super) fn send(&self, signal: Signal) {
        if let Some(pid) = self.target.pid {
            // One that has ended needs none.
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        }
    }

    /// Takes out what has happened, also what the library has not told yet: a debuggee with untold events is not let go of.
    fn drain_events(&mut self) {
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until {
            while let Next::Event(event) = self.events.next(Some(Duration::ZERO)) {
                drop(event);
                // The debuggee stands once more for each of them.
                let _ = self.process().go_on(0);
            }
            if !self.process().has_queued_callbacks(std::ptr::null_mut()).is_ok_and(|queued| queued) {
                return;
            }
            // The next one is told when it goes on, and makes it stand.
            let _ = self.process().go_on(0);
            if !matches!(self.events.next(Some(NOTICED_WITHIN)), Next::Event(_)) {
                let _ = self.process().stop(0);
            }
        }
    }

    /// Whether the process has ended, or does so in a moment.
    pub(super) fn is_gone_soon(&self) -> bool {
        self.is_gone_within(NOTICED_WITHIN)
    }

    pub(super) fn is_gone_within(&self, within: Duration) -> bool {
        // The system knows before its parent has told us.
        self.is_gone() || self.remains.ends_within(within) || self.is_gone()
    }

    /// How the program that we started ended; none for one that was running before.
    pub(super) fn exit(&mut self) -> Option<Exit> {
        let spawned = self.launched.as_ref()?;
        // The runtime tells of the end a little before the system does.
        spawned.wait(END_WITHIN).or_else(|| {
            spawned.kill();
            spawned.wait(END_WITHIN)
        })
    }
}

fn runtime_of(pid: u32) -> Result<MappedRuntime, DebugError> {
    match MappedRuntime::of(pid) {
        Ok(Some(runtime)) => Ok(runtime),
        Ok(None) => Err(not_attached(DebuggingError::NoRuntime { pid }, pid)),
        Err(error) => Err(not_attached(error, pid)),
    }
}

fn described(pid: u32, how: HowBegun, runtime: &MappedRuntime) -> Target {
    let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    // The first argument that names an assembly is the program; what follows is its own.
    let at = words.iter().position(|word| word.ends_with(".dll") || word.ends_with(".exe"));
    let executable = match at {
        Some(at) => link("cwd").join(&words[at]),
        None => {
            let host = link("exe");
            crate::program::assembly_beside(&host).unwrap_or(host)
        }
    };
    let args = words.iter().skip(at.unwrap_or(0) + 1).filter(|word| !word.is_empty()).cloned().collect();
    Target {
        pid: Some(pid),
        name: stem(&executable),
        executable: executable.to_string_lossy().into_owned(),
        args,
        cwd: link("cwd").to_string_lossy().into_owned(),
        how,
        since: Timestamp::now(),
        runtime: Some(runtime_name(runtime)),
        followed: None,
        engine: Engine::Dotnet,
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `.NET 10.0.0`, from the folder that the runtime was loaded from.
fn runtime_name(runtime: &MappedRuntime) -> String {
    let folder =
        runtime.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let major = folder.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(..5) => format!(".NET Core {folder}"),
        Some(_) => format!(".NET {folder}"),
        // Deployed with its runtime: the version is in none of its paths.
        None => ".NET".to_owned(),
    }
}

fn no_program(error: ProgramError) -> DebugError {
    let advice = match &error {
        ProgramError::NoDotnet => {
            "install a .NET runtime (package `dotnet-runtime-8.0` or later), or set DOTNET_ROOT to its folder"
        }
        ProgramError::NotAnAssembly { .. } | ProgramError::NotAHost { .. } => {
            "name the program's .dll, its executable, or the folder that `dotnet build` wrote"
        }
        ProgramError::Library { .. } => "name the program that uses the library",
        ProgramError::Needs32Bit { .. } => "build it with the platform `AnyCPU` or `x64`",
        ProgramError::Framework { .. } => "build it for .NET (`net8.0` or later)",
        ProgramError::Unreadable { .. } => return DebugError::LaunchFailed(error.to_string().into()),
    };
    let reason = Reason::new(error.to_string()).advise(advice);
    match error {
        ProgramError::NoDotnet => DebugError::LaunchFailed(reason.remedy(Remedy::RunDoctor)),
        ProgramError::NotAnAssembly { .. }
        | ProgramError::Needs32Bit { .. }
        | ProgramError::Framework { .. } => DebugError::BadFile(reason),
        _ => DebugError::LaunchFailed(reason),
    }
}

fn not_started(error: &StartupError, pump: &Pump, request: &LaunchRequest) -> DebugError {
    pump.drain();
    let log = &request.output;
    let said = log.read(log.end().saturating_sub(4096), 4096, Some(OutputStream::Stderr));
    let said: Vec<u8> = said.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    if said.is_empty() {
        return DebugError::LaunchFailed(error.to_string().into());
    }
    let reason = Reason::new(format!("{error}; it printed: {said}"));
    // What `dotnet` says of a framework that is not there; only the second part is in all versions.
    let lacks_framework =
        said.contains("You must install or update .NET") || said.contains("aka.ms/dotnet-core-applaunch");
    DebugError::LaunchFailed(match lacks_framework {
        true => reason.advise(
            "install that framework, or try a newer one with `env: {\"DOTNET_ROLL_FORWARD\": \"Major\"}`",
        ),
        false => reason,
    })
}

fn not_attached(error: DebuggingError, pid: u32) -> DebugError {
    let advised = |what: String, advice: &'static str| Reason::new(what).advise(advice);
    match &error {
        DebuggingError::Maps { error: system, .. } => match system.kind() {
            std::io::ErrorKind::NotFound => DebugError::ProcessNotFound(pid),
            _ if system.raw_os_error() == Some(nix::libc::ESRCH) => DebugError::ProcessNotFound(pid),
            _ => DebugError::PermissionDenied(not_shown(pid, user_of(pid), system)),
        },
        DebuggingError::NoRuntime { .. } => DebugError::Unsupported(advised(
            error.to_string(),
            "if it is a .NET program, attach a moment later or launch it; otherwise attach with `language: c`",
        )),
        DebuggingError::Cor(cor) if cor.code == Hresult::ALREADY_ATTACHED => DebugError::PermissionDenied(
            advised(format!("another debugger is attached to process {pid}"), "detach that one first"),
        ),
        DebuggingError::Cor(cor) if cor.code == Hresult::DEBUGGING_DISABLED => DebugError::PermissionDenied(
            advised(format!("cannot debug process {pid}: {}", cor.code), "start it without that variable"),
        ),
        DebuggingError::Library { .. } => DebugError::Unsupported(advised(
            error.to_string(),
            "debugging needs the file of the program's own runtime; install that runtime completely",
        )),
        _ => DebugError::System(format!("cannot debug process {pid}: {error}").into()),
    }
}

/// Why no debugger can talk with a process.
fn not_connected(silent: &Silent, pid: u32) -> DebugError {
    let reason = Reason::new(format!("cannot debug process {pid}: {silent}"));
    match silent {
        Silent::Stopped => DebugError::Unsupported(reason.advise(format!("let it go on with `kill -CONT {pid}`"))),
        Silent::System(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            DebugError::PermissionDenied(reason.advise("run hindcast as the user of that process"))
        }
        Silent::SwitchedOff(_) => DebugError::PermissionDenied(reason.advise("start it without that variable")),
        Silent::NoPipe(_) => DebugError::Unsupported(reason.advise(
            "start the program again: its runtime makes the pipe when it begins, in the folder that `TMPDIR` names; a program in \
             a container or under `chroot` has another `/tmp`: run hindcast there",
        )),
        Silent::NotListening(_) | Silent::System(_) => DebugError::System(
            reason.advise("attach again in a moment; start the program again if that does not help"),
        ),
    }
}

/// Why the system does not show what a process has mapped.
fn not_shown(pid: u32, owner: Option<u32>, error: &std::io::Error) -> Reason {
    match owner {
        Some(owner) if owner != nix::unistd::geteuid().as_raw() => {
            Reason::new(format!("process {pid} belongs to another user (uid {owner}): {error}"))
                .advise("run hindcast as that user")
        }
        // One that protects its memory from others of the same user, or has more rights than this one.
        Some(_) => Reason::new(format!(
            "process {pid} belongs to this user, but the system does not let others look into it: {error}"
        ))
        .advise("start it without what protects it (`prctl(PR_SET_DUMPABLE, 0)`, capabilities of its file), or run hindcast as root"),
        None => Reason::new(format!("cannot look into process {pid}: {error}")).remedy(Remedy::RunDoctor),
    }
}

/// The user whose rights a process has. The owner of its folder in `/proc` is root where the process protects its memory.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_another_users_or_protected() {
        let us = nix::unistd::geteuid().as_raw();
        assert_eq!(user_of(std::process::id()), Some(us));
        assert_eq!(user_of(u32::MAX), None);
        let refused = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let said = |owner| not_shown(7, owner, &refused).what;
        assert!(said(Some(us + 1)).starts_with("process 7 belongs to another user (uid "), "{}", said(None));
        assert!(said(Some(us)).starts_with("process 7 belongs to this user, but"), "{}", said(Some(us)));
        assert!(said(None).starts_with("cannot look into process 7: "), "{}", said(None));
    }
}
