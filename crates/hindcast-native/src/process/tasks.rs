//! Threads: letting them go on, waiting, stopping them all.

use std::time::Duration;

use libc::c_int;

use super::{Ended, Halt, Process, open_memory};
use crate::sys::{
    self, Bell, Call, DebugRegisters, Event, GeneralRegisters, Resume, Rung, Running, SignalDetails, SignalInfo, Stopped,
    Tid, TraceError,
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
    Stepped,
}

/// What comes to the thread that traces.
enum Heard {
    Event(Event),
    Rung(Rung),
    /// Nothing can come any more.
    Over,
}

/// How often it is looked whether the first thread has ended, which nobody tells.
const GLANCE: Duration = Duration::from_millis(1);

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
                self.hear(0)?
            };
            let halt = match heard {
                Some(Heard::Over) => Some(self.over(Ended::Killed(libc::SIGKILL))),
                Some(Heard::Rung(rung)) => self.rung(rung)?,
                Some(Heard::Event(event)) => self.consider(event)?,
                None => None,
            };
            let Some(halt) = halt else { continue };
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
    fn hear(&mut self, how: c_int) -> Result<Option<Heard>, TraceError> {
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
            Ok(Some(event)) => Ok(Some(match self.bell.as_ref().map(|bell| bell.hear(event)) {
                Some(Ok(rung)) => Heard::Rung(rung),
                Some(Err(event)) => Heard::Event(event),
                None => Heard::Over,
            })),
            Ok(None) => Ok(None),
            Err(TraceError::Gone) => Ok(Some(Heard::Over)),
            Err(error) => Err(error),
        }
    }

    fn rung(&mut self, rung: Rung) -> Result<Option<Halt>, TraceError> {
        if rung.beat
            && self.is_checkpoint_due()
            && let Some(Task { handle: Handle::Running(running), how: Resume::Call, .. }) =
                self.tasks.get(&self.pid)
        {
            match running.interrupt() {
                Ok(()) => self.asked_for_checkpoint = true,
                Err(TraceError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rung.interrupt.then(|| Halt::Interrupted(self.witness())))
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
            Event::Signal(stopped, signal) if self.knows(&stopped) => self.signalled(stopped, signal),
            Event::Signal(stopped, signal) => {
                self.companions.resume(stopped, signal);
                Ok(None)
            }
            Event::Stop(stopped, signal) => self.new_or_stopped(stopped, signal),
            Event::Call(stopped) if self.is_recorded(stopped.tid()) => self.called(stopped),
            Event::Exec(stopped) if stopped.tid() == self.pid => self.executed(stopped).map(Some),
            Event::Exec(stopped) => {
                self.companions.resume(stopped, 0);
                Ok(None)
            }
            other => {
                if let Some(stopped) = self.note_made(other) {
                    self.go_on(stopped)?;
                }
                Ok(None)
            }
        }
    }

    fn knows(&self, stopped: &Stopped) -> bool {
        self.tasks.contains_key(&stopped.tid())
    }

    /// Takes note of threads and processes that are made; the thread that told goes on or not, as the caller wants.
    fn note_made(&mut self, event: Event) -> Option<Stopped> {
        match event {
            Event::Clone(stopped, made) => {
                if self.knows(&stopped) && !self.tasks.contains_key(&made) && !self.companions.knows(made) {
                    self.awaited.insert(made);
                }
                Some(stopped)
            }
            Event::Fork(stopped, child) => {
                self.companions.expect(child);
                Some(stopped)
            }
            Event::Vfork(stopped, child) => {
                self.companions.expect(child);
                if self.knows(&stopped) {
                    // The child runs in this memory; our breakpoints would kill it.
                    self.overlay.lift_all(&self.memory);
                }
                Some(stopped)
            }
            Event::VforkDone(stopped) => {
                if self.knows(&stopped) {
                    self.overlay.lower_all(&self.memory);
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

    fn new_or_stopped(&mut self, stopped: Stopped, signal: c_int) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        if self.knows(&stopped) {
            mend(&stopped)?;
            // We interrupted it for a checkpoint, or too late. A signal that stops the whole process was told of before
            // it was let through: who lets it go on then wants it to.
            if is_about_to_trap(&stopped)? {
                return self.go_on(stopped).map(|()| None);
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
    fn begin(&mut self, stopped: Stopped, signal: c_int) -> Result<(), TraceError> {
        self.awaited.remove(&stopped.tid());
        if self.is_thread(stopped.tid()) {
            return self.adopt(stopped);
        }
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

    fn adopt(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        if !self.debug_registers.is_empty() {
            match self.debug_registers.apply(&stopped) {
                // It was killed, and tells so itself.
                Ok(()) | Err(TraceError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        self.tasks.insert(stopped.tid(), Task::stopped(stopped));
        Ok(())
    }

    fn executed(&mut self, stopped: Stopped) -> Result<Halt, TraceError> {
        // All other threads are gone without a word, and so is the memory.
        self.tasks.clear();
        self.awaited.clear();
        self.is_headless = false;
        self.rests = false;
        self.overlay.clear();
        self.debug_registers = DebugRegisters::default();
        self.memory = open_memory(self.pid)?;
        self.keep()?;
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
        while self.ended.is_none() && (!self.awaited.is_empty() || self.tasks.values().any(Task::is_running)) {
            match self.hear(if self.is_first_left() { libc::WNOHANG } else { 0 })? {
                Some(Heard::Over) => drop(self.over(Ended::Killed(libc::SIGKILL))),
                // Not now, but when it moves again.
                Some(Heard::Rung(rung)) => self.rung_meanwhile |= rung.interrupt,
                Some(Heard::Event(event)) => self.hold(event)?,
                None if sys::is_zombie(self.pid, self.pid) => drop(self.tasks.remove(&self.pid)),
                None => std::thread::sleep(GLANCE),
            }
        }
        Ok(())
    }

    /// Waits for processes that were made just now: they have copies of our breakpoints.
    pub(super) fn receive_companions(&mut self) -> Result<(), TraceError> {
        while self.ended.is_none() && self.companions.expects_any() {
            match self.hear(0)? {
                Some(Heard::Over) => drop(self.over(Ended::Killed(libc::SIGKILL))),
                Some(Heard::Event(event)) => self.hold(event)?,
                Some(Heard::Rung(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Whether only the first thread still runs, as far as is known: while there are others, nobody tells its end.
    fn is_first_left(&self) -> bool {
        self.awaited.is_empty()
            && self.tasks.len() > 1
            && self.tasks.iter().all(|(&tid, task)| tid == self.pid || !task.is_running())
    }

    /// Deals with an event while everything is being stopped. It means what it would mean alone, but whoever it is about
    /// stays where they are: a stop takes our interruption away, so that one who went on would not be stopped again.
    fn hold(&mut self, event: Event) -> Result<(), TraceError> {
        match event {
            Event::Signal(stopped, signal) if self.knows(&stopped) => self.hold_signal(stopped, signal),
            Event::Stop(stopped, _) if self.knows(&stopped) => self.hold_stop(stopped),
            Event::Stop(stopped, signal) => self.begin(stopped, signal),
            Event::Call(stopped) if self.is_recorded(stopped.tid()) => self.hold_call(stopped),
            Event::Exec(stopped) if stopped.tid() == self.pid => {
                self.executed(stopped)?;
                self.became_another = Some(self.pid);
                Ok(())
            }
            Event::Call(ref stopped)
            | Event::Clone(ref stopped, _)
            | Event::Fork(ref stopped, _)
            | Event::Vfork(ref stopped, _)
            | Event::VforkDone(ref stopped)
            | Event::Other(ref stopped)
                if self.knows(stopped) =>
            {
                if let Some(stopped) = self.note_made(event) {
                    self.put(stopped);
                }
                Ok(())
            }
            // Deaths, and what other processes do.
            other => self.consider(other).map(drop),
        }
    }

    fn hold_stop(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        mend(&stopped)?;
        let traps = is_about_to_trap(&stopped)?;
        self.put(stopped);
        if let Some(task) = self.tasks.get_mut(&tid).filter(|_| traps) {
            // It does nothing before it is told of that.
            let how = task.how;
            resume_living(task, Resume::Continue)?;
            task.how = how;
        }
        Ok(())
    }

    fn hold_signal(&mut self, stopped: Stopped, signal: c_int) -> Result<(), TraceError> {
        let tid = stopped.tid();
        mend(&stopped)?;
        let halt = match self.answered_instruction(&stopped, signal)? {
            true => Some(Halt::Stepped(tid)),
            false => self.read_signal(&stopped, signal)?,
        };
        let info = stopped.signal().ok();
        self.put(stopped);
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        task.info = info;
        match halt {
            Some(Halt::Stepped(_)) if task.how != Resume::Step => {}
            Some(halt) => self.hold_halt(tid, halt),
            None => {}
        }
        Ok(())
    }

    fn hold_call(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        let begins = matches!(stopped.call()?, Call::Entry { .. });
        if let Some(halt) = self.call_noted(stopped)? {
            self.hold_halt(tid, halt);
        } else if begins && let Some(task) = self.tasks.get_mut(&tid) {
            // Where a call begins the process cannot be copied.
            resume_living(task, Resume::Call)?;
            if let Handle::Running(running) = &task.handle {
                match running.interrupt() {
                    Ok(()) | Err(TraceError::Gone) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Keeps what is to be told of a thread.
    fn hold_halt(&mut self, tid: Tid, halt: Halt) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        match halt {
            Halt::Signal(_, details) => task.pending = Some(Pending::Signal(details)),
            Halt::Watch(_, slots) => task.pending = Some(Pending::Watch(slots)),
            Halt::Stepped(_) => task.pending = Some(Pending::Stepped),
            // It stands before the breakpoint again, and hits it when it goes on, unless that was removed by then.
            _ => {}
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

    fn put(&mut self, stopped: Stopped) {
        if let Some(task) = self.tasks.get_mut(&stopped.tid()) {
            task.handle = Handle::Stopped(stopped);
        }
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

/// A call that failed only because we stopped its thread is made again.
pub(super) fn mend(stopped: &Stopped) -> Result<(), TraceError> {
    match stopped.mend_call() {
        Ok(()) | Err(TraceError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_about_to_trap(stopped: &Stopped) -> Result<bool, TraceError> {
    match stopped.is_about_to_trap() {
        Err(TraceError::Gone) => Ok(false),
        other => other,
    }
}

/// Resumes a thread; one that was killed meanwhile tells so by its own event.
pub(super) fn resume_living(task: &mut Task, how: Resume) -> Result<(), TraceError> {
    match task.resume(how) {
        Ok(()) | Err(TraceError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
