//! What the nodes of an expression come to.

use std::cell::RefCell;

use super::{
    Budget, Scope,
    elements::Position,
    error::ExpressionError,
    scalar::{Fraction, Scalar, Whole, combine},
    syntax::{Binary, Kind, Node, TypeName, Unary},
};
use crate::{
    types::{Encoding, Language, TypeKind, TypeRef, Types},
    value::{
        Absence, DerivedTypes, Placed,
        layout::{Layout, signed_of, unsigned_of},
        number::float_value,
        shape::Shape,
    },
};

type Failure = ExpressionError;

/// What a node comes to.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    /// A value of the program, or one that was computed to be shown.
    Placed(Placed),
    Scalar(Scalar),
    /// A literal text.
    Text(Vec<u8>),
}

pub(super) struct Evaluator<'s> {
    pub(super) scope: &'s dyn Scope,
    pub(super) layout: Layout<'s>,
    /// What nodes that give many values stand for at the moment.
    pub(super) bound: RefCell<Vec<Bound>>,
    /// What is left to be spent on elements.
    pub(super) budget: Budget,
}

/// The one of its many values that a node stands for.
pub(super) struct Bound {
    pub(super) node: *const Node,
    pub(super) value: Placed,
    /// None for a node that gives the same values as one before.
    pub(super) position: Option<Position>,
}

impl<'s> Evaluator<'s> {
    pub(super) fn new(scope: &'s dyn Scope) -> Self {
        Self {
            scope,
            layout: Layout { types: scope.types(), memory: scope.memory() },
            bound: RefCell::default(),
            budget: scope.budget().unwrap_or_default(),
        }
    }

    pub(super) fn types(&self) -> &DerivedTypes<'s> {
        self.layout.types
    }

    /// What the node comes to, as a value that can be shown.
    pub(super) fn placed(&self, node: &Node) -> Result<Placed, Failure> {
        Ok(match self.operand(node)? {
            Operand::Placed(placed) => placed,
            Operand::Scalar(scalar) => scalar.place(self.types()),
            Operand::Text(mut bytes) => {
                bytes.push(0);
                let character = self.types().base("char", Encoding::SignedChar, 1, Language::C);
                let count = Some(bytes.len() as u64);
                Placed::computed(self.types().array_of(character, &[count], Language::C), bytes)
            }
        })
    }

    pub(super) fn operand(&self, node: &Node) -> Result<Operand, Failure> {
        let column = node.column;
        if let Some(element) = self.bound_to(node) {
            return Ok(Operand::Placed(element));
        }
        Ok(match &node.kind {
            Kind::Name(name) => Operand::Placed(self.variable(name, column)?),
            Kind::Integer(value, suffix) => Operand::Scalar(integer(*value, suffix)),
            Kind::Float(value, suffix) => Operand::Scalar(fraction(*value, suffix)),
            Kind::Character(value) => Operand::Scalar(Scalar::Literal(i128::from(*value))),
            Kind::HighCharacter(byte) => Operand::Scalar(self.high_character(*byte)),
            Kind::Text(bytes) => Operand::Text(bytes.clone()),
            Kind::Truth(truth) => Operand::Scalar(Scalar::Truth(*truth)),
            Kind::Null => Operand::Scalar(Scalar::Pointer(0, None)),
            Kind::Register(name) => Operand::Placed(self.register(name, column)?),
            Kind::Field(of, name) => Operand::Placed(self.field_of(of, name, column)?),
            Kind::Method(of, name) => self.method(of, name, column)?,
            Kind::Case(name, _) => return Err(Failure::Call { column, name: name.clone() }),
            Kind::Index(of, index) => Operand::Placed(self.index(of, index, column)?),
            Kind::Slice(of, from, to, ends) => {
                Operand::Placed(self.slice(of, from.as_deref(), to.as_deref(), *ends, column)?)
            }
            Kind::Repeat(of, count) => Operand::Placed(self.repeat(of, count, column)?),
            Kind::Each(_) | Kind::Linked(..) => return Err(Failure::ManyValues { column }),
            Kind::Together(together, of, condition) => {
                Operand::Scalar(self.together(*together, of, condition.as_deref(), column)?)
            }
            Kind::Unary(operator, operand) => self.unary(*operator, operand, column)?,
            Kind::Binary(operator, left, right) if operator.is_comparison() => {
                Operand::Scalar(Scalar::Truth(self.compare(*operator, left, right, column)?))
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (self.scalar(left)?, self.scalar(right)?);
                Operand::Scalar(self.binary(*operator, left, right, column)?)
            }
            Kind::And(left, right) => Operand::Scalar(Scalar::Truth(self.truth(left)? && self.truth(right)?)),
            Kind::Or(left, right) => Operand::Scalar(Scalar::Truth(self.truth(left)? || self.truth(right)?)),
            Kind::Conditional(condition, yes, no) => {
                self.operand(if self.truth(condition)? { yes } else { no })?
            }
            Kind::Cast(type_name, operand) => Operand::Placed(self.cast(type_name, operand, column)?),
            Kind::SizeOfType(type_name) => {
                let size = self.size_of_type(type_name, column)?;
                Operand::Scalar(Whole { bits: 64, signed: false, rust: false }.wrap(i128::from(size)))
            }
            Kind::SizeOf(operand) => {
                let type_ref = self.placed(operand)?.type_ref;
                let size = self.size(self.layout.referred_type(type_ref), column)?;
                Operand::Scalar(Whole { bits: 64, signed: false, rust: false }.wrap(i128::from(size)))
            }
            Kind::Assign(..) => {
                let found = "=".to_owned();
                return Err(Failure::Syntax {
                    column,
                    expected: "an assignment only at the outermost",
                    found,
                });
            }
        })
    }

    /// In C and C++ a `char` that is turned into an `int`; the program says whether its `char` has a sign.
    fn high_character(&self, byte: u8) -> Scalar {
        let is_unsigned = || {
            let found = self.types().named("char").and_then(|char_type| self.types().real(char_type));
            found.is_some_and(|(_, found)| matches!(found.kind, TypeKind::Base(Encoding::UnsignedChar)))
        };
        let is_negative = self.scope.language() != Language::Rust && !is_unsigned();
        Scalar::Literal(if is_negative { i128::from(byte.cast_signed()) } else { i128::from(byte) })
    }

    pub(super) fn truth(&self, node: &Node) -> Result<bool, Failure> {
        match self.operand(node)? {
            Operand::Text(_) => Ok(true),
            other => self.number(other, node.column).map(Scalar::is_true),
        }
    }

    pub(super) fn scalar(&self, node: &Node) -> Result<Scalar, Failure> {
        self.number(self.operand(node)?, node.column)
    }

    fn number(&self, operand: Operand, column: usize) -> Result<Scalar, Failure> {
        match operand {
            Operand::Scalar(scalar) => Ok(scalar),
            Operand::Placed(placed) => self.load(&placed, column),
            Operand::Text(_) => {
                let type_name = "a text".to_owned();
                Err(Failure::WrongType { column, type_name, wanted: "a number" })
            }
        }
    }

    /// The number, truth value or address that a value is; also inside references, cells and owners.
    pub(super) fn load(&self, placed: &Placed, column: usize) -> Result<Scalar, Failure> {
        let mut at = placed.clone();
        for _ in 0..16 {
            let wrong = || self.wrong_type(&at, "a number", column);
            let (_, found) = self.layout.real(&at).ok_or_else(wrong)?;
            if !matches!(found.kind, TypeKind::Base(_) | TypeKind::Enum { .. })
                && let Shape::Inner { target, .. } = self.layout.shape(&at)
            {
                at = target;
                continue;
            }
            let read = || self.layout.whole(&at).map_err(|absence| absent(absence, column));
            return match &found.kind {
                TypeKind::Base(encoding) => self.base(*encoding, &read()?, found.language).ok_or_else(wrong),
                TypeKind::Enum { .. } => {
                    let bytes = read()?;
                    let signed = self.layout.is_signed(at.type_ref);
                    whole(&bytes, signed, found.language).ok_or_else(wrong)
                }
                TypeKind::Pointer { target, .. } => {
                    Ok(Scalar::Pointer(unsigned_of(&read()?) as u64, *target))
                }
                TypeKind::Unspecified => Ok(Scalar::Pointer(0, None)),
                TypeKind::Array { element, counts, .. } => {
                    let address = at.address().ok_or(Failure::NoPlace { column })?;
                    let element = match counts.as_slice() {
                        [] | [_] => *element,
                        [_, inner @ ..] => self.types().array_of(*element, inner, found.language),
                    };
                    Ok(Scalar::Pointer(address, Some(element)))
                }
                TypeKind::Function { .. } => {
                    let address = at.address().ok_or(Failure::NoPlace { column })?;
                    Ok(Scalar::Pointer(address, Some(at.type_ref)))
                }
                // It is shown in words, for its number is 0 or 1.
                TypeKind::Struct(_) if found.name == "core::sync::atomic::AtomicBool" => {
                    let bytes = self.layout.whole(&self.layout.peel(&at));
                    bytes
                        .map(|bytes| Scalar::Truth(unsigned_of(&bytes) != 0))
                        .map_err(|absence| absent(absence, column))
                }
                _ => Err(wrong()),
            };
        }
        Err(self.wrong_type(placed, "a number", column))
    }

    pub(super) fn base(&self, encoding: Encoding, bytes: &[u8], language: Language) -> Option<Scalar> {
        match encoding {
            Encoding::Boolean => Some(Scalar::Truth(unsigned_of(bytes) != 0)),
            Encoding::Signed | Encoding::SignedChar => whole(bytes, true, language),
            Encoding::Unsigned | Encoding::UnsignedChar | Encoding::Utf => whole(bytes, false, language),
            Encoding::Float => {
                let bits = if bytes.len() == 4 { 32 } else { 64 };
                Some(Scalar::Float(float_value(bytes)?, Fraction { bits, rust: language == Language::Rust }))
            }
            Encoding::ComplexFloat | Encoding::Other => None,
        }
    }

    fn unary(&self, operator: Unary, node: &Node, column: usize) -> Result<Operand, Failure> {
        match operator {
            Unary::Dereference => {
                return match self.operand(node)? {
                    Operand::Placed(placed) => self.dereference(&placed, column).map(Operand::Placed),
                    Operand::Scalar(Scalar::Pointer(address, Some(target))) => {
                        Ok(Operand::Placed(Placed::memory(target, address)))
                    }
                    other => Err(self.wrong_operand(&other, "a pointer to something", column)),
                };
            }
            Unary::AddressOf => {
                let placed = self.layout.referred(&self.placed(node)?).ok_or(Failure::NoPlace { column })?;
                let address = placed.address().ok_or(Failure::NoPlace { column })?;
                return Ok(Operand::Scalar(Scalar::Pointer(address, Some(placed.type_ref))));
            }
            Unary::Not => {
                // In Rust, `!` of a number is its complement.
                let scalar = self.scalar(node)?;
                return Ok(Operand::Scalar(match scalar {
                    Scalar::Whole(bits, whole) if whole.rust => whole.wrap(!whole.value(bits)),
                    other => Scalar::Truth(!other.is_true()),
                }));
            }
            Unary::Negate | Unary::Plus | Unary::Complement => {}
        }
        let scalar = self.scalar(node)?;
        Ok(Operand::Scalar(match (operator, scalar) {
            (Unary::Plus, scalar) => scalar,
            (Unary::Negate, Scalar::Float(value, of)) => Scalar::Float(-value, of),
            (Unary::Negate, Scalar::FloatLiteral(value)) => Scalar::FloatLiteral(-value),
            (Unary::Negate, scalar @ (Scalar::Literal(_) | Scalar::Whole(..) | Scalar::Truth(_))) => {
                combine(Binary::Subtract, Scalar::Literal(0), scalar, column)?
            }
            (Unary::Complement, Scalar::Literal(value)) => Scalar::Literal(!value),
            (Unary::Complement, scalar @ (Scalar::Whole(..) | Scalar::Truth(_))) => {
                combine(Binary::BitXor, scalar, Scalar::Literal(-1), column)?
            }
            (_, scalar) => return Err(self.wrong_operand(&Operand::Scalar(scalar), "a number", column)),
        }))
    }

    pub(super) fn binary(
        &self,
        operator: Binary,
        left: Scalar,
        right: Scalar,
        column: usize,
    ) -> Result<Scalar, Failure> {
        let scaled = |target: Option<TypeRef>, steps: i128| {
            // Bytes are stepped where there is nothing to step over, as compilers do for `void *`.
            let size = target.and_then(|target| self.types().size(target)).unwrap_or(1);
            steps.wrapping_mul(i128::from(size)) as u64
        };
        match (operator, left, right) {
            (Binary::Add, Scalar::Pointer(address, target), steps)
            | (Binary::Add, steps, Scalar::Pointer(address, target))
                if !matches!(steps, Scalar::Pointer(..)) && !steps.is_float() =>
            {
                Ok(Scalar::Pointer(address.wrapping_add(scaled(target, steps.as_whole())), target))
            }
            (Binary::Subtract, Scalar::Pointer(one, target), Scalar::Pointer(two, _)) => {
                let size = target.and_then(|target| self.types().size(target)).filter(|size| *size > 0);
                let bytes = one.wrapping_sub(two) as i64;
                let steps = i128::from(bytes) / i128::from(size.unwrap_or(1));
                Ok(Whole { bits: 64, signed: true, rust: false }.wrap(steps))
            }
            (Binary::Subtract, Scalar::Pointer(address, target), steps) if !steps.is_float() => {
                Ok(Scalar::Pointer(address.wrapping_sub(scaled(target, steps.as_whole())), target))
            }
            // Bits of addresses are asked for more often than compilers allow.
            (
                Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftRight | Binary::Remainder,
                Scalar::Pointer(address, _),
                _,
            ) => combine(operator, address_number(address), right, column),
            (_, pointer @ Scalar::Pointer(..), _) | (_, _, pointer @ Scalar::Pointer(..)) => {
                Err(self.wrong_operand(&Operand::Scalar(pointer), "a number", column))
            }
            _ => combine(operator, left, right, column),
        }
    }

    fn cast(&self, type_name: &TypeName, operand: &Node, column: usize) -> Result<Placed, Failure> {
        let type_ref = self.resolve(type_name, column)?;
        let operand = match self.operand(operand)? {
            Operand::Text(_) => self.placed(operand).map(Operand::Placed)?,
            other => other,
        };
        if type_name.reference {
            return match operand {
                Operand::Placed(placed) => self.taken_for(&placed, type_ref, column),
                other => Err(self.wrong_operand(&other, "in memory", column)),
            };
        }
        let (_, found) = self.types().real(type_ref).ok_or_else(|| unknown_type(type_name, column))?;
        if matches!(found.kind, TypeKind::Struct(_) | TypeKind::Array { .. }) {
            // The same bytes, taken for something else.
            return match operand {
                Operand::Placed(placed) => self.taken_for(&placed, type_ref, column),
                other => Err(self.wrong_operand(&other, "in memory", column)),
            };
        }
        let scalar = match operand {
            Operand::Scalar(scalar) => scalar,
            Operand::Placed(placed) => self.load(&placed, column)?,
            other => return Err(self.wrong_operand(&other, "a number", column)),
        };
        let bytes = self.encode(self.moved(scalar, type_ref, column)?, type_ref, column)?;
        Ok(Placed::computed(type_ref, bytes))
    }

    /// What is at the same place as another type; of an object, the part or whole that has it.
    fn taken_for(&self, placed: &Placed, type_ref: TypeRef, column: usize) -> Result<Placed, Failure> {
        let object = self.layout.referred(placed).ok_or(Failure::NoPlace { column })?;
        Ok(self.as_class(&object, type_ref, column)?.unwrap_or_else(|| object.retyped(type_ref)))
    }

    /// The bytes of a number as a type, cut to its size.
    pub(super) fn encode(
        &self,
        scalar: Scalar,
        type_ref: TypeRef,
        column: usize,
    ) -> Result<Vec<u8>, Failure> {
        let size = self.size(type_ref, column)?.min(16) as usize;
        let (_, found) = self.types().real(type_ref).ok_or(Failure::NoPlace { column })?;
        match &found.kind {
            TypeKind::Base(Encoding::Float) => match size {
                4 => Ok((scalar.as_float() as f32).to_le_bytes().to_vec()),
                8 => Ok(scalar.as_float().to_le_bytes().to_vec()),
                _ => Err(self.wrong_name(type_ref, "a type that numbers are turned into", column)),
            },
            TypeKind::Base(Encoding::Boolean) => {
                let mut bytes = u128::from(scalar.is_true()).to_le_bytes().to_vec();
                bytes.truncate(size);
                Ok(bytes)
            }
            TypeKind::Base(Encoding::ComplexFloat | Encoding::Other) => {
                Err(self.wrong_name(type_ref, "a type that numbers are turned into", column))
            }
            TypeKind::Base(_) | TypeKind::Enum { .. } | TypeKind::Pointer { .. } => {
                Ok(scalar.as_whole().to_le_bytes()[..size].to_vec())
            }
            _ => Err(self.wrong_name(type_ref, "a type that numbers are turned into", column)),
        }
    }

    pub(super) fn resolve(&self, wanted: &TypeName, column: usize) -> Result<TypeRef, Failure> {
        let types = self.types();
        let named = match wanted.name.as_str() {
            "void" if wanted.pointers > 0 => None,
            name => Some(self.named_type(name).ok_or_else(|| unknown_type(wanted, column))?),
        };
        let rust = named.is_some_and(|named| self.layout.is_rust(named));
        let language = if rust { Language::Rust } else { Language::C };
        let mut type_ref = named;
        for _ in 0..wanted.pointers {
            type_ref = Some(types.pointer_to(type_ref, language));
        }
        type_ref.ok_or_else(|| unknown_type(wanted, column))
    }

    fn named_type(&self, name: &str) -> Option<TypeRef> {
        if let Some(whole) = Whole::named(name) {
            // The program's own, where it has it: that is what its values are called.
            return Some(self.types().named(name).unwrap_or_else(|| whole.type_ref(self.types())));
        }
        self.types().named(name).or_else(|| {
            let (name, encoding, size, language) = match name {
                "bool" | "_Bool" => ("bool", Encoding::Boolean, 1, Language::C),
                "char" => ("char", Encoding::SignedChar, 1, Language::C),
                "float" => ("float", Encoding::Float, 4, Language::C),
                "double" => ("double", Encoding::Float, 8, Language::C),
                "f32" => ("f32", Encoding::Float, 4, Language::Rust),
                "f64" => ("f64", Encoding::Float, 8, Language::Rust),
                _ => return None,
            };
            Some(self.types().base(name, encoding, size, language))
        })
    }

    pub(super) fn size(&self, type_ref: TypeRef, column: usize) -> Result<u64, Failure> {
        self.types().size(type_ref).ok_or_else(|| self.wrong_name(type_ref, "of known size", column))
    }

    pub(super) fn wrong_type(&self, placed: &Placed, wanted: &'static str, column: usize) -> Failure {
        self.wrong_name(placed.type_ref, wanted, column)
    }

    pub(super) fn wrong_name(&self, type_ref: TypeRef, wanted: &'static str, column: usize) -> Failure {
        Failure::WrongType { column, type_name: self.types().name_of(type_ref), wanted }
    }

    pub(super) fn wrong_operand(&self, operand: &Operand, wanted: &'static str, column: usize) -> Failure {
        match operand {
            Operand::Placed(placed) => self.wrong_type(placed, wanted, column),
            Operand::Scalar(scalar) => self.wrong_type(&scalar.place(self.types()), wanted, column),
            Operand::Text(_) => Failure::WrongType { column, type_name: "a text".to_owned(), wanted },
        }
    }
}

fn fraction(value: f64, suffix: &str) -> Scalar {
    match suffix.trim_start_matches('_') {
        "" => Scalar::FloatLiteral(value),
        "f" | "F" => Fraction { bits: 32, rust: false }.round(value),
        "f32" => Fraction { bits: 32, rust: true }.round(value),
        "f64" => Fraction { bits: 64, rust: true }.round(value),
        _ => Fraction { bits: 64, rust: false }.round(value),
    }
}

fn integer(value: u128, suffix: &str) -> Scalar {
    if let Some(whole) = Whole::named(suffix) {
        return whole.wrap(value as i128);
    }
    let lower = suffix.to_ascii_lowercase();
    match (lower.contains('u'), lower.contains('l')) {
        (false, false) => match i128::try_from(value) {
            Ok(value) => Scalar::Literal(value),
            Err(_) => Whole { bits: 128, signed: false, rust: false }.wrap(value as i128),
        },
        (unsigned, long) => {
            let bits = if long || value > u128::from(u32::MAX) { 64 } else { 32 };
            Whole { bits, signed: !unsigned, rust: false }.wrap(value as i128)
        }
    }
}

fn whole(bytes: &[u8], signed: bool, language: Language) -> Option<Scalar> {
    let bits = match bytes.len() {
        1 => 8,
        2 => 16,
        4 => 32,
        8 => 64,
        16 => 128,
        _ => return None,
    };
    let value = if signed { signed_of(bytes) } else { unsigned_of(bytes) as i128 };
    Some(Whole { bits, signed, rust: language == Language::Rust }.wrap(value))
}

fn address_number(address: u64) -> Scalar {
    Whole { bits: 64, signed: false, rust: false }.wrap(i128::from(address))
}

fn unknown_type(wanted: &TypeName, column: usize) -> Failure {
    Failure::UnknownType { column, name: wanted.name.clone() }
}

pub(super) fn absent(absence: Absence, column: usize) -> Failure {
    match absence {
        Absence::OptimisedOut => Failure::OptimisedOut { column },
        Absence::NotYetInitialised => Failure::NotYetInitialised { column },
        Absence::Unreadable(address) => Failure::Unreadable { column, address },
    }
}
