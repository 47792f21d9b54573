//! What it means that a thread stopped for a signal: breakpoints, steps, watched memory, or a signal of the
//! program's own.

use libc::c_int;

use super::{
    Halt, Process,
    task::{mend, resume_living},
};
use crate::sys::{DebugRegisters, GeneralRegisters, Resume, SignalDetails, Stopped, Tid, TraceError};

impl Process {
    pub(super) fn signalled(&mut self, stopped: Stopped, signal: c_int) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        if self.answered_instruction(&stopped, signal)? {
            self.leave_frontier();
            let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
            task.put(stopped);
            if task.how == Resume::Step {
                return Ok(Some(Halt::Stepped(tid)));
            }
            let halt = self.give_way_behind(tid, false)?;
            if halt.is_some() || self.is_off_stage(tid) {
                return Ok(halt);
            }
            let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
            let how = task.how;
            return resume_living(task, how).map(|()| None);
        }
        mend(&stopped)?;
        self.restore_signal(&stopped, signal)?;
        if signal != libc::SIGTRAP && self.holds_signal(&stopped)? {
            let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
            task.put(stopped);
            let how = task.how;
            return resume_living(task, how).map(|()| None);
        }
        let halt = self.read_signal(&stopped, signal);
        let info = stopped.signal().ok();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.put(stopped);
        task.info = info;
        match halt? {
            Some(halt) => Ok(Some(halt)),
            None => {
                let how = task.how;
                resume_living(task, how)?;
                Ok(None)
            }
        }
    }

    /// What a signal stop means; nothing where it is the echo of a breakpoint that was removed.
    pub(super) fn read_signal(&self, stopped: &Stopped, signal: c_int) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        let details = stopped.signal_details()?;
        if signal != libc::SIGTRAP {
            return Ok(Some(Halt::Signal(tid, details)));
        }
        match details.code {
            // The end of a step over a system call is told as TRAP_BRKPT; an int3 is SI_KERNEL.
            libc::TRAP_HWBKPT | libc::TRAP_TRACE | libc::TRAP_BRKPT => {
                // A step can end with the access that is watched.
                let hits =
                    if self.debug_registers.is_empty() { Vec::new() } else { DebugRegisters::hits(stopped)? };
                let watched = !hits.is_empty();
                Ok(Some(if watched { Halt::Watch(tid, hits) } else { Halt::Stepped(tid) }))
            }
            libc::SI_KERNEL => self.read_breakpoint(stopped, details),
            _ if is_handler_entry(&details) => Ok(Some(Halt::Stepped(tid))),
            _ => Ok(Some(Halt::Signal(tid, details))),
        }
    }

    fn read_breakpoint(&self, stopped: &Stopped, details: SignalDetails) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        let mut registers = stopped.registers()?;
        let site = registers.pc().wrapping_sub(1);
        let is_ours = self.overlay.contains(site) || self.is_sieved(site);
        // A thread can have executed our instruction when all were stopped, and tell so only after
        // that was taken out. An int3 of the program's own is still there.
        let mut there = [0];
        let is_own = self.memory.read_some(site, &mut there) == 1 && there[0] == 0xcc;
        if !is_ours && is_own {
            return Ok(Some(Halt::Signal(tid, details)));
        }
        registers.set("rip", site);
        stopped.set_registers(&registers)?;
        Ok(is_ours.then_some(Halt::Breakpoint(tid, site)))
    }

    /// A step that delivers a signal ends where its handler begins.
    pub(super) fn note_handler(&mut self, tid: Tid, before: Option<GeneralRegisters>) {
        if let Some(task) = self.tasks.get_mut(&tid)
            && task.info.is_some_and(|info| is_handler_entry(&info.details()))
        {
            task.interrupted = before;
        }
    }

    /// Whether a thread stands at a breakpoint only because a signal came before it had gone past it.
    pub(super) fn is_back_from_handler(&mut self, tid: Tid) -> bool {
        let Ok(task) = self.task(tid) else { return false };
        let (Some(left), Ok(now)) = (task.interrupted, task.registers()) else { return false };
        let is_back = left.dwarf() == now.dwarf();
        if is_back && let Some(task) = self.tasks.get_mut(&tid) {
            task.interrupted = None;
        }
        is_back
    }
}

/// How the system tells that a step called a signal handler.
fn is_handler_entry(details: &SignalDetails) -> bool {
    details.signal == libc::SIGTRAP && details.code == libc::SIGTRAP
}
