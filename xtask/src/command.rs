//! Running other programs, with errors that show the command line.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that runs this xtask, so that `cargo +toolchain xtask` stays on that toolchain.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs to the end with our own standard streams; any other exit than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line(command));
    }
    Ok(())
}

/// Runs to the end and returns what it printed; errors carry its standard error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}\n{}", line(command), output.status, complaint.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` did not print UTF-8", line(command)))
}

/// Whether a program is there and ends with 0; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
