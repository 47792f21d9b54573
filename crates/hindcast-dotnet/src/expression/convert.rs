//! Conversions between the built-in types.

use super::{
    constant::{Constant, Primitive},
    decimal::Decimal,
    operation::OperationError,
};

/// How far a conversion goes; of two that are possible, the smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub(crate) u8);

impl Rank {
    pub(crate) const SAME: Self = Self(0);
}

/// In the order in which C# prefers them where it prefers one: signed before unsigned, narrow before wide.
const PREFERENCE: [Primitive; 13] = [
    Primitive::SByte,
    Primitive::Byte,
    Primitive::Short,
    Primitive::UShort,
    Primitive::Int,
    Primitive::UInt,
    Primitive::NInt,
    Primitive::NUInt,
    Primitive::Long,
    Primitive::ULong,
    Primitive::Float,
    Primitive::Double,
    Primitive::Decimal,
];

/// Whether every value of one type is also one of the other without a cast, and how good a choice that is
/// among the overloads of a method. C# has no preference between `decimal` and the two binary types.
pub(crate) fn implicitly_converts(from: Primitive, to: Primitive) -> Option<Rank> {
    use Primitive::{
        Byte, Char, Decimal, Double, Float, Int, Long, NInt, NUInt, SByte, Short, UInt, ULong, UShort,
    };
    if from == to {
        return Some(Rank::SAME);
    }
    let targets: &[Primitive] = match from {
        SByte => &[Short, Int, Long, NInt, Float, Double, Decimal],
        Byte => &[Short, UShort, Int, UInt, Long, ULong, NInt, NUInt, Float, Double, Decimal],
        Short => &[Int, Long, NInt, Float, Double, Decimal],
        UShort => &[Int, UInt, Long, ULong, NInt, NUInt, Float, Double, Decimal],
        Int => &[Long, NInt, Float, Double, Decimal],
        UInt => &[Long, ULong, NUInt, Float, Double, Decimal],
        Long => &[Float, Double, Decimal],
        ULong => &[Float, Double, Decimal],
        NInt => &[Long, Float, Double, Decimal],
        NUInt => &[ULong, Float, Double, Decimal],
        Char => &[UShort, Int, UInt, Long, ULong, NInt, NUInt, Float, Double, Decimal],
        Float => &[Double],
        _ => &[],
    };
    let position = PREFERENCE.iter().position(|primitive| *primitive == to)?;
    targets.contains(&to).then_some(Rank(position as u8 + 1))
}

impl Constant {
    /// Whether a constant expression with this value may stand where the type is wanted without a cast:
    /// also an `int` that fits a narrower type or one without sign.
    pub(crate) fn converts_as_constant(&self, to: Primitive) -> bool {
        let Some(from) = self.primitive() else { return to == Primitive::String };
        if implicitly_converts(from, to).is_some() {
            return true;
        }
        use Primitive::{Byte, Int, Long, NUInt, SByte, Short, UInt, ULong, UShort};
        let may_narrow = match from {
            Int => matches!(to, SByte | Byte | Short | UShort | UInt | ULong | NUInt),
            Long => to == ULong,
            _ => false,
        };
        let fits = self
            .whole()
            .zip(to.range())
            .is_some_and(|(value, (least, most))| (least..=most).contains(&value));
        may_narrow && fits
    }

    /// Whether it is a real that no whole number of a type is near: only some runtimes say what a cast makes of it.
    pub(crate) fn is_beyond(&self, to: Primitive) -> bool {
        let value = match self {
            Self::Float(value) => f64::from(*value),
            Self::Double(value) => *value,
            _ => return false,
        };
        // Narrower types keep the low bits of an `int`.
        let holder = match to {
            Primitive::SByte | Primitive::Byte | Primitive::Short | Primitive::UShort | Primitive::Char => {
                Primitive::Int
            }
            wide => wide,
        };
        holder.range().is_some_and(|(least, most)| {
            // The next power of two is exact where the greatest value is not.
            !(value.trunc() >= least as f64 && value.trunc() < (most + 1) as f64)
        })
    }

    /// The value as `(T)value` gives it: whole numbers keep their low bits, and reals that are too large for
    /// one become the nearest, as since .NET 9.
    pub(crate) fn cast(&self, to: Primitive) -> Result<Self, OperationError> {
        let refused = OperationError::NoConversion { from: self.type_name(), to: to.keyword() };
        if self.primitive() == Some(to) {
            return Ok(self.clone());
        }
        match self {
            Self::Null if to == Primitive::String => Ok(Self::Null),
            Self::Null | Self::Bool(_) | Self::String(_) => Err(refused),
            _ if !to.is_number() => Err(refused),
            Self::Float(value) if to == Primitive::Decimal => decimal(Decimal::from_f32(*value), to),
            Self::Float(value) => real(f64::from(*value), to),
            Self::Double(value) => real(*value, to),
            Self::Decimal(value) => from_decimal(*value, to),
            _ => Ok(from_whole(self.whole().unwrap_or_default(), to)),
        }
    }
}

fn decimal(value: Option<Decimal>, to: Primitive) -> Result<Constant, OperationError> {
    value.map(Constant::Decimal).ok_or(OperationError::Overflow { type_name: to.keyword() })
}

fn from_whole(value: i128, to: Primitive) -> Constant {
    match to {
        Primitive::Float => Constant::Float(value as f32),
        Primitive::Double => Constant::Double(value as f64),
        Primitive::Decimal => Constant::Decimal(Decimal::from(value)),
        _ => Constant::wrapped(value, to),
    }
}

fn real(value: f64, to: Primitive) -> Result<Constant, OperationError> {
    Ok(match to {
        Primitive::Float => Constant::Float(value as f32),
        Primitive::Double => Constant::Double(value),
        Primitive::Decimal => return decimal(Decimal::from_f64(value), to),
        Primitive::UInt => Constant::UInt(value as u32),
        Primitive::Long | Primitive::NInt => Constant::wrapped((value as i64).into(), to),
        Primitive::ULong | Primitive::NUInt => Constant::wrapped((value as u64).into(), to),
        // Narrower types keep the low bits of an `int`.
        _ => Constant::wrapped((value as i32).into(), to),
    })
}

/// Decimals are checked also where other arithmetic is not.
fn from_decimal(value: Decimal, to: Primitive) -> Result<Constant, OperationError> {
    match to {
        Primitive::Float => return Ok(Constant::Float(value.to_f64() as f32)),
        Primitive::Double => return Ok(Constant::Double(value.to_f64())),
        _ => {}
    }
    let whole = value.truncated();
    let fits = to.range().is_some_and(|(least, most)| (least..=most).contains(&whole));
    if fits {
        Ok(Constant::wrapped(whole, to))
    } else {
        Err(OperationError::Overflow { type_name: to.keyword() })
    }
}
