//! `hindcast worker`: what is done for a server in a process that can be lost.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod debug;
mod extract;
mod git;
mod xml;

use std::process::ExitCode;

use anyhow::Result;

use crate::options::WorkerKind;

pub(super) fn run(kind: &WorkerKind) -> Result<ExitCode> {
    match kind {
        WorkerKind::Xml => xml::run(),
        WorkerKind::Extract { format, passage_bytes, charset } => {
            extract::run(format, *passage_bytes, charset.as_deref())
        }
        WorkerKind::Git { arguments } => git::run(arguments),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        WorkerKind::Debug { gently, umask } => debug::run(*gently, *umask),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        WorkerKind::Keep { life, news, folder, command } => {
            let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::FAILURE) };
            Ok(hindcast_dap::keep(*life, *news, folder.clone(), program, arguments)?)
        }
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        WorkerKind::Debug { .. } | WorkerKind::Keep { .. } => anyhow::bail!("this build has no debug engine"),
    }
}
