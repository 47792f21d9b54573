//! The protocol library's own errors, brought to the form of ours: JSON, with details and a hint.

use http::{Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::{Body, answer};
use crate::catalogue::{ErrorKind, WireError, explain};

/// The answer, with a helpful error where it is one. Event streams pass untouched.
pub(super) async fn polished(response: Response<Body>, bare: bool, id: &Value) -> Response<Body> {
    let status = response.status();
    // A bare caller reads the status first, so an error inside a 200 must be looked for.
    let may_be_error = status.is_client_error() || status.is_server_error() || bare;
    if is_stream(&response) || !may_be_error {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
    let Ok(mut answer) = serde_json::from_slice::<Value>(&body) else {
        if parts.status.is_success() {
            return Response::from_parts(parts, http_body_util::Full::new(body).boxed());
        }
        return answer::error_as(status, &from_text(&String::from_utf8_lossy(&body)), id);
    };
    if let Some(error) = answer.get_mut("error") {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let down = ErrorKind::StoreUnreachable;
        let is_down = error.get("message").and_then(Value::as_str) == Some(down.entry().message);
        explain(error);
        if answer.get("id").is_none() {
            answer["id"] = Value::Null;
        }
        if bare && code == i64::from(ErrorKind::InternalError.entry().code) {
            parts.status = answer::status_of(if is_down { down } else { ErrorKind::InternalError });
        }
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, http_body_util::Full::from(answer.to_string()).boxed());
    }
    Response::from_parts(parts, http_body_util::Full::new(body).boxed())
}

/// Whether the answer is a stream of events.
pub(super) fn is_stream(response: &Response<Body>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

fn from_text(text: &str) -> WireError {
    let hint = match text {
        text if text.contains("must accept") => "send `Accept: application/json, text/event-stream`",
        text if text.contains("Session ID") => "send `initialize` first and pass on its `Mcp-Session-Id`",
        text if text.contains("Session not found") => "send `initialize` to open another session",
        text if text.contains("Protocol-Version") => {
            "use 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28"
        }
        _ => ErrorKind::InvalidRequest.entry().remedy,
    };
    WireError::new(ErrorKind::InvalidRequest, text.trim_start_matches("Bad Request: ")).hint(hint)
}
