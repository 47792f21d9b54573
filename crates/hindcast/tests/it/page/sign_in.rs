//! Coming in and going out.

use super::{FORM, Person, get, post, text};
use crate::server::{Server, command, eventually, hindcast};

#[test]
fn a_key_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use() {
    let server = Server::start(&[]);
    let key = server.tenant_key();
    let reply = get(&server, "/", "");
    assert_eq!((reply.status, reply.header("location")), (303, Some("/sign-in")));
    let reply = post(&server, "/sign-in", "", &format!("key={key}"));
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "it is plain HTTP: {cookie}");
    assert!(!cookie.contains(&key) && !cookie.contains(&key[9..17]), "nothing of the key is in it");

    let person = Person::new(&server, &key);
    let page = person.page("/sessions");
    assert!(!page.contains(&key) && !page.contains(&person.cookie), "no secret in a page");
    let reply = person.post("/sign-out", "");
    assert!(reply.header("set-cookie").unwrap().contains("Max-Age=0"), "{reply:?}");
    assert_eq!(person.get("/sessions").header("location"), Some("/sign-in"));
}

#[test]
fn every_page_forbids_what_is_not_its_own() {
    let server = Server::start(&[]);
    let person = Person::new(&server, &server.tenant_key());
    let pages = [
        get(&server, "/sign-in", ""),
        person.get("/sessions"),
        person.get("/operations"),
        person.get("/sessions/x"),
    ];
    for reply in pages {
        let policy = reply.header("content-security-policy").unwrap();
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        let page = text(&reply);
        for forbidden in ["<style", " style=", "onclick=", "<script>", "//cdn", "https://"] {
            assert!(!page.contains(forbidden), "{forbidden} in {page}");
        }
    }
    let page = person.page("/sessions");
    let script = page.split("script src=\"").nth(1).unwrap().split('"').next().unwrap();
    let reply = get(&server, script, "");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert!(reply.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(get(&server, "/assets/page-0000000000000000.js", "").status, 404);
}

#[test]
fn forms_of_other_sites_and_forms_without_the_token_do_nothing() {
    let server = Server::start(&[]);
    let key = server.key(&["--scope", "admin"]);
    let person = Person::new(&server, &key);
    let cookie = format!("Cookie: {}\r\n", person.cookie);
    let token = person.token();
    let body = format!("csrf={token}&name=stolen");
    let attempt = |headers: &str, body: &str| {
        let headers = format!("Host: localhost\r\n{FORM}{cookie}{headers}");
        server.connect().request("POST /operations/keys", &headers, body.as_bytes()).unwrap().status
    };
    for headers in [
        "",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: http://localhost:9\r\n",
        "Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(attempt(headers, &body), 403, "{headers}");
    }
    let own = "Origin: http://localhost\r\n";
    assert_eq!(attempt(own, "name=stolen"), 403, "without the token");
    assert_eq!(attempt(own, "csrf=0000&name=stolen"), 403, "with another token");
    assert!(!hindcast(&server.data, &["keys", "list"]).contains("stolen"));
    assert_eq!(attempt(own, &body), 200);
    assert!(hindcast(&server.data, &["keys", "list"]).contains("stolen"));
}

#[test]
fn who_is_signed_in_is_out_when_the_key_is_revoked_or_replaced() {
    let server = Server::start(&[]);
    for command in ["revoke", "rotate"] {
        let key = server.tenant_key();
        let person = Person::new(&server, &key);
        assert_eq!(person.get("/sessions").status, 200);
        hindcast(&server.data, &["keys", command, &key["kdb_live_".len()..][..8]]);
        assert_eq!(person.get("/sessions").header("location"), Some("/sign-in"), "{command}");
        let events = person.get("/sessions/x/events");
        assert_eq!(events.status, 401, "{command}");
    }
    for wrong in ["", "kdb_live_abcdefgh", "x", "%00"] {
        let reply = post(&server, "/sign-in", "", &format!("key={wrong}"));
        assert_eq!((reply.status, reply.header("set-cookie")), (401, None), "{wrong}");
    }
}

#[test]
fn limits_hold_for_pages_and_a_session_can_still_be_ended() {
    let server = Server::start(&[]);
    let key = server.unconfined_key(&["--tier", "free"]);
    let session = super::crashed(&server, &key, &super::overrun());
    let person = Person::new(&server, &key);
    let refused = (0..30).map(|_| person.get("/sessions")).find(|reply| reply.status == 429);
    let refused = refused.expect("the free tier has few requests a minute");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(text(&refused).contains("requests a minute is used up"), "{}", text(&refused));
    assert_eq!(person.get("/operations").status, 200, "how much is left can be asked");
    let body = format!("csrf={}", person.token());
    let end = |session: &str| {
        let cookie = format!("Cookie: {}\r\n", person.cookie);
        post(&server, &format!("/sessions/{session}/end"), &cookie, &body).status
    };
    assert_eq!(end("nothing"), 429, "what ends nothing counts");
    assert_eq!((end(&session), end(&session)), (303, 429));
}

#[test]
fn a_ticket_opens_the_page_once_for_whoever_owns_the_data_folder() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let id = &key["kdb_live_".len()..][..8];
    let several = command().args(["ui", "--print", "--data-dir"]).arg(&server.data).output().unwrap();
    let said = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(!several.status.success() && said.contains("--key ID") && said.contains(id), "{said}");

    let url = hindcast(&server.data, &["ui", "--print", "--key", id]);
    let address = format!("http://localhost:{}", server.address.port());
    let path = url.trim().strip_prefix(&address).unwrap_or_else(|| panic!("{url}")).to_owned();
    let reply = get(&server, &path, "");
    assert_eq!((reply.status, reply.header("location")), (303, Some("/sessions")), "{reply:?}");
    assert!(reply.header("set-cookie").unwrap().contains("HttpOnly"));
    assert_eq!(get(&server, &path, "").status, 401, "only once");
    assert_eq!(get(&server, "/ticket?t=../../audit.key", "").status, 401);
    assert!(hindcast(&server.data, &["audit", "show"]).contains("page/ticket"), "tries are written down");

    let data = server.stop();
    assert!(!data.path.join("page.address").exists());
    let late = command().args(["ui", "--print", "--data-dir"]).arg(&data.path).output().unwrap();
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(!late.status.success() && said.contains("hindcast serve"), "{said}");
    eventually("the folder of tickets is empty", || {
        std::fs::read_dir(data.path.join("tickets")).unwrap().count() == 0
    });
}
