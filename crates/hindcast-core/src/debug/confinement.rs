//! What keeps a tenant's programs from everybody else.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// The folders of the system that every confined program may read; not all are on every system.
pub const SYSTEM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What the programs of one tenant may see and use. All else of the machine is not there for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Whose they are: where the server may choose, each tenant's programs run as a user of their own.
    pub tenant: String,
    /// Files and folders that can be read, besides those of the system.
    pub readable: Vec<PathBuf>,
    /// Folders that are empty for them, wherever they are.
    pub hidden: Vec<PathBuf>,
    /// The tenant's own folder. What programs write there is gone when the session ends.
    pub workspace: Option<PathBuf>,
    /// Whether they may use the network.
    pub network: bool,
    /// What they may take.
    pub limits: ConfinementLimits,
}

/// What the programs of one session may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementLimits {
    /// Bytes of private memory of each process. Memory that processes share does not count.
    pub memory: u64,
    /// Processes and threads of the user that the programs run as, with the copies that time travel keeps.
    pub processes: u64,
    /// Bytes in files that they make.
    pub files: u64,
}

/// One thing that keeps programs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Layer {
    /// They run as a user that owns nothing.
    OwnUser,
    UserNamespace,
    MountNamespace,
    PidNamespace,
    IpcNamespace,
    NetworkNamespace,
    Landlock,
    NoNewPrivileges,
    Seccomp,
    ResourceLimits,
}

impl Layer {
    /// In the words of the system's manual.
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnUser => "own user",
            Self::UserNamespace => "user namespace",
            Self::MountNamespace => "mount namespace",
            Self::PidNamespace => "pid namespace",
            Self::IpcNamespace => "ipc namespace",
            Self::NetworkNamespace => "network namespace",
            Self::Landlock => "Landlock",
            Self::NoNewPrivileges => "no_new_privs",
            Self::Seccomp => "seccomp",
            Self::ResourceLimits => "rlimits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
