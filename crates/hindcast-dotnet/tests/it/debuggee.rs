//! A session with a fixture, for tests.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use hindcast_core::debug::{
    Breakpoint, CodeBreakpoint, DebugBackend, DebugEngine, Evaluation, FrameRef, Granularity, Language,
    LaunchRequest, Movement, NumberFormat, Outcome, OutputLog, OutputStream, Place, Stack, Stdin, Stop,
    StopAtEntry, Streams, ThreadId, Trigger, ValueLimits, Variable, VariableQuery, VariableScope,
};
use hindcast_dotnet::DotnetEngine;
use hindcast_fixtures::dotnet::{self, DotnetProgram, Runtime};

/// Defines a test that runs on each runtime, in a process of its own: the runtime's debugging library can be loaded once.
macro_rules! on_both {
    ($($(#[$doc:meta])* fn $name:ident($runtime:ident: &Runtime) $body:block)*) => {
        $(
            $(#[$doc])*
            mod $name {
                use super::*;

                fn body($runtime: &Runtime) $body

                #[test]
                fn on_3_1() {
                    if let Some(runtime) = $crate::debuggee::runtime(0) {
                        body(&runtime);
                    }
                }

                #[test]
                fn on_10_0() {
                    if let Some(runtime) = $crate::debuggee::runtime(1) {
                        body(&runtime);
                    }
                }
            }
        )*
    };
}
pub(crate) use on_both;

pub(crate) fn runtime(at: usize) -> Option<Runtime> {
    dotnet::runtimes().into_iter().nth(at)
}

/// How a debuggee is started.
pub(crate) struct Plan {
    pub(crate) program: DotnetProgram,
    pub(crate) path: Option<PathBuf>,
    pub(crate) args: Vec<String>,
    pub(crate) stop: StopAtEntry,
    pub(crate) stdin: Stdin,
    pub(crate) just_my_code: bool,
}

impl Plan {
    pub(crate) fn of(name: &str) -> Self {
        Self {
            program: dotnet::program(name),
            path: None,
            args: Vec::new(),
            stop: StopAtEntry::Main,
            stdin: Stdin::Written,
            just_my_code: true,
        }
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.stdin = Stdin::Text(text.to_owned());
        self
    }

    pub(crate) fn request(&self, runtime: &Runtime) -> LaunchRequest {
        let root = runtime.root.to_str().unwrap().to_owned();
        LaunchRequest {
            program: self.path.clone().unwrap_or_else(|| self.program.dll.clone()),
            args: self.args.clone(),
            cwd: None,
            env: BTreeMap::from([("DOTNET_ROOT".to_owned(), root)]),
            stop_at_entry: self.stop,
            stdin: self.stdin.clone(),
            streams: Streams::Pipes,
            record: false,
            chaos: None,
            follow: None,
            follow_forks: false,
            record_from: None,
            language: Language::Auto,
            just_my_code: self.just_my_code,
            output: Arc::new(OutputLog::new(1 << 20)),
        }
    }

    pub(crate) fn launch(self, runtime: &Runtime) -> Debuggee {
        let request = self.request(runtime);
        let output = request.output.clone();
        let backend = DotnetEngine.launch(&request).unwrap();
        let mut debuggee = Debuggee { backend, output, program: self.program, stop: None };
        debuggee.run(Movement::Begin);
        debuggee
    }
}

pub(crate) struct Debuggee {
    pub(crate) backend: Box<dyn DebugBackend>,
    pub(crate) output: Arc<OutputLog>,
    pub(crate) program: DotnetProgram,
    pub(crate) stop: Option<Stop>,
}

/// The variables of a thread's innermost frame.
#[track_caller]
pub(crate) fn locals_of(backend: &mut dyn DebugBackend, thread: ThreadId) -> Vec<Variable> {
    let query = VariableQuery {
        frame: FrameRef::of(thread, 0),
        scope: VariableScope::Local,
        filter: None,
        offset: 0,
        limit: 100,
        limits: ValueLimits::default(),
        allow_calls: None,
    };
    backend.variables(&query).unwrap().variables
}

impl Debuggee {
    #[track_caller]
    pub(crate) fn run(&mut self, movement: Movement) -> Stop {
        match self.backend.run(movement).unwrap() {
            Outcome::Stopped(stop) => {
                self.stop = Some(stop.clone());
                stop
            }
            Outcome::Interrupted => panic!("it was interrupted"),
        }
    }

    #[track_caller]
    pub(crate) fn go_on(&mut self) -> Stop {
        self.run(Movement::Continue)
    }

    #[track_caller]
    pub(crate) fn step(&mut self, granularity: Granularity) -> Stop {
        let thread = self.stop.as_ref().unwrap().thread;
        self.run(Movement::Step { thread, granularity, count: 1 })
    }

    #[track_caller]
    pub(crate) fn break_at(&mut self, mark: &str) -> Breakpoint {
        self.set(self.at(mark))
    }

    pub(crate) fn at(&self, mark: &str) -> CodeBreakpoint {
        let file = self.program.source.to_str().unwrap().to_owned();
        CodeBreakpoint::at(Place::Line { file, line: self.program.line(mark) })
    }

    #[track_caller]
    pub(crate) fn set(&mut self, breakpoint: CodeBreakpoint) -> Breakpoint {
        self.backend.add_breakpoint(Trigger::Code(breakpoint)).unwrap()
    }

    #[track_caller]
    pub(crate) fn stack(&mut self) -> Stack {
        let thread = self.stop.as_ref().unwrap().thread;
        self.backend.stack(thread, 100).unwrap()
    }

    /// The line that it stands at.
    #[track_caller]
    pub(crate) fn line(&mut self) -> u32 {
        self.stack().frames[0].location.line.unwrap()
    }

    #[track_caller]
    pub(crate) fn locals(&mut self) -> Vec<Variable> {
        let thread = self.stop.as_ref().unwrap().thread;
        locals_of(&mut *self.backend, thread)
    }

    /// `name = value` for each local.
    #[track_caller]
    pub(crate) fn local_lines(&mut self) -> Vec<String> {
        let line =
            |variable: Variable| format!("{} {} = {}", variable.type_name, variable.name, variable.value);
        self.locals().into_iter().map(line).collect()
    }

    pub(crate) fn evaluation(&self, expression: &str) -> Evaluation {
        Evaluation {
            expression: expression.to_owned(),
            frame: FrameRef::of(self.stop.as_ref().unwrap().thread, 0),
            limits: ValueLimits::default(),
            format: NumberFormat::Auto,
            may_write: false,
            allow_calls: None,
        }
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> String {
        let evaluation = self.evaluation(expression);
        match self.backend.evaluate(&evaluation) {
            Ok(variable) => variable.value,
            Err(error) => format!("error: {error}"),
        }
    }

    pub(crate) fn printed(&self) -> String {
        self.said(OutputStream::Stdout)
    }

    /// What a program has printed that stands, as soon as it is as expected: it comes in its own time.
    #[track_caller]
    pub(crate) fn printed_when(&self, is_expected: impl Fn(&str) -> bool) -> String {
        let started = std::time::Instant::now();
        loop {
            let printed = self.printed();
            if is_expected(&printed) {
                return printed;
            }
            assert!(started.elapsed().as_secs() < 20, "it has only printed {printed}");
            std::thread::yield_now();
        }
    }

    /// What breakpoints with messages said.
    pub(crate) fn logged(&self) -> String {
        self.said(OutputStream::Log)
    }

    fn said(&self, stream: OutputStream) -> String {
        let chunk = self.output.read(0, usize::MAX, Some(stream));
        String::from_utf8(chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect()).unwrap()
    }
}
