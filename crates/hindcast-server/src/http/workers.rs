//! The threads that serve connections, one for each core.
//!
//! Each has a runtime of its own, and a connection stays with the one it was given to, together with
//! all that it spawns: an answer has to wake no other thread on its way, which takes system calls.
//! In return nobody takes work off a thread that is held up, so nothing on it may block.

use std::{io, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Shorter than the time limits of connections and requests are likely to be.
const BEAT: Duration = Duration::from_secs(1);

/// How long work that cannot be interrupted keeps a thread that ends.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Running threads; they end, with all that runs on them, when this is dropped.
pub(super) struct Workers {
    workers: Vec<Worker>,
    end: CancellationToken,
}

struct Worker {
    runtime: Handle,
    connections: TaskTracker,
    /// None once it is waited for.
    thread: Option<thread::JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start() -> io::Result<Self> {
        let end = CancellationToken::new();
        let count = thread::available_parallelism().map_or(1, usize::from);
        let workers =
            (0..count).map(|number| Worker::start(number, end.clone())).collect::<io::Result<_>>()?;
        Ok(Self { workers, end })
    }

    /// Gives a connection to the thread that has the fewest.
    pub(super) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        if let Some(worker) = self.workers.iter().min_by_key(|worker| worker.connections.len()) {
            worker.connections.spawn_on(connection, &worker.runtime);
        }
    }

    /// Waits until all connections are closed; there must be no new ones.
    pub(super) async fn emptied(&self) {
        for worker in &self.workers {
            worker.connections.close();
            worker.connections.wait().await;
        }
    }
}

impl Worker {
    fn start(number: usize, end: CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name(format!("worker {number}")).spawn(move || {
            runtime.block_on(until(end));
            // A file that never answers is not waited for.
            runtime.shutdown_timeout(LONGEST_WAIT);
        })?;
        Ok(Self { runtime: handle, connections: TaskTracker::new(), thread: Some(thread) })
    }
}

/// Waits for the end, and meanwhile has a timer that is due sooner than those of connections: when a new
/// timer is the first to be due, the runtime wakes itself, which every request would pay for.
async fn until(end: CancellationToken) {
    let ended = end.cancelled();
    tokio::pin!(ended);
    while timeout(BEAT, &mut ended).await.is_err() {}
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end.cancel();
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            // A panic would have been told when it happened.
            let _ = thread.join();
        }
    }
}
