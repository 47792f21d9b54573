//! What happens to an HTTP request before it is MCP, and to the answer after it was.
//!
//! Two instances of the protocol library's HTTP service stand behind this front: one with sessions
//! for clients that initialise, one without for everybody else. The front decides between them and
//! checks what they are lenient about, so that a bare `curl` gets plain JSON and every error comes
//! from our catalogue.

use std::{net::IpAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use hindcast_core::{
    audit::AuditRecord,
    identity::{Caller, PrincipalId},
    quota::Usage,
};
use hindcast_services::gateway::Refusal;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{local::LocalSessionManager, never::NeverSessionManager},
};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Body, HttpPolicy,
    drain::{Counted, Drain, InFlight},
    guard::Guard,
    sessions::Sessions,
};
use crate::{
    app::App,
    catalogue::{ErrorKind, WireError},
    jsonrpc::{self, Message},
    mcp::{Admitted, Handler, Lifecycle},
};

const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const EVENT_STREAM: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const ENDPOINT: &str = "/mcp";

/// The HTTP face of the server.
pub struct Front {
    app: Arc<App>,
    policy: HttpPolicy,
    guard: Guard,
    drain: Drain,
    sessions: Sessions,
    with_sessions: StreamableHttpService<Handler, LocalSessionManager>,
    stateless: StreamableHttpService<Handler, NeverSessionManager>,
    /// Ends open event streams.
    streams: CancellationToken,
    refusals: RefusalLog,
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
        let manager = Arc::new(LocalSessionManager::default());
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
        let refusals = RefusalLog::new();
        Arc::new(Self {
            app,
            policy,
            guard,
            drain: Drain::new(),
            sessions,
            with_sessions,
            stateless,
            streams,
            refusals,
        })
    }

    pub(super) fn policy(&self) -> &HttpPolicy {
        &self.policy
    }

    /// Turns newcomers away, waits for what is under way, ends what would go on for ever.
    pub(super) async fn drain(&self) {
        self.drain.stop();
        let _ = timeout(self.policy.drain_timeout, self.drain.emptied()).await;
        self.streams.cancel();
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        let Some(in_flight) = self.drain.enter() else {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                &WireError::new(ErrorKind::InternalError, "the server is shutting down")
                    .hint("try again in a moment"),
            )
            .with("retry-after", 5u64)
            .with("connection", "close");
        };
        match request.uri().path() {
            ENDPOINT => self.mcp(request, from, in_flight).await,
            "/healthz" => plain(StatusCode::OK, "application/json", r#"{"status":"ok"}"#),
            other => refuse(
                StatusCode::NOT_FOUND,
                &WireError::new(ErrorKind::InvalidRequest, format!("there is nothing at `{other}`"))
                    .hint("the endpoint is /mcp"),
            ),
        }
    }

    async fn mcp(&self, request: Request<Incoming>, from: IpAddr, in_flight: InFlight) -> Response<Body> {
        if let Err(details) = self.guard.check(request.uri(), request.headers()) {
            let error = WireError::new(ErrorKind::PermissionDenied, details)
                .hint("add the name to `server.allowed_hosts` or `server.allowed_origins` if it is yours");
            return refuse(StatusCode::FORBIDDEN, &error);
        }
        if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
            let error = WireError::new(
                ErrorKind::InvalidRequest,
                format!("{} is not supported here", request.method()),
            )
            .hint("send JSON-RPC with POST");
            return refuse(StatusCode::METHOD_NOT_ALLOWED, &error).with("allow", "GET, POST, DELETE");
        }
        let authorization =
            request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or(""));
        let caller = match self.app.gateway.authenticate(authorization, from).await {
            Ok(caller) => caller,
            Err(refusal) => return self.turn_away(refusal, from, "authenticate", None).await,
        };
        if *request.method() == Method::POST {
            self.post(request, caller, in_flight).await
        } else {
            self.stream(request, caller).await
        }
    }

    /// GET and DELETE: the event stream and the end of a session.
    async fn stream(&self, mut request: Request<Incoming>, caller: Caller) -> Response<Body> {
        if let Err(response) = self.own_session(request.headers(), &caller.principal) {
            return response;
        }
        request.extensions_mut().insert(Arc::new(admitted(caller, false)));
        self.with_sessions.handle(request).await
    }

    async fn post(&self, request: Request<Incoming>, caller: Caller, in_flight: InFlight) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let error = WireError::new(ErrorKind::InvalidRequest, "the Content-Type is not application/json");
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
        }
        let body = match self.read(body).await {
            Ok(body) => body,
            Err((status, error)) => return refuse(status, &error).with("connection", "close"),
        };
        let message = match jsonrpc::check(&body) {
            Ok(message) => message,
            Err(refused) => return refused_message(&refused),
        };
        if let Err(response) = self.own_session(&parts.headers, &caller.principal) {
            return response;
        }
        let usage = match self.reserve(&caller, &message).await {
            Ok(usage) => usage,
            Err((refusal, id)) => {
                return self.turn_away_caller(*refusal, &caller, &message, &id).await;
            }
        };
        let plain = !accepts_events(&parts.headers);
        let initialises = matches!(&message, Message::Request { method, .. } if method == "initialize");
        let in_session = parts.headers.contains_key(SESSION_ID) || (initialises && !plain);
        if initialises && in_session && !self.sessions.has_room(&caller.principal).await {
            let error = WireError::new(ErrorKind::QuotaExceeded, "this principal has too many open sessions")
                .hint("end sessions with DELETE, or wait five minutes for idle ones to end");
            return refuse(StatusCode::TOO_MANY_REQUESTS, &error).with("retry-after", 300u64);
        }
        parts.headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        let bare = plain && !parts.headers.contains_key(PROTOCOL_VERSION);
        let principal = caller.principal.clone();
        let admitted = Arc::new(admitted(caller, plain));
        parts.extensions.insert(admitted.clone());
        let request = Request::from_parts(parts, Full::new(body));
        let answered = timeout(self.policy.request_timeout, async {
            if in_session {
                self.with_sessions.handle(request).await
            } else {
                self.stateless.handle(request).await
            }
        });
        let Ok(mut response) = answered.await else {
            let limit = self.policy.request_timeout;
            let error = WireError::new(
                ErrorKind::InternalError,
                format!("there was no answer within {limit:?}; the work goes on"),
            )
            .hint("ask for the result again, or use a client that follows progress");
            return limits(
                answer_with(StatusCode::INTERNAL_SERVER_ERROR, &error, &id_of(&message)),
                usage.as_ref(),
            );
        };
        if let Some(session) =
            response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).filter(|_| initialises)
        {
            self.sessions.opened(session, principal).await;
        }
        if let Some(error) = admitted.error.get().filter(|_| bare) {
            *response.status_mut() = status(error.entry().status);
        }
        limits(response.map(|body| Counted::new(body, in_flight).boxed()), usage.as_ref())
    }

    /// Reads a body that is neither too large nor too slow.
    async fn read(&self, mut body: Incoming) -> Result<Bytes, (StatusCode, WireError)> {
        let most = self.policy.max_body_bytes;
        let mut collected = BytesMut::new();
        let whole = async {
            loop {
                let frame =
                    timeout(self.policy.connection_timeout, body.frame()).await.map_err(|_| too_slow())?;
                let Some(frame) = frame else { return Ok(()) };
                let frame = frame.map_err(|error| {
                    let error =
                        WireError::new(ErrorKind::InvalidRequest, format!("the body broke off: {error}"));
                    (StatusCode::BAD_REQUEST, error)
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if collected.len() + data.len() > most {
                    let error = WireError::new(
                        ErrorKind::InvalidRequest,
                        format!("the body is larger than {most} bytes"),
                    )
                    .hint("send less at a time, or raise `server.max_body_bytes`");
                    return Err((StatusCode::PAYLOAD_TOO_LARGE, error));
                }
                collected.extend_from_slice(&data);
            }
        };
        timeout(self.policy.request_timeout, whole).await.map_err(|_| too_slow())??;
        Ok(collected.freeze())
    }

    /// Counts calls and reads; everything else is free, but tells where the key stands.
    async fn reserve(
        &self,
        caller: &Caller,
        message: &Message,
    ) -> Result<Option<Usage>, (Box<Refusal>, Value)> {
        let Some(key) = &caller.key else { return Ok(None) };
        let metered = matches!(message, Message::Request { method, .. } if METERED.contains(&&**method));
        if metered {
            let reserved = self.app.gateway.reserve(key).await;
            return reserved.map(Some).map_err(|refusal| (Box::new(refusal), id_of(message)));
        }
        Ok(self.app.gateway.usage(key).await.ok())
    }

    /// A session is only there for the principal that opened it.
    fn own_session(&self, headers: &HeaderMap, principal: &PrincipalId) -> Result<(), Response<Body>> {
        let Some(session) = headers.get(SESSION_ID) else { return Ok(()) };
        let own = session.to_str().is_ok_and(|session| self.sessions.belongs_to(session, principal));
        if own {
            return Ok(());
        }
        let error = WireError::new(ErrorKind::InvalidRequest, "there is no such session")
            .hint("send `initialize` to open one");
        Err(refuse(StatusCode::NOT_FOUND, &error))
    }

    async fn turn_away_caller(
        &self,
        refusal: Refusal,
        caller: &Caller,
        message: &Message,
        id: &Value,
    ) -> Response<Body> {
        let from = caller.address.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let subject = match message {
            Message::Request { method, subject, .. } => Some((method.clone(), subject.clone())),
            Message::Notification { .. } | Message::Answer => None,
        };
        self.turn_away_with(refusal, from, Some(&caller.principal), subject, id).await
    }

    async fn turn_away(
        &self,
        refusal: Refusal,
        from: IpAddr,
        method: &str,
        subject: Option<String>,
    ) -> Response<Body> {
        self.turn_away_with(refusal, from, None, Some((method.to_owned(), subject)), &Value::Null).await
    }

    /// Says no, and writes it down unless so much is refused that the trail would drown in it.
    async fn turn_away_with(
        &self,
        refusal: Refusal,
        from: IpAddr,
        principal: Option<&PrincipalId>,
        subject: Option<(String, Option<String>)>,
        id: &Value,
    ) -> Response<Body> {
        let usage = refusal.usage;
        let error = WireError::from(refusal.failure);
        let entry = error.kind.entry();
        if let Some(unwritten) = self.refusals.may_write() {
            let (method, tool) = subject.unwrap_or_default();
            let record = AuditRecord {
                time: self.app.now(),
                principal: principal.cloned(),
                key_id: refusal.key,
                ip: Some(from.to_canonical().to_string()),
                method: method.into(),
                tool: tool.map(|tool| tool.chars().take(80).collect()),
                target: (unwritten > 0).then(|| format!("and {unwritten} more refusals not written down")),
                session_id: None,
                outcome: entry.outcome.into(),
                duration_us: 0,
            };
            if let Err(failure) = self.app.gateway.audit().append(record).await {
                tracing::error!(%failure, "a refusal could not be written down");
            }
        }
        let mut response = answer_with(status(entry.status), &error, id);
        if error.kind == ErrorKind::AuthenticationFailed {
            response = response.with("www-authenticate", r#"Bearer realm="hindcast", error="invalid_token""#);
        }
        if let Some(seconds) = refusal.retry_after {
            response = response.with("retry-after", seconds);
        }
        limits(response, usage.as_ref())
    }
}

/// The methods that count against a key's limits.
const METERED: [&str; 2] = ["tools/call", "resources/read"];

fn admitted(caller: Caller, plain: bool) -> Admitted {
    Admitted { caller, plain, error: std::sync::OnceLock::new() }
}

fn id_of(message: &Message) -> Value {
    match message {
        Message::Request { id, .. } => id.clone(),
        Message::Notification { .. } | Message::Answer => Value::Null,
    }
}

fn too_slow() -> (StatusCode, WireError) {
    let error = WireError::new(ErrorKind::InvalidRequest, "the body did not arrive in time")
        .hint("send it without pauses");
    (StatusCode::REQUEST_TIMEOUT, error)
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

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn plain(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response.with("content-type", kind)
}

fn refuse(status: StatusCode, error: &WireError) -> Response<Body> {
    answer_with(status, error, &Value::Null)
}

fn refused_message(refused: &jsonrpc::Refused) -> Response<Body> {
    answer_with(status(refused.error.kind.entry().status), &refused.error, &refused.id)
}

fn answer_with(status: StatusCode, error: &WireError, id: &Value) -> Response<Body> {
    plain(status, "application/json", error.answer(id).to_string())
}

fn limits(response: Response<Body>, usage: Option<&Usage>) -> Response<Body> {
    let Some(usage) = usage else { return response };
    let reset = usage.month_resets_at.as_second().max(0).unsigned_abs();
    response
        .with("x-ratelimit-limit", usage.limits.per_month)
        .with("x-ratelimit-remaining", usage.remaining())
        .with("x-ratelimit-reset", reset)
}

/// Adds headers in a row.
trait With {
    fn with(self, name: &'static str, value: impl IntoHeader) -> Self;
}

impl With for Response<Body> {
    fn with(mut self, name: &'static str, value: impl IntoHeader) -> Self {
        self.headers_mut().insert(HeaderName::from_static(name), value.into_header());
        self
    }
}

trait IntoHeader {
    fn into_header(self) -> HeaderValue;
}

impl IntoHeader for &'static str {
    fn into_header(self) -> HeaderValue {
        HeaderValue::from_static(self)
    }
}

impl IntoHeader for u64 {
    fn into_header(self) -> HeaderValue {
        self.into()
    }
}

/// Keeps a flood of refused requests from filling the audit trail.
struct RefusalLog {
    rate: governor::DefaultDirectRateLimiter,
    unwritten: std::sync::atomic::AtomicU64,
}

impl RefusalLog {
    fn new() -> Self {
        let rate = governor::Quota::per_second(const { std::num::NonZeroU32::new(10).expect("not zero") })
            .allow_burst(const { std::num::NonZeroU32::new(1000).expect("not zero") });
        Self { rate: governor::RateLimiter::direct(rate), unwritten: std::sync::atomic::AtomicU64::new(0) }
    }

    /// How many went unwritten since the last one, if this one may be written.
    fn may_write(&self) -> Option<u64> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.rate.check().is_ok() {
            Some(self.unwritten.swap(0, Relaxed))
        } else {
            self.unwritten.fetch_add(1, Relaxed);
            None
        }
    }
}
