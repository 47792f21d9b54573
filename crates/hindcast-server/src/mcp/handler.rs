//! What each protocol method does.
#![expect(deprecated, reason = "revisions before 2026-07-28 still log and subscribe by request")]

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use hindcast_core::identity::Caller;
use hindcast_services::{Failure, FailureKind};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};

use super::{
    Admitted, progress, render,
    subscriptions::{Ears, Watcher},
};
use crate::{
    app::App,
    catalogue::{ErrorKind, WireError},
    excerpt::excerpt,
    overtime::TimeLimit,
};

/// The end of the instructions, whatever the server offers.
const ABOUT_ERRORS: &str =
    "Every error carries `data.details` (what happened) and `data.hint` (what to do next): follow the hint.";

/// How long the other side's state lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Until the connection or session ends.
    Session,
    /// For one request.
    Request,
}

/// No level was set: log messages are not sent.
const SILENT: u8 = u8::MAX;

/// The protocol's view of the app, one for each session or stateless request.
pub(crate) struct Handler {
    app: Arc<App>,
    lifecycle: Lifecycle,
    /// The caller where no request brings its own.
    local: Option<Arc<Admitted>>,
    log_level: AtomicU8,
    watcher: OnceLock<Watcher>,
    /// Opened before a `subscriptions/listen` is acknowledged, so that it misses nothing; oldest first.
    ears: Mutex<VecDeque<Ears>>,
}

impl Handler {
    /// For requests that come with their own [`Admitted`].
    pub(crate) fn new(app: Arc<App>, lifecycle: Lifecycle) -> Self {
        Self {
            app,
            lifecycle,
            local: None,
            log_level: AtomicU8::new(SILENT),
            watcher: OnceLock::new(),
            ears: Mutex::default(),
        }
    }

    /// For the one user of standard input and output.
    pub(crate) fn local(app: Arc<App>) -> Self {
        let admitted = Admitted { caller: Caller::local(), plain: false, until: None };
        Self { local: Some(Arc::new(admitted)), ..Self::new(app, Lifecycle::Session) }
    }

    fn admitted(&self, extensions: &Extensions) -> Result<Arc<Admitted>, ErrorData> {
        if let Some(local) = &self.local {
            return Ok(local.clone());
        }
        let carried = extensions
            .get::<http::request::Parts>()
            .and_then(|parts| parts.extensions.get::<Arc<Admitted>>());
        carried.cloned().ok_or_else(|| {
            WireError::new(ErrorKind::InternalError, "the request lost its caller on the way").into()
        })
    }

    fn refuse(&self, failure: Failure) -> ErrorData {
        WireError::of(failure, self.app.tool_names).into()
    }

    fn watch(&self, context: &RequestContext<RoleServer>, caller: &Caller) -> Result<&Watcher, Failure> {
        if self.lifecycle == Lifecycle::Request {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                "a subscription needs a session to be told through",
            )
            .hint("send `initialize` first and keep its Mcp-Session-Id, or use `subscriptions/listen`"));
        }
        Ok(self.watcher.get_or_init(|| Watcher::start(&self.app, caller.clone(), context.peer.clone())))
    }

    async fn log_call(&self, context: &RequestContext<RoleServer>, tool: &str, error: Option<&ErrorData>) {
        let (level, outcome) = match error {
            None => (LoggingLevel::Info, json!("ok")),
            Some(error) => (LoggingLevel::Warning, json!({ "code": error.code.0, "message": error.message })),
        };
        let wanted = context
            .meta
            .log_level()
            .map_or_else(|| self.log_level.load(Ordering::Relaxed), |level| level as u8);
        if wanted == SILENT || (level as u8) < wanted {
            return;
        }
        let message =
            LoggingMessageNotificationParam::new(level, json!({ "tool": tool, "outcome": outcome }))
                .with_logger("hindcast");
        if let Err(error) = context.peer.notify_logging_message(message).await {
            tracing::debug!(%error, "a log message did not reach the client");
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("hindcast", env!("CARGO_PKG_VERSION"));
        info.server_info.title = Some("hindcast".into());
        let parts =
            self.app.toolsets.iter().filter_map(|toolset| toolset.instructions()).chain([ABOUT_ERRORS]);
        info.instructions =
            Some(self.app.tool_names.spell_in(&parts.collect::<Vec<_>>().join(" ")).into_owned());
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.lifecycle == Lifecycle::Session
            && let Ok(admitted) = self.admitted(&context.extensions)
        {
            self.watcher.get_or_init(|| Watcher::start(&self.app, admitted.caller.clone(), context.peer));
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools =
            self.app.registry.tools().iter().map(|tool| render::tool(tool, self.app.tool_names)).collect();
        let (tools, next_cursor) = render::page(tools, request)?;
        Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.app.registry.tool(name).map(|tool| render::tool(tool, self.app.tool_names))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let name = request.name.into_owned();
        let (watch, forwarder) = progress::watch(&context, admitted.plain);
        let unless_heard = !admitted.plain && context.meta.get_progress_token().is_some();
        let limit = admitted.until.map(|until| TimeLimit { until, unless_heard });
        let (caller, arguments) = (admitted.caller.clone(), request.arguments.unwrap_or_default());
        let result = self.app.call_tool(caller, name.clone(), arguments, watch, limit).await;
        // The last progress must not overtake the answer.
        forwarder.finish().await;
        let result = result.map_err(|failure| self.refuse(failure));
        if !admitted.plain {
            self.log_call(&context, &name, result.as_ref().err()).await;
        }
        Ok(render::tool_result(result?).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let start = render::start(request)?;
        let mut window = render::window(start);
        let mut entries = Vec::new();
        for room in self.app.registry.rooms() {
            let listed = room.list(&admitted.caller, &mut window).await;
            entries.extend(listed.map_err(|failure| self.refuse(failure))?);
        }
        let resources = entries.into_iter().map(render::resource).collect();
        let (resources, next_cursor) = render::page_from(start, resources)?;
        Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(resources) })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let rooms = self.app.registry.rooms().iter();
        let templates =
            rooms.flat_map(|room| room.templates(&admitted.caller)).map(render::template).collect();
        let (templates, next_cursor) = render::page(templates, request)?;
        Ok(ListResourceTemplatesResult {
            next_cursor,
            ..ListResourceTemplatesResult::with_all_items(templates)
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let limit = admitted.until.map(|until| TimeLimit { until, unless_heard: false });
        let content = self
            .app
            .read_resource(&admitted.caller, &request.uri, limit)
            .await
            .map_err(|failure| self.refuse(failure))?;
        let contents = ResourceContents::text(content.text, request.uri).with_mime_type(content.mime_type);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let source = self
            .app
            .watch_resource(&admitted.caller, &request.uri)
            .await
            .map_err(|failure| self.refuse(failure))?;
        let watcher = self.watch(&context, &admitted.caller).map_err(|failure| self.refuse(failure))?;
        watcher.add(request.uri, source);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Not being subscribed is what was asked for, so it is no error.
        if let Some(watcher) = self.watcher.get() {
            watcher.remove(&request.uri);
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.app.events.listen());
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let admitted = self.admitted(&context.request_context().extensions)?;
        let opened = self.ears.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let ears = opened.unwrap_or_else(|| self.app.events.listen());
        super::subscriptions::listen(&self.app, &admitted.caller, ears, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.app.registry.prompts().iter().map(render::prompt).collect();
        let (prompts, next_cursor) = render::page(prompts, request)?;
        Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = self.app.registry.prompts().iter().find(|prompt| prompt.name == request.name);
        let arguments = request.arguments.unwrap_or_default();
        prompt
            .ok_or_else(|| {
                Failure::new(
                    FailureKind::InvalidInput,
                    format!("there is no prompt `{}`", excerpt(&request.name, 80)),
                )
                .hint("`prompts/list` shows all prompts")
            })
            .and_then(|prompt| render::filled_prompt(prompt, &arguments, self.app.tool_names))
            .map(Into::into)
            .map_err(|failure| self.refuse(failure))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let ArgumentInfo { name, value, .. } = &request.argument;
        let found = match &request.r#ref {
            Reference::Prompt(prompt) => {
                match render::prompt_argument(self.app.registry.prompts(), &prompt.name, name) {
                    Some(argument) => Some(self.app.complete(&admitted.caller, argument, value).await),
                    None => None,
                }
            }
            Reference::Resource(resource) => {
                let mut found = None;
                for room in self.app.registry.rooms() {
                    found = room.complete(&admitted.caller, &resource.uri, name, value).await;
                    if found.is_some() {
                        break;
                    }
                }
                found
            }
            _ => None,
        };
        let values = found.ok_or_else(|| {
            let failure = Failure::new(
                FailureKind::InvalidInput,
                "there is no such prompt or resource template to complete",
            )
            .hint("`prompts/list` and `resources/templates/list` show what can be completed");
            self.refuse(failure)
        })?;
        Ok(CompleteResult::new(render::completion(values)))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_newest(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.log_level.store(request.level as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Everything the protocol library could not read comes here: methods that do not exist, and
    /// known ones with parameters of the wrong shape.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let admitted = self.admitted(&context.extensions)?;
        let removed = is_newest(&context) && REMOVED_METHODS.contains(&&*request.method);
        let known = KNOWN_METHODS.into_iter().find(|known| *known == request.method && !removed);
        let Some(method) = known else {
            let method = excerpt(&request.method, 80);
            return Err(
                WireError::new(ErrorKind::MethodNotFound, format!("there is no method `{method}`")).into()
            );
        };
        let given = request.params.map_or(Cow::Borrowed("none"), |params| Cow::Owned(shape(&params)));
        let details = format!("`{method}` does not take these parameters: {given}");
        let failure = Failure::new(FailureKind::InvalidInput, details);
        Err(self.refuse(self.app.refused_call(&admitted.caller, method, failure).await))
    }
}

/// Whether the request speaks a revision without handshake.
fn is_newest(context: &RequestContext<RoleServer>) -> bool {
    let revision = context.protocol_version();
    revision.is_some_and(|revision| revision.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// What revision 2026-07-28 took out of the protocol.
const REMOVED_METHODS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

const KNOWN_METHODS: [&str; 16] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
];

/// The names and types of parameters, without their values: they may be long or secret.
fn shape(params: &Value) -> String {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let Value::Object(fields) = params else { return kind(params).into() };
    let fields: Vec<_> = fields
        .iter()
        .take(10)
        .map(|(name, value)| format!("{}: {}", excerpt(name, 40), kind(value)))
        .collect();
    format!("{{{}}}", fields.join(", "))
}
