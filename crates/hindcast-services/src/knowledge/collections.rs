//! Collections: which a caller sees, and what is done with them as a whole.

use hindcast_core::{
    identity::Caller,
    knowledge::{Collection, NewVector, Ownership},
    progress::Progress,
};

use super::{
    KnowledgeService, blocking,
    figures::{Activity, activity, month_before},
    intake::{embedded_text, lexical_only},
    invalid,
    names::{check_id, id_of_name},
};
use crate::{Failure, FailureKind};

/// A collection as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionView {
    /// The collection.
    pub collection: Collection,
    /// Queries of the last 30 days.
    pub monthly_queries: u64,
    /// What that number is called.
    pub activity: Activity,
}

impl KnowledgeService {
    /// What the caller sees, oldest first.
    pub async fn collections(&self, caller: &Caller) -> Result<Vec<Collection>, Failure> {
        Ok(self.store.collections(Some(caller.principal.clone())).await?)
    }

    /// What the caller sees, with how much each is used.
    pub async fn collection_views(&self, caller: &Caller) -> Result<Vec<CollectionView>, Failure> {
        let recent = self.store.recent_queries(month_before(self.clock.now())).await?;
        let view = |collection: Collection| {
            let queries =
                recent.iter().find(|(key, _)| *key == collection.key).map_or(0, |(_, count)| *count);
            CollectionView { collection, monthly_queries: queries, activity: activity(queries) }
        };
        Ok(self.collections(caller).await?.into_iter().map(view).collect())
    }

    /// The collection of that id or name, if the caller sees one; its own before a shared one.
    pub(super) async fn find_collection(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<Collection>, Failure> {
        let mut seen = self.collections(caller).await?;
        // Own ones first; within them as they were.
        seen.sort_by_key(|collection| collection.ownership == Ownership::Shared);
        let by_id = seen.iter().position(|collection| collection.id == name);
        let found = by_id.or_else(|| seen.iter().position(|collection| collection.name == name));
        let spaced = name.trim().replace(' ', "_");
        let found = found.or_else(|| seen.iter().position(|collection| collection.id == spaced));
        Ok(found.map(|index| seen.swap_remove(index)))
    }

    /// The collection of that id or name, for a tool or a command.
    pub async fn collection(&self, caller: &Caller, name: &str) -> Result<Collection, Failure> {
        match self.find_collection(caller, name).await? {
            Some(collection) => Ok(collection),
            None => {
                let known: Vec<_> = self
                    .collections(caller)
                    .await?
                    .into_iter()
                    .map(|collection| collection.id)
                    .take(20)
                    .collect();
                let hint = if known.is_empty() {
                    "there are none yet; `knowledge/add` makes one".to_owned()
                } else {
                    format!("there are {}", known.join(", "))
                };
                let shown: String = name.chars().take(80).collect();
                Err(invalid(format!("there is no collection `{shown}`")).hint(hint))
            }
        }
    }

    /// The collection of that id, for a resource.
    pub(super) async fn collection_resource(
        &self,
        caller: &Caller,
        id: &str,
        uri: &str,
    ) -> Result<Collection, Failure> {
        let seen = self.find_collection(caller, id).await?.filter(|collection| collection.id == id);
        seen.ok_or_else(|| {
            Failure::new(FailureKind::ResourceNotFound, format!("Collection '{id}' does not exist"))
                .fact("uri", uri)
        })
    }

    /// Gives a collection another name, and the id that is given or follows from the name.
    pub async fn rename_collection(
        &self,
        caller: &Caller,
        name: &str,
        new_name: &str,
        id: Option<&str>,
    ) -> Result<Collection, Failure> {
        let collection = self.collection(caller, name).await?;
        let of_name = id_of_name(new_name)?;
        let id = id.map_or(of_name, str::to_owned);
        check_id(&id)
            .map_err(|problem| invalid(problem).hint("leave the id out to have it made from the name"))?;
        self.store
            .rename_collection(collection.key, id.clone(), new_name.trim().into(), self.clock.now())
            .await?;
        self.wrote.notify_one();
        self.collection(caller, &id).await
    }

    /// Removes a collection: its rows, vectors, files and the space they took.
    pub async fn remove_collection(&self, caller: &Caller, name: &str) -> Result<Collection, Failure> {
        let collection = self.collection(caller, name).await?;
        self.store.remove_collection(collection.key).await?;
        self.wrote.notify_one();
        self.indexing.catch_up().await?;
        self.indexing.commit().await?;
        Ok(collection)
    }

    /// Removes one document of a collection.
    pub async fn remove_document(
        &self,
        caller: &Caller,
        collection: &str,
        document: &str,
    ) -> Result<Collection, Failure> {
        let collection = self.collection(caller, collection).await?;
        let found = self.store.find_document(collection.key, document).await?;
        let found = match found {
            Some(found) => Some(found),
            None => {
                let documents = self.store.documents(collection.key).await?;
                let is_meant = |path: &str| path == document || path.ends_with(&format!("/{document}"));
                documents
                    .into_iter()
                    .find(|candidate| candidate.source.as_ref().is_some_and(|source| is_meant(&source.path)))
            }
        };
        let found = found.ok_or_else(|| {
            let shown: String = document.chars().take(80).collect();
            invalid(format!("there is no document `{shown}` in the collection `{}`", collection.id))
                .hint("`hindcast knowledge show` and the resource `documents` list them")
        })?;
        self.store.remove_document(found.key, self.clock.now()).await?;
        self.wrote.notify_one();
        self.indexing.catch_up().await?;
        Ok(collection)
    }

    /// Makes the indexes of everything anew from the truth, and vectors where they are missing.
    pub async fn reindex(&self, progress: &dyn Progress) -> Result<Vec<String>, Failure> {
        self.indexing.compare_all().await?;
        let notices = self.embed_missing(progress).await?;
        self.indexing.catch_up().await?;
        self.indexing.commit().await?;
        Ok(notices)
    }

    /// Makes the vectors that are missing, as after the model came or changed.
    pub(super) async fn embed_missing(&self, progress: &dyn Progress) -> Result<Vec<String>, Failure> {
        const BATCH: usize = 32;
        let model = self.embedder.model().to_owned();
        let mut done = 0_u64;
        loop {
            let missing = self.store.without_vector(&model, BATCH).await?;
            if missing.is_empty() {
                self.store.retire_other_models(&model).await?;
                return Ok(Vec::new());
            }
            if let Err(error) = self.installing.ensure(&self.embedder, progress).await? {
                return Ok(vec![lexical_only(&error)]);
            }
            if progress.cancelled() || self.stopping.is_set() {
                return Ok(vec!["stopped before every chunk had its vector".into()]);
            }
            let ids: Vec<_> = missing.iter().map(|chunk| chunk.chunk).collect();
            let embedder = self.embedder.clone();
            let made = blocking(move || {
                let texts: Vec<_> =
                    missing.iter().map(|chunk| embedded_text(&chunk.headings, &chunk.text)).collect();
                embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .await?;
            match made {
                Ok(vectors) => {
                    done += vectors.len() as u64;
                    let vectors = ids
                        .into_iter()
                        .zip(vectors)
                        .map(|(chunk, numbers)| (chunk, NewVector { model: model.clone(), numbers }));
                    self.store.keep_vectors(vectors.collect()).await?;
                    progress.report(done, None, "embedding");
                }
                Err(error) => return Ok(vec![lexical_only(&error)]),
            }
        }
    }
}
