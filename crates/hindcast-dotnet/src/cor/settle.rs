//! Waiting until the threads of a process rest.
//!
//! A runtime that starts makes a thread that answers debuggers, and does not wait until it runs. Where the main thread has something to
//! tell before that, it answers in that thread's place; when the thread comes up in the middle of this, each waits for the
//! other for ever (seen with .NET 10.0 on a busy machine, in one of some hundred launches). So we look at the threads while the
//! main thread waits for us anyway.

use std::{
    fs, io,
    time::{Duration, Instant},
};

/// How long the threads may take. A library that somebody injected may have threads that never rest.
const WITHIN: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Returns when every thread of a process rests, or did not for a long time.
pub(super) fn await_rest(pid: u32) {
    let until = Instant::now() + WITHIN;
    let mut rest = Rest::of(pid);
    while Instant::now() < until {
        if rest.lasts_for() >= BETWEEN_LOOKS {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    tracing::debug!(pid, "the runtime's threads do not rest");
}

/// Watches whether the threads of a process rest.
pub(crate) struct Rest {
    pid: u32,
    /// What was seen when they began to rest.
    began: Option<(Threads, Instant)>,
}

/// How often each thread was given and gave up the processor.
type Threads = Vec<(u32, String)>;

impl Rest {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, began: None }
    }

    /// For how long no thread has done anything.
    pub(crate) fn lasts_for(&mut self) -> Duration {
        let now = resting(self.pid).ok().flatten();
        match (&self.began, now) {
            (Some((before, since)), Some(now)) if *before == now => return since.elapsed(),
            (_, now) => self.began = now.map(|threads| (threads, Instant::now())),
        }
        Duration::ZERO
    }
}

/// The threads of a process, where all of them wait for something.
fn resting(pid: u32) -> io::Result<Option<Threads>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let status = fs::read_to_string(entry.path().join("status"))?;
        if !status.lines().any(|line| line.starts_with("State:\tS")) {
            return Ok(None);
        }
        let switches = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
        threads.push((thread, switches));
    }
    threads.sort_unstable();
    Ok(Some(threads))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_rests_when_it_waits_and_not_while_it_works() {
        let mut waits = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        await_rest(waits.id());
        assert!(resting(waits.id()).unwrap().is_some());
        drop(waits.stdin.take());
        waits.wait().unwrap();
        // A thread that asks is not one that waits.
        assert_eq!(resting(std::process::id()).unwrap(), None);
    }
}
