//! Which namespace a prefix means here, and which name that makes.

use std::collections::HashMap;

use super::cursor::split_name;
use crate::names::{EMPTY, NameId, Names, QualifiedName, StringId};

pub(crate) const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A name as written, with what it meant when last seen: names repeat, scopes seldom change.
struct RawName {
    written: Box<str>,
    prefix: StringId,
    local: StringId,
    element: (u32, NameId),
    attribute: (u32, NameId),
}

/// About what a name takes beside its characters, in the list and in the table.
const RAW_NAME: usize = 80;

/// The prefixes in force while reading.
pub(super) struct Scopes {
    raw: Vec<RawName>,
    raw_ids: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    raw_bytes: usize,
    /// Prefix and namespace, innermost last.
    bindings: Vec<(StringId, StringId)>,
    /// The number of bindings and the version outside each open element that declares something.
    outer: Vec<(usize, u32)>,
    version: u32,
    last_version: u32,
    xml: StringId,
    xml_namespace: StringId,
    xmlns: StringId,
    xmlns_namespace: StringId,
}

impl Scopes {
    pub(super) fn new(names: &mut Names) -> Self {
        let (xml, xml_namespace) = (names.string("xml"), names.string(XML_NAMESPACE));
        let (xmlns, xmlns_namespace) = (names.string("xmlns"), names.string(XMLNS_NAMESPACE));
        Self {
            raw: Vec::new(),
            raw_ids: HashMap::default(),
            raw_bytes: 0,
            bindings: vec![(xml, xml_namespace), (EMPTY, EMPTY)],
            outer: Vec::new(),
            version: 1,
            last_version: 1,
            xml,
            xml_namespace,
            xmlns,
            xmlns_namespace,
        }
    }

    /// The number of a name as written; none when it has more colons than it may.
    pub(super) fn raw(&mut self, written: &str, names: &mut Names) -> Option<u32> {
        if let Some(id) = self.raw_ids.get(written) {
            return Some(*id);
        }
        let (prefix, local) = split_name(written)?;
        let (prefix, local) = (names.string(prefix), names.string(local));
        let id = self.raw.len() as u32;
        let unseen = (0, NameId(0));
        self.raw_bytes += RAW_NAME + 2 * written.len();
        self.raw.push(RawName { written: written.into(), prefix, local, element: unseen, attribute: unseen });
        self.raw_ids.insert(written.into(), id);
        Some(id)
    }

    /// About the bytes that the names as written take.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    pub(super) fn written(&self, raw: u32) -> &str {
        &self.raw[raw as usize].written
    }

    /// What a name declares, if it is `xmlns` or `xmlns:prefix`.
    pub(super) fn declared_prefix(&self, raw: u32) -> Option<StringId> {
        let raw = &self.raw[raw as usize];
        if raw.prefix == self.xmlns {
            Some(raw.local)
        } else {
            (raw.prefix == EMPTY && raw.local == self.xmlns).then_some(EMPTY)
        }
    }

    /// Opens the scope of an element that declares something.
    pub(super) fn enter(&mut self) {
        self.outer.push((self.bindings.len(), self.version));
        self.last_version += 1;
        self.version = self.last_version;
    }

    /// Closes the innermost scope.
    pub(super) fn leave(&mut self) {
        if let Some((bindings, version)) = self.outer.pop() {
            self.bindings.truncate(bindings);
            self.version = version;
        }
    }

    /// Binds a prefix in the innermost scope; the reserved ones cannot be bound.
    pub(super) fn bind(&mut self, prefix: StringId, namespace: StringId) -> Result<(), &'static str> {
        if prefix == self.xmlns || namespace == self.xmlns_namespace {
            return Err("`xmlns` cannot be declared");
        }
        if (prefix == self.xml) != (namespace == self.xml_namespace) {
            return Err("`xml` and its namespace belong together");
        }
        if prefix != EMPTY && namespace == EMPTY {
            return Err("a prefix cannot be bound to no namespace");
        }
        self.bindings.push((prefix, namespace));
        Ok(())
    }

    /// How many bindings there are, hidden ones counted.
    pub(super) fn in_force(&self) -> usize {
        self.bindings.len()
    }

    /// The element's name in this scope; none when its prefix is not declared.
    pub(super) fn element(&mut self, raw: u32, names: &mut Names) -> Option<NameId> {
        let known = &self.raw[raw as usize];
        if known.element.0 == self.version {
            return Some(known.element.1);
        }
        let name = self.resolve(known.prefix, known.local)?;
        let id = names.qualified(name);
        self.raw[raw as usize].element = (self.version, id);
        Some(id)
    }

    /// The attribute's name in this scope; without prefix it is in no namespace.
    pub(super) fn attribute(&mut self, raw: u32, names: &mut Names) -> Option<NameId> {
        let known = &self.raw[raw as usize];
        if known.attribute.0 == self.version {
            return Some(known.attribute.1);
        }
        let name = if known.prefix == EMPTY {
            QualifiedName { prefix: EMPTY, local: known.local, namespace: EMPTY }
        } else {
            self.resolve(known.prefix, known.local)?
        };
        let id = names.qualified(name);
        self.raw[raw as usize].attribute = (self.version, id);
        Some(id)
    }

    fn resolve(&self, prefix: StringId, local: StringId) -> Option<QualifiedName> {
        let (_, namespace) = self.bindings.iter().rev().find(|(bound, _)| *bound == prefix)?;
        Some(QualifiedName { prefix, local, namespace: *namespace })
    }
}
