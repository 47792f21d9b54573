//! Why a program that does not crash does not go on either: which thread waits for which.

use std::fmt;

use hindcast_core::debug::{
    DebugBackend, Frame, Location, Stop, StopReason, Thread, ThreadId, Wait, WaitKind,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::debug::{
    secrets::Mask,
    source::{self, AllowedSources},
    viewport,
};

/// How many threads are shown.
const THREADS: usize = 8;
/// Of how many locks it is said how to find out where they were taken.
const LOCKS: usize = 3;
/// How far out the caller's own code is looked for.
const FRAMES_TO_OWN_CODE: u32 = 30;

/// What the threads of a paused program wait for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hang {
    /// Deadlocks: each thread waits for what the next one has, the last for what the first one has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deadlocks: Vec<Vec<ThreadId>>,
    /// Whether every thread waits for another one of the program, so that none ever goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
    /// Those in deadlocks first, then others that wait, then those that hold what is waited for.
    pub threads: Vec<HangingThread>,
    /// How many are not shown.
    #[serde(skip)]
    left_out: usize,
    /// How many wait, shown or not.
    #[serde(skip)]
    waiting: usize,
}

/// A thread, and what keeps it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HangingThread {
    /// Its number.
    pub thread_id: ThreadId,
    /// As the program named it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it waits for, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// The innermost place of one's own code; of any code where none of it is one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The function that one's own code is waiting in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// The source line itself.
    #[serde(skip)]
    pub text: Option<String>,
    /// What it waits for, in words.
    #[serde(skip)]
    waits_for: Option<String>,
}

impl HangingThread {
    /// `thread 4 (left)`.
    fn in_words(&self) -> String {
        named(self.thread_id, &self.name)
    }

    /// Writes where it is, and the line there.
    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Where in the framework a thread waits says less than what it waits for.
        let is_worth_it = |location: &&Location| viewport::is_own(location) || self.waits_for.is_none();
        if let Some(location) = self.location.as_ref().filter(is_worth_it) {
            write!(f, "\n      {}", location.in_words())?;
        }
        self.text.iter().try_for_each(|line| write!(f, "\n      {line}"))
    }
}

fn named(id: ThreadId, name: &str) -> String {
    if name.is_empty() { format!("thread {id}") } else { format!("thread {id} ({name})") }
}

impl Hang {
    /// Shows the first of the threads.
    fn of(deadlocks: Vec<Vec<ThreadId>>, stuck: bool, mut threads: Vec<HangingThread>) -> Self {
        let waiting = threads.iter().filter(|thread| thread.waits_for.is_some()).count();
        let left_out = threads.len().saturating_sub(THREADS);
        threads.truncate(THREADS);
        Self { deadlocks, stuck, threads, left_out, waiting }
    }

    /// What hangs in one sentence; none where nothing is known to wait.
    pub(super) fn summary(&self) -> Option<String> {
        let by_id = |id: &ThreadId| self.threads.iter().find(|thread| thread.thread_id == *id);
        let name = |id: &ThreadId| by_id(id).map_or_else(|| named(*id, ""), HangingThread::in_words);
        let told: Vec<_> = self.deadlocks.iter().map(|circle| circle_in_words(circle, name)).collect();
        if !told.is_empty() {
            return Some(format!("deadlock: {}", told.join("; ")));
        }
        let first = self.threads.iter().find(|thread| thread.waits_for.is_some())?;
        let more = match self.waiting.saturating_sub(1) {
            0 => String::new(),
            1 => " (and 1 more thread waits)".into(),
            more => format!(" (and {more} more threads wait)"),
        };
        let waits_for = first.waits_for.as_deref().unwrap_or_default();
        let waits = format!("{} waits for {waits_for}{more}", first.in_words());
        Some(match (self.stuck, self.waiting) {
            (false, _) => format!("no crash: {waits}"),
            (true, 1) => format!("stuck for ever: {waits}, and there is no other thread"),
            (true, _) => format!("stuck for ever: {waits}, and no thread is left that could end that"),
        })
    }

    /// How the past tells where locks were taken that other threads want.
    pub(super) fn looking_back(&self) -> Vec<String> {
        let taken = |thread: &HangingThread| {
            let wait = thread.wait.as_ref()?;
            let (address, id) = (wait.holder_address?, wait.held_by?);
            let holder = self.threads.iter().find(|thread| thread.thread_id == id);
            let holder = holder.map_or_else(|| named(id, ""), HangingThread::in_words);
            Some(format!("debugger/last_write with address {address}, size 4: where {holder} took the lock"))
        };
        let mut next = Vec::new();
        for call in self.threads.iter().filter_map(taken) {
            if next.len() < LOCKS && !next.contains(&call) {
                next.push(call);
            }
        }
        next
    }

    /// Whether it is known what the thread waits for.
    pub(super) fn explains(&self, thread: ThreadId) -> bool {
        self.threads.iter().any(|shown| shown.thread_id == thread && shown.waits_for.is_some())
    }
}

/// `thread 4 (left) waits for thread 5 (right), which waits for thread 4 (left)`.
fn circle_in_words(circle: &[ThreadId], name: impl Fn(&ThreadId) -> String) -> String {
    if let [alone] = circle {
        return format!("{} waits for itself", name(alone));
    }
    let mut told: Vec<_> = circle.iter().map(name).collect();
    told.extend(told.first().cloned());
    let first = told.remove(0);
    format!("{first} waits for {}", told.join(", which waits for "))
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of one thread alone the summary says what it waits for, or the stack shows where it is.
        if let ([only], true) = (self.threads.as_slice(), self.deadlocks.is_empty()) {
            return if only.waits_for.is_some() { only.place(f) } else { Ok(()) };
        }
        f.write_str("\nThreads:")?;
        for thread in &self.threads {
            write!(f, "\n{}", thread.thread_id)?;
            if !thread.name.is_empty() {
                write!(f, " {}", thread.name)?;
            }
            match (&thread.waits_for, &thread.inside) {
                (Some(waits_for), _) => write!(f, ": waits for {waits_for}")?,
                (None, Some(inside)) => write!(f, ": in {inside}")?,
                (None, None) => {}
            }
            thread.place(f)?;
        }
        if self.left_out > 0 {
            write!(f, "\n… {} more: `debugger/get_threads`", self.left_out)?;
        }
        Ok(())
    }
}

/// What the threads of a program that was paused wait for. At other stops threads that wait are nothing special, unless they wait
/// for each other.
pub(super) fn look(
    backend: &mut dyn DebugBackend,
    stop: &Stop,
    (mask, sources): (Mask, &AllowedSources),
) -> Option<Hang> {
    if stop.signal.is_some() || stop.exception.is_some() || stop.reason == StopReason::Exit {
        return None;
    }
    let mut threads = backend.threads().ok()?;
    threads.iter_mut().for_each(|thread| mask.thread(thread));
    let deadlocks = circles(&threads);
    if stop.reason != StopReason::Pause && deadlocks.is_empty() {
        return None;
    }
    let stuck = is_stuck(&threads);
    let held: Vec<_> = threads.iter().filter_map(|thread| thread.wait.as_ref()?.held_by).collect();
    let rank = |thread: &HangingThread| match thread.thread_id {
        id if deadlocks.iter().any(|circle| circle.contains(&id)) => 0,
        _ if thread.wait.is_some() => 1,
        id if held.contains(&id) => 2,
        _ => 3,
    };
    let mut seen: Vec<_> = threads.into_iter().map(|thread| see(backend, thread, (mask, sources))).collect();
    seen.sort_by_key(rank);
    let is_own = |thread: &HangingThread| thread.location.as_ref().is_some_and(viewport::is_own);
    // Threads of the runtime or of a library have nothing to tell, unless there are no others.
    if seen.iter().any(|thread| rank(thread) < 3 || is_own(thread)) {
        seen.retain(|thread| rank(thread) < 3 || is_own(thread));
    }
    Some(Hang::of(deadlocks, stuck, seen))
}

fn see(
    backend: &mut dyn DebugBackend,
    thread: Thread,
    (mask, sources): (Mask, &AllowedSources),
) -> HangingThread {
    let frames = backend.stack(thread.id, FRAMES_TO_OWN_CODE).map(|stack| stack.frames).unwrap_or_default();
    let own = frames.iter().position(|frame| viewport::is_own(&frame.location)).unwrap_or(0);
    let location = frames.get(own).map(|frame| frame.location.clone());
    let inside = frames.first().filter(|_| own > 0).and_then(|frame: &Frame| frame.location.function.clone());
    let text = location.as_ref().and_then(|location| source::line_of(backend, location, sources, mask));
    HangingThread {
        thread_id: thread.id,
        name: thread.name,
        wait: thread.wait,
        location,
        inside,
        text,
        waits_for: thread.waits_for,
    }
}

/// Whether no thread goes on, whatever happens outside of the program.
fn is_stuck(threads: &[Thread]) -> bool {
    let is_stuck =
        |thread: &Thread| thread.wait.as_ref().is_some_and(|wait| wait.is_for_ever() && wait.only_threads);
    !threads.is_empty() && threads.iter().all(is_stuck)
}

/// Threads that wait for each other for ever. Each waits for one other at most, so that circles do not touch.
fn circles(threads: &[Thread]) -> Vec<Vec<ThreadId>> {
    let next = |id: ThreadId| {
        let wait = threads.iter().find(|thread| thread.id == id)?.wait.as_ref()?;
        wait.held_by.filter(|_| wait.is_for_ever() && matches!(wait.kind, WaitKind::Lock | WaitKind::Thread))
    };
    let mut circles: Vec<Vec<ThreadId>> = Vec::new();
    for thread in threads {
        let mut way = vec![thread.id];
        while let Some(holder) = way.last().and_then(|last| next(*last)) {
            if let Some(start) = way.iter().position(|passed| *passed == holder) {
                let circle = way.split_off(start);
                if !circles.iter().any(|known| known.contains(&holder)) {
                    circles.push(circle);
                }
                break;
            }
            way.push(holder);
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::ThreadState;

    use super::*;

    fn thread(id: u32, wait: Option<Wait>) -> Thread {
        let (state, name) = (ThreadState::Suspended, format!("t{id}"));
        Thread { id: ThreadId(id), name, state, location: None, waits_for: None, wait }
    }

    fn wants(holder: u32) -> Option<Wait> {
        Some(Wait { held_by: Some(ThreadId(holder)), ..Wait::new(WaitKind::Lock) })
    }

    #[track_caller]
    fn check(threads: &[Thread], expected: &[&[u32]]) {
        let found: Vec<Vec<_>> =
            circles(threads).iter().map(|circle| circle.iter().map(|id| id.0).collect()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn threads_that_wait_for_each_other_are_a_deadlock_and_those_behind_them_are_not_in_it() {
        check(&[thread(1, wants(2)), thread(2, None), thread(3, wants(2))], &[]);
        check(&[thread(1, wants(2)), thread(2, wants(3)), thread(3, wants(2))], &[&[2, 3]]);
        let two = [thread(1, wants(2)), thread(2, wants(1)), thread(3, wants(4)), thread(4, wants(3))];
        check(&two, &[&[1, 2], &[3, 4]]);
        let circle = [thread(1, wants(2)), thread(2, wants(3)), thread(3, wants(1))];
        check(&circle, &[&[1, 2, 3]]);
        check(&[thread(1, wants(1))], &[&[1]]);
        check(&[thread(1, wants(7))], &[]);
    }

    #[test]
    fn a_wait_that_ends_by_itself_is_no_deadlock() {
        let for_a_while = wants(1).map(|wait| Wait { timeout_ms: Some(100), ..wait });
        check(&[thread(1, wants(2)), thread(2, for_a_while)], &[]);
        let for_some_time = wants(1).map(|wait| Wait { may_time_out: true, ..wait });
        check(&[thread(1, wants(2)), thread(2, for_some_time)], &[]);
    }

    #[test]
    fn threads_that_wait_are_counted_also_where_they_are_not_shown() {
        let waiting = |id| HangingThread {
            thread_id: ThreadId(id),
            name: String::new(),
            wait: wants(1),
            location: None,
            inside: None,
            text: None,
            waits_for: (id > 1).then(|| "a lock".to_owned()),
        };
        let hang = Hang::of(Vec::new(), false, (1..=2000).map(waiting).collect());
        let summary = hang.summary().unwrap_or_default();
        assert_eq!(summary, "no crash: thread 2 waits for a lock (and 1998 more threads wait)");
        assert_eq!((hang.threads.len(), hang.left_out), (THREADS, 2000 - THREADS));
    }

    #[test]
    fn a_program_is_stuck_only_if_every_thread_needs_another_one() {
        let within = |id| thread(id, Some(Wait { only_threads: true, ..Wait::new(WaitKind::Condition) }));
        assert!(is_stuck(&[within(1)]) && is_stuck(&[within(1), within(2)]));
        assert!(!is_stuck(&[within(1), thread(2, None)]), "one works");
        assert!(!is_stuck(&[within(1), thread(2, Some(Wait::new(WaitKind::Descriptor)))]), "one gets input");
        let timed = Wait { only_threads: true, timeout_ms: Some(5), ..Wait::new(WaitKind::Condition) };
        assert!(!is_stuck(&[within(1), thread(2, Some(timed))]), "one goes on by itself");
        assert!(!is_stuck(&[]));
    }

    #[test]
    fn a_circle_is_told_from_its_first_thread_round_to_it() {
        let name = |id: &ThreadId| format!("thread {id}");
        let told = circle_in_words(&[ThreadId(1), ThreadId(2), ThreadId(3)], name);
        assert_eq!(told, "thread 1 waits for thread 2, which waits for thread 3, which waits for thread 1");
        assert_eq!(circle_in_words(&[ThreadId(1)], name), "thread 1 waits for itself");
    }
}
