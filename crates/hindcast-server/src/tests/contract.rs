//! The sentences and errors that the wire contract prints.

use hindcast_core::debug::{
    Fault, FaultAccess, FaultKind, RaisedSignal, RuntimeAddr,
    fake::{FakeAct, FakeProgram},
};
use serde_json::json;

use super::stage::Stage;

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_sentences_come_first() {
    let stage = Stage::counter();
    let pid = std::process::id();
    let attached = stage.call("attach", json!({ "pid": pid })).await;
    assert_eq!(first_line(&attached.text), format!("Successfully attached to process {pid}"));

    let set = stage.call("set_breakpoint", json!({ "function": "report" })).await;
    assert_eq!(first_line(&set.text), "Breakpoint 1 set at 0x40100c");
    assert_eq!(set.content["id"], "bp-1");
    assert_eq!(set.content["bound"][0]["address"], "0x40100c");
    let stopped = stage.call("continue", json!({})).await;
    assert_eq!(first_line(&stopped.text), "Stopped at breakpoint 1 (0x40100c)");

    let trace = stage.call("get_stack_trace", json!({})).await;
    assert_eq!(
        trace.text,
        "Stack trace:\n#0  0x40100c report+0x0 at counter.c:11\n#1  0x401000 main+0x20 at counter.c:6"
    );
    let variables = stage.call("get_variables", json!({})).await;
    assert_eq!(variables.text, "Local variables:\n  total: i32 = 42\n  password: char * = ***");

    let stepped = stage.call("step_forward", json!({})).await;
    assert!(stepped.text.starts_with("Stepped to 0x401010\n  mov eax, dword ptr [rbp]"), "{}", stepped.text);
    let ended = stage.call("continue", json!({})).await;
    assert_eq!(first_line(&ended.text), "Exited with code 0");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_errors_have_their_codes() {
    let stage = Stage::counter();
    let check = async |tool: &str, arguments, code: i64, message: &str| {
        let error = stage.refused(tool, arguments).await;
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)), "{tool}: {error}");
    };
    check("attach", json!({ "pid": 4_194_305 }), -32004, "Process not found").await;
    for tool in ["get_stack_trace", "continue", "pause", "restart", "disconnect", "autopsy", "read_output"] {
        check(tool, json!({}), -32005, "Not attached").await;
    }
    stage.launch().await;
    let nowhere = json!({ "file": "other.c", "line": 7 });
    check("set_breakpoint", nowhere, -32006, "Breakpoint failed").await;
    check("set_breakpoint", json!({}), -32602, "Invalid params").await;
    check("get_variables", json!({ "frame": 9 }), -32602, "Invalid params").await;
    check("get_stack_trace", json!({ "thread_id": 99 }), -32602, "Invalid params").await;
    check("step_forward", json!({ "thread_id": 99 }), -32602, "Invalid params").await;
    check("run_to", json!({ "function": "nowhere" }), -32006, "Breakpoint failed").await;
    check("remove_breakpoint", json!({ "id": "7" }), -32602, "Invalid params").await;
    check("get_threads", json!({ "session_id": "nobody" }), -32005, "Not attached").await;

    let assignment = json!({ "expression": "count = 5" });
    let error = stage.call_as(Stage::reader(), "evaluate", assignment.clone()).await.err().unwrap();
    assert_eq!((&error["code"], &error["data"]["required_scope"]), (&json!(-32003), &json!("debug:write")));
    let read = stage.call_as(Stage::reader(), "evaluate", json!({ "expression": "count" })).await;
    assert_eq!(read.ok().unwrap().text, "count: i32 = 0");
    assert_eq!(stage.call("evaluate", assignment).await.text, "count: i32 = 5");
    let deep = json!({ "expression": "count", "depth": 2_147_483_648_u32 });
    let note = "count: i32 = 5\nnote: `depth` is 2147483648; 10 levels are the most that is shown";
    assert_eq!(stage.call("evaluate", deep).await.text, note);

    stage.call("continue", json!({})).await;
    check("get_stack_trace", json!({}), -32005, "Not attached").await;
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_explained_in_one_call() {
    let signal = RaisedSignal {
        name: "SIGSEGV".into(),
        number: 11,
        cause: Some("address not mapped".into()),
        fault_address: Some(RuntimeAddr(8)),
        fault: Some(Box::new(Fault {
            kind: FaultKind::NullDereference,
            access: Some(FaultAccess::Read),
            pointer: None,
            region: None,
        })),
        handled: false,
    };
    let stage = Stage::with(FakeProgram::doing(FakeAct::Raise(signal)));
    stage.launch().await;
    let crashed = stage.call("continue", json!({})).await;
    assert_eq!(first_line(&crashed.text), "Stopped by SIGSEGV (0x401004)");
    let next = ["debugger/autopsy", "debugger/last_write", "debugger/step_backward"];
    assert_eq!(crashed.content["next"], json!(next));
    let autopsy = stage.call("autopsy", json!({})).await;
    assert!(autopsy.text.starts_with("SIGSEGV: read of 0x8: a null pointer"), "{}", autopsy.text);
    assert!(autopsy.text.contains("offset 8"), "{}", autopsy.text);
    assert_eq!(autopsy.content["access"]["kind"], "null_dereference");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_file_is_opened_and_does_not_run() {
    let signal = RaisedSignal {
        name: "SIGABRT".into(),
        number: 6,
        cause: None,
        fault_address: None,
        fault: None,
        handled: false,
    };
    let stage = Stage::with(FakeProgram::doing(FakeAct::Raise(signal)));
    let opened = stage.call("launch", json!({ "core": stage.folder.join("program") })).await;
    assert!(
        opened.text.starts_with("Opened the core of fake (process 12345)\nStopped by SIGABRT"),
        "{}",
        opened.text
    );
    let error = stage.refused("continue", json!({})).await;
    assert!(error["data"]["details"].as_str().unwrap().contains("core"), "{error}");
    stage.call("get_stack_trace", json!({})).await;
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_says_its_message() {
    let stage = Stage::with(FakeProgram::doing(FakeAct::Panic("index out of bounds".into())));
    stage.launch().await;
    let stopped = stage.call("continue", json!({})).await;
    assert_eq!(first_line(&stopped.text), "Stopped at rust:panic (0x401004): index out of bounds");
    stage.finish().await;
}
