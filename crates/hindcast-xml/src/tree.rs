//! A document in memory: its text once, and what the text means beside it.
//!
//! Nodes stand in document order, so that a node's number is its place in the order, its descendants are a range of
//! numbers, and a walk over all of them is a walk over memory. Text is not copied: a node says where in the source its
//! characters are. Only what references and entities make of the text is stored apart.

use std::sync::OnceLock;

use crate::{
    error::Position,
    names::{EMPTY, NameId, Names, QualifiedName, StringId},
    place::Lines,
};

/// A node of the tree, by its place in document order. Attributes and namespaces are not nodes of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The document itself.
    pub const DOCUMENT: Self = Self(0);
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The document.
    Document,
    /// An element.
    Element,
    /// Text.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    Instruction,
}

/// Characters of the source, or characters made from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    start: u32,
    length: u32,
}

impl Span {
    const MADE: u32 = 1 << 31;

    pub(crate) fn source(start: usize, length: usize) -> Self {
        Self { start: start as u32, length: length as u32 }
    }

    /// The characters, given both texts.
    pub(crate) fn of<'a>(self, source: &'a str, made: &'a str) -> &'a str {
        let start = self.start as usize;
        let range = start..start + (self.length & !Self::MADE) as usize;
        if self.length & Self::MADE == 0 { &source[range] } else { &made[range] }
    }

    pub(crate) fn made(start: usize, length: usize) -> Self {
        Self { start: start as u32, length: length as u32 | Self::MADE }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The name of an element or the target of an instruction.
    pub(crate) name: NameId,
    pub(crate) parent: u32,
    /// The number after the last descendant.
    pub(crate) end: u32,
    /// Where it begins in the source.
    pub(crate) source: u32,
    /// The first of an element's attributes, or the start of the text.
    pub(crate) first: u32,
    pub(crate) length: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute {
    pub(crate) name: NameId,
    pub(crate) owner: u32,
    pub(crate) source: u32,
    pub(crate) value: Span,
}

/// `xmlns="…"` or `xmlns:prefix="…"` on an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration {
    pub(crate) owner: u32,
    pub(crate) prefix: StringId,
    pub(crate) namespace: StringId,
}

/// A document.
#[derive(Debug)]
pub struct Document {
    pub(crate) text: String,
    pub(crate) made: String,
    pub(crate) names: Names,
    pub(crate) nodes: Vec<Node>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) declarations: Vec<Declaration>,
    /// Values of attributes that the document type calls identifiers, with their elements; the first of equals wins.
    pub(crate) identifiers: Vec<(Span, u32)>,
    pub(crate) unparsed_entities: Vec<Box<str>>,
    pub(crate) lines: OnceLock<Lines>,
}

impl Document {
    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    /// What a node is.
    pub fn kind(&self, node: NodeId) -> Kind {
        self.node(node).kind
    }

    /// The outermost element.
    pub fn root(&self) -> NodeId {
        self.children(NodeId::DOCUMENT)
            .find(|child| self.kind(*child) == Kind::Element)
            .unwrap_or(NodeId::DOCUMENT)
    }

    /// The node that this one is in; none for the document.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node != NodeId::DOCUMENT).then(|| NodeId(self.node(node).parent))
    }

    /// The children, in order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.siblings(node.0 + 1, self.node(node).end)
    }

    /// The siblings after a node, in order.
    pub(crate) fn following_siblings(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.parent(node).map_or(0, |parent| self.node(parent).end);
        self.siblings(self.node(node).end, end)
    }

    fn siblings(&self, mut next: u32, end: u32) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = NodeId(next);
                next = self.node(child).end;
                child
            })
        })
    }

    /// The nodes below, in order: a range of numbers.
    pub(crate) fn descendants(&self, node: NodeId) -> std::ops::Range<u32> {
        node.0 + 1..self.node(node).end
    }

    /// The numbers of an element's attributes.
    pub(crate) fn attributes_of(&self, node: NodeId) -> std::ops::Range<usize> {
        let found = self.node(node);
        if found.kind != Kind::Element {
            return 0..0;
        }
        let first = found.first as usize;
        let count = self.attributes[first..].iter().take_while(|attribute| attribute.owner == node.0).count();
        first..first + count
    }

    /// The numbers of the declarations that stand on an element.
    pub(crate) fn declarations_of(&self, node: NodeId) -> std::ops::Range<usize> {
        let first = self.declarations.partition_point(|declaration| declaration.owner < node.0);
        let count =
            self.declarations[first..].iter().take_while(|declaration| declaration.owner == node.0).count();
        first..first + count
    }

    /// The declarations in force at an element, nearest first, each prefix once; without those that are undone.
    pub(crate) fn namespaces_in_scope(&self, node: NodeId) -> Vec<usize> {
        let mut seen: Vec<StringId> = Vec::new();
        let mut found = Vec::new();
        let mut at = Some(node);
        while let Some(element) = at.filter(|_| !self.declarations.is_empty()) {
            for number in self.declarations_of(element) {
                let declaration = self.declarations[number];
                if !seen.contains(&declaration.prefix) {
                    seen.push(declaration.prefix);
                    if declaration.namespace != EMPTY {
                        found.push(number);
                    }
                }
            }
            at = self.parent(element);
        }
        found
    }

    /// The characters of a span.
    pub(crate) fn characters(&self, span: Span) -> &str {
        span.of(&self.text, &self.made)
    }

    /// The text of a text node, a comment or an instruction.
    pub fn own_text(&self, node: NodeId) -> &str {
        let node = self.node(node);
        match node.kind {
            Kind::Document | Kind::Element => "",
            _ => self.characters(Span { start: node.first, length: node.length }),
        }
    }

    /// The text of all text nodes below, or the node's own.
    pub fn string_value(&self, node: NodeId) -> std::borrow::Cow<'_, str> {
        use std::borrow::Cow;
        if !matches!(self.kind(node), Kind::Document | Kind::Element) {
            return Cow::Borrowed(self.own_text(node));
        }
        let mut texts = self
            .descendants(node)
            .map(NodeId)
            .filter(|node| self.kind(*node) == Kind::Text)
            .map(|text| self.own_text(text));
        let Some(first) = texts.next() else { return Cow::Borrowed("") };
        let Some(second) = texts.next() else { return Cow::Borrowed(first) };
        let mut whole = String::with_capacity(first.len() + second.len());
        whole.push_str(first);
        whole.push_str(second);
        texts.for_each(|text| whole.push_str(text));
        Cow::Owned(whole)
    }

    /// The name of an element or the target of an instruction.
    pub fn name(&self, node: NodeId) -> QualifiedName {
        self.names.parts(self.node(node).name)
    }

    /// A string of a name.
    pub fn string(&self, id: StringId) -> &str {
        self.names.text(id)
    }

    /// A name as written: `prefix:local`.
    pub(crate) fn written(&self, name: QualifiedName) -> String {
        match self.string(name.prefix) {
            "" => self.string(name.local).to_owned(),
            prefix => format!("{prefix}:{}", self.string(name.local)),
        }
    }

    /// The namespace that elements without prefix are in at the root; what queries most often stumble over.
    pub fn default_namespace(&self) -> Option<&str> {
        let name = self.name(self.root());
        (name.prefix == EMPTY && name.namespace != EMPTY).then(|| self.string(name.namespace))
    }

    /// Every namespace that the document declares, with the prefix of its first declaration.
    pub fn declared_namespaces(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for declaration in &self.declarations {
            let namespace = self.string(declaration.namespace);
            if !namespace.is_empty() && !found.iter().any(|(_, known)| *known == namespace) {
                found.push((self.string(declaration.prefix), namespace));
            }
        }
        found
    }

    /// The line and column of a place in the source.
    pub(crate) fn position_of(&self, source: u32) -> Position {
        self.lines.get_or_init(|| Lines::of(&self.text)).position(&self.text, source as usize)
    }

    /// Where a node begins.
    pub fn position(&self, node: NodeId) -> Position {
        self.position_of(self.node(node).source)
    }

    /// How many nodes there are, attributes apart.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The bytes that the document takes in memory.
    pub fn bytes(&self) -> usize {
        self.text.len()
            + self.made.len()
            + self.names.bytes()
            + self.nodes.len() * size_of::<Node>()
            + self.attributes.len() * size_of::<Attribute>()
            + self.declarations.len() * size_of::<Declaration>()
            + self.identifiers.len() * size_of::<(Span, u32)>()
    }
}
