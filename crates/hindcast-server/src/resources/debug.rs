//! The current debug session: `debugger://…`, as its contract has it.

use std::sync::Arc;

use async_trait::async_trait;
use hindcast_core::{
    debug::{CompletionKind, Engine, TimelineQuery},
    identity::{Caller, Scope},
    license::Feature,
};
use hindcast_services::{
    Failure, FailureKind,
    debug::{BREAKPOINTS_URI, DebugService, SESSION_URI, SourceWatch, THREADS_URI, TIMELINE_URI},
};
use serde::Serialize;

use crate::{
    debug_views::{BreakpointList, SessionView, ThreadList, TimelineView},
    registry::{Content, ResourceEntry, ResourceRoom, TemplateEntry, Window},
};

const SOURCE: &str = "debugger://source/";
/// How much of a timeline is in the resource; the tool has the rest.
const TIMELINE_SHOWN: usize = 200;
const SOURCE_TEMPLATE: &str = "debugger://source/{+file}";

pub(super) struct DebugRoom {
    pub(super) debug: Arc<DebugService>,
}

impl DebugRoom {
    fn is_open(&self, caller: &Caller) -> bool {
        caller.may(Some(Scope::DebugRead)) && self.debug.current(caller).is_some()
    }
}

#[async_trait]
impl ResourceRoom for DebugRoom {
    fn scope(&self, uri: &str) -> Option<Option<Scope>> {
        // Also without a session, so that one can subscribe before it begins.
        let ours = [SESSION_URI, BREAKPOINTS_URI, THREADS_URI, TIMELINE_URI].contains(&uri)
            || uri.starts_with(SOURCE);
        ours.then_some(Some(Scope::DebugRead))
    }

    fn feature(&self, uri: &str) -> Option<Feature> {
        Some(if uri == TIMELINE_URI { Feature::TimeTravel } else { Feature::Debugging })
    }

    async fn list(&self, caller: &Caller, window: &mut Window) -> Result<Vec<ResourceEntry>, Failure> {
        if !self.is_open(caller) {
            return Ok(Vec::new());
        }
        let entry = |uri: &str, name: &str, description: &str| ResourceEntry {
            uri: uri.into(),
            name: name.into(),
            description: description.into(),
            mime_type: "application/json".into(),
            priority: None,
        };
        // The contract is about .NET.
        let threads = match self.debug.current(caller).map(|session| session.engine()) {
            Some(Engine::Native | Engine::Adapter) => "Threads in the debugged process",
            Some(Engine::Dotnet) | None => "Managed threads in the debugged process",
        };
        let mut entries = vec![
            entry(
                SESSION_URI,
                "Debug Session",
                "Current debug session state (process info, state, location)",
            ),
            entry(
                BREAKPOINTS_URI,
                "Breakpoints",
                "All active breakpoints, tracepoints, and exception breakpoints",
            ),
            entry(THREADS_URI, "Threads", threads),
        ];
        if self.debug.current(caller).is_some_and(|session| session.standing().has_history()) {
            entries.push(entry(
                TIMELINE_URI,
                "Timeline",
                "What happened in the recorded process: stops, output, signals, breakpoints, each with its moment",
            ));
        }
        Ok(window.of(entries))
    }

    fn templates(&self, caller: &Caller) -> Vec<TemplateEntry> {
        let description = match self.debug.current(caller).map(|session| session.engine()) {
            Some(Engine::Native) => {
                "Source code of files that the debug information of the debugged process names"
            }
            Some(Engine::Adapter) => "Source code of files that the debugged process consists of",
            Some(Engine::Dotnet) | None => "Source code from PDB-referenced files in the debugged process",
        };
        let template = TemplateEntry {
            uri_template: SOURCE_TEMPLATE.into(),
            name: "Source File".into(),
            description: description.into(),
            mime_type: "text/plain",
        };
        if self.is_open(caller) { vec![template] } else { Vec::new() }
    }

    async fn watch(&self, caller: &Caller, uri: &str) -> Result<Option<SourceWatch>, Failure> {
        let Some(path) = uri.strip_prefix(SOURCE) else { return Ok(None) };
        let session = self.debug.session(caller, None)?;
        let file = session.source_file(&decoded(path)).await?;
        self.debug.watch_source(caller, uri, file).await.map(Some)
    }

    async fn read(&self, caller: &Caller, uri: &str) -> Result<Content, Failure> {
        let session = self.debug.session(caller, None)?;
        match uri {
            SESSION_URI => json(&SessionView::of(&session.standing())),
            BREAKPOINTS_URI => json(&BreakpointList::of(&session.breakpoints().await)),
            THREADS_URI => json(&ThreadList::of(&session.last_threads().await?, session.engine())),
            TIMELINE_URI => {
                // The newest: what led here.
                let counted = session.timeline(TimelineQuery::default()).await?.page.total;
                let offset = counted.saturating_sub(TIMELINE_SHOWN);
                let query = TimelineQuery { offset, limit: TIMELINE_SHOWN, ..TimelineQuery::default() };
                json(&TimelineView::of(&session.timeline(query).await?))
            }
            _ => {
                let path = decoded(uri.strip_prefix(SOURCE).unwrap_or_default());
                Ok(Content { mime_type: "text/plain".into(), text: session.source(&path).await? })
            }
        }
    }

    async fn complete(
        &self,
        caller: &Caller,
        uri_template: &str,
        variable: &str,
        typed: &str,
    ) -> Option<Vec<String>> {
        if uri_template != SOURCE_TEMPLATE || !matches!(variable, "file" | "+file") {
            return None;
        }
        match self.debug.current(caller).filter(|_| self.is_open(caller)) {
            Some(session) => Some(session.complete(CompletionKind::File, typed).await),
            None => Some(Vec::new()),
        }
    }
}

fn json(value: &impl Serialize) -> Result<Content, Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    Ok(Content { mime_type: "application/json".into(), text })
}

/// `%20` and its like as the bytes they stand for; what is no such escape stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped =
            tail.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_paths_are_read() {
        assert_eq!(decoded("/src/a%20b.c"), "/src/a b.c");
        assert_eq!(decoded("/src/%2e%2e/x"), "/src/../x");
        assert_eq!(decoded("/100%/%zz"), "/100%/%zz");
        assert_eq!(decoded("/src/ä%C3%A4"), "/src/ää");
    }
}
