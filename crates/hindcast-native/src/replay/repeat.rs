//! `rep movs` and `rep stos`: one instruction to the program, thousands of steps to the processor, which can be
//! interrupted after each.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use super::{
    ReplayError, Replica,
    replica::{Advance, Pause},
    state::{Likeness, State},
};
use crate::{record::Log, sys::GeneralRegisters};

/// Such an instruction.
pub(super) struct Repeat {
    address: u64,
    /// What follows it.
    next: u64,
    /// Bytes a round.
    width: u64,
    reads: bool,
}

const LONGEST_INSTRUCTION: usize = 15;
const DOWNWARDS: u64 = 1 << 10;

impl Repeat {
    /// What a replica has at an address, if it is one.
    pub(super) fn at(replica: &Replica, address: u64) -> Option<Self> {
        let mut code = [0; LONGEST_INSTRUCTION];
        let count = replica.memory.read_some(address, &mut code);
        replica.overlay.clean(address, &mut code[..count]);
        Self::decode(&code[..count], address)
    }

    fn decode(code: &[u8], address: u64) -> Option<Self> {
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        let (width, reads) = match instruction.mnemonic() {
            Mnemonic::Stosb => (1, false),
            Mnemonic::Stosw => (2, false),
            Mnemonic::Stosd => (4, false),
            Mnemonic::Stosq => (8, false),
            Mnemonic::Movsb => (1, true),
            Mnemonic::Movsw => (2, true),
            Mnemonic::Movsd => (4, true),
            Mnemonic::Movsq => (8, true),
            _ => return None,
        };
        // Not with 32-bit addresses; and `movsd` is also a vector instruction.
        let is_one = instruction.has_rep_prefix() && instruction.op0_kind() == OpKind::MemoryESRDI;
        is_one.then(|| Self { address, next: instruction.next_ip(), width, reads })
    }

    /// After how many rounds a replica that stands at it is in a state, if it comes to that.
    pub(super) fn leads_to(
        &self,
        replica: &mut Replica,
        log: &Log,
        state: &State,
    ) -> Result<Option<u64>, ReplayError> {
        let Some(rounds) = self.rounds_to(&replica.registers()?, state) else { return Ok(None) };
        // Somebody else goes first, for memory can differ.
        let mut scout = Replica::new(replica.fork()?, replica.event())?;
        let is_met = self.run(&mut scout, log, rounds)?.is_none() && state.compare(&scout)? == Likeness::Same;
        Ok(is_met.then_some(rounds))
    }

    /// After how many rounds the registers are those of a state, if they come to that.
    fn rounds_to(&self, now: &GeneralRegisters, state: &State) -> Option<u64> {
        let register = |name: &str| now.get(name).unwrap_or(0);
        let rounds = register("rcx").checked_sub(state.register("rcx"))?;
        let way = match register("eflags") & DOWNWARDS {
            0 => rounds.wrapping_mul(self.width),
            _ => rounds.wrapping_mul(self.width).wrapping_neg(),
        };
        let mut then = *now;
        then.set("rcx", state.register("rcx"));
        then.set("rdi", register("rdi").wrapping_add(way));
        if self.reads {
            then.set("rsi", register("rsi").wrapping_add(way));
        }
        (rounds > 0 && state.has_registers(&then)).then_some(rounds)
    }

    /// Lets a replica that stands at it, without a breakpoint there, do so many rounds; it then stands there again. What
    /// stopped it before that is given back.
    pub(super) fn run(
        &self,
        replica: &mut Replica,
        log: &Log,
        rounds: u64,
    ) -> Result<Option<Pause>, ReplayError> {
        let mut registers = replica.registers()?;
        let later = registers.get("rcx").unwrap_or(0).wrapping_sub(rounds);
        registers.set("rcx", rounds);
        replica.frozen.set_registers(&registers)?;
        let stopped = self.finish(replica, log)?;
        let mut registers = replica.registers()?;
        registers.set("rcx", registers.get("rcx").unwrap_or(0).wrapping_add(later));
        registers.set("rip", self.address);
        replica.frozen.set_registers(&registers)?;
        Ok(stopped)
    }

    /// The same with all rounds that are left; it then stands behind it.
    pub(super) fn finish(&self, replica: &mut Replica, log: &Log) -> Result<Option<Pause>, ReplayError> {
        let no_code = |error| ReplayError::Diverged(format!("no code behind a repetition: {error}"));
        replica.overlay.insert(&replica.memory, self.next).map_err(no_code)?;
        let pause = replica.advance(log, Advance::Run, replica.event() + 1);
        replica.overlay.remove(&replica.memory, self.next);
        let pause = pause?;
        if pause != Pause::Breakpoint(self.next) {
            return Ok(Some(pause));
        }
        // Somebody else may want to stop there too.
        Ok(replica.overlay.contains(self.next).then_some(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_repetitions_without_a_condition_are_taken() {
        let next = |code: &[u8]| {
            Repeat::decode(code, 0x1000).map(|repeat| (repeat.next, repeat.width, repeat.reads))
        };
        assert_eq!(next(&[0xf3, 0xaa]), Some((0x1002, 1, false)), "rep stosb");
        assert_eq!(next(&[0xf3, 0x48, 0xa5]), Some((0x1003, 8, true)), "rep movsq");
        assert_eq!(next(&[0xaa]), None, "stosb");
        assert_eq!(next(&[0xf3, 0xa6]), None, "repe cmpsb");
        assert_eq!(next(&[0x67, 0xf3, 0xaa]), None, "rep stosb with edi");
        assert_eq!(next(&[0xf2, 0x0f, 0x10, 0x00]), None, "movsd xmm0, [rax]");
    }
}
