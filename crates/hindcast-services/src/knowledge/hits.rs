//! Hits as they are told: each passage once, and whether its file still says so.

use std::{collections::HashSet, fs::Metadata, io::ErrorKind, path::Path};

use hindcast_core::knowledge::{FoundChunk, SourceFile};
use sha2::{Digest, Sha256};

use super::{FileState, Hit, sources::file_of};

/// A file larger than this is not read only to see whether it changed.
const LARGEST_COMPARED: u64 = 4 * 1024 * 1024;

/// Runs of so many words are compared.
const RUN: usize = 3;

/// Passages that share this much of their runs say the same.
const ALIKE: f32 = 0.8;

/// Passages with fewer words than this are the same only word for word.
const FEW_WORDS: usize = 8;

/// Puts passages that say nearly the same under the best of them.
pub(super) struct Folding {
    limit: usize,
    keeps_duplicates: bool,
    hits: Vec<(Hit, HashSet<u64>)>,
}

impl Folding {
    pub(super) fn new(limit: usize, keeps_duplicates: bool) -> Self {
        Self { limit, keeps_duplicates, hits: Vec::new() }
    }

    /// Takes the next best.
    pub(super) fn take(&mut self, found: FoundChunk, score: f32) {
        let runs = if self.keeps_duplicates { HashSet::new() } else { runs(&found.text) };
        let same = self.hits.iter().position(|(_, others)| share(&runs, others) >= ALIKE);
        match same {
            Some(same) => self.hits[same].0.duplicates.push(found),
            None if self.hits.len() < self.limit => {
                let hit = Hit {
                    found,
                    score,
                    file: FileState::Unchanged,
                    duplicates: Vec::new(),
                    context: Default::default(),
                };
                self.hits.push((hit, runs));
            }
            None => {}
        }
    }

    pub(super) fn hits(self) -> Vec<Hit> {
        self.hits.into_iter().map(|(hit, _)| hit).collect()
    }
}

/// What the runs of words of a text hash to; of a short one, the whole.
fn runs(text: &str) -> HashSet<u64> {
    let words: Vec<String> = text
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let length = if words.len() < FEW_WORDS { words.len().max(1) } else { RUN };
    words.windows(length).map(hash).collect()
}

fn hash(words: &[String]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// Which share of all runs both have.
fn share(one: &HashSet<u64>, other: &HashSet<u64>) -> f32 {
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    let both = one.intersection(other).count();
    both as f32 / (one.len() + other.len() - both) as f32
}

pub(super) fn with_file_states(mut hits: Vec<Hit>) -> Vec<Hit> {
    for hit in &mut hits {
        let document = &hit.found.document;
        if let Some(source) = &document.source {
            hit.file = state_of(source, &document.hash);
        }
    }
    hits
}

fn state_of(source: &SourceFile, hash: &[u8; 32]) -> FileState {
    // What is in no file does not change: a commit has its hash. Of a file on another machine nothing is known here.
    let Some(file) = file_of(&source.path).filter(|_| !source.is_elsewhere) else {
        return FileState::Unchanged;
    };
    match std::fs::metadata(file) {
        Ok(metadata) if !has_changed(source, &metadata, file, hash) => FileState::Unchanged,
        Ok(_) => FileState::Changed,
        Err(error) if error.kind() == ErrorKind::NotFound => FileState::Gone,
        Err(_) => FileState::Changed,
    }
}

/// Whether a file says something else than it did.
fn has_changed(source: &SourceFile, metadata: &Metadata, file: &Path, hash: &[u8; 32]) -> bool {
    if metadata.len() != source.size {
        return true;
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    if modified.is_some_and(|age| age.as_nanos() == source.modified.unsigned_abs().into()) {
        return false;
    }
    source.size > LARGEST_COMPARED
        || std::fs::read(file).map_or(true, |bytes| Sha256::digest(&bytes)[..] != hash[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_little_share_most_of_their_runs() {
        let text =
            "The heron stands in the water of the lake and waits until a fish comes near enough to be caught";
        let changed = text.replace("lake", "pond");
        assert!(share(&runs(text), &runs(&format!("{text}."))) >= ALIKE);
        assert!(share(&runs(text), &runs(&changed)) < ALIKE, "one word in twenty is another statement");
        assert!(share(&runs("short one"), &runs("Short, one!")) >= ALIKE);
        assert!(share(&runs("short one"), &runs("short two")) < ALIKE);
        assert_eq!(share(&runs("…"), &runs("…")), 0.0);
    }
}
