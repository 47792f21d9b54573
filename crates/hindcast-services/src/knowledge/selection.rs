//! Which files of a folder are taken: what `.gitignore`, `.ignore` and the patterns of whoever gave it say.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use hindcast_core::knowledge::Patterns;
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::{invalid, reading::Permit};
use crate::Failure;

/// Files of rules, those of the later counting more.
pub(super) const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Longer files of rules are not read.
const LONGEST_RULES: u64 = 1 << 20;

/// More patterns, or longer ones, take seconds to be made ready, for every folder that is given.
const MOST_PATTERNS: usize = 1000;
const LONGEST_PATTERN: usize = 1000;

/// Refuses patterns that are too many or cannot be understood. Blocks.
pub(super) fn check(patterns: &Patterns) -> Result<(), Failure> {
    for (name, list) in [("include", &patterns.include), ("exclude", &patterns.exclude)] {
        if list.len() > MOST_PATTERNS {
            return Err(invalid(format!("`{name}` has {} patterns, more than {MOST_PATTERNS}", list.len()))
                .hint("give folders or `*` instead of single files, or add the files by their paths"));
        }
        if let Some(long) = list.iter().find(|pattern| pattern.len() > LONGEST_PATTERN) {
            return Err(invalid(format!(
                "a pattern of `{name}` has {} bytes, more than {LONGEST_PATTERN}",
                long.len()
            ))
            .hint("give a shorter one: `*` stands for any part of a name"));
        }
    }
    for pattern in patterns.include.iter().chain(&patterns.exclude) {
        let mut builder = GitignoreBuilder::new("");
        let is_bad = pattern.trim().is_empty()
            || pattern.contains('\n')
            || builder.add_line(None, pattern).is_err()
            || builder.build().is_err();
        if is_bad {
            return Err(invalid(format!("the pattern `{}` cannot be understood", pattern.escape_debug()))
                .hint("write it as in a `.gitignore`, such as `*.md` or `build/`"));
        }
    }
    Ok(())
}

/// The rules that hold where a walk is.
#[derive(Default)]
pub(super) struct Rules {
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// Where patterns are anchored.
    top: PathBuf,
    /// Of folders around the current one, outermost first: each file's, and when it changed.
    folders: Vec<Vec<(Gitignore, Option<SystemTime>)>>,
}

/// Why something is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// It is none of those that were asked for.
    NotIncluded,
    /// Whoever gave the folder does not want it.
    Excluded,
    /// A file of rules names it, which changed then.
    Ignored(Option<SystemTime>),
}

impl Rules {
    /// The rules for what is below `top`.
    pub(super) fn below(top: &Path, patterns: &Patterns) -> Self {
        let made = |lines: &[String]| {
            (!lines.is_empty()).then(|| {
                let mut builder = GitignoreBuilder::new("");
                for line in lines {
                    // They were checked when they were given.
                    let _ = builder.add_line(None, line);
                }
                builder.build().ok()
            })
        };
        Self {
            include: made(&patterns.include).flatten(),
            exclude: made(&patterns.exclude).flatten(),
            top: top.into(),
            folders: Vec::new(),
        }
    }

    /// Takes the rules of the folders around `path`: from the root of its git repository on, or from `base` on.
    pub(super) fn take_from_above(&mut self, permit: &Permit, path: &Path, base: Option<&Path>) {
        let above: Vec<_> = path.ancestors().skip(1).collect();
        let is_root =
            |folder: &&Path| base.map_or_else(|| folder.join(".git").exists(), |base| *folder == base);
        let Some(root) = above.iter().position(is_root) else { return };
        for folder in above[..=root].iter().rev() {
            self.enter(permit, folder);
        }
    }

    /// Takes the rules of a folder.
    pub(super) fn enter(&mut self, permit: &Permit, folder: &Path) {
        let rules = RULE_FILES.iter().filter_map(|name| {
            let opened = permit.open(&folder.join(name)).ok().filter(|opened| opened.metadata.is_file())?;
            let (changed, read) = (changed_at(&opened.metadata), opened.read(LONGEST_RULES).ok()?);
            let mut builder = GitignoreBuilder::new(folder);
            for line in String::from_utf8_lossy(&read).lines() {
                // A line that git would not understand either.
                let _ = builder.add_line(None, line);
            }
            Some((builder.build().ok()?, changed))
        });
        self.folders.push(rules.collect());
    }

    /// Forgets the rules of the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.folders.pop();
    }

    /// Why something is not taken; none of what is.
    pub(super) fn leave_out(&self, path: &Path, is_folder: bool) -> Option<LeftOut> {
        if let Ok(relative) = path.strip_prefix(&self.top) {
            let is_named =
                |patterns: &Gitignore| patterns.matched_path_or_any_parents(relative, is_folder).is_ignore();
            if self.exclude.as_ref().is_some_and(is_named) {
                return Some(LeftOut::Excluded);
            }
            if !is_folder && self.include.as_ref().is_some_and(|include| !is_named(include)) {
                return Some(LeftOut::NotIncluded);
            }
        }
        // The innermost rule that says something decides.
        let said = self
            .folders
            .iter()
            .rev()
            .flat_map(|files| files.iter().rev())
            .map(|(rules, changed)| (rules.matched(path, is_folder), changed))
            .find(|(said, _)| !said.is_none());
        match said {
            Some((Match::Ignore(_), changed)) => Some(LeftOut::Ignored(*changed)),
            _ => None,
        }
    }
}

/// When a file was written or put in its place.
#[cfg(unix)]
fn changed_at(metadata: &std::fs::Metadata) -> Option<SystemTime> {
    use std::{os::unix::fs::MetadataExt, time::Duration};
    let (seconds, rest) = (u64::try_from(metadata.ctime()).ok()?, u32::try_from(metadata.ctime_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, rest))
}

#[cfg(not(unix))]
fn changed_at(metadata: &std::fs::Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_are_too_many_or_too_long_are_refused() {
        let refused = |include: Vec<String>, exclude: Vec<String>| {
            check(&Patterns { include, exclude }).unwrap_err().to_string()
        };
        let many = (0..1001).map(|number| format!("{number}.md")).collect();
        assert!(refused(many, Vec::new()).contains("`include` has 1001 patterns"));
        let long = refused(Vec::new(), vec!["x".repeat(1001)]);
        assert!(long.contains("`exclude` has 1001 bytes"), "{long}");
        let most = (0..1000).map(|number| format!("{number}.md")).collect();
        assert!(check(&Patterns { include: most, exclude: vec!["x".repeat(1000)] }).is_ok());
    }
}
