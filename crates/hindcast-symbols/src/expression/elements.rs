//! Many values at once: the elements of containers, lists and trees, and what they come to together.

use std::{cell::Cell, collections::HashSet, ops::ControlFlow};

use super::{
    Global, Register, Scope,
    error::ExpressionError as Failure,
    evaluate::{Evaluator, Operand},
    scalar::Scalar,
    syntax::{Kind, Links, Node, Together},
};
use crate::{
    Memory,
    types::{Language, TypeKind},
    value::{DerivedTypes, Placed, items::MOST_ELEMENTS, shape::Shape},
};

/// What is done with each element, until one is enough.
type Visit<'v> = dyn FnMut(&Element) -> Result<ControlFlow<()>, Failure> + 'v;

/// One of many values.
#[derive(Debug, Clone)]
pub(super) struct Element {
    /// Of a map's entry.
    key: Option<Placed>,
    value: Placed,
}

/// The scope of conditions on an element: `it`, the `key` of a map's entry, and the element's members hide what is around.
struct ElementScope<'a> {
    element: &'a Element,
    around: &'a Evaluator<'a>,
}

impl Scope for ElementScope<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        let own = match name {
            "it" => Some(self.element.value.clone()),
            "key" if self.element.key.is_some() => self.element.key.clone(),
            _ => self.around.member_of(&self.element.value, name, 0).ok().flatten(),
        };
        own.or_else(|| self.around.scope.local(name))
    }

    fn global(&self, name: &str) -> Option<Global> {
        self.around.scope.global(name)
    }

    fn register(&self, name: &str) -> Option<Register> {
        self.around.scope.register(name)
    }

    fn types(&self) -> &DerivedTypes<'_> {
        self.around.scope.types()
    }

    fn memory(&self) -> &dyn Memory {
        self.around.scope.memory()
    }

    fn names(&self) -> Vec<String> {
        let members = self.around.field_names(&self.element.value);
        members.into_iter().chain(self.around.scope.names()).collect()
    }
}

impl Evaluator<'_> {
    /// What many elements come to, of those that the condition holds for.
    pub(super) fn together(
        &self,
        together: Together,
        of: &Node,
        condition: Option<&Node>,
        column: usize,
    ) -> Result<Scalar, Failure> {
        let mut sum = Sum::default();
        let (mut count, mut holds) = (0_u64, 0_u64);
        let mut extreme: Option<Scalar> = None;
        self.each_of(of, &mut |element| {
            count += 1;
            if let Some(condition) = condition
                && !self.on(element, |evaluator| evaluator.truth(condition))?
            {
                // One that it does not hold for is enough to know.
                return Ok(stop_if(together == Together::All));
            }
            match together {
                Together::Count => {}
                Together::Any | Together::All => {
                    let is_true = condition.is_some() || self.load(&element.value, column)?.is_true();
                    holds += u64::from(is_true);
                    let is_decided = is_true == (together == Together::Any);
                    return Ok(stop_if(is_decided));
                }
                Together::Sum => match self.load(&element.value, column)? {
                    Scalar::Pointer(..) => return Err(self.wrong_type(&element.value, "a number", column)),
                    number => sum.add(number),
                },
                Together::Least | Together::Greatest => {
                    let value = self.load(&element.value, column)?;
                    let is_further = extreme.is_none_or(|known| match value.compare(known) {
                        Some(order) if together == Together::Least => order.is_lt(),
                        Some(order) => order.is_gt(),
                        None => false,
                    });
                    if is_further {
                        extreme = Some(value);
                    }
                }
            }
            holds += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        match together {
            Together::Count => Ok(Scalar::Literal(i128::from(holds))),
            Together::Any => Ok(Scalar::Truth(holds > 0)),
            Together::All => Ok(Scalar::Truth(holds == count)),
            Together::Sum => Ok(sum.total()),
            Together::Least | Together::Greatest => extreme.ok_or(Failure::NoElements { column }),
        }
    }

    /// Evaluates something with an element's members in scope.
    fn on<T>(
        &self,
        element: &Element,
        evaluate: impl FnOnce(&Evaluator<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let scope = ElementScope { element, around: self };
        evaluate(&Evaluator::new(&scope))
    }

    /// Goes through the values of an expression with `[*]`, `list` or `tree` in it, or through the elements of one value.
    fn each_of(&self, node: &Node, visit: &mut Visit<'_>) -> Result<(), Failure> {
        let count = Cell::new(0);
        let mut visit = |element: &Element| {
            count.set(count.get() + 1);
            if count.get() > MOST_ELEMENTS {
                let why = format!("there are more than {MOST_ELEMENTS}");
                return Err(Failure::BrokenElements { column: node.column, why });
            }
            visit(element)
        };
        match self.source_in(node) {
            Some(_) => self.each_value(node, &mut visit).map(drop),
            None => self.each_element(&self.placed(node)?, node.column, &mut visit).map(drop),
        }
    }

    /// The first node, in the order of evaluation, that gives many values and stands for none of them.
    fn source_in<'n>(&self, node: &'n Node) -> Option<&'n Node> {
        if self.bound_to(node).is_some() {
            return None;
        }
        match &node.kind {
            // It has its elements to itself.
            Kind::Together(..) => None,
            Kind::Linked(_, first, _) => self.source_in(first).or(Some(node)),
            Kind::Each(of) => self.source_in(of).or(Some(node)),
            kind => kind.children().into_iter().find_map(|child| self.source_in(child)),
        }
    }

    pub(super) fn bound_to(&self, node: &Node) -> Option<Placed> {
        let bound = self.bound.borrow();
        bound.iter().rev().find(|(known, _)| std::ptr::eq(*known, node)).map(|(_, value)| value.clone())
    }

    /// Evaluates a node once for every element of the nodes in it that give many.
    fn each_value(&self, node: &Node, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Failure> {
        let Some(source) = self.source_in(node) else {
            return visit(&Element { key: None, value: self.placed(node)? });
        };
        let is_whole = std::ptr::eq(source, node);
        let mut bind = |element: &Element| {
            if is_whole {
                return visit(element);
            }
            self.bound.borrow_mut().push((source, element.value.clone()));
            let visited = self.each_value(node, visit);
            self.bound.borrow_mut().pop();
            visited
        };
        match &source.kind {
            Kind::Linked(links, first, by) => self.each_linked(*links, first, by, source.column, &mut bind),
            Kind::Each(of) => self.each_element(&self.placed(of)?, source.column, &mut bind),
            _ => Err(Failure::ManyValues { column: source.column }),
        }
    }

    /// The elements of a container, also behind owners and references.
    fn each_element(
        &self,
        value: &Placed,
        column: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut at = value.clone();
        for _ in 0..16 {
            match self.layout.shape(&at) {
                Shape::Inner { target, .. } => at = target,
                Shape::List(list) => {
                    let mut visited = Ok(ControlFlow::Continue(()));
                    let broken = self.layout.each(&list, &mut |item| {
                        visited = visit(&Element { key: item.key, value: item.value });
                        matches!(visited, Ok(ControlFlow::Continue(())))
                    });
                    let why =
                        broken.or(list.note).filter(|_| matches!(visited, Ok(ControlFlow::Continue(()))));
                    return why.map_or(visited, |why| Err(Failure::BrokenElements { column, why }));
                }
                Shape::Corrupt(why) => return Err(Failure::BrokenElements { column, why }),
                Shape::Plain => {
                    // A pointer to a container, written as if it were one. One of C does not say how many there are.
                    let pointed = self.layout.real(&at).filter(|(_, found)| {
                        matches!(found.kind, TypeKind::Pointer { .. }) && found.language != Language::C
                    });
                    match pointed.and_then(|_| self.layout.target(&at)) {
                        Some(target) => at = target,
                        None => break,
                    }
                }
                _ => break,
            }
        }
        Err(self.wrong_type(value, "a container; write `p[0..n]` for `n` elements from a pointer on", column))
    }

    /// Elements that point to the next ones. One that points to the first ends a list; any other circle is an error.
    fn each_linked(
        &self,
        links: Links,
        first: &Node,
        by: &[Node],
        column: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        let start = self.pointed(self.operand(first)?, column)?;
        let mut waiting: Vec<(u64, Placed)> = start.into_iter().collect();
        let begin = waiting.first().map(|(address, _)| *address);
        let mut seen = HashSet::new();
        while let Some((address, value)) = waiting.pop() {
            if !seen.insert(address) {
                if links == Links::List && Some(address) == begin {
                    break;
                }
                return Err(Failure::LinkedInCircle { column, address, count: seen.len() as u64 });
            }
            let element = Element { key: None, value };
            if visit(&element)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            for link in by.iter().rev() {
                let next =
                    self.on(&element, |evaluator| evaluator.pointed(evaluator.operand(link)?, column))?;
                waiting.extend(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What a link leads to, with its address; nothing where it leads nowhere.
    fn pointed(&self, link: Operand, column: usize) -> Result<Option<(u64, Placed)>, Failure> {
        let mut at = match link {
            Operand::Placed(placed) => placed,
            Operand::Scalar(Scalar::Pointer(0, _)) => return Ok(None),
            Operand::Scalar(Scalar::Pointer(address, Some(target))) => {
                return Ok(Some((address, Placed::memory(target, address))));
            }
            other => return Err(self.wrong_operand(&other, "a pointer to something", column)),
        };
        for _ in 0..16 {
            let (_, found) = self.layout.real(&at).ok_or(Failure::NoPlace { column })?;
            if let TypeKind::Struct(structure) = &found.kind
                && structure.variants.is_some()
            {
                // `Option<Box<Node>>`, in Rust.
                match self.layout.active_case(&at, structure) {
                    Some((case, payload)) if case == "Some" => match self.layout.field(&payload, "0") {
                        Some(inner) => at = inner,
                        None => break,
                    },
                    Some((case, _)) if case == "None" => return Ok(None),
                    _ => break,
                }
                continue;
            }
            let is_pointer = matches!(found.kind, TypeKind::Pointer { .. });
            at = match self.layout.shape(&at) {
                // Rust's references and boxes are shown as what they point to.
                Shape::Inner { target, .. } if is_pointer => {
                    let address = target.address().ok_or(Failure::NoPlace { column })?;
                    return Ok(Some((address, target)));
                }
                Shape::Inner { target, .. } => target,
                _ if is_pointer => {
                    return match self.load(&at, column)? {
                        Scalar::Pointer(0, _) => Ok(None),
                        Scalar::Pointer(address, Some(target)) => {
                            Ok(Some((address, Placed::memory(target, address))))
                        }
                        _ => break,
                    };
                }
                // The first element itself, such as a list's head in a structure.
                _ => {
                    let address = at.address().ok_or(Failure::NoPlace { column })?;
                    return Ok(Some((address, at)));
                }
            };
        }
        Err(self.wrong_type(&at, "a pointer to something", column))
    }
}

fn stop_if(is_decided: bool) -> ControlFlow<()> {
    if is_decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A sum that is larger than its parts may be.
#[derive(Default)]
struct Sum {
    whole: i128,
    fraction: f64,
    is_fraction: bool,
}

impl Sum {
    fn add(&mut self, value: Scalar) {
        if value.is_float() {
            self.is_fraction = true;
            self.fraction += value.as_float();
        } else {
            self.whole = self.whole.wrapping_add(value.as_whole());
        }
    }

    fn total(&self) -> Scalar {
        match self.is_fraction {
            true => Scalar::FloatLiteral(self.fraction + self.whole as f64),
            false => Scalar::Literal(self.whole),
        }
    }
}
