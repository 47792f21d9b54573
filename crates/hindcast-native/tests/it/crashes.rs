//! Programs that misbehave.

use hindcast_core::debug::{Movement, Outcome, StopReason};
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
