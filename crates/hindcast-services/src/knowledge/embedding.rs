//! Vectors for passages: each text is embedded once, wherever it stands in its collection.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use hindcast_core::{
    knowledge::{
        ChunkId, CollectionKey, Document, EmbedError, Embedder, IndexedChunk, NewVector, TextHash, hash_of,
    },
    progress::Progress,
};

use super::{KnowledgeService, blocking, intake::Intake, preparing::Prepared};
use crate::Failure;

/// Few enough that progress is seen, and what the model likes best.
const BATCH: usize = 8;

/// A document with more chunks to embed is kept first: its vectors come in parts, and none is made twice after a crash.
pub(super) const LARGE: usize = 256;

/// What the model reads of a chunk.
pub(super) fn embedded_text(headings: &str, text: &str) -> String {
    if headings.is_empty() { text.to_owned() } else { format!("{headings}\n{text}") }
}

/// What is said when chunks have no vectors.
pub(super) fn lexical_only(error: &EmbedError) -> String {
    format!("found by words only, not by meaning: {error}")
}

/// Vectors by what they are of.
type Vectors = HashMap<TextHash, Vec<f32>>;

impl KnowledgeService {
    /// Gives new chunks their vectors. Returns whether too many are left: the document is then kept first, and they get theirs part
    /// by part. Without a model chunks stay without, and a notice says so.
    pub(super) async fn embed(
        &self,
        intake: &mut Intake,
        known: Option<&Document>,
        prepared: &mut Prepared,
        progress: &dyn Progress,
    ) -> Result<bool, Failure> {
        let model = self.wanted_model(&intake.collection).to_owned();
        let embedder = match self.meaning(&model).await? {
            Ok(meaning) => meaning.embedder.clone(),
            Err(error) => {
                intake.notice(lexical_only(&error));
                return Ok(false);
            }
        };
        // How many chunks with each hash have their vector already.
        let mut embedded: HashMap<TextHash, usize> = HashMap::new();
        if let Some(known) = known {
            for hash in self.store.embedded_hashes(known.key, &model).await? {
                *embedded.entry(hash).or_default() += 1;
            }
        }
        let new: Vec<usize> = (0..prepared.chunks.len())
            .filter(|&index| match embedded.get_mut(&prepared.chunks[index].hash) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            })
            .collect();
        let wanted = new.iter().map(|&index| &prepared.chunks[index]);
        let wanted = wanted.map(|chunk| (chunk.hash, embedded_text(&chunk.headings, &chunk.text)));
        let (mut vectors, missing) = self.known_vectors(intake.collection.key, &model, wanted).await?;
        let mut is_left = missing.len() > LARGE;
        if !missing.is_empty()
            && let Err(error) = self.installing.ensure(&embedder, progress).await?
        {
            intake.notice(lexical_only(&error));
            is_left = false;
        } else if !is_left {
            for batch in missing.chunks(BATCH) {
                if progress.cancelled() || self.stopping.is_set() {
                    intake.is_stopped = true;
                    intake.notice(
                        "stopped before all passages had their vectors · hint: `hindcast knowledge reindex` makes them".into(),
                    );
                    break;
                }
                match embedded_by(&embedder, batch.to_vec()).await? {
                    Ok(made) => vectors.extend(made),
                    Err(error) => {
                        intake.notice(lexical_only(&error));
                        break;
                    }
                }
            }
        }
        for index in new {
            let chunk = &mut prepared.chunks[index];
            let numbers = vectors.get(&chunk.hash).cloned();
            chunk.vector = numbers.map(|numbers| NewVector { model: model.clone(), numbers });
        }
        Ok(is_left)
    }

    /// Makes the vectors that a kept document lacks, and keeps them part by part.
    pub(super) async fn embed_kept(
        &self,
        intake: &mut Intake,
        document: &Document,
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        let model = self.wanted_model(&intake.collection).to_owned();
        let embedder = match self.meaning(&model).await? {
            Ok(meaning) => meaning.embedder.clone(),
            Err(error) => {
                intake.notice(lexical_only(&error));
                return Ok(());
            }
        };
        loop {
            let missing = self.store.document_without_vector(document.key, &model, 4 * BATCH).await?;
            let is_stopped = progress.cancelled() || self.stopping.is_set();
            if missing.is_empty() || is_stopped {
                return Ok(());
            }
            if let Err(error) = self.installing.ensure(&embedder, progress).await? {
                intake.notice(lexical_only(&error));
                return Ok(());
            }
            match self.vectors_for(&model, &embedder, missing).await? {
                Ok(made) => {
                    intake.parts += made.len() as u64;
                    progress.note(&format!(
                        "{}: {} of {} passages embedded",
                        document.name, intake.parts, document.chunks
                    ));
                    self.store.keep_vectors(made).await?;
                    self.wrote.notify_one();
                }
                Err(error) => {
                    intake.notice(lexical_only(&error));
                    return Ok(());
                }
            }
        }
    }

    /// The vectors of chunks of one collection that are kept already.
    pub(super) async fn vectors_for(
        &self,
        model: &str,
        embedder: &Arc<dyn Embedder>,
        chunks: Vec<IndexedChunk>,
    ) -> Result<Result<Vec<(ChunkId, NewVector)>, EmbedError>, Failure> {
        let Some(collection) = chunks.first().map(|chunk| chunk.collection) else {
            return Ok(Ok(Vec::new()));
        };
        let hashed = chunks.iter().map(|chunk| {
            (hash_of(&chunk.headings, &chunk.text), embedded_text(&chunk.headings, &chunk.text))
        });
        let (mut vectors, missing) = self.known_vectors(collection, model, hashed).await?;
        match embedded_by(embedder, missing).await? {
            Ok(made) => vectors.extend(made),
            Err(error) => return Ok(Err(error)),
        }
        let vector = |chunk: &IndexedChunk| {
            let numbers = vectors.get(&hash_of(&chunk.headings, &chunk.text))?.clone();
            Some((chunk.chunk, NewVector { model: model.to_owned(), numbers }))
        };
        Ok(Ok(chunks.iter().filter_map(vector).collect()))
    }

    /// Looks for vectors of equal texts in all documents of a collection. Returns those, and the texts that have none, each once.
    async fn known_vectors(
        &self,
        collection: CollectionKey,
        model: &str,
        wanted: impl Iterator<Item = (TextHash, String)>,
    ) -> Result<(Vectors, Vec<(TextHash, String)>), Failure> {
        let mut seen = HashSet::new();
        let mut missing: Vec<(TextHash, String)> = wanted.filter(|(hash, _)| seen.insert(*hash)).collect();
        let hashes = missing.iter().map(|(hash, _)| *hash).collect();
        let known: Vectors = self.store.vectors_of(collection, model, hashes).await?.into_iter().collect();
        missing.retain(|(hash, _)| !known.contains_key(hash));
        Ok((known, missing))
    }
}

async fn embedded_by(
    embedder: &Arc<dyn Embedder>,
    texts: Vec<(TextHash, String)>,
) -> Result<Result<Vectors, EmbedError>, Failure> {
    if texts.is_empty() {
        return Ok(Ok(Vectors::new()));
    }
    let embedder = embedder.clone();
    blocking(move || {
        let vectors = embedder.embed(&texts.iter().map(|(_, text)| &**text).collect::<Vec<_>>())?;
        Ok(texts.into_iter().map(|(hash, _)| hash).zip(vectors).collect())
    })
    .await
}
