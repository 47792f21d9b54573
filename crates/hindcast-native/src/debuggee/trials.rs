//! Copies of past moments that go on by themselves.

use std::{rc::Rc, time::Duration};

use hindcast_symbols::Unreadable;

use super::Debuggee;
use crate::{
    replay::{Functions, Inputs, Past, Position, ReplayError, Replica, Trial, TrialEnd},
    sys::{GeneralRegisters, TraceError},
};

impl Debuggee {
    /// Another replica of a moment, without breakpoints.
    pub(crate) fn replica_of(
        &mut self,
        position: &Position,
        functions: Functions<'_>,
    ) -> Result<Replica, ReplayError> {
        self.travel(functions, |context, _, window| Ok(context.replica_of(position, window)?.stand_in()?))
    }

    pub(crate) fn begin_trial(
        &self,
        replica: Replica,
        stops: &[u64],
        time: Duration,
        inputs: Option<Rc<Inputs>>,
    ) -> Result<Trial, ReplayError> {
        let recorder = self.live.recorder().ok_or(TraceError::Gone)?;
        Trial::new(replica, &recorder.log, stops, time, inputs)
    }

    /// Lets it go on. An interruption ends that anywhere, and it can go on again.
    pub(crate) fn run_trial(&self, trial: &mut Trial) -> Result<TrialEnd, ReplayError> {
        let recorder = self.live.recorder().ok_or(TraceError::Gone)?;
        self.interrupt.running.while_brief(|| match self.is_interrupted() {
            true => Err(ReplayError::Interrupted),
            false => trial.run(&recorder.log),
        })
    }

    /// Looks at a copy; what was looked at before is given back.
    pub(crate) fn look_at(&mut self, copy: Replica, position: &Position) -> Option<Past> {
        self.past.replace(Past { replica: copy, anchor: position.anchor.clone(), steps: None })
    }

    /// Looks at what was looked at before; the copy is given back.
    pub(crate) fn look_back(&mut self, before: Option<Past>) -> Option<Replica> {
        std::mem::replace(&mut self.past, before).map(|past| past.replica)
    }

    /// Changes the copy that is looked at.
    pub(crate) fn write_to_copy(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unreadable> {
        self.past.as_ref().ok_or(Unreadable(address))?.replica.memory.write(address, bytes)
    }

    pub(crate) fn set_registers_of_copy(&mut self, registers: &GeneralRegisters) -> Result<(), TraceError> {
        self.past.as_ref().ok_or(TraceError::Gone)?.replica.frozen.set_registers(registers)
    }
}
