//! What a caller sees after every movement: why it stopped, where, and what is around there.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
};

use hindcast_core::debug::{
    Breakpoint, BreakpointId, DebugBackend, Engine, Frame, FrameRef, Instruction, Location, Moment,
    OutputChunk, OutputStream, Place, RaisedException, RuntimeAddr, Stop, StopReason, ThreadId, ValueLimits,
    ValueState, Variable, VariableQuery, VariableScope, When,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    secrets::Mask,
    source::{self, AllowedSources, SourceLine},
    thrown,
};

const FRAMES: usize = 5;
/// How far out the caller's own code is looked for when the program died in a library.
const FRAMES_TO_OWN_CODE: u32 = 30;
const LOCALS: u32 = 20;
const LINES_AROUND: u32 = 2;
/// Of frames that are no longer on the stack, too: functions are left and entered again.
const REMEMBERED_FRAMES: usize = 32;

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs
    Running,
    /// It stands still
    Paused,
    /// It has ended
    Exited,
}

/// What a movement answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Viewport {
    /// Pass it to name this session among several.
    pub session_id: String,
    /// What debugs it; told when the session begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// What the program does.
    pub state: State,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<StopReason>,
    /// The reason in a sentence, where the word does not say it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the program returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that stopped or ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The panic or exception that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<RaisedException>,
    /// The breakpoints that were hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breakpoint_ids: Vec<BreakpointId>,
    /// When this is, in a recording; sorts in the order of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Whether the program really is further on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_past: Option<bool>,
    /// The snapshot that this was restored from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The thread that stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// Whether threads must be told apart, because several have stopped.
    #[serde(skip)]
    pub several_threads: bool,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The next instruction, after a step of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// The innermost frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FrameView>,
    /// Arguments and locals of the frame that `source` shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<LocalView>,
    /// The lines around.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<SourceLine>,
    /// What was printed since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputView>,
    /// What was cut, and how to get it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Sensible next calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

/// A frame, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FrameView {
    /// 0 is the innermost.
    pub index: u32,
    /// Demangled; `??` where unknown.
    pub function: String,
    /// Where the source is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The instruction, where the engine sees machine code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
    /// Whether its code is part of its caller's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
    /// Whether it awaits the one before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub awaiting: bool,
    /// Whether it is the caller's own code, with source.
    #[serde(skip)]
    pub is_own: bool,
}

impl From<&Frame> for FrameView {
    fn from(frame: &Frame) -> Self {
        Self {
            index: frame.index,
            function: frame.location.function.clone().unwrap_or_else(|| "??".into()),
            file: frame.location.file.clone(),
            line: frame.location.line,
            address: frame.location.address,
            inlined: frame.inlined,
            awaiting: frame.awaiting,
            is_own: is_own(&frame.location),
        }
    }
}

/// A variable, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LocalView {
    /// Its name.
    pub name: String,
    /// As its language writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// On one line.
    pub value: String,
    /// Whether it was another at the previous stop in this function.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// Whether something was left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl LocalView {
    /// A variable of a frame, masked already. Its value says so where it is not really there.
    pub(super) fn of(variable: Variable) -> Self {
        let value = match variable.state {
            // Engines may say it in the value themselves.
            _ if variable.value.starts_with('<') => variable.value,
            ValueState::Available => variable.value,
            ValueState::OptimisedOut => "<optimised out>".into(),
            ValueState::NotYetInitialised => format!("<not yet initialised> {}", variable.value),
            ValueState::Unreadable => "<unreadable>".into(),
        };
        let truncated = variable.truncated;
        Self { name: variable.name, type_name: variable.type_name, value, changed: false, truncated }
    }
}

/// What was printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputView {
    /// On standard output.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// On standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Messages of tracepoints.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// How much is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
}

impl OutputView {
    /// The text of a chunk, masked; not UTF-8 is replaced.
    pub(super) fn of(chunk: &OutputChunk, mask: Mask) -> Self {
        let mut bytes: HashMap<OutputStream, Vec<u8>> = HashMap::new();
        for (stream, piece) in &chunk.pieces {
            bytes.entry(*stream).or_default().extend_from_slice(piece);
        }
        let text = |stream| {
            let bytes = bytes.get(&stream).map(Vec::as_slice).unwrap_or_default();
            let text = String::from_utf8_lossy(bytes);
            // What is logged has values in it as the engine writes them.
            let shown = if stream == OutputStream::Log { mask.values(&text) } else { mask.text(&text) };
            shown.into_owned()
        };
        Self {
            stdout: text(OutputStream::Stdout),
            stderr: text(OutputStream::Stderr),
            log: text(OutputStream::Log),
            dropped_bytes: Some(chunk.dropped).filter(|dropped| *dropped > 0),
        }
    }
}

/// What is to be seen at a stop, kept until the next one.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Why it stopped.
    pub stop: Stop,
    /// When, in a recording.
    pub when: Option<When>,
    /// Where.
    pub location: Option<Location>,
    /// The next instruction, after a step of one.
    pub instruction: Option<Instruction>,
    pub(super) several_threads: bool,
    pub(super) frames: Vec<FrameView>,
    /// The number of the frame whose source and locals these are.
    pub(super) shown: u32,
    pub(super) locals: Vec<LocalView>,
    pub(super) source: Vec<SourceLine>,
    pub(super) notes: Vec<String>,
}

/// What was seen at earlier stops.
#[derive(Default)]
pub(super) struct Memory {
    /// Values of locals, by thread and function; the newest last.
    locals: VecDeque<((ThreadId, String), HashMap<String, String>)>,
    /// The thread that stopped first, and whether it was not the only one.
    first: Option<ThreadId>,
    several: bool,
}

impl Memory {
    /// Whether threads must be told apart by now.
    fn note(&mut self, thread: ThreadId) -> bool {
        self.several |= *self.first.get_or_insert(thread) != thread;
        self.several
    }

    /// Marks what changed, and remembers what is now.
    fn compare(&mut self, thread: ThreadId, function: &str, locals: &mut [LocalView]) {
        let frame = (thread, function.to_owned());
        let before =
            self.locals.iter().position(|(known, _)| *known == frame).and_then(|at| self.locals.remove(at));
        if let Some((_, before)) = before {
            for local in locals.iter_mut() {
                local.changed = before.get(&local.name).is_some_and(|value| *value != local.value);
            }
        }
        // The first of a name is the innermost.
        let now = locals.iter().rev().map(|local| (local.name.clone(), local.value.clone())).collect();
        self.locals.push_back((frame, now));
        if self.locals.len() > REMEMBERED_FRAMES {
            self.locals.pop_front();
        }
    }
}

/// Whether this is the caller's own code rather than a library's, with source.
pub(super) fn is_own(location: &Location) -> bool {
    location.file.is_some() && !location.library
}

/// Looks around at a stop. What cannot be read is left out with a note.
pub(super) fn look(
    backend: &mut dyn DebugBackend,
    stop: Stop,
    one_instruction: bool,
    breakpoints: &[Breakpoint],
    memory: &mut Memory,
    (mask, sources): (Mask, &AllowedSources),
) -> Scene {
    let mut scene = Scene {
        several_threads: memory.note(stop.thread),
        stop,
        when: backend.time_travel().and_then(|past| past.now().ok().flatten()),
        location: None,
        instruction: None,
        frames: Vec::new(),
        shown: 0,
        locals: Vec::new(),
        source: Vec::new(),
        notes: Vec::new(),
    };
    if let Some(detail) = &mut scene.stop.detail {
        // A condition that has no value stops, too, and the detail says why.
        let hit = breakpoints.iter().filter(|breakpoint| scene.stop.breakpoints.contains(&breakpoint.id));
        let conditions = hit.filter_map(|breakpoint| breakpoint.trigger.condition());
        conditions.for_each(|condition| mask.failed(condition, false, detail));
        mask.string(detail);
    }
    if let Some(raised) = &mut scene.stop.exception {
        thrown::mask(raised, mask);
    }
    if scene.stop.reason == StopReason::Exit {
        return scene;
    }
    let died = match scene.stop.reason {
        StopReason::Exception | StopReason::Signal => true,
        // The program itself asked to be stopped, and did it in a library.
        StopReason::Breakpoint => scene.stop.breakpoints.is_empty(),
        _ => false,
    };
    let wanted = if died { FRAMES_TO_OWN_CODE } else { u32::try_from(FRAMES).unwrap_or(u32::MAX) };
    let frames = match backend.stack(scene.stop.thread, wanted) {
        Ok(stack) => {
            if stack.more || stack.frames.len() > FRAMES {
                scene.notes.push("more frames: `debugger/get_stack_trace`".into());
            }
            if let Some(broken) = stack.broken {
                scene.notes.push(format!("the stack ends early: {broken}"));
            }
            up_to_main(stack.frames)
        }
        Err(error) => {
            scene.notes.push(format!("no stack: {error}"));
            Vec::new()
        }
    };
    scene.location = frames.first().map(|frame| frame.location.clone());
    let Some(innermost) = frames.first() else { return scene };
    let own = |frame: &&Frame| is_own(&frame.location);
    let shown = if died { frames.iter().find(own).unwrap_or(innermost) } else { innermost };
    // What is inside of one's own code then is how libraries abort.
    let worth_showing = frames.iter().filter(|frame| frame.index == 0 || frame.index >= shown.index);
    scene.frames = worth_showing.take(FRAMES).map(FrameView::from).collect();
    scene.shown = shown.index;
    if shown.index != 0 {
        let own = format!("source and locals are of frame {}, the innermost of your code: ", shown.index);
        scene.notes.push(own + "`frame` is that one unless you name another");
    }
    look_at_locals(backend, shown, memory, mask, &mut scene);
    add_source(backend, &shown.location, breakpoints, (mask, sources), &mut scene);
    if let Some(raised) = scene.stop.exception.clone() {
        let is_shown = is_own(&shown.location);
        look_at_throw(backend, &raised, is_shown, breakpoints, (mask, sources), &mut scene);
    }
    if one_instruction
        && let (Some(address), Some(code)) = (innermost.location.address, backend.disassembly())
    {
        let here = Place::Address(address);
        scene.instruction = code.disassemble(&here, 0, 1).ok().and_then(|mut one| one.pop());
    }
    scene
}

fn look_at_locals(
    backend: &mut dyn DebugBackend,
    frame: &Frame,
    memory: &mut Memory,
    mask: Mask,
    scene: &mut Scene,
) {
    let query = VariableQuery {
        frame: FrameRef::of(scene.stop.thread, frame.index),
        scope: VariableScope::Local,
        filter: None,
        offset: 0,
        limit: LOCALS,
        limits: ValueLimits { depth: 1, children: 8, offset: 0, text: 100 },
        allow_calls: None,
    };
    match backend.variables(&query) {
        Ok(page) => {
            if page.total > LOCALS {
                let rest = page.total - LOCALS;
                scene
                    .notes
                    .push(format!("{rest} more locals: `debugger/get_variables` with offset {LOCALS}"));
            }
            scene.locals = page.variables.into_iter().map(|variable| masked(variable, mask)).collect();
            let function = frame.location.function.as_deref().unwrap_or("??");
            memory.compare(scene.stop.thread, function, &mut scene.locals);
        }
        Err(error) => scene.notes.push(format!("no locals: {error}")),
    }
}

/// The source of the throw, where the thread has left it and no other code of the caller's own is there to be shown.
fn look_at_throw(
    backend: &mut dyn DebugBackend,
    raised: &RaisedException,
    is_shown: bool,
    breakpoints: &[Breakpoint],
    policy: (Mask, &AllowedSources),
    scene: &mut Scene,
) {
    scene.notes.extend(thrown::how_to_see_the_throw(raised));
    if let Some(thrown_at) = raised.thrown_at.first().filter(|_| !is_shown) {
        // Those of the code that throws it again say nothing.
        scene.locals.clear();
        add_source(backend, thrown_at, breakpoints, policy, scene);
        if !scene.source.is_empty() {
            scene.notes.push("the source is that of the throw".into());
        }
    }
}

fn add_source(
    backend: &mut dyn DebugBackend,
    location: &Location,
    breakpoints: &[Breakpoint],
    (mask, sources): (Mask, &AllowedSources),
    scene: &mut Scene,
) {
    let (Some(file), Some(line)) = (&location.file, location.line) else { return };
    let found = sources.admit(backend.source_file(file).ok().flatten().unwrap_or_default());
    let why_none = match found {
        Ok(_) => "cannot be read here",
        Err(_) => "is outside the folders that may be used",
    };
    let found = found.unwrap_or_default();
    scene.source = source::lines_of(&found, line, LINES_AROUND);
    if found.changed && !scene.source.is_empty() {
        scene.notes.push(format!("`{file}` was changed since the program was built: its lines may not fit"));
    }
    for source in &mut scene.source {
        mask.string(&mut source.text);
        source.breakpoint = has_breakpoint(breakpoints, file, source.line);
    }
    if scene.source.is_empty() && Path::new(file).is_absolute() && is_own(location) {
        scene.notes.push(format!("no source text: `{file}` {why_none}"));
    }
}

fn has_breakpoint(breakpoints: &[Breakpoint], file: &str, line: u32) -> bool {
    use hindcast_core::debug::Binding;
    breakpoints.iter().any(|breakpoint| match &breakpoint.binding {
        Binding::Bound { locations, .. } => locations
            .iter()
            .any(|location| location.line == Some(line) && location.file.as_deref() == Some(file)),
        Binding::Pending { .. } => false,
    })
}

pub(super) fn masked(mut variable: Variable, mask: Mask) -> LocalView {
    mask.variable(&mut variable);
    LocalView::of(variable)
}

/// Without the start-up code behind `main`, which is the same for every program.
pub(super) fn up_to_main(mut frames: Vec<Frame>) -> Vec<Frame> {
    let is_main = |frame: &Frame| {
        let function = frame.location.function.as_deref().unwrap_or_default();
        function.rsplit("::").next() == Some("main") && frame.location.file.is_some()
    };
    if let Some(main) = frames.iter().position(is_main) {
        frames.truncate(main + 1);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(name: &str, value: &str) -> LocalView {
        let variable = Variable { name: name.into(), value: value.into(), ..Variable::default() };
        LocalView::of(variable)
    }

    #[test]
    fn changes_are_told_against_the_previous_stop_in_the_same_function_and_thread() {
        let mut memory = Memory::default();
        let mut changed = |thread, function: &str, value: &str| {
            let mut locals = [local("x", value), local("y", "1")];
            memory.compare(ThreadId(thread), function, &mut locals);
            locals.map(|local| local.changed)
        };
        assert_eq!(changed(1, "main", "1"), [false, false]);
        assert_eq!(changed(1, "main", "2"), [true, false]);
        assert_eq!(changed(1, "other", "5"), [false, false], "seen for the first time");
        assert_eq!(changed(2, "main", "5"), [false, false], "another thread");
        assert_eq!(changed(1, "main", "2"), [false, false], "the same as before the call");
    }
}
