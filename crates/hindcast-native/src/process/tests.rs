//! The process layer on real programs, without symbols.

use std::{ffi::CString, fs::File, os::fd::OwnedFd};

use hindcast_core::debug::Interrupt as _;
use hindcast_fixtures::Fixture;
use hindcast_symbols::Memory as _;

use super::{Ended, Halt, Process};
use crate::sys::{self, SpawnPlan, SpawnStreams};

fn launch(fixture: &str, arguments: &[&str]) -> Process {
    let program = Fixture::c(fixture).flags(["-pthread", "-no-pie"]).build().path;
    let text = |text: &str| CString::new(text).unwrap();
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
    let program = program.to_str().unwrap();
    let plan = SpawnPlan {
        program: text(program),
        arguments: std::iter::once(program).chain(arguments.iter().copied()).map(text).collect(),
        environment: Vec::new(),
        folder: None,
        streams: SpawnStreams::Own { stdin: null(), stdout: null(), stderr: null() },
    };
    Process::launched(sys::spawn(&plan).unwrap()).unwrap()
}

/// Runs on with every signal delivered.
fn run_to_end(process: &mut Process) -> Halt {
    loop {
        match process.run().unwrap() {
            Halt::Signal(tid, details) => process.deliver(tid, details.signal),
            halt => return halt,
        }
    }
}

fn is_alive(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// The address of a function of a fixture that is not position independent.
fn symbol(fixture: &str, name: &str) -> u64 {
    use object::{Object as _, ObjectSymbol as _};
    let program = Fixture::c(fixture).flags(["-pthread", "-no-pie"]).build().path;
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address()
}

#[test]
fn a_program_runs_from_its_first_instruction_to_its_end() {
    let mut process = launch("calls", &["3"]);
    assert_eq!(process.run().unwrap(), Halt::Ended(Ended::Exited(3)));
    assert!(!is_alive(process.pid().0));
}

#[test]
fn a_breakpoint_is_hit_every_time_and_does_not_show_in_memory() {
    let mut process = launch("calls", &[]);
    let square = symbol("calls", "square");
    let mut before = [0; 4];
    process.memory().read(square, &mut before).unwrap();
    process.insert_breakpoint(square).unwrap();
    let mut after = [0; 4];
    process.memory().read(square, &mut after).unwrap();
    assert_eq!(before, after);
    let mut hits = 0;
    loop {
        match process.run().unwrap() {
            Halt::Breakpoint(tid, address) => {
                assert_eq!(address, square);
                assert_eq!(process.registers(tid).unwrap().pc(), square);
                hits += 1;
                process.pass_breakpoint(tid);
            }
            halt => {
                assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
                break;
            }
        }
    }
    assert_eq!(hits, 5);
}

#[test]
fn an_interruption_on_the_way_past_a_breakpoint_does_not_make_it_a_new_one() {
    for recorded in [false, true] {
        let mut process = launch("calls", &[]);
        if recorded {
            process.record().unwrap();
        }
        process.insert_breakpoint(symbol("calls", "square")).unwrap();
        let interrupt = process.interrupt();
        let mut hits = 0;
        while let Halt::Breakpoint(tid, _) = process.run().unwrap() {
            hits += 1;
            process.pass_breakpoint(tid);
            // It is there before the first instruction is executed.
            interrupt.interrupt();
            assert!(matches!(process.run().unwrap(), Halt::Interrupted(_)));
        }
        assert_eq!(hits, 5, "recorded: {recorded}");
    }
}

#[test]
fn no_thread_of_sixty_four_misses_a_breakpoint() {
    let mut process = launch("threads", &["64", "10"]);
    process.insert_breakpoint(symbol("threads", "count")).unwrap();
    let mut hits = 0;
    loop {
        match process.run().unwrap() {
            Halt::Breakpoint(tid, _) => {
                hits += 1;
                process.pass_breakpoint(tid);
            }
            halt => {
                assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
                break;
            }
        }
    }
    assert_eq!(hits, 640);
}

#[test]
fn an_interruption_stops_a_program_that_spins_and_one_that_sleeps() {
    for what in ["hang", "sleep"] {
        let mut process = launch("misbehave", &[what]);
        let interrupt = process.interrupt();
        for _ in 0..5 {
            let interrupt = interrupt.clone();
            let sender = std::thread::spawn(move || interrupt.interrupt());
            assert!(matches!(process.run().unwrap(), Halt::Interrupted(_)), "{what}");
            sender.join().unwrap();
        }
        let pid = process.pid().0;
        drop(process);
        assert!(!is_alive(pid));
    }
}

#[test]
fn every_write_to_watched_memory_is_seen_in_every_thread() {
    let mut process = launch("threads", &["8", "5"]);
    process.insert_breakpoint(symbol("threads", "main")).unwrap();
    let Halt::Breakpoint(tid, _) = process.run().unwrap() else { panic!("main is not reached") };
    process.pass_breakpoint(tid);
    let counts = symbol("threads", "counts");
    let slots = process.watch(counts + 8 * 3, 8, sys::WatchKind::Write).unwrap().unwrap();
    let mut writes = 0;
    loop {
        match process.run().unwrap() {
            Halt::Watch(_, hits) => {
                assert_eq!(hits, slots);
                writes += 1;
            }
            halt => {
                assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
                break;
            }
        }
    }
    assert_eq!(writes, 5);
}

#[test]
fn children_are_let_run_and_none_survives() {
    let mut process = launch("misbehave", &["fork", "1000"]);
    process.insert_breakpoint(symbol("misbehave", "main")).unwrap();
    let Halt::Breakpoint(tid, _) = process.run().unwrap() else { panic!("main is not reached") };
    process.pass_breakpoint(tid);
    assert_eq!(run_to_end(&mut process), Halt::Ended(Ended::Exited(0)));
}

#[test]
fn a_spawned_command_runs_over_our_breakpoints() {
    let mut process = launch("misbehave", &["vfork"]);
    process.insert_breakpoint(symbol("misbehave", "main")).unwrap();
    let Halt::Breakpoint(tid, _) = process.run().unwrap() else { panic!("main is not reached") };
    process.pass_breakpoint(tid);
    assert_eq!(run_to_end(&mut process), Halt::Ended(Ended::Exited(0)));
}

#[test]
fn another_program_takes_over_and_is_told() {
    let mut process = launch("misbehave", &["exec"]);
    assert!(matches!(process.run().unwrap(), Halt::Exec(_)));
    assert_eq!(process.run().unwrap(), Halt::Ended(Ended::Exited(7)));
}

#[test]
fn signals_are_told_and_delivered() {
    let mut process = launch("misbehave", &["signal"]);
    let mut seen = Vec::new();
    loop {
        match process.run().unwrap() {
            Halt::Signal(tid, details) => {
                seen.push(details.signal);
                process.deliver(tid, details.signal);
            }
            halt => {
                assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
                break;
            }
        }
    }
    assert_eq!(seen, [libc::SIGUSR1, libc::SIGALRM]);
}

#[test]
fn ten_thousand_single_steps_lead_to_where_running_leads() {
    let mut process = launch("calls", &["9"]);
    let tid = process.pid();
    for _ in 0..10_000 {
        assert_eq!(process.step(tid).unwrap(), Halt::Stepped(tid));
    }
    assert_eq!(process.run().unwrap(), Halt::Ended(Ended::Exited(9)));
}

#[test]
fn a_process_that_was_attached_to_goes_on_when_it_is_let_go() {
    let program = Fixture::c("misbehave").flags(["-pthread", "-no-pie"]).build().path;
    let mut child = std::process::Command::new(program).arg("hang").spawn().unwrap();
    let pid = sys::Tid(child.id() as i32);
    let mut process = Process::attach(pid).unwrap();
    assert_eq!(process.threads().collect::<Vec<_>>(), [pid]);
    assert_eq!(process.step(pid).unwrap(), Halt::Stepped(pid));
    // Too late: it must not stop the process after we are gone.
    process.interrupt().interrupt();
    drop(process);
    let state = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.0)).unwrap();
        status.lines().find_map(|line| line.strip_prefix("State:\t").map(str::to_owned)).unwrap()
    };
    assert!(state().starts_with('R'), "{}", state());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_thread_runs_past_a_breakpoint_while_another_steps_over_it() {
    for _ in 0..8 {
        let mut process = launch("threads", &["8", "40", "at once"]);
        process.insert_breakpoint(symbol("threads", "count")).unwrap();
        let mut hits = 0;
        while let Halt::Breakpoint(tid, _) = process.run().unwrap() {
            process.pass_breakpoint(tid);
            hits += 1;
        }
        assert_eq!((hits, process.ended()), (320, Some(Ended::Exited(0))));
    }
}
