//! What ended a Python program: the exception that nobody caught, and the moment at which it was raised.

use hindcast_core::debug::{InnerException, Location, RaisedException, Stop, StopReason};
use hindcast_python::{Raised, TracebackEntry};

use super::{absolute, location_of};
use crate::{
    debuggee::Quarry,
    replay::Position,
    session::{Session, travel::Halted},
};

/// An exception that ended a program.
#[derive(Debug, Clone)]
pub(in crate::session) struct Uncaught {
    pub(in crate::session) raised: RaisedException,
    /// When it was raised.
    pub(in crate::session) moment: Option<Position>,
}

impl Session {
    /// Says at the end of a recorded Python program which exception ended it.
    pub(in crate::session) fn tell_uncaught(&mut self, stop: &mut Stop) {
        let is_failure = stop.reason == StopReason::Exit && stop.exit_code.is_some_and(|code| code != 0);
        if !is_failure || self.process.live_ended().is_none() {
            return;
        }
        if self.uncaught.is_none() {
            // What cannot be found out is not told: the program has ended all the same.
            self.uncaught = Some(self.find_uncaught().unwrap_or(None));
        }
        if let Some(Some(uncaught)) = &self.uncaught {
            let Uncaught { raised, moment } = uncaught;
            let message = raised.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
            let when = match moment {
                Some(moment) => {
                    format!("; raised at moment {moment}: go there to see its frames and their variables")
                }
                None => String::new(),
            };
            stop.detail = Some(format!("{}{message}{when}", raised.exception_type));
            stop.exception = Some(raised.clone());
        }
    }

    /// Says where the exception was raised that later ended the program that this is that moment.
    pub(in crate::session) fn tell_uncaught_here(&self, position: &Position, stop: &mut Stop) {
        if let Some(Some(Uncaught { raised, moment: Some(moment) })) = &self.uncaught
            && moment == position
        {
            // It stands there.
            stop.exception = Some(RaisedException { thrown_at: Vec::new(), ..raised.clone() });
        }
    }

    /// The exception that ended a recorded Python program; none where it ended in another way. The session stands where it
    /// stood before.
    fn find_uncaught(&mut self) -> Result<Option<Uncaught>, Halted> {
        if self.history().is_err() {
            return Ok(None);
        }
        let Some(finish) = self.interpreters_function("Py_FinalizeEx") else { return Ok(None) };
        let end = self.last()?;
        let result = self.uncaught_before(&end, finish);
        self.process.go_live();
        self.after_travel()?;
        result
    }

    fn uncaught_before(&mut self, end: &Position, finish: u64) -> Result<Option<Uncaught>, Halted> {
        self.land(end)?;
        let Some(found) = self.find(end, Quarry::Call { address: finish, stack: None })? else {
            return Ok(None);
        };
        self.land(&found.position)?;
        if self.find_python().is_err() {
            return Ok(None);
        }
        let folder = self.working_folder();
        let memory = self.process.memory();
        let Some(python) = self.python() else { return Ok(None) };
        let reader = hindcast_python::Reader::new(python, &memory);
        // What cannot be read is not told.
        let Ok(Some(raised)) = reader.last_exception() else { return Ok(None) };
        let told = tell(&raised, &folder);
        let innermost = raised.traceback.last().map(|entry| entry.frame_slot);
        let moment = match innermost {
            // The entry is made as soon as the exception is raised in the frame.
            Some(address) => self.find(&found.position, Quarry::Write { address, size: 8 })?,
            None => None,
        };
        Ok(Some(Uncaught { raised: told, moment: moment.map(|found| found.position) }))
    }

    /// Where a function of the interpreter begins.
    pub(in crate::session) fn interpreters_function(&self, name: &str) -> Option<u64> {
        let modules: Vec<_> = self.image.iter().map(|loaded| loaded.module).collect();
        let runtime = modules
            .into_iter()
            .find(|module| self.symbols.symbol_address(*module, "_PyRuntime").is_some())?;
        self.symbols.symbol_address(runtime, name)
    }
}

/// A recursion may have thousands.
const MOST_TOLD: usize = 40;

fn place(entry: &TracebackEntry, folder: &str) -> Location {
    Location { line: entry.line, ..location_of(&entry.frame, folder) }
}

/// The exception as all engines tell theirs.
fn tell(raised: &Raised, folder: &str) -> RaisedException {
    let mut inner = Vec::new();
    let mut context = raised.context.as_ref();
    let mut depth = 0;
    while let Some(before) = context {
        depth += 1;
        inner.push(InnerException {
            depth,
            exception_type: before.raised.type_name.clone(),
            message: before.raised.message.clone(),
            thrown_at: own_place(&before.raised.traceback, folder),
        });
        context = before.raised.context.as_ref();
    }
    RaisedException {
        exception_type: raised.type_name.clone(),
        message: raised.message.clone(),
        unhandled: true,
        because: None,
        inner,
        thrown_at: raised.traceback.iter().rev().take(MOST_TOLD).map(|entry| place(entry, folder)).collect(),
    }
}

/// The innermost place in the program's own code.
fn own_place(traceback: &[TracebackEntry], folder: &str) -> Option<Location> {
    let own = traceback
        .iter()
        .rev()
        .find(|entry| !entry.code.is_library() && absolute(&entry.code.file, folder).is_some());
    own.or(traceback.last()).map(|entry| place(entry, folder))
}
