//! Fields, elements and what pointers point to.

use super::{
    RegisterKind,
    error::{ExpressionError as Failure, most_alike},
    evaluate::{Evaluator, Operand, absent},
    scalar::{Scalar, Whole},
    syntax::{Ends, Kind, Node, Unary},
};
use crate::{
    types::{Encoding, Language, PointerFlavour, TypeKind, TypeRef},
    value::{
        Home, Placed, Storage,
        shape::{Shape, Style},
    },
};

/// How many owners, references and pointers are looked through.
const MOST_OPENED: u32 = 16;

/// No slice that is asked for is longer.
const LONGEST_SLICE: u64 = 1 << 40;

impl Evaluator<'_> {
    pub(super) fn field_of(&self, of: &Node, name: &str, column: usize) -> Result<Placed, Failure> {
        if let Kind::Register(register) = &of.kind {
            return self.lanes(register, name, column);
        }
        let value = self.placed(of)?;
        if let Storage::Gone(absence) = value.storage {
            return Err(absent(absence, of.column));
        }
        if let Some(found) = self.member_of(&value, name, column)? {
            return Ok(found);
        }
        // A pointer that cannot be read itself points to nothing that has fields.
        if self.layout.real(&value).is_some_and(|(_, found)| matches!(found.kind, TypeKind::Pointer { .. })) {
            self.load(&value, of.column)?;
        }
        let known = self.field_names(&value);
        let nearest = most_alike(name, known.iter().map(String::as_str));
        let of = self.types().name_of(value.type_ref);
        Err(Failure::UnknownField { column, name: name.to_owned(), of, nearest })
    }

    /// A member of the value or of what it points to, owns or refers to.
    pub(super) fn member_of(
        &self,
        value: &Placed,
        name: &str,
        column: usize,
    ) -> Result<Option<Placed>, Failure> {
        self.member_within(value, name, column, MOST_OPENED)
    }

    fn member_within(
        &self,
        value: &Placed,
        name: &str,
        column: usize,
        depth: u32,
    ) -> Result<Option<Placed>, Failure> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(None) };
        // What an owner owns is meant before the owner's own insides.
        if let Some(inner) = self.opened(value)
            && let Some(found) = self.member_within(&inner, name, column, depth)?
        {
            return Ok(Some(found));
        }
        if let Some(found) = self.own_member(value, name, column)? {
            return Ok(Some(found));
        }
        match self.layout.most_derived(value) {
            Some((whole, _)) => self.own_member(&whole, name, column),
            None => Ok(None),
        }
    }

    /// What the value points to, owns or refers to.
    fn opened(&self, value: &Placed) -> Option<Placed> {
        match self.layout.shape(value) {
            Shape::Inner { target, .. } => Some(target),
            Shape::Plain => {
                let (_, found) = self.layout.real(value)?;
                matches!(found.kind, TypeKind::Pointer { .. }).then(|| self.layout.target(value))?
            }
            _ => None,
        }
    }

    pub(super) fn field_names(&self, value: &Placed) -> Vec<String> {
        let mut at = value.clone();
        for _ in 0..MOST_OPENED {
            match self.opened(&at) {
                Some(inner) => at = inner,
                None => break,
            }
        }
        self.layout.struct_parts(&at).into_iter().map(|part| part.name).collect()
    }

    pub(super) fn dereference(&self, value: &Placed, column: usize) -> Result<Placed, Failure> {
        let mut at = value.clone();
        for _ in 0..MOST_OPENED {
            let (_, found) = self.layout.real(&at).ok_or(Failure::NoPlace { column })?;
            if let Shape::Inner { target, .. } = self.layout.shape(&at) {
                let is_pointer = self.layout.real(&target).is_some_and(|(_, target)| {
                    matches!(target.kind, TypeKind::Pointer { flavour: PointerFlavour::Pointer, .. })
                });
                // Owners of C++ are shown by their pointer, and its references are not there at all.
                if found.language != Language::Rust && is_pointer {
                    at = target;
                    continue;
                }
                return Ok(target);
            }
            if let Some(target) = self.layout.implied(&at) {
                return Ok(target);
            }
            return match self.load(&at, column)? {
                Scalar::Pointer(address, Some(target)) => Ok(Placed::memory(target, address)),
                _ => Err(self.wrong_type(&at, "a pointer to something", column)),
            };
        }
        Err(self.wrong_type(value, "a pointer to something", column))
    }

    pub(super) fn index(&self, of: &Node, index: &Node, column: usize) -> Result<Placed, Failure> {
        let value = match self.operand(of)? {
            Operand::Scalar(Scalar::Pointer(address, Some(target))) => {
                return self.step(address, target, &self.scalar(index)?, column);
            }
            Operand::Placed(value) => value,
            other => return Err(self.wrong_operand(&other, "indexable", column)),
        };
        if let Storage::Gone(absence) = value.storage {
            return Err(absent(absence, of.column));
        }
        let mut at = value.clone();
        for _ in 0..MOST_OPENED {
            match self.layout.shape(&at) {
                Shape::Inner { target, .. } => at = target,
                Shape::List(list) if list.style == Style::Map => return self.entry(&list, index, column),
                Shape::List(list) => {
                    let position = self.scalar(index)?.as_whole();
                    let count = list.count;
                    let within = u64::try_from(position).ok().filter(|position| *position < count);
                    let position = within.ok_or(Failure::BeyondEnd { column, index: position, count })?;
                    let item = self.layout.fetch(&list, position, 1).items.into_iter().next();
                    return item.map(|item| item.value).ok_or(Failure::NoPlace { column });
                }
                Shape::Text(text) => {
                    let position = self.scalar(index)?.as_whole();
                    let offset = position.wrapping_mul(i128::from(text.unit)) as u64;
                    return Ok(text.start.part(
                        offset,
                        self.unit_type(&text.start, text.unit),
                        Some(text.unit),
                    ));
                }
                Shape::Plain if let Some(first) = self.layout.implied(&at) => {
                    // There is nothing before or behind what is known.
                    return match self.scalar(index)?.as_whole() {
                        0 => Ok(first),
                        index => Err(Failure::BeyondEnd { column, index, count: 1 }),
                    };
                }
                // Also an array whose type does not say its length.
                Shape::Plain | Shape::Words(_) => match self.load(&at, column)? {
                    Scalar::Pointer(address, Some(target)) => {
                        return self.step(address, target, &self.scalar(index)?, column);
                    }
                    _ => break,
                },
                _ => break,
            }
        }
        Err(self.wrong_type(&value, "indexable", column))
    }

    /// The type of a character of a text, whose start may have the type of the whole.
    pub(super) fn unit_type(&self, start: &Placed, unit: u64) -> TypeRef {
        match self.layout.real(start).map(|(_, found)| found.kind.clone()) {
            Some(TypeKind::Array { element, .. }) => element,
            Some(TypeKind::Base(_)) => start.type_ref,
            _ => Whole { bits: 8 * unit as u32, signed: false, rust: true }.type_ref(self.types()),
        }
    }

    fn step(&self, address: u64, target: TypeRef, by: &Scalar, column: usize) -> Result<Placed, Failure> {
        let size = self.size(target, column)?;
        let offset = by.as_whole().wrapping_mul(i128::from(size)) as u64;
        Ok(Placed::memory(target, address.wrapping_add(offset)))
    }

    pub(super) fn slice(
        &self,
        of: &Node,
        from: Option<&Node>,
        to: Option<&Node>,
        ends: Ends,
        column: usize,
    ) -> Result<Placed, Failure> {
        let bound =
            |node: Option<&Node>| node.map(|node| self.scalar(node).map(Scalar::as_whole)).transpose();
        let from = bound(from)?.unwrap_or(0);
        let to = bound(to)?.map(|to| if ends == Ends::At { to.saturating_add(1) } else { to });
        let (first, element, stride, count) = self.side_by_side(&self.placed(of)?, column)?;
        let end = match (to, count) {
            (Some(to), _) => to,
            (None, Some(count)) => i128::from(count),
            (None, None) => return Err(Failure::BeyondEnd { column, index: from, count: 0 }),
        };
        let within = count.is_none_or(|count| end <= i128::from(count));
        if from < 0 || from > end || !within || end - from > i128::from(LONGEST_SLICE) {
            return Err(Failure::BeyondEnd { column, index: end, count: count.unwrap_or(0) });
        }
        let start = first.part((from as u64).wrapping_mul(stride), first.type_ref, None);
        let language = if self.layout.is_rust(element) { Language::Rust } else { Language::C };
        Ok(start.retyped(self.types().array_of(element, &[Some((end - from) as u64)], language)))
    }

    /// Elements one after the other: the first, their type and size, and how many where that is known.
    fn side_by_side(
        &self,
        value: &Placed,
        column: usize,
    ) -> Result<(Placed, TypeRef, u64, Option<u64>), Failure> {
        let mut at = value.clone();
        for _ in 0..MOST_OPENED {
            match self.layout.shape(&at) {
                Shape::Inner { target, .. } => at = target,
                Shape::List(list) => {
                    let Some((first, element, stride)) = list.items.run() else { break };
                    return Ok((first, element, stride, Some(list.count)));
                }
                Shape::Text(text) => {
                    let element = self.unit_type(&text.start, text.unit);
                    return Ok((text.start.clone(), element, text.unit, text.length.known()));
                }
                Shape::Plain | Shape::Words(_) => {
                    let Scalar::Pointer(address, Some(target)) = self.load(&at, column)? else { break };
                    let stride = self.size(target, column)?;
                    return Ok((Placed::memory(target, address), target, stride, None));
                }
                _ => break,
            }
        }
        Err(self.wrong_type(value, "a row of elements side by side", column))
    }

    /// `*p@3` and, more to the point, `p@3`.
    pub(super) fn repeat(&self, of: &Node, count: &Node, column: usize) -> Result<Placed, Failure> {
        let wanted = self.scalar(count)?.as_whole();
        let count = u64::try_from(wanted).ok().filter(|count| *count <= LONGEST_SLICE);
        let count = count.ok_or(Failure::BeyondEnd { column, index: wanted, count: LONGEST_SLICE })?;
        let operand = self.operand(of)?;
        let as_written = matches!(of.kind, Kind::Unary(Unary::Dereference, _));
        let first = match operand {
            Operand::Scalar(Scalar::Pointer(address, Some(target))) => Placed::memory(target, address),
            Operand::Placed(placed) => {
                let pointer = self.layout.real(&placed).is_some_and(|(_, found)| {
                    matches!(found.kind, TypeKind::Pointer { target: Some(_), .. })
                });
                if pointer && !as_written { self.dereference(&placed, column)? } else { placed }
            }
            other => return Err(self.wrong_operand(&other, "a pointer", column)),
        };
        first.address().ok_or(Failure::NoPlace { column })?;
        let language = if self.layout.is_rust(first.type_ref) { Language::Rust } else { Language::C };
        Ok(first.retyped(self.types().array_of(first.type_ref, &[Some(count)], language)))
    }

    pub(super) fn register(&self, name: &str, column: usize) -> Result<Placed, Failure> {
        let unknown = || Failure::UnknownRegister { column, name: format!("${name}") };
        let register = self.scope.register(name).ok_or_else(unknown)?;
        let bits = 8 * register.bytes.len() as u32;
        let types = self.types();
        let type_ref = match register.kind {
            RegisterKind::Whole if bits > 0 && bits <= 128 && bits.is_power_of_two() => {
                Whole { bits, signed: false, rust: false }.type_ref(types)
            }
            RegisterKind::Address => types.pointer_to(None, Language::C),
            RegisterKind::Float => {
                types.base("long double", Encoding::Float, register.bytes.len() as u64, Language::C)
            }
            RegisterKind::Vector | RegisterKind::Whole => {
                let lane = Whole { bits: 32, signed: false, rust: false }.type_ref(types);
                types.array_of(lane, &[Some(u64::from(bits / 32))], Language::C)
            }
        };
        let home = Some(Home::Register { name: register.name, offset: register.offset });
        Ok(Placed { type_ref, storage: Storage::Bytes(register.bytes.into()), home })
    }

    /// `$xmm0.f32`; also gdb's names.
    fn lanes(&self, register: &str, name: &str, column: usize) -> Result<Placed, Failure> {
        let whole = self.register(register, column)?;
        let Storage::Bytes(bytes) = &whole.storage else { return Err(Failure::NoPlace { column }) };
        let types = self.types();
        let number = |bits, signed| Whole { bits, signed, rust: false }.type_ref(types);
        let kind = name.split_once('_').map_or(name, |(_, kind)| kind);
        let (lane, size) = match kind {
            "f32" | "float" => (types.base("float", Encoding::Float, 4, Language::C), 4),
            "f64" | "double" => (types.base("double", Encoding::Float, 8, Language::C), 8),
            "u8" | "int8" => (number(8, false), 1),
            "u16" | "int16" => (number(16, false), 2),
            "u32" | "int32" => (number(32, false), 4),
            "u64" | "int64" => (number(64, false), 8),
            "i8" => (number(8, true), 1),
            "i16" => (number(16, true), 2),
            "i32" => (number(32, true), 4),
            "i64" => (number(64, true), 8),
            "u128" | "int128" | "uint128" => (number(128, false), 16),
            _ => {
                let known = ["f32", "f64", "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64"];
                let nearest = most_alike(name, known.into_iter());
                let of = format!("${register}");
                return Err(Failure::UnknownField { column, name: name.to_owned(), of, nearest });
            }
        };
        let count = bytes.len() as u64 / size;
        Ok(whole.retyped(types.array_of(lane, &[Some(count)], Language::C)))
    }
}
