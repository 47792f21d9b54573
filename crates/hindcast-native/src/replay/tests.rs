//! Recording and replay on real programs: what is replayed is held against what was seen live.

mod debian;
mod long_log;
mod other_user;
mod page;
mod reel;
mod rust_programs;
mod shared_memory;
mod system_calls;
mod threads;

use std::{
    collections::HashMap,
    ffi::CString,
    fs::File,
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hindcast_core::debug::Interrupt as _;
use hindcast_fixtures::{Fixture, debian::Nature, oracle_size};
use hindcast_symbols::Symbols;

use super::{Bound, Context, Position, ReplayError, Replica, digest};
use crate::{
    image::Image,
    process::{CleanMemory, Ended, Halt, Overlay, Process},
    record::{Event, LEFT, Replay, SELF_CHECK, Wild},
    session::function_around,
    sys::{self, ProcessMemory, SpawnPlan, SpawnStreams},
};

/// Whether a program is to be stopped again.
enum Stops {
    More,
    NoMore,
}

/// A program that is recorded from its first instruction on.
pub(crate) struct Recorded {
    pub(crate) process: Process,
    /// Of what was loaded in the end; read when something is replayed first.
    symbols: Option<Symbols>,
    pub(crate) output: tempfile::NamedTempFile,
}

impl Recorded {
    /// One that was recorded before.
    pub(crate) fn before(process: Process) -> Self {
        Self { process, symbols: None, output: tempfile::NamedTempFile::new().unwrap() }
    }

    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let text = |text: &str| CString::new(text).unwrap();
        let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
        let output = tempfile::NamedTempFile::new().unwrap();
        let name = program.to_str().unwrap();
        let plan = SpawnPlan {
            program: text(name),
            arguments: std::iter::once(name).chain(arguments.iter().copied()).map(text).collect(),
            environment: ENVIRONMENT.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect(),
            folder: None,
            streams: SpawnStreams::Own {
                stdin: null(),
                stdout: OwnedFd::from(output.reopen().unwrap()),
                stderr: null(),
            },
        };
        let mut process = Process::launched(sys::spawn(&plan).unwrap()).unwrap();
        process.record().unwrap();
        Self { process, symbols: None, output }
    }

    pub(crate) fn fixture(optimisation: &str, arguments: &[&str]) -> Self {
        let program = Fixture::c("travel").flags([optimisation, "-no-pie"]).build().path;
        Self::start(&program, arguments)
    }

    pub(crate) fn run(&mut self) -> Halt {
        loop {
            match self.process.run().unwrap() {
                Halt::Signal(tid, details) => self.process.deliver(tid, details.signal),
                Halt::Exec(_) => {}
                halt => return halt,
            }
        }
    }

    /// Runs to its end, or to where `at_stop` does not want to go on. Stops now and then, as long as `at_stop` is there to
    /// see it.
    fn run_stopping(
        &mut self,
        every: Duration,
        mut at_stop: impl FnMut(&mut Self) -> ControlFlow<(), Stops>,
    ) -> Halt {
        let interrupt = self.process.interrupt();
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let clock = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(every);
                interrupt.interrupt();
            }
        });
        let halt = loop {
            match self.run() {
                halt @ Halt::Interrupted(_) if !over.load(Ordering::Relaxed) => match at_stop(self) {
                    ControlFlow::Break(()) => break halt,
                    ControlFlow::Continue(Stops::More) => {}
                    ControlFlow::Continue(Stops::NoMore) => over.store(true, Ordering::Relaxed),
                },
                Halt::Interrupted(_) => {}
                halt => break halt,
            }
        };
        over.store(true, Ordering::Relaxed);
        clock.join().unwrap();
        halt
    }

    /// Runs to its end and stops it now and then, so often at most; what it was like there, by the moment.
    pub(crate) fn run_with_stops(&mut self, every: Duration, most: usize) -> (Halt, HashMap<Position, u64>) {
        let mut seen = HashMap::new();
        let halt = self.run_stopping(every, |recorded| {
            if seen.len() >= most || !recorded.process.is_recording() {
                return ControlFlow::Continue(Stops::NoMore);
            }
            let live = recorded.process.digest();
            recorded.process.anchor().unwrap();
            let recorder = recorded.process.recorder_mut().unwrap();
            if let Some(position) = recorder.timeline.frontier().cloned() {
                recorder.timeline.get_mut(&position.anchor).unwrap().pinned = true;
                seen.insert(position, live);
            }
            ControlFlow::Continue(Stops::More)
        });
        (halt, seen)
    }

    /// Runs until something is true at a stop.
    fn run_until(&mut self, is_reached: impl Fn(&Self) -> bool) -> Halt {
        self.run_stopping(Duration::from_millis(1), |recorded| match is_reached(recorded) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(Stops::More),
        })
    }

    /// Runs to its end; at some stops the whole past is lived through again.
    fn run_with_visits(&mut self, every: Duration, most: usize) -> (Halt, usize) {
        let mut visits = 0;
        let halt = self.run_stopping(every, |recorded| {
            recorded.process.anchor().unwrap();
            recorded.replay_whole().unwrap();
            visits += 1;
            ControlFlow::Continue(if visits < most { Stops::More } else { Stops::NoMore })
        });
        (halt, visits)
    }

    pub(crate) fn with_context<T>(&mut self, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let asked = AtomicBool::new(false);
        let recorder = self.process.recorder_mut().unwrap();
        let symbols = self.symbols.get_or_insert_with(|| {
            let tid = recorder.timeline.iter().last().unwrap().1.frozen.tid();
            let memory = ProcessMemory::open(tid).unwrap();
            let mut symbols = Symbols::new();
            let overlay = Overlay::default();
            let memory = CleanMemory { memory: &memory, overlay: &overlay };
            Image::default().update(&sys::mappings(tid).unwrap(), &memory, &mut symbols);
            symbols
        });
        work(&mut Context {
            log: &recorder.log,
            timeline: &mut recorder.timeline,
            functions: &|address| function_around(symbols, address),
            asked: &asked,
            deaf_until: None,
        })
    }

    /// Replays every stretch from one anchor to the next, which must end in the same state.
    pub(crate) fn replay_whole(&mut self) -> Result<usize, ReplayError> {
        self.with_context(|context| {
            let labels: Vec<_> = context.timeline.iter().map(|(label, _)| label.clone()).collect();
            for label in &labels {
                let mut replica = context.replica_at(label)?;
                let bound = context.bound_after(label);
                context.run(&mut replica, &bound, &mut |_, _| Ok(false))?;
                if let Bound::Anchor(next) = bound {
                    let there = &context.timeline.get(&next).unwrap().frozen;
                    let state = digest(there.thread()?, &Overlay::default(), None, Some(there.cast()))?;
                    if state != state_of(&replica) {
                        return Err(ReplayError::Diverged(format!("{label:?} to {next:?}")));
                    }
                }
            }
            Ok(labels.len())
        })
    }
}

const ENVIRONMENT: [(&str, &str); 2] = [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")];

pub(crate) fn state_of(replica: &Replica) -> u64 {
    let frozen = &replica.frozen;
    digest(frozen.thread().unwrap(), &replica.overlay, None, Some(frozen.cast())).unwrap()
}

/// So many stops of a real program are visited again.
fn visits_wanted() -> usize {
    oracle_size(15, 100)
}

/// Runs a real program under the recorder, stopping it so often on its way: it prints the same and ends the same, and where
/// it was stopped it can be visited again, from its copies and by replay.
fn check_program(command: &[&str]) {
    check_run(command, &|| {}, Nature::Steady);
}

/// The same for a program that needs something done before each run.
fn check_run(command: &[&str], prepare: &dyn Fn(), nature: Nature) {
    prepare();
    SELF_CHECK.set(true);
    let mut recorded = Recorded::start(Path::new(command[0]), &command[1..]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(3), visits_wanted());
    let printed = std::fs::read(recorded.output.path()).unwrap();
    prepare();
    // Some programs write otherwise where they cannot go back in their output.
    let alone = tempfile::NamedTempFile::new().unwrap();
    let ended = std::process::Command::new(command[0])
        .args(&command[1..])
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(std::process::Stdio::null())
        .stdout(alone.reopen().unwrap())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(halt, Halt::Ended(Ended::Exited(ended.code().unwrap())), "{command:?}");
    if nature != Nature::Random {
        let alone = std::fs::read(alone.path()).unwrap();
        assert!(printed == alone, "{command:?} prints something else: {}", difference(&printed, &alone));
    }
    let reason = recorded.process.recorder().unwrap().why_ended().unwrap_or_default();
    match nature {
        Nature::Ends(word) => assert!(reason.contains(word), "{command:?}: {reason:?}"),
        _ => assert_eq!(reason, "", "{command:?}"),
    }
    assert!(!seen.is_empty(), "{command:?} was never stopped");
    let mut visits = 0;
    while visits < visits_wanted() {
        assert_eq!(wrong_visits(&mut recorded, &seen), 0, "{command:?}");
        visits += 2 * seen.len();
    }
    let anchors = recorded.replay_whole().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(anchors > 0, "{command:?}");
}

/// Where two outputs differ first.
fn difference(recorded: &[u8], alone: &[u8]) -> String {
    let same = recorded.iter().zip(alone).take_while(|(one, other)| one == other).count();
    let rest = |bytes: &[u8]| String::from_utf8_lossy(&bytes[same..bytes.len().min(same + 60)]).into_owned();
    format!("after {same} bytes {:?} instead of {:?}", rest(recorded), rest(alone))
}

#[test]
fn tools_behave_as_without_a_recorder_and_are_replayed_to_the_same_states() {
    check_program(&["/bin/ls", "-lR", "/usr/include/linux"]);
    check_program(&["/usr/bin/sha256sum", "/bin/bash"]);
    check_program(&["/usr/bin/sort", "--parallel=1", "/etc/services"]);
    check_program(&["/bin/grep", "-r", "define", "/usr/include/linux"]);
    check_program(&["/usr/bin/awk", "{ n += length($0) } END { print n }", "/etc/services"]);
    check_program(&["/usr/bin/env", "ls", "/"]);
    check_program(&["/bin/sh", "-c", "echo one; (echo two); ls / | wc -l; exit 3"]);
}

#[test]
fn where_a_copy_was_ended_from_outside_an_earlier_one_serves() {
    let mut recorded = Recorded::fixture("-O1", &["clocks", "20000"]);
    let (_, seen) = recorded.run_with_stops(Duration::from_millis(3), 12);
    let last = seen.keys().max().unwrap().clone();
    let end = recorded.process.recorder().unwrap().log.len();
    recorded.with_context(|context| {
        let first = context.timeline.first().unwrap().clone();
        let before = context.timeline.len();
        let copies: Vec<_> = context.timeline.iter().map(|(_, anchor)| anchor.frozen.tid()).collect();
        copies[1..].iter().for_each(|&copy| sys::end(copy));
        let error = context.replica_of(&last, &mut None).err();
        assert!(matches!(error, Some(ReplayError::CopyLost)), "{error:?}");
        // What lay behind them is reached from what is left.
        let mut replica = context.replica_at(&first).unwrap();
        context.run(&mut replica, &Bound::Events(end - 1), &mut |_, _| Ok(false)).unwrap();
        assert!(context.timeline.len() < before, "the others are forgotten");
    });
}

#[test]
fn a_program_is_stopped_while_it_makes_processes_and_loses_none() {
    // The second is made without a copy of the memory.
    let script = "n=0; while [ $n -lt 50 ]; do (exit 7) || /bin/true && n=$((n+1)); done; exit 3";
    let mut recorded = Recorded::start(Path::new("/bin/sh"), &["-c", script]);
    let mut stops = 0;
    let halt = recorded.run_stopping(Duration::from_millis(1), |recorded| {
        recorded.process.anchor().unwrap();
        stops += 1;
        ControlFlow::Continue(Stops::More)
    });
    assert_eq!(halt, Halt::Ended(Ended::Exited(3)));
    assert_eq!(recorded.process.recorder().unwrap().why_ended(), None);
    assert!(stops > 0, "it was never stopped");
}

#[test]
fn interpreters_behave_as_without_a_recorder_and_are_replayed_to_the_same_states() {
    check_program(&[
        "/usr/bin/perl",
        "-e",
        "my %h; $h{$_ % 97} += $_ for 1..20000; print join(',', map { $h{$_} } sort keys %h)",
    ]);
    check_program(&[
        "/usr/bin/python3",
        "-c",
        "import json, re, hashlib\n\
         words = {f'{n:x}': hashlib.sha256(str(n).encode()).hexdigest() for n in range(20000)}\n\
         print(len(re.findall('a+b', json.dumps(words))), sorted(words)[:3])",
    ]);
    check_program(&[
        "/usr/bin/sqlite3",
        ":memory:",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20000)
         INSERT INTO t SELECT x, hex(x * x) FROM n;
         CREATE INDEX i ON t (b);
         SELECT count(*), max(b), sum(length(b)) FROM t WHERE b LIKE '3%';",
    ]);
}

#[test]
fn compilers_and_compiled_programs_behave_as_without_a_recorder_and_are_replayed_to_the_same_states() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("small.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"x\"); }\n").unwrap();
    let object = folder.path().join("small.o");
    check_program(&["/usr/bin/gcc", "-c", source.to_str().unwrap(), "-o", object.to_str().unwrap()]);
    for fixture in [Fixture::rust("tables"), Fixture::cpp("streams")] {
        check_program(&[fixture.build().path.to_str().unwrap()]);
    }
}

/// Visits moments in an order that has nothing to do with time, twice; how many were not as they had been.
pub(crate) fn wrong_visits(recorded: &mut Recorded, seen: &HashMap<Position, u64>) -> usize {
    let mut positions: Vec<_> = seen.keys().cloned().collect();
    positions.sort();
    let mut seed = 12345u64;
    let mut wrong = 0;
    for _ in 0..2 {
        for last in (1..positions.len()).rev() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            positions.swap(last, (seed >> 33) as usize % (last + 1));
        }
        for position in &positions {
            let replayed =
                recorded.with_context(|context| state_of(&context.replica_of(position, &mut None).unwrap()));
            wrong += usize::from(replayed != seen[position]);
        }
    }
    wrong
}

/// Stops a program at random moments, then goes one step back and forwards again at each.
fn check_steps_back(optimisation: &str, arguments: &[&str]) {
    let mut recorded = Recorded::fixture(optimisation, arguments);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(40), usize::MAX);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{arguments:?}");
    assert_eq!(wrong_visits(&mut recorded, &seen), 0, "{arguments:?}");
    for position in seen.keys().take(5) {
        recorded.with_context(|context| {
            let mut window = None;
            let event = context.timeline.get(&position.anchor).unwrap().event;
            let before = context.before(position, &mut window).unwrap().unwrap();
            let mut replica = context.replica_of(&before, &mut window).unwrap();
            context.run(&mut replica, &Bound::Steps(1), &mut |_, _| Ok(false)).unwrap();
            // The step into a signal handler is none of the program's own.
            if replica.event() == event {
                assert_eq!(state_of(&replica), seen[position], "{arguments:?} {position}");
            }
        });
    }
    recorded.replay_whole().unwrap();
}

#[test]
fn a_step_back_and_forwards_leads_to_the_same_state_in_a_loop_that_only_changes_memory() {
    check_steps_back("-O0", &["memory", "60000000"]);
}

#[test]
fn a_step_back_and_forwards_leads_to_the_same_state_in_a_loop_that_only_changes_registers() {
    check_steps_back("-O1", &["registers", "200000000"]);
}

#[test]
fn a_step_back_and_forwards_leads_to_the_same_state_within_an_instruction_that_repeats() {
    check_steps_back("-O1", &["repetitions", "2000"]);
}

#[test]
fn a_step_back_and_forwards_leads_to_the_same_state_among_signals_and_system_calls() {
    check_steps_back("-O1", &["alarms", "200"]);
}

#[test]
fn a_program_that_takes_its_flags_from_the_stack_does_not_see_that_it_is_stepped() {
    const STEPS: usize = 150;
    let mut recorded = Recorded::start(&Fixture::c("trap_flag").build().path, &[]);
    let Halt::Signal(tid, _) = recorded.process.run().unwrap() else { panic!("it raises a signal") };
    let mut seen = HashMap::new();
    for _ in 0..STEPS {
        assert_eq!(recorded.process.step(tid).unwrap(), Halt::Stepped(tid));
        let flags = recorded.process.registers(tid).unwrap().get("eflags").unwrap();
        assert_eq!(flags & 1 << 8, 0, "the trap flag shows");
        recorded.process.anchor().unwrap();
        let recorder = recorded.process.recorder_mut().unwrap();
        let position = recorder.timeline.frontier().cloned().unwrap();
        recorder.timeline.get_mut(&position.anchor).unwrap().pinned = true;
        seen.insert(position, recorded.process.digest());
    }
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)));
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
}

/// Many random moments of a program with signals, mappings and system calls, some of them next to each other.
#[test]
fn random_moments_are_visited_as_they_were() {
    let (rounds, moments) = (oracle_size(1000, 5000).to_string(), oracle_size(60, 1000));
    let mut recorded = Recorded::fixture("-O1", &["alarms", &rounds]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(2), moments);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert!(seen.len() >= moments / 4, "{} of {moments} stops", seen.len());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    recorded.replay_whole().unwrap();
}

#[test]
fn a_log_that_was_tampered_with_is_found_out() {
    let mut recorded = Recorded::fixture("-O1", &["alarms", "4"]);
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)));
    recorded.replay_whole().unwrap();
    let log = &mut recorded.process.recorder_mut().unwrap().log;
    let read = log
        .range(0, log.len())
        .find(|(_, event)| {
            matches!(&**event, Event::Call(call) if call.number == libc::SYS_clock_gettime
                && matches!(&call.replay, Replay::Emulate(writes) if !writes.is_empty()))
        })
        .map(|(index, _)| index)
        .unwrap();
    log.drop_event(read);
    assert!(recorded.replay_whole().is_err(), "an event was dropped");
    let mut recorded = Recorded::fixture("-O1", &["alarms", "4"]);
    recorded.run();
    let log = &mut recorded.process.recorder_mut().unwrap().log;
    let index = log.len() / 2;
    let mut changed = false;
    for at in index..log.len() {
        log.tamper(at, |event| {
            if let Event::Call(call) = event
                && call.number == libc::SYS_mmap
                && !changed
            {
                call.result += 0x10000;
                changed = true;
            }
        });
    }
    assert!(changed && recorded.replay_whole().is_err(), "a result was changed");
}

#[test]
fn what_is_not_the_same_twice_is_found_out_where_it_is_left_to_the_program() {
    let replay = |left: Option<Wild>| {
        LEFT.set(left);
        let mut recorded = Recorded::fixture("-O1", &["clocks", "2000"]);
        let (halt, seen) = recorded.run_with_stops(Duration::from_millis(5), 20);
        LEFT.set(None);
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
        assert!(!seen.is_empty());
        recorded.replay_whole()
    };
    replay(None).unwrap();
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock = std::fs::read_to_string(clock).unwrap_or_default();
    for left in [Wild::KernelFunctions, Wild::TimeStampCounter, Wild::RestartableSequence] {
        let matters = match left {
            // With another clock these functions make the system calls themselves.
            Wild::KernelFunctions => clock.contains("tsc") || clock.contains("kvm-clock"),
            Wild::TimeStampCounter => true,
            Wild::RestartableSequence => std::thread::available_parallelism().unwrap().get() > 1,
        };
        if !matters {
            continue;
        }
        assert!(matches!(replay(Some(left)), Err(ReplayError::Diverged(_))), "{left:?}");
    }
}

#[test]
fn nobody_outside_notices_replays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared");
    std::fs::write(&file, vec![7; 8192]).unwrap();
    let mut recorded = Recorded::fixture("-O1", &["share", file.to_str().unwrap()]);
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)));
    let left = std::fs::read(&file).unwrap();
    assert_ne!(left, vec![7; 8192]);
    let printed = std::fs::read(recorded.output.path()).unwrap();
    std::fs::write(&file, vec![9; 8192]).unwrap();
    for _ in 0..20 {
        recorded.replay_whole().unwrap();
    }
    assert_eq!(std::fs::read(&file).unwrap(), vec![9; 8192]);
    assert_eq!(std::fs::read(recorded.output.path()).unwrap(), printed);
}
