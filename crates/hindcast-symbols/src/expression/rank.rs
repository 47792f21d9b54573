//! What values are ordered and told apart by.

use super::{
    Expression, ExpressionError, Scope,
    evaluate::{Evaluator, Operand},
};

/// What values are ordered and told apart by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A number, truth value or address.
    Whole(i128),
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
        Ok(if scalar.is_float() {
            Rank::of_fraction(scalar.as_float())
        } else {
            Rank::Whole(scalar.as_whole())
        })
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
