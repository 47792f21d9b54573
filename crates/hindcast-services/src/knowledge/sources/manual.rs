//! Pages of the manual that are installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where pages are unless `MANPATH` says otherwise.
const USUAL: [&str; 3] = ["/usr/local/share/man", "/usr/local/man", "/usr/share/man"];

/// The pages of a name (`ls`), of a name in a section (`printf.3`, `printf(3)`), or of a section (`3`), as files and folders.
pub(super) fn pages(name: &str) -> Result<Vec<PathBuf>, String> {
    pages_below(&folders(), name)
}

fn folders() -> Vec<PathBuf> {
    let given = std::env::var_os("MANPATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = Vec::new();
    // An empty part stands for what is usual.
    for part in std::env::split_paths(&given) {
        if part.as_os_str().is_empty() {
            folders.extend(USUAL.map(PathBuf::from));
        } else {
            folders.push(part);
        }
    }
    if folders.is_empty() { USUAL.map(PathBuf::from).to_vec() } else { folders }
}

fn pages_below(folders: &[PathBuf], name: &str) -> Result<Vec<PathBuf>, String> {
    if name.is_empty() || name.contains(['/', '\\']) || name.contains("..") {
        return Err(
            "it names no page of the manual · hint: `man:ls`, `man:printf.3`, or `man:3` for a section"
                .into(),
        );
    }
    if is_section(name) {
        return found(section(folders, name), &format!("the manual has no section {name} here"));
    }
    let (name, section) = match name.strip_suffix(')').and_then(|name| name.split_once('(')) {
        Some((name, section)) => (name, Some(section)),
        None => match name.rsplit_once('.') {
            Some((stem, section)) if section.starts_with(|letter: char| letter.is_ascii_digit()) => {
                (stem, Some(section))
            }
            _ => (name, None),
        },
    };
    let is_it = |path: &Path| {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let file = file.strip_suffix(".gz").unwrap_or(file);
        file.rsplit_once('.')
            .is_some_and(|(stem, of)| stem == name && section.is_none_or(|section| section == of))
    };
    let in_folder = |folder: &PathBuf| -> Vec<PathBuf> {
        entries(folder).into_iter().filter(|path| is_it(path)).collect()
    };
    let sections = folders.iter().flat_map(|folder| entries(folder)).filter(|path| is_man_folder(path));
    let mut pages: Vec<PathBuf> = sections.flat_map(|section| in_folder(&section)).collect();
    pages.dedup();
    found(pages, &format!("the manual has no page `{name}` here"))
}

/// `3` or `3perl`.
fn is_section(name: &str) -> bool {
    let rest = name.strip_prefix(|letter: char| letter.is_ascii_digit());
    rest.is_some_and(|rest| rest.len() <= 6 && rest.bytes().all(|letter| letter.is_ascii_alphabetic()))
}

/// The folders of a section; the pages of one that has none, such as `man3/fields.3perl`.
fn section(folders: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let own: Vec<_> = folders
        .iter()
        .map(|folder| folder.join(format!("man{name}")))
        .filter(|folder| folder.is_dir())
        .collect();
    if !own.is_empty() {
        return own;
    }
    let outer = folders.iter().map(|folder| folder.join(format!("man{}", &name[..1])));
    let ends = [format!(".{name}"), format!(".{name}.gz")];
    let is_in = |path: &PathBuf| path.to_str().is_some_and(|path| ends.iter().any(|end| path.ends_with(end)));
    outer.flat_map(|folder| entries(&folder)).filter(is_in).collect()
}

fn found(paths: Vec<PathBuf>, missing: &str) -> Result<Vec<PathBuf>, String> {
    match paths.is_empty() {
        true => Err(format!("{missing} · hint: install it, or name the manual's folder in MANPATH")),
        false => Ok(paths),
    }
}

/// `man1`, and not the folder of a language.
fn is_man_folder(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("man"));
    name.is_some_and(|section| section.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// What is in a folder, in order; nothing where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_name_and_by_section() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "man1/printf.1.gz",
            "man3/printf.3",
            "man3/printf_s.3",
            "man3/other.3",
            "man3/fields.3perl.gz",
            "de/man1/printf.1",
        ] {
            fs::create_dir_all(folder.path().join(file).parent().unwrap()).unwrap();
            fs::write(folder.path().join(file), ".TH").unwrap();
        }
        let folders = [folder.path().to_owned()];
        let found = |name: &str| {
            let pages = pages_below(&folders, name)?;
            let relative =
                |page: PathBuf| page.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
            Ok::<_, String>(pages.into_iter().map(relative).collect::<Vec<_>>())
        };
        assert_eq!(found("printf").unwrap(), ["man1/printf.1.gz", "man3/printf.3"]);
        assert_eq!(found("printf(3)").unwrap(), ["man3/printf.3"]);
        assert_eq!(found("printf.1").unwrap(), ["man1/printf.1.gz"]);
        assert_eq!(found("3").unwrap(), ["man3"]);
        assert_eq!(found("3perl").unwrap(), ["man3/fields.3perl.gz"]);
        assert_eq!(found("fields").unwrap(), ["man3/fields.3perl.gz"]);
        for missing in ["ls", "8", "", "../man1", "printf.2"] {
            assert!(found(missing).is_err_and(|reason| reason.contains("hint")), "{missing}");
        }
    }
}
