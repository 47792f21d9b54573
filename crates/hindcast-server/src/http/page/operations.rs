//! What the server does: limits, usage, license, health, models, and the trail of all that was done.

use std::time::Duration;

use hindcast_core::{Timestamp, audit::AuditRow, identity::Scope};
use hindcast_services::{Failure, knowledge::HEALTH_URI};
use http::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Body, OPERATIONS, Turned, Visit, frame, knowledge::plain, plot, session::took, words};

/// The usage of so long is drawn…
const DRAWN: Duration = Duration::from_secs(24 * 3600);
/// …from at most so many rows of the trail.
const MOST_ROWS: usize = 5000;
const ROWS: usize = 1000;
const LISTED: usize = 100;

#[derive(Deserialize)]
struct Quota {
    tier: Option<String>,
    unlimited: bool,
    month: Option<Period>,
    minute: Option<Period>,
}

#[derive(Deserialize)]
struct Period {
    limit: u64,
    used: u64,
    remaining: u64,
    reset_at: String,
}

/// `debugger/get_comprehensive_audit`.
#[derive(Deserialize)]
struct Trail {
    rows: Vec<AuditRow>,
    next_cursor: Option<String>,
    chain: Option<Chain>,
}

#[derive(Deserialize)]
struct Chain {
    verified: bool,
    rows: Option<u64>,
    first_bad_row: Option<u64>,
    problem: Option<String>,
}

/// The ways from here.
pub(super) fn tabs(visit: &Visit<'_>) -> Markup {
    let keys = format!("{OPERATIONS}/keys");
    let audit = format!("{OPERATIONS}/audit");
    let mut places = vec![(OPERATIONS.to_owned(), "Overview")];
    if visit.desk.may(Scope::AuditRead) {
        places.push((audit, "Audit trail"));
    }
    if visit.desk.may(Scope::Admin) {
        places.push((keys, "Keys"));
    }
    html! {
        nav.tabs aria-label="Operations" {
            @for (path, name) in &places { a href=(path) aria-current=[(visit.path == *path).then_some("page")] { (name) } }
        }
    }
}

/// The overview.
pub(super) async fn show(visit: &Visit<'_>) -> Result<Response<Body>, Turned> {
    let desk = &visit.desk;
    let (quota, license, health) = futures::join!(
        desk.look::<Quota>("debugger/quota_status", json!({})),
        desk.look::<Value>("debugger/license_info", json!({})),
        desk.read::<Value>(HEALTH_URI),
    );
    let content = html! {
        div.head { h1 { "Operations" } }
        (tabs(visit))
        div.two {
            div {
                (usage(visit).await)
                (part("Health", &health, healthy))
            }
            div {
                (limits(&quota))
                (part("License", &license, licensed))
                (this_key(visit))
            }
        }
    };
    Ok(visit.page("Operations", content))
}

fn part(title: &str, value: &Result<Value, Failure>, show: impl Fn(&Value) -> Markup) -> Markup {
    html! {
        section.panel {
            h2 { (title) }
            @match value { Ok(value) => { (show(value)) } Err(failure) => { (frame::missing(failure)) } }
        }
    }
}

fn limits(quota: &Result<Quota, Failure>) -> Markup {
    html! {
        section.panel {
            h2 { "Limits of this key" }
            @match quota {
                Err(failure) => { (frame::missing(failure)) }
                Ok(quota) => {
                    @if quota.unlimited { p { "Nothing is counted." } }
                    @if let Some(tier) = &quota.tier { p.faint { "Tier " (tier) } }
                    @for (name, period) in [("This month", &quota.month), ("This minute", &quota.minute)] {
                        @if let Some(period) = period {
                            h3 { (name) }
                            (plot::meter(period.used, period.limit))
                            p { (words::number(period.used)) " of " (words::number(period.limit)) ", " (words::number(period.remaining)) " left until " (words::time(&period.reset_at)) }
                        }
                    }
                }
            }
        }
    }
}

fn licensed(license: &Value) -> Markup {
    let at = |name: &str| license.get(name).map(plain).unwrap_or_else(|| "–".to_owned());
    let features = license.get("features").and_then(Value::as_array).cloned().unwrap_or_default();
    html! {
        dl.facts {
            dt { "Type" } dd { (at("type")) }
            dt { "State" } dd { (at("state")) }
            dt { "Licensee" } dd { (at("licensee")) }
            dt { "Ends" } dd { (words::time(&at("expires_at"))) }
            dt { "Features" } dd { (features.iter().map(plain).collect::<Vec<_>>().join(", ")) }
        }
        @if let Some(notice) = license.get("notice").and_then(Value::as_str) { p { (notice) } }
    }
}

fn healthy(health: &Value) -> Markup {
    let at = |pointer: &str| health.pointer(pointer).map(plain).unwrap_or_else(|| "–".to_owned());
    let parts = health.get("components").and_then(Value::as_object).cloned().unwrap_or_default();
    let advice = health.get("recommendations").and_then(Value::as_array).cloned().unwrap_or_default();
    html! {
        p { span.pill { (at("/status")) } " score " (at("/healthScore")) " " span.faint { "at " (words::time(&at("/timestamp"))) } }
        div.scroll tabindex="0" role="region" aria-label="Components" {
            table.rows {
                thead { tr { th scope="col" { "Component" } th scope="col" { "Status" } th.number scope="col" { "Answers in" } } }
                tbody {
                    @for (name, part) in &parts {
                        tr {
                            td { (spaced(name)) }
                            td { (part.get("status").map(plain).unwrap_or_default()) }
                            td.number { (part.get("responseTime").map(plain).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
        dl.facts {
            dt { "Answered questions" } dd { (at("/metrics/successRate")) }
            dt { "Mean time of an answer" } dd { (at("/metrics/averageResponseTime")) }
            dt { "Errors in 24 hours" } dd { (at("/metrics/errorsLast24Hours")) }
            dt { "Database" } dd { (at("/metrics/databaseSize")) }
        }
        @if !advice.is_empty() { ul { @for one in &advice { li { (plain(one)) } } } }
    }
}

/// `sqliteDatabase` as people write it.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

fn this_key(visit: &Visit<'_>) -> Markup {
    let Some(key) = &visit.desk.caller.key else { return html! {} };
    html! {
        section.panel {
            h2 { "This key" }
            dl.facts {
                dt { "Name" } dd { (key.name) }
                dt { "Id" } dd { code { (key.id.0) } }
                dt { "Owner" } dd { (key.owner.0) }
                dt { "Scopes" } dd { (key.scopes.to_string()) }
                dt { "Ends" } dd { @match key.expires_at { Some(end) => { (words::time(&end.to_string())) } None => "never" } }
            }
        }
    }
}

/// What was done in the last day, hour by hour.
async fn usage(visit: &Visit<'_>) -> Markup {
    let now = visit.front.app.now();
    let content = if visit.desk.may(Scope::AuditRead) {
        match last_day(visit, now).await {
            Ok((rows, is_all)) => html! {
                (plot::hours(&rows, now))
                @if !is_all { p.faint { "The last " (rows.len()) " requests only." } }
            },
            Err(failure) => frame::missing(&failure),
        }
    } else {
        html! { p.faint { "Usage is drawn from the audit trail, which needs the scope " code { "audit:read" } "." } }
    };
    html! { section.panel { h2 { "Requests in the last 24 hours" } (content) } }
}

async fn last_day(visit: &Visit<'_>, now: Timestamp) -> Result<(Vec<AuditRow>, bool), Failure> {
    let since = now.checked_sub(DRAWN).unwrap_or(Timestamp::MIN);
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let asked =
            json!({ "start_time": since.to_string(), "limit": ROWS, "cursor": cursor, "verify": false });
        let page = visit.desk.look::<Trail>("debugger/get_comprehensive_audit", asked).await?;
        rows.extend(page.rows);
        cursor = page.next_cursor;
        if cursor.is_none() || rows.len() >= MOST_ROWS {
            return Ok((rows, cursor.is_none()));
        }
    }
}

/// The trail, checked.
pub(super) async fn audit(visit: &Visit<'_>) -> Result<Response<Body>, Turned> {
    let cursor = visit.query.get("cursor");
    let asked = json!({ "limit": LISTED, "cursor": cursor });
    let trail = match visit.desk.look::<Trail>("debugger/get_comprehensive_audit", asked).await {
        Ok(trail) => trail,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let content = html! {
        div.head { h1 { "Audit trail" } }
        (tabs(visit))
        @if let Some(chain) = &trail.chain { (verdict(chain)) }
        div.scroll tabindex="0" role="region" aria-label="Audit trail" {
            table.rows {
                thead { tr {
                    th.number scope="col" { "Row" } th scope="col" { "Time" } th scope="col" { "Who" } th scope="col" { "Key" } th scope="col" { "What" }
                    th scope="col" { "Of" } th scope="col" { "Outcome" } th.number scope="col" { "Took" }
                } }
                tbody {
                    @for row in &trail.rows {
                        @let record = &row.record;
                        tr {
                            td.number { (row.seq) }
                            td { (record.time.strftime("%Y-%m-%d %H:%M:%S").to_string()) }
                            td { (record.principal.as_ref().map_or("–", |principal| &principal.0)) }
                            td { code { (record.key_id.as_ref().map_or("–", |key| &key.0)) } }
                            td { (record.tool.as_deref().unwrap_or(&record.method)) }
                            td.where { (words::cut(record.target.as_deref().unwrap_or(""), 80)) }
                            td { span.outcome .bad[record.outcome != "ok"] { (record.outcome) } }
                            td.number { (took(record.duration_us)) }
                        }
                    }
                }
            }
        }
        @if let Some(next) = &trail.next_cursor {
            p.more { a href=(words::link(&visit.path, &[("cursor", next)])) { "Older rows" } }
        }
        p.faint { "What pages look at is in the trail, too, and left out here: " code { "hindcast audit show" } " shows all." }
    };
    Ok(visit.page("Audit trail", content))
}

fn verdict(chain: &Chain) -> Markup {
    html! {
        @if chain.verified {
            div.good-news { p { "The trail verifies" @if let Some(rows) = chain.rows { ": " (words::number(rows)) " rows" } ". Every row is as it was written, and its end is sealed." } }
        } @else {
            div.notice role="alert" {
                p { "The trail does not verify" @if let Some(row) = chain.first_bad_row { ": row " (row) " is the first that is bad" } "." }
                @if let Some(problem) = &chain.problem { p.hint { (problem) } }
            }
        }
    }
}
