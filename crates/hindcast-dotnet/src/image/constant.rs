//! Constants that compilers wrote down: literals, defaults of parameters, constants of methods.

use std::fmt;

use super::cursor::Cursor;
use super::metadata::utf16;

/// The value of a constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// One unit of UTF-16.
    Char(u16),
    /// A signed number of 8 to 64 bits.
    Int(i64),
    /// An unsigned number of 8 to 64 bits.
    UInt(u64),
    /// A number of 32 bits.
    Float(f32),
    /// A number of 64 bits.
    Double(f64),
    /// A string.
    String(String),
    /// `null`, or the default of a type that has no literals.
    Null,
    /// A decimal number: the digits, and how many of them stand after the point.
    Decimal {
        /// Whether it is below zero.
        negative: bool,
        /// How many digits stand after the point.
        scale: u8,
        /// All digits as one number of 96 bits.
        digits: u128,
    },
    /// Ticks of 100 ns since the year 1, which only Visual Basic has constants of.
    DateTime(i64),
}

impl Constant {
    /// Reads the value of an element type. All bytes must belong to it.
    pub(crate) fn parse(element: u8, blob: &[u8]) -> Option<Self> {
        match element {
            0x0e => Some(Self::String(utf16(blob))),
            0x12 | 0x1c => Some(Self::Null),
            _ => {
                let mut cursor = Cursor::new(blob);
                let value = Self::read_number(element, &mut cursor)?;
                cursor.is_at_end().then_some(value)
            }
        }
    }

    /// Reads a number, a character or a truth value.
    pub(crate) fn read_number(element: u8, cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(match element {
            0x02 => Self::Bool(cursor.u8().ok()? != 0),
            0x03 => Self::Char(cursor.u16().ok()?),
            0x04 => Self::Int(i64::from(cursor.u8().ok()? as i8)),
            0x05 => Self::UInt(u64::from(cursor.u8().ok()?)),
            0x06 => Self::Int(i64::from(cursor.u16().ok()? as i16)),
            0x07 => Self::UInt(u64::from(cursor.u16().ok()?)),
            0x08 => Self::Int(i64::from(cursor.u32().ok()? as i32)),
            0x09 => Self::UInt(u64::from(cursor.u32().ok()?)),
            0x0a => Self::Int(cursor.u64().ok()? as i64),
            0x0b => Self::UInt(cursor.u64().ok()?),
            0x0c => Self::Float(f32::from_bits(cursor.u32().ok()?)),
            0x0d => Self::Double(f64::from_bits(cursor.u64().ok()?)),
            _ => return None,
        })
    }

    /// The 13 bytes in which PDBs keep a decimal: sign and scale, then three times 32 bits.
    pub(crate) fn read_decimal(cursor: &mut Cursor<'_>) -> Option<Self> {
        let head = cursor.u8().ok()?;
        let mut digits = 0;
        for place in 0..3 {
            digits |= u128::from(cursor.u32().ok()?) << (32 * place);
        }
        let scale = head & 0x7f;
        (scale <= 28).then_some(Self::Decimal { negative: head & 0x80 != 0, scale, digits })
    }

    /// The value as a signed number, if it is a whole number, a character or a truth value.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Bool(value) => Some(i64::from(value)),
            Self::Char(value) => Some(i64::from(value)),
            Self::Int(value) => Some(value),
            Self::UInt(value) => i64::try_from(value).ok(),
            _ => None,
        }
    }
}

/// As C# writes it, but without suffixes.
impl fmt::Display for Constant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Char(unit) => match char::from_u32(u32::from(*unit)) {
                Some(character) => write!(formatter, "{character:?}"),
                None => write!(formatter, "'\\u{unit:04x}'"),
            },
            Self::Int(value) => write!(formatter, "{value}"),
            Self::UInt(value) => write!(formatter, "{value}"),
            Self::Float(value) => write!(formatter, "{value}"),
            Self::Double(value) => write!(formatter, "{value}"),
            Self::String(text) => write!(formatter, "{text:?}"),
            Self::Null => formatter.write_str("null"),
            Self::Decimal { negative, scale, digits } => {
                let sign = if *negative { "-" } else { "" };
                let scale = usize::from(*scale);
                let digits = format!("{digits:0>width$}", width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                let point = if scale > 0 { "." } else { "" };
                write!(formatter, "{sign}{whole}{point}{fraction}")
            }
            Self::DateTime(ticks) => write!(formatter, "{ticks} ticks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_with_their_scale() {
        let check = |negative, scale, digits, expected: &str| {
            assert_eq!(Constant::Decimal { negative, scale, digits }.to_string(), expected);
        };
        check(false, 2, 1250, "12.50");
        check(true, 3, 5, "-0.005");
        check(false, 0, 7, "7");
    }

    #[test]
    fn a_value_with_bytes_left_over_is_none() {
        assert_eq!(Constant::parse(0x08, &[1, 0, 0, 0]), Some(Constant::Int(1)));
        assert_eq!(Constant::parse(0x08, &[1, 0, 0, 0, 0]), None);
        assert_eq!(Constant::parse(0x04, &[0xff]), Some(Constant::Int(-1)));
        assert_eq!(Constant::parse(0x0e, &[]), Some(Constant::String(String::new())));
    }
}
