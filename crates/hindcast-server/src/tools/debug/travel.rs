//! Going back: `step_backward`, `reverse_continue`, `goto`, and `record`, which says from when on that works.

use async_trait::async_trait;
use hindcast_core::debug::{Destination, Moment, Movement};
use hindcast_services::{Failure, debug::Viewport};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Desk, gone_back, invalid, moved, moves, of_time_travel, patience, running::StepInput, thread, usual_wait,
};
use crate::registry::{Answer, Call, Declaration, Tool};

pub(super) struct StepBackward(pub(super) Desk);

#[async_trait]
impl Tool for StepBackward {
    type Input = StepInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        of_time_travel(moves("debugger/step_backward", "Step back in time, also after a crash or the exit"));

    async fn call(&self, call: &Call, input: StepInput) -> Result<Answer<Viewport>, Failure> {
        input.check("debugger/reverse_continue")?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let patience = patience(call, input.timeout_ms);
        let (thread, granularity) = (thread(input.thread_id), input.granularity(session.engine()));
        Ok(gone_back(session.step_back(thread, granularity, input.count, &patience).await?))
    }
}

pub(super) struct ReverseContinue(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReverseContinueInput {
    #[serde(default = "usual_wait")]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for ReverseContinue {
    type Input = ReverseContinueInput;
    type Output = Viewport;

    const DECLARATION: Declaration = of_time_travel(moves(
        "debugger/reverse_continue",
        "Run back in time to the previous breakpoint, watchpoint or signal",
    ));

    async fn call(&self, call: &Call, input: ReverseContinueInput) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let patience = patience(call, input.timeout_ms);
        Ok(gone_back(session.travel(Movement::ReverseContinue, &patience).await?))
    }
}

pub(super) struct Goto(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GotoInput {
    /// A moment of an earlier answer, "start" or "present"
    #[serde(default)]
    moment: Option<String>,
    /// 0: start, 100: present
    #[serde(default)]
    #[schemars(range(max = 100))]
    percent: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

impl GotoInput {
    fn destination(&self) -> Result<Destination, Failure> {
        let hint =
            "give `moment` (as `debugger/timeline` lists them, or \"start\", \"present\"), or `percent`";
        match (self.moment.as_deref().map(str::trim), self.percent) {
            (Some("start"), None) => Ok(Destination::Start),
            (Some("present" | "end" | "now"), None) => Ok(Destination::Present),
            (Some(""), _) | (None, None) => Err(invalid("no moment is named").hint(hint)),
            (Some(moment), None) => Ok(Destination::Moment(Moment(moment.to_owned()))),
            (None, Some(percent)) => match u8::try_from(percent) {
                Ok(percent @ 0..=100) => Ok(Destination::Percent(percent)),
                _ => Err(invalid(format!("`percent` is {percent}, not between 0 and 100")).hint(hint)),
            },
            (Some(_), Some(_)) => Err(invalid("both `moment` and `percent` are given").hint(hint)),
        }
    }
}

#[async_trait]
impl Tool for Goto {
    type Input = GotoInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        of_time_travel(moves("debugger/goto", "Go to a moment of the recording"));

    async fn call(&self, call: &Call, input: GotoInput) -> Result<Answer<Viewport>, Failure> {
        let destination = input.destination()?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let patience = patience(call, input.timeout_ms);
        Ok(gone_back(session.travel(Movement::Goto(destination), &patience).await?))
    }
}

pub(super) struct Record(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordInput {
    action: Action,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// From here on
    Start,
    /// What was recorded stays
    Stop,
}

#[async_trait]
impl Tool for Record {
    type Input = RecordInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        of_time_travel(moves("debugger/record", "Record a stopped program from here on, or stop it"));

    async fn call(&self, call: &Call, input: RecordInput) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let view = session.record(matches!(input.action, Action::Start)).await?;
        let moment = view.moment.as_ref().map(|moment| format!(" (moment {moment})")).unwrap_or_default();
        let told = match input.action {
            Action::Start => format!("Recorded from here on{moment}"),
            Action::Stop => "The recording has ended here; what was recorded can be visited".into(),
        };
        let mut answer = moved(view);
        answer.text = format!("{told}\n{}", answer.text);
        Ok(answer)
    }
}
