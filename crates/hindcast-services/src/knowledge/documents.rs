//! Reading documents, and the ids there are.

use std::ops::Range;

use hindcast_core::{
    identity::Caller,
    knowledge::{Collection, Document},
};

use super::{KnowledgeService, names::ResourceName};
use crate::{Failure, FailureKind};

/// A document, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadDocument {
    /// What it is.
    pub document: Document,
    /// What it says.
    pub text: String,
}

impl KnowledgeService {
    /// The documents of a collection, oldest first.
    pub async fn documents(&self, collection: &Collection) -> Result<Vec<Document>, Failure> {
        Ok(self.store.documents(collection.key).await?)
    }

    /// Some of them, by where they stand in that order. What was removed meanwhile lets others move up.
    pub async fn some_documents(
        &self,
        collection: &Collection,
        wanted: Range<usize>,
    ) -> Result<Vec<Document>, Failure> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.store.some_documents(collection.key, wanted).await?)
    }

    /// The documents behind a URI that names a collection.
    pub async fn documents_resource(
        &self,
        caller: &Caller,
        id: &str,
        uri: &str,
    ) -> Result<(Collection, Vec<Document>), Failure> {
        let collection = self.collection_resource(caller, id, uri).await?;
        let documents = self.documents(&collection).await?;
        Ok((collection, documents))
    }

    /// A document behind a URI.
    pub async fn read_document(
        &self,
        caller: &Caller,
        collection: &str,
        id: &str,
        uri: &str,
    ) -> Result<ReadDocument, Failure> {
        let collection = self.collection_resource(caller, collection, uri).await?;
        let document = self.document_resource(&collection, id, uri).await?;
        let text = self.store.document_text(document.key).await?;
        self.store.touch_collection(collection.key, self.clock.now()).await?;
        self.wrote.notify_one();
        Ok(ReadDocument { document, text })
    }

    async fn document_resource(
        &self,
        collection: &Collection,
        id: &str,
        uri: &str,
    ) -> Result<Document, Failure> {
        self.store.find_document(collection.key, id).await?.ok_or_else(|| {
            let details = format!("Document '{id}' does not exist in collection '{}'", collection.id);
            Failure::new(FailureKind::ResourceNotFound, details).fact("uri", uri)
        })
    }

    /// Whether there is something behind a URI, for whoever wants to watch it.
    pub async fn check_resource(&self, caller: &Caller, uri: &str) -> Result<(), Failure> {
        match ResourceName::parse(uri)? {
            ResourceName::Collections => Ok(()),
            ResourceName::Health | ResourceName::Models => {
                self.health_wanted.notify_one();
                Ok(())
            }
            ResourceName::Documents(id) | ResourceName::Stats(id) => {
                self.collection_resource(caller, &id, uri).await.map(drop)
            }
            ResourceName::Document(collection, id) => {
                let collection = self.collection_resource(caller, &collection, uri).await?;
                self.document_resource(&collection, &id, uri).await.map(drop)
            }
        }
    }

    /// The ids of documents that begin with what was typed, of one collection or of all.
    pub async fn complete_document(&self, caller: &Caller, typed: &str) -> Result<Vec<String>, Failure> {
        let mut ids = Vec::new();
        for collection in self.collections(caller).await? {
            let documents = self.store.documents(collection.key).await?;
            ids.extend(documents.into_iter().map(|document| document.id).filter(|id| id.starts_with(typed)));
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }
}
