//! Nodes as text.

use crate::{
    names::{EMPTY, StringId},
    tree::{Document, Kind, NodeId},
    xpath::{NodeRef, Part},
};

/// A node as it would be written, with the namespaces it needs; cut at about `limit` bytes, which is said.
pub fn serialize(document: &Document, node: NodeRef, limit: usize) -> (String, bool) {
    let mut writer = Writer { document, out: String::new(), limit };
    let complete = match node.part() {
        Part::Node(node) => writer.tree(node),
        Part::Attribute(..) => {
            writer.out = format!("{}=\"", node.name(document));
            writer.value(&node.text(document));
            writer.out.push('"');
            true
        }
        Part::Namespace(..) | Part::XmlNamespace(_) => {
            let prefix = node.name(document);
            let colon = if prefix.is_empty() { "" } else { ":" };
            writer.out = format!("xmlns{colon}{prefix}=\"");
            writer.value(&node.text(document));
            writer.out.push('"');
            true
        }
    };
    let mut out = writer.out;
    if out.len() > limit {
        let end = (0..=limit).rev().find(|end| out.is_char_boundary(*end)).unwrap_or(0);
        out.truncate(end);
        return (out, true);
    }
    (out, !complete)
}

struct Writer<'d> {
    document: &'d Document,
    out: String,
    limit: usize,
}

impl Writer<'_> {
    /// Writes a node and what is below, without recursion; stops when there is more than enough.
    fn tree(&mut self, top: NodeId) -> bool {
        let document = self.document;
        let end = document.node(top).end;
        let mut open: Vec<NodeId> = Vec::new();
        let mut at = top.0;
        while at < end {
            while let Some(last) = open.last().copied().filter(|last| document.node(*last).end <= at) {
                self.close(last);
                open.pop();
            }
            if self.out.len() > self.limit {
                return false;
            }
            let node = NodeId(at);
            match document.kind(node) {
                Kind::Document => {}
                Kind::Element => {
                    let has_content = document.node(node).end > at + 1;
                    self.start(node, node == top, has_content);
                    if has_content {
                        open.push(node);
                    }
                }
                Kind::Text => self.text(document.own_text(node)),
                Kind::Comment => self.wrapped("<!--", document.own_text(node), "-->"),
                Kind::Instruction => {
                    let target = document.string(document.name(node).local);
                    let data = document.own_text(node);
                    let space = if data.is_empty() { "" } else { " " };
                    self.wrapped(&format!("<?{target}{space}"), data, "?>");
                }
            }
            at += 1;
        }
        open.into_iter().rev().for_each(|node| self.close(node));
        true
    }

    fn wrapped(&mut self, before: &str, text: &str, after: &str) {
        self.out.push_str(before);
        self.out.push_str(text);
        self.out.push_str(after);
    }

    fn start(&mut self, node: NodeId, is_top: bool, has_content: bool) {
        let document = self.document;
        self.out.push('<');
        self.out.push_str(&document.written(document.name(node)));
        // The topmost element is taken out of its surroundings and must carry what it had from there.
        let mut declarations = if is_top {
            document.namespaces_in_scope(node)
        } else {
            document.declarations_of(node).collect()
        };
        declarations.sort_unstable();
        for number in declarations {
            let declaration = document.declarations[number];
            self.declaration(declaration.prefix, declaration.namespace);
        }
        for number in document.attributes_of(node) {
            let attribute = document.attributes[number];
            self.out.push(' ');
            self.out.push_str(&document.written(document.names.parts(attribute.name)));
            self.out.push_str("=\"");
            self.value(document.characters(attribute.value));
            self.out.push('"');
        }
        self.out.push_str(if has_content { ">" } else { "/>" });
    }

    fn declaration(&mut self, prefix: StringId, namespace: StringId) {
        self.out.push_str(" xmlns");
        if prefix != EMPTY {
            self.out.push(':');
            self.out.push_str(self.document.string(prefix));
        }
        self.out.push_str("=\"");
        let namespace = self.document.string(namespace).to_owned();
        self.value(&namespace);
        self.out.push('"');
    }

    fn close(&mut self, node: NodeId) {
        let written = self.document.written(self.document.name(node));
        self.wrapped("</", &written, ">");
    }

    fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '&' => self.out.push_str("&amp;"),
                '\r' => self.out.push_str("&#13;"),
                other => self.out.push(other),
            }
        }
    }

    fn value(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '<' => self.out.push_str("&lt;"),
                '&' => self.out.push_str("&amp;"),
                '"' => self.out.push_str("&quot;"),
                '\n' => self.out.push_str("&#10;"),
                '\t' => self.out.push_str("&#9;"),
                '\r' => self.out.push_str("&#13;"),
                other => self.out.push(other),
            }
        }
    }
}
