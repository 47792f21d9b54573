//! CPython of other versions than the machine's, from newer suites of Debian, under `target/peers/python-VERSION`.
//!
//! Nothing is installed: the packages are unpacked with all that they depend on, the C library included, and the interpreter is
//! changed to use those libraries and no others. It runs from anywhere without environment variables.

mod apt_root;
mod own_loader;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use hindcast_fixtures::pythons;

use crate::scratch::ScratchFolder;
use crate::workspace::Workspace;
use crate::{command, dotnet};
use apt_root::AptRoot;

/// Where the libraries of a package are, below the folder that it is unpacked into.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Loads libraries of the interpreter and of its modules, and shows where the interpreter finds its own.
const CHECK: &str = "import asyncio, ctypes, json, sqlite3, ssl, sys; print(sys.prefix)";

/// Installs the interpreters that are missing: the newest of each version that the suite has.
pub(super) fn prepare(workspace: &Workspace) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("no other Python: its packages are for Linux on x86-64");
        return Ok(());
    }
    pythons::PEERS.iter().try_for_each(|(version, suite)| prepare_version(workspace, version, suite))
}

fn prepare_version(workspace: &Workspace, version: &str, suite: &str) -> Result<()> {
    let folder = workspace.peers().join(format!("python-{version}"));
    let stamp = folder.join("made-from");
    let content = format!("{}\n{version} of {suite}\n", folder.display());
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == content) && check(&folder, version).is_ok()
    {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    println!("getting Python {version} of Debian's {suite}");
    let scratch = ScratchFolder::create(workspace, &format!("python-{version}"))?;
    let made = scratch.path().join("made");
    let packages = AptRoot::create(scratch.path().join("apt"), suite)
        .and_then(|apt| apt.download(&format!("python{version}")))
        .with_context(|| {
            format!(
                "cannot get Python {version} · hint: apt's mirror of Debian must have the suite `{suite}`"
            )
        })?;
    for package in packages {
        command::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&made))?;
    }
    give_own_loader(&made, &folder, version)?;
    dotnet::put_in_place(&made, &folder)?;
    check(&folder, version)?;
    std::fs::write(&stamp, content).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Changes the interpreter in `made` to use what is beside it once that folder is `folder`.
fn give_own_loader(made: &Path, folder: &Path, version: &str) -> Result<()> {
    let python = made.join(pythons::program_of(version));
    let mut program = std::fs::read(&python).with_context(|| format!("cannot read {}", python.display()))?;
    let loader = folder.join(LIBRARIES).join("ld-linux-x86-64.so.2");
    let loader = loader.to_str().context("the build folder's path is not in Unicode")?;
    // The interpreter is in `usr/bin`.
    own_loader::give(&mut program, loader, &format!("$ORIGIN/../../{LIBRARIES}"))
        .with_context(|| format!("cannot change {}", python.display()))?;
    std::fs::write(&python, program).with_context(|| format!("cannot write {}", python.display()))
}

fn check(folder: &Path, version: &str) -> Result<()> {
    let python = folder.join(pythons::program_of(version));
    let prefix = command::capture(Command::new(&python).env_clear().args(["-c", CHECK]))?;
    anyhow::ensure!(
        Path::new(prefix.trim()) == folder.join("usr"),
        "{} takes its modules from {}",
        python.display(),
        prefix.trim()
    );
    Ok(())
}
