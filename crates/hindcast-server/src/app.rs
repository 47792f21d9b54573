//! Dispatch: find it, check the right to it, do it, write down what was done.

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use hindcast_core::{
    Timestamp,
    audit::AuditRecord,
    identity::{Caller, Scope, Tier},
    license::Feature,
    progress::{Progress, Unwatched},
    time::Clock,
};
use hindcast_services::{
    Events, Failure, FailureKind, ToolNames,
    debug::{DebugService, SourceWatch},
    documents::DocumentService,
    gateway::Gateway,
    knowledge::{KnowledgeService, ResourceName},
};
use serde_json::{Map, Value};
use tokio::time::timeout_at;

use crate::{
    catalogue::ErrorKind,
    excerpt::excerpt,
    finishing::Finishing,
    jsonrpc::{Kind, Message},
    overtime::{Keepable, Leash, Overtime, Question, TimeLimit},
    prompts,
    registry::{Call, Content, Finished, Manner, PromptArgument, Registry, Reply, ResourceRoom},
    resources, tools,
    toolset::Toolset,
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
    /// What is offered. Nothing else is listed, nor can it be called or read.
    pub toolsets: Vec<Toolset>,
}

/// The server behind its transports.
pub struct App {
    pub(crate) registry: Registry,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) events: Events,
    pub(crate) tool_names: ToolNames,
    pub(crate) toolsets: Vec<Toolset>,
    debug: Arc<DebugService>,
    clock: Arc<dyn Clock>,
    late_replies: Arc<Overtime<Reply>>,
    late_contents: Arc<Overtime<Content>>,
}

/// How long a tool's result is kept that came too late for its request.
const REPLIES_KEPT: Duration = Duration::from_secs(600);
/// How long a resource's content is: whoever reads one wants to know how it is now.
const CONTENTS_KEPT: Duration = Duration::from_secs(60);

impl App {
    /// Declares everything that the toolsets have.
    pub fn new(parts: AppParts) -> Arc<Self> {
        let mut registry = Registry::default();
        tools::declare(&mut registry, &parts);
        resources::declare(&mut registry, &parts);
        prompts::declare(&mut registry, &parts.toolsets);
        Arc::new(Self {
            registry,
            gateway: parts.gateway,
            events: parts.events,
            tool_names: parts.tool_names,
            toolsets: parts.toolsets,
            debug: parts.debug,
            late_replies: Overtime::new(parts.clock.clone(), REPLIES_KEPT),
            late_contents: Overtime::new(parts.clock.clone(), CONTENTS_KEPT),
            clock: parts.clock,
        })
    }

    /// Ends the debug sessions that nobody has asked for since `idle`.
    pub async fn end_idle_debug_sessions(&self, idle: std::time::Duration) {
        self.debug.end_idle(idle).await;
    }

    /// Ends the debug sessions whose keys are revoked or expired.
    pub async fn end_debug_sessions_of_ended_keys(&self) {
        let mut ended = HashSet::new();
        for key in self.debug.keys() {
            if self.gateway.key_has_ended(&key).await {
                ended.insert(key);
            }
        }
        if !ended.is_empty() {
            self.debug.end_sessions_of(&ended).await;
        }
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

    /// Calls a tool. Once begun it is finished and written down, whatever becomes of the caller. When it
    /// takes longer than the limit, its result is kept for the same call.
    pub(crate) async fn call_tool(
        self: &Arc<Self>,
        caller: Caller,
        name: String,
        arguments: Map<String, Value>,
        progress: Arc<dyn Progress>,
        limit: Option<TimeLimit>,
    ) -> Result<Reply, Failure> {
        self.call_in_manner(caller, (name, arguments), progress, limit, Manner::Call).await
    }

    /// The same for a page: what somebody who looks on sees, or what a button does.
    pub(crate) async fn call_for_page(
        self: &Arc<Self>,
        caller: Caller,
        named: (String, Map<String, Value>),
        manner: Manner,
        limit: TimeLimit,
    ) -> Result<Reply, Failure> {
        self.call_in_manner(caller, named, Arc::new(Unwatched), Some(limit), manner).await
    }

    async fn call_in_manner(
        self: &Arc<Self>,
        caller: Caller,
        (name, arguments): (String, Map<String, Value>),
        progress: Arc<dyn Progress>,
        limit: Option<TimeLimit>,
        manner: Manner,
    ) -> Result<Reply, Failure> {
        let started = Instant::now();
        let record = self.record(&caller, manner.method());
        let Some(tool) = self.registry.tool(&name) else {
            // An unknown name is the caller's own text: it may be long, or be anything.
            let record = AuditRecord { tool: Some(excerpt(&name, 80)), ..record };
            return self.write_down(record, started, Err(self.unknown_tool(&name))).await;
        };
        let declaration = tool.declaration;
        let record = AuditRecord { tool: Some(declaration.name.to_owned()), ..record };
        if let Err(failure) = self.allow(&caller, declaration.scope, declaration.feature, declaration.name) {
            return self.write_down(record, started, Err(failure)).await;
        }
        // What somebody who looks on is shown is not what a client is answered.
        let subject = if manner == Manner::Glance { Manner::GLANCE } else { "" };
        let question = Question::new(&caller, &format!("{subject}{}", declaration.name), &arguments);
        if let Some(result) = self.late_replies.resume(&question, limit).await {
            return self.write_down(record, started, result).await;
        }
        let Some(limit) = limit else {
            let call = Call::new(caller, progress, manner);
            let work = self.clone().run_tool(declaration.name, call, arguments, record, started);
            return finishing(work).await;
        };
        let leash = Leash::new(progress);
        let call = Call::new(caller, leash.clone(), manner);
        let work = self.clone().run_tool(declaration.name, call, arguments, record.clone(), started);
        let asked = Asked { question, limit, leash, record, started };
        self.in_time(&self.late_replies, asked, work).await
    }

    async fn run_tool(
        self: Arc<Self>,
        name: &'static str,
        call: Call,
        arguments: Map<String, Value>,
        record: AuditRecord,
        started: Instant,
    ) -> Result<Reply, Failure> {
        let finished = match self.registry.tool(name) {
            // A panic in a tool is written down like any failure.
            Some(tool) => AssertUnwindSafe(tool.run(call, arguments))
                .catch_unwind()
                .await
                .unwrap_or_else(|_| Finished::refused(panicked())),
            None => Finished::refused(self.unknown_tool(name)),
        };
        let record = AuditRecord { target: finished.target, session_id: finished.session, ..record };
        self.write_down(record, started, finished.result).await
    }

    /// A source file of a debug session, for a page.
    pub(crate) async fn read_source(
        &self,
        caller: &Caller,
        session: &str,
        file: &str,
    ) -> Result<String, Failure> {
        let started = Instant::now();
        let target = Some(excerpt(file, 200));
        let record = AuditRecord { target, ..self.record(caller, Manner::GLANCE) };
        let record = AuditRecord { session_id: Some(excerpt(session, 80)), ..record };
        let read = async {
            self.allow(caller, Some(Scope::DebugRead), Some(Feature::Debugging), "debugger://source")?;
            self.debug.seen_session(caller, session)?.source(file).await
        };
        let read = read.await;
        self.write_down(record, started, read).await
    }

    /// Does what only operators may, and writes it down.
    pub(crate) async fn administer<T>(
        &self,
        caller: &Caller,
        method: &'static str,
        work: impl Future<Output = Result<(T, Option<String>), Failure>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let record = self.record(caller, method);
        let done = match require(caller, Some(Scope::Admin), method) {
            Ok(()) => work.await,
            Err(failure) => Err(failure),
        };
        let target = done.as_ref().ok().and_then(|(_, target)| target.clone());
        let record = AuditRecord { target, ..record };
        self.write_down(record, started, done.map(|(result, _)| result)).await
    }

    /// Answers with the work's result, or at the limit with how to get it later: the work goes on.
    async fn in_time<T: Keepable>(
        &self,
        late: &Arc<Overtime<T>>,
        asked: Asked,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let Asked { question, limit, leash, record, started } = asked;
        let mut work = finishing(work);
        if let Ok(result) = timeout_at(limit.until, &mut work).await {
            return result;
        }
        if limit.unless_heard && leash.was_heard() {
            return work.await;
        }
        leash.let_go();
        let failure = late.let_go_on(question, record.time, work);
        self.write_down(record, started, Err(failure)).await
    }

    /// What a request counts against the limits of the caller's key.
    pub(crate) fn price(&self, caller: &Caller, message: &Message) -> Price {
        let subject = message.subject().unwrap_or_default();
        match message.method() {
            _ if message.kind() != Kind::Request => Price::Free,
            "tools/call" => match self.registry.tool(subject).map(|tool| tool.declaration.name) {
                Some(tools::DISCONNECT) if self.ends_a_session(caller, message) => Price::Free,
                Some(tools::DISCONNECT | tools::QUOTA_STATUS) => Price::FreeAtARate,
                _ => Price::One,
            },
            "resources/read" if subject == Gateway::USAGE_URI => Price::FreeAtARate,
            "resources/read" => Price::One,
            // They are long, and a key that costs nothing could ask for nothing else.
            method if method.ends_with("/list") && is_free_tier(caller) => Price::FreeAtARate,
            _ => Price::Free,
        }
    }

    /// Whether the debug session is there that a `debugger/disconnect` is to end.
    fn ends_a_session(&self, caller: &Caller, message: &Message) -> bool {
        let arguments = message.params().and_then(|params| params.get("arguments"));
        let named = arguments.and_then(|arguments| arguments.get("session_id")).and_then(Value::as_str);
        self.has_session(caller, named)
    }

    /// Whether the caller has the debug session, or any where none is named.
    pub(crate) fn has_session(&self, caller: &Caller, named: Option<&str>) -> bool {
        self.debug.sessions(caller).iter().any(|session| named.is_none_or(|named| **session.id() == *named))
    }

    fn unknown_tool(&self, name: &str) -> Failure {
        let failure =
            Failure::new(FailureKind::InvalidInput, format!("there is no tool `{}`", excerpt(name, 80)));
        match self.registry.nearest_tool(name) {
            Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
            None if self.toolsets.len() < Toolset::ALL.len() => {
                let offered: Vec<_> = self.toolsets.iter().map(|toolset| toolset.name()).collect();
                failure.hint(format!(
                    "this server offers only `{}`; start it with more `--toolsets`, or see `tools/list`",
                    offered.join(",")
                ))
            }
            None => failure.hint("`tools/list` shows all tools"),
        }
    }

    /// Reads a resource. When that takes longer than the limit, what was read is kept for the same read.
    pub(crate) async fn read_resource(
        self: &Arc<Self>,
        caller: &Caller,
        uri: &str,
        limit: Option<TimeLimit>,
    ) -> Result<Content, Failure> {
        let started = Instant::now();
        let target = Some(excerpt(uri, 200));
        let record = AuditRecord { target, ..self.record(caller, "resources/read") };
        if let Err(failure) = self.room(caller, uri) {
            return self.write_down(record, started, Err(failure)).await;
        }
        let question = Question::new(caller, uri, &Map::new());
        if let Some(result) = self.late_contents.resume(&question, limit).await {
            return self.write_down(record, started, result).await;
        }
        let work = self.clone().read(caller.clone(), uri.to_owned(), record.clone(), started);
        let Some(limit) = limit else { return finishing(work).await };
        let leash = Leash::new(Arc::new(Unwatched));
        let asked = Asked { question, limit, leash, record, started };
        self.in_time(&self.late_contents, asked, work).await
    }

    async fn read(
        self: Arc<Self>,
        caller: Caller,
        uri: String,
        record: AuditRecord,
        started: Instant,
    ) -> Result<Content, Failure> {
        let result = match self.room(&caller, &uri) {
            Ok(room) => room.read(&caller, &uri).await,
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
                self.allow(caller, scope, room.feature(uri), uri)?;
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

    /// Watches what is at `uri` for the caller, if there is something that it may watch.
    pub(crate) async fn watch_resource(
        &self,
        caller: &Caller,
        uri: &str,
    ) -> Result<Option<SourceWatch>, Failure> {
        self.room(caller, uri)?.watch(caller, uri).await
    }

    /// Whether the caller has the right, and the server the license.
    fn allow(
        &self,
        caller: &Caller,
        scope: Option<Scope>,
        feature: Option<Feature>,
        what: &str,
    ) -> Result<(), Failure> {
        require(caller, scope, what)?;
        feature.map_or(Ok(()), |feature| self.gateway.check_license(feature))
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

/// What a request counts against the limits of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Price {
    /// One of the requests that the key may make.
    One,
    /// Nothing, unless it comes too often: then it counts like any other.
    FreeAtARate,
    /// Nothing.
    Free,
}

fn is_free_tier(caller: &Caller) -> bool {
    caller.key.as_ref().is_some_and(|key| key.tier == Tier::Free)
}

/// A request with a time limit.
struct Asked {
    question: Question,
    limit: TimeLimit,
    leash: Arc<Leash>,
    record: AuditRecord,
    started: Instant,
}

/// The work, which is finished also when nobody waits for it. A panic ends it, not the server.
fn finishing<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> impl Future<Output = Result<T, Failure>> + Send + Unpin + 'static {
    let work = AssertUnwindSafe(work).catch_unwind();
    Finishing::new(work.map(|ended| ended.unwrap_or_else(|_| Err(panicked()))))
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
