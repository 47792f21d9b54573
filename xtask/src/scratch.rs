//! Folders that vanish with their owner.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// A fresh folder below the build folder, removed on drop.
pub(crate) struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    /// Makes the folder; what an earlier run of the same process number left is removed.
    pub(crate) fn create(workspace: &Workspace, purpose: &str) -> Result<Self> {
        let name = format!("{purpose}-{}", std::process::id());
        let path = workspace.target.join("xtask").join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Nothing to be done about a folder that stays: it is below the build folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
