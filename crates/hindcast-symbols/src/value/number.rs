//! Numbers, characters and truth values as text.

use hindcast_core::debug::NumberFormat;

use super::{
    layout::{signed_of, unsigned_of},
    text::escape_into,
};
use crate::types::{Encoding, Type};

/// A whole number in the format that was asked for. Negative numbers are written by their bits
/// where the format is not decimal.
pub(crate) fn integer(bytes: &[u8], signed: bool, format: NumberFormat) -> String {
    let value = unsigned_of(bytes);
    match format {
        NumberFormat::Auto | NumberFormat::Decimal if signed => signed_of(bytes).to_string(),
        NumberFormat::Auto | NumberFormat::Decimal => value.to_string(),
        NumberFormat::Hex => format!("{value:#x}"),
        NumberFormat::Octal => format!("{value:#o}"),
        NumberFormat::Binary => format!("{value:#b}"),
    }
}

/// A value of a base type.
pub(crate) fn base(found: &Type, encoding: Encoding, bytes: &[u8], format: NumberFormat) -> String {
    let number = |signed| integer(bytes, signed, format);
    match encoding {
        // Rust describes its unit as a number without bytes.
        _ if bytes.is_empty() => {
            if found.name.is_empty() {
                "()".to_owned()
            } else {
                found.name.clone()
            }
        }
        Encoding::Boolean => match unsigned_of(bytes) {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            other => format!("{other} (not a bool)"),
        },
        Encoding::Signed => number(true),
        Encoding::Unsigned => number(false),
        Encoding::SignedChar | Encoding::UnsignedChar if format != NumberFormat::Auto => {
            number(encoding == Encoding::SignedChar)
        }
        Encoding::SignedChar | Encoding::UnsignedChar => {
            byte_character(found, bytes, encoding == Encoding::SignedChar)
        }
        Encoding::Utf => wide_character(bytes, format),
        Encoding::Float => float(bytes, found),
        Encoding::ComplexFloat => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let (real, imaginary) = (float(real, found), float(imaginary, found));
            match imaginary.strip_prefix('-') {
                Some(positive) => format!("{real} - {positive}i"),
                None => format!("{real} + {imaginary}i"),
            }
        }
        Encoding::Other => hexadecimal(bytes),
    }
}

/// `97 'a'`. `signed char` and `unsigned char` are mostly numbers, so these have the character only
/// where it is one that can be printed.
fn byte_character(found: &Type, bytes: &[u8], signed: bool) -> String {
    let number = integer(bytes, signed, NumberFormat::Auto);
    let byte = bytes.first().copied().unwrap_or_default();
    if found.name != "char" && !(byte.is_ascii_graphic() || byte == b' ') {
        return number;
    }
    let mut quoted = String::new();
    escape_into(&mut quoted, &[byte], '\'');
    format!("{number} '{quoted}'")
}

pub(crate) fn wide_character(bytes: &[u8], format: NumberFormat) -> String {
    let value = unsigned_of(bytes);
    if format != NumberFormat::Auto {
        return integer(bytes, false, format);
    }
    match u32::try_from(value).ok().and_then(char::from_u32) {
        Some(character) => {
            let mut quoted = String::new();
            escape_into(&mut quoted, character.encode_utf8(&mut [0; 4]).as_bytes(), '\'');
            format!("'{quoted}'")
        }
        None => format!("{value:#x} (not a character)"),
    }
}

/// The shortest text that means the same number.
pub(crate) fn float(bytes: &[u8], found: &Type) -> String {
    match bytes.len() {
        2 => {
            let half = u16::from_le_bytes([bytes[0], bytes[1]]);
            // The upper half of an f32.
            if found.name.contains("bf16") || found.name.contains("bfloat") {
                return format!("{:?}", f32::from_bits(u32::from(half) << 16));
            }
            shortest_half(half)
        }
        4 => format!("{:?}", f32::from_bits(unsigned_of(bytes) as u32)),
        8 => format!("{:?}", f64::from_bits(unsigned_of(bytes) as u64)),
        10 | 12 | 16 if !is_quadruple(found) => extended(bytes),
        _ => hexadecimal(bytes),
    }
}

fn is_quadruple(found: &Type) -> bool {
    found.name.contains("128")
}

/// A number for computing with; extended precision is rounded.
pub(crate) fn float_value(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        2 => Some(half_value(u16::from_le_bytes([bytes[0], bytes[1]]))),
        4 => Some(f64::from(f32::from_bits(unsigned_of(bytes) as u32))),
        8 => Some(f64::from_bits(unsigned_of(bytes) as u64)),
        10 | 12 | 16 => Some(extended_value(bytes)),
        _ => None,
    }
}

fn half_value(half: u16) -> f64 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(half >> 10 & 0x1f);
    let fraction = f64::from(half & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Eleven bits of precision are told apart by five digits.
fn shortest_half(half: u16) -> String {
    let value = half_value(half);
    if !value.is_finite() || value == 0.0 {
        return format!("{value:?}");
    }
    let spacing = match half >> 10 & 0x1f {
        0 => 2f64.powi(-24),
        exponent => 2f64.powi(i32::from(exponent) - 25),
    };
    for digits in 0..5 {
        let text = format!("{value:.digits$e}");
        if let Ok(rounded) = text.parse::<f64>()
            && (rounded - value).abs() < spacing / 2.0
        {
            return format!("{rounded:?}");
        }
    }
    format!("{value:?}")
}

fn extended_parts(bytes: &[u8]) -> (bool, i32, u64) {
    let mantissa = unsigned_of(&bytes[..8]) as u64;
    let top = u16::from_le_bytes([bytes[8], bytes[9]]);
    (top >> 15 == 1, i32::from(top & 0x7fff), mantissa)
}

fn extended_value(bytes: &[u8]) -> f64 {
    let (negative, exponent, mantissa) = extended_parts(bytes);
    let sign = if negative { -1.0 } else { 1.0 };
    let value = match (exponent, mantissa << 1) {
        (0x7fff, 0) => f64::INFINITY,
        (0x7fff, _) => f64::NAN,
        (_, _) => {
            // In two steps: the whole power may be beyond f64 while the product is not.
            let power = exponent.max(1) - 16383 - 63;
            mantissa as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2)
        }
    };
    sign * value
}

/// The x87's 80 bits; nineteen digits where an f64 cannot hold the number.
fn extended(bytes: &[u8]) -> String {
    let (negative, exponent, mantissa) = extended_parts(bytes);
    let value = extended_value(bytes);
    let exact = mantissa.trailing_zeros() >= 11 && value.is_finite() && (value != 0.0 || mantissa == 0);
    if exact && !value.is_subnormal() || exponent == 0x7fff {
        return format!("{value:?}");
    }
    let sign = if negative { "-" } else { "" };
    format!("{sign}{}", decimal_digits(mantissa, exponent.max(1) - 16383 - 63))
}

/// `mantissa × 2^power` to nineteen digits, which tell all 80-bit numbers apart but a few.
fn decimal_digits(mantissa: u64, power: i32) -> String {
    // Big integers in base 10^9, lowest first: the exponent reaches 16384, so at most 5000 digits.
    const BASE: u64 = 1_000_000_000;
    let mut limbs = vec![mantissa % BASE, mantissa / BASE % BASE, mantissa / BASE / BASE];
    let multiply = |limbs: &mut Vec<u64>, factor: u64| {
        let mut carry = 0;
        for limb in limbs.iter_mut() {
            let product = *limb * factor + carry;
            *limb = product % BASE;
            carry = product / BASE;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    };
    // m × 2^-n is m × 5^n ÷ 10^n.
    let (factor, mut times, mut scale) = if power >= 0 { (2u64, power, 0) } else { (5, -power, power) };
    while times > 0 {
        // As many at once as a product of limbs has room for.
        let step = times.min(12);
        multiply(&mut limbs, factor.pow(step as u32));
        times -= step;
    }
    let mut digits: String = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
    digits = digits.trim_start_matches('0').to_owned();
    let kept = 19;
    if digits.len() > kept {
        scale += (digits.len() - kept) as i32;
        let round_up = digits.as_bytes()[kept] >= b'5';
        digits.truncate(kept);
        let rounded = digits.parse::<u128>().unwrap_or_default() + u128::from(round_up);
        digits = rounded.to_string();
    }
    let trimmed = digits.trim_end_matches('0');
    scale += (digits.len() - trimmed.len()) as i32;
    place_point(trimmed, scale)
}

/// `digits × 10^scale`, with an exponent only where it saves many zeros.
fn place_point(digits: &str, scale: i32) -> String {
    let before = digits.len() as i32 + scale;
    if digits.is_empty() {
        "0.0".to_owned()
    } else if !(-4..=17).contains(&before) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{first}{point}{rest}e{}", before - 1)
    } else if before <= 0 {
        format!("0.{}{digits}", "0".repeat(before.unsigned_abs() as usize))
    } else if scale >= 0 {
        format!("{digits}{}.0", "0".repeat(scale as usize))
    } else {
        let (whole, fraction) = digits.split_at(before as usize);
        format!("{whole}.{fraction}")
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_double(sign: u16, exponent: u16, mantissa: u64) -> String {
        let mut bytes = mantissa.to_le_bytes().to_vec();
        bytes.extend((sign << 15 | exponent).to_le_bytes());
        bytes.resize(16, 0);
        extended(&bytes)
    }

    #[test]
    fn extended_precision_is_written_with_all_its_digits() {
        assert_eq!(long_double(0, 16383, 1 << 63), "1.0");
        assert_eq!(long_double(1, 16384, 0xc000_0000_0000_0000), "-3.0");
        assert_eq!(long_double(0, 16383 - 4, 0xcccc_cccc_cccc_cccd), "0.1");
        assert_eq!(long_double(0, 16384, 0xc90f_daa2_2168_c235), "3.141592653589793239");
        assert_eq!(long_double(0, 32766, u64::MAX), "1.189731495357231765e4932");
        assert_eq!(long_double(0, 0x7fff, 1 << 63), "inf");
        assert_eq!(long_double(0, 0, 0), "0.0");
    }

    #[test]
    fn half_precision_is_written_as_short_as_possible() {
        assert_eq!(shortest_half(0x3c00), "1.0");
        assert_eq!(shortest_half(0x2e66), "0.1");
        assert_eq!(shortest_half(0xfbff), "-65500.0");
        assert_eq!(shortest_half(0x7c00), "inf");
        assert_eq!(shortest_half(0x0001), "6e-8");
    }

    #[test]
    fn whole_numbers_follow_the_format() {
        let bytes = (-2i32).to_le_bytes();
        assert_eq!(integer(&bytes, true, NumberFormat::Auto), "-2");
        assert_eq!(integer(&bytes, true, NumberFormat::Hex), "0xfffffffe");
        assert_eq!(integer(&bytes, false, NumberFormat::Decimal), "4294967294");
        assert_eq!(integer(&[5], false, NumberFormat::Binary), "0b101");
        assert_eq!(integer(&[8], false, NumberFormat::Octal), "0o10");
        assert_eq!(integer(&i128::MIN.to_le_bytes(), true, NumberFormat::Auto), i128::MIN.to_string());
    }
}
