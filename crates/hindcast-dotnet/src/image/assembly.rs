//! An assembly: who it is, and how everything else in it is reached.

use std::sync::OnceLock;

use super::bytes::{Guid, ImageBytes};
use super::error::{ImageError, Machine};
use super::metadata::Metadata;
use super::names::TypeIndex;
use super::pe::{DebugEntry, Pe};
use super::token::{Table, Token};

/// A .NET assembly (or a module of one). Opening reads the heads only; everything else is read when it is asked for.
///
/// What a file tells may be wrong or missing, whoever made it: methods return `None`, or leave out, what cannot be read.
#[derive(Debug)]
pub struct Assembly {
    pub(crate) bytes: ImageBytes,
    pub(crate) pe: Pe,
    pub(crate) metadata: Metadata,
    pub(crate) type_index: OnceLock<TypeIndex>,
}

/// A version of four numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u16; 4]);

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, build, revision] = self.0;
        write!(formatter, "{major}.{minor}.{build}.{revision}")
    }
}

/// Another assembly that this one uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssemblyReference<'a> {
    /// Its simple name.
    pub name: &'a str,
    /// The version that was there at compile time.
    pub version: Version,
}

impl Assembly {
    /// Opens an assembly. An error says what the file is instead.
    pub fn parse(bytes: impl Into<ImageBytes>) -> Result<Self, ImageError> {
        let bytes = bytes.into();
        let pe = Pe::parse(bytes.all())?;
        let root = pe.metadata(bytes.all())?;
        let metadata = Metadata::parse(&bytes, root)?;
        Ok(Self { bytes, pe, metadata, type_index: OnceLock::new() })
    }

    /// Refuses an assembly that a 64-bit process cannot load: compiled for 32 bits, or requiring them.
    pub fn check_64_bit(&self) -> Result<(), ImageError> {
        let il_only = self.pe.cli.flags & 0x1 != 0;
        // Preferring 32 bits sets both flags, and still runs in 64.
        let requires_32_bit = self.pe.cli.flags & 0x2_0002 == 0x2;
        let native_32_bit = !il_only && self.pe.machine.is_32_bit();
        // IL for any machine says that it is for x86.
        let other_32_bit = self.pe.machine == Machine::Arm;
        if requires_32_bit || native_32_bit || other_32_bit {
            return Err(ImageError::Requires32Bit { machine: self.pe.machine });
        }
        Ok(())
    }

    /// The machine that the file is compiled for; [`Machine::X86`] also where any will do.
    pub fn machine(&self) -> Machine {
        self.pe.machine
    }

    /// Whether methods are compiled ahead of time (ReadyToRun), so that breakpoints in them may need the debugger's care.
    pub fn is_precompiled(&self) -> bool {
        self.pe.is_precompiled()
    }

    /// The simple name of the assembly; none for a module without a manifest.
    pub fn name(&self) -> Option<&str> {
        self.metadata.string(Table::Assembly, 1, 7)
    }

    /// The public key that the assembly is signed with; empty where it is not.
    pub fn public_key(&self) -> &[u8] {
        self.metadata.blob(Table::Assembly, 1, 6).unwrap_or_default()
    }

    /// The version of the assembly.
    pub fn version(&self) -> Option<Version> {
        self.read_version(Table::Assembly, 1, 1)
    }

    /// The file name that the compiler gave to the module.
    pub fn module_name(&self) -> Option<&str> {
        self.metadata.string(Table::Module, 1, 1)
    }

    /// What tells this build of the module from every other.
    pub fn mvid(&self) -> Option<Guid> {
        self.metadata.guid(Table::Module, 1, 2)
    }

    /// The version of the runtime that the metadata was written for, such as `v4.0.30319`. Says nothing about .NET's version.
    pub fn metadata_version(&self) -> &str {
        &self.metadata.version
    }

    /// The method that the program begins with.
    pub fn entry_point(&self) -> Option<Token> {
        let native = self.pe.cli.flags & 0x10 != 0;
        let token = Token(self.pe.cli.entry_point);
        (!native && token.row_in(Table::MethodDef).is_some()).then_some(token)
    }

    /// What the assembly was compiled for: `.NETCoreApp,Version=v3.1`, `.NETFramework,Version=v4.7.2`, `.NETStandard,…`.
    pub fn target_framework(&self) -> Option<String> {
        let assembly = Token::new(Table::Assembly, 1);
        let attribute = self.attribute(assembly, "System.Runtime.Versioning.TargetFrameworkAttribute")?;
        let arguments = attribute.arguments().ok()?;
        arguments.fixed.first()?.as_str().map(str::to_owned)
    }

    /// Whether the compiler asked the runtime to optimise nothing, so that steps and locals are as in the source.
    pub fn disables_optimizations(&self) -> bool {
        let assembly = Token::new(Table::Assembly, 1);
        let attribute = self.attribute(assembly, "System.Diagnostics.DebuggableAttribute");
        match attribute
            .and_then(|attribute| attribute.arguments().ok())
            .map(|arguments| arguments.fixed)
            .as_deref()
        {
            Some([modes]) => modes.as_i64().is_some_and(|modes| modes & 0x100 != 0),
            // Whether it is tracked, and whether it is not optimised.
            Some([_, disabled]) => disabled.as_bool() == Some(true),
            _ => false,
        }
    }

    /// The assemblies that this one uses.
    pub fn references(&self) -> impl Iterator<Item = AssemblyReference<'_>> {
        (1..=self.metadata.tables.rows(Table::AssemblyRef)).filter_map(|row| self.reference(row))
    }

    pub(crate) fn reference(&self, row: u32) -> Option<AssemblyReference<'_>> {
        Some(AssemblyReference {
            name: self.metadata.string(Table::AssemblyRef, row, 6)?,
            version: self.read_version(Table::AssemblyRef, row, 0)?,
        })
    }

    fn read_version(&self, table: Table, row: u32, column: usize) -> Option<Version> {
        let number = |index| self.metadata.tables.cell(table, row, column + index).map(|cell| cell as u16);
        Some(Version([number(0)?, number(1)?, number(2)?, number(3)?]))
    }

    /// How many rows a table has.
    pub fn row_count(&self, table: Table) -> u32 {
        self.metadata.tables.rows(table)
    }

    /// The string that the instruction `ldstr` loads.
    pub fn user_string(&self, token: Token) -> Option<String> {
        self.metadata.user_string(token)
    }

    /// The names of the files that are embedded as resources.
    pub fn resource_names(&self) -> impl Iterator<Item = &str> {
        let rows = self.metadata.tables.rows(Table::ManifestResource);
        (1..=rows).filter_map(|row| self.metadata.string(Table::ManifestResource, row, 2))
    }

    pub(crate) fn debug_entries(&self) -> Vec<DebugEntry> {
        self.pe.debug_entries(self.bytes.all())
    }
}
