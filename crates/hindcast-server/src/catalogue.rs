//! The one table of errors: code, message, HTTP status, remedy.

use std::borrow::Cow;

use hindcast_services::{Failure, FailureKind, ToolNames};
use serde_json::{Map, Value, json};

/// Every error that leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ErrorKind {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    ResourceNotFound,
    InvalidResourceUri,
    SourceNotServed,
    InternalError,
    StoreUnreachable,
    AuthenticationFailed,
    QuotaExceeded,
    PermissionDenied,
    ProcessNotFound,
    NotAttached,
    BreakpointFailed,
    HistoryUnavailable,
    DocumentNotFound,
    SchemaValidationFailed,
    LicenseExpired,
    ModelUnavailable,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which error it is.
    pub kind: ErrorKind,
    /// The JSON-RPC code.
    pub code: i32,
    /// The JSON-RPC message, word for word.
    pub message: &'static str,
    /// The HTTP status of a plain JSON answer; what went wrong inside a tool is still an answer.
    pub status: u16,
    /// The name in the audit trail.
    pub outcome: &'static str,
    /// What it means.
    pub description: &'static str,
    /// What to do where the error itself does not say.
    pub remedy: &'static str,
}

const fn entry(
    kind: ErrorKind,
    (code, status): (i32, u16),
    message: &'static str,
    outcome: &'static str,
    description: &'static str,
    remedy: &'static str,
) -> Entry {
    Entry { kind, code, message, status, outcome, description, remedy }
}

/// All errors, in the order of the wire contract.
#[rustfmt::skip]
pub const TABLE: [Entry; 20] = [
    entry(ErrorKind::ParseError, (-32700, 400), "Parse error", "parse_error",
        "Invalid JSON", "send one JSON object, encoded as UTF-8, nested no deeper than 128 levels"),
    entry(ErrorKind::InvalidRequest, (-32600, 400), "Invalid Request", "invalid_request",
        "Request object invalid", "send `jsonrpc` \"2.0\", an `id` that is an integer or a short string, a `method` and an object as `params`"),
    entry(ErrorKind::MethodNotFound, (-32601, 200), "Method not found", "method_not_found",
        "Method does not exist", "use a method of the Model Context Protocol; tools are called with `tools/call`"),
    entry(ErrorKind::InvalidParams, (-32602, 200), "Invalid params", "invalid_params",
        "Invalid method parameters", "compare the parameters with the schema that `tools/list` shows"),
    entry(ErrorKind::ResourceNotFound, (-32602, 200), "Resource not found", "resource_not_found",
        "There is no resource at that URI", "`resources/list` and `resources/templates/list` show what can be read"),
    entry(ErrorKind::InvalidResourceUri, (-32602, 200), "Invalid resource URI", "invalid_resource_uri",
        "That URI cannot name a resource", "`resources/list` and `resources/templates/list` show how URIs look"),
    entry(ErrorKind::SourceNotServed, (-1, 200), "Source file not served", "source_not_served",
        "A file of `debugger://source/…` that the symbols do not name, or that is not there; the message says which", "read only files that the program's debug information names, under exactly that path"),
    entry(ErrorKind::InternalError, (-32603, 500), "Internal error", "internal_error",
        "Internal server error", "try again; if it stays, look at the server's log"),
    entry(ErrorKind::StoreUnreachable, (-32603, 503), "Store unreachable", "store_unreachable",
        "A server that keeps keys and limits, or vectors, is down, or does not answer in time", "try again in a moment; if it stays, its operator starts it or corrects `store.url` or `vectors.url`, and `hindcast doctor` tells more"),
    entry(ErrorKind::AuthenticationFailed, (-32001, 401), "Authentication failed", "authentication_failed",
        "Invalid or missing API key", "send `Authorization: Bearer YOUR_API_KEY`"),
    entry(ErrorKind::QuotaExceeded, (-32002, 429), "Quota exceeded", "quota_exceeded",
        "API quota limit reached", "wait until `reset_at`, or use a key of a higher tier"),
    entry(ErrorKind::PermissionDenied, (-32003, 200), "Permission denied", "permission_denied",
        "Insufficient permissions", "use a key that has the scope named in the error"),
    entry(ErrorKind::ProcessNotFound, (-32004, 200), "Process not found", "process_not_found",
        "Target process does not exist", "check the process id; the process may have ended"),
    entry(ErrorKind::NotAttached, (-32005, 200), "Not attached", "not_attached",
        "No process currently attached", "start a program with `debugger/launch`, or attach with `debugger/attach` first"),
    entry(ErrorKind::BreakpointFailed, (-32006, 200), "Breakpoint failed", "breakpoint_failed",
        "Could not set breakpoint", "choose one of the places named in the error"),
    entry(ErrorKind::HistoryUnavailable, (-32007, 200), "History unavailable", "history_unavailable",
        "Time-travel history not available", "launch the program with recording on"),
    entry(ErrorKind::DocumentNotFound, (-32008, 200), "Document not found", "document_not_found",
        "XML document not found", "check the path; it must lie below an allowed folder"),
    entry(ErrorKind::SchemaValidationFailed, (-32009, 200), "Schema validation failed", "schema_validation_failed",
        "Document does not match schema", "mend the violations listed in the error"),
    entry(ErrorKind::LicenseExpired, (-32010, 200), "License expired", "license_expired",
        "License has expired", "install a new license with `hindcast license install FILE`"),
    entry(ErrorKind::ModelUnavailable, (-32011, 200), "Model unavailable", "model_unavailable",
        "No language model answers", "start Ollama and install a model; `knowledge/search` works without"),
];

impl ErrorKind {
    /// The row of this error.
    pub fn entry(self) -> &'static Entry {
        // The table is in the order of the enum; a test holds it there.
        &TABLE[self as usize]
    }
}

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::InvalidInput => Self::InvalidParams,
            FailureKind::ResourceNotFound => Self::ResourceNotFound,
            FailureKind::InvalidUri => Self::InvalidResourceUri,
            FailureKind::SourceNotServed => Self::SourceNotServed,
            FailureKind::Internal => Self::InternalError,
            FailureKind::StoreUnreachable => Self::StoreUnreachable,
            FailureKind::AuthenticationFailed => Self::AuthenticationFailed,
            FailureKind::QuotaExceeded => Self::QuotaExceeded,
            FailureKind::PermissionDenied => Self::PermissionDenied,
            FailureKind::ProcessNotFound => Self::ProcessNotFound,
            FailureKind::NotAttached => Self::NotAttached,
            FailureKind::BreakpointFailed => Self::BreakpointFailed,
            FailureKind::HistoryUnavailable => Self::HistoryUnavailable,
            FailureKind::DocumentNotFound => Self::DocumentNotFound,
            FailureKind::SchemaInvalid => Self::SchemaValidationFailed,
            FailureKind::LicenseExpired => Self::LicenseExpired,
            FailureKind::ModelUnavailable => Self::ModelUnavailable,
        }
    }
}

/// An error as it goes out: a row of the table and what is special about this case.
#[derive(Debug, Clone)]
pub(crate) struct WireError {
    pub(crate) kind: ErrorKind,
    /// In the place of the table's, where the contract's message names the case.
    message: Option<String>,
    pub(crate) data: Map<String, Value>,
}

impl WireError {
    pub(crate) fn new(kind: ErrorKind, details: impl Into<String>) -> Self {
        let mut data = Map::new();
        data.insert("details".into(), details.into().into());
        data.insert("hint".into(), kind.entry().remedy.into());
        Self { kind, message: None, data }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.data.insert("hint".into(), hint.into().into());
        self
    }

    /// The whole JSON-RPC answer.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        let (code, message) = (self.kind.entry().code, self.message());
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": self.data } })
    }

    fn message(&self) -> Cow<'static, str> {
        let own = self.message.clone().map(Cow::Owned);
        own.unwrap_or(Cow::Borrowed(self.kind.entry().message))
    }
}

/// Adds details and a hint to an error object that lacks them: those that the protocol library makes.
pub(crate) fn explain(error: &mut Value) {
    if error.get("data").is_some_and(|data| data.get("hint").is_some()) {
        return;
    }
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let hint = match code {
        -32020 => "send the headers `Mcp-Method` and `Mcp-Name` exactly as the body has them",
        -32022 => "use 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28",
        -32602 if message.contains("_meta") => {
            "send `initialize` first, or give each request `_meta` with protocolVersion, clientInfo and clientCapabilities"
        }
        _ => TABLE
            .iter()
            .find(|entry| i64::from(entry.code) == code)
            .map_or("compare the request with the protocol's specification", |entry| entry.remedy),
    };
    let mut data = match error.get_mut("data").map(Value::take) {
        Some(Value::Object(data)) => data,
        _ => Map::new(),
    };
    let unknown_method = ErrorKind::MethodNotFound.entry();
    if code == i64::from(unknown_method.code) {
        // The library gives the method's name as the message.
        data.entry("details").or_insert_with(|| format!("there is no method `{message}` here").into());
        error["message"] = unknown_method.message.into();
    }
    data.entry("details").or_insert_with(|| message.into());
    data.insert("hint".into(), hint.into());
    error["data"] = Value::Object(data);
}

impl WireError {
    /// A failure for a client that calls the tools so.
    pub(crate) fn of(failure: Failure, names: ToolNames) -> Self {
        let kind = ErrorKind::from(failure.kind);
        let hint = failure.advice(names).unwrap_or_else(|| names.spell_in(kind.entry().remedy).into_owned());
        let message = (kind == ErrorKind::SourceNotServed).then(|| failure.details.clone());
        let mut error = Self { message, ..Self::new(kind, failure.details) }.hint(hint);
        error.data.extend(failure.facts);
        error
    }
}

impl From<WireError> for rmcp::ErrorData {
    fn from(error: WireError) -> Self {
        let (code, message) = (error.kind.entry().code, error.message());
        Self::new(rmcp::model::ErrorCode(code), message, Some(Value::Object(error.data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_own_row() {
        for entry in &TABLE {
            assert_eq!(entry.kind.entry().kind, entry.kind);
            assert!(!entry.remedy.is_empty());
        }
    }

    #[test]
    fn the_codes_and_messages_are_those_of_the_contract() {
        let contract = [
            (-32700, "Parse error"),
            (-32600, "Invalid Request"),
            (-32601, "Method not found"),
            (-32602, "Invalid params"),
            (-32603, "Internal error"),
            (-32001, "Authentication failed"),
            (-32002, "Quota exceeded"),
            (-32003, "Permission denied"),
            (-32004, "Process not found"),
            (-32005, "Not attached"),
            (-32006, "Breakpoint failed"),
            (-32007, "History unavailable"),
            (-32008, "Document not found"),
            (-32009, "Schema validation failed"),
            (-32010, "License expired"),
        ];
        for (code, message) in contract {
            assert!(
                TABLE.iter().any(|entry| (entry.code, entry.message) == (code, message)),
                "{code} {message}"
            );
        }
    }
}
