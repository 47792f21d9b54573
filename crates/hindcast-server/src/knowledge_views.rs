//! Knowledge in the names and shapes of its wire contract.

use std::time::Duration;

use hindcast_core::{
    Timestamp,
    knowledge::{Collection, Document, Language, Ownership},
};
use hindcast_services::knowledge::{
    CollectionStats, CollectionView, ComponentHealth, Health, ModelReport, ModelRow, Synchronization,
    document_uri,
};
use serde::Serialize;

/// To the second, as the contract writes times.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CollectionJson {
    id: String,
    name: String,
    document_count: u64,
    chunk_count: u64,
    created_at: String,
    last_updated: String,
    last_accessed: Option<String>,
    monthly_queries: u64,
    activity_level: &'static str,
    /// Only where it is: the contract knows private collections.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    /// Only where something was decided: the contract knows collections as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsJson>,
}

/// What was decided for a collection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The model whose vectors answer, while those of the other are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passage_bytes: Option<u32>,
}

impl SettingsJson {
    fn of(collection: &Collection) -> Option<Self> {
        let settings = &collection.settings;
        let answered_by = collection.vectors_by.clone();
        (!settings.are_usual()).then(|| Self {
            answered_by: answered_by
                .filter(|model| settings.model.as_ref().is_some_and(|wanted| wanted != model)),
            model: settings.model.clone(),
            language: settings.language.map(Language::code),
            passage_bytes: settings.passage_bytes,
        })
    }
}

impl From<CollectionView> for CollectionJson {
    fn from(view: CollectionView) -> Self {
        let collection = view.collection;
        Self {
            settings: SettingsJson::of(&collection),
            id: collection.id,
            name: collection.name,
            document_count: collection.documents,
            chunk_count: collection.chunks,
            created_at: time(collection.created_at),
            last_updated: time(collection.updated_at),
            last_accessed: collection.accessed_at.map(time),
            monthly_queries: view.monthly_queries,
            activity_level: view.activity.name(),
            shared: collection.ownership == Ownership::Shared,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentJson {
    id: String,
    name: String,
    size: u64,
    chunk_count: u64,
    mime_type: String,
    created_at: String,
    last_updated: String,
    uri: String,
    /// The file it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl DocumentJson {
    pub(crate) fn of(collection: &str, document: Document) -> Self {
        Self {
            uri: document_uri(collection, &document.id),
            id: document.id,
            name: document.name,
            size: document.size,
            chunk_count: document.chunks,
            mime_type: document.mime_type,
            created_at: time(document.created_at),
            last_updated: time(document.updated_at),
            path: document.source.map(|source| source.path),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatsJson {
    collection_id: String,
    collection_name: String,
    document_count: u64,
    total_chunks: u64,
    total_size: u64,
    average_chunks_per_document: u64,
    created_at: String,
    last_updated: String,
    last_accessed: Option<String>,
    usage_statistics: UsageJson,
    storage_metrics: StorageJson,
    health_status: CheckJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageJson {
    monthly_queries: u64,
    total_queries: u64,
    average_relevance_score: Option<f64>,
    most_queried_topics: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StorageJson {
    document_size_bytes: u64,
    average_chunk_size: u64,
    compression_ratio: f64,
    vector_storage_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckJson {
    is_healthy: bool,
    has_missing_vectors: bool,
    has_orphaned_chunks: bool,
    last_health_check: String,
}

impl From<CollectionStats> for StatsJson {
    fn from(stats: CollectionStats) -> Self {
        let collection = stats.collection;
        let (has_missing_vectors, has_orphaned_chunks) =
            (stats.missing_vectors > 0, stats.orphaned_vectors > 0);
        Self {
            collection_id: collection.id,
            collection_name: collection.name,
            document_count: collection.documents,
            total_chunks: collection.chunks,
            total_size: stats.document_bytes,
            average_chunks_per_document: rounded_share(collection.chunks, collection.documents),
            created_at: time(collection.created_at),
            last_updated: time(collection.updated_at),
            last_accessed: collection.accessed_at.map(time),
            usage_statistics: UsageJson {
                monthly_queries: stats.monthly_queries,
                total_queries: stats.total_queries,
                average_relevance_score: stats.average_relevance.map(|score| (score * 100.0).round() / 100.0),
                most_queried_topics: stats.topics,
            },
            storage_metrics: StorageJson {
                document_size_bytes: stats.document_bytes,
                average_chunk_size: rounded_share(stats.chunk_bytes, collection.chunks),
                compression_ratio: ratio(stats.document_bytes, stats.stored_bytes),
                vector_storage_bytes: stats.vector_bytes,
            },
            health_status: CheckJson {
                is_healthy: !has_missing_vectors && !has_orphaned_chunks,
                has_missing_vectors,
                has_orphaned_chunks,
                last_health_check: time(stats.checked_at),
            },
        }
    }
}

fn rounded_share(sum: u64, count: u64) -> u64 {
    (sum + count / 2).checked_div(count).unwrap_or(0)
}

/// Two decimals; 1 where there is nothing.
#[allow(clippy::cast_precision_loss, reason = "a ratio of two decimals")]
fn ratio(original: u64, stored: u64) -> f64 {
    if stored == 0 { 1.0 } else { (original as f64 / stored as f64 * 100.0).round() / 100.0 }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthJson {
    status: &'static str,
    health_score: f64,
    timestamp: String,
    components: ComponentsJson,
    synchronization: SynchronizationJson,
    metrics: MetricsJson,
    recommendations: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentsJson {
    sqlite_database: DatabaseJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    postgres_database: Option<DatabaseServerJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedded_vector_store: Option<VectorStoreJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qdrant_vector_store: Option<VectorStoreJson>,
    ollama: OllamaJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseJson {
    status: &'static str,
    knowledge_bases: u64,
    response_time: Option<String>,
}

/// What keeps keys, limits and the audit trail of several servers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseServerJson {
    status: &'static str,
    response_time: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VectorStoreJson {
    status: &'static str,
    collections: u64,
    response_time: Option<String>,
    /// While a server that has lost its vectors is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    filling: Option<FillingJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FillingJson {
    done: u64,
    total: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OllamaJson {
    status: &'static str,
    models: u64,
    response_time: Option<String>,
    total_model_size: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SynchronizationJson {
    /// Null where the vector store cannot be asked.
    in_sync: Option<bool>,
    orphaned_collections: Vec<String>,
    missing_collections: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricsJson {
    success_rate: Option<String>,
    average_response_time: Option<String>,
    errors_last_24_hours: u64,
    total_conversations: u64,
    database_size: String,
}

impl From<Health> for HealthJson {
    fn from(health: Health) -> Self {
        let answers = &health.answers;
        let response = |part: &ComponentHealth| part.response.map(milliseconds);
        let vectors = VectorStoreJson {
            status: health.vectors.status.name(),
            collections: health.vectors.count,
            response_time: response(&health.vectors),
            filling: health.filling.map(|(done, total)| FillingJson { done, total }),
        };
        let (embedded, qdrant) = match health.vector_server {
            None => (Some(vectors), None),
            Some(_) => (None, Some(vectors)),
        };
        let is_in_sync = |found: &Synchronization| found.orphaned.is_empty() && found.missing.is_empty();
        let in_sync = health.synchronization.as_ref().map(is_in_sync);
        let synchronization = health.synchronization.unwrap_or_default();
        Self {
            status: health.status.name(),
            health_score: health.score,
            timestamp: time(health.at),
            components: ComponentsJson {
                sqlite_database: DatabaseJson {
                    status: health.database.status.name(),
                    knowledge_bases: health.database.count,
                    response_time: response(&health.database),
                },
                postgres_database: health.accounts.as_ref().map(|accounts| DatabaseServerJson {
                    status: accounts.status.name(),
                    response_time: response(accounts),
                }),
                embedded_vector_store: embedded,
                qdrant_vector_store: qdrant,
                ollama: OllamaJson {
                    status: health.ollama.status.name(),
                    models: health.ollama.count,
                    response_time: response(&health.ollama),
                    total_model_size: model_size(health.model_bytes),
                },
            },
            synchronization: SynchronizationJson {
                in_sync,
                orphaned_collections: synchronization.orphaned,
                missing_collections: synchronization.missing,
            },
            metrics: MetricsJson {
                success_rate: percent(answers.answered, answers.asked),
                average_response_time: answers.mean_duration_ms.map(seconds),
                errors_last_24_hours: answers.recent_errors,
                total_conversations: answers.conversations,
                database_size: file_size(health.database_bytes),
            },
            recommendations: health.recommendations,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelsJson {
    total_models: usize,
    total_size: String,
    models: Vec<ModelJson>,
    recommendations: BestModelsJson,
    /// Why not all models may be here.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ModelJson {
    #[serde(rename_all = "camelCase")]
    Answering {
        name: String,
        size: String,
        conversations: u64,
        success_rate: Option<String>,
        average_response_time: Option<String>,
        total_tokens: u64,
        last_used: Option<String>,
        tool_support: bool,
    },
    #[serde(rename_all = "camelCase")]
    Embedding {
        name: String,
        size: String,
        purpose: &'static str,
        dimensions: Option<u64>,
        last_used: Option<String>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BestModelsJson {
    fastest_model: Option<String>,
    most_reliable: Option<String>,
    most_used: Option<String>,
}

impl From<ModelReport> for ModelsJson {
    fn from(report: ModelReport) -> Self {
        Self {
            total_models: report.models.len(),
            total_size: model_size(report.models.iter().map(|row| row.model.size).sum()),
            models: report.models.into_iter().map(model).collect(),
            recommendations: BestModelsJson {
                fastest_model: report.fastest,
                most_reliable: report.most_reliable,
                most_used: report.most_used,
            },
            notice: report.notice,
        }
    }
}

fn model(row: ModelRow) -> ModelJson {
    let (name, size, last_used) = (row.model.name, model_size(row.model.size), row.last_used.map(time));
    if row.model.embeds {
        let dimensions = row.model.dimension;
        return ModelJson::Embedding { name, size, purpose: "embedding", dimensions, last_used };
    }
    let figures = row.figures.unwrap_or_default();
    ModelJson::Answering {
        name,
        size,
        conversations: figures.conversations,
        success_rate: percent(figures.answered, figures.asked),
        average_response_time: figures.mean_duration_ms.map(hundredths),
        total_tokens: figures.tokens,
        last_used,
        tool_support: row.model.calls_tools,
    }
}

/// Seconds to three digits, as the contract writes the mean of all answers: `19.8s`, `0.21s`.
fn seconds(milliseconds: f64) -> String {
    if milliseconds < 9995.0 { hundredths(milliseconds) } else { format!("{:.1}s", milliseconds / 1000.0) }
}

/// Seconds with two decimals, as the contract writes the mean of a model's answers: `22.10s`.
fn hundredths(milliseconds: f64) -> String {
    format!("{:.2}s", milliseconds / 1000.0)
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// One decimal, or none where it would be zero; none when there is nothing to divide.
#[allow(clippy::cast_precision_loss, reason = "a share of one decimal")]
fn percent(part: u64, whole: u64) -> Option<String> {
    if whole == 0 {
        return None;
    }
    let text = format!("{:.1}", part as f64 * 100.0 / whole as f64);
    Some(format!("{}%", text.strip_suffix(".0").unwrap_or(&text)))
}

/// As Ollama writes sizes: powers of a thousand.
#[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn model_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// As file sizes are written: powers of 1024.
#[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn file_size(bytes: u64) -> String {
    let steps = [("GB", 1_u64 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    match steps.into_iter().find(|(_, step)| bytes >= *step) {
        Some((unit, step)) => format!("{:.1} {unit}", bytes as f64 / step as f64),
        None => format!("{bytes} B"),
    }
}

/// With a comma between thousands.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_the_contract_writes_them() {
        assert_eq!(percent(924, 1000).as_deref(), Some("92.4%"));
        assert_eq!(percent(29, 30).as_deref(), Some("96.7%"));
        assert_eq!(percent(20, 20).as_deref(), Some("100%"));
        assert_eq!(percent(0, 0), None);
        assert_eq!([19_800.0, 4880.0, 210.0].map(seconds), ["19.8s", "4.88s", "0.21s"]);
        assert_eq!([10_510.0, 22_100.0, 210.0].map(hundredths), ["10.51s", "22.10s", "0.21s"]);
        assert_eq!(model_size(109_500_000_000), "109.5 GB");
        assert_eq!(model_size(274_302_450), "274 MB");
        assert_eq!(file_size(409_600), "400.0 KB");
        assert_eq!(counted(1221, "chunk", "chunks"), "1,221 chunks");
        assert_eq!(counted(1, "document", "documents"), "1 document");
        assert_eq!(rounded_share(2_456_789, 1221), 2012);
    }
}
