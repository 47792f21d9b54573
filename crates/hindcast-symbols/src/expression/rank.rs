//! What values are ordered and told apart by.

use super::{
    Expression, ExpressionError, Scope,
    evaluate::{Evaluator, Operand},
    scalar::Scalar,
    syntax::{Kind, Unary},
};

/// What values are ordered and told apart by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A number, truth value or address.
    Whole(i128),
    /// A number above `i128::MAX`.
    Beyond(u128),
    /// A number with a fraction, as bits whose order is that of the numbers.
    Fraction(u64),
    /// A text.
    Text(Vec<u8>),
}

impl Rank {
    fn of_fraction(value: f64) -> Self {
        let bits = value.to_bits();
        // Negative numbers are ordered the other way round, and below the others.
        Self::Fraction(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }
}

impl Expression {
    /// What a value is ordered and told apart by: its number or its text.
    pub fn rank(&self, scope: &dyn Scope) -> Result<Rank, ExpressionError> {
        let evaluator = Evaluator::new(scope);
        let scalar = match evaluator.operand(&self.root)? {
            Operand::Text(bytes) => return Ok(Rank::Text(bytes)),
            Operand::Scalar(scalar) => scalar,
            Operand::Placed(placed) => match evaluator.short_text(&placed, self.root.column)? {
                Some(text) => return Ok(Rank::Text(text)),
                None => evaluator.load(&placed, self.root.column)?,
            },
        };
        Ok(match scalar {
            Scalar::Whole(bits, whole) if !whole.signed && bits > i128::MAX as u128 => Rank::Beyond(bits),
            _ if scalar.is_float() => Rank::of_fraction(scalar.as_float()),
            _ => Rank::Whole(scalar.as_whole()),
        })
    }
}

/// What elements are sorted by.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// What each element is ranked by.
    pub key: Expression,
    /// Whether the largest comes first.
    pub is_descending: bool,
}

impl SortKey {
    /// Understands a key. A `-` before it asks for the largest first: it negates nothing, as unsigned numbers and texts have
    /// no negative.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let whole = Expression::parse(text)?;
        if !text.trim_start().starts_with('-') {
            return Ok(Self { key: whole, is_descending: false });
        }
        match whole.root.kind {
            Kind::Unary(Unary::Negate, key) => {
                Ok(Self { key: Expression { root: *key }, is_descending: true })
            }
            // `-a + b` could mean both.
            _ => Err(ExpressionError::Syntax {
                column: 1,
                expected: "`-(…)` for the largest first, or a key that does not begin with `-`",
                found: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_rank_as_they_are_ordered() {
        let numbers = [f64::NEG_INFINITY, -2.5, -0.1, 0.0, 1e-300, 3.0, f64::INFINITY];
        assert!(numbers.map(Rank::of_fraction).is_sorted());
    }
}
