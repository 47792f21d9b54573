//! Steps: one instruction, to the next line, over calls, out of a function.
//!
//! A line step goes instruction by instruction and runs over calls to a breakpoint where they return.
//! That breakpoint counts only once the stack is as short as before the call, so that a recursion
//! does not end it too early.

use std::{ops::Range, sync::Arc};

use hindcast_core::debug::{DebugError, Granularity, Stop};
use hindcast_symbols::{InlineFrame, LineRow, Memory};

use super::{Session, hits::Hit, landing::Landings, system};
use crate::{
    look::{Scene, walk},
    process::Halt,
    sys::Tid,
};

/// Some steps of one thread.
#[derive(Debug)]
pub(super) struct StepPlan {
    thread: Tid,
    granularity: Granularity,
    remaining: u32,
    stage: Stage,
    /// Where the current step began; absent before it has.
    origin: Option<Origin>,
    /// Instructions executed one by one since the step began.
    instructions: u32,
    /// Whether an exception has brought it to another frame: the next line there ends it.
    landed: bool,
    /// Another line of which the compiler has moved something into the one to be left.
    moved_in: Option<(Option<Arc<str>>, u32)>,
    /// Whether it began in code without source: where that returns to ends it, if nothing better does.
    from_unknown: bool,
}

#[derive(Debug)]
enum Stage {
    /// Instruction by instruction.
    Single { from: u64, stack: u64 },
    /// To a breakpoint instruction.
    Running(RunningTo),
}

#[derive(Debug)]
struct RunningTo {
    address: u64,
    /// It counts only when the stack pointer is not below this.
    stack: u64,
    /// Whether the step is done there, or goes on instruction by instruction.
    ends: bool,
    landings: Landings,
}

impl RunningTo {
    fn new(address: u64, stack: u64, ends: bool) -> Self {
        Self { address, stack, ends, landings: Landings::default() }
    }
}

/// The line that a step leaves.
#[derive(Debug)]
struct Origin {
    line: Option<(Option<Arc<str>>, u32)>,
    /// The piece of that line's code at the current place.
    range: Range<u64>,
    /// Whether an inlined call begins at the current place, and is stepped over: its code counts to
    /// the range in the table, but not here.
    at_call: bool,
    /// Whether the line, or a part of it that counts by itself, starts at the current place.
    starts: bool,
    /// Whether a statement begins there.
    is_statement: bool,
    /// What the stack pointer is when the function has returned.
    cfa: Option<u64>,
    /// Inlined functions around the current place, outermost first, by their beginning.
    inlined: Vec<u64>,
}

/// So many instructions with the other threads standing still; then they may be what is waited for.
const ALONE: u32 = 20_000;
const LONGEST_INSTRUCTION: u64 = 15;

impl StepPlan {
    pub(super) fn new(thread: Tid, granularity: Granularity, count: u32) -> Self {
        Self {
            thread,
            granularity,
            remaining: count,
            stage: Stage::Single { from: 0, stack: 0 },
            origin: None,
            instructions: 0,
            landed: false,
            moved_in: None,
            from_unknown: false,
        }
    }

    pub(super) fn thread(&self) -> Tid {
        self.thread
    }

    /// Where its breakpoint instructions are.
    pub(super) fn targets(&self) -> Vec<u64> {
        match &self.stage {
            Stage::Single { .. } => Vec::new(),
            Stage::Running(to) => std::iter::once(to.address).chain(to.landings.addresses()).collect(),
        }
    }

    /// While it runs to a breakpoint instruction: where exceptions land, and how short the stack must
    /// be there.
    pub(super) fn landings(&mut self) -> Option<(&mut Landings, u64)> {
        match &mut self.stage {
            Stage::Single { .. } => None,
            Stage::Running(to) => Some((&mut to.landings, to.stack)),
        }
    }

    /// Whether a breakpoint instruction that `tid` reached ends the run to it.
    fn arrives(&self, tid: Tid, address: u64, stack: u64) -> Option<bool> {
        match &self.stage {
            Stage::Running(to) if tid == self.thread && address == to.address && stack >= to.stack => {
                Some(to.ends)
            }
            _ => None,
        }
    }
}

impl Session {
    /// Makes the next movement of the plan; `None` when it is done.
    pub(super) fn next_of_step(&mut self, plan: &mut StepPlan) -> Result<Option<Halt>, DebugError> {
        if plan.remaining == 0 {
            return Ok(None);
        }
        if plan.origin.is_none() {
            if self.enter_inlined(plan) {
                return self.next_of_step(plan);
            }
            let origin = self.origin(plan.thread)?;
            plan.from_unknown = origin.line.is_none();
            plan.moved_in = None;
            plan.origin = Some(origin);
            plan.instructions = 0;
            if plan.granularity == Granularity::Out {
                self.run_out(plan)?;
            }
        }
        let halt = match &mut plan.stage {
            Stage::Running(_) => self.run_watching(),
            Stage::Single { from, stack } => {
                let registers = self.process.registers(plan.thread).map_err(system)?;
                (*from, *stack) = (registers.pc(), registers.sp());
                plan.instructions += 1;
                if plan.instructions > ALONE {
                    self.process.step_with_others(plan.thread)
                } else {
                    self.process.step(plan.thread)
                }
            }
        };
        halt.map(Some).map_err(system)
    }

    /// A step into a call that is inlined right here moves nothing: it only shows one frame more.
    fn enter_inlined(&mut self, plan: &mut StepPlan) -> bool {
        let enters = plan.granularity == Granularity::Line && self.shows_hidden(plan.thread);
        if enters {
            self.hidden -= 1;
            self.step_done(plan);
        }
        enters
    }

    /// Whether the inlined call that begins right here has a source to be shown.
    fn shows_hidden(&self, tid: Tid) -> bool {
        let Ok(registers) = self.process.registers(tid) else { return false };
        let frames = self.symbols.frames_at(registers.pc());
        let inner = self.hidden.checked_sub(1).and_then(|inner| frames.get(inner));
        inner.and_then(|inner| inner.file.clone()).is_some_and(|file| self.is_visible(file))
    }

    /// A breakpoint instruction was reached that is none of the user's.
    pub(super) fn reached_in_step(
        &mut self,
        plan: &mut StepPlan,
        tid: Tid,
        address: u64,
    ) -> Result<(), DebugError> {
        let stack = self.process.registers(tid).map_err(system)?.sp();
        if self.caught_in_step(plan, tid, address)? {
            return Ok(());
        }
        let Some(ends) = plan.arrives(tid, address, stack) else { return Ok(()) };
        self.end_run_of_step(plan);
        if ends {
            self.step_done(plan);
        } else if let Some(origin) = &plan.origin
            && !origin.range.contains(&address)
        {
            // The call was the last of its line.
            self.considered(plan)?;
        }
        Ok(())
    }

    /// The call that a thread made has begun another program: that is one instruction.
    pub(super) fn step_into_program(&mut self, plan: &mut StepPlan) {
        if plan.granularity == Granularity::Instruction {
            plan.thread = self.current;
            self.step_done(plan);
        }
    }

    /// A thread made a step; a stop where the user's breakpoints say so.
    pub(super) fn stepped(&mut self, plan: &mut StepPlan, tid: Tid) -> Result<Option<Stop>, DebugError> {
        if tid != plan.thread {
            return Ok(None);
        }
        let registers = self.process.registers(tid).map_err(system)?;
        let pc = registers.pc();
        if self.breakpoints.is_at(pc)
            && let Hit::Stop(stop) = self.hits_at(tid, pc)?
        {
            return Ok(Some(*stop));
        }
        if plan.granularity == Granularity::Instruction {
            self.step_done(plan);
            return Ok(None);
        }
        let Stage::Single { from, stack } = plan.stage else { return Ok(None) };
        if let Some(return_address) = self.called(from, stack, pc, registers.sp()) {
            self.enter(plan, pc, return_address, stack)?;
            return Ok(None);
        }
        let inside = |origin: &Origin| {
            origin.range.contains(&pc)
                && (!origin.at_call || inlined(&self.symbols.frames_at(pc)) == origin.inlined)
        };
        if !plan.origin.as_ref().is_some_and(inside) {
            self.considered(plan)?;
        }
        Ok(None)
    }

    /// Where the call that was just executed returns to, if it was one.
    fn called(&self, from: u64, stack_before: u64, pc: u64, stack: u64) -> Option<u64> {
        let follows = |address: u64| address > from && address - from <= LONGEST_INSTRUCTION;
        if stack.wrapping_add(8) != stack_before {
            return None;
        }
        let return_address = self.process.memory().read_pointer(stack).ok()?;
        (follows(return_address) && return_address != pc).then_some(return_address)
    }

    /// After a call: into it, or over it.
    fn enter(
        &mut self,
        plan: &mut StepPlan,
        pc: u64,
        return_address: u64,
        stack: u64,
    ) -> Result<(), DebugError> {
        let into = plan.granularity == Granularity::Line;
        let target = if into { self.code_with_lines(pc) } else { None };
        match target {
            Some(address) if address == pc => {
                self.step_done(plan);
                Ok(())
            }
            Some(address) => self.run_to_in_step(plan, RunningTo::new(address, 0, true)),
            None => self.run_to_in_step(plan, RunningTo::new(return_address, stack, false)),
        }
    }

    /// Where to stop in the function that begins at `pc`, if its source is known.
    fn code_with_lines(&self, pc: u64) -> Option<u64> {
        let pc = self.through_stub(pc)?;
        let function = self.symbols.function_at(pc)?;
        self.visible_line(function.after_prologue)?;
        Some(function.after_prologue)
    }

    /// Where a call really goes that went to a linkage stub: those jump through a table.
    fn through_stub(&self, pc: u64) -> Option<u64> {
        if self.symbols.line_at(pc).is_some() {
            return Some(pc);
        }
        let memory = self.process.memory();
        let mut at = pc;
        for _ in 0..3 {
            let instruction = crate::look::decode(&memory, at)?;
            if instruction.is_jmp_far_indirect() {
                return None;
            }
            if instruction.is_jmp_near_indirect() && instruction.is_ip_rel_memory_operand() {
                return memory.read_pointer(instruction.ip_rel_memory_address()).ok();
            }
            at = instruction.next_ip();
        }
        None
    }

    fn run_to_in_step(&mut self, plan: &mut StepPlan, mut to: RunningTo) -> Result<(), DebugError> {
        self.insert_all(&[to.address])?;
        to.landings = self.expect_landings();
        plan.stage = Stage::Running(to);
        Ok(())
    }

    /// The run is over: what is left of the step is made instruction by instruction.
    pub(super) fn end_run_of_step(&mut self, plan: &mut StepPlan) {
        for address in plan.targets() {
            self.process.remove_breakpoint(address);
        }
        plan.stage = Stage::Single { from: 0, stack: 0 };
    }

    pub(super) fn step_done(&mut self, plan: &mut StepPlan) {
        plan.remaining -= 1;
        plan.origin = None;
        plan.landed = false;
    }

    /// On to the first line behind a place where an exception landed.
    pub(super) fn go_on_from_landing(&mut self, plan: &mut StepPlan) -> Result<(), DebugError> {
        plan.origin = Some(Origin { line: None, ..self.origin(plan.thread)? });
        plan.landed = true;
        Ok(())
    }

    /// The thread left the code it was in: is that the next line?
    fn considered(&mut self, plan: &mut StepPlan) -> Result<(), DebugError> {
        // An inlined call that begins right here is seen from its caller first.
        self.hidden = self.inlined_from_here(plan.thread);
        let here = self.origin(plan.thread)?;
        let Some(origin) = &mut plan.origin else { return Ok(()) };
        let registers = self.process.registers(plan.thread).map_err(system)?;
        let returned = origin.cfa.is_some_and(|cfa| registers.sp() >= cfa);
        if returned && here.line.is_none() {
            return self.run_to_known_code(plan);
        }
        let deeper = here.inlined.len() > origin.inlined.len() && here.inlined.starts_with(&origin.inlined);
        let same_depth = !returned && here.inlined == origin.inlined;
        if plan.granularity == Granularity::Out && !plan.landed {
            let shallower =
                here.inlined.len() < origin.inlined.len() && origin.inlined.starts_with(&here.inlined);
            if returned || shallower {
                self.step_done(plan);
            }
            return Ok(());
        }
        if here.line.is_none() {
            return Ok(());
        }
        let same_line = here.line == origin.line;
        let here_line = here.line.clone();
        if !returned && deeper {
            // In the middle of a function that was inlined into this line.
            if plan.granularity == Granularity::Line && !same_line {
                self.step_done(plan);
            }
        } else if same_depth && same_line && self.hidden > 0 {
            // A call that was inlined into this line.
            if plan.granularity == Granularity::Line && self.shows_hidden(plan.thread) {
                self.hidden -= 1;
                self.step_done(plan);
            }
        } else if same_depth && self.hidden > 0 {
            // A call is a statement of its own, whatever the compiler made of it.
            self.step_done(plan);
        } else if here.starts && !same_line {
            if here.is_statement {
                self.step_done(plan);
            } else if !same_depth {
                // Back in a caller: whatever statement comes next there is a new one.
                *origin = Origin { line: None, ..here };
            }
            // Otherwise the line before is still the one to be left: should it go on behind what was
            // moved into it, nothing was left.
            plan.moved_in = here_line;
        } else if same_depth && plan.moved_in.is_some() && plan.moved_in == here_line {
            // The rest of that.
        } else {
            // Another piece of the same line, or the middle of one, as after a return: its rest is
            // not a line of its own.
            *origin = here;
        }
        Ok(())
    }

    /// Out of code without source, to whoever called it from code with source.
    pub(super) fn run_to_known_code(&mut self, plan: &mut StepPlan) -> Result<(), DebugError> {
        let registers = self.process.registers(plan.thread).map_err(system)?;
        let memory = self.process.memory();
        let scene = Scene { symbols: &self.symbols, image: &self.image, memory: &memory, main: self.main };
        let stack = walk(&scene, &registers, 0, 64);
        let known = stack.physical.windows(2).find_map(|pair| {
            let [inner, outer] = pair else { return None };
            self.visible_line(outer.code_address()).and(inner.cfa).map(|cfa| (outer.pc, cfa))
        });
        match known {
            Some((address, stack)) => self.run_to_in_step(plan, RunningTo::new(address, stack, false)),
            None if plan.from_unknown => {
                self.step_done(plan);
                Ok(())
            }
            None => {
                // Nobody left who could be stepped in: on to the end, or to what stops it before.
                plan.stage = Stage::Running(RunningTo::new(u64::MAX, u64::MAX, false));
                Ok(())
            }
        }
    }

    fn run_out(&mut self, plan: &mut StepPlan) -> Result<(), DebugError> {
        let Some(origin) = &plan.origin else { return Ok(()) };
        if !origin.inlined.is_empty() {
            // Goes on instruction by instruction, until it is out of the inlined code.
            return Ok(());
        }
        let registers = self.process.registers(plan.thread).map_err(system)?;
        let memory = self.process.memory();
        let scene = Scene { symbols: &self.symbols, image: &self.image, memory: &memory, main: self.main };
        let stack = walk(&scene, &registers, 0, 32);
        let (Some(outer), Some(cfa)) = (stack.physical.get(1), stack.physical[0].cfa) else {
            let reason = stack.broken.unwrap_or_else(|| "this is the outermost frame".into());
            return Err(DebugError::Unsupported(format!("cannot step out: {reason}").into()));
        };
        let to = RunningTo::new(outer.pc, cfa, true);
        self.run_to_in_step(plan, to)
    }

    /// The line at an address, if there is a file to show it in: libraries whose source is elsewhere
    /// are stepped over, whatever symbols they have.
    pub(in crate::session) fn visible_line(&self, address: u64) -> Option<LineRow> {
        let row = self.symbols.line_of_step(address)?;
        self.is_visible(row.file.clone()?).then_some(row)
    }

    fn is_visible(&self, file: Arc<str>) -> bool {
        let mut files = self.source_exists.borrow_mut();
        *files.entry(file).or_insert_with_key(|file| std::path::Path::new(&**file).exists())
    }

    fn origin(&self, tid: Tid) -> Result<Origin, DebugError> {
        let registers = self.process.registers(tid).map_err(system)?;
        let pc = registers.pc();
        let row = self.visible_line(pc);
        let memory = self.process.memory();
        let unwound = self
            .symbols
            .unwind(&hindcast_symbols::Registers::all(registers.dwarf()), &memory, false)
            .ok()
            .flatten();
        let frames = self.symbols.frames_at(pc);
        let hidden = self.hidden.min(frames.len().saturating_sub(1));
        let starts = row.as_ref().is_some_and(|row| row.starts);
        let is_statement = row.as_ref().is_some_and(|row| row.is_stmt);
        let range = row.as_ref().map_or(pc..pc + 1, |row| row.range.clone());
        // Before a call that is inlined here the line is that of the call.
        let line = match (hidden, frames.get(hidden)) {
            (1.., Some(caller)) => {
                let file = caller.file.clone().filter(|file| self.is_visible(file.clone()));
                file.and_then(|file| Some((Some(file), caller.line?)))
            }
            _ => row.map(|row| (row.file, row.line)),
        };
        Ok(Origin {
            line,
            range,
            at_call: hidden > 0,
            starts,
            is_statement,
            cfa: unwound.map(|unwound| unwound.cfa),
            inlined: inlined(&frames[hidden..]),
        })
    }
}

/// Outermost first, by their beginning.
fn inlined(frames: &[InlineFrame]) -> Vec<u64> {
    frames.iter().rev().filter(|frame| frame.inlined).map(|frame| frame.start).collect()
}
