//! Who wrote, and what, in the past of a program.

use hindcast_core::debug::{Access, FrameRef, Moment, Movement, StopReason, Trigger, Watched, Watchpoint};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn now(debuggee: &mut Debuggee) -> Moment {
    debuggee.backend().time_travel().expect("it travels").now().expect("there is a moment").moment
}

fn watched(debuggee: &Debuggee, text: &str) -> Watched {
    Watched::Expression { text: text.into(), frame: FrameRef { thread: debuggee.thread(), index: 0 } }
}

#[test]
fn a_watchpoint_is_met_in_the_past_where_one_had_stopped_for_it() {
    let mut debuggee = Debuggee::record(&Fixture::c("writes"), &[]);
    let watched = watched(&debuggee, "number");
    let watchpoint = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watchpoint)).unwrap();
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
