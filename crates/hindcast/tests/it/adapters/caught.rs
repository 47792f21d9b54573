//! Exceptions that the program catches stop it where they are raised, by the names of types and of those they are derived from.

use hindcast_fixtures::adapters::Script;
use serde_json::{Value, json};

use super::{client, data, launch, python, refused, ruby, text};
use crate::knowledge::Client;

/// What a language calls its exceptions.
struct Names {
    file: &'static str,
    /// The error of the library that the program provokes, and the type that it is derived from.
    library: &'static str,
    base: &'static str,
    /// The adapter shows nested classes so.
    nested_in: &'static str,
}

#[test]
fn python_stops_at_what_is_raised_and_caught() {
    stops_where_raised(&Names {
        file: "python/caught.py",
        library: "KeyError",
        base: "LookupError",
        nested_in: "",
    });
}

#[test]
fn javascript_stops_at_what_is_raised_and_caught() {
    stops_where_raised(&Names {
        file: "javascript/caught.js",
        library: "TypeError",
        base: "Error",
        nested_in: "",
    });
}

#[test]
fn ruby_stops_at_what_is_raised_and_caught() {
    stops_where_raised(&Names {
        file: "ruby/caught.rb",
        library: "KeyError",
        base: "IndexError",
        nested_in: "",
    });
}

#[test]
fn java_stops_at_what_is_raised_and_caught() {
    stops_where_raised(&Names {
        file: "java/Caught.java",
        library: "java.lang.ArrayIndexOutOfBoundsException",
        base: "IndexOutOfBoundsException",
        nested_in: "Caught$",
    });
}

fn stops_where_raised(names: &Names) {
    let Some(mut client) = client() else { return };
    let script = Script::new(names.file);
    let own = (format!("{}ShopError", names.nested_in), script.line("own"), "closed");
    let derived = (format!("{}PriceError", names.nested_in), script.line("derived"), "no price of tea");
    let library = (names.library.to_owned(), script.line("library"), "");
    let all = [own.clone(), derived.clone(), library.clone()];
    for (wanted, expected) in [
        (json!({ "exception_type": "ShopError" }), &[own.clone(), derived.clone()][..]),
        (json!({ "exception_type": "ShopError", "include_subtypes": false }), &[own][..]),
        (json!({ "exception_type": "PriceError" }), &[derived]),
        (json!({ "exception_type": names.library }), &[library]),
        (json!({ "exception_type": "NoSuchError" }), &[]),
        (json!({ "exception_type": "ShopError", "break_on_first_chance": false }), &[]),
        (json!({ "exception_type": "*" }), &all),
    ] {
        let stops = stops(&mut client, &script, &wanted);
        let seen: Vec<_> = stops.iter().map(|(of_type, line, _)| (of_type.as_str(), *line)).collect();
        let told: Vec<_> = expected.iter().map(|(of_type, line, _)| (of_type.as_str(), *line)).collect();
        assert_eq!(seen, told, "{} {wanted}", script.name());
        for ((_, _, message), (_, _, said)) in stops.iter().zip(expected) {
            assert!(message.contains(said), "{wanted}: {message}");
        }
    }
    // A type of the library by that which it is derived from. Other errors may be derived from it, too.
    let stops = stops(&mut client, &script, &json!({ "exception_type": names.base }));
    assert_eq!(stops.last().map(|stop| stop.0.as_str()), Some(names.library), "{stops:?}");
}

/// The types, lines and messages of all stops, which are of exceptions that the program catches.
fn stops(client: &mut Client, script: &Script, wanted: &Value) -> Vec<(String, u32, String)> {
    launch(client, script, "");
    let set = data(client, "set_exception_breakpoint", wanted.clone());
    let mut stops = Vec::new();
    loop {
        let stop = data(client, "continue", json!({ "timeout_ms": 60_000 }));
        if stop["state"] == "exited" {
            assert_eq!(stop["exit_code"], 0, "{stop}");
            break;
        }
        assert_eq!(stop["reason"], "exception", "{wanted}: {stop}");
        let raised = &stop["exception"];
        assert_eq!(raised["unhandled"], false, "{wanted}: {stop}");
        // What the language's own library raises and catches is none of the program's.
        if stop["location"]["file"].as_str().is_some_and(|file| file.ends_with(script.name())) {
            let id = set["id"].as_str().unwrap().trim_start_matches("ex-");
            assert_eq!(stop["breakpoint_ids"], json!([id]), "{wanted}: {stop}");
            let line = u32::try_from(stop["location"]["line"].as_u64().unwrap()).unwrap();
            let said = |field: &str| raised[field].as_str().unwrap_or_default().to_owned();
            stops.push((said("exception_type"), line, said("message")));
        }
    }
    text(client, "disconnect", json!({}));
    stops
}

#[test]
fn an_exception_breakpoint_that_is_taken_out_stops_nothing_more() {
    let Some(mut client) = client() else { return };
    for file in ["python/caught.py", "javascript/caught.js", "ruby/caught.rb", "java/Caught.java"] {
        let script = Script::new(file);
        launch(&mut client, &script, "");
        let set = data(&mut client, "set_exception_breakpoint", json!({ "exception_type": "ShopError" }));
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(stop["location"]["line"], script.line("own"), "{stop}");
        text(&mut client, "remove_breakpoint", json!({ "id": set["id"] }));
        let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(ended["exit_code"], 0, "{file}: {ended}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn what_is_raised_and_caught_and_what_nobody_catches_are_told_apart() {
    let Some(mut client) = client() else { return };
    for (file, of_type) in [
        ("python/failures.py", "ValueError"),
        ("javascript/failures.js", "TypeError"),
        ("java/Failures.java", "IllegalStateException"),
    ] {
        let script = Script::new(file);
        let folder = script.path.parent().unwrap();
        let arguments =
            json!({ "program": script.path, "args": ["main"], "cwd": folder, "timeout_ms": 60_000 });
        data(&mut client, "launch", arguments);
        text(&mut client, "set_exception_breakpoint", json!({ "exception_type": of_type }));
        let mut caught = Vec::new();
        loop {
            let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
            if stop["state"] == "exited" {
                break;
            }
            assert_eq!(stop["location"]["line"], script.line("raise"), "{stop}");
            caught.push(stop["exception"]["unhandled"] == false);
        }
        assert_eq!(caught.first(), Some(&true), "{file}: {caught:?}");
        assert_eq!(caught.last(), Some(&false), "{file}: {caught:?}");
        text(&mut client, "disconnect", json!({}));
    }
}

#[test]
fn ruby_stops_where_it_is_raised_and_again_where_nobody_has_caught_it() {
    let Some(mut client) = client() else { return };
    let script = ruby().script;
    launch(&mut client, &script, "fail\n");
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "ArgumentError" }));
    let raised = data(&mut client, "continue", json!({}));
    assert_eq!(raised["location"]["line"], script.line("raise"), "{raised}");
    assert_eq!(raised["exception"]["message"], "bad input", "{raised}");
    assert_eq!(raised["exception"]["unhandled"], false, "{raised}");
    let ends = data(&mut client, "continue", json!({}));
    assert_eq!(ends["exception"]["unhandled"], true, "{ends}");
    assert_eq!(ends["exception"]["exception_type"], "ArgumentError", "{ends}");
}

#[test]
fn go_says_how_to_stop_at_panics_that_are_recovered() {
    let Some(mut client) = client() else { return };
    let script = Script::new("go/caught/main.go");
    launch(&mut client, &script, "");
    let set = data(&mut client, "set_exception_breakpoint", json!({ "exception_type": "*" }));
    let note = set["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("delve stops only at what nobody catches") && note.contains("`runtime.gopanic`"),
        "{set}"
    );
    text(&mut client, "set_breakpoint", json!({ "function": "runtime.gopanic" }));
    for mark in ["own", "library"] {
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        assert_eq!(stop["reason"], "breakpoint", "{stop}");
        let stack = text(&mut client, "get_stack_trace", json!({}));
        assert!(stack.contains(&format!("main.go:{}", script.line(mark))), "{mark}: {stack}");
    }
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

#[test]
fn java_says_that_causes_are_not_told_and_the_program_tells_them() {
    let Some(mut client) = client() else { return };
    let script = Script::new("java/Failures.java");
    let folder = script.path.parent().unwrap();
    let arguments =
        json!({ "program": script.path, "args": ["causes"], "cwd": folder, "timeout_ms": 60_000 });
    data(&mut client, "launch", arguments);
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["exception"]["exception_type"], "java.lang.RuntimeException", "{stop}");
    assert!(stop["detail"].as_str().unwrap().contains("does not tell what led to it"), "{stop}");
    let autopsy = text(&mut client, "autopsy", json!({}));
    assert!(autopsy.contains("does not tell what led to it"), "{autopsy}");
    data(&mut client, "continue", json!({}));
    let printed = text(&mut client, "read_output", json!({}));
    assert!(printed.contains("Caused by: java.lang.IllegalStateException: no 2"), "{printed}");
}

/// The adapter would wait for such a call for ever.
#[test]
fn a_call_of_java_that_throws_or_meets_a_breakpoint_ends() {
    let Some(mut client) = client() else { return };
    let script = super::java().script;
    launch(&mut client, &script, "hello\n");
    let set = json!({ "file": script.name(), "line": script.line("loop_body"), "hit_count": 3 });
    text(&mut client, "set_breakpoint", set);
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "*" }));
    let evaluate = |expression: &str| json!({ "expression": expression, "allow_calls": true });
    let (_, why) = refused(&mut client, "evaluate", evaluate("\"x\".charAt(5)"));
    assert!(why.contains("StringIndexOutOfBoundsException"), "{why}");
    let mut stop = json!({});
    while stop["reason"] != "breakpoint" {
        stop = data(&mut client, "continue", json!({}));
        assert_eq!(stop["state"], "paused", "{stop}");
    }
    assert_eq!(super::local(&stop, "price"), "3");
    let value = text(&mut client, "evaluate", evaluate("total(prices, 0)"));
    assert!(value.ends_with("= 10"), "{value}");
    let value = text(&mut client, "evaluate", json!({ "expression": "result" }));
    assert!(value.ends_with("= 3"), "the frame is still known: {value}");
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(super::local(&stop, "price"), "4", "it counts on: {stop}");
}

#[test]
fn exceptions_of_native_programs_are_refused_for_others() {
    let Some(mut client) = client() else { return };
    launch(&mut client, &python().script, "hello\n");
    let (_, why) =
        refused(&mut client, "set_exception_breakpoint", json!({ "exception_type": "signal:SIGSEGV" }));
    assert!(why.contains("is for native programs") && why.contains("or `*` for all"), "{why}");
}
