//! Which statement it was that wrote, seen right behind the write.

use std::{cell::RefCell, collections::HashMap, hash::Hash, ops::Range};

use hindcast_core::debug::{Location, RuntimeAddr, Writer};
use hindcast_symbols::{Memory as _, Symbols, types::ModuleId};

use super::travel::function_around;
use crate::{
    debuggee::Sight,
    image::Image,
    look::{self, Scene},
    process::CleanMemory,
    replay::{ReplayError, Replica},
    sys::{GeneralRegisters, SYSCALL_LENGTH},
};

/// Who wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    /// The statement; where the innermost one is not the program's own, that which called it.
    pub(super) location: Location,
    /// The innermost function then.
    pub(super) through: Option<String>,
    pub(super) by: Writer,
}

impl Hash for Author {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.location.file, self.location.line, &self.location.function, &self.through).hash(state);
    }
}

/// Knows the program's code.
pub(super) struct Scribe<'a> {
    pub(super) symbols: &'a Symbols,
    image: &'a Image,
    main: Option<ModuleId>,
    /// By where a program stands right behind them: the instructions that write.
    writers: RefCell<HashMap<u64, Option<u64>>>,
    /// The program's own statements, by their instructions.
    own: RefCell<HashMap<u64, Option<Location>>>,
}

impl<'a> Scribe<'a> {
    pub(super) fn new(symbols: &'a Symbols, image: &'a Image, main: Option<ModuleId>) -> Self {
        Self { symbols, image, main, writers: RefCell::default(), own: RefCell::default() }
    }

    pub(super) fn scene<'m>(&'m self, memory: &'m CleanMemory<'_>) -> Scene<'m> {
        Scene { symbols: self.symbols, image: self.image, memory, main: self.main }
    }

    /// Who did what a replica stands right behind.
    pub(super) fn author(
        &self,
        replica: &Replica,
        sight: Sight,
        written: &[Range<u64>],
    ) -> Result<Author, ReplayError> {
        let registers = replica.registers()?;
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let scene = self.scene(&memory);
        let (address, by) = match sight {
            Sight::Write | Sight::Access => {
                let touched = (written, sight == Sight::Access);
                (self.writer(&memory, &registers, touched), Writer::Program)
            }
            Sight::Event(_) => (registers.pc().saturating_sub(SYSCALL_LENGTH), Writer::Kernel),
            Sight::Jump | Sight::At(_) => (registers.pc(), Writer::Kernel),
        };
        if let Some(location) = self.own_statement(address) {
            return Ok(Author { location, through: None, by });
        }
        let innermost = self.location(address);
        let mut standing = registers;
        standing.set("rip", address);
        let frames = look::walk(&scene, &standing, 0, FARTHEST_CALLER).frames(&scene);
        let own = frames.into_iter().skip(1).map(|frame| frame.location).find(is_own);
        Ok(match own {
            Some(location) => Author { location: without_address(location), through: innermost.function, by },
            None => Author { location: innermost, through: None, by },
        })
    }

    /// The statement of an instruction, where that is the program's own.
    pub(super) fn own_statement(&self, address: u64) -> Option<Location> {
        let mut known = self.own.borrow_mut();
        let statement = known
            .entry(address)
            .or_insert_with(|| Some(self.location(address)).filter(is_own).map(without_address));
        statement.clone()
    }

    /// Where a function begins, if it is the program's own: not what is inlined there.
    pub(super) fn own_beginning(&self, address: u64) -> Option<Location> {
        let function = self.symbols.frames_at(address).pop()?;
        let statement = (function.file.as_deref().map(str::to_owned), function.line);
        // Compilers move instructions of what they inlined to before what they count to it.
        let declared = || self.symbols.declaration_at(address).map(|(file, line)| (Some(file), line));
        let places = std::iter::once(statement).chain(std::iter::once_with(declared).flatten());
        let mut locations = places.map(|(file, line)| {
            let (module, library) = self.image.whose(address, self.main, file.as_deref());
            let function = function.function.clone();
            Location { file, line, function, module, library, ..Location::default() }
        });
        locations.find(is_own)
    }

    /// The instruction that has just written, or also read, some memory.
    fn writer(
        &self,
        memory: &CleanMemory<'_>,
        registers: &GeneralRegisters,
        (written, reads): (&[Range<u64>], bool),
    ) -> u64 {
        let pc = registers.pc();
        // In the middle of a repetition it still stands at it, with the places that come next.
        let is_there = |register: &str| {
            registers
                .get(register)
                .is_some_and(|next| written.iter().any(|range| next > range.start && next <= range.end + 64))
        };
        if look::decode(memory, pc).is_some_and(|next| next.is_string_instruction() && has_repeat(&next))
            && (is_there("rdi") || reads && is_there("rsi"))
        {
            return pc;
        }
        self.ending_at(memory, pc)
            .or_else(|| {
                // A call has written where it returns to.
                let back = memory.read_pointer(registers.sp()).ok()?;
                let is_there = written.iter().any(|range| range.contains(&registers.sp()));
                is_there.then(|| self.ending_at(memory, back))?
            })
            .unwrap_or_else(|| pc.saturating_sub(1))
    }

    /// The instruction that ends at an address.
    fn ending_at(&self, memory: &CleanMemory<'_>, end: u64) -> Option<u64> {
        *self.writers.borrow_mut().entry(end).or_insert_with(|| self.find_ending_at(memory, end))
    }

    fn find_ending_at(&self, memory: &CleanMemory<'_>, end: u64) -> Option<u64> {
        let function = function_around(self.symbols, end.checked_sub(1)?)?;
        let mut at = function.start;
        while at < end {
            let instruction = look::decode(memory, at)?;
            let next = instruction.next_ip();
            if next == end {
                return Some(at);
            }
            at = next;
        }
        None
    }

    pub(super) fn location(&self, address: u64) -> Location {
        let place = self.symbols.place(address);
        let (module, library) = self.image.whose(address, self.main, place.file.as_deref());
        Location {
            file: place.file.as_deref().map(str::to_owned),
            line: place.line,
            column: place.column,
            function: place.function,
            module,
            library,
            address: Some(RuntimeAddr(address)),
        }
    }
}

/// So many callers are asked.
const FARTHEST_CALLER: usize = 24;

fn has_repeat(instruction: &iced_x86::Instruction) -> bool {
    instruction.has_rep_prefix() || instruction.has_repne_prefix()
}

/// Whether it is code of the program, with its source.
fn is_own(location: &Location) -> bool {
    !location.library && location.file.as_ref().is_some_and(|file| std::path::Path::new(file).exists())
}

/// A statement has many instructions.
fn without_address(location: Location) -> Location {
    Location { address: None, column: None, ..location }
}
