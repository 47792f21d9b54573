//! What can be wrong with a query.

use thiserror::Error;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum XPathError {
    /// The query is not XPath 1.0.
    #[error("at character {at}: {problem}")]
    Syntax {
        /// The character, from 1.
        at: usize,
        /// What is wrong.
        problem: String,
    },
    /// A prefix that nobody bound.
    #[error("the prefix `{0}` is bound to no namespace")]
    UnknownPrefix(String),
    /// A function that XPath 1.0 does not have.
    #[error("there is no function `{0}` in XPath 1.0")]
    UnknownFunction(String),
    /// A function with the wrong number of arguments.
    #[error("`{name}()` takes {expected} arguments, not {found}")]
    WrongArguments {
        /// The function.
        name: &'static str,
        /// How many it takes.
        expected: &'static str,
        /// How many it got.
        found: usize,
    },
    /// A variable: nobody gives any.
    #[error("the variable `${0}` has no value; there are no variables here")]
    UnknownVariable(String),
    /// A value where only nodes will do.
    #[error("{0} is not a node-set")]
    NotNodes(&'static str),
    /// The query took longer than it may.
    #[error("the query was given up after {0} ms")]
    OutOfTime(u128),
    /// The query wanted more memory than it may have.
    #[error("the query needs more than {0} MiB")]
    OutOfMemory(usize),
}

impl XPathError {
    pub(super) fn syntax(at: usize, problem: impl Into<String>) -> Self {
        Self::Syntax { at, problem: problem.into() }
    }
}
