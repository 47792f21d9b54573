//! The program's own words: `read_output`, `write_input`.

use async_trait::async_trait;
use hindcast_core::debug::OutputStream;
use hindcast_services::{
    Failure,
    debug::{OUTPUT_KEPT, OutputView, State},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, invalid, looks, moves, text};
use crate::registry::{Answer, Call, Declaration, Tool};

const MOST_BYTES: usize = 64 << 10;
const LONGEST_INPUT: usize = 64 << 10;

pub(super) struct ReadOutput(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadInput {
    /// `next` of an earlier answer
    #[serde(default)]
    since: Option<u64>,
    /// All where absent
    #[serde(default)]
    stream: Option<OutputStream>,
    /// Bytes
    #[serde(default = "four_thousand")]
    #[schemars(range(min = 1, max = 65536))]
    limit: usize,
    #[serde(default)]
    session_id: Option<String>,
}

fn four_thousand() -> usize {
    4000
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    #[serde(flatten)]
    output: OutputView,
    /// Where to go on reading
    next: u64,
    /// Whether there is more already
    more: bool,
    /// Whether there can be more to come
    state: State,
}

#[async_trait]
impl Tool for ReadOutput {
    type Input = ReadInput;
    type Output = Output;

    const DECLARATION: Declaration = looks(
        "debugger/read_output",
        "Read what the program printed and tracepoints logged, also while it runs",
    );

    async fn call(&self, call: &Call, input: ReadInput) -> Result<Answer<Output>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let limit = input.limit.clamp(1, MOST_BYTES);
        let page = match call.is_glance {
            true => session.glance_at_output(input.since, limit, input.stream),
            false => session.read_output(input.since, limit, input.stream),
        };
        let mut said = String::new();
        text::output(&mut said, &page.output);
        let mut said = said.trim_start_matches('\n').to_owned();
        if said.is_empty() {
            said.push_str("No new output");
        }
        if let Some(dropped) = page.output.dropped_bytes {
            let kept = OUTPUT_KEPT >> 20;
            said =
                format!("({dropped} bytes before this are gone: only the last {kept} MB are kept)\n{said}");
        }
        if page.more {
            said.push_str(&format!("\n… more: since {}", page.next));
        }
        let content = Output { output: page.output, next: page.next, more: page.more, state: page.state };
        Ok(Answer { text: said, content })
    }
}

pub(super) struct WriteInput(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteInputInput {
    /// A line needs its \n
    #[serde(default)]
    text: String,
    /// Then end the input
    #[serde(default)]
    eof: bool,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Written {
    /// How many bytes
    bytes: usize,
    /// What the program does
    state: State,
}

#[async_trait]
impl Tool for WriteInput {
    type Input = WriteInputInput;
    type Output = Written;

    const DECLARATION: Declaration =
        moves("debugger/write_input", "Write to the standard input of the program");

    async fn call(&self, call: &Call, input: WriteInputInput) -> Result<Answer<Written>, Failure> {
        let bytes = input.text.len();
        if bytes == 0 && !input.eof {
            return Err(invalid("there is nothing to write").hint("give `text`, or `eof` to end the input"));
        }
        if bytes > LONGEST_INPUT {
            return Err(
                invalid(format!("`text` is longer than {LONGEST_INPUT} bytes")).hint("write it in parts")
            );
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        session.write_input(input.text, input.eof).await?;
        let state = session.standing().state;
        let mut text = format!("Wrote {bytes} bytes to the program's input");
        if state == State::Paused {
            text.push_str("; it reads them when it runs");
        }
        Ok(Answer { text, content: Written { bytes, state } })
    }
}
