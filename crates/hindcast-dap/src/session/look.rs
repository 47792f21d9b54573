//! Threads, stacks and modules.

use std::{collections::HashMap, path::Path, sync::Arc};

use hindcast_core::debug::{
    CompletionKind, DebugError, Frame, FrameRef, Location, Module, Stack, Thread, ThreadId, ThreadState,
    VariableQuery, VariableScope,
};
use serde_json::{Value, json};

use super::{ROOT, Session, tasks::Task};
use crate::{
    profile::Spelling,
    protocol::{DapThread, DapVariable, Scope, Source, StackFrame},
    transport::ConnectionId,
};

/// What was asked since the last movement: adapters forget it with the next one, and so do we.
#[derive(Debug, Default)]
pub(super) struct Seen {
    stacks: HashMap<(ConnectionId, i64), SeenStack>,
    pub(super) scopes: HashMap<(ConnectionId, i64), Vec<Scope>>,
    pub(super) variables: HashMap<(ConnectionId, i64), Arc<Vec<DapVariable>>>,
    threads: HashMap<ConnectionId, Vec<DapThread>>,
    pub(super) tasks: HashMap<ConnectionId, Vec<Task>>,
    /// Sources that are no files, which last.
    texts: HashMap<String, Arc<str>>,
}

#[derive(Debug, Default)]
struct SeenStack {
    frames: Vec<StackFrame>,
    is_whole: bool,
    /// Whether it stands in what was evaluated to stop it.
    is_in_eval: bool,
}

impl Seen {
    /// The program has moved.
    pub(super) fn forget(&mut self) {
        self.stacks.clear();
        self.threads.clear();
        self.tasks.clear();
        self.forget_values();
    }

    /// A value has changed, and with it perhaps others.
    pub(super) fn forget_values(&mut self) {
        self.scopes.clear();
        self.variables.clear();
    }

    /// Whether a thread whose stack was looked at stands in what was evaluated to stop it.
    pub(super) fn is_in_eval(&self, connection: ConnectionId, dap: i64) -> bool {
        self.stacks.get(&(connection, dap)).is_some_and(|stack| stack.is_in_eval)
    }

    pub(super) fn text_of(&self, path: &str) -> Option<Arc<str>> {
        self.texts.get(path).cloned()
    }
}

/// Frames beyond these are asked for only when somebody wants them.
const FIRST_FRAMES: usize = 20;
const LONGEST_TEXT: usize = 8 << 20;
/// So many threads are looked at when all are listed: each is asked for by itself.
const MOST_PLACES: usize = 64;

impl Session {
    /// The threads of a connection.
    pub(super) fn dap_threads(&mut self, connection: ConnectionId) -> Vec<DapThread> {
        if let Some(known) = self.seen.threads.get(&connection) {
            return known.clone();
        }
        let answer: Result<Value, _> = self.ask(connection, "threads", Value::Null);
        let threads: Vec<DapThread> = answer
            .ok()
            .and_then(|body| serde_json::from_value(body["threads"].clone()).ok())
            .unwrap_or_default();
        if self.standing.contains_key(&connection) {
            self.seen.threads.insert(connection, threads.clone());
        }
        threads
    }

    pub(super) fn thread_list(&mut self) -> Result<Vec<Thread>, DebugError> {
        let live: Vec<_> = self
            .client
            .connections
            .iter()
            .filter(|it| !it.is_over && it.closed.is_none() && it.is_initialized)
            .map(|it| it.id)
            .collect();
        let mut all = Vec::new();
        for connection in live {
            let stands = self.standing.contains_key(&connection);
            let tasks = if stands { self.tasks(connection) } else { Vec::new() };
            let tasks =
                tasks.iter().map(|task| DapThread { id: task.thread(), name: format!("task {}", task.name) });
            let threads: Vec<_> = self.dap_threads(connection).into_iter().chain(tasks).collect();
            for thread in threads {
                let id = self.threads.number(connection, thread.id);
                let location = if stands && all.len() < MOST_PLACES { self.place_of(id) } else { None };
                let state = if stands { ThreadState::Suspended } else { ThreadState::Running };
                all.push(Thread { id, name: thread.name, state, location, waits_for: None, wait: None });
            }
        }
        Ok(all)
    }

    /// Where a thread is: its innermost frame with source.
    fn place_of(&mut self, thread: ThreadId) -> Option<Location> {
        const LOOKED_AT: usize = 5;
        let frames = self.frames(thread, LOOKED_AT).ok()?;
        let locations: Vec<_> = frames.iter().map(|frame| self.location(frame)).collect();
        locations.iter().find(|place| place.file.is_some()).or(locations.first()).cloned()
    }

    /// The inner frames of a thread.
    pub(super) fn frames(&mut self, thread: ThreadId, wanted: usize) -> Result<Vec<StackFrame>, DebugError> {
        let (connection, dap) = self.threads.of(thread).ok_or(DebugError::NoSuchThread(thread))?;
        let key = (connection, dap);
        if let Some(seen) = self.seen.stacks.get(&key)
            && (seen.is_whole || seen.frames.len() >= wanted)
        {
            return Ok(seen.frames.iter().take(wanted).cloned().collect());
        }
        if dap < 0 && self.profile.has_tasks {
            let task = self.tasks(connection).into_iter().find(|task| task.thread() == dap);
            let frames = task.map(|task| task.stack()).ok_or(DebugError::NoSuchThread(thread))?;
            for source in frames.iter().filter_map(|frame| frame.source.as_ref()) {
                self.sources.learn(source);
            }
            return Ok(frames.into_iter().take(wanted).collect());
        }
        let levels = wanted.max(FIRST_FRAMES);
        let arguments = json!({ "threadId": dap, "startFrame": 0, "levels": levels });
        let body: Value = self.ask(connection, "stackTrace", arguments)?;
        let mut frames: Vec<StackFrame> =
            serde_json::from_value(body["stackFrames"].clone()).unwrap_or_default();
        let is_whole = frames.len() < levels;
        // Frames of exceptions that led to this one are behind those of the stack, and labels between those of async code.
        if let Some(at) = frames.iter().position(|frame| frame.name.starts_with("[Chained Exc")) {
            frames.truncate(at);
        }
        frames.retain(|frame| frame.presentation_hint.as_deref() != Some("label"));
        let is_in_eval = !self.profile.pause_with.is_empty()
            && frames.first().and_then(|frame| frame.source.as_ref()).map(source_name).is_some_and(is_eval);
        if is_in_eval && frames.len() > 1 {
            // What stopped it is no part of the program.
            frames.remove(0);
        }
        for frame in &mut frames {
            if let Some(source) = &mut frame.source {
                self.complete_path(source);
                self.sources.learn(source);
            }
        }
        if let Some(frame) = frames.first().cloned() {
            self.fetch_text(connection, &frame);
        }
        let shown = frames.iter().take(wanted).cloned().collect();
        self.seen.stacks.insert(key, SeenStack { frames, is_whole, is_in_eval });
        Ok(shown)
    }

    /// Where an adapter knows only the end of a path, the file is looked for.
    fn complete_path(&mut self, source: &mut Source) {
        let Some(path) = source.path.as_deref().filter(|path| !path.is_empty() && !path.starts_with('/'))
        else {
            return;
        };
        if self.profile.spelling == Spelling::Java
            && let Ok(found) = self.resolve(path)
        {
            source.path = Some(found);
        }
    }

    /// A source that is no file is the adapter's to tell.
    fn fetch_text(&mut self, connection: ConnectionId, frame: &StackFrame) {
        let Some(source) = &frame.source else { return };
        let name = source_name(source);
        let is_file = source.path.as_deref().is_some_and(|path| Path::new(path).is_file());
        if source.source_reference <= 0 || is_file || self.seen.texts.contains_key(&name) {
            return;
        }
        let arguments = json!({ "sourceReference": source.source_reference,
            "source": { "path": source.path, "name": source.name, "sourceReference": source.source_reference } });
        let body: Result<Value, _> = self.ask(connection, "source", arguments);
        let text = body.ok().and_then(|body| body["content"].as_str().map(str::to_owned));
        if let Some(text) = text.filter(|text| text.len() <= LONGEST_TEXT) {
            self.seen.texts.insert(name, text.into());
        }
    }

    pub(super) fn top_frame(&mut self, thread: ThreadId) -> Option<StackFrame> {
        self.frames(thread, 1).ok()?.into_iter().next()
    }

    /// How deep a thread's stack is, and at which line.
    pub(super) fn depth_and_line(&mut self, connection: ConnectionId, dap: i64) -> Option<(usize, u32)> {
        const DEEPEST: usize = 1000;
        let thread = self.threads.number(connection, dap);
        let frames = self.frames(thread, DEEPEST).ok()?;
        Some((frames.len(), frames.first()?.line))
    }

    pub(super) fn stack_of(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        let max = usize::try_from(max_frames).unwrap_or(usize::MAX).max(1);
        let (connection, _) = self.threads.of(thread).ok_or(DebugError::NoSuchThread(thread))?;
        if !self.standing.contains_key(&connection) {
            return Ok(Stack {
                thread,
                frames: Vec::new(),
                more: false,
                broken: Some("this thread runs: its process was not stopped with the other".into()),
            });
        }
        let frames = self.frames(thread, max.saturating_add(1))?;
        let more = frames.len() > max;
        let frames = (0..).zip(frames.iter().take(max)).map(|(index, frame)| Frame {
            index,
            location: self.location(frame),
            offset: None,
            inlined: false,
            signal: false,
            awaiting: false,
        });
        Ok(Stack { thread, frames: frames.collect(), more, broken: None })
    }

    /// The frame that is asked for.
    pub(super) fn frame(&mut self, of: FrameRef) -> Result<(ConnectionId, StackFrame), DebugError> {
        let (connection, _) = self.threads.of(of.thread).ok_or(DebugError::NoSuchThread(of.thread))?;
        let index = usize::try_from(of.index).unwrap_or(usize::MAX);
        let frames = self.frames(of.thread, index.saturating_add(1))?;
        let count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let frame = frames.into_iter().nth(index);
        let frame = frame.ok_or(DebugError::NoSuchFrame { index: of.index, frames: count })?;
        Ok((connection, frame))
    }

    pub(super) fn location(&self, frame: &StackFrame) -> Location {
        let source = frame.source.as_ref();
        let file = source.map(source_name).filter(|name| !name.is_empty());
        let hints = [
            frame.presentation_hint.as_deref(),
            source.and_then(|source| source.presentation_hint.as_deref()),
        ];
        let is_dimmed = hints.iter().any(|hint| matches!(hint, Some("subtle" | "deemphasize")));
        // Sources of the runtime are not there.
        let is_elsewhere = self.profile.spelling == Spelling::Java
            && file.as_deref().is_none_or(|file| !Path::new(file).is_absolute());
        let is_library = is_dimmed || is_elsewhere || file.as_deref().is_some_and(is_library);
        Location {
            line: file.as_ref().and(Some(frame.line)).filter(|line| *line > 0),
            column: Some(frame.column).filter(|column| *column > 0),
            file,
            function: Some(function_name(&frame.name)).filter(|name| !name.is_empty()),
            module: None,
            library: is_library,
            address: None,
        }
    }

    pub(super) fn module_list(&mut self) -> Vec<Module> {
        if self.client.connections.first().is_some_and(|root| root.capabilities.supports_modules_request) {
            let answer: Result<Value, _> =
                self.ask(ROOT, "modules", json!({ "startModule": 0, "moduleCount": 0 }));
            if let Some(modules) =
                answer.ok().and_then(|body| serde_json::from_value(body["modules"].clone()).ok())
            {
                self.modules = modules;
            }
        }
        let shown = |module: &crate::protocol::DapModule| Module {
            name: module.name.clone(),
            path: module.path.clone().unwrap_or_default(),
            base: None,
            size: None,
            symbols: module.symbol_status.clone().unwrap_or_else(|| "source".into()),
            build_id: module.version.clone(),
        };
        self.modules.iter().map(shown).collect()
    }

    pub(super) fn completions(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        match kind {
            CompletionKind::File => Ok(self.sources.beginning_with(prefix, limit)),
            CompletionKind::Function => Ok(Vec::new()),
            CompletionKind::Variable => {
                let Some(thread) = self.last_stop.as_ref().map(|stop| stop.thread) else {
                    return Ok(Vec::new());
                };
                let query = VariableQuery {
                    frame: FrameRef::of(thread, 0),
                    scope: VariableScope::Local,
                    filter: None,
                    offset: 0,
                    limit: 1000,
                    limits: hindcast_core::debug::ValueLimits { depth: 0, children: 0, offset: 0, text: 20 },
                    allow_calls: None,
                };
                let page = self.variables_of(&query)?;
                let names = page.variables.into_iter().map(|variable| variable.name);
                Ok(names.filter(|name| name.starts_with(prefix)).take(limit).collect())
            }
        }
    }
}

/// What a source is called: its path where it has one.
fn source_name(source: &Source) -> String {
    source.path.clone().or_else(|| source.name.clone()).unwrap_or_default()
}

fn is_eval(name: String) -> bool {
    name == "repl" || name.starts_with("<eval>")
}

/// Without decorations that adapters add.
fn function_name(name: &str) -> String {
    // js-debug shows what a method is called on: `Timeout {…}.turn`.
    let name = if name.contains(" {") { name.rsplit('.').next().unwrap_or(name) } else { name };
    name.trim_start_matches("global.").trim_end_matches(" (Current frame)").trim().to_owned()
}

/// Whether a file is not the program's own.
fn is_library(file: &str) -> bool {
    const PARTS: [&str; 8] = [
        "/site-packages/",
        "/dist-packages/",
        "/node_modules/",
        "<node_internals>",
        "/usr/lib/",
        "/usr/share/go",
        "/pkg/mod/",
        "/debugpy/",
    ];
    let is_python_library = || {
        let parts: Vec<_> = file.split('/').collect();
        parts.windows(2).any(|two| two[0] == "lib" && two[1].starts_with("python3"))
    };
    PARTS.iter().any(|part| file.contains(part)) || file.starts_with('<') || is_python_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_where_they_are() {
        for file in [
            "/v/lib/python3.11/json/decoder.py",
            "/v/lib/python3.11/site-packages/x.py",
            "/a/node_modules/x/y.js",
            "<node_internals>/internal/modules",
            "<frozen runpy>",
        ] {
            assert!(is_library(file), "{file}");
        }
        for file in ["/home/me/app.py", "/home/me/lib/python/x.py", "/project/main.go"] {
            assert!(!is_library(file), "{file}");
        }
    }
}
