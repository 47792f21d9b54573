//! Locals: what they are called, where their names mean something, and constants.

use std::ops::Range;

use super::Pdb;
use crate::image::constant::Constant;
use crate::image::cursor::Cursor;
use crate::image::signature::{Primitive, Reader, TypeSig};
use crate::image::token::{Table, Token};

/// A block of a method in which locals have their names.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalScope<'a> {
    /// The offsets of its instructions.
    pub il: Range<u32>,
    /// Names that it has in use.
    pub(super) import_scope: u32,
    /// Its variables.
    pub variables: Vec<LocalVariable<'a>>,
    /// Its constants.
    pub constants: Vec<LocalConstant<'a>>,
}

/// A local variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalVariable<'a> {
    /// What names it in the PDB, for [`Pdb::tuple_element_names`] and [`Pdb::dynamic_flags`].
    pub token: Token,
    /// Its slot in the method's locals.
    pub slot: u16,
    /// Its name.
    pub name: &'a str,
    /// Whether the compiler made it for itself.
    pub is_hidden: bool,
}

/// A local constant, which has no place in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalConstant<'a> {
    /// What names it in the PDB, for [`Pdb::tuple_element_names`] and [`Pdb::dynamic_flags`].
    pub token: Token,
    /// Its name.
    pub name: &'a str,
    /// Its type, in the assembly that the PDB belongs to; of an enum the enum.
    pub constant_type: TypeSig,
    /// Its value; none where the file does not make sense.
    pub value: Option<Constant>,
}

impl Pdb {
    /// All scopes of a method, outer ones before inner ones.
    pub fn scopes(&self, method: Token) -> Vec<LocalScope<'_>> {
        self.scopes_where(method, |_| true)
    }

    /// The scopes that an instruction lies in, outer ones before inner ones.
    pub fn scopes_at(&self, method: Token, il: u32) -> Vec<LocalScope<'_>> {
        self.scopes_where(method, |range| range.contains(&il))
    }

    fn scopes_where(&self, method: Token, is_wanted: impl Fn(&Range<u32>) -> bool) -> Vec<LocalScope<'_>> {
        let tables = &self.metadata.tables;
        // A local belongs to one scope. A file in which scopes share locals could make any number out of few.
        let mut left = tables.rows(Table::LocalVariable) + tables.rows(Table::LocalConstant);
        let mut scopes = Vec::new();
        for row in tables.rows_of(Table::LocalScope, method) {
            let Some(il) = self.scope_range(row).filter(&is_wanted) else { continue };
            let Some(scope) = self.scope(row, il) else { continue };
            let Some(rest) = left.checked_sub((scope.variables.len() + scope.constants.len()) as u32) else {
                break;
            };
            left = rest;
            scopes.push(scope);
        }
        scopes
    }

    fn scope_range(&self, row: u32) -> Option<Range<u32>> {
        let start = self.metadata.tables.cell(Table::LocalScope, row, 4)?;
        let length = self.metadata.tables.cell(Table::LocalScope, row, 5)?;
        Some(start..start.checked_add(length)?)
    }

    fn scope(&self, row: u32, il: Range<u32>) -> Option<LocalScope<'_>> {
        let tables = &self.metadata.tables;
        let variables = tables.owned(Table::LocalScope, row, 2).filter_map(|row| self.variable(row));
        let constants = tables.owned(Table::LocalScope, row, 3).filter_map(|row| self.local_constant(row));
        Some(LocalScope {
            il,
            import_scope: tables.cell(Table::LocalScope, row, 1)?,
            variables: variables.collect(),
            constants: constants.collect(),
        })
    }

    /// The outermost scope's names in use, which are those of the method.
    pub(super) fn first_import_scope(&self, method: Token) -> Option<u32> {
        let row = *self.metadata.tables.rows_of(Table::LocalScope, method).first()?;
        self.metadata.tables.cell(Table::LocalScope, row, 1)
    }

    fn variable(&self, row: u32) -> Option<LocalVariable<'_>> {
        let tables = &self.metadata.tables;
        Some(LocalVariable {
            token: Token::new(Table::LocalVariable, row),
            slot: tables.cell(Table::LocalVariable, row, 1)? as u16,
            name: self.metadata.string(Table::LocalVariable, row, 2)?,
            is_hidden: tables.cell(Table::LocalVariable, row, 0)? & 1 != 0,
        })
    }

    fn local_constant(&self, row: u32) -> Option<LocalConstant<'_>> {
        let blob = self.metadata.blob(Table::LocalConstant, row, 1)?;
        let (constant_type, value) = read_constant(blob)?;
        Some(LocalConstant {
            token: Token::new(Table::LocalConstant, row),
            name: self.metadata.string(Table::LocalConstant, row, 0)?,
            constant_type,
            value,
        })
    }
}

/// Reads a constant's type and value, which stand in one blob.
fn read_constant(blob: &[u8]) -> Option<(TypeSig, Option<Constant>)> {
    let mut reader = Reader::new(blob);
    while matches!(reader.cursor.peek(), Some(0x1f | 0x20)) {
        reader.cursor.u8().ok()?;
        reader.cursor.compressed().ok()?;
    }
    let element = reader.cursor.u8().ok()?;
    match element {
        0x0e => Some((TypeSig::Primitive(Primitive::String), read_string(reader.cursor.rest()))),
        0x1c => Some((TypeSig::Primitive(Primitive::Object), Some(Constant::Null))),
        0x11 => {
            let token = reader.token().ok()?;
            Some((TypeSig::ValueType(token), read_struct(&mut reader.cursor)))
        }
        0x12 => Some((TypeSig::Class(reader.token().ok()?), Some(Constant::Null))),
        _ => {
            let value = Constant::read_number(element, &mut reader.cursor)?;
            let plain = TypeSig::Primitive(Primitive::from_element(element)?);
            // An enum's value is followed by the enum.
            let constant_type =
                if reader.cursor.is_at_end() { plain } else { TypeSig::ValueType(reader.token().ok()?) };
            Some((constant_type, Some(value)))
        }
    }
}

fn read_string(bytes: &[u8]) -> Option<Constant> {
    if bytes == [0xff] { Some(Constant::Null) } else { Constant::parse(0x0e, bytes) }
}

/// The structs that languages have constants of are told apart by their sizes.
fn read_struct(cursor: &mut Cursor<'_>) -> Option<Constant> {
    match cursor.remaining() {
        0 => Some(Constant::Null),
        8 => cursor.u64().ok().map(|ticks| Constant::DateTime(ticks as i64)),
        13 => Constant::read_decimal(cursor),
        _ => None,
    }
}
