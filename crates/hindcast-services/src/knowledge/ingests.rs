//! Documents that are taken in while nobody waits for it, and how far that is.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use hindcast_core::{
    Timestamp,
    identity::{Caller, PrincipalId},
    knowledge::{Collection, Ownership},
    progress::Progress,
};
use tokio::sync::Notify;

use super::{AddReport, AddRequest, FileOutcome, KnowledgeService, Material, invalid, names::id_of_name};
use crate::Failure;

/// So many are remembered after they ended.
const REMEMBERED: usize = 50;

/// Files that failed and are remembered of each.
const REMEMBERED_FAILED: usize = 100;

/// One caller may have so many under way.
const MOST_AT_ONCE: usize = 8;

/// How an ingest stands.
#[derive(Debug, Clone, PartialEq)]
pub struct IngestStatus {
    /// Its name.
    pub id: String,
    /// The collection, as it was named.
    pub collection: String,
    /// Whose it is.
    pub ownership: Ownership,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; none while it goes on.
    pub ended_at: Option<Timestamp>,
    /// Files that were looked at.
    pub done: u64,
    /// Files there are, once that is known.
    pub total: Option<u64>,
    /// What is being done.
    pub current: String,
    /// Whether it was asked to stop. It does so between two files.
    pub is_stopping: bool,
    /// Whether it was stopped before it had looked at everything.
    pub is_stopped: bool,
    /// How it ended: a report, which of the files has some of those that failed, or why there is none.
    pub outcome: Option<Result<AddReport, String>>,
}

/// One of them.
struct Ingest {
    owner: PrincipalId,
    status: Mutex<IngestStatus>,
    is_cancelled: AtomicBool,
}

impl Ingest {
    fn change(&self, change: impl FnOnce(&mut IngestStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn status(&self) -> IngestStatus {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        IngestStatus { is_stopping: self.cancelled() && status.ended_at.is_none(), ..status }
    }

    fn is_running(&self) -> bool {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).ended_at.is_none()
    }
}

impl Progress for Ingest {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        self.change(|status| {
            (status.done, status.total) = (done, total);
            message.clone_into(&mut status.current);
        });
    }

    fn note(&self, message: &str) {
        self.change(|status| message.clone_into(&mut status.current));
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }
}

/// All of this process.
#[derive(Default)]
pub(super) struct Ingests {
    all: Mutex<VecDeque<Arc<Ingest>>>,
    ended: Notify,
}

impl Ingests {
    fn all(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Ingest>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one is under way, whoever began it.
    pub(super) fn is_any_running(&self) -> bool {
        self.all().iter().any(|ingest| ingest.is_running())
    }

    /// Waits until none is under way.
    pub(super) async fn end(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.is_any_running() {
                return;
            }
            ended.await;
        }
    }
}

impl KnowledgeService {
    /// Takes documents in while the caller goes on; gives the name by which to ask how far that is.
    pub fn add_in_background(
        self: &Arc<Self>,
        caller: &Caller,
        request: AddRequest,
    ) -> Result<String, Failure> {
        if !matches!(request.material, Material::Paths { .. }) {
            return Err(invalid("only `paths` are taken in in the background").hint("leave `background` out"));
        }
        let mut all = self.ingests.all();
        let own = all.iter().filter(|ingest| ingest.owner == caller.principal && ingest.is_running());
        if own.count() >= MOST_AT_ONCE {
            return Err(invalid(format!("{MOST_AT_ONCE} ingests are under way already"))
                .hint("wait for one of them: `knowledge/status` shows them"));
        }
        let mut bytes = [0; 6];
        getrandom::fill(&mut bytes).map_err(|error| {
            Failure::new(crate::FailureKind::Internal, format!("no random numbers: {error}"))
        })?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let ingest = Arc::new(Ingest {
            owner: caller.principal.clone(),
            status: Mutex::new(IngestStatus {
                id: id.clone(),
                collection: request.collection.clone(),
                ownership: request.ownership.clone(),
                started_at: self.clock.now(),
                ended_at: None,
                done: 0,
                total: None,
                current: "looking for files".into(),
                is_stopping: false,
                is_stopped: false,
                outcome: None,
            }),
            is_cancelled: AtomicBool::new(false),
        });
        while all.len() >= REMEMBERED {
            let Some(oldest) = all.iter().position(|ingest| !ingest.is_running()) else { break };
            all.remove(oldest);
        }
        all.push_back(ingest.clone());
        drop(all);
        let (service, caller) = (self.clone(), caller.clone());
        let running = tokio::spawn(async move {
            service.add(&caller, request, &*ingest).await.map(|report| (ingest, report))
        });
        let (service, name) = (self.clone(), id.clone());
        // Apart from the work: also one that ends in a fault is ended.
        tokio::spawn(async move {
            let outcome = match running.await {
                Ok(Ok((_, report))) => Ok(report),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(error) => Err(format!("it ended in a fault: {error}")),
            };
            service.end_ingest(&name, outcome);
        });
        Ok(id)
    }

    fn end_ingest(&self, id: &str, mut outcome: Result<AddReport, String>) {
        if let Ok(report) = &mut outcome {
            // It is remembered, and nobody is told more of it.
            report.files.retain(|file| matches!(file.outcome, FileOutcome::Failed { .. }));
            report.files.truncate(REMEMBERED_FAILED);
        }
        let found = self.ingests.all().iter().find(|ingest| ingest.status().id == id).cloned();
        if let Some(ingest) = found {
            let now = self.clock.now();
            let is_stopped = ingest.cancelled() && outcome.as_ref().is_ok_and(|report| report.is_stopped);
            ingest.change(|status| {
                status.is_stopped = is_stopped;
                (status.ended_at, status.outcome) = (Some(now), Some(outcome));
            });
        }
        self.ingests.ended.notify_waiters();
    }

    /// One of the caller's ingests.
    pub fn ingest(&self, caller: &Caller, id: &str) -> Result<IngestStatus, Failure> {
        let found = self.ingests(caller).into_iter().find(|status| status.id == id);
        found.ok_or_else(|| no_such_ingest(id))
    }

    /// The caller's ingests, newest first.
    pub fn ingests(&self, caller: &Caller) -> Vec<IngestStatus> {
        let all = self.ingests.all();
        let own = all.iter().rev().filter(|ingest| ingest.owner == caller.principal);
        own.map(|ingest| ingest.status()).collect()
    }

    /// Stops one of the caller's ingests between two files; what is taken in stays. Tells whether there was something to stop.
    pub fn cancel_ingest(&self, caller: &Caller, id: &str) -> Result<bool, Failure> {
        let all = self.ingests.all();
        let own = all.iter().find(|ingest| ingest.owner == caller.principal && ingest.status().id == id);
        let Some(ingest) = own else { return Err(no_such_ingest(id)) };
        let is_running = ingest.is_running();
        if is_running {
            ingest.is_cancelled.store(true, Ordering::SeqCst);
        }
        Ok(is_running)
    }

    /// Stops everybody's ingests into a collection that was removed.
    pub(super) fn cancel_ingests_into(&self, collection: &Collection) {
        let all = self.ingests.all();
        for ingest in all.iter().filter(|ingest| ingest.is_running()) {
            if is_into(&ingest.status(), collection) {
                ingest.is_cancelled.store(true, Ordering::SeqCst);
            }
        }
    }

    /// What somebody who searches these collections should know of the caller's ingests into them.
    pub(super) fn notices_of_ingests(&self, caller: &Caller, collections: &[Collection]) -> Vec<String> {
        let running = self.ingests(caller).into_iter().filter(|ingest| ingest.ended_at.is_none());
        let into = running.filter(|ingest| collections.iter().any(|one| is_into(ingest, one)));
        into.map(|IngestStatus { collection, done, total, .. }| {
            let total = total.map_or(String::new(), |total| format!(" of {total}"));
            format!(
                "an addition to `{collection}` is under way ({done}{total} files): what it has not reached is not found yet · hint: \
                 `knowledge/status` tells when it is done"
            )
        })
        .collect()
    }
}

/// Whether a collection is the one that an ingest names.
fn is_into(ingest: &IngestStatus, collection: &Collection) -> bool {
    let named = &ingest.collection;
    collection.ownership == ingest.ownership
        && (collection.name == *named || id_of_name(named).is_ok_and(|id| id == collection.id))
}

fn no_such_ingest(id: &str) -> Failure {
    let shown: String = id.chars().take(80).collect();
    invalid(format!("there is no ingest `{shown}`")).hint(
        "`knowledge/status` lists them; one of a server that was started again is gone: add the paths again, \
         and what is taken in is skipped",
    )
}
