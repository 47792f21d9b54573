//! Primitive values as C# writes them.

use hindcast_core::debug::NumberFormat;

use crate::{expression::Text, image::Primitive};

use super::seen::integer_of;

/// Collects a text up to a length, and remembers whether something was left out.
#[derive(Debug, Default)]
pub(crate) struct Brief {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
    most: usize,
}

impl Brief {
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::new(), is_cut: false, most }
    }

    /// Whether more may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.text.len() < self.most
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// A primitive value.
pub(crate) fn primitive_text(primitive: Primitive, bytes: &[u8], format: NumberFormat) -> String {
    let malformed = || format!("{} bytes", bytes.len());
    match primitive {
        Primitive::Boolean => bytes.first().map_or_else(malformed, |byte| (*byte != 0).to_string()),
        Primitive::Char => {
            bytes.try_into().map_or_else(|_| malformed(), |unit| char_text(u16::from_le_bytes(unit)))
        }
        Primitive::Single => bytes.try_into().map_or_else(
            |_| malformed(),
            |bytes| {
                float_text(f64::from(f32::from_le_bytes(bytes)), &f32::from_le_bytes(bytes).to_string(), 9)
            },
        ),
        Primitive::Double => bytes.try_into().map_or_else(
            |_| malformed(),
            |bytes| {
                let number = f64::from_le_bytes(bytes);
                float_text(number, &number.to_string(), 17)
            },
        ),
        _ => match (integer_of(primitive, bytes), bytes.try_into()) {
            (Some(number), _) => integer_text(number.into(), bytes, format),
            (None, Ok(bytes8)) => integer_text(u64::from_le_bytes(bytes8).into(), bytes, format),
            _ => malformed(),
        },
    }
}

fn char_text(unit: u16) -> String {
    // Only the other kind of quote needs an escape.
    match char::from_u32(u32::from(unit)) {
        Some('\'') => "'\\''".into(),
        Some('"') => "'\"'".into(),
        _ => format!("'{}'", Text(vec![unit]).quoted().trim_matches('"')),
    }
}

fn integer_text(number: i128, bytes: &[u8], format: NumberFormat) -> String {
    let bits = bytes.iter().rev().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    match format {
        NumberFormat::Auto | NumberFormat::Decimal => number.to_string(),
        NumberFormat::Hex => format!("{bits:#x}"),
        NumberFormat::Octal => format!("{bits:#o}"),
        NumberFormat::Binary => format!("{bits:#b}"),
    }
}

/// The shortest text that reads back as the same number, with an exponent where .NET writes one: from 17 digits of a
/// `double` and 9 of a `float` on, as measured on 3.1 and 10.0. Where several texts are right, the
/// two may choose others: 10.0 and we write `1234567890f` as `1.234568E+09`, 3.1 as `1.2345679E+09`.
pub(crate) fn float_text(number: f64, shortest: &str, digits: usize) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    scientific(shortest, digits).unwrap_or_else(|| shortest.to_owned())
}

/// Turns `123000` into `1.23E+05`; none where .NET writes no exponent.
fn scientific(plain: &str, precision: usize) -> Option<String> {
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain), |rest| ("-", rest));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let digits = format!("{whole}{fraction}");
    let first = digits.find(|digit| digit != '0')?;
    let exponent = i64::try_from(whole.len()).ok()? - 1 - i64::try_from(first).ok()?;
    let digits = digits[first..].trim_end_matches('0');
    let most = i64::try_from(digits.len().max(precision)).ok()?;
    if (-4..most).contains(&exponent) {
        return None;
    }
    let (head, tail) = digits.split_at(1.min(digits.len()));
    let point = if tail.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{sign}{head}{point}{tail}E{exponent_sign}{:02}", exponent.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: f64, expected: &str) {
        assert_eq!(primitive_text(Primitive::Double, &number.to_le_bytes(), NumberFormat::Auto), expected);
    }

    #[test]
    fn fractions_are_written_as_dotnet_does() {
        check(0.0, "0");
        check(-0.0, "-0");
        check(1.5, "1.5");
        check(0.1 + 0.2, "0.30000000000000004");
        check(1e15, "1000000000000000");
        check(1e16, "10000000000000000");
        check(1e17, "1E+17");
        check(123_456_789_012_345_680.0, "1.2345678901234568E+17");
        check(12_345_678_901_234_567.0, "12345678901234568");
        check(1e-5, "1E-05");
        check(f64::MAX, "1.7976931348623157E+308");
        check(f64::NEG_INFINITY, "-Infinity");
        check(0.0001, "0.0001");
        check(-2.5e-300, "-2.5E-300");
        check(f64::NAN, "NaN");
    }

    #[test]
    fn single_fractions_have_an_exponent_from_nine_digits_on() {
        let text = |number: f32| primitive_text(Primitive::Single, &number.to_le_bytes(), NumberFormat::Auto);
        assert_eq!(text(1.5e7), "15000000");
        assert_eq!(text(1e8), "100000000");
        assert_eq!(text(1e9), "1E+09");
        assert_eq!(text(1_234_567_890.0), "1.234568E+09");
        assert_eq!(text(f32::MAX), "3.4028235E+38");
        assert_eq!(text(1e-5), "1E-05");
    }

    #[test]
    fn characters_are_escaped() {
        let char_text = |unit: u16| primitive_text(Primitive::Char, &unit.to_le_bytes(), NumberFormat::Auto);
        assert_eq!(char_text(b'a'.into()), "'a'");
        assert_eq!(char_text(b'\''.into()), "'\\''");
        assert_eq!(char_text(b'"'.into()), "'\"'");
        assert_eq!(char_text(b'\\'.into()), "'\\\\'");
        assert_eq!(char_text(0), "'\\0'");
        assert_eq!(char_text(0xd83d), "'\\ud83d'");
    }

    #[test]
    fn whole_numbers_have_the_format_that_was_asked_for() {
        let text = |format| primitive_text(Primitive::Int16, &(-2i16).to_le_bytes(), format);
        assert_eq!(text(NumberFormat::Auto), "-2");
        assert_eq!(text(NumberFormat::Hex), "0xfffe");
        assert_eq!(
            primitive_text(Primitive::UInt64, &u64::MAX.to_le_bytes(), NumberFormat::Auto),
            u64::MAX.to_string()
        );
    }
}
