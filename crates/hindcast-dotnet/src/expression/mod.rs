//! C# expressions: their syntax, and arithmetic on the values of C#'s built-in types.
//!
//! Nothing here knows a program. Names stay names in the tree; whoever has a stopped program looks them up.

mod constant;
mod convert;
mod decimal;
mod error;
mod literal;
mod operation;
mod parser;
mod primary;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod types;
mod wide;

use hindcast_core::debug::secret_names::named;

pub(crate) use constant::{Constant, Primitive};
pub(crate) use convert::implicitly_converts;
pub(crate) use error::ParseError;
pub(crate) use operation::{Operand, OperationError, binary, unary};
pub(crate) use syntax::{
    Argument, Assignment, Binary, InterpolatedPart, Kind, Node, Pattern, Span, TypeKind, TypeName, TypePart,
    Unary,
};
pub(crate) use template::{Template, TemplatePart};
pub(crate) use text::Text;

/// An expression that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    root: Node,
    format: Vec<Format>,
}

/// How a value is shown, as said behind a comma at the end of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `,d`
    Decimal,
    /// `,x` and `,h`
    Hexadecimal,
    /// `,b`
    Binary,
    /// `,o`
    Octal,
    /// `,nq`: strings without quotes and escapes.
    NoQuotes,
    /// `,raw`: the fields, whatever the type wants to be shown.
    Raw,
}

impl Expression {
    /// Understands an expression. Costs no more than its length.
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text, Span { start: 0, end: text.len() }, false)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// How the value is shown; empty if nothing is said.
    pub(crate) fn format(&self) -> &[Format] {
        &self.format
    }

    /// Whether evaluating it assigns.
    pub(crate) fn writes(&self) -> bool {
        self.root.any(&|kind| matches!(kind, Kind::Assign { .. }))
    }

    /// Whether it names something that is a secret by its name.
    pub(crate) fn names_secret(&self) -> bool {
        let is_secret = |kind: &Kind| match kind {
            Kind::Name { name, .. } | Kind::Member { name, .. } => named(&name.text).is_some(),
            _ => false,
        };
        self.root.any(&is_secret)
    }

    /// Whether evaluating it calls a method or a constructor that the text names. Properties, indexers and
    /// operators may be methods too, which only the program's types tell.
    pub(crate) fn calls(&self) -> bool {
        self.root.any(&|kind| matches!(kind, Kind::Call { .. } | Kind::New { .. }))
    }
}
