//! What `hindcast record` is told.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

#[derive(Args)]
pub(crate) struct Record {
    /// Write the recording to this new file, for `hindcast replay`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Let this seed decide which thread runs when and for how long, to expose races (1 where none is given)
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub(crate) chaos: Option<u64>,
    /// Record the first process that executes PROGRAM, somewhere below the one that is run: its file name, `*` for any
    /// letters, or its path. The rest is ended when that has ended
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) follow: Option<String>,
    /// Run the program at full speed to this function or FILE:LINE, and record from there on
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: Option<String>,
    /// Run the program with one seed after another, without input, until it fails (another exit code than 0, a signal, a
    /// hang), and keep that recording
    #[arg(long)]
    pub(crate) until_failure: bool,
    /// How often to try
    #[arg(long, value_name = "N", default_value_t = 200, requires = "until_failure")]
    pub(crate) tries: u64,
    /// A program that has not ended by then hangs
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "until_failure")]
    pub(crate) hang_after: u64,
    /// The program with its arguments; the exit code is its own, or 128 and the signal's number
    #[arg(required = true, last = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) command: Vec<OsString>,
}
