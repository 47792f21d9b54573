//! What threads wait for: locks and their holders, as the runtime tells; tasks and other threads, by the framework's methods that
//! wait for them.

use hindcast_core::debug::{Location, RuntimeAddr, ThreadId, Wait, WaitKind};

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::{Com, HeapValue3, ReferenceValue, Thread, Thread4},
    values::Seen,
};

/// `USER_WAIT_SLEEP_JOIN` of `CorDebugUserState`.
const WAITS: u32 = 0x20;
/// Framework code between a wait and the code that waits is not deeper than this.
const NEAR: usize = 32;
/// The longest chain of awaiting methods that is followed.
const LONGEST_CHAIN: usize = 200;
/// How many of them are told: the outermost, and the innermost of all.
const SHOWN_OF_CHAIN: usize = 8;
/// The methods of a task that wait until it is completed; others run it.
const WAITS_FOR_TASK: [&str; 7] = [
    "Wait",
    "InternalWait",
    "InternalWaitCore",
    "SpinThenBlockingWait",
    "GetResultCore",
    "get_Result",
    "Result",
];
/// The bits of a task's `m_stateFlags` of which one is set once it ran to completion, failed or was cancelled.
const COMPLETED: i64 = 0x160_0000;
/// What a `TimeSpan` counts.
const TICKS_PER_MILLISECOND: i64 = 10_000;
/// How many awaiters of one method are looked at. Compilers number them, and use one again for the same type.
const AWAITERS: usize = 8;
/// A timeout that never comes.
const INFINITE: u32 = u32::MAX;

impl Session {
    /// What a thread waits for; none where it does not wait, or where that cannot be told.
    pub(super) fn wait_of(&mut self, thread: &Com<Thread>) -> Option<Wait> {
        let at_monitor = self.monitor_of(thread);
        if at_monitor.as_ref().is_some_and(|wait| wait.kind == WaitKind::Lock) {
            return at_monitor;
        }
        // Tasks and events are made of monitors, which say less.
        self.wait_in_framework(thread).or(at_monitor)
    }

    /// The monitor that a thread waits for, and the thread that has it.
    fn monitor_of(&mut self, thread: &Com<Thread>) -> Option<Wait> {
        let blocking = thread.cast::<Thread4>()?.blocking_objects().ok()?.all().ok()?.into_iter().next()?;
        let seen = self.values().see(&blocking.object).ok()?;
        let kind = if blocking.waits_for_pulse { WaitKind::Pulse } else { WaitKind::Lock };
        let mut wait = at_object(kind, &seen);
        wait.object_address = wait.object_address.or_else(|| blocking.object.address().ok().map(RuntimeAddr));
        wait.timeout_ms = Some(blocking.timeout).filter(|timeout| *timeout != INFINITE);
        if kind == WaitKind::Lock {
            let object = blocking.object.cast::<ReferenceValue>();
            let object = object.and_then(|reference| reference.dereference().ok());
            let heap = object.unwrap_or(blocking.object).cast::<HeapValue3>();
            let owner = heap.and_then(|heap| heap.monitor_owner().ok().flatten());
            wait.held_by = owner.map(|(owner, _)| self.thread_id(&owner));
        }
        Some(wait)
    }

    /// By the method of the framework that the program's own code called, or by one inside of it.
    fn wait_in_framework(&mut self, thread: &Com<Thread>) -> Option<Wait> {
        let is_waiting = thread.user_state().is_ok_and(|state| state & WAITS != 0);
        let (frames, _) = self.frames(thread, NEAR).ok()?;
        let own = frames.iter().take_while(|frame| !frame.module.is_mine()).count();
        // A task may run a method of the framework itself.
        let inside = frames[..own].iter().position(|frame| self.runs_task(frame)).unwrap_or(own);
        let is_called = inside < frames.len();
        frames[..inside].iter().rev().find_map(|frame| {
            let function = self.location(frame).function?;
            let (of, method) = function.strip_prefix("System.Threading.")?.rsplit_once('.')?;
            match of {
                _ if is_task(of) && WAITS_FOR_TASK.contains(&method) => {
                    self.task_wait(frame).map(|wait| self.timed(wait, &frames[..inside]))
                }
                // What is made of tasks, as `ValueTask` and `Parallel`, waits in a task's method further in.
                _ if of.starts_with("Tasks.") => None,
                // A thread of the pool that has no work waits, too.
                _ if !is_called || !is_waiting => None,
                "Thread" if method == "Join" => Some(self.join(frame, &frames[..inside])),
                "Lock" => Some(self.lock(&frames[..inside])),
                "Monitor" | "Thread" => None,
                _ => Some(self.timed(self.signal(frame, of), &frames[..inside])),
            }
        })
    }

    /// The object that a frame's method belongs to; optimised code does not always keep it.
    fn this(&self, frame: &ManagedFrame) -> Option<Seen> {
        let this = self.values().see(&frame.frame.as_ref()?.argument(0).ok()?).ok()?;
        (!this.is_null()).then_some(this)
    }

    /// Whether it is the frame in which a task calls what it was made of.
    fn runs_task(&self, frame: &ManagedFrame) -> bool {
        let function = self.location(frame).function;
        let method = function.as_deref().and_then(|function| function.strip_prefix("System.Threading."));
        method
            .and_then(|method| method.rsplit_once('.'))
            .is_some_and(|(of, method)| is_task(of) && method == "InnerInvoke")
    }

    /// The wait with the timeout that was asked for of the outermost of the framework's methods. Those inside have it as well, where
    /// optimised code has kept it.
    fn timed(&self, wait: Wait, frames: &[ManagedFrame]) -> Wait {
        // The program may have called it by reflection.
        let waits = |frame: &&ManagedFrame| {
            self.location(frame).function.is_some_and(|function| function.starts_with("System.Threading."))
        };
        let waiting: Vec<_> = frames.iter().filter(waits).collect();
        if waiting.last().is_none_or(|outermost| takes_nothing(outermost)) {
            return wait;
        }
        let milliseconds = waiting.iter().rev().find_map(|frame| {
            let asked = frame.frame.as_ref()?.argument(timeout_place(frame)?).ok()?;
            let asked = self.values().see(&asked).ok()?;
            let ticks = self.values().integer_field(&asked, &["_ticks"]);
            ticks.map(|ticks| ticks / TICKS_PER_MILLISECOND).or_else(|| asked.integer())
        });
        match milliseconds {
            Some(-1) => wait,
            Some(asked) => Wait { timeout_ms: u32::try_from(asked).ok(), ..wait },
            None => Wait { may_time_out: true, ..wait },
        }
    }

    fn join(&mut self, frame: &ManagedFrame, frames: &[ManagedFrame]) -> Wait {
        let joined = self.this(frame);
        let number = joined
            .and_then(|seen| self.values().integer_field(&seen, &["_managedThreadId", "m_ManagedThreadId"]));
        let wait = Wait { held_by: thread_number(number), ..Wait::new(WaitKind::Thread) };
        self.timed(wait, frames)
    }

    /// A `System.Threading.Lock`, which knows its holder itself, by the system's number.
    fn lock(&mut self, frames: &[ManagedFrame]) -> Wait {
        let lock =
            frames.iter().filter_map(|frame| self.this(frame)).find(|this| this.of.display() == "Lock");
        let Some(lock) = lock else {
            let wait = Wait { object: Some("Lock".into()), ..Wait::new(WaitKind::Lock) };
            return self.timed(wait, frames);
        };
        let owner = self.values().integer_field(&lock, &["_owningThreadId"]);
        let held_by = owner.and_then(|owner| self.thread_of_system(u32::try_from(owner).ok()?));
        let wait = Wait { held_by, ..at_object(WaitKind::Lock, &lock) };
        self.timed(wait, frames)
    }

    /// The thread that the system has under this number.
    fn thread_of_system(&mut self, number: u32) -> Option<ThreadId> {
        let threads = self.all_threads().ok()?;
        let found = threads.into_iter().find(|thread| thread.id() == Ok(number))?;
        Some(self.thread_id(&found))
    }

    fn signal(&self, frame: &ManagedFrame, of: &str) -> Wait {
        match self.this(frame) {
            // The handles of the system have a common method.
            Some(handle) if of == "WaitHandle" => at_object(WaitKind::Signal, &handle),
            this => Wait {
                object: Some(of.to_owned()),
                object_address: this.as_ref().and_then(address_of),
                ..Wait::new(WaitKind::Signal)
            },
        }
    }

    /// The task whose method a frame runs, as far as it consists of async methods.
    fn task_wait(&self, frame: &ManagedFrame) -> Option<Wait> {
        let mut task = self.this(frame).filter(|this| self.is_task(this))?;
        let mut awaits = Vec::new();
        // The state machine of a method that has ended says nothing.
        while awaits.len() < LONGEST_CHAIN
            && !self.is_completed(&task)
            && let Some(state_machine) = self.values().field_seen(&task, "StateMachine")
            && let Some(awaiting) = self.awaiting_with(state_machine.clone())
        {
            awaits.push(self.location(&awaiting.frame()));
            let Some(next) = self.awaited_by(&state_machine) else {
                // Something that is no task.
                return Some(chain(awaits, Wait::new(WaitKind::Task)));
            };
            task = next;
        }
        let Some(flags) = self.values().integer_field(&task, &["m_stateFlags"]) else {
            return Some(chain(awaits, Wait::new(WaitKind::Task)));
        };
        let is_completed = flags & COMPLETED != 0;
        let mut last = Wait { is_completed, ..at_object(WaitKind::Task, &task) };
        // The class is one of the framework, and says nothing.
        if let Some(state_machine) = self.values().field_seen(&task, "StateMachine") {
            last.object = Some(task_of(&state_machine.of.display()));
        }
        Some(chain(awaits, last))
    }

    fn is_completed(&self, task: &Seen) -> bool {
        self.values().integer_field(task, &["m_stateFlags"]).is_some_and(|flags| flags & COMPLETED != 0)
    }

    fn is_task(&self, seen: &Seen) -> bool {
        self.values().field(seen, "m_stateFlags").is_some()
    }

    /// The task that a method awaits.
    fn awaited_by(&self, state_machine: &Seen) -> Option<Seen> {
        let values = self.values();
        (1..=AWAITERS).find_map(|number| {
            let mut current = values.field_seen(state_machine, &format!("<>u__{number}"))?;
            for _ in 0..4 {
                if !current.is_null() && self.is_task(&current) {
                    return Some(current);
                }
                // Awaiters are wrapped in each other.
                current =
                    values.any_field(&current, &["m_task", "_value", "_obj", "m_configuredTaskAwaiter"])?;
            }
            None
        })
    }
}

/// Whether a type of `System.Threading` is a task, or a part of one.
fn is_task(of: &str) -> bool {
    of == "Tasks.Task" || of.starts_with("Tasks.Task.") || of.starts_with("Tasks.Task<")
}

/// Whether a method has no parameters, and so no timeout.
fn takes_nothing(frame: &ManagedFrame) -> bool {
    let method = frame.module.assembly().and_then(|assembly| assembly.method(frame.method));
    method.and_then(|method| method.signature().ok()).is_some_and(|signature| signature.parameters.is_empty())
}

/// Which argument of a method is how long to wait at most: `millisecondsTimeout`, `timeout`, `timeoutMs`.
fn timeout_place(frame: &ManagedFrame) -> Option<u32> {
    let method = frame.module.assembly()?.method(frame.method)?;
    let names = method.parameter_names(method.signature().ok()?.parameters.len());
    let is_timeout = |name: &Option<&str>| name.is_some_and(|name| name.to_lowercase().contains("timeout"));
    let place = names.iter().position(is_timeout)?;
    u32::try_from(place + usize::from(!method.is_static())).ok()
}

/// The wait with the methods that await on the way to it: all, or the outermost ones and the innermost.
fn chain(mut awaits: Vec<Location>, last: Wait) -> Wait {
    let awaits_left_out = awaits.len().saturating_sub(SHOWN_OF_CHAIN);
    if awaits_left_out > 0 {
        awaits.drain(SHOWN_OF_CHAIN - 1..SHOWN_OF_CHAIN - 1 + awaits_left_out);
    }
    Wait { awaits, awaits_left_out, ..last }
}

/// The task of the method that a state machine was made of: `A.<Run>d__3`.
fn task_of(state_machine: &str) -> String {
    let Some((before, rest)) = state_machine.split_once('<') else { return "Task".into() };
    match rest.split_once('>') {
        Some((method, _)) if !method.is_empty() => format!("Task of {before}{method}"),
        _ => "Task".into(),
    }
}

fn at_object(kind: WaitKind, seen: &Seen) -> Wait {
    Wait { object: Some(seen.of.display()), object_address: address_of(seen), ..Wait::new(kind) }
}

fn address_of(seen: &Seen) -> Option<RuntimeAddr> {
    seen.object_address().map(RuntimeAddr)
}

fn thread_number(number: Option<i64>) -> Option<ThreadId> {
    number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number != 0).map(ThreadId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chain_is_told_by_its_beginning_and_its_end() {
        let method = |line| Location { line: Some(line), ..Location::default() };
        let lines = |wait: &Wait| wait.awaits.iter().filter_map(|method| method.line).collect::<Vec<_>>();
        let short = chain((1..=8).map(method).collect(), Wait::new(WaitKind::Task));
        assert_eq!((lines(&short), short.awaits_left_out), ((1..=8).collect(), 0));
        let long = chain((1..=20).map(method).collect(), Wait::new(WaitKind::Task));
        assert_eq!((lines(&long), long.awaits_left_out), (vec![1, 2, 3, 4, 5, 6, 7, 20], 12));
    }

    #[test]
    fn a_task_is_named_by_its_method() {
        assert_eq!(task_of("A.<Run>d__3"), "Task of A.Run");
        assert_eq!(task_of("<Run>d__3"), "Task of Run");
        assert_eq!(task_of("Machine"), "Task");
    }
}
