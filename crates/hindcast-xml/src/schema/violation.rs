//! What breaks a schema, and where.

use serde::{Deserialize, Serialize};
use xsd_schema::validation::{InstancePath, PathStep, ValidationError};

use crate::{
    error::Position,
    place::Paths,
    tree::{Document, Kind, NodeId},
    xpath::NodeRef,
};

/// A rule that the document breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    /// The path of the element or attribute.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty where the message says it.
    pub expected: Vec<String>,
    /// What is there instead.
    pub found: Option<String>,
    /// The rule, as the standard calls it.
    pub rule: String,
}

/// Whether a document conforms, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The first violations, in the order they were found.
    pub violations: Vec<Violation>,
    /// How many there are in all.
    pub total: usize,
}

/// Longer values are cut.
const LONGEST_VALUE: usize = 80;

/// Content that the model does not allow: what it would allow is found out apart.
pub(super) const CONTENT_RULE: &str = "cvc-complex-type.2.4";

impl Violation {
    /// From what the validator says while it looks at `current`.
    pub(super) fn new(document: &Document, error: &ValidationError, current: NodeId, is_start: bool) -> Self {
        // The validator blames the parent for a child that may not be there; the child is where one has to look.
        let is_unexpected_child = error.constraint == CONTENT_RULE && is_start;
        let subject = if is_unexpected_child {
            NodeRef::node(current)
        } else {
            error.instance_path().and_then(|path| find(document, path)).unwrap_or(NodeRef::node(current))
        };
        let Position { line, column } = subject.position(document);
        Self {
            line,
            column,
            path: subject.path(&mut Paths::new(document)),
            message: plain(&error.message),
            expected: Vec::new(),
            found: found(document, subject, error.constraint, is_start),
            rule: error.constraint.to_owned(),
        }
    }
}

fn found(document: &Document, subject: NodeRef, rule: &str, is_start: bool) -> Option<String> {
    if rule == CONTENT_RULE {
        let name = subject.name(document);
        return Some(if is_start { format!("<{name}>") } else { format!("</{name}>") });
    }
    let is_simple = subject.kind(document) == "attribute"
        || document.children(subject.owner()).all(|child| document.kind(child) != Kind::Element);
    is_simple.then(|| {
        let text = subject.text(document);
        let mut shown: String = text.chars().take(LONGEST_VALUE).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    })
}

/// Messages name types as `Q{namespace}name`; without namespace the name alone is easier to read.
fn plain(message: &str) -> String {
    message.replace("Q{}", "")
}

/// The node that a path of the validator leads to.
fn find(document: &Document, path: &InstancePath) -> Option<NodeRef> {
    let mut at = NodeId::DOCUMENT;
    for step in path.steps() {
        let (namespace, local) = (step.name().namespace_uri(), step.name().local_name());
        match step {
            PathStep::Element { position, .. } => {
                let fits = |child: &NodeId| {
                    document.kind(*child) == Kind::Element && {
                        let name = document.name(*child);
                        document.string(name.local) == local && document.string(name.namespace) == namespace
                    }
                };
                at = document.children(at).filter(fits).nth(position - 1)?;
            }
            _ => {
                let number = document.attributes_of(at).find(|number| {
                    let name = document.names.parts(document.attributes[*number].name);
                    document.string(name.local) == local && document.string(name.namespace) == namespace
                });
                return Some(number.map_or(NodeRef::node(at), |number| NodeRef::attribute(at, number)));
            }
        }
    }
    Some(NodeRef::node(at))
}
