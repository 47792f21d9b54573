//! Processes that were killed. To take their memory apart can take the system milliseconds, for which nobody waits.

use std::cell::RefCell;

use super::tracee::{Tid, kill};

thread_local! {
    /// Only the thread that traced a process hears of its end.
    static DYING: RefCell<Dying> = const { RefCell::new(Dying(Vec::new())) };
}

struct Dying(Vec<Tid>);

/// Kills a process. Its end is taken note of at one of the next times, or when the thread ends.
pub(crate) fn dismiss(process: Tid) {
    kill(process);
    let _ = DYING.try_with(|dying| {
        let dying = &mut dying.borrow_mut().0;
        dying.retain(|&process| !reap(process, libc::WNOHANG));
        dying.push(process);
    });
}

/// Kills a process, and waits for its end.
pub(crate) fn end(process: Tid) {
    kill(process);
    reap(process, 0);
}

/// Somebody else took note of the end of a process.
pub(super) fn is_dead(process: Tid) {
    let _ = DYING.try_with(|dying| dying.borrow_mut().0.retain(|&other| other != process));
}

impl Drop for Dying {
    fn drop(&mut self) {
        for &process in &self.0 {
            reap(process, 0);
        }
    }
}

/// Takes note of the end of a process, if it has come.
fn reap(process: Tid, how: i32) -> bool {
    // SAFETY: waitpid may be given no place for the status.
    unsafe { libc::waitpid(process.0, std::ptr::null_mut(), libc::__WALL | how) != 0 }
}
