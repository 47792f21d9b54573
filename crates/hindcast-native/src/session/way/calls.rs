//! What functions got and returned, as far as that is numbers.

use std::collections::{BTreeMap, BTreeSet};

use hindcast_core::debug::{ComparedCall, ComparedFunction, Location, Moment, WayCalls};
use hindcast_symbols::{
    FixedPlace, FunctionTarget, Memory as _, Symbols,
    types::{Encoding, TypeKind, TypeRef, Types as _},
};

use super::{
    super::{
        Session,
        scribe::Scribe,
        travel::{Halted, function_around},
    },
    is_number,
};
use crate::{
    debuggee::{Sight, Sights, Surveyed, Surveyor, Wish},
    look,
    process::CleanMemory,
    replay::{Position, ReplayError, Replica},
    sys::GeneralRegisters,
};

/// A function that was called more often is not looked at any more.
const MOST_OF_ONE: u32 = 300;
/// No more calls and returns are told.
const MOST_CALLS: usize = 20_000;
/// An address at which nothing returned so often is not looked at any more.
const MOST_MISSES: u32 = 64;
/// By their DWARF numbers.
const REGISTERS: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

/// A function that is looked at.
struct Compared {
    number: u32,
    parameters: Vec<Slot>,
    returns: Option<Shape>,
}

/// Where a parameter is when the function has begun.
struct Slot {
    place: FixedPlace,
    shape: Shape,
}

/// How a number is written.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size: usize,
    encoding: Encoding,
}

impl Shape {
    fn of(symbols: &Symbols, type_ref: TypeRef) -> Option<Self> {
        if !is_number(symbols, type_ref) {
            return None;
        }
        let size = symbols.get(type_ref)?.size.filter(|size| matches!(size, 1 | 2 | 4 | 8))?;
        let encoding = super::super::writes::encoding_of(symbols, type_ref).unwrap_or(Encoding::Signed);
        Some(Self { size: size as usize, encoding })
    }

    fn is_float(self) -> bool {
        matches!(self.encoding, Encoding::Float | Encoding::ComplexFloat)
    }

    fn shown(self, bytes: &[u8]) -> Option<String> {
        let mut wide = [0; 8];
        wide[..self.size].copy_from_slice(bytes.get(..self.size)?);
        let number = u64::from_le_bytes(wide);
        let bits = 64 - 8 * self.size as u32;
        Some(match (self.encoding, self.size) {
            (Encoding::Float, 4) => f32::from_bits(number as u32).to_string(),
            (Encoding::Float, 8) => f64::from_bits(number).to_string(),
            (Encoding::Signed | Encoding::SignedChar, _) => (((number << bits) as i64) >> bits).to_string(),
            (Encoding::Boolean, _) => (number != 0).to_string(),
            _ => number.to_string(),
        })
    }
}

/// A call that has not returned.
#[derive(Debug, Clone)]
struct Open {
    function: u32,
    /// The value of the stack pointer when it has returned.
    end: u64,
    returns_to: u64,
    returns: Option<Shape>,
}

impl Session {
    /// What functions got and returned between two moments, in the order of time.
    pub(super) fn compared_calls(
        &mut self,
        targets: &[FunctionTarget],
        (from, listening): (&Position, &mut Option<Listening>),
        until: &Moment,
        wanted: Option<u64>,
    ) -> Result<WayCalls, Halted> {
        let end = self.moment_named(until)?;
        let (functions, described) = self.functions_with_numbers(targets);
        let known = listening.take().filter(|known| known.until == *until && known.kept.wanted == wanted);
        let Listening { mut at, mut kept, .. } = known.unwrap_or_else(|| Listening {
            until: until.clone(),
            at: from.clone(),
            kept: Kept { wanted, ..Kept::default() },
        });
        loop {
            let symbols = &self.symbols;
            let scribe = Scribe::new(symbols, &self.image, self.main);
            let mut listener = Listener { scribe, functions: &functions, kept: &mut kept };
            let around = |address| function_around(symbols, address);
            match self.process.survey((&at, &end), &around, &mut listener)? {
                Surveyed::UpTo(position) | Surveyed::Interrupted(position) if !kept.is_over() => {
                    at = position
                }
                _ => break,
            }
            if self.process.is_interrupted() {
                *listening = Some(Listening { until: until.clone(), at, kept });
                return Err(Halted::Interrupted);
            }
        }
        let frequent = kept.counts.values().filter(|count| **count > MOST_OF_ONE).count() as u64;
        Ok(WayCalls { functions: described, calls: kept.calls, frequent, wanted: kept.found })
    }

    fn functions_with_numbers(
        &self,
        targets: &[FunctionTarget],
    ) -> (BTreeMap<u64, Compared>, Vec<ComparedFunction>) {
        let (mut functions, mut described) = (BTreeMap::new(), Vec::new());
        for target in targets {
            let Some(frame) = self.symbols.frames_at(target.address).pop() else { continue };
            let (mut parameters, mut names) = (Vec::new(), Vec::new());
            for variable in self.symbols.variables(&frame).iter().filter(|variable| variable.is_argument) {
                let shape = Shape::of(&self.symbols, variable.type_ref);
                let place = self.symbols.fixed_place(variable, target.address);
                if let (Some(shape), Some(place)) = (shape, place) {
                    parameters.push(Slot { place, shape });
                    names.push(variable.name.clone());
                }
            }
            let returns = self.symbols.function_type_at(target.address).and_then(|type_ref| {
                match self.symbols.get(type_ref)?.kind {
                    TypeKind::Function { returns, .. } => Shape::of(&self.symbols, returns?),
                    _ => None,
                }
            });
            if parameters.is_empty() && returns.is_none() {
                continue;
            }
            let number = described.len() as u32;
            functions.insert(target.address, Compared { number, parameters, returns });
            described.push(ComparedFunction { name: target.name.clone(), parameters: names });
        }
        (functions, described)
    }
}

/// A part of the past that was not gone through to its end.
pub(super) struct Listening {
    until: Moment,
    at: Position,
    kept: Kept,
}

#[derive(Default)]
struct Kept {
    calls: Vec<ComparedCall>,
    counts: BTreeMap<u64, u32>,
    open: Vec<Open>,
    /// Where calls return to, and how often nothing has returned there.
    ways_out: BTreeMap<u64, u32>,
    wanted: Option<u64>,
    place: Option<Location>,
    found: Option<(Moment, Location)>,
}

impl Kept {
    fn is_over(&self) -> bool {
        self.calls.len() >= MOST_CALLS || self.found.is_some()
    }

    /// Adds a call; whether it is the wanted one.
    fn add(&mut self, call: ComparedCall) -> bool {
        self.calls.push(call);
        self.wanted == Some(self.calls.len() as u64 - 1)
    }
}

/// Takes down calls and returns.
struct Listener<'a> {
    scribe: Scribe<'a>,
    functions: &'a BTreeMap<u64, Compared>,
    kept: &'a mut Kept,
}

impl Surveyor for Listener<'_> {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError> {
        let Sight::At(address) = sight else { return Ok(Wish::Pass) };
        let registers = replica.registers()?;
        let mut is_wanted = self.return_to(replica, address, &registers)?;
        let mut is_new = false;
        let functions = self.functions;
        if let Some(function) = functions.get(&address) {
            let count = self.kept.counts.entry(address).or_default();
            *count += 1;
            if *count > MOST_OF_ONE {
                replica.overlay.remove(&replica.memory, address);
            } else {
                let (is_this, is_new_way_out) = self.enter(replica, function, &registers);
                is_wanted |= is_this;
                is_new = is_new_way_out;
            }
        }
        if is_wanted {
            self.kept.place = Some(self.place(address));
            return Ok(Wish::NameAndStop);
        }
        Ok(match self.kept.is_over() {
            true => Wish::Stop,
            false if is_new => Wish::LookElsewhere,
            false => Wish::Pass,
        })
    }

    fn named(&mut self, _: &Replica, position: Position) -> Result<(), ReplayError> {
        if let Some(place) = self.kept.place.take() {
            self.kept.found = Some((Moment(position.to_string()), place));
        }
        Ok(())
    }

    fn sights(&self) -> Sights {
        let is_rare =
            |address: &&u64| self.kept.counts.get(*address).is_none_or(|count| *count <= MOST_OF_ONE);
        let functions = self.functions.keys().filter(is_rare);
        let known: BTreeSet<u64> = functions.chain(self.kept.ways_out.keys()).copied().collect();
        Sights::Code(known.into_iter().collect())
    }
}

impl Listener<'_> {
    /// A function begins. Says whether its call is the wanted one, and whether it returns to somewhere new.
    fn enter(
        &mut self,
        replica: &Replica,
        function: &Compared,
        registers: &GeneralRegisters,
    ) -> (bool, bool) {
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let value = |slot: &Slot| {
            let mut bytes = [0; 8];
            let register = |number: u16| registers.get(REGISTERS.get(usize::from(number))?);
            let address = match slot.place {
                FixedPlace::Register(_) if slot.shape.is_float() => return None,
                FixedPlace::Register(number) => return slot.shape.shown(&register(number)?.to_le_bytes()),
                FixedPlace::Near(number, offset) => register(number)?.wrapping_add_signed(offset),
                FixedPlace::Memory(address) => address,
            };
            memory.read(address, &mut bytes[..slot.shape.size]).ok()?;
            slot.shape.shown(&bytes)
        };
        let values: Vec<_> = function.parameters.iter().map(value).collect();
        let call = ComparedCall { function: function.number, returned: false, values };
        let walk = look::walk(&self.scribe.scene(&memory), registers, 0, 1);
        let mut is_new = false;
        if let Some(end) = walk.physical.first().and_then(|frame| frame.cfa) {
            // Whatever is not outside of this was left.
            while self.kept.open.last().is_some_and(|open| open.end <= end) {
                self.kept.open.pop();
            }
            if let (Some(_), Ok(returns_to)) = (function.returns, memory.read_pointer(end.wrapping_sub(8))) {
                let open = Open { function: function.number, end, returns_to, returns: function.returns };
                self.kept.open.push(open);
                is_new = self.kept.ways_out.insert(returns_to, 0).is_none();
            }
        }
        (self.kept.add(call), is_new)
    }

    /// Perhaps a call has just returned; whether it is the wanted one.
    fn return_to(
        &mut self,
        replica: &mut Replica,
        address: u64,
        registers: &GeneralRegisters,
    ) -> Result<bool, ReplayError> {
        if !self.kept.ways_out.contains_key(&address) {
            return Ok(false);
        }
        let stack = registers.sp();
        // Those whose part of the stack is gone were left.
        while self.kept.open.last().is_some_and(|open| open.end < stack) {
            self.kept.open.pop();
        }
        let is_it = |open: &Open| open.end == stack && open.returns_to == address;
        let Some(open) = self.kept.open.pop_if(|open| is_it(open)) else {
            let misses = self.kept.ways_out.entry(address).or_default();
            *misses += 1;
            if *misses > MOST_MISSES && !self.functions.contains_key(&address) {
                self.kept.ways_out.remove(&address);
                replica.overlay.remove(&replica.memory, address);
            }
            return Ok(false);
        };
        let value = match open.returns {
            Some(shape) if shape.is_float() => {
                let vectors = replica.frozen.thread()?.vector_registers().ok();
                vectors.and_then(|vectors| shape.shown(&vectors.widest(0)?))
            }
            Some(shape) => registers.get("rax").and_then(|value| shape.shown(&value.to_le_bytes())),
            None => None,
        };
        Ok(self.kept.add(ComparedCall { function: open.function, returned: true, values: vec![value] }))
    }

    fn place(&self, address: u64) -> Location {
        let own = self.scribe.own_beginning(address).filter(|_| self.functions.contains_key(&address));
        own.or_else(|| self.scribe.own_statement(address)).unwrap_or_else(|| self.scribe.location(address))
    }
}
