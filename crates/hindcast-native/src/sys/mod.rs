//! The system: tracing, memory, terminals. All unsafe code of the crate is here, behind calls that
//! are safe to make in any order; what can go wrong is an error.
#![allow(unsafe_code, reason = "ptrace and fork have no safe face")]

mod at_start;
mod debug_registers;
mod dying;
#[cfg(test)]
mod filter;
mod interrupt;
mod memory;
mod pages;
mod processor;
mod procfs;
mod registers;
mod remote;
mod spawn;
mod terminal;
mod tracee;

pub(crate) use debug_registers::{DebugRegisters, WatchKind};
pub(crate) use dying::{dismiss, end};
#[cfg(test)]
pub(crate) use filter::Filter;
pub(crate) use interrupt::{ALARM_MARK, CHECKPOINT_MARK, INTERRUPT_MARK, ProcessInterrupt};
pub(crate) use memory::{ProcessMemory, clean_pushed_flags, pushes_flags};
pub(crate) use pages::{PAGE, touched};
pub(crate) use processor::{cpu_time, processor_features, time_stamp_counter};
pub(crate) use procfs::{
    Mapping, MemoryPlan, auxiliary_vector, command_line, current_folder, executable, is_ancestor, is_caught,
    is_handled, mappings, minor_faults, name, protection, threads,
};
pub(crate) use registers::{GeneralRegisters, VectorRegisters};
pub(crate) use remote::{remote_call, rest, restarts};
pub(crate) use spawn::{SpawnError, SpawnPlan, SpawnStreams, spawn};
pub(crate) use terminal::Terminal;
pub(crate) use tracee::{
    Call, Event, RestartableSequence, Resume, Running, SignalDetails, SignalInfo, Stopped, Tid, TraceError,
    attach_thread, detach_running, forget_stop_signal, kill, send, wait_for, wait_for_any,
};
