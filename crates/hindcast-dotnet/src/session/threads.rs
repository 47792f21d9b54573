//! Threads of the debuggee, under the numbers that the program itself uses.

use std::collections::{HashMap, HashSet};

use hindcast_core::debug::{DebugError, Reason, Thread as CoreThread, ThreadId, ThreadState, Wait};

use super::{Session, failed};
use crate::{
    cor::{Com, Thread},
    visible::visible,
};

/// What a thread is doing, as the runtime tells (`CorDebugUserState`).
const THREAD_POOL: u32 = 0x100;
/// The name that newer runtimes give to the threads of the pool.
const POOL_NAMES: &[&str] = &[".NET TP Worker", ".NET ThreadPool Worker"];
/// The number of the thread that runs `Main`, in every program.
const MAIN: u32 = 1;
/// The longest name that is shown.
const LONGEST_NAME: u32 = 128;

/// Which numbers were given to which threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// By the number of the system's thread.
    numbers: HashMap<u32, u32>,
    /// How many threads were told of.
    told: u64,
    /// The system's numbers of those that were told of and have not ended.
    begun: HashSet<u32>,
    /// The system's thread, and the frame in it, whose callers were waited for in vain: no step in it waits again.
    pub(super) waited_for: Option<(u32, u64)>,
}

impl Threads {
    /// Whether none was told of yet.
    pub(super) fn is_empty(&self) -> bool {
        self.told == 0
    }

    /// Takes in a new thread; true for the first one.
    pub(super) fn add(&mut self, thread: &Com<Thread>, was_launched: bool) -> bool {
        let is_first = self.told == 0;
        self.told += 1;
        if let Ok(system) = thread.id() {
            self.begun.insert(system);
            if is_first && was_launched {
                self.numbers.insert(system, MAIN);
            }
        }
        is_first
    }

    /// Whether it was told of.
    pub(super) fn has_begun(&self, thread: &Com<Thread>) -> bool {
        thread.id().is_ok_and(|system| self.begun.contains(&system))
    }

    pub(super) fn forget(&mut self, thread: &Com<Thread>) {
        if let Ok(system) = thread.id() {
            self.numbers.remove(&system);
            self.begun.remove(&system);
        }
    }
}

impl Session {
    /// The number of a thread: the program's own where it has one by now, the system's otherwise.
    pub(super) fn thread_id(&mut self, thread: &Com<Thread>) -> ThreadId {
        let Ok(system) = thread.id() else { return ThreadId(0) };
        if let Some(known) = self.threads.numbers.get(&system) {
            return ThreadId(*known);
        }
        let is_main = self.target.pid == Some(system);
        let number = if is_main { Some(MAIN) } else { self.managed_number(thread) };
        match number {
            Some(number) => {
                self.threads.numbers.insert(system, number);
                ThreadId(number)
            }
            // It may get its own number later.
            None => ThreadId(system),
        }
    }

    fn managed_number(&self, thread: &Com<Thread>) -> Option<u32> {
        let object = self.values().see(&thread.object().ok()??).ok()?;
        let number = self.values().integer_field(&object, &["_managedThreadId", "m_ManagedThreadId"])?;
        u32::try_from(number).ok()
    }

    pub(super) fn all_threads(&self) -> Result<Vec<Com<Thread>>, DebugError> {
        self.alive()?;
        self.process().enumerate_threads().and_then(|list| list.all()).map_err(failed)
    }

    /// The thread of a number, which may also be the system's.
    pub(super) fn thread(&mut self, id: ThreadId) -> Result<Com<Thread>, DebugError> {
        let threads = self.all_threads()?;
        for thread in &threads {
            if self.thread_id(thread) == id {
                return Ok(thread.clone());
            }
        }
        let by_system = threads.into_iter().find(|thread| thread.id().is_ok_and(|system| system == id.0));
        by_system.ok_or(DebugError::NoSuchThread(id))
    }

    pub(super) fn thread_list(&mut self) -> Result<Vec<CoreThread>, DebugError> {
        let threads = self.all_threads()?;
        let mut described = Vec::with_capacity(threads.len());
        for thread in threads {
            let id = self.thread_id(&thread);
            let name = self.thread_name(&thread, id);
            let location = self.thread_location(&thread);
            let wait = self.wait_of(&thread);
            let state = ThreadState::Suspended;
            described.push(CoreThread { id, name, state, location, waits_for: None, wait });
        }
        described.sort_by_key(|thread| thread.id.0);
        let names: HashMap<_, _> = described.iter().map(|thread| (thread.id, thread.name.clone())).collect();
        for thread in &mut described {
            let words = |wait: &Wait| wait.in_words(|id| named(id, names.get(&id)));
            thread.waits_for = thread.wait.as_ref().map(words);
        }
        Ok(described)
    }

    fn thread_name(&self, thread: &Com<Thread>, id: ThreadId) -> String {
        let is_pooled = thread.user_state().is_ok_and(|state| state & THREAD_POOL != 0);
        let own = thread.object().ok().flatten().and_then(|object| {
            let object = self.values().see(&object).ok()?;
            self.values().any_field(&object, &["_name", "m_Name"])?.text(LONGEST_NAME)
        });
        let name = match own {
            Some(name) if !POOL_NAMES.contains(&name.as_str()) => name,
            Some(_) => "Thread Pool Worker".into(),
            None if is_pooled => "Thread Pool Worker".into(),
            None if id.0 == MAIN => "Main Thread".into(),
            None => self.system_name(thread),
        };
        visible(&name).into_owned()
    }

    /// What the system calls a thread: the runtime's own threads have names there.
    pub(super) fn system_name(&self, thread: &Com<Thread>) -> String {
        let pid = self.target.pid.unwrap_or_default();
        let name = thread
            .id()
            .ok()
            .and_then(|id| std::fs::read_to_string(format!("/proc/{pid}/task/{id}/comm")).ok());
        name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
    }

    /// The thread that a user who pauses wants to see: the main one where it runs code of the program, otherwise the
    /// first that does.
    pub(super) fn most_interesting_thread(&mut self) -> Result<Com<Thread>, DebugError> {
        let mut threads = self.all_threads()?;
        let current = self.last_stop.as_ref().map(|stop| stop.thread);
        threads.sort_by_key(|thread| {
            let id = self.thread_id(thread);
            (Some(id) != current, id.0 != MAIN, id.0)
        });
        let runs_mine = |session: &mut Self, thread: &Com<Thread>| {
            session
                .thread_location(thread)
                .is_some_and(|location| !location.library && location.line.is_some())
        };
        let mine = threads.iter().find(|thread| runs_mine(self, thread)).cloned();
        mine.or_else(|| threads.into_iter().next()).ok_or_else(|| {
            DebugError::System(
                Reason::new("the program has no managed thread yet").advise("continue, and pause later"),
            )
        })
    }
}

/// `thread 4 (left)`.
fn named(id: ThreadId, name: Option<&String>) -> String {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("thread {id} ({name})"),
        None => format!("thread {id}"),
    }
}
