//! Beginning and ending: `launch`, `attach`, `disconnect`, `restart`, `status`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    debug::{Engine, HowBegun, Language, Moment, Place, Stdin, StopAtEntry, StopReason, Streams},
};
use hindcast_services::{
    Failure,
    debug::{AttachOptions, LaunchOptions, Mask, Session, Standing, State, Viewport},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Desk, USUAL_WAIT, declaration, invalid, looks, moved, moves, noted, patience, text, usual_wait, yes,
};
use crate::{
    debug_views::BreakpointView,
    excerpt::shown_target,
    registry::{Answer, Call, Declaration, Effects, Tool},
};

pub(super) struct Launch(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchInput {
    /// Executable, .dll or source file; or what runs tests (pytest, npm, go) with `args`
    ///
    /// Path, or name in PATH: executable, .dll, .py, .js, .ts, .go, .rb, .java; or what runs tests (pytest, npm, go) with `args`
    #[serde(default)]
    program: Option<PathBuf>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    /// Added to the environment
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// false: run on; "loader": first instruction
    ///
    /// true: in `main`; false: runs, and answers at a stop or after `timeout_ms`; "loader": first instruction
    #[serde(default)]
    #[schemars(schema_with = "stop_at_entry")]
    stop_at_entry: Option<Entry>,
    /// Text, or {"file": path}
    #[serde(default)]
    #[schemars(schema_with = "stdin")]
    stdin: Option<Input>,
    /// It prints to a terminal, line by line
    #[serde(default)]
    terminal: bool,
    /// Core file to open
    ///
    /// Open this core file instead of starting the program
    #[serde(default)]
    core: Option<PathBuf>,
    /// Recording to open
    ///
    /// Or this recording, as export_trace wrote it (binary)
    #[serde(default)]
    trace: Option<PathBuf>,
    /// Hide passwords, keys and tokens
    #[serde(default = "yes")]
    mask_secrets: bool,
    /// To go back (native only)
    #[serde(default)]
    #[schemars(with = "bool", default = "yes")]
    record: Option<bool>,
    /// Seed: another order of threads, to expose races
    #[serde(default)]
    chaos: Option<u64>,
    /// Debug the first process below it with this program: file name, with `*`, or path
    ///
    /// Debug the first process that executes this program, somewhere below the launched one (`make test`, `cargo test`, a
    /// shell): its file name, `*` for any letters, or path
    #[serde(default)]
    follow: Option<String>,
    /// Debug the first process that it forks
    ///
    /// Debug the first process that the program forks, from there on
    #[serde(default)]
    follow_forks: bool,
    /// Record only from this function or `file:line` on
    ///
    /// Run at full speed to this function or `file:line`, and record from there on
    #[serde(default)]
    record_from: Option<String>,
    #[serde(default)]
    language: Language,
    /// Steps pass over library code
    #[serde(default = "yes")]
    just_my_code: bool,
    #[serde(default = "usual_wait")]
    timeout_ms: u64,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool; a launch begins a new session")]
    session: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Whether(bool),
    Where(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    File { file: PathBuf },
}

fn stop_at_entry(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "default": true })
}

fn stdin(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({})
}

impl LaunchInput {
    fn options(self, program: PathBuf) -> Result<LaunchOptions, Failure> {
        let mut stop_at_entry = match &self.stop_at_entry {
            None | Some(Entry::Whether(true)) => StopAtEntry::Main,
            Some(Entry::Whether(false)) => StopAtEntry::No,
            Some(Entry::Where(place)) => match place.as_str() {
                "loader" => StopAtEntry::Loader,
                "main" | "true" => StopAtEntry::Main,
                "false" | "no" => StopAtEntry::No,
                _ => return Err(invalid("`stop_at_entry` is true, false or \"loader\"")),
            },
        };
        let stdin = match self.stdin {
            None => Stdin::Written,
            Some(Input::Text(text)) => Stdin::Text(text),
            Some(Input::File { file }) => Stdin::File(file),
        };
        let Self {
            args, cwd, env, mut language, just_my_code, chaos, follow, follow_forks, record_from, ..
        } = self;
        // Only the interpreter itself can be recorded.
        if self.record == Some(true) && is_python(&program, &language) {
            language = Language::Native;
            stop_at_entry = if self.stop_at_entry.is_some() { stop_at_entry } else { StopAtEntry::No };
        }
        let record = self.record.unwrap_or(true);
        for (name, is_given) in [("chaos", chaos.is_some()), ("record_from", record_from.is_some())] {
            if is_given && !record {
                return Err(invalid(format!("`{name}` is for a program that is recorded"))
                    .hint("leave `record: false` out"));
            }
        }
        let streams = if self.terminal { Streams::Terminal } else { Streams::Pipes };
        Ok(LaunchOptions {
            program,
            args,
            cwd,
            env,
            stop_at_entry,
            stdin,
            streams,
            record,
            chaos,
            follow: follow.filter(|program| !program.is_empty()),
            follow_forks,
            record_from: record_from.filter(|place| !place.is_empty()).map(|place| Place::named(&place)),
            language,
            just_my_code,
        })
    }
}

/// Whether a program is a script in Python, or the interpreter or test runner of one.
fn is_python(program: &Path, language: &Language) -> bool {
    let is_possible = match language {
        Language::Auto => true,
        Language::Other(name) => name == "python",
        _ => false,
    };
    let has_name = |name: &str| {
        name == "pytest"
            || name
                .strip_prefix("python")
                .is_some_and(|rest| rest.chars().all(|c| c == '.' || c.is_ascii_digit()))
    };
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_script = program.extension().is_some_and(|extension| extension == "py" || extension == "pyw");
    is_possible && (is_script || has_name(name))
}

#[async_trait]
impl Tool for Launch {
    type Input = LaunchInput;
    type Output = Viewport;

    const DECLARATION: Declaration = moves(
        "debugger/launch",
        "Start a program (native, .NET, Python, JavaScript, TypeScript, Go, Ruby, Java), or open a core file or a recording. It stops in `main`",
    );

    fn target(input: &LaunchInput) -> Option<String> {
        let named = input.trace.as_ref().or(input.core.as_ref()).or(input.program.as_ref());
        named.map(|path| shown_target(path))
    }

    async fn call(&self, call: &Call, input: LaunchInput) -> Result<Answer<Viewport>, Failure> {
        let Desk(debug) = &self.0;
        let patience = patience(call, input.timeout_ms);
        let mask = Mask::new(input.mask_secrets);
        let record = input.record;
        let (session, view) = match (input.core.clone(), input.program.clone()) {
            (None, None) if input.trace.is_some() => {
                let trace = input.trace.unwrap_or_default();
                debug.open_trace(&call.caller, trace, mask, &patience).await?
            }
            _ if input.trace.is_some() => {
                return Err(invalid("`trace` names its program itself").hint("give `trace` alone"));
            }
            (Some(core), program) => debug.open_core(&call.caller, core, program, mask, &patience).await?,
            (None, Some(program)) => {
                let options = input.options(program)?;
                debug.launch(&call.caller, options, mask, &patience).await?
            }
            (None, None) => {
                return Err(invalid("`program` is missing").hint("give the path of an executable"));
            }
        };
        noted(call, &session);
        Ok(begun(&session, view, record == Some(true)))
    }
}

/// What a session that has just begun says; whether somebody wrote that it is to be recorded.
fn begun(session: &Session, mut view: Viewport, record: bool) -> Answer<Viewport> {
    let standing = session.standing();
    let is_native = session.engine() == Engine::Native;
    let engine = session.engine();
    if record && !is_native {
        let what = if engine == Engine::Dotnet { ".NET programs" } else { "programs under a debug adapter" };
        view.notes.push(format!("`record` has no effect: {what} are not recorded"));
    }
    // Whoever relies on going back should know at once; that nobody asked for it is no news.
    let not_recorded = standing.recording.as_ref().filter(|_| standing.is_to_be_recorded);
    if let Some(reason) = not_recorded.and_then(|recording| recording.reason.as_deref()) {
        view.notes.push(format!("it is not recorded, so one cannot go back: {reason}"));
    }
    if !standing.layers.is_empty() {
        let layers: Vec<_> = standing.layers.iter().map(|layer| layer.name()).collect();
        view.notes.push(format!("it is confined by: {}", layers.join(", ")));
    }
    let missing = standing.recording.iter().flat_map(|recording| &recording.capabilities);
    for capability in missing.filter(|capability| standing.is_to_be_recorded && !capability.works) {
        let lost = capability.note.as_deref().unwrap_or_default();
        view.notes.push(format!("not on this machine: {}; {lost}; see `hindcast doctor`", capability.name));
    }
    // `Console` of .NET does not wait for a full buffer.
    if is_native && standing.streams == Some(Streams::Pipes) && view.state != State::Exited {
        let told = "its stdout is a pipe: what it prints may stay in its own buffer until it flushes or exits; \
                    `terminal`: true shows it line by line";
        view.notes.push(told.into());
    }
    view.engine = standing.target.as_ref().map(|target| target.engine);
    let runtime = standing.target.as_ref().and_then(|target| target.runtime.clone());
    let sentence = standing.target.map(|target| match target.how {
        HowBegun::Launch => match target.pid {
            Some(pid) if target.followed.is_some() => format!("Followed {} as process {pid}", target.name),
            Some(pid) => format!("Launched {} as process {pid}", target.name),
            None => format!("Launched {}", target.name),
        },
        HowBegun::Attach => match target.pid {
            Some(pid) => format!("Successfully attached to process {pid}"),
            None => format!("Successfully attached to {}", target.name),
        },
        HowBegun::Trace => {
            format!("Opened the recording of {}; this is where it ends, go back from here", target.name)
        }
        HowBegun::Core => match target.pid {
            Some(pid) => format!("Opened the core of {} (process {pid})", target.name),
            None => format!("Opened the core of {}", target.name),
        },
    });
    let mut answer = moved(view);
    if let Some(engine) = answer.content.engine {
        let name = runtime.filter(|_| engine == Engine::Adapter).unwrap_or_else(|| engine.name().into());
        let _ = write!(answer.text, "\nEngine: {name}");
    }
    if let Some(sentence) = sentence {
        answer.text = format!("{sentence}\n{}", answer.text);
    }
    answer
}

pub(super) struct Attach(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachInput {
    /// Process ID to attach to
    #[serde(default)]
    #[schemars(with = "u32", range(min = 1))]
    pid: Option<u32>,
    /// Where it waits for debuggers
    ///
    /// Or the port at which it waits for debuggers: `debugpy --listen`, `node --inspect`, `rdbg --open`, `dlv --headless`
    #[serde(default)]
    #[schemars(with = "u16", range(min = 1))]
    port: Option<u16>,
    /// To go back
    ///
    /// From now on, so that one can go back
    #[serde(default)]
    record: bool,
    /// As in launch
    #[serde(default = "yes")]
    mask_secrets: bool,
    /// As in launch
    #[serde(default)]
    language: Language,
    #[serde(default = "yes")]
    just_my_code: bool,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool; attaching begins a new session")]
    session: Option<String>,
}

#[async_trait]
impl Tool for Attach {
    type Input = AttachInput;
    type Output = Viewport;

    const DECLARATION: Declaration = moves("debugger/attach", "Attach to a running process");

    fn target(input: &AttachInput) -> Option<String> {
        let pid = input.pid.map(|pid| format!("pid {pid}"));
        pid.or_else(|| input.port.map(|port| format!("port {port}")))
    }

    async fn call(&self, call: &Call, input: AttachInput) -> Result<Answer<Viewport>, Failure> {
        let Desk(debug) = &self.0;
        let mask = Mask::new(input.mask_secrets);
        let patience = patience(call, USUAL_WAIT);
        let AttachInput { pid, port, record, language, just_my_code, .. } = input;
        let options = AttachOptions { pid, port, record, language, just_my_code };
        let (session, view) = debug.attach(&call.caller, options, mask, &patience).await?;
        noted(call, &session);
        Ok(begun(&session, view, record))
    }
}

pub(super) struct Disconnect(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DisconnectInput {
    /// Kill the program (default: if launched)
    #[serde(default)]
    terminate: Option<bool>,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Disconnected {
    /// The session that is gone
    session_id: String,
    /// The process it was about
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

#[async_trait]
impl Tool for Disconnect {
    type Input = DisconnectInput;
    type Output = Disconnected;

    // A process that was attached to stands still until it is let go: no license may be needed for that.
    const DECLARATION: Declaration = Declaration {
        feature: None,
        ..declaration(
            super::DISCONNECT,
            "End the debug session",
            hindcast_core::identity::Scope::DebugWrite,
            Effects::Destructive { idempotent: false },
        )
    };

    async fn call(&self, call: &Call, input: DisconnectInput) -> Result<Answer<Disconnected>, Failure> {
        let Desk(debug) = &self.0;
        let session = debug.disconnect(&call.caller, input.session_id.as_deref(), input.terminate).await?;
        noted(call, &session);
        let pid = session.standing().target.and_then(|target| target.pid);
        let text = match pid {
            Some(pid) => format!("Disconnected from process {pid}"),
            None => "Disconnected".into(),
        };
        Ok(Answer { text, content: Disconnected { session_id: session.id().to_string(), pid } })
    }
}

/// The input of tools that need to know no more than which session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OnlySession {
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

pub(super) struct Restart(pub(super) Desk);

#[async_trait]
impl Tool for Restart {
    type Input = OnlySession;
    type Output = Viewport;

    const DECLARATION: Declaration =
        moves("debugger/restart", "Launch the same program again with its breakpoints");

    async fn call(&self, call: &Call, input: OnlySession) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let view = session.restart(&patience(call, USUAL_WAIT)).await?;
        Ok(begun(&session, view, false))
    }
}

pub(super) struct Status(pub(super) Desk);

#[derive(Serialize, JsonSchema)]
pub(super) struct StatusView {
    /// The current one last
    sessions: Vec<SessionStatus>,
    /// Of the session that was asked for
    #[serde(skip_serializing_if = "Vec::is_empty")]
    breakpoints: Vec<BreakpointView>,
}

#[derive(Serialize, JsonSchema)]
struct SessionStatus {
    /// Pass it to name this session
    session_id: String,
    /// `running`, `paused`, `exited`; or `lost`: the session has ended, what was attached to runs on
    state: StateView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    /// When it began
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// Why it stands, and where
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    /// Up to where `read_output` can read
    output_end: u64,
    /// What is recorded, where one can go back
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<Recorded>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StateView {
    Running,
    Paused,
    Exited,
    Lost,
}

impl StateView {
    fn of(standing: &Standing) -> Self {
        match standing.state {
            State::Running => Self::Running,
            State::Paused => Self::Paused,
            State::Exited if standing.has_left_it_running() => Self::Lost,
            State::Exited => Self::Exited,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Recorded {
    /// The first moment
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Moment>,
    /// The last moment
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Moment>,
    /// Where it stands
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
    /// Whether the program really is further on
    in_past: bool,
}

impl SessionStatus {
    fn of(session: &Session) -> Self {
        let standing = session.standing();
        let state = StateView::of(&standing);
        let history = standing.recording.clone().filter(|_| standing.has_history());
        let scene = standing.scene.filter(|_| standing.state != State::Running);
        let when = scene.as_ref().and_then(|scene| scene.when.clone());
        let recording = history.map(|recording| Recorded {
            start: recording.start.clone(),
            end: recording.end.clone(),
            in_past: when.as_ref().is_some_and(|when| when.in_past),
            moment: when.map(|when| when.moment),
        });
        let stop = match (&standing.fault, scene) {
            (Some(fault), _) => Some(fault.why.clone()),
            (None, Some(scene)) => {
                let reason = serde_json::to_value(scene.stop.reason).unwrap_or_default();
                let mut stop = reason.as_str().unwrap_or_default().to_owned();
                if let Some(location) = &scene.location {
                    let _ = write!(stop, " in {}", text::place(location));
                }
                if let Some(code) = scene.stop.exit_code {
                    let _ = write!(stop, " with code {code}");
                }
                if let Some(signal) = &scene.stop.signal {
                    let _ = write!(stop, " by {}", signal.name);
                }
                if let Some(detail) =
                    scene.stop.detail.as_ref().filter(|_| scene.stop.reason == StopReason::Exit)
                {
                    let _ = write!(stop, ": {detail}");
                }
                Some(stop)
            }
            (None, None) => None,
        };
        Self {
            session_id: session.id().to_string(),
            state,
            pid: standing.target.as_ref().and_then(|target| target.pid),
            since: standing.target.as_ref().map(|target| target.since),
            program: standing.target.map(|target| target.executable.clone()),
            stop,
            output_end: session.output_end(),
            recording,
        }
    }
}

#[async_trait]
impl Tool for Status {
    type Input = OnlySession;
    type Output = StatusView;

    const DECLARATION: Declaration =
        looks("debugger/status", "List debug sessions, and the breakpoints of the current one");

    async fn call(&self, call: &Call, input: OnlySession) -> Result<Answer<StatusView>, Failure> {
        let Desk(debug) = &self.0;
        let sessions = debug.sessions(&call.caller);
        if sessions.is_empty() && input.session_id.is_none() {
            let text = "No debug session. Start one with debugger/launch or debugger/attach".into();
            return Ok(Answer {
                text,
                content: StatusView { sessions: Vec::new(), breakpoints: Vec::new() },
            });
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        let all = session.breakpoints().await;
        let sessions: Vec<_> = sessions.iter().map(|session| SessionStatus::of(session)).collect();
        let mut text = String::new();
        for one in &sessions {
            let state = serde_json::to_value(one.state).unwrap_or_default();
            let program = one.program.as_deref().unwrap_or("?");
            let state = state.as_str().unwrap_or_default();
            let pid = one.pid.map(|pid| format!(" ({pid})")).unwrap_or_default();
            let _ = writeln!(text, "session {}: {state}, {program}{pid}", one.session_id);
            if let Some(stop) = &one.stop {
                let _ = writeln!(text, "  {stop}");
            }
            if let Some(Recorded { start: Some(start), end: Some(end), in_past, moment }) = &one.recording {
                let _ = write!(text, "  recorded from moment {start} to {end}");
                match moment {
                    Some(moment) if *in_past => drop(writeln!(text, "; in the past, at {moment}")),
                    _ => text.push('\n'),
                }
            }
        }
        for breakpoint in all.iter() {
            let _ = writeln!(text, "{}", super::breakpoints::in_a_line(breakpoint));
        }
        let breakpoints = all.iter().filter_map(BreakpointView::of).collect();
        Ok(Answer { text: text.trim_end().into(), content: StatusView { sessions, breakpoints } })
    }
}
