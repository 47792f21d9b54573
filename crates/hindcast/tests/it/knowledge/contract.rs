//! Every request and answer of the contract, over a store with the same four collections.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};

use serde_json::{Value, json};

use super::{Client, seeded, until};
use crate::server::{hindcast, vectors_url};

/// The pairs of the contract, in its order.
fn contract() -> Vec<Value> {
    serde_json::from_str(include_str!("contract.json")).unwrap()
}

/// What a model server says about the contract's sixteen models; the questions that were asked are in the store.
fn model_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut models = vec![
        json!({ "name": "gemma3:12b", "size": 12_300_000_000_u64, "digest": "1" }),
        json!({ "name": "qwen3:latest", "size": 8_700_000_000_u64, "digest": "2" }),
        json!({ "name": "llama3.1:8b", "size": 7_200_000_000_u64, "digest": "3" }),
        json!({ "name": "nomic-embed-text:latest", "size": 274_302_450_u64, "digest": "4" }),
    ];
    models.extend((5..=16).map(|number| {
        json!({ "name": format!("other:{number}b"), "size": 6_750_000_000_u64, "digest": number.to_string() })
    }));
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let models = models.clone();
            std::thread::spawn(move || serve_models(socket, &models));
        }
    });
    address
}

fn serve_models(mut socket: std::net::TcpStream, models: &[Value]) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() <= 2 {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let asked = String::from_utf8(body).unwrap();
    let answer = if head.starts_with("GET /api/tags") {
        json!({ "models": models })
    } else if asked.contains("nomic") {
        json!({ "capabilities": ["embedding"], "model_info": { "nomic-bert.embedding_length": 768 } })
    } else if asked.contains("gemma") {
        json!({ "capabilities": ["completion"] })
    } else {
        json!({ "capabilities": ["completion", "tools"] })
    };
    let answer = answer.to_string();
    let _ = write!(
        socket,
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
}

fn stage() -> Client {
    let folder = tempfile::tempdir().unwrap();
    // Makes the tables.
    hindcast(folder.path(), &["knowledge", "reindex"]);
    let pairs = contract();
    let chapter = pairs[2]["response"]["result"]["contents"][0]["text"].as_str().unwrap();
    seeded::fill(folder.path(), chapter);
    Client::over(folder, &[("HINDCAST_KNOWLEDGE_OLLAMA_URL", &model_server())])
}

/// The JSON inside a resource's text.
fn inside(answer: &Value) -> Value {
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(
        text.starts_with("{\n  \"") || text.starts_with("[\n  {\n    \""),
        "it is not written with two spaces"
    );
    serde_json::from_str(text).unwrap()
}

/// The same names in the same order, and values of the same kinds; the longer list may go on.
fn check_shape(path: &str, expected: &Value, found: &Value) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(expected), names(found), "{path}");
            for (name, value) in expected {
                check_shape(&format!("{path}.{name}"), value, &found[name]);
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                check_shape(&format!("{path}[{index}]"), expected, found);
            }
        }
        _ => assert_eq!(
            std::mem::discriminant(expected),
            std::mem::discriminant(found),
            "{path}: {expected} and {found}"
        ),
    }
}

#[test]
fn every_pair_of_the_contract_is_answered_as_it_is_written() {
    let mut client = stage();
    let pairs = contract();
    // Figures are told of indexes that have caught up.
    until("the indexes have caught up", || {
        client.read_json("resource://knowledge/AI_Engineering/stats")["healthStatus"]["isHealthy"] == true
    });
    let mut answers = Vec::new();
    for pair in &pairs[..6] {
        answers.push(client.send(&pair["request"]));
    }
    let expected = |index: usize| &pairs[index]["response"];

    // 1: the catalogue has every resource of the contract, and those it leaves out.
    let listed = answers[0]["result"]["resources"].as_array().unwrap();
    for resource in expected(0)["result"]["resources"].as_array().unwrap() {
        let found = listed.iter().find(|found| found["uri"] == resource["uri"]).expect("it is listed");
        if resource["uri"] == "resource://knowledge/Heliograph_Test_Document/documents" {
            // The contract writes this one's id where it writes the others' names.
            let description = resource["description"].as_str().unwrap().replace('_', " ");
            assert_eq!(found["description"], description);
            continue;
        }
        assert_eq!(found, resource);
    }
    // They come in the contract's order, collection by collection.
    let place = |uri: &Value| listed.iter().position(|found| found["uri"] == *uri);
    let wanted = expected(0)["result"]["resources"].as_array().unwrap();
    assert!(wanted.iter().map(|resource| place(&resource["uri"])).is_sorted(), "{listed:?}");

    // 2: the collections, word for word.
    assert_eq!(answers[1], *expected(1));
    // 3: a whole document, word for word.
    assert_eq!(answers[2], *expected(2));

    // 4: the contract shows four of the twelve documents.
    let documents = inside(&answers[3]);
    assert_eq!(documents.as_array().unwrap().len(), 12);
    assert_eq!(documents.as_array().unwrap()[..4], *inside(expected(3)).as_array().unwrap());

    // 5: health, with our own vector store in the place of Qdrant unless there is one, and our own times and sizes.
    let (health, wanted) = (inside(&answers[4]), inside(expected(4)));
    let vector_store = if vectors_url().is_some() { "qdrantVectorStore" } else { "embeddedVectorStore" };
    let rename = |health: &Value| {
        let text = health.to_string().replace("qdrantVectorStore", vector_store);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    check_shape("health", &rename(&wanted), &health);
    for name in ["status", "healthScore", "synchronization", "recommendations"] {
        let own = health[name].as_array().map(|sentences| json!(sentences[..2]));
        assert_eq!(own.as_ref().unwrap_or(&health[name]), &wanted[name], "{name}: {health}");
    }
    for name in ["successRate", "averageResponseTime", "errorsLast24Hours", "totalConversations"] {
        assert_eq!(health["metrics"][name], wanted["metrics"][name], "{name}");
    }
    assert_eq!(health["components"]["sqliteDatabase"]["knowledgeBases"], 4);
    assert_eq!(health["components"][vector_store]["collections"], 4);
    assert_eq!(health["components"]["ollama"]["models"], 16);
    assert_eq!(health["components"]["ollama"]["totalModelSize"], "109.5 GB");

    // 6: statistics; what the vectors take depends on the model, and when it was checked on the clock.
    let (mut stats, mut wanted) = (inside(&answers[5]), inside(expected(5)));
    check_shape("stats", &wanted, &stats);
    assert!(stats["storageMetrics"]["vectorStorageBytes"].as_u64().unwrap() >= 1221 * 384 * 4);
    for stats in [&mut stats, &mut wanted] {
        stats["storageMetrics"]["vectorStorageBytes"] = Value::Null;
        stats["healthStatus"]["lastHealthCheck"] = Value::Null;
    }
    assert_eq!(stats, wanted);

    // 7: the subscription, and its notification when the document changes.
    assert_eq!(client.send(&pairs[6]["request"]), *expected(6));
    let uri = pairs[6]["notification"]["params"]["uri"].as_str().unwrap();
    let change =
        json!({ "collection": "Knowledge_Manager", "name": "api-reference", "text": "# API\n\nAll new." });
    assert_eq!(client.call("knowledge/add", change)["updated"], 1);
    client.hear(uri);

    // 8: the models; the contract shows four of sixteen.
    let (models, wanted) = (inside(&client.send(&pairs[7]["request"])), inside(expected(7)));
    for name in ["totalModels", "totalSize", "recommendations"] {
        assert_eq!(models[name], wanted[name], "{name}");
    }
    for model in wanted["models"].as_array().unwrap() {
        let rows = models["models"].as_array().unwrap();
        let mut found = rows.iter().find(|found| found["name"] == model["name"]).unwrap().clone();
        if model["purpose"] == "embedding" {
            // We make vectors ourselves, so Ollama's embedding model is never used.
            assert_eq!(found["lastUsed"], Value::Null);
            found["lastUsed"] = model["lastUsed"].clone();
        }
        assert_eq!(found, *model);
    }

    // 9 and 10: the errors, with a hint beside what the contract has.
    for pair in &pairs[8..] {
        let mut answer = client.send(&pair["request"]);
        let hint = answer["error"]["data"].as_object_mut().unwrap().remove("hint");
        assert!(hint.is_some_and(|hint| hint.as_str().is_some_and(|hint| !hint.is_empty())));
        assert_eq!(answer, pair["response"]);
    }
}

#[test]
fn a_collection_may_have_an_id_that_does_not_follow_from_its_name() {
    let mut client = Client::new();
    let (name, id) = ("Machine Learning With Python", "machine_Learning_With_python");
    let add = |collection: &str, id: &str, name: &str| json!({ "collection": collection, "collection_id": id, "name": name, "text": "words" });
    assert_eq!(client.call("knowledge/add", add(name, id, "one"))["collection"], id);
    assert_eq!(client.call("knowledge/add", add(name, id, "two"))["documents"], 2);
    let collections = client.read_json("resource://knowledge/collections");
    assert_eq!((&collections[0]["id"], &collections[0]["name"]), (&json!(id), &json!(name)));
    let listed = client.request("resources/list", json!({}));
    let uri = format!("resource://knowledge/{id}/documents");
    let listed = listed["result"]["resources"].as_array().unwrap();
    let found = listed.iter().find(|one| one["uri"] == uri).expect("it is listed by its id");
    assert_eq!(found["name"], format!("{name} - All Documents"));
    assert_eq!(
        found["description"],
        format!("List of all documents in {name} collection (2 documents, 2 chunks)")
    );
    // One name has one id, and one id one name.
    for (collection, id) in [(name, "other"), ("Other", id), ("Other", "a/b")] {
        let arguments = add(collection, id, "three");
        let refused =
            client.request("tools/call", json!({ "name": "knowledge/add", "arguments": arguments }));
        assert_eq!(refused["error"]["code"], -32602, "{collection} {id}");
        crate::server::helpful_error(&refused);
    }
}

#[test]
fn what_was_asked_of_everything_is_no_topic_of_a_collection() {
    let mut client = Client::new();
    for (collection, text) in [("fish", "the river has a salmon"), ("birds", "the river has a heron")] {
        client.call("knowledge/add", json!({ "collection": collection, "name": "n", "text": text }));
    }
    client.call("knowledge/search", json!({ "query": "river", "min_relevance": 0.0 }));
    let asked = json!({ "query": "salmon ladders", "collection": "fish", "min_relevance": 0.0 });
    client.call("knowledge/search", asked);
    let mut usage = |id: &str| {
        let stats = client.read_json(&format!("resource://knowledge/{id}/stats"));
        (
            stats["usageStatistics"]["totalQueries"].clone(),
            stats["usageStatistics"]["mostQueriedTopics"].clone(),
        )
    };
    assert_eq!(usage("fish"), (json!(2), json!(["salmon ladders"])));
    assert_eq!(usage("birds"), (json!(1), json!([])));
}

#[test]
fn templates_are_offered_and_their_ids_completed() {
    let mut client = Client::new();
    for (collection, name) in [("Alpha Notes", "one"), ("Alpha Notes", "only"), ("Beta", "two")] {
        client.call("knowledge/add", json!({ "collection": collection, "name": name, "text": "some words" }));
    }
    let listed = client.request("resources/templates/list", json!({}));
    let templates = listed["result"]["resourceTemplates"].as_array().unwrap();
    let template = "resource://knowledge/{collectionId}/document/{docId}";
    assert!(templates.iter().any(|known| known["uriTemplate"] == template), "{listed}");
    let mut complete = |name: &str, typed: &str| {
        let reference = json!({ "type": "ref/resource", "uri": template });
        let argument = json!({ "name": name, "value": typed });
        let answer = client.request("completion/complete", json!({ "ref": reference, "argument": argument }));
        answer["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("collectionId", "Al"), json!(["Alpha_Notes"]));
    assert_eq!(complete("docId", "on"), json!(["one", "only"]));
}

#[test]
fn long_lists_come_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    for number in 0..210 {
        std::fs::write(files.path().join(format!("{number}.txt")), format!("number {number}")).unwrap();
    }
    hindcast(folder.path(), &["knowledge", "add", "numbers", files.path().to_str().unwrap()]);
    let mut client = Client::over(folder, &[]);
    let first = client.request("resources/list", json!({}));
    assert_eq!(first["result"]["resources"].as_array().unwrap().len(), 200);
    let cursor = first["result"]["nextCursor"].clone();
    let rest = client.request("resources/list", json!({ "cursor": cursor }));
    let uris = [&first, &rest].map(|page| page["result"]["resources"].as_array().unwrap().clone()).concat();
    let documents =
        uris.iter().map(|one| one["uri"].as_str().unwrap()).filter(|uri| uri.contains("/document/"));
    assert_eq!(documents.collect::<std::collections::BTreeSet<_>>().len(), 210);
    for cursor in ["100000", "0", "x"] {
        let refused = client.request("resources/list", json!({ "cursor": cursor }));
        assert_eq!(refused["error"]["code"], -32602, "{cursor}: {refused}");
    }
    assert!(rest["result"].get("nextCursor").is_none());
}
