//! Conditions that can be judged without a debugger: comparisons of numbers whose places are the same each time that
//! execution comes to an address. Who has such a condition can make machine code of it.
//!
//! What a condition means is found out by evaluating its parts, in a scope whose variables are at addresses that do not
//! exist. From the address that comes out one can tell which variable it was and how far from its beginning. Memory that
//! is read on the way is a pointer that is followed, or the condition is none of these.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use super::{
    Expression, Global, Register, Scope,
    evaluate::{Evaluator, Operand},
    frame_scope::visible,
    scalar::{Common, Scalar},
    syntax::{Binary, Kind, Node, Unary},
};
use crate::{
    FixedPlace, GlobalName, InlineFrame, Memory, Symbols, Unreadable, VariableInfo,
    types::{Encoding, Language, PointerFlavour, TypeKind, TypeRef, Types as _},
    value::{DerivedTypes, Placed, Storage},
};

/// A condition that is judged by comparing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Compares two numbers.
    Compare {
        /// The order that makes it true.
        relation: Relation,
        /// The first number.
        left: Number,
        /// The second one.
        right: Number,
        /// How many of the lowest bits are compared, 32 or 64.
        bits: u8,
        /// Whether the highest of these is a sign.
        signed: bool,
    },
    /// Both are true.
    And(Box<Check>, Box<Check>),
    /// At least one is true.
    Or(Box<Check>, Box<Check>),
    /// It is not true.
    Not(Box<Check>),
}

/// How two numbers compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// One side of a comparison, as 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    /// Always the same.
    Constant(u64),
    /// In the program.
    Value {
        /// Where it is, or where the first pointer to it is.
        place: FixedPlace,
        /// The distances to add to each pointer that is read on the way.
        pointers: Vec<i64>,
        /// Its bytes: 1, 2, 4 or 8.
        size: u8,
        /// Whether the bits above it are those of its sign, and not zero.
        signed: bool,
    },
    /// 1 for every other number than 0.
    Truth(Box<Number>),
    /// What is left when it is divided, rounded towards zero.
    Remainder {
        /// What is divided.
        of: Box<Number>,
        /// By what: more than zero, and less than 2³¹.
        by: u32,
        /// Whether it has a sign.
        signed: bool,
    },
    /// Both together, of which the second is no sum itself.
    Sum(Box<Number>, Box<Number>),
    /// The bits that both have.
    Bits {
        /// The first.
        of: Box<Number>,
        /// The other ones.
        mask: u64,
    },
}

/// A number that code can read, and what it is a number of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedNumber {
    /// Where it is.
    pub number: Number,
    /// The type of the value.
    pub type_ref: TypeRef,
    /// Its bytes.
    pub size: u8,
}

/// No longer conditions are understood.
const MOST_NODES: usize = 64;
/// No more pointers are followed one after the other.
const MOST_POINTERS: usize = 4;

impl Expression {
    /// The condition as code at `pc` can judge it; `None` where only evaluating it tells.
    pub fn check_at(&self, symbols: &Symbols, pc: u64) -> Option<Check> {
        let frames = symbols.frames_at(pc);
        let types = DerivedTypes::new(symbols);
        let scope = Imagined {
            symbols,
            types: &types,
            level: frames.first()?,
            pc,
            locals: symbols.variables(frames.first()?),
            memory: ImaginedMemory::default(),
        };
        let maker = Maker { scope: &scope, evaluator: Evaluator::new(&scope), nodes: Cell::new(0) };
        maker.truth(&self.root)
    }
}

impl Expression {
    /// The value, if it is a number that code at `pc` can read; `None` where only evaluating it tells.
    pub fn number_at(&self, symbols: &Symbols, pc: u64) -> Option<CountedNumber> {
        let frames = symbols.frames_at(pc);
        let types = DerivedTypes::new(symbols);
        let scope = Imagined {
            symbols,
            types: &types,
            level: frames.first()?,
            pc,
            locals: symbols.variables(frames.first()?),
            memory: ImaginedMemory::default(),
        };
        let maker = Maker { scope: &scope, evaluator: Evaluator::new(&scope), nodes: Cell::new(0) };
        let Typed { number, .. } = maker.value(&self.root)?;
        let value = match &number {
            Number::Truth(of) => of,
            other => other,
        };
        let Number::Value { size, .. } = *value else { return None };
        let Operand::Placed(placed) = maker.evaluator.operand(&self.root).ok()? else { return None };
        // What is shown of a pointer may be more than its number.
        let (_, found) = maker.evaluator.layout.real(&placed)?;
        let is_plain = matches!(found.kind, TypeKind::Base(_) | TypeKind::Enum { .. });
        // A type that was made for this is unknown elsewhere.
        symbols.get(placed.type_ref).filter(|_| is_plain)?;
        Some(CountedNumber { type_ref: placed.type_ref, size, number })
    }
}

/// A scope in which variables are at addresses of our own.
struct Imagined<'a> {
    symbols: &'a Symbols,
    types: &'a DerivedTypes<'a>,
    level: &'a InlineFrame,
    pc: u64,
    locals: Vec<VariableInfo>,
    memory: ImaginedMemory,
}

/// What stands at the addresses of our own.
#[derive(Default)]
struct ImaginedMemory {
    objects: RefCell<Vec<Object>>,
    /// The pointers that were read, by their object and the distance from its beginning.
    read: RefCell<BTreeSet<(usize, i64)>>,
    /// Whether something was asked for that only the program can tell.
    is_asked: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Object {
    Variable(FixedPlace),
    /// What the pointer points to that is in another object, so far from its beginning.
    Target(usize, i64),
}

/// No program has memory there.
const FIRST: u64 = 0x5a5a_0000_0000_0000;
/// Far more than a variable takes, or a distance in a program comes to.
const APART: u64 = 1 << 40;

impl ImaginedMemory {
    fn place(&self, object: Object) -> u64 {
        let mut objects = self.objects.borrow_mut();
        let index = objects.iter().position(|known| *known == object).unwrap_or(objects.len());
        if index == objects.len() {
            objects.push(object);
        }
        FIRST + APART * index as u64 + APART / 2
    }

    /// The object around an address, and the distance from its beginning.
    fn object_at(&self, address: u64) -> Option<(usize, i64)> {
        let index = usize::try_from(address.checked_sub(FIRST)? / APART).ok()?;
        let offset = (address - FIRST) % APART;
        let offset = i64::try_from(offset).ok()? - (APART / 2) as i64;
        let is_near = i32::try_from(offset).is_ok();
        (is_near && index < self.objects.borrow().len()).then_some((index, offset))
    }

    /// Where an object is for the program: the way to it, as a place and the pointers that are followed from there.
    fn way_to(&self, object: usize, offset: i64) -> Option<(FixedPlace, Vec<i64>)> {
        let mut offsets = vec![offset];
        let mut at = object;
        let place = loop {
            match *self.objects.borrow().get(at)? {
                Object::Variable(place) => break place,
                Object::Target(pointer, offset) => {
                    offsets.push(offset);
                    at = pointer;
                }
            }
        };
        let first = offsets.pop()?;
        let place = match place {
            FixedPlace::Register(_) if first != 0 => return None,
            place @ FixedPlace::Register(_) => place,
            FixedPlace::Near(register, base) => FixedPlace::Near(register, base.checked_add(first)?),
            FixedPlace::Memory(address) => FixedPlace::Memory(address.checked_add_signed(first)?),
        };
        offsets.reverse();
        (offsets.len() <= MOST_POINTERS).then_some((place, offsets))
    }
}

impl Memory for ImaginedMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        if let (Some((object, offset)), 8) = (self.object_at(address), buffer.len()) {
            let target = self.place(Object::Target(object, offset));
            self.read.borrow_mut().insert((object, offset));
            buffer.copy_from_slice(&target.to_le_bytes());
            return Ok(());
        }
        self.is_asked.set(true);
        Err(Unreadable(address))
    }
}

impl Imagined<'_> {
    fn placed(&self, variable: &VariableInfo) -> Placed {
        match self.symbols.fixed_place(variable, self.pc) {
            Some(place) => Placed::memory(variable.type_ref, self.memory.place(Object::Variable(place))),
            None => {
                self.memory.is_asked.set(true);
                Placed::gone(variable.type_ref, crate::value::Absence::OptimisedOut)
            }
        }
    }
}

impl Scope for Imagined<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        visible(&self.locals, name).map(|variable| self.placed(variable))
    }

    fn global(&self, name: &str) -> Option<Global> {
        Some(match self.symbols.find_name(name, self.level)? {
            GlobalName::Variable(variable) => Global::Variable(self.placed(&variable)),
            GlobalName::Enumerator { type_ref, value } => {
                let size = self.symbols.get(type_ref)?.size.unwrap_or(4).min(16) as usize;
                Global::Enumerator(Placed::computed(type_ref, &value.to_le_bytes()[..size]))
            }
            GlobalName::Function { .. } => {
                self.memory.is_asked.set(true);
                return None;
            }
        })
    }

    fn register(&self, _: &str) -> Option<Register> {
        self.memory.is_asked.set(true);
        None
    }

    fn language(&self) -> Language {
        self.level.language
    }

    fn types(&self) -> &DerivedTypes<'_> {
        self.types
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A number with what is known of it: its type, and its value where that is always the same.
struct Typed {
    number: Number,
    /// Of its type; the value means nothing where it is not constant.
    scalar: Scalar,
}

impl Typed {
    fn is_constant(&self) -> bool {
        matches!(self.number, Number::Constant(_))
    }
}

struct Maker<'s> {
    scope: &'s Imagined<'s>,
    evaluator: Evaluator<'s>,
    nodes: Cell<usize>,
}

impl Maker<'_> {
    fn truth(&self, node: &Node) -> Option<Check> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > MOST_NODES {
            return None;
        }
        match &node.kind {
            Kind::And(left, right) => {
                Some(Check::And(Box::new(self.truth(left)?), Box::new(self.truth(right)?)))
            }
            Kind::Or(left, right) => {
                Some(Check::Or(Box::new(self.truth(left)?), Box::new(self.truth(right)?)))
            }
            Kind::Unary(Unary::Not, of) => {
                let is_truth = matches!(
                    of.kind,
                    Kind::And(..) | Kind::Or(..) | Kind::Unary(Unary::Not, _) | Kind::Binary(..)
                );
                // In Rust, `!` of a number is its complement.
                if !is_truth && matches!(self.number(of)?.scalar, Scalar::Whole(_, whole) if whole.rust) {
                    return None;
                }
                match &of.kind {
                    Kind::Binary(operator, ..) if !operator.is_comparison() => None,
                    _ => Some(Check::Not(Box::new(self.truth(of)?))),
                }
            }
            Kind::Binary(operator, left, right) if operator.is_comparison() => {
                self.comparison(*operator, left, right)
            }
            _ => {
                let number = self.number(node)?;
                let zero = Number::Constant(0);
                let is_number = !number.is_constant();
                is_number.then_some(Check::Compare {
                    relation: Relation::NotEqual,
                    left: number.number,
                    right: zero,
                    bits: 64,
                    signed: false,
                })
            }
        }
    }

    fn comparison(&self, operator: Binary, left: &Node, right: &Node) -> Option<Check> {
        let relation = match operator {
            Binary::Equal => Relation::Equal,
            Binary::NotEqual => Relation::NotEqual,
            Binary::Less => Relation::Less,
            Binary::LessOrEqual => Relation::LessOrEqual,
            Binary::Greater => Relation::Greater,
            Binary::GreaterOrEqual => Relation::GreaterOrEqual,
            _ => return None,
        };
        let (left, right) = match operator {
            Binary::Equal | Binary::NotEqual => self.cases(left, right)?,
            _ => (self.number(left)?, self.number(right)?),
        };
        if left.is_constant() && right.is_constant() {
            return None;
        }
        if let (Scalar::Pointer(_, Some(one)), Scalar::Pointer(_, Some(two))) = (left.scalar, right.scalar)
            && !(self.is_plain(one) && self.is_plain(two))
        {
            // Addresses of one object as several classes differ.
            return None;
        }
        let Common { bits, signed } = left.scalar.compared_as(right.scalar)?;
        Some(Check::Compare { relation, left: left.number, right: right.number, bits, signed })
    }

    /// Two numbers for `==`; one of them can be the name of a case of the other's enumeration.
    fn cases(&self, left: &Node, right: &Node) -> Option<(Typed, Typed)> {
        let is_case = |node: &Node| self.evaluator.case_of(node).is_some();
        match (is_case(left), is_case(right)) {
            (false, false) => Some((self.number(left)?, self.number(right)?)),
            (true, false) => self.case(right, left).map(|(value, case)| (case, value)),
            (false, true) => self.case(left, right),
            (true, true) => None,
        }
    }

    fn case(&self, value: &Node, name: &Node) -> Option<(Typed, Typed)> {
        let placed = self.evaluator.placed(value).ok()?;
        let (_, found) = self.evaluator.layout.real(&placed)?;
        if !matches!(found.kind, TypeKind::Enum { .. }) {
            return None;
        }
        let number = self.evaluator.enumerator(&placed, name)?;
        let value = self.number(value)?;
        let constant = Number::Constant(i64::try_from(number).ok()? as u64);
        Some((value, Typed { number: constant, scalar: Scalar::Literal(number) }))
    }

    fn number(&self, node: &Node) -> Option<Typed> {
        self.nodes.set(self.nodes.get() + 1);
        match &node.kind {
            Kind::Name(_) | Kind::Field(..) | Kind::Index(..) | Kind::Unary(Unary::Dereference, _) => {
                self.value(node)
            }
            Kind::Integer(..) | Kind::Character(_) | Kind::HighCharacter(_) | Kind::Truth(_) | Kind::Null => {
                self.constant(node)
            }
            Kind::Unary(Unary::Negate | Unary::Plus, of) if matches!(of.kind, Kind::Integer(..)) => {
                self.constant(node)
            }
            Kind::Binary(operator @ (Binary::Remainder | Binary::BitAnd), left, right) => {
                self.combined(*operator, left, right)
            }
            _ => None,
        }
    }

    fn constant(&self, node: &Node) -> Option<Typed> {
        match self.evaluator.operand(node).ok()? {
            Operand::Scalar(scalar) => constant(scalar),
            _ => None,
        }
    }

    /// A value in the program, or the number of an enumerator.
    fn value(&self, node: &Node) -> Option<Typed> {
        if !is_path(node) {
            return None;
        }
        let memory = &self.scope.memory;
        memory.read.borrow_mut().clear();
        let Operand::Placed(placed) = self.evaluator.operand(node).ok()? else { return None };
        if memory.is_asked.get() {
            return None;
        }
        let address = match placed.storage {
            Storage::Memory(address) if placed.home.is_none() => address,
            Storage::Bytes(_) if placed.home.is_none() && memory.read.borrow().is_empty() => {
                return self.evaluator.load(&placed, node.column).ok().and_then(constant);
            }
            _ => return None,
        };
        let (object, offset) = memory.object_at(address)?;
        let (place, pointers) = memory.way_to(object, offset)?;
        let (_, found) = self.evaluator.layout.real(&placed)?;
        // Whoever read more than the pointers on the way has decided something by it.
        if memory.read.borrow().len() > pointers.len() {
            return None;
        }
        let size = self.evaluator.types().size(placed.type_ref)?;
        let size = u8::try_from(size).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8))?;
        let (scalar, signed) = match &found.kind {
            TypeKind::Base(encoding) if is_number(*encoding) => {
                let bytes = vec![0; usize::from(size)];
                let signed = matches!(encoding, Encoding::Signed | Encoding::SignedChar);
                (self.evaluator.base(*encoding, &bytes, found.language)?, signed)
            }
            TypeKind::Enum { .. } => {
                let signed = self.evaluator.layout.is_signed(placed.type_ref);
                (Scalar::of_bits(size, signed, found.language == Language::Rust), signed)
            }
            TypeKind::Pointer { target, flavour: PointerFlavour::Pointer }
                if size == 8 && (found.language != Language::Rust || found.name.starts_with('*')) =>
            {
                (Scalar::Pointer(0, *target), false)
            }
            _ => return None,
        };
        // A register holds as many of its bytes as the variable has.
        let value = Number::Value { place, pointers, size, signed };
        let number = match scalar {
            Scalar::Truth(_) => Number::Truth(Box::new(value)),
            _ => value,
        };
        Some(Typed { number, scalar })
    }

    fn combined(&self, operator: Binary, left: &Node, right: &Node) -> Option<Typed> {
        let (left, right) = (self.number(left)?, self.number(right)?);
        let (Number::Constant(constant), false) = (&right.number, left.is_constant()) else { return None };
        let (Scalar::Whole(_, whole), Scalar::Literal(literal)) = (left.scalar, right.scalar) else {
            return None;
        };
        let positive = u32::try_from(literal).ok().filter(|literal| *literal > 0 && *literal < 1 << 31)?;
        if whole.rust && !whole.fits(literal) || whole.bits > 64 {
            return None;
        }
        let result = left.scalar.combined_with(literal);
        let signed = left.scalar.is_signed();
        let of = Box::new(left.number);
        let number = match operator {
            Binary::Remainder => Number::Remainder { of, by: positive, signed },
            _ => Number::Bits { of, mask: *constant },
        };
        Some(Typed { number, scalar: result })
    }

    /// Whether a type has no classes in it, so that a pointer to it is nothing but an address.
    fn is_plain(&self, type_ref: TypeRef) -> bool {
        self.evaluator.types().real(type_ref).is_some_and(|(_, found)| {
            found.language == Language::C || matches!(found.kind, TypeKind::Base(_) | TypeKind::Enum { .. })
        })
    }
}

/// Names, fields, elements with a number, and what pointers point to.
fn is_path(node: &Node) -> bool {
    match &node.kind {
        Kind::Name(_) => true,
        Kind::Field(of, _) | Kind::Unary(Unary::Dereference, of) => is_path(of),
        Kind::Index(of, index) => is_path(of) && matches!(index.kind, Kind::Integer(..)),
        _ => false,
    }
}

fn is_number(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::Boolean
            | Encoding::Signed
            | Encoding::SignedChar
            | Encoding::Unsigned
            | Encoding::UnsignedChar
            | Encoding::Utf
    )
}

fn constant(scalar: Scalar) -> Option<Typed> {
    let value = match scalar {
        Scalar::Literal(value) => {
            i64::try_from(value).map(|value| value as u64).or_else(|_| u64::try_from(value)).ok()?
        }
        Scalar::Whole(_, whole) if whole.bits > 64 => return None,
        Scalar::Whole(bits, whole) => whole.value(bits) as u64,
        Scalar::Truth(truth) => u64::from(truth),
        Scalar::Pointer(address, _) => address,
        Scalar::Float(..) | Scalar::FloatLiteral(_) => return None,
    };
    Some(Typed { number: Number::Constant(value), scalar })
}
