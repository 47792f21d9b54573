//! The part of `cargo metadata` that the rules read.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// The workspace as cargo sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Our crates, and with [`Extent::AllDependencies`] everything they stand on.
    pub(crate) packages: Vec<Package>,
    /// Folder of the workspace's `Cargo.toml`.
    pub(crate) workspace_root: PathBuf,
    /// Build folder.
    pub(crate) target_directory: PathBuf,
}

/// One crate.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name in the registry or in the workspace.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its SPDX expression.
    pub(crate) license: Option<String>,
    /// A licence file it names instead of an expression.
    pub(crate) license_file: Option<String>,
    /// Where its `Cargo.toml` is.
    pub(crate) manifest_path: PathBuf,
    /// What it asks for; not what was resolved.
    pub(crate) dependencies: Vec<Dependency>,
}

/// An edge from a crate to another.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The crate depended on.
    pub(crate) name: String,
    /// `None` for an ordinary dependency, as cargo writes it.
    pub(crate) kind: Option<DependencyKind>,
}

/// The dependencies that are not ordinary ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    /// Only for tests, examples and benches.
    Dev,
    /// Only for the build script.
    Build,
}

/// How much of the graph to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The workspace alone: quick and without network.
    OwnCrates,
    /// Everything in `Cargo.lock`, which must be up to date.
    AllDependencies,
}

impl Metadata {
    /// Runs `cargo metadata` in `folder`.
    pub(crate) fn read(folder: &Path, extent: Extent) -> Result<Self> {
        let mut metadata = Command::new(command::cargo());
        metadata.current_dir(folder).args(["metadata", "--format-version", "1"]);
        metadata.arg(match extent {
            Extent::OwnCrates => "--no-deps",
            Extent::AllDependencies => "--locked",
        });
        let json = command::capture(&mut metadata)?;
        serde_json::from_str(&json).context("`cargo metadata` printed something unexpected")
    }
}
