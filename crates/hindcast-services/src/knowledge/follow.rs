//! Hearing what changed, whoever changed it, and telling those who look at it.

use std::{sync::Arc, time::Duration};

use hindcast_core::{
    knowledge::{ChangeRecord, Generation, Ownership},
    progress::Unwatched,
};

use super::{
    COLLECTIONS_URI, HEALTH_URI, KnowledgeService, MODELS_URI, document_uri, documents_uri, stats_uri,
    watch::Watching,
};
use crate::Failure;

/// How soon it is seen what another process wrote.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often the parts are asked how they do, for those who want to hear of a change.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// How long vectors may be in memory only. They are in the truth all the while.
const COMMIT_AFTER: Duration = Duration::from_secs(10);

impl KnowledgeService {
    /// Keeps up until it is dropped: indexes follow the truth, subscribers hear of changes, watched folders are read.
    pub async fn keep_up(self: Arc<Self>) {
        let following = async {
            let seen = self.first_generation().await;
            let (followed, ()) = tokio::join!(self.follow(seen), self.embed_what_is_missing());
            if let Err(failure) = followed {
                tracing::error!(%failure, "the knowledge base is not followed any more");
            }
        };
        tokio::join!(following, self.follow_health(), self.commit_now_and_then());
    }

    /// Waits until there is something in the knowledge base; gives what has been told of it so far.
    async fn first_generation(&self) -> Generation {
        let mut seen = None;
        loop {
            match self.store.generation().await {
                Ok(Generation(0)) => seen = Some(Generation(0)),
                Ok(now) => return seen.unwrap_or(now),
                Err(failure) => tracing::warn!(%failure, "the knowledge base cannot be followed yet"),
            }
            tokio::select! {
                () = self.wrote.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn follow(self: &Arc<Self>, mut seen: Generation) -> Result<(), Failure> {
        if let Err(failure) = self.indexing.catch_up().await {
            tracing::warn!(%failure, "the indexes stay behind; the next search tries again");
        }
        let mut watching = Watching::start(self.clone());
        watching.refresh().await;
        loop {
            tokio::select! {
                () = self.wrote.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = watching.changed() => {}
            }
            watching.take_in().await;
            match self.tell_since(seen).await {
                Ok(Some(newest)) => {
                    seen = newest;
                    watching.refresh().await;
                    if let Err(failure) = self.indexing.catch_up().await {
                        tracing::warn!(%failure, "the indexes stay behind; the next search tries again");
                    }
                }
                Ok(None) => {}
                // Another process may hold the file for long; it is looked at again.
                Err(failure) => tracing::warn!(%failure, "it was not seen what changed"),
            }
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
        let changed = |uri: &str| match &change.ownership {
            Ownership::Shared => self.events.changed(&uri.into()),
            Ownership::Private(owner) => self.events.changed_for(owner, &uri.into()),
        };
        changed(COLLECTIONS_URI);
        changed(&documents_uri(&change.collection));
        changed(&stats_uri(&change.collection));
        if let Some(document) = &change.document {
            changed(&document_uri(&change.collection, document));
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
            if let Ok(health) = self.health().await {
                let statuses = [health.database.status, health.vectors.status, health.ollama.status];
                let now = (health.status, statuses);
                if health_before.replace(now).is_some_and(|before| before != now) {
                    self.events.changed(&HEALTH_URI.into());
                }
            }
            if let Ok(report) = self.models().await {
                let names: Vec<_> = report.models.into_iter().map(|row| row.model.name).collect();
                let same = models_before.as_ref() == Some(&names);
                if models_before.replace(names).is_some() && !same {
                    self.events.changed(&MODELS_URI.into());
                }
            }
            tokio::time::sleep(PROBE_EVERY).await;
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

    /// Chunks that came when there was no model, or another one, get their vectors.
    async fn embed_what_is_missing(&self) {
        match self.embed_missing(&Unwatched).await {
            Ok(notices) => notices.iter().for_each(|notice| tracing::info!("{notice}")),
            Err(failure) => tracing::warn!(%failure, "chunks stay without vectors"),
        }
        self.wrote.notify_one();
    }
}
