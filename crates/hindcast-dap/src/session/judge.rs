//! What a stop of an adapter means: one that the user hears of, or a reason to go on.

use std::collections::BTreeMap;

use hindcast_core::debug::{BreakpointId, DebugError, OutputStream, Stop, StopAtEntry, StopReason, ThreadId};
use serde_json::json;

use super::{
    Session,
    breakpoints::native_hits,
    movement::{Plan, Step},
    types::Stops,
};
use crate::{
    protocol::{DapVariable, Stopped},
    purity,
    transport::ConnectionId,
};

impl Session {
    /// The stop to be told; `None` where the program goes on.
    pub(super) fn judge(&mut self, from: ConnectionId, stopped: Stopped) -> Result<Option<Stop>, DebugError> {
        self.seen.forget();
        let dap = stopped.thread_id.or_else(|| self.dap_threads(from).first().map(|thread| thread.id));
        let dap = dap.unwrap_or_default();
        self.standing.insert(from, dap);
        let thread = self.threads.number(from, dap);
        let mut stop = Stop {
            reason: reason_of(&stopped.reason),
            detail: None,
            thread,
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        };
        self.prepare(thread);
        if self.awaits_pause && !self.profile.pause_with.is_empty() {
            let depth = self.frames(thread, 2)?.len();
            if self.seen.is_in_eval(from, dap) {
                self.awaits_pause = false;
                stop.reason = StopReason::Pause;
                let idle = "it waits for something: none of its functions is running";
                stop.detail = (depth < 2).then(|| idle.to_owned());
                return Ok(Some(stop));
            }
        }
        let begins = matches!(self.plan, Plan::Begin) && self.stop_at_entry != StopAtEntry::No;
        match stop.reason {
            StopReason::Exception => return self.judge_exception(from, stop, &stopped),
            StopReason::Breakpoint => return self.judge_breakpoint(from, stop, &stopped),
            StopReason::Step if begins => stop.reason = StopReason::Entry,
            StopReason::Step => {
                if let Some(raised) = self.raised_at(thread) {
                    let raised = self.what_ends_it(thread, raised);
                    if self.profile.harmless.contains(&raised.exception_type) {
                        self.carry_on(from)?;
                        return Ok(None);
                    }
                    let first = raised.inner.last().map(|first| first.exception_type.clone());
                    stop.detail =
                        first.map(|first| format!("it stands where `{first}` was raised, which led to it"));
                    stop.reason = StopReason::Exception;
                    stop.exception = Some(raised);
                    return Ok(Some(stop));
                }
                if self.profile.steps_outlive_stops && !matches!(self.plan, Plan::Step(_)) {
                    self.carry_on(from)?;
                    return Ok(None);
                }
                return self.judge_step(from, stop);
            }
            StopReason::Pause if begins && !self.was_attached => stop.reason = StopReason::Entry,
            StopReason::Pause
                if self.profile.pauses_by_itself
                    && !self.awaits_pause
                    && !self.was_attached
                    && matches!(self.plan, Plan::Begin) =>
            {
                // It always stops at the beginning, which nobody asked for here.
                self.plan = Plan::Continue;
                self.carry_on(from)?;
                return Ok(None);
            }
            StopReason::Entry if self.was_attached => stop.reason = StopReason::Pause,
            StopReason::Entry if !matches!(self.plan, Plan::Begin) => {
                // A process that the program started stops at its beginning, which nobody asked for.
                self.go_on()?;
                return Ok(None);
            }
            StopReason::Pause
                if self.profile.pauses_by_itself
                    && !self.awaits_pause
                    && !matches!(self.plan, Plan::Begin) =>
            {
                // It stops a second time for the same connection.
                self.carry_on(from)?;
                return Ok(None);
            }
            _ => {}
        }
        if stop.reason == StopReason::Pause {
            self.awaits_pause = false;
            stop.detail = stopped.description.filter(|text| !text.to_lowercase().starts_with("paused"));
        }
        Ok(Some(stop))
    }

    /// Evaluates once what later questions rest on.
    fn prepare(&mut self, thread: ThreadId) {
        if self.is_prepared || self.was_attached || self.profile.prepare.is_empty() {
            return;
        }
        self.is_prepared = true;
        let expression = with_variables(&self.profile.prepare, &self.env);
        if let Err(why) = self.value_at(thread, &expression) {
            tracing::debug!(%why, "the program is not prepared");
        }
        self.seen.forget();
    }

    fn judge_breakpoint(
        &mut self,
        from: ConnectionId,
        mut stop: Stop,
        stopped: &Stopped,
    ) -> Result<Option<Stop>, DebugError> {
        let mut hit = self.hit_breakpoints(from, stop.thread, stopped);
        let is_first_line = self.entry_line.is_some() && matches!(self.plan, Plan::Begin);
        let by_request = self.stops_by_request();
        let is_entry = hit.is_empty() && (is_first_line || by_request || self.entry_function().is_some());
        if is_entry {
            stop.reason = StopReason::Entry;
            self.plan = Plan::Continue;
            self.forget_entry(by_request);
            return Ok(Some(stop));
        }
        if hit.is_empty() {
            // The program asks to be stopped, as `breakpoint()` does; or a step ends at one that was removed.
            if let Plan::Step(_) = self.plan {
                return self.judge_step(from, stop);
            }
            if self.is_left_over(stop.thread) {
                self.carry_on(from)?;
                return Ok(None);
            }
            stop.detail = Some("the program itself asked to be stopped".into());
            return Ok(Some(stop));
        }
        let mut detail = None;
        hit.retain(|id| self.counts(*id, from, stop.thread, &mut detail));
        if hit.is_empty() {
            self.carry_on(from)?;
            return Ok(None);
        }
        self.remove_temporary(&hit);
        stop.detail = detail;
        stop.breakpoints = hit;
        Ok(Some(stop))
    }

    /// Whether the adapter stopped at a breakpoint that it was told to forget.
    fn is_left_over(&mut self, thread: ThreadId) -> bool {
        let Some(frame) = self.top_frame(thread) else { return false };
        let path = frame.source.as_ref().and_then(|source| source.path.as_deref());
        path.is_some_and(|path| self.breakpoints.is_forgotten(path, frame.line))
    }

    fn remove_temporary(&mut self, hit: &[BreakpointId]) {
        // That of a movement is taken out with it.
        let kept = if let Plan::RunTo(id) = self.plan { Some(id) } else { None };
        for id in hit.iter().filter(|id| Some(**id) != kept) {
            let entry = self.breakpoints.entry(*id);
            if entry.and_then(|entry| entry.code()).is_some_and(|code| code.temporary) {
                let _ = self.removed(*id);
            }
        }
    }

    fn hit_breakpoints(
        &mut self,
        from: ConnectionId,
        thread: ThreadId,
        stopped: &Stopped,
    ) -> Vec<BreakpointId> {
        let mut hit = self.breakpoints.by_adapter_ids(from, &stopped.hit_breakpoint_ids);
        if !hit.is_empty() {
            return hit;
        }
        let Some(frame) = self.top_frame(thread) else { return hit };
        if let Some(path) = frame.source.as_ref().and_then(|source| source.path.as_deref()) {
            hit = self.breakpoints.by_line(from, path, frame.line);
        }
        if hit.is_empty() {
            hit = self.breakpoints.by_function(&frame.name);
        }
        hit
    }

    /// Counts a hit, and writes to the log; whether it stops the program.
    fn counts(
        &mut self,
        id: BreakpointId,
        from: ConnectionId,
        thread: ThreadId,
        detail: &mut Option<String>,
    ) -> bool {
        let capabilities = self.client.connections[from.0].capabilities.clone();
        let Some(code) = self.breakpoints.entry(id).and_then(|entry| entry.code().cloned()) else {
            return true;
        };
        // Those that share a line with others are told to the adapter without their conditions.
        let shares = self.shares_its_line(id);
        if let Some(condition) =
            code.condition.as_ref().filter(|_| shares || !capabilities.supports_conditional_breakpoints)
        {
            match self.value_at(thread, condition) {
                Ok(value) if is_false(&value) => return false,
                Ok(_) => {}
                Err(why) => *detail = Some(format!("the condition `{condition}` has no value: {why}")),
            }
        }
        let counted_by_adapter = native_hits(&code).is_some() && self.adapter_counts(from) && !shares;
        let Some(entry) = self.breakpoints.entry(id) else { return true };
        if counted_by_adapter {
            entry.hits = match (entry.hits, code.hit_count, code.hit_count_multiple) {
                (0, from @ 2.., _) => from,
                (hits, _, multiple @ 2..) => hits + multiple,
                (hits, _, _) => hits + 1,
            };
            return true;
        }
        entry.hits += 1;
        let hits = entry.hits;
        if hits < code.hit_count || code.hit_count_multiple > 1 && hits % code.hit_count_multiple != 0 {
            return false;
        }
        let Some(message) = &code.log_message else { return true };
        let text = self.filled(message, thread);
        self.output.push(OutputStream::Log, format!("{text}\n").as_bytes());
        if let Some(entry) = self.breakpoints.entry(id) {
            entry.sent += 1;
            if code.max_notifications > 0 && entry.sent >= code.max_notifications {
                // It has said all that it may.
                let _ = self.changed(id, hindcast_core::debug::BreakpointChange::default());
            }
        }
        false
    }

    fn shares_its_line(&mut self, id: BreakpointId) -> bool {
        let Some(entry) = self.breakpoints.entry(id) else { return false };
        let sites: Vec<_> = entry.sites.iter().map(|site| site.at.clone()).collect();
        let shares =
            |other: &super::breakpoints::Entry| other.sites.iter().any(|site| sites.contains(&site.at));
        self.breakpoints.entries().any(|other| other.id != id && shares(other))
    }

    /// A message with the values of its expressions.
    fn filled(&mut self, message: &str, thread: ThreadId) -> String {
        let mut filled = String::new();
        let mut rest = message;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((expression, behind)) = after.split_once('}') else {
                filled.push('{');
                rest = after;
                break;
            };
            match self.value_at(thread, expression) {
                Ok(value) => filled.push_str(&value),
                Err(why) => filled.push_str(&format!("<{why}>")),
            }
            rest = behind;
        }
        filled + rest
    }

    /// The value of an expression in the innermost frame.
    pub(super) fn value_at(&mut self, thread: ThreadId, expression: &str) -> Result<String, String> {
        let (connection, _) = self.threads.of(thread).ok_or("there is no such thread")?;
        let frame = self.top_frame(thread).ok_or("there is no frame")?;
        let arguments = json!({ "expression": expression.trim(), "frameId": frame.id, "context": "watch" });
        let result: Result<DapVariable, _> = match purity::check(expression) {
            Ok(()) => self.ask(connection, "evaluate", arguments),
            Err(_) => self.undisturbed(connection, Stops::All, |session| {
                session.ask(connection, "evaluate", arguments)
            }),
        };
        result.map(|result| result.value).map_err(|refusal| refusal.why())
    }

    /// Goes on with the movement that was under way.
    pub(super) fn carry_on(&mut self, from: ConnectionId) -> Result<(), DebugError> {
        match self.plan.clone() {
            Plan::Step(mut step) if step.connection == from => {
                let now = self.depth_and_line(from, step.thread);
                let is_deeper =
                    matches!((now, step.before), (Some((now, _)), Some((before, _))) if now > before);
                step.returning = is_deeper;
                let command = if is_deeper { "stepOut" } else { step.command };
                self.plan = Plan::Step(step.clone());
                self.make_step(&step, command)
            }
            _ => self.go_on(),
        }
    }

    fn judge_step(&mut self, from: ConnectionId, mut stop: Stop) -> Result<Option<Stop>, DebugError> {
        let Plan::Step(mut step) = self.plan.clone() else {
            return Ok(Some(stop));
        };
        stop.reason = StopReason::Step;
        if step.connection != from {
            return Ok(Some(stop));
        }
        if step.returning
            && let (Some((depth, line)), Some((before, old_line))) =
                (self.depth_and_line(from, step.thread), step.before)
        {
            if depth > before {
                self.make_step(&step, "stepOut")?;
                return Ok(None);
            }
            step.returning = false;
            if depth == before && line == old_line {
                return self.again(step);
            }
        }
        // Some stop at the end of the function first.
        if let Some(before) = step.leaves
            && self.depth_and_line(from, step.thread).is_some_and(|(now, _)| now >= before)
        {
            self.make_step(&step, "next")?;
            return Ok(None);
        }
        if step.left > 1 {
            step.left -= 1;
            return self.again(step);
        }
        Ok(Some(stop))
    }

    fn again(&mut self, mut step: Step) -> Result<Option<Stop>, DebugError> {
        if step.leaves.is_some() {
            step.leaves = self.depth_and_line(step.connection, step.thread).map(|(depth, _)| depth);
        }
        if step.before.is_some() {
            step.before = self.depth_and_line(step.connection, step.thread);
        }
        self.plan = Plan::Step(step.clone());
        self.make_step(&step, step.command)?;
        Ok(None)
    }
}

/// An expression with the values of variables, written as texts.
fn with_variables(expression: &str, env: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = expression;
    while let Some((before, name, behind)) = rest.split_once('{').and_then(|(before, after)| {
        let (name, behind) = after.split_once('}')?;
        Some((before, name, behind))
    }) {
        filled.push_str(before);
        let is_variable =
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
        match env.get(name).filter(|_| is_variable) {
            // What stands behind `#` in a text of Ruby may be code.
            Some(value) => filled.push_str(&json!(value).to_string().replace('#', "\\#")),
            None if is_variable => filled.push_str("nil"),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = behind;
    }
    filled + rest
}

fn reason_of(reason: &str) -> StopReason {
    let reason = reason.to_lowercase();
    match reason.as_str() {
        "entry" => StopReason::Entry,
        "pause" => StopReason::Pause,
        "step" | "goto" | "restart" => StopReason::Step,
        _ if reason.contains("exception") || reason.contains("panic") || reason.contains("fatal") => {
            StopReason::Exception
        }
        _ if reason.contains("breakpoint") || reason.contains("debugger") => StopReason::Breakpoint,
        _ => StopReason::Pause,
    }
}

/// Whether a condition does not hold, in whichever language.
fn is_false(value: &str) -> bool {
    matches!(
        value.trim(),
        "false" | "False" | "0" | "None" | "nil" | "null" | "undefined" | "" | "''" | "\"\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_written_as_texts_and_blocks_stay() {
        let env = BTreeMap::from([("RUBYOPT".to_owned(), "-W0 \"#{1}".to_owned())]);
        let filled = with_variables("a = {RUBYOPT}; b = {NONE}; at_exit { $c = $! }", &env);
        assert_eq!(filled, r#"a = "-W0 \"\#{1}"; b = nil; at_exit { $c = $! }"#);
    }
}
