//! A fake engine behind real sockets: what crosses them, and what is made of a worker that fails.

use std::{
    fmt::Write as _,
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use hindcast_core::{
    debug::{
        BreakpointChange, CodeBreakpoint, CompletionKind, CoreRequest, DebugBackend, DebugEngine, DebugError,
        Destination, Ending, Evaluation, FrameRef, Granularity, Language, LaunchRequest, Movement,
        NumberFormat, Outcome, OutputLog, Place, Question, RegisterSet, Remedy, Stdin, StopAtEntry, Streams,
        TimelineQuery, TraceFormat, TraceRequest, Trigger, ValueLimits, VariableQuery, VariableScope,
        Watched,
        fake::{FAKE_HEAP, FakeAct, FakeEngine, FakeProgram},
    },
    progress::{Progress, Unwatched},
};

use super::{
    backend::RemoteBackend,
    engine::Worker,
    host::{self, Inside},
    link::Link,
    wire::{Beginning, Begun, Call, Facets, Frame, json},
};

fn request(output: &Arc<OutputLog>) -> LaunchRequest {
    LaunchRequest {
        program: "/bin/counter".into(),
        args: vec!["a".into()],
        cwd: None,
        env: [("NAME".to_owned(), "value".to_owned())].into(),
        stop_at_entry: StopAtEntry::Main,
        stdin: Stdin::Text("in".into()),
        streams: Streams::Pipes,
        record: true,
        chaos: None,
        follow: None,
        follow_forks: false,
        record_from: None,
        language: Language::Auto,
        just_my_code: true,
        output: output.clone(),
    }
}

/// The server's end, with `work` at the worker's.
fn link(output: &Arc<OutputLog>, work: impl FnOnce(UnixStream, UnixStream) + Send + 'static) -> Link {
    let (calls, its_calls) = UnixStream::pair().unwrap();
    let (bells, its_bells) = UnixStream::pair().unwrap();
    std::thread::spawn(move || work(its_calls, its_bells));
    Link::new(calls, bells, Worker::thread(), output.clone()).unwrap()
}

/// A worker that nothing keeps in.
fn unconfined(engine: &dyn DebugEngine) -> Inside<'_> {
    Inside { engine, layers: Ok(Vec::new()) }
}

/// A session with a fake program in a "worker".
fn remote(program: FakeProgram, output: &Arc<OutputLog>) -> (RemoteBackend, Arc<FakeEngine>) {
    let engine = Arc::new(FakeEngine::new(program));
    let its_engine = engine.clone();
    let link = link(output, move |calls, bells| {
        host::serve(unconfined(&*its_engine), calls, bells, || {}).unwrap();
    });
    (RemoteBackend::begin(link, Beginning::Launch(request(output))).unwrap(), engine)
}

/// Asks everything that can be asked, and tells all that was answered.
fn told_of(backend: &mut dyn DebugBackend) -> String {
    let mut told = String::new();
    macro_rules! tell {
        ($($what:expr),* $(,)?) => { $(writeln!(told, "{:?}", $what).unwrap();)* };
    }
    tell!(backend.target(), backend.run(Movement::Begin));
    let trigger = Trigger::Code(CodeBreakpoint {
        condition: Some("count > 0".into()),
        ..CodeBreakpoint::at(Place::Function("report".into()))
    });
    tell!(backend.add_breakpoint(trigger), backend.breakpoints().unwrap());
    let thread = backend.threads().unwrap()[0].id;
    let frame = FrameRef::of(thread, 0);
    tell!(backend.run(Movement::Step { thread, granularity: Granularity::Line, count: 1 }));
    let enabled = BreakpointChange { enabled: Some(false), ..BreakpointChange::default() };
    let id = backend.breakpoints().unwrap()[0].id;
    tell!(
        backend.change_breakpoint(id, enabled),
        backend.remove_breakpoint(id),
        backend.remove_breakpoint(id)
    );
    tell!(
        backend.threads(),
        backend.stack(thread, 10),
        backend.modules(),
        backend.write_input(b"\xff\n", false)
    );
    let (scope, limits) = (VariableScope::Local, ValueLimits::default());
    tell!(backend.variables(&VariableQuery {
        frame,
        scope,
        filter: None,
        offset: 0,
        limit: 9,
        limits,
        allow_calls: None
    }));
    let mut evaluation = Evaluation {
        expression: "count".into(),
        frame,
        limits,
        format: NumberFormat::Auto,
        may_write: false,
        allow_calls: None,
    };
    tell!(backend.evaluate(&evaluation));
    evaluation.expression = "nothing".into();
    tell!(
        backend.evaluate(&evaluation),
        backend.source_file("/src/counter.c"),
        backend.source_file("/etc/passwd")
    );
    tell!(backend.complete(CompletionKind::Function, "", 10));
    let memory = backend.raw_memory().unwrap();
    tell!(memory.read(FAKE_HEAP, 8), memory.read(0u64.to_string().parse().unwrap(), 8));
    tell!(
        memory.regions_around(FAKE_HEAP),
        backend.registers().unwrap().registers(frame, RegisterSet::General)
    );
    tell!(backend.disassembly().unwrap().disassemble(&Place::Function("main".into()), 1, 3));
    tell!(backend.run(Movement::Continue));
    let past = backend.time_travel().unwrap();
    tell!(
        past.recording().unwrap(),
        past.now(),
        past.timeline(&TimelineQuery { limit: 50, ..TimelineQuery::default() })
    );
    let watched = Watched::Expression { text: "count".into(), frame };
    tell!(past.ask(&Question::LastWrite { watched, depth: 3 }));
    for format in [TraceFormat::Json, TraceFormat::Text] {
        let mut trace = Vec::new();
        let part = TraceRequest { format, start_snapshot: None, end_snapshot: None };
        tell!(past.export(&part, &mut trace, &Unwatched), String::from_utf8_lossy(&trace));
    }
    tell!(backend.run(Movement::Goto(Destination::Start)), backend.run(Movement::Goto(Destination::Present)));
    tell!(backend.pause(), backend.end(Ending::Terminate));
    told
}

#[test]
fn a_worker_answers_as_the_engine_itself() {
    let (here, there) = (Arc::new(OutputLog::new(1 << 20)), Arc::new(OutputLog::new(1 << 20)));
    let program = FakeProgram::counter("/src/counter.c");
    let mut local = FakeEngine::new(program.clone()).launch(&request(&here)).unwrap();
    let (mut remote, engine) = remote(program, &there);
    let (local, told) = (told_of(&mut *local), told_of(&mut remote));
    assert_eq!(told, local);
    assert!(told.contains("report"), "{told}");
    assert_eq!(there.read(0, 9999, None).pieces, here.read(0, 9999, None).pieces);
    assert!(there.end() > 0);
    drop(remote);
    assert_eq!(engine.alive(), 0);
}

#[test]
fn what_cannot_begin_says_why_and_leaves_nothing() {
    let output = Arc::new(OutputLog::new(1000));
    let engine = FakeEngine::new(FakeProgram::default());
    let link =
        link(&output, move |calls, bells| host::serve(unconfined(&engine), calls, bells, || {}).unwrap());
    let broken = LaunchRequest { program: "/bin/broken".into(), ..request(&output) };
    let error = RemoteBackend::begin(link, Beginning::Launch(broken)).err().unwrap();
    assert!(matches!(error, DebugError::LaunchFailed(_)), "{error}");
}

#[test]
fn a_bell_stops_what_moves() {
    let output = Arc::new(OutputLog::new(1000));
    let (mut remote, engine) = remote(FakeProgram::doing(FakeAct::Spin), &output);
    remote.run(Movement::Begin).unwrap();
    for _ in 0..20 {
        // Once, whether it comes before the movement, with it or after it.
        let interrupt = remote.interrupt();
        let ringing = std::thread::spawn(move || interrupt.interrupt());
        assert_eq!(remote.run(Movement::Continue).unwrap(), Outcome::Interrupted);
        ringing.join().unwrap();
        remote.pause().unwrap();
    }
    drop(remote);
    assert_eq!(engine.alive(), 0);
}

#[test]
fn a_panic_of_the_engine_is_told_and_its_session_put_away() {
    let output = Arc::new(OutputLog::new(1000));
    let (mut remote, engine) = remote(FakeProgram::doing(FakeAct::EngineFault), &output);
    let (tell, told) = mpsc::channel();
    remote.when_lost(Box::new(move |loss| tell.send(loss.why.clone()).unwrap()));
    remote.run(Movement::Begin).unwrap();
    let lost = remote.run(Movement::Continue).unwrap_err();
    assert!(matches!(&lost, DebugError::Lost(why) if why.contains("told to fail")), "{lost}");
    assert!(told.recv().unwrap().contains("told to fail"));
    assert_eq!(engine.alive(), 0);
    assert_eq!(remote.threads().unwrap_err(), lost);
    assert_eq!(remote.breakpoints().unwrap_err(), lost);
    assert_eq!(remote.time_travel().unwrap().now().unwrap_err(), lost);
}

/// Wants no more after the first report.
#[derive(Default)]
struct Impatient(AtomicBool);

impl Progress for Impatient {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no room"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_nobody_wants_or_nothing_holds_is_given_up_and_the_session_goes_on() {
    let output = Arc::new(OutputLog::new(1000));
    let mut program = FakeProgram::counter("/src/counter.c");
    let step = program.steps[0].clone();
    // Long enough that the wish to end it arrives in time.
    program.steps.splice(0..0, std::iter::repeat_n(step, 20_000));
    let (mut remote, _engine) = remote(program, &output);
    remote.run(Movement::Begin).unwrap();
    remote.run(Movement::Continue).unwrap();
    let part = TraceRequest { format: TraceFormat::Json, start_snapshot: None, end_snapshot: None };
    let past = remote.time_travel().unwrap();
    let error = past.export(&part, &mut io::sink(), &Impatient::default()).unwrap_err();
    assert!(matches!(error, DebugError::GivenUp(_)), "{error}");
    let error = past.export(&part, &mut Full, &Unwatched).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    let mut trace = Vec::new();
    assert!(past.export(&part, &mut trace, &Unwatched).unwrap() > 20_000);
    assert!(!trace.is_empty());
}

/// A worker that begins a session as it should, and answers the next call with these bytes.
fn answering(bytes: &'static [u8], stays: bool) -> RemoteBackend {
    let output = Arc::new(OutputLog::new(1000));
    let engine = FakeEngine::new(FakeProgram::default());
    let target =
        engine.open_core(&CoreRequest { core: "core".into(), program: None }).unwrap().target().clone();
    let facets =
        Facets { raw_memory: true, registers: true, data_search: true, time_travel: true, disassembly: true };
    let link = link(&output, move |mut calls, _bells| {
        let Some(Frame::Call { number, json: call }) = Frame::read(&mut calls).unwrap() else { panic!() };
        assert!(matches!(json(&call).unwrap(), Call::Begin(_)));
        let begun =
            serde_json::to_vec(&Ok::<_, DebugError>(Begun { target, facets, layers: Vec::new() })).unwrap();
        Frame::Answer { number, json: begun }.write(&mut calls).unwrap();
        Frame::read(&mut calls).unwrap();
        calls.write_all(bytes).unwrap();
        if stays {
            let _ = Frame::read(&mut calls);
        }
    });
    RemoteBackend::begin(link, Beginning::Launch(request(&output))).unwrap()
}

#[test]
fn a_worker_that_talks_nonsense_ends_its_session() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "has ended"),
        (b"\x01", "has ended"),
        (b"\x09\0\0\0a\x02\0\0", "has ended"),
        (b"\xff\xff\xff\xffa", "a frame of 4294967295 bytes"),
        (b"\0\0\0\0z", "unknown kind 122"),
        (b"\x03\0\0\0a\0\0\0", "without its number"),
        (b"\x01\0\0\0o\x07", "no stream"),
        (b"\x0a\0\0\0a\x09\0\0\0\0\0\0\0{}", "what was not asked"),
        (b"\x0a\0\0\0a\x02\0\0\0\0\0\0\0{}", "cannot be read"),
    ];
    for (bytes, why) in cases {
        let mut backend = answering(bytes, why != "has ended");
        let error = backend.threads().unwrap_err();
        assert!(matches!(&error, DebugError::Lost(lost) if lost.contains(why)), "{bytes:?}: {error}");
        assert_eq!(error.remedies()[0], Remedy::Launch, "{error}");
        assert_eq!(backend.threads().unwrap_err(), error);
        // Told also when it is asked for too late.
        let (tell, told) = mpsc::channel();
        backend.when_lost(Box::new(move |loss| tell.send(loss.why.clone()).unwrap()));
        assert!(told.recv().unwrap().contains(why));
    }
}

#[test]
fn damaged_frames_are_read_or_refused_and_every_stream_of_them_ends() {
    let frames = [
        Frame::Call { number: 7, json: b"\"Layers\"".to_vec() },
        Frame::Answer { number: 7, json: b"{\"Ok\":[]}".to_vec() },
        Frame::Output(hindcast_core::debug::OutputStream::Log, b"printed".to_vec()),
        Frame::Written(vec![0; 300]),
        Frame::Fault("it failed".into()),
    ];
    let mut whole = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut whole).unwrap());
    let mut state = 21u64;
    let mut roll = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut damaged = whole.clone();
        for _ in 0..=roll(4) {
            let at = roll(damaged.len());
            damaged[at] = [0, 1, 2, 0x7f, 0xff, roll(256) as u8][roll(6)];
        }
        damaged.truncate(damaged.len() - roll(2) * roll(damaged.len()));
        let mut rest = &*damaged;
        loop {
            match Frame::read(&mut rest) {
                Ok(Some(frame)) => {
                    // What was read can be written, and is the same again.
                    let mut again = Vec::new();
                    frame.write(&mut again).unwrap();
                    let same = Frame::read(&mut &*again).unwrap().unwrap();
                    assert_eq!(format!("{same:?}"), format!("{frame:?}"));
                    read += 1;
                }
                Ok(None) => break,
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(read > 10_000 && refused > 1000, "{read} {refused}");
}
