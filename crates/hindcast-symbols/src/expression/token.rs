//! Expressions cut into tokens.

use std::str::CharIndices;

use super::error::ExpressionError;

/// A token, and at which byte it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Name(String),
    /// With its suffix, such as `u8` or `UL`.
    Integer(u128, String),
    Float(f64, String),
    Character(u32),
    /// Of one byte above 127, such as `'\xe7'`, and not `b'\xe7'`: what it is depends on the language.
    HighCharacter(u8),
    Text(Vec<u8>),
    /// Without its `$`.
    Register(String),
    Symbol(&'static str),
    End,
}

/// Longest first: the first that fits is taken.
const SYMBOLS: [&str; 51] = [
    "<<=", ">>=", "..=", "...", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "::", "..", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<",
    ">", "=", "?", ":", ".", ",", "(", ")", "[", "]", "@", "{", "}", ";", "#",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    while lexer.next()? {}
    Ok(lexer.tokens)
}

/// The column, from 1, of a byte.
pub(super) fn column(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |before| before.chars().count()) + 1
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.tokens.push(Token { kind, at: start, end: self.at });
    }

    fn next(&mut self) -> Result<bool, ExpressionError> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            self.push(TokenKind::End, start);
            return Ok(false);
        };
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        if first.is_ascii_digit() {
            self.number(start)?;
        } else if first == '$' {
            self.at += 1;
            let name = self.take_while(is_name);
            self.push(TokenKind::Register(name), start);
        } else if self.rest().starts_with("b\"") || first == '"' {
            self.at += self.rest().find('"').unwrap_or(0);
            let text = self.quoted('"')?;
            self.push(TokenKind::Text(text), start);
        } else if self.rest().starts_with("b'") || first == '\'' {
            self.at += self.rest().find('\'').unwrap_or(0);
            self.character(start)?;
        } else if is_name(first) {
            let name = self.take_while(is_name);
            self.push(TokenKind::Name(name), start);
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol)) {
            self.at += symbol.len();
            self.push(TokenKind::Symbol(symbol), start);
        } else {
            let found = first.to_string();
            let column = column(self.text, start);
            return Err(ExpressionError::Syntax { column, expected: "an expression", found });
        }
        Ok(true)
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let length = rest.find(|character| !fits(character)).unwrap_or(rest.len());
        let taken = rest[..length].to_owned();
        self.at += length;
        taken
    }

    fn number(&mut self, start: usize) -> Result<(), ExpressionError> {
        let after_point = matches!(self.tokens.last(), Some(Token { kind: TokenKind::Symbol("."), .. }));
        if after_point {
            // A field of a tuple: `x.0.1` has no fraction in it.
            let digits = self.take_while(|character| character.is_ascii_digit());
            let value = digits.parse().map_err(|_| self.bad_number(start))?;
            self.push(TokenKind::Integer(value, String::new()), start);
            return Ok(());
        }
        let prefix = self.rest().get(..2).unwrap_or_default().to_ascii_lowercase();
        let radix = match prefix.as_str() {
            "0x" => 16,
            "0o" => 8,
            "0b" => 2,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
            let digits = self.take_while(|character| character.is_digit(radix) || character == '_');
            return self.integer(&digits, radix, start);
        }
        let digits = self.take_while(|character| character.is_ascii_digit() || character == '_');
        if self.is_fraction() {
            return self.float(digits, start);
        }
        // C writes octal numbers with a leading zero.
        let is_octal =
            digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|digit| digit < b'8');
        self.integer(&digits, if is_octal { 8 } else { 10 }, start)
    }

    fn is_fraction(&self) -> bool {
        let mut rest = self.rest().chars();
        match (rest.next(), rest.next(), rest.next()) {
            (Some('.'), Some(next), _) => {
                next.is_ascii_digit() || !(next == '.' || next.is_alphabetic() || next == '_')
            }
            (Some('.'), None, _) => true,
            (Some('e' | 'E'), Some('+' | '-'), Some(next)) => next.is_ascii_digit(),
            (Some('e' | 'E'), Some(next), _) => next.is_ascii_digit(),
            // `1f32` and `1f` are floats.
            (Some('f'), next, _) => {
                next.is_none_or(|next| matches!(next, '3' | '6') || !next.is_alphanumeric())
            }
            _ => false,
        }
    }

    fn float(&mut self, mut digits: String, start: usize) -> Result<(), ExpressionError> {
        if self.rest().starts_with('.') {
            self.at += 1;
            digits.push('.');
            digits += &self.take_while(|character| character.is_ascii_digit() || character == '_');
        }
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            digits.push('e');
            if self.rest().starts_with(['+', '-']) {
                digits.push(self.rest().chars().next().unwrap_or('+'));
                self.at += 1;
            }
            digits += &self.take_while(|character| character.is_ascii_digit());
        }
        let suffix = self.take_while(|character| character.is_ascii_alphanumeric() || character == '_');
        let value = digits.replace('_', "").parse().map_err(|_| self.bad_number(start))?;
        if !matches!(suffix.as_str(), "" | "f" | "F" | "l" | "L" | "f32" | "f64" | "_f32" | "_f64") {
            return Err(self.bad_number(start));
        }
        self.push(TokenKind::Float(value, suffix), start);
        Ok(())
    }

    fn integer(&mut self, digits: &str, radix: u32, start: usize) -> Result<(), ExpressionError> {
        let suffix = self.take_while(|character| character.is_ascii_alphanumeric() || character == '_');
        let value =
            u128::from_str_radix(&digits.replace('_', ""), radix).map_err(|_| self.bad_number(start))?;
        let suffix = suffix.trim_start_matches('_').to_owned();
        let known = suffix.is_empty()
            || super::scalar::Whole::named(&suffix).is_some()
            || matches!(suffix.to_ascii_lowercase().as_str(), "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu");
        if !known {
            return Err(self.bad_number(start));
        }
        self.push(TokenKind::Integer(value, suffix), start);
        Ok(())
    }

    fn bad_number(&self, start: usize) -> ExpressionError {
        let text = self.text[start..self.at].to_owned();
        ExpressionError::BadNumber { column: column(self.text, start), text }
    }

    fn character(&mut self, start: usize) -> Result<(), ExpressionError> {
        let bytes = self.quoted('\'')?;
        let text = String::from_utf8_lossy(&bytes);
        let mut characters = text.chars();
        let is_byte = self.text[start..].starts_with('b');
        let kind = match (bytes.as_slice(), characters.next(), characters.next()) {
            ([byte], ..) if byte.is_ascii() || is_byte => TokenKind::Character(u32::from(*byte)),
            ([byte], ..) => TokenKind::HighCharacter(*byte),
            (_, Some(character), None) => TokenKind::Character(u32::from(character)),
            _ => {
                let found = self.text[start..self.at].to_owned();
                let column = column(self.text, start);
                return Err(ExpressionError::Syntax { column, expected: "one character", found });
            }
        };
        self.push(kind, start);
        Ok(())
    }

    /// The bytes between quotes; the lexer stands at the first.
    fn quoted(&mut self, quote: char) -> Result<Vec<u8>, ExpressionError> {
        let start = self.at;
        let open = ExpressionError::OpenQuote { column: column(self.text, start) };
        let mut out = String::new();
        let mut bytes = Vec::new();
        let mut characters = self.text[start + 1..].char_indices();
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.at = start + 1 + at + 1;
                bytes.extend(out.as_bytes());
                return Ok(bytes);
            }
            if character != '\\' {
                out.push(character);
                continue;
            }
            let (_, escape) = characters.next().ok_or(open.clone())?;
            match escape {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                '0' => out.push('\0'),
                'a' => out.push('\x07'),
                'b' => out.push('\x08'),
                'e' => out.push('\x1b'),
                'f' => out.push('\x0c'),
                'v' => out.push('\x0b'),
                'u' => out.push(self.code_point(&mut characters, start)?),
                'x' => {
                    let digits: String = characters.by_ref().take(2).map(|(_, digit)| digit).collect();
                    let byte = u8::from_str_radix(&digits, 16).map_err(|_| ExpressionError::BadNumber {
                        column: column(self.text, start),
                        text: format!("\\x{digits}"),
                    })?;
                    // May not be UTF-8 on its own.
                    bytes.extend(out.as_bytes());
                    out.clear();
                    bytes.push(byte);
                }
                other => out.push(other),
            }
        }
        Err(open)
    }

    /// The character of `\u{1f600}`, as values are shown, and of `\u1234`, as C writes it; `u` was read.
    fn code_point(&self, rest: &mut CharIndices<'_>, start: usize) -> Result<char, ExpressionError> {
        let text = rest.as_str();
        let braced = text.strip_prefix('{').and_then(|inner| inner.split_once('}')).map(|(digits, _)| digits);
        let digits = braced.or(text.get(..4)).unwrap_or(text);
        let length = digits.chars().count() + if braced.is_some() { 2 } else { 0 };
        rest.by_ref().take(length).for_each(drop);
        let character = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        character.ok_or_else(|| ExpressionError::BadNumber {
            column: column(self.text, start),
            text: format!("\\u{digits}"),
        })
    }
}
