//! A type that an assembly defines.

use super::assembly::Assembly;
use super::members::{Event, Field, Method, Property};
use super::signature::TypeSig;
use super::token::{Table, Token};
use super::type_display::{Spelling, TypeNames, csharp_name};

/// A type that an assembly defines. Cheap to copy.
#[derive(Clone, Copy)]
pub struct TypeDef<'a> {
    pub(crate) assembly: &'a Assembly,
    pub(crate) row: u32,
}

/// What sort of type a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    /// A class.
    Class,
    /// A struct.
    Struct,
    /// An interface.
    Interface,
    /// An enum.
    Enum,
    /// A delegate.
    Delegate,
}

/// A parameter of a generic type or method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenericParameter<'a> {
    /// Its token.
    pub token: Token,
    /// Its place, counted from 0.
    pub number: u16,
    /// Its name.
    pub name: &'a str,
    /// Variance and special constraints (ECMA-335 II.23.1.7).
    pub flags: u16,
}

impl<'a> TypeDef<'a> {
    /// The assembly that defines it.
    pub fn assembly(self) -> &'a Assembly {
        self.assembly
    }

    /// Its token.
    pub fn token(self) -> Token {
        Token::new(Table::TypeDef, self.row)
    }

    /// Its name, without namespace and outer types.
    pub fn name(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::TypeDef, self.row, 1)
    }

    /// Its namespace; empty where there is none, and for nested types.
    pub fn namespace(self) -> Option<&'a str> {
        self.assembly.metadata.string(Table::TypeDef, self.row, 2)
    }

    /// Its name as C# writes it, with the names of its parameters: `Outer<T>.Inner`.
    pub fn display_name(self, spelling: Spelling) -> Option<String> {
        let parameters: Vec<String> =
            self.generic_parameters().iter().map(|parameter| parameter.name.to_owned()).collect();
        Some(csharp_name(&self.full_name()?, &parameters, spelling))
    }

    /// Visibility, layout and so on (ECMA-335 II.23.1.15).
    pub fn flags(self) -> u32 {
        self.cell(0).unwrap_or(0)
    }

    fn cell(self, column: usize) -> Option<u32> {
        self.assembly.metadata.tables.cell(Table::TypeDef, self.row, column)
    }

    /// Whether it is an interface.
    pub fn is_interface(self) -> bool {
        self.flags() & 0x20 != 0
    }

    /// Whether it is abstract. A static class is abstract and sealed.
    pub fn is_abstract(self) -> bool {
        self.flags() & 0x80 != 0
    }

    /// Whether nothing derives from it.
    pub fn is_sealed(self) -> bool {
        self.flags() & 0x100 != 0
    }

    /// Whether its initialiser runs no later than a static field is used, but not because a method is called.
    pub fn is_before_field_init(self) -> bool {
        self.flags() & 0x10_0000 != 0
    }

    /// The type that it derives from: a `TypeDef`, `TypeRef` or `TypeSpec`.
    pub fn base(self) -> Option<Token> {
        self.assembly.metadata.tables.token(Table::TypeDef, self.row, 3)
    }

    /// What sort of type it is, as its base tells.
    pub fn kind(self) -> TypeKind {
        if self.is_interface() {
            return TypeKind::Interface;
        }
        let base = self.base().filter(|base| base.table() != Some(Table::TypeSpec));
        match base.and_then(|base| self.assembly.type_full_name(base)).as_deref() {
            Some("System.Enum") => TypeKind::Enum,
            // `System.Enum` itself is a class that derives from `System.ValueType`.
            Some("System.ValueType") if self.full_name().as_deref() != Some("System.Enum") => {
                TypeKind::Struct
            }
            Some("System.MulticastDelegate") => TypeKind::Delegate,
            _ => TypeKind::Class,
        }
    }

    /// Whether it is a struct or an enum.
    pub fn is_value_type(self) -> bool {
        matches!(self.kind(), TypeKind::Struct | TypeKind::Enum)
    }

    /// The type of an enum's values.
    pub fn enum_type(self) -> Option<TypeSig> {
        self.fields().find(|field| !field.is_static())?.signature().ok()
    }

    /// The type that it is nested in. The standard wants outer types defined first; another order is taken for damage.
    pub fn enclosing(self) -> Option<TypeDef<'a>> {
        // Visibilities from 2 on are those of nested types.
        if self.flags() & 0x7 < 2 {
            return None;
        }
        let tables = &self.assembly.metadata.tables;
        let nested = *tables.rows_of(Table::NestedClass, self.token()).first()?;
        let outer = tables.cell(Table::NestedClass, nested, 1)?;
        (outer > 0 && outer < self.row).then_some(TypeDef { assembly: self.assembly, row: outer })
    }

    /// The types that are nested in it. Looks at all nested types of the assembly.
    pub fn nested(self) -> impl Iterator<Item = TypeDef<'a>> {
        let tables = &self.assembly.metadata.tables;
        (1..=tables.rows(Table::NestedClass))
            .filter(move |row| tables.cell(Table::NestedClass, *row, 1) == Some(self.row))
            .filter_map(move |row| {
                self.assembly.type_def(Token::new(Table::TypeDef, tables.cell(Table::NestedClass, row, 0)?))
            })
    }

    /// Its type parameters in their order; a nested type repeats those of the outer.
    pub fn generic_parameters(self) -> Vec<GenericParameter<'a>> {
        self.assembly.generic_parameters(self.token())
    }

    /// The interfaces that it says it implements: tokens of `TypeDef`, `TypeRef` or `TypeSpec`.
    pub fn interfaces(self) -> Vec<Token> {
        let tables = &self.assembly.metadata.tables;
        let rows = tables.rows_of(Table::InterfaceImpl, self.token());
        rows.into_iter().filter_map(|row| tables.token(Table::InterfaceImpl, row, 1)).collect()
    }

    /// Its fields.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        self.members(Table::Field, 4).filter_map(move |token| self.assembly.field(token))
    }

    /// Its methods, constructors too.
    pub fn methods(self) -> impl Iterator<Item = Method<'a>> {
        self.members(Table::MethodDef, 5).filter_map(move |token| self.assembly.method(token))
    }

    /// All methods with a name.
    pub fn methods_named(self, name: &str) -> impl Iterator<Item = Method<'a>> {
        self.methods().filter(move |method| method.name() == Some(name))
    }

    /// The field with a name.
    pub fn field_named(self, name: &str) -> Option<Field<'a>> {
        self.fields().find(|field| field.name() == Some(name))
    }

    /// Its properties.
    pub fn properties(self) -> impl Iterator<Item = Property<'a>> {
        self.mapped(Table::PropertyMap, Table::Property)
            .filter_map(move |token| self.assembly.property(token))
    }

    /// The property with a name.
    pub fn property_named(self, name: &str) -> Option<Property<'a>> {
        self.properties().find(|property| property.name() == Some(name))
    }

    /// Its events.
    pub fn events(self) -> impl Iterator<Item = Event<'a>> {
        self.mapped(Table::EventMap, Table::Event).filter_map(move |token| self.assembly.event(token))
    }

    fn members(self, table: Table, column: usize) -> impl Iterator<Item = Token> + use<'a> {
        let tables = &self.assembly.metadata.tables;
        tables
            .owned(Table::TypeDef, self.row, column)
            .filter_map(move |place| Some(Token::new(table, tables.listed(table, place)?)))
    }

    fn mapped(self, map: Table, table: Table) -> impl Iterator<Item = Token> + use<'a> {
        let tables = &self.assembly.metadata.tables;
        tables
            .rows_of(map, self.token())
            .into_iter()
            .take(1)
            .flat_map(move |row| tables.owned(map, row, 1))
            .filter_map(move |place| Some(Token::new(table, tables.listed(table, place)?)))
    }
}

impl std::fmt::Debug for TypeDef<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TypeDef({}, {:?})", self.token(), self.full_name())
    }
}

/// Names types as its assembly does, and type parameters as the type declares them.
impl TypeNames for TypeDef<'_> {
    fn type_name(&self, token: Token) -> Option<String> {
        self.assembly.type_full_name(token)
    }

    fn type_parameter(&self, number: u32) -> Option<String> {
        named(&self.generic_parameters(), number)
    }
}

pub(crate) fn named(parameters: &[GenericParameter<'_>], number: u32) -> Option<String> {
    let parameter = parameters.iter().find(|parameter| u32::from(parameter.number) == number)?;
    Some(parameter.name.to_owned())
}
