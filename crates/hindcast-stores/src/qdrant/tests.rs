use hindcast_core::knowledge::{ChunkId, CollectionKey, Generation, VectorEntry, VectorRead};
use hindcast_fixtures::{
    oracle_size,
    qdrant::{Anywhere, Server},
};

use super::*;
use crate::vector_tests::{DIMENSION, MODEL, add, nearest, truth, vector, vector_of};

const ONE: CollectionKey = CollectionKey(1);

fn at(url: &str, truth: &str) -> Qdrant {
    let settings = QdrantSettings { url: url.into(), api_key: None, tls_ca: None, truth: truth.into() };
    Qdrant::new(&settings).unwrap()
}

#[test]
fn names_of_collections_tell_truths_models_and_dimensions_apart() {
    let name = collection_name("one", "all-MiniLM-L6-v2", 384);
    assert!(name.contains("-all-minilm-l6-v2-") && name.ends_with("-384"), "{name}");
    assert_ne!(name, collection_name("another", "all-MiniLM-L6-v2", 384));
    assert_ne!(collection_name("a", "ollama:x/y", 1), collection_name("a", "ollama:x-y", 1));
    let odd = collection_name("a", &"ö/ ?#".repeat(100), 1);
    assert!(odd.len() < 120 && odd.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{odd}");
}

#[test]
fn what_one_server_has_committed_another_sees_and_two_truths_do_not_mix() {
    let Some(server) = Anywhere::start() else { return };
    let qdrant = at(&server.url(), &truth());
    let (one, other) = (qdrant.index(MODEL, DIMENSION), qdrant.index(MODEL, DIMENSION));
    assert_eq!(one.generation().unwrap(), None);
    add(&one, ONE, 1..=50);
    one.commit(Generation(7)).unwrap();
    assert_eq!((other.generation().unwrap(), other.len().unwrap()), (Some(Generation(7)), 50));
    assert_eq!(nearest(&other, 33, None), Some(33));

    let stranger = at(&server.url(), &truth());
    let foreign = stranger.index(MODEL, DIMENSION);
    assert_eq!((foreign.generation().unwrap(), foreign.is_empty().unwrap()), (None, true));
    assert_eq!(foreign.collections().unwrap(), []);

    let wanted: Vec<_> = (45..55).map(ChunkId).collect();
    assert_eq!(other.absent(&wanted).unwrap(), (51..55).map(ChunkId).collect::<Vec<_>>());
    qdrant.remove_all().unwrap();
    stranger.remove_all().unwrap();
    assert!(matches!(one.nearest(&vector(1), None, None, 1), Err(IndexError::Lost { .. })));
}

#[test]
fn an_emptied_server_is_noticed_and_filled_again() {
    let Some(mut server) = Server::start() else { return };
    let index = at(&server.url(), &truth()).index(MODEL, DIMENSION);
    add(&index, ONE, 1..=20);
    index.commit(Generation(3)).unwrap();
    server.empty();
    assert!(matches!(index.nearest(&vector(1), Some(&[ONE]), None, 1), Err(IndexError::Lost { .. })));
    assert_eq!(index.generation().unwrap(), None);
    assert!(index.is_empty().unwrap());
    add(&index, ONE, 1..=20);
    assert_eq!(nearest(&index, 7, None), Some(7));
}

#[test]
fn what_was_acknowledged_outlives_a_kill_and_what_is_down_is_said_without_its_address() {
    let Some(mut server) = Server::start() else { return };
    let index = at(&server.url(), &truth()).index(MODEL, DIMENSION);
    add(&index, ONE, 1..=500);
    index.commit(Generation(9)).unwrap();
    server.kill();
    let error = index.nearest(&vector(1), None, None, 1).unwrap_err();
    assert_eq!(error.to_string(), "Qdrant, which keeps the vectors, does not answer");
    let IndexError::Unreachable { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("127.0.0.1"), "{reason}");
    server.go_on();
    // The last failure is still fresh.
    let started = std::time::Instant::now();
    while index.generation().is_err() {
        assert!(started.elapsed().as_secs() < 60);
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    assert_eq!((index.generation().unwrap(), index.len().unwrap()), (Some(Generation(9)), 500));
}

#[test]
fn a_collection_of_other_vectors_is_refused_with_what_differs() {
    let Some(server) = Anywhere::start() else { return };
    let truth = truth();
    let qdrant = at(&server.url(), &truth);
    let name = collection_name(&truth, MODEL, DIMENSION);
    let made = QdrantIndex::new(qdrant.client.clone(), &name, MODEL, 3);
    made.generation().unwrap();
    let error = qdrant.index(MODEL, DIMENSION).generation().unwrap_err();
    let IndexError::Mismatch { found, expected, .. } = &error else { panic!("{error:?}") };
    assert!(found.contains("of 3 numbers") && expected.contains("of 16 numbers"), "{error}");

    made.commit(Generation(1)).unwrap();
    let error = QdrantIndex::new(qdrant.client.clone(), &name, "another", 3).generation().unwrap_err();
    assert!(matches!(&error, IndexError::Mismatch { found, .. } if found.contains(MODEL)), "{error}");
    qdrant.remove_all().unwrap();
}

#[test]
fn the_key_is_sent_and_a_wrong_one_is_told_to_the_operator() {
    let Some(server) = Server::start_with(&[("QDRANT__SERVICE__API_KEY", "sesame")]) else { return };
    let with = |key: Option<&str>| {
        let api_key = key.map(str::to_owned);
        Qdrant::new(&QdrantSettings { url: server.url(), api_key, tls_ca: None, truth: truth() }).unwrap()
    };
    let found = with(Some("sesame")).look().unwrap();
    assert!(found.to_string().starts_with("Qdrant 1.") && found.is_private, "{found}");
    with(Some("sesame")).index(MODEL, DIMENSION).commit(Generation(1)).unwrap();
    for key in [None, Some("guess")] {
        let error = with(key).index(MODEL, DIMENSION).generation().err().unwrap();
        let IndexError::Refused { reason, .. } = &error else { panic!("{error:?}") };
        assert!(reason.starts_with("401") && !format!("{error:?}").contains("guess"), "{error:?}");
        assert!(with(key).look().is_err());
    }
}

#[test]
fn certificates_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let settings = [
        ("QDRANT__SERVICE__ENABLE_TLS", "true"),
        ("QDRANT__TLS__CERT", certificate.to_str().unwrap()),
        ("QDRANT__TLS__KEY", key.to_str().unwrap()),
    ];
    let Some(server) = Server::start_with(&settings) else { return };
    let trusting = |tls_ca: Option<PathBuf>| {
        Qdrant::new(&QdrantSettings { url: server.tls_url(), api_key: None, tls_ca, truth: truth() })
            .unwrap()
            .look()
    };
    assert!(trusting(Some(certificate)).unwrap().is_private);
    let error = trusting(None).err().unwrap();
    assert!(
        matches!(&error, IndexError::Unreachable { reason, .. } if reason.contains("ertificate")),
        "{error:?}"
    );
    assert!(trusting(Some(key)).is_err(), "a file without a certificate");
}

#[test]
fn a_cluster_answers_after_it_has_lost_a_node_and_takes_more_when_it_has_noticed() {
    let Some(mut nodes) = Server::start_cluster(2) else { return };
    let truth = truth();
    let indexes: Vec<_> = nodes.iter().map(|node| at(&node.url(), &truth).index(MODEL, DIMENSION)).collect();
    add(&indexes[0], ONE, 1..=300);
    indexes[0].commit(Generation(1)).unwrap();
    nodes[0].kill();
    assert_eq!(nearest(&indexes[1], 123, None), Some(123));
    assert_eq!(indexes[1].len().unwrap(), 300);
    assert_eq!(indexes[1].generation().unwrap(), Some(Generation(1)));
    // The cluster needs half a minute to notice, so this is tried with the long tests only.
    if oracle_size(0, 1) == 0 {
        return;
    }
    // Whether the first write after the loss was done is not said; repeating it does no harm.
    let moved = vector(1000);
    let entry = VectorEntry { chunk: ChunkId(301), collection: ONE, vector: &moved };
    let started = std::time::Instant::now();
    while indexes[1].add(&[entry]).is_err() {
        assert!(started.elapsed().as_secs() < 120);
        std::thread::park_timeout(std::time::Duration::from_millis(200));
    }
    assert_eq!(nearest(&indexes[1], 1000, None), Some(301));
}

/// As an index that is so large that it has a graph, and tenants with graphs of their own.
#[test]
fn nearly_all_of_the_true_nearest_are_found_in_one_some_and_all_collections() {
    const NUMBERS: usize = 64;
    const QUESTIONS: i64 = 50;
    let vectors = i64::try_from(oracle_size(9_000, 24_000)).unwrap();
    let settings = [
        ("QDRANT__STORAGE__OPTIMIZERS__INDEXING_THRESHOLD_KB", "100"),
        ("QDRANT__STORAGE__HNSW_INDEX__FULL_SCAN_THRESHOLD_KB", "50"),
    ];
    let Some(server) = Server::start_with(&settings) else { return };
    let truth = truth();
    let qdrant = at(&server.url(), &truth);
    let index = qdrant.index(MODEL, NUMBERS);
    let collection = |chunk: i64| CollectionKey(chunk % 3);
    let all: Vec<_> = (1..=vectors).map(|chunk| (chunk, vector_of(chunk, NUMBERS))).collect();
    let entry = |(chunk, vector): &'_ (i64, Vec<f32>)| (ChunkId(*chunk), collection(*chunk), vector.clone());
    for batch in all.chunks(4_000) {
        let batch: Vec<_> = batch.iter().map(entry).collect();
        let entries: Vec<_> = batch
            .iter()
            .map(|(chunk, collection, vector)| VectorEntry { chunk: *chunk, collection: *collection, vector })
            .collect();
        index.add(&entries).unwrap();
    }
    let path = format!("collections/{}", collection_name(&truth, MODEL, NUMBERS));
    let started = std::time::Instant::now();
    loop {
        let info = qdrant.client.get::<serde_json::Value>(&path).unwrap().unwrap();
        let has_graph =
            info["indexed_vectors_count"].as_i64().is_some_and(|indexed| indexed >= vectors * 9 / 10);
        if has_graph && info["status"] == "green" {
            break;
        }
        assert!(started.elapsed().as_secs() < 120, "{info}");
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    for within in [vec![0], vec![1, 2], vec![0, 1, 2]] {
        let within: Vec<_> = within.into_iter().map(CollectionKey).collect();
        let mut same = 0;
        for question in 0..QUESTIONS {
            let query = vector_of(1_000_000 + question, NUMBERS);
            let mut scored: Vec<(f32, i64)> = all
                .iter()
                .filter(|(chunk, _)| within.contains(&collection(*chunk)))
                .map(|(chunk, vector)| {
                    (vector.iter().zip(&query).map(|(one, other)| one * other).sum(), *chunk)
                })
                .collect();
            scored.sort_by(|one, other| other.0.total_cmp(&one.0));
            let found = index.nearest(&query, Some(&within), None, 100).unwrap();
            assert_eq!(found.len(), 100);
            assert!(found.iter().all(|hit| within.contains(&collection(hit.chunk.0))));
            same += scored[..10]
                .iter()
                .filter(|(_, chunk)| found[..10].iter().any(|hit| hit.chunk.0 == *chunk))
                .count();
        }
        let all = 10 * usize::try_from(QUESTIONS).unwrap();
        println!("{same} of {all} within {within:?}");
        assert!(same * 100 >= all * 98, "{same} of {all} within {within:?}");
    }
}
