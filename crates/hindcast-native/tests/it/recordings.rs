//! Recordings in files: opened when the program is long gone.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    sync::Arc,
};

use hindcast_core::{
    debug::{
        AttachRequest, CodeBreakpoint, DebugEngine as _, DebugError, Destination, Ending, FrameRef,
        Granularity, HappeningKind, Language, Movement, Outcome, OutputLog, Place, StopReason, TimelineQuery,
        TraceFormat, TraceRequest, Trigger, Watched, Writer,
    },
    progress::Unwatched,
};
use hindcast_fixtures::Fixture;
use hindcast_native::NativeEngine;

use crate::debuggee::Debuggee;

fn last_write(debuggee: &mut Debuggee, text: &str) -> hindcast_core::debug::MemoryWrite {
    let frame = FrameRef::of(debuggee.thread(), 0);
    let watched = Watched::Expression { text: text.into(), frame };
    let past = debuggee.backend().time_travel().expect("it travels");
    let writes = past.last_write(&watched, 1).expect("it can be asked for");
    writes.into_iter().next().expect("somebody wrote it")
}

/// The moment, and whether the recording goes on after it.
fn now(debuggee: &mut Debuggee) -> (String, bool) {
    let when = debuggee
        .backend()
        .time_travel()
        .expect("it travels")
        .now()
        .expect("it can tell")
        .expect("there is a moment");
    (when.moment.0, when.in_past)
}

fn fails(debuggee: &mut Debuggee, movement: Movement) -> DebugError {
    match debuggee.backend().run(movement) {
        Err(error) => error,
        Ok(outcome) => panic!("it moved: {outcome:?}"),
    }
}

#[test]
fn the_guilty_line_is_found_in_the_file_of_a_crash() {
    let mut debuggee = Debuggee::record(&Fixture::c("corruption"), &[]);
    debuggee.go();
    let live = (debuggee.stop.clone(), now(&mut debuggee), debuggee.frames());
    let written = last_write(&mut debuggee, "accounts[1].balance");
    let file = debuggee.export((None, None));
    let built = Fixture::c("corruption").build();
    drop(debuggee);

    let mut again = Debuggee::open(built, file.path()).unwrap();
    assert_eq!(again.stop.reason, StopReason::Signal);
    assert_eq!(again.stop.signal, live.0.signal);
    assert_eq!(now(&mut again), live.1);
    assert_eq!(again.line(), Some(again.built.line("crash")));
    let names = |frames: &[hindcast_core::debug::Frame]| {
        frames.iter().map(|frame| frame.location.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&again.frames()), names(&live.2));
    let write = last_write(&mut again, "accounts[1].balance");
    assert_eq!(write.location.line, Some(again.built.line("guilty")));
    assert_eq!((&write.moment, &write.old, &write.new), (&written.moment, &written.old, &written.new));
    again.movement(Movement::Goto(Destination::Moment(write.moment.clone())));
    assert_eq!((again.function().as_str(), again.value_of("i").as_str()), ("set_owner", "21"));
    assert!(now(&mut again).1);
}

#[test]
fn one_moves_in_a_file_as_in_a_live_recording_up_to_its_end() {
    let mut debuggee = Debuggee::record(&Fixture::c("corruption"), &[]);
    debuggee.go();
    let file = debuggee.export((None, None));
    drop(debuggee);
    let mut again = Debuggee::open(Fixture::c("corruption").build(), file.path()).unwrap();
    let end = now(&mut again);
    // Nothing comes after the end, and nothing can be changed.
    let thread = again.thread();
    let step = Movement::Step { thread, granularity: Granularity::Instruction, count: 1 };
    for movement in [Movement::Continue, step] {
        let error = fails(&mut again, movement);
        assert!(
            matches!(&error, DebugError::NoHistory(text) if text.what.contains("the recording ends here")),
            "{error:?}"
        );
    }
    assert!(again.evaluate("audited = 7").unwrap_err().contains("a recording cannot be changed"));
    assert_eq!(now(&mut again), end);
    // Back to breakpoints, with conditions, and by lines; then forwards to the end.
    let (file, line) = (again.built.source_text(), again.built.line("guilty"));
    let mut breakpoint = CodeBreakpoint::at(Place::Line { file, line });
    breakpoint.condition = Some("i == 9".into());
    let id = again.add(breakpoint).id;
    assert_eq!(again.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
    assert_eq!(again.value_of("i"), "9");
    let owner = again.value_of("account->owner");
    let here = now(&mut again).0;
    let thread = again.thread();
    again.movement(Movement::StepBack { thread, granularity: Granularity::Instruction, count: 50 });
    assert!(now(&mut again).0 < here);
    again.movement(Movement::Step { thread, granularity: Granularity::Instruction, count: 50 });
    assert_eq!((now(&mut again).0, again.value_of("account->owner")), (here, owner));
    assert_eq!(again.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    assert_eq!(again.go().reason, StopReason::Breakpoint);
    assert_eq!(again.value_of("i"), "9");
    again.backend().remove_breakpoint(id).unwrap();
    let stop = again.go().clone();
    assert_eq!(stop.reason, StopReason::Present);
    assert_eq!(stop.signal.unwrap().name, "SIGSEGV");
    assert_eq!(now(&mut again), end);
    for percent in [0, 30, 60, 100] {
        again.movement(Movement::Goto(Destination::Percent(percent)));
    }
    assert_eq!(again.movement(Movement::Goto(Destination::Present)).reason, StopReason::Present);
    assert_eq!(again.line(), Some(again.built.line("crash")));
}

#[test]
fn what_came_from_files_that_are_gone_is_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    std::fs::write(&input, "some lines\nthat nobody has later\n".repeat(300)).unwrap();
    let mut debuggee = Debuggee::record(&Fixture::c("inputs"), &[input.to_str().unwrap()]);
    debuggee.run_to("result");
    let total = debuggee.value_of("total");
    let stopped = now(&mut debuggee).0;
    debuggee.expect_exit(0);
    let file = debuggee.export((None, None));
    drop(debuggee);
    std::fs::remove_file(&input).unwrap();

    let mut again = Debuggee::open(Fixture::c("inputs").build(), file.path()).unwrap();
    assert_eq!((again.stop.reason, again.stop.exit_code), (StopReason::Exit, Some(0)));
    again.movement(Movement::Goto(Destination::Moment(hindcast_core::debug::Moment(stopped))));
    assert_eq!(again.line(), Some(again.built.line("result")));
    assert_eq!(again.value_of("total"), total);
    assert_eq!(again.value_of("signals"), "4");
    let write = last_write(&mut again, "piece[7]");
    assert_eq!(write.by, Writer::Kernel);
    assert!(write.stack.frames.iter().any(|frame| frame.location.line == Some(again.built.line("read"))));
    let handled = last_write(&mut again, "signals");
    assert_eq!(handled.location.line, Some(again.built.line("handled")));
    let query = TimelineQuery { limit: 1000, ..TimelineQuery::default() };
    let page = again.backend().time_travel().unwrap().timeline(&query).unwrap();
    let of_kind = |kind| page.happenings.iter().filter(|happening| happening.kind == kind).count();
    assert_eq!((of_kind(HappeningKind::Signal), of_kind(HappeningKind::Output)), (4, 1), "{page:?}");
    // Forwards to the end.
    let stop = again.go().clone();
    assert_eq!((stop.reason, stop.exit_code), (StopReason::Exit, Some(0)));
}

#[test]
fn a_part_of_a_recording_ends_where_it_was_cut() {
    let mut debuggee = Debuggee::record(&Fixture::c("corruption"), &[]);
    debuggee.run_to("overflow");
    let first = debuggee.backend().time_travel().unwrap().now().unwrap().unwrap();
    debuggee.go();
    let file = debuggee.export((None, first.snapshot));
    let rest = debuggee.export((first.snapshot, None));
    drop(debuggee);
    let mut again = Debuggee::open(Fixture::c("corruption").build(), file.path()).unwrap();
    assert_eq!(now(&mut again), (first.moment.0.clone(), false));
    assert_eq!(again.line(), Some(again.built.line("overflow")));
    assert_eq!(
        last_write(&mut again, "accounts[1].balance").location.line,
        Some(again.built.line("innocent"))
    );
    assert!(matches!(fails(&mut again, Movement::Continue), DebugError::NoHistory(_)));
    drop(again);
    let mut again = Debuggee::open(Fixture::c("corruption").build(), rest.path()).unwrap();
    assert_eq!(again.line(), Some(again.built.line("crash")));
    assert_eq!(last_write(&mut again, "accounts[1].balance").location.line, Some(again.built.line("guilty")));
    again.movement(Movement::Goto(Destination::Start));
    assert_eq!(again.line(), Some(again.built.line("overflow")));
}

#[test]
fn a_recording_of_a_program_that_is_another_now_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let built = Fixture::c("corruption").build();
    let program = folder.path().join("corruption");
    std::fs::copy(&built.path, &program).unwrap();
    let mut debuggee = Debuggee::record_copy(&program, built);
    debuggee.go();
    let file = debuggee.export((None, None));
    drop(debuggee);
    let open = || Debuggee::open(Fixture::c("corruption").build(), file.path());
    drop(open().unwrap());
    // The same length, another byte.
    let mut bytes = std::fs::read(&program).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    // As a linker does: its copies may still be dying.
    let replace = |bytes: &[u8]| {
        let new = folder.path().join("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, &program).unwrap();
    };
    replace(&bytes);
    let refused = |part: &str| {
        let Err(DebugError::BadFile(text)) = open() else { panic!("it was opened") };
        assert!(text.what.contains(program.to_str().unwrap()) && text.what.contains(part), "{text}");
    };
    refused("its content is another");
    replace(&bytes[..last]);
    refused("bytes, and had");
    std::fs::remove_file(&program).unwrap();
    refused("it cannot be found");
}

#[test]
fn why_a_recording_ended_is_in_the_file_too() {
    let mut debuggee = Debuggee::record(&Fixture::c("gap"), &[]);
    loop {
        let outcome = debuggee.backend().run(Movement::Continue).unwrap();
        let Outcome::Stopped(stop) = outcome else { panic!("nobody interrupted") };
        if stop.reason == StopReason::Exit || stop.reason == StopReason::Signal {
            break;
        }
    }
    let recording = debuggee.backend().time_travel().unwrap().recording().unwrap();
    assert!(recording.reason.as_ref().is_some_and(|reason| reason.contains("restricts")), "{recording:?}");
    let file = debuggee.export((None, None));
    let built = Fixture::c("gap").build();
    drop(debuggee);
    let mut again = Debuggee::open(built, file.path()).unwrap();
    let told = again.backend().time_travel().unwrap().recording().unwrap();
    assert_eq!(told.reason, recording.reason);
    assert_eq!(again.movement(Movement::Goto(Destination::Start)).reason, StopReason::Goto);
}

/// Its addresses are random, and it has been running for a while.
#[test]
fn a_process_that_was_attached_to_is_in_its_file_as_it_was() {
    let built = Fixture::c("clock").build();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&built.path);
    let mut child = command.arg(folder.path().join("never")).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
    let request = AttachRequest {
        pid: child.id(),
        port: None,
        record: true,
        language: Language::Auto,
        just_my_code: true,
        output: Arc::new(OutputLog::new(1000)),
    };
    let mut backend = NativeEngine.attach(&request).unwrap();
    backend.run(Movement::Begin).unwrap();
    let place = Place::Line { file: built.source_text(), line: built.line("counted") };
    backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
    let mut moments = Vec::new();
    for _ in 0..6 {
        assert!(matches!(backend.run(Movement::Continue).unwrap(), Outcome::Stopped(_)));
        moments.push(backend.time_travel().unwrap().now().unwrap().unwrap().moment);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let request = TraceRequest { format: TraceFormat::Binary, start_snapshot: None, end_snapshot: None };
    backend.time_travel().unwrap().export(&request, &mut file, &Unwatched).unwrap();
    backend.end(Ending::Terminate).unwrap();
    drop(backend);
    // Whoever traces a child hears of its end.
    let _ = child.wait();

    let mut again = Debuggee::open(built, file.path()).unwrap();
    assert_eq!(again.line(), Some(again.built.line("counted")));
    let last: i64 = again.value_of("ticks").parse().unwrap();
    again.break_at("counted");
    for (moment, back) in moments.iter().rev().skip(1).zip(1..) {
        assert_eq!(again.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
        assert_eq!(
            (now(&mut again).0, again.value_of("ticks")),
            (moment.0.clone(), (last - back).to_string())
        );
        assert_eq!(again.frames()[1].location.line, Some(again.built.line("tick")));
    }
    assert_eq!(again.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}
