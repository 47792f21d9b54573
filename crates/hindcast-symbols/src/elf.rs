//! ELF files: headers when opened, everything else when asked for.

mod content;
mod symbol_table;

use std::{borrow::Cow, io, ops::Range, path::Path, sync::Arc};

use hindcast_mapping::open_plain;
use object::read::{CompressedData, CompressionFormat};

use content::{Content, Source};

pub(crate) use content::SectionData;
pub(crate) use symbol_table::{ElfSymbol, SymbolTable, SymbolType};

use crate::error::SymbolError;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 0x800;
const NT_GNU_BUILD_ID: u32 = 3;
const MACHINE_X86_64: u16 = 62;

/// Sections above this size are taken for damage: nothing real comes near it.
const LARGEST_SECTION: u64 = 4 << 30;
/// No compression in use packs debug information tighter than this.
const BEST_COMPRESSION: u64 = 1100;

/// An ELF file, of which only the headers are kept in memory.
pub(crate) struct ElfFile {
    source: Source,
    size: u64,
    pub(crate) sections: Vec<SectionHeader>,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) struct SectionHeader {
    pub(crate) name: String,
    kind: u32,
    flags: u64,
    pub(crate) address: u64,
    offset: u64,
    pub(crate) size: u64,
    link: u32,
}

pub(crate) struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    pub(crate) address: u64,
    file_size: u64,
    pub(crate) memory_size: u64,
}

impl Segment {
    pub(crate) fn is_code(&self) -> bool {
        self.kind == PT_LOAD && self.flags & PF_X != 0
    }

    pub(crate) fn is_load(&self) -> bool {
        self.kind == PT_LOAD
    }
}

impl ElfFile {
    pub(crate) fn open(path: &Path) -> Result<Self, SymbolError> {
        let read = |cause| SymbolError::Read { path: path.to_owned(), cause };
        let file = open_plain(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::InvalidInput => SymbolError::NotElf { name: path.display().to_string() },
            _ => read(cause),
        })?;
        let metadata = file.metadata().map_err(read)?;
        Self::parse(Source::new(file), metadata.len(), &path.display().to_string())
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, SymbolError> {
        let size = bytes.len() as u64;
        Self::parse(Source::Bytes(bytes), size, name)
    }

    fn parse(source: Source, size: u64, name: &str) -> Result<Self, SymbolError> {
        let elf = Self { source, size, sections: Vec::new(), segments: Vec::new() };
        let not_elf = || SymbolError::NotElf { name: name.to_owned() };
        let damaged = |what| SymbolError::Damaged { name: name.to_owned(), what };
        let header = elf.read(0, 64).ok_or_else(not_elf)?;
        // 64 bit, little-endian.
        if header[..6] != *b"\x7fELF\x02\x01" || u16_at(&header, 18) != MACHINE_X86_64 {
            return Err(not_elf());
        }
        let segments = elf
            .read(u64_at(&header, 32), u64::from(u16_at(&header, 56)) * 56)
            .ok_or_else(|| damaged("its program headers lie beyond its end"))?;
        let segments = segments.chunks_exact(56).map(Segment::parse).collect();
        let sections =
            elf.section_headers(&header).ok_or_else(|| damaged("its sections lie beyond its end"))?;
        Ok(Self { segments, sections, ..elf })
    }

    fn section_headers(&self, header: &[u8]) -> Option<Vec<SectionHeader>> {
        let offset = u64_at(header, 40);
        if offset == 0 {
            return Some(Vec::new());
        }
        // Counts too large for the header stand in the first section's.
        let first = self.read(offset, 64)?;
        let count = match u16_at(header, 60) {
            0 => u64_at(&first, 32),
            count => u64::from(count),
        };
        let names = match u16_at(header, 62) {
            0xffff => u32_at(&first, 40),
            index => u32::from(index),
        };
        let bytes = self.read(offset, count.checked_mul(64)?)?;
        let headers = bytes.chunks_exact(64).collect::<Vec<_>>();
        let names =
            headers.get(names as usize).and_then(|header| self.read(u64_at(header, 24), u64_at(header, 32)));
        let names = names.unwrap_or_default();
        Some(headers.iter().map(|header| SectionHeader::parse(header, &names)).collect())
    }

    /// Bytes of the file; `None` where it does not reach that far.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Option<Cow<'_, [u8]>> {
        self.source.read(self.range(offset, length)?)
    }

    fn range(&self, offset: u64, length: u64) -> Option<Range<usize>> {
        let end = offset.checked_add(length).filter(|&end| end <= self.size)?;
        Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }

    /// Says that so many bytes of debug information were read and will hardly be read again soon.
    /// Whoever reads all of a large file says so, and it does not stay in memory.
    pub(crate) fn passed(&self, length: usize) {
        self.source.passed(length);
    }

    /// Bytes of the program as it is loaded from the file; `None` outside of what it holds.
    pub(crate) fn read_loaded(&self, address: u64, length: u64) -> Option<Cow<'_, [u8]>> {
        let segment = self.segments.iter().find(|segment| {
            segment.is_load() && address >= segment.address && address - segment.address < segment.file_size
        })?;
        let within = address - segment.address;
        self.read(segment.offset.checked_add(within)?, length.min(segment.file_size - within))
    }

    pub(crate) fn section(&self, name: &str) -> Option<&SectionHeader> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// A section's bytes, unpacked; also where it is called `.zdebug_…`.
    pub(crate) fn section_data(self: &Arc<Self>, name: &str) -> Option<SectionData> {
        Some(SectionData::new(self, self.content(name)?))
    }

    fn content(&self, name: &str) -> Option<Content> {
        if let Some(section) = self.section(name) {
            return self.joined(name).or_else(|| self.content_of(section));
        }
        let packed = self.content_of(self.section(&format!(".z{}", name.strip_prefix('.')?))?)?;
        // `ZLIB`, the size big-endian, the data.
        let (header, data) = packed.bytes(&self.source).split_at_checked(12)?;
        let size = u64::from_be_bytes(header[4..].try_into().ok()?);
        (header[..4] == *b"ZLIB").then(|| unpack(CompressionFormat::Zlib, data, size))?
    }

    /// All sections of a name one after the other, where there are several: a compiler gives each type
    /// a section of its own for the linker to choose from, and what is split is not linked.
    fn joined(&self, name: &str) -> Option<Content> {
        let parts: Vec<_> = self.sections.iter().filter(|section| section.name == name).collect();
        // Sections that overlap are damage.
        let total = parts.iter().try_fold(0u64, |total, part| total.checked_add(part.size))?;
        if parts.len() < 2 || total > self.size {
            return None;
        }
        let mut joined = Vec::new();
        for part in parts {
            let Some(content) = self.content_of(part) else { continue };
            joined.extend_from_slice(content.bytes(&self.source));
            if joined.len() as u64 > LARGEST_SECTION {
                return None;
            }
        }
        Some(Content::Apart(joined))
    }

    fn content_of(&self, section: &SectionHeader) -> Option<Content> {
        if section.kind == SHT_NOBITS || section.size > LARGEST_SECTION {
            return None;
        }
        let content = Content::of(&self.source, self.range(section.offset, section.size)?)?;
        if section.flags & SHF_COMPRESSED == 0 {
            return Some(content);
        }
        let (header, data) = content.bytes(&self.source).split_at_checked(24)?;
        let format = match u32_at(header, 0) {
            1 => CompressionFormat::Zlib,
            2 => CompressionFormat::Zstandard,
            _ => return None,
        };
        unpack(format, data, u64_at(header, 8))
    }

    pub(crate) fn has_section(&self, name: &str) -> bool {
        let packed = name.strip_prefix('.').map(|rest| format!(".z{rest}")).unwrap_or_default();
        self.sections.iter().any(|section| {
            (section.name == name || section.name == packed) && section.kind != SHT_NOBITS && section.size > 0
        })
    }

    /// The linker's name for exactly this build.
    pub(crate) fn build_id(&self) -> Option<Vec<u8>> {
        let notes =
            self.segments.iter().filter(|segment| segment.kind == PT_NOTE && segment.file_size < 1 << 20);
        let in_segments = notes
            .filter_map(|segment| self.read(segment.offset, segment.file_size))
            .find_map(|notes| build_id_in(&notes));
        in_segments.or_else(|| build_id_in(self.content(".note.gnu.build-id")?.bytes(&self.source)))
    }

    /// The file that debug information was moved to, and its checksum.
    pub(crate) fn debug_link(&self) -> Option<(String, u32)> {
        let section = self.content(".gnu_debuglink")?;
        let bytes = section.bytes(&self.source);
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let name = std::str::from_utf8(&bytes[..end]).ok()?;
        let checksum = bytes.get((end + 4) & !3..)?.get(..4)?;
        // A name, not a way out of the folders that are searched.
        let plain = !name.is_empty() && !name.contains('/') && name != "..";
        plain.then(|| (name.to_owned(), u32_at(checksum, 0)))
    }

    /// The checksum that `.gnu_debuglink` has of the whole file.
    pub(crate) fn checksum(&self) -> Option<u32> {
        let mut state = !0u32;
        let mut offset = 0;
        while offset < self.size {
            let length = (self.size - offset).min(1 << 20);
            for byte in &*self.read(offset, length)? {
                state = (state >> 8) ^ CHECKSUMS[usize::from(state as u8 ^ byte)];
            }
            offset += length;
            self.passed(1 << 20);
        }
        Some(!state)
    }

    /// The symbol table, and `.dynsym` where there is no other.
    pub(crate) fn symbol_table(self: &Arc<Self>) -> Option<SymbolTable> {
        let section =
            self.section(".symtab").filter(|section| section.kind != SHT_NOBITS && section.size > 0);
        let section = section.or_else(|| self.section(".dynsym"))?;
        let names = self.content_of(self.sections.get(section.link as usize)?)?;
        let entries = self.content_of(section)?;
        Some(SymbolTable::parse(entries.bytes(&self.source), SectionData::new(self, names)))
    }
}

impl Segment {
    fn parse(bytes: &[u8]) -> Self {
        Self {
            kind: u32_at(bytes, 0),
            flags: u32_at(bytes, 4),
            offset: u64_at(bytes, 8),
            address: u64_at(bytes, 16),
            file_size: u64_at(bytes, 32),
            memory_size: u64_at(bytes, 40),
        }
    }
}

impl SectionHeader {
    fn parse(bytes: &[u8], names: &[u8]) -> Self {
        let name = names.get(u32_at(bytes, 0) as usize..).unwrap_or_default();
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Self {
            // Real names are short: a damaged table must not be copied for every section.
            name: String::from_utf8_lossy(&name[..end.min(64)]).into_owned(),
            kind: u32_at(bytes, 4),
            flags: u64_at(bytes, 8),
            address: u64_at(bytes, 16),
            offset: u64_at(bytes, 24),
            size: u64_at(bytes, 32),
            link: u32_at(bytes, 40),
        }
    }
}

/// The checksums of single bytes.
const CHECKSUMS: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut state, mut bit) = (byte as u32, 0);
        while bit < 8 {
            state = (state >> 1) ^ (0xedb8_8320 & (state & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

fn unpack(format: CompressionFormat, data: &[u8], uncompressed_size: u64) -> Option<Content> {
    let most = (data.len() as u64 + 64).saturating_mul(BEST_COMPRESSION).min(LARGEST_SECTION);
    if uncompressed_size > most {
        return None;
    }
    let compressed = CompressedData { format, data, uncompressed_size };
    compressed.decompress().ok().map(|bytes| Content::Apart(bytes.into_owned()))
}

/// The linker's name for exactly this build, in the notes of a file or of what it became in memory.
pub fn build_id_in(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    while rest.len() >= 12 {
        let name_size = (u32_at(rest, 0) as usize).checked_add(3)? & !3;
        let size = u32_at(rest, 4) as usize;
        let kind = u32_at(rest, 8);
        let name = rest.get(12..)?.get(..name_size)?;
        let content = rest.get(12 + name_size..)?.get(..size)?;
        if kind == NT_GNU_BUILD_ID && name.starts_with(b"GNU") && size >= 4 {
            return Some(content.to_vec());
        }
        rest = rest.get(12 + name_size + (size.checked_add(3)? & !3)..)?;
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
