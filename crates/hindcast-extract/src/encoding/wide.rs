//! UTF-16, with its mark or without.

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

use super::{DETECTED_BY, FOR_EACH_ZERO, is_text, is_wide};

/// So many characters are whole for each that is damaged where a mark or a declaration says that this is UTF-16.
const WHOLE_IF_DECLARED: usize = 3;

/// The same where nothing says so.
const WHOLE_IF_NOT: usize = 100;

/// Of less characters nobody can tell that they are Chinese or Japanese.
const FEWEST: usize = 12;

/// One in so many characters belongs to no text in Chinese or Japanese.
const FOR_EACH_STRANGER: usize = 33;

/// One in so many characters is a sign, a space or kana in every text.
const FOR_EACH_SIGN: usize = 50;

/// What stands behind a byte order mark.
pub(super) fn marked(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    decode(encoding, bytes, WHOLE_IF_DECLARED)
}

/// What somebody else says is UTF-16, which plain `UTF-16` does not tell the order of.
pub(super) fn declared(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    if !is_wide(encoding) {
        return None;
    }
    // Servers say this of files in UTF-8, too, and leave open which byte of two comes first.
    let by_looks = by_zeros(bytes).or_else(|| by_letters(bytes));
    let encoding = by_looks.or_else(|| std::str::from_utf8(bytes).is_err().then_some(encoding))?;
    decode(encoding, bytes, WHOLE_IF_DECLARED)
}

/// UTF-16 by how its bytes look.
pub(super) fn unmarked(bytes: &[u8]) -> Option<String> {
    let encoding = by_zeros(bytes).or_else(|| by_letters(bytes))?;
    decode(encoding, bytes, WHOLE_IF_NOT)
}

/// With replacement characters for what is damaged, if it is not too much: half a character at the end, or a surrogate alone.
fn decode(encoding: &'static Encoding, bytes: &[u8], whole_for_each: usize) -> Option<String> {
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    let (mut all, mut bad, mut zeros) = (0, 0, 0);
    for char in text.chars() {
        all += 1;
        bad += usize::from(char == char::REPLACEMENT_CHARACTER);
        zeros += usize::from(char == '\0');
    }
    // Half a character is missing from files that were cut, however short.
    let cut = bytes.len() % 2;
    let is_whole =
        bad.saturating_sub(cut) * whole_for_each <= all - bad && all - bad >= bad * WHOLE_IF_DECLARED;
    if !is_whole || zeros * FOR_EACH_ZERO > all {
        return None;
    }
    let text = if zeros > 0 { text.replace('\0', " ") } else { text.into_owned() };
    is_text(&text).then_some(text)
}

/// Of every two bytes of most texts one is zero, always the same.
fn by_zeros(bytes: &[u8]) -> Option<&'static Encoding> {
    let pairs = bytes[..bytes.len().min(DETECTED_BY)].as_chunks::<2>().0;
    if pairs.len() < 2 {
        return None;
    }
    let zeros = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count() * 10;
    let (first, second) = (zeros(0), zeros(1));
    if second > pairs.len() * 3 && first < pairs.len() / 2 {
        Some(UTF_16LE)
    } else if first > pairs.len() * 3 && second < pairs.len() / 2 {
        Some(UTF_16BE)
    } else {
        None
    }
}

/// Chinese and Japanese have few zeros, but bytes that no text has otherwise, and nothing but their own letters and signs.
fn by_letters(bytes: &[u8]) -> Option<&'static Encoding> {
    let bytes = &bytes[..bytes.len().min(DETECTED_BY)];
    let controls = bytes.iter().filter(|byte| byte.is_ascii_control() && !b"\t\n\r".contains(byte)).count();
    // Any two letters of ASCII would be one of Chinese.
    if controls * FOR_EACH_ZERO <= bytes.len() {
        return None;
    }
    let pairs = bytes.as_chunks::<2>().0;
    let is_read = |unit: fn([u8; 2]) -> u16| {
        let (mut strangers, mut signs) = (0, 0);
        for pair in pairs {
            match unit(*pair) {
                0x4e00..=0x9fff => {}
                0x09 | 0x0a | 0x0d | 0x20..=0x7e | 0x3000..=0x30ff | 0xff00..=0xffef => signs += 1,
                _ => strangers += 1,
            }
        }
        pairs.len() >= FEWEST
            && strangers * FOR_EACH_STRANGER <= pairs.len()
            && signs * FOR_EACH_SIGN >= pairs.len()
    };
    match (is_read(u16::from_le_bytes), is_read(u16::from_be_bytes)) {
        (true, false) => Some(UTF_16LE),
        (false, true) => Some(UTF_16BE),
        _ => None,
    }
}
