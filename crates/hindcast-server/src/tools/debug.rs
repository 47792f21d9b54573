//! Tools of the debugger.

use std::sync::Arc;

use async_trait::async_trait;
use hindcast_core::{identity::Scope, license::Feature};
use hindcast_services::{Failure, debug::DebugService};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registry::{Answer, Call, Declaration, Effects, Tool};

pub(super) struct Attach {
    pub(super) debug: Arc<DebugService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachInput {
    /// Process ID to attach to
    #[schemars(range(min = 1))]
    pid: u32,
    /// The debug session to use; the current one where absent
    #[serde(default, rename = "session_id")]
    #[allow(dead_code, reason = "there is nothing to choose from before the engine lands")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Attached {
    /// The process that is now held
    pid: u32,
}

#[async_trait]
impl Tool for Attach {
    type Input = AttachInput;
    type Output = Attached;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/attach",
        title: "Attach to a process",
        description: "Attach to a running process",
        scope: Some(Scope::DebugWrite),
        feature: Some(Feature::Debugging),
        effects: Effects::Destructive { idempotent: false },
    };

    fn target(input: &AttachInput) -> Option<String> {
        Some(format!("pid {}", input.pid))
    }

    async fn call(&self, call: &Call, input: AttachInput) -> Result<Answer<Attached>, Failure> {
        match self.debug.attach(&call.caller, input.pid)? {}
    }
}

pub(super) struct GetStackTrace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read once there is an engine to ask")]
pub(super) struct StackTraceInput {
    /// How many frames at most
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 1000))]
    max_frames: u32,
    /// Only this thread; the current one where absent
    #[serde(default)]
    thread_id: Option<u32>,
    /// The stacks of all threads
    #[serde(default)]
    all_threads: bool,
    /// The debug session to look into; the current one where absent
    #[serde(default)]
    session_id: Option<String>,
}

fn twenty() -> u32 {
    20
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StackTrace {
    /// Innermost first
    frames: Vec<Frame>,
}

#[derive(Serialize, JsonSchema)]
struct Frame {
    /// 0 is the innermost
    index: u32,
    /// Hexadecimal
    address: String,
    /// Where known
    function: Option<String>,
}

#[async_trait]
impl Tool for GetStackTrace {
    type Input = StackTraceInput;
    type Output = StackTrace;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/get_stack_trace",
        title: "Get the stack trace",
        description: "Get the current stack trace of the attached process",
        scope: Some(Scope::DebugRead),
        feature: Some(Feature::Debugging),
        effects: Effects::ReadOnly,
    };

    async fn call(&self, _call: &Call, _input: StackTraceInput) -> Result<Answer<StackTrace>, Failure> {
        Err(DebugService::not_attached())
    }
}
