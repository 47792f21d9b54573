//! Debug adapters of other languages. None of them is needed to run hindcast, so a missing one is only mentioned.

use std::{collections::BTreeMap, process::Command};

use hindcast_dap::{Availability, Profiles};

use super::{Check, brief_command};

pub(super) fn checks(profiles: &Profiles, env: &BTreeMap<String, String>) -> Vec<Check> {
    profiles.availability(env).into_iter().map(report).collect()
}

fn report(adapter: Availability) -> Check {
    let Availability { title, adapter: name, install, candidates, check, .. } = adapter;
    // Most installations of debugpy are a module without a program of its own, so the interpreter is asked.
    let works = |program: &std::path::PathBuf| {
        check.is_empty() || brief_command::succeeds(Command::new(program).args(&check)) == Some(true)
    };
    match candidates.iter().find(|program| works(program)) {
        Some(program) => Check::ok(name, format!("{} (for {title})", program.display())),
        None => Check {
            remedy: Some(format!("to debug {title}, install {install}")).filter(|_| !install.is_empty()),
            ..Check::ok(name, format!("not installed (only needed for {title})"))
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::doctor::Status;

    /// Written by another process: a child that a parallel test starts could hold our own handle
    /// for a moment, and what is open for writing cannot be executed.
    fn put_program(folder: &Path, name: &str, script: &str, mode: &str) {
        let write = r##"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod "$3" "$1""##;
        let mut command = Command::new("sh");
        command.args(["-c", write, "sh"]).arg(folder.join(name)).args([script, mode]);
        assert_eq!(brief_command::succeeds(&mut command), Some(true));
    }

    fn checked(folder: &Path) -> Vec<Check> {
        let env = BTreeMap::from([("PATH".to_owned(), folder.display().to_string())]);
        checks(&Profiles::with(&BTreeMap::new()).unwrap(), &env)
    }

    fn detail_of(checks: &[Check], name: &str) -> String {
        let check = checks.iter().find(|check| check.name == name).expect("a check");
        check.detail.clone()
    }

    #[test]
    fn what_is_installed_is_shown_with_its_path_and_the_rest_with_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        put_program(folder.path(), "dlv", "", "755");
        put_program(folder.path(), "lldb-dap-19", "", "644");
        let checks = checked(folder.path());
        assert!(checks.iter().all(|check| check.status == Status::Ok));
        let expected = format!("{} (for Go)", folder.path().join("dlv").display());
        assert_eq!(detail_of(&checks, "delve"), expected);
        // A file that cannot be executed is not a program.
        assert!(detail_of(&checks, "lldb-dap").starts_with("not installed (only needed for "));
        let missing = checks.iter().filter(|check| check.detail.starts_with("not installed"));
        assert!(missing.clone().all(|check| check.remedy.is_some()));
        assert_eq!(missing.count(), checks.len() - 1);
    }

    #[test]
    fn debugpy_is_found_as_a_module_of_python() {
        for (answer, found) in [("exit 0", true), ("exit 1", false)] {
            let folder = tempfile::tempdir().expect("a folder");
            put_program(folder.path(), "python3", answer, "755");
            let detail = detail_of(&checked(folder.path()), "debugpy");
            assert_eq!(detail.ends_with("python3 (for Python)"), found, "{detail}");
        }
    }
}
