//! Numbers and texts as Python writes them.

use std::fmt::Write as _;

/// A number as `repr` writes it: as short as possible, with an exponent where it is very large or small.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

pub(crate) fn complex(real: f64, imaginary: f64) -> String {
    let part = |value: f64| float(value).trim_end_matches(".0").to_owned();
    let sign = if imaginary.is_sign_negative() { "" } else { "+" };
    if real == 0.0 && real.is_sign_positive() {
        format!("{}j", part(imaginary))
    } else {
        format!("({}{sign}{}j)", part(real), part(imaginary))
    }
}

/// The quotes that need fewer escapes.
pub(crate) fn quote_for(has: impl Fn(char) -> bool) -> char {
    if has('\'') && !has('"') { '"' } else { '\'' }
}

/// A text as `repr` writes it.
/// What stands for the halves of pairs of UTF-16.
pub(crate) const SURROGATES: u32 = 0x10_f000;

pub(crate) fn quoted(text: &str) -> String {
    let quote = quote_for(|letter| text.contains(letter));
    let mut out = String::from(quote);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            letter if letter == quote => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(out, "\\x{:02x}", letter as u32);
            }
            letter if (SURROGATES..SURROGATES + 0x800).contains(&(letter as u32)) => {
                let _ = write!(out, "\\u{:04x}", 0xd800 + (letter as u32 - SURROGATES));
            }
            letter => out.push(letter),
        }
    }
    out.push(quote);
    out
}

pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    let quote = quote_for(|letter| bytes.contains(&(letter as u8)));
    let mut out = String::from(quote);
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            byte if char::from(byte) == quote => out.extend(['\\', quote]),
            0x20..=0x7e => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let written: [(f64, &str); 10] = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (12.5, "12.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e300, "1e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in written {
            assert_eq!(float(value), expected);
        }
        assert_eq!(complex(0.0, 1.0), "1j");
        assert_eq!(complex(1.5, -2.0), "(1.5-2j)");
    }

    #[test]
    fn texts_are_quoted_as_python_quotes_them() {
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("'\"\n\u{1}é"), "'\\'\"\\n\\x01é'");
        assert_eq!(quoted_bytes(b"a'\xff\\"), "\"a'\\xff\\\\\"");
    }
}
