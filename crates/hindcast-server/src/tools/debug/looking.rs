//! Looking at what the program means: `get_stack_trace`, `get_variables`, `get_threads`, `get_modules`, `autopsy`.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use hindcast_core::{
    debug::{Frame, Module, Thread, ThreadId, ValueLimits, Variable, VariableQuery, VariableScope, View},
    identity::Scope,
};
use hindcast_services::{
    Failure, FailureKind,
    debug::{self, SeenThread},
    findings::FindingService,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, invalid, looks, one, text, thread};
use crate::registry::{Answer, Call, Declaration, Tool};

pub(super) struct GetStackTrace(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StackTraceInput {
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 1000))]
    max_frames: u32,
    #[serde(default)]
    thread_id: Option<u32>,
    #[serde(default)]
    all_threads: bool,
    /// Whose frames
    #[serde(default)]
    #[schemars(schema_with = "super::view")]
    language: View,
    #[serde(default)]
    session_id: Option<String>,
}

fn twenty() -> u32 {
    20
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StackTrace {
    /// Of the thread that was asked for; innermost first
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frames: Vec<Frame>,
    /// Whose frames these are
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<ThreadId>,
    /// Of all threads, where that was asked for
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<ThreadStack>,
    /// Whether there are frames beyond these
    more: bool,
    /// Why the stack could not be followed to its end
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ThreadStack {
    thread_id: ThreadId,
    name: String,
    frames: Vec<Frame>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

#[async_trait]
impl Tool for GetStackTrace {
    type Input = StackTraceInput;
    type Output = StackTrace;

    const DECLARATION: Declaration =
        looks("debugger/get_stack_trace", "Get the current stack trace of the attached process");

    async fn call(&self, call: &Call, input: StackTraceInput) -> Result<Answer<StackTrace>, Failure> {
        if !(1..=1000).contains(&input.max_frames) {
            return Err(invalid(format!("`max_frames` is {}, not between 1 and 1000", input.max_frames)));
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        if input.all_threads {
            return Ok(all_stacks(session.all_stacks(input.max_frames).await?));
        }
        let stack = session.stack(input.language, thread(input.thread_id), input.max_frames).await?;
        let mut said = "Stack trace:".to_owned();
        stack.frames.iter().for_each(|frame| text::frame(&mut said, frame));
        how_it_ends(&mut said, stack.more, stack.broken.as_deref(), input.max_frames);
        let content = StackTrace {
            frames: stack.frames,
            thread_id: Some(stack.thread),
            threads: Vec::new(),
            more: stack.more,
            broken: stack.broken,
        };
        Ok(Answer { text: said, content })
    }
}

fn all_stacks(stacks: Vec<(Thread, hindcast_core::debug::Stack)>) -> Answer<StackTrace> {
    let mut said = "Stack trace:".to_owned();
    let mut threads = Vec::new();
    for (thread, stack) in stacks {
        let name = if thread.name.is_empty() { String::new() } else { format!(" ({})", thread.name) };
        let _ = write!(said, "\nThread {}{name}:", thread.id);
        stack.frames.iter().for_each(|frame| text::frame(&mut said, frame));
        how_it_ends(&mut said, stack.more, stack.broken.as_deref(), 0);
        let (frames, more, broken) = (stack.frames, stack.more, stack.broken);
        threads.push(ThreadStack { thread_id: thread.id, name: thread.name, frames, more, broken });
    }
    let more = threads.iter().any(|stack| stack.more);
    Answer {
        text: said,
        content: StackTrace { frames: Vec::new(), thread_id: None, threads, more, broken: None },
    }
}

fn how_it_ends(said: &mut String, more: bool, broken: Option<&str>, asked: u32) {
    if more && asked > 0 {
        let _ = write!(said, "\n… more frames: max_frames above {asked}");
    } else if more {
        said.push_str("\n… more frames");
    }
    if let Some(broken) = broken {
        let _ = write!(said, "\nnote: the stack ends early: {broken}");
    }
}

pub(super) struct GetVariables(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VariablesInput {
    #[serde(default)]
    scope: VariableScope,
    /// Only names containing this
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    frame: Option<u32>,
    #[serde(default)]
    #[schemars(schema_with = "super::view")]
    language: View,
    #[serde(default)]
    thread_id: Option<u32>,
    /// Levels of members; default: what fits
    ///
    /// How many levels of members to show. Without it, those that a value's line does not tell, as far as they fit into 2 kB.
    #[serde(default)]
    depth: Option<u32>,
    #[serde(default)]
    offset: u32,
    #[serde(default = "fifty")]
    limit: u32,
    #[serde(default)]
    allow_calls: bool,
    #[serde(default = "usual_run")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

/// How long code of the program may run for one question.
const USUAL_RUN: u64 = 5_000;
/// A question is answered within 15 s.
const LONGEST_RUN: u64 = 12_000;

pub(super) fn usual_run() -> u64 {
    USUAL_RUN
}

/// For how long the caller may have code of the program run; none of it where nobody asked for that.
pub(super) fn allowed_calls(
    call: &Call,
    tool: &str,
    wanted: bool,
    timeout_ms: u64,
) -> Result<Option<Duration>, Failure> {
    if wanted && !call.caller.may(Some(Scope::DebugWrite)) {
        return Err(needs_write(&format!("`allow_calls` in `{tool}`")));
    }
    Ok(wanted.then(|| Duration::from_millis(timeout_ms.min(LONGEST_RUN))))
}

pub(super) fn needs_write(what: &str) -> Failure {
    let scope = Scope::DebugWrite;
    Failure::new(FailureKind::PermissionDenied, format!("{what} needs the scope `{scope}`"))
        .hint(format!("use a key that has `{scope}`"))
        .fact("required_scope", scope.name())
}

fn fifty() -> u32 {
    50
}

/// Deeper than this nobody reads.
pub(super) const DEEPEST: u32 = 10;

#[derive(Serialize, JsonSchema)]
pub(super) struct Variables {
    /// Inner scopes first
    #[schemars(with = "Vec<VariableInShort>")]
    variables: Vec<Variable>,
    /// How many there are in all
    total: u32,
    /// Pass it as `offset` to get the rest
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u32>,
}

/// What the reference says of a variable, which holds variables itself.
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct VariableInShort {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<hindcast_core::debug::ValueState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<serde_json::Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

#[async_trait]
impl Tool for GetVariables {
    type Input = VariablesInput;
    type Output = Variables;

    const DECLARATION: Declaration =
        looks("debugger/get_variables", "Show variables of a frame with their members");

    async fn call(&self, call: &Call, input: VariablesInput) -> Result<Answer<Variables>, Failure> {
        if !(1..=1000).contains(&input.limit) {
            return Err(invalid(format!("`limit` is {}, not between 1 and 1000", input.limit)));
        }
        let allow_calls = allowed_calls(call, "debugger/get_variables", input.allow_calls, input.timeout_ms)?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let query = VariableQuery {
            frame: session.frame(thread(input.thread_id), input.frame)?.seen_as(input.language),
            scope: input.scope,
            filter: input.filter.filter(|filter| !filter.is_empty()),
            offset: input.offset,
            limit: input.limit,
            limits: ValueLimits { depth: input.depth.unwrap_or(1).min(DEEPEST), ..ValueLimits::default() },
            allow_calls,
        };
        let mut page = session.variables(query).await?;
        let mut said = match input.scope {
            VariableScope::Local => "Local variables:",
            VariableScope::Arguments => "Arguments:",
            VariableScope::Global => "Global variables:",
            VariableScope::Registers => "Registers:",
        }
        .to_owned();
        match input.depth {
            None => {
                let shown = text::in_short(&mut said, &mut page.variables, 2);
                page.variables.truncate(shown);
            }
            Some(_) => page.variables.iter().for_each(|variable| text::variable(&mut said, variable, 2)),
        }
        if page.variables.is_empty() {
            said.push_str(" none");
        }
        let end = input.offset.saturating_add(u32::try_from(page.variables.len()).unwrap_or(u32::MAX));
        let next_offset = Some(end).filter(|end| *end < page.total && !page.variables.is_empty());
        if let Some(next) = next_offset {
            let _ = write!(said, "\n… {} more: offset {next}", page.total - next);
        }
        text::notes(&mut said, &depth_note(input.depth));
        Ok(Answer {
            text: said,
            content: Variables { variables: page.variables, total: page.total, next_offset },
        })
    }
}

/// Says that less was shown than was asked for.
pub(super) fn depth_note(asked: Option<u32>) -> Vec<String> {
    let Some(asked) = asked else { return Vec::new() };
    let note = format!("`depth` is {asked}; {DEEPEST} levels are the most that is shown");
    Some(note).filter(|_| asked > DEEPEST).into_iter().collect()
}

pub(super) struct GetThreads(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PagedInput {
    /// Only names containing this
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    offset: usize,
    #[serde(default = "a_page")]
    limit: usize,
    #[serde(default)]
    session_id: Option<String>,
}

fn a_page() -> usize {
    50
}

impl PagedInput {
    /// The page of what fits the filter, how many do, and where the next page begins.
    fn page<T>(&self, all: Vec<T>, name: impl Fn(&T) -> String) -> (Vec<T>, usize, Option<usize>) {
        let fits = |one: &T| self.filter.as_ref().is_none_or(|filter| name(one).contains(filter.as_str()));
        let fitting: Vec<_> = all.into_iter().filter(fits).collect();
        let total = fitting.len();
        let limit = self.limit.clamp(1, 1000);
        let page: Vec<_> = fitting.into_iter().skip(self.offset).take(limit).collect();
        let end = self.offset.saturating_add(page.len());
        (page, total, Some(end).filter(|end| *end < total && *end > self.offset))
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Threads {
    threads: Vec<SeenThread>,
    /// The one that stopped last
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<ThreadId>,
    /// Whether the program has run since
    stale: bool,
    total: usize,
    /// Pass it as `offset` to get the rest
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

#[async_trait]
impl Tool for GetThreads {
    type Input = PagedInput;
    type Output = Threads;

    const DECLARATION: Declaration = looks("debugger/get_threads", "List threads and where each is");

    async fn call(&self, call: &Call, input: PagedInput) -> Result<Answer<Threads>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let view = session.threads().await?;
        let (threads, total, next_offset) =
            input.page(view.threads, |seen| format!("{} {}", seen.thread.id, seen.thread.name));
        let mut said = if view.stale {
            format!("Threads as of {} (the program is running):", view.captured_at)
        } else {
            "Threads:".to_owned()
        };
        for SeenThread { thread, called_from } in &threads {
            let mark = if view.current == Some(thread.id) { '*' } else { ' ' };
            let place = thread.location.as_ref().map(text::place).unwrap_or_default();
            let words = [thread.name.as_str(), &place];
            let _ = write!(said, "\n{mark} {}", thread.id);
            for word in words.into_iter().filter(|word| !word.is_empty()) {
                let _ = write!(said, " {word}");
            }
            if let Some(caller) = called_from {
                let _ = write!(said, ", called from {}", text::place(caller));
            }
            if let Some(waits_for) = &thread.waits_for {
                let _ = write!(said, ", waits for {waits_for}");
            }
        }
        let content = Threads { threads, current: view.current, stale: view.stale, total, next_offset };
        Ok(Answer { text: said, content })
    }
}

pub(super) struct GetModules(pub(super) Desk);

#[derive(Serialize, JsonSchema)]
pub(super) struct Modules {
    modules: Vec<Module>,
    total: usize,
    /// Pass it as `offset` to get the rest
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

#[async_trait]
impl Tool for GetModules {
    type Input = PagedInput;
    type Output = Modules;

    const DECLARATION: Declaration = looks("debugger/get_modules", "List loaded executables and libraries");

    async fn call(&self, call: &Call, input: PagedInput) -> Result<Answer<Modules>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let (modules, total, next_offset) =
            input.page(session.modules().await?, |module| module.path.clone());
        let mut said = "Modules:".to_owned();
        for module in &modules {
            said.push_str("\n  ");
            if let Some(base) = module.base {
                let _ = write!(said, "{base} ");
            }
            let _ = write!(said, "{} ({})", module.path, module.symbols);
        }
        Ok(Answer { text: said, content: Modules { modules, total, next_offset } })
    }
}

pub(super) struct Autopsy(pub(super) Desk, pub(super) Arc<FindingService>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AutopsyInput {
    #[serde(default = "five")]
    max_frames: u32,
    #[serde(default = "one")]
    depth: u32,
    #[serde(default)]
    session_id: Option<String>,
}

fn five() -> u32 {
    5
}

#[async_trait]
impl Tool for Autopsy {
    type Input = AutopsyInput;
    type Output = debug::Autopsy;

    const DECLARATION: Declaration = looks(
        "debugger/autopsy",
        "After a crash or panic: what happened, why, stack with arguments, source and locals. Paused: which threads wait for what, deadlocks",
    );

    async fn call(&self, call: &Call, input: AutopsyInput) -> Result<Answer<debug::Autopsy>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let autopsy = session.autopsy(input.max_frames.clamp(1, 100), input.depth.min(DEEPEST)).await?;
        let mut text = autopsy.to_string();
        let failed = autopsy.signal.is_some() || autopsy.exception.is_some();
        if failed && self.1.has_findings(&call.caller).await {
            text.push_str("\nnext: debugger/find_similar_bugs: findings are kept");
        }
        Ok(Answer { text, content: autopsy })
    }
}
