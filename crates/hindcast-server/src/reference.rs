//! The reference pages, generated from the declarations.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{app::App, catalogue::TABLE, registry::Effects};

/// The generated pages: file name and Markdown.
pub fn reference_pages(app: &App) -> Vec<(&'static str, String)> {
    vec![("errors.md", errors()), ("tools.md", tools(app)), ("prompts.md", prompts(app))]
}

const NOTE: &str = "<!-- Generated from the code by `cargo xtask docs`; do not edit. -->\n\n";

fn errors() -> String {
    let mut page = format!(
        "# Errors\n\n{NOTE}Every error carries `data.details` (what happened) and `data.hint` (what to do next).\n\n\
         | Code | Message | HTTP status | Description | What to do |\n|---|---|---|---|---|\n"
    );
    for entry in &TABLE {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            entry.code, entry.message, entry.status, entry.description, entry.remedy
        );
    }
    page
}

fn tools(app: &App) -> String {
    let mut page = format!(
        "# Tools\n\n{NOTE}Each tool answers to its name with `/`, to the same name with `_`, and to what stands behind the `/`.\n"
    );
    for tool in app.registry.tools() {
        let declaration = tool.declaration;
        let scope = declaration.scope.map_or("none: any key".into(), |scope| format!("`{scope}`"));
        let effects = match declaration.effects {
            Effects::ReadOnly => "reads only",
            Effects::Additive { .. } => "changes something",
            Effects::Destructive { .. } => "changes something that cannot be undone",
        };
        let _ = write!(
            page,
            "\n## `{}`\n\n{}. Scope: {scope}. Effect: {effects}.\n",
            declaration.name, declaration.description
        );
        fields(&mut page, "Parameters", &tool.input_schema);
        fields(&mut page, "Result", &tool.output_schema);
    }
    page
}

fn fields(page: &mut String, heading: &str, schema: &serde_json::Map<String, Value>) {
    let Some(Value::Object(properties)) =
        schema.get("properties").filter(|fields| fields.as_object().is_some_and(|fields| !fields.is_empty()))
    else {
        return;
    };
    let required: Vec<_> = schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let _ = write!(page, "\n| {heading} | Type | Required | Description |\n|---|---|---|---|\n");
    for (name, field) in properties {
        let kind = match field.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
            }
            _ => "value".into(),
        };
        let default = field.get("default").filter(|default| !default.is_null());
        let needed = if required.iter().any(|required| *required == name) { "yes" } else { "no" };
        // Said once here rather than in every schema.
        let usual = if name == "session_id" { "The debug session; the current one where absent" } else { "" };
        let description = field.get("description").and_then(Value::as_str).unwrap_or(usual);
        // The first paragraph is for `tools/list`.
        let description = description.rsplit("\n\n").next().unwrap_or_default().replace('\n', " ");
        let default = default.map(|default| format!(" (default `{default}`)")).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {kind} | {needed} | {description}{default} |");
    }
}

fn prompts(app: &App) -> String {
    let mut page = format!("# Prompts\n\n{NOTE}");
    for prompt in app.registry.prompts() {
        let _ = write!(
            page,
            "## `{}`\n\n{}.\n\n| Argument | Required | Description |\n|---|---|---|\n",
            prompt.name, prompt.description
        );
        for argument in prompt.arguments {
            let needed = if argument.required { "yes" } else { "no" };
            let _ = writeln!(page, "| `{}` | {needed} | {} |", argument.name, argument.description);
        }
    }
    page
}
