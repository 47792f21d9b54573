//! Our declarations in the protocol's own types.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_services::{Failure, FailureKind, ToolNames};
use rmcp::{ErrorData, model::*};
use serde_json::{Map, Value};

use crate::{
    catalogue::{ErrorKind, WireError},
    excerpt::excerpt,
    registry::{self, Attachment, Effects, RegisteredTool, Reply, ResourceEntry, TemplateEntry, Window},
};

/// Rows of a listing that go out at once.
const PAGE: usize = 200;

/// One page of `items`, and the cursor of the next.
pub(super) fn page<T>(
    items: Vec<T>,
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<Cursor>), ErrorData> {
    let start = start(request)?;
    page_from(start, window(start).of(items))
}

/// Which entry the wanted page begins with.
pub(super) fn start(request: Option<PaginatedRequestParams>) -> Result<usize, ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(0),
        Some(cursor) => cursor.parse().ok().filter(|start| *start > 0).ok_or_else(|| not_a_cursor().into()),
    }
}

/// The entries of a page that begins there, and one more, which tells whether there is another page.
pub(super) fn window(start: usize) -> Window {
    Window::new(start, PAGE + 1)
}

/// The page of these entries, which begin at `start`, and the cursor of the next.
pub(super) fn page_from<T>(start: usize, mut entries: Vec<T>) -> Result<(Vec<T>, Option<Cursor>), ErrorData> {
    if start > 0 && entries.is_empty() {
        return Err(not_a_cursor().into());
    }
    let more = entries.len() > PAGE;
    entries.truncate(PAGE);
    Ok((entries, more.then(|| (start + PAGE).to_string())))
}

fn not_a_cursor() -> WireError {
    WireError::new(ErrorKind::InvalidParams, "`cursor` is not one that this server gave")
        .hint("pass `nextCursor` of the previous page unchanged")
}

/// Parameters that need no description beside their name; the reference has one.
const PLAIN_PARAMETERS: [&str; 31] = [
    "access",
    "base64",
    "before",
    "collection",
    "conversation_id",
    "cursor",
    "end_time",
    "env",
    "evidence",
    "exclude",
    "executable",
    "file",
    "filter",
    "hit_count_multiple",
    "ingest",
    "format",
    "limit",
    "min_relevance",
    "mode",
    "model",
    "place",
    "question",
    "scope",
    "search",
    "since",
    "size",
    "start_time",
    "stream",
    "tag",
    "tags",
    "temporary",
];

/// Parameters that a model has no reason to set; the reference has them.
const NOT_LISTED: [&str; 4] = ["collection_id", "mask_secrets", "max_notifications", "min_score"];

/// What is listed of a tool. Models read the list at the start of every conversation, so it says what they need to call the tool; the
/// reference has the rest: ranges, what answers look like, longer descriptions.
pub(super) fn tool(tool: &RegisteredTool, names: ToolNames) -> Tool {
    let declaration = tool.declaration;
    let annotations = ToolAnnotations::default();
    // What the protocol takes for granted is not said: not read-only, not idempotent.
    let annotations = match declaration.effects {
        Effects::ReadOnly => annotations.read_only(true),
        Effects::Additive { idempotent: true } => annotations.destructive(false).idempotent(true),
        Effects::Additive { idempotent: false } => annotations.destructive(false),
        Effects::Destructive { idempotent: true } => annotations.destructive(true).idempotent(true),
        Effects::Destructive { idempotent: false } => annotations.destructive(true),
    };
    Tool::new(
        names.spell(declaration.name),
        names.spell_in(declaration.description).into_owned(),
        Arc::new(listed(&tool.input_schema)),
    )
    .with_annotations(annotations)
}

fn listed(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    schema.remove("additionalProperties");
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    fields.retain(|name, _| !NOT_LISTED.contains(&name.as_str()));
    for (name, field) in fields {
        let Some(field) = field.as_object_mut() else { continue };
        if let Some(items) = field.get_mut("items").and_then(Value::as_object_mut) {
            items.remove("description");
        }
        // How many of something there are by default, and what was chosen, is seen in the answer.
        if field.get("default").is_some_and(|usual| usual.is_number() || usual == "auto") {
            field.remove("default");
        }
        for keyword in ["minimum", "maximum", "minItems", "maxItems", "format"] {
            field.remove(keyword);
        }
        let first =
            field.get("description").and_then(Value::as_str).and_then(|text| text.split("\n\n").next());
        match first.map(str::to_owned) {
            Some(first) if !PLAIN_PARAMETERS.contains(&name.as_str()) => {
                field.insert("description".into(), first.into());
            }
            _ => {
                field.remove("description");
            }
        }
    }
    schema
}

/// A tool's answer. Bytes travel as an embedded resource: the protocol has no other form for them.
pub(super) fn tool_result(reply: Reply) -> CallToolResult {
    let attached = reply.attachment.map(|attachment| match attachment {
        Attachment::Text(text) => ContentBlock::text(text),
        Attachment::Blob { uri, bytes } => {
            let blob = ResourceContents::blob(BASE64_STANDARD.encode(bytes), uri);
            ContentBlock::resource(blob.with_mime_type("application/octet-stream"))
        }
    });
    let content = std::iter::once(ContentBlock::text(reply.text)).chain(attached).collect();
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(reply.content).filter(|content| !content.is_null());
    result
}

pub(super) fn resource(entry: ResourceEntry) -> Resource {
    let resource = Resource::new(entry.uri, entry.name)
        .with_description(entry.description)
        .with_mime_type(entry.mime_type);
    let Some(priority) = entry.priority else { return resource };
    let mut annotations = Annotations::default();
    annotations.audience = Some(vec![Role::User]);
    annotations.priority = Some(priority);
    resource.with_annotations(annotations)
}

pub(super) fn template(entry: TemplateEntry) -> ResourceTemplate {
    ResourceTemplate::new(entry.uri_template, entry.name)
        .with_description(entry.description)
        .with_mime_type(entry.mime_type)
}

pub(super) fn prompt(prompt: &registry::Prompt) -> Prompt {
    let arguments = prompt.arguments.iter().map(|argument| {
        PromptArgument::new(argument.name)
            .with_description(argument.description)
            .with_required(argument.required)
    });
    let mut rendered = Prompt::new(prompt.name, Some(prompt.description), Some(arguments.collect()));
    rendered.title = Some(prompt.title.into());
    rendered
}

/// The prompt's message for these arguments.
pub(super) fn filled_prompt(
    prompt: &registry::Prompt,
    arguments: &Map<String, Value>,
    names: ToolNames,
) -> Result<GetPromptResult, Failure> {
    let invalid = |details: String| {
        Failure::new(FailureKind::InvalidInput, details)
            .hint("`prompts/list` shows the arguments of each prompt")
    };
    for argument in prompt.arguments.iter().filter(|argument| argument.required) {
        if arguments.get(argument.name).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(invalid(format!("prompt `{}` needs the argument `{}`", prompt.name, argument.name)));
        }
    }
    if let Some(unknown) =
        arguments.keys().find(|name| prompt.arguments.iter().all(|known| known.name != **name))
    {
        return Err(invalid(format!("prompt `{}` has no argument `{}`", prompt.name, excerpt(unknown, 40))));
    }
    let message = PromptMessage::new_text(Role::User, names.spell_in(&(prompt.render)(arguments)?));
    Ok(GetPromptResult::new(vec![message]).with_description(prompt.description))
}

/// The argument of a prompt; none when there is no such argument.
pub(super) fn prompt_argument<'a>(
    prompts: &'a [registry::Prompt],
    prompt: &str,
    argument: &str,
) -> Option<&'a registry::PromptArgument> {
    let prompt = prompts.iter().find(|known| known.name == prompt)?;
    prompt.arguments.iter().find(|known| known.name == argument)
}

/// At most as many values as the protocol allows, with the true total.
pub(super) fn completion(mut values: Vec<String>) -> CompletionInfo {
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let mut completion = CompletionInfo::default();
    completion.has_more = Some(total > values.len());
    completion.total = u32::try_from(total).ok();
    completion.values = values;
    completion
}
