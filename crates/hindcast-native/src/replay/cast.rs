//! The threads of a program that is played by one system thread: the others are nothing but their registers.

use std::{collections::BTreeMap, fmt, rc::Rc};

use super::frozen::settled;
use crate::sys::{GeneralRegisters, Stopped, Tid, TraceError, VectorRegisters};

/// A thread where it stands. One in a system call stands before it.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) registers: GeneralRegisters,
    pub(crate) vectors: VectorRegisters,
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}", self.registers.pc())
    }
}

impl Actor {
    pub(crate) fn of(thread: &Stopped) -> Result<Self, TraceError> {
        Ok(Self { registers: settled(thread.registers()?, None), vectors: thread.vector_registers()? })
    }
}

/// All threads of a program at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    /// The one that runs.
    acting: Tid,
    others: BTreeMap<Tid, Rc<Actor>>,
}

impl Cast {
    pub(crate) fn new(acting: Tid, others: BTreeMap<Tid, Rc<Actor>>) -> Self {
        Self { acting, others }
    }

    /// A program of one thread.
    pub(crate) fn alone(acting: Tid) -> Self {
        Self::new(acting, BTreeMap::new())
    }

    pub(crate) fn acting(&self) -> Tid {
        self.acting
    }

    /// Those that do not run.
    pub(crate) fn others(&self) -> &BTreeMap<Tid, Rc<Actor>> {
        &self.others
    }

    pub(crate) fn contains(&self, tid: Tid) -> bool {
        tid == self.acting || self.others.contains_key(&tid)
    }

    /// In the order of their numbers.
    pub(crate) fn threads(&self) -> Vec<Tid> {
        let mut threads: Vec<_> = self.others.keys().copied().chain([self.acting]).collect();
        threads.sort_unstable();
        threads
    }

    /// A thread is made; the one that made it goes on.
    pub(super) fn enter(&mut self, tid: Tid, actor: Rc<Actor>) {
        self.others.insert(tid, actor);
    }

    /// Another thread runs from now on; `leaving` is the one that ran. `None` where there is no such thread.
    pub(super) fn turn(&mut self, to: Tid, leaving: Option<Actor>) -> Option<Rc<Actor>> {
        let next = self.others.remove(&to)?;
        if let Some(leaving) = leaving {
            self.others.insert(self.acting, Rc::new(leaving));
        }
        self.acting = to;
        Some(next)
    }
}
