//! Adding and removing.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{
    identity::Scope,
    knowledge::{Collection, Ownership, Patterns},
    license::Feature,
    printable::printable_lines,
};
use hindcast_services::{
    Failure, FailureKind,
    knowledge::{AddReport, AddRequest, FileCounts, FileOutcome, FileReport, KnowledgeService, Material},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Effects, Tool},
};

/// Files that are told one by one; a folder may have a hundred thousand.
const TOLD_FILES: usize = 50;
const TOLD_LINES: usize = 20;

pub(super) struct Add {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddInput {
    /// Id or name; made if there is none
    collection: String,
    /// The id of a new collection
    #[serde(default, alias = "collectionId")]
    collection_id: Option<String>,
    /// Files, folders, `git:FOLDER` (commit messages), `man:3`, `python:PACKAGE`, `https://…`
    ///
    /// Files and folders on the server's machine; `git:FOLDER` (commit messages), `man:ls`, `man:3`, `python:PACKAGE` (docstrings), `https://…`
    #[serde(default)]
    paths: Vec<PathBuf>,
    /// Of `text`; one of that name is replaced
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    text: Option<String>,
    /// Of `text`
    ///
    /// What the text is written in; else by its name, or Markdown
    #[serde(default, alias = "mimeType")]
    mime_type: Option<String>,
    /// Keep up to date with `paths`
    #[serde(default)]
    watch: bool,
    /// Patterns as in a .gitignore
    ///
    /// Only files that fit one of these patterns, as in a .gitignore
    #[serde(default)]
    include: Vec<String>,
    /// No files that fit one of these patterns
    #[serde(default)]
    exclude: Vec<String>,
    /// Answer at once
    ///
    /// Answer at once and go on; `knowledge/status` tells how far it is
    #[serde(default)]
    background: bool,
    /// Tags for the documents
    #[serde(default)]
    tags: Vec<String>,
    /// One that everybody sees
    ///
    /// The shared collection of that name, which everybody sees, and not your own
    #[serde(default)]
    shared: bool,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct AddView {
    /// The collection's id
    collection: String,
    /// Whether everybody sees the collection
    shared: bool,
    /// Goes on in the background under this name
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest: Option<String>,
    #[serde(flatten)]
    counts: Option<CountsView>,
    /// Each file, those that failed first; at most 50
    files: Vec<FileView>,
    /// Files that were passed over, by their kind
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedView>,
    /// What else to know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct CountsView {
    /// Documents the collection has now
    documents: u64,
    /// Chunks it has now
    chunks: u64,
    /// Files that are new
    added: usize,
    /// Files that say something else than before
    updated: usize,
    /// Files that say what they said before
    unchanged: usize,
    /// Documents whose files are gone or ignored
    removed: usize,
    /// Files that were not taken in
    pub(super) failed: usize,
}

impl From<&AddReport> for CountsView {
    fn from(report: &AddReport) -> Self {
        let Collection { documents, chunks, .. } = report.collection;
        let FileCounts { added, updated, unchanged, removed, failed } = report.counts;
        Self { documents, chunks, added, updated, unchanged, removed, failed }
    }
}

/// Files that were passed over for one reason
#[derive(Serialize, JsonSchema)]
struct SkippedView {
    /// The end of their names
    kind: String,
    /// How many
    files: u64,
    /// Why
    reason: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FileView {
    /// The file
    path: String,
    /// added, updated, unchanged, removed or failed
    outcome: &'static str,
    /// The document's id
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// Why it was not taken in
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl FileView {
    /// The files that were not taken in, as many as are told.
    pub(super) fn failed(report: &AddReport) -> Vec<Self> {
        let failed = report.files.iter().filter(|file| matches!(file.outcome, FileOutcome::Failed { .. }));
        failed.take(TOLD_LINES).cloned().map(Self::from).collect()
    }

    /// A line for each file that was not taken in, of which there are `count` in all.
    pub(super) fn tell_failed(text: &mut String, files: &[Self], count: usize) {
        let mut told = 0;
        for file in files.iter().filter(|file| file.reason.is_some()).take(TOLD_LINES) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\nfailed: {}: {}", file.path, file.reason.as_deref().unwrap_or_default());
            told += 1;
        }
        if count > told {
            let _ = write!(text, "\n… and {} more", count - told);
        }
    }
}

impl From<FileReport> for FileView {
    fn from(report: FileReport) -> Self {
        let (outcome, document, reason) = match report.outcome {
            FileOutcome::Added { document, .. } => ("added", Some(document), None),
            FileOutcome::Updated { document, .. } => ("updated", Some(document), None),
            FileOutcome::Unchanged { document } => ("unchanged", Some(document), None),
            FileOutcome::Removed { document } => ("removed", Some(document), None),
            FileOutcome::Failed { reason } => ("failed", None, Some(reason)),
        };
        Self { path: report.path, outcome, document, reason }
    }
}

#[async_trait]
impl Tool for Add {
    type Input = AddInput;
    type Output = AddView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/add",
        description: "Take files, folders or a text into a collection: Markdown, HTML, PDF, office files, data, source code",
        scope: Some(Scope::KnowledgeWrite),
        feature: Some(Feature::Knowledge),
        effects: Effects::Additive { idempotent: true },
    };

    fn target(input: &AddInput) -> Option<String> {
        Some(excerpt(&input.collection, 200))
    }

    async fn call(&self, call: &Call, input: AddInput) -> Result<Answer<AddView>, Failure> {
        let invalid = |details: &str| {
            Failure::new(FailureKind::InvalidInput, details).hint("give `paths`, or `name` and `text`")
        };
        if input.watch && input.text.is_some() {
            let details = "`watch` is for `paths`: a text has no file that could change";
            return Err(Failure::new(FailureKind::InvalidInput, details)
                .hint("leave `watch` out, and add the text again when it changes"));
        }
        let material = match (input.name, input.text) {
            (Some(name), Some(text)) if input.paths.is_empty() => {
                Material::Text { name, text, mime_type: input.mime_type }
            }
            (None, None) if !input.paths.is_empty() => {
                let patterns = Patterns { include: input.include, exclude: input.exclude };
                Material::Paths { paths: input.paths, patterns, watch: input.watch }
            }
            (None, None) => return Err(invalid("there is nothing to add")),
            (None, Some(_)) if input.paths.is_empty() => return Err(invalid("`text` needs a `name`")),
            (Some(_), None) if input.paths.is_empty() => return Err(invalid("`name` needs a `text`")),
            _ => return Err(invalid("paths and a text are two different things to add")),
        };
        let ownership =
            if input.shared { Ownership::Shared } else { Ownership::Private(call.caller.principal.clone()) };
        let request = AddRequest {
            collection: input.collection,
            id: input.collection_id,
            ownership,
            material,
            tags: input.tags,
        };
        if input.background {
            let (collection, shared) = (request.collection.clone(), input.shared);
            let ingest = self.knowledge.add_in_background(&call.caller, request)?;
            let text =
                format!("Goes on in the background as {ingest}; `knowledge/status` tells how far it is");
            let content = AddView {
                collection,
                shared,
                ingest: Some(ingest),
                counts: None,
                files: Vec::new(),
                skipped: Vec::new(),
                notices: Vec::new(),
            };
            return Ok(Answer { text, content });
        }
        let report = self.knowledge.add(&call.caller, request, &*call.progress).await?;
        Ok(told(report))
    }
}

/// What became of an addition, in a line.
pub(super) fn in_a_line(report: &AddReport) -> String {
    let counts = CountsView::from(report);
    let shared = if report.collection.ownership == Ownership::Shared { " (shared)" } else { "" };
    format!(
        "{}{shared}: {} added, {} updated, {} unchanged, {} removed, {} failed; {} documents, {} chunks now",
        report.collection.id,
        counts.added,
        counts.updated,
        counts.unchanged,
        counts.removed,
        counts.failed,
        counts.documents,
        counts.chunks
    )
}

fn told(report: AddReport) -> Answer<AddView> {
    let counts = CountsView::from(&report);
    let mut text = in_a_line(&report);
    let mut files: Vec<FileView> = report.files.into_iter().map(FileView::from).collect();
    files.sort_by_key(|file| file.reason.is_none());
    FileView::tell_failed(&mut text, &files, counts.failed);
    for skipped in report.skipped.iter().take(TOLD_LINES) {
        let _ = write!(text, "\nskipped: {skipped}");
    }
    let skipped: Vec<_> = report
        .skipped
        .into_iter()
        .map(|skipped| SkippedView { kind: skipped.kind, files: skipped.files, reason: skipped.reason })
        .collect();
    for notice in &report.notices {
        let _ = write!(text, "\nNotice: {notice}");
    }
    files.truncate(TOLD_FILES);
    let content = AddView {
        shared: report.collection.ownership == Ownership::Shared,
        collection: report.collection.id,
        ingest: None,
        counts: Some(counts),
        files,
        skipped,
        notices: report.notices,
    };
    Answer { text: printable_lines(&text).into_owned(), content }
}

pub(super) struct Remove {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveInput {
    /// Id or name
    collection: String,
    /// Only this one (id or path)
    ///
    /// Only this document (id or path); the whole collection where absent
    #[serde(default)]
    document: Option<String>,
    /// Only stop watching this folder (`*`: all)
    ///
    /// Remove nothing, but stop watching this folder; `*` for all folders of the collection
    #[serde(default)]
    unwatch: Option<String>,
    /// Only stop this ingest
    ///
    /// Remove nothing, but stop this ingest (its name in `knowledge/status`)
    #[serde(default)]
    ingest: Option<String>,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RemoveView {
    /// The collection's id
    collection: String,
    /// The document that was removed; absent when it was the whole collection
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// Folders that are not watched any more
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unwatched: Vec<String>,
}

#[async_trait]
impl Tool for Remove {
    type Input = RemoveInput;
    type Output = RemoveView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/remove",
        description: "Remove a document, or a collection with all in it. Files on disk stay",
        scope: Some(Scope::KnowledgeWrite),
        feature: Some(Feature::Knowledge),
        effects: Effects::Destructive { idempotent: false },
    };

    fn target(input: &RemoveInput) -> Option<String> {
        let document = input.document.as_deref().unwrap_or("*");
        Some(excerpt(&format!("{}/{document}", input.collection), 200))
    }

    async fn call(&self, call: &Call, input: RemoveInput) -> Result<Answer<RemoveView>, Failure> {
        if let Some(ingest) = &input.ingest {
            let text = match self.knowledge.cancel_ingest(&call.caller, ingest)? {
                true => {
                    format!("{ingest} stops after the file it is at; `knowledge/status` tells when it has")
                }
                false => format!("{ingest} has ended already; `knowledge/status` tells how"),
            };
            let content = RemoveView { collection: input.collection, document: None, unwatched: Vec::new() };
            return Ok(Answer { text, content });
        }
        if let Some(path) = &input.unwatch {
            let path = Some(path.as_str()).filter(|path| *path != "*");
            let (collection, unwatched) =
                self.knowledge.unwatch(&call.caller, &input.collection, path).await?;
            let text = format!("Not watched any more: {}. The documents stay", unwatched.join(", "));
            return Ok(Answer {
                text,
                content: RemoveView { collection: collection.id, document: None, unwatched },
            });
        }
        let (collection, document) = match input.document {
            Some(document) => {
                let caller = &call.caller;
                let collection = self.knowledge.remove_document(caller, &input.collection, &document).await?;
                (collection, Some(document))
            }
            None => (self.knowledge.remove_collection(&call.caller, &input.collection).await?, None),
        };
        let text = match &document {
            Some(document) => format!("Removed {document} from {}", collection.id),
            None => {
                format!(
                    "Removed the collection {} with its {} documents",
                    collection.id, collection.documents
                )
            }
        };
        Ok(Answer {
            text,
            content: RemoveView { collection: collection.id, document, unwatched: Vec::new() },
        })
    }
}
