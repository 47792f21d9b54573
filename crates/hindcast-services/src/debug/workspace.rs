//! The files that a remote caller brings to debug them.
//!
//! Only this service makes files in a workspace: what programs write there goes with their session. So there are no links in
//! it, and one lock for each owner is enough to keep to the limits.

mod files;
mod owned;
mod room;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use hindcast_core::identity::{Caller, PrincipalId};

pub(super) use files::make_folders;
pub(super) use owned::{Growing, OwnedFolder};
pub use room::NewFile;

use super::{DebugService, policy};
use crate::{Failure, FailureKind};

/// A file of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// From the workspace's folder on.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it can be launched.
    pub executable: bool,
}

/// What a workspace holds.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Where programs see it.
    pub folder: PathBuf,
    /// By their paths; a page of them.
    pub files: Vec<WorkspaceFile>,
    /// How many there are.
    pub total: usize,
    /// All their sizes.
    pub bytes: u64,
    /// The most that they may have.
    pub most_bytes: u64,
}

/// What is put into a file.
#[derive(Debug)]
pub struct Piece<'a> {
    /// From the workspace's folder on.
    pub path: &'a Path,
    /// What it holds.
    pub bytes: &'a [u8],
    /// Whether to append to what is there.
    pub append: bool,
    /// Whether the file can be launched.
    pub executable: bool,
}

/// Files that are being written, by the owner of their workspace.
pub(super) type Workspaces = Mutex<HashMap<PrincipalId, Arc<Mutex<Growing>>>>;

impl DebugService {
    /// Writes a file, or appends to it.
    pub fn put_into_workspace(&self, caller: &Caller, piece: &Piece<'_>) -> Result<WorkspaceFile, Failure> {
        self.owned_folder(caller)?.put(piece)
    }

    /// The files of the caller's owner: skips the first `offset` and gives at most `limit`.
    pub fn workspace_of(&self, caller: &Caller, offset: usize, limit: usize) -> Result<Workspace, Failure> {
        let owned = self.owned_folder(caller)?;
        let mut workspace = owned.list()?;
        workspace.files = workspace.files.into_iter().skip(offset).take(limit).collect();
        Ok(workspace)
    }

    /// Removes a file, or a folder with all that is in it. What is left has no list of files.
    pub fn remove_from_workspace(&self, caller: &Caller, path: &Path) -> Result<Workspace, Failure> {
        let owned = self.owned_folder(caller)?;
        owned.remove(path)?;
        Ok(Workspace { files: Vec::new(), ..owned.list()? })
    }

    /// Where a new file may be written to for the caller. In a workspace it counts as the others do.
    pub fn new_file(&self, caller: &Caller, path: &Path) -> Result<NewFile, Failure> {
        let path = &self.resolved(caller, path);
        if caller.key.is_some() {
            self.policy_for(caller).check_written(path)?;
        }
        let path = policy::new_file(path)?;
        match self.confines(caller) {
            Some(_) => NewFile::in_workspace(self.owned_folder(caller)?, &path),
            None => Ok(NewFile::from(path)),
        }
    }

    fn owned_folder(&self, caller: &Caller) -> Result<OwnedFolder, Failure> {
        let Some(policy) = self.policy.confinement.as_ref().filter(|_| caller.key.is_some()) else {
            return Err(Failure::new(FailureKind::InvalidInput, "the local user has no workspace")
                .hint("launch programs where they are"));
        };
        let folder = self.workspace(caller, policy)?;
        let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let growing = workspaces.entry(caller.principal.clone()).or_default().clone();
        Ok(OwnedFolder { folder, most_bytes: policy.workspace_bytes, growing })
    }
}
