//! Texts with expressions in braces.

use hindcast_core::debug::{NumberFormat, ValueLimits};

use super::{Bounded, Evaluated, Expression, Scope, error::ExpressionError, token::column};
use crate::value::Inspector;

/// A text with expressions in braces: `x is {x}, sum {a + b:x}`.
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Value(Expression, NumberFormat),
}

impl Template {
    /// Understands a template. Behind an expression may stand `:x`, `:d`, `:o` or `:b` for how its
    /// numbers are written; `{{` and `}}` are braces.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let doubled = text[at..].starts_with("{{") || text[at..].starts_with("}}");
            if doubled {
                plain.push(character);
                at += 2;
            } else if character == '{' {
                let length = closing_brace(&text[at + 1..])
                    .ok_or(ExpressionError::OpenBrace { column: column(text, at) })?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(expression(&text[at + 1..at + 1 + length])?);
                at += length + 2;
            } else {
                plain.push(character);
                at += character.len_utf8();
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The text with values. What has none says why in its place.
    pub fn render(&self, scope: &dyn Scope, limits: ValueLimits) -> String {
        let scope = &Bounded::new(scope);
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(expression, format) => match expression.evaluate(scope) {
                    Ok(Evaluated::Value(value)) => {
                        let inspector = Inspector::new(scope.types(), scope.memory(), limits, *format);
                        out.push_str(&inspector.line(&value));
                    }
                    Ok(Evaluated::Assignment { .. }) => out.push_str("<a template does not assign>"),
                    Err(error) => out.push_str(&format!("<{error}>")),
                },
            }
        }
        out
    }
}

/// Where the brace is that ends an expression; those in quotes do not.
fn closing_brace(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            ('}', None) => return Some(at),
            _ => {}
        }
    }
    None
}

fn expression(text: &str) -> Result<Part, ExpressionError> {
    // As a whole first: `a ? b : x` has no format.
    let whole = Expression::parse(text);
    if let (Err(_), Some((before, format))) = (&whole, text.rsplit_once(':')) {
        let format = match format.trim().trim_start_matches('#') {
            "x" => Some(NumberFormat::Hex),
            "d" => Some(NumberFormat::Decimal),
            "o" => Some(NumberFormat::Octal),
            "b" => Some(NumberFormat::Binary),
            "" | "?" => Some(NumberFormat::Auto),
            _ => None,
        };
        if let Some(format) = format {
            return Expression::parse(before).map(|expression| Part::Value(expression, format));
        }
    }
    whole.map(|expression| Part::Value(expression, NumberFormat::Auto))
}
