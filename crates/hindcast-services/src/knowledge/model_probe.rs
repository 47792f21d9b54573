//! How the model server does and what it has, as far as that is known soon.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hindcast_core::knowledge::{ChatError, ChatModel, InstalledModel};
use tokio::sync::watch;

use super::health::{ComponentHealth, ComponentStatus, timed};

/// How long somebody who asks how the parts do waits for a model server.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(2);
const SLOW: Duration = Duration::from_secs(5);
const CRITICAL: Duration = Duration::from_secs(10);

/// What came of asking.
#[derive(Clone)]
struct Probed {
    health: ComponentHealth,
    models: Result<Vec<InstalledModel>, ChatError>,
}

type Answer = watch::Receiver<Option<Probed>>;

/// What a model server says that it has.
#[derive(Debug)]
pub(super) enum Listed {
    /// It answered, or cannot be reached.
    Told(Result<Vec<InstalledModel>, ChatError>),
    /// It has not answered yet; this is what it had when it last did.
    Silent(Vec<InstalledModel>),
}

/// One question to the model server at a time: those who look meanwhile wait for the same answer, and not for long.
#[derive(Default)]
pub(super) struct ModelProbe {
    current: Mutex<Option<(Instant, Answer)>>,
    known: Arc<Mutex<Vec<InstalledModel>>>,
}

impl ModelProbe {
    /// How a model server does, and the size of its models.
    pub(super) async fn health(&self, chat: Arc<dyn ChatModel>) -> (ComponentHealth, u64) {
        let (started, probed) = self.ask(chat, LONGEST_WAIT).await;
        let Some(Probed { health, models }) = probed else {
            let is_critical = started.elapsed() > CRITICAL;
            let status = if is_critical { ComponentStatus::Critical } else { ComponentStatus::Degraded };
            return (ComponentHealth { status, count: 0, response: None }, 0);
        };
        (health, models.iter().flatten().map(|model| model.size).sum())
    }

    /// What a model server has; waits no longer than this.
    pub(super) async fn models(&self, chat: Arc<dyn ChatModel>, patience: Duration) -> Listed {
        match self.ask(chat, patience).await.1 {
            Some(probed) => Listed::Told(probed.models),
            None => Listed::Silent(self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// What came of the probe that is under way, or nothing yet, and when it began.
    async fn ask(&self, chat: Arc<dyn ChatModel>, patience: Duration) -> (Instant, Option<Probed>) {
        let (started, mut answer) = self.under_way(chat);
        // The probe goes on, and the next look sees what came of it.
        let probed = match tokio::time::timeout(patience, answer.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone(),
            _ => None,
        };
        (started, probed)
    }

    /// The probe that is under way, or a new one, and when it began.
    fn under_way(&self, chat: Arc<dyn ChatModel>) -> (Instant, Answer) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose task has gone will never answer.
        let is_open = |answer: &Answer| answer.borrow().is_none() && answer.has_changed().is_ok();
        if let Some((started, answer)) = current.as_ref().filter(|(_, answer)| is_open(answer)) {
            return (*started, answer.clone());
        }
        let (sender, answer) = watch::channel(None);
        let (started, known) = (Instant::now(), self.known.clone());
        tokio::spawn(async move {
            let mut models = None;
            let probe = async {
                let listed = models.insert(chat.models().await);
                listed.as_ref().ok().map(|models| models.len() as u64)
            };
            let health = timed(probe, |response| match response {
                _ if response > CRITICAL => ComponentStatus::Critical,
                _ if response > SLOW => ComponentStatus::Degraded,
                _ => ComponentStatus::Operational,
            })
            .await;
            let silence = || ChatError::TimedOut {
                address: chat.address().to_owned(),
                seconds: started.elapsed().as_secs(),
            };
            let models = models.unwrap_or_else(|| Err(silence()));
            if let Ok(models) = &models {
                known.lock().unwrap_or_else(PoisonError::into_inner).clone_from(models);
            }
            // Nobody may be waiting any more.
            let _ = sender.send(Some(Probed { health, models }));
        });
        current.insert((started, answer)).clone()
    }
}
