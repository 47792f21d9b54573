//! Asking about the past: `last_write`, `timeline`, `export_trace`.

use std::{fmt::Write as _, path::PathBuf};

use async_trait::async_trait;
use hindcast_core::{
    debug::{
        Capability, Happening, HappeningKind, Moment, Recording, TimelineQuery, TraceFormat, TraceRequest,
        Writer, happening_in_a_line,
    },
    identity::Scope,
};
use hindcast_services::{
    Failure, FailureKind,
    debug::{ExportTo, Found, FoundWrite, Searched, Session, State},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Desk, declaration, invalid, looks, of_time_travel, one,
    past::{next_while_running, not_one_value, other_question, watched},
    patience, text, usual_wait,
};
use crate::{
    excerpt::{excerpt, shown_target},
    registry::{Answer, Attachment, Call, Declaration, Effects, Tool},
};

/// Each hop is a search of its own.
const MOST_HOPS: u32 = 20;
const MOST_HAPPENINGS: usize = 1000;
/// For a picture of all of them, which nobody reads.
const MOST_HAPPENINGS_DRAWN: usize = 20_000;
/// What a model may have to read.
const LONGEST_TEXT: usize = 256 << 10;
/// What a client may have to decode.
const LONGEST_BLOB: usize = 8 << 20;

pub(super) struct LastWrite(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LastWriteInput {
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    address: Option<String>,
    /// Bytes at `address` (8)
    #[serde(default)]
    size: Option<u64>,
    /// Hops: also who wrote what it was computed from
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 20))]
    depth: u32,
    #[serde(default)]
    frame: Option<u32>,
    /// Number of a running search
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LastWrites {
    /// running: the search goes on
    state: State,
    /// The last one first; each further one is about what the one before was computed from
    writes: Vec<FoundWrite>,
    /// Names a search that goes on
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<u64>,
    /// Sensible next calls
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
}

/// What was asked about, and who wrote it.
async fn last_writes(
    session: &Session,
    call: &Call,
    input: LastWriteInput,
) -> Result<(String, Searched), Failure> {
    let patience = patience(call, input.timeout_ms);
    let name = match (input.expression.as_ref().or(input.address.as_ref()), input.search) {
        (None, Some(number)) => {
            let name = session.search_name(number).unwrap_or_default();
            return Ok((name, session.searched(number, &patience).await?));
        }
        (Some(name), None) => name.clone(),
        _ => return Err(not_one_value()),
    };
    let named = (input.expression.as_deref(), input.address.as_deref());
    let watched = watched(session, named, input.size, input.frame)?;
    Ok((name, session.last_write(watched, input.depth.clamp(1, MOST_HOPS), &patience).await?))
}

#[async_trait]
impl Tool for LastWrite {
    type Input = LastWriteInput;
    type Output = LastWrites;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/last_write",
        "The last write to a value before now, with line, stack, old and new value",
    ));

    async fn call(&self, call: &Call, input: LastWriteInput) -> Result<Answer<LastWrites>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let (name, found) = last_writes(&session, call, input).await?;
        let name = excerpt(&name, 100);
        let state = session.standing().state;
        Ok(match found {
            Searched::Found(Found::LastWrite(writes)) => {
                let next = writes.first().map(|write| {
                    format!(
                        "debugger/goto with moment \"{}\": look around right after the write",
                        write.moment
                    )
                });
                let text = say_writes(&name, &writes);
                Answer {
                    text,
                    content: LastWrites { state, writes, search: None, next: next.into_iter().collect() },
                }
            }
            Searched::Found(_) => return Err(other_question(Self::DECLARATION.name)),
            Searched::Running(number) => {
                let next = next_while_running(Self::DECLARATION.name, number);
                let text = format!(
                    "Still looking for the last write to `{name}` (search {number}): it goes on\nnext: {}",
                    next.join("\nnext: ")
                );
                let state = State::Running;
                Answer { text, content: LastWrites { state, writes: Vec::new(), search: Some(number), next } }
            }
        })
    }
}

fn say_writes(name: &str, writes: &[FoundWrite]) -> String {
    if writes.is_empty() {
        return format!("`{name}` was not written since the start of the recording");
    }
    let mut said = String::new();
    let mut name = name;
    for (hop, write) in writes.iter().enumerate() {
        let separator = if hop == 0 { "" } else { "\n" };
        let by = match write.by {
            Writer::Program => "",
            Writer::Kernel => ", by the system",
        };
        let _ = write!(said, "{separator}Last write to `{name}`: {}{by}", text::place(&write.location));
        if let Some(line) = &write.text {
            let _ = write!(said, "\n      {line}");
        }
        let _ = write!(said, "\n  from {} to {}", write.old, write.new);
        let _ = write!(said, "\n  at moment {}, thread {}", write.moment, write.thread_id);
        for frame in write.stack.iter().skip(1) {
            text::short_frame(&mut said, frame);
        }
        match &write.from {
            Some(from) if hop + 1 < writes.len() => name = from,
            Some(from) => drop(write!(said, "\n  computed from `{from}`: a larger `depth` follows it")),
            None => {}
        }
    }
    said
}

pub(super) struct Timeline(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineInput {
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    /// All but `switch` where absent
    #[serde(default)]
    kinds: Vec<HappeningKind>,
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// `next_cursor` of the page before
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn fifty() -> usize {
    50
}

#[derive(Serialize, JsonSchema)]
pub(super) struct TimelineView {
    /// In the order of time
    happenings: Vec<Happening>,
    /// How many there are in all
    total: usize,
    /// Pass it as `cursor` to get the next ones
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Where the session stands
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
    /// Whether the program really is further on
    in_past: bool,
    /// What is recorded
    recording: Recorded,
}

#[derive(Serialize, JsonSchema)]
struct Recorded {
    /// Whether what happens now is recorded, too
    active: bool,
    /// Why not, or why no longer
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The first moment
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Moment>,
    /// The last moment
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Moment>,
    /// System calls, signals and other input
    events: u64,
    /// From which the past is restored
    snapshots: u64,
    /// When they were taken; only for the page
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    snapshots_at: Vec<Moment>,
    /// What the log takes in memory
    bytes: u64,
    /// How often another thread took over: threads of a recorded program run one at a time, so that races may not show
    #[serde(skip_serializing_if = "is_zero")]
    thread_turns: u64,
    /// What this machine does not allow, and what is different for that
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Capability>,
}

impl From<Recording> for Recorded {
    fn from(recording: Recording) -> Self {
        Self {
            active: recording.active,
            reason: recording.reason,
            start: recording.start,
            end: recording.end,
            events: recording.events,
            snapshots: recording.checkpoints,
            snapshots_at: recording.checkpoints_at,
            bytes: recording.bytes,
            thread_turns: recording.turns,
            missing: recording.capabilities.into_iter().filter(|capability| !capability.works).collect(),
        }
    }
}

#[async_trait]
impl Tool for Timeline {
    type Input = TimelineInput;
    type Output = TimelineView;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/timeline",
        "What happened: stops, output, signals, hits, each with its moment",
    ));

    async fn call(&self, call: &Call, input: TimelineInput) -> Result<Answer<TimelineView>, Failure> {
        let offset = match input.cursor.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(offset)) => offset,
            Some(Err(_)) => {
                return Err(invalid("`cursor` is not one that this tool gave")
                    .hint("pass `next_cursor` of the page before unchanged"));
            }
        };
        let session = self.0.session(call, input.session_id.as_deref())?;
        let most = if call.is_glance { MOST_HAPPENINGS_DRAWN } else { MOST_HAPPENINGS };
        let query = TimelineQuery {
            since: input.since.map(Moment),
            until: input.until.map(Moment),
            kinds: input.kinds,
            offset,
            limit: input.limit.clamp(1, most),
        };
        let timeline = session.timeline(query).await?;
        let (page, mut recording) = (timeline.page, timeline.recording);
        if !call.is_glance {
            recording.checkpoints_at.clear();
        }
        let shown = offset + page.happenings.len();
        let next_cursor = (shown < page.total && !page.happenings.is_empty()).then(|| shown.to_string());
        let view = TimelineView {
            happenings: page.happenings,
            total: page.total,
            next_cursor,
            in_past: timeline.when.as_ref().is_some_and(|when| when.in_past),
            moment: timeline.when.map(|when| when.moment),
            recording: recording.into(),
        };
        Ok(Answer { text: say_timeline(&view), content: view })
    }
}

fn say_timeline(view: &TimelineView) -> String {
    let mut said = "Recorded".to_owned();
    if let (Some(start), Some(end)) = (&view.recording.start, &view.recording.end) {
        let _ = write!(said, " from moment {start} to {end}");
    }
    let _ = write!(said, ", {} events, {} snapshots", view.recording.events, view.recording.snapshots);
    match &view.moment {
        Some(moment) if view.in_past => drop(write!(said, "; in the past, at {moment}")),
        Some(_) => said.push_str("; in the present"),
        None => {}
    }
    for happening in &view.happenings {
        let _ = write!(said, "\n{}", excerpt(&happening_in_a_line(happening), 200));
    }
    if view.recording.thread_turns > 0 {
        let turns = view.recording.thread_turns;
        let _ = write!(
            said,
            "\nnote: threads ran one at a time while recorded ({turns} turns): races may not show"
        );
    }
    if let Some(reason) = &view.recording.reason {
        let _ = write!(said, "\nnote: not recorded any more: {reason}");
    }
    for Capability { name, note, remedy, .. } in &view.recording.missing {
        let note = note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        let remedy = remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let _ = write!(said, "\nnote: this machine lacks `{name}`{note}{remedy}");
    }
    if let Some(cursor) = &view.next_cursor {
        let _ = write!(said, "\n… {} in all, more: cursor {cursor}", view.total);
    }
    said
}

pub(super) struct ExportTrace(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportInput {
    #[serde(default)]
    format: TraceFormat,
    #[serde(default)]
    start_snapshot: Option<u64>,
    #[serde(default)]
    end_snapshot: Option<u64>,
    /// File to write; needs `debug:write`
    #[serde(default)]
    path: Option<PathBuf>,
    #[serde(default = "longest_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

fn longest_wait() -> u64 {
    55_000
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ExportedView {
    /// As asked for
    format: TraceFormat,
    /// How many events it has
    events: u64,
    /// How long it is
    bytes: u64,
    /// Where it is; absent: beside this, as the second part of the content
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip)]
    attachment: Option<Attachment>,
}

#[async_trait]
impl Tool for ExportTrace {
    type Input = ExportInput;
    type Output = ExportedView;

    const DECLARATION: Declaration = of_time_travel(declaration(
        "debugger/export_trace",
        "Write the recording out, whole or between two snapshots",
        Scope::DebugRead,
        Effects::Additive { idempotent: false },
    ));

    fn target(input: &ExportInput) -> Option<String> {
        input.path.as_deref().map(shown_target)
    }

    fn attachment(output: &mut ExportedView) -> Option<Attachment> {
        output.attachment.take()
    }

    async fn call(&self, call: &Call, input: ExportInput) -> Result<Answer<ExportedView>, Failure> {
        if input.path.is_some() && !call.caller.may(Some(Scope::DebugWrite)) {
            let scope = Scope::DebugWrite;
            let details = format!("`path` in `debugger/export_trace` needs the scope `{scope}`");
            return Err(Failure::new(FailureKind::PermissionDenied, details)
                .hint(format!("leave it out, or use a key that has `{scope}`"))
                .fact("required_scope", scope.name()));
        }
        if matches!((input.start_snapshot, input.end_snapshot), (Some(start), Some(end)) if start > end) {
            return Err(invalid("`start_snapshot` comes after `end_snapshot`").hint("swap them"));
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        let Desk(debug) = &self.0;
        let file = input.path.map(|path| debug.new_file(&call.caller, &path)).transpose()?;
        let limit = if input.format == TraceFormat::Binary { LONGEST_BLOB } else { LONGEST_TEXT };
        let path = file.as_ref().map(|file| file.path().display().to_string());
        let to = file.map_or(ExportTo::Memory { limit }, ExportTo::File);
        let request = TraceRequest {
            format: input.format,
            start_snapshot: input.start_snapshot,
            end_snapshot: input.end_snapshot,
        };
        let exported = session.export(request, to, &patience(call, input.timeout_ms)).await?;
        let attachment = exported.content.map(|bytes| match input.format {
            TraceFormat::Binary => {
                Attachment::Blob { uri: format!("debugger://trace/{}", session.id()), bytes }
            }
            TraceFormat::Json | TraceFormat::Text => {
                Attachment::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        });
        let view = ExportedView {
            format: input.format,
            events: exported.events,
            bytes: exported.bytes,
            path,
            attachment,
        };
        Ok(Answer { text: say_export(&view), content: view })
    }
}

fn say_export(view: &ExportedView) -> String {
    let format = match view.format {
        TraceFormat::Json => "json",
        TraceFormat::Binary => "binary",
        TraceFormat::Text => "text",
    };
    let mut said = format!("Exported {} events as {format} ({} bytes)", view.events, view.bytes);
    if let Some(path) = &view.path {
        let _ = write!(said, " to {path}");
    }
    if view.format == TraceFormat::Binary {
        said.push_str("\nnote: it holds what the program read as it was, secrets included");
        if let Some(path) = &view.path {
            let _ = write!(said, "\nnote: `hindcast replay {path}` opens it");
        }
    }
    said
}
