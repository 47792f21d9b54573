//! Programs that misbehave.

use hindcast_core::debug::{CodeBreakpoint, DebugError, FaultAccess, Movement, Outcome, Place, StopReason};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn misbehaving(args: &[&str]) -> Debuggee {
    Debuggee::launch(&Fixture::c("misbehave"), args)
}

/// What is dead and waits for its parent to notice is not alive.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:\t"));
    state.is_some_and(|state| !state.starts_with('Z'))
}

#[test]
fn a_fault_stops_at_the_statement_with_the_address() {
    for (what, mark, signal, address) in [
        ("null", "null_read", "SIGSEGV", Some(0)),
        ("wild", "wild_write", "SIGSEGV", Some(0x1234_5678_9000)),
        ("divide", "divide", "SIGFPE", None),
    ] {
        let mut debuggee = misbehaving(&[what]);
        assert_eq!(debuggee.go().reason, StopReason::Signal);
        let raised = debuggee.stop.signal.clone().unwrap();
        assert_eq!(raised.name, signal);
        if let Some(address) = address {
            assert_eq!(raised.fault_address.unwrap().0, address);
        }
        assert_eq!(debuggee.line(), Some(debuggee.built.line(mark)), "{what}");
        debuggee.go();
        assert_eq!(debuggee.stop.reason, StopReason::Exit);
        assert_eq!(debuggee.stop.signal.as_ref().unwrap().name, signal);
    }
}

#[test]
fn an_abort_shows_the_statement_behind_the_library() {
    let mut debuggee = misbehaving(&["abort"]);
    assert_eq!(debuggee.go().signal.as_ref().unwrap().name, "SIGABRT");
    let line = debuggee.built.line("abort");
    assert!(debuggee.frames().iter().any(|frame| frame.location.line == Some(line)));
}

#[test]
fn a_stack_that_overflowed_is_shown_as_far_as_asked() {
    let mut debuggee = misbehaving(&["overflow"]);
    assert_eq!(debuggee.go().reason, StopReason::Signal);
    let thread = debuggee.thread();
    let stack = debuggee.backend().stack(thread, 50).unwrap();
    assert_eq!(stack.frames.len(), 50);
    assert!(stack.more);
}

#[test]
fn a_caught_signal_passes_and_its_handler_is_seen_on_the_stack() {
    let mut debuggee = misbehaving(&["signal"]);
    debuggee.run_to("handler");
    let frames = debuggee.frames();
    assert!(frames.iter().any(|frame| frame.signal), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.location.line == Some(debuggee.built.line("raise"))));
    debuggee.expect_exit(0);
    assert_eq!(debuggee.printed(), "signals 2\n");
}

#[test]
fn a_flood_of_output_is_bounded_and_told() {
    let mut debuggee = misbehaving(&["print", "200"]);
    debuggee.expect_exit(0);
    let chunk = debuggee.output.read(0, usize::MAX, None);
    let kept: usize = chunk.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(kept <= 1 << 20, "{kept}");
    assert_eq!(chunk.dropped + kept as u64, 200 << 20);
}

#[test]
fn a_daemon_that_forked_twice_does_not_survive_the_session() {
    let mut debuggee = misbehaving(&["daemon"]);
    let interrupt = debuggee.backend().interrupt();
    let output = debuggee.output.clone();
    let sender = std::thread::spawn(move || {
        while output.end() == 0 {
            std::thread::yield_now();
        }
        interrupt.interrupt();
    });
    assert_eq!(debuggee.backend().run(Movement::Continue).unwrap(), Outcome::Interrupted);
    sender.join().unwrap();
    let printed = debuggee.printed();
    let daemon: u32 = printed.trim().strip_prefix("daemon ").unwrap().parse().unwrap();
    assert!(is_alive(daemon));
    drop(debuggee);
    assert!(!is_alive(daemon));
}

#[test]
fn a_program_that_hangs_is_paused_looked_at_and_resumed() {
    let mut debuggee = misbehaving(&["hang"]);
    let interrupt = debuggee.backend().interrupt();
    for _ in 0..3 {
        let interrupt = interrupt.clone();
        let sender = std::thread::spawn(move || interrupt.interrupt());
        assert_eq!(debuggee.backend().run(Movement::Continue).unwrap(), Outcome::Interrupted);
        sender.join().unwrap();
        debuggee.stop = debuggee.backend().pause().unwrap();
        assert_eq!(debuggee.stop.reason, StopReason::Pause);
        let frames = debuggee.frames();
        assert!(frames.iter().any(|frame| frame.location.function.as_deref() == Some("main")), "{frames:?}");
    }
}

#[test]
fn another_program_is_debugged_after_an_exec() {
    let mut debuggee = misbehaving(&["exec"]);
    debuggee.break_at("exit");
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
    assert_eq!(debuggee.value_of("number"), "7");
    debuggee.expect_exit(7);
}

/// What the processor itself says of a fault, as the program's own handler hears it.
fn truth(fixture: &Fixture, what: &str) -> String {
    let output =
        std::process::Command::new(fixture.build().path).args(["truth", what]).output().expect("it runs");
    String::from_utf8(output.stdout).expect("it prints text").trim().to_owned()
}

#[test]
fn a_fault_is_told_as_the_access_that_the_processor_says_it_was() {
    let fixture = Fixture::c("faults");
    let source = std::fs::read_to_string(fixture.build().source).unwrap();
    let mut cases: Vec<&str> =
        source.split("CASE(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    if std::is_x86_feature_detected!("avx2") {
        cases.extend(["gather", "maskload", "maskstore"]);
    }
    assert!(cases.len() > 40, "{cases:?}");
    for what in cases {
        let mut debuggee = Debuggee::launch(&fixture, &[what]);
        debuggee.go();
        let signal = debuggee.stop.signal.clone().unwrap_or_else(|| panic!("{what}: {:?}", debuggee.stop));
        let said = match signal.fault.as_ref().and_then(|fault| fault.access) {
            Some(FaultAccess::Read) => "read",
            Some(FaultAccess::Write) => "write",
            Some(FaultAccess::Execute) => "execute",
            None => "unknown",
        };
        let expected = match (truth(&fixture, what).as_str(), what) {
            // The processor does not say more than that.
            ("protection", "wild_load") => "read".to_owned(),
            ("protection", "wild_store" | "wild_movs" | "unaligned") => "write".to_owned(),
            ("protection", "wild_return") => "execute".to_owned(),
            ("protection", "halt") => "unknown".to_owned(),
            (told, _) => told.to_owned(),
        };
        assert_eq!(said, expected, "{what}: {signal:?}");
        if what.starts_with("wild_") && what != "wild_return" {
            assert_eq!(signal.fault_address.map(|address| address.0), Some(0xdead_beef_dead_beef), "{what}");
        }
    }
}

#[test]
fn a_program_that_is_killed_while_it_stands_still_is_seen_to_have_ended() {
    for (fixture, arguments) in [(Fixture::c("calls"), [].as_slice()), (threads(), ["4"].as_slice())] {
        let mut debuggee = Debuggee::launch(&fixture, arguments);
        if fixture.build().source.ends_with("threads.c") {
            debuggee.add(CodeBreakpoint::at(Place::Function("count".into())));
            debuggee.go();
        }
        assert_eq!(debuggee.backend().ended_meanwhile().unwrap(), None);
        let pid = i32::try_from(debuggee.backend().target().pid.unwrap()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        let ended = std::iter::repeat_with(|| debuggee.backend().ended_meanwhile().unwrap())
            .flatten()
            .next()
            .unwrap();
        assert_eq!(ended.reason, StopReason::Exit);
        assert_eq!(ended.signal.map(|signal| signal.name).as_deref(), Some("SIGKILL"));
        assert_eq!(debuggee.backend().ended_meanwhile().unwrap(), None, "told once");
        assert!(matches!(debuggee.backend().threads(), Err(DebugError::Ended)));
    }
}

fn threads() -> Fixture {
    Fixture::c("threads").flags(["-pthread"])
}
