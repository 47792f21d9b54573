//! A traced process: its threads, its breakpoint instructions and debug registers, the processes it
//! makes. Knows nothing of symbols, and of breakpoints only that they are addresses.
//!
//! Everything stands still, except inside [`Process::run`] and [`Process::step`].

mod companions;
mod following;
mod overlay;
mod page;
mod recording;
mod resting;
mod sieve;
mod signalled;
mod stage;
mod stopping;
mod task;
mod tasks;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use hindcast_symbols::Unreadable;
use libc::c_int;

use self::{
    companions::Companions,
    following::Following,
    sieve::LiveSieves,
    task::{Pending, Task},
};
pub(crate) use self::{
    companions::Crash,
    following::{Waited, Wanted},
    overlay::{CleanMemory, Overlay},
    recording::end_of_exec,
    sieve::Hits,
};
use crate::sys::{
    self, Bell, DebugRegisters, GeneralRegisters, Keeper, Life, ProcessMemory, Rope, SignalDetails,
    SignalInfo, Stopped, Tid, TraceError, VectorRegisters, WatchKind,
};
use crate::{
    record::Recorder,
    replay::{Actor, Frozen},
};

/// A traced process.
pub(crate) struct Process {
    pid: Tid,
    memory: ProcessMemory,
    tasks: BTreeMap<Tid, Task>,
    overlay: Overlay,
    debug_registers: DebugRegisters,
    companions: Companions,
    /// The program that is waited for.
    following: Option<Following>,
    /// All that it starts, where that is kept together.
    tree: Option<sys::Tree>,
    /// Threads that were told of by the one that made them, but not yet seen.
    awaited: HashSet<Tid>,
    /// Whether the first thread had ended before we came, so that it is not ours.
    is_headless: bool,
    life: Life,
    /// Absent once there is nothing more to interrupt.
    bell: Option<Bell>,
    rope: Arc<Rope>,
    /// Somebody asked while all threads were being stopped for something else.
    rung_meanwhile: bool,
    /// The first thread was interrupted, to be copied.
    asked_for_checkpoint: bool,
    /// The thread on stage was interrupted, to give way.
    asked_for_turn: bool,
    /// The thread that gets its turn as soon as it could run.
    wanted: Option<Tid>,
    /// Whether threads took turns.
    is_staged: bool,
    /// Whether our breakpoints are out of the memory until it moves again.
    rests: bool,
    /// It became another program while all threads were being stopped.
    became_another: Option<Tid>,
    /// Whether we started it, so that it and all that it starts ends with us.
    owned: bool,
    /// Whether one thread makes a step while all others stand still.
    alone: bool,
    /// Whether there was a page of calls at the last event, and the threads that may still be told of by it.
    had_page: bool,
    told_late: BTreeSet<Tid>,
    /// Signals that we sent to a thread in the place of others, which came with this.
    sent_again: Vec<(Tid, SignalInfo)>,
    /// Whether that step is past a breakpoint, on the way to somewhere else.
    passes: bool,
    /// How it ended, once it has.
    ended: Option<Ended>,
    recorder: Option<Box<Recorder>>,
    /// Code beside the program that judges breakpoints while it runs.
    sieves: LiveSieves,
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
    /// Time travel: this signal was about to be delivered.
    PastSignal(Tid, SignalDetails),
    /// It is no more.
    Ended(Ended),
}

/// A thread that cannot be taken hold of after so many tries belongs to somebody else.
const MOST_ROUNDS: u32 = 1000;

fn open_memory(process: Tid) -> Result<ProcessMemory, TraceError> {
    ProcessMemory::open(process)
        .map_err(|source| TraceError::System { what: "cannot open the memory of the process", source })
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
        let threads = || sys::threads(pid).map_err(|_| TraceError::Gone);
        let first = match sys::attach_thread(pid, false) {
            Ok(first) => Some(first),
            // It ended, and left the others behind.
            Err(_) if sys::is_zombie(pid, pid) && threads()?.len() > 1 => None,
            Err(error) => return Err(error),
        };
        let witness =
            if first.is_some() { pid } else { threads()?.into_iter().find(|&tid| tid != pid).unwrap_or(pid) };
        let mut process = Self::with_memory(pid, open_memory(witness)?, false)?;
        process.is_headless = first.is_none();
        process.tasks.extend(first.map(|first| (pid, Task::running(first))));
        // A thread may make another while we take hold of it: look again until there is no new one.
        for round in 0.. {
            process.stop_all()?;
            let is_new = |tid: &Tid| !process.tasks.contains_key(tid) && !sys::is_zombie(pid, *tid);
            let new: Vec<_> = threads()?.into_iter().filter(is_new).collect();
            if new.is_empty() || process.ended.is_some() {
                break;
            }
            for tid in new {
                match sys::attach_thread(tid, false) {
                    Ok(running) => drop(process.tasks.insert(tid, Task::running(running))),
                    // It ended, or the one that made it is about to hand it to us; or somebody else has it.
                    Err(error) if round > MOST_ROUNDS => return Err(error),
                    Err(_) => {}
                }
            }
        }
        // Whoever attached gets to know what it is now.
        process.became_another = None;
        if process.tasks.is_empty() {
            return Err(TraceError::Gone);
        }
        process.keep()?;
        Ok(process)
    }

    /// A program that we attached to survives us, whatever kills us.
    fn keep(&mut self) -> Result<(), TraceError> {
        if !self.owned {
            self.overlay.keep(Some(Keeper::start(self.pid, &self.memory)?));
        }
        Ok(())
    }

    /// The last state of a recording that was made before.
    pub(crate) fn recorded(last: Frozen, recorder: Recorder) -> Result<Self, TraceError> {
        let mut process = Self::launched(last.release()?)?;
        process.overlay.hide_random_numbers(recorder.random_numbers());
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
        process.overlay.hide_random_numbers(recorder.random_numbers());
        process.recorder = Some(Box::new(recorder));
        process.ended = Some(ended);
        process.stand_in = Some(last);
        Ok(process)
    }

    fn new(pid: Tid, owned: bool) -> Result<Self, TraceError> {
        Self::with_memory(pid, open_memory(pid)?, owned)
    }

    fn with_memory(pid: Tid, memory: ProcessMemory, owned: bool) -> Result<Self, TraceError> {
        let bell = Bell::new()?;
        Ok(Self {
            pid,
            memory,
            tasks: BTreeMap::new(),
            overlay: Overlay::default(),
            debug_registers: DebugRegisters::default(),
            companions: Companions::default(),
            following: None,
            tree: None,
            awaited: HashSet::new(),
            is_headless: false,
            life: Life::of(pid)?,
            rope: bell.rope(),
            bell: Some(bell),
            rung_meanwhile: false,
            asked_for_checkpoint: false,
            asked_for_turn: false,
            wanted: None,
            is_staged: false,
            rests: false,
            became_another: None,
            owned,
            alone: false,
            had_page: false,
            told_late: BTreeSet::new(),
            sent_again: Vec::new(),
            passes: false,
            ended: None,
            recorder: None,
            sieves: LiveSieves::default(),
            stand_in: None,
        })
    }

    pub(crate) fn pid(&self) -> Tid {
        self.pid
    }

    pub(crate) fn interrupt(&self) -> Arc<Rope> {
        self.rope.clone()
    }

    /// Somebody else answers for the interruptions that came while nothing moved.
    pub(crate) fn forget_interruption(&mut self) {
        self.rope.forget_interruption();
        self.rung_meanwhile = false;
    }

    /// The first thread that has not ended: what belongs to the whole process is found under its number.
    pub(crate) fn witness(&self) -> Tid {
        if self.tasks.contains_key(&self.pid) {
            return self.pid;
        }
        self.tasks.keys().next().copied().unwrap_or(self.pid)
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// In the order of their numbers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = Tid> + '_ {
        self.tasks.keys().copied()
    }

    /// How a thread is called, or was when it ended.
    pub(crate) fn thread_name(&self, tid: Tid) -> Option<String> {
        let ended = || self.recorder.as_ref()?.thread_names().get(&tid.0).cloned();
        sys::name(self.pid, tid).or_else(ended)
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
        match self.standing(tid) {
            Some(actor) => Ok(actor.registers),
            None => self.task(tid)?.registers(),
        }
    }

    /// Whether the registers of a thread are those that it had before the call that it is in.
    pub(crate) fn stands_before_call(&self, tid: Tid) -> bool {
        self.standing(tid).is_some()
    }

    /// Where a thread stands that is not on stage.
    fn standing(&self, tid: Tid) -> Option<&Actor> {
        let recorder = self.recorder.as_ref().filter(|recorder| recorder.is_active())?;
        recorder.standing(tid)
    }

    pub(crate) fn set_registers(&mut self, tid: Tid, registers: &GeneralRegisters) -> Result<(), TraceError> {
        if self.is_off_stage(tid) {
            return Err(TraceError::OffStage(tid));
        }
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.set_registers(registers)
    }

    pub(crate) fn vector_registers(&self, tid: Tid) -> Result<VectorRegisters, TraceError> {
        match self.standing(tid) {
            Some(actor) => Ok(actor.vectors.clone()),
            None => self.task(tid)?.handle()?.vector_registers(),
        }
    }

    pub(crate) fn set_vector_registers(
        &self,
        tid: Tid,
        registers: &VectorRegisters,
    ) -> Result<(), TraceError> {
        if self.is_off_stage(tid) {
            return Err(TraceError::OffStage(tid));
        }
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

    fn apply_debug_registers(&mut self) -> Result<(), TraceError> {
        // One that rests is given them when it moves.
        if self.rests {
            return Ok(());
        }
        self.keeper_watches(!self.debug_registers.is_empty());
        let is_recorded = self.recorder.is_some();
        for task in self.tasks.values_mut() {
            // One that waits in a call is given them when it comes out of it.
            if !(is_recorded && task.is_running()) {
                self.debug_registers.apply(task.handle()?)?;
                task.watches = self.debug_registers;
            }
        }
        Ok(())
    }

    /// Lets the process go on without us.
    pub(crate) fn detach(&mut self) {
        // Who cannot be waited for is dead or dying.
        let _ = self.let_go();
        if let Some(tree) = self.tree.take() {
            tree.release();
        }
        self.overlay.keep(None);
        self.bell = None;
        self.ended = Some(Ended::Exited(0));
    }

    /// Lets all threads go on untraced, and all that the process made.
    fn let_go(&mut self) -> Result<(), TraceError> {
        if self.ended.is_none() {
            if let Some(recorder) = &mut self.recorder {
                recorder.end("the program was let go");
            }
            // One that cannot be stopped is dead or dying.
            let _ =
                self.leave_stage().and_then(|()| self.stop_all()).and_then(|()| self.receive_companions());
        }
        // Without a thread that could do it, there is nobody left to see it.
        let _ = self.unmap_sieves();
        let _ = self.end_recording();
        if self.ended.is_none() {
            self.overlay.write_originals(&self.memory);
        }
        self.overlay.clear();
        let without = DebugRegisters::default();
        let mut dying = Vec::new();
        // The first thread last: its end is told when there are no others.
        for (tid, task) in std::mem::take(&mut self.tasks).into_iter().rev() {
            let signal = match &task.pending {
                Some(Pending::Signal(details)) => details.signal,
                _ => task.signal,
            };
            let info = task.info.filter(|info| info.number() == signal);
            let Ok(stopped) = task.into_handle() else {
                dying.push(tid);
                continue;
            };
            if !self.debug_registers.is_empty() {
                let _ = without.apply(&stopped);
            }
            match info {
                // It may have done something for us since it stopped for the signal.
                Some(info) if stopped.takes_signal() => drop(stopped.set_signal(&info)),
                Some(info) => sys::send_again(self.pid, tid, &info),
                None => {}
            }
            if stopped.detach(signal).is_err() {
                dying.push(tid);
            }
        }
        // Until we have seen their ends, nobody else does.
        dying.sort_by_key(|&tid| tid == self.pid);
        for tid in dying {
            sys::detach_running(tid);
        }
        self.release_companions()
    }

    /// Kills the process and all that it made, and waits until they are gone.
    pub(crate) fn terminate(&mut self) {
        // They would be waited for.
        self.bell = None;
        self.overlay.keep(None);
        // Once it has ended, its number can be somebody else's.
        if self.ended.is_none() {
            sys::kill(self.pid);
        }
        self.companions.kill();
        while self.ended.is_none() || !self.companions.is_empty() {
            if self.ended.is_none() && self.life.is_over() {
                self.ended = Some(Ended::Killed(libc::SIGKILL));
                continue;
            }
            match sys::wait_for_any() {
                Ok(event) => self.note_death(event),
                // Nobody is left.
                Err(_) => break,
            }
        }
        self.ended.get_or_insert(Ended::Killed(libc::SIGKILL));
        self.tasks.clear();
        self.end_stand_in();
        self.tree = None;
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
