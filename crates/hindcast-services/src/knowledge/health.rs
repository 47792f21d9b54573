//! How the parts of the system do: asked, not assumed.

use std::time::{Duration, Instant};

use hindcast_core::{
    Timestamp,
    identity::{Caller, Scope},
    knowledge::{AnswerFigures, Collection, CollectionKey, IndexError},
};

use super::{
    KnowledgeService, blocking,
    figures::{hours_before, month_before},
    meaning::Standing,
};
use crate::Failure;

/// How a part does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ComponentStatus {
    Operational,
    Degraded,
    Critical,
    Offline,
}

impl ComponentStatus {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operational => "Operational",
            Self::Degraded => "Degraded",
            Self::Critical => "Critical",
            Self::Offline => "Offline",
        }
    }

    fn points(self) -> f64 {
        match self {
            Self::Operational => 100.0,
            Self::Degraded => 60.0,
            Self::Critical => 20.0,
            Self::Offline => 0.0,
        }
    }
}

/// How everything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OverallStatus {
    Healthy,
    Warning,
    Critical,
}

impl OverallStatus {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }
}

/// A part that was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentHealth {
    /// How it does.
    pub status: ComponentStatus,
    /// How many things it has: collections, models.
    pub count: u64,
    /// How long the answer took; none when none came.
    pub response: Option<Duration>,
}

/// How everything does, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// How everything does.
    pub status: OverallStatus,
    /// The mean of the parts, 0..100.
    pub score: f64,
    /// When it was asked.
    pub at: Timestamp,
    /// The truth.
    pub database: ComponentHealth,
    /// The vectors.
    pub vectors: ComponentHealth,
    /// The server that keeps the vectors; none where they are in the data folder.
    pub vector_server: Option<&'static str>,
    /// How many vectors that server has of how many, while it is filled in.
    pub filling: Option<(u64, u64)>,
    /// The database server that keeps keys, limits and trail, where there is one.
    pub accounts: Option<ComponentHealth>,
    /// The model server.
    pub ollama: ComponentHealth,
    /// What people call it.
    pub model_server: &'static str,
    /// What its models take.
    pub model_bytes: u64,
    /// Where vectors and metadata differ; none where the vectors could not be asked.
    pub synchronization: Option<Synchronization>,
    /// How answering went.
    pub answers: AnswerFigures,
    /// What the truth takes on disk.
    pub database_bytes: u64,
    /// What to do about it.
    pub recommendations: Vec<String>,
}

/// Where vectors and metadata differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Synchronization {
    /// Vector collections without metadata.
    pub orphaned: Vec<String>,
    /// Collections whose chunks should have vectors and have none.
    pub missing: Vec<String>,
}

const DATABASE_SLOW: Duration = Duration::from_secs(1);
const VECTORS_SLOW: Duration = Duration::from_secs(2);
const VECTORS_CRITICAL: Duration = Duration::from_secs(5);
/// Who has not answered by then does not.
const LONGEST_PROBE: Duration = Duration::from_secs(12);

impl KnowledgeService {
    /// Asks every part, each with a time limit. All figures are of what the caller sees and did; without a caller there are none.
    pub async fn health(&self, caller: Option<&Caller>) -> Result<Health, Failure> {
        let now = self.clock.now();
        let seen = match caller {
            Some(caller) => self.collections(caller).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let (database, vectors, accounts, ollama) = tokio::join!(
            self.probe_database(&seen),
            self.probe_vectors(&seen),
            self.probe_accounts(),
            self.probe_ollama()
        );
        let (ollama, model_bytes) = ollama;
        let is_operator = caller.is_some_and(is_operator);
        let synchronization = match vectors.status {
            ComponentStatus::Offline => None,
            _ => self.synchronization(&seen, is_operator).await.ok(),
        };
        let answers = match caller {
            Some(caller) => {
                let (month, day) = (month_before(now), hours_before(now, 24));
                self.store.answer_figures(&caller.principal, month, day).await.unwrap_or_default()
            }
            None => AnswerFigures::default(),
        };
        let database_bytes = if is_operator {
            self.store.size().await.unwrap_or_default()
        } else {
            self.stored_bytes(&seen).await.unwrap_or_default()
        };
        let mut required = vec![database.status, vectors.status];
        required.extend(accounts.as_ref().map(|accounts| accounts.status));
        // One that nobody named and that is not there is no part.
        let is_part = self.policy.ollama_is_expected || ollama.status != ComponentStatus::Offline;
        let (status, score) = overall(&required, is_part.then_some(ollama.status));
        let mut health = Health {
            status,
            score,
            at: now,
            database,
            vectors,
            vector_server: self.indexing.usual().vectors.server(),
            filling: match self.indexing.usual().standing() {
                Standing::Filling { done, total } => Some((done, total)),
                Standing::Good | Standing::Away(_) => None,
            },
            accounts,
            ollama,
            model_server: self.chat.as_ref().map_or("Ollama", |chat| chat.server()),
            model_bytes,
            synchronization,
            answers,
            database_bytes,
            recommendations: Vec::new(),
        };
        health.recommendations = recommendations(&health, self.policy.ollama_is_expected);
        health.recommendations.extend(forgotten(&seen, now));
        Ok(health)
    }

    /// What these collections take.
    async fn stored_bytes(&self, collections: &[Collection]) -> Result<u64, Failure> {
        let mut sum = 0;
        for collection in collections {
            let storage = self.store.storage(collection.key, self.serving_model(collection)).await?;
            sum += storage.stored_bytes + storage.chunk_bytes + storage.vector_bytes;
        }
        Ok(sum)
    }

    async fn probe_database(&self, seen: &[Collection]) -> ComponentHealth {
        let probe = async { self.store.generation().await.ok().map(|_| seen.len() as u64) };
        timed(probe, |response| {
            if response > DATABASE_SLOW { ComponentStatus::Degraded } else { ComponentStatus::Operational }
        })
        .await
    }

    /// Asks the database server of the keys, where they are in one.
    async fn probe_accounts(&self) -> Option<ComponentHealth> {
        let gateway = self.keys.as_ref().filter(|gateway| gateway.database().is_some())?;
        let probe = async { gateway.probe().await.ok().map(|()| 0) };
        let health = timed(probe, |response| {
            if response > DATABASE_SLOW { ComponentStatus::Degraded } else { ComponentStatus::Operational }
        });
        Some(health.await)
    }

    async fn probe_vectors(&self, seen: &[Collection]) -> ComponentHealth {
        let keys: Vec<_> = seen.iter().map(|collection| collection.key).collect();
        let (vectors, dimension) = (self.indexing.usual().vectors.clone(), self.embedder.dimension());
        let probe = async {
            let work = blocking(move || {
                // A real search, though for nothing in particular.
                let mut anywhere = vec![0.0; dimension];
                if let Some(first) = anywhere.first_mut() {
                    *first = 1.0;
                }
                vectors.nearest(&anywhere, None, None, 1)?;
                let held = vectors.collections()?;
                Ok::<_, IndexError>(held.into_iter().filter(|held| keys.contains(held)).count() as u64)
            });
            work.await.ok().and_then(Result::ok)
        };
        timed(probe, |response| match response {
            _ if response > VECTORS_CRITICAL => ComponentStatus::Critical,
            _ if response > VECTORS_SLOW => ComponentStatus::Degraded,
            _ => ComponentStatus::Operational,
        })
        .await
    }

    async fn probe_ollama(&self) -> (ComponentHealth, u64) {
        let Some(chat) = self.chat.clone() else {
            return (ComponentHealth { status: ComponentStatus::Offline, count: 0, response: None }, 0);
        };
        self.model_probe.health(chat).await
    }

    /// Vector collections without metadata, which only the operator is told of, and the reverse.
    async fn synchronization(
        &self,
        seen: &[Collection],
        is_operator: bool,
    ) -> Result<Synchronization, Failure> {
        let vectors = self.indexing.usual().vectors.clone();
        let held: Vec<CollectionKey> = blocking(move || vectors.collections()).await??;
        let mut orphaned = Vec::new();
        if is_operator {
            let known = self.store.collection_keys().await?;
            orphaned.extend(held.iter().filter(|key| !known.contains(key)).map(|key| key.0.to_string()));
        }
        let mut missing = Vec::new();
        for collection in seen.iter().filter(|collection| !held.contains(&collection.key)) {
            let vectors = self.store.vector_ids(collection.key, self.embedder.model()).await?;
            if !vectors.is_empty() {
                missing.push(collection.id.clone());
            }
        }
        Ok(Synchronization { orphaned, missing })
    }
}

/// Who looks after the whole server, and not only after what is its own.
fn is_operator(caller: &Caller) -> bool {
    caller.key.is_none() || caller.may(Some(Scope::Admin))
}

/// Collections with documents that nobody has asked for in 90 days.
fn forgotten(seen: &[Collection], now: Timestamp) -> Option<String> {
    let long_ago = hours_before(now, 90 * 24);
    let documents: u64 = seen
        .iter()
        .filter(|collection| collection.documents > 0 && collection.created_at < long_ago)
        .filter(|collection| collection.accessed_at.is_none_or(|accessed| accessed < long_ago))
        .map(|collection| collection.documents)
        .sum();
    (documents > 0).then(|| format!("Review {documents} documents that were not queried in 90 days"))
}

pub(super) async fn timed(
    probe: impl Future<Output = Option<u64>>,
    judge: impl Fn(Duration) -> ComponentStatus,
) -> ComponentHealth {
    let started = Instant::now();
    match tokio::time::timeout(LONGEST_PROBE, probe).await {
        Ok(Some(count)) => {
            let response = started.elapsed();
            ComponentHealth { status: judge(response), count, response: Some(response) }
        }
        _ => ComponentHealth { status: ComponentStatus::Offline, count: 0, response: None },
    }
}

/// Without one of the required parts nothing works.
fn overall(required: &[ComponentStatus], other: Option<ComponentStatus>) -> (OverallStatus, f64) {
    let parts = [required, other.as_slice()].concat();
    #[allow(clippy::cast_precision_loss, reason = "a few parts")]
    let mean = parts.iter().map(|part| part.points()).sum::<f64>() / parts.len().max(1) as f64;
    let score = (mean * 10.0).round() / 10.0;
    let is_down =
        |part: &ComponentStatus| matches!(part, ComponentStatus::Critical | ComponentStatus::Offline);
    let status = if required.iter().any(is_down) {
        OverallStatus::Critical
    } else if score < 80.0 || parts.iter().any(|part| *part != ComponentStatus::Operational) {
        OverallStatus::Warning
    } else {
        OverallStatus::Healthy
    };
    (status, score)
}

fn recommendations(health: &Health, ollama_is_expected: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    let answers = &health.answers;
    if let Some(mean) = answers.mean_duration_ms.filter(|mean| *mean > 3000.0) {
        sentences.push(format!(
            "Consider optimizing queries or scaling resources ({:.1}s avg response time)",
            mean / 1000.0
        ));
    }
    if answers.asked > 0 && answers.answered * 100 < answers.asked * 95 {
        sentences.push("Investigate error patterns to improve reliability".into());
    }
    if answers.recent_errors > 10 {
        sentences.push(format!("Look into {} errors in the last 24 hours", answers.recent_errors));
    }
    if let (Some(server), Some((done, total))) = (health.vector_server, health.filling) {
        sentences.push(format!("{server} is being filled in: it has {done} of {total} vectors"));
    }
    let differs = |found: &Synchronization| !found.orphaned.is_empty() || !found.missing.is_empty();
    if health.filling.is_none() && health.synchronization.as_ref().is_some_and(differs) {
        sentences.push("Vectors and documents differ: run `hindcast knowledge reindex`".into());
    }
    let parts = [
        ("The database", &health.database, true),
        (health.vector_server.unwrap_or("The vector store"), &health.vectors, true),
        (health.model_server, &health.ollama, ollama_is_expected),
    ];
    let accounts = health.accounts.iter().map(|accounts| ("PostgreSQL", accounts, true));
    for (name, part, counts) in parts.into_iter().chain(accounts) {
        if counts && part.status == ComponentStatus::Offline {
            sentences.push(format!("{name} is offline: start it or correct its address"));
        }
    }
    if health.database_bytes > 1 << 30 {
        sentences.push("The database is larger than 1 GB: remove collections that are not needed".into());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_judged_by_its_parts() {
        use ComponentStatus::{Critical, Degraded, Offline, Operational};
        let judged = |parts: &[ComponentStatus]| {
            let (required, other) = parts.split_at(2);
            let (status, score) = overall(required, other.first().copied());
            (status.name(), score)
        };
        assert_eq!(judged(&[Operational, Operational, Operational]), ("Healthy", 100.0));
        assert_eq!(judged(&[Operational, Operational]), ("Healthy", 100.0));
        assert_eq!(judged(&[Operational, Operational, Offline]), ("Warning", 66.7));
        assert_eq!(judged(&[Operational, Degraded, Operational]), ("Warning", 86.7));
        assert_eq!(judged(&[Operational, Critical, Operational]), ("Critical", 73.3));
        assert_eq!(judged(&[Offline, Operational]), ("Critical", 50.0));
        let (status, score) = overall(&[Operational, Operational, Offline], Some(Operational));
        assert_eq!(
            (status.name(), score),
            ("Critical", 75.0),
            "where there is a database server, it is required"
        );
    }
}
