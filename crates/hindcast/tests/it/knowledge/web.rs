//! Pages of a site that the test serves.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{Client, knowledge};
use crate::server::command;

/// A site, and what it was asked for.
struct Site {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    /// Whether the page `one` is still there.
    has_one: Arc<Mutex<bool>>,
}

impl Site {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked, has_one) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(true)));
        let site = Self { address, asked: asked.clone(), has_one: has_one.clone() };
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (asked, has_one) = (asked.clone(), has_one.clone());
                std::thread::spawn(move || while serve(&connection, &asked, &has_one).is_some() {});
            }
        });
        site
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Answers one request; none when the client has gone.
fn serve(connection: &TcpStream, asked: &Mutex<Vec<String>>, has_one: &Mutex<bool>) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    let path = head.split(' ').nth(1)?.to_owned();
    asked.lock().unwrap().push(path.clone());
    let host = head.lines().find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned))?;
    let page = |title: &str, text: &str| {
        ("200 OK", "text/html", format!("<title>{title}</title><h1>{title}</h1><p>{text}</p>"))
    };
    let (status, kind, body) = match path.as_str() {
        "/robots.txt" => ("200 OK", "text/plain", "User-agent: *\nDisallow: /docs/secret\n".to_owned()),
        "/docs/" => page(
            "Index",
            "<a href=one.html>1</a> <a href='two.html#part'>2</a> <a href=two.html>2</a> <a href=secret.html>no</a> <a href=/other/x.html>no</a> \
             <a href=http://other.example/>no</a> <a href=moved>m</a> <a href=away>a</a> <a href=p.png>p</a> <a href=shy.html>s</a> \
             <a href=notes.md>n</a> <a href=data.bin>d</a>",
        ),
        "/docs/one.html" if *has_one.lock().unwrap() => {
            page("Herons", "The heron stands in the lake. <a href=deep/down.html>d</a>")
        }
        "/docs/two.html" => page("Owls", "The owl hunts at night."),
        "/docs/three.html" => page("Storks", "The stork nests on the roof."),
        "/docs/deep/down.html" => page("Eels", "The eel lives in the mud."),
        "/docs/shy.html" => {
            ("200 OK", "text/html", "<meta name=robots content=noindex><p>The shy bittern.</p>".to_owned())
        }
        "/docs/notes.md" => {
            ("200 OK", "text/plain; charset=utf-8", "# Notes\n\nThe kingfisher dives.\n".to_owned())
        }
        // As IBM866 it says that owls hunt, which nothing in the page tells.
        "/ibm866.html" => {
            let text = b"<p>\x91\xae\xa2\xeb \xae\xe5\xae\xe2\xef\xe2\xe1\xef";
            return send(connection, "200 OK", "Content-Type: text/html; charset=ibm866", text);
        }
        "/docs/data.bin" => ("200 OK", "application/x-thing", "0".to_owned()),
        "/docs/moved" => ("302 Found", "/docs/three.html", String::new()),
        "/docs/away" => ("302 Found", "http://127.0.0.2/elsewhere", String::new()),
        "/map.xml" => (
            "200 OK",
            "application/xml",
            format!(
                "<urlset><url><loc>http://{host}/docs/two.html</loc></url><url><loc>http://other.example/x</loc></url></urlset>"
            ),
        ),
        _ => ("404 Not Found", "text/html", "gone".to_owned()),
    };
    let header = if status.starts_with("302") { "Location" } else { "Content-Type" };
    send(connection, status, &format!("{header}: {kind}"), body.as_bytes())
}

fn send(mut connection: &TcpStream, status: &str, header: &str, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all(&[head.as_bytes(), body].concat()).ok()
}

fn add(data: &Path, address: &str, settings: &[(&str, &str)]) -> Value {
    let output = command()
        .args(["knowledge", "add", "site", address, "--json", "--data-dir"])
        .arg(data)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

const HOSTS: (&str, &str) = ("HINDCAST_KNOWLEDGE_WEB_HOSTS", "127.0.0.1");
const PRIVATE: (&str, &str) = ("HINDCAST_KNOWLEDGE_WEB_PRIVATE", "true");

/// The pages of an outcome, without the host.
fn pages(added: &Value, outcome: &str) -> Vec<String> {
    let files = added["files"].as_array().unwrap().iter().filter(|file| file["outcome"] == outcome);
    let path = |file: &Value| {
        let path = file["path"].as_str().unwrap();
        path.splitn(4, '/').nth(3).unwrap_or_default().to_owned()
    };
    let mut paths: Vec<String> = files.map(path).collect();
    paths.sort();
    paths
}

#[test]
fn a_page_and_those_below_it_are_taken_in_as_the_site_allows() {
    let (site, data) = (Site::open(), tempfile::tempdir().unwrap());
    let start = format!("{}/docs/", site.address);
    let added = add(data.path(), &start, &[HOSTS, PRIVATE]);
    let taken = [
        "docs/",
        "docs/deep/down.html",
        "docs/notes.md",
        "docs/one.html",
        "docs/three.html",
        "docs/two.html",
    ];
    assert_eq!(pages(&added, "added"), taken, "{added}");
    assert_eq!(pages(&added, "failed"), ["docs/away"], "{added}");
    assert_eq!(added["skipped"][0]["kind"], "application/x-thing", "{added}");
    let asked = site.asked();
    assert_eq!(asked[0], "/robots.txt");
    for unwanted in ["/docs/secret.html", "/other/x.html", "/docs/p.png", "/elsewhere"] {
        assert!(!asked.iter().any(|path| path == unwanted), "{unwanted}: {asked:?}");
    }
    assert_eq!(asked.iter().filter(|path| *path == "/docs/two.html").count(), 1, "{asked:?}");

    let best =
        |query: &str| knowledge(data.path(), &["search", query, "--min-relevance", "0"])["hits"][0].clone();
    let hit = best("where does the heron stand");
    assert_eq!((&hit["path"], &hit["stale"]), (&json!(format!("{start}one.html")), &json!(false)), "{hit}");
    assert_eq!(best("bittern"), Value::Null);

    *site.has_one.lock().unwrap() = false;
    let again = add(data.path(), &start, &[HOSTS, PRIVATE]);
    assert_eq!(pages(&again, "removed"), ["docs/one.html"], "{again}");
    assert_eq!(pages(&again, "added"), [""; 0], "{again}");
}

#[test]
fn a_page_is_read_in_the_encoding_that_its_server_names() {
    let (site, data) = (Site::open(), tempfile::tempdir().unwrap());
    let added = add(data.path(), &format!("{}/ibm866.html", site.address), &[HOSTS, PRIVATE]);
    assert_eq!(pages(&added, "added"), ["ibm866.html"], "{added}");
    let found = knowledge(data.path(), &["search", "Совы", "--min-relevance", "0"]);
    assert_eq!(found["hits"][0]["text"], "Совы охотятся", "{found}");
}

#[test]
fn a_sitemap_lists_the_pages() {
    let (site, data) = (Site::open(), tempfile::tempdir().unwrap());
    let added = add(data.path(), &format!("{}/map.xml", site.address), &[HOSTS, PRIVATE]);
    assert_eq!(pages(&added, "added"), ["docs/two.html"], "{added}");
}

#[test]
fn an_address_that_may_not_be_read_or_is_no_page_says_so() {
    let (site, data) = (Site::open(), tempfile::tempdir().unwrap());
    for (path, reason) in
        [("/docs/secret.html", "robots.txt"), ("/docs/p.png", "not a page"), ("/none/", "answered 404")]
    {
        let added = add(data.path(), &format!("{}{path}", site.address), &[HOSTS, PRIVATE]);
        let said = added["files"][0]["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{path}: {said}");
    }
}

#[test]
fn nothing_is_asked_for_unless_the_operator_allows_it() {
    let site = Site::open();
    for (settings, reason) in [
        (&[][..], "knowledge.web_hosts"),
        (&[("HINDCAST_KNOWLEDGE_WEB_HOSTS", "*.example.org"), PRIVATE][..], "is not one of"),
        (&[HOSTS][..], "private network"),
        (&[("HINDCAST_KNOWLEDGE_WEB_HOSTS", "*")][..], "private network"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let added = add(data.path(), &format!("{}/docs/", site.address), settings);
        let said = added["files"][0]["reason"].as_str().unwrap();
        assert!(said.contains(reason) && said.contains("hint"), "{settings:?}: {said}");
        assert_eq!(site.asked(), [""; 0], "{settings:?}");
    }
    let mut client = Client::new();
    let added = client
        .call("knowledge/add", json!({ "collection": "x", "paths": [format!("{}/docs/", site.address)] }));
    assert_eq!(added["failed"], 1, "{added}");
    assert_eq!(site.asked(), [""; 0]);
}
