//! `cargo xtask tidy`: what reviewers would otherwise have to look for by hand.
//!
//! The rules take parsed data and return violations, so that each can be shown to fail; only this file reads the disk.

mod arrows;
mod rust_text;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cargo_metadata::{Extent, Metadata};
use crate::workspace::Workspace;

/// Folders that hold nothing we wrote; in a linked work tree, one of them is a file.
const NOT_OURS: &[&str] = &[".git", "target", "node_modules", "__pycache__"];

/// A broken rule: where, what and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: PathBuf,
    line: usize,
    problem: String,
    hint: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, problem, hint } = self;
        write!(formatter, "{}:{line}: {problem} · hint: {hint}", file.display())
    }
}

/// A text file of the repository, its path relative to the root.
struct SourceFile {
    path: PathBuf,
    text: String,
}

/// Holds all rules and prints every violation.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut violations = arrows::check(&read_manifests(workspace)?);
    let sources = read_sources(&workspace.root)?;
    for source in &sources {
        violations.extend(sources::check(source));
    }
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} tidy violations", violations.len());
    }
    println!("{} files are tidy", sources.len());
    Ok(())
}

fn read_manifests(workspace: &Workspace) -> Result<Vec<arrows::Manifest>> {
    let metadata = Metadata::read(&workspace.root, Extent::OwnCrates)?;
    let read = |package: crate::cargo_metadata::Package| {
        let text = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("cannot read {}", package.manifest_path.display()))?;
        let path = package.manifest_path.strip_prefix(&workspace.root).unwrap_or(&package.manifest_path);
        Ok(arrows::Manifest {
            file: SourceFile { path: path.to_owned(), text },
            crate_name: package.name,
            dependencies: package.dependencies,
        })
    };
    metadata.packages.into_iter().map(read).collect()
}

/// Every text file we wrote, in a stable order. Walks the disk rather than asking git, which need not be there.
fn read_sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let bytes =
                    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                // A file that is not text has no lines to complain about.
                if let Ok(text) = String::from_utf8(bytes) {
                    let path = path.strip_prefix(root).unwrap_or(&path).to_owned();
                    sources.push(SourceFile { path, text });
                }
            }
        }
    }
    sources.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(sources)
}
