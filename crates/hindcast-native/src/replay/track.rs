//! Which way a program goes, summed up without stopping it: at each post, code of ours mixes the post's number into a sum
//! and counts down. So the sum tells which posts were passed in which order, however many they were.
//!
//! The code is a trampoline, as that of landmarks and sieves, and leaves the flags alone. A post without room for a jump is
//! a breakpoint instruction, and whoever stops there does the same by hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    ReplayError, Replica,
    trampoline::{self, Code, RCX, RDX, ROOM, Site, mapped_around},
};
use crate::{
    record::{Log, redefined},
    sys::{self, TraceError},
};

/// Posts by their addresses, with their numbers.
pub(crate) type Posts = BTreeMap<u64, u32>;

/// The sum over the posts that were passed, and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sum: u64,
    pub(crate) passes: u64,
}

const FACTOR: u64 = 5;
/// Times the factor it is one.
const INVERSE: u64 = 0xcccc_cccc_cccc_cccd;

impl Tally {
    pub(crate) fn pass(&mut self, post: u32) {
        self.sum = self.sum.wrapping_mul(FACTOR).wrapping_add(extended(post));
        self.passes += 1;
    }

    /// Takes back the last pass.
    pub(crate) fn take_back(&mut self, post: u32) {
        self.sum = self.sum.wrapping_sub(extended(post)).wrapping_mul(INVERSE);
        self.passes -= 1;
    }
}

/// As the processor adds it to an address.
fn extended(post: u32) -> u64 {
    i64::from(post.cast_signed()).cast_unsigned()
}

/// Where jumps to our code are put in: found out once, and the same in all replicas.
pub(crate) struct Plan {
    posts: Posts,
    jumps: Vec<Jump>,
    /// Where the sum is kept, and behind it how many passes are left.
    tally: u64,
}

struct Jump {
    site: Site,
    entry: u64,
    bytes: Vec<u8>,
    /// Where it stops because it has counted to the end; everything is as it was at the site.
    stop: u64,
    /// Where it goes on from there.
    resume: u64,
    /// Addresses of the instructions that gave way, and of what follows them: here, and in the program.
    moved: Vec<(u64, u64)>,
    /// What was there before.
    original: Vec<u8>,
}

/// Some distance to what is mapped: a heap or a stack may grow.
const DISTANCE: u64 = 64 << 10;
const LOWEST: u64 = 0x10000;
const HIGHEST: u64 = 0x7fff_ffff_f000;

impl Plan {
    /// A plan for replicas of the same program that go on to the end of the log. Sites are in the order of addresses; posts
    /// without one stop the program.
    pub(crate) fn new(
        replica: &Replica,
        posts: Posts,
        sites: Vec<Site>,
        log: &Log,
    ) -> Result<Self, ReplayError> {
        let mappings = sys::mappings(replica.frozen.tid()).map_err(|_| TraceError::Gone)?;
        let taken = log.range(0, log.len()).flat_map(|(index, _)| redefined(log, index));
        let occupied =
            merged(mappings.iter().map(|mapping| mapping.start..mapping.end).chain(taken).collect());
        let is_fixed = |range: &Range<u64>| {
            let around = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&range.start));
            around.is_some_and(|mapping| mapping.permissions.starts_with("r-x") && range.end <= mapping.end)
        };
        let mut rooms: BTreeSet<u64> = BTreeSet::new();
        let mut plan = Self { posts: BTreeMap::new(), jumps: Vec::new(), tally: 0 };
        let mut end = 0;
        for site in sites {
            let (address, range) = (site.address, site.address..site.address + site.length as u64);
            let Some(&number) = posts.get(&address).filter(|_| address >= end) else { continue };
            // A jump may not take the place of the next post.
            if posts.range(address + 1..range.end).next().is_some() || !is_fixed(&range) {
                continue;
            }
            let entry = site.entry(|wanted| {
                let around = wanted.start.saturating_sub(DISTANCE)..wanted.end.saturating_add(DISTANCE);
                let next = occupied.partition_point(|taken| taken.end <= around.start);
                around.start >= LOWEST
                    && around.end <= HIGHEST
                    && occupied.get(next).is_none_or(|taken| taken.start >= around.end)
                    && rooms.range(wanted.start.saturating_sub(ROOM - 1)..wanted.end).next().is_none()
            });
            let Some(entry) = entry else { continue };
            let room = mapped_around(entry);
            if plan.jumps.is_empty() {
                plan.tally = room.end - TALLY;
            }
            let mut original = vec![0; site.length];
            let count = replica.memory.read_some(address, &mut original);
            let built = build(&site, entry, number, plan.tally).filter(|_| count == site.length);
            let Some((bytes, stop, resume, moved)) = built else { continue };
            rooms.insert(room.start);
            end = range.end;
            plan.jumps.push(Jump { site, entry, bytes, stop, resume, moved, original });
        }
        plan.posts = posts;
        Ok(plan)
    }

    pub(crate) fn posts(&self) -> &Posts {
        &self.posts
    }
}

/// The same in the order of addresses, without overlaps.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// Posts in a replica. They must be taken out again before anybody looks.
pub(crate) struct Track<'p> {
    plan: &'p Plan,
    /// Those of the plan's jumps that are in place.
    placed: Vec<usize>,
    /// Where there is a breakpoint instruction instead.
    stopping: BTreeSet<u64>,
    /// The countdown as it was last set, and the tally then.
    set: (u64, Tally),
    /// What is counted where no jump is in place.
    by_hand: Option<Tally>,
}

impl<'p> Track<'p> {
    /// Puts the posts in. A replica that stands at one has passed it with that. It stops when `left` more were passed, each
    /// of which is mixed into the tally.
    pub(crate) fn place(
        plan: &'p Plan,
        replica: &mut Replica,
        (tally, left): (Tally, u64),
        with_jumps: bool,
    ) -> Result<Self, ReplayError> {
        let mut track =
            Self { plan, placed: Vec::new(), stopping: BTreeSet::new(), set: (left, tally), by_hand: None };
        let mut is_open = with_jumps;
        for (index, jump) in plan.jumps.iter().enumerate() {
            if !is_open {
                break;
            }
            let is_placed = put_in(replica, jump)?;
            if is_placed {
                track.placed.push(index);
            }
            // Without the first one, there is no place for the sum.
            is_open = index > 0 || is_placed;
        }
        if track.placed.is_empty() {
            track.by_hand = Some(tally);
        }
        let placed: BTreeSet<_> = track.placed.iter().map(|&index| plan.jumps[index].site.address).collect();
        for &address in plan.posts.keys().filter(|address| !placed.contains(address)) {
            if replica.overlay.insert(&replica.memory, address).is_ok() {
                track.stopping.insert(address);
            }
        }
        track.write(replica, tally, left)?;
        track.pass_here(replica)?;
        Ok(track)
    }

    /// The jumps that are in place.
    fn jumps(&self) -> impl Iterator<Item = &'p Jump> {
        let plan = self.plan;
        self.placed.iter().map(move |&index| &plan.jumps[index])
    }

    /// Where a replica stands in instructions that gave way, it goes on with their copies. The first of them is a pass.
    fn pass_here(&mut self, replica: &mut Replica) -> Result<(), ReplayError> {
        let mut registers = replica.registers()?;
        let pc = registers.pc();
        if self.stopping.contains(&pc) {
            // It does not stop at a breakpoint instruction where it stands.
            return self.pass(replica, pc).map(drop);
        }
        let is_around = |jump: &&Jump| pc.wrapping_sub(jump.site.address) < jump.original.len() as u64;
        let Some(jump) = self.jumps().find(is_around) else { return Ok(()) };
        let copy = jump.moved.iter().find(|(_, original)| *original == pc).map(|(copy, _)| *copy);
        if pc == jump.site.address {
            self.pass(replica, pc)?;
        }
        let copy = copy.ok_or_else(|| ReplayError::Diverged("a moment lies within an instruction".into()))?;
        registers.set("rip", copy);
        Ok(replica.frozen.set_registers(&registers)?)
    }

    /// Counts a pass by hand; whether it was the last of those that were left.
    fn pass(&mut self, replica: &Replica, address: u64) -> Result<bool, ReplayError> {
        let Some(&number) = self.plan.posts.get(&address) else { return Ok(false) };
        let mut tally = self.tally(replica);
        tally.pass(number);
        let left = self.left_at(tally);
        // The code counts from there on as if this had been the last of the old ones.
        self.write(replica, tally, left)?;
        Ok(left == 0)
    }

    fn left_at(&self, tally: Tally) -> u64 {
        let (left, from) = self.set;
        left.saturating_sub(tally.passes - from.passes)
    }

    fn write(&mut self, replica: &Replica, tally: Tally, left: u64) -> Result<(), ReplayError> {
        self.set = (left, tally);
        match &mut self.by_hand {
            Some(kept) => {
                *kept = tally;
                Ok(())
            }
            None => {
                let mut bytes = tally.sum.to_le_bytes().to_vec();
                bytes.extend(left.to_le_bytes());
                let gone = |_| ReplayError::Trace(TraceError::Gone);
                replica.memory.write(self.plan.tally, &bytes).map_err(gone)
            }
        }
    }

    /// What was passed so far.
    pub(crate) fn tally(&self, replica: &Replica) -> Tally {
        if let Some(tally) = self.by_hand {
            return tally;
        }
        let mut bytes = [[0; 8]; 2];
        replica.memory.read_some(self.plan.tally, bytes.as_flattened_mut());
        let [sum, left] = bytes.map(u64::from_le_bytes);
        let (set, from) = self.set;
        Tally { sum, passes: from.passes + set.wrapping_sub(left) }
    }

    /// A replica stopped at a breakpoint instruction. Gives the tally where that ends the countdown; the replica then
    /// stands at the post, with its pass in the tally.
    pub(crate) fn stopped(&mut self, replica: &Replica, address: u64) -> Result<Option<Tally>, ReplayError> {
        if self.stopping.contains(&address) {
            let is_over = self.pass(replica, address)?;
            return Ok(is_over.then(|| self.tally(replica)));
        }
        let Some(jump) = self.jumps().find(|jump| jump.stop == address) else { return Ok(None) };
        set_pc(replica, jump.site.address)?;
        Ok(Some(self.tally(replica)))
    }

    /// Lets a replica go on from where the countdown ended, for so many more passes.
    pub(crate) fn go_on(&mut self, replica: &Replica, left: u64) -> Result<(), ReplayError> {
        let tally = self.tally(replica);
        self.write(replica, tally, left)?;
        let pc = replica.pc()?;
        match self.jumps().find(|jump| jump.site.address == pc) {
            Some(jump) => Ok(set_pc(replica, jump.resume)?),
            None => Ok(()),
        }
    }

    /// Where there is other code now than the program's own.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let ranges = self.jumps().map(|jump| jump.site.address..jump.site.address + jump.site.length as u64);
        ranges.collect()
    }

    /// Takes all out. A replica must stand in the program's own code.
    pub(crate) fn remove(self, replica: &mut Replica) -> Result<(), ReplayError> {
        for &address in &self.stopping {
            replica.overlay.remove(&replica.memory, address);
        }
        let jumps: Vec<_> = self.jumps().collect();
        let stops: BTreeSet<_> = jumps.iter().map(|jump| jump.stop).collect();
        let inner: BTreeSet<_> = jumps.iter().flat_map(|jump| jump.site.inner_addresses()).collect();
        replica.traps.retain(|trap| !stops.contains(trap));
        replica.detours.retain(|(address, _)| !inner.contains(address));
        for jump in jumps {
            let gone = |_| ReplayError::Trace(TraceError::Gone);
            replica.memory.write(jump.site.address, &jump.original).map_err(gone)?;
            let page = mapped_around(jump.entry).start;
            replica.frozen.call(libc::SYS_munmap, [page, ROOM, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// Puts a jump in; false where something else is there.
fn put_in(replica: &mut Replica, jump: &Jump) -> Result<bool, ReplayError> {
    let mut now = vec![0; jump.original.len()];
    let count = replica.memory.read_some(jump.site.address, &mut now);
    if count != now.len() || now != jump.original {
        return Ok(false);
    }
    let page = mapped_around(jump.entry).start;
    let protection = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let mapped = replica.frozen.call(libc::SYS_mmap, [page, ROOM, protection, flags, u64::MAX, 0])?;
    if mapped != page as i64 {
        return Ok(false);
    }
    let write = |at: u64, bytes: &[u8]| {
        replica.memory.write(at, bytes).map_err(|_| ReplayError::Trace(TraceError::Gone))
    };
    write(jump.entry, &jump.bytes)?;
    write(jump.site.address, &trampoline::jump(&jump.site, jump.entry))?;
    replica.traps.push(jump.stop);
    let copy_of = |inner: u64| jump.moved.iter().find(|(_, original)| *original == inner);
    replica.detours.extend(
        jump.site.inner_addresses().filter_map(|inner| copy_of(inner).map(|&(copy, _)| (inner, copy))),
    );
    Ok(true)
}

fn set_pc(replica: &Replica, address: u64) -> Result<(), TraceError> {
    let mut registers = replica.registers()?;
    registers.set("rip", address);
    replica.frozen.set_registers(&registers)
}

/// What a jump keeps at the end of its room: two registers, and in the first room the sum and what is left.
const TALLY: u64 = 32;

/// The code that begins at `entry`, where it stops, where it goes on, and what it moved.
type Built = (Vec<u8>, u64, u64, Vec<(u64, u64)>);

fn build(site: &Site, entry: u64, number: u32, tally: u64) -> Option<Built> {
    let end = mapped_around(entry).end;
    let (saved_rcx, saved_rdx) = (end - 8, end - 16);
    let mut code = Code::at(entry);
    code.store(RCX, saved_rcx);
    code.store(RDX, saved_rdx);
    code.constant(RDX, tally);
    // mov rcx, [rdx]; lea rcx, [rcx + rcx * 4 + number]; mov [rdx], rcx
    code.push(&[0x48, 0x8b, 0x0a, 0x48, 0x8d, 0x8c, 0x89]);
    code.push(&number.to_le_bytes());
    code.push(&[0x48, 0x89, 0x0a]);
    // mov rcx, [rdx + 8]; lea rcx, [rcx - 1]; mov [rdx + 8], rcx
    code.push(&[0x48, 0x8b, 0x4a, 0x08, 0x48, 0x8d, 0x49, 0xff, 0x48, 0x89, 0x4a, 0x08]);
    let stops = code.jump_if_zero();
    code.load(RCX, saved_rcx);
    code.load(RDX, saved_rdx);
    let resume = code.here();
    let moved = code.move_from(site)?;
    let stop_block = code.here();
    code.patch(stops, stop_block);
    code.load(RCX, saved_rcx);
    code.load(RDX, saved_rdx);
    let stop = code.here();
    code.push(&[0xcc]);
    (code.here() <= end - TALLY).then_some((code.bytes, stop, resume, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_the_order_and_can_be_taken_back() {
        let summed = |posts: &[u32]| {
            let mut tally = Tally::default();
            posts.iter().for_each(|post| tally.pass(*post));
            tally
        };
        let (one, other) = (0x9e37_79b9, 0x1234_5678);
        assert_ne!(summed(&[one, other]), summed(&[other, one]));
        let mut tally = summed(&[one, other, other]);
        tally.take_back(other);
        assert_eq!(tally, summed(&[one, other]));
    }
}
