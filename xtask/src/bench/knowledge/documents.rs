//! Real documents as Markdown, the questions about them, and whether a hit answers one. Questions and rule are those of the test
//! `knowledge::questions`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::json;

use crate::peers;
use crate::workspace::Workspace;

/// Below the repository: `questions.tsv` and `notes`.
const QUESTIONS: &str = "crates/hindcast/tests/it/knowledge/questions";

/// Which documents to take.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// The pages of Python's documentation that the questions are about
    Python,
    /// The Rust book
    Rust,
    /// The Debian Reference in English
    Debian,
    /// Notes of a few lines
    Notes,
}

/// A passage that was found, whoever found it.
pub(super) struct Hit {
    pub(super) path: String,
    /// Its headings or title, then the passage.
    pub(super) passage: String,
}

/// A question, the files that answer it, and words of which the passage must have one.
pub(super) struct Question {
    pub(super) text: String,
    files: Vec<String>,
    words: Vec<String>,
}

impl Question {
    fn parse(line: &str) -> Result<Self> {
        let [text, files, words] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("a question has three fields: `{line}`");
        };
        let split = |field: &str| field.split('|').map(str::to_owned).collect();
        Ok(Self { text: text.to_owned(), files: split(files), words: split(words) })
    }

    /// Whether a hit is the right passage.
    pub(super) fn is_answered_by(&self, hit: &Hit) -> bool {
        // The words are those of the pages, where `at`(1) has no marks around its name.
        let passage = hit.passage.replace(['`', '*'], "");
        self.is_about(&hit.path) && self.words.iter().any(|word| passage.contains(word))
    }

    fn is_about(&self, path: &str) -> bool {
        self.files.iter().any(|file| {
            path.ends_with(&markdown_name(file)) || (file.starts_with("book/") && path.contains(file))
        })
    }
}

fn markdown_name(page: &str) -> String {
    page.strip_suffix(".html").map_or_else(|| page.to_owned(), |name| format!("{name}.md"))
}

/// The documents in a folder, and the questions that they answer.
pub(super) struct Documents {
    pub(super) folder: PathBuf,
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) questions: Vec<Question>,
}

impl Documents {
    /// Writes the documents of `parts` below `folder`.
    pub(super) fn write(workspace: &Workspace, parts: &[Part], folder: &Path) -> Result<Self> {
        let own = workspace.root.join(QUESTIONS);
        let listed = fs::read_to_string(own.join("questions.tsv")).context("cannot read the questions")?;
        let questions = listed.lines().map(Question::parse).collect::<Result<Vec<_>>>()?;
        let share = workspace.peers().join("documents/usr/share");
        let mut pages = Vec::new();
        for part in parts {
            match part {
                Part::Python => {
                    pages.extend(python_pages(&share.join("doc/python3.11/html"), &questions, folder))
                }
                Part::Rust => pages.extend(chapters(
                    &share.join("doc/rust-doc/html/book"),
                    ".html",
                    folder,
                    "rust/book",
                )?),
                Part::Debian => {
                    pages.extend(chapters(&share.join("debian-reference"), ".en.html", folder, "debian")?)
                }
                Part::Notes => copy_notes(&own.join("notes"), &folder.join("notes"))?,
            }
        }
        convert(workspace, &pages)?;
        let mut taken = Vec::new();
        list(folder, &mut taken)?;
        let questions = questions
            .into_iter()
            .filter(|question| taken.iter().any(|(path, _)| question.is_about(path)))
            .collect();
        let bytes = taken.iter().map(|(_, bytes)| bytes).sum();
        Ok(Self { folder: folder.to_owned(), files: taken.len(), bytes, questions })
    }
}

/// A page of HTML and where its Markdown goes.
type Page = (PathBuf, PathBuf);

fn python_pages(html: &Path, questions: &[Question], folder: &Path) -> Vec<Page> {
    let mut names: Vec<&String> = questions.iter().flat_map(|question| &question.files).collect();
    names.sort();
    names.dedup();
    let page = |name: &&String| (html.join(name), folder.join("python").join(markdown_name(name)));
    names.iter().map(page).filter(|(from, _)| from.is_file()).collect()
}

/// Pages whose names begin with `ch` and a digit, which leaves out tables of contents.
fn chapters(from: &Path, ending: &str, folder: &Path, to: &str) -> Result<Vec<Page>> {
    let entries = fs::read_dir(from)
        .with_context(|| format!("`{}` is missing · hint: `cargo xtask peers`", from.display()))?;
    let mut pages = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_chapter = name
            .strip_prefix("ch")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
        if is_chapter && name.ends_with(ending) {
            pages.push((from.join(&name), folder.join(to).join(markdown_name(&name))));
        }
    }
    Ok(pages)
}

fn copy_notes(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Turns pages into Markdown; neither knowledge base does that, so that both read the same.
fn convert(workspace: &Workspace, pages: &[Page]) -> Result<()> {
    println!("turning {} pages into Markdown", pages.len());
    let node = peers::knowledge_folder(workspace);
    // Node looks for imports beside the script.
    let script = node.join("markdown.mjs");
    fs::copy(workspace.root.join("peers/knowledge/markdown.mjs"), &script)
        .with_context(|| format!("cannot write {}", script.display()))?;
    let mut process = Command::new(peers::node_in(&node)).arg(script).stdin(Stdio::piped()).spawn()?;
    let mut lines = process.stdin.take().context("no input")?;
    for (from, to) in pages {
        writeln!(lines, "{}", json!({ "from": from, "to": to }))?;
    }
    drop(lines);
    let status = process.wait()?;
    if !status.success() {
        bail!("turning pages into Markdown ended with {status}");
    }
    Ok(())
}

/// Paths and sizes of all files below a folder.
fn list(folder: &Path, found: &mut Vec<(String, u64)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), found)?,
            false => {
                found.push((entry.path().to_string_lossy().into_owned(), entry.metadata()?.len()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(path: &str, passage: &str) -> Hit {
        Hit { path: path.to_owned(), passage: passage.to_owned() }
    }

    #[test]
    fn a_hit_needs_the_file_and_one_of_the_words() {
        let question =
            Question::parse("How?\tlibrary/csv.html|howto/csv.html\treader|writer").expect("a question");
        assert!(question.is_answered_by(&hit("/docs/library/csv.md", "csv.writer(file)")));
        assert!(!question.is_answered_by(&hit("/docs/library/csv.md", "a dialect")));
        assert!(!question.is_answered_by(&hit("/docs/library/copy.md", "csv.writer(file)")));
    }

    #[test]
    fn a_chapter_of_the_book_is_named_by_its_number() {
        let question = Question::parse("What?\tbook/ch04-01\tmoved").expect("a question");
        assert!(question.is_answered_by(&hit("/rust/book/ch04-01-what-is-ownership.md", "was moved")));
        assert!(!question.is_answered_by(&hit("/rust/book/ch04-02-references.md", "was moved")));
    }

    #[test]
    fn marks_of_markdown_do_not_split_words() {
        let question = Question::parse("When?\tch09.en.html\tat(1)").expect("a question");
        assert!(question.is_answered_by(&hit("/debian/ch09.en.md", "`at`(1) runs a job once")));
    }

    #[test]
    fn a_question_without_words_is_refused() {
        assert!(Question::parse("How?\tlibrary/csv.html").is_err());
    }
}
