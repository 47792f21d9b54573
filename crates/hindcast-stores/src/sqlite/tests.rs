use std::sync::Arc;

use hindcast_core::{
    audit::ChainVerifier,
    identity::{Environment, PrincipalId, ScopeSet, Tier},
};

use super::*;

const LIMITS: Limits = Limits { per_month: 1000, per_minute: 1_000_000 };

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn audit_key() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

fn key(id: &str) -> KeyRecord {
    KeyRecord {
        id: KeyId(id.into()),
        name: "laptop".into(),
        owner: PrincipalId("ada".into()),
        environment: Environment::Live,
        tier: Tier::Team,
        own_limits: Some(LIMITS),
        scopes: ScopeSet::standard(),
        secret: SecretHash([9; 32]),
        created_at: at("2026-01-01T00:00:00Z"),
        expires_at: Some(at("2027-01-01T00:00:00Z")),
        revoked_at: None,
        rotated_at: None,
        allowed_ips: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        last_used_at: None,
    }
}

fn record(number: u64) -> AuditRecord {
    AuditRecord {
        time: at("2026-01-01T00:00:00.123456789Z"),
        principal: Some(PrincipalId("ada".into())),
        key_id: None,
        ip: None,
        method: "tools/call".into(),
        tool: Some(format!("tool-{number}")),
        target: None,
        session_id: None,
        outcome: "ok".into(),
        duration_us: number,
    }
}

async fn verify(store: &SqliteStore) -> Result<u64, hindcast_core::audit::BadRow> {
    // What cannot be settled is found below.
    let _ = store.settle_audit().await;
    let mut verifier = ChainVerifier::default();
    loop {
        let rows = store.audit_rows(verifier.rows(), 100).await.unwrap();
        if rows.is_empty() {
            break;
        }
        for row in rows {
            verifier.feed(&row)?;
        }
    }
    verifier.finish(store.audit_head().await.unwrap().as_ref(), &audit_key().verifying_key())
}

#[tokio::test]
async fn a_key_comes_back_as_it_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("a.db"), audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    let kept = key("abcd");
    store.insert_key(kept.clone()).await.unwrap();
    let found = store.find_key(&kept.id).await.unwrap().unwrap();
    assert_eq!(format!("{found:?}"), format!("{kept:?}"));
    assert_eq!(found.secret, kept.secret);
    assert!(matches!(store.insert_key(kept).await, Err(StoreError::Exists(_))));
    assert!(matches!(
        store.revoke_key(&KeyId("none".into()), Timestamp::UNIX_EPOCH).await,
        Err(StoreError::Missing(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reservations_stop_exactly_at_the_limit_and_survive_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let now = at("2026-05-05T05:05:05Z");
    let store = Arc::new(SqliteStore::open(&path, audit_key(), now).unwrap());
    store.insert_key(key("abcd")).await.unwrap();
    let id = KeyId("abcd".into());
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move {
                let mut granted = 0;
                for _ in 0..10 {
                    if let Reservation::Granted(_) = store.reserve_quota(&id, LIMITS, now).await.unwrap() {
                        granted += 1;
                    }
                }
                granted
            })
        })
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += task.await.unwrap();
    }
    assert_eq!(granted, 1000);
    drop(store);

    let store = SqliteStore::open(&path, audit_key(), now).unwrap();
    let usage = store.usage(&id, LIMITS, now).await.unwrap();
    assert_eq!((usage.month, usage.nearer().remaining()), (1000, 0));
    let next_month = store.usage(&id, LIMITS, at("2026-06-01T00:00:00Z")).await.unwrap();
    assert_eq!(next_month.month, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_append_to_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let one = Arc::new(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    let two = Arc::new(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let store = if number % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move { store.append_audit(record(number)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(verify(&one).await, Ok(101));
}

#[tokio::test]
async fn a_trail_signed_with_another_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap());
    let other = SigningKey::from_bytes(&[4; 32]);
    let refused = SqliteStore::open(&path, other, Timestamp::UNIX_EPOCH).err().unwrap();
    assert!(refused.to_string().contains("audit.key"), "{refused}");
}

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

#[tokio::test]
async fn a_key_that_another_process_revoked_is_seen_as_revoked_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let server = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    let operator = SqliteStore::open(&path, audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    for number in 0..50 {
        let id = format!("key{number}");
        server.insert_key(key(&id)).await.unwrap();
        let id = KeyId(id.as_str().into());
        server.append_audit(record(number)).await.unwrap();
        assert_eq!(server.find_key(&id).await.unwrap().unwrap().revoked_at, None);
        operator.revoke_key(&id, at("2026-02-02T00:00:00Z")).await.unwrap();
        assert!(server.find_key(&id).await.unwrap().unwrap().revoked_at.is_some());
    }
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
    assert_eq!(verify(&stores[0]).await, Ok(601));
}

#[tokio::test]
async fn a_search_pages_backwards_without_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("a.db"), audit_key(), Timestamp::UNIX_EPOCH).unwrap();
    for number in 0..25 {
        store.append_audit(record(number)).await.unwrap();
    }
    store.settle_audit().await.unwrap();
    let ada = Some(PrincipalId("ada".into()));
    let mut before = None;
    let mut seen = Vec::new();
    loop {
        let filter = AuditFilter { principal: ada.clone(), before, limit: 10, ..AuditFilter::default() };
        let page = store.search_audit(filter).await.unwrap();
        before = page.rows.last().map(|row| row.seq);
        seen.extend(page.rows.into_iter().map(|row| row.record.duration_us));
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, (0..25).rev().collect::<Vec<_>>());
}
