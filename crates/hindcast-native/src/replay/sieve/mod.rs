//! Breakpoints that are passed a million times: code beside the program judges their conditions and counts their hits,
//! and stops a replica only where it is to stop.
//!
//! The code is a trampoline, as that of landmarks. A condition that it cannot judge, because what it compares is not in
//! memory, stops the replica in doubt: then somebody else has to judge it.

mod code;
mod end;
mod live;

use std::ops::Range;

use hindcast_core::debug::BreakpointId;
use hindcast_symbols::expression::Check;

use self::code::Built;
pub(crate) use self::{
    end::End,
    live::{Back, LiveGate, LiveSieve, VALUES},
};
use super::{
    Functions, ReplayError, Replica,
    room::{free_entry, site_at},
    trampoline::{self, ROOM, Site},
};
use crate::{
    record::{Log, redefined},
    sys::{self, TraceError},
};

/// A place where hits of a breakpoint are counted.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) address: u64,
    /// All places of one breakpoint count together.
    pub(crate) breakpoint: BreakpointId,
    /// What makes it a hit, if not every pass does.
    pub(crate) check: Option<Check>,
}

/// Gates in a replica. They must be taken out again before anybody looks.
pub(crate) struct Sieves {
    sieves: Vec<Sieve>,
    /// Of each breakpoint, where its hits are counted down, and from what.
    counters: Vec<(BreakpointId, u64, u64)>,
}

struct Sieve {
    breakpoint: BreakpointId,
    site: Site,
    entry: u64,
    original: Vec<u8>,
    built: Built,
}

/// Where a sieve has stopped a replica, which stands at the breakpoint's address again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caught {
    sieve: usize,
    pub(crate) breakpoint: BreakpointId,
    pub(crate) address: u64,
    /// Whether it is not known yet that this is a hit.
    pub(crate) in_doubt: bool,
}

impl Sieves {
    /// Puts in the gates of all breakpoints that have room for all of theirs. Each stops a replica at the hit whose number
    /// `limit` gives, counted from here; a hit where it stands now does not count. What the log maps up to the event
    /// `until` is kept free.
    pub(crate) fn place(
        replica: &mut Replica,
        functions: Functions<'_>,
        gates: &[Gate],
        limit: &dyn Fn(BreakpointId) -> Option<u64>,
        log: &Log,
        until: u64,
    ) -> Result<Self, ReplayError> {
        let taken: Vec<_> =
            log.range(replica.event(), until).flat_map(|(index, _)| redefined(log, index)).collect();
        let mut sieves = Self { sieves: Vec::new(), counters: Vec::new() };
        let mut refused = Vec::new();
        for gate in gates {
            if refused.contains(&gate.breakpoint) {
                continue;
            }
            let limit = limit(gate.breakpoint).unwrap_or(u64::MAX);
            if !sieves.add(replica, functions, gate, limit, &taken)? {
                refused.push(gate.breakpoint);
                sieves.take_out(replica, gate.breakpoint)?;
            }
        }
        Ok(sieves)
    }

    fn add(
        &mut self,
        replica: &mut Replica,
        functions: Functions<'_>,
        gate: &Gate,
        limit: u64,
        taken: &[Range<u64>],
    ) -> Result<bool, ReplayError> {
        let Some(site) = site_at(replica, functions, gate.address) else { return Ok(false) };
        let range = range_of(&site);
        let overlaps = self.sieves.iter().any(|other| meets(&range_of(&other.site), &range));
        if overlaps || replica.overlay.any_in(range.clone()) || !is_fixed(replica, &range)? {
            return Ok(false);
        }
        let Some(entry) = free_entry(replica, &site, taken)? else { return Ok(false) };
        let known = self.counters.iter().find(|(id, ..)| *id == gate.breakpoint);
        let counter = known.map_or_else(|| code::counter_of(entry), |(_, counter, _)| *counter);
        let is_first = known.is_none();
        let Some(built) = code::build(&site, entry, gate.check.as_ref(), counter) else { return Ok(false) };
        let pc = replica.pc()?;
        let stands_at = built.moved.iter().find(|(_, original)| *original == pc).map(|(copy, _)| *copy);
        if range.contains(&pc) && stands_at.is_none() {
            return Ok(false);
        }
        let page = trampoline::mapped_around(entry).start;
        let protection = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let mapped = replica.frozen.call(libc::SYS_mmap, [page, ROOM, protection, flags, u64::MAX, 0])?;
        if mapped != page as i64 {
            return Ok(false);
        }
        let write = |at: u64, bytes: &[u8]| {
            replica.memory.write(at, bytes).map_err(|_| ReplayError::Trace(TraceError::Gone))
        };
        write(entry, &built.bytes)?;
        if is_first {
            write(counter, &limit.to_le_bytes())?;
            self.counters.push((gate.breakpoint, counter, limit));
        }
        let mut original = vec![0; site.length];
        replica.memory.read_some(gate.address, &mut original);
        write(gate.address, &trampoline::jump(&site, entry))?;
        replica.traps.extend([built.stop, built.doubt]);
        replica.escapes.push(built.escape.clone());
        let copy_of = |inner: u64| built.moved.iter().find(|(_, original)| *original == inner);
        replica.detours.extend(
            site.inner_addresses().filter_map(|inner| copy_of(inner).map(|&(copy, _)| (inner, copy))),
        );
        if let Some(copy) = stands_at.filter(|_| range.contains(&pc)) {
            set_pc(replica, copy)?;
        }
        self.sieves.push(Sieve { breakpoint: gate.breakpoint, site, entry, original, built });
        Ok(true)
    }

    /// Whether a breakpoint is among them.
    pub(crate) fn has(&self, breakpoint: BreakpointId) -> bool {
        self.counters.iter().any(|(id, ..)| *id == breakpoint)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Where there is other code now than the program's own.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        self.sieves.iter().map(|sieve| range_of(&sieve.site)).collect()
    }

    /// How many hits each breakpoint had.
    pub(crate) fn hits(&self, replica: &Replica) -> Vec<(BreakpointId, u64)> {
        let left = |&(id, counter, from): &(BreakpointId, u64, u64)| {
            let mut left = [0; 8];
            replica.memory.read_some(counter, &mut left);
            (id, from.wrapping_sub(u64::from_le_bytes(left)))
        };
        self.counters.iter().map(left).collect()
    }

    /// How often all gates with a condition were passed, whether it held or not.
    pub(crate) fn passes(&self, replica: &Replica) -> u64 {
        let count = |&(_, counter, _): &(BreakpointId, u64, u64)| {
            let mut passes = [0; 8];
            replica.memory.read_some(code::passes_of(counter), &mut passes);
            u64::from_le_bytes(passes)
        };
        self.counters.iter().map(count).sum()
    }

    /// A replica that stopped at a trap of theirs is put back to where it is in the program.
    pub(crate) fn catch(&self, replica: &Replica, trap: u64) -> Result<Option<Caught>, TraceError> {
        let is_at = |sieve: &Sieve| sieve.built.stop == trap || sieve.built.doubt == trap;
        let Some(index) = self.sieves.iter().position(is_at) else { return Ok(None) };
        let sieve = &self.sieves[index];
        set_pc(replica, sieve.site.address)?;
        Ok(Some(Caught {
            sieve: index,
            breakpoint: sieve.breakpoint,
            address: sieve.site.address,
            in_doubt: sieve.built.doubt == trap,
        }))
    }

    /// Counts what was in doubt and is a hit. Says whether it is the one to stop at.
    pub(crate) fn count(&self, replica: &Replica, caught: &Caught) -> Result<bool, TraceError> {
        let counter = self.counters.iter().find(|(id, ..)| *id == caught.breakpoint);
        let Some(&(_, counter, _)) = counter else { return Ok(false) };
        let mut left = [0; 8];
        replica.memory.read_some(counter, &mut left);
        let left = u64::from_le_bytes(left).wrapping_sub(1);
        replica.memory.write(counter, &left.to_le_bytes()).map_err(|_| TraceError::Gone)?;
        Ok(left == 0)
    }

    /// Lets a replica go on from where it was caught.
    pub(crate) fn leave(&self, replica: &Replica, caught: &Caught) -> Result<(), TraceError> {
        set_pc(replica, self.sieves[caught.sieve].built.resume)
    }

    /// Takes all out. A replica must stand in the program's own code.
    pub(crate) fn remove(mut self, replica: &mut Replica) -> Result<(), ReplayError> {
        while let Some((breakpoint, ..)) = self.counters.pop() {
            self.take_out(replica, breakpoint)?;
        }
        Ok(())
    }

    fn take_out(&mut self, replica: &mut Replica, breakpoint: BreakpointId) -> Result<(), ReplayError> {
        self.counters.retain(|(id, ..)| *id != breakpoint);
        let (gone, kept) =
            std::mem::take(&mut self.sieves).into_iter().partition(|sieve| sieve.breakpoint == breakpoint);
        self.sieves = kept;
        for Sieve { site, entry, original, built, .. } in Vec::<Sieve>::from_iter(gone) {
            let pc = replica.pc()?;
            if let Some(&(_, original)) = built.moved.iter().find(|(copy, _)| *copy == pc) {
                set_pc(replica, original)?;
            }
            replica.traps.retain(|trap| ![built.stop, built.doubt].contains(trap));
            replica.escapes.retain(|escape| *escape != built.escape);
            let inner: Vec<_> = site.inner_addresses().collect();
            replica.detours.retain(|(address, _)| !inner.contains(address));
            let gone = |_| ReplayError::Trace(TraceError::Gone);
            replica.memory.write(site.address, &original).map_err(gone)?;
            let page = trampoline::mapped_around(entry).start;
            replica.frozen.call(libc::SYS_munmap, [page, ROOM, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

fn set_pc(replica: &Replica, address: u64) -> Result<(), TraceError> {
    let mut registers = replica.registers()?;
    registers.set("rip", address);
    replica.frozen.set_registers(&registers)
}

fn range_of(site: &Site) -> Range<u64> {
    site.address..site.address + site.length as u64
}

fn meets(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Whether a landmark of so many bytes at an address leaves the sieves as they are: beside them, or before one of them.
pub(super) fn is_clear(ranges: &[Range<u64>], address: u64, length: u64) -> bool {
    let wanted = address..address + length;
    ranges.iter().all(|range| range.start == address || !meets(range, &wanted))
}

/// Whether code cannot be written by the program: what it can write is compared when states are.
fn is_fixed(replica: &Replica, range: &Range<u64>) -> Result<bool, TraceError> {
    let mappings = sys::mappings(replica.frozen.tid()).map_err(|_| TraceError::Gone)?;
    let around = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&range.start));
    Ok(around.is_some_and(|mapping| mapping.permissions.starts_with("r-x") && range.end <= mapping.end))
}
