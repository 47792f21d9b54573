//! From the bytes of a file to text.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::error::XmlError;

/// The text of a document in whatever encoding its byte order mark or its declaration names; line ends are `\n`.
///
/// UTF-8 is taken over without a copy.
pub fn decode(bytes: Vec<u8>) -> Result<String, XmlError> {
    transcode(bytes).map(with_newlines)
}

fn transcode(bytes: Vec<u8>) -> Result<String, XmlError> {
    match detect(&bytes)? {
        Detected::Utf8 { mark } => {
            let mut text = String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                XmlError::Encoding(format!("byte {at} is not UTF-8, and no other encoding is declared"))
            })?;
            text.drain(..mark);
            Ok(text)
        }
        Detected::Latin { encoding, label } => single_byte(&bytes, encoding, &label),
        Detected::Other { encoding, mark } => {
            let text: Option<Cow<'_, str>> =
                encoding.decode_without_bom_handling_and_without_replacement(&bytes[mark..]);
            text.map(Cow::into_owned)
                .ok_or_else(|| XmlError::Encoding(format!("the bytes are not {}", encoding.name())))
        }
    }
}

/// In one go: a large text is there twice for a moment, not three times.
fn with_newlines(text: String) -> String {
    if memchr::memchr(b'\r', text.as_bytes()).is_none() {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = memchr::memchr(b'\r', rest.as_bytes()) {
        clean.push_str(&rest[..at]);
        clean.push('\n');
        let after = &rest[at + 1..];
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    clean.push_str(rest);
    clean
}

enum Detected {
    Utf8 { mark: usize },
    Latin { encoding: &'static Encoding, label: String },
    Other { encoding: &'static Encoding, mark: usize },
}

/// XML 1.0, appendix F: the mark first, then what the declaration says.
fn detect(bytes: &[u8]) -> Result<Detected, XmlError> {
    let other = |encoding, mark| Ok(Detected::Other { encoding, mark });
    match bytes {
        [0xEF, 0xBB, 0xBF, ..] => return Ok(Detected::Utf8 { mark: 3 }),
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] | [0, 0, 0, b'<', ..] | [b'<', 0, 0, 0, ..] => {
            return Err(XmlError::Encoding("UTF-32 is not read".into()));
        }
        [0xFF, 0xFE, ..] => return other(UTF_16LE, 2),
        [0xFE, 0xFF, ..] => return other(UTF_16BE, 2),
        [b'<', 0, ..] => return other(UTF_16LE, 0),
        [0, b'<', ..] => return other(UTF_16BE, 0),
        _ => {}
    }
    let Some(label) = declared(bytes) else { return Ok(Detected::Utf8 { mark: 0 }) };
    let unknown = || XmlError::Encoding(format!("the encoding `{label}` is not known"));
    let encoding = Encoding::for_label(label.as_bytes()).ok_or_else(unknown)?;
    if encoding == UTF_8 {
        return Ok(Detected::Utf8 { mark: 0 });
    }
    if encoding == UTF_16LE || encoding == UTF_16BE {
        return Err(XmlError::Encoding(format!("the declaration says `{label}`, but the bytes are not")));
    }
    if encoding.is_single_byte() {
        return Ok(Detected::Latin { encoding, label: label.to_ascii_lowercase() });
    }
    other(encoding, 0)
}

/// The encoding that `<?xml … encoding="…"?>` names.
fn declared(bytes: &[u8]) -> Option<String> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let declaration = &rest[..memchr::memmem::find(rest, b"?>")?];
    let declaration = std::str::from_utf8(declaration).ok()?;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    value[1..].split_once(quote).map(|(label, _)| label.to_owned())
}

/// Browsers read `ISO-8859-1` as windows-1252; XML means what it says, and there 0x80 to 0x9F are control characters.
fn single_byte(bytes: &[u8], encoding: &'static Encoding, label: &str) -> Result<String, XmlError> {
    let ascii = label.contains("ascii");
    let standard = ascii || label.starts_with("iso") || label.starts_with("latin");
    let decoded: Vec<Option<char>> = (0..=u8::MAX)
        .map(|byte| {
            if standard && (0x80..=0x9F).contains(&byte) {
                return (!ascii).then_some(char::from(byte));
            }
            let text =
                encoding.decode_without_bom_handling_and_without_replacement(std::slice::from_ref(&byte));
            text.and_then(|text| text.chars().next())
        })
        .collect();
    let length = bytes.iter().map(|byte| decoded[usize::from(*byte)].map_or(0, char::len_utf8)).sum();
    let mut text = String::with_capacity(length);
    for (at, byte) in bytes.iter().enumerate() {
        let character = decoded[usize::from(*byte)]
            .ok_or_else(|| XmlError::Encoding(format!("byte {at} is not {}", encoding.name())))?;
        text.push(character);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        decode(bytes.to_vec()).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn marks_decide_before_declarations() {
        assert_eq!(text(b"\xEF\xBB\xBF<a/>"), "<a/>");
        assert_eq!(text(b"\xFF\xFE<\0a\0/\0>\0"), "<a/>");
        assert_eq!(text(b"\xFE\xFF\0<\0a\0/\0>"), "<a/>");
        assert_eq!(text(b"<\0a\0/\0>\0"), "<a/>");
    }

    #[test]
    fn declared_encodings_are_transcoded() {
        for (label, byte, expected) in [
            ("ISO-8859-1", 0xE9, 'é'),
            ("iso-8859-2", 0xB1, 'ą'),
            ("ISO-8859-15", 0xA4, '€'),
            ("ISO-8859-7", 0xE1, 'α'),
            ("windows-1251", 0xC4, 'Д'),
            ("windows-1252", 0x80, '€'),
            ("ISO-8859-1", 0x80, '\u{80}'),
            ("windows-1250", 0x9A, 'š'),
        ] {
            let mut bytes = format!("<?xml version='1.0' encoding=\"{label}\"?><a>").into_bytes();
            bytes.push(byte);
            assert!(text(&bytes).ends_with(expected), "{label}: {}", text(&bytes));
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_said() {
        assert!(text(b"<a>\xFF</a>").contains("byte 3 is not UTF-8"));
        assert!(text(b"<?xml version='1.0' encoding='klingon'?><a/>").contains("`klingon` is not known"));
        assert!(text(b"\0\0\0<").contains("UTF-32"));
        assert!(text(b"<?xml version='1.0' encoding='utf-16'?><a/>").contains("but the bytes are not"));
    }

    #[test]
    fn line_ends_become_newlines() {
        assert_eq!(text(b"<a>\r\n\r</a>"), "<a>\n\n</a>");
        assert_eq!(text(b"\r\r\nx\n\r"), "\n\nx\n\n");
    }
}
