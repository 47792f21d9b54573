//! A process that was attached to behaves as if nobody had been there.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use hindcast_core::debug::{
    Access, AttachRequest, Claim, CodeBreakpoint, DebugBackend, DebugEngine as _, DebugError, Ending,
    FrameRef, Granularity, Language, Movement, Outcome, OutputLog, Place, Stop, StopReason, ThreadId,
    Trigger, Watched, Watchpoint,
};
use hindcast_fixtures::{Built, Fixture, oracle_size};
use hindcast_native::NativeEngine;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The ways in which the fixture can wait.
const THREADS: &str = "9";

struct Subject {
    child: Child,
    output: BufReader<ChildStdout>,
    built: Built,
}

/// What a debugger must leave as it was.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    mappings: Vec<String>,
    code: BTreeMap<String, Vec<u8>>,
    descriptors: Vec<String>,
    children: String,
    group: String,
}

/// What the program has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    handled: u64,
    continued: u64,
    interrupted: u64,
    ticks: u64,
    blocked: u64,
}

impl Subject {
    fn start(arguments: &[&str]) -> Self {
        let built = Fixture::c("attached").flags(["-pthread"]).build();
        let mut command = Command::new(&built.path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it begins");
        assert_eq!(line, "up\n");
        Self { child, output, built }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("it is there"))
    }

    fn send(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is there");
    }

    /// What it answers; a program that stands still or is dead does not.
    fn ask(&mut self) -> Counts {
        self.child.stdin.as_mut().expect("it is there").write_all(b"?\n").expect("it listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it is there");
        let state = self.state();
        assert!(
            line.starts_with("handled"),
            "no answer ({line:?}): it is {state}, {:?}",
            self.child.try_wait()
        );
        let after = |name: &str| {
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).expect("it is there").parse().expect("it is there")
        };
        let counts = Counts {
            handled: after("handled"),
            continued: after("continued"),
            interrupted: after("interrupted"),
            ticks: after("ticks"),
            blocked: after("blocked"),
        };
        assert_eq!(counts.interrupted, 0, "{line}");
        counts
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap_or("gone").trim().to_owned()
    }

    fn state(&self) -> String {
        self.status("State:")
    }

    /// Waits until it is in a state.
    fn await_state(&self, letters: &str) {
        eventually(&format!("it is {letters}"), || self.state().starts_with(|state| letters.contains(state)));
    }

    fn traces(&self) -> Traces {
        let pid = self.pid();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it is there");
        let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("it is there");
        let mut code = BTreeMap::new();
        for line in maps.lines().filter(|line| line.contains(" r-xp ") && !line.contains("[vsyscall]")) {
            let (start, end) =
                line.split(' ').next().expect("it is there").split_once('-').expect("it is there");
            let number = |text| u64::from_str_radix(text, 16).expect("it is there");
            let mut bytes = vec![0; (number(end) - number(start)) as usize];
            memory.read_exact_at(&mut bytes, number(start)).expect("it is there");
            code.insert(line.to_owned(), bytes);
        }
        let mut descriptors: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("it is there")
            .map(|entry| format!("{:?}", fs::read_link(entry.expect("it is there").path())))
            .collect();
        descriptors.sort();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        let group = stat
            .rsplit_once(')')
            .expect("it is there")
            .1
            .split(' ')
            .skip(2)
            .take(5)
            .collect::<Vec<_>>()
            .join(" ");
        Traces {
            mappings: maps.lines().map(str::to_owned).collect(),
            code,
            descriptors,
            children: fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it is there"),
            group,
        }
    }

    fn attach(&self, record: bool) -> Box<dyn DebugBackend> {
        let output = Arc::new(OutputLog::new(1000));
        let mut backend = NativeEngine
            .attach(&AttachRequest {
                pid: self.child.id(),
                port: None,
                record,
                language: Language::Auto,
                just_my_code: true,
                output,
            })
            .expect("it is there");
        let stop = moved(&mut *backend, Movement::Begin);
        assert_eq!(stop.reason, StopReason::Pause);
        backend
    }

    fn break_at(&self, backend: &mut dyn DebugBackend, mark: &str) {
        let place = Place::Line { file: self.built.source_text(), line: self.built.line(mark) };
        backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).expect("there is code");
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::yield_now();
    }
}

fn moved(backend: &mut dyn DebugBackend, movement: Movement) -> Stop {
    match backend.run(movement).expect("it moves") {
        Outcome::Stopped(stop) => stop,
        Outcome::Interrupted => panic!("nobody interrupted"),
    }
}

fn watch_ticks(backend: &mut dyn DebugBackend, pid: u32) {
    let frame = FrameRef::of(ThreadId(pid), 0);
    let watched = Watched::Expression { text: "ticks".into(), frame };
    let watchpoint = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    backend.add_breakpoint(Trigger::Watch(watchpoint)).expect("it can be watched");
}

/// What is done to a process between attaching and detaching.
#[derive(Debug, Clone, Copy)]
enum Visit {
    Nothing,
    Breakpoint,
    Steps,
    Interrupted,
    Watch,
    Signals,
    Stopped,
    StoppedAndContinued,
}

const VISITS: [Visit; 8] = [
    Visit::Nothing,
    Visit::Breakpoint,
    Visit::Steps,
    Visit::Interrupted,
    Visit::Watch,
    Visit::Signals,
    Visit::Stopped,
    Visit::StoppedAndContinued,
];

/// Attaches, does something, lets go, and looks whether everything is as it was.
fn visit(subject: &mut Subject, before: &Traces, visit: Visit, record: bool) {
    let known = subject.ask();
    let (mut signals, mut continues) = (0, 0);
    if matches!(visit, Visit::Stopped | Visit::StoppedAndContinued) {
        subject.send(Signal::SIGSTOP);
        subject.await_state("T");
    }
    let mut backend = subject.attach(record);
    match visit {
        Visit::Nothing | Visit::Stopped => {}
        Visit::Breakpoint => {
            subject.break_at(&mut *backend, "tick");
            for _ in 0..3 {
                assert_eq!(moved(&mut *backend, Movement::Continue).reason, StopReason::Breakpoint);
            }
        }
        Visit::Steps => {
            subject.break_at(&mut *backend, "tick");
            let stop = moved(&mut *backend, Movement::Continue);
            for granularity in [Granularity::Line, Granularity::Instruction, Granularity::Over] {
                moved(&mut *backend, Movement::Step { thread: stop.thread, granularity, count: 2 });
            }
        }
        Visit::Interrupted => {
            let interrupt = backend.interrupt();
            std::thread::scope(|scope| {
                scope.spawn(|| interrupt.interrupt());
                assert!(matches!(
                    backend.run(Movement::Continue).expect("it is there"),
                    Outcome::Interrupted
                ));
            });
            backend.pause().expect("it is there");
            // Too late: it must not stop the process after we are gone.
            interrupt.interrupt();
        }
        Visit::Watch => {
            watch_ticks(&mut *backend, subject.child.id());
            assert_eq!(moved(&mut *backend, Movement::Continue).reason, StopReason::Watchpoint);
        }
        Visit::Signals => {
            subject.break_at(&mut *backend, "tick");
            subject.send(Signal::SIGUSR1);
            // Blocked: it stays pending.
            subject.send(Signal::SIGALRM);
            moved(&mut *backend, Movement::Continue);
            signals = 1;
        }
        Visit::StoppedAndContinued => {
            subject.send(Signal::SIGCONT);
            continues = 1;
        }
    }
    let late = backend.interrupt();
    backend.end(Ending::Detach).expect("it is let go");
    late.interrupt();
    drop(backend);
    late.interrupt();
    assert_eq!(subject.status("TracerPid:"), "0");
    if matches!(visit, Visit::Stopped) {
        subject.await_state("T");
        subject.send(Signal::SIGCONT);
        continues = 1;
    }
    let counts = subject.ask();
    assert_eq!(counts.handled, known.handled + signals, "{visit:?}");
    assert_eq!(counts.continued, known.continued + continues, "{visit:?}");
    assert!(counts.ticks >= known.ticks, "{visit:?}");
    assert_eq!(counts.blocked, u64::from(signals == 1 || known.blocked == 1), "{visit:?}");
    let after = subject.traces();
    assert!(after == *before, "{visit:?} leaves a trace:\n{}", difference(before, &after));
}

fn difference(before: &Traces, after: &Traces) -> String {
    let changed = after.code.iter().filter(|(name, bytes)| before.code.get(*name) != Some(*bytes));
    let changed: Vec<_> = changed.map(|(name, _)| name).collect();
    let new: Vec<_> = after.mappings.iter().filter(|line| !before.mappings.contains(line)).collect();
    format!(
        "code {changed:?}\nmappings {new:?}\ndescriptors {:?} {:?}\nchildren {:?}\ngroup {:?} {:?}",
        before.descriptors, after.descriptors, after.children, before.group, after.group
    )
}

fn visits(arguments: &[&str], record: bool, rounds: usize) {
    let mut subject = Subject::start(arguments);
    subject.ask();
    let before = subject.traces();
    for round in 0..rounds {
        visit(&mut subject, &before, VISITS[round % VISITS.len()], record);
    }
}

#[test]
fn a_program_that_was_attached_to_goes_on_as_if_nobody_had_been_there() {
    visits(&[], false, oracle_size(8, 500));
}

#[test]
fn a_program_with_threads_that_wait_in_many_ways_goes_on_as_if_nobody_had_been_there() {
    visits(&[THREADS], false, oracle_size(8, 500));
}

#[test]
fn a_program_that_was_attached_to_and_recorded_goes_on_as_if_nobody_had_been_there() {
    visits(&[], true, oracle_size(8, 500));
}

/// In a process of its own, which is killed meanwhile.
#[test]
fn a_debugger_to_be_killed() {
    let Ok(told) = std::env::var("HINDCAST_HOLDS") else { return };
    let (pid, what) = told.split_once(' ').unwrap();
    let record = what == "records";
    let output = Arc::new(OutputLog::new(1000));
    let request = AttachRequest {
        pid: pid.parse().unwrap(),
        port: None,
        record,
        language: Language::Auto,
        just_my_code: true,
        output,
    };
    let mut backend = NativeEngine.attach(&request).unwrap();
    moved(&mut *backend, Movement::Begin);
    let built = Fixture::c("attached").flags(["-pthread"]).build();
    let place = |mark| Place::Line { file: built.source_text(), line: built.line(mark) };
    let ready = || println!("\nready");
    let mut add = |mark| backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place(mark)))).unwrap();
    // This one is not reached by itself.
    add("handled");
    if what != "runs" {
        add("tick");
        let stop = moved(&mut *backend, Movement::Continue);
        match what {
            "stepped" => {
                let granularity = Granularity::Instruction;
                moved(&mut *backend, Movement::Step { thread: stop.thread, granularity, count: 3 });
            }
            "watches" => watch_ticks(&mut *backend, request.pid),
            _ => {}
        }
        ready();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
    ready();
    let _ = backend.run(Movement::Continue);
}

/// Starts a debugger, kills it, and looks whether the program goes on without anything of it.
fn killed(subject: &mut Subject, before: &Traces, what: &str) {
    let known = subject.ask();
    let mut debugger = Command::new(std::env::current_exe().expect("it is there"))
        .args(["--exact", "attaching::a_debugger_to_be_killed", "--nocapture"])
        .env("HINDCAST_HOLDS", format!("{} {what}", subject.pid()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is there");
    let mut lines = BufReader::new(debugger.stdout.take().expect("it is there")).lines();
    assert!(lines.any(|line| line.expect("it is there") == "ready"), "{what}: the debugger is not ready");
    debugger.kill().expect("it is there");
    debugger.wait().expect("it is there");
    eventually("nothing of the debugger is left in the code", || {
        subject.traces().code == before.code || what == "records"
    });
    eventually("nobody traces it", || subject.status("TracerPid:") == "0");
    // Over the places where the breakpoints were.
    subject.send(Signal::SIGUSR1);
    eventually("the signal is handled", || subject.ask().handled == known.handled + 1);
    let ticks = subject.ask().ticks;
    eventually("it ticks", || subject.ask().ticks > ticks);
}

#[test]
fn a_program_survives_a_debugger_that_is_killed_without_any_of_its_breakpoints() {
    for arguments in [[].as_slice(), &[THREADS]] {
        let mut subject = Subject::start(arguments);
        subject.ask();
        let before = subject.traces();
        for round in 0..oracle_size(4, 100) {
            killed(&mut subject, &before, ["stands", "stepped", "watches", "runs"][round % 4]);
        }
    }
    let mut subject = Subject::start(&[]);
    let before = subject.traces();
    killed(&mut subject, &before, "records");
}

#[test]
fn a_program_whose_first_thread_has_ended_is_attached_to_looked_at_and_let_go() {
    let subject = Subject::start(&[THREADS, "headless"]);
    subject.await_state("Z");
    for _ in 0..oracle_size(5, 50) {
        let mut backend = subject.attach(false);
        let threads = backend.threads().unwrap();
        assert_eq!(threads.len(), 9, "{threads:?}");
        for thread in threads {
            let stack = backend.stack(thread.id, 20).unwrap();
            let names: Vec<_> =
                stack.frames.iter().filter_map(|frame| frame.location.function.clone()).collect();
            assert!(names.iter().any(|name| name == "wait_long"), "{names:?}");
        }
        subject.break_at(&mut *backend, "beat");
        assert_eq!(moved(&mut *backend, Movement::Continue).reason, StopReason::Breakpoint);
        backend.end(Ending::Detach).unwrap();
    }
    assert!(subject.state().starts_with('Z') && fs::metadata(format!("/proc/{}", subject.pid())).is_ok());
}

#[test]
fn a_first_thread_that_ends_meanwhile_is_not_waited_for() {
    let built = Fixture::c("attached").flags(["-pthread"]).build();
    let mut debuggee = crate::debuggee::Debuggee::launch(
        &Fixture::c("attached").flags(["-pthread"]),
        &[THREADS, "headless"],
    );
    let pid = debuggee.backend().target().pid.unwrap();
    debuggee.add(CodeBreakpoint {
        hit_count: 30,
        ..CodeBreakpoint::at(Place::Line { file: built.source_text(), line: built.line("beat") })
    });
    eventually("the first thread has ended", || {
        debuggee.go();
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
        stat.contains(") Z ")
    });
    assert!(debuggee.backend().threads().unwrap().iter().all(|thread| thread.id.0 != pid));
}

#[test]
fn a_program_that_is_killed_at_any_moment_ends_the_session() {
    for round in 0..oracle_size(6, 200) {
        let subject = Subject::start(&[THREADS]);
        let mut backend = subject.attach(false);
        subject.break_at(&mut *backend, "beat");
        let (pid, delay) = (subject.pid(), Duration::from_micros(700 * round as u64));
        let ended = std::thread::scope(|scope| {
            scope.spawn(move || {
                let begun = Instant::now();
                while begun.elapsed() < delay {
                    std::hint::spin_loop();
                }
                kill(pid, Signal::SIGKILL).unwrap();
            });
            loop {
                match backend.run(Movement::Continue) {
                    Ok(Outcome::Stopped(stop)) if stop.reason == StopReason::Exit => break stop.signal,
                    Ok(_) => {}
                    Err(DebugError::Ended) => break None,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert!(ended.is_none_or(|signal| signal.name == "SIGKILL"));
        backend.end(Ending::Detach).unwrap();
    }
}

/// Runs a recorded program whose threads trap all the time to its end.
fn trapped(threads: &str, movements: impl Fn(&mut crate::debuggee::Debuggee)) {
    let fixture = Fixture::c("trapping_threads").flags(["-pthread", "-ldl"]);
    let mut debuggee = crate::debuggee::Debuggee::record(&fixture, &[threads, "100"]);
    movements(&mut debuggee);
    debuggee.expect_exit(0);
    assert_eq!(debuggee.printed(), "ok\n");
}

#[test]
fn no_thread_of_a_recorded_program_dies_of_what_is_answered_while_all_are_stopped() {
    for round in 0..oracle_size(5, 100) {
        trapped(["1", "3", "8"][round % 3], |_| {});
    }
}

#[test]
fn threads_that_trap_are_stopped_and_stepped_among_breakpoints() {
    for round in 0..oracle_size(5, 50) {
        trapped("3", |debuggee| {
            let id = debuggee.break_at("pass").id;
            for hit in 0..20 {
                assert_eq!(debuggee.go().reason, StopReason::Breakpoint, "round {round}");
                if hit % 3 == 0 {
                    let granularity = if hit % 2 == 0 { Granularity::Instruction } else { Granularity::Line };
                    let reason = debuggee.step(granularity).reason;
                    assert!(matches!(reason, StopReason::Step | StopReason::Breakpoint), "{reason:?}");
                }
            }
            debuggee.backend().remove_breakpoint(id).unwrap();
        });
    }
}

/// A program that checks what it computes, with a timer that comes also while it stands at a breakpoint.
#[test]
fn a_recorded_program_is_not_disturbed_by_signals_at_breakpoints() {
    let built = Fixture::c("alarmed").build();
    let mut child = Command::new(&built.path).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it begins");
    assert_eq!(line, "ready\n");
    let mut subject = Subject { child, output, built };
    let mut backend = subject.attach(true);
    subject.break_at(&mut *backend, "handle");
    for round in 0..60 {
        let stop = moved(&mut *backend, Movement::Continue);
        assert_eq!(stop.reason, StopReason::Breakpoint, "round {round}: {stop:?}");
        if round % 3 == 0 {
            // Signals of the whole process that wait.
            eventually("the timer comes", || subject.status("ShdPnd:").contains(|digit| digit != '0'));
        }
    }
    backend.end(Ending::Detach).expect("it is let go");
    // How long it has computed, and waited for a processor.
    let computed = || fs::read_to_string(format!("/proc/{}/schedstat", subject.pid())).unwrap_or_default();
    let before = computed();
    eventually("it computes", || computed() != before);
    assert_eq!(subject.child.try_wait().expect("it can be asked"), None);
}

/// A child may be seen before the call that made it is told.
#[test]
fn a_program_that_makes_children_is_let_go_at_once() {
    let mut subject = Subject::start(&["0", "forks"]);
    for _ in 0..oracle_size(10, 500) {
        let begun = Instant::now();
        let mut backend = subject.attach(false);
        subject.break_at(&mut *backend, "forked");
        moved(&mut *backend, Movement::Continue);
        backend.end(Ending::Detach).expect("it is let go");
        assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
    }
    subject.ask();
}

#[test]
fn a_process_that_another_debugger_has_claimed_is_refused() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let attach = || {
        NativeEngine.attach(&AttachRequest {
            pid,
            port: None,
            record: false,
            language: Language::Auto,
            just_my_code: true,
            output: Arc::new(OutputLog::new(100)),
        })
    };
    let claim = Claim::on(pid).unwrap().unwrap();
    let refused = attach().err().unwrap();
    assert!(matches!(refused, DebugError::PermissionDenied(_)), "{refused}");
    assert!(refused.to_string().contains("another debugger is attached"), "{refused}");
    drop(claim);
    let mut backend = attach().unwrap();
    assert!(Claim::on(pid).unwrap().is_none(), "it has claimed it");
    backend.end(Ending::Detach).unwrap();
    assert!(Claim::on(pid).unwrap().is_some(), "it has let go");
    child.kill().unwrap();
    child.wait().unwrap();
}
