//! The knowledge base and the system's health: `resource://…`, as their contract has them.

use std::sync::Arc;

use async_trait::async_trait;
use hindcast_core::{
    identity::{Caller, Scope},
    license::Feature,
};
use hindcast_services::{
    Failure, FailureKind,
    knowledge::{
        COLLECTIONS_URI, HEALTH_URI, KnowledgeService, MODELS_URI, ResourceName, document_uri, documents_uri,
        stats_uri,
    },
};
use serde::Serialize;

use crate::{
    knowledge_views::{CollectionJson, DocumentJson, HealthJson, ModelsJson, StatsJson, counted},
    registry::{Content, ResourceEntry, ResourceRoom, TemplateEntry, Window},
};

const DOCUMENTS_TEMPLATE: &str = "resource://knowledge/{collectionId}/documents";
const DOCUMENT_TEMPLATE: &str = "resource://knowledge/{collectionId}/document/{docId}";
const STATS_TEMPLATE: &str = "resource://knowledge/{collectionId}/stats";
const JSON: &str = "application/json";

pub(super) struct KnowledgeRoom {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[async_trait]
impl ResourceRoom for KnowledgeRoom {
    fn scope(&self, uri: &str) -> Option<Option<Scope>> {
        uri.starts_with("resource://").then_some(Some(Scope::KnowledgeRead))
    }

    fn feature(&self, uri: &str) -> Option<Feature> {
        (uri != HEALTH_URI).then_some(Feature::Knowledge)
    }

    async fn list(&self, caller: &Caller, window: &mut Window) -> Result<Vec<ResourceEntry>, Failure> {
        if !caller.may(Some(Scope::KnowledgeRead)) {
            return Ok(Vec::new());
        }
        let entry = |uri: String, name: String, description: String, priority| ResourceEntry {
            uri,
            name,
            description,
            mime_type: JSON.into(),
            priority: Some(priority),
        };
        let fixed = |uri: &str, name: &str, description: &str, priority| {
            entry(uri.into(), name.into(), description.into(), priority)
        };
        let fixed = vec![
            fixed(
                COLLECTIONS_URI,
                "Knowledge Base Collections",
                "List of all knowledge base collections with metadata",
                1.0,
            ),
            fixed(HEALTH_URI, "System Health Status", "Current system health and component status", 0.9),
            fixed(
                MODELS_URI,
                "Available AI Models",
                "List of all installed Ollama models and their metrics",
                0.8,
            ),
        ];
        let mut entries = window.of(fixed);
        for collection in self.knowledge.collections(caller).await? {
            let (id, name) = (&collection.id, &collection.name);
            let documents = counted(collection.documents, "document", "documents");
            let chunks = counted(collection.chunks, "chunk", "chunks");
            let description = format!("List of all documents in {name} collection ({documents}, {chunks})");
            let list = entry(documents_uri(id), format!("{name} - All Documents"), description, 0.7);
            let description = "Document count, chunk count, and usage stats".to_owned();
            let statistics = entry(stats_uri(id), format!("{name} - Statistics"), description, 0.6);
            entries.extend(window.of(vec![list, statistics]));
            let count = usize::try_from(collection.documents).unwrap_or(usize::MAX);
            let wanted = window.of_next(count);
            for document in self.knowledge.some_documents(&collection, wanted).await? {
                entries.push(ResourceEntry {
                    mime_type: document.mime_type.into(),
                    ..entry(document_uri(id, &document.id), document.name, document.description, 0.5)
                });
            }
        }
        Ok(entries)
    }

    fn templates(&self, caller: &Caller) -> Vec<TemplateEntry> {
        if !caller.may(Some(Scope::KnowledgeRead)) {
            return Vec::new();
        }
        let template = |uri_template: &str, name: &str, description: &str, mime_type| TemplateEntry {
            uri_template: uri_template.into(),
            name: name.into(),
            description: description.into(),
            mime_type,
        };
        vec![
            template(DOCUMENTS_TEMPLATE, "Documents", "List of all documents in a collection", JSON),
            template(DOCUMENT_TEMPLATE, "Document", "The whole text of a document", "text/markdown"),
            template(STATS_TEMPLATE, "Statistics", "Figures of a collection", JSON),
        ]
    }

    async fn check(&self, caller: &Caller, uri: &str) -> Result<(), Failure> {
        self.knowledge.check_resource(caller, uri).await
    }

    async fn read(&self, caller: &Caller, uri: &str) -> Result<Content, Failure> {
        let knowledge = &self.knowledge;
        match ResourceName::parse(uri)? {
            ResourceName::Collections => {
                let views = knowledge.collection_views(caller).await?;
                pretty(&views.into_iter().map(CollectionJson::from).collect::<Vec<_>>())
            }
            ResourceName::Health => pretty(&HealthJson::from(knowledge.health(Some(caller)).await?)),
            ResourceName::Models => pretty(&ModelsJson::from(knowledge.models(caller).await?)),
            ResourceName::Documents(id) => {
                let (collection, documents) = knowledge.documents_resource(caller, &id, uri).await?;
                let rows = documents.into_iter().map(|document| DocumentJson::of(&collection.id, document));
                pretty(&rows.collect::<Vec<_>>())
            }
            ResourceName::Stats(id) => {
                pretty(&StatsJson::from(knowledge.stats_resource(caller, &id, uri).await?))
            }
            ResourceName::Document(collection, id) => {
                let read = knowledge.read_document(caller, &collection, &id, uri).await?;
                Ok(Content { mime_type: read.document.mime_type.into(), text: read.text })
            }
        }
    }

    async fn complete(
        &self,
        caller: &Caller,
        uri_template: &str,
        variable: &str,
        typed: &str,
    ) -> Option<Vec<String>> {
        if ![DOCUMENTS_TEMPLATE, DOCUMENT_TEMPLATE, STATS_TEMPLATE].contains(&uri_template) {
            return None;
        }
        if !caller.may(Some(Scope::KnowledgeRead)) {
            return Some(Vec::new());
        }
        let found = match variable {
            "collectionId" => self.knowledge.collections(caller).await.map(|collections| {
                let ids = collections.into_iter().map(|collection| collection.id);
                ids.filter(|id| id.starts_with(typed)).collect()
            }),
            "docId" if uri_template == DOCUMENT_TEMPLATE => {
                self.knowledge.complete_document(caller, typed).await
            }
            _ => return None,
        };
        // A completion that cannot be had is one that has nothing to offer.
        Some(found.unwrap_or_default())
    }
}

fn pretty(value: &impl Serialize) -> Result<Content, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    Ok(Content { mime_type: JSON.into(), text })
}
