//! Threads: letting them go on, waiting, stopping them all.

use libc::c_int;

use super::{Ended, Halt, Process};
use crate::sys::{
    self, DebugRegisters, Event, GeneralRegisters, Resume, Running, SignalDetails, SignalInfo, Stopped, Tid,
    TraceError,
};

/// A thread of the process.
pub(super) struct Task {
    handle: Handle,
    /// Something that happened while another thread's event was being told.
    pub(super) pending: Option<Pending>,
    /// What it is to receive when it goes on.
    pub(super) signal: c_int,
    /// All that is known of the last signal that was told of.
    pub(super) info: Option<SignalInfo>,
    /// Whether it makes a step that is a system call.
    pub(super) in_call_step: bool,
    /// How it was last resumed: after an event that nobody needs to hear of it goes on so.
    pub(super) how: Resume,
    /// The breakpoint at this address was told of: it is not hit again before the thread moved.
    pub(super) passed: Option<u64>,
    /// Where a signal handler returns to that was called before the thread had passed a breakpoint.
    pub(super) interrupted: Option<GeneralRegisters>,
}

enum Handle {
    Running(Running),
    Stopped(Stopped),
    /// Only while it is turned from one into the other, or was killed.
    Gone,
}

/// An event that waits to be told.
#[derive(Debug)]
pub(super) enum Pending {
    Signal(SignalDetails),
    Watch(Vec<usize>),
}

impl Task {
    pub(super) fn stopped(handle: Stopped) -> Self {
        Self {
            handle: Handle::Stopped(handle),
            pending: None,
            signal: 0,
            info: None,
            in_call_step: false,
            how: Resume::Continue,
            passed: None,
            interrupted: None,
        }
    }

    pub(super) fn running(handle: Running) -> Self {
        Self {
            handle: Handle::Running(handle),
            pending: None,
            signal: 0,
            info: None,
            in_call_step: false,
            how: Resume::Continue,
            passed: None,
            interrupted: None,
        }
    }

    pub(super) fn handle(&self) -> Result<&Stopped, TraceError> {
        match &self.handle {
            Handle::Stopped(stopped) => Ok(stopped),
            Handle::Running(_) | Handle::Gone => Err(TraceError::Gone),
        }
    }

    pub(super) fn into_handle(self) -> Result<Stopped, TraceError> {
        match self.handle {
            Handle::Stopped(stopped) => Ok(stopped),
            Handle::Running(_) | Handle::Gone => Err(TraceError::Gone),
        }
    }

    pub(super) fn registers(&self) -> Result<GeneralRegisters, TraceError> {
        self.handle()?.registers()
    }

    pub(super) fn set_registers(&mut self, registers: &GeneralRegisters) -> Result<(), TraceError> {
        self.handle()?.set_registers(registers)
    }

    fn is_running(&self) -> bool {
        matches!(self.handle, Handle::Running(_))
    }

    /// Takes the thread, to have it do something for us; [`Self::put`] gives it back.
    pub(super) fn take(&mut self) -> Result<Stopped, TraceError> {
        match std::mem::replace(&mut self.handle, Handle::Gone) {
            Handle::Stopped(stopped) => Ok(stopped),
            other => {
                self.handle = other;
                Err(TraceError::Gone)
            }
        }
    }

    pub(super) fn put(&mut self, stopped: Stopped) {
        self.handle = Handle::Stopped(stopped);
    }

    pub(super) fn resume(&mut self, how: Resume) -> Result<(), TraceError> {
        match std::mem::replace(&mut self.handle, Handle::Gone) {
            Handle::Stopped(stopped) => {
                let signal = std::mem::take(&mut self.signal);
                if let Some(info) = self.info.take().filter(|info| info.number() == signal) {
                    // It may have done something for us since it stopped for the signal.
                    stopped.set_signal(&info)?;
                }
                self.how = how;
                self.passed = None;
                self.handle = Handle::Running(stopped.resume(how, signal)?);
                Ok(())
            }
            other => {
                self.handle = other;
                Ok(())
            }
        }
    }
}

impl Process {
    /// Lets all threads go on until something is to be told. A thread that stands at a breakpoint
    /// that was told of goes past it first.
    pub(crate) fn run(&mut self) -> Result<Halt, TraceError> {
        loop {
            match self.run_once()? {
                Halt::Breakpoint(tid, _) if self.is_back_from_handler(tid) => self.pass_breakpoint(tid),
                halt => return Ok(halt),
            }
        }
    }

    fn run_once(&mut self) -> Result<Halt, TraceError> {
        if let Some(halt) = self.pending_halt() {
            return Ok(halt);
        }
        if let Some(halt) = self.deliver_recorded()? {
            return Ok(halt);
        }
        let at_breakpoints: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.passed.is_some_and(|address| self.overlay.contains(address)))
            .map(|(&tid, _)| tid)
            .collect();
        for tid in at_breakpoints {
            match self.step_alone(tid)? {
                Halt::Stepped(_) => {}
                halt => return Ok(halt),
            }
        }
        let pace = self.pace();
        for task in self.tasks.values_mut() {
            resume_living(task, pace)?;
        }
        self.wait()
    }

    /// Lets one thread execute one instruction. The others stand still, unless the instruction may
    /// wait for them.
    pub(crate) fn step(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if let Some(halt) = self.pending_halt() {
            return Ok(halt);
        }
        if self.is_recording() {
            return self.step_recorded(tid);
        }
        if self.is_at_system_call(tid)? { self.step_with_others(tid) } else { self.step_alone(tid) }
    }

    /// As [`step`](Self::step), with the other threads running meanwhile.
    pub(crate) fn step_with_others(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if self.is_recording() {
            return self.step_recorded(tid);
        }
        let here = self.registers(tid)?.pc();
        if self.overlay.contains(here) {
            // Out of the memory for a moment: nobody else may run past it meanwhile.
            return self.step_alone(tid);
        }
        for (&other, task) in &mut self.tasks {
            resume_living(task, if other == tid { Resume::Step } else { Resume::Continue })?;
        }
        self.wait()
    }

    /// Lets one thread execute one instruction, for whoever runs by steps: unlike a step, it is a hit
    /// where the thread stands at a breakpoint that was not told of.
    pub(crate) fn creep(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if let Some(halt) = self.pending_halt() {
            return Ok(halt);
        }
        let here = self.registers(tid)?.pc();
        if self.overlay.contains(here) && self.task(tid)?.passed != Some(here) {
            return Ok(Halt::Breakpoint(tid, here));
        }
        if self.is_recording() || self.tasks.len() > 1 {
            self.step_with_others(tid)
        } else {
            self.step_alone(tid)
        }
    }

    pub(super) fn step_alone(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        let here = self.registers(tid)?.pc();
        let lifted = self.overlay.contains(here);
        if lifted {
            self.overlay.lift(&self.memory, here);
        }
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        let passed = task.passed;
        let before = task.registers().ok();
        let resumed = resume_living(task, Resume::Step);
        self.alone = true;
        let halt = resumed.and_then(|()| self.wait());
        self.alone = false;
        if lifted && self.ended.is_none() {
            self.overlay.lower(&self.memory, here);
            self.keep_passed(tid, here, passed, &halt);
            self.note_handler(tid, before);
        }
        halt
    }

    /// What came before the step was made does not make the breakpoint there a new one.
    pub(super) fn keep_passed(
        &mut self,
        tid: Tid,
        here: u64,
        passed: Option<u64>,
        halt: &Result<Halt, TraceError>,
    ) {
        if !matches!(halt, Ok(Halt::Stepped(_) | Halt::Watch(..)))
            && let Some(task) = self.tasks.get_mut(&tid)
            && task.registers().is_ok_and(|registers| registers.pc() == here)
        {
            task.passed = passed;
        }
    }

    pub(super) fn is_at_system_call(&self, tid: Tid) -> Result<bool, TraceError> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let mut code = [0; 2];
        let count = self.memory().read_some(self.registers(tid)?.pc(), &mut code);
        Ok(count == 2 && code == SYSCALL)
    }

    fn pending_halt(&mut self) -> Option<Halt> {
        if let Some(ended) = self.ended {
            return Some(Halt::Ended(ended));
        }
        if let Some(halt) = self.held_halt() {
            return Some(halt);
        }
        self.tasks.iter_mut().find_map(|(&tid, task)| {
            Some(match task.pending.take()? {
                Pending::Signal(details) => Halt::Signal(tid, details),
                Pending::Watch(slots) => Halt::Watch(tid, slots),
            })
        })
    }

    /// Waits for something to tell, and then stops all threads.
    pub(super) fn wait(&mut self) -> Result<Halt, TraceError> {
        self.set_running(true);
        let halt = self.wait_running();
        self.set_running(false);
        halt
    }

    fn wait_running(&mut self) -> Result<Halt, TraceError> {
        loop {
            let event = match sys::wait_for_any() {
                Ok(event) => event,
                // The leader's end was taken along with an earlier wait.
                Err(TraceError::Gone) => return Ok(self.over(Ended::Killed(libc::SIGKILL))),
                Err(error) => return Err(error),
            };
            if let Some(halt) = self.consider(event)? {
                if !matches!(halt, Halt::Ended(_)) {
                    self.stop_all()?;
                }
                return Ok(match self.ended {
                    Some(ended) => Halt::Ended(ended),
                    None => halt,
                });
            }
        }
    }

    pub(super) fn over(&mut self, ended: Ended) -> Halt {
        self.leave_frontier();
        let ended = *self.ended.get_or_insert(ended);
        self.tasks.clear();
        Halt::Ended(ended)
    }

    /// Deals with an event, and returns what is to be told of it.
    fn consider(&mut self, event: Event) -> Result<Option<Halt>, TraceError> {
        match event {
            Event::Exited(tid, code) => Ok(self.gone(tid, Ended::Exited(code))),
            Event::Killed(tid, signal) => Ok(self.gone(tid, Ended::Killed(signal))),
            Event::Signal(stopped, signal) if self.tasks.contains_key(&stopped.tid()) => {
                self.signalled(stopped, signal)
            }
            Event::Signal(stopped, signal) => {
                self.companions.resume(stopped, signal);
                Ok(None)
            }
            Event::Stop(stopped, signal) => {
                self.new_or_stopped(stopped, signal)?;
                Ok(None)
            }
            Event::Call(stopped) if self.is_recorded(stopped.tid()) => self.called(stopped),
            Event::Call(stopped) | Event::Clone(stopped) | Event::Other(stopped) => {
                self.go_on(stopped)?;
                Ok(None)
            }
            Event::Fork(stopped, child) => {
                self.companions.expect(child);
                self.go_on(stopped)?;
                Ok(None)
            }
            Event::Vfork(stopped, child) => {
                self.companions.expect(child);
                if self.tasks.contains_key(&stopped.tid()) {
                    // The child runs in this memory; our breakpoints would kill it.
                    self.overlay.lift_all(&self.memory);
                }
                self.go_on(stopped)?;
                Ok(None)
            }
            Event::VforkDone(stopped) => {
                if self.tasks.contains_key(&stopped.tid()) {
                    self.overlay.lower_all(&self.memory);
                }
                self.go_on(stopped)?;
                Ok(None)
            }
            Event::Exec(stopped) if stopped.tid() == self.pid => self.executed(stopped).map(Some),
            Event::Exec(stopped) => {
                self.companions.resume(stopped, 0);
                Ok(None)
            }
        }
    }

    fn gone(&mut self, tid: Tid, how: Ended) -> Option<Halt> {
        if tid == self.pid {
            return Some(self.over(how));
        }
        self.companions.forget(tid);
        self.tasks.remove(&tid);
        None
    }

    /// A thread goes on after an event that nobody needs to hear of.
    fn go_on(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        match self.tasks.get_mut(&tid) {
            Some(task) => {
                task.handle = Handle::Stopped(stopped);
                let how = task.how;
                resume_living(task, how)
            }
            None => {
                self.companions.resume(stopped, 0);
                Ok(())
            }
        }
    }

    fn new_or_stopped(&mut self, stopped: Stopped, signal: c_int) -> Result<(), TraceError> {
        let tid = stopped.tid();
        if let Some(task) = self.tasks.get_mut(&tid) {
            // Our own interruptions are asked for elsewhere. A signal that stops the whole process was told
            // of before it was let through: who lets it go on then wants it to.
            task.handle = Handle::Stopped(stopped);
            let how = task.how;
            return resume_living(task, how);
        }
        if self.is_thread(tid) {
            self.adopt(stopped)?;
            // A breakpoint that is being stepped over is not in the memory: nobody else may run past it.
            if !self.alone {
                let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
                resume_living(task, Resume::Continue)?;
            }
            return Ok(());
        }
        let stopped = self.release_companion(stopped)?;
        self.companions.begin(stopped, signal, &self.overlay, self.owned);
        Ok(())
    }

    fn is_thread(&self, tid: Tid) -> bool {
        !self.companions.expects(tid)
            && std::path::Path::new(&format!("/proc/{}/task/{}", self.pid.0, tid.0)).exists()
    }

    fn adopt(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        if !self.debug_registers.is_empty() {
            self.debug_registers.apply(&stopped)?;
        }
        self.tasks.insert(stopped.tid(), Task::stopped(stopped));
        Ok(())
    }

    fn executed(&mut self, stopped: Stopped) -> Result<Halt, TraceError> {
        // All other threads are gone without a word, and so is the memory.
        self.tasks.clear();
        self.overlay.clear();
        self.debug_registers = DebugRegisters::default();
        self.memory = sys::ProcessMemory::open(self.pid)
            .map_err(|source| TraceError::System { what: "cannot open the memory of the process", source })?;
        let stopped = self.recorded_exec(stopped)?;
        let tid = stopped.tid();
        self.tasks.insert(tid, Task::stopped(stopped));
        Ok(Halt::Exec(tid))
    }

    /// Stops every thread that runs. What happens to one meanwhile is told later.
    pub(super) fn stop_all(&mut self) -> Result<(), TraceError> {
        for task in self.tasks.values() {
            if let Handle::Running(running) = &task.handle {
                match running.interrupt() {
                    Ok(()) | Err(TraceError::Gone) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        while self.tasks.values().any(Task::is_running) {
            let event = match sys::wait_for_any() {
                Ok(event) => event,
                Err(TraceError::Gone) => {
                    self.over(Ended::Killed(libc::SIGKILL));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.hold(event)?;
            if self.ended.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Deals with an event while everything is being stopped.
    fn hold(&mut self, event: Event) -> Result<(), TraceError> {
        match event {
            Event::Signal(stopped, signal) if self.tasks.contains_key(&stopped.tid()) => {
                let pending = match self.read_signal(&stopped, signal)? {
                    Some(Halt::Signal(_, details)) => Some(Pending::Signal(details)),
                    Some(Halt::Watch(_, slots)) => Some(Pending::Watch(slots)),
                    // It stands before the breakpoint again, and hits it when it goes on, unless
                    // that was removed by then. A step or an interruption needs no telling now.
                    _ => None,
                };
                self.put(stopped, pending);
                Ok(())
            }
            Event::Stop(stopped, _) if self.tasks.contains_key(&stopped.tid()) => {
                self.put(stopped, None);
                Ok(())
            }
            Event::Stop(stopped, _) if self.is_thread(stopped.tid()) => self.adopt(stopped),
            Event::Clone(stopped) | Event::Other(stopped) if self.tasks.contains_key(&stopped.tid()) => {
                self.put(stopped, None);
                Ok(())
            }
            Event::Fork(stopped, child) if self.tasks.contains_key(&stopped.tid()) => {
                self.companions.expect(child);
                self.put(stopped, None);
                Ok(())
            }
            // A thread that waits for its vfork cannot be stopped before that is done.
            other => self.consider(other).map(drop),
        }
    }

    fn put(&mut self, stopped: Stopped, pending: Option<Pending>) {
        if let Some(task) = self.tasks.get_mut(&stopped.tid()) {
            task.handle = Handle::Stopped(stopped);
            if pending.is_some() {
                task.pending = pending;
            }
        }
    }

    /// How the process has ended, if it did while it stood still: somebody else killed it.
    pub(crate) fn notice_death(&mut self) -> Option<Ended> {
        if self.ended.is_some() {
            return None;
        }
        // The system tells of the first thread's death only when the others' were heard.
        let others = self.tasks.keys().copied().filter(|&tid| tid != self.pid);
        for tid in others.chain([self.pid]).collect::<Vec<_>>() {
            if let Some(event) = sys::death_of(tid) {
                self.note_death(event);
            }
        }
        self.ended
    }

    /// For the end: everything but deaths is ignored.
    pub(super) fn note_death(&mut self, event: Event) {
        match event {
            Event::Exited(tid, code) => drop(self.gone(tid, Ended::Exited(code))),
            Event::Killed(tid, signal) => drop(self.gone(tid, Ended::Killed(signal))),
            Event::Fork(_, child) | Event::Vfork(_, child) => sys::kill(child),
            // Whatever it is, it does not outlive its signal.
            Event::Signal(stopped, _) | Event::Stop(stopped, _) | Event::Other(stopped) => {
                sys::kill(stopped.tid());
            }
            Event::Call(_) | Event::Clone(_) | Event::VforkDone(_) | Event::Exec(_) => {}
        }
    }
}

/// Resumes a thread; one that was killed meanwhile tells so by its own event.
pub(super) fn resume_living(task: &mut Task, how: Resume) -> Result<(), TraceError> {
    match task.resume(how) {
        Ok(()) | Err(TraceError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
