//! Arithmetic as Python does it: whole numbers of any size, and floating-point ones.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{FromPrimitive as _, Signed as _, ToPrimitive as _, Zero as _};

use super::{Computed, ExpressionError, Value};

/// Whole numbers of so many bits are exact as floating-point ones.
const EXACT: u64 = 53;
/// Numbers with more bits are not computed.
const MOST_BITS: u64 = 100_000;

pub(super) enum Number {
    Int(BigInt),
    Float(f64),
}

impl Number {
    /// As a floating-point number. Larger ones are rounded, which is better refused than done differently.
    pub(super) fn float(&self) -> Computed<f64> {
        match self {
            Self::Int(value) if value.bits() > EXACT => Err(too_large()),
            Self::Int(value) => Ok(value.to_f64().unwrap_or(f64::NAN)),
            Self::Float(value) => Ok(*value),
        }
    }

    /// Which of two is greater, exactly; none where one is no number.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(right),
            (Self::Float(_), Self::Int(_)) => other.order(self).map(Ordering::reverse),
            (Self::Int(_), Self::Float(right)) if right.is_nan() => None,
            (Self::Int(_), Self::Float(right)) if right.is_infinite() => {
                Some(if *right > 0.0 { Ordering::Less } else { Ordering::Greater })
            }
            (Self::Int(left), Self::Float(right)) => {
                let whole = BigInt::from_f64(right.trunc())?;
                Some(
                    left.cmp(&whole).then_with(|| 0.0.partial_cmp(&right.fract()).unwrap_or(Ordering::Equal)),
                )
            }
        }
    }
}

fn too_large() -> ExpressionError {
    ExpressionError::wrong("the numbers are too large to be computed with here")
}

pub(super) fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(Number::Int(u8::from(*value).into())),
        Value::Int(value) => Some(Number::Int(value.clone())),
        Value::Float(value) => Some(Number::Float(*value)),
        _ => None,
    }
}

pub(super) fn integers(operator: &str, left: &BigInt, right: &BigInt) -> Computed<Option<Value>> {
    if left.bits().max(right.bits()) > MOST_BITS {
        return Err(too_large());
    }
    let zero = || ExpressionError::wrong("ZeroDivisionError: division by zero");
    // Python rounds down, also below zero.
    let floor = || {
        let (quotient, rest) = (left / right, left % right);
        if !rest.is_zero() && (rest.is_negative() != right.is_negative()) {
            (quotient - 1, rest + right)
        } else {
            (quotient, rest)
        }
    };
    Ok(Some(Value::Int(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => {
            if right.is_zero() {
                return Err(zero());
            }
            if left.bits().max(right.bits()) > EXACT {
                return Err(too_large());
            }
            let quotient = left.to_f64().zip(right.to_f64()).map(|(left, right)| left / right);
            return Ok(quotient.map(Value::Float));
        }
        "//" | "%" if right.is_zero() => return Err(zero()),
        "//" => floor().0,
        "%" => floor().1,
        "**" if right.is_negative() => {
            if left.is_zero() {
                return Err(ExpressionError::wrong(
                    "ZeroDivisionError: 0 cannot be raised to a negative power",
                ));
            }
            let (base, power) = (Number::Int(left.clone()).float()?, Number::Int(right.clone()).float()?);
            return Ok(Some(Value::Float(base.powf(power))));
        }
        "**" => match right.to_u32() {
            Some(power) if left.bits().saturating_mul(power.into()) <= MOST_BITS => left.pow(power),
            _ => return Err(too_large()),
        },
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        "<<" => left << right.to_u64().filter(|bits| *bits <= MOST_BITS).ok_or_else(too_large)?,
        ">>" => left >> right.to_u64().ok_or_else(too_large)?,
        _ => return Ok(None),
    })))
}

pub(super) fn floats(operator: &str, left: f64, right: f64) -> Computed<Option<f64>> {
    let zero = || Err(ExpressionError::wrong("ZeroDivisionError: float division by zero"));
    Ok(Some(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" | "//" | "%" if right == 0.0 => return zero(),
        "/" => left / right,
        "//" => divided(left, right).0,
        "%" => divided(left, right).1,
        "**" if left == 0.0 && right < 0.0 => {
            return Err(ExpressionError::wrong(
                "ZeroDivisionError: 0.0 cannot be raised to a negative power",
            ));
        }
        "**" => {
            let power = left.powf(right);
            let is_finite = left.is_finite() && right.is_finite();
            // Of a negative number it is complex, and what is too large is an error.
            if is_finite && !power.is_finite() {
                return Err(too_large());
            }
            power
        }
        _ => return Ok(None),
    }))
}

/// The quotient, rounded down, and the rest, which has the sign of the divisor.
fn divided(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(right);
    } else if (right < 0.0) != (rest < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(left / right), rest);
    }
    let down = quotient.floor();
    (if quotient - down > 0.5 { down + 1.0 } else { down }, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_numbers_are_divided_as_python_does() {
        for (left, right, quotient, rest) in [
            (1.0, 0.1, 9.0, 0.09999999999999995),
            (-1.0, f64::INFINITY, -1.0, f64::INFINITY),
            (-4.0, 2.0, -2.0, 0.0),
            (7.5, -2.0, -4.0, -0.5),
            (-7.5, 2.0, -4.0, 0.5),
        ] {
            assert_eq!(divided(left, right), (quotient, rest), "{left} by {right}");
        }
        assert!(divided(-4.0, 2.0).1.is_sign_positive());
    }

    #[test]
    fn whole_and_floating_point_numbers_are_compared_exactly() {
        let large = Number::Int(BigInt::from(9_007_199_254_740_993_i64));
        assert_eq!(large.order(&Number::Float(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Number::Float(2.5).order(&Number::Int(2.into())), Some(Ordering::Greater));
        assert_eq!(Number::Int((-2).into()).order(&Number::Float(-2.5)), Some(Ordering::Greater));
        assert_eq!(Number::Int(2.into()).order(&Number::Float(f64::NAN)), None);
        assert_eq!(Number::Int(2.into()).order(&Number::Float(f64::INFINITY)), Some(Ordering::Less));
        assert_eq!(Number::Int(2.into()).order(&Number::Float(2.0)), Some(Ordering::Equal));
    }
}
