//! Finding programs.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// So much of a script's first line the system reads.
const FIRST_LINE: u64 = 256;

/// A program by its path, or by its name in the `PATH` of these variables.
pub(crate) fn in_path(name: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let folders = env.get("PATH").map(String::as_str).unwrap_or("/usr/local/bin:/usr/bin:/bin");
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The interpreter that a script's first line names, as written there; behind `env` the program that it looks for.
pub(crate) fn interpreter_of(script: &Path) -> Option<String> {
    let mut start = Vec::new();
    let is_plain = script.metadata().is_ok_and(|file| file.is_file());
    let file = is_plain.then(|| File::open(script).ok()).flatten()?;
    file.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

/// The folders in which environments of Python are, from a folder upwards.
pub(crate) fn virtual_environment(from: &Path) -> Option<PathBuf> {
    let pythons = from
        .ancestors()
        .flat_map(|folder| [".venv", "venv", "env"].map(|name| folder.join(name).join("bin/python")));
    pythons.into_iter().find(|python| {
        // An environment says so; any other folder may have the name.
        python.ancestors().nth(2).is_some_and(|root| root.join("pyvenv.cfg").is_file()) && is_program(python)
    })
}
