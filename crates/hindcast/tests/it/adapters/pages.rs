//! JavaScript in a page of Chromium, through the same adapter as in Node.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use hindcast_fixtures::adapters::{self, Script};
use serde_json::{Value, json};

use super::{client_with, data, left_over, local, text};
use crate::{knowledge::Client, server::eventually};

/// A client where there is a browser.
fn client(temporary: &str) -> Option<Client> {
    adapters::chromium()?;
    client_with(&[("TMPDIR", temporary)])
}

/// From its first statement to what nobody catches.
fn look_through(client: &mut Client, script: &Script, launched: &Value) {
    assert_eq!(
        (&launched["engine"], &launched["reason"]),
        (&json!("adapter"), &json!("entry")),
        "{launched}"
    );
    assert_eq!(launched["location"]["line"], script.line("entry"), "{launched}");

    let set = json!({ "file": "page.js", "statement": "result += price", "condition": "price == 3" });
    let set = data(client, "set_breakpoint", set);
    assert_eq!(set["bound"][0]["line"], script.line("loop_body"), "{set}");
    let stop = data(client, "continue", json!({}));
    assert_eq!(stop["location"]["line"], script.line("loop_body"), "{stop}");
    assert_eq!((local(&stop, "price").as_str(), local(&stop, "result").as_str()), ("3", "3"));
    let stepped = text(client, "step_forward", json!({ "granularity": "out" }));
    assert!(stepped.len() < 2000, "{stepped}");
    let title = text(client, "evaluate", json!({ "expression": "document.title" }));
    assert!(title.contains("Shop"), "{title}");
    let set = data(client, "set_breakpoint", json!({ "function": "fail" }));
    assert_ne!(set["bound"], json!([]), "{set}");
    data(client, "continue", json!({}));
    let stop = data(client, "continue", json!({}));
    assert_eq!(stop["exception"]["exception_type"], "TypeError", "{stop}");
    let autopsy = text(client, "autopsy", json!({}));
    assert!(autopsy.starts_with("unhandled TypeError: bad input"), "{autopsy}");
    assert!(autopsy.contains(&format!("page.js:{}", script.line("raise"))), "{autopsy}");
    assert!(!autopsy.contains("hunter2"), "a secret: {autopsy}");
    assert!(text(client, "read_output", json!({})).contains("sum 6"));
    text(client, "disconnect", json!({}));
    eventually("the browser is gone", || left_over(client).len() <= 1);
}

#[test]
fn a_page_is_debugged_from_its_first_statement() {
    let temporary = tempfile::tempdir().unwrap();
    let Some(mut client) = client(temporary.path().to_str().unwrap()) else { return };
    let script = Script::new("page/page.js");
    let folder = script.path.parent().unwrap();
    let page = folder.join("index.html");
    let launched = data(&mut client, "launch", json!({ "program": page, "timeout_ms": 60_000 }));
    look_through(&mut client, &script, &launched);
    eventually("no file is left", || std::fs::read_dir(temporary.path()).unwrap().count() == 0);

    // As a server gives it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/index.html", listener.local_addr().unwrap());
    let files = folder.to_owned();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut asked = [0; 4096];
            let count = socket.read(&mut asked).unwrap_or(0);
            let line = String::from_utf8_lossy(&asked[..count]).into_owned();
            let name = line.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
            let body = std::fs::read(files.join(&name)).unwrap_or_default();
            let kind = if name.ends_with(".js") { "text/javascript" } else { "text/html" };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&body));
        }
    });
    let launched = data(
        &mut client,
        "launch",
        json!({ "program": "chromium", "args": [address], "cwd": folder, "timeout_ms": 60_000 }),
    );
    look_through(&mut client, &script, &launched);

    // Whoever kills the server leaves nothing either.
    data(&mut client, "launch", json!({ "program": page, "timeout_ms": 60_000 }));
    client.kill();
    eventually("no file is left", || std::fs::read_dir(temporary.path()).unwrap().count() == 0);
}

/// One that somebody else has started, which ends with the test.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_page_that_is_open_is_attached_to_and_stays_open() {
    let temporary = tempfile::tempdir().unwrap();
    let Some(mut client) = client(temporary.path().to_str().unwrap()) else { return };
    let script = Script::new("page/live.html");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-dev-shm-usage"]);
    browser.arg(format!("--remote-debugging-port={port}"));
    browser.arg(format!("--user-data-dir={}", temporary.path().join("browser").display()));
    browser.arg(format!("file://{}", script.path.display())).env("TMPDIR", temporary.path());
    let mut browser = Browser(browser.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let attached = data(&mut client, "attach", json!({ "port": port, "language": "chromium" }));
    assert_eq!(attached["reason"], "pause", "{attached}");
    let line = script.line("spinning");
    text(&mut client, "set_breakpoint", json!({ "file": script.path, "line": line }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!((&stop["reason"], &stop["location"]["line"]), (&json!("breakpoint"), &json!(line)), "{stop}");
    text(&mut client, "disconnect", json!({}));
    assert!(browser.0.try_wait().unwrap().is_none(), "it runs on");
}
