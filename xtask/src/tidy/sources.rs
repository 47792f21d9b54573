//! Rules about single files.

use std::path::Path;

use super::rust_text::code_only;
use super::{SourceFile, Violation};

/// The only places in which `unsafe` may occur.
const UNSAFE_PLACES: [&str; 4] = [
    "crates/hindcast-native/src/sys",
    "crates/hindcast-dotnet/src/cor",
    "crates/hindcast-mapping/src",
    "crates/hindcast-streams/src/left.rs",
];
/// Debuggees may do what debuggees do.
const DEBUGGEES: &str = "fixtures/rust";
/// Longer Rust files must say why.
const LONG: usize = 600;
/// What such a file says, among its first lines.
const LONG_REASON: &str = "//! Long because";
const LONG_REASON_WITHIN: usize = 20;
/// File and module names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "common", "helpers"];
/// First folders of paths that show where somebody built this. Not `home`: examples of users' files live there.
const MACHINE_FOLDERS: &[&str] = &["work", "root"];
/// A line with this marker and a reason after it is not checked for machine paths.
const EXEMPT: &str = "tidy-exempt:";

/// Every rule on one file.
pub(super) fn check(source: &SourceFile) -> Vec<Violation> {
    let mut violations = machine_paths(source);
    violations.extend(unfinished_notes(source));
    if source.path.extension().is_some_and(|extension| extension == "rs") {
        let code = code_only(&source.text);
        violations.extend(unfinished_code(source, &code));
        violations.extend(unsafe_elsewhere(source, &code));
        violations.extend(long_without_reason(source));
        violations.extend(empty_name(source));
    }
    violations
}

fn machine_paths(source: &SourceFile) -> Vec<Violation> {
    let has_machine_path = |line: &str| !line.contains(EXEMPT) && machine_path(line).is_some();
    let lines = numbered(&source.text).filter(|(_, line)| has_machine_path(line));
    lines
        .map(|(number, line)| Violation {
            file: source.path.clone(),
            line: number,
            problem: format!("`{}…` exists on one machine only", machine_path(line).unwrap_or_default()),
            hint: "use a relative path or a temporary folder",
        })
        .collect()
}

/// The first absolute path in the line that leads into the machine this was written on.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(start, _)| {
        let before = &line[..start];
        let continues = before.ends_with(|last: char| last.is_alphanumeric() || "_-.~/}".contains(last))
            && !before.ends_with("file://");
        let (folder, _) = line[start + 1..].split_once('/')?;
        let is_machine = MACHINE_FOLDERS.contains(&folder) && !continues;
        is_machine.then(|| &line[start..start + folder.len() + 2])
    })
}

fn unfinished_notes(source: &SourceFile) -> Vec<Violation> {
    // Written in two halves, so that this file obeys its own rule.
    let note = ["FIX", "ME"].concat();
    let lines = numbered(&source.text).filter(|(_, line)| line.contains(&note));
    lines
        .map(|(number, _)| Violation {
            file: source.path.clone(),
            line: number,
            problem: format!("`{note}` left behind"),
            hint: "do it now, or say in a sentence what is deliberately absent and why",
        })
        .collect()
}

fn unfinished_code(source: &SourceFile, code: &str) -> Vec<Violation> {
    let unfinished =
        |line: &str| ["todo!", "unimplemented!"].into_iter().find(|macro_| line.contains(macro_));
    numbered(code)
        .filter_map(|(number, line)| unfinished(line).map(|macro_| (number, macro_)))
        .map(|(number, macro_)| Violation {
            file: source.path.clone(),
            line: number,
            problem: format!("`{macro_}` left behind"),
            hint: "write the code, or return an error that says what is missing",
        })
        .collect()
}

fn unsafe_elsewhere(source: &SourceFile, code: &str) -> Vec<Violation> {
    let may_be = UNSAFE_PLACES.iter().any(|place| source.path.starts_with(place));
    if may_be || source.path.starts_with(DEBUGGEES) {
        return Vec::new();
    }
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let lines = numbered(code)
        .filter(|(_, line)| line.split(|character| !is_word(character)).any(|word| word == "unsafe"));
    lines
        .map(|(number, _)| Violation {
            file: source.path.clone(),
            line: number,
            problem: format!("`unsafe` outside {}", UNSAFE_PLACES.join(" and ")),
            hint: "wrap the call there behind a safe function, or use a safe crate such as nix",
        })
        .collect()
}

fn long_without_reason(source: &SourceFile) -> Option<Violation> {
    let length = source.text.lines().count();
    let has_reason = source.text.lines().take(LONG_REASON_WITHIN).any(|line| line.starts_with(LONG_REASON));
    (length > LONG && !has_reason).then(|| Violation {
        file: source.path.clone(),
        line: 1,
        problem: format!("{length} lines without a reason"),
        hint: "split it, or say why near the top with a line `//! Long because …`",
    })
}

fn empty_name(source: &SourceFile) -> Option<Violation> {
    let name = module_name(&source.path)?;
    EMPTY_NAMES.contains(&name).then(|| Violation {
        file: source.path.clone(),
        line: 1,
        problem: format!("a module named `{name}` says nothing about what is inside"),
        hint: "name it after the thing it is about, such as `replay/timeline.rs`",
    })
}

/// `common` for both `common.rs` and `common/mod.rs`.
fn module_name(path: &Path) -> Option<&str> {
    let stem = path.file_stem()?.to_str()?;
    if stem == "mod" { path.parent()?.file_name()?.to_str() } else { Some(stem) }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_problems(path: &str, text: &str, expected: &[&str]) {
        let source = SourceFile { path: path.into(), text: text.into() };
        let found: Vec<String> = check(&source)
            .iter()
            .map(|violation| format!("{}: {}", violation.line, violation.problem))
            .collect();
        assert_eq!(found, expected);
    }

    /// `@` stands for the slash, so that this file obeys its own rule.
    #[track_caller]
    fn check_machine_path(line: &str, expected: Option<&str>) {
        let line = line.replace('@', "/");
        assert_eq!(machine_path(&line).map(|path| path.replace('/', "@")).as_deref(), expected, "{line}");
    }

    #[test]
    fn absolute_paths_into_a_machine_are_found() {
        check_machine_path("see @work@main@x", Some("@work@"));
        check_machine_path("\"@root@.cargo\"", Some("@root@"));
        check_machine_path("file:@@@work@x", Some("@work@"));
    }

    #[test]
    fn relative_paths_addresses_and_examples_pass() {
        check_machine_path("docs@work@plan.md", None);
        check_machine_path("https:@@example.org@work@x", None);
        check_machine_path("@home@ada@project", None);
        check_machine_path("ends in @work", None);
        check_machine_path("@workspace@x", None);
    }

    #[test]
    fn a_machine_path_can_be_exempted_with_a_reason() {
        let path = ["", "root", "secret"].join("/");
        let folder = ["", "root", ""].join("/");
        let problem = format!("2: `{folder}…` exists on one machine only");
        check_problems("a.md", &format!("one\n{path}\n"), &[&problem]);
        check_problems("a.md", &format!("{path} tidy-exempt: the test reads root's folder\n"), &[]);
    }

    #[test]
    fn unfinished_work_is_found() {
        check_problems("a.rs", "fn f() {\n    todo!()\n}\n", &["2: `todo!` left behind"]);
        check_problems(
            "a.rs",
            "fn f() { unimplemented!(\"later\") }\n",
            &["1: `unimplemented!` left behind"],
        );
        check_problems(
            "a.py",
            &format!("# {}{}\n", "FIX", "ME"),
            &[&format!("1: `{}{}` left behind", "FIX", "ME")],
        );
    }

    #[test]
    fn words_in_comments_and_strings_are_no_code() {
        check_problems("a.rs", "// todo!() and unsafe\nlet a = \"unsafe { todo!() }\";\n", &[]);
        check_problems("a.rs", "#![deny(unsafe_code)]\n", &[]);
    }

    #[test]
    fn unsafe_belongs_into_few_places() {
        let text = "fn f() {\n    unsafe { g() }\n}\n#[unsafe(no_mangle)]\n";
        check_problems("crates/hindcast-native/src/sys/ptrace.rs", text, &[]);
        let problem = "`unsafe` outside crates/hindcast-native/src/sys and crates/hindcast-dotnet/src/cor and crates/hindcast-mapping/src \
            and crates/hindcast-streams/src/left.rs";
        check_problems(
            "crates/hindcast-native/src/system.rs",
            text,
            &[&format!("2: {problem}"), &format!("4: {problem}")],
        );
    }

    #[test]
    fn a_long_file_says_why() {
        let long = "//\n".repeat(601);
        check_problems("a.rs", &long, &["1: 601 lines without a reason"]);
        check_problems("a.rs", &format!("//! A table.\n//! Long because it is one table.\n{long}"), &[]);
        check_problems("a.rs", &"//\n".repeat(600), &[]);
        check_problems("a.md", &long, &[]);
    }

    #[test]
    fn empty_names_are_refused() {
        let problem = |name| format!("1: a module named `{name}` says nothing about what is inside");
        check_problems("src/utils.rs", "", &[&problem("utils")]);
        check_problems("tests/common/mod.rs", "", &[&problem("common")]);
        check_problems("src/timeline.rs", "", &[]);
    }
}
