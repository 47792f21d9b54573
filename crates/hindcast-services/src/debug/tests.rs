//! The service over the fake engine.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use hindcast_core::{
    debug::{
        Access, BreakpointId, CodeBreakpoint, Evaluation, Fault, FaultAccess, FaultKind, Granularity,
        Movement, NumberFormat, OutputStream, Place, RaisedSignal, RegisterSet, RuntimeAddr, SourceFile,
        StopReason, ThreadId, Trigger, ValueLimits, View, Watched, Watchpoint,
        fake::{FakeAct, FakeEngine, FakeProgram},
    },
    event::Change,
    identity::{Environment, KeyId, KeyRecord, ScopeSet, SecretHash, Tier},
    progress::{Progress, Unwatched},
    time::ManualClock,
};

use super::*;

mod guarding;
mod travel;

struct Stage {
    service: DebugService,
    engine: Arc<FakeEngine>,
    events: Events,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

fn stage(program: FakeProgram) -> Stage {
    let engine = Arc::new(FakeEngine::new(program));
    let events = Events::default();
    let clock = Arc::new(ManualClock::at("2026-02-05T10:30:05Z".parse().unwrap()));
    let service =
        DebugService::new(TargetPolicy::default(), Some(engine.clone()), events.clone(), clock.clone());
    Stage { service, engine, events, clock, folder: tempfile::tempdir().unwrap() }
}

/// A stage whose program has its source on disk.
fn counter() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("counter.c");
    let lines: Vec<_> = (1..=14).map(|line| format!("line {line}")).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    Stage { folder, ..stage(FakeProgram::counter(file.to_str().unwrap())) }
}

fn patience(timeout_ms: u64) -> Patience {
    Patience::new(timeout_ms, Arc::new(Unwatched))
}

impl Stage {
    async fn launch(&self, caller: &Caller) -> (Arc<Session>, Viewport) {
        self.try_launch(caller, LaunchOptions::default()).await.unwrap()
    }

    async fn try_launch(
        &self,
        caller: &Caller,
        options: LaunchOptions,
    ) -> Result<(Arc<Session>, Viewport), Failure> {
        let program = self.folder.path().join("program");
        std::fs::write(&program, "").unwrap();
        let options = LaunchOptions { program, ..options };
        self.service.launch(caller, options, Mask::new(true), &patience(5000)).await
    }

    async fn finish(&self) {
        self.service.end_all().await;
        assert_eq!(self.engine.alive(), 0, "a session was left behind");
    }
}

fn key_holder(owner: &str) -> Caller {
    let key = KeyRecord {
        id: KeyId("abc".into()),
        name: "test".into(),
        owner: PrincipalId(owner.into()),
        environment: Environment::Live,
        tier: Tier::Free,
        own_limits: None,
        scopes: ScopeSet::standard(),
        secret: SecretHash([0; 32]),
        created_at: hindcast_core::Timestamp::UNIX_EPOCH,
        expires_at: None,
        revoked_at: None,
        rotated_at: None,
        allowed_ips: Vec::new(),
        last_used_at: None,
    };
    Caller { principal: key.owner.clone(), scopes: key.scopes, key: Some(Arc::new(key)), address: None }
}

fn at_function(name: &str) -> Trigger {
    Trigger::Code(CodeBreakpoint::at(Place::Function(name.into())))
}

fn instruction() -> Movement {
    Movement::Step { thread: ThreadId(1), granularity: Granularity::Instruction, count: 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_launched_stopped_stepped_and_ends() {
    let stage = counter();
    let me = Caller::local();
    let (session, viewport) = stage.launch(&me).await;
    assert_eq!((viewport.state, viewport.reason), (State::Paused, Some(StopReason::Entry)));
    let lines: Vec<_> = viewport.source.iter().map(|line| (line.line, line.current)).collect();
    assert_eq!(lines, (2..=6).map(|line| (line, line == 4)).collect::<Vec<_>>());

    session.add_breakpoint(at_function("report")).await.unwrap();
    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!(viewport.breakpoint_ids, [BreakpointId(1)]);
    assert_eq!(viewport.location.as_ref().unwrap().function.as_deref(), Some("report"));
    assert_eq!(viewport.frames.len(), 2);
    assert_eq!(viewport.output.unwrap().stdout, "one\ntwo\n");
    assert!(viewport.source.iter().any(|line| line.breakpoint && line.line == 11));
    let password = viewport.locals.iter().find(|local| local.name == "password").unwrap();
    assert_eq!(password.value, MASKED);

    let viewport = session.travel(instruction(), &patience(5000)).await.unwrap();
    assert_eq!(viewport.reason, Some(StopReason::Step));
    assert!(viewport.instruction.is_some() && viewport.output.is_none());
    let changed: Vec<_> = viewport.locals.iter().map(|local| (local.name.as_str(), local.changed)).collect();
    assert_eq!(changed, [("count", true), ("limit", false)], "against the stop at entry");

    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!((viewport.state, viewport.exit_code), (State::Exited, Some(0)));
    assert_eq!(viewport.output.unwrap().stdout, "three\n");
    let failure = session.stack(View::Auto, None, 5).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotAttached);
    assert!(failure.details.contains("exit code 0"), "{failure}");
    assert_eq!(session.read_output(Some(0), 100, None).output.stdout, "one\ntwo\nthree\n");

    let viewport = session.restart(&patience(5000)).await.unwrap();
    assert_eq!((viewport.state, viewport.reason), (State::Paused, Some(StopReason::Entry)));
    assert_eq!(session.breakpoints().await.len(), 1, "breakpoints outlive a restart");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_nobody_asks_for_end() {
    const IDLE: Duration = Duration::from_secs(3600);
    let stage = counter();
    let (me, other) = (key_holder("me"), key_holder("other"));
    stage.launch(&me).await;
    stage.launch(&other).await;
    stage.clock.advance(IDLE / 2);
    stage.service.end_idle(IDLE).await;
    stage.service.session(&me, None).expect("it is still there, and asked for again");
    stage.clock.advance(IDLE / 2);
    stage.service.end_idle(IDLE).await;
    assert_eq!(stage.engine.alive(), 1);
    assert!(stage.service.session(&me, None).is_ok());
    assert_eq!(stage.service.session(&other, None).err().unwrap().kind, FailureKind::NotAttached);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_program_is_served_and_goes_on() {
    let stage = stage(FakeProgram::doing(FakeAct::AwaitInput));
    let (session, _) = stage.launch(&Caller::local()).await;
    let started = Instant::now();
    let viewport = session.travel(Movement::Continue, &patience(50)).await.unwrap();
    assert_eq!(viewport.state, State::Running);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(viewport.next, ["debugger/wait", "debugger/pause"]);

    let failure = session.stack(View::Auto, None, 5).await.unwrap_err();
    assert!(failure.to_string().contains("debugger/pause"), "{failure}");
    let failure = session.travel(Movement::Continue, &patience(50)).await.unwrap_err();
    assert!(failure.to_string().contains("running"), "{failure}");
    let threads = session.threads().await.unwrap();
    assert!(threads.stale && threads.threads.len() == 2);

    let line3 = Place::Line { file: "fake.c".into(), line: 3 };
    session.add_breakpoint(Trigger::Code(CodeBreakpoint::at(line3))).await.unwrap();
    assert_eq!(session.standing().state, State::Running);
    session.write_input("hello\n".into(), false).await.unwrap();
    let viewport = session.wait(Until::Stopped, &patience(5000)).await;
    assert_eq!(viewport.reason, Some(StopReason::Breakpoint));
    assert_eq!(viewport.output.unwrap().stdout, "hello\n");
    assert!(!session.threads().await.unwrap().stale);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_spins_can_be_paused_many_times() {
    let stage = stage(FakeProgram::doing(FakeAct::Spin));
    let (session, _) = stage.launch(&Caller::local()).await;
    for _ in 0..50 {
        session.depart(Movement::Continue).await.unwrap();
        let viewport = session.pause().await.unwrap();
        assert_eq!(viewport.reason, Some(StopReason::Pause));
    }
    session.depart(Movement::Continue).await.unwrap();
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_at_once_are_all_answered() {
    let stage = stage(FakeProgram::doing(FakeAct::Spin));
    let (session, _) = stage.launch(&Caller::local()).await;
    session.depart(Movement::Continue).await.unwrap();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let session = session.clone();
        asking.spawn(async move {
            session.add_breakpoint(at_function("main")).await.unwrap();
            session.modules().await.unwrap();
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert_eq!(session.breakpoints().await.len(), 32);
    assert_eq!(session.standing().state, State::Running);
    stage.finish().await;
}

struct Cancelled(AtomicBool);

impl Progress for Cancelled {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_leaves_the_program_running() {
    let stage = stage(FakeProgram::doing(FakeAct::Spin));
    let (session, _) = stage.launch(&Caller::local()).await;
    let cancelled = Patience::new(50_000, Arc::new(Cancelled(AtomicBool::new(true))));
    let viewport = session.travel(Movement::Continue, &cancelled).await.unwrap();
    assert_eq!(viewport.state, State::Running);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_engine_ends_its_session_and_no_other() {
    let stage = stage(FakeProgram::doing(FakeAct::EngineFault));
    let me = Caller::local();
    let (other, _) = stage.launch(&me).await;
    let (session, _) = stage.launch(&me).await;
    let failure = session.travel(Movement::Continue, &patience(5000)).await.unwrap_err();
    assert!(failure.details.contains("told to fail"), "{failure}");
    assert_eq!(session.viewport().state, State::Exited);
    assert!(session.viewport().detail.unwrap().contains("told to fail"));
    let failure = session.threads().await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotAttached);
    assert!(failure.details.contains("the debug engine failed"), "{failure}");
    other.stack(View::Auto, None, 5).await.unwrap();
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_belong_to_their_principal() {
    let stage = counter();
    let (ada, bob) = (key_holder("ada"), key_holder("bob"));
    let (first, _) = stage.launch(&ada).await;
    let (second, _) = stage.launch(&ada).await;
    assert_eq!(stage.service.session(&key_holder("ada"), None).unwrap().id(), second.id());
    assert_eq!(stage.service.session(&ada, Some(first.id())).unwrap().id(), first.id());
    assert_eq!(stage.service.session(&ada, None).unwrap().id(), first.id(), "the last used is current");
    for id in [None, Some(&**first.id())] {
        let failure = stage.service.session(&bob, id).err().unwrap();
        assert_eq!(failure.kind, FailureKind::NotAttached);
    }
    stage.service.disconnect(&ada, Some(first.id()), None).await.unwrap();
    assert_eq!(stage.engine.alive(), 1);
    assert!(stage.service.session(&ada, Some(first.id())).is_err());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_eight_sessions_at_most_and_ended_ones_make_room() {
    let stage = stage(FakeProgram::doing(FakeAct::Exit(3)));
    let me = Caller::local();
    for _ in 0..8 {
        stage.launch(&me).await;
    }
    let failure = stage.try_launch(&me, LaunchOptions::default()).await.err().unwrap();
    assert!(failure.to_string().contains("debugger/disconnect"), "{failure}");
    let session = stage.service.session(&me, None).unwrap();
    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!(viewport.exit_code, Some(3));
    assert_eq!(stage.service.sessions(&me).len(), 8, "it is still listed");
    stage.launch(&me).await;
    assert_eq!(stage.service.sessions(&me).len(), 8);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_fails_leaves_nothing() {
    let stage = counter();
    let program = stage.folder.path().join("broken");
    std::fs::write(&program, "").unwrap();
    let options = LaunchOptions { program, ..LaunchOptions::default() };
    let me = Caller::local();
    let launched = stage.service.launch(&me, options, Mask::new(true), &patience(1000)).await;
    assert!(launched.err().unwrap().details.contains("cannot start"));
    let options = LaunchOptions { program: "no-such-program-anywhere".into(), ..LaunchOptions::default() };
    let launched = stage.service.launch(&me, options, Mask::new(true), &patience(1000)).await;
    assert!(launched.err().unwrap().details.contains("there is no program"));
    assert!(stage.service.sessions(&me).is_empty());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_hear_of_stops_breakpoints_and_sessions() {
    let stage = counter();
    let me = Caller::local();
    let mut ears = stage.events.listen();
    // A stop is published first and announced then, so what is expected is waited for.
    let mut hears = async |expected: &[&str]| {
        let mut heard = Vec::new();
        while !expected.iter().all(|one| heard.iter().any(|heard| heard == one)) {
            let event = tokio::time::timeout(Duration::from_secs(5), ears.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("only {heard:?} of {expected:?}")).unwrap();
            assert!(event.audience.includes(&me.principal));
            heard.push(match event.change {
                Change::Resource(uri) => uri.to_string(),
                Change::ResourceList => "list".into(),
            });
        }
        let unexpected = heard.iter().find(|heard| !expected.contains(&heard.as_str()));
        assert_eq!(unexpected, None, "beyond {expected:?}");
    };
    let (session, _) = stage.launch(&me).await;
    hears(&[SESSION_URI, THREADS_URI, "list"]).await;
    session.add_breakpoint(at_function("report")).await.unwrap();
    hears(&[BREAKPOINTS_URI]).await;
    session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    // Its hits were counted.
    hears(&[BREAKPOINTS_URI, SESSION_URI, THREADS_URI]).await;
    stage.service.disconnect(&me, None, None).await.unwrap();
    hears(&[BREAKPOINTS_URI, SESSION_URI, THREADS_URI, "list"]).await;
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_that_the_symbols_name_are_served() {
    let stage = counter();
    let (session, _) = stage.launch(&Caller::local()).await;
    let folder = stage.folder.path().canonicalize().unwrap();
    let file = folder.join("counter.c");
    let file = file.to_str().unwrap();
    assert!(session.source(file).await.unwrap().starts_with("line 1\nline 2\n"));
    let below = format!("{}/x/../counter.c", folder.display());
    for refused in ["/etc/passwd", below.as_str()] {
        let failure = session.source(refused).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::SourceNotServed);
        let message = format!("File path '{refused}' is not referenced in any loaded debug information");
        assert_eq!(failure.details, message);
    }
    std::fs::remove_file(file).unwrap();
    let failure = session.source(file).await.unwrap_err();
    assert_eq!(
        failure.details,
        format!("Source file '{file}' referenced in debug information but not found on disk")
    );
    std::os::unix::fs::symlink("/etc/passwd", file).unwrap();
    let failure = session.source(file).await.unwrap_err();
    assert!(failure.details.ends_with("is not referenced in any loaded debug information"), "{failure}");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autopsy_explains_a_crash() {
    let signal = RaisedSignal {
        name: "SIGSEGV".into(),
        number: 11,
        cause: Some("address not mapped".into()),
        fault_address: Some(RuntimeAddr(8)),
        fault: Some(Box::new(Fault {
            kind: FaultKind::NullDereference,
            access: Some(FaultAccess::Read),
            pointer: None,
            region: None,
        })),
        handled: false,
    };
    let stage = stage(FakeProgram::doing(FakeAct::Raise(signal)));
    let (session, _) = stage.launch(&Caller::local()).await;
    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!(
        (viewport.signal.as_deref(), &*viewport.next),
        (Some("SIGSEGV"), &["debugger/autopsy".into()][..])
    );
    let autopsy = session.autopsy(10, 1).await.unwrap();
    assert_eq!(autopsy.access.as_ref().unwrap().kind, "null_dereference");
    assert!(autopsy.summary.ends_with("in `main` at fake.c:2"), "{}", autopsy.summary);
    assert_eq!(autopsy.frames[0].arguments, "x=2");
    assert!(!autopsy.registers.is_empty() && !autopsy.code.is_empty());

    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!(viewport.state, State::Exited);
    let failure = session.autopsy(10, 1).await.unwrap_err();
    assert!(failure.details.contains("SIGSEGV"), "{failure}");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_is_cut_to_its_end_and_the_rest_can_be_read() {
    let text = format!("first{}last", "x".repeat(10_000));
    let stage = stage(FakeProgram::doing(FakeAct::Print(OutputStream::Stderr, text)));
    let (session, _) = stage.launch(&Caller::local()).await;
    let viewport = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    let output = viewport.output.unwrap();
    assert!(output.stderr.ends_with("last") && output.stderr.len() <= 1500);
    assert_eq!(output.dropped_bytes, Some(10_009 - 1500));
    assert!(viewport.notes[0].contains("since 0"), "{:?}", viewport.notes);
    let page = session.read_output(Some(0), 5, None);
    assert_eq!((page.output.stderr.as_str(), page.next, page.more), ("first", 5, true));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_that_assigns_is_refused_where_writing_is_not_allowed() {
    let stage = counter();
    let (session, _) = stage.launch(&Caller::local()).await;
    let evaluation = |may_write| Evaluation {
        expression: "count = 5".into(),
        frame: session.frame(None, None).unwrap(),
        limits: ValueLimits::default(),
        format: NumberFormat::Auto,
        may_write,
        allow_calls: None,
    };
    assert!(session.evaluate(evaluation(false)).await.is_err());
    assert_eq!(session.evaluate(evaluation(true)).await.unwrap().value, "5");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_engine_the_error_says_so() {
    let clock = Arc::new(ManualClock::at("2026-02-05T10:30:05Z".parse().unwrap()));
    let service = DebugService::new(TargetPolicy::default(), None, Events::default(), clock);
    let failure = service
        .attach(&Caller::local(), AttachOptions::to(std::process::id()), Mask::new(true), &patience(1000))
        .await;
    assert!(failure.err().unwrap().details.contains("no debug engine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_dropped_ends() {
    let stage = stage(FakeProgram::doing(FakeAct::Spin));
    let (session, _) = stage.launch(&Caller::local()).await;
    session.depart(Movement::Continue).await.unwrap();
    drop(session);
    drop(stage.service);
    let deadline = Instant::now() + Duration::from_secs(5);
    while stage.engine.alive() > 0 {
        assert!(Instant::now() < deadline, "it lives on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn source_that_the_program_carries_is_shown_and_changed_source_is_noted() {
    let with = |source| FakeProgram { source: Some(source), ..FakeProgram::counter("/_/counter.cs") };
    let text: String = (1..=14).map(|line| format!("carried {line}\n")).collect();
    let embedded = stage(with(SourceFile { path: None, text: Some(text.into()), changed: false }));
    let me = Caller::local();
    let (session, view) = embedded.launch(&me).await;
    assert_eq!(view.source[2].text, "carried 4");
    assert!(view.notes.iter().all(|note| !note.contains("was changed")), "{:?}", view.notes);
    assert!(session.source("/_/counter.cs").await.unwrap().contains("carried 14"));
    assert!(session.source("/_/other.cs").await.is_err());
    embedded.finish().await;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("counter.cs");
    std::fs::write(&path, "now\n".repeat(9)).unwrap();
    let changed = stage(with(SourceFile { path: Some(path), text: None, changed: true }));
    let (_, view) = changed.launch(&me).await;
    assert_eq!(view.source[2].text, "now");
    assert!(view.notes.iter().any(|note| note.contains("`/_/counter.cs` was changed")), "{:?}", view.notes);
    changed.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_that_comes_too_late_disturbs_nobody() {
    let stage = counter();
    let options = LaunchOptions { record: true, ..LaunchOptions::default() };
    let (session, _) = stage.try_launch(&Caller::local(), options).await.unwrap();
    session.add_breakpoint(at_function("report")).await.unwrap();
    session.bell.ring();
    let view = session.travel(Movement::Continue, &patience(5000)).await.unwrap();
    assert_eq!(view.reason, Some(StopReason::Breakpoint));
    session.bell.ring();
    session.stack(View::Auto, None, 5).await.unwrap();
    let watched = Watched::Expression { text: "total".into(), frame: session.frame(None, None).unwrap() };
    assert!(session.last_write(watched, 1, &patience(5000)).await.unwrap().found().is_ok());
    session.bell.ring();
    let view = session.travel(Movement::ReverseContinue, &patience(5000)).await.unwrap();
    assert_eq!(view.reason, Some(StopReason::HistoryStart));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_pauses_are_heard_however_they_meet_a_movement_that_begins() {
    let stage = stage(FakeProgram::doing(FakeAct::Spin));
    let (session, _) = stage.launch(&Caller::local()).await;
    for _ in 0..200 {
        // Sent at the same time as the movement, so that it may stand still, begin or run.
        let (moved, asked) = tokio::join!(session.depart(Movement::Continue), session.modules());
        moved.unwrap();
        asked.unwrap();
        session.pause().await.unwrap();
    }
    session.depart(Movement::Continue).await.unwrap();
    drop(session);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_says_what_it_cannot_do_and_what_does_instead() {
    let stage = stage(FakeProgram { managed: true, ..FakeProgram::counter("/src/Counter.cs") });
    let options = LaunchOptions { record: true, ..LaunchOptions::default() };
    let (session, _) = stage.try_launch(&Caller::local(), options).await.unwrap();
    let frame = session.frame(None, None).unwrap();
    let memory = Watched::Memory { address: RuntimeAddr(0x1000), size: 8 };
    let watch = Watchpoint { watched: memory, access: Access::Write, condition: None, enabled: true };
    let refused = [
        session.memory(MemoryPlace::Address(RuntimeAddr(0x1000)), 8).await.err(),
        session.registers(frame, RegisterSet::General).await.err(),
        session.disassemble(None, 0, 4).await.err(),
        session.travel(instruction(), &patience(5000)).await.err(),
        session.add_breakpoint(Trigger::Watch(watch)).await.err(),
        session.travel(Movement::ReverseContinue, &patience(5000)).await.err(),
    ];
    let expected = [
        ("raw memory", "debugger/evaluate"),
        ("no registers", "debugger/evaluate"),
        ("no machine code", "debugger/get_stack_trace"),
        ("step by instructions", "`line`"),
        ("cannot watch memory", "debugger/set_breakpoint"),
        ("is not recorded", "debugger/restart"),
    ];
    for (failure, (cannot, instead)) in refused.into_iter().zip(expected) {
        let told = failure.unwrap().to_string();
        assert!(told.contains("this .NET session") && told.contains(cannot), "{cannot}: {told}");
        assert!(told.contains(instead), "{instead}: {told}");
    }
    let line = Movement::Step { thread: ThreadId(1), granularity: Granularity::Line, count: 1 };
    assert_eq!(session.travel(line, &patience(5000)).await.unwrap().reason, Some(StopReason::Step));
    let failure = session.source("/etc/passwd").await.unwrap_err();
    assert_eq!(failure.details, "File path '/etc/passwd' is not referenced in any loaded PDB symbols");
    stage.finish().await;
}
