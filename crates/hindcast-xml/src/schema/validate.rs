//! Walking a document past the validator.

use std::{cell::RefCell, collections::HashMap};

use xsd_schema::{
    XsdVersion,
    namespace::context::NamespaceContextSnapshot,
    validation::{
        SchemaValidator, ValidationError, ValidationFlags, ValidationRuntime, ValidationSink,
        ValidationWarning,
    },
};

use super::{Schema, SchemaError, Verdict, Violation, names::NameMap, violation::CONTENT_RULE};
use crate::{
    names::StringId,
    tree::{Document, Kind, NodeId},
};

pub(super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// A moment of the walk: an element begins or ends.
type Moment = (NodeId, bool);

impl Schema {
    /// Validates a document against the schema; returns the first `limit` violations and counts all.
    pub fn validate(&self, document: &Document, limit: usize) -> Result<Verdict, SchemaError> {
        let conforms = self.plain.as_ref().is_some_and(|plain| plain.conforms(document, &self.set));
        if conforms { Ok(Verdict { violations: Vec::new(), total: 0 }) } else { self.judge(document, limit) }
    }

    /// The whole validation.
    pub(super) fn judge(&self, document: &Document, limit: usize) -> Result<Verdict, SchemaError> {
        let flags = (ValidationFlags::default()
            & !ValidationFlags::BUILD_PSVI_TYPED_VALUES
            & !ValidationFlags::REPORT_WARNINGS)
            | if self.version == XsdVersion::V1_1 {
                ValidationFlags::PROCESS_ASSERTIONS
            } else {
                ValidationFlags::empty()
            };
        let validator = SchemaValidator::new(&self.set, flags);
        if let Some((_, reason)) = validator.content_model_failures().first() {
            return Err(SchemaError::GivenUp((*reason).to_owned()));
        }
        let mut report = self.walk(document, &validator, limit, HashMap::new())?;
        // What would have been allowed is too dear to be asked at every element: a second walk asks where it matters.
        let unexpected: HashMap<Moment, Vec<String>> = report
            .moments
            .iter()
            .zip(&report.violations)
            .filter(|(_, violation)| violation.rule == CONTENT_RULE)
            .map(|(moment, _)| (*moment, Vec::new()))
            .collect();
        if !unexpected.is_empty() {
            let asked = self.walk(document, &validator, 0, unexpected)?.asked;
            for (moment, violation) in report.moments.iter().zip(&mut report.violations) {
                if violation.rule == CONTENT_RULE {
                    violation.expected = asked.get(moment).cloned().unwrap_or_default();
                }
            }
        }
        Ok(Verdict { violations: report.violations, total: report.total })
    }

    fn walk(
        &self,
        document: &Document,
        validator: &SchemaValidator<'_>,
        limit: usize,
        asked: HashMap<Moment, Vec<String>>,
    ) -> Result<Report, SchemaError> {
        let report = RefCell::new(Report {
            limit,
            violations: Vec::new(),
            moments: Vec::new(),
            total: 0,
            at: (NodeId::DOCUMENT, true),
            asked,
        });
        let mut runtime = validator.start_run(Sink { document, report: &report });
        let entities = document.unparsed_entities.iter().map(|name| name.to_string());
        runtime.set_unparsed_entities(entities.collect());
        let mut walk = Walk {
            document,
            names: NameMap::new(&self.set),
            instance: document.names.find(INSTANCE),
            scopes: vec![(NodeId::DOCUMENT, NamespaceContextSnapshot::default())],
            report: &report,
        };
        walk.run(&mut runtime);
        let ended = runtime.end_validation();
        drop(runtime);
        drop(walk);
        ended.map_err(|error| SchemaError::GivenUp(error.message))?;
        Ok(report.into_inner())
    }
}

struct Report {
    limit: usize,
    violations: Vec<Violation>,
    /// When each violation was found.
    moments: Vec<Moment>,
    total: usize,
    at: Moment,
    /// Moments at which it is asked what is expected, with the answers.
    asked: HashMap<Moment, Vec<String>>,
}

struct Sink<'a> {
    document: &'a Document,
    report: &'a RefCell<Report>,
}

impl ValidationSink for Sink<'_> {
    fn on_error(&mut self, error: ValidationError) {
        let mut report = self.report.borrow_mut();
        report.total += 1;
        if report.violations.len() < report.limit {
            let (node, is_start) = report.at;
            report.violations.push(Violation::new(self.document, &error, node, is_start));
            report.moments.push((node, is_start));
        }
    }

    fn on_warning(&mut self, _warning: ValidationWarning) {}
}

struct Walk<'a, 's> {
    document: &'a Document,
    names: NameMap<'s>,
    instance: Option<StringId>,
    /// Elements that declare prefixes, with what is in force in them.
    scopes: Vec<(NodeId, NamespaceContextSnapshot)>,
    report: &'a RefCell<Report>,
}

impl Walk<'_, '_> {
    /// Goes over the nodes in order, without recursion.
    fn run(&mut self, runtime: &mut ValidationRuntime<'_, Sink<'_>>) {
        let document = self.document;
        let mut open: Vec<NodeId> = Vec::new();
        for number in 1..document.nodes.len() as u32 {
            while let Some(last) = open.pop_if(|last| document.node(*last).end <= number) {
                self.end(last, runtime);
            }
            let node = NodeId(number);
            match document.kind(node) {
                Kind::Element => {
                    self.start(node, runtime);
                    open.push(node);
                }
                Kind::Text => {
                    let text = document.own_text(node);
                    if text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
                        runtime.validate_whitespace(text);
                    } else {
                        runtime.validate_text(text);
                    }
                }
                _ => {}
            }
        }
        while let Some(last) = open.pop() {
            self.end(last, runtime);
        }
    }

    fn start(&mut self, node: NodeId, runtime: &mut ValidationRuntime<'_, Sink<'_>>) {
        let document = self.document;
        self.come_to((node, true), runtime);
        if !document.declarations.is_empty() && !document.declarations_of(node).is_empty() {
            let scope = self.names.scope(document, node);
            self.scopes.push((node, scope));
        }
        let attributes = document.attributes_of(node);
        let (mut instance_type, mut nil) = (None, None);
        if self.instance.is_some() {
            for number in attributes.clone() {
                let attribute = document.attributes[number];
                let name = document.names.parts(attribute.name);
                if Some(name.namespace) == self.instance {
                    match document.string(name.local) {
                        "type" => instance_type = Some(document.characters(attribute.value)),
                        "nil" => nil = Some(document.characters(attribute.value)),
                        _ => {}
                    }
                }
            }
        }
        let name = document.name(node);
        let (local, namespace) =
            (self.names.name(document, name.local), self.names.namespace(document, name.namespace));
        // The outermost scope is never left.
        let scope = &self.scopes[self.scopes.len() - 1].1;
        runtime.validate_element_by_id_novalue(local, namespace, instance_type, nil, scope);
        for number in attributes {
            let attribute = document.attributes[number];
            let name = document.names.parts(attribute.name);
            let (local, namespace) =
                (self.names.name(document, name.local), self.names.namespace(document, name.namespace));
            runtime.validate_attribute_by_id(local, namespace, document.characters(attribute.value));
        }
        runtime.validate_end_of_attributes_novalue();
    }

    fn end(&mut self, node: NodeId, runtime: &mut ValidationRuntime<'_, Sink<'_>>) {
        self.come_to((node, false), runtime);
        runtime.validate_end_element_novalue();
        self.scopes.pop_if(|(owner, _)| *owner == node);
    }

    fn come_to(&self, moment: Moment, runtime: &ValidationRuntime<'_, Sink<'_>>) {
        let mut report = self.report.borrow_mut();
        report.at = moment;
        if let Some(asked) = report.asked.get_mut(&moment) {
            let expected = runtime.get_expected_elements();
            *asked = expected
                .iter()
                .map(|element| self.names.shown(element.local_name, element.namespace))
                .collect();
            asked.sort();
            asked.dedup();
        }
    }
}
