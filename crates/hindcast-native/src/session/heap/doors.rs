//! Where glibc's allocator is entered with a block that is given back, and left with one that it gives.
//!
//! The result of a function is known where it is left. All ways out are looked for in its code: returns, before which only
//! registers and the stack are restored, and jumps to other functions, which are looked at in turn. Where one of them
//! cannot be followed, nothing is told at all: a block whose allocation was missed would be taken for an older one.

use std::{collections::BTreeSet, ops::Range};

use hindcast_symbols::Memory;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::look;

/// The functions that allocate. What others of glibc allocate goes through these.
pub(super) const ALLOCATING: [&str; 7] =
    ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "valloc", "pvalloc"];
/// The functions that free what their first argument points to.
pub(super) const FREEING: [&str; 2] = ["free", "realloc"];
/// More functions than this are not followed.
const MOST_FUNCTIONS: usize = 24;

/// An instruction at which the address of a block is in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Door {
    pub(super) address: u64,
    pub(super) holds: Holds,
}

/// Where the address of the block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    Result,
    FirstArgument,
}

impl Holds {
    pub(super) fn register(self) -> &'static str {
        match self {
            Self::Result => "rax",
            Self::FirstArgument => "rdi",
        }
    }

    pub(super) fn dwarf(self) -> u16 {
        match self {
            Self::Result => 0,
            Self::FirstArgument => 5,
        }
    }
}

/// The ways out of functions that begin at these addresses, and of those that they end in. `None` where one is not understood.
pub(super) fn exits(
    memory: &dyn Memory,
    functions: &dyn Fn(u64) -> Option<Range<u64>>,
    starts: &[(&str, u64)],
) -> Option<Vec<Door>> {
    let mut doors = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<(bool, u64)> = starts.iter().map(|(name, start)| (*name == "calloc", *start)).collect();
    while let Some((clears, start)) = open.pop() {
        if !seen.insert(start) {
            continue;
        }
        let range = functions(start).filter(|range| range.start == start && seen.len() <= MOST_FUNCTIONS)?;
        let body = Body::read(memory, &range)?;
        for (index, instruction) in body.instructions.iter().enumerate() {
            match instruction.flow_control() {
                FlowControl::Return => {
                    let address = body.restoring(index);
                    doors.insert(Door { address, holds: Holds::Result });
                }
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    let target = branch_target(instruction)?;
                    if range.contains(&target) {
                        continue;
                    }
                    match is_stub(memory, target) {
                        false => open.push((clears, target)),
                        // It ends in memset, which returns its first argument.
                        true if clears => {
                            doors.insert(Door { address: instruction.ip(), holds: Holds::FirstArgument });
                        }
                        true => return None,
                    }
                }
                FlowControl::IndirectBranch => return None,
                _ => {}
            }
        }
    }
    Some(doors.into_iter().collect())
}

fn branch_target(instruction: &Instruction) -> Option<u64> {
    (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target())
}

/// Whether there is nothing but a jump through a table, to a function that is chosen when the program starts.
fn is_stub(memory: &dyn Memory, address: u64) -> bool {
    let mut at = address;
    for _ in 0..2 {
        let Some(instruction) = look::decode(memory, at) else { return false };
        match instruction.mnemonic() {
            Mnemonic::Endbr64 => at = instruction.next_ip(),
            _ => return instruction.flow_control() == FlowControl::IndirectBranch,
        }
    }
    false
}

struct Body {
    instructions: Vec<Instruction>,
    /// Where jumps within it go.
    targets: BTreeSet<u64>,
}

impl Body {
    fn read(memory: &dyn Memory, range: &Range<u64>) -> Option<Self> {
        let mut instructions = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let instruction = look::decode(memory, at)?;
            at = instruction.next_ip();
            instructions.push(instruction);
        }
        let targets = instructions.iter().filter_map(branch_target).collect();
        Some(Self { instructions, targets })
    }

    /// From where on only registers and the stack are restored before a return, whichever way one came there.
    fn restoring(&self, returning: usize) -> u64 {
        let mut first = returning;
        while first > 0
            && !self.targets.contains(&self.instructions[first].ip())
            && restores(&self.instructions[first - 1])
        {
            first -= 1;
        }
        self.instructions[first].ip()
    }
}

fn restores(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Pop => instruction.op0_register() != Register::RAX,
        Mnemonic::Add => instruction.op0_register() == Register::RSP,
        Mnemonic::Leave => true,
        _ => false,
    }
}
