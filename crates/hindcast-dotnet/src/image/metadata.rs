//! The metadata root (ECMA-335 II.24.2): its streams and heaps.

use std::ops::Range;

use super::bytes::{Guid, ImageBytes};
use super::cursor::Cursor;
use super::error::ImageError;
use super::tables::Tables;
use super::token::{Table, Token};

/// More streams than any compiler writes.
const MAXIMAL_STREAMS: u16 = 32;
/// The runtime refuses names of 1024 bytes and more; ours may be somewhat longer.
const MAXIMAL_NAME: usize = 4096;

/// Metadata of an assembly or of a portable PDB: tables, and the heaps that they point into.
#[derive(Debug)]
pub(crate) struct Metadata {
    bytes: ImageBytes,
    pub(crate) version: String,
    pub(crate) tables: Tables,
    strings: Range<usize>,
    user_strings: Range<usize>,
    blobs: Range<usize>,
    guids: Range<usize>,
    /// The stream that only a portable PDB has.
    pub(crate) pdb: Option<PdbStream>,
}

/// What the `#Pdb` stream tells.
#[derive(Debug, Clone)]
pub(crate) struct PdbStream {
    pub(crate) id: [u8; 20],
    pub(crate) entry_point: u32,
    rows: [u32; 64],
}

#[derive(Default)]
struct Streams {
    strings: Range<usize>,
    user_strings: Range<usize>,
    blobs: Range<usize>,
    guids: Range<usize>,
    tables: Option<Range<usize>>,
    pdb: Option<Range<usize>>,
}

impl Metadata {
    pub(crate) fn parse(bytes: &ImageBytes, root: Range<usize>) -> Result<Self, ImageError> {
        let truncated = |_| ImageError::Truncated { what: "the metadata" };
        let data = bytes.range(&root);
        let mut cursor = Cursor::new(data);
        if cursor.bytes(4).map_err(truncated)? != b"BSJB" {
            return Err(ImageError::Malformed { what: "the metadata's signature" });
        }
        cursor.skip(8).map_err(truncated)?;
        let length = cursor.u32().map_err(truncated)?;
        let version = cursor.bytes((length as usize).min(0xffff)).map_err(truncated)?;
        let version = version.split(|byte| *byte == 0).next().unwrap_or_default();
        let streams = Streams::parse(&mut cursor, &root).map_err(|error| match error {
            ImageError::Truncated { .. } => ImageError::Truncated { what: "the metadata" },
            other => other,
        })?;
        let pdb = streams.pdb.as_ref().map(|stream| PdbStream::parse(bytes.range(stream))).transpose()?;
        let tables = streams.tables.ok_or(ImageError::Malformed { what: "the list of streams" })?;
        let elsewhere = pdb.as_ref().map_or([0; 64], |pdb| pdb.rows);
        Ok(Self {
            bytes: bytes.clone(),
            version: String::from_utf8_lossy(version).into_owned(),
            tables: Tables::parse(bytes, tables, &elsewhere)?,
            strings: streams.strings,
            user_strings: streams.user_strings,
            blobs: streams.blobs,
            guids: streams.guids,
            pdb,
        })
    }

    /// The string that a cell points to. What is not UTF-8 is one replacement character.
    pub(crate) fn string(&self, table: Table, row: u32, column: usize) -> Option<&str> {
        let offset = self.tables.cell(table, row, column)? as usize;
        let rest = self.bytes.range(&self.strings).get(offset..)?;
        let name = &rest[..rest.len().min(MAXIMAL_NAME)];
        let end = name.iter().position(|byte| *byte == 0)?;
        Some(std::str::from_utf8(&name[..end]).unwrap_or("\u{fffd}"))
    }

    /// The blob that a cell points to.
    pub(crate) fn blob(&self, table: Table, row: u32, column: usize) -> Option<&[u8]> {
        self.blob_at(self.tables.cell(table, row, column)?)
    }

    pub(crate) fn blob_at(&self, offset: u32) -> Option<&[u8]> {
        heap_item(self.bytes.range(&self.blobs), offset)
    }

    /// The identifier that a cell points to; identifiers are counted from 1.
    pub(crate) fn guid(&self, table: Table, row: u32, column: usize) -> Option<Guid> {
        let index = self.tables.cell(table, row, column)?.checked_sub(1)? as usize;
        let start = index.checked_mul(16)?;
        Cursor::at(self.bytes.range(&self.guids), start).guid().ok().map(Guid)
    }

    /// The string that `ldstr` loads. Its token has the highest byte `0x70`.
    pub(crate) fn user_string(&self, token: Token) -> Option<String> {
        if token.0 >> 24 != 0x70 {
            return None;
        }
        let item = heap_item(self.bytes.range(&self.user_strings), token.row())?;
        // The last byte only says whether there are special characters.
        Some(utf16(&item[..item.len() & !1]))
    }

    /// How many bytes all blobs take together.
    pub(crate) fn blob_bytes(&self) -> usize {
        self.blobs.len()
    }
}

impl Streams {
    fn parse(cursor: &mut Cursor<'_>, root: &Range<usize>) -> Result<Self, ImageError> {
        cursor.align4();
        cursor.skip(2)?;
        let count = cursor.u16()?;
        if count > MAXIMAL_STREAMS {
            return Err(ImageError::Malformed { what: "the number of streams" });
        }
        let mut streams = Self::default();
        for _ in 0..count {
            let offset = cursor.u32()? as usize;
            let size = cursor.u32()? as usize;
            let rest = cursor.rest();
            let length = rest.iter().take(32).position(|byte| *byte == 0);
            let length = length.ok_or(ImageError::Malformed { what: "the name of a stream" })?;
            let name = cursor.bytes(length + 1)?;
            cursor.align4();
            let start = root.start.checked_add(offset);
            let end = start.and_then(|start| start.checked_add(size)).filter(|end| *end <= root.end);
            let (Some(start), Some(end)) = (start, end) else {
                return Err(ImageError::Truncated { what: "a stream" });
            };
            streams.set(&name[..length], start..end);
        }
        Ok(streams)
    }

    fn set(&mut self, name: &[u8], range: Range<usize>) {
        match name {
            b"#Strings" => self.strings = range,
            b"#US" => self.user_strings = range,
            b"#Blob" => self.blobs = range,
            b"#GUID" => self.guids = range,
            b"#~" | b"#-" => self.tables = Some(range),
            b"#Pdb" => self.pdb = Some(range),
            _ => {}
        }
    }
}

impl PdbStream {
    fn parse(data: &[u8]) -> Result<Self, ImageError> {
        let truncated = |_| ImageError::Truncated { what: "the PDB's head" };
        let mut cursor = Cursor::new(data);
        let mut id = [0; 20];
        id.copy_from_slice(cursor.bytes(20).map_err(truncated)?);
        let entry_point = cursor.u32().map_err(truncated)?;
        let referenced = cursor.u64().map_err(truncated)?;
        let mut rows = [0; 64];
        for (_, count) in rows.iter_mut().enumerate().filter(|(table, _)| referenced >> table & 1 == 1) {
            *count = cursor.u32().map_err(truncated)?;
        }
        Ok(Self { id, entry_point, rows })
    }

    /// How many rows a table of the assembly has.
    pub(crate) fn rows(&self, table: Table) -> u32 {
        self.rows[table as usize]
    }
}

fn heap_item(heap: &[u8], offset: u32) -> Option<&[u8]> {
    let mut cursor = Cursor::at(heap, offset as usize);
    let length = cursor.compressed().ok()?;
    cursor.bytes(length as usize).ok()
}

/// Text of UTF-16 units; halves of pairs become replacement characters.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
