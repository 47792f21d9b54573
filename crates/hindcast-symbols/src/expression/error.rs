//! Why an expression has no value.

use std::borrow::Cow;

use hindcast_core::debug::{Reason, Remedy};

use crate::names::cut;

/// Why an expression has no value. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExpressionError {
    #[error("the expression has {length} bytes")]
    TooLong { length: usize, most: usize },
    #[error("the expression is nested too deep at column {column}")]
    TooDeep { column: usize, most: u32 },
    #[error("expected {expected} at column {column}, found `{}`", cut(found))]
    Syntax { column: usize, expected: &'static str, found: String },
    #[error("`{}` at column {column} is not a number", cut(text))]
    BadNumber { column: usize, text: String },
    #[error("the quote at column {column} is not closed")]
    OpenQuote { column: usize },
    #[error("the brace at column {column} is not closed")]
    OpenBrace { column: usize },
    #[error("no variable `{}` here, at column {column}", cut(name))]
    UnknownName { column: usize, name: String, nearest: Option<String> },
    #[error("`{of}` has no field `{}`, at column {column}", cut(name))]
    UnknownField { column: usize, name: String, of: String, nearest: Option<String> },
    #[error("`{name}` of `{of}` is ambiguous at column {column}: {classes} have one each")]
    Ambiguous { column: usize, name: String, of: String, classes: String, example: String },
    #[error("no type `{}`, at column {column}", cut(name))]
    UnknownType { column: usize, name: String },
    #[error("no register `{}`, at column {column}", cut(name))]
    UnknownRegister { column: usize, name: String },
    #[error("`{type_name}` has no method `{}` that the debugger knows, at column {column}", cut(name))]
    UnknownMethod { column: usize, name: String, type_name: String },
    #[error("`{}` is called at column {column}", cut(name))]
    Call { column: usize, name: String },
    #[error("`{type_name}` at column {column} is not {wanted}")]
    WrongType { column: usize, type_name: String, wanted: &'static str },
    #[error("`{of}` has several base classes `{base}`, at column {column}")]
    SeveralBases { column: usize, base: String, of: String },
    #[error("where the `{derived}` around this `{base}` is cannot be told, at column {column}")]
    UnknownDerived { column: usize, base: String, derived: String },
    #[error("index {index} at column {column} is beyond the {count} elements")]
    BeyondEnd { column: usize, index: i128, count: u64 },
    #[error("no key {} in the map, at column {column}", cut(key))]
    NoSuchKey { column: usize, key: String },
    #[error("division by zero at column {column}")]
    DivisionByZero { column: usize },
    #[error("`{operation}` at column {column} overflows `{type_name}`")]
    Overflow { column: usize, operation: String, type_name: String },
    #[error("{value} does not fit `{type_name}`, at column {column}")]
    DoesNotFit { column: usize, value: String, type_name: String },
    #[error("cannot read memory at {address:#x}, at column {column}")]
    Unreadable { column: usize, address: u64 },
    #[error("the compiler does not keep what is at column {column} here")]
    OptimisedOut { column: usize },
    #[error("what is at column {column} is not yet initialised here")]
    NotYetInitialised { column: usize },
    #[error("there are many values at column {column}")]
    ManyValues { column: usize },
    #[error("there are all pairs of many values at column {column}")]
    ManyPairs { column: usize },
    #[error("there are too many elements at column {column}: {count} were gone through")]
    TooManyElements { column: usize, count: u64 },
    #[error("there are no elements at column {column}")]
    NoElements { column: usize },
    #[error("the elements at column {column} cannot be gone through: {why}")]
    BrokenElements { column: usize, why: String },
    #[error("what is linked at column {column} leads back to {address:#x}, after {count} elements")]
    LinkedInCircle { column: usize, address: u64, count: u64 },
    #[error("what is at column {column} has no place in memory or a register")]
    NoPlace { column: usize },
}

impl ExpressionError {
    /// Whether the program's data is to blame and not the expression, which may have a value elsewhere.
    pub fn is_by_data(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::BeyondEnd { .. }
                | Self::NoSuchKey { .. }
                | Self::DivisionByZero { .. }
                | Self::Overflow { .. }
                | Self::NoElements { .. }
                | Self::BrokenElements { .. }
                | Self::LinkedInCircle { .. }
        )
    }

    /// What to write instead, where that is known.
    pub fn remedy(&self) -> Option<Remedy> {
        let advice: Cow<'static, str> = match self {
            Self::TooLong { most, .. } => format!("at most {most} are read").into(),
            Self::TooDeep { most, .. } => format!("at most {most} levels").into(),
            Self::OpenBrace { .. } => "write `{{` for a brace itself".into(),
            Self::UnknownName { nearest: Some(name), .. }
            | Self::UnknownField { nearest: Some(name), .. } => format!("did you mean `{name}`?").into(),
            Self::UnknownName { nearest: None, .. } => return Some(Remedy::ListVariables),
            Self::Ambiguous { example, .. } => format!("choose with `{example}`").into(),
            Self::UnknownMethod { .. } => "the program's own functions are not called".into(),
            Self::Call { .. } => "the program's functions are not called".into(),
            Self::SeveralBases { .. } => "cast to a class between them first".into(),
            Self::UnknownDerived { .. } => {
                "a virtual base is at another place in every class: begin with a pointer to the derived class"
                    .into()
            }
            Self::ManyPairs { .. } => {
                "one source of elements in an expression, such as `a[*]`; the same one may be there twice"
                    .into()
            }
            Self::TooManyElements { .. } => "go through fewer: `a[0..100000][*]`".into(),
            Self::ManyValues { .. } => {
                "say what they come to: `count(…)`, `sum(…)`, `min(…)`, `max(…)`, `any(…)` or `all(…)`".into()
            }
            Self::Overflow { .. } => "cast to a wider type".into(),
            _ => return None,
        };
        Some(Remedy::Advice(advice))
    }
}

impl From<ExpressionError> for Reason {
    fn from(error: ExpressionError) -> Self {
        Self { what: error.to_string(), remedies: error.remedy().into_iter().collect() }
    }
}

/// No longer names are compared with all that are known: nobody misspells these, and it would take seconds.
const LONGEST_MISSPELLED: usize = 200;

/// The known name that is most like `name`, if any is.
pub(super) fn most_alike<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    if name.len() > LONGEST_MISSPELLED {
        return None;
    }
    let scored = known.filter(|candidate| !candidate.is_empty()).map(|candidate| {
        let lower = strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
        (lower, candidate)
    });
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > 0.78).then(|| best.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_repeat_the_beginning_of_long_names_only() {
        let error = ExpressionError::UnknownName { column: 1, name: "x".repeat(8000), nearest: None };
        assert_eq!(error.to_string(), format!("no variable `{}…` here, at column 1", "x".repeat(100)));
        assert_eq!(most_alike(&"x".repeat(8000), [&*"x".repeat(7999)].into_iter()), None);
    }

    #[test]
    fn only_an_unknown_name_is_answered_with_the_names_there_are() {
        let unknown = |nearest| ExpressionError::UnknownName { column: 1, name: "x".into(), nearest };
        assert_eq!(unknown(None).remedy(), Some(Remedy::ListVariables));
        assert_eq!(unknown(Some("y".into())).remedy(), Some(Remedy::advice("did you mean `y`?")));
        assert_eq!(ExpressionError::DivisionByZero { column: 1 }.remedy(), None);
    }
}
