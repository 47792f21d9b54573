//! What one pass over a unit's entries finds: where functions are, and what is inside of what.

use gimli::{DwForm, DwTag};

use super::{Entry, Offset, View};

/// The functions and scopes of a unit.
#[derive(Default)]
pub(crate) struct UnitIndex {
    /// By their start.
    functions: Vec<FunctionRange>,
    /// In the order of their start; inner ones after the outer one.
    scopes: Vec<Scope>,
    /// Whether variables move: then locations hold from the first instruction on.
    pub(crate) has_location_lists: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) entry: u32,
}

struct Scope {
    start: u32,
    end: u32,
    /// The scope around it; its own index where there is none.
    parent: u32,
}

impl UnitIndex {
    pub(crate) fn new(view: &View<'_>) -> Self {
        let mut index = Self::default();
        // What was read before damage is still good.
        let _ = index.fill(view);
        index.functions.sort_unstable_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        index
    }

    fn fill(&mut self, view: &View<'_>) -> gimli::Result<()> {
        let mut entries = view.unit.entries_raw(None)?;
        let mut open: Vec<(isize, usize)> = Vec::new();
        let mut entry = Entry::null();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Ok(here) = u32::try_from(offset.0) else { break };
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while let Some(&(scope_depth, scope)) = open.last()
                && scope_depth >= depth
            {
                self.scopes[scope].end = here;
                open.pop();
            }
            let tag = abbreviation.tag();
            if abbreviation.has_children() && is_scope(tag) {
                let parent = open.last().map_or(self.scopes.len(), |&(_, scope)| scope);
                open.push((depth, self.scopes.len()));
                self.scopes.push(Scope { start: here, end: u32::MAX, parent: parent as u32 });
            }
            if tag == gimli::DW_TAG_subprogram {
                entries.read_attributes(abbreviation.attributes(), &mut entry.attrs)?;
                let ranges = view.ranges(&entry).into_iter();
                self.functions.extend(ranges.map(|range| FunctionRange {
                    start: range.start,
                    end: range.end,
                    entry: here,
                }));
                continue;
            }
            if !self.has_location_lists
                && matches!(tag, gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter)
            {
                let moves = |form: DwForm| {
                    matches!(form, gimli::DW_FORM_sec_offset | gimli::DW_FORM_loclistx | gimli::DW_FORM_data4)
                };
                self.has_location_lists = abbreviation
                    .attributes()
                    .iter()
                    .any(|attribute| attribute.name() == gimli::DW_AT_location && moves(attribute.form()));
            }
            entries.skip_attributes(abbreviation.attributes())?;
        }
        Ok(())
    }

    /// The innermost function with code at the address.
    pub(crate) fn function_at(&self, address: u64) -> Option<FunctionRange> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let candidates = self.functions[..after].iter().rev().take(32);
        candidates.into_iter().find(|function| address < function.end).copied()
    }

    /// The scopes an entry is in, innermost first.
    pub(crate) fn scopes_of(&self, offset: Offset) -> impl Iterator<Item = Offset> + '_ {
        let mut next = u32::try_from(offset.0).ok().and_then(|offset| {
            let after = self.scopes.partition_point(|scope| scope.start < offset);
            let mut index = after.checked_sub(1)?;
            while self.scopes[index].end <= offset {
                index = self.parent(index)?;
            }
            Some(index)
        });
        std::iter::from_fn(move || {
            let index = next?;
            next = self.parent(index);
            Some(gimli::UnitOffset(self.scopes[index].start as usize))
        })
    }

    fn parent(&self, index: usize) -> Option<usize> {
        let parent = self.scopes[index].parent as usize;
        (parent < index).then_some(parent)
    }
}

fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_subprogram
    )
}
