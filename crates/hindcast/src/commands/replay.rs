//! `hindcast replay`: what is in a recording that was written to a file.

use std::{fmt::Write as _, fs::File, io::BufReader, process::ExitCode};

use anyhow::{Context, Result};
use hindcast_core::debug::{Trace, happening_in_a_line};
use serde_json::json;

use super::{print_json, print_text};
use crate::options::Replay;

pub(super) fn run(options: &Replay) -> Result<ExitCode> {
    let shown = options.file.display();
    let file = File::open(&options.file).with_context(|| format!("cannot open `{shown}`"))?;
    let trace = Trace::read(BufReader::new(file)).with_context(|| format!("cannot open `{shown}`"))?;
    if options.output.json {
        print_json(&as_json(&trace, options.events))?;
    } else {
        print_text(&as_text(&trace, options.events))?;
    }
    Ok(ExitCode::SUCCESS)
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
