//! What to start: the assembly that was asked for, and the host that runs it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
};

use hindcast_mapping::MappedFile;

use crate::{
    files::{FileError, LARGEST_MAPPED, LARGEST_READ, open_plain, read_plain},
    image::{Assembly, ImageBytes, ImageError},
    installation::find_dotnet,
};

/// A program as it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// `dotnet`, or the program's own host.
    pub(crate) host: PathBuf,
    /// What the host is told before the program's arguments.
    pub(crate) host_arguments: Vec<OsString>,
    /// The assembly with `Main`.
    pub(crate) assembly: PathBuf,
    /// Variables that the host needs and the caller did not set.
    pub(crate) variables: Vec<(String, String)>,
}

/// Why there is nothing to start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: FileError },
    #[error("`{}` is not a .NET program: {error}", path.display())]
    NotAnAssembly { path: PathBuf, error: ImageError },
    #[error("`{}` is a 32-bit assembly, which this 64-bit debugger cannot run", path.display())]
    Needs32Bit { path: PathBuf },
    #[error("`{}` is made for .NET Framework ({framework}), which runs only on Windows", path.display())]
    Framework { path: PathBuf, framework: String },
    #[error("`{}` is a library: it has no `Main`", path.display())]
    Library { path: PathBuf },
    #[error("`{}` is a native program without a .NET assembly beside it", path.display())]
    NotAHost { path: PathBuf },
    #[error("no .NET runtime was found: there is no `dotnet` in DOTNET_ROOT, PATH or the usual folders")]
    NoDotnet,
}

impl Program {
    /// Finds out how to start `program`, with the variables that were set for it.
    pub(crate) fn find(program: &Path, environment: &BTreeMap<String, String>) -> Result<Self, ProgramError> {
        if is_elf(program)? {
            return Self::with_own_host(program, environment);
        }
        check_assembly(program)?;
        let host = dotnet_for(environment).ok_or(ProgramError::NoDotnet)?;
        Ok(Self {
            host,
            host_arguments: vec!["exec".into(), program.into()],
            assembly: program.to_owned(),
            variables: Vec::new(),
        })
    }

    fn with_own_host(host: &Path, environment: &BTreeMap<String, String>) -> Result<Self, ProgramError> {
        let assembly =
            assembly_beside(host).ok_or_else(|| ProgramError::NotAHost { path: host.to_owned() })?;
        check_assembly(&assembly)?;
        // The host looks only in DOTNET_ROOT and in the system's folders, not where PATH leads.
        let is_set = environment.contains_key("DOTNET_ROOT") || std::env::var_os("DOTNET_ROOT").is_some();
        let root = dotnet_for(environment).and_then(|dotnet| Some(dotnet.parent()?.to_str()?.to_owned()));
        let variables = match root {
            Some(root) if !is_set => vec![("DOTNET_ROOT".to_owned(), root)],
            _ => Vec::new(),
        };
        Ok(Self { host: host.to_owned(), host_arguments: Vec::new(), assembly, variables })
    }
}

/// The assembly that a program's own executable starts: of the same name, beside it, with what the host needs to know of it. None
/// for a program that is no such host.
pub fn assembly_beside(host: &Path) -> Option<PathBuf> {
    // A link to it is followed by the host, too.
    let host = host.canonicalize().ok()?;
    let mut name = host.file_name()?.to_owned();
    name.push(".dll");
    let assembly = host.with_file_name(name);
    let has_configuration = assembly.with_extension("runtimeconfig.json").is_file()
        || assembly.with_extension("deps.json").is_file();
    (assembly.is_file() && has_configuration).then_some(assembly)
}

fn is_elf(path: &Path) -> Result<bool, ProgramError> {
    let unreadable = |error| ProgramError::Unreadable { path: path.to_owned(), error };
    let mut start = [0; 4];
    // A host that holds its program and the runtime may be large; only its start is read.
    let mut file = open_plain(path, u64::MAX).map_err(unreadable)?;
    let read = file.read(&mut start).map_err(|error| unreadable(error.into()))?;
    let is_named_as_assembly = path.extension().is_some_and(|extension| extension == "dll");
    Ok(&start[..read] == b"\x7fELF" && !is_named_as_assembly)
}

fn check_assembly(path: &Path) -> Result<(), ProgramError> {
    let unreadable = |error| ProgramError::Unreadable { path: path.to_owned(), error };
    let file = open_plain(path, LARGEST_MAPPED).map_err(unreadable)?;
    // Little of it is looked at. What cannot be mapped, such as an empty file, is read.
    let bytes = match MappedFile::new(&file) {
        Ok(mapped) => ImageBytes::new(mapped),
        Err(_) => read_plain(path, LARGEST_READ).map_err(unreadable)?.into(),
    };
    let assembly = Assembly::parse(bytes)
        .map_err(|error| ProgramError::NotAnAssembly { path: path.to_owned(), error })?;
    assembly.check_64_bit().map_err(|_| ProgramError::Needs32Bit { path: path.to_owned() })?;
    if let Some(framework) = assembly.target_framework().filter(|name| name.starts_with(".NETFramework")) {
        return Err(ProgramError::Framework { path: path.to_owned(), framework });
    }
    if assembly.entry_point().is_none() {
        return Err(ProgramError::Library { path: path.to_owned() });
    }
    Ok(())
}

/// The `dotnet` that is used for a program with these variables.
fn dotnet_for(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    find_dotnet(|name| environment.get(name).map(OsString::from).or_else(|| std::env::var_os(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(program: &Path) -> String {
        Program::find(program, &BTreeMap::new()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_plain_file_is_not_waited_for_nor_read_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program.dll");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(said(&path), format!("cannot read `{}`: it is not a plain file", path.display()));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(said(&path), format!("cannot read `{}`: it is not a plain file", path.display()));
    }

    #[test]
    fn a_huge_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program.dll");
        std::fs::write(&path, "MZ").unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(3 << 30).unwrap();
        assert_eq!(said(&path), format!("cannot read `{}`: it is larger than 1024 MB", path.display()));
        file.set_len(0).unwrap();
        assert!(said(&path).contains("is not a .NET program"), "{}", said(&path));
    }
}
