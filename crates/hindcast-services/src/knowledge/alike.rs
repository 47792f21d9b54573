//! What is like a text, with each kind of evidence told apart: for whoever has further evidence to weigh.

use std::{collections::HashMap, sync::Arc};

use hindcast_core::{
    identity::Caller,
    knowledge::{ChunkId, Collection, Document, DocumentFilter, FoundChunk},
};

use super::{
    KnowledgeService, SearchRequest,
    search::{Candidates, under_seen_id},
};
use crate::Failure;

/// A passage that is like a text.
#[derive(Debug, Clone)]
pub struct Alike {
    /// The passage, with its document.
    pub found: FoundChunk,
    /// BM25 as a share of what there could be, 0..1.
    pub words: f32,
    /// The cosine, where there is a model and the passage is among the nearest.
    pub meaning: Option<f32>,
}

/// A document with a tag that was asked for.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// The collection's id, as the caller sees it.
    pub collection: String,
    /// The document.
    pub document: Document,
}

impl KnowledgeService {
    /// Passages that are like `text` among those that the caller sees, and whether meaning could be asked; what could not is in
    /// `notices`. Nothing is written down: it is not the caller's question.
    pub async fn alike(
        &self,
        caller: &Caller,
        text: &str,
        collection: Option<&str>,
        filter: DocumentFilter,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Alike>, Failure> {
        let collections = self.searched(caller, collection).await?;
        let within: Vec<_> = collections.iter().map(|collection| collection.key).collect();
        if within.is_empty() || text.trim().is_empty() {
            return Ok(Vec::new());
        }
        self.catch_up_for_search(notices).await;
        let only = match filter.is_everything() {
            true => None,
            false => Some(Arc::new(self.store.filtered_chunks(&within, &filter).await?)),
        };
        if only.as_ref().is_some_and(|only| only.is_empty()) {
            return Ok(Vec::new());
        }
        let request = SearchRequest { query: text.to_owned(), limit: 50, filter, ..SearchRequest::default() };
        let meanings = self.meanings(&request, &collections, notices).await?;
        self.catch_up_for_search(notices).await;
        let Candidates { lexical, dense, .. } =
            self.candidates(&request, meanings, within, only, notices).await?;
        let by_words: HashMap<ChunkId, f32> = lexical.iter().map(|hit| (hit.chunk, hit.score)).collect();
        let by_meaning: HashMap<ChunkId, f32> = dense.iter().map(|hit| (hit.chunk, hit.score)).collect();
        let mut ids: Vec<ChunkId> = by_words.keys().chain(by_meaning.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let found = self.store.found_chunks(&ids).await?;
        let alike = |found: FoundChunk| Alike {
            words: by_words.get(&found.chunk).copied().unwrap_or_default(),
            meaning: by_meaning.get(&found.chunk).copied(),
            found: under_seen_id(found, &collections),
        };
        Ok(found.into_iter().map(alike).collect())
    }

    /// The documents with a tag among those that the caller sees, each once.
    pub async fn labelled(
        &self,
        caller: &Caller,
        tag: &str,
        collection: Option<&str>,
    ) -> Result<Vec<Labelled>, Failure> {
        let collections = self.searched(caller, collection).await?;
        let within: Vec<_> = collections.iter().map(|collection| collection.key).collect();
        if within.is_empty() {
            return Ok(Vec::new());
        }
        let filter = DocumentFilter { tag: Some(tag.to_owned()), ..DocumentFilter::default() };
        let chunks: Vec<ChunkId> = self.store.filtered_chunks(&within, &filter).await?.iter().collect();
        let mut labelled: Vec<Labelled> = Vec::new();
        for found in self.store.found_chunks(&chunks).await? {
            if labelled.last().is_none_or(|last| last.document.key != found.document.key) {
                let found = under_seen_id(found, &collections);
                labelled.push(Labelled { collection: found.collection, document: found.document });
            }
        }
        labelled.sort_by_key(|one| one.document.key);
        labelled.dedup_by_key(|one| one.document.key);
        Ok(labelled)
    }

    /// Whether the caller sees a document with this tag.
    pub async fn has_labelled(&self, caller: &Caller, tag: &str) -> Result<bool, Failure> {
        let within: Vec<_> = self.searched(caller, None).await?.iter().map(|one| one.key).collect();
        if within.is_empty() {
            return Ok(false);
        }
        let filter = DocumentFilter { tag: Some(tag.to_owned()), ..DocumentFilter::default() };
        Ok(!self.store.filtered_chunks(&within, &filter).await?.is_empty())
    }

    /// What a document says, whole.
    pub async fn text_of(&self, document: &Document) -> Result<String, Failure> {
        Ok(self.store.document_text(document.key).await?)
    }

    async fn searched(&self, caller: &Caller, collection: Option<&str>) -> Result<Vec<Collection>, Failure> {
        match collection {
            Some(name) => Ok(vec![self.collection(caller, name).await?]),
            None => self.collections(caller).await,
        }
    }
}
