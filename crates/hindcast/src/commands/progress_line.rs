//! How far work is, in one line of a terminal.

use std::{
    io::{IsTerminal, Write},
    sync::Mutex,
    time::{Duration, Instant},
};

use hindcast_core::progress::Progress;

/// Often enough to be seen to move.
const REDRAW: Duration = Duration::from_millis(100);

/// Draws to standard error, if that is a terminal.
pub(crate) struct ProgressLine {
    unit: &'static str,
    started: Instant,
    drawn: Option<Mutex<Option<Instant>>>,
}

impl ProgressLine {
    pub(crate) fn new(unit: &'static str) -> Self {
        let drawn = std::io::stderr().is_terminal().then(Mutex::default);
        Self { unit, started: Instant::now(), drawn }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        if self.drawn.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

impl Progress for ProgressLine {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let Some(drawn) = &self.drawn else { return };
        let Ok(mut drawn) = drawn.lock() else { return };
        if drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        *drawn = Some(Instant::now());
        let line = line(done, total, self.unit, message, self.started.elapsed());
        // A terminal that is gone needs no line.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    fn note(&self, message: &str) {
        let Some(drawn) = &self.drawn else { return };
        let Ok(mut drawn) = drawn.lock() else { return };
        if drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
            *drawn = Some(Instant::now());
            // A terminal that is gone needs no line.
            let _ = write!(std::io::stderr(), "\r\x1b[K{message}");
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

fn line(done: u64, total: Option<u64>, unit: &str, message: &str, elapsed: Duration) -> String {
    let tail: String = {
        let chars: Vec<char> = message.chars().filter(|char| !char.is_control()).collect();
        chars[chars.len().saturating_sub(40)..].iter().collect()
    };
    let Some(total) = total.filter(|total| *total > 0) else { return format!("{done} {unit} {tail}") };
    let left = match done {
        0 => String::new(),
        done => {
            let seconds = elapsed.as_secs() * total.saturating_sub(done) / done;
            format!(", {seconds} s left")
        }
    };
    format!("{}% {done}/{total} {unit}{left} {tail}", done * 100 / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_items_and_the_time_left_are_shown() {
        let shown = line(25, Some(100), "files", "/docs/a.md", Duration::from_secs(10));
        assert_eq!(shown, "25% 25/100 files, 30 s left /docs/a.md");
        assert_eq!(line(0, Some(0), "files", "", Duration::ZERO), "0 files ");
    }
}
