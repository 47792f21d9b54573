//! Documents whose files are gone, or are taken no more.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use hindcast_core::knowledge::{Document, DocumentKey};

use super::{
    FileOutcome, FileReport, KnowledgeService, blocking,
    intake::Intake,
    reading::is_gone,
    sources,
    walk::{Seen, shown},
};
use crate::Failure;

/// Documents that are read at once, of which those that may be gone are kept: a collection may have a million.
const AT_ONCE: usize = 5_000;

impl KnowledgeService {
    /// Removes documents whose files are gone from the folders that were read, or are taken no more. What was `seen` there is not gone, even if its
    /// path cannot be written as text.
    pub(super) async fn remove_vanished(
        &self,
        intake: &Intake,
        roots: &[PathBuf],
        seen: &Seen,
    ) -> Result<Vec<FileReport>, Failure> {
        let gone = self.vanished(intake, roots, seen).await?;
        self.remove_gone(gone).await
    }

    /// The documents whose files are gone, with the paths of these.
    pub(super) async fn vanished(
        &self,
        intake: &Intake,
        roots: &[PathBuf],
        seen: &Seen,
    ) -> Result<Vec<(String, Document)>, Failure> {
        let mut candidates = Vec::new();
        for root in roots {
            let (root, mut after) = (shown(root), String::new());
            loop {
                let key = intake.collection.key;
                let below = self.store.some_documents_below(key, &root, &after, AT_ONCE).await?;
                let source = |document: Document| Some((document.source.clone()?.path, document));
                let mut below = below.into_iter().filter_map(source).peekable();
                if below.peek().is_none() {
                    break;
                }
                for (path, document) in below {
                    after.clone_from(&path);
                    if seen.misses(&path) {
                        candidates.push((path, document));
                    }
                }
            }
        }
        let is_left_out: HashSet<_> = self.left_out(intake, &candidates, seen).await?;
        blocking(move || {
            candidates.retain(|(path, document)| {
                is_left_out.contains(&document.key) || sources::file_of(path).is_some_and(is_gone)
            });
            candidates
        })
        .await
    }

    /// The documents whose files are ignored or excluded by now. What is watched by itself is still wanted.
    async fn left_out(
        &self,
        intake: &Intake,
        candidates: &[(String, Document)],
        seen: &Seen,
    ) -> Result<HashSet<DocumentKey>, Failure> {
        let left_out = candidates.iter().filter_map(|(path, document)| {
            Some((seen.left_out_since(path, document.updated_at.into())?, Path::new(path), document.key))
        });
        let left_out: Vec<_> = left_out.collect();
        if left_out.is_empty() {
            return Ok(HashSet::new());
        }
        let watches = self.store.watches().await?;
        let own: Vec<_> = watches.iter().filter(|watch| watch.collection == intake.collection.key).collect();
        let is_watched = |by: &Path, file: &Path| {
            own.iter().any(|one| file.starts_with(&one.path) && Path::new(&one.path).starts_with(by))
        };
        Ok(left_out
            .into_iter()
            .filter(|(by, file, _)| !is_watched(by, file))
            .map(|(_, _, key)| key)
            .collect())
    }

    /// Removes documents, unless another process changed them meanwhile.
    pub(super) async fn remove_gone(
        &self,
        gone: Vec<(String, Document)>,
    ) -> Result<Vec<FileReport>, Failure> {
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let versions = gone.iter().map(|(_, document)| document.version()).collect();
        let removed = self.store.remove_unchanged(versions, self.clock.now()).await?;
        self.wrote.notify_one();
        let report = |(path, document): (String, Document)| FileReport {
            path,
            outcome: FileOutcome::Removed { document: document.id },
        };
        Ok(gone.into_iter().filter(|(_, document)| removed.contains(&document.key)).map(report).collect())
    }
}
