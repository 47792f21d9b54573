//! The JSON-RPC envelope, checked before anything else looks at a message.
//!
//! The protocol library is lenient where the contract is not (batches, odd ids, positional
//! parameters), so both transports come through here first.

use serde_json::{Map, Value};

use crate::catalogue::{ErrorKind, WireError};

/// Longer ids are refused: they are echoed, logged and kept while the request runs.
const LONGEST_ID: usize = 256;

/// A message whose envelope is in order.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    fields: Map<String, Value>,
    kind: Kind,
}

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    /// An answer to something the server asked.
    Answer,
}

/// A message that is refused, with the id its answer should carry.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) id: Value,
    pub(crate) error: WireError,
}

impl Message {
    /// Reads one message.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Refused> {
        let refuse = |id: &Value, kind, details: &str| Refused {
            id: id.clone(),
            error: WireError::new(kind, details),
        };
        let parsed = serde_json::from_slice(text)
            .map_err(|error| refuse(&Value::Null, ErrorKind::ParseError, &error.to_string()))?;
        let fields = match parsed {
            Value::Object(fields) => fields,
            Value::Array(_) => {
                let details = "batches are not supported; send one message at a time";
                return Err(refuse(&Value::Null, ErrorKind::InvalidRequest, details));
            }
            _ => return Err(refuse(&Value::Null, ErrorKind::InvalidRequest, "the message is not an object")),
        };
        let id = fields.get("id").unwrap_or(&Value::Null);
        if let Some(details) = fields.get("id").and_then(odd_id) {
            return Err(refuse(&Value::Null, ErrorKind::InvalidRequest, &details));
        }
        let kind = match fields.get("method") {
            Some(Value::String(_)) if fields.contains_key("id") => Kind::Request,
            Some(Value::String(_)) => Kind::Notification,
            Some(_) => return Err(refuse(id, ErrorKind::InvalidRequest, "`method` is not a string")),
            None if !id.is_null() && (fields.contains_key("result") || fields.contains_key("error")) => {
                Kind::Answer
            }
            None => return Err(refuse(id, ErrorKind::InvalidRequest, "`method` is missing")),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(refuse(id, ErrorKind::InvalidRequest, "`jsonrpc` is not \"2.0\""));
        }
        if fields.get("params").is_some_and(|params| !params.is_object()) {
            return Err(refuse(id, ErrorKind::InvalidParams, "`params` is not an object"));
        }
        Ok(Self { fields, kind })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The id an answer carries; null where there is none to answer.
    pub(crate) fn id(&self) -> &Value {
        self.fields.get("id").unwrap_or(&Value::Null)
    }

    /// Empty for an answer.
    pub(crate) fn method(&self) -> &str {
        self.fields.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// The tool, prompt or resource that the parameters name.
    pub(crate) fn subject(&self) -> Option<&str> {
        let params = self.fields.get("params")?;
        params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str)
    }

    pub(crate) fn params(&self) -> Option<&Map<String, Value>> {
        self.fields.get("params").and_then(Value::as_object)
    }

    pub(crate) fn take_params(&mut self) -> Map<String, Value> {
        match self.fields.remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        }
    }

    /// The message as text again, with every field once.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        Value::Object(self.fields).to_string().into_bytes()
    }

    /// Whether the protocol library can read it as what its method says.
    pub(crate) fn is_readable(&self) -> bool {
        let read = serde_json::from_value(Value::Object(self.fields.clone()));
        match read {
            Ok(rmcp::model::ClientJsonRpcMessage::Request(request)) => {
                !matches!(request.request, rmcp::model::ClientRequest::CustomRequest(_))
            }
            other => other.is_ok(),
        }
    }

    /// The message in the protocol library's types.
    pub(crate) fn into_protocol(self) -> Result<rmcp::model::ClientJsonRpcMessage, Refused> {
        let id = self.id().clone();
        serde_json::from_value(Value::Object(self.fields)).map_err(|error| Refused {
            id,
            error: WireError::new(ErrorKind::InvalidRequest, error.to_string()),
        })
    }
}

/// What is wrong with an id, if anything.
fn odd_id(id: &Value) -> Option<String> {
    match id {
        Value::String(id) if id.len() > LONGEST_ID => {
            Some(format!("`id` is longer than {LONGEST_ID} characters"))
        }
        Value::String(_) => None,
        Value::Number(number) if number.is_i64() => None,
        _ => Some("`id` is neither an integer nor a string".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &[u8], code: i32, id: Value) {
        let refused = Message::read(text).expect_err(&String::from_utf8_lossy(text));
        assert_eq!(
            (refused.error.kind.entry().code, &refused.id),
            (code, &id),
            "{}",
            String::from_utf8_lossy(text)
        );
        assert!(refused.error.data.contains_key("hint"));
    }

    #[test]
    fn good_messages_are_told_apart() {
        let text = br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"debugger/attach"}}"#;
        let request = Message::read(text).unwrap();
        assert_eq!((request.kind(), request.id()), (Kind::Request, &"a".into()));
        assert_eq!((request.method(), request.subject()), ("tools/call", Some("debugger/attach")));
        let note = Message::read(br#" {"jsonrpc":"2.0","method":"notifications/initialized"}"#).unwrap();
        assert_eq!((note.kind(), note.id()), (Kind::Notification, &Value::Null));
        assert_eq!(Message::read(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).unwrap().kind(), Kind::Answer);
    }

    #[test]
    fn bad_messages_get_the_code_of_what_is_wrong_with_them() {
        check_error(b"", -32700, Value::Null);
        check_error(b"{", -32700, Value::Null);
        check_error(b"[1,", -32700, Value::Null);
        check_error(b"\xff\xfe{}", -32700, Value::Null);
        check_error(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, Value::Null);
        check_error(("[".repeat(10_000) + &"]".repeat(10_000)).as_bytes(), -32700, Value::Null);
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}{}}}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        check_error(deep.as_bytes(), -32700, Value::Null);
        check_error(b"[]", -32600, Value::Null);
        check_error(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null);
        check_error(b"42", -32600, Value::Null);
        check_error(br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, 7.into());
        check_error(br#"{"id":7,"method":"ping"}"#, -32600, 7.into());
        check_error(br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null);
        check_error(br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600, Value::Null);
        check_error(br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null);
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(1 << 20));
        check_error(long.as_bytes(), -32600, Value::Null);
        check_error(br#"{"jsonrpc":"2.0","id":7}"#, -32600, 7.into());
        check_error(br#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, 7.into());
        check_error(br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#, -32602, 7.into());
    }
}
