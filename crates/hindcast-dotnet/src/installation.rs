//! Which .NET is installed here.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Where distributions and installers put it.
const USUAL_FOLDERS: &[&str] =
    &["/usr/share/dotnet", "/usr/lib/dotnet", "/usr/local/share/dotnet", "/opt/dotnet"];

/// A runtime that stands below a `dotnet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledRuntime {
    /// Such as `10.0.0`.
    pub version: String,
    /// Whether the library is there without which its programs cannot be debugged.
    pub can_be_debugged: bool,
}

/// The `dotnet` that runs a program with these variables: that of `DOTNET_ROOT`, of `PATH`, of `HOME`, or of the folders
/// where installers put it.
pub fn find_dotnet(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let root = set("DOTNET_ROOT").map(PathBuf::from);
    let on_path = set("PATH").unwrap_or_default();
    let home = set("HOME").map(|home| PathBuf::from(home).join(".dotnet"));
    let folders = root
        .into_iter()
        .chain(std::env::split_paths(&on_path))
        .chain(home)
        .chain(USUAL_FOLDERS.iter().map(PathBuf::from));
    let dotnet = folders.map(|folder| folder.join("dotnet")).find(|dotnet| is_executable(dotnet))?;
    // Its folder holds the runtimes, so a link to it is followed.
    Some(dotnet.canonicalize().unwrap_or(dotnet))
}

/// The runtimes that this `dotnet` can choose from, the oldest first.
pub fn installed_runtimes(dotnet: &Path) -> Vec<InstalledRuntime> {
    let folder = dotnet.with_file_name("shared").join("Microsoft.NETCore.App");
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let runtimes = entries.filter(|entry| entry.path().join("libcoreclr.so").is_file());
    let mut runtimes: Vec<_> = runtimes
        .map(|entry| InstalledRuntime {
            version: entry.file_name().to_string_lossy().into_owned(),
            can_be_debugged: entry.path().join("libmscordbi.so").is_file(),
        })
        .collect();
    runtimes.sort_by_key(|runtime| {
        let numbers = runtime.version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
        (numbers.collect::<Vec<_>>(), runtime.version.clone())
    });
    runtimes
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_sorted_by_their_numbers_and_known_by_their_library() {
        let folder = tempfile::tempdir().unwrap();
        let dotnet = folder.path().join("dotnet");
        assert_eq!(installed_runtimes(&dotnet), []);
        let put = |version: &str, files: &[&str]| {
            let folder = folder.path().join("shared/Microsoft.NETCore.App").join(version);
            std::fs::create_dir_all(&folder).unwrap();
            for file in files {
                std::fs::write(folder.join(file), "").unwrap();
            }
        };
        put("10.0.0", &["libcoreclr.so", "libmscordbi.so"]);
        put("8.0.11", &["libcoreclr.so"]);
        put("8.0.9", &["libcoreclr.so", "libmscordbi.so"]);
        put("notes", &[]);
        let found = installed_runtimes(&dotnet);
        let found: Vec<_> =
            found.iter().map(|runtime| (runtime.version.as_str(), runtime.can_be_debugged)).collect();
        assert_eq!(found, [("8.0.9", true), ("8.0.11", false), ("10.0.0", true)]);
    }

    #[test]
    fn the_variable_of_dotnet_comes_before_the_path_and_an_empty_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for name in ["root", "bin"] {
            std::fs::create_dir(real.join(name)).unwrap();
            std::os::unix::fs::symlink("/bin/true", real.join(name).join("other")).unwrap();
        }
        let put = |name: &str| {
            std::fs::write(real.join(name).join("dotnet"), "").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(real.join(name).join("dotnet"), mode).unwrap();
        };
        put("bin");
        let found = |root: &str| {
            find_dotnet(|name| match name {
                "DOTNET_ROOT" => Some(OsString::from(root)),
                "PATH" => Some(real.join("bin").into_os_string()),
                _ => None,
            })
        };
        let root = real.join("root");
        let root = root.to_str().unwrap();
        assert_eq!(found(""), Some(real.join("bin/dotnet")));
        assert_eq!(found(root), Some(real.join("bin/dotnet")), "there is none in it");
        put("root");
        assert_eq!(found(root), Some(real.join("root/dotnet")));
    }
}
