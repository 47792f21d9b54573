//! Going back, over the fake engine.

use hindcast_core::debug::{
    Destination, FrameRef, HappeningKind, Moment, TimelineQuery, Trace, TraceFormat, TraceRequest, Watched,
    Writer,
};

use super::*;

fn recorded() -> LaunchOptions {
    LaunchOptions { record: true, ..LaunchOptions::default() }
}

fn moment(text: &str) -> Movement {
    Movement::Goto(Destination::Moment(Moment(text.into())))
}

fn named(text: &str) -> Watched {
    Watched::Expression { text: text.into(), frame: FrameRef::of(ThreadId(1), 0) }
}

async fn go(session: &Session, movement: Movement) -> Viewport {
    session.travel(movement, &patience(5000)).await.unwrap()
}

/// Where it stands: the line, whether in the past, and why.
fn stands(viewport: &Viewport) -> (Option<u32>, Option<bool>, Option<StopReason>) {
    (viewport.location.as_ref().and_then(|location| location.line), viewport.in_past, viewport.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_go_back_in_every_size_and_forward_again_to_the_present() {
    let stage = counter();
    let (session, viewport) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    assert_eq!((viewport.moment, viewport.in_past), (Some(Moment("000000".into())), Some(false)));
    session.add_breakpoint(at_function("report")).await.unwrap();
    go(&session, Movement::Continue).await;
    let back = async |granularity, count| {
        let viewport = session.step_back(None, granularity, count, &patience(5000)).await.unwrap();
        stands(&viewport)
    };
    let step = |line| (Some(line), Some(true), Some(StopReason::Step));
    assert_eq!(back(Granularity::Out, 1).await, step(5), "out of `report`, to before its call");
    let present = go(&session, Movement::Continue).await;
    assert_eq!(stands(&present), (Some(11), Some(false), Some(StopReason::Present)));
    assert_eq!(present.output.map(|output| output.stdout), None, "nothing is printed a second time");
    go(&session, instruction()).await;
    assert_eq!(back(Granularity::Over, 1).await, step(5), "over the call");
    assert_eq!(back(Granularity::Line, 1).await, step(5));
    let viewport = session.step_back(None, Granularity::Instruction, 1, &patience(5000)).await.unwrap();
    assert_eq!(stands(&viewport), step(4));
    assert_eq!((viewport.snapshot, viewport.instruction.is_some()), (Some(0), true));
    let start = back(Granularity::Instruction, 5).await;
    assert_eq!(start, (Some(4), Some(true), Some(StopReason::HistoryStart)));

    let viewport = go(&session, Movement::Continue).await;
    assert_eq!(stands(&viewport), (Some(11), Some(true), Some(StopReason::Breakpoint)));
    let count = session.breakpoints().await[0].hit_count;
    assert_eq!(count, 1, "seeing it again is no hit");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_stays_when_the_program_has_ended() {
    let stage = counter();
    let (session, _) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    session.add_breakpoint(at_function("report")).await.unwrap();
    let stopped = go(&session, Movement::Continue).await;
    assert_eq!(stopped.reason, Some(StopReason::Breakpoint));
    let ended = go(&session, Movement::Continue).await;
    assert_eq!((ended.state, ended.in_past), (State::Exited, Some(false)));
    assert_eq!(ended.next, ["debugger/reverse_continue", "debugger/restart"]);
    let failure = session.stack(View::Auto, None, 5).await.unwrap_err();
    assert!(failure.to_string().contains("debugger/step_backward"), "{failure}");
    let failure = session.travel(Movement::Continue, &patience(5000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotAttached, "it cannot go on");

    let failure = session.travel(moment("no moment"), &patience(5000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::HistoryUnavailable);
    assert_eq!(session.viewport().state, State::Exited, "a failed travel leaves it where it was");

    let before = session.step_back(None, Granularity::Instruction, 1, &patience(5000)).await.unwrap();
    assert_eq!(stands(&before), (Some(8), Some(true), Some(StopReason::Step)));
    session.stack(View::Auto, None, 5).await.unwrap();
    assert_eq!(before.locals[0].value, "3");
    let viewport = go(&session, Movement::ReverseContinue).await;
    assert_eq!(stands(&viewport), (Some(11), Some(true), Some(StopReason::Breakpoint)));
    let viewport = go(&session, Movement::ReverseContinue).await;
    assert_eq!(stands(&viewport), (Some(4), Some(true), Some(StopReason::HistoryStart)));
    let viewport = go(&session, Movement::Goto(Destination::Present)).await;
    assert_eq!((viewport.state, viewport.exit_code), (State::Exited, Some(0)));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_travel_that_fails_leaves_the_session_where_it_was() {
    let stage = counter();
    let (session, _) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    go(&session, instruction()).await;
    let before = go(&session, moment("000000")).await;
    assert_eq!(stands(&before), (Some(4), Some(true), Some(StopReason::Goto)));
    let failure = session.travel(moment("900000"), &patience(5000)).await.unwrap_err();
    assert!(failure.to_string().contains("debugger/timeline"), "{failure}");
    let failure = session.step_back(Some(ThreadId(99)), Granularity::Line, 1, &patience(5000)).await;
    assert_eq!(failure.unwrap_err().kind, FailureKind::InvalidInput);
    let after = session.viewport();
    assert_eq!((stands(&after), after.moment), (stands(&before), before.moment));
    session.stack(View::Auto, None, 5).await.unwrap();
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_travel_can_be_left_alone_and_stopped() {
    let stage = stage(FakeProgram::doing(FakeAct::SlowToReplay));
    let (session, _) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    session.travel(instruction(), &patience(5000)).await.unwrap();
    session.travel(instruction(), &patience(5000)).await.unwrap();
    let viewport = session.travel(Movement::ReverseContinue, &patience(50)).await.unwrap();
    assert_eq!(viewport.state, State::Running);
    let timeline = session.timeline(TimelineQuery { limit: 50, ..TimelineQuery::default() }).await.unwrap();
    assert!(timeline.page.total > 0, "it can be asked on the way");
    let viewport = session.pause().await.unwrap();
    assert_eq!((viewport.state, viewport.reason), (State::Paused, Some(StopReason::Pause)));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_recording_the_error_says_why_and_what_to_do() {
    let stage = counter();
    let me = Caller::local();
    let (session, viewport) = stage.launch(&me).await;
    assert_eq!((viewport.moment, viewport.in_past), (None, None));
    let check = async |session: &Session, hint: &str| {
        for movement in [Movement::ReverseContinue, Movement::Goto(Destination::Start)] {
            let failure = session.travel(movement, &patience(5000)).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::HistoryUnavailable);
            assert!(failure.advice(crate::ToolNames::Slash).unwrap().contains(hint), "{failure}");
        }
        let failure = session.last_write(named("count"), 1, &patience(5000)).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::HistoryUnavailable);
        assert!(session.timeline(TimelineQuery::default()).await.is_err());
    };
    check(&session, "`record` true").await;
    go(&session, Movement::Continue).await;
    let failure = session.travel(Movement::ReverseContinue, &patience(5000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::HistoryUnavailable, "also when it has ended");
    let pid = std::process::id();
    let attached =
        stage.service.attach(&me, AttachOptions::to(pid), Mask::new(true), &patience(5000)).await.unwrap();
    check(&attached.0, "`debugger/record`").await;
    stage.service.disconnect(&me, Some(attached.0.id()), None).await.unwrap();
    let attached = stage
        .service
        .attach(
            &me,
            AttachOptions { record: true, ..AttachOptions::to(pid) },
            Mask::new(true),
            &patience(5000),
        )
        .await
        .unwrap();
    assert_eq!(attached.1.in_past, Some(false));
    let core = stage.folder.path().join("program");
    let opened = stage.service.open_core(&me, core, None, Mask::new(true), &patience(5000)).await.unwrap();
    check(&opened.0, "debugger/launch").await;
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leads_to_the_write_that_caused_it() {
    let stage = stage(FakeProgram::overrun());
    let (session, _) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    let crashed = go(&session, Movement::Continue).await;
    assert_eq!(crashed.next, ["debugger/autopsy", "debugger/last_write", "debugger/step_backward"]);
    let autopsy = session.autopsy(10, 1).await.unwrap();
    assert!(autopsy.next[0].starts_with("debugger/last_write with expression `currency`"), "{autopsy}");
    assert!(autopsy.to_string().contains("\nnext: debugger/step_backward"), "{autopsy}");

    let writes = session.last_write(named("currency"), 1, &patience(5000)).await.unwrap().found().unwrap();
    let [write] = &*writes else { panic!("{writes:?}") };
    assert_eq!((write.location.function.as_deref(), write.location.line), (Some("rename_owner"), Some(20)));
    assert_eq!((write.old.as_str(), write.new.as_str()), ("0x500000 \"EUR\"", "0x42424242"));
    assert_eq!((write.by, write.stack.len(), write.from.as_deref()), (Writer::Program, 2, Some("name")));
    assert_eq!(stands(&session.viewport()).0, Some(30), "asking does not move");
    let there = go(&session, moment(&write.moment.0)).await;
    assert_eq!(stands(&there), (Some(12), Some(true), Some(StopReason::Goto)));
    let writes = session.last_write(named("currency"), 9, &patience(5000)).await.unwrap().found().unwrap();
    assert_eq!(writes.len(), 1);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_tells_what_happened_and_hides_secrets() {
    let program =
        FakeProgram::doing(FakeAct::Print(OutputStream::Stdout, "key ghp_".to_owned() + &"x".repeat(36)));
    let stage = stage(program);
    let (session, _) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    go(&session, Movement::Continue).await;
    let all = TimelineQuery { limit: 50, ..TimelineQuery::default() };
    let timeline = session.timeline(all.clone()).await.unwrap();
    let kinds: Vec<_> = timeline.page.happenings.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [HappeningKind::Stop, HappeningKind::Output, HappeningKind::Stop]);
    assert_eq!(timeline.page.happenings[1].what, "key ***");
    assert!(timeline.recording.start.is_some() && timeline.when.is_some());
    let page = TimelineQuery { offset: 1, limit: 1, ..all.clone() };
    assert_eq!(session.timeline(page).await.unwrap().page.happenings.len(), 1);
    let output = TimelineQuery { kinds: vec![HappeningKind::Output], ..all };
    assert_eq!(session.timeline(output).await.unwrap().page.total, 1);

    let text = TraceRequest { format: TraceFormat::Text, start_snapshot: None, end_snapshot: None };
    let to = ExportTo::Memory { limit: 10_000 };
    let exported = session.export(text, to, &patience(5000)).await.unwrap();
    let text = String::from_utf8(exported.content.unwrap()).unwrap();
    assert!(text.contains("key ***") && !text.contains("ghp_"), "{text}");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_written_out_whole_or_not_at_all() {
    let stage = counter();
    let me = Caller::local();
    let (session, _) = stage.try_launch(&me, recorded()).await.unwrap();
    go(&session, Movement::Continue).await;
    let request =
        |start_snapshot| TraceRequest { format: TraceFormat::Binary, start_snapshot, end_snapshot: None };
    let memory = |limit| ExportTo::Memory { limit };
    let exported = session.export(request(None), memory(10_000), &patience(5000)).await.unwrap();
    let bytes = exported.content.unwrap();
    let trace = Trace::read(&*bytes).unwrap();
    assert_eq!((trace.events.len() as u64, exported.bytes), (exported.events, bytes.len() as u64));
    let part = session.export(request(Some(1)), memory(10_000), &patience(5000)).await.unwrap();
    assert_eq!(part.events, exported.events - 2);

    let new = stage.service.new_file(&me, &stage.folder.path().join("trace.bin")).unwrap();
    let file = new.path().to_owned();
    let exported = session.export(request(None), ExportTo::File(new), &patience(5000)).await.unwrap();
    assert!(exported.content.is_none());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert!(stage.service.new_file(&me, &file).is_err(), "nothing is overwritten");

    let failure = session.export(request(None), memory(100), &patience(5000)).await.unwrap_err();
    assert!(failure.to_string().contains("`path`"), "{failure}");
    let other = || ExportTo::File(stage.folder.path().join("other.bin").into());
    let failure = session.export(request(Some(99)), other(), &patience(5000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::HistoryUnavailable);
    let cancelled = Patience::new(5000, Arc::new(Cancelled(AtomicBool::new(true))));
    session.export(request(None), other(), &cancelled).await.unwrap_err();
    assert!(!stage.folder.path().join("other.bin").exists());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_session_that_ended_keeps_its_past_when_the_next_begins() {
    let stage = stage(FakeProgram::doing(FakeAct::Exit(3)));
    let me = Caller::local();
    let mut ended = Vec::new();
    for _ in 0..3 {
        let (session, _) = stage.try_launch(&me, recorded()).await.unwrap();
        go(&session, Movement::Continue).await;
        ended.push(session);
    }
    assert_eq!(stage.engine.alive(), 2, "the one before the last had to go");
    go(&ended[1], Movement::ReverseContinue).await;
    assert!(ended[0].travel(Movement::ReverseContinue, &patience(5000)).await.is_err());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_hear_of_the_timeline() {
    let stage = counter();
    let me = Caller::local();
    let mut ears = stage.events.listen();
    let (session, _) = stage.try_launch(&me, recorded()).await.unwrap();
    session.travel(instruction(), &patience(5000)).await.unwrap();
    let mut told = 0;
    while told < 2 {
        let event = tokio::time::timeout(Duration::from_secs(5), ears.recv()).await.unwrap().unwrap();
        told += u32::from(matches!(event.change, Change::Resource(uri) if *uri == *TIMELINE_URI));
    }
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_opened_only_where_its_file_and_its_program_may_be_used() {
    let stage = stage(FakeProgram::overrun());
    let me = Caller::local();
    let (session, _) = stage.try_launch(&me, recorded()).await.unwrap();
    let folder = stage.folder.path().canonicalize().unwrap();
    let inside = folder.join("trace.bin");
    let request = TraceRequest { format: TraceFormat::Binary, start_snapshot: None, end_snapshot: None };
    session.export(request, ExportTo::File(inside.clone().into()), &patience(5000)).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("trace.bin");
    std::fs::copy(&inside, &outside).unwrap();
    let restricted = |folders: Vec<PathBuf>| {
        let policy = TargetPolicy { folders, ..TargetPolicy::default() };
        DebugService::new(policy, Some(stage.engine.clone()), Events::default(), stage.clock.clone())
    };
    let open = async |service: &DebugService, file: &Path| {
        let caller = key_holder("somebody");
        let opened = service.open_trace(&caller, file.to_owned(), Mask::new(true), &patience(5000)).await;
        opened.err().map(|failure| failure.kind)
    };
    // The script of a test cannot be gone back in, but that is asked for last.
    let refused_by_engine = Some(FailureKind::InvalidInput);
    let service = restricted(vec![folder.clone()]);
    assert_eq!(open(&service, &inside).await, refused_by_engine);
    assert_eq!(open(&service, &outside).await, Some(FailureKind::PermissionDenied), "the file");
    let service = restricted(vec![elsewhere.path().canonicalize().unwrap()]);
    assert_eq!(open(&service, &outside).await, Some(FailureKind::PermissionDenied), "its program");
    assert_eq!(open(&restricted(Vec::new()), &outside).await, refused_by_engine);
    std::fs::write(&inside, "no recording").unwrap();
    assert_eq!(
        open(&service, &inside).await,
        Some(FailureKind::PermissionDenied),
        "what is in it is not told"
    );
    std::fs::write(&outside, "no recording").unwrap();
    let failure = service.open_trace(&key_holder("x"), outside, Mask::new(true), &patience(5000)).await;
    assert!(failure.is_err_and(|failure| failure.details.contains("not a trace")));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_step_back_is_prepared_does_not_wait_for_that() {
    let stage = counter();
    let (session, viewport) = stage.try_launch(&Caller::local(), recorded()).await.unwrap();
    let prepares = async || {
        while !session.bell.is_busy() {
            tokio::task::yield_now().await;
        }
    };
    prepares().await;
    assert_eq!(session.threads().await.unwrap().threads.len(), 2, "a question");
    prepares().await;
    assert_eq!(session.viewport().moment, viewport.moment, "nothing moves");
    session.add_breakpoint(at_function("report")).await.unwrap();
    go(&session, Movement::Continue).await;
    prepares().await;
    let stepped = session.step_back(None, Granularity::Out, 1, &patience(5000)).await.unwrap();
    assert_eq!(stands(&stepped), (Some(5), Some(true), Some(StopReason::Step)), "a movement");
    prepares().await;
    stage.finish().await;
}
