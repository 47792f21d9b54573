use encoding_rs::{BIG5, EUC_JP, EUC_KR, GB18030, ISO_8859_2, KOI8_R, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};

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
    let with =
        |text: &str, at: usize, bad: &[u8]| [&text.as_bytes()[..at], bad, &text.as_bytes()[at..]].concat();
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

/// A text in an encoding, with a byte put in every so many.
fn damaged(encoding: &'static Encoding, text: &str, bad: u8, every: usize) -> Vec<u8> {
    let (bytes, _, has_errors) = encoding.encode(text);
    assert!(!has_errors);
    let ends_line = |at: usize| bytes.get(at.wrapping_sub(1)) == Some(&b'\n');
    let mut lines = 0;
    let mut damaged = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        if ends_line(at) {
            lines += 1;
            if lines % every == 0 {
                damaged.push(bad);
            }
        }
        damaged.push(*byte);
    }
    damaged
}

#[test]
fn a_few_bad_bytes_in_a_text_of_east_asia_are_replaced() {
    for (encoding, text) in
        [(SHIFT_JIS, JAPANESE), (EUC_JP, JAPANESE), (GB18030, CHINESE), (BIG5, TRADITIONAL), (EUC_KR, KOREAN)]
    {
        let line = format!("{text}\n");
        let bytes = damaged(encoding, &line.repeat(20), 0xff, 6);
        let expected = format!("{}\u{fffd}", line.repeat(6)).repeat(3) + &line.repeat(2);
        assert_eq!(decoded(&bytes).as_deref(), Ok(&*expected), "{}", encoding.name());
        // A file that was cut ends with half a letter.
        let (whole, _, _) = encoding.encode(text);
        let lead = if encoding == SHIFT_JIS { 0x93 } else { 0xc4 };
        let cut = [&whole, &[lead][..]].concat();
        assert_eq!(decoded(&cut).as_deref(), Ok(&*format!("{text}\u{fffd}")), "{}", encoding.name());
        let named = format!("charset={}\n{text}", encoding.name());
        let (whole, _, _) = encoding.encode(&named);
        let bad = [&whole, &[0xff][..]].concat();
        assert_eq!(decoded(&bad).as_deref(), Ok(&*format!("{named}\u{fffd}")), "{}", encoding.name());
    }
}

/// Read so, all bytes are Chinese without one error.
#[test]
fn damaged_japanese_is_not_taken_for_chinese() {
    let long = format!("{JAPANESE}\n").repeat(20);
    for encoding in [SHIFT_JIS, EUC_JP] {
        let (bytes, _, _) = encoding.encode(&long);
        let bad = [&bytes, &[0xa0, 0xfe, b'\n'][..], &bytes].concat();
        let text = decoded(&bad).unwrap();
        assert!(text.starts_with(&long) && text.ends_with(&long), "{}: {text}", encoding.name());
        assert!(text.contains('\u{fffd}'), "{}", encoding.name());
    }
}

#[test]
fn texts_of_europe_are_not_taken_for_damaged_ones_of_asia() {
    for (encoding, text) in [
        (WINDOWS_1252, GERMAN),
        (WINDOWS_1252, FRENCH),
        (ISO_8859_2, POLISH),
        (WINDOWS_1251, RUSSIAN),
        (KOI8_R, RUSSIAN),
    ] {
        let long = format!("{text}\n").repeat(30);
        let (bytes, _, _) = encoding.encode(&long);
        assert_eq!(decoded(&bytes).as_deref(), Ok(&*long), "{}", encoding.name());
    }
}

fn wide(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn utf_16_with_half_a_character_or_half_a_pair_is_read() {
    let text = format!("{GERMAN}\n").repeat(5);
    let pair = format!("{text}\u{fffd}{text}");
    for (unit, mark) in
        [(u16::to_le_bytes as fn(u16) -> [u8; 2], [0xff, 0xfe]), (u16::to_be_bytes, [0xfe, 0xff])]
    {
        let bytes = wide(&text, unit);
        let half = [&bytes[..], &unit(0xd83d), &bytes[..]].concat();
        for mark in [&mark[..], &[]] {
            assert_eq!(
                decoded(&[mark, &bytes, b"x"].concat()).as_deref(),
                Ok(&*format!("{text}\u{fffd}")),
                "an odd number of bytes"
            );
            assert_eq!(decoded(&[mark, &half].concat()).as_deref(), Ok(&*pair), "a surrogate alone");
        }
        let ended = [&mark[..], &bytes, &[0, 0]].concat();
        assert_eq!(decoded(&ended).as_deref(), Ok(&*format!("{text} ")), "an end as C has it");
    }
}

#[test]
fn chinese_and_japanese_in_utf_16_need_no_mark() {
    let mixed = format!("{JAPANESE}\r\nLinux 6.1 {JAPANESE}\r\n");
    for text in [JAPANESE, CHINESE, TRADITIONAL, &mixed] {
        for unit in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            let bytes = wide(text, unit);
            assert_eq!(decoded(&bytes).as_deref(), Ok(text));
            let cut = &bytes[..bytes.len() - 1];
            assert!(decoded(cut).unwrap().ends_with('\u{fffd}'), "{text}");
        }
    }
}

#[test]
fn binary_files_are_not_made_into_utf_16() {
    let mut state = 7_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let noise: Vec<u8> = (0..4000).map(|_| random() as u8).collect();
    let samples: Vec<u8> = (0..4000_u32).flat_map(|at| (0x4e00 + at as u16 * 5).to_le_bytes()).collect();
    let floats: Vec<u8> = (1..2000_u16).flat_map(|at| (f32::from(at) / 7.0).to_le_bytes()).collect();
    let table: Vec<u8> = (0..2000_u32).flat_map(|at| (at * 3).to_le_bytes()).collect();
    let zip = [b"PK\x03\x04\x14\x00\x00\x00\x08\x00".as_slice(), &noise].concat();
    for binary in [noise, samples, floats, table, zip] {
        assert!(decoded(&binary).is_err(), "{:?}", &binary[..40]);
    }
}

#[test]
fn who_sent_a_text_may_name_its_encoding() {
    for (charset, encoding, text) in [
        ("Shift_JIS", SHIFT_JIS, "日本"),
        (" euc-jp ", EUC_JP, "日本"),
        ("koi8-r", KOI8_R, "Да"),
        ("iso-8859-2", ISO_8859_2, "łąk"),
    ] {
        let (bytes, _, _) = encoding.encode(text);
        assert_eq!(decoded_as(&bytes, Some(charset)).as_deref(), Ok(text), "{charset}");
    }
    let (bytes, _, _) = KOI8_R.encode("<meta charset=iso-8859-1>Да");
    assert!(
        decoded_as(&bytes, Some("koi8-r")).unwrap().ends_with("Да"),
        "it counts more than the text's own"
    );
    for charset in ["iso-8859-1", "utf-16", "nonsense", ""] {
        assert_eq!(decoded_as("über".as_bytes(), Some(charset)).as_deref(), Ok("über"), "{charset}");
    }
    let bytes = wide("kurz", u16::to_be_bytes);
    assert_eq!(decoded_as(&bytes, Some("utf-16")).as_deref(), Ok("kurz"));
    let bytes = wide("鷺", u16::to_le_bytes);
    assert_eq!(decoded_as(&bytes, Some("utf-16le")).as_deref(), Ok("鷺"));
    let (bytes, _, _) = SHIFT_JIS.encode(JAPANESE);
    assert_eq!(decoded_as(&bytes, Some("utf-8")).as_deref(), Ok(JAPANESE), "it does not fit");
}
