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
    /// Where the object is at this stop: threads that wait at one object have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_address: Option<RuntimeAddr>,
    /// Whether the task that it comes down to has completed already: the method that awaits it has only to go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_completed: bool,
    /// The thread that has to act: the one that holds the lock, or whose end is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<ThreadId>,
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
}

impl Wait {
    /// Something of this kind, of which nothing else is known.
    pub fn new(kind: WaitKind) -> Self {
        Self {
            kind,
            object: None,
            object_address: None,
            is_completed: false,
            held_by: None,
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
            (WaitKind::Lock, Some(object)) => format!("the lock on a `{object}`"),
            (WaitKind::Lock, None) => "a lock".into(),
            (WaitKind::Pulse, Some(object)) => format!("a `Monitor.Pulse` on a `{object}`"),
            (WaitKind::Pulse, None) => "a `Monitor.Pulse`".into(),
            (WaitKind::Thread, _) => {
                format!("the end of {}", held_by.as_deref().unwrap_or("another thread"))
            }
            (WaitKind::Task, _) => self.task_in_words(),
            (WaitKind::Signal, Some(object)) => format!("a signal of a `{object}`"),
            (WaitKind::Signal, None) => "a signal".into(),
        };
        if let (WaitKind::Lock, Some(holder)) = (self.kind, held_by) {
            let _ = write!(said, ", which {holder} holds");
        }
        if let Some(timeout) = self.timeout_ms {
            let _ = write!(said, ", for {timeout} ms at most");
        }
        said
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
