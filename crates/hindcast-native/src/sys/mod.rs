//! The system: tracing, memory, terminals. All unsafe code of the crate is here, behind calls that
//! are safe to make in any order; what can go wrong is an error.
#![allow(unsafe_code, reason = "ptrace and fork have no safe face")]

mod debug_registers;
mod interrupt;
mod memory;
mod procfs;
mod registers;
mod spawn;
mod terminal;
mod tracee;

pub(crate) use debug_registers::{DebugRegisters, WatchKind};
pub(crate) use interrupt::{INTERRUPT_MARK, ProcessInterrupt};
pub(crate) use memory::ProcessMemory;
pub(crate) use procfs::{
    Mapping, auxiliary_vector, command_line, current_folder, executable, is_handled, mappings, name, threads,
};
pub(crate) use registers::{GeneralRegisters, VectorRegisters};
pub(crate) use spawn::{SpawnError, SpawnPlan, spawn};
pub(crate) use terminal::Terminal;
pub(crate) use tracee::{
    Event, Resume, Running, SignalDetails, Stopped, Tid, TraceError, attach_thread, detach_running,
    forget_stop_signal, kill, wait_for_any,
};
