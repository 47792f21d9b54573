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

/// A way within it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) rounds: u64,
    /// Of so many more rounds memory has what they write, though the registers do not say so: the processor moves whole lines, and
    /// does again what it was interrupted in.
    ahead: u64,
}

const LONGEST_INSTRUCTION: usize = 15;
/// The processor is never further ahead than this.
const FURTHEST_AHEAD: usize = 4096;
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

    /// The way to a state from a replica that stands at it, if there is one.
    pub(super) fn leads_to(
        &self,
        replica: &mut Replica,
        log: &Log,
        state: &State,
    ) -> Result<Option<Way>, ReplayError> {
        let Some(rounds) = self.rounds_to(&replica.registers()?, state) else { return Ok(None) };
        let mut way = Way { rounds, ahead: 0 };
        // Somebody else goes first, for memory can differ.
        let mut scout = Replica::new(replica.fork()?, replica.event())?;
        if self.go(&mut scout, log, way)?.is_some() {
            return Ok(None);
        }
        if state.compare(&scout)? == Likeness::Same {
            return Ok(Some(way));
        }
        let bytes = state.differing_bytes(&scout, state.register("rdi"), FURTHEST_AHEAD) as u64;
        way.ahead = bytes.div_ceil(self.width);
        if way.ahead == 0 || way.ahead > state.register("rcx") {
            return Ok(None);
        }
        let mut scout = Replica::new(replica.fork()?, replica.event())?;
        let is_met = self.go(&mut scout, log, way)?.is_none() && state.compare(&scout)? == Likeness::Same;
        Ok(is_met.then_some(way))
    }

    /// Leads a replica to where a way ends. What stopped it before that is given back.
    pub(super) fn go(
        &self,
        replica: &mut Replica,
        log: &Log,
        way: Way,
    ) -> Result<Option<Pause>, ReplayError> {
        let stopped = self.run(replica, log, way.rounds + way.ahead)?;
        if stopped.is_none() && way.ahead > 0 {
            let mut registers = replica.registers()?;
            let back = way.ahead.wrapping_mul(self.width).wrapping_neg();
            let mut move_by = |name: &str, by: u64| {
                registers.set(name, registers.get(name).unwrap_or(0).wrapping_add(by));
            };
            move_by("rcx", way.ahead);
            move_by("rdi", back);
            if self.reads {
                move_by("rsi", back);
            }
            replica.frozen.set_registers(&registers)?;
        }
        Ok(stopped)
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
    use crate::{process::Halt, replay::tests::Recorded, sys};

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

    /// The first `rep stosb` of a program.
    fn filling(replica: &Replica) -> u64 {
        let mappings = sys::mappings(replica.frozen.tid()).unwrap();
        let code = mappings.iter().find(|mapping| mapping.permissions.starts_with("r-x")).unwrap();
        let mut bytes = vec![0; (code.end - code.start) as usize];
        replica.memory.read_some(code.start, &mut bytes);
        let at = bytes.windows(2).position(|two| two == [0xf3, 0xaa]).unwrap();
        code.start + at as u64
    }

    /// Processors move whole lines: interrupted by a page that is missing, they have written some of the line and say that they have not.
    #[test]
    fn a_state_is_met_whose_memory_is_ahead_of_its_registers() {
        let mut recorded = Recorded::fixture("-O1", &["repetitions", "2"]);
        assert!(matches!(recorded.run(), Halt::Ended(_)));
        recorded.with_context(|context| {
            let first = context.timeline.first().unwrap().clone();
            let mut replica = context.replica_at(&first).unwrap();
            let address = filling(&replica);
            replica.overlay.insert(&replica.memory, address).unwrap();
            let pause = replica.advance(context.log, Advance::Run, u64::MAX).unwrap();
            assert_eq!(pause, Pause::Breakpoint(address));
            replica.overlay.remove(&replica.memory, address);
            // The first round writes zeros over zeros.
            let mut registers = replica.registers().unwrap();
            registers.set("rax", 7);
            replica.frozen.set_registers(&registers).unwrap();
            let repeat = Repeat::at(&replica, address).unwrap();
            let mut ahead = Replica::new(replica.fork().unwrap(), replica.event()).unwrap();
            let way = Way { rounds: 8129, ahead: 63 };
            assert_eq!(repeat.go(&mut ahead, context.log, way).unwrap(), None);
            let state = State::of(&ahead.frozen).unwrap();
            assert_eq!(state.register("rcx"), registers.get("rcx").unwrap() - 8129);
            let found = repeat.leads_to(&mut replica, context.log, &state).unwrap();
            assert!(matches!(found, Some(Way { rounds: 8129, ahead: 63 })), "{found:?}");
            // What it would not write itself is another state.
            ahead.memory.write(registers.get("rdi").unwrap() + 9000, &[1]).unwrap();
            assert!(repeat.leads_to(&mut replica, context.log, &state).unwrap().is_none());
        });
    }
}
