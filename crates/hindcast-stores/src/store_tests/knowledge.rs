//! What every store of the knowledge base must do, tried on each of them.
//!
//! Long because it is one list, by which both stores are tried.

use std::collections::HashSet;

use hindcast_core::knowledge::{
    AnswerFigures, AnswerRecord, ChunkId, Collection, DocumentFilter, DocumentKey, DocumentVersion,
    Generation, KnowledgeStore, NewChunk, NewDocument, NewVector, NewWatch, Ownership, Place as Range,
    QueryRecord, SourceFile, Tags, WatchGrant,
};

use super::*;
use crate::{PostgresKnowledge, SqliteKnowledge};

const MODEL: &str = "a-model";

pub(crate) fn now() -> Timestamp {
    at("2026-02-05T10:30:05Z")
}

type Knowledge = Arc<dyn KnowledgeStore>;

impl Place {
    /// The knowledge base that is kept here. Each that is opened is what another process on the same machine would have.
    pub(crate) async fn knowledge(&self) -> Knowledge {
        match self {
            Self::File(folder) => Arc::new(SqliteKnowledge::in_file(&folder.path().join("knowledge.db"))),
            Self::Database { .. } => Arc::new(self.postgres_knowledge("here").await),
        }
    }

    pub(crate) async fn postgres_knowledge(&self, machine: &str) -> PostgresKnowledge {
        let Self::Database { settings, .. } = self else { panic!("it is no database") };
        PostgresKnowledge::open(settings, machine.into()).await.unwrap()
    }
}

struct Stage {
    store: Knowledge,
    place: Place,
}

impl Stage {
    async fn on(place: Place) -> Self {
        Self { store: place.knowledge().await, place }
    }

    async fn collection(&self, id: &str) -> Collection {
        collection(&*self.store, id).await
    }
}

pub(crate) async fn collection(store: &dyn KnowledgeStore, id: &str) -> Collection {
    let (id, name) = (id.to_owned(), id.to_owned());
    store.open_collection(Ownership::Shared, PrincipalId::local(), id, name, now()).await.unwrap()
}

/// One chunk a word; its hash is made of its text.
fn chunk(text: &str) -> NewChunk {
    let mut hash = [0; 32];
    hash[..text.len()].copy_from_slice(text.as_bytes());
    NewChunk {
        text: text.into(),
        hash,
        headings: String::new(),
        place: Range { bytes: (0, 1), lines: (1, 1), page: None },
        is_code: false,
        vector: Some(NewVector { model: MODEL.into(), numbers: vec![0.25, -1.5] }),
    }
}

pub(crate) fn document(collection: &Collection, id: &str, words: &str) -> NewDocument {
    NewDocument {
        collection: collection.key,
        replaces: None,
        ids: vec![id.into()],
        name: id.into(),
        description: String::new(),
        mime_type: "text/plain".into(),
        source_type: "text/plain".into(),
        reader: 1,
        dated: None,
        language: None,
        tags: Tags::default(),
        original: words.as_bytes().to_vec(),
        text: None,
        hash: [7; 32],
        source: None,
        chunks: words.split(' ').map(chunk).collect(),
        now: now(),
    }
}

on_each_store!(
    some_documents_are_given_by_where_they_stand,
    a_document_comes_out_as_it_went_in,
    chunks_that_stay_keep_their_ids_and_the_others_are_told_as_gone,
    a_writer_that_expects_something_else_is_refused_and_changes_nothing,
    a_file_is_one_document_and_keeps_its_id_when_it_moves,
    who_gave_a_folder_to_be_watched_is_kept_and_the_local_user_goes_first,
    a_collection_that_another_process_put_something_into_is_not_removed_as_unused,
    a_principal_sees_its_own_and_the_shared_collections,
    every_process_hears_what_changed_and_whose_it_was,
    use_is_counted_by_collection_and_by_model,
    generations_rise_one_by_one_and_in_the_order_in_which_they_are_seen,
    a_file_that_many_take_in_at_once_is_one_document,
    any_text_can_be_kept_and_found,
    documents_are_as_old_as_they_say_else_as_their_files_else_as_here,
    a_document_that_changes_its_language_is_indexed_again,
    vectors_that_come_later_are_kept_for_chunks_that_are_there,
    a_collection_that_changes_its_name_keeps_what_is_in_it,
);

async fn a_document_comes_out_as_it_went_in(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let kept = stage.store.keep_document(document(&collection, "alpha", "one two")).await.unwrap();
    assert_eq!((kept.chunks, kept.size), (2, 7));
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "one two");
    let ids = stage.store.chunk_ids(collection.key).await.unwrap();
    let vectors = stage.store.vectors(MODEL, &ids).await.unwrap();
    assert_eq!(vectors[0], (collection.key, ids[0], vec![0.25, -1.5]));
    let found = stage.store.found_chunks(&ids).await.unwrap();
    assert_eq!((&*found[1].text, &*found[1].collection, &found[1].document), ("two", "letters", &kept));
    let counted = &stage.store.collections(None).await.unwrap()[0];
    assert_eq!((counted.documents, counted.chunks), (1, 2));
}

async fn chunks_that_stay_keep_their_ids_and_the_others_are_told_as_gone(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let first = stage.store.keep_document(document(&collection, "alpha", "one two three")).await.unwrap();
    let before = stage.store.chunk_ids(collection.key).await.unwrap();
    let seen = stage.store.generation().await.unwrap();

    let mut next = document(&collection, "alpha", "three one four");
    next.replaces = Some(first.version());
    for chunk in &mut next.chunks {
        if chunk.text != "four" {
            chunk.vector = None;
        }
    }
    stage.store.keep_document(next).await.unwrap();
    let after = stage.store.chunk_ids(collection.key).await.unwrap();
    let new = ChunkId(before[2].0 + 1);
    assert_eq!(after, [before[0], before[2], new]);
    let changes = stage.store.chunk_changes(seen).await.unwrap().unwrap();
    assert_eq!(changes.added, [(collection.key, new)]);
    assert_eq!(changes.removed, [(collection.key, before[1])]);
    assert_eq!(stage.store.vector_ids(collection.key, MODEL).await.unwrap(), after, "vectors stay, too");
    assert_eq!(stage.store.embedded_hashes(first.key, MODEL).await.unwrap().len(), 3);
}

/// A document of the file at this path.
fn file(collection: &Collection, path: &str, words: &str) -> NewDocument {
    let source = SourceFile { path: path.into(), modified: 1, size: words.len() as u64, is_elsewhere: false };
    NewDocument { source: Some(source), ..document(collection, "file", words) }
}

async fn a_writer_that_expects_something_else_is_refused_and_changes_nothing(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let kept = stage.store.keep_document(document(&collection, "alpha", "one")).await.unwrap();
    let at = stage.store.keep_document(file(&collection, "/a", "one")).await.unwrap();
    let generation = stage.store.generation().await.unwrap();
    let gone = DocumentVersion { key: DocumentKey(99), ..kept.version() };
    let other = DocumentVersion { hash: [8; 32], ..at.version() };
    for refused in [
        document(&collection, "alpha", "two"),
        NewDocument { replaces: Some(gone), ..document(&collection, "b", "c") },
        file(&collection, "/a", "two"),
        NewDocument { replaces: Some(other), ..file(&collection, "/a", "two") },
        NewDocument { replaces: Some(kept.version()), ..file(&collection, "/a", "two") },
    ] {
        let refused = stage.store.keep_document(refused).await;
        assert!(matches!(refused, Err(StoreError::Changed(_))), "{refused:?}");
    }
    assert_eq!(stage.store.remove_unchanged(vec![other, gone], now()).await.unwrap(), []);
    stage.store.refresh_source(other, 7).await.unwrap();
    assert_eq!(stage.store.generation().await.unwrap(), generation);
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), "one");
    assert_eq!(stage.store.document_at(collection.key, "/a").await.unwrap(), Some(at.clone()));
    assert_eq!(stage.store.remove_unchanged(vec![at.version()], now()).await.unwrap(), [at.key]);
}

async fn a_file_is_one_document_and_keeps_its_id_when_it_moves(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let first = stage.store.keep_document(file(&collection, "/a/x", "one")).await.unwrap();
    let second = stage.store.keep_document(file(&collection, "/b/x", "two")).await.unwrap();
    assert_eq!((&*first.id, &*second.id), ("file", "file-2"));
    let moved = NewDocument { replaces: Some(first.version()), ..file(&collection, "/c/x", "one") };
    let moved = stage.store.keep_document(moved).await.unwrap();
    assert_eq!((moved.key, &*moved.id), (first.key, "file"));
    let below = |path: &'static str| {
        let (store, key) = (stage.store.clone(), collection.key);
        async move { store.documents_below(key, path).await.unwrap().len() }
    };
    assert_eq!([below("/").await, below("/c").await, below("/c/x").await, below("/a").await], [2, 1, 1, 0]);
    assert_eq!(stage.store.documents_of_content(collection.key, [7; 32]).await.unwrap().len(), 2);
    stage.store.keep_document(file(&collection, "/c-d", "three")).await.unwrap();
    stage.store.keep_document(file(&collection, "/c/a/z", "four")).await.unwrap();
    let some = |path: &'static str, after: &'static str, limit: usize| {
        let (store, key) = (stage.store.clone(), collection.key);
        async move {
            let found = store.some_documents_below(key, path, after, limit).await.unwrap();
            found.into_iter().filter_map(|document| Some(document.source?.path)).collect::<Vec<_>>()
        }
    };
    assert_eq!(some("/", "", 9).await, ["/b/x", "/c-d", "/c/a/z", "/c/x"]);
    assert_eq!(some("/", "/b/x", 2).await, ["/c-d", "/c/a/z"]);
    assert_eq!(
        (some("/c", "", 9).await, some("/c", "/c/x", 9).await),
        (vec!["/c/a/z".into(), "/c/x".into()], Vec::<String>::new())
    );
    assert_eq!(some("/c/x", "", 1).await, ["/c/x"]);
}

async fn who_gave_a_folder_to_be_watched_is_kept_and_the_local_user_goes_first(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await.key;
    let key = |id: &str| WatchGrant::Key(KeyId(id.into()));
    for (path, grant) in [("/a", key("k1")), ("/a", key("k2")), ("/b", WatchGrant::Local), ("/b", key("k1"))]
    {
        stage
            .store
            .watch(NewWatch { collection, path: path.into(), patterns: Default::default(), grant })
            .await
            .unwrap();
    }
    let watches = stage.store.watches().await.unwrap();
    let granted: Vec<_> = watches.iter().map(|watch| (&*watch.path, watch.grant.clone())).collect();
    assert_eq!(granted, [("/a", key("k2")), ("/b", WatchGrant::Local)]);
}

async fn a_collection_that_another_process_put_something_into_is_not_removed_as_unused(place: Place) {
    let stage = Stage::on(place).await;
    let other = stage.place.knowledge().await;
    let [filled, watched, unused] = [
        stage.collection("filled").await,
        stage.collection("watched").await,
        stage.collection("unused").await,
    ];
    other.keep_document(document(&filled, "alpha", "one")).await.unwrap();
    let path = "/a".to_owned();
    other
        .watch(NewWatch {
            collection: watched.key,
            path,
            patterns: Default::default(),
            grant: WatchGrant::Local,
        })
        .await
        .unwrap();
    for (collection, is_removed) in [(&filled, false), (&watched, false), (&unused, true)] {
        let removed = stage.store.remove_unused_collection(collection.key).await.unwrap();
        assert_eq!(removed, is_removed, "{}", collection.id);
    }
    assert_eq!(other.collection_keys().await.unwrap(), [filled.key, watched.key]);
    // Whoever comes too late hears that, and nothing is kept that nobody can find.
    let late = other.keep_document(document(&unused, "alpha", "one")).await;
    assert!(matches!(late, Err(StoreError::CollectionGone)), "{late:?}");
}

async fn a_principal_sees_its_own_and_the_shared_collections(place: Place) {
    let stage = Stage::on(place).await;
    let ada = PrincipalId("ada".into());
    let private = |name: &str| Ownership::Private(PrincipalId(name.into()));
    for owner in [Ownership::Shared, private("ada"), private("ben")] {
        let maker = PrincipalId("eve".into());
        stage.store.open_collection(owner, maker, "notes".into(), "Notes".into(), now()).await.unwrap();
    }
    let seen = stage.store.collections(Some(ada.clone())).await.unwrap();
    let makers: Vec<_> = seen.iter().map(|collection| &*collection.maker.0).collect();
    assert_eq!(makers, ["eve", "ada"], "the owner of a private one counts as its maker");
    let owners: Vec<_> = seen.into_iter().map(|collection| collection.ownership).collect();
    assert_eq!(owners, [Ownership::Shared, Ownership::Private(ada)]);
    assert_eq!(stage.store.collections(None).await.unwrap().len(), 3);
}

async fn every_process_hears_what_changed_and_whose_it_was(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let other = stage.place.knowledge().await;
    let seen = other.generation().await.unwrap();
    let kept = stage.store.keep_document(document(&collection, "alpha", "one")).await.unwrap();
    stage.store.rename_collection(collection.key, "words".into(), "Words".into(), now()).await.unwrap();
    stage.store.remove_document(kept.key, now()).await.unwrap();
    let heard = other.changes(seen).await.unwrap();
    let heard: Vec<_> = heard
        .iter()
        .map(|change| (&*change.collection, change.document.as_deref(), change.is_membership))
        .collect();
    let expected = [
        ("letters", Some("alpha"), true),
        ("letters", None, true),
        ("words", None, true),
        ("words", Some("alpha"), true),
    ];
    assert_eq!(heard, expected);
}

async fn use_is_counted_by_collection_and_by_model(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    for (at, text, best_score) in [
        ("2026-01-01T00:00:00Z", "old", Some(0.5)),
        ("2026-02-01T00:00:00Z", "new", Some(0.75)),
        ("2026-02-02T00:00:00Z", "new", None),
    ] {
        let query = QueryRecord {
            collections: vec![collection.key],
            is_asked: text == "new",
            text: text.into(),
            latency_us: 5,
            best_score,
            at: self::at(at),
        };
        stage.store.record_query(query).await.unwrap();
    }
    let figures = stage.store.query_figures(collection.key, at("2026-01-15T00:00:00Z")).await.unwrap();
    assert_eq!((figures.recent, figures.total, figures.mean_best_score), (2, 3, Some(0.625)));
    assert_eq!(figures.texts, [("new".to_owned(), 2)], "what was asked of everything is no topic");
    let used = stage.store.used_since(0).await.unwrap().unwrap();
    assert_eq!(
        (used.position, &used.collections[..], &used.askers[..]),
        (3, &[(Ownership::Shared, "letters".to_owned())][..], &[][..])
    );
    assert_eq!(stage.store.used_since(3).await.unwrap(), None);

    let ada = PrincipalId("ada".into());
    for (answer, duration_ms) in [(Some("yes"), 1000), (None, 9000)] {
        let answer = AnswerRecord {
            conversation: "c1".into(),
            owner: ada.clone(),
            model: "gemma".into(),
            question: "really?".into(),
            answer: answer.map(Into::into),
            duration_ms,
            tokens: 10,
            at: now(),
        };
        stage.store.record_answer(answer).await.unwrap();
    }
    let model = &stage.store.model_figures(&ada).await.unwrap()[0];
    assert_eq!((model.conversations, model.asked, model.answered, model.tokens), (1, 2, 1, 20));
    assert_eq!(model.mean_duration_ms, Some(1000.0));
    assert_eq!(stage.store.conversation("c1", &ada).await.unwrap().unwrap().len(), 1);
    assert_eq!(stage.store.conversation("c1", &PrincipalId("ben".into())).await.unwrap(), None);
    let answers = stage.store.answer_figures(&ada, now(), now()).await.unwrap();
    assert_eq!((answers.asked, answers.answered, answers.recent_errors, answers.conversations), (2, 1, 1, 1));
    let ben = PrincipalId("ben".into());
    assert_eq!(stage.store.answer_figures(&ben, now(), now()).await.unwrap(), AnswerFigures::default());
    assert_eq!(stage.store.model_figures(&ben).await.unwrap(), []);
    assert_eq!(stage.store.used_since(3).await.unwrap().unwrap().askers, [ada]);
}

async fn generations_rise_one_by_one_and_in_the_order_in_which_they_are_seen(place: Place) {
    const WRITERS: usize = 4;
    const WRITES: usize = 15;
    let stage = Stage::on(place).await;
    // Two processes, two collections: writers of both meet only at the generation.
    let others = [stage.place.knowledge().await, stage.place.knowledge().await];
    let collections = [stage.collection("one").await, stage.collection("two").await];
    let begin = stage.store.generation().await.unwrap();
    let writer = |number: usize| {
        let (store, collection) = (others[number % 2].clone(), collections[number / 2].clone());
        tokio::spawn(async move {
            for write in 0..WRITES {
                let id = format!("document-{number}-{write}");
                let kept = store.keep_document(document(&collection, &id, "one two")).await.unwrap();
                if write % 3 == 0 {
                    store.remove_document(kept.key, now()).await.unwrap();
                }
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let last = begin.0 + (WRITERS * (WRITES + WRITES / 3)) as u64;
    let mut seen = begin;
    let mut heard = 0;
    while seen.0 < last {
        let is_over = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let now = stage.store.generation().await.unwrap();
        assert!(now >= seen, "it went back from {seen:?} to {now:?}");
        assert!(now.0 == last || !is_over, "all is written, and the generation is {now:?}");
        let changes = stage.store.changes(seen).await.unwrap();
        let until = changes.iter().filter(|change| change.generation <= now).count() as u64;
        assert_eq!(until, now.0 - seen.0, "each generation that is seen says what it changed");
        heard += until;
        seen = now;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((seen.0, heard), (last, last - begin.0));
    for collection in stage.store.collections(None).await.unwrap() {
        assert_eq!((collection.documents, collection.chunks), (20, 40));
        assert_eq!(stage.store.chunk_ids(collection.key).await.unwrap().len(), 40);
    }
}

async fn some_documents_are_given_by_where_they_stand(place: Place) {
    let stage = Stage::on(place).await;
    let [letters, others] = [stage.collection("letters").await, stage.collection("others").await];
    for (id, collection) in [("a", &letters), ("a", &others), ("b", &letters), ("c", &letters)] {
        stage.store.keep_document(document(collection, id, "one")).await.unwrap();
    }
    let all = stage.store.documents(letters.key).await.unwrap();
    for wanted in [0..0, 0..2, 2..9, 3..4] {
        let some = stage.store.some_documents(letters.key, wanted.clone()).await;
        assert_eq!(some.unwrap(), all[wanted.start..wanted.end.min(3)], "{wanted:?}");
    }
}

async fn a_file_that_many_take_in_at_once_is_one_document(place: Place) {
    let stage = Stage::on(place).await;
    let stores = [stage.store.clone(), stage.place.knowledge().await];
    let collection = stage.collection("letters").await;
    let kept: Vec<_> = (0..8)
        .map(|number| {
            let (store, new) = (stores[number % 2].clone(), file(&collection, "/a/x", "one two"));
            tokio::spawn(async move { store.keep_document(new).await })
        })
        .collect();
    let mut winners = 0;
    for kept in kept {
        match kept.await.unwrap() {
            Ok(_) => winners += 1,
            Err(StoreError::Changed(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(winners, 1);
    assert_eq!(stage.store.documents(collection.key).await.unwrap().len(), 1);
    // Collections as well.
    let opened: Vec<_> = (0..8)
        .map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { self::collection(&*store, "same").await.key })
        })
        .collect();
    let mut keys = HashSet::new();
    for opened in opened {
        keys.insert(opened.await.unwrap());
    }
    assert_eq!(keys.len(), 1);
}

async fn any_text_can_be_kept_and_found(place: Place) {
    let stage = Stage::on(place).await;
    let odd = "zero \0, sub \u{1a}0, \u{10ffff} \"{}\\ '$1";
    let collection = stage.collection("letters").await;
    let long = format!("/{}", "x\u{e9}".repeat(3000));
    let mut new = file(&collection, &long, "one");
    new.chunks = vec![NewChunk { text: odd.into(), headings: odd.into(), ..chunk("one") }];
    (new.name, new.description, new.text) = (odd.into(), odd.into(), Some(odd.into()));
    new.tags = Tags { own: vec![long.clone()], given: vec!["given".into(), odd.into()] };
    let kept = stage.store.keep_document(new).await.unwrap();
    assert_eq!((&*kept.name, &*kept.description), (odd, odd));
    assert_eq!(stage.store.document_text(kept.key).await.unwrap(), odd);
    assert_eq!(stage.store.document_at(collection.key, &long).await.unwrap(), Some(kept.clone()));
    assert_eq!(stage.store.documents_below(collection.key, "/").await.unwrap(), std::slice::from_ref(&kept));
    let found =
        stage.store.found_chunks(&stage.store.chunk_ids(collection.key).await.unwrap()).await.unwrap();
    assert_eq!((&*found[0].text, &*found[0].headings), (odd, odd));
    let indexed = stage.store.indexed_chunks(&[found[0].chunk]).await.unwrap();
    assert_eq!(indexed[0].headings, odd, "the name and the headings say the same, so they stand there once");
    let storage = stage.store.storage(collection.key, MODEL).await.unwrap();
    assert_eq!((storage.chunk_bytes, storage.vector_bytes, storage.stored_bytes), (odd.len() as u64, 8, 3));
    for (filter, hits) in [
        (DocumentFilter { tag: Some(long.clone()), ..Default::default() }, 1),
        (DocumentFilter { tag: Some(odd.into()), ..Default::default() }, 1),
        (DocumentFilter { tag: Some("other".into()), ..Default::default() }, 0),
        (DocumentFilter { path: Some("x\u{e9}x".into()), ..Default::default() }, 1),
        (DocumentFilter { path: Some("y".into()), ..Default::default() }, 0),
        (DocumentFilter { source_type: Some("text/plain".into()), ..Default::default() }, 1),
    ] {
        let found = stage.store.filtered_chunks(&[collection.key], &filter).await.unwrap();
        assert_eq!(found.len(), hits, "{filter:?}");
    }
}

async fn documents_are_as_old_as_they_say_else_as_their_files_else_as_here(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let day = |day: &str| at(&format!("{day}T00:00:00Z"));
    let modified = |day: Timestamp| i64::try_from(day.as_nanosecond()).unwrap();
    let mut of_file = file(&collection, "/file", "one");
    of_file.source.as_mut().unwrap().modified = modified(day("2022-01-01"));
    let mut says = file(&collection, "/says", "two");
    (says.dated, says.ids) = (Some(day("2020-01-01")), vec!["says".into()]);
    let mut unknown = file(&collection, "https://example.org/", "three");
    unknown.source.as_mut().unwrap().modified = 0;
    unknown.ids = vec!["page".into()];
    for new in [of_file, says, unknown, document(&collection, "given", "four")] {
        let dated = new.dated;
        assert_eq!(stage.store.keep_document(new).await.unwrap().dated, dated);
    }
    let count = async |since: Option<&str>, until: Option<&str>| {
        let filter =
            DocumentFilter { since: since.map(day), until: until.map(day), ..DocumentFilter::default() };
        stage.store.filtered_chunks(&[collection.key], &filter).await.unwrap().len()
    };
    assert_eq!(count(None, Some("2020-01-01")).await, 0);
    assert_eq!(count(None, Some("2020-01-02")).await, 1);
    assert_eq!(count(Some("2020-01-02"), Some("2022-01-01")).await, 0);
    assert_eq!(count(Some("2022-01-01"), Some("2023-01-01")).await, 1);
    assert_eq!(count(Some("2023-01-01"), None).await, 2, "taken in at {}", now());
    assert_eq!(count(Some("2026-02-06"), None).await, 0);
}

async fn a_document_that_changes_its_language_is_indexed_again(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    let first = stage.store.keep_document(document(&collection, "alpha", "one two")).await.unwrap();
    let seen = stage.store.generation().await.unwrap();
    let german = hindcast_core::knowledge::Language::of_tag("de");
    let mut next = document(&collection, "alpha", "one two");
    (next.replaces, next.language) = (Some(first.version()), german);
    stage.store.keep_document(next).await.unwrap();
    let changes = stage.store.chunk_changes(seen).await.unwrap().unwrap();
    assert_eq!((changes.added.len(), changes.removed.len()), (2, 0));
    assert_eq!(
        stage.store.chunk_changes(Generation(seen.0 + 9)).await.unwrap(),
        None,
        "nothing is known of the future"
    );
    // So does a collection, and keeps the vectors that answer.
    let seen = stage.store.generation().await.unwrap();
    let settings =
        hindcast_core::knowledge::CollectionSettings { passage_bytes: Some(500), ..Default::default() };
    stage.store.change_settings(collection.key, settings.clone()).await.unwrap();
    assert_eq!(stage.store.chunk_changes(seen).await.unwrap().unwrap().added, []);
    let english = hindcast_core::knowledge::Language::of_tag("en");
    let settings = hindcast_core::knowledge::CollectionSettings { language: english, ..settings };
    stage.store.change_settings(collection.key, settings.clone()).await.unwrap();
    assert_eq!(stage.store.chunk_changes(seen).await.unwrap().unwrap().added.len(), 2);
    let found = &stage.store.collections(None).await.unwrap()[0];
    assert_eq!((&found.settings, found.vectors_by.as_deref()), (&settings, Some(MODEL)));
    assert_eq!(stage.store.documents(collection.key).await.unwrap()[0].language, english);
}

async fn vectors_that_come_later_are_kept_for_chunks_that_are_there(place: Place) {
    let stage = Stage::on(place).await;
    let collection = stage.collection("letters").await;
    // More than one statement takes.
    let words: Vec<_> = (0..1200).map(|number| format!("word{number}")).collect();
    let mut new = document(&collection, "alpha", &words.join(" "));
    for chunk in &mut new.chunks {
        chunk.vector = None;
    }
    let kept = stage.store.keep_document(new).await.unwrap();
    let missing = stage.store.document_without_vector(kept.key, MODEL, 2000).await.unwrap();
    let texts: Vec<_> = missing.iter().map(|chunk| &*chunk.text).collect();
    assert_eq!(texts, words, "in order");
    let seen = stage.store.generation().await.unwrap();
    let vector = |number: f32| NewVector { model: MODEL.into(), numbers: vec![number] };
    let mut made: Vec<_> = missing.iter().map(|chunk| (chunk.chunk, vector(1.0))).collect();
    made.push((ChunkId(i64::MAX), vector(2.0)));
    stage.store.keep_vectors(made).await.unwrap();
    assert_eq!(stage.store.generation().await.unwrap(), Generation(seen.0 + 1));
    assert_eq!(stage.store.vector_changes(MODEL, seen).await.unwrap().unwrap().added.len(), 1200);
    assert_eq!(stage.store.vector_changes("other", seen).await.unwrap().unwrap().added, []);
    assert_eq!(stage.store.without_vector(collection.key, MODEL, 10).await.unwrap(), []);
    assert_eq!(stage.store.without_vector(collection.key, "other", 10).await.unwrap().len(), 10);
    let hashes = vec![chunk("word7").hash, [9; 32]];
    let known = stage.store.vectors_of(collection.key, MODEL, hashes.clone()).await.unwrap();
    assert_eq!(known, [(chunk("word7").hash, vec![1.0])]);
    let elsewhere = stage.collection("elsewhere").await;
    assert_eq!(stage.store.vectors_of(elsewhere.key, MODEL, hashes).await.unwrap(), []);
    let (before, after) = stage.store.neighbours(missing[1].chunk, 2).await.unwrap();
    assert_eq!((before, after), (vec!["word0".into()], vec!["word2".to_owned(), "word3".into()]));
    // Another model takes over.
    let other =
        missing.iter().map(|chunk| (chunk.chunk, NewVector { model: "other".into(), numbers: vec![3.0] }));
    stage.store.keep_vectors(other.collect()).await.unwrap();
    stage.store.retire_other_models(collection.key, "other").await.unwrap();
    assert_eq!(stage.store.vector_ids(collection.key, MODEL).await.unwrap(), []);
    assert_eq!(stage.store.vector_ids(collection.key, "other").await.unwrap().len(), 1200);
    assert_eq!(stage.store.collections(None).await.unwrap()[0].vectors_by.as_deref(), Some("other"));
}

async fn a_collection_that_changes_its_name_keeps_what_is_in_it(place: Place) {
    let stage = Stage::on(place).await;
    let [first, second] = [stage.collection("first").await, stage.collection("second").await];
    let kept = stage.store.keep_document(document(&first, "alpha", "one")).await.unwrap();
    let generation = stage.store.generation().await.unwrap();
    let taken = stage.store.rename_collection(first.key, "second".into(), "Second".into(), now()).await;
    assert!(matches!(taken, Err(StoreError::Exists(_))), "{taken:?}");
    assert_eq!(stage.store.generation().await.unwrap(), generation, "what failed is no generation");
    stage.store.rename_collection(first.key, "third".into(), "Third".into(), now()).await.unwrap();
    let found = stage.store.find_document(first.key, "alpha").await.unwrap();
    assert_eq!(found, Some(kept));
    stage.store.touch_collection(second.key, now()).await.unwrap();
    stage.store.remove_collection(first.key).await.unwrap();
    let left = stage.store.collections(None).await.unwrap();
    assert_eq!((left.len(), left[0].key, left[0].accessed_at), (1, second.key, Some(now())));
    let gone = stage.store.remove_collection(first.key).await;
    assert!(matches!(gone, Err(StoreError::CollectionGone)), "{gone:?}");
    assert!(stage.store.size().await.unwrap() > 0);
}
