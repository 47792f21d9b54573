//! What an assignment writes, and where.

use super::{
    Evaluated, Target,
    error::ExpressionError as Failure,
    evaluate::{Evaluator, Operand, absent},
    scalar::Whole,
    syntax::{Binary, Node},
};
use crate::{
    types::{Encoding, Language, TypeKind},
    value::{Home, Placed, layout::unsigned_of, shape::Shape},
};

impl Evaluator<'_> {
    pub(super) fn assign(
        &self,
        operator: Option<Binary>,
        target: &Node,
        value: &Node,
        column: usize,
    ) -> Result<Evaluated, Failure> {
        // Assigning to a C++ reference assigns to what it refers to.
        let place = self.layout.referred(&self.placed(target)?).ok_or(Failure::NoPlace { column })?;
        let bytes = match (operator, self.enumerator(&place, value)) {
            (None, Some(number)) => {
                let size = self.size(place.type_ref, column)?.min(16) as usize;
                number.to_le_bytes()[..size].to_vec()
            }
            _ => self.assigned_bytes(operator, &place, value, column)?,
        };
        let shown = Placed::computed(place.type_ref, bytes.clone());
        let (target, bytes) = match (&place.home, place.address()) {
            (Some(Home::Register { name, offset }), _) => {
                (Target::Register { name: name.clone(), offset: *offset }, bytes)
            }
            (Some(Home::Bits { address, first, count }), _) => {
                (Target::Memory(*address), self.merged(*address, *first, *count, &bytes, column)?)
            }
            (None, Some(address)) => (Target::Memory(address), bytes),
            (None, None) => return Err(Failure::NoPlace { column }),
        };
        Ok(Evaluated::Assignment { target, bytes, value: shown })
    }

    fn assigned_bytes(
        &self,
        operator: Option<Binary>,
        place: &Placed,
        value: &Node,
        column: usize,
    ) -> Result<Vec<u8>, Failure> {
        let type_ref = place.type_ref;
        let (real_ref, found) = self.layout.real(place).ok_or(Failure::NoPlace { column })?;
        if matches!(found.kind, TypeKind::Struct(_) | TypeKind::Array { .. }) {
            if let (None, Operand::Placed(other)) = (operator, self.operand(value)?)
                && self.layout.real(&other).is_some_and(|(other, _)| other == real_ref)
                && !matches!(self.layout.shape(place), Shape::Text(_) | Shape::List(_))
            {
                return self.layout.whole(&other).map_err(|absence| absent(absence, value.column));
            }
            // Cells and atomics are as good as what is in them; owners own something else then.
            return Err(self.wrong_name(type_ref, "a number, pointer or plain struct to assign to", column));
        }
        let mut scalar = self.scalar(value)?;
        if let Some(operator) = operator {
            scalar = self.binary(operator, self.load(place, column)?, scalar, column)?;
        }
        let scalar = self.moved(scalar, type_ref, column)?;
        let size = self.size(type_ref, column)?.min(16);
        let bits = match &place.home {
            Some(Home::Bits { count, .. }) => *count as u32,
            _ => 8 * size as u32,
        };
        let is_float = matches!(found.kind, TypeKind::Base(Encoding::Float | Encoding::Boolean));
        if !is_float {
            let number = scalar.as_whole();
            let signed = self.layout.is_signed(type_ref);
            let fits = |signed| Whole { bits, signed, rust: false }.fits(number);
            // `-1` into an unsigned type of C is a way to write its largest number.
            let fits = fits(signed)
                || operator.is_none() && number < 0 && fits(true) && found.language != Language::Rust;
            if !fits && bits < 128 {
                let type_name = self.types().name_of(type_ref);
                return Err(Failure::DoesNotFit { column, value: number.to_string(), type_name });
            }
        }
        self.encode(scalar, type_ref, column)
    }

    /// The bytes around a bit-field with the field replaced.
    fn merged(
        &self,
        address: u64,
        first: u64,
        count: u64,
        value: &[u8],
        column: usize,
    ) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; (first + count).div_ceil(8) as usize];
        self.layout
            .memory
            .read(address, &mut bytes)
            .map_err(|unreadable| Failure::Unreadable { column, address: unreadable.0 })?;
        let value = unsigned_of(value);
        for bit in 0..count {
            let at = (first + bit) as usize;
            let mask = 1 << (at % 8);
            if value >> bit & 1 == 1 {
                bytes[at / 8] |= mask;
            } else {
                bytes[at / 8] &= !mask;
            }
        }
        Ok(bytes)
    }
}
