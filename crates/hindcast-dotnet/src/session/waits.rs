//! What threads wait for: locks and their holders, as the runtime tells; tasks and other threads, by the framework's methods that
//! wait for them.

use hindcast_core::debug::{RuntimeAddr, ThreadId, Wait, WaitKind};

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
const LONGEST_CHAIN: usize = 8;
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
        let inside = frames.iter().take_while(|frame| !frame.module.is_mine()).count();
        let is_called = inside < frames.len();
        frames[..inside].iter().rev().find_map(|frame| {
            let function = self.location(frame).function?;
            let (of, method) = function.strip_prefix("System.Threading.")?.rsplit_once('.')?;
            match of {
                _ if of.starts_with("Tasks.Task.") || of == "Tasks.Task" || of.starts_with("Tasks.Task<") => {
                    self.task_wait(frame)
                }
                // A thread of the pool that has no work waits, too.
                _ if !is_called || !is_waiting => None,
                "Thread" if method == "Join" => Some(self.join(frame)),
                "Lock" => Some(self.lock(&frames[..inside])),
                "Monitor" | "Thread" => None,
                _ => Some(self.signal(frame, of)),
            }
        })
    }

    /// The object that a frame's method belongs to; optimised code does not always keep it.
    fn this(&self, frame: &ManagedFrame) -> Option<Seen> {
        let this = self.values().see(&frame.frame.as_ref()?.argument(0).ok()?).ok()?;
        (!this.is_null()).then_some(this)
    }

    fn join(&mut self, frame: &ManagedFrame) -> Wait {
        let joined = self.this(frame);
        let number = joined
            .and_then(|seen| self.values().integer_field(&seen, &["_managedThreadId", "m_ManagedThreadId"]));
        Wait { held_by: thread_number(number), ..Wait::new(WaitKind::Thread) }
    }

    /// A `System.Threading.Lock`, which knows its holder itself, by the system's number.
    fn lock(&mut self, frames: &[ManagedFrame]) -> Wait {
        let lock =
            frames.iter().filter_map(|frame| self.this(frame)).find(|this| this.of.display() == "Lock");
        let Some(lock) = lock else {
            return Wait { object: Some("Lock".into()), ..Wait::new(WaitKind::Lock) };
        };
        let owner = self.values().integer_field(&lock, &["_owningThreadId"]);
        let held_by = owner.and_then(|owner| self.thread_of_system(u32::try_from(owner).ok()?));
        Wait { held_by, ..at_object(WaitKind::Lock, &lock) }
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
        while awaits.len() < LONGEST_CHAIN
            && let Some(state_machine) = self.values().field_seen(&task, "StateMachine")
            && let Some(awaiting) = self.awaiting_with(state_machine.clone())
        {
            awaits.push(self.location(&awaiting.frame()));
            let Some(next) = self.awaited_by(&state_machine) else {
                // Something that is no task.
                return Some(Wait { awaits, ..Wait::new(WaitKind::Task) });
            };
            task = next;
        }
        Some(Wait { awaits, ..at_object(WaitKind::Task, &task) })
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

fn at_object(kind: WaitKind, seen: &Seen) -> Wait {
    Wait { object: Some(seen.of.display()), object_address: address_of(seen), ..Wait::new(kind) }
}

fn address_of(seen: &Seen) -> Option<RuntimeAddr> {
    seen.object_address().map(RuntimeAddr)
}

fn thread_number(number: Option<i64>) -> Option<ThreadId> {
    number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number != 0).map(ThreadId)
}
