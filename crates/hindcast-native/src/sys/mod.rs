//! The system: tracing, memory, terminals. All unsafe code of the crate is here, behind calls that
//! are safe to make in any order; what can go wrong is an error.
#![allow(unsafe_code, reason = "ptrace and fork have no safe face")]

mod at_start;
mod bell;
pub(crate) mod call_page;
mod debug_registers;
mod descriptors;
mod dying;
mod enclosure;
#[cfg(test)]
mod filter;
mod forbidden_calls;
mod interrupt;
mod keeper;
mod memory;
mod pages;
mod processor;
mod procfs;
mod registers;
mod remote;
mod signal;
mod spawn;
mod tracee;
mod trap_flag;
mod tree;
mod vector_registers;

/// The machine code of a system call.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];
pub(crate) const SYSCALL_LENGTH: u64 = SYSCALL.len() as u64;

pub(crate) use bell::{Bell, Rope, Rung};
pub(crate) use debug_registers::{DebugRegisters, WatchKind};
pub(crate) use descriptors::{
    Users, borrow_descriptor, descriptors, file_of, has_no, is_direct, is_writable, watched_by,
};
pub(crate) use dying::{Life, dismiss, end};
pub(crate) use enclosure::{
    be_modest, become_user, change_root, fork_alone, give_up_rights, make_read_only, settle_as_child,
    start_loopback,
};
#[cfg(test)]
pub(crate) use filter::Filter;
pub(crate) use forbidden_calls::{FORBIDDEN, FORBIDDEN_32, Sockets, forbid_calls};
pub(crate) use interrupt::{ALARM_MARK, INTERRUPT_MARK, ProcessInterrupt};
pub(crate) use keeper::Keeper;
pub(crate) use memory::{ProcessMemory, limit_memory};
pub(crate) use pages::{PAGE, share_pages, touched};
pub(crate) use processor::{cpu_time, processor_features, random_number, time_stamp_counter};
pub(crate) use procfs::{
    Mapping, MemoryPlan, auxiliary_vector, command_line, current_folder, executable, executed_as,
    handles_signals, has_writable_shares, heap_start, is_ancestor, is_asleep, is_caught, is_handled,
    is_our_equal, is_zombie, kept_from_forks, mappings, memory_is_short, minor_faults, name, parent,
    process_of, protection, shared_segment, threads,
};
pub(crate) use registers::GeneralRegisters;
pub(crate) use remote::{remote_call, rest, restarts};
pub(crate) use signal::{SignalDetails, SignalInfo, signal_name};
pub(crate) use spawn::{SpawnError, SpawnPlan, SpawnStreams, limit_programs, spawn, spawn_tree};
pub(crate) use tracee::{
    Call, Event, RestartableSequence, Resume, Running, Stopped, Tid, TraceError, attach_thread, death_of,
    detach_running, interrupt, kill, robust_list, send_again, wait_for, wait_for_any, wait_for_any_now,
};
pub(crate) use trap_flag::{LONG_MODE, behind_popped_flags, clean_pushed_flags, pushes_flags};
pub(crate) use tree::Tree;
pub(crate) use vector_registers::{VectorLayout, VectorRegisters};
