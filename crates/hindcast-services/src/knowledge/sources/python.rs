//! Python packages that are installed, found without running Python.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A package or module, and its version where that is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) version: Option<String>,
}

/// Looks for a package where Python would: in the environment that is active or here, then what the user and the system have.
pub(super) fn package(name: &str) -> Result<Package, String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let environments =
        std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain([".venv".into(), "venv".into()]);
    let prefixes =
        environments.chain(home.map(|home| home.join(".local"))).chain(["/usr/local".into(), "/usr".into()]);
    package_in(&prefixes.flat_map(|prefix| libraries(&prefix)).collect::<Vec<_>>(), name)
}

/// The folders of a prefix that have packages; those of newer versions first.
fn libraries(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let versions = fs::read_dir(&lib).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut versions: Vec<_> = versions.filter(|path| version_of(path).is_some()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(version_of(path)));
    let inside = |version: PathBuf| [version.join("site-packages"), version.join("dist-packages"), version];
    versions.into_iter().flat_map(inside).filter(|folder| folder.is_dir()).collect()
}

/// 11 of `python3.11`; 0 of `python3`, where Debian has what serves all versions.
fn version_of(path: &Path) -> Option<u32> {
    let rest = path.file_name()?.to_str()?.strip_prefix("python3")?;
    if rest.is_empty() { Some(0) } else { rest.strip_prefix('.')?.parse().ok() }
}

fn package_in(libraries: &[PathBuf], name: &str) -> Result<Package, String> {
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_.-".contains(letter));
    if !is_name || name.contains("..") || name.starts_with('.') {
        return Err("it names no Python package · hint: `python:requests`".into());
    }
    // Python gives this module another name; which one depends on the system.
    let module = if name == "os.path" { "posixpath" } else { name };
    let parts: PathBuf = module.replace('-', "_").split('.').collect();
    for library in libraries {
        let folder = library.join(&parts);
        let file = folder.with_extension("py");
        let path = if folder.join("__init__.py").is_file() { folder } else { file };
        if path.exists() {
            let top = name.split('.').next().unwrap_or(name);
            let version = version(library, top).or_else(|| standard(library));
            return Ok(Package { name: name.into(), version, path });
        }
    }
    Err(format!(
        "the Python package `{name}` is not installed in the environment that is active or here, for the user or for the \
                 system · hint: set VIRTUAL_ENV, or give the package's folder"
    ))
}

/// The version of the Python whose own library a folder is.
fn standard(library: &Path) -> Option<String> {
    let minor = version_of(library).filter(|minor| *minor > 0)?;
    Some(format!("of Python 3.{minor}"))
}

/// The version that the files beside a package tell.
fn version(library: &Path, name: &str) -> Option<String> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '.'], "_");
    let entries = fs::read_dir(library).ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).find_map(|entry| {
        let about = entry.strip_suffix(".dist-info").or_else(|| entry.strip_suffix(".egg-info"))?;
        let (of, version) = about.split_once('-')?;
        let version = version.split("-py").next()?;
        (plain(of) == plain(name)).then(|| version.to_owned())
    })
}

/// `requests.api` of `…/site-packages/requests/api.py`.
pub(super) fn module_name(path: &Path) -> String {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_library =
        |part: &&str| matches!(*part, "site-packages" | "dist-packages") || part.starts_with("python3");
    let start =
        parts.iter().rposition(is_library).map_or(parts.len().saturating_sub(1), |library| library + 1);
    let name = parts[start.min(parts.len())..].join(".");
    let name = name.strip_suffix(".py").unwrap_or(&name);
    name.strip_suffix(".__init__").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_with_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "lib/python3.9/site-packages/heron/__init__.py",
            "lib/python3.11/site-packages/heron/__init__.py",
            "lib/python3.11/site-packages/heron/lake.py",
            "lib/python3.11/site-packages/heron-2.1.0.dist-info/METADATA",
            "lib/python3.11/os.py",
            "lib/python3.11/posixpath.py",
            "lib/python3/dist-packages/single_file.py",
            "lib/python3/dist-packages/single_file-1.0.egg-info",
        ] {
            fs::create_dir_all(folder.path().join(file).parent().unwrap()).unwrap();
            fs::write(folder.path().join(file), "").unwrap();
        }
        let libraries = libraries(folder.path());
        let heron = package_in(&libraries, "heron").unwrap();
        assert!(heron.path.ends_with("python3.11/site-packages/heron"), "{heron:?}");
        assert_eq!(heron.version.as_deref(), Some("2.1.0"));
        assert!(package_in(&libraries, "heron.lake").unwrap().path.ends_with("heron/lake.py"));
        let single = package_in(&libraries, "single-file").unwrap();
        assert_eq!((single.path.ends_with("single_file.py"), single.version.as_deref()), (true, Some("1.0")));
        for (name, file) in [("os", "os.py"), ("os.path", "posixpath.py")] {
            let module = package_in(&libraries, name).unwrap();
            assert_eq!((&*module.name, module.version.as_deref()), (name, Some("of Python 3.11")));
            assert!(module.path.ends_with(file), "{module:?}");
        }
        for missing in ["", "owl", "../heron", "heron/lake", ".heron"] {
            assert!(
                package_in(&libraries, missing).is_err_and(|reason| reason.contains("hint")),
                "{missing}"
            );
        }
        assert_eq!(module_name(&heron.path.join("lake.py")), "heron.lake");
        assert_eq!(module_name(&heron.path.join("__init__.py")), "heron");
    }
}
