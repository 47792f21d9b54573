//! `debugger/find` with the built binary.

use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::debugger::Client;

#[test]
fn elements_are_told_in_a_line_each_without_secrets() {
    let fixture = Fixture::c("many");
    let mut client = Client::new();
    client.launch(&fixture, &[]);
    let line = fixture.build().line("counted");
    client.call("debugger/run_to", json!({ "file": "many.c", "line": line }));
    let search = json!({ "in": "builds[*].job[*]", "where": "state == 3 && waiter", "show": ["id", "waiter", "password"] });
    let found = client.call("debugger/find", search);
    let lines: Vec<_> = found.lines().collect();
    assert!(lines[0].ends_with("of 100 elements of `builds[*].job[*]`"), "{found}");
    assert!(lines[1].starts_with("builds[3].job[1]: id = 31, waiter = \"someone\", password = "), "{found}");
    let whole = client.call("debugger/find", json!({ "in": "builds[*].job[*]", "limit": 200 }));
    let alone = client.call("debugger/find", json!({ "in": "builds[*].job[*].password" }));
    for said in [&found, &whole, &alone] {
        assert!(!said.contains("hunter2"), "{said}");
    }
    let none = client.call("debugger/find", json!({ "in": "list(head, next)", "where": "value < 0" }));
    assert_eq!(none, "none of 1000 elements of `list(head, next)`");
    let refused = client.refused("debugger/find", json!({ "in": "builds", "where": "weight = 3" }));
    assert!(refused.to_string().contains("no assignment"), "{refused}");
}
