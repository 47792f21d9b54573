//! Tokens: how metadata, IL and the runtime name a type, a method or a field.

use std::fmt;

macro_rules! tables {
    ($($name:ident = $number:literal,)*) => {
        /// A table of metadata or of debug information.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the standard describes the tables by these names")]
        pub enum Table {
            $($name = $number,)*
        }

        impl Table {
            /// The table with a number.
            pub fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

tables! {
    Module = 0x00,
    TypeRef = 0x01,
    TypeDef = 0x02,
    FieldPtr = 0x03,
    Field = 0x04,
    MethodPtr = 0x05,
    MethodDef = 0x06,
    ParamPtr = 0x07,
    Param = 0x08,
    InterfaceImpl = 0x09,
    MemberRef = 0x0a,
    Constant = 0x0b,
    CustomAttribute = 0x0c,
    FieldMarshal = 0x0d,
    DeclSecurity = 0x0e,
    ClassLayout = 0x0f,
    FieldLayout = 0x10,
    StandAloneSig = 0x11,
    EventMap = 0x12,
    EventPtr = 0x13,
    Event = 0x14,
    PropertyMap = 0x15,
    PropertyPtr = 0x16,
    Property = 0x17,
    MethodSemantics = 0x18,
    MethodImpl = 0x19,
    ModuleRef = 0x1a,
    TypeSpec = 0x1b,
    ImplMap = 0x1c,
    FieldRva = 0x1d,
    EncLog = 0x1e,
    EncMap = 0x1f,
    Assembly = 0x20,
    AssemblyProcessor = 0x21,
    AssemblyOs = 0x22,
    AssemblyRef = 0x23,
    AssemblyRefProcessor = 0x24,
    AssemblyRefOs = 0x25,
    File = 0x26,
    ExportedType = 0x27,
    ManifestResource = 0x28,
    NestedClass = 0x29,
    GenericParam = 0x2a,
    MethodSpec = 0x2b,
    GenericParamConstraint = 0x2c,
    Document = 0x30,
    MethodDebugInformation = 0x31,
    LocalScope = 0x32,
    LocalVariable = 0x33,
    LocalConstant = 0x34,
    ImportScope = 0x35,
    StateMachineMethod = 0x36,
    CustomDebugInformation = 0x37,
}

/// A row of a table: the table in the highest byte, the row, counted from 1, in the others.
///
/// Tokens are what ICorDebug calls `mdToken`, `mdMethodDef` and so on. One says nothing about which assembly it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// The row of a table. Rows beyond 24 bits do not exist.
    pub fn new(table: Table, row: u32) -> Self {
        Self(u32::from(table as u8) << 24 | row & 0xff_ffff)
    }

    /// The method that row `row` of the table of methods defines.
    pub fn method(row: u32) -> Self {
        Self::new(Table::MethodDef, row)
    }

    /// The table, if there is one with that number.
    pub fn table(self) -> Option<Table> {
        Table::from_number((self.0 >> 24) as u8)
    }

    /// The row, counted from 1; 0 is no row.
    pub fn row(self) -> u32 {
        self.0 & 0xff_ffff
    }

    /// Whether the token names nothing.
    pub fn is_nil(self) -> bool {
        self.row() == 0
    }

    /// The row, if the token belongs to the table and names one.
    pub fn row_in(self, table: Table) -> Option<u32> {
        (self.table() == Some(table) && !self.is_nil()).then(|| self.row())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#010x}", self.0)
    }
}
