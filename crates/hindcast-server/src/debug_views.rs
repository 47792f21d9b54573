//! What the `debugger://` resources hold, in the field names of their contract.

use hindcast_core::{
    Timestamp,
    debug::{
        Access, Binding, Breakpoint, CodeBreakpoint, Count, Engine, ExceptionBreakpoint, Happening, HowBegun,
        Location, Moment, StopReason, ThreadState, Trigger, Watched, Watchpoint,
    },
};
use hindcast_services::debug::{SeenThread, Standing, State, ThreadsView, Timeline};
use schemars::JsonSchema;
use serde::Serialize;

/// `debugger://session`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    process_id: Option<u32>,
    process_name: Option<String>,
    executable_path: Option<String>,
    runtime_version: Option<String>,
    state: &'static str,
    launch_mode: Option<&'static str>,
    attached_at: Option<String>,
    pause_reason: Option<&'static str>,
    current_location: Option<PlaceView>,
    active_thread_id: Option<u32>,
    command_line_args: Vec<String>,
    working_directory: Option<String>,
}

impl SessionView {
    pub(crate) fn of(standing: &Standing) -> Self {
        let target = standing.target.as_deref();
        let scene = standing.scene.as_deref().filter(|_| standing.state != State::Running);
        let engine = target.map(|target| target.engine).unwrap_or_default();
        let location = scene.and_then(|scene| scene.location.as_ref());
        Self {
            process_id: target.and_then(|target| target.pid),
            process_name: target.map(|target| target.name.clone()),
            executable_path: target.map(|target| target.executable.clone()),
            runtime_version: target.and_then(|target| target.runtime.clone()),
            state: match standing.state {
                State::Running => "Running",
                State::Paused => "Paused",
                State::Exited if standing.has_left_it_running() => "Lost",
                State::Exited => "Exited",
            },
            launch_mode: target.map(|target| match target.how {
                HowBegun::Launch => "Launch",
                HowBegun::Attach => "Attach",
                HowBegun::Core => "Core",
                HowBegun::Trace => "Trace",
            }),
            attached_at: target.map(|target| moment(target.since)),
            pause_reason: scene.map(|scene| reason(scene.stop.reason)),
            current_location: location.map(|location| PlaceView::of(location, engine)),
            active_thread_id: scene.map(|scene| scene.stop.thread.0),
            command_line_args: target.map(|target| target.args.clone()).unwrap_or_default(),
            working_directory: target.map(|target| target.cwd.clone()),
        }
    }
}

/// As the contract writes times: with an offset.
fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Entry => "Entry",
        StopReason::Breakpoint => "Breakpoint",
        StopReason::Watchpoint => "Watchpoint",
        StopReason::Step => "Step",
        StopReason::Pause => "Pause",
        StopReason::Exception => "Exception",
        StopReason::Signal => "Signal",
        StopReason::Exit => "Exit",
        StopReason::Goto => "Goto",
        StopReason::HistoryStart => "HistoryStart",
        StopReason::ThreadStart => "ThreadStart",
        StopReason::Present => "Present",
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceView {
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    function_name: Option<String>,
    module_name: Option<String>,
}

impl PlaceView {
    fn of(location: &Location, engine: Engine) -> Self {
        let function = location.function.as_deref();
        Self {
            file: location.file.clone(),
            line: location.line,
            column: location.column,
            function_name: function.map(|name| function_name(name, engine).to_owned()),
            module_name: location.module.clone(),
        }
    }
}

/// The contract has a .NET method without its type: `Main`. Tools give the whole name.
fn function_name(full: &str, engine: Engine) -> &str {
    match engine {
        Engine::Native | Engine::Adapter => full,
        Engine::Dotnet => method_name(full),
    }
}

/// The last part of a method's name. `get` or `lambda` alone says nothing, so what it belongs to stays in front.
fn method_name(full: &str) -> &str {
    let Some((before, last)) = split_last_part(full) else { return full };
    if ["get", "set", "add", "remove", "lambda"].contains(&last) {
        let owner = split_last_part(before).map_or(0, |(before, _)| before.len() + 1);
        return &full[owner..];
    }
    last
}

/// Splits at the last dot that is not within the arguments of a type.
fn split_last_part(full: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (at, letter) in full.char_indices().rev() {
        match letter {
            '>' | ']' | ')' => depth += 1,
            '<' | '[' | '(' => depth = depth.saturating_sub(1),
            '.' if depth == 0 && at > 0 => {
                // `Program..ctor` is the method `.ctor`.
                let at = if full[..at].ends_with('.') { at - 1 } else { at };
                return Some((&full[..at], &full[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

/// `debugger://threads`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadList {
    threads: Vec<ThreadView>,
    stale: bool,
    captured_at: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadView {
    id: u32,
    name: String,
    state: &'static str,
    is_current: bool,
    location: Option<PlaceView>,
}

impl ThreadList {
    pub(crate) fn of(view: &ThreadsView, engine: Engine) -> Self {
        let thread = |SeenThread { thread, .. }: &SeenThread| ThreadView {
            id: thread.id.0,
            name: thread.name.clone(),
            state: match thread.state {
                ThreadState::Running => "Running",
                ThreadState::Suspended => "Suspended",
                ThreadState::Exited => "Exited",
            },
            is_current: view.current == Some(thread.id),
            location: thread.location.as_ref().map(|location| PlaceView::of(location, engine)),
        };
        Self {
            threads: view.threads.iter().map(thread).collect(),
            stale: view.stale,
            captured_at: moment(view.captured_at),
        }
    }
}

/// `debugger://timeline`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimelineView {
    recording: RecordingView,
    moment: Option<String>,
    in_past: bool,
    happenings: Vec<HappeningView>,
    total: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordingView {
    active: bool,
    reason: Option<String>,
    start: Option<String>,
    end: Option<String>,
    events: u64,
    snapshots: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HappeningView {
    moment: String,
    kind: &'static str,
    what: String,
    location: Option<PlaceView>,
}

impl TimelineView {
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let Timeline { page, recording, when } = timeline;
        let text = |moment: &Option<Moment>| moment.as_ref().map(ToString::to_string);
        let happening = |happening: &Happening| HappeningView {
            moment: happening.moment.to_string(),
            kind: happening.kind.name(),
            what: happening.what.clone(),
            // Only native programs are recorded.
            location: happening.location.as_ref().map(|place| PlaceView::of(place, Engine::Native)),
        };
        Self {
            recording: RecordingView {
                active: recording.active,
                reason: recording.reason.clone(),
                start: text(&recording.start),
                end: text(&recording.end),
                events: recording.events,
                snapshots: recording.checkpoints,
                bytes: recording.bytes,
            },
            moment: when.as_ref().map(|when| when.moment.to_string()),
            in_past: when.as_ref().is_some_and(|when| when.in_past),
            happenings: page.happenings.iter().map(happening).collect(),
            total: page.total,
        }
    }
}

/// `debugger://breakpoints`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BreakpointList {
    breakpoints: Vec<BreakpointView>,
    exception_breakpoints: Vec<ExceptionBreakpointView>,
}

impl BreakpointList {
    pub(crate) fn of(all: &[Breakpoint]) -> Self {
        let exception = |breakpoint: &Breakpoint| match &breakpoint.trigger {
            Trigger::Exception(exception) => Some(ExceptionBreakpointView::of(breakpoint, exception)),
            Trigger::Code(_) | Trigger::Watch(_) => None,
        };
        Self {
            breakpoints: all.iter().filter_map(BreakpointView::of).collect(),
            exception_breakpoints: all.iter().filter_map(exception).collect(),
        }
    }
}

/// A breakpoint, tracepoint or watchpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BreakpointView {
    /// Such as `bp-1`; tools take `1` as well
    id: String,
    /// `Breakpoint`, `Tracepoint` or `Watchpoint`
    #[serde(rename = "type")]
    kind: &'static str,
    /// Where it is, or was asked for
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    enabled: bool,
    /// Whether it is in the program
    verified: bool,
    /// `Bound` or `Pending`
    state: &'static str,
    hit_count: u64,
    condition: Option<String>,
    log_message: Option<String>,
    hit_count_multiple: u64,
    max_notifications: u64,
    notifications_sent: u64,
    /// Of one that only counts: its hits by value
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counts: Vec<Count>,
    /// What is watched
    #[serde(skip_serializing_if = "Option::is_none")]
    watched: Option<String>,
    /// `write`, `read` or `read_write`
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<Access>,
}

impl BreakpointView {
    /// None for an exception breakpoint.
    pub(crate) fn of(breakpoint: &Breakpoint) -> Option<Self> {
        match &breakpoint.trigger {
            Trigger::Code(code) => Some(Self::of_code(breakpoint, code)),
            Trigger::Watch(watch) => Some(Self::of_watch(breakpoint, watch)),
            Trigger::Exception(_) => None,
        }
    }

    fn of_code(breakpoint: &Breakpoint, code: &CodeBreakpoint) -> Self {
        use hindcast_core::debug::Place;
        let asked = match &code.place {
            Place::Line { file, line } => (Some(file.clone()), Some(*line)),
            Place::Statement { file, .. } => (Some(file.clone()), None),
            Place::Address(_) | Place::Function(_) => (None, None),
        };
        let bound = match &breakpoint.binding {
            Binding::Bound { locations, .. } => locations.first(),
            Binding::Pending { .. } => None,
        };
        Self {
            id: format!("bp-{}", breakpoint.id),
            kind: if code.log_message.is_some() { "Tracepoint" } else { "Breakpoint" },
            file: bound.and_then(|location| location.file.clone()).or(asked.0),
            line: bound.and_then(|location| location.line).or(asked.1),
            column: bound.and_then(|location| location.column),
            enabled: code.enabled,
            verified: is_bound(breakpoint),
            state: state(breakpoint),
            hit_count: breakpoint.hit_count,
            condition: code.condition.clone(),
            log_message: code.log_message.clone(),
            hit_count_multiple: code.hit_count_multiple,
            max_notifications: code.max_notifications,
            notifications_sent: breakpoint.notifications_sent,
            counts: breakpoint.counts.clone(),
            watched: None,
            access: None,
        }
    }

    fn of_watch(breakpoint: &Breakpoint, watch: &Watchpoint) -> Self {
        Self {
            id: format!("bp-{}", breakpoint.id),
            kind: "Watchpoint",
            file: None,
            line: None,
            column: None,
            enabled: watch.enabled,
            verified: is_bound(breakpoint),
            state: state(breakpoint),
            hit_count: breakpoint.hit_count,
            condition: watch.condition.clone(),
            log_message: None,
            hit_count_multiple: 0,
            max_notifications: 0,
            notifications_sent: breakpoint.notifications_sent,
            counts: Vec::new(),
            watched: Some(watched(&watch.watched)),
            access: Some(watch.access),
        }
    }
}

/// In a word or two.
pub(crate) fn watched(watched: &Watched) -> String {
    match watched {
        Watched::Expression { text, .. } => text.clone(),
        Watched::Memory { address, size } => format!("{size} bytes at {address}"),
    }
}

fn is_bound(breakpoint: &Breakpoint) -> bool {
    matches!(breakpoint.binding, Binding::Bound { .. })
}

fn state(breakpoint: &Breakpoint) -> &'static str {
    if is_bound(breakpoint) { "Bound" } else { "Pending" }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExceptionBreakpointView {
    id: String,
    exception_type: String,
    break_on_first_chance: bool,
    break_on_second_chance: bool,
    include_subtypes: bool,
    enabled: bool,
    verified: bool,
    hit_count: u64,
}

impl ExceptionBreakpointView {
    fn of(breakpoint: &Breakpoint, exception: &ExceptionBreakpoint) -> Self {
        Self {
            id: format!("ex-{}", breakpoint.id),
            exception_type: exception.exception_type.clone(),
            break_on_first_chance: exception.first_chance,
            break_on_second_chance: exception.second_chance,
            include_subtypes: exception.include_subtypes,
            enabled: exception.enabled,
            verified: is_bound(breakpoint),
            hit_count: breakpoint.hit_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_dotnet_has_the_last_part_of_its_name() {
        for (full, short) in [
            ("Fixtures.Exceptions.Main", "Main"),
            ("Main", "Main"),
            ("MyApp.Box<System.Int32>.Get<System.String>", "Get<System.String>"),
            ("Fixtures.Lambdas.Main.lambda", "Main.lambda"),
            ("Fixtures.Account.Name.get", "Name.get"),
            ("Program..cctor", ".cctor"),
            ("Fixtures.Seller.Trade(Fixtures.Buyer)", "Trade(Fixtures.Buyer)"),
            ("lambda", "lambda"),
            ("", ""),
        ] {
            assert_eq!(function_name(full, Engine::Dotnet), short, "{full}");
        }
        assert_eq!(function_name("std::vector<a.b>::at", Engine::Native), "std::vector<a.b>::at");
    }
}
