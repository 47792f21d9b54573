use std::sync::Arc;

use super::*;
use crate::store_tests::{LIMITS, at, audit_key, key, record, verify};

#[tokio::test]
async fn a_trail_that_version_1_signed_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    let file = Connection::open(&path).unwrap();
    let head = audit::head(&file).unwrap().unwrap();
    let signed = SignedHead::sign(head.seq, head.hash, &audit_key());
    file.execute("UPDATE audit_head SET signature = ?1", [signed.signature]).unwrap();
    file.pragma_update(None, "user_version", 1).unwrap();
    drop(file);

    assert_eq!(verify(&SqliteStore::inspect(&path, audit_key()).unwrap()).await, Ok(1));
    let other = SigningKey::from_bytes(&[4; 32]);
    assert!(SqliteStore::open(&path, other, Timestamp::UNIX_EPOCH).is_err());
    let store = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    store.append_audit(record(1)).await.unwrap();
    assert_eq!(verify(&store).await, Ok(2));
}

#[tokio::test]
async fn an_end_that_was_moved_without_the_key_is_not_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    for number in 0..5 {
        store.append_audit(record(number)).await.unwrap();
    }
    store.settle_audit().await.unwrap();
    store.append_audit(record(5)).await.unwrap();
    let file = Connection::open(&path).unwrap();
    file.execute("DELETE FROM audit WHERE seq > 3", []).unwrap();
    file.execute("UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 3)", [])
        .unwrap();
    // The journal goes on from its own end; that of the tables is looked at when they take it over.
    store.append_audit(record(6)).await.unwrap();
    assert!(matches!(store.settle_audit().await, Err(StoreError::Corrupt(_))));
    assert!(matches!(store.append_audit(record(7)).await, Err(StoreError::Corrupt(_))));
    assert_eq!(verify(&store).await.unwrap_err().row, 3);
}

/// A store as `kill -9` leaves it, with `rows` rows in its journal.
async fn killed(path: &std::path::Path, rows: u64) {
    let store = SqliteStore::open(path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    store.insert_key(key("abcd")).await.unwrap();
    for number in 0..rows {
        store.reserve_quota(&KeyId("abcd".into()), LIMITS, at("2026-05-05T05:05:05Z")).await.unwrap();
        let record = AuditRecord { key_id: Some(KeyId("abcd".into())), ..record(number) };
        store.append_audit(record).await.unwrap();
    }
    std::mem::forget(store);
}

#[tokio::test]
async fn what_was_appended_and_counted_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    killed(&path, 5).await;
    let journal = path.with_extension("journal");
    let mut begun = std::fs::read(&journal).unwrap();
    begun.extend_from_within(..100);
    std::fs::write(&journal, begun).unwrap();

    let looked_at = SqliteStore::inspect(&path, audit_key()).unwrap();
    assert_eq!(verify(&looked_at).await, Ok(6), "what was begun and not finished is not there");
    assert!(!journal.exists());
    let store = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    let usage = store.usage(&KeyId("abcd".into()), LIMITS, at("2026-05-05T05:05:05Z")).await.unwrap();
    assert_eq!((usage.month, usage.minute), (5, 5));
}

#[tokio::test]
async fn a_journal_that_was_tampered_with_is_not_gone_on_from() {
    type Tampering = fn(&mut Vec<Vec<u8>>);
    let tamperings: [(u64, Tampering); 5] = [
        (3, |lines| lines[3][80] ^= 1),
        (3, |lines| lines[3][5] ^= 1),
        (2, |lines| lines.swap(2, 3)),
        (1, |lines| drop(lines.remove(1))),
        (0, |lines| lines.insert(0, b"\n".to_vec())),
    ];
    for (good, tamper) in tamperings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        killed(&path, 5).await;
        let journal = path.with_extension("journal");
        let text = std::fs::read(&journal).unwrap();
        let mut lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        tamper(&mut lines);
        std::fs::write(&journal, lines.concat()).unwrap();

        let refused = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).err().unwrap();
        assert!(
            refused.to_string().contains("journal") && refused.to_string().contains("hint: "),
            "{refused}"
        );
        let store = SqliteStore::inspect(&path, audit_key()).unwrap();
        assert!(matches!(store.settle_audit().await, Err(StoreError::Corrupt(_))));
        assert_eq!(verify(&store).await, Ok(1 + good), "those before are good");
        assert!(store.append_audit(record(9)).await.is_err());
        drop(store);
        std::fs::remove_file(&journal).unwrap();
        drop(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    }
}

#[tokio::test]
async fn lines_that_vanish_under_a_running_server_are_missed() {
    type Tampering = fn(&std::path::Path);
    let tamperings: [Tampering; 3] = [
        |journal| std::fs::remove_file(journal).unwrap(),
        |journal| std::fs::write(journal, "").unwrap(),
        |journal| {
            let text = std::fs::read_to_string(journal).unwrap();
            let end = text.trim_end().rfind('\n').unwrap();
            std::fs::write(journal, &text[..=end]).unwrap();
        },
    ];
    for tamper in tamperings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
        for number in 0..5 {
            store.append_audit(record(number)).await.unwrap();
        }
        tamper(&path.with_extension("journal"));
        let refused = store.append_audit(record(5)).await.unwrap_err().to_string();
        assert!(refused.contains("row 6 was written"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_keep_their_order_while_several_processes_append_and_take_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let open = || Arc::new(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    let stores = [open(), open(), open()];
    let tasks: Vec<_> = (0..600)
        .map(|number| {
            let store = stores[number as usize % 3].clone();
            tokio::spawn(async move {
                store.append_audit(record(number)).await.unwrap();
                if number % 20 == 0 {
                    store.settle_audit().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(verify(&*stores[0]).await, Ok(601));
}
