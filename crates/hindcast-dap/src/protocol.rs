//! Messages of the Debug Adapter Protocol, as far as they are used. Lenient: adapters leave out what the specification
//! requires.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What an adapter sends.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Message {
    /// The answer to a request.
    Response(Response),
    /// Something happened.
    Event(Event),
    /// It asks something of us.
    Request(Request),
}

/// An answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Response {
    /// Which request it answers.
    pub(crate) request_seq: i64,
    /// Whether that worked.
    #[serde(default)]
    pub(crate) success: bool,
    /// Why not, in short.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// The answer itself.
    #[serde(default)]
    pub(crate) body: Value,
}

impl Response {
    /// Why it failed, as the adapter says it.
    pub(crate) fn failure(&self) -> String {
        let error = &self.body["error"];
        let mut text = error["format"].as_str().unwrap_or_default().to_owned();
        if let Some(variables) = error["variables"].as_object() {
            for (name, value) in variables {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text = text.replace(&format!("{{{name}}}"), &value);
            }
        }
        let said = self.message.clone().unwrap_or_default();
        // Many say the same in both; some only a code in `message`.
        match (text.trim().is_empty(), said.trim().is_empty()) {
            (true, true) => "it gives no reason".into(),
            (true, false) => said,
            (false, _) => text,
        }
    }
}

/// An event.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    /// Which kind.
    pub(crate) event: String,
    /// What it tells.
    #[serde(default)]
    pub(crate) body: Value,
}

/// A request of the adapter.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// Its number, which the answer repeats.
    pub(crate) seq: i64,
    /// What it wants.
    pub(crate) command: String,
    /// With what.
    #[serde(default)]
    pub(crate) arguments: Value,
}

/// What an adapter can do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Capabilities {
    pub(crate) supports_configuration_done_request: bool,
    pub(crate) supports_function_breakpoints: bool,
    pub(crate) supports_conditional_breakpoints: bool,
    pub(crate) supports_hit_conditional_breakpoints: bool,
    pub(crate) supports_set_variable: bool,
    pub(crate) supports_set_expression: bool,
    pub(crate) supports_exception_info_request: bool,
    pub(crate) supports_terminate_request: bool,
    pub(crate) supports_terminate_debuggee: bool,
    pub(crate) support_terminate_debuggee: bool,
    pub(crate) supports_modules_request: bool,
    pub(crate) supports_loaded_sources_request: bool,
    pub(crate) supports_breakpoint_locations_request: bool,
    pub(crate) supports_cancel_request: bool,
    pub(crate) supports_exception_filter_options: bool,
    pub(crate) exception_breakpoint_filters: Vec<ExceptionFilter>,
}

/// A kind of exceptions that an adapter can stop at.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ExceptionFilter {
    /// Its name.
    pub(crate) filter: String,
}

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Source {
    pub(crate) name: Option<String>,
    pub(crate) path: Option<String>,
    /// Where it is not a file but known to the adapter only.
    #[serde(deserialize_with = "or_default")]
    pub(crate) source_reference: i64,
    pub(crate) presentation_hint: Option<String>,
    pub(crate) origin: Option<String>,
}

/// A breakpoint as the adapter has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BoundBreakpoint {
    pub(crate) id: Option<i64>,
    pub(crate) verified: bool,
    pub(crate) message: Option<String>,
    pub(crate) source: Option<Source>,
    pub(crate) line: Option<u32>,
}

/// Why a program stands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Stopped {
    pub(crate) reason: String,
    pub(crate) description: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) thread_id: Option<i64>,
    pub(crate) all_threads_stopped: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) hit_breakpoint_ids: Vec<i64>,
}

/// A thread.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DapThread {
    pub(crate) id: i64,
    pub(crate) name: String,
}

/// A frame of a stack.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StackFrame {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) source: Option<Source>,
    #[serde(deserialize_with = "or_none")]
    pub(crate) line: u32,
    #[serde(deserialize_with = "or_none")]
    pub(crate) column: u32,
    pub(crate) presentation_hint: Option<String>,
}

/// A group of variables.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Scope {
    pub(crate) name: String,
    pub(crate) presentation_hint: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) variables_reference: i64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) expensive: bool,
}

/// A variable, or the result of an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DapVariable {
    pub(crate) name: String,
    #[serde(alias = "result", deserialize_with = "or_default")]
    pub(crate) value: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) type_name: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) variables_reference: i64,
    pub(crate) named_variables: Option<u64>,
    pub(crate) indexed_variables: Option<u64>,
    pub(crate) evaluate_name: Option<String>,
    pub(crate) presentation_hint: Option<VariableHint>,
}

/// How a variable is to be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct VariableHint {
    pub(crate) kind: Option<String>,
    /// Its value is computed when it is asked for.
    #[serde(deserialize_with = "or_default")]
    pub(crate) lazy: bool,
}

/// An exception.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExceptionInfo {
    pub(crate) exception_id: String,
    pub(crate) description: Option<String>,
    pub(crate) break_mode: Option<String>,
    pub(crate) details: Option<ExceptionDetails>,
}

/// More of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExceptionDetails {
    pub(crate) message: Option<String>,
    pub(crate) type_name: Option<String>,
    pub(crate) full_type_name: Option<String>,
    pub(crate) stack_trace: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) inner_exception: Vec<ExceptionDetails>,
}

/// What the adapter wants to have started in a terminal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunInTerminal {
    pub(crate) args: Vec<String>,
    pub(crate) cwd: String,
    /// A variable without a value is to be unset.
    #[serde(deserialize_with = "or_default")]
    pub(crate) env: std::collections::BTreeMap<String, Option<String>>,
}

/// Something loaded.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DapModule {
    pub(crate) id: Value,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) symbol_status: Option<String>,
}

/// A line, or 0 where there is none: code that the machine has made is at -1 for some.
fn or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number: Option<i64> = Option::deserialize(from)?;
    Ok(number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default())
}

/// Adapters write `null` where they could have left a field out.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_a_line_is_one() {
        let frame: StackFrame = serde_json::from_str(r#"{"id":1,"name":"f","line":-1,"column":0}"#).unwrap();
        assert_eq!((frame.id, frame.line), (1, 0));
    }

    #[test]
    fn what_adapters_leave_out_is_made_up_for() {
        let text = r#"{"seq":3,"type":"event","event":"stopped","body":{"reason":"pause","threadId":0,"hitBreakpointIds":null}}"#;
        let Message::Event(event) = serde_json::from_str(text).unwrap() else { panic!("an event") };
        let stopped: Stopped = serde_json::from_value(event.body).unwrap();
        assert_eq!((stopped.reason.as_str(), stopped.thread_id), ("pause", Some(0)));
        let frame: StackFrame = serde_json::from_str(r#"{"id":1,"name":"f","line":null}"#).unwrap();
        assert_eq!((frame.line, frame.source), (0, None));
    }

    #[test]
    fn a_failure_is_told_with_its_variables_filled_in() {
        let failure = |text: &str| serde_json::from_str::<Response>(text).unwrap().failure();
        let both = r#"{"request_seq":1,"success":false,"message":"Failed to launch","body":{"error":{"format":"cannot start {what}","variables":{"what":"x"}}}}"#;
        assert_eq!(failure(both), "cannot start x");
        assert_eq!(failure(r#"{"request_seq":1,"message":"no"}"#), "no");
        assert_eq!(failure(r#"{"request_seq":1}"#), "it gives no reason");
    }
}
