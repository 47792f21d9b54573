//! Who allocated a piece of memory, and who freed it: found in the recording alone.

mod doors;

use hindcast_core::debug::{Allocation, AllocatorCall, BreakpointId, Moment, RuntimeAddr};
use hindcast_symbols::{
    FixedPlace, FunctionPattern, Memory,
    expression::{Check, Number, Relation},
};

use self::doors::{ALLOCATING, Door, FREEING, Holds};
use super::{
    Session,
    movement::thread_id,
    scribe::{Author, Scribe},
    travel::{Halted, function_around},
};
use crate::{
    debuggee::{Claims, Judge, Quarry, Sight, SignalSet},
    process::CleanMemory,
    replay::{Gate, Pause, Position, ReplayError, Replica},
};

/// A block whose address is freed more often than this is not followed.
const MOST_FREES: usize = 8;
/// What the allocator keeps before a block: its size, and marks in the lowest bits.
const HEADER: i64 = 8;
const MARKS: u64 = 0b111;
/// The mark of a block that has a mapping of its own; it keeps one word more.
const MAPPED: u64 = 0b010;

/// The ways in and out of the allocator.
struct Doors {
    out: Vec<Door>,
    freeing: Vec<Door>,
}

/// What is looked for at the doors.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// A block that has this address in it.
    Around(u64),
    /// The block that begins here.
    Block(u64),
}

impl Wanted {
    fn is_it(self, memory: &dyn Memory, block: u64) -> bool {
        match self {
            Self::Around(address) => size_of(memory, block)
                .is_some_and(|size| block <= address && address < block.saturating_add(size)),
            Self::Block(wanted) => block == wanted,
        }
    }

    /// The same for code to judge. It may also stop at a block that ends right before the address: `is_it` sees that.
    fn check(self, holds: Holds) -> Check {
        let value = |place| Number::Value { place, pointers: Vec::new(), size: 8, signed: false };
        let block = || value(FixedPlace::Register(holds.dwarf()));
        let compare = |relation, left, right| Check::Compare {
            relation,
            left,
            right: Number::Constant(right),
            bits: 64,
            signed: false,
        };
        match self {
            Self::Block(wanted) => compare(Relation::Equal, block(), wanted),
            Self::Around(address) => {
                let header = Box::new(value(FixedPlace::Near(holds.dwarf(), -HEADER)));
                let size = Number::Bits { of: header, mask: !MARKS };
                let end = Number::Sum(Box::new(block()), Box::new(size));
                let begins = compare(Relation::LessOrEqual, block(), address);
                let ends = compare(Relation::Greater, end, address.saturating_add(HEADER as u64));
                Check::And(Box::new(begins), Box::new(ends))
            }
        }
    }
}

/// How many bytes of a block can be used.
fn size_of(memory: &dyn Memory, block: u64) -> Option<u64> {
    let header = memory.read_pointer(block.checked_sub(HEADER as u64)?).ok()?;
    let own = if header & MAPPED != 0 { 2 * HEADER } else { HEADER };
    (header & !MARKS).checked_sub(own as u64)
}

/// Stops at doors.
struct Porter<'a> {
    doors: &'a [Door],
    wanted: Wanted,
}

impl Porter<'_> {
    fn id(index: usize) -> BreakpointId {
        BreakpointId(u32::MAX - index as u32)
    }
}

impl Judge for Porter<'_> {
    fn places(&self) -> Option<Vec<u64>> {
        Some(self.doors.iter().map(|door| door.address).collect())
    }

    fn begin(&mut self, _: &Replica) {}

    fn meet(&mut self, replica: &Replica, pause: &Pause) -> Result<Claims, ReplayError> {
        let Pause::Breakpoint(address) = pause else { return Ok(Claims::default()) };
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let registers = replica.registers()?;
        let is_wanted = |door: &Door| {
            door.address == *address
                && registers.get(door.holds.register()).is_some_and(|block| self.wanted.is_it(&memory, block))
        };
        let index = self.doors.iter().position(is_wanted);
        Ok(Claims { breakpoints: index.map(Self::id).into_iter().collect(), needs_look: false })
    }

    fn stops(&mut self, claims: &Claims) -> bool {
        !claims.breakpoints.is_empty()
    }

    fn gates(&self) -> Vec<Gate> {
        let gate = |(index, door): (usize, &Door)| Gate {
            address: door.address,
            breakpoint: Self::id(index),
            check: Some(self.wanted.check(door.holds)),
        };
        self.doors.iter().enumerate().map(gate).collect()
    }

    fn last_stop(&self, _: BreakpointId, hits: u64) -> Option<u64> {
        Some(hits).filter(|hits| *hits > 0)
    }

    fn pass(&mut self, _: BreakpointId, _: u64) {}

    fn first_stop(&self, _: BreakpointId, hits: u64) -> Option<u64> {
        Some(1).filter(|first| *first <= hits)
    }

    fn go_past(&mut self, _: BreakpointId, _: u64) {}
}

impl Session {
    /// The block that an address was part of at a moment, and where its life began. `None` where the allocator is not
    /// glibc's, or gave no such block since the start of the recording.
    pub(super) fn allocation_of(
        &mut self,
        address: u64,
        now: &Position,
    ) -> Result<Option<(Allocation, Position)>, Halted> {
        let Some(doors) = self.doors() else { return Ok(None) };
        let symbols = &self.symbols;
        let functions = |address| function_around(symbols, address);
        let mut porter = Porter { doors: &doors.out, wanted: Wanted::Around(address) };
        let quarry = Quarry::Stops(SignalSet::none());
        let found = self.process.find_before(now, quarry, Some(&mut porter), &functions)?;
        let Some(begun) = found.filter(|found| !found.is_other_code).map(|found| found.position) else {
            return Ok(None);
        };
        let block = self.process.glance(&begun, &functions, |replica| {
            let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
            let registers = replica.registers().ok()?;
            let door = doors.out.iter().find(|door| door.address == registers.pc())?;
            let block = registers.get(door.holds.register())?;
            Some((block, size_of(&memory, block)?))
        })?;
        let Some((block, size)) = block else { return Ok(None) };
        let frees = self.frees_of(&doors, block, &begun, now)?;
        let is_freed_known = frees.is_some();
        let mut freed = Vec::new();
        for position in frees.unwrap_or_default() {
            freed.push(self.allocator_call(&position)?);
        }
        let allocated = self.allocator_call(&begun)?;
        let address = RuntimeAddr(block);
        let allocation = Allocation { address, size, allocated, freed, is_freed_known };
        Ok(Some((allocation, begun)))
    }

    /// When a block was freed that was allocated at a moment, in the order of time. `None` where that is not known, because
    /// its address was given to others too often since then.
    fn frees_of(
        &mut self,
        doors: &Doors,
        block: u64,
        begun: &Position,
        now: &Position,
    ) -> Result<Option<Vec<Position>>, Halted> {
        let symbols = &self.symbols;
        let functions = |address| function_around(symbols, address);
        let wanted = Wanted::Block(block);
        let mut last = |doors: &[Door], later: &Position, earlier: &Position| {
            let found =
                self.process.find_between(earlier, later, &mut Porter { doors, wanted }, &functions)?;
            Ok::<_, Halted>(found.map(|found| found.position).filter(|position| position > earlier))
        };
        let mut frees = Vec::new();
        let mut later = now.clone();
        while let Some(position) = last(&doors.freeing, &later, begun)? {
            if frees.len() == MOST_FREES {
                return Ok(None);
            }
            later = position.clone();
            frees.push(position);
        }
        frees.reverse();
        // Once it was given to somebody else, frees are those of another block.
        let mut count = frees.len().min(1);
        while count < frees.len() && last(&doors.out, &frees[count], &frees[count - 1])?.is_none() {
            count += 1;
        }
        frees.truncate(count);
        Ok(Some(frees))
    }

    /// Who called the allocator.
    fn allocator_call(&mut self, position: &Position) -> Result<AllocatorCall, Halted> {
        let scribe = Scribe::new(&self.symbols, &self.image, self.main);
        let symbols = &self.symbols;
        let functions = |address| function_around(symbols, address);
        let (thread, author) = self.process.glance(position, &functions, |replica| {
            let thread = thread_id(replica.frozen.cast().acting());
            (thread, scribe.author(replica, Sight::At(0), &[]))
        })?;
        let Author { location, through, .. } = author?;
        let function = through.or_else(|| location.function.clone()).unwrap_or_default();
        let function = function.trim_start_matches("__libc_").to_owned();
        let moment = Moment(position.to_string());
        Ok(AllocatorCall { moment, thread, location, text: None, function })
    }

    /// The doors of the allocator, if it is glibc's and the only one.
    fn doors(&self) -> Option<Doors> {
        let named = |name: &str| -> Option<u64> {
            let pattern = FunctionPattern::read(&format!("::{name}")).ok()?;
            let all = self.symbols.functions_named(&pattern, 16).into_iter();
            let starts = all.filter(|target| !target.inlined && target.name == name);
            let mut starts: Vec<_> =
                starts.filter_map(|target| Some(self.symbols.function_at(target.address)?.start)).collect();
            starts.retain(|start| !self.image.at(*start).is_some_and(|loaded| is_loader(&loaded.path)));
            starts.sort_unstable();
            starts.dedup();
            match starts[..] {
                [start] if self.image.at(start).is_some_and(|loaded| is_glibc(&loaded.path)) => Some(start),
                _ => None,
            }
        };
        let starts: Option<Vec<_>> = ALLOCATING.iter().map(|name| Some((*name, named(name)?))).collect();
        let freeing: Option<Vec<_>> = FREEING
            .iter()
            .map(|name| Some(Door { address: named(name)?, holds: Holds::FirstArgument }))
            .collect();
        let memory = self.process.memory();
        let out = doors::exits(&memory, &|address| function_around(&self.symbols, address), &starts?)?;
        Some(Doors { out, freeing: freeing? })
    }
}

fn is_glibc(path: &str) -> bool {
    crate::look::file_name(path).starts_with("libc.so.6")
        || crate::look::file_name(path).starts_with("libc-2.")
}

fn is_loader(path: &str) -> bool {
    crate::look::file_name(path).starts_with("ld-")
}
