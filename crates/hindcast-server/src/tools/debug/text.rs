//! What the debugger's answers say to a model. The contract's sentences come first.

use std::{fmt::Write as _, path::Path};

use hindcast_core::debug::{Frame, Location, StopReason, Variable};
use hindcast_services::debug::{FrameView, OutputView, State, Viewport, short_type, thrown_in_words};

/// Values longer than this are cut in the text; the data has them whole.
const LONGEST_VALUE: usize = 200;

/// What a stop looks like: the sentence, source, locals, output, notes.
pub(super) fn viewport(view: &Viewport) -> String {
    with_surroundings(sentence(view), view)
}

/// The same after going back in time.
pub(super) fn gone_back(view: &Viewport) -> String {
    let mut text = match (view.reason, &view.location) {
        (Some(StopReason::Step), Some(location)) => {
            let instruction = view.instruction.as_ref();
            let instruction = instruction.map(|code| format!("\n  {code}")).unwrap_or_default();
            format!("Stepped back to {}{instruction}", location.short())
        }
        _ => sentence(view),
    };
    if let Some(snapshot) = view.snapshot {
        let _ = write!(text, "\nRestored from snapshot {snapshot}");
    }
    with_surroundings(text, view)
}

fn with_surroundings(mut text: String, view: &Viewport) -> String {
    if let (Some(moment), Some(true)) = (&view.moment, view.in_past) {
        let _ = write!(text, "\nIn the past, at moment {moment}");
    }
    if view.state == State::Paused
        && let Some(location) = &view.location
    {
        let thread = view.thread_id.filter(|_| view.several_threads);
        let thread = thread.map(|thread| format!(" (thread {thread})")).unwrap_or_default();
        let _ = write!(text, "\nin {}{thread}", place(location));
    }
    if let Some(thrown) = view.exception.as_ref().and_then(thrown_in_words) {
        let _ = write!(text, "\n{thrown}");
    }
    // What called `main` says nothing; the data has it.
    let own = |frame: &FrameView| frame.is_own;
    let outermost = view.frames.iter().rposition(own).map_or(view.frames.len(), |own| own + 1);
    for frame in view.frames.iter().take(outermost).skip(1) {
        short_frame(&mut text, frame);
    }
    for line in &view.source {
        let mark = if line.current { '>' } else { ' ' };
        let stop = if line.breakpoint { '*' } else { ' ' };
        let _ = write!(text, "\n{mark}{:>4}{stop}| {}", line.line, line.text);
    }
    if !view.locals.is_empty() {
        text.push_str("\nLocal variables:");
        for local in &view.locals {
            let changed = if local.changed { " (changed)" } else { "" };
            let value = cut(&local.value, LONGEST_VALUE);
            let type_name = short_type(&local.type_name);
            let _ = write!(text, "\n  {}: {type_name} = {value}{changed}", local.name);
        }
    }
    if let Some(printed) = &view.output {
        output(&mut text, printed);
    }
    notes(&mut text, &view.notes);
    text
}

/// Why it stands where it does, as the contract says it.
fn sentence(view: &Viewport) -> String {
    let Some(reason) = view.reason.filter(|_| view.state != State::Running) else {
        return match view.state {
            State::Running => format!("Running (session {})", view.session_id),
            State::Paused => "Paused".into(),
            State::Exited => with_detail("The session has ended".into(), view),
        };
    };
    let address = view.location.as_ref().map(Location::short);
    let address = address.unwrap_or_else(|| "unknown address".into());
    let ids: Vec<_> = view.breakpoint_ids.iter().map(ToString::to_string).collect();
    let ids = ids.join(", ");
    match reason {
        StopReason::Entry => with_detail(format!("Stopped at entry ({address})"), view),
        // Nobody set it: the program itself stopped.
        StopReason::Breakpoint if ids.is_empty() => {
            let why = view.detail.as_deref().unwrap_or("A breakpoint that nobody set was hit");
            format!("{why} ({address})")
        }
        StopReason::Breakpoint => with_detail(format!("Stopped at breakpoint {ids} ({address})"), view),
        StopReason::Watchpoint => with_detail(format!("Stopped at watchpoint {ids} ({address})"), view),
        StopReason::Step => match &view.instruction {
            Some(instruction) => format!("Stepped to {address}\n  {instruction}"),
            None => with_detail(format!("Stepped to {address}"), view),
        },
        StopReason::Pause => with_detail(format!("Paused at {address}"), view),
        StopReason::Exception => {
            let kind = view.exception.as_ref().map_or("exception", |raised| raised.exception_type.as_str());
            let message = view.exception.as_ref().and_then(|raised| raised.message.as_deref());
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            let because = view.exception.as_ref().and_then(|raised| raised.because.as_deref());
            let because = because.map(|because| format!(" ({because})")).unwrap_or_default();
            format!("Stopped at {kind} ({address}){message}{because}")
        }
        StopReason::Signal => {
            let signal = view.signal.as_deref().unwrap_or("a signal");
            with_detail(format!("Stopped by {signal} ({address})"), view)
        }
        StopReason::Exit => match (view.exit_code, &view.signal) {
            (Some(code), _) => with_detail(format!("Exited with code {code}"), view),
            (None, Some(signal)) => format!("Ended by {signal}"),
            (None, None) => with_detail("Exited".into(), view),
        },
        StopReason::Goto => with_detail(format!("Went to {address}"), view),
        StopReason::HistoryStart => {
            with_detail(format!("Stopped at the start of the recording ({address})"), view)
        }
        StopReason::ThreadStart => with_detail(format!("Stopped where the thread begins ({address})"), view),
        StopReason::Present => {
            let signal = view.signal.as_ref().map(|signal| format!(", stopped by {signal}"));
            with_detail(format!("Back in the present ({address}){}", signal.unwrap_or_default()), view)
        }
    }
}

fn with_detail(text: String, view: &Viewport) -> String {
    let Some(detail) = &view.detail else { return text };
    // The signal's name is in the sentence already.
    let named = view.signal.as_deref().and_then(|signal| detail.strip_prefix(signal));
    let detail = named.map_or(detail.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    if detail.is_empty() { text } else { format!("{text}: {detail}") }
}

/// `main at /src/a.c:4`, as far as it is known.
pub(super) fn place(location: &Location) -> String {
    let function = location.function.as_deref().or(location.module.as_deref()).unwrap_or("??");
    match (&location.file, location.line) {
        (Some(file), Some(line)) => format!("{function} at {file}:{line}"),
        _ => function.to_owned(),
    }
}

/// `#0  0x401000 main+0x20 at a.c:4`.
pub(super) fn frame(text: &mut String, frame: &Frame) {
    let location = &frame.location;
    let function = location.function.as_deref().or(location.module.as_deref()).unwrap_or("??");
    let _ = write!(text, "\n#{:<2} ", frame.index);
    if let Some(address) = location.address {
        let _ = write!(text, "{address} ");
    }
    text.push_str(function);
    if let Some(offset) = frame.offset {
        let _ = write!(text, "+{offset:#x}");
    }
    if let (Some(file), Some(line)) = (&location.file, location.line) {
        let _ = write!(text, " at {}:{line}", file_name(file));
    }
    if frame.inlined {
        text.push_str(" (inlined)");
    }
    if frame.signal {
        text.push_str(" (signal handler called)");
    }
    if frame.awaiting {
        text.push_str(" (awaiting)");
    }
}

/// `#1 main at a.c:4`.
pub(super) fn short_frame(text: &mut String, frame: &FrameView) {
    let _ = write!(text, "\n#{} {}", frame.index, frame.function);
    if let (Some(file), Some(line)) = (&frame.file, frame.line) {
        let _ = write!(text, " at {}:{line}", file_name(file));
    }
}

fn file_name(file: &str) -> &str {
    Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file)
}

/// Answers that nobody asked to be longer stay below this, in bytes.
const ROOM: usize = 1_900;
/// What of it a value gets at least.
const SHORTEST_VALUE: usize = 60;
/// A value that has members and says less than this in its line does not tell of them.
const TELLING: usize = 80;

/// Values, each in a line, as many as there is room for: how many. Members are left out that a line tells already, or where
/// there is no room.
pub(super) fn in_short(text: &mut String, variables: &mut [Variable], indent: usize) -> usize {
    let longest = (ROOM / variables.len().max(1)).clamp(SHORTEST_VALUE, LONGEST_VALUE);
    let is_alone = variables.len() == 1;
    for variable in &mut *variables {
        // A line that was cut may have the text of a member by chance.
        let is_told = !variable.value.contains('…')
            && variable.children.iter().all(|child| tells(&variable.value, child));
        if is_told || !is_alone && variable.value.len() >= TELLING {
            variable.children.clear();
        }
    }
    let mut room = ROOM.saturating_sub(text.len() + variables.len() * SHORTEST_VALUE);
    for (index, variable) in variables.iter_mut().enumerate() {
        if text.len() > ROOM {
            return index;
        }
        let before = text.len();
        // Where its members follow, they tell more.
        let longest_here = if variable.children.is_empty() { longest } else { SHORTEST_VALUE };
        line(text, variable, indent, longest_here);
        room = room.saturating_sub((text.len() - before).saturating_sub(SHORTEST_VALUE));
        let mut fitting = 0;
        for child in &mut variable.children {
            child.children.clear();
            let mut said = String::new();
            line(&mut said, child, indent + 2, longest.min(LONGEST_VALUE / 2));
            if said.len() > room {
                break;
            }
            room -= said.len();
            text.push_str(&said);
            fitting += 1;
        }
        variable.children.truncate(fitting);
        how_many(text, variable, indent, ": `offset`, `depth`");
    }
    variables.len()
}

/// Whether a line tells of a member all that is said of it, except what it points to.
fn tells(line: &str, child: &Variable) -> bool {
    let value = child.value.split(" -> ").next().unwrap_or(&child.value);
    line.contains(value) && !child.truncated
}

fn line(text: &mut String, variable: &Variable, indent: usize, longest: usize) {
    use hindcast_core::debug::ValueState;
    let value = match variable.state {
        _ if variable.value.starts_with('<') => cut(&variable.value, longest),
        ValueState::Available => cut(&variable.value, longest),
        ValueState::OptimisedOut => "<optimised out>".into(),
        ValueState::NotYetInitialised => format!("<not yet initialised> {}", cut(&variable.value, longest)),
        ValueState::Unreadable => "<unreadable>".into(),
    };
    let _ = write!(text, "\n{:indent$}{}: {} = {value}", "", variable.name, short_type(&variable.type_name));
}

/// `  count: i32 = 42`, with its parts below it.
pub(super) fn variable(text: &mut String, variable: &Variable, indent: usize) {
    line(text, variable, indent, LONGEST_VALUE);
    for child in &variable.children {
        self::variable(text, child, indent + 2);
    }
    how_many(text, variable, indent, "");
}

/// How many of its parts were shown, where some were.
fn how_many(text: &mut String, variable: &Variable, indent: usize, how_to_go_on: &str) {
    // What says why the rest is missing is no part of it.
    let shown = variable.children.iter().filter(|child| child.name != "…").count() as u64;
    if let Some(count) = variable.child_count.filter(|count| shown > 0 && *count > shown) {
        let _ = write!(text, "\n{:indent$}  … {shown} of {count} shown{how_to_go_on}", "");
    }
}

pub(super) fn output(text: &mut String, output: &OutputView) {
    for (name, printed) in [("stdout", &output.stdout), ("stderr", &output.stderr), ("log", &output.log)] {
        if !printed.is_empty() {
            let _ = write!(text, "\n{name}:\n{}", printed.trim_end_matches('\n'));
        }
    }
}

pub(super) fn notes(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = write!(text, "\nnote: {note}");
    }
}

fn cut(value: &str, longest: usize) -> String {
    match value.char_indices().nth(longest) {
        None => value.to_owned(),
        Some((end, _)) => value[..end].to_owned() + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, value: &str) -> Variable {
        Variable { name: name.into(), type_name: "int".into(), value: value.into(), ..Variable::default() }
    }

    #[test]
    fn members_follow_where_the_line_does_not_tell_them() {
        let shown = |value: &str| {
            let children = vec![number("a", "1"), number("b", "1")];
            let mut variables = [Variable { child_count: Some(2), children, ..number("pair", value) }];
            let mut text = String::new();
            assert_eq!(in_short(&mut text, &mut variables, 0), 1);
            (text, variables[0].children.len())
        };
        assert_eq!(shown("{a = 1, b = 1}"), ("\npair: int = {a = 1, b = 1}".into(), 0));
        // The second member is not told by what the first one has in common with it.
        let (text, children) = shown("{a = 1, …}");
        assert!(text.contains("\n  b: int = 1") && children == 2, "{text}");
        let (text, children) = shown("Pair@7");
        assert!(text.contains("\n  a: int = 1") && children == 2, "{text}");
    }
}
