//! From a frame to its caller.

use std::{ops::Range, sync::Arc};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, Encoding, Evaluation, EvaluationResult, Format,
    FrameDescriptionEntry, LittleEndian, Location, Register, RegisterRule, UnwindContext, UnwindSection,
};

use crate::{
    Memory, Symbols,
    dwarf::Slice,
    elf::{ElfFile, SectionData, u32_at},
    error::UnwindError,
    module::LoadedModule,
};

const RBX: u16 = 3;
const RBP: u16 = 6;
const RSP: u16 = 7;
const RIP: u16 = 16;
const COUNT: usize = 17;
/// What a function gives back as it found it.
const CALLEE_SAVED: [u16; 6] = [RBX, RBP, 12, 13, 14, 15];
const MOST_STEPS: u32 = 10_000;

/// The general registers of a frame, by their DWARF numbers; 16 is the program counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    values: [Option<u64>; COUNT],
}

impl Registers {
    /// None of them known.
    pub fn new() -> Self {
        Self::default()
    }

    /// All of them known, as in the innermost frame.
    pub fn all(values: [u64; COUNT]) -> Self {
        Self { values: values.map(Some) }
    }

    /// A register, if it is known.
    pub fn get(&self, dwarf: u16) -> Option<u64> {
        self.values.get(usize::from(dwarf)).copied().flatten()
    }

    /// Sets a register, or forgets it; numbers that are no general register are ignored.
    pub fn set(&mut self, dwarf: u16, value: Option<u64>) {
        if let Some(slot) = self.values.get_mut(usize::from(dwarf)) {
            *slot = value;
        }
    }

    /// The program counter.
    pub fn pc(&self) -> Option<u64> {
        self.get(RIP)
    }

    /// The stack pointer.
    pub fn sp(&self) -> Option<u64> {
        self.get(RSP)
    }
}

/// A frame's caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwound {
    /// The caller's registers; what the frame may have overwritten is not known.
    pub registers: Registers,
    /// The canonical frame address of the frame that was unwound: the caller's stack pointer.
    pub cfa: u64,
    /// Whether the frame that was unwound is the kernel's call of a signal handler: then the caller
    /// was interrupted, and its program counter is not a return address.
    pub signal_frame: bool,
}

/// The sections that tell how to unwind, as read from a module's files.
pub(crate) struct UnwindSections {
    frame_header: (Option<SectionData>, u64),
    frame: (Option<SectionData>, u64),
    debug_frame: Option<SectionData>,
    text: u64,
}

impl UnwindSections {
    fn read(module: &LoadedModule) -> Self {
        let of = |elf: &Arc<ElfFile>, name: &str| {
            let address = elf.section(name).map_or(0, |section| section.address);
            (elf.section_data(name), address)
        };
        let debug_frame = of(&module.elf, ".debug_frame").0.filter(|section| !section.is_empty());
        let separate = || of(&module.separate()?.1, ".debug_frame").0;
        Self {
            frame_header: of(&module.elf, ".eh_frame_hdr"),
            frame: of(&module.elf, ".eh_frame"),
            debug_frame: debug_frame.or_else(separate),
            text: module.elf.section(".text").map_or(0, |section| section.address),
        }
    }
}

impl UnwindSections {
    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default()
            .set_eh_frame_hdr(self.frame_header.1)
            .set_eh_frame(self.frame.1)
            .set_text(self.text)
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut eh_frame = EhFrame::new(self.frame.0.as_deref().unwrap_or_default(), LittleEndian);
        eh_frame.set_address_size(8);
        eh_frame
    }

    /// Where in `.eh_frame` the entry for a file address is, by the sorted table that linkers make.
    fn entry_in_header(&self, address: u64) -> Option<usize> {
        // Version 1, pointers relative to the place and of 32 bits, sorted by address.
        const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let (bytes, base) = (self.frame_header.0.as_deref()?, self.frame_header.1);
        if bytes.get(..4)? != USUAL {
            return None;
        }
        let (rows, _) = bytes.get(12..)?.as_chunks::<8>();
        let rows = rows.get(..u32_at(bytes, 8) as usize)?;
        let relative = |row: &[u8; 8], at: usize| base.wrapping_add_signed(i64::from(u32_at(row, at) as i32));
        let after = rows.partition_point(|row| relative(row, 0) <= address);
        let entry = relative(rows.get(after.checked_sub(1)?)?, 4);
        usize::try_from(entry.checked_sub(self.frame.1)?).ok()
    }
}

impl Symbols {
    /// One physical frame up: `None` at the end of the stack. `return_address` says that the program
    /// counter was found by unwinding, and not through a signal frame.
    pub fn unwind(
        &self,
        registers: &Registers,
        memory: &dyn Memory,
        return_address: bool,
    ) -> Result<Option<Unwound>, UnwindError> {
        let pc = registers.pc().ok_or(UnwindError::NoPc)?;
        if pc == 0 && return_address {
            return Ok(None);
        }
        let lookup = if return_address { pc.wrapping_sub(1) } else { pc };
        let frame = Frame { symbols: self, registers, memory, pc };
        let Some(module) = self.loaded_at(lookup) else { return frame.without_information() };
        match frame.by_tables(module, module.to_file(lookup)) {
            Some(result) => result,
            None => frame.without_information(),
        }
    }
}

impl Symbols {
    /// The code around an address that one entry of the unwinding tables speaks of: mostly a function, also one that no
    /// symbol names.
    pub fn unwound_range(&self, address: u64) -> Option<Range<u64>> {
        let module = self.loaded_at(address)?;
        let sections = module.unwind_bytes.get_or_init(|| UnwindSections::read(module));
        let entry = find_eh_frame(
            module,
            sections,
            &sections.eh_frame(),
            &sections.bases(),
            module.to_file(address),
        )?;
        let start = module.to_runtime(entry.initial_address());
        Some(start..start + entry.len())
    }
}

impl Symbols {
    /// Whether exceptions may land in the code around an address.
    pub fn is_landed_in(&self, address: u64) -> bool {
        let Some(module) = self.loaded_at(address) else { return false };
        let sections = module.unwind_bytes.get_or_init(|| UnwindSections::read(module));
        let (bases, address) = (sections.bases(), module.to_file(address));
        let entry = find_eh_frame(module, sections, &sections.eh_frame(), &bases, address);
        entry.is_some_and(|entry| entry.lsda().is_some())
    }
}

impl Symbols {
    /// The register that the canonical frame address is counted from at an address, and the distance; `None` where the
    /// tables do not say it so, or nothing called the function.
    pub(crate) fn frame_address_rule(&self, address: u64) -> Option<(u16, i64)> {
        let module = self.loaded_at(address)?;
        let sections = module.unwind_bytes.get_or_init(|| UnwindSections::read(module));
        let (bases, eh_frame) = (sections.bases(), sections.eh_frame());
        let address = module.to_file(address);
        let entry = find_eh_frame(module, sections, &eh_frame, &bases, address)?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&eh_frame, &bases, &mut context, address).ok()?;
        let returns = row.register(entry.cie().return_address_register());
        let has_caller = matches!(returns, Some(RegisterRule::Offset(_)));
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } if has_caller => Some((register.0, *offset)),
            _ => None,
        }
    }
}

struct Frame<'s> {
    symbols: &'s Symbols,
    registers: &'s Registers,
    memory: &'s dyn Memory,
    pc: u64,
}

type Step = Result<Option<Unwound>, UnwindError>;

impl Frame<'_> {
    /// By the module's tables; `None` where they say nothing of the address.
    fn by_tables(&self, module: &LoadedModule, address: u64) -> Option<Step> {
        let sections = module.unwind_bytes.get_or_init(|| UnwindSections::read(module));
        let (bases, eh_frame) = (sections.bases(), sections.eh_frame());
        if let Some(entry) = find_eh_frame(module, sections, &eh_frame, &bases, address) {
            return Some(self.by_entry(module, &eh_frame, &bases, &entry, address));
        }
        let mut debug_frame =
            DebugFrame::new(sections.debug_frame.as_deref().unwrap_or_default(), LittleEndian);
        debug_frame.set_address_size(8);
        let entry = debug_frame.fde_for_address(&bases, address, UnwindSection::cie_from_offset).ok()?;
        Some(self.by_entry(module, &debug_frame, &bases, &entry, address))
    }

    fn by_entry<'a, S>(
        &self,
        module: &LoadedModule,
        section: &S,
        bases: &BaseAddresses,
        entry: &FrameDescriptionEntry<Slice<'a>>,
        address: u64,
    ) -> Step
    where
        S: UnwindSection<Slice<'a>>,
    {
        let damaged = || UnwindError::Damaged { pc: self.pc };
        let mut context = UnwindContext::new();
        let row =
            entry.unwind_info_for_address(section, bases, &mut context, address).map_err(|_| damaged())?;
        let expressions = Expressions { frame: self, module, encoding: entry.cie().encoding() };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.register(register.0)?;
                base.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => {
                let expression = expression.get(section).map_err(|_| damaged())?;
                expressions.run(expression, None)?
            }
        };
        let return_register = entry.cie().return_address_register();
        let mut caller = Registers::new();
        for saved in CALLEE_SAVED {
            caller.set(saved, self.registers.get(saved));
        }
        caller.set(RSP, Some(cfa));
        let mut ended = false;
        for &(register, ref rule) in row.registers() {
            let value = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => self.registers.get(register.0),
                RegisterRule::Offset(offset) => {
                    Some(self.memory.read_pointer(cfa.wrapping_add_signed(*offset))?)
                }
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => self.registers.get(other.0),
                RegisterRule::Expression(expression) => {
                    let expression = expression.get(section).map_err(|_| damaged())?;
                    Some(self.memory.read_pointer(expressions.run(expression, Some(cfa))?)?)
                }
                RegisterRule::ValExpression(expression) => {
                    let expression = expression.get(section).map_err(|_| damaged())?;
                    Some(expressions.run(expression, Some(cfa))?)
                }
                RegisterRule::Constant(value) => Some(*value),
                _ => None,
            };
            ended |= register == return_register && *rule == RegisterRule::Undefined;
            caller.set(register.0, value);
        }
        if ended {
            return Ok(None);
        }
        if return_register.0 != RIP {
            caller.set(RIP, caller.get(return_register.0));
        }
        self.finish(caller, cfa, entry.is_signal_trampoline())
    }

    fn finish(&self, caller: Registers, cfa: u64, signal_frame: bool) -> Step {
        let Some(pc) = caller.pc() else { return Err(UnwindError::Register { pc: self.pc, register: RIP }) };
        if pc == 0 {
            return Ok(None);
        }
        // A signal may be handled on another stack; calls only ever go down.
        let below = self.registers.sp().is_some_and(|sp| cfa <= sp);
        if below && !signal_frame {
            return Err(UnwindError::Corrupt { pc: self.pc });
        }
        Ok(Some(Unwound { registers: caller, cfa, signal_frame }))
    }

    fn register(&self, register: u16) -> Result<u64, UnwindError> {
        self.registers.get(register).ok_or(UnwindError::Register { pc: self.pc, register })
    }

    /// Where no table speaks of the address: what the code itself tells.
    fn without_information(&self) -> Step {
        if self.is_signal_return() {
            return self.by_signal_context();
        }
        let guessed = self.after_wild_jump().or_else(|| self.by_frame_pointer());
        guessed.unwrap_or(Err(UnwindError::NoInformation { pc: self.pc }))
    }

    /// A call through a bad pointer: nothing ran yet, so the return address is on top of the stack.
    fn after_wild_jump(&self) -> Option<Step> {
        let outside =
            self.symbols.loaded_at(self.pc).is_none_or(|module| !module.is_code(module.to_file(self.pc)));
        let mut byte = [0];
        let jumped = outside && (self.pc < 0x1_0000 || self.memory.read(self.pc, &mut byte).is_err());
        let sp = self.registers.sp()?;
        let return_address = self.memory.read_pointer(sp).ok().filter(|_| jumped)?;
        if !self.is_code(return_address) {
            return None;
        }
        let mut caller = Registers::new();
        for saved in CALLEE_SAVED {
            caller.set(saved, self.registers.get(saved));
        }
        let cfa = sp.checked_add(8)?;
        caller.set(RSP, Some(cfa));
        caller.set(RIP, Some(return_address));
        Some(self.finish(caller, cfa, false))
    }

    fn by_frame_pointer(&self) -> Option<Step> {
        let (sp, frame) = (self.registers.sp()?, self.registers.get(RBP)?);
        const LARGEST_FRAME: u64 = 16 << 20;
        if !frame.is_multiple_of(8) || frame < sp || frame - sp > LARGEST_FRAME {
            return None;
        }
        let outer = self.memory.read_pointer(frame).ok()?;
        let return_address = self.memory.read_pointer(frame.checked_add(8)?).ok()?;
        if return_address != 0 && !self.is_code(return_address) {
            return None;
        }
        let mut caller = Registers::new();
        let cfa = frame.checked_add(16)?;
        caller.set(RBP, Some(outer));
        caller.set(RSP, Some(cfa));
        caller.set(RIP, Some(return_address));
        Some(self.finish(caller, cfa, false))
    }

    fn is_code(&self, address: u64) -> bool {
        let address = address.wrapping_sub(1);
        self.symbols.loaded_at(address).is_some_and(|module| module.is_code(module.to_file(address)))
    }

    /// Whether execution is at `mov $15, %rax; syscall`, which ends signal handlers.
    fn is_signal_return(&self) -> bool {
        const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        let mut code = [0; 9];
        self.memory.read(self.pc, &mut code).is_ok() && code == SIGNAL_RETURN
    }

    /// The registers that the kernel saved for a signal handler.
    fn by_signal_context(&self) -> Step {
        // r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; behind the context's first 40 bytes.
        const ORDER: [u16; COUNT] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let sp = self.register(RSP)?;
        let mut caller = Registers::new();
        for (at, register) in (0..).zip(ORDER) {
            caller.set(register, Some(self.memory.read_pointer(sp.wrapping_add(40 + at * 8))?));
        }
        let cfa = caller.sp().unwrap_or(0);
        self.finish(caller, cfa, true)
    }
}

fn find_eh_frame<'a>(
    module: &LoadedModule,
    sections: &'a UnwindSections,
    eh_frame: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    address: u64,
) -> Option<FrameDescriptionEntry<Slice<'a>>> {
    let by_table = sections.entry_in_header(address).and_then(|offset| {
        eh_frame.fde_from_offset(bases, offset.into(), UnwindSection::cie_from_offset).ok()
    });
    if let Some(entry) = by_table.filter(|entry| covers(entry, address)) {
        return Some(entry);
    }
    // Without a table, or one that leads nowhere: all entries, once.
    let all = module.unwind_table.get_or_init(|| all_entries(eh_frame, bases));
    let after = all.partition_point(|&(start, ..)| start <= address);
    let &(_, _, offset) = all[..after].iter().rev().take(4).find(|&&(_, end, _)| address < end)?;
    let entry = eh_frame.fde_from_offset(bases, offset.into(), UnwindSection::cie_from_offset).ok()?;
    covers(&entry, address).then_some(entry)
}

/// Whether an entry speaks of an address; damaged ones may reach beyond the last one.
fn covers(entry: &FrameDescriptionEntry<Slice<'_>>, address: u64) -> bool {
    address.checked_sub(entry.initial_address()).is_some_and(|within| within < entry.len())
}

fn all_entries(eh_frame: &EhFrame<Slice<'_>>, bases: &BaseAddresses) -> Vec<(u64, u64, usize)> {
    let mut all = Vec::new();
    let mut entries = eh_frame.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(UnwindSection::cie_from_offset)
        {
            let start = entry.initial_address();
            all.push((start, start.saturating_add(entry.len()), entry.offset()));
        }
    }
    all.sort_unstable();
    all
}

/// Runs the expressions of unwind tables.
struct Expressions<'f> {
    frame: &'f Frame<'f>,
    module: &'f LoadedModule,
    encoding: Encoding,
}

impl Expressions<'_> {
    fn run(
        &self,
        expression: gimli::Expression<Slice<'_>>,
        initial: Option<u64>,
    ) -> Result<u64, UnwindError> {
        let damaged = || UnwindError::Damaged { pc: self.frame.pc };
        let encoding =
            Encoding { address_size: 8, format: Format::Dwarf32, version: self.encoding.version.max(4) };
        let mut evaluation = Evaluation::new(expression.0, encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate().map_err(|_| damaged())?;
        for _ in 0..MOST_STEPS {
            state = match state {
                EvaluationResult::Complete => {
                    return match evaluation.result().first().map(|piece| &piece.location) {
                        Some(&Location::Address { address }) => Ok(address),
                        Some(Location::Value { value }) => value.to_u64(u64::MAX).map_err(|_| damaged()),
                        Some(&Location::Register { register: Register(register) }) => {
                            self.frame.register(register)
                        }
                        _ => Err(damaged()),
                    };
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self.frame.memory.read_uint(address, usize::from(size))?;
                    evaluation.resume_with_memory(gimli::Value::Generic(value))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(gimli::Value::Generic(self.frame.register(register.0)?))
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(self.module.to_runtime(address))
                }
                _ => return Err(damaged()),
            }
            .map_err(|_| damaged())?;
        }
        Err(damaged())
    }
}
