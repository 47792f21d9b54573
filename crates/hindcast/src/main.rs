//! hindcast: see a program run, forwards and backwards, and know what is known about it.
#![allow(clippy::print_stdout, reason = "a command line prints")]

mod ballast;
mod commands;
mod config;
mod data_folder;
mod doctor;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engines;
mod index_folder;
mod install;
mod options;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod remote;
mod wiring;
mod workspaces;

use std::process::ExitCode;

use clap::Parser;

/// Every request makes and drops many small things on several threads; the system's allocator was
/// seen to take about a sixth of the server's time over that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let options = options::Options::parse();
    match commands::run(options) {
        Ok(code) => code,
        // The reader of our output went away, as `head` does: nobody is left to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", hindcast_core::printable::printable_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
