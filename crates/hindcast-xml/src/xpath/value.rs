//! What a query gives: nodes, a boolean, a number or text.

use std::borrow::Cow;

use super::{nodes::NodeRef, number};
use crate::tree::Document;

/// The value of an expression.
#[derive(Debug, Clone)]
pub(super) enum Value<'d> {
    /// In document order, each once.
    Nodes(Vec<NodeRef>),
    Boolean(bool),
    Number(f64),
    Text(Cow<'d, str>),
}

impl<'d> Value<'d> {
    pub(super) fn boolean(&self) -> bool {
        match self {
            Self::Nodes(nodes) => !nodes.is_empty(),
            Self::Boolean(boolean) => *boolean,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::Text(text) => !text.is_empty(),
        }
    }

    pub(super) fn number(&self, document: &'d Document) -> f64 {
        match self {
            Self::Boolean(boolean) => f64::from(u8::from(*boolean)),
            Self::Number(number) => *number,
            Self::Nodes(nodes) => {
                nodes.first().map_or(f64::NAN, |first| number::from_text(&first.text(document)))
            }
            Self::Text(text) => number::from_text(text),
        }
    }

    pub(super) fn into_text(self, document: &'d Document) -> Cow<'d, str> {
        match self {
            Self::Nodes(nodes) => nodes.first().map_or(Cow::Borrowed(""), |first| first.text(document)),
            Self::Boolean(boolean) => Cow::Borrowed(if boolean { "true" } else { "false" }),
            Self::Number(number) => Cow::Owned(number::to_text(number)),
            Self::Text(text) => text,
        }
    }
}
