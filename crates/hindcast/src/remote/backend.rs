//! A session in a worker, as the seam wants it.

use std::{io, sync::Arc};

use hindcast_core::{
    debug::{
        Breakpoint, BreakpointChange, BreakpointId, CompletionKind, DataSearch, DebugBackend, DebugError,
        Disassembly, ElementPage, ElementSearch, Ending, Evaluation, Finding, FrameRef, Instruction,
        Interrupt, Layer, MemoryBlock, Module, Movement, Outcome, Place, PointerPage, PointerSearch,
        Question, RawMemory, Recording, Region, Register, RegisterSet, Registers, RuntimeAddr, SourceFile,
        Stack, Stop, Target, TellLoss, Thread, ThreadId, TimeTravel, TimelinePage, TimelineQuery,
        TraceRequest, Trigger, Variable, VariablePage, VariableQuery, View, When,
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
    layers: Vec<Layer>,
}

impl RemoteBackend {
    pub(super) fn begin(link: Link, beginning: Beginning) -> Result<Self, DebugError> {
        let Begun { target, facets, layers } = link.ask(&Call::Begin(beginning))?;
        Ok(Self { link, target, facets, layers })
    }

    fn ask<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, DebugError> {
        self.link.ask(call)
    }

    fn moved<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, DebugError> {
        let Moved { outcome, target } = self.link.ask(call)?;
        if let Some(target) = target {
            self.target = target;
        }
        Ok(outcome)
    }

    fn export_to(
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
            Some(error) => Err(DebugError::System(format!("cannot write the trace: {error}").into())),
            None => written,
        }
    }
}

/// The methods of one trait, by what asks the worker.
macro_rules! passed_on {
    ($ask:ident: $($call:ident: fn $method:ident($($(#[$how:meta])* $name:ident: $type:tt),*) -> $answer:ty;)*) => {
        $(fn $method(&mut self, $($name: lent_type!($type)),*) -> Result<$answer, DebugError> {
            self.$ask(&Call::$call { $($name: sent!($type, $name)),* })
        })*
    };
}

macro_rules! define_client {
    (
        moved { $($moved:tt)* }
        session { $($session:tt)* }
        facets { $($facet:ident: $trait:ident, $what:literal { $($row:tt)* })* }
    ) => {
        impl DebugBackend for RemoteBackend {
            fn target(&self) -> &Target {
                &self.target
            }

            fn interrupt(&self) -> Arc<dyn Interrupt> {
                self.link.interrupt()
            }

            fn when_lost(&mut self, tell: TellLoss) {
                self.link.when_lost(tell);
            }

            fn layers(&self) -> &[Layer] {
                &self.layers
            }

            passed_on! { moved: $($moved)* }
            passed_on! { ask: $($session)* }

            $(fn $facet(&mut self) -> Option<&mut dyn $trait> {
                if self.facets.$facet { Some(self) } else { None }
            })*
        }

        $(define_facet! { $trait $($row)* })*
    };
}

macro_rules! define_facet {
    (TimeTravel $($row:tt)*) => {
        impl TimeTravel for RemoteBackend {
            passed_on! { ask: $($row)* }

            fn export(
                &mut self,
                request: &TraceRequest,
                sink: &mut dyn io::Write,
                progress: &dyn Progress,
            ) -> Result<u64, DebugError> {
                self.export_to(request, sink, progress)
            }
        }
    };
    ($trait:ident $($row:tt)*) => {
        impl $trait for RemoteBackend {
            passed_on! { ask: $($row)* }
        }
    };
}

seam!(define_client);
