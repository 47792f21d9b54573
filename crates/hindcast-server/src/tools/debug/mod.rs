//! Tools of the debugger, one file a group.

mod breakpoints;
mod compare;
mod evaluate;
mod find;
mod findings;
mod history;
mod looking;
mod machine;
mod output;
mod past;
mod places;
mod running;
mod session;
mod text;
mod travel;
mod what_if;

use std::sync::Arc;

use hindcast_core::{debug::ThreadId, identity::Scope, license::Feature};
use hindcast_services::{
    Failure, FailureKind,
    debug::{DebugService, Patience, Session, Viewport},
    findings::FindingService,
    knowledge::KnowledgeService,
};

use crate::registry::{Answer, Call, Declaration, Effects, Registry};

/// A parameter that says whose frames are meant.
fn view(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["auto", "native", "python"] })
}

/// How long movements wait where the caller does not say.
const USUAL_WAIT: u64 = 30_000;

pub(super) fn declare(registry: &mut Registry, debug: &Arc<DebugService>, knowledge: &Arc<KnowledgeService>) {
    let desk = || Desk(debug.clone());
    let findings = Arc::new(FindingService::new(debug.clone(), knowledge.clone()));
    registry.add_tool(session::Launch(desk()));
    registry.add_tool(session::Attach(desk()));
    registry.add_tool(session::Disconnect(desk()));
    registry.add_tool(session::Restart(desk()));
    registry.add_tool(session::Status(desk()));
    registry.add_tool(running::Continue(desk()));
    registry.add_tool(running::Pause(desk()));
    registry.add_tool(running::Wait(desk()));
    registry.add_tool(running::StepForward(desk()));
    registry.add_tool(running::RunTo(desk()));
    registry.add_tool(travel::StepBackward(desk()));
    registry.add_tool(travel::ReverseContinue(desk()));
    registry.add_tool(travel::Goto(desk()));
    registry.add_tool(travel::Record(desk()));
    registry.add_tool(history::LastWrite(desk()));
    registry.add_tool(past::WrittenHistory(desk()));
    registry.add_tool(past::When(desk()));
    registry.add_tool(past::TraceCalls(desk()));
    registry.add_tool(what_if::WhatIfTool(desk()));
    registry.add_tool(compare::Compare(desk()));
    registry.add_tool(history::Timeline(desk()));
    registry.add_tool(history::ExportTrace(desk()));
    registry.add_tool(breakpoints::SetBreakpoint(desk()));
    registry.add_tool(breakpoints::SetWatchpoint(desk()));
    registry.add_tool(breakpoints::SetExceptionBreakpoint(desk()));
    registry.add_tool(breakpoints::UpdateBreakpoint(desk()));
    registry.add_tool(breakpoints::RemoveBreakpoint(desk()));
    registry.add_tool(looking::GetStackTrace(desk()));
    registry.add_tool(looking::GetVariables(desk()));
    registry.add_tool(evaluate::Evaluate(desk()));
    registry.add_tool(find::Find(desk()));
    registry.add_tool(machine::ReadMemory(desk()));
    registry.add_tool(machine::Disassemble(desk()));
    registry.add_tool(machine::GetRegisters(desk()));
    registry.add_tool(looking::GetThreads(desk()));
    registry.add_tool(looking::GetModules(desk()));
    registry.add_tool(looking::Autopsy(desk(), findings.clone()));
    registry.add_tool(findings::FindSimilarBugs(findings.clone()));
    registry.add_tool(findings::SaveFinding(findings));
    registry.add_tool(output::ReadOutput(desk()));
    registry.add_tool(output::WriteInput(desk()));
}

/// The tool that ends a debug session, which no limit and no license may keep from anybody.
pub(crate) const DISCONNECT: &str = "debugger/disconnect";

/// Where a tool finds the sessions.
struct Desk(Arc<DebugService>);

impl Desk {
    /// The session that a call is about.
    fn session(&self, call: &Call, id: Option<&str>) -> Result<Arc<Session>, Failure> {
        let session = match id.filter(|_| call.is_glance) {
            Some(id) => self.0.seen_session(&call.caller, id)?,
            None => self.0.session(&call.caller, id)?,
        };
        noted(call, &session);
        Ok(session)
    }
}

/// Has the audit trail say which session it was.
fn noted(call: &Call, session: &Session) {
    // The first is the one it was about.
    let _ = call.session.set(session.id().clone());
}

fn patience(call: &Call, timeout_ms: u64) -> Patience {
    Patience::new(timeout_ms, call.progress.clone())
}

/// The answer of a movement.
fn moved(view: Viewport) -> Answer<Viewport> {
    Answer { text: text::viewport(&view), content: view }
}

/// The answer of a movement back in time.
fn gone_back(view: Viewport) -> Answer<Viewport> {
    Answer { text: text::gone_back(&view), content: view }
}

fn thread(id: Option<u32>) -> Option<ThreadId> {
    id.map(ThreadId)
}

fn invalid(details: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidInput, details)
}

/// A tool that only looks.
const fn looks(name: &'static str, description: &'static str) -> Declaration {
    declaration(name, description, Scope::DebugRead, Effects::ReadOnly)
}

/// A tool that moves or changes the program in a way that others go on from.
const fn moves(name: &'static str, description: &'static str) -> Declaration {
    declaration(name, description, Scope::DebugWrite, Effects::Additive { idempotent: false })
}

/// The same for a tool that is about the past.
const fn of_time_travel(declaration: Declaration) -> Declaration {
    Declaration { feature: Some(Feature::TimeTravel), ..declaration }
}

const fn declaration(
    name: &'static str,
    description: &'static str,
    scope: Scope,
    effects: Effects,
) -> Declaration {
    Declaration { name, description, scope: Some(scope), feature: Some(Feature::Debugging), effects }
}

fn usual_wait() -> u64 {
    USUAL_WAIT
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}
