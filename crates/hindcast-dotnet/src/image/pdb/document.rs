//! Source files that a PDB names.

use sha2::{Digest, Sha256};

use super::Pdb;
use crate::image::bytes::Guid;
use crate::image::cursor::Cursor;
use crate::image::debug_directory::inflate;
use crate::image::error::ImageError;
use crate::image::token::{Table, Token};

/// The longest path that is read.
const MAXIMAL_PATH: usize = 8 << 10;
/// The largest embedded source that is inflated.
const MAXIMAL_SOURCE: usize = 64 << 20;

const EMBEDDED_SOURCE: Guid = Guid::new(0x0e8a_571b, 0x6926, 0x466e, 0xb4ad, 0x8ab0_4611_f5fe);

/// A source file. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Document<'a> {
    pub(crate) pdb: &'a Pdb,
    pub(crate) row: u32,
}

/// The language that a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C#
    CSharp,
    /// F#
    FSharp,
    /// Visual Basic
    VisualBasic,
    /// Another one.
    Other(Guid),
}

/// How a document's hash is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-1
    Sha1,
    /// SHA-256
    Sha256,
    /// Another one.
    Other(Guid),
}

impl Language {
    fn from_guid(guid: Guid) -> Self {
        const CSHARP: Guid = Guid::new(0x3f51_62f8, 0x07c6, 0x11d3, 0x9053, 0x00c0_4fa3_02a1);
        const VISUAL_BASIC: Guid = Guid::new(0x3a12_d0b8, 0xc26c, 0x11d0, 0xb442, 0x00a0_244a_1dd2);
        const FSHARP: Guid = Guid::new(0xab4f_38c9, 0xb6e6, 0x43ba, 0xbe3b, 0x5808_0b2c_cce3);
        match guid {
            CSHARP => Self::CSharp,
            VISUAL_BASIC => Self::VisualBasic,
            FSHARP => Self::FSharp,
            other => Self::Other(other),
        }
    }

    /// Its name, if it is known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::CSharp => Some("C#"),
            Self::FSharp => Some("F#"),
            Self::VisualBasic => Some("VB"),
            Self::Other(_) => None,
        }
    }
}

impl HashAlgorithm {
    fn from_guid(guid: Guid) -> Self {
        const SHA1: Guid = Guid::new(0xff18_16ec, 0xaa5e, 0x4d10, 0x87f7, 0x6f49_6383_3460);
        const SHA256: Guid = Guid::new(0x8829_d00f, 0x11b8, 0x4213, 0x878b, 0x770e_8597_ac16);
        match guid {
            SHA1 => Self::Sha1,
            SHA256 => Self::Sha256,
            other => Self::Other(other),
        }
    }
}

impl<'a> Document<'a> {
    /// Its number, as sequence points name it.
    pub fn number(self) -> u32 {
        self.row
    }

    /// Its path, as the compiler was given it.
    pub fn path(self) -> Option<String> {
        let mut path = String::new();
        self.read_path(&mut path).then_some(path)
    }

    /// Writes the path into a buffer, so that many can be looked at without an allocation each.
    fn read_path(self, path: &mut String) -> bool {
        path.clear();
        let metadata = &self.pdb.metadata;
        let Some(blob) = metadata.blob(Table::Document, self.row, 0) else { return false };
        let mut cursor = Cursor::new(blob);
        let Ok(separator) = cursor.u8() else { return false };
        let mut is_first = true;
        while !cursor.is_at_end() {
            if !is_first && separator != 0 {
                path.push(char::from(separator));
            }
            is_first = false;
            let part = cursor.compressed().ok().and_then(|offset| {
                // Offset 0 is the empty part before the first separator.
                if offset == 0 { Some(&[][..]) } else { metadata.blob_at(offset) }
            });
            let Some(part) = part.filter(|part| path.len() + part.len() <= MAXIMAL_PATH) else {
                return false;
            };
            path.push_str(&String::from_utf8_lossy(part));
        }
        true
    }

    /// The language that it is written in.
    pub fn language(self) -> Option<Language> {
        self.pdb.metadata.guid(Table::Document, self.row, 3).map(Language::from_guid)
    }

    /// How its hash is made.
    pub fn hash_algorithm(self) -> Option<HashAlgorithm> {
        self.pdb.metadata.guid(Table::Document, self.row, 1).map(HashAlgorithm::from_guid)
    }

    /// The hash of what the compiler read.
    pub fn hash(self) -> Option<&'a [u8]> {
        self.pdb.metadata.blob(Table::Document, self.row, 2).filter(|hash| !hash.is_empty())
    }

    /// Whether a file is what the compiler read. None where the PDB has no hash, or one that is not SHA-256.
    pub fn matches(self, file: &[u8]) -> Option<bool> {
        match self.hash_algorithm()? {
            HashAlgorithm::Sha256 => Some(self.hash()? == &Sha256::digest(file)[..]),
            HashAlgorithm::Sha1 | HashAlgorithm::Other(_) => None,
        }
    }

    /// The text, if it is embedded in the PDB.
    pub fn embedded_source(self) -> Result<Option<Vec<u8>>, ImageError> {
        let Some(blob) = self.pdb.custom(Token::new(Table::Document, self.row), EMBEDDED_SOURCE) else {
            return Ok(None);
        };
        let mut cursor = Cursor::new(blob);
        match cursor.u32()? as i32 {
            0 => Ok(Some(cursor.rest().to_vec())),
            size if size > 0 => {
                inflate(cursor.rest(), size as usize, MAXIMAL_SOURCE, "an embedded source").map(Some)
            }
            _ => Err(ImageError::Malformed { what: "an embedded source" }),
        }
    }
}

impl Pdb {
    /// Documents whose paths are, or end with, `path`: whole components, in exact case, `/` and `\` being the same. Those that match
    /// as a whole come first.
    pub fn documents_matching(&self, path: &str) -> Vec<Document<'_>> {
        let wanted: Vec<&str> = components(path).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut matching = Vec::new();
        let mut buffer = String::new();
        for document in self.documents() {
            if document.read_path(&mut buffer) && ends_with(&buffer, &wanted) {
                matching.push((components(&buffer).count() != wanted.len(), document));
            }
        }
        matching.sort_by_key(|(is_partial, document)| (*is_partial, document.row));
        matching.into_iter().map(|(_, document)| document).collect()
    }
}

impl std::fmt::Debug for Document<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Document({}, {:?})", self.row, self.path())
    }
}

/// The components of a path. `.` means nothing in it.
fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".")
}

fn ends_with(path: &str, wanted: &[&str]) -> bool {
    let mut parts = components(path).rev();
    wanted.iter().rev().all(|part| parts.next() == Some(part))
}
