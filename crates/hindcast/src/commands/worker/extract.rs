//! `hindcast worker extract`: reads one document that may be made to hurt, in a process that can be lost.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use hindcast_services::knowledge::{Format, answer_extraction};

/// A good reader needs a part of it for the largest documents: 2.2 GB for a page of HTML of 100 MB, 240 MB for as much plain text.
#[cfg(unix)]
const MEMORY: u64 = 4 << 30;
#[cfg(unix)]
const CPU_SECONDS: u64 = 120;

/// The same for PDF, of which a small file may unpack to much. A manual of 300 pages needs 60 MB.
#[cfg(unix)]
const PDF_MEMORY: u64 = 3 << 29;
#[cfg(unix)]
const PDF_CPU_SECONDS: u64 = 60;

/// The same for source code, which is not packed and not large.
#[cfg(unix)]
const CODE_MEMORY: u64 = 2 << 30;
#[cfg(unix)]
const CODE_CPU_SECONDS: u64 = 20;

pub(super) fn run(format: &str, passage_bytes: Option<usize>, charset: Option<&str>) -> Result<ExitCode> {
    end_with_our_parent()?;
    let format = Format::of_extension(format).context("no such format")?;
    limit_ourselves(format)?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    std::io::stdout().write_all(&answer_extraction(format, &bytes, charset, passage_bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// A server that ends, however it ends, leaves no reader behind that works for nobody.
#[cfg(target_os = "linux")]
pub(super) fn end_with_our_parent() -> Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end_with_our_parent() -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn limit_ourselves(format: Format) -> Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    let (memory, seconds) = match format {
        Format::Pdf => (PDF_MEMORY, PDF_CPU_SECONDS),
        format if format.is_code() || format == Format::Docstrings => (CODE_MEMORY, CODE_CPU_SECONDS),
        _ => (MEMORY, CPU_SECONDS),
    };
    setrlimit(Resource::RLIMIT_AS, memory, memory)?;
    setrlimit(Resource::RLIMIT_CPU, seconds, seconds)?;
    // It opens nothing and leaves nothing.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?;
    Ok(())
}

#[cfg(not(unix))]
fn limit_ourselves(_format: Format) -> Result<()> {
    Ok(())
}
