//! Dispatch: find it, check the right to it, do it, write down what was done.

use std::{sync::Arc, time::Instant};

use futures::FutureExt as _;
use hindcast_core::{
    Timestamp,
    audit::AuditRecord,
    identity::{Caller, Scope},
    progress::Progress,
    time::Clock,
};
use hindcast_services::{
    Events, Failure, FailureKind,
    debug::DebugService,
    documents::DocumentService,
    gateway::Gateway,
    knowledge::{KnowledgeService, ResourceName},
};
use serde_json::{Map, Value};

use crate::{
    catalogue::ErrorKind,
    excerpt::excerpt,
    finishing::Finishing,
    prompts,
    registry::{
        Call, Content, Finished, PromptArgument, RegisteredTool, Registry, Reply, ResourceRoom, ToolNames,
    },
    resources, tools,
};

/// What the server is put together from.
pub struct AppParts {
    /// Keys, limits, license, audit trail.
    pub gateway: Arc<Gateway>,
    /// Debug sessions.
    pub debug: Arc<DebugService>,
    /// XML documents.
    pub documents: Arc<DocumentService>,
    /// Collections, documents, search.
    pub knowledge: Arc<KnowledgeService>,
    /// Where services announce changes.
    pub events: Events,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How tool names are listed.
    pub tool_names: ToolNames,
}

/// The server behind its transports.
pub struct App {
    pub(crate) registry: Registry,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) events: Events,
    pub(crate) tool_names: ToolNames,
    debug: Arc<DebugService>,
    clock: Arc<dyn Clock>,
}

impl App {
    /// Declares everything there is.
    pub fn new(parts: AppParts) -> Arc<Self> {
        let mut registry = Registry::default();
        tools::declare(&mut registry, &parts);
        resources::declare(&mut registry, &parts);
        prompts::declare(&mut registry);
        Arc::new(Self {
            registry,
            gateway: parts.gateway,
            events: parts.events,
            tool_names: parts.tool_names,
            debug: parts.debug,
            clock: parts.clock,
        })
    }

    /// Ends the debug sessions that nobody has asked for since `idle`.
    pub async fn end_idle_debug_sessions(&self, idle: std::time::Duration) {
        self.debug.end_idle(idle).await;
    }

    /// Ends every debug session, and what was launched in them; for when the server ends.
    pub async fn end_debug_sessions(&self) {
        self.debug.end_all().await;
    }

    /// What an argument of a prompt may be that begins with what was typed.
    pub(crate) async fn complete(
        &self,
        caller: &Caller,
        argument: &PromptArgument,
        typed: &str,
    ) -> Vec<String> {
        let fitting = argument.suggestions.iter().filter(|suggestion| suggestion.starts_with(typed));
        let mut values: Vec<_> = fitting.map(ToString::to_string).collect();
        if let Some(kind) = argument.completes
            && caller.may(Some(Scope::DebugRead))
            && let Some(session) = self.debug.current(caller)
        {
            values.extend(session.complete(kind, typed).await);
        }
        values
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Calls a tool. Once begun it is finished and written down, whatever becomes of the caller.
    pub(crate) async fn call_tool(
        self: &Arc<Self>,
        caller: Caller,
        name: String,
        arguments: Map<String, Value>,
        progress: Arc<dyn Progress>,
    ) -> Result<Reply, Failure> {
        let app = self.clone();
        let work = async move {
            let started = Instant::now();
            let record = app.record(&caller, "tools/call");
            let (name, finished) = match app.registry.tool(&name) {
                Some(tool) => {
                    let call = Call::new(caller.clone(), progress);
                    (tool.declaration.name.to_owned(), app.run_tool(tool, call, arguments).await)
                }
                None => {
                    let failure = app.unknown_tool(&name);
                    // An unknown name is the caller's own text: it may be long, or be anything.
                    (excerpt(&name, 80), Finished::refused(failure))
                }
            };
            let record = AuditRecord {
                tool: Some(name),
                target: finished.target,
                session_id: finished.session,
                ..record
            };
            app.write_down(record, started, finished.result).await
        };
        let work = std::panic::AssertUnwindSafe(work).catch_unwind();
        Finishing::new(work).await.unwrap_or_else(|_| Err(panicked()))
    }

    async fn run_tool(&self, tool: &RegisteredTool, call: Call, arguments: Map<String, Value>) -> Finished {
        let declaration = tool.declaration;
        let allowed = require(&call.caller, declaration.scope, declaration.name)
            .and_then(|()| declaration.feature.map_or(Ok(()), |feature| self.gateway.check_license(feature)));
        if let Err(failure) = allowed {
            return Finished::refused(failure);
        }
        // A panic in a tool ends the call, not the server, and is written down like any failure.
        let run = std::panic::AssertUnwindSafe(tool.run(call, arguments));
        run.catch_unwind().await.unwrap_or_else(|_| Finished::refused(panicked()))
    }

    fn unknown_tool(&self, name: &str) -> Failure {
        let failure =
            Failure::new(FailureKind::InvalidInput, format!("there is no tool `{}`", excerpt(name, 80)));
        match self.registry.nearest_tool(name) {
            Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
            None => failure.hint("`tools/list` shows all tools"),
        }
    }

    /// Reads a resource.
    pub(crate) async fn read_resource(&self, caller: &Caller, uri: &str) -> Result<Content, Failure> {
        let started = Instant::now();
        let target = Some(excerpt(uri, 200));
        let record = AuditRecord { target, ..self.record(caller, "resources/read") };
        let result = match self.room(caller, uri) {
            Ok(room) => room.read(caller, uri).await,
            Err(failure) => Err(failure),
        };
        self.write_down(record, started, result).await
    }

    /// Writes down a request that failed before it could be told what it was aimed at.
    pub(crate) async fn refused_call(
        &self,
        caller: &Caller,
        method: &'static str,
        failure: Failure,
    ) -> Failure {
        let result: Result<std::convert::Infallible, _> = Err(failure);
        match self.write_down(self.record(caller, method), Instant::now(), result).await {
            Err(failure) => failure,
        }
    }

    /// The room that `uri` belongs to, if the caller may read there.
    pub(crate) fn room(&self, caller: &Caller, uri: &str) -> Result<&dyn ResourceRoom, Failure> {
        for room in self.registry.rooms() {
            if let Some(scope) = room.scope(uri) {
                require(caller, scope, uri)?;
                return Ok(&**room);
            }
        }
        if !uri.starts_with("hindcast://") && !uri.starts_with("debugger://") {
            ResourceName::parse(uri)?;
        }
        let uri = excerpt(uri, 200);
        Err(Failure::new(FailureKind::ResourceNotFound, format!("there is no resource `{uri}`"))
            .fact("uri", uri))
    }

    /// Whether there is something at `uri` that the caller may watch.
    pub(crate) async fn check_resource(&self, caller: &Caller, uri: &str) -> Result<(), Failure> {
        self.room(caller, uri)?.check(caller, uri).await
    }

    fn record(&self, caller: &Caller, method: &'static str) -> AuditRecord {
        AuditRecord {
            time: self.now(),
            principal: Some(caller.principal.clone()),
            key_id: caller.key.as_ref().map(|key| key.id.clone()),
            ip: caller.address.map(|address| address.to_canonical().to_string()),
            method: method.into(),
            tool: None,
            target: None,
            session_id: None,
            outcome: "ok".into(),
            duration_us: 0,
        }
    }

    /// Appends to the audit trail before the answer goes out: what cannot be written down is not
    /// answered.
    async fn write_down<T>(
        &self,
        record: AuditRecord,
        started: Instant,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let outcome =
            result.as_ref().err().map_or("ok", |failure| ErrorKind::from(failure.kind).entry().outcome);
        let record = AuditRecord {
            time: self.now(),
            outcome: outcome.into(),
            duration_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            ..record
        };
        self.gateway.audit().append(record).await?;
        result
    }
}

fn require(caller: &Caller, scope: Option<Scope>, what: &str) -> Result<(), Failure> {
    match scope {
        Some(scope) if !caller.may(Some(scope)) => {
            Err(Failure::new(FailureKind::PermissionDenied, format!("`{what}` needs the scope `{scope}`"))
                .hint(format!("use a key that has `{scope}`: `hindcast keys create --scope {scope} …`"))
                .fact("required_scope", scope.name()))
        }
        _ => Ok(()),
    }
}

fn panicked() -> Failure {
    Failure::new(FailureKind::Internal, "the call ended in a fault of the server; the server goes on")
        .hint("report it with the server's log, which has the place")
}
