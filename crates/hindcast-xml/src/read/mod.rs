//! From text to tree: a reader for XML 1.0 with namespaces that never looks outside the document.
//!
//! It does not recurse over elements, and everything that a document could blow up is bounded by [`Limits`].

mod cursor;
mod doctype;
mod references;
mod scopes;
mod tags;

use std::sync::OnceLock;

use crate::{
    error::XmlError,
    names::{EMPTY, NameId, Names, QualifiedName},
    place,
    tree::{Attribute, Declaration, Document, Kind, Node, Span},
};
use cursor::Cursor;
use doctype::{Doctype, Entity, expect, required_space};
use references::Reference;
use scopes::Scopes;
pub(crate) use scopes::XML_NAMESPACE;

/// What a document may not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How deep elements may nest.
    pub depth: usize,
    /// Bytes that the tree may take beside the text.
    pub tree_bytes: usize,
    /// Bytes that entities may expand to, all together.
    pub entity_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 1024, tree_bytes: 128 << 20, entity_bytes: 1 << 20 }
    }
}

/// Larger documents cannot be numbered.
const LARGEST_TEXT: usize = 1 << 30;

/// Reads a document.
pub fn read(text: String, limits: &Limits) -> Result<Document, XmlError> {
    let refused = |problem: Problem| problem.in_text(&text);
    if text.len() > LARGEST_TEXT {
        return Err(refused(Problem {
            at: 0,
            text: "the document is larger than 1 GiB".into(),
            is_limit: true,
        }));
    }
    if let Some(at) = cursor::forbidden_character(&text) {
        return Err(refused(Problem {
            at: at as u32,
            text: "this character may not stand in XML".into(),
            is_limit: false,
        }));
    }
    let mut reader = Reader::new(&text, *limits);
    reader.document().map_err(refused)?;
    let Reader { names, nodes, attributes, declarations, made, identifiers, doctype, .. } = reader;
    let unparsed = doctype.entities.into_iter().filter(|(_, entity)| matches!(entity, Entity::Unparsed));
    let unparsed_entities = unparsed.map(|(name, _)| name).collect();
    Ok(Document {
        names,
        nodes,
        attributes,
        declarations,
        made,
        identifiers,
        unparsed_entities,
        lines: OnceLock::new(),
        text,
    })
}

/// What is wrong, and where in the source.
#[derive(Debug)]
struct Problem {
    at: u32,
    text: String,
    is_limit: bool,
}

impl Problem {
    fn at(cursor: &Cursor<'_>, text: impl Into<String>) -> Self {
        Self { at: cursor.source_of(cursor.at), text: text.into(), is_limit: false }
    }

    fn limit(cursor: &Cursor<'_>, text: impl Into<String>) -> Self {
        Self { is_limit: true, ..Self::at(cursor, text) }
    }

    fn in_text(self, text: &str) -> XmlError {
        let position = place::position(text, self.at as usize);
        let problem = self.text;
        if self.is_limit {
            XmlError::Limit { problem, position }
        } else {
            XmlError::NotWellFormed { problem, position }
        }
    }
}

/// An element whose end has not come.
struct Open {
    node: u32,
    /// Its name as written, among the scopes' raw names.
    raw: u32,
    declares: bool,
}

/// Text that may still go on.
enum Pending {
    None,
    /// Characters of the source, up to `end`.
    Source {
        start: usize,
        end: usize,
    },
    /// Characters in `made` from `start` on, that began at `source`.
    Made {
        start: usize,
        source: u32,
    },
}

struct Reader<'t> {
    source: &'t str,
    limits: Limits,
    names: Names,
    scopes: Scopes,
    nodes: Vec<Node>,
    attributes: Vec<Attribute>,
    declarations: Vec<Declaration>,
    made: String,
    identifiers: Vec<(Span, u32)>,
    open: Vec<Open>,
    pending: Pending,
    doctype: Doctype,
    expanded: usize,
    entity_depth: usize,
    tag: tags::Tag,
}

impl<'t> Reader<'t> {
    fn new(source: &'t str, limits: Limits) -> Self {
        let mut names = Names::default();
        let scopes = Scopes::new(&mut names);
        let nameless = names.qualified(QualifiedName { prefix: EMPTY, local: EMPTY, namespace: EMPTY });
        // Memory that is never touched costs nothing; memory that must be moved while growing is there twice.
        // The smallest nodes are such as `<b/>`.
        let expected = (source.len() / 4).min(limits.tree_bytes / size_of::<Node>());
        let mut nodes = Vec::with_capacity(expected + 1);
        nodes.push(Node {
            kind: Kind::Document,
            name: nameless,
            parent: 0,
            end: 0,
            source: 0,
            first: 0,
            length: 0,
        });
        Self {
            source,
            limits,
            names,
            scopes,
            nodes,
            attributes: Vec::new(),
            declarations: Vec::new(),
            made: String::new(),
            identifiers: Vec::new(),
            open: Vec::new(),
            pending: Pending::None,
            doctype: Doctype::default(),
            expanded: 0,
            entity_depth: 0,
            tag: tags::Tag::default(),
        }
    }

    /// Prolog, root element, and what may follow.
    fn document(&mut self) -> Result<(), Problem> {
        let mut cursor = Cursor::source(self.source);
        self.declaration(&mut cursor)?;
        let mut has_root = false;
        let mut has_doctype = false;
        loop {
            cursor.skip_space();
            if cursor.is_at_end() {
                break;
            } else if cursor.take("<!DOCTYPE") {
                if has_root || has_doctype {
                    return Err(Problem::at(
                        &cursor,
                        "a document type may stand only once, before the root element",
                    ));
                }
                has_doctype = true;
                required_space(&mut cursor)?;
                self.doctype.read(&mut cursor)?;
            } else if self.comment_or_instruction(&mut cursor)? {
            } else if cursor.peek() == Some(b'<') && !has_root {
                has_root = true;
                self.start_tag(&mut cursor)?;
                self.content(&mut cursor)?;
            } else if has_root {
                return Err(Problem::at(&cursor, "nothing may follow the root element"));
            } else {
                return Err(Problem::at(&cursor, "no element begins here"));
            }
        }
        if !has_root {
            return Err(Problem::at(&cursor, "the document has no element"));
        }
        self.nodes[0].end = self.nodes.len() as u32;
        Ok(())
    }

    /// `<?xml version="1.0" …?>`: the encoding has been seen to, the version may be any 1.x.
    fn declaration(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let is_declaration = matches!(cursor.rest().get(5), Some(b' ' | b'\t' | b'\n'));
        if !is_declaration || !cursor.take("<?xml") {
            return Ok(());
        }
        for (name, required) in [("version", true), ("encoding", false), ("standalone", false)] {
            cursor.skip_space();
            if !cursor.take(name) {
                if required {
                    return Err(Problem::at(cursor, format!("the XML declaration has no `{name}`")));
                }
                continue;
            }
            cursor.skip_space();
            expect(cursor, "=")?;
            cursor.skip_space();
            let value = cursor.literal().ok_or_else(|| Problem::at(cursor, "a quoted value is missing"))?;
            let known = match name {
                "version" => value.starts_with("1."),
                "standalone" => matches!(value, "yes" | "no"),
                _ => true,
            };
            if !known {
                return Err(Problem::at(cursor, format!("`{value}` is no {name}")));
            }
        }
        cursor.skip_space();
        expect(cursor, "?>")
    }

    /// Everything up to the end of what is open, or of the entity.
    fn content(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let floor = if cursor.origin.is_some() { self.open.len() } else { 0 };
        while cursor.origin.is_some() || self.open.len() > floor {
            let end = text_end(cursor)?;
            if end > cursor.at {
                self.add_text(cursor, cursor.at, end);
                cursor.at = end;
            }
            match cursor.rest() {
                [] if cursor.origin.is_some() && self.open.len() == floor => return Ok(()),
                [] => return Err(self.unclosed(cursor)),
                [b'&', ..] => self.content_reference(cursor)?,
                [b'<', b'/', ..] => {
                    if cursor.origin.is_some() && self.open.len() == floor {
                        return Err(Problem::at(cursor, "the entity closes an element that it did not open"));
                    }
                    self.end_tag(cursor)?;
                }
                rest if rest.starts_with(b"<![CDATA[") => self.character_data(cursor)?,
                _ if self.comment_or_instruction(cursor)? => {}
                _ => self.start_tag(cursor)?,
            }
        }
        Ok(())
    }

    fn unclosed(&self, cursor: &Cursor<'_>) -> Problem {
        let open = self.open.last().map_or("", |open| self.scopes.written(open.raw));
        Problem::at(cursor, format!("the document ends, but `<{open}>` is not closed"))
    }

    fn content_reference(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let begin = cursor.source_of(cursor.at);
        match references::reference(cursor)? {
            Reference::Character(character) => self.add_made(begin, character.encode_utf8(&mut [0; 4])),
            Reference::Entity(name) => {
                let text = self.entity_text(name, cursor)?;
                self.entity_depth += 1;
                self.content(&mut Cursor::entity(&text, begin))?;
                self.entity_depth -= 1;
            }
        }
        Ok(())
    }

    fn character_data(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let begin = cursor.clone();
        cursor.at += "<![CDATA[".len();
        let start = cursor.at;
        let data =
            cursor.until("]]>").ok_or_else(|| Problem::at(&begin, "the CDATA section is never closed"))?;
        if !data.is_empty() {
            self.add_text(cursor, start, start + data.len());
        }
        Ok(())
    }

    fn comment_or_instruction(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let begin = cursor.clone();
        let never_closed = || Problem::at(&begin, "this is never closed");
        if cursor.take("<!--") {
            let start = cursor.at;
            let text = cursor.until("--").ok_or_else(never_closed)?;
            expect(cursor, ">").map_err(|_| Problem::at(cursor, "`--` may not stand in a comment"))?;
            self.leaf(Kind::Comment, &begin, None, start, text.len())?;
        } else if cursor.take("<?") {
            let target = cursor.name();
            if target.is_empty() || target.eq_ignore_ascii_case("xml") || target.contains(':') {
                return Err(Problem::at(
                    &begin,
                    format!("`{target}` cannot be the target of an instruction"),
                ));
            }
            if !cursor.skip_space() && !cursor.rest().starts_with(b"?>") {
                return Err(Problem::at(cursor, "white space is missing"));
            }
            let start = cursor.at;
            let data = cursor.until("?>").ok_or_else(never_closed)?;
            let target = self.names.string(target);
            let name = self.names.qualified(QualifiedName { prefix: EMPTY, local: target, namespace: EMPTY });
            self.leaf(Kind::Instruction, &begin, Some(name), start, data.len())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds a comment or an instruction.
    fn leaf(
        &mut self,
        kind: Kind,
        begin: &Cursor<'_>,
        name: Option<NameId>,
        start: usize,
        length: usize,
    ) -> Result<(), Problem> {
        self.flush_text()?;
        let span = if begin.origin.is_some() {
            let made = self.made.len();
            self.made.push_str(&begin.text[start..start + length]);
            (made, length as u32 | (1 << 31))
        } else {
            (start, length as u32)
        };
        self.add_node(kind, name, begin.source_of(begin.at), span.0 as u32, span.1)
    }

    fn add_node(
        &mut self,
        kind: Kind,
        name: Option<NameId>,
        source: u32,
        first: u32,
        length: u32,
    ) -> Result<(), Problem> {
        let number = self.nodes.len() as u32;
        let parent = self.open.last().map_or(0, |open| open.node);
        self.check_room(source)?;
        let name = name.unwrap_or(NameId(0));
        self.nodes.push(Node { kind, name, parent, end: number + 1, source, first, length });
        Ok(())
    }

    /// Whether the tree may grow, and what is kept beside it.
    fn check_room(&self, source: u32) -> Result<(), Problem> {
        let taken = self.nodes.len() * size_of::<Node>()
            + (self.attributes.len() + self.tag.len()) * size_of::<Attribute>()
            + self.declarations.len() * size_of::<Declaration>()
            + self.identifiers.len() * size_of::<(Span, u32)>()
            + self.made.len()
            + self.names.bytes()
            + self.scopes.raw_bytes();
        if taken <= self.limits.tree_bytes {
            return Ok(());
        }
        let limit = self.limits.tree_bytes >> 20;
        Err(Problem { at: source, text: format!("the tree takes more than {limit} MiB"), is_limit: true })
    }

    /// Text of the cursor joins what is pending.
    fn add_text(&mut self, cursor: &Cursor<'_>, start: usize, end: usize) {
        match (&self.pending, cursor.origin) {
            (Pending::None, None) => self.pending = Pending::Source { start, end },
            _ => self.add_made(cursor.source_of(start), &cursor.text[start..end]),
        }
    }

    fn add_made(&mut self, source: u32, text: &str) {
        match self.pending {
            Pending::None => self.pending = Pending::Made { start: self.made.len(), source },
            Pending::Source { start, end } => {
                self.pending = Pending::Made { start: self.made.len(), source: start as u32 };
                self.made.push_str(&self.source[start..end]);
            }
            Pending::Made { .. } => {}
        }
        self.made.push_str(text);
    }

    /// Whatever text is pending becomes a node.
    fn flush_text(&mut self) -> Result<(), Problem> {
        match std::mem::replace(&mut self.pending, Pending::None) {
            Pending::None => Ok(()),
            Pending::Source { start, end } => {
                self.add_node(Kind::Text, None, start as u32, start as u32, (end - start) as u32)
            }
            Pending::Made { start, source } => {
                let length = (self.made.len() - start) as u32;
                self.add_node(Kind::Text, None, source, start as u32, length | (1 << 31))
            }
        }
    }

    /// Keeps an attribute's value where it is, or makes it.
    fn attribute_value(
        &mut self,
        cursor: &Cursor<'_>,
        start: usize,
        end: usize,
        collapse: bool,
    ) -> Result<Span, Problem> {
        let value = &cursor.text[start..end];
        let plain = value.bytes().all(|byte| byte >= 0x20 && byte != b'&');
        if plain && !collapse && cursor.origin.is_none() {
            return Ok(Span::source(start, end - start));
        }
        let made = self.made.len();
        self.make_value(value, cursor.source_of(start))?;
        if collapse {
            let words: Vec<&str> = self.made[made..].split(' ').filter(|word| !word.is_empty()).collect();
            let collapsed = words.join(" ");
            self.made.truncate(made);
            self.made.push_str(&collapsed);
        }
        Ok(Span::made(made, self.made.len() - made))
    }
}

/// Where the text that begins at the cursor ends.
fn text_end(cursor: &Cursor<'_>) -> Result<usize, Problem> {
    let bytes = cursor.bytes();
    let mut at = cursor.at;
    while let Some(found) = memchr::memchr3(b'<', b'&', b']', &bytes[at..]) {
        at += found;
        if bytes[at] != b']' {
            return Ok(at);
        }
        if bytes[at..].starts_with(b"]]>") {
            return Err(Problem {
                at: cursor.source_of(at),
                text: "`]]>` may not stand in text".into(),
                is_limit: false,
            });
        }
        at += 1;
    }
    Ok(bytes.len())
}
