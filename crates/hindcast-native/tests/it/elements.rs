//! Expressions over many values at once, compared with what the programs count themselves.

use hindcast_core::debug::{CodeBreakpoint, Place};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

/// A program that has counted, and what it prints next.
fn counted<const N: usize>(fixture: &Fixture) -> (Debuggee, [String; N]) {
    let mut debuggee = Debuggee::launch(fixture, &[]);
    debuggee.run_to("counted");
    let printed = std::process::Command::new(fixture.build().path).output().expect("it runs").stdout;
    let printed = String::from_utf8(printed).expect("it prints text");
    let words: Vec<_> = printed.split_whitespace().map(str::to_owned).collect();
    (debuggee, words.try_into().expect("it prints so many numbers"))
}

#[track_caller]
fn check(debuggee: &mut Debuggee, expressions: &[(&str, &str)]) {
    for (expression, wanted) in expressions {
        assert_eq!(debuggee.value_of(expression), *wanted, "{expression}");
    }
}

#[test]
fn elements_of_c_come_to_what_the_program_counts() {
    let (mut debuggee, printed) = counted(&Fixture::c("many"));
    let [states, waiting, weights, total, least, largest, shared] = &printed;
    check(
        &mut debuggee,
        &[
            ("count(builds[*].job[*], state == 3)", states),
            ("count(builds[*].job[*], state == 3 && waiter)", waiting),
            ("count(builds)", "20"),
            ("count(builds[*].job[*])", "100"),
            ("count(builds[3..5][*].job[*])", "10"),
            // More than one of them can hold.
            ("sum(builds[*].weight)", weights),
            ("max(builds[*].job[*].id)", "194"),
            ("min(builds[*].job[2..4][*].id, it > 50)", "52"),
            ("sum(list(head, next).value)", total),
            ("count(list(head, next))", "1000"),
            ("min(list(head, next).value)", least),
            ("max(list(head, next).value)", largest),
            ("sum(list(head->next, next).value) + head->value", total),
            ("sum(tree(root, below.left, below.right).value)", total),
            ("sum(list(buckets[*], next).value)", shared),
            ("count(list(empty, next))", "0"),
            ("count(list(ring, next))", "4"),
            ("any(builds[*].weight > 218)", "true"),
            ("any(builds[*].weight, it > 219)", "false"),
            ("all(builds, weight >= 200)", "true"),
            ("all(builds[*].job[*], id < 194)", "false"),
            ("all(list(empty, next))", "true"),
            ("sum(many[0..count][*].value) == 499500", "true"),
            ("count(builds, any(job, state == 3)) > 0 && count(builds, count(job) == 5) == 20", "true"),
        ],
    );
}

#[test]
fn elements_of_cpp_come_to_what_the_program_counts() {
    let (mut debuggee, printed) = counted(&Fixture::cpp("many"));
    let [prices, paid, total, _] = &printed;
    check(
        &mut debuggee,
        &[
            ("sum(orders[*].price)", prices),
            ("count(orders, paid)", paid),
            ("count(same, paid)", paid),
            ("sum(waiting[*].price)", prices),
            ("sum(numbers)", total),
            ("sum(by_id[*].id)", total),
            ("count(by_id, key == id)", "300"),
            ("sum(by_hash[*].price)", prices),
            ("count(sorted, paid)", paid),
            ("sum(owned[*].id)", total),
            ("sum(list(chain, next).value)", total),
        ],
    );
}

#[test]
fn elements_of_rust_come_to_what_the_program_counts() {
    let (mut debuggee, printed) = counted(&Fixture::rust("many"));
    let [prices, paid, open, total, inner] = &printed;
    check(
        &mut debuggee,
        &[
            ("sum(orders[*].price)", prices),
            ("count(orders, paid)", paid),
            ("count(slice, state == Open)", open),
            ("any(orders, state == Closed(299))", "true"),
            ("sum(ring)", total),
            ("sum(by_id[*].id)", total),
            ("count(by_id, key == id)", "300"),
            ("sum(by_hash[*].price)", prices),
            ("sum(sorted)", total),
            ("sum(hashed)", total),
            ("sum(nested[*][*])", inner),
            ("max(nested[*].len())", "9"),
            ("sum(list(chain, next).value)", total),
        ],
    );
}

#[test]
fn what_cannot_be_gone_through_says_why() {
    let (mut debuggee, _) = counted::<7>(&Fixture::c("many"));
    let complaints = [
        ("count(list(knot, next))", "leads back to 0x"),
        ("builds[*].weight", "say what they come to: `count(…)`"),
        ("min(list(empty, next).value)", "there are no elements"),
        ("count(head)", "write `p[0..n]` for `n` elements from a pointer on"),
        ("sum(builds[*].job)", "is not a number"),
        ("count(builds, weigt == 3)", "did you mean `weight`?"),
    ];
    for (expression, wanted) in complaints {
        let said = debuggee.complaint(expression);
        assert!(said.contains(wanted), "{expression}: {said}");
    }
}

#[test]
fn conditions_over_many_values_stop_where_they_become_true() {
    let mut debuggee = Debuggee::launch(&Fixture::c("many"), &[]);
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("inserted"));
    let condition = Some("count(tree(root, below.left, below.right)) == 500".into());
    debuggee.add(CodeBreakpoint { condition, ..CodeBreakpoint::at(Place::Line { file, line }) });
    debuggee.go();
    assert_eq!(debuggee.value_of("i"), "499");
}
