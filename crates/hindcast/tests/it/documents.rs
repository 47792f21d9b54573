//! XML documents over the wire and on the command line, on real files.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    debugger::is_alive,
    hosted::children_of,
    server::{Local, Server, command, eventually, helpful_error},
};

const ORDER: &str = "<order xmlns='urn:shop'>\n  <item id='a'>7</item>\n  <item id='b'>9</item>\n</order>\n";

const SCHEMA: &str = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema' targetNamespace='urn:shop' elementFormDefault='qualified'>\
    <xs:include schemaLocation='types.xsd'/><xs:element name='order'><xs:complexType><xs:sequence>\
    <xs:element name='item' maxOccurs='unbounded'><xs:complexType><xs:simpleContent><xs:extension base='xs:int'>\
    <xs:attribute name='id'/></xs:extension></xs:simpleContent></xs:complexType></xs:element>\
    </xs:sequence></xs:complexType></xs:element></xs:schema>";

const TYPES: &str = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'/>";

/// A server and a folder of documents that it may read.
struct Shelf {
    server: Server,
    key: String,
    folder: PathBuf,
    kept: tempfile::TempDir,
}

impl Shelf {
    fn open() -> Self {
        Self::open_with(&[])
    }

    fn open_with(environment: &[(&str, &str)]) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().canonicalize().unwrap().join("shelf");
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in [("order.xml", ORDER), ("order.xsd", SCHEMA), ("types.xsd", TYPES)] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let allowed = [("HINDCAST_DOCUMENTS_ALLOWED_FOLDERS", folder.to_str().unwrap())];
        let server = Server::start_with(&[&allowed, environment].concat());
        let key = server.unlimited_key();
        Self { server, key, folder, kept }
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.server.call(&self.key, tool, arguments)
    }

    fn answer(&self, tool: &str, arguments: Value) -> (String, Value) {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (text.to_owned(), result["structuredContent"].clone())
    }

    fn refused(&self, tool: &str, arguments: Value) -> Value {
        helpful_error(&self.call(tool, arguments))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    /// The server's worker processes.
    fn workers(&self) -> Vec<u64> {
        children_of(self.server.pid().into()).into_iter().filter(|process| is_alive(*process)).collect()
    }
}

#[test]
fn a_query_gives_nodes_with_path_line_and_column() {
    let shelf = Shelf::open();
    let namespaces = json!({ "s": "urn:shop" });
    let (text, content) = shelf.answer(
        "xpath_query",
        json!({ "document": "order.xml", "query": "//s:item", "namespaces": namespaces }),
    );
    assert!(text.starts_with("Query returned 2 nodes:\n2:3 /order[1]/item[1]\n"), "{text}");
    let node = &content["nodes"][1];
    assert_eq!(
        (&node["line"], &node["column"], &node["path"]),
        (&json!(3), &json!(3), &json!("/order[1]/item[2]"))
    );
    assert_eq!(node["xml"], "<item xmlns=\"urn:shop\" id=\"b\">9</item>");
    for (query, kind, value) in [
        ("sum(//s:item)", "number", "16"),
        ("//s:item = 9", "boolean", "true"),
        ("string(//@id)", "string", "a"),
    ] {
        let asked = json!({ "document": "order.xml", "query": query, "namespaces": namespaces });
        let content = shelf.answer("xpath_query", asked).1;
        assert_eq!((&content["type"], &content["value"]), (&json!(kind), &json!(value)), "{query}");
    }
}

#[test]
fn nodes_past_the_limit_come_page_by_page() {
    let shelf = Shelf::open();
    shelf.write("many.xml", &format!("<a>{}</a>", "<b/>".repeat(25)));
    let mut offset = json!(0);
    let mut seen = 0;
    while !offset.is_null() {
        let asked = json!({ "document": "many.xml", "query": "//b", "limit": 10, "offset": offset });
        let content = shelf.answer("xpath_query", asked).1;
        assert_eq!(content["total"], 25);
        seen += content["nodes"].as_array().unwrap().len();
        offset = content["next_offset"].clone();
    }
    assert_eq!(seen, 25);
}

#[test]
fn a_query_that_misses_the_default_namespace_is_told_so() {
    let shelf = Shelf::open();
    let (text, content) = shelf.answer("xpath_query", json!({ "document": "order.xml", "query": "//item" }));
    assert_eq!(content["total"], 0);
    assert!(text.contains("default namespace `urn:shop`"), "{text}");
    let asked = json!({ "document": "order.xml", "query": "//item", "namespaces": { "": "urn:shop" } });
    let content = shelf.answer("xpath_query", asked).1;
    assert_eq!((&content["total"], content.get("hint")), (&json!(2), None));
}

#[test]
fn a_document_conforms_or_every_violation_is_told() {
    let shelf = Shelf::open();
    let judged = json!({ "document": "order.xml", "schema": "order.xsd" });
    let (text, content) = shelf.answer("validate_schema", judged.clone());
    assert_eq!(text, "Validation result: VALID\nDocument conforms to schema.");
    assert_eq!((&content["valid"], &content["cached"]), (&json!(true), &json!(false)));
    assert_eq!(shelf.answer("validate_schema", judged.clone()).1["cached"], true, "nothing has changed");
    shelf.write("order.xml", "<order xmlns='urn:shop'>\n  <item>x</item>\n  <thing/>\n</order>");
    let error = shelf.refused("validate_schema", judged.clone());
    assert_eq!((&error["code"], &error["message"]), (&json!(-32009), &json!("Schema validation failed")));
    let data = &error["data"];
    assert_eq!(data["total"], data["violations"].as_array().unwrap().len(), "{data}");
    let misplaced = &data["violations"][1];
    assert_eq!(
        (&misplaced["line"], &misplaced["column"], &misplaced["found"]),
        (&json!(3), &json!(3), &json!("<thing>")),
        "{data}"
    );
    assert_eq!(misplaced["expected"], json!(["{urn:shop}item"]), "{data}");
    // Many are counted, the first are told.
    let many = "<item>x</item>".repeat(250);
    shelf.write("order.xml", &format!("<order xmlns='urn:shop'>{many}</order>"));
    let error = shelf.refused("validate_schema", judged.clone());
    let told = error["data"]["violations"].as_array().unwrap().len();
    assert_eq!((&error["data"]["total"], told), (&json!(250), 200));
    // The schema is wrong, not the document.
    shelf.write(
        "types.xsd",
        "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element/></xs:schema>",
    );
    let error = shelf.refused("validate_schema", judged);
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["data"]["details"].as_str().unwrap().contains("the schema is not valid"), "{error}");
}

#[test]
fn what_is_not_below_an_allowed_folder_is_refused() {
    let shelf = Shelf::open();
    let outside = shelf.kept.path().join("secret.xml");
    std::fs::write(&outside, "<secret/>").unwrap();
    std::os::unix::fs::symlink(&outside, shelf.folder.join("link.xml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", shelf.folder.join("zero.xml")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(shelf.folder.join("pipe.xml")).status().unwrap().success()
    );
    let absolute = outside.to_str().unwrap();
    for document in [
        absolute,
        "../secret.xml",
        "link.xml",
        "zero.xml",
        "pipe.xml",
        "/dev/zero",
        "/etc/passwd",
        "../missing.xml",
        "http://127.0.0.1:9/a.xml",
        "file:///etc/passwd",
        ".",
    ] {
        let error = shelf.refused("xpath_query", json!({ "document": document, "query": "/" }));
        assert_eq!(error["code"], -32003, "{document}: {error}");
        let error = shelf.refused("validate_schema", json!({ "document": "order.xml", "schema": document }));
        assert_eq!(error["code"], -32003, "{document}: {error}");
    }
    for document in ["missing.xml", "order.xml/x", "doc-99"] {
        let error = shelf.refused("xpath_query", json!({ "document": document, "query": "/" }));
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32008), &json!("Document not found")),
            "{document}"
        );
    }
    // What the schema names is held to the same.
    shelf.write("order.xsd", &SCHEMA.replace("types.xsd", "../secret.xml"));
    let error = shelf.refused("validate_schema", json!({ "document": "order.xml", "schema": "order.xsd" }));
    assert!(error["data"]["details"].as_str().unwrap().contains("is not read"), "{error}");
}

#[test]
fn a_server_reads_nothing_until_a_folder_is_set() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let error =
        helpful_error(&server.call(&key, "xpath_query", json!({ "document": "/etc/passwd", "query": "/" })));
    assert_eq!(error["code"], -32003);
    assert!(error["data"]["hint"].as_str().unwrap().contains("documents.allowed_folders"), "{error}");
}

#[test]
fn a_local_server_reads_the_working_folder_and_nothing_else() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("work");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("order.xml"), ORDER).unwrap();
    std::fs::write(kept.path().join("secret.xml"), "<secret/>").unwrap();
    let mut server = Local::start_at(&folder).initialize();
    let mut ask = |document: &str| {
        let arguments = json!({ "document": document, "query": "count(//*)" });
        let params = json!({ "name": "xpath_query", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        server.send(call.to_string().as_bytes());
        server.answer().unwrap()
    };
    assert_eq!(ask("order.xml")["result"]["structuredContent"]["value"], "3");
    for outside in ["../secret.xml", "/etc/passwd"] {
        assert_eq!(ask(outside)["error"]["code"], -32003, "{outside}");
    }
}

#[test]
fn the_cache_is_bounded_counts_and_notices_changes() {
    // Each document takes about 0.6 MB: one fits beside the small ones, two do not.
    let shelf = Shelf::open_with(&[("HINDCAST_DOCUMENTS_CACHE_BYTES", "1000000")]);
    for name in ["one.xml", "two.xml"] {
        shelf.write(name, &format!("<a>{}</a>", "<b/>".repeat(18_000)));
    }
    let count = |document: &str| {
        shelf.answer("xpath_query", json!({ "document": document, "query": "count(//*)" })).1
    };
    let (text, loaded) =
        shelf.answer("preload_documents", json!({ "documents": ["order.xml", "nothing.xml"] }));
    assert!(text.starts_with("Loaded 1 of 2 documents:"), "{text}");
    let id = loaded["documents"][0]["id"].as_str().unwrap();
    assert_eq!(count(id)["cached"], true, "an id stands for the path");
    shelf.write("order.xml", "<a><b/><b/><b/></a>");
    let changed = count("order.xml");
    assert_eq!((&changed["value"], &changed["cached"]), (&json!("4"), &json!(false)));
    for name in ["one.xml", "one.xml", "two.xml"] {
        count(name);
    }
    let stats = shelf.answer("cache_stats", json!({})).1;
    assert_eq!((&stats["hits"], &stats["reloads"]), (&json!(2), &json!(1)), "{stats}");
    let (hits, misses) = (stats["hits"].as_f64().unwrap(), stats["misses"].as_f64().unwrap());
    assert_eq!(stats["hit_rate"], hits / (hits + misses), "{stats}");
    assert!((0..60_000).contains(&stats["documents"][0]["age_ms"].as_i64().unwrap()), "{stats}");
    assert!(
        stats["evictions"].as_u64().unwrap() > 0 && stats["bytes"].as_u64().unwrap() <= 1_000_000,
        "{stats}"
    );
    assert_eq!(stats["documents"][0]["path"], shelf.folder.join("two.xml").to_str().unwrap(), "{stats}");
}

#[test]
fn a_caller_is_shown_what_it_has_used_itself() {
    let shelf = Shelf::open();
    let other = shelf.server.unlimited_key();
    let admin = shelf.server.key(&["--scope", "admin", "--scope", "document:read", "--tier", "enterprise"]);
    shelf.answer("xpath_query", json!({ "document": "order.xml", "query": "count(//*)" }));
    shelf.answer("validate_schema", json!({ "document": "order.xml", "schema": "order.xsd" }));
    let stats = |key: &str| {
        let answer = shelf.server.call(key, "cache_stats", json!({}));
        answer["result"]["structuredContent"].clone()
    };
    let nothing = stats(&other);
    for (field, value) in
        [("documents", json!([])), ("schemas", json!([])), ("misses", json!(0)), ("bytes", json!(0))]
    {
        assert_eq!(nothing[field], value, "{nothing}");
    }
    assert!(nothing.get("verdicts").is_none(), "{nothing}");
    let query = json!({ "document": "order.xml", "query": "count(//*)" });
    shelf.server.call(&other, "xpath_query", query);
    let own = stats(&other);
    assert_eq!(
        (&own["hits"], &own["misses"], &own["documents"][0]["hits"]),
        (&json!(1), &json!(0), &json!(1))
    );
    let first = shelf.answer("cache_stats", json!({})).1;
    assert_eq!((&first["hits"], &first["documents"][0]["hits"]), (&json!(0), &json!(0)), "{first}");
    let all = stats(&admin);
    assert_eq!((&all["hits"], &all["misses"], &all["verdicts"]), (&json!(1), &json!(1), &json!(1)), "{all}");
}

#[test]
fn concurrent_readers_share_one_parse() {
    let shelf = Shelf::open();
    shelf.write("big.xml", &format!("<a>{}</a>", "<b>text</b>".repeat(200_000)));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                shelf.answer("xpath_query", json!({ "document": "big.xml", "query": "count(//b)" }))
            });
        }
    });
    let stats = shelf.answer("cache_stats", json!({})).1;
    assert_eq!((&stats["misses"], &stats["hits"]), (&json!(1), &json!(5)), "{stats}");
}

/// A pattern that backtracks for ever, as far as the engine lets it.
const BOMB: &str = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='r'><xs:simpleType>\
    <xs:restriction base='xs:string'><xs:pattern value='((a*)*)*((a*)*)*(([a-z])+.)+[A-Z]([a-z])+(x|xx|xxx|x*)*y'/>\
    </xs:restriction></xs:simpleType></xs:element></xs:schema>";

/// A content model that becomes enormous.
const BLOAT: &str = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='r'><xs:complexType>\
    <xs:sequence maxOccurs='99999'><xs:sequence maxOccurs='99999'><xs:choice maxOccurs='99999'><xs:element name='a' maxOccurs='99999'/>\
    <xs:element name='b' minOccurs='77777' maxOccurs='99999'/></xs:choice></xs:sequence></xs:sequence></xs:complexType></xs:element></xs:schema>";

#[test]
fn hostile_work_is_given_up_while_others_are_answered() {
    let shelf = Shelf::open();
    shelf.write("bomb.xsd", BOMB);
    shelf.write("bomb.xml", &format!("<r>{}!</r>", "ax".repeat(5_000)));
    shelf.write("bloat.xsd", BLOAT);
    shelf.write("bloat.xml", &format!("<r>{}<c/></r>", "<a/>".repeat(2_000)));
    shelf.write("runaway.xml", &format!("<a>{}</a>", "<b><c/></b>".repeat(30_000)));
    shelf.write("laughs.xml", "<!DOCTYPE a [<!ENTITY x 'aaaaaaaaaa'><!ENTITY y '&x;&x;&x;&x;&x;&x;&x;&x;&x;&x;'><!ENTITY z '&y;&y;&y;&y;&y;&y;&y;&y;&y;&y;'>]><a>&z;</a>");
    std::fs::File::create(shelf.folder.join("huge.xml")).unwrap().set_len(500 << 20).unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let hostile = [
            ("validate_schema", json!({ "document": "bomb.xml", "schema": "bomb.xsd" })),
            ("validate_schema", json!({ "document": "bloat.xml", "schema": "bloat.xsd" })),
            (
                "xpath_query",
                json!({ "document": "runaway.xml", "query": "count(//*[count(//*[count(//*) > 1]) > 1])" }),
            ),
            ("xpath_query", json!({ "document": "huge.xml", "query": "/" })),
        ];
        let running: Vec<_> = hostile
            .into_iter()
            .map(|(tool, arguments)| scope.spawn(|| shelf.call(tool, arguments)))
            .collect();
        // Others are served meanwhile.
        for _ in 0..20 {
            shelf.answer("cache_stats", json!({}));
            shelf.answer("xpath_query", json!({ "document": "order.xml", "query": "count(//*)" }));
        }
        for answer in running {
            let answer = answer.join().unwrap();
            let code = answer["error"]["code"].as_i64().unwrap_or(0);
            assert!([-32602, -32009].contains(&code), "it is not answered: {answer}");
        }
    });
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert!(shelf.server.peak_bytes() < 300 << 20, "{}", shelf.server.peak_bytes());
    let content =
        shelf.answer("xpath_query", json!({ "document": "laughs.xml", "query": "string-length(/)" })).1;
    assert_eq!(content["value"], "1000", "few laughs are fine");
    let judged = json!({ "document": "order.xml", "schema": "order.xsd" });
    assert_eq!(shelf.answer("validate_schema", judged).1["valid"], true, "a new worker does the next task");
}

/// Documents that are made to hurt, as documents and as schemas.
fn hostile_documents(listener: &str) -> Vec<(&'static str, String)> {
    let laughs: String = (1..10)
        .map(|level| format!("<!ENTITY l{level} '{}'>", format!("&l{};", level - 1).repeat(10)))
        .collect();
    let numbered = |form: fn(u32) -> String| (0..1_000_000).map(form).collect::<String>();
    vec![
        ("laughs.xml", format!("<!DOCTYPE a [<!ENTITY l0 'lol'>{laughs}]><a>&l9;</a>")),
        (
            "quadratic.xml",
            format!("<!DOCTYPE a [<!ENTITY x '{}'>]><a>{}</a>", "x".repeat(100_000), "&x;".repeat(100_000)),
        ),
        ("file.xml", "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>".into()),
        ("http.xml", format!("<!DOCTYPE a [<!ENTITY x SYSTEM 'http://{listener}/x'>]><a>&x;</a>")),
        (
            "parameter.xml",
            format!(
                "<!DOCTYPE a SYSTEM 'http://{listener}/d' [<!ENTITY % p SYSTEM 'http://{listener}/p'> %p;]><a>&x;</a>"
            ),
        ),
        ("deep.xml", format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000))),
        ("names.xml", format!("<a>{}</a>", numbered(|number| format!("<x{number}/>")))),
        ("attributes.xml", format!("<a{}/>", numbered(|number| format!(" x{number}=''")))),
    ]
}

#[test]
fn hostile_documents_are_refused_in_little_memory() {
    let shelf = Shelf::open();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    for (name, text) in hostile_documents(&listener.local_addr().unwrap().to_string()) {
        shelf.write(name, &text);
        let started = Instant::now();
        for (tool, arguments) in [
            ("xpath_query", json!({ "document": name, "query": "/" })),
            ("validate_schema", json!({ "document": name, "schema": "order.xsd" })),
            ("validate_schema", json!({ "document": "order.xml", "schema": name })),
        ] {
            let error = shelf.refused(tool, arguments);
            assert_eq!(error["code"], -32602, "{name}: {error}");
            assert!(!error.to_string().contains("root:"), "{name}: {error}");
        }
        assert!(started.elapsed() < Duration::from_secs(25), "{name}: {:?}", started.elapsed());
    }
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock, "something was asked for over the network");
    assert!(shelf.server.peak_bytes() < 300 << 20, "{}", shelf.server.peak_bytes());
}

#[test]
fn no_worker_outlives_the_server() {
    let shelf = Shelf::open();
    assert!(shelf.workers().is_empty(), "no worker runs before there is work");
    shelf.answer("validate_schema", json!({ "document": "order.xml", "schema": "order.xsd" }));
    let workers = shelf.workers();
    assert_eq!(workers.len(), 1);
    let stats = shelf.answer("cache_stats", json!({})).1;
    assert_eq!(stats["schemas"][0]["path"], shelf.folder.join("order.xsd").to_str().unwrap(), "{stats}");
    let Shelf { server, kept, .. } = shelf;
    server.kill();
    eventually("the worker is gone", || !Path::new(&format!("/proc/{}/exe", workers[0])).exists());
    drop(kept);
}

fn xml(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command().current_dir(folder).arg("xml").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_line_does_the_same() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path();
    for (name, text) in [
        ("order.xml", ORDER),
        ("order.xsd", SCHEMA),
        ("types.xsd", TYPES),
        ("bad.xml", "<order xmlns='urn:shop'/>"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("latin.xml"), b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9</a>")
        .unwrap();
    let counted = xml(folder, &["query", "order.xml", "count(//s:item)", "--namespace", "s=urn:shop"]);
    assert_eq!(counted, (Some(0), "2\n".into(), String::new()));
    assert_eq!(xml(folder, &["query", "latin.xml", "string(/a)"]).1, "é\n");
    let (code, json, _) = xml(folder, &["query", "order.xml", "//@id", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, &json["total"], &json["nodes"][0]["path"]),
        (Some(0), &json!(2), &json!("/order[1]/item[1]/@id"))
    );
    assert_eq!(xml(folder, &["validate", "order.xml", "order.xsd"]).0, Some(0));
    let (code, text, _) = xml(folder, &["validate", "bad.xml", "order.xsd"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("INVALID") && text.contains("expected {urn:shop}item"), "{text}");
    let (code, json, _) = xml(folder, &["validate", "bad.xml", "order.xsd", "--json"]);
    assert_eq!(
        (code, serde_json::from_str::<Value>(&json).unwrap()["valid"].clone()),
        (Some(1), json!(false))
    );
    let (code, _, error) = xml(folder, &["query", "missing.xml", "/"]);
    assert!(code == Some(1) && error.contains("there is no document") && error.contains("hint:"), "{error}");
    assert_eq!(xml(folder, &["query", "order.xml", "//["]).0, Some(1));
    assert_eq!(xml(folder, &["query"]).0, Some(2));
    assert_eq!(xml(folder, &["preload", "order.xml", "missing.xml"]).0, Some(1));
    assert!(xml(folder, &["stats", "order.xml"]).1.starts_with("1 documents take "));
}
