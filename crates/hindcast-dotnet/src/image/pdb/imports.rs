//! Names that a method has in use: namespaces, static classes and aliases.

use super::Pdb;
use crate::image::cursor::Cursor;
use crate::image::schema::Coded;
use crate::image::tables::decode;
use crate::image::token::{Table, Token};

/// How many scopes may lie around each other.
const MAXIMAL_DEPTH: usize = 64;
/// How many names are read at most.
const MAXIMAL_IMPORTS: usize = 1024;

/// A name in use. Types and assemblies are tokens of the assembly that the PDB belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Import {
    /// `using Namespace;`, perhaps only of one assembly.
    Namespace {
        /// The namespace.
        name: String,
        /// The assembly (`AssemblyRef`) whose namespace is meant.
        assembly: Option<Token>,
        /// What it is called here.
        alias: Option<String>,
    },
    /// `using static Type;` or `using Alias = Type;`
    Type {
        /// The type: `TypeDef`, `TypeRef` or `TypeSpec`.
        token: Token,
        /// What it is called here.
        alias: Option<String>,
    },
    /// `extern alias Name;`, or what such a name means.
    AssemblyAlias {
        /// The alias.
        alias: String,
        /// The assembly (`AssemblyRef`), where the alias is defined.
        assembly: Option<Token>,
    },
    /// A namespace of XML, which only Visual Basic has.
    Xml {
        /// The prefix.
        alias: String,
        /// The namespace.
        name: String,
    },
}

impl Pdb {
    /// The names that a method has in use, innermost first. The method's state machine has them, if it is async or an iterator.
    pub fn imports(&self, method: Token) -> Vec<Import> {
        let mut imports = Vec::new();
        let mut scope = self.first_import_scope(method).unwrap_or(0);
        for _ in 0..MAXIMAL_DEPTH {
            if scope == 0 || imports.len() >= MAXIMAL_IMPORTS {
                break;
            }
            if let Some(blob) = self.metadata.blob(Table::ImportScope, scope, 1) {
                self.read_imports(blob, &mut imports);
            }
            // Scopes come after those around them.
            let around = self.metadata.tables.cell(Table::ImportScope, scope, 0).unwrap_or(0);
            scope = if around < scope { around } else { 0 };
        }
        imports
    }

    /// The namespaces that a method has in use, innermost first.
    pub fn imported_namespaces(&self, method: Token) -> Vec<String> {
        let namespaces = self.imports(method).into_iter().filter_map(|import| match import {
            Import::Namespace { name, alias: None, .. } => Some(name),
            _ => None,
        });
        namespaces.collect()
    }

    fn read_imports(&self, blob: &[u8], imports: &mut Vec<Import>) {
        let mut cursor = Cursor::new(blob);
        while !cursor.is_at_end() && imports.len() < MAXIMAL_IMPORTS {
            match self.read_import(&mut cursor) {
                Some(import) => imports.push(import),
                None => return,
            }
        }
    }

    fn read_import(&self, cursor: &mut Cursor<'_>) -> Option<Import> {
        Some(match cursor.u8().ok()? {
            1 => Import::Namespace { name: self.text(cursor)?, assembly: None, alias: None },
            2 => {
                let assembly = Some(assembly(cursor)?);
                Import::Namespace { name: self.text(cursor)?, assembly, alias: None }
            }
            3 => Import::Type { token: type_token(cursor)?, alias: None },
            4 => Import::Xml { alias: self.text(cursor)?, name: self.text(cursor)? },
            5 => Import::AssemblyAlias { alias: self.text(cursor)?, assembly: None },
            6 => Import::AssemblyAlias { alias: self.text(cursor)?, assembly: Some(assembly(cursor)?) },
            7 => {
                let alias = Some(self.text(cursor)?);
                Import::Namespace { name: self.text(cursor)?, assembly: None, alias }
            }
            8 => {
                let alias = Some(self.text(cursor)?);
                let assembly = Some(assembly(cursor)?);
                Import::Namespace { name: self.text(cursor)?, assembly, alias }
            }
            9 => {
                let alias = Some(self.text(cursor)?);
                Import::Type { token: type_token(cursor)?, alias }
            }
            _ => return None,
        })
    }

    fn text(&self, cursor: &mut Cursor<'_>) -> Option<String> {
        let text = self.metadata.blob_at(cursor.compressed().ok()?)?;
        // No name is longer, whatever the file says.
        (text.len() <= 1024).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

fn assembly(cursor: &mut Cursor<'_>) -> Option<Token> {
    Some(Token::new(Table::AssemblyRef, cursor.compressed().ok()?))
}

fn type_token(cursor: &mut Cursor<'_>) -> Option<Token> {
    decode(Coded::TypeDefOrRef, cursor.compressed().ok()?)
}
