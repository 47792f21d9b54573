//! What a session does while nobody asks it for anything: it looks after the program, and prepares a step back.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    time::Duration,
};

use hindcast_core::debug::DebugBackend;

use super::{
    viewport::State,
    worker::{Command, Core},
};

/// How often a program that stands still is looked after: whether it is still there.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// Who asks again within this time, as scripts do, is not to be held up by what nobody may want.
const BREATH: Duration = Duration::from_millis(20);
/// So often an interrupted preparation is begun again.
const TRIES: u8 = 3;

/// What is left to do in idle times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Idle {
    tries: u8,
}

impl Idle {
    /// There is a new stop.
    pub(super) fn since_stop() -> Self {
        Self { tries: TRIES }
    }
}

impl Core {
    /// The next command, if one comes before the program is to be looked after.
    pub(super) fn next(&mut self, commands: &Receiver<Command>) -> Result<Command, RecvTimeoutError> {
        if self.idle.tries > 0 {
            match commands.recv_timeout(BREATH) {
                Err(RecvTimeoutError::Timeout) => {}
                command => return command,
            }
            self.idle.tries -= 1;
            if let Some(command) = self.prepare(commands) {
                return command;
            }
        }
        commands.recv_timeout(LOOK_AFTER)
    }

    /// Prepares a step back until a command comes, which is given back where it came before that began.
    fn prepare(&mut self, commands: &Receiver<Command>) -> Option<Result<Command, RecvTimeoutError>> {
        let can_go_back = {
            let standing = self.standing.borrow();
            standing.state == State::Paused && standing.has_history()
        };
        let bell = self.bell.clone();
        bell.set_busy(true);
        let command = match commands.try_recv() {
            Ok(command) => Some(Ok(command)),
            Err(TryRecvError::Disconnected) => Some(Err(RecvTimeoutError::Disconnected)),
            Err(TryRecvError::Empty) => {
                let backend = self.backend().ok().filter(|_| can_go_back);
                if let Some(past) = backend.and_then(DebugBackend::time_travel) {
                    match past.prepare() {
                        Ok(true) => self.idle = Idle::default(),
                        Ok(false) => {}
                        // What stands in the way is told to who goes back.
                        Err(error) => tracing::debug!(%error, "a step back could not be prepared"),
                    }
                }
                None
            }
        };
        bell.set_busy(false);
        command
    }
}
