//! All debug information of a module: its own file and the split files that complete it.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use gimli::{AttributeValue, DwoId, SectionId, UnitType};

use super::{
    DebugFile, DieRef, Sections, View,
    file::{FileKind, UnitEntry},
    index::UnitIndex,
    lines::LineTable,
    root::UnitRoot,
};
use crate::elf::ElfFile;

/// The debug information of a module.
pub(crate) struct DebugInfo {
    own: DebugFile,
    /// Where packages of split units are looked for.
    beside: PathBuf,
    package: OnceLock<Option<Arc<Sections>>>,
    /// Types that have units of their own in the package, by their row there.
    package_types: OnceLock<Vec<OnceLock<DebugFile>>>,
    addresses: OnceLock<Vec<(Range<u64>, u32)>>,
}

impl DebugInfo {
    pub(crate) fn new(elf: Arc<ElfFile>, beside: &Path) -> Self {
        let sections = Arc::new(Sections::new(elf, false));
        Self {
            own: DebugFile::new(sections, FileKind::Own, 0),
            beside: beside.to_owned(),
            package: OnceLock::new(),
            package_types: OnceLock::new(),
            addresses: OnceLock::new(),
        }
    }

    pub(crate) fn own(&self) -> &DebugFile {
        &self.own
    }

    /// The units of the module's own file.
    pub(crate) fn units(&self) -> &[UnitEntry] {
        self.own.units(&self.own)
    }

    pub(crate) fn file(&self, number: u32) -> Option<&DebugFile> {
        match number.checked_sub(1) {
            None => Some(&self.own),
            Some(skeleton) if (skeleton as usize) < self.units().len() => self.split_file(skeleton as usize),
            Some(behind) => self.package_type(behind as usize - self.units().len()),
        }
    }

    /// The skeleton that a file completes; none for the module's own file and for types of packages.
    fn skeleton(&self, file: u32) -> Option<usize> {
        file.checked_sub(1)
            .map(|skeleton| skeleton as usize)
            .filter(|&skeleton| skeleton < self.units().len())
    }

    pub(crate) fn units_of(&self, file: u32) -> &[UnitEntry] {
        self.file(file).map_or(&[], |file| file.units(&self.own))
    }

    /// A unit of a file of the module, to be read.
    pub(crate) fn view(&self, file: u32, index: usize) -> Option<View<'_>> {
        let debug_file = self.file(file)?;
        let entry = debug_file.units(&self.own).get(index)?;
        let dwarf = debug_file.dwarf(&self.own)?;
        let header = debug_file.header(&dwarf, entry)?;
        let abbreviations = debug_file.abbreviations(&dwarf, &header)?;
        let skeleton = self.skeleton(file).map(|skeleton| self.view(0, skeleton));
        let skeleton = match &skeleton {
            Some(view) => Some(view.as_ref()?),
            None => None,
        };
        let root = entry.root.get_or_init(|| {
            UnitRoot::read(&dwarf, &header, &abbreviations, skeleton.map(|skeleton| skeleton.root))
        });
        let root = root.as_ref()?;
        let mut view = View {
            unit: root.unit(header, abbreviations),
            dwarf,
            file,
            index,
            root,
            line_offset: root.line_offset,
        };
        // Split units leave lines to their skeleton.
        if let Some(skeleton) = skeleton
            && view.line_offset.is_none()
            && !entry.is_type_unit
        {
            view.dwarf.debug_line = skeleton.dwarf.debug_line;
            view.dwarf.debug_line_str = skeleton.dwarf.debug_line_str;
            view.line_offset = skeleton.line_offset;
        }
        Some(view)
    }

    /// Says that all of a unit was read, on the way through many: see [`ElfFile::passed`].
    pub(crate) fn passed(&self, view: &View<'_>) {
        if let Some(file) = self.file(view.file) {
            file.sections().passed(view.unit.header.length_including_self());
        }
    }

    /// As [`Self::passed`], where only the root of a unit and the header of its lines were read.
    pub(crate) fn passed_root(&self, view: &View<'_>) {
        self.own.sections().passed_start(2 * view.unit.header.length_including_self());
    }

    /// The unit that an entry is in.
    pub(crate) fn view_of(&self, die: DieRef) -> Option<View<'_>> {
        let index = self.file(die.file)?.unit_of(&self.own, die)?;
        self.view(die.file, index)
    }

    /// The entries of one of the module's own units, wherever they were moved to.
    pub(crate) fn code_view(&self, unit: usize) -> Option<View<'_>> {
        let (file, index) = self.code_unit(unit)?;
        self.view(file, index)
    }

    /// Which unit of which file holds the entries of one of the module's own units.
    pub(crate) fn code_unit(&self, unit: usize) -> Option<(u32, usize)> {
        let Some(split) = self.split_file(unit) else { return Some((0, unit)) };
        let index = split.units(&self.own).iter().position(|unit| !unit.is_type_unit)?;
        Some((u32::try_from(unit).ok()? + 1, index))
    }

    /// Which of the module's own units a unit belongs to.
    pub(crate) fn own_unit(&self, view: &View<'_>) -> usize {
        self.skeleton(view.file).unwrap_or(view.index)
    }

    pub(crate) fn index(&self, file: u32, unit: usize) -> Option<&UnitIndex> {
        let entry = self.units_of(file).get(unit)?;
        Some(
            entry
                .index
                .get_or_init(|| self.view(file, unit).map(|view| UnitIndex::new(&view)).unwrap_or_default()),
        )
    }

    /// The line table of one of the module's own units.
    pub(crate) fn lines(&self, unit: usize) -> Option<&LineTable> {
        let entry = self.units().get(unit)?;
        Some(
            entry
                .lines
                .get_or_init(|| self.view(0, unit).map(|view| LineTable::new(&view)).unwrap_or_default()),
        )
    }

    /// The entry that an attribute of an entry of `view` refers to.
    pub(crate) fn reference<'a>(&self, view: &View<'a>, value: super::Value<'a>) -> Option<DieRef> {
        view.reference(value, |signature| {
            let of = |file: &DebugFile| file.type_by_signature(&self.own, signature);
            of(self.file(view.file)?).or_else(|| of(&self.own)).or_else(|| self.packaged_type(signature))
        })
    }

    pub(crate) fn attribute_reference<'a>(
        &self,
        view: &View<'a>,
        entry: &super::Entry<'a>,
        attribute: gimli::DwAt,
    ) -> Option<DieRef> {
        self.reference(view, entry.attr_value(attribute)?)
    }

    /// Which of the module's own units has code at a file address.
    pub(crate) fn unit_at(&self, address: u64) -> Option<usize> {
        let map = self.addresses.get_or_init(|| self.address_map());
        let after = map.partition_point(|(range, _)| range.start <= address);
        let candidates = map[..after].iter().rev().take(16);
        candidates.into_iter().find(|(range, _)| range.contains(&address)).map(|&(_, unit)| unit as usize)
    }

    fn address_map(&self) -> Vec<(Range<u64>, u32)> {
        let mut map = Vec::new();
        let mut told = vec![false; self.units().len()];
        self.add_from_aranges(&mut map, &mut told);
        for (unit, told) in told.into_iter().enumerate() {
            if !told && !self.units()[unit].is_type_unit {
                self.add_from_root(&mut map, unit);
            }
        }
        map.sort_unstable_by_key(|(range, unit)| (range.start, range.end, *unit));
        map
    }

    fn add_from_aranges(&self, map: &mut Vec<(Range<u64>, u32)>, told: &mut [bool]) {
        let dwarf = self.own.sections().dwarf();
        let mut headers = dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let die = DieRef { file: 0, types: false, offset: header.debug_info_offset().0 };
            let Some(unit) = self.own.unit_of(&self.own, die) else { continue };
            let mut entries = header.entries();
            while let Ok(Some(entry)) = entries.next() {
                let Some(end) = entry.address().checked_add(entry.length()) else { continue };
                // At 0 is what the linker dropped.
                if entry.address() != 0 && entry.length() != 0 {
                    told[unit] = true;
                    map.push((entry.address()..end, unit as u32));
                }
            }
        }
    }

    fn add_from_root(&self, map: &mut Vec<(Range<u64>, u32)>, unit: usize) {
        let Some(view) = self.view(0, unit) else { return };
        let Ok(root) = view.unit.entry(view.unit.header.root_offset()) else { return };
        map.extend(view.ranges(&root).into_iter().map(|range| (range, unit as u32)));
        self.passed_root(&view);
    }

    /// The split file that completes a skeleton unit.
    fn split_file(&self, skeleton: usize) -> Option<&DebugFile> {
        let entry = self.units().get(skeleton)?;
        let split = entry.split.get_or_init(|| self.find_split(skeleton).map(Box::new));
        split.as_deref()
    }

    fn find_split(&self, skeleton: usize) -> Option<DebugFile> {
        let entry = self.units().get(skeleton)?;
        if entry.is_type_unit {
            return None;
        }
        let dwarf = self.own.dwarf(&self.own)?;
        let header = self.own.header(&dwarf, entry)?;
        // Most programs are not split: only then is the root entry worth reading.
        let may_be_skeleton = match header.type_() {
            UnitType::Skeleton(_) => true,
            UnitType::Compilation => header.version() < 5,
            _ => false,
        };
        if !may_be_skeleton {
            return None;
        }
        let abbreviations = self.own.abbreviations(&dwarf, &header)?;
        let root = header.entry(&abbreviations, header.root_offset()).ok()?;
        let name =
            root.attr_value(gimli::DW_AT_dwo_name).or_else(|| root.attr_value(gimli::DW_AT_GNU_dwo_name))?;
        let view = self.view(0, skeleton)?;
        let id = view.root.dwo_id?;
        let name = view.string(name)?;
        let number = u32::try_from(skeleton).ok()? + 1;
        let folder = view.string(root.attr_value(gimli::DW_AT_comp_dir).unwrap_or(AttributeValue::Udata(0)));
        self.split_beside(&name, folder.as_deref(), id, number).or_else(|| self.split_in_package(id, number))
    }

    fn split_beside(&self, name: &str, folder: Option<&str>, id: DwoId, number: u32) -> Option<DebugFile> {
        let built = Path::new(folder.unwrap_or("")).join(name);
        // Also beside the program: it may have been moved with its split files.
        let moved =
            self.beside.parent().map(|beside| beside.join(Path::new(name).file_name().unwrap_or_default()));
        [Some(built), moved].into_iter().flatten().find_map(|path| {
            let elf = ElfFile::open(&path).ok()?;
            let sections = Arc::new(Sections::new(Arc::new(elf), true));
            let file = DebugFile::new(sections, FileKind::Split, number);
            self.has_split(&file, id).then_some(file)
        })
    }

    /// Whether the file is of this build.
    fn has_split(&self, file: &DebugFile, id: DwoId) -> bool {
        let Some(dwarf) = file.dwarf(&self.own) else { return false };
        file.units(&self.own).iter().filter(|unit| !unit.is_type_unit).any(|unit| {
            let Some(header) = file.header(&dwarf, unit) else { return false };
            let Some(abbreviations) = file.abbreviations(&dwarf, &header) else { return false };
            UnitRoot::read(&dwarf, &header, &abbreviations, None).is_some_and(|root| root.dwo_id == Some(id))
        })
    }

    fn split_in_package(&self, id: DwoId, number: u32) -> Option<DebugFile> {
        let sections = Arc::clone(self.package()?);
        let file = DebugFile::new(sections, FileKind::Packaged(id), number);
        file.dwarf(&self.own)?;
        Some(file)
    }

    fn package(&self) -> Option<&Arc<Sections>> {
        let package = self.package.get_or_init(|| {
            let mut path = self.beside.clone().into_os_string();
            path.push(".dwp");
            let elf = ElfFile::open(Path::new(&path)).ok()?;
            Some(Arc::new(Sections::new(Arc::new(elf), true)))
        });
        package.as_ref()
    }

    /// The numbers of the files that the types of the package count as.
    pub(crate) fn package_type_files(&self) -> Range<u32> {
        let first = self.units().len() as u32 + 1;
        // Only a module with split units has a package.
        let used = self.package.get().is_some_and(Option::is_some);
        first..first + if used { self.package_types().len() as u32 } else { 0 }
    }

    fn package_types(&self) -> &[OnceLock<DebugFile>] {
        self.package_types.get_or_init(|| {
            let count = self.package().and_then(|sections| {
                let most = sections.bytes(SectionId::DebugTuIndex).len() / 8;
                Some((sections.package()?.tu_index.unit_count() as usize).min(most))
            });
            (0..count.unwrap_or(0)).map(|_| OnceLock::new()).collect()
        })
    }

    fn package_type(&self, at: usize) -> Option<&DebugFile> {
        let slot = self.package_types().get(at)?;
        let sections = Arc::clone(self.package()?);
        let number = u32::try_from(self.units().len() + at).ok()? + 1;
        let row = u32::try_from(at).ok()? + 1;
        Some(slot.get_or_init(|| DebugFile::new(sections, FileKind::PackagedType(row), number)))
    }

    fn packaged_type(&self, signature: u64) -> Option<DieRef> {
        let row = self.package()?.package()?.tu_index.find(signature)?;
        self.package_type((row as usize).checked_sub(1)?)?.type_by_signature(&self.own, signature)
    }
}
