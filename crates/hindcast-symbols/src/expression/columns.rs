//! Numbers that are found without looking for each: the elements of an array or a linked list, or one member of each. Where the first is
//! tells where the others are, and reading them takes a hundredth of the time.

use std::{collections::HashSet, ops::ControlFlow};

use super::{
    error::ExpressionError as Failure,
    evaluate::Evaluator,
    scalar::Scalar,
    syntax::{Kind, Links, Node},
};
use crate::{
    types::{Encoding, Language, TypeKind, TypeRef},
    value::{
        Placed,
        items::Items,
        layout::plain_field_name,
        shape::{List, Shape, Style},
    },
};

/// Whole elements of about this many bytes are read at once.
const AT_ONCE: u64 = 64 << 10;

/// What the numbers are, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// The first of the elements that they are in.
    start: u64,
    order: Order,
    /// Where a number is in its element, and its size.
    offset: u64,
    size: u64,
    encoding: Encoding,
    language: Language,
}

/// How one element leads to the next.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// They are side by side.
    Run { count: u64, stride: u64 },
    /// This far into each is the address of the next.
    Chain { link: u64 },
}

impl Evaluator<'_> {
    /// The numbers that an expression gives, where the first tells where the others are; none where each must be looked for.
    pub(super) fn column_of(&self, node: &Node) -> Option<Column> {
        let mut names = Vec::new();
        let sources = node.sources();
        let (first, order) = match sources.as_slice() {
            [] => self.run_of(self.placed(node).ok()?)?,
            [source] => {
                let mut at = node;
                while !std::ptr::eq(at, *source) {
                    let Kind::Field(inner, name) = &at.kind else { return None };
                    names.push(name.as_str());
                    at = inner;
                }
                match &source.kind {
                    Kind::Each(of) => self.run_of(self.placed(of).ok()?)?,
                    Kind::Linked(Links::List, first, by) => self.chain_of(first, by, source.column)?,
                    _ => return None,
                }
            }
            _ => return None,
        };
        let start = first.address()?;
        let number = names.iter().rev().try_fold(first, |at, name| self.direct_member(&at, name))?;
        let (_, found) = self.layout.real(&number)?;
        let TypeKind::Base(encoding) = found.kind else { return None };
        let (offset, size) = (number.address()?.checked_sub(start)?, found.size?);
        Some(Column { start, order, offset, size, encoding, language: found.language })
    }

    /// The first element of a container that has them side by side.
    fn run_of(&self, container: Placed) -> Option<(Placed, Order)> {
        let mut at = container;
        for _ in 0..16 {
            match self.layout.shape(&at) {
                Shape::Inner { target, .. } => at = target,
                Shape::List(List { count, items, style: Style::Sequence, note: None }) => {
                    let Items::Run { first, element, stride } = items else { return None };
                    let order = Order::Run { count, stride };
                    return (count > 0 && stride > 0).then(|| (first.retyped(element), order));
                }
                _ => return None,
            }
        }
        None
    }

    /// The first element of a list whose elements have a plain pointer to the next.
    fn chain_of(&self, first: &Node, by: &[Node], column: usize) -> Option<(Placed, Order)> {
        let [Node { kind: Kind::Name(link), .. }] = by else { return None };
        let (address, first) = self.pointed(self.operand(first).ok()?, column).ok()??;
        let link = self.direct_member(&first, link)?;
        let (_, found) = self.layout.real(&link)?;
        let TypeKind::Pointer { target: Some(target), .. } = found.kind else { return None };
        let real = |type_ref: TypeRef| self.types().real(type_ref).map(|(real, _)| real);
        let is_alike = real(target)? == real(first.type_ref)?;
        // Others stand for what they point to, such as a `Box`.
        let is_plain = matches!(self.layout.shape(&link), Shape::Plain);
        let order = Order::Chain { link: link.address()?.checked_sub(address)? };
        (is_alike && is_plain).then_some((first, order))
    }

    /// A member that is in the value itself, and in every other one of its type at the same distance.
    fn direct_member(&self, value: &Placed, name: &str) -> Option<Placed> {
        let (type_ref, found) = self.layout.real(value)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        if structure.variants.is_some() || !matches!(self.layout.shape(value), Shape::Plain) {
            return None;
        }
        let named = |known: &str| plain_field_name(known) == name;
        let member = structure.members.iter().find(|member| member.name.as_deref().is_some_and(named))?;
        Some(self.layout.member(&value.retyped(type_ref), member))
    }

    /// Goes through the numbers until `visit` breaks off. `None` where something cannot be read or is not as it should be.
    pub(super) fn each_in(
        &self,
        numbers: &Column,
        column: usize,
        visit: &mut dyn FnMut(Scalar) -> Result<ControlFlow<()>, Failure>,
    ) -> Option<Result<(), Failure>> {
        match numbers.order {
            Order::Run { count, stride } => self.each_in_run(numbers, (count, stride), column, visit),
            Order::Chain { link } => self.each_in_chain(numbers, link, column, visit),
        }
    }

    fn each_in_run(
        &self,
        numbers: &Column,
        (count, stride): (u64, u64),
        column: usize,
        visit: &mut dyn FnMut(Scalar) -> Result<ControlFlow<()>, Failure>,
    ) -> Option<Result<(), Failure>> {
        let Column { start, offset, size, encoding, language, .. } = *numbers;
        if let Err(failure) = self.budget.steps(count, column) {
            return Some(Err(failure));
        }
        let memory = self.scope.memory();
        // Who notes what is read is not told more than that.
        let is_dense = stride == size || !memory.is_noted();
        let at_once = if is_dense { (AT_ONCE / stride).max(1) } else { 1 };
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < count {
            let now = at_once.min(count - done);
            buffer.resize(usize::try_from((now - 1) * stride + size).ok()?, 0);
            memory.read(start + offset + done * stride, &mut buffer).ok()?;
            for index in 0..now {
                let from = (index * stride) as usize;
                let number = self.base(encoding, &buffer[from..from + size as usize], language)?;
                match visit(number) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Some(Ok(())),
                    Err(failure) => return Some(Err(failure)),
                }
            }
            done += now;
        }
        Some(Ok(()))
    }

    fn each_in_chain(
        &self,
        numbers: &Column,
        link: u64,
        column: usize,
        visit: &mut dyn FnMut(Scalar) -> Result<ControlFlow<()>, Failure>,
    ) -> Option<Result<(), Failure>> {
        let Column { start, offset, size, encoding, language, .. } = *numbers;
        let memory = self.scope.memory();
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let mut seen = HashSet::new();
        let mut at = start;
        while at != 0 {
            if !seen.insert(at) {
                // One that points to the first ends the list.
                return (at == start).then_some(Ok(()));
            }
            if let Err(failure) = self.budget.step(column) {
                return Some(Err(failure));
            }
            memory.read(at.checked_add(offset)?, &mut bytes).ok()?;
            match visit(self.base(encoding, &bytes, language)?) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Some(Ok(())),
                Err(failure) => return Some(Err(failure)),
            }
            at = memory.read_pointer(at.checked_add(link)?).ok()?;
        }
        Some(Ok(()))
    }
}
