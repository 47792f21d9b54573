//! Who wrote, and what, in the past of a program.

use hindcast_core::debug::{
    Access, CodeBreakpoint, DebugError, Destination, FrameRef, Granularity, MemoryWrite, Moment, Movement,
    Place, Remedy, RuntimeAddr, StopReason, Trigger, Watched, Watchpoint, Writer,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

pub(crate) fn now(debuggee: &mut Debuggee) -> Moment {
    debuggee
        .backend()
        .time_travel()
        .expect("it travels")
        .now()
        .expect("it can tell")
        .expect("there is a moment")
        .moment
}

fn watched(debuggee: &Debuggee, text: &str) -> Watched {
    Watched::Expression { text: text.into(), frame: FrameRef::of(debuggee.thread(), 0) }
}

pub(crate) fn last_write(
    debuggee: &mut Debuggee,
    text: &str,
    depth: u32,
) -> Result<Vec<MemoryWrite>, DebugError> {
    let watched = watched(debuggee, text);
    debuggee.backend().time_travel().expect("it travels").last_write(&watched, depth)
}

#[test]
fn a_watchpoint_is_met_in_the_past_where_one_had_stopped_for_it() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    let watched = watched(&debuggee, "number");
    let watchpoint = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watchpoint)).expect("it can be watched");
    let mut seen = Vec::new();
    for expected in ["1", "2", "3"] {
        assert_eq!(debuggee.go().reason, StopReason::Watchpoint);
        assert_eq!(debuggee.value_of("number"), expected);
        seen.push(now(&mut debuggee));
    }
    for moment in seen.iter().rev().skip(1) {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Watchpoint);
        assert_eq!(now(&mut debuggee), *moment);
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    for (moment, expected) in seen.iter().zip(["1", "2"]) {
        let stop = debuggee.go().clone();
        assert_eq!((stop.reason, debuggee.value_of("number").as_str()), (StopReason::Watchpoint, expected));
        assert_eq!(now(&mut debuggee), *moment);
    }
    // The last of them is the present.
    assert_eq!(debuggee.go().reason, StopReason::Present);
    assert_eq!((debuggee.value_of("number").as_str(), now(&mut debuggee)), ("3", seen[2].clone()));
}

fn watch(debuggee: &mut Debuggee, text: &str, access: Access, condition: Option<&str>) {
    let watched = watched(debuggee, text);
    let condition = condition.map(str::to_owned);
    let watchpoint = Watchpoint { watched, access, condition, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watchpoint)).expect("it can be watched");
}

/// All moments at which a program stops, up to its end.
fn stops_to_the_end(debuggee: &mut Debuggee) -> Vec<Moment> {
    let mut seen = Vec::new();
    while debuggee.go().reason != StopReason::Exit {
        seen.push(now(debuggee));
    }
    seen
}

/// The same backwards from the end, and then forwards through the past, where the last one is met, too.
fn check_both_ways(debuggee: &mut Debuggee, seen: &[Moment], reason: StopReason) {
    for moment in seen.iter().rev() {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, reason);
        assert_eq!(now(debuggee), *moment, "of {seen:?}");
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    for moment in seen {
        assert_eq!(debuggee.go().reason, reason);
        assert_eq!(now(debuggee), *moment, "of {seen:?}");
    }
    assert_eq!(debuggee.go().reason, StopReason::Exit);
}

#[test]
fn a_watchpoint_stops_at_the_same_accesses_in_both_directions() {
    // Five times in a loop, once each to add, to assign and to copy.
    for (access, expected) in [(Access::Read, 8), (Access::Write, 22), (Access::ReadWrite, 30)] {
        let mut debuggee = Debuggee::record(&Fixture::c("accesses"), &[]);
        watch(&mut debuggee, "cell", access, None);
        let seen = stops_to_the_end(&mut debuggee);
        assert_eq!(seen.len(), expected, "{access:?}");
        check_both_ways(&mut debuggee, &seen, StopReason::Watchpoint);
    }
}

#[test]
fn the_condition_of_a_watchpoint_holds_in_both_directions() {
    for (condition, expected) in [("cell % 7 == 3", 3), ("cell == 1000", 0)] {
        let mut debuggee = Debuggee::record(&Fixture::c("accesses"), &[]);
        watch(&mut debuggee, "cell", Access::Write, Some(condition));
        let seen = stops_to_the_end(&mut debuggee);
        assert_eq!(seen.len(), expected, "{condition}");
        check_both_ways(&mut debuggee, &seen, StopReason::Watchpoint);
    }
}

fn counted(debuggee: &Debuggee, hit_count: u64, multiple: u64, condition: Option<&str>) -> CodeBreakpoint {
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("pass"));
    CodeBreakpoint {
        hit_count,
        hit_count_multiple: multiple,
        condition: condition.map(str::to_owned),
        ..CodeBreakpoint::at(Place::Line { file, line })
    }
}

#[test]
fn hits_of_a_breakpoint_have_the_same_numbers_in_both_directions() {
    let cases: [(u64, u64, Option<&str>, &[&str]); 4] = [
        (0, 3, None, &["2", "5", "8", "11"]),
        (9, 0, None, &["8", "9", "10", "11"]),
        (5, 2, None, &["5", "7", "9", "11"]),
        (0, 2, Some("number % 2 == 0"), &["2", "6", "10"]),
    ];
    for (hit_count, multiple, condition, expected) in cases {
        let mut debuggee = Debuggee::record(&Fixture::c("accesses"), &[]);
        let breakpoint = counted(&debuggee, hit_count, multiple, condition);
        let id = debuggee.add(breakpoint).id;
        let mut seen = Vec::new();
        while debuggee.go().reason != StopReason::Exit {
            seen.push((debuggee.value_of("number"), now(&mut debuggee)));
        }
        let numbers: Vec<_> = seen.iter().map(|(number, _)| number.as_str()).collect();
        assert_eq!(numbers, expected);
        let seen: Vec<_> = seen.into_iter().map(|(_, moment)| moment).collect();
        check_both_ways(&mut debuggee, &seen, StopReason::Breakpoint);
        // However one came there: hits that were not passed count, too.
        debuggee.movement(Movement::Goto(Destination::Moment(seen[1].clone())));
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
        assert_eq!(now(&mut debuggee), seen[0]);
        let told = debuggee.backend().breakpoints().unwrap();
        let first = multiple.max(1) * hit_count.max(multiple).div_ceil(multiple.max(1));
        assert_eq!((told[0].id, told[0].hit_count), (id, first), "{hit_count} {multiple}");
        debuggee.movement(Movement::Goto(Destination::Start));
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
        assert_eq!(now(&mut debuggee), seen[0]);
    }
}

#[test]
fn hits_before_a_breakpoint_was_set_are_numbered_from_there() {
    let mut debuggee = Debuggee::record(&Fixture::c("accesses"), &[]);
    debuggee.run_to("done");
    let breakpoint = counted(&debuggee, 0, 3, None);
    debuggee.add(breakpoint);
    for expected in ["9", "6", "3", "0"] {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
        assert_eq!(debuggee.value_of("number"), expected);
    }
    for expected in ["3", "6", "9"] {
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
        assert_eq!(debuggee.value_of("number"), expected);
    }
    assert_eq!(debuggee.go().reason, StopReason::Present);
}

#[test]
fn behind_the_end_of_the_recording_nobody_is_said_to_have_written_and_the_way_back_tells_of_the_gap() {
    let mut debuggee = Debuggee::record(&Fixture::c("gap"), &[]);
    debuggee.run_to("behind");
    // It is known at once.
    let told = debuggee.backend().time_travel().unwrap().recording().unwrap().reason.unwrap_or_default();
    assert!(
        told.contains("the recording ends at moment") && told.contains("restricts the system calls"),
        "{told}"
    );
    for name in ["shared", "after", "before"] {
        match last_write(&mut debuggee, name, 1) {
            Err(DebugError::NoHistory(reason)) => {
                assert!(reason.what.contains("the program restricts the system calls"), "{reason}");
                assert!(matches!(reason.remedies[0], Remedy::AskAt(_)), "{reason:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let thread = debuggee.thread();
    let stop =
        debuggee.movement(Movement::StepBack { thread, granularity: Granularity::Over, count: 1 }).clone();
    let end = now(&mut debuggee);
    let detail = stop.detail.unwrap();
    assert!(detail.contains(&format!("the recording ends at moment {end}")), "{detail}");
    assert!(detail.contains("what came after cannot be visited"), "{detail}");
    // There, one can ask again.
    let restrict = debuggee.break_at("restrict");
    assert_eq!(debuggee.movement(Movement::ReverseContinue).detail, None);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("restrict")));
    debuggee.backend().remove_breakpoint(restrict.id).unwrap();
    let writes = last_write(&mut debuggee, "before", 1).unwrap();
    assert_eq!(writes[0].location.line, Some(debuggee.built.line("before")));
    assert!(last_write(&mut debuggee, "shared", 1).unwrap().is_empty());
    // Forwards one comes out behind what was not recorded.
    let stop = debuggee.go().clone();
    assert_eq!(stop.reason, StopReason::Present);
    assert!(stop.detail.unwrap().contains("what led here is not recorded"));
    debuggee.break_at("before");
    let stop = debuggee.movement(Movement::ReverseContinue).clone();
    assert_eq!(stop.reason, StopReason::Breakpoint);
    assert!(stop.detail.unwrap().contains(&format!("the recording ends at moment {end}")));
    // After the end of the program it is the same.
    debuggee.movement(Movement::Goto(Destination::Present));
    debuggee.expect_exit(0);
    match last_write(&mut debuggee, "shared", 1) {
        Err(DebugError::NoHistory(reason)) => {
            assert!(reason.what.contains("restricts the system calls"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    debuggee.movement(Movement::Goto(Destination::Percent(100)));
    assert_eq!(now(&mut debuggee), end);
    debuggee.movement(Movement::Goto(Destination::Present));
    let stop = debuggee.movement(Movement::ReverseContinue).clone();
    assert!(stop.detail.unwrap().contains(&format!("the recording ends at moment {end}")));
}

#[test]
fn what_the_system_put_in_the_place_of_other_memory_is_a_write_by_the_system() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    debuggee.run_to("done");
    for (name, mark) in [("reused[0]", "mapping"), ("dropped[0]", "drop")] {
        let writes = last_write(&mut debuggee, name, 1).unwrap();
        assert_eq!((writes.len(), writes[0].by), (1, Writer::Kernel), "{name}: {writes:?}");
        assert_eq!(writes[0].new, "0 (0x0)", "{name}: {writes:?}");
        let line = Some(debuggee.built.line(mark));
        assert!(writes[0].stack.frames.iter().any(|frame| frame.location.line == line), "{name}: {writes:?}");
    }
    let writes = last_write(&mut debuggee, "grown[1000]", 1).unwrap();
    assert_eq!((writes[0].by, writes[0].old.as_str()), (Writer::Kernel, "not mapped"), "{writes:?}");
}

#[test]
fn a_value_that_the_system_moved_is_followed_to_where_it_was_written() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    debuggee.run_to("done");
    let writes = last_write(&mut debuggee, "moved[7]", 1).unwrap();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!(writes[0].by, Writer::Kernel, "{writes:?}");
    assert!(writes[0].location.function.as_ref().unwrap().contains("mremap"), "{writes:?}");
    assert!(writes[0].from.as_ref().unwrap().starts_with("4 bytes at "), "{writes:?}");
    assert_eq!(writes[1].by, Writer::Program, "{writes:?}");
    assert_eq!(writes[1].location.line, Some(debuggee.built.line("before_move")));
    assert_eq!((writes[1].old.as_str(), writes[1].new.as_str()), ("0 (0x0)", "123 (0x7b)"));
}

#[test]
fn numbers_with_a_point_are_told_and_followed_as_such() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    debuggee.run_to("double");
    let source = debuggee.value_of("&copy");
    debuggee.run_to("done");
    let writes = last_write(&mut debuggee, "point.y", 1).unwrap();
    assert_eq!(writes[0].location.line, Some(debuggee.built.line("double")), "{writes:?}");
    assert_eq!((writes[0].old.as_str(), writes[0].new.as_str()), ("0.0", "2.5"));
    let from = writes[0].from.clone().unwrap();
    let address = from.strip_prefix("8 bytes at ").unwrap_or_else(|| panic!("{from}"));
    assert!(source.contains(address), "{source} {from}");
    let writes = last_write(&mut debuggee, "point.weight", 1).unwrap();
    assert_eq!((writes[0].old.as_str(), writes[0].new.as_str()), ("0.0", "2.5"));
    // It was computed from a number of another kind.
    assert_eq!(writes[0].from, None);
}

#[test]
fn after_the_end_of_a_program_the_last_write_is_told_as_of_its_last_moment() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    debuggee.run_to("done");
    let there = last_write(&mut debuggee, "point.y", 1).unwrap();
    debuggee.expect_exit(0);
    assert_eq!(last_write(&mut debuggee, "point.y", 1).unwrap(), there);
    assert_eq!(debuggee.backend().run(Movement::Continue).unwrap_err(), DebugError::Ended);
}

#[test]
fn of_memory_that_is_not_mapped_no_write_is_told() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    debuggee.run_to("done");
    let watched = Watched::Memory { address: RuntimeAddr(0x10), size: 8 };
    for watched in [watched, watched_at_null(&debuggee)] {
        match debuggee.backend().time_travel().unwrap().last_write(&watched, 1) {
            Err(DebugError::Expression(reason)) => {
                assert!(reason.what.contains("nothing is mapped at 0x"), "{reason}");
                assert_eq!(reason.remedies[0], Remedy::advice("ask for the pointer that leads there"));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn watched_at_null(debuggee: &Debuggee) -> Watched {
    watched(debuggee, "*(long *)8")
}

/// The search is interrupted again and again, and yet comes to an end.
#[test]
fn a_search_for_a_write_goes_on_where_it_was_interrupted() {
    let mut debuggee = Debuggee::record(&Fixture::c("phases"), &["150"]);
    debuggee.run_to("done");
    let here = now(&mut debuggee);
    let interrupt = debuggee.backend().interrupt();
    let (over, ended) = std::sync::mpsc::channel::<()>();
    let bell = std::thread::spawn(move || {
        let period = std::time::Duration::from_millis(100);
        while ended.recv_timeout(period) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    let mut tries = 0;
    let writes = loop {
        tries += 1;
        match last_write(&mut debuggee, "old", 1) {
            Err(DebugError::GivenUp(_)) => assert_eq!(now(&mut debuggee), here),
            other => break other.unwrap(),
        }
    };
    drop(over);
    bell.join().unwrap();
    assert!(tries > 1, "nobody interrupted it");
    assert_eq!(writes[0].location.line, Some(debuggee.built.line("old")), "{writes:?}");
}

#[test]
fn a_system_call_is_not_blamed_for_what_it_left_alone() {
    let mut debuggee = Debuggee::record(&Fixture::c("asked"), &[]);
    debuggee.run_to("done");
    let expected = [
        ("waiting.fd", "descriptor"),
        ("status", "status"),
        ("left.tv_sec", "left"),
        ("about.st_size", "size"),
        ("waiting.revents", "poll"),
    ];
    let below = last_write(&mut debuggee, "below", 1).unwrap().remove(0);
    assert_eq!((below.old.as_str(), below.new.as_str()), ("0 (0x0)", "-6 (0xfffffffa)"));
    for (text, mark) in expected {
        let write = last_write(&mut debuggee, text, 1).unwrap().remove(0);
        let by = if mark == "poll" { Writer::Kernel } else { Writer::Program };
        assert_eq!(write.by, by, "{text}: {write:?}");
        if by == Writer::Program {
            assert_eq!(write.location.line, Some(debuggee.built.line(mark)), "{text}: {write:?}");
        }
    }
}
