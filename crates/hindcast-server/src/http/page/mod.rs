//! The page for people: what agents debug, what is known, and what the server does.
//!
//! Everything is made on the server and can be read without JavaScript; `page.js` only spares reloads. What a page shows and what
//! its buttons do are calls of the same tools that agents call, by the same key, with its scopes, its limits and its trail.

mod asset;
mod desk;
mod door;
mod form;
mod frame;
mod keys;
mod knowledge;
mod live;
mod operations;
mod plot;
mod session;
mod sessions;
mod ticket;
mod words;

use std::{net::IpAddr, path::PathBuf};

use hindcast_services::{Failure, FailureKind, gateway::Refusal};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use maud::{Markup, html};
use serde_json::Value;
use tokio::time::{Instant, timeout};

pub use self::ticket::Ticket;
use self::{
    desk::Desk,
    door::{Door, Entry},
    form::{Fields, Form, Refused},
    frame::Shell,
};
use super::{Body, Front, answer, answer::With as _, refusals::Attempt};

/// Where the page is.
const SIGN_IN: &str = "/sign-in";
const SIGN_OUT: &str = "/sign-out";
const TICKET: &str = "/ticket";
const SESSIONS: &str = "/sessions";
const KNOWLEDGE: &str = "/knowledge";
const OPERATIONS: &str = "/operations";
const ASSETS: &str = "/assets/";

/// Whether a path belongs to the page.
pub(super) fn is_served(path: &str, method: &Method) -> bool {
    let is_below =
        |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let is_read = path == "/" || path == TICKET || path.starts_with(ASSETS);
    let is_both = path == SIGN_IN || [SESSIONS, KNOWLEDGE, OPERATIONS].into_iter().any(is_below);
    (reads && (is_read || is_both)) || (*method == Method::POST && (is_both || path == SIGN_OUT))
}

/// The page of one server.
pub(super) struct Page {
    door: Door,
    tickets: Option<PathBuf>,
}

/// What is left of an answer that is not the usual page.
type Turned = Box<Response<Body>>;

/// A request to the page whose sender is known.
struct Visit<'a> {
    front: &'a Front,
    desk: Desk,
    entry: Entry,
    path: String,
    query: Fields,
}

impl Page {
    pub(super) fn new(tickets: Option<PathBuf>) -> Self {
        Self { door: Door::default(), tickets }
    }

    /// Answers one request.
    pub(super) async fn answer(
        &self,
        front: &Front,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Response<Body> {
        let is_head = request.method() == Method::HEAD;
        let limit = front.policy.request_timeout;
        let answered = timeout(limit, self.route(front, request, from)).await;
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(turned)) => *turned,
            Err(_) => {
                let failure =
                    Failure::new(FailureKind::Internal, format!("there was no answer within {limit:?}"))
                        .hint("load the page again; what was begun goes on meanwhile");
                frame::failed(StatusCode::GATEWAY_TIMEOUT, None, &failure)
            }
        };
        if is_head { response.map(|_| frame::nothing()) } else { response }
    }

    async fn route(
        &self,
        front: &Front,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Result<Response<Body>, Turned> {
        if let Some(asset) = request.uri().path().strip_prefix(ASSETS) {
            return Ok(asset::answer(asset));
        }
        form::check_origin(&front.guard, &request)?;
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let query = Fields::read(request.uri().query().unwrap_or_default().as_bytes());
        let is_post = request.method() == Method::POST;
        match path.as_str() {
            TICKET => return self.enter_by_ticket(front, &request, &query, from).await,
            SIGN_IN if is_post => return self.sign_in(front, request, from).await,
            SIGN_IN => return Ok(frame::sign_in(StatusCode::OK, None)),
            _ => {}
        }
        let entry = self.entry(front, &request, from).await?;
        let presence = front.crowd.enter(&entry.caller).map_err(|_| {
            let failure =
                Failure::new(FailureKind::QuotaExceeded, "this owner has too many requests under way")
                    .hint("wait for some to end");
            Box::new(frame::failed(StatusCode::TOO_MANY_REQUESTS, None, &failure))
        })?;
        let desk = Desk {
            app: front.app.clone(),
            caller: entry.caller.clone(),
            until: Instant::now() + front.policy.request_timeout,
        };
        let visit = Visit { front, desk, entry, path, query };
        if path_is_stream(&visit.path) {
            return live::stream(visit, presence).await;
        }
        if is_post {
            let form = Form::read(request, &front.policy, presence, &visit.entry).await?;
            return self.post(visit, form, from).await;
        }
        self.meter(&visit, from).await?;
        self.get(visit).await
    }

    async fn get(&self, visit: Visit<'_>) -> Result<Response<Body>, Turned> {
        let path = visit.path.clone();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            [] | [""] => Ok(frame::go_to(SESSIONS)),
            ["sessions"] => sessions::show(&visit).await,
            ["sessions", id] => session::show(&visit, &words::decoded(id)).await,
            ["knowledge"] => knowledge::show(&visit).await,
            ["knowledge", "search"] => knowledge::search(&visit).await,
            ["knowledge", "in", id] => knowledge::collection(&visit, &words::decoded(id)).await,
            ["knowledge", "in", id, document] => {
                knowledge::document(&visit, &words::decoded(id), &words::decoded(document)).await
            }
            ["operations"] => operations::show(&visit).await,
            ["operations", "audit"] => operations::audit(&visit).await,
            ["operations", "keys"] => keys::show(&visit, None).await,
            _ => Ok(visit.nowhere()),
        }
    }

    async fn post(&self, visit: Visit<'_>, form: Form, from: IpAddr) -> Result<Response<Body>, Turned> {
        let path = visit.path.clone();
        if path == SIGN_OUT {
            self.door.leave(&visit.entry);
            return Ok(door::without_cookie(
                frame::go_to(SIGN_IN),
                visit.front.policy.is_encrypted,
                &visit.entry,
            ));
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        // Ending a session is never refused, whatever the limits say.
        let caller = &visit.desk.caller;
        let ends = |id: &str| visit.front.app.has_session(caller, Some(&words::decoded(id)));
        let is_free = matches!(parts.as_slice(), ["sessions", id, "end"] if ends(id));
        if !is_free {
            self.meter(&visit, from).await?;
        }
        match parts.as_slice() {
            ["sessions", id, "move"] => session::moves::go(&visit, &words::decoded(id), &form).await,
            ["sessions", id, "breakpoint"] => {
                session::moves::breakpoint(&visit, &words::decoded(id), &form).await
            }
            ["sessions", id, "end"] => session::moves::end(&visit, &words::decoded(id)).await,
            ["knowledge", "add"] => knowledge::add(&visit, &form).await,
            ["operations", "keys"] => keys::create(&visit, &form).await,
            ["operations", "keys", "revoke"] => keys::revoke(&visit, &form).await,
            _ => Ok(visit.nowhere()),
        }
    }

    /// Counts a page, or the press of a button, as one request of the key.
    async fn meter(&self, visit: &Visit<'_>, from: IpAddr) -> Result<(), Turned> {
        let caller = &visit.desk.caller;
        let Some(key) = &caller.key else { return Ok(()) };
        // Whoever wants to know how much is left must not use up the rest by asking.
        if visit.path == OPERATIONS && visit.front.app.gateway.is_free(key).await {
            return Ok(());
        }
        let Err(refusal) = visit.front.app.gateway.reserve(key).await else { return Ok(()) };
        let failure = refusal.failure.clone();
        let attempt = Attempt {
            from,
            principal: Some(&caller.principal),
            method: "page",
            subject: Some(&visit.path),
            id: &Value::Null,
        };
        let refused = visit.front.refusals.turn_away(&visit.front.app, refusal, attempt).await;
        let mut response = frame::failed(refused.status(), Some(&visit.shell("Limit reached")), &failure);
        for name in ["retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            if let Some(value) = refused.headers().get(name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Err(Box::new(response))
    }

    /// Who is signed in, by the cookie of an earlier request.
    async fn entry(&self, front: &Front, request: &Request<Incoming>, from: IpAddr) -> Result<Entry, Turned> {
        let wants = request.uri().path();
        let outside = || {
            Box::new(match wants.ends_with("/events") {
                true => answer::json(StatusCode::UNAUTHORIZED, r#"{"status":"signed out"}"#),
                false => frame::go_to(SIGN_IN),
            })
        };
        let is_encrypted = front.policy.is_encrypted;
        let found = self.door.find(request.headers(), is_encrypted, front.app.now());
        let mut entry = found.ok_or_else(outside)?;
        let Some(key) = entry.caller.key.clone() else { return Ok(entry) };
        match front.app.gateway.authenticate_again(&key, from).await {
            Ok(caller) => {
                entry.caller = caller;
                Ok(entry)
            }
            Err(refusal) if refusal.failure.kind == FailureKind::AuthenticationFailed => {
                self.door.leave(&entry);
                Err(outside())
            }
            Err(refusal) => {
                Err(Box::new(frame::failed(StatusCode::SERVICE_UNAVAILABLE, None, &refusal.failure)))
            }
        }
    }

    async fn sign_in(
        &self,
        front: &Front,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Result<Response<Body>, Turned> {
        let port = door::port_of(&request);
        let fields = form::short_body(request, &front.policy).await?;
        let key = fields.get("key").unwrap_or_default().trim().to_owned();
        let shown = (!key.is_empty()).then(|| format!("Bearer {key}"));
        match front.app.gateway.authenticate(shown.as_deref(), from).await {
            Ok(caller) => Ok(self.door.enter(caller, port, front)),
            Err(refusal) => Err(Box::new(refused(front, refusal, "page/sign-in", from).await)),
        }
    }

    /// Lets in who could leave a ticket in the data folder: the user whom the server runs as.
    async fn enter_by_ticket(
        &self,
        front: &Front,
        request: &Request<Incoming>,
        query: &Fields,
        from: IpAddr,
    ) -> Result<Response<Body>, Turned> {
        let text = query.get("t").unwrap_or_default();
        let key = self.tickets.as_deref().filter(|_| from.to_canonical().is_loopback());
        let key = key.and_then(|folder| ticket::redeem(folder, text, front.app.now()));
        let admitted = match key {
            Some(id) => front.app.gateway.admit_by_id(&id, from).await.ok(),
            None => None,
        };
        match admitted {
            Some(caller) => Ok(self.door.enter(caller, door::port_of(request), front)),
            None => {
                let failure = Failure::new(FailureKind::AuthenticationFailed, "that ticket opens nothing")
                    .hint("tickets open once, within five minutes: run `hindcast ui` again, or sign in with a key");
                let refusal = Refusal { failure, key: None, retry_after: None, used_up: None };
                Err(Box::new(refused(front, refusal, "page/ticket", from).await))
            }
        }
    }
}

/// The answer to what does not open; it is written down as everywhere.
async fn refused(front: &Front, refusal: Refusal, method: &str, from: IpAddr) -> Response<Body> {
    let failure = refusal.failure.clone();
    let attempt = Attempt { from, principal: None, method, subject: None, id: &Value::Null };
    let status = front.refusals.turn_away(&front.app, refusal, attempt).await.status();
    frame::sign_in(status, Some(&failure))
}

fn path_is_stream(path: &str) -> bool {
    path.starts_with(SESSIONS) && path.ends_with("/events")
}

impl Visit<'_> {
    /// What goes around the content.
    fn shell(&self, title: &str) -> Shell {
        Shell {
            title: title.to_owned(),
            place: self.path.split('/').nth(1).unwrap_or_default().to_owned(),
            who: self.who(),
            csrf: self.entry.csrf.clone(),
            notice: None,
            live: None,
        }
    }

    fn who(&self) -> String {
        match &self.desk.caller.key {
            Some(key) => key.name.clone(),
            None => self.desk.caller.principal.0.to_string(),
        }
    }

    fn page(&self, title: &str, content: Markup) -> Response<Body> {
        let shell = Shell { notice: self.entry.take_notice(), ..self.shell(title) };
        frame::page(StatusCode::OK, &shell, content)
    }

    fn failed(&self, failure: &Failure) -> Response<Body> {
        frame::failed(frame::status_of(failure.kind), Some(&self.shell("Not possible")), failure)
    }

    fn nowhere(&self) -> Response<Body> {
        let content = html! {
            h1 { "There is nothing here" }
            p { "Go to " a href=(SESSIONS) { "the debug sessions" } "." }
        };
        frame::page(StatusCode::NOT_FOUND, &self.shell("Nothing here"), content)
    }

    /// Goes back to a page, which tells what did not work.
    fn back_with(&self, to: &str, failure: Option<&Failure>) -> Response<Body> {
        if let Some(failure) = failure {
            self.entry.leave_notice(failure.clone());
        }
        frame::go_to(to)
    }
}

impl From<Refused> for Turned {
    fn from(Refused { status, failure }: Refused) -> Self {
        Box::new(frame::failed(status, None, &failure).with("connection", "close"))
    }
}
