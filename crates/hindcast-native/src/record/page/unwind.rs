//! A thread that was stopped at the page is put before its call or behind it.

use hindcast_symbols::Memory as _;

use super::{Made, Page, sites};
use crate::sys::{
    self, GeneralRegisters, ProcessMemory, SYSCALL_LENGTH, TraceError,
    call_page::{Addresses, Kept, ROOM, place},
};

/// Where a thread stands, for the program.
pub(crate) enum Stand {
    /// Not at the page.
    Elsewhere,
    /// Before a call that was not made.
    Before(GeneralRegisters),
    /// Behind a call that was made and noted.
    Noted(GeneralRegisters),
    /// Behind one that was made and not noted.
    Made(GeneralRegisters, Made),
}

const ARGUMENTS: [&str; 6] = ["rdi", "rsi", "rdx", "r10", "r8", "r9"];

impl Page {
    /// Where a thread with these registers stands.
    pub(crate) fn stand(
        &self,
        registers: &GeneralRegisters,
        memory: &ProcessMemory,
    ) -> Result<Stand, TraceError> {
        let pc = registers.pc();
        if let Some(site) = self.sites.on_way(pc) {
            // Jumps change nothing.
            return Ok(Stand::Before(at(*registers, site - SYSCALL_LENGTH)));
        }
        if let Some((site, step)) = sites::site_at(pc, memory) {
            let mut before = *registers;
            if step.has_changed_rcx {
                before.set("rcx", word(memory, site.rcx_at)?);
            }
            return Ok(Stand::Before(at(before, site.pc - SYSCALL_LENGTH)));
        }
        if !ROOM.contains(&pc) {
            return Ok(Stand::Elsewhere);
        }
        let addresses = &self.addresses;
        if (addresses.entry..addresses.kept).contains(&pc) {
            return self.at_entry(registers, memory);
        }
        let kept = kept(memory)?;
        let before = |number: u64| {
            let mut before = self.kept_registers(registers, &kept, memory)?;
            before.set("rax", number);
            before.set("rcx", kept.rcx);
            before.set("r11", kept.r11);
            Ok::<_, TraceError>(at(before, kept.pc - SYSCALL_LENGTH))
        };
        let behind = |result: u64| {
            let mut behind = self.kept_registers(registers, &kept, memory)?;
            behind.set("rax", result);
            behind.set("rcx", kept.pc);
            behind.set("r11", word(memory, place::FLAGS)?);
            Ok::<_, TraceError>(at(behind, kept.pc))
        };
        let made = |result: u64| Made {
            number: kept.number as i64,
            arguments: kept.arguments,
            pc: kept.pc,
            result: result as i64,
        };
        let &Addresses { call, result_kept, noted, left, to_hand_over, hand_over, .. } = addresses;
        let rax = registers.get("rax").unwrap_or_default();
        let is_made = (call + SYSCALL_LENGTH..noted).contains(&pc)
            || (to_hand_over..addresses.code_end).contains(&pc)
            || (hand_over..=hand_over + SYSCALL_LENGTH).contains(&pc);
        Ok(if (noted..left).contains(&pc) {
            Stand::Noted(behind(kept.result)?)
        } else if !is_made || pc == call + SYSCALL_LENGTH && sys::restarts(rax as i64) {
            Stand::Before(before(kept.number)?)
        } else {
            let result = if pc < result_kept { rax } else { kept.result };
            if self.has_not_happened(&kept, result) {
                return Ok(Stand::Before(before(kept.number)?));
            }
            Stand::Made(behind(result)?, made(result))
        })
    }

    /// Whether a call only looked, and has to be made again to wait.
    fn has_not_happened(&self, kept: &Kept, result: u64) -> bool {
        let polls = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait].contains(&(kept.number as i64));
        polls && result == 0 && kept.arguments[3] as u32 != 0
    }

    /// Not everything is kept yet.
    fn at_entry(&self, registers: &GeneralRegisters, memory: &ProcessMemory) -> Result<Stand, TraceError> {
        let mut before = *registers;
        let pc = registers.pc();
        let description = registers.get("rcx").unwrap_or_default();
        let (site, rcx_at) = (word(memory, description)?, word(memory, description + 8)?);
        before.set("rcx", word(memory, rcx_at)?);
        if pc > self.addresses.entry {
            before.set("r11", kept(memory)?.r11);
        }
        if pc >= self.addresses.on_own_stack {
            before.set("rsp", kept(memory)?.rsp);
        }
        Ok(Stand::Before(at(before, site - SYSCALL_LENGTH)))
    }

    fn kept_registers(
        &self,
        registers: &GeneralRegisters,
        kept: &Kept,
        memory: &ProcessMemory,
    ) -> Result<GeneralRegisters, TraceError> {
        let mut program = *registers;
        for (name, value) in ARGUMENTS.into_iter().zip(kept.arguments) {
            program.set(name, value);
        }
        program.set("rbx", kept.rbx);
        program.set("rsp", kept.rsp);
        program.set("eflags", word(memory, place::FLAGS)?);
        Ok(program)
    }

    /// The call that a thread is about to make where calls are told, by where it is: it may have come from the page.
    pub(crate) fn told_at(&self, pc: u64, memory: &ProcessMemory) -> Result<Told, TraceError> {
        told_at(&self.addresses, pc, memory)
    }
}

pub(super) fn told_at(addresses: &Addresses, pc: u64, memory: &ProcessMemory) -> Result<Told, TraceError> {
    let &Addresses { slow, hand_over, .. } = addresses;
    Ok(if pc == slow + SYSCALL_LENGTH {
        Told::Call { pc: kept(memory)?.pc, is_at_page: true }
    } else if pc == hand_over + SYSCALL_LENGTH {
        Told::HandedOver
    } else {
        Told::Call { pc, is_at_page: false }
    })
}

/// What it means that a call is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is about to be made; `pc` is behind it, in the program.
    Call { pc: u64, is_at_page: bool },
    /// It was made at the page, and has to be looked at.
    HandedOver,
}

fn at(mut registers: GeneralRegisters, pc: u64) -> GeneralRegisters {
    registers.set("rip", pc);
    registers.set("orig_rax", u64::MAX);
    registers
}

fn kept(memory: &ProcessMemory) -> Result<Kept, TraceError> {
    let mut words = [0_u64; 13];
    for (index, word) in words.iter_mut().enumerate() {
        *word = self::word(memory, place::KEPT + 8 * index as u64)?;
    }
    let [pc, number, a, b, c, d, e, f, rbx, r11, rcx, rsp, result] = words;
    Ok(Kept { pc, number, arguments: [a, b, c, d, e, f], rbx, r11, rcx, rsp, result })
}

fn word(memory: &ProcessMemory, address: u64) -> Result<u64, TraceError> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).map_err(|_| TraceError::Gone)?;
    Ok(u64::from_le_bytes(bytes))
}
