//! Why a text is not an expression.

use hindcast_core::debug::{Reason, Remedy};

/// Why a text is not an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at column {column}")]
pub(crate) struct ParseError {
    /// The byte of the text.
    pub(crate) at: usize,
    /// Counts characters from 1.
    pub(crate) column: usize,
    /// What is wrong there.
    pub(crate) what: Mistake,
}

/// What is wrong with the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    #[error("the expression has {length} bytes where at most {most} are read")]
    TooLong { length: usize, most: usize },
    #[error("the expression is nested deeper than {most} levels")]
    TooDeep { most: u32 },
    #[error("expected {expected}, found {}", quoted(.found))]
    Expected { expected: Expected, found: Option<String> },
    #[error("`{character}` has no meaning in an expression")]
    BadCharacter { character: char },
    #[error("`{text}` is not a number")]
    BadNumber { text: String },
    #[error("the number `{text}` is too large for every type that it may have")]
    NumberTooLarge { text: String },
    #[error("`{text}` is not an escape sequence")]
    BadEscape { text: String },
    #[error("`{text}` is not one character")]
    NotOneCharacter { text: String },
    #[error("the quote is not closed")]
    OpenQuote,
    #[error("the comment is not closed")]
    OpenComment,
    #[error("the brace is not closed")]
    OpenBrace,
    #[error("the brace `}}` closes nothing")]
    LoneBrace,
    #[error("`{text}` is not how many characters a part of the string takes")]
    BadAlignment { text: String },
    #[error("`{name}` is no format specifier")]
    UnknownFormat { name: String },
    #[error("`{text}` cannot be assigned to")]
    NotAssignable { text: String },
    #[error("`{text}` is {}", .what.description())]
    NotSupported { text: String, what: Unsupported },
}

/// What could stand where something else is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Expected {
    #[error("a value")]
    Value,
    #[error("a type")]
    Type,
    #[error("a name")]
    Name,
    #[error("an operator or the end")]
    Operator,
    #[error("`{0}`")]
    Symbol(&'static str),
    #[error("`{0}` or `{1}`")]
    Either(&'static str, &'static str),
    #[error("a format specifier")]
    Format,
}

/// What C# has and an expression of the debugger has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    Lambda,
    Statement,
    Declaration,
    Increment,
    Pattern,
    Switch,
    Query,
    Await,
    Array,
    Initialiser,
    AnonymousType,
    TargetTyped,
    Pointer,
    Range,
    Reference,
    RawString,
    Checked,
    Alias,
}

impl Unsupported {
    /// Reads on from "`…` is".
    fn description(self) -> &'static str {
        match self {
            Self::Lambda => "part of a lambda or an anonymous method, which is not supported",
            Self::Statement => "a statement, which is not supported",
            Self::Declaration => "a declaration, which is not supported",
            Self::Increment => "an increment or decrement, which is not supported",
            Self::Pattern => "part of a pattern that is not supported",
            Self::Switch => "a `switch` expression, which is not supported",
            Self::Query => "a query, which is not supported",
            Self::Await => "an `await`, which is not supported",
            Self::Array => "the creation of an array, which is not supported",
            Self::Initialiser => "an initialiser, which is not supported",
            Self::AnonymousType => "an object of an anonymous type, which is not supported",
            Self::TargetTyped => "a `new` without a type, which is not supported",
            Self::Pointer => "an operation on pointers, which is not supported",
            Self::Range => "a range, which is not supported",
            Self::Reference => "an argument by reference, which is not supported",
            Self::RawString => "a raw string, which is not supported",
            Self::Checked => "arithmetic with overflow checks, which is not supported",
            Self::Alias => "an alias of an assembly, which is not supported",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Lambda => "evaluate the elements one by one",
            Self::Increment => "write `x += 1` or `x -= 1`",
            Self::Pattern => "write `x is T`, `x is not T` or `x is null`, and join them with `&&` and `||`",
            Self::Switch => "write `a ? b : c`",
            Self::Await => "look at the task's `Result`",
            Self::TargetTyped => "write `new T(arguments)`",
            Self::RawString => "write `@\"…\"`",
            Self::Checked => "arithmetic wraps around",
            Self::Alias => "only `global::` is known",
            Self::Statement | Self::Declaration => "evaluate one expression at a time",
            Self::Initialiser | Self::Array | Self::AnonymousType => "only `new T(arguments)` makes objects",
            Self::Query | Self::Pointer | Self::Range | Self::Reference => {
                "write it with members, calls and operators"
            }
        }
    }
}

fn quoted(found: &Option<String>) -> String {
    found.as_ref().map_or_else(|| "the end".to_owned(), |found| format!("`{found}`"))
}

impl ParseError {
    pub(super) fn new(text: &str, at: usize, what: Mistake) -> Self {
        let column = text.get(..at).map_or(at, |before| before.chars().count()) + 1;
        Self { at, column, what }
    }

    /// What to write instead, where that is known.
    pub(crate) fn remedy(&self) -> Option<Remedy> {
        let advice = match &self.what {
            Mistake::OpenBrace => "write `{{` for a brace itself",
            Mistake::LoneBrace => "write `}}` for a brace itself",
            Mistake::UnknownFormat { .. } => "there are `d`, `x`, `h`, `b`, `o`, `nq` and `raw`",
            Mistake::NotSupported { what, .. } => what.hint(),
            _ => return None,
        };
        Some(Remedy::advice(advice))
    }
}

impl From<ParseError> for Reason {
    fn from(error: ParseError) -> Self {
        Self { what: error.to_string(), remedies: error.remedy().into_iter().collect() }
    }
}
