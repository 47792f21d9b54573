//! Members of types: fields, methods, properties and events.

use super::assembly::Assembly;
use super::constant::Constant;
use super::error::ImageError;
use super::signature::{MethodSig, TypeSig};
use super::token::{Table, Token};
use super::type_display::TypeNames;
use super::types::{GenericParameter, TypeDef, named};

/// A field. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    assembly: &'a Assembly,
    row: u32,
}

/// A method. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Method<'a> {
    pub(crate) assembly: &'a Assembly,
    pub(crate) row: u32,
}

/// A property. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Property<'a> {
    assembly: &'a Assembly,
    row: u32,
}

/// An event. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    assembly: &'a Assembly,
    row: u32,
}

/// A parameter as the method declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its token.
    pub token: Token,
    /// Its place, counted from 1; 0 is what the method returns.
    pub sequence: u16,
    /// Its name; empty where it has none.
    pub name: &'a str,
    /// In, out, optional (ECMA-335 II.23.1.13).
    pub flags: u16,
}

impl Assembly {
    /// The field of a `Field` token.
    pub fn field(&self, token: Token) -> Option<Field<'_>> {
        self.checked_row(token, Table::Field).map(|row| Field { assembly: self, row })
    }

    /// The method of a `MethodDef` token.
    pub fn method(&self, token: Token) -> Option<Method<'_>> {
        self.checked_row(token, Table::MethodDef).map(|row| Method { assembly: self, row })
    }

    /// All methods of all types.
    pub fn methods(&self) -> impl Iterator<Item = Method<'_>> {
        self.metadata.tables.tokens(Table::MethodDef).filter_map(|token| self.method(token))
    }

    /// The property of a `Property` token.
    pub fn property(&self, token: Token) -> Option<Property<'_>> {
        self.checked_row(token, Table::Property).map(|row| Property { assembly: self, row })
    }

    /// The event of an `Event` token.
    pub fn event(&self, token: Token) -> Option<Event<'_>> {
        self.checked_row(token, Table::Event).map(|row| Event { assembly: self, row })
    }

    fn checked_row(&self, token: Token, table: Table) -> Option<u32> {
        token.row_in(table).filter(|row| *row <= self.metadata.tables.rows(table))
    }

    /// The type parameters of a `TypeDef` or `MethodDef`, in their order.
    pub fn generic_parameters(&self, owner: Token) -> Vec<GenericParameter<'_>> {
        let tables = &self.metadata.tables;
        let rows = tables.rows_of(Table::GenericParam, owner);
        rows.into_iter()
            .filter_map(|row| {
                Some(GenericParameter {
                    token: Token::new(Table::GenericParam, row),
                    number: tables.cell(Table::GenericParam, row, 0)? as u16,
                    name: self.metadata.string(Table::GenericParam, row, 3)?,
                    flags: tables.cell(Table::GenericParam, row, 1)? as u16,
                })
            })
            .collect()
    }

    /// The constant that belongs to a field, a parameter or a property.
    pub fn constant(&self, token: Token) -> Option<Constant> {
        let tables = &self.metadata.tables;
        let row = *tables.rows_of(Table::Constant, token).first()?;
        let element = tables.cell(Table::Constant, row, 0)? as u8;
        Constant::parse(element, self.metadata.blob(Table::Constant, row, 2)?)
    }

    fn declaring_type(&self, column: usize, target: Table, row: u32) -> Option<TypeDef<'_>> {
        let place = self.metadata.tables.place_of(target, row)?;
        let owner = self.metadata.tables.owner(Table::TypeDef, column, place)?;
        self.type_def(Token::new(Table::TypeDef, owner))
    }

    fn mapped_type(&self, map: Table, target: Table, row: u32) -> Option<TypeDef<'_>> {
        let place = self.metadata.tables.place_of(target, row)?;
        let owner = self.metadata.tables.owner(map, 1, place)?;
        self.type_def(self.metadata.tables.token(map, owner, 0)?)
    }

    /// The method that does something for a property or an event.
    fn accessor(&self, owner: Token, semantics: u32) -> Option<Method<'_>> {
        let tables = &self.metadata.tables;
        let rows = tables.rows_of(Table::MethodSemantics, owner);
        let row = rows.into_iter().find(|row| {
            tables.cell(Table::MethodSemantics, *row, 0).is_some_and(|does| does & semantics != 0)
        })?;
        self.method(tables.token(Table::MethodSemantics, row, 1)?)
    }
}

impl<'a> Field<'a> {
    /// Its token.
    pub fn token(self) -> Token {
        Token::new(Table::Field, self.row)
    }

    /// Its name.
    pub fn name(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::Field, self.row, 1)
    }

    /// Visibility and so on (ECMA-335 II.23.1.5).
    pub fn flags(self) -> u16 {
        self.assembly.metadata.tables.cell(Table::Field, self.row, 0).unwrap_or(0) as u16
    }

    /// Whether it belongs to the type, not to its instances.
    pub fn is_static(self) -> bool {
        self.flags() & 0x10 != 0
    }

    /// Whether it is a constant of the compiler's, with no place in memory.
    pub fn is_literal(self) -> bool {
        self.flags() & 0x40 != 0
    }

    /// Its type.
    pub fn signature(self) -> Result<TypeSig, ImageError> {
        let blob = self.assembly.metadata.blob(Table::Field, self.row, 2);
        TypeSig::parse_field(blob.ok_or(ImageError::Malformed { what: "the signature of a field" })?)
    }

    /// The value of a literal.
    pub fn constant(self) -> Option<Constant> {
        self.assembly.constant(self.token())
    }

    /// The type that it belongs to.
    pub fn declaring_type(self) -> Option<TypeDef<'a>> {
        self.assembly.declaring_type(4, Table::Field, self.row)
    }
}

impl<'a> Method<'a> {
    /// Its token.
    pub fn token(self) -> Token {
        Token::method(self.row)
    }

    /// The assembly that defines it.
    pub fn assembly(self) -> &'a Assembly {
        self.assembly
    }

    /// Its name; constructors are called `.ctor` and `.cctor`.
    pub fn name(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::MethodDef, self.row, 3)
    }

    fn cell(self, column: usize) -> u32 {
        self.assembly.metadata.tables.cell(Table::MethodDef, self.row, column).unwrap_or(0)
    }

    /// Where its body lies in the loaded image; 0 where it has none.
    pub fn rva(self) -> u32 {
        self.cell(0)
    }

    /// Visibility and so on (ECMA-335 II.23.1.10).
    pub fn flags(self) -> u16 {
        self.cell(2) as u16
    }

    /// How it is implemented (ECMA-335 II.23.1.11).
    pub fn implementation_flags(self) -> u16 {
        self.cell(1) as u16
    }

    /// Whether it has no `this`.
    pub fn is_static(self) -> bool {
        self.flags() & 0x10 != 0
    }

    /// Whether overriding methods are called in its place.
    pub fn is_virtual(self) -> bool {
        self.flags() & 0x40 != 0
    }

    /// Whether it overrides nothing, even if a base has a method of the same name and kind.
    pub fn is_new_slot(self) -> bool {
        self.flags() & 0x100 != 0
    }

    /// Whether it has no body.
    pub fn is_abstract(self) -> bool {
        self.flags() & 0x400 != 0
    }

    /// What it takes and returns.
    pub fn signature(self) -> Result<MethodSig, ImageError> {
        let blob = self.assembly.metadata.blob(Table::MethodDef, self.row, 4);
        MethodSig::parse(blob.ok_or(ImageError::Malformed { what: "the signature of a method" })?)
    }

    /// The parameters that the file says more of than their types.
    pub fn parameters(self) -> impl Iterator<Item = Parameter<'a>> {
        let metadata = &self.assembly.metadata;
        metadata.tables.owned(Table::MethodDef, self.row, 5).filter_map(move |place| {
            let row = metadata.tables.listed(Table::Param, place)?;
            Some(Parameter {
                token: Token::new(Table::Param, row),
                sequence: metadata.tables.cell(Table::Param, row, 1)? as u16,
                name: metadata.string(Table::Param, row, 2)?,
                flags: metadata.tables.cell(Table::Param, row, 0)? as u16,
            })
        })
    }

    /// The names of `count` parameters by their places; none where the file does not tell.
    pub fn parameter_names(self, count: usize) -> Vec<Option<&'a str>> {
        let count = count.min(0xffff);
        let mut names = vec![None; count];
        for parameter in self.parameters().filter(|parameter| !parameter.name.is_empty()) {
            let place = usize::from(parameter.sequence).checked_sub(1);
            if let Some(name) = place.and_then(|place| names.get_mut(place)) {
                *name = Some(parameter.name);
            }
        }
        names
    }

    /// Its type parameters.
    pub fn generic_parameters(self) -> Vec<GenericParameter<'a>> {
        self.assembly.generic_parameters(self.token())
    }

    /// The type that it belongs to.
    pub fn declaring_type(self) -> Option<TypeDef<'a>> {
        self.assembly.declaring_type(5, Table::MethodDef, self.row)
    }

    /// The full name of its type and its own, as stack traces write them: `Namespace.Type.Method`.
    pub fn full_name(self) -> Option<String> {
        Some(format!("{}.{}", self.declaring_type()?.full_name()?, self.name()?))
    }
}

/// Names types as its assembly does, and parameters as the method and its type declare them.
impl TypeNames for Method<'_> {
    fn type_name(&self, token: Token) -> Option<String> {
        self.assembly.type_full_name(token)
    }

    fn type_parameter(&self, number: u32) -> Option<String> {
        named(&self.declaring_type()?.generic_parameters(), number)
    }

    fn method_parameter(&self, number: u32) -> Option<String> {
        named(&self.generic_parameters(), number)
    }
}

impl<'a> Property<'a> {
    /// Its token.
    pub fn token(self) -> Token {
        Token::new(Table::Property, self.row)
    }

    /// Its name.
    pub fn name(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::Property, self.row, 1)
    }

    /// What it gives, and what it takes if it is an indexer.
    pub fn signature(self) -> Result<MethodSig, ImageError> {
        let blob = self.assembly.metadata.blob(Table::Property, self.row, 2);
        MethodSig::parse_property(blob.ok_or(ImageError::Malformed { what: "the signature of a property" })?)
    }

    /// The method that reads it.
    pub fn getter(self) -> Option<Method<'a>> {
        self.assembly.accessor(self.token(), 0x2)
    }

    /// The method that writes it.
    pub fn setter(self) -> Option<Method<'a>> {
        self.assembly.accessor(self.token(), 0x1)
    }

    /// The type that it belongs to.
    pub fn declaring_type(self) -> Option<TypeDef<'a>> {
        self.assembly.mapped_type(Table::PropertyMap, Table::Property, self.row)
    }
}

impl<'a> Event<'a> {
    /// Its token.
    pub fn token(self) -> Token {
        Token::new(Table::Event, self.row)
    }

    /// Its name.
    pub fn name(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::Event, self.row, 1)
    }

    /// The type of its handlers: a `TypeDef`, `TypeRef` or `TypeSpec`.
    pub fn handler_type(self) -> Option<Token> {
        self.assembly.metadata.tables.token(Table::Event, self.row, 2)
    }

    /// The method that adds a handler.
    pub fn adder(self) -> Option<Method<'a>> {
        self.assembly.accessor(self.token(), 0x8)
    }

    /// The method that removes a handler.
    pub fn remover(self) -> Option<Method<'a>> {
        self.assembly.accessor(self.token(), 0x10)
    }

    /// The type that it belongs to.
    pub fn declaring_type(self) -> Option<TypeDef<'a>> {
        self.assembly.mapped_type(Table::EventMap, Table::Event, self.row)
    }
}

macro_rules! debug_by_name {
    ($($handle:ident)*) => {
        $(impl std::fmt::Debug for $handle<'_> {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, concat!(stringify!($handle), "({}, {:?})"), self.token(), self.name())
            }
        })*
    };
}

debug_by_name!(Field Method Property Event);
