//! Where code of ours fits: room for a jump in the program, and for what it leads to.

use std::ops::Range;

use super::{
    Functions, ReplayError, Replica,
    trampoline::{self, Site},
};
use crate::{
    process::Overlay,
    sys::{self, TraceError},
};

const LARGEST_FUNCTION: u64 = 1 << 20;

/// Where a jump fits at an address, in the program's own code.
pub(super) fn site_at(replica: &Replica, functions: Functions<'_>, address: u64) -> Option<Site> {
    site_in(&replica.memory, &replica.overlay, functions, address)
}

/// The same in any process.
pub(super) fn site_in(
    memory: &sys::ProcessMemory,
    overlay: &Overlay,
    functions: Functions<'_>,
    address: u64,
) -> Option<Site> {
    let function = functions(address).filter(|range| range.end - range.start < LARGEST_FUNCTION)?;
    let mut code = vec![0; (function.end - function.start) as usize];
    let count = memory.read_some(function.start, &mut code);
    overlay.clean(function.start, &mut code[..count]);
    trampoline::site(address, &code[..count], function.start)
}

/// Where a trampoline for a site can begin: in none of these ranges, and where nothing is mapped.
pub(super) fn free_entry(
    replica: &Replica,
    site: &Site,
    taken: &[Range<u64>],
) -> Result<Option<u64>, ReplayError> {
    let mappings = sys::mappings(replica.frozen.tid()).map_err(|_| TraceError::Gone)?;
    Ok(site.entry(|wanted| is_free(&mappings, &wanted, taken)))
}

/// The same in a program that goes on to do what nobody knows yet: its heap and its stacks have room to grow.
pub(super) fn lasting_entry(
    process: sys::Tid,
    site: &Site,
    taken: &[Range<u64>],
) -> Result<Option<u64>, ReplayError> {
    const GROWTH: u64 = 1 << 30;
    let mappings = sys::mappings(process).map_err(|_| TraceError::Gone)?;
    let mut kept = taken.to_vec();
    // The heap begins there, though it may not have begun yet.
    let heap = sys::heap_start(process).ok_or(TraceError::Gone)?;
    kept.push(heap..heap.saturating_add(GROWTH));
    for mapping in &mappings {
        match &*mapping.name {
            "[heap]" => kept.push(mapping.start..mapping.end.saturating_add(GROWTH)),
            "[stack]" => kept.push(mapping.start.saturating_sub(GROWTH)..mapping.end),
            _ => {}
        }
    }
    Ok(site.entry(|wanted| is_free(&mappings, &wanted, &kept)))
}

fn is_free(mappings: &[sys::Mapping], wanted: &Range<u64>, taken: &[Range<u64>]) -> bool {
    const LOWEST: u64 = 0x10000;
    const HIGHEST: u64 = 0x7fff_ffff_f000;
    // Some distance to the neighbours: a heap or a stack may grow.
    const DISTANCE: u64 = 64 << 10;
    let around = wanted.start.saturating_sub(DISTANCE)..wanted.end.saturating_add(DISTANCE);
    let next = mappings.partition_point(|mapping| mapping.end <= around.start);
    around.start >= LOWEST
        && around.end <= HIGHEST
        && mappings.get(next).is_none_or(|mapping| mapping.start >= around.end)
        && !taken.iter().any(|taken| taken.start < around.end && around.start < taken.end)
}

/// How many bytes a jump would take the place of at an address, if it fits there.
pub(super) fn fits(memory: &sys::ProcessMemory, functions: Functions<'_>, address: u64) -> Option<u64> {
    let function = functions(address).filter(|range| range.end - range.start < LARGEST_FUNCTION)?;
    let mut code = vec![0; (function.end - function.start) as usize];
    let count = memory.read_some(function.start, &mut code);
    trampoline::site(address, &code[..count], function.start).map(|site| site.length as u64)
}
