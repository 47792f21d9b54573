//! The remains of a process: everything can be looked at, nothing moves.

mod notes;

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_core::debug::{
    Breakpoint, BreakpointChange, BreakpointId, CompletionKind, CoreRequest, DataSearch, DebugBackend,
    DebugError, Disassembly, ElementPage, ElementSearch, Ending, Engine, Evaluation, FrameRef, HowBegun,
    Instruction, Interrupt, MemoryBlock, Module, Movement, Outcome, Place, PointerPage, PointerSearch,
    RawMemory, Reason, Region, Register, RegisterSet, Registers, Remedy, RuntimeAddr, SourceFile, Stack,
    Stop, StopReason, Target, Thread, ThreadId, ThreadState, Trigger, Variable, VariablePage, VariableQuery,
};
use hindcast_symbols::{Memory, Symbols, Unreadable, open_plain, types::ModuleId};
use jiff::Timestamp;
use object::ReadCache;

use self::notes::{Notes, Segment};
use crate::{
    image::Image,
    look::{self, FrameScope, Ground, Scene, Stage, Standing, ThreadScene, Waits},
    session::signals,
    sys::Mapping,
};

/// A session with a core file.
pub(crate) struct CoreSession {
    target: Target,
    symbols: Symbols,
    image: Image,
    memory: CoreMemory,
    main: Option<ModuleId>,
    notes: Notes,
}

/// The memory of a core file. What was only mapped from files is read from those.
struct CoreMemory {
    core: File,
    /// In the order of their addresses.
    segments: Vec<Segment>,
    mappings: Vec<Mapping>,
    files: RefCell<HashMap<String, Option<File>>>,
}

impl CoreSession {
    pub(crate) fn open(request: &CoreRequest) -> Result<Self, DebugError> {
        let failed = |reason: String| {
            DebugError::BadFile(
                format!("cannot open the core file `{}`: {reason}", request.core.display()).into(),
            )
        };
        let core = File::open(&request.core).map_err(|error| failed(error.to_string()))?;
        let notes = Notes::read(&ReadCache::new(&core)).map_err(failed)?;
        let mut segments = notes.segments.clone();
        segments.sort_by_key(|segment| segment.address);
        let mut mappings = notes.mappings.clone();
        let named = name_program(&mut mappings, &notes.name, request.program.as_deref());
        let memory = CoreMemory { core, segments, mappings, files: RefCell::default() };
        let mut symbols = Symbols::new();
        let mut image = Image::default();
        image.update(&memory.mappings, &memory, &mut symbols);
        let main = named.as_ref().and_then(|program| {
            image.iter().find(|loaded| Path::new(&loaded.path) == program).map(|loaded| loaded.module)
        });
        let executable = named.map_or_else(String::new, |program| program.to_string_lossy().into_owned());
        let target = Target {
            engine: Engine::Native,
            pid: notes.threads.first().map(|(pid, _)| *pid),
            name: notes.name.clone(),
            executable,
            args: notes.arguments.split_whitespace().skip(1).map(str::to_owned).collect(),
            cwd: String::new(),
            how: HowBegun::Core,
            since: Timestamp::now(),
            runtime: symbols.producer(),
            followed: None,
        };
        Ok(Self { target, symbols, image, memory, main, notes })
    }

    fn thread(&self, thread: ThreadId) -> Result<&ThreadScene, DebugError> {
        let found = self.notes.threads.iter().find(|(tid, _)| *tid == thread.0);
        found.map(|(_, scene)| scene).ok_or(DebugError::NoSuchThread(thread))
    }

    /// The one that died, or the first one.
    fn first_thread(&self) -> ThreadId {
        ThreadId(self.notes.threads.first().map_or(0, |(tid, _)| *tid))
    }

    fn scene(&self) -> Scene<'_> {
        Scene { symbols: &self.symbols, image: &self.image, memory: &self.memory, main: self.main }
    }

    fn with_scope<T>(
        &self,
        frame: FrameRef,
        look: impl FnOnce(&FrameScope<'_>) -> T,
    ) -> Result<T, DebugError> {
        let thread = self.thread(frame.thread)?;
        FrameScope::enter(&self.scene(), thread, frame.index).map(|scope| look(&scope))
    }

    fn first_stop(&self) -> Stop {
        let mut stop = Stop {
            // Without a signal the core is of a program that was under way, as `gcore` writes it.
            reason: StopReason::Pause,
            detail: None,
            thread: self.first_thread(),
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        };
        if let (Some(signal), Ok(thread)) = (self.notes.signal, self.thread(stop.thread)) {
            stop.reason = StopReason::Signal;
            let mappings = &self.memory.mappings;
            self.scene().tell_signal(&mut stop, signals::describe(signal), &thread.registers, mappings);
        }
        let told = stop.detail.take().into_iter().chain(self.image.complaint());
        stop.detail = Some(told.collect::<Vec<_>>().join("; ")).filter(|told| !told.is_empty());
        stop
    }
}

/// The executable: what was asked for, or the mapped file that has the name of the process. Where
/// the one that was asked for lies elsewhere by now, its mappings get its new name.
fn name_program(mappings: &mut [Mapping], name: &str, given: Option<&Path>) -> Option<PathBuf> {
    let mapped = mappings
        .iter()
        .map(|mapping| mapping.name.clone())
        // The system cuts names at 15 bytes.
        .find(|path| !name.is_empty() && look::file_name(path).starts_with(name));
    let Some(given) = given else { return mapped.map(PathBuf::from) };
    let given = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    let new_name = given.to_string_lossy().into_owned();
    let file_name = look::file_name(&new_name);
    let old_name = mappings
        .iter()
        .map(|mapping| mapping.name.clone())
        .find(|path| look::file_name(path) == file_name)
        .or(mapped);
    if let Some(old_name) = old_name {
        for mapping in mappings.iter_mut().filter(|mapping| mapping.name == old_name) {
            mapping.name.clone_from(&new_name);
        }
    }
    Some(given)
}

impl CoreMemory {
    /// Reads up to the end of the segment or file; how much.
    fn read_piece(&self, address: u64, buffer: &mut [u8]) -> usize {
        let after = self.segments.partition_point(|segment| segment.address <= address);
        if let Some(segment) = after.checked_sub(1).and_then(|index| self.segments.get(index)) {
            let within = address - segment.address;
            if within < segment.length {
                let room = usize::try_from(segment.length - within).unwrap_or(usize::MAX).min(buffer.len());
                let offset = segment.offset.saturating_add(within);
                return self.core.read_at(&mut buffer[..room], offset).unwrap_or(0);
            }
        }
        let Some(mapping) =
            self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
        else {
            return 0;
        };
        let room = usize::try_from(mapping.end - address).unwrap_or(usize::MAX).min(buffer.len());
        if !mapping.name.starts_with('/') || mapping.permissions.contains('w') {
            // What the core leaves out of writable memory was never touched.
            return 0;
        }
        let mut files = self.files.borrow_mut();
        let file =
            files.entry(mapping.name.clone()).or_insert_with(|| open_plain(mapping.name.as_ref()).ok());
        let offset = mapping.offset.saturating_add(address - mapping.start);
        file.as_ref().and_then(|file| file.read_at(&mut buffer[..room], offset).ok()).unwrap_or(0)
    }

    fn read_some(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_piece(address.wrapping_add(done as u64), &mut buffer[done..]) {
                0 => break,
                count => done += count,
            }
        }
        done
    }
}

impl Memory for CoreMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        match self.read_some(address, buffer) {
            all if all == buffer.len() => Ok(()),
            some => Err(Unreadable(address.wrapping_add(some as u64))),
        }
    }
}

fn does_not_move<T>() -> Result<T, DebugError> {
    let reason = Reason::new("this is a core file: the program is dead and does not move");
    Err(DebugError::Unsupported(reason.remedy(Remedy::Autopsy).remedy(Remedy::Launch)))
}

struct NothingMoves;

impl Interrupt for NothingMoves {
    fn interrupt(&self) {}
}

impl DebugBackend for CoreSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::new(NothingMoves)
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        match movement {
            Movement::Begin => Ok(Outcome::Stopped(self.first_stop())),
            _ => does_not_move(),
        }
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        Ok(self.first_stop())
    }

    fn end(&mut self, _: Ending) -> Result<(), DebugError> {
        Ok(())
    }

    fn write_input(&mut self, _: &[u8], _: bool) -> Result<(), DebugError> {
        does_not_move()
    }

    fn add_breakpoint(&mut self, _: Trigger) -> Result<Breakpoint, DebugError> {
        does_not_move()
    }

    fn change_breakpoint(&mut self, id: BreakpointId, _: BreakpointChange) -> Result<Breakpoint, DebugError> {
        Err(DebugError::NoSuchBreakpoint(id))
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        Err(DebugError::NoSuchBreakpoint(id))
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        Ok(Vec::new())
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        let tell = |(tid, thread): &(u32, ThreadScene)| Thread {
            id: ThreadId(*tid),
            name: self.notes.name.clone(),
            state: ThreadState::Suspended,
            location: look::known_location(&self.scene(), &thread.registers),
            waits_for: None,
            wait: None,
        };
        let mut threads: Vec<_> = self.notes.threads.iter().map(tell).collect();
        let standing = |(tid, thread): &(u32, ThreadScene)| Standing {
            id: ThreadId(*tid),
            registers: thread.registers,
            stage: Stage::Dead,
        };
        let standing: Vec<_> = self.notes.threads.iter().map(standing).collect();
        let scene = self.scene();
        let waits = Waits::new(&scene, &standing, None);
        for (thread, standing) in threads.iter_mut().zip(&standing) {
            thread.wait = waits.of(standing);
        }
        look::put_into_words(&mut threads);
        Ok(threads)
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        let registers = self.thread(thread)?.registers;
        let scene = self.scene();
        let walk = look::walk(&scene, &registers, 0, max_frames.max(1) as usize);
        Ok(Stack { thread, frames: walk.frames(&scene), more: walk.more, broken: walk.broken })
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        self.with_scope(query.frame, |scope| look::variables(scope, query))
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        let evaluated = self.with_scope(evaluation.frame, |scope| look::evaluate(scope, evaluation))??;
        if evaluated.write.is_some() { does_not_move() } else { Ok(evaluated.shown) }
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        Ok(look::modules(&self.image, &self.symbols))
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        Ok(look::source_file(&self.symbols, path).map(SourceFile::on_disk))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        let frame = FrameRef::of(self.first_thread(), 0);
        Ok(match kind {
            CompletionKind::Variable => {
                self.with_scope(frame, |scope| scope.names_with(prefix, limit)).unwrap_or_default()
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

    fn data_search(&mut self) -> Option<&mut dyn DataSearch> {
        Some(self)
    }

    fn disassembly(&mut self) -> Option<&mut dyn Disassembly> {
        Some(self)
    }
}

impl RawMemory for CoreSession {
    fn read(&mut self, address: RuntimeAddr, size: usize) -> Result<MemoryBlock, DebugError> {
        let mut bytes = vec![0; size];
        let count = self.memory.read_some(address.0, &mut bytes);
        if count == 0 && size > 0 {
            return Err(DebugError::Unreadable(address));
        }
        bytes.truncate(count);
        Ok(MemoryBlock { address, bytes })
    }

    fn regions_around(&mut self, address: RuntimeAddr) -> Result<Vec<Region>, DebugError> {
        Ok(look::regions_around(&self.memory.mappings, address.0))
    }
}

impl DataSearch for CoreSession {
    fn find(&mut self, search: &ElementSearch) -> Result<ElementPage, DebugError> {
        self.with_scope(search.frame, |scope| look::find(scope, search))?
    }

    fn pointers(&mut self, search: &PointerSearch) -> Result<PointerPage, DebugError> {
        let target = self.with_scope(search.frame, |scope| look::pointed_to(scope, &search.target))??;
        let threads: Vec<_> = self.notes.threads.iter().map(|(tid, scene)| (ThreadId(*tid), scene)).collect();
        let read = |address: u64, buffer: &mut [u8]| self.memory.read_some(address, buffer);
        let scene = self.scene();
        let ground =
            Ground { scene: &scene, mappings: &self.memory.mappings, threads: &threads, read: &read };
        Ok(look::pointers(&ground, target, search))
    }
}

impl Registers for CoreSession {
    fn registers(&mut self, frame: FrameRef, set: RegisterSet) -> Result<Vec<Register>, DebugError> {
        self.with_scope(frame, |scope| look::registers(scope, set))
    }
}

impl Disassembly for CoreSession {
    fn disassemble(
        &mut self,
        place: &Place,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, DebugError> {
        let current = self.notes.threads.first().map(|(_, thread)| thread.registers.pc());
        let start = look::code_start(&self.symbols, place)?;
        look::disassemble(&self.scene(), start, before, count, current)
    }
}
