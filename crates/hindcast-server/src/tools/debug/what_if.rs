//! `what_if`: a past moment is changed in a copy, which then goes on.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{Moment, Place, PrintedDifference, Question, TrialRun, WhatIf, WhatIfQuestion};
use hindcast_services::{
    Failure,
    debug::{Found, Searched, Session},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Desk, looks, of_time_travel,
    past::{Asked, ask, other_question},
    text, usual_wait,
};
use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Tool},
};

const LONGEST_TIME_MS: u64 = 60_000;
/// In the text; the data has it whole.
const LONGEST_LINE: usize = 160;

pub(super) struct WhatIfTool(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhatIfInput {
    /// Assignments such as `count = 3`
    #[serde(default)]
    set: Vec<String>,
    /// Leave out the rest of the current line
    #[serde(default)]
    skip_line: bool,
    /// Return this number at once ("": none)
    #[serde(default)]
    returns: Option<String>,
    /// When; default: now
    #[serde(default)]
    moment: Option<String>,
    /// Function or `FILE:LINE`
    #[serde(default)]
    until: Option<String>,
    /// Expressions
    #[serde(default)]
    show: Vec<String>,
    #[serde(default)]
    frame: Option<u32>,
    #[serde(default = "five_seconds")]
    time_ms: u64,
    /// Of an answer `running`
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

fn five_seconds() -> u64 {
    5000
}

impl WhatIfInput {
    fn question(&self, session: &Session) -> Result<Question, Failure> {
        Ok(Question::WhatIf(WhatIfQuestion {
            moment: self.moment.clone().map(Moment),
            // At another moment, other frames are there.
            frame: session.frame_in_history(self.frame.or(self.moment.as_ref().map(|_| 0)))?,
            set: self.set.clone(),
            skip_line: self.skip_line,
            returns: self.returns.clone(),
            until: self.until.as_deref().map(Place::named),
            show: self.show.clone(),
            time_ms: self.time_ms.clamp(1, LONGEST_TIME_MS),
        }))
    }
}

#[async_trait]
impl Tool for WhatIfTool {
    type Input = WhatIfInput;
    type Output = Asked<WhatIf>;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/what_if",
        "Try a fix at a past moment, in a copy: change a value, skip a line, return early; tells what differs",
    ));

    async fn call(&self, call: &Call, input: WhatIfInput) -> Result<Answer<Self::Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let asked = (input.question(&session), input.search, input.timeout_ms);
        match ask(&session, call, asked).await? {
            Searched::Found(Found::WhatIf(told)) => {
                let text = say(&told);
                Ok(Answer { text, content: Asked::found(&session, *told, Vec::new()) })
            }
            Searched::Found(_) => Err(other_question(Self::DECLARATION.name)),
            Searched::Running(number) => Ok(Asked::running(Self::DECLARATION.name, number)),
        }
    }
}

fn say(told: &WhatIf) -> String {
    let mut said = format!("Changed at moment {}, {}\n", told.moment, text::place(&told.location));
    if told.differs {
        let _ = write!(said, "with the change: {}", say_run(&told.changed));
        let _ = write!(said, "\nwithout it: {}", say_run(&told.unchanged));
    } else {
        let _ = write!(said, "nothing differs: with the change and without, it {}", say_run(&told.changed));
    }
    if let Some(PrintedDifference { line, changed, unchanged }) = &told.printed {
        let line_of = |line: &Option<String>| {
            line.as_ref()
                .map_or_else(|| "nothing".into(), |line| format!("`{}`", excerpt(line, LONGEST_LINE)))
        };
        let _ = write!(
            said,
            "\nfirst line printed differently (line {line} from there on): {} instead of {}",
            line_of(changed),
            line_of(unchanged)
        );
    }
    for note in &told.notes {
        let _ = write!(said, "\nnote: {note}");
    }
    said
}

fn say_run(run: &TrialRun) -> String {
    let mut said = run.detail.clone();
    if let Some(location) = &run.location {
        let _ = write!(said, " ({})", location.in_words());
    }
    let _ = write!(said, ", printed {} bytes", run.printed_bytes);
    for shown in &run.values {
        let _ = write!(said, "\n  {} = {}", shown.name, excerpt(&shown.value, LONGEST_LINE));
    }
    said
}
