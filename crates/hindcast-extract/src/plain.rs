//! Formats that are text already.

use std::borrow::Cow;

use crate::{ExtractError, Extracted, encoding::decoded_as};

/// The bytes as they are, if they are text in UTF-8; text in other encodings, or with a byte order mark, is made readable.
/// Whoever sent them may have named their encoding.
pub(crate) fn extract(bytes: &[u8], charset: Option<&str>) -> Result<Extracted, ExtractError> {
    let text = match decoded_as(bytes, charset)? {
        Cow::Borrowed(text) if text.len() == bytes.len() => None,
        text => Some(text.into_owned()),
    };
    Ok(Extracted { text, ..Extracted::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_and_what_is_no_text_says_where() {
        assert_eq!(extract(b"plain", None).unwrap().text, None, "served as it came");
        assert_eq!(extract("\u{feff}plain".as_bytes(), None).unwrap().text.unwrap(), "plain");
        assert_eq!(extract(b"caf\xe9 noir", None).unwrap().text.unwrap(), "café noir");
        assert_eq!(extract(b"ab\0cd", None), Err(ExtractError::NotText(2)));
    }
}
