//! What a program costs: processor time and memory, of itself and all it starts.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};

use crate::bench::{machine, process_tree};

/// How often memory is looked at.
const GLANCE: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) processor: Duration,
    /// The most memory at once, in kB.
    pub(super) peak: u64,
}

impl Cost {
    /// Runs a command that must succeed.
    pub(super) fn of(command: &mut Command) -> Result<Self> {
        let before = children()?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut peak = 0;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let members = process_tree::members(child.id())?;
            let held = members.into_iter().filter_map(|process| machine::memory(process).ok());
            peak = peak.max(held.map(|memory| memory.resident).sum());
            std::thread::sleep(GLANCE);
        };
        ensure!(status.success(), "{command:?} failed: {status}");
        Ok(Self { processor: children()? - before, peak })
    }
}

/// The processor time of all children that have been waited for, and of theirs.
fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds)?))
}
