use hindcast_core::{
    Timestamp,
    identity::KeyId,
    knowledge::{
        AnswerFigures, AnswerRecord, Catalogue, ChunkId, ChunkSource, Collection, DocumentKey,
        DocumentVersion, NewChunk, NewDocument, NewVector, NewWatch, Place, QueryRecord, SourceFile,
        UsageLog, WatchGrant,
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
        self.store
            .open_collection(Ownership::Shared, PrincipalId::local(), id.into(), id.into(), now())
            .await
            .unwrap()
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
        ids: vec![id.into()],
        name: id.into(),
        description: String::new(),
        mime_type: "text/plain".into(),
        source_type: "text/plain".into(),
        reader: 1,
        language: None,
        tags: hindcast_core::knowledge::Tags::default(),
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
    let kept = stage.store.keep_document(document(&collection, "alpha", "one two")).await.unwrap();
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
    let first = stage.store.keep_document(document(&collection, "alpha", "one two three")).await.unwrap();
    let before = stage.store.chunk_ids(collection.key).await.unwrap();
    let seen = stage.store.generation().await.unwrap();

    let mut next = document(&collection, "alpha", "three one four");
    next.replaces = Some(first.version());
    for chunk in &mut next.chunks {
        if chunk.text != "four" {
            chunk.vector = None;
        }
    }
    stage.store.keep_document(next).await.unwrap();
    let after = stage.store.chunk_ids(collection.key).await.unwrap();
    let new = ChunkId(before[2].0 + 1);
    assert_eq!(after, [before[0], before[2], new]);
    let changes = stage.store.chunk_changes(seen).await.unwrap().unwrap();
    assert_eq!(changes.added, [(collection.key, new)]);
    assert_eq!(changes.removed, [(collection.key, before[1])]);
    assert_eq!(stage.store.vector_ids(collection.key, MODEL).await.unwrap(), after, "vectors stay, too");
    assert_eq!(stage.store.embedded_hashes(first.key, MODEL).await.unwrap().len(), 3);
}

/// A document of the file at this path.
fn file(collection: &Collection, path: &str, words: &str) -> NewDocument {
    let source = SourceFile { path: path.into(), modified: 1, size: words.len() as u64 };
    NewDocument { source: Some(source), ..document(collection, "file", words) }
}

#[tokio::test]
async fn a_writer_that_expects_something_else_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let kept = stage.store.keep_document(document(&collection, "alpha", "one")).await.unwrap();
    let at = stage.store.keep_document(file(&collection, "/a", "one")).await.unwrap();
    let generation = stage.store.generation().await.unwrap();
    let gone = DocumentVersion { key: DocumentKey(99), ..kept.version() };
    let other = DocumentVersion { hash: [8; 32], ..at.version() };
    for refused in [
        document(&collection, "alpha", "two"),
        NewDocument { replaces: Some(gone), ..document(&collection, "b", "c") },
        file(&collection, "/a", "two"),
        NewDocument { replaces: Some(other), ..file(&collection, "/a", "two") },
        NewDocument { replaces: Some(kept.version()), ..file(&collection, "/a", "two") },
    ] {
        let refused = stage.store.keep_document(refused).await;
        assert!(matches!(refused, Err(StoreError::Changed(_))), "{refused:?}");
    }
    assert_eq!(stage.store.remove_unchanged(vec![other, gone], now()).await.unwrap(), []);
    stage.store.refresh_source(other, 7).await.unwrap();
    assert_eq!(stage.store.generation().await.unwrap(), generation);
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "one");
    assert_eq!(stage.store.document_at(collection.key, "/a").await.unwrap(), Some(at.clone()));
    assert_eq!(stage.store.remove_unchanged(vec![at.version()], now()).await.unwrap(), [at.key]);
}

#[tokio::test]
async fn a_file_is_one_document_and_keeps_its_id_when_it_moves() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await;
    let first = stage.store.keep_document(file(&collection, "/a/x", "one")).await.unwrap();
    let second = stage.store.keep_document(file(&collection, "/b/x", "two")).await.unwrap();
    assert_eq!((&*first.id, &*second.id), ("file", "file-2"));
    let moved = NewDocument { replaces: Some(first.version()), ..file(&collection, "/c/x", "one") };
    let moved = stage.store.keep_document(moved).await.unwrap();
    assert_eq!((moved.key, &*moved.id), (first.key, "file"));
    let below = |path: &'static str| {
        let (store, key) = (stage.store.clone(), collection.key);
        async move { store.documents_below(key, path).await.unwrap().len() }
    };
    assert_eq!([below("/").await, below("/c").await, below("/c/x").await, below("/a").await], [2, 1, 1, 0]);
    assert_eq!(stage.store.documents_of_content(collection.key, [7; 32]).await.unwrap().len(), 2);
}

/// A file of the first version, in which several processes made several documents of one file.
#[tokio::test]
async fn what_the_first_version_has_twice_is_there_once_and_the_newest_stays() {
    let stage = Stage::new();
    let path = stage.folder.path().join("knowledge.db");
    let old = schema::open(&path).unwrap();
    old.execute_batch(schema::MIGRATIONS[0]).unwrap();
    old.execute_batch(
        "PRAGMA user_version = 1;
         UPDATE generation SET value = 40;
         INSERT INTO collections (key, owner, id, name, created_at, updated_at) VALUES
             (1, NULL, 'shared', 'shared', 0, 0), (2, 'local', 'own', 'own', 0, 0), (3, 'ada', 'ada', 'ada', 0, 0);
         INSERT INTO documents VALUES
             (1, 1, 'x',   'x', '', 'text/plain', 3, 1, zeroblob(32), 10, 20, '/x', 5),
             (2, 1, 'x-2', 'x', '', 'text/plain', 3, 1, zeroblob(32), 11, 30, '/x', 6),
             (3, 1, 'x-3', 'x', '', 'text/plain', 3, 1, zeroblob(32), 12, 12, '/x', 5),
             (4, 2, 'x',   'x', '', 'text/plain', 3, 1, zeroblob(32), 12, 12, '/x', 5),
             (5, 1, 'one', 'x', '', 'text/plain', 3, 1, zeroblob(32), 12, 12, NULL, NULL),
             (6, 1, 'two', 'x', '', 'text/plain', 3, 1, zeroblob(32), 12, 12, NULL, NULL);
         INSERT INTO contents SELECT key, CAST('old' AS BLOB), NULL FROM documents;
         UPDATE contents SET original = CAST('new' AS BLOB) WHERE document = 2;
         INSERT INTO chunks SELECT key * 10, key, collection, 0, zeroblob(32), '', id, 0, 1, 1, 1, NULL, 0, 7 FROM documents;
         INSERT INTO watched VALUES (1, '/s'), (2, '/l'), (3, '/a');",
    )
    .unwrap();
    drop(old);
    let collections = stage.store.collections(None).await.unwrap();
    assert_eq!(collections.iter().map(|one| one.documents).collect::<Vec<_>>(), [3, 1, 0]);
    assert_eq!(collections.iter().map(|one| &*one.maker.0).collect::<Vec<_>>(), ["local", "local", "ada"]);
    let shared = collections[0].key;
    let kept = stage.store.document_at(shared, "/x").await.unwrap().unwrap();
    assert_eq!((&*kept.id, kept.key), ("x", DocumentKey(2)));
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "new");
    // The indexes hear of what went.
    let changes = stage.store.chunk_changes(Generation(40)).await.unwrap().unwrap();
    assert_eq!(changes.removed, [(shared, ChunkId(10)), (shared, ChunkId(30))]);
    assert_eq!(stage.store.generation().await.unwrap(), Generation(42));
    let grants: Vec<_> = stage.store.watches().await.unwrap().into_iter().map(|watch| watch.grant).collect();
    assert_eq!(grants, [WatchGrant::Unknown, WatchGrant::Local, WatchGrant::Unknown]);
}

#[tokio::test]
async fn who_gave_a_folder_to_be_watched_is_kept_and_the_local_user_goes_first() {
    let stage = Stage::new();
    let collection = stage.collection("letters").await.key;
    let key = |id: &str| WatchGrant::Key(KeyId(id.into()));
    for (path, grant) in [("/a", key("k1")), ("/a", key("k2")), ("/b", WatchGrant::Local), ("/b", key("k1"))]
    {
        stage
            .store
            .watch(NewWatch { collection, path: path.into(), patterns: Default::default(), grant })
            .await
            .unwrap();
    }
    let watches = stage.store.watches().await.unwrap();
    let granted: Vec<_> = watches.iter().map(|watch| (&*watch.path, watch.grant.clone())).collect();
    assert_eq!(granted, [("/a", key("k2")), ("/b", WatchGrant::Local)]);
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
    stage.store.keep_document(large).await.unwrap();
    assert!(stage.store.size().await.unwrap() > empty + 4_000_000);
    stage.store.remove_collection(collection.key).await.unwrap();
    assert!(stage.store.size().await.unwrap() <= empty + 16 * 4096, "{empty}");
    assert!(size() <= empty + 16 * 4096, "{}", size());
    assert_eq!(stage.store.chunk_ids(collection.key).await.unwrap(), []);
    assert_eq!(stage.store.collection_keys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_collection_that_another_process_put_something_into_is_not_removed_as_unused() {
    let stage = Stage::new();
    let other = SqliteKnowledge::in_file(&stage.folder.path().join("knowledge.db"));
    let [filled, watched, unused] = [
        stage.collection("filled").await,
        stage.collection("watched").await,
        stage.collection("unused").await,
    ];
    other.keep_document(document(&filled, "alpha", "one")).await.unwrap();
    let path = "/a".to_owned();
    other
        .watch(NewWatch {
            collection: watched.key,
            path,
            patterns: Default::default(),
            grant: WatchGrant::Local,
        })
        .await
        .unwrap();
    for (collection, is_removed) in [(&filled, false), (&watched, false), (&unused, true)] {
        let removed = stage.store.remove_unused_collection(collection.key).await.unwrap();
        assert_eq!(removed, is_removed, "{}", collection.id);
    }
    assert_eq!(other.collection_keys().await.unwrap(), [filled.key, watched.key]);
    // Whoever comes too late hears that, and nothing is kept that nobody can find.
    let late = other.keep_document(document(&unused, "alpha", "one")).await;
    assert!(matches!(late, Err(StoreError::CollectionGone)), "{late:?}");
}

#[tokio::test]
async fn a_principal_sees_its_own_and_the_shared_collections() {
    let stage = Stage::new();
    let ada = PrincipalId("ada".into());
    let private = |name: &str| Ownership::Private(PrincipalId(name.into()));
    for owner in [Ownership::Shared, private("ada"), private("ben")] {
        let maker = PrincipalId("eve".into());
        stage.store.open_collection(owner, maker, "notes".into(), "Notes".into(), now()).await.unwrap();
    }
    let seen = stage.store.collections(Some(ada.clone())).await.unwrap();
    let makers: Vec<_> = seen.iter().map(|collection| &*collection.maker.0).collect();
    assert_eq!(makers, ["eve", "ada"], "the owner of a private one counts as its maker");
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
    let kept = stage.store.keep_document(document(&collection, "alpha", "one")).await.unwrap();
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
            is_asked: text == "new",
            text: text.into(),
            latency_us: 5,
            best_score,
            at: self::at(at),
        };
        stage.store.record_query(query).await.unwrap();
    }
    let figures = stage.store.query_figures(collection.key, at("2026-01-15T00:00:00Z")).await.unwrap();
    assert_eq!((figures.recent, figures.total, figures.mean_best_score), (2, 3, Some(0.625)));
    assert_eq!(figures.texts, [("new".to_owned(), 2)], "what was asked of everything is no topic");
    let used = stage.store.used_since(0).await.unwrap().unwrap();
    assert_eq!(
        (used.position, &used.collections[..], &used.askers[..]),
        (3, &[(Ownership::Shared, "letters".to_owned())][..], &[][..])
    );
    assert_eq!(stage.store.used_since(3).await.unwrap(), None);

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
    let model = &stage.store.model_figures(&ada).await.unwrap()[0];
    assert_eq!((model.conversations, model.asked, model.answered, model.tokens), (1, 2, 1, 20));
    assert_eq!(model.mean_duration_ms, Some(1000.0));
    assert_eq!(stage.store.conversation("c1", &ada).await.unwrap().unwrap().len(), 1);
    assert_eq!(stage.store.conversation("c1", &PrincipalId("ben".into())).await.unwrap(), None);
    let answers = stage.store.answer_figures(&ada, now(), now()).await.unwrap();
    assert_eq!((answers.asked, answers.answered, answers.recent_errors, answers.conversations), (2, 1, 1, 1));
    let ben = PrincipalId("ben".into());
    assert_eq!(stage.store.answer_figures(&ben, now(), now()).await.unwrap(), AnswerFigures::default());
    assert_eq!(stage.store.model_figures(&ben).await.unwrap(), []);
    assert_eq!(stage.store.used_since(3).await.unwrap().unwrap().askers, [ada]);
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
