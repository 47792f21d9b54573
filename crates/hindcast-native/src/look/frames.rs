//! Call stacks: physical frames by unwinding, and the inlined calls within each.

use hindcast_core::debug::{Frame, Location, RuntimeAddr};
use hindcast_symbols::{InlineFrame, Registers};

use super::{Scene, code::read_code};
use crate::sys::{GeneralRegisters, SYSCALL, SYSCALL_LENGTH};

/// A frame that really is on the stack.
#[derive(Debug, Clone)]
pub(crate) struct PhysicalFrame {
    pub(crate) registers: Registers,
    pub(crate) pc: u64,
    /// Whether `pc` is where a call returns to: then the call itself is before it.
    pub(crate) is_return: bool,
    /// The value that the stack pointer has when this frame has returned.
    pub(crate) cfa: Option<u64>,
    /// Whether the system made it, to call a signal handler.
    pub(crate) signal: bool,
}

impl PhysicalFrame {
    /// An address within the instruction that is executing or calling.
    pub(crate) fn code_address(&self) -> u64 {
        if self.is_return { self.pc.wrapping_sub(1) } else { self.pc }
    }
}

/// A frame as the source has it.
#[derive(Debug, Clone)]
pub(crate) struct LogicalFrame {
    /// The physical one that it is part of.
    pub(crate) physical: usize,
    /// Absent where the symbols know nothing.
    pub(crate) source: Option<InlineFrame>,
}

/// A stack, or the inner part of one.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) physical: Vec<PhysicalFrame>,
    pub(crate) logical: Vec<LogicalFrame>,
    /// Whether there are more.
    pub(crate) more: bool,
    /// Why it could not be followed further.
    pub(crate) broken: Option<String>,
}

/// Follows the stack from `registers` for at most `limit` frames. The first `hidden` inlined calls are
/// left out: those that begin right here, and that the user has not stepped into.
pub(crate) fn walk(scene: &Scene<'_>, registers: &GeneralRegisters, hidden: usize, limit: usize) -> Walk {
    let mut walk = Walk::default();
    let mut current = known(scene, registers);
    let mut is_return = false;
    while let Some(pc) = current.pc() {
        let mut frame = PhysicalFrame { registers: current, pc, is_return, cfa: None, signal: false };
        let step = scene.symbols.unwind(&current, scene.memory, is_return);
        if let Ok(Some(unwound)) = &step {
            frame.cfa = Some(unwound.cfa);
            frame.signal = unwound.signal_frame;
        }
        let physical = walk.physical.len();
        let mut sources = scene.symbols.frames_at(frame.code_address());
        if physical == 0 {
            sources.drain(..hidden.min(sources.len().saturating_sub(1)));
        }
        walk.physical.push(frame);
        if sources.is_empty() {
            walk.logical.push(LogicalFrame { physical, source: None });
        }
        walk.logical
            .extend(sources.into_iter().map(|source| LogicalFrame { physical, source: Some(source) }));
        match step {
            Ok(Some(unwound)) => {
                // The stack only gets shorter towards the outside; the same place again is a loop.
                if walk.physical.len() > 1 && unwound.registers == current {
                    walk.broken = Some("the stack repeats itself".into());
                    break;
                }
                // After a signal frame comes the interrupted instruction itself, not a return address.
                is_return = !unwound.signal_frame;
                current = unwound.registers;
            }
            Ok(None) => break,
            Err(error) => {
                walk.broken = Some(error.to_string());
                break;
            }
        }
        if walk.logical.len() >= limit {
            walk.more = current.pc().is_some_and(|pc| pc != 0);
            break;
        }
    }
    if walk.logical.len() > limit {
        walk.logical.truncate(limit);
        walk.more = true;
    }
    walk
}

/// The registers, without those whose value is lost. The copy of a thread that waits in a system call stands before that call
/// once more, after the processor has overwritten `rcx` and `r11` for it; a loop around a call looks the same.
fn known(scene: &Scene<'_>, registers: &GeneralRegisters) -> Registers {
    const RCX: u16 = 2;
    const R11: u16 = 11;
    let mut known = Registers::all(registers.dwarf());
    let pc = registers.pc();
    let is_overwritten = known.get(RCX) == pc.checked_add(SYSCALL_LENGTH);
    if is_overwritten && read_code(scene.memory, pc, SYSCALL.len()) == SYSCALL {
        known.set(RCX, None);
        known.set(R11, None);
    }
    known
}

impl Walk {
    /// The frames as they are told.
    pub(crate) fn frames(&self, scene: &Scene<'_>) -> Vec<Frame> {
        let describe = |(index, logical): (usize, &LogicalFrame)| {
            let physical = &self.physical[logical.physical];
            let location = location(scene, physical, logical.source.as_ref());
            let start = logical.source.as_ref().map(|source| source.start);
            Frame {
                index: u32::try_from(index).unwrap_or(u32::MAX),
                offset: start.and_then(|start| physical.pc.checked_sub(start)),
                inlined: logical.source.as_ref().is_some_and(|source| source.inlined),
                signal: physical.signal,
                awaiting: false,
                location,
            }
        };
        self.logical.iter().enumerate().map(describe).collect()
    }
}

fn location(scene: &Scene<'_>, physical: &PhysicalFrame, source: Option<&InlineFrame>) -> Location {
    let file = source.and_then(|source| source.file.as_deref());
    let (module, library) = scene.image.whose(physical.code_address(), scene.main, file);
    let address = Some(RuntimeAddr(physical.pc));
    match source {
        None => Location { module, library, address, ..Location::default() },
        Some(source) => Location {
            file: file.map(str::to_owned),
            line: source.line,
            column: source.column,
            function: source.function.clone(),
            module,
            library,
            address,
        },
    }
}
