//! Texts with expressions in braces.

use super::{
    Expression,
    error::{Mistake, ParseError},
    parser::{self, DEEPEST, LONGEST},
    syntax::Span,
    token::Lexer,
};

/// A text with expressions in braces: `x is {x}, name {y.Name,nq}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    parts: Vec<TemplatePart>,
}

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TemplatePart {
    Text(String),
    Value(Expression),
}

impl Template {
    /// Understands a template. Behind an expression may stand format specifiers, as in `{x,nq}`, or a number
    /// format, as in `{x:x}`; `{{` and `}}` are braces. Errors count from the beginning of the whole text.
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let doubled = text[at..].starts_with("{{") || text[at..].starts_with("}}");
            if doubled {
                plain.push(character);
                at += 2;
            } else if character == '{' {
                let end = closing_brace(text, at)?;
                if !plain.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
                }
                let span = Span { start: at + 1, end };
                parts.push(TemplatePart::Value(parser::parse(text, span, true)?));
                at = end + 1;
            } else {
                plain.push(character);
                at += character.len_utf8();
            }
        }
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self { parts })
    }

    pub(crate) fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }
}

/// Where the brace is that ends an expression; those in quotes do not.
fn closing_brace(text: &str, open: usize) -> Result<usize, ParseError> {
    // No expression is longer, so there is no need to look further.
    let end = text.ceil_char_boundary((open + LONGEST + 2).min(text.len()));
    let mut lexer = Lexer { text, at: open + 1, end, most_nested: DEEPEST };
    while let Some(character) = lexer.peek() {
        match character {
            '}' => return Ok(lexer.at),
            '"' | '@' | '$' if lexer.skip_string(open)? => {}
            '\'' => {
                lexer.character()?;
            }
            _ => lexer.at += character.len_utf8(),
        }
    }
    Err(ParseError::new(text, open, Mistake::OpenBrace))
}
