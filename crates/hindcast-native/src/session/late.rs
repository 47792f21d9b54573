//! Recording that begins or ends in the middle of a run.

use hindcast_core::debug::{DebugError, LaunchRequest, Place, Reason, Remedy, Stop, StopAtEntry, StopReason};

use super::{
    Session,
    movement::{Begun, Plan},
    places::main_function,
    system,
};
use crate::sys::Tid;

/// Where a recording is to begin.
#[derive(Debug, Clone)]
pub(super) struct Start {
    place: Place,
    chaos: Option<u64>,
}

impl Start {
    /// Where a launch wants it, unless that is at once.
    pub(super) fn of(request: &LaunchRequest) -> Option<Self> {
        let place = request.record_from.clone().filter(|_| request.record)?;
        Some(Self { place, chaos: request.chaos })
    }
}

impl Session {
    /// Begins to record here, or stops that.
    pub(super) fn recorded(&mut self, record: bool) -> Result<(), DebugError> {
        if self.process.ended().is_some() {
            return Err(DebugError::Ended);
        }
        if let Some(error) = self.not_before_found() {
            return Err(error);
        }
        if self.process.is_in_past() {
            let reason = Reason::new("what is recorded is the program, and this is its past");
            return Err(DebugError::NoHistory(reason.remedy(Remedy::GoToPresent)));
        }
        if self.process.is_fixed() {
            let reason = Reason::new("this is a recording from a file, which does not go on");
            return Err(DebugError::Unsupported(reason.remedy(Remedy::Launch)));
        }
        let is_active = self.process.recorder().is_some_and(|recorder| recorder.is_active());
        match (record, is_active) {
            (true, true) => {
                let reason = Reason::new("it is being recorded already").remedy(Remedy::GoBack);
                Err(DebugError::Unsupported(reason))
            }
            (true, false) => {
                let current = self.current;
                self.record_from_here(current, None)
            }
            (false, true) => {
                self.process.stop_recording().map_err(system)?;
                self.find_end();
                Ok(())
            }
            (false, false) => {
                let reason = Reason::new("nothing is being recorded");
                Err(DebugError::Unsupported(reason.advise("begin to record first: `action` start")))
            }
        }
    }

    fn record_from_here(&mut self, tid: Tid, chaos: Option<u64>) -> Result<(), DebugError> {
        let acting = if self.process.has_thread(tid) { tid } else { self.process.first_thread() };
        self.process.record_running(acting).map_err(|error| {
            let reason = format!("it cannot be recorded from here on: {error}");
            self.unrecorded = Some(reason.clone());
            DebugError::Unsupported(Reason::new(reason).remedy(Remedy::LaunchRecorded))
        })?;
        // What was found out about an earlier recording is not true of this one.
        self.happenings.clear();
        (self.tally, self.history_end) = (None, None);
        (self.chase, self.chronicle, self.inquiry, self.tracing) = (None, None, None, None);
        self.unrecorded = None;
        if let Some(seed) = chaos {
            self.process.begin_chaos(seed);
        }
        Ok(())
    }

    /// Goes to where the recording is to begin.
    pub(super) fn go_to_start(&mut self, start: Start) -> Result<Begun, DebugError> {
        let resolved = self.run_to_addresses(&start.place);
        let beginning = main_function(&self.symbols).or_else(|| self.first_instruction());
        match (resolved, beginning) {
            (Ok(addresses), beginning) if beginning.is_none() || self.is_of_program(&addresses) => {
                Ok(Begun::Goes(Plan::RecordFrom { addresses, start, is_there: true }))
            }
            // Libraries are there when the program itself begins, and mean more than what the loader has of the same name.
            (Ok(_) | Err(DebugError::BreakpointFailed(_)), Some(beginning)) => {
                self.insert_all(&[beginning])?;
                Ok(Begun::Goes(Plan::RecordFrom { addresses: vec![beginning], start, is_there: false }))
            }
            (Ok(addresses), None) => Ok(Begun::Goes(Plan::RecordFrom { addresses, start, is_there: true })),
            (Err(error), _) => Err(error),
        }
    }

    /// Whether some of the addresses are of the executable itself. Takes the breakpoints out where none is.
    fn is_of_program(&mut self, addresses: &[u64]) -> bool {
        let is_own = addresses.iter().any(|&address| self.symbols.module_at(address) == self.main);
        if !is_own {
            addresses.iter().for_each(|&address| self.process.remove_breakpoint(address));
        }
        is_own
    }

    /// The program has got to where the recording is to begin, or to where that can be found. What then happens.
    pub(super) fn at_start(&mut self, tid: Tid, start: &Start, is_there: bool) -> Result<Begun, DebugError> {
        if !is_there {
            let addresses = self.run_to_addresses(&start.place)?;
            return Ok(Begun::Goes(Plan::RecordFrom { addresses, start: start.clone(), is_there: true }));
        }
        self.record_from_here(tid, start.chaos)?;
        Ok(match self.entry {
            StopAtEntry::No => Begun::Goes(Plan::Run),
            StopAtEntry::Main | StopAtEntry::Loader => Begun::Stands(Stop {
                detail: Some("recorded from here on".into()),
                ..self.stop_at(tid, StopReason::Entry)
            }),
        })
    }
}
