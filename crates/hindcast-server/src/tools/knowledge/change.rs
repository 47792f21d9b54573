//! Adding and removing.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{identity::Scope, knowledge::Ownership, license::Feature};
use hindcast_services::{
    Failure, FailureKind,
    knowledge::{AddReport, AddRequest, FileOutcome, FileReport, KnowledgeService, Material},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Effects, Tool},
};

/// Files that are told one by one; a folder may have a hundred thousand.
const TOLD_FILES: usize = 500;
const TOLD_LINES: usize = 20;

pub(super) struct Add {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddInput {
    /// Collection (id or name); made if there is none
    collection: String,
    /// The id of a new collection; made from its name where absent
    #[serde(default, alias = "collectionId")]
    collection_id: Option<String>,
    /// Files and folders on the server's machine
    #[serde(default)]
    paths: Vec<PathBuf>,
    /// What a given text is called; another of that name is replaced
    #[serde(default)]
    name: Option<String>,
    /// A text, instead of paths
    #[serde(default)]
    text: Option<String>,
    /// What the text is written in; told by the name, or Markdown, where absent
    #[serde(default, alias = "mimeType")]
    mime_type: Option<String>,
    /// Keep the collection up to date with the files from now on; only with `paths`
    #[serde(default)]
    watch: bool,
    /// Add to the shared collection of that name, which everybody sees; without it the name means your own, which only you see
    #[serde(default)]
    shared: bool,
    #[serde(default, rename = "session_id")]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct AddView {
    /// The collection's id
    collection: String,
    /// Whether everybody sees the collection
    shared: bool,
    /// Documents it has now
    documents: u64,
    /// Chunks it has now
    chunks: u64,
    /// Files that are new
    added: usize,
    /// Files that say something else than before
    updated: usize,
    /// Files that say what they said before
    unchanged: usize,
    /// Documents whose files are gone
    removed: usize,
    /// Files that were not taken in
    failed: usize,
    /// Each file, those that failed first; at most 500
    files: Vec<FileView>,
    /// What else to know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct FileView {
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
        title: "Add to the knowledge base",
        description: "Take documents into a collection: files and folders (`paths`), or a text (`name` and `text`). Markdown, \
                      text, HTML, PDF, DOCX, XML, JSON, YAML, TOML and source code. What did not change is skipped; each file is \
                      reported",
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
                Material::Paths { paths: input.paths, watch: input.watch }
            }
            (None, None) => return Err(invalid("there is nothing to add")),
            _ => return Err(invalid("paths and a text are two different things to add")),
        };
        let ownership =
            if input.shared { Ownership::Shared } else { Ownership::Private(call.caller.principal.clone()) };
        let request =
            AddRequest { collection: input.collection, id: input.collection_id, ownership, material };
        let report = self.knowledge.add(&call.caller, request, &*call.progress).await?;
        Ok(told(report))
    }
}

fn told(report: AddReport) -> Answer<AddView> {
    let count =
        |fits: fn(&FileOutcome) -> bool| report.files.iter().filter(|file| fits(&file.outcome)).count();
    let added = count(|outcome| matches!(outcome, FileOutcome::Added { .. }));
    let updated = count(|outcome| matches!(outcome, FileOutcome::Updated { .. }));
    let unchanged = count(|outcome| matches!(outcome, FileOutcome::Unchanged { .. }));
    let removed = count(|outcome| matches!(outcome, FileOutcome::Removed { .. }));
    let failed = count(|outcome| matches!(outcome, FileOutcome::Failed { .. }));
    let collection = report.collection;
    let shared = collection.ownership == Ownership::Shared;
    let mut text = format!(
        "{}{}: {added} added, {updated} updated, {unchanged} unchanged, {removed} removed, {failed} failed; {} documents, \
         {} chunks now",
        collection.id,
        if shared { " (shared)" } else { "" },
        collection.documents,
        collection.chunks
    );
    let mut files: Vec<FileView> = report.files.into_iter().map(FileView::from).collect();
    files.sort_by_key(|file| file.reason.is_none());
    for file in files.iter().filter(|file| file.reason.is_some()).take(TOLD_LINES) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nfailed: {}: {}", file.path, file.reason.as_deref().unwrap_or_default());
    }
    if failed > TOLD_LINES {
        let _ = write!(text, "\n… and {} more", failed - TOLD_LINES);
    }
    for notice in &report.notices {
        let _ = write!(text, "\nNotice: {notice}");
    }
    files.truncate(TOLD_FILES);
    let content = AddView {
        collection: collection.id,
        shared,
        documents: collection.documents,
        chunks: collection.chunks,
        added,
        updated,
        unchanged,
        removed,
        failed,
        files,
        notices: report.notices,
    };
    Answer { text, content }
}

pub(super) struct Remove {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveInput {
    /// Collection (id or name)
    collection: String,
    /// Only this document (id or path); the whole collection where absent
    #[serde(default)]
    document: Option<String>,
    #[serde(default, rename = "session_id")]
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
}

#[async_trait]
impl Tool for Remove {
    type Input = RemoveInput;
    type Output = RemoveView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/remove",
        title: "Remove from the knowledge base",
        description: "Remove a document, or a whole collection when no document is named, with everything that was derived from \
                      it. Files on disk stay",
        scope: Some(Scope::KnowledgeWrite),
        feature: Some(Feature::Knowledge),
        effects: Effects::Destructive { idempotent: false },
    };

    fn target(input: &RemoveInput) -> Option<String> {
        let document = input.document.as_deref().unwrap_or("*");
        Some(excerpt(&format!("{}/{document}", input.collection), 200))
    }

    async fn call(&self, call: &Call, input: RemoveInput) -> Result<Answer<RemoveView>, Failure> {
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
        Ok(Answer { text, content: RemoveView { collection: collection.id, document } })
    }
}
