//! Tools for XML documents.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{identity::Scope, license::Feature};
use hindcast_services::{
    Failure, FailureKind,
    documents::{
        CacheContents, DocumentService, FoundNode, Preloaded, QueryAnswer, QueryRequest, QueryValue,
        Violation,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoInput;
use crate::{
    app::AppParts,
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Effects, Registry, Tool},
};

pub(super) fn declare(registry: &mut Registry, parts: &AppParts) {
    let documents = &parts.documents;
    registry.add_tool(XPathQuery { documents: documents.clone() });
    registry.add_tool(ValidateSchema { documents: documents.clone() });
    registry.add_tool(PreloadDocuments { documents: documents.clone() });
    registry.add_tool(CacheStats { documents: documents.clone() });
}

/// Violations that go into one error.
const VIOLATIONS: usize = 200;

struct XPathQuery {
    documents: Arc<DocumentService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct XPathInput {
    /// Path or id
    ///
    /// Path of an XML file below an allowed folder, or the id of a loaded document
    document: String,
    /// Such as `//item[price > 10]/@id`, `count(//item)`
    query: String,
    /// By prefix
    ///
    /// Prefixes and their namespaces; the prefix "" gives unprefixed element names a namespace
    #[serde(default)]
    namespaces: BTreeMap<String, String>,
    /// How many nodes at most
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    #[serde(default)]
    offset: usize,
}

fn hundred() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
struct XPathView {
    /// Accepted in place of the path
    document_id: String,
    /// What the query gives
    #[serde(rename = "type")]
    kind: ValueKind,
    /// How many nodes there are in all
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    /// Nodes in document order
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeView>>,
    /// The string, the number as XPath writes it, or true or false
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Pass it as `offset` to get more nodes
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Why the query may have found fewer nodes than expected
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Whether the document was in the cache
    cached: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ValueKind {
    Nodes,
    String,
    Number,
    Boolean,
}

#[derive(Serialize, JsonSchema)]
struct NodeView {
    /// `element`, `attribute`, `text`, `comment`, `processing-instruction`, `namespace` or `document`
    kind: &'static str,
    /// Path from the root
    path: String,
    /// Line, from 1
    line: u32,
    /// Character in the line, from 1
    column: u32,
    /// The node as XML
    xml: String,
    /// True when `xml` was cut
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl From<FoundNode> for NodeView {
    fn from(node: FoundNode) -> Self {
        let FoundNode { kind, path, line, column, xml, truncated } = node;
        Self { kind, path, line, column, xml, truncated }
    }
}

#[async_trait]
impl Tool for XPathQuery {
    type Input = XPathInput;
    type Output = XPathView;

    const DECLARATION: Declaration = Declaration {
        name: "xpath_query",
        description: "Query an XML document with XPath 1.0. Nodes come with path, line and column",
        scope: Some(Scope::DocumentRead),
        feature: Some(Feature::Documents),
        effects: Effects::ReadOnly,
    };

    fn target(input: &XPathInput) -> Option<String> {
        Some(excerpt(&input.document, 200))
    }

    async fn call(&self, call: &Call, input: XPathInput) -> Result<Answer<XPathView>, Failure> {
        within("limit", input.limit, 1000)?;
        let XPathInput { document, query, namespaces, limit, offset } = input;
        let answer = self
            .documents
            .query(&call.caller.principal, QueryRequest { document, query, namespaces, limit, offset })
            .await?;
        Ok(query_answer(answer))
    }
}

fn query_answer(answer: QueryAnswer) -> Answer<XPathView> {
    let QueryAnswer { document_id, was_cached, value, hint } = answer;
    let mut view = XPathView {
        document_id,
        kind: ValueKind::String,
        total: None,
        nodes: None,
        value: None,
        next_offset: None,
        hint,
        cached: was_cached,
    };
    let mut text = match value {
        QueryValue::Nodes { total, nodes, next } => {
            let text = nodes_text(total, &nodes, next);
            view.kind = ValueKind::Nodes;
            view.total = Some(total);
            view.nodes = Some(nodes.into_iter().map(NodeView::from).collect());
            view.next_offset = next;
            text
        }
        QueryValue::Boolean(boolean) => {
            view.kind = ValueKind::Boolean;
            view.value = Some(boolean.to_string());
            format!("Query returned a boolean: {boolean}")
        }
        QueryValue::Number(_, written) => {
            view.kind = ValueKind::Number;
            view.value = Some(written.clone());
            format!("Query returned a number: {written}")
        }
        QueryValue::Text(text, cut) => {
            let note = if cut { "\n… the text is longer: take parts with `substring()`" } else { "" };
            view.value = Some(text.clone());
            format!("Query returned a string:\n{text}{note}")
        }
    };
    if let Some(hint) = &view.hint {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nhint: {hint}");
    }
    Answer { text, content: view }
}

fn nodes_text(total: usize, nodes: &[FoundNode], next: Option<usize>) -> String {
    let plural = if total == 1 { "node" } else { "nodes" };
    let mut text = format!("Query returned {total} {plural}{}", if nodes.is_empty() { "" } else { ":" });
    for node in nodes {
        let cut = if node.truncated { " …" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}:{} {}\n  {}{cut}", node.line, node.column, node.path, node.xml);
    }
    if let Some(next) = next {
        let _ = write!(text, "\n… {} more: call again with offset {next}", total - next);
    }
    text
}

fn within(name: &str, value: usize, most: usize) -> Result<(), Failure> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Failure::new(FailureKind::InvalidInput, format!("`{name}` is {value}, not between 1 and {most}")))
}

struct ValidateSchema {
    documents: Arc<DocumentService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValidateInput {
    /// Path or id
    ///
    /// Path of an XML file below an allowed folder, or the id of a loaded document
    document: String,
    /// Path
    ///
    /// Path of the XML Schema; what it includes and imports is read relative to it
    schema: String,
}

#[derive(Serialize, JsonSchema)]
struct ValidView {
    /// Always true: an invalid document is an error that lists the violations
    valid: bool,
    /// Version of XML Schema, 1.0 or 1.1
    schema_version: String,
    /// Whether the verdict on these files was in the cache
    cached: bool,
}

#[async_trait]
impl Tool for ValidateSchema {
    type Input = ValidateInput;
    type Output = ValidView;

    const DECLARATION: Declaration = Declaration {
        name: "validate_schema",
        description: "Validate an XML document against an XML Schema (1.0 or 1.1). Violations: data of error -32009",
        scope: Some(Scope::DocumentRead),
        feature: Some(Feature::Documents),
        effects: Effects::ReadOnly,
    };

    fn target(input: &ValidateInput) -> Option<String> {
        Some(excerpt(&input.document, 200))
    }

    async fn call(&self, call: &Call, input: ValidateInput) -> Result<Answer<ValidView>, Failure> {
        let reader = &call.caller.principal;
        let validation = self.documents.validate(reader, &input.document, &input.schema, VIOLATIONS).await?;
        if validation.verdict.total > 0 {
            return Err(invalid(&input, &validation.verdict.violations, validation.verdict.total));
        }
        let content = ValidView {
            valid: true,
            schema_version: validation.schema_version,
            cached: validation.was_cached,
        };
        Ok(Answer { text: "Validation result: VALID\nDocument conforms to schema.".into(), content })
    }
}

fn invalid(input: &ValidateInput, violations: &[Violation], total: usize) -> Failure {
    let count = if total == 1 { "1 violation".to_owned() } else { format!("{total} violations") };
    let mut details = format!("Validation result: INVALID\n`{}` has {count}:", input.document);
    for violation in violations.iter().take(10) {
        // Writing to a string cannot fail.
        let _ = write!(
            details,
            "\n{}:{} {}: {}",
            violation.line, violation.column, violation.path, violation.message
        );
        if !violation.expected.is_empty() {
            let _ = write!(details, " (expected {})", violation.expected.join(" or "));
        }
    }
    if total > 10 {
        let _ = write!(details, "\n… `violations` has the first {}", violations.len());
    }
    let listed = serde_json::to_value(violations).unwrap_or_default();
    Failure::new(FailureKind::SchemaInvalid, details)
        .hint("mend the first violation first: others may follow from it")
        .fact("document", input.document.clone())
        .fact("schema", input.schema.clone())
        .fact("total", total)
        .fact("violations", listed)
}

struct PreloadDocuments {
    documents: Arc<DocumentService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PreloadInput {
    /// Paths
    ///
    /// Paths of XML files below an allowed folder
    #[schemars(length(min = 1, max = 100))]
    documents: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct PreloadView {
    /// In the order they were asked for
    documents: Vec<PreloadedView>,
    /// How many are in the cache now
    loaded: usize,
}

#[derive(Serialize, JsonSchema)]
struct PreloadedView {
    /// As it was asked for
    document: String,
    /// Accepted in place of the path
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Memory it takes
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// Nodes, attributes apart
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    /// Why it could not be read
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[async_trait]
impl Tool for PreloadDocuments {
    type Input = PreloadInput;
    type Output = PreloadView;

    const DECLARATION: Declaration = Declaration {
        name: "preload_documents",
        description: "Read XML documents into the cache; each gets an id that stands for its path",
        scope: Some(Scope::DocumentWrite),
        feature: Some(Feature::Documents),
        effects: Effects::Additive { idempotent: true },
    };

    fn target(input: &PreloadInput) -> Option<String> {
        input.documents.first().map(|first| excerpt(first, 200))
    }

    async fn call(&self, call: &Call, input: PreloadInput) -> Result<Answer<PreloadView>, Failure> {
        within("documents", input.documents.len(), 100)?;
        let mut preloaded = self.documents.preload(&call.caller.principal, input.documents).await?;
        // Where there is nothing to show, the reason is the answer.
        if let [Preloaded { outcome: Err(_), .. }] = &preloaded[..]
            && let Some(Preloaded { outcome: Err(failure), .. }) = preloaded.pop()
        {
            return Err(failure);
        }
        let documents: Vec<_> = preloaded.into_iter().map(preloaded_view).collect();
        let loaded = documents.iter().filter(|document| document.id.is_some()).count();
        let mut text = format!("Loaded {loaded} of {} documents:", documents.len());
        for document in &documents {
            let outcome = match (&document.id, &document.problem) {
                (Some(id), _) => format!("{id}, {} nodes", document.nodes.unwrap_or_default()),
                (None, problem) => format!("not loaded: {}", problem.as_deref().unwrap_or_default()),
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{}: {outcome}", document.document);
        }
        Ok(Answer { text, content: PreloadView { documents, loaded } })
    }
}

fn preloaded_view(preloaded: Preloaded) -> PreloadedView {
    let Preloaded { document, outcome } = preloaded;
    match outcome {
        Ok(loaded) => PreloadedView {
            document,
            id: Some(loaded.id),
            bytes: Some(loaded.bytes),
            nodes: Some(loaded.nodes),
            problem: None,
        },
        Err(failure) => {
            PreloadedView { document, id: None, bytes: None, nodes: None, problem: Some(failure.to_string()) }
        }
    }
}

struct CacheStats {
    documents: Arc<DocumentService>,
}

#[derive(Serialize, JsonSchema)]
struct CacheView {
    /// Documents that were in the cache when they were asked for
    hits: u64,
    /// Documents that had to be read
    misses: u64,
    /// Hits among all, from 0 to 1
    hit_rate: f64,
    /// Documents that were dropped for room
    evictions: u64,
    /// Documents that were read again because the file had changed
    reloads: u64,
    /// Memory that documents take
    bytes: usize,
    /// Memory that documents may take
    max_bytes: usize,
    /// The most recently used first
    documents: Vec<DocumentView>,
    /// Compiled schemas
    schemas: Vec<SchemaView>,
    /// Verdicts that are kept as long as no file changes; only where everybody's are shown
    #[serde(skip_serializing_if = "Option::is_none")]
    verdicts: Option<usize>,
    /// How often a kept verdict was the answer; only where everybody's are shown
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict_hits: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct DocumentView {
    /// Accepted in place of the path
    id: String,
    /// The file
    path: String,
    /// Memory it takes
    bytes: usize,
    /// Nodes, attributes apart
    nodes: usize,
    /// How long ago it was read
    age_ms: i64,
    /// How often it was used since
    hits: u64,
}

#[derive(Serialize, JsonSchema)]
struct SchemaView {
    /// The file
    path: String,
    /// Version of XML Schema
    version: String,
    /// About the memory it takes
    bytes: usize,
    /// How often it was used after it had been compiled; only where everybody's uses are shown
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
}

impl CacheView {
    /// What is known of `contents`, which are everybody's or those of one caller: then what is not counted for each is left out.
    fn of(contents: CacheContents, everybody: bool) -> Self {
        let counts = contents.counts;
        let all = counts.hits + counts.misses;
        let now = contents.now;
        let documents = contents.documents.into_iter().map(|document| DocumentView {
            id: document.id,
            path: document.path.display().to_string(),
            bytes: document.bytes,
            nodes: document.nodes,
            age_ms: now.as_millisecond() - document.loaded_at.as_millisecond(),
            hits: document.hits,
        });
        let schemas = contents.schemas.into_iter().map(|schema| SchemaView {
            path: schema.path.display().to_string(),
            version: schema.version,
            bytes: schema.bytes,
            hits: everybody.then_some(schema.hits),
        });
        Self {
            hits: counts.hits,
            misses: counts.misses,
            hit_rate: if all == 0 { 0.0 } else { counts.hits as f64 / all as f64 },
            evictions: counts.evictions,
            reloads: counts.reloads,
            bytes: counts.bytes,
            max_bytes: contents.max_bytes,
            documents: documents.collect(),
            schemas: schemas.collect(),
            verdicts: everybody.then_some(contents.verdicts.0),
            verdict_hits: everybody.then_some(contents.verdicts.1),
        }
    }
}

#[async_trait]
impl Tool for CacheStats {
    type Input = NoInput;
    type Output = CacheView;

    const DECLARATION: Declaration = Declaration {
        name: "cache_stats",
        description: "Show which XML documents and schemas are loaded",
        scope: Some(Scope::DocumentRead),
        feature: Some(Feature::Documents),
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, _input: NoInput) -> Result<Answer<CacheView>, Failure> {
        let everybody = call.caller.may(Some(Scope::Admin));
        let reader = (!everybody).then_some(&call.caller.principal);
        let content = CacheView::of(self.documents.contents(reader), everybody);
        let mut text = format!(
            "Cache: {} documents, {} of {} bytes\nHits: {}, misses: {}, hit rate {:.0} %\nEvictions: {}, reloads: {}",
            content.documents.len(),
            content.bytes,
            content.max_bytes,
            content.hits,
            content.misses,
            content.hit_rate * 100.0,
            content.evictions,
            content.reloads
        );
        for document in &content.documents {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n{} {}: {} bytes, {} nodes, {} ms old, used {} times",
                document.id, document.path, document.bytes, document.nodes, document.age_ms, document.hits
            );
        }
        for schema in &content.schemas {
            let _ = write!(
                text,
                "\nschema {}: XSD {}, about {} bytes",
                schema.path, schema.version, schema.bytes
            );
        }
        Ok(Answer { text, content })
    }
}
