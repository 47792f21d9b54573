//! Getting the text out of files, where those that others made cannot hurt us.

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use hindcast_extract::{Block, ExtractError, Extracted, Format, Role};
use serde::{Deserialize, Serialize};

/// Who reads formats that need a parser of their own.
#[derive(Debug, Clone, Default)]
pub enum Extractor {
    /// This process.
    #[default]
    Here,
    /// A process of this program, started with `worker extract`, which limits its own time and memory.
    Program(PathBuf),
}

/// What the other process answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Extracted(Box<Text>),
    Refused(String),
}

#[derive(Serialize, Deserialize)]
struct Text {
    text: Option<String>,
    title: Option<String>,
    description: Option<String>,
    tags: Vec<String>,
    pages: Vec<(usize, usize)>,
    lines: Vec<(usize, u64)>,
    /// Start, end and role.
    blocks: Vec<(usize, usize, BlockRole)>,
}

#[derive(Serialize, Deserialize)]
enum BlockRole {
    #[serde(rename = "h")]
    Heading(u8, String),
    #[serde(rename = "t")]
    Term(u8, String),
    #[serde(rename = "b")]
    Body,
    #[serde(rename = "l")]
    Links,
}

impl From<Extracted> for Text {
    fn from(extracted: Extracted) -> Self {
        let Extracted { text, title, description, tags, pages, lines, blocks } = extracted;
        let pages = pages.into_iter().map(|page| (page.start, page.end)).collect();
        let block = |block: Block| {
            let role = match block.role {
                Role::Heading { level, name } => BlockRole::Heading(level, name),
                Role::Term { level, name } => BlockRole::Term(level, name),
                Role::Body => BlockRole::Body,
                Role::Links => BlockRole::Links,
            };
            (block.range.start, block.range.end, role)
        };
        let blocks = blocks.into_iter().map(block).collect();
        Self { text, title, description, tags, pages, lines, blocks }
    }
}

impl From<Text> for Extracted {
    fn from(told: Text) -> Self {
        let Text { text, title, description, tags, pages, lines, blocks } = told;
        let pages = pages.into_iter().map(|(start, end)| start..end).collect();
        let block = |(start, end, role): (usize, usize, BlockRole)| {
            let role = match role {
                BlockRole::Heading(level, name) => Role::Heading { level, name },
                BlockRole::Term(level, name) => Role::Term { level, name },
                BlockRole::Body => Role::Body,
                BlockRole::Links => Role::Links,
            };
            Block { range: start..end, role }
        };
        let blocks = blocks.into_iter().map(block).collect();
        Self { text, title, description, tags, pages, lines, blocks }
    }
}

impl Extractor {
    /// The text of a document, or why there is none. Blocks.
    pub(super) fn extract(&self, format: Format, bytes: &[u8]) -> Result<Extracted, String> {
        // Source code is parsed here, too, when it is cut.
        let needs_parser = format.is_converted() && format != Format::Docstrings;
        match self {
            Self::Program(program) if needs_parser && !bytes.is_empty() => ask(program, format, bytes),
            _ => hindcast_extract::extract(format, bytes).map_err(|error| error.to_string()),
        }
    }
}

fn ask(program: &PathBuf, format: Format, bytes: &[u8]) -> Result<Extracted, String> {
    let mut child = Command::new(program)
        .args(["worker", "extract", format.name()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!("the process that reads {} files cannot be started: {error}", format.name())
        })?;
    let mut answer = Vec::new();
    // It reads all before it writes, so one after the other cannot block. A child that died early is told by its status.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(bytes);
    }
    if let Some(mut output) = child.stdout.take() {
        let _ = output.read_to_end(&mut answer);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Extracted(text)) => Ok((*text).into()),
        Ok(Answer::Refused(reason)) => Err(reason),
        Err(_) => Err(format!(
            "it is not a readable {} file: reading it took too long, too much memory, or ended badly ({status})",
            format.name()
        )),
    }
}

/// What `worker extract` does: document in, answer out.
pub fn answer_extraction(format: Format, bytes: &[u8]) -> Vec<u8> {
    let refused = |error: ExtractError| Answer::Refused(error.to_string());
    let answer = match hindcast_extract::extract(format, bytes) {
        Ok(extracted) => Answer::Extracted(Box::new(extracted.into())),
        Err(error) => refused(error),
    };
    serde_json::to_vec(&answer).unwrap_or_default()
}
