//! The tree of a page, in one piece of memory, with the line each part stands on.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
};

use html5ever::{
    Attribute, ExpandedName, ParseOpts, QualName,
    interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink},
    parse_document,
    tendril::{StrTendril, TendrilSink},
};

use crate::ExtractError;

/// Deeper than any page that a program wrote sensibly. The parser looks through all open elements at each tag.
const DEEPEST: usize = 2048;

/// How much is parsed before the depth is looked at.
const STEP: usize = 4096;

pub(super) type NodeId = usize;

/// The node that all others are below.
pub(super) const DOCUMENT: NodeId = 0;

pub(super) enum Kind {
    Document,
    Element {
        name: Rc<QualName>,
        attributes: Vec<Attribute>,
    },
    Text(StrTendril),
    /// Comments and the like.
    Other,
}

pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) parent: Option<NodeId>,
    pub(super) children: Vec<NodeId>,
    /// Where in the source it was read, from 1.
    pub(super) line: u64,
    depth: usize,
}

impl Node {
    /// The tag's name; empty where it is no element.
    pub(super) fn tag(&self) -> &str {
        match &self.kind {
            Kind::Element { name, .. } => &name.local,
            _ => "",
        }
    }

    pub(super) fn attribute(&self, wanted: &str) -> Option<&str> {
        match &self.kind {
            Kind::Element { attributes, .. } => attributes
                .iter()
                .find(|attribute| &*attribute.name.local == wanted)
                .map(|found| &*found.value),
            _ => None,
        }
    }

    /// The words of its `class`.
    pub(super) fn classes(&self) -> impl Iterator<Item = &str> {
        self.attribute("class").unwrap_or_default().split_ascii_whitespace()
    }

    pub(super) fn has_class(&self, class: &str) -> bool {
        self.classes().any(|found| found.eq_ignore_ascii_case(class))
    }
}

/// A page.
pub(super) struct Tree(Vec<Node>);

impl std::ops::Index<NodeId> for Tree {
    type Output = Node;

    fn index(&self, node: NodeId) -> &Node {
        &self.0[node]
    }
}

/// A step of a walk through a part of a tree.
pub(super) enum Step {
    Enter(NodeId),
    Leave(NodeId),
}

impl Tree {
    /// Parses as browsers do: everything is a page, unless it is nested too deeply.
    pub(super) fn of(html: &str) -> Result<Self, ExtractError> {
        let mut parser = parse_document(Builder::default(), ParseOpts::default());
        let mut rest = html;
        while !rest.is_empty() {
            let mut end = rest.len().min(STEP);
            while !rest.is_char_boundary(end) {
                end += 1;
            }
            let (piece, after) = rest.split_at(end);
            parser.process(StrTendril::from_slice(piece));
            rest = after;
            if parser.tokenizer.sink.sink.deepest.get() > DEEPEST {
                let reason = format!("its elements are nested deeper than {DEEPEST}");
                return Err(ExtractError::Broken { format: "HTML", reason });
            }
        }
        Ok(parser.finish())
    }

    /// How many nodes there are; ids are below this.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Goes through `root` and all below it, without recursion. `visit` tells whether to go into a node it enters; one that is
    /// not gone into is not left either.
    pub(super) fn walk(&self, root: NodeId, mut visit: impl FnMut(&Self, Step) -> bool) {
        if !visit(self, Step::Enter(root)) {
            return;
        }
        let mut open = vec![(root, 0)];
        while let Some((node, next)) = open.last_mut() {
            let node = *node;
            let Some(&child) = self[node].children.get(*next) else {
                visit(self, Step::Leave(node));
                open.pop();
                continue;
            };
            *next += 1;
            if visit(self, Step::Enter(child)) {
                open.push((child, 0));
            }
        }
    }

    /// The text below a node, its white space collapsed.
    pub(super) fn text(&self, root: NodeId) -> String {
        let mut text = String::new();
        self.walk(root, |tree, step| {
            if let Step::Enter(node) = step
                && let Kind::Text(piece) = &tree[node].kind
            {
                text.push_str(piece);
            }
            true
        });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The first element that fits, in the order of the page.
    pub(super) fn find(&self, root: NodeId, fits: impl Fn(&Node) -> bool) -> Option<NodeId> {
        let mut found = None;
        self.walk(root, |tree, step| {
            if let Step::Enter(node) = step
                && found.is_none()
                && matches!(tree[node].kind, Kind::Element { .. })
                && fits(&tree[node])
            {
                found = Some(node);
            }
            found.is_none()
        });
        found
    }

    /// Whether `fits` holds for the node or anything it is inside of.
    pub(super) fn is_inside(&self, node: NodeId, fits: impl Fn(&Node) -> bool) -> bool {
        let mut at = Some(node);
        while let Some(node) = at {
            if fits(&self[node]) {
                return true;
            }
            at = self[node].parent;
        }
        false
    }
}

/// What the parser builds the tree with.
struct Builder {
    nodes: RefCell<Vec<Node>>,
    line: Cell<u64>,
    deepest: Cell<usize>,
}

impl Default for Builder {
    fn default() -> Self {
        let document = Node { kind: Kind::Document, parent: None, children: Vec::new(), line: 1, depth: 0 };
        Self { nodes: RefCell::new(vec![document]), line: Cell::new(1), deepest: Cell::new(0) }
    }
}

/// A node, with the name that the parser asks for again and again.
#[derive(Clone)]
struct Handle {
    node: NodeId,
    name: Option<Rc<QualName>>,
}

impl Builder {
    fn add(&self, kind: Kind) -> NodeId {
        // The parser tells the line that it has come to, which of a text is its last.
        let ended = match &kind {
            Kind::Text(text) => text.matches('\n').count() as u64,
            _ => 0,
        };
        let line = self.line.get().saturating_sub(ended).max(1);
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { kind, parent: None, children: Vec::new(), line, depth: 0 });
        nodes.len() - 1
    }

    fn node_of(&self, child: NodeOrText<Handle>) -> NodeId {
        match child {
            NodeOrText::AppendNode(handle) => handle.node,
            // Neighbours stay apart: each has its own line.
            NodeOrText::AppendText(text) => self.add(Kind::Text(text)),
        }
    }

    fn detach(&self, node: NodeId) {
        let mut nodes = self.nodes.borrow_mut();
        let Some(parent) = nodes[node].parent.take() else { return };
        if let Some(at) = nodes[parent].children.iter().rposition(|child| *child == node) {
            nodes[parent].children.remove(at);
        }
    }

    fn insert(&self, parent: NodeId, at: Option<usize>, node: NodeId) {
        self.detach(node);
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes[parent].depth + 1;
        (nodes[node].parent, nodes[node].depth) = (Some(parent), depth);
        self.deepest.set(self.deepest.get().max(depth));
        match at {
            Some(at) => nodes[parent].children.insert(at, node),
            None => nodes[parent].children.push(node),
        }
    }
}

impl TreeSink for Builder {
    type Handle = Handle;
    type Output = Tree;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Tree {
        Tree(self.nodes.into_inner())
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        Handle { node: DOCUMENT, name: None }
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        // The parser asks elements only.
        const NO_NAME: ExpandedName<'static> =
            ExpandedName { ns: &html5ever::ns!(html), local: &html5ever::local_name!("") };
        target.name.as_ref().map_or(NO_NAME, |name| name.expanded())
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _flags: ElementFlags) -> Handle {
        let name = Rc::new(name);
        let node = self.add(Kind::Element { name: name.clone(), attributes });
        Handle { node, name: Some(name) }
    }

    fn create_comment(&self, _text: StrTendril) -> Handle {
        Handle { node: self.add(Kind::Other), name: None }
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Handle {
        Handle { node: self.add(Kind::Other), name: None }
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        let child = self.node_of(child);
        self.insert(parent.node, None, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        let has_parent = self.nodes.borrow()[element.node].parent.is_some();
        if has_parent {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    /// What is in a template is not shown, so it need not be kept apart.
    fn get_template_contents(&self, target: &Handle) -> Handle {
        target.clone()
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        one.node == other.node
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        let child = self.node_of(child);
        self.detach(child);
        let (parent, at) = {
            let nodes = self.nodes.borrow();
            let Some(parent) = nodes[sibling.node].parent else { return };
            (parent, nodes[parent].children.iter().rposition(|found| *found == sibling.node))
        };
        self.insert(parent, at, child);
    }

    fn add_attrs_if_missing(&self, target: &Handle, missing: Vec<Attribute>) {
        if let Kind::Element { attributes, .. } = &mut self.nodes.borrow_mut()[target.node].kind {
            for attribute in missing {
                if attributes.iter().all(|there| there.name != attribute.name) {
                    attributes.push(attribute);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.detach(target.node);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        let children = std::mem::take(&mut self.nodes.borrow_mut()[node.node].children);
        for child in children {
            self.nodes.borrow_mut()[child].parent = None;
            self.insert(new_parent.node, None, child);
        }
    }

    fn set_current_line(&self, line: u64) {
        self.line.set(line);
    }
}
