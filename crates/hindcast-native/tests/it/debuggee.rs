//! A fixture under the debugger.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use hindcast_core::{
    debug::{
        Breakpoint, CodeBreakpoint, DebugBackend, DebugEngine as _, DebugError, Evaluation, Frame, FrameRef,
        Granularity, Language, LaunchRequest, Movement, NumberFormat, Outcome, OutputLog, Place, Stdin, Stop,
        StopAtEntry, StopReason, Streams, ThreadId, TraceFileRequest, TraceFormat, TraceRequest, Trigger,
        ValueLimits, Variable, VariableQuery, VariableScope,
    },
    progress::Unwatched,
};
use hindcast_fixtures::{Built, Fixture};
use hindcast_native::NativeEngine;
use tempfile::NamedTempFile;

/// What is printed is then there at every stop.
const ON_TERMINALS: Streams = Streams::Terminal;

/// A program that stands still. Dropping it checks that it is gone.
pub(crate) struct Debuggee {
    backend: Option<Box<dyn DebugBackend>>,
    pub(crate) output: Arc<OutputLog>,
    pub(crate) built: Built,
    pub(crate) stop: Stop,
    pid: u32,
}

impl Debuggee {
    /// Standing in `main`.
    pub(crate) fn launch(fixture: &Fixture, args: &[&str]) -> Self {
        Self::launch_with(fixture, args, StopAtEntry::Main, Stdin::Written)
    }

    pub(crate) fn launch_with(fixture: &Fixture, args: &[&str], entry: StopAtEntry, stdin: Stdin) -> Self {
        Self::launch_on(ON_TERMINALS, fixture, args, entry, stdin)
    }

    pub(crate) fn launch_on(
        streams: Streams,
        fixture: &Fixture,
        args: &[&str],
        entry: StopAtEntry,
        stdin: Stdin,
    ) -> Self {
        Self::begin(fixture.build(), args, (entry, stdin, streams), false)
    }

    /// Standing in `main`, and recorded.
    pub(crate) fn record(fixture: &Fixture, args: &[&str]) -> Self {
        Self::begin(fixture.build(), args, (StopAtEntry::Main, Stdin::Written, ON_TERMINALS), true)
    }

    /// The same where a seed decides which thread runs when.
    pub(crate) fn record_chaos(fixture: &Fixture, args: &[&str], seed: u64) -> Self {
        let place = (StopAtEntry::Main, Stdin::Written, ON_TERMINALS);
        Self::begin_with(fixture.build(), args, place, true, Some(seed))
    }

    /// The same with a copy of a program.
    pub(crate) fn record_copy(program: &Path, built: Built) -> Self {
        let built = Built { path: program.to_owned(), ..built };
        Self::begin(built, &[], (StopAtEntry::Main, Stdin::Written, ON_TERMINALS), true)
    }

    fn begin(built: Built, args: &[&str], place: (StopAtEntry, Stdin, Streams), record: bool) -> Self {
        Self::begin_with(built, args, place, record, None)
    }

    fn begin_with(
        built: Built,
        args: &[&str],
        (stop_at_entry, stdin, streams): (StopAtEntry, Stdin, Streams),
        record: bool,
        chaos: Option<u64>,
    ) -> Self {
        let output = Arc::new(OutputLog::new(1 << 20));
        let request = LaunchRequest {
            program: built.path.clone(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: None,
            env: BTreeMap::new(),
            stop_at_entry,
            stdin,
            streams,
            record,
            chaos,
            follow: None,
            follow_forks: false,
            record_from: None,
            language: Language::Auto,
            just_my_code: true,
            output: output.clone(),
        };
        let mut backend = NativeEngine.launch(&request).expect("the fixture starts");
        let pid = backend.target().pid.expect("it has a process");
        let Outcome::Stopped(stop) = backend.run(Movement::Begin).expect("the fixture begins") else {
            panic!("nobody interrupted");
        };
        Self { backend: Some(backend), output, built, stop, pid }
    }

    /// A recording in a file; it stands where that ends.
    pub(crate) fn open(built: Built, trace: &Path) -> Result<Self, DebugError> {
        let mut backend = NativeEngine.open_trace(&TraceFileRequest { trace: trace.to_owned() })?;
        let pid = backend.target().pid.expect("it has a process");
        let Outcome::Stopped(stop) = backend.run(Movement::Begin).expect("the recording begins") else {
            panic!("nobody interrupted");
        };
        Ok(Self { backend: Some(backend), output: Arc::new(OutputLog::new(0)), built, stop, pid })
    }

    /// Writes the recording to a file, or the part between two of its snapshots.
    pub(crate) fn export(&mut self, part: (Option<u64>, Option<u64>)) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a file can be made");
        let request =
            TraceRequest { format: TraceFormat::Binary, start_snapshot: part.0, end_snapshot: part.1 };
        let past = self.backend().time_travel().expect("it travels");
        past.export(&request, &mut file, &Unwatched).expect("it can be written");
        file
    }

    pub(crate) fn backend(&mut self) -> &mut dyn DebugBackend {
        self.backend.as_deref_mut().expect("the session lives")
    }

    pub(crate) fn movement(&mut self, movement: Movement) -> &Stop {
        match self.backend().run(movement).expect("it moves") {
            Outcome::Stopped(stop) => self.stop = stop,
            Outcome::Interrupted => panic!("nobody interrupted"),
        }
        &self.stop
    }

    pub(crate) fn go(&mut self) -> &Stop {
        self.movement(Movement::Continue)
    }

    pub(crate) fn step(&mut self, granularity: Granularity) -> &Stop {
        let thread = self.stop.thread;
        self.movement(Movement::Step { thread, granularity, count: 1 })
    }

    pub(crate) fn break_at(&mut self, mark: &str) -> Breakpoint {
        let (file, line) = (self.built.source_text(), self.built.line(mark));
        self.add(CodeBreakpoint::at(Place::Line { file, line }))
    }

    pub(crate) fn add(&mut self, breakpoint: CodeBreakpoint) -> Breakpoint {
        self.backend().add_breakpoint(Trigger::Code(breakpoint)).expect("the breakpoint can be set")
    }

    /// Runs to the line with this mark.
    pub(crate) fn run_to(&mut self, mark: &str) {
        let (file, line) = (self.built.source_text(), self.built.line(mark));
        self.movement(Movement::RunTo(Place::Line { file, line }));
        assert_eq!(self.line(), Some(line), "{:?}", self.stop);
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.stop.thread
    }

    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        let thread = self.stop.thread;
        self.backend().stack(thread, 200).expect("there is a stack").frames
    }

    pub(crate) fn line(&mut self) -> Option<u32> {
        self.frames().first().and_then(|frame| frame.location.line)
    }

    pub(crate) fn function(&mut self) -> String {
        self.frames().first().and_then(|frame| frame.location.function.clone()).unwrap_or_default()
    }

    pub(crate) fn locals(&mut self, index: u32) -> Vec<Variable> {
        self.variables(index, VariableScope::Local)
    }

    /// Those of the innermost frame's source file.
    pub(crate) fn globals(&mut self) -> Vec<Variable> {
        self.variables(0, VariableScope::Global)
    }

    fn variables(&mut self, index: u32, scope: VariableScope) -> Vec<Variable> {
        let query = VariableQuery {
            frame: FrameRef::of(self.stop.thread, index),
            scope,
            filter: None,
            offset: 0,
            limit: 100,
            limits: ValueLimits::default(),
            allow_calls: None,
        };
        self.backend().variables(&query).expect("there are variables").variables
    }

    pub(crate) fn local(&mut self, name: &str) -> Variable {
        let locals = self.locals(0);
        let found = locals.iter().find(|variable| variable.name == name);
        found.unwrap_or_else(|| panic!("no `{name}` among {locals:?}")).clone()
    }

    pub(crate) fn value_of(&mut self, expression: &str) -> String {
        self.evaluate(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<String, String> {
        self.evaluate_in(0, expression)
    }

    /// Why an expression has no value, with what helps.
    #[track_caller]
    pub(crate) fn complaint(&mut self, expression: &str) -> String {
        let evaluation = self.evaluation_in(0, expression);
        with_remedies(&self.backend().evaluate(&evaluation).expect_err("it has a value"))
    }

    pub(crate) fn evaluate_in(&mut self, frame: u32, expression: &str) -> Result<String, String> {
        let evaluation = self.evaluation_in(frame, expression);
        self.backend().evaluate(&evaluation).map(|variable| variable.value).map_err(|error| error.to_string())
    }

    fn evaluation_in(&self, frame: u32, expression: &str) -> Evaluation {
        Evaluation {
            expression: expression.to_owned(),
            frame: FrameRef::of(self.stop.thread, frame),
            limits: ValueLimits::default(),
            format: NumberFormat::Auto,
            may_write: true,
            allow_calls: None,
        }
    }

    /// All that it printed so far.
    pub(crate) fn printed(&self) -> String {
        let chunk = self.output.read(0, usize::MAX, None);
        let bytes: Vec<u8> = chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn expect_exit(&mut self, code: i32) {
        self.go();
        assert_eq!(
            (self.stop.reason, self.stop.exit_code),
            (StopReason::Exit, Some(code)),
            "{:?}",
            self.stop
        );
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        self.backend = None;
        let left = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        if !std::thread::panicking() {
            assert!(left.is_err(), "the debuggee survived:\n{}", left.unwrap_or_default());
        }
    }
}

/// An error with what helps against it.
pub(crate) fn with_remedies(error: &DebugError) -> String {
    format!("{error} {:?}", error.remedies())
}
