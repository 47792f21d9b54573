//! A debugger's process that is talked to line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::process_tree;

/// How long one process may live; whoever hangs is ended, which ends the reading of its lines.
const LIMIT: Duration = Duration::from_secs(180);

/// What came back for one request.
pub(super) struct Answer {
    /// What a model reads of it.
    pub(super) text: String,
    /// All of it, with its frame.
    pub(super) bytes: usize,
}

/// A started debugger; it and all it started end with this value.
pub(super) struct Conversation {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Dropped to call the watchdog off.
    leash: Option<mpsc::Sender<()>>,
}

impl Conversation {
    /// Starts it with its standard streams in our hands.
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        Self::lasting(name, command, LIMIT)
    }

    /// The same for one that takes longer.
    pub(super) fn lasting(name: &'static str, command: &mut Command, limit: Duration) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        // A watchdog instead of a thread that reads: handing lines over would be measured too.
        let (leash, called_off) = mpsc::channel::<()>();
        let process = child.id();
        std::thread::spawn(move || {
            if called_off.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                process_tree::kill_all(process);
            }
        });
        Ok(Self { name, child, stdin, stdout, leash: Some(leash) })
    }

    /// Its process number.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub(super) fn send(&mut self, line: &str) -> Result<()> {
        // In one piece, so that the other side never wakes for half a line.
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("{} does not listen", self.name))
    }

    /// The next line, with its end.
    pub(super) fn read_line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).with_context(|| format!("{} cannot be read", self.name))?;
        if line.is_empty() {
            bail!("{} has ended, or did not get ready in time", self.name);
        }
        // A debuggee may print anything into the same stream.
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.leash = None;
        process_tree::kill_all(self.child.id());
        // Fails only when it has already been waited for.
        let _ = self.child.wait();
    }
}
