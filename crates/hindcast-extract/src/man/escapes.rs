//! What the escapes of `troff` stand for.

use std::collections::HashMap;

/// Signs by their names in `groff_char(7)`. Quotation marks and dashes that are typed are those of a keyboard.
const SIGNS: &[(&str, &str)] = &[
    ("aq", "'"),
    ("cq", "'"),
    ("oq", "'"),
    ("dq", "\""),
    ("lq", "\""),
    ("rq", "\""),
    ("Bq", "„"),
    ("bq", "‚"),
    ("Fo", "«"),
    ("Fc", "»"),
    ("fo", "‹"),
    ("fc", "›"),
    ("r!", "¡"),
    ("r?", "¿"),
    ("em", "—"),
    ("en", "–"),
    ("hy", "-"),
    ("mi", "-"),
    ("-", "-"),
    ("lB", "["),
    ("rB", "]"),
    ("lC", "{"),
    ("rC", "}"),
    ("la", "⟨"),
    ("ra", "⟩"),
    ("<-", "←"),
    ("->", "→"),
    ("<>", "↔"),
    ("da", "↓"),
    ("ua", "↑"),
    ("va", "↕"),
    ("lA", "⇐"),
    ("rA", "⇒"),
    ("hA", "⇔"),
    ("dA", "⇓"),
    ("uA", "⇑"),
    ("ba", "|"),
    ("br", "│"),
    ("bv", "|"),
    ("or", "|"),
    ("ul", "_"),
    ("ru", "_"),
    ("rn", "‾"),
    ("bb", "¦"),
    ("sl", "/"),
    ("rs", "\\"),
    ("ci", "○"),
    ("bu", "•"),
    ("dd", "‡"),
    ("dg", "†"),
    ("lz", "◊"),
    ("sq", "□"),
    ("ps", "¶"),
    ("sc", "§"),
    ("lh", "☜"),
    ("rh", "☞"),
    ("at", "@"),
    ("sh", "#"),
    ("CR", "↵"),
    ("OK", "✓"),
    ("co", "©"),
    ("rg", "®"),
    ("tm", "™"),
    ("Do", "$"),
    ("ct", "¢"),
    ("eu", "€"),
    ("Eu", "€"),
    ("Ye", "¥"),
    ("Po", "£"),
    ("Cs", "¤"),
    ("Fn", "ƒ"),
    ("de", "°"),
    ("%0", "‰"),
    ("fm", "′"),
    ("sd", "″"),
    ("mc", "µ"),
    ("Of", "ª"),
    ("Om", "º"),
    ("AN", "∧"),
    ("OR", "∨"),
    ("no", "¬"),
    ("tno", "¬"),
    ("te", "∃"),
    ("fa", "∀"),
    ("st", "∋"),
    ("3d", "∴"),
    ("tf", "∴"),
    ("12", "½"),
    ("14", "¼"),
    ("34", "¾"),
    ("18", "⅛"),
    ("38", "⅜"),
    ("58", "⅝"),
    ("78", "⅞"),
    ("S1", "¹"),
    ("S2", "²"),
    ("S3", "³"),
    ("pl", "+"),
    ("-+", "∓"),
    ("+-", "±"),
    ("t+-", "±"),
    ("md", "·"),
    ("pc", "·"),
    ("mu", "×"),
    ("tmu", "×"),
    ("c*", "⊗"),
    ("c+", "⊕"),
    ("di", "÷"),
    ("tdi", "÷"),
    ("f/", "⁄"),
    ("**", "∗"),
    ("<=", "≤"),
    (">=", "≥"),
    ("<<", "≪"),
    (">>", "≫"),
    ("eq", "="),
    ("!=", "≠"),
    ("==", "≡"),
    ("ne", "≢"),
    ("=~", "≅"),
    ("|=", "≃"),
    ("ap", "∼"),
    ("~~", "≈"),
    ("~=", "≈"),
    ("pt", "∝"),
    ("es", "∅"),
    ("mo", "∈"),
    ("nm", "∉"),
    ("sb", "⊂"),
    ("nb", "⊄"),
    ("sp", "⊃"),
    ("nc", "⊅"),
    ("ib", "⊆"),
    ("ip", "⊇"),
    ("ca", "∩"),
    ("cu", "∪"),
    ("/_", "∠"),
    ("pp", "⊥"),
    ("is", "∫"),
    ("integral", "∫"),
    ("sum", "∑"),
    ("product", "∏"),
    ("gr", "∇"),
    ("sr", "√"),
    ("sqrt", "√"),
    ("lc", "⌈"),
    ("rc", "⌉"),
    ("lf", "⌊"),
    ("rf", "⌋"),
    ("if", "∞"),
    ("Ah", "ℵ"),
    ("Im", "ℑ"),
    ("Re", "ℜ"),
    ("wp", "℘"),
    ("pd", "∂"),
    ("-h", "ℏ"),
    ("hbar", "ℏ"),
    ("CL", "♣"),
    ("SP", "♠"),
    ("HE", "♥"),
    ("DI", "♦"),
    ("aa", "´"),
    ("ga", "`"),
    ("a^", "^"),
    ("ha", "^"),
    ("ah", "ˇ"),
    ("ao", "˚"),
    ("a~", "~"),
    ("ti", "~"),
    ("ad", "¨"),
    ("ac", "¸"),
    ("ss", "ß"),
    ("AE", "Æ"),
    ("ae", "æ"),
    ("OE", "Œ"),
    ("oe", "œ"),
    ("IJ", "Ĳ"),
    ("ij", "ĳ"),
    (".i", "ı"),
    (".j", "ȷ"),
    ("-D", "Ð"),
    ("Sd", "ð"),
    ("TP", "Þ"),
    ("Tp", "þ"),
    ("ff", "ff"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("Fi", "ffi"),
    ("Fl", "ffl"),
];

/// Letters with the sign before them: each letter with what it becomes.
const LETTERS: &[(char, &str)] = &[
    ('\'', "AÁCĆEÉIÍOÓUÚYÝaácćeéiíoóuúyý"),
    (':', "AÄEËIÏOÖUÜYŸaäeëiïoöuüyÿ"),
    ('^', "AÂEÊIÎOÔUÛaâeêiîoôuû"),
    ('`', "AÀEÈIÌOÒUÙaàeèiìoòuù"),
    ('~', "AÃNÑOÕaãnñoõ"),
    ('v', "CČSŠZŽcčsšzž"),
    (',', "CÇcç"),
    ('/', "LŁOØlłoø"),
    ('o', "AÅaå"),
    ('*', "AΑBΒGΓDΔEΕZΖYΗHΘIΙKΚLΛMΜNΝCΞOΟPΠRΡSΣTΤUΥFΦXΧQΨWΩaαbβgγdδeεzζyηhθiιkκlλmμnνcξoοpπrρsσtτuυfφxχqψwω"),
];

/// What `\[e aa]` calls the signs of letters.
const ACCENTS: &[(&str, char)] = &[
    ("aa", '\''),
    ("ad", ':'),
    ("a^", '^'),
    ("ga", '`'),
    ("a~", '~'),
    ("ah", 'v'),
    ("ac", ','),
    ("ao", 'o'),
];

/// Strings that the macro packages define.
const STRINGS: &[(&str, &str)] = &[
    ("R", "®"),
    ("Tm", "™"),
    ("lq", "\""),
    ("rq", "\""),
    ("Lq", "\""),
    ("Rq", "\""),
    ("q", "\""),
    ("Aq", "'"),
    ("<=", "≤"),
    (">=", "≥"),
    ("Le", "≤"),
    ("Ge", "≥"),
    ("Lt", "<"),
    ("Gt", ">"),
    ("Ne", "≠"),
    ("Pm", "±"),
    ("If", "∞"),
    ("Pi", "π"),
    ("Na", "NaN"),
    ("Ba", "|"),
    ("ua", "↑"),
    ("aa", "´"),
    ("ga", "`"),
];

/// A page may define a string with strings of it; longer ones are made to hurt.
const LONGEST_STRING: usize = 1000;

/// The strings that a page defines.
#[derive(Default)]
pub(super) struct Escapes(HashMap<String, String>);

impl Escapes {
    /// What `.ds` says: the name, and the rest of the line.
    pub(super) fn define(&mut self, definition: &str) {
        let (name, value) = definition.split_once([' ', '\t']).unwrap_or((definition, ""));
        let value = value.trim_start();
        let mut value = self.unescaped(value.strip_prefix('"').unwrap_or(value));
        value.truncate(value.floor_char_boundary(LONGEST_STRING));
        self.0.insert(name.to_owned(), value);
    }

    fn string(&self, name: &str) -> &str {
        let known = || STRINGS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        self.0.get(name).map_or_else(known, String::as_str)
    }

    /// The characters that escapes stand for, without fonts and sizes.
    pub(super) fn unescaped(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let Some(kind) = rest.chars().next() else { break };
            rest = &rest[kind.len_utf8()..];
            match kind {
                '"' | '#' => return out,
                'f' | 'm' | 'M' | 'n' | 'k' | 'F' | 'g' | 'Y' | 'V' | '$' => rest = name(rest).1,
                's' => rest = after_size(rest),
                '*' => {
                    let (name, after) = name(rest);
                    out.push_str(self.string(name));
                    rest = after;
                }
                '(' => {
                    let (two, after) = split_at_char(rest, 2);
                    out.push_str(&sign(two));
                    rest = after;
                }
                '[' => {
                    let (name, after) = rest.split_once(']').unwrap_or((rest, ""));
                    out.push_str(&sign(name));
                    rest = after;
                }
                'h' | 'v' | 'w' | 'l' | 'L' | 'D' | 'b' | 'x' | 'H' | 'S' | 'R' | 'X' | 'A' | 'B' => {
                    rest = quoted(rest).1;
                }
                'N' | 'C' | 'o' => {
                    let (argument, after) = quoted(rest);
                    match kind {
                        'N' => out.extend(argument.parse().ok().and_then(char::from_u32).filter(is_shown)),
                        'C' => out.push_str(&sign(argument)),
                        // Signs on top of each other.
                        _ => out.extend(argument.chars().next().filter(|first| *first != '\\')),
                    }
                    rest = after;
                }
                'e' | '\\' | 'E' => out.push('\\'),
                '~' | '0' | ' ' => out.push(' '),
                't' => out.push('\t'),
                '&' | '|' | '^' | '/' | ',' | '%' | ':' | ')' | 'c' | 'p' | 'd' | 'u' | 'r' | 'z' | '{'
                | '}' | '!' | '?' | 'a' => {}
                other => out.push(other),
            }
        }
        out.push_str(rest);
        out
    }

    /// The words of a request; quotes hold some together.
    pub(super) fn arguments(&self, line: &str) -> Vec<String> {
        raw_arguments(line).iter().map(|word| self.unescaped(word)).collect()
    }
}

/// The words of a request as they are written.
pub(super) fn raw_arguments(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_open) = (Vec::new(), String::new(), false, false);
    let mut characters = line.chars().peekable();
    while let Some(char) = characters.next() {
        match char {
            '\\' if characters.peek() == Some(&'"') => break,
            '\\' => {
                word.push('\\');
                word.extend(characters.next());
                is_open = true;
            }
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                word.push('"');
                characters.next();
            }
            '"' if is_quoted || !is_open => (is_quoted, is_open) = (!is_quoted, true),
            ' ' | '\t' if !is_quoted => {
                if std::mem::take(&mut is_open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            char => {
                word.push(char);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words
}

fn is_shown(char: &char) -> bool {
    !char.is_control()
}

fn split_at_char(text: &str, count: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(count).map_or(text.len(), |(at, _)| at))
}

/// A name of one character, two (`(xx`) or any number (`[xxx]`), and what follows it.
pub(super) fn name(rest: &str) -> (&str, &str) {
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    match rest.chars().next() {
        Some('[') => rest[1..].split_once(']').unwrap_or((&rest[1..], "")),
        Some('(') => split_at_char(&rest[1..], 2),
        _ => split_at_char(rest, 1),
    }
}

/// Behind a size: `1`, `10`, `+2`, `(12`, `[120]`, `'+1'`. Of two digits without a sign the first is at most 3.
fn after_size(rest: &str) -> &str {
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    match unsigned.chars().next() {
        Some('\'') => quoted(unsigned).1,
        Some('(' | '[') => {
            let inner = &unsigned[1..];
            if unsigned.starts_with('[') {
                return inner.split_once(']').map_or("", |(_, after)| after);
            }
            split_at_char(inner.strip_prefix(['+', '-']).unwrap_or(inner), 2).1
        }
        Some('1'..='3')
            if unsigned.len() == rest.len()
                && unsigned[1..].starts_with(|char: char| char.is_ascii_digit()) =>
        {
            &unsigned[2..]
        }
        Some('0'..='9') => &unsigned[1..],
        _ => rest,
    }
}

/// An argument between two of the same sign, and what follows it.
fn quoted(rest: &str) -> (&str, &str) {
    let Some(sign) = rest.chars().next() else { return ("", "") };
    rest[sign.len_utf8()..].split_once(sign).unwrap_or(("", rest))
}

/// The sign of a name; nothing for names that nobody knows.
fn sign(name: &str) -> String {
    if let Some((_, sign)) = SIGNS.iter().find(|(known, _)| *known == name) {
        return (*sign).to_owned();
    }
    if let Some((letter, accent)) = name.split_once(' ') {
        let accent = ACCENTS.iter().find(|(known, _)| *known == accent);
        let whole = accent.and_then(|(_, sign)| with(*sign, letter));
        return whole.map_or_else(|| letter.to_owned(), String::from);
    }
    if let Some(code) = name.strip_prefix("char") {
        return code
            .parse()
            .ok()
            .and_then(char::from_u32)
            .filter(is_shown)
            .map_or_else(String::new, String::from);
    }
    if let Some(codes) = name.strip_prefix('u').filter(|codes| codes.len() >= 4) {
        let codes = codes.split('_').map(|code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
        return codes.flatten().filter(is_shown).collect();
    }
    let mut signs = name.chars();
    let accent = signs.next();
    accent.and_then(|accent| with(accent, signs.as_str())).map_or_else(String::new, String::from)
}

/// A letter with a sign.
fn with(sign: char, letter: &str) -> Option<char> {
    let (_, letters) = LETTERS.iter().find(|(known, _)| *known == sign)?;
    let at = letters.chars().step_by(2).position(|known| letter.chars().eq([known]))?;
    letters.chars().nth(at * 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_the_signs_that_they_stand_for() {
        let mut escapes = Escapes::default();
        escapes.define("C+ \"C\\v'-.1v'\\s-2+\\s+2\\v'.1v'");
        for (text, expected) in [
            (r"K\[u00E4]hne K\(:ahne caf\('e caf\[e aa] \[u0065_0301]", "Kähne Kähne café café e\u{301}"),
            (r"20\(de 3\(mu4 \(+-1 \(ci \[mc]s \(*a\(*W \(14", "20° 3×4 ±1 ○ µs αΩ ¼"),
            (r"\s10large\s0 \s+2x\s-2 \s(12y\s[8]z \s45", "large x yz 5"),
            (r"\fBbold\fR\f[I]it\fP \f(CWcode\fR \m[red]r\m[]", "boldit code r"),
            (r"a\h'1 m'b\w'xx'c \N'233' \o'e´' \C'bu'", "abc é e •"),
            (r"\*(C+ \*R \*(Tm \*[Gt]", "C+ ® ™ >"),
            (r"a\-b\&.c \e \\ \(hy \[dq]q\[dq] \(zzbody", "a-b.c \\ \\ - \"q\" body"),
            (r#"text \" comment"#, "text "),
            (r"\", ""),
            (r"\[u00", ""),
            (r"\s", ""),
            (r"\(", ""),
            (r"\*", ""),
        ] {
            assert_eq!(escapes.unescaped(text), expected, "{text}");
        }
        assert_eq!(escapes.arguments(r#"a"b "c d" "e ""f""" \(dq"#), ["a\"b", "c d", "e \"f\"", "\""]);
    }
}
