//! Where names are: which units have which, found out when a name is first looked for.

use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::name_key::NameKey;
use crate::dwarf::{DebugInfo, DieRef, Entry, View};

/// Units by the names in them.
///
/// Entries themselves are found by reading the few units again that have the name: remembering all of
/// them would take as much memory as the debug information.
pub(crate) struct NameIndex {
    /// Sorted by name, then by chapter.
    mentions: Vec<Mention>,
}

/// That a chapter has a name, and for which kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    name: NameKey,
    /// Its number, and below that a bit for each kind.
    chapter_and_kinds: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) die: DieRef,
    pub(crate) kind: NameKind,
    name: NameKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// A function with code.
    Function,
    /// A function that is inlined somewhere.
    Inlined,
    /// A type's definition.
    Type,
    /// A variable that is always at the same place.
    Variable,
    /// A named number of an enumeration.
    Enumerator,
    /// A variable outside of functions that the optimiser left no place for.
    Vanished,
}

/// What is looked for together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameClass {
    Code,
    Types,
    Variables,
    Enumerators,
    Vanished,
}

impl NameClass {
    const BITS: u32 = 5;

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl NameKind {
    fn class(self) -> NameClass {
        match self {
            Self::Function | Self::Inlined => NameClass::Code,
            Self::Type => NameClass::Types,
            Self::Variable => NameClass::Variables,
            Self::Enumerator => NameClass::Enumerators,
            Self::Vanished => NameClass::Vanished,
        }
    }
}

impl NameIndex {
    /// Reads every entry of every unit once, on as many threads as help.
    pub(crate) fn new(debug: &DebugInfo) -> Self {
        // Below this, starting a thread costs more than it saves.
        const WORTH_A_THREAD: usize = 1 << 20;
        let whole = debug.units().last().map_or(0, |unit| unit.end);
        let threads =
            thread::available_parallelism().map_or(1, usize::from).min(whole / WORTH_A_THREAD + 1).min(8);
        let next = AtomicUsize::new(0);
        // Which types a package has is known only when all units were looked at.
        let units = debug.units().len();
        let work = || {
            let mut mentions = Vec::new();
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                if unit >= units {
                    return mentions;
                }
                add_mentions(debug, unit, &mut mentions);
            }
        };
        let mut mentions = if threads < 2 {
            work()
        } else {
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
            })
        };
        for chapter in units..chapters(debug) {
            add_mentions(debug, chapter, &mut mentions);
        }
        mentions.sort_unstable();
        mentions.shrink_to_fit();
        Self { mentions }
    }

    /// What may be called `name`, which is without namespaces and generic arguments.
    pub(crate) fn candidates<'a>(
        &'a self,
        debug: &'a DebugInfo,
        name: &str,
        classes: &[NameClass],
    ) -> impl Iterator<Item = Named> + use<'a> {
        let wanted = classes.iter().fold(0, |bits, class| bits | class.bit());
        let (mut chapters, mut names) = (BTreeSet::new(), HashSet::new());
        NameKey::each_of(debug, name, |key| {
            let first = self.mentions.partition_point(|mention| mention.name < key);
            let mentions = self.mentions[first..].iter().take_while(|mention| mention.name == key);
            for mention in mentions.filter(|mention| mention.chapter_and_kinds & wanted != 0) {
                names.insert(key);
                chapters.insert((mention.chapter_and_kinds >> NameClass::BITS) as usize);
            }
        });
        chapters.into_iter().flat_map(move |chapter| {
            let mut found = Vec::new();
            add_chapter(debug, chapter, &mut found);
            found.retain(|named| named.kind.class().bit() & wanted != 0 && names.contains(&named.name));
            found
        })
    }
}

/// Everything with a name. Reads all there is.
pub(crate) fn all_named(debug: &DebugInfo) -> impl Iterator<Item = Named> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        // Asked for again each time: packages come to light while units are read.
        let mut found = Vec::new();
        while next < chapters(debug) && found.is_empty() {
            add_chapter(debug, next, &mut found);
            next += 1;
        }
        (!found.is_empty()).then_some(found)
    })
    .flatten()
}

/// A module's own units are its first chapters, each with the split file that completes it; the
/// types of its package follow.
fn chapters(debug: &DebugInfo) -> usize {
    debug.units().len() + debug.package_type_files().len()
}

fn add_mentions(debug: &DebugInfo, chapter: usize, mentions: &mut Vec<Mention>) {
    let mut found = Vec::new();
    add_chapter(debug, chapter, &mut found);
    let Ok(number) = u32::try_from(chapter) else { return };
    let chapter = number << NameClass::BITS;
    found.sort_unstable_by_key(|named| named.name);
    mentions.extend(found.chunk_by(|one, other| one.name == other.name).map(|same| Mention {
        name: same[0].name,
        chapter_and_kinds: same.iter().fold(chapter, |bits, named| bits | named.kind.class().bit()),
    }));
}

fn add_chapter(debug: &DebugInfo, chapter: usize, found: &mut Vec<Named>) {
    let units = debug.units().len();
    match chapter.checked_sub(units) {
        None => add_unit(debug, chapter, found),
        Some(behind) => {
            if let Some(file) = debug.package_type_files().nth(behind) {
                add_file(debug, file, found);
            }
        }
    }
}

fn add_unit(debug: &DebugInfo, unit: usize, found: &mut Vec<Named>) {
    let Some((file, index)) = debug.code_unit(unit) else { return };
    if file == 0 {
        if let Some(view) = debug.view(0, index) {
            let _ = add_entries(debug, &view, found);
            debug.passed(&view);
        }
        return;
    }
    add_file(debug, file, found);
}

/// All units of a split file: types may stand in units of their own.
fn add_file(debug: &DebugInfo, file: u32, found: &mut Vec<Named>) {
    for index in 0..debug.units_of(file).len() {
        if let Some(view) = debug.view(file, index) {
            let _ = add_entries(debug, &view, found);
        }
    }
}

fn add_entries<'a>(debug: &'a DebugInfo, view: &View<'a>, found: &mut Vec<Named>) -> gimli::Result<()> {
    let mut entries = view.unit.entries_raw(None)?;
    let mut entry = Entry::null();
    let mut origins = Origins { debug, view, other: None };
    // The depth of the function that the entries are in.
    let mut function = None;
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let tag = abbreviation.tag();
        if function.is_some_and(|function| depth <= function) {
            function = None;
        }
        let is_outside = function.is_none();
        if tag == gimli::DW_TAG_subprogram && is_outside {
            function = Some(depth);
        }
        if !is_named(tag) || !may_be_kept(abbreviation, is_outside) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        entries.read_attributes(abbreviation.attributes(), &mut entry.attrs)?;
        entry.tag = tag;
        let Some(kind) = kind(&entry, is_outside) else { continue };
        if let Some(name) = origins.name_of(&entry) {
            found.push(Named { die: view.die_ref(offset), kind, name });
        }
    }
    Ok(())
}

fn is_named(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_subprogram
            | gimli::DW_TAG_variable
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_enumerator
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_unspecified_type
            | gimli::DW_TAG_typedef
    )
}

/// Whether entries of this shape can be of a kind that is looked for: it saves reading most of them.
fn may_be_kept(abbreviation: &gimli::Abbreviation, is_outside: bool) -> bool {
    let (mut has_place, mut moves, mut is_own) = (false, false, true);
    let (mut is_declared, mut is_constant) = (false, false);
    for attribute in abbreviation.attributes() {
        is_constant |= attribute.name() == gimli::DW_AT_const_value;
        match attribute.name() {
            gimli::DW_AT_declaration => is_declared = true,
            gimli::DW_AT_low_pc | gimli::DW_AT_ranges | gimli::DW_AT_inline => has_place = true,
            gimli::DW_AT_location | gimli::DW_AT_const_value => {
                moves = matches!(attribute.form(), gimli::DW_FORM_sec_offset | gimli::DW_FORM_loclistx);
                has_place |= !moves;
            }
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => is_own = false,
            _ => {}
        }
    }
    match abbreviation.tag() {
        // What is declared is told elsewhere, except a constant: its value is all there is of it.
        tag if is_declared => tag == gimli::DW_TAG_variable && is_constant,
        gimli::DW_TAG_subprogram => has_place || is_own,
        gimli::DW_TAG_variable => has_place || is_own && is_outside && !moves,
        _ => true,
    }
}

fn kind(entry: &Entry<'_>, is_outside: bool) -> Option<NameKind> {
    if entry.has_attr(gimli::DW_AT_declaration) {
        let is_constant = entry.tag() == gimli::DW_TAG_variable && entry.has_attr(gimli::DW_AT_const_value);
        return is_constant.then_some(NameKind::Variable);
    }
    let is_own = origin(entry).is_none();
    match entry.tag() {
        gimli::DW_TAG_subprogram => {
            if entry.has_attr(gimli::DW_AT_low_pc) || entry.has_attr(gimli::DW_AT_ranges) {
                return Some(NameKind::Function);
            }
            // Link-time optimisation inlines what was compiled without knowing of it.
            (is_own || entry.has_attr(gimli::DW_AT_inline)).then_some(NameKind::Inlined)
        }
        gimli::DW_TAG_variable => {
            let has_location = entry.has_attr(gimli::DW_AT_location);
            let is_constant = entry.has_attr(gimli::DW_AT_const_value) && !has_location;
            if is_constant || is_static(entry) {
                return Some(NameKind::Variable);
            }
            (is_outside && is_own && !has_location).then_some(NameKind::Vanished)
        }
        gimli::DW_TAG_enumerator => Some(NameKind::Enumerator),
        _ => Some(NameKind::Type),
    }
}

/// Whether a variable has one place for the whole run, or one in each thread.
pub(crate) fn is_static(entry: &Entry<'_>) -> bool {
    let first = match entry.attr_value(gimli::DW_AT_location) {
        Some(gimli::AttributeValue::Exprloc(expression)) => {
            expression.0.slice().first().copied().unwrap_or(0)
        }
        Some(_) => return false,
        None => return entry.has_attr(gimli::DW_AT_const_value) && entry.has_attr(gimli::DW_AT_external),
    };
    let first = gimli::DwOp(first);
    matches!(
        first,
        gimli::DW_OP_addr
            | gimli::DW_OP_addrx
            | gimli::DW_OP_GNU_addr_index
            | gimli::DW_OP_const8u
            | gimli::DW_OP_const4u
            | gimli::DW_OP_constx
            | gimli::DW_OP_GNU_const_index
    )
}

/// Finds the names of a unit's entries, also where they stand in another unit.
struct Origins<'v, 'a> {
    debug: &'a DebugInfo,
    view: &'v View<'a>,
    /// The other unit that was last looked into: origins of neighbours are neighbours.
    other: Option<View<'a>>,
}

impl<'a> Origins<'_, 'a> {
    /// The entry's name, or that of what it is an instance or definition of.
    fn name_of(&mut self, entry: &Entry<'a>) -> Option<NameKey> {
        if let Some(name) = own_name(self.view, entry) {
            return Some(name);
        }
        let mut next = self.debug.reference(self.view, origin(entry)?)?;
        for _ in 0..4 {
            if self.view.offset_of(next).is_none()
                && self.other.as_ref().is_none_or(|other| other.offset_of(next).is_none())
            {
                self.other = Some(self.debug.view_of(next)?);
            }
            let is_here = self.view.offset_of(next).is_some();
            let view = if is_here { self.view } else { self.other.as_ref()? };
            let entry = view.entry(next)?;
            if let Some(name) = own_name(view, &entry) {
                return Some(name);
            }
            next = self.debug.reference(view, origin(&entry)?)?;
        }
        None
    }
}

fn own_name<'a>(view: &View<'a>, entry: &Entry<'a>) -> Option<NameKey> {
    NameKey::of(view, entry.attr_value(gimli::DW_AT_name)?)
}

fn origin<'a>(entry: &Entry<'a>) -> Option<crate::dwarf::Value<'a>> {
    entry.attr_value(gimli::DW_AT_specification).or_else(|| entry.attr_value(gimli::DW_AT_abstract_origin))
}
