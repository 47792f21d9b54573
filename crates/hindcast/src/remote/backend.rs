//! A session in a worker, as the seam wants it.

use std::{io, sync::Arc};

use hindcast_core::{
    debug::{
        Breakpoint, BreakpointChange, BreakpointId, CompletionKind, DebugBackend, DebugError, Disassembly,
        Ending, Evaluation, FrameRef, Instruction, Interrupt, MemoryBlock, MemoryWrite, Module, Movement,
        Outcome, Place, RawMemory, Recording, Region, Register, RegisterSet, Registers, RuntimeAddr,
        SourceFile, Stack, Stop, Target, TellLoss, Thread, ThreadId, TimeTravel, TimelinePage, TimelineQuery,
        TraceRequest, Trigger, Variable, VariablePage, VariableQuery, Watched, When,
    },
    progress::Progress,
};
use serde::de::DeserializeOwned;

use super::{
    link::{Link, Meanwhile},
    wire::{Beginning, Begun, Call, Facets, Moved},
};

/// Passes every call on to a worker.
pub(super) struct RemoteBackend {
    link: Link,
    target: Target,
    facets: Facets,
}

impl RemoteBackend {
    pub(super) fn begin(link: Link, beginning: Beginning) -> Result<Self, DebugError> {
        let Begun { target, facets } = link.ask(&Call::Begin(beginning))?;
        Ok(Self { link, target, facets })
    }

    fn moved<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, DebugError> {
        let Moved { outcome, target } = self.link.ask(call)?;
        if let Some(target) = target {
            self.target = target;
        }
        Ok(outcome)
    }
}

impl DebugBackend for RemoteBackend {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.link.interrupt()
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        self.moved(&Call::Run(movement))
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        self.moved(&Call::Pause)
    }

    fn ended_meanwhile(&mut self) -> Result<Option<Stop>, DebugError> {
        self.moved(&Call::EndedMeanwhile)
    }

    fn end(&mut self, how: Ending) -> Result<(), DebugError> {
        self.link.ask(&Call::End(how))
    }

    fn write_input(&mut self, text: &[u8], eof: bool) -> Result<(), DebugError> {
        self.link.ask(&Call::WriteInput { text: text.to_owned(), eof })
    }

    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        self.link.ask(&Call::AddBreakpoint(trigger))
    }

    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        self.link.ask(&Call::ChangeBreakpoint(id, change))
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.link.ask(&Call::RemoveBreakpoint(id))
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        self.link.ask(&Call::Breakpoints)
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        self.link.ask(&Call::Threads)
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        self.link.ask(&Call::Stack { thread, max_frames })
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        self.link.ask(&Call::Variables(query.clone()))
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        self.link.ask(&Call::Evaluate(evaluation.clone()))
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        self.link.ask(&Call::Modules)
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        self.link.ask(&Call::SourceFile(path.to_owned()))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        let prefix = prefix.to_owned();
        self.link.ask(&Call::Complete { kind, prefix, limit })
    }

    fn when_lost(&mut self, tell: TellLoss) {
        self.link.when_lost(tell);
    }

    fn raw_memory(&mut self) -> Option<&mut dyn RawMemory> {
        if self.facets.raw_memory { Some(self) } else { None }
    }

    fn registers(&mut self) -> Option<&mut dyn Registers> {
        if self.facets.registers { Some(self) } else { None }
    }

    fn time_travel(&mut self) -> Option<&mut dyn TimeTravel> {
        if self.facets.time_travel { Some(self) } else { None }
    }

    fn disassembly(&mut self) -> Option<&mut dyn Disassembly> {
        if self.facets.disassembly { Some(self) } else { None }
    }
}

impl RawMemory for RemoteBackend {
    fn read(&mut self, address: RuntimeAddr, size: usize) -> Result<MemoryBlock, DebugError> {
        self.link.ask(&Call::ReadMemory { address, size })
    }

    fn regions_around(&mut self, address: RuntimeAddr) -> Result<Vec<Region>, DebugError> {
        self.link.ask(&Call::RegionsAround(address))
    }
}

impl Registers for RemoteBackend {
    fn registers(&mut self, frame: FrameRef, set: RegisterSet) -> Result<Vec<Register>, DebugError> {
        self.link.ask(&Call::Registers { frame, set })
    }
}

impl Disassembly for RemoteBackend {
    fn disassemble(
        &mut self,
        place: &Place,
        before: usize,
        count: usize,
    ) -> Result<Vec<Instruction>, DebugError> {
        self.link.ask(&Call::Disassemble { place: place.clone(), before, count })
    }
}

impl TimeTravel for RemoteBackend {
    fn recording(&mut self) -> Result<Recording, DebugError> {
        self.link.ask(&Call::Recording)
    }

    fn now(&mut self) -> Result<Option<When>, DebugError> {
        self.link.ask(&Call::Now)
    }

    fn last_write(&mut self, watched: &Watched, depth: u32) -> Result<Vec<MemoryWrite>, DebugError> {
        self.link.ask(&Call::LastWrite { watched: watched.clone(), depth })
    }

    fn timeline(&mut self, query: &TimelineQuery) -> Result<TimelinePage, DebugError> {
        self.link.ask(&Call::Timeline(query.clone()))
    }

    fn export(
        &mut self,
        request: &TraceRequest,
        sink: &mut dyn io::Write,
        progress: &dyn Progress,
    ) -> Result<u64, DebugError> {
        let mut failed = None;
        let call = Call::Export(request.clone());
        let written = self.link.ask_for_long(&call, |meanwhile| {
            match meanwhile {
                Meanwhile::Written(bytes) if failed.is_none() => failed = sink.write_all(&bytes).err(),
                Meanwhile::Progress(report) => progress.report(report.done, report.total, &report.message),
                Meanwhile::Written(_) | Meanwhile::Nothing => {}
            }
            failed.is_none() && !progress.cancelled()
        });
        match failed {
            Some(error) => Err(DebugError::System(format!("cannot write the trace: {error}"))),
            None => written,
        }
    }
}
