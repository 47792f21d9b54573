//! A document's names in the terms of a schema.

use xsd_schema::{SchemaSet, ids::NameId as SchemaName, namespace::context::NamespaceContextSnapshot};

use crate::{
    names::{EMPTY, StringId},
    tree::{Document, NodeId},
};

/// Each string of the document is looked up in the schema once.
pub(super) struct NameMap<'s> {
    set: &'s SchemaSet,
    known: Vec<Option<SchemaName>>,
}

impl<'s> NameMap<'s> {
    pub(super) fn new(set: &'s SchemaSet) -> Self {
        Self { set, known: Vec::new() }
    }

    pub(super) fn name(&mut self, document: &Document, id: StringId) -> SchemaName {
        let index = id.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        *self.known[index].get_or_insert_with(|| self.set.name_table.add(document.string(id)))
    }

    pub(super) fn namespace(&mut self, document: &Document, id: StringId) -> Option<SchemaName> {
        (id != EMPTY).then(|| self.name(document, id))
    }

    /// The prefixes in force at an element.
    pub(super) fn scope(&mut self, document: &Document, element: NodeId) -> NamespaceContextSnapshot {
        let mut scope = NamespaceContextSnapshot::default();
        for number in document.namespaces_in_scope(element) {
            let declaration = document.declarations[number];
            let namespace = self.name(document, declaration.namespace);
            if declaration.prefix == EMPTY {
                scope.default_ns = Some(namespace);
            } else {
                scope.bindings.push((self.name(document, declaration.prefix), namespace));
            }
        }
        scope
    }

    /// A name of the schema, for people.
    pub(super) fn shown(&self, local: SchemaName, namespace: Option<SchemaName>) -> String {
        let local = self.set.name_table.resolve_ref(local);
        match namespace.map(|namespace| self.set.name_table.resolve_ref(namespace)) {
            Some(namespace) if !namespace.is_empty() => format!("{{{namespace}}}{local}"),
            _ => local.to_owned(),
        }
    }
}
