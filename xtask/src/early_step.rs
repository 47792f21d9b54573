//! A step that runs as a process of its own beside another one.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{scratch::ScratchFolder, workspace::Workspace};

/// What it prints is kept until its turn, so that two steps never print at once. Dropping it ends it.
pub(crate) struct EarlyStep {
    process: Child,
    printed: PathBuf,
    _folder: ScratchFolder,
}

impl EarlyStep {
    /// Starts this program again for one task.
    pub(crate) fn begin(workspace: &Workspace, task: &str) -> Result<Self> {
        let folder = ScratchFolder::create(workspace, task)?;
        let printed = folder.path().join("printed");
        let output =
            File::create(&printed).with_context(|| format!("cannot create {}", printed.display()))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let process = Command::new(program)
            .arg(task)
            .current_dir(&workspace.root)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // What it starts ends with it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start the step `{task}`"))?;
        Ok(Self { process, printed, _folder: folder })
    }

    /// Waits until it has ended, and shows what it printed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.process.wait()?;
        print!("{}", String::from_utf8_lossy(&fs::read(&self.printed)?));
        if !status.success() {
            bail!("it ended with {status}");
        }
        Ok(())
    }
}

impl Drop for EarlyStep {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            // It may have ended meanwhile.
            let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM);
            let _ = self.process.wait();
        }
    }
}
