//! Custom attributes (ECMA-335 II.23.3): which ones something has, and their arguments.

use super::assembly::Assembly;
use super::cursor::Cursor;
use super::error::ImageError;
use super::references::MemberSig;
use super::signature::{MethodSig, Primitive, TypeSig};
use super::token::{Table, Token};

/// How deep arrays and boxed values may be nested.
const MAXIMAL_DEPTH: u32 = 8;
/// How many values an attribute may hold.
const MAXIMAL_VALUES: u32 = 1 << 14;

/// An attribute that something has. Cheap to copy; arguments are read when they are asked for.
#[derive(Clone, Copy)]
pub struct Attribute<'a> {
    assembly: &'a Assembly,
    row: u32,
}

/// What an attribute was given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttributeArguments {
    /// What the constructor takes.
    pub fixed: Vec<AttributeValue>,
    /// Fields and properties that were set.
    pub named: Vec<NamedArgument>,
}

/// A field or property of an attribute that was set.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedArgument {
    /// Whether it is a field, not a property.
    pub is_field: bool,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// A value in an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A string that is null, a type that is null, or an array that is null.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// One unit of UTF-16.
    Char(u16),
    /// A signed number, or the value of an enum.
    Int(i64),
    /// An unsigned number.
    UInt(u64),
    /// A number with a fraction.
    Double(f64),
    /// A string.
    String(String),
    /// A type, by its name as reflection writes it, with its assembly if that is another one.
    Type(String),
    /// An array.
    Array(Vec<AttributeValue>),
}

impl AttributeValue {
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Type(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is a whole one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::UInt(value) => i64::try_from(*value).ok(),
            Self::Char(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl AttributeArguments {
    /// What a field or property was set to.
    pub fn named(&self, name: &str) -> Option<&AttributeValue> {
        self.named.iter().find(|argument| argument.name == name).map(|argument| &argument.value)
    }
}

impl Assembly {
    /// The attributes of whatever a token names, also of parameters and of the assembly itself.
    pub fn attributes(&self, owner: Token) -> impl Iterator<Item = Attribute<'_>> {
        let rows = self.metadata.tables.rows_of(Table::CustomAttribute, owner);
        rows.into_iter().map(|row| Attribute { assembly: self, row })
    }

    /// The first attribute of a type, by the type's full name.
    pub fn attribute(&self, owner: Token, type_name: &str) -> Option<Attribute<'_>> {
        self.attributes(owner).find(|attribute| attribute.type_name().as_deref() == Some(type_name))
    }

    /// Whether something has an attribute of a type, by the type's full name.
    pub fn has_attribute(&self, owner: Token, type_name: &str) -> bool {
        self.attribute(owner, type_name).is_some()
    }
}

impl Attribute<'_> {
    /// The constructor: a `MethodDef` or `MemberRef`.
    pub fn constructor(self) -> Option<Token> {
        self.assembly.metadata.tables.token(Table::CustomAttribute, self.row, 1)
    }

    fn attribute_type(self) -> Option<Token> {
        let constructor = self.constructor()?;
        match constructor.table()? {
            Table::MethodDef => {
                self.assembly.method(constructor)?.declaring_type().map(|parent| parent.token())
            }
            _ => self.assembly.member_reference(constructor).map(|reference| reference.parent),
        }
    }

    /// The full name of the attribute's type.
    pub fn type_name(self) -> Option<String> {
        self.assembly.type_full_name(self.attribute_type()?)
    }

    /// What the attribute was given.
    ///
    /// How wide an enum of another assembly is does not stand here. Four bytes are taken for granted unless only another width
    /// makes the arguments end where they should.
    pub fn arguments(self) -> Result<AttributeArguments, ImageError> {
        let blob = self.assembly.metadata.blob(Table::CustomAttribute, self.row, 2).ok_or(MALFORMED)?;
        if blob.is_empty() {
            return Ok(AttributeArguments::default());
        }
        let signature = self.constructor_signature().ok_or(MALFORMED)?;
        let type_arguments = self.type_arguments();
        let mut first = None;
        for enum_type in [Primitive::Int32, Primitive::Byte, Primitive::Int16, Primitive::Int64] {
            let mut reader = Reader {
                assembly: self.assembly,
                cursor: Cursor::new(blob),
                enum_type,
                guessed: false,
                values: 0,
            };
            let read = reader.arguments(&signature, &type_arguments);
            if read.is_ok() || !reader.guessed {
                return read;
            }
            first.get_or_insert(read);
        }
        first.unwrap_or(Err(MALFORMED))
    }

    fn constructor_signature(self) -> Option<MethodSig> {
        let constructor = self.constructor()?;
        match constructor.table()? {
            Table::MethodDef => self.assembly.method(constructor)?.signature().ok(),
            _ => match self.assembly.member_reference(constructor)?.signature().ok()? {
                MemberSig::Method(signature) => Some(signature),
                MemberSig::Field(_) => None,
            },
        }
    }

    /// What stands for the parameters of a generic attribute.
    fn type_arguments(self) -> Vec<TypeSig> {
        match self.attribute_type().and_then(|token| self.assembly.type_spec(token).ok()) {
            Some(TypeSig::GenericInst { arguments, .. }) => arguments,
            _ => Vec::new(),
        }
    }
}

impl std::fmt::Debug for Attribute<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Attribute({:?})", self.type_name())
    }
}

const MALFORMED: ImageError = ImageError::Malformed { what: "a custom attribute" };

/// The types that values in attributes can have.
#[derive(Debug, Clone, PartialEq)]
enum ValueType {
    Primitive(Primitive),
    Type,
    Boxed,
    Enum(Primitive),
    Array(Box<ValueType>),
}

struct Reader<'a> {
    assembly: &'a Assembly,
    cursor: Cursor<'a>,
    /// The type of enums that are defined elsewhere.
    enum_type: Primitive,
    /// Whether such an enum came by.
    guessed: bool,
    values: u32,
}

impl Reader<'_> {
    fn arguments(
        &mut self,
        signature: &MethodSig,
        of_type: &[TypeSig],
    ) -> Result<AttributeArguments, ImageError> {
        if self.cursor.u16()? != 1 {
            return Err(MALFORMED);
        }
        let mut arguments = AttributeArguments::default();
        for parameter in &signature.parameters {
            let value_type = self.value_type_of(&parameter.substitute(of_type, &[]), 0).ok_or(MALFORMED)?;
            arguments.fixed.push(self.value(&value_type, 0)?);
        }
        for _ in 0..self.cursor.u16()? {
            let is_field = match self.cursor.u8()? {
                0x53 => true,
                0x54 => false,
                _ => return Err(MALFORMED),
            };
            let value_type = self.value_type(0)?;
            let name = self.cursor.serialized_string()?.ok_or(MALFORMED)?.to_owned();
            arguments.named.push(NamedArgument { is_field, name, value: self.value(&value_type, 0)? });
        }
        if self.cursor.is_at_end() { Ok(arguments) } else { Err(MALFORMED) }
    }

    /// What a parameter of the constructor takes.
    fn value_type_of(&mut self, sig: &TypeSig, depth: u32) -> Option<ValueType> {
        if depth > MAXIMAL_DEPTH {
            return None;
        }
        Some(match sig {
            TypeSig::Primitive(Primitive::Object) => ValueType::Boxed,
            TypeSig::Primitive(primitive) => ValueType::Primitive(*primitive),
            TypeSig::SzArray(element) => ValueType::Array(Box::new(self.value_type_of(element, depth + 1)?)),
            TypeSig::Class(token) => {
                (self.assembly.type_full_name(*token)? == "System.Type").then_some(ValueType::Type)?
            }
            // An enum within a generic type is still an enum.
            TypeSig::ValueType(token)
            | TypeSig::GenericInst { definition: token, is_value_type: true, .. } => {
                ValueType::Enum(self.enum_type_of(*token))
            }
            _ => return None,
        })
    }

    /// The type that stands in the blob itself.
    fn value_type(&mut self, depth: u32) -> Result<ValueType, ImageError> {
        if depth > MAXIMAL_DEPTH {
            return Err(MALFORMED);
        }
        Ok(match self.cursor.u8()? {
            0x1d => ValueType::Array(Box::new(self.value_type(depth + 1)?)),
            0x50 => ValueType::Type,
            0x51 => ValueType::Boxed,
            0x55 => {
                let name = self.cursor.serialized_string()?.ok_or(MALFORMED)?;
                let definition = self.assembly.type_named(type_of_qualified(name));
                match definition.filter(|_| !name.contains(',')) {
                    Some(definition) => ValueType::Enum(self.enum_type_of(definition.token())),
                    None => ValueType::Enum(self.guess(type_of_qualified(name))),
                }
            }
            element @ 0x02..=0x0e => ValueType::Primitive(Primitive::from_element(element).ok_or(MALFORMED)?),
            _ => return Err(MALFORMED),
        })
    }

    /// The type of an enum that is defined elsewhere.
    fn guess(&mut self, full_name: &str) -> Primitive {
        // Attributes that mix these with other enums are common, so that no one width fits.
        match full_name {
            "System.Diagnostics.Tracing.EventKeywords" => Primitive::Int64,
            "System.Diagnostics.Tracing.EventChannel" => Primitive::Byte,
            _ => {
                self.guessed = true;
                self.enum_type
            }
        }
    }

    fn enum_type_of(&mut self, token: Token) -> Primitive {
        let Some(definition) = self.assembly.type_def(token) else {
            return self.guess(&self.assembly.type_full_name(token).unwrap_or_default());
        };
        match definition.enum_type() {
            Some(TypeSig::Primitive(primitive)) => primitive,
            _ => Primitive::Int32,
        }
    }

    fn value(&mut self, value_type: &ValueType, depth: u32) -> Result<AttributeValue, ImageError> {
        self.values += 1;
        if depth > MAXIMAL_DEPTH || self.values > MAXIMAL_VALUES {
            return Err(MALFORMED);
        }
        Ok(match value_type {
            ValueType::Primitive(primitive) => self.primitive(*primitive)?,
            ValueType::Type => self
                .cursor
                .serialized_string()?
                .map_or(AttributeValue::Null, |name| AttributeValue::Type(name.to_owned())),
            ValueType::Boxed => {
                let value_type = self.value_type(depth)?;
                self.value(&value_type, depth + 1)?
            }
            ValueType::Enum(underlying) => match self.primitive(*underlying)? {
                AttributeValue::UInt(value) => AttributeValue::Int(value as i64),
                AttributeValue::Char(value) => AttributeValue::Int(i64::from(value)),
                AttributeValue::Bool(value) => AttributeValue::Int(i64::from(value)),
                value @ AttributeValue::Int(_) => value,
                _ => return Err(MALFORMED),
            },
            ValueType::Array(element) => match self.cursor.u32()? {
                u32::MAX => AttributeValue::Null,
                count if count as usize > self.cursor.remaining() => return Err(MALFORMED),
                count => AttributeValue::Array(
                    (0..count).map(|_| self.value(element, depth + 1)).collect::<Result<_, _>>()?,
                ),
            },
        })
    }

    fn primitive(&mut self, primitive: Primitive) -> Result<AttributeValue, ImageError> {
        use AttributeValue as V;
        Ok(match primitive {
            Primitive::Boolean => V::Bool(self.cursor.u8()? != 0),
            Primitive::Char => V::Char(self.cursor.u16()?),
            Primitive::SByte => V::Int(i64::from(self.cursor.u8()? as i8)),
            Primitive::Byte => V::UInt(u64::from(self.cursor.u8()?)),
            Primitive::Int16 => V::Int(i64::from(self.cursor.u16()? as i16)),
            Primitive::UInt16 => V::UInt(u64::from(self.cursor.u16()?)),
            Primitive::Int32 => V::Int(i64::from(self.cursor.u32()? as i32)),
            Primitive::UInt32 => V::UInt(u64::from(self.cursor.u32()?)),
            Primitive::Int64 => V::Int(self.cursor.u64()? as i64),
            Primitive::UInt64 => V::UInt(self.cursor.u64()?),
            Primitive::Single => V::Double(f64::from(f32::from_bits(self.cursor.u32()?))),
            Primitive::Double => V::Double(f64::from_bits(self.cursor.u64()?)),
            Primitive::String => {
                self.cursor.serialized_string()?.map_or(V::Null, |text| V::String(text.to_owned()))
            }
            _ => return Err(MALFORMED),
        })
    }
}

/// The full name in `Namespace.Type, Assembly, Version=…`.
pub(crate) fn type_of_qualified(name: &str) -> &str {
    name.split(',').next().unwrap_or(name).trim_end()
}
