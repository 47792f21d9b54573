//! What an assembly tells about its debug information: which PDB belongs to it, or the PDB itself.

use std::io::Read;

use flate2::read::DeflateDecoder;

use super::assembly::Assembly;
use super::bytes::Guid;
use super::cursor::Cursor;
use super::error::ImageError;
use super::pdb::PdbId;

/// The largest embedded PDB that is inflated.
pub const MAXIMAL_EMBEDDED_PDB: usize = 256 << 20;

/// How much smaller than the original something compressed may be.
const MAXIMAL_RATIO: usize = 128;

const CODE_VIEW: u32 = 2;
const REPRODUCIBLE: u32 = 16;
const EMBEDDED_PORTABLE_PDB: u32 = 17;
const PDB_CHECKSUM: u32 = 19;

/// Which PDB belongs to an assembly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeView {
    /// What the PDB's identity begins with.
    pub guid: Guid,
    /// The other half of the PDB's identity.
    pub stamp: u32,
    /// Always 1 for a portable PDB.
    pub age: u32,
    /// Where the compiler wrote the PDB.
    pub path: String,
    /// Whether the PDB is a portable one; otherwise it is one of Windows.
    pub is_portable: bool,
}

impl CodeView {
    /// The identity that the PDB must have.
    pub fn pdb_id(&self) -> PdbId {
        PdbId { guid: self.guid, stamp: self.stamp }
    }
}

/// A checksum of the PDB as the compiler wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdbChecksum {
    /// The algorithm, such as `SHA256`.
    pub algorithm: String,
    /// The checksum.
    pub bytes: Vec<u8>,
}

impl Assembly {
    /// Which PDB belongs to the assembly. Where there are several entries, portable ones come first.
    pub fn code_view(&self) -> Option<CodeView> {
        let entries = self.debug_entries();
        let mut views: Vec<CodeView> = entries
            .iter()
            .filter(|entry| entry.kind == CODE_VIEW)
            .filter_map(|entry| {
                // The minor version says `PM` for a portable PDB.
                read_code_view(self.bytes.range(&entry.data), entry.stamp, entry.minor == 0x504d)
            })
            .collect();
        views.sort_by_key(|view| !view.is_portable);
        views.into_iter().next()
    }

    /// The PDB that is embedded in the assembly, inflated. [`MAXIMAL_EMBEDDED_PDB`] is a good limit.
    pub fn embedded_pdb(&self, limit: usize) -> Result<Option<Vec<u8>>, ImageError> {
        let entries = self.debug_entries();
        let Some(entry) = entries.iter().find(|entry| entry.kind == EMBEDDED_PORTABLE_PDB) else {
            return Ok(None);
        };
        let mut cursor = Cursor::new(self.bytes.range(&entry.data));
        if cursor.bytes(4)? != b"MPDB" {
            return Err(ImageError::Malformed { what: "the embedded PDB" });
        }
        let size = cursor.u32()? as usize;
        inflate(cursor.rest(), size, limit, "the embedded PDB").map(Some)
    }

    /// Checksums of the PDB.
    pub fn pdb_checksums(&self) -> Vec<PdbChecksum> {
        let entries = self.debug_entries();
        let checksums = entries.iter().filter(|entry| entry.kind == PDB_CHECKSUM);
        checksums.filter_map(|entry| read_checksum(self.bytes.range(&entry.data))).collect()
    }

    /// Whether the same sources and compiler make the same assembly, byte for byte; its time stamp then is none.
    pub fn is_reproducible(&self) -> bool {
        self.debug_entries().iter().any(|entry| entry.kind == REPRODUCIBLE)
    }
}

fn read_code_view(data: &[u8], stamp: u32, is_portable: bool) -> Option<CodeView> {
    let mut cursor = Cursor::new(data);
    if cursor.bytes(4).ok()? != b"RSDS" {
        return None;
    }
    let guid = Guid(cursor.guid().ok()?);
    let age = cursor.u32().ok()?;
    let path = cursor.rest().split(|byte| *byte == 0).next()?;
    Some(CodeView { guid, stamp, age, path: String::from_utf8_lossy(path).into_owned(), is_portable })
}

fn read_checksum(data: &[u8]) -> Option<PdbChecksum> {
    let end = data.iter().position(|byte| *byte == 0)?;
    let algorithm = String::from_utf8_lossy(&data[..end]).into_owned();
    Some(PdbChecksum { algorithm, bytes: data[end + 1..].to_vec() })
}

/// Inflates what declares to be `size` bytes, growing only as far as it goes.
pub(crate) fn inflate(
    compressed: &[u8],
    size: usize,
    limit: usize,
    what: &'static str,
) -> Result<Vec<u8>, ImageError> {
    // What is compressed far better than any PDB or source is a trap.
    let limit = limit.min(compressed.len().saturating_mul(MAXIMAL_RATIO).saturating_add(64 << 10));
    if size > limit {
        return Err(ImageError::TooLarge { what, limit });
    }
    let mut inflated = Vec::new();
    // One byte more tells what is longer than it declares.
    let mut reader = DeflateDecoder::new(compressed).take(size as u64 + 1);
    reader.read_to_end(&mut inflated).map_err(|_| ImageError::Malformed { what })?;
    match inflated.len().cmp(&size) {
        std::cmp::Ordering::Equal => Ok(inflated),
        std::cmp::Ordering::Less => Err(ImageError::Truncated { what }),
        std::cmp::Ordering::Greater => Err(ImageError::TooLarge { what, limit: size }),
    }
}
