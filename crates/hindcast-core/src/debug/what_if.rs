//! What would have happened: a past moment is changed in a copy, which then goes on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallValue, FrameRef, Location, Moment, Place};

/// What would have happened with this change?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhatIfQuestion {
    /// When it is made; now where absent.
    pub moment: Option<Moment>,
    /// Whose names the assignments use.
    pub frame: FrameRef,
    /// Assignments, in this order.
    pub set: Vec<String>,
    /// Whether the rest of the line that the program stands at is left out.
    pub skip_line: bool,
    /// The function returns at once with this value; with none where it is empty.
    pub returns: Option<String>,
    /// Both runs end here, where they come to it.
    pub until: Option<Place>,
    /// Told of both runs where they end.
    pub show: Vec<String>,
    /// So long each of them may compute.
    pub time_ms: u64,
}

/// What would have happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// When the change was made
    pub moment: Moment,
    /// Where the program stood
    pub location: Location,
    /// Whether the two runs end differently, or print or hold something else there
    pub differs: bool,
    /// What became of it with the change
    pub changed: TrialRun,
    /// What became of it without
    pub unchanged: TrialRun,
    /// The first line that is printed differently
    #[serde(skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedDifference>,
    /// What is not as it would really be
    pub notes: Vec<String>,
}

/// How a copy went on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRun {
    /// How it ended
    pub end: TrialEnding,
    /// The same in words
    pub detail: String,
    /// The program's own statement where it ended
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The functions there, the innermost first
    pub stack: Vec<String>,
    /// How many bytes it printed
    pub printed_bytes: u64,
    /// The end of what it printed
    pub output: String,
    /// What was to be shown
    pub values: Vec<CallValue>,
}

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnding {
    /// The program ended by itself
    Exited,
    /// By a signal; handlers of the program's own are not called
    Signal,
    /// It came to `until`
    Until,
    /// It asked the system for something that is not in the recording
    Unknown,
    /// It computed for too long
    Time,
}

/// A line that two runs print differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrintedDifference {
    /// From 1, behind the moment of the change
    pub line: u64,
    /// With the change; absent where there is no such line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// Without
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<String>,
}

impl PrintedDifference {
    /// Of what two runs printed, or the beginnings of that.
    pub fn between(changed: &[u8], unchanged: &[u8]) -> Option<Self> {
        let text = |line: Option<&[u8]>| line.map(|line| String::from_utf8_lossy(line).into_owned());
        let (mut left, mut right) = (lines(changed), lines(unchanged));
        (1..).find_map(|line| match (left.next(), right.next()) {
            (None, None) => Some(None),
            (changed, unchanged) if changed == unchanged => None,
            (changed, unchanged) => {
                Some(Some(Self { line, changed: text(changed), unchanged: text(unchanged) }))
            }
        })?
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let is_empty = bytes.is_empty();
    bytes.split(|&byte| byte == b'\n').filter(move |_| !is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_told_with_its_number() {
        let difference = |left: &str, right: &str| {
            let found = PrintedDifference::between(left.as_bytes(), right.as_bytes())?;
            Some((found.line, found.changed, found.unchanged))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("", ""), None);
        assert_eq!(difference("a\nb\n", "a\nc\nd\n"), Some((2, some("b"), some("c"))));
        assert_eq!(difference("a\n", "a\nc\n"), Some((2, None, some("c"))));
        assert_eq!(difference("a\n", ""), Some((1, some("a"), None)));
    }
}
