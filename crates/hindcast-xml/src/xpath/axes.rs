//! Walking from a node in a direction.

use super::{
    error::XPathError,
    evaluate::Evaluator,
    nodes::{NodeRef, Part},
    syntax::{Axis, NodeTest, Step},
};
use crate::{
    names::NameId,
    tree::{Document, Kind, NodeId},
};

/// A node test made ready for one document: names are compared as numbers.
#[derive(Debug)]
pub(super) enum Matcher {
    Any,
    Kind(Kind),
    Instruction(Option<String>),
    /// Every element, or whatever else the axis is about.
    Star,
    /// No such name in the document.
    Nothing,
    One(NameId),
    /// By number of the name.
    Several(Vec<bool>),
}

impl Matcher {
    pub(super) fn new(document: &Document, test: &NodeTest) -> Self {
        let (namespace, local) = match test {
            NodeTest::Any => return Self::Any,
            NodeTest::Text => return Self::Kind(Kind::Text),
            NodeTest::Comment => return Self::Kind(Kind::Comment),
            NodeTest::Instruction(target) => return Self::Instruction(target.clone()),
            NodeTest::Star => return Self::Star,
            NodeTest::InNamespace(namespace) => (namespace, None),
            NodeTest::Name { namespace, local } => (namespace, Some(local)),
        };
        let names = document.names.all();
        let fits: Vec<bool> = names
            .iter()
            .map(|name| {
                document.string(name.namespace) == namespace
                    && local.is_none_or(|local| document.string(name.local) == local)
            })
            .collect();
        let mut fitting = fits.iter().enumerate().filter(|(_, fits)| **fits).map(|(number, _)| number);
        match (fitting.next(), fitting.next()) {
            (None, _) => Self::Nothing,
            (Some(only), None) => Self::One(NameId(only as u32)),
            _ => Self::Several(fits),
        }
    }

    fn name(&self, name: NameId) -> bool {
        match self {
            Self::One(wanted) => *wanted == name,
            Self::Several(fits) => fits[name.0 as usize],
            Self::Any | Self::Star => true,
            Self::Nothing | Self::Kind(_) | Self::Instruction(_) => false,
        }
    }

    /// Whether a node of the tree is meant, on an axis of elements.
    fn node(&self, document: &Document, node: u32) -> bool {
        let found = &document.nodes[node as usize];
        match self {
            Self::Any => true,
            Self::Kind(kind) => found.kind == *kind,
            Self::Instruction(target) => {
                found.kind == Kind::Instruction
                    && target.as_ref().is_none_or(|target| {
                        document.string(document.names.parts(found.name).local) == target
                    })
            }
            Self::Star => found.kind == Kind::Element,
            _ => found.kind == Kind::Element && self.name(found.name),
        }
    }
}

impl Evaluator<'_> {
    /// Adds what the step finds from `from`, nearest first.
    pub(super) fn walk(
        &self,
        step: &Step,
        from: NodeRef,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        let matcher = self.matcher(step);
        match (step.axis, from.part()) {
            (Axis::Attribute, Part::Node(node)) => self.walk_attributes(matcher, node, found),
            (Axis::Namespace, Part::Node(node)) => self.walk_namespaces(&step.test, node, found),
            (Axis::Itself, part) => self.walk_itself(matcher, part, from, found),
            (Axis::DescendantOrSelf, Part::Node(node)) => {
                self.walk_range(matcher, node.0..self.document.node(node).end, found)
            }
            (Axis::DescendantOrSelf, part) => self.walk_itself(matcher, part, from, found),
            (_, Part::Node(node)) => self.walk_tree(step.axis, matcher, node, found),
            // Attributes and namespaces have a parent, ancestors, and what comes before and after their element.
            (Axis::Parent, _) => self.walk_one(matcher, from.owner(), found),
            (Axis::Ancestor | Axis::AncestorOrSelf, part) => {
                if step.axis == Axis::AncestorOrSelf {
                    self.walk_itself(matcher, part, from, found)?;
                }
                self.walk_tree(Axis::AncestorOrSelf, matcher, from.owner(), found)
            }
            (Axis::Following, _) => {
                // An element's children follow its attributes.
                self.walk_range(matcher, from.owner().0 + 1..self.document.nodes.len() as u32, found)
            }
            (Axis::Preceding, _) => self.walk_tree(Axis::Preceding, matcher, from.owner(), found),
            _ => Ok(()),
        }
    }

    fn walk_tree(
        &self,
        axis: Axis,
        matcher: &Matcher,
        node: NodeId,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        let document = self.document;
        let end = document.node(node).end;
        match axis {
            Axis::Child => self.walk_siblings(matcher, node.0 + 1, end, found),
            Axis::Descendant => self.walk_range(matcher, node.0 + 1..end, found),
            Axis::Following => self.walk_range(matcher, end..document.nodes.len() as u32, found),
            Axis::FollowingSibling => {
                let parent_end = document.parent(node).map_or(end, |parent| document.node(parent).end);
                self.walk_siblings(matcher, end, parent_end, found)
            }
            Axis::PrecedingSibling => {
                let Some(parent) = document.parent(node) else { return Ok(()) };
                let first = found.len();
                self.walk_siblings(matcher, parent.0 + 1, node.0, found)?;
                found[first..].reverse();
                Ok(())
            }
            Axis::Preceding => {
                let first = found.len();
                // Everything before, except what contains the node.
                let mut next = 0;
                for ancestor in self.ancestors(node).into_iter().rev().chain([node]) {
                    self.walk_range(matcher, next..ancestor.0, found)?;
                    next = ancestor.0 + 1;
                }
                found[first..].reverse();
                Ok(())
            }
            Axis::Parent => {
                document.parent(node).map_or(Ok(()), |parent| self.walk_one(matcher, parent, found))
            }
            Axis::AncestorOrSelf | Axis::Ancestor => {
                if axis == Axis::AncestorOrSelf {
                    self.walk_one(matcher, node, found)?;
                }
                self.ancestors(node)
                    .into_iter()
                    .try_for_each(|ancestor| self.walk_one(matcher, ancestor, found))
            }
            _ => Ok(()),
        }
    }

    /// The nodes around a node, nearest first.
    fn ancestors(&self, node: NodeId) -> Vec<NodeId> {
        std::iter::successors(self.document.parent(node), |ancestor| self.document.parent(*ancestor))
            .collect()
    }

    fn walk_range(
        &self,
        matcher: &Matcher,
        range: std::ops::Range<u32>,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        self.budget.charge(1)?;
        if matches!(matcher, Matcher::Nothing) {
            return Ok(());
        }
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + (1 << 16));
            self.budget.charge(((end - start) / 4) as usize)?;
            // The commonest question, in the tightest loop.
            if let Matcher::One(wanted) = matcher {
                let nodes = &self.document.nodes[start as usize..end as usize];
                let fitting = nodes
                    .iter()
                    .zip(start..)
                    .filter(|(node, _)| node.name == *wanted && node.kind == Kind::Element);
                found.extend(fitting.map(|(_, number)| NodeRef::node(NodeId(number))));
            } else {
                let fitting = (start..end).filter(|node| matcher.node(self.document, *node));
                found.extend(fitting.map(|number| NodeRef::node(NodeId(number))));
            }
            start = end;
        }
        Ok(())
    }

    fn walk_siblings(
        &self,
        matcher: &Matcher,
        first: u32,
        end: u32,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        let mut next = first;
        while next < end {
            self.budget.charge(1)?;
            if matcher.node(self.document, next) {
                found.push(NodeRef::node(NodeId(next)));
            }
            next = self.document.nodes[next as usize].end;
        }
        Ok(())
    }

    fn walk_one(&self, matcher: &Matcher, node: NodeId, found: &mut Vec<NodeRef>) -> Result<(), XPathError> {
        self.budget.charge(1)?;
        if matcher.node(self.document, node.0) {
            found.push(NodeRef::node(node));
        }
        Ok(())
    }

    /// `self::` is about elements, even from an attribute: only `node()` finds it there.
    fn walk_itself(
        &self,
        matcher: &Matcher,
        part: Part,
        from: NodeRef,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        match part {
            Part::Node(node) => self.walk_one(matcher, node, found),
            _ => {
                if matches!(matcher, Matcher::Any) {
                    found.push(from);
                }
                self.budget.charge(1)
            }
        }
    }

    fn walk_attributes(
        &self,
        matcher: &Matcher,
        node: NodeId,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        let range = self.document.attributes_of(node);
        self.budget.charge(1 + range.len())?;
        let fitting = range.filter(|number| matcher.name(self.document.attributes[*number].name));
        found.extend(fitting.map(|number| NodeRef::attribute(node, number)));
        Ok(())
    }

    fn walk_namespaces(
        &self,
        test: &NodeTest,
        node: NodeId,
        found: &mut Vec<NodeRef>,
    ) -> Result<(), XPathError> {
        let document = self.document;
        if document.kind(node) != Kind::Element {
            return Ok(());
        }
        let fits = |prefix: &str| match test {
            NodeTest::Any | NodeTest::Star => true,
            NodeTest::Name { namespace, local } => namespace.is_empty() && prefix == local,
            _ => false,
        };
        let in_scope = document.namespaces_in_scope(node);
        self.budget.charge(8 + in_scope.len())?;
        let first = found.len();
        for number in in_scope {
            if fits(document.string(document.declarations[number].prefix)) {
                found.push(NodeRef::namespace(node, number));
            }
        }
        if fits("xml") {
            found.push(NodeRef::xml_namespace(node));
        }
        found[first..].sort_unstable();
        Ok(())
    }
}
