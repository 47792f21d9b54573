//! What is seen against what the program itself says.

use serde_json::{Value, json};

use super::{Tongue, client, data, go, java, javascript, launch, local, python, ruby, text};

#[test]
fn python_is_seen_as_it_says_itself() {
    compare(&python());
}

#[test]
fn javascript_is_seen_as_it_says_itself() {
    compare(&javascript());
}

#[test]
fn go_is_seen_as_it_says_itself() {
    compare(&go());
}

#[test]
fn ruby_is_seen_as_it_says_itself() {
    compare(&ruby());
}

#[test]
fn java_is_seen_as_it_says_itself() {
    compare(&java());
}

/// The program prints price and result before each change; a tracepoint tells the same, and so do stops and counted stops.
fn compare(tongue: &Tongue) {
    let Some(mut client) = client() else { return };
    let script = &tongue.script;
    let (file, line) = (script.name(), script.line("loop_body"));

    launch(&mut client, script, "hello\n");
    let traced = json!({ "file": file, "line": line, "log_message": "{price} {result}" });
    text(&mut client, "set_breakpoint", traced);
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 7, "{ended}");
    let log = stream(&data(&mut client, "read_output", json!({ "stream": "log" })), "log");
    let printed = stream(&data(&mut client, "read_output", json!({ "stream": "stdout" })), "stdout");
    let printed: Vec<_> = printed.lines().filter(|line| !line.starts_with("read")).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), printed);
    assert_eq!(printed, ["1 0", "2 1", "3 3", "4 6"]);
    let status = data(&mut client, "status", json!({}));
    assert_eq!(status["breakpoints"][0]["hitCount"], 4, "{status}");
    text(&mut client, "disconnect", json!({}));

    for (count, prices) in [
        (json!({}), &["1", "2", "3", "4"][..]),
        (json!({ "hit_count": 3 }), &["3", "4"]),
        (json!({ "hit_count_multiple": 2 }), &["2", "4"]),
        (json!({ "temporary": true }), &["1"]),
    ] {
        launch(&mut client, script, "hello\n");
        let mut set = json!({ "file": file, "line": line });
        set.as_object_mut().unwrap().extend(count.as_object().unwrap().clone());
        text(&mut client, "set_breakpoint", set);
        let mut seen = Vec::new();
        loop {
            let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
            if stop["state"] == "exited" {
                break;
            }
            assert_eq!(stop["location"]["line"], line, "{stop}");
            seen.push(local(&stop, "price"));
        }
        assert_eq!(seen, prices, "{count}");
        text(&mut client, "disconnect", json!({}));
    }
}

fn stream(page: &Value, name: &str) -> String {
    page[name].as_str().unwrap_or_default().to_owned()
}
