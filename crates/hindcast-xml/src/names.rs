//! Names of elements and attributes, each kept once.

use std::{collections::HashMap, hash::Hash};

/// A string that the document keeps once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub(crate) u32);

/// A name that the document keeps once: prefix, local name and namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub(crate) u32);

/// A name as written and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// What stands before the colon; empty without one.
    pub prefix: StringId,
    /// What stands after the colon.
    pub local: StringId,
    /// The namespace; empty for none.
    pub namespace: StringId,
}

/// The empty string: no prefix, no namespace.
pub(crate) const EMPTY: StringId = StringId(0);

/// About what a string takes beside its characters, in the list and in the table.
const STRING: usize = 112;

/// About what a name takes in the list and in the table.
const QUALIFIED: usize = 40;

/// Values that are kept once and found again by hash. The hash is seeded, so that no document can aim at it.
#[derive(Debug, Clone)]
struct Kept<T> {
    ids: HashMap<T, u32, foldhash::fast::RandomState>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { ids: HashMap::default() }
    }
}

/// All names of a document.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    strings: Vec<Box<str>>,
    string_ids: Kept<Box<str>>,
    qualified: Vec<QualifiedName>,
    qualified_ids: Kept<QualifiedName>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            strings: Vec::new(),
            string_ids: Kept::default(),
            qualified: Vec::new(),
            qualified_ids: Kept::default(),
            bytes: 0,
        };
        names.string("");
        names
    }
}

impl Names {
    /// The id of a string, kept from now on.
    pub(crate) fn string(&mut self, text: &str) -> StringId {
        if let Some(id) = self.string_ids.ids.get(text) {
            return StringId(*id);
        }
        let id = self.strings.len() as u32;
        self.bytes += STRING + 2 * text.len();
        self.strings.push(text.into());
        self.string_ids.ids.insert(text.into(), id);
        StringId(id)
    }

    /// The id of a string, if the document has it.
    pub(crate) fn find(&self, text: &str) -> Option<StringId> {
        self.string_ids.ids.get(text).map(|id| StringId(*id))
    }

    /// The id of a name, kept from now on.
    pub(crate) fn qualified(&mut self, name: QualifiedName) -> NameId {
        let next = self.qualified.len() as u32;
        let id = *self.qualified_ids.ids.entry(name).or_insert(next);
        if id == next {
            self.bytes += QUALIFIED;
            self.qualified.push(name);
        }
        NameId(id)
    }

    /// The text of a kept string.
    pub(crate) fn text(&self, id: StringId) -> &str {
        &self.strings[id.0 as usize]
    }

    /// The parts of a kept name.
    pub(crate) fn parts(&self, id: NameId) -> QualifiedName {
        self.qualified[id.0 as usize]
    }

    /// Every kept name, in the order of the ids.
    pub(crate) fn all(&self) -> &[QualifiedName] {
        &self.qualified
    }

    /// About the bytes that the names take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
