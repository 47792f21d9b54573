//! Going back in time, as a user does.

use std::fmt::Debug;

use hindcast_core::debug::{
    CodeBreakpoint, DebugError, Destination, ExceptionBreakpoint, FrameRef, Granularity, Moment, Movement,
    Outcome, Place, Remedy, RuntimeAddr, Stop, StopReason, Trigger, ValueState, Watched, Writer,
};
use hindcast_fixtures::{Fixture, oracle_size};

use crate::debuggee::Debuggee;

fn back(debuggee: &mut Debuggee, granularity: Granularity) -> Stop {
    let thread = debuggee.thread();
    debuggee.movement(Movement::StepBack { thread, granularity, count: 1 }).clone()
}

fn now(debuggee: &mut Debuggee) -> (Moment, bool) {
    let when = debuggee
        .backend()
        .time_travel()
        .expect("it travels")
        .now()
        .expect("it can tell")
        .expect("there is a moment");
    (when.moment, when.in_past)
}

type Registers = Vec<(String, Option<String>)>;

fn registers(debuggee: &mut Debuggee) -> Registers {
    let frame = FrameRef::of(debuggee.thread(), 0);
    let set = hindcast_core::debug::RegisterSet::General;
    let registers = debuggee
        .backend()
        .registers()
        .expect("it sees registers")
        .registers(frame, set)
        .expect("they can be read");
    registers.into_iter().map(|register| (register.name, register.value)).collect()
}

#[test]
fn the_write_that_destroyed_a_pointer_is_found_after_the_crash() {
    let mut debuggee = Debuggee::record(&Fixture::c("corruption"), &[]);
    let stop = debuggee.go().clone();
    assert_eq!(stop.signal.unwrap().name, "SIGSEGV");
    assert_eq!(debuggee.line(), Some(debuggee.built.line("crash")));
    let (crash, in_past) = now(&mut debuggee);
    assert!(!in_past);
    let frame = FrameRef::of(debuggee.thread(), 0);
    let watched = Watched::Expression { text: "accounts[1].balance".into(), frame };
    let writes = debuggee.backend().time_travel().unwrap().last_write(&watched, 1).unwrap();
    let write = &writes[0];
    assert_eq!(write.location.line, Some(debuggee.built.line("guilty")), "{write:?}");
    assert_eq!(write.by, Writer::Program);
    assert_ne!(write.old, write.new);
    assert!(write.moment < crash, "{} {crash}", write.moment);
    assert_eq!(write.stack.frames[1].location.line, Some(debuggee.built.line("overflow")));
    // Looking did not move.
    assert_eq!(now(&mut debuggee), (crash.clone(), false));
    // There, the local variables of the guilty are to be seen.
    let stop = debuggee.movement(Movement::Goto(Destination::Moment(write.moment.clone()))).clone();
    assert_eq!(stop.reason, StopReason::Goto);
    assert!(now(&mut debuggee).1);
    assert_eq!(debuggee.function(), "set_owner");
    assert_eq!(debuggee.value_of("i"), "21");
    // And back to the crash.
    let stop = debuggee.movement(Movement::Goto(Destination::Present)).clone();
    assert_eq!(stop.reason, StopReason::Present);
    assert_eq!(now(&mut debuggee), (crash, false));
}

#[test]
fn the_last_of_many_million_writes_is_found_right_before_and_long_before() {
    let mut debuggee = Debuggee::record(&Fixture::c("hot"), &[]);
    debuggee.break_at("done");
    debuggee.go();
    let frame = FrameRef::of(debuggee.thread(), 0);
    for name in ["cold", "hot"] {
        let watched = Watched::Expression { text: name.into(), frame };
        let writes = debuggee.backend().time_travel().unwrap().last_write(&watched, 1).unwrap();
        assert_eq!(writes[0].location.line, Some(debuggee.built.line(name)), "{writes:?}");
        assert_eq!(
            (writes[0].old.as_str(), writes[0].new.as_str()),
            ("19999999 (0x1312cff)", "20000000 (0x1312d00)")
        );
    }
}

#[test]
fn the_last_writes_are_those_of_the_programs_own_log() {
    check_last_writes(&Fixture::c("stores"), &[], 1100, oracle_size(40, 500));
}

/// The program keeps a log of its stores, which tells for every byte who wrote it last.
pub(crate) fn check_last_writes(fixture: &Fixture, arguments: &[&str], cells: u64, count: usize) {
    const LOGGED: usize = 8;
    let mut debuggee = Debuggee::record(fixture, arguments);
    debuggee.break_at("done");
    debuggee.go();
    let address = |debuggee: &mut Debuggee, name: &str| -> RuntimeAddr {
        let value = debuggee.value_of(&format!("&{name}"));
        let found = value.split_whitespace().find_map(|word| word.parse().ok());
        found.unwrap_or_else(|| panic!("{value}"))
    };
    let (start, log) = (address(&mut debuggee, "cells"), address(&mut debuggee, "stores"));
    let logged: usize = debuggee.value_of("count").parse().expect("a number");
    let memory = debuggee.backend().raw_memory().expect("it has memory");
    let log = memory.read(log, LOGGED * logged).expect("it can be read").bytes;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let stores: Vec<_> =
        log.chunks(LOGGED).map(|store| word(&store[..4])..word(&store[..4]) + word(&store[4..])).collect();
    let mut seed = 42_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for _ in 0..count {
        let (offset, size) = (random(cells), 1 << random(4));
        let wanted = stores.iter().rposition(|store| store.start < offset + size && offset < store.end);
        let watched = Watched::Memory { address: RuntimeAddr(start.0 + offset), size };
        let past = debuggee.backend().time_travel().expect("it travels");
        let writes = past.last_write(&watched, 1).expect("it can be searched");
        let Some(wanted) = wanted else {
            assert!(writes.is_empty(), "{size} bytes at {offset}: {writes:?}");
            continue;
        };
        debuggee.movement(Movement::Goto(Destination::Moment(writes[0].moment.clone())));
        assert_eq!(debuggee.value_of("count"), wanted.to_string(), "{size} bytes at {offset}: {writes:?}");
        debuggee.movement(Movement::Goto(Destination::Present));
    }
}

#[test]
fn a_moment_that_is_not_there_and_a_value_too_large_are_refused_with_the_way_out() {
    let mut debuggee = Debuggee::record(&Fixture::c("corruption"), &[]);
    debuggee.go();
    let here = now(&mut debuggee);
    let movement = Movement::Goto(Destination::Moment(Moment("99999999+000000".into())));
    match debuggee.backend().run(movement) {
        Err(DebugError::NoHistory(reason)) => assert_eq!(reason.remedies, [Remedy::ListMoments]),
        other => panic!("{other:?}"),
    }
    let frame = FrameRef::of(debuggee.thread(), 0);
    let mut last_write = |text: &str| {
        let watched = Watched::Expression { text: text.into(), frame };
        debuggee.backend().time_travel().expect("it travels").last_write(&watched, 1)
    };
    // All of it is looked at, not only its beginning.
    let writes = last_write("accounts[1]").expect("24 bytes can be watched");
    assert!(writes[0].location.function.as_deref() == Some("set_owner"), "{writes:?}");
    match last_write("accounts") {
        Err(DebugError::Expression(reason)) => {
            assert_eq!(reason.remedies, [Remedy::advice("ask for a field or an element of it")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(now(&mut debuggee), here);
}

#[test]
fn steps_back_undo_steps_forward() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    check_steps(&mut debuggee, 300);
    debuggee.expect_exit(0);
    assert!(debuggee.printed().contains("sum 30 product 120"), "{}", debuggee.printed());
    let mut debuggee = Debuggee::record(&Fixture::cpp("streams"), &[]);
    check_steps(&mut debuggee, oracle_size(200, 20_000));
}

/// The registers are the same. Before a system call that a thread waited in, nobody knows any more what the call overwrote.
#[track_caller]
fn agree(seen: &Registers, wanted: &Registers, context: &dyn Debug) {
    assert_eq!(seen.len(), wanted.len(), "{context:?}");
    for (seen, wanted) in seen.iter().zip(wanted) {
        let is_lost = matches!(seen.0.as_str(), "rcx" | "r11") && (seen.1.is_none() || wanted.1.is_none());
        assert!(seen == wanted || is_lost, "{context:?}: {seen:?} instead of {wanted:?}");
    }
}

/// Steps forwards, backwards, and forwards again: the same on the same way.
pub(crate) fn check_steps(debuggee: &mut Debuggee, count: usize) {
    let mut seen = vec![registers(debuggee)];
    let mut moments = vec![now(debuggee).0];
    for _ in 0..count {
        debuggee.step(Granularity::Instruction);
        seen.push(registers(debuggee));
        moments.push(now(debuggee).0);
    }
    assert!(moments.is_sorted(), "{moments:?}");
    for (wanted, moment) in seen.iter().zip(&moments).rev().skip(1) {
        back(debuggee, Granularity::Instruction);
        agree(&registers(debuggee), wanted, moment);
    }
    // Forwards again, through the past to the present and beyond.
    for (wanted, moment) in seen.iter().zip(&moments).skip(1) {
        debuggee.step(Granularity::Instruction);
        agree(&registers(debuggee), wanted, moment);
    }
    assert!(!now(debuggee).1);
}

#[test]
fn lines_are_visited_in_reverse() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    let mut lines = vec![debuggee.line()];
    for _ in 0..12 {
        debuggee.step(Granularity::Over);
        lines.push(debuggee.line());
    }
    let mut reversed = vec![debuggee.line()];
    for _ in 0..12 {
        back(&mut debuggee, Granularity::Over);
        reversed.push(debuggee.line());
    }
    reversed.reverse();
    assert_eq!(lines, reversed);
}

#[test]
fn lines_in_reverse_lead_into_calls_whose_result_is_used() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    debuggee.run_to("loop_add");
    let mut visited = Vec::new();
    while visited.len() < 10 && (debuggee.function() != "main" || visited.is_empty()) {
        back(&mut debuggee, Granularity::Line);
        visited.push((debuggee.function(), debuggee.line()));
    }
    // First the end of the function that was called last, then its lines.
    assert_eq!(visited[0].0, "square", "{visited:?}");
    let lines: Vec<_> = visited.iter().filter_map(|(_, line)| *line).collect();
    for mark in ["square_return", "square_body"] {
        assert!(lines.contains(&debuggee.built.line(mark)), "{mark}: {visited:?}");
    }
    assert_eq!(visited.last(), Some(&("main".to_owned(), Some(debuggee.built.line("loop_body")))));
}

#[test]
fn lines_in_reverse_do_not_lead_into_a_handler_that_interrupted_them() {
    let mut debuggee = Debuggee::record(&Fixture::c("trapped"), &[]);
    debuggee.break_at("done");
    while debuggee.line() != Some(debuggee.built.line("done")) {
        debuggee.go();
    }
    assert_eq!(debuggee.value_of("traps"), "1");
    for granularity in [Granularity::Line, Granularity::Over] {
        while debuggee.value_of("traps") == "1" {
            back(&mut debuggee, granularity);
            assert_eq!(debuggee.function(), "main", "{granularity:?}");
        }
        debuggee.movement(Movement::Goto(Destination::Present));
    }
}

#[test]
fn steps_back_in_rust_never_end_in_code_without_a_line() {
    let mut debuggee = Debuggee::record(&Fixture::rust("shapes"), &[]);
    debuggee.run_to("print");
    for granularity in [Granularity::Over, Granularity::Line] {
        for visited in 0..40 {
            let stop = back(&mut debuggee, granularity);
            if stop.reason == StopReason::HistoryStart {
                assert!(visited > 20, "{granularity:?}: only {visited} stops");
                break;
            }
            let location = debuggee.frames()[0].location.clone();
            assert!(location.line.is_some_and(|line| line > 0), "{granularity:?} {stop:?} {location:?}");
        }
        debuggee.movement(Movement::Goto(Destination::Present));
    }
}

#[test]
fn reverse_continue_stops_at_the_signals_that_were_asked_for() {
    let mut debuggee = Debuggee::record(&Fixture::c("travel"), &["alarms", "400"]);
    let exception = ExceptionBreakpoint {
        exception_type: "signal:SIGALRM".into(),
        first_chance: true,
        second_chance: false,
        include_subtypes: false,
        enabled: true,
    };
    debuggee.backend().add_breakpoint(Trigger::Exception(exception)).unwrap();
    let mut moments = Vec::new();
    while moments.len() < 3 {
        let stop = debuggee.go().clone();
        assert_eq!((stop.reason, stop.detail.as_deref()), (StopReason::Signal, Some("SIGALRM")));
        moments.push(now(&mut debuggee).0);
        // Another can have come before the first was delivered.
        moments.dedup();
    }
    for moment in moments.iter().rev().skip(1) {
        let stop = debuggee.movement(Movement::ReverseContinue).clone();
        assert_eq!((stop.reason, stop.detail.as_deref()), (StopReason::Signal, Some("SIGALRM")));
        assert_eq!(now(&mut debuggee), (moment.clone(), true));
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn reverse_continue_stops_at_the_exceptions_that_were_asked_for() {
    let mut debuggee = Debuggee::record(&Fixture::cpp("throws"), &[]);
    let exception = ExceptionBreakpoint {
        exception_type: "cpp:std::exception".into(),
        first_chance: true,
        second_chance: true,
        include_subtypes: true,
        enabled: true,
    };
    debuggee.backend().add_breakpoint(Trigger::Exception(exception)).unwrap();
    assert_eq!(debuggee.go().reason, StopReason::Exception);
    let thrown = now(&mut debuggee).0;
    // On the way back there is a number that was thrown, too.
    debuggee.expect_exit(0);
    let stop = debuggee.movement(Movement::ReverseContinue).clone();
    let raised = stop.exception.unwrap();
    assert_eq!((stop.reason, raised.exception_type.as_str()), (StopReason::Exception, "cpp:app::Problem"));
    assert_eq!(now(&mut debuggee), (thrown, true));
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn reverse_continue_stops_at_a_panic_that_nobody_caught() {
    let mut debuggee = Debuggee::record(&Fixture::rust("panics"), &["uncaught"]);
    assert_eq!(debuggee.go().reason, StopReason::Exception);
    let panicked = now(&mut debuggee).0;
    debuggee.expect_exit(101);
    let stop = debuggee.movement(Movement::ReverseContinue).clone();
    assert!(stop.exception.unwrap().unhandled);
    assert_eq!(now(&mut debuggee), (panicked, true));
    // The one before was caught.
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn reverse_continue_stops_at_the_earlier_breakpoint_and_at_the_start() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    let breakpoint = debuggee.break_at("square_return");
    let mut results = Vec::new();
    for _ in 0..5 {
        debuggee.go();
        results.push(debuggee.value_of("result"));
    }
    assert_eq!(results, ["0", "1", "4", "9", "16"]);
    for expected in results.iter().rev().skip(1) {
        let stop = debuggee.movement(Movement::ReverseContinue).clone();
        assert_eq!((stop.reason, &stop.breakpoints[..]), (StopReason::Breakpoint, &[breakpoint.id][..]));
        assert_eq!(debuggee.value_of("result"), *expected);
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    let start = now(&mut debuggee).0;
    // Forwards the same breakpoint is hit again, in the past.
    for expected in &results[..4] {
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
        assert_eq!(debuggee.value_of("result"), *expected);
    }
    // The last of them is the present.
    assert_eq!(debuggee.go().reason, StopReason::Present);
    assert_eq!(debuggee.value_of("result"), results[4]);
    debuggee.backend().remove_breakpoint(breakpoint.id).unwrap();
    while debuggee.stop.reason != StopReason::Exit {
        debuggee.go();
    }
    assert_eq!(debuggee.stop.exit_code, Some(0));
    // After the end the past is still there.
    let stop = back(&mut debuggee, Granularity::Instruction);
    assert_eq!(stop.reason, StopReason::Step);
    assert!(now(&mut debuggee).1);
    debuggee.movement(Movement::Goto(Destination::Start));
    assert_eq!(now(&mut debuggee).0, start);
}

#[test]
fn a_condition_holds_in_the_past_too() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    debuggee.run_to("print");
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("square_return"));
    let mut breakpoint = CodeBreakpoint::at(Place::Line { file, line });
    breakpoint.condition = Some("number == 2".into());
    debuggee.add(breakpoint);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
    assert_eq!(debuggee.value_of("number"), "2");
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn one_steps_back_out_of_a_function_to_its_call() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    debuggee.run_to("square_return");
    back(&mut debuggee, Granularity::Out);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("loop_body")));
    assert_eq!(debuggee.function(), "main");
}

#[test]
fn a_step_back_in_code_without_lines_ends_at_its_call() {
    for granularity in [Granularity::Over, Granularity::Line] {
        let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
        debuggee.add(CodeBreakpoint::at(Place::Function("printf".into())));
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
        let called = debuggee.frames()[1].location.line;
        assert_eq!(back(&mut debuggee, granularity).reason, StopReason::Step);
        assert_eq!((debuggee.function().as_str(), debuggee.line()), ("main", called), "{granularity:?}");
    }
}

#[test]
fn without_a_recording_the_reason_is_told() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let thread = debuggee.thread();
    let movement = Movement::StepBack { thread, granularity: Granularity::Line, count: 1 };
    match debuggee.backend().run(movement) {
        Err(DebugError::NoHistory(reason)) => assert!(reason.what.contains("record: false"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let Ok(Outcome::Stopped(stop)) = debuggee.backend().run(Movement::Continue) else { panic!("it goes on") };
    assert_eq!(stop.reason, StopReason::Exit);
}

/// Goes back by each kind of step from the line behind a handler, to the function that threw.
#[test]
fn one_steps_back_across_an_exception() {
    for optimisation in ["-O0", "-O2"] {
        let mut debuggee = Debuggee::record(&Fixture::cpp("caught").flags([optimisation]), &[]);
        let breakpoint = debuggee.break_at("after");
        for _ in 0..4 {
            debuggee.go();
        }
        debuggee.backend().remove_breakpoint(breakpoint.id).unwrap();
        let here = (registers(&mut debuggee), now(&mut debuggee).0);
        back(&mut debuggee, Granularity::Instruction);
        debuggee.step(Granularity::Instruction);
        assert_eq!((registers(&mut debuggee), now(&mut debuggee).0), here, "{optimisation}");
        for granularity in [Granularity::Over, Granularity::Line] {
            let mut lines = Vec::new();
            let before = ["call", "loop"].map(|mark| debuggee.built.line(mark));
            while lines.len() < 12 && !before.iter().any(|line| lines.contains(line)) {
                back(&mut debuggee, granularity);
                if debuggee.function() == "main" {
                    lines.extend(debuggee.line());
                }
            }
            let handle = debuggee.built.line("handle");
            assert!(lines.contains(&handle) && lines.len() < 12, "{optimisation} {granularity:?} {lines:?}");
            debuggee.movement(Movement::Goto(Destination::Present));
        }
        debuggee.expect_exit(0);
    }
}

#[test]
fn a_function_that_others_enter_behind_its_beginning_is_found_again() {
    let mut debuggee = Debuggee::record(&Fixture::c("entries"), &[]);
    let mut breakpoint = CodeBreakpoint::at(Place::Function("enter".into()));
    breakpoint.hit_count = 1500;
    let breakpoint = debuggee.add(breakpoint);
    debuggee.go();
    debuggee.backend().remove_breakpoint(breakpoint.id).unwrap();
    let here = registers(&mut debuggee);
    for _ in 0..3 {
        back(&mut debuggee, Granularity::Instruction);
    }
    assert_eq!(debuggee.value_of("number"), "7495");
    for _ in 0..3 {
        debuggee.step(Granularity::Instruction);
    }
    assert_eq!(registers(&mut debuggee), here);
    debuggee.expect_exit(0);
}

#[test]
fn breakpoints_before_an_exec_are_those_of_the_program_then() {
    let mut debuggee = Debuggee::record(&Fixture::c("becomes"), &["again"]);
    let breakpoint = debuggee.break_at("first");
    let mut seen = Vec::new();
    while debuggee.go().reason == StopReason::Breakpoint {
        seen.push((debuggee.value_of("number"), now(&mut debuggee).0));
    }
    assert_eq!(debuggee.stop.exit_code, Some(0));
    let numbers: Vec<_> = seen.iter().map(|(number, _)| number.as_str()).collect();
    assert_eq!(numbers, ["2", "3"]);
    for (number, moment) in seen.iter().rev() {
        let stop = debuggee.movement(Movement::ReverseContinue).clone();
        assert_eq!((stop.reason, &stop.breakpoints[..]), (StopReason::Breakpoint, &[breakpoint.id][..]));
        assert_eq!((debuggee.value_of("number"), now(&mut debuggee).0), (number.clone(), moment.clone()));
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    // Forwards they are met again.
    for (_, moment) in &seen {
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
        assert_eq!(now(&mut debuggee).0, *moment);
    }
}

#[test]
fn breakpoints_of_two_programs_are_met_in_both_directions() {
    let calls = Fixture::c("calls").build();
    let mut debuggee = Debuggee::record(&Fixture::c("becomes"), &[calls.path.to_str().unwrap()]);
    let first = debuggee.break_at("first").id;
    let square = debuggee.add(CodeBreakpoint::at(Place::Function("square".into()))).id;
    let mut seen = Vec::new();
    while debuggee.go().reason == StopReason::Breakpoint {
        seen.push((debuggee.stop.breakpoints[0], now(&mut debuggee).0));
    }
    let ids: Vec<_> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids[..2], [first, square]);
    for (id, moment) in seen.iter().rev() {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [*id]);
        assert_eq!(now(&mut debuggee).0, *moment);
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    for (id, moment) in &seen {
        assert_eq!(debuggee.go().breakpoints, [*id]);
        assert_eq!(now(&mut debuggee).0, *moment);
    }
    assert_eq!(debuggee.go().reason, StopReason::Exit);
}

#[test]
fn breakpoints_in_a_library_that_was_unloaded_are_met_in_the_past() {
    let library = Fixture::c("plugin").library().build();
    let mut debuggee = Debuggee::record(&Fixture::c("loader"), &[library.path.to_str().unwrap()]);
    let id = debuggee.add(CodeBreakpoint::at(Place::Function("plugin_answer".into()))).id;
    assert_eq!(debuggee.go().breakpoints, [id]);
    let inside = now(&mut debuggee).0;
    debuggee.expect_exit(0);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [id]);
    assert_eq!(now(&mut debuggee).0, inside);
}

#[test]
fn breakpoints_in_a_library_that_was_unloaded_behind_the_end_of_the_recording_are_met() {
    let library = Fixture::c("plugin").library().build();
    let mut debuggee = Debuggee::record(&Fixture::c("unloads"), &[library.path.to_str().unwrap()]);
    let id = debuggee.add(CodeBreakpoint::at(Place::Function("plugin_answer".into()))).id;
    let mut moments = Vec::new();
    for _ in 0..3 {
        assert_eq!(debuggee.go().breakpoints, [id]);
        moments.push(now(&mut debuggee).0);
    }
    debuggee.expect_exit(18);
    for moment in moments.iter().rev() {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [id]);
        assert_eq!(now(&mut debuggee).0, *moment);
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn before_a_function_has_its_arguments_those_of_the_call_before_are_not_shown() {
    let mut debuggee = Debuggee::record(&Fixture::c("ledger"), &[]);
    debuggee.add(CodeBreakpoint::at(Place::Function("serve".into())));
    debuggee.go();
    debuggee.go();
    assert_eq!(debuggee.value_of("number"), "1");
    back(&mut debuggee, Granularity::Instruction);
    assert_eq!(debuggee.function(), "serve");
    assert_eq!(debuggee.local("number").state, ValueState::NotYetInitialised);
}

#[test]
fn a_share_of_the_recording_is_one_of_its_time() {
    let mut debuggee = Debuggee::record(&Fixture::c("phases"), &[]);
    debuggee.run_to("done");
    let present = now(&mut debuggee).0;
    let mut last = (Moment(String::new()), 0);
    for percent in [30, 50, 90] {
        debuggee.movement(Movement::Goto(Destination::Percent(percent)));
        assert_eq!(debuggee.value_of("phase"), "2", "{percent}");
        let round: u64 = debuggee.value_of("round").parse().unwrap();
        let here = (now(&mut debuggee).0, round);
        assert!(last < here, "{percent}: {last:?} {here:?}");
        last = here;
    }
    assert!(last.1 > 150, "{last:?}");
    // Shares keep their order, and each its moment, whatever was visited in between.
    let mut told = Vec::new();
    for percent in (1..100).step_by(9).chain((2..100).rev().step_by(13)).chain([30, 50, 90]) {
        debuggee.movement(Movement::Goto(Destination::Percent(percent)));
        told.push((percent, now(&mut debuggee).0));
        back(&mut debuggee, Granularity::Over);
    }
    told.sort();
    told.dedup();
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{told:?}");
    debuggee.movement(Movement::Goto(Destination::Percent(0)));
    assert_eq!(back(&mut debuggee, Granularity::Instruction).reason, StopReason::HistoryStart);
    debuggee.movement(Movement::Goto(Destination::Percent(100)));
    assert_eq!(now(&mut debuggee), (present, false));
    debuggee.expect_exit(0);
    debuggee.movement(Movement::Goto(Destination::Percent(100)));
    assert!(now(&mut debuggee).1);
    assert_eq!(debuggee.value_of("phase"), "3");
}
