//! Beginning a session: streams, the adapter, and what it is told first.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hindcast_core::debug::{
    DebugError, Engine, HowBegun, LaunchRequest, OutputLog, Reason, StopAtEntry, Target,
};
use hindcast_streams::{Opened, Pump};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    ROOT, Session, State,
    ask::{Murmur, Refusal},
    breakpoints::Breakpoints,
    look::Seen,
    movement::Plan,
    sources::Sources,
    threads::Threads,
};
use crate::{
    client::Client,
    find,
    keeper::{Kept, Start, stdio},
    profile::{
        Profile, Spelled, Spelling, StartedBy, Surroundings, Transport, Words, fill, fill_words,
        first_statement, located, spell,
    },
    transport::{Incoming, connect, connect_socket},
};

/// How long an adapter may take until it answers.
pub(super) const ADAPTER_WITHIN: Duration = Duration::from_secs(15);
/// How long it may take to start the program; building it is a part of that.
const PROGRAM_WITHIN: Duration = Duration::from_secs(28);
/// Between two tries to connect to an adapter that has just been started, and two looks whether it has said that it is ready or has
/// ended. No system call waits until another process listens.
const GLANCE: Duration = Duration::from_millis(4);

/// Refuses options that only native programs support, instead of ignoring them.
fn refuse_what_is_for_native_programs(request: &LaunchRequest) -> Result<(), DebugError> {
    let asked = [
        (request.chaos.is_some(), "chaos"),
        (request.follow.is_some(), "follow"),
        (request.follow_forks, "follow_forks"),
        (request.record_from.is_some(), "record_from"),
    ];
    let Some((_, option)) = asked.into_iter().find(|(is_asked, _)| *is_asked) else { return Ok(()) };
    let reason =
        Reason::new(format!("`{option}` is for native programs, and a debug adapter debugs this one"));
    Err(DebugError::Unsupported(reason.advise(format!("launch it without `{option}`"))))
}

impl Session {
    /// Starts a program through the adapter of a profile.
    pub(crate) fn launch(profile: &Profile, request: &LaunchRequest) -> Result<Self, DebugError> {
        refuse_what_is_for_native_programs(request)?;
        let opened = hindcast_streams::open(&request.stdin, request.streams)
            .map_err(|error| DebugError::LaunchFailed(error.to_string().into()))?;
        let opened = opened.ok_or_else(|| {
            let what =
                "a program under a debug adapter cannot have our own standard streams, and is not recorded";
            DebugError::Unsupported(Reason::new(what).advise("launch it without recording"))
        })?;
        let cwd = match &request.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir().unwrap_or_else(|_| "/".into()),
        };
        if !cwd.is_dir() {
            let reason = Reason::new(format!("there is no folder `{}`", cwd.display()));
            return Err(DebugError::LaunchFailed(reason.advise("`cwd` must be an existing folder")));
        }
        let spelled = spell(profile, &request.program, &request.args, &cwd, &request.env);
        let name = spelled.module.clone().or_else(|| {
            let program = spelled.program.as_deref().map_or(request.program.as_path(), Path::new);
            program.file_name().map(|name| name.to_string_lossy().into_owned())
        });
        let target = Target {
            engine: Engine::Adapter,
            pid: None,
            name: name.unwrap_or_else(|| "program".into()),
            executable: request.program.display().to_string(),
            args: request.args.clone(),
            cwd: cwd.display().to_string(),
            how: HowBegun::Launch,
            since: Timestamp::now(),
            runtime: Some(format!("{} ({})", profile.title, profile.adapter)),
            followed: None,
        };
        let mut env = profile.env.clone();
        env.extend(request.env.clone());
        let mut session = Self::new(profile, spelled, target, env, cwd, &request.output);
        session.stop_at_entry = request.stop_at_entry;
        session.sources.begin_at(&request.program, session.spelled.program.as_deref());
        let mut words = session.words_of_launch(request);
        if session.profile.program_is_started_by == StartedBy::Hindcast {
            session.build()?;
            session.start_adapter(&words, None)?;
            session.start_program(&mut words, opened)?;
            session.await_program()?;
        } else {
            session.start_adapter(&words, Some(opened))?;
        }
        let launch = session.profile.launch.clone();
        let verb = match session.profile.launch_request.clone() {
            none if none.is_empty() => "launch".to_owned(),
            verb => verb,
        };
        session.request_program(&verb, &launch, &words)?;
        Ok(session)
    }

    pub(super) fn new(
        profile: &Profile,
        spelled: Spelled,
        target: Target,
        env: BTreeMap<String, String>,
        cwd: PathBuf,
        output: &Arc<OutputLog>,
    ) -> Self {
        let client = Client::new();
        Self {
            target,
            profile: profile.clone(),
            spelled,
            bell: client.bell(),
            client,
            adapter: None,
            murmur: Arc::default(),
            port: None,
            program: None,
            streams: None,
            theirs: None,
            is_ready: Arc::default(),
            pump: None,
            output: output.clone(),
            sources: Sources::new(&cwd),
            env,
            cwd,
            launch: None,
            children: Vec::new(),
            is_adopting: false,
            refused_children: 0,
            late_children: 0,
            stops: VecDeque::new(),
            standing: HashMap::new(),
            breakpoints: Breakpoints::default(),
            threads: Threads::default(),
            seen: Seen::default(),
            modules: Vec::new(),
            plan: Plan::Begin,
            resume_with: None,
            stop_at_entry: StopAtEntry::No,
            entry_line: None,
            state: State::Configuring,
            exit_code: None,
            notes: Vec::new(),
            last_stop: None,
            was_attached: false,
            scratch: None,
            known_children: BTreeSet::new(),
            named_others: BTreeSet::new(),
            raised_is_on: false,
            adapter_chooses: false,
            supertypes: HashMap::new(),
            told_lines: HashMap::new(),
            told_at: HashMap::new(),
            is_calling: false,
            is_prepared: false,
            knows_pid: false,
            awaits_pause: false,
            awaited_port: None,
            remarks: String::new(),
        }
    }

    pub(super) fn usual_words(&self, just_my_code: bool) -> Words {
        let mut words = Words::default();
        let spelled = &self.spelled;
        words.set("debugpy_adapter", DEBUGPY_ADAPTER);
        words.set("cwd", self.cwd.display().to_string());
        words.set("just_my_code", just_my_code);
        words.set_if("interpreter", spelled.interpreter.clone());
        words.set("interpreter_args", json!(spelled.interpreter_args));
        words.set("interpreter_args_text", spelled.interpreter_args.join(" "));
        let skipped =
            if just_my_code { json!(["<node_internals>/**", "**/node_modules/**"]) } else { json!([]) };
        words.set("skipped", skipped);
        words
    }

    fn words_of_launch(&mut self, request: &LaunchRequest) -> Words {
        let in_library = self.entry_in_library();
        let is_library = in_library.is_some() || self.is_in_package();
        let mut words = self.usual_words(request.just_my_code && !is_library);
        let spelled = &self.spelled;
        words.set_if("program", spelled.program.clone());
        words.set_if("url", spelled.url.clone());
        words.set("browser_args", browser_args(&spelled.interpreter_args));
        words.set_if("module", spelled.module.clone());
        words.set_if("code", spelled.code.clone());
        words.set("args", json!(spelled.args));
        words.set("args_text", spelled.args.join(" "));
        words.set_if("mode", spelled.mode);
        words.set("env", json!(request.env));
        let stops = request.stop_at_entry != StopAtEntry::No;
        if is_library && request.just_my_code {
            let note = "the program belongs to a library, so that all code counts as yours";
            self.notes.push(note.to_owned());
        }
        self.entry_line = in_library.or_else(|| self.first_line()).filter(|_| stops);
        words.set("stop_at_entry", stops && self.entry_line.is_none());
        let uses_scratch =
            self.profile.launch.to_string().contains("{scratch}") || self.spelled.source.is_some();
        if uses_scratch {
            self.scratch = scratch_folder(&temporary(&self.env));
            words.set_if("scratch", self.scratch.as_ref().map(|folder| folder.display().to_string()));
        }
        words
    }

    /// The line to stop at first, where an adapter would choose another.
    fn first_line(&self) -> Option<(String, u32)> {
        if self.profile.spelling != Spelling::Node {
            return None;
        }
        let path = match (&self.spelled.program, &self.spelled.interpreter) {
            (Some(program), _) => self.cwd.join(program),
            // `npm` and the like are scripts themselves.
            (None, Some(runner)) => Path::new(runner).canonicalize().ok()?,
            (None, None) => return None,
        };
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), first_statement(&text)?))
    }

    /// Starts the first adapter that answers.
    pub(super) fn start_adapter(&mut self, words: &Words, opened: Option<Opened>) -> Result<(), DebugError> {
        let mut words = words.clone();
        let surroundings = Surroundings { env: &self.env, cwd: Some(&self.cwd) };
        let mut tried: Vec<String> = Vec::new();
        for (name, patterns) in &self.profile.locate {
            match located(patterns, &surroundings) {
                Some(file) => {
                    let folder = file.parent().unwrap_or(&file).display().to_string();
                    words.set(&format!("{name}_folder"), folder);
                    words.set(name, file.display().to_string());
                }
                None => return Err(self.not_there(&format!("its file `{name}` is nowhere"))),
            }
        }
        let mut opened = opened;
        if self.profile.program_is_started_by == StartedBy::Adapter
            && let Some(its) = opened.take()
        {
            // Read from the beginning: it may say when it can be connected to.
            let log = quiet_log(&self.output, &self.profile, &self.is_ready);
            let pump = Pump::start(its.ours, log).map_err(|error| {
                DebugError::System(format!("cannot read what the program prints: {error}").into())
            })?;
            self.pump = Some(pump);
            self.theirs = Some(its.theirs);
        }
        let mut commands: Vec<Vec<String>> = Vec::new();
        for command in self.profile.commands.clone() {
            let port = (self.profile.transport == Transport::Tcp).then(free_port).transpose();
            let port = port.map_err(|error| {
                DebugError::System(format!("no port is free for the debug adapter: {error}").into())
            })?;
            words.set_if("port", port);
            let filled = fill_words(&command, &words);
            let Some(program) = filled.first().and_then(|name| find::in_path(name, &self.env)) else {
                continue;
            };
            // The same program under two names need not be tried twice.
            let canonical = std::iter::once(program.canonicalize().unwrap_or_default().display().to_string());
            let identity: Vec<_> = canonical.chain(command[1..].iter().cloned()).collect();
            if commands.contains(&identity) && program.canonicalize().ok() == Some(program.clone()) {
                continue;
            }
            commands.push(identity);
            self.port = port;
            let mut left = self.profile.attempts.max(1);
            while left > 0 {
                left -= 1;
                match self.try_adapter(&program, &filled[1..], &mut opened) {
                    Ok(()) => return Ok(()),
                    Err(why) if left == 0 => tried.push(format!("`{}`: {why}", program.display())),
                    Err(why) => tracing::debug!(%why, "the adapter is started again"),
                }
                self.adapter = None;
            }
        }
        if tried.is_empty() {
            return Err(self.not_there("none of its programs is in `PATH`"));
        }
        Err(self.not_there(&tried.join("; ")))
    }

    pub(super) fn not_there(&self, why: &str) -> DebugError {
        let what = format!(
            "the debug adapter for {} ({}) cannot be started: {why}",
            self.profile.title, self.profile.adapter
        );
        let advice = if self.profile.install.is_empty() {
            "mend the profile in `debug.adapters` of the configuration".to_owned()
        } else {
            format!("install {}; `hindcast doctor` shows what is found", self.profile.install)
        };
        DebugError::LaunchFailed(Reason::new(what).advise(advice))
    }

    /// Starts an adapter and introduces ourselves.
    fn try_adapter(
        &mut self,
        program: &Path,
        args: &[String],
        opened: &mut Option<Opened>,
    ) -> Result<(), String> {
        self.client = Client::new();
        self.bell = self.client.bell();
        self.state = State::Configuring;
        self.murmur = Arc::new(Murmur::default());
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let text = |error: std::io::Error| error.to_string();
        let (from, its_stdout) = std::io::pipe().map_err(text)?;
        let (its_stdin, to) = std::io::pipe().map_err(text)?;
        let (murmur, its_stderr) = std::io::pipe().map_err(text)?;
        let (stdin, stdout, stderr) = match &self.theirs {
            // Kept for another try.
            Some(theirs) => (
                stdio(theirs.stdin.try_clone().map_err(text)?),
                stdio(theirs.stdout.try_clone().map_err(text)?),
                stdio(theirs.stderr.try_clone().map_err(text)?),
            ),
            None => (Stdio::from(its_stdin), Stdio::from(its_stdout), Stdio::from(its_stderr)),
        };
        let temporary = self.temporary_folder();
        let mut env = self.env.clone();
        env.extend(temporary.iter().map(|folder| (TMPDIR.to_owned(), folder.display().to_string())));
        let what = Start {
            program: program.as_os_str(),
            args: &args,
            cwd: Some(&self.cwd),
            env: &env,
            stdin,
            stdout,
            stderr,
            folder: temporary.as_deref().or(self.scratch.as_deref()),
        };
        let sender = self.client.sender();
        let tell = move || drop(sender.send(Incoming::ProgramEnded));
        let kept = Kept::start(what, tell).map_err(|error| error.to_string())?;
        self.murmur.clone().listen(murmur).map_err(text)?;
        self.adapter = Some(kept);
        match self.port {
            None => {
                self.client.connect(|id, sender| connect(id, from, to, sender)).map_err(text)?;
            }
            Some(port) => {
                // What it prints is no protocol then.
                self.murmur.clone().listen(from).map_err(text)?;
                let socket = self.reach(port)?;
                self.client.connect(|id, sender| connect_socket(id, socket, sender)).map_err(text)?;
            }
        }
        self.initialize(ROOT, ADAPTER_WITHIN).map_err(|refusal| match refusal {
            // What it printed says more than that it ended.
            Refusal::Gone(why) => why,
            other => other.why(),
        })?;
        self.theirs = None;
        self.streams = opened.take();
        Ok(())
    }

    /// A folder for what the adapter leaves behind when it is killed, such as sockets. Not where it starts the program, which
    /// would use the folder, too.
    fn temporary_folder(&self) -> Option<PathBuf> {
        if self.profile.spelling == Spelling::Page {
            // A page sees nothing of it, and its browser leaves sockets behind when it is killed.
            return self.scratch.clone();
        }
        // The path of a socket is at most 107 bytes long.
        const LONGEST: usize = 50;
        let is_apart =
            matches!(self.profile.program_is_started_by, StartedBy::Terminal | StartedBy::Hindcast);
        let base = temporary(&self.env);
        (is_apart && base.as_os_str().len() <= LONGEST).then(|| scratch_folder(&base)).flatten()
    }

    /// Connects to an adapter as soon as it listens.
    fn reach(&mut self, port: u16) -> Result<TcpStream, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let until = Instant::now() + ADAPTER_WITHIN;
        let has_ended =
            |session: &Self| session.adapter.as_ref().is_some_and(|adapter| adapter.ended().is_some());
        while !self.profile.ready.is_empty() && !self.is_ready.load(Ordering::Acquire) {
            if has_ended(self) || Instant::now() > until {
                break;
            }
            std::thread::sleep(GLANCE);
        }
        loop {
            let error = match TcpStream::connect_timeout(&address, ADAPTER_WITHIN) {
                Ok(socket) => return Ok(socket),
                Err(error) => error,
            };
            if has_ended(self) {
                return Err(format!("it has ended; it printed: {}", self.murmur.last_words()));
            }
            if Instant::now() > until {
                return Err(format!("it does not listen: {error}"));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Asks for the program. The answer may come only after the breakpoints have been told.
    pub(super) fn request_program(
        &mut self,
        verb: &str,
        pattern: &Value,
        words: &Words,
    ) -> Result<(), DebugError> {
        let mut arguments = fill(pattern, words).unwrap_or_else(|| json!({}));
        // Two ways to say what runs would be one too many.
        if self.spelled.program.is_none()
            && let Some(arguments) = arguments.as_object_mut()
        {
            arguments.remove("program");
        }
        let launch = self.client.send(ROOT, verb, arguments).map_err(|_| {
            DebugError::LaunchFailed(Reason::new(
                "the debug adapter has ended before it was asked for anything",
            ))
        })?;
        match self.await_initialized(ROOT, launch, PROGRAM_WITHIN) {
            Ok(()) => {
                self.launch = Some(launch).filter(|_| !self.client.connections[ROOT.0].is_launched);
                Ok(())
            }
            Err(Refusal::Late { waited, .. }) => {
                let what = format!(
                    "{} has not started the program within {} s: a first build takes longest",
                    self.profile.adapter,
                    waited.as_secs()
                );
                Err(DebugError::LaunchFailed(
                    Reason::new(what).advise(
                        "launch it again: what was built so far is kept; or build it in a shell first",
                    ),
                ))
            }
            Err(refusal) => Err(self.not_begun(&refusal.why())),
        }
    }

    /// Why the program was not started, with what the adapter said about it.
    pub(super) fn not_begun(&mut self, why: &str) -> DebugError {
        self.catch_up();
        if let Some(pump) = &self.pump {
            pump.drain();
        }
        let mut what = format!("{} cannot start it: {why}", self.profile.adapter);
        let remarks: Vec<_> = self.remarks.lines().rev().take(8).collect();
        if !remarks.is_empty() {
            let remarks: Vec<_> = remarks.into_iter().rev().collect();
            what = format!("{what}\n{}", remarks.join("\n"));
        }
        DebugError::LaunchFailed(Reason::new(what).advise(
            "start it from a shell to see whether it runs there; mend what the message names, and launch it again",
        ))
    }
}

/// Nobody sees the window, and Chromium does not start as root with its sandbox.
fn browser_args(given: &[String]) -> Value {
    let is_root = nix::unistd::geteuid().is_root();
    let ours = ["--headless", "--disable-dev-shm-usage"].into_iter().chain(is_root.then_some("--no-sandbox"));
    ours.chain(given.iter().map(String::as_str)).collect()
}

/// A port of this machine that nobody uses now.
pub(super) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Where temporary files are for whoever has these variables.
fn temporary(env: &BTreeMap<String, String>) -> PathBuf {
    let named = env.get(TMPDIR).filter(|folder| folder.starts_with('/'));
    named.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// A new folder that only we can look into.
fn scratch_folder(base: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    (0..100).find_map(|number| {
        let folder = base.join(format!("hindcast-{}-{number}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).ok().map(|()| folder)
    })
}

/// A log that passes everything on but lines that are not the program's, and notes when the adapter is ready.
pub(super) fn quiet_log(
    output: &Arc<OutputLog>,
    profile: &Profile,
    is_ready: &Arc<AtomicBool>,
) -> Arc<OutputLog> {
    let (noise, ready) = (profile.noise.clone(), profile.ready.clone());
    if noise.is_empty() {
        return output.clone();
    }
    let (output, is_ready) = (output.clone(), is_ready.clone());
    let is_noise = move |line: &[u8]| noise.iter().any(|noise| line.starts_with(noise.as_bytes()));
    Arc::new(OutputLog::passed_on(move |stream, bytes| {
        let mut kept = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !ready.is_empty() && line.starts_with(ready.as_bytes()) {
                is_ready.store(true, Ordering::Release);
            }
            if !is_noise(line) {
                kept.extend_from_slice(line);
            }
        }
        if !kept.is_empty() {
            output.push(stream, &kept);
        }
    }))
}

/// The variable that names the folder for temporary files.
const TMPDIR: &str = "TMPDIR";

/// What runs debugpy's adapter.
const DEBUGPY_ADAPTER: &str = include_str!("../profile/builtin/debugpy_adapter.py");
