//! Tools over the knowledge base.

mod change;
mod find;
mod status;

use std::sync::Arc;

use hindcast_core::knowledge::FoundChunk;
use hindcast_services::knowledge::{Hit, KnowledgeService, document_uri};
use schemars::JsonSchema;
use serde::Serialize;

use crate::registry::Registry;

pub(super) fn declare(registry: &mut Registry, knowledge: &Arc<KnowledgeService>) {
    registry.add_tool(find::Search { knowledge: knowledge.clone() });
    registry.add_tool(change::Add { knowledge: knowledge.clone() });
    registry.add_tool(change::Remove { knowledge: knowledge.clone() });
    registry.add_tool(status::Status { knowledge: knowledge.clone() });
    registry.add_tool(find::Ask { knowledge: knowledge.clone() });
}

/// A passage that was found
#[derive(Serialize, JsonSchema)]
struct HitView {
    /// The passage
    text: String,
    /// How relevant it is, from 0 to 1
    score: f32,
    /// The collection's id
    collection: String,
    /// The document's id
    document: String,
    /// The document's title
    name: String,
    /// Reads the whole document
    uri: String,
    /// What the document's file is written in
    mime_type: String,
    /// The headings that lead to it, outermost first, joined by ` › `
    #[serde(skip_serializing_if = "String::is_empty")]
    headings: String,
    /// First line in the document
    first_line: u64,
    /// Last line in the document
    last_line: u64,
    /// The page, where the document has pages
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u64>,
    /// The file it came from
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The file has changed since it was taken in: add it again
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    /// Passages that stand before it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// Passages that stand after it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
    /// Where nearly the same is said
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
}

impl From<&Hit> for HitView {
    fn from(hit: &Hit) -> Self {
        let FoundChunk { text, headings, place, collection, document, .. } = hit.found.clone();
        Self {
            text,
            score: (hit.score * 1000.0).round() / 1000.0,
            uri: document_uri(&collection, &document.id),
            collection,
            document: document.id,
            name: document.name,
            mime_type: document.source_type,
            headings,
            first_line: place.lines.0,
            last_line: place.lines.1,
            page: place.page,
            path: document.source.map(|source| source.path),
            stale: hit.is_stale,
            before: hit.context.0.clone(),
            after: hit.context.1.clone(),
            also: also(hit),
        }
    }
}

/// The documents that say nearly the same, each once.
fn also(hit: &Hit) -> Vec<String> {
    let mut uris = Vec::new();
    for found in &hit.duplicates {
        let uri = document_uri(&found.collection, &found.document.id);
        if !uris.contains(&uri) {
            uris.push(uri);
        }
    }
    uris
}

impl HitView {
    /// The passage with what stands around it.
    fn passage(&self) -> String {
        let parts = self.before.iter().chain([&self.text]).chain(&self.after);
        let mut passage = parts.map(String::as_str).collect::<Vec<_>>().join("\n\n");
        match &*self.also {
            [] => {}
            [other] => passage += &format!("\n(nearly the same: {other})"),
            [first, rest @ ..] => passage += &format!("\n(nearly the same: {first} and {} more)", rest.len()),
        }
        passage
    }

    /// Where it stands, in a line.
    fn citation(&self) -> String {
        let mut text = match &*self.headings {
            "" => self.name.clone(),
            // A page's title often is its first heading and something about the site.
            headings => match headings.split(" › ").next() {
                Some(first) if self.name.starts_with(first) || first.starts_with(&self.name) => {
                    headings.to_owned()
                }
                _ => format!("{} › {headings}", self.name),
            },
        };
        match self.page {
            Some(page) => text += &format!(", page {page}"),
            None => text += &format!(", lines {}–{}", self.first_line, self.last_line),
        }
        if self.stale {
            text += " (stale: the file has changed since)";
        }
        format!("{text} · {}", self.uri)
    }
}
