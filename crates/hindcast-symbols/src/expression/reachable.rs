//! All objects that can be reached from one by pointers whose types say what they point to.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ops::ControlFlow,
    sync::Arc,
};

use super::{
    elements::{Element, Position, Visit},
    error::ExpressionError as Failure,
    evaluate::Evaluator,
    syntax::{Kind, Node},
};
use crate::{
    types::{StructFlavour, TypeKind, TypeRef},
    value::{Placed, shape::Shape},
};

/// Values within values are looked into so deep.
const DEEPEST: u32 = 24;

/// A walk through a program's objects.
struct Walk<'e, 's> {
    evaluator: &'e Evaluator<'s>,
    /// What is still to be visited, the nearest first.
    waiting: VecDeque<Placed>,
    /// By address and type: an object begins where its first member does.
    seen: HashSet<(u64, usize)>,
    /// The same type has several entries in a program's debug information.
    names: HashMap<Arc<str>, usize>,
    numbers: HashMap<TypeRef, usize>,
}

impl Evaluator<'_> {
    /// Goes through the object that `first` points to, or is, and through all that can be reached from there, each once;
    /// with `wanted`, only those of the type of this name are told. Pointers in unions, to numbers, characters and
    /// `void`, and those that lead nowhere are not followed.
    pub(super) fn each_reachable(
        &self,
        first: &Node,
        wanted: Option<&Node>,
        column: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        let wanted = match wanted.map(|node| &node.kind) {
            None => None,
            Some(Kind::Name(name)) => Some(name.as_str()),
            Some(_) => {
                let found = "something else".to_owned();
                return Err(Failure::Syntax { column, expected: "the name of a type", found });
            }
        };
        let mut walk = Walk {
            evaluator: self,
            waiting: VecDeque::new(),
            seen: HashSet::new(),
            names: HashMap::new(),
            numbers: HashMap::new(),
        };
        if let Some((_, start)) = self.pointed(self.operand(first)?, column)? {
            walk.add(start);
        }
        while let Some(value) = walk.waiting.pop_front() {
            self.budget.step(column)?;
            let is_wanted = wanted.is_none_or(|wanted| self.is_of_type(value.type_ref, wanted));
            let element = Element { key: None, value, position: Some(Position::Other) };
            if is_wanted && visit(&element)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            walk.follow(&element.value, DEEPEST, column)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether a type has this name, with or without what it is in and what it is made with.
    fn is_of_type(&self, type_ref: TypeRef, wanted: &str) -> bool {
        let is_same = |type_ref: TypeRef| {
            let name = self.types().name_of(type_ref);
            let plain = name.trim_start_matches("struct ").trim_start_matches("class ");
            let bare = plain.split('<').next().unwrap_or(plain);
            let ends = |name: &str| name == wanted || name.ends_with(&format!("::{wanted}"));
            ends(plain) || ends(bare)
        };
        is_same(type_ref) || self.types().real(type_ref).is_some_and(|(real, _)| is_same(real))
    }
}

impl Walk<'_, '_> {
    /// An object that a pointer leads to.
    fn add(&mut self, value: Placed) {
        let Some(address) = value.address() else { return };
        let Some((real, _)) = self.evaluator.layout.real(&value) else { return };
        let number = self.number_of(real);
        if self.seen.insert((address, number)) {
            self.waiting.push_back(value);
        }
    }

    fn number_of(&mut self, type_ref: TypeRef) -> usize {
        if let Some(&number) = self.numbers.get(&type_ref) {
            return number;
        }
        let name: Arc<str> = self.evaluator.types().name_of(type_ref).into();
        let next = self.names.len();
        let number = *self.names.entry(name).or_insert(next);
        self.numbers.insert(type_ref, number);
        number
    }

    /// Adds all that a value points to, in itself or in what it has within it.
    fn follow(&mut self, value: &Placed, depth: u32, column: usize) -> Result<(), Failure> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        let evaluator = self.evaluator;
        let layout = evaluator.layout;
        match layout.shape(value) {
            Shape::Inner { target, .. } => self.meet(value, target, depth, column),
            Shape::List(list) => {
                let mut followed = Ok(());
                // A container that is broken has those elements that come before.
                let _ = layout.each(&list, &mut |item| {
                    let inner = item.key.into_iter().chain([item.value]);
                    for inner in inner {
                        followed = evaluator
                            .budget
                            .step(column)
                            .and_then(|()| self.meet(value, inner, depth, column));
                    }
                    followed.is_ok()
                });
                followed
            }
            Shape::Tuple(values) => values.iter().try_for_each(|inner| self.follow(inner, depth, column)),
            Shape::Plain => self.follow_plain(value, depth, column),
            Shape::Text(_) | Shape::Words(_) | Shape::Corrupt(_) => Ok(()),
        }
    }

    fn follow_plain(&mut self, value: &Placed, depth: u32, column: usize) -> Result<(), Failure> {
        let layout = self.evaluator.layout;
        let Some((_, found)) = layout.real(value) else { return Ok(()) };
        match &found.kind {
            TypeKind::Pointer { .. } => match layout.target(value) {
                Some(target) => self.meet(value, target, depth, column),
                None => Ok(()),
            },
            TypeKind::Struct(structure) if structure.flavour != StructFlavour::Union => {
                if structure.variants.is_some() {
                    return match layout.active_case(value, structure) {
                        Some((_, payload)) => self.follow(&payload, depth, column),
                        None => Ok(()),
                    };
                }
                for base in structure.bases.iter().filter_map(|base| layout.base(value, base)) {
                    self.follow(&base, depth, column)?;
                }
                for member in &structure.members {
                    self.follow(&layout.member(value, member), depth, column)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A value that another one has, within itself or elsewhere.
    fn meet(&mut self, outer: &Placed, value: Placed, depth: u32, column: usize) -> Result<(), Failure> {
        let layout = self.evaluator.layout;
        let Some(address) = value.address() else { return self.follow(&value, depth, column) };
        if self.has_within(outer, address) {
            return self.follow(&value, depth, column);
        }
        let mut byte = [0];
        if address == 0 || layout.memory.read(address, &mut byte).is_err() {
            return Ok(());
        }
        let value = self.unwrapped(value);
        let Some((_, found)) = layout.real(&value) else { return Ok(()) };
        match found.kind {
            TypeKind::Struct(_) => self.add(value),
            // A table of pointers, for example.
            TypeKind::Pointer { .. } | TypeKind::Array { .. } => return self.follow(&value, depth, column),
            _ => {}
        }
        Ok(())
    }

    /// What cells and their like have in them.
    fn unwrapped(&self, value: Placed) -> Placed {
        const MOST: usize = 8;
        let mut at = value;
        for _ in 0..MOST {
            match self.evaluator.layout.shape(&at) {
                Shape::Inner { target, .. }
                    if target.address().is_some_and(|address| self.has_within(&at, address)) =>
                {
                    at = target;
                }
                _ => break,
            }
        }
        at
    }

    fn has_within(&self, value: &Placed, address: u64) -> bool {
        let size = self.evaluator.types().size(value.type_ref).unwrap_or(0);
        value.address().is_some_and(|start| (start..start.saturating_add(size)).contains(&address))
    }
}
