//! What comes for a session while the program runs or its past is searched.

use std::sync::mpsc::{Receiver, TryRecvError};

use tokio::sync::oneshot;

use super::worker::{Command, Core, Need};
use crate::Failure;

/// What came while something else goes on.
pub(super) enum Meanwhile {
    /// Nothing that ends it.
    GoOn,
    Pause(oneshot::Sender<Result<(), Failure>>),
    /// A command that is still to be served.
    End(Command),
    /// Nobody is left to hear how it went on.
    Gone,
}

impl Core {
    /// Serves what was asked for in the meantime.
    pub(super) fn serve_meanwhile(&mut self, commands: &Receiver<Command>) -> Meanwhile {
        loop {
            match commands.try_recv() {
                Ok(Command::Ask { need: Need::Standstill, work }) => {
                    work(Err(self.standing.borrow().why_busy()))
                }
                Ok(Command::Ask { work, .. }) => work(Ok(self)),
                Ok(Command::Move { begun, .. } | Command::Search { begun, .. }) => {
                    drop(begun.send(Err(self.standing.borrow().why_busy())));
                }
                Ok(Command::Pause { done }) => return Meanwhile::Pause(done),
                Ok(ending) => return Meanwhile::End(ending),
                Err(TryRecvError::Empty) => return Meanwhile::GoOn,
                Err(TryRecvError::Disconnected) => return Meanwhile::Gone,
            }
        }
    }
}
