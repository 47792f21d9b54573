//! Collections with settings of their own, and passages that are read again.

use std::{path::PathBuf, sync::Mutex};

use hindcast_core::knowledge::{
    Catalogue, Collection, CollectionSettings, IndexError, Models, Reranker, VectorWrite,
};

use super::*;

/// Knows pairs of letters, in vectors of another length than the usual model's.
struct PairEmbedder;

impl Embedder for PairEmbedder {
    fn model(&self) -> &str {
        "pairs"
    }

    fn dimension(&self) -> usize {
        96
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &&str| {
            let mut numbers = vec![0.01_f32; self.dimension()];
            for pair in text.to_lowercase().as_bytes().windows(2) {
                numbers[(usize::from(pair[0]) * 31 + usize::from(pair[1])) % 96] += 1.0;
            }
            let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
            numbers.iter().map(|number| number / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// Likes passages with a certain word.
struct Fond(&'static str);

impl Reranker for Fond {
    fn model(&self) -> &str {
        "fond"
    }

    fn judge(&self, _: &str, passages: &[&str]) -> Result<Vec<f32>, EmbedError> {
        Ok(passages.iter().map(|passage| if passage.contains(self.0) { 9.5 } else { 7.0 }).collect())
    }
}

struct Shelf {
    folder: PathBuf,
    reranker: Mutex<Option<Arc<dyn Reranker>>>,
}

impl Models for Shelf {
    fn embedder(&self, name: &str) -> Result<Arc<dyn Embedder>, EmbedError> {
        match name {
            "pairs" => Ok(Arc::new(PairEmbedder)),
            other => Err(EmbedError::NotInstalled(other.into())),
        }
    }

    fn vectors(&self, embedder: &dyn Embedder) -> Result<Arc<dyn VectorWrite>, IndexError> {
        Ok(Arc::new(VectorIndex::open(&self.folder.join("more"), embedder.model(), embedder.dimension())?))
    }

    fn reranker(&self) -> Option<Arc<dyn Reranker>> {
        self.reranker.lock().unwrap().clone()
    }
}

fn stage_with_models() -> (Stage, Arc<Shelf>) {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf { folder: folder.path().into(), reranker: Mutex::default() });
    let parts = Stage::parts(folder.path(), Parrot::default(), Arc::new(WordEmbedder));
    let service = KnowledgeService::new(KnowledgeParts { models: Some(shelf.clone()), ..parts });
    (Stage { service, folder }, shelf)
}

async fn found_by(stage: &Stage, query: &str, mode: SearchMode) -> SearchAnswer {
    let request = SearchRequest { query: query.into(), limit: 5, mode, ..SearchRequest::default() };
    stage.service.search(&Caller::local(), request).await.unwrap()
}

async fn change(stage: &Stage, change: SettingsChange) -> Result<Collection, Failure> {
    stage.service.change_settings(&Caller::local(), "birds", change).await
}

#[tokio::test]
async fn the_old_vectors_answer_until_those_of_another_model_are_complete() {
    let (stage, _) = stage_with_models();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    stage.add("birds", "owl", "The owl hunts at night.").await;
    stage.add("other", "bread", "Bread needs flour and water.").await;
    let model = Some("pairs".to_owned());
    let changed = change(&stage, SettingsChange { model, ..SettingsChange::default() }).await.unwrap();
    assert_eq!(changed.settings.model.as_deref(), Some("pairs"));
    assert_eq!(changed.vectors_by.as_deref(), Some("words"), "there are no others yet");
    let before = found_by(&stage, "the owl hunts", SearchMode::Dense).await;
    assert_eq!(before.hits[0].found.document.id, "owl");

    stage.service.reindex(&Unwatched).await.unwrap();
    let collection = stage.service.collection(&Caller::local(), "birds").await.unwrap();
    assert_eq!(collection.vectors_by.as_deref(), Some("pairs"));
    let after = found_by(&stage, "the owl hunts", SearchMode::Dense).await;
    assert_eq!(after.hits[0].found.document.id, "owl");
    // Both models answer one question, each for what it has.
    let documents: Vec<_> = after.hits.iter().map(|hit| &*hit.found.document.id).collect();
    assert!(documents.contains(&"bread") && documents.contains(&"heron"), "{documents:?}");
    assert_eq!(stage.service.stats(collection).await.unwrap().missing_vectors, 0);
    stage.add("birds", "stork", "The stork builds on a roof.").await;
    let added = found_by(&stage, "stork builds on the roof", SearchMode::Dense).await;
    assert_eq!(added.hits[0].found.document.id, "stork", "what comes later has vectors of the new model");

    let unknown = SettingsChange { model: Some("nobody".into()), ..SettingsChange::default() };
    let refused = change(&stage, unknown).await.unwrap_err();
    assert!(refused.to_string().contains("`nobody`"), "{refused}");
}

#[tokio::test]
async fn the_best_passages_are_put_in_the_order_of_whoever_has_read_them() {
    let (stage, shelf) = stage_with_models();
    stage.add("birds", "heron", "The heron stands in the water of the lake.").await;
    stage.add("birds", "duck", "The duck swims on the water and dives.").await;
    let first = |answer: &SearchAnswer| (answer.hits[0].found.document.id.clone(), answer.hits[0].score);
    assert_eq!(first(&found_by(&stage, "heron lake water", SearchMode::Hybrid).await).0, "heron");
    *shelf.reranker.lock().unwrap() = Some(Arc::new(Fond("dives")));
    assert_eq!(first(&found_by(&stage, "heron lake water", SearchMode::Hybrid).await), ("duck".into(), 1.0));
    let by_words = found_by(&stage, "heron lake water", SearchMode::Lexical).await;
    assert_eq!(first(&by_words).0, "heron", "who asks for words alone gets them");
}

#[tokio::test]
async fn a_collection_has_a_language_and_a_size_of_passages_of_its_own() {
    let (stage, _) = stage_with_models();
    let notes = tempfile::tempdir().unwrap();
    let file = notes.path().join("n.md");
    std::fs::write(&file, format!("Die Verbindungen. {}", "Ein Satz steht hier. ".repeat(40))).unwrap();
    let caller = Caller::local();
    let add = || stage.service.add(&caller, files("birds", &file, false), &Unwatched);
    stage.add("birds", "short", "Leitungen").await;
    let one = add().await.unwrap().collection.chunks;
    assert!(
        found_by(&stage, "Leitung", SearchMode::Lexical).await.hits.is_empty(),
        "one word tells no language"
    );

    let language = SettingsChange { language: Some("de-AT".into()), ..SettingsChange::default() };
    change(&stage, language).await.unwrap();
    let found = found_by(&stage, "Leitung", SearchMode::Lexical).await;
    assert_eq!(found.hits[0].found.document.id, "short");

    let size = SettingsChange { passage_bytes: Some(300), ..SettingsChange::default() };
    let changed = change(&stage, size).await.unwrap();
    assert_eq!(
        changed.settings.language.map(|language| language.code()),
        Some("de"),
        "what was decided stays"
    );
    let many = add().await.unwrap().collection.chunks;
    assert!(many > one + 1, "{one} {many}");
    assert!(matches!(add().await.unwrap().files[0].outcome, FileOutcome::Unchanged { .. }));

    for wrong in [
        SettingsChange { language: Some("tlh".into()), ..SettingsChange::default() },
        SettingsChange { passage_bytes: Some(10), ..SettingsChange::default() },
    ] {
        assert!(!change(&stage, wrong).await.unwrap_err().remedies.is_empty());
    }
}

/// The command that changes a model may be killed before it has made the vectors.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_takes_up_a_model_that_another_process_chose() {
    let (stage, _) = stage_with_models();
    stage.add("birds", "heron", "The heron stands in the water.").await;
    stage.add("birds", "owl", "The owl hunts at night.").await;
    let running = tokio::spawn(stage.service.clone().keep_up());
    let elsewhere = SqliteKnowledge::in_file(&stage.folder.path().join("k.db"));
    let birds = stage.service.collection(&Caller::local(), "birds").await.unwrap();
    let settings = CollectionSettings { model: Some("pairs".into()), ..CollectionSettings::default() };
    elsewhere.change_settings(birds.key, settings).await.unwrap();
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    let taken_up = async {
        while stage.service.collection(&Caller::local(), "birds").await.unwrap().vectors_by.as_deref()
            != Some("pairs")
        {
            looks.tick().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), taken_up)
        .await
        .expect("the vectors are not made");
    let found = found_by(&stage, "the owl hunts", SearchMode::Dense).await;
    assert_eq!((&*found.hits[0].found.document.id, found.notices.len()), ("owl", 0));
    running.abort();
}
