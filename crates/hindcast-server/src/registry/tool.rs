//! Tools: the declaration, and what dispatch needs of it.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::future::BoxFuture;
use hindcast_core::{
    Timestamp,
    identity::{Caller, Scope},
    license::Feature,
    progress::Progress,
};
use hindcast_services::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::schema;
use crate::{
    excerpt::excerpt,
    overtime::{Keepable, weight},
};

/// All that is said about a tool.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// With a slash; the underscore spelling follows.
    pub(crate) name: &'static str,
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
    Additive { idempotent: bool },
    /// Something that cannot be undone.
    Destructive { idempotent: bool },
}

/// One call of a tool, as the tool sees it.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) progress: Arc<dyn Progress>,
    /// The debug session it turned out to be about, for the audit trail.
    pub(crate) session: OnceLock<Arc<str>>,
    /// Whether somebody only looks on, and whoever debugs must not notice.
    pub(crate) is_glance: bool,
}

impl Call {
    pub(crate) fn new(caller: Caller, progress: Arc<dyn Progress>, manner: Manner) -> Self {
        Self { caller, progress, session: OnceLock::new(), is_glance: manner == Manner::Glance }
    }
}

/// How a tool came to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By a client of the protocol.
    Call,
    /// By somebody who pressed a button of a page.
    Press,
    /// To fill a page that somebody looks at.
    Glance,
}

impl Manner {
    /// How the audit trail names it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Call => "tools/call",
            Self::Press => "page/press",
            Self::Glance => Self::GLANCE,
        }
    }

    /// What the audit trail says of looks.
    pub(crate) const GLANCE: &str = "page/look";
}

/// What a tool answers: text for a model to read, and the same as data.
pub(crate) struct Answer<T> {
    pub(crate) text: String,
    pub(crate) content: T,
}

/// What goes out beside an answer's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// As it is.
    Text(String),
    /// In base64.
    Blob { uri: String, bytes: Vec<u8> },
}

/// An answer as it goes out, whatever the tool.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) content: Value,
    pub(crate) attachment: Option<Attachment>,
}

impl Keepable for Reply {
    fn bytes(&self) -> usize {
        let attached = match &self.attachment {
            None => 0,
            Some(Attachment::Text(text)) => text.len(),
            Some(Attachment::Blob { uri, bytes }) => uri.len() + bytes.len(),
        };
        self.text.len() + weight(&self.content) + attached
    }

    fn marked(mut self, began: Timestamp) -> Self {
        self.text += &format!(
            "\nnote: this is the result of the same call, begun at {began}, which took longer than a request may; \
             call again for a new one"
        );
        self
    }
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

    /// Takes out of the output what is too large to be data, to go beside the text.
    fn attachment(_output: &mut Self::Output) -> Option<Attachment> {
        None
    }

    async fn call(&self, call: &Call, input: Self::Input) -> Result<Answer<Self::Output>, Failure>;
}

/// A call that came to an end, well or not.
pub(crate) struct Finished {
    pub(crate) target: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) result: Result<Reply, Failure>,
}

impl Finished {
    /// A call that was refused before it was known what it was aimed at.
    pub(crate) fn refused(failure: Failure) -> Self {
        Self { target: None, session: None, result: Err(failure) }
    }
}

type Run = dyn Fn(Call, Map<String, Value>) -> BoxFuture<'static, Finished> + Send + Sync;

/// A tool with its types erased.
pub(crate) struct RegisteredTool {
    pub(crate) declaration: &'static Declaration,
    pub(crate) input_schema: Arc<Map<String, Value>>,
    /// With everything that is said about each field; for the reference.
    pub(crate) output_schema: Arc<Map<String, Value>>,
    run: Box<Run>,
}

impl RegisteredTool {
    pub(crate) fn new<T: Tool>(tool: T) -> Self {
        let tool = Arc::new(tool);
        let input_schema = Arc::new(schema::of_input::<T::Input>());
        let output_schema = schema::of_output::<T::Output>();
        let expected = input_schema.clone();
        Self {
            declaration: &T::DECLARATION,
            input_schema,
            output_schema: Arc::new(output_schema),
            run: Box::new(move |call, arguments| {
                let tool = tool.clone();
                let arguments = schema::lenient(&expected, arguments);
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
            return Finished::refused(failure);
        }
    };
    let target = T::target(&input);
    let result = tool.call(call, input).await.and_then(|mut answer| {
        let attachment = T::attachment(&mut answer.content);
        let content = serde_json::to_value(answer.content).map_err(|error| {
            Failure::new(FailureKind::Internal, format!("the answer cannot be written: {error}"))
        })?;
        Ok(Reply { text: answer.text, content, attachment })
    });
    let session = call.session.get().map(ToString::to_string);
    Finished { target, session, result }
}
