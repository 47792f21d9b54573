//! Entries of debug information, and the units they are in.

use std::{borrow::Cow, ops::Range};

use gimli::{AttributeValue, DebugLineOffset, Dwarf, IncompleteLineProgram, Unit, UnitSectionOffset};

use super::{Entry, Offset, Slice, Value, paths, root::UnitRoot};

/// An entry of a module's debug information: which of its files, which section, where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DieRef {
    /// 0 for the module's own debug information, else the split file of unit `file - 1`.
    pub(crate) file: u32,
    /// Whether in `.debug_types`, as DWARF 4 has it.
    pub(crate) types: bool,
    pub(crate) offset: usize,
}

impl DieRef {
    const OFFSET_BITS: u32 = 40;

    /// As one number, for handles that others keep.
    pub(crate) fn encode(self) -> u64 {
        let high = u64::from(self.file) << 1 | u64::from(self.types);
        high << Self::OFFSET_BITS | (self.offset as u64 & ((1 << Self::OFFSET_BITS) - 1))
    }

    pub(crate) fn decode(entry: u64) -> Self {
        let high = entry >> Self::OFFSET_BITS;
        let offset = entry & ((1 << Self::OFFSET_BITS) - 1);
        Self { file: (high >> 1) as u32, types: high & 1 == 1, offset: offset as usize }
    }
}

/// A unit, ready to be read. Made for a question and dropped with its answer.
pub(crate) struct View<'a> {
    pub(crate) dwarf: Dwarf<Slice<'a>>,
    pub(crate) unit: Unit<Slice<'a>>,
    /// Which file of the module it is from.
    pub(crate) file: u32,
    /// Its place among the file's units.
    pub(crate) index: usize,
    pub(crate) root: &'a UnitRoot,
    pub(super) line_offset: Option<DebugLineOffset>,
}

impl<'a> View<'a> {
    pub(crate) fn die_ref(&self, offset: Offset) -> DieRef {
        match offset.to_unit_section_offset(&self.unit.header) {
            UnitSectionOffset(offset) => DieRef { file: self.file, types: self.in_types(), offset },
        }
    }

    /// Whether it holds what several units have in common, and stands for no source file.
    pub(crate) fn is_partial(&self) -> bool {
        let root = self.unit.entry(self.unit.header.root_offset());
        root.is_ok_and(|root| root.tag() == gimli::DW_TAG_partial_unit)
    }

    /// Whether code of this unit may be a copy of a function that another unit declares.
    pub(crate) fn inlines_from_others(&self) -> bool {
        let abbreviations = (1..).map_while(|code| self.unit.abbreviations.get(code));
        abbreviations.filter(|of| of.tag() == gimli::DW_TAG_inlined_subroutine).any(|of| {
            let mut attributes = of.attributes().iter();
            attributes.any(|attribute| {
                attribute.name() == gimli::DW_AT_abstract_origin
                    && attribute.form() == gimli::DW_FORM_ref_addr
            })
        })
    }

    pub(crate) fn in_types(&self) -> bool {
        self.unit.header.section() == gimli::SectionId::DebugTypes
    }

    /// Where in this unit `die` is, if it is.
    pub(crate) fn offset_of(&self, die: DieRef) -> Option<Offset> {
        if die.file != self.file || die.types != self.in_types() {
            return None;
        }
        UnitSectionOffset(die.offset).to_unit_offset(&self.unit.header)
    }

    pub(crate) fn entry(&self, die: DieRef) -> Option<Entry<'a>> {
        self.unit.entry(self.offset_of(die)?).ok()
    }

    pub(crate) fn string(&self, value: Value<'a>) -> Option<Cow<'a, str>> {
        let slice = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(String::from_utf8_lossy(slice.slice()))
    }

    pub(crate) fn text(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<Cow<'a, str>> {
        self.string(entry.attr_value(attribute)?)
    }

    pub(crate) fn name(&self, entry: &Entry<'a>) -> Option<Cow<'a, str>> {
        self.text(entry, gimli::DW_AT_name)
    }

    /// What compiled the unit, as it calls itself.
    pub(crate) fn producer(&self) -> Option<String> {
        let root = self.unit.entry(self.unit.header.root_offset()).ok()?;
        self.text(&root, gimli::DW_AT_producer).map(Cow::into_owned)
    }

    pub(crate) fn linkage_name(&self, entry: &Entry<'a>) -> Option<Cow<'a, str>> {
        self.text(entry, gimli::DW_AT_linkage_name)
            .or_else(|| self.text(entry, gimli::DW_AT_MIPS_linkage_name))
    }

    /// The code an entry covers: empty where it has none.
    pub(crate) fn ranges(&self, entry: &Entry<'a>) -> Vec<Range<u64>> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_ranges) {
            return self.range_list(value);
        }
        let low = entry.attr_value(gimli::DW_AT_low_pc).and_then(|value| self.address(value));
        let (Some(low), Some(high)) = (low, entry.attr_value(gimli::DW_AT_high_pc)) else {
            return Vec::new();
        };
        let end = match high.udata_value() {
            Some(size) => low.checked_add(size),
            None => self.address(high),
        };
        match end {
            Some(end) if end > low && !self.is_discarded(low) => std::iter::once(low..end).collect(),
            _ => Vec::new(),
        }
    }

    fn range_list(&self, value: Value<'a>) -> Vec<Range<u64>> {
        // More ranges than any real function or unit has.
        const MOST: usize = 1 << 18;
        let Ok(Some(mut list)) = self.dwarf.attr_ranges(&self.unit, value) else { return Vec::new() };
        let mut ranges = Vec::new();
        while let Ok(Some(range)) = list.next() {
            if range.begin < range.end && !self.is_discarded(range.begin) {
                ranges.push(range.begin..range.end);
            }
            if ranges.len() >= MOST {
                break;
            }
        }
        ranges
    }

    /// Whether the linker dropped what was at this address.
    fn is_discarded(&self, address: u64) -> bool {
        address == 0 || self.unit.header.is_tombstone_address(address)
    }

    pub(crate) fn address(&self, value: Value<'a>) -> Option<u64> {
        self.dwarf.attr_address(&self.unit, value).ok().flatten()
    }

    /// The entry that an attribute refers to; `signature` finds types that stand in units of their own.
    pub(crate) fn reference(
        &self,
        value: Value<'a>,
        signature: impl Fn(u64) -> Option<DieRef>,
    ) -> Option<DieRef> {
        match value {
            AttributeValue::UnitRef(offset) => {
                offset.is_in_bounds(&self.unit.header).then(|| self.die_ref(offset))
            }
            AttributeValue::DebugInfoRef(offset) => {
                Some(DieRef { file: self.file, types: false, offset: offset.0 })
            }
            AttributeValue::DebugTypesRef(of) => signature(of.0),
            _ => None,
        }
    }

    pub(crate) fn udata(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<u64> {
        entry.attr_value(attribute)?.udata_value()
    }

    pub(crate) fn line_number(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> Option<u32> {
        let line = u32::try_from(self.udata(entry, attribute)?).ok()?;
        (line > 0).then_some(line)
    }

    /// The path of a file of the unit's table.
    pub(crate) fn file_path(&self, index: u64) -> Option<String> {
        self.path_of(self.line_program()?.header(), index)
    }

    /// The unit's line program, of which the header is read now.
    pub(crate) fn line_program(&self) -> Option<IncompleteLineProgram<Slice<'a>>> {
        let address_size = self.unit.header.address_size();
        self.dwarf.debug_line.program(self.line_offset?, address_size, None, None).ok()
    }

    pub(crate) fn path_of(&self, header: &gimli::LineProgramHeader<Slice<'a>>, index: u64) -> Option<String> {
        let file = header.file(index)?;
        let name = self.string(file.path_name())?;
        let folder = file.directory(header).and_then(|folder| self.string(folder));
        Some(paths::join(self.root.folder.as_deref().unwrap_or(""), folder.as_deref().unwrap_or(""), &name))
    }
}

pub(crate) fn flag(entry: &Entry<'_>, attribute: gimli::DwAt) -> bool {
    matches!(entry.attr_value(attribute), Some(AttributeValue::Flag(true)))
}

pub(crate) fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}
