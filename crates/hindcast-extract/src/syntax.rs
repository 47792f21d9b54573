//! Syntax trees of source code that may be made to hurt.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use tree_sitter::{Language, ParseOptions, ParseState, Parser, Tree};

/// Larger files are data that happens to be written as code; their trees would take a hundred times their size.
const LARGEST: usize = 4 * 1024 * 1024;

/// More brackets inside each other than people write. The parser calls itself for some of them.
const DEEPEST: usize = 500;

/// Code that people write takes a quarter of a second for a megabyte. What takes far longer can be understood in many ways, and
/// the parser keeps all of them, which takes about a gigabyte a second.
const PATIENCE: Duration = Duration::from_millis(500);
const PATIENCE_PER_BYTE: Duration = Duration::from_micros(1);

/// The tree of a text; none where it would take more time, memory or stack than code does that people write.
pub(crate) fn parse(text: &str, language: &Language) -> Option<Tree> {
    if text.len() > LARGEST || is_deep(text) {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let patience = PATIENCE + PATIENCE_PER_BYTE * u32::try_from(text.len()).ok()?;
    let began = Instant::now();
    let mut wait = |_: &ParseState| match began.elapsed() < patience {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut wait);
    let mut read = |at: usize, _| text.as_bytes().get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(options))
}

/// Whether brackets stand deep inside each other. Those in strings and comments count, too: they seldom open that many.
fn is_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_nobody_writes_is_not_parsed_to_its_end() {
        let go = "{[".repeat(25_600);
        assert!(parse(&go, &tree_sitter_go::LANGUAGE.into()).is_none());
        let java = "x = ".to_owned() + &"a<".repeat(25_000);
        assert!(parse(&java, &tree_sitter_java::LANGUAGE.into()).is_none());
        let c_sharp = "a*(b)&&".repeat(6000);
        assert!(parse(&c_sharp, &tree_sitter_c_sharp::LANGUAGE.into()).is_none());
    }

    #[test]
    fn code_that_people_write_is_parsed() {
        let rust = include_str!("format.rs");
        assert!(parse(&rust.repeat(20), &tree_sitter_rust::LANGUAGE.into()).is_some());
        let nested = "(".repeat(400) + "1" + &")".repeat(400);
        assert!(parse(&nested, &tree_sitter_python::LANGUAGE.into()).is_some());
    }
}
