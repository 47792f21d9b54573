//! Getting programs that a bare machine lacks, from the distribution's package manager.

use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// Makes sure that `program` can be started, installing the Debian package of that name when it cannot.
pub(crate) fn ensure_program(program: &str, package: &str) -> Result<()> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    apt_install(package).with_context(|| format!("`{program}` is missing"))
}

/// Installs a Debian package; the list of packages is refreshed first only when the package is not found without.
pub(crate) fn apt_install(package: &str) -> Result<()> {
    println!("installing the Debian package {package}");
    if command::run(&mut apt_get(&["install", "-y", "--no-install-recommends", package])).is_ok() {
        return Ok(());
    }
    command::run(&mut apt_get(&["update"]))
        .and_then(|()| command::run(&mut apt_get(&["install", "-y", "--no-install-recommends", package])))
        .with_context(|| format!("cannot install {package} · hint: install it by hand and run this again"))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "apt-get"]);
        sudo
    };
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    command::capture(Command::new("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

/// Makes sure that the toolchain has `cargo fmt` and `cargo clippy`; minimal toolchains come without.
pub(crate) fn ensure_toolchain_component(cargo_subcommand: &str, component: &str) -> Result<()> {
    if command::succeeds(Command::new(command::cargo()).args([cargo_subcommand, "--version"])) {
        return Ok(());
    }
    command::run(Command::new("rustup").args(["component", "add", component])).with_context(|| {
        format!("`cargo {cargo_subcommand}` is missing · hint: add `{component}` to the toolchain")
    })
}
