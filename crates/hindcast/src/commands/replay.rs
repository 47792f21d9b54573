//! `hindcast replay`: what is in a recording that was written to a file, and where it ends: from there one goes back.

use std::{fmt::Write as _, fs::File, io::BufReader, path::Path, process::ExitCode};

use anyhow::{Context, Result, anyhow};
use hindcast_core::{
    debug::{Trace, happening_in_a_line},
    identity::Caller,
};
use hindcast_services::{
    Events, ToolNames,
    debug::{DebugService, Mask, State},
};
use serde_json::json;

use super::{patience, print_json, print_text, recorded_runtime};
use crate::{config::Config, options::Replay, wiring};

/// A recording of a large program takes a while to open.
const OPEN_WITHIN_MS: u64 = 600_000;

pub(super) fn run(config: &Config, options: &Replay) -> Result<ExitCode> {
    let shown = options.file.display();
    let file = File::open(&options.file).with_context(|| format!("cannot open `{shown}`"))?;
    let trace = Trace::read(BufReader::new(file)).map_err(|error| {
        let remedy = error.remedy();
        anyhow!("cannot open `{shown}`: {error} · hint: {}", ToolNames::Slash.say(&remedy))
    })?;
    if options.output.json {
        print_json(&as_json(&trace, options.events))?;
    } else {
        print_text(&as_text(&trace, options.events))?;
    }
    if !options.output.json && !options.events && !trace.engine_logs.is_empty() {
        let service = wiring::debug_service(config, wiring::debug_engine(&config.debug)?, Events::default())?;
        let end = recorded_runtime()?.block_on(async {
            let end = open(&service, &options.file).await;
            service.end_all().await;
            end
        })?;
        print_text(&end)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens it, and tells where it ends and how to go back from there.
async fn open(service: &DebugService, file: &Path) -> Result<String> {
    let caller = Caller::local();
    let (session, view) =
        service.open_trace(&caller, file.to_owned(), Mask::new(false), &patience(OPEN_WITHIN_MS)).await?;
    let mut text = match (view.state, view.exit_code) {
        (State::Exited, Some(code)) => format!("\nIt ends with exit code {code}.\n"),
        (State::Exited, None) => {
            format!("\nIt ends with {}.\n", view.signal.as_deref().unwrap_or("the program's end"))
        }
        _ => format!("\nIt ends here:\n{}\n", session.autopsy(10, 1).await?),
    };
    let launch = json!({ "trace": std::path::absolute(file)? });
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\nTo go back in it, have an agent open it (`hindcast mcp install`):\n  \
         debugger/launch           {launch}\n  \
         debugger/last_write       {{\"expression\": \"the value that is wrong\"}}\n  \
         debugger/reverse_continue {{}}\n"
    );
    Ok(text)
}

fn as_json(trace: &Trace, with_events: bool) -> serde_json::Value {
    let logs: Vec<_> =
        trace.engine_logs.iter().map(|log| json!({ "engine": log.engine, "bytes": log.bytes })).collect();
    let mut value = json!({
        "head": trace.head,
        "happenings": trace.happenings,
        "event_count": trace.events.len(),
        "engine_logs": logs,
    });
    if with_events {
        value["events"] = json!(trace.events);
    }
    value
}

fn as_text(trace: &Trace, with_events: bool) -> String {
    let mut text = format!("{}\n", trace.head);
    for log in &trace.engine_logs {
        // Writing to a string does not fail.
        let _ = writeln!(text, "With the log of {}, {} bytes", log.engine, log.bytes);
    }
    if trace.happenings.is_empty() {
        text.push_str("\nNothing happened in it.\n");
    } else {
        text.push_str("\nTimeline:\n");
    }
    for happening in &trace.happenings {
        let _ = writeln!(text, "{}", happening_in_a_line(happening));
    }
    if with_events {
        text.push_str("\nEvents:\n");
        for event in &trace.events {
            let _ = writeln!(text, "{event}");
        }
    } else if !trace.events.is_empty() {
        let _ = writeln!(text, "\n{} events: --events lists them", trace.events.len());
    }
    text
}
