//! Exceptions: which to stop at, and what is known of one.

use hindcast_core::debug::{
    DebugError, ExceptionBreakpoint, FrameRef, InnerException, Location, RaisedException, RaisedSignal,
    Reason, Stop, StopReason, ThreadId, Trigger, ValueLimits, VariableQuery, VariableScope,
};
use serde::Deserialize;
use serde_json::json;

use super::{Session, ask::Refusal, movement::Plan};
use crate::{
    profile::Spelling,
    protocol::{DapVariable, ExceptionDetails, ExceptionInfo, Stopped},
    transport::ConnectionId,
};

/// How Python separates an exception from the one that led to it.
const CHAINED: [&str; 2] = [
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
];

/// So many causes are told.
const DEEPEST: u32 = 20;

impl Session {
    /// What the user should know of an exception breakpoint, or why there cannot be one.
    pub(super) fn check_exception(
        &self,
        exception: &ExceptionBreakpoint,
    ) -> Result<Option<String>, DebugError> {
        let wanted = &exception.exception_type;
        if wanted.starts_with("signal:")
            || wanted.starts_with("cpp:") && self.profile.spelling != Spelling::Executable
        {
            let reason = Reason::new(format!("`{wanted}` is for native programs"));
            return Err(DebugError::BreakpointFailed(
                reason.advise("give the type as the language names it, or `*` for all"),
            ));
        }
        let has = |names: &[String]| names.iter().any(|name| self.has_filter(name));
        if exception.first_chance && !has(&self.profile.raised) {
            let instead = match self.profile.instead_of_raised.as_str() {
                "" => "set a breakpoint where it is raised",
                instead => instead,
            };
            return Ok(Some(format!(
                "{} stops only at what nobody catches, not when it is raised: {instead}",
                self.profile.adapter
            )));
        }
        Ok(None)
    }

    fn has_filter(&self, name: &str) -> bool {
        let mut filters =
            self.client.connections.iter().flat_map(|it| &it.capabilities.exception_breakpoint_filters);
        filters.any(|filter| filter.filter == name)
    }

    /// Tells a connection at which exceptions to stop.
    pub(super) fn send_exceptions(&mut self, connection: ConnectionId) -> Result<(), Refusal> {
        let raises = |entry: &super::breakpoints::Entry| matches!(&entry.trigger, Trigger::Exception(exception) if exception.first_chance);
        let wants_raised = self.breakpoints.entries().any(raises);
        let mut wanted: Vec<String> = self.profile.uncaught.clone();
        if wants_raised {
            wanted.extend(self.profile.raised.clone());
        }
        if self.spelled.is_test {
            wanted.extend(self.profile.escaping.clone());
        }
        let offered = &self.client.connections[connection.0].capabilities.exception_breakpoint_filters;
        if offered.is_empty() {
            return Ok(());
        }
        wanted.retain(|name| offered.iter().any(|filter| filter.filter == *name) && !self.is_calling);
        self.raised_is_on = wants_raised;
        let takes_conditions =
            self.client.connections[connection.0].capabilities.supports_exception_filter_options;
        self.adapter_chooses = takes_conditions && !self.profile.of_type.is_empty();
        let keeps = takes_conditions && !self.profile.keep_raised.is_empty();
        if !keeps && (!self.adapter_chooses || !wants_raised) {
            return self.tell(connection, "setExceptionBreakpoints", json!({ "filters": wanted }));
        }
        let chooses = self.adapter_chooses && wants_raised;
        let all_types = self.condition_of_types().filter(|_| chooses);
        let option = |name: &String| {
            let of_types = all_types.as_ref().filter(|_| self.profile.raised.contains(name));
            // js-debug asks the conditions of all filters wherever one has any, so there must be no other.
            let is_alone = !wants_raised || self.profile.raised.contains(name);
            let keep = Some(&self.profile.keep_raised).filter(|_| keeps && is_alone);
            let conditions = of_types.map(|condition| format!("({condition})"));
            let conditions: Vec<_> = conditions.into_iter().chain(keep.cloned()).collect();
            match conditions.is_empty() {
                true => json!({ "filterId": name }),
                false => json!({ "filterId": name, "condition": conditions.join(" && ") }),
            }
        };
        let options: Vec<_> = wanted.iter().map(option).collect();
        self.tell(connection, "setExceptionBreakpoints", json!({ "filters": [], "filterOptions": options }))
    }

    pub(super) fn judge_exception(
        &mut self,
        from: ConnectionId,
        mut stop: Stop,
        stopped: &Stopped,
    ) -> Result<Option<Stop>, DebugError> {
        if let Some(signal) = signal_of(stopped) {
            stop.reason = StopReason::Signal;
            stop.signal = Some(signal);
            return Ok(Some(stop));
        }
        let (_, dap) = self.threads.of(stop.thread).unwrap_or((from, 0));
        let can_tell = self.client.connections[from.0].capabilities.supports_exception_info_request;
        let info: Option<ExceptionInfo> =
            can_tell.then(|| self.ask(from, "exceptionInfo", json!({ "threadId": dap })).ok()).flatten();
        // Where a local variable holds what was raised, what nobody catches is told by another kind of stop.
        let held = info.is_none().then(|| self.held(stop.thread)).flatten();
        let is_held = held.is_some();
        let mut raised = held.unwrap_or_else(|| raised(info.as_ref(), stopped));
        let escapes = info.as_ref().and_then(|info| info.break_mode.as_deref()) == Some("userUnhandled");
        // Not all adapters tell why they stop.
        raised.unhandled |= !self.raised_is_on && !escapes && !is_held;
        if let Some(kept) = self.kept_type(stop.thread) {
            raised.unhandled |= kept.is_none();
            raised.exception_type = kept.unwrap_or(raised.exception_type);
        }
        let matched = self.matching(&raised, stop.thread);
        raised.unhandled |= matched.is_empty() && self.adapter_chooses;
        let is_harmless = self.profile.harmless.contains(&raised.exception_type);
        let is_failure = (raised.unhandled || escapes && self.spelled.is_test) && !is_harmless;
        if matched.is_empty() && !is_failure {
            self.carry_on(from)?;
            return Ok(None);
        }
        if !raised.unhandled && !escapes && self.was_told(stop.thread) {
            self.carry_on(from)?;
            return Ok(None);
        }
        for id in &matched {
            if let Some(entry) = self.breakpoints.entry(*id) {
                entry.hits += 1;
            }
        }
        stop.breakpoints = matched;
        if raised.inner.is_empty() && !self.profile.causes.is_empty() {
            raised.inner = self.causes(stop.thread);
        }
        if raised.unhandled && !self.profile.instead_of_causes.is_empty() {
            let (adapter, instead) = (&self.profile.adapter, &self.profile.instead_of_causes);
            stop.detail = Some(format!("{adapter} does not tell what led to it: {instead}"));
        }
        stop.exception = Some(raised);
        Ok(Some(stop))
    }

    /// Whether an exception that passes through a function has come from where it was told already. Remembers where it is told.
    fn was_told(&mut self, thread: ThreadId) -> bool {
        if self.profile.came_through.is_empty() {
            return false;
        }
        let Some(frame) = self.top_frame(thread) else { return false };
        let path = frame.source.as_ref().and_then(|source| source.path.as_deref());
        let name = path.unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        let came_from = self.told_at.get(&thread).cloned().is_some_and(|(name, line)| {
            let question = self.profile.came_through.replace("{file}", &json!(name).to_string());
            let question = question.replace("{line}", &line.to_string());
            self.value_at(thread, &question).is_ok_and(|answer| answer.eq_ignore_ascii_case("true"))
        });
        if !came_from {
            self.told_at.insert(thread, (name, frame.line));
        }
        came_from
    }

    /// What led to the exception that was kept when it was raised.
    fn causes(&mut self, thread: ThreadId) -> Vec<InnerException> {
        let Some((connection, _)) = self.threads.of(thread) else { return Vec::new() };
        let Some(frame) = self.top_frame(thread) else { return Vec::new() };
        let expression = self.profile.causes.clone();
        let arguments = json!({ "expression": expression, "frameId": frame.id, "context": "clipboard" });
        let answer: Result<DapVariable, _> = self.ask(connection, "evaluate", arguments);
        let text = answer.map_err(|refusal| refusal.why()).map(|answer| answer.value);
        text.and_then(|text| read_causes(&text)).unwrap_or_else(|why| {
            tracing::debug!(%why, "the causes of an exception are not known");
            Vec::new()
        })
    }

    /// What was raised where the program stands though nobody stepped there.
    pub(super) fn raised_at(&mut self, thread: ThreadId) -> Option<RaisedException> {
        if matches!(self.plan, Plan::Step(_)) {
            return None;
        }
        self.held(thread).map(|raised| RaisedException { unhandled: true, ..raised })
    }

    /// What was raised, where a local variable of the innermost frame holds it.
    fn held(&mut self, thread: ThreadId) -> Option<RaisedException> {
        if self.profile.raised_variable.is_empty() {
            return None;
        }
        let query = VariableQuery {
            frame: FrameRef::of(thread, 0),
            scope: VariableScope::Local,
            filter: Some(self.profile.raised_variable.clone()),
            offset: 0,
            limit: 1,
            limits: ValueLimits { depth: 0, children: 0, offset: 0, text: 1000 },
            allow_calls: None,
        };
        let raised = self.variables_of(&query).ok()?.variables.into_iter().next()?;
        let message = message_of(&raised.value);
        let exception_type = raised.type_name;
        Some(RaisedException { exception_type, message, ..RaisedException::default() })
    }

    /// The exception that ends the program, with what led to it: the adapter may show the first of its causes instead.
    pub(super) fn what_ends_it(&mut self, thread: ThreadId, shown: RaisedException) -> RaisedException {
        let ends_with = self.profile.ends_with.clone();
        let asked = self.threads.of(thread).zip(self.top_frame(thread));
        let Some(((connection, _), frame)) = asked.filter(|_| !ends_with.is_empty()) else { return shown };
        let (cause, raised_at) = (self.profile.cause.clone(), self.profile.raised_at.clone());
        let mut ask = |expression: &str| {
            let asked = json!({ "expression": expression, "frameId": frame.id, "context": "watch" });
            self.ask::<DapVariable>(connection, "evaluate", asked).ok()
        };
        let Some((exception_type, message)) = ask(&ends_with).as_ref().and_then(read_inspected) else {
            return shown;
        };
        let mut ended = RaisedException { exception_type, message, inner: Vec::new(), ..shown };
        let mut error = ends_with;
        for depth in 1..=DEEPEST {
            error = cause.replace("{error}", &error);
            let Some((exception_type, message)) = ask(&error).as_ref().and_then(read_inspected) else {
                break;
            };
            let place = ask(&raised_at.replace("{error}", &error));
            let thrown_at = place.and_then(|place| place_of_ruby(&place.value));
            ended.inner.push(InnerException { depth, exception_type, message, thrown_at });
        }
        ended
    }
}

fn raised(info: Option<&ExceptionInfo>, stopped: &Stopped) -> RaisedException {
    let Some(info) = info else {
        let exception_type = stopped.text.clone().filter(|text| !text.trim().is_empty());
        return RaisedException {
            exception_type: first_line(&exception_type.unwrap_or_else(|| "exception".into())),
            message: stopped.description.clone(),
            unhandled: true,
            ..RaisedException::default()
        };
    };
    let details = info.details.clone().unwrap_or_default();
    let exception_type = details
        .full_type_name
        .clone()
        .or_else(|| details.type_name.clone())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| info.exception_id.clone());
    // debugpy adds a remark behind many spaces.
    let exception_type = exception_type.split("  ").next().unwrap_or_default().to_owned();
    // Some have the message in the name.
    let (exception_type, said) = match exception_type.split_once(": ") {
        Some((name, said)) if !name.contains(' ') => (name.to_owned(), Some(said.to_owned())),
        _ => (exception_type, None),
    };
    let message =
        details.message.clone().or_else(|| info.description.clone()).or(said).filter(|text| !text.is_empty());
    let mut inner = Vec::new();
    inner_of(&details.inner_exception, 1, &mut inner);
    if inner.is_empty() {
        inner = details.stack_trace.as_deref().map(chain).unwrap_or_default();
    }
    RaisedException {
        exception_type,
        message,
        unhandled: matches!(info.break_mode.as_deref(), Some("unhandled") | None),
        inner,
        ..RaisedException::default()
    }
}

/// A cause as the program tells it.
#[derive(Deserialize)]
struct Cause {
    depth: u32,
    #[serde(rename = "type")]
    exception_type: String,
    message: String,
    stack: String,
}

fn read_causes(text: &str) -> Result<Vec<InnerException>, String> {
    // A text is shown as one, with its quotes.
    let bare: Option<String> = serde_json::from_str(text).ok();
    let causes: Vec<Cause> =
        serde_json::from_str(bare.as_deref().unwrap_or(text)).map_err(|error| format!("{error}: {text}"))?;
    let inner = |cause: Cause| InnerException {
        depth: cause.depth,
        exception_type: cause.exception_type,
        message: Some(cause.message).filter(|message| !message.is_empty()),
        thrown_at: cause.stack.lines().find_map(place_of_call),
    };
    Ok(causes.into_iter().map(inner).collect())
}

/// `    at load (/a/b.js:3:11)`, or `    at /a/b.js:3:11`.
fn place_of_call(line: &str) -> Option<Location> {
    let call = line.trim_start().strip_prefix("at ")?;
    let (function, place) = match call.strip_suffix(')').and_then(|call| call.rsplit_once(" (")) {
        Some((function, place)) => (Some(function.to_owned()), place),
        None => (Some("<anonymous>".to_owned()), call),
    };
    let mut parts = place.rsplitn(3, ':');
    let (_column, line) = (parts.next()?, parts.next()?.parse().ok()?);
    let file = parts.next()?.trim_start_matches("file://").to_owned();
    Some(Location { file: Some(file), line: Some(line), function, ..Location::default() })
}

/// `#<ArgumentError: bad input>`
fn message_of(inspected: &str) -> Option<String> {
    let (_, text) = inspected.split_once(": ")?;
    Some(text.strip_suffix('>').unwrap_or(text).to_owned())
}

/// What an exception of Ruby says of itself; none where the value is no exception.
fn read_inspected(value: &DapVariable) -> Option<(String, Option<String>)> {
    let said = value.value.strip_prefix("#<")?;
    let named = said.split([':', '>']).next().unwrap_or_default();
    let of_type = Some(value.type_name.as_str()).filter(|name| !name.is_empty()).unwrap_or(named);
    Some((of_type.to_owned(), message_of(&value.value)))
}

/// `"/a/b.rb:3:in 'f'"`
fn place_of_ruby(value: &str) -> Option<Location> {
    let (place, function) = match value.trim_matches('"').split_once(":in ") {
        Some((place, function)) => (place, Some(function.trim_matches(['`', '\'']).to_owned())),
        None => (value.trim_matches('"'), None),
    };
    let (file, line) = place.rsplit_once(':')?;
    Some(Location { file: Some(file.to_owned()), line: line.parse().ok(), function, ..Location::default() })
}

fn inner_of(details: &[ExceptionDetails], depth: u32, inner: &mut Vec<InnerException>) {
    for one in details.iter().filter(|_| depth <= DEEPEST) {
        let exception_type = one.full_type_name.clone().or_else(|| one.type_name.clone()).unwrap_or_default();
        inner.push(InnerException { depth, exception_type, message: one.message.clone(), thrown_at: None });
        inner_of(&one.inner_exception, depth + 1, inner);
    }
}

/// The exceptions that led to the last one of a traceback of Python, the nearest first.
fn chain(trace: &str) -> Vec<InnerException> {
    let mut parts = vec![String::new()];
    for line in trace.lines() {
        if CHAINED.contains(&line.trim()) {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.pop();
    let read = |(at, part): (usize, &String)| {
        // What the exception says stands behind its last line of code, and may have several lines.
        let place = part.lines().rev().find(|line| line.trim_start().starts_with("File \""));
        let says = part.lines().rfind(|line| !line.starts_with(' ') && !line.trim().is_empty())?;
        let (name, message) = says.split_once(": ").map_or((says, None), |(name, text)| (name, Some(text)));
        Some(InnerException {
            depth: u32::try_from(at + 1).unwrap_or(u32::MAX),
            exception_type: name.to_owned(),
            message: message.map(str::to_owned),
            thrown_at: place.and_then(location_of),
        })
    };
    parts.iter().rev().enumerate().filter_map(read).collect()
}

/// `File "/a/b.py", line 3, in f`.
fn location_of(line: &str) -> Option<Location> {
    let rest = line.trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let (number, function) =
        rest.split_once(", in ").map_or((rest, None), |(number, name)| (number, Some(name)));
    Some(Location {
        file: Some(file.to_owned()),
        line: number.trim().parse().ok(),
        function: function.map(|name| name.trim().to_owned()),
        ..Location::default()
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// LLDB tells signals as exceptions: `signal SIGSEGV: invalid address`.
fn signal_of(stopped: &Stopped) -> Option<RaisedSignal> {
    let texts = [stopped.description.as_deref(), stopped.text.as_deref()];
    let rest = texts.into_iter().flatten().find_map(|text| text.strip_prefix("signal "))?;
    let (name, cause) = rest.split_once(": ").map_or((rest, None), |(name, cause)| (name, Some(cause)));
    let number = name.parse::<nix::sys::signal::Signal>().map_or(0, |signal| signal as i32);
    Some(RaisedSignal {
        name: name.trim().to_owned(),
        number,
        cause: cause.map(str::to_owned),
        fault_address: None,
        fault: None,
        handled: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_with_where_they_were_thrown() {
        let text = r#"[{"depth":1,"type":"RangeError","message":"no x","stack":"RangeError: no x\n    at read (/a/b.js:3:9)\n    at x"}]"#;
        for text in [text.to_owned(), serde_json::Value::from(text).to_string()] {
            let inner = read_causes(&text).unwrap();
            let thrown_at = inner[0].thrown_at.clone().unwrap();
            assert_eq!((thrown_at.file.as_deref(), thrown_at.line), (Some("/a/b.js"), Some(3)));
            assert_eq!((thrown_at.function.as_deref(), inner[0].depth), (Some("read"), 1));
        }
        assert_eq!(place_of_call("    at file:///a/b.mjs:7:1").unwrap().line, Some(7));
        assert!(place_of_call("Error: at home").is_none());
    }

    #[test]
    fn the_causes_of_an_exception_are_read_from_its_traceback() {
        let trace = "  File \"/a/t.py\", line 18, in fail\n    d[\"missing\"]\n    ~^^^\nKeyError: 'missing'\n\n\
            The above exception was the direct cause of the following exception:\n\n\
            \x20 File \"/a/t.py\", line 20, in fail\n    raise ValueError(\"bad\") from e\nValueError: bad\n\n\
            During handling of the above exception, another exception occurred:\n\n\
            \x20 File \"/a/t.py\", line 25, in <module>\n    fail(data)\nOSError\n";
        let inner = chain(trace);
        let said: Vec<_> = inner
            .iter()
            .map(|one| {
                (
                    one.depth,
                    one.exception_type.as_str(),
                    one.message.as_deref(),
                    one.thrown_at.as_ref().unwrap().line,
                )
            })
            .collect();
        assert_eq!(
            said,
            [(1, "ValueError", Some("bad"), Some(20)), (2, "KeyError", Some("'missing'"), Some(18))]
        );
        assert!(chain("ValueError: alone\n").is_empty());
    }

    #[test]
    fn exceptions_of_ruby_are_read_as_they_say_themselves() {
        let said = |value: &str, type_name: &str| {
            read_inspected(&DapVariable {
                value: value.into(),
                type_name: type_name.into(),
                ..DapVariable::default()
            })
        };
        let (name, message) = said("#<KeyError: key not found: :a>", "KeyError").unwrap();
        assert_eq!((name.as_str(), message.as_deref()), ("KeyError", Some("key not found: :a")));
        assert_eq!(said("#<IOError: x>", "").unwrap().0, "IOError");
        assert!(said("nil", "NilClass").is_none());
        let place = place_of_ruby("\"/a/b.rb:3:in `load'\"").unwrap();
        assert_eq!((place.file.as_deref(), place.line), (Some("/a/b.rb"), Some(3)));
        assert_eq!(place.function.as_deref(), Some("load"));
        assert_eq!(place_of_ruby("nil"), None);
    }

    #[test]
    fn signals_are_told_apart_from_exceptions() {
        let stopped =
            Stopped { description: Some("signal SIGSEGV: invalid address".into()), ..Stopped::default() };
        let signal = signal_of(&stopped).unwrap();
        assert_eq!((signal.name.as_str(), signal.number), ("SIGSEGV", 11));
        assert_eq!(signal.cause.as_deref(), Some("invalid address"));
        assert!(signal_of(&Stopped::default()).is_none());
    }
}
