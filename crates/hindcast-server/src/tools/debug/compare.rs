//! `compare`: where two recordings of one program go different ways.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{BranchDifference, Comparison, NextStep, ValueDifference};
use hindcast_services::{Failure, debug::Compared};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Desk, invalid, looks, of_time_travel, past::Asked, patience, text, usual_wait};
use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Tool},
};

/// In the text; the data has it whole.
const LONGEST_LINE: usize = 120;

pub(super) struct Compare(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareInput {
    /// `session_id` of the other recording
    #[serde(default)]
    other: Option<String>,
    /// Of the last answer: the next difference
    #[serde(default)]
    after: Option<String>,
    /// Of an answer `running`
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for Compare {
    type Input = CompareInput;
    type Output = Asked<Comparison>;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/compare",
        "Where this recording and that of another session first take different branches, and which values differ",
    ));

    async fn call(&self, call: &Call, input: CompareInput) -> Result<Answer<Self::Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let patience = patience(call, input.timeout_ms);
        let compared = match (input.search, &input.other) {
            (Some(number), _) => session.compared(number, &patience).await?,
            (None, None) => {
                return Err(invalid("no other recording is named").hint(
                    "give `other`, the `session_id` of another session, or `search` of an answer `running`",
                ));
            }
            (None, Some(other)) => {
                let other = self.0.0.session(&call.caller, Some(other))?;
                // The one that was asked stays the current one.
                let session = self.0.session(call, Some(&**session.id()))?;
                session.compare(&other, input.after, &patience).await?
            }
        };
        match compared {
            Compared::Found(found) => {
                let next = found.branch.iter().map(|branch| {
                    format!("debugger/goto with moment \"{}\": look at the branch", branch.here.moment)
                });
                let (text, next) = (say(&found), next.collect());
                Ok(Answer { text, content: Asked::found(&session, *found, next) })
            }
            Compared::Running(number) => Ok(Asked::running(Self::DECLARATION.name, number)),
        }
    }
}

fn say(found: &Comparison) -> String {
    let mut said = match &found.branch {
        Some(branch) => say_branch(found.same, branch),
        None => format!("No difference: both did the same, about {} branches and calls", found.same),
    };
    if let Some(value) = &found.value {
        let _ = write!(said, "\n{}", say_value(value));
    }
    let _ = write!(said, "\nhere {}; there {}", found.here_ends, found.there_ends);
    if let Some(after) = &found.after {
        let _ = write!(said, "\nnext difference: `after` \"{after}\"");
    } else if found.branch.is_some() {
        said.push_str("\nthey do not go the same way again, as far as was looked");
    }
    for note in &found.notes {
        let _ = write!(said, "\nnote: {note}");
    }
    said
}

fn say_branch(same: u64, branch: &BranchDifference) -> String {
    let mut said =
        format!("Different ways after about {same} branches and calls, at {}", text::place(&branch.location));
    say_line(&mut said, branch.text.as_deref());
    for (who, next) in [("here", &branch.here), ("there", &branch.there)] {
        let NextStep { moment, location, text: line, ends } = next;
        let how = if *ends { "ended at" } else { "went on to" };
        let _ = write!(said, "\n{who} {how} {} [{moment}]", text::place(location));
        // The branch and what follows it can be on one line.
        say_line(&mut said, line.as_deref().filter(|_| location.line != branch.location.line));
    }
    for value in &branch.values {
        let (here, there) = (excerpt(&value.here, LONGEST_LINE), excerpt(&value.there, LONGEST_LINE));
        let _ = write!(said, "\n  {} = {here} here, {there} there", value.name);
    }
    said
}

fn say_line(said: &mut String, line: Option<&str>) {
    if let Some(line) = line {
        let _ = write!(said, "\n      {}", excerpt(line, LONGEST_LINE));
    }
}

fn say_value(value: &ValueDifference) -> String {
    let what = match &value.parameter {
        Some(parameter) => format!("argument `{parameter}` of"),
        None => "what was returned by".to_owned(),
    };
    format!(
        "first value that differs like `{}`: {what} {}: {} here [{}], {} there [{}]",
        value.same_as, value.function, value.here, value.here_moment, value.there, value.there_moment
    )
}
