//! Sizes, spellings and the way through a session.

use hindcast_core::{
    debug::fake::{FakeAct, FakeProgram},
    identity::{Caller, PrincipalId},
};
use serde_json::{Value, json};

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_tools_is_short() {
    let stage = Stage::counter();
    let mut client = stage.client().await;
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 56);
    let size = listed["result"].to_string().len();
    assert!(size < 25_500, "tools/list has {size} bytes");
    for tool in tools {
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool}");
        assert!(tool["description"].is_string() && tool["annotations"].is_object(), "{tool}");
        assert!(!tool.to_string().contains("$ref"), "{tool}");
    }
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_a_small_program_are_small() {
    let stage = Stage::counter();
    let mut answers = vec![("launch", stage.launch().await)];
    for (tool, arguments) in [
        ("set_breakpoint", json!({ "function": "report" })),
        ("continue", json!({})),
        ("get_stack_trace", json!({})),
        ("get_variables", json!({})),
        ("evaluate", json!({ "expression": "total" })),
        ("read_memory", json!({ "address": "0x500000" })),
        ("disassemble", json!({})),
        ("get_registers", json!({})),
        ("get_threads", json!({})),
        ("get_modules", json!({})),
        ("autopsy", json!({})),
        ("status", json!({})),
        ("step_forward", json!({ "granularity": "line" })),
        ("step_backward", json!({ "granularity": "line" })),
        ("last_write", json!({ "expression": "total" })),
        ("reverse_continue", json!({})),
        ("goto", json!({ "moment": "present" })),
        ("timeline", json!({})),
        ("read_output", json!({ "since": 0 })),
    ] {
        answers.push((tool, stage.call(tool, arguments).await));
    }
    for (tool, said) in answers {
        let size = said.text.len() + said.content.to_string().len();
        assert!(size < 2000, "{tool} says {size} bytes: {}\n{}", said.text, said.content);
    }
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_may_be_written_as_models_write_them() {
    let stage = Stage::counter();
    stage.call("launch", json!({ "program": stage.folder.join("program"), "cwd": null, "args": [] })).await;
    let set = stage.call("set_breakpoint", json!({ "address": 0x40_100c })).await;
    assert!(set.text.starts_with("Breakpoint 1 set at 0x40100c"), "{}", set.text);
    let set = stage.call("set_breakpoint", json!({ "file": "counter.c", "line": "11" })).await;
    assert!(set.text.starts_with("Breakpoint 2 set at 0x40100c"), "{}", set.text);
    let set = stage.call("set_breakpoint", json!({ "file": "counter.c", "line": 9 })).await;
    assert!(set.text.contains("note: line 9 has no code"), "{}", set.text);
    for id in [json!(1), json!("2"), json!("bp-3")] {
        stage.call("remove_breakpoint", json!({ "id": id })).await;
    }
    let stepped = stage.call("step_forward", json!({ "count": "2", "thread_id": "1" })).await;
    assert_eq!(stepped.content["location"]["address"], "0x401008");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tracepoints_log_and_do_not_stop() {
    let stage = Stage::counter();
    stage.launch().await;
    let trace = json!({ "file": "counter.c", "line": 5, "log_message": "count is {count}" });
    let set = stage.call("set_breakpoint", trace).await;
    assert_eq!(set.content["type"], "Tracepoint");
    let ended = stage.call("continue", json!({})).await;
    assert_eq!(ended.content["output"]["log"], "count is 1\n");
    assert_eq!(ended.content["state"], "exited");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_program_takes_input_and_can_be_waited_for() {
    let stage = Stage::with(FakeProgram::doing(FakeAct::AwaitInput));
    stage.launch().await;
    let running = stage.call("continue", json!({ "timeout_ms": 10 })).await;
    assert_eq!(running.content["state"], "running");
    let error = stage.refused("get_stack_trace", json!({})).await;
    assert!(error["data"]["hint"].as_str().unwrap().contains("debugger/pause"), "{error}");
    let status = stage.call("status", json!({})).await;
    assert_eq!(status.content["sessions"][0]["state"], "running");
    stage.call("write_input", json!({ "text": "hi\n" })).await;
    let ended = stage.call("wait", json!({ "until": "exited" })).await;
    assert_eq!(
        (&ended.content["state"], &ended.content["output"]["stdout"]),
        (&json!("exited"), &json!("hi\n"))
    );
    let again = stage.call("restart", json!({})).await;
    assert!(again.text.starts_with("Launched program as process 12345\nStopped at entry"), "{}", again.text);
    let paused = stage.call("pause", json!({})).await;
    assert_eq!(paused.content["state"], "paused", "pausing what stands is no error");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_says_which_session_it_was_and_others_see_none_of_it() {
    let stage = Stage::counter();
    let launched = stage.launch().await;
    let id = launched.content["session_id"].as_str().unwrap();
    let trail = stage.call("get_comprehensive_audit", json!({ "session_id": id })).await;
    let tools: Vec<_> =
        trail.content["rows"].as_array().unwrap().iter().map(|row| row["tool"].clone()).collect();
    assert_eq!(tools, ["debugger/launch"]);
    let other = Caller { principal: PrincipalId("other".into()), ..Caller::local() };
    let status = stage.call_as(other.clone(), "status", json!({})).await.ok().unwrap();
    assert_eq!(status.content["sessions"], json!([]));
    let error = stage.call_as(other, "get_threads", json!({ "session_id": id })).await.err().unwrap();
    assert_eq!(error["code"], -32005);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_masked_unless_the_caller_asks_for_them() {
    let stage = Stage::counter();
    let program = stage.folder.join("program");
    for (masked, shown) in [(true, "***"), (false, "\"hunter2\"")] {
        stage.call("launch", json!({ "program": program, "mask_secrets": masked })).await;
        let stopped = stage.call("run_to", json!({ "function": "report" })).await;
        assert_eq!(stopped.content["locals"][1]["value"], shown);
    }
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_completed_from_the_current_session() {
    let stage = Stage::counter();
    let mut client = stage.client().await;
    let mut complete = async |reference: Value, name: &str, value: &str| {
        let argument = json!({ "name": name, "value": value });
        let params = json!({ "ref": reference, "argument": argument });
        let answer = client.request("completion/complete", params).await;
        answer["result"]["completion"]["values"].clone()
    };
    let prompt = json!({ "type": "ref/prompt", "name": "find-wrong-value" });
    let template = json!({ "type": "ref/resource", "uri": "debugger://source/{+file}" });
    assert_eq!(complete(prompt.clone(), "function", "r").await, json!([]));
    assert_eq!(complete(template.clone(), "file", "/").await, json!([]));
    stage.launch().await;
    assert_eq!(complete(prompt.clone(), "function", "r").await, json!(["report"]));
    assert_eq!(complete(prompt, "variable", "").await, json!(["count"]));
    assert_eq!(complete(template, "file", "/").await, json!([stage.source()]));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_launch_says_which_engine_it_is() {
    let stage = Stage::counter();
    let program = stage.folder.join("program");
    let launched = stage.call("launch", json!({ "program": program, "language": "rust" })).await;
    assert_eq!(launched.content["engine"], "native");
    assert!(launched.text.contains("\nEngine: native"), "{}", launched.text);
    let moved = stage.call("step_forward", json!({})).await;
    assert_eq!(moved.content["engine"], Value::Null, "it is said once");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_only_look_may_not_have_the_program_run() {
    let stage = Stage::counter();
    stage.launch().await;
    for (tool, arguments) in [
        ("evaluate", json!({ "expression": "count", "allow_calls": true })),
        ("get_variables", json!({ "allow_calls": true })),
    ] {
        assert!(!stage.call(tool, arguments.clone()).await.text.is_empty());
        let error = stage.call_as(Stage::reader(), tool, arguments).await.err().unwrap();
        let told = (&error["code"], &error["data"]["required_scope"]);
        assert_eq!(told, (&json!(-32003), &json!("debug:write")), "{tool}: {error}");
    }
    stage.finish().await;
}
