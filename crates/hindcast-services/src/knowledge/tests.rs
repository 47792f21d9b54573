//! The service over real stores, with a model that only knows words.

use hindcast_core::{
    identity::{Caller, PrincipalId},
    knowledge::{
        ChatError, ChatModel, EmbedError, Embedder, InstalledModel, Message, OnText, Ownership, Patterns,
        Reply, WordEmbedder, bytes_of,
    },
    progress::Unwatched,
    time::ManualClock,
};
use hindcast_stores::{LexicalIndex, SqliteKnowledge, VectorIndex};

use super::*;

mod asking;
mod filters;
mod models;
mod sharing;
mod web;

/// Counts what it is asked for.
struct CountingEmbedder(std::sync::atomic::AtomicUsize);

impl Embedder for CountingEmbedder {
    fn model(&self) -> &str {
        WordEmbedder.model()
    }

    fn dimension(&self) -> usize {
        WordEmbedder.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.0.fetch_add(texts.len(), Ordering::SeqCst);
        WordEmbedder.embed(texts)
    }
}

struct Stage {
    service: Arc<KnowledgeService>,
    folder: tempfile::TempDir,
}

/// Answers what it is asked with the number of messages, or fails.
#[derive(Default)]
struct Parrot {
    fails: bool,
    /// Nobody listens.
    is_away: bool,
    most_bytes: Option<usize>,
    /// The room that each request asked for.
    rooms: Arc<std::sync::Mutex<Vec<usize>>>,
}

#[async_trait::async_trait]
impl ChatModel for Parrot {
    fn address(&self) -> &str {
        "nowhere"
    }

    fn most_bytes(&self) -> Option<usize> {
        self.most_bytes
    }

    async fn models(&self) -> Result<Vec<InstalledModel>, ChatError> {
        if self.is_away {
            return Err(ChatError::Unreachable { address: "nowhere".into(), reason: "refused".into() });
        }
        let model = |name: &str, embeds| InstalledModel {
            name: name.into(),
            size: 1,
            embeds,
            calls_tools: false,
            dimension: None,
        };
        Ok(vec![model("embedder", true), model("parrot", false)])
    }

    async fn chat(
        &self,
        _: &str,
        messages: &[Message],
        room: usize,
        on_text: OnText<'_>,
    ) -> Result<Reply, ChatError> {
        assert!(!self.is_away, "a model that is away is not asked");
        assert!(self.most_bytes.is_none_or(|most| bytes_of(messages) <= most), "more than it reads at once");
        assert!(room >= bytes_of(messages), "all of it has room");
        self.rooms.lock().unwrap().push(room);
        if self.fails {
            return Err(ChatError::BrokeOff("half way".into()));
        }
        if messages[0].text.starts_with("Rewrite") {
            return Ok(Reply { text: "<think>hm</think>Where does the heron stand?".into(), tokens: 1 });
        }
        on_text("said ");
        let text = format!("<think>Which of them? [2]</think>said {} messages, see [1]", messages.len());
        Ok(Reply { text, tokens: 7 })
    }
}

impl Stage {
    fn new() -> Self {
        Self::with(Parrot::default())
    }

    fn with(parrot: Parrot) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = Self::open(folder.path(), parrot);
        Self { service, folder }
    }

    fn open(folder: &std::path::Path, parrot: Parrot) -> Arc<KnowledgeService> {
        Self::open_with(folder, parrot, Arc::new(WordEmbedder))
    }

    fn open_with(
        folder: &std::path::Path,
        parrot: Parrot,
        embedder: Arc<dyn Embedder>,
    ) -> Arc<KnowledgeService> {
        KnowledgeService::new(Self::parts(folder, parrot, embedder))
    }

    fn parts(folder: &std::path::Path, parrot: Parrot, embedder: Arc<dyn Embedder>) -> KnowledgeParts {
        let vectors = VectorIndex::open(&folder.join("v"), embedder.model(), embedder.dimension()).unwrap();
        KnowledgeParts {
            store: Arc::new(SqliteKnowledge::in_file(&folder.join("k.db"))),
            open_lexical: Box::new({
                let lexical = folder.join("l");
                move || Ok(Arc::new(LexicalIndex::open(&lexical)?))
            }),
            vectors: Arc::new(vectors),
            embedder,
            models: None,
            chat: Some(Arc::new(parrot)),
            web: None,
            keys: None,
            events: Events::default(),
            clock: Arc::new(ManualClock::at("2026-02-05T10:30:05Z".parse().unwrap())),
            policy: KnowledgePolicy {
                max_file_bytes: 1 << 20,
                owner_bytes: 1 << 30,
                disk: None,
                reading: ReadPolicy::default(),
                lock_file: None,
                extractor: Extractor::Here,
                ollama_is_expected: false,
                chat_model: None,
                web_hosts: Vec::new(),
            },
        }
    }

    async fn add(&self, collection: &str, name: &str, text: &str) -> AddReport {
        let material = Material::Text { name: name.into(), text: text.into(), mime_type: None };
        let ownership = Ownership::Private(PrincipalId::local());
        let request =
            AddRequest { collection: collection.into(), id: None, ownership, material, tags: Vec::new() };
        self.service.add(&Caller::local(), request, &Unwatched).await.unwrap()
    }

    async fn find(&self, query: &str) -> Vec<String> {
        let request = SearchRequest { query: query.into(), limit: 5, ..SearchRequest::default() };
        let found = self.service.search(&Caller::local(), request).await.unwrap();
        found.hits.into_iter().map(|hit| hit.found.document.id).collect()
    }
}

#[tokio::test]
async fn what_is_added_is_found_and_what_is_removed_is_not() {
    let stage = Stage::new();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    stage.add("birds", "owl", "The owl hunts at night.").await;
    assert_eq!(stage.find("heron water").await[0], "heron");
    stage.service.remove_document(&Caller::local(), "birds", "heron").await.unwrap();
    assert!(!stage.find("heron water").await.contains(&"heron".to_owned()));
    stage.service.remove_collection(&Caller::local(), "birds").await.unwrap();
    assert!(stage.find("owl night").await.is_empty());
}

#[tokio::test]
async fn an_index_that_is_behind_or_lost_is_caught_up() {
    let stage = Stage::new();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    stage.service.finish().await.unwrap();
    let Stage { service, folder } = stage;
    drop(service);
    for lost in ["l", "v"] {
        std::fs::remove_dir_all(folder.path().join(lost)).unwrap();
    }
    let service = Stage::open(folder.path(), Parrot::default());
    let stage = Stage { service, folder };
    assert_eq!(stage.find("heron water").await, ["heron"]);
    let collection = stage.service.collection(&Caller::local(), "birds").await.unwrap();
    let stats = stage.service.stats(collection).await.unwrap();
    assert_eq!((stats.missing_vectors, stats.orphaned_vectors), (0, 0));
}

/// Another process may remove a collection that was just found.
#[tokio::test]
async fn a_collection_that_is_gone_says_where_the_others_are_listed() {
    let stage = Stage::new();
    let collection = stage.add("birds", "heron", "The heron stands in the water.").await.collection;
    stage.service.remove_collection(&Caller::local(), "birds").await.unwrap();
    let permit = Arc::new(stage.service.policy.reading.permit(reading::Reader::Local));
    let file = stage.folder.path().join("owl.md");
    std::fs::write(&file, "The owl hunts at night.").unwrap();
    let found = walk::walk(
        &permit,
        &[file],
        walk::Selection::of(&Patterns::default()),
        walk::WalkLimits::of(reading::Reader::Local, 100),
        &mut walk::tests::Alone,
    )
    .found;
    let mut intake = stage.service.intake_into(collection, permit);
    let failure = stage.service.add_found(&mut intake, found, &Unwatched).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "there is no such collection any more · hint: `hindcast knowledge list` and the resource \
         `resource://knowledge/collections` list them"
    );
}

#[tokio::test]
async fn the_same_text_again_changes_nothing() {
    let stage = Stage::new();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    let generation = stage.service.store.generation().await.unwrap();
    let report = stage.add("birds", "heron", "The heron stands in the water.").await;
    assert_eq!(report.files[0].outcome, FileOutcome::Unchanged { document: "heron".into() });
    assert_eq!(stage.service.store.generation().await.unwrap(), generation);
}

#[tokio::test]
async fn an_empty_folder_that_is_watched_has_its_collection_and_one_that_is_not_has_none() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    for (name, watch) in [("watched", true), ("unwatched", false)] {
        let material =
            Material::Paths { paths: vec![folder.path().into()], patterns: Patterns::default(), watch };
        let ownership = Ownership::Private(PrincipalId::local());
        let request = AddRequest { collection: name.into(), id: None, ownership, material, tags: Vec::new() };
        stage.service.add(&Caller::local(), request, &Unwatched).await.unwrap();
    }
    let collections = stage.service.collections(&Caller::local()).await.unwrap();
    assert_eq!(collections.iter().map(|one| &*one.id).collect::<Vec<_>>(), ["watched"]);
    assert_eq!(stage.service.store.watches().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_conversation_is_kept_and_gone_on_with() {
    let stage = Stage::new();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    let ask = |conversation| AskRequest {
        question: "where is the heron?".into(),
        collection: None,
        model: None,
        conversation,
    };
    let first = stage.service.ask(&Caller::local(), ask(None), &Unwatched).await.unwrap();
    assert_eq!((&*first.text, first.model.as_deref()), ("said 2 messages, see [1]", Some("parrot")));
    assert!(first.citations[0].is_cited && first.citations[0].hit.found.document.id == "heron");
    let again = ask(Some(first.conversation.clone()));
    let second = stage.service.ask(&Caller::local(), again.clone(), &Unwatched).await.unwrap();
    assert_eq!(second.text, "said 4 messages, see [1]", "the first turn is told again");
    assert_eq!(
        second.searched.as_deref(),
        Some("Where does the heron stand?"),
        "the model rewrote the question"
    );
    assert_eq!(second.unsupported, ["said 4 messages, see [1]"], "no passage has a 4");
    let stranger = Caller { principal: PrincipalId("ben".into()), ..Caller::local() };
    assert!(stage.service.ask(&stranger, again, &Unwatched).await.is_err());
    let models = stage.service.models(&Caller::local()).await.unwrap();
    assert_eq!(models.most_used.as_deref(), Some("parrot"));
    let figures = models.models[0].figures.clone().unwrap();
    assert_eq!((figures.conversations, figures.asked, figures.answered, figures.tokens), (1, 2, 2, 14));
}

#[tokio::test]
async fn a_question_without_evidence_is_not_given_to_the_model() {
    let stage = Stage::new();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    let ask = AskRequest {
        question: "quarterly revenue of zebra factories?".into(),
        collection: None,
        model: None,
        conversation: None,
    };
    let answer = stage.service.ask(&Caller::local(), ask, &Unwatched).await.unwrap();
    assert_eq!(
        (&*answer.text, answer.citations.len(), answer.tokens),
        ("This is not in these documents.", 0, 0)
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_counted_as_none() {
    let stage = Stage::with(Parrot { fails: true, ..Parrot::default() });
    stage.add("birds", "heron", "Nobody knows why the heron stands.").await;
    let ask = AskRequest {
        question: "why does the heron stand?".into(),
        collection: None,
        model: None,
        conversation: None,
    };
    let failure = stage.service.ask(&Caller::local(), ask, &Unwatched).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ModelUnavailable);
    let health = stage.service.health(Some(&Caller::local())).await.unwrap();
    assert_eq!((health.answers.asked, health.answers.answered, health.answers.recent_errors), (1, 0, 1));
    assert_eq!(health.recommendations, ["Investigate error patterns to improve reliability"]);
}

/// A request for the local user's files.
fn files(collection: &str, path: &std::path::Path, watch: bool) -> AddRequest {
    let material = Material::Paths { paths: vec![path.into()], patterns: Patterns::default(), watch };
    let ownership = Ownership::Private(PrincipalId::local());
    AddRequest { collection: collection.into(), id: None, ownership, material, tags: Vec::new() }
}

#[tokio::test]
async fn documents_of_files_that_come_to_be_ignored_or_excluded_go() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    let root = notes.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("drafts")).unwrap();
    for name in ["a.md", "b.txt", "c.log", "drafts/d.md"] {
        std::fs::write(root.join(name), format!("The heron of {name}.")).unwrap();
    }
    let local = Caller::local();
    let kept = || async {
        let collection = stage.service.collection(&local, "birds").await.unwrap();
        let documents = stage.service.documents(&collection).await.unwrap();
        let mut paths: Vec<_> = documents
            .into_iter()
            .map(|document| {
                let path = std::path::PathBuf::from(document.source.unwrap().path);
                path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()
            })
            .collect();
        paths.sort();
        paths
    };
    stage.service.add(&local, files("birds", &root, false), &Unwatched).await.unwrap();
    assert_eq!(kept().await, ["a.md", "b.txt", "c.log", "drafts/d.md"]);
    std::fs::write(root.join(".gitignore"), "drafts/\n").unwrap();
    let excluding = |pattern: &str| {
        let patterns = Patterns { include: vec!["*.md".into()], exclude: vec![pattern.into()] };
        let material = Material::Paths { paths: vec![root.clone()], patterns, watch: false };
        AddRequest { material, ..files("birds", &root, false) }
    };
    let report = stage.service.add(&local, excluding("*.log"), &Unwatched).await.unwrap();
    let removed = report.files.iter().filter(|file| matches!(file.outcome, FileOutcome::Removed { .. }));
    assert_eq!(removed.count(), 2, "{report:?}");
    assert_eq!(kept().await, ["a.md", "b.txt"], "what is only not included stays");
}

#[tokio::test]
async fn what_says_the_same_is_embedded_once_in_each_collection() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(CountingEmbedder(0.into()));
    let service = Stage::open_with(folder.path(), Parrot::default(), embedder.clone());
    let notes = tempfile::tempdir().unwrap();
    for name in ["one", "two", "three"] {
        std::fs::write(notes.path().join(format!("{name}.md")), "# Heron\n\nThe heron stands in the water.")
            .unwrap();
    }
    service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
    assert_eq!(embedder.0.load(Ordering::SeqCst), 1);
    service.add(&Caller::local(), files("again", notes.path(), false), &Unwatched).await.unwrap();
    assert_eq!(embedder.0.load(Ordering::SeqCst), 2, "an imported collection may have forged vectors");
    let collection = service.collection(&Caller::local(), "again").await.unwrap();
    assert_eq!((collection.documents, collection.chunks), (3, 3));
    assert_eq!(service.stats(collection).await.unwrap().missing_vectors, 0);
}

#[tokio::test]
async fn a_file_that_moves_keeps_its_id_and_its_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(CountingEmbedder(0.into()));
    let service = Stage::open_with(folder.path(), Parrot::default(), embedder.clone());
    let notes = tempfile::tempdir().unwrap();
    std::fs::write(notes.path().join("heron.md"), "# Heron\n\nThe heron stands in the water.").unwrap();
    service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
    let collection = service.collection(&Caller::local(), "birds").await.unwrap();
    let before = service.store.documents(collection.key).await.unwrap();
    let chunks = service.store.chunk_ids(collection.key).await.unwrap();
    std::fs::rename(notes.path().join("heron.md"), notes.path().join("moved.md")).unwrap();
    service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
    let after = service.store.documents(collection.key).await.unwrap();
    assert_eq!((after.len(), &after[0].id), (1, &before[0].id));
    assert!(after[0].source.as_ref().unwrap().path.ends_with("moved.md"));
    assert_eq!(service.store.chunk_ids(collection.key).await.unwrap(), chunks);
    assert_eq!(embedder.0.load(Ordering::SeqCst), 1, "it is not embedded again");
    assert_eq!(service.stats(collection).await.unwrap().missing_vectors, 0);
}

/// A text in which the same passages come again and again.
fn repeating(passages: usize, different: usize) -> String {
    (0..passages).map(|number| format!("# Part\n\nThe heron number {}.\n\n", number % different)).collect()
}

#[tokio::test]
async fn what_a_document_says_twice_is_embedded_once_also_later() {
    // A document with more different passages than 256 is kept before all are embedded.
    for (passages, different) in [(60, 20), (600, 300)] {
        let text = repeating(passages, different);
        let folder = tempfile::tempdir().unwrap();
        let embedder = Arc::new(CountingEmbedder(0.into()));
        let service = Stage::open_with(folder.path(), Parrot::default(), embedder.clone());
        let notes = tempfile::tempdir().unwrap();
        std::fs::write(notes.path().join("notes.md"), &text).unwrap();
        service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
        let collection = service.collection(&Caller::local(), "birds").await.unwrap();
        let chunks = service.store.chunk_ids(collection.key).await.unwrap();
        let texts = service.store.indexed_chunks(&chunks).await.unwrap();
        let texts = texts.iter().map(|chunk| &chunk.text).collect::<std::collections::HashSet<_>>().len();
        assert_eq!((chunks.len(), texts), (passages, different));
        assert_eq!(embedder.0.load(Ordering::SeqCst), different);
        // One more copy of a passage that is there is a passage, too.
        std::fs::write(notes.path().join("notes.md"), text + &repeating(1, 1)).unwrap();
        service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
        assert_eq!(embedder.0.load(Ordering::SeqCst), different);
        assert_eq!(service.stats(collection).await.unwrap().missing_vectors, 0);
    }
}

#[tokio::test]
async fn an_empty_folder_that_is_added_again_keeps_its_documents_and_says_so() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    std::fs::write(notes.path().join("heron.md"), "The heron stands in the water.").unwrap();
    let local = Caller::local();
    stage.service.add(&local, files("birds", notes.path(), false), &Unwatched).await.unwrap();
    std::fs::remove_file(notes.path().join("heron.md")).unwrap();
    let report = stage.service.add(&local, files("birds", notes.path(), false), &Unwatched).await.unwrap();
    assert!(report.files.is_empty() && report.notices[0].contains("is empty, and its documents are kept"));
    assert_eq!(stage.find("heron water").await, ["heron"]);
    std::fs::write(notes.path().join("other.md"), "The stork stands on the roof.").unwrap();
    let report = stage.service.add(&local, files("birds", notes.path(), false), &Unwatched).await.unwrap();
    assert_eq!(report.files.len(), 2, "{:?}", report.files);
    assert_eq!(stage.find("stork roof").await, ["other"]);
}

#[tokio::test]
async fn what_an_emptied_file_said_is_not_found_any_more() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    for name in ["heron.md", "stork.md", "module.py"] {
        std::fs::write(notes.path().join(name), format!("# {name} stands in the water")).unwrap();
    }
    let local = Caller::local();
    let add = || stage.service.add(&local, files("birds", notes.path(), false), &Unwatched);
    assert_eq!(add().await.unwrap().files.len(), 3);
    std::fs::write(notes.path().join("heron.md"), "").unwrap();
    std::fs::write(notes.path().join("stork.md"), " \n").unwrap();
    let report = add().await.unwrap();
    let removed = |name: &str| {
        let file = report.files.iter().find(|file| file.path.ends_with(name)).unwrap();
        matches!(file.outcome, FileOutcome::Removed { .. })
    };
    assert!(removed("heron.md") && removed("stork.md") && !removed("module.py"), "{:?}", report.files);
    let found = stage.find("stands in the water").await;
    assert!(!found.iter().any(|id| id == "heron" || id == "stork"), "{found:?}");
    let report = add().await.unwrap();
    assert_eq!(
        report.skipped.iter().map(|skipped| (&*skipped.kind, skipped.files)).collect::<Vec<_>>(),
        [(".md", 2)]
    );
    std::fs::write(notes.path().join("heron.md"), "The heron is back in the water.").unwrap();
    add().await.unwrap();
    assert!(stage.find("heron back").await.contains(&"heron".to_owned()));
}

/// Stops after a while, as a process does that is killed.
struct Impatient(std::sync::atomic::AtomicUsize);

impl hindcast_core::progress::Progress for Impatient {
    fn report(&self, _: u64, _: Option<u64>, _: &str) {}

    fn note(&self, _: &str) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 3
    }
}

#[tokio::test]
async fn a_large_file_is_gone_on_with_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(CountingEmbedder(0.into()));
    let service = Stage::open_with(folder.path(), Parrot::default(), embedder.clone());
    let notes = tempfile::tempdir().unwrap();
    let text: String =
        (0..400).map(|number| format!("# Part {number}\n\nThe heron number {number}.\n\n")).collect();
    std::fs::write(notes.path().join("long.md"), text).unwrap();
    let impatient = Impatient(0.into());
    service.add(&Caller::local(), files("birds", notes.path(), false), &impatient).await.unwrap();
    let first = embedder.0.load(Ordering::SeqCst);
    assert!((1..400).contains(&first), "{first}");
    let request = SearchRequest { query: "heron 399".into(), limit: 1, ..SearchRequest::default() };
    let found = service.search(&Caller::local(), request).await.unwrap();
    assert_eq!(found.hits[0].found.headings, "Part 399", "it is found by its words meanwhile");
    let report =
        service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
    assert!(matches!(report.files[0].outcome, FileOutcome::Unchanged { .. }), "{report:?}");
    let asked = embedder.0.load(Ordering::SeqCst);
    // One more for the search.
    assert_eq!(asked, 401, "nothing is embedded twice");
    let collection = service.collection(&Caller::local(), "birds").await.unwrap();
    assert_eq!(service.stats(collection).await.unwrap().missing_vectors, 0);
}

#[tokio::test]
async fn an_addition_in_the_background_tells_how_far_it_is() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    for number in 0..30 {
        std::fs::write(notes.path().join(format!("{number}.md")), format!("The heron number {number}."))
            .unwrap();
    }
    std::fs::write(notes.path().join("picture.svg"), "<svg/>").unwrap();
    let id = stage.service.add_in_background(&Caller::local(), files("birds", notes.path(), false)).unwrap();
    assert_eq!(stage.service.ingests(&Caller::local())[0].id, id);
    let stranger = Caller { principal: PrincipalId("ben".into()), ..Caller::local() };
    assert!(stage.service.ingests(&stranger).is_empty());
    assert!(stage.service.cancel_ingest(&stranger, &id).is_err());
    stage.service.ingests.end().await;
    let status = stage.service.ingests(&Caller::local()).remove(0);
    let report = status.outcome.unwrap().unwrap();
    assert_eq!((status.done, status.total, report.collection.documents), (30 + 1, Some(31), 30));
    let skipped =
        SkippedKind { kind: ".svg".into(), reason: "files of this type are not understood".into(), files: 1 };
    assert_eq!(report.skipped, [skipped]);
    assert_eq!(report.skipped[0].to_string(), "1 file .svg: files of this type are not understood");
}

#[tokio::test]
async fn an_addition_in_the_background_that_is_stopped_is_not_done() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    for number in 0..30 {
        std::fs::write(notes.path().join(format!("{number}.md")), format!("The heron number {number}."))
            .unwrap();
    }
    let local = Caller::local();
    // The task runs when this one waits.
    let id = stage.service.add_in_background(&local, files("birds", notes.path(), false)).unwrap();
    stage.service.cancel_ingest(&local, &id).unwrap();
    stage.service.ingests.end().await;
    let status = stage.service.ingest(&local, &id).unwrap();
    assert_eq!((status.is_stopped, status.done, status.total), (true, 0, Some(30)), "{status:?}");
    let unknown = stage.service.ingest(&local, "zzz").unwrap_err();
    assert!(unknown.to_string().starts_with("there is no ingest `zzz`"), "{unknown}");
}

#[tokio::test]
async fn a_search_does_not_wait_for_what_is_taken_in_in_the_background() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    std::fs::write(notes.path().join("heron.md"), "The heron stands in the water.").unwrap();
    stage.service.add(&Caller::local(), files("birds", notes.path(), false), &Unwatched).await.unwrap();
    assert_eq!(stage.find("heron water").await, ["heron"]);

    // As long as nothing is indexed, the ingest cannot end.
    let turn = stage.service.indexing.turn.lock().await;
    let before = stage.service.store.generation().await.unwrap();
    std::fs::write(notes.path().join("second.md"), "A second heron is in the water too.").unwrap();
    stage.service.add_in_background(&Caller::local(), files("birds", notes.path(), false)).unwrap();
    while stage.service.store.generation().await.unwrap() == before {
        tokio::task::yield_now().await;
    }
    let found = tokio::time::timeout(Duration::from_secs(60), stage.find("heron water")).await;
    assert_eq!(found.expect("the search waits for the index"), ["heron"]);

    drop(turn);
    stage.service.ingests.end().await;
    assert_eq!(stage.find("heron water").await.len(), 2);
}

#[tokio::test]
async fn a_folder_that_is_unwatched_keeps_its_documents() {
    let stage = Stage::new();
    let notes = tempfile::tempdir().unwrap();
    std::fs::write(notes.path().join("heron.md"), "The heron stands in the water.").unwrap();
    let local = Caller::local();
    stage.service.add(&local, files("birds", notes.path(), true), &Unwatched).await.unwrap();
    let watches = stage.service.watches(&local).await.unwrap();
    assert_eq!((watches.len(), &*watches[0].0), (1, "birds"));
    assert!(stage.service.unwatch(&local, "birds", Some("/nowhere")).await.is_err());
    let (_, paths) = stage.service.unwatch(&local, "birds", Some(&watches[0].1.path)).await.unwrap();
    assert_eq!(paths, [watches[0].1.path.clone()]);
    assert!(stage.service.watches(&local).await.unwrap().is_empty());
    assert_eq!(stage.find("heron water").await, ["heron"]);
}
