//! Programs in Python, seen in the memory of their interpreter: their frames, values and writes instead of its own.
//!
//! Nothing of the program runs for that, so that it holds for every moment of a recording.

mod backwards;
mod cause;
mod lines;
mod steps;
mod writes;

pub(super) use self::{
    cause::Uncaught,
    lines::{RunToLines, is_line},
    steps::LineSteps,
    writes::Trail,
};

use std::{collections::HashSet, path::Path};

use hindcast_core::debug::{
    DebugError, Evaluation, Frame, FrameRef, Location, Reason, Stack, StopReason, ThreadId, Trigger,
    Variable, VariablePage, VariableQuery, VariableScope, View,
};
use hindcast_python::{ExpressionError, LocalKind, Python, Reader, Thread, Unknown};

use super::{Session, movement::thread_id, system};
use crate::{replay::Position, sys::Tid};

/// What is known of the interpreter in the program.
#[derive(Default)]
pub(super) struct Interpreter {
    /// Once it was looked for among what is loaded now.
    found: Option<Result<Option<Python>, Unknown>>,
    /// Whether it was seen to keep its objects where they should be.
    is_checked: bool,
    /// The files that frames were shown of: they may be read.
    scripts: HashSet<String>,
    /// Whether the program stopped for something that only the machine's own frames tell.
    is_machine_stop: bool,
    /// Where a step back began that was interrupted.
    pub(super) departed: Option<Position>,
    /// How many more calls of a library a step back looks into.
    looks_left: u32,
    /// Where breakpoints on lines of Python are.
    pub(super) sites: lines::Sites,
}

impl Interpreter {
    /// Whether a file was seen to be a script that the program runs.
    pub(super) fn has_script(&self, path: &str) -> bool {
        self.scripts.contains(path)
    }

    /// The interpreter, once it was found and checked.
    fn known(&self) -> Option<&Python> {
        match &self.found {
            Some(Ok(Some(python))) if self.is_checked => Some(python),
            _ => None,
        }
    }

    /// Other files are loaded than before.
    pub(super) fn forget(&mut self) {
        self.found = None;
        self.is_checked = false;
    }
}

/// A thread of the program and the interpreter's own idea of it.
pub(super) struct Speaker<'s, 'm> {
    pub(super) reader: &'s Reader<'m>,
    pub(super) thread: Thread,
}

impl Session {
    /// Finds the interpreter, where there is one and it has started.
    pub(super) fn find_python(&mut self) -> Result<(), Unknown> {
        if self.interpreter.found.is_none() {
            let memory = self.process.memory();
            // Usually it is a library, or the executable itself.
            let modules: Vec<_> = self.image.iter().map(|loaded| loaded.module).collect();
            let runtime = modules
                .into_iter()
                .find(|module| self.symbols.symbol_address(*module, "_PyRuntime").is_some());
            let symbol = |name: &str| self.symbols.symbol_address(runtime?, name);
            self.interpreter.found = Some(Python::find(&memory, &symbol));
        }
        match &self.interpreter.found {
            Some(Ok(Some(python))) if !self.interpreter.is_checked => {
                let is_up = python.check(&self.process.memory());
                match is_up {
                    Ok(is_up) => self.interpreter.is_checked = is_up,
                    Err(unknown) => {
                        self.interpreter.found = Some(Err(unknown.clone()));
                        return Err(unknown);
                    }
                }
                Ok(())
            }
            Some(Err(unknown)) => Err(unknown.clone()),
            _ => Ok(()),
        }
    }

    /// The interpreter, once [`Self::find_python`] has found and checked it.
    pub(super) fn python(&self) -> Option<&Python> {
        self.interpreter.known()
    }

    /// Remembers at a stop whose frames it is about.
    pub(super) fn note_machine_stop(
        &mut self,
        reason: StopReason,
        breakpoints: &[hindcast_core::debug::BreakpointId],
    ) {
        let is_machines = |id: &hindcast_core::debug::BreakpointId| {
            self.breakpoints.get(*id).is_ok_and(|entry| !is_of_python(&entry.trigger))
        };
        self.interpreter.is_machine_stop = match reason {
            StopReason::Signal | StopReason::Exception => true,
            StopReason::Breakpoint | StopReason::Watchpoint => {
                !breakpoints.is_empty() && breakpoints.iter().all(is_machines)
            }
            _ => false,
        };
    }

    /// Lets `look` see a thread as the interpreter does, where the frames of `view` are Python's. None where they are the
    /// machine's.
    pub(super) fn with_python<T>(
        &mut self,
        view: View,
        tid: Tid,
        look: impl FnOnce(&Speaker<'_, '_>) -> T,
    ) -> Result<Option<T>, DebugError> {
        if view == View::Native || self.process.ended().is_some() {
            return Ok(None);
        }
        let is_wanted = view == View::Python;
        if self.interpreter.is_machine_stop && !is_wanted {
            return Ok(None);
        }
        let refused = |why: String| {
            let reason = Reason::new(why).advise("ask for `language` \"native\"");
            if is_wanted { Err(DebugError::Unsupported(reason)) } else { Ok(None) }
        };
        if let Err(unknown) = self.find_python() {
            return refused(unknown.to_string());
        }
        let Some(python) = self.python() else {
            return refused("no Python program runs here at this moment".into());
        };
        let ident = self.process.registers(tid).map_err(system)?.fs_base();
        let memory = self.process.memory();
        let reader = Reader::new(python, &memory);
        let threads = match reader.threads() {
            Ok(threads) => threads,
            Err(error) => return refused(error.to_string()),
        };
        let Some(thread) = threads.into_iter().find(|thread| thread.ident == ident) else {
            return refused("this thread runs no Python".into());
        };
        if !is_wanted && !runs_script(&reader, &thread) {
            return Ok(None);
        }
        Ok(Some(look(&Speaker { reader: &reader, thread })))
    }

    /// The Python frames of a thread; none where the machine's are meant.
    pub(super) fn python_stack(
        &mut self,
        view: View,
        thread: ThreadId,
        tid: Tid,
        max_frames: u32,
    ) -> Result<Option<Stack>, DebugError> {
        let folder = self.working_folder();
        let stack = self.with_python(view, tid, |speaker| {
            let found = speaker.reader.frames(&speaker.thread, max_frames.max(1) as usize);
            let frames = found.frames.iter().zip(0..).map(|(frame, index)| Frame {
                index,
                location: location_of(frame, &folder),
                offset: None,
                inlined: false,
                signal: false,
                awaiting: false,
            });
            Stack {
                thread,
                frames: frames.collect(),
                more: found.more,
                broken: found.broken.map(|error| error.to_string()),
            }
        })?;
        let files =
            stack.iter().flat_map(|stack| &stack.frames).filter_map(|frame| frame.location.file.clone());
        self.interpreter.scripts.extend(files);
        Ok(stack)
    }

    /// Lets `look` see a frame as the interpreter does; none where the machine's frames are meant.
    pub(super) fn with_python_frame<T>(
        &mut self,
        frame: FrameRef,
        tid: Tid,
        look: impl FnOnce(&Speaker<'_, '_>, &hindcast_python::Frame) -> T,
    ) -> Result<Option<T>, DebugError> {
        let index = frame.index;
        let found = self.with_python(frame.view, tid, |speaker| {
            let found = speaker.reader.frames(&speaker.thread, index as usize + 1);
            match found.frames.get(index as usize) {
                Some(frame) => Ok(look(speaker, frame)),
                None => {
                    let frames = u32::try_from(found.frames.len()).unwrap_or(u32::MAX);
                    Err(DebugError::NoSuchFrame { index, frames })
                }
            }
        })?;
        found.transpose()
    }

    /// The Python variables of a frame; none where the machine's are meant.
    pub(super) fn python_variables(
        &mut self,
        tid: Tid,
        query: &VariableQuery,
    ) -> Result<Option<VariablePage>, DebugError> {
        if query.scope == VariableScope::Registers {
            return Ok(None);
        }
        let page = self.with_python_frame(query.frame, tid, |speaker, frame| {
            let all = match query.scope {
                VariableScope::Global => speaker.reader.globals(frame),
                _ => speaker.reader.locals(frame),
            };
            let all = all.map_err(|error| DebugError::Expression(error.to_string().into()))?;
            let is_wanted = |local: &hindcast_python::Local| {
                let is_in_scope =
                    query.scope != VariableScope::Arguments || local.kind == LocalKind::Argument;
                // A module's own names say nothing, and a local without a value even less.
                let is_own = !(local.name.starts_with("__") && local.name.ends_with("__")
                    || local.name.starts_with('.'));
                is_in_scope
                    && is_own
                    && local.object.is_some()
                    && query.filter.as_deref().is_none_or(|filter| local.name.contains(filter))
            };
            let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
            let page = wanted.iter().skip(query.offset as usize).take(query.limit as usize);
            Ok(VariablePage {
                variables: page.map(|local| speaker.reader.show_local(local, query.limits)).collect(),
                total: u32::try_from(wanted.len()).unwrap_or(u32::MAX),
            })
        })?;
        page.transpose()
    }

    /// The value of a Python expression; none where the machine's are meant.
    pub(super) fn python_evaluate(
        &mut self,
        tid: Tid,
        evaluation: &Evaluation,
    ) -> Result<Option<Variable>, DebugError> {
        let value = self.with_python_frame(evaluation.frame, tid, |speaker, frame| {
            let value = speaker.reader.evaluate(frame, &evaluation.expression).map_err(not_evaluated)?;
            Ok(speaker.reader.show_value(&value, evaluation.limits))
        })?;
        value.transpose()
    }

    /// Refuses what only the machine's own frames can do, where Python's are shown.
    pub(super) fn refuse_in_python(&mut self, frame: FrameRef, what: &str) -> Result<(), DebugError> {
        let tid = self.known_thread(frame.thread)?;
        match self.with_python(frame.view, tid, |_| ())? {
            None => Ok(()),
            Some(()) => Err(DebugError::Unsupported(
                Reason::new(format!("{what} in a recorded Python program")).advise(
                    "follow a value back with `debugger/last_write`, or debug the program live: `debugger/launch` without `record`",
                ),
            )),
        }
    }

    /// The folder that the program was started in, from which Python names its files.
    pub(super) fn working_folder(&self) -> String {
        self.target.cwd.clone()
    }
}

/// Whether a file is a script in Python.
pub(super) fn is_script(file: &str) -> bool {
    let extension = Path::new(file).extension();
    extension.is_some_and(|extension| extension == "py" || extension == "pyw")
}

/// Whether a thread runs a script, and not only what the interpreter does for itself when it starts.
fn runs_script(reader: &Reader<'_>, thread: &Thread) -> bool {
    const LOOKED_AT: usize = 64;
    let found = reader.frames(thread, LOOKED_AT);
    found.frames.iter().any(|frame| !frame.code.file.starts_with("<frozen "))
}

fn location_of(frame: &hindcast_python::Frame, folder: &str) -> Location {
    let column = frame.position.and_then(|position| position.columns).map(|(start, _)| start + 1);
    Location {
        file: absolute(&frame.code.file, folder),
        line: frame.line(),
        column,
        function: Some(frame.code.name.clone()),
        module: None,
        library: frame.code.is_library(),
        address: None,
    }
}

/// The file as everybody else names it; none where the code is in no file.
fn absolute(file: &str, folder: &str) -> Option<String> {
    if file.starts_with('<') {
        // What was given on the command line has lines, too.
        return (file == "<string>" || file == "<stdin>").then(|| file.to_owned());
    }
    let joined = Path::new(folder).join(file);
    let mut plain = std::path::PathBuf::new();
    for part in joined.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain.to_string_lossy().into_owned())
}

/// Whether a breakpoint is about Python code.
fn is_of_python(trigger: &Trigger) -> bool {
    match trigger {
        Trigger::Watch(watchpoint) => matches!(
            &watchpoint.watched,
            hindcast_core::debug::Watched::Expression { frame, .. } if frame.view == View::Python
        ),
        trigger => is_line(trigger),
    }
}

fn not_evaluated(error: ExpressionError) -> DebugError {
    let reason = Reason::new(error.to_string());
    DebugError::Expression(match &error {
        ExpressionError::Computed { .. } => reason
            .advise("name what it is computed from, or debug the program live with `language` \"python\""),
        ExpressionError::NoName { .. } => reason.advise("`debugger/get_variables` lists the names"),
        _ => reason,
    })
}

/// The thread that stopped, as others name it.
pub(super) fn of_thread(tid: Tid) -> ThreadId {
    thread_id(tid)
}
