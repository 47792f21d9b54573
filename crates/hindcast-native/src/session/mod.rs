//! A live debug session: a traced process seen through its symbols.

mod access;
mod archive;
mod awaited;
mod breakpoints;
mod calls;
mod chronicle;
mod exceptions;
mod following;
mod halted;
mod heap;
mod hidden;
mod hits;
mod judge;
mod landing;
mod late;
mod launch;
mod movement;
mod percents;
mod pieces;
mod places;
mod python;
mod recording;
mod scribe;
pub(crate) mod signals;
mod step;
mod travel;
mod watch;
mod way;
mod what_if;
mod when;
mod writes;

use std::{cell::RefCell, collections::HashMap, path::PathBuf, sync::Arc};

use hindcast_core::debug::{
    Breakpoint, BreakpointChange, BreakpointId, Claim, CompletionKind, DataSearch, DebugBackend, DebugError,
    Disassembly, ElementPage, ElementSearch, Ending, Evaluation, FrameRef, Happening, Instruction, Interrupt,
    MemoryBlock, Module, Movement, Outcome, OutputLog, Place, PointerPage, PointerSearch, RawMemory, Reason,
    Region, Register, RegisterSet, Registers, Remedy, RuntimeAddr, SourceFile, Stack, Stop, StopAtEntry,
    StopReason, Target, Thread, ThreadId, ThreadState, TimeTravel, Trigger, Variable, VariablePage,
    VariableQuery, View,
};
use hindcast_symbols::{
    Symbols,
    types::{ModuleId, TypeRef, Types},
};

pub(crate) use self::travel::function_around;
use hindcast_streams::{InputRefused, Pump};

use self::{breakpoints::Breakpoints, movement::Plan};
use crate::{
    debuggee::Debuggee,
    image::Image,
    look::{self, FrameScope, Ground, Scene, Standing, ThreadScene, Waits, Walk, Write},
    sys::{self, Mapping, Tid, TraceError},
};

/// A live session.
pub(crate) struct Session {
    target: Target,
    /// That no other engine attaches meanwhile.
    claim: Option<Claim>,
    process: Debuggee,
    /// Whether it begins behind a `fork`.
    is_forked: bool,
    /// Where the recording is to begin, where that is later.
    start: Option<late::Start>,
    /// The program that is waited for, where another one was launched.
    search: Option<following::Search>,
    symbols: Symbols,
    image: Image,
    mappings: Vec<Mapping>,
    /// The executable.
    main: Option<ModuleId>,
    /// Where the dynamic linker tells that it loaded something.
    library_event: Option<u64>,
    /// Where every Rust panic passes by.
    panic_event: Option<u64>,
    breakpoints: Breakpoints,
    /// The movement that an interruption cut short.
    plan: Option<Plan>,
    /// The thread that the last stop was about.
    current: Tid,
    /// How many inlined calls begin right where that thread stands, without having been stepped into.
    hidden: usize,
    percents: percents::Percents,
    pump: Option<Pump>,
    log: Arc<OutputLog>,
    entry: StopAtEntry,
    /// Which source files are on this machine, as far as that was asked.
    source_exists: RefCell<HashMap<Arc<str>, bool>>,
    /// Which paths the symbols name, as far as that was asked: the same few are asked at every stop.
    named_sources: HashMap<String, Option<PathBuf>>,
    /// Why there is no history.
    unrecorded: Option<String>,
    /// What was seen to happen, as far as it has a moment.
    happenings: Vec<Happening>,
    /// Why the live program last stopped.
    live_stop: Option<Stop>,
    /// Questions about the past that were interrupted.
    chase: Option<writes::Chase>,
    chronicle: Option<chronicle::Chronicle>,
    inquiry: Option<when::Inquiry>,
    tracing: Option<calls::Tracing>,
    experiment: Option<Box<what_if::Experiment>>,
    /// The way that the last comparison asked about.
    way: Option<Box<way::Way>>,
    /// Where the history ended and why, where the program went on.
    history_end: Option<String>,
    /// How often breakpoints were hit, up to a moment.
    tally: Option<judge::Tally>,
    /// The Python in the program.
    interpreter: python::Interpreter,
    /// A Python value that is followed back, where that was interrupted.
    trail: Option<python::Trail>,
    /// The Python exception that ended the program, once it was looked for.
    uncaught: Option<Option<python::Uncaught>>,
    /// Where it is told where exceptions and jumps land, once that was asked.
    tellers: Option<Vec<landing::Teller>>,
}

/// The system failed, or the program died under our hands.
pub(super) fn system(error: TraceError) -> DebugError {
    match error {
        TraceError::Gone => DebugError::Ended,
        TraceError::Diverged(_) => {
            let what = format!("{error}; nothing is shown that is not sure");
            DebugError::NoHistory(Reason::new(what).remedy(Remedy::GoToPresent))
        }
        TraceError::RecordingEnds => {
            let reason = Reason::new("the recording ends here: what came after is in no file");
            DebugError::NoHistory(reason.remedy(Remedy::GoBack).remedy(Remedy::Launch))
        }
        TraceError::OffStage(_) => {
            let reason = Reason::new(error.to_string());
            DebugError::Unsupported(reason.advise("step that thread by one instruction, and then change it"))
        }
        error => DebugError::System(error.to_string().into()),
    }
}

impl Session {
    fn known_thread(&self, thread: ThreadId) -> Result<Tid, DebugError> {
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        let tid = i32::try_from(thread.0).map(Tid).map_err(|_| DebugError::NoSuchThread(thread))?;
        if self.process.has_thread(tid) { Ok(tid) } else { Err(DebugError::NoSuchThread(thread)) }
    }

    fn thread_scene(&self, tid: Tid) -> Result<ThreadScene, DebugError> {
        Ok(ThreadScene {
            registers: self.process.registers(tid).map_err(system)?,
            vectors: self.process.vector_registers(tid).ok(),
            hidden: self.hidden_of(tid),
        })
    }

    /// Knows the program's code.
    fn scribe(&self) -> scribe::Scribe<'_> {
        scribe::Scribe::new(&self.symbols, &self.image, self.main)
    }

    /// Looks at the program through its symbols.
    fn with_scene<T>(&self, look: impl FnOnce(&Scene<'_>) -> T) -> T {
        let memory = self.process.memory();
        look(&Scene { symbols: &self.symbols, image: &self.image, memory: &memory, main: self.main })
    }

    /// Looks at the names that a frame of `tid` sees.
    fn with_scope<T>(
        &self,
        tid: Tid,
        frame: u32,
        look: impl FnOnce(&FrameScope<'_>) -> T,
    ) -> Result<T, DebugError> {
        let thread = self.thread_scene(tid)?;
        self.with_scene(|scene| FrameScope::enter(scene, &thread, frame).map(|scope| look(&scope)))
    }

    /// The frames that the machine has.
    fn native_stack(&mut self, thread: ThreadId, tid: Tid, max_frames: u32) -> Result<Stack, DebugError> {
        let walk = self.walk(tid, max_frames)?;
        let frames = self.with_scene(|scene| walk.frames(scene));
        Ok(Stack { thread, frames, more: walk.more, broken: walk.broken })
    }

    fn walk(&self, tid: Tid, frames: u32) -> Result<Walk, DebugError> {
        let registers = self.process.registers(tid).map_err(system)?;
        Ok(self
            .with_scene(|scene| look::walk(scene, &registers, self.hidden_of(tid), frames.max(1) as usize)))
    }

    /// How many inlined calls the user has not stepped into, though their code begins right here.
    fn hidden_of(&self, tid: Tid) -> usize {
        if tid == self.current { self.hidden } else { 0 }
    }

    fn size_of(&self, type_ref: TypeRef) -> Option<u64> {
        self.symbols.get(type_ref)?.size
    }

    fn thread(&self, tid: Tid) -> Thread {
        let registers = self.process.registers(tid).ok();
        let location =
            registers.and_then(|registers| self.with_scene(|scene| look::known_location(scene, &registers)));
        Thread {
            id: movement::thread_id(tid),
            name: self.process.thread_name(tid).unwrap_or_default(),
            state: ThreadState::Suspended,
            location,
            waits_for: None,
            wait: None,
        }
    }

    /// Says what the threads wait for.
    fn tell_waits(&self, tids: &[Tid], threads: &mut [Thread]) {
        let standing = |&tid: &Tid| {
            let registers = self.process.registers(tid).ok()?;
            Some(Standing { id: movement::thread_id(tid), registers, stage: self.process.stage(tid) })
        };
        let standing: Vec<_> = tids.iter().filter_map(standing).collect();
        let process = (!self.process.is_fixed()).then(|| self.process.system_pid());
        self.with_scene(|scene| {
            let waits = Waits::new(scene, &standing, process);
            for thread in threads.iter_mut() {
                let stands = standing.iter().find(|standing| standing.id == thread.id);
                thread.wait = stands.and_then(|standing| waits.of(standing));
            }
        });
        look::put_into_words(threads);
    }

    /// The heap and the stacks grow without any event, so the mappings are read again.
    fn mappings_now(&self) -> Vec<Mapping> {
        sys::mappings(self.process.system_pid()).unwrap_or_default()
    }

    /// Carries out an assignment.
    fn write(&mut self, tid: Tid, write: &Write) -> Result<(), DebugError> {
        if self.process.is_fixed() && !self.process.is_in_past() {
            let reason = Reason::new("a recording cannot be changed").remedy(Remedy::Launch);
            return Err(DebugError::Unsupported(reason));
        }
        if self.process.is_in_past() {
            let reason = Reason::new("the past cannot be changed").remedy(Remedy::GoToPresent);
            return Err(DebugError::NoHistory(reason));
        }
        match write {
            Write::Memory { address, bytes } => self
                .process
                .write(*address, bytes)
                .map_err(|_| DebugError::Expression(format!("cannot write memory at {address:#x}").into())),
            Write::Register { name, offset, bytes } => self.write_register(tid, name, *offset, bytes),
        }
    }

    fn write_register(&mut self, tid: Tid, name: &str, offset: u64, bytes: &[u8]) -> Result<(), DebugError> {
        let refused = || DebugError::Expression(format!("`{name}` cannot be written").into());
        if let Some(number) = name.strip_prefix("xmm").and_then(|digits| digits.parse().ok()) {
            let mut vectors = self.process.vector_registers(tid).map_err(system)?;
            if offset != 0 || !vectors.set_xmm(number, bytes) {
                return Err(refused());
            }
            return self.process.set_vector_registers(tid, &vectors).map_err(system);
        }
        let mut registers = self.process.registers(tid).map_err(system)?;
        let mut wide = registers.get(name).ok_or_else(refused)?.to_le_bytes();
        let from = offset as usize;
        wide.get_mut(from..from + bytes.len()).ok_or_else(refused)?.copy_from_slice(bytes);
        registers.set(name, u64::from_le_bytes(wide));
        self.process.set_registers(tid, &registers).map_err(system)
    }
}

impl DebugBackend for Session {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.process.interrupt()
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.moved(movement)
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        self.abandon();
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        let current =
            if self.process.has_thread(self.current) { self.current } else { self.process.first_thread() };
        self.current = current;
        if let Some(stop) = self.approach_pause()? {
            return Ok(stop);
        }
        Ok(self.stop_at(current, StopReason::Pause))
    }

    fn ended_meanwhile(&mut self) -> Result<Option<Stop>, DebugError> {
        let Some(ended) = self.process.notice_death() else { return Ok(None) };
        self.abandon();
        let stop = self.end_stop(ended);
        Ok(Some(self.stopped_with(stop)))
    }

    fn end(&mut self, how: Ending) -> Result<(), DebugError> {
        self.abandon();
        match how {
            Ending::Terminate => self.process.terminate(),
            Ending::Detach => {
                self.process.detach();
                if let Some(pump) = self.pump.take() {
                    // It goes on in any case; without a reader, to what it prints next.
                    let _ = pump.leave();
                }
            }
        }
        self.claim = None;
        Ok(())
    }

    fn write_input(&mut self, text: &[u8], eof: bool) -> Result<(), DebugError> {
        let Some(pump) = &self.pump else {
            return Err(DebugError::Unsupported(
                Reason::new("the program's input is not ours").advise("write to where it reads from"),
            ));
        };
        pump.write_input(text, eof).map_err(|refused| {
            DebugError::Unsupported(match refused {
                InputRefused::TooMuch(waiting) => {
                    Reason::new(format!("{waiting} bytes of input already wait for the program to read them"))
                        .advise("let it run first")
                }
                InputRefused::Ended => Reason::new(
                    "the program's input has ended: `eof` ended it, `stdin` gave all of it at the launch, or the program \
                     closed it",
                )
                .advise("launch it again without `stdin`"),
            })
        })
    }

    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        self.added(trigger)
    }

    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        self.changed(id, change)
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.removed(id)
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        Ok(self.breakpoints.all())
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        let tids = self.process.threads();
        let mut threads: Vec<_> = tids.iter().map(|&tid| self.thread(tid)).collect();
        self.tell_waits(&tids, &mut threads);
        Ok(threads)
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        self.stack_in(View::Auto, thread, max_frames)
    }

    fn stack_in(&mut self, view: View, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        let tid = self.known_thread(thread)?;
        match self.python_stack(view, thread, tid, max_frames)? {
            Some(stack) => Ok(stack),
            None => self.native_stack(thread, tid, max_frames),
        }
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        let tid = self.known_thread(query.frame.thread)?;
        if let Some(page) = self.python_variables(tid, query)? {
            return Ok(page);
        }
        self.with_scope(tid, query.frame.index, |scope| look::variables(scope, query))
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        let tid = self.known_thread(evaluation.frame.thread)?;
        if let Some(value) = self.python_evaluate(tid, evaluation)? {
            return Ok(value);
        }
        let evaluated =
            self.with_scope(tid, evaluation.frame.index, |scope| look::evaluate(scope, evaluation))??;
        if let Some(write) = evaluated.write {
            self.write(tid, &write)?;
        }
        Ok(evaluated.shown)
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        Ok(look::modules(&self.image, &self.symbols))
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        let symbols = &self.symbols;
        let known =
            self.named_sources.entry(path.to_owned()).or_insert_with(|| look::source_file(symbols, path));
        let script = || self.interpreter.has_script(path).then(|| PathBuf::from(path));
        Ok(known.clone().or_else(script).map(SourceFile::on_disk))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        Ok(match kind {
            CompletionKind::Variable => {
                self.with_scope(self.current, 0, |scope| scope.names_with(prefix, limit)).unwrap_or_default()
            }
            kind => look::complete(&self.symbols, kind, prefix, limit),
        })
    }

    fn raw_memory(&mut self) -> Option<&mut dyn RawMemory> {
        Some(self)
    }

    fn registers(&mut self) -> Option<&mut dyn Registers> {
        Some(self)
    }

    fn time_travel(&mut self) -> Option<&mut dyn TimeTravel> {
        Some(self)
    }

    fn data_search(&mut self) -> Option<&mut dyn DataSearch> {
        Some(self)
    }

    fn disassembly(&mut self) -> Option<&mut dyn Disassembly> {
        Some(self)
    }
}

impl RawMemory for Session {
    fn read(&mut self, address: RuntimeAddr, size: usize) -> Result<MemoryBlock, DebugError> {
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        let mut bytes = vec![0; size];
        let count = self.process.memory().read_some(address.0, &mut bytes);
        if count == 0 && size > 0 {
            return Err(DebugError::Unreadable(address));
        }
        bytes.truncate(count);
        Ok(MemoryBlock { address, bytes })
    }

    fn regions_around(&mut self, address: RuntimeAddr) -> Result<Vec<Region>, DebugError> {
        // The heap and the stacks grow without any event.
        self.mappings = sys::mappings(self.process.system_pid()).map_err(|_| DebugError::Ended)?;
        Ok(look::regions_around(&self.mappings, address.0))
    }
}

impl DataSearch for Session {
    fn find(&mut self, search: &ElementSearch) -> Result<ElementPage, DebugError> {
        self.refuse_in_python(search.frame, "elements cannot be searched")?;
        let tid = self.known_thread(search.frame.thread)?;
        self.with_scope(tid, search.frame.index, |scope| look::find(scope, search))?
    }

    fn pointers(&mut self, search: &PointerSearch) -> Result<PointerPage, DebugError> {
        let tid = self.known_thread(search.frame.thread)?;
        let target =
            self.with_scope(tid, search.frame.index, |scope| look::pointed_to(scope, &search.target))??;
        let threads = self.process.threads().into_iter();
        let threads = threads.map(|tid| Ok((movement::thread_id(tid), self.thread_scene(tid)?)));
        let threads = threads.collect::<Result<Vec<_>, DebugError>>()?;
        let threads: Vec<_> = threads.iter().map(|(id, scene)| (*id, scene)).collect();
        let (mappings, memory) = (self.mappings_now(), self.process.memory());
        let read = |address: u64, buffer: &mut [u8]| memory.read_some(address, buffer);
        Ok(self.with_scene(|scene| {
            let ground = Ground { scene, mappings: &mappings, threads: &threads, read: &read };
            look::pointers(&ground, target, search)
        }))
    }
}

impl Registers for Session {
    fn registers(&mut self, frame: FrameRef, set: RegisterSet) -> Result<Vec<Register>, DebugError> {
        let tid = self.known_thread(frame.thread)?;
        self.with_scope(tid, frame.index, |scope| look::registers(scope, set))
    }
}

impl Disassembly for Session {
    fn disassemble(
        &mut self,
        place: &Place,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, DebugError> {
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        let current = self.process.registers(self.current).map(|registers| registers.pc()).ok();
        let start = match place {
            Place::Statement { .. } => {
                let resolved = self.resolve(place);
                let note = resolved.note.unwrap_or_else(|| Reason::new("there is no such statement"));
                let first = resolved.targets.first().and_then(|target| target.address);
                first.ok_or(DebugError::Expression(note))?.0
            }
            place => look::code_start(&self.symbols, place)?,
        };
        self.with_scene(|scene| look::disassemble(scene, start, before, count, current))
    }
}
