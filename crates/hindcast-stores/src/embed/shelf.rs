//! The models that collections may choose, and the indexes of their vectors.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hindcast_core::knowledge::{EmbedError, Embedder, IndexError, Models, Reranker, VectorWrite};
use sha2::{Digest, Sha256};

use super::{CrossEncoder, SentenceEncoder, local::is_local_name};
use crate::{Qdrant, VectorIndex, served::ServedEmbedder};

/// Stands before the name of a model that Ollama runs.
const OLLAMA: &str = "ollama:";

/// Stands before the name of a model of a server that speaks OpenAI's protocol.
const OPENAI: &str = "openai:";

/// More characters than the name of a model has.
const LONGEST_NAME: usize = 256;

/// Whether a collection may choose a model of this name, here or elsewhere.
pub(crate) fn is_model_name(name: &str) -> bool {
    let served = [OLLAMA, OPENAI].iter().find_map(|server| name.strip_prefix(server));
    let is_named = served.map_or_else(|| is_local_name(name), |model| !model.is_empty());
    is_named
        && name.trim() == name
        && name.chars().count() <= LONGEST_NAME
        && !name.contains(char::is_control)
}

/// Models in a folder, and those of a server.
pub struct ModelShelf {
    models: PathBuf,
    indexes: PathBuf,
    qdrant: Option<Qdrant>,
    idle_limit: Option<Duration>,
    ollama: Option<String>,
    openai: Option<(String, Option<String>)>,
    reranker: Option<String>,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    embedders: HashMap<String, Arc<dyn Embedder>>,
    reranker: Option<Arc<CrossEncoder>>,
}

impl ModelShelf {
    /// Models below `models`, and indexes of their vectors below `indexes`. Models that are idle for the limit leave memory.
    pub fn new(models: &Path, indexes: &Path, idle_limit: Option<Duration>) -> Self {
        Self {
            models: models.into(),
            indexes: indexes.into(),
            qdrant: None,
            idle_limit,
            ollama: None,
            openai: None,
            reranker: None,
            opened: Mutex::default(),
        }
    }

    /// The same, with the models of the Ollama server at this address, named `ollama:MODEL`.
    #[must_use]
    pub fn with_ollama(mut self, address: &str) -> Self {
        self.ollama = Some(address.into());
        self
    }

    /// The same, with the models of the server at this address, which speaks OpenAI's protocol and may ask for a key, named
    /// `openai:MODEL`.
    #[must_use]
    pub fn with_openai(mut self, address: &str, key: Option<String>) -> Self {
        self.openai = Some((address.into(), key));
        self
    }

    /// The same, with the vectors in Qdrant.
    #[must_use]
    pub fn with_qdrant(mut self, qdrant: Qdrant) -> Self {
        self.qdrant = Some(qdrant);
        self
    }

    /// The same, with a cross-encoder of this name, if it is installed.
    #[must_use]
    pub fn with_reranker(mut self, name: &str) -> Self {
        self.reranker = Some(name.into());
        self
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Embedder>, EmbedError> {
        if let Some(model) = name.strip_prefix(OPENAI) {
            let Some((address, key)) = &self.openai else {
                return Err(EmbedError::Failed(format!(
                    "`{name}` needs a server that speaks OpenAI's protocol · hint: set `knowledge.ollama_url` to its address, \
                     which ends in `/v1`"
                )));
            };
            return Ok(Arc::new(ServedEmbedder::of_openai(address, key.clone(), name, model)?));
        }
        let Some(model) = name.strip_prefix(OLLAMA) else {
            return Ok(Arc::new(SentenceEncoder::open(&self.models, name, self.idle_limit)?));
        };
        let Some(address) = &self.ollama else {
            return Err(EmbedError::Failed(format!(
                "`{name}` needs an Ollama server, and none is named · hint: set `knowledge.ollama_url` to its address"
            )));
        };
        Ok(Arc::new(ServedEmbedder::of_ollama(address, name, model)?))
    }
}

impl Models for ModelShelf {
    fn embedder(&self, name: &str) -> Result<Arc<dyn Embedder>, EmbedError> {
        if let Some(known) = lock(&self.opened).embedders.get(name) {
            return Ok(known.clone());
        }
        // Not under the lock: a server may be slow, and others are asked meanwhile.
        let opened = self.open(name)?;
        Ok(lock(&self.opened).embedders.entry(name.to_owned()).or_insert(opened).clone())
    }

    fn vectors(&self, embedder: &dyn Embedder) -> Result<Arc<dyn VectorWrite>, IndexError> {
        if let Some(qdrant) = &self.qdrant {
            return Ok(qdrant.vectors(embedder.model(), embedder.dimension()));
        }
        // Names may have any characters; folders may not.
        let digest = hex::encode(&Sha256::digest(embedder.model())[..8]);
        let folder = self.indexes.join(format!("vectors-{digest}"));
        Ok(Arc::new(VectorIndex::open(&folder, embedder.model(), embedder.dimension())?))
    }

    fn reranker(&self) -> Option<Arc<dyn Reranker>> {
        let name = self.reranker.as_ref()?;
        let mut opened = lock(&self.opened);
        if opened.reranker.is_none() {
            opened.reranker = match CrossEncoder::open(&self.models, name, self.idle_limit) {
                Ok(found) => found.map(Arc::new),
                Err(error) => {
                    tracing::warn!("passages are not reranked: {error}");
                    None
                }
            };
        }
        opened.reranker.clone().map(|reranker| reranker as Arc<dyn Reranker>)
    }
}

fn lock(opened: &Mutex<Opened>) -> std::sync::MutexGuard<'_, Opened> {
    opened.lock().unwrap_or_else(PoisonError::into_inner)
}
