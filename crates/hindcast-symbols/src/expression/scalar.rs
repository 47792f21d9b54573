//! Numbers, truth values and addresses, and what operators make of them.

use std::cmp::Ordering;

use super::{error::ExpressionError, syntax::Binary};
use crate::{
    types::{Encoding, Language, TypeRef},
    value::{DerivedTypes, Placed},
};

/// A type of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) bits: u32,
    pub(super) signed: bool,
    /// Rust's numbers are not widened before an operation.
    pub(super) rust: bool,
}

/// What operators work on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    /// A number that has yet to get a type.
    Literal(i128),
    /// The bits, without the sign's above those of the type.
    Whole(u128, Whole),
    /// A number with a fraction that has yet to get a type: that of the other operand in Rust.
    FloatLiteral(f64),
    /// Rounded to the bits of its type.
    Float(f64, Fraction),
    Truth(bool),
    Pointer(u64, Option<TypeRef>),
}

/// A type of numbers with fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    /// 32 or 64.
    pub(super) bits: u32,
    pub(super) rust: bool,
}

impl Fraction {
    const DOUBLE: Self = Self { bits: 64, rust: false };

    pub(super) fn round(self, value: f64) -> Scalar {
        Scalar::Float(if self.bits == 32 { f64::from(value as f32) } else { value }, self)
    }

    fn type_ref(self, types: &DerivedTypes<'_>) -> TypeRef {
        let (name, language) = match (self.bits, self.rust) {
            (32, true) => ("f32", Language::Rust),
            (_, true) => ("f64", Language::Rust),
            (32, false) => ("float", Language::C),
            (_, false) => ("double", Language::C),
        };
        types.base(name, Encoding::Float, u64::from(self.bits / 8), language)
    }
}

const INT: Whole = Whole { bits: 32, signed: true, rust: false };

impl Whole {
    /// By its name in C, C++ or Rust.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (bits, signed, rust) = match name {
            "i8" => (8, true, true),
            "i16" => (16, true, true),
            "i32" => (32, true, true),
            "i64" | "isize" => (64, true, true),
            "i128" => (128, true, true),
            "u8" => (8, false, true),
            "u16" => (16, false, true),
            "u32" => (32, false, true),
            "u64" | "usize" => (64, false, true),
            "u128" => (128, false, true),
            "signed char" | "int8_t" => (8, true, false),
            "unsigned char" | "uint8_t" => (8, false, false),
            "short" | "short int" | "int16_t" | "signed short" => (16, true, false),
            "unsigned short" | "unsigned short int" | "short unsigned int" | "uint16_t" => (16, false, false),
            "int" | "signed" | "signed int" | "int32_t" => (32, true, false),
            "unsigned" | "unsigned int" | "uint32_t" => (32, false, false),
            "long" | "long int" | "signed long" | "long long" | "long long int" | "int64_t" | "ssize_t"
            | "ptrdiff_t" | "intptr_t" | "intmax_t" => (64, true, false),
            "unsigned long"
            | "unsigned long int"
            | "long unsigned int"
            | "unsigned long long"
            | "unsigned long long int"
            | "long long unsigned int"
            | "uint64_t"
            | "size_t"
            | "uintptr_t"
            | "uintmax_t" => (64, false, false),
            "__int128" | "__int128_t" => (128, true, false),
            "unsigned __int128" | "__uint128_t" => (128, false, false),
            _ => return None,
        };
        Some(Self { bits, signed, rust })
    }

    pub(super) fn name(self) -> &'static str {
        match (self.bits, self.signed, self.rust) {
            (8, true, true) => "i8",
            (16, true, true) => "i16",
            (32, true, true) => "i32",
            (64, true, true) => "i64",
            (_, true, true) => "i128",
            (8, false, true) => "u8",
            (16, false, true) => "u16",
            (32, false, true) => "u32",
            (64, false, true) => "u64",
            (_, false, true) => "u128",
            (8, true, false) => "signed char",
            (16, true, false) => "short",
            (32, true, false) => "int",
            (64, true, false) => "long",
            (_, true, false) => "__int128",
            (8, false, false) => "unsigned char",
            (16, false, false) => "unsigned short",
            (32, false, false) => "unsigned int",
            (64, false, false) => "unsigned long",
            (_, false, false) => "unsigned __int128",
        }
    }

    fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The bits of a number, whether it fits or not.
    pub(super) fn wrap(self, value: i128) -> Scalar {
        Scalar::Whole(value as u128 & self.mask(), self)
    }

    /// With its sign. A number above `i128::MAX` has none.
    pub(super) fn value(self, bits: u128) -> i128 {
        if !self.signed || self.bits == 128 {
            return bits as i128;
        }
        let unused = 128 - self.bits;
        ((bits << unused) as i128) >> unused
    }

    pub(super) fn fits(self, value: i128) -> bool {
        match (self.signed, self.bits) {
            (_, 0 | 128..) => true,
            (true, bits) => value >= -(1 << (bits - 1)) && value < 1 << (bits - 1),
            (false, bits) => value >= 0 && value < 1 << bits,
        }
    }

    pub(super) fn type_ref(self, types: &DerivedTypes<'_>) -> TypeRef {
        let encoding = if self.signed { Encoding::Signed } else { Encoding::Unsigned };
        let language = if self.rust { Language::Rust } else { Language::C };
        types.base(self.name(), encoding, u64::from(self.bits / 8), language)
    }

    /// C computes nothing narrower than `int`.
    fn promoted(self) -> Self {
        if self.bits < 32 { INT } else { Self { rust: false, ..self } }
    }

    fn common(self, other: Self) -> Self {
        if self == other && self.rust {
            return self;
        }
        let (one, two) = (self.promoted(), other.promoted());
        let rust = self.rust && other.rust;
        match one.bits.cmp(&two.bits) {
            Ordering::Greater => Self { rust, ..one },
            Ordering::Less => Self { rust, ..two },
            Ordering::Equal => Self { signed: one.signed && two.signed, rust, ..one },
        }
    }
}

/// Whether a name is that of a type in every program.
pub(super) fn is_known_type(name: &str) -> bool {
    Whole::named(name).is_some()
        || matches!(name, "char" | "bool" | "_Bool" | "float" | "double" | "f32" | "f64" | "void")
        || name.ends_with("_t")
}

impl Scalar {
    pub(super) fn is_true(self) -> bool {
        match self {
            Self::Literal(value) => value != 0,
            Self::Whole(bits, _) => bits != 0,
            Self::Float(value, _) | Self::FloatLiteral(value) => value != 0.0,
            Self::Truth(truth) => truth,
            Self::Pointer(address, _) => address != 0,
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            Self::Literal(value) => value as f64,
            Self::Whole(bits, whole) if whole.signed => whole.value(bits) as f64,
            Self::Whole(bits, _) => bits as f64,
            Self::Float(value, _) | Self::FloatLiteral(value) => value,
            Self::Truth(truth) => f64::from(u8::from(truth)),
            Self::Pointer(address, _) => address as f64,
        }
    }

    /// As a whole number; fractions are cut off as C and Rust do.
    pub(super) fn as_whole(self) -> i128 {
        match self {
            Self::Literal(value) => value,
            Self::Whole(bits, whole) => whole.value(bits),
            Self::Float(value, _) | Self::FloatLiteral(value) => value as i128,
            Self::Truth(truth) => i128::from(truth),
            Self::Pointer(address, _) => i128::from(address),
        }
    }

    /// As a value that can be shown.
    pub(super) fn place(self, types: &DerivedTypes<'_>) -> Placed {
        match self {
            Self::Literal(value) => {
                let bits = if INT.fits(value) {
                    32
                } else if i64::try_from(value).is_ok() {
                    64
                } else {
                    128
                };
                let whole = Whole { bits, ..INT };
                Placed::computed(whole.type_ref(types), &value.to_le_bytes()[..bits as usize / 8])
            }
            Self::Whole(bits, whole) => {
                Placed::computed(whole.type_ref(types), &bits.to_le_bytes()[..whole.bits as usize / 8])
            }
            Self::Float(value, of @ Fraction { bits: 32, .. }) => {
                Placed::computed(of.type_ref(types), (value as f32).to_le_bytes())
            }
            Self::Float(value, of) => Placed::computed(of.type_ref(types), value.to_le_bytes()),
            Self::FloatLiteral(value) => {
                Placed::computed(Fraction::DOUBLE.type_ref(types), value.to_le_bytes())
            }
            Self::Truth(truth) => {
                let type_ref = types.base("bool", Encoding::Boolean, 1, Language::C);
                Placed::computed(type_ref, [u8::from(truth)])
            }
            Self::Pointer(address, target) => {
                let rust = target
                    .and_then(|target| types.real(target))
                    .is_some_and(|(_, found)| found.language == Language::Rust);
                let language = if rust { Language::Rust } else { Language::C };
                Placed::computed(types.pointer_to(target, language), address.to_le_bytes())
            }
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Float(..) | Self::FloatLiteral(_))
    }

    /// A literal with the type that it gets from what stands beside it.
    fn beside(self, other: Self) -> Self {
        match (self, other) {
            (Self::FloatLiteral(value), Self::Float(_, of)) if of.rust => of.round(value),
            (Self::FloatLiteral(value), _) => Self::Float(value, Fraction::DOUBLE),
            (whole @ (Self::Whole(..) | Self::Literal(_)), Self::Float(_, of)) if !of.rust => {
                of.round(whole.as_float())
            }
            (other, _) => other,
        }
    }

    /// How two compare; nothing compares to what is not a number. In C both become one type first, in which -1 is the
    /// largest number where that has no sign.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        if self.is_float() || other.is_float() {
            let (one, two) = (self.beside(other), other.beside(self));
            return one.as_float().partial_cmp(&two.as_float());
        }
        let is_whole = |scalar: Self| matches!(scalar, Self::Whole(..) | Self::Literal(_));
        let whole = common(self, other);
        if is_whole(self) && is_whole(other) && !whole.signed && !whole.rust && whole.bits < 128 {
            let unsigned = |scalar: Self| scalar.as_whole() as u128 & whole.mask();
            return Some(unsigned(self).cmp(&unsigned(other)));
        }
        let huge = |scalar: Self| match scalar {
            Self::Whole(bits, Whole { signed: false, bits: 128, .. }) if bits > i128::MAX as u128 => {
                Some(bits)
            }
            _ => None,
        };
        Some(match (huge(self), huge(other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => self.as_whole().cmp(&other.as_whole()),
        })
    }
}

/// How two numbers are compared that are not known yet.
pub(super) struct Common {
    /// How many of the lowest bits count: 32 or 64.
    pub(super) bits: u8,
    pub(super) signed: bool,
}

impl Scalar {
    /// Of a type with so many bytes, whatever its value.
    pub(super) fn of_bits(bytes: u8, signed: bool, rust: bool) -> Self {
        Self::Whole(0, Whole { bits: 8 * u32::from(bytes), signed, rust })
    }

    /// What [`Scalar::compare`] does with all numbers of these types, where that is a comparison of 32 or 64 bits. Literals
    /// are known.
    pub(super) fn compared_as(self, other: Self) -> Option<Common> {
        if self.is_float() || other.is_float() {
            return None;
        }
        let is_whole = |scalar: Self| matches!(scalar, Self::Whole(..) | Self::Literal(_));
        let whole = common(self, other);
        if is_whole(self) && is_whole(other) && !whole.signed && !whole.rust && whole.bits < 128 {
            return matches!(whole.bits, 32 | 64)
                .then_some(Common { bits: if whole.bits == 32 { 32 } else { 64 }, signed: false });
        }
        // As numbers: all of both must be in one range of 64 bits.
        let is_in = |signed: bool| {
            move |scalar: Self| match scalar {
                Self::Literal(value) if signed => i64::try_from(value).is_ok(),
                Self::Literal(value) => u64::try_from(value).is_ok(),
                Self::Whole(_, Whole { bits: 128, .. }) => false,
                Self::Whole(_, whole) if signed => whole.signed || whole.bits < 64,
                Self::Whole(_, whole) => !whole.signed,
                Self::Truth(_) => true,
                Self::Pointer(..) => !signed,
                Self::Float(..) | Self::FloatLiteral(_) => false,
            }
        };
        [true, false]
            .into_iter()
            .find(|&signed| is_in(signed)(self) && is_in(signed)(other))
            .map(|signed| Common { bits: 64, signed })
    }

    /// The type of `%` and `&` with a literal; the value means nothing.
    pub(super) fn combined_with(self, literal: i128) -> Self {
        Self::Whole(0, common(self, Self::Literal(literal)))
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::Whole(_, whole) if whole.signed)
    }
}

/// Arithmetic on two numbers. Wrong results are not given: what overflows is an error, except in
/// C's unsigned types, which are made to wrap.
pub(super) fn combine(
    operator: Binary,
    left: Scalar,
    right: Scalar,
    column: usize,
) -> Result<Scalar, ExpressionError> {
    if let (Scalar::Truth(one), Scalar::Truth(two)) = (left, right) {
        match operator {
            Binary::BitAnd => return Ok(Scalar::Truth(one & two)),
            Binary::BitOr => return Ok(Scalar::Truth(one | two)),
            Binary::BitXor => return Ok(Scalar::Truth(one ^ two)),
            _ => {}
        }
    }
    if left.is_float() || right.is_float() {
        return floats(operator, left, right, column);
    }
    if let (Scalar::Literal(one), Scalar::Literal(two)) = (left, right) {
        let computed = exact(operator, one, two, column)?;
        // Bits that are shifted out would be missed.
        let kept = |value: &i128| operator != Binary::ShiftLeft || value >> two == one;
        let computed = computed.filter(kept);
        return computed
            .map(Scalar::Literal)
            .ok_or_else(|| overflow(operator, left, right, "__int128", column));
    }
    let is_shift = matches!(operator, Binary::ShiftLeft | Binary::ShiftRight);
    let whole = if is_shift { shifted(left) } else { common(left, right) };
    let (one, two) = (left.as_whole(), right.as_whole());
    if is_shift && !(0..i128::from(whole.bits)).contains(&two) {
        return Err(overflow(operator, left, right, whole.name(), column));
    }
    if whole.bits == 128 && !whole.signed {
        return huge(operator, one as u128, two as u128, whole, column)
            .ok_or_else(|| overflow(operator, left, right, whole.name(), column))?;
    }
    // A negative number that meets an unsigned type of C becomes a large one.
    let meets =
        |value: i128| if whole.signed || whole.rust { value } else { (value as u128 & whole.mask()) as i128 };
    let computed = exact(operator, meets(one), meets(two), column)?;
    let wraps = !whole.signed && !whole.rust || operator == Binary::ShiftLeft;
    match computed {
        Some(value) if whole.fits(value) || wraps => Ok(whole.wrap(value)),
        None if wraps => Ok(whole.wrap((one as u128).wrapping_mul(two as u128) as i128)),
        _ => Err(overflow(operator, left, right, whole.name(), column)),
    }
}

fn shifted(left: Scalar) -> Whole {
    match left {
        Scalar::Whole(_, whole) if whole.rust => whole,
        Scalar::Whole(_, whole) => whole.promoted(),
        Scalar::Literal(value) if !INT.fits(value) => Whole { bits: 128, ..INT },
        Scalar::Literal(_) => Whole { bits: 64, ..INT },
        _ => INT,
    }
}

fn common(left: Scalar, right: Scalar) -> Whole {
    let literal = |value: i128, other: Whole| {
        if other.rust && other.fits(value) {
            other
        } else if INT.fits(value) {
            INT
        } else {
            Whole { bits: if i64::try_from(value).is_ok() { 64 } else { 128 }, ..INT }
        }
    };
    match (left, right) {
        (Scalar::Whole(_, one), Scalar::Whole(_, two)) => one.common(two),
        (Scalar::Whole(_, whole), Scalar::Literal(value))
        | (Scalar::Literal(value), Scalar::Whole(_, whole)) => whole.common(literal(value, whole)),
        (Scalar::Whole(_, whole), _) | (_, Scalar::Whole(_, whole)) => whole.common(INT),
        _ => INT,
    }
}

/// The result where 128 bits can hold it.
fn exact(operator: Binary, one: i128, two: i128, column: usize) -> Result<Option<i128>, ExpressionError> {
    let by_zero = ExpressionError::DivisionByZero { column };
    Ok(match operator {
        Binary::Add => one.checked_add(two),
        Binary::Subtract => one.checked_sub(two),
        Binary::Multiply => one.checked_mul(two),
        Binary::Divide if two == 0 => return Err(by_zero),
        Binary::Divide => one.checked_div(two),
        Binary::Remainder if two == 0 => return Err(by_zero),
        Binary::Remainder => one.checked_rem(two),
        Binary::ShiftLeft => u32::try_from(two).ok().and_then(|count| one.checked_shl(count)),
        Binary::ShiftRight => u32::try_from(two).ok().and_then(|count| one.checked_shr(count)),
        Binary::BitAnd => Some(one & two),
        Binary::BitOr => Some(one | two),
        Binary::BitXor => Some(one ^ two),
        _ => None,
    })
}

fn huge(
    operator: Binary,
    one: u128,
    two: u128,
    whole: Whole,
    column: usize,
) -> Option<Result<Scalar, ExpressionError>> {
    let wrapping = |checked: Option<u128>, wrapped: u128| if whole.rust { checked } else { Some(wrapped) };
    let bits = match operator {
        Binary::Add => wrapping(one.checked_add(two), one.wrapping_add(two))?,
        Binary::Subtract => wrapping(one.checked_sub(two), one.wrapping_sub(two))?,
        Binary::Multiply => wrapping(one.checked_mul(two), one.wrapping_mul(two))?,
        Binary::Divide | Binary::Remainder if two == 0 => {
            return Some(Err(ExpressionError::DivisionByZero { column }));
        }
        Binary::Divide => one / two,
        Binary::Remainder => one % two,
        Binary::ShiftLeft => one.checked_shl(u32::try_from(two).ok()?)?,
        Binary::ShiftRight => one.checked_shr(u32::try_from(two).ok()?)?,
        Binary::BitAnd => one & two,
        Binary::BitOr => one | two,
        Binary::BitXor => one ^ two,
        _ => return None,
    };
    Some(Ok(Scalar::Whole(bits, whole)))
}

fn floats(operator: Binary, left: Scalar, right: Scalar, column: usize) -> Result<Scalar, ExpressionError> {
    let (left, right) = (left.beside(right), right.beside(left));
    let (one, two) = (left.as_float(), right.as_float());
    let value = match operator {
        Binary::Add => one + two,
        Binary::Subtract => one - two,
        Binary::Multiply => one * two,
        Binary::Divide => one / two,
        Binary::Remainder => one % two,
        _ => {
            let type_name = "double".to_owned();
            return Err(ExpressionError::WrongType { column, type_name, wanted: "a whole number" });
        }
    };
    let common = match (left, right) {
        (Scalar::Float(_, one), Scalar::Float(_, two)) => {
            Fraction { bits: one.bits.max(two.bits), rust: one.rust && two.rust }
        }
        (Scalar::Float(_, of), Scalar::Literal(_)) | (Scalar::Literal(_), Scalar::Float(_, of)) => of,
        _ => Fraction::DOUBLE,
    };
    Ok(common.round(value))
}

fn overflow(
    operator: Binary,
    left: Scalar,
    right: Scalar,
    type_name: &str,
    column: usize,
) -> ExpressionError {
    let text = |scalar: Scalar| match scalar {
        Scalar::Whole(bits, whole) if !whole.signed => bits.to_string(),
        other => other.as_whole().to_string(),
    };
    let operation = format!("{} {} {}", text(left), operator.symbol(), text(right));
    ExpressionError::Overflow { column, operation, type_name: type_name.to_owned() }
}
