//! Nodes as XPath sees them: also attributes and namespaces are nodes.

use std::borrow::Cow;

use crate::{
    error::Position,
    names::{NameId, QualifiedName},
    place::Paths,
    tree::{Document, Kind, NodeId},
};

/// A node of the tree, an attribute or a namespace. The order of the numbers is the order in the document: an element,
/// its namespaces, its attributes, its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef(u64);

/// Which of them it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Node(NodeId),
    /// The number among the document's declarations, as seen from an element.
    Namespace(NodeId, usize),
    /// The `xml` prefix, which is in force everywhere.
    XmlNamespace(NodeId),
    Attribute(NodeId, usize),
}

const XML_PART: u64 = 0x7FFF_FFFF;
const ATTRIBUTE_PART: u64 = 0x8000_0000;

impl NodeRef {
    pub(crate) fn node(node: NodeId) -> Self {
        Self(u64::from(node.0) << 32)
    }

    pub(crate) fn attribute(owner: NodeId, number: usize) -> Self {
        Self(u64::from(owner.0) << 32 | ATTRIBUTE_PART | number as u64)
    }

    pub(crate) fn namespace(element: NodeId, declaration: usize) -> Self {
        Self(u64::from(element.0) << 32 | (declaration as u64 + 1))
    }

    pub(crate) fn xml_namespace(element: NodeId) -> Self {
        Self(u64::from(element.0) << 32 | XML_PART)
    }

    pub(crate) fn part(self) -> Part {
        let node = NodeId((self.0 >> 32) as u32);
        match self.0 & 0xFFFF_FFFF {
            0 => Part::Node(node),
            XML_PART => Part::XmlNamespace(node),
            part if part & ATTRIBUTE_PART != 0 => Part::Attribute(node, (part & !ATTRIBUTE_PART) as usize),
            part => Part::Namespace(node, part as usize - 1),
        }
    }

    /// The node of the tree that it is, or that it belongs to.
    pub(crate) fn owner(self) -> NodeId {
        NodeId((self.0 >> 32) as u32)
    }

    /// The string-value (XPath 1.0, chapter 5).
    pub(crate) fn text(self, document: &Document) -> Cow<'_, str> {
        match self.part() {
            Part::Node(node) => document.string_value(node),
            Part::Attribute(_, number) => {
                Cow::Borrowed(document.characters(document.attributes[number].value))
            }
            Part::Namespace(_, number) => {
                Cow::Borrowed(document.string(document.declarations[number].namespace))
            }
            Part::XmlNamespace(_) => Cow::Borrowed(crate::read::XML_NAMESPACE),
        }
    }

    pub(crate) fn name_id(self, document: &Document) -> Option<NameId> {
        match self.part() {
            Part::Node(node) => {
                let node = document.node(node);
                matches!(node.kind, Kind::Element | Kind::Instruction).then_some(node.name)
            }
            Part::Attribute(_, number) => Some(document.attributes[number].name),
            Part::Namespace(..) | Part::XmlNamespace(_) => None,
        }
    }

    pub(crate) fn qualified_name(self, document: &Document) -> Option<QualifiedName> {
        self.name_id(document).map(|name| document.names.parts(name))
    }

    /// The name as written; of a namespace node, the prefix.
    pub fn name(self, document: &Document) -> String {
        match self.part() {
            Part::Namespace(_, number) => document.string(document.declarations[number].prefix).to_owned(),
            Part::XmlNamespace(_) => "xml".into(),
            _ => self.qualified_name(document).map(|name| document.written(name)).unwrap_or_default(),
        }
    }

    /// What it is, in the words of XPath.
    pub fn kind(self, document: &Document) -> &'static str {
        match self.part() {
            Part::Attribute(..) => "attribute",
            Part::Namespace(..) | Part::XmlNamespace(_) => "namespace",
            Part::Node(node) => match document.kind(node) {
                Kind::Document => "document",
                Kind::Element => "element",
                Kind::Text => "text",
                Kind::Comment => "comment",
                Kind::Instruction => "processing-instruction",
            },
        }
    }

    /// The path from the root, names as written.
    pub fn path(self, paths: &mut Paths<'_>) -> String {
        let owner = paths.of(self.owner());
        let document = paths.document();
        match self.part() {
            Part::Node(_) => owner,
            Part::Attribute(..) => format!("{owner}/@{}", self.name(document)),
            Part::Namespace(..) | Part::XmlNamespace(_) => {
                format!("{owner}/namespace::{}", self.name(document))
            }
        }
    }

    /// Where it stands in the text.
    pub fn position(self, document: &Document) -> Position {
        match self.part() {
            Part::Attribute(_, number) => document.position_of(document.attributes[number].source),
            Part::Namespace(_, number) => document.position(NodeId(document.declarations[number].owner)),
            Part::Node(node) | Part::XmlNamespace(node) => document.position(node),
        }
    }
}
