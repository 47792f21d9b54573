use std::net::IpAddr;

use ed25519_dalek::SigningKey;
use hindcast_core::{identity::ScopeSet, progress::Unwatched, time::ManualClock};
use hindcast_fixtures::postgres::Cluster;
use hindcast_stores::{PostgresSettings, PostgresStore, SqliteStore};

use super::*;
use crate::FailureKind;

struct Stage {
    gateway: Gateway,
    clock: Arc<ManualClock>,
    _kept_in: (tempfile::TempDir, Option<Cluster>),
}

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A gateway over a store in a file, or in the database that is given.
async fn stage(cluster: Option<Cluster>) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at("2026-11-30T23:58:30Z".parse().unwrap()));
    let audit_key = SigningKey::from_bytes(&[5; 32]);
    let public = audit_key.verifying_key();
    let store: Arc<dyn MetadataStore> = match &cluster {
        None => Arc::new(SqliteStore::open(&folder.path().join("a.db"), audit_key, clock.now()).unwrap()),
        Some(cluster) => {
            let settings = PostgresSettings {
                url: cluster.new_database(),
                connections: 2,
                ..PostgresSettings::default()
            };
            Arc::new(PostgresStore::open(&settings, audit_key, clock.now()).await.unwrap())
        }
    };
    let events = Events::default();
    let limits = |per_month, per_minute| Limits { per_month, per_minute };
    let policy = GatewayPolicy {
        environment: Environment::Live,
        tiers: TierLimits {
            free: limits(100, 10),
            developer: limits(10_000, 60),
            team: limits(100_000, 300),
            enterprise: limits(1_000_000, 1_000_000),
        },
        license: License::Community,
    };
    let audit = AuditTrail::new(store.clone(), public, events.clone());
    let gateway = Gateway::new(store, clock.clone(), policy, audit, events);
    Stage { gateway, clock, _kept_in: (folder, cluster) }
}

fn request() -> KeyRequest {
    KeyRequest {
        name: "laptop".into(),
        owner: None,
        environment: Environment::Live,
        tier: Tier::Free,
        own_limits: None,
        scopes: ScopeSet::standard(),
        expires_at: None,
        allowed_ips: Vec::new(),
    }
}

impl Stage {
    async fn try_key(&self, text: &str, from: IpAddr) -> Result<(), String> {
        match self.gateway.authenticate(Some(&format!("Bearer {text}")), from).await {
            Ok(_) => Ok(()),
            Err(refusal) => {
                assert_eq!(refusal.failure.kind, FailureKind::AuthenticationFailed);
                assert!(!refusal.failure.to_string().contains(text), "the key leaks into the error");
                Err(refusal.failure.details)
            }
        }
    }
}

/// Makes a test over each store from each function.
macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::stage(None).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(cluster) = super::Cluster::start() {
                    super::$name(super::stage(Some(cluster)).await).await;
                }
            })*
        }
    };
}

on_each_store!(
    a_key_opens_until_it_is_rotated_revoked_or_expired,
    a_key_of_another_environment_or_address_does_not_open,
    whatever_is_not_a_bearer_key_is_refused_alike,
    the_minute_and_the_month_each_refuse_and_start_again,
    an_export_verifies_and_a_broken_trail_is_told,
);

async fn a_key_opens_until_it_is_rotated_revoked_or_expired(stage: Stage) {
    let first = stage.gateway.create_key(request()).await.unwrap();
    assert!(first.text.starts_with("kdb_live_"));
    assert_eq!(stage.try_key(&first.text, HOME).await, Ok(()));

    let second = stage.gateway.rotate_key(&first.record.id).await.unwrap();
    assert_eq!(stage.try_key(&first.text, HOME).await, Err("the API key is not known here".into()));
    assert_eq!(stage.try_key(&second.text, HOME).await, Ok(()));

    stage.gateway.revoke_key(&first.record.id).await.unwrap();
    assert_eq!(stage.try_key(&second.text, HOME).await, Err("the API key was revoked".into()));

    let soon = Some("2026-11-30T23:59:00Z".parse().unwrap());
    let brief = stage.gateway.create_key(KeyRequest { expires_at: soon, ..request() }).await.unwrap();
    assert_eq!(stage.try_key(&brief.text, HOME).await, Ok(()));
    stage.clock.advance(std::time::Duration::from_secs(30));
    assert_eq!(stage.try_key(&brief.text, HOME).await, Err("the API key has expired".into()));
}

async fn a_key_of_another_environment_or_address_does_not_open(stage: Stage) {
    let test =
        stage.gateway.create_key(KeyRequest { environment: Environment::Test, ..request() }).await.unwrap();
    assert!(test.text.starts_with("kdb_test_"));
    assert!(stage.try_key(&test.text, HOME).await.unwrap_err().contains("test environment"));
    // A test key that calls itself a live one is a stranger.
    let disguised = test.text.replace("kdb_test_", "kdb_live_");
    assert!(stage.try_key(&disguised, HOME).await.unwrap_err().contains("not known"));

    let ranges = vec!["10.1.0.0/16".parse().unwrap()];
    let bound = stage.gateway.create_key(KeyRequest { allowed_ips: ranges, ..request() }).await.unwrap();
    assert_eq!(stage.try_key(&bound.text, "10.1.2.3".parse().unwrap()).await, Ok(()));
    assert_eq!(stage.try_key(&bound.text, "::ffff:10.1.2.3".parse().unwrap()).await, Ok(()));
    assert!(stage.try_key(&bound.text, HOME).await.unwrap_err().contains("127.0.0.1"));
}

async fn whatever_is_not_a_bearer_key_is_refused_alike(stage: Stage) {
    let key = stage.gateway.create_key(request()).await.unwrap().text;
    for header in [
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        &key,
        &format!("Bearer {key}x"),
        "Bearer kdb_live_",
        "Bearer kdb_live_äöü",
    ] {
        let refusal = stage.gateway.authenticate(Some(header), HOME).await.unwrap_err();
        assert_eq!(refusal.failure.kind, FailureKind::AuthenticationFailed, "{header}");
        assert!(!refusal.failure.remedies.is_empty(), "{header}");
    }
    assert!(stage.gateway.authenticate(Some(&format!("bearer  {key} ")), HOME).await.is_ok());
}

async fn the_minute_and_the_month_each_refuse_and_start_again(stage: Stage) {
    let key = stage.gateway.create_key(request()).await.unwrap().record;
    for used in 1..=10 {
        assert_eq!(stage.gateway.reserve(&key).await.unwrap().month, used);
    }
    let refusal = stage.gateway.reserve(&key).await.unwrap_err();
    assert_eq!(refusal.failure.kind, FailureKind::QuotaExceeded);
    assert_eq!(refusal.failure.facts["limit"], 10);
    assert_eq!(refusal.failure.facts["used"], 10);
    assert_eq!(refusal.failure.facts["reset_at"], "2026-11-30T23:59:00Z");
    assert_eq!(refusal.retry_after, Some(31));

    stage.clock.advance(std::time::Duration::from_secs(30));
    assert_eq!(stage.gateway.reserve(&key).await.unwrap().month, 11);
    stage.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(stage.gateway.reserve(&key).await.unwrap().month, 1, "December has begun");
}

async fn an_export_verifies_and_a_broken_trail_is_told(stage: Stage) {
    let audit = stage.gateway.audit();
    assert_eq!(audit.verify(&Unwatched).await.unwrap(), ChainVerdict::Verified { rows: 1 });
    let mut export = Vec::new();
    assert_eq!(audit.export(&mut export, &Unwatched).await.unwrap(), 1);
    let text = String::from_utf8(export).unwrap();
    let mut lines = text.lines();
    let mut file = hindcast_core::audit::FileVerifier::start(lines.next().unwrap(), None).unwrap();
    lines.try_for_each(|line| file.feed(line)).unwrap();
    assert_eq!(file.finish(), Ok(1));
}
