//! What connections are set to, and what failures of the database are called.

use super::*;
use crate::store_tests::{Place, audit_key};

fn database(settings: &PostgresSettings, thread: &ConnectionThread) -> Database {
    Database::new(settings, CONNECTIONS, thread.handle().unwrap()).unwrap()
}

#[tokio::test]
async fn what_a_role_or_the_address_prefers_does_not_weaken_commits_and_transactions() {
    let Some(Place::Database { settings, cluster }) = Place::database() else { return };
    cluster.sql(
        &settings.url,
        "ALTER ROLE postgres SET synchronous_commit = off;
         ALTER ROLE postgres SET default_transaction_isolation = 'serializable';
         ALTER ROLE postgres SET idle_in_transaction_session_timeout = 0",
    );
    let url = format!("{}&options=-c%20synchronous_commit%3Doff%20-c%20statement_timeout%3D0", settings.url);
    let settings = PostgresSettings { url, ..settings };
    let thread = ConnectionThread::start().unwrap();
    let database = database(&settings, &thread);
    let asked = "
        SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation'),
               current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout')";
    for (lease, commits, longest) in [
        (database.work().await.unwrap(), "on", "20s"),
        (database.writer().await.unwrap(), "on", "20s"),
        (database.lookup().await.unwrap(), "off", "5s"),
    ] {
        let row = lease.row(asked, &[]).await.unwrap().unwrap();
        let found: Vec<String> = (0..4).map(|place| row.get(place)).collect();
        assert_eq!(found, [commits, "read committed", "10s", longest]);
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_slow_and_not_a_database_that_is_down() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let thread = ConnectionThread::start().unwrap();
    let database = database(&settings, &thread);
    let lease = database.lookup().await.unwrap();
    let slow = lease.row("SELECT pg_sleep(60)", &[]).await.unwrap_err();
    assert!(matches!(slow, StoreError::TooSlow { .. }) && slow.to_string().contains("57014"), "{slow}");
}

#[tokio::test]
async fn a_database_that_refuses_is_not_one_that_is_down() {
    let Some(Place::Database { settings, cluster: _cluster }) = Place::database() else { return };
    let url = settings.url.replace("user=postgres", "user=nobody");
    let refused = PostgresStore::look(&PostgresSettings { url, ..settings }).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("\"nobody\" does not exist"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_is_noticed_by_everything_that_asks_it_and_then_goes_on() {
    let Some(Place::Database { settings, cluster }) = Place::database() else { return };
    let settings = PostgresSettings { connections: 2, ..settings };
    let store = PostgresStore::open(&settings, audit_key(), Timestamp::UNIX_EPOCH).await.unwrap();
    store.probe().await.unwrap();
    cluster.freeze();
    let (probed, id) = (store.probe().await.unwrap_err(), KeyId("abcd".into()));
    assert!(matches!(probed, StoreError::TooSlow { .. }), "{probed}");
    // More than there are connections: some wait for an answer, some for a connection.
    let asked = futures::future::join_all((0..6).map(|_| store.find_key(&id))).await;
    for failed in asked.into_iter().map(Result::unwrap_err) {
        let is_away = matches!(failed, StoreError::TooSlow { .. } | StoreError::Unreachable { .. });
        assert!(is_away, "{failed}");
    }
    cluster.thaw();
    store.probe().await.unwrap();
    assert!(store.find_key(&id).await.unwrap().is_none());
}
