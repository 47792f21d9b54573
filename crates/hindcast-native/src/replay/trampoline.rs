//! Counting how often an address is passed, without stopping: the instructions there give way to a
//! jump to code of ours, which counts, compares, executes them and jumps back.
//!
//! That code must not change anything that the program can see. It uses only `mov`, `lea`, `jrcxz`
//! and `jmp`, which leave the flags alone, and keeps the two registers that it needs beside itself,
//! not on the program's stack.
//!
//! A program can also jump to one of the instructions behind the first: from another function, through a table, or to
//! handle an exception. No analysis finds all of these jumps. So the byte at each of these instructions is one that
//! no processor executes: the replica stops there, and goes on with the copy of that instruction.

use std::{collections::BTreeSet, ops::Range};

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    Mnemonic, OpKind,
};

/// Instructions that can give way to a jump.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) address: u64,
    /// The bytes that the jump takes the place of.
    pub(super) length: usize,
    instructions: Vec<Instruction>,
    /// How far behind the first byte there are bytes that must not be executed, for another jump that was here before.
    kept: Vec<usize>,
}

/// What the code compares with the present state, at each pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Pattern {
    /// General registers, in the order of their encoding.
    pub(super) registers: Option<[u64; 16]>,
    /// Words in memory.
    pub(super) words: Vec<(u64, u64)>,
}

/// The code, and where its data is.
#[derive(Debug)]
pub(super) struct Trampoline {
    /// The code, from the entry on.
    pub(super) bytes: Vec<u8>,
    /// Where it stops; everything is as it was at the site.
    pub(super) stop: u64,
    /// Where it goes on from there.
    pub(super) resume: u64,
    /// Addresses of the instructions that gave way, and of what follows them: here, and in the program.
    pub(super) moved: Vec<(u64, u64)>,
    /// Where the number of passes that are left is kept.
    pub(super) counter: u64,
}

/// What is mapped for a trampoline: its code begins somewhere in the first page, its data is at the end.
pub(super) const ROOM: u64 = 2 * PAGE;
const PAGE: u64 = 4096;
const JUMP_LENGTH: usize = 5;
/// Bytes that are not the beginning of any instruction in 64-bit mode.
const INVALID: [u8; 16] =
    [0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x9a, 0xce, 0xea];
/// A jump reaches a little further.
const FARTHEST: u64 = 0x7000_0000;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;

/// Whether a jump fits at `address`, in code of which `code` from `start` on is one function.
pub(super) fn site(address: u64, code: &[u8], start: u64) -> Option<Site> {
    let offset = usize::try_from(address.checked_sub(start)?).ok()?;
    let decoder = Decoder::with_ip(64, code.get(offset..)?, address, DecoderOptions::NONE);
    let site = giving_way(address, decoder.into_iter())?;
    let covered = address + 1..address + site.length as u64;
    let whole = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let entered = whole.into_iter().any(|instruction| {
        // Where a jump through a table goes is not known, but it is never into the middle of an instruction.
        instruction.flow_control() == FlowControl::IndirectBranch && site.instructions.len() > 1
            || instruction.op0_kind() == OpKind::NearBranch64
                && covered.contains(&instruction.near_branch_target())
    });
    (!entered).then_some(site)
}

/// The site of a jump at an address, if these instructions from there on can give way to it.
fn giving_way(address: u64, following: impl Iterator<Item = Instruction>) -> Option<Site> {
    let mut instructions = Vec::new();
    let mut length = 0;
    for instruction in following {
        if instruction.is_invalid() || instruction.ip() != address + length as u64 || !can_move(&instruction)
        {
            return None;
        }
        length += instruction.len();
        let leaves = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
        instructions.push(instruction);
        if length >= JUMP_LENGTH {
            return Some(Site { address, length, instructions, kept: Vec::new() });
        }
        if leaves {
            return None;
        }
    }
    None
}

/// The instructions of a function, to look for many sites in it.
pub(crate) struct Listing {
    instructions: Vec<Instruction>,
    targets: BTreeSet<u64>,
}

impl Listing {
    /// Of instructions in the order of their addresses.
    pub(crate) fn new(instructions: Vec<Instruction>) -> Self {
        let branches =
            instructions.iter().filter(|instruction| instruction.op0_kind() == OpKind::NearBranch64);
        let targets = branches.map(Instruction::near_branch_target).collect();
        Self { instructions, targets }
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether a jump fits at an instruction. What a jump through a table leads to is not known: where that is one of the
    /// instructions that gave way, a replica stops there, and goes on with its copy.
    pub(crate) fn site(&self, index: usize) -> Option<Site> {
        let rest = self.instructions.get(index..)?;
        let address = rest.first()?.ip();
        let site = giving_way(address, rest.iter().copied())?;
        let covered = address + 1..address + site.length as u64;
        self.targets.range(covered).next().is_none().then_some(site)
    }
}

fn can_move(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    let stays = matches!(
        flow,
        FlowControl::Next
            | FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
    );
    // Its own address or ours would be seen, or it traps.
    let special = matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Int3
            | Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
            | Mnemonic::Cpuid
            | Mnemonic::Hlt
    );
    stays && !special && !instruction.is_loopcc() && !instruction.is_jcx_short()
}

impl Site {
    /// The instructions behind the first, which a jump from elsewhere can lead to: how far behind it they are.
    fn inner(&self) -> impl Iterator<Item = usize> + '_ {
        self.instructions.iter().skip(1).map(|instruction| (instruction.ip() - self.address) as usize)
    }

    /// The bytes at these addresses stay as they are to who jumps there: another jump is at the site, and it is the only
    /// instruction that this one takes the place of.
    pub(super) fn keep(&mut self, inner: impl Iterator<Item = u64>) {
        let covered = self.address + 1..self.address + self.length as u64;
        let kept = inner.filter(|address| covered.contains(address));
        self.kept.extend(kept.map(|address| (address - self.address) as usize));
    }

    /// The same as addresses.
    pub(super) fn inner_addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.inner().map(|offset| self.address + offset as u64)
    }

    /// Where a trampoline can begin, so that the jump to it has an invalid byte at each inner instruction and `is_free`
    /// holds for what is mapped around it.
    pub(super) fn entry(&self, is_free: impl Fn(Range<u64>) -> bool) -> Option<u64> {
        const ANY: [u8; 256] = {
            let mut bytes = [0; 256];
            let mut byte = 0;
            while byte < 256 {
                bytes[byte] = byte as u8;
                byte += 1;
            }
            bytes
        };
        let fixed: Vec<_> = self.inner().chain(self.kept.iter().copied()).collect();
        // The byte behind the opcode is the lowest of the distance.
        let allowed = |byte: usize| if fixed.contains(&(byte + 1)) { &INVALID[..] } else { &ANY[..] };
        let behind = self.address + JUMP_LENGTH as u64;
        let (low, middle) = (allowed(0)[0], allowed(1)[0]);
        let mut highest = allowed(3).to_vec();
        // Near ones first.
        highest.sort_by_key(|&byte| (byte as i8).unsigned_abs());
        for high in highest {
            for &third in allowed(2) {
                let distance = i64::from(i32::from_le_bytes([low, middle, third, high]));
                let entry = behind.wrapping_add_signed(distance);
                let start = entry & !(PAGE - 1);
                if distance.unsigned_abs() < FARTHEST && is_free(start..start.saturating_add(ROOM)) {
                    return Some(entry);
                }
            }
        }
        None
    }
}

/// The jump that takes the place of the site's instructions.
pub(super) fn jump(site: &Site, entry: u64) -> Vec<u8> {
    let mut bytes = vec![0xe9];
    bytes.extend(relative(site.address + JUMP_LENGTH as u64, entry));
    bytes.resize(site.length, INVALID[0]);
    bytes
}

/// The code that begins at `entry`. It stops at the pass number `passes`, which its user puts at `counter`, and where all
/// of the pattern is met.
pub(super) fn build(site: &Site, entry: u64, pattern: Option<&Pattern>) -> Option<Trampoline> {
    // Two registers, the counter.
    let end = mapped_around(entry).end;
    let (saved_rcx, saved_rdx, counter) = (end - 8, end - 16, end - 24);
    let mut code = Code::at(entry);
    code.store(RCX, saved_rcx);
    code.store(RDX, saved_rdx);
    code.load(RCX, counter);
    // lea rcx, [rcx - 1]
    code.push(&[0x48, 0x8d, 0x49, 0xff]);
    code.store(RCX, counter);
    let mut stops = vec![code.jump_if_zero()];
    let mut leaves = Vec::new();
    if let Some(pattern) = pattern {
        for (register, &value) in pattern.registers.iter().flatten().enumerate() {
            match register as u8 {
                RCX => code.load(RCX, saved_rcx),
                RDX => code.load(RCX, saved_rdx),
                register => code.move_to_rcx(register),
            }
            leaves.push(code.jump_unless(value));
        }
        for &(address, value) in &pattern.words {
            code.constant(RDX, address);
            // mov rcx, [rdx]
            code.push(&[0x48, 0x8b, 0x0a]);
            leaves.push(code.jump_unless(value));
        }
        stops.push(code.jump_placeholder());
    }
    let out = code.here();
    for place in leaves {
        code.patch(place, out);
    }
    code.load(RCX, saved_rcx);
    code.load(RDX, saved_rdx);
    let resume = code.here();
    let moved = code.move_from(site)?;
    let stop_block = code.here();
    for place in stops {
        code.patch(place, stop_block);
    }
    code.load(RCX, saved_rcx);
    code.load(RDX, saved_rdx);
    let stop = code.here();
    code.push(&[0xcc]);
    (code.here() <= counter).then_some(Trampoline { bytes: code.bytes, stop, resume, moved, counter })
}

/// Code being written.
pub(super) struct Code {
    pub(super) bytes: Vec<u8>,
    start: u64,
}

impl Code {
    pub(super) fn at(start: u64) -> Self {
        Self { bytes: Vec::new(), start }
    }

    /// The instructions that gave way, and a jump to what follows them. Where they are: here, and in the program.
    pub(super) fn move_from(&mut self, site: &Site) -> Option<Vec<(u64, u64)>> {
        let start = self.here();
        let moved = BlockEncoder::encode(
            64,
            InstructionBlock::new(&site.instructions, start),
            BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS,
        )
        .ok()?;
        let offsets = moved.new_instruction_offsets.iter().zip(&site.instructions);
        let mut addresses: Vec<_> =
            offsets.map(|(&offset, instruction)| (start + u64::from(offset), instruction.ip())).collect();
        self.push(&moved.code_buffer);
        let behind = site.address + site.length as u64;
        addresses.push((self.here(), behind));
        let back = self.jump_placeholder();
        self.patch(back, behind);
        Some(addresses)
    }

    pub(super) fn here(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// mov [address], register
    pub(super) fn store(&mut self, register: u8, address: u64) {
        self.relative_memory(0x89, register, address);
    }

    /// mov register, [address]
    pub(super) fn load(&mut self, register: u8, address: u64) {
        self.relative_memory(0x8b, register, address);
    }

    fn relative_memory(&mut self, opcode: u8, register: u8, address: u64) {
        self.push(&[0x48, opcode, 0x05 | register << 3]);
        let offset = relative(self.here() + 4, address);
        self.push(&offset);
    }

    /// mov register, value
    pub(super) fn constant(&mut self, register: u8, value: u64) {
        self.push(&[0x48, 0xb8 | register]);
        self.push(&value.to_le_bytes());
    }

    /// mov rcx, register
    fn move_to_rcx(&mut self, register: u8) {
        let extended = u8::from(register >= 8) << 2;
        self.push(&[0x48 | extended, 0x89, 0xc1 | (register & 7) << 3]);
    }

    /// A jump that is not taken where rcx is `value`.
    fn jump_unless(&mut self, value: u64) -> usize {
        self.constant(RDX, value.wrapping_neg());
        // lea rcx, [rcx + rdx]
        self.push(&[0x48, 0x8d, 0x0c, 0x11]);
        // jrcxz over the jump
        self.push(&[0xe3, JUMP_LENGTH as u8]);
        self.jump_placeholder()
    }

    /// A jump that is taken where rcx is zero.
    pub(super) fn jump_if_zero(&mut self) -> usize {
        // jrcxz to the jump; a short jump over it
        self.push(&[0xe3, 0x02, 0xeb, JUMP_LENGTH as u8]);
        self.jump_placeholder()
    }

    pub(super) fn jump_placeholder(&mut self) -> usize {
        self.push(&[0xe9, 0, 0, 0, 0]);
        self.bytes.len() - 4
    }

    pub(super) fn patch(&mut self, place: usize, target: u64) {
        let after = self.start + place as u64 + 4;
        self.bytes[place..place + 4].copy_from_slice(&relative(after, target));
    }
}

fn relative(after: u64, target: u64) -> [u8; 4] {
    (target.wrapping_sub(after) as i64 as i32).to_le_bytes()
}

/// What is mapped for a trampoline that begins at `entry`.
pub(super) fn mapped_around(entry: u64) -> Range<u64> {
    let start = entry & !(PAGE - 1);
    start..start + ROOM
}
