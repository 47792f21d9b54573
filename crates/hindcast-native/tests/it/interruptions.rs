//! The past of a program that is interrupted between any two of its instructions: by signals, and by the user.

use std::sync::atomic::{AtomicBool, Ordering};

use hindcast_core::debug::{
    Access, Destination, FrameRef, Granularity, Moment, Movement, RegisterSet, StopReason, ThreadId, Trigger,
    Watched, Watchpoint, Writer,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

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

fn of_value(debuggee: &Debuggee) -> Watched {
    Watched::Expression { text: "value".into(), frame: FrameRef::of(debuggee.thread(), 0) }
}

/// Stands at the last line, having stopped at each write of `value`, at these moments.
fn with_writes_seen() -> (Debuggee, Vec<(Moment, String)>) {
    let mut debuggee = Debuggee::record(&Fixture::c("interrupts"), &[]);
    let watched = of_value(&debuggee);
    let watchpoint = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watchpoint)).expect("it can be watched");
    let done = debuggee.break_at("done");
    let mut seen = Vec::new();
    while debuggee.go().reason == StopReason::Watchpoint {
        let value = debuggee.value_of("value");
        seen.push((now(&mut debuggee).0, value));
    }
    assert_eq!(debuggee.stop.breakpoints, [done.id]);
    let values: Vec<_> = seen.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["11", "22", "33", "44", "55"]);
    (debuggee, seen)
}

#[test]
fn the_writes_between_signals_are_met_again_backwards_each_once_and_where_they_were() {
    let (mut debuggee, seen) = with_writes_seen();
    assert!(debuggee.value_of("ticks").parse::<u32>().unwrap() > 3);
    for (moment, value) in seen.iter().rev() {
        let stop = debuggee.movement(Movement::ReverseContinue).clone();
        assert_eq!(stop.reason, StopReason::Watchpoint, "{stop:?}");
        assert_eq!((now(&mut debuggee).0, debuggee.value_of("value")), (moment.clone(), value.clone()));
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
}

#[test]
fn the_last_write_between_signals_is_that_of_the_program() {
    let (mut debuggee, seen) = with_writes_seen();
    let mut moments: Vec<_> = seen.iter().map(|(moment, value)| (moment.clone(), value)).collect();
    // In the middle of what it computes, too: right before the next write.
    for (moment, value) in seen.iter().skip(1).zip(&seen).map(|((later, _), (_, value))| (later, value)) {
        debuggee.movement(Movement::Goto(Destination::Moment(moment.clone())));
        let thread = debuggee.thread();
        let granularity = Granularity::Instruction;
        debuggee.movement(Movement::StepBack { thread, granularity, count: 1 });
        moments.push((now(&mut debuggee).0, value));
    }
    for (moment, value) in moments {
        debuggee.movement(Movement::Goto(Destination::Moment(moment)));
        assert_eq!(debuggee.value_of("value"), *value);
        let watched = of_value(&debuggee);
        let writes = debuggee.backend().time_travel().unwrap().last_write(&watched, 1).unwrap();
        assert_eq!(writes[0].by, Writer::Program, "{writes:?}");
        assert_eq!(writes[0].location.line, Some(debuggee.built.line("set")));
        assert!(writes[0].new.starts_with(value), "{value}: {writes:?}");
    }
}

#[test]
fn the_handler_and_what_it_interrupts_are_passed_again_as_often_as_the_first_time() {
    // So many that not all copies of the process can be kept.
    let mut debuggee = Debuggee::record(&Fixture::c("interrupts"), &["2500", "20"]);
    debuggee.run_to("done");
    let ticks: usize = debuggee.value_of("ticks").parse().unwrap();
    let present = now(&mut debuggee).0;
    debuggee.break_at("set");
    debuggee.break_at("tick");
    let mut stops = Vec::new();
    while debuggee.movement(Movement::ReverseContinue).reason == StopReason::Breakpoint {
        let function = debuggee.function();
        stops.push((now(&mut debuggee).0, function, debuggee.value_of("ticks")));
    }
    stops.reverse();
    assert_eq!(stops.iter().filter(|(_, function, _)| function == "on_alarm").count(), ticks);
    assert_eq!(stops.len(), ticks + 5);
    let mut again = Vec::new();
    while debuggee.go().reason == StopReason::Breakpoint {
        let function = debuggee.function();
        again.push((now(&mut debuggee).0, function, debuggee.value_of("ticks")));
    }
    assert_eq!(again, stops);
    assert_eq!((debuggee.stop.reason, now(&mut debuggee)), (StopReason::Present, (present, false)));
}

#[test]
fn what_the_user_changed_between_steps_is_changed_again_at_that_moment() {
    // Without signals.
    let mut debuggee = Debuggee::record(&Fixture::c("interrupts"), &["0"]);
    debuggee.run_to("set");
    let mut seen = vec![(now(&mut debuggee).0, debuggee.value_of("value"))];
    for number in [0, 0, 7, 0] {
        debuggee.step(Granularity::Instruction);
        seen.push((now(&mut debuggee).0, debuggee.value_of("value")));
        if number != 0 {
            debuggee.value_of(&format!("value = {number}"));
            seen.push((now(&mut debuggee).0, debuggee.value_of("value")));
        }
    }
    let values: Vec<_> = seen.iter().map(|(_, value)| value.as_str()).collect();
    assert!(values.ends_with(&["11", "7", "7"]), "{values:?}");
    for (moment, value) in seen.iter().rev() {
        debuggee.movement(Movement::Goto(Destination::Moment(moment.clone())));
        assert_eq!(debuggee.value_of("value"), *value, "{moment}");
    }
    for (_, value) in &seen[1..] {
        debuggee.step(Granularity::Instruction);
        assert_eq!(debuggee.value_of("value"), *value);
    }
    assert!(!now(&mut debuggee).1);
    let thread = debuggee.thread();
    for (_, value) in seen.iter().rev().skip(1) {
        debuggee.movement(Movement::StepBack { thread, granularity: Granularity::Instruction, count: 1 });
        assert_eq!(debuggee.value_of("value"), *value);
    }
}

#[test]
fn the_writes_between_signals_are_met_again_forwards_where_one_had_stopped() {
    let (mut debuggee, seen) = with_writes_seen();
    let present = now(&mut debuggee).0;
    while debuggee.movement(Movement::ReverseContinue).reason != StopReason::HistoryStart {}
    for (moment, value) in &seen {
        let stop = debuggee.go().clone();
        assert_eq!(stop.reason, StopReason::Watchpoint, "{stop:?}");
        assert_eq!((now(&mut debuggee).0, debuggee.value_of("value")), (moment.clone(), value.clone()));
    }
    assert_eq!(debuggee.go().reason, StopReason::Present);
    assert_eq!(now(&mut debuggee), (present, false));
}

#[test]
fn steps_between_signals_are_made_again_backwards() {
    let mut debuggee = Debuggee::record(&Fixture::c("interrupts"), &["1000"]);
    debuggee.run_to("set");
    let place = |debuggee: &mut Debuggee| (debuggee.value_of("$rip"), debuggee.value_of("$rsp"));
    let mut seen = Vec::new();
    for _ in 0..300 {
        seen.push((now(&mut debuggee).0, place(&mut debuggee), debuggee.value_of("ticks")));
        debuggee.step(Granularity::Instruction);
    }
    assert!(seen.first().unwrap().2 != seen.last().unwrap().2, "no signal came");
    let thread = debuggee.thread();
    for (moment, wanted, ticks) in seen.iter().rev() {
        // A signal that came within a step is one more on the way back.
        for _ in 0..3 {
            debuggee.movement(Movement::StepBack { thread, granularity: Granularity::Instruction, count: 1 });
            if place(&mut debuggee) == *wanted {
                break;
            }
        }
        assert_eq!((place(&mut debuggee), debuggee.value_of("ticks")), (wanted.clone(), ticks.clone()));
        debuggee.movement(Movement::Goto(Destination::Moment(moment.clone())));
        assert_eq!((place(&mut debuggee), debuggee.value_of("ticks")), (wanted.clone(), ticks.clone()));
    }
}

/// Forwards and backwards over the call that raises a signal, one instruction at a time: the handler comes at once.
#[test]
fn a_signal_that_comes_right_behind_its_call_is_met_in_both_directions() {
    let mut debuggee = Debuggee::record(&Fixture::c("raised"), &[]);
    let thread = debuggee.thread();
    let granularity = Granularity::Instruction;
    debuggee.break_at("handler");
    debuggee.go();
    debuggee.go();
    assert_eq!((debuggee.value_of("handled").as_str(), debuggee.value_of("went_on").as_str()), ("1", "1"));
    let mut back = Vec::new();
    for _ in 0..12 {
        back.push((now(&mut debuggee).0, debuggee.frames()[0].location.address));
        debuggee.movement(Movement::StepBack { thread, granularity, count: 1 });
    }
    assert_ne!(debuggee.function(), "handler");
    for (moment, address) in back.iter().rev() {
        debuggee.step(granularity);
        assert_eq!(debuggee.frames()[0].location.address, *address, "{moment:?}");
        assert_eq!(
            (debuggee.value_of("handled").as_str(), debuggee.value_of("went_on").as_str()),
            ("1", "1")
        );
    }
    // Moments sort in the order of time, whichever way they were come to.
    for (later, earlier) in back.iter().zip(&back[1..]) {
        assert!(earlier.0.0 < later.0.0, "{earlier:?} {later:?}");
    }
}

/// Whether a signal for the whole process waits.
fn has_waiting_signal(process: ThreadId) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0)).expect("it is there");
    let waiting = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).expect("it is told");
    waiting.trim().contains(|digit| digit != '0')
}

#[test]
fn faults_are_told_once_while_a_timer_runs_and_in_both_directions() {
    let mut debuggee = Debuggee::record(&Fixture::c("alarmed"), &["12"]);
    let done = debuggee.break_at("done");
    let is_fault = |stop: &hindcast_core::debug::Stop| {
        stop.reason == StopReason::Signal
            && stop.signal.as_ref().is_some_and(|signal| signal.name == "SIGSEGV")
    };
    let mut live = Vec::new();
    while is_fault(debuggee.go()) {
        live.push((now(&mut debuggee).0, debuggee.value_of("faults"), debuggee.stop.detail.clone()));
        // The timer comes while it stands there.
        while !has_waiting_signal(debuggee.thread()) {
            std::thread::yield_now();
        }
    }
    assert_eq!((&debuggee.stop.breakpoints, live.len()), (&vec![done.id], 12));
    for expected in live.iter().rev() {
        let stop = debuggee.movement(Movement::ReverseContinue).clone();
        assert!(is_fault(&stop), "{stop:?}");
        assert_eq!((now(&mut debuggee).0, debuggee.value_of("faults"), stop.detail), *expected);
    }
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    for expected in &live {
        let stop = debuggee.go().clone();
        assert!(is_fault(&stop), "{stop:?}");
        assert_eq!((now(&mut debuggee).0, debuggee.value_of("faults"), stop.detail), *expected);
    }
}

/// Where a step back from the last line ends, by all registers.
fn one_back(debuggee: &mut Debuggee) -> (Moment, Vec<Option<String>>) {
    let thread = debuggee.thread();
    debuggee.movement(Movement::StepBack { thread, granularity: Granularity::Instruction, count: 1 });
    let frame = FrameRef::of(debuggee.thread(), 0);
    let registers = debuggee.backend().registers().expect("it sees registers");
    let registers = registers.registers(frame, RegisterSet::General).expect("they can be read");
    (now(debuggee).0, registers.into_iter().map(|register| register.value).collect())
}

fn prepare(debuggee: &mut Debuggee) -> bool {
    debuggee.backend().time_travel().expect("it travels").prepare().expect("it tries")
}

#[test]
fn a_step_back_that_was_prepared_ends_where_it_would_have_ended() {
    let mut debuggee = Debuggee::record(&Fixture::c("hot"), &[]);
    debuggee.run_to("done");
    assert!(prepare(&mut debuggee), "nobody wanted anything else");
    let present = now(&mut debuggee);
    assert!(!present.1, "nothing moves");
    let prepared = one_back(&mut debuggee);
    // In the past, too.
    assert!(prepare(&mut debuggee));
    debuggee.movement(Movement::Goto(Destination::Present));
    assert_eq!(now(&mut debuggee), present);
    let mut another = Debuggee::record(&Fixture::c("hot"), &[]);
    another.run_to("done");
    assert_eq!(one_back(&mut another).1, prepared.1);
}

#[test]
fn who_wants_something_else_does_not_wait_for_what_is_prepared() {
    let mut debuggee = Debuggee::record(&Fixture::c("hot"), &[]);
    debuggee.run_to("done");
    let bell = debuggee.backend().interrupt();
    // One that comes before it begins.
    bell.interrupt();
    assert!(!prepare(&mut debuggee));
    // Again and again, wherever it is: within `hot` a preparation takes much longer than these.
    for round in 0..40_u32 {
        let over = AtomicBool::new(false);
        let prepared = std::thread::scope(|scope| {
            let (bell, over) = (&bell, &over);
            scope.spawn(move || {
                let mut turns = 0;
                while !over.load(Ordering::SeqCst) {
                    turns += 1;
                    if turns > round * 500 {
                        bell.interrupt();
                    }
                    std::thread::yield_now();
                }
            });
            let prepared = prepare(&mut debuggee);
            over.store(true, Ordering::SeqCst);
            prepared
        });
        if prepared {
            // It was over before; what it found is as good as what is found now.
            break;
        }
    }
    // The last interruption may still be remembered: then this ends for it at once, and the next one does not.
    let _ = prepare(&mut debuggee) || prepare(&mut debuggee);
    let (_, registers) = one_back(&mut debuggee);
    let mut another = Debuggee::record(&Fixture::c("hot"), &[]);
    another.run_to("done");
    assert_eq!(one_back(&mut another).1, registers);
}
