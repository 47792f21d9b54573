//! Numbers as XPath 1.0 writes and reads them.

/// XPath 1.0, 4.2: digits, a point where it is needed, never an exponent.
pub(super) fn to_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else if number == 0.0 {
        // Negative zero, too.
        "0".into()
    } else {
        // The shortest digits that read as the same number, which is what the standard asks for.
        number.to_string()
    }
}

/// XPath 1.0, 4.4: a sign, digits and a point between white space; anything else is not a number.
pub(super) fn from_text(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    if well_formed { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// The nearest integer; halves go up.
pub(super) fn round(number: f64) -> f64 {
    // Not `floor(number + 0.5)`: the sum can be rounded itself.
    let floor = number.floor();
    if number - floor >= 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_exponents() {
        for (number, text) in [
            (1e21, "1000000000000000000000"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.3333333333333333"),
            (-0.0, "0"),
            (5.0, "5"),
            (1e-7, "0.0000001"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(to_text(number), text);
        }
    }

    #[test]
    fn only_digits_and_a_point_are_numbers() {
        assert_eq!(from_text(" -12.5\n"), -12.5);
        assert_eq!(from_text(".5"), 0.5);
        assert_eq!(from_text("5."), 5.0);
        for text in ["", "1e3", "+1", "1 2", "- 1", ".", "0x10", "Infinity", "1.2.3"] {
            assert!(from_text(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn halves_are_rounded_up() {
        assert_eq!([2.5, -2.5, 0.49999999999999994, -0.4].map(round), [3.0, -2.0, 0.0, 0.0]);
    }
}
