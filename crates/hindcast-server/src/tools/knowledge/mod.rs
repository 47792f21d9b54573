//! Tools over the knowledge base.

mod change;
mod find;

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
    /// What the document is served as
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
            mime_type: document.mime_type,
            headings,
            first_line: place.lines.0,
            last_line: place.lines.1,
            page: place.page,
            path: document.source.map(|source| source.path),
            stale: hit.is_stale,
        }
    }
}

impl HitView {
    /// Where it stands, in a line.
    fn citation(&self) -> String {
        let mut text = self.name.clone();
        if !self.headings.is_empty() && self.headings != self.name {
            text += &format!(" › {}", self.headings);
        }
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
