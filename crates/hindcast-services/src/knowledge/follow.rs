//! Hearing what changed, whoever changed it, and telling those who look at it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use hindcast_core::{
    knowledge::{ChangeRecord, Collection, Generation, Ownership},
    progress::Unwatched,
};

use super::{
    COLLECTIONS_URI, HEALTH_URI, KnowledgeService, MODELS_URI, collections::shared_id, document_uri,
    documents_uri, sharing::Uploading, stats_uri, watch::Watching,
};
use crate::Failure;

/// How often a server that keeps vectors is asked whether it still has them.
const LOOK_AT_SERVER_EVERY: Duration = Duration::from_secs(1);

/// How often the parts are asked how they do, for those who want to hear of a change.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// How long vectors may be in memory only. They are in the truth all the while.
const COMMIT_AFTER: Duration = Duration::from_secs(10);

/// Nobody has written for so long: whoever changed a model does not make its vectors.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(3);

/// Figures that change with every search are told at most this often.
const USAGE_EVERY: Duration = Duration::from_secs(1);

/// A failure that comes at every look, as while a database is away, and is logged when it begins.
#[derive(Default)]
pub(super) struct Failing(bool);

impl Failing {
    /// Gives what a look found. A failure is logged unless the look before failed, too.
    pub(super) fn found<T>(&mut self, found: Result<T, impl std::fmt::Display>, what: &str) -> Option<T> {
        let is_again = std::mem::replace(&mut self.0, found.is_err());
        match found {
            Ok(found) => Some(found),
            Err(failure) => {
                if !is_again {
                    tracing::warn!(%failure, "{what}");
                }
                None
            }
        }
    }
}

/// What was used and told so far.
struct UsageSeen {
    position: u64,
    told: Option<Instant>,
}

impl KnowledgeService {
    /// Keeps up until it is dropped: indexes follow the truth, subscribers hear of changes, watched folders are read.
    pub async fn keep_up(self: Arc<Self>) {
        let following = async {
            let usage = self.usage_so_far().await;
            let seen = self.first_generation().await;
            // Apart from each other: a folder that takes hours to read keeps nobody from hearing what changed.
            let watching = Watching::new(self.clone()).run();
            let (followed, (), ()) =
                tokio::join!(self.follow(seen, usage), self.embed_what_is_missing(), watching);
            if let Err(failure) = followed {
                tracing::error!(%failure, "the knowledge base is not followed any more");
            }
        };
        self.indexing.keeps_shared.store(true, Ordering::SeqCst);
        tokio::join!(following, self.keep_shared_vectors(), self.follow_health(), self.commit_now_and_then());
    }

    /// Waits until there is something in the knowledge base; gives what has been told of it so far.
    async fn first_generation(&self) -> Generation {
        let mut seen = None;
        let mut failing = Failing::default();
        loop {
            match failing.found(self.store.generation().await, "the knowledge base cannot be followed yet") {
                Some(Generation(0)) => seen = Some(Generation(0)),
                Some(now) => return seen.unwrap_or(now),
                None => {}
            }
            tokio::select! {
                () = self.wrote.notified() => {}
                () = self.store.await_news() => {}
            }
        }
    }

    async fn follow(self: &Arc<Self>, mut seen: Generation, mut usage: UsageSeen) -> Result<(), Failure> {
        if let Err(failure) = self.indexing.catch_up(Uploading::Never).await {
            tracing::warn!(%failure, "the indexes stay behind; the next search tries again");
        }
        let (mut looking, mut counting) = (Failing::default(), Failing::default());
        loop {
            tokio::select! {
                () = self.wrote.notified() => self.indexing.written.notify_one(),
                () = self.used.notified() => {}
                () = self.store.await_news() => {}
            }
            // The store may be busy or away for long; it is looked at again.
            let told = looking.found(self.tell_since(seen).await, "it is not seen what changed");
            if let Some(newest) = told.flatten() {
                seen = newest;
                self.watches_changed.notify_one();
                self.settings_changed.notify_one();
                if let Err(failure) = self.indexing.catch_up(Uploading::Never).await {
                    tracing::warn!(%failure, "the indexes stay behind; the next search tries again");
                }
            }
            counting.found(self.tell_usage(&mut usage).await, "it is not seen what was used");
        }
    }

    /// What was used before we looked is old news.
    async fn usage_so_far(&self) -> UsageSeen {
        let used = self.store.used_since(0).await;
        let used = used.inspect_err(|error| tracing::warn!(%error, "it was not seen what was used"));
        UsageSeen { position: used.ok().flatten().map_or(0, |used| used.position), told: None }
    }

    /// Tells whose figures changed because something was used, not oftener than people look.
    async fn tell_usage(&self, seen: &mut UsageSeen) -> Result<(), Failure> {
        if seen.told.is_some_and(|told| told.elapsed() < USAGE_EVERY) {
            return Ok(());
        }
        let Some(used) = self.store.used_since(seen.position).await? else { return Ok(()) };
        seen.position = used.position;
        seen.told = Some(Instant::now());
        for (ownership, collection) in &used.collections {
            self.tell_owner(ownership, COLLECTIONS_URI);
            for id in seen_ids(ownership, collection) {
                self.tell_owner(ownership, &stats_uri(&id));
            }
        }
        for asker in &used.askers {
            self.events.changed_for(asker, &MODELS_URI.into());
            self.events.changed_for(asker, &HEALTH_URI.into());
        }
        Ok(())
    }

    fn tell_owner(&self, ownership: &Ownership, uri: &str) {
        match ownership {
            Ownership::Shared => self.events.changed(&uri.into()),
            Ownership::Private(owner) => self.events.changed_for(owner, &uri.into()),
        }
    }

    /// Tells what changed after a generation; gives the newest, if there is one.
    async fn tell_since(&self, seen: Generation) -> Result<Option<Generation>, Failure> {
        let now = self.store.generation().await?;
        if now == seen {
            return Ok(None);
        }
        for change in self.store.changes(seen).await? {
            self.tell(&change);
        }
        Ok(Some(now))
    }

    fn tell(&self, change: &ChangeRecord) {
        let changed = |uri: &str| self.tell_owner(&change.ownership, uri);
        changed(COLLECTIONS_URI);
        for id in seen_ids(&change.ownership, &change.collection) {
            changed(&documents_uri(&id));
            changed(&stats_uri(&id));
            if let Some(document) = &change.document {
                changed(&document_uri(&id, document));
            }
        }
        if change.is_membership {
            match &change.ownership {
                Ownership::Shared => self.events.list_changed(),
                Ownership::Private(owner) => self.events.list_changed_for(owner),
            }
        }
    }

    /// Tells when a part changes its status or a model comes or goes, not at every look. Begins when somebody looked.
    async fn follow_health(&self) {
        let mut health_before = None;
        let mut models_before = None;
        self.health_wanted.notified().await;
        loop {
            if let Ok(health) = self.health(None).await {
                let statuses = [health.database.status, health.vectors.status, health.ollama.status];
                let now = (health.status, statuses);
                if health_before.replace(now).is_some_and(|before| before != now) {
                    self.events.changed(&HEALTH_URI.into());
                }
            }
            if let Some(names) = self.installed_models().await {
                let same = models_before.as_ref() == Some(&names);
                if models_before.replace(names).is_some() && !same {
                    self.events.changed(&MODELS_URI.into());
                }
            }
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// Keeps vectors on servers at the truth, apart from the rest: filling them in takes long, and a server may be away.
    async fn keep_shared_vectors(&self) {
        let mut uploading = Uploading::WhenNobodyDoes;
        let mut failing = Failing::default();
        loop {
            let looked = self.indexing.look_at_shared(uploading).await;
            failing.found(looked, "the vector store stays behind");
            let written = tokio::time::timeout(LOOK_AT_SERVER_EVERY, self.indexing.written.notified()).await;
            uploading = match written {
                Ok(()) => Uploading::AtOnce,
                Err(_) => Uploading::WhenNobodyDoes,
            };
        }
    }

    async fn commit_now_and_then(&self) {
        loop {
            tokio::time::sleep(COMMIT_AFTER).await;
            if let Err(failure) = self.indexing.commit().await {
                tracing::warn!(%failure, "the vectors stay in memory only");
            }
        }
    }

    /// Chunks that came when there was no model, or another one, get their vectors; later those of collections whose model was
    /// changed by somebody who does not embed them.
    async fn embed_what_is_missing(&self) {
        self.embed_now(self.embed_missing(&Unwatched)).await;
        loop {
            self.settings_changed.notified().await;
            // Whoever changed the model usually makes the vectors, too, and writes while at it.
            while tokio::time::timeout(TAKE_OVER_AFTER, self.settings_changed.notified()).await.is_ok() {}
            match self.is_a_model_changing().await {
                Ok(true) => self.embed_now(self.embed_missing(&Unwatched)).await,
                Ok(false) => {}
                Err(failure) => tracing::warn!(%failure, "it was not seen which models collections have"),
            }
        }
    }

    async fn embed_now(&self, work: impl Future<Output = Result<Vec<String>, Failure>>) {
        match work.await {
            Ok(notices) => notices.iter().for_each(|notice| tracing::info!("{notice}")),
            Err(failure) => tracing::warn!(%failure, "chunks stay without vectors"),
        }
        self.wrote.notify_one();
    }

    /// Whether a collection is answered by the vectors of another model than it should be.
    async fn is_a_model_changing(&self) -> Result<bool, Failure> {
        let collections = self.store.collections(None).await?;
        let is_changing = |collection: &Collection| {
            let serving = collection.vectors_by.as_deref();
            collection.chunks > 0 && serving.is_some_and(|serving| serving != self.wanted_model(collection))
        };
        Ok(collections.iter().any(is_changing))
    }
}

/// The ids by which callers see a collection.
fn seen_ids(ownership: &Ownership, id: &str) -> Vec<String> {
    match ownership {
        Ownership::Shared => vec![id.to_owned(), shared_id(id)],
        Ownership::Private(_) => vec![id.to_owned()],
    }
}
