//! One thread, and what is known of it.

use libc::c_int;

use super::sieve::Detours;
use crate::sys::{
    DebugRegisters, GeneralRegisters, Resume, Running, SignalDetails, SignalInfo, Stopped, TraceError,
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
    /// How many steps it still makes before it gives way, where a breakpoint came in between.
    pub(super) left_to_walk: Option<u32>,
    /// Whether it has come to the end of a call while another thread had its turn.
    pub(super) returned: bool,
    /// What it watches.
    pub(super) watches: DebugRegisters,
    /// Whether its calls are told without our asking for it, unless it makes them at the page.
    pub(super) tells_calls: bool,
    /// Whether it is in such a call, whose end we have to ask for.
    pub(super) in_told_call: bool,
    /// Where its instructions are that gave way to others.
    pub(super) detours: Detours,
    /// The same of breakpoints that gave way, for one that was told of.
    pub(super) ways_past: Detours,
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

impl Task {
    pub(super) fn stopped(handle: Stopped) -> Self {
        Self::new(Handle::Stopped(handle))
    }

    pub(super) fn running(handle: Running) -> Self {
        Self::new(Handle::Running(handle))
    }

    fn new(handle: Handle) -> Self {
        Self {
            handle,
            pending: None,
            signal: 0,
            info: None,
            in_call_step: false,
            how: Resume::Continue,
            passed: None,
            interrupted: None,
            left_to_walk: None,
            returned: false,
            watches: DebugRegisters::default(),
            tells_calls: false,
            in_told_call: false,
            detours: Detours::default(),
            ways_past: Detours::default(),
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

    pub(super) fn is_running(&self) -> bool {
        matches!(self.handle, Handle::Running(_))
    }

    /// Asks it to stop if it runs; one that was killed tells so itself.
    pub(super) fn interrupt(&self) -> Result<(), TraceError> {
        match &self.handle {
            Handle::Running(running) => match running.interrupt() {
                Err(TraceError::Gone) => Ok(()),
                other => other,
            },
            Handle::Stopped(_) | Handle::Gone => Ok(()),
        }
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

    /// Watches this from now on.
    pub(super) fn watch(&mut self, debug_registers: DebugRegisters) -> Result<(), TraceError> {
        if self.watches == debug_registers {
            return Ok(());
        }
        match debug_registers.apply(self.handle()?) {
            Ok(()) => self.watches = debug_registers,
            // It was killed, and tells so itself.
            Err(TraceError::Gone) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn resume(&mut self, how: Resume) -> Result<(), TraceError> {
        match std::mem::replace(&mut self.handle, Handle::Gone) {
            Handle::Stopped(stopped) => {
                let signal = std::mem::take(&mut self.signal);
                if signal == 0 && !self.ways_past.is_empty() {
                    let passed = self.passed;
                    let past = self.ways_past.iter().filter(|(address, _)| passed == Some(*address));
                    detour(&stopped, self.detours.iter().chain(past))?;
                }
                if let Some(info) = self.info.take().filter(|info| info.number() == signal) {
                    // It may have done something for us since it stopped for the signal.
                    stopped.set_signal(&info)?;
                }
                self.how = how;
                self.passed = None;
                let tells = how == Resume::Call && self.tells_calls && !self.in_told_call;
                let how = if tells { Resume::Continue } else { how };
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

/// A thread that stands at an instruction that gave way goes on where that is now.
fn detour<'a>(
    stopped: &Stopped,
    mut detours: impl Iterator<Item = &'a (u64, u64)>,
) -> Result<(), TraceError> {
    let mut registers = stopped.registers()?;
    if let Some((_, copy)) = detours.find(|(address, _)| *address == registers.pc()) {
        registers.set("rip", *copy);
        stopped.set_registers(&registers)?;
    }
    Ok(())
}

/// A call that failed only because we stopped its thread is made again.
pub(super) fn mend(stopped: &Stopped) -> Result<(), TraceError> {
    match stopped.mend_call() {
        Ok(()) | Err(TraceError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn is_about_to_trap(stopped: &Stopped) -> Result<bool, TraceError> {
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
