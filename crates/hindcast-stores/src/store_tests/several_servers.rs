//! What only a database server is asked for.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_together_let_exactly_as_many_through_as_the_limit_allows() {
    let Some(place) = Place::database() else { return };
    let servers = [place.open().await, place.open().await, place.open().await];
    servers[0].insert_key(key("abcd")).await.unwrap();
    let now = at("2026-05-05T05:05:05Z");
    assert_eq!(granted(&servers, &KeyId("abcd".into()), now).await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn free_requests_of_a_key_are_counted_on_all_servers_together() {
    let Some(place) = Place::database() else { return };
    let servers = [place.open().await, place.open().await];
    let rate = FreeRate { at_once: 30, period: 1_000_000_000 };
    let asking: Vec<_> = (0..100)
        .map(|number| {
            let store = servers[number % 2].clone();
            let now = at("2026-05-05T05:05:05Z");
            tokio::spawn(async move { store.admit_free(&KeyId("abcd".into()), rate, now).await.unwrap() })
        })
        .collect();
    let mut admitted = 0;
    for asked in asking {
        admitted += u32::from(asked.await.unwrap());
    }
    assert_eq!(admitted, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_whose_clocks_differ_do_not_take_the_count_from_each_other() {
    let Some(place) = Place::database() else { return };
    let store = place.open().await;
    store.insert_key(key("abcd")).await.unwrap();
    let id = KeyId("abcd".into());
    let limits = Limits { per_month: 100, per_minute: 5 };
    let (ahead, behind) = (at("2026-06-01T00:00:01Z"), at("2026-05-31T23:59:59Z"));
    let mut granted = 0;
    for _ in 0..10 {
        for now in [ahead, behind] {
            let reservation = store.reserve_quota(&id, limits, now).await.unwrap();
            granted += u64::from(matches!(reservation, Reservation::Granted(_)));
        }
    }
    assert_eq!(granted, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_the_same_time_make_one_set_of_tables_and_one_trail() {
    let Some(place) = Place::database() else { return };
    let place = Arc::new(place);
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let place = place.clone();
            tokio::spawn(async move { place.open().await })
        })
        .collect();
    let mut stores = Vec::new();
    for started in starting {
        stores.push(started.await.unwrap());
    }
    assert_eq!(verify(&*stores[0]).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_crash_and_the_store_recovers_by_itself() {
    let Some(mut place) = Place::database() else { return };
    let store = place.open().await;
    store.insert_key(key("abcd")).await.unwrap();
    let id = KeyId("abcd".into());
    let now = at("2026-05-05T05:05:05Z");
    for number in 0..20 {
        store.reserve_quota(&id, LIMITS, now).await.unwrap();
        let record = AuditRecord { key_id: Some(id.clone()), ..record(number) };
        store.append_audit(record).await.unwrap();
    }
    let Place::Database { cluster, .. } = &mut place else { unreachable!() };
    cluster.crash();
    for refused in [
        store.find_key(&id).await.err().unwrap(),
        store.reserve_quota(&id, LIMITS, now).await.err().unwrap(),
        store.append_audit(record(99)).await.err().unwrap(),
        store.probe().await.err().unwrap(),
    ] {
        assert!(matches!(refused, StoreError::Unreachable { server: "PostgreSQL", .. }), "{refused}");
    }
    cluster.go_on();
    assert_eq!(store.usage(&id, LIMITS, now).await.unwrap().month, 20);
    store.append_audit(record(20)).await.unwrap();
    assert_eq!(verify(&*store).await, Ok(22));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_moved_without_the_key_is_not_gone_on_from() {
    let Some(place) = Place::database() else { return };
    let store = place.open().await;
    for number in 0..5 {
        store.append_audit(record(number)).await.unwrap();
    }
    let Place::Database { cluster, settings } = &place else { unreachable!() };
    cluster.sql(
        &settings.url,
        "DELETE FROM hindcast.audit WHERE seq > 3;
         UPDATE hindcast.audit_head SET (seq, hash) = (SELECT seq, hash FROM hindcast.audit WHERE seq = 3)",
    );
    assert!(matches!(store.append_audit(record(7)).await, Err(StoreError::Corrupt(_))));
    assert_eq!(verify(&*store).await.unwrap_err().row, 3);
    assert!(place.open_with(audit_key()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_vanish_with_their_sealed_head_are_missed() {
    let Some(place) = Place::database() else { return };
    let store = place.open().await;
    store.append_audit(record(1)).await.unwrap();
    let Place::Database { cluster, settings } = &place else { unreachable!() };
    cluster.sql(&settings.url, "CREATE TABLE earlier AS SELECT * FROM hindcast.audit_head");
    store.append_audit(record(2)).await.unwrap();
    cluster.sql(
        &settings.url,
        "DELETE FROM hindcast.audit WHERE seq = 3;
         UPDATE hindcast.audit_head SET (seq, hash, signature) = (SELECT seq, hash, signature FROM earlier)",
    );
    let refused = store.append_audit(record(3)).await.unwrap_err().to_string();
    assert!(refused.contains("row 3 was written"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_refused() {
    let Some(place) = Place::database() else { return };
    drop(place.open().await);
    let Place::Database { cluster, settings } = &place else { unreachable!() };
    cluster.sql(&settings.url, "UPDATE hindcast.version SET version = 99");
    let refused = place.open_with(audit_key()).await.err().unwrap().to_string();
    assert!(refused.contains("version 99") && refused.contains("hint: "), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_make_tables_serves_from_those_that_are_there() {
    let Some(place) = Place::database() else { return };
    drop(place.open().await);
    let Place::Database { cluster, settings } = &place else { unreachable!() };
    cluster.sql(
        &settings.url,
        "CREATE ROLE server LOGIN; GRANT USAGE ON SCHEMA hindcast TO server;
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA hindcast TO server",
    );
    let url = settings.url.replace("user=postgres", "user=server");
    let settings = PostgresSettings { url, ..settings.clone() };
    let store = PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap();
    store.insert_key(key("abcd")).await.unwrap();
    store.reserve_quota(&KeyId("abcd".into()), LIMITS, at("2026-05-05T05:05:05Z")).await.unwrap();
    store.append_audit(record(1)).await.unwrap();
    assert_eq!(verify(&store).await, Ok(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_may_stand_before_the_database_if_clients_keep_their_connections() {
    let Some(place) = Place::database() else { return };
    let Place::Database { cluster, settings } = &place else { unreachable!() };
    let Some(pooler) = Pooler::start(cluster) else { return };
    let name = cluster.sql(&settings.url, "SELECT current_database()");
    let settings = PostgresSettings { url: pooler.address(&name), ..settings.clone() };
    let servers = [
        PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap(),
        PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap(),
    ];
    servers[0].insert_key(key("abcd")).await.unwrap();
    for number in 0..20 {
        let server = &servers[number % 2];
        server.reserve_quota(&KeyId("abcd".into()), LIMITS, at("2026-05-05T05:05:05Z")).await.unwrap();
        server.append_audit(record(1)).await.unwrap();
    }
    assert_eq!(verify(&servers[0]).await, Ok(21));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_only_to_a_server_that_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, made.cert.pem()).unwrap();
    // An address of this process's own, so that no port needs to be free by luck.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let (address, port) = (format!("127.{high}.{middle}.{low}"), 5432);
    let settings = [&*format!("listen_addresses={address}"), &format!("port={port}"), "ssl=on"];
    let cluster = Cluster::start_with(&settings, |data| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(data.join("server.crt"), made.cert.pem()).unwrap();
        std::fs::write(data.join("server.key"), made.signing_key.serialize_pem()).unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(data.join("server.key"), private).unwrap();
    });
    let Some(_cluster) = cluster else { return };
    let with = |host: &str, tls_ca| PostgresSettings {
        url: format!("postgres://postgres@{host}:{port}/postgres?hostaddr={address}&sslmode=require"),
        tls_ca,
        connections: 1,
        ..PostgresSettings::default()
    };
    let open = async |settings: PostgresSettings| {
        PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await
    };
    let trusted = with("localhost", Some(authority.clone()));
    assert_eq!(PostgresStore::look(&trusted).await.unwrap().tables, 0);
    drop(open(trusted.clone()).await.unwrap());
    let found = PostgresStore::look(&trusted).await.unwrap();
    assert!(found.is_encrypted && found.tables == 4, "{found:?}");
    for untrusted in [with("localhost", None), with("127.0.0.1", Some(authority))] {
        let refused = open(untrusted).await.err().unwrap().to_string();
        assert!(refused.contains("certificate"), "{refused}");
    }
}
