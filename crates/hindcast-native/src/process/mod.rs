//! A traced process: its threads, its breakpoint instructions and debug registers, the processes it
//! makes. Knows nothing of symbols, and of breakpoints only that they are addresses.
//!
//! Everything stands still, except inside [`Process::run`] and [`Process::step`].

mod companions;
mod overlay;
mod recording;
mod signalled;
mod tasks;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use hindcast_symbols::Unreadable;
use libc::c_int;

use self::{
    companions::Companions,
    tasks::{Pending, Task},
};
pub(crate) use self::{
    overlay::{CleanMemory, Overlay},
    recording::end_of_exec,
};
use crate::sys::{
    self, DebugRegisters, GeneralRegisters, ProcessInterrupt, ProcessMemory, SignalDetails, Stopped, Tid,
    TraceError, VectorRegisters, WatchKind,
};
use crate::{record::Recorder, replay::Frozen};

/// A traced process.
pub(crate) struct Process {
    pid: Tid,
    memory: ProcessMemory,
    tasks: BTreeMap<Tid, Task>,
    overlay: Overlay,
    debug_registers: DebugRegisters,
    companions: Companions,
    interrupt: Arc<ProcessInterrupt>,
    /// Whether we started it, so that it and all that it starts ends with us.
    owned: bool,
    /// Whether one thread makes a step while all others stand still.
    alone: bool,
    /// How it ended, once it has.
    ended: Option<Ended>,
    recorder: Option<Box<Recorder>>,
    /// Of a recording from a file whose program has ended: what stands for it.
    stand_in: Option<Frozen>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(c_int),
    Killed(c_int),
}

/// Why a run is over. All threads stand still again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    /// A thread got to a breakpoint instruction of ours, and stands before it.
    Breakpoint(Tid, u64),
    /// The step is done.
    Stepped(Tid),
    /// These debug registers tell of an access.
    Watch(Tid, Vec<usize>),
    /// A signal is about to be delivered.
    Signal(Tid, SignalDetails),
    /// Somebody asked.
    Interrupted(Tid),
    /// It is another program now.
    Exec(Tid),
    /// Time travel: what is looked at is the live process again.
    Present(Tid),
    /// It is no more.
    Ended(Ended),
}

impl Process {
    /// Takes over a process that [`sys::spawn`] started.
    pub(crate) fn launched(leader: Stopped) -> Result<Self, TraceError> {
        let pid = leader.tid();
        let mut process = Self::new(pid, true)?;
        process.tasks.insert(pid, Task::stopped(leader));
        Ok(process)
    }

    /// Takes hold of a running process and stops all its threads.
    pub(crate) fn attach(pid: Tid) -> Result<Self, TraceError> {
        let first = sys::attach_thread(pid, false)?;
        let mut process = Self::new(pid, false)?;
        process.tasks.insert(pid, Task::running(first));
        // A thread may make another while we take hold of it: look again until there is no new one.
        loop {
            let threads = sys::threads(pid).map_err(|_| TraceError::Gone)?;
            let new: Vec<_> = threads.into_iter().filter(|tid| !process.tasks.contains_key(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                // Or it ended, or the one that made it handed it to us.
                if let Ok(running) = sys::attach_thread(tid, false) {
                    process.tasks.insert(tid, Task::running(running));
                }
            }
            process.stop_all()?;
        }
        process.stop_all()?;
        Ok(process)
    }

    /// The last state of a recording that was made before.
    pub(crate) fn recorded(last: Frozen, recorder: Recorder) -> Result<Self, TraceError> {
        let mut process = Self::launched(last.release()?)?;
        process.recorder = Some(Box::new(recorder));
        Ok(process)
    }

    /// The same where the program has ended.
    pub(crate) fn recorded_to_its_end(
        last: Frozen,
        recorder: Recorder,
        ended: Ended,
    ) -> Result<Self, TraceError> {
        let mut process = Self::new(last.tid(), false)?;
        process.recorder = Some(Box::new(recorder));
        process.ended = Some(ended);
        process.stand_in = Some(last);
        Ok(process)
    }

    fn new(pid: Tid, owned: bool) -> Result<Self, TraceError> {
        let memory = ProcessMemory::open(pid)
            .map_err(|source| TraceError::System { what: "cannot open the memory of the process", source })?;
        Ok(Self {
            pid,
            memory,
            tasks: BTreeMap::new(),
            overlay: Overlay::default(),
            debug_registers: DebugRegisters::default(),
            companions: Companions::default(),
            interrupt: Arc::new(ProcessInterrupt::new(pid)?),
            owned,
            alone: false,
            ended: None,
            recorder: None,
            stand_in: None,
        })
    }

    pub(crate) fn pid(&self) -> Tid {
        self.pid
    }

    pub(crate) fn interrupt(&self) -> Arc<ProcessInterrupt> {
        self.interrupt.clone()
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// In the order of their numbers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = Tid> + '_ {
        self.tasks.keys().copied()
    }

    pub(crate) fn has_thread(&self, tid: Tid) -> bool {
        self.tasks.contains_key(&tid)
    }

    pub(crate) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    pub(crate) fn debug_registers(&self) -> DebugRegisters {
        self.debug_registers
    }

    /// Takes over breakpoints and watched memory from a replica.
    pub(crate) fn take_over(&mut self, overlay: &Overlay, debug_registers: DebugRegisters) {
        if self.ended.is_some() {
            self.overlay.mirror(overlay);
            self.debug_registers = debug_registers;
            return;
        }
        self.overlay.adopt(&self.memory, overlay);
        if self.debug_registers != debug_registers {
            self.debug_registers = debug_registers;
            // A thread that is gone tells so by itself.
            let _ = self.apply_debug_registers();
        }
    }

    /// The memory without our breakpoints.
    pub(crate) fn memory(&self) -> CleanMemory<'_> {
        CleanMemory { memory: &self.memory, overlay: &self.overlay }
    }

    pub(crate) fn registers(&self, tid: Tid) -> Result<GeneralRegisters, TraceError> {
        self.task(tid)?.registers()
    }

    pub(crate) fn set_registers(&mut self, tid: Tid, registers: &GeneralRegisters) -> Result<(), TraceError> {
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.set_registers(registers)
    }

    pub(crate) fn vector_registers(&self, tid: Tid) -> Result<VectorRegisters, TraceError> {
        self.task(tid)?.handle()?.vector_registers()
    }

    pub(crate) fn set_vector_registers(
        &self,
        tid: Tid,
        registers: &VectorRegisters,
    ) -> Result<(), TraceError> {
        self.task(tid)?.handle()?.set_vector_registers(registers)
    }

    fn task(&self, tid: Tid) -> Result<&Task, TraceError> {
        self.tasks.get(&tid).ok_or(TraceError::Gone)
    }

    /// Puts a breakpoint instruction at `address`; each needs its own [`Self::remove_breakpoint`].
    pub(crate) fn insert_breakpoint(&mut self, address: u64) -> Result<(), Unreadable> {
        if self.ended().is_some() {
            self.overlay.expect(address);
            return Ok(());
        }
        self.overlay.insert(&self.memory, address)
    }

    pub(crate) fn remove_breakpoint(&mut self, address: u64) {
        self.overlay.remove(&self.memory, address);
    }

    /// Says that the user knows of the breakpoint that `tid` stands at: going on does not hit it again.
    pub(crate) fn pass_breakpoint(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid)
            && let Ok(registers) = task.registers()
        {
            task.passed = Some(registers.pc());
        }
    }

    /// Delivers `signal` to `tid` when it goes on; 0 for none.
    pub(crate) fn deliver(&mut self, tid: Tid, signal: c_int) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.signal = signal;
        }
    }

    /// Watches memory in all threads; `None` when the processor cannot watch so much.
    pub(crate) fn watch(
        &mut self,
        address: u64,
        size: u64,
        kind: WatchKind,
    ) -> Result<Option<Vec<usize>>, TraceError> {
        let Some(slots) = self.debug_registers.watch(address, size, kind) else { return Ok(None) };
        self.apply_debug_registers()?;
        Ok(Some(slots))
    }

    pub(crate) fn unwatch(&mut self, slots: &[usize]) -> Result<(), TraceError> {
        self.debug_registers.release(slots);
        self.apply_debug_registers()
    }

    fn apply_debug_registers(&self) -> Result<(), TraceError> {
        for task in self.tasks.values() {
            self.debug_registers.apply(task.handle()?)?;
        }
        Ok(())
    }

    /// Lets the process go on without us.
    pub(crate) fn detach(&mut self) {
        self.stop_all().ok();
        let _ = self.end_recording();
        self.overlay.write_originals(&self.memory);
        self.overlay.clear();
        // An interruption that came too late would stop it after we are gone.
        sys::forget_stop_signal(self.pid);
        let without = DebugRegisters::default();
        for (_, task) in std::mem::take(&mut self.tasks) {
            let signal = match &task.pending {
                Some(Pending::Signal(details)) => details.signal,
                _ => task.signal,
            };
            let Ok(stopped) = task.into_handle() else { continue };
            if !self.debug_registers.is_empty() {
                let _ = without.apply(&stopped);
            }
            // One that died meanwhile needs no letting go.
            let _ = stopped.detach(signal);
        }
        self.companions.detach();
        self.ended = Some(Ended::Exited(0));
    }

    /// Kills the process and all that it made, and waits until they are gone.
    pub(crate) fn terminate(&mut self) {
        // Once it has ended, its number can be somebody else's.
        if self.ended.is_none() {
            sys::kill(self.pid);
        }
        self.companions.kill();
        while self.ended.is_none() || !self.companions.is_empty() {
            match sys::wait_for_any() {
                Ok(event) => self.note_death(event),
                // Nobody is left.
                Err(_) => break,
            }
        }
        self.ended.get_or_insert(Ended::Killed(libc::SIGKILL));
        self.tasks.clear();
        self.end_stand_in();
    }
}

impl Process {
    fn end_stand_in(&mut self) {
        if let Some(thread) = self.stand_in.take().and_then(|stand_in| stand_in.release().ok()) {
            sys::end(thread.tid());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_stand_in();
        if self.owned {
            // Also after its end: what it made may still be there.
            self.terminate();
        } else if self.ended.is_none() {
            self.detach();
        }
    }
}
