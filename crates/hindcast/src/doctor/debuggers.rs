//! Debuggers of other languages. None of them is needed to run hindcast, so a missing one is only
//! mentioned.

use std::{ffi::OsStr, path::PathBuf, process::Command};

use super::{Check, brief_command, find_program};

struct Debugger {
    name: &'static str,
    programs: &'static [&'static str],
    for_what: &'static str,
    install: &'static str,
}

const PYTHON: Debugger = Debugger {
    name: "debugpy",
    programs: &["debugpy-adapter", "debugpy"],
    for_what: "Python",
    install: "to debug Python, run `pip install debugpy`",
};

const OTHERS: [Debugger; 3] = [
    Debugger {
        name: "dlv",
        programs: &["dlv"],
        for_what: "Go",
        install: "to debug Go, run `go install github.com/go-delve/delve/cmd/dlv@latest`",
    },
    Debugger {
        name: "lldb-dap",
        // Distributions append the major version.
        programs: &[
            "lldb-dap",
            "lldb-dap-22",
            "lldb-dap-21",
            "lldb-dap-20",
            "lldb-dap-19",
            "lldb-dap-18",
            "lldb-vscode",
        ],
        for_what: "Swift and others through LLDB",
        install: "to debug through LLDB, install your system's package `lldb`",
    },
    Debugger {
        name: "node",
        programs: &["node"],
        for_what: "JavaScript and TypeScript",
        install: "to debug JavaScript, install Node.js 22 or newer",
    },
];

pub(super) fn checks(search_path: Option<&OsStr>) -> Vec<Check> {
    let find =
        |debugger: &Debugger| debugger.programs.iter().find_map(|program| find_program(search_path, program));
    let python = find(&PYTHON).or_else(|| python_with_debugpy(search_path));
    let mut checks = vec![report(&PYTHON, python)];
    checks.extend(OTHERS.iter().map(|debugger| report(debugger, find(debugger))));
    checks
}

/// Most installations of debugpy are a module without a program of its own.
fn python_with_debugpy(search_path: Option<&OsStr>) -> Option<PathBuf> {
    const QUESTION: &str =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('debugpy') is None)";
    let python = find_program(search_path, "python3")?;
    // -I: what lies in the current folder is not part of the installation, and must not be run.
    let found = brief_command::succeeds(Command::new(&python).args(["-I", "-c", QUESTION]));
    (found == Some(true)).then_some(python)
}

fn report(debugger: &Debugger, found: Option<PathBuf>) -> Check {
    let for_what = debugger.for_what;
    match found {
        Some(path) => Check::ok(debugger.name, format!("{} (for {for_what})", path.display())),
        None => Check {
            remedy: Some(debugger.install.to_owned()),
            ..Check::ok(debugger.name, format!("not installed (only needed for {for_what})"))
        },
    }
}

#[cfg(all(test, unix))]
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

    fn detail_of(checks: &[Check], name: &str) -> String {
        let check = checks.iter().find(|check| check.name == name).expect("a check");
        check.detail.clone()
    }

    #[test]
    fn what_is_installed_is_shown_with_its_path_and_the_rest_with_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        put_program(folder.path(), "dlv", "", "755");
        put_program(folder.path(), "node", "", "644");
        let checks = checks(Some(folder.path().as_os_str()));
        assert!(checks.iter().all(|check| check.status == Status::Ok));
        let expected = format!("{} (for Go)", folder.path().join("dlv").display());
        assert_eq!(detail_of(&checks, "dlv"), expected);
        // A file that cannot be executed is not a program.
        assert_eq!(detail_of(&checks, "node"), "not installed (only needed for JavaScript and TypeScript)");
        let missing = checks.iter().filter(|check| check.detail.starts_with("not installed"));
        assert!(missing.clone().all(|check| check.remedy.is_some()));
        assert_eq!(missing.count(), 3);
    }

    #[test]
    fn debugpy_is_found_as_a_module_of_python() {
        for (answer, found) in [("exit 0", true), ("exit 1", false)] {
            let folder = tempfile::tempdir().expect("a folder");
            put_program(folder.path(), "python3", answer, "755");
            let detail = detail_of(&checks(Some(folder.path().as_os_str())), "debugpy");
            assert_eq!(detail.ends_with("python3 (for Python)"), found, "{detail}");
        }
    }
}
