//! The buttons: steps and runs in both directions, breakpoints, the end.

use http::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{View, Visit, may_move};
use crate::http::page::{Body, Turned, form::Form, frame, sessions::SessionRow};

/// A movement is waited for so long; then the page shows that the program runs, and follows it.
const PATIENCE: u64 = 8_000;

/// A button that moves the program.
struct Move {
    name: &'static str,
    label: &'static str,
    title: &'static str,
    /// The key that does the same.
    key: &'static str,
    tool: &'static str,
    granularity: Option<&'static str>,
}

const fn run(
    name: &'static str,
    label: &'static str,
    title: &'static str,
    key: &'static str,
    tool: &'static str,
) -> Move {
    Move { name, label, title, key, tool, granularity: None }
}

const fn step(
    name: &'static str,
    label: &'static str,
    title: &'static str,
    key: &'static str,
    (tool, granularity): (&'static str, &'static str),
) -> Move {
    Move { name, label, title, key, tool, granularity: Some(granularity) }
}

const BACK: &str = "debugger/step_backward";
const FORWARD: &str = "debugger/step_forward";

const BACKWARD: [Move; 4] = [
    run("run-back", "◀◀ Run back", "Run back to the previous stop", "C", "debugger/reverse_continue"),
    step("out-back", "◀ Out", "Back to where the function was called", "O", (BACK, "out")),
    step("into-back", "◀ Into", "A step back, into calls", "S", (BACK, "line")),
    step("over-back", "◀ Over", "A line back, over calls", "N", (BACK, "over")),
];
const ONWARD: [Move; 4] = [
    step("over", "Over ▶", "A line on, over calls", "n", (FORWARD, "over")),
    step("into", "Into ▶", "A step on, into calls", "s", (FORWARD, "line")),
    step("out", "Out ▶", "Run to the end of the function", "o", (FORWARD, "out")),
    run("run", "Run ▶▶", "Run to the next stop", "c", "debugger/continue"),
];

/// All the buttons.
pub(super) fn bar(visit: &Visit<'_>, view: &View, session: &SessionRow) -> Markup {
    if !may_move(visit) {
        return html! { p.faint.bar-note { "This key only looks: moving the program needs the scope " code { "debug:write" } "." } };
    }
    let runs = session.state == "running";
    let has_ended = matches!(session.state.as_str(), "exited" | "lost");
    let in_past = session.recording.as_ref().is_some_and(|recording| recording.in_past);
    let has_past = session.recording.is_some() && !runs;
    html! {
        div.moves role="toolbar" aria-label="Move the program" {
            form method="post" action={ (view.path()) "/move" } {
                (frame::token(&visit.entry.csrf)) (view.fields())
                @if let Some(thread) = view.thread { input type="hidden" name="thread" value=(thread); }
                div.group {
                    button name="go" value="start" disabled[!has_past] title="To the start of the recording" { "|◀ Start" }
                    @for one in &BACKWARD { (button(one, has_past)) }
                }
                div.group {
                    @for one in &ONWARD { (button(one, !runs && (!has_ended || in_past))) }
                    button name="go" value="present" disabled[!in_past] title="To where the program really is" { "Present ▶|" }
                }
                @if runs { div.group { button.main name="go" value="pause" data-key="p" title="Stop it where it is (key: p)" { "Pause" } } }
            }
            label.keys { input #keys type="checkbox" checked; " Keys" }
            form.end method="post" action={ (view.path()) "/end" } data-ask="End this session? What was launched in it is ended, too." {
                (frame::token(&visit.entry.csrf))
                button.quiet.danger { "End session" }
            }
        }
    }
}

fn button(one: &Move, is_on: bool) -> Markup {
    html! {
        button name="go" value=(one.name) disabled[!is_on] data-key=(one.key) title={ (one.title) " (key: " (one.key) ")" } {
            (one.label)
        }
    }
}

/// Does what a button of the bar says, or goes to a moment that was clicked.
pub(in super::super) async fn go(visit: &Visit<'_>, id: &str, form: &Form) -> Result<Response<Body>, Turned> {
    let view = View::of(id, &form.fields);
    let thread = form.fields.number("thread");
    let (tool, arguments) = match form.get("go") {
        Some("start") => ("debugger/goto", json!({ "moment": "start" })),
        Some("present") => ("debugger/goto", json!({ "moment": "present" })),
        Some("pause") => ("debugger/pause", json!({})),
        Some(name) => match BACKWARD.iter().chain(&ONWARD).find(|one| one.name == name) {
            Some(Move { tool, granularity: Some(granularity), .. }) => {
                (*tool, json!({ "granularity": granularity, "thread_id": thread, "timeout_ms": PATIENCE }))
            }
            Some(Move { tool, .. }) => (*tool, json!({ "timeout_ms": PATIENCE })),
            None => return Ok(visit.nowhere()),
        },
        None => match form.get("moment") {
            Some(moment) => ("debugger/goto", json!({ "moment": moment, "timeout_ms": PATIENCE })),
            None => return Ok(visit.nowhere()),
        },
    };
    let result = visit.desk.press(tool, with_session(arguments, id)).await;
    let at = if form.get("go").is_none() { form.get("moment").unwrap_or_default() } else { "" };
    Ok(visit.back_with(&view.link(&[("at", at), ("frame", "")]), result.err().as_ref()))
}

/// Sets a breakpoint at a line, or takes one away.
pub(in super::super) async fn breakpoint(
    visit: &Visit<'_>,
    id: &str,
    form: &Form,
) -> Result<Response<Body>, Turned> {
    let view = View::of(id, &form.fields);
    let result = match (form.get("remove"), form.get("file"), form.fields.number("line")) {
        (Some(breakpoint), _, _) => {
            let arguments = json!({ "id": breakpoint });
            visit.desk.press("debugger/remove_breakpoint", with_session(arguments, id)).await
        }
        (None, Some(file), Some(line)) => {
            let arguments = json!({ "file": file, "line": line });
            visit.desk.press("debugger/set_breakpoint", with_session(arguments, id)).await
        }
        _ => return Ok(visit.nowhere()),
    };
    Ok(visit.back_with(&view.link(&[]), result.err().as_ref()))
}

/// Ends the session.
pub(in super::super) async fn end(visit: &Visit<'_>, id: &str) -> Result<Response<Body>, Turned> {
    let result = visit.desk.press("debugger/disconnect", with_session(json!({}), id)).await;
    Ok(visit.back_with(super::super::SESSIONS, result.err().as_ref()))
}

fn with_session(mut arguments: Value, id: &str) -> Value {
    if let Value::Object(fields) = &mut arguments {
        fields.insert("session_id".into(), id.into());
    }
    arguments
}
