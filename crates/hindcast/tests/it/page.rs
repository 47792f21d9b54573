//! The page for people: by raw HTTP, and in a real Chromium.

mod browser;
mod hostile;
mod keys;
mod sign_in;
mod tenants;

use hindcast_fixtures::{Built, Fixture};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

/// Somebody who is signed in, without a browser.
struct Person<'a> {
    server: &'a Server,
    cookie: String,
}

impl<'a> Person<'a> {
    /// Signs in with a key.
    fn new(server: &'a Server, key: &str) -> Self {
        let reply = post(server, "/sign-in", "", &format!("key={key}"));
        assert_eq!((reply.status, reply.header("location")), (303, Some("/sessions")), "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        Self { server, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    fn get(&self, path: &str) -> Reply {
        get(self.server, path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// The text of a page that is there.
    fn page(&self, path: &str) -> String {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", text(&reply));
        text(&reply)
    }

    /// What every form of theirs carries.
    fn token(&self) -> String {
        let page = self.page("/operations");
        let token = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
        token.split('"').next().unwrap().to_owned()
    }

    /// Sends a form as a page of the server does.
    fn post(&self, path: &str, fields: &str) -> Reply {
        let body = format!("csrf={}&{fields}", self.token());
        post(self.server, path, &format!("Cookie: {}\r\n", self.cookie), &body)
    }
}

fn get(server: &Server, path: &str, headers: &str) -> Reply {
    let headers = format!("Host: localhost\r\n{headers}");
    server.connect().request(&format!("GET {path}"), &headers, b"").unwrap()
}

/// Sends a form from a page of the same origin.
fn post(server: &Server, path: &str, headers: &str, body: &str) -> Reply {
    let headers = format!("Host: localhost\r\nOrigin: http://localhost\r\n{FORM}{headers}");
    server.connect().request(&format!("POST {path}"), &headers, body.as_bytes()).unwrap()
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Launches a program and runs it to its end or its crash; gives the session.
fn crashed(server: &Server, key: &str, program: &Built) -> String {
    let call = |tool: &str, arguments: Value| {
        let answer = server.call(key, tool, arguments);
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    };
    let session = call("debugger/launch", json!({ "program": program.path }))["session_id"].clone();
    call("debugger/continue", json!({}));
    session.as_str().unwrap().to_owned()
}

/// The program of the demo, which dies of what it wrote long before.
fn overrun() -> Built {
    Fixture::c("overrun").build()
}
