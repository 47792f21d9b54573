//! A cross-encoder that was installed decides in which order passages are found.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Client, knowledge,
    settings::{ollama, settings, tiny_model},
};
use crate::{sdk, server::try_hindcast};

const QUESTION: &str = "Where does the heron wait for a fish?";

const NOTES: [(&str, &str); 5] = [
    ("heron", "The heron waits for a fish where the water is shallow."),
    ("owl", "The owl hunts at night and sleeps in the hollow of an old tree."),
    ("fox", "A fox waits for a mouse in the field."),
    ("pike", "The pike is a fish that hunts other fish in the lake."),
    ("stork", "The stork stands on one leg and eats frogs."),
];

/// The documents that were found with their scores, best first, and what is noticed.
fn found(client: &mut Client) -> (Vec<(String, f64)>, Value) {
    let answer = client.call("knowledge/search", json!({ "query": QUESTION, "min_relevance": 0.0 }));
    let hit = |hit: &Value| (hit["document"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap());
    let hits = answer["hits"].as_array().unwrap().iter().map(hit).collect();
    (hits, answer["notices"].clone())
}

#[test]
fn passages_come_in_the_order_of_the_cross_encoder_that_was_pulled() {
    let Some(peers) = sdk::peers() else { return };
    let (data, notes, made) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, text) in NOTES {
        std::fs::write(notes.path().join(format!("{name}.md")), text).unwrap();
    }
    knowledge(data.path(), &["add", "birds", notes.path().to_str().unwrap()]);
    let pairs = NOTES.map(|(_, text)| json!([QUESTION, text]));
    let judged = tiny_model(&peers, made.path(), "reranker", &pairs);
    let from = made.path().to_str().unwrap();
    let pulled = try_hindcast(data.path(), &["models", "pull", "tiny", "--from", from]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let ollama = ollama();
    let chosen = settings(data.path(), &ollama, &["--model", "ollama:letters"]);
    assert!(chosen.status.success(), "{}", String::from_utf8_lossy(&chosen.stderr));

    let data = Arc::new(data);
    let search_with = |reranker: &str| {
        let environment =
            [("HINDCAST_KNOWLEDGE_OLLAMA_URL", &*ollama), ("HINDCAST_KNOWLEDGE_RERANKER", reranker)];
        found(&mut Client::over(data.clone(), &environment))
    };
    let names = |hits: &[(String, f64)]| hits.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut expected: Vec<_> = NOTES
        .iter()
        .zip(judged.as_array().unwrap())
        .map(|((name, _), judgement)| (judgement.as_f64().unwrap(), (*name).to_owned()))
        .collect();
    expected.sort_by(|(one, _), (other, _)| other.total_cmp(one));

    let (reranked, notices) = search_with("tiny");
    assert_eq!(names(&reranked), expected.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>());
    assert_eq!(notices, Value::Null);
    for ((name, score), (judgement, _)) in reranked.iter().zip(&expected) {
        let relevance = (judgement + 6.0) / 12.0;
        assert!((score - relevance).abs() < 0.01, "{name}: {score} instead of {relevance}");
    }

    // One that is not installed is not missed, and neither is any where none is wanted.
    let (usual, notices) = search_with("nowhere");
    assert_eq!((&*usual[0].0, notices), ("heron", Value::Null));
    assert_ne!(names(&usual), names(&reranked));
    assert_eq!(search_with("off"), (usual.clone(), Value::Null));

    // One that is damaged is told of, and the passages come as without it.
    let checkpoint = data.path().join("models/tiny/model.safetensors");
    let whole = std::fs::read(&checkpoint).unwrap();
    std::fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
    let (hits, notices) = search_with("tiny");
    assert_eq!(hits, usual);
    let notice = notices[0].as_str().unwrap_or_default();
    assert!(notice.starts_with("the passages were not reranked: "), "{notices}");
}
