//! Call sites that jump to the page. The two bytes of a system call are enough for a short jump, to where the compiler left
//! room between two functions; there is a long one, to a piece of code of ours that says which site it was.
//!
//! Nothing but the call itself is in another place then, so that a program that jumps to any of its instructions finds it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use hindcast_symbols::{Memory as _, Symbols};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

use super::{super::random_numbers::tables, Page};
use crate::{
    process::{CleanMemory, Overlay},
    sys::{
        self, Mapping, ProcessMemory, SYSCALL, SYSCALL_LENGTH, SignalInfo, Stopped, TraceError, remote_call,
    },
};

/// Places near which programs and libraries are, without anything there: long jumps reach two gigabytes.
const ROOMS: [Range<u64>; 3] =
    [0x10_0000..0x11_0000, 0x5555_0000_0000..0x5555_0001_0000, 0x7fff_b000_0000..0x7fff_b001_0000];
/// At the end of each there is a word for `rcx`, and where the page begins.
const DATA_LENGTH: u64 = 0x1000;
/// A piece of code and what it says of its site.
const STUB: u64 = 40;
const DESCRIPTION: u64 = 24;
/// How far a long jump goes, with some room left.
const FARTHEST: u64 = 0x7f00_0000;
const SHORT_JUMP: u8 = 0xeb;
const SHORT_JUMP_LENGTH: u64 = 2;
const LONG_JUMP: u8 = 0xe9;
const LONG_JUMP_LENGTH: u64 = 5;
/// How far behind itself a short jump goes, and how far back.
const NEAR: u64 = 127;
const REACH: u64 = 128;
/// A call that was made so often is likely to be made more often.
const FREQUENT: u32 = 4;
/// How far two of them go.
const AROUND: u64 = 270;
/// More code than this is not looked at for one call.
const LONGEST_LOOK: u64 = 64 << 10;

/// What is known of call sites.
#[derive(Default)]
pub(super) struct Sites {
    /// How often each call was made, by the address behind it: a frequent one is taken over, or never.
    seen: HashMap<u64, u32>,
    /// Where functions begin, by the beginning of the code.
    tables: HashMap<u64, Option<Symbols>>,
    /// Behind which call a jump on the way is, by its address.
    ways: HashMap<u64, u64>,
    /// Those that were taken over, and the jumps there.
    taken: BTreeMap<u64, [u8; 2]>,
    rooms: [Room; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Room {
    #[default]
    Unused,
    /// So many pieces are in it.
    Used(u64),
    Refused,
}

/// What a piece of code says of its site.
pub(super) struct Site {
    /// Behind the call.
    pub(super) pc: u64,
    /// Where `rcx` is kept.
    pub(super) rcx_at: u64,
}

/// How far a thread has come in a piece of code.
pub(super) struct Step {
    pub(super) has_changed_rcx: bool,
}

/// The piece of code in which a thread stands.
pub(super) fn site_at(pc: u64, memory: &ProcessMemory) -> Option<(Site, Step)> {
    let room = ROOMS.iter().find(|room| room.contains(&pc))?;
    let start = room.start + (pc - room.start) / STUB * STUB;
    let mut words = [0; 16];
    memory.read(start + DESCRIPTION, &mut words).ok()?;
    let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap_or_default());
    // The third instruction jumps; before it, the second has `rcx` tell the site.
    let step = Step { has_changed_rcx: pc - start >= 14 };
    Some((Site { pc: word(0), rcx_at: word(8) }, step))
}

pub(super) fn is_here(address: u64) -> bool {
    ROOMS.iter().any(|room| room.contains(&address))
}

pub(super) fn overlaps(range: &Range<u64>) -> bool {
    ROOMS.iter().any(|room| range.start < room.end && room.start < range.end)
}

impl Sites {
    /// Has the call before `pc` jump to the page from now on, if it can.
    pub(super) fn take_over(
        &mut self,
        thread: Stopped,
        pc: u64,
        entry: u64,
        (memory, overlay): (&ProcessMemory, &mut Overlay),
        held: &mut Vec<SignalInfo>,
    ) -> Result<Stopped, TraceError> {
        let site = pc - SYSCALL_LENGTH;
        let seen = self.seen.entry(pc).or_default();
        *seen = seen.saturating_add(1);
        if *seen != FREQUENT || !overlay.can_patch(site - AROUND..pc + AROUND) {
            return Ok(thread);
        }
        let Some(mapping) = fixed_code(thread.tid(), site) else { return Ok(thread) };
        let tables = self.tables.entry(mapping.start).or_insert_with(|| tables(&mapping));
        let code = CleanMemory { memory, overlay: &*overlay };
        let Some(Way { between, hole }) = find_way(&code, pc, tables.as_ref()) else { return Ok(thread) };
        let Some(index) = ROOMS.iter().position(|room| is_near(room, hole)) else { return Ok(thread) };
        let thread = self.open(thread, index, entry, memory, held)?;
        let Room::Used(count) = self.rooms[index] else { return Ok(thread) };
        let room = &ROOMS[index];
        let data = room.end - DATA_LENGTH;
        let start = room.start + count * STUB;
        if start + STUB > data || memory.write(start, &stub(start, data, pc)).is_err() {
            return Ok(thread);
        }
        self.rooms[index] = Room::Used(count + 1);
        let distance = start.wrapping_sub(hole + LONG_JUMP_LENGTH) as i32;
        let mut long = vec![LONG_JUMP];
        long.extend(distance.to_le_bytes());
        let short = |from: u64, to: u64| [SHORT_JUMP, to.wrapping_sub(from) as u8];
        // Who comes by one jump finds the next.
        let is_led = overlay.patch(memory, hole, &long).is_ok()
            && between.is_none_or(|between| {
                overlay.patch(memory, between, &short(between + SHORT_JUMP_LENGTH, hole)).is_ok()
            });
        let jump = short(pc, between.unwrap_or(hole));
        if is_led && overlay.patch(memory, site, &jump).is_ok() {
            self.taken.insert(site, jump);
            self.ways.extend(between.into_iter().chain([hole]).map(|jump| (jump, pc)));
        }
        Ok(thread)
    }

    /// Behind which call a thread is on its way to the page, if it is.
    pub(super) fn on_way(&self, pc: u64) -> Option<u64> {
        self.ways.get(&pc).copied()
    }

    /// Code is gone, or is other code now.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        self.seen.retain(|pc, _| !range.contains(pc));
        self.taken.retain(|site, _| !range.contains(site));
        self.ways.retain(|jump, _| !range.contains(jump));
        self.tables.retain(|start, _| !range.contains(start));
    }

    /// Gives the program its calls back.
    pub(super) fn give_back(&self, memory: &ProcessMemory) {
        for (&site, jump) in &self.taken {
            let mut there = [0; 2];
            // Where a breakpoint is, they were given back before.
            if memory.read(site, &mut there).is_ok() && there == *jump {
                let _ = memory.write(site, &SYSCALL);
            }
        }
    }

    /// Maps a room, when it is needed first.
    fn open(
        &mut self,
        thread: Stopped,
        index: usize,
        entry: u64,
        memory: &ProcessMemory,
        held: &mut Vec<SignalInfo>,
    ) -> Result<Stopped, TraceError> {
        if self.rooms[index] != Room::Unused {
            return Ok(thread);
        }
        let room = &ROOMS[index];
        let (length, data) = (room.end - room.start, room.end - DATA_LENGTH);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let (read, write, execute) =
            (libc::PROT_READ as u64, libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
        let calls = [
            (
                libc::SYS_mmap,
                [room.start, length, read | write, flags as u64, u64::MAX, 0],
                room.start as i64,
            ),
            (libc::SYS_mprotect, [room.start, data - room.start, read | execute, 0, 0, 0], 0),
            (libc::SYS_madvise, [room.start, length, libc::MADV_DONTFORK as u64, 0, 0, 0], 0),
        ];
        self.rooms[index] = Room::Refused;
        let mut thread = thread;
        for (number, arguments, expected) in calls {
            let remote = remote_call(thread, Page::GATE, number, arguments)?;
            held.extend(remote.held);
            thread = remote.thread;
            if remote.result != expected {
                return Ok(thread);
            }
        }
        if memory.write(data + 8, &entry.to_le_bytes()).is_ok() {
            self.rooms[index] = Room::Used(0);
        }
        Ok(thread)
    }
}

/// The code that this is part of, where it is from a file and does not change.
fn fixed_code(process: sys::Tid, address: u64) -> Option<Mapping> {
    let mappings = sys::mappings(process).unwrap_or_default();
    let mut mappings = mappings.into_iter();
    let mapping = mappings.find(|mapping| (mapping.start..mapping.end).contains(&address));
    mapping.filter(|mapping| mapping.permissions == "r-xp" && mapping.inode != 0)
}

fn is_near(room: &Range<u64>, address: u64) -> bool {
    address.abs_diff(room.start) < FARTHEST && address.abs_diff(room.end) < FARTHEST
}

/// The way from a call to its piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    /// Room for a short jump, where the other one is too far.
    between: Option<u64>,
    /// Room for a long one.
    hole: u64,
}

/// Finds room for a long jump that a short one at a call reaches, or two of them: what fills the space between two
/// functions, or behind code that never goes on there.
fn find_way(code: &CleanMemory<'_>, pc: u64, tables: Option<&Symbols>) -> Option<Way> {
    let mut holes = holes(code, pc, tables)?;
    // What is used already is at the beginning of each.
    for hole in &mut holes {
        hole.start = code.overlay.patched_up_to(hole).unwrap_or(hole.start);
    }
    let reaches = |from: u64, to: u64| (from - REACH..=from + NEAR).contains(&to);
    let long = |hole: &&Range<u64>| hole.end - hole.start >= LONG_JUMP_LENGTH;
    if let Some(hole) = holes.iter().filter(long).find(|hole| reaches(pc, hole.start)) {
        return Some(Way { between: None, hole: hole.start });
    }
    let near = holes.iter().filter(|hole| hole.end - hole.start >= SHORT_JUMP_LENGTH);
    near.filter(|between| reaches(pc, between.start)).find_map(|between| {
        let from = between.start + SHORT_JUMP_LENGTH;
        let hole = holes.iter().filter(long).find(|hole| reaches(from, hole.start))?;
        Some(Way { between: Some(between.start), hole: hole.start })
    })
}

/// What fills space around a call, without ever being executed. Whole functions are looked at: nothing in them jumps there.
fn holes(memory: &CleanMemory<'_>, pc: u64, tables: Option<&Symbols>) -> Option<Vec<Range<u64>>> {
    /// Functions mostly begin at a multiple of this.
    const ALIGNMENT: u64 = 16;
    let function = |address: u64| tables.and_then(|tables| tables.unwound_range(address));
    // Only from the beginning of a function on it is known where instructions begin; from the call on it always is.
    let before = (pc - AROUND..pc).step_by(8).find_map(function);
    let begin = before.map_or(pc - SYSCALL_LENGTH, |function| function.start);
    let end = function(pc + AROUND).map_or(pc + AROUND, |function| function.end);
    if end - begin > LONGEST_LOOK {
        return None;
    }
    let mut code = vec![0; (end - begin) as usize];
    let count = memory.read_some(begin, &mut code);
    let mut is_at_call = false;
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut targets = BTreeSet::new();
    let mut ends = false;
    for instruction in &mut Decoder::with_ip(64, &code[..count], begin, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        let here = instruction.ip()..instruction.next_ip();
        is_at_call |= here.end == pc && instruction.mnemonic() == Mnemonic::Syscall;
        if instruction.near_branch_target() != 0 {
            targets.insert(instruction.near_branch_target());
        }
        let begins = function(here.start).is_some_and(|function| function.start == here.start);
        if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) && !begins {
            match found.last_mut().filter(|last| last.end == here.start) {
                Some(last) => last.end = here.end,
                None if ends || tables.is_some() && function(here.start).is_none() => found.push(here),
                None => {}
            }
        }
        ends = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
    }
    found.retain(|hole| {
        let is_sure = tables.is_some() || hole.end.is_multiple_of(ALIGNMENT);
        is_sure && targets.range(hole.clone()).next().is_none()
    });
    is_at_call.then_some(found)
}

/// The code that says which site it was, and goes to the page.
fn stub(start: u64, data: u64, pc: u64) -> Vec<u8> {
    let relative = |to: u64, end: u64| ((to.wrapping_sub(start + end)) as i32).to_le_bytes();
    let mut code = Vec::with_capacity(STUB as usize);
    // mov [data], rcx; lea rcx, [description]; jmp [data + 8]
    code.extend([0x48, 0x89, 0x0d]);
    code.extend(relative(data, 7));
    code.extend([0x48, 0x8d, 0x0d]);
    code.extend(relative(start + DESCRIPTION, 14));
    code.extend([0xff, 0x25]);
    code.extend(relative(data + 8, 20));
    code.resize(DESCRIPTION as usize, 0xcc);
    code.extend(pc.to_le_bytes());
    code.extend(data.to_le_bytes());
    code
}
