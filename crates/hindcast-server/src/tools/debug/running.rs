//! Moving: `continue`, `pause`, `wait`, `step_forward`, `run_to`.

use async_trait::async_trait;
use hindcast_core::debug::{Engine, Granularity, Movement, ThreadId};
use hindcast_services::{
    Failure,
    debug::{Until, Viewport},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Desk, invalid, moved, moves, one, patience, places::Named, session::OnlySession, usual_wait, yes,
};
use crate::registry::{Answer, Call, Declaration, Tool};

/// More steps than this are better made with a breakpoint.
const MOST_STEPS: u32 = 100_000;

pub(super) struct Continue(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinueInput {
    /// false: answer at once
    #[serde(default = "yes")]
    wait: bool,
    /// Then the answer is `running`
    ///
    /// Then it goes on and the answer is `running`; at most 55000
    #[serde(default = "usual_wait")]
    timeout_ms: u64,
    #[serde(default)]
    #[schemars(skip)]
    thread_id: Option<u32>,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for Continue {
    type Input = ContinueInput;
    type Output = Viewport;

    const DECLARATION: Declaration = moves(
        "debugger/continue",
        "Run until a breakpoint, crash, panic or exit. Answers why and where it stopped, source, locals, output",
    );

    async fn call(&self, call: &Call, input: ContinueInput) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let timeout = if input.wait { input.timeout_ms } else { 0 };
        let mut view = session.travel(Movement::Continue, &patience(call, timeout)).await?;
        if input.thread_id.is_some() {
            view.notes.push("all threads run: one alone would wait for the others".into());
        }
        Ok(moved(view))
    }
}

pub(super) struct Pause(pub(super) Desk);

#[async_trait]
impl Tool for Pause {
    type Input = OnlySession;
    type Output = Viewport;

    const DECLARATION: Declaration = moves("debugger/pause", "Stop a running program where it is");

    async fn call(&self, call: &Call, input: OnlySession) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        Ok(moved(session.pause().await?))
    }
}

pub(super) struct Wait(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitInput {
    #[serde(default = "usual_wait")]
    timeout_ms: u64,
    #[serde(default)]
    until: WaitUntil,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Deserialize, JsonSchema, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum WaitUntil {
    #[default]
    Stopped,
    Output,
    Exited,
}

#[async_trait]
impl Tool for Wait {
    type Input = WaitInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        super::looks("debugger/wait", "Wait until a running program stops, prints or exits");

    async fn call(&self, call: &Call, input: WaitInput) -> Result<Answer<Viewport>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        if call.is_glance {
            return Ok(moved(session.glance()));
        }
        let until = match input.until {
            WaitUntil::Stopped => Until::Stopped,
            WaitUntil::Output => Until::Output,
            WaitUntil::Exited => Until::Exited,
        };
        Ok(moved(session.wait(until, &patience(call, input.timeout_ms)).await))
    }
}

pub(super) struct StepForward(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepInput {
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(super) count: u32,
    /// line steps into calls, over does not, out leaves the function
    ///
    /// line steps into calls, over does not, out leaves the function; default for .NET: over
    #[serde(default)]
    #[schemars(with = "Granularity", default = "Granularity::default")]
    pub(super) granularity: Option<Granularity>,
    #[serde(default)]
    pub(super) thread_id: Option<u32>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    pub(super) timeout_ms: u64,
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

impl StepInput {
    /// What was asked for, or what is usual in this session.
    pub(super) fn granularity(&self, engine: Engine) -> Granularity {
        let usual = match engine {
            Engine::Native => Granularity::Instruction,
            // Its machine code comes and goes, and is not shown.
            Engine::Dotnet | Engine::Adapter => Granularity::Over,
        };
        self.granularity.unwrap_or(usual)
    }

    /// Refuses counts that nobody should wait for.
    pub(super) fn check(&self, instead: &str) -> Result<(), Failure> {
        if (1..=MOST_STEPS).contains(&self.count) {
            return Ok(());
        }
        let details = format!("`count` is {}, not between 1 and {MOST_STEPS}", self.count);
        Err(invalid(details).hint(format!("set a breakpoint and use `{instead}`")))
    }
}

#[async_trait]
impl Tool for StepForward {
    type Input = StepInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        moves("debugger/step_forward", "Step by instructions (default; not for .NET) or source lines");

    async fn call(&self, call: &Call, input: StepInput) -> Result<Answer<Viewport>, Failure> {
        input.check("debugger/continue")?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let thread = session.frame(input.thread_id.map(ThreadId), Some(0))?.thread;
        let granularity = input.granularity(session.engine());
        let movement = Movement::Step { thread, granularity, count: input.count };
        Ok(moved(session.travel(movement, &patience(call, input.timeout_ms)).await?))
    }
}

pub(super) struct RunTo(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunToInput {
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    function: Option<String>,
    /// Text of a line of `file`
    #[serde(default)]
    statement: Option<String>,
    #[serde(default = "usual_wait")]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for RunTo {
    type Input = RunToInput;
    type Output = Viewport;

    const DECLARATION: Declaration =
        moves("debugger/run_to", "Continue to a place, named as in set_breakpoint");

    async fn call(&self, call: &Call, input: RunToInput) -> Result<Answer<Viewport>, Failure> {
        let named = Named {
            address: input.address.as_deref(),
            file: input.file.as_deref(),
            line: input.line,
            function: input.function.as_deref(),
            statement: input.statement.as_deref(),
        };
        let place = named.place()?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let view = session.travel(Movement::RunTo(place), &patience(call, input.timeout_ms)).await?;
        Ok(moved(view))
    }
}
