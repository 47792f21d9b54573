//! The list of debug sessions.

use hindcast_core::{Timestamp, identity::Scope};
use http::Response;
use maud::html;
use serde::Deserialize;
use serde_json::json;

use super::{Body, SESSIONS, Turned, Visit, frame, words};

/// What `debugger/status` tells.
#[derive(Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) sessions: Vec<SessionRow>,
    #[serde(default)]
    pub(super) breakpoints: Vec<BreakpointRow>,
}

#[derive(Deserialize, Clone)]
pub(super) struct SessionRow {
    pub(super) session_id: String,
    pub(super) state: String,
    pub(super) pid: Option<u32>,
    pub(super) program: Option<String>,
    pub(super) stop: Option<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) recording: Option<RecordedRow>,
}

#[derive(Deserialize, Clone)]
pub(super) struct RecordedRow {
    #[serde(default)]
    pub(super) in_past: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BreakpointRow {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) enabled: bool,
    pub(super) verified: bool,
    pub(super) hit_count: u64,
    pub(super) condition: Option<String>,
    pub(super) log_message: Option<String>,
    pub(super) watched: Option<String>,
}

impl SessionRow {
    pub(super) fn name(&self) -> &str {
        self.program.as_deref().map_or("?", words::file_name)
    }

    pub(super) fn path(&self) -> String {
        path(&self.session_id)
    }

    /// What stands beside the program's name.
    pub(super) fn state_word(&self) -> &str {
        match self.state.as_str() {
            "paused" if self.recording.as_ref().is_some_and(|recording| recording.in_past) => "in the past",
            other => other,
        }
    }
}

/// Where a session is shown.
pub(super) fn path(id: &str) -> String {
    format!("{SESSIONS}/{}", words::encoded(id))
}

/// The page.
pub(super) async fn show(visit: &Visit<'_>) -> Result<Response<Body>, Turned> {
    let status = match visit.desk.look::<Status>("debugger/status", json!({})).await {
        Ok(status) => status,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let now = visit.front.app.now();
    let owner = &visit.desk.caller.principal.0;
    let content = html! {
        div.head { h1 { "Debug sessions" } }
        @if status.sessions.is_empty() {
            div.empty {
                p { "No debug session is open." }
                p.faint {
                    "One begins when an agent with a key of " strong { (owner) } " calls " code { "debugger/launch" }
                    " or " code { "debugger/attach" } "; it is shown here while it lasts."
                }
            }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Debug sessions" {
                table.rows {
                    thead { tr {
                        th scope="col" { "Program" } th scope="col" { "State" } th scope="col" { "Where" }
                        th scope="col" { "Owner" } th scope="col" { "Age" }
                    } }
                    tbody {
                        @for session in status.sessions.iter().rev() {
                            tr {
                                td {
                                    a href=(session.path()) { strong { (session.name()) } }
                                    @if let Some(pid) = session.pid { " " span.faint { (pid) } }
                                }
                                td { (pill(session)) }
                                td.where { (session.stop.as_deref().unwrap_or("")) }
                                td { (owner) }
                                td { @if let Some(since) = session.since { (words::age(since, now)) } }
                            }
                        }
                    }
                }
            }
        }
        @if !visit.desk.may(Scope::DebugWrite) {
            p.faint { "This key only looks: moving a program needs the scope " code { "debug:write" } "." }
        }
    };
    let live = format!("{SESSIONS}/all/events");
    let shell =
        frame::Shell { live: Some(live), notice: visit.entry.take_notice(), ..visit.shell("Sessions") };
    Ok(frame::page(http::StatusCode::OK, &shell, content))
}

/// The state, as a word that stands out.
pub(super) fn pill(session: &SessionRow) -> maud::Markup {
    let word = session.state_word();
    let kind = if word == "in the past" { "past" } else { session.state.as_str() };
    html! { span class={ "pill " (kind) } { (word) } }
}
