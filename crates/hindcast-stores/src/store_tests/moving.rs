//! Moving all that is kept from one store to another.

use std::path::Path;

use hindcast_core::audit::{AuditKey, SealedHead};

use super::*;
use crate::{KeyCount, MovableStore, Moved, TransferError, transfer};

async fn fill(store: &dyn MetadataStore, rows: u64) {
    for number in 0..3 {
        let id = format!("key{number}");
        store.insert_key(key(&id)).await.unwrap();
        for _ in 0..=number {
            let now = at("2026-05-05T05:05:05Z");
            store.reserve_quota(&KeyId(id.as_str().into()), LIMITS, now).await.unwrap();
        }
        let record = AuditRecord { key_id: Some(KeyId(id.as_str().into())), ..record(number) };
        store.append_audit(record).await.unwrap();
    }
    store.insert_key(key("unused")).await.unwrap();
    store.revoke_key(&KeyId("key1".into()), at("2026-06-06T00:00:00Z")).await.unwrap();
    for number in 3..rows {
        let target = Some(format!("zero \0 and sub \u{1a} {number}"));
        store.append_audit(AuditRecord { target, ..record(number) }).await.unwrap();
    }
    store.settle_audit().await.unwrap();
}

async fn moved(from: &dyn MovableStore, to: &dyn MovableStore) -> Result<Moved, TransferError> {
    transfer(from, to, &AuditKey::new(audit_key()), async { Ok(()) }, &mut |_, _| ()).await
}

async fn content(store: &dyn MovableStore) -> (String, Vec<KeyCount>, Vec<AuditRecord>, Option<SealedHead>) {
    let rows = store.audit_rows(0, 100_000).await.unwrap().into_iter().map(|row| row.record).collect();
    let keys = store.list_keys().await.unwrap();
    (format!("{keys:?}"), store.counts().await.unwrap(), rows, store.sealed_head().await.unwrap())
}

fn file(folder: &Path, name: &str) -> SqliteStore {
    SqliteStore::open(&folder.join(name), audit_key(), Timestamp::UNIX_EPOCH).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_kept_goes_to_postgresql_and_back_unchanged() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 2500).await;
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    assert_eq!(moved(&from, &to).await.unwrap(), Moved { keys: 4, rows: 2501, rows_there: 0 });
    assert_eq!(content(&to).await, content(&from).await);
    drop(to);

    // A server goes on from there.
    let server = PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap();
    server.append_audit(record(1)).await.unwrap();
    assert_eq!(verify(&server).await, Ok(2502));
    let usage = server.usage(&KeyId("key2".into()), LIMITS, at("2026-05-05T05:05:06Z")).await.unwrap();
    assert_eq!((usage.month, usage.minute), (3, 3));

    let back = SqliteStore::open_to_fill(&folder.path().join("b.db"), audit_key()).unwrap();
    assert_eq!(moved(&server, &back).await.unwrap().rows, 2502);
    assert_eq!(content(&back).await, content(&server).await);
    drop(back);
    assert_eq!(verify(&file(folder.path(), "b.db")).await, Ok(2502));
    // What was moved on can be moved again, to where it came from.
    assert_eq!(moved(&server, &from).await.unwrap(), Moved { keys: 4, rows: 2502, rows_there: 2501 });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_is_gone_on_with_and_no_server_starts_on_half_of_it() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 2500).await;
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    // As a try leaves it that ended after its first rows.
    to.put_rows(from.audit_rows(0, 1000).await.unwrap()).await.unwrap();
    let refused = PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("hindcast store migrate"), "{refused}");
    from.revoke_key(&KeyId("key2".into()), at("2026-07-07T00:00:00Z")).await.unwrap();
    assert_eq!(moved(&from, &to).await.unwrap(), Moved { keys: 4, rows: 2501, rows_there: 1000 });
    assert_eq!(content(&to).await, content(&from).await);
}

/// What a move that ends before its head leaves behind.
async fn interrupted(from: &dyn MovableStore, to: &dyn MovableStore) {
    let lost = async { Err(StoreError::Unavailable("the power went".into()).into()) };
    let key = AuditKey::new(audit_key());
    let ended = transfer(from, to, &key, lost, &mut |_, _| ()).await.unwrap_err();
    assert!(ended.to_string().contains("the power went"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_starts_on_a_target_that_has_everything_but_the_license() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 10).await;
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    interrupted(&from, &to).await;
    assert_eq!(to.list_keys().await.unwrap().len(), 4);
    assert!(PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.is_err());
    moved(&from, &to).await.unwrap();
    drop(PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap());

    // Nor on one that was whole before, and whose keys are being changed.
    from.revoke_key(&KeyId("key2".into()), at("2026-07-07T00:00:00Z")).await.unwrap();
    interrupted(&from, &to).await;
    assert!(PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.is_err());

    let back = SqliteStore::open_to_fill(&folder.path().join("b.db"), audit_key()).unwrap();
    interrupted(&from, &back).await;
    drop(back);
    assert!(SqliteStore::open(&folder.path().join("b.db"), audit_key(), Timestamp::UNIX_EPOCH).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_arrive_only_behind_all_rows() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 2500).await;
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let look = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    let key = AuditKey::new(audit_key());
    let mut tell = |_, _| {
        let keys = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(look.list_keys()).unwrap().len()
        });
        sender.send(keys).unwrap();
    };
    transfer(&from, &to, &key, async { Ok(()) }, &mut tell).await.unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(look.list_keys().await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trail_that_was_opened_and_never_used_makes_way_on_both_sides() {
    let Some(Place::Database { settings, cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 10).await;
    let to = PostgresStore::open(&settings, audit_key(), at("2026-02-02T00:00:00Z")).await.unwrap();
    assert_eq!(moved(&from, &to).await.unwrap(), Moved { keys: 4, rows: 11, rows_there: 0 });
    assert_eq!(content(&to).await, content(&from).await);

    let back =
        SqliteStore::open(&folder.path().join("b.db"), audit_key(), at("2026-02-02T00:00:00Z")).unwrap();
    assert_eq!(moved(&to, &back).await.unwrap(), Moved { keys: 4, rows: 11, rows_there: 0 });
    assert_eq!(content(&back).await, content(&from).await);

    // One that somebody else's key sealed is somebody else's.
    let settings = PostgresSettings { url: cluster.new_database(), ..settings };
    let foreign = SigningKey::from_bytes(&[4; 32]);
    drop(PostgresStore::open(&settings, foreign, at("2026-02-02T00:00:00Z")).await.unwrap());
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    assert!(matches!(moved(&from, &to).await, Err(TransferError::Occupied(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_the_journal_of_the_target_are_not_passed_over() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let folder = tempfile::tempdir().unwrap();
    let old = file(folder.path(), "a.db");
    fill(&old, 10).await;
    let server = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    moved(&old, &server).await.unwrap();
    // Both go on by themselves, and the old one is left as a server leaves it that was killed.
    server.append_audit(record(1)).await.unwrap();
    old.append_audit(record(2)).await.unwrap();
    std::mem::forget(old);
    let back = SqliteStore::open_to_fill(&folder.path().join("a.db"), audit_key()).unwrap();
    assert!(matches!(moved(&server, &back).await, Err(TransferError::Occupied(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_something_of_its_own_and_a_row_that_was_changed_are_refused() {
    let Some(place) = Place::database() else { return };
    let Place::Database { settings, cluster } = &place else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 10).await;
    let own = PostgresStore::open(settings, audit_key(), at("2026-01-01T00:00:00Z")).await.unwrap();
    own.append_audit(record(1)).await.unwrap();
    let refused = moved(&from, &own).await.unwrap_err();
    assert!(matches!(refused, TransferError::Occupied(_)), "{refused}");
    assert!(refused.to_string().contains("an audit trail of its own"), "{refused}");

    let settings = PostgresSettings { url: cluster.new_database(), ..settings.clone() };
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    to.put_rows(from.audit_rows(0, 5).await.unwrap()).await.unwrap();
    cluster.sql(&settings.url, "UPDATE hindcast.audit SET target = 'forged' WHERE seq = 3");
    let refused = moved(&from, &to).await.unwrap_err();
    assert!(refused.to_string().contains("row 3 did not arrive as it was"), "{refused}");
    assert!(to.sealed_head().await.unwrap().is_none());
}
