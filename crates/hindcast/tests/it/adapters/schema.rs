//! A profile whose adapter no registry has: what is sent to it is held against the protocol's JSON schema, which debugpy ships.

use hindcast_fixtures::adapters::{self, Script};
use serde_json::json;

use super::{data, python, text};

#[test]
fn what_an_adapter_is_sent_is_what_the_protocols_schema_describes() {
    let Some((interpreter, schema)) = adapters::protocol_schema() else { return };
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = Script::new("python/checking_adapter.py").path;
    let program = python().script.path;
    let command = [&interpreter, &script, &schema, &seen, &program].map(|path| path.display().to_string());
    let configuration = format!("[debug.adapters.netcoredbg]\ncommands = [{}]\n", json!(command));
    let Some(mut client) = super::profiles::configured(&configuration) else { return };
    let launched =
        json!({ "program": program, "args": ["a", "b"], "language": "netcoredbg", "env": { "X": "1" } });
    assert_eq!(data(&mut client, "launch", launched)["reason"], "entry");
    for breakpoint in [
        json!({ "file": "shop.py", "line": 5 }),
        json!({ "file": "shop.py", "line": 8, "condition": "count > 1" }),
        json!({ "function": "Main" }),
    ] {
        text(&mut client, "set_breakpoint", breakpoint);
    }
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "System.Exception" }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(
        (&stop["reason"], super::local(&stop, "count").as_str()),
        (&json!("breakpoint"), "3"),
        "{stop}"
    );
    for granularity in ["over", "line", "out"] {
        data(&mut client, "step_forward", json!({ "granularity": granularity }));
    }
    text(&mut client, "get_threads", json!({}));
    text(&mut client, "evaluate", json!({ "expression": "count + 1" }));
    text(&mut client, "evaluate", json!({ "expression": "count = 5" }));
    text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
    text(&mut client, "disconnect", json!({ "terminate": false }));

    let seen = std::fs::read_to_string(&seen).unwrap();
    let wrong: Vec<_> = seen.lines().filter(|line| line.starts_with("WRONG")).collect();
    assert_eq!(wrong, Vec::<&str>::new());
    for command in [
        "initialize",
        "launch",
        "setBreakpoints",
        "setFunctionBreakpoints",
        "setExceptionBreakpoints",
        "configurationDone",
        "threads",
        "stackTrace",
        "scopes",
        "variables",
        "evaluate",
        "setVariable",
        "continue",
        "next",
        "stepIn",
        "stepOut",
        "disconnect",
    ] {
        assert!(seen.lines().any(|line| line == command), "{command} was not sent: {seen}");
    }
}
