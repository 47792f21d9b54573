//! `hindcast doctor` and debug adapters.

use std::process::Command;

use hindcast_fixtures::adapters;

#[test]
fn adapters_that_work_here_are_named_and_the_others_with_what_to_install() {
    let Some(environment) = adapters::environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let doctor = |environment: &[(&str, String)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindcast"));
        command.args(["doctor", "--json", "--data-dir"]).arg(folder.path());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["checks"].as_array().unwrap().clone()
    };
    let checks = doctor(&environment);
    let detail = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        check["detail"].as_str().unwrap().to_owned()
    };
    for (name, what) in [
        ("debugpy", "(for Python)"),
        ("js-debug", "(for JavaScript and TypeScript)"),
        ("js-debug with Chromium", "(for pages in Chromium)"),
        ("delve", "(for Go)"),
        ("rdbg", "(for Ruby)"),
        ("JdiDapServer", "(for Java)"),
    ] {
        assert!(detail(name).ends_with(what), "{}", detail(name));
    }
    assert!(detail("netcoredbg").starts_with("not installed (only needed for .NET through netcoredbg)"));

    let bare = doctor(&[
        ("PATH", "/nowhere".to_owned()),
        ("JS_DEBUG", String::new()),
        ("JAVA_DEBUG_ADAPTER", String::new()),
    ]);
    for name in ["debugpy", "js-debug", "js-debug with Chromium", "delve", "rdbg", "lldb-dap", "JdiDapServer"]
    {
        let check = bare.iter().find(|check| check["name"] == name).unwrap();
        assert!(check["detail"].as_str().unwrap().starts_with("not installed"), "{check}");
        assert!(check["remedy"].as_str().unwrap().starts_with("to debug "), "{check}");
    }
}
