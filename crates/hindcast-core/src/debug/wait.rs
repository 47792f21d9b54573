//! What threads wait for.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Location, RuntimeAddr, ThreadId};

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// What has to happen before it goes on.
    pub kind: WaitKind,
    /// The type of the object that it waits at, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The global variable that the object is, or is a part of: `ledger`, or `ledger+40`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the object is at this stop: threads that wait at one object have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_address: Option<RuntimeAddr>,
    /// Whether the task that it comes down to has completed already: the method that awaits it has only to go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_completed: bool,
    /// The thread that has to act: the one that holds the lock, or whose end is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<ThreadId>,
    /// Where the lock keeps its holder, in four bytes: who wrote there last has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_address: Option<RuntimeAddr>,
    /// Whether it is a lock that does not say who holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holder_unknown: bool,
    /// Whether only a thread of the same program can end it: nothing from outside does, and no time that passes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_threads: bool,
    /// The open files of which one has to become ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
    /// The process whose end is waited for, where it is a certain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// How long it waits at most; absent where it waits for ever, or where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Whether it may go on by itself at some time that is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_time_out: bool,
    /// Where the methods that a task consists of await, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<Location>,
    /// How many methods between the last two of those are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub awaits_left_out: usize,
}

/// An open file, pipe or socket of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// What it is, where that is known: a path, or `a pipe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Descriptor {
    /// `descriptor 3 (a pipe)`.
    fn in_words(&self) -> String {
        match &self.file {
            Some(file) => format!("descriptor {} ({file})", self.number),
            None => format!("descriptor {}", self.number),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What has to happen before a thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Its holder leaves a lock.
    Lock,
    /// Another thread calls `Monitor.Pulse`.
    Pulse,
    /// A thread ends.
    Thread,
    /// A task is completed.
    Task,
    /// An event, a semaphore or the like is signalled.
    Signal,
    /// A condition variable is signalled.
    Condition,
    /// Enough threads reach a barrier.
    Barrier,
    /// A message comes, or there is room for one.
    Message,
    /// Another thread unparks it.
    Unpark,
    /// A file, pipe or socket becomes ready.
    Descriptor,
    /// Time passes.
    Time,
    /// A process ends.
    Process,
    /// The system sends a signal.
    SystemSignal,
}

impl Wait {
    /// Something of this kind, of which nothing else is known.
    pub fn new(kind: WaitKind) -> Self {
        Self {
            kind,
            object: None,
            name: None,
            object_address: None,
            is_completed: false,
            held_by: None,
            holder_address: None,
            holder_unknown: false,
            only_threads: false,
            descriptors: Vec::new(),
            process: None,
            timeout_ms: None,
            may_time_out: false,
            awaits: Vec::new(),
            awaits_left_out: 0,
        }
    }

    /// Whether it is known to last until another thread acts.
    pub fn is_for_ever(&self) -> bool {
        self.timeout_ms.is_none() && !self.may_time_out
    }

    /// What goes on behind `waits for`. `thread` names a thread.
    pub fn in_words(&self, thread: impl Fn(ThreadId) -> String) -> String {
        let object = self.object.as_deref();
        let held_by = self.held_by.map(thread);
        let mut said = match (self.kind, object) {
            (WaitKind::Lock, Some(object)) => match &self.name {
                Some(name) => format!("the lock `{name}`"),
                None => format!("the lock on a `{object}`"),
            },
            (WaitKind::Lock, None) => "a lock".into(),
            (WaitKind::Pulse, Some(object)) => format!("a `Monitor.Pulse` on a `{object}`"),
            (WaitKind::Pulse, None) => "a `Monitor.Pulse`".into(),
            (WaitKind::Thread, _) => {
                format!("the end of {}", held_by.as_deref().unwrap_or("another thread"))
            }
            (WaitKind::Task, _) => self.task_in_words(),
            (WaitKind::Signal, Some(object)) => match &self.name {
                Some(name) => format!("a signal of the `{object}` `{name}`"),
                None => format!("a signal of a `{object}`"),
            },
            (WaitKind::Signal, None) => "a signal".into(),
            (WaitKind::Condition, _) => format!("a signal of {}", self.named("condition variable")),
            (WaitKind::Barrier, _) => format!("other threads to reach {}", self.named("barrier")),
            (WaitKind::Message, _) => "another thread at the other end of a channel".into(),
            (WaitKind::Unpark, _) => "another thread to unpark it".into(),
            (WaitKind::Descriptor, _) => self.descriptors_in_words(),
            (WaitKind::Time, _) => match self.timeout_ms {
                Some(timeout) => return format!("{timeout} ms to pass"),
                None => "some time to pass".into(),
            },
            (WaitKind::Process, _) => match self.process {
                Some(process) => format!("the end of process {process}"),
                None => "the end of a child process".into(),
            },
            (WaitKind::SystemSignal, _) => "the system to send it a signal".into(),
        };
        if self.kind == WaitKind::Lock {
            match held_by {
                Some(holder) => {
                    let _ = write!(said, ", which {holder} holds");
                }
                None if self.holder_unknown => said.push_str(", which does not say who holds it"),
                None => {}
            }
        }
        if let Some(timeout) = self.timeout_ms {
            let _ = write!(said, ", for {timeout} ms at most");
        }
        said
    }

    /// `the barrier `start``, or `a barrier`.
    fn named(&self, what: &str) -> String {
        self.name.as_ref().map_or_else(|| format!("a {what}"), |name| format!("the {what} `{name}`"))
    }

    /// `descriptor 3 (a pipe), in `read``.
    fn descriptors_in_words(&self) -> String {
        let descriptors: Vec<_> = self.descriptors.iter().map(Descriptor::in_words).collect();
        let which = match descriptors.as_slice() {
            [] => "a descriptor".into(),
            [only] => only.clone(),
            several => format!("one of {}", several.join(", ")),
        };
        self.object.as_ref().map_or_else(|| which.clone(), |call| format!("{which}, in `{call}`"))
    }

    fn task_in_words(&self) -> String {
        let state = match (self.is_completed, self.awaits.is_empty()) {
            (false, _) => "that is not completed",
            (true, true) => "that has completed: the thread has not gone on yet",
            (true, false) => {
                "that has completed: the method has not gone on yet (perhaps the SynchronizationContext that it goes on in \
                 is blocked, or no thread of the pool is free)"
            }
        };
        let last = self.object.as_ref().map(|object| format!("a `{object}` {state}"));
        let shown = self.awaits.len();
        let mut methods = self.awaits.iter().enumerate().map(|(at, method)| match self.awaits_left_out {
            left_out if left_out > 0 && at + 1 == shown => {
                format!("… ({left_out} more) …, which awaits {}", method.in_words())
            }
            _ => method.in_words(),
        });
        let Some(first) = methods.next() else { return last.unwrap_or_else(|| "a task".into()) };
        let mut said = format!("the task of {first}");
        methods.chain(last).for_each(|next| {
            let _ = write!(said, ", which awaits {next}");
        });
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(function: &str, line: u32) -> Location {
        let (file, function) = (Some("/src/A.cs".into()), Some(function.into()));
        Location { file, line: Some(line), function, ..Location::default() }
    }

    #[track_caller]
    fn check(wait: Wait, words: &str) {
        assert_eq!(wait.in_words(|id| format!("thread {id}")), words);
    }

    #[test]
    fn a_wait_is_told_with_who_has_to_act() {
        let object = || Some("Ledger".to_owned());
        let of = |kind| Wait { object: object(), held_by: Some(ThreadId(4)), ..Wait::new(kind) };
        check(of(WaitKind::Lock), "the lock on a `Ledger`, which thread 4 holds");
        let limited = Wait { timeout_ms: Some(50), held_by: None, ..of(WaitKind::Lock) };
        check(limited, "the lock on a `Ledger`, for 50 ms at most");
        let some_time = Wait { may_time_out: true, ..of(WaitKind::Lock) };
        assert!(!some_time.is_for_ever() && of(WaitKind::Lock).is_for_ever());
        check(some_time, "the lock on a `Ledger`, which thread 4 holds");
        check(of(WaitKind::Pulse), "a `Monitor.Pulse` on a `Ledger`");
        check(of(WaitKind::Thread), "the end of thread 4");
        check(Wait::new(WaitKind::Thread), "the end of another thread");
        check(of(WaitKind::Signal), "a signal of a `Ledger`");
    }

    #[test]
    fn a_wait_of_a_native_program_is_told_with_what_has_to_happen() {
        let name = || Some("ledger".to_owned());
        let mutex = Wait { object: Some("pthread_mutex_t".into()), ..Wait::new(WaitKind::Lock) };
        check(
            Wait { name: name(), held_by: Some(ThreadId(4)), ..mutex.clone() },
            "the lock `ledger`, which thread 4 holds",
        );
        check(
            Wait { holder_unknown: true, ..mutex },
            "the lock on a `pthread_mutex_t`, which does not say who holds it",
        );
        check(Wait::new(WaitKind::Condition), "a signal of a condition variable");
        let condition = Wait { name: name(), ..Wait::new(WaitKind::Condition) };
        check(condition, "a signal of the condition variable `ledger`");
        check(Wait::new(WaitKind::Barrier), "other threads to reach a barrier");
        check(Wait { process: Some(12), ..Wait::new(WaitKind::Process) }, "the end of process 12");
        check(Wait { timeout_ms: Some(12), ..Wait::new(WaitKind::Time) }, "12 ms to pass");
        let pipe = Descriptor { number: 3, file: Some("a pipe".into()) };
        let unknown = Descriptor { number: 4, file: None };
        let read = Wait { object: Some("read".into()), ..Wait::new(WaitKind::Descriptor) };
        check(Wait { descriptors: vec![pipe.clone()], ..read.clone() }, "descriptor 3 (a pipe), in `read`");
        check(
            Wait { descriptors: vec![pipe, unknown], timeout_ms: Some(5), ..read },
            "one of descriptor 3 (a pipe), descriptor 4, in `read`, for 5 ms at most",
        );
    }

    #[test]
    fn a_task_is_followed_to_what_keeps_it_from_being_done() {
        check(Wait::new(WaitKind::Task), "a task");
        let promise = Wait { object: Some("Task<int>".into()), ..Wait::new(WaitKind::Task) };
        check(promise.clone(), "a `Task<int>` that is not completed");
        let chain = Wait { awaits: vec![method("Outer", 3), method("Inner", 7)], ..promise };
        let long = Wait { awaits_left_out: 5, ..chain.clone() };
        let completed = Wait { is_completed: true, ..chain.clone() };
        let said = completed.in_words(|id| format!("thread {id}"));
        let end = "which awaits Inner at A.cs:7, which awaits a `Task<int>` that has completed: the method has not gone on yet";
        assert!(said.contains(end) && !said.contains("not completed"), "{said}");
        let direct = Wait { awaits: Vec::new(), ..completed };
        check(direct, "a `Task<int>` that has completed: the thread has not gone on yet");
        check(
            long,
            "the task of Outer at A.cs:3, which awaits … (5 more) …, which awaits Inner at A.cs:7, which awaits a \
             `Task<int>` that is not completed",
        );
        check(
            chain,
            "the task of Outer at A.cs:3, which awaits Inner at A.cs:7, which awaits a `Task<int>` that is not completed",
        );
    }
}
