//! What `hindcast doctor` says of .NET.

use serde_json::Value;

use super::on_both;
use crate::server::command;

/// The check by this name, and the whole text.
fn checked(environment: &[(&str, &str)]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = |json: bool| {
        let mut command = command();
        command.env_remove("DOTNET_ROOT").envs(environment.iter().copied());
        command.arg("doctor").args(json.then_some("--json")).arg("--data-dir").arg(folder.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let checks: Value = serde_json::from_str(&run(true)).unwrap();
    let checks = checks["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "dotnet").unwrap().clone();
    (check, run(false))
}

#[test]
fn the_runtimes_are_named_with_the_dotnet_that_has_them() {
    on_both(|runtime| {
        let root = runtime.root.to_str().unwrap();
        let detail = format!("{} with runtime {} (for .NET)", runtime.dotnet.display(), runtime.version);
        for variable in ["DOTNET_ROOT", "HINDCAST_DEBUG_DOTNET", "PATH"] {
            let (check, text) = checked(&[(variable, root)]);
            assert_eq!((&check["status"], &check["detail"]), (&"ok".into(), &detail.as_str().into()));
            assert!(text.lines().any(|line| line.starts_with("ok") && line.ends_with(&detail)), "{text}");
        }
    });
}

#[test]
fn a_folder_without_dotnet_and_no_dotnet_at_all_have_their_remedies() {
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_str().unwrap();
    let (check, text) = checked(&[("HINDCAST_DEBUG_DOTNET", folder)]);
    assert_eq!(check["status"], "warn", "{check}");
    assert_eq!(check["remedy"], "set `debug.dotnet` to the folder that holds `dotnet`");
    assert!(text.contains(&format!("`debug.dotnet` is `{folder}`, where there is no `dotnet`")), "{text}");
    let (check, _) = checked(&[("PATH", folder), ("HOME", folder)]);
    assert_eq!(check["status"], "ok", "nobody needs it: {check}");
    if check["detail"].as_str().unwrap().starts_with("not installed") {
        assert!(check["remedy"].as_str().unwrap().contains("install a .NET runtime"), "{check}");
    }
}
