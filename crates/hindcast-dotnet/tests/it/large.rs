//! Collections of very many items, and values that hold themselves.

use std::time::{Duration, Instant};

use hindcast_core::debug::{ValueLimits, ValueState, Variable};
use hindcast_fixtures::dotnet::Runtime;

use crate::{
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{called, check, read},
};

/// How long an answer may take, however busy the machine is. Without a limit it takes more than twice as long.
const SOON: Duration = Duration::from_secs(6);

fn stand(runtime: &Runtime) -> Debuggee {
    let mut debuggee = Plan::of("Large").launch(runtime);
    debuggee.break_at("large");
    debuggee.go_on();
    debuggee
}

#[track_caller]
fn shown(debuggee: &mut Debuggee, expression: &str, depth: u32, offset: u64) -> Variable {
    let mut evaluation = debuggee.evaluation(expression);
    evaluation.limits = ValueLimits { depth, offset, children: 2, ..ValueLimits::default() };
    if depth > 1 {
        evaluation.limits.children = ValueLimits::default().children;
    }
    let started = Instant::now();
    let shown = debuggee.backend.evaluate(&evaluation).unwrap();
    assert!(started.elapsed() < SOON, "{expression} took {:?}", started.elapsed());
    shown
}

fn parts(variable: &Variable) -> Vec<String> {
    variable.children.iter().map(|child| format!("{} = {}", child.name, child.value)).collect()
}

fn values_in(variable: &Variable) -> usize {
    1 + variable.children.iter().map(values_in).sum::<usize>()
}

on_both! {
    fn items_far_into_arrays_and_counted_trees_are_read_at_once(runtime: &Runtime) {
        let mut debuggee = stand(runtime);
        for (expression, offset, expected) in [
            ("whole", 249_998, ["[249998] = -249998", "[249999] = -249999"]),
            ("whole", 150_000, ["[150000] = -150000", "[150001] = -150001"]),
            // Every third of the first 3000 is gone.
            ("holes", 1998, ["[\"k2998\"] = 2998", "[\"k2999\"] = 2999"]),
            ("holes", 300, ["[\"k451\"] = 451", "[\"k452\"] = 452"]),
            ("holes", 248_998, ["[\"k249998\"] = 249998", "[\"k249999\"] = 249999"]),
            ("set", 249_996, ["[249996] = 249998", "[249997] = 249999"]),
            ("set", 4, ["[4] = 5", "[5] = 6"]),
            ("list", 249_998, ["[249998] = 249998", "[249999] = 249999"]),
            ("list", 0, ["[0] = 0", "[1] = 1"]),
            ("list", 131_071, ["[131071] = 131071", "[131072] = 131072"]),
        ] {
            assert_eq!(parts(&shown(&mut debuggee, expression, 1, offset)), expected, "{expression}");
        }
        check(&mut debuggee, &[("list[249999]", "249999"), ("list[^250000]", "0")], read);
    }

    fn items_behind_too_many_are_said_to_be_missing(runtime: &Runtime) {
        let mut debuggee = stand(runtime);
        for expression in ["sorted", "linked", "hashed", "shared"] {
            let far = shown(&mut debuggee, expression, 1, 249_990);
            assert_eq!((far.child_count, far.truncated), (Some(250_000), true), "{expression}");
            let [note] = far.children.as_slice() else { panic!("{expression}: {:?}", parts(&far)) };
            assert_eq!((note.name.as_str(), note.state), ("…", ValueState::Unreadable), "{expression}");
            assert!(note.value.contains("`.ElementAt(249990)` finds it with `allow_calls: true`"), "{note:?}");
        }
        let error = read(&mut debuggee, "linked[249990]").unwrap_err();
        assert!(error.contains("too many items come before [249990]"), "{error}");
        assert!(error.contains("`.ElementAt(249990)`"), "{error}");
        check(&mut debuggee, &[("linked.ElementAt(249990)", "249990")], called);
        assert_eq!(parts(&shown(&mut debuggee, "sorted", 1, 300)), ["[300] = -300", "[301] = -301"]);
        assert_eq!(parts(&shown(&mut debuggee, "linked", 1, 300)), ["[300] = 300", "[301] = 301"]);
        assert_eq!(shown(&mut debuggee, "linked", 1, 250_000).children, []);
    }

    fn a_whole_number_is_found_among_any_number_of_keys(runtime: &Runtime) {
        let mut debuggee = stand(runtime);
        let too_many = "error: the key cannot be looked for among 249000 entries without running code";
        check(&mut debuggee, &[
            ("whole[249999]", "-249999"),
            ("whole[0]", "0"),
            ("whole[-1]", "error: there is no item with the key -1"),
            ("holes[\"k249999\"]", too_many),
            ("holes[\"k249999\"]", "error: allow_calls"),
            ("holes[\"none\"]", too_many),
        ], read);
        check(&mut debuggee, &[("holes[\"k249999\"]", "249999")], called);
    }

    fn a_value_that_holds_itself_is_shown_as_far_as_an_answer_goes(runtime: &Runtime) {
        let mut debuggee = stand(runtime);
        for depth in [4, 10, u32::MAX] {
            let knot = shown(&mut debuggee, "knot", depth, 0);
            assert!((20..10_000).contains(&values_in(&knot)), "{}", values_in(&knot));
            let items = &knot.children[1];
            assert_eq!((items.child_count, items.children.len(), items.truncated), (Some(1000), 20, true));
            // The last one has as much of the answer as the first.
            assert!(!items.children[0].children.is_empty() && !items.children[19].children.is_empty());
        }
    }

    fn texts_that_hold_texts_are_cut(runtime: &Runtime) {
        let mut debuggee = stand(runtime);
        for depth in [1, 4, 10] {
            let fork = shown(&mut debuggee, "fork", depth, 0);
            assert!(fork.value.ends_with('…') && fork.value.chars().count() < 1100, "{}", fork.value);
        }
    }
}
