//! Signatures (ECMA-335 II.23.2): types of fields, locals, properties and methods.

use super::cursor::Cursor;
use super::error::ImageError;
use super::schema::Coded;
use super::tables::decode;
use super::token::Token;

/// How deep types may be nested in each other.
const MAXIMAL_DEPTH: u32 = 64;
/// How many types one signature may name.
const MAXIMAL_TYPES: u32 = 1 << 14;

/// A type as signatures spell it. Custom modifiers are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeSig {
    /// A type that the runtime knows by itself.
    Primitive(Primitive),
    /// A class or an interface, defined here (`TypeDef`) or elsewhere (`TypeRef`).
    Class(Token),
    /// A struct or an enum, defined here (`TypeDef`) or elsewhere (`TypeRef`).
    ValueType(Token),
    /// A generic type with its arguments.
    GenericInst {
        /// The generic type.
        definition: Token,
        /// Whether it is a struct.
        is_value_type: bool,
        /// What stands for its parameters.
        arguments: Vec<TypeSig>,
    },
    /// An array with one dimension that begins at 0.
    SzArray(Box<TypeSig>),
    /// An array with `rank` dimensions.
    Array {
        /// What it holds.
        element: Box<TypeSig>,
        /// How many dimensions it has.
        rank: u32,
    },
    /// A reference (`ref`, `in`, `out`).
    ByRef(Box<TypeSig>),
    /// A pointer.
    Pointer(Box<TypeSig>),
    /// A pointer to a function.
    FunctionPointer(Box<MethodSig>),
    /// The type's parameter with a number.
    TypeParameter(u32),
    /// The method's parameter with a number.
    MethodParameter(u32),
    /// A local that the garbage collector does not move.
    Pinned(Box<TypeSig>),
}

/// A type that the runtime knows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Primitive {
    Void,
    Boolean,
    Char,
    SByte,
    Byte,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Single,
    Double,
    String,
    TypedReference,
    IntPtr,
    UIntPtr,
    Object,
}

/// What a method takes and returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodSig {
    /// The convention's number: 0 for managed methods, 5 with a variable number of arguments.
    pub convention: u8,
    /// Whether there is a `this`.
    pub has_this: bool,
    /// Whether `this` is the first of the parameters.
    pub explicit_this: bool,
    /// How many type parameters the method has.
    pub generic_parameters: u32,
    /// What it returns.
    pub returns: TypeSig,
    /// What it takes, without `this`.
    pub parameters: Vec<TypeSig>,
    /// How many parameters are declared, where others follow at the place of a call (`__arglist`).
    pub required: usize,
}

impl Primitive {
    /// The primitive that an element type stands for.
    pub(crate) fn from_element(element: u8) -> Option<Self> {
        Some(match element {
            0x01 => Self::Void,
            0x02 => Self::Boolean,
            0x03 => Self::Char,
            0x04 => Self::SByte,
            0x05 => Self::Byte,
            0x06 => Self::Int16,
            0x07 => Self::UInt16,
            0x08 => Self::Int32,
            0x09 => Self::UInt32,
            0x0a => Self::Int64,
            0x0b => Self::UInt64,
            0x0c => Self::Single,
            0x0d => Self::Double,
            0x0e => Self::String,
            0x16 => Self::TypedReference,
            0x18 => Self::IntPtr,
            0x19 => Self::UIntPtr,
            0x1c => Self::Object,
            _ => return None,
        })
    }

    /// The word that C# has for it.
    pub fn csharp(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Boolean => "bool",
            Self::Char => "char",
            Self::SByte => "sbyte",
            Self::Byte => "byte",
            Self::Int16 => "short",
            Self::UInt16 => "ushort",
            Self::Int32 => "int",
            Self::UInt32 => "uint",
            Self::Int64 => "long",
            Self::UInt64 => "ulong",
            Self::Single => "float",
            Self::Double => "double",
            Self::String => "string",
            Self::TypedReference => "TypedReference",
            Self::IntPtr => "nint",
            Self::UIntPtr => "nuint",
            Self::Object => "object",
        }
    }

    /// The full name, as reflection writes it.
    pub fn full_name(self) -> &'static str {
        match self {
            Self::Void => "System.Void",
            Self::Boolean => "System.Boolean",
            Self::Char => "System.Char",
            Self::SByte => "System.SByte",
            Self::Byte => "System.Byte",
            Self::Int16 => "System.Int16",
            Self::UInt16 => "System.UInt16",
            Self::Int32 => "System.Int32",
            Self::UInt32 => "System.UInt32",
            Self::Int64 => "System.Int64",
            Self::UInt64 => "System.UInt64",
            Self::Single => "System.Single",
            Self::Double => "System.Double",
            Self::String => "System.String",
            Self::TypedReference => "System.TypedReference",
            Self::IntPtr => "System.IntPtr",
            Self::UIntPtr => "System.UIntPtr",
            Self::Object => "System.Object",
        }
    }

    /// The primitive with a full name such as `System.Int32`.
    pub fn from_full_name(name: &str) -> Option<Self> {
        (0x01..=0x1c).filter_map(Self::from_element).find(|primitive| primitive.full_name() == name)
    }
}

impl TypeSig {
    /// Reads the signature of a `TypeSpec`.
    pub fn parse(blob: &[u8]) -> Result<Self, ImageError> {
        Reader::new(blob).type_sig()
    }

    /// Reads the signature of a field.
    pub fn parse_field(blob: &[u8]) -> Result<Self, ImageError> {
        let mut reader = Reader::new(blob);
        if reader.cursor.u8()? & 0x0f != 0x06 {
            return Err(MALFORMED);
        }
        reader.type_sig()
    }

    /// Reads the signature of a method's locals, by slot.
    pub fn parse_locals(blob: &[u8]) -> Result<Vec<Self>, ImageError> {
        let mut reader = Reader::new(blob);
        if reader.cursor.u8()? != 0x07 {
            return Err(MALFORMED);
        }
        let count = reader.cursor.compressed()?;
        reader.list(count)
    }

    /// Reads the arguments that a `MethodSpec` gives to a generic method.
    pub fn parse_method_arguments(blob: &[u8]) -> Result<Vec<Self>, ImageError> {
        let mut reader = Reader::new(blob);
        if reader.cursor.u8()? != 0x0a {
            return Err(MALFORMED);
        }
        let count = reader.cursor.compressed()?;
        reader.list(count)
    }

    /// Puts types in the places of type and method parameters. A parameter without an argument stays one.
    #[must_use]
    pub fn substitute(&self, of_type: &[TypeSig], of_method: &[TypeSig]) -> TypeSig {
        self.substitute_some(of_type, of_method, &mut MAXIMAL_TYPES.clone())
    }

    /// Substitutes until the result is as large as a signature may be.
    fn substitute_some(&self, of_type: &[TypeSig], of_method: &[TypeSig], left: &mut u32) -> TypeSig {
        let mut inner = |sig: &TypeSig| sig.substitute_some(of_type, of_method, left);
        match self {
            Self::TypeParameter(number) => self.argument(of_type, *number, left),
            Self::MethodParameter(number) => self.argument(of_method, *number, left),
            Self::GenericInst { definition, is_value_type, arguments } => Self::GenericInst {
                definition: *definition,
                is_value_type: *is_value_type,
                arguments: arguments.iter().map(inner).collect(),
            },
            Self::SzArray(element) => Self::SzArray(Box::new(inner(element))),
            Self::Array { element, rank } => Self::Array { element: Box::new(inner(element)), rank: *rank },
            Self::ByRef(target) => Self::ByRef(Box::new(inner(target))),
            Self::Pointer(target) => Self::Pointer(Box::new(inner(target))),
            Self::Pinned(target) => Self::Pinned(Box::new(inner(target))),
            Self::Primitive(_) | Self::Class(_) | Self::ValueType(_) | Self::FunctionPointer(_) => {
                self.clone()
            }
        }
    }

    fn argument(&self, arguments: &[TypeSig], number: u32, left: &mut u32) -> TypeSig {
        let Some(argument) = arguments.get(number as usize) else { return self.clone() };
        match left.checked_sub(argument.size()) {
            Some(rest) => {
                *left = rest;
                argument.clone()
            }
            None => self.clone(),
        }
    }

    /// How many types it is made of.
    fn size(&self) -> u32 {
        match self {
            Self::SzArray(inner) | Self::ByRef(inner) | Self::Pointer(inner) | Self::Pinned(inner) => {
                1 + inner.size()
            }
            Self::Array { element, .. } => 1 + element.size(),
            Self::GenericInst { arguments, .. } => 1 + arguments.iter().map(Self::size).sum::<u32>(),
            Self::FunctionPointer(method) => {
                1 + method.returns.size() + method.parameters.iter().map(Self::size).sum::<u32>()
            }
            _ => 1,
        }
    }

    /// The token of the type, or of the generic type that is instantiated.
    pub fn definition(&self) -> Option<Token> {
        match self {
            Self::Class(token) | Self::ValueType(token) | Self::GenericInst { definition: token, .. } => {
                Some(*token)
            }
            _ => None,
        }
    }
}

impl MethodSig {
    /// Reads the signature of a method, also where one is called.
    pub fn parse(blob: &[u8]) -> Result<Self, ImageError> {
        Reader::new(blob).method_sig(0)
    }

    /// Reads the signature of a property: what it gives, and what an indexer takes.
    pub fn parse_property(blob: &[u8]) -> Result<Self, ImageError> {
        let mut reader = Reader::new(blob);
        if reader.cursor.peek().is_none_or(|first| first & 0x0f != 0x08) {
            return Err(MALFORMED);
        }
        reader.method_sig(0)
    }
}

const MALFORMED: ImageError = ImageError::Malformed { what: "a signature" };

/// Reads types, counting how many and how deep.
pub(crate) struct Reader<'a> {
    pub(crate) cursor: Cursor<'a>,
    types: u32,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(blob: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(blob), types: 0 }
    }

    pub(crate) fn type_sig(&mut self) -> Result<TypeSig, ImageError> {
        self.read(0)
    }

    fn list(&mut self, count: u32) -> Result<Vec<TypeSig>, ImageError> {
        // Every type takes a byte at least.
        if count as usize > self.cursor.remaining() {
            return Err(MALFORMED);
        }
        (0..count).map(|_| self.read(0)).collect()
    }

    fn boxed(&mut self, depth: u32) -> Result<Box<TypeSig>, ImageError> {
        self.read(depth + 1).map(Box::new)
    }

    fn read(&mut self, depth: u32) -> Result<TypeSig, ImageError> {
        self.types += 1;
        if depth > MAXIMAL_DEPTH || self.types > MAXIMAL_TYPES {
            return Err(MALFORMED);
        }
        let mut element = self.cursor.u8()?;
        // Modifiers, required and optional.
        while matches!(element, 0x1f | 0x20) {
            self.cursor.compressed()?;
            element = self.cursor.u8()?;
        }
        if let Some(primitive) = Primitive::from_element(element) {
            return Ok(TypeSig::Primitive(primitive));
        }
        Ok(match element {
            0x0f => TypeSig::Pointer(self.boxed(depth)?),
            0x10 => TypeSig::ByRef(self.boxed(depth)?),
            0x11 => TypeSig::ValueType(self.token()?),
            0x12 => TypeSig::Class(self.token()?),
            0x13 => TypeSig::TypeParameter(self.cursor.compressed()?),
            0x14 => self.array(depth)?,
            0x15 => self.generic(depth)?,
            0x1b => TypeSig::FunctionPointer(Box::new(self.method_sig(depth + 1)?)),
            0x1d => TypeSig::SzArray(self.boxed(depth)?),
            0x1e => TypeSig::MethodParameter(self.cursor.compressed()?),
            0x45 => TypeSig::Pinned(self.boxed(depth)?),
            _ => return Err(MALFORMED),
        })
    }

    pub(crate) fn token(&mut self) -> Result<Token, ImageError> {
        decode(Coded::TypeDefOrRef, self.cursor.compressed()?).ok_or(MALFORMED)
    }

    fn array(&mut self, depth: u32) -> Result<TypeSig, ImageError> {
        let element = self.boxed(depth)?;
        let rank = self.cursor.compressed()?;
        if rank == 0 || rank > 32 {
            return Err(MALFORMED);
        }
        // Sizes and lower bounds: compilers write neither, and the runtime's arrays say themselves.
        for _ in 0..self.cursor.compressed()? {
            self.cursor.compressed()?;
        }
        for _ in 0..self.cursor.compressed()? {
            self.cursor.compressed_signed()?;
        }
        Ok(TypeSig::Array { element, rank })
    }

    fn generic(&mut self, depth: u32) -> Result<TypeSig, ImageError> {
        let is_value_type = match self.cursor.u8()? {
            0x11 => true,
            0x12 => false,
            _ => return Err(MALFORMED),
        };
        let definition = self.token()?;
        let count = self.cursor.compressed()?;
        if count as usize > self.cursor.remaining() {
            return Err(MALFORMED);
        }
        let arguments = (0..count).map(|_| self.read(depth + 1)).collect::<Result<_, _>>()?;
        Ok(TypeSig::GenericInst { definition, is_value_type, arguments })
    }

    fn method_sig(&mut self, depth: u32) -> Result<MethodSig, ImageError> {
        let head = self.cursor.u8()?;
        let generic_parameters = if head & 0x10 != 0 { self.cursor.compressed()? } else { 0 };
        let count = self.cursor.compressed()? as usize;
        let returns = self.read(depth)?;
        if count > self.cursor.remaining() {
            return Err(MALFORMED);
        }
        let mut parameters = Vec::new();
        let mut required = count;
        while parameters.len() < count {
            // What follows the sentinel is only passed, not declared.
            if self.cursor.peek() == Some(0x41) {
                self.cursor.skip(1)?;
                required = parameters.len();
            }
            parameters.push(self.read(depth)?);
        }
        Ok(MethodSig {
            convention: head & 0x0f,
            has_this: head & 0x20 != 0,
            explicit_this: head & 0x40 != 0,
            generic_parameters,
            returns,
            parameters,
            required,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_nested_without_end_is_an_error() {
        assert!(TypeSig::parse(&[0x1d; 100_000]).is_err());
        let deep: Vec<u8> = std::iter::repeat_n(0x1d, 60).chain([0x08]).collect();
        assert!(TypeSig::parse(&deep).is_ok());
    }

    #[test]
    fn counts_that_the_blob_cannot_hold_allocate_nothing() {
        // A local signature, a generic instance and a method that declare half a billion types.
        let huge = [0xdf, 0xff, 0xff, 0xff];
        assert!(TypeSig::parse_locals(&[&[0x07][..], &huge].concat()).is_err());
        assert!(TypeSig::parse(&[&[0x15, 0x12, 0x05][..], &huge].concat()).is_err());
        assert!(MethodSig::parse(&[&[0x00][..], &huge, &[0x01]].concat()).is_err());
    }

    #[test]
    fn parameters_that_are_only_passed_are_told_from_declared_ones() {
        let signature = MethodSig::parse(&[0x05, 2, 0x01, 0x08, 0x41, 0x0e]).unwrap();
        assert_eq!(signature.required, 1);
        assert_eq!(signature.parameters[1], TypeSig::Primitive(Primitive::String));
    }

    #[test]
    fn arguments_take_the_places_of_parameters() {
        let list_of = |argument| TypeSig::SzArray(Box::new(argument));
        let int = TypeSig::Primitive(Primitive::Int32);
        let sig = list_of(TypeSig::TypeParameter(0));
        assert_eq!(sig.substitute(std::slice::from_ref(&int), &[]), list_of(int));
        assert_eq!(sig.substitute(&[], &[]), sig);
    }
}
