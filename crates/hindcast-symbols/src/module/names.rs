//! Where names are: an index over all units, made when a name is first looked for.

use std::thread;

use crate::dwarf::{DebugInfo, DieRef, Entry, View};

/// Entries by the hash of their name. Names themselves stay in the file: candidates are looked at again.
#[derive(Default)]
pub(crate) struct NameIndex {
    by_hash: Vec<Named>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) die: DieRef,
    hash: u32,
    pub(crate) kind: NameKind,
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
}

impl NameIndex {
    /// Reads every entry of every unit once, on as many threads as help.
    pub(crate) fn new(debug: &DebugInfo) -> Self {
        let units = debug.units();
        let whole = units.last().map_or(0, |unit| unit.end);
        // Below this, starting a thread costs more than it saves.
        const WORTH_A_THREAD: usize = 1 << 20;
        let threads =
            thread::available_parallelism().map_or(1, usize::from).min(whole / WORTH_A_THREAD + 1).min(8);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let unit = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if unit >= units.len() {
                    return found;
                }
                add_unit(debug, unit, &mut found);
            }
        };
        let mut by_hash = if threads < 2 {
            work()
        } else {
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
            })
        };
        for file in debug.package_type_files() {
            add_file(debug, file, &mut by_hash);
        }
        by_hash.sort_unstable_by_key(|named: &Named| (named.hash, named.die));
        by_hash.shrink_to_fit();
        Self { by_hash }
    }

    /// What may be called `name`, which is without namespaces and generic arguments.
    pub(crate) fn candidates(&self, name: &str) -> &[Named] {
        let hash = hash(name.as_bytes());
        let first = self.by_hash.partition_point(|named| named.hash < hash);
        let last = self.by_hash.partition_point(|named| named.hash <= hash);
        &self.by_hash[first..last]
    }

    pub(crate) fn all(&self) -> &[Named] {
        &self.by_hash
    }
}

fn add_unit(debug: &DebugInfo, unit: usize, found: &mut Vec<Named>) {
    let Some((file, index)) = debug.code_unit(unit) else { return };
    if file == 0 {
        if let Some(view) = debug.view(0, index) {
            let _ = add_entries(&view, found);
        }
        return;
    }
    add_file(debug, file, found);
}

/// All units of a split file: types may stand in units of their own.
fn add_file(debug: &DebugInfo, file: u32, found: &mut Vec<Named>) {
    for index in 0..debug.units_of(file).len() {
        if let Some(view) = debug.view(file, index) {
            let _ = add_entries(&view, found);
        }
    }
}

fn add_entries(view: &View<'_>, found: &mut Vec<Named>) -> gimli::Result<()> {
    let mut entries = view.unit.entries_raw(None)?;
    let mut entry = Entry::null();
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let tag = abbreviation.tag();
        if !is_named(tag) || !may_be_kept(tag, abbreviation) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        entries.read_attributes(abbreviation.attributes(), &mut entry.attrs)?;
        entry.tag = tag;
        let Some(kind) = kind(&entry) else { continue };
        if let Some(name) = name_of(view, &entry) {
            found.push(Named { die: view.die_ref(offset), hash: hash(base_bytes(name)), kind });
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
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_unspecified_type
            | gimli::DW_TAG_typedef
    )
}

/// Whether entries of this shape can be of a kind that is looked for: it saves reading most of them.
fn may_be_kept(tag: gimli::DwTag, abbreviation: &gimli::Abbreviation) -> bool {
    let mut has_place = !matches!(tag, gimli::DW_TAG_subprogram | gimli::DW_TAG_variable);
    for attribute in abbreviation.attributes() {
        match attribute.name() {
            gimli::DW_AT_declaration => return false,
            gimli::DW_AT_low_pc | gimli::DW_AT_ranges | gimli::DW_AT_inline => has_place = true,
            gimli::DW_AT_location | gimli::DW_AT_const_value => {
                has_place |= attribute.form() != gimli::DW_FORM_sec_offset
                    && attribute.form() != gimli::DW_FORM_loclistx;
            }
            _ => {}
        }
    }
    has_place
}

fn kind(entry: &Entry<'_>) -> Option<NameKind> {
    if entry.has_attr(gimli::DW_AT_declaration) {
        return None;
    }
    match entry.tag() {
        gimli::DW_TAG_subprogram => {
            if entry.has_attr(gimli::DW_AT_low_pc) || entry.has_attr(gimli::DW_AT_ranges) {
                return Some(NameKind::Function);
            }
            entry.has_attr(gimli::DW_AT_inline).then_some(NameKind::Inlined)
        }
        gimli::DW_TAG_variable => is_static(entry).then_some(NameKind::Variable),
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

/// The entry's name, or that of what it is an instance or definition of, in the same unit.
fn name_of<'a>(view: &View<'a>, entry: &Entry<'a>) -> Option<&'a [u8]> {
    let name = |entry: &Entry<'a>| {
        let value = entry.attr_value(gimli::DW_AT_name)?;
        view.dwarf.attr_string(&view.unit, value).ok().map(|name| name.slice())
    };
    if let Some(name) = name(entry) {
        return Some(name);
    }
    let mut next = origin(entry);
    for _ in 0..4 {
        let gimli::AttributeValue::UnitRef(offset) = next? else { return None };
        let entry = view.unit.entry(offset).ok()?;
        if let Some(name) = name(&entry) {
            return Some(name);
        }
        next = origin(&entry);
    }
    None
}

fn origin<'a>(entry: &Entry<'a>) -> Option<crate::dwarf::Value<'a>> {
    entry.attr_value(gimli::DW_AT_specification).or_else(|| entry.attr_value(gimli::DW_AT_abstract_origin))
}

/// A name without its generic arguments: `f` of `f<int>`.
pub(crate) fn base_name(name: &str) -> &str {
    &name[..base_bytes(name.as_bytes()).len()]
}

fn base_bytes(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'<', name) {
        Some(at) if at > 0 && !name.starts_with(b"operator") => &name[..at],
        _ => name,
    }
}

fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
