//! Code by its syntax tree.

use std::ops::Range;

use tree_sitter::Node;

use super::{Piece, split};
use crate::{Language, syntax};

/// Deeper than people write. Below it lines are cut.
const DEEPEST: usize = 40;

/// Functions and types stay whole where they fit, with the comments and attributes before them.
pub(super) fn pieces(text: &str, language: Language, largest: usize) -> Vec<Piece> {
    let Some(tree) = parse(text, language) else {
        let lines = split::blocks_at_margin(text);
        let ranges = split::pack(text, lines, largest);
        return ranges.into_iter().map(|range| Piece { range, headings: Vec::new() }).collect();
    };
    let mut collector = Collector { text, largest, pieces: Vec::new() };
    collector.take_children(tree.root_node(), 0..text.len(), &[], 0);
    collector.pieces
}

fn parse(text: &str, language: Language) -> Option<tree_sitter::Tree> {
    let grammar = match language {
        Language::Rust => tree_sitter_rust::LANGUAGE,
        Language::C => tree_sitter_c::LANGUAGE,
        Language::Cpp => tree_sitter_cpp::LANGUAGE,
        Language::Python => tree_sitter_python::LANGUAGE,
        Language::Go => tree_sitter_go::LANGUAGE,
        Language::Java => tree_sitter_java::LANGUAGE,
        Language::JavaScript => tree_sitter_javascript::LANGUAGE,
        Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        Language::CSharp => tree_sitter_c_sharp::LANGUAGE,
        // What stands between empty lines at the margin is whole in these.
        _ => return None,
    };
    syntax::parse(text, &grammar.into())
}

struct Collector<'a> {
    text: &'a str,
    /// Bytes of a piece at most.
    largest: usize,
    pieces: Vec<Piece>,
}

impl Collector<'_> {
    /// Takes what stands in `range`, which `node` fills, by the node's children.
    fn take_children(&mut self, node: Node<'_>, range: Range<usize>, path: &[String], depth: usize) {
        let mut start = range.start;
        let mut cursor = node.walk();
        let mut children = node.children(&mut cursor).peekable();
        while let Some(child) = children.next() {
            // What stands between two children belongs to the second, and so does what describes it.
            if children.peek().is_some() && describes_the_next(child) {
                continue;
            }
            let end = if children.peek().is_some() { child.end_byte() } else { range.end };
            self.take(child, start..end, path, depth);
            start = end;
        }
        if start < range.end {
            self.push(start..range.end, path);
        }
    }

    fn take(&mut self, node: Node<'_>, range: Range<usize>, path: &[String], depth: usize) {
        if range.len() <= self.largest {
            self.push(range, path);
        } else if node.child_count() == 0 || depth == DEEPEST {
            for part in split::pack(self.text, vec![range], self.largest) {
                self.pieces.push(Piece { range: part, headings: path.to_vec() });
            }
        } else {
            let mut path = path.to_vec();
            path.extend(name(self.text, node));
            self.take_children(node, range, &path, depth + 1);
        }
    }

    /// Adds a part that fits, to the piece before it if both fit together and are inside of the same.
    fn push(&mut self, range: Range<usize>, path: &[String]) {
        if range.len() > self.largest {
            for part in split::pack(self.text, vec![range], self.largest) {
                self.pieces.push(Piece { range: part, headings: path.to_vec() });
            }
            return;
        }
        match self.pieces.last_mut() {
            Some(last)
                if last.range.end == range.start
                    && range.end - last.range.start <= self.largest
                    && (last.headings == path || last.headings.len() > path.len()) =>
            {
                last.range.end = range.end;
            }
            _ => self.pieces.push(Piece { range, headings: path.to_vec() }),
        }
    }
}

/// Comments, attributes and decorators say something about what follows.
fn describes_the_next(node: Node<'_>) -> bool {
    let kind = node.kind();
    kind.contains("comment") || kind.contains("attribute") || kind == "decorator"
}

/// What a type, module or function is called.
fn name(text: &str, node: Node<'_>) -> Option<String> {
    let name = node.child_by_field_name("name").or_else(|| {
        let is_implementation = node.kind() == "impl_item";
        node.child_by_field_name("type").filter(|_| is_implementation)
    })?;
    text.get(name.byte_range()).filter(|name| name.len() <= 80).map(str::to_owned)
}
