//! Debug sessions, one set for each principal.
//!
//! ```text
//! DebugService ── Session ──commands──▶ worker thread ── DebugBackend
//!                    ▲                       │
//!                    └──────standing─────────┘
//! ```
//!
//! A session has one thread, which owns the engine's side. Questions go to it as commands; how it
//! stands is published, so that whoever waits for a stop does not ask.

mod autopsy;
mod backtrace;
mod bell;
mod compare;
mod confining;
mod failures;
mod fault;
mod files;
mod idle;
mod look;
mod meanwhile;
mod options;
mod origin;
mod place;
mod policy;
mod ports;
mod search;
mod secrets;
mod seen_threads;
mod session;

mod source;
mod source_watch;
mod standing;
#[cfg(test)]
mod tests;
mod thrown;
mod travel;
mod type_names;
mod viewport;
mod worker;
mod workspace;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use hindcast_core::{
    debug::{
        AttachRequest, CoreRequest, DebugEngine, Ending, LaunchRequest, OutputLog, Stdin, TraceFileRequest,
    },
    identity::{Caller, KeyId, PrincipalId},
    time::Clock,
};
use tokio::sync::{oneshot, watch};

pub use autopsy::{Autopsy, AutopsyFrame, Crash, CrashFrame, Hang, HangingThread};
pub use compare::Compared;
pub use confining::ConfinementPolicy;
pub use fault::FaultyAccess;
pub use look::{MemoryPlace, ThreadsView};
pub use options::{AttachOptions, LaunchOptions};
pub use policy::TargetPolicy;
pub use search::{Found, Search, Searched};
pub use secrets::{MASKED, Mask};
pub use seen_threads::{CapturedThreads, SeenThread};
pub use session::{OutputPage, Patience, Session, Until};
pub use source::SourceLine;
pub use source_watch::SourceWatch;
pub use standing::Standing;
pub use thrown::thrown_in_words;
pub use travel::{ExportTo, Exported, FoundWrite, Timeline};
pub use type_names::short_type;
pub use viewport::{FrameView, LocalView, OutputView, Scene, State, Viewport};
pub use workspace::{NewFile, Piece, Workspace, WorkspaceFile};

use bell::{Announcer, Bell};
use files::{find_program, readable, real, recorded_program};
use origin::Origin;
use place::Place;
use worker::Core;

use crate::{Events, Failure, FailureKind};

/// The current session.
pub const SESSION_URI: &str = "debugger://session";
/// Its breakpoints.
pub const BREAKPOINTS_URI: &str = "debugger://breakpoints";
/// Its threads.
pub const THREADS_URI: &str = "debugger://threads";
/// What happened in it, while it is recorded.
pub const TIMELINE_URI: &str = "debugger://timeline";

/// How many sessions a principal may have at once.
const MOST_SESSIONS: usize = 8;
/// How much output of a program is kept: the newest.
pub const OUTPUT_KEPT: usize = 4 << 20;
/// How long a program may take to be started or attached to.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// How long sessions may take to end when the server does.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Starts and keeps debug sessions.
pub struct DebugService {
    policy: TargetPolicy,
    engine: Option<Arc<dyn DebugEngine>>,
    events: Events,
    clock: Arc<dyn Clock>,
    desks: Mutex<HashMap<PrincipalId, Desk>>,
    /// Whether the server ends, and nothing may begin any more.
    closed: AtomicBool,
    sources: source_watch::Watches,
    workspaces: workspace::Workspaces,
}

/// The sessions of one principal; the current one last.
#[derive(Default)]
struct Desk {
    sessions: Vec<Arc<Session>>,
    /// How many are about to begin.
    beginning: usize,
}

impl DebugService {
    /// Sessions within what the operator allows, by this engine; without one none can begin.
    pub fn new(
        policy: TargetPolicy,
        engine: Option<Arc<dyn DebugEngine>>,
        events: Events,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (desks, closed, sources, workspaces) = Default::default();
        Self { policy, engine, events, clock, desks, closed, sources, workspaces }
    }

    /// Starts a program and takes it to its first stop.
    pub async fn launch(
        &self,
        caller: &Caller,
        mut options: LaunchOptions,
        mask: Mask,
        patience: &Patience,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        options.cwd = self.working_folder(caller, options.cwd)?;
        if let Some(name) = options.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let name: String = name.escape_debug().take(80).collect();
            return Err(Failure::new(
                FailureKind::InvalidInput,
                format!("`{name}` cannot be the name of a variable"),
            )
            .hint("`env` is an object of names and values, such as {\"LANG\": \"C\"}"));
        }
        // First, so that nothing is told of what is there.
        if let Some(cwd) = options.cwd.as_deref().filter(|_| caller.key.is_some()) {
            self.policy_for(caller).check_working_folder(cwd)?;
        }
        let env = options.env.keys().map(String::as_str).collect();
        let program = self.program(caller, &options.program, options.cwd.as_deref(), env)?;
        let follow = match options.follow {
            Some(follow) if caller.key.is_some() => {
                failures::path_of(&follow)?;
                // What was checked is what is waited for, wherever the program that is started goes.
                let checked = self.program(caller, Path::new(&follow), options.cwd.as_deref(), Vec::new())?;
                let checked = real(&checked).into_os_string();
                Some(checked.into_string().map_err(|_| failures::not_text(&follow))?)
            }
            follow => follow,
        };
        let stdin_file = match &options.stdin {
            Stdin::File(file) => Some(self.readable(caller, file)?),
            Stdin::Written | Stdin::Text(_) => None,
        };
        let output = Arc::new(OutputLog::new(OUTPUT_KEPT));
        let origin = Origin::Launch(LaunchRequest {
            program,
            args: options.args,
            cwd: options.cwd,
            env: options.env,
            stop_at_entry: options.stop_at_entry,
            stdin: stdin_file.map_or(options.stdin, Stdin::File),
            streams: options.streams,
            record: options.record,
            chaos: options.chaos,
            follow,
            follow_forks: options.follow_forks,
            record_from: options.record_from,
            language: options.language,
            just_my_code: options.just_my_code,
            output: output.clone(),
        });
        self.begin(caller, origin, output, mask, patience).await
    }

    /// Attaches to a running process, and records it from then on if asked to.
    pub async fn attach(
        &self,
        caller: &Caller,
        options: AttachOptions,
        mask: Mask,
        patience: &Patience,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        self.check_attach(caller, &options)?;
        let pid = ports::process_of(&options)?;
        let AttachOptions { port, record, language, just_my_code, .. } = options;
        let mut target = policy::Target::of(pid).ok_or_else(|| failures::no_process(pid))?;
        let holder = self.holder_of(pid);
        target.is_ours |= holder.is_some();
        if caller.key.is_some() {
            self.policy.check(pid, &target)?;
        } else if policy::is_worker(pid) && pid != std::process::id() {
            return Err(policy::ours(pid));
        }
        if let Some(holder) = holder {
            return Err(failures::held(pid, &holder));
        }
        let output = Arc::new(OutputLog::new(OUTPUT_KEPT));
        let request = AttachRequest { pid, port, record, language, just_my_code, output: output.clone() };
        let origin = Origin::Attach(request);
        self.begin(caller, origin, output, mask, patience).await
    }

    /// Opens a core file, with the program that it came from where that is not as the core says.
    pub async fn open_core(
        &self,
        caller: &Caller,
        core: PathBuf,
        program: Option<PathBuf>,
        mask: Mask,
        patience: &Patience,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        let core = self.readable(caller, &core)?;
        let cwd = self.working_folder(caller, None)?;
        let program =
            program.map(|program| self.program(caller, &program, cwd.as_deref(), Vec::new())).transpose()?;
        let output = Arc::new(OutputLog::new(OUTPUT_KEPT));
        let origin = Origin::Core(CoreRequest { core, program });
        self.begin(caller, origin, output, mask, patience).await
    }

    /// Opens a recording that was written to a file, where the program stays that was recorded.
    pub async fn open_trace(
        &self,
        caller: &Caller,
        trace: PathBuf,
        mask: Mask,
        patience: &Patience,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        let trace = self.readable(caller, &trace)?;
        if caller.key.is_some() {
            let program = &recorded_program(&trace)?;
            let launch = policy::Launch { program, named: program, env: Vec::new() };
            self.policy_for(caller).check_launch(&launch)?;
        }
        let output = Arc::new(OutputLog::new(OUTPUT_KEPT));
        let origin = Origin::Trace(TraceFileRequest { trace });
        self.begin(caller, origin, output, mask, patience).await
    }

    /// The path of a program that the caller may have started with these variables. The local user may do what the system lets
    /// them; a key holder what the operator allows.
    fn program(
        &self,
        caller: &Caller,
        named: &Path,
        cwd: Option<&Path>,
        env: Vec<&str>,
    ) -> Result<PathBuf, Failure> {
        let found = find_program(named, cwd);
        if caller.key.is_some() {
            let policy = self.policy_for(caller);
            match &found {
                Ok(program) => {
                    policy.check_launch(&policy::Launch { program: &real(program), named, env })?;
                }
                Err(_) => policy.check_missing_program(named, cwd)?,
            }
        }
        found
    }

    /// The real path of a plain file that the caller may have read.
    fn readable(&self, caller: &Caller, file: &Path) -> Result<PathBuf, Failure> {
        let file = &self.resolved(caller, file);
        if caller.key.is_some() {
            self.policy_for(caller).check_read(file)?;
        }
        readable(file)
    }

    async fn begin(
        &self,
        caller: &Caller,
        origin: Origin,
        output: Arc<OutputLog>,
        mask: Mask,
        patience: &Patience,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        let engine = self.engine.clone().ok_or_else(|| {
            Failure::new(FailureKind::Internal, "this build has no debug engine")
                .hint("use a build for a platform that hindcast debugs on: Linux x86-64")
        })?;
        let engine = self.engine_for(caller, engine)?;
        let place = Place::take(self, &caller.principal)?;
        self.put_away_the_ended(&caller.principal).await;
        let announcer = Announcer { events: self.events.clone(), principal: caller.principal.clone() };
        let showing = Showing { mask, sources: self.sources_for(caller) };
        let mut session = start(engine, origin, output, showing, announcer, self.clock.clone()).await?;
        session.key = caller.key.as_ref().map(|key| key.id.clone());
        session.is_confined = self.confines(caller).is_some();
        session.asked_for = AtomicI64::new(self.clock.now().as_millisecond());
        let session = Arc::new(session);
        if !place.fill(session.clone()) {
            let _ = session.end(None).await;
            return Err(closing());
        }
        self.events.list_changed_for(&caller.principal);
        let brief = session.patience_to_begin(patience);
        let viewport = match session.arrive(1, brief.as_ref().unwrap_or(patience), false).await {
            Ok(viewport) => viewport,
            Err(failure) => {
                // It never got to its first stop, so there is nothing to keep.
                let _ = self.disconnect(caller, Some(session.id()), None).await;
                return Err(failure);
            }
        };
        Ok((session, viewport))
    }

    /// The session of that name, which becomes the current one; the current one where none is named.
    pub fn session(&self, caller: &Caller, id: Option<&str>) -> Result<Arc<Session>, Failure> {
        let mut desks = self.desks();
        let sessions = desks.get_mut(&caller.principal).map(|desk| &mut desk.sessions);
        let Some(sessions) = sessions.filter(|sessions| !sessions.is_empty()) else {
            return Err(id.map_or_else(failures::not_attached, failures::no_such_session));
        };
        if let Some(id) = id {
            let at = sessions.iter().position(|session| *session.id == *id);
            let at = at.ok_or_else(|| failures::no_such_session(id))?;
            self.check_reach(caller, &sessions[at])?;
            if at + 1 != sessions.len() {
                let session = sessions.remove(at);
                sessions.push(session);
                for uri in [SESSION_URI, BREAKPOINTS_URI, THREADS_URI, TIMELINE_URI] {
                    self.events.changed_for(&caller.principal, &Arc::from(uri));
                }
                // Not every session has a past to list.
                self.events.list_changed_for(&caller.principal);
            }
        }
        // Of those that the key may not use, the last tells why.
        let reached = sessions.iter().rfind(|session| self.may_reach(caller, session));
        let session = reached.or(sessions.last()).cloned().ok_or_else(failures::not_attached)?;
        self.check_reach(caller, &session)?;
        session.asked_for.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        Ok(session)
    }

    /// The session of that name, for somebody who looks on: which one is current stays.
    pub fn seen_session(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, Failure> {
        let desks = self.desks();
        let sessions = desks.get(&caller.principal).into_iter().flat_map(|desk| &desk.sessions);
        let session = sessions.into_iter().find(|session| *session.id == *id);
        let session = session.ok_or_else(|| failures::no_such_session(id))?;
        self.check_reach(caller, session)?;
        session.asked_for.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        Ok(session.clone())
    }

    /// All sessions that the caller may use; the current one last.
    pub fn sessions(&self, caller: &Caller) -> Vec<Arc<Session>> {
        let desks = self.desks();
        let sessions = desks.get(&caller.principal).into_iter().flat_map(|desk| &desk.sessions);
        sessions.filter(|session| self.may_reach(caller, session)).cloned().collect()
    }

    /// The session that resources show, without making a choice.
    pub fn current(&self, caller: &Caller) -> Option<Arc<Session>> {
        self.sessions(caller).pop()
    }

    /// Ends a session. `terminate` says what becomes of the program, where the usual will not do.
    pub async fn disconnect(
        &self,
        caller: &Caller,
        id: Option<&str>,
        terminate: Option<bool>,
    ) -> Result<Arc<Session>, Failure> {
        let session = self.session(caller, id)?;
        let ending = terminate.map(|yes| if yes { Ending::Terminate } else { Ending::Detach });
        let ended = session.end(ending).await;
        // Its thread ends in any case; what failed is told, not kept.
        self.forget(&caller.principal, &session);
        ended.map(|()| session)
    }

    /// Ends the sessions that nobody has asked for since `idle`, also those whose program runs.
    pub async fn end_idle(&self, idle: Duration) {
        let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let since = self.clock.now().as_millisecond().saturating_sub(idle);
        let is_idle = |session: &Session| session.asked_for.load(Ordering::Relaxed) <= since;
        self.end_those(is_idle, "nobody asks for it").await;
    }

    /// The keys that began the sessions there are.
    pub fn keys(&self) -> HashSet<KeyId> {
        let desks = self.desks();
        let sessions = desks.values().flat_map(|desk| &desk.sessions);
        sessions.filter_map(|session| session.key.clone()).collect()
    }

    /// Ends the sessions that one of these keys began.
    pub async fn end_sessions_of(&self, keys: &HashSet<KeyId>) {
        let is_theirs = |session: &Session| session.key.as_ref().is_some_and(|key| keys.contains(key));
        self.end_those(is_theirs, "its key is revoked or expired").await;
    }

    /// Ends sessions in the usual way: what was launched is killed, what was attached to goes on.
    async fn end_those(&self, is_meant: impl Fn(&Session) -> bool, reason: &str) {
        let meant: Vec<_> = self
            .desks()
            .iter()
            .flat_map(|(principal, desk)| {
                let meant = desk.sessions.iter().filter(|session| is_meant(session));
                meant.map(|session| (principal.clone(), session.clone()))
            })
            .collect();
        // All at once: none waits for another that does not end.
        let mut ending = tokio::task::JoinSet::new();
        for (principal, session) in meant {
            tracing::info!(session = &*session.id, reason, "ending a debug session");
            ending.spawn(async move {
                let _ = session.end(None).await;
                (principal, session)
            });
        }
        while let Some(ended) = ending.join_next().await {
            if let Ok((principal, session)) = ended {
                self.forget(&principal, &session);
            }
        }
    }

    /// Ends all sessions of everybody; for when the server ends.
    pub async fn end_all(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let sessions: Vec<_> = self.desks().drain().flat_map(|(_, desk)| desk.sessions).collect();
        let mut ending = tokio::task::JoinSet::new();
        for session in sessions {
            ending.spawn(async move {
                if tokio::time::timeout(END_WITHIN, session.end(None)).await.is_err() {
                    tracing::warn!(session = &*session.id, "a debug session did not end in time");
                }
            });
        }
        while ending.join_next().await.is_some() {}
    }

    /// Ends the sessions whose programs have ended; but the last one that can still be looked back on
    /// is kept, because the next program is often launched to compare.
    async fn put_away_the_ended(&self, principal: &PrincipalId) {
        let ended: Vec<_> = match self.desks().get_mut(principal) {
            Some(desk) => {
                let over = |session: &Arc<Session>| session.standing.borrow().state == State::Exited;
                let past = |session: &&Arc<Session>| over(session) && session.standing.borrow().has_history();
                let kept = desk.sessions.iter().rfind(past).map(|session| session.id.clone());
                let is_over = |session: &Arc<Session>| over(session) && kept.as_ref() != Some(&session.id);
                let (ended, rest) = std::mem::take(&mut desk.sessions).into_iter().partition(is_over);
                desk.sessions = rest;
                ended
            }
            None => Vec::new(),
        };
        for session in ended {
            let _ = session.end(None).await;
        }
    }

    fn forget(&self, principal: &PrincipalId, session: &Session) {
        let mut desks = self.desks();
        if let Some(desk) = desks.get_mut(principal) {
            desk.sessions.retain(|other| other.id != session.id);
            if desk.sessions.is_empty() && desk.beginning == 0 {
                desks.remove(principal);
            }
        }
        drop(desks);
        self.events.list_changed_for(principal);
        let timeline = Some(TIMELINE_URI).filter(|_| session.standing.borrow().has_history());
        for uri in [SESSION_URI, BREAKPOINTS_URI, THREADS_URI].into_iter().chain(timeline) {
            self.events.changed_for(principal, &Arc::from(uri));
        }
    }

    /// The session that has a process, whoever's it is.
    fn holder_of(&self, pid: u32) -> Option<Arc<str>> {
        let desks = self.desks();
        let mut sessions = desks.values().flat_map(|desk| &desk.sessions);
        sessions.find(|session| session.standing.borrow().holds(pid)).map(|session| session.id.clone())
    }

    fn desks(&self) -> MutexGuard<'_, HashMap<PrincipalId, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closing() -> Failure {
    Failure::new(FailureKind::Internal, "the server is shutting down").hint("try again in a moment")
}

/// What a session shows.
struct Showing {
    mask: Mask,
    sources: source::AllowedSources,
}

/// Starts a session's thread and waits until the engine has the program.
async fn start(
    engine: Arc<dyn DebugEngine>,
    origin: Origin,
    output: Arc<OutputLog>,
    Showing { mask, sources }: Showing,
    announcer: Announcer,
    clock: Arc<dyn Clock>,
) -> Result<Session, Failure> {
    let (standing, published) = watch::channel(Standing {
        state: State::Running,
        moves: 1,
        target: None,
        layers: Arc::default(),
        scene: None,
        threads: None,
        breakpoints: Arc::default(),
        recording: None,
        is_to_be_recorded: origin.is_to_be_recorded(),
        streams: origin.streams(),
        search: None,
        problem: None,
        fault: None,
    });
    let (awaited, origin_recording) = (origin.awaited(), origin.recording());
    let (commands, queue) = mpsc::channel();
    let (begun, answer) = oneshot::channel();
    let bell = Bell::default();
    let (its_bell, its_sources) = (bell.clone(), sources.clone());
    std::thread::Builder::new()
        .name("debug session".into())
        // The engine's side never leaves the thread it was made on.
        .spawn(move || {
            let core = Core::new(engine, origin, standing, its_bell, announcer, clock, mask);
            core.showing(its_sources).serve(&queue, begun);
        })
        .map_err(|error| {
            Failure::new(FailureKind::Internal, format!("cannot start a thread: {error}"))
                .hint("end sessions that you do not need, and try again")
        })?;
    let session = Session {
        id: session::new_id()?,
        commands,
        bell,
        standing: published,
        output,
        seen: AtomicU64::new(0),
        travels: AtomicBool::new(false),
        mask,
        sources,
        awaited,
        key: None,
        is_confined: false,
        asked_for: AtomicI64::new(0),
        comparing: Mutex::new(None),
        crash: Mutex::new(None),
        recording: origin_recording,
    };
    match tokio::time::timeout(BEGIN_WITHIN, answer).await {
        Ok(Ok(Ok(()))) => Ok(session),
        Ok(Ok(Err(failure))) => Err(failure),
        Ok(Err(_)) => {
            let fault = session.standing.borrow().fault.clone();
            let fault = fault.map_or_else(|| "the debug engine failed".to_owned(), |loss| loss.why.clone());
            Err(Failure::new(FailureKind::Internal, fault))
        }
        Err(_) => Err(failures::no_answer()),
    }
}
