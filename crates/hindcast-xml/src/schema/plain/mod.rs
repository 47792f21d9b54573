//! A quick look for documents that plainly conform.
//!
//! Most documents are valid, and most of a schema is plain: elements in order, attributes, numbers, dates, texts. For these
//! this look takes a fraction of the time that the whole validator takes. It is certain, or it says nothing: whatever it does
//! not know (wildcards, identity constraints, substitution, `xsi:type`, unions, 1.1) and whatever looks wrong goes to the
//! whole validator, which alone says what is wrong.

mod plan;
#[cfg(test)]
mod tests;
mod value;

use xsd_schema::{SchemaSet, validation::ContentValidatorState};

use super::names::NameMap;
use crate::tree::{Document, Kind, NodeId};
pub(super) use plan::Plans;
use plan::{Content, Plan};

/// An element that is open.
struct Open<'p> {
    element: NodeId,
    plan: &'p Plan,
    children: Option<ContentValidatorState>,
    text: Option<NodeId>,
}

impl Plans {
    /// Whether the document certainly conforms.
    pub(super) fn conforms(&self, document: &Document, set: &SchemaSet) -> bool {
        // Attributes that speak to the validator change what is valid.
        if document.names.find(super::validate::INSTANCE).is_some() {
            return false;
        }
        Look { plans: self, document, set, names: NameMap::new(set), open: Vec::new() }.run().is_some()
    }
}

struct Look<'a> {
    plans: &'a Plans,
    document: &'a Document,
    set: &'a SchemaSet,
    names: NameMap<'a>,
    open: Vec<Open<'a>>,
}

impl Look<'_> {
    /// Goes over the nodes in order; nothing as soon as something is not plain.
    fn run(mut self) -> Option<()> {
        let document = self.document;
        for number in 1..document.nodes.len() as u32 {
            while let Some(ended) = self.open.pop_if(|last| document.node(last.element).end <= number) {
                self.end(&ended)?;
            }
            let node = NodeId(number);
            match document.kind(node) {
                Kind::Element => self.start(node)?,
                Kind::Text => self.text(node)?,
                _ => {}
            }
        }
        while let Some(ended) = self.open.pop() {
            self.end(&ended)?;
        }
        Some(())
    }

    fn start(&mut self, element: NodeId) -> Option<()> {
        let name = self.document.name(element);
        let local = self.names.name(self.document, name.local);
        let namespace = self.names.namespace(self.document, name.namespace);
        let declaration = match self.open.last_mut() {
            None => self.set.lookup_element(namespace, local)?,
            Some(parent) => {
                let children = parent.children.as_mut()?;
                let advanced =
                    children.try_advance_element(local, namespace, None, self.set.xsd_version, None);
                let matched = advanced.ok()??;
                matched.process_contents.is_none().then_some(matched.element_key?)?
            }
        };
        let plan = self.plans.of(declaration)?;
        self.attributes(element, plan)?;
        let children = match &plan.content {
            Content::Children(model) => Some(ContentValidatorState::from_compiled(model)),
            Content::Nothing | Content::Text(_) => None,
        };
        self.open.push(Open { element, plan, children, text: None });
        Some(())
    }

    fn attributes(&mut self, element: NodeId, plan: &Plan) -> Option<()> {
        let mut missing = plan.required;
        for number in self.document.attributes_of(element) {
            let attribute = self.document.attributes[number];
            let name = self.document.names.parts(attribute.name);
            let local = self.names.name(self.document, name.local);
            let namespace = self.names.namespace(self.document, name.namespace);
            let declared = plan.attributes.iter().find(|declared| declared.name == (namespace, local))?;
            let text = self.document.characters(attribute.value);
            declared.value.takes(text, self.set).then_some(())?;
            missing -= usize::from(declared.is_required);
        }
        (missing == 0).then_some(())
    }

    fn text(&mut self, node: NodeId) -> Option<()> {
        let Some(parent) = self.open.last_mut() else { return Some(()) };
        match &parent.plan.content {
            Content::Nothing => None,
            Content::Children(_) => is_blank(self.document.own_text(node)).then_some(()),
            // A text in several pieces is rare.
            Content::Text(_) => parent.text.replace(node).is_none().then_some(()),
        }
    }

    fn end(&self, ended: &Open<'_>) -> Option<()> {
        let conforms = match &ended.plan.content {
            Content::Nothing => true,
            Content::Children(_) => ended.children.as_ref()?.try_is_complete().ok()?,
            Content::Text(value) => {
                value.takes(ended.text.map_or("", |text| self.document.own_text(text)), self.set)
            }
        };
        conforms.then_some(())
    }
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}
