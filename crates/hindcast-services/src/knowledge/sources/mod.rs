//! What may be given besides files and folders: `man:ls`, `python:requests`, `git:FOLDER`, `https://…`.

mod commits;
mod git;
mod manual;
mod python;
mod web;

use std::path::{Path, PathBuf};

use hindcast_core::knowledge::Patterns;

use super::{
    reading::Permit,
    walk::{Found, Selection, WalkLimits, Walked, Walking, walk},
};

/// What stands before the path of a module whose docstrings were taken.
const DOCSTRINGS: &str = "python:";
/// What stands before the path of a repository whose commits were taken.
const COMMITS: &str = "git:";

/// One of the things that were given. A file whose name begins as a source does is given with its folder: `./man:ls`.
enum Source {
    Path(PathBuf),
    /// Pages of the manual: a name, with or without a section, or a section.
    Manual(String),
    /// An installed Python package, by its name.
    Docstrings(String),
    /// The commit messages of a repository.
    Commits(PathBuf),
    /// A page or a sitemap.
    Web(String),
}

impl Source {
    fn of(given: PathBuf) -> Self {
        let Some(text) = given.to_str() else { return Self::Path(given) };
        let after = |scheme: &str| text.strip_prefix(scheme).map(str::to_owned);
        if let Some(name) = after("man:") {
            Self::Manual(name)
        } else if let Some(name) = after(DOCSTRINGS) {
            Self::Docstrings(name)
        } else if let Some(folder) = after(COMMITS) {
            Self::Commits(if folder.is_empty() { PathBuf::from(".") } else { folder.into() })
        } else if web::is_address(text) {
            Self::Web(text.to_owned())
        } else {
            Self::Path(given)
        }
    }
}

/// Everything that was given, as far as it has files.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) walked: Walked,
    /// Repositories whose commits are wanted, by their true paths.
    pub(super) repositories: Vec<PathBuf>,
    /// Addresses whose pages are wanted.
    pub(super) addresses: Vec<String>,
}

/// Looks for everything that was given. What is not there is among what was found, with the reason.
pub(super) fn gather(
    permit: &Permit,
    given: Vec<PathBuf>,
    patterns: &Patterns,
    limits: WalkLimits,
    walking: &mut dyn Walking,
) -> Gathered {
    let (mut paths, mut packages, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    let mut gathered = Gathered::default();
    let mut failed = |shown: String, reason: String| {
        gathered.walked.found.push(Found { shown, file: Err(reason) });
    };
    for source in given.into_iter().map(Source::of) {
        match source {
            Source::Web(address) => addresses.push(address),
            Source::Path(path) => paths.push(path),
            Source::Manual(name) => match manual::pages(&name).and_then(|pages| covered(permit, pages)) {
                Ok(pages) => paths.extend(pages),
                Err(reason) => failed(format!("man:{name}"), told_to(permit, reason)),
            },
            Source::Docstrings(name) => match python::package(&name) {
                Ok(package) if permit.is_remote() && !permit.covers(&package.path) => {
                    failed(format!("{DOCSTRINGS}{name}"), ELSEWHERE.into());
                }
                Ok(package) => packages.push(package),
                Err(reason) => failed(format!("{DOCSTRINGS}{name}"), told_to(permit, reason)),
            },
            Source::Commits(folder) => match permit.resolve(&folder) {
                Ok(folder) => gathered.repositories.push(folder),
                Err(reason) => failed(format!("{COMMITS}{}", folder.display()), reason),
            },
        }
    }
    gathered.addresses = addresses;
    if !paths.is_empty() {
        take(&mut gathered.walked, walk(permit, &paths, Selection::of(patterns), limits, walking));
    }
    for package in packages {
        take(&mut gathered.walked, docstrings(permit, &package, patterns, limits, walking));
    }
    gathered
}

const ELSEWHERE: &str = "it is not installed in one of the folders of `knowledge.allowed_folders` · hint: let the operator add \
                         the folder where it is installed";

/// Whether something is installed outside of the folders that may be read is not told.
fn told_to(permit: &Permit, reason: String) -> String {
    if permit.is_remote() { ELSEWHERE.into() } else { reason }
}

fn covered(permit: &Permit, mut pages: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    if permit.is_remote() {
        pages.retain(|page| permit.covers(page));
    }
    if pages.is_empty() { Err(ELSEWHERE.into()) } else { Ok(pages) }
}

fn take(all: &mut Walked, more: Walked) {
    all.found.extend(more.found);
    all.accepted.extend(more.accepted);
    all.notices.extend(more.notices);
    all.versions.extend(more.versions);
    all.left_out.extend(more.left_out);
}

/// The modules of a package, which are read for their docstrings.
fn docstrings(
    permit: &Permit,
    package: &python::Package,
    patterns: &Patterns,
    limits: WalkLimits,
    walking: &mut dyn Walking,
) -> Walked {
    let modules = Patterns { include: vec!["*.py".into()], exclude: patterns.exclude.clone() };
    let selection = Selection::of(&modules).with_ignored();
    let mut walked = walk(permit, std::slice::from_ref(&package.path), selection, limits, walking);
    for found in &mut walked.found {
        found.shown = format!("{DOCSTRINGS}{}", found.shown);
        if let Ok(file) = &mut found.file {
            file.reads_docstrings = true;
            file.package = package.distribution.as_ref().map(python::Distribution::tag);
        }
    }
    for root in &mut walked.accepted {
        *root = PathBuf::from(format!("{DOCSTRINGS}{}", root.display()));
    }
    // Whether it is the right one is seen by its version.
    walked.versions.extend(package.told());
    walked
}

/// The path that a document has whose module's docstrings were taken.
pub(super) fn docstrings_path(path: &str) -> String {
    format!("{DOCSTRINGS}{path}")
}

/// A module's name, from where it is installed.
pub(super) fn module_name(path: &Path) -> String {
    python::module_name(path)
}

/// The folder of the environment that a module of Python is installed in.
pub(super) fn environment_name(path: &Path) -> Option<&str> {
    python::environment_name(path)
}

/// Whether something given is read once and cannot be watched.
pub(super) fn is_read_once(root: &Path) -> bool {
    root.to_str().is_some_and(|root| root.starts_with(DOCSTRINGS) || root.starts_with(COMMITS))
}

/// The file that a document was made from, by the path it has; none where there is no file.
pub(super) fn file_of(path: &str) -> Option<&Path> {
    if path.starts_with(COMMITS) || web::is_address(path) {
        return None;
    }
    Some(Path::new(path.strip_prefix(DOCSTRINGS).unwrap_or(path)))
}
