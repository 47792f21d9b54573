//! How much a question may cost.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{ExpressionError, Global, Register, Scope};
use crate::{
    Memory,
    types::Language,
    value::{DerivedTypes, Placed, items::MOST_ELEMENTS},
};

/// How long one question may take: whoever asks waits no longer.
const LONGEST: Duration = Duration::from_secs(10);

/// What one question may cost. Expressions in it, conditions in their elements too, spend of the same: each for itself
/// they would cost as much as all pairs of their elements.
#[derive(Debug, Clone)]
pub struct Budget(Rc<Spent>);

#[derive(Debug)]
struct Spent {
    steps: Cell<u64>,
    most: u64,
    begun: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(MOST_ELEMENTS)
    }
}

impl Budget {
    /// For so many elements, and 10 seconds from now on.
    pub fn of(most: u64) -> Self {
        Self(Rc::new(Spent { steps: Cell::new(0), most, begun: Instant::now() }))
    }

    /// Counts an element, of whatever level.
    pub(super) fn step(&self, column: usize) -> Result<(), ExpressionError> {
        self.steps(1, column)
    }

    /// Counts elements that are looked at all at once.
    pub(super) fn steps(&self, count: u64, column: usize) -> Result<(), ExpressionError> {
        let Spent { steps, most, begun } = &*self.0;
        // The time is asked for at every step: to judge one element, a large map may be searched.
        if count > most.saturating_sub(steps.get()) || begun.elapsed() > LONGEST {
            return Err(ExpressionError::TooManyElements { column, count: steps.get() });
        }
        steps.set(steps.get() + count);
        Ok(())
    }
}

/// A scope in which all expressions spend of one budget.
pub struct Bounded<'a> {
    around: &'a dyn Scope,
    budget: Budget,
}

impl<'a> Bounded<'a> {
    /// With a budget of its own, unless there is one around.
    pub fn new(around: &'a dyn Scope) -> Self {
        Self { around, budget: around.budget().unwrap_or_default() }
    }

    /// With this budget.
    pub fn by(budget: Budget, around: &'a dyn Scope) -> Self {
        Self { around, budget }
    }
}

impl Scope for Bounded<'_> {
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
        self.around.memory()
    }

    fn names(&self) -> Vec<String> {
        self.around.names()
    }

    fn budget(&self) -> Option<Budget> {
        Some(self.budget.clone())
    }
}
