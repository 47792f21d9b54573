//! The values of C#'s built-in types.

use super::{decimal::Decimal, text::Text};

/// A value of a built-in type, or null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    /// A unit of UTF-16, which may be half a character.
    Char(u16),
    SByte(i8),
    Byte(u8),
    Short(i16),
    UShort(u16),
    Int(i32),
    UInt(u32),
    Long(i64),
    ULong(u64),
    /// Of a program of 64 bits.
    NInt(i64),
    NUInt(u64),
    Float(f32),
    Double(f64),
    Decimal(Decimal),
    String(Text),
}

/// A built-in type of C# that has values of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Primitive {
    Bool,
    Char,
    SByte,
    Byte,
    Short,
    UShort,
    Int,
    UInt,
    Long,
    ULong,
    NInt,
    NUInt,
    Float,
    Double,
    Decimal,
    String,
}

/// The keyword, the type, and the name of its class in `System`.
const NAMES: [(&str, Primitive, &str); 16] = [
    ("bool", Primitive::Bool, "Boolean"),
    ("char", Primitive::Char, "Char"),
    ("sbyte", Primitive::SByte, "SByte"),
    ("byte", Primitive::Byte, "Byte"),
    ("short", Primitive::Short, "Int16"),
    ("ushort", Primitive::UShort, "UInt16"),
    ("int", Primitive::Int, "Int32"),
    ("uint", Primitive::UInt, "UInt32"),
    ("long", Primitive::Long, "Int64"),
    ("ulong", Primitive::ULong, "UInt64"),
    ("nint", Primitive::NInt, "IntPtr"),
    ("nuint", Primitive::NUInt, "UIntPtr"),
    ("float", Primitive::Float, "Single"),
    ("double", Primitive::Double, "Double"),
    ("decimal", Primitive::Decimal, "Decimal"),
    ("string", Primitive::String, "String"),
];

impl Primitive {
    /// The type of a keyword such as `int`.
    pub(crate) fn of_keyword(keyword: &str) -> Option<Self> {
        NAMES.iter().find(|(name, ..)| *name == keyword).map(|(_, primitive, _)| *primitive)
    }

    /// The type of a class such as `System.Int32`.
    pub(crate) fn of_class(full_name: &str) -> Option<Self> {
        let class = full_name.strip_prefix("System.")?;
        NAMES.iter().find(|(.., name)| *name == class).map(|(_, primitive, _)| *primitive)
    }

    fn names(self) -> (&'static str, &'static str) {
        let row = NAMES.iter().find(|(_, primitive, _)| *primitive == self);
        row.map_or(("", ""), |(keyword, _, class)| (*keyword, *class))
    }

    /// Such as `int`.
    pub(crate) fn keyword(self) -> &'static str {
        self.names().0
    }

    /// Such as `System.Int32`.
    pub(crate) fn class(self) -> String {
        format!("System.{}", self.names().1)
    }

    /// How many bytes a value takes, if that is always the same.
    pub(crate) fn size(self) -> Option<usize> {
        Some(match self {
            Self::Bool | Self::SByte | Self::Byte => 1,
            Self::Char | Self::Short | Self::UShort => 2,
            Self::Int | Self::UInt | Self::Float => 4,
            Self::Long | Self::ULong | Self::NInt | Self::NUInt | Self::Double => 8,
            Self::Decimal => 16,
            Self::String => return None,
        })
    }

    /// Whether its values are whole numbers; those of `char` are.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::Bool | Self::Float | Self::Double | Self::Decimal | Self::String)
    }

    pub(crate) fn is_number(self) -> bool {
        !matches!(self, Self::Bool | Self::String)
    }

    /// What `default(T)` is.
    pub(crate) fn default_value(self) -> Constant {
        match self {
            Self::Bool => Constant::Bool(false),
            Self::String => Constant::Null,
            Self::Float => Constant::Float(0.0),
            Self::Double => Constant::Double(0.0),
            Self::Decimal => Constant::Decimal(Decimal::ZERO),
            _ => Constant::wrapped(0, self),
        }
    }

    /// The least and the greatest value of a type of whole numbers.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::SByte => (i8::MIN.into(), i8::MAX.into()),
            Self::Byte => (0, u8::MAX.into()),
            Self::Short => (i16::MIN.into(), i16::MAX.into()),
            Self::UShort | Self::Char => (0, u16::MAX.into()),
            Self::Int => (i32::MIN.into(), i32::MAX.into()),
            Self::UInt => (0, u32::MAX.into()),
            Self::Long | Self::NInt => (i64::MIN.into(), i64::MAX.into()),
            Self::ULong | Self::NUInt => (0, u64::MAX.into()),
            _ => return None,
        })
    }
}

impl Constant {
    /// Its type; null has none.
    pub(crate) fn primitive(&self) -> Option<Primitive> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => Primitive::Bool,
            Self::Char(_) => Primitive::Char,
            Self::SByte(_) => Primitive::SByte,
            Self::Byte(_) => Primitive::Byte,
            Self::Short(_) => Primitive::Short,
            Self::UShort(_) => Primitive::UShort,
            Self::Int(_) => Primitive::Int,
            Self::UInt(_) => Primitive::UInt,
            Self::Long(_) => Primitive::Long,
            Self::ULong(_) => Primitive::ULong,
            Self::NInt(_) => Primitive::NInt,
            Self::NUInt(_) => Primitive::NUInt,
            Self::Float(_) => Primitive::Float,
            Self::Double(_) => Primitive::Double,
            Self::Decimal(_) => Primitive::Decimal,
            Self::String(_) => Primitive::String,
        })
    }

    /// The keyword of its type, or `null`.
    pub(crate) fn type_name(&self) -> &'static str {
        self.primitive().map_or("null", Primitive::keyword)
    }

    /// A whole number; those of `char` are.
    pub(crate) fn whole(&self) -> Option<i128> {
        Some(match *self {
            Self::Char(value) | Self::UShort(value) => value.into(),
            Self::SByte(value) => value.into(),
            Self::Byte(value) => value.into(),
            Self::Short(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::UInt(value) => value.into(),
            Self::Long(value) | Self::NInt(value) => value.into(),
            Self::ULong(value) | Self::NUInt(value) => value.into(),
            _ => return None,
        })
    }

    /// The low bits of a number as a type of whole numbers has them. Null if the type is none.
    pub(crate) fn wrapped(value: i128, primitive: Primitive) -> Self {
        match primitive {
            Primitive::Char => Self::Char(value as u16),
            Primitive::SByte => Self::SByte(value as i8),
            Primitive::Byte => Self::Byte(value as u8),
            Primitive::Short => Self::Short(value as i16),
            Primitive::UShort => Self::UShort(value as u16),
            Primitive::Int => Self::Int(value as i32),
            Primitive::UInt => Self::UInt(value as u32),
            Primitive::Long => Self::Long(value as i64),
            Primitive::ULong => Self::ULong(value as u64),
            Primitive::NInt => Self::NInt(value as i64),
            Primitive::NUInt => Self::NUInt(value as u64),
            _ => Self::Null,
        }
    }

    /// From the bytes of a value in memory, lowest first. `None` for strings, and if there are not as many
    /// bytes as the type has.
    pub(crate) fn from_bytes(bytes: &[u8], primitive: Primitive) -> Option<Self> {
        let size = primitive.size().filter(|size| *size == bytes.len())?;
        let raw = bytes.iter().rev().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
        Some(match primitive {
            Primitive::Bool => Self::Bool(raw != 0),
            Primitive::Float => Self::Float(f32::from_bits(raw as u32)),
            Primitive::Double => Self::Double(f64::from_bits(raw as u64)),
            // The flags come first, then the high bits and the low ones.
            Primitive::Decimal => {
                Self::Decimal(Decimal::from_parts(raw as u32, (raw >> 32) as u32, (raw >> 64) as u64)?)
            }
            Primitive::String => return None,
            _ if size <= 8 => Self::wrapped(raw as i128, primitive),
            _ => return None,
        })
    }

    /// The bytes of the value in memory, lowest first. `None` for null and strings.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let size = self.primitive()?.size()?;
        let raw = match self {
            Self::Bool(value) => u128::from(*value),
            Self::Float(value) => value.to_bits().into(),
            Self::Double(value) => value.to_bits().into(),
            Self::Decimal(value) => {
                let (flags, high, low) = value.to_parts();
                u128::from(low) << 64 | u128::from(high) << 32 | u128::from(flags)
            }
            _ => self.whole()? as u128,
        };
        Some(raw.to_le_bytes()[..size].to_vec())
    }
}
