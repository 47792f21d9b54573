//! Text in any encoding that is in use, as it declares itself or as its bytes look.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

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
    match Encoding::for_bom(bytes) {
        Some((encoding, mark)) if encoding != UTF_8 => decode(encoding, &bytes[mark..]),
        Some((utf_8, mark)) => with_few_zeros(&bytes[mark..], Some(utf_8)).map_err(|error| match error {
            ExtractError::NotText(at) => ExtractError::NotText(at + mark),
            error => error,
        }),
        None => with_few_zeros(bytes, declared(bytes)),
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
    if let Some(wide) = looks_wide(bytes) {
        return decode(wide, bytes);
    }
    if let Some(zero) = zero_in(bytes) {
        return Err(ExtractError::NotText(zero));
    }
    if let Some(text) = damaged_utf_8(bytes, declared) {
        return Ok(text);
    }
    if let Some(Ok(text)) =
        declared.filter(|encoding| *encoding != UTF_8).map(|encoding| decode(encoding, bytes))
    {
        return Ok(text);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(DETECTED_BY)], true);
    decode(detector.guess(None, Utf8Detection::Deny), bytes).map_err(|_| ExtractError::NotText(invalid_at))
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

/// UTF-16 without a mark: of every two bytes of most texts one is zero, always the same.
fn looks_wide(bytes: &[u8]) -> Option<&'static Encoding> {
    let pairs = bytes[..bytes.len().min(DETECTED_BY)].as_chunks::<2>().0;
    if pairs.len() < 2 || !bytes.len().is_multiple_of(2) {
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
mod tests {
    use encoding_rs::{
        BIG5, EUC_JP, EUC_KR, GB18030, ISO_8859_2, KOI8_R, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252,
    };

    use super::*;

    const GERMAN: &str = "Der Fluß trägt schöne große Kähne über die Grenze hinaus, wo Bäume blühen.";
    const FRENCH: &str = "Les élèves ont été reçus à l'école où le maître lisait déjà.";
    const POLISH: &str = "Zażółć gęślą jaźń, a potem pójdź, kińże tę chmurność w głąb flaszy.";
    const RUSSIAN: &str = "Съешь ещё этих мягких французских булок, да выпей же чаю. Он шёл по улице.";
    const JAPANESE: &str = "これは日本語の文章です。文字コードを正しく判定できるかどうかを確かめます。";
    const CHINESE: &str = "这是一篇中文文章，用来检查编码是否能够正确识别。北京今天天气很好。";
    const TRADITIONAL: &str = "這是一篇中文文章，用來檢查編碼是否能夠正確識別。臺北今天天氣很好。";
    const KOREAN: &str = "이것은 한국어 문장입니다. 문자 인코딩을 올바르게 인식하는지 확인합니다.";

    #[test]
    fn texts_without_a_declaration_are_read_by_how_they_look() {
        let cases = [
            (WINDOWS_1252, GERMAN),
            (WINDOWS_1252, FRENCH),
            (ISO_8859_2, POLISH),
            (WINDOWS_1251, RUSSIAN),
            (KOI8_R, RUSSIAN),
            (SHIFT_JIS, JAPANESE),
            (EUC_JP, JAPANESE),
            (GB18030, CHINESE),
            (BIG5, TRADITIONAL),
            (EUC_KR, KOREAN),
        ];
        for (encoding, text) in cases {
            let (bytes, _, _) = encoding.encode(text);
            assert_eq!(decoded(&bytes).as_deref(), Ok(text), "{}", encoding.name());
        }
    }

    #[test]
    fn utf_16_is_read_with_and_without_its_mark() {
        for text in ["plain words", GERMAN] {
            let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            for (mark, bytes) in
                [(&[0xff, 0xfe][..], &little), (&[0xfe, 0xff], &big), (&[], &little), (&[], &big)]
            {
                assert_eq!(decoded(&[mark, bytes].concat()).as_deref(), Ok(text));
            }
        }
    }

    #[test]
    fn a_declaration_decides_where_the_bytes_could_be_either() {
        for (declaration, encoding) in [
            ("<meta charset=\"iso-8859-2\">", ISO_8859_2),
            ("<?xml version='1.0' encoding='KOI8-R'?>", KOI8_R),
            ("# -*- coding: shift_jis -*-", SHIFT_JIS),
            ("<meta http-equiv=Content-Type content='text/html; charset=GB18030'>", GB18030),
        ] {
            let word = if encoding == KOI8_R {
                "Да"
            } else if encoding == ISO_8859_2 {
                "łąk"
            } else {
                "日本"
            };
            let text = format!("{declaration}\n{word}");
            let (bytes, _, has_errors) = encoding.encode(&text);
            assert!(!has_errors);
            assert_eq!(decoded(&bytes).as_deref(), Ok(&*text), "{declaration}");
        }
        let wrong = "<meta charset=iso-8859-1>\nüber";
        assert_eq!(decoded(wrong.as_bytes()).as_deref(), Ok(wrong), "it is UTF-8, whatever it says");
    }

    #[test]
    fn the_mark_of_utf_8_is_no_part_of_the_text() {
        assert_eq!(decoded("\u{feff}# Über".as_bytes()).as_deref(), Ok("# Über"));
        assert_eq!(decoded(b"\xef\xbb\xbf").as_deref(), Ok(""));
        assert_eq!(decoded(b"\xef\xbb\xbfab\0cd"), Err(ExtractError::NotText(5)));
    }

    #[test]
    fn japanese_in_seven_bits_is_read_without_a_declaration_and_colours_are_kept() {
        let (bytes, _, has_errors) = encoding_rs::ISO_2022_JP.encode(JAPANESE);
        assert!(!has_errors && bytes.is_ascii());
        assert_eq!(decoded(&bytes).as_deref(), Ok(JAPANESE));
        for coloured in ["\x1b[31mred\x1b[0m", "\x1b$Bodd", "echo \x1b$"] {
            assert_eq!(decoded(coloured.as_bytes()).as_deref(), Ok(coloured));
        }
    }

    #[test]
    fn one_bad_byte_does_not_make_a_text_another_encoding() {
        let with = |text: &str, at: usize, bad: &[u8]| {
            [&text.as_bytes()[..at], bad, &text.as_bytes()[at..]].concat()
        };
        for text in [&*format!("{GERMAN}\n").repeat(50), RUSSIAN, JAPANESE, CHINESE, "é, à, ü", GERMAN] {
            let end = text.len();
            assert_eq!(decoded(&with(text, end, b"\xff")).as_deref(), Ok(&*format!("{text}\u{fffd}")));
            assert_eq!(decoded(&with(text, end, b"\xc3")).as_deref(), Ok(&*format!("{text}\u{fffd}")), "cut");
            assert_eq!(decoded(&with(text, 0, b"\xff")).as_deref(), Ok(&*format!("\u{fffd}{text}")));
        }
        let declared = "<meta charset=\"utf-8\"><p>Köln</p>";
        let bad = with(declared, declared.len(), b"\xff");
        assert_eq!(decoded(&bad).as_deref(), Ok(&*format!("{declared}\u{fffd}")));
        let marked = with("\u{feff}Köln", 3, b"\xff");
        assert_eq!(decoded(&marked).as_deref(), Ok("\u{fffd}Köln"));
        for text in ["caf\u{e9} noir", "na\u{ef}ve \u{fc}ber"] {
            let (bytes, _, _) = WINDOWS_1252.encode(text);
            assert_eq!(decoded(&bytes).as_deref(), Ok(text), "a short text of one-byte letters");
        }
    }

    #[test]
    fn a_few_zero_bytes_in_a_text_are_spaces() {
        let log = "Nov 19 05:02:01 host kernel: it is well\n".repeat(50);
        let damaged = [&log.as_bytes()[..1100], &[0; 4], &log.as_bytes()[1100..]].concat();
        let expected = format!("{}    {}", &log[..1100], &log[1100..]);
        assert_eq!(decoded(&damaged).as_deref(), Ok(&*expected));
        let german = format!("{GERMAN}\n").repeat(20);
        assert_eq!(decoded(format!("{german}\0").as_bytes()).as_deref(), Ok(&*format!("{german} ")));
        let many = [log.as_bytes(), &[0; 40]].concat();
        assert_eq!(decoded(&many), Err(ExtractError::NotText(log.len())));
        let binary: Vec<u8> = (0..4000_u32).map(|at| if at == 7 { 0 } else { (at % 31 + 1) as u8 }).collect();
        assert_eq!(decoded(&binary), Err(ExtractError::NotText(7)));
    }

    #[test]
    fn what_is_no_text_says_where() {
        assert_eq!(decoded(b"ab\0cd"), Err(ExtractError::NotText(2)));
        let noise: Vec<u8> = (1..=255).cycle().take(4000).map(|byte: u8| byte.wrapping_mul(37)).collect();
        assert!(decoded(&noise).is_err());
        assert!(decoded(b"\xff\xfea").is_err(), "half a character");
    }
}
