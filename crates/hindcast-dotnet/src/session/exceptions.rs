//! Exceptions: which ones stop the program, and what they say.

use std::rc::Rc;

use hindcast_core::debug::{
    BreakpointId, DebugError, InnerException, RaisedException, Reason, Stop, StopReason,
};

use super::{
    Session,
    functions::{with_keywords, without_blanks},
    stack::ManagedFrame,
};
use crate::{
    cor::{Com, ExceptionStage, Thread},
    image::Spelling,
    modules::LoadedModule,
    values::{ExceptionMessage, LONGEST_MESSAGE, Seen, TypeInfo},
};

/// How many exceptions behind an exception are shown.
const MOST_INNER: usize = 10;

/// The type of exceptions that a breakpoint is for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Named {
        /// With its namespace or without, and with the number of its type parameters or without.
        name: String,
        /// `int,string` of `Pair<int, string>`; none where any will do.
        arguments: Option<String>,
    },
}

impl Wanted {
    /// Reads a name as the user gives it.
    fn read(text: &str) -> Option<Self> {
        let is_name = |part: &str| {
            let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '`');
            !part.is_empty() && part.chars().all(is_of_name)
        };
        if text == "*" {
            return Some(Self::All);
        }
        let (name, arguments) = match text.split_once('<') {
            Some((name, arguments)) => (name.trim_end(), Some(with_keywords(arguments.strip_suffix('>')?))),
            None => (text, None),
        };
        // `Pair<,>` is any pair.
        let arguments = arguments.filter(|arguments| !arguments.trim_matches(',').is_empty());
        let name = name.replace('+', ".");
        name.split('.').all(is_name).then_some(Self::Named { name, arguments })
    }

    /// Whether it means a type by its full name, whatever its arguments are.
    fn means(&self, full_name: &str) -> bool {
        let Self::Named { name, .. } = self else { return true };
        let full = full_name.replace('+', ".");
        let plain = without_counts(&full);
        let namespace_free = |text: &str| text.rsplit('.').next().is_some_and(|last| last == name);
        *name == full || *name == plain || namespace_free(&full) || namespace_free(&plain)
    }

    /// Whether it means a type with its arguments.
    fn means_type(&self, of: &TypeInfo) -> bool {
        if !of.full_name_ref().is_some_and(|name| self.means(name)) {
            return false;
        }
        let Self::Named { arguments: Some(wanted), .. } = self else { return true };
        let spelled = |spelling| {
            let arguments = of.arguments.iter().map(|argument| argument.spelled(spelling));
            without_blanks(&arguments.collect::<Vec<_>>().join(","))
        };
        [Spelling::Short, Spelling::Qualified].into_iter().any(|spelling| spelled(spelling) == *wanted)
    }
}

/// `Pair` of ``Pair`2``.
fn without_counts(name: &str) -> String {
    let part = |part: &str| part.split('`').next().unwrap_or(part).to_owned();
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Whether this can be the name of an exception's type.
pub(super) fn check_name(name: &str) -> Result<(), DebugError> {
    if Wanted::read(name).is_some() {
        return Ok(());
    }
    Err(DebugError::BreakpointFailed(
        Reason::new(format!("`{name}` is not the name of a .NET exception type"))
            .advise("`System.NullReferenceException`, or `*` for all"),
    ))
}

impl Session {
    /// Whether an exception at this stage can stop the program.
    pub(super) fn hears_of_exception(&mut self, stage: ExceptionStage) -> bool {
        match stage {
            ExceptionStage::FirstChance => self.breakpoints.exceptions().next().is_some(),
            stage => stage == ExceptionStage::Unhandled,
        }
    }

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
        let types = exception.of.with_bases(&self.modules);
        let stopping = self.wanted_by(&types, unhandled);
        // Nobody asks for an exception that ends the program, and everybody wants to see it.
        if stopping.is_empty() && !unhandled {
            return Ok(None);
        }
        let message = self.values().exception_message(&exception, LONGEST_MESSAGE);
        let exception_type = exception.of.full_name().unwrap_or_else(|| exception.of.display());
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
        self.add_inner(exception, 1, &mut found);
        found
    }

    fn add_inner(&self, exception: &Seen, depth: u32, found: &mut Vec<InnerException>) {
        let values = self.values();
        let several = values.inner_exceptions(exception, MOST_INNER).filter(|several| !several.is_empty());
        let inner = several.unwrap_or_else(|| {
            let single = values.field_seen(exception, "_innerException");
            single.filter(|inner| !inner.is_null()).into_iter().collect()
        });
        for inner in inner {
            if found.len() >= MOST_INNER {
                return;
            }
            let exception_type = inner.of.full_name().unwrap_or_else(|| inner.of.display());
            let thrown_at = self.thrown_places(&inner, 1).pop().map(|place| place.location);
            let message = values.exception_message(&inner, LONGEST_MESSAGE).text();
            found.push(InnerException { depth, exception_type, message, thrown_at });
            self.add_inner(&inner, depth + 1, found);
        }
    }

    /// The exception breakpoints that stop at a type with these bases, itself first.
    fn wanted_by(&mut self, types: &[TypeInfo], unhandled: bool) -> Vec<BreakpointId> {
        let mut found = Vec::new();
        for (id, breakpoint, hits) in self.breakpoints.exceptions() {
            let is_stage = if unhandled { breakpoint.second_chance } else { breakpoint.first_chance };
            let considered = if breakpoint.include_subtypes { types } else { &types[..types.len().min(1)] };
            let Some(wanted) = Wanted::read(&breakpoint.exception_type) else { continue };
            let is_type = wanted == Wanted::All || considered.iter().any(|of| wanted.means_type(of));
            if is_stage && is_type {
                *hits += 1;
                found.push(id);
            }
        }
        found
    }

    /// What is to be said of a type of exceptions that no loaded assembly has; what was said as long as a new one has not.
    pub(super) fn unknown_exception(
        &self,
        name: &str,
        only: Option<&Rc<LoadedModule>>,
        said: Option<String>,
    ) -> Option<String> {
        let wanted = Wanted::read(name).filter(|wanted| *wanted != Wanted::All)?;
        let has = |module: &Rc<LoadedModule>| {
            let types = module.assembly().into_iter().flat_map(|assembly| assembly.types());
            types.filter_map(|of| of.full_name()).any(|name| wanted.means(&name))
        };
        match only {
            Some(module) => said.filter(|_| !has(module)),
            None if self.modules.iter().any(has) => None,
            None => Some(format!("no loaded assembly has a type `{name}`; it stops once one is loaded")),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_exceptions_are_checked() {
        for name in [
            "System.NullReferenceException",
            "*",
            "MyError",
            "Ns.Outer+Inner`1",
            "Pair<int, List<string>>",
            "Pair<,>",
        ] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "signal:SIGSEGV", "cpp:*", "A..B", "a b", "Pair<int", "<int>"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn generic_exceptions_have_several_names() {
        let means = |wanted: &str, name: &str| Wanted::read(wanted).unwrap().means(name);
        for name in [
            "PairException",
            "Ns.PairException",
            "PairException`1",
            "Ns.PairException`1",
            "PairException<int>",
        ] {
            assert!(means(name, "Ns.PairException`1"), "{name}");
        }
        assert!(means("Outer.Inner", "Outer`1+Inner"));
        assert!(!means("PairException`2", "Ns.PairException`1"));
        assert!(!means("Other.PairException", "Ns.PairException`1"));
    }
}
