//! Says when a running process is due for another checkpoint.

use std::{
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::sys::{Rope, Tid, TraceError, cpu_time};

/// How often a busy process is copied: what that costs is to be a tenth of its time, or less.
const COSTS: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(2);
/// What it takes to replay an event.
const EVENT: Duration = Duration::from_micros(10);
/// How often it beats while threads wait for their turn.
const TURN: Duration = Duration::from_millis(20);
const SHORT_TURN: Duration = Duration::from_millis(1);

/// Stops a process that computes for long without making a system call, so that it can be copied.
/// One that waits is left alone.
pub(crate) struct Metronome {
    process: Tid,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// How long the process had computed when it was copied last, and how many events there had been.
    computed: Duration,
    events: u64,
}

struct Shared {
    phase: Mutex<Phase>,
    changed: Condvar,
    begun: Instant,
    /// Since `begun`, in microseconds.
    last: AtomicU64,
    /// Also in microseconds.
    beat: AtomicU64,
    /// Whether threads wait for their turn.
    contended: AtomicBool,
    /// Whether they ever did.
    has_threads: AtomicBool,
    /// How often it beats for them, in microseconds.
    turn: AtomicU64,
    /// What wakes the thread that traces the process.
    rope: OnceLock<Arc<Rope>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Resting,
    Running,
    Over,
}

impl Metronome {
    pub(crate) fn start(process: Tid) -> Result<Self, TraceError> {
        let shared = Arc::new(Shared {
            phase: Mutex::new(Phase::Resting),
            changed: Condvar::new(),
            begun: Instant::now(),
            last: AtomicU64::new(0),
            beat: AtomicU64::new(SHORTEST.as_micros() as u64),
            contended: AtomicBool::new(false),
            has_threads: AtomicBool::new(false),
            turn: AtomicU64::new(TURN.as_micros() as u64),
            rope: OnceLock::new(),
        });
        let beating = shared.clone();
        let thread = std::thread::Builder::new()
            .name("metronome".into())
            .spawn(move || beat(&beating, process))
            .map_err(|source| TraceError::System { what: "cannot start a thread", source })?;
        Ok(Self { process, shared, thread: Some(thread), computed: Duration::ZERO, events: 0 })
    }

    /// Rings with this when a checkpoint is due.
    pub(crate) fn ring_with(&self, rope: Arc<Rope>) {
        // Somebody else's would be the same one.
        let _ = self.shared.rope.set(rope);
    }

    /// The process runs from now on, or stands still.
    pub(crate) fn set_running(&self, running: bool) {
        self.shared.set(if running { Phase::Running } else { Phase::Resting });
    }

    /// Whether threads wait for their turn: then it beats for them as well.
    pub(crate) fn set_contended(&self, contended: bool) {
        self.shared.contended.store(contended, Ordering::Relaxed);
        if contended && !self.shared.has_threads.swap(true, Ordering::Relaxed) {
            // With the lock, so that it does not begin to wait meanwhile.
            let _phase = self.shared.phase.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.changed.notify_all();
        }
    }

    /// Turns of threads are short.
    pub(crate) fn hurry(&self) {
        self.shared.turn.store(SHORT_TURN.as_micros() as u64, Ordering::Relaxed);
    }

    /// A checkpoint was made, at this cost, behind so many events.
    pub(crate) fn restart(&mut self, cost: Duration, events: u64) {
        (self.computed, self.events) = (self.computed_now(), events);
        let beat = (COSTS * cost).clamp(SHORTEST, LONGEST);
        self.shared.beat.store(beat.as_micros() as u64, Ordering::Relaxed);
        self.shared.last.store(self.shared.now(), Ordering::Relaxed);
    }

    /// How long the process has to run for a checkpoint to be worth its cost.
    pub(crate) fn beat(&self) -> Duration {
        self.shared.beat()
    }

    /// Whether it is time for another checkpoint, behind so many events: a replay from the last one would take half as long
    /// at least. A process that mostly waits is hardly ever copied.
    pub(crate) fn is_due(&self, events: u64) -> bool {
        let beat = self.shared.beat();
        let replayed = || {
            let events = u32::try_from(events.saturating_sub(self.events)).unwrap_or(u32::MAX);
            self.computed_now().saturating_sub(self.computed) + EVENT.saturating_mul(events)
        };
        self.shared.elapsed() >= beat && replayed() >= beat / 2
    }

    fn computed_now(&self) -> Duration {
        cpu_time(self.process).unwrap_or(self.computed)
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.shared.set(Phase::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn set(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn beat(&self) -> Duration {
        Duration::from_micros(self.beat.load(Ordering::Relaxed))
    }

    fn turn(&self) -> Duration {
        Duration::from_micros(self.turn.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }
}

fn beat(shared: &Shared, process: Tid) {
    let (mut used, mut looked) = (Duration::ZERO, shared.begun);
    let mut phase = shared.phase.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        phase = match *phase {
            Phase::Over => return,
            Phase::Resting => shared.changed.wait(phase).unwrap_or_else(PoisonError::into_inner),
            Phase::Running => {
                let left = shared.beat().checked_sub(shared.elapsed()).unwrap_or(shared.beat());
                let left =
                    if shared.has_threads.load(Ordering::Relaxed) { left.min(shared.turn()) } else { left };
                let waited = shared.changed.wait_timeout(phase, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if *phase == Phase::Running
            && shared.contended.load(Ordering::Relaxed)
            && let Some(rope) = shared.rope.get()
        {
            rope.beat();
            continue;
        }
        if *phase != Phase::Running || shared.elapsed() < shared.beat() {
            continue;
        }
        // Only one that computes: a call that waits would have to be made again.
        let now = cpu_time(process).unwrap_or(used);
        if now.saturating_sub(used) >= looked.elapsed() / 2
            && let Some(rope) = shared.rope.get()
        {
            rope.beat();
        }
        (used, looked) = (now, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_waits_is_copied_for_its_events_alone() {
        let mut waiting = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut metronome = Metronome::start(Tid(waiting.id() as i32)).unwrap();
        metronome.restart(Duration::ZERO, 7);
        while metronome.shared.elapsed() < 2 * SHORTEST {
            assert!(!metronome.is_due(u64::MAX) || metronome.shared.elapsed() >= SHORTEST);
            std::thread::yield_now();
        }
        assert!(!metronome.is_due(7), "time alone");
        assert!(!metronome.is_due(17), "few events");
        assert!(metronome.is_due(7 + 1000), "many events");
        metronome.restart(Duration::ZERO, 7 + 1000);
        while metronome.shared.elapsed() < SHORTEST {
            std::thread::yield_now();
        }
        assert!(!metronome.is_due(7 + 1010), "few since");
        drop(waiting.stdin.take());
        waiting.wait().unwrap();
    }
}
