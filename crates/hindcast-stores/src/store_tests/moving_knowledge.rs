//! Moving the knowledge base from one store to another.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use hindcast_core::knowledge::{
    AnswerRecord, Catalogue as _, KnowledgeStore, NewDocument, NewWatch, QueryRecord, SourceFile, Tags,
    WatchGrant,
};

use super::{
    knowledge::{collection, document, now},
    *,
};
use crate::{
    Cells, Counters, KnowledgeFile, MovableKnowledge, MovedKnowledge, PostgresKnowledge, SqliteKnowledge,
    Standing, Table, TransferError, transfer_knowledge,
};

/// Something in every table.
async fn fill(store: &dyn KnowledgeStore) {
    let letters = collection(store, "letters").await;
    let gone = collection(store, "gone").await;
    for number in 0..40 {
        let mut new = document(&letters, &format!("document-{number}"), "one two three");
        new.text = (number % 2 == 0).then(|| format!("zero \0 and sub \u{1a} {number}"));
        new.tags = Tags { own: vec!["own".into()], given: vec!["given \0".into()] };
        store.keep_document(new).await.unwrap();
    }
    for path in ["/a/x", "https://example.org/x"] {
        let source = SourceFile { path: path.into(), modified: 7, size: 3, is_elsewhere: false };
        let new = NewDocument { source: Some(source), ..document(&letters, "file", "four") };
        store.keep_document(new).await.unwrap();
    }
    let last = store.find_document(letters.key, "document-39").await.unwrap().unwrap();
    store.remove_document(last.key, now()).await.unwrap();
    store.remove_collection(gone.key).await.unwrap();
    let patterns = Default::default();
    let watch = NewWatch { collection: letters.key, path: "/a".into(), patterns, grant: WatchGrant::Local };
    store.watch(watch).await.unwrap();
    use_it(store).await;
}

async fn use_it(store: &dyn KnowledgeStore) {
    let collections = vec![store.collections(None).await.unwrap()[0].key];
    let (text, best_score) = ("one \0".to_owned(), Some(0.1));
    let query = QueryRecord { collections, is_asked: true, text, latency_us: 3, best_score, at: now() };
    store.record_query(query).await.unwrap();
    let answer = AnswerRecord {
        conversation: "c1".into(),
        owner: PrincipalId("ada".into()),
        model: "gemma".into(),
        question: "really?".into(),
        answer: Some("yes".into()),
        duration_ms: 5,
        tokens: 10,
        at: now(),
    };
    store.record_answer(answer).await.unwrap();
}

fn file(folder: &Path, name: &str) -> (SqliteKnowledge, KnowledgeFile) {
    let path = folder.join(name);
    (SqliteKnowledge::in_file(&path), KnowledgeFile::at(&path))
}

async fn to_move(place: &Place, machine: &str) -> PostgresKnowledge {
    let Place::Database { settings, .. } = place else { panic!("it is no database") };
    PostgresKnowledge::open_to_move(settings, machine.into()).await.unwrap()
}

/// What users see of it.
async fn content(store: &dyn KnowledgeStore) -> String {
    let mut seen = String::new();
    for collection in store.collections(None).await.unwrap() {
        seen += &format!("{collection:?}\n");
        for document in store.documents(collection.key).await.unwrap() {
            seen += &format!("{document:?} {}\n", store.document_text(document.key).await.unwrap());
        }
        let ids = store.chunk_ids(collection.key).await.unwrap();
        seen += &format!("{:?}\n", store.found_chunks(&ids).await.unwrap());
        seen += &format!("{:?}\n", store.vectors("a-model", &ids).await.unwrap());
        seen += &format!("{:?}\n", store.query_figures(collection.key, now()).await.unwrap());
    }
    let ada = PrincipalId("ada".into());
    seen += &format!("{:?}\n", store.conversation("c1", &ada).await.unwrap());
    seen += &format!("{:?} {:?}\n", store.watches().await.unwrap(), store.generation().await.unwrap());
    let seen_before = hindcast_core::knowledge::Generation(3);
    let changes = store.chunk_changes(seen_before).await.unwrap().unwrap();
    let sorted = |mut chunks: Vec<_>| {
        chunks.sort_unstable();
        chunks
    };
    seen + &format!("{:?} {:?}", sorted(changes.added), sorted(changes.removed))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knowledge_base_goes_to_postgresql_and_back_unchanged() {
    let Some(place) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (store, from) = file(folder.path(), "a.db");
    fill(&store).await;
    let before = content(&store).await;
    let to = to_move(&place, "here").await;
    let moved = transfer_knowledge(&from, &to).await.unwrap();
    assert_eq!((moved.collections, moved.documents, moved.chunks), (1, 41, 119));
    assert_eq!(content(&to).await, before);
    let again = transfer_knowledge(&from, &to).await.unwrap();
    assert_eq!(again, MovedKnowledge { rows_moved: 0, ..moved }, "all is there");

    // A server goes on from there, and numbers are not given again.
    let server = place.postgres_knowledge("here").await;
    let letters = collection(&server, "letters").await;
    let gone = server.find_document(letters.key, "document-38").await.unwrap().unwrap();
    server.remove_document(gone.key, now()).await.unwrap();
    let new = server.keep_document(document(&letters, "new", "five six")).await.unwrap();
    let files = server.documents(letters.key).await.unwrap();
    assert!(files.iter().all(|document| document.key <= new.key), "{files:?}");
    assert!(collection(&server, "other").await.key.0 > 2);
    use_it(&server).await;

    // To a file of its own, and to the one that it came from, which nobody has used since.
    for name in ["b.db", "a.db"] {
        let (store, to) = file(folder.path(), name);
        let moved = transfer_knowledge(&server, &to).await.unwrap();
        assert_eq!((moved.collections, moved.documents), (2, 41));
        assert_eq!(content(&store).await, content(&server).await);
        let letters = collection(&store, "letters").await;
        let next = store.keep_document(document(&letters, "next", "seven")).await.unwrap();
        assert!(next.key > new.key);
    }
    // From there on both have a life of their own.
    let (_, file) = file(folder.path(), "a.db");
    for refused in [transfer_knowledge(&server, &file).await, transfer_knowledge(&file, &server).await] {
        assert!(matches!(refused, Err(TransferError::Occupied(_))), "{refused:?}");
    }
}

/// A store whose machine goes down after some rows were put.
struct Failing<'a> {
    store: &'a dyn MovableKnowledge,
    puts: AtomicUsize,
}

#[async_trait]
impl MovableKnowledge for Failing<'_> {
    async fn standing(&self) -> Result<Standing, StoreError> {
        self.store.standing().await
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        self.store.counters().await
    }

    async fn until(&self, table: &Table, after: i64) -> Result<Option<i64>, StoreError> {
        self.store.until(table, after).await
    }

    async fn rows(&self, table: &Table, after: i64, until: i64) -> Result<Vec<Cells>, StoreError> {
        self.store.rows(table, after, until).await
    }

    async fn begin(&self, print: &str) -> Result<(), StoreError> {
        self.store.begin(print).await
    }

    async fn go_on(&self) -> Result<Vec<i64>, StoreError> {
        self.store.go_on().await
    }

    async fn put(&self, table: &Table, rows: Vec<Cells>) -> Result<(), StoreError> {
        match self.puts.fetch_sub(1, Ordering::Relaxed) {
            1.. => self.store.put(table, rows).await,
            0 => Err(StoreError::Unavailable("the power went".into())),
        }
    }

    async fn finish(&self, counters: Counters, print: &str) -> Result<(), StoreError> {
        self.store.finish(counters, print).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_was_interrupted_goes_on_and_nobody_uses_half_of_it() {
    let Some(place) = Place::database() else { return };
    let Place::Database { settings, .. } = &place else { return };
    let folder = tempfile::tempdir().unwrap();
    let (store, from) = file(folder.path(), "a.db");
    fill(&store).await;
    let database = to_move(&place, "here").await;
    let whole = transfer_knowledge(&from, &KnowledgeFile::at(&folder.path().join("c.db"))).await.unwrap();
    for puts in [0, 1, 4, 9] {
        let failing = Failing { store: &database, puts: AtomicUsize::new(puts) };
        let ended = transfer_knowledge(&from, &failing).await.unwrap_err();
        assert!(ended.to_string().contains("the power went"), "{ended}");
        let refused = PostgresKnowledge::open(settings, "here".into()).await.err().unwrap();
        assert!(refused.to_string().contains("hindcast store migrate"), "{refused}");
        let half = transfer_knowledge(&database, &KnowledgeFile::at(&folder.path().join("d.db"))).await;
        assert!(matches!(half, Err(TransferError::HalfMoved)), "{half:?}");
    }
    let rest = transfer_knowledge(&from, &database).await.unwrap();
    assert!(rest.rows_moved > 0 && rest.rows_moved < whole.rows_moved, "{rest:?} of {whole:?}");
    assert_eq!(content(&place.postgres_knowledge("here").await).await, content(&store).await);

    // The way back; the source changes between two tries.
    let server = place.postgres_knowledge("here").await;
    let (back, to) = file(folder.path(), "b.db");
    let failing = Failing { store: &to, puts: AtomicUsize::new(5) };
    transfer_knowledge(&server, &failing).await.unwrap_err();
    assert!(!folder.path().join("b.db").exists(), "what is there in part is not used");
    let letters = collection(&server, "letters").await;
    let changed = server.find_document(letters.key, "document-0").await.unwrap().unwrap();
    let next = NewDocument { replaces: Some(changed.version()), ..document(&letters, "document-0", "other") };
    server.keep_document(next).await.unwrap();
    transfer_knowledge(&server, &to).await.unwrap();
    assert_eq!(content(&back).await, content(&server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_machines_come_without_their_paths() {
    let Some(place) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = place.postgres_knowledge("elsewhere").await;
    fill(&server).await;
    let (store, to) = file(folder.path(), "a.db");
    transfer_knowledge(&to_move(&place, "here").await, &to).await.unwrap();
    let letters = collection(&store, "letters").await;
    let documents = store.documents(letters.key).await.unwrap();
    let paths: Vec<_> = documents.into_iter().filter_map(|document| Some(document.source?.path)).collect();
    assert_eq!(paths, ["https://example.org/x"]);
    assert_eq!(store.watches().await.unwrap(), []);
}
