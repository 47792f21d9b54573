//! What is known: collections with their figures, documents, passages that were found, and adding more.

mod added;
mod found;

use hindcast_core::identity::Scope;
use hindcast_services::{
    Failure,
    knowledge::{COLLECTIONS_URI, MODELS_URI},
};
use http::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) use self::{added::add, found::search};
use super::{Body, KNOWLEDGE, Turned, Visit, frame, words};

/// So much of a document is shown at a time.
const SHOWN: usize = 60_000;
/// So many documents are listed at a time.
const LISTED: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Collection {
    id: String,
    name: String,
    document_count: u64,
    chunk_count: u64,
    last_updated: String,
    monthly_queries: u64,
    activity_level: String,
    #[serde(default)]
    shared: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    id: String,
    name: String,
    size: u64,
    chunk_count: u64,
    mime_type: String,
    last_updated: String,
    path: Option<String>,
}

/// `knowledge/status`.
#[derive(Deserialize)]
struct Progress {
    ingests: Vec<Ingest>,
    watches: Vec<Watch>,
}

#[derive(Deserialize)]
struct Ingest {
    ingest: String,
    collection: String,
    state: String,
    done: u64,
    total: Option<u64>,
    message: String,
}

#[derive(Deserialize)]
struct Watch {
    collection: String,
    path: String,
    notice: Option<String>,
}

fn path(collection: &str) -> String {
    format!("{KNOWLEDGE}/in/{}", words::encoded(collection))
}

/// All collections.
pub(super) async fn show(visit: &Visit<'_>) -> Result<Response<Body>, Turned> {
    let collections = match visit.desk.read::<Vec<Collection>>(COLLECTIONS_URI).await {
        Ok(collections) => collections,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let progress = visit.desk.look::<Progress>("knowledge/status", json!({})).await;
    let models = visit.desk.read::<Value>(MODELS_URI).await;
    let content = html! {
        div.head { h1 { "Knowledge" } }
        (found::form("", ""))
        div.two {
            div {
                @if collections.is_empty() {
                    div.empty { p { "There are no collections yet." } p.faint { "Add documents, and they can be searched by words and by meaning." } }
                } @else {
                    div.tiles { @for collection in &collections { (tile(collection)) } }
                }
                (going_on(&progress))
            }
            div {
                (added::form(visit, ""))
                (answers(&models))
            }
        }
    };
    Ok(visit.page("Knowledge", content))
}

fn tile(collection: &Collection) -> Markup {
    html! {
        section.panel.tile {
            h2 {
                a href=(path(&collection.id)) { (collection.name) }
                @if collection.shared { span.pill { "shared" } }
            }
            dl {
                dt { "Documents" } dd { (words::number(collection.document_count)) }
                dt { "Passages" } dd { (words::number(collection.chunk_count)) }
                dt { "Questions this month" } dd { (words::number(collection.monthly_queries)) " · " (collection.activity_level) }
                dt { "Last change" } dd { (words::time(&collection.last_updated)) }
            }
        }
    }
}

fn going_on(progress: &Result<Progress, Failure>) -> Markup {
    let progress = match progress {
        Ok(progress) => progress,
        Err(failure) => return frame::missing(failure),
    };
    let runs = progress.ingests.iter().any(|ingest| ingest.state == "running");
    html! {
        @if !progress.ingests.is_empty() {
            section.panel data-goes-on=[runs.then_some("")] {
                h2 { "Additions" }
                ul.stack {
                    @for ingest in &progress.ingests {
                        li {
                            p { a href=(path(&ingest.collection)) { (ingest.collection) } " " span.pill.(ingest.state) { (ingest.state) } }
                            @if ingest.state == "running" {
                                progress max=[ingest.total] value=[ingest.total.map(|_| ingest.done)] aria-label={ "Progress of " (ingest.ingest) } {}
                            }
                            p.faint {
                                (words::number(ingest.done)) @if let Some(total) = ingest.total { " of " (words::number(total)) } " files · "
                                (ingest.message)
                            }
                        }
                    }
                }
            }
        }
        @if !progress.watches.is_empty() {
            section.panel {
                h2 { "Watched folders" }
                ul {
                    @for watch in &progress.watches {
                        li { code { (watch.path) } span.faint { " for " (watch.collection) @if let Some(notice) = &watch.notice { " · " (notice) } } }
                    }
                }
            }
        }
    }
}

/// How well questions were answered, by the models that answered them.
fn answers(models: &Result<Value, Failure>) -> Markup {
    let models = match models {
        Ok(models) => models,
        Err(failure) => return html! { section.panel { h2 { "Answers" } (frame::missing(failure)) } },
    };
    let text = |model: &Value, name: &str| model.get(name).map(plain).unwrap_or_default();
    let all = models.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
    let answering = || all.iter().filter(|model| model.get("conversations").is_some());
    html! {
        section.panel {
            h2 { "Answers" }
            @if answering().next().is_none() { p.faint { "No model that answers questions is installed." } }
            @for model in answering() {
                h3 { (text(model, "name")) }
                dl.facts {
                    dt { "Conversations" } dd { (text(model, "conversations")) }
                    dt { "Answered" } dd { (text(model, "successRate")) }
                    dt { "Mean time" } dd { (text(model, "averageResponseTime")) }
                    dt { "Last used" } dd { (words::time(&text(model, "lastUsed"))) }
                }
            }
            @if let Some(notice) = models.get("notice").and_then(Value::as_str) { p.faint { (notice) } }
        }
    }
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

/// One collection.
pub(super) async fn collection(visit: &Visit<'_>, id: &str) -> Result<Response<Body>, Turned> {
    let uri = format!("resource://knowledge/{id}");
    let documents = visit.desk.read::<Vec<Document>>(&format!("{uri}/documents")).await;
    let documents = match documents {
        Ok(documents) => documents,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let stats = visit.desk.read::<Value>(&format!("{uri}/stats")).await.unwrap_or_default();
    let name = stats.get("collectionName").and_then(Value::as_str).unwrap_or(id).to_owned();
    let from = visit.query.number("from").unwrap_or(0) as usize;
    let content = html! {
        div.head { p.crumb { a href=(KNOWLEDGE) { "Knowledge" } } h1 { (name) } }
        (found::form("", id))
        div.two {
            div {
                div.scroll tabindex="0" role="region" aria-label="Documents" {
                    table.rows {
                        thead { tr { th scope="col" { "Document" } th scope="col" { "Kind" } th.number scope="col" { "Passages" } th.number scope="col" { "Bytes" } th scope="col" { "Changed" } } }
                        tbody {
                            @for document in documents.iter().skip(from).take(LISTED) {
                                tr {
                                    td {
                                        a href={ (path(id)) "/" (words::encoded(&document.id)) } { (document.name) }
                                        @if let Some(path) = &document.path { br; span.faint.path { (path) } }
                                    }
                                    td { (document.mime_type) }
                                    td.number { (words::number(document.chunk_count)) }
                                    td.number { (words::number(document.size)) }
                                    td { (words::time(&document.last_updated)) }
                                }
                            }
                        }
                    }
                }
                @if documents.is_empty() { p.faint { "There are no documents in it." } }
                p.more {
                    @if from > 0 { a href=(words::link(&path(id), &[("from", &from.saturating_sub(LISTED).to_string())])) { "Before" } }
                    @if documents.len() > from + LISTED { a href=(words::link(&path(id), &[("from", &(from + LISTED).to_string())])) { "After" } }
                }
            }
            div {
                (figures(&stats))
                (added::form(visit, &name))
            }
        }
    };
    Ok(visit.page(&name, content))
}

fn figures(stats: &Value) -> Markup {
    let at = |pointer: &str| stats.pointer(pointer).map(plain).unwrap_or_else(|| "–".to_owned());
    let topics = stats.pointer("/usageStatistics/mostQueriedTopics").and_then(Value::as_array);
    html! {
        section.panel {
            h2 { "Figures" }
            dl.facts {
                dt { "Documents" } dd { (at("/documentCount")) }
                dt { "Passages" } dd { (at("/totalChunks")) }
                dt { "Bytes" } dd { (at("/totalSize")) }
                dt { "Bytes of vectors" } dd { (at("/storageMetrics/vectorStorageBytes")) }
                dt { "Healthy" } dd { (at("/healthStatus/isHealthy")) }
            }
            h3 { "Past questions" }
            dl.facts {
                dt { "This month" } dd { (at("/usageStatistics/monthlyQueries")) }
                dt { "In all" } dd { (at("/usageStatistics/totalQueries")) }
                dt { "Mean relevance of the best passage" } dd { (at("/usageStatistics/averageRelevanceScore")) }
            }
            @if let Some(topics) = topics.filter(|topics| !topics.is_empty()) {
                p.faint { "Asked about most:" }
                ul { @for topic in topics { li { (plain(topic)) } } }
            }
        }
    }
}

/// A whole document.
pub(super) async fn document(
    visit: &Visit<'_>,
    collection: &str,
    id: &str,
) -> Result<Response<Body>, Turned> {
    let uri = format!("resource://knowledge/{collection}/document/{id}");
    let text = match visit.desk.read_text(&uri).await {
        Ok(text) => text,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let lines: Vec<&str> = text.lines().collect();
    let wanted = visit.query.number("line").unwrap_or(1).max(1) as usize;
    let first = wanted.saturating_sub(3).max(1);
    let mut bytes = 0;
    let shown: Vec<&str> = lines
        .iter()
        .skip(first - 1)
        .take_while(|line| {
            bytes += line.len() + 1;
            bytes <= SHOWN
        })
        .copied()
        .collect();
    let next = first + shown.len();
    let here = format!("{}/{}", path(collection), words::encoded(id));
    let content = html! {
        div.head { p.crumb { a href=(KNOWLEDGE) { "Knowledge" } " / " a href=(path(collection)) { (collection) } } h1 { (id) } }
        @if first > 1 { p.faint { "From line " (first) " · " a href=(here) { "From the beginning" } } }
        pre.document tabindex="0" role="region" aria-label="Text of the document" { (shown.join("\n")) }
        @if next <= lines.len() { p { a href=(words::link(&here, &[("line", &(next + 3).to_string())])) { "Go on at line " (next) } } }
    };
    Ok(visit.page(id, content))
}

/// Whether documents may be added.
fn may_add(visit: &Visit<'_>) -> bool {
    visit.desk.may(Scope::KnowledgeWrite)
}
