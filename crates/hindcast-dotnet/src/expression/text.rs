//! Strings of .NET, and how .NET and debuggers write values.

use std::fmt::Write;

use super::constant::Constant;
use crate::visible::escape;

/// A string of .NET: UTF-16, in which half a character may stand alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Text(pub(crate) Vec<u16>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.encode_utf16().collect())
    }
}

impl std::fmt::Display for Text {
    /// Halves of characters become U+FFFD.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&String::from_utf16_lossy(&self.0))
    }
}

impl Text {
    pub(super) fn push(&mut self, character: char) {
        self.0.extend_from_slice(character.encode_utf16(&mut [0; 2]));
    }

    pub(super) fn push_unit(&mut self, unit: u16) {
        self.0.push(unit);
    }

    /// In quotes, with escapes for what cannot be seen.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.escaped('"'))
    }

    fn escaped(&self, quote: char) -> String {
        let mut out = String::new();
        for unit in char::decode_utf16(self.0.iter().copied()) {
            match unit {
                Ok(character) if character == quote => out.extend(['\\', character]),
                Ok(character) => escape(character, &mut out),
                Err(half) => {
                    let _ = write!(out, "\\u{:04x}", half.unpaired_surrogate());
                }
            }
        }
        out
    }
}

impl Constant {
    /// What `ToString` gives in the invariant culture; nothing for null.
    pub(crate) fn to_text(&self) -> Text {
        match self {
            Self::Null => Text::default(),
            Self::String(text) => text.clone(),
            Self::Char(unit) => Text(vec![*unit]),
            Self::Bool(value) => Text::from(if *value { "True" } else { "False" }),
            Self::Float(_) | Self::Double(_) | Self::Decimal(_) => Text::from(self.display().as_str()),
            _ => Text::from(self.whole().unwrap_or_default().to_string().as_str()),
        }
    }

    /// As Visual Studio shows a value: strings in quotes, `97 'a'` for a character, no suffixes.
    pub(crate) fn display(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Char(unit) => format!("{unit} '{}'", Text(vec![*unit]).escaped('\'')),
            Self::Float(value) => real(f64::from(*value), &float_digits(*value), 9),
            Self::Double(value) => real(*value, &double_digits(*value), 17),
            Self::Decimal(value) => value.to_string(),
            Self::String(text) => text.quoted(),
            _ => self.whole().unwrap_or_default().to_string(),
        }
    }
}

/// How many digits stand behind the point of a number with an exponent.
fn places(scientific: &str) -> usize {
    let (digits, _) = scientific.split_once('e').unwrap_or((scientific, ""));
    digits.trim_start_matches('-').len().saturating_sub(2)
}

/// The fewest digits that give the number back, with an exponent. Of two such numbers that are equally near,
/// .NET takes the even one. The nearest does not always give the number back: the numbers below a power of two
/// are closer to each other.
fn double_digits(value: f64) -> String {
    let shortest = format!("{value:e}");
    let nearest = format!("{value:.places$e}", places = places(&shortest));
    if nearest.parse() == Ok(value) { nearest } else { shortest }
}

fn float_digits(value: f32) -> String {
    let shortest = format!("{value:e}");
    let nearest = format!("{value:.places$e}", places = places(&shortest));
    if nearest.parse() == Ok(value) { nearest } else { shortest }
}

/// The fewest digits that give the number back, which `scientific` has, with an exponent if there are more
/// than `most` places before the point or four or more zeros behind it.
fn real(value: f64, scientific: &str, most: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    if exponent >= most || exponent < -4 {
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{digits}E{direction}{:02}", exponent.abs());
    }
    let digits = digits.replace('.', "");
    let before = exponent + 1;
    if before <= 0 {
        let zeros = "0".repeat(before.unsigned_abs() as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let before = before as usize;
    if digits.len() <= before {
        return format!("{sign}{digits:0<before$}");
    }
    let (whole, fraction) = digits.split_at(before);
    format!("{sign}{whole}.{fraction}")
}
