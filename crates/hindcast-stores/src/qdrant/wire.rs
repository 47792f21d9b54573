//! Requests and answers of Qdrant's REST interface, as far as they are needed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The payload field that says which collection a point belongs to.
pub(super) const COLLECTION: &str = "collection";

/// `GET /`.
#[derive(Deserialize)]
pub(super) struct Greeting {
    pub(super) version: String,
}

/// `GET /collections`.
#[derive(Deserialize)]
pub(super) struct CollectionList {
    pub(super) collections: Vec<ListedCollection>,
}

#[derive(Deserialize)]
pub(super) struct ListedCollection {
    pub(super) name: String,
}

/// `GET /collections/{name}`.
#[derive(Deserialize)]
pub(super) struct CollectionInfo {
    pub(super) config: CollectionConfig,
    #[serde(default)]
    pub(super) payload_schema: HashMap<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct CollectionConfig {
    pub(super) params: CollectionParams,
}

#[derive(Deserialize)]
pub(super) struct CollectionParams {
    /// One nameless vector has a size and a distance; named ones look otherwise.
    pub(super) vectors: Value,
}

/// A point as it is written.
#[derive(Serialize)]
pub(super) struct Point<'a> {
    pub(super) id: i64,
    pub(super) vector: &'a [f32],
    pub(super) payload: Payload,
}

#[derive(Serialize)]
pub(super) struct Payload {
    pub(super) collection: String,
}

#[derive(Serialize)]
pub(super) struct Upsert<'a> {
    pub(super) points: Vec<Point<'a>>,
}

/// Points as a search or a listing gives them. The marker's id is no number.
#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) id: Value,
    #[serde(default)]
    pub(super) score: f32,
}

impl Listed {
    /// The chunk that the point stands for.
    pub(super) fn chunk(&self) -> Option<i64> {
        self.id.as_i64()
    }
}

/// `POST …/points/query`.
#[derive(Deserialize)]
pub(super) struct Found {
    pub(super) points: Vec<Listed>,
}

/// `POST …/points/scroll`.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) points: Vec<Listed>,
    pub(super) next_page_offset: Option<Value>,
}

/// `POST …/points/count`.
#[derive(Deserialize)]
pub(super) struct Count {
    pub(super) count: usize,
}

/// `POST …/facet`.
#[derive(Deserialize)]
pub(super) struct Facets {
    pub(super) hits: Vec<Facet>,
}

#[derive(Deserialize)]
pub(super) struct Facet {
    pub(super) value: String,
    /// None are left of a value that once was.
    pub(super) count: usize,
}

/// `POST …/points` for the marker.
#[derive(Deserialize)]
pub(super) struct MarkerPoint {
    pub(super) payload: Marker,
}

/// What the marker says.
#[derive(Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) model: String,
    pub(super) generation: u64,
}

/// Points that belong to a collection, whichever.
pub(super) fn in_any_collection() -> Value {
    json!({ "must_not": [{ "is_empty": { "key": COLLECTION } }] })
}

/// Points of one of these collections.
pub(super) fn in_collections(keys: impl IntoIterator<Item = i64>) -> Value {
    let keys: Vec<String> = keys.into_iter().map(|key| key.to_string()).collect();
    json!({ "must": [{ "key": COLLECTION, "match": { "any": keys } }] })
}
