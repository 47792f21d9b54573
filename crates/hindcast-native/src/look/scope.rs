//! A frame from the inside: the names it sees, its registers, its memory.

use std::cell::{Cell, OnceCell};

use hindcast_core::debug::DebugError;
use hindcast_symbols::{
    FrameContext, InlineFrame, Memory, Registers, VariableInfo, Viewpoint,
    expression::{self, Expression, ExpressionError, Global, Scope},
    types::{Language, ModuleId},
    value::{Absence, DerivedTypes, Placed, Storage},
};

use super::{PhysicalFrame, Scene, ThreadScene, walk};
use crate::sys::VectorRegisters;

/// The flag by which the processor knows that it goes on after a fault: programs never see it.
const RESUMES: u64 = 1 << 16;

/// A frame of a thread.
pub(crate) struct FrameScope<'a> {
    pub(crate) scene: &'a Scene<'a>,
    thread: &'a ThreadScene,
    physical: PhysicalFrame,
    source: Option<InlineFrame>,
    pub(crate) types: DerivedTypes<'a>,
    /// The physical frame that called this one, once somebody asked.
    caller: OnceCell<Option<Box<FrameScope<'a>>>>,
    locals: OnceCell<Vec<VariableInfo>>,
    /// Whether registers are those of another moment, so that nothing that is in one is known.
    is_fixed: bool,
    /// Whether a local was asked for.
    used_locals: Cell<bool>,
}

/// In the order of their DWARF numbers.
pub(super) const GENERAL: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip",
];
/// DWARF numbers of `xmm0`, `st0`, `xmm16` and `k0`.
const FIRST_XMM: u16 = 17;
const FIRST_X87: u16 = 33;
const FIRST_UPPER_XMM: u16 = 67;
const FIRST_MASK: u16 = 118;

impl<'a> FrameScope<'a> {
    /// The frame number `index`, from 0 for the innermost.
    pub(crate) fn enter(
        scene: &'a Scene<'a>,
        thread: &'a ThreadScene,
        index: u32,
    ) -> Result<Self, DebugError> {
        let walk = walk(scene, &thread.registers, thread.hidden, index as usize + 1);
        let frames = u32::try_from(walk.logical.len()).unwrap_or(u32::MAX);
        let logical = walk.logical.get(index as usize).ok_or(DebugError::NoSuchFrame { index, frames })?;
        let physical = walk.physical[logical.physical].clone();
        let source = logical.source.clone();
        Ok(Self::new(scene, thread, physical, source))
    }

    fn new(
        scene: &'a Scene<'a>,
        thread: &'a ThreadScene,
        physical: PhysicalFrame,
        source: Option<InlineFrame>,
    ) -> Self {
        let types = DerivedTypes::new(scene.symbols);
        Self {
            scene,
            thread,
            physical,
            source,
            types,
            caller: OnceCell::new(),
            locals: OnceCell::new(),
            is_fixed: false,
            used_locals: Cell::new(false),
        }
    }

    /// A frame that was looked at when the program stood elsewhere: only what it keeps in memory is known.
    pub(crate) fn fixed(
        scene: &'a Scene<'a>,
        thread: &'a ThreadScene,
        physical: PhysicalFrame,
        source: Option<InlineFrame>,
    ) -> Self {
        Self { is_fixed: true, ..Self::new(scene, thread, physical, source) }
    }

    /// Whether a local was asked for.
    pub(crate) fn used_locals(&self) -> bool {
        self.used_locals.get()
    }

    fn unwound(&self) -> Option<Box<Self>> {
        let unwind = |registers: &Registers, is_return| {
            self.scene.symbols.unwind(registers, self.scene.memory, is_return).ok().flatten()
        };
        let caller = unwind(&self.physical.registers, self.physical.is_return)?;
        // What a signal interrupted passed nothing.
        if caller.signal_frame {
            return None;
        }
        let cfa = unwind(&caller.registers, true).map(|unwound| unwound.cfa);
        let pc = caller.registers.pc()?;
        let physical = PhysicalFrame { registers: caller.registers, pc, is_return: true, cfa, signal: false };
        Some(Box::new(Self::new(self.scene, self.thread, physical, None)))
    }

    fn is_innermost(&self) -> bool {
        !self.physical.is_return && self.physical.pc == self.thread.registers.pc()
    }

    /// By its DWARF number, where this frame's value is known.
    pub(crate) fn general(&self, number: u16) -> Option<u64> {
        self.physical.registers.get(number)
    }

    /// A register that is only known for the innermost frame.
    pub(crate) fn innermost(&self, name: &str) -> Option<u64> {
        // Segment bases are the thread's, whatever the frame.
        let known = self.is_innermost() || name.ends_with("_base");
        let value = known.then(|| self.thread.registers.get(name)).flatten()?;
        Some(if name == "eflags" { value & !RESUMES } else { value })
    }

    /// Callees may change all of them, so that outer frames have none.
    pub(crate) fn vectors(&self) -> Option<&VectorRegisters> {
        self.thread.vectors.as_ref().filter(|_| self.is_innermost())
    }

    /// Whether the processor has registers of this kind, also where this frame's values are not known.
    pub(crate) fn processor_has(&self, kind: impl Fn(&VectorRegisters) -> bool) -> bool {
        self.thread.vectors.as_ref().is_some_and(kind)
    }

    /// Arguments and locals, inner scopes first.
    pub(crate) fn locals(&self) -> Vec<VariableInfo> {
        self.known_locals().to_vec()
    }

    fn known_locals(&self) -> &[VariableInfo] {
        self.locals.get_or_init(|| {
            self.source.as_ref().map_or_else(Vec::new, |source| self.scene.symbols.variables(source))
        })
    }

    /// Where names are looked up: in what is inlined, not in what it is inlined in.
    fn viewpoint(&self) -> Viewpoint {
        match &self.source {
            Some(source) => source.into(),
            None => self.physical.code_address().into(),
        }
    }

    /// Globals and statics of the frame's source file.
    pub(crate) fn globals(&self) -> Vec<VariableInfo> {
        self.scene.symbols.globals(self.viewpoint())
    }

    /// Where a variable is now.
    pub(crate) fn place(&self, variable: &VariableInfo) -> Placed {
        Placed::in_frame(self.scene.symbols, &self.types, variable, self)
    }

    /// Where the value of an expression is.
    pub(crate) fn place_of(&self, text: &str) -> Result<Placed, ExpressionError> {
        Expression::parse(text)?.place(self)
    }

    /// Names of variables that begin with `prefix`.
    pub(crate) fn names_with(&self, prefix: &str, limit: usize) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| name.starts_with(prefix));
        names.truncate(limit);
        names
    }
}

impl FrameContext for FrameScope<'_> {
    fn register(&self, number: u16) -> Option<Vec<u8>> {
        match number {
            0..=16 => self.general(number).map(|value| value.to_le_bytes().to_vec()),
            FIRST_XMM..FIRST_X87 => self.vectors()?.widest(usize::from(number - FIRST_XMM)),
            FIRST_UPPER_XMM..83 => self.vectors()?.widest(usize::from(number - FIRST_UPPER_XMM) + 16),
            FIRST_MASK..126 => self.vectors()?.mask(usize::from(number - FIRST_MASK)).map(Vec::from),
            FIRST_X87..=40 => self.vectors()?.x87(usize::from(number - FIRST_X87)).map(Vec::from),
            _ => None,
        }
    }

    fn memory(&self) -> &dyn Memory {
        self.scene.memory
    }

    fn tls_address(&self, module: ModuleId, offset: u64) -> Option<u64> {
        let fs_base = self.thread.registers.fs_base();
        self.scene.image.thread_local(module, offset, fs_base, self.scene.main, self.scene.memory)
    }

    fn cfa(&self) -> Option<u64> {
        self.physical.cfa
    }

    fn pc(&self) -> u64 {
        self.physical.code_address()
    }

    fn caller(&self) -> Option<&dyn FrameContext> {
        let caller = self.caller.get_or_init(|| self.unwound());
        caller.as_deref().map(|caller| caller as &dyn FrameContext)
    }
}

impl Scope for FrameScope<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        let variable = expression::visible(self.known_locals(), name)?;
        self.used_locals.set(true);
        let placed = self.place(variable);
        let is_known = !self.is_fixed || matches!(placed.storage, Storage::Memory(_));
        Some(if is_known { placed } else { Placed::gone(placed.type_ref, Absence::OptimisedOut) })
    }

    fn global(&self, name: &str) -> Option<Global> {
        Global::named(self.scene.symbols, name, self.viewpoint(), self)
    }

    fn register(&self, name: &str) -> Option<expression::Register> {
        if self.is_fixed { None } else { super::registers::named(self, name) }
    }

    fn language(&self) -> Language {
        self.source.as_ref().map(|source| source.language).unwrap_or_default()
    }

    fn types(&self) -> &DerivedTypes<'_> {
        &self.types
    }

    fn memory(&self) -> &dyn Memory {
        self.scene.memory
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.locals().into_iter().chain(self.globals()).map(|variable| variable.name).collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }
}
