//! Finding the files of an adapter.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What decides where to look.
pub(crate) struct Surroundings<'a> {
    /// The program's variables.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Where it runs.
    pub(crate) cwd: Option<&'a Path>,
}

/// The first file that exists.
pub(crate) fn located(patterns: &[String], surroundings: &Surroundings<'_>) -> Option<PathBuf> {
    patterns.iter().flat_map(|pattern| candidates(pattern, surroundings)).find(|file| file.is_file())
}

fn candidates(pattern: &str, surroundings: &Surroundings<'_>) -> Vec<PathBuf> {
    let variable = |name: &str| surroundings.env.get(name).filter(|value| !value.is_empty());
    if let Some(rest) = pattern.strip_prefix("{path}/") {
        let folders = variable("PATH").into_iter().flat_map(std::env::split_paths);
        return folders.map(|folder| folder.join(rest)).collect();
    }
    if let Some(rest) = pattern.strip_prefix("{cwd}/") {
        let folders = surroundings.cwd.into_iter().flat_map(Path::ancestors);
        return folders.map(|folder| folder.join(rest)).collect();
    }
    if let Some(name) = pattern.strip_prefix('$') {
        return variable(name).map(PathBuf::from).into_iter().collect();
    }
    match pattern.strip_prefix("~/") {
        Some(rest) => variable("HOME").map(|home| Path::new(home).join(rest)).into_iter().collect(),
        None => vec![PathBuf::from(pattern)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_in_folders_that_variables_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/bin")).unwrap();
        std::fs::create_dir_all(root.join("project/src/deep")).unwrap();
        for file in ["a/server.js", "project/here.js", "home.js"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let text = |path: &str| root.join(path).display().to_string();
        let env = BTreeMap::from([
            ("PATH".to_owned(), format!("/nowhere:{}", text("a/bin"))),
            ("HOME".to_owned(), text("")),
            ("SERVER".to_owned(), text("a/server.js")),
        ]);
        let cwd = root.join("project/src/deep");
        let surroundings = Surroundings { env: &env, cwd: Some(&cwd) };
        let found = |pattern: &str| located(&[pattern.to_owned()], &surroundings).is_some();
        for pattern in ["{path}/../server.js", "{cwd}/here.js", "~/home.js", "$SERVER", "/proc/self/exe"] {
            assert!(found(pattern), "{pattern}");
        }
        for pattern in ["{path}/server.js", "{cwd}/nothing.js", "~/nothing.js", "$NOTHING", "/nowhere/x"] {
            assert!(!found(pattern), "{pattern}");
        }
    }
}
