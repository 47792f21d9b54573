//! A query cut into words.

use super::{error::XPathError, syntax::Operator};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Dot,
    DotDot,
    At,
    Comma,
    Axis,
    Slash,
    SlashSlash,
    Operator(Operator),
    Literal(String),
    Number(f64),
    Variable(String),
    /// `*`, `prefix:*` or a name, with its prefix.
    Star,
    PrefixStar(String),
    Name {
        prefix: String,
        local: String,
    },
}

/// The words, each with the character it begins at.
pub(super) fn tokens(query: &str) -> Result<Vec<(usize, Token)>, XPathError> {
    let characters: Vec<char> = query.chars().collect();
    let mut words = Words { characters: &characters, at: 0, found: Vec::new() };
    while words.next()? {}
    Ok(words.found)
}

struct Words<'q> {
    characters: &'q [char],
    at: usize,
    found: Vec<(usize, Token)>,
}

impl Words<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    /// XPath 1.0, 3.7: a `*` or a name is an operator when what stands before it can end an operand.
    fn expects_operator(&self) -> bool {
        !matches!(
            self.found.last(),
            None | Some((
                _,
                Token::At
                    | Token::Axis
                    | Token::Open
                    | Token::OpenBracket
                    | Token::Comma
                    | Token::Slash
                    | Token::SlashSlash
                    | Token::Operator(_)
            ))
        )
    }

    fn next(&mut self) -> Result<bool, XPathError> {
        while self.peek(0).is_some_and(|character| matches!(character, ' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(character) = self.peek(0) else { return Ok(false) };
        let (length, token) = match (character, self.peek(1)) {
            ('(', _) => (1, Token::Open),
            (')', _) => (1, Token::Close),
            ('[', _) => (1, Token::OpenBracket),
            (']', _) => (1, Token::CloseBracket),
            ('@', _) => (1, Token::At),
            (',', _) => (1, Token::Comma),
            (':', Some(':')) => (2, Token::Axis),
            ('/', Some('/')) => (2, Token::SlashSlash),
            ('/', _) => (1, Token::Slash),
            ('|', _) => (1, Token::Operator(Operator::Union)),
            ('+', _) => (1, Token::Operator(Operator::Add)),
            ('-', _) => (1, Token::Operator(Operator::Subtract)),
            ('=', _) => (1, Token::Operator(Operator::Equal)),
            ('!', Some('=')) => (2, Token::Operator(Operator::NotEqual)),
            ('<', Some('=')) => (2, Token::Operator(Operator::LessOrEqual)),
            ('<', _) => (1, Token::Operator(Operator::Less)),
            ('>', Some('=')) => (2, Token::Operator(Operator::GreaterOrEqual)),
            ('>', _) => (1, Token::Operator(Operator::Greater)),
            ('*', _) if self.expects_operator() => (1, Token::Operator(Operator::Multiply)),
            ('*', _) => (1, Token::Star),
            ('.', Some('.')) => (2, Token::DotDot),
            ('.', Some('0'..='9')) | ('0'..='9', _) => self.number(),
            ('.', _) => (1, Token::Dot),
            ('"' | '\'', _) => self.literal(character)?,
            ('$', _) => {
                self.at += 1;
                let name = self.ncname();
                self.at = start;
                (name.chars().count() + 1, Token::Variable(name))
            }
            _ if is_name_start(character) => self.name(),
            _ => return Err(XPathError::syntax(start + 1, format!("`{character}` has no meaning here"))),
        };
        self.at = start + length;
        self.found.push((start + 1, token));
        Ok(true)
    }

    fn number(&self) -> (usize, Token) {
        let rest = &self.characters[self.at..];
        let whole = rest.iter().take_while(|digit| digit.is_ascii_digit()).count();
        let mut length = whole;
        if rest.get(whole) == Some(&'.') {
            length += 1 + rest[whole + 1..].iter().take_while(|digit| digit.is_ascii_digit()).count();
        }
        let text: String = rest[..length].iter().collect();
        (length, Token::Number(text.parse().unwrap_or(f64::NAN)))
    }

    fn literal(&self, quote: char) -> Result<(usize, Token), XPathError> {
        let rest = &self.characters[self.at + 1..];
        let length = rest
            .iter()
            .position(|character| *character == quote)
            .ok_or_else(|| XPathError::syntax(self.at + 1, "the text is not closed by its quote"))?;
        Ok((length + 2, Token::Literal(rest[..length].iter().collect())))
    }

    fn ncname(&self) -> String {
        let mut rest = self.characters[self.at..].iter();
        let first = rest.clone().next().is_some_and(|first| is_name_start(*first));
        rest.by_ref().take_while(|character| first && is_name_character(**character)).collect()
    }

    fn name(&mut self) -> (usize, Token) {
        let start = self.at;
        let first = self.ncname();
        let length = first.chars().count();
        if self.expects_operator() {
            let operator = match first.as_str() {
                "and" => Some(Operator::And),
                "or" => Some(Operator::Or),
                "div" => Some(Operator::Divide),
                "mod" => Some(Operator::Remainder),
                _ => None,
            };
            if let Some(operator) = operator {
                return (length, Token::Operator(operator));
            }
        }
        self.at += length;
        let found = match (self.peek(0), self.peek(1)) {
            (Some(':'), Some('*')) => (length + 2, Token::PrefixStar(first)),
            (Some(':'), Some(character)) if is_name_start(character) => {
                self.at += 1;
                let local = self.ncname();
                (length + 1 + local.chars().count(), Token::Name { prefix: first, local })
            }
            _ => (length, Token::Name { prefix: String::new(), local: first }),
        };
        self.at = start;
        found
    }
}

fn is_name_start(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(character, '_' | '-' | '.' | '\u{B7}')
        || matches!(character, '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
