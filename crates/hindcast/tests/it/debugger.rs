//! The debugger as its users meet it: tools and resources of the built binary, on real programs.

use std::{collections::VecDeque, path::Path};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::server::{Local, Server, eventually};

/// A client on standard input, which numbers its requests and keeps notifications.
pub(crate) struct Client {
    local: Local,
    last: u64,
    /// Notifications that came while it waited for an answer.
    heard: VecDeque<Value>,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::of(Local::initialized())
    }

    /// Of one whose session is open.
    pub(crate) fn of(local: Local) -> Self {
        Self { local, last: 0, heard: VecDeque::new() }
    }

    pub(crate) fn rpc(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        self.local.send(request.to_string().as_bytes());
        loop {
            let answer = self.local.answer().expect("an answer");
            if answer["id"] == self.last {
                return answer;
            }
            self.heard.push_back(answer);
        }
    }

    /// The next notification of this method.
    pub(crate) fn notified(&mut self, method: &str) -> Value {
        loop {
            let heard = self.heard.pop_front();
            let message = heard.unwrap_or_else(|| self.local.answer().expect("a message"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The text of a call that succeeds.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
    }

    /// The error of a call that fails.
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert!(answer["error"].is_object(), "{tool}: {answer}");
        answer["error"].clone()
    }

    pub(crate) fn launch(&mut self, fixture: &Fixture, args: &[&str]) -> String {
        let program = fixture.build().path;
        // On a terminal, so that what was printed is there at every stop.
        self.call("debugger/launch", json!({ "program": program, "args": args, "terminal": true }))
    }

    fn status(&mut self) -> Value {
        self.rpc("tools/call", &json!({ "name": "debugger/status", "arguments": {} }))
    }
}

pub(crate) fn is_alive(pid: u64) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// The process number in `Launched calls as process 3323`.
pub(crate) fn pid_in(text: &str) -> u64 {
    let line = text.lines().next().unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("no process in {line}"))
}

#[test]
fn an_agent_finds_its_way_from_launch_to_exit() {
    let mut client = Client::new();
    let calls = Fixture::c("calls");
    let built = calls.build();
    assert!(client.launch(&calls, &["3"]).contains("Stopped at entry"));
    let set = client.call("debugger/set_breakpoint", json!({ "function": "square" }));
    assert!(set.starts_with("Breakpoint 1 set at 0x"), "{set}");
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped at breakpoint 1 (0x"), "{stopped}");
    assert!(stopped.contains(&format!("calls.c:{}", built.line("square_body"))), "{stopped}");
    let stack = client.call("debugger/get_stack_trace", json!({}));
    assert!(stack.starts_with("Stack trace:\n#0  0x"), "{stack}");
    assert!(stack.contains(" main+0x"), "{stack}");
    let locals = client.call("debugger/get_variables", json!({}));
    assert!(locals.starts_with("Local variables:\n  number: int = 0"), "{locals}");
    let stepped = client.call("debugger/step_forward", json!({}));
    assert!(stepped.starts_with("Stepped to 0x"), "{stepped}");
    assert!(client.call("debugger/evaluate", json!({ "expression": "number + 41" })).ends_with("= 41"));
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    let ended = client.call("debugger/continue", json!({}));
    assert!(ended.contains("sum 30 product 120"), "{ended}");
    assert!(ended.contains('3'), "{ended}");
}

/// The least that a tool can be called with, on the fixtures of the next test.
fn least_arguments(tool: &str, program: &str) -> Value {
    match tool {
        "debugger/launch" => json!({ "program": program }),
        "debugger/set_breakpoint" => json!({ "function": "square" }),
        "debugger/set_watchpoint" => json!({ "expression": "total" }),
        "debugger/set_exception_breakpoint" => json!({ "exception_type": "signal:SIGSEGV" }),
        "debugger/update_breakpoint" => json!({ "id": "1", "enabled": true }),
        "debugger/remove_breakpoint" => json!({ "id": "all" }),
        "debugger/record" => json!({ "action": "stop" }),
        "debugger/goto" => json!({ "moment": "present" }),
        "debugger/last_write" | "debugger/history" => json!({ "expression": "total" }),
        "debugger/what_if" => json!({ "set": ["total = 1"] }),
        "debugger/compare" => json!({ "other": "another" }),
        "debugger/when" => json!({ "condition": "total > 1" }),
        "debugger/run_to" => json!({ "function": "factorial" }),
        "debugger/evaluate" => json!({ "expression": "total" }),
        "debugger/find" => json!({ "in": "((char*)&total)[0..4]", "where": "it == 0" }),
        "debugger/disassemble" => json!({ "function": "square" }),
        "debugger/read_memory" => json!({ "address": "$rsp", "size": 64 }),
        "debugger/write_input" => json!({ "text": "x" }),
        _ => json!({}),
    }
}

#[test]
fn default_answers_are_small() {
    let mut client = Client::new();
    let built = Fixture::c("calls").build();
    let folder = |path: &Path| path.parent().unwrap().to_string_lossy().into_owned();
    let folders = [folder(&built.path), folder(Path::new(&built.source_text()))];
    let listed = client.rpc("tools/list", &json!({}));
    assert!(listed.to_string().len() < 25_500, "{} bytes of tools", listed.to_string().len());
    // What begins and ends a session, waits for one that runs, or grows with what was called before is
    // not called in between.
    let first = ["debugger/launch", "debugger/set_breakpoint", "debugger/continue"];
    let last = ["debugger/remove_breakpoint", "debugger/restart", "debugger/disconnect"];
    let apart =
        ["debugger/attach", "debugger/wait", "debugger/pause", "debugger/get_comprehensive_audit"].as_slice();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let between = tools.iter().map(|tool| tool["name"].as_str().unwrap()).filter(|tool| {
        tool.starts_with("debugger/")
            // It is as long as the recording.
            && *tool != "debugger/export_trace"
            && [first.as_slice(), &last, apart].iter().all(|elsewhere| !elsewhere.contains(tool))
    });
    for tool in first.into_iter().chain(between).chain(last) {
        let arguments = least_arguments(tool, &built.path.to_string_lossy());
        let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments })).to_string();
        // Where the fixtures are is not the answer's fault.
        let own = folders.iter().fold(answer.clone(), |answer, folder| answer.replace(folder, "/fixtures"));
        let most = match tool {
            "debugger/step_forward" => 1900,
            _ => 2048,
        };
        assert!(own.len() < most, "{tool}: {} bytes: {answer}", own.len());
    }
}

/// However large the values are: a page of variables, and a value with the members that its line does not tell.
#[test]
fn large_values_are_told_in_small_answers() {
    let mut client = Client::new();
    let built = Fixture::cpp("values").build();
    client.call("debugger/launch", json!({ "program": built.path }));
    let (mut offset, mut seen) = (0, 0);
    loop {
        let arguments = json!({ "scope": "global", "offset": offset, "limit": 1000 });
        let asked = json!({ "name": "debugger/get_variables", "arguments": arguments });
        let answer = client.rpc("tools/call", &asked)["result"].clone();
        let (page, said) = (&answer["structuredContent"], answer["content"][0]["text"].as_str().unwrap());
        assert!(said.len() < 2048, "{} bytes\n{said}", said.len());
        seen += page["variables"].as_array().unwrap().len();
        match page["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break assert_eq!(page["total"], seen, "all are on some page"),
        }
    }
    assert!(seen > 100, "{seen} variables");
    for expression in ["long_vector", "big_map", "long_deque", "unordered_many"] {
        let said = client.call("debugger/evaluate", json!({ "expression": expression }));
        assert!(said.len() < 2048, "{} bytes\n{said}", said.len());
    }
    let told = client.call("debugger/evaluate", json!({ "expression": "long_vector" }));
    assert!(told.starts_with("long_vector: std::vector<") && told.lines().count() == 1, "{told}");
    assert!(!told.contains("allocator"), "{told}");
    let whole = client.call("debugger/evaluate", json!({ "expression": "long_vector", "depth": 1 }));
    assert!(whole.contains("20 of 1000 shown"), "{whole}");
}

#[test]
fn crashes_are_explained_in_small_answers() {
    let misbehave = Fixture::c("misbehave");
    let throws = Fixture::cpp("throws");
    let panics = Fixture::rust("panics");
    let rust = "unhandled rust:panic: panicked at ";
    let faults = [
        (&misbehave, ["null", "7"], ["a null pointer in rax", "return node->next->value;", "rax=0x0"]),
        (&misbehave, ["null", "7"], ["last_write with expression `node->next`:", "mov eax, [rax]", "rip=0x"]),
        (
            &misbehave,
            ["overflow", ""],
            ["calls itself without end", "return overflow(depth + 1)", "rbp=0x7ff"],
        ),
        (&misbehave, ["divide", "0"], ["division by zero", "return 10 / number;", "number: int = 0"]),
        (
            &Fixture::c("overrun"),
            ["", ""],
            ["nothing is mapped", "account->currency[0];", "expression `account->currency`:"],
        ),
    ];
    let given_up = [
        (&misbehave, ["abort", ""], ["SIGABRT", "abort();", "what: const char * = \"abort\""]),
        (&misbehave, ["assert", "7"], ["SIGABRT: misbehave: ", "Assertion `number > 100' failed", "= 7"]),
        (&misbehave, ["free", ""], ["SIGABRT: ", "invalid pointer, in `main`", "free(&number);"]),
        (
            &throws,
            ["uncaught", ""],
            ["unhandled cpp:app::Problem: the disk is full, in `fail`", "throw", "code=6"],
        ),
        (
            &panics,
            ["uncaught", ""],
            [rust, "index out of bounds: the len is 3", "checked(values=[1, 2, 3], index=3)"],
        ),
    ];
    for (fixture, args, told) in faults {
        let text = autopsy_of(fixture, &args);
        let always = ["\nStack trace:\n#0  0x", "\nCode:\n", "\n> 0x", "rip=0x", "`debugger/get_registers`"];
        for part in told.iter().chain(&always) {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
    // No instruction failed there: what the libraries do to end the program tells nothing.
    for (fixture, args, told) in given_up {
        let text = autopsy_of(fixture, &args);
        for part in told.iter().chain(&["\nStack trace:\n#", "`debugger/get_registers`"]) {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("\nCode:") && !text.contains("\n#0 "), "{text}");
    }
}

/// What is said of a program that crashes; all of the answer is below two kilobytes.
fn autopsy_of(fixture: &Fixture, args: &[&str]) -> String {
    let mut client = Client::new();
    let program = fixture.build();
    let env = json!({ "RUST_BACKTRACE": "0" });
    client.call("debugger/launch", json!({ "program": program.path, "args": args, "env": env }));
    let stopped = client.call("debugger/continue", json!({}));
    assert!(
        stopped.starts_with("Stopped by SIG") || stopped.starts_with("Stopped at rust:panic"),
        "{stopped}"
    );
    let answer = client.rpc("tools/call", &json!({ "name": "debugger/autopsy", "arguments": {} }));
    // Where the fixtures are is not the answer's fault.
    let own = answer.to_string().replace(program.source_text().rsplit_once('/').unwrap().0, "/fixtures");
    assert!(own.len() < 2048, "{} bytes: {own}", own.len());
    client.call("debugger/disconnect", json!({}));
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn one_call_explains_a_crash() {
    let mut client = Client::new();
    let crash = Fixture::c("misbehave");
    client.launch(&crash, &["null", "7"]);
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped by SIGSEGV"), "{stopped}");
    let autopsy = client.call("debugger/autopsy", json!({}));
    assert!(autopsy.contains("null pointer"), "{autopsy}");
    assert!(autopsy.contains("return node->next->value;"), "{autopsy}");
    assert!(autopsy.contains("number: int = 7"), "{autopsy}");
    assert!(autopsy.contains("mov eax, [rax]"), "{autopsy}");
}

#[test]
fn resources_follow_the_session_and_serve_only_its_source() {
    let mut client = Client::new();
    let uris = |client: &mut Client| {
        let list = client.rpc("resources/list", &json!({}));
        let all = list["result"]["resources"].as_array().unwrap().clone();
        all.iter().map(|entry| entry["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(!uris(&mut client).iter().any(|uri| uri.starts_with("debugger://")));
    let calls = Fixture::c("calls");
    let built = calls.build();
    client.launch(&calls, &[]);
    for uri in ["debugger://session", "debugger://breakpoints", "debugger://threads"] {
        assert!(uris(&mut client).iter().any(|listed| listed == uri), "{uri}");
    }
    let read = |client: &mut Client, uri: &str| client.rpc("resources/read", &json!({ "uri": uri }));
    let session = read(&mut client, "debugger://session");
    let session: Value =
        serde_json::from_str(session["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&session["state"], &session["launchMode"]),
        (&json!("Paused"), &json!("Launch")),
        "{session}"
    );
    assert_eq!(session["currentLocation"]["functionName"], "main");
    let source = read(&mut client, &format!("debugger://source/{}", built.source_text()));
    let text = source["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text, std::fs::read_to_string(&built.source).unwrap());
    let folder = built.source.parent().unwrap().display();
    for path in ["/etc/passwd".to_owned(), format!("{folder}/../c/calls.c"), format!("{folder}/control.c")] {
        let refused = read(&mut client, &format!("debugger://source/{path}"));
        assert_eq!(refused["error"]["code"], -1, "{path}: {refused}");
        let message = format!("File path '{path}' is not referenced in any loaded debug information");
        assert_eq!(refused["error"]["message"], message);
    }
    client.call("debugger/disconnect", json!({}));
    assert!(!uris(&mut client).iter().any(|uri| uri.starts_with("debugger://")));
}

#[test]
fn nothing_survives_the_client_or_the_server() {
    let hang = Fixture::c("misbehave");
    let mut client = Client::new();
    let pid = pid_in(&client.launch(&hang, &["hang"]));
    client.call("debugger/continue", json!({ "wait": false }));
    assert!(is_alive(pid));
    let (_, status) = client.local.close();
    assert!(status.success(), "{status}");
    assert!(!is_alive(pid));

    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let program = hang.build().path;
    let launched = server.call(&key, "debugger/launch", json!({ "program": program, "args": ["hang"] }));
    let pid = pid_in(launched["result"]["content"][0]["text"].as_str().unwrap());
    server.call(&key, "debugger/continue", json!({ "wait": false }));
    assert!(is_alive(pid));
    server.kill();
    eventually("the debuggee dies with its debugger", || !is_alive(pid));
}

#[test]
fn a_running_program_can_be_paused_and_given_breakpoints() {
    let mut client = Client::new();
    let hang = Fixture::c("misbehave");
    let line = hang.build().line("hang");
    client.launch(&hang, &["hang"]);
    let running = client.call("debugger/continue", json!({ "timeout_ms": 50 }));
    assert!(running.to_lowercase().contains("running"), "{running}");
    let error = client.refused("debugger/get_variables", json!({}));
    assert!(error.to_string().contains("debugger/pause"), "{error}");
    let set = client.call("debugger/set_breakpoint", json!({ "file": "misbehave.c", "line": line }));
    assert!(set.starts_with("Breakpoint 1 set at"), "{set}");
    let stopped = client.call("debugger/wait", json!({ "until": "stopped", "timeout_ms": 10_000 }));
    assert!(stopped.contains("breakpoint 1"), "{stopped}");
    client.call("debugger/remove_breakpoint", json!({ "id": 1 }));
    client.call("debugger/continue", json!({ "wait": false }));
    let paused = client.call("debugger/pause", json!({}));
    assert!(paused.contains("misbehave.c"), "{paused}");
    let autopsy = client.call("debugger/autopsy", json!({}));
    let works = "no crash, and no thread is known to wait for another: it was paused, in `";
    assert!(autopsy.starts_with(works), "{autopsy}");
}

#[test]
fn the_autopsy_of_a_paused_program_shows_where_each_thread_is() {
    let mut client = Client::new();
    let fixture = Fixture::c("threads");
    let (program, line) = (fixture.build().path, fixture.build().line("count"));
    let rounds = i64::MAX.to_string();
    client.call("debugger/launch", json!({ "program": program, "args": ["2", rounds], "record": false }));
    // Both threads have begun.
    client.call("debugger/run_to", json!({ "file": "threads.c", "line": line }));
    let mut autopsy = String::new();
    // The main thread waits for them, and both have passed the barrier.
    eventually("all threads are where they stay", || {
        client.call("debugger/continue", json!({ "wait": false }));
        client.call("debugger/pause", json!({}));
        autopsy = client.call("debugger/autopsy", json!({}));
        autopsy.contains(" (threads) waits for the end of thread ")
            && !autopsy.contains("pthread_barrier_wait")
    });
    assert!(autopsy.starts_with("no crash: thread "), "{autopsy}");
    let threads = autopsy.split_once("\nThreads:").unwrap().1.split("\nStack trace:").next().unwrap();
    assert!(threads.contains("main at threads.c:"), "{autopsy}");
    assert!(threads.contains("pthread_join(ids[i], NULL);"), "{autopsy}");
    let working = ["count at threads.c:", "work at threads.c:"];
    let works = working.map(|place| threads.matches(place).count()).iter().sum::<usize>();
    assert_eq!(works, 2, "{autopsy}");
    assert_eq!(threads.matches("waits for").count(), 1, "{autopsy}");
    assert!(autopsy.len() < 2000, "{autopsy}");
}

#[test]
fn a_gigabyte_of_output_and_a_huge_vector_stay_bounded() {
    let mut client = Client::new();
    // Not recorded: a quarter of a million system calls would be logged one by one.
    let program = Fixture::c("misbehave").build().path;
    client.call("debugger/launch", json!({ "program": program, "args": ["print", "1024"], "record": false }));
    let ended = client.call("debugger/continue", json!({ "timeout_ms": 50_000 }));
    assert!(ended.len() < 4096, "{} bytes", ended.len());
    let read = client.call("debugger/read_output", json!({}));
    assert!(read.len() < 64 << 10, "{} bytes", read.len());

    let huge = Fixture::cpp("huge");
    client.launch(&huge, &[]);
    let line = huge.build().line("filled");
    client.call("debugger/run_to", json!({ "file": "huge.cpp", "line": line }));
    let locals = client.rpc("tools/call", &json!({ "name": "debugger/get_variables", "arguments": {} }));
    assert!(locals.to_string().len() < 4096, "{} bytes", locals.to_string().len());
    let last = client.call("debugger/evaluate", json!({ "expression": "numbers[99999999]" }));
    assert!(last.ends_with("= 7"), "{last}");
}

#[test]
fn what_cannot_be_done_is_said_with_the_way_out() {
    let mut client = Client::new();
    let missing = client.refused("debugger/launch", json!({ "program": "/no/such/program" }));
    assert!(missing.to_string().contains("there is no program"), "{missing}");
    assert_eq!(client.refused("debugger/get_stack_trace", json!({}))["code"], -32005);
    client.launch(&Fixture::c("calls"), &[]);
    let data = client.refused("debugger/set_breakpoint", json!({ "address": "0x10" }));
    assert_eq!(data["code"], -32006, "{data}");
    let pending = client.call("debugger/set_breakpoint", json!({ "function": "squaer" }));
    assert!(pending.contains("pending") || pending.contains("binds when"), "{pending}");
    let unknown = client.refused("debugger/evaluate", json!({ "expression": "agrc" }));
    assert!(unknown.to_string().contains("argc"), "{unknown}");
    let status = client.status();
    assert!(status["result"]["content"][0]["text"].as_str().unwrap().contains("paused"), "{status}");
}

#[test]
fn a_program_that_somebody_kills_while_it_stands_still_has_ended_for_everybody() {
    let mut client = Client::new();
    let pid = pid_in(&client.launch(&Fixture::c("calls"), &[]));
    let subscribed = client.rpc("resources/subscribe", &json!({ "uri": "debugger://session" }));
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    // Nobody asks the program, and yet it is told. What is told first may still be that it was launched.
    loop {
        let told = client.notified("notifications/resources/updated");
        assert_eq!(told["params"]["uri"], "debugger://session");
        let status = client.status()["result"]["structuredContent"].clone();
        if status["sessions"][0]["state"] == "exited" {
            break;
        }
        assert_eq!(status["sessions"][0]["state"], "paused", "{status}");
    }
    let error = client.refused("debugger/evaluate", json!({ "expression": "total" }));
    assert_eq!(error["code"], -32005, "{error}");
    assert!(error.to_string().contains("ended by SIGKILL"), "{error}");
}

#[test]
fn the_question_after_a_kill_hears_of_it_at_once() {
    let mut client = Client::new();
    let pid = pid_in(&client.launch(&Fixture::c("calls"), &[]));
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    eventually("its death", || !is_alive(pid));
    let error = client.refused("debugger/get_stack_trace", json!({}));
    assert!(error.to_string().contains("ended by SIGKILL"), "{error}");
}

#[test]
fn a_program_with_sources_of_the_systems_folder_is_shown_its_own_locals() {
    let mut client = Client::new();
    let fixture = Fixture::c("misbehave");
    let sources = Path::new(&fixture.build().source_text()).parent().unwrap().to_string_lossy().into_owned();
    let elsewhere = fixture.flags([format!("-fdebug-prefix-map={sources}=/usr/src/app")]);
    client.launch(&elsewhere, &["abort"]);
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.contains("/usr/src/app/misbehave.c") || stopped.contains("misbehave.c:"), "{stopped}");
    assert!(stopped.contains("the innermost of your code"), "{stopped}");
    let autopsy = client.call("debugger/autopsy", json!({}));
    assert!(autopsy.lines().next().unwrap().contains("misbehave.c:"), "{autopsy}");
}

#[test]
fn a_string_instruction_that_reads_a_bad_address_is_told_as_a_read() {
    for (what, words) in [("movs_read", "read of 0x7777000"), ("movs_write", "write to 0x7777000")] {
        let mut client = Client::new();
        client.launch(&Fixture::c("faults"), &[what]);
        client.call("debugger/continue", json!({}));
        let autopsy = client.call("debugger/autopsy", json!({}));
        assert!(autopsy.contains(words), "{what}: {autopsy}");
    }
}

#[test]
fn breakpoints_are_placed_where_code_is_and_managed_after_the_end() {
    let mut client = Client::new();
    let calls = Fixture::c("calls");
    let built = calls.build();
    client.launch(&calls, &[]);
    let behind = client.refused("debugger/set_breakpoint", json!({ "file": "calls.c", "line": 100_000 }));
    assert_eq!((&behind["code"], &behind["message"]), (&json!(-32006), &json!("Breakpoint failed")));
    let asked = built.line("square_body") - 2;
    let arguments =
        json!({ "name": "debugger/set_breakpoint", "arguments": { "file": "calls.c", "line": asked } });
    let moved = client.rpc("tools/call", &arguments)["result"]["structuredContent"].clone();
    assert_eq!(moved["requested"], format!("calls.c:{asked}"), "{moved}");
    assert_eq!(moved["bound"][0]["line"], asked + 2, "{moved}");
    client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    client.call("debugger/continue", json!({}));
    let set = client.call("debugger/set_breakpoint", json!({ "function": "square" }));
    assert!(set.starts_with("Breakpoint 2 set at 0x"), "{set}");
    let changed = client.call("debugger/update_breakpoint", json!({ "id": "2", "condition": "number == 3" }));
    assert!(changed.starts_with("Breakpoint 2 changed"), "{changed}");
    let back = client.call("debugger/reverse_continue", json!({}));
    assert!(back.starts_with("Stopped at breakpoint 2"), "{back}");
    client.call("debugger/goto", json!({ "moment": "present" }));
    assert_eq!(client.call("debugger/remove_breakpoint", json!({ "id": "2" })), "Breakpoint 2 removed");
}
