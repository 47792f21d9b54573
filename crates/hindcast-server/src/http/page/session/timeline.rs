//! The timeline as a picture: time from left to right, a lane for each thread.
//!
//! Moments say nothing but their order, so each moment at which something happened takes the same room. Where there are more
//! marks than room, those beside each other become one, which leads to that part of the timeline.

mod picture;

use std::collections::BTreeMap;

use hindcast_services::Failure;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use self::picture::Picture;
use super::{
    View, Visit, may_move, missing,
    told::{Place, Standing},
    watch::{Found, Watched},
    words,
};
use crate::http::page::frame;

/// So many are drawn.
const MOST: usize = 20_000;
/// So many are listed in words.
const LISTED: usize = 40;

/// Something that happened.
#[derive(Deserialize, Clone)]
pub(super) struct Happening {
    pub(super) moment: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) what: String,
    pub(super) location: Option<Place>,
    thread: Option<u32>,
}

/// `debugger/timeline`.
#[derive(Deserialize)]
struct Page {
    happenings: Vec<Happening>,
    total: usize,
    recording: Recorded,
}

#[derive(Deserialize, Default)]
struct Recorded {
    start: Option<String>,
    end: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    events: u64,
    #[serde(default)]
    snapshots: u64,
    #[serde(default)]
    snapshots_at: Vec<String>,
    #[serde(default)]
    bytes: u64,
}

/// Everything that is drawn.
struct Whole {
    happenings: Vec<Happening>,
    total: usize,
    recording: Recorded,
}

/// A sign on a lane.
struct Mark {
    moment: String,
    kind: &'static str,
    what: String,
}

/// A row of the picture.
struct Lane {
    name: String,
    title: String,
    marks: Vec<Mark>,
    /// From which moment to which the thread ran.
    runs: Vec<(String, String)>,
}

/// More threads share the last lane.
const MOST_LANES: usize = 10;

/// The picture, and what happened at the moment that was clicked.
pub(super) async fn show(
    visit: &Visit<'_>,
    view: &View,
    standing: &Standing,
    watched: &Found,
) -> (Markup, Option<Happening>) {
    if standing.moment.is_none() {
        return (html! {}, None);
    }
    let whole = match fetch(visit, view).await {
        Ok(whole) => whole,
        Err(failure) => return (missing("Timeline", &failure), None),
    };
    let chosen =
        whole.happenings.iter().find(|happening| happening.moment == view.at && happening.kind != "switch");
    let chosen = chosen.cloned();
    let watched = watched.as_ref().and_then(|found| found.as_ref().ok());
    let lanes = lanes(&whole, view, standing, watched.map(|watched| &**watched));
    let now = standing.moment.clone().unwrap_or_default();
    let mut edges = vec![now.clone()];
    if view.since.is_empty() && view.until.is_empty() {
        edges.extend([&whole.recording.start, &whole.recording.end].into_iter().flatten().cloned());
    }
    let picture = Picture::new(&lanes, edges);
    let is_part = !view.since.is_empty() || !view.until.is_empty();
    let content = html! {
        (picture.draw(view, &lanes, &now))
        p.legend {
            @for (kind, name) in picture::KINDS.iter().filter(|(kind, _)| lanes.iter().any(|lane| lane.has(kind))) {
                span { (picture::sample(kind)) (name) }
            }
            @if is_part { a href=(view.link(&[("since", ""), ("until", "")])) { "The whole recording" } }
        }
        p.faint {
            (words::number(whole.total as u64)) " entries, " (words::number(whole.recording.events)) " recorded events, "
            (words::number(whole.recording.snapshots)) " checkpoints, " (words::number(whole.recording.bytes >> 10)) " KiB"
            @if let Some(reason) = &whole.recording.reason { " · " (reason) }
        }
        (in_words(view, &whole, &now))
        @if may_move(visit) {
            form #goto method="post" action={ (view.path()) "/move" } hidden {
                (frame::token(&visit.entry.csrf)) (view.fields())
                input type="hidden" name="moment" value="";
            }
        }
    };
    (html! { section.panel.timeline { h2 { "Timeline" } (content) } }, chosen)
}

async fn fetch(visit: &Visit<'_>, view: &View) -> Result<Whole, Failure> {
    const KINDS: [&str; 10] = [
        "stop",
        "output",
        "signal",
        "breakpoint",
        "tracepoint",
        "exec",
        "fork",
        "thread",
        "switch",
        "recording",
    ];
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let asked = json!({
        "session_id": view.id, "kinds": KINDS, "limit": MOST,
        "since": given(&view.since), "until": given(&view.until),
    });
    let page = visit.desk.look::<Page>("debugger/timeline", asked).await?;
    Ok(Whole { happenings: page.happenings, total: page.total, recording: page.recording })
}

impl Lane {
    fn new(name: impl Into<String>, title: impl Into<String>) -> Self {
        Self { name: name.into(), title: title.into(), marks: Vec::new(), runs: Vec::new() }
    }

    fn has(&self, kind: &str) -> bool {
        self.marks.iter().any(|mark| mark.kind == kind)
    }
}

fn lanes(whole: &Whole, view: &View, standing: &Standing, watched: Option<&Watched>) -> Vec<Lane> {
    let mut order: Vec<u32> = Vec::new();
    for thread in whole.happenings.iter().filter_map(|happening| happening.thread).chain(standing.thread_id) {
        if !order.contains(&thread) {
            order.push(thread);
        }
        if order.len() > 4 * MOST_LANES {
            break;
        }
    }
    let mut of_thread = BTreeMap::new();
    let mut lanes: Vec<Lane> = Vec::new();
    for (place, thread) in order.iter().enumerate() {
        of_thread.insert(*thread, place.min(MOST_LANES - 1));
        match place {
            0..MOST_LANES => lanes.push(Lane::new(format!("thread {thread}"), format!("Thread {thread}"))),
            _ => lanes[MOST_LANES - 1].name = "other threads".to_owned(),
        }
    }
    if lanes.is_empty() {
        lanes.push(Lane::new("program", "The program"));
    }
    let lane_of = |thread: Option<u32>| {
        thread.and_then(|thread| of_thread.get(&thread)).copied().unwrap_or(lanes_last(&of_thread, thread))
    };
    let (mut runs_on, mut since) = (lane_of(order.first().copied()), None::<String>);
    let mut runs: Vec<(usize, String, String)> = Vec::new();
    for happening in &whole.happenings {
        let lane = lane_of(happening.thread);
        let begun = since.get_or_insert_with(|| happening.moment.clone());
        if happening.kind == "switch" {
            runs.push((runs_on, begun.clone(), happening.moment.clone()));
            (runs_on, since) = (lane, Some(happening.moment.clone()));
            continue;
        }
        let kind = picture::KINDS.iter().map(|(kind, _)| *kind).find(|kind| *kind == happening.kind);
        let (moment, what) = (happening.moment.clone(), happening.what.clone());
        lanes[lane].marks.push(Mark { moment, kind: kind.unwrap_or("stop"), what });
    }
    let last = whole.recording.end.clone().or(whole.happenings.last().map(|last| last.moment.clone()));
    if let (Some(since), Some(last)) = (since, last) {
        runs.push((runs_on, since, last));
    }
    for (lane, from, to) in runs {
        lanes[lane].runs.push((from, to));
    }
    lanes.extend(values(view, watched));
    lanes.extend(checkpoints(whole, view));
    lanes
}

/// Threads that are not known are with those that have no lane of their own.
fn lanes_last(of_thread: &BTreeMap<u32, usize>, thread: Option<u32>) -> usize {
    if thread.is_none() { 0 } else { of_thread.values().copied().max().unwrap_or(0) }
}

fn is_within(view: &View, moment: &str) -> bool {
    (view.since.is_empty() || moment >= view.since.as_str())
        && (view.until.is_empty() || moment <= view.until.as_str())
}

fn values(view: &View, watched: Option<&Watched>) -> Option<Lane> {
    let watched = watched?;
    let mut lane = Lane::new(words::cut(&view.watch, 24), format!("Writes of {}", view.watch));
    for write in watched.writes.iter().filter(|write| is_within(view, &write.moment)) {
        let what = format!(
            "{} → {} at {}",
            words::cut(&write.old, 40),
            words::cut(&write.new, 40),
            write.location.short()
        );
        lane.marks.push(Mark { moment: write.moment.clone(), kind: "write", what });
    }
    Some(lane)
}

fn checkpoints(whole: &Whole, view: &View) -> Option<Lane> {
    let moments = whole.recording.snapshots_at.iter().filter(|moment| is_within(view, moment));
    let mark =
        |moment: &String| Mark { moment: moment.clone(), kind: "checkpoint", what: "checkpoint".into() };
    let mut lane = Lane::new("checkpoints", "From where the past is restored");
    lane.marks = moments.map(mark).collect();
    (!lane.marks.is_empty()).then_some(lane)
}

/// The same for whoever reads rather than looks: what happened around now.
fn in_words(view: &View, whole: &Whole, now: &str) -> Markup {
    let told: Vec<_> = whole.happenings.iter().filter(|happening| happening.kind != "switch").collect();
    let here = told.partition_point(|happening| happening.moment.as_str() < now);
    let from = here.saturating_sub(LISTED / 2).min(told.len().saturating_sub(LISTED));
    html! {
        details.list data-name="timeline-list" {
            summary { "What happened, in words" }
            @if from > 0 { p.faint { "… " (from) " before" } }
            ol.happenings {
                @for happening in told.iter().skip(from).take(LISTED) {
                    li {
                        a href=(view.link(&[("at", &happening.moment)])) aria-current=[(happening.moment == now).then_some("true")] {
                            span.moment { (happening.moment) } " " span.kind { (happening.kind) } " "
                            (words::cut(&happening.what, 120))
                            @if let Some(place) = &happening.location { span.place { (place.short()) } }
                        }
                    }
                }
            }
            @let left = told.len().saturating_sub(from + LISTED);
            @if left > 0 { p.faint { "… " (left) " more" } }
        }
    }
}
