//! Questions over time: `history`, `when`, `trace_calls`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{
    Allocation, Becomes, CallTrace, CallValue, CallsQuestion, ChangedValue, ConditionHistory,
    HistoryQuestion, Location, Moment, Place, Question, Span, ThreadId, Watched, WhenQuestion, Which,
    WriteHistory, Writer,
};
use hindcast_services::{
    Failure, FailureKind,
    debug::{Found, Searched, Session, State},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, invalid, looks, of_time_travel, patience, places::parse_address, text, usual_wait};
use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Tool},
};

const MOST_WRITES: u32 = 200;
const MOST_CHANGES: u32 = 100;
const MOST_CALLS: u32 = 1000;
/// In the text; the data has it whole.
const LONGEST_ARGUMENT: usize = 40;

fn ten() -> u32 {
    10
}

/// What a search was begun with, or the number of one that goes on.
pub(super) async fn ask(
    session: &Session,
    call: &Call,
    (question, search, timeout_ms): (Result<Question, Failure>, Option<u64>, u64),
) -> Result<Searched, Failure> {
    let patience = patience(call, timeout_ms);
    match search {
        Some(number) => session.searched(number, &patience).await,
        None => session.ask_past(question?, &patience).await,
    }
}

pub(super) fn other_question(tool: &str) -> Failure {
    Failure::new(FailureKind::InvalidInput, format!("this search was not begun by `{tool}`"))
        .hint("ask with the tool that began it")
}

/// What was found, or the number of the search that goes on.
#[derive(Serialize, JsonSchema)]
pub(super) struct Asked<T> {
    /// running: the search goes on
    state: State,
    /// What was found
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    found: Option<T>,
    /// Names a search that goes on
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<u64>,
    /// Sensible next calls
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
}

impl<T> Asked<T> {
    pub(super) fn found(session: &Session, found: T, next: Vec<String>) -> Self {
        Self { state: session.standing().state, found: Some(found), search: None, next }
    }

    /// The answer while a search goes on.
    pub(super) fn running(tool: &str, number: u64) -> Answer<Self> {
        let next = next_while_running(tool, number);
        let text = format!("Still looking (search {number}): it goes on\nnext: {}", next.join("\nnext: "));
        Answer { text, content: Self { state: State::Running, found: None, search: Some(number), next } }
    }
}

/// What is asked about: an expression in a frame, or memory.
pub(super) fn watched(
    session: &Session,
    named: (Option<&str>, Option<&str>),
    size: Option<u64>,
    frame: Option<u32>,
) -> Result<Watched, Failure> {
    match named {
        (Some(text), None) => {
            Ok(Watched::Expression { text: text.to_owned(), frame: session.frame_in_history(frame)? })
        }
        (None, Some(address)) => {
            Ok(Watched::Memory { address: parse_address(address)?, size: size.unwrap_or(8) })
        }
        _ => Err(not_one_value()),
    }
}

pub(super) fn not_one_value() -> Failure {
    invalid("not one value is named")
        .hint("give either `expression`, or `address` and `size`, or `search` of an answer `running`")
}

/// What to call while a search goes on.
pub(super) fn next_while_running(tool: &str, number: u64) -> Vec<String> {
    vec![format!("{tool} with search {number}: wait for the result"), "debugger/pause: give it up".to_owned()]
}

fn span(since: Option<String>, until: Option<String>) -> Span {
    Span { since: since.map(Moment), until: until.map(Moment) }
}

pub(super) struct WrittenHistory(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryInput {
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    offset: u64,
    #[serde(default = "ten")]
    #[schemars(range(max = 200))]
    limit: u32,
    /// Tell also who read it
    #[serde(default)]
    reads: bool,
    #[serde(default)]
    frame: Option<u32>,
    /// Of an answer `running`
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

impl HistoryInput {
    fn question(&self, session: &Session) -> Result<Question, Failure> {
        let named = (self.expression.as_deref(), self.address.as_deref());
        let watched = watched(session, named, self.size, self.frame)?;
        let span = span(self.since.clone(), self.until.clone());
        let limit = self.limit.min(MOST_WRITES);
        Ok(Question::History(HistoryQuestion {
            watched,
            span,
            offset: self.offset,
            limit,
            reads: self.reads,
        }))
    }
}

#[async_trait]
impl Tool for WrittenHistory {
    type Input = HistoryInput;
    type Output = Asked<WriteHistory>;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/history",
        "All writes to a value up to now, by statement: how often, what each added in all; of heap memory who allocated and \
         freed it",
    ));

    async fn call(&self, call: &Call, input: HistoryInput) -> Result<Answer<Self::Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let asked = (input.question(&session), input.search, input.timeout_ms);
        let name = input.expression.or(input.address);
        let name = name.or_else(|| session.search_name(input.search?)).unwrap_or_default();
        match ask(&session, call, asked).await? {
            Searched::Found(Found::History(history)) => {
                let text = say_history(&excerpt(&name, 100), input.offset, &history);
                Ok(Answer { text, content: Asked::found(&session, *history, Vec::new()) })
            }
            Searched::Found(_) => Err(other_question(Self::DECLARATION.name)),
            Searched::Running(number) => Ok(Asked::running(Self::DECLARATION.name, number)),
        }
    }
}

/// Where something was done, by what, and its source line.
fn say_place(said: &mut String, location: &Location, through: Option<&str>, line: Option<&str>) {
    let _ = write!(said, "{}", text::place(location));
    if let Some(through) = through {
        let _ = write!(said, ", through `{through}`");
    }
    if let Some(line) = line {
        let _ = write!(said, "\n      {line}");
    }
}

fn say_history(name: &str, offset: u64, history: &WriteHistory) -> String {
    let WriteHistory {
        total, statements, left_out, writes, reads, first, last, since, allocation, note, ..
    } = history;
    let mut said = match total {
        0 => format!("`{name}` was not written since moment {since}: it is {last}"),
        _ => format!("{total} writes to `{name}`, from {first} to {last}"),
    };
    if let Some(block) = allocation {
        say_block(&mut said, block);
    }
    for what in statements {
        let by = if what.by == Writer::Kernel { " by the system" } else { "" };
        let change = what.change.as_ref().map(|change| format!(", {change} in all")).unwrap_or_default();
        let unchanged =
            if what.changed < what.count { format!(" ({} changed it)", what.changed) } else { String::new() };
        let first = what.first.as_ref().map(|first| format!(", first at {first}")).unwrap_or_default();
        let _ = write!(said, "\n{} ×{by}{unchanged}{change}{first}: ", what.count);
        say_place(&mut said, &what.location, what.through.as_deref(), what.text.as_deref());
    }
    if *left_out > 0 {
        let _ = write!(said, "\n… and {} statements with fewer writes: narrow `since` and `until`", left_out);
    }
    if !reads.is_empty() {
        said.push_str("\nRead by:");
    }
    for what in reads {
        let first = what.first.as_ref().map(|first| format!(", first at {first}")).unwrap_or_default();
        let _ = write!(said, "\n{} ×{first}: ", what.count);
        say_place(&mut said, &what.location, what.through.as_deref(), what.text.as_deref());
    }
    if !writes.is_empty() {
        said.push_str("\nIn the order of time:");
    }
    for what in writes {
        let place = what.location.short();
        let _ = write!(said, "\n  {}: {} → {} at {place}", what.moment, what.old, what.new);
    }
    let shown = offset + writes.len() as u64;
    if shown < *total {
        let _ = write!(said, "\n… {} more: `offset` {shown}", total - shown);
    }
    if let Some(note) = note {
        let _ = write!(said, "\nnote: {note}");
    }
    said
}

/// Who allocated a block, and who freed it.
fn say_block(said: &mut String, block: &Allocation) {
    let _ = write!(said, "\nin a block of {} bytes at {}", block.size, block.address);
    let calls = std::iter::once(("allocated", &block.allocated));
    for (what, call) in calls.chain(block.freed.iter().map(|call| ("freed", call))) {
        let _ = write!(said, "\n{what} at {} by thread {}: ", call.moment, call.thread);
        say_place(said, &call.location, Some(&call.function), call.text.as_deref());
    }
    match block.freed.len() {
        _ if !block.is_freed_known => {
            said.push_str(
                "\nwhen it was freed is not known: smaller blocks have had its address often since then",
            );
        }
        0 => said.push_str("\nnot freed up to then"),
        1 => {}
        times => {
            let _ = write!(said, "\nfreed {times} times without having been allocated again");
        }
    }
}

pub(super) struct When(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhenInput {
    /// Such as `used != sum(held)`
    #[serde(default)]
    condition: Option<String>,
    /// Judge it at this function or `FILE:LINE`, with its names
    #[serde(default)]
    at: Option<String>,
    /// first, last, every
    #[serde(default)]
    #[schemars(with = "String")]
    which: Which,
    /// true, false, any
    #[serde(default)]
    #[schemars(with = "String")]
    becomes: Becomes,
    /// It changes only once: much faster
    #[serde(default)]
    monotone: bool,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default = "ten")]
    #[schemars(skip)]
    limit: u32,
    #[serde(default)]
    frame: Option<u32>,
    /// Of an answer `running`
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

impl WhenInput {
    fn question(&self, session: &Session) -> Result<Question, Failure> {
        let condition = self.condition.clone().ok_or_else(|| {
            invalid("no condition is given").hint("give `condition`, or `search` of an answer `running`")
        })?;
        Ok(Question::When(WhenQuestion {
            condition,
            frame: session.frame_in_history(self.frame)?,
            place: self.at.as_deref().map(Place::named),
            span: span(self.since.clone(), self.until.clone()),
            which: self.which,
            becomes: self.becomes,
            monotone: self.monotone,
            limit: self.limit.clamp(1, MOST_CHANGES),
        }))
    }
}

#[async_trait]
impl Tool for When {
    type Input = WhenInput;
    type Output = Asked<ConditionHistory>;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/when",
        "The moment at which a condition became true, the statement that did it, values before and after",
    ));

    async fn call(&self, call: &Call, input: WhenInput) -> Result<Answer<Self::Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let asked = (input.question(&session), input.search, input.timeout_ms);
        let name = input.condition.or_else(|| session.search_name(input.search?)).unwrap_or_default();
        match ask(&session, call, asked).await? {
            Searched::Found(Found::When(history)) => {
                let next = history.changes.first().map(|change| {
                    format!("debugger/goto with moment \"{}\": look around right after it", change.moment)
                });
                let text = say_changes(&excerpt(&name, 100), &history);
                Ok(Answer { text, content: Asked::found(&session, *history, next.into_iter().collect()) })
            }
            Searched::Found(_) => Err(other_question(Self::DECLARATION.name)),
            Searched::Running(number) => Ok(Asked::running(Self::DECLARATION.name, number)),
        }
    }
}

fn say_changes(name: &str, whole: &ConditionHistory) -> String {
    let mut said = String::new();
    if whole.changes.is_empty() {
        let held = match (whole.at_first, whole.judged) {
            (_, 0) => "was never judged: the program did not come there",
            (Some(true), _) if whole.unknown > 0 => "held whenever it could be judged",
            (Some(true), _) if whole.at_last == Some(true) => "held from the beginning on",
            (Some(false), _) if whole.at_last == Some(false) && whole.unsure.is_some() => {
                "was not seen to become true (it may have been so in between)"
            }
            (Some(false), _) if whole.at_last == Some(false) => "did not become true",
            _ => "did not change so",
        };
        let ConditionHistory { since, until, judged, .. } = whole;
        let _ =
            write!(said, "`{name}` {held} between the moments {since} and {until} (judged {judged} times)");
    }
    for (index, what) in whole.changes.iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        let became = if what.holds { "became true" } else { "became false" };
        let _ =
            write!(said, "{separator}`{name}` {became} at moment {}, thread {}: ", what.moment, what.thread);
        say_place(&mut said, &what.location, what.through.as_deref(), what.text.as_deref());
        for ChangedValue { expression, old, new } in &what.values {
            let old = old.as_ref().map(|old| format!("{old} → ")).unwrap_or_default();
            let _ = write!(said, "\n  {expression}: {old}{new}");
        }
    }
    if whole.more {
        said.push_str("\n… and more: `which`, `since`");
    }
    if whole.unknown > 0 {
        let _ = write!(said, "\nnote: {} times it could not be judged", whole.unknown);
    }
    if let Some(unsure) = &whole.unsure {
        let _ = write!(said, "\nnote: {unsure}");
    }
    said
}

pub(super) struct TraceCalls(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallsInput {
    /// Name or `/regex/`; default: the program's own
    #[serde(default)]
    functions: Option<String>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default = "five")]
    depth: u32,
    #[serde(default = "forty")]
    #[schemars(range(max = 1000))]
    limit: u32,
    /// The last calls instead of the first
    #[serde(default)]
    last: bool,
    #[serde(default)]
    thread_id: Option<u32>,
    /// Of an answer `running`
    #[serde(default)]
    search: Option<u64>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

fn five() -> u32 {
    5
}

fn forty() -> u32 {
    40
}

impl CallsInput {
    fn question(&self, session: &Session) -> Result<Question, Failure> {
        let thread = match self.thread_id {
            Some(thread) => ThreadId(thread),
            None => session.frame_in_history(Some(0))?.thread,
        };
        Ok(Question::Calls(CallsQuestion {
            thread,
            span: span(self.since.clone(), self.until.clone()),
            functions: self.functions.clone(),
            depth: self.depth.max(1),
            limit: self.limit.clamp(1, MOST_CALLS),
            last: self.last,
        }))
    }
}

#[async_trait]
impl Tool for TraceCalls {
    type Input = CallsInput;
    type Output = Asked<CallTrace>;

    const DECLARATION: Declaration = of_time_travel(looks(
        "debugger/trace_calls",
        "What a thread called up to now, as a tree with arguments and results",
    ));

    async fn call(&self, call: &Call, input: CallsInput) -> Result<Answer<Self::Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let asked = (input.question(&session), input.search, input.timeout_ms);
        match ask(&session, call, asked).await? {
            Searched::Found(Found::Calls(trace)) => {
                let text = say_calls(&trace, input.last);
                Ok(Answer { text, content: Asked::found(&session, *trace, Vec::new()) })
            }
            Searched::Found(_) => Err(other_question(Self::DECLARATION.name)),
            Searched::Running(number) => Ok(Asked::running(Self::DECLARATION.name, number)),
        }
    }
}

fn say_calls(trace: &CallTrace, is_last: bool) -> String {
    let mut said = match is_last {
        true => format!("{} calls of {} functions since {}", trace.total, trace.functions, trace.since),
        false => format!("{} calls of {} functions", trace.total, trace.functions),
    };
    let left_out = format!("\n… {} more: narrow `since`, `until`, `functions` or `depth`", trace.left_out);
    if is_last && trace.left_out > 0 {
        said.push_str(&left_out);
    }
    for call in &trace.calls {
        let indent = "  ".repeat(call.depth as usize);
        let _ = write!(said, "\n{indent}{}({})", call.function, say_values(&call.arguments));
        if let Some(last) = &call.last_arguments {
            let _ = write!(said, " … ({})", say_values(last));
        }
        if call.times > 1 {
            let _ = write!(said, " ×{}", call.times);
        }
        match &call.result {
            Some(result) => drop(write!(said, " = {}", excerpt(result, LONGEST_ARGUMENT))),
            None if call.is_open => said.push_str(" (has not returned)"),
            None if call.left => said.push_str(" (left by an exception or a jump)"),
            None => {}
        }
        if let Some(moment) = call.moment.as_ref().filter(|_| call.depth == 0) {
            let _ = write!(said, "  [{moment}]");
        }
    }
    if !is_last && trace.left_out > 0 {
        said.push_str(&left_out);
    }
    if let Some(note) = &trace.note {
        let _ = write!(said, "\nnote: {note}");
    }
    said
}

fn say_values(values: &[CallValue]) -> String {
    let told: Vec<_> = values
        .iter()
        .map(|passed| format!("{}={}", passed.name, excerpt(&passed.value, LONGEST_ARGUMENT)))
        .collect();
    told.join(", ")
}
