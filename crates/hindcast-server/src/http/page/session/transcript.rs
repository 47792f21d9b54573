//! What was done with a session, from the audit trail.

use hindcast_core::{audit::AuditRow, identity::Scope};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::{View, Visit, missing, parts};

const SHOWN: usize = 30;

#[derive(Deserialize)]
struct Trail {
    rows: Vec<AuditRow>,
    next_cursor: Option<String>,
}

pub(super) async fn show(visit: &Visit<'_>, view: &View) -> Markup {
    const TITLE: &str = "Transcript";
    if !visit.desk.may(Scope::AuditRead) {
        let content = html! { p.faint { "What was called is shown to keys with the scope " code { "audit:read" } "." } };
        return parts::panel(TITLE, content);
    }
    let asked = json!({ "session_id": view.id, "limit": SHOWN, "verify": false });
    let trail = match visit.desk.look::<Trail>("debugger/get_comprehensive_audit", asked).await {
        Ok(trail) => trail,
        Err(failure) => return missing(TITLE, &failure),
    };
    parts::panel(
        TITLE,
        html! {
            @if trail.rows.is_empty() { p.faint { "Nothing was called yet." } }
            ol.calls reversed {
                @for row in &trail.rows {
                    @let record = &row.record;
                    @let is_person = record.method.starts_with("page/");
                    li {
                        span.when { (record.time.strftime("%H:%M:%S").to_string()) }
                        span.who { @if is_person { "page" } @else { "agent" } }
                        span.tool { (record.tool.as_deref().unwrap_or(&record.method)) }
                        @if let Some(target) = &record.target { span.target { (super::words::cut(target, 80)) } }
                        span.outcome .bad[record.outcome != "ok"] { (record.outcome) }
                        span.took { (took(record.duration_us)) }
                    }
                }
            }
            @if trail.next_cursor.is_some() { p.faint { "Older calls are in the audit trail." } }
        },
    )
}

pub(in super::super) fn took(microseconds: u64) -> String {
    match microseconds {
        0..1000 => format!("{microseconds} µs"),
        1000..1_000_000 => format!("{} ms", microseconds / 1000),
        _ => format!("{}.{} s", microseconds / 1_000_000, microseconds % 1_000_000 / 100_000),
    }
}
