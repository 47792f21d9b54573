//! Owns the bytes of debug sections; views of them are made when asked for.

use std::sync::{Arc, OnceLock};

use gimli::{Dwarf, DwarfPackage, LittleEndian, SectionId};

use super::Slice;
use crate::elf::{ElfFile, SectionData};

const SECTIONS: usize = 32;

/// The debug sections of one file. Each is found, and unpacked, when first needed.
pub(crate) struct Sections {
    elf: Arc<ElfFile>,
    /// Whether sections are named `.dwo`.
    split: bool,
    loaded: [OnceLock<Option<SectionData>>; SECTIONS],
}

impl Sections {
    pub(crate) fn new(elf: Arc<ElfFile>, split: bool) -> Self {
        Self { elf, split, loaded: [const { OnceLock::new() }; SECTIONS] }
    }

    pub(crate) fn bytes(&self, id: SectionId) -> &[u8] {
        let Some(slot) = self.loaded.get(id as usize) else { return &[] };
        let section = slot.get_or_init(|| {
            let name = if self.split { id.dwo_name() } else { Some(id.name()) };
            self.elf.section_data(name?)
        });
        section.as_deref().unwrap_or_default()
    }

    /// As [`ElfFile::passed`].
    pub(crate) fn passed(&self, length: usize) {
        self.elf.passed(length);
    }

    /// As [`Self::passed`], of something of which only the start was read.
    pub(crate) fn passed_start(&self, length: usize) {
        // The system maps a few pages around each that is looked at.
        const AROUND: usize = 1 << 16;
        self.elf.passed(length.min(AROUND));
    }

    pub(crate) fn slice(&self, id: SectionId) -> Slice<'_> {
        Slice::new(self.bytes(id), LittleEndian)
    }

    /// A view of them all. Cheap once they are read.
    pub(crate) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        let view = Dwarf::load(|id| {
            Ok::<_, std::convert::Infallible>(match id {
                // Macros and name tables are large and never asked for.
                SectionId::DebugMacro | SectionId::DebugMacinfo | SectionId::DebugNames => {
                    Slice::new(&[], LittleEndian)
                }
                _ => self.slice(id),
            })
        });
        let Ok(view) = view;
        view
    }

    /// A view of them as a package of many split units.
    pub(crate) fn package(&self) -> Option<DwarfPackage<Slice<'_>>> {
        let load = |id: SectionId| Ok::<_, gimli::Error>(self.slice(id));
        DwarfPackage::load(load, Slice::new(&[], LittleEndian)).ok()
    }
}
