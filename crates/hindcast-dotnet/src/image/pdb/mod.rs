//! Portable PDBs: which lines of which files a method's instructions come from, and what its locals are called.

mod custom;
mod document;
mod imports;
mod lines;
mod scopes;
mod sequence;

use std::sync::OnceLock;

use super::bytes::{Guid, ImageBytes};
use super::error::{ImageError, what_else};
use super::metadata::{Metadata, PdbStream};
use super::token::{Table, Token};

pub use custom::{AsyncStepping, Await, CompilationOption, HoistedScope};
pub use document::{Document, HashAlgorithm, Language};
pub use imports::Import;
pub use lines::{LineMatch, Place};
pub use scopes::{LocalConstant, LocalScope, LocalVariable};
pub use sequence::{SequencePoint, Span, Statement};

/// What tells the PDB of one build from that of every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PdbId {
    /// The first 16 bytes.
    pub guid: Guid,
    /// The other four.
    pub stamp: u32,
}

impl std::fmt::Display for PdbId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{:08x}", self.guid, self.stamp)
    }
}

/// A portable PDB. Opening reads the heads only; the first question about a line makes an index of all lines.
///
/// Methods are named by their tokens in the assembly that the PDB belongs to.
#[derive(Debug)]
pub struct Pdb {
    metadata: Metadata,
    head: PdbStream,
    lines: OnceLock<lines::LineIndex>,
}

impl Pdb {
    /// Opens a portable PDB. An error says what the file is instead.
    pub fn parse(bytes: impl Into<ImageBytes>) -> Result<Self, ImageError> {
        let bytes = bytes.into();
        match what_else(bytes.all()) {
            ImageError::PortablePdb => {}
            other => return Err(other),
        }
        let metadata = Metadata::parse(&bytes, 0..bytes.all().len())?;
        let head = metadata.pdb.clone().ok_or(ImageError::Malformed { what: "the PDB's head" })?;
        Ok(Self { metadata, head, lines: OnceLock::new() })
    }

    /// Its identity, which the assembly's [`CodeView`](super::CodeView) entry must name.
    pub fn id(&self) -> PdbId {
        let mut guid = [0; 16];
        guid.copy_from_slice(&self.head.id[..16]);
        let [.., a, b, c, d] = self.head.id;
        PdbId { guid: Guid(guid), stamp: u32::from_le_bytes([a, b, c, d]) }
    }

    /// The method that the program begins with.
    pub fn entry_point(&self) -> Option<Token> {
        let token = Token(self.head.entry_point);
        token.row_in(Table::MethodDef).map(|_| token)
    }

    /// How many methods the assembly has.
    pub fn method_count(&self) -> u32 {
        self.head.rows(Table::MethodDef)
    }

    /// All methods that may have debug information.
    pub fn methods(&self) -> impl Iterator<Item = Token> + use<> {
        (1..=self.metadata.tables.rows(Table::MethodDebugInformation)).map(Token::method)
    }

    /// All documents.
    pub fn documents(&self) -> impl Iterator<Item = Document<'_>> {
        (1..=self.metadata.tables.rows(Table::Document)).map(|row| Document { pdb: self, row })
    }

    /// The document with a number, as sequence points name it.
    pub fn document(&self, row: u32) -> Option<Document<'_>> {
        (row > 0 && row <= self.metadata.tables.rows(Table::Document)).then_some(Document { pdb: self, row })
    }

    /// The method that began what `move_next` goes on with: an iterator or an async method.
    pub fn kickoff_method(&self, move_next: Token) -> Option<Token> {
        let tables = &self.metadata.tables;
        let row = *tables.rows_of(Table::StateMachineMethod, move_next).first()?;
        tables.token(Table::StateMachineMethod, row, 1)
    }

    /// The method that goes on with what `kickoff` began. Looks at all such methods.
    pub fn move_next_method(&self, kickoff: Token) -> Option<Token> {
        let tables = &self.metadata.tables;
        (1..=tables.rows(Table::StateMachineMethod))
            .find(|row| tables.token(Table::StateMachineMethod, *row, 1) == Some(kickoff))
            .and_then(|row| tables.token(Table::StateMachineMethod, row, 0))
    }
}
