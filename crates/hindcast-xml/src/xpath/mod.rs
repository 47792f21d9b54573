//! XPath 1.0 over a [`Document`].

mod axes;
mod budget;
mod error;
mod evaluate;
mod functions;
mod nodes;
mod number;
mod parser;
mod syntax;
mod token;
mod value;

pub use budget::Allowance;
pub use error::XPathError;
pub use nodes::NodeRef;
pub(crate) use nodes::Part;
pub use parser::Namespaces;

use crate::tree::{Document, NodeId};
use budget::Budget;
use evaluate::{Context, Evaluator};
use syntax::Expression;
use value::Value;

/// A query that can be asked of any document.
#[derive(Debug, Clone)]
pub struct Query {
    expression: Expression,
    steps: usize,
}

/// What a query gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Nodes, in document order.
    Nodes(Vec<NodeRef>),
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Query {
    /// Reads a query. Names without prefix are in no namespace, unless the empty prefix is bound.
    pub fn parse(query: &str, namespaces: &Namespaces) -> Result<Self, XPathError> {
        let (expression, steps) = parser::parse(query, namespaces)?;
        Ok(Self { expression, steps })
    }

    /// Asks a document, from its outermost node.
    pub fn ask(&self, document: &Document, allowance: Allowance) -> Result<Answer, XPathError> {
        let evaluator = Evaluator::new(document, Budget::new(allowance), self.steps);
        let context = Context { node: NodeRef::node(NodeId::DOCUMENT), position: 1, size: 1 };
        Ok(match evaluator.evaluate(&self.expression, context)? {
            Value::Nodes(nodes) => Answer::Nodes(nodes),
            Value::Boolean(boolean) => Answer::Boolean(boolean),
            Value::Number(number) => Answer::Number(number),
            Value::Text(text) => Answer::Text(text.into_owned()),
        })
    }

    /// Whether a name in the query is in no namespace, as names without prefix are.
    pub fn has_unprefixed_names(&self) -> bool {
        self.expression.has_unprefixed_names()
    }
}

impl Answer {
    /// A number as XPath writes it.
    pub fn number_text(number: f64) -> String {
        number::to_text(number)
    }
}
