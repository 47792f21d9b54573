//! What native debugging asks of Linux.

mod kernel;
mod limits;
mod ptrace;
mod status_file;

use std::{ffi::OsStr, fs};

use super::Check;
use status_file::StatusFile;

pub(super) fn checks(search_path: Option<&OsStr>) -> Vec<Check> {
    let status = StatusFile::of_this_process();
    let scope = read_setting("/proc/sys/kernel/yama/ptrace_scope").and_then(|text| text.parse().ok());
    let attempt = ptrace::attempt(search_path);
    let mut checks = vec![
        ptrace::check(scope, status.may_trace_anything(), &attempt),
        ptrace::check_seccomp(status.seccomp_mode(), scope, &attempt),
    ];
    checks.extend(kernel::checks(search_path));
    checks.extend(limits::checks());
    checks
}

/// The trimmed text of a file in `/proc`, `None` when there is none to read.
fn read_setting(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
