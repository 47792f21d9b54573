//! Text in the encodings of East Asia with a few bytes that are damaged.

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};

use super::{DETECTED_BY, guess, is_text};

/// So many letters are whole for each place that is damaged. A text in another encoding has more such places.
const WHOLE_FOR_EACH_BAD: usize = 20;

/// One letter in so many of Japanese is kana.
const FOR_EACH_KANA: usize = 5;

/// Those whose letters have several bytes: in others no byte can be told to be wrong.
const ENCODINGS: [&Encoding; 6] = [SHIFT_JIS, EUC_JP, GBK, GB18030, BIG5, EUC_KR];

/// The text with replacement characters, if this is plainly its encoding.
pub(super) fn decode(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    if !ENCODINGS.contains(&encoding) {
        return None;
    }
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    (is_mostly_whole(&text) && is_text(&text)).then(|| text.into_owned())
}

/// The same by how the bytes look that are not damaged. `fitting` is what all bytes look like, if it has letters for all.
pub(super) fn decode_by_looks(bytes: &[u8], fitting: Option<&'static Encoding>) -> Option<String> {
    if fitting.is_some_and(is_japanese) {
        return None;
    }
    // Any bytes are letters of encodings with one byte for each.
    let is_doubtful = fitting.is_none_or(Encoding::is_single_byte);
    let sample = &bytes[..bytes.len().min(DETECTED_BY)];
    let fits = |encoding: &&'static Encoding| {
        let (text, _) = encoding.decode_without_bom_handling(sample);
        // Japanese is nearly always valid in Chinese encodings, too, and one bad byte makes it look so.
        if !is_mostly_whole(&text) || !(is_doubtful || is_japanese(encoding) && has_kana(&text)) {
            return false;
        }
        let whole = text.replace(char::REPLACEMENT_CHARACTER, "");
        let (whole, _, _) = encoding.encode(&whole);
        // Detection calls both by the older name.
        let guessed = guess(&whole);
        guessed == *encoding || (guessed == GBK && **encoding == *GB18030)
    };
    decode(ENCODINGS.into_iter().find(fits)?, bytes)
}

fn is_japanese(encoding: &'static Encoding) -> bool {
    encoding == SHIFT_JIS || encoding == EUC_JP
}

/// Whether much of what is not ASCII is kana, which no text in Chinese has.
fn has_kana(text: &str) -> bool {
    let letters = text.chars().filter(|char| !char.is_ascii()).count();
    let kana = text.chars().filter(|char| matches!(char, '\u{3041}'..='\u{30fa}')).count();
    kana * FOR_EACH_KANA >= letters && kana > 0
}

fn is_mostly_whole(text: &str) -> bool {
    let (mut whole, mut bad) = (0, 0);
    for char in text.chars() {
        match char {
            char::REPLACEMENT_CHARACTER => bad += 1,
            // Letters of Japanese in other encodings come out as narrow kana, which are hardly used, and others as nobody's letters.
            '\u{ff61}'..='\u{ff9f}' | '\u{e000}'..='\u{f8ff}' => {}
            char => whole += usize::from(!char.is_ascii()),
        }
    }
    bad * WHOLE_FOR_EACH_BAD <= whole
}
