//! What is wrong with a configuration, said so that the reader knows where to look and what to
//! write instead.

use std::{fmt, path::PathBuf};

use thiserror::Error;

use super::Origin;

/// All that is wrong with the configuration, not only the first thing.
#[derive(Debug)]
pub(crate) struct ConfigError {
    problems: Vec<Problem>,
}

/// One thing that is wrong with the configuration.
#[derive(Debug, Error, PartialEq)]
pub(super) enum Problem {
    #[error("cannot read the configuration file {path}: {reason} · hint: {remedy}", path = .path.display())]
    UnreadableFile { path: PathBuf, reason: String, remedy: String },

    #[error("{path} is not valid TOML: {message}", path = .path.display())]
    InvalidToml { path: PathBuf, message: String },

    #[error("unknown key `{key}` {} · hint: {hint}", .origin.phrase())]
    UnknownKey { key: String, origin: Origin, hint: String },

    #[error("the variable `{variable}` is not valid Unicode · hint: set it to a text that is")]
    NotUnicode { variable: String },

    #[error("invalid value `{value}` for `{key}` {}: {reason} · hint: {remedy}", .origin.phrase())]
    InvalidValue { key: String, origin: Origin, value: String, reason: String, remedy: String },

    #[error(
        "cannot tell where the data folder is: neither `XDG_DATA_HOME` nor `HOME` is an absolute path \
         · hint: set `data_dir`, `HINDCAST_DATA_DIR` or `--data-dir`"
    )]
    NoDataFolder,
}

/// Something odd that stops nothing.
#[derive(Debug, Error, PartialEq)]
pub(crate) enum Warning {
    /// Kubernetes sets such variables in every pod beside a service whose name begins with `hindcast`.
    #[error("variables that Kubernetes sets for a service are ignored: {}", .variables.join(", "))]
    ServiceLinks { variables: Vec<String> },

    #[error("unknown variable `{variable}` in the environment is ignored · hint: {hint}")]
    UnknownVariable { variable: String, hint: String },
}

impl ConfigError {
    /// `Ok` when there are no problems, so that a stage can end with
    /// `ConfigError::check(problems)?`.
    pub(super) fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
