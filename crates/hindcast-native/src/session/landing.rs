//! Steps over calls that do not return, because they throw.
//!
//! Every unwinder tells its caller's language where to go on through `_Unwind_SetIP`, once for each
//! frame that has something to do: a handler, or a clean-up. A step that runs over a call listens
//! there, and stops where the exception lands in its own frame or in one further out.

use hindcast_core::debug::DebugError;

use super::{Session, step::StepPlan, system};
use crate::sys::Tid;

const SET_LANDING: &str = "_Unwind_SetIP";

/// Breakpoint instructions of a step that is running over a call.
#[derive(Debug, Default)]
pub(super) struct Landings {
    /// Where unwinders say where an exception lands.
    told_at: Vec<u64>,
    /// Where exceptions that are under way land.
    known: Vec<u64>,
}

impl Landings {
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.told_at.iter().chain(&self.known).copied()
    }
}

impl Session {
    /// Listens to the unwinders that are loaded.
    pub(super) fn expect_landings(&mut self) -> Landings {
        let symbols = &self.symbols;
        let unwinders = self.landings.get_or_insert_with(|| symbols.symbol_addresses(SET_LANDING)).clone();
        // Without one of them, an exception that comes through it is not seen.
        let told_at =
            unwinders.into_iter().filter(|&at| self.process.insert_breakpoint(at).is_ok()).collect();
        Landings { told_at, known: Vec::new() }
    }

    /// A thread reached a breakpoint instruction; whether that was about an exception.
    pub(super) fn caught_in_step(
        &mut self,
        plan: &mut StepPlan,
        tid: Tid,
        address: u64,
    ) -> Result<bool, DebugError> {
        let thread = plan.thread();
        let Some((landings, shortest)) = plan.landings() else { return Ok(false) };
        let registers = self.process.registers(tid).map_err(system)?;
        if landings.told_at.contains(&address) {
            // The second argument.
            let landing = registers.get("rsi").filter(|_| tid == thread);
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
