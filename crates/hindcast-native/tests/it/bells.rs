//! Interrupts that come while nothing moves: none is lost, and none disturbs.

use hindcast_core::debug::{
    DebugError, Destination, FrameRef, Granularity, Movement, Outcome, Place, RuntimeAddr, StopReason,
    Watched,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn address(debuggee: &mut Debuggee) -> RuntimeAddr {
    debuggee.frames()[0].location.address.expect("it has an address")
}

/// Interrupts before it moves: that ends at once and where it was, and resuming carries it out.
#[track_caller]
fn moves_when_resumed(debuggee: &mut Debuggee, movement: Movement) -> StopReason {
    let before = address(debuggee);
    debuggee.backend().interrupt().interrupt();
    let interrupted = debuggee.backend().run(movement.clone()).expect("it moves");
    assert_eq!(interrupted, Outcome::Interrupted, "{movement:?}");
    assert_eq!(address(debuggee), before, "{movement:?}");
    let Outcome::Stopped(stop) = debuggee.backend().run(Movement::Resume).expect("it moves") else {
        panic!("it was answered already: {movement:?}");
    };
    assert_ne!(address(debuggee), before, "{movement:?}");
    stop.reason
}

#[test]
fn an_interrupt_before_a_movement_ends_it_before_anything_moves() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    let thread = debuggee.thread();
    let step = |granularity| Movement::Step { thread, granularity, count: 1 };
    let back = |granularity| Movement::StepBack { thread, granularity, count: 1 };
    debuggee.break_at("square_body");
    for granularity in [Granularity::Instruction, Granularity::Line, Granularity::Over] {
        assert_eq!(moves_when_resumed(&mut debuggee, step(granularity)), StopReason::Step);
    }
    assert_eq!(moves_when_resumed(&mut debuggee, Movement::Continue), StopReason::Breakpoint);
    assert_eq!(moves_when_resumed(&mut debuggee, step(Granularity::Out)), StopReason::Step);
    let add = Movement::RunTo(Place::Function("add".into()));
    assert_eq!(moves_when_resumed(&mut debuggee, add), StopReason::Step);
    // Into the past, in it, and back.
    assert_eq!(moves_when_resumed(&mut debuggee, back(Granularity::Instruction)), StopReason::Step);
    assert_eq!(moves_when_resumed(&mut debuggee, Movement::ReverseContinue), StopReason::Breakpoint);
    assert_eq!(moves_when_resumed(&mut debuggee, step(Granularity::Line)), StopReason::Step);
    let start = Movement::Goto(Destination::Start);
    assert_eq!(moves_when_resumed(&mut debuggee, start), StopReason::Goto);
    assert_eq!(moves_when_resumed(&mut debuggee, Movement::Continue), StopReason::Breakpoint);
}

#[test]
fn a_movement_that_was_interrupted_before_it_began_can_be_given_up() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let before = address(&mut debuggee);
    debuggee.backend().interrupt().interrupt();
    let square = Movement::RunTo(Place::Function("square".into()));
    assert_eq!(debuggee.backend().run(square).unwrap(), Outcome::Interrupted);
    assert_eq!(debuggee.backend().pause().unwrap().reason, StopReason::Pause);
    assert_eq!(address(&mut debuggee), before);
    // It does not stop there any more.
    debuggee.expect_exit(0);
}

#[test]
fn a_late_interrupt_is_answered_once_and_disturbs_no_question() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    debuggee.break_at("square_body");
    debuggee.go();
    let interrupt = debuggee.backend().interrupt();
    // It has stopped for a breakpoint meanwhile.
    interrupt.interrupt();
    interrupt.interrupt();
    debuggee.value_of("number");
    assert_eq!(debuggee.backend().threads().unwrap().len(), 1);
    let watched = Watched::Expression { text: "number".into(), frame: FrameRef::of(debuggee.thread(), 0) };
    let here = address(&mut debuggee);
    let ask = |debuggee: &mut Debuggee| debuggee.backend().time_travel().unwrap().last_write(&watched, 1);
    assert!(matches!(ask(&mut debuggee), Err(DebugError::GivenUp(_))));
    assert!(!ask(&mut debuggee).unwrap().is_empty());
    assert_eq!(address(&mut debuggee), here);
    // What was answered is not answered again.
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
    // The same in the past.
    debuggee.movement(Movement::ReverseContinue);
    interrupt.interrupt();
    debuggee.value_of("number");
    assert_eq!(debuggee.backend().run(Movement::Continue).unwrap(), Outcome::Interrupted);
    assert!(matches!(debuggee.backend().run(Movement::Resume).unwrap(), Outcome::Stopped(_)));
}
