//! The PE file around an assembly: sections, the CLI header and the debug directory.

use std::ops::Range;

use super::cursor::Cursor;
use super::error::{ImageError, Machine, what_else};

/// More sections than any linker writes.
const MAXIMAL_SECTIONS: u16 = 96;
/// Directory entries of the optional header.
const DEBUG_DIRECTORY: usize = 6;
const CLI_HEADER: usize = 14;

/// Where the parts of a PE file lie.
#[derive(Debug)]
pub(crate) struct Pe {
    pub(crate) machine: Machine,
    sections: Vec<Section>,
    debug: Directory,
    pub(crate) cli: CliHeader,
}

#[derive(Debug, Clone, Copy)]
struct Section {
    virtual_address: u32,
    virtual_size: u32,
    file_size: u32,
    file_offset: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Directory {
    address: u32,
    size: u32,
}

/// What the CLI header declares.
#[derive(Debug)]
pub(crate) struct CliHeader {
    metadata: Directory,
    pub(crate) flags: u32,
    pub(crate) entry_point: u32,
    /// The header of what was compiled ahead of time.
    native_header: Directory,
}

/// An entry of the debug directory, and where its data lies in the file.
#[derive(Debug, Clone)]
pub(crate) struct DebugEntry {
    pub(crate) stamp: u32,
    pub(crate) minor: u16,
    pub(crate) kind: u32,
    pub(crate) data: Range<usize>,
}

impl Pe {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        if !bytes.starts_with(b"MZ") {
            return Err(what_else(bytes));
        }
        let header = Cursor::at(bytes, 0x3c).u32().map_err(|_| truncated("the DOS header"))?;
        let mut cursor = Cursor::at(bytes, header as usize);
        if cursor.bytes(4).map_err(|_| truncated("the PE header"))? != b"PE\0\0" {
            return Err(ImageError::Unknown);
        }
        Self::parse_headers(bytes, cursor).map_err(|error| match error {
            ImageError::Truncated { .. } => truncated("the PE header"),
            other => other,
        })
    }

    fn parse_headers(bytes: &[u8], mut cursor: Cursor<'_>) -> Result<Self, ImageError> {
        let machine = Machine::from_header(cursor.u16()?);
        let section_count = cursor.u16()?;
        cursor.skip(12)?;
        let optional_size = cursor.u16()?;
        cursor.skip(2)?;
        let optional = cursor.bytes(usize::from(optional_size))?;
        let directories = read_directories(optional)?;
        let cli = directories[CLI_HEADER];
        if cli.address == 0 {
            return Err(ImageError::Native { machine });
        }
        if section_count > MAXIMAL_SECTIONS {
            return Err(ImageError::Malformed { what: "the number of sections" });
        }
        let sections =
            (0..section_count).map(|_| read_section(&mut cursor)).collect::<Result<Vec<_>, _>>()?;
        let mut pe = Self { machine, sections, debug: directories[DEBUG_DIRECTORY], cli: CliHeader::empty() };
        let header = pe.directory(bytes, cli).ok_or(truncated("the CLI header"))?;
        pe.cli = CliHeader::parse(&bytes[header]).map_err(|_| truncated("the CLI header"))?;
        Ok(pe)
    }

    pub(crate) fn metadata(&self, bytes: &[u8]) -> Result<Range<usize>, ImageError> {
        self.directory(bytes, self.cli.metadata).ok_or(truncated("the metadata"))
    }

    /// Whether methods are compiled ahead of time beside their IL.
    pub(crate) fn is_precompiled(&self) -> bool {
        self.cli.native_header.size != 0
    }

    fn directory(&self, bytes: &[u8], directory: Directory) -> Option<Range<usize>> {
        let whole = self.at(bytes, directory.address)?;
        let end = whole.start.checked_add(directory.size as usize)?;
        (end <= whole.end).then_some(whole.start..end)
    }

    /// The bytes of the file from an address to the end of its section.
    pub(crate) fn at(&self, bytes: &[u8], address: u32) -> Option<Range<usize>> {
        self.sections.iter().find_map(|section| {
            let offset = address.checked_sub(section.virtual_address)?;
            // What is beyond the virtual size is padding, unless the linker left the size out.
            let size = match section.virtual_size {
                0 => section.file_size,
                size => size.min(section.file_size),
            };
            if offset >= size {
                return None;
            }
            let start = section.file_offset as usize + offset as usize;
            let end = (section.file_offset as usize + size as usize).min(bytes.len());
            (start < end).then_some(start..end)
        })
    }

    /// The entries of the debug directory whose data lies in the file.
    pub(crate) fn debug_entries(&self, bytes: &[u8]) -> Vec<DebugEntry> {
        let Some(directory) = self.directory(bytes, self.debug) else { return Vec::new() };
        bytes[directory].chunks_exact(28).filter_map(|entry| read_debug_entry(bytes, entry).ok()).collect()
    }
}

impl CliHeader {
    fn empty() -> Self {
        let none = Directory::default();
        Self { metadata: none, flags: 0, entry_point: 0, native_header: none }
    }

    fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        let mut cursor = Cursor::at(bytes, 8);
        let metadata = read_directory(&mut cursor)?;
        let flags = cursor.u32()?;
        let entry_point = cursor.u32()?;
        // Resources, the strong name, the code manager, fixups and the jump table of exports.
        cursor.skip(40)?;
        let native_header = read_directory(&mut cursor).unwrap_or_default();
        Ok(Self { metadata, flags, entry_point, native_header })
    }
}

fn read_directory(cursor: &mut Cursor<'_>) -> Result<Directory, ImageError> {
    Ok(Directory { address: cursor.u32()?, size: cursor.u32()? })
}

fn read_directories(optional: &[u8]) -> Result<[Directory; 16], ImageError> {
    let mut cursor = Cursor::new(optional);
    let count_at = match cursor.u16()? {
        0x10b => 92,
        0x20b => 108,
        _ => return Err(ImageError::Malformed { what: "the optional header" }),
    };
    let mut cursor = Cursor::at(optional, count_at);
    let count = cursor.u32()?;
    let mut directories = [Directory::default(); 16];
    for directory in directories.iter_mut().take(count as usize) {
        *directory = read_directory(&mut cursor)?;
    }
    Ok(directories)
}

fn read_section(cursor: &mut Cursor<'_>) -> Result<Section, ImageError> {
    cursor.skip(8)?;
    let section = Section {
        virtual_size: cursor.u32()?,
        virtual_address: cursor.u32()?,
        file_size: cursor.u32()?,
        file_offset: cursor.u32()?,
    };
    cursor.skip(16)?;
    Ok(section)
}

fn read_debug_entry(bytes: &[u8], entry: &[u8]) -> Result<DebugEntry, ImageError> {
    let mut cursor = Cursor::at(entry, 4);
    let stamp = cursor.u32()?;
    cursor.skip(2)?;
    let minor = cursor.u16()?;
    let kind = cursor.u32()?;
    let size = cursor.u32()? as usize;
    cursor.skip(4)?;
    let start = cursor.u32()? as usize;
    let data = start..start.checked_add(size).ok_or(truncated("the debug directory"))?;
    if data.end > bytes.len() {
        return Err(truncated("the debug directory"));
    }
    Ok(DebugEntry { stamp, minor, kind, data })
}

fn truncated(what: &'static str) -> ImageError {
    ImageError::Truncated { what }
}
