//! The contract of the `debugger://` resources, field by field, of real .NET sessions.

use hindcast_fixtures::dotnet::{self, DotnetFixture, DotnetProgram, Runtime};
use serde_json::{Value, json};

use super::{Running, client, data, launch, on_both, runtime_name, text};
use crate::knowledge::Client;

/// What a list has of the debugger's.
fn listed(client: &mut Client, method: &str, list: &str, uri: &str) -> Vec<Value> {
    let answer = client.request(method, json!({}));
    let all = answer["result"][list].as_array().unwrap().clone();
    all.into_iter().filter(|entry| entry[uri].as_str().unwrap().starts_with("debugger:")).collect()
}

fn lists(client: &mut Client) -> (Vec<Value>, Vec<Value>) {
    let resources = listed(client, "resources/list", "resources", "uri");
    (resources, listed(client, "resources/templates/list", "resourceTemplates", "uriTemplate"))
}

#[test]
fn the_lists_are_those_of_the_contract_while_there_is_a_session_and_empty_otherwise() {
    on_both(|runtime| {
        let mut client = client(runtime);
        assert_eq!(lists(&mut client), (vec![], vec![]));
        launch(&mut client, &dotnet::program("Hello"), &[]);
        client.hear_of("notifications/resources/list_changed");
        let entry = |uri: &str, name: &str, description: &str| json!({ "uri": uri, "name": name, "description": description, "mimeType": "application/json" });
        let resources = vec![
            entry(
                "debugger://session",
                "Debug Session",
                "Current debug session state (process info, state, location)",
            ),
            entry(
                "debugger://breakpoints",
                "Breakpoints",
                "All active breakpoints, tracepoints, and exception breakpoints",
            ),
            entry("debugger://threads", "Threads", "Managed threads in the debugged process"),
        ];
        let template = json!({
            "uriTemplate": "debugger://source/{+file}",
            "name": "Source File",
            "description": "Source code from PDB-referenced files in the debugged process",
            "mimeType": "text/plain",
        });
        assert_eq!(lists(&mut client), (resources, vec![template]));
        client.forget();
        text(&mut client, "disconnect", json!({}));
        client.hear_of("notifications/resources/list_changed");
        assert_eq!(lists(&mut client), (vec![], vec![]));
    });
}

/// Where the contract has the program.
fn place(program: &DotnetProgram, line: u32, column: u32, function: &str) -> Value {
    let module = program.dll.file_name().unwrap().to_str().unwrap();
    json!({
        "file": program.source_text(), "line": line, "column": column, "functionName": function, "moduleName": module,
    })
}

/// Checks the whole resource; what differs between stops is given.
#[track_caller]
fn check_session(client: &mut Client, runtime: &Runtime, program: &DotnetProgram, differs: Value) -> Value {
    let found = client.read_json("debugger://session");
    let attached = found["attachedAt"].as_str().unwrap();
    assert!(attached.len() == 25 && attached.ends_with("+00:00"), "{attached}");
    let mut expected = json!({
        "processId": found["processId"],
        "processName": program.dll.file_stem().unwrap().to_str(),
        "executablePath": program.dll,
        "runtimeVersion": runtime_name(runtime),
        "launchMode": "Launch",
        "attachedAt": attached,
    });
    expected.as_object_mut().unwrap().extend(differs.as_object().unwrap().clone());
    assert_eq!(found, expected);
    assert!(found["processId"].as_u64().is_some());
    found
}

#[test]
fn the_session_says_all_that_the_contract_has_at_every_kind_of_stop() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        let mut client = client(runtime);
        let arguments = json!({ "program": program.dll, "args": ["nullref", "street"], "cwd": cwd });
        data(&mut client, "launch", arguments);
        let entry = program.line("failfast") - 7;
        let session = |state: &str, reason: Option<&str>, location: Value| {
            json!({
                "state": state,
                "pauseReason": reason,
                "activeThreadId": reason.map(|_| 1),
                "currentLocation": location,
                "commandLineArgs": ["nullref", "street"],
                "workingDirectory": cwd,
            })
        };
        let check = |state: &str, reason: Option<&str>, location: Value, client: &mut Client| {
            check_session(client, runtime, &program, session(state, reason, location))
        };
        let main = place(&program, entry, 9, "Main");
        let first = check("Paused", Some("Entry"), main, &mut client);

        text(&mut client, "set_breakpoint", json!({ "function": "Fixtures.Exceptions.NullReference" }));
        let begin = program.line("nullref") - 9;
        text(&mut client, "continue", json!({}));
        let there = place(&program, begin, 9, "NullReference");
        let second = check("Paused", Some("Breakpoint"), there, &mut client);
        assert_eq!(
            (&first["processId"], &first["attachedAt"]),
            (&second["processId"], &second["attachedAt"])
        );

        text(&mut client, "step_forward", json!({}));
        check("Paused", Some("Step"), place(&program, begin + 1, 13, "NullReference"), &mut client);

        text(&mut client, "continue", json!({}));
        let thrown = place(&program, program.line("nullref"), 13, "NullReference");
        check("Paused", Some("Exception"), thrown, &mut client);

        let ended = data(&mut client, "continue", json!({}));
        assert_eq!(ended["state"], "exited", "{ended}");
        let found = client.read_json("debugger://session");
        assert_eq!((&found["state"], &found["currentLocation"]), (&json!("Exited"), &Value::Null), "{found}");
    });
}

#[test]
fn a_running_session_has_no_place_and_a_paused_one_says_pause() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let fresh = client.read_json("debugger://threads");
        assert_eq!(fresh["stale"], false);
        data(&mut client, "continue", json!({ "wait": false }));
        let running = client.read_json("debugger://session");
        for (field, value) in [
            ("state", json!("Running")),
            ("pauseReason", Value::Null),
            ("currentLocation", Value::Null),
            ("activeThreadId", Value::Null),
        ] {
            assert_eq!(running[field], value, "{field}");
        }
        let stale = client.read_json("debugger://threads");
        assert_eq!(stale["stale"], true);
        assert_eq!(stale["threads"], fresh["threads"]);
        // They are looked at once more before the program goes on; these times sort as text.
        assert!(stale["capturedAt"].as_str() >= fresh["capturedAt"].as_str(), "{stale} {fresh}");
        data(&mut client, "wait", json!({ "until": "output" }));
        data(&mut client, "pause", json!({}));
        let paused = client.read_json("debugger://session");
        assert_eq!((&paused["state"], &paused["pauseReason"]), (&json!("Paused"), &json!("Pause")));
        assert!(paused["activeThreadId"].as_u64().is_some(), "{paused}");
    });
}

#[test]
fn threads_have_their_names_and_the_current_one_stands_where_the_session_does() {
    on_both(|runtime| {
        let program = dotnet::program("Threads");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let line = program.line("all_here");
        text(&mut client, "set_breakpoint", json!({ "file": "Threads.cs", "line": line }));
        text(&mut client, "continue", json!({}));
        let found = client.read_json("debugger://threads");
        assert_eq!(found.as_object().unwrap().len(), 3, "{found}");
        let threads = found["threads"].as_array().unwrap();
        let current: Vec<_> = threads.iter().filter(|thread| thread["isCurrent"] == true).collect();
        let expected = json!({
            "id": 1, "name": "Main Thread", "state": "Suspended", "isCurrent": true,
            "location": place(&program, line, 13, "Named"),
        });
        assert_eq!(current, [&expected]);
        for number in 1..=3 {
            let name = format!("worker-{number}");
            let worker = threads.iter().find(|thread| thread["name"] == name.as_str());
            let worker = worker.unwrap_or_else(|| panic!("no {name} in {found}"));
            assert_eq!((&worker["state"], &worker["isCurrent"]), (&json!("Suspended"), &json!(false)));
        }
    });
}

#[test]
fn breakpoints_tracepoints_and_exception_breakpoints_are_listed_with_their_hits() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let (late, divide) = (program.line("throw_late"), program.line("divide"));
        let set = |client: &mut Client, arguments: Value| text(client, "set_breakpoint", arguments);
        set(
            &mut client,
            json!({ "file": program.source_text(), "line": late, "condition": "order == 3", "hit_count_multiple": 1 }),
        );
        set(
            &mut client,
            json!({ "file": "Exceptions.cs", "line": divide, "log_message": "by {by}", "max_notifications": 5 }),
        );
        set(&mut client, json!({ "file": "Missing.cs", "line": 7 }));
        let exceptions =
            json!({ "exception_type": "Fixtures.OrderException", "break_on_second_chance": false });
        text(&mut client, "set_exception_breakpoint", exceptions);
        let exact = json!({ "exception_type": "System.ArithmeticException", "include_subtypes": false });
        text(&mut client, "set_exception_breakpoint", exact);

        let stopped = data(&mut client, "continue", json!({}));
        assert_eq!(stopped["location"]["line"], late, "{stopped}");
        let thrown = data(&mut client, "continue", json!({}));
        assert_eq!(thrown["exception"]["exception_type"], "Fixtures.LateOrderException", "{thrown}");
        text(&mut client, "remove_breakpoint", json!({ "id": "1" }));
        while data(&mut client, "continue", json!({}))["state"] != "exited" {}

        let found = client.read_json("debugger://breakpoints");
        let file = program.source_text();
        let expected = json!([
            {
                "id": "bp-2", "type": "Tracepoint", "file": file, "line": divide, "column": 17, "enabled": true,
                "verified": true, "state": "Bound", "hitCount": 1, "condition": null, "logMessage": "by {by}",
                "hitCountMultiple": 0, "maxNotifications": 5, "notificationsSent": 1,
            },
            {
                "id": "bp-3", "type": "Breakpoint", "file": "Missing.cs", "line": 7, "column": null, "enabled": true,
                "verified": false, "state": "Pending", "hitCount": 0, "condition": null, "logMessage": null,
                "hitCountMultiple": 0, "maxNotifications": 0, "notificationsSent": 0,
            },
        ]);
        assert_eq!(found["breakpoints"], expected, "{found}");
        let exceptions = found["exceptionBreakpoints"].as_array().unwrap();
        let (first, second) = (&exceptions[0], &exceptions[1]);
        let hits = first["hitCount"].as_u64().unwrap();
        assert!(hits >= 5, "every order and its subtypes: {first}");
        let expected = json!({
            "id": "ex-4", "exceptionType": "Fixtures.OrderException", "breakOnFirstChance": true,
            "breakOnSecondChance": false, "includeSubtypes": true, "enabled": true, "verified": true, "hitCount": hits,
        });
        assert_eq!(*first, expected);
        assert_eq!((&second["includeSubtypes"], &second["hitCount"]), (&json!(false), &json!(0)), "{second}");
        assert_eq!(found.as_object().unwrap().len(), 2, "{found}");
    });
}

/// The error of a resource that cannot be read.
#[track_caller]
fn unreadable(client: &mut Client, path: &str) -> (i64, String) {
    let answer = client.request("resources/read", json!({ "uri": format!("debugger://source/{path}") }));
    (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
}

#[test]
fn sources_are_served_from_disk_and_from_the_pdb_and_everything_else_is_refused_in_the_contracts_words() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let source = std::fs::read_to_string(&program.source).unwrap();
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let uri = format!("debugger://source/{}", program.source_text());
        let answer = client.request("resources/read", json!({ "uri": uri }));
        let expected = json!([{ "uri": uri, "mimeType": "text/plain", "text": source }]);
        assert_eq!(answer["result"]["contents"], expected);
        let message = "File path '/etc/passwd' is not referenced in any loaded PDB symbols";
        assert_eq!(unreadable(&mut client, "/etc/passwd"), (-1, message.into()));

        let lost = DotnetFixture::new("Hello").losing_source().build();
        launch(&mut client, &lost, &[]);
        let path = lost.source_text();
        let message = format!("Source file '{path}' referenced in PDB but not found on disk");
        assert_eq!(unreadable(&mut client, &path), (-1, message));

        let embedded = DotnetFixture::new("Hello").embedded().losing_source().build();
        assert_eq!(embedded.source, lost.source);
        let stopped = launch(&mut client, &embedded, &[]);
        assert!(!embedded.source.exists());
        assert!(stopped["source"].as_array().is_some_and(|lines| !lines.is_empty()), "{stopped}");
        assert_eq!(client.read(&format!("debugger://source/{path}")), source);
    });
}

#[test]
fn subscribers_hear_of_changes_until_they_unsubscribe() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let mut client = client(runtime);
        let uris = ["debugger://session", "debugger://breakpoints", "debugger://threads"];
        uris.iter().for_each(|uri| client.subscribe(uri));
        launch(&mut client, &program, &[]);
        client.hear("debugger://session");
        client.hear("debugger://threads");
        text(&mut client, "set_breakpoint", json!({ "file": "Hello.cs", "line": program.line("end") }));
        client.hear("debugger://breakpoints");
        client.forget();
        text(&mut client, "step_forward", json!({}));
        client.hear("debugger://session");
        let source = format!("debugger://source/{}", program.source_text());
        client.subscribe(&source);
        for uri in uris.iter().copied().chain([source.as_str()]) {
            let answer = client.request("resources/unsubscribe", json!({ "uri": uri }));
            assert_eq!(answer["result"], json!({}), "{answer}");
        }
        client.forget();
        text(&mut client, "step_forward", json!({}));
        text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
        // The list is told of to everybody, and after what was told before it.
        text(&mut client, "disconnect", json!({}));
        client.hear_of("notifications/resources/list_changed");
        assert!(uris.iter().all(|uri| !client.has_heard(uri)));
    });
}

#[test]
fn an_attached_program_has_its_own_arguments_and_folder() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let running = Running::start(runtime, &program, &["--verbose", "a b"]);
        let mut client = client(runtime);
        let attached = text(&mut client, "attach", json!({ "pid": running.pid() }));
        let sentence = format!("Successfully attached to process {}", running.pid());
        assert_eq!(attached.lines().next().unwrap(), sentence);
        let session = client.read_json("debugger://session");
        let here = std::env::current_dir().unwrap();
        for (field, value) in [
            ("processId", json!(running.pid())),
            ("processName", json!("Server")),
            ("executablePath", json!(program.dll)),
            ("runtimeVersion", json!(runtime_name(runtime))),
            ("state", json!("Paused")),
            ("launchMode", json!("Attach")),
            ("pauseReason", json!("Pause")),
            ("commandLineArgs", json!(["--verbose", "a b"])),
            ("workingDirectory", json!(here)),
        ] {
            assert_eq!(session[field], value, "{field} of {session}");
        }
    });
}
