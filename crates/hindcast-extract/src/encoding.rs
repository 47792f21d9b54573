//! Text in any encoding that is in use, as it declares itself or as its bytes look.

mod damaged;
mod wide;

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

use crate::ExtractError;

/// How far into a file its declaration is looked for.
const DECLARED_WITHIN: usize = 2048;

/// So many bytes tell an encoding as well as all of them.
const DETECTED_BY: usize = 1 << 20;

/// Damaged UTF-8 is still UTF-8 where so many of its letters are whole for each byte that belongs to none.
const WHOLE_FOR_EACH_BAD: usize = 3;

/// One zero byte in so many is a damage of a text; with more it is no text.
const FOR_EACH_ZERO: usize = 200;

/// The text, without a byte order mark. Borrowed where the bytes are UTF-8 already.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, ExtractError> {
    decoded_as(bytes, None)
}

/// The same, where whoever sent the bytes named their encoding, such as `Shift_JIS`. What the bytes say without doubt is believed
/// before that: their mark, or that they are UTF-8.
pub(crate) fn decoded_as<'a>(bytes: &'a [u8], charset: Option<&str>) -> Result<Cow<'a, str>, ExtractError> {
    match Encoding::for_bom(bytes) {
        Some((encoding, mark)) if encoding != UTF_8 => {
            wide::marked(encoding, &bytes[mark..]).map(Cow::Owned).ok_or(ExtractError::NotText(0))
        }
        Some((utf_8, mark)) => with_few_zeros(&bytes[mark..], Some(utf_8)).map_err(|error| match error {
            ExtractError::NotText(at) => ExtractError::NotText(at + mark),
            error => error,
        }),
        None => {
            let sent = charset.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
            if let Some(text) = sent.and_then(|encoding| wide::declared(encoding, bytes)) {
                return Ok(Cow::Owned(text));
            }
            with_few_zeros(bytes, sent.filter(|encoding| !is_wide(encoding)).or_else(|| declared(bytes)))
        }
    }
}

/// A few zero bytes, as a log has after a power failure, become spaces.
fn with_few_zeros<'a>(
    bytes: &'a [u8],
    declared: Option<&'static Encoding>,
) -> Result<Cow<'a, str>, ExtractError> {
    let zeros = bytes.iter().filter(|byte| **byte == 0).count();
    if zeros == 0 || zeros * FOR_EACH_ZERO > bytes.len() {
        return unmarked(bytes, declared);
    }
    let spaced: Vec<u8> = bytes.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect();
    match unmarked(&spaced, declared) {
        Ok(text) if is_text(&text) => Ok(Cow::Owned(text.into_owned())),
        _ => unmarked(bytes, declared),
    }
}

fn unmarked<'a>(bytes: &'a [u8], declared: Option<&'static Encoding>) -> Result<Cow<'a, str>, ExtractError> {
    if let Some(text) = escaped_japanese(bytes) {
        return Ok(text);
    }
    // A seven-bit encoding is valid UTF-8 too, and says something else.
    let is_escaped =
        declared.is_some_and(|encoding| encoding == encoding_rs::ISO_2022_JP) && bytes.contains(&0x1b);
    let invalid_at = match std::str::from_utf8(bytes) {
        Ok(text) if !is_escaped => match zero_in(bytes) {
            None => return Ok(Cow::Borrowed(text)),
            Some(zero) => zero,
        },
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    if let Some(text) = wide::unmarked(bytes) {
        return Ok(Cow::Owned(text));
    }
    if let Some(zero) = zero_in(bytes) {
        return Err(ExtractError::NotText(zero));
    }
    if let Some(text) = damaged_utf_8(bytes, declared) {
        return Ok(text);
    }
    let declared = declared.filter(|encoding| *encoding != UTF_8);
    if let Some(encoding) = declared {
        if let Ok(text) = decode(encoding, bytes) {
            return Ok(text);
        }
        if let Some(text) = damaged::decode(encoding, bytes) {
            return Ok(Cow::Owned(text));
        }
    }
    let guessed = guess(bytes);
    let text = decode(guessed, bytes);
    if let Some(text) = damaged::decode_by_looks(bytes, text.is_ok().then_some(guessed)) {
        return Ok(Cow::Owned(text));
    }
    text.map_err(|_| ExtractError::NotText(invalid_at))
}

/// The encoding that the beginning of the bytes looks like.
fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(DETECTED_BY)], true);
    detector.guess(None, Utf8Detection::Deny)
}

/// UTF-8 with a few bytes that are not, which become replacement characters. Letters of other encodings are whole in it by chance only.
fn damaged_utf_8<'a>(bytes: &'a [u8], declared: Option<&'static Encoding>) -> Option<Cow<'a, str>> {
    if declared.is_some_and(|encoding| encoding != UTF_8) {
        return None;
    }
    let (mut whole, mut bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|char| !char.is_ascii()).count();
        bad += chunk.invalid().len();
    }
    let needed = if declared.is_some() { bad } else { bad * WHOLE_FOR_EACH_BAD };
    let text = (whole >= needed).then(|| String::from_utf8_lossy(bytes))?;
    is_text(&text).then_some(text)
}

/// ISO-2022-JP by the escapes that switch to its characters. It has seven bits, so it is valid UTF-8, too.
fn escaped_japanese(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let escapes =
        bytes.contains(&0x1b) && bytes.windows(3).any(|three| matches!(three, b"\x1b$B" | b"\x1b$@"));
    if !escapes || !bytes.is_ascii() || zero_in(bytes).is_some() {
        return None;
    }
    decode(encoding_rs::ISO_2022_JP, bytes).ok()
}

fn is_wide(encoding: &Encoding) -> bool {
    encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE
}

fn zero_in(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

/// Only what has no error and looks like text: other bytes have an encoding that fits, too.
fn decode<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Result<Cow<'a, str>, ExtractError> {
    let (text, has_errors) = encoding.decode_without_bom_handling(bytes);
    if has_errors || text.contains('\0') || !is_text(&text) {
        return Err(ExtractError::NotText(0));
    }
    Ok(text)
}

fn is_text(text: &str) -> bool {
    let is_control = |char: &char| char.is_control() && !"\t\n\r\u{c}\u{1b}\u{85}".contains(*char);
    let controls = text.chars().filter(is_control).count();
    controls * 200 <= text.chars().count()
}

/// What the file says of itself: `charset=` in HTML, `encoding=` in XML, `coding:` in source code.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARED_WITHIN)];
    let head: String = head.iter().map(|&byte| char::from(byte).to_ascii_lowercase()).collect();
    ["charset=", "encoding=", "coding:", "coding="].iter().find_map(|mark| {
        let after = &head[head.find(mark)? + mark.len()..];
        let after = after.trim_start_matches([' ', '"', '\'']);
        let end = after.find(|char: char| !(char.is_ascii_alphanumeric() || "-_.:".contains(char)));
        Encoding::for_label(&after.as_bytes()[..end.unwrap_or(after.len())])
    })
}

#[cfg(test)]
mod tests;
