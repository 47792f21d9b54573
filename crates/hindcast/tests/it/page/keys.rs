//! Keys, made and revoked by whoever has the scope `admin`; and documents that are sent.

use super::{Person, text};
use crate::server::Server;

#[test]
fn an_admin_makes_a_key_sees_it_once_and_revokes_it() {
    let server = Server::start(&[]);
    let admin = server.key(&[
        "--scope",
        "admin",
        "--scope",
        "debug:read",
        "--scope",
        "audit:read",
        "--tier",
        "enterprise",
    ]);
    let person = Person::new(&server, &admin);
    let made = person.post("/operations/keys", "name=laptop&owner=ada&tier=team&scope=debug:read&days=3");
    assert_eq!(made.status, 200);
    let page = text(&made);
    let key = page.split("kdb_live_").nth(1).unwrap_or_else(|| panic!("{page}"));
    let key = format!("kdb_live_{}", key.split('<').next().unwrap());
    assert!(!person.page("/operations/keys").contains(&key), "it is shown only once");
    let ada = Person::new(&server, &key);
    assert_eq!(ada.get("/operations/keys").status, 403);
    assert_eq!(ada.get("/operations/audit").status, 403);

    let refused = person.post("/operations/keys", "name=more&scope=debug:unconfined");
    assert_eq!(refused.status, 303);
    assert!(person.page("/operations/keys").contains("can only be made by one that has it"));

    person.post("/operations/keys/revoke", &format!("key={}", &key["kdb_live_".len()..][..8]));
    assert_eq!(ada.get("/sessions").header("location"), Some("/sign-in"));
    let audit = person.page("/operations/audit");
    assert!(audit.contains("page/keys.create") && audit.contains("page/keys.revoke"), "{audit}");
    assert!(audit.contains("The trail verifies") && !audit.contains("page/look"), "{audit}");
}

#[test]
fn files_that_are_sent_become_documents() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let person = Person::new(&server, &key);
    let token = person.token();
    let part =
        |about: &str, body: &str| format!("--b\r\nContent-Disposition: form-data; {about}\r\n\r\n{body}\r\n");
    let body = [
        part("name=\"csrf\"", &token),
        part("name=\"collection\"", "handbook"),
        part("name=\"files\"; filename=\"a.md\"", "# Bicycles\n\nA derailleur moves the chain."),
        part("name=\"files\"; filename=\"b.bin\"", "\u{0}x"),
        "--b--\r\n".to_owned(),
    ];
    let headers = format!(
        "Host: localhost\r\nOrigin: http://localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nCookie: {}\r\n",
        person.cookie
    );
    let reply = server.connect().request("POST /knowledge/add", &headers, body.concat().as_bytes()).unwrap();
    assert_eq!(reply.status, 303, "{}", text(&reply));
    assert!(person.page("/knowledge").contains("handbook"));
    let found = person.page("/knowledge/search?q=derailleur");
    assert!(found.contains("<mark>derailleur</mark>") && found.contains("line"), "{found}");
}
