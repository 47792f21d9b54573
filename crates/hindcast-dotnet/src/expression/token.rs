//! Expressions cut into tokens.

use super::{
    constant::Constant,
    error::{Mistake, ParseError, Unsupported},
    syntax::Span,
    text::Text,
};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// Not a keyword, or one with an `@` before it, which is taken away.
    Name(String),
    Keyword(&'static str),
    Constant(Constant),
    /// `2147483648` or `9223372036854775808`, which with a minus before it is the least `int` or `long`.
    Least {
        negated: Constant,
        plain: Constant,
    },
    Interpolated(Vec<RawPart>),
    /// Without its `$`.
    Pseudo(String),
    Symbol(&'static str),
    End,
}

/// A part of an interpolated string whose expressions are not read yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RawPart {
    Text(Text),
    Value { span: Span, alignment: Option<i32>, format: Option<String> },
}

/// The reserved words of C#; the others are names.
const KEYWORDS: [&str; 77] = [
    "abstract",
    "as",
    "base",
    "bool",
    "break",
    "byte",
    "case",
    "catch",
    "char",
    "checked",
    "class",
    "const",
    "continue",
    "decimal",
    "default",
    "delegate",
    "do",
    "double",
    "else",
    "enum",
    "event",
    "explicit",
    "extern",
    "false",
    "finally",
    "fixed",
    "float",
    "for",
    "foreach",
    "goto",
    "if",
    "implicit",
    "in",
    "int",
    "interface",
    "internal",
    "is",
    "lock",
    "long",
    "namespace",
    "new",
    "null",
    "object",
    "operator",
    "out",
    "override",
    "params",
    "private",
    "protected",
    "public",
    "readonly",
    "ref",
    "return",
    "sbyte",
    "sealed",
    "short",
    "sizeof",
    "stackalloc",
    "static",
    "string",
    "struct",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "uint",
    "ulong",
    "unchecked",
    "unsafe",
    "ushort",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
];

/// Longest first: the first that fits is taken. The parser puts `>>` and its like together, because `>>` also
/// ends two lists of type arguments.
const SYMBOLS: [&str; 48] = [
    "??=", "<<=", "...", "??", "?.", "?[", "=>", "->", "<<", "<=", ">=", "==", "!=", "&&", "||", "::", "..",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    "!", "<", ">", "=", "?", ":", ".", ",", "(", ")", "[", "]",
];
const BRACKETS: [&str; 3] = ["{", "}", ";"];

/// Cuts `text[span]` into tokens; their spans count from the beginning of `text`.
pub(super) fn tokens(text: &str, span: Span, most_nested: u32) -> Result<Vec<Token>, ParseError> {
    let end = span.end.min(text.len());
    let mut lexer = Lexer { text, at: span.start, end, most_nested };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let is_end = token.kind == TokenKind::End;
        tokens.push(token);
        if is_end {
            return Ok(tokens);
        }
    }
}

pub(super) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// Nothing from here on is read.
    pub(super) end: usize,
    /// How many strings may be nested in each other here.
    pub(super) most_nested: u32,
}

pub(super) fn begins_name(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

pub(super) fn continues_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

impl<'t> Lexer<'t> {
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn error(&self, at: usize, what: Mistake) -> ParseError {
        ParseError::new(self.text, at, what)
    }

    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|character| !fits(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            self.take_while(char::is_whitespace);
            if self.rest().starts_with("//") {
                self.take_while(|character| character != '\n');
            } else if let Some(comment) = self.rest().strip_prefix("/*") {
                let length = comment.find("*/").ok_or_else(|| self.error(self.at, Mistake::OpenComment))?;
                self.at += length + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token, ParseError> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = self.kind(start)?;
        Ok(Token { kind, span: Span { start, end: self.at } })
    }

    fn kind(&mut self, start: usize) -> Result<TokenKind, ParseError> {
        let rest = self.rest();
        let mut characters = rest.chars();
        let (Some(first), second) = (characters.next(), characters.next()) else { return Ok(TokenKind::End) };
        if first.is_ascii_digit() || first == '.' && second.is_some_and(|digit| digit.is_ascii_digit()) {
            return self.number();
        }
        if begins_name(first) {
            let name = self.take_while(continues_name);
            let keyword = KEYWORDS.iter().find(|keyword| **keyword == name);
            return Ok(
                keyword.map_or_else(|| TokenKind::Name(name.to_owned()), |word| TokenKind::Keyword(word))
            );
        }
        if rest.starts_with("\"\"\"") || rest.starts_with("$\"\"\"") {
            let what = Mistake::NotSupported { text: "\"\"\"".to_owned(), what: Unsupported::RawString };
            return Err(self.error(start, what));
        }
        if let Some(string) = self.string()? {
            return Ok(string);
        }
        match (first, second) {
            ('\'', _) => self.character(),
            ('@', Some(second)) if begins_name(second) => {
                self.at += 1;
                Ok(TokenKind::Name(self.take_while(continues_name).to_owned()))
            }
            ('$', Some(second)) if begins_name(second) => {
                self.at += 1;
                Ok(TokenKind::Pseudo(self.take_while(continues_name).to_owned()))
            }
            _ => self.symbol(first),
        }
    }

    fn symbol(&mut self, first: char) -> Result<TokenKind, ParseError> {
        let rest = self.rest();
        let mut symbols = SYMBOLS.iter().chain(&BRACKETS);
        let found = symbols.find(|symbol| rest.starts_with(**symbol));
        let Some(mut symbol) = found.copied() else {
            return Err(self.error(self.at, Mistake::BadCharacter { character: first }));
        };
        // `a ? .5 : 1` has a number behind the question mark.
        if symbol == "?." && rest[2..].starts_with(|digit: char| digit.is_ascii_digit()) {
            symbol = "?";
        }
        self.at += symbol.len();
        Ok(TokenKind::Symbol(symbol))
    }
}
