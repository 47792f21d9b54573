//! What is plain in a schema.

use std::collections::HashMap;

use xsd_schema::{
    AttributeGroupKey, ComplexTypeKey, ElementKey, SchemaSet, TypeKey,
    arenas::{ComplexTypeDefData, ResolvedAttributeUse},
    compiler::compile_content_model_matcher,
    ids::NameId,
    parser::frames::{AttributeUseKind, AttributeUseResult, ComplexContentResult, DerivationMethod},
    validation::CompiledContentModel,
};

use super::value::Value;

/// How deep types may be derived from each other, and attribute groups nested.
const DEEPEST: usize = 32;

/// The plain types of a schema, by the elements that have them.
pub(in crate::schema) struct Plans {
    plans: Vec<Plan>,
    by_element: HashMap<ElementKey, usize, foldhash::fast::FixedState>,
}

/// What an element of a plain type may have.
pub(super) struct Plan {
    pub(super) attributes: Vec<Attribute>,
    /// How many of the attributes must be there.
    pub(super) required: usize,
    pub(super) content: Content,
}

pub(super) struct Attribute {
    pub(super) name: (Option<NameId>, NameId),
    pub(super) value: Value,
    pub(super) is_required: bool,
}

pub(super) enum Content {
    Nothing,
    Text(Value),
    Children(CompiledContentModel),
}

impl Plans {
    /// None if nothing in the schema can be looked at alone.
    pub(in crate::schema) fn new(set: &SchemaSet) -> Option<Self> {
        let elements = &set.arenas.elements;
        let is_simple_world = set.is_xsd10()
            && set.arenas.identity_constraints.is_empty()
            && elements.values().all(|element| element.resolved_substitution_groups.is_empty());
        if !is_simple_world {
            return None;
        }
        let mut plans = Self { plans: Vec::new(), by_element: HashMap::default() };
        let mut by_type: HashMap<TypeKey, Option<usize>> = HashMap::new();
        for (key, element) in elements.iter() {
            let is_plain = element.default_value.is_none()
                && element.fixed_value.is_none()
                && !element.is_abstract
                && element.alternatives.is_empty()
                && element.deferred_type_error.is_none()
                && element.resolved_ref.is_none();
            let Some(kind) = element.resolved_type.filter(|_| is_plain) else { continue };
            let number = *by_type.entry(kind).or_insert_with(|| {
                let plan = Plan::new(kind, set)?;
                plans.plans.push(plan);
                Some(plans.plans.len() - 1)
            });
            if let Some(number) = number {
                plans.by_element.insert(key, number);
            }
        }
        Some(plans)
    }

    pub(super) fn of(&self, element: ElementKey) -> Option<&Plan> {
        self.by_element.get(&element).map(|number| &self.plans[*number])
    }
}

impl Plan {
    fn new(kind: TypeKey, set: &SchemaSet) -> Option<Self> {
        let TypeKey::Complex(kind) = kind else {
            let content = Content::Text(Value::new(kind, set)?);
            return Some(Self { attributes: Vec::new(), required: 0, content });
        };
        let data = set.arenas.complex_types.get(kind)?;
        if kind == set.any_type_key() || data.is_abstract || data.mixed {
            return None;
        }
        let content = match &data.content {
            ComplexContentResult::Empty => {
                // What is derived from something may have inherited content.
                base(data, set).is_none().then_some(Content::Nothing)?
            }
            ComplexContentResult::Simple(_) => Content::Text(Value::new(text_type(kind, set)?, set)?),
            ComplexContentResult::Complex(content) => {
                let has_children = content.particle.as_ref().is_some_and(|part| part.max_occurs != Some(0));
                if content.mixed || content.open_content.is_some() || !has_children {
                    return None;
                }
                let matcher = compile_content_model_matcher(set, data).ok()?;
                match CompiledContentModel::try_from_matcher(matcher).ok()? {
                    model @ CompiledContentModel::Nfa { .. } => Content::Children(model),
                    _ => return None,
                }
            }
        };
        let mut attributes = Attributes { set, found: Vec::new() };
        attributes.of_type(kind, 0)?;
        let attributes = attributes.found;
        let required = attributes.iter().filter(|attribute| attribute.is_required).count();
        Some(Self { attributes, required, content })
    }
}

/// The type that another is derived from, unless that is the type of everything.
fn base(data: &ComplexTypeDefData, set: &SchemaSet) -> Option<TypeKey> {
    data.resolved_base_type.filter(|base| *base != TypeKey::Complex(set.any_type_key()))
}

/// The type of the text in elements that have only text and attributes.
fn text_type(kind: ComplexTypeKey, set: &SchemaSet) -> Option<TypeKey> {
    let mut kind = kind;
    for _ in 0..DEEPEST {
        let data = set.arenas.complex_types.get(kind)?;
        let ComplexContentResult::Simple(content) = &data.content else { return None };
        if content.derivation != DerivationMethod::Extension {
            return None;
        }
        match data.resolved_base_type? {
            TypeKey::Complex(base) => kind = base,
            text @ TypeKey::Simple(_) => return Some(text),
        }
    }
    None
}

struct Attributes<'s> {
    set: &'s SchemaSet,
    found: Vec<Attribute>,
}

impl Attributes<'_> {
    /// Those of the type, of its groups and of what it extends.
    fn of_type(&mut self, kind: ComplexTypeKey, depth: usize) -> Option<()> {
        let data = self.set.arenas.complex_types.get(kind).filter(|_| depth < DEEPEST)?;
        self.used(&data.attributes, &data.resolved_attributes, data.target_namespace)?;
        for group in &data.resolved_attribute_groups {
            self.of_group(*group, depth + 1)?;
        }
        match base(data, self.set) {
            Some(TypeKey::Complex(base)) => {
                let is_extended = data.derivation_method == Some(DerivationMethod::Extension);
                is_extended.then_some(())?;
                self.of_type(base, depth + 1)
            }
            Some(TypeKey::Simple(_)) | None => Some(()),
        }
    }

    fn of_group(&mut self, group: AttributeGroupKey, depth: usize) -> Option<()> {
        let data = self.set.arenas.get_attribute_group(group).filter(|_| depth < DEEPEST)?;
        self.used(&data.attributes, &data.resolved_attributes, data.target_namespace)?;
        for nested in &data.resolved_attribute_groups {
            self.of_group(*nested, depth + 1)?;
        }
        Some(())
    }

    fn used(
        &mut self,
        uses: &[AttributeUseResult],
        resolved: &[ResolvedAttributeUse],
        namespace: Option<NameId>,
    ) -> Option<()> {
        for (number, declared) in uses.iter().enumerate() {
            let resolved = resolved.get(number)?;
            let global = resolved.resolved_ref.and_then(|key| self.set.arenas.attributes.get(key));
            let own = &declared.attribute;
            let is_fixed =
                own.fixed_value.is_some() || global.is_some_and(|global| global.fixed_value.is_some());
            if is_fixed || declared.use_kind == AttributeUseKind::Prohibited {
                return None;
            }
            let name = match (own.name, &own.ref_name) {
                (Some(name), None) => {
                    let namespace = self.set.effective_local_attribute_namespace(
                        own.target_namespace,
                        own.form.as_deref(),
                        own.source.as_ref(),
                        namespace,
                    );
                    (namespace, name)
                }
                _ => (global?.target_namespace, global?.name?),
            };
            if self.found.iter().any(|known| known.name == name) {
                return None;
            }
            let kind = resolved.resolved_type.or_else(|| global.and_then(|global| global.resolved_type))?;
            let is_required = declared.use_kind == AttributeUseKind::Required;
            self.found.push(Attribute { name, value: Value::new(kind, self.set)?, is_required });
        }
        Some(())
    }
}
