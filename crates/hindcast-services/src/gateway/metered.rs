//! How long the store takes: every question to it is timed on its way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditPage, AuditRecord, AuditRow, SignedHead},
    identity::{KeyId, KeyRecord, SecretHash},
    quota::{FreeRate, Limits, Reservation, Usage},
    store::{MetadataStore, StoreError},
};

/// The upper ends of the classes that durations are counted in, in microseconds.
pub const CLASSES: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000, 10_000_000,
    60_000_000,
];

/// How often something took how long.
#[derive(Debug, Default)]
pub struct Durations {
    classes: [AtomicU64; CLASSES.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
}

/// [`Durations`] at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationsSeen {
    /// How many were not above the class's end, those of lower classes included.
    pub up_to: [u64; CLASSES.len()],
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub microseconds: u64,
}

impl Durations {
    /// Counts one more.
    pub fn add(&self, duration: Duration) {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(class) = CLASSES.iter().position(|end| microseconds <= *end) {
            self.classes[class].fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }

    /// What was counted so far.
    pub fn seen(&self) -> DurationsSeen {
        let mut sum = 0;
        let up_to = std::array::from_fn(|class| {
            sum += self.classes[class].load(Relaxed);
            sum
        });
        DurationsSeen {
            up_to,
            count: self.count.load(Relaxed).max(sum),
            microseconds: self.microseconds.load(Relaxed),
        }
    }
}

/// What a store is asked for on the way of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StoreOperation {
    FindKey,
    ReserveQuota,
    Usage,
    AppendAudit,
    Other,
}

impl StoreOperation {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::FindKey, Self::ReserveQuota, Self::Usage, Self::AppendAudit, Self::Other];

    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::FindKey => "find_key",
            Self::ReserveQuota => "reserve_quota",
            Self::Usage => "usage",
            Self::AppendAudit => "append_audit",
            Self::Other => "other",
        }
    }
}

/// What questions to the store took, and how many failed.
#[derive(Debug, Default)]
pub struct StoreFigures {
    durations: [Durations; StoreOperation::ALL.len()],
    failures: AtomicU64,
}

impl StoreFigures {
    /// What an operation took.
    pub fn durations(&self, operation: StoreOperation) -> DurationsSeen {
        self.durations[operation as usize].seen()
    }

    /// How many operations failed because the store did not do them.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    async fn timed<T>(
        &self,
        operation: StoreOperation,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let done = work.await;
        self.durations[operation as usize].add(started.elapsed());
        if matches!(
            done,
            Err(StoreError::Unavailable(_)
                | StoreError::Unreachable { .. }
                | StoreError::TooSlow { .. }
                | StoreError::Refused { .. }
                | StoreError::Corrupt(_))
        ) {
            self.failures.fetch_add(1, Relaxed);
        }
        done
    }
}

/// A store whose answers are timed.
pub(super) struct Metered {
    pub(super) store: Arc<dyn MetadataStore>,
    pub(super) figures: Arc<StoreFigures>,
}

#[async_trait]
impl MetadataStore for Metered {
    async fn insert_key(&self, key: KeyRecord) -> Result<(), StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.insert_key(key)).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<Arc<KeyRecord>>, StoreError> {
        self.figures.timed(StoreOperation::FindKey, self.store.find_key(id)).await
    }

    async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.list_keys()).await
    }

    async fn replace_secret(&self, id: &KeyId, secret: SecretHash, now: Timestamp) -> Result<(), StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.replace_secret(id, secret, now)).await
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<(), StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.revoke_key(id, now)).await
    }

    async fn reserve_quota(
        &self,
        id: &KeyId,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Reservation, StoreError> {
        self.figures.timed(StoreOperation::ReserveQuota, self.store.reserve_quota(id, limits, now)).await
    }

    async fn admit_free(&self, id: &KeyId, rate: FreeRate, now: Timestamp) -> Result<bool, StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.admit_free(id, rate, now)).await
    }

    async fn usage(&self, id: &KeyId, limits: Limits, now: Timestamp) -> Result<Usage, StoreError> {
        self.figures.timed(StoreOperation::Usage, self.store.usage(id, limits, now)).await
    }

    async fn append_audit(&self, record: AuditRecord) -> Result<(), StoreError> {
        self.figures.timed(StoreOperation::AppendAudit, self.store.append_audit(record)).await
    }

    async fn settle_audit(&self) -> Result<(), StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.settle_audit()).await
    }

    async fn audit_head(&self) -> Result<Option<SignedHead>, StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.audit_head()).await
    }

    async fn audit_rows(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.audit_rows(after, limit)).await
    }

    async fn search_audit(&self, filter: AuditFilter) -> Result<AuditPage, StoreError> {
        self.figures.timed(StoreOperation::Other, self.store.search_audit(filter)).await
    }

    fn server(&self) -> Option<&str> {
        self.store.server()
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.store.probe().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_is_not_above_their_end() {
        let durations = Durations::default();
        for microseconds in [1, 50, 51, 1_000, 1_001, 3_600_000_000] {
            durations.add(Duration::from_micros(microseconds));
        }
        let seen = durations.seen();
        assert_eq!((seen.up_to[0], seen.up_to[1], seen.up_to[4], seen.up_to[5]), (2, 3, 4, 5));
        assert_eq!((seen.up_to[13], seen.count), (5, 6), "an hour is above all classes");
        assert_eq!(seen.microseconds, 3_600_002_103);
    }
}
