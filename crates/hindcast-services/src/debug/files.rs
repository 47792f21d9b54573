//! The files that callers name: programs, core files, recordings, input.

use std::path::{Path, PathBuf};

use hindcast_core::debug::TraceHead;

use crate::{Failure, FailureKind};

/// The path of a program: as written, below its folder, or in `PATH`. Links stay as they are, because
/// programs go by the name they are called with. A folder stands for the .NET program in it.
pub(super) fn find_program(program: &Path, cwd: Option<&Path>) -> Result<PathBuf, Failure> {
    if program.as_os_str().is_empty() {
        return Err(Failure::new(FailureKind::InvalidInput, "`program` is empty")
            .hint("give the path of an executable"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bare = program.components().count() == 1 && !program.has_root();
    let folders = std::env::split_paths(&path).filter(|_| bare);
    let here = cwd.map(|cwd| cwd.join(program));
    let mut candidates = here
        .clone()
        .into_iter()
        .chain(folders.map(|folder| folder.join(program)).chain([program.to_owned()]));
    let found = candidates.find(|candidate| candidate.is_file()).and_then(|it| std::path::absolute(it).ok());
    let shown: String = program.display().to_string().chars().take(200).collect();
    if found.is_none()
        && let Some(folder) = here.into_iter().chain([program.to_owned()]).find(|folder| folder.is_dir())
    {
        let assembly = assembly_in(&folder).and_then(|it| std::path::absolute(it).ok());
        return assembly.ok_or_else(|| {
            Failure::new(
                FailureKind::InvalidInput,
                format!("`{shown}` is a folder, and not of one .NET program"),
            )
            .hint(match has_go(&folder) {
                true => "for a package of Go, `program: go` with `args: [run, .]` and the folder as `cwd`",
                false => "give the path of an executable or a .dll in it",
            })
        });
    }
    found.ok_or_else(|| {
        Failure::new(FailureKind::InvalidInput, format!("there is no program `{shown}`"))
            .hint("give the absolute path of an executable; build it first if need be")
    })
}

/// The one .NET program of a folder: `X.dll` with `X.runtimeconfig.json` beside it.
fn assembly_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut assemblies = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let assembly = folder.join(format!("{}.dll", name.strip_suffix(".runtimeconfig.json")?));
        assembly.is_file().then_some(assembly)
    });
    let first = assemblies.next()?;
    assemblies.next().is_none().then_some(first)
}

fn has_go(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().extension().is_some_and(|extension| extension == "go"))
}

/// Where a path leads to, links and all.
pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The program that a recording is of, as it says itself.
pub(super) fn recorded_program(trace: &Path) -> Result<PathBuf, Failure> {
    let head = std::fs::File::open(trace).map_err(Into::into).and_then(TraceHead::read);
    head.map(|head| real(Path::new(&head.target.executable))).map_err(|error| {
        Failure::new(FailureKind::InvalidInput, error.to_string()).remedied(vec![error.remedy()])
    })
}

/// The real path of a plain file.
pub(super) fn readable(file: &Path) -> Result<PathBuf, Failure> {
    let shown: String = file.display().to_string().chars().take(200).collect();
    let refuse =
        |details: String, hint: &str| Err(Failure::new(FailureKind::InvalidInput, details).hint(hint));
    match file.canonicalize() {
        Ok(found) if found.is_file() => Ok(found),
        Ok(found) if found.is_dir() => refuse(format!("`{shown}` is a folder"), "name a file in it"),
        Ok(_) => {
            refuse(format!("`{shown}` is not a plain file"), "copy what it holds to a file, and name that")
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refuse(format!("there is no file `{shown}`"), "give an absolute path")
        }
        Err(error) => refuse(
            format!("`{shown}` cannot be opened: {error}"),
            "give the absolute path of a file that the server's user may read",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_one_program_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let found = || find_program(folder.path(), None);
        assert!(found().unwrap_err().details.contains("is a folder"));
        put("app.runtimeconfig.json");
        assert!(found().is_err(), "there is no assembly");
        put("app.dll");
        put("library.dll");
        let assembly = folder.path().join("app.dll");
        assert_eq!(found().unwrap(), assembly);
        assert_eq!(find_program(&assembly, None).unwrap(), assembly, "it need not be executable");
        put("tool.runtimeconfig.json");
        put("tool.dll");
        assert!(found().is_err(), "there are two");
    }
}
