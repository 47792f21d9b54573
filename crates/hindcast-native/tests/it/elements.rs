//! Expressions over many values at once, compared with what the programs count themselves.

use hindcast_core::debug::{
    CodeBreakpoint, ElementPage, ElementSearch, FoundElement, FrameRef, Movement, Place, ValueLimits,
};
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
            // The same elements at two places are taken together.
            ("sum(builds[*].weight - builds[*].weight)", "0"),
            ("sum(builds[*].job[*].id * builds[*].job[*].id) == sum(builds[*].job[*].id, it >= 0)", "false"),
            ("count(builds[*].job[*], waiter == 0) + count(builds[*].job[*], waiter != 0)", "100"),
            ("sum((\"ab\")[*])", "195"),
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
    // A name that only some elements have does not mean something else for the others.
    let mut wanted = search(&mut debuggee, "some", Some("paid"));
    wanted.show = vec!["id".into()];
    let page = find(&mut debuggee, &wanted);
    assert_eq!((page.found.to_string(), page.searched, page.unknown), (paid.clone(), 301, 1));
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
        ("sum(builds[*].weight * many[0..3][*].value)", "one source of elements in an expression"),
        ("count(list(head, next, next))", "is called"),
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

fn search(debuggee: &mut Debuggee, elements: &str, condition: Option<&str>) -> ElementSearch {
    ElementSearch {
        elements: elements.into(),
        condition: condition.map(Into::into),
        show: Vec::new(),
        order: None,
        duplicates_of: None,
        frame: FrameRef::of(debuggee.thread(), 0),
        offset: 0,
        limit: 10,
        limits: ValueLimits { depth: 0, ..ValueLimits::default() },
    }
}

#[track_caller]
fn find(debuggee: &mut Debuggee, search: &ElementSearch) -> ElementPage {
    debuggee.backend().data_search().expect("it has a search").find(search).expect("it can be searched")
}

/// What was found, each as `expression: values`.
fn lines(page: &ElementPage) -> Vec<String> {
    let line = |element: &FoundElement| {
        let values: Vec<_> = element.values.iter().map(|value| value.value.as_str()).collect();
        format!("{}: {}", element.expression.as_deref().unwrap_or_default(), values.join(" "))
    };
    page.elements.iter().map(line).collect()
}

#[test]
fn elements_are_found_with_an_expression_for_each() {
    let (mut debuggee, printed) = counted::<7>(&Fixture::c("many"));
    let mut wanted = search(&mut debuggee, "builds[*].job[*]", Some("state == 3 && waiter"));
    wanted.show = vec!["id".into(), "state".into(), "waiter".into()];
    let page = find(&mut debuggee, &wanted);
    assert_eq!((page.found.to_string(), page.searched, page.unknown), (printed[1].clone(), 100, 0));
    assert_eq!(lines(&page)[0], "builds[3].job[1]: 31 3 \"someone\"");
    for element in &page.elements {
        assert_eq!(
            debuggee.value_of(&format!("{}.id", element.expression.as_ref().unwrap())),
            element.values[0].value
        );
    }

    // Pages begin where the last one ended.
    let all = lines(&page);
    wanted.limit = 2;
    wanted.offset = 1;
    assert_eq!(lines(&find(&mut debuggee, &wanted)), all[1..3]);

    wanted.order = Some("-id".into());
    (wanted.offset, wanted.limit) = (0, 10);
    let ordered = lines(&find(&mut debuggee, &wanted));
    assert!(ordered.iter().rev().eq(&all), "{ordered:?}");
}

#[test]
fn unsigned_numbers_are_ordered_largest_first() {
    let (mut debuggee, _) = counted::<7>(&Fixture::c("many"));
    let mut wanted = search(&mut debuggee, "builds[*].job[*]", None);
    wanted.show = vec!["id".into()];
    wanted.order = Some("-(unsigned)id".into());
    wanted.limit = 100;
    let ordered = lines(&find(&mut debuggee, &wanted));
    assert_eq!(
        (ordered[0].as_str(), ordered[99].as_str()),
        ("builds[19].job[4]: 194", "builds[0].job[0]: 0")
    );

    let (mut debuggee, _) = counted::<5>(&Fixture::rust("many"));
    let mut wanted = search(&mut debuggee, "nested[*]", None);
    wanted.show = vec!["it.len()".into()];
    wanted.order = Some("-it.len()".into());
    let page = find(&mut debuggee, &wanted);
    assert_eq!((page.found, page.unknown), (10, 0));
    let ordered = lines(&page);
    assert_eq!((ordered[0].as_str(), ordered[9].as_str()), ("nested[9]: 9", "nested[0]: 0"));
}

#[test]
fn elements_of_lists_and_maps_are_named_by_their_address() {
    let (mut debuggee, _) = counted::<7>(&Fixture::c("many"));
    let listed = search(&mut debuggee, "list(head, next)", Some("value == 5"));
    let page = find(&mut debuggee, &listed);
    assert_eq!((page.found, page.searched), (1, 1000));
    assert_eq!(debuggee.value_of(&format!("{}.value", page.elements[0].expression.as_ref().unwrap())), "5");
    let mut knotted = search(&mut debuggee, "list(knot, next)", None);
    knotted.limit = 3;
    let page = find(&mut debuggee, &knotted);
    assert_eq!((page.found, page.elements.len()), (4, 3));
    assert!(page.broken.is_some_and(|why| why.contains("leads back")));
    // What a condition reads is not always there.
    let far = search(&mut debuggee, "list(head, next)", Some("next->value == 5"));
    assert_eq!(find(&mut debuggee, &far).unknown, 1);

    let (mut debuggee, _) = counted::<4>(&Fixture::cpp("many"));
    let mapped = search(&mut debuggee, "by_id", Some("key == 37 && price == 0.5"));
    let page = find(&mut debuggee, &mapped);
    let name = page.elements[0].expression.clone().unwrap();
    assert_eq!(debuggee.value_of(&format!("{name}.id")), "37", "{name}");
}

#[test]
fn duplicates_are_found_in_their_groups() {
    let (mut debuggee, _) = counted::<5>(&Fixture::rust("many"));
    let mut wanted = search(&mut debuggee, "nested[*]", None);
    wanted.duplicates_of = Some("it.len() / 4".into());
    wanted.show = vec!["it.len()".into()];
    let page = find(&mut debuggee, &wanted);
    assert_eq!((page.found, page.searched), (10, 10));
    assert_eq!(lines(&page)[4], "nested[4]: 4");
    wanted.duplicates_of = Some("it.len()".into());
    assert_eq!(find(&mut debuggee, &wanted).found, 0);
}

#[test]
fn what_is_found_in_the_past_is_what_was_there() {
    let mut debuggee = Debuggee::record(&Fixture::c("many"), &[]);
    debuggee.break_at("inserted");
    for _ in 0..300 {
        debuggee.go();
    }
    let now = search(&mut debuggee, "tree(root, below.left, below.right)", None);
    assert_eq!(find(&mut debuggee, &now).searched, 300);
    let thread = debuggee.thread();
    debuggee.movement(Movement::ReverseContinue);
    assert_eq!(debuggee.thread(), thread);
    assert_eq!(find(&mut debuggee, &now).searched, 299);
}

#[test]
fn what_can_be_reached_by_pointers_is_what_the_program_reaches() {
    let (mut debuggee, [count, sum, entries, waiting, all]) = counted(&Fixture::c("reached"));
    check(
        &mut debuggee,
        &[
            ("count(reachable(&nodes[0], node))", &count),
            ("count(reachable(nodes[0], node))", &count),
            ("sum(reachable(&nodes[0], node).value)", &sum),
            ("count(reachable(&table, entry))", &entries),
            ("count(reachable(table, entry), state == 3)", &waiting),
            ("count(reachable(table, node))", &all),
            // Owners are reached only from nodes, and two of them from nowhere.
            ("count(reachable(table, owner))", "3"),
            ("max(reachable(table, owner).age)", "22"),
            ("any(reachable(table, node), it.value == 36 * 3 + 1)", "false"),
        ],
    );
    let total = debuggee.value_of("count(reachable(table))");
    let parts: u64 = [&entries, &all].iter().map(|text| text.parse::<u64>().unwrap()).sum();
    assert_eq!(total, (parts + 3 + 1).to_string());
    debuggee.expect_exit(0);
}

#[test]
fn what_owners_of_cpp_and_rust_have_can_be_reached() {
    for fixture in [Fixture::cpp("reached"), Fixture::rust("reached")] {
        let (mut debuggee, [parts, weight, items]) = counted(&fixture);
        check(
            &mut debuggee,
            &[
                ("count(reachable(whole, Part))", &parts),
                ("sum(reachable(whole, Part).weight)", &weight),
                ("count(reachable(whole, Item))", &items),
                ("count(reachable(whole, Shop))", "1"),
            ],
        );
        debuggee.expect_exit(0);
    }
}
