//! Many values at once: the elements of containers, lists and trees, and what they come to together.

use std::{collections::HashSet, ops::ControlFlow};

use super::{
    Budget, Expression, ExpressionError, Global, Register, Scope,
    error::ExpressionError as Failure,
    evaluate::{Bound, Evaluator, Operand},
    scalar::Scalar,
    syntax::{Kind, Links, Node, Together},
    tally::Tally,
};
use crate::{
    Memory, Pages,
    types::{Encoding, Language, TypeKind, TypeRef},
    value::{
        Absence, DerivedTypes, Placed,
        layout::{Search, plain_field_name},
        shape::{Shape, Style},
    },
};

/// What is done with each element, until one is enough.
pub(super) type Visit<'v> = dyn FnMut(&Element) -> Result<ControlFlow<()>, Failure> + 'v;

/// One of many values.
#[derive(Debug, Clone)]
pub(super) struct Element {
    /// Of a map's entry.
    pub(super) key: Option<Placed>,
    pub(super) value: Placed,
    /// Where it is in its container, list or tree; none for what is computed of such elements.
    pub(super) position: Option<Position>,
}

/// Where an element is in its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// So many come before it, and an index of this number means it.
    Index(u64),
    /// It has no index.
    Other,
}

/// One of the many values that an expression gives.
pub struct Found<'f> {
    /// The value.
    pub value: &'f Placed,
    /// The key of a map's entry.
    pub key: Option<&'f Placed>,
    /// The positions of the elements that it belongs to: one for each `[*]`, `list` and `tree`, outer ones first.
    pub positions: &'f dyn Fn() -> Vec<Position>,
    /// In which `it`, the `key` of a map's entry, and the names of its members mean those of this value.
    pub scope: &'f dyn Scope,
}

impl Expression {
    /// Goes through the values of an expression with `[*]`, `list` or `tree` in it, or through the elements of a container,
    /// until `visit` breaks off. Memory is read in whole pages, which are kept meanwhile.
    pub fn each(
        &self,
        scope: &dyn Scope,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<ControlFlow<()>, ExpressionError>,
    ) -> Result<(), ExpressionError> {
        let pages = Pages::over(scope.memory());
        let scope = PagedScope { around: scope, pages: &pages };
        let evaluator = Evaluator::new(&scope);
        evaluator.each_of(&self.root, &mut |element| {
            let inner = ElementScope { element, around: &evaluator };
            visit(&Found {
                value: &element.value,
                key: element.key.as_ref(),
                positions: &|| evaluator.positions(element),
                scope: &inner,
            })
        })
    }
}

/// Evaluates something in the scope of an element that was found before.
pub fn on_element<T>(
    scope: &dyn Scope,
    (key, value): (Option<&Placed>, &Placed),
    evaluate: impl FnOnce(&dyn Scope) -> T,
) -> T {
    let around = Evaluator::new(scope);
    let element = Element { key: key.cloned(), value: value.clone(), position: None };
    evaluate(&ElementScope { element: &element, around: &around })
}

/// A scope whose memory is read in whole pages.
struct PagedScope<'a> {
    around: &'a dyn Scope,
    pages: &'a Pages<'a>,
}

impl Scope for PagedScope<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        self.around.local(name)
    }

    fn global(&self, name: &str) -> Option<Global> {
        self.around.global(name)
    }

    fn register(&self, name: &str) -> Option<Register> {
        self.around.register(name)
    }

    fn language(&self) -> Language {
        self.around.language()
    }

    fn types(&self) -> &DerivedTypes<'_> {
        self.around.types()
    }

    fn memory(&self) -> &dyn Memory {
        self.pages
    }

    fn names(&self) -> Vec<String> {
        self.around.names()
    }

    fn budget(&self) -> Option<Budget> {
        self.around.budget()
    }
}

/// The scope of conditions on an element: `it`, the `key` of a map's entry, and the element's members hide what is around.
struct ElementScope<'a> {
    element: &'a Element,
    around: &'a Evaluator<'a>,
}

impl ElementScope<'_> {
    /// The element's member. One that only other elements of its type have is not there, and nothing else is meant by its name.
    fn member(&self, name: &str) -> Option<Placed> {
        let value = &self.element.value;
        let inner = self.around.optional(value);
        if let Ok(Some(found)) = self.around.member_of(inner.as_ref().unwrap_or(value), name, 0) {
            return Some(found);
        }
        let may_have = self.around.may_have(value.type_ref, name, &mut Search::new());
        let address = value.address().unwrap_or_default();
        // Nobody comes to ask for its type.
        let type_ref = || self.around.types().base("u8", Encoding::Unsigned, 1, Language::Rust);
        may_have.then(|| Placed::gone(type_ref(), Absence::Unreadable(address)))
    }
}

impl Scope for ElementScope<'_> {
    fn local(&self, name: &str) -> Option<Placed> {
        let own = match name {
            "it" => Some(self.element.value.clone()),
            "key" if self.element.key.is_some() => self.element.key.clone(),
            _ => self.member(name),
        };
        own.or_else(|| self.around.scope.local(name))
    }

    fn global(&self, name: &str) -> Option<Global> {
        self.around.scope.global(name)
    }

    fn register(&self, name: &str) -> Option<Register> {
        self.around.scope.register(name)
    }

    fn language(&self) -> Language {
        self.around.scope.language()
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

    fn budget(&self) -> Option<Budget> {
        Some(self.around.budget.clone())
    }
}

impl Evaluator<'_> {
    /// What a Rust `Option` has in it.
    fn optional(&self, value: &Placed) -> Option<Placed> {
        let (_, found) = self.layout.real(value)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        structure.variants.as_ref()?;
        let (case, payload) = self.layout.active_case(value, structure)?;
        if case == "Some" { self.layout.field(&payload, "0") } else { None }
    }

    /// Whether a value of a type can have a member of this name, itself or in what it owns or points to.
    fn may_have(&self, type_ref: TypeRef, name: &str, search: &mut Search) -> bool {
        let Some((_, found)) = self.types().real(type_ref) else { return false };
        let mut inner = Vec::new();
        match &found.kind {
            TypeKind::Pointer { target, .. } => inner.extend(*target),
            TypeKind::Struct(structure) => {
                let has = |known: &str| plain_field_name(known) == name;
                if structure.members.iter().any(|member| member.name.as_deref().is_some_and(has)) {
                    return true;
                }
                // The members of an enum are called as its cases.
                let cases = structure.variants.iter().flat_map(|part| &part.variants);
                let members = structure.members.iter().chain(cases.flat_map(|case| &case.members));
                inner.extend(members.map(|member| member.type_ref));
                inner.extend(structure.bases.iter().map(|base| base.type_ref));
            }
            _ => {}
        }
        let mut inner = inner.into_iter();
        inner.any(|inner| search.deeper(|search| Some(self.may_have(inner, name, search))) == Some(true))
    }

    /// What many elements come to, of those that the condition holds for.
    pub(super) fn together(
        &self,
        together: Together,
        of: &Node,
        condition: Option<&Node>,
        column: usize,
    ) -> Result<Scalar, Failure> {
        if !self.scope.memory().is_in_pages() {
            let pages = Pages::over(self.scope.memory());
            let scope = PagedScope { around: self.scope, pages: &pages };
            let evaluator = Evaluator { budget: self.budget.clone(), ..Evaluator::new(&scope) };
            return evaluator.together(together, of, condition, column);
        }
        if condition.is_none()
            && together != Together::Count
            && let Some(numbers) = self.column_of(of)
        {
            let mut tally = Tally::new(together);
            let mut take = |number| tally.take(number, column);
            // Otherwise each by itself: then it is told which one could not be read.
            if let Some(gone_through) = self.each_in(&numbers, column, &mut take) {
                return gone_through.and_then(|()| tally.total(column));
            }
        }
        let mut tally = Tally::new(together);
        self.each_of(of, &mut |element| {
            if let Some(condition) = condition
                && !self.on(element, |evaluator| evaluator.truth(condition))?
            {
                return Ok(tally.pass());
            }
            match together {
                Together::Count => Ok(tally.count()),
                Together::Any | Together::All if condition.is_some() => Ok(tally.judge(true)),
                Together::Any | Together::All => {
                    Ok(tally.judge(self.load(&element.value, column)?.is_true()))
                }
                Together::Sum | Together::Least | Together::Greatest => {
                    let number = self.load(&element.value, column)?;
                    if together == Together::Sum && matches!(number, Scalar::Pointer(..)) {
                        return Err(self.wrong_type(&element.value, "a number", column));
                    }
                    tally.take(number, column)
                }
            }
        })?;
        tally.total(column)
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
        let sources = Self::sources_of(node)?;
        let _ = match sources.as_slice() {
            [] => self.each_element(&self.placed(node)?, node.column, &mut |element| {
                self.budget.step(node.column)?;
                visit(element)
            })?,
            sources => self.each_value(node, sources, visit)?,
        };
        Ok(())
    }

    /// The nodes that give many values, in the order of evaluation; those that give the same ones stand together. Each must
    /// be part of the next: otherwise all pairs would be gone through, which nobody means.
    fn sources_of(node: &Node) -> Result<Vec<Vec<&Node>>, Failure> {
        let mut sources: Vec<Vec<&Node>> = Vec::new();
        for source in node.sources() {
            match sources.iter_mut().find(|same| same[0].is_same(source)) {
                Some(same) => same.push(source),
                None => sources.push(vec![source]),
            }
        }
        let is_apart = |pair: &&[Vec<&Node>]| !pair[1].iter().any(|outer| outer.contains(pair[0][0]));
        match sources.windows(2).find(is_apart) {
            Some(pair) => Err(Failure::ManyPairs { column: pair[1][0].column }),
            None => Ok(sources),
        }
    }

    pub(super) fn bound_to(&self, node: &Node) -> Option<Placed> {
        let bound = self.bound.borrow();
        bound.iter().rev().find(|bound| std::ptr::eq(bound.node, node)).map(|bound| bound.value.clone())
    }

    fn positions(&self, element: &Element) -> Vec<Position> {
        let bound = self.bound.borrow();
        bound.iter().filter_map(|bound| bound.position).chain(element.position).collect()
    }

    /// Evaluates a node once for every element of the nodes in it that give many.
    fn each_value(
        &self,
        node: &Node,
        sources: &[Vec<&Node>],
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        let [same, inner @ ..] = sources else {
            return visit(&Element { key: None, value: self.placed(node)?, position: None });
        };
        let source = same[0];
        let is_whole = std::ptr::eq(source, node);
        let mut bind = |element: &Element| {
            self.budget.step(source.column)?;
            if is_whole {
                return visit(element);
            }
            let before = self.bound.borrow().len();
            for (copy, node) in same.iter().enumerate() {
                let position = element.position.filter(|_| copy == 0);
                self.bound.borrow_mut().push(Bound { node: *node, value: element.value.clone(), position });
            }
            let visited = self.each_value(node, inner, visit);
            self.bound.borrow_mut().truncate(before);
            visited
        };
        match &source.kind {
            Kind::Linked(Links::Reachable, first, of) => {
                self.each_reachable(first, of.first(), source.column, &mut bind)
            }
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
                    if let Some(why) = list.note {
                        return Err(Failure::BrokenElements { column, why });
                    }
                    let mut indexes = 0..;
                    let broken = self.layout.each(&list, &mut |item| {
                        let index = indexes.next().filter(|_| list.style != Style::Map);
                        let position = Some(index.map_or(Position::Other, Position::Index));
                        visited = visit(&Element { key: item.key, value: item.value, position });
                        matches!(visited, Ok(ControlFlow::Continue(())))
                    });
                    let why = broken.filter(|_| matches!(visited, Ok(ControlFlow::Continue(()))));
                    return why.map_or(visited, |why| Err(Failure::BrokenElements { column, why }));
                }
                Shape::Text(text) => {
                    let Some(count) = text.length.known() else { break };
                    let unit = self.unit_type(&text.start, text.unit);
                    for index in 0..count {
                        let value = text.start.part(index * text.unit, unit, Some(text.unit));
                        let position = Some(Position::Index(index));
                        if visit(&Element { key: None, value, position })?.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    return Ok(ControlFlow::Continue(()));
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
            let element = Element { key: None, value, position: Some(Position::Other) };
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
    pub(super) fn pointed(&self, link: Operand, column: usize) -> Result<Option<(u64, Placed)>, Failure> {
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
