//! Collections: which a caller sees, and what is done with them as a whole.

use std::collections::HashSet;

use hindcast_core::{
    identity::{Caller, Scope},
    knowledge::{Collection, Ownership, Watch},
    progress::Progress,
};

use super::{
    KnowledgeService,
    embedding::lexical_only,
    figures::{Activity, activity, month_before},
    invalid,
    names::{check_id, id_of_name},
    sharing::Uploading,
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

/// Follows the id of a shared collection, to tell it from the caller's own.
const SHARED: &str = "@shared";

/// The id by which those see a shared collection who have one of that id themselves.
pub(super) fn shared_id(id: &str) -> String {
    format!("{id}{SHARED}")
}

/// Checks the id of a collection that is to be made or renamed.
pub(super) fn check_new_id(id: &str) -> Result<(), Failure> {
    check_id(id)
        .map_err(|problem| invalid(problem).hint("leave the id out to have it made from the name"))?;
    if id.ends_with(SHARED) {
        return Err(invalid(format!("the id `{id}` ends in `{SHARED}`, which names a shared collection"))
            .hint("choose another name; to add to the shared collection give `shared: true`"));
    }
    Ok(())
}

/// The collection of that id or name.
fn named(collections: &[Collection], name: &str) -> Option<Collection> {
    let is_shared = |collection: &Collection| collection.ownership == Ownership::Shared;
    let id = |collection: &Collection| match collection.id.strip_suffix(SHARED) {
        Some(id) if is_shared(collection) => id.to_owned(),
        _ => collection.id.clone(),
    };
    let given = |collection: &Collection| match name.strip_suffix(SHARED) {
        Some(name) if is_shared(collection) => name.to_owned(),
        _ => name.to_owned(),
    };
    let find = |fits: &dyn Fn(&Collection) -> bool| collections.iter().find(|one| fits(one));
    find(&|one| id(one) == given(one))
        .or_else(|| find(&|one| one.name == given(one)))
        .or_else(|| find(&|one| id(one) == given(one).trim().replace(' ', "_")))
        .cloned()
}

impl KnowledgeService {
    /// What the caller sees, oldest first. No two have the same id: a shared collection has another where the caller has one of
    /// that id.
    pub async fn collections(&self, caller: &Caller) -> Result<Vec<Collection>, Failure> {
        let mut seen = self.store.collections(Some(caller.principal.clone())).await?;
        let (shared, own): (Vec<_>, Vec<_>) =
            seen.iter_mut().partition(|collection| collection.ownership == Ownership::Shared);
        let own: HashSet<&str> = own.iter().map(|collection| &*collection.id).collect();
        for collection in shared {
            if own.contains(&*collection.id) {
                collection.id = shared_id(&collection.id);
            }
        }
        Ok(seen)
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
        let own = Ownership::Private(caller.principal.clone());
        match self.find_owned(caller, name, &own).await? {
            Some(found) => Ok(Some(found)),
            None => self.find_owned(caller, name, &Ownership::Shared).await,
        }
    }

    /// The collection of that id or name among the caller's own or among the shared ones.
    pub(super) async fn find_owned(
        &self,
        caller: &Caller,
        name: &str,
        ownership: &Ownership,
    ) -> Result<Option<Collection>, Failure> {
        let mut seen = self.collections(caller).await?;
        seen.retain(|collection| collection.ownership == *ownership);
        Ok(named(&seen, name))
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

    /// The collection of that id or name, for a caller who changes or removes it. A name without `@shared` never means a
    /// collection that somebody else made: the caller's own may have been removed meanwhile.
    pub(super) async fn changeable(&self, caller: &Caller, name: &str) -> Result<Collection, Failure> {
        let collection = self.collection(caller, name).await?;
        let is_admin = caller.may(Some(Scope::Admin));
        if collection.maker == caller.principal || (is_admin && name.ends_with(SHARED)) {
            return Ok(collection);
        }
        let id = collection.id.strip_suffix(SHARED).unwrap_or(&collection.id);
        let details = format!("the collection `{id}` is shared, and somebody else made it");
        Err(Failure::new(FailureKind::PermissionDenied, details).hint(if is_admin {
            format!("name it `{}` to change it as an admin", shared_id(id))
        } else {
            "ask its owner or an admin to do it".to_owned()
        }))
    }

    /// The collection of that id, for a resource.
    pub(super) async fn collection_resource(
        &self,
        caller: &Caller,
        id: &str,
        uri: &str,
    ) -> Result<Collection, Failure> {
        let seen = self.collections(caller).await?;
        seen.into_iter().find(|collection| collection.id == id).ok_or_else(|| {
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
        let collection = self.changeable(caller, name).await?;
        let of_name = id_of_name(new_name)?;
        let id = id.map_or(of_name, str::to_owned);
        check_new_id(&id)?;
        self.store
            .rename_collection(collection.key, id.clone(), new_name.trim().into(), self.clock.now())
            .await?;
        self.wrote.notify_one();
        let renamed = self.collections(caller).await?.into_iter().find(|seen| seen.key == collection.key);
        renamed.ok_or_else(|| invalid(format!("the collection `{id}` is removed already")))
    }

    /// Removes a collection: its rows, vectors, files and the space they took.
    pub async fn remove_collection(&self, caller: &Caller, name: &str) -> Result<Collection, Failure> {
        let collection = self.changeable(caller, name).await?;
        self.store.remove_collection(collection.key).await?;
        self.cancel_ingests_into(&collection);
        self.allowance.forget(&collection.maker);
        self.wrote.notify_one();
        self.indexing.catch_up(Uploading::AtOnce).await?;
        self.indexing.commit().await?;
        Ok(collection)
    }

    /// Keeps a folder of a collection up to date no more, or none of its folders without a path. Its documents stay.
    pub async fn unwatch(
        &self,
        caller: &Caller,
        collection: &str,
        path: Option<&str>,
    ) -> Result<(Collection, Vec<String>), Failure> {
        let collection = self.changeable(caller, collection).await?;
        let path = path.map(|path| if path.len() > 1 { path.trim_end_matches('/') } else { path }.to_owned());
        let paths = self.store.unwatch(collection.key, path).await?;
        if paths.is_empty() {
            return Err(invalid(format!("no such folder is watched for the collection `{}`", collection.id))
                .hint("`knowledge/status` and `hindcast knowledge watches` list the watched folders"));
        }
        self.wrote.notify_one();
        self.watches_changed.notify_one();
        Ok((collection, paths))
    }

    /// The watched folders of the collections that the caller sees, each with the collection's id.
    pub async fn watches(&self, caller: &Caller) -> Result<Vec<(String, Watch)>, Failure> {
        let seen = self.collections(caller).await?;
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let watches = self.store.watches().await?.into_iter();
        let id =
            |watch: &Watch| seen.iter().find(|one| one.key == watch.collection).map(|one| one.id.clone());
        Ok(watches.filter_map(|watch| Some((id(&watch)?, watch))).collect())
    }

    /// Removes one document of a collection.
    pub async fn remove_document(
        &self,
        caller: &Caller,
        collection: &str,
        document: &str,
    ) -> Result<Collection, Failure> {
        let collection = self.changeable(caller, collection).await?;
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
        self.allowance.forget(&collection.maker);
        self.wrote.notify_one();
        self.indexing.catch_up(Uploading::AtOnce).await?;
        Ok(collection)
    }

    /// Makes the indexes of everything anew from the truth, and vectors where they are missing.
    pub async fn reindex(&self, progress: &dyn Progress) -> Result<Vec<String>, Failure> {
        self.indexing.compare_all().await?;
        let notices = self.embed_missing(progress).await?;
        self.indexing.catch_up(Uploading::AtOnce).await?;
        self.indexing.commit().await?;
        Ok(notices)
    }

    /// Makes the vectors that are missing, as after the model came or changed. Until those of a collection are complete, the
    /// ones it had answer.
    pub(super) async fn embed_missing(&self, progress: &dyn Progress) -> Result<Vec<String>, Failure> {
        let mut notices = Vec::new();
        let mut done = 0;
        for collection in self.store.collections(None).await? {
            if let Some(notice) = self.embed_collection(&collection, progress, &mut done).await?
                && !notices.contains(&notice)
            {
                notices.push(notice);
            }
        }
        Ok(notices)
    }

    /// The same for one collection; tells why it is not complete.
    async fn embed_collection(
        &self,
        collection: &Collection,
        progress: &dyn Progress,
        done: &mut u64,
    ) -> Result<Option<String>, Failure> {
        const BATCH: usize = 32;
        let model = self.wanted_model(collection).to_owned();
        loop {
            let missing = self.store.without_vector(collection.key, &model, BATCH).await?;
            if missing.is_empty() {
                self.change_over(collection, &model).await?;
                return Ok(None);
            }
            let embedder = match self.meaning(&model).await? {
                Ok(meaning) => meaning.embedder.clone(),
                Err(error) => return Ok(Some(lexical_only(&error))),
            };
            if let Err(error) = self.installing.ensure(&embedder, progress).await? {
                return Ok(Some(lexical_only(&error)));
            }
            if progress.cancelled() || self.stopping.is_set() {
                return Ok(Some("stopped before every chunk had its vector".into()));
            }
            match self.vectors_for(&model, &embedder, missing).await? {
                Ok(vectors) => {
                    *done += vectors.len() as u64;
                    self.store.keep_vectors(vectors).await?;
                    progress.report(*done, None, "embedding");
                }
                Err(error) => return Ok(Some(lexical_only(&error))),
            }
        }
    }

    /// Lets the vectors of a model answer for a collection from now on.
    async fn change_over(&self, collection: &Collection, model: &str) -> Result<(), Failure> {
        if collection.vectors_by.as_deref() == Some(model) || collection.chunks == 0 {
            return Ok(());
        }
        // The index of the new ones is complete before the old ones go.
        self.indexing.catch_up(Uploading::AtOnce).await?;
        self.store.retire_other_models(collection.key, model).await?;
        if let Some(old) = collection.vectors_by.as_deref() {
            self.indexing.leave_model(collection.key, old).await?;
        }
        Ok(())
    }
}
