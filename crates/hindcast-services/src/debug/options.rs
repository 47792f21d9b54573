//! How a session is to begin.

use std::{collections::BTreeMap, path::PathBuf};

use hindcast_core::debug::{Language, Place, Stdin, StopAtEntry, Streams};

/// A program to launch.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// A path, or a bare name to look up in `PATH`.
    pub program: PathBuf,
    /// Without the program's own name.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
    /// On top of the server's environment.
    pub env: BTreeMap<String, String>,
    /// Where it first stops.
    pub stop_at_entry: StopAtEntry,
    /// What it reads.
    pub stdin: Stdin,
    /// What its standard streams are.
    pub streams: Streams,
    /// Whether to record it, so that one can go back.
    pub record: bool,
    /// Decides which thread of a recorded program runs when, to expose races.
    pub chaos: Option<u64>,
    /// The session is about the first process of the tree that executes this program, by file name or path.
    pub follow: Option<String>,
    /// The session moves to the first process that the program forks.
    pub follow_forks: bool,
    /// It is not recorded before it gets to this place.
    pub record_from: Option<Place>,
    /// What it is written in.
    pub language: Language,
    /// Whether steps pass over code that is not the program's own.
    pub just_my_code: bool,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            program: PathBuf::new(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            stop_at_entry: StopAtEntry::default(),
            stdin: Stdin::default(),
            streams: Streams::default(),
            record: false,
            chaos: None,
            follow: None,
            follow_forks: false,
            record_from: None,
            language: Language::Auto,
            just_my_code: true,
        }
    }
}

/// A process to attach to.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// Its number; none where a port stands for it.
    pub pid: Option<u32>,
    /// The port of this machine at which it waits for debuggers.
    pub port: Option<u16>,
    /// Whether to record it from then on.
    pub record: bool,
    /// What it is written in.
    pub language: Language,
    /// Whether steps pass over code that is not the program's own.
    pub just_my_code: bool,
}

impl AttachOptions {
    /// The process of this number, as it is usually attached to.
    pub fn to(pid: u32) -> Self {
        Self { pid: Some(pid), port: None, record: false, language: Language::Auto, just_my_code: true }
    }
}
