//! Where the repository and its build folder are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo_metadata::{Extent, Metadata};
use crate::{command, install};

/// The repository this xtask belongs to.
pub(crate) struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's build folder, wherever configuration or environment put it.
    pub(crate) target: PathBuf,
    /// Clippy, where it compiles our crates in place of rustc.
    linter: Option<PathBuf>,
}

impl Workspace {
    /// Asks cargo; works from any folder, since cargo tells the xtask where its own manifest is.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
        let metadata = Metadata::read(root, Extent::OwnCrates)?;
        Ok(Self { root: metadata.workspace_root, target: metadata.target_directory, linter: None })
    }

    /// Lets clippy compile our crates: what it warns of is an error. One build then both lints and compiles, and dependencies
    /// need not be checked beside being compiled.
    pub(crate) fn compiled_by_clippy(mut self) -> Result<Self> {
        install::ensure_toolchain_component("clippy", "clippy")?;
        let toolchain = command::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        self.linter = Some(Path::new(toolchain.trim()).join("bin/clippy-driver"));
        Ok(self)
    }

    /// The folder with the official SDKs and the conformance suite, see `cargo xtask peers`.
    pub(crate) fn peers(&self) -> PathBuf {
        self.target.join("peers")
    }

    /// A cargo command in the root of the repository, with the same cargo that runs the xtask.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(command::cargo());
        command.current_dir(&self.root).args(arguments);
        // `cargo xtask` describes the xtask in these; build scripts that watch them would build everything again.
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let describes_xtask =
            |name: &String| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        names.filter(describes_xtask).for_each(|name| {
            command.env_remove(name);
        });
        if let Some(linter) = &self.linter {
            // What `cargo clippy -- -D warnings` sets.
            command.env("RUSTC_WORKSPACE_WRAPPER", linter);
            command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        }
        command
    }

    /// Builds the `hindcast` binary and returns its path.
    pub(crate) fn build_hindcast(&self, profile: Profile) -> Result<PathBuf> {
        let (folder, arguments) = match profile {
            // With the features of the whole workspace and its tests, so that what the tests built is used again.
            Profile::Dev => ("debug", ["--workspace", "--bins", "--tests"].as_slice()),
            Profile::Debuggee => {
                ("debuggee", ["--package=hindcast", "--bin=hindcast", "--profile=debuggee"].as_slice())
            }
            Profile::Release => (RELEASE, ["--package=hindcast", "--bin=hindcast", "--release"].as_slice()),
            Profile::Dist => (DIST, ["--package=hindcast", "--bin=hindcast", "--profile", DIST].as_slice()),
        };
        command::run(self.cargo(&["build"]).args(arguments))?;
        Ok(self.target.join(folder).join("hindcast"))
    }
}

/// The profile of binaries that are handed out.
pub(crate) const DIST: &str = "dist";
/// The profile of binaries that whoever has the sources builds.
pub(crate) const RELEASE: &str = "release";

/// How to build what is driven.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// What tests drive.
    Dev,
    /// What is debugged, with full debug information.
    Debuggee,
    /// What is measured where `Dist` takes too long to build.
    Release,
    /// What is measured, because it is what users get as a binary.
    Dist,
}
