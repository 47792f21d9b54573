//! What every store of keys, usage and audit rows must do, tried on each of them.

mod moving;
mod moving_knowledge;
mod several_machines;
mod several_servers;

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditRecord, BadRow, ChainVerifier},
    identity::{Environment, KeyId, KeyRecord, PrincipalId, ScopeSet, SecretHash, Tier},
    quota::{FreeRate, Limits, Period, Reservation},
    store::{MetadataStore, StoreError},
};
use hindcast_fixtures::postgres::{Cluster, Pooler};

use crate::{PostgresSettings, PostgresStore, SqliteStore};

pub(crate) const LIMITS: Limits = Limits { per_month: 1000, per_minute: 1_000_000 };

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn audit_key() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

pub(crate) fn key(id: &str) -> KeyRecord {
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

pub(crate) fn record(number: u64) -> AuditRecord {
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

pub(crate) async fn verify(store: &dyn MetadataStore) -> Result<u64, BadRow> {
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

pub(crate) type Store = Arc<dyn MetadataStore>;

/// Where a store is kept. Each that is opened there is what another process would have.
pub(crate) enum Place {
    File(tempfile::TempDir),
    Database { settings: PostgresSettings, cluster: Cluster },
}

impl Place {
    pub(crate) fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    /// None where the tests are skipped.
    pub(crate) fn database() -> Option<Self> {
        let cluster = Cluster::start()?;
        let settings =
            PostgresSettings { url: cluster.new_database(), connections: 8, ..PostgresSettings::default() };
        Some(Self::Database { settings, cluster })
    }

    pub(crate) async fn open(&self) -> Store {
        self.open_with(audit_key()).await.unwrap()
    }

    pub(crate) async fn open_with(&self, key: SigningKey) -> Result<Store, StoreError> {
        let now = Timestamp::UNIX_EPOCH;
        Ok(match self {
            Self::File(folder) => Arc::new(SqliteStore::open(&folder.path().join("a.db"), key, now)?),
            Self::Database { settings, .. } => Arc::new(PostgresStore::open(settings, key, now).await?),
        })
    }
}

/// Makes a test of each store from each function.
macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Place::file()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(place) = super::Place::database() {
                    super::$name(place).await;
                }
            })*
        }
    };
}

// After the macro, which it uses.
pub(crate) mod knowledge;

on_each_store!(
    a_key_comes_back_as_it_was_kept,
    keys_are_listed_oldest_first,
    concurrent_reservations_stop_exactly_at_the_limit_and_survive_a_reopening,
    windows_begin_anew_and_a_clock_that_is_turned_back_refills_nothing,
    free_requests_come_at_once_and_then_one_by_one,
    two_processes_append_to_one_chain,
    a_trail_signed_with_another_key_is_refused,
    a_key_that_another_process_revoked_is_seen_as_revoked_at_once,
    a_search_pages_backwards_without_gaps,
    what_was_read_is_what_was_appended,
    any_text_of_a_caller_can_stand_in_the_chain,
);

async fn a_key_comes_back_as_it_was_kept(place: Place) {
    let store = place.open().await;
    let kept = key("abcd");
    store.insert_key(kept.clone()).await.unwrap();
    let found = store.find_key(&kept.id).await.unwrap().unwrap();
    assert_eq!(format!("{found:?}"), format!("{kept:?}"));
    assert_eq!(found.secret, kept.secret);
    assert!(matches!(store.insert_key(kept).await, Err(StoreError::Exists(_))));
    let none = KeyId("none".into());
    assert!(store.find_key(&none).await.unwrap().is_none());
    assert!(matches!(store.revoke_key(&none, Timestamp::UNIX_EPOCH).await, Err(StoreError::Missing(_))));

    store.replace_secret(&found.id, SecretHash([7; 32]), at("2026-03-03T00:00:00Z")).await.unwrap();
    store.revoke_key(&found.id, at("2026-04-04T00:00:00Z")).await.unwrap();
    store.revoke_key(&found.id, at("2026-05-05T00:00:00Z")).await.unwrap();
    let changed = store.find_key(&found.id).await.unwrap().unwrap();
    assert_eq!(changed.secret, SecretHash([7; 32]));
    assert_eq!(changed.rotated_at, Some(at("2026-03-03T00:00:00Z")));
    assert_eq!(changed.revoked_at, Some(at("2026-04-04T00:00:00Z")), "the first time is kept");
}

async fn keys_are_listed_oldest_first(place: Place) {
    let store = place.open().await;
    for (id, created_at) in
        [("b", "2026-01-02T00:00:00Z"), ("c", "2026-01-01T00:00:00Z"), ("a", "2026-01-02T00:00:00Z")]
    {
        store.insert_key(KeyRecord { created_at: at(created_at), ..key(id) }).await.unwrap();
    }
    let now = at("2026-05-05T05:05:05Z");
    store.reserve_quota(&KeyId("a".into()), LIMITS, now).await.unwrap();
    store.append_audit(AuditRecord { key_id: Some(KeyId("a".into())), ..record(1) }).await.unwrap();
    store.settle_audit().await.unwrap();
    let listed = store.list_keys().await.unwrap();
    let ids: Vec<_> = listed.iter().map(|key| &*key.id.0).collect();
    assert_eq!(ids, ["c", "a", "b"]);
    assert_eq!(listed[1].last_used_at, Some(now));
    assert_eq!(listed[2].last_used_at, None);
}

async fn concurrent_reservations_stop_exactly_at_the_limit_and_survive_a_reopening(place: Place) {
    let now = at("2026-05-05T05:05:05Z");
    let store = place.open().await;
    store.insert_key(key("abcd")).await.unwrap();
    let id = KeyId("abcd".into());
    assert_eq!(granted(std::slice::from_ref(&store), &id, now).await, 1000);
    drop(store);

    let store = place.open().await;
    let usage = store.usage(&id, LIMITS, now).await.unwrap();
    assert_eq!((usage.month, usage.nearer().remaining()), (1000, 0));
    let next_month = store.usage(&id, LIMITS, at("2026-06-01T00:00:00Z")).await.unwrap();
    assert_eq!(next_month.month, 0);
}

/// How many of 2000 requests of 200 clients on these servers are let through.
async fn granted(servers: &[Store], id: &KeyId, now: Timestamp) -> u64 {
    let client = |number: usize| {
        let (store, id) = (servers[number % servers.len()].clone(), id.clone());
        tokio::spawn(async move {
            let mut granted = 0;
            for _ in 0..10 {
                match store.reserve_quota(&id, LIMITS, now).await.unwrap() {
                    Reservation::Granted(_) => granted += 1,
                    Reservation::Refused(usage, period) => {
                        assert_eq!((usage.month, period), (LIMITS.per_month, Period::Month));
                    }
                }
            }
            granted
        })
    };
    let clients: Vec<_> = (0..200).map(client).collect();
    let mut granted = 0;
    for client in clients {
        granted += client.await.unwrap();
    }
    granted
}

async fn windows_begin_anew_and_a_clock_that_is_turned_back_refills_nothing(place: Place) {
    let store = place.open().await;
    store.insert_key(key("abcd")).await.unwrap();
    let id = KeyId("abcd".into());
    let limits = Limits { per_month: 4, per_minute: 2 };
    let tries = [
        ("2026-05-31T23:58:10Z", Ok((1, 1))),
        ("2026-05-31T23:58:20Z", Ok((2, 2))),
        ("2026-05-31T23:58:30Z", Err(Period::Minute)),
        ("2026-05-31T23:59:00Z", Ok((3, 1))),
        ("2026-06-01T00:00:00Z", Ok((1, 1))),
        ("2026-06-01T00:01:00Z", Ok((2, 1))),
        ("2026-06-01T00:02:00Z", Ok((3, 1))),
        ("2026-06-01T00:03:00Z", Ok((4, 1))),
        ("2026-06-01T00:04:00Z", Err(Period::Month)),
        ("2026-05-01T00:00:00Z", Err(Period::Month)),
        ("2026-07-01T00:00:00Z", Ok((1, 1))),
    ];
    for (now, expected) in tries {
        let counted = match store.reserve_quota(&id, limits, at(now)).await.unwrap() {
            Reservation::Granted(usage) => Ok((usage.month, usage.minute)),
            Reservation::Refused(_, period) => Err(period),
        };
        assert_eq!(counted, expected, "{now}");
    }
}

async fn free_requests_come_at_once_and_then_one_by_one(place: Place) {
    let store = place.open().await;
    let rate = FreeRate { at_once: 3, period: 1_000_000_000 };
    let mut admitted = Vec::new();
    for second in [10, 10, 10, 10, 11, 11, 12, 30, 30, 30, 30] {
        let now = Timestamp::from_second(second).unwrap();
        admitted.push(store.admit_free(&KeyId("abcd".into()), rate, now).await.unwrap());
    }
    let expected = [true, true, true, false, true, false, true, true, true, true, false];
    assert_eq!(admitted, expected);
    let now = Timestamp::from_second(30).unwrap();
    assert!(store.admit_free(&KeyId("other".into()), rate, now).await.unwrap());
}

async fn two_processes_append_to_one_chain(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let store = if number % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move { store.append_audit(record(number)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(verify(&*one).await, Ok(101));
}

async fn a_trail_signed_with_another_key_is_refused(place: Place) {
    drop(place.open().await);
    let refused = place.open_with(SigningKey::from_bytes(&[4; 32])).await.err().unwrap();
    assert!(refused.to_string().contains("audit.key"), "{refused}");
}

async fn a_key_that_another_process_revoked_is_seen_as_revoked_at_once(place: Place) {
    let (server, operator) = (place.open().await, place.open().await);
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

async fn a_search_pages_backwards_without_gaps(place: Place) {
    let store = place.open().await;
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

async fn what_was_read_is_what_was_appended(place: Place) {
    let store = place.open().await;
    let full = AuditRecord {
        key_id: Some(KeyId("abcd".into())),
        ip: Some("::1".into()),
        target: Some("ünï \"quoted\" \\ {1,2} NULL".into()),
        session_id: Some(String::new()),
        outcome: "not_attached".into(),
        duration_us: u64::from(u32::MAX) + 7,
        ..record(1)
    };
    store.append_audit(full.clone()).await.unwrap();
    store.append_audit(AuditRecord { principal: None, tool: None, ..record(2) }).await.unwrap();
    store.settle_audit().await.unwrap();
    let rows = store.audit_rows(1, 10).await.unwrap();
    assert_eq!(rows[0].record, full);
    assert_eq!((rows[1].record.principal.clone(), rows[1].record.tool.clone()), (None, None));
    let filter = AuditFilter { session_id: Some(String::new()), limit: 5, ..AuditFilter::default() };
    assert_eq!(store.search_audit(filter).await.unwrap().rows, rows[..1]);
}

async fn any_text_of_a_caller_can_stand_in_the_chain(place: Place) {
    let store = place.open().await;
    let texts = ["a\0b", "\0", "\u{1a}", "\u{1a}0", "\u{1a}1", "\u{1a}\0\u{1a}10", "\u{fffd}\u{10ffff}", ""];
    for text in texts {
        let record = AuditRecord { target: Some(text.into()), tool: Some(text.into()), ..record(1) };
        store.append_audit(record).await.unwrap();
    }
    assert_eq!(verify(&*store).await, Ok(1 + texts.len() as u64));
    let rows = store.audit_rows(1, 100).await.unwrap();
    let read: Vec<_> = rows.iter().map(|row| row.record.target.as_deref().unwrap()).collect();
    assert_eq!(read, texts);
}
