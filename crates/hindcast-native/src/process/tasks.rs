//! Threads: letting them go on, and waiting for what they tell.

use libc::c_int;

use super::{
    Ended, Halt, Process, open_memory,
    task::{Pending, Task, is_about_to_trap, mend, resume_living},
};
use crate::{
    record::random_numbers,
    sys::{self, Bell, DebugRegisters, Event, Resume, Rung, SYSCALL, Stopped, Tid, TraceError},
};

/// What comes to the thread that traces.
pub(super) enum Heard {
    Event(Event),
    Rung(Rung),
    /// The thread on stage waits, and another one could run.
    Asleep,
    /// Nothing can come any more.
    Over,
}

impl Process {
    /// Lets all threads go on until something is to be told. A thread that stands at a breakpoint
    /// that was told of goes past it first.
    pub(crate) fn run(&mut self) -> Result<Halt, TraceError> {
        self.wake();
        loop {
            match self.run_once()? {
                Halt::Breakpoint(tid, _) if self.is_back_from_handler(tid) => self.pass_breakpoint(tid),
                halt => return Ok(halt),
            }
        }
    }

    fn run_once(&mut self) -> Result<Halt, TraceError> {
        // Those on the way past a breakpoint.
        self.forget_steps();
        if let Some(halt) = self.pending_halt() {
            return Ok(halt);
        }
        if self.is_recording() {
            let acting = self.acting();
            return match self.take_stage(acting)? {
                Some(halt) => Ok(halt),
                None => self.wait(),
            };
        }
        self.leave_stage()?;
        let at_breakpoints: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.passed.is_some_and(|address| self.overlay.contains(address)))
            .map(|(&tid, _)| tid)
            .collect();
        for tid in at_breakpoints {
            self.passes = true;
            let halt = self.step_alone(tid);
            self.passes = false;
            match halt? {
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
        self.wake();
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
        self.wake();
        if let Some(halt) = self.pending_halt() {
            return Ok(halt);
        }
        if self.is_recording() {
            return self.step_recorded(tid);
        }
        let registers = self.registers(tid)?;
        let pops_flags = sys::behind_popped_flags(&self.memory, registers).is_some();
        if self.overlay.contains(registers.pc()) || pops_flags {
            // A breakpoint is out of the memory for a moment, and nobody else may run past it. Flags are popped by us.
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
        self.wake();
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
        if task.signal == 0
            && let Some(behind) = sys::behind_popped_flags(&self.memory, task.registers()?)
        {
            task.set_registers(&behind)?;
            if lifted {
                self.overlay.lower(&self.memory, here);
            }
            return Ok(Halt::Stepped(tid));
        }
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
        let registers = self.registers(tid)?;
        if registers.is_call_interrupted() {
            return Ok(true);
        }
        let mut code = [0; 2];
        let count = self.memory().read_some(registers.pc(), &mut code);
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
                Pending::Stepped => Halt::Stepped(tid),
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
            let heard = if std::mem::take(&mut self.rung_meanwhile) {
                Some(Heard::Rung(Rung { interrupt: true, beat: false }))
            } else {
                self.hear_in_turns()?
            };
            let halt = match heard {
                Some(Heard::Asleep) => self.give_way()?,
                Some(Heard::Over) => Some(self.over(Ended::Killed(libc::SIGKILL))),
                Some(Heard::Rung(rung)) => self.rung(rung)?,
                Some(Heard::Event(event)) => self.consider(event)?,
                None => None,
            };
            let halt = if self.must_leave_sieves() {
                // Whoever runs next comes to the program's own code.
                halt.or(Some(Halt::Stepped(self.witness())))
            } else {
                self.everybody_goes_on()?;
                halt
            };
            let Some(halt) = halt.or_else(|| self.found_halt()) else { continue };
            if !matches!(halt, Halt::Ended(_)) {
                self.stop_all()?;
            }
            return Ok(match (self.ended, self.became_another.take()) {
                (Some(ended), _) => Halt::Ended(ended),
                // Of the thread that has something to tell nothing is left.
                (None, Some(tid)) => Halt::Exec(tid),
                (None, None) => halt,
            });
        }
    }

    /// What comes next, or with `WNOHANG` only what has come.
    pub(super) fn hear(&mut self, how: c_int) -> Result<Option<Heard>, TraceError> {
        // The end can have been taken along with an earlier wait.
        if self.life.is_over() {
            return Ok(Some(Heard::Over));
        }
        let rung = self.bell.as_ref().map(Bell::rung).unwrap_or_default();
        if rung != Rung::default() {
            return Ok(Some(Heard::Rung(rung)));
        }
        let waited =
            if how == libc::WNOHANG { sys::wait_for_any_now() } else { sys::wait_for_any().map(Some) };
        match waited {
            Ok(Some(event)) => Ok(Some(match self.bell.as_mut().map(|bell| bell.hear(event)) {
                Some(Ok(rung)) => Heard::Rung(rung),
                Some(Err(event)) => {
                    let event = self.off_sieve(event)?;
                    Heard::Event(self.off_page(event)?)
                }
                None => Heard::Over,
            })),
            Ok(None) => Ok(None),
            Err(TraceError::Gone) => Ok(Some(Heard::Over)),
            Err(error) => Err(error),
        }
    }

    fn rung(&mut self, rung: Rung) -> Result<Option<Halt>, TraceError> {
        if rung.beat && self.is_turn_over() {
            self.ask_for_turn()?;
        } else if rung.beat
            && self.is_checkpoint_due()
            && !self.ask_for_call()
            && let Some(task) = self.tasks.get(&self.acting()).filter(|task| task.how == Resume::Call)
        {
            task.interrupt()?;
            self.asked_for_checkpoint = true;
        }
        Ok(rung.interrupt.then(|| Halt::Interrupted(self.acting())))
    }

    pub(super) fn over(&mut self, ended: Ended) -> Halt {
        self.leave_frontier();
        let ended = *self.ended.get_or_insert(ended);
        self.tasks.clear();
        Halt::Ended(ended)
    }

    /// Deals with an event, and returns what is to be told of it.
    pub(super) fn consider(&mut self, event: Event) -> Result<Option<Halt>, TraceError> {
        match event {
            Event::Exited(tid, code) => Ok(self.gone(tid, Ended::Exited(code))),
            Event::Killed(tid, signal) => Ok(self.gone(tid, Ended::Killed(signal))),
            Event::Signal(stopped, signal) if self.knows(&stopped) => self.signalled(stopped, signal),
            Event::Signal(stopped, signal) => {
                self.companions.signalled(stopped, signal);
                Ok(None)
            }
            Event::Stop(stopped, signal) => self.new_or_stopped(stopped, signal),
            Event::Call(stopped) if self.is_off_stage(stopped.tid()) => self.park(stopped).map(|()| None),
            Event::Call(stopped) if self.is_recorded(stopped.tid()) => self.called(stopped),
            Event::Exec(stopped) if stopped.tid() == self.pid => self.executed(stopped).map(Some),
            Event::Exec(stopped) => Ok(self.executed_beside(stopped)),
            other => {
                if let Some(stopped) = self.note_made(other) {
                    self.go_on(stopped)?;
                }
                Ok(None)
            }
        }
    }

    pub(super) fn knows(&self, stopped: &Stopped) -> bool {
        self.tasks.contains_key(&stopped.tid())
    }

    /// Takes note of threads and processes that are made; the thread that told goes on or not, as the caller wants.
    pub(super) fn note_made(&mut self, event: Event) -> Option<Stopped> {
        match event {
            Event::Clone(stopped, made) => {
                if self.knows(&stopped) && !self.tasks.contains_key(&made) && !self.companions.knows(made) {
                    self.awaited.insert(made);
                }
                if !self.knows(&stopped) {
                    self.companions.made_thread(made);
                }
                if let Some(recorder) = self.recorder.as_mut().filter(|_| stopped.tid() == self.pid) {
                    recorder.made_thread();
                }
                Some(stopped)
            }
            Event::Fork(stopped, child) => {
                self.companions.expect(child);
                self.made_process(stopped.tid(), child, true);
                Some(stopped)
            }
            Event::Vfork(stopped, child) => {
                self.companions.expect(child);
                self.made_process(stopped.tid(), child, false);
                if self.knows(&stopped) {
                    // The child runs in this memory; our breakpoints would kill it.
                    self.overlay.lift_all(&self.memory);
                }
                Some(stopped)
            }
            Event::VforkDone(stopped) => {
                if self.knows(&stopped) {
                    self.overlay.lower_all(&self.memory);
                    if let Some(recorder) = &self.recorder {
                        // They were given back to the child, in this memory.
                        let places = recorder.random_numbers().iter().copied();
                        random_numbers::take_out_again(&self.memory, places);
                    }
                }
                Some(stopped)
            }
            Event::Call(stopped)
            | Event::Other(stopped)
            | Event::Signal(stopped, _)
            | Event::Stop(stopped, _)
            | Event::Exec(stopped) => Some(stopped),
            Event::Exited(..) | Event::Killed(..) => None,
        }
    }

    fn gone(&mut self, tid: Tid, how: Ended) -> Option<Halt> {
        self.awaited.remove(&tid);
        if tid == self.pid {
            return Some(self.over(how));
        }
        self.companions.forget(tid);
        let was_ours = self.tasks.remove(&tid).is_some();
        // The end of a first thread that ended before we came is told to others.
        if was_ours && self.is_headless && self.tasks.is_empty() && self.awaited.is_empty() {
            return Some(self.over(how));
        }
        None
    }

    /// A thread goes on after an event that nobody needs to hear of.
    pub(super) fn go_on(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        match self.tasks.get_mut(&tid) {
            Some(task) => {
                task.put(stopped);
                let how = task.how;
                resume_living(task, how)
            }
            None => {
                self.companions.resume(stopped, 0);
                Ok(())
            }
        }
    }

    fn new_or_stopped(&mut self, stopped: Stopped, signal: c_int) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        if self.knows(&stopped) {
            mend(&stopped)?;
            // We interrupted it for a checkpoint, or too late. A signal that stops the whole process was told of before
            // it was let through: who lets it go on then wants it to.
            if is_about_to_trap(&stopped)? {
                return self.go_on(stopped).map(|()| None);
            }
            // While it steps over a breakpoint, that is not in the memory: nobody else may run past it.
            if !self.alone && tid == self.acting() && std::mem::take(&mut self.asked_for_turn) {
                return self.preempt(stopped);
            }
            let (stopped, halt) = self.checkpoint_if_asked(stopped)?;
            if halt.is_some() {
                self.put(stopped);
                return Ok(halt);
            }
            return self.go_on(stopped).map(|()| None);
        }
        self.begin(stopped, signal)?;
        // A breakpoint that is being stepped over is not in the memory: nobody else may run past it.
        if !self.alone
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            resume_living(task, Resume::Continue)?;
        }
        Ok(None)
    }

    /// A thread or process that was made stands at its first instruction.
    pub(super) fn begin(&mut self, stopped: Stopped, signal: c_int) -> Result<(), TraceError> {
        self.awaited.remove(&stopped.tid());
        if self.is_thread(stopped.tid()) {
            return self.adopt(stopped);
        }
        let Some(stopped) = self.keep_newborn(stopped) else { return Ok(()) };
        match self.release_companion(stopped) {
            Ok(stopped) => self.companions.begin(stopped, signal, &self.overlay, self.owned),
            // It was killed, and tells so itself.
            Err(TraceError::Gone) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_thread(&self, tid: Tid) -> bool {
        !self.companions.expects(tid)
            && std::path::Path::new(&format!("/proc/{}/task/{}", self.pid.0, tid.0)).exists()
    }

    pub(super) fn adopt(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        if !self.debug_registers.is_empty() {
            match self.debug_registers.apply(&stopped) {
                // It was killed, and tells so itself.
                Ok(()) | Err(TraceError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let mut task = Task::stopped(stopped);
        task.watches = self.debug_registers;
        self.lead_through_sieves(&mut task);
        self.tasks.insert(tid, task);
        Ok(())
    }

    pub(super) fn executed(&mut self, stopped: Stopped) -> Result<Halt, TraceError> {
        // All other threads are gone without a word, and so is the memory.
        self.tasks.clear();
        self.awaited.clear();
        self.is_headless = false;
        self.is_staged = false;
        self.rests = false;
        self.overlay.clear();
        self.forget_sieves();
        self.debug_registers = DebugRegisters::default();
        self.memory = open_memory(self.pid)?;
        self.keep()?;
        let stopped = self.recorded_exec(stopped)?;
        let tid = stopped.tid();
        self.tasks.insert(tid, Task::stopped(stopped));
        self.note_page();
        Ok(Halt::Exec(tid))
    }

    pub(super) fn put(&mut self, stopped: Stopped) {
        if let Some(task) = self.tasks.get_mut(&stopped.tid()) {
            task.put(stopped);
        }
    }

    /// The user has seen where everything stands: steps that were cut short are over.
    pub(crate) fn forget_steps(&mut self) {
        for task in self.tasks.values_mut() {
            if matches!(task.pending, Some(Pending::Stepped)) {
                task.pending = None;
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
            Event::Clone(_, child) | Event::Fork(_, child) | Event::Vfork(_, child) => sys::kill(child),
            // Whatever it is, it does not outlive its signal.
            Event::Signal(stopped, _) | Event::Stop(stopped, _) | Event::Other(stopped) => {
                sys::kill(stopped.tid());
            }
            Event::Call(_) | Event::VforkDone(_) | Event::Exec(_) => {}
        }
    }
}
