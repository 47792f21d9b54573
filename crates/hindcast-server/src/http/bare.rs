//! Tool calls without a protocol: one request, one JSON answer, as the contract's `curl` lines make them.
//!
//! Nothing of the protocol library is needed for these.

use std::sync::Arc;

use hindcast_core::{identity::Caller, progress::Unwatched};
use hindcast_services::{Failure, FailureKind};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::{Body, answer};
use crate::{app::App, catalogue::WireError, jsonrpc::Message, registry::Answer};

/// Calls the tool that the message names.
pub(super) async fn call(app: &Arc<App>, caller: Caller, mut message: Message) -> Response<Body> {
    let result = match name_and_arguments(message.take_params()) {
        Ok((name, arguments)) => app.call_tool(caller, name, arguments, Arc::new(Unwatched)).await,
        Err(failure) => Err(app.refused_call(&caller, "tools/call", failure).await),
    };
    match result {
        Ok(Answer { text, content }) => {
            let text = json!([{ "type": "text", "text": text }]);
            let result = json!({ "content": text, "structuredContent": content, "isError": false });
            let answer = json!({ "jsonrpc": "2.0", "id": message.id(), "result": result });
            answer::json(StatusCode::OK, answer.to_string())
        }
        Err(failure) => answer::error(&WireError::from(failure), message.id()),
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
