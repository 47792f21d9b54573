//! What a unit's root entry says: read once, so that a unit can be looked at again for next to nothing.

use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAddrBase, DebugLineOffset, DebugLocListsBase, DebugRngListsBase,
    DebugStrOffsetsBase, Dwarf, DwoId, Unit, UnitHeader, UnitType,
};

use super::Slice;
use crate::types::Language;

/// The facts that all entries of a unit share.
pub(crate) struct UnitRoot {
    pub(crate) language: Language,
    /// The folder that it was compiled in.
    pub(crate) folder: Option<Arc<str>>,
    pub(crate) line_offset: Option<DebugLineOffset>,
    pub(crate) dwo_id: Option<DwoId>,
    low_pc: u64,
    str_offsets_base: DebugStrOffsetsBase,
    addr_base: DebugAddrBase,
    loclists_base: DebugLocListsBase,
    rnglists_base: DebugRngListsBase,
}

impl UnitRoot {
    /// `skeleton` is what a split unit completes: addresses are counted from there.
    pub(crate) fn read<'a>(
        dwarf: &Dwarf<Slice<'a>>,
        header: &UnitHeader<Slice<'a>>,
        abbreviations: &Arc<Abbreviations>,
        skeleton: Option<&Self>,
    ) -> Option<Self> {
        let mut root = Self::with_defaults(dwarf, header);
        let entry = header.entry(abbreviations, header.root_offset()).ok()?;
        let (mut low_pc, mut folder) = (None, None);
        for attribute in entry.attrs() {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                (gimli::DW_AT_low_pc, value) => low_pc = Some(value),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                    root.line_offset = Some(offset)
                }
                (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    root.str_offsets_base = base;
                }
                (_, AttributeValue::DebugAddrBase(base)) => root.addr_base = base,
                (_, AttributeValue::DebugLocListsBase(base)) => root.loclists_base = base,
                (_, AttributeValue::DebugRngListsBase(base)) => root.rnglists_base = base,
                (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => {
                    root.dwo_id = root.dwo_id.or(Some(id))
                }
                (gimli::DW_AT_language, AttributeValue::Language(language)) => root.language = of(language),
                _ => {}
            }
        }
        if let Some(skeleton) = skeleton {
            root.addr_base = skeleton.addr_base;
            root.low_pc = skeleton.low_pc;
            if header.version() < 5 {
                root.rnglists_base = skeleton.rnglists_base;
            }
        }
        let unit = root.unit(*header, Arc::clone(abbreviations));
        if let Some(low_pc) = low_pc.filter(|_| skeleton.is_none()) {
            root.low_pc = dwarf.attr_address(&unit, low_pc).ok().flatten().unwrap_or(0);
        }
        let folder = folder.and_then(|folder| dwarf.attr_string(&unit, folder).ok());
        root.folder = folder.map(|folder| Arc::from(&*String::from_utf8_lossy(folder.slice())));
        root.folder = root.folder.or_else(|| skeleton?.folder.clone());
        Some(root)
    }

    fn with_defaults(dwarf: &Dwarf<Slice<'_>>, header: &UnitHeader<Slice<'_>>) -> Self {
        let (encoding, kind) = (header.encoding(), dwarf.file_type);
        Self {
            language: Language::C,
            folder: None,
            line_offset: None,
            dwo_id: match header.type_() {
                UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
                _ => None,
            },
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: DebugAddrBase(0),
            loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
            rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
        }
    }

    /// The unit as gimli reads it, but for its line program, whose header is long.
    pub(crate) fn unit<'a>(
        &self,
        header: UnitHeader<Slice<'a>>,
        abbreviations: Arc<Abbreviations>,
    ) -> Unit<Slice<'a>> {
        Unit {
            header,
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: self.low_pc,
            str_offsets_base: self.str_offsets_base,
            addr_base: self.addr_base,
            loclists_base: self.loclists_base,
            rnglists_base: self.rnglists_base,
            line_program: None,
            dwo_id: self.dwo_id,
        }
    }
}

fn of(language: gimli::DwLang) -> Language {
    match language {
        gimli::DW_LANG_Rust => Language::Rust,
        gimli::DW_LANG_C_plus_plus
        | gimli::DW_LANG_C_plus_plus_03
        | gimli::DW_LANG_C_plus_plus_11
        | gimli::DW_LANG_C_plus_plus_14
        | gimli::DW_LANG_C_plus_plus_17
        | gimli::DW_LANG_C_plus_plus_20 => Language::Cpp,
        _ => Language::C,
    }
}
