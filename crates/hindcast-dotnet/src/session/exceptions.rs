//! Exceptions: which ones stop the program, and what they say.

use hindcast_core::debug::{
    BreakpointId, DebugError, InnerException, RaisedException, Reason, Stop, StopReason,
};

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::{Com, ExceptionStage, Thread},
    values::{ExceptionMessage, LONGEST_MESSAGE, Seen},
};

/// How many exceptions behind an exception are shown.
const MOST_INNER: usize = 10;

/// Whether this can be the name of an exception's type.
pub(super) fn check_name(name: &str) -> Result<(), DebugError> {
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '`'))
    };
    if name == "*" || name.split(['.', '+']).all(is_name) {
        return Ok(());
    }
    Err(DebugError::BreakpointFailed(
        Reason::new(format!("`{name}` is not the name of a .NET exception type"))
            .advise("`System.NullReferenceException`, or `*` for all"),
    ))
}

impl Session {
    pub(super) fn exception_passed(
        &mut self,
        thread: &Com<Thread>,
        stage: ExceptionStage,
    ) -> Result<Option<Stop>, DebugError> {
        let unhandled = match stage {
            ExceptionStage::FirstChance => false,
            ExceptionStage::Unhandled => true,
            _ => return Ok(None),
        };
        let Some(exception) = self.current_exception(thread) else { return Ok(None) };
        let names: Vec<String> =
            exception.of.with_bases(&self.modules).iter().filter_map(|of| of.full_name()).collect();
        let stopping = self.wanted_by(&names, unhandled);
        // Nobody asks for an exception that ends the program, and everybody wants to see it.
        if stopping.is_empty() && !unhandled {
            return Ok(None);
        }
        let message = self.values().exception_message(&exception, LONGEST_MESSAGE);
        let exception_type = names.into_iter().next().unwrap_or_else(|| exception.of.display());
        if exception_type == "System.StackOverflowException" {
            self.overflowed = Some(self.thread_id(thread));
        }
        let frame = self.own_frame(thread);
        let thrown_at = self.thrown_elsewhere(&exception, frame.as_ref());
        // Values are only those of the throw where the thread has not left it.
        let stands_there = frame.filter(|_| thrown_at.is_empty());
        let because = match &message {
            ExceptionMessage::Computed { by, .. } => Some(computed_by(by)),
            ExceptionMessage::Said(_) => {
                let raised_there = stands_there.filter(|_| self.is_raised_by_own_code(thread));
                raised_there.and_then(|frame| self.explained(&frame, &exception_type))
            }
        };
        let is_fatal = exception_type == "System.ExecutionEngineException";
        let given_up = is_fatal.then(|| self.fail_fast(thread)).flatten();
        let message = given_up.or_else(|| message.text());
        let inner = self.inner_exceptions(&exception);
        let raised = RaisedException { exception_type, message, unhandled, because, inner, thrown_at };
        let mut stop = self.stop_at(thread, StopReason::Exception, None);
        let said = raised.message.as_deref().unwrap_or("no message");
        let because = raised.because.as_deref().map(|because| format!(" ({because})")).unwrap_or_default();
        stop.detail = Some(format!("{}: {said}{because}", raised.exception_type));
        stop.exception = Some(raised);
        stop.breakpoints = stopping;
        Ok(Some(stop))
    }

    /// The innermost frame of the program's own code.
    fn own_frame(&mut self, thread: &Com<Thread>) -> Option<ManagedFrame> {
        let (frames, _) = self.frames(thread, 16).ok()?;
        frames.iter().find(|frame| frame.module.is_mine()).cloned()
    }

    /// Whether the innermost frame is the program's own.
    fn is_raised_by_own_code(&mut self, thread: &Com<Thread>) -> bool {
        let frames = self.frames(thread, 1);
        frames.is_ok_and(|(frames, _)| frames.first().is_some_and(|frame| frame.module.is_mine()))
    }

    /// What the message does not say.
    fn explained(&self, frame: &ManagedFrame, exception_type: &str) -> Option<String> {
        if exception_type != "System.NullReferenceException" {
            return None;
        }
        self.null_in(frame).map(|text| format!("`{text}` is null"))
    }

    /// What it was thrown for, and what that was thrown for.
    fn inner_exceptions(&self, exception: &Seen) -> Vec<InnerException> {
        let mut found = Vec::new();
        self.add_inner(exception, 0, &mut found);
        found
    }

    fn add_inner(&self, exception: &Seen, depth: usize, found: &mut Vec<InnerException>) {
        let values = self.values();
        let several = values.inner_exceptions(exception, MOST_INNER).filter(|several| !several.is_empty());
        let inner = several.unwrap_or_else(|| {
            let single = values.field_seen(exception, "_innerException");
            single.filter(|inner| !inner.is_null()).into_iter().collect()
        });
        for inner in inner {
            if found.len() >= MOST_INNER || depth >= MOST_INNER {
                return;
            }
            let exception_type = inner.of.full_name().unwrap_or_else(|| inner.of.display());
            let thrown_at = self.thrown_places(&inner, 1).pop().map(|place| place.location);
            let message = values.exception_message(&inner, LONGEST_MESSAGE).text();
            found.push(InnerException { exception_type, message, thrown_at });
            self.add_inner(&inner, depth + 1, found);
        }
    }

    /// The exception breakpoints that stop at a type with these names, its own first.
    fn wanted_by(&mut self, names: &[String], unhandled: bool) -> Vec<BreakpointId> {
        let mut found = Vec::new();
        for (id, wanted, hits) in self.breakpoints.exceptions() {
            let is_stage = if unhandled { wanted.second_chance } else { wanted.first_chance };
            let considered = if wanted.include_subtypes { names } else { &names[..names.len().min(1)] };
            let is_type = wanted.exception_type == "*"
                || considered
                    .iter()
                    .any(|name| *name == wanted.exception_type || short(name) == wanted.exception_type);
            if is_stage && is_type {
                *hits += 1;
                found.push(id);
            }
        }
        found
    }

    /// The exception that a thread is throwing.
    pub(super) fn current_exception(&self, thread: &Com<Thread>) -> Option<Seen> {
        let value = thread.current_exception().ok().flatten()?;
        self.values().see(&value).ok().filter(|seen| !seen.is_null())
    }
}

/// That the message is not what the program would say.
fn computed_by(class: &str) -> String {
    format!("`{class}` computes its message: evaluate `$exception.Message` with `allow_calls: true`")
}

/// The name without its namespace.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_exceptions_are_checked() {
        for name in ["System.NullReferenceException", "*", "MyError", "Ns.Outer+Inner`1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "signal:SIGSEGV", "cpp:*", "A..B", "a b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
