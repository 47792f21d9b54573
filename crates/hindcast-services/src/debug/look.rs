//! Looking at a program that stands still, and the little that can be done while it runs.

use std::{path::PathBuf, sync::Arc};

use hindcast_core::{
    Timestamp,
    debug::{
        Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, CompletionKind, DebugError, ElementPage,
        ElementSearch, Engine, Evaluation, FrameRef, Instruction, MemoryBlock, Module, NumberFormat, Place,
        PointerPage, PointerSearch, Register, RegisterSet, SourceFile, Stack, Thread, ThreadId, Trigger,
        ValueLimits, Variable, VariablePage, VariableQuery, View, Watched,
    },
};

use super::{
    failures::{self, Missing},
    seen_threads::SeenThread,
    session::Session,
    source,
    viewport::State,
    worker::{Core, Need},
};
use crate::{Failure, FailureKind};

/// Threads, and whether they are still so.
#[derive(Debug, Clone)]
pub struct ThreadsView {
    /// All of them.
    pub threads: Vec<SeenThread>,
    /// The one that stopped last.
    pub current: Option<ThreadId>,
    /// Whether the program has run since.
    pub stale: bool,
    /// When they were looked at.
    pub captured_at: Timestamp,
}

impl Session {
    /// The stack of one thread; of the current one where none is named.
    pub async fn stack(
        &self,
        view: View,
        thread: Option<ThreadId>,
        max_frames: u32,
    ) -> Result<Stack, Failure> {
        let thread = self.looked_at(thread)?;
        self.ask(Need::Standstill, move |core| Ok(core.backend()?.stack_in(view, thread, max_frames)?)).await
    }

    /// The stacks of all threads.
    pub async fn all_stacks(&self, max_frames: u32) -> Result<Vec<(Thread, Stack)>, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let backend = core.backend()?;
            let threads = backend.threads()?;
            let mut stacks = Vec::with_capacity(threads.len());
            for mut thread in threads {
                mask.thread(&mut thread);
                let stack = backend.stack(thread.id, max_frames).unwrap_or_else(|error| Stack {
                    thread: thread.id,
                    frames: Vec::new(),
                    more: false,
                    broken: Some(error.to_string()),
                });
                stacks.push((thread, stack));
            }
            Ok(stacks)
        })
        .await
    }

    /// The frame of that number of a thread; the one whose locals the last stop showed where none is named.
    pub fn frame(&self, thread: Option<ThreadId>, index: Option<u32>) -> Result<FrameRef, Failure> {
        let thread = self.looked_at(thread)?;
        Ok(FrameRef::of(thread, index.unwrap_or_else(|| self.shown_frame(thread))))
    }

    /// Variables, without secrets.
    pub async fn variables(&self, query: VariableQuery) -> Result<VariablePage, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let mut page = core.backend()?.variables(&query)?;
            page.variables.iter_mut().for_each(|variable| mask.variable(variable));
            Ok(page)
        })
        .await
    }

    /// The value of an expression, without secrets.
    pub async fn evaluate(&self, evaluation: Evaluation) -> Result<Variable, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let evaluated = core.backend()?.evaluate(&evaluation);
            let failed = |error: DebugError| {
                mask.failed_expression(&evaluation.expression, evaluation.allow_calls.is_some(), error.into())
            };
            let mut value = evaluated.map_err(failed)?;
            // The expression's own words are what the value is called.
            if value.name.is_empty() {
                value.name.clone_from(&evaluation.expression);
            }
            hide_secrets(core, &evaluation, &mut value)?;
            Ok(value)
        })
        .await
    }

    /// Who points to something.
    pub async fn pointers(&self, search: PointerSearch) -> Result<PointerPage, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let backend = core.backend()?;
            let engine = backend.target().engine;
            let data = backend.data_search().ok_or_else(|| failures::missing(engine, Missing::DataSearch))?;
            let failed = |error: DebugError| mask.failed_expression(&search.target, false, error.into());
            data.pointers(&search).map_err(failed)
        })
        .await
    }

    /// Elements of containers, lists and trees, without secrets.
    pub async fn find(&self, search: ElementSearch) -> Result<ElementPage, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let backend = core.backend()?;
            let engine = backend.target().engine;
            let data = backend.data_search().ok_or_else(|| failures::missing(engine, Missing::DataSearch))?;
            let failed = |error: DebugError| mask.failed_expression(&search.elements, false, error.into());
            let mut page = data.find(&search).map_err(failed)?;
            for element in &mut page.elements {
                let mut evaluation = Evaluation {
                    expression: element.expression.take().unwrap_or_default(),
                    frame: search.frame,
                    limits: ValueLimits { depth: 0, ..ValueLimits::default() },
                    format: NumberFormat::Auto,
                    may_write: false,
                    allow_calls: None,
                };
                let whole = evaluation.expression.clone();
                // The entry of a map may be a secret by its key.
                let key = element.key.as_ref().map_or("", |key| key.value.trim_matches('"')).to_owned();
                element.key.iter_mut().for_each(|key| mask.evaluated(&search.elements, key));
                for value in &mut element.values {
                    mask.evaluated(&key, value);
                    mask.evaluated(&search.elements, value);
                    mask.evaluated(&value.name.clone(), value);
                    if !whole.is_empty() {
                        evaluation.expression = match value.name.as_str() {
                            "it" => whole.clone(),
                            member => format!("{whole}.{member}"),
                        };
                        hide_secrets(core, &evaluation, value)?;
                    }
                }
                element.expression = (!whole.is_empty()).then_some(whole);
            }
            Ok(page)
        })
        .await
    }

    /// Bytes at an address, or at where the value of an expression points to or is.
    pub async fn memory(&self, place: MemoryPlace, size: usize) -> Result<MemoryBlock, Failure> {
        self.ask(Need::Standstill, move |core| {
            let mask = core.mask;
            let address = match place {
                MemoryPlace::Address(address) => address,
                MemoryPlace::Expression(expression, _) if mask.hides(&expression) => {
                    return Err(masked_memory(&expression));
                }
                MemoryPlace::Expression(expression, frame) => {
                    let evaluation = Evaluation {
                        expression,
                        frame,
                        limits: ValueLimits { depth: 0, ..ValueLimits::default() },
                        format: NumberFormat::Auto,
                        may_write: false,
                        allow_calls: None,
                    };
                    let failed = |error: DebugError| {
                        mask.failed_expression(&evaluation.expression, false, error.into())
                    };
                    let value = core.backend()?.evaluate(&evaluation).map_err(failed)?;
                    let pointer = value.value.split_whitespace().next().filter(|word| word.starts_with("0x"));
                    let pointer = pointer.and_then(|word| word.parse().ok());
                    pointer.or(value.address).ok_or_else(|| {
                        Failure::new(FailureKind::InvalidInput, "the expression has no address")
                            .hint("give an `address` such as `0x7ffe1000`, or `&expression`")
                    })?
                }
            };
            let backend = core.backend()?;
            let engine = backend.target().engine;
            let memory = backend.raw_memory().ok_or_else(|| failures::missing(engine, Missing::Memory))?;
            Ok(memory.read(address, size)?)
        })
        .await
    }

    /// Instructions around a place; around the current one where none is named.
    pub async fn disassemble(
        &self,
        place: Option<Place>,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, Failure> {
        let thread = self.looked_at(None)?;
        self.ask(Need::Standstill, move |core| {
            let backend = core.backend()?;
            let engine = backend.target().engine;
            let unseen = || failures::missing(engine, Missing::MachineCode);
            if backend.disassembly().is_none() {
                return Err(unseen());
            }
            let place = match place {
                Some(place) => place,
                None => {
                    let frame = backend.stack(thread, 1)?.frames.into_iter().next();
                    let address = frame.ok_or_else(failures::ended)?.location.address;
                    Place::Address(address.ok_or_else(unseen)?)
                }
            };
            let code = backend.disassembly().ok_or_else(unseen)?;
            Ok(code.disassemble(&place, before, count)?)
        })
        .await
    }

    /// Registers of a frame.
    pub async fn registers(&self, frame: FrameRef, set: RegisterSet) -> Result<Vec<Register>, Failure> {
        self.ask(Need::Standstill, move |core| {
            let backend = core.backend()?;
            let engine = backend.target().engine;
            let registers =
                backend.registers().ok_or_else(|| failures::missing(engine, Missing::Registers))?;
            Ok(registers.registers(frame, set)?)
        })
        .await
    }

    /// The threads: as they are while the program stands still, else as they last were.
    pub async fn threads(&self) -> Result<ThreadsView, Failure> {
        let standing = self.standing();
        let current = standing.scene.as_ref().map(|scene| scene.stop.thread);
        let (captured, stale) = match standing.threads {
            Some(captured) if standing.state == State::Running => (captured, true),
            _ => (self.ask(Need::Anything, super::worker::Core::capture_threads).await?, false),
        };
        // Between the question and the answer the program may have gone on.
        let stale = stale || self.standing.borrow().state == State::Running;
        Ok(ThreadsView { threads: captured.threads.clone(), current, stale, captured_at: captured.at })
    }

    /// The threads also after the program's end: those that were last seen, ended.
    pub async fn last_threads(&self) -> Result<ThreadsView, Failure> {
        let standing = self.standing();
        if standing.state != State::Exited || standing.fault.is_some() {
            return self.threads().await;
        }
        let current = standing.scene.as_ref().map(|scene| scene.stop.thread);
        let (threads, captured_at) = match (standing.threads, standing.target) {
            (Some(captured), _) => (captured.threads.clone(), captured.at),
            // It ended before anybody could look.
            (None, Some(target)) => (Vec::new(), target.since),
            (None, None) => return Err(self.why_ended()),
        };
        let threads = threads.into_iter().map(SeenThread::ended).collect();
        // Others may have begun and ended since.
        Ok(ThreadsView { threads, current, stale: true, captured_at })
    }

    /// What is loaded.
    pub async fn modules(&self) -> Result<Vec<Module>, Failure> {
        self.ask(Need::Anything, |core| Ok(core.backend()?.modules()?)).await
    }

    /// Adds a breakpoint, also while the program runs; after its end, for the way back and for the next start.
    pub async fn add_breakpoint(&self, mut trigger: Trigger) -> Result<Breakpoint, Failure> {
        self.mask().trigger(&mut trigger);
        if let Trigger::Code(CodeBreakpoint { count_only: true, count_by, .. }) = &trigger {
            self.check_counting(count_by.as_deref())?;
        }
        // An expression has a value only where there is something to look at.
        if matches!(&trigger, Trigger::Watch(watch) if matches!(watch.watched, Watched::Expression { .. })) {
            self.go_before_end().await?;
        }
        let memory =
            matches!(&trigger, Trigger::Watch(watch) if matches!(watch.watched, Watched::Memory { .. }));
        if memory {
            self.ask(Need::Session, |core| {
                let backend = core.backend()?;
                let engine = backend.target().engine;
                let seen = backend.raw_memory().is_some();
                if seen { Ok(()) } else { Err(failures::missing(engine, Missing::WatchedMemory)) }
            })
            .await?;
        }
        self.change(move |backend| backend.add_breakpoint(trigger)).await
    }

    /// Changes a breakpoint, also while the program runs and after its end.
    pub async fn change_breakpoint(
        &self,
        id: BreakpointId,
        mut change: BreakpointChange,
    ) -> Result<Breakpoint, Failure> {
        self.mask().change(&mut change);
        let mut changed = self.change(move |backend| backend.change_breakpoint(id, change)).await?;
        self.mask().counts(&mut changed);
        Ok(changed)
    }

    /// Whether hits can be counted without stopping, by this value.
    fn check_counting(&self, by: Option<&str>) -> Result<(), Failure> {
        let invalid = |what: String| Failure::new(FailureKind::InvalidInput, what);
        if self.engine() != Engine::Native {
            return Err(invalid("only native programs are counted without a stop".into())
                .hint("give `log_message` and `max_notifications` instead"));
        }
        match by.filter(|by| self.mask().hides(by)) {
            Some(by) => {
                Err(invalid(format!("the values of `{by}` are not shown")).hint("count by another value"))
            }
            None => Ok(()),
        }
    }

    /// Removes breakpoints, also while the program runs and after its end: one, or all. Returns those that are gone.
    pub async fn remove_breakpoints(&self, id: Option<BreakpointId>) -> Result<Vec<BreakpointId>, Failure> {
        self.change(move |backend| {
            let gone = match id {
                Some(id) => vec![id],
                None => backend.breakpoints()?.iter().map(|breakpoint| breakpoint.id).collect(),
            };
            gone.into_iter().map(|id| backend.remove_breakpoint(id).map(|()| id)).collect()
        })
        .await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(
            &mut dyn hindcast_core::debug::DebugBackend,
        ) -> Result<T, hindcast_core::debug::DebugError>
        + Send
        + 'static,
    ) -> Result<T, Failure> {
        self.ask(Need::Session, move |core| {
            let changed = change(core.backend()?);
            core.refresh_breakpoints();
            Ok(changed?)
        })
        .await
    }

    /// Writes to the program's input.
    pub async fn write_input(&self, text: String, eof: bool) -> Result<(), Failure> {
        self.ask(Need::Anything, move |core| Ok(core.backend()?.write_input(text.as_bytes(), eof)?)).await
    }

    /// The text of a source file that the symbols name, without secrets.
    pub async fn source(&self, path: &str) -> Result<String, Failure> {
        let found = self.named_source(path).await?;
        let text = match (found.text, found.path) {
            (Some(embedded), _) => Ok(Ok(embedded.to_string())),
            (None, Some(on_disk)) => tokio::task::spawn_blocking(move || source::whole_file(&on_disk)).await,
            (None, None) => Ok(Err(source::NotServed::Missing)),
        };
        match text {
            Ok(Ok(text)) => Ok(self.mask().text(&text).into_owned()),
            Ok(Err(reason)) => Err(not_served(self.engine(), path, reason)),
            Err(_) => Err(not_served(self.engine(), path, source::NotServed::Elsewhere)),
        }
    }

    /// Where a source file that the symbols name is on disk, if it may be served.
    pub async fn source_file(&self, path: &str) -> Result<PathBuf, Failure> {
        let found = self.named_source(path).await?;
        let on_disk =
            found.path.ok_or_else(|| not_served(self.engine(), path, source::NotServed::Missing))?;
        let (checked, sources) = (on_disk.clone(), self.sources.clone());
        let check = move || sources.check(&checked).and_then(|()| source::check(&checked));
        match tokio::task::spawn_blocking(check).await {
            Ok(Ok(())) => Ok(on_disk),
            Ok(Err(reason)) => Err(not_served(self.engine(), path, reason)),
            Err(_) => Err(not_served(self.engine(), path, source::NotServed::Elsewhere)),
        }
    }

    /// Where to read a source file that the symbols name.
    async fn named_source(&self, path: &str) -> Result<SourceFile, Failure> {
        let climbs = path.split('/').any(|part| part == ".." || part == ".");
        if climbs || path.contains('\0') {
            return Err(not_served(self.engine(), path, source::NotServed::Elsewhere));
        }
        let named = path.to_owned();
        // The symbols are known also after the program's end.
        let found = self.ask(Need::Session, move |core| {
            let found = core.backend()?.source_file(&named)?;
            Ok(found.ok_or(source::NotServed::Elsewhere).and_then(|found| core.sources.admit(found)))
        });
        found.await?.map_err(|reason| not_served(self.engine(), path, reason))
    }

    /// Names that begin with `prefix`; none where the session cannot tell.
    pub async fn complete(&self, kind: CompletionKind, prefix: &str) -> Vec<String> {
        let prefix = prefix.to_owned();
        let found = self.ask(Need::Anything, move |core| Ok(core.backend()?.complete(kind, &prefix, 100)?));
        found.await.unwrap_or_default()
    }

    /// The thread to look at, where the program has not ended.
    fn looked_at(&self, thread: Option<ThreadId>) -> Result<ThreadId, Failure> {
        self.check(Need::Standstill)?;
        self.thread(thread)
    }

    /// The breakpoints with their counts as they are now; as they last were once the program ended.
    pub async fn breakpoints(&self) -> Arc<Vec<Breakpoint>> {
        if self.standing.borrow().state == State::Running {
            // Where that fails, what was last known is the answer.
            let refreshed = self.ask(Need::Anything, |core| {
                core.refresh_breakpoints();
                Ok(())
            });
            let _ = refreshed.await;
        }
        self.standing.borrow().breakpoints.clone()
    }
}

/// In the words of the contract, which is about .NET; other programs have no PDB files.
fn masked_memory(expression: &str) -> Failure {
    let shown: String = expression.chars().take(80).collect();
    let details = format!("the memory of `{shown}` is masked, as its value is");
    Failure::new(FailureKind::InvalidInput, details)
        .hint("begin the session with `mask_secrets: false` to see it, or read other memory")
}

fn not_served(engine: Engine, path: &str, reason: source::NotServed) -> Failure {
    let shown: String = path.chars().take(400).collect();
    let (symbols, named_in) = match engine {
        Engine::Dotnet => ("PDB symbols", "PDB"),
        Engine::Native => ("debug information", "debug information"),
        Engine::Adapter => ("source", "the program"),
    };
    let (message, hint) = match reason {
        source::NotServed::Elsewhere => (
            format!("File path '{shown}' is not referenced in any loaded {symbols}"),
            "only source files that the program's debug information names are served, under exactly that path",
        ),
        source::NotServed::Missing => (
            format!("Source file '{shown}' referenced in {named_in} but not found on disk"),
            "debug on the machine that has the sources, or build again where they are now",
        ),
        source::NotServed::Outside => (
            format!("Source file '{shown}' is outside the folders that may be used"),
            "have the operator add its folder to `debug.allowed_folders`",
        ),
        source::NotServed::TooLong => (
            format!("Source file '{shown}' is longer than this server reads"),
            "the viewport of a stop shows the lines around it",
        ),
    };
    Failure::new(FailureKind::SourceNotServed, message).hint(hint)
}

/// Where bytes are.
#[derive(Debug, Clone)]
pub enum MemoryPlace {
    /// Here.
    Address(hindcast_core::debug::RuntimeAddr),
    /// Where this points to, or is.
    Expression(String, FrameRef),
}

/// Hides a value that is a secret by its expression, or because the whole that it is part of says so.
fn hide_secrets(core: &mut Core, evaluation: &Evaluation, value: &mut Variable) -> Result<(), Failure> {
    let mask = core.mask;
    mask.evaluated(&evaluation.expression, value);
    let Some((whole, part)) = mask.whole_of(&evaluation.expression) else { return Ok(()) };
    let whole = Evaluation {
        expression: whole.to_owned(),
        limits: ValueLimits { depth: 1, ..ValueLimits::default() },
        may_write: false,
        allow_calls: None,
        ..evaluation.clone()
    };
    // Where there is none, it tells nothing about its part.
    if let Ok(mut shown) = core.backend()?.evaluate(&whole) {
        mask.evaluated(&whole.expression, &mut shown);
        mask.part(part, &shown, value);
    }
    Ok(())
}
