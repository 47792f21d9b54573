//! Letters with accents: `\"a`, `\'{e}`, `\c{c}`.

/// By the sign of an accent: the combining mark, and letters with what they become.
const ACCENTS: [(char, char, &str); 14] = [
    ('"', '\u{308}', "aäeëiïoöuüyÿAÄEËIÏOÖUÜYŸ"),
    ('\'', '\u{301}', "aáeéiíoóuúyýcćnńsśzźlĺrŕAÁEÉIÍOÓUÚYÝCĆNŃSŚZŹ"),
    ('`', '\u{300}', "aàeèiìoòuùnǹAÀEÈIÌOÒUÙ"),
    ('^', '\u{302}', "aâeêiîoôuûcĉgĝhĥjĵsŝwŵyŷAÂEÊIÎOÔUÛCĈGĜHĤJĴSŜ"),
    ('~', '\u{303}', "aãnñoõiĩuũAÃNÑOÕIĨUŨ"),
    ('=', '\u{304}', "aāeēiīoōuūAĀEĒIĪOŌUŪ"),
    ('.', '\u{307}', "cċeėgġzżIİCĊEĖGĠZŻ"),
    ('c', '\u{327}', "cçsştţgģkķlļnņrŗeȩCÇSŞTŢGĢKĶLĻNŅRŖ"),
    ('v', '\u{30c}', "cčdďeěnňrřsštťzžCČDĎEĚNŇRŘSŠTŤZŽ"),
    ('u', '\u{306}', "aăeĕgğiĭoŏuŭAĂEĔGĞOŎUŬ"),
    ('H', '\u{30b}', "oőuűOŐUŰ"),
    ('k', '\u{328}', "aąeęiįuųAĄEĘIĮUŲ"),
    ('r', '\u{30a}', "aåuůAÅUŮ"),
    ('d', '\u{323}', "aạeẹsṣtṭAẠEẸ"),
];

/// A letter and its accent from behind the backslash on, with the bytes that they take.
pub(super) fn read(source: &str) -> Option<(String, usize)> {
    let sign = source.chars().next()?;
    let (_, mark, letters) = ACCENTS.iter().find(|(known, ..)| *known == sign)?;
    let mut rest = &source[sign.len_utf8()..];
    if sign.is_alphabetic() {
        // `\c c` or `\c{c}`, but not `\cite`.
        let spaced = rest.trim_start_matches(' ');
        if spaced.len() == rest.len() && !rest.starts_with(['{', '\\']) {
            return None;
        }
        rest = spaced;
    }
    let inner = rest.strip_prefix('{');
    let is_braced = inner.is_some();
    let inner = inner.unwrap_or(rest);
    // The letters without a dot are those with an accent instead.
    let dotless = ["\\i", "\\j"].iter().find(|name| inner.starts_with(**name));
    let (letter, length) = match dotless {
        Some(name) => (name.chars().last()?, name.len()),
        None => {
            inner.chars().next().filter(|char| char.is_alphabetic()).map(|char| (char, char.len_utf8()))?
        }
    };
    let mut rest = &inner[length..];
    if is_braced {
        rest = rest.strip_prefix('}')?;
    } else if dotless.is_some() {
        if rest.starts_with(|char: char| char.is_ascii_alphabetic()) {
            return None;
        }
        rest = rest.strip_prefix("{}").unwrap_or_else(|| rest.trim_start_matches(' '));
    }
    let mut known = letters.chars().skip_while(|known| *known != letter).skip(1);
    let is_base = letters.chars().step_by(2).any(|known| known == letter);
    let accented = match known.next().filter(|_| is_base) {
        Some(accented) => accented.to_string(),
        None => format!("{letter}{mark}"),
    };
    Some((accented, source.len() - rest.len()))
}
