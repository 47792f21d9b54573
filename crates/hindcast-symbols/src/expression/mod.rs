//! Expressions over the values of a program, as users of C, C++ and Rust write them.
//!
//! Nothing is run in the program: methods such as `len` are answered from the layout. An assignment
//! is computed here and carried out by whoever asked.

mod access;
mod assign;
mod budget;
mod check;
mod classes;
mod columns;
mod compare;
mod elements;
mod error;
mod evaluate;
mod frame_scope;
mod members;
mod methods;
mod names;
mod parser;
mod rank;
mod reachable;
mod scalar;
mod syntax;
mod tally;
mod template;
mod token;

use std::sync::Arc;

pub use budget::{Bounded, Budget};
pub use check::{Check, CountedNumber, Number, Relation};
pub use elements::{Found, Position, on_element};
pub use error::ExpressionError;
pub use frame_scope::{FrameScope, register_part, visible};
pub use rank::{Rank, SortKey};
use syntax::{Kind, Node};
pub use template::Template;

use crate::{
    Memory,
    types::Language,
    value::{DerivedTypes, Placed},
};

/// Where an expression finds what it names.
pub trait Scope {
    /// A variable or argument of the frame, inner ones first.
    fn local(&self, name: &str) -> Option<Placed>;

    /// What is always there under a name, which may begin with `::`.
    fn global(&self, name: &str) -> Option<Global>;

    /// A register by its name, without `$`.
    fn register(&self, name: &str) -> Option<Register>;

    /// The language that expressions are taken for where languages differ: that of the code.
    fn language(&self) -> Language;

    /// The types, and where those are kept that casts make.
    fn types(&self) -> &DerivedTypes<'_>;

    /// The memory that values are read from.
    fn memory(&self) -> &dyn Memory;

    /// All names that [`Scope::local`] and [`Scope::global`] would find and that are worth suggesting.
    fn names(&self) -> Vec<String>;

    /// What expressions may cost together; without one, each has its own.
    fn budget(&self) -> Option<Budget> {
        None
    }
}

/// What is always there under a name.
#[derive(Debug, Clone, PartialEq)]
pub enum Global {
    /// A variable.
    Variable(Placed),
    /// A named number, as a value of its enumeration.
    Enumerator(Placed),
    /// A function, at its first instruction.
    Function(Placed),
}

impl Global {
    /// The variable, number or function.
    pub fn value(self) -> Placed {
        match self {
            Self::Variable(value) | Self::Enumerator(value) | Self::Function(value) => value,
        }
    }
}

/// A register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// How assignments name it; the whole register for a part of one.
    pub name: Arc<str>,
    /// From which byte of the whole register on.
    pub offset: u64,
    /// Lowest first.
    pub bytes: Vec<u8>,
    /// How it is taken.
    pub kind: RegisterKind,
}

/// How a register is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterKind {
    /// A number without sign.
    Whole,
    /// An address.
    Address,
    /// Several numbers side by side; `.f32`, `.u8` and their like tell which.
    Vector,
    /// A floating-point number of the x87.
    Float,
}

/// An expression that was understood.
#[derive(Debug, Clone)]
pub struct Expression {
    root: Node,
}

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Evaluated {
    /// A value, in the program or computed. Its type is known to the scope's [`DerivedTypes`].
    Value(Placed),
    /// Something to be written, and the value that is there then.
    Assignment {
        /// Where to.
        target: Target,
        /// What.
        bytes: Vec<u8>,
        /// The new value.
        value: Placed,
    },
}

/// Where an assignment goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The bytes from this address on.
    Memory(u64),
    /// The bytes of a register from `offset` on.
    Register {
        /// Such as `rax`.
        name: Arc<str>,
        /// From its lowest byte.
        offset: u64,
    },
}

impl Expression {
    /// Understands an expression. Costs no more than its length.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { root: parser::parse(text)? })
    }

    /// What the expression comes to.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Evaluated, ExpressionError> {
        let evaluator = evaluate::Evaluator::new(scope);
        match &self.root.kind {
            Kind::Assign(operator, target, value) => {
                evaluator.assign(*operator, target, value, self.root.column)
            }
            _ => evaluator.placed(&self.root).map(Evaluated::Value),
        }
    }

    /// Where the value is; of a C++ reference, where that is what it refers to.
    pub fn place(&self, scope: &dyn Scope) -> Result<Placed, ExpressionError> {
        let value = match self.evaluate(scope)? {
            Evaluated::Value(value) | Evaluated::Assignment { value, .. } => value,
        };
        let layout = evaluate::Evaluator::new(scope).layout;
        layout.referred(&value).ok_or(ExpressionError::NoPlace { column: self.root.column })
    }

    /// Whether the expression is true: a number other than zero, a pointer other than null.
    pub fn is_true(&self, scope: &dyn Scope) -> Result<bool, ExpressionError> {
        evaluate::Evaluator::new(scope).truth(&self.root)
    }

    /// What a condition compares, as it is written in `text`; nothing where it is not a comparison, nor several.
    pub fn compared(&self, text: &str) -> Option<Vec<String>> {
        let cut = |length: usize| {
            let left: String = text.chars().take(self.root.column - 1).collect();
            let right: String = text.chars().skip(self.root.column - 1 + length).collect();
            (left.trim().to_owned(), right.trim().to_owned())
        };
        match &self.root.kind {
            Kind::Binary(operator, ..) if operator.is_comparison() => {
                let (left, right) = cut(operator.symbol().len());
                Some(vec![left, right])
            }
            Kind::And(..) | Kind::Or(..) => {
                let (left, right) = cut("&&".len());
                let within = |side: String| {
                    let parsed = Self::parse(&side).ok()?;
                    Some(parsed.compared(&side).unwrap_or_else(|| vec![side]))
                };
                Some([within(left)?, within(right)?].concat())
            }
            _ => None,
        }
    }

    /// Whether evaluating it leads to an assignment.
    pub fn writes(&self) -> bool {
        matches!(self.root.kind, Kind::Assign(..))
    }
}
