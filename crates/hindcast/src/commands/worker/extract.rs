//! `hindcast worker extract`: reads one document that may be made to hurt, in a process that can be lost.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use hindcast_services::knowledge::{Format, answer_extraction};

/// A good reader needs a fraction of it for the largest documents.
#[cfg(unix)]
const MEMORY: u64 = 4 << 30;
#[cfg(unix)]
const CPU_SECONDS: u64 = 120;

pub(super) fn run(format: &str) -> Result<ExitCode> {
    end_with_our_parent()?;
    limit_ourselves()?;
    let format = Format::of_extension(format).context("no such format")?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    std::io::stdout().write_all(&answer_extraction(format, &bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// A server that ends, however it ends, leaves no reader behind that works for nobody.
#[cfg(target_os = "linux")]
fn end_with_our_parent() -> Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

#[cfg(not(target_os = "linux"))]
fn end_with_our_parent() -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn limit_ourselves() -> Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    setrlimit(Resource::RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS)?;
    // It opens nothing and leaves nothing.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?;
    Ok(())
}

#[cfg(not(unix))]
fn limit_ourselves() -> Result<()> {
    Ok(())
}
