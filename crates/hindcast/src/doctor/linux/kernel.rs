//! Which features of the kernel recording and native debugging can count on.

use std::{env::consts::ARCH, ffi::OsStr, process::Command};

use super::read_setting;
use crate::doctor::{Check, brief_command, find_program};

/// Major and minor number of a kernel release.
type Version = (u32, u32);

/// The oldest kernel with PTRACE_GET_SYSCALL_INFO.
const OLDEST: Version = (5, 3);

pub(super) fn checks(search_path: Option<&OsStr>) -> Vec<Check> {
    let release = read_setting("/proc/sys/kernel/osrelease").unwrap_or_default();
    let randomised = read_setting("/proc/sys/kernel/randomize_va_space").unwrap_or_default();
    vec![check_release(&release, ARCH), check_randomisation(&randomised, can_switch_it_off(search_path))]
}

/// `6.18.44-custom` is (6, 18).
fn version_of(release: &str) -> Option<Version> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn check_release(release: &str, architecture: &str) -> Check {
    const NAME: &str = "kernel";
    let detail = format!("Linux {release} on {architecture}");
    if architecture != "x86_64" {
        let remedy = "native debugging is for x86-64; everything else works here";
        return Check::warn(NAME, detail, remedy);
    }
    match version_of(release) {
        Some(version) if version >= OLDEST => Check::ok(NAME, detail),
        Some(_) => Check::warn(NAME, detail, "native debugging is made for Linux 5.3 and newer"),
        None => Check::warn(
            NAME,
            format!("cannot tell the version from `{release}`"),
            "make /proc/sys/kernel/osrelease readable",
        ),
    }
}

/// Whether a program can be started without randomised addresses; `None` when there is no `setarch`
/// to try it with.
fn can_switch_it_off(search_path: Option<&OsStr>) -> Option<bool> {
    let setarch = find_program(search_path, "setarch")?;
    let nothing = find_program(search_path, "true")?;
    brief_command::succeeds(Command::new(setarch).args([ARCH, "--addr-no-randomize"]).arg(nothing))
}

/// `setting`: kernel.randomize_va_space.
fn check_randomisation(setting: &str, can_switch_it_off: Option<bool>) -> Check {
    const NAME: &str = "address randomisation";
    let state = format!("kernel.randomize_va_space is {setting}");
    match can_switch_it_off {
        _ if setting == "0" => Check::ok(NAME, format!("off for every program ({state})")),
        Some(true) => Check::ok(NAME, format!("can be switched off for one program ({state})")),
        None => Check::ok(NAME, format!("{state}; switching it off was not tried")),
        Some(false) => Check::warn(
            NAME,
            format!("cannot be switched off: addresses differ from run to run ({state})"),
            "in a container, start it with `--security-opt seccomp=unconfined`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn versions_are_read_from_all_sorts_of_releases() {
        for (release, expected) in [
            ("6.18.44-custom", Some((6, 18))),
            ("5.15.0-1-amd64", Some((5, 15))),
            ("6.1-rc3", Some((6, 1))),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(version_of(release), expected, "{release}");
        }
    }

    #[test]
    fn old_kernels_and_other_processors_are_warned_about() {
        for (release, architecture, kernel) in [
            ("6.18.44", "x86_64", Status::Ok),
            ("4.19.0", "x86_64", Status::Warn),
            ("6.18.44", "aarch64", Status::Warn),
            ("", "x86_64", Status::Warn),
        ] {
            assert_eq!(check_release(release, architecture).status, kernel, "{release}");
        }
    }

    #[test]
    fn only_randomisation_that_cannot_be_switched_off_is_warned_about() {
        for (setting, can_switch_it_off, expected) in [
            ("0", Some(false), Status::Ok),
            ("2", Some(true), Status::Ok),
            ("2", None, Status::Ok),
            ("2", Some(false), Status::Warn),
        ] {
            let checked = check_randomisation(setting, can_switch_it_off);
            assert_eq!(checked.status, expected, "{checked:?}");
        }
    }
}
