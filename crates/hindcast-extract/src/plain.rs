//! Formats that are text already.

use std::borrow::Cow;

use crate::{ExtractError, Extracted};

/// The bytes as they are, if they are text; UTF-16 is made readable.
pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let text = match decoded(bytes)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    Ok(Extracted { text, ..Extracted::default() })
}

/// The text; UTF-8, or UTF-16 with its mark.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, ExtractError> {
    let units = |unit: fn([u8; 2]) -> u16| bytes[2..].as_chunks().0.iter().map(move |pair| unit(*pair));
    match bytes {
        [0xFF, 0xFE, ..] => utf_16(units(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => utf_16(units(u16::from_be_bytes)),
        _ => {
            let text =
                std::str::from_utf8(bytes).map_err(|error| ExtractError::NotText(error.valid_up_to()))?;
            // Valid UTF-8, but no text has it, and what is binary often does.
            if let Some(zero) = text.bytes().position(|byte| byte == 0) {
                return Err(ExtractError::NotText(zero));
            }
            Ok(Cow::Borrowed(text))
        }
    }
}

fn utf_16(units: impl Iterator<Item = u16>) -> Result<Cow<'static, str>, ExtractError> {
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.map(Cow::Owned).map_err(|_| ExtractError::NotText(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_and_what_is_no_text_says_where() {
        assert_eq!(extract(b"plain").unwrap().text, None, "served as it came");
        assert_eq!(extract(b"ab\xffcd"), Err(ExtractError::NotText(2)));
        assert_eq!(extract(b"ab\0cd"), Err(ExtractError::NotText(2)));
        let wide: Vec<_> = "\u{feff}hé".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(extract(&wide).unwrap().text.unwrap(), "hé");
    }
}
