//! Answers that come from the front itself.

use bytes::Bytes;
use hindcast_core::quota::Allowance;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::Body;
use crate::catalogue::{ErrorKind, WireError};

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response.with("content-type", "application/json")
}

/// An error with the HTTP status that belongs to it.
pub(super) fn error(error: &WireError, id: &Value) -> Response<Body> {
    let response = error_as(status_of(error.kind), error, id);
    match error.kind {
        ErrorKind::StoreUnreachable => response.with("retry-after", SOON),
        _ => response,
    }
}

/// Seconds after which another try makes sense where something was down that starts again by itself.
const SOON: u64 = 2;

/// An error with an HTTP status of its own.
pub(super) fn error_as(status: StatusCode, error: &WireError, id: &Value) -> Response<Body> {
    json(status, error.answer(id).to_string())
}

pub(super) fn status_of(kind: ErrorKind) -> StatusCode {
    StatusCode::from_u16(kind.entry().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Says how a limit of the caller's key stands.
pub(super) fn with_limit(response: Response<Body>, limit: Option<&Allowance>) -> Response<Body> {
    let Some(allowance) = limit else { return response };
    let reset = allowance.resets_at.as_second().max(0).unsigned_abs();
    response
        .with(LIMIT, allowance.limit)
        .with("x-ratelimit-remaining", allowance.remaining())
        .with("x-ratelimit-reset", reset)
}

/// Whether the answer says that already.
pub(super) fn has_limit(response: &Response<Body>) -> bool {
    response.headers().contains_key(LIMIT)
}

const LIMIT: &str = "x-ratelimit-limit";

/// Adds headers in a row.
pub(super) trait With {
    fn with(self, name: &'static str, value: impl IntoHeader) -> Self;
}

impl With for Response<Body> {
    fn with(mut self, name: &'static str, value: impl IntoHeader) -> Self {
        self.headers_mut().insert(HeaderName::from_static(name), value.into_header());
        self
    }
}

pub(super) trait IntoHeader {
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
