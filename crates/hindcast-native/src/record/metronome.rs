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
/// How often it beats while threads wait for their turn.
const TURN: Duration = Duration::from_millis(20);
const SHORT_TURN: Duration = Duration::from_millis(1);

/// Stops a process that computes for long without making a system call, so that it can be copied.
/// One that waits is left alone.
pub(crate) struct Metronome {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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
        Ok(Self { shared, thread: Some(thread) })
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

    /// A checkpoint was made, at this cost.
    pub(crate) fn restart(&self, cost: Duration) {
        let beat = (COSTS * cost).clamp(SHORTEST, LONGEST);
        self.shared.beat.store(beat.as_micros() as u64, Ordering::Relaxed);
        self.shared.last.store(self.shared.now(), Ordering::Relaxed);
    }

    /// Whether it is time for another checkpoint.
    pub(crate) fn is_due(&self) -> bool {
        self.shared.elapsed() >= self.shared.beat()
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
