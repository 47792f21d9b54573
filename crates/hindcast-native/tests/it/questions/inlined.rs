//! Functions whose first instructions are those of others: who asks for a function is told of it, and not of what is
//! inlined at its beginning.

use hindcast_core::debug::{CodeBreakpoint, Movement, Place, StopReason, Which};
use hindcast_fixtures::Fixture;

use super::{When, calls};
use crate::debuggee::Debuggee;

fn program() -> Debuggee {
    let mut debuggee = Debuggee::record(&Fixture::cpp("inlined_first").flags(["-O2"]), &[]);
    debuggee.run_to("printed");
    debuggee
}

#[test]
fn the_programs_own_functions_are_traced_with_their_own_arguments() {
    let mut debuggee = program();
    let trace = calls(&mut debuggee, None, 9);
    for name in ["outer", "length"] {
        let times: u64 = trace.calls.iter().filter(|call| call.function == name).map(|call| call.times).sum();
        assert_eq!(times, 9, "{name}: {trace:?}");
    }
    let trace = calls(&mut debuggee, Some("outer"), 9);
    let [call] = &trace.calls[..] else { panic!("{trace:?}") };
    let named = |values: &[hindcast_core::debug::CallValue]| -> Vec<String> {
        values.iter().filter(|value| value.name == "factor").map(|value| value.value.clone()).collect()
    };
    assert_eq!((call.times, named(&call.arguments)), (9, vec!["10".to_owned()]), "{call:?}");
    assert_eq!(call.last_arguments.as_deref().map(named), Some(vec!["18".to_owned()]), "{call:?}");
}

#[test]
fn a_condition_at_a_function_sees_its_arguments() {
    let mut debuggee = program();
    let every = When { at: Some("outer"), which: Which::Every, ..When::new("factor % 4 == 0") };
    let history = every.told(&mut debuggee);
    assert_eq!((history.judged, history.unknown, history.changes.len()), (9, 0, 2), "{history:?}");
    let condition = Some("factor == 16".to_owned());
    debuggee.add(CodeBreakpoint { condition, ..CodeBreakpoint::at(Place::Function("outer".into())) });
    debuggee.movement(Movement::ReverseContinue);
    for _ in 0..2 {
        assert_eq!((debuggee.stop.reason, debuggee.function()), (StopReason::Breakpoint, "outer".to_owned()));
        assert_eq!(debuggee.value_of("factor"), "16");
        // From the other side, too.
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
        debuggee.go();
    }
}
