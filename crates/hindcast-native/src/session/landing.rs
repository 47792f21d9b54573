//! Steps over calls that do not return, because they throw or jump away.
//!
//! Every unwinder tells its caller's language where to go on through `_Unwind_SetIP`, once for each
//! frame that has something to do: a handler, or a clean-up. C's `longjmp` is given where to go on. A
//! step that runs over a call listens there, and stops where the exception or the jump lands in its
//! own frame or in one further out.

use hindcast_core::debug::DebugError;
use hindcast_symbols::{Memory, Symbols};

use super::{Session, step::StepPlan, system};
use crate::sys::{GeneralRegisters, Tid};

/// A function that is told where a thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Teller {
    pub(super) address: u64,
    kind: TellerKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TellerKind {
    /// By its second argument.
    Unwinder,
    /// By what `setjmp` has put behind its first.
    LongJump,
}

impl Teller {
    /// Where a thread goes on that has just called this.
    pub(super) fn told(
        self,
        symbols: &Symbols,
        memory: &dyn Memory,
        registers: &GeneralRegisters,
    ) -> Option<u64> {
        if self.kind == TellerKind::Unwinder {
            return registers.get("rsi");
        }
        let kept = memory.read_pointer(registers.get("rdi")?.wrapping_add(JUMP_TARGET)).ok()?;
        // Not every C library hides it.
        if symbols.function_at(kept).is_some() {
            return Some(kept);
        }
        let guard = memory.read_pointer(registers.fs_base().wrapping_add(POINTER_GUARD)).ok()?;
        Some(kept.rotate_right(17) ^ guard)
    }
}

/// Some are names of the same function.
const TELLERS: [(&str, TellerKind); 5] = [
    ("_Unwind_SetIP", TellerKind::Unwinder),
    ("longjmp", TellerKind::LongJump),
    ("_longjmp", TellerKind::LongJump),
    ("siglongjmp", TellerKind::LongJump),
    ("__longjmp_chk", TellerKind::LongJump),
];
/// Where C libraries for x86-64 keep the program counter in a `jmp_buf`.
const JUMP_TARGET: u64 = 0x38;
/// Where the GNU C library keeps what it hides program counters with, from the thread's base on.
const POINTER_GUARD: u64 = 0x30;

/// Breakpoint instructions of a step that is running over a call.
#[derive(Debug, Default)]
pub(super) struct Landings {
    /// Where it is told where a thread goes on.
    tellers: Vec<Teller>,
    /// Where exceptions and jumps that are under way land.
    known: Vec<u64>,
}

impl Landings {
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.tellers.iter().map(|teller| teller.address).chain(self.known.iter().copied())
    }
}

impl Session {
    /// The unwinders and jumps that are loaded.
    pub(super) fn tellers(&mut self) -> Vec<Teller> {
        let symbols = &self.symbols;
        let find = || {
            let mut tellers: Vec<Teller> = Vec::new();
            for (index, address) in symbols.symbol_addresses(&TELLERS.map(|(name, _)| name)) {
                if tellers.iter().all(|known| known.address != address) {
                    tellers.push(Teller { address, kind: TELLERS[index].1 });
                }
            }
            tellers
        };
        self.tellers.get_or_insert_with(find).clone()
    }

    /// Listens to them.
    pub(super) fn expect_landings(&mut self) -> Landings {
        let mut tellers = self.tellers();
        // Without one of them, what comes through it is not seen.
        tellers.retain(|teller| self.process.insert_breakpoint(teller.address).is_ok());
        Landings { tellers, known: Vec::new() }
    }

    /// A thread reached a breakpoint instruction; whether that was about an exception or a jump.
    pub(super) fn caught_in_step(
        &mut self,
        plan: &mut StepPlan,
        tid: Tid,
        address: u64,
    ) -> Result<bool, DebugError> {
        let thread = plan.thread();
        let Some((landings, shortest)) = plan.landings() else { return Ok(false) };
        let registers = self.process.registers(tid).map_err(system)?;
        if let Some(&teller) = landings.tellers.iter().find(|teller| teller.address == address) {
            let landing = teller.told(&self.symbols, &self.process.memory(), &registers);
            let landing = landing.filter(|_| tid == thread);
            if let Some(landing) = landing.filter(|landing| !landings.known.contains(landing))
                && self.process.insert_breakpoint(landing).is_ok()
            {
                landings.known.push(landing);
            }
            return Ok(true);
        }
        if !landings.known.contains(&address) || tid != thread || registers.sp() < shortest {
            return Ok(false);
        }
        self.end_run_of_step(plan);
        if self.visible_line(address).is_none() {
            self.run_to_known_code(plan)?;
        } else if self.symbols.line_at(address).is_some() {
            self.step_done(plan);
        } else {
            // clang counts the first instructions of a landing to no line.
            self.go_on_from_landing(plan)?;
        }
        Ok(true)
    }
}
