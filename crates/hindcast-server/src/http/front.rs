//! What happens to an HTTP request before it is MCP, and to the answer after it was.
//!
//! Two instances of the protocol library's HTTP service stand behind this front: one with sessions
//! for clients that initialise, one without for everybody else. The front decides between them and
//! checks what they are lenient about, so that a bare `curl` gets plain JSON and every error comes
//! from our catalogue.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use hindcast_core::{
    Timestamp,
    identity::{Caller, KeyRecord, Scope},
    quota::Allowance,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{local::LocalSessionManager, never::NeverSessionManager},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Body, HttpPolicy, PROTOCOL_VERSION,
    answer::{self, With},
    body,
    crowd::{Crowd, Presence, TooMuch},
    direct,
    drain::{CutShort, Drain, InFlight},
    guard::Guard,
    held::Held,
    operations::{self, Figures, Readiness},
    page::{self, Page},
    polish,
    refusals::{Attempt, Refusals},
    replay::Replay,
    sessions::{self, Sessions},
};
use crate::{
    app::{App, Price},
    catalogue::{ErrorKind, WireError},
    jsonrpc::{Kind, Message},
    mcp::{Admitted, Handler, Lifecycle},
};

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const ENDPOINT: &str = "/mcp";

/// The HTTP face of the server.
pub struct Front {
    pub(super) app: Arc<App>,
    pub(super) policy: HttpPolicy,
    pub(super) guard: Guard,
    drain: Drain,
    pub(super) crowd: Crowd,
    sessions: Sessions,
    with_sessions: StreamableHttpService<Handler, LocalSessionManager>,
    stateless: StreamableHttpService<Handler, NeverSessionManager>,
    /// Ends open event streams.
    pub(super) streams: CancellationToken,
    pub(super) refusals: Refusals,
    page: Page,
    /// Ends the wait for what outlasts the drain.
    cut: CancellationToken,
    figures: Figures,
    readiness: Readiness,
}

impl Front {
    /// A front for `app`.
    pub fn new(app: Arc<App>, policy: HttpPolicy) -> Arc<Self> {
        let streams = CancellationToken::new();
        // Hosts, origins and sizes are checked here, with our own errors.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(streams.clone());
        let manager = Arc::new(LocalSessionManager::default().with_event_store(Replay::new()));
        let sessions = Sessions::new(manager.clone());
        let for_session = app.clone();
        let with_sessions = StreamableHttpService::new(
            move || Ok(Handler::new(for_session.clone(), Lifecycle::Session)),
            manager,
            config.clone(),
        );
        let for_request = app.clone();
        let stateless = StreamableHttpService::new(
            move || Ok(Handler::new(for_request.clone(), Lifecycle::Request)),
            Arc::new(NeverSessionManager::default()),
            config.with_legacy_session_mode(false).with_json_response(true),
        );
        let guard = Guard::new(&policy);
        let refusals = Refusals::new();
        let page = Page::new(policy.tickets.clone());
        Arc::new(Self {
            app,
            crowd: Crowd::new(policy.max_body_bytes),
            policy,
            guard,
            drain: Drain::new(),
            sessions,
            with_sessions,
            stateless,
            streams,
            refusals,
            page,
            cut: CancellationToken::new(),
            figures: Figures::new(),
            readiness: Readiness::default(),
        })
    }

    pub(super) fn policy(&self) -> &HttpPolicy {
        &self.policy
    }

    /// Turns newcomers away, waits for what is under way, ends what would go on for ever.
    pub(super) async fn drain(&self) {
        self.drain.stop();
        let _ = timeout(self.policy.drain_timeout, self.drain.emptied()).await;
        self.cut.cancel();
        let _ = timeout(UNTIL_TOLD, self.drain.emptied()).await;
        self.streams.cancel();
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        if request.uri().path() != ENDPOINT {
            return self.answer_uncounted(request, from).await;
        }
        let begun = Instant::now();
        let response = self.answer_uncounted(request, from).await;
        self.figures.add(response.status(), begun.elapsed());
        response
    }

    async fn answer_uncounted(&self, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        let Some(in_flight) = self.drain.enter() else { return self.closing(&request, from).await };
        match request.uri().path() {
            ENDPOINT => match self.admit(&request, from).await {
                Ok(caller) => {
                    let key = caller.key.clone();
                    let answered = match self.crowd.enter(&caller) {
                        Ok(presence) => {
                            self.mcp(request, caller, from, Entered { in_flight, presence }).await
                        }
                        Err(too_much) => {
                            let response = self.too_much(too_much, &Value::Null);
                            Err(Box::new(without_its_body(response, request.into_body()).await))
                        }
                    };
                    self.with_limit(answered.unwrap_or_else(|turned_away| *turned_away), key.as_deref()).await
                }
                Err(turned_away) => without_its_body(*turned_away, request.into_body()).await,
            },
            operations::ALIVE => without_its_body(operations::alive(), request.into_body()).await,
            operations::READY => {
                let response = operations::ready(&self.readiness, &self.app.gateway).await;
                without_its_body(response, request.into_body()).await
            }
            operations::METRICS => {
                let response = match self.may_see_metrics(&request, from).await {
                    Ok(()) => operations::metrics(&self.figures, &self.readiness, &self.app.gateway).await,
                    Err(turned_away) => *turned_away,
                };
                without_its_body(response, request.into_body()).await
            }
            path if page::is_served(path, request.method()) => {
                let response = self.page.answer(self, request, from).await;
                // A stream goes on for as long as somebody looks.
                let waited_for = (!polish::is_stream(&response)).then_some(in_flight);
                response.map(|body| Held::new(body, waited_for).boxed())
            }
            other => {
                let details = format!("there is nothing at `{other}`");
                let error = WireError::new(ErrorKind::InvalidRequest, details).hint("the endpoint is /mcp");
                let response = answer::error_as(StatusCode::NOT_FOUND, &error, &Value::Null);
                let response = self.with_limit_of(response, request.headers(), from).await;
                without_its_body(response, request.into_body()).await
            }
        }
    }

    /// Answers where no more connections fit: only that the server is alive.
    pub(super) fn answer_crowded(&self, request: &Request<Incoming>) -> Response<Body> {
        let response = match request.uri().path() {
            operations::ALIVE => operations::alive(),
            _ => {
                let error =
                    WireError::new(ErrorKind::InternalError, "the server has no room for more connections")
                        .hint("try again in a moment, or raise `server.max_connections`");
                unavailable(&error, &Value::Null)
            }
        };
        response.with("connection", "close")
    }

    /// Figures tell how much others use the server, so they are for its operator unless it says otherwise.
    async fn may_see_metrics(
        &self,
        request: &Request<Incoming>,
        from: IpAddr,
    ) -> Result<(), Box<Response<Body>>> {
        if self.policy.open_metrics || self.admit(request, from).await?.may(Some(Scope::Admin)) {
            return Ok(());
        }
        let error = WireError::new(ErrorKind::PermissionDenied, "`/metrics` needs the scope `admin`").hint(
            "use a key that has it: `hindcast keys create --scope admin …`, or set `server.open_metrics`",
        );
        Err(turned_away(StatusCode::FORBIDDEN, &error))
    }

    /// Turns away whoever comes while the server stops.
    async fn closing(&self, request: &Request<Incoming>, from: IpAddr) -> Response<Body> {
        let error = WireError::new(ErrorKind::InternalError, "the server is shutting down")
            .hint("try again in a moment");
        self.with_limit_of(unavailable(&error, &Value::Null), request.headers(), from).await
    }

    /// Says how the limits of the key stand that is shown, if it is valid.
    async fn with_limit_of(
        &self,
        response: Response<Body>,
        headers: &HeaderMap,
        from: IpAddr,
    ) -> Response<Body> {
        match self.app.gateway.authenticate(authorization(headers), from).await {
            Ok(caller) => self.with_limit(response, caller.key.as_deref()).await,
            Err(_) => response,
        }
    }

    /// Says how the key's limits stand, where the answer does not yet.
    async fn with_limit(&self, response: Response<Body>, key: Option<&KeyRecord>) -> Response<Body> {
        let Some(key) = key.filter(|_| !answer::has_limit(&response)) else { return response };
        let usage = self.app.gateway.usage(key).await.ok();
        answer::with_limit(response, usage.map(|usage| usage.nearer()).as_ref())
    }

    /// Who calls, if they may; nothing of the body is read for that.
    async fn admit(&self, request: &Request<Incoming>, from: IpAddr) -> Result<Caller, Box<Response<Body>>> {
        if let Err(details) = self.guard.check(request.uri(), request.headers()) {
            let error = WireError::new(ErrorKind::PermissionDenied, details)
                .hint("add the name to `server.allowed_hosts` or `server.allowed_origins` if it is yours");
            return Err(turned_away(StatusCode::FORBIDDEN, &error));
        }
        if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
            let details = format!("{} is not supported here", request.method());
            let error = WireError::new(ErrorKind::InvalidRequest, details).hint("send JSON-RPC with POST");
            let response = turned_away(StatusCode::METHOD_NOT_ALLOWED, &error);
            let response = response.with("allow", "GET, POST, DELETE");
            return Err(Box::new(self.with_limit_of(response, request.headers(), from).await));
        }
        if request.headers().get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
            let error =
                WireError::new(ErrorKind::InvalidRequest, "there is more than one Authorization header")
                    .hint("send one `Authorization: Bearer YOUR_API_KEY`");
            return Err(turned_away(StatusCode::BAD_REQUEST, &error));
        }
        match self.app.gateway.authenticate(authorization(request.headers()), from).await {
            Ok(caller) => Ok(caller),
            Err(refusal) => {
                let attempt = Attempt {
                    from,
                    principal: None,
                    method: "authenticate",
                    subject: None,
                    id: &Value::Null,
                };
                Err(Box::new(self.refusals.turn_away(&self.app, refusal, attempt).await))
            }
        }
    }

    async fn mcp(
        &self,
        request: Request<Incoming>,
        caller: Caller,
        from: IpAddr,
        entered: Entered,
    ) -> Answered {
        if let Err(turned_away) = self.own_session(request.headers(), &caller) {
            return Err(Box::new(without_its_body(*turned_away, request.into_body()).await));
        }
        if *request.method() == Method::POST {
            self.post(request, caller, from, entered).await
        } else {
            self.stream(request, caller, entered.presence).await
        }
    }

    /// A session is only there for the principal that opened it, and for keys that may do the same.
    fn own_session(&self, headers: &HeaderMap, caller: &Caller) -> Result<(), Box<Response<Body>>> {
        let Some(session) = headers.get(SESSION_ID) else { return Ok(()) };
        if session.to_str().is_ok_and(|session| self.sessions.belongs_to(session, caller)) {
            return Ok(());
        }
        let error = WireError::new(ErrorKind::InvalidRequest, "there is no such session")
            .hint("send `initialize` to open one");
        Err(turned_away(StatusCode::NOT_FOUND, &error))
    }

    /// GET and DELETE: the event stream and the end of a session.
    async fn stream(
        &self,
        mut request: Request<Incoming>,
        caller: Caller,
        mut presence: Presence,
    ) -> Answered {
        let ends_session = request.method() == Method::DELETE;
        if !ends_session && let Err(too_much) = presence.become_stream() {
            return Err(Box::new(self.too_much(too_much, &Value::Null)));
        }
        let resumes = request.headers().contains_key(LAST_EVENT_ID);
        request.extensions_mut().insert(Arc::new(Admitted { caller, plain: false, until: None }));
        let mut response = self.with_sessions.handle(request).await;
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The Python SDK takes only 200 and 204 for success.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        let response = if resumes { rest_or_refusal(response) } else { response };
        let response = polish::polished(response, false, &Value::Null).await;
        Ok(response.map(|body| Held::new(body, presence).boxed()))
    }

    async fn post(
        &self,
        request: Request<Incoming>,
        caller: Caller,
        from: IpAddr,
        Entered { in_flight, mut presence }: Entered,
    ) -> Answered {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let error = WireError::new(ErrorKind::InvalidRequest, "the Content-Type is not application/json")
                .hint("send `Content-Type: application/json`");
            let response = turned_away(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
            return Err(Box::new(without_its_body(*response, body).await));
        }
        let body = body::read(body, &self.policy, &mut presence)
            .await
            .map_err(|(status, error)| Box::new(turned_away(status, &error).with("connection", "close")))?;
        let message =
            Message::read(&body).map_err(|refused| Box::new(answer::error(&refused.error, &refused.id)))?;
        if message.kind() == Kind::Answer && !parts.headers.contains_key(SESSION_ID) {
            let error = WireError::new(
                ErrorKind::InvalidRequest,
                "this server has not asked anything of this client",
            )
            .hint("send requests and notifications; an answer belongs to the session that it was asked in");
            return Err(Box::new(answer::error(&error, message.id())));
        }
        // A subscription ends when the client or the server does; nobody waits for it.
        let endless = message.method() == "subscriptions/listen";
        if endless && let Err(too_much) = presence.become_stream() {
            return Err(Box::new(self.too_much(too_much, message.id())));
        }
        let limit = self.reserve(&caller, from, &message).await?;

        let plain = !accepts_events(&parts.headers);
        let initialises = message.method() == "initialize";
        // An `initialize` that cannot be read opens nothing; without a session it gets a proper error.
        let opens_session = initialises && !plain && message.is_readable();
        let in_session = parts.headers.contains_key(SESSION_ID) || opens_session;
        if opens_session && !self.sessions.has_room(&caller.principal).await {
            return Err(Box::new(self.too_many_sessions(message.id())));
        }

        let bare = plain && !in_session && !parts.headers.contains_key(PROTOCOL_VERSION);
        let id = message.id().clone();
        let is_request = message.kind() == Kind::Request;
        let until = Instant::now() + self.policy.request_timeout;
        let answered = async {
            let client = direct::Client { bare, plain };
            if !in_session && direct::serves(&message, &parts.headers, client) {
                direct::call(&self.app, caller, message, client, until).await
            } else {
                // In a session the answer is streamed, and may take its time.
                let admitted = Admitted { caller, plain, until: (!in_session).then_some(until) };
                let response = self.protocol(parts, admitted, message, in_session).await;
                polish::polished(response, bare, &id).await
            }
        };
        // Calls and reads keep to the limit themselves, and say how to get their result later.
        let response = tokio::select! {
            response = timeout_at(until + GRACE, answered) => response.unwrap_or_else(|_| self.too_late(&id)),
            () = self.cut.cancelled() => unavailable(&cut_off(), &id),
        };
        let response = response.map(|body| Held::new(body, presence).boxed());
        if endless {
            return Ok(answer::with_limit(response, limit.as_ref()));
        }
        let is_stream = polish::is_stream(&response);
        let response = response.map(|body| {
            let is_cut = is_stream && is_request;
            let body = if is_cut { CutShort::new(body, &self.cut, last_event(&id)).boxed() } else { body };
            Held::new(body, in_flight).boxed()
        });
        Ok(answer::with_limit(response, limit.as_ref()))
    }

    /// Hands a message to the protocol library.
    async fn protocol(
        &self,
        mut parts: http::request::Parts,
        admitted: Admitted,
        message: Message,
        in_session: bool,
    ) -> Response<Body> {
        let caller = admitted.caller.clone();
        let opens_session = in_session && !parts.headers.contains_key(SESSION_ID);
        parts.headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        parts.extensions.insert(Arc::new(admitted));
        let request = Request::from_parts(parts, Full::new(Bytes::from(message.into_bytes())));
        if !in_session {
            return self.stateless.handle(request).await;
        }
        let response = self.with_sessions.handle(request).await;
        let session = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(session) = session.filter(|_| opens_session) {
            self.sessions.opened(session, &caller).await;
        }
        response
    }

    /// Counts what counts; everything else is free, but tells where the key stands.
    async fn reserve(
        &self,
        caller: &Caller,
        from: IpAddr,
        message: &Message,
    ) -> Result<Option<Allowance>, Box<Response<Body>>> {
        let Some(key) = &caller.key else { return Ok(None) };
        let is_free = match self.app.price(caller, message) {
            Price::Free => true,
            Price::FreeAtARate => self.app.gateway.is_free(key).await,
            Price::One => false,
        };
        if is_free {
            return Ok(self.app.gateway.usage(key).await.ok().map(|usage| usage.nearer()));
        }
        match self.app.gateway.reserve(key).await {
            Ok(usage) => Ok(Some(usage.nearer())),
            Err(refusal) => {
                let (principal, method) = (Some(&caller.principal), message.method());
                let attempt =
                    Attempt { from, principal, method, subject: message.subject(), id: message.id() };
                Err(Box::new(self.refusals.turn_away(&self.app, refusal, attempt).await))
            }
        }
    }

    fn too_many_sessions(&self, id: &Value) -> Response<Body> {
        let most = sessions::MOST_PER_PRINCIPAL as u64;
        let resets_at = self.app.now().saturating_add(IDLE_SESSIONS_END).unwrap_or(Timestamp::MAX);
        let mut error = WireError::new(ErrorKind::QuotaExceeded, "this principal has too many open sessions")
            .hint("end sessions with DELETE, or wait five minutes for idle ones to end");
        let facts = json!({ "limit": most, "used": most, "reset_at": resets_at.to_string() });
        error.data.extend(facts.as_object().cloned().unwrap_or_default());
        let response = answer::error(&error, id).with("retry-after", IDLE_SESSIONS_END.as_secs());
        answer::with_limit(response, Some(&Allowance { limit: most, used: most, resets_at }))
    }

    /// Turns away an owner that has enough of the server.
    fn too_much(&self, too_much: TooMuch, id: &Value) -> Response<Body> {
        let TooMuch { of, limit, .. } = too_much;
        let limit = limit as u64;
        let resets_at = self.app.now().saturating_add(ROOM_AGAIN).unwrap_or(Timestamp::MAX);
        let mut error = WireError::new(ErrorKind::QuotaExceeded, format!("there are {limit} {of} already"))
            .hint("wait for some to end, or end them");
        let facts = json!({ "limit": limit, "used": limit, "reset_at": resets_at.to_string() });
        error.data.extend(facts.as_object().cloned().unwrap_or_default());
        answer::error(&error, id).with("retry-after", ROOM_AGAIN.as_secs())
    }

    fn too_late(&self, id: &Value) -> Response<Body> {
        let limit = self.policy.request_timeout;
        let details = format!("there was no answer within {limit:?}");
        let error = WireError::new(ErrorKind::InternalError, details)
            .hint("send the request again; if it stays, look at the server's log");
        answer::error(&error, id)
    }
}

/// How much longer than the limit of a request is waited for what does not keep to it.
const GRACE: Duration = Duration::from_secs(2);

/// When somebody who has too much may try again.
const ROOM_AGAIN: Duration = Duration::from_secs(5);

/// How long telling those whose calls outlast the drain may take.
const UNTIL_TOLD: Duration = Duration::from_millis(500);

/// When the protocol library ends sessions that nobody uses.
const IDLE_SESSIONS_END: Duration = Duration::from_secs(300);

/// How much of a body, and for how long, is waited for that nobody reads.
const LARGEST_PASSED_OVER: usize = 64 << 10;
const UNTIL_PASSED_OVER: Duration = Duration::from_millis(50);

/// A request that was let in, and counts until it is answered.
struct Entered {
    in_flight: InFlight,
    presence: Presence,
}

/// An answer; the error side is one that the front gave itself.
type Answered = Result<Response<Body>, Box<Response<Body>>>;

fn turned_away(status: StatusCode, error: &WireError) -> Box<Response<Body>> {
    Box::new(answer::error_as(status, error, &Value::Null))
}

/// An answer of a server that stops.
fn unavailable(error: &WireError, id: &Value) -> Response<Body> {
    answer::error_as(StatusCode::SERVICE_UNAVAILABLE, error, id)
        .with("retry-after", 5u64)
        .with("connection", "close")
}

fn cut_off() -> WireError {
    WireError::new(ErrorKind::InternalError, "the server is shutting down and no longer waits for this call")
        .hint("try again in a moment; debug sessions have ended with the server, so launch or attach first")
}

/// The answer to a call whose stream the server ends.
fn last_event(id: &Value) -> Bytes {
    format!("event: message\ndata: {}\n\n", cut_off().answer(id)).into()
}

/// An answer that does not depend on the body. A small one that is there already is passed over; with any other the
/// connection ends, and the client must know, or it sends the next request into a connection that is being closed.
async fn without_its_body(response: Response<Body>, mut body: Incoming) -> Response<Body> {
    let passed_over = async {
        let mut passed = 0;
        while let Some(frame) = body.frame().await {
            passed += frame.ok()?.data_ref().map_or(0, Bytes::len);
            if passed > LARGEST_PASSED_OVER {
                return None;
            }
        }
        Some(())
    };
    match timeout(UNTIL_PASSED_OVER, passed_over).await {
        Ok(Some(())) => response,
        _ => response.with("connection", "close"),
    }
}

/// The rest of a stream, or a refusal when there is none. The TypeScript SDK asks for the rest after
/// every error answer, takes an empty stream for one that broke and asks again; a refusal ends that.
fn rest_or_refusal(mut response: Response<Body>) -> Response<Body> {
    // What is to be replayed is there already; anything else may take as long as it likes.
    match response.body_mut().frame().now_or_never() {
        None => response,
        Some(None) => nothing_more(),
        Some(Some(first)) => response.map(|rest| {
            let first = futures::stream::once(std::future::ready(first));
            BodyExt::boxed(StreamBody::new(first.chain(BodyStream::new(rest))))
        }),
    }
}

fn nothing_more() -> Response<Body> {
    let error = WireError::new(ErrorKind::InvalidRequest, "there is nothing more on that stream")
        .hint("open a new stream with GET");
    answer::error_as(StatusCode::METHOD_NOT_ALLOWED, &error, &Value::Null).with("allow", "GET, POST, DELETE")
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or(""))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains(EVENT_STREAM)))
}
