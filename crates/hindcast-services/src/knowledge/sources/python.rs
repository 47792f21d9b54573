//! Python packages that are installed, found without running Python.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A package or module, and what it was installed with where that is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) distribution: Option<Distribution>,
}

/// What is installed as one: `PyYAML` has the package `yaml`. Python itself has its own library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    name: String,
    version: String,
}

impl Distribution {
    /// `pyyaml@6.0`, the name as package indexes write it.
    pub(super) fn tag(&self) -> String {
        format!("{}@{}", normal(&self.name), self.version)
    }
}

impl Package {
    /// Which version it is, and where it was found.
    pub(super) fn told(&self) -> Option<String> {
        let Distribution { name, version } = self.distribution.as_ref()?;
        let own = if normal(name) == normal(&self.name) { String::new() } else { format!("of {name} ") };
        Some(format!("{} {own}{version}, from `{}`", self.name, self.path.display()))
    }
}

/// A name in lower case, its words separated by `-`.
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
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
            let inside = path.strip_prefix(library).unwrap_or(&path);
            let distribution = installed_as(library, top, inside).or_else(|| standard(library));
            return Ok(Package { name: name.into(), distribution, path });
        }
    }
    Err(format!(
        "the Python package `{name}` is not installed in the environment that is active or here, for the user or for the \
                 system · hint: set VIRTUAL_ENV, or give the package's folder"
    ))
}

/// The version of the Python whose own library a folder is.
fn standard(library: &Path) -> Option<Distribution> {
    let minor = version_of(library).filter(|minor| *minor > 0)?;
    Some(Distribution { name: "Python".into(), version: format!("3.{minor}") })
}

/// What the files beside a package tell: those with its name, else those that list it. `inside` is its path in the library.
fn installed_as(library: &Path, name: &str, inside: &Path) -> Option<Distribution> {
    let mut entries: Vec<_> = fs::read_dir(library)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let about = file.strip_suffix(".dist-info").or_else(|| file.strip_suffix(".egg-info"))?;
            let (name, version) = about.split_once('-')?;
            let version = version.split("-py").next()?;
            Some((entry.path(), Distribution { name: name.into(), version: version.into() }))
        })
        .collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let named = entries.iter().position(|(_, distribution)| normal(&distribution.name) == normal(name));
    let found = named.or_else(|| entries.iter().position(|(about, _)| lists(about, name, inside)))?;
    Some(entries.swap_remove(found).1)
}

/// A list of files that is longer, in bytes, is not read.
const LONGEST_LIST: u64 = 8 << 20;

/// Whether the files about a distribution say that it has a package.
fn lists(about: &Path, name: &str, inside: &Path) -> bool {
    let read = |file: &str| {
        let file = about.join(file);
        let is_short = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= LONGEST_LIST;
        let is_read = fs::metadata(&file).is_ok_and(is_short);
        if is_read { fs::read_to_string(file).unwrap_or_default() } else { String::new() }
    };
    let inside = inside.to_string_lossy();
    // Several may share a folder, such as `google`, and are told apart by what they have below it.
    let is_it = |line: &str| {
        let rest = line.strip_prefix(&*inside);
        rest.is_some_and(|rest| rest.starts_with(',') || rest.starts_with("/__init__.py,"))
    };
    let record = read("RECORD");
    if !record.is_empty() {
        return record.lines().any(is_it);
    }
    read("top_level.txt").lines().any(|line| line.trim() == name)
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

/// `project` of `…/project/lib/python3.11/site-packages/requests/api.py`: the folder of the environment that a module is in.
pub(super) fn environment_name(path: &Path) -> Option<&str> {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let library = parts.iter().rposition(|part| matches!(*part, "site-packages" | "dist-packages"))?;
    match parts[..library] {
        [.., environment, "lib" | "lib64", _] => Some(environment),
        _ => None,
    }
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
            "lib/python3.11/site-packages/wings/__init__.py",
            "lib/python3.11/site-packages/feather/__init__.py",
            "lib/python3/dist-packages/single_file.py",
            "lib/python3/dist-packages/single_file-1.0.egg-info",
        ] {
            fs::create_dir_all(folder.path().join(file).parent().unwrap()).unwrap();
            fs::write(folder.path().join(file), "").unwrap();
        }
        for (distribution, file, text) in [
            ("Bird_Parts-1.5", "RECORD", "birds.py,sha256=x,1\nwings/__init__.py,sha256=x,1\n"),
            ("plumage-0.3", "top_level.txt", "_plumage\nfeather\n"),
        ] {
            let about = folder.path().join(format!("lib/python3.11/site-packages/{distribution}.dist-info"));
            fs::create_dir(&about).unwrap();
            fs::write(about.join(file), text).unwrap();
        }
        let libraries = libraries(folder.path());
        let heron = package_in(&libraries, "heron").unwrap();
        assert!(heron.path.ends_with("python3.11/site-packages/heron"), "{heron:?}");
        let tag = |package: &Package| package.distribution.as_ref().map(Distribution::tag);
        assert_eq!(tag(&heron).as_deref(), Some("heron@2.1.0"));
        assert!(heron.told().is_some_and(|told| told.starts_with("heron 2.1.0, from `")), "{heron:?}");
        for (name, expected, told) in [
            ("wings", "bird-parts@1.5", "wings of Bird_Parts 1.5, "),
            ("feather", "plumage@0.3", "feather of plumage 0.3, "),
        ] {
            let package = package_in(&libraries, name).unwrap();
            assert_eq!(tag(&package).as_deref(), Some(expected));
            assert!(package.told().is_some_and(|beginning| beginning.starts_with(told)), "{package:?}");
        }
        assert!(package_in(&libraries, "heron.lake").unwrap().path.ends_with("heron/lake.py"));
        let single = package_in(&libraries, "single-file").unwrap();
        assert_eq!(
            (single.path.ends_with("single_file.py"), tag(&single).as_deref()),
            (true, Some("single-file@1.0"))
        );
        for (name, file) in [("os", "os.py"), ("os.path", "posixpath.py")] {
            let module = package_in(&libraries, name).unwrap();
            assert_eq!((&*module.name, tag(&module).as_deref()), (name, Some("python@3.11")));
            assert!(module.told().is_some_and(|told| told.starts_with(&format!("{name} of Python 3.11, "))));
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
