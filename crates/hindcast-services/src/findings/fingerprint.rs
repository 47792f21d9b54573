//! What stays of a failure from one run, build and machine to the next.

use std::fmt::Write as _;

use super::normal;
use crate::debug::Crash;

/// Frames beyond these say how the program came to begin.
const MOST_FRAMES: usize = 12;
/// A statement, in characters; what is longer is not what people write.
const LONGEST_STATEMENT: usize = 160;
/// Any other part.
const LONGEST_PART: usize = 300;

/// A failure without addresses, line numbers and values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// `SIGSEGV`, `rust:panic`, `std::out_of_range`.
    pub kind: String,
    /// What was wrong with a memory access, such as `null_dereference read`.
    pub access: String,
    /// What the failure said.
    pub message: String,
    /// The expression that held the bad pointer.
    pub expression: String,
    /// Innermost first, without machinery.
    pub frames: Vec<FrameMark>,
}

/// A frame of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameMark {
    /// Whose code it is.
    pub is_own: bool,
    /// The function.
    pub function: String,
    /// The statement, where it is known.
    pub statement: String,
}

impl FrameMark {
    fn new(is_own: bool, function: &str, statement: &str) -> Option<Self> {
        let name = normal::function(function);
        let is_known = !name.is_empty() && name != "??" && !normal::is_machinery(&name);
        is_known.then(|| Self {
            is_own,
            function: cut(&name, LONGEST_PART),
            statement: cut(statement, LONGEST_STATEMENT),
        })
    }
}

impl Fingerprint {
    /// Of a crash that a debugger sees.
    pub fn of_crash(crash: &Crash) -> Self {
        // What called the outermost own frame began the program or the thread.
        let outermost =
            crash.stack.iter().rposition(|frame| frame.is_own).map_or(crash.stack.len(), |at| at + 1);
        let frames = crash.stack[..outermost].iter();
        let frames = frames.map(|frame| (frame.is_own, &*frame.function, &*frame.statement));
        Self {
            kind: normal::kind(&crash.kind),
            access: crash.access.clone(),
            message: normal::message(&crash.message),
            expression: cut(&crash.expression, LONGEST_PART),
            frames: marks(frames),
        }
    }

    /// Of what a trace tells: the kind, the message, and frames with the function and the statement, innermost first.
    pub(super) fn of_trace<'a>(
        kind: &str,
        message: &str,
        frames: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let frames = frames.map(|(function, statement)| (!is_library(function), function, statement));
        Self {
            kind: normal::kind(kind),
            message: normal::message(message),
            frames: marks(frames),
            ..Self::default()
        }
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty() && self.frames.is_empty()
    }

    /// As it stands in a document.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        let named = [
            ("kind", &self.kind),
            ("access", &self.access),
            ("message", &self.message),
            ("expression", &self.expression),
        ];
        for (name, value) in named.into_iter().filter(|(_, value)| !value.is_empty()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    {name}: {}", value.replace('\n', " "));
        }
        for frame in &self.frames {
            let name = if frame.is_own { "frame" } else { "library" };
            let gap = if frame.statement.is_empty() { "" } else { " | " };
            let _ = writeln!(text, "    {name}: {}{gap}{}", frame.function, frame.statement);
        }
        text
    }

    /// From the lines of a document; what is no line of a fingerprint ends it.
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.strip_prefix("    ").and_then(|line| line.split_once(": ")) else {
                break;
            };
            match name {
                "kind" => parsed.kind = cut(value, LONGEST_PART),
                "access" => parsed.access = cut(value, LONGEST_PART),
                "message" => parsed.message = cut(value, LONGEST_PART),
                "expression" => parsed.expression = cut(value, LONGEST_PART),
                "frame" | "library" if parsed.frames.len() < MOST_FRAMES => {
                    let (function, statement) = value.split_once(" | ").unwrap_or((value, ""));
                    let (function, statement) =
                        (cut(function, LONGEST_PART), cut(statement, LONGEST_STATEMENT));
                    parsed.frames.push(FrameMark { is_own: name == "frame", function, statement });
                }
                _ => {}
            }
        }
        parsed
    }
}

fn cut(text: &str, longest: usize) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(longest).collect()
}

/// Without machinery; of a function that calls itself again and again two frames tell all.
fn marks<'a>(frames: impl Iterator<Item = (bool, &'a str, &'a str)>) -> Vec<FrameMark> {
    let mut marks: Vec<FrameMark> = Vec::new();
    for mark in frames.filter_map(|(is_own, function, statement)| FrameMark::new(is_own, function, statement))
    {
        if marks.iter().filter(|known| **known == mark).count() < 2 {
            marks.push(mark);
        }
        if marks.len() == MOST_FRAMES {
            break;
        }
    }
    marks
}

/// Whether a function of a trace is the language's.
fn is_library(function: &str) -> bool {
    [
        "std::",
        "core::",
        "alloc::",
        "__",
        "java.",
        "jdk.",
        "sun.",
        "System.",
        "Microsoft.",
        "runtime.",
        "node:",
    ]
    .iter()
    .any(|library| function.trim_start_matches('<').starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_was_written() {
        let mark = |is_own, function: &str, statement: &str| FrameMark {
            is_own,
            function: function.into(),
            statement: statement.into(),
        };
        let whole = Fingerprint {
            kind: "SIGSEGV".into(),
            access: "null_dereference read".into(),
            message: "the len is N1: but".into(),
            expression: "node->next".into(),
            frames: vec![
                mark(false, "strlen", ""),
                mark(true, "last", "return a | b;"),
                mark(true, "main", ""),
            ],
        };
        assert_eq!(Fingerprint::parse(&format!("{}\nmore text\n    kind: other", whole.lines())), whole);
        assert!(Fingerprint::parse("no fingerprint").is_empty());
    }

    #[test]
    fn what_nobody_writes_is_cut_when_it_is_read() {
        let long = "a;".repeat(10_000);
        let parsed = Fingerprint::parse(&format!(
            "    kind: {long}\n    message: {long}\n    frame: {long} | {long}\n"
        ));
        assert_eq!((parsed.kind.len(), parsed.message.len()), (LONGEST_PART, LONGEST_PART));
        assert_eq!(parsed.frames[0].function.len(), LONGEST_PART);
        assert_eq!(parsed.frames[0].statement.len(), LONGEST_STATEMENT);
    }
}
