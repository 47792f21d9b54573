//! Getting the text out of files, where those that others made cannot hurt us.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use hindcast_core::{Timestamp, knowledge::TextHash};
use hindcast_extract::{Chunk, ExtractError, Extracted, Format, chunk_within};
use serde::{Deserialize, Serialize};

use super::preparing::Original;

/// A longer answer is not read: the text of the largest archive and its pieces are a part of it.
const LARGEST_ANSWER: u64 = 1 << 30;

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
    Read(Box<Told>),
    Refused(String),
}

#[derive(Serialize, Deserialize)]
struct Told {
    text: Option<String>,
    title: Option<String>,
    description: Option<String>,
    tags: Vec<String>,
    dated: Option<Timestamp>,
    chunks: Vec<ToldChunk>,
}

/// Start, end, first line, last line, page and headings.
type ToldChunk = (usize, usize, u64, u64, Option<u64>, Vec<String>);

/// What a document says, and the pieces of it.
pub(super) struct Cut {
    pub(super) extracted: Extracted,
    pub(super) chunks: Vec<Chunk>,
}

impl From<Cut> for Told {
    fn from(cut: Cut) -> Self {
        let Extracted { text, title, description, tags, dated, .. } = cut.extracted;
        let chunk = |chunk: Chunk| {
            let Chunk { range, lines, page, headings } = chunk;
            (range.start, range.end, lines.0, lines.1, page, headings)
        };
        Self { text, title, description, tags, dated, chunks: cut.chunks.into_iter().map(chunk).collect() }
    }
}

impl From<Told> for Cut {
    fn from(told: Told) -> Self {
        let Told { text, title, description, tags, dated, chunks } = told;
        let chunk = |(start, end, first, last, page, headings): ToldChunk| Chunk {
            range: start..end,
            lines: (first, last),
            page,
            headings,
        };
        let extracted = Extracted { text, title, description, tags, dated, ..Extracted::default() };
        Self { extracted, chunks: chunks.into_iter().map(chunk).collect() }
    }
}

/// Why a document was not read.
#[derive(Debug, Clone)]
pub(super) enum Unread {
    /// The reader says what is wrong with it.
    Refused(String),
    /// The reader did not live to say anything.
    Died(String),
}

impl Extractor {
    /// The text and the pieces of a document, none larger than `largest` bytes where that is given. Blocks.
    pub(super) fn extract(&self, original: &Original, largest: Option<usize>) -> Result<Cut, Unread> {
        let Original { format, bytes, charset, .. } = original;
        match self {
            Self::Program(program) if format.needs_parser() && !bytes.is_empty() => {
                ask(program, original, largest)
            }
            _ => cut(*format, bytes, charset.as_deref(), largest)
                .map_err(|error| Unread::Refused(error.to_string())),
        }
    }
}

/// Documents that readers died of, the last so many.
#[derive(Default)]
pub(super) struct Deadly(Mutex<VecDeque<(Format, TextHash, String)>>);

impl Deadly {
    const MOST: usize = 1000;

    fn all(&self) -> MutexGuard<'_, VecDeque<(Format, TextHash, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a reader died of when it read this.
    pub(super) fn reason(&self, format: Format, hash: TextHash) -> Option<String> {
        let all = self.all();
        let found = all.iter().find(|(of, known, _)| *of == format && *known == hash);
        found.map(|(_, _, reason)| reason.clone())
    }

    pub(super) fn remember(&self, format: Format, hash: TextHash, reason: &str) {
        let mut all = self.all();
        all.truncate(Self::MOST - 1);
        all.push_front((format, hash, reason.to_owned()));
    }
}

fn cut(
    format: Format,
    bytes: &[u8],
    charset: Option<&str>,
    largest: Option<usize>,
) -> Result<Cut, ExtractError> {
    let extracted = hindcast_extract::extract_sent(format, bytes, charset)?;
    let text = match &extracted.text {
        Some(text) => text,
        None => std::str::from_utf8(bytes).map_err(|error| ExtractError::NotText(error.valid_up_to()))?,
    };
    let chunks = chunk_within(format, text, &extracted, largest)?;
    Ok(Cut { extracted, chunks })
}

fn ask(program: &PathBuf, original: &Original, largest: Option<usize>) -> Result<Cut, Unread> {
    let Original { format, bytes, charset, .. } = original;
    let mut child = Command::new(program)
        .args(["worker", "extract", format.name()])
        .args(largest.map(|largest| largest.to_string()))
        .args(charset.as_ref().map(|charset| format!("--charset={charset}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            let name = format.name();
            Unread::Refused(format!("the process that reads {name} files cannot be started: {error}"))
        })?;
    let mut answer = Vec::new();
    // It reads all before it writes, so one after the other cannot block. A child that died early is told by its status.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(bytes);
    }
    if let Some(output) = child.stdout.take() {
        let _ = output.take(LARGEST_ANSWER).read_to_end(&mut answer);
    }
    let status = child.wait().map_err(|error| Unread::Refused(error.to_string()))?;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Read(told)) => Ok((*told).into()),
        Ok(Answer::Refused(reason)) => Err(Unread::Refused(reason)),
        Err(_) => Err(Unread::Died(format!(
            "it is not a readable {} file: reading it took too long, too much memory, or ended badly ({status})",
            format.name()
        ))),
    }
}

/// What `worker extract` does: document in, answer out.
pub fn answer_extraction(
    format: Format,
    bytes: &[u8],
    charset: Option<&str>,
    largest: Option<usize>,
) -> Vec<u8> {
    let answer = match cut(format, bytes, charset, largest) {
        Ok(cut) => Answer::Read(Box::new(cut.into())),
        Err(error) => Answer::Refused(error.to_string()),
    };
    serde_json::to_vec(&answer).unwrap_or_default()
}
