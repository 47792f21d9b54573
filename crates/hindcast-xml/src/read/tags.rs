//! Start tags and end tags.

use std::collections::HashSet;

use super::{Open, Problem, Reader, cursor::Cursor, doctype::expect};
use crate::{
    names::NameId,
    tree::{Attribute, Declaration, Kind, Span},
};

/// An attribute of the tag that is being read.
struct Written {
    raw: u32,
    source: u32,
    value: Span,
}

/// The attributes of the tag that is being read; kept to be used again.
#[derive(Default)]
pub(super) struct Tag {
    attributes: Vec<Written>,
}

impl Tag {
    pub(super) fn len(&self) -> usize {
        self.attributes.len()
    }
}

/// So many attributes are compared with each other; more are put into a table.
const FEW: usize = 12;

/// So many prefixes may be in force at once: each name is looked up among them.
const IN_FORCE: usize = 512;

impl Reader<'_> {
    /// Reads a start tag and opens its element, or adds it when it is empty.
    pub(super) fn start_tag(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        self.flush_text()?;
        let begin = cursor.clone();
        cursor.at += 1;
        let written = cursor.name();
        if written.is_empty() {
            return Err(Problem::at(&begin, "`<` begins no tag; write `&lt;`"));
        }
        let raw = self.raw_name(written, &begin)?;
        let is_empty = self.attributes_of_tag(cursor, written)?;
        self.add_defaults(written, &begin)?;
        let declares = self.bind_namespaces(&begin)?;
        let Some(name) = self.scopes.element(raw, &mut self.names) else {
            return Err(Problem::at(&begin, format!("the prefix of `<{written}>` is not declared")));
        };
        let number = self.nodes.len() as u32;
        let source = begin.source_of(begin.at);
        self.add_node(Kind::Element, Some(name), source, self.attributes.len() as u32, 0)?;
        self.keep_attributes(number, written, &begin)?;
        if is_empty {
            if declares {
                self.scopes.leave();
            }
            return Ok(());
        }
        if self.open.len() >= self.limits.depth {
            let limit = self.limits.depth;
            return Err(Problem::limit(&begin, format!("elements nest deeper than {limit}")));
        }
        self.open.push(Open { node: number, raw, declares });
        Ok(())
    }

    /// Reads an end tag and closes the innermost element.
    pub(super) fn end_tag(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        self.flush_text()?;
        let begin = cursor.clone();
        cursor.at += 2;
        let Some(open) = self.open.pop() else {
            return Err(Problem::at(&begin, "nothing is open that this could close"));
        };
        let expected = self.scopes.written(open.raw);
        let matches = cursor.rest().starts_with(expected.as_bytes());
        if matches {
            cursor.at += expected.len();
        }
        cursor.skip_space();
        if !matches || cursor.peek() != Some(b'>') {
            cursor.at = begin.at + 2;
            let found = cursor.name();
            return Err(Problem::at(&begin, format!("`</{found}>` comes where `</{expected}>` must")));
        }
        cursor.at += 1;
        self.nodes[open.node as usize].end = self.nodes.len() as u32;
        if open.declares {
            self.scopes.leave();
        }
        Ok(())
    }

    fn raw_name(&mut self, written: &str, at: &Cursor<'_>) -> Result<u32, Problem> {
        let raw = self.scopes.raw(written, &mut self.names);
        raw.ok_or_else(|| {
            Problem::at(at, format!("`{written}` is no name: colons may only stand after a prefix"))
        })
    }

    /// Reads the attributes into the tag; says whether it is an empty element's.
    fn attributes_of_tag(&mut self, cursor: &mut Cursor<'_>, element: &str) -> Result<bool, Problem> {
        self.tag.attributes.clear();
        loop {
            let spaced = cursor.skip_space();
            match cursor.peek() {
                Some(b'>') => {
                    cursor.at += 1;
                    return Ok(false);
                }
                Some(b'/') => {
                    cursor.at += 1;
                    expect(cursor, ">")?;
                    return Ok(true);
                }
                None => return Err(Problem::at(cursor, format!("the tag `<{element}` is never closed"))),
                Some(_) if !spaced => {
                    return Err(Problem::at(cursor, "white space is missing before an attribute"));
                }
                Some(_) => self.attribute(cursor, element)?,
            }
        }
    }

    fn attribute(&mut self, cursor: &mut Cursor<'_>, element: &str) -> Result<(), Problem> {
        let begin = cursor.clone();
        let name = cursor.name();
        if name.is_empty() {
            return Err(Problem::at(cursor, "no attribute begins here"));
        }
        let raw = self.raw_name(name, &begin)?;
        cursor.skip_space();
        expect(cursor, "=")?;
        cursor.skip_space();
        let quote = cursor.peek().filter(|byte| matches!(byte, b'"' | b'\''));
        let quote =
            quote.ok_or_else(|| Problem::at(cursor, format!("the value of `{name}` is not quoted")))?;
        cursor.at += 1;
        let start = cursor.at;
        let length = memchr::memchr2(quote, b'<', cursor.rest());
        let end = start
            + length.ok_or_else(|| Problem::at(&begin, format!("the value of `{name}` is never closed")))?;
        cursor.at = end;
        if cursor.peek() == Some(b'<') {
            return Err(Problem::at(cursor, "`<` in the value of an attribute; write `&lt;`"));
        }
        let rules = self.doctype.attributes.get(element);
        let rule = rules.and_then(|rules| rules.iter().find(|rule| &*rule.name == name));
        let (collapse, is_identifier) =
            rule.map_or((false, false), |rule| (rule.is_tokens, rule.is_identifier));
        let value = self.attribute_value(cursor, start, end, collapse)?;
        if is_identifier {
            self.identifiers.push((value, self.nodes.len() as u32));
        }
        cursor.at += 1;
        self.check_room(begin.source_of(begin.at))?;
        self.tag.attributes.push(Written { raw, source: begin.source_of(begin.at), value });
        Ok(())
    }

    /// Attributes that the document type gives to elements that do not have them.
    fn add_defaults(&mut self, element: &str, begin: &Cursor<'_>) -> Result<(), Problem> {
        let Some(rules) = self.doctype.attributes.get(element).cloned() else { return Ok(()) };
        let source = begin.source_of(begin.at);
        for rule in rules {
            let Some(default) = rule.default else { continue };
            let raw = self.raw_name(&rule.name, begin)?;
            if self.tag.attributes.iter().all(|attribute| attribute.raw != raw) {
                let inside = Cursor::entity(&default, source);
                let value = self.attribute_value(&inside, 0, default.len(), rule.is_tokens)?;
                self.tag.attributes.push(Written { raw, source, value });
            }
        }
        Ok(())
    }

    /// Binds what the tag declares; says whether it declares anything.
    fn bind_namespaces(&mut self, begin: &Cursor<'_>) -> Result<bool, Problem> {
        let owner = self.nodes.len() as u32;
        let mut declares = false;
        let mut kept = 0;
        for index in 0..self.tag.attributes.len() {
            let attribute = &self.tag.attributes[index];
            let Some(prefix) = self.scopes.declared_prefix(attribute.raw) else {
                self.tag.attributes.swap(kept, index);
                kept += 1;
                continue;
            };
            if !declares {
                self.scopes.enter();
                declares = true;
            }
            let namespace = self.names.string(attribute.value.of(self.source, &self.made));
            let twice = self.declarations.iter().rev().take_while(|known| known.owner == owner);
            if twice.into_iter().any(|known| known.prefix == prefix) {
                return Err(Problem::at(begin, "a prefix is declared twice in one tag"));
            }
            self.scopes.bind(prefix, namespace).map_err(|problem| Problem::at(begin, problem))?;
            if self.scopes.in_force() > IN_FORCE {
                return Err(Problem::limit(begin, format!("more than {IN_FORCE} namespaces are in force")));
            }
            self.declarations.push(Declaration { owner, prefix, namespace });
        }
        self.tag.attributes.truncate(kept);
        Ok(declares)
    }

    /// Moves the tag's attributes into the document, each name once.
    fn keep_attributes(&mut self, owner: u32, element: &str, begin: &Cursor<'_>) -> Result<(), Problem> {
        let first = self.attributes.len();
        let mut many: HashSet<(u32, u32)> = HashSet::new();
        for index in 0..self.tag.attributes.len() {
            let Written { raw, source, value } = self.tag.attributes[index];
            let Some(name) = self.scopes.attribute(raw, &mut self.names) else {
                let written = self.scopes.written(raw);
                return Err(Problem::at(begin, format!("the prefix of `{written}` is not declared")));
            };
            let key = |name: NameId| {
                let name = self.names.parts(name);
                (name.local.0, name.namespace.0)
            };
            let twice = if index < FEW {
                self.attributes[first..].iter().any(|known| key(known.name) == key(name))
            } else {
                if index == FEW {
                    many.extend(self.attributes[first..].iter().map(|known| key(known.name)));
                }
                !many.insert(key(name))
            };
            if twice {
                let written = self.scopes.written(raw);
                return Err(Problem::at(begin, format!("`<{element}>` has the attribute `{written}` twice")));
            }
            self.attributes.push(Attribute { name, owner, source, value });
        }
        Ok(())
    }
}
