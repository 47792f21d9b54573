//! Which member a name means: that of the type that a value is declared with, as the object overrides it.

use super::Evaluator;
use crate::{
    cor::{CorError, Hresult},
    image::{Field, Method, Property, TypeSig},
    session::look::{Declared, Named, declaring_def},
    values::{Content, Seen, TypeInfo, property_of_backing_field},
};

/// What a name means.
pub(super) enum Bound {
    Field(Seen),
    /// A field that holds nothing: nothing has used its type.
    Null,
    /// A field that cannot be read.
    Unreadable(CorError),
    /// A property, by the type whose accessors are run: the one that overrides it last.
    Property(TypeInfo),
}

/// Why a field of an object cannot be read. The field is there, even where the runtime has not loaded its type: code that was
/// compiled ahead sets one without it.
pub(super) fn why_no_field(error: CorError) -> String {
    match error.code {
        Hresult::CLASS_NOT_LOADED => {
            "the runtime has not loaded its type, and does not tell the value that it may have".into()
        }
        code => code.to_string(),
    }
}

impl Evaluator<'_> {
    /// The type that a value is declared with: by its variable or field, or by a cast. Where that is not known, its own.
    pub(super) fn static_type(&self, seen: &Seen) -> TypeInfo {
        seen.as_type.clone().unwrap_or_else(|| seen.of.clone())
    }

    pub(super) fn declared_type(&self, variable: &Named, seen: &Seen) -> Option<TypeInfo> {
        match variable.declared.as_ref()? {
            Declared::This => {
                let (module, of) = (&self.frame.module, declaring_def(&self.frame)?.token());
                self.session.values().as_defined(seen, |known| known.is_defined_by(module, of))
            }
            Declared::InType(of, signature) => self.field_type(of, signature),
            Declared::InMethod(signature) => {
                let module = &self.frame.module;
                let method = module.assembly()?.method(self.frame.method)?;
                let types = self.session.frame_types(&self.frame);
                let count = method.declaring_type()?.generic_parameters().len().min(types.len());
                self.session.type_of_signature(module, signature, &types[..count], &types[count..])
            }
        }
    }

    fn field_type(&self, of: &TypeInfo, signature: &TypeSig) -> Option<TypeInfo> {
        let module = &of.definition.as_ref()?.module;
        self.session.type_of_signature(module, signature, &of.arguments, &[])
    }

    /// A field of an object, as it is declared.
    fn declared_field(&self, seen: &Seen, of: &TypeInfo, field: Field<'_>) -> Option<Bound> {
        let Content::Object(object) = &seen.content else { return None };
        let values = self.session.values();
        let value = object.field(&of.definition.as_ref()?.class, field.token().0);
        match value.as_ref().map_err(|error| *error).and_then(|value| values.see(value)) {
            Ok(seen) => {
                let as_type = field.signature().ok().and_then(|signature| self.field_type(of, &signature));
                Some(Bound::Field(Seen { as_type, ..seen }))
            }
            Err(_) if values.null_of_unused(seen, of, field.token(), &value).is_some() => Some(Bound::Null),
            Err(error) => Some(Bound::Unreadable(error)),
        }
    }

    /// What a name means for a value; none where no type of it has such a member.
    pub(super) fn bind(&self, seen: &Seen, name: &str) -> Option<Bound> {
        for of in self.session.values().member_types(seen) {
            let Some(definition) = &of.definition else { continue };
            let Some(type_def) = definition.type_def() else { continue };
            let fields: Vec<_> = type_def.fields().filter(|field| !field.is_static()).collect();
            if let Some(field) = fields.iter().find(|field| field.name() == Some(name)) {
                return self.declared_field(seen, &of, *field);
            }
            let property = type_def.property_named(name);
            if let Some(property) = property.filter(|property| !is_static(*property)) {
                let accessor = property.getter().or_else(|| property.setter());
                let overrider =
                    accessor.and_then(|accessor| self.session.values().overrider(seen, &of, accessor));
                return Some(Bound::Property(overrider.map_or(of, |(of, _)| of)));
            }
            // What stands for a name of the source without being a property: of tuples, anonymous types, constructors.
            let is_made =
                |raw: Option<&str>| property_of_backing_field(raw.unwrap_or_default()) == Some(name);
            let made = fields.iter().find(|field| is_made(field.name()));
            if let Some(field) = made {
                return self.declared_field(seen, &of, *field);
            }
        }
        None
    }

    /// A field by its name in the assembly, as a type sees it.
    pub(super) fn field_of(&self, seen: &Seen, of: &TypeInfo, name: &str) -> Option<Bound> {
        of.with_bases(&self.session.modules).iter().find_map(|of| {
            let type_def = of.definition.as_ref()?.type_def()?;
            let field = type_def.fields().find(|field| !field.is_static() && field.name() == Some(name))?;
            self.declared_field(seen, of, field)
        })
    }
}

fn is_static(property: Property<'_>) -> bool {
    property.getter().or_else(|| property.setter()).is_some_and(Method::is_static)
}
