//! Breakpoint instructions, as an overlay over the program's own code: whoever reads the program's
//! memory through [`CleanMemory`] never sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use hindcast_symbols::{Memory, Unreadable};

use crate::{
    record::random_numbers,
    sys::{Keeper, ProcessMemory, SYSCALL},
};

const BREAKPOINT: u8 = 0xcc;
const LONGEST_PATCH: u64 = 20;

/// The places whose first byte is replaced.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    sites: BTreeMap<u64, Site>,
    /// Whether the sites are out of the memory for a while.
    lifted: bool,
    /// Takes them out when we are killed.
    keeper: Option<Keeper>,
    /// Where instructions for random numbers gave way to one that traps.
    random_numbers: BTreeSet<u64>,
    /// Code that gave way to other code for as long as the process is recorded, by its first byte.
    patches: BTreeMap<u64, Patch>,
    /// How many there ever were.
    patch_count: u64,
    /// Breakpoints that gave way to a jump for as long as the process runs.
    replaced: BTreeMap<u64, Site>,
}

#[derive(Debug, Clone)]
struct Patch {
    original: Box<[u8]>,
    changed: Box<[u8]>,
    /// How many there were before it.
    order: u64,
}

#[derive(Debug, Clone)]
struct Site {
    original: u8,
    /// How many want it there.
    users: u32,
    /// The keeper's name for it.
    name: Option<usize>,
}

impl Overlay {
    /// From now on they are taken out when we are killed.
    pub(super) fn keep(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }

    pub(super) fn keeper(&self) -> Option<&Keeper> {
        self.keeper.as_ref()
    }

    /// From now on instructions that were taken out here are shown as they were.
    pub(super) fn hide_random_numbers(&mut self, places: &BTreeSet<u64>) {
        if self.random_numbers.len() != places.len() {
            self.random_numbers.clone_from(places);
        }
    }

    /// Puts a breakpoint at `address`, or counts one more user of the one that is there.
    pub(crate) fn insert(&mut self, memory: &ProcessMemory, address: u64) -> Result<(), Unreadable> {
        if let Some(site) = self.sites.get_mut(&address) {
            site.users += 1;
            return Ok(());
        }
        self.take_out_patches(memory, address..address + 1);
        let mut original = [0];
        memory.read(address, &mut original)?;
        let name = self.keeper.as_mut().and_then(|keeper| keeper.note(address, original[0]));
        if !self.lifted {
            let written = memory.write(address, &[BREAKPOINT]);
            written.inspect_err(|_| self.forget(name))?;
        }
        self.sites.insert(address, Site { original: original[0], users: 1, name });
        Ok(())
    }

    /// Puts other code in the place of some, where [`can_patch`](Self::can_patch) is true.
    pub(crate) fn patch(
        &mut self,
        memory: &ProcessMemory,
        address: u64,
        code: &[u8],
    ) -> Result<(), Unreadable> {
        let mut original = vec![0; code.len()];
        memory.read(address, &mut original)?;
        memory.write(address, code)?;
        let order = self.patch_count;
        self.patch_count += 1;
        self.patches.insert(address, Patch { original: original.into(), changed: code.into(), order });
        Ok(())
    }

    /// Puts a jump in the place of a breakpoint that only one wants, if nothing else of ours is there. False where it is.
    pub(crate) fn replace(&mut self, memory: &ProcessMemory, address: u64, jump: &[u8]) -> bool {
        let end = address + jump.len() as u64;
        let others = self.sites.range(address + 1..end).next().is_some();
        let begin = address.saturating_sub(LONGEST_PATCH);
        let reaches = |(at, patch): (&u64, &Patch)| at + patch.original.len() as u64 > address;
        let patched = self.patches.range(begin..end).any(reaches);
        if self.lifted || others || patched || self.users(address) != 1 {
            return false;
        }
        let Some(site) = self.sites.remove(&address) else { return false };
        let is_written =
            memory.write(address, &[site.original]).is_ok() && self.patch(memory, address, jump).is_ok();
        if is_written {
            self.replaced.insert(address, site);
        } else {
            let _ = memory.write(address, &[BREAKPOINT]);
            self.sites.insert(address, site);
        }
        is_written
    }

    /// Ends [`replace`](Self::replace). Where the code is gone meanwhile, the breakpoint is only known.
    pub(crate) fn put_back(&mut self, memory: &ProcessMemory, address: u64) {
        let Some(site) = self.replaced.remove(&address) else { return };
        if self.patches.contains_key(&address) {
            self.take_out_patches(memory, address..address + 1);
            if !self.lifted {
                let _ = memory.write(address, &[BREAKPOINT]);
            }
        }
        self.sites.insert(address, site);
    }

    /// As they were made: one may lead to an earlier one.
    fn patches_in_order(&self) -> Vec<(&u64, &Patch)> {
        let mut patches: Vec<_> = self.patches.iter().collect();
        patches.sort_by_key(|(_, patch)| patch.order);
        patches
    }

    /// Whether code can give way to other code here.
    pub(crate) fn can_patch(&self, range: Range<u64>) -> bool {
        !self.lifted && !self.any_in(range)
    }

    /// The end of the last code that gave way in a range.
    pub(crate) fn patched_up_to(&self, range: &Range<u64>) -> Option<u64> {
        let (address, patch) = self.patches.range(range.clone()).next_back()?;
        Some(address + patch.original.len() as u64)
    }

    /// Gives the program back its own code where it gave way.
    pub(crate) fn take_out_patches(&mut self, memory: &ProcessMemory, range: Range<u64>) {
        let begin = range.start.saturating_sub(LONGEST_PATCH);
        let found: Vec<_> = self.patches.range(begin..range.end).map(|(&address, _)| address).collect();
        for address in found {
            let reaches = |patch: &Patch| address + patch.original.len() as u64 > range.start;
            if self.patches.get(&address).is_some_and(reaches)
                && let Some(patch) = self.patches.remove(&address)
            {
                let _ = memory.write(address, &patch.original);
            }
        }
    }

    /// The program makes its system calls itself again. What led to the page stays between its functions, where nobody comes
    /// but who is on the way.
    pub(crate) fn forget_calls(&mut self) {
        self.patches.retain(|_, patch| *patch.original != SYSCALL);
    }

    /// Forgets code that gave way in memory that is gone.
    pub(crate) fn forget_patches(&mut self, range: Range<u64>) {
        self.patches.retain(|address, _| !range.contains(address));
    }

    /// Counts a user of a breakpoint in memory that is gone: those who [`adopt`](Self::adopt) it put it in.
    pub(crate) fn expect(&mut self, address: u64) {
        self.sites.entry(address).or_insert(Site { original: 0, users: 0, name: None }).users += 1;
    }

    /// Counts one user less, and takes the breakpoint out when none is left.
    pub(crate) fn remove(&mut self, memory: &ProcessMemory, address: u64) {
        let Some(site) = self.sites.get_mut(&address) else { return };
        site.users -= 1;
        if site.users == 0 {
            let (original, name) = (site.original, site.name);
            self.sites.remove(&address);
            if !self.lifted {
                // Fails only where the library was unloaded, and the breakpoint with it.
                let _ = memory.write(address, &[original]);
            }
            self.forget(name);
        }
    }

    fn forget(&mut self, name: Option<usize>) {
        if let (Some(keeper), Some(name)) = (&mut self.keeper, name) {
            keeper.forget(name);
        }
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.sites.contains_key(&address)
    }

    /// How many want a breakpoint at `address`.
    pub(crate) fn users(&self, address: u64) -> u32 {
        self.sites.get(&address).map_or(0, |site| site.users)
    }

    pub(crate) fn addresses(&self) -> Vec<u64> {
        self.sites.keys().copied().collect()
    }

    fn any_patch_in(&self, range: Range<u64>) -> bool {
        self.patches.range(range).next().is_some()
    }

    pub(crate) fn any_in(&self, range: Range<u64>) -> bool {
        self.sites.range(range).next().is_some()
    }

    /// Takes over what another process's memory has, as far as there is such code here.
    pub(crate) fn adopt(&mut self, memory: &ProcessMemory, other: &Self) {
        self.random_numbers.extend(&other.random_numbers);
        let gone: Vec<_> = self.sites.keys().copied().filter(|at| !other.contains(*at)).collect();
        for address in gone {
            if let Some(site) = self.sites.remove(&address) {
                let _ = memory.write(address, &[site.original]);
                self.forget(site.name);
            }
        }
        for (&address, site) in &other.sites {
            if self.insert(memory, address).is_ok()
                && let Some(own) = self.sites.get_mut(&address)
            {
                own.users = site.users;
            }
        }
    }

    /// Remembers what another process's memory has, where there is no memory to put it into any more.
    pub(crate) fn mirror(&mut self, other: &Self) {
        self.sites.clone_from(&other.sites);
        self.random_numbers.extend(&other.random_numbers);
    }

    /// Forgets everything: the memory is gone, as after an exec.
    pub(crate) fn clear(&mut self) {
        for site in std::mem::take(&mut self.sites).into_values() {
            self.forget(site.name);
        }
        self.patches.clear();
        self.replaced.clear();
        self.lifted = false;
    }

    /// Takes one site out of the memory for a moment.
    pub(crate) fn lift(&self, memory: &ProcessMemory, address: u64) {
        if let Some(site) = self.sites.get(&address) {
            let _ = memory.write(address, &[site.original]);
        }
    }

    /// Puts it back.
    pub(crate) fn lower(&self, memory: &ProcessMemory, address: u64) {
        if self.sites.contains_key(&address) && !self.lifted {
            let _ = memory.write(address, &[BREAKPOINT]);
        }
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// Takes all out, until [`lower_all`](Self::lower_all).
    pub(crate) fn lift_all(&mut self, memory: &ProcessMemory) {
        self.write_originals(memory);
        self.lifted = true;
    }

    pub(crate) fn lower_all(&mut self, memory: &ProcessMemory) {
        self.lifted = false;
        for (&address, patch) in self.patches_in_order() {
            let _ = memory.write(address, &patch.changed);
        }
        for &address in self.sites.keys() {
            let _ = memory.write(address, &[BREAKPOINT]);
        }
    }

    /// Writes the program's own bytes, here or into a copy of the memory.
    pub(crate) fn write_originals(&self, memory: &ProcessMemory) {
        for (&address, patch) in self.patches_in_order().into_iter().rev() {
            let _ = memory.write(address, &patch.original);
        }
        for (&address, site) in &self.sites {
            let _ = memory.write(address, &[site.original]);
        }
    }

    /// Puts the program's own bytes in their places, in bytes that were read at `address`.
    pub(crate) fn clean(&self, address: u64, bytes: &mut [u8]) {
        let end = address.saturating_add(bytes.len() as u64);
        for (&at, patch) in self.patches.range(address.saturating_sub(LONGEST_PATCH)..end) {
            for (place, byte) in (at..).zip(&patch.original) {
                if (address..end).contains(&place) {
                    bytes[(place - address) as usize] = *byte;
                }
            }
        }
        for (&at, site) in self.sites.range(address..end) {
            bytes[(at - address) as usize] = site.original;
        }
    }
}

/// A process's memory as the program wrote it: without our breakpoints, and with its instructions for random numbers.
pub(crate) struct CleanMemory<'a> {
    pub(crate) memory: &'a ProcessMemory,
    pub(crate) overlay: &'a Overlay,
}

impl CleanMemory<'_> {
    /// Reads as much as there is.
    pub(crate) fn read_some(&self, address: u64, buffer: &mut [u8]) -> usize {
        let count = self.memory.read_some(address, buffer);
        self.clean(address, &mut buffer[..count]);
        count
    }

    fn clean(&self, address: u64, bytes: &mut [u8]) {
        self.overlay.clean(address, bytes);
        let end = address.saturating_add(bytes.len() as u64);
        random_numbers::clean(self.overlay.random_numbers.range(address..end), address, bytes);
    }

    /// Writes without disturbing the breakpoints among the bytes.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Unreadable> {
        // Data and breakpoints do not share bytes in any program that works; refuse to guess.
        let end = address.saturating_add(bytes.len() as u64);
        if self.overlay.any_in(address..end) || self.overlay.any_patch_in(address..end) {
            return Err(Unreadable(address));
        }
        self.memory.write(address, bytes)
    }
}

impl Memory for CleanMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.memory.read(address, buffer)?;
        self.clean(address, buffer);
        Ok(())
    }
}
