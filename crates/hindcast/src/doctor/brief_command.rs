//! Asking another program a yes-or-no question without waiting for it for ever.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longer than a slow interpreter takes to start, shorter than a person's patience.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Whether the command ends with success; `None` when it cannot be started or does not end in time.
///
/// It reads and prints nothing, and never outlives the call.
pub(super) fn succeeds(command: &mut Command) -> Option<bool> {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = silent.spawn().ok()?;
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) => thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    // Both only fail when it has ended already.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_exit_status() {
        for (script, expected) in [("exit 0", Some(true)), ("exit 3", Some(false))] {
            assert_eq!(succeeds(Command::new("sh").args(["-c", script])), expected);
        }
        assert_eq!(succeeds(&mut Command::new("/nonexistent/program")), None);
    }
}
