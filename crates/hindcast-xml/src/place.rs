//! Lines, columns and paths: where something is, for people.

use crate::{
    error::Position,
    names::QualifiedName,
    tree::{Document, Kind, NodeId},
};

/// Where the lines of a text begin.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at as u32 + 1);
        Self { starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub(crate) fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start as usize <= offset).max(1);
        let start = self.starts[line - 1] as usize;
        let before = text.get(start..offset).unwrap_or_default();
        Position { line: line as u32, column: before.chars().count() as u32 + 1 }
    }
}

/// The position of a place in a text of which no more is asked.
pub(crate) fn position(text: &str, offset: usize) -> Position {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() as u32 + 1;
    Position { line: memchr::memchr_iter(b'\n', before).count() as u32 + 1, column }
}

/// The path of a node: `/order[1]/item[3]/text()[1]`, names as written in the document.
pub(crate) fn path(document: &Document, node: NodeId) -> String {
    let mut steps = Vec::new();
    let mut at = node;
    while let Some(parent) = document.parent(at) {
        steps.push(step(document, parent, at));
        at = parent;
    }
    if steps.is_empty() {
        return "/".into();
    }
    steps.reverse();
    steps.concat()
}

fn step(document: &Document, parent: NodeId, node: NodeId) -> String {
    let kind = document.kind(node);
    let name = (kind == Kind::Element).then(|| document.name(node));
    let same = |other: &NodeId| {
        document.kind(*other) == kind && name.is_none_or(|name: QualifiedName| document.name(*other) == name)
    };
    let index = document.children(parent).take_while(|child| *child <= node).filter(same).count();
    match kind {
        Kind::Element => format!("/{}[{index}]", document.written(document.name(node))),
        Kind::Text => format!("/text()[{index}]"),
        Kind::Comment => format!("/comment()[{index}]"),
        Kind::Instruction => format!("/processing-instruction()[{index}]"),
        Kind::Document => String::new(),
    }
}
