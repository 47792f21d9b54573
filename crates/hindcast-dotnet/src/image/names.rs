//! Full names of types, as reflection writes them, and the types by their names.

use super::assembly::Assembly;
use super::error::ImageError;
use super::signature::TypeSig;
use super::token::{Table, Token};
use super::type_display::TypeNames;
use super::types::TypeDef;

/// How deep types may be nested in types.
const MAXIMAL_NESTING: usize = 64;
/// How long a full name may be.
const MAXIMAL_NAME: usize = 16 << 10;

/// Every type that is defined, by a hash of its full name.
#[derive(Debug)]
pub(crate) struct TypeIndex(Vec<(u32, u32)>);

/// Where a referenced type is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolutionScope<'a> {
    /// In another assembly, by its name.
    Assembly(&'a str),
    /// In another module of this assembly, by its name.
    Module(&'a str),
    /// In this module.
    Here,
    /// Within another referenced type.
    Within(Token),
    /// In whatever assembly exports it under this name.
    Exported,
}

impl Assembly {
    /// Every type that the assembly defines, nested ones too. The first is `<Module>`, which holds what belongs to no type.
    pub fn types(&self) -> impl Iterator<Item = TypeDef<'_>> {
        self.metadata.tables.tokens(Table::TypeDef).filter_map(|token| self.type_def(token))
    }

    /// The type of a `TypeDef` token.
    pub fn type_def(&self, token: Token) -> Option<TypeDef<'_>> {
        let row = token.row_in(Table::TypeDef)?;
        (row <= self.metadata.tables.rows(Table::TypeDef)).then_some(TypeDef { assembly: self, row })
    }

    /// The type with a full name: ``Namespace.Outer+Inner`1``. The first call makes an index.
    pub fn type_named(&self, full_name: &str) -> Option<TypeDef<'_>> {
        let index = &self.type_index.get_or_init(|| TypeIndex::new(self)).0;
        let hash = fold(fnv(FNV_START, full_name.as_bytes()));
        let first = index.partition_point(|entry| entry.0 < hash);
        let same = index[first..].iter().take_while(|entry| entry.0 == hash);
        same.map(|entry| TypeDef { assembly: self, row: entry.1 })
            .find(|candidate| candidate.full_name().as_deref() == Some(full_name))
    }

    /// The full name of a type by any token that names one. An instance of a generic type has the name of the latter.
    pub fn type_full_name(&self, token: Token) -> Option<String> {
        match token.table()? {
            Table::TypeDef => self.type_def(token)?.full_name(),
            Table::TypeRef => self.type_ref_full_name(token),
            Table::TypeSpec => match self.type_spec(token).ok()? {
                TypeSig::Primitive(primitive) => Some(primitive.full_name().to_owned()),
                sig => match sig.definition()? {
                    // A specification that names itself would never end.
                    inner if inner.table() == Some(Table::TypeSpec) => None,
                    inner => self.type_full_name(inner),
                },
            },
            Table::ExportedType => self.exported_full_name(token),
            _ => None,
        }
    }

    /// The signature of a `TypeSpec`.
    pub fn type_spec(&self, token: Token) -> Result<TypeSig, ImageError> {
        let row = token.row_in(Table::TypeSpec);
        let blob = row.and_then(|row| self.metadata.blob(Table::TypeSpec, row, 0));
        TypeSig::parse(blob.ok_or(ImageError::Malformed { what: "a type specification" })?)
    }

    /// The signature that means the same type as a token.
    pub fn type_sig(&self, token: Token) -> Option<TypeSig> {
        match token.table()? {
            Table::TypeSpec => self.type_spec(token).ok(),
            Table::TypeDef => {
                let of_value = self.type_def(token)?.is_value_type();
                Some(if of_value { TypeSig::ValueType(token) } else { TypeSig::Class(token) })
            }
            // Whether it is a value only its definition tells.
            Table::TypeRef => Some(TypeSig::Class(token)),
            _ => None,
        }
    }

    /// The name of a referenced type, without its namespace.
    pub fn type_ref_name(&self, token: Token) -> Option<&str> {
        self.metadata.string(Table::TypeRef, token.row_in(Table::TypeRef)?, 1)
    }

    /// Where a referenced type is defined.
    pub fn resolution_scope(&self, token: Token) -> Option<ResolutionScope<'_>> {
        let row = token.row_in(Table::TypeRef)?;
        let tables = &self.metadata.tables;
        let cell = tables.cell(Table::TypeRef, row, 0)?;
        let Some(scope) = tables.token(Table::TypeRef, row, 0) else {
            return (cell == 0).then_some(ResolutionScope::Exported);
        };
        Some(match scope.table()? {
            Table::Module => ResolutionScope::Here,
            Table::ModuleRef => {
                ResolutionScope::Module(self.metadata.string(Table::ModuleRef, scope.row(), 0)?)
            }
            Table::AssemblyRef => ResolutionScope::Assembly(self.reference(scope.row())?.name),
            _ => ResolutionScope::Within(scope),
        })
    }

    /// The assembly that defines a referenced type, also where the type is nested in another.
    pub fn type_ref_assembly(&self, token: Token) -> Option<&str> {
        let mut token = token;
        for _ in 0..MAXIMAL_NESTING {
            match self.resolution_scope(token)? {
                ResolutionScope::Assembly(name) => return Some(name),
                ResolutionScope::Within(outer) => token = outer,
                ResolutionScope::Here => return self.name(),
                ResolutionScope::Module(_) | ResolutionScope::Exported => return None,
            }
        }
        None
    }

    fn type_ref_full_name(&self, token: Token) -> Option<String> {
        let outer = |row| self.metadata.tables.token(Table::TypeRef, row, 0);
        self.chained_name(token, Table::TypeRef, 1, outer)
    }

    /// Types that this assembly says are elsewhere: their full names, and the assemblies.
    pub fn forwarded_types(&self) -> impl Iterator<Item = (String, &str)> {
        self.metadata.tables.tokens(Table::ExportedType).filter_map(|token| {
            let name = self.exported_full_name(token)?;
            Some((name, self.exporting_assembly(token)?))
        })
    }

    /// The assembly that this one says a type is in.
    pub fn forwarded_to(&self, full_name: &str) -> Option<&str> {
        let token = self.metadata.tables.tokens(Table::ExportedType).find(|token| {
            // Names are put together only where they end alike.
            let name = self.metadata.string(Table::ExportedType, token.row(), 2);
            name.is_some_and(|name| full_name.ends_with(name))
                && self.exported_full_name(*token).as_deref() == Some(full_name)
        })?;
        self.exporting_assembly(token)
    }

    fn exporting_assembly(&self, token: Token) -> Option<&str> {
        let mut token = token;
        for _ in 0..MAXIMAL_NESTING {
            token = self.metadata.tables.token(Table::ExportedType, token.row_in(Table::ExportedType)?, 4)?;
            if let Some(row) = token.row_in(Table::AssemblyRef) {
                return self.reference(row).map(|reference| reference.name);
            }
        }
        None
    }

    fn exported_full_name(&self, token: Token) -> Option<String> {
        let outer = |row| self.metadata.tables.token(Table::ExportedType, row, 4);
        self.chained_name(token, Table::ExportedType, 2, outer)
    }

    /// The name of a row whose `outer` is another row of the same table, as long as there is one.
    fn chained_name(
        &self,
        token: Token,
        table: Table,
        name_column: usize,
        outer: impl Fn(u32) -> Option<Token>,
    ) -> Option<String> {
        let mut parts = Vec::new();
        let mut row = token.row_in(table)?;
        loop {
            parts.push(self.metadata.string(table, row, name_column)?);
            if parts.len() > MAXIMAL_NESTING {
                return None;
            }
            match outer(row).and_then(|token| token.row_in(table)) {
                Some(outer) => row = outer,
                None => break,
            }
        }
        let namespace = self.metadata.string(table, row, name_column + 1)?;
        join(namespace, parts.iter().rev())
    }
}

impl<'a> TypeDef<'a> {
    /// The full name, as reflection writes it: ``Namespace.Outer+Inner`1``.
    pub fn full_name(self) -> Option<String> {
        let mut parts = vec![self.name()?];
        let mut outermost = self;
        while let Some(outer) = outermost.enclosing() {
            if parts.len() >= MAXIMAL_NESTING {
                return None;
            }
            parts.push(outer.name()?);
            outermost = outer;
        }
        join(outermost.namespace()?, parts.iter().rev())
    }
}

impl TypeNames for Assembly {
    fn type_name(&self, token: Token) -> Option<String> {
        self.type_full_name(token)
    }
}

fn join<'a>(namespace: &str, parts: impl Iterator<Item = &'a &'a str>) -> Option<String> {
    let mut name = namespace.to_owned();
    for (index, part) in parts.enumerate() {
        match index {
            0 if namespace.is_empty() => {}
            0 => name.push('.'),
            _ => name.push('+'),
        }
        name.push_str(part);
    }
    (name.len() <= MAXIMAL_NAME).then_some(name)
}

impl TypeIndex {
    /// Hashes every name once: a nested type's hash goes on from where its outer type's ended.
    fn new(assembly: &Assembly) -> Self {
        let mut hashes: Vec<u64> = Vec::with_capacity(assembly.row_count(Table::TypeDef) as usize);
        for definition in assembly.types() {
            // Outer types come first, so that theirs is there.
            let outer = definition.enclosing().and_then(|outer| hashes.get(outer.row as usize - 1));
            let start = match outer {
                Some(outer) => fnv(*outer, b"+"),
                None => match definition.namespace().unwrap_or_default() {
                    "" => FNV_START,
                    namespace => fnv(fnv(FNV_START, namespace.as_bytes()), b"."),
                },
            };
            hashes.push(fnv(start, definition.name().unwrap_or_default().as_bytes()));
        }
        let mut index: Vec<(u32, u32)> =
            hashes.iter().zip(1..).map(|(hash, row)| (fold(*hash), row)).collect();
        index.sort_unstable();
        Self(index)
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, because its state goes on with more bytes as if they had been there from the beginning.
fn fnv(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn fold(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}
