//! Tools: the declaration, and what dispatch needs of it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use hindcast_core::{
    identity::{Caller, Scope},
    license::Feature,
    progress::Progress,
};
use hindcast_services::{Failure, FailureKind};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::excerpt::excerpt;

/// All that is said about a tool.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// With a slash; the underscore spelling follows.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What an agent needs to know to use it well.
    pub(crate) description: &'static str,
    /// What the caller must be allowed to do; none for tools that tell the caller about itself.
    pub(crate) scope: Option<Scope>,
    /// The part of the product it belongs to; none for tools that no license can take away.
    pub(crate) feature: Option<Feature>,
    pub(crate) effects: Effects,
}

/// What a call may do to the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effects {
    /// Nothing.
    ReadOnly,
    /// Something that can be undone or only adds.
    #[allow(dead_code, reason = "the debugger's running tools are the first")]
    Additive { idempotent: bool },
    /// Something that cannot be undone.
    Destructive { idempotent: bool },
}

/// One call of a tool, as the tool sees it.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) progress: Arc<dyn Progress>,
}

/// What a tool answers: text for a model to read, and the same as data.
pub(crate) struct Answer<T> {
    pub(crate) text: String,
    pub(crate) content: T,
}

/// A tool.
#[async_trait]
pub(crate) trait Tool: Send + Sync + 'static {
    type Input: DeserializeOwned + JsonSchema + Send + 'static;
    type Output: Serialize + JsonSchema + Send + 'static;

    const DECLARATION: Declaration;

    /// What the call is aimed at, for the audit trail. Never a secret.
    fn target(_input: &Self::Input) -> Option<String> {
        None
    }

    async fn call(&self, call: &Call, input: Self::Input) -> Result<Answer<Self::Output>, Failure>;
}

/// A call that came to an end, well or not.
pub(crate) struct Finished {
    pub(crate) target: Option<String>,
    pub(crate) result: Result<Answer<Value>, Failure>,
}

type Run = dyn Fn(Call, Map<String, Value>) -> BoxFuture<'static, Finished> + Send + Sync;

/// A tool with its types erased.
pub(crate) struct RegisteredTool {
    pub(crate) declaration: &'static Declaration,
    pub(crate) input_schema: Arc<Map<String, Value>>,
    pub(crate) output_schema: Arc<Map<String, Value>>,
    run: Box<Run>,
}

impl RegisteredTool {
    pub(crate) fn new<T: Tool>(tool: T) -> Self {
        let tool = Arc::new(tool);
        Self {
            declaration: &T::DECLARATION,
            input_schema: Arc::new(input_schema_of::<T::Input>()),
            output_schema: Arc::new(schema_of::<T::Output>()),
            run: Box::new(move |call, arguments| {
                let tool = tool.clone();
                Box::pin(async move { run(&*tool, &call, arguments).await })
            }),
        }
    }

    pub(crate) fn run(&self, call: Call, arguments: Map<String, Value>) -> BoxFuture<'static, Finished> {
        (self.run)(call, arguments)
    }
}

async fn run<T: Tool>(tool: &T, call: &Call, arguments: Map<String, Value>) -> Finished {
    let input: T::Input = match serde_json::from_value(Value::Object(arguments)) {
        Ok(input) => input,
        Err(error) => {
            let failure = Failure::new(FailureKind::InvalidInput, excerpt(&error.to_string(), 300))
                .hint(format!("`tools/list` shows the input schema of `{}`", T::DECLARATION.name));
            return Finished { target: None, result: Err(failure) };
        }
    };
    let target = T::target(&input);
    let result = tool.call(call, input).await.and_then(|answer| {
        let content = serde_json::to_value(answer.content).map_err(|error| {
            Failure::new(FailureKind::Internal, format!("the answer cannot be written: {error}"))
        })?;
        Ok(Answer { text: answer.text, content })
    });
    Finished { target, result }
}

/// A schema that stands on its own: no `$schema`, no `$ref`, as clients and models like it.
fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        // `uint32` and its like are formats that validators outside Rust do not know.
        settings.transforms.push(Box::new(schemars::transform::RecursiveTransform(
            |schema: &mut schemars::Schema| {
                if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                    schema.remove("format");
                }
            },
        )));
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

/// As `schema_of`, for what callers write: a field that may be left out need not also be nullable,
/// which several clients cannot read.
fn input_schema_of<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = schema_of::<T>();
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
        if field.get("default") == Some(&Value::Null) {
            field.remove("default");
        }
    }
    schema
}
