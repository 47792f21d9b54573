//! Stopping all threads. What comes meanwhile means what it would mean alone, and is told later.

use std::time::Duration;

use libc::c_int;

use super::{
    Ended, Halt, Process,
    task::{Pending, Task, is_about_to_trap, mend, resume_living},
    tasks::Heard,
};
use crate::sys::{self, Event, Resume, Stopped, Tid, TraceError};

/// How often it is looked whether the first thread has ended, which nobody tells.
const GLANCE: Duration = Duration::from_millis(1);

impl Process {
    /// Stops every thread that runs. What happens to one meanwhile is told later.
    pub(super) fn stop_all(&mut self) -> Result<(), TraceError> {
        let mut asked = None;
        while self.ended.is_none() && (!self.awaited.is_empty() || self.any_to_stop()) {
            // Who waits in a call while another thread has its turn need not be stopped.
            let whom = self.takes_turns().then(|| self.acting());
            if asked != Some(whom) {
                let mut tasks =
                    self.tasks.iter().filter(|(tid, _)| whom.is_none_or(|acting| acting == **tid));
                tasks.try_for_each(|(_, task)| task.interrupt())?;
                asked = Some(whom);
            }
            match self.hear(if self.is_first_left() { libc::WNOHANG } else { 0 })? {
                Some(Heard::Over) => drop(self.over(Ended::Killed(libc::SIGKILL))),
                // Not now, but when it moves again.
                Some(Heard::Rung(rung)) => self.rung_meanwhile |= rung.interrupt,
                Some(Heard::Event(event)) => self.hold(event)?,
                Some(Heard::Asleep) => {}
                None if sys::is_zombie(self.pid, self.pid) => drop(self.tasks.remove(&self.pid)),
                None => std::thread::sleep(GLANCE),
            }
        }
        Ok(())
    }

    fn any_to_stop(&self) -> bool {
        match self.takes_turns() {
            true => self.tasks.get(&self.acting()).is_some_and(Task::is_running),
            false => self.tasks.values().any(Task::is_running),
        }
    }

    /// Waits for processes that were made just now: they have copies of our breakpoints.
    pub(super) fn receive_companions(&mut self) -> Result<(), TraceError> {
        while self.ended.is_none() && self.companions.expects_any() {
            match self.hear(0)? {
                Some(Heard::Over) => drop(self.over(Ended::Killed(libc::SIGKILL))),
                Some(Heard::Event(event)) => self.hold(event)?,
                Some(Heard::Rung(_) | Heard::Asleep) | None => {}
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
            Event::Call(stopped) if self.is_off_stage(stopped.tid()) => self.park(stopped),
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
                match self.note_made(event) {
                    Some(stopped) if self.is_recorded(stopped.tid()) => self.finish_call(stopped),
                    Some(stopped) => {
                        self.put(stopped);
                        Ok(())
                    }
                    None => Ok(()),
                }
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
        self.restore_signal(&stopped, signal)?;
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
        if let Some(halt) = self.call_noted(stopped)? {
            self.hold_halt(tid, halt);
        } else if self.recorder.as_ref().is_some_and(|recorder| recorder.is_in_call(tid))
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            // Where a call begins the process cannot be copied.
            resume_living(task, Resume::Call)?;
            task.interrupt()?;
        }
        Ok(())
    }

    /// A thread tells of a process that it makes while it is still in the call that makes it. There it cannot be copied: the call
    /// would end in the middle of what we have it do, and its result would be lost. So it stops when the call is over.
    fn finish_call(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        let tid = stopped.tid();
        self.go_on(stopped)?;
        self.tasks.get(&tid).map_or(Ok(()), Task::interrupt)
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
}
