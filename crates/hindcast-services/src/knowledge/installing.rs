//! Getting the embedding model when it is needed first.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hindcast_core::{
    knowledge::{EmbedError, Embedder},
    progress::Progress,
};
use tokio::sync::mpsc;

use super::blocking;
use crate::Failure;

/// Who could not get it need not wait for the same failure at the next document.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Remembers how the last attempt ended.
#[derive(Default)]
pub(super) struct Installing {
    failed: Mutex<HashMap<String, (Instant, EmbedError)>>,
}

impl Installing {
    /// Sees to it that the model is there, and tells how far it is; or tells why it cannot be.
    pub(super) async fn ensure(
        &self,
        embedder: &Arc<dyn Embedder>,
        progress: &dyn Progress,
    ) -> Result<Result<(), EmbedError>, Failure> {
        let model = embedder.model().to_owned();
        let failed = self.failed().get(&model).cloned();
        if let Some((_, error)) = failed.filter(|(at, _)| at.elapsed() < TRY_AGAIN_AFTER) {
            return Ok(Err(error));
        }
        let (steps, mut heard) = mpsc::unbounded_channel();
        let relay = Arc::new(Relay { steps, cancelled: AtomicBool::new(false) });
        let (embedder, teller) = (embedder.clone(), relay.clone());
        let mut install = std::pin::pin!(blocking(move || embedder.install(&*teller)));
        let installed = loop {
            tokio::select! {
                installed = &mut install => break installed?,
                Some(step) = heard.recv() => progress.report(step.done, step.total, &step.message),
            }
            relay.cancelled.store(progress.cancelled(), Ordering::Relaxed);
        };
        if let Err(error) = &installed
            && !progress.cancelled()
        {
            self.failed().insert(model, (Instant::now(), error.clone()));
        }
        Ok(installed)
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, EmbedError)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Step {
    done: u64,
    total: Option<u64>,
    message: String,
}

/// Brings progress from a thread that blocks to a caller that waits.
struct Relay {
    steps: mpsc::UnboundedSender<Step>,
    cancelled: AtomicBool,
}

impl Progress for Relay {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        // Nobody listens any more when the caller has gone.
        let _ = self.steps.send(Step { done, total, message: message.to_owned() });
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.steps.is_closed()
    }
}
