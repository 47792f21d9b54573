//! When two processes are in the same state.

use super::{Frozen, Replica};
use crate::{
    record::{is_scratch, visible},
    sys::{self, GeneralRegisters, ProcessMemory, SYSCALL, Stopped, Tid, TraceError, VectorRegisters},
};

/// A state of the program that a replica is to meet again.
pub(crate) struct State {
    registers: [u64; 27],
    general: GeneralRegisters,
    vectors: Vec<u8>,
    /// Whether it stands at a system call. What that overwrites anyway does not count: the copy of a
    /// process in a call that is made again has it overwritten already.
    at_call: bool,
    process: Tid,
    memory: ProcessMemory,
    lead: Option<Box<Lead>>,
}

/// Where no jump fits, a state is recognised by one a few steps later.
pub(crate) struct Lead {
    /// How often the later state's address is passed from the state on up to there.
    pub(super) passes: u32,
    /// How many steps later it is.
    pub(super) steps: usize,
    pub(super) state: State,
    /// The later state belongs to it.
    _copy: Frozen,
}

/// How a replica compares with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    Same,
    /// The registers differ.
    Registers,
    /// The registers are the same, but memory is not: here is a word, as it should be.
    Word(u64, u64),
}

/// Pieces in which memory is compared.
const PIECE: usize = 256 << 10;
/// Bits of the flags that the processor uses for itself: single steps, and resuming after a fault.
const OWN_FLAGS: u64 = 1 << 8 | 1 << 16;

impl State {
    pub(crate) fn of(frozen: &Frozen) -> Result<Self, TraceError> {
        let general = frozen.registers()?;
        let memory = ProcessMemory::open(frozen.tid()).map_err(|_| TraceError::Gone)?;
        let at_call = is_call(&memory, general.pc());
        Ok(Self {
            registers: comparable(&general, at_call),
            general,
            at_call,
            vectors: vectors(frozen.thread()?)?,
            process: frozen.tid(),
            memory,
            lead: None,
        })
    }

    /// The same, to be recognised by a later state; on the way to it these addresses are passed, its own not counted.
    pub(super) fn with_lead(mut self, way: &[u64], copy: Frozen) -> Result<Self, TraceError> {
        let state = Self::of(&copy)?;
        let passes = 1 + way.iter().filter(|&&address| address == state.pc()).count() as u32;
        self.lead = Some(Box::new(Lead { passes, steps: way.len(), state, _copy: copy }));
        Ok(self)
    }

    pub(super) fn lead(&self) -> Option<&Lead> {
        self.lead.as_deref()
    }

    /// The address at which it is recognised, and how many passes of it are not before the state.
    pub(super) fn mark(&self) -> (u64, u32) {
        self.lead().map_or((self.pc(), 1), |lead| (lead.state.pc(), lead.passes))
    }

    pub(crate) fn pc(&self) -> u64 {
        self.general.pc()
    }

    pub(super) fn register(&self, name: &str) -> u64 {
        self.general.get(name).unwrap_or(0)
    }

    /// General registers, in the order of their encoding.
    pub(super) fn encoded(&self) -> [u64; 16] {
        const NAMES: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
            "r14", "r15",
        ];
        NAMES.map(|name| self.register(name))
    }

    /// Whether the registers alone are the same; enough to rule most states out.
    pub(crate) fn has_registers(&self, registers: &GeneralRegisters) -> bool {
        comparable(registers, self.at_call) == self.registers
    }

    /// Compares everything that the program can see.
    pub(crate) fn compare(&self, replica: &Replica) -> Result<Likeness, TraceError> {
        if !self.has_registers(&replica.registers()?) || vectors(replica.frozen.thread()?)? != self.vectors {
            return Ok(Likeness::Registers);
        }
        let mut mappings = sys::mappings(self.process).map_err(|_| TraceError::Gone)?;
        mappings.retain(|mapping| mapping.permissions.starts_with("rw") && !is_scratch(mapping.start));
        // What differs mostly differs on the stack.
        let stack = self.general.sp();
        mappings.sort_by_key(|mapping| !(mapping.start..mapping.end).contains(&stack));
        for mapping in &mappings {
            if let Some((address, word)) = self.differs(replica, mapping.start, mapping.end) {
                return Ok(Likeness::Word(address, word));
            }
        }
        Ok(Likeness::Same)
    }

    /// How many bytes from `address` on, up to the last that is other than in a replica; only `most` are looked at.
    pub(super) fn differing_bytes(&self, replica: &Replica, address: u64, most: usize) -> usize {
        let (mut ours, mut theirs) = (vec![0; most], vec![0; most]);
        let count =
            self.memory.read_some(address, &mut ours).min(replica.memory.read_some(address, &mut theirs));
        replica.overlay.clean(address, &mut theirs[..count]);
        let last = (0..count).rev().find(|&index| ours[index] != theirs[index]);
        last.map_or(0, |index| index + 1)
    }

    fn differs(&self, replica: &Replica, start: u64, end: u64) -> Option<(u64, u64)> {
        let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
        // From the top of the stack on, which is the end of the mapping that is in use.
        let mut at = start;
        while at < end {
            let length = (end - at).min(PIECE as u64) as usize;
            let count = self.memory.read_some(at, &mut ours[..length]);
            let other = replica.memory.read_some(at, &mut theirs[..length]);
            replica.overlay.clean(at, &mut theirs[..other]);
            if count != other || ours[..count] != theirs[..count] {
                let (wanted, there) = (ours.as_chunks::<8>().0, theirs.as_chunks::<8>().0);
                let index = wanted.iter().zip(there).position(|(wanted, there)| wanted != there)?;
                return Some((at + 8 * index as u64, u64::from_le_bytes(wanted[index])));
            }
            at += length as u64;
        }
        None
    }
}

fn is_call(memory: &ProcessMemory, address: u64) -> bool {
    let mut code = [0; 2];
    memory.read_some(address, &mut code) == 2 && code == SYSCALL
}

fn comparable(registers: &GeneralRegisters, at_call: bool) -> [u64; 27] {
    let mut registers = *registers;
    if at_call {
        registers.set("rcx", 0);
        registers.set("r11", 0);
    }
    registers.set("eflags", registers.get("eflags").unwrap_or(0) & !OWN_FLAGS);
    visible(&registers)
}

/// The first register that is not the same in both.
pub(super) fn differing_register(one: &GeneralRegisters, other: &GeneralRegisters) -> Option<String> {
    let (ours, theirs) = (comparable(one, false), comparable(other, false));
    let index = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs)?;
    Some(format!("register {index} is {:#x}, and {:#x} in the replay", ours[index], theirs[index]))
}

/// Floating point and vector registers, without what only says which of them are in use.
pub(super) fn vectors(thread: &Stopped) -> Result<Vec<u8>, TraceError> {
    Ok(visible_part(thread.vector_registers()?))
}

fn visible_part(vectors: VectorRegisters) -> Vec<u8> {
    const CONTROL: std::ops::Range<usize> = 416..576;
    let mut area = vectors.into_bytes();
    if area.len() >= CONTROL.end {
        area[CONTROL].fill(0);
    }
    area
}

/// A number for everything that the program can see, to hold one run against another.
#[cfg(test)]
pub(crate) fn digest(
    thread: &Stopped,
    overlay: &crate::process::Overlay,
    interrupted: Option<i64>,
    cast: Option<&super::Cast>,
) -> Result<u64, TraceError> {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = 0_u64;
    let mut take = |word: u64| hash = (hash ^ word).wrapping_mul(MIX).rotate_left(29);
    let registers = super::frozen::settled(thread.registers()?, interrupted);
    let memory = ProcessMemory::open(thread.tid()).map_err(|_| TraceError::Gone)?;
    let mut code = [0; 2];
    memory.read_some(registers.pc(), &mut code);
    overlay.clean(registers.pc(), &mut code);
    comparable(&registers, code == SYSCALL).into_iter().for_each(&mut take);
    let mut take_bytes = |bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| take(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| take(u64::from(*byte)));
    };
    take_bytes(&vectors(thread)?);
    for (tid, actor) in cast.into_iter().flat_map(|cast| cast.others()) {
        take_bytes(&tid.0.to_le_bytes());
        comparable(&actor.registers, false).iter().for_each(|word| take_bytes(&word.to_le_bytes()));
        take_bytes(&visible_part(actor.vectors.clone()));
    }
    for mapping in sys::mappings(thread.tid()).map_err(|_| TraceError::Gone)? {
        if mapping.permissions.starts_with("rw") && !is_scratch(mapping.start) {
            let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
            let count = memory.read_some(mapping.start, &mut bytes);
            overlay.clean(mapping.start, &mut bytes[..count]);
            // By page: the system may join mappings that touch in one process and not in the other.
            for (index, page) in bytes[..count].chunks(4096).enumerate() {
                take_bytes(&(mapping.start + 4096 * index as u64).to_le_bytes());
                take_bytes(page);
            }
        }
    }
    Ok(hash)
}
