//! `hindcast worker`: what is done for a server in a process that can be lost.

mod extract;
mod xml;

use std::process::ExitCode;

use anyhow::Result;

use crate::options::WorkerKind;

pub(super) fn run(kind: &WorkerKind) -> Result<ExitCode> {
    match kind {
        WorkerKind::Xml => xml::run(),
        WorkerKind::Extract { format } => extract::run(format),
    }
}
