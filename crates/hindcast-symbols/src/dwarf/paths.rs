//! Names of source files.

/// `name` in `folder` in `base`, without `.` and `..`.
pub(crate) fn join(base: &str, folder: &str, name: &str) -> String {
    let mut path = String::with_capacity(base.len() + folder.len() + name.len() + 2);
    for part in [base, folder, name] {
        if part.starts_with('/') {
            path.clear();
        }
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(part);
    }
    let plain =
        !path.contains("/.") && !path.contains("//") && !path.starts_with('.') && !path.ends_with('/');
    if plain { path } else { normalised(&path) }
}

/// `path` without `.`, `..` and empty components, as far as its text allows.
pub(crate) fn normalised(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if rooted { format!("/{joined}") } else { joined }
}

/// Whether `path` is `wanted`, or ends in it as whole components.
pub(crate) fn ends_with(path: &str, wanted: &str) -> bool {
    let Some(before) = path.strip_suffix(wanted) else { return false };
    before.is_empty() || before.ends_with('/') || wanted.starts_with('/') && before.is_empty()
}

/// The last component.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_cleaned() {
        assert_eq!(join("/home/me", "src", "main.c"), "/home/me/src/main.c");
        assert_eq!(join("/home/me", "/usr/include", "stdio.h"), "/usr/include/stdio.h");
        assert_eq!(join("/home/me/build", "../src/.", "./main.c"), "/home/me/src/main.c");
        assert_eq!(join("/a", "../../..", "b"), "/b");
        assert_eq!(join("", "", "main.c"), "main.c");
    }

    #[test]
    fn trailing_components_match_only_as_a_whole() {
        assert!(ends_with("/home/me/src/main.c", "main.c"));
        assert!(ends_with("/home/me/src/main.c", "src/main.c"));
        assert!(ends_with("/home/me/src/main.c", "/home/me/src/main.c"));
        assert!(!ends_with("/home/me/src/main.c", "ain.c"));
        assert!(!ends_with("/home/me/src/main.c", "/src/main.c"));
    }
}
