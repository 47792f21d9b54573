//! Several services over one truth and one Qdrant.

use std::{sync::atomic::AtomicUsize, time::Instant};

use hindcast_core::knowledge::{
    ChunkId, ChunkSet, CollectionKey, Generation, IndexError, ScoredChunk, VectorEntry, VectorRead,
};
use hindcast_fixtures::qdrant::Anywhere;
use hindcast_stores::{Qdrant, QdrantSettings};

use super::*;

/// Counts the vectors that go into a store.
struct Counted {
    vectors: Arc<dyn VectorWrite>,
    added: AtomicUsize,
}

impl VectorRead for Counted {
    fn nearest(
        &self,
        query: &[f32],
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        self.vectors.nearest(query, within, only, limit)
    }

    fn len(&self) -> Result<usize, IndexError> {
        self.vectors.len()
    }

    fn is_empty(&self) -> Result<bool, IndexError> {
        self.vectors.is_empty()
    }

    fn stored_bytes(&self, collection: CollectionKey) -> Result<u64, IndexError> {
        self.vectors.stored_bytes(collection)
    }

    fn server(&self) -> Option<&'static str> {
        self.vectors.server()
    }
}

impl VectorWrite for Counted {
    fn add(&self, entries: &[VectorEntry<'_>]) -> Result<(), IndexError> {
        self.added.fetch_add(entries.len(), Ordering::SeqCst);
        self.vectors.add(entries)
    }

    fn remove(&self, collection: CollectionKey, chunks: &[ChunkId]) -> Result<(), IndexError> {
        self.vectors.remove(collection, chunks)
    }

    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError> {
        self.vectors.remove_collection(collection)
    }

    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError> {
        self.vectors.collections()
    }

    fn contents(&self, collection: CollectionKey) -> Result<Vec<ChunkId>, IndexError> {
        self.vectors.contents(collection)
    }

    fn absent(&self, chunks: &[ChunkId]) -> Result<Vec<ChunkId>, IndexError> {
        self.vectors.absent(chunks)
    }

    fn generation(&self) -> Result<Option<Generation>, IndexError> {
        self.vectors.generation()
    }

    fn commit(&self, generation: Generation) -> Result<(), IndexError> {
        self.vectors.commit(generation)
    }
}

/// Services over one truth, each with an index of words and a count of its own.
struct Shared {
    folder: tempfile::TempDir,
    qdrant: Qdrant,
    _server: Anywhere,
}

impl Shared {
    /// None where the tests are skipped.
    fn start() -> Option<Self> {
        let server = Anywhere::start()?;
        let folder = tempfile::tempdir().unwrap();
        let truth = SqliteKnowledge::in_file(&folder.path().join("k.db")).name().unwrap();
        let settings = QdrantSettings { url: server.url(), api_key: None, tls_ca: None, truth };
        Some(Self { folder, qdrant: Qdrant::new(&settings).unwrap(), _server: server })
    }

    fn service(&self, name: &str) -> (Stage, Arc<Counted>) {
        let vectors = self.qdrant.vectors(WordEmbedder.model(), WordEmbedder.dimension());
        let counted = Arc::new(Counted { vectors, added: AtomicUsize::new(0) });
        let folder = tempfile::tempdir().unwrap();
        let lexical = folder.path().join(name);
        let parts = Stage::parts(self.folder.path(), Parrot::default(), Arc::new(WordEmbedder));
        let service = KnowledgeService::new(KnowledgeParts {
            open_lexical: Box::new(move || Ok(Arc::new(LexicalIndex::open(&lexical)?))),
            vectors: counted.clone(),
            ..parts
        });
        (Stage { service, folder }, counted)
    }

    /// Does something with the vectors themselves.
    async fn directly<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn VectorWrite) -> Result<T, IndexError> + Send + 'static,
    ) -> T {
        let vectors = self.qdrant.vectors(WordEmbedder.model(), WordEmbedder.dimension());
        blocking(move || work(&*vectors)).await.unwrap().unwrap()
    }

    async fn end(self) {
        blocking(move || self.qdrant.remove_all().unwrap()).await.unwrap();
    }
}

async fn dense(stage: &Stage, query: &str) -> Vec<String> {
    let request = SearchRequest {
        query: query.into(),
        limit: 5,
        mode: SearchMode::Dense,
        min_relevance: Some(0.3),
        ..SearchRequest::default()
    };
    let found = stage.service.search(&Caller::local(), request).await.unwrap();
    assert_eq!(found.notices, Vec::<String>::new());
    found.hits.into_iter().map(|hit| hit.found.document.id).collect()
}

async fn look(stage: &Stage, uploading: Uploading) {
    stage.service.indexing.look_at_shared(uploading).await.unwrap();
}

#[tokio::test]
async fn what_one_server_has_uploaded_another_finds_and_does_not_upload_again() {
    let Some(shared) = Shared::start() else { return };
    let ((one, ones), (other, others)) = (shared.service("one"), shared.service("other"));
    one.add("birds", "heron", "The heron stands in the water.").await;
    one.add("birds", "owl", "The owl hunts at night.").await;
    assert_eq!(ones.added.load(Ordering::SeqCst), 2);
    assert_eq!(dense(&other, "heron water").await[0], "heron");
    look(&other, Uploading::WhenNobodyDoes).await;
    other.service.remove_document(&Caller::local(), "birds", "owl").await.unwrap();
    look(&one, Uploading::WhenNobodyDoes).await;
    let birds = one.service.collection(&Caller::local(), "birds").await.unwrap().key;
    assert_eq!(shared.directly(move |vectors| vectors.contents(birds)).await.len(), 1);
    // A third that starts later uploads nothing either.
    let (third, thirds) = shared.service("third");
    assert_eq!(dense(&third, "heron water").await, ["heron"]);
    let added = [&ones, &others, &thirds].map(|counted| counted.added.load(Ordering::SeqCst));
    assert_eq!(added, [2, 0, 0]);

    third.service.remove_collection(&Caller::local(), "birds").await.unwrap();
    assert_eq!(shared.directly(|vectors| vectors.collections()).await, []);
    shared.end().await;
}

#[tokio::test]
async fn what_a_server_has_not_uploaded_before_it_died_another_uploads_after_a_while() {
    let Some(shared) = Shared::start() else { return };
    let (other, others) = shared.service("other");
    other.add("birds", "owl", "The owl hunts at night.").await;
    // Writes to the same truth, and has its vectors elsewhere.
    let dead = Stage {
        service: Stage::open(shared.folder.path(), Parrot::default()),
        folder: tempfile::tempdir().unwrap(),
    };
    dead.add("birds", "heron", "The heron stands in the water.").await;
    look(&other, Uploading::WhenNobodyDoes).await;
    assert_eq!(others.added.load(Ordering::SeqCst), 1, "it is not waited for whoever wrote it");
    let deadline = Instant::now() + Duration::from_secs(60);
    while others.added.load(Ordering::SeqCst) < 2 {
        assert!(Instant::now() < deadline, "nobody uploads it");
        look(&other, Uploading::WhenNobodyDoes).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(dense(&other, "heron water").await[0], "heron");
    shared.end().await;
}

#[tokio::test]
async fn an_upload_that_comes_after_the_removal_does_not_stay() {
    let Some(shared) = Shared::start() else { return };
    let ((one, _), (other, _)) = (shared.service("one"), shared.service("other"));
    one.add("birds", "heron", "The heron stands in the water.").await;
    one.add("birds", "owl", "The owl hunts at night.").await;
    let birds = one.service.collection(&Caller::local(), "birds").await.unwrap().key;
    let before = shared.directly(move |vectors| vectors.contents(birds)).await;
    look(&other, Uploading::WhenNobodyDoes).await;
    other.service.remove_document(&Caller::local(), "birds", "heron").await.unwrap();
    let left = shared.directly(move |vectors| vectors.contents(birds)).await;
    let late = *before.iter().find(|chunk| !left.contains(chunk)).unwrap();
    shared
        .directly(move |vectors| {
            let vector = [0.125; 64];
            vectors.add(&[VectorEntry { chunk: late, collection: birds, vector: &vector }])
        })
        .await;
    look(&one, Uploading::WhenNobodyDoes).await;
    assert_eq!(shared.directly(move |vectors| vectors.contents(birds)).await, left);
    shared.end().await;
}

#[tokio::test]
async fn a_restored_qdrant_and_a_restored_truth_are_noticed() {
    let Some(shared) = Shared::start() else { return };
    let (one, ones) = shared.service("one");
    one.add("birds", "heron", "The heron stands in the water.").await;
    let after_first = one.service.store.generation().await.unwrap();
    one.add("birds", "owl", "The owl hunts at night.").await;
    let birds = one.service.collection(&Caller::local(), "birds").await.unwrap().key;
    let newest = *shared.directly(move |vectors| vectors.contents(birds)).await.last().unwrap();
    // As a snapshot has it that was taken between the two.
    shared
        .directly(move |vectors| {
            vectors.remove(birds, &[newest])?;
            vectors.commit(after_first)
        })
        .await;
    look(&one, Uploading::AtOnce).await;
    assert_eq!(shared.directly(|vectors| vectors.len()).await, 2);
    assert_eq!(ones.added.load(Ordering::SeqCst), 3);

    // What a later truth had, which was since replaced by a backup.
    shared
        .directly(move |vectors| {
            let vector = [0.125; 64];
            vectors.add(&[VectorEntry { chunk: ChunkId(4711), collection: birds, vector: &vector }])?;
            vectors.commit(Generation(1_000_000))
        })
        .await;
    look(&one, Uploading::AtOnce).await;
    assert_eq!(shared.directly(|vectors| vectors.len()).await, 2);
    let now = one.service.store.generation().await.unwrap();
    assert_eq!(shared.directly(|vectors| vectors.generation()).await, Some(now));
    shared.end().await;
}
