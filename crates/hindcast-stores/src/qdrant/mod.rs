//! Vectors in Qdrant, over its REST interface, for knowledge bases that outgrow one machine.
//!
//! Each embedding model has one Qdrant collection. All of our collections share it, partitioned by a payload field with a tenant
//! index, because Qdrant handles many small tenants in one collection better than many collections. A point's id is its
//! chunk's id, which is unique in one truth; the truth's name is part of the collection's name, so that several truths can use one
//! Qdrant.
//!
//! A marker point says which generation of the truth is there. It lies among the vectors, so it goes when they go, and all
//! servers see the same.

mod client;
mod index;
mod wire;

use std::{fmt, path::PathBuf, sync::Arc};

use hindcast_core::knowledge::{IndexError, VectorWrite};
use reqwest::Method;
use sha2::{Digest, Sha256};

use client::{QdrantClient, READ_LIMIT, WRITE_LIMIT};
use index::QdrantIndex;
use wire::{CollectionList, Greeting};

/// What people call it.
const SERVER: &str = "Qdrant";

/// How to get into a Qdrant, and for whom.
pub struct QdrantSettings {
    /// Its address, such as `https://qdrant.example.org:6333`.
    pub url: String,
    /// The key that it asks for.
    pub api_key: Option<String>,
    /// A file with the certificates that its own must lead to, instead of those that the system trusts.
    pub tls_ca: Option<PathBuf>,
    /// The name of the truth whose vectors are kept, which no other truth has.
    pub truth: String,
}

/// A Qdrant that keeps the vectors of one truth.
#[derive(Clone)]
pub struct Qdrant {
    client: Arc<QdrantClient>,
    truth: String,
}

/// What `hindcast doctor` finds out.
pub struct QdrantFound {
    /// Its version.
    pub version: String,
    /// Whether what is sent stays on this machine or is encrypted.
    pub is_private: bool,
}

impl Qdrant {
    /// Reads the settings; nothing is sent yet.
    pub fn new(settings: &QdrantSettings) -> Result<Self, IndexError> {
        let key = settings.api_key.as_deref();
        let client = Arc::new(QdrantClient::new(&settings.url, key, settings.tls_ca.clone())?);
        Ok(Self { client, truth: settings.truth.clone() })
    }

    /// The index of a model's vectors. Opened at the first call to it, and again whenever Qdrant was emptied.
    pub fn vectors(&self, model: &str, dimension: usize) -> Arc<dyn VectorWrite> {
        Arc::new(self.index(model, dimension))
    }

    fn index(&self, model: &str, dimension: usize) -> QdrantIndex {
        let name = collection_name(&self.truth, model, dimension);
        QdrantIndex::new(self.client.clone(), &name, model, dimension)
    }

    /// Removes all vectors of this truth, whatever their model. Blocks.
    pub fn remove_all(&self) -> Result<(), IndexError> {
        let ours = format!("hindcast-{}-", short_name(&self.truth));
        let all = self.client.get::<CollectionList>("collections")?;
        for listed in all.into_iter().flat_map(|all| all.collections) {
            if listed.name.starts_with(&ours) {
                let path = format!("collections/{}", listed.name);
                self.client.send(Method::DELETE, &path, None::<&()>, WRITE_LIMIT)?;
            }
        }
        Ok(())
    }

    /// Asks for the version, and whether the key is good. Blocks.
    pub fn look(&self) -> Result<QdrantFound, IndexError> {
        let greeting = self.client.send(Method::GET, "", None::<&()>, READ_LIMIT)?.unwrap_or_default();
        let greeting: Greeting = serde_json::from_slice(&greeting)
            .map_err(|_| client::refused("what answers is not Qdrant".into()))?;
        // The greeting needs no key; this does.
        self.client.get::<serde_json::Value>("collections")?;
        Ok(QdrantFound { version: greeting.version, is_private: self.client.is_private() })
    }
}

impl fmt::Display for QdrantFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SERVER} {}", self.version)
    }
}

/// The Qdrant collection for a model's vectors. Names of models may have letters that those of collections may not, so part of a
/// hash tells them apart.
fn collection_name(truth: &str, model: &str, dimension: usize) -> String {
    let legible: String = model
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .take(60)
        .collect();
    let digest = hex::encode(&Sha256::digest(model)[..4]);
    format!("hindcast-{}-{legible}-{digest}-{dimension}", short_name(truth))
}

/// Letters that tell a truth from others.
fn short_name(truth: &str) -> String {
    hex::encode(&Sha256::digest(truth)[..8])
}

#[cfg(test)]
mod tests;
