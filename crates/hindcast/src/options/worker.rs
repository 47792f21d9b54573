//! What servers start of this program; not for people.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum WorkerKind {
    /// Validate XML documents against schemas
    Xml,
    /// Read a document from standard input, within limits of time and memory
    Extract {
        /// The end of its file's name
        format: String,
        /// Bytes of a passage at most
        passage_bytes: Option<usize>,
        /// The name of its encoding
        #[arg(long)]
        charset: Option<String>,
    },
    /// Be git, and end with the server
    Git {
        /// What git is told
        #[arg(last = true, required = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Hold one debug session
    Debug {
        /// Let go of the program when the server is gone, instead of ending at once
        #[arg(long)]
        gently: bool,
        /// The mask for new files of the program, as a number
        #[arg(long)]
        umask: Option<u32>,
    },
    /// Start a program, and end all that it started when the other end of a pipe closes
    Keep {
        /// The descriptor of that pipe
        life: i32,
        /// The descriptor of the pipe to tell how it goes
        news: i32,
        /// A folder to remove at the end
        #[arg(long)]
        folder: Option<std::path::PathBuf>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
}
