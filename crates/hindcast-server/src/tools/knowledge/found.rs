//! A passage that was found, as it is told.

use std::borrow::Cow;

use hindcast_core::knowledge::FoundChunk;
use hindcast_services::knowledge::{Hit, document_uri};
use schemars::JsonSchema;
use serde::Serialize;

use super::cutting::{self, Wanted};

/// Five hits are told in so many bytes, with everything around them.
const FIVE_HITS: usize = 5000;

/// Each hit beyond five may take this much more.
const A_HIT: usize = 1000;

/// What the protocol puts around an answer.
const ENVELOPE: usize = 120;

/// A part of a passage that is shorter says nothing.
const SHORTEST: usize = 100;

/// Longer paths are told by their ends in the text.
const LONGEST_PATH: usize = 60;

/// Of longer headings the innermost are told, which say most.
const LONGEST_HEADINGS: usize = 200;

/// The documents that say nearly the same as a hit and are named.
const MOST_ALSO: usize = 2;

/// A passage that was found
#[derive(Serialize, JsonSchema)]
pub(super) struct HitView {
    /// The passage; in a search its part with the words, where it is long
    text: String,
    /// How relevant it is, from 0 to 1
    pub(super) score: f64,
    /// The collection's id
    collection: String,
    /// The document's id
    document: String,
    /// The document's title
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Reads the whole document
    uri: String,
    /// What the document's file is written in
    #[serde(skip_serializing_if = "String::is_empty")]
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
    /// When it was last changed or sent, as it says itself
    #[serde(skip_serializing_if = "Option::is_none")]
    dated: Option<String>,
    /// The file has changed since it was taken in, or is gone: add it again
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    /// What became of the file
    #[serde(skip_serializing_if = "Option::is_none")]
    why_stale: Option<&'static str>,
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
            // As `f32` it would be sent with all the digits of the nearest `f64`.
            score: (f64::from(hit.score) * 100.0).round() / 100.0,
            uri: document_uri(&collection, &document.id),
            collection,
            document: document.id,
            name: document.name,
            mime_type: document.source_type,
            headings: innermost(headings),
            first_line: place.lines.0,
            last_line: place.lines.1,
            page: place.page,
            path: document.source.map(|source| source.path),
            dated: document.dated.map(|dated| dated.strftime("%Y-%m-%d").to_string()),
            stale: hit.file.why_stale().is_some(),
            why_stale: hit.file.why_stale(),
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
    pub(super) fn passage(&self) -> String {
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
    pub(super) fn citation(&self) -> String {
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
        if let Some(why) = self.why_stale {
            text += &format!(" (stale: {why})");
        }
        let whole = match &self.path {
            Some(path) => format!("{text} · {} · {}", end_of(path), self.uri),
            None => format!("{text} · {}", self.uri),
        };
        // A name with line breaks could look like another hit.
        whole.replace(char::is_control, " ")
    }
}

/// Headings, without the outermost where they are long.
fn innermost(headings: String) -> String {
    if headings.len() <= LONGEST_HEADINGS {
        return headings;
    }
    let start = headings.floor_char_boundary(headings.len() - LONGEST_HEADINGS);
    let cut = headings.match_indices(" › ").map(|(at, _)| at).find(|at| *at >= start);
    // Where even the innermost is longer, its end is told.
    format!("…{}", &headings[cut.unwrap_or(start)..])
}

/// A path, or its last folders where it is long; the data has all of it.
fn end_of(path: &str) -> Cow<'_, str> {
    if path.len() <= LONGEST_PATH {
        return path.into();
    }
    let start = path.len() - LONGEST_PATH;
    let cut = path.match_indices('/').map(|(at, _)| at).find(|at| *at >= start);
    // Where even the name is longer, it is told.
    let cut = cut.or_else(|| path.rfind('/')).unwrap_or_default();
    format!("…{}", &path[cut..]).into()
}

/// Leaves out what an agent does not need to choose a hit and to read on, and shortens the passages until the answer has the size
/// of an answer. Returns the passages for the text, which are shorter than those in the data. `said` is the text without them.
pub(super) fn fit(hits: &mut [HitView], question: &str, said: &str) -> Vec<String> {
    let whole: Vec<String> = hits.iter_mut().map(HitView::shorten).collect();
    let told: usize =
        hits.iter().map(|hit| serde_json::to_string(hit).map_or(0, |json| json.len() + 1)).sum();
    let budget = FIVE_HITS.max(hits.len() * A_HIT);
    let room = budget.saturating_sub(told + cutting::cost(said) + ENVELOPE);
    let costs: Vec<usize> = whole.iter().map(|passage| cutting::cost(passage)).collect();
    // Clients give their model the data or the text; most that do not know data show the text to people.
    let in_data = cutting::shares(&costs, room * 2 / 3);
    let in_text = cutting::shares(&costs, room - in_data.iter().sum::<usize>());
    let wanted = Wanted::of(question);
    let cut = |passage: &str, room: usize| cutting::cut(passage, &wanted, room.max(SHORTEST));
    for ((hit, passage), room) in hits.iter_mut().zip(&whole).zip(in_data) {
        hit.text = cut(passage, room);
    }
    whole.iter().zip(in_text).map(|(passage, room)| cut(passage, room)).collect()
}

impl HitView {
    /// Leaves out what the headings and the path tell. Returns the passage, which is taken out.
    fn shorten(&mut self) -> String {
        self.mime_type.clear();
        if !self.headings.is_empty() {
            self.name.clear();
        }
        self.also.truncate(MOST_ALSO);
        std::mem::take(&mut self.text)
    }
}
