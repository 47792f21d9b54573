//! Moving all that is kept from one store to another.

use std::path::Path;

use hindcast_core::audit::{AuditKey, SealedHead};

use super::*;
use crate::{KeyCount, MovableStore, Moved, transfer};

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

async fn moved(from: &dyn MovableStore, to: &dyn MovableStore) -> Result<Moved, StoreError> {
    transfer(from, to, &AuditKey::new(audit_key()), &mut |_, _| ()).await
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

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_something_of_its_own_and_a_row_that_was_changed_are_refused() {
    let Some(place) = Place::database() else { return };
    let Place::Database { settings, cluster } = &place else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let from = file(folder.path(), "a.db");
    fill(&from, 10).await;
    let own = PostgresStore::open(settings, audit_key(), at("2026-01-01T00:00:00Z")).await.unwrap();
    let refused = moved(&from, &own).await.unwrap_err();
    assert!(matches!(refused, StoreError::Exists(_)), "{refused}");
    assert!(refused.to_string().contains("an audit trail of its own"), "{refused}");

    let settings = PostgresSettings { url: cluster.new_database(), ..settings.clone() };
    let to = PostgresStore::open_to_fill(&settings, audit_key()).await.unwrap();
    to.put_rows(from.audit_rows(0, 5).await.unwrap()).await.unwrap();
    cluster.sql(&settings.url, "UPDATE hindcast.audit SET target = 'forged' WHERE seq = 3");
    let refused = moved(&from, &to).await.unwrap_err();
    assert!(refused.to_string().contains("row 3 did not arrive as it was"), "{refused}");
    assert!(to.sealed_head().await.unwrap().is_none());
}
