//! Python programs, seen in the memory of a recorded interpreter.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use hindcast_core::debug::{
    Binding, BreakpointId, CodeBreakpoint, DebugBackend, DebugEngine as _, Destination, Evaluation, FrameRef,
    Granularity, HappeningKind, Language, LaunchRequest, MemoryWrite, Moment, Movement, NumberFormat,
    Outcome, OutputLog, Place, Stdin, Stop, StopAtEntry, StopReason, Streams, TimelineQuery, Trigger,
    ValueLimits, VariableQuery, VariableScope, View, Watched,
};
use hindcast_native::NativeEngine;
use serde_json::Value;

/// A recorded script that has ended.
struct Script {
    backend: Box<dyn DebugBackend>,
    source: PathBuf,
    output: Arc<OutputLog>,
    stop: Stop,
}

impl Script {
    fn record(python: &Path, name: &str, args: &[&str]) -> Self {
        let source = hindcast_fixtures::source_of(&format!("python/{name}.py"));
        let mut all = vec![source.to_string_lossy().into_owned()];
        all.extend(args.iter().map(|&arg| arg.to_owned()));
        let output = Arc::new(OutputLog::new(8 << 20));
        let request = LaunchRequest {
            program: python.to_owned(),
            args: all,
            cwd: None,
            env: BTreeMap::from([("PYTHONDONTWRITEBYTECODE".into(), "1".into())]),
            stop_at_entry: StopAtEntry::No,
            stdin: Stdin::Written,
            streams: Streams::Pipes,
            record: true,
            chaos: None,
            follow: None,
            follow_forks: false,
            record_from: None,
            language: Language::Native,
            just_my_code: true,
            output: output.clone(),
        };
        let backend = NativeEngine.launch(&request).expect("the interpreter starts");
        let stop = Stop {
            reason: StopReason::Entry,
            detail: None,
            thread: hindcast_core::debug::ThreadId(0),
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        };
        let mut script = Self { backend, source, output, stop };
        script.movement(Movement::Begin);
        assert_eq!(script.stop.reason, StopReason::Exit, "{:?}", script.stop);
        script
    }

    fn movement(&mut self, movement: Movement) {
        match self.backend.run(movement).expect("it moves") {
            Outcome::Stopped(stop) => self.stop = stop,
            Outcome::Interrupted => panic!("nobody interrupted"),
        }
    }

    fn go_to(&mut self, moment: &Moment) {
        self.movement(Movement::Goto(Destination::Moment(moment.clone())));
    }

    fn line(&self, mark: &str) -> u32 {
        hindcast_fixtures::mark_in(&self.source, mark)
    }

    /// Function and line of each frame, innermost first.
    fn stack(&mut self) -> Vec<(String, Option<u32>)> {
        let stack = self.backend.stack(self.stop.thread, 100).expect("there is a stack");
        assert_eq!(stack.broken, None);
        let told = stack
            .frames
            .into_iter()
            .map(|frame| (frame.location.function.unwrap_or_default(), frame.location.line));
        told.collect()
    }

    fn locals(&mut self, frame: u32) -> BTreeMap<String, String> {
        let query = VariableQuery {
            frame: FrameRef::of(self.stop.thread, frame),
            scope: VariableScope::Local,
            filter: None,
            offset: 0,
            limit: 1000,
            limits: ValueLimits { depth: 1, children: 50, offset: 0, text: 500 },
            allow_calls: None,
        };
        let page = self.backend.variables(&query).expect("there are variables");
        page.variables.into_iter().map(|variable| (variable.name, variable.value)).collect()
    }

    fn value_of(&mut self, frame: u32, expression: &str) -> Result<String, String> {
        let evaluation = Evaluation {
            expression: expression.into(),
            frame: FrameRef::of(self.stop.thread, frame),
            limits: ValueLimits::default(),
            format: NumberFormat::Auto,
            may_write: false,
            allow_calls: None,
        };
        self.backend.evaluate(&evaluation).map(|value| value.value).map_err(|error| error.to_string())
    }

    fn last_write(&mut self, frame: u32, expression: &str) -> MemoryWrite {
        let frame = FrameRef::of(self.stop.thread, frame);
        let watched = Watched::Expression { text: expression.into(), frame };
        let past = self.backend.time_travel().expect("it travels");
        let writes = past.last_write(&watched, 1).unwrap_or_else(|error| panic!("{expression}: {error}"));
        writes.into_iter().next().unwrap_or_else(|| panic!("{expression} was never written"))
    }

    fn printed(&self) -> String {
        let chunk = self.output.read(0, usize::MAX, None);
        let bytes: Vec<u8> = chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// When it printed.
    fn printing(&mut self) -> Vec<Moment> {
        let query =
            TimelineQuery { kinds: vec![HappeningKind::Output], limit: 100_000, ..TimelineQuery::default() };
        let past = self.backend.time_travel().expect("it travels");
        let page = past.timeline(&query).expect("it has a timeline");
        page.happenings.into_iter().map(|happening| happening.moment).collect()
    }
}

/// The interpreters to try.
fn pythons() -> impl Iterator<Item = PathBuf> {
    hindcast_fixtures::pythons::all().into_iter()
}

fn version_of(python: &Path) -> String {
    let output = Command::new(python).arg("--version").output().expect("it tells its version");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_traceback_is_followed_to_the_assignment_that_caused_it() {
    for python in pythons() {
        let version = version_of(&python);
        let mut script = Script::record(&python, "discount", &[]);
        let exception =
            script.stop.exception.clone().unwrap_or_else(|| panic!("{version}: {:?}", script.stop));
        assert_eq!(exception.exception_type, "TypeError", "{version}");
        assert_eq!(
            exception.message.as_deref(),
            Some("unsupported operand type(s) for *: 'NoneType' and 'int'"),
            "{version}"
        );
        let lines: Vec<_> = exception.thrown_at.iter().map(|place| place.line).collect();
        let marks = ["raise", "call", "outermost"].map(|mark| Some(script.line(mark)));
        assert_eq!(lines, marks, "{version}");
        let detail = script.stop.detail.clone().unwrap();
        let moment =
            detail.split("moment ").nth(1).and_then(|rest| rest.split(':').next()).expect(&detail).to_owned();
        script.go_to(&Moment(moment));
        let stack = script.stack();
        let names: Vec<_> = stack.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Order.total", "report", "<module>"], "{version}");
        assert_eq!(stack[0].1, Some(script.line("raise")), "{version}");
        assert_eq!(script.value_of(0, "self.price").as_deref(), Ok("None"), "{version}");
        assert_eq!(
            script.value_of(1, "[order.oid, total > 3, len(orders)]").as_deref(),
            Ok("[3, True, 6]"),
            "{version}"
        );
        let write = script.last_write(0, "self.price");
        assert_eq!(write.location.line, Some(script.line("guilty")), "{version}: {write:?}");
        assert_eq!((write.old.as_str(), write.new.as_str()), ("13.5", "None"), "{version}");
        script.go_to(&write.moment);
        assert_eq!(script.stack()[0], ("discount".into(), Some(script.line("guilty"))), "{version}");
        assert_eq!(script.value_of(0, "order.oid").as_deref(), Ok("3"), "{version}");
    }
}

#[test]
fn stacks_and_locals_are_those_that_the_program_logged() {
    let turns = hindcast_fixtures::oracle_size(3, 65).to_string();
    for python in pythons() {
        let version = version_of(&python);
        let mut script = Script::record(&python, "logged", &[&turns]);
        let printed = script.printed();
        let moments = script.printing();
        let logged: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(moments.len(), logged.len(), "{version}");
        for (moment, logged) in moments.iter().zip(&logged) {
            script.go_to(moment);
            let stack = script.stack();
            let frames = logged.as_array().unwrap();
            assert_eq!(stack.len(), frames.len() + 1, "{version} at {moment}: {stack:?}");
            assert_eq!(stack[0].0, "log", "{version} at {moment}");
            for (index, frame) in (1..).zip(frames) {
                let (name, line) = &stack[index];
                assert_eq!(
                    (name.as_str(), *line),
                    (frame[0].as_str().unwrap(), frame[1].as_u64().map(|line| line as u32)),
                    "{version} at {moment}"
                );
                let logged = frame[2].as_object().unwrap();
                if logged.is_empty() {
                    continue;
                }
                let seen = script.locals(index as u32);
                for (name, value) in logged {
                    let value = value.as_str().unwrap();
                    let shown = seen
                        .get(name)
                        .unwrap_or_else(|| panic!("{version} at {moment}: no {name} in {seen:?}"));
                    if !value.starts_with("<function") && !value.starts_with("<_io") {
                        assert_eq!(shown, value, "{version} at {moment}: {name}");
                    }
                }
                assert_eq!(seen.len(), logged.len(), "{version} at {moment}: {seen:?}");
            }
        }
    }
}

#[test]
fn the_interpreters_own_frames_are_shown_where_they_are_asked_for() {
    let mut script = Script::record(&hindcast_fixtures::pythons::machines_own(), "logged", &["1"]);
    let moment = script.printing().into_iter().next().unwrap();
    script.go_to(&moment);
    let native = script.backend.stack_in(View::Native, script.stop.thread, 100).unwrap();
    assert!(native.frames.iter().all(|frame| frame.location.address.is_some()));
    let python = script.backend.stack_in(View::Python, script.stop.thread, 100).unwrap();
    assert_eq!(python.frames[0].location.function.as_deref(), Some("log"));
}

/// The lines of a script in the order in which they were begun, with their functions, as Python itself traces them.
fn lines_begun(python: &Path, source: &Path) -> Vec<(String, Option<u32>)> {
    let tracer = hindcast_fixtures::source_of("python/lines_of.py");
    let output = Command::new(python).arg(tracer).arg(source).output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    let told = printed.lines().filter_map(|line| serde_json::from_str::<(String, u32)>(line).ok());
    told.map(|(function, line)| (function, Some(line))).collect()
}

impl Script {
    /// Makes a step, and tells where it came to; nothing at the beginning or the end of the program.
    fn step(&mut self, granularity: Granularity, is_back: bool) -> Option<(String, Option<u32>)> {
        let (thread, count) = (self.stop.thread, 1);
        self.movement(match is_back {
            true => Movement::StepBack { thread, granularity, count },
            false => Movement::Step { thread, granularity, count },
        });
        (self.stop.reason == StopReason::Step).then(|| self.stack().swap_remove(0))
    }

    /// Goes to where the last line begins that has a mark.
    fn go_to_end(&mut self) {
        let printed = self.printing().pop().expect("it prints at its end");
        self.go_to(&printed);
        let begun = self.step(Granularity::Over, true);
        assert_eq!(begun, Some(("main".into(), Some(self.line("end")))));
    }
}

#[test]
fn steps_into_calls_visit_each_line_as_python_traces_it_in_both_directions() {
    for python in pythons() {
        let version = version_of(&python);
        let mut script = Script::record(&python, "walked", &[]);
        let mut traced = lines_begun(&python, &script.source);
        let first = traced.iter().position(|(function, _)| function == "main").expect("it runs");
        let traced = traced.split_off(first);
        script.go_to_end();
        let mut back = vec![("main".to_owned(), Some(script.line("end")))];
        while back.len() < traced.len() {
            back.push(
                script
                    .step(Granularity::Line, true)
                    .unwrap_or_else(|| panic!("{version}: {:?}", script.stop)),
            );
        }
        back.reverse();
        assert_eq!(back, traced, "{version}, backwards");
        let mut there = vec![traced[0].clone()];
        while there.len() < traced.len() {
            there.push(
                script
                    .step(Granularity::Line, false)
                    .unwrap_or_else(|| panic!("{version}: {:?}", script.stop)),
            );
        }
        assert_eq!(there, traced, "{version}, forwards");
    }
}

#[test]
fn steps_over_calls_stay_in_their_function_and_steps_out_leave_it() {
    for python in pythons() {
        let version = version_of(&python);
        let mut script = Script::record(&python, "walked", &[]);
        let traced = lines_begun(&python, &script.source);
        let of_work: Vec<_> = traced.into_iter().filter(|(function, _)| function == "work").collect();
        script.go_to_end();
        let mut back = Vec::new();
        assert_eq!(script.step(Granularity::Line, true).as_ref(), of_work.last(), "{version}");
        back.push(of_work.last().cloned().unwrap());
        while let Some(place) =
            script.step(Granularity::Over, true).filter(|(function, _)| function == "work")
        {
            back.push(place);
        }
        back.reverse();
        assert_eq!(back, of_work, "{version}, backwards");
        assert_eq!(script.stack()[0].0, "main", "{version}");
        assert_eq!(script.step(Granularity::Line, false), of_work.first().cloned(), "{version}");
        let mut there = vec![of_work[0].clone()];
        while let Some(place) =
            script.step(Granularity::Over, false).filter(|(function, _)| function == "work")
        {
            there.push(place);
        }
        assert_eq!(there, of_work, "{version}, forwards");
        assert_eq!(script.stack()[0], ("main".into(), Some(script.line("end"))), "{version}");
        let of_work = script.step(Granularity::Line, true).expect("it was called");
        assert_eq!(of_work.0, "work");
        assert_eq!(
            script.step(Granularity::Out, true),
            Some(("main".into(), Some(script.line("end") - 1))),
            "{version}"
        );
        assert_eq!(
            script.step(Granularity::Line, false).map(|place| place.0),
            Some("work".into()),
            "{version}"
        );
        assert_eq!(
            script.step(Granularity::Out, false),
            Some(("main".into(), Some(script.line("end") - 1))),
            "{version}"
        );
    }
}

impl Script {
    /// Sets a breakpoint on a line of the script.
    fn break_at(&mut self, line: u32, condition: Option<&str>) -> BreakpointId {
        let place = Place::Line { file: "walked.py".into(), line };
        let code = CodeBreakpoint { condition: condition.map(str::to_owned), ..CodeBreakpoint::at(place) };
        let breakpoint = self.backend.add_breakpoint(Trigger::Code(code)).expect("it is set");
        assert!(matches!(breakpoint.binding, Binding::Bound { .. }), "{:?}", breakpoint.binding);
        breakpoint.id
    }

    /// Where a movement stops for breakpoints, until it stops for something else.
    fn stops_of(&mut self, movement: &Movement) -> Vec<(String, Option<u32>)> {
        let mut stops = Vec::new();
        loop {
            self.movement(movement.clone());
            if self.stop.reason != StopReason::Breakpoint {
                return stops;
            }
            stops.push(self.stack().swap_remove(0));
        }
    }
}

#[test]
fn breakpoints_on_lines_stop_at_each_visit_in_both_directions() {
    for python in pythons() {
        let version = version_of(&python);
        let mut script = Script::record(&python, "walked", &[]);
        let traced = lines_begun(&python, &script.source);
        // Loops, `yield`, `finally`, `with`, a property, what a comprehension, a sort and a recursion call.
        let lines = [20, 47, 82, 63, 53, 80, 94, 34, 7, 16, 19, 25, 46, 48, 49, 54, 61, 64, 68, 70, 81, 87];
        for &line in lines.iter().take(hindcast_fixtures::oracle_size(6, lines.len())) {
            script.go_to_end();
            let mut expected: Vec<_> =
                traced.iter().filter(|(_, begun)| *begun == Some(line)).cloned().collect();
            let id = script.break_at(line, None);
            let there = script.stops_of(&Movement::ReverseContinue);
            expected.reverse();
            assert_eq!(there, expected, "{version}, line {line}, backwards");
            let back = script.stops_of(&Movement::Continue);
            expected.reverse();
            assert_eq!(back, expected, "{version}, line {line}, forwards");
            script.backend.remove_breakpoint(id).expect("it is there");
        }
        script.go_to_end();
        let id = script.break_at(script.line("level"), Some("level == 2 and 'level' in 'levels'"));
        assert_eq!(script.stops_of(&Movement::ReverseContinue).len(), 1, "{version}");
        script.movement(Movement::Goto(Destination::Present));
        script.backend.remove_breakpoint(id).expect("it is there");
        script.break_at(script.line("level"), Some("nothing.like.that"));
        script.movement(Movement::ReverseContinue);
        assert_eq!(script.stop.reason, StopReason::Breakpoint, "{version}: a mistake stops");
        let told = script.stop.detail.clone().unwrap_or_default();
        assert!(told.contains("fails: there is no `nothing` in this frame"), "{version}: {told}");
    }
}
