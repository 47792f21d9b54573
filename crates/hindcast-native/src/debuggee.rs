//! What a session looks at and moves: the live process, or a replica of its past. Both show
//! themselves under the number of the live one.

mod forwards;
mod hunt;
mod judge;
mod losses;
mod sift;
mod skim;
mod survey;
mod track;
mod travel;
mod trials;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use hindcast_core::debug::Interrupt;
use hindcast_symbols::Unreadable;
use libc::c_int;

use crate::{
    look::Stage,
    process::{CleanMemory, Crash, Ended, Halt, Hits, Overlay, Process, Waited, Wanted},
    record::Recorder,
    replay::{Actor, Cast, Functions, Label, LiveGate, Past, Running, Window},
    sys::{
        DebugRegisters, GeneralRegisters, ProcessInterrupt, Rope, Tid, TraceError, VectorRegisters, WatchKind,
    },
};

pub(crate) use self::{
    hunt::{Found, Quarry, SignalSet},
    judge::{Claims, Judge},
    survey::{Sight, Sights, Surveyed, Surveyor, Wish},
    track::Tracked,
};

/// The program, now or then.
pub(crate) struct Debuggee {
    live: Process,
    past: Option<Past>,
    window: Option<Window>,
    /// The anchor behind which sieves are of no use.
    unsifted: Option<Label>,
    /// Where a search for a write was interrupted.
    interrupted: Option<hunt::Interrupted>,
    interrupt: Arc<Bell>,
    /// What is known of the process that was recorded, where the present is only the end of a recording from a file.
    finished: Option<Finished>,
}

/// A program that was recorded before.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The number that its process had.
    pub(crate) process: Tid,
    /// Its threads at the end of the recording.
    pub(crate) cast: Cast,
    /// How they were called, as far as that is known.
    pub(crate) names: BTreeMap<i32, String>,
}

/// Ends a movement of the live process, or a replay.
pub(crate) struct Bell {
    /// Whether somebody rang and nothing has ended for that yet.
    remembered: AtomicBool,
    /// A [`Listener`].
    listener: AtomicU8,
    live: Arc<Rope>,
    replica: Mutex<Option<Arc<ProcessInterrupt>>>,
    /// What is found out in advance ends anywhere.
    running: Arc<Running>,
    /// What a replay looks at.
    asked: AtomicBool,
}

/// What ends when the bell rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Listener {
    /// Nothing moves, or what does must not end half-way.
    Nobody,
    Live,
    Replay,
}

impl Interrupt for Bell {
    fn interrupt(&self) {
        // First: who begins to listen now looks at this last.
        self.remembered.store(true, Ordering::SeqCst);
        let listener = self.listener.load(Ordering::SeqCst);
        if listener == Listener::Live as u8 {
            self.live.interrupt();
        } else if listener == Listener::Replay as u8 {
            self.asked.store(true, Ordering::SeqCst);
            if let Some(replica) = &*self.replica.lock().unwrap_or_else(PoisonError::into_inner) {
                replica.interrupt();
            }
            self.running.end();
        }
    }
}

impl Debuggee {
    pub(crate) fn new(live: Process) -> Self {
        let interrupt = Arc::new(Bell {
            remembered: AtomicBool::new(false),
            listener: AtomicU8::new(Listener::Nobody as u8),
            live: live.interrupt(),
            replica: Mutex::new(None),
            running: Running::of_this_thread(),
            asked: AtomicBool::new(false),
        });
        Self { live, past: None, window: None, unsifted: None, interrupted: None, interrupt, finished: None }
    }

    /// A recording that was made before; its last state is the present.
    pub(crate) fn recorded(live: Process, finished: Finished) -> Self {
        Self { finished: Some(finished), ..Self::new(live) }
    }

    /// Whether nothing can be changed: the past, and all of a recording from a file.
    pub(crate) fn is_fixed(&self) -> bool {
        self.finished.is_some() || self.past.is_some()
    }

    /// The live process, if it can go on.
    fn going_on(&mut self) -> Result<&mut Process, TraceError> {
        if self.finished.is_some() { Err(TraceError::RecordingEnds) } else { Ok(&mut self.live) }
    }

    /// Its number, whichever of the two is looked at.
    pub(crate) fn pid(&self) -> Tid {
        self.finished.as_ref().map_or_else(|| self.live.pid(), |finished| finished.process)
    }

    /// The threads of what is looked at, unless that is the live process.
    fn cast(&self) -> Option<&Cast> {
        match (&self.past, &self.finished) {
            (Some(past), _) => Some(past.replica.frozen.cast()),
            (None, finished) => finished.as_ref().map(|finished| &finished.cast),
        }
    }

    /// The thread that runs at the moment that is looked at. Where all run, the first one.
    pub(crate) fn acting(&self) -> Tid {
        self.cast().map_or_else(|| self.live.acting(), Cast::acting)
    }

    /// How a thread is called, as far as that is known.
    pub(crate) fn thread_name(&self, tid: Tid) -> Option<String> {
        match &self.finished {
            Some(finished) => finished.names.get(&tid.0).cloned(),
            None => self.live.thread_name(tid),
        }
    }

    /// The process that the system knows under this number is the one that is looked at.
    pub(crate) fn system_pid(&self) -> Tid {
        match &self.past {
            Some(past) => past.replica.frozen.tid(),
            None => self.live.witness(),
        }
    }

    /// The first thread that has not ended.
    pub(crate) fn first_thread(&self) -> Tid {
        match self.cast() {
            Some(cast) if cast.contains(self.pid()) => self.pid(),
            Some(cast) => cast.acting(),
            None => self.live.witness(),
        }
    }

    /// A process that was attached to survives us where it stands.
    pub(crate) fn rest(&mut self) -> Result<(), TraceError> {
        self.live.rest()
    }

    /// Steps that were cut short are over.
    pub(crate) fn forget_steps(&mut self) {
        self.live.forget_steps();
    }

    pub(crate) fn interrupt(&self) -> Arc<Bell> {
        self.interrupt.clone()
    }

    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.live.recorder()
    }

    pub(crate) fn recorder_mut(&mut self) -> Option<&mut Recorder> {
        self.live.recorder_mut()
    }

    pub(crate) fn is_in_past(&self) -> bool {
        self.past.is_some()
    }

    /// Whether the program itself has ended.
    pub(crate) fn live_ended(&self) -> Option<Ended> {
        self.live.ended()
    }

    /// Whether what is looked at has ended.
    pub(crate) fn ended(&self) -> Option<Ended> {
        if self.past.is_some() { None } else { self.live.ended() }
    }

    /// How the program has ended, if it did while it stood still; told once. In the past nobody looks at it.
    pub(crate) fn notice_death(&mut self) -> Option<Ended> {
        if self.is_fixed() { None } else { self.live.notice_death() }
    }

    pub(crate) fn threads(&self) -> Vec<Tid> {
        self.cast().map_or_else(|| self.live.threads().collect(), Cast::threads)
    }

    pub(crate) fn has_thread(&self, tid: Tid) -> bool {
        self.cast().map_or_else(|| self.live.has_thread(tid), |cast| cast.contains(tid))
    }

    /// The memory without our breakpoints.
    pub(crate) fn memory(&self) -> CleanMemory<'_> {
        match &self.past {
            Some(Past { replica, .. }) => CleanMemory { memory: &replica.memory, overlay: &replica.overlay },
            None => self.live.memory(),
        }
    }

    /// Where a thread stands that does not run at the moment that is looked at; nothing of one that runs.
    fn standing(&self, tid: Tid) -> Result<Option<&Actor>, TraceError> {
        match self.cast() {
            Some(cast) if tid != cast.acting() => {
                cast.others().get(&tid).map(|actor| Some(&**actor)).ok_or(TraceError::Gone)
            }
            _ => Ok(None),
        }
    }

    /// What the registers of a thread tell of a call that it is in.
    pub(crate) fn stage(&self, tid: Tid) -> Stage {
        match self.standing(tid) {
            Ok(Some(_)) => Stage::Off,
            _ if self.is_fixed() => Stage::On,
            _ if self.live.stands_before_call(tid) => Stage::Off,
            _ => Stage::Live,
        }
    }

    /// The system's number of a thread of the live process: what stands for one that was recorded before has another.
    fn live_number(&self, tid: Tid) -> Tid {
        if self.finished.is_some() { self.live.witness() } else { tid }
    }

    pub(crate) fn registers(&self, tid: Tid) -> Result<GeneralRegisters, TraceError> {
        match (self.standing(tid)?, &self.past) {
            (Some(actor), _) => Ok(actor.registers),
            (None, Some(past)) => past.replica.registers(),
            (None, None) => self.live.registers(self.live_number(tid)),
        }
    }

    pub(crate) fn vector_registers(&self, tid: Tid) -> Result<VectorRegisters, TraceError> {
        match (self.standing(tid)?, &self.past) {
            (Some(actor), _) => Ok(actor.vectors.clone()),
            (None, Some(past)) => past.replica.frozen.thread()?.vector_registers(),
            (None, None) => self.live.vector_registers(self.live_number(tid)),
        }
    }

    pub(crate) fn set_registers(&mut self, tid: Tid, registers: &GeneralRegisters) -> Result<(), TraceError> {
        self.live.anchor_exactly()?;
        self.live.set_registers(tid, registers)?;
        self.live.edited()
    }

    pub(crate) fn set_vector_registers(
        &mut self,
        tid: Tid,
        registers: &VectorRegisters,
    ) -> Result<(), TraceError> {
        self.live.anchor_exactly()?;
        self.live.set_vector_registers(tid, registers)?;
        self.live.edited()
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unreadable> {
        self.live.anchor_exactly().map_err(|_| Unreadable(address))?;
        self.live.memory().write(address, bytes)?;
        self.live.edited().map_err(|_| Unreadable(address))
    }

    pub(crate) fn insert_breakpoint(&mut self, address: u64) -> Result<(), Unreadable> {
        match &mut self.past {
            Some(Past { replica, .. }) => replica.overlay.insert(&replica.memory, address),
            None => self.live.insert_breakpoint(address),
        }
    }

    /// Whether there is a breakpoint instruction at an address.
    pub(crate) fn has_breakpoint(&self, address: u64) -> bool {
        match &self.past {
            Some(Past { replica, .. }) => replica.overlay.contains(address),
            None => self.live.overlay().contains(address),
        }
    }

    pub(crate) fn remove_breakpoint(&mut self, address: u64) {
        match &mut self.past {
            Some(Past { replica, .. }) => replica.overlay.remove(&replica.memory, address),
            None => self.live.remove_breakpoint(address),
        }
    }

    /// Takes all breakpoints and watched memory out: they belong to another program.
    pub(crate) fn forget_breakpoints(&mut self) -> Result<(), TraceError> {
        let (none, unwatched) = (Overlay::default(), DebugRegisters::default());
        match &mut self.past {
            Some(Past { replica, .. }) => {
                replica.overlay.adopt(&replica.memory, &none);
                replica.set_debug_registers(unwatched)
            }
            None => {
                self.live.take_over(&none, unwatched);
                Ok(())
            }
        }
    }

    /// Says that the user knows of the breakpoint that `tid` stands at.
    pub(crate) fn pass_breakpoint(&mut self, tid: Tid) {
        if self.past.is_none() {
            self.live.pass_breakpoint(tid);
        }
    }

    pub(crate) fn deliver(&mut self, tid: Tid, signal: c_int) {
        if self.past.is_none() {
            self.live.deliver(tid, signal);
        }
    }

    pub(crate) fn watch(
        &mut self,
        address: u64,
        size: u64,
        kind: WatchKind,
    ) -> Result<Option<Vec<usize>>, TraceError> {
        match &mut self.past {
            Some(past) => past.replica.watch(address, size, kind),
            None => self.live.watch(address, size, kind),
        }
    }

    pub(crate) fn unwatch(&mut self, slots: &[usize]) -> Result<(), TraceError> {
        match &mut self.past {
            Some(past) => past.replica.unwatch(slots),
            None => self.live.unwatch(slots),
        }
    }

    /// Lets everything go on until something is to be told.
    pub(crate) fn run(&mut self, functions: Functions<'_>) -> Result<Halt, TraceError> {
        if self.past.is_some() { self.replay(functions, None) } else { self.going_on()?.run() }
    }

    /// The same of the live program, with conditions judged and hits counted by code beside it where that is possible.
    pub(crate) fn run_sieved(
        &mut self,
        gates: &[LiveGate],
        functions: Functions<'_>,
    ) -> Result<(Halt, Vec<Hits>), TraceError> {
        self.going_on()?.run_sieved(gates, functions)
    }

    /// A thread of the live program that stands at a breakpoint which nobody has judged yet.
    pub(crate) fn take_unjudged(&mut self) -> Option<Tid> {
        if self.past.is_some() { None } else { self.live.take_unjudged() }
    }

    /// Takes that code out of the program.
    pub(crate) fn unmap_sieves(&mut self) -> Result<(), TraceError> {
        self.live.unmap_sieves()
    }

    /// Lets one thread execute one instruction.
    pub(crate) fn step(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if self.past.is_some() { self.replay_step(tid) } else { self.going_on()?.step(tid) }
    }

    /// As [`step`](Self::step), with the other threads running meanwhile.
    pub(crate) fn step_with_others(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if self.past.is_some() { self.replay_step(tid) } else { self.going_on()?.step_with_others(tid) }
    }

    /// As [`step`](Self::step), but it is a hit where the thread stands at a breakpoint that was not
    /// told of.
    pub(crate) fn creep(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if self.past.is_some() { self.replay_step(tid) } else { self.going_on()?.creep(tid) }
    }

    /// Lets everything go on until the wanted program is executed.
    pub(crate) fn await_program(&mut self) -> Result<Waited, TraceError> {
        self.live.await_program()
    }

    /// Begins to record a program that has just been started.
    pub(crate) fn record(&mut self) -> Result<(), TraceError> {
        self.live.record()
    }

    /// Begins to record a program in the middle of its run. An earlier history is gone.
    pub(crate) fn record_running(&mut self, acting: Tid) -> Result<(), TraceError> {
        self.window = None;
        self.interrupted = None;
        self.live.record_running(acting)
    }

    /// Processes that the program made and that a signal ended since this was last asked.
    pub(crate) fn take_crashes(&mut self) -> Vec<Crash> {
        self.live.take_crashes()
    }

    /// Waits for the first process that the program forks.
    pub(crate) fn want_fork(&mut self) {
        self.live.want(Wanted::Forked);
    }

    pub(crate) fn stop_recording(&mut self) -> Result<(), TraceError> {
        self.live.stop_recording()
    }

    pub(crate) fn begin_chaos(&mut self, seed: u64) {
        self.live.begin_chaos(seed);
    }

    pub(crate) fn detach(&mut self) {
        self.forget_past();
        self.live.detach();
    }

    pub(crate) fn terminate(&mut self) {
        self.forget_past();
        self.live.forget_recording();
        self.live.terminate();
    }

    fn forget_past(&mut self) {
        self.past = None;
        self.window = None;
    }
}
