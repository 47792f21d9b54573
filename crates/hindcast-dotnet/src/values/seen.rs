//! Following references to what a value is.

use crate::{
    cor::{
        ArrayValue, BoxValue, Com, CorError, GenericValue, Hresult, ObjectValue, Process, ReferenceValue,
        StringValue, Value, Value2, element,
    },
    image::{Primitive, Spelling, Token, TypeSig},
    modules::Modules,
};

use super::{characters::Characters, types::TypeInfo};

/// Reads values of a stopped program.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) modules: &'a Modules,
    pub(crate) process: &'a Com<Process>,
}

/// A value, with references and boxes followed.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The value as it was found: what is assigned to, and what is passed to functions.
    pub(crate) value: Com<Value>,
    /// What it really is; as declared where it is null.
    pub(crate) of: TypeInfo,
    pub(crate) content: Content,
    /// What a cast or its declaration says that it is.
    pub(crate) as_type: Option<TypeInfo>,
    /// Whether its members are those of `as_type` even where the object overrides them: it is `base`.
    pub(crate) is_base: bool,
}

/// What is behind the references.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Null,
    Primitive(Primitive, Vec<u8>),
    String(Characters),
    Array(Com<ArrayValue>),
    Object(Com<ObjectValue>),
    /// An address that is not followed.
    Pointer(u64),
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct FieldValue {
    /// As its assembly has it.
    pub(crate) raw_name: String,
    pub(crate) token: Token,
    /// The type that declares it.
    pub(crate) declared_by: TypeInfo,
    pub(crate) value: Result<Com<Value>, CorError>,
}

impl FieldValue {
    /// As the source has it: an automatic property under its own name.
    pub(crate) fn name(&self) -> &str {
        property_of_backing_field(&self.raw_name).unwrap_or(&self.raw_name)
    }
}

/// What the source calls a field that the compiler made: of an automatic property `<Name>k__BackingField`, of an anonymous
/// type `<Name>i__Field`, of a primary constructor's parameter `<name>P`, of an F# record `Name@`.
pub(crate) fn property_of_backing_field(name: &str) -> Option<&str> {
    if let Some(name) = name.strip_suffix('@') {
        return Some(name);
    }
    let (name, made) = name.strip_prefix('<')?.split_once('>')?;
    (!name.is_empty() && matches!(made, "k__BackingField" | "i__Field" | "P")).then_some(name)
}

/// References to references are followed so far.
const MOST_HOPS: usize = 4;

impl Values<'_> {
    /// Follows references and boxes.
    pub(crate) fn see(&self, value: &Com<Value>) -> Result<Seen, CorError> {
        let mut current = value.clone();
        for _ in 0..MOST_HOPS {
            let Some(reference) = current.cast::<ReferenceValue>() else {
                return self.look(value, &current);
            };
            let is_pointer = current.element_type()? == element::POINTER;
            if reference.is_null()? {
                return Ok(Seen {
                    value: value.clone(),
                    of: self.type_of(&current)?,
                    content: Content::Null,
                    as_type: None,
                    is_base: false,
                });
            }
            if is_pointer {
                let content = Content::Pointer(reference.value()?);
                return Ok(Seen {
                    value: value.clone(),
                    of: self.type_of(&current)?,
                    content,
                    as_type: None,
                    is_base: false,
                });
            }
            if let Some((of, text)) = self.long_string(&reference) {
                let content = Content::String(text);
                return Ok(Seen { value: value.clone(), of, content, as_type: None, is_base: false });
            }
            current = reference.dereference()?;
        }
        Err(CorError { call: "Values::see", code: Hresult::BAD_REFERENCE })
    }

    /// What is there, without any reference in front.
    fn look(&self, found: &Com<Value>, value: &Com<Value>) -> Result<Seen, CorError> {
        let seen = |of, content| Seen { value: found.clone(), of, content, as_type: None, is_base: false };
        if let Some(boxed) = value.cast::<BoxValue>() {
            let object = boxed.object()?;
            let inner: Com<Value> = object.expect("BoxValue::object")?;
            let of = self.type_of(&inner)?;
            return Ok(match (of.primitive(), inner.cast::<GenericValue>()) {
                (Some(primitive), Some(generic)) => seen(of, Content::Primitive(primitive, generic.bytes()?)),
                _ => seen(of, Content::Object(object)),
            });
        }
        if let Some(text) = value.cast::<StringValue>() {
            return Ok(seen(self.type_of(value)?, Content::String(Characters::Copied(text))));
        }
        if let Some(array) = value.cast::<ArrayValue>() {
            return Ok(seen(self.type_of(value)?, Content::Array(array)));
        }
        let of = self.type_of(value)?;
        if let Some(primitive) = of.primitive()
            && let Some(generic) = value.cast::<GenericValue>()
        {
            return Ok(seen(of, Content::Primitive(primitive, generic.bytes()?)));
        }
        let object = value.expect("Values::look")?;
        Ok(seen(of, Content::Object(object)))
    }

    pub(crate) fn type_of(&self, value: &Com<Value>) -> Result<TypeInfo, CorError> {
        let exact = value.expect::<Value2>("Value::exact_type")?.exact_type()?;
        Ok(TypeInfo::of(exact, self.modules))
    }

    /// The fields of an object, those of the most derived type first.
    pub(crate) fn fields(&self, object: &Com<ObjectValue>, of: &TypeInfo) -> Vec<FieldValue> {
        let mut found = Vec::new();
        for declared_by in of.with_bases(self.modules) {
            let Some(definition) = &declared_by.definition else { continue };
            let Some(type_def) = definition.type_def() else { continue };
            for field in type_def.fields().filter(|field| !field.is_static()) {
                found.push(FieldValue {
                    raw_name: field.name().unwrap_or("?").to_owned(),
                    token: field.token(),
                    declared_by: declared_by.clone(),
                    value: object.field(&definition.class, field.token().0),
                });
            }
        }
        found
    }

    /// The type of a field that holds nothing because nothing has used that type: of it, there is no object.
    pub(crate) fn null_of_unused(
        &self,
        seen: &Seen,
        declared_by: &TypeInfo,
        token: Token,
        value: &Result<Com<Value>, CorError>,
    ) -> Option<String> {
        let found = value.as_ref().map_err(|error| *error).and_then(|value| self.see(value));
        let Err(CorError { code: Hresult::CLASS_NOT_LOADED, .. }) = found else { return None };
        let type_def = declared_by.definition.as_ref()?.type_def()?;
        let assembly = type_def.assembly();
        let signature = assembly.field(token)?.signature().ok()?;
        let is_null = match &signature {
            TypeSig::GenericInst { definition, is_value_type: true, .. } => {
                let is_nullable = assembly.type_full_name(*definition)? == "System.Nullable`1";
                // Code that was compiled ahead sets one without its type.
                is_nullable && self.is_rest_zero(seen)?
            }
            TypeSig::GenericInst { .. } | TypeSig::Class(_) => true,
            TypeSig::SzArray(_) | TypeSig::Array { .. } => true,
            _ => false,
        };
        is_null.then(|| signature.spell(&type_def, Spelling::Short))
    }

    /// Whether all of an object is zero that is not in fields which can be read.
    fn is_rest_zero(&self, seen: &Seen) -> Option<bool> {
        let Content::Object(object) = &seen.content else { return None };
        let whole: Com<Value> = object.cast()?;
        let (start, size) = (seen.object_address()?, whole.size().ok()?);
        let mut bytes = self.process.read_memory(start, size).ok()?;
        // The first of them say what the object is.
        bytes.get_mut(..size_of::<u64>())?.fill(0);
        for field in self.fields(object, &seen.of) {
            let Ok(value) = field.value else { continue };
            let at = usize::try_from(value.address().ok()?.checked_sub(start)?).ok()?;
            let length = value.size().ok()? as usize;
            bytes.get_mut(at..at.checked_add(length)?)?.fill(0);
        }
        Some(bytes.iter().all(|byte| *byte == 0))
    }

    /// The field of this name, as the source or the assembly spells it.
    pub(crate) fn field(&self, seen: &Seen, name: &str) -> Option<Com<Value>> {
        let Content::Object(object) = &seen.content else { return None };
        for declared_by in seen.of.with_bases(self.modules) {
            let Some(definition) = &declared_by.definition else { continue };
            let Some(type_def) = definition.type_def() else { continue };
            let field = type_def.fields().filter(|field| !field.is_static()).find(|field| {
                let raw = field.name().unwrap_or_default();
                raw == name || property_of_backing_field(raw) == Some(name)
            });
            if let Some(field) = field {
                return object.field(&definition.class, field.token().0).ok();
            }
        }
        None
    }

    /// The field of this name, followed.
    pub(crate) fn field_seen(&self, seen: &Seen, name: &str) -> Option<Seen> {
        self.see(&self.field(seen, name)?).ok()
    }

    /// The first field that is there under one of these names: the framework's versions differ.
    pub(crate) fn any_field(&self, seen: &Seen, names: &[&str]) -> Option<Seen> {
        names.iter().find_map(|name| self.field_seen(seen, name))
    }

    /// A whole number in a field.
    pub(crate) fn integer_field(&self, seen: &Seen, names: &[&str]) -> Option<i64> {
        self.any_field(seen, names)?.integer()
    }
}

impl Seen {
    /// It with the names that its declaration gives to the items of tuples.
    pub(crate) fn declared(mut self, declared: Option<&TypeInfo>) -> Self {
        if let Some(declared) = declared {
            self.of = self.of.as_declared(declared);
        }
        self
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    /// Its value as a whole number, where it is one that fits.
    pub(crate) fn integer(&self) -> Option<i64> {
        let Content::Primitive(primitive, bytes) = &self.content else { return None };
        integer_of(*primitive, bytes)
    }

    /// The reference to a string that is too long to follow it.
    pub(crate) fn long_string(&self) -> Option<&Com<ReferenceValue>> {
        match &self.content {
            Content::String(text) => text.in_place(),
            _ => None,
        }
    }

    /// Where the object is that it refers to, until the debuggee goes on.
    pub(crate) fn object_address(&self) -> Option<u64> {
        if let Some(reference) = self.long_string() {
            return reference.value().ok();
        }
        let mut reference = self.value.cast::<ReferenceValue>()?;
        // A reference to a reference: `ref` and captured variables.
        for _ in 0..MOST_HOPS {
            let target = reference.dereference().ok()?;
            match target.cast::<ReferenceValue>() {
                Some(inner) => reference = inner,
                None => return reference.value().ok(),
            }
        }
        None
    }

    /// The bytes of a struct.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Primitive(_, bytes) => Some(bytes.clone()),
            Content::Object(object) => object.cast::<GenericValue>()?.bytes().ok(),
            _ => None,
        }
    }

    /// Its text, where it is a string, cut to `most` code units.
    pub(crate) fn text(&self, most: u32) -> Option<String> {
        match &self.content {
            Content::String(text) => text.units(most).ok().map(|(text, _)| String::from_utf16_lossy(&text)),
            _ => None,
        }
    }

    /// Its value as a whole number of any size.
    pub(crate) fn whole(&self) -> Option<i128> {
        let Content::Primitive(primitive, bytes) = &self.content else { return None };
        match integer_of(*primitive, bytes) {
            Some(number) => Some(number.into()),
            None if matches!(primitive, Primitive::UInt64 | Primitive::UIntPtr) => {
                Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?).into())
            }
            None => None,
        }
    }
}

/// The whole number in these bytes; none for fractions and for what does not fit.
pub(crate) fn integer_of(primitive: Primitive, bytes: &[u8]) -> Option<i64> {
    let unsigned = || {
        let mut eight = [0u8; 8];
        eight.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(eight))
    };
    Some(match primitive {
        Primitive::SByte => i64::from(bytes.first()?.cast_signed()),
        Primitive::Int16 => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
        Primitive::Int32 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        Primitive::Int64 | Primitive::IntPtr => i64::from_le_bytes(bytes.try_into().ok()?),
        Primitive::Boolean
        | Primitive::Char
        | Primitive::Byte
        | Primitive::UInt16
        | Primitive::UInt32
        | Primitive::UInt64
        | Primitive::UIntPtr => i64::try_from(unsigned()?).ok()?,
        _ => return None,
    })
}
