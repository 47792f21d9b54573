//! A knowledge base that servers on several machines share: whose files are whose, and how changes are heard of.

use std::time::{Duration, Instant};

use hindcast_core::knowledge::{
    Catalogue as _, ChunkSource as _, Collection, Generation, NewDocument, NewWatch, QueryRecord, SourceFile,
    UsageLog as _, WatchGrant,
};

use super::{
    knowledge::{collection, document, now},
    *,
};
use crate::PostgresKnowledge;

fn file(collection: &Collection, path: &str) -> NewDocument {
    let source = SourceFile { path: path.into(), modified: 1, size: 3, is_elsewhere: false };
    NewDocument { source: Some(source), ..document(collection, "file", "one") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_belongs_to_the_machine_that_it_is_on_and_a_page_to_all() {
    let Some(place) = Place::database() else { return };
    let (one, two) = (place.postgres_knowledge("one").await, place.postgres_knowledge("two").await);
    let letters = collection(&one, "letters").await;
    let ours = one.keep_document(file(&letters, "/a/x")).await.unwrap();
    let page = one.keep_document(file(&letters, "https://example.org/")).await.unwrap();
    // The other machine has no such file, whatever is at that path there.
    assert_eq!(two.document_at(letters.key, "/a/x").await.unwrap(), None);
    assert_eq!(two.documents_below(letters.key, "/a").await.unwrap(), []);
    let same = two.documents_of_content(letters.key, ours.hash).await.unwrap();
    assert_eq!(same, std::slice::from_ref(&page));
    assert_eq!(two.document_at(letters.key, "https://example.org/").await.unwrap(), Some(page));
    let theirs = two.keep_document(file(&letters, "/a/x")).await.unwrap();
    assert_ne!(ours.key, theirs.key);
    let seen = one.documents(letters.key).await.unwrap();
    let elsewhere: Vec<_> =
        seen.iter().map(|document| document.source.as_ref().unwrap().is_elsewhere).collect();
    assert_eq!(elsewhere, [false, false, true]);
    assert_eq!(one.document_at(letters.key, "/a/x").await.unwrap(), Some(ours));

    for store in [&one, &two] {
        let grant = WatchGrant::Local;
        let watch =
            NewWatch { collection: letters.key, path: "/a".into(), patterns: Default::default(), grant };
        store.watch(watch).await.unwrap();
    }
    let watches = one.watches().await.unwrap();
    let elsewhere: Vec<_> = watches.iter().map(|watch| watch.elsewhere.as_deref()).collect();
    assert_eq!(elsewhere, [None, Some("two")]);
    assert_eq!(one.unwatch(letters.key, Some("/a".into())).await.unwrap(), ["/a", "/a"]);
    assert_eq!(two.watches().await.unwrap(), []);
}

/// How long it takes until the generation is another one.
async fn heard(store: &PostgresKnowledge, seen: Generation) -> Duration {
    let started = Instant::now();
    while store.generation().await.unwrap() == seen {
        assert!(started.elapsed() < Duration::from_secs(10), "nothing was heard");
        store.await_news().await;
    }
    started.elapsed()
}

fn listeners(place: &Place) -> String {
    let Place::Database { settings, cluster } = place else { panic!("it is no database") };
    cluster.sql(&settings.url, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_heard_at_once_and_also_when_the_connection_that_listens_is_lost() {
    let Some(place) = Place::database() else { return };
    let (one, two) = (place.postgres_knowledge("one").await, place.postgres_knowledge("two").await);
    let letters = collection(&one, "letters").await;
    while listeners(&place) != "1" {
        two.await_news().await;
    }
    let (mut took, mut number) = (Vec::new(), 0);
    let mut change = async || {
        let seen = two.generation().await.unwrap();
        number += 1;
        let new = document(&letters, &format!("document-{number}"), "one two");
        let (heard, kept) = tokio::join!(heard(&two, seen), one.keep_document(new));
        kept.unwrap();
        heard
    };
    for _ in 0..5 {
        took.push(change().await);
    }
    // Looking alone would take a second. The best counts: the machine may be busy with other tests.
    assert!(took.iter().min().unwrap() < &Duration::from_millis(500), "{took:?}");
    let Place::Database { settings, cluster } = &place else { return };
    for _ in 0..3 {
        cluster.sql(
            &settings.url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'",
        );
        change().await;
        let started = Instant::now();
        while listeners(&place) != "1" {
            assert!(started.elapsed() < Duration::from_secs(20), "it does not listen again");
            two.await_news().await;
        }
        change().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_too_far_behind_is_told_so() {
    let Some(place) = Place::database() else { return };
    let store = place.postgres_knowledge("one").await;
    let letters = collection(&store, "letters").await;
    let seen = store.generation().await.unwrap();
    let kept = store.keep_document(document(&letters, "alpha", "one two")).await.unwrap();
    store.remove_document(kept.key, now()).await.unwrap();
    assert_eq!(store.chunk_changes(seen).await.unwrap().unwrap().removed.len(), 2);
    let Place::Database { settings, cluster } = &place else { return };
    cluster.sql(&settings.url, "UPDATE hindcast.generation SET value = value + 9999");
    assert_eq!(store.chunk_changes(seen).await.unwrap(), None);
    assert_eq!(store.vector_changes("a-model", seen).await.unwrap(), None);
    for number in 0..100 {
        store.keep_document(document(&letters, &format!("{number}"), "one")).await.unwrap();
    }
    let left = "SELECT (SELECT count(*) FROM hindcast.removed_chunks), (SELECT count(*) FROM hindcast.changes) <= 102";
    assert_eq!(cluster.sql(&settings.url, left), "0|t", "what nobody can ask for is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_noted_while_a_document_is_taken_in() {
    let Some(place) = Place::database() else { return };
    let store = place.postgres_knowledge("one").await;
    let letters = collection(&store, "letters").await;
    let Place::Database { settings, cluster } = &place else { return };
    // A writer that does not come to its commit.
    let (writer, connection) = tokio_postgres::connect(&settings.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    writer.batch_execute("BEGIN; SELECT FROM hindcast.collections FOR NO KEY UPDATE").await.unwrap();
    writer.batch_execute("UPDATE hindcast.generation SET value = value + 1").await.unwrap();
    let query = QueryRecord {
        collections: vec![letters.key],
        is_asked: true,
        text: "one".into(),
        latency_us: 1,
        best_score: None,
        at: now(),
    };
    store.record_query(query).await.unwrap();
    assert_eq!(cluster.sql(&settings.url, "SELECT count(*) FROM hindcast.queries"), "1");
}
