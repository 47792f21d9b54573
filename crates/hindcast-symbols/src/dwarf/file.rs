//! A file with debug information: a program's own, or one that split units were moved to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use gimli::{
    Abbreviations, DebugTypes, Dwarf, DwoId, Section, SectionId, UnitHeader, UnitSectionOffset, UnitType,
};

use super::{DieRef, Sections, Slice, index::UnitIndex, lines::LineTable, root::UnitRoot};

/// Tables of abbreviations that are kept: as many as the units that a question is usually about.
const MOST_ABBREVIATIONS: usize = 128;

/// Units of a file, and what was found out about them.
pub(crate) struct DebugFile {
    sections: Arc<Sections>,
    kind: FileKind,
    number: u32,
    units: OnceLock<Vec<UnitEntry>>,
    abbreviations: Mutex<HashMap<usize, Arc<Abbreviations>>>,
    signatures: OnceLock<HashMap<u64, DieRef>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FileKind {
    /// The program's own debug information.
    Own,
    /// A `.dwo` file.
    Split,
    /// One unit of a `.dwp` package.
    Packaged(DwoId),
    /// One type's unit of a `.dwp` package, by its row in the package's index.
    PackagedType(u32),
}

/// A unit; what costs time to find out is kept.
pub(crate) struct UnitEntry {
    pub(crate) offset: usize,
    pub(crate) end: usize,
    pub(crate) types: bool,
    pub(crate) is_type_unit: bool,
    pub(crate) root: OnceLock<Option<UnitRoot>>,
    pub(crate) index: OnceLock<UnitIndex>,
    pub(crate) lines: OnceLock<LineTable>,
    pub(crate) split: OnceLock<Option<Box<DebugFile>>>,
}

impl DebugFile {
    pub(crate) fn new(sections: Arc<Sections>, kind: FileKind, number: u32) -> Self {
        Self {
            sections,
            kind,
            number,
            units: OnceLock::new(),
            abbreviations: Mutex::default(),
            signatures: OnceLock::new(),
        }
    }

    pub(crate) fn sections(&self) -> &Sections {
        &self.sections
    }

    /// A view of the sections; `parent` is the program whose skeletons a split file completes.
    pub(crate) fn dwarf<'a>(&'a self, parent: &'a Self) -> Option<Dwarf<Slice<'a>>> {
        match self.kind {
            FileKind::Own => Some(self.sections.dwarf()),
            FileKind::Split => {
                let mut dwarf = self.sections.dwarf();
                dwarf.make_dwo(&parent.sections.dwarf());
                Some(dwarf)
            }
            FileKind::Packaged(id) => {
                self.sections.package()?.find_cu(id, &parent.sections.dwarf()).ok().flatten()
            }
            FileKind::PackagedType(row) => {
                self.sections.package()?.tu_sections(row, &parent.sections.dwarf()).ok()
            }
        }
    }

    /// All units, those of `.debug_types` last. Reads their headers only.
    pub(crate) fn units(&self, parent: &Self) -> &[UnitEntry] {
        self.units.get_or_init(|| {
            let mut units = Vec::new();
            let Some(dwarf) = self.dwarf(parent) else { return units };
            let mut headers = dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                units.push(UnitEntry::new(&header));
                self.sections.passed_start(header.length_including_self());
            }
            let mut headers = dwarf.type_units();
            while let Ok(Some(header)) = headers.next() {
                units.push(UnitEntry::new(&header));
                self.sections.passed_start(header.length_including_self());
            }
            units
        })
    }

    /// Which unit the entry is in.
    pub(crate) fn unit_of(&self, parent: &Self, die: DieRef) -> Option<usize> {
        let units = self.units(parent);
        let after = units.partition_point(|unit| (unit.types, unit.offset) <= (die.types, die.offset));
        let index = after.checked_sub(1)?;
        (units[index].types == die.types && die.offset < units[index].end).then_some(index)
    }

    pub(crate) fn header<'a>(
        &self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &UnitEntry,
    ) -> Option<UnitHeader<Slice<'a>>> {
        if !unit.types {
            return dwarf.debug_info.header_from_offset(gimli::DebugInfoOffset(unit.offset)).ok();
        }
        // Headers of this section can only be read in a row: so read it as if the section began here.
        let section = *dwarf.debug_types.reader();
        let rest = DebugTypes::from(section.range_from(unit.offset.min(section.len())..));
        let header = rest.units().next().ok()??;
        let entries = header.range_from(header.root_offset()..).ok()?;
        Some(UnitHeader::new(
            header.encoding(),
            header.unit_length(),
            header.type_(),
            header.debug_abbrev_offset(),
            SectionId::DebugTypes,
            UnitSectionOffset(unit.offset),
            entries,
        ))
    }

    /// The abbreviations of a unit: units share them, and they are parsed once.
    pub(crate) fn abbreviations(
        &self,
        dwarf: &Dwarf<Slice<'_>>,
        header: &UnitHeader<Slice<'_>>,
    ) -> Option<Arc<Abbreviations>> {
        let offset = header.debug_abbrev_offset().0;
        let lock = || self.abbreviations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&offset) {
            return Some(Arc::clone(known));
        }
        let parsed = Arc::new(header.abbreviations(&dwarf.debug_abbrev).ok()?);
        let mut known = lock();
        // Those of all units together are several times as large as their section.
        if known.len() >= MOST_ABBREVIATIONS {
            known.clear();
        }
        known.insert(offset, Arc::clone(&parsed));
        Some(parsed)
    }

    /// A type that stands in a unit of its own.
    pub(crate) fn type_by_signature(&self, parent: &Self, signature: u64) -> Option<DieRef> {
        let known = self.signatures.get_or_init(|| {
            let Some(dwarf) = self.dwarf(parent) else { return HashMap::new() };
            let units = self.units(parent).iter().filter(|unit| unit.is_type_unit && !unit.types);
            let headers = units.filter_map(|unit| self.header(&dwarf, unit));
            let mut of_types = Vec::new();
            let mut types = dwarf.type_units();
            while let Ok(Some(header)) = types.next() {
                of_types.push(header);
            }
            headers.chain(of_types).filter_map(|header| self.signature(&header)).collect()
        });
        known.get(&signature).copied()
    }

    fn signature(&self, header: &UnitHeader<Slice<'_>>) -> Option<(u64, DieRef)> {
        let (UnitType::Type { type_signature, type_offset }
        | UnitType::SplitType { type_signature, type_offset }) = header.type_()
        else {
            return None;
        };
        let types = header.section() == SectionId::DebugTypes;
        let offset = header.offset().0.checked_add(type_offset.0)?;
        Some((type_signature.0, DieRef { file: self.number, types, offset }))
    }
}

impl UnitEntry {
    fn new(header: &UnitHeader<Slice<'_>>) -> Self {
        let offset = header.offset().0;
        Self {
            offset,
            end: offset.saturating_add(header.length_including_self()),
            types: header.section() == SectionId::DebugTypes,
            is_type_unit: matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. }),
            root: OnceLock::new(),
            index: OnceLock::new(),
            lines: OnceLock::new(),
            split: OnceLock::new(),
        }
    }
}
