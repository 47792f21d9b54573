//! Schemas as clients and models like them, and arguments as models write them.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Map, Value, json};

/// The schema of what is answered.
pub(super) fn of_output<T: JsonSchema>() -> Map<String, Value> {
    of::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// A schema that stands on its own: no `$schema`, no `$ref`.
fn of<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(|schema: &mut Schema| {
            // `uint32` and its like are formats that validators outside Rust do not know.
            if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                schema.remove("format");
            }
            as_enumeration(schema);
        })));
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let Value::Object(mut schema) = schema.to_value() else { return Map::new() };
    // The type's own name and comment say nothing to a caller.
    schema.remove("title");
    schema.remove("description");
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| Map::new().into());
    schema
}

/// Turns a choice between constants, each with its own description, into a plain enumeration.
fn as_enumeration(schema: &mut Schema) {
    for key in ["oneOf", "anyOf"] {
        let Some(Value::Array(choices)) = schema.get(key) else { continue };
        let choices = choices.iter().filter(|choice| choice["type"] != "null");
        let constants: Option<Vec<_>> = choices.map(|choice| choice.get("const").cloned()).collect();
        if let Some(constants) = constants.filter(|constants| !constants.is_empty()) {
            schema.remove(key);
            schema.insert("type".into(), "string".into());
            schema.insert("enum".into(), constants.into());
        }
    }
}

/// The schema of what callers write: a field that may be left out need not also be nullable, which
/// several clients cannot read.
pub(super) fn of_input<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = of::<T>(SchemaSettings::draft2020_12());
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, field) in fields {
        let Some(field) = field.as_object_mut() else { continue };
        if let Some(Value::Array(kinds)) = field.get("type") {
            let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").collect();
            if let [only] = kinds[..] {
                let only = only.clone();
                field.insert("type".into(), only);
            }
        }
        if let Some(Value::Array(choices)) = field.get("anyOf") {
            let choices: Vec<_> = choices.iter().filter(|choice| choice["type"] != "null").cloned().collect();
            if let [Value::Object(only)] = &choices[..] {
                let only = only.clone();
                field.remove("anyOf");
                for (name, value) in only {
                    field.entry(name).or_insert(value);
                }
            }
        }
        if let Some(Value::Array(values)) = field.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        let says_nothing = |default: &Value| match default {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(yes) => !yes,
            Value::Number(number) => number.as_u64() == Some(0),
        };
        if field.get("default").is_some_and(says_nothing) {
            field.remove("default");
        }
        // Sizes of Rust's own numbers; our limits are written down where they are meant.
        if field.get("minimum") == Some(&json!(0)) {
            field.remove("minimum");
        }
        if field.get("maximum").and_then(Value::as_u64).is_some_and(|most| most >= u64::from(u32::MAX)) {
            field.remove("maximum");
        }
    }
    schema
}

/// What resources and answers call a thing that is an argument of another name.
const OTHER_NAMES: [(&str, &str); 5] = [
    ("breakpoint_id", "id"),
    ("process_id", "pid"),
    ("collection_id", "collection"),
    ("document_id", "document"),
    ("doc_id", "document"),
];

/// Arguments brought to the name and type that the schema asks for, where models often write another: the
/// names that resources print, numbers and truth values as text, numbers for names, null for what is not
/// there.
pub(super) fn lenient(schema: &Map<String, Value>, arguments: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(fields)) = schema.get("properties") else { return arguments };
    let mut arguments = with_declared_names(fields, arguments);
    arguments.retain(|name, value| !value.is_null() || !fields.contains_key(name));
    for (name, value) in &mut arguments {
        let wanted = fields.get(name).and_then(|field| field.get("type")).and_then(Value::as_str);
        let better = match (wanted, &*value) {
            (Some("integer"), Value::String(text)) => text.trim().parse::<u64>().ok().map(Value::from),
            (Some("integer"), Value::Number(number)) => number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && *number >= 0.0 && *number < 1e15)
                .and_then(|number| format!("{number:.0}").parse::<u64>().ok().map(Value::from)),
            (Some("boolean"), Value::String(text)) => text.trim().parse::<bool>().ok().map(Value::from),
            (Some("string"), Value::Number(number)) => Some(number.to_string().into()),
            _ => None,
        };
        if let Some(better) = better {
            *value = better;
        }
    }
    arguments
}

fn with_declared_names(fields: &Map<String, Value>, arguments: Map<String, Value>) -> Map<String, Value> {
    if arguments.keys().all(|name| fields.contains_key(name)) {
        return arguments;
    }
    let (mut named, others): (Map<_, _>, Map<_, _>) =
        arguments.into_iter().partition(|(name, _)| fields.contains_key(name));
    for (name, value) in others {
        match declared_name(fields, &name) {
            // The same thing said twice; where it is not the same, the other is refused as unknown.
            Some(meant) if named.get(&meant) == Some(&value) => {}
            Some(meant) if !named.contains_key(&meant) => drop(named.insert(meant, value)),
            _ => drop(named.insert(name, value)),
        }
    }
    named
}

/// The field that is meant by `threadId`, `thread-id` or one of the other names.
fn declared_name(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(if letter == '-' { '_' } else { letter.to_ascii_lowercase() });
    }
    if fields.contains_key(&snake) {
        return Some(snake);
    }
    let (_, meant) =
        OTHER_NAMES.iter().find(|(other, meant)| *other == snake && fields.contains_key(*meant))?;
    Some((*meant).to_owned())
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Size {
        /// Not large
        Small,
        /// Not small
        Large,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Input {
        /// How many
        count: u32,
        /// Whether
        #[serde(default)]
        really: Option<bool>,
        #[serde(default)]
        size: Option<Size>,
        #[serde(default)]
        name: Option<String>,
    }

    #[test]
    fn input_schemas_are_flat_and_short() {
        let schema = Value::Object(of_input::<Input>());
        assert_eq!(
            schema["properties"],
            json!({
                "count": { "type": "integer", "description": "How many" },
                "really": { "type": "boolean", "description": "Whether" },
                "size": { "type": "string", "enum": ["small", "large"] },
                "name": { "type": "string" },
            })
        );
        assert_eq!(schema["required"], json!(["count"]));
    }

    #[test]
    fn arguments_are_brought_to_the_type_that_was_meant() {
        let schema = of_input::<Input>();
        let Value::Object(given) =
            json!({ "count": "5", "really": "true", "size": null, "name": 7, "other": null })
        else {
            unreachable!()
        };
        let meant = json!({ "count": 5, "really": true, "name": "7", "other": null });
        assert_eq!(Value::Object(lenient(&schema, given)), meant);
        let Value::Object(given) = json!({ "count": "five", "really": 1 }) else { unreachable!() };
        assert_eq!(lenient(&schema, given.clone()), given, "what is not clear is left to be refused");
    }

    #[test]
    fn the_names_that_resources_print_are_understood() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code, reason = "only its schema is looked at")]
        struct Input {
            id: String,
            thread_id: Option<u32>,
        }
        let schema = of_input::<Input>();
        let check = |given: Value, meant: Value| {
            let Value::Object(given) = given else { unreachable!() };
            assert_eq!(Value::Object(lenient(&schema, given)), meant);
        };
        check(json!({ "breakpoint_id": 1, "threadId": "4" }), json!({ "id": "1", "thread_id": 4 }));
        check(json!({ "breakpointId": "bp-1" }), json!({ "id": "bp-1" }));
        check(json!({ "id": "1", "breakpoint_id": "1" }), json!({ "id": "1" }));
        check(json!({ "id": "1", "breakpoint_id": "2" }), json!({ "id": "1", "breakpoint_id": "2" }));
        check(json!({ "id": "1", "pid": 5 }), json!({ "id": "1", "pid": 5 }));
    }
}
