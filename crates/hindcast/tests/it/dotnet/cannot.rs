//! What a .NET session cannot do, it refuses in a sentence that says what does instead.

use hindcast_fixtures::dotnet;
use serde_json::{Value, json};

use super::{client, launch, on_both, refused, text};

const NO_PAST: (i64, &str, &str) =
    (-32007, "this .NET session is not recorded, so one cannot go back", "`debugger/restart`");

#[test]
fn what_needs_memory_machine_code_or_a_past_is_refused_with_the_remedy() {
    let refusals: &[(&str, Value, (i64, &str, &str))] = &[
        (
            "read_memory",
            json!({ "address": "0x1000", "size": 16 }),
            (-32602, "this .NET session does not show raw memory", "`debugger/get_variables`"),
        ),
        (
            "disassemble",
            json!({ "function": "Main" }),
            (-32602, "this .NET session has no machine code", "`debugger/get_stack_trace`"),
        ),
        (
            "disassemble",
            json!({}),
            (-32602, "this .NET session has no machine code", "every stop shows the source"),
        ),
        (
            "get_registers",
            json!({}),
            (-32602, "this .NET session has no registers", "`debugger/evaluate` show values"),
        ),
        (
            "set_watchpoint",
            json!({ "address": "0x1000" }),
            (-32602, "this .NET session cannot watch memory", "`debugger/set_breakpoint`"),
        ),
        (
            "set_watchpoint",
            json!({ "expression": "args" }),
            (-32602, "a .NET session cannot watch memory", "set a breakpoint"),
        ),
        (
            "step_forward",
            json!({ "granularity": "instruction" }),
            (
                -32602,
                "this .NET session has no machine code, so it cannot step by instructions",
                "give `granularity` `line`, `over` or `out`",
            ),
        ),
        (
            "set_breakpoint",
            json!({ "address": "0x401000" }),
            (-32602, "a .NET session has no addresses of code", "give `file` and `line`"),
        ),
        (
            "set_exception_breakpoint",
            json!({ "exception_type": "signal:SIGSEGV" }),
            (
                -32006,
                "`signal:SIGSEGV` is not the name of a .NET exception type",
                "System.NullReferenceException",
            ),
        ),
        ("step_backward", json!({}), NO_PAST),
        ("reverse_continue", json!({}), NO_PAST),
        ("goto", json!({ "moment": "5" }), NO_PAST),
        ("last_write", json!({ "expression": "args" }), NO_PAST),
        ("timeline", json!({}), NO_PAST),
        ("export_trace", json!({}), NO_PAST),
    ];
    on_both(|runtime| {
        let mut client = client(runtime);
        launch(&mut client, &dotnet::program("Hello"), &[]);
        for (tool, arguments, (expected, sentence, remedy)) in refusals {
            let (code, said) = refused(&mut client, tool, arguments.clone());
            assert_eq!(code, *expected, "{tool}: {said}");
            assert!(said.starts_with(sentence) && said.contains(remedy), "{tool}: {said}");
        }
        let stopped = text(&mut client, "status", json!({}));
        assert!(stopped.contains("paused"), "nothing of that moved it: {stopped}");
        let answer = client.request("resources/read", json!({ "uri": "debugger://timeline" }));
        assert_eq!(answer["error"]["code"], -32007, "{answer}");
    });
}

#[test]
fn that_it_is_not_recorded_is_said_to_whoever_asked_for_it() {
    on_both(|runtime| {
        let program = dotnet::program("Hello").dll;
        let mut client = client(runtime);
        let note = "note: `record` has no effect: .NET programs are not recorded";
        for (record, is_told) in [(Some(true), true), (Some(false), false), (None, false)] {
            let mut arguments = json!({ "program": program });
            if let Some(record) = record {
                arguments["record"] = record.into();
            }
            let launched = text(&mut client, "launch", arguments);
            assert_eq!(launched.contains(note), is_told, "{record:?}: {launched}");
            assert!(!launched.contains("its stdout is a pipe"), "{launched}");
        }
    });
}

#[test]
fn the_command_that_records_says_that_it_cannot() {
    on_both(|runtime| {
        let data = tempfile::tempdir().unwrap();
        let mut command = crate::server::command();
        command.env("DOTNET_ROOT", &runtime.root).arg("record").arg("--data-dir").arg(data.path());
        let output = command.arg("--").arg(dotnet::program("Hello").dll).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        assert!(said.contains("a .NET program cannot be recorded"), "{said}");
    });
}
