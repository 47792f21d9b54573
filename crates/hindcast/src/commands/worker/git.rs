//! `hindcast worker git`: git that ends with the server that asks it.

use std::{
    ffi::OsString,
    process::{Command, ExitCode},
};

use anyhow::Result;

use super::extract::end_with_our_parent;

pub(super) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    end_with_our_parent()?;
    let error = become_git(Command::new("git").args(arguments));
    // The server tells this to whoever asked.
    eprintln!("git cannot be started: {error} · hint: install git");
    Ok(ExitCode::FAILURE)
}

/// The wish to end with the parent outlives the change of the program.
#[cfg(unix)]
fn become_git(git: &mut Command) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    git.exec()
}

#[cfg(not(unix))]
fn become_git(git: &mut Command) -> std::io::Error {
    match git.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
