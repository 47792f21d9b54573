//! What the system grants this process: open files, and what becomes of core dumps.

use super::read_setting;
use crate::doctor::Check;

/// Every connection and every traced thread takes one or more.
const ENOUGH_FILES: u64 = 4096;

pub(super) fn checks() -> Vec<Check> {
    let limits = read_setting("/proc/self/limits").unwrap_or_default();
    let pattern = read_setting("/proc/sys/kernel/core_pattern").unwrap_or_default();
    vec![check_core_dumps(&pattern), check_open_files(&limits)]
}

/// Only information: cores are read where they are, never expected.
fn check_core_dumps(pattern: &str) -> Check {
    const NAME: &str = "core dumps";
    let detail = match pattern.strip_prefix('|') {
        Some(command) => {
            let program = command.split_whitespace().next().unwrap_or(command);
            format!("handed to {program}")
        }
        None if pattern.is_empty() => "not written (kernel.core_pattern is empty)".to_owned(),
        None => format!("written to `{pattern}`"),
    };
    Check::ok(NAME, detail)
}

/// `limits` is the text of `/proc/self/limits`.
fn check_open_files(limits: &str) -> Check {
    const NAME: &str = "open files";
    let Some((soft, hard)) = open_file_limits(limits) else {
        let remedy = "make /proc/self/limits readable";
        return Check::warn(NAME, "the limit cannot be read", remedy);
    };
    if soft >= ENOUGH_FILES {
        return Check::ok(NAME, format!("limit {}", shown(soft)));
    }
    let detail = format!("limit {soft}, {ENOUGH_FILES} are wanted");
    let remedy = if hard >= ENOUGH_FILES {
        format!("run `ulimit -n {ENOUGH_FILES}` before starting, or set LimitNOFILE in its service")
    } else {
        format!(
            "raise `nofile` to {ENOUGH_FILES} in /etc/security/limits.conf, or LimitNOFILE in its service"
        )
    };
    Check::warn(NAME, detail, remedy)
}

/// The soft and the hard limit.
fn open_file_limits(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((numbers.next()??, numbers.next()??))
}

fn shown(limit: u64) -> String {
    if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_low_limit_of_open_files_is_warned_about_with_the_way_to_raise_it() {
        for (soft, hard, status, remedy) in [
            ("1048576", "1048576", Status::Ok, ""),
            ("unlimited", "unlimited", Status::Ok, ""),
            ("1024", "524288", Status::Warn, "ulimit -n 4096"),
            ("1024", "2048", Status::Warn, "/etc/security/limits.conf"),
        ] {
            let limits = format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max cpu time              unlimited            unlimited            seconds   \n\
                 Max open files            {soft:<21}{hard:<21}files     \n"
            );
            let checked = check_open_files(&limits);
            assert_eq!(checked.status, status, "{checked:?}");
            assert!(checked.remedy.clone().unwrap_or_default().contains(remedy), "{checked:?}");
        }
        assert_eq!(check_open_files("").status, Status::Warn);
    }

    #[test]
    fn core_dumps_are_described_by_where_they_go() {
        for (pattern, expected) in [
            ("core", "written to `core`"),
            ("|/usr/lib/systemd/systemd-coredump %P", "handed to /usr/lib/systemd/systemd-coredump"),
            ("", "not written (kernel.core_pattern is empty)"),
        ] {
            let checked = check_core_dumps(pattern);
            assert_eq!((checked.status, checked.detail.as_str()), (Status::Ok, expected));
        }
    }
}
