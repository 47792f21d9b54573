//! A .NET program that runs without a debugger.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};
use hindcast_fixtures::dotnet::{DotnetProgram, Runtime};

/// A running program; ends with this value.
pub(super) struct Debuggee {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Debuggee {
    /// Starts it and returns once it has written a line that begins so.
    pub(super) fn start(runtime: &Runtime, program: &DotnetProgram, first_word: &str) -> Result<Self> {
        let mut command = runtime.command(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().context("cannot start a .NET program")?;
        let input = process.stdin.take().context("no standard input")?;
        let output = BufReader::new(process.stdout.take().context("no standard output")?);
        let mut debuggee = Self { process, input, output };
        let line = debuggee.line()?;
        ensure!(line.starts_with(first_word), "`{}` is not `{first_word}`", line.trim_end());
        Ok(debuggee)
    }

    /// Its process number.
    pub(super) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Whether it still does its work.
    pub(super) fn check(&mut self) -> Result<()> {
        self.input.write_all(b"abc\n").context("the program does not listen")?;
        let line = self.line()?;
        ensure!(line.trim_end().ends_with(": cba"), "the program answers `{}`", line.trim_end());
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("the program cannot be read")?;
        Ok(line)
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
