//! What was done and is not in the tables yet: a file with a line for each audit row.
//!
//! A line costs a request one small write, where a commit costs it several pages and their locks. Several
//! processes append to one journal: whoever holds the lock of the file knows its end. A journal whose lines
//! are in the tables is taken away; whoever still has the old file open sees that it has no name any more.

use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_core::{
    audit::{AuditKey, AuditRecord, AuditRow, ChainEnd, ChainHash},
    store::StoreError,
};
use serde::{Deserialize, Serialize};

use super::quota::Counter;

/// A seal in hexadecimal.
const SEAL: usize = 64;

/// One line: an audit row, and how often its key was used by then.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) row: AuditRow,
    pub(super) usage: Option<Counter>,
}

#[derive(Serialize)]
struct WrittenLine<'a> {
    seq: u64,
    record: &'a AuditRecord,
    hash: ChainHash,
    usage: Option<Counter>,
}

#[derive(Deserialize)]
struct ReadLine {
    seq: u64,
    record: AuditRecord,
    hash: ChainHash,
    usage: Option<Counter>,
}

impl Entry {
    /// The seal, a space, the entry as JSON, the end of the line.
    fn line(&self, key: &AuditKey) -> io::Result<Vec<u8>> {
        let Self { row, usage } = self;
        let mut line = Vec::with_capacity(512);
        line.resize(SEAL, 0);
        line.push(b' ');
        let written = WrittenLine { seq: row.seq, record: &row.record, hash: row.hash, usage: *usage };
        serde_json::to_writer(&mut line, &written)?;
        let seal = key.seal_of_line(&line[SEAL + 1..]);
        line[..SEAL].copy_from_slice(&seal);
        line.push(b'\n');
        Ok(line)
    }

    /// None for a line that the holder of `key` did not write.
    fn read(line: &[u8], key: &AuditKey) -> Option<Self> {
        let (seal, text) = (line.get(..SEAL)?, line.get(SEAL + 1..)?);
        if line[SEAL] != b' ' || !key.sealed_line(text, seal) {
            return None;
        }
        let ReadLine { seq, record, hash, usage } = serde_json::from_slice(text).ok()?;
        Some(Self { row: AuditRow { seq, record, hash }, usage })
    }
}

/// The entries of whole lines, up to the first that the holder of `key` did not write.
pub(super) fn entries(lines: &[u8], key: &AuditKey) -> impl Iterator<Item = Result<Entry, StoreError>> {
    lines.split_inclusive(|byte| *byte == b'\n').enumerate().map(move |(place, line)| {
        Entry::read(line.strip_suffix(b"\n").unwrap_or(line), key).ok_or_else(|| {
            StoreError::Corrupt(format!(
                "line {} of the journal was damaged, or not written with this data folder's audit.key · hint: restore the data folder from a backup, or move the journal away to go on without that row and those behind it",
                place + 1
            ))
        })
    })
}

/// The journal of one store, as this process sees it.
pub(super) struct Journal {
    path: PathBuf,
    key: Arc<AuditKey>,
    open: Option<Open>,
    /// How many files it has been.
    generation: u64,
    /// Where the chain ended when it was last looked at. Rows up to there do not vanish by themselves.
    seen: ChainEnd,
}

struct Open {
    file: File,
    /// How much of it is known here, and where the chain ends with that. None until it was looked at.
    known: Option<(u64, ChainEnd)>,
}

impl Journal {
    /// The journal at `path`, where there may be none.
    pub(super) fn new(path: PathBuf, key: Arc<AuditKey>) -> Self {
        Self { path, key, open: None, generation: 0, seen: ChainEnd::GENESIS }
    }

    /// Takes the lock and makes the file where it is missing. None when another process has the lock.
    pub(super) fn hold(&mut self) -> io::Result<Option<Held<'_>>> {
        loop {
            let open = match self.open.take() {
                // Where a file's names cannot be counted, it is opened anew each time.
                Some(open) if cfg!(unix) => open,
                _ => {
                    self.generation += 1;
                    Open { file: create(&self.path)?, known: None }
                }
            };
            match open.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    self.open = Some(open);
                    return Ok(None);
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let metadata = open.file.metadata()?;
            if !is_nameless(&metadata) {
                self.open = Some(open);
                return Ok(Some(Held { journal: self, length: metadata.len() }));
            }
        }
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        !fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0)
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn is_nameless(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) == 0
}

#[cfg(not(unix))]
fn is_nameless(_: &Metadata) -> bool {
    false
}

/// A journal that no other process touches meanwhile.
pub(super) struct Held<'a> {
    journal: &'a mut Journal,
    length: u64,
}

/// The lines of a journal at one time.
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    generation: u64,
}

impl Held<'_> {
    /// How many bytes it has.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends a row behind the last one, whoever wrote that; gives the journal's length. Where nothing is
    /// known of the journal yet, `end_of_tables` tells what it goes on from.
    pub(super) fn append(
        &mut self,
        record: AuditRecord,
        usage: Option<Counter>,
        end_of_tables: impl FnOnce() -> Result<ChainEnd, StoreError>,
    ) -> Result<u64, StoreError> {
        let end = self.catch_up(end_of_tables)?;
        let entry = Entry { row: end.followed_by(record), usage };
        let written = entry.line(&self.journal.key).and_then(|line| {
            let Some(open) = &mut self.journal.open else { return Err(io::ErrorKind::NotFound.into()) };
            // What is written in part is cut off by whoever catches up next.
            open.known = None;
            open.file.write_all(&line)?;
            self.length += line.len() as u64;
            self.journal.seen = (&entry.row).into();
            open.known = Some((self.length, self.journal.seen));
            Ok(self.length)
        });
        written.map_err(|error| self.unavailable(&error))
    }

    fn catch_up(
        &mut self,
        end_of_tables: impl FnOnce() -> Result<ChainEnd, StoreError>,
    ) -> Result<ChainEnd, StoreError> {
        let known = self.journal.open.as_ref().and_then(|open| open.known);
        let (from, mut end) = match known {
            Some((length, end)) if length == self.length => return Ok(end),
            Some((length, end)) if length < self.length => (length, end),
            _ => (0, end_of_tables()?),
        };
        let bytes = self.read_from(from)?;
        for entry in entries(&bytes, &self.journal.key) {
            let row = entry?.row;
            if row.seq > end.seq {
                if !end.precedes(&row) {
                    return Err(does_not_follow(row.seq, end));
                }
                end = (&row).into();
            }
        }
        let seen = self.journal.seen;
        if end.seq < seen.seq || (end.seq == seen.seq && end != seen) {
            return Err(vanished(end, seen));
        }
        self.journal.seen = end;
        if let Some(open) = &mut self.journal.open {
            open.known = Some((self.length, end));
        }
        Ok(end)
    }

    /// All lines.
    pub(super) fn lines(&mut self) -> Result<Lines, StoreError> {
        Ok(Lines { bytes: self.read_from(0)?, generation: self.journal.generation })
    }

    /// Whole lines from `start` on. What follows the last of them is what somebody who was killed had begun;
    /// nobody was answered for it, and it is cut off.
    fn read_from(&mut self, start: u64) -> Result<Vec<u8>, StoreError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let mut file = File::open(&self.journal.path)?;
            file.seek(SeekFrom::Start(start))?;
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let mut bytes = read().map_err(|error| self.unavailable(&error))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            bytes.truncate(whole);
            self.length = start + whole as u64;
            if let Some(open) = &self.journal.open {
                open.file.set_len(self.length).map_err(|error| self.unavailable(&error))?;
            }
        }
        Ok(bytes)
    }

    /// Takes away lines that are in the tables; what came since stays.
    pub(super) fn forget(&mut self, lines: &Lines) -> Result<(), StoreError> {
        if self.journal.generation != lines.generation {
            // Another process did it.
            return Ok(());
        }
        let rest = self.read_from(lines.bytes.len() as u64)?;
        self.replace(&rest).map_err(|error| self.unavailable(&error))
    }

    /// The lock stays with the old file; those who wait for it find that it has no name any more.
    fn replace(&mut self, rest: &[u8]) -> io::Result<()> {
        let path = self.journal.path.clone();
        if rest.is_empty() {
            return fs::remove_file(path);
        }
        let beside = path.with_extension("journal-new");
        // What is there was left by somebody who was killed.
        let _ = fs::remove_file(&beside);
        let mut file = create(&beside)?;
        file.write_all(rest)?;
        // Nobody else may append before it is ours: a lock is taken on the way.
        file.lock()?;
        fs::rename(&beside, &path)?;
        let known = self.journal.open.as_ref().and_then(|open| open.known);
        let length = rest.len() as u64;
        let known = known.filter(|(known, _)| *known == self.length).map(|(_, end)| (length, end));
        self.length = length;
        self.journal.generation += 1;
        self.journal.open = Some(Open { file, known });
        Ok(())
    }

    fn unavailable(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("the journal `{}`: {error}", self.journal.path.display()))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.journal.open {
            // An unlocked file cannot fail to be unlocked; a closed one is unlocked anyway.
            let _ = open.file.unlock();
        }
    }
}

fn vanished(end: ChainEnd, seen: ChainEnd) -> StoreError {
    StoreError::Corrupt(format!(
        "the audit trail ends with row {}, and row {} was written · hint: restore the data folder from a backup and start again",
        end.seq, seen.seq
    ))
}

/// A row that is not the next one.
pub(super) fn does_not_follow(seq: u64, end: ChainEnd) -> StoreError {
    StoreError::Corrupt(format!(
        "row {seq} of the journal does not follow row {} of the audit trail · hint: restore the data folder from a backup, or move the journal away to go on without it",
        end.seq
    ))
}
