//! Beginning a session: starting a program, or taking hold of a running one.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::Read as _,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_core::debug::{
    AttachRequest, Claim, DebugError, Engine, HowBegun, LaunchRequest, Reason, Remedy, StopAtEntry,
    StopReason, TRACE_MAGIC, Target,
};
use hindcast_streams::{OpenError, Opened, Pump, Theirs};
use jiff::Timestamp;

use super::{
    Session,
    following::Search,
    late::Start,
    movement::{Begun, Plan},
    places::main_function,
    system,
};
use crate::{
    debuggee::Debuggee,
    look::file_name,
    process::Process,
    sys::{self, SpawnError, SpawnPlan, SpawnStreams, Tid, TraceError},
};

impl Session {
    /// Starts a program with these variables and those that the request names.
    pub(crate) fn launch(
        request: &LaunchRequest,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, DebugError> {
        let program = find_program(&request.program, request.cwd.as_deref())?;
        let opened = hindcast_streams::open(&request.stdin, request.streams).map_err(no_streams)?;
        let (streams, ends) = match opened {
            Some(Opened { theirs: Theirs { stdin, stdout, stderr }, ours }) => {
                (SpawnStreams::Own { stdin, stdout, stderr }, Some(ours))
            }
            None => (SpawnStreams::Inherited, None),
        };
        let plan = SpawnPlan {
            program: c_text(program.as_os_str())?,
            arguments: std::iter::once(program.as_os_str())
                .chain(request.args.iter().map(OsStr::new))
                .map(c_text)
                .collect::<Result<_, _>>()?,
            environment: environment(request, variables)?,
            folder: request.cwd.as_ref().map(|folder| c_text(folder.as_os_str())).transpose()?,
            streams,
        };
        let spawned = match request.follow.is_some() || request.follow_forks {
            true => sys::spawn_tree(&plan).map(|(leader, tree)| (leader, Some(tree))),
            false => sys::spawn(&plan).map(|leader| (leader, None)),
        };
        let (leader, tree) = spawned.map_err(|error| not_started(error, &program, request.cwd.as_deref()))?;
        // Ours is the last hold on the streams' other ends: they close when the program is gone.
        drop(plan);
        let mut process = Process::launched(leader).map_err(system)?;
        process.grow(tree);
        let search = Search::begin(request, &mut process);
        let start = Start::of(request);
        let is_recorded = request.record && search.is_none() && start.is_none();
        let refused = if is_recorded { process.record().err() } else { None };
        if let Some(seed) = request.chaos {
            process.begin_chaos(seed);
        }
        let pump = ends.map(|ends| Pump::start(ends, request.output.clone())).transpose();
        let pump = pump.map_err(|error| {
            DebugError::System(format!("cannot read what the program prints: {error}").into())
        })?;
        let process = Debuggee::new(process);
        let mut session =
            Self::bare(process, HowBegun::Launch, request.output.clone(), pump, request.stop_at_entry);
        (session.search, session.start) = (search, start);
        if session.search.is_none() {
            session.look_around()?;
        }
        session.unrecorded = match (request.record, refused) {
            (true, None) if session.start.is_some() => {
                Some("it is recorded from `record_from` on, and has not got there".into())
            }
            (true, None) if session.search.is_some() => {
                Some("it is recorded when the program begins that is followed".into())
            }
            (true, None) => None,
            (true, Some(error)) => Some(format!("this program cannot be recorded here: {error}")),
            (false, _) => Some("it was launched with `record: false`".into()),
        };
        session.target.args.clone_from(&request.args);
        session.target.executable = program.to_string_lossy().into_owned();
        Ok(session)
    }

    pub(crate) fn attach(request: &AttachRequest) -> Result<Self, DebugError> {
        let pid = i32::try_from(request.pid).map_err(|_| DebugError::ProcessNotFound(request.pid))?;
        if sys::is_ancestor(Tid(pid)) {
            return Err(DebugError::PermissionDenied(Reason::new(format!("cannot attach to {pid}: this debugger was started by it, and both would wait for each other"
            )).advise("attach to another process, or debug this one from a server that is not below it")));
        }
        // A session of another engine does not trace it. Where the system cannot lock, two at once are bad luck.
        let claim = Claim::on(request.pid);
        if matches!(claim, Ok(None)) {
            let reason = format!("cannot attach to {pid}: another debugger is attached to it");
            return Err(DebugError::PermissionDenied(
                Reason::new(reason).advise("end that session first; a process has one debugger at a time"),
            ));
        }
        let mut process = Process::attach(Tid(pid)).map_err(|error| not_attached(error, request.pid))?;
        let unrecorded = match request.record {
            false => Some("it was attached to without `record: true`".into()),
            true => {
                let recorded = process.record_running(process.witness());
                recorded.err().map(|error| format!("it cannot be recorded here: {error}"))
            }
        };
        let process = Debuggee::new(process);
        let mut session =
            Self::new(process, HowBegun::Attach, request.output.clone(), None, StopAtEntry::No)?;
        session.unrecorded = unrecorded;
        session.claim = claim.ok().flatten();
        Ok(session)
    }

    pub(super) fn new(
        process: Debuggee,
        how: HowBegun,
        log: Arc<hindcast_core::debug::OutputLog>,
        pump: Option<Pump>,
        entry: StopAtEntry,
    ) -> Result<Self, DebugError> {
        let mut session = Self::bare(process, how, log, pump, entry);
        session.look_around()?;
        Ok(session)
    }

    /// A session that knows nothing of the program yet.
    fn bare(
        process: Debuggee,
        how: HowBegun,
        log: Arc<hindcast_core::debug::OutputLog>,
        pump: Option<Pump>,
        entry: StopAtEntry,
    ) -> Self {
        let pid = process.pid();
        // What belongs to the whole process is not found under the number of a first thread that has ended.
        let witness = process.system_pid();
        let executable = sys::executable(witness).unwrap_or_default().to_string_lossy().into_owned();
        let target = Target {
            engine: Engine::Native,
            pid: Some(pid.0.unsigned_abs()),
            name: file_name(&executable),
            executable,
            args: sys::command_line(witness).unwrap_or_default().into_iter().skip(1).collect(),
            cwd: sys::current_folder(witness).unwrap_or_default().to_string_lossy().into_owned(),
            how,
            since: Timestamp::now(),
            runtime: None,
            followed: None,
        };
        Self {
            target,
            search: None,
            start: None,
            is_forked: false,
            claim: None,
            current: process.acting(),
            hidden: 0,
            percents: super::percents::Percents::default(),
            process,
            symbols: hindcast_symbols::Symbols::new(),
            image: crate::image::Image::of_process(witness),
            mappings: Vec::new(),
            main: None,
            library_event: None,
            panic_event: None,
            breakpoints: super::breakpoints::Breakpoints::default(),
            plan: None,
            pump,
            log,
            entry,
            source_exists: std::cell::RefCell::default(),
            named_sources: std::collections::HashMap::new(),
            unrecorded: Some("only programs that are launched here are recorded".into()),
            happenings: Vec::new(),
            live_stop: None,
            chase: None,
            chronicle: None,
            inquiry: None,
            tracing: None,
            experiment: None,
            way: None,
            history_end: None,
            tally: None,
            interpreter: super::python::Interpreter::default(),
            trail: None,
            uncaught: None,
            tellers: None,
        }
    }

    /// Looks at what the program is made of.
    fn look_around(&mut self) -> Result<(), DebugError> {
        self.update_image()?;
        self.watch_libraries();
        self.watch_panics();
        self.target.runtime = self.symbols.producer();
        Ok(())
    }

    pub(super) fn begin(&mut self) -> Result<Begun, DebugError> {
        let stands = |session: &mut Self, reason| {
            let current = session.current;
            let mut stop = session.stop_at(current, reason);
            stop.detail = session.image.complaint();
            Begun::Stands(stop)
        };
        match self.target.how {
            HowBegun::Launch => {}
            HowBegun::Trace => return Ok(self.end_of_recording()),
            // It was under way: attaching paused it.
            HowBegun::Attach | HowBegun::Core => return Ok(stands(self, StopReason::Pause)),
        }
        if self.search.is_some() {
            return Ok(Begun::Goes(Plan::AwaitProgram));
        }
        if let Some(start) = self.start.take() {
            return self.go_to_start(start);
        }
        if self.is_forked && self.entry != StopAtEntry::No {
            return Ok(stands(self, StopReason::Entry));
        }
        match self.entry {
            StopAtEntry::Loader => Ok(stands(self, StopReason::Entry)),
            StopAtEntry::No => Ok(Begun::Goes(Plan::Run)),
            StopAtEntry::Main => match main_function(&self.symbols).or_else(|| self.first_instruction()) {
                Some(address) => {
                    self.insert_all(&[address])?;
                    Ok(Begun::Goes(Plan::RunTo { addresses: vec![address], reason: StopReason::Entry }))
                }
                None => Ok(stands(self, StopReason::Entry)),
            },
        }
    }

    /// Where the program itself begins, after the dynamic linker.
    pub(super) fn first_instruction(&self) -> Option<u64> {
        let auxiliary = sys::auxiliary_vector(self.process.system_pid()).ok()?;
        auxiliary.into_iter().find_map(|(kind, value)| (kind == libc::AT_ENTRY).then_some(value))
    }

    /// Looks at what is mapped now; breakpoints bind anew when that changed.
    pub(super) fn update_image(&mut self) -> Result<(), DebugError> {
        if self.search.is_some() {
            // Breakpoints are meant for the program that is waited for.
            return Ok(());
        }
        self.mappings = sys::mappings(self.process.system_pid()).unwrap_or_default();
        let memory = self.process.memory();
        let changed = self.image.update(&self.mappings, &memory, &mut self.symbols);
        if !changed {
            return Ok(());
        }
        self.named_sources.clear();
        self.interpreter.forget();
        let executable = sys::executable(self.process.system_pid()).unwrap_or_default();
        self.main = self
            .image
            .iter()
            .find(|loaded| Path::new(&loaded.path) == executable)
            .map(|loaded| loaded.module);
        self.rebind()
    }

    /// The dynamic linker calls a function of its own whenever something was loaded or unloaded.
    fn watch_libraries(&mut self) {
        let auxiliary = sys::auxiliary_vector(self.process.system_pid()).unwrap_or_default();
        let linker = auxiliary.into_iter().find_map(|(kind, value)| (kind == libc::AT_BASE).then_some(value));
        let module = linker.and_then(|base| self.image.at(base)).map(|loaded| loaded.module);
        let Some(address) = module.and_then(|module| self.symbols.symbol_address(module, "_dl_debug_state"))
        else {
            return;
        };
        if self.process.insert_breakpoint(address).is_ok() {
            self.library_event = Some(address);
        }
    }

    /// Rust mangles the name, in this way or that.
    fn watch_panics(&mut self) {
        let named = |name: &[u8]| {
            let (new, old) = (b"10rust_panic", b"10rust_panic17h");
            name.ends_with(new) || name == b"rust_panic" || name.windows(old.len()).any(|part| part == old)
        };
        let address = self.main.and_then(|main| self.symbols.symbol_that(main, named));
        self.panic_event = address.filter(|&address| self.process.insert_breakpoint(address).is_ok());
    }

    /// The process runs another program now.
    pub(super) fn executed(&mut self, tid: Tid) -> Result<(), DebugError> {
        self.current = tid;
        self.library_event = None;
        self.panic_event = None;
        self.forget_insertions();
        self.image.clear(&mut self.symbols);
        let executable =
            sys::executable(self.process.system_pid()).unwrap_or_default().to_string_lossy().into_owned();
        self.target.name = file_name(&executable);
        self.target.executable = executable;
        self.look_around()
    }
}

/// The file to execute; a bare name is looked for as a shell would.
fn find_program(program: &Path, folder: Option<&Path>) -> Result<PathBuf, DebugError> {
    let failed = |reason: &str, advice: &'static str| {
        let what = format!("cannot start `{}`: {reason}", program.display());
        DebugError::LaunchFailed(Reason::new(what).advise(advice))
    };
    let given = if program.components().count() == 1 && !program.is_absolute() {
        // Beside where it is to run first: a program that was just built there is what is meant.
        let here = folder.map_or_else(|| program.to_owned(), |folder| folder.join(program));
        let in_path = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|folder| folder.join(program))
                .find(|candidate| is_executable(candidate))
        });
        if here.is_file() { here } else { in_path.unwrap_or(here) }
    } else if program.is_relative() {
        let from_folder = folder.map(|folder| folder.join(program)).filter(|path| path.exists());
        from_folder.unwrap_or_else(|| program.to_owned())
    } else {
        program.to_owned()
    };
    let path =
        std::path::absolute(&given).map_err(|error| failed(&error.to_string(), "give an absolute path"))?;
    match path.metadata() {
        Err(_) => Err(failed("there is no such file", "build it first, or give its absolute path")),
        Ok(data) if data.is_dir() => Err(failed("it is a folder", "give the path of the executable in it")),
        Ok(data) if data.is_file() && begins_with(&path, TRACE_MAGIC) => {
            Err(failed("it is a recording", "give it as `trace` instead"))
        }
        Ok(_) if !is_executable(&path) => {
            Err(failed("it is not executable", "give the path of the compiled program, or `chmod +x` it"))
        }
        Ok(_) => Ok(path),
    }
}

fn begins_with(path: &Path, magic: &[u8; 8]) -> bool {
    let mut start = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *magic
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn environment(
    request: &LaunchRequest,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<CString>, DebugError> {
    let others = variables
        .filter(|(name, _)| !name.to_str().is_some_and(|name| request.env.contains_key(name)))
        .map(|(mut variable, value)| {
            variable.push("=");
            variable.push(value);
            variable
        });
    let theirs = request.env.iter().map(|(name, value)| format!("{name}={value}").into());
    others.chain(theirs).map(|variable| c_text(&variable)).collect()
}

fn c_text(text: &OsStr) -> Result<CString, DebugError> {
    CString::new(text.as_bytes()).map_err(|_| {
        DebugError::LaunchFailed("program, arguments and environment cannot contain a zero byte".into())
    })
}

fn no_streams(error: OpenError) -> DebugError {
    let advice = match error {
        OpenError::Input { .. } => "`stdin` names a file that can be read",
        OpenError::System(_) => "close what has many files open, or raise `ulimit -n`",
    };
    DebugError::LaunchFailed(Reason::new(error.to_string()).advise(advice))
}

fn not_started(error: SpawnError, program: &Path, folder: Option<&Path>) -> DebugError {
    let program = program.display();
    DebugError::LaunchFailed(match error {
        SpawnError::Folder(error) => {
            let folder = folder.unwrap_or(Path::new(".")).display();
            Reason::new(format!("cannot start `{program}` in `{folder}`: {error}"))
                .advise("`cwd` must be an existing folder")
        }
        SpawnError::Program(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            Reason::new(format!("cannot start `{program}`: it is not an executable for this machine"))
                .advise("a script is debugged through its interpreter")
        }
        SpawnError::Trace(TraceError::System { source, .. })
            if source.raw_os_error() == Some(libc::EPERM) =>
        {
            Reason::new(format!("cannot trace `{program}`: the system forbids it")).remedy(Remedy::RunDoctor)
        }
        error => format!("cannot start `{program}`: {error}").into(),
    })
}

fn not_attached(error: TraceError, pid: u32) -> DebugError {
    match error {
        TraceError::Gone => DebugError::ProcessNotFound(pid),
        TraceError::System { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
            let known = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let status = |field: &str| known.lines().find_map(|line| line.strip_prefix(field).map(str::trim));
            let tracer = status("TracerPid:").filter(|&tracer| tracer != "0");
            DebugError::PermissionDenied(match tracer {
                Some(tracer) => {
                    Reason::new(format!("cannot attach to {pid}: process {tracer} is tracing it already"))
                        .advise("end that session first; a process has one debugger at a time")
                }
                None => Reason::new(format!("cannot attach to {pid}: the system forbids it"))
                    .remedy(Remedy::Launch)
                    .advise("run as its owner")
                    .remedy(Remedy::RunDoctor),
            })
        }
        error => DebugError::System(format!("cannot attach to {pid}: {error}").into()),
    }
}
