//! Which features of the kernel recording and native debugging can count on.

use std::{env::consts::ARCH, ffi::OsStr, fs::OpenOptions, process::Command};

use super::{read_setting, status_file::StatusFile};
use crate::doctor::{Check, brief_command, find_program};

/// Major and minor number of a kernel release.
type Version = (u32, u32);

/// The oldest kernel with PTRACE_GET_SYSCALL_INFO.
const OLDEST: Version = (5, 3);
/// The first kernel with PAGEMAP_SCAN.
const WITH_PAGEMAP_SCAN: Version = (6, 7);

pub(super) fn checks(status: &StatusFile, search_path: Option<&OsStr>) -> Vec<Check> {
    let release = read_setting("/proc/sys/kernel/osrelease").unwrap_or_default();
    let setting = read_setting("/proc/sys/vm/unprivileged_userfaultfd");
    let device = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").is_ok();
    let randomised = read_setting("/proc/sys/kernel/randomize_va_space").unwrap_or_default();
    vec![
        check_release(&release, ARCH),
        check_page_tracking(&release),
        check_userfaultfd(device, setting.as_deref(), status.may_trace_anything()),
        check_randomisation(&randomised, can_switch_it_off(search_path)),
    ]
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

/// Asking the kernel itself takes an ioctl, so this goes by the version.
fn check_page_tracking(release: &str) -> Check {
    const NAME: &str = "page tracking";
    match version_of(release) {
        Some(version) if version >= WITH_PAGEMAP_SCAN => {
            Check::ok(NAME, "PAGEMAP_SCAN, by the kernel's version (not tried)")
        }
        _ => Check::warn(
            NAME,
            "no PAGEMAP_SCAN, by the kernel's version (not tried)",
            "use Linux 6.7 or newer: finding the pages that changed is slower without",
        ),
    }
}

/// `device`: /dev/userfaultfd could be opened. `setting`: vm.unprivileged_userfaultfd, `None` when
/// not there.
fn check_userfaultfd(device: bool, setting: Option<&str>, privileged: bool) -> Check {
    const NAME: &str = "userfaultfd";
    match setting {
        _ if device => Check::ok(NAME, "/dev/userfaultfd can be opened"),
        Some("1") => Check::ok(NAME, "vm.unprivileged_userfaultfd is 1 (not tried)"),
        Some(_) if privileged => Check::ok(NAME, "allowed by CAP_SYS_PTRACE (not tried)"),
        Some(value) => Check::warn(
            NAME,
            format!(
                "only for faults of the program, not of the kernel: vm.unprivileged_userfaultfd is {value}"
            ),
            "run `sudo sysctl vm.unprivileged_userfaultfd=1`, or give this user access to /dev/userfaultfd",
        ),
        None => Check::warn(
            NAME,
            "not in this kernel: there is no vm.unprivileged_userfaultfd",
            "use a kernel with CONFIG_USERFAULTFD",
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
        for (release, architecture, kernel, tracking) in [
            ("6.18.44", "x86_64", Status::Ok, Status::Ok),
            ("6.6.0", "x86_64", Status::Ok, Status::Warn),
            ("4.19.0", "x86_64", Status::Warn, Status::Warn),
            ("6.18.44", "aarch64", Status::Warn, Status::Ok),
            ("", "x86_64", Status::Warn, Status::Warn),
        ] {
            assert_eq!(check_release(release, architecture).status, kernel, "{release}");
            assert_eq!(check_page_tracking(release).status, tracking, "{release}");
        }
    }

    #[test]
    fn userfaultfd_is_fine_by_device_setting_or_capability() {
        for (device, setting, privileged, expected) in [
            (true, None, false, Status::Ok),
            (false, Some("1"), false, Status::Ok),
            (false, Some("0"), true, Status::Ok),
            (false, Some("0"), false, Status::Warn),
            (false, None, true, Status::Warn),
        ] {
            let checked = check_userfaultfd(device, setting, privileged);
            assert_eq!(checked.status, expected, "{checked:?}");
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
