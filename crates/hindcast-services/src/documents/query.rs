//! Queries and what they give, in words that fit into an answer.

use std::time::{Duration, Instant};

use hindcast_xml::{
    Document, Paths,
    xpath::{Allowance, Answer, Namespaces, NodeRef, Query, XPathError},
};

use super::cache::Fetched;
use crate::{Failure, FailureKind};

/// A query to a document.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// The path, or the id of a document that is loaded.
    pub document: String,
    /// XPath 1.0.
    pub query: String,
    /// Prefixes and the namespaces they mean.
    pub namespaces: Namespaces,
    /// How many nodes are told.
    pub limit: usize,
    /// How many nodes are passed over.
    pub offset: usize,
}

/// What a query gives.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// The document's id.
    pub document_id: String,
    /// Whether the document was there already.
    pub was_cached: bool,
    /// The value.
    pub value: QueryValue,
    /// What may have gone otherwise than it was meant.
    pub hint: Option<String>,
}

/// The value of a query.
#[derive(Debug, Clone)]
pub enum QueryValue {
    /// Nodes: how many there are in all, and some of them.
    Nodes {
        /// How many there are.
        total: usize,
        /// Those from the offset on.
        nodes: Vec<FoundNode>,
        /// The offset that comes next, if there are more.
        next: Option<usize>,
    },
    /// True or false.
    Boolean(bool),
    /// A number, also as XPath writes it.
    Number(f64, String),
    /// Text, and whether it was cut.
    Text(String, bool),
}

/// A node of a result.
#[derive(Debug, Clone)]
pub struct FoundNode {
    /// `element`, `attribute`, `text` and so on.
    pub kind: &'static str,
    /// The path from the root.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    /// The node as XML, perhaps cut.
    pub xml: String,
    /// Whether it was cut.
    pub truncated: bool,
}

/// Bytes of one node in an answer.
const NODE_BYTES: usize = 4 << 10;

/// Bytes of all nodes in an answer.
const ANSWER_BYTES: usize = 256 << 10;

impl QueryRequest {
    pub(super) fn parse(&self) -> Result<Query, Failure> {
        Query::parse(&self.query, &self.namespaces).map_err(|error| explain(&self.query, &error, None))
    }
}

pub(super) fn answer(
    request: &QueryRequest,
    query: &Query,
    fetched: &Fetched,
    time: Duration,
) -> Result<QueryAnswer, Failure> {
    let document = &*fetched.document;
    let deadline = Instant::now() + time;
    let allowance = Allowance { time, ..Allowance::default() };
    let answer =
        query.ask(document, allowance).map_err(|error| explain(&request.query, &error, Some(document)))?;
    let hint = hint(query, &answer, document, &request.namespaces);
    let value = match answer {
        Answer::Nodes(nodes) => shown(document, &nodes, request, deadline),
        Answer::Boolean(boolean) => QueryValue::Boolean(boolean),
        Answer::Number(number) => QueryValue::Number(number, Answer::number_text(number)),
        Answer::Text(text) => {
            let cut = text.char_indices().nth(ANSWER_BYTES / 4).map(|(at, _)| at);
            QueryValue::Text(text[..cut.unwrap_or(text.len())].to_owned(), cut.is_some())
        }
    };
    Ok(QueryAnswer { document_id: fetched.id.clone(), was_cached: fetched.was_cached, value, hint })
}

/// Nodes up to the limit, fewer when they take too many bytes or too long: lines and siblings have to be counted.
fn shown(document: &Document, nodes: &[NodeRef], request: &QueryRequest, deadline: Instant) -> QueryValue {
    let mut paths = Paths::new(document);
    let mut bytes = 0;
    let mut found = Vec::new();
    for node in nodes.iter().skip(request.offset).take(request.limit) {
        let (xml, truncated) = hindcast_xml::serialize(document, *node, NODE_BYTES);
        bytes += xml.len();
        if bytes > ANSWER_BYTES || (!found.is_empty() && Instant::now() > deadline) {
            break;
        }
        let position = node.position(document);
        found.push(FoundNode {
            kind: node.kind(document),
            path: node.path(&mut paths),
            line: position.line,
            column: position.column,
            xml,
            truncated,
        });
    }
    let end = request.offset + found.len();
    let next = (end < nodes.len() && !found.is_empty()).then_some(end);
    QueryValue::Nodes { total: nodes.len(), nodes: found, next }
}

/// The commonest mistake: the document has a default namespace, and names without prefix are in none.
fn hint(query: &Query, answer: &Answer, document: &Document, namespaces: &Namespaces) -> Option<String> {
    let is_empty = match answer {
        Answer::Nodes(nodes) => nodes.is_empty(),
        Answer::Number(number) => *number == 0.0 || number.is_nan(),
        Answer::Boolean(boolean) => !boolean,
        Answer::Text(text) => text.is_empty(),
    };
    let namespace = document.default_namespace()?;
    (is_empty && !namespaces.contains_key("") && query.has_unprefixed_names()).then(|| {
        format!(
            "the document's elements are in the default namespace `{namespace}`, and names without prefix are in none: \
             pass `namespaces: {{\"d\": \"{namespace}\"}}` and write `d:name`, or pass `{{\"\": \"{namespace}\"}}`"
        )
    })
}

fn explain(query: &str, error: &XPathError, document: Option<&Document>) -> Failure {
    let failure = Failure::new(FailureKind::InvalidInput, format!("`{}`: {error}", shortened(query)));
    match error {
        XPathError::Syntax { .. } => failure.hint("write XPath 1.0, such as `//item[@id='7']/name`"),
        XPathError::UnknownPrefix(prefix) => {
            let known = document.map(Document::declared_namespaces).unwrap_or_default();
            let example = known.first().map_or("urn:…", |(_, namespace)| namespace);
            failure.hint(format!("bind it: `namespaces: {{\"{prefix}\": \"{example}\"}}`"))
        }
        XPathError::OutOfTime(_) | XPathError::OutOfMemory(_) => {
            failure.hint("ask for less: avoid `//` inside predicates, or have the operator raise `documents.query_timeout_ms`")
        }
        _ => failure.hint("only the functions of XPath 1.0 are there, without variables"),
    }
}

fn shortened(query: &str) -> String {
    let mut short: String = query.chars().take(120).collect();
    if short.len() < query.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use hindcast_xml::Limits;

    use super::*;

    #[test]
    fn showing_nodes_ends_in_time_and_goes_on_at_the_next_page() {
        let document = hindcast_xml::read("<a><b/><b/><b/></a>".into(), &Limits::default()).unwrap();
        let mut request = QueryRequest {
            document: String::new(),
            query: "//b".into(),
            namespaces: Namespaces::new(),
            limit: 10,
            offset: 0,
        };
        let answer = request.parse().unwrap().ask(&document, Allowance::default()).unwrap();
        let Answer::Nodes(nodes) = answer else { panic!("no nodes") };
        let long_ago = Instant::now();
        let mut seen = Vec::new();
        loop {
            let QueryValue::Nodes { total: 3, nodes, next } = shown(&document, &nodes, &request, long_ago)
            else {
                panic!("other nodes")
            };
            seen.extend(nodes.into_iter().map(|node| node.path));
            match next {
                Some(next) => request.offset = next,
                None => break,
            }
        }
        assert_eq!(
            (request.offset, seen),
            (2, ["/a[1]/b[1]", "/a[1]/b[2]", "/a[1]/b[3]"].map(String::from).to_vec())
        );
    }
}
