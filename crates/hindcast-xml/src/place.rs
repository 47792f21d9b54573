//! Lines, columns and paths: where something is, for people.

use std::collections::HashMap;

use crate::{
    error::Position,
    names::QualifiedName,
    tree::{Document, Kind, NodeId},
};

/// How many lines end before each block of a text: little memory, however short the lines are.
#[derive(Debug)]
pub(crate) struct Lines {
    ends: Vec<u32>,
}

const BLOCK: usize = 4096;

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let mut total = 0;
        let mut ends = vec![0];
        ends.extend(text.as_bytes().chunks(BLOCK).map(|block| {
            total += line_ends(block);
            total
        }));
        Self { ends }
    }

    pub(crate) fn position(&self, text: &str, offset: usize) -> Position {
        let offset = offset.min(text.len());
        let block = offset / BLOCK;
        let line = self.ends[block] + line_ends(&text.as_bytes()[block * BLOCK..offset]) + 1;
        Position { line, column: column(text, offset) }
    }
}

/// The position of a place in a text of which no more is asked.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    let offset = offset.min(text.len());
    Position { line: line_ends(&text.as_bytes()[..offset]) + 1, column: column(text, offset) }
}

fn line_ends(bytes: &[u8]) -> u32 {
    memchr::memchr_iter(b'\n', bytes).count() as u32
}

fn column(text: &str, offset: usize) -> u32 {
    let before = &text.as_bytes()[..offset];
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    // Of a character only the first byte counts.
    before[start..].iter().filter(|byte| **byte as i8 >= -0x40).count() as u32 + 1
}

/// Paths of nodes: `/order[1]/item[3]/text()[1]`, names as written in the document.
///
/// What was counted for one helps with those after it: a node may have millions of siblings.
#[derive(Debug)]
pub struct Paths<'d> {
    document: &'d Document,
    /// The last that was counted of a parent's children of one kind and name, and its number.
    counted: HashMap<(NodeId, Kind, Option<QualifiedName>), (NodeId, usize)>,
}

/// Counts that are remembered.
const COUNTS: usize = 4096;

impl<'d> Paths<'d> {
    /// Nothing is counted yet.
    pub fn new(document: &'d Document) -> Self {
        Self { document, counted: HashMap::new() }
    }

    pub(crate) fn document(&self) -> &'d Document {
        self.document
    }

    pub(crate) fn of(&mut self, node: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = node;
        while let Some(parent) = self.document.parent(at) {
            steps.push(self.step(parent, at));
            at = parent;
        }
        if steps.is_empty() {
            return "/".into();
        }
        steps.reverse();
        steps.concat()
    }

    fn step(&mut self, parent: NodeId, node: NodeId) -> String {
        let document = self.document;
        let kind = document.kind(node);
        let name = (kind == Kind::Element).then(|| document.name(node));
        let key = (parent, kind, name);
        let same = |other: &NodeId| {
            document.kind(*other) == kind && name.is_none_or(|name| document.name(*other) == name)
        };
        let counted = self.counted.get(&key).filter(|(last, _)| *last <= node);
        let index = match counted {
            Some((last, number)) => {
                let between = document.following_siblings(*last).take_while(|sibling| *sibling <= node);
                number + between.filter(same).count()
            }
            None => document.children(parent).take_while(|child| *child <= node).filter(same).count(),
        };
        if self.counted.len() >= COUNTS {
            self.counted.clear();
        }
        self.counted.insert(key, (node, index));
        match kind {
            Kind::Element => format!("/{}[{index}]", document.written(document.name(node))),
            Kind::Text => format!("/text()[{index}]"),
            Kind::Comment => format!("/comment()[{index}]"),
            Kind::Instruction => format!("/processing-instruction()[{index}]"),
            Kind::Document => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_alike_with_and_without_the_blocks() {
        let text: String = (0..3000).map(|number| "é".repeat(number % 9) + "\n").collect();
        let lines = Lines::of(&text);
        let mut line = 1;
        let mut column = 1;
        for (offset, character) in text.char_indices() {
            let expected = Position { line, column };
            assert_eq!(lines.position(&text, offset), expected, "{offset}");
            if offset % 97 == 0 {
                assert_eq!(position(&text, offset), expected, "{offset}");
            }
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        assert_eq!(lines.position(&text, text.len()), Position { line: 3001, column: 1 });
    }

    #[test]
    fn paths_are_the_same_in_any_order() {
        let text = "<a><b/>t<b/><c/><b><b/><!--x--></b>t<c/><!--x--><b/></a>".to_owned();
        let document = crate::read(text, &crate::Limits::default()).unwrap();
        let nodes: Vec<NodeId> = (0..document.node_count() as u32).map(NodeId).collect();
        let alone = |node: &NodeId| Paths::new(&document).of(*node);
        let expected: Vec<String> = nodes.iter().map(alone).collect();
        assert_eq!(expected[nodes.len() - 1], "/a[1]/b[4]");
        let mut paths = Paths::new(&document);
        assert_eq!(nodes.iter().map(|node| paths.of(*node)).collect::<Vec<_>>(), expected);
        let backwards: Vec<String> = nodes.iter().rev().map(|node| paths.of(*node)).collect();
        assert!(backwards.iter().rev().eq(&expected));
    }
}
