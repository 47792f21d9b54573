//! Types of exceptions: which an exception breakpoint means, and what they are derived from.

use hindcast_core::debug::{BreakpointId, ExceptionBreakpoint, RaisedException, ThreadId, Trigger};
use serde_json::json;

use super::{Session, ask::Refusal};
use crate::{protocol::DapVariable, transport::ConnectionId};

/// No type is derived from more others.
const DEEPEST: u32 = 20;
/// A function that is written in the language is not far from the innermost one.
const MOST_FRAMES: usize = 20;

impl Session {
    /// What is true for the exceptions to stop at when they are raised; none where all are.
    pub(super) fn condition_of_types(&self) -> Option<String> {
        let mut conditions = Vec::new();
        for entry in self.breakpoints.entries() {
            let Trigger::Exception(exception) = &entry.trigger else { continue };
            let name = last_name(&exception.exception_type);
            match () {
                () if !exception.first_chance => {}
                () if !is_word(&name) => return None,
                () if exception.include_subtypes => {
                    conditions.push(self.profile.of_type.replace("{type}", &name))
                }
                () => conditions
                    .push(format!("error?.constructor?.name === '{name}' || error?.name === '{name}'")),
            }
        }
        Some(conditions.join(" || "))
    }

    /// The type of what was kept when it was raised, where the adapter can keep it; `Some(None)` where nothing was.
    pub(super) fn kept_type(&mut self, thread: ThreadId) -> Option<Option<String>> {
        let question = self.profile.raised_type.clone();
        if question.is_empty() {
            return None;
        }
        let kept = self.value_at(thread, &question).ok()?;
        let name = kept.trim_matches(['\'', '"']).to_owned();
        Some(Some(name).filter(|name| name != "undefined"))
    }

    /// The exception breakpoints that an exception is for.
    pub(super) fn matching(&mut self, raised: &RaisedException, thread: ThreadId) -> Vec<BreakpointId> {
        let candidates: Vec<_> = self
            .breakpoints
            .entries()
            .filter_map(|entry| match &entry.trigger {
                Trigger::Exception(exception) => Some((entry.id, exception.clone())),
                _ => None,
            })
            .collect();
        let mut matched = Vec::new();
        for (id, wanted) in candidates {
            let is_time = if raised.unhandled { wanted.second_chance } else { wanted.first_chance };
            let of_type = raised.exception_type.as_str();
            if is_time && (is_named(&wanted, of_type) || self.is_subtype(&wanted, of_type, thread)) {
                matched.push(id);
            }
        }
        matched
    }

    /// Whether the exception is of a type that is derived from the wanted one, as far as its language can be asked.
    fn is_subtype(&mut self, wanted: &ExceptionBreakpoint, raised: &str, thread: ThreadId) -> bool {
        let name = last_name(&wanted.exception_type);
        if !wanted.include_subtypes || !is_word(&name) {
            return false;
        }
        if !self.profile.raised_is.is_empty() {
            let question = self.profile.raised_is.replace("{type}", &name);
            return self.value_at(thread, &question).is_ok_and(|answer| answer.eq_ignore_ascii_case("true"));
        }
        let mut of_type = raised.to_owned();
        for _ in 0..DEEPEST {
            match self.supertype(&of_type, thread) {
                Some(base) if is_named(wanted, &base) => return true,
                Some(base) => of_type = base,
                None => return false,
            }
        }
        false
    }

    /// The type that a type is derived from, where the program can be asked for it by name.
    fn supertype(&mut self, of_type: &str, thread: ThreadId) -> Option<String> {
        let is_name = |letter: char| letter.is_alphanumeric() || "_.:$".contains(letter);
        if self.profile.supertype.is_empty() || !of_type.chars().all(is_name) {
            return None;
        }
        if let Some(known) = self.supertypes.get(of_type) {
            return known.clone();
        }
        let (connection, _) = self.threads.of(thread)?;
        let frames = self.frames(thread, MOST_FRAMES).ok()?;
        // Nothing is evaluated in functions that are not written in the language.
        let frame = frames.iter().find(|frame| !frame.name.starts_with("[C]"))?.id;
        let question = self.profile.supertype.replace("{type}", of_type);
        let told = self.undisturbed(connection, Stops::Exceptions, |session| {
            let asked = json!({ "expression": question, "frameId": frame, "context": "watch" });
            session.ask::<DapVariable>(connection, "evaluate", asked).ok()
        });
        let base = told.map(|told| told.value.trim_matches('"').to_owned());
        let base = base.filter(|base| base != "nil" && base.chars().all(is_name));
        self.supertypes.insert(of_type.to_owned(), base.clone());
        base
    }

    /// Evaluates what calls functions. Some adapters never answer where such a call is stopped, so nothing is to stop it.
    pub(super) fn undisturbed<T>(
        &mut self,
        connection: ConnectionId,
        stops: Stops,
        evaluate: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if !self.profile.calls_must_not_stop {
            return evaluate(self);
        }
        self.is_calling = true;
        // What cannot be taken out stops a call at worst, which the user is told then.
        let _ = self.send_stops(connection, stops);
        let result = evaluate(self);
        self.is_calling = false;
        let _ = self.send_stops(connection, stops);
        // The frames are others now to such an adapter.
        self.seen.forget();
        result
    }

    fn send_stops(&mut self, connection: ConnectionId, stops: Stops) -> Result<(), Refusal> {
        match stops {
            Stops::Exceptions => self.send_exceptions(connection),
            Stops::All => self.send_all_breakpoints(connection),
        }
    }
}

/// What a call is not to be stopped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stops {
    /// Exceptions, which functions of the language's own library may raise and catch.
    Exceptions,
    /// Breakpoints as well.
    All,
}

fn last_name(name: &str) -> String {
    name.trim().rsplit(['.', ':', '/', '$']).next().unwrap_or(name).trim_start_matches('*').to_owned()
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

fn is_named(wanted: &ExceptionBreakpoint, raised: &str) -> bool {
    let wanted_name = wanted.exception_type.trim();
    wanted_name == "*"
        || wanted_name == raised
        || last_name(wanted_name) == last_name(raised)
        || wanted.include_subtypes && matches!(wanted_name, "Error" | "BaseException" | "StandardError")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_known_by_their_last_name() {
        let wanted = |name: &str| ExceptionBreakpoint {
            exception_type: name.into(),
            first_chance: true,
            second_chance: true,
            include_subtypes: false,
            enabled: true,
        };
        assert!(is_named(&wanted("*"), "anything"));
        assert!(is_named(&wanted("errors.PathError"), "fs.PathError"));
        assert!(is_named(&wanted("ValueError"), "ValueError"));
        assert!(!is_named(&wanted("ValueError"), "UnicodeError"));
        assert!(!is_named(&wanted("Error"), "TypeError"));
        assert!(is_named(&ExceptionBreakpoint { include_subtypes: true, ..wanted("Error") }, "TypeError"));
    }
}
