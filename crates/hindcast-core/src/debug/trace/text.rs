//! Traces as people read them.

use std::fmt::{self, Write as _};

use super::{
    super::{Happening, Location},
    TraceEvent, TraceHead,
};

impl fmt::Display for TraceHead {
    /// Two or three lines: the program, and how much of it is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, recording, .. } = self;
        write!(f, "Recording of {}", target.name)?;
        if let Some(pid) = target.pid {
            write!(f, " (process {pid})")?;
        }
        write!(f, ": {}", target.executable)?;
        for argument in &target.args {
            write!(f, " {argument}")?;
        }
        match (&recording.start, &recording.end) {
            (Some(start), Some(end)) => write!(f, "\nFrom moment {start} to {end}")?,
            _ => f.write_str("\nWithout a history")?,
        }
        write!(f, ", {} events, {} snapshots", recording.events, recording.checkpoints)?;
        if let Some(reason) = &recording.reason {
            write!(f, "\nNot recorded any more: {reason}")?;
        }
        let time = self.made_at.strftime("%Y-%m-%d %H:%M:%S UTC");
        write!(f, "\nWritten {time} by {} on {}", self.made_by, self.machine)?;
        match (self.start_snapshot, self.end_snapshot) {
            (None, None) => Ok(()),
            (Some(start), None) => write!(f, "\nOnly from snapshot {start} on"),
            (None, Some(end)) => write!(f, "\nOnly up to snapshot {end}"),
            (Some(start), Some(end)) => write!(f, "\nOnly from snapshot {start} to {end}"),
        }
    }
}

impl fmt::Display for TraceEvent {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  [{}] {}: {}", self.moment, self.thread, self.kind, self.what)
    }
}

/// A happening on one line: when, what, where.
pub fn happening_in_a_line(happening: &Happening) -> String {
    let mut line = format!("{}  {:<10} {}", happening.moment, happening.kind.name(), happening.what);
    if let Some(Location { function, file: Some(file), line: Some(number), .. }) = &happening.location {
        let function = function.as_deref().unwrap_or("??");
        // Writing to a string does not fail.
        let _ = write!(line, " in {function} at {file}:{number}");
    }
    line
}
