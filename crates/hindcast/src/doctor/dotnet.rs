//! Which .NET runtimes programs can be debugged on. Only .NET programs need one, so that there is none is only mentioned.

use super::{Check, DoctorInput};

const NAME: &str = "dotnet";

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn check(_input: &DoctorInput) -> Check {
    Check::ok(NAME, format!("does not apply on {}: debugging is for Linux on x86-64", std::env::consts::OS))
}

/// Looks where sessions look, and asks each runtime for the library that debugs it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn check(input: &DoctorInput) -> Check {
    const INSTALL: &str = "install a .NET runtime (package `dotnet-runtime-8.0` or later)";
    let set = input.dotnet_root.clone().filter(|root| !root.is_empty());
    let asked = match (&set, &input.configured_dotnet) {
        (Some(root), _) => Some(("DOTNET_ROOT", std::path::PathBuf::from(root))),
        (None, Some(folder)) => Some(("debug.dotnet", folder.clone())),
        (None, None) => None,
    };
    let found = hindcast_dotnet::find_dotnet(|name| match name {
        "DOTNET_ROOT" => asked.as_ref().map(|(_, folder)| folder.clone().into_os_string()),
        "PATH" => input.search_path.clone(),
        "HOME" => input.home.clone(),
        _ => None,
    });
    // Another one is used then, or none, which is not what was meant.
    let astray =
        asked.filter(|(_, folder)| found.is_none() || folder.join("dotnet").canonicalize().ok() != found);
    if let Some((name, folder)) = astray {
        let instead = match &found {
            Some(dotnet) => format!("`{}` is used instead", dotnet.display()),
            None => "there is no other".to_owned(),
        };
        let detail = format!("`{name}` is `{}`, where there is no `dotnet`; {instead}", folder.display());
        return Check::warn(NAME, detail, format!("set `{name}` to the folder that holds `dotnet`"));
    }
    let Some(dotnet) = found else {
        let remedy = format!("to debug .NET, {INSTALL}, or set `debug.dotnet` to the folder of `dotnet`");
        return Check { remedy: Some(remedy), ..Check::ok(NAME, "not installed (only needed for .NET)") };
    };
    let runtimes = hindcast_dotnet::installed_runtimes(&dotnet);
    let versions = |can_be_debugged: bool| {
        let fitting = runtimes.iter().filter(|runtime| runtime.can_be_debugged == can_be_debugged);
        fitting.map(|runtime| runtime.version.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (good, bad, dotnet) = (versions(true), versions(false), dotnet.display());
    if runtimes.is_empty() {
        let detail = format!("`{dotnet}` has no runtime below `shared/Microsoft.NETCore.App`");
        return Check::warn(NAME, detail, INSTALL);
    }
    if bad.is_empty() {
        return Check::ok(NAME, format!("{dotnet} with runtime {good} (for .NET)"));
    }
    let good = if good.is_empty() { "none".to_owned() } else { good };
    let detail = format!(
        "{dotnet} with runtime {good}; programs on {bad} cannot be debugged: `libmscordbi.so` is not beside its `libcoreclr.so`"
    );
    Check::warn(
        NAME,
        detail,
        "install that runtime completely: the packages and archives of .NET have the file",
    )
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{config::Config, doctor::Status};

    /// As on a machine where only these are set.
    fn checked(root: Option<&Path>, configured: Option<&Path>) -> Check {
        let mut config = Config::default();
        config.debug.dotnet = configured.map(Path::to_owned);
        let dotnet_root = root.map(|root| root.as_os_str().to_owned());
        let (search_path, home) = (None, None);
        check(&DoctorInput { dotnet_root, search_path, home, ..DoctorInput::from_process(&config) })
    }

    fn put(folder: &Path, name: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, "").expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("a file can be made executable");
    }

    #[test]
    fn runtimes_are_named_and_those_without_the_debugging_library_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("a folder");
        put(&real, "dotnet");
        let none = checked(Some(&real), None);
        assert_eq!(none.status, Status::Warn);
        assert!(none.detail.contains("has no runtime"), "{none:?}");
        put(&real, "shared/Microsoft.NETCore.App/10.0.0/libcoreclr.so");
        put(&real, "shared/Microsoft.NETCore.App/10.0.0/libmscordbi.so");
        let shown = real.join("dotnet").display().to_string();
        let good = Check::ok("dotnet", format!("{shown} with runtime 10.0.0 (for .NET)"));
        assert_eq!(checked(Some(&real), None), good);
        assert_eq!(checked(None, Some(&real)), good);
        put(&real, "shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so");
        let part = checked(None, Some(&real));
        assert_eq!(part.status, Status::Warn);
        assert!(part.detail.contains("with runtime 10.0.0; programs on 8.0.1 cannot"), "{part:?}");
    }

    #[test]
    fn a_folder_without_dotnet_is_told_by_the_name_that_it_was_set_by() {
        let folder = tempfile::tempdir().expect("a folder");
        for (check, name) in [
            (checked(Some(folder.path()), None), "DOTNET_ROOT"),
            (checked(None, Some(folder.path())), "debug.dotnet"),
            (checked(None, Some(&folder.path().join("missing"))), "debug.dotnet"),
        ] {
            assert_eq!(check.status, Status::Warn);
            assert!(check.detail.starts_with(&format!("`{name}` is `")), "{check:?}");
        }
    }
}
