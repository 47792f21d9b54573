//! A value that is watched: who wrote it, what it was before and after, and what it was computed from.

use std::sync::Arc;

use hindcast_services::Failure;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    View, Visit, may_move, parts,
    timeline::Happening,
    told::{Place, StackFrame, Standing},
    words,
};
use crate::http::page::frame;

/// How long the past is searched before the page says that the search goes on.
const PATIENCE: u64 = 8_000;
/// So many writes are asked for, and so many are listed at once.
const MOST_WRITES: usize = 200;
const LISTED: usize = 40;
/// So many hops are followed back.
const MOST_HOPS: u32 = 6;

/// What was found about a value.
#[derive(Clone, Default)]
pub(in super::super) struct Watched {
    pub(super) writes: Vec<Write>,
    total: u64,
    first: String,
    last: String,
    note: Option<String>,
    hops: Vec<Hop>,
    /// The search that goes on.
    search: Option<u64>,
}

/// What is known of the value that is watched; none where none is.
pub(super) type Found = Option<Result<Arc<Watched>, Failure>>;

#[derive(Deserialize, Clone)]
pub(super) struct Write {
    pub(super) moment: String,
    pub(super) thread: Option<u32>,
    pub(super) location: Place,
    text: Option<String>,
    through: Option<String>,
    pub(super) old: String,
    pub(super) new: String,
}

#[derive(Deserialize, Clone)]
struct Hop {
    moment: String,
    location: Place,
    text: Option<String>,
    old: String,
    new: String,
    from: Option<String>,
}

/// `debugger/history`.
#[derive(Deserialize)]
struct History {
    #[serde(default)]
    total: u64,
    #[serde(default)]
    writes: Vec<Write>,
    #[serde(default)]
    first: String,
    #[serde(default)]
    last: String,
    note: Option<String>,
    search: Option<u64>,
}

/// `debugger/last_write`.
#[derive(Deserialize)]
struct LastWrites {
    #[serde(default)]
    writes: Vec<Hop>,
}

/// Asks who wrote the value, or takes what was found before: whoever goes back must not lose what came later.
pub(super) async fn look(visit: &Visit<'_>, view: &View, frame: Option<&StackFrame>) -> Found {
    if view.watch.is_empty() {
        return None;
    }
    let name = format!("{}\n{}", view.id, view.watch);
    let kept = visit.entry.watched(&name).filter(|_| visit.query.get("again").is_none());
    let search = match kept {
        Some(kept) if kept.search.is_none() => return Some(Ok(kept)),
        Some(kept) => kept.search,
        None => None,
    };
    let found = ask(visit, view, frame, search).await.map(Arc::new);
    if let Ok(watched) = &found {
        visit.entry.keep_watched(name, watched.clone());
    }
    Some(found)
}

async fn ask(
    visit: &Visit<'_>,
    view: &View,
    frame: Option<&StackFrame>,
    search: Option<u64>,
) -> Result<Watched, Failure> {
    let named = |more: Value| {
        let mut arguments = match view.watch.starts_with("0x") {
            true => json!({ "address": view.watch }),
            false => json!({ "expression": view.watch, "frame": frame.map(|frame| frame.index) }),
        };
        if let (Value::Object(all), Value::Object(more)) = (&mut arguments, more) {
            all.extend(more);
            all.insert("session_id".into(), view.id.as_str().into());
            all.insert("timeout_ms".into(), PATIENCE.into());
        }
        arguments
    };
    let asked = match search {
        Some(search) => json!({ "session_id": view.id, "search": search, "timeout_ms": PATIENCE }),
        None => named(json!({ "limit": MOST_WRITES })),
    };
    let history = visit.desk.look::<History>("debugger/history", asked).await?;
    if history.search.is_some() {
        return Ok(Watched { search: history.search, ..Watched::default() });
    }
    // What it was computed from is worth knowing, but not worth failing for.
    let hops =
        visit.desk.look::<LastWrites>("debugger/last_write", named(json!({ "depth": MOST_HOPS }))).await;
    let History { total, writes, first, last, note, .. } = history;
    let hops = hops.map(|found| found.writes).unwrap_or_default();
    Ok(Watched { writes, total, first, last, note, hops, search: None })
}

/// What was clicked: a write with the value before and after, or something else that happened.
pub(super) fn chosen(
    visit: &Visit<'_>,
    view: &View,
    standing: &Standing,
    watched: &Found,
    happening: Option<&Happening>,
) -> Markup {
    let now = standing.moment.as_deref().unwrap_or_default();
    let at = if view.at.is_empty() { now } else { &view.at };
    let watched = watched.as_ref().and_then(|found| found.as_ref().ok());
    let writes = watched.map(|watched| watched.writes.as_slice()).unwrap_or_default();
    match (writes.iter().find(|write| write.moment == at && !at.is_empty()), happening) {
        (Some(write), _) => one_write(visit, view, now, write),
        (None, Some(happening)) if !view.at.is_empty() => clicked(visit, view, now, happening),
        _ => html! {},
    }
}

/// The value that is watched.
pub(super) fn show(view: &View, standing: &Standing, watched: &Found) -> Markup {
    let now = standing.moment.as_deref().unwrap_or_default();
    let at = if view.at.is_empty() { now } else { &view.at };
    parts::panel(
        "Who wrote it?",
        html! {
            form.watch method="get" action=(view.path()) {
                label for="watch" { "Expression or address" }
                div.line {
                    input #watch type="text" name="watch" value=(view.watch) spellcheck="false" autocapitalize="off"
                        placeholder="account->currency";
                    button type="submit" { "Show its writes" }
                }
            }
            @match watched {
                None => {}
                Some(Err(failure)) => { (frame::missing(failure)) }
                Some(Ok(watched)) => { (all(view, at, watched)) }
            }
        },
    )
}

/// The value before and after.
fn one_write(visit: &Visit<'_>, view: &View, now: &str, write: &Write) -> Markup {
    html! {
        section.panel.write #chosen aria-label="The write that was chosen" {
            h2 { "Write to " code { (view.watch) } }
            dl.before-after {
                div { dt { "before" } dd.before { code { (words::cut(&write.old, 400)) } } }
                div { dt { "after" } dd.after { code { (words::cut(&write.new, 400)) } } }
            }
            p.by {
                (write.location.short())
                @if let Some(through) = &write.through { ", through " code { (through) } }
                @if let Some(thread) = write.thread { span.faint { " · thread " (thread) } }
                span.faint { " · moment " (write.moment) }
            }
            @if let Some(text) = &write.text { pre.statement { code { (text.trim()) } } }
            (go_there(visit, view, now, &write.moment))
        }
    }
}

fn clicked(visit: &Visit<'_>, view: &View, now: &str, happening: &Happening) -> Markup {
    html! {
        section.panel #chosen aria-label="What was chosen" {
            h2 { (happening.kind) }
            p { (happening.what) }
            p.by {
                @if let Some(place) = &happening.location { (place.short()) " " }
                span.faint { "moment " (happening.moment) }
            }
            (go_there(visit, view, now, &happening.moment))
        }
    }
}

fn go_there(visit: &Visit<'_>, view: &View, now: &str, moment: &str) -> Markup {
    html! {
        @if moment == now {
            p.faint { "The program is shown as it was at this moment." }
        } @else if may_move(visit) {
            form method="post" action={ (view.path()) "/move" } {
                (frame::token(&visit.entry.csrf)) (view.fields())
                button.main name="moment" value=(moment) { "Go there" }
            }
        }
    }
}

fn all(view: &View, at: &str, watched: &Watched) -> Markup {
    if watched.search.is_some() {
        return html! {
            p { "The past is still searched. " a href=(view.link(&[])) { "Look again" } }
        };
    }
    let chosen = watched.writes.iter().position(|write| write.moment == at);
    let from = chosen.unwrap_or(watched.writes.len()).saturating_sub(LISTED / 2);
    let from = from.min(watched.writes.len().saturating_sub(LISTED));
    html! {
        p {
            (words::number(watched.total)) @if watched.total == 1 { " write" } @else { " writes" }
            ": from " code { (words::cut(&watched.first, 120)) } " to " code { (words::cut(&watched.last, 120)) }
            " · " a href=(view.link(&[("again", "1")])) { "Ask again from here" }
        }
        @if from > 0 { p.faint { "… " (from) " before" } }
        ol.writes start=(from + 1) {
            @for write in watched.writes.iter().skip(from).take(LISTED) {
                li {
                    a href=(view.link(&[("at", &write.moment)])) aria-current=[(write.moment == at).then_some("true")] {
                        code.before { (words::cut(&write.old, 60)) } " → " code.after { (words::cut(&write.new, 60)) }
                        span.place { (write.location.short()) }
                    }
                }
            }
        }
        @let left = watched.total.saturating_sub((from + LISTED) as u64);
        @if left > 0 { p.faint { "… " (words::number(left)) " more" } }
        @if let Some(note) = &watched.note { p.faint { (note) } }
        @if !watched.hops.is_empty() {
            h3 { "Where the value came from" }
            ol.hops {
                @let names = std::iter::once(view.watch.as_str()).chain(watched.hops.iter().filter_map(|hop| hop.from.as_deref()));
                @for (hop, name) in watched.hops.iter().zip(names) {
                    li {
                        a href=(view.link(&[("at", &hop.moment)])) {
                            code { (words::cut(name, 80)) } ": " code.before { (words::cut(&hop.old, 60)) } " → "
                            code.after { (words::cut(&hop.new, 60)) }
                        }
                        p.by { (hop.location.short()) @if let Some(text) = &hop.text { " · " code { (words::cut(text.trim(), 120)) } } }
                        @if let Some(from) = &hop.from { p.from { "computed from " code { (words::cut(from, 120)) } } }
                    }
                }
            }
        }
    }
}
