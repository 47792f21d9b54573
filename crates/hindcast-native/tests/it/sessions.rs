//! Threads, libraries, attaching, core files.

use std::{
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use hindcast_core::debug::{
    AttachRequest, Binding, CodeBreakpoint, CoreRequest, DebugBackend, DebugEngine as _, DebugError,
    Destination, Ending, Evaluation, FrameRef, Granularity, Language, Movement, NumberFormat, Outcome,
    OutputLog, Place, Stop, StopReason, ThreadId, ThreadState, Trigger, ValueLimits,
};
use hindcast_fixtures::Fixture;
use hindcast_native::NativeEngine;

use crate::debuggee::Debuggee;

#[test]
fn sixty_four_threads_are_listed_each_where_it_is() {
    let mut debuggee = Debuggee::launch(&Fixture::c("threads").flags(["-pthread"]), &["64", "3"]);
    let place = Place::Function("count".into());
    debuggee.add(CodeBreakpoint { hit_count: 100, ..CodeBreakpoint::at(place) });
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
    let threads = debuggee.backend().threads().unwrap();
    assert_eq!(threads.len(), 65);
    assert!(threads.iter().all(|thread| thread.state == ThreadState::Suspended && thread.location.is_some()));
    let working = threads.iter().filter(|thread| {
        let location = thread.location.as_ref().unwrap();
        location.function.as_deref().is_some_and(|name| name == "work" || name == "count")
    });
    assert!(working.count() >= 60, "{threads:?}");
    let other = threads.iter().find(|thread| thread.id != debuggee.stop.thread).unwrap().id;
    assert!(debuggee.backend().stack(other, 20).unwrap().frames.len() > 1);
    let hits = debuggee.backend().breakpoints().unwrap()[0].hit_count;
    assert_eq!(hits, 100);
    let id = debuggee.backend().breakpoints().unwrap()[0].id;
    debuggee.backend().remove_breakpoint(id).unwrap();
    debuggee.expect_exit(0);
    assert_eq!(debuggee.printed(), "total 192\n");
}

#[test]
fn a_breakpoint_in_a_library_binds_when_it_is_loaded() {
    let plugin = Fixture::c("plugin").library().build();
    let mut debuggee =
        Debuggee::launch(&Fixture::c("loader").flags(["-ldl"]), &[plugin.path.to_str().unwrap()]);
    let breakpoint = debuggee.add(CodeBreakpoint::at(Place::Function("plugin_answer".into())));
    assert!(matches!(breakpoint.binding, Binding::Pending { .. }), "{breakpoint:?}");
    assert_eq!(debuggee.go().breakpoints, [breakpoint.id]);
    assert_eq!(debuggee.line(), Some(plugin.line("answer")));
    assert_eq!(debuggee.value_of("question"), "7");
    assert!(debuggee.backend().modules().unwrap().iter().any(|module| module.name == "libplugin.so"));
    debuggee.run_to("print");
    assert_eq!(debuggee.value_of("per_thread"), "47");
    debuggee.expect_exit(0);
    let bound = debuggee.backend().breakpoints().unwrap().remove(0);
    assert_eq!(bound.hit_count, 1);
}

/// A process that spins, and ends with this value.
struct Hanging(Child);

impl Hanging {
    fn start() -> Self {
        Self::start_as(&Fixture::c("misbehave").build().path)
    }

    fn start_as(program: &Path) -> Self {
        let child = Command::new(program).arg("hang").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut hanging = Self(child);
        let mut begun = [0; 1];
        hanging.0.stdout.as_mut().expect("it is a pipe").read_exact(&mut begun).expect("it begins");
        hanging
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_is_attached_to_and_let_go() {
    let mut child = Hanging::start();
    let output = Arc::new(OutputLog::new(1000));
    let request = AttachRequest {
        pid: child.0.id(),
        port: None,
        record: false,
        language: Language::Auto,
        just_my_code: true,
        output,
    };
    let mut backend = NativeEngine.attach(&request).unwrap();
    let Outcome::Stopped(stop) = backend.run(Movement::Begin).unwrap() else { panic!("nobody interrupted") };
    assert_eq!(stop.thread, ThreadId(child.0.id()));
    let stack = backend.stack(stop.thread, 10).unwrap();
    assert!(stack.frames.iter().any(|frame| frame.location.function.as_deref() == Some("main")), "{stack:?}");
    backend.end(Ending::Detach).unwrap();
    drop(backend);
    assert!(child.0.try_wait().unwrap().is_none(), "it goes on");
    drop(child);
    let gone = NativeEngine.attach(&request).err();
    assert_eq!(gone, Some(DebugError::ProcessNotFound(request.pid)));
}

#[test]
fn a_program_that_was_built_anew_since_it_started_is_shown_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("misbehave");
    let built = Fixture::c("misbehave").build();
    std::fs::copy(&built.path, &program).unwrap();
    let child = Hanging::start_as(&program);
    let anew = folder.path().join("anew");
    std::fs::copy(Fixture::c("calls").build().path, &anew).unwrap();
    for is_there in [true, false] {
        if is_there {
            std::fs::rename(&anew, &program).unwrap();
        } else {
            std::fs::remove_file(&program).unwrap();
        }
        let output = Arc::new(OutputLog::new(1000));
        let request = AttachRequest {
            pid: child.0.id(),
            port: None,
            record: false,
            language: Language::Auto,
            just_my_code: true,
            output,
        };
        let mut backend = NativeEngine.attach(&request).unwrap();
        let Outcome::Stopped(stop) = backend.run(Movement::Begin).unwrap() else {
            panic!("nobody interrupted")
        };
        let stack = backend.stack(stop.thread, 10).unwrap();
        let is_main =
            |frame: &&hindcast_core::debug::Frame| frame.location.function.as_deref() == Some("main");
        let main = stack.frames.iter().find(is_main).unwrap();
        assert_eq!(main.location.file.as_deref(), Some(&*built.source_text()));
        backend.end(Ending::Detach).unwrap();
    }
}

#[test]
fn what_started_this_debugger_is_not_attached_to() {
    for pid in [std::process::id(), std::os::unix::process::parent_id()] {
        let request = AttachRequest {
            pid,
            port: None,
            record: false,
            language: Language::Auto,
            just_my_code: true,
            output: Arc::new(OutputLog::new(1000)),
        };
        let refused = NativeEngine.attach(&request).err();
        assert!(matches!(refused, Some(DebugError::PermissionDenied(_))), "{refused:?}");
    }
}

#[test]
fn a_core_file_tells_what_the_process_would_have_told() {
    let built = Fixture::c("misbehave").build();
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    crate::gdb::script(
        &built.path,
        &[],
        &format!(
            "gdb.execute('run null 7', to_string=True)\ngdb.execute('generate-core-file {}', to_string=True)\nprint('@ done')\n",
            core.display()
        ),
    );
    let request = CoreRequest { core, program: None };
    let mut backend = NativeEngine.open_core(&request).unwrap();
    let Outcome::Stopped(stop) = backend.run(Movement::Begin).unwrap() else { panic!("nobody interrupted") };
    assert_eq!(stop.signal.as_ref().unwrap().name, "SIGSEGV");
    let stack = backend.stack(stop.thread, 10).unwrap();
    let lines: Vec<_> = stack.frames.iter().filter_map(|frame| frame.location.line).take(2).collect();
    assert_eq!(lines, [built.line("null_read"), built.line("call_null")]);
    let query = hindcast_core::debug::VariableQuery {
        frame: hindcast_core::debug::FrameRef::of(stop.thread, 1),
        scope: hindcast_core::debug::VariableScope::Local,
        filter: Some("number".into()),
        offset: 0,
        limit: 10,
        limits: hindcast_core::debug::ValueLimits::default(),
        allow_calls: None,
    };
    assert_eq!(backend.variables(&query).unwrap().variables[0].value, "7");
    assert!(matches!(backend.run(Movement::Continue), Err(DebugError::Unsupported(_))));
    let other = Fixture::c("calls").build().path;
    let mut backend = NativeEngine.open_core(&CoreRequest { program: Some(other), ..request }).unwrap();
    let Outcome::Stopped(stop) = backend.run(Movement::Begin).unwrap() else { panic!("nobody interrupted") };
    assert!(stop.detail.unwrap().contains("what runs is another build"), "a core of another program");
    assert!(backend.stack(stop.thread, 10).unwrap().frames.iter().all(|frame| frame.location.line.is_none()));
    let nothing = CoreRequest { core: built.path.clone(), program: None };
    assert!(matches!(NativeEngine.open_core(&nothing), Err(DebugError::BadFile(_))));
}

#[test]
fn a_process_that_is_attached_to_can_be_recorded_from_then_on_and_is_let_go_as_it_was() {
    let built = Fixture::c("clock").build();
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let child = Command::new(&built.path).arg(&end).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut child = Hanging(child);
    let mut output = child.0.stdout.take().expect("it is a pipe");
    output.read_exact(&mut [0; 6]).expect("it begins");
    let request = AttachRequest {
        pid: child.0.id(),
        port: None,
        record: true,
        language: Language::Auto,
        just_my_code: true,
        output: Arc::new(OutputLog::new(1000)),
    };
    for _ in 0..3 {
        let mut backend = NativeEngine.attach(&request).unwrap();
        let Outcome::Stopped(_) = backend.run(Movement::Begin).unwrap() else { panic!("nobody interrupted") };
        let place = Place::Line { file: built.source_text(), line: built.line("counted") };
        backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
        let mut seen = Vec::new();
        let run = |backend: &mut dyn DebugBackend, movement| match backend.run(movement).unwrap() {
            Outcome::Stopped(stop) => stop,
            Outcome::Interrupted => panic!("nobody interrupted"),
        };
        let look = |backend: &mut dyn DebugBackend, stop: &Stop| {
            let frame = FrameRef::of(stop.thread, 0);
            ["ticks", "last", "cpu"].map(|name| {
                let evaluation = Evaluation {
                    expression: name.into(),
                    frame,
                    limits: ValueLimits::default(),
                    format: NumberFormat::Auto,
                    may_write: false,
                    allow_calls: None,
                };
                backend.evaluate(&evaluation).unwrap().value
            })
        };
        for _ in 0..20 {
            let stop = run(&mut *backend, Movement::Continue);
            assert_eq!(stop.reason, StopReason::Breakpoint);
            seen.push(look(&mut *backend, &stop));
        }
        seen.pop();
        for wanted in seen.iter().rev() {
            let stop = run(&mut *backend, Movement::ReverseContinue);
            assert_eq!(stop.reason, StopReason::Breakpoint);
            assert_eq!(look(&mut *backend, &stop), *wanted);
        }
        let stop = run(&mut *backend, Movement::ReverseContinue);
        assert_eq!(stop.reason, StopReason::HistoryStart, "{:?} {:?}", look(&mut *backend, &stop), seen);
        let stop = run(&mut *backend, Movement::Goto(Destination::Present));
        // Away from the breakpoint, which is to be new to who attaches next.
        run(&mut *backend, Movement::Step { thread: stop.thread, granularity: Granularity::Line, count: 1 });
        backend.end(Ending::Detach).unwrap();
        drop(backend);
        let children = format!("/proc/{0}/task/{0}/children", request.pid);
        assert_eq!(std::fs::read_to_string(children).unwrap(), "", "no copy is left to it");
    }
    std::fs::write(end, "").unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "it goes on to its end");
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "over\n");
}

#[test]
fn a_timer_neither_keeps_a_breakpoint_from_being_passed_nor_is_told() {
    let fixture = Fixture::c("timer");
    for mut debuggee in [Debuggee::launch(&fixture, &[]), Debuggee::record(&fixture, &[])] {
        debuggee.break_at("set");
        for expected in ["11", "22", "33", "44", "55"] {
            assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
            assert!(debuggee.value_of("wanted").starts_with(expected));
            // The timer has rung when it goes on.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        debuggee.expect_exit(0);
        assert_eq!(debuggee.printed(), "55\n");
    }
}

#[test]
fn a_program_that_stops_itself_goes_on_when_it_is_told_to() {
    let fixture = Fixture::c("misbehave");
    for mut debuggee in [Debuggee::launch(&fixture, &["stop"]), Debuggee::record(&fixture, &["stop"])] {
        let stop = debuggee.go().clone();
        assert_eq!((stop.reason, stop.signal.unwrap().name.as_str()), (StopReason::Signal, "SIGSTOP"));
        debuggee.expect_exit(3);
    }
}
