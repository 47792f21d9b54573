//! The tables of ECMA-335 (II.22) and of the portable PDB: which columns each has, and how columns point to other tables.

use super::token::Table;

/// What a column holds, which decides how wide it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// A number of two bytes.
    Short,
    /// A number of four bytes.
    Long,
    /// An offset into the heap of strings.
    Text,
    /// A number of an identifier.
    Identifier,
    /// An offset into the heap of blobs.
    Bytes,
    /// A row of a table.
    Row(Table),
    /// A row of one of several tables.
    Coded(Coded),
}

/// Which tables a coded index chooses among (ECMA-335 II.24.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coded {
    TypeDefOrRef,
    HasConstant,
    HasCustomAttribute,
    HasFieldMarshal,
    HasDeclSecurity,
    MemberRefParent,
    HasSemantics,
    MethodDefOrRef,
    MemberForwarded,
    Implementation,
    CustomAttributeType,
    ResolutionScope,
    TypeOrMethodDef,
    HasCustomDebugInformation,
}

impl Coded {
    /// The tables by their tag. A tag that nothing uses is `None`.
    pub(crate) fn tables(self) -> &'static [Option<Table>] {
        use Table as T;
        const fn some<const N: usize>(tables: [Table; N]) -> [Option<Table>; N] {
            let mut all = [None; N];
            let mut index = 0;
            while index < N {
                all[index] = Some(tables[index]);
                index += 1;
            }
            all
        }
        static ATTRIBUTE: [Option<Table>; 27] = some([
            T::MethodDef,
            T::Field,
            T::TypeRef,
            T::TypeDef,
            T::Param,
            T::InterfaceImpl,
            T::MemberRef,
            T::Module,
            T::DeclSecurity,
            T::Property,
            T::Event,
            T::StandAloneSig,
            T::ModuleRef,
            T::TypeSpec,
            T::Assembly,
            T::AssemblyRef,
            T::File,
            T::ExportedType,
            T::ManifestResource,
            T::GenericParam,
            T::GenericParamConstraint,
            T::MethodSpec,
            // Only debug information belongs to these.
            T::Document,
            T::LocalScope,
            T::LocalVariable,
            T::LocalConstant,
            T::ImportScope,
        ]);
        static TYPE: [Option<Table>; 3] = some([T::TypeDef, T::TypeRef, T::TypeSpec]);
        static CONSTANT: [Option<Table>; 3] = some([T::Field, T::Param, T::Property]);
        static MARSHAL: [Option<Table>; 2] = some([T::Field, T::Param]);
        static SECURITY: [Option<Table>; 3] = some([T::TypeDef, T::MethodDef, T::Assembly]);
        static MEMBER: [Option<Table>; 5] =
            some([T::TypeDef, T::TypeRef, T::ModuleRef, T::MethodDef, T::TypeSpec]);
        static SEMANTICS: [Option<Table>; 2] = some([T::Event, T::Property]);
        static METHOD: [Option<Table>; 2] = some([T::MethodDef, T::MemberRef]);
        static FORWARDED: [Option<Table>; 2] = some([T::Field, T::MethodDef]);
        static IMPLEMENTATION: [Option<Table>; 3] = some([T::File, T::AssemblyRef, T::ExportedType]);
        static CONSTRUCTOR: [Option<Table>; 5] = [None, None, Some(T::MethodDef), Some(T::MemberRef), None];
        static SCOPE: [Option<Table>; 4] = some([T::Module, T::ModuleRef, T::AssemblyRef, T::TypeRef]);
        static GENERIC: [Option<Table>; 2] = some([T::TypeDef, T::MethodDef]);
        match self {
            Self::TypeDefOrRef => &TYPE,
            Self::HasConstant => &CONSTANT,
            Self::HasCustomAttribute => &ATTRIBUTE[..22],
            Self::HasFieldMarshal => &MARSHAL,
            Self::HasDeclSecurity => &SECURITY,
            Self::MemberRefParent => &MEMBER,
            Self::HasSemantics => &SEMANTICS,
            Self::MethodDefOrRef => &METHOD,
            Self::MemberForwarded => &FORWARDED,
            Self::Implementation => &IMPLEMENTATION,
            Self::CustomAttributeType => &CONSTRUCTOR,
            Self::ResolutionScope => &SCOPE,
            Self::TypeOrMethodDef => &GENERIC,
            Self::HasCustomDebugInformation => &ATTRIBUTE,
        }
    }

    /// How many bits the tag takes.
    pub(crate) fn tag_bits(self) -> u32 {
        usize::BITS - (self.tables().len() - 1).leading_zeros()
    }
}

/// The column that a table is searched by, which is the one that it should be sorted by if by any.
pub(crate) fn key_column(table: Table) -> usize {
    match table {
        Table::Constant => 1,
        Table::MethodSemantics | Table::GenericParam => 2,
        _ => 0,
    }
}

/// The columns of a table, or none for a number that no table has.
pub(crate) fn columns(table: u8) -> &'static [Column] {
    use Column::{Bytes as B, Coded as C, Identifier as G, Long as L, Row as R, Short as H, Text as S};
    use Table as T;
    match table {
        0x00 => &[H, S, G, G, G],
        0x01 => &[C(Coded::ResolutionScope), S, S],
        0x02 => &[L, S, S, C(Coded::TypeDefOrRef), R(T::Field), R(T::MethodDef)],
        0x03 => &[R(T::Field)],
        0x04 => &[H, S, B],
        0x05 => &[R(T::MethodDef)],
        0x06 => &[L, H, H, S, B, R(T::Param)],
        0x07 => &[R(T::Param)],
        0x08 => &[H, H, S],
        0x09 => &[R(T::TypeDef), C(Coded::TypeDefOrRef)],
        0x0a => &[C(Coded::MemberRefParent), S, B],
        // The type is one byte, and a byte of padding follows.
        0x0b => &[H, C(Coded::HasConstant), B],
        0x0c => &[C(Coded::HasCustomAttribute), C(Coded::CustomAttributeType), B],
        0x0d => &[C(Coded::HasFieldMarshal), B],
        0x0e => &[H, C(Coded::HasDeclSecurity), B],
        0x0f => &[H, L, R(T::TypeDef)],
        0x10 => &[L, R(T::Field)],
        0x11 => &[B],
        0x12 => &[R(T::TypeDef), R(T::Event)],
        0x13 => &[R(T::Event)],
        0x14 => &[H, S, C(Coded::TypeDefOrRef)],
        0x15 => &[R(T::TypeDef), R(T::Property)],
        0x16 => &[R(T::Property)],
        0x17 => &[H, S, B],
        0x18 => &[H, R(T::MethodDef), C(Coded::HasSemantics)],
        0x19 => &[R(T::TypeDef), C(Coded::MethodDefOrRef), C(Coded::MethodDefOrRef)],
        0x1a => &[S],
        0x1b => &[B],
        0x1c => &[H, C(Coded::MemberForwarded), S, R(T::ModuleRef)],
        0x1d => &[L, R(T::Field)],
        0x1e => &[L, L],
        0x1f => &[L],
        0x20 => &[L, H, H, H, H, L, B, S, S],
        0x21 => &[L],
        0x22 => &[L, L, L],
        0x23 => &[H, H, H, H, L, B, S, S, B],
        0x24 => &[L, R(T::AssemblyRef)],
        0x25 => &[L, L, L, R(T::AssemblyRef)],
        0x26 => &[L, S, B],
        0x27 => &[L, L, S, S, C(Coded::Implementation)],
        0x28 => &[L, L, S, C(Coded::Implementation)],
        0x29 => &[R(T::TypeDef), R(T::TypeDef)],
        0x2a => &[H, H, C(Coded::TypeOrMethodDef), S],
        0x2b => &[C(Coded::MethodDefOrRef), B],
        0x2c => &[R(T::GenericParam), C(Coded::TypeDefOrRef)],
        0x30 => &[B, G, B, G],
        0x31 => &[R(T::Document), B],
        0x32 => &[R(T::MethodDef), R(T::ImportScope), R(T::LocalVariable), R(T::LocalConstant), L, L],
        0x33 => &[H, H, S],
        0x34 => &[S, B],
        0x35 => &[R(T::ImportScope), B],
        0x36 => &[R(T::MethodDef), R(T::MethodDef)],
        0x37 => &[C(Coded::HasCustomDebugInformation), G, B],
        _ => &[],
    }
}
