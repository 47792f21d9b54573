//! Threads of a recorded process take turns: one is on stage and runs, the others wait in the kernel, or stand still until
//! it is their turn.

use std::time::Duration;

use super::{
    Ended, Halt, Process,
    task::{Task, resume_living},
    tasks::Heard,
};
use crate::{
    record::Decision,
    sys::{self, Event, Resume, Stopped, Tid, TraceError, wait_for},
};

/// A call that takes longer than so many looks is looked at less often.
const LOOKS: u32 = 20;
const GLANCE: Duration = Duration::from_micros(50);
/// Where a seed decides, a thread is not stepped further than this to its own code.
const LONGEST_WALK: u32 = 4000;

impl Process {
    /// The thread that runs, or the first one where all do.
    pub(crate) fn acting(&self) -> Tid {
        match &self.recorder {
            Some(recorder) if recorder.is_active() => recorder.acting(),
            _ => self.witness(),
        }
    }

    /// Whether only one thread runs at a time.
    pub(super) fn takes_turns(&self) -> bool {
        self.is_recording() && self.tasks.len() > 1
    }

    pub(super) fn is_off_stage(&self, tid: Tid) -> bool {
        self.takes_turns() && tid != self.acting() && self.tasks.contains_key(&tid)
    }

    /// Threads that could run, beside the one on stage: first the one whose turn it is.
    fn ready(&self) -> impl Iterator<Item = Tid> + '_ {
        let acting = self.acting();
        let in_turn = self.tasks.range(acting..).chain(self.tasks.range(..acting));
        in_turn.filter(move |(tid, task)| **tid != acting && !task.is_running()).map(|(&tid, _)| tid)
    }

    pub(super) fn any_ready(&self) -> bool {
        self.ready().next().is_some()
    }

    /// The thread whose turn is next, if one could run.
    fn next_ready(&mut self) -> Option<Tid> {
        if let Some(wanted) = self.wanted.filter(|wanted| self.ready().any(|tid| tid == *wanted)) {
            return Some(wanted);
        }
        let mut ready: Vec<_> = self.ready().collect();
        let first = ready.first().copied();
        // In an order that does not depend on who is on stage.
        ready.sort_unstable();
        self.recorder.as_mut().and_then(|recorder| recorder.choose(&ready)).or(first)
    }

    /// Where a seed decides, it decides between the same threads each time: who is about to come out of a call has.
    fn settle_others(&mut self) -> Result<Option<Halt>, TraceError> {
        let is_chaotic = self.recorder.as_ref().is_some_and(|recorder| recorder.is_chaotic());
        while is_chaotic && self.takes_turns() {
            match self.hear(libc::WNOHANG)? {
                Some(Heard::Over) => return Ok(Some(self.over(Ended::Killed(libc::SIGKILL)))),
                Some(Heard::Rung(rung)) => self.rung_meanwhile |= rung.interrupt,
                Some(Heard::Event(event)) => {
                    if let Some(halt) = self.consider(event)? {
                        return Ok(Some(halt));
                    }
                }
                Some(Heard::Asleep) => {}
                None => {
                    let acting = self.acting();
                    let mut waiting =
                        self.tasks.iter().filter(|(tid, task)| **tid != acting && task.is_running());
                    if waiting.all(|(&tid, _)| sys::is_asleep(self.pid, tid)) {
                        break;
                    }
                }
            }
        }
        Ok(None)
    }

    /// What comes next. A thread that waits in a call gives way to one that could run.
    pub(super) fn hear_in_turns(&mut self) -> Result<Option<Heard>, TraceError> {
        let others = self.takes_turns() && self.any_ready();
        if let Some(recorder) = &self.recorder {
            recorder.metronome().set_contended(others);
        }
        if !others || !self.is_acting_in_call() {
            return self.hear(0);
        }
        let acting = self.acting();
        for look in 0.. {
            if let Some(heard) = self.hear(libc::WNOHANG)? {
                return Ok(Some(heard));
            }
            if sys::is_asleep(self.pid, acting) {
                break;
            }
            if look > LOOKS {
                std::thread::sleep(GLANCE);
            }
        }
        Ok(Some(Heard::Asleep))
    }

    fn is_acting_in_call(&self) -> bool {
        let runs = self.tasks.get(&self.acting()).is_some_and(Task::is_running);
        runs && self.recorder.as_ref().is_some_and(|recorder| recorder.is_left_at_call())
    }

    /// The thread on stage waits in a call: another one goes on.
    pub(super) fn give_way(&mut self) -> Result<Option<Halt>, TraceError> {
        if let Some(halt) = self.settle_others()? {
            return Ok(Some(halt));
        }
        if !self.is_acting_in_call() {
            return Ok(None);
        }
        let (Some(to), Some(recorder)) = (self.next_ready(), &mut self.recorder) else { return Ok(None) };
        let from = recorder.acting();
        if !recorder.turn_at_call(to) {
            return Ok(None);
        }
        self.send_held_to(from);
        self.take_stage(to)
    }

    /// The thread on stage has just got behind an event. It gives way if it asked for that, or had its turn.
    pub(super) fn give_way_behind(&mut self, tid: Tid, asked: bool) -> Result<Option<Halt>, TraceError> {
        if let Some(halt) = self.settle_others()? {
            return Ok(Some(halt));
        }
        if !self.takes_turns() || !self.any_ready() || self.task(tid)?.in_call_step {
            return Ok(None);
        }
        let Some(recorder) = &mut self.recorder else { return Ok(None) };
        match recorder.decide() {
            Some(Decision::Steps(count)) => return self.walk(tid, count),
            Some(Decision::GoOn) if !asked => return Ok(None),
            None if !(asked || recorder.is_short_turn_over()) => return Ok(None),
            _ => {}
        }
        let Some(to) = self.next_ready() else { return Ok(None) };
        let (Some(recorder), Some(task)) = (&mut self.recorder, self.tasks.get(&tid)) else {
            return Ok(None);
        };
        recorder.turn_behind_event(task.handle()?, to)?;
        self.send_held_to(tid);
        self.take_stage(to)
    }

    /// The thread on stage makes some steps in the program's own code, and then gives way. Where a breakpoint is to be hit, it
    /// does not: the hit would be in its next turn, and again at the beginning of each that ends there. It walks on from there.
    fn walk(&mut self, tid: Tid, count: u32) -> Result<Option<Halt>, TraceError> {
        let mut walked = 0;
        for _ in 0..LONGEST_WALK {
            if walked == count {
                break;
            }
            // The beginning of a call is its own event, and a breakpoint is to be hit.
            if self.is_at_system_call(tid)? || self.overlay.contains(self.registers(tid)?.pc()) {
                break;
            }
            self.leave_frontier();
            match self.step_alone(tid)? {
                Halt::Stepped(_) => {}
                halt => return Ok(Some(halt)),
            }
            // What libraries do in between is not where programs have their races.
            let pc = self.registers(tid)?.pc();
            walked += u32::from(self.recorder.as_mut().is_some_and(|recorder| recorder.is_own_code(pc)));
        }
        self.set_running(true);
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_turn();
        }
        // After its steps it runs again.
        self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?.how = Resume::Call;
        if self.overlay.contains(self.registers(tid)?.pc()) {
            self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?.left_to_walk = Some(count - walked);
            return Ok(None);
        }
        if walked < count && self.is_at_system_call(tid)? {
            return Ok(None);
        }
        if let Some(halt) = self.settle_others()? {
            return Ok(Some(halt));
        }
        let Some(to) = self.next_ready() else { return Ok(None) };
        let stopped = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?.take()?;
        self.hand_over(stopped, to)?;
        let acting = self.acting();
        self.take_stage(acting)
    }

    /// The thread on stage was stopped because its turn is over.
    pub(super) fn preempt(&mut self, stopped: Stopped) -> Result<Option<Halt>, TraceError> {
        let tid = stopped.tid();
        // A breakpoint is hit first, in the turn in which the thread came to it.
        let is_to_hit = self.overlay.contains(stopped.registers()?.pc());
        let to = if is_to_hit { None } else { self.next_ready() };
        let Some(to) = to else {
            self.put(stopped);
            return self.take_stage(tid);
        };
        self.hand_over(stopped, to)?;
        let acting = self.acting();
        self.take_stage(acting)
    }

    fn hand_over(&mut self, stopped: Stopped, to: Tid) -> Result<(), TraceError> {
        let tid = stopped.tid();
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        let stopped = recorder.preempt(stopped, &self.overlay, to)?;
        self.put(stopped);
        self.send_held_to(tid);
        Ok(())
    }

    /// Lets the thread go on that is on stage now.
    pub(super) fn take_stage(&mut self, tid: Tid) -> Result<Option<Halt>, TraceError> {
        let debug_registers = self.debug_registers;
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        if task.is_running() {
            return Ok(None);
        }
        task.watch(debug_registers)?;
        if std::mem::take(&mut task.returned) {
            task.how = Resume::Call;
            let stopped = task.take()?;
            return self.called(stopped);
        }
        let is_fresh = self.recorder.as_mut().is_some_and(|recorder| recorder.goes_on(tid));
        self.leave_sieves_for_handler(tid);
        if let Some(halt) = self.deliver_recorded()? {
            return Ok(Some(halt));
        }
        let passed = self.task(tid)?.passed;
        let mut walk = self.tasks.get_mut(&tid).and_then(|task| task.left_to_walk.take());
        if passed.is_some_and(|address| self.overlay.contains(address)) {
            self.passes = true;
            let halt = self.step_alone(tid);
            self.passes = false;
            self.set_running(true);
            match halt? {
                Halt::Stepped(_) => {}
                halt => return Ok(Some(halt)),
            }
            if self.acting() != tid {
                return Ok(None);
            }
            if let Some(left) = &mut walk {
                // It may give way here, and no longer stands where the breakpoint was told of.
                self.leave_frontier();
                let pc = self.registers(tid)?.pc();
                let is_own = self.recorder.as_mut().is_some_and(|recorder| recorder.is_own_code(pc));
                *left = left.saturating_sub(u32::from(is_own));
            }
        }
        if is_fresh {
            walk = match self.decide_freshly() {
                Some(Decision::Steps(count)) => Some(count),
                _ => None,
            };
        }
        if let Some(count) = walk.filter(|_| self.takes_turns()) {
            let halt = self.walk(tid, count)?;
            if halt.is_some() || self.acting() != tid || self.ended.is_some() {
                return Ok(halt);
            }
        }
        let pace = self.pace();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        resume_living(task, pace)?;
        Ok(None)
    }

    /// What a thread does that has just got its turn, if a seed decides.
    fn decide_freshly(&mut self) -> Option<Decision> {
        if !self.takes_turns() {
            return None;
        }
        self.recorder.as_mut()?.decide()
    }

    /// A thread that is not on stage has come to the end of its call. What came of it counts when it is its turn.
    pub(super) fn park(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.returned = true;
        task.put(stopped);
        self.set_page();
        if self.wanted == Some(tid) && !self.is_acting_in_call() {
            self.ask_for_turn()?;
        }
        Ok(())
    }

    /// Stops the thread on stage, so that another one gets its turn.
    pub(super) fn ask_for_turn(&mut self) -> Result<(), TraceError> {
        if let Some(task) = self.tasks.get(&self.acting()).filter(|task| task.how == Resume::Call) {
            task.interrupt()?;
            self.asked_for_turn = true;
        }
        Ok(())
    }

    /// Whether the thread on stage has run for long enough while others could.
    pub(super) fn is_turn_over(&self) -> bool {
        let contended = self.takes_turns() && self.any_ready() && !self.is_acting_in_call();
        contended && self.recorder.as_ref().is_some_and(|recorder| recorder.is_turn_over())
    }

    /// A thread makes another one; nobody else moves until both stand still.
    pub(super) fn make_thread(&mut self, tid: Tid) -> Result<Option<Halt>, TraceError> {
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.take()?.resume(Resume::Call, 0)?;
        let mut newborn = None;
        let stopped = loop {
            let stopped = match wait_for(tid)? {
                Event::Call(stopped) => break stopped,
                Event::Clone(stopped, made) => {
                    newborn = first_stop(made)?;
                    stopped
                }
                Event::Exited(_, code) => return Ok(Some(self.over(Ended::Exited(code)))),
                Event::Killed(_, signal) => return Ok(Some(self.over(Ended::Killed(signal)))),
                Event::Stop(stopped, _) | Event::Other(stopped) => stopped,
                _ => return Err(TraceError::Gone),
            };
            stopped.resume(Resume::Call, 0)?;
        };
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.in_told_call = false;
        }
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        let stopped = match &newborn {
            Some(newborn) => recorder.made(stopped, newborn, &self.memory, &self.overlay)?,
            // It failed, or is made again.
            None => recorder.called(stopped, &self.memory, &self.overlay)?.0,
        };
        self.put(stopped);
        if let Some(newborn) = newborn {
            self.is_staged = true;
            let newborn = self.tell_calls(newborn, tid)?;
            self.adopt(newborn)?;
            self.note_page();
        }
        Ok(None)
    }

    /// A thread ends; nobody else moves until it is gone.
    pub(super) fn end_thread(&mut self, tid: Tid) -> Result<(), TraceError> {
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        recorder.keep_name(tid);
        let words = recorder.last_words(tid, &self.memory);
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        task.take()?.resume(Resume::Call, 0)?;
        loop {
            match wait_for(tid)? {
                Event::Exited(..) | Event::Killed(..) => break,
                Event::Stop(stopped, _) | Event::Other(stopped) | Event::Call(stopped) => {
                    stopped.resume(Resume::Call, 0)?;
                }
                _ => return Err(TraceError::Gone),
            }
        }
        self.tasks.remove(&tid);
        let next = self.next_ready().or_else(|| self.tasks.keys().next().copied());
        let (Some(to), Some(recorder)) = (next, &mut self.recorder) else { return Ok(()) };
        recorder.left_stage(tid, &words, &self.memory, to);
        Ok(())
    }

    /// One instruction of a thread that is not on stage.
    pub(super) fn step_off_stage(&mut self, tid: Tid) -> Result<Halt, TraceError> {
        let acting = self.acting();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        if task.is_running() {
            // It waits for what the others do.
            task.in_call_step = true;
            self.wanted = Some(tid);
            let halt = match self.take_stage(acting) {
                Ok(Some(halt)) => Ok(halt),
                Ok(None) => self.wait(),
                Err(error) => Err(error),
            };
            self.wanted = None;
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.in_call_step = false;
            }
            return halt;
        }
        let stopped = self.tasks.get_mut(&acting).ok_or(TraceError::Gone)?.take()?;
        self.hand_over(stopped, tid)?;
        if self.acting() != tid {
            return self.step_alone(tid);
        }
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        if !std::mem::take(&mut task.returned) {
            if let Some(recorder) = &mut self.recorder {
                recorder.goes_on(tid);
            }
            return self.step_recorded(tid);
        }
        task.in_call_step = true;
        task.how = Resume::Call;
        let stopped = task.take()?;
        let halt = match self.called(stopped) {
            Ok(Some(halt)) => Ok(halt),
            Ok(None) => self.wait(),
            Err(error) => Err(error),
        };
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.in_call_step = false;
        }
        halt
    }

    /// Nothing is recorded any more: threads that waited for their turn are at the end of their calls for good.
    pub(super) fn leave_stage(&mut self) -> Result<(), TraceError> {
        if self.is_recording() || !std::mem::take(&mut self.is_staged) {
            return Ok(());
        }
        let returned: Vec<_> =
            self.tasks.iter().filter(|(_, task)| task.returned).map(|(&tid, _)| tid).collect();
        for tid in returned {
            let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
            task.returned = false;
            let stopped = task.take()?;
            self.call_noted(stopped)?;
        }
        self.apply_debug_registers()
    }

    /// The same while the process runs: all threads go on.
    pub(super) fn everybody_goes_on(&mut self) -> Result<(), TraceError> {
        if self.is_recording() {
            return Ok(());
        }
        self.note_page();
        if !self.is_staged || self.alone {
            return Ok(());
        }
        self.leave_stage()?;
        for task in self.tasks.values_mut() {
            resume_living(task, Resume::Continue)?;
        }
        Ok(())
    }
}

fn first_stop(tid: Tid) -> Result<Option<Stopped>, TraceError> {
    match wait_for(tid)? {
        Event::Stop(stopped, _) => Ok(Some(stopped)),
        // It was killed, with its process.
        Event::Exited(..) | Event::Killed(..) => Ok(None),
        _ => Err(TraceError::Gone),
    }
}
