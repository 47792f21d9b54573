//! `hindcast serve` debugs in workers: they can be lost, and nothing else is.

use std::{
    process::{Child, Command, Stdio},
    sync::Barrier,
    time::Duration,
};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::{
    debugger::{is_alive, pid_in},
    hosted::{Hosted, children_of},
    server::{Server, eventually, helpful_error},
};

/// A server with the key of somebody who may do everything.
fn hosted() -> Hosted {
    hosted_with(&[])
}

fn hosted_with(environment: &[(&str, &str)]) -> Hosted {
    let server = Server::start_with(environment);
    let key = server.unlimited_key();
    Hosted { server, key }
}

impl Hosted {
    /// Launches a program; gives what it says and the session's name.
    fn launch(&self, fixture: &Fixture, args: &[&str]) -> (String, String) {
        let arguments = json!({ "program": fixture.build().path, "args": args });
        let answer = self.server.call(&self.key, "debugger/launch", arguments);
        let text = answer["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, answer["result"]["structuredContent"]["session_id"].as_str().unwrap().to_owned())
    }

    fn resource(&self, uri: &str) -> Value {
        self.server.rpc(&self.key, "resources/read", json!({ "uri": uri })).json()
    }

    /// The server's workers.
    fn workers(&self) -> Vec<u64> {
        let server = u64::from(self.server.pid());
        children_of(server).into_iter().filter(|&pid| is_worker(pid)).collect()
    }

    fn worker(&self) -> u64 {
        let workers = self.workers();
        assert_eq!(workers.len(), 1, "{workers:?}");
        workers[0]
    }

    /// How many sockets the server has open.
    fn sockets(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.server.pid())).unwrap();
        let links = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// Nothing is left of a worker and what it had.
    fn is_clean_after(&self, processes: &[u64], sockets: usize) {
        for &process in processes {
            eventually("a process of the session ends", || !is_alive(process));
        }
        eventually("the server buries its workers", || {
            self.workers().is_empty() && self.children().is_empty()
        });
        eventually("the server closes its sockets", || self.sockets() <= sockets);
    }

    /// All children of the server, also dead ones.
    fn children(&self) -> Vec<u64> {
        children_of(u64::from(self.server.pid()))
    }
}

pub(crate) fn is_worker(pid: u64) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with("hindcast\0worker\0debug")
}

pub(crate) fn kill(pid: u64) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_whole_session_goes_through_a_worker() {
    let hosted = hosted();
    let sockets = hosted.sockets();
    let overrun = Fixture::c("overrun");
    let built = overrun.build();
    let (launched, _) = hosted.launch(&overrun, &[]);
    assert!(launched.contains("Stopped at entry"), "{launched}");
    let worker = hosted.worker();
    let debuggee = pid_in(&launched);
    assert!(children_of(worker).contains(&debuggee), "the worker has the program");
    assert!(!hosted.children().contains(&debuggee), "and the server has not");

    let set = hosted.call("debugger/set_breakpoint", json!({ "function": "settle" }));
    assert!(set.starts_with("Breakpoint 1 set at 0x"), "{set}");
    let stopped = hosted.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped at breakpoint 1 (0x"), "{stopped}");
    let stack = hosted.call("debugger/get_stack_trace", json!({}));
    assert!(stack.contains("settle") && stack.contains(" main+0x"), "{stack}");
    let locals = hosted.call("debugger/get_variables", json!({}));
    assert!(locals.contains("account: "), "{locals}");
    hosted.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    let stopped = hosted.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped by SIGSEGV"), "{stopped}");
    let autopsy = hosted.call("debugger/autopsy", json!({}));
    assert!(autopsy.contains("nothing is mapped"), "{autopsy}");
    let found = hosted.call("debugger/last_write", json!({ "expression": "account->currency" }));
    assert!(found.contains(&format!("overrun.c:{}\n", built.line("guilty"))), "{found}");
    let back = hosted.call("debugger/step_backward", json!({ "granularity": "line" }));
    assert!(back.contains("overrun.c"), "{back}");
    let memory = hosted.call("debugger/read_memory", json!({ "address": "$rsp", "size": 64 }));
    assert!(memory.contains("0x7ff"), "{memory}");
    assert!(hosted.call("debugger/disassemble", json!({ "function": "settle" })).contains("rbp"));
    let trace = hosted.call("debugger/export_trace", json!({ "format": "text" }));
    assert!(trace.starts_with("Exported ") && trace.contains(" events as text"), "{trace}");
    let refused = hosted.refused("debugger/evaluate", json!({ "expression": "acount" }));
    assert!(refused.to_string().contains("account"), "{refused}");
    let session = hosted.resource("debugger://session");
    assert!(session["result"]["contents"][0]["text"].as_str().unwrap().contains("\"Paused\""), "{session}");
    let source = hosted.resource(&format!("debugger://source/{}", built.source_text()));
    let text = source["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text, std::fs::read_to_string(&built.source).unwrap());
    assert!(hosted.resource("debugger://timeline")["result"].is_object());

    let processes = children_of(worker);
    hosted.call("debugger/disconnect", json!({}));
    // Whoever hears of the end may rely on it.
    assert!(!is_alive(worker) && !is_alive(debuggee));
    hosted.is_clean_after(&processes, sockets);
}

#[test]
fn a_program_prints_and_reads_through_a_worker_and_has_none_of_the_servers_secrets() {
    let hosted = hosted_with(&[("SECRET_OF_THE_SERVER", "hunter2"), ("LANG", "C"), ("TZ", "UTC")]);
    let env = json!({ "LANG": "C.UTF-8", "ADDED": "by the call" });
    let arguments = json!({ "program": "/usr/bin/env", "env": env, "stop_at_entry": "no", "record": false });
    hosted.call("debugger/launch", arguments);
    hosted.call("debugger/wait", json!({ "until": "exited", "timeout_ms": 10_000 }));
    let printed = hosted.call("debugger/read_output", json!({ "limit": 65536 }));
    for line in ["TZ=UTC", "LANG=C.UTF-8", "ADDED=by the call", "PATH=/"] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    for mark in ["SECRET_OF_THE_SERVER", "hunter2", "HINDCAST_"] {
        assert!(!printed.contains(mark), "{mark} is in {printed}");
    }
    // The worker itself has none of it, so there is nothing in it to find.
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", hosted.worker())).unwrap();
    let needless = environment.split_terminator('\0').find(|line| !line.starts_with("LD_LIBRARY_PATH="));
    assert_eq!(needless, None);

    hosted.call("debugger/launch", json!({ "program": "/bin/cat", "record": false }));
    hosted.call("debugger/continue", json!({ "wait": false }));
    hosted.call("debugger/write_input", json!({ "text": "hello there\n", "eof": true }));
    let ended = hosted.call("debugger/wait", json!({ "until": "exited", "timeout_ms": 10_000 }));
    assert!(ended.contains("hello there"), "{ended}");
}

#[test]
fn a_flood_of_output_stays_bounded() {
    let hosted = hosted();
    let program = Fixture::c("misbehave").build().path;
    let arguments = json!({ "program": program, "args": ["print", "256"], "record": false });
    hosted.call("debugger/launch", arguments);
    let before = hosted.server.resident_bytes();
    let ended = hosted.call("debugger/continue", json!({ "timeout_ms": 50_000 }));
    assert!(ended.contains("xited") || ended.contains("nded"), "{ended}");
    let grown = hosted.server.peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {grown} bytes");
}

#[test]
fn a_running_program_is_paused_and_sessions_do_not_mind_each_other() {
    let hosted = hosted();
    let hang = Fixture::c("misbehave");
    let (_, first) = hosted.launch(&hang, &["hang"]);
    let (_, second) = hosted.launch(&Fixture::c("calls"), &["3"]);
    assert_eq!(hosted.workers().len(), 2);
    let of = |id: &String| json!({ "session_id": id });
    let running = hosted.call("debugger/continue", json!({ "session_id": first, "timeout_ms": 50 }));
    assert!(running.to_lowercase().contains("running"), "{running}");
    // While the first runs, the second is looked at and moved.
    hosted.call("debugger/set_breakpoint", json!({ "session_id": second, "function": "square" }));
    assert!(hosted.call("debugger/continue", of(&second)).starts_with("Stopped at breakpoint 1"));
    // A running program is stopped for a moment to be given a breakpoint.
    let line = hang.build().line("hang");
    let place = json!({ "session_id": first, "file": "misbehave.c", "line": line });
    assert!(hosted.call("debugger/set_breakpoint", place).starts_with("Breakpoint 1 set at"));
    let wait = json!({ "session_id": first, "until": "stopped", "timeout_ms": 10_000 });
    assert!(hosted.call("debugger/wait", wait).contains("breakpoint 1"));
    hosted.call("debugger/remove_breakpoint", json!({ "session_id": first, "id": 1 }));
    hosted.call("debugger/continue", json!({ "session_id": first, "wait": false }));
    let paused = hosted.call("debugger/pause", of(&first));
    assert!(paused.contains("misbehave.c"), "{paused}");
    // Ending one that runs leaves the other.
    hosted.call("debugger/continue", json!({ "session_id": first, "wait": false }));
    hosted.call("debugger/disconnect", of(&first));
    assert_eq!(hosted.workers().len(), 1);
    assert!(hosted.call("debugger/get_variables", of(&second)).contains("number: int = 0"));
}

#[test]
fn a_worker_that_is_killed_ends_its_session_and_no_other() {
    let hosted = hosted();
    let sockets = hosted.sockets();
    let (_, other) = hosted.launch(&Fixture::c("calls"), &["3"]);
    let others = hosted.worker();
    let (launched, lost) = hosted.launch(&Fixture::c("misbehave"), &["hang"]);
    let worker = hosted.workers().into_iter().find(|&pid| pid != others).unwrap();
    let mut processes = children_of(worker);
    assert!(processes.contains(&pid_in(&launched)));
    processes.push(worker);

    // In the middle of a call.
    let refused = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            hosted.refused("debugger/continue", json!({ "session_id": lost, "timeout_ms": 30_000 }))
        });
        let status = || hosted.call("debugger/status", json!({}));
        eventually("the program runs", || status().contains(&format!("session {lost}: running")));
        kill(worker);
        waiting.join().unwrap()
    });
    let tells = |error: &Value| {
        let details = error["data"]["details"].as_str().unwrap();
        assert_eq!(error["code"], -32005, "{error}");
        assert!(details.contains("the session has ended: its worker process was killed"), "{error}");
        assert!(error["data"]["hint"].as_str().unwrap().contains("debugger/launch"), "{error}");
    };
    tells(&refused);
    // And in all later ones.
    let of = json!({ "session_id": lost });
    for tool in
        ["continue", "step_forward", "step_backward", "pause", "get_stack_trace", "timeline", "get_threads"]
    {
        tells(&hosted.refused(&format!("debugger/{tool}"), of.clone()));
    }
    let waited = hosted.call("debugger/wait", of);
    assert!(waited.starts_with("The session has ended: its worker process was killed"), "{waited}");
    let status = hosted.call("debugger/status", json!({}));
    assert!(status.contains(&format!("session {lost}: exited")), "{status}");
    assert!(status.contains("its worker process was killed"), "{status}");
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }

    // The other one goes on, and so does the server.
    let of = json!({ "session_id": other });
    assert!(hosted.call("debugger/get_stack_trace", of.clone()).contains(" main+0x"));
    assert!(hosted.call("debugger/continue", of.clone()).contains("sum 30 product 120"));
    // The lost one can be had again, in another worker.
    let again = hosted.call("debugger/restart", json!({ "session_id": lost }));
    assert!(again.contains("Stopped at entry"), "{again}");
    assert_eq!(hosted.workers().len(), 2);
    for id in [lost, other] {
        hosted.call("debugger/disconnect", json!({ "session_id": id }));
    }
    hosted.is_clean_after(&[], sockets);
}

#[test]
fn a_worker_that_is_lost_while_nobody_asks_is_noticed() {
    let hosted = hosted();
    let sockets = hosted.sockets();
    let (launched, lost) = hosted.launch(&Fixture::c("calls"), &["3"]);
    let worker = hosted.worker();
    assert!(hosted.resource("debugger://timeline")["result"].is_object());
    let processes = children_of(worker);
    assert!(processes.contains(&pid_in(&launched)));
    kill(worker);
    let status = || hosted.call("debugger/status", json!({}));
    eventually("the session is shown as ended", || status().contains(&format!("session {lost}: exited")));
    hosted.is_clean_after(&processes, sockets);
    // It is put away like any other that has ended.
    hosted.launch(&Fixture::c("calls"), &["3"]);
    assert!(!status().contains(&lost));
    let gone = hosted.call("debugger/disconnect", json!({}));
    assert!(!gone.is_empty());
    hosted.is_clean_after(&[], sockets);
}

#[test]
fn a_worker_that_hangs_is_done_away_with_when_its_session_ends() {
    let hosted = hosted();
    let sockets = hosted.sockets();
    hosted.launch(&Fixture::c("calls"), &["3"]);
    let worker = hosted.worker();
    let processes = children_of(worker);
    assert!(Command::new("kill").args(["-STOP", &worker.to_string()]).status().unwrap().success());
    hosted.call("debugger/disconnect", json!({}));
    assert!(!is_alive(worker));
    hosted.is_clean_after(&processes, sockets);
}

#[test]
fn a_server_that_is_killed_takes_workers_and_programs_along() {
    let hosted = hosted();
    let mut processes = Vec::new();
    let (launched, running) = hosted.launch(&Fixture::c("misbehave"), &["hang"]);
    processes.push(pid_in(&launched));
    hosted.call("debugger/continue", json!({ "session_id": running, "wait": false }));
    processes.push(pid_in(&hosted.launch(&Fixture::c("calls"), &["3"]).0));
    processes.extend(hosted.workers());
    assert!(processes.len() == 4 && processes.iter().all(|&process| is_alive(process)), "{processes:?}");
    // Copies of a program that runs come and go.
    processes.extend(hosted.workers().into_iter().flat_map(children_of));
    hosted.server.kill();
    for process in processes {
        eventually("workers and programs end with their server", || !is_alive(process));
    }
}

/// A program that runs until somebody ends it, and somebody who attaches to it.
fn attached(hosted: &Hosted, breakpoint: Value) -> Child {
    let hang = Fixture::c("misbehave").build();
    let program = Command::new(&hang.path).arg("hang").stdout(Stdio::null()).spawn().unwrap();
    let attached = hosted.call("debugger/attach", json!({ "pid": program.id() }));
    assert!(attached.contains(&program.id().to_string()), "{attached}");
    // What is in its code must be out of it again before it goes on.
    let set = hosted.call("debugger/set_breakpoint", breakpoint);
    assert!(set.starts_with("Breakpoint 1 set at"), "{set}");
    program
}

/// Whether nobody traces it and it is not stopped.
pub(crate) fn is_free(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
    value("TracerPid:\t") == "0" && value("State:\t").starts_with(['R', 'S'])
}

/// Nobody has hold of it, and it does not die of what was done to it.
fn goes_on(mut program: Child) {
    eventually("the program is let go", || is_free(program.id()));
    // Long enough to get to a breakpoint that was left, or a signal that came late.
    std::thread::park_timeout(Duration::from_millis(100));
    assert!(program.try_wait().unwrap().is_none(), "it died of what was left in it");
    assert!(is_free(program.id()), "it was stopped afterwards");
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn what_was_attached_to_goes_on_when_the_server_is_killed() {
    let hang = json!({ "file": "misbehave.c", "line": Fixture::c("misbehave").build().line("hang") });
    let elsewhere = json!({ "function": "print_much" });
    for (breakpoint, runs) in [(hang, false), (elsewhere, true)] {
        let hosted = hosted();
        let program = attached(&hosted, breakpoint);
        let went = hosted.call("debugger/continue", json!({ "wait": !runs }));
        assert_eq!(went.contains("breakpoint 1"), !runs, "{went}");
        let worker = hosted.worker();
        hosted.server.kill();
        eventually("the worker ends", || !is_alive(worker));
        goes_on(program);
    }
}

#[test]
fn what_was_attached_to_goes_on_when_its_session_ends() {
    let hosted = hosted();
    let program = attached(&hosted, json!({ "function": "print_much" }));
    hosted.call("debugger/continue", json!({ "wait": false }));
    hosted.call("debugger/disconnect", json!({}));
    assert!(hosted.workers().is_empty());
    goes_on(program);
}

#[test]
fn what_was_attached_to_goes_on_when_the_worker_is_killed() {
    let hang = json!({ "file": "misbehave.c", "line": Fixture::c("misbehave").build().line("hang") });
    let elsewhere = json!({ "function": "print_much" });
    let hosted = hosted();
    for (breakpoint, runs) in [(hang, false), (elsewhere, true)] {
        let program = attached(&hosted, breakpoint);
        let went = hosted.call("debugger/continue", json!({ "wait": !runs }));
        assert_eq!(went.contains("breakpoint 1"), !runs, "{went}");
        let worker = hosted.worker();
        let processes = children_of(worker);
        kill(worker);
        for process in processes {
            eventually("nothing of the worker is left", || !is_alive(process));
        }
        goes_on(program);
    }
}

#[test]
fn a_process_that_sleeps_sleeps_on_after_being_attached_to_and_let_go() {
    let hosted = hosted();
    let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    for round in 0..hindcast_fixtures::oracle_size(15, 500) {
        let attached = hosted.call("debugger/attach", json!({ "pid": program.id() }));
        assert!(!attached.contains("entry"), "{attached}");
        hosted.call("debugger/disconnect", json!({}));
        eventually("it sleeps", || state() == 'S');
        // A signal that came late would be there by now: the worker has ended.
        assert_eq!(state(), 'S', "round {round}");
    }
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn what_is_outside_the_allowed_folders_is_neither_run_nor_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let program = real.join("calls");
    std::fs::copy(Fixture::c("calls").build().path, &program).unwrap();
    let script = real.join("script");
    std::fs::write(&script, "#!/bin/sh\necho out\n").unwrap();
    let mode = std::fs::metadata(&program).unwrap().permissions();
    std::fs::set_permissions(&script, mode).unwrap();
    let hosted = hosted_with(&[("HINDCAST_DEBUG_ALLOWED_FOLDERS", real.to_str().unwrap())]);
    let denied = |tool: &str, arguments: Value| {
        let error = hosted.refused(tool, arguments);
        assert_eq!(error["code"], -32003, "{error}");
        error.to_string()
    };
    assert!(denied("debugger/launch", json!({ "program": script })).contains("/bin/sh"));
    for name in ["GCONV_PATH", "LD_PRELOAD"] {
        denied("debugger/launch", json!({ "program": program, "env": { name: "x" } }));
    }
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("there"), "").unwrap();
    hosted.call("debugger/launch", json!({ "program": program }));
    let told = |name: &str| {
        let path = outside.path().join(name);
        let text = [
            denied("debugger/launch", json!({ "core": path })),
            denied("debugger/launch", json!({ "trace": path })),
            denied("debugger/launch", json!({ "program": path })),
            denied("debugger/launch", json!({ "program": program, "stdin": { "file": path } })),
            denied("debugger/export_trace", json!({ "path": path })),
        ];
        text.concat().replace(name, "NAME")
    };
    assert_eq!(told("there"), told("missing"));
}

#[test]
fn nobody_attaches_to_the_server_or_to_what_a_session_has() {
    let hosted = hosted();
    let stranger = hosted.server.unlimited_key();
    let (launched, _) = hosted.launch(&Fixture::c("calls"), &[]);
    let worker = hosted.worker();
    let mut held = vec![u64::from(hosted.server.pid()), worker, pid_in(&launched)];
    held.extend(children_of(worker));
    let mut sleeper = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    hosted.call("debugger/attach", json!({ "pid": sleeper.id() }));
    held.push(u64::from(sleeper.id()));
    held.extend(hosted.workers().into_iter().flat_map(children_of));
    let answers: Vec<_> = held
        .iter()
        .map(|pid| (*pid, hosted.server.call(&stranger, "debugger/attach", json!({ "pid": pid }))))
        .collect();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    for (pid, answer) in answers {
        assert_eq!(answer["error"]["code"], -32003, "{pid}: {answer}");
        let error = helpful_error(&answer);
        assert!(error["data"]["details"].as_str().unwrap().contains("belongs to hindcast"), "{error}");
    }
}

#[test]
fn what_was_attached_to_is_not_said_to_have_ended_when_the_worker_is_killed() {
    let hosted = hosted();
    let mut sleeper = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    hosted.call("debugger/attach", json!({ "pid": sleeper.id() }));
    kill(hosted.worker());
    let state = || {
        let status = hosted.server.call(&hosted.key, "debugger/status", json!({}));
        status["result"]["structuredContent"]["sessions"][0]["state"].clone()
    };
    let mut last = Value::Null;
    eventually("the loss is heard of", || {
        last = state();
        last != "paused"
    });
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(last, "lost");
}

#[test]
fn a_server_that_stops_ends_its_workers() {
    let hosted = hosted();
    let (launched, _) = hosted.launch(&Fixture::c("misbehave"), &["hang"]);
    hosted.call("debugger/continue", json!({ "wait": false }));
    let (worker, debuggee) = (hosted.worker(), pid_in(&launched));
    hosted.server.stop();
    assert!(!is_alive(worker) && !is_alive(debuggee));
}

#[test]
fn an_owner_has_at_most_eight_sessions_by_whatever_keys_and_others_still_get_theirs() {
    let server = Server::start(&[]);
    let owner = ["--owner", "ann", "--tier", "enterprise"];
    let keys = [server.key(&owner), server.key(&owner)];
    let key = server.tenant_key();
    let hosted = Hosted { server, key };
    let sockets = hosted.sockets();
    let launch = |key: &str| {
        let arguments = json!({ "program": "/usr/bin/sleep", "args": ["1000"], "record": false });
        hosted.server.call(key, "debugger/launch", arguments)
    };
    let start = Barrier::new(12);
    let press = |key: &str| {
        start.wait();
        launch(key)
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let pressing: Vec<_> =
            keys.iter().cycle().take(12).map(|key| scope.spawn(move || press(key))).collect();
        pressing.into_iter().map(|pressing| pressing.join().unwrap()).collect()
    });
    let (launched, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["result"].is_object());
    assert_eq!((launched.len(), refused.len()), (8, 4), "{answers:#?}");
    for answer in refused {
        let data = helpful_error(answer)["data"].clone();
        assert!(data["details"].as_str().unwrap().contains("8 debug sessions"), "{data}");
        assert!(data["hint"].as_str().unwrap().contains("debugger/disconnect"), "{data}");
    }
    assert_eq!(hosted.workers().len(), 8, "nothing was started for those that are refused");
    hosted.call("debugger/launch", json!({ "program": "/usr/bin/true", "record": false }));
    assert_eq!(hosted.workers().len(), 9);

    let end = |answer: &Value| {
        let session = &answer["result"]["structuredContent"]["session_id"];
        let ended = hosted.server.call(&keys[0], "debugger/disconnect", json!({ "session_id": session }));
        assert!(ended["result"].is_object(), "{ended}");
    };
    let mut processes = hosted.processes();
    end(launched[0]);
    let again = launch(&keys[1]);
    assert!(again["result"].is_object(), "an end makes room: {again}");
    processes.extend(hosted.processes());
    helpful_error(&launch(&keys[1]));
    for answer in launched[1..].iter().copied().chain([&again]) {
        end(answer);
    }
    hosted.call("debugger/disconnect", json!({}));
    hosted.is_clean_after(&processes, sockets);
}
