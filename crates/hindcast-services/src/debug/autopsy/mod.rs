//! One look at a program that crashed or hangs: what happened, where, and with which values.

mod crash;
mod hang;
mod suspect;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Write as _},
};

use hindcast_core::debug::{
    DebugBackend, Frame, FrameRef, Instruction, Location, Place, RaisedException, RaisedSignal, Register,
    RegisterSet, RuntimeAddr, Stop, StopReason, ThreadId, ValueLimits, VariableQuery, VariableScope,
};
use schemars::JsonSchema;
use serde::Serialize;

use self::suspect::Suspect;
pub use self::{
    crash::{Crash, CrashFrame},
    hang::{Hang, HangingThread},
};
use super::{
    fault::{self, FaultyAccess},
    secrets::Mask,
    session::Session,
    source::{self, AllowedSources},
    thrown,
    type_names::short_type,
    viewport::{self, LocalView, Scene},
    worker::Need,
};
use crate::Failure;

/// Frames of the caller's own code whose locals are shown.
const FRAMES_WITH_LOCALS: usize = 2;
const LOCALS_OF_A_FRAME: usize = 6;
/// How many instructions are shown before and after the one that failed.
const CODE_AROUND: (usize, usize) = (2, 1);
/// Enough to tell values apart: `debugger/evaluate` shows them whole.
const VALUES: ValueLimits = ValueLimits { depth: 1, children: 4, offset: 0, text: 40 };
/// How often a call from one place is shown.
const CALLS_FROM_ONE_PLACE: usize = 1;
/// So often on the inner part of a stack, a function calls itself without end.
const RECURSION: usize = 20;
const FRAMES_FOR_RECURSION: u32 = 60;

/// What is known about the death of a program. What is written for a reader is in the text of the answer only.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Autopsy {
    /// What happened, in a sentence.
    #[serde(skip)]
    pub summary: String,
    /// Why it stands still.
    pub reason: StopReason,
    /// The signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<RaisedSignal>,
    /// The panic or exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<RaisedException>,
    /// The memory access that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<FaultyAccess>,
    /// The source line of the throw, where the thread has left it.
    #[serde(skip)]
    pub throw: Option<String>,
    /// Who waits for whom, where the program was paused or its threads are in a deadlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
    /// The thread it happened in.
    pub thread_id: ThreadId,
    /// Innermost first.
    pub frames: Vec<AutopsyFrame>,
    /// Those that the instruction that failed is about.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub registers: BTreeMap<String, String>,
    /// That instruction, marked with `>`, and those around it, in Intel syntax.
    #[serde(skip)]
    pub code: Vec<String>,
    /// What could not be found out, or was cut.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Sensible next calls, where there is a past to look into.
    #[serde(skip)]
    pub next: Vec<String>,
    /// The expression that holds the bad pointer.
    #[serde(skip)]
    expression: Option<String>,
    /// All frames that were looked at, innermost first.
    #[serde(skip)]
    stack: Vec<CrashFrame>,
}

/// A frame with what it worked on.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AutopsyFrame {
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
    /// The source line itself.
    #[serde(skip)]
    pub text: Option<String>,
    /// The arguments, as in `n=4, name="x"`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// Locals that are no arguments and have a value, for the innermost frames of one's own code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<LocalView>,
    /// Whether there are more of them.
    #[serde(skip)]
    more_locals: bool,
    /// Whether it is the caller's own code.
    #[serde(skip)]
    is_own: bool,
    /// Arguments and locals, to look for suspects among.
    #[serde(skip)]
    suspects: Vec<LocalView>,
}

impl fmt::Display for Autopsy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f)?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))?;
        self.next.iter().try_for_each(|next| write!(f, "\nnext: {next}"))
    }
}

impl Autopsy {
    /// What happened first, then all that may explain it.
    fn tell(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str(&self.summary)?;
        if let Some(thrown) = self.exception.as_ref().and_then(thrown::thrown_in_words) {
            write!(f, "\n{thrown}")?;
            self.throw.iter().try_for_each(|line| write!(f, "\n      {line}"))?;
        }
        self.hang.iter().try_for_each(|hang| write!(f, "{hang}"))?;
        // What the thread waits for is said already, and its frames are those that wait.
        if !self.hang.as_ref().is_some_and(|hang| hang.explains(self.thread_id)) {
            f.write_str("\nStack trace:")?;
            self.frames.iter().try_for_each(|frame| write!(f, "\n{frame}"))?;
        }
        if !self.code.is_empty() {
            f.write_str("\nCode:")?;
            self.code.iter().try_for_each(|instruction| write!(f, "\n{instruction}"))?;
        }
        if !self.registers.is_empty() {
            f.write_str("\nRegisters:")?;
            self.registers.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        }
        Ok(())
    }

    /// The same without notes and hints.
    fn without_hints(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.tell(&mut text);
        text
    }
}

impl fmt::Display for AutopsyFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:<2} ", self.index)?;
        if let Some(address) = self.address {
            write!(f, "{address} ")?;
        }
        write!(f, "{}({})", self.function, self.arguments)?;
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            let name = file.rsplit('/').next().unwrap_or(file);
            write!(f, " at {name}:{line}")?;
        }
        if let Some(line) = &self.text {
            write!(f, "\n      {line}")?;
        }
        for local in &self.locals {
            write!(f, "\n      {}: {} = {}", local.name, short_type(&local.type_name), local.value)?;
        }
        Ok(())
    }
}

/// The registers that the failed instruction uses; all others tell little.
fn told(registers: Vec<Register>) -> BTreeMap<String, String> {
    let told = |register: Register| {
        let value = register.value?;
        // Leading zeros tell nothing.
        let short =
            value.strip_prefix("0x").map(|digits| format!("0x{:0>1}", digits.trim_start_matches('0')));
        Some((register.name, short.unwrap_or(value)))
    };
    registers.into_iter().filter_map(told).collect()
}

impl Session {
    /// All that helps to understand why the program stands where it does.
    pub async fn autopsy(&self, max_frames: u32, depth: u32) -> Result<Autopsy, Failure> {
        let autopsy = self
            .ask(Need::Standstill, move |core| {
                let (mask, sources) = (core.mask, core.sources.clone());
                let scene = core.standing.borrow().scene.clone();
                let scene = scene.ok_or_else(super::failures::running)?;
                examine(core.backend()?, &scene, max_frames, depth, (mask, &sources))
            })
            .await?;
        self.remember(&autopsy);
        Ok(autopsy)
    }
}

fn examine(
    backend: &mut dyn DebugBackend,
    scene: &Scene,
    max_frames: u32,
    depth: u32,
    (mask, sources): (Mask, &AllowedSources),
) -> Result<Autopsy, Failure> {
    let stop = &scene.stop;
    let mut notes = Vec::new();
    let stack = backend.stack(stop.thread, max_frames.max(FRAMES_FOR_RECURSION))?;
    notes.extend(stack.broken.map(|broken| format!("the stack ends early: {broken}")));
    let frame = FrameRef::of(stop.thread, 0);
    let here = stack.frames.first().and_then(|frame| frame.location.address);
    // Frames of an interpreted program stand at no instruction of the machine.
    let raw_memory = here.is_some() && backend.raw_memory().is_some();
    let registers = backend.registers().filter(|_| here.is_some());
    let registers = match registers.map(|registers| registers.registers(frame, RegisterSet::Used)) {
        Some(Ok(registers)) => registers,
        Some(Err(error)) => {
            notes.push(format!("no registers: {error}"));
            Vec::new()
        }
        None => Vec::new(),
    };
    let disassembly = here.map(|here| code_around(backend, here)).unwrap_or_default();
    let failed = disassembly.iter().find(|instruction| Some(instruction.address) == here);
    let instruction = failed.map_or("", |instruction| &instruction.text);
    let mut access =
        stop.signal.as_ref().and_then(|signal| fault::explain(signal, instruction, recursion(&stack.frames)));
    let seen = crash::frames(backend, &stack.frames, (mask, sources));
    let up_to_main = viewport::up_to_main(stack.frames);
    let all = up_to_main.len();
    let shown = worth_showing(up_to_main, gives_up(stop), max_frames as usize);
    let mut elsewhere = Vec::new();
    if stack.more && all == shown.len() || all > shown.len() {
        elsewhere.push("`debugger/get_stack_trace`".to_owned());
    }
    let hang = hang::look(backend, stop, (mask, sources));
    let is_waiting = hang.as_ref().is_some_and(|hang| hang.explains(stop.thread));
    // The variables of a thread that only waits explain nothing.
    let mut with_locals = if is_waiting { FRAMES_WITH_LOCALS } else { 0 };
    let mut frames: Vec<AutopsyFrame> = Vec::new();
    for frame in &shown {
        let locals = is_own(frame) && with_locals < FRAMES_WITH_LOCALS;
        with_locals += usize::from(locals);
        let mut examined = examine_frame(backend, stop.thread, frame, locals, depth, (mask, sources));
        // A pointer that was handed on is shown where it went.
        let handed_on = |local: &LocalView| frames.iter().any(|inner| inner.suspects.contains(local));
        examined.locals.retain(|local| !local.value.starts_with("0x") || !handed_on(local));
        frames.push(examined);
    }
    if let Some(frame) = frames.iter().find(|frame| frame.more_locals) {
        elsewhere.push(format!("`debugger/get_variables` with frame {}", frame.index));
    }
    let mut code = Vec::new();
    let mut named = BTreeMap::new();
    // Who gives up or waits does it somewhere in a library.
    if !is_waiting && frames.first().is_some_and(|frame| frame.index == 0) {
        named = told(registers);
        code.extend(disassembly.iter().map(|instruction| {
            let mark = if instruction.current { '>' } else { ' ' };
            format!("{mark} {} {}", instruction.address, instruction.text)
        }));
    }
    if raw_memory && !is_waiting {
        elsewhere.extend(["`debugger/get_registers`", "`debugger/disassemble`"].map(str::to_owned));
    }
    if !elsewhere.is_empty() {
        notes.push(format!("more: {}", elsewhere.join(", ")));
    }
    let accessed =
        access.as_ref().filter(|access| access.kind != "stack_overflow").and_then(|access| access.address);
    let is_about_none = stop.exception.as_ref().and_then(|raised| raised.message.as_deref());
    let is_about_none = is_about_none.is_some_and(|message| message.contains("'NoneType'"));
    let suspect = match frames.first().filter(|_| is_about_none) {
        Some(innermost) => suspect::find_none(backend, stop.thread, innermost),
        None => accessed.and_then(|address| suspect::find(backend, stop.thread, &frames, address)),
    };
    if let (Some(access), Some(suspect)) = (&mut access, &suspect) {
        let _ = write!(access.explanation, " (`{}`)", suspect.expression);
    }
    let crashed = stop.signal.is_some() || stop.exception.is_some();
    let thrown_at = stop.exception.as_ref().and_then(|raised| raised.thrown_at.first());
    let throw = thrown_at.and_then(|location| source::line_of(backend, location, sources, mask));
    notes.extend(stop.exception.as_ref().and_then(thrown::how_to_see_the_throw));
    let repeats = |detail: &String| {
        stop.exception.as_ref().is_none_or(|raised| detail.starts_with(&raised.exception_type))
    };
    notes.extend(stop.detail.clone().filter(|detail| !repeats(detail)));
    let has_history = backend.time_travel().is_some_and(|past| past.now().is_ok_and(|now| now.is_some()));
    // A program that was paused on its way stands at a moment that has no name yet.
    let has_past = has_history
        || backend.time_travel().is_some_and(|past| past.recording().is_ok_and(|recording| recording.active));
    let taken = hang.as_ref().filter(|_| has_past).map(Hang::looking_back).unwrap_or_default();
    Ok(Autopsy {
        summary: summarise(scene, access.as_ref(), hang.as_ref(), &frames),
        reason: stop.reason,
        // What it wanted is part of the access.
        signal: stop.signal.clone().map(|signal| RaisedSignal { fault: None, ..signal }),
        exception: stop.exception.clone(),
        access,
        throw,
        hang,
        thread_id: stop.thread,
        frames,
        registers: named,
        code,
        notes,
        next: if crashed && has_history { looking_back(suspect.as_ref()) } else { taken },
        expression: suspect.map(|suspect| suspect.expression),
        stack: seen,
    })
}

/// Whether the program ends itself, rather than an instruction having failed.
fn gives_up(stop: &Stop) -> bool {
    stop.exception.is_some() || stop.signal.as_ref().is_some_and(|signal| signal.name == "SIGABRT")
}

fn is_own(frame: &Frame) -> bool {
    viewport::is_own(&frame.location)
}

/// The innermost frame, unless the program gives up there, and those of one's own code: what is between is how
/// libraries abort, or call back. Of a function that calls itself from one place again and again the first call
/// tells all.
fn worth_showing(mut frames: Vec<Frame>, gives_up: bool, most: usize) -> Vec<Frame> {
    if frames.iter().any(is_own) {
        frames.retain(|frame| is_own(frame) || frame.index == 0 && !gives_up);
    }
    let mut times: HashMap<Location, usize> = HashMap::new();
    frames.retain(|frame| {
        let times = times.entry(frame.location.clone()).or_default();
        *times += 1;
        *times <= CALLS_FROM_ONE_PLACE
    });
    frames.truncate(most);
    frames
}

/// How the past tells where the trouble came from.
fn looking_back(suspect: Option<&Suspect>) -> Vec<String> {
    let before = "debugger/step_backward with granularity `over`: the line before".to_owned();
    let Some(Suspect { expression, frame, question }) = suspect else { return vec![before] };
    let frame = if *frame == 0 { String::new() } else { format!(", frame {frame}") };
    vec![format!("debugger/last_write with expression `{expression}`{frame}: {question}"), before]
}

fn code_around(backend: &mut dyn DebugBackend, here: RuntimeAddr) -> Vec<Instruction> {
    let (before, after) = CODE_AROUND;
    let code = backend.disassembly();
    let code = code.and_then(|code| code.disassemble(&Place::Address(here), before, after + 1).ok());
    code.unwrap_or_default()
}

fn recursion(frames: &[Frame]) -> Option<(&str, usize)> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for function in frames.iter().filter_map(|frame| frame.location.function.as_deref()) {
        *times.entry(function).or_default() += 1;
    }
    times.into_iter().max_by_key(|(_, times)| *times).filter(|(_, times)| *times >= RECURSION)
}

fn examine_frame(
    backend: &mut dyn DebugBackend,
    thread: ThreadId,
    frame: &Frame,
    with_locals: bool,
    depth: u32,
    (mask, sources): (Mask, &AllowedSources),
) -> AutopsyFrame {
    let mut variables = |scope, limit| {
        let query = VariableQuery {
            frame: FrameRef::of(thread, frame.index),
            scope,
            filter: None,
            offset: 0,
            limit,
            limits: ValueLimits { depth, ..VALUES },
            allow_calls: None,
        };
        let page = backend.variables(&query).map(|page| page.variables).unwrap_or_default();
        page.into_iter().map(|variable| viewport::masked(variable, mask)).collect::<Vec<_>>()
    };
    let arguments = variables(VariableScope::Arguments, 8);
    let mut locals = if with_locals { variables(VariableScope::Local, 32) } else { Vec::new() };
    // Said already, unless another of the name hides it; or nothing to say.
    locals.retain(|local| !arguments.contains(local) && !local.value.starts_with('<'));
    let more_locals = locals.len() > LOCALS_OF_A_FRAME;
    locals.truncate(LOCALS_OF_A_FRAME);
    let suspects = arguments.iter().chain(&locals).cloned().collect();
    let arguments: Vec<_> =
        arguments.into_iter().map(|argument| format!("{}={}", argument.name, argument.value)).collect();
    let text = source::line_of(backend, &frame.location, sources, mask);
    AutopsyFrame {
        index: frame.index,
        function: frame.location.function.clone().unwrap_or_else(|| "??".into()),
        file: frame.location.file.clone(),
        line: frame.location.line,
        address: frame.location.address,
        text,
        arguments: arguments.join(", "),
        locals,
        more_locals,
        is_own: is_own(frame),
        suspects,
    }
}

fn summarise(
    scene: &Scene,
    access: Option<&FaultyAccess>,
    hang: Option<&Hang>,
    frames: &[AutopsyFrame],
) -> String {
    let stop = &scene.stop;
    if let Some(waits) = hang.and_then(Hang::summary) {
        return waits;
    }
    let what = match (&stop.exception, &stop.signal) {
        (Some(exception), _) => {
            let kind = if exception.unhandled { "unhandled " } else { "" };
            // The sentence goes on with the place.
            let message =
                exception.message.as_deref().map(|text| format!(": {}", text.trim_end_matches('.')));
            let message = message.unwrap_or_default();
            let because = exception.because.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
            let inner = thrown::causes_in_words(&exception.inner);
            format!("{kind}{}{message}{because}{inner}", exception.exception_type)
        }
        (None, Some(signal)) => {
            let cause = signal.cause.as_deref();
            // Which explains more than the cause.
            let why = access.map(|access| access.explanation.as_str()).or(cause);
            why.map_or_else(|| signal.name.clone(), |why| format!("{}: {why}", signal.name))
        }
        (None, None) => {
            let detail = stop.detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            match hang {
                Some(_) => {
                    format!("no crash, and no thread is known to wait for another: it was paused{detail}")
                }
                None => format!("no crash: it stopped for another reason{detail}"),
            }
        }
    };
    let own = frames.iter().find(|frame| frame.is_own);
    let thrown_at = stop.exception.as_ref().and_then(|exception| exception.thrown_at.first());
    if let (None, Some(thrown_at)) = (own, thrown_at) {
        return format!("{what}, thrown in {}", thrown_at.in_words());
    }
    match own.or(frames.first()) {
        Some(AutopsyFrame { function, file: Some(file), line: Some(line), .. }) => {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("{what}, in `{function}` at {name}:{line}")
        }
        Some(AutopsyFrame { function, address: Some(address), .. }) => {
            format!("{what}, in `{function}` at {address}")
        }
        Some(frame) => format!("{what}, in `{}`", frame.function),
        None => what,
    }
}
