//! Comparing: numbers, texts, cases of enums, keys of maps.

use std::cmp::Ordering;

use super::{
    Global,
    error::ExpressionError as Failure,
    evaluate::{Evaluator, Operand, absent},
    scalar::Scalar,
    syntax::{Binary, Kind, Node},
};
use crate::{
    types::{TypeKind, Types},
    value::{
        Absence, Placed,
        layout::Layout,
        shape::{List, Shape},
        text::Text,
    },
};

/// No longer texts are compared with each other.
const LONGEST_TEXT: u64 = 1 << 20;

/// How many entries of a map are looked at for a key.
const MOST_ENTRIES: u64 = 100_000;

impl Evaluator<'_> {
    pub(super) fn compare(
        &self,
        operator: Binary,
        left: &Node,
        right: &Node,
        column: usize,
    ) -> Result<bool, Failure> {
        if matches!(operator, Binary::Equal | Binary::NotEqual) {
            let equal = match (self.case_of(left), self.case_of(right)) {
                (None, Some((name, values))) => self.is_case(&self.placed(left)?, name, values, column)?,
                (Some((name, values)), None) => self.is_case(&self.placed(right)?, name, values, column)?,
                _ => None,
            };
            if let Some(equal) = equal {
                return Ok(equal == (operator == Binary::Equal));
            }
        }
        let order = self.order(&self.operand(left)?, &self.operand(right)?, column)?;
        // What is not a number is unequal to everything.
        Ok(order.map_or(operator == Binary::NotEqual, |order| operator.holds(order)))
    }

    fn order(&self, left: &Operand, right: &Operand, column: usize) -> Result<Option<Ordering>, Failure> {
        match (left, right) {
            (Operand::Text(one), Operand::Text(two)) => Ok(Some(one.cmp(two))),
            (Operand::Text(one), Operand::Placed(two)) => {
                self.text_order(two, one, column).map(|order| Some(order.reverse()))
            }
            (Operand::Placed(one), Operand::Text(two)) => self.text_order(one, two, column).map(Some),
            (Operand::Placed(one), Operand::Placed(two)) => {
                if let (Some(one), Some(two)) = (self.owned_text(one), self.owned_text(two)) {
                    let read = |text: &Text| whole_text(&self.layout, text, LONGEST_TEXT);
                    let one = read(&one).map_err(|absence| absent(absence, column))?;
                    let two = read(&two).map_err(|absence| absent(absence, column))?;
                    return Ok(Some(one.cmp(&two)));
                }
                self.scalar_order(self.load(one, column)?, self.load(two, column)?, column)
            }
            (Operand::Placed(one), Operand::Scalar(two)) => {
                self.scalar_order(self.load(one, column)?, *two, column)
            }
            (Operand::Scalar(one), Operand::Placed(two)) => {
                self.scalar_order(*one, self.load(two, column)?, column)
            }
            (Operand::Scalar(one), Operand::Scalar(two)) => self.scalar_order(*one, *two, column),
            (text @ Operand::Text(_), _) | (_, text @ Operand::Text(_)) => {
                Err(self.wrong_operand(text, "comparable with a number", column))
            }
        }
    }

    fn scalar_order(&self, one: Scalar, two: Scalar, column: usize) -> Result<Option<Ordering>, Failure> {
        let (one, two) = self.as_same_class(one, two, column)?;
        Ok(one.compare(two))
    }

    fn text_order(&self, value: &Placed, literal: &[u8], column: usize) -> Result<Ordering, Failure> {
        let text = self.text(value).ok_or_else(|| self.wrong_type(value, "a text", column))?;
        // One character more than the literal has is enough to tell.
        let most = literal.len() as u64 + 1;
        let read = whole_text(&self.layout, &text, most).map_err(|absence| absent(absence, column))?;
        Ok(read.as_slice().cmp(literal))
    }

    /// The text that a value is, also behind references and owners.
    pub(super) fn text(&self, value: &Placed) -> Option<Text> {
        let mut at = value.clone();
        for _ in 0..16 {
            match self.layout.shape(&at) {
                Shape::Text(text) => return Some(text),
                Shape::Inner { target, .. } => at = target,
                _ => return None,
            }
        }
        None
    }

    /// The text that a value is, to be compared with many others.
    pub(super) fn short_text(&self, value: &Placed, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        const LONGEST: u64 = 1 << 16;
        let Some(text) = self.text(value) else { return Ok(None) };
        let read = whole_text(&self.layout, &text, LONGEST + 1).map_err(|absence| absent(absence, column))?;
        if read.len() as u64 > LONGEST {
            let why = format!("one of them is a text of more than {LONGEST} bytes");
            return Err(Failure::BrokenElements { column, why });
        }
        Ok(Some(read))
    }

    /// The same, but not for a plain pointer: two of these are compared as addresses.
    fn owned_text(&self, value: &Placed) -> Option<Text> {
        let (_, found) = self.layout.real(value)?;
        let is_pointer = matches!(found.kind, TypeKind::Pointer { .. }) && !found.name.starts_with('&');
        if is_pointer { None } else { self.text(value) }
    }

    /// A name that no variable has, or one with values: a case of an enum.
    pub(super) fn case_of<'n>(&self, node: &'n Node) -> Option<(&'n str, &'n [Node])> {
        match &node.kind {
            Kind::Name(name) if !self.is_variable(name, node.column) => Some((last_part(name), &[])),
            Kind::Case(name, values) => Some((last_part(name), values)),
            _ => None,
        }
    }

    fn is_variable(&self, name: &str, column: usize) -> bool {
        // An ambiguous name is that of several.
        matches!(self.meaning(name, column), Ok(Some(Global::Variable(_))) | Err(_))
    }

    /// Whether an enum is in a case; `None` where it is no enum or has no such case.
    fn is_case(
        &self,
        value: &Placed,
        name: &str,
        values: &[Node],
        column: usize,
    ) -> Result<Option<bool>, Failure> {
        let mut at = value.clone();
        for _ in 0..16 {
            let Some((_, found)) = self.layout.real(&at) else { return Ok(None) };
            match &found.kind {
                TypeKind::Enum { enumerators, .. } => {
                    let Some((_, number)) = enumerators.iter().find(|(known, _)| last_part(known) == name)
                    else {
                        return Ok(None);
                    };
                    return Ok(Some(self.load(&at, column)?.as_whole() == *number));
                }
                TypeKind::Struct(structure) if structure.variants.is_some() => {
                    let cases = structure.variants.iter().flat_map(|part| &part.variants);
                    let known =
                        cases.flat_map(|case| &case.members).any(|case| case.name.as_deref() == Some(name));
                    if !known {
                        return Ok(None);
                    }
                    let Some((active, payload)) = self.layout.active_case(&at, structure) else {
                        return Ok(Some(false));
                    };
                    return Ok(Some(active == name && self.holds(&payload, values, column)?));
                }
                _ => match self.layout.shape(&at) {
                    Shape::Inner { target, .. } => at = target,
                    _ => return Ok(None),
                },
            }
        }
        Ok(None)
    }

    /// Whether the fields of a case equal these values.
    fn holds(&self, payload: &Placed, values: &[Node], column: usize) -> Result<bool, Failure> {
        for (index, value) in values.iter().enumerate() {
            let Some(field) = self.layout.field(payload, &index.to_string()) else { return Ok(false) };
            let equal = match self.case_of(value) {
                Some((name, inner)) => self.is_case(&field, name, inner, column)?.unwrap_or(false),
                None => {
                    self.order(&Operand::Placed(field), &self.operand(value)?, column)?
                        == Some(Ordering::Equal)
                }
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of an enumerator of the place's type.
    pub(super) fn enumerator(&self, place: &Placed, node: &Node) -> Option<i128> {
        let (name, values) = self.case_of(node)?;
        let (_, found) = self.layout.real(place)?;
        let TypeKind::Enum { enumerators, .. } = &found.kind else { return None };
        let found = enumerators.iter().find(|(known, _)| values.is_empty() && last_part(known) == name);
        found.map(|(_, number)| *number)
    }

    /// The value of a map's key.
    pub(super) fn entry(&self, map: &List, key: &Node, column: usize) -> Result<Placed, Failure> {
        let wanted = self.operand(key)?;
        let mut offset = 0;
        while offset < map.count.min(MOST_ENTRIES) {
            let fetched = self.layout.fetch(map, offset, 1000);
            if fetched.items.is_empty() {
                break;
            }
            offset += fetched.items.len() as u64;
            for item in fetched.items {
                let Some(found) = item.key else { continue };
                if self.order(&Operand::Placed(found), &wanted, column)? == Some(Ordering::Equal) {
                    return Ok(item.value);
                }
            }
        }
        let key = match &wanted {
            Operand::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
            Operand::Scalar(scalar) if scalar.is_float() => scalar.as_float().to_string(),
            Operand::Scalar(scalar) => scalar.as_whole().to_string(),
            Operand::Placed(placed) => {
                self.types().get(placed.type_ref).map_or_else(String::new, |t| t.name.clone())
            }
        };
        Err(Failure::NoSuchKey { column, key })
    }
}

/// At most `most` characters of a text, as UTF-8.
pub(super) fn whole_text(layout: &Layout<'_>, text: &Text, most: u64) -> Result<Vec<u8>, Absence> {
    let excerpt = layout.excerpt(text, most);
    match excerpt.broken {
        Some(absence) => Err(absence),
        None => Ok(excerpt.bytes),
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}
