//! What is inlined where, and which blocks an address is in.

use super::{FunctionDie, LoadedModule};
use crate::dwarf::{DieRef, Entry, die::contains};

/// Deeper nesting is damage.
const DEEPEST: isize = 512;

/// A function at an address: the outermost, or one that is inlined in the one before.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) die: DieRef,
    pub(crate) start: u64,
    /// Whether the address is where execution comes into it: code before is not part of it.
    pub(crate) entered: bool,
    /// For an inlined one: where it was called.
    pub(crate) call: Option<CallPlace>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CallPlace {
    pub(crate) file: u64,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl LoadedModule {
    /// The functions at a file address, outermost first.
    pub(crate) fn levels_at(&self, function: &FunctionDie, address: u64) -> Vec<Level> {
        let start = function.ranges.first().map_or(0, |range| range.start);
        let mut levels = vec![Level { die: function.die, start, entered: start == address, call: None }];
        let _ = self.add_inlined(function, address, &mut levels);
        levels
    }

    fn add_inlined(&self, function: &FunctionDie, address: u64, levels: &mut Vec<Level>) -> Option<()> {
        let debug = self.debug()?;
        let view = debug.view_of(function.die)?;
        let mut entries = view.unit.entries_raw(Some(view.offset_of(function.die)?)).ok()?;
        let mut entry = Entry::null();
        entries.read_entry(&mut entry).ok()?;
        if !entry.has_children() {
            return None;
        }
        // Entries deeper than this are in something that does not cover the address.
        let mut within = 1;
        while !entries.is_empty() && entries.next_depth() > 0 && entries.next_depth() < DEEPEST {
            let depth = entries.next_depth();
            if depth > within {
                let abbreviation = entries.read_abbreviation().ok()?;
                if let Some(abbreviation) = abbreviation {
                    entries.skip_attributes(abbreviation.attributes()).ok()?;
                }
                continue;
            }
            // Out of what covered the address again: whatever else covers it was inside.
            if depth < within {
                break;
            }
            if !entries.read_entry(&mut entry).ok()? {
                continue;
            }
            let is_inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
            if !is_inlined && entry.tag() != gimli::DW_TAG_lexical_block {
                continue;
            }
            let ranges = view.ranges(&entry);
            if !contains(&ranges, address) {
                continue;
            }
            within = depth + 1;
            if is_inlined {
                let call = CallPlace {
                    file: entry.attr_value(gimli::DW_AT_call_file).map_or(0, |value| match value {
                        gimli::AttributeValue::FileIndex(index) => index,
                        value => value.udata_value().unwrap_or(0),
                    }),
                    line: view.line_number(&entry, gimli::DW_AT_call_line).unwrap_or(0),
                    column: view.line_number(&entry, gimli::DW_AT_call_column).unwrap_or(0),
                };
                let entry_pc = entry.attr_value(gimli::DW_AT_entry_pc).and_then(|value| view.address(value));
                let start = entry_pc.filter(|&pc| contains(&ranges, pc)).unwrap_or(ranges[0].start);
                // Optimised code is in pieces, and each of them is a way in.
                let entered = start == address || !contains(&ranges, address.wrapping_sub(1));
                levels.push(Level { die: view.die_ref(entry.offset()), start, entered, call: Some(call) });
            }
        }
        Some(())
    }
}
