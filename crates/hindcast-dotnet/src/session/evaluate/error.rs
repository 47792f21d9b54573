//! Why an expression has no value.

use hindcast_core::debug::{DebugError, Reason, Remedy};

use crate::{cor::CorError, expression::OperationError};

/// Why an expression has no value.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum EvaluationError {
    #[error("there is no `{name}` here")]
    UnknownName { name: String },
    #[error("there is no type `{name}` in what is loaded")]
    UnknownType { name: String },
    #[error("`{of}` has no member `{name}`")]
    NoMember { of: String, name: String },
    #[error("`{name}` is a property that computes its value")]
    NeedsCode { name: String },
    #[error("`{name}` is a property whose setter does more than store the value")]
    NeedsSetter { name: String },
    #[error("`{name}` is a method")]
    NeedsCall { name: String },
    #[error("`{of}` defines its own `{operator}`, which is code of the program")]
    NeedsOperator { operator: &'static str, of: String },
    #[error("the object overrides what `base` means of `{of}`, and the runtime would run the override")]
    OverriddenBase { of: String },
    #[error("there is no `this` in a static method")]
    NoThis,
    #[error("no exception is being thrown here")]
    NoException,
    #[error("null has no member `{name}`")]
    OfNull { name: String },
    #[error("null has no items")]
    IndexOfNull,
    #[error("`{of}` has no items by number or key")]
    NoIndexer { of: String },
    #[error("{index} is outside of the {length} items")]
    OutOfRange { index: i128, length: u64 },
    #[error("{index} is outside of [{first}] to [{last}]")]
    OutOfBounds { index: i128, first: i128, last: i128 },
    #[error("too many items come before [{index}] to find it without running code")]
    TooFar { index: u64 },
    #[error("the key cannot be looked for among {count} entries without running code")]
    TooManyKeys { count: u64 },
    #[error("there is no item with the key {key}")]
    NoKey { key: String },
    #[error("a `{of}` cannot be computed with")]
    NoNumber { of: String },
    #[error("a text of {length} characters is too long to compute with; the longest has {most}")]
    TooLong { length: usize, most: usize },
    #[error("`{name}` is a type, not a value")]
    IsAType { name: String },
    #[error("a condition must be true or false, not a `{found}`")]
    NotABool { found: String },
    #[error("`{name}` cannot be read: {why}")]
    Unreadable { name: String, why: String },
    #[error("a `{from}` is no `{to}`")]
    BadCast { from: String, to: String },
    #[error("{what} is not supported")]
    NotSupported { what: &'static str },
    #[error("this evaluation may not assign")]
    MayNotWrite,
    #[error("`{what}` cannot be assigned to")]
    NotAPlace { what: String },
    #[error("`{name}` cannot be assigned to: the property has no setter")]
    ReadOnly { name: String },
    #[error("a `{from}` cannot be assigned to a `{to}`")]
    NotAssignable { from: String, to: String },
    #[error("`{name}` has no overload that takes ({arguments})")]
    NoOverload { name: String, arguments: String },
    #[error("`{name}` could mean each of {candidates}")]
    AmbiguousCall { name: String, candidates: String },
    #[error("{value} is no `{to}`, and what the program would make of it depends on the processor")]
    Beyond { value: String, to: &'static str },
    #[error(
        "the value depends on the type of the branch that is not taken, which is not known without running it"
    )]
    UnknownBranch,
    #[error("`null` has no type, and C# has no `??` for it")]
    NullWithoutType,
    #[error("the type of a null in it is not known without running code: it could be a text")]
    UntypedNull,
    #[error("the method returns nothing, which is no value")]
    NoValue,
    #[error("a `{from}` in an `object` or an interface is no `{to}` before it is cast to `{from}`")]
    BadUnboxing { from: String, to: String },
    #[error("there is nothing in it that could be a `{to}`")]
    NullIsNo { to: String },
    #[error("`{what}` is a copy that a call returned; a change of it would be lost")]
    OfACopy { what: String },
    #[error("a `{from}` needs a new object to be assigned to a `{to}`")]
    NeedsBox { from: String, to: String },
    #[error("`{of}` has no indexer that sets items")]
    NoSetter { of: String },
    #[error("the code did not return in time; it was abandoned")]
    TimedOut,
    #[error("code that an evaluation began waits in native code, where it cannot be ended")]
    Stuck,
    #[error(
        "code that an evaluation began has not returned in time, and the runtime ends no code while it handles an exception"
    )]
    StuckInException,
    #[error("the code threw {exception}")]
    Threw { exception: String },
    #[error("code cannot be run here: {why}")]
    CannotRun { why: String },
    #[error(transparent)]
    Operation(#[from] OperationError),
    #[error("{}", .0.code)]
    Cor(#[from] CorError),
    #[error(transparent)]
    Session(DebugError),
}

impl EvaluationError {
    /// For the user.
    pub(super) fn told(self) -> DebugError {
        let remedy = match &self {
            Self::NeedsCode { .. }
            | Self::NeedsCall { .. }
            | Self::NeedsOperator { .. }
            | Self::NeedsBox { .. }
            | Self::TooManyKeys { .. }
            | Self::NeedsSetter { .. } => Some(Remedy::advice("allow running it with `allow_calls: true`")),
            Self::TooFar { index } => Some(Remedy::advice(format!(
                "evaluate `.ElementAt({index})` of the collection with `allow_calls: true`"
            ))),
            Self::AmbiguousCall { .. } => Some(Remedy::advice("cast an argument to the type that is meant")),
            Self::UnknownBranch => Some(Remedy::advice(
                "cast a branch to the type that both have in common, as in `a ? 1 : (double)b`",
            )),
            Self::NullWithoutType | Self::UntypedNull => {
                Some(Remedy::advice("cast it to the type that is meant, as in `(string)null`"))
            }
            Self::BadUnboxing { from, to } => {
                Some(Remedy::advice(format!("write `({to})({from})` before it")))
            }
            Self::OfACopy { .. } => Some(Remedy::advice("assign a whole new value to the item or property")),
            Self::UnknownName { .. } => Some(Remedy::ListVariables),
            Self::MayNotWrite => Some(Remedy::advice("assignments need the scope `debug:write`")),
            Self::TimedOut => Some(Remedy::advice(
                "give it more time with `timeout_ms`; locks and other threads stand still meanwhile",
            )),
            // As where a thread came to a breakpoint while code ran on another one.
            Self::CannotRun { .. } => Some(Remedy::advice("step over a line and try again")),
            Self::Stuck => Some(Remedy::advice(
                "values can be looked at; the thread runs code and steps again when the program has gone on and the call is over",
            )),
            Self::StuckInException => Some(Remedy::advice(
                "values can be looked at; where the call never returns, its thread never goes on, and only starting the program again helps",
            )),
            Self::Operation(error) => error.remedy(),
            Self::Session(error) => return error.clone(),
            _ => None,
        };
        DebugError::Expression(Reason { what: self.to_string(), remedies: remedy.into_iter().collect() })
    }
}
