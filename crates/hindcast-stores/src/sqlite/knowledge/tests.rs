use hindcast_core::knowledge::{Catalogue, ChunkId, ChunkSource, Collection, DocumentKey, WatchGrant};

use super::*;
use crate::store_tests::knowledge::{document, now};

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
async fn who_only_looks_leaves_no_file() {
    let stage = Stage::new();
    assert_eq!(stage.store.generation().await.unwrap(), Generation(0));
    assert!(stage.store.collections(None).await.unwrap().is_empty());
    assert!(!stage.folder.path().join("knowledge.db").exists());
    stage.collection("first").await;
    assert_eq!(stage.store.collections(None).await.unwrap().len(), 1);
}
