//! What is different while a process is being recorded.

use std::time::Instant;

use libc::c_int;

use super::{
    Ended, Halt, Overlay, Process,
    task::{mend, resume_living},
};
use crate::{
    record::{self, Recorder, random_numbers},
    sys::{self, Call, Event, ProcessMemory, Resume, SignalInfo, Stopped, Tid, TraceError, wait_for},
};

impl Process {
    /// Begins to record a process that has just been started.
    pub(crate) fn record(&mut self) -> Result<(), TraceError> {
        let task = self.tasks.get_mut(&self.pid).ok_or(TraceError::Gone)?;
        let leader = end_of_exec(task.take()?)?;
        let (recorder, leader) = Recorder::start(leader, &self.overlay)?;
        task.put(leader);
        self.overlay.hide_random_numbers(recorder.random_numbers());
        recorder.metronome().ring_with(self.interrupt());
        self.recorder = Some(Box::new(recorder));
        self.note_page();
        Ok(())
    }

    /// A seed decides which thread runs when, from now on.
    pub(crate) fn begin_chaos(&mut self, seed: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_chaos(seed);
        }
    }

    /// Begins to record a process that was running already, with all its threads; `acting` is the one that runs first.
    pub(crate) fn record_running(&mut self, acting: Tid) -> Result<(), TraceError> {
        if self.is_headless || !self.tasks.contains_key(&self.pid) {
            return Err(TraceError::NotRecordable("its first thread has ended"));
        }
        if let Some(obstacle) = Recorder::obstacle(self.pid) {
            return Err(TraceError::NotRecordable(obstacle));
        }
        if self.tasks.values().any(|task| task.handle().is_err()) {
            return Err(TraceError::Gone);
        }
        let threads = self.take_threads(acting);
        let all: Vec<_> = threads.iter().map(Stopped::tid).collect();
        let (recorder, threads) = match Recorder::join(self.pid, threads, &self.overlay, !self.owned) {
            Ok(joined) => joined,
            Err(error) => {
                self.take_back(&all)?;
                return Err(error);
            }
        };
        self.is_staged = threads.len() > 1;
        threads.into_iter().for_each(|thread| self.put(thread));
        self.overlay.hide_random_numbers(recorder.random_numbers());
        recorder.metronome().ring_with(self.interrupt());
        self.recorder = Some(Box::new(recorder));
        self.note_page();
        Ok(())
    }

    /// The threads stand still, but were not made ready to be recorded: they go on as they were.
    fn take_back(&mut self, threads: &[Tid]) -> Result<(), TraceError> {
        let gate = record::gate(self.pid)?;
        for &tid in threads {
            let mut thread = Stopped::still(tid);
            if self.owned {
                let mut held = Vec::new();
                thread = record::set_traps(thread, gate, false, &mut held)?;
                held.iter().for_each(|info| sys::send_again(self.pid, tid, info));
            }
            self.put(thread);
        }
        Ok(())
    }

    /// Nothing is recorded from here on. What was stays; the process goes on as if it were not recorded.
    pub(crate) fn stop_recording(&mut self) -> Result<(), TraceError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.end("it was stopped on request");
        self.note_page();
        self.leave_stage()?;
        self.stop_all()?;
        let Some(mut recorder) = self.recorder.take() else { return Ok(()) };
        let released = self.release_from(&mut recorder);
        self.recorder = Some(recorder);
        released
    }

    /// The process is as it was before it was recorded, and needs nobody to answer for it.
    pub(super) fn end_recording(&mut self) -> Result<(), TraceError> {
        let Some(mut recorder) = self.recorder.take() else { return Ok(()) };
        self.release_from(&mut recorder)
    }

    fn release_from(&mut self, recorder: &mut Recorder) -> Result<(), TraceError> {
        recorder.put_page_away();
        let gate = recorder.gate();
        random_numbers::give_back(&self.memory, recorder.random_numbers().iter().copied());
        let mut threads = self.take_threads(self.witness());
        if recorder.traps_instructions() {
            let untrapped = |thread: Stopped| {
                let (tid, mut held) = (thread.tid(), Vec::new());
                let thread = record::set_traps(thread, gate, false, &mut held)?;
                // What came meanwhile is still to come.
                held.iter().for_each(|info| sys::send_again(self.pid, tid, info));
                Ok(thread)
            };
            threads = threads.into_iter().map(untrapped).collect::<Result<_, TraceError>>()?;
        }
        let witness = self.witness();
        for thread in recorder.let_go(threads)? {
            self.put(thread);
        }
        for info in recorder.take_held() {
            sys::send_again(self.pid, witness, &info);
        }
        Ok(())
    }

    /// All threads that stand still, to have them do something for us; this one first.
    fn take_threads(&mut self, first: Tid) -> Vec<Stopped> {
        let others = self.tasks.keys().copied().filter(|&tid| tid != first);
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        all.into_iter().filter_map(|tid| self.tasks.get_mut(&tid)?.take().ok()).collect()
    }

    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    pub(crate) fn recorder_mut(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    /// Nobody wants the recording any more.
    pub(crate) fn forget_recording(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.put_page_away();
        }
        self.note_page();
        self.recorder = None;
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.is_active())
    }

    pub(super) fn is_recorded(&self, tid: Tid) -> bool {
        self.recorder.is_some() && self.tasks.contains_key(&tid)
    }

    /// How a thread is let go on.
    pub(super) fn pace(&mut self) -> Resume {
        self.leave_frontier();
        self.set_page();
        if self.is_recording() { Resume::Call } else { Resume::Continue }
    }

    pub(super) fn leave_frontier(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.timeline.leave_frontier();
        }
    }

    pub(super) fn set_running(&self, running: bool) {
        if let Some(recorder) = &self.recorder {
            recorder.metronome().set_running(running && recorder.is_active());
        }
    }

    /// Names the moment at which the process stands, unless it has a name.
    pub(crate) fn anchor(&mut self) -> Result<(), TraceError> {
        self.anchored(Recorder::anchor)
    }

    /// The same before the user changes the process.
    pub(crate) fn anchor_exactly(&mut self) -> Result<(), TraceError> {
        self.anchored(Recorder::anchor_exactly)
    }

    fn anchored(
        &mut self,
        anchor: fn(&mut Recorder, Stopped, &Overlay) -> Result<Stopped, TraceError>,
    ) -> Result<(), TraceError> {
        if self.ended.is_some() {
            return Ok(());
        }
        let acting = self.acting();
        let (Some(recorder), Some(task)) = (&mut self.recorder, self.tasks.get_mut(&acting)) else {
            return Ok(());
        };
        let thread = anchor(recorder, task.take()?, &self.overlay)?;
        // A signal that it is to get can only be given to it where it stands.
        let rests = task.signal == 0 && task.pending.is_none();
        task.put(if rests { recorder.rest(thread)? } else { thread });
        Ok(())
    }

    /// A number for all that the program can see.
    #[cfg(test)]
    pub(crate) fn digest(&self) -> u64 {
        let acting = self.acting();
        let interrupted = self.recorder().and_then(|recorder| recorder.interrupted_number(acting));
        let thread = self.tasks[&acting].handle().unwrap();
        let cast = self.recorder().map(Recorder::cast);
        crate::replay::digest(thread, &self.overlay, interrupted, cast.as_ref()).unwrap()
    }

    /// The user changed the process: what came before cannot be replayed up to here.
    pub(crate) fn edited(&mut self) -> Result<(), TraceError> {
        let acting = self.acting();
        let (Some(recorder), Some(task)) = (&mut self.recorder, self.tasks.get_mut(&acting)) else {
            return Ok(());
        };
        if recorder.is_active() {
            recorder.edited();
            let thread = recorder.checkpoint(task.take()?, &self.overlay, false)?;
            task.put(thread);
        }
        Ok(())
    }

    /// A system call begins or ends.
    pub(super) fn called(&mut self, stopped: Stopped) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        let before = self.recorder.as_ref().map_or(0, |recorder| recorder.log.len());
        if let Some(halt) = self.call_noted(stopped)? {
            return Ok(Some(halt));
        }
        self.leave_frontier();
        if self.ended.is_some() {
            return Ok(None);
        }
        if !self.tasks.contains_key(&tid) {
            let acting = self.acting();
            return self.take_stage(acting);
        }
        if let Some(asked) = self.recorder.as_ref().and_then(|recorder| recorder.yields_since(before))
            && let Some(halt) = self.give_way_behind(tid, asked)?
        {
            return Ok(Some(halt));
        }
        if self.is_off_stage(tid) {
            return Ok(None);
        }
        let active = self.is_recording();
        self.set_page();
        let debug_registers = self.debug_registers;
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.watch(debug_registers)?;
        let how = if active || task.in_call_step { task.how } else { Resume::Continue };
        resume_living(task, how)?;
        Ok(None)
    }

    /// The same; the thread stays where it is.
    pub(super) fn call_noted(&mut self, stopped: Stopped) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        mend(&stopped)?;
        let call = stopped.call()?;
        let again = matches!(call, Call::Exit { result } if sys::restarts(result));
        let returns = matches!(call, Call::Entry { number, .. } if number == libc::SYS_rt_sigreturn as u64);
        self.follow_code(tid, call)?;
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        recorder.watch_signals(&stopped, call)?;
        let (stopped, over) = recorder.called(stopped, &self.memory, &self.overlay)?;
        self.overlay.hide_random_numbers(recorder.random_numbers());
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.put(stopped);
        if over && !again && std::mem::take(&mut task.in_call_step) {
            return Ok(Some(Halt::Stepped(tid)));
        }
        if !over && recorder.makes_thread(tid) {
            let halt = self.make_thread(tid)?;
            return Ok(halt.or_else(|| self.step_over_call(tid)));
        }
        if !over && recorder.ends_thread(tid) {
            return self.end_thread(tid).map(|()| None);
        }
        if !over {
            // Where a call begins the process cannot be copied.
            if !returns {
                self.send_held();
            }
            return Ok(None);
        }
        Ok(self.held_halt())
    }

    /// A call is over that was to be one step.
    fn step_over_call(&mut self, tid: Tid) -> Option<Halt> {
        let task = self.tasks.get_mut(&tid)?;
        std::mem::take(&mut task.in_call_step).then_some(Halt::Stepped(tid))
    }

    /// A signal that came while the process did something for us.
    pub(super) fn held_halt(&mut self) -> Option<Halt> {
        // One that was told of and not delivered yet comes first.
        let acting = self.acting();
        if self.tasks.get(&acting).is_some_and(|task| task.signal != 0) || self.recorder.as_ref()?.is_spared()
        {
            return None;
        }
        let held = self.recorder.as_mut()?.take_held();
        let (first, rest) = held.split_first()?;
        // The others wait their turn.
        self.recorder.as_mut()?.hold(rest);
        let task = self.tasks.get_mut(&acting)?;
        task.info = Some(*first);
        Some(Halt::Signal(acting, first.details()))
    }

    /// Answers an instruction whose answer is never the same twice, if that is what failed.
    pub(super) fn answered_instruction(
        &mut self,
        stopped: &Stopped,
        signal: i32,
    ) -> Result<bool, TraceError> {
        match &mut self.recorder {
            Some(recorder) if signal == libc::SIGSEGV => {
                recorder.answered(stopped, &self.memory, &self.overlay)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn is_checkpoint_due(&self) -> bool {
        let recorder = self.recorder.as_ref().filter(|recorder| recorder.is_active());
        recorder.is_some_and(|recorder| recorder.is_due())
    }

    /// Copies a process that was stopped for that. Tells of a signal that came meanwhile.
    pub(super) fn checkpoint_if_asked(
        &mut self,
        stopped: Stopped,
    ) -> Result<(Stopped, Option<Halt>), TraceError> {
        let asked = std::mem::take(&mut self.asked_for_checkpoint);
        let runs = self.tasks.get(&stopped.tid()).is_some_and(|task| task.how == Resume::Call);
        // Right before a hit there would be two names for one moment, and a stop at each.
        let is_to_hit = self.overlay.contains(stopped.registers()?.pc());
        match &mut self.recorder {
            Some(recorder) if asked && runs && !is_to_hit && recorder.is_active() && recorder.is_due() => {
                let stopped = recorder.checkpoint(stopped, &self.overlay, true)?;
                let halt = self.held_halt();
                self.leave_frontier();
                Ok((stopped, halt))
            }
            _ => Ok((stopped, None)),
        }
    }

    /// Delivers a signal that the program handles, and copies the process in its handler: from the
    /// outside comes more than a log could hold.
    pub(super) fn deliver_recorded(&mut self) -> Result<Option<Halt>, TraceError> {
        let acting = self.acting();
        let (Some(recorder), Some(task)) = (&mut self.recorder, self.tasks.get_mut(&acting)) else {
            return Ok(None);
        };
        if task.signal == 0 || !recorder.is_active() {
            return Ok(None);
        }
        let (signal, info) = (task.signal, task.info);
        let begun = Instant::now();
        let mut thread = recorder.anchor_exactly(task.take()?, &self.overlay)?;
        if !thread.takes_signal() {
            // A call that changes nothing ends with a signal, in the place of which it can be given another.
            let remote = sys::remote_call(thread, recorder.live_gate(), libc::SYS_getppid, [0; 6])?;
            recorder.hold(&remote.held);
            thread = remote.thread;
        }
        if !sys::is_caught(self.pid, signal) {
            task.put(thread);
            return Ok(None);
        }
        task.signal = 0;
        task.info = None;
        if task.passed.take().is_some() {
            task.interrupted = thread.registers().ok();
        }
        if let Some(info) = info.filter(|info| info.number() == signal) {
            thread.set_signal(&info)?;
        }
        // Making the copy ended the time in which the call blocks other signals; the handler still belongs to it.
        let masks = match recorder.waiting_mask(acting, &self.memory) {
            Some(waiting) => {
                let after = thread.signal_mask()?;
                thread.set_signal_mask(waiting)?;
                Some(after)
            }
            None => None,
        };
        // Stops at the first instruction of the handler.
        thread.resume(Resume::Step, signal)?;
        let thread = match wait_for(acting)? {
            Event::Signal(thread, libc::SIGTRAP) => thread,
            Event::Signal(thread, _) => {
                recorder.hold(&[thread.signal()?]);
                thread
            }
            Event::Exited(_, code) => return Ok(Some(self.over(Ended::Exited(code)))),
            Event::Killed(_, signal) => return Ok(Some(self.over(Ended::Killed(signal)))),
            Event::Stop(thread, _) | Event::Other(thread) | Event::Call(thread) => thread,
            _ => return Err(TraceError::Gone),
        };
        if let Some(after) = masks {
            set_returning_mask(&thread, &self.memory, after)?;
        }
        let details = info.map(|info| info.details()).filter(|details| details.signal == signal);
        recorder.signalled(signal, details);
        if let Some(page) = recorder.page_mut() {
            page.note_mask(&thread)?;
        }
        let thread = recorder.checkpoint(thread, &self.overlay, false)?;
        recorder.spare(begun.elapsed());
        task.put(thread);
        Ok(self.held_halt())
    }

    /// Whether a timer's signal waits until the program has had some time for itself. One that interrupts a call does not.
    pub(super) fn holds_signal(&mut self, stopped: &Stopped) -> Result<bool, TraceError> {
        let acting = self.acting();
        let Some(recorder) = self.recorder.as_mut().filter(|_| stopped.tid() == acting) else {
            return Ok(false);
        };
        let runs = self.passes || self.tasks.get(&acting).is_some_and(|task| task.how == Resume::Call);
        let info = stopped.signal()?;
        let waits = runs
            && info.details().is_by_timer()
            && sys::is_caught(self.pid, info.number())
            && !stopped.registers()?.is_call_interrupted()
            && recorder.is_spared();
        if waits {
            recorder.hold(&[info]);
        }
        Ok(waits)
    }

    /// A call begins, which may wait for what is held: the signals come now, whatever they interrupt.
    fn send_held(&mut self) {
        self.send_held_to(self.acting());
    }

    /// The same to a thread that gives way: they come when it runs again.
    pub(super) fn send_held_to(&mut self, tid: Tid) {
        for info in self.recorder.as_mut().map(|recorder| recorder.take_held()).unwrap_or_default() {
            sys::send_again(self.pid, tid, &info);
            if info.number() < libc::SIGRTMIN() {
                // Only one of a number can be on its way to a thread.
                self.sent_again.retain(|(whose, earlier)| (*whose, earlier.number()) != (tid, info.number()));
            }
            self.sent_again.push((tid, info));
        }
    }

    /// A signal that we sent in the place of another comes with what that one came with.
    pub(super) fn restore_signal(&mut self, stopped: &Stopped, signal: c_int) -> Result<(), TraceError> {
        let wanted = (stopped.tid(), signal);
        let Some(index) = self.sent_again.iter().position(|(tid, info)| (*tid, info.number()) == wanted)
        else {
            return Ok(());
        };
        if stopped.signal_details()?.is_ours() {
            stopped.set_signal(&self.sent_again.remove(index).1)?;
        }
        Ok(())
    }

    /// One instruction of a process that is recorded.
    pub(super) fn step_recorded(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        if self.is_off_stage(tid) {
            return self.step_off_stage(tid);
        }
        let delivers = self.tasks.get(&tid).is_some_and(|task| task.signal != 0);
        if delivers {
            if let Some(halt) = self.deliver_recorded()? {
                return Ok(halt);
            }
            if self.tasks.get(&tid).is_some_and(|task| task.signal == 0) {
                return Ok(Halt::Stepped(tid));
            }
        }
        if !self.is_at_system_call(tid)? {
            let before = self.recorder.as_ref().map(|recorder| recorder.log.len());
            let pushes = sys::pushes_flags(&self.memory, self.registers(tid)?.pc());
            let halt = self.step_alone(tid)?;
            if pushes && matches!(halt, Halt::Stepped(_)) {
                sys::clean_pushed_flags(&self.memory, self.registers(tid)?.sp());
            }
            if let Some(recorder) = &mut self.recorder
                && matches!(halt, Halt::Stepped(_) | Halt::Watch(..))
                && before == Some(recorder.log.len())
            {
                recorder.timeline.step_frontier();
            } else {
                self.leave_frontier();
            }
            return Ok(halt);
        }
        self.leave_frontier();
        let here = self.registers(tid)?.pc();
        let lifted = self.overlay.contains(here);
        if lifted {
            self.overlay.lift(&self.memory, here);
        }
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        let passed = task.passed;
        task.in_call_step = true;
        self.set_page();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        let halt = resume_living(task, Resume::Call).and_then(|()| self.wait());
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.in_call_step = false;
        }
        if lifted && self.ended.is_none() {
            self.overlay.lower(&self.memory, here);
            self.keep_passed(tid, here, passed, &halt);
        }
        halt
    }

    /// The process has become another program.
    pub(super) fn recorded_exec(&mut self, stopped: Stopped) -> Result<Stopped, TraceError> {
        let Some(recorder) = &mut self.recorder else { return Ok(stopped) };
        if !recorder.is_active() {
            return Ok(stopped);
        }
        let stopped = end_of_exec(stopped)?;
        let stopped = recorder.executed(stopped, &self.overlay)?;
        self.overlay.hide_random_numbers(recorder.random_numbers());
        Ok(stopped)
    }

    /// A process that the debuggee made has from it that some instructions trap, which nobody would
    /// answer there.
    pub(super) fn release_companion(&self, stopped: Stopped) -> Result<Stopped, TraceError> {
        match &self.recorder {
            Some(recorder) if self.companions.expects(stopped.tid()) => {
                let (tid, mut held) = (stopped.tid(), Vec::new());
                if let Ok(memory) = ProcessMemory::open(tid) {
                    random_numbers::give_back(&memory, recorder.random_numbers().iter().copied());
                }
                let released = record::set_traps(stopped, recorder.gate(), false, &mut held);
                for info in held {
                    sys::send_again(tid, tid, &info);
                }
                released
            }
            _ => Ok(stopped),
        }
    }
}

/// A thread at the beginning of a signal handler will have these signals blocked when the handler returns.
fn set_returning_mask(thread: &Stopped, memory: &ProcessMemory, mask: u64) -> Result<(), TraceError> {
    /// In the `ucontext` that the system put on the stack, whose address is the handler's third argument.
    const MASK: u64 = 296;
    let context = thread.registers()?.get("rdx").ok_or(TraceError::Gone)?;
    memory.write(context + MASK, &mask.to_le_bytes()).map_err(|_| TraceError::Gone)
}

/// A program is told of while it still is in the call that began it.
pub(crate) fn end_of_exec(stopped: Stopped) -> Result<Stopped, TraceError> {
    let tid = stopped.tid();
    stopped.resume(Resume::Call, 0)?;
    loop {
        match wait_for(tid)? {
            Event::Call(stopped) => return Ok(stopped),
            // An interruption of ours that came too late.
            Event::Stop(stopped, _) => {
                stopped.resume(Resume::Call, 0)?;
            }
            _ => return Err(TraceError::Gone),
        }
    }
}

/// What came up while the process did something for us.
impl Recorder {
    pub(super) fn hold(&mut self, signals: &[SignalInfo]) {
        self.held_mut().extend_from_slice(signals);
    }
}
