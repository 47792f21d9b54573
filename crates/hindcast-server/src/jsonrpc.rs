//! The JSON-RPC envelope, checked before anything else looks at a message.
//!
//! The protocol library is lenient where the contract is not (batches, odd ids, positional
//! parameters), so both transports come through here first.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::catalogue::{ErrorKind, WireError};

/// Longer ids are refused: they are echoed, logged and kept while the request runs.
const LONGEST_ID: usize = 256;

/// What kind of message it is, and what routing needs to know of it.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Request {
        id: Value,
        method: String,
        subject: Option<String>,
    },
    Notification {
        method: String,
    },
    /// An answer to something the server asked.
    Answer,
}

impl Message {
    /// The id an answer carries; null where there is none to answer.
    pub(crate) fn id(&self) -> &Value {
        match self {
            Self::Request { id, .. } => id,
            Self::Notification { .. } | Self::Answer => &Value::Null,
        }
    }

    pub(crate) fn method(&self) -> Option<&str> {
        match self {
            Self::Request { method, .. } | Self::Notification { method } => Some(method),
            Self::Answer => None,
        }
    }
}

/// A message that is refused, with the id its answer should carry.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) id: Value,
    pub(crate) error: WireError,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// What a call is aimed at, for messages that name it in their parameters.
#[derive(Deserialize)]
struct Subject {
    name: Option<String>,
    uri: Option<String>,
}

/// Reads the envelope of one message.
pub(crate) fn check(text: &[u8]) -> Result<Message, Refused> {
    let refuse = |id: Value, kind, details: &str| Refused { id, error: WireError::new(kind, details) };
    let value = match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err(refuse(Value::Null, ErrorKind::ParseError, "the message is empty")),
        Some(b'[') => {
            // Malformed JSON is that first, whatever it begins with.
            parse::<Value>(text)?;
            return Err(refuse(
                Value::Null,
                ErrorKind::InvalidRequest,
                "batches are not supported; send one message at a time",
            ));
        }
        // The raw values below are not looked into: check the whole text once, depth included.
        Some(_) => parse::<Value>(text)?,
    };
    if !value.is_object() {
        return Err(refuse(Value::Null, ErrorKind::InvalidRequest, "the message is not an object"));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(text)
        .map_err(|error| refuse(Value::Null, ErrorKind::InvalidRequest, &error.to_string()))?;
    let id = match envelope.id.map(|raw| id_of(raw.get())) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(details)) => return Err(refuse(Value::Null, ErrorKind::InvalidRequest, &details)),
    };
    let echo = id.clone().unwrap_or(Value::Null);
    if envelope.jsonrpc.map(RawValue::get) != Some(r#""2.0""#) {
        return Err(refuse(echo, ErrorKind::InvalidRequest, "`jsonrpc` is not \"2.0\""));
    }
    let Some(method) = envelope.method else {
        if id.is_some() && (envelope.result.is_some() || envelope.error.is_some()) {
            return Ok(Message::Answer);
        }
        return Err(refuse(echo, ErrorKind::InvalidRequest, "`method` is missing"));
    };
    let Ok(method) = serde_json::from_str::<String>(method.get()) else {
        return Err(refuse(echo, ErrorKind::InvalidRequest, "`method` is not a string"));
    };
    let params = envelope.params.map(RawValue::get);
    if params.is_some_and(|params| !params.starts_with('{')) {
        return Err(refuse(echo, ErrorKind::InvalidParams, "`params` is not an object"));
    }
    Ok(match id {
        None => Message::Notification { method },
        Some(id) => {
            let subject = params
                .and_then(|params| serde_json::from_str::<Subject>(params).ok())
                .and_then(|subject| subject.name.or(subject.uri));
            Message::Request { id, method, subject }
        }
    })
}

fn parse<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(text).map_err(|error| Refused {
        id: Value::Null,
        error: WireError::new(ErrorKind::ParseError, error.to_string()),
    })
}

fn id_of(raw: &str) -> Result<Value, String> {
    if raw.len() > LONGEST_ID {
        return Err(format!("`id` is longer than {LONGEST_ID} characters"));
    }
    match serde_json::from_str(raw) {
        Ok(id @ Value::String(_)) => Ok(id),
        Ok(Value::Number(number)) if number.is_i64() => Ok(Value::Number(number)),
        _ => Err("`id` is neither an integer nor a string".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &[u8], code: i32, id: Value) {
        let refused = check(text).expect_err(&String::from_utf8_lossy(text));
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
        let request =
            check(br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"debugger/attach"}}"#)
                .unwrap();
        let Message::Request { id, method, subject } = request else { panic!("{request:?}") };
        assert_eq!((id, &*method, subject.as_deref()), ("a".into(), "tools/call", Some("debugger/attach")));
        let note = check(br#" {"jsonrpc":"2.0","method":"notifications/initialized"}"#).unwrap();
        assert_eq!(note, Message::Notification { method: "notifications/initialized".into() });
        assert_eq!(check(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).unwrap(), Message::Answer);
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
        check_error(br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#, -32600, Value::Null);
        check_error(br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#, -32602, 7.into());
    }
}
