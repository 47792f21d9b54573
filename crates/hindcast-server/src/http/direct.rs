//! Tool calls that are answered without the protocol library: one request, one JSON answer.
//!
//! A call without a session that asks for neither progress nor log messages needs nothing that the
//! library does, and the library makes a service, a transport and several tasks for every one.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_core::{
    identity::Caller,
    progress::{Progress, Unwatched},
};
use hindcast_services::{Failure, FailureKind};
use http::{HeaderMap, Response, StatusCode};
use rmcp::model::ProtocolVersion;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Body, PROTOCOL_VERSION, answer};
use crate::{
    app::App,
    catalogue::{ErrorKind, WireError},
    jsonrpc::{Kind, Message},
    overtime::TimeLimit,
    registry::{Attachment, Reply},
};

/// What the client takes for an answer.
#[derive(Clone, Copy)]
pub(super) struct Client {
    /// It speaks no protocol: it reads the HTTP status first.
    pub(super) bare: bool,
    /// It takes JSON only, and its going away does not cancel.
    pub(super) plain: bool,
}

/// Whether this message, sent without a session, is such a call. Whatever is out of the ordinary is
/// left to the protocol library, which knows all about it.
pub(super) fn serves(message: &Message, headers: &HeaderMap, client: Client) -> bool {
    if message.kind() != Kind::Request || message.method() != "tools/call" {
        return false;
    }
    client.bare || (has_handshake(headers) && is_ordinary(message))
}

/// Whether the revision that the client speaks, if it says so, is one in which a request says nothing
/// about itself in headers.
fn has_handshake(headers: &HeaderMap) -> bool {
    headers.get(PROTOCOL_VERSION).is_none_or(|named| {
        ProtocolVersion::KNOWN_VERSIONS
            .iter()
            .any(|known| known.has_initialize() && named.as_bytes() == known.as_str().as_bytes())
    })
}

fn is_ordinary(message: &Message) -> bool {
    message.params().is_some_and(|params| {
        params.get("name").is_some_and(Value::is_string)
            && params.iter().all(|(field, value)| match field.as_str() {
                "name" => true,
                "arguments" => value.is_object(),
                _ => false,
            })
    })
}

/// Calls the tool that the message names.
pub(super) async fn call(
    app: &Arc<App>,
    caller: Caller,
    mut message: Message,
    client: Client,
    until: Instant,
) -> Response<Body> {
    let gone = CancellationToken::new();
    let _told_when_dropped = gone.clone().drop_guard();
    let watch: Arc<dyn Progress> =
        if client.plain { Arc::new(Unwatched) } else { Arc::new(WhileWaitedFor(gone)) };
    let result = match name_and_arguments(message.take_params()) {
        Ok((name, arguments)) => {
            let limit = TimeLimit { until, unless_heard: false };
            app.call_tool(caller, name, arguments, watch, Some(limit)).await
        }
        Err(failure) => Err(app.refused_call(&caller, "tools/call", failure).await),
    };
    match result {
        Ok(reply) => success(message.id(), &reply, client),
        Err(failure) if client.bare => answer::error(&WireError::of(failure, app.tool_names), message.id()),
        Err(failure) => {
            answer::error_as(StatusCode::OK, &WireError::of(failure, app.tool_names), message.id())
        }
    }
}

/// Tells the work when its client went away.
struct WhileWaitedFor(CancellationToken);

impl Progress for WhileWaitedFor {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

fn name_and_arguments(mut params: Map<String, Value>) -> Result<(String, Map<String, Value>), Failure> {
    let invalid = |details: &str| {
        Failure::new(FailureKind::InvalidInput, details)
            .hint("send `params` with a `name` and an object as `arguments`")
    };
    let Some(Value::String(name)) = params.remove("name") else {
        return Err(invalid("`name` is not a string"));
    };
    match params.remove("arguments") {
        None | Some(Value::Null) => Ok((name, Map::new())),
        Some(Value::Object(arguments)) => Ok((name, arguments)),
        Some(_) => Err(invalid("`arguments` is not an object")),
    }
}

#[derive(Serialize)]
struct Success<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: ToolResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    content: Vec<Part<'a>>,
    structured_content: &'a Value,
    is_error: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    /// As the contract has it.
    #[serde(rename_all = "camelCase")]
    Blob {
        blob: String,
        mime_type: &'static str,
    },
    /// As the protocol has it.
    Resource {
        resource: Embedded<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Embedded<'a> {
    uri: &'a str,
    mime_type: &'static str,
    blob: String,
}

const BYTES: &str = "application/octet-stream";

/// The text and what is beside it. Whoever speaks no protocol gets bytes in the contract's form, first,
/// where the contract shows them.
fn parts(reply: &Reply, client: Client) -> Vec<Part<'_>> {
    let text = Part::Text { text: &reply.text };
    match &reply.attachment {
        None => vec![text],
        Some(Attachment::Text(attached)) => vec![text, Part::Text { text: attached }],
        Some(Attachment::Blob { bytes, .. }) if client.bare => {
            vec![Part::Blob { blob: BASE64_STANDARD.encode(bytes), mime_type: BYTES }, text]
        }
        Some(Attachment::Blob { uri, bytes }) => {
            let resource = Embedded { uri, mime_type: BYTES, blob: BASE64_STANDARD.encode(bytes) };
            vec![text, Part::Resource { resource }]
        }
    }
}

fn success(id: &Value, reply: &Reply, client: Client) -> Response<Body> {
    let content = parts(reply, client);
    let result = ToolResult { content, structured_content: &reply.content, is_error: false };
    match serde_json::to_vec(&Success { jsonrpc: "2.0", id, result }) {
        Ok(body) => answer::json(StatusCode::OK, body),
        Err(error) => {
            let details = format!("the answer cannot be written: {error}");
            answer::error(&WireError::new(ErrorKind::InternalError, details), id)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(version: Option<&'static str>, params: &str, served: bool) {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let message = Message::read(message.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        if let Some(version) = version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version));
        }
        let client = Client { bare: false, plain: false };
        assert_eq!(serves(&message, &headers, client), served, "{version:?} {params}");
    }

    #[test]
    fn bytes_have_the_contracts_form_for_bare_clients_and_the_protocols_for_others() {
        let blob = Attachment::Blob { uri: "debugger://trace".into(), bytes: vec![1, 2, 3] };
        let reply = Reply { text: "done".into(), content: Value::Null, attachment: Some(blob) };
        let written = |bare| serde_json::to_value(parts(&reply, Client { bare, plain: true })).unwrap();
        let bytes =
            serde_json::json!({ "type": "blob", "blob": "AQID", "mimeType": "application/octet-stream" });
        let text = serde_json::json!({ "type": "text", "text": "done" });
        assert_eq!(written(true), serde_json::json!([bytes, text]));
        let resource = serde_json::json!({
            "uri": "debugger://trace", "mimeType": "application/octet-stream", "blob": "AQID"
        });
        assert_eq!(written(false), serde_json::json!([text, { "type": "resource", "resource": resource }]));
    }

    #[test]
    fn only_ordinary_calls_of_revisions_with_a_handshake_pass_the_library_by() {
        let ordinary = r#"{"name":"x","arguments":{}}"#;
        for version in [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")]
        {
            check(version, ordinary, true);
            check(version, r#"{"name":"x"}"#, true);
        }
        for version in ["2026-07-28", "1999-01-01", "2025-11-2", ""] {
            check(Some(version), ordinary, false);
        }
        for params in [
            r#"{}"#,
            r#"{"name":1}"#,
            r#"{"name":"x","arguments":[]}"#,
            r#"{"name":"x","arguments":null}"#,
            r#"{"name":"x","_meta":{"progressToken":1}}"#,
            r#"{"name":"x","task":{}}"#,
        ] {
            check(None, params, false);
        }
    }
}
