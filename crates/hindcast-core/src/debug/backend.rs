//! The seam between what the product does and the engines that do it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AttachRequest, Breakpoint, BreakpointChange, BreakpointId, Capability, CompletionKind, Confinement,
    CoreRequest, DebugError, ElementPage, ElementSearch, Evaluation, FrameRef, Instruction, LaunchRequest,
    Layer, MemoryBlock, Module, Movement, Outcome, Place, PointerPage, PointerSearch, Reason, Region,
    Register, RegisterSet, RuntimeAddr, SourceFile, Stack, Stop, Target, Thread, ThreadId, TimeTravel,
    TraceFileRequest, Trigger, Variable, VariablePage, VariableQuery, View,
};

/// Begins sessions. Called on the thread that will own the session; [`Movement::Begin`] then takes
/// it to its first stop.
pub trait DebugEngine: Send + Sync {
    /// What this machine allows, found out by trying.
    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    /// Starts a program; it stands at its very first instruction.
    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError>;

    /// Takes hold of a running process and stops it.
    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError>;

    /// Opens the remains of a process.
    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError>;

    /// Opens a recording that [`TimeTravel::export`] wrote in the binary form. It stands where that
    /// ends, and does not go on from there; all of [`TimeTravel`] works.
    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Err(DebugError::Unsupported(
            Reason::new(format!("this engine cannot go back in `{}`", request.trace.display()))
                .advise("`hindcast replay` lists what is in it"),
        ))
    }

    /// What keeps the programs of its sessions in.
    fn layers(&self) -> Result<Vec<Layer>, DebugError> {
        Ok(Vec::new())
    }

    /// The same engine for a tenant whose programs are kept from everybody else; none where it cannot do that.
    fn confined(&self, confinement: Confinement) -> Option<Arc<dyn DebugEngine>> {
        drop(confinement);
        None
    }
}

/// One debug session. All calls come from the thread that began it, because the system binds a
/// debuggee to the thread that traces it; only an [`Interrupt`] may be used from elsewhere.
///
/// Between two calls of [`run`](Self::run) everything stands still. Dropping it ends what was
/// launched and lets go of what was attached to.
pub trait DebugBackend {
    /// What the session is about.
    fn target(&self) -> &Target;

    /// A handle that ends a [`run`](Self::run) early.
    fn interrupt(&self) -> Arc<dyn Interrupt>;

    /// Moves, and returns when that is over.
    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError>;

    /// Makes the stop of an interrupted movement a real one, which is then not resumed.
    fn pause(&mut self) -> Result<Stop, DebugError>;

    /// Whether the program has ended while it stood still, because somebody else killed it: the stop that tells so.
    /// Told once; costs little.
    fn ended_meanwhile(&mut self) -> Result<Option<Stop>, DebugError> {
        Ok(None)
    }

    /// Ends the session.
    fn end(&mut self, how: Ending) -> Result<(), DebugError>;

    /// Sends text to the program's input, and then its end if `eof`. Does not wait for the program.
    fn write_input(&mut self, text: &[u8], eof: bool) -> Result<(), DebugError>;

    /// Adds a breakpoint. What cannot bind yet is pending; what never can is an error.
    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError>;

    /// Changes a breakpoint.
    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError>;

    /// Removes a breakpoint.
    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError>;

    /// All breakpoints, in the order of their ids.
    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError>;

    /// All threads.
    fn threads(&mut self) -> Result<Vec<Thread>, DebugError>;

    /// The inner `max_frames` frames of a thread.
    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError>;

    /// The same of one of several stacks that a thread may have: its interpreter's, and that of the program it runs.
    fn stack_in(&mut self, view: View, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        let _ = view;
        self.stack(thread, max_frames)
    }

    /// The variables of a frame.
    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError>;

    /// Computes an expression. Runs code of the program only where [`Evaluation::allow_calls`] says so.
    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError>;

    /// What is loaded.
    fn modules(&mut self) -> Result<Vec<Module>, DebugError>;

    /// Where to read a source file that the symbols name; `None` where they do not name it.
    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError>;

    /// Names that begin with `prefix`, at most `limit`.
    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError>;

    /// Has `tell` called with the reason, from any thread, when the engine is lost in the middle of the
    /// session; at once where it is lost already. After that every call fails with [`DebugError::Lost`].
    /// An engine in this process is never lost.
    fn when_lost(&mut self, tell: TellLoss) {
        drop(tell);
    }

    /// What keeps the program in; empty where nothing does.
    fn layers(&self) -> &[Layer] {
        &[]
    }

    /// Bytes, where the engine sees them.
    fn raw_memory(&mut self) -> Option<&mut dyn RawMemory> {
        None
    }

    /// Registers, where the engine sees them.
    fn registers(&mut self) -> Option<&mut dyn Registers> {
        None
    }

    /// The past, where the engine records it.
    fn time_travel(&mut self) -> Option<&mut dyn TimeTravel> {
        None
    }

    /// A search in the program's data, where the engine has one.
    fn data_search(&mut self) -> Option<&mut dyn DataSearch> {
        None
    }

    /// Machine code, where the engine sees it.
    fn disassembly(&mut self) -> Option<&mut dyn Disassembly> {
        None
    }
}

/// Is told why an engine was lost.
pub type TellLoss = Box<dyn FnOnce(&Loss) + Send>;

/// How an engine was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What happened.
    pub why: String,
    /// Whether the program ended before. Otherwise one that was attached to runs on.
    pub program_ended: bool,
}

impl Loss {
    /// While the program was there.
    pub fn of_engine(why: impl Into<String>) -> Self {
        Self { why: why.into(), program_ended: false }
    }
}

/// Ends a movement early, from any thread and at any time.
///
/// An interrupt is remembered until something has ended for it, so that none is lost, whenever it comes: one that comes
/// before a [`DebugBackend::run`] makes that return [`Outcome::Interrupted`] before anything moves, and
/// [`Movement::Resume`] then carries it out. One that comes too late does the same to the next `run`, so a caller that
/// finds nothing to do after `Interrupted` resumes.
pub trait Interrupt: Send + Sync {
    /// Makes [`DebugBackend::run`] return soon, with [`Outcome::Interrupted`] unless something
    /// else stopped it at the same time. The same goes for [`TimeTravel::ask`].
    fn interrupt(&self);

    /// Does away with an engine that does not answer any more, and so loses it; false where that cannot
    /// be done, because it is in this process.
    fn abandon(&self) -> bool {
        false
    }
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The program is killed, with all that it started under us.
    Terminate,
    /// The program goes on without us.
    Detach,
}

/// Bytes.
pub trait RawMemory {
    /// Reads up to `size` bytes; fewer where the mapping ends, an error where none can be read.
    fn read(&mut self, address: RuntimeAddr, size: usize) -> Result<MemoryBlock, DebugError>;

    /// The mapping that contains `address`, or the nearest ones below and above.
    fn regions_around(&mut self, address: RuntimeAddr) -> Result<Vec<Region>, DebugError>;
}

/// Registers of the machine.
pub trait Registers {
    /// Registers of a frame.
    fn registers(&mut self, frame: FrameRef, set: RegisterSet) -> Result<Vec<Register>, DebugError>;
}

/// A search in the program's data.
pub trait DataSearch {
    /// Elements of containers, lists and trees for which something holds. Changes nothing.
    fn find(&mut self, search: &ElementSearch) -> Result<ElementPage, DebugError>;

    /// The places in registers and memory that hold a pointer to something. Changes nothing.
    fn pointers(&mut self, search: &PointerSearch) -> Result<PointerPage, DebugError>;
}

/// Machine code.
pub trait Disassembly {
    /// `before` instructions before `place` as far as they can be found, then `count` from there.
    fn disassemble(
        &mut self,
        place: &Place,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, DebugError>;
}
