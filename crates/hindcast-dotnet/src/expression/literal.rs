//! Numbers, characters and strings as C# writes them.

use super::{
    constant::{Constant, Primitive},
    decimal::Decimal,
    error::{Mistake, ParseError},
    syntax::Span,
    text::Text,
    token::{Lexer, RawPart, TokenKind, continues_name},
};

impl Lexer<'_> {
    /// A number; the lexer stands at its first digit or point.
    pub(super) fn number(&mut self) -> Result<TokenKind, ParseError> {
        let start = self.at;
        let prefix = self.rest().get(..2).unwrap_or_default().to_ascii_lowercase();
        let radix = match prefix.as_str() {
            "0x" => 16,
            "0b" => 2,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
            let digits = self.take_while(|digit| digit.is_digit(radix) || digit == '_');
            return self.integer(start, digits, radix);
        }
        let is_digit = |digit: char| digit.is_ascii_digit() || digit == '_';
        let digits = self.take_while(is_digit);
        let mut is_real = false;
        // `1.ToString()` has a member and no fraction.
        if self
            .rest()
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        {
            is_real = true;
            self.at += 1;
            self.take_while(is_digit);
        }
        if let Some(exponent) = self.rest().strip_prefix(['e', 'E']) {
            let sign = exponent.starts_with(['+', '-']);
            if exponent[usize::from(sign)..].starts_with(|digit: char| digit.is_ascii_digit()) {
                is_real = true;
                self.at += 1 + usize::from(sign);
                self.take_while(is_digit);
            }
        }
        let has_suffix = self.rest().starts_with(['f', 'F', 'd', 'D', 'm', 'M']);
        if is_real || has_suffix { self.real(start) } else { self.integer(start, digits, 10) }
    }

    fn bad_number(&mut self, start: usize) -> ParseError {
        self.take_while(continues_name);
        let text = self.text[start..self.at].to_owned();
        self.error(start, Mistake::BadNumber { text })
    }

    fn too_large(&self, start: usize) -> ParseError {
        let text = self.text[start..self.at].to_owned();
        self.error(start, Mistake::NumberTooLarge { text })
    }

    fn real(&mut self, start: usize) -> Result<TokenKind, ParseError> {
        let written = &self.text[start..self.at];
        let suffix = self.take_while(continues_name);
        if written.ends_with('_')
            || written.contains("_.")
            || written.contains("_e")
            || written.contains("_E")
        {
            return Err(self.bad_number(start));
        }
        let digits = written.replace('_', "");
        let constant = match suffix {
            "" | "d" | "D" => {
                digits.parse().ok().filter(|value: &f64| value.is_finite()).map(Constant::Double)
            }
            "f" | "F" => digits.parse().ok().filter(|value: &f32| value.is_finite()).map(Constant::Float),
            "m" | "M" => Decimal::parse(&digits).map(Constant::Decimal),
            _ => return Err(self.bad_number(start)),
        };
        constant.map(TokenKind::Constant).ok_or_else(|| self.too_large(start))
    }

    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> Result<TokenKind, ParseError> {
        let suffix = self.take_while(continues_name).to_ascii_lowercase();
        let digits_only = digits.replace('_', "");
        // An underscore may stand behind `0x`, but not at the end.
        let is_written_well = !digits_only.is_empty() && !digits.ends_with('_');
        let candidates: &[Primitive] = match suffix.as_str() {
            "" => &[Primitive::Int, Primitive::UInt, Primitive::Long, Primitive::ULong],
            "u" => &[Primitive::UInt, Primitive::ULong],
            "l" => &[Primitive::Long, Primitive::ULong],
            "ul" | "lu" => &[Primitive::ULong],
            _ => return Err(self.bad_number(start)),
        };
        if !is_written_well {
            return Err(self.bad_number(start));
        }
        let value = u64::from_str_radix(&digits_only, radix).map_err(|_| self.too_large(start))?;
        let value = i128::from(value);
        let fits = |primitive: &&Primitive| primitive.range().is_some_and(|(_, most)| value <= most);
        let primitive = *candidates.iter().find(fits).ok_or_else(|| self.too_large(start))?;
        let plain = Constant::wrapped(value, primitive);
        let negated = match (suffix.as_str(), value) {
            ("", 0x8000_0000) => Constant::Int(i32::MIN),
            ("" | "l", 0x8000_0000_0000_0000) => Constant::Long(i64::MIN),
            _ => return Ok(TokenKind::Constant(plain)),
        };
        Ok(if radix == 10 { TokenKind::Least { negated, plain } } else { TokenKind::Constant(plain) })
    }

    /// `'c'`; the lexer stands at the quote.
    pub(super) fn character(&mut self) -> Result<TokenKind, ParseError> {
        let start = self.at;
        self.at += 1;
        let mut text = Text::default();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return Err(self.error(start, Mistake::OpenQuote)),
                Some('\'') => break,
                Some('\\') => self.escape(&mut text)?,
                Some(character) => {
                    self.at += character.len_utf8();
                    text.push(character);
                }
            }
        }
        self.at += 1;
        match text.0.as_slice() {
            [unit] => Ok(TokenKind::Constant(Constant::Char(*unit))),
            _ => {
                let text = self.text[start..self.at].to_owned();
                Err(self.error(start, Mistake::NotOneCharacter { text }))
            }
        }
    }

    /// An escape sequence; the lexer stands at the backslash.
    fn escape(&mut self, out: &mut Text) -> Result<(), ParseError> {
        let start = self.at;
        self.at += 1;
        let escaped = self.peek();
        self.at += escaped.map_or(0, char::len_utf8);
        let unit = match escaped {
            Some(plain @ ('\'' | '"' | '\\')) => plain as u16,
            Some('0') => 0,
            Some('a') => 7,
            Some('b') => 8,
            Some('e') => 27,
            Some('f') => 12,
            Some('n') => 10,
            Some('r') => 13,
            Some('t') => 9,
            Some('v') => 11,
            Some('x') => self.hexadecimal(start, 1, 4)? as u16,
            Some('u') => self.hexadecimal(start, 4, 4)? as u16,
            Some('U') => {
                let code = self.hexadecimal(start, 8, 8)?;
                let character = char::from_u32(code).ok_or_else(|| self.bad_escape(start))?;
                out.push(character);
                return Ok(());
            }
            _ => return Err(self.bad_escape(start)),
        };
        out.push_unit(unit);
        Ok(())
    }

    fn hexadecimal(&mut self, start: usize, fewest: usize, most: usize) -> Result<u32, ParseError> {
        let rest = self.rest();
        let length = rest.bytes().take(most).take_while(u8::is_ascii_hexdigit).count();
        self.at += length;
        if length < fewest {
            return Err(self.bad_escape(start));
        }
        u32::from_str_radix(&rest[..length], 16).map_err(|_| self.bad_escape(start))
    }

    fn bad_escape(&self, start: usize) -> ParseError {
        let text = self.text[start..self.at].to_owned();
        self.error(start, Mistake::BadEscape { text })
    }

    /// A string of any kind, if one begins here.
    pub(super) fn string(&mut self) -> Result<Option<TokenKind>, ParseError> {
        let rest = self.rest();
        let Some(quote) = rest.find('"').filter(|quote| *quote <= 2) else { return Ok(None) };
        let (is_verbatim, is_interpolated) = match &rest[..quote] {
            "" => (false, false),
            "@" => (true, false),
            "$" => (false, true),
            "$@" | "@$" => (true, true),
            _ => return Ok(None),
        };
        let start = self.at;
        self.at += quote + 1;
        let mut parts = Vec::new();
        let mut text = Text::default();
        loop {
            let rest = self.rest();
            let Some(character) = rest.chars().next() else {
                return Err(self.error(start, Mistake::OpenQuote));
            };
            match character {
                '"' if is_verbatim && rest.starts_with("\"\"") => self.plain(&mut text, character, 2),
                '"' => break,
                '\n' | '\r' if !is_verbatim => return Err(self.error(start, Mistake::OpenQuote)),
                '\\' if !is_verbatim => self.escape(&mut text)?,
                '{' | '}' if is_interpolated && rest[1..].starts_with(character) => {
                    self.plain(&mut text, character, 2);
                }
                '}' if is_interpolated => return Err(self.error(self.at, Mistake::LoneBrace)),
                '{' if is_interpolated => {
                    if !text.0.is_empty() {
                        parts.push(RawPart::Text(std::mem::take(&mut text)));
                    }
                    parts.push(self.hole()?);
                }
                _ => self.plain(&mut text, character, character.len_utf8()),
            }
        }
        self.at += 1;
        if !is_interpolated {
            return Ok(Some(TokenKind::Constant(Constant::String(text))));
        }
        if !text.0.is_empty() {
            parts.push(RawPart::Text(text));
        }
        Ok(Some(TokenKind::Interpolated(parts)))
    }

    fn plain(&mut self, text: &mut Text, character: char, length: usize) {
        text.push(character);
        self.at += length;
    }

    /// `{value,alignment:format}`; the lexer stands at the brace.
    fn hole(&mut self) -> Result<RawPart, ParseError> {
        let open = self.at;
        self.at += 1;
        let span = Span { start: self.at, end: self.skip_value(open)? };
        let alignment = if self.rest().starts_with(',') {
            let start = self.at + 1;
            let written = self.take_while(|character| !matches!(character, ':' | '}')).get(1..);
            let written = written.unwrap_or_default().trim();
            let bad = || Mistake::BadAlignment { text: written.to_owned() };
            Some(written.parse().map_err(|_| self.error(start, bad()))?)
        } else {
            None
        };
        let format = if self.rest().starts_with(':') {
            self.take_while(|character| !matches!(character, '}' | '"')).get(1..).map(str::to_owned)
        } else {
            None
        };
        if !self.rest().starts_with('}') {
            return Err(self.error(open, Mistake::OpenBrace));
        }
        self.at += 1;
        Ok(RawPart::Value { span, alignment, format })
    }

    /// Goes to where the value in a brace ends: before a comma, a colon or a brace that is in no bracket or
    /// string of its own.
    fn skip_value(&mut self, open: usize) -> Result<usize, ParseError> {
        let mut depth = 0_u32;
        while let Some(character) = self.peek() {
            match character {
                ',' | ':' | '}' if depth == 0 && !self.rest().starts_with("::") => return Ok(self.at),
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                '"' | '@' | '$' if self.skip_string(open)? => continue,
                '\'' => {
                    self.character()?;
                    continue;
                }
                ':' => self.at += usize::from(self.rest().starts_with("::")),
                _ => {}
            }
            self.at += character.len_utf8();
        }
        Err(self.error(open, Mistake::OpenBrace))
    }

    pub(super) fn skip_string(&mut self, open: usize) -> Result<bool, ParseError> {
        if self.most_nested == 0 {
            return Err(self.error(open, Mistake::TooDeep { most: super::parser::DEEPEST }));
        }
        self.most_nested -= 1;
        let found = self.string()?.is_some();
        self.most_nested += 1;
        Ok(found)
    }
}
