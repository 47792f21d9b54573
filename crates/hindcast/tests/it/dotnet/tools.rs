//! The tools on .NET programs: what they do, and how they say it.

use hindcast_fixtures::dotnet::{self, DotnetFixture};
use serde_json::json;

use super::{Running, client, data, launch, on_both, once, refused, text};
use crate::{debugger::is_alive, server::eventually};

#[test]
fn a_program_is_launched_as_a_dll_an_executable_and_a_folder() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let mut client = client(runtime);
        for path in [&program.dll, &program.executable, &program.dll.parent().unwrap().to_owned()] {
            let said = text(&mut client, "launch", json!({ "program": path, "args": ["Ann"] }));
            let lines: Vec<_> = said.lines().collect();
            assert!(lines[0].starts_with("Launched Hello as process "), "{said}");
            assert_eq!(lines[1], "Stopped at entry (Hello.cs:8)");
            assert_eq!(lines[2], format!("in Hello.Main at {}:8", program.source_text()));
            assert_eq!(*lines.last().unwrap(), "Engine: .NET");
            assert!(!said.contains("note:"), "there is nothing to warn of: {said}");
            text(&mut client, "disconnect", json!({}));
        }
    });
}

#[test]
fn arguments_variables_folder_and_input_reach_the_program() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let mut client = client(runtime);
        let mut arguments = json!({
            "program": program.dll, "args": ["Ann", "a b"], "stdin": "one\ntwo\n", "stop_at_entry": false,
        });
        let ended = data(&mut client, "launch", arguments.clone());
        assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(42)), "{ended}");
        let printed = text(&mut client, "read_output", json!({}));
        let expected =
            "Hello, Ann! (0)\nHello, a b! (1)\necho 1: one (3)\necho 2: two (3)\n2 arguments, 2 lines";
        assert!(printed.contains(expected), "{printed}");
        let again = text(&mut client, "restart", json!({}));
        assert!(again.contains("Exited with code 42"), "{again}");

        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::write(&input, "from a file\n").unwrap();
        arguments["stdin"] = json!({ "file": input });
        let ended = text(&mut client, "launch", arguments);
        assert!(ended.contains("echo 1: from a file (11)"), "{ended}");
    });
}

#[test]
fn variables_are_set_whatever_they_are_called() {
    on_both(|runtime| {
        let program = dotnet::program("Eval");
        let mut client = client(runtime);
        let env = json!({ "PLAIN": "one", "Logging.Level": "two", "Logging:Other": "three = 3" });
        data(&mut client, "launch", json!({ "program": program.dll, "env": env }));
        for (name, value) in [("PLAIN", "one"), ("Logging.Level", "two"), ("Logging:Other", "three = 3")] {
            let expression = format!("System.Environment.GetEnvironmentVariable(\"{name}\")");
            let arguments = json!({ "expression": expression, "allow_calls": true });
            let found = text(&mut client, "evaluate", arguments);
            assert!(found.ends_with(&format!("= \"{value}\"")), "{found}");
        }
    });
}

#[test]
fn breakpoints_are_set_by_line_statement_and_function_and_hold_to_their_conditions() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let mut client = client(runtime);
        launch(&mut client, &program, &["Ann", "Bob", "Cid"]);
        let greeting = program.line("greeting");
        let set = text(
            &mut client,
            "set_breakpoint",
            json!({ "file": "Hello.cs", "line": greeting, "condition": "name == \"Bob\"" }),
        );
        let expected = format!(
            "Breakpoint 1 set at Hello.cs:{greeting}\nin Hello.Main at {}:{greeting}",
            program.source_text()
        );
        assert_eq!(set, expected);
        let stopped = data(&mut client, "continue", json!({}));
        assert_eq!(
            (&stopped["reason"], &stopped["location"]["line"]),
            (&json!("breakpoint"), &json!(greeting))
        );
        let shown = text(&mut client, "evaluate", json!({ "expression": "index + 10" }));
        assert_eq!(shown, "index + 10: int = 11");

        text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
        text(
            &mut client,
            "set_breakpoint",
            json!({ "file": "Hello.cs", "statement": "var lines = Echo();" }),
        );
        let stopped = data(&mut client, "continue", json!({}));
        assert_eq!(stopped["location"]["line"], program.line("end") - 1);
        text(&mut client, "set_breakpoint", json!({ "function": "Hello.Echo" }));
        let stopped = data(&mut client, "continue", json!({}));
        assert_eq!(stopped["location"]["function"], "Hello.Echo", "tools have the whole name: {stopped}");

        let echo = program.line("echo");
        let traced = json!({ "file": "Hello.cs", "line": echo - 1, "log_message": "{count}: {line}" });
        text(&mut client, "set_breakpoint", traced);
        text(&mut client, "set_breakpoint", json!({ "file": "Hello.cs", "line": echo, "hit_count": 3 }));
        text(&mut client, "write_input", json!({ "text": "a\nb\nc\nd\n" }));
        let stopped = text(&mut client, "continue", json!({}));
        assert!(stopped.contains("count: int = 3"), "{stopped}");
        assert!(stopped.contains("log:\n1: \"a\"\n2: \"b\"\n3: \"c\""), "{stopped}");
        text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
        text(&mut client, "write_input", json!({ "eof": true }));
        let ended = data(&mut client, "continue", json!({}));
        assert_eq!(ended["exit_code"], 44, "{ended}");
    });
}

#[test]
fn steps_go_over_into_and_out_and_by_line_where_nothing_is_said() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let caught = json!({ "file": "Exceptions.cs", "statement": "Place(3);" });
        let stopped = data(&mut client, "run_to", caught);
        let line = stopped["location"]["line"].as_u64().unwrap();
        let mut step = |granularity: Option<&str>| {
            let arguments = granularity.map_or(json!({}), |named| json!({ "granularity": named }));
            data(&mut client, "step_forward", arguments)
        };
        let inside = step(Some("line"));
        assert_eq!(inside["location"]["function"], "Fixtures.Exceptions.Place", "{inside}");
        let next = step(None);
        assert_eq!(next["location"]["function"], "Fixtures.Exceptions.Place", "{next}");
        assert_eq!(next["location"]["line"], u64::from(program.line("throw_late")), "{next}");
        let out = step(Some("out"));
        assert_eq!(out["location"]["function"], "Fixtures.Exceptions.Caught", "into the handler: {out}");
        assert!(out["location"]["line"].as_u64().unwrap() > line, "{out}");
    });
}

#[test]
fn exceptions_stop_at_both_chances_and_the_autopsy_says_which() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let mut client = client(runtime);
        launch(&mut client, &program, &["unhandled"]);
        let set = text(
            &mut client,
            "set_exception_breakpoint",
            json!({ "exception_type": "System.Exception", "include_subtypes": true }),
        );
        assert_eq!(set, "Exception breakpoint 1 set for System.Exception");
        let (first, second) =
            (data(&mut client, "continue", json!({})), data(&mut client, "continue", json!({})));
        for (stop, unhandled) in [(&first, false), (&second, true)] {
            let raised = &stop["exception"];
            assert_eq!(raised["exception_type"], "Fixtures.OrderException", "{stop}");
            assert_eq!(raised["message"], "nobody cares");
            assert_eq!(raised["unhandled"], unhandled, "{stop}");
            assert_eq!(stop["location"]["line"], program.line("unhandled"));
        }
        let autopsy = text(&mut client, "autopsy", json!({}));
        let sentence = format!(
            "unhandled Fixtures.OrderException: nobody cares, caused by System.TimeoutException: the cause, \
             in `Fixtures.Exceptions.Unhandled` at Exceptions.cs:{}",
            program.line("unhandled")
        );
        assert_eq!(autopsy.lines().next().unwrap(), sentence);
        let ended = text(&mut client, "continue", json!({}));
        assert!(ended.starts_with("Ended by SIGABRT"), "{ended}");
        let restarted = text(&mut client, "restart", json!({}));
        assert!(restarted.contains("Stopped at entry"), "{restarted}");
        let status = text(&mut client, "status", json!({}));
        assert!(status.contains("exception breakpoint 1: System.Exception"), "it is kept: {status}");
    });
}

#[test]
fn an_exception_out_of_async_code_shows_the_throw() {
    on_both(|runtime| {
        let program = dotnet::program("Failures");
        let mut client = client(runtime);
        launch(&mut client, &program, &["null"]);
        let stopped = text(&mut client, "continue", json!({}));
        let (throw, through) = (program.line("null"), program.line("deliver"));
        let thrown = format!(
            "Thrown at: Fixtures.Failures.Length at Failures.cs:{throw}, \
             through Fixtures.Failures.Deliver at Failures.cs:{through}, "
        );
        assert!(stopped.contains(&thrown), "{stopped}");
        assert!(
            stopped.contains(&format!(">  {throw} |             return parcel.Name!.Length;")),
            "{stopped}"
        );
        assert!(stopped.contains("`debugger/set_exception_breakpoint` with exception_type"), "{stopped}");
        let autopsy = text(&mut client, "autopsy", json!({}));
        let place = format!(", thrown in Fixtures.Failures.Length at Failures.cs:{throw}");
        assert!(autopsy.lines().next().unwrap().ends_with(&place), "{autopsy}");
        assert!(autopsy.contains(&thrown) && autopsy.contains("return parcel.Name!.Length;"), "{autopsy}");

        let wanted = json!({ "exception_type": "System.NullReferenceException" });
        text(&mut client, "set_exception_breakpoint", wanted);
        text(&mut client, "restart", json!({}));
        let stopped = text(&mut client, "continue", json!({}));
        let first = stopped.lines().next().unwrap();
        assert!(first.ends_with("(`parcel.Name` is null)"), "as the note says: {stopped}");
        assert!(!stopped.contains("Thrown at:"), "it stands there: {stopped}");
    });
}

#[test]
fn a_program_that_stops_itself_says_how_and_where() {
    on_both(|runtime| {
        let program = dotnet::program("Failures");
        let mut client = client(runtime);
        launch(&mut client, &program, &["assert"]);
        let stopped = text(&mut client, "continue", json!({}));
        assert!(stopped.starts_with("Debug.Assert or Debug.Fail called Debugger.Break()"), "{stopped}");
        let line = program.line("assert");
        assert!(stopped.contains(&format!("> {line} |             Debug.Assert(count > 1")), "{stopped}");
        assert!(stopped.contains("count: int = 1"), "{stopped}");
        text(&mut client, "disconnect", json!({}));

        launch(&mut client, &program, &["coded"]);
        let stopped = text(&mut client, "continue", json!({}));
        assert!(
            stopped.lines().next().unwrap().contains("`CodedException` computes its message"),
            "{stopped}"
        );
        let (_, why) = refused(&mut client, "evaluate", json!({ "expression": "$exception.Message" }));
        assert!(why.contains("allow_calls"), "{why}");
        let arguments = json!({ "expression": "$exception.Message", "allow_calls": true });
        let said = text(&mut client, "evaluate", arguments);
        assert!(said.ends_with("= \"Coded[42]: outer\""), "{said}");
    });
}

#[test]
fn a_running_program_is_paused_waited_for_and_given_input() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let mut client = client(runtime);
        let launched = launch(&mut client, &program, &[]);
        let went_on = text(&mut client, "continue", json!({ "wait": false }));
        let id = launched["session_id"].as_str().unwrap();
        assert_eq!(went_on, format!("Running (session {id})"));
        data(&mut client, "wait", json!({ "until": "output" }));
        let (code, said) = refused(&mut client, "get_variables", json!({}));
        assert_eq!(code, -32602);
        assert!(said.starts_with("the program is running · ") && said.contains("`debugger/pause`"), "{said}");
        text(&mut client, "set_breakpoint", json!({ "file": "Server.cs", "line": program.line("handle") }));
        text(&mut client, "write_input", json!({ "text": "abc\n" }));
        let stopped = data(&mut client, "wait", json!({}));
        assert_eq!(stopped["location"]["line"], program.line("handle"), "{stopped}");
        assert_eq!(
            text(&mut client, "evaluate", json!({ "expression": "reply" })),
            "reply: string = \"cba\""
        );
        let waited = data(&mut client, "continue", json!({ "timeout_ms": 200 }));
        assert_eq!(waited["state"], "running", "{waited}");
        let paused = data(&mut client, "pause", json!({}));
        assert_eq!((&paused["state"], &paused["reason"]), (&json!("paused"), &json!("pause")));
        let trace = text(&mut client, "get_stack_trace", json!({ "all_threads": true }));
        assert!(trace.contains("Fixtures.Server.Main at Server.cs:"), "{trace}");
        assert!(trace.contains("(ticker):"), "{trace}");
    });
}

#[test]
fn an_attached_program_goes_on_after_the_disconnect() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let mut running = Running::start(runtime, &program, &[]);
        let mut client = client(runtime);
        data(&mut client, "attach", json!({ "pid": running.pid(), "language": "dotnet" }));
        text(&mut client, "set_breakpoint", json!({ "function": "Fixtures.Server.Handle" }));
        data(&mut client, "continue", json!({ "wait": false }));
        running.ask("abc");
        let stopped = data(&mut client, "wait", json!({}));
        assert_eq!(stopped["location"]["function"], "Fixtures.Server.Handle", "{stopped}");
        let (_, said) = refused(&mut client, "restart", json!({}));
        assert!(said.starts_with("only a launched program can be restarted"), "{said}");
        let gone = text(&mut client, "disconnect", json!({}));
        assert_eq!(gone, format!("Disconnected from process {}", running.pid()));
        assert_eq!(running.line(), "1: cba");
        running.ask("xyz");
        assert_eq!(running.line(), "2: zyx", "nothing of ours is left in it");
    });
}

#[test]
fn of_several_that_attach_at_once_one_is_attached() {
    on_both(|runtime| {
        let mut running = Running::start(runtime, &dotnet::program("Server"), &[]);
        let pid = running.pid();
        let mut clients: Vec<_> = (0..4).map(|_| client(runtime)).collect();
        let answers: Vec<_> = std::thread::scope(|scope| {
            let attach = |client: &'_ mut crate::knowledge::Client| {
                let arguments = json!({ "name": "debugger/attach", "arguments": { "pid": pid } });
                client.request("tools/call", arguments)
            };
            let threads: Vec<_> =
                clients.iter_mut().map(|client| scope.spawn(move || attach(client))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (refusals, attached): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer.get("error").is_some());
        assert_eq!(attached.len(), 1, "{answers:?}");
        for refusal in refusals {
            assert!(super::refusal(refusal).1.contains("is attached to process"), "{refusal}");
        }
        drop(clients);
        running.ask("abc");
        assert_eq!(running.line(), "1: cba");
    });
}

#[test]
fn a_launched_program_ends_with_the_disconnect() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let mut client = client(runtime);
        let pid = |client: &mut crate::knowledge::Client| {
            client.read_json("debugger://session")["processId"].as_u64().unwrap()
        };
        launch(&mut client, &program, &[]);
        let first = pid(&mut client);
        text(&mut client, "disconnect", json!({}));
        eventually("it is gone", || !is_alive(first));
    });
}

#[test]
fn a_launched_program_lives_on_where_the_disconnect_does_not_terminate_it() {
    on_both(|runtime| {
        let program = dotnet::program("Server");
        let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let proof = folder.path().join("proof");
        let mut client = client(runtime);
        data(&mut client, "launch", json!({ "program": program.dll, "env": { "TMPDIR": temporary.path() } }));
        let pid = client.read_json("debugger://session")["processId"].as_u64().unwrap();
        text(&mut client, "set_breakpoint", json!({ "function": "Fixtures.Server.Handle" }));
        let lines = format!("one\nwrite {}\n", proof.display());
        text(&mut client, "write_input", json!({ "text": lines }));
        let stopped = data(&mut client, "continue", json!({}));
        assert_eq!(stopped["location"]["function"], "Fixtures.Server.Handle", "{stopped}");
        let gone = text(&mut client, "disconnect", json!({ "terminate": false }));
        assert_eq!(gone, format!("Disconnected from process {pid}"));
        let written = || std::fs::read_to_string(&proof).unwrap_or_default();
        eventually("it does its work without us", || written() == "by job 2");
        eventually("it ends when there is no more to read", || !is_alive(pid));
        let left = || std::fs::read_dir(temporary.path()).unwrap().count();
        eventually("nothing of it is left", || left() == 0);
    });
}

#[test]
fn variables_have_pages_levels_and_filters() {
    on_both(|runtime| {
        let program = dotnet::program("Values");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        data(&mut client, "run_to", json!({ "file": "Values.cs", "line": program.line("arrays") }));
        let all = data(&mut client, "get_variables", json!({ "depth": 0 }));
        let total = all["total"].as_u64().unwrap();
        assert!(total > 5, "{all}");
        let page = data(&mut client, "get_variables", json!({ "depth": 0, "offset": 2, "limit": 2 }));
        assert_eq!(page["variables"].as_array().unwrap().len(), 2, "{page}");
        assert_eq!((&page["total"], &page["next_offset"]), (&json!(total), &json!(4)), "{page}");
        assert_eq!(page["variables"][0]["name"], all["variables"][2]["name"]);
        let one = data(&mut client, "get_variables", json!({ "filter": "jagged", "depth": 2 }));
        assert_eq!(one["total"], 1, "{one}");
        let part = text(&mut client, "evaluate", json!({ "expression": "large", "offset": 90 }));
        assert!(part.contains("[90]: int = "), "{part}");
    });
}

#[test]
fn code_of_the_program_runs_only_where_that_is_allowed() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let mut client = client(runtime);
        launch(&mut client, &program, &["nullref"]);
        data(&mut client, "run_to", json!({ "file": "Exceptions.cs", "line": program.line("nullref") }));
        let expression = "other.Name.ToUpper()";
        let (code, said) = refused(&mut client, "evaluate", json!({ "expression": expression }));
        assert_eq!(code, -32602);
        assert_eq!(said, "`ToUpper` is a method · allow running it with `allow_calls: true`");
        let called = text(&mut client, "evaluate", json!({ "expression": expression, "allow_calls": true }));
        assert_eq!(called, "other.Name.ToUpper(): string = \"BOB\"");
        let set = text(&mut client, "evaluate", json!({ "expression": "other.Name = \"Eve\"" }));
        assert!(set.ends_with("string = \"Eve\""), "{set}");
        let (_, said) = refused(&mut client, "evaluate", json!({ "expression": "nonsuch" }));
        assert!(said.starts_with("there is no `nonsuch` here · "), "{said}");
    });
}

#[test]
fn secrets_in_strings_and_output_are_masked() {
    on_both(|runtime| {
        let program = dotnet::program("Hello");
        let mut client = client(runtime);
        let secret = "kdb_live_abcdefgh12345678";
        launch(&mut client, &program, &[secret]);
        data(&mut client, "run_to", json!({ "file": "Hello.cs", "line": program.line("greeting") }));
        text(&mut client, "set_breakpoint", json!({ "file": "Hello.cs", "line": program.line("echo") }));
        let mut shown = vec![
            text(&mut client, "get_variables", json!({})),
            text(&mut client, "evaluate", json!({ "expression": "args" })),
            text(&mut client, "evaluate", json!({ "expression": "name" })),
            text(&mut client, "get_stack_trace", json!({})),
            client.read("debugger://session"),
        ];
        assert!(shown[0].contains("name: string = \"***\""), "{}", shown[0]);
        text(&mut client, "write_input", json!({ "text": format!("token {secret}\n") }));
        shown.push(text(&mut client, "continue", json!({})));
        shown.push(text(&mut client, "read_output", json!({})));
        assert!(shown.iter().all(|text| !text.contains("abcdefgh")), "{shown:?}");
        let arguments = json!({ "program": program.dll, "args": [secret], "mask_secrets": false });
        let open = text(&mut client, "launch", arguments);
        assert!(open.contains(secret), "{open}");
    });
}

#[test]
fn secrets_in_what_goes_wrong_are_masked() {
    on_both(|runtime| {
        let program = dotnet::program("Secrets");
        let mut client = client(runtime);
        launch(&mut client, &program, &[]);
        let ready = program.line("ready");
        data(&mut client, "run_to", json!({ "file": "Secrets.cs", "line": ready }));
        for (expression, allow_calls, said) in [
            (
                "map[password]",
                false,
                "there is no item with the key \"***\" · change the part of the expression",
            ),
            ("Connect(password)", true, "the code threw InvalidOperationException: *** · "),
            (
                "Connect(\"password=\" + \"hunter2\")",
                true,
                "the code threw InvalidOperationException: *** · ",
            ),
            ("Assigned(map.Count.ToString())", true, "InvalidOperationException: tried password=*** · "),
        ] {
            let arguments = json!({ "expression": expression, "allow_calls": allow_calls });
            let (code, found) = refused(&mut client, "evaluate", arguments);
            assert_eq!(code, -32602);
            assert!(found.contains(said), "{expression}: {found}");
            assert!(!found.contains("hunter2") && !found.contains("tools/list"), "{found}");
        }
        // Also in what a type wants to be shown as.
        let shown = text(&mut client, "evaluate", json!({ "expression": "account" }));
        assert!(shown.contains("\"ann\" with ***, ***, 13 letters"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        // A condition that fails stops and says why.
        let at = json!({ "file": "Secrets.cs", "line": ready, "condition": "map[password] > 0" });
        text(&mut client, "set_breakpoint", at);
        let stopped = text(&mut client, "continue", json!({}));
        assert!(stopped.contains("the condition of breakpoint 1 fails"), "{stopped}");
        assert!(stopped.contains("with the key \"***\""), "{stopped}");
        let seen = client.read("debugger://session");
        let shown = [stopped, text(&mut client, "status", json!({})), seen];
        assert!(shown.iter().all(|text| !text.contains("hunter2")), "{shown:?}");
        // Whoever asks for them sees them.
        let open = json!({ "program": program.dll, "mask_secrets": false });
        text(&mut client, "launch", open);
        data(&mut client, "run_to", json!({ "file": "Secrets.cs", "line": ready }));
        let (_, found) = refused(&mut client, "evaluate", json!({ "expression": "map[password]" }));
        assert!(found.contains("\"hunter2secret\""), "{found}");
    });
}

#[test]
fn secrets_that_a_program_prints_before_it_fails_to_start_are_masked() {
    once(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let program = dotnet::program("Hello");
        for file in std::fs::read_dir(program.dll.parent().unwrap()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        // What the host complains of is quoted, and here that is a name with a secret in it.
        let framework = json!({ "name": "password=hunter2secret", "version": "1.0.0" });
        let settings = json!({ "runtimeOptions": { "framework": framework } });
        std::fs::write(folder.path().join("Hello.runtimeconfig.json"), settings.to_string()).unwrap();
        let mut client = client(runtime);
        let (code, said) =
            refused(&mut client, "launch", json!({ "program": folder.path().join("Hello.dll") }));
        assert_eq!(code, -32602);
        assert!(said.contains("it printed: ") && said.contains("password=***"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    });
}

#[test]
fn modules_and_threads_are_listed() {
    on_both(|runtime| {
        let mut client = client(runtime);
        let without = DotnetFixture::new("Hello").without_symbols().build();
        for (program, symbols) in [(&dotnet::program("Hello"), "pdb"), (&without, "none")] {
            launch(&mut client, program, &[]);
            let modules = data(&mut client, "get_modules", json!({ "filter": "Hello" }));
            let module = &modules["modules"][0];
            assert_eq!(module["path"], json!(program.dll.canonicalize().unwrap()), "{modules}");
            assert!(module["symbols"].as_str().unwrap().starts_with(symbols), "{modules}");
            let library = data(&mut client, "get_modules", json!({ "filter": "System.Private.CoreLib" }));
            assert_eq!(library["total"], 1, "{library}");
        }
        let threads = data(&mut client, "get_threads", json!({}));
        assert_eq!((&threads["current"], &threads["stale"]), (&json!(1), &json!(false)), "{threads}");
    });
}
