//! Time travel as its callers see it.

use std::sync::{Arc, Mutex};

use hindcast_core::{
    debug::{
        Trace,
        fake::{FakeAct, FakeProgram},
    },
    identity::Caller,
    progress::Progress,
};
use serde_json::{Value, json};

use super::{
    resources::{debugger_resources, read},
    stage::Stage,
};
use crate::registry::Attachment;

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_sentences_come_first_when_going_back() {
    let stage = Stage::counter();
    let launched = stage.launch().await;
    assert_eq!(
        (&launched.content["moment"], &launched.content["in_past"]),
        (&json!("000000"), &json!(false))
    );
    stage.call("set_breakpoint", json!({ "function": "report" })).await;
    stage.call("continue", json!({})).await;
    stage.call("step_forward", json!({})).await;
    let back = stage.call("step_backward", json!({})).await;
    assert_eq!(
        lines(&back.text)[..4],
        [
            "Stepped back to 0x40100c",
            "  mov eax, dword ptr [rbp]",
            "Restored from snapshot 1",
            "In the past, at moment 000003"
        ]
    );
    assert_eq!((&back.content["in_past"], &back.content["snapshot"]), (&json!(true), &json!(1)));
    let back = stage.call("step_backward", json!({ "count": 2, "granularity": "over" })).await;
    assert_eq!(lines(&back.text)[..2], ["Stepped back to 0x401004", "Restored from snapshot 0"]);
    let forward = stage.call("step_forward", json!({ "granularity": "line" })).await;
    assert_eq!(lines(&forward.text)[..2], ["Stepped to 0x401008", "In the past, at moment 000002"]);
    let start = stage.call("reverse_continue", json!({})).await;
    assert!(start.text.starts_with("Stopped at the start of the recording (0x401000)"), "{}", start.text);
    assert_eq!(start.content["reason"], "history_start");
    let hit = stage.call("continue", json!({})).await;
    assert!(hit.text.starts_with("Stopped at breakpoint 1 (0x40100c)\nIn the past"), "{}", hit.text);
    let locals = stage.call("get_variables", json!({})).await;
    assert!(locals.text.contains("total: i32 = 42"), "{}", locals.text);
    let present = stage.call("continue", json!({})).await;
    assert!(present.text.starts_with("Back in the present (0x401010)"), "{}", present.text);
    let ended = stage.call("continue", json!({})).await;
    assert_eq!(lines(&ended.text)[0], "Exited with code 0");
    let back = stage.call("reverse_continue", json!({})).await;
    assert!(back.text.starts_with("Stopped at breakpoint 1 (0x40100c)\nRestored"), "{}", back.text);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moments_are_gone_to_by_name_and_by_percent() {
    let stage = Stage::counter();
    stage.launch().await;
    stage.call("continue", json!({})).await;
    for (arguments, moment) in [
        (json!({ "moment": "start" }), "000000"),
        (json!({ "percent": 50 }), "000003"),
        (json!({ "moment": "000002" }), "000002"),
        (json!({ "moment": "end" }), "000006"),
        (json!({ "percent": "0" }), "000000"),
        (json!({ "moment": "present" }), "000006"),
    ] {
        let gone = stage.call("goto", arguments.clone()).await;
        assert_eq!(gone.content["moment"], moment, "{arguments}: {}", gone.text);
    }
    for (arguments, code) in [
        (json!({}), -32602),
        (json!({ "moment": "start", "percent": 5 }), -32602),
        (json!({ "percent": 101 }), -32602),
        (json!({ "moment": "yesterday" }), -32007),
    ] {
        assert_eq!(stage.refused("goto", arguments.clone()).await["code"], code, "{arguments}");
    }
    let many = stage.refused("step_backward", json!({ "count": 0 })).await;
    assert!(many["data"]["hint"].as_str().unwrap().contains("debugger/reverse_continue"), "{many}");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_history_the_contracts_error_says_why_and_what_helps() {
    let stage = Stage::counter();
    let program = stage.folder.join("program");
    stage.call("launch", json!({ "program": program, "record": false })).await;
    for tool in ["step_backward", "reverse_continue", "timeline", "export_trace"] {
        let error = stage.refused(tool, json!({})).await;
        assert_eq!((&error["code"], &error["message"]), (&json!(-32007), &json!("History unavailable")));
        assert!(error["data"]["hint"].as_str().unwrap().contains("`record` true"), "{error}");
    }
    assert_eq!(stage.refused("goto", json!({ "moment": "start" })).await["code"], -32007);
    assert_eq!(stage.refused("last_write", json!({ "expression": "count" })).await["code"], -32007);
    let file = stage.folder.join("trace.bin");
    stage.refused("export_trace", json!({ "path": file })).await;
    assert!(!file.exists());
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_followed_to_the_line_that_caused_it() {
    let stage = Stage::with(FakeProgram::overrun());
    stage.launch().await;
    stage.call("continue", json!({})).await;
    let autopsy = stage.call("autopsy", json!({})).await;
    assert!(
        autopsy.text.contains("next: debugger/last_write with expression `currency`"),
        "{}",
        autopsy.text
    );
    let found = stage.call("last_write", json!({ "expression": "currency" })).await;
    assert_eq!(
        found.text,
        "Last write to `currency`: rename_owner at /src/overrun.c:20\n  from 0x500000 \"EUR\" to 0x42424242\n  \
         at moment 000002, thread 1\n#1 main at overrun.c:11\n  computed from `name`: a larger `depth` follows it"
    );
    let write = &found.content["writes"][0];
    assert_eq!((&write["by"], &write["thread_id"]), (&json!("program"), &json!(1)));
    assert_eq!(write["stack"].as_array().unwrap().len(), 2);
    stage.call("goto", json!({ "moment": write["moment"] })).await;
    let back = stage.call("step_backward", json!({})).await;
    assert_eq!(back.content["location"]["function"], "rename_owner");
    let none = stage.call("last_write", json!({ "expression": "name", "depth": 3 })).await;
    assert_eq!(none.text, "`name` was not written since the start of the recording");
    let by_address = json!({ "address": "0x7fffffffe000", "size": 8 });
    stage.call("goto", json!({ "moment": "present" })).await;
    let found = stage.call("last_write", by_address).await;
    assert_eq!(found.content["writes"][0]["location"]["line"], 20);
    assert_eq!(stage.refused("last_write", json!({})).await["code"], -32602);
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_is_told_by_pages_and_kinds_and_as_a_resource() {
    let stage = Stage::counter();
    let mut client = stage.client().await;
    let program = stage.folder.join("program");
    stage.call("launch", json!({ "program": program, "record": false })).await;
    let listed = debugger_resources(&mut client).await;
    assert!(listed.iter().all(|one| one["uri"] != "debugger://timeline"), "there is nothing to list");
    stage.launch().await;
    let subscribed = client.request("resources/subscribe", json!({ "uri": "debugger://timeline" })).await;
    assert_eq!(subscribed["result"], json!({}));
    stage.call("continue", json!({})).await;
    client.hear("notifications/resources/updated", Some("debugger://timeline")).await;
    let timeline = stage.call("timeline", json!({ "limit": 2 })).await;
    assert!(
        timeline
            .text
            .starts_with("Recorded from moment 000000 to 000006, 6 events, 4 snapshots; in the present"),
        "{}",
        timeline.text
    );
    assert_eq!((&timeline.content["total"], &timeline.content["next_cursor"]), (&json!(5), &json!("2")));
    let rest = stage.call("timeline", json!({ "cursor": "2" })).await;
    assert_eq!(rest.content["happenings"].as_array().unwrap().len(), 3);
    assert_eq!(rest.content.get("next_cursor"), None);
    let output = stage.call("timeline", json!({ "kinds": ["output"], "since": "000002" })).await;
    assert_eq!(output.content["happenings"][0]["what"], "two");
    assert_eq!(stage.refused("timeline", json!({ "kinds": ["noise"] })).await["code"], -32602);
    assert_eq!(stage.refused("timeline", json!({ "cursor": "x" })).await["code"], -32602);

    let resource = read(&mut client, "debugger://timeline", "application/json").await;
    let resource: Value = serde_json::from_str(&resource).unwrap();
    assert_eq!((&resource["inPast"], &resource["total"]), (&json!(false), &json!(5)));
    assert_eq!(resource["recording"]["snapshots"], 4);
    assert_eq!(resource["happenings"][0]["location"]["functionName"], "main");
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_exported_in_every_form() {
    let stage = Stage::counter();
    stage.launch().await;
    stage.call("continue", json!({})).await;
    let json_form = stage.call("export_trace", json!({})).await;
    assert!(json_form.text.starts_with("Exported 6 events as json ("), "{}", json_form.text);
    let Some(Attachment::Text(text)) = &json_form.attachment else { panic!("{:?}", json_form.attachment) };
    let trace: Value = serde_json::from_str(text).unwrap();
    assert_eq!(trace["events"].as_array().unwrap().len(), 6);
    let part = json!({ "format": "text", "start_snapshot": 1, "end_snapshot": 1 });
    let text_form = stage.call("export_trace", part).await;
    assert_eq!(text_form.content["events"], 2);
    let Some(Attachment::Text(text)) = &text_form.attachment else { panic!("{:?}", text_form.attachment) };
    assert!(text.contains("Only from snapshot 1 to 1"), "{text}");

    let binary = stage.call("export_trace", json!({ "format": "binary" })).await;
    let Some(Attachment::Blob { bytes, .. }) = &binary.attachment else { panic!("{:?}", binary.attachment) };
    assert_eq!(Trace::read(&**bytes).unwrap().events.len(), 6);
    let file = stage.folder.join("trace.bin");
    let to_file = json!({ "format": "binary", "path": file });
    let error = stage.call_as(Stage::reader(), "export_trace", to_file.clone()).await.err().unwrap();
    assert_eq!((&error["code"], &error["data"]["required_scope"]), (&json!(-32003), &json!("debug:write")));
    let written = stage.call("export_trace", to_file.clone()).await;
    assert!(written.attachment.is_none());
    assert_eq!(&std::fs::read(&file).unwrap(), bytes);
    let again = stage.refused("export_trace", to_file).await;
    assert!(again["data"]["details"].as_str().unwrap().contains("already"), "{again}");
    assert_eq!(
        stage.refused("export_trace", json!({ "start_snapshot": 2, "end_snapshot": 1 })).await["code"],
        -32602
    );
    assert_eq!(stage.refused("export_trace", json!({ "start_snapshot": 77 })).await["code"], -32007);

    let mut client = stage.client().await;
    let call = json!({ "name": "debugger/export_trace", "arguments": { "format": "binary" } });
    let answer = client.request("tools/call", call).await;
    let part = &answer["result"]["content"][1];
    assert_eq!(
        (&part["type"], &part["resource"]["mimeType"]),
        (&json!("resource"), &json!("application/octet-stream"))
    );
    stage.finish().await;
}

#[derive(Default)]
struct Told(Mutex<Vec<(u64, Option<u64>)>>);

impl Progress for Told {
    fn report(&self, done: u64, total: Option<u64>, _message: &str) {
        self.0.lock().unwrap().push((done, total));
    }

    fn cancelled(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_tells_how_far_it_is() {
    let stage = Stage::counter();
    stage.launch().await;
    stage.call("continue", json!({})).await;
    let told = Arc::new(Told::default());
    let tool = "debugger/export_trace".to_owned();
    stage.app.call_tool(Caller::local(), tool, serde_json::Map::new(), told.clone(), None).await.unwrap();
    assert_eq!(told.0.lock().unwrap().last(), Some(&(5, Some(6))));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_where_in_time_a_session_stands() {
    let stage = Stage::with(FakeProgram::doing(FakeAct::Exit(3)));
    stage.launch().await;
    stage.call("continue", json!({})).await;
    stage.call("goto", json!({ "moment": "start" })).await;
    let status = stage.call("status", json!({})).await;
    assert!(
        status.text.contains("recorded from moment 000000 to 000002; in the past, at 000000"),
        "{}",
        status.text
    );
    let recording = &status.content["sessions"][0]["recording"];
    assert_eq!((&recording["in_past"], &recording["end"]), (&json!(true), &json!("000002")));
    let error = stage.refused("evaluate", json!({ "expression": "x = 5" })).await;
    assert!(error["data"]["details"].as_str().unwrap().contains("the past cannot be changed"), "{error}");
    stage.finish().await;
}
