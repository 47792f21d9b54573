use hindcast_core::{
    Timestamp,
    knowledge::{
        AnswerRecord, Catalogue, ChunkId, ChunkSource, Collection, NewChunk, NewDocument, NewVector, Place,
        QueryRecord, UsageLog,
    },
};

use super::*;

const MODEL: &str = "a-model";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-02-05T10:30:05Z")
}

struct Stage {
    store: SqliteKnowledge,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: SqliteKnowledge::in_file(&folder.path().join("knowledge.db")), folder }
    }

    async fn collection(&self, id: &str) -> Collection {
        self.store.open_collection(Ownership::Shared, id.into(), id.into(), now()).await.unwrap()
    }
}

/// One chunk a word; its hash is made of its text.
fn chunk(text: &str) -> NewChunk {
    let mut hash = [0; 32];
    hash[..text.len()].copy_from_slice(text.as_bytes());
    NewChunk {
        text: text.into(),
        hash,
        headings: String::new(),
        place: Place { bytes: (0, 1), lines: (1, 1), page: None },
        is_code: false,
        vector: Some(NewVector { model: MODEL.into(), numbers: vec![0.25, -1.5] }),
    }
}

fn document(collection: &Collection, id: &str, words: &str) -> NewDocument {
    NewDocument {
        collection: collection.key,
        replaces: None,
        id: id.into(),
        name: id.into(),
        description: String::new(),
        mime_type: "text/plain".into(),
        original: words.as_bytes().to_vec(),
        text: None,
        hash: [7; 32],
        source: None,
        chunks: words.split(' ').map(chunk).collect(),
        now: now(),
    }
}

#[tokio::test]
async fn a_document_comes_out_as_it_went_in() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let kept = stage.store.replace_document(document(&collection, "alpha", "one two")).await.unwrap();
    assert_eq!((kept.chunks, kept.size), (2, 7));
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "one two");
    let ids = stage.store.chunk_ids(collection.key).await.unwrap();
    let vectors = stage.store.vectors(MODEL, &ids).await.unwrap();
    assert_eq!(vectors[0], (collection.key, ids[0], vec![0.25, -1.5]));
    let found = stage.store.found_chunks(&ids).await.unwrap();
    assert_eq!((&*found[1].text, &*found[1].collection, &found[1].document), ("two", "letters", &kept));
    let counted = &stage.store.collections(None).await.unwrap()[0];
    assert_eq!((counted.documents, counted.chunks), (1, 2));
}

#[tokio::test]
async fn chunks_that_stay_keep_their_ids_and_the_others_are_told_as_gone() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let first = stage.store.replace_document(document(&collection, "alpha", "one two three")).await.unwrap();
    let before = stage.store.chunk_ids(collection.key).await.unwrap();
    let seen = stage.store.generation().await.unwrap();

    let mut next = document(&collection, "alpha", "three one four");
    next.replaces = Some(first.key);
    for chunk in &mut next.chunks {
        if chunk.text != "four" {
            chunk.vector = None;
        }
    }
    stage.store.replace_document(next).await.unwrap();
    let after = stage.store.chunk_ids(collection.key).await.unwrap();
    let new = ChunkId(before[2].0 + 1);
    assert_eq!(after, [before[0], before[2], new]);
    let changes = stage.store.chunk_changes(seen).await.unwrap().unwrap();
    assert_eq!(changes.added, [(collection.key, new)]);
    assert_eq!(changes.removed, [(collection.key, before[1])]);
    assert_eq!(stage.store.vector_ids(collection.key, MODEL).await.unwrap(), after, "vectors stay, too");
    assert_eq!(stage.store.embedded_hashes(first.key, MODEL).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_taken_id_and_a_vanished_document_are_refused_and_change_nothing() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let kept = stage.store.replace_document(document(&collection, "alpha", "one")).await.unwrap();
    let generation = stage.store.generation().await.unwrap();
    let again = stage.store.replace_document(document(&collection, "alpha", "two")).await;
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
    let gone = NewDocument {
        replaces: Some(hindcast_core::knowledge::DocumentKey(99)),
        ..document(&collection, "b", "c")
    };
    assert!(matches!(stage.store.replace_document(gone).await, Err(StoreError::Missing(_))));
    assert_eq!(stage.store.generation().await.unwrap(), generation);
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "one");
}

#[tokio::test]
async fn removing_a_collection_gives_its_space_back_to_the_disk() {
    let stage = Stage::new();
    let size = || std::fs::metadata(stage.folder.path().join("knowledge.db")).unwrap().len();
    stage.collection("kept").await;
    let empty = stage.store.size().await.unwrap();
    let collection = stage.collection("large").await;
    let mut large = document(&collection, "alpha", "one");
    large.original = vec![b'x'; 4_000_000];
    stage.store.replace_document(large).await.unwrap();
    assert!(stage.store.size().await.unwrap() > empty + 4_000_000);
    stage.store.remove_collection(collection.key).await.unwrap();
    assert!(stage.store.size().await.unwrap() <= empty + 16 * 4096, "{empty}");
    assert!(size() <= empty + 16 * 4096, "{}", size());
    assert_eq!(stage.store.chunk_ids(collection.key).await.unwrap(), []);
    assert_eq!(stage.store.collection_keys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_principal_sees_its_own_and_the_shared_collections() {
    let stage = Stage::new();
    let ada = PrincipalId("ada".into());
    let private = |name: &str| Ownership::Private(PrincipalId(name.into()));
    for owner in [Ownership::Shared, private("ada"), private("ben")] {
        stage.store.open_collection(owner, "notes".into(), "Notes".into(), now()).await.unwrap();
    }
    let seen = stage.store.collections(Some(ada.clone())).await.unwrap();
    let owners: Vec<_> = seen.into_iter().map(|collection| collection.ownership).collect();
    assert_eq!(owners, [Ownership::Shared, Ownership::Private(ada)]);
    assert_eq!(stage.store.collections(None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn every_process_hears_what_changed_and_whose_it_was() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let other = SqliteKnowledge::in_file(&stage.folder.path().join("knowledge.db"));
    let seen = other.generation().await.unwrap();
    let kept = stage.store.replace_document(document(&collection, "alpha", "one")).await.unwrap();
    stage.store.rename_collection(collection.key, "words".into(), "Words".into(), now()).await.unwrap();
    stage.store.remove_document(kept.key, now()).await.unwrap();
    let heard = other.changes(seen).await.unwrap();
    let heard: Vec<_> = heard
        .iter()
        .map(|change| (&*change.collection, change.document.as_deref(), change.is_membership))
        .collect();
    let expected = [
        ("letters", Some("alpha"), true),
        ("letters", None, true),
        ("words", None, true),
        ("words", Some("alpha"), true),
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn use_is_counted_by_collection_and_by_model() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    for (at, text, best_score) in [
        ("2026-01-01T00:00:00Z", "old", Some(0.5)),
        ("2026-02-01T00:00:00Z", "new", Some(0.75)),
        ("2026-02-02T00:00:00Z", "new", None),
    ] {
        let query = QueryRecord {
            collections: vec![collection.key],
            text: text.into(),
            latency_us: 5,
            best_score,
            at: self::at(at),
        };
        stage.store.record_query(query).await.unwrap();
    }
    let figures = stage.store.query_figures(collection.key, at("2026-01-15T00:00:00Z")).await.unwrap();
    assert_eq!((figures.recent, figures.total, figures.mean_best_score), (2, 3, Some(0.625)));
    assert_eq!(figures.texts[0], ("new".to_owned(), 2));

    let ada = PrincipalId("ada".into());
    for (answer, duration_ms) in [(Some("yes"), 1000), (None, 9000)] {
        let answer = AnswerRecord {
            conversation: "c1".into(),
            owner: ada.clone(),
            model: "gemma".into(),
            question: "really?".into(),
            answer: answer.map(Into::into),
            duration_ms,
            tokens: 10,
            at: now(),
        };
        stage.store.record_answer(answer).await.unwrap();
    }
    let model = &stage.store.model_figures().await.unwrap()[0];
    assert_eq!((model.conversations, model.asked, model.answered, model.tokens), (1, 2, 1, 20));
    assert_eq!(model.mean_duration_ms, Some(1000.0));
    assert_eq!(stage.store.conversation("c1", &ada).await.unwrap().unwrap().len(), 1);
    assert_eq!(stage.store.conversation("c1", &PrincipalId("ben".into())).await.unwrap(), None);
    let answers = stage.store.answer_figures(now(), now()).await.unwrap();
    assert_eq!((answers.asked, answers.answered, answers.recent_errors, answers.conversations), (2, 1, 1, 1));
}

#[tokio::test]
async fn who_only_looks_leaves_no_file() {
    let stage = Stage::new();
    assert_eq!(stage.store.generation().await.unwrap(), Generation(0));
    assert!(stage.store.collections(None).await.unwrap().is_empty());
    assert!(!stage.folder.path().join("knowledge.db").exists());
    stage.collection("first").await;
    assert_eq!(stage.store.collections(None).await.unwrap().len(), 1);
}
