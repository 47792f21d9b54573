//! Calling tools and reading resources for a page, as its key may.

use std::sync::Arc;

use hindcast_core::identity::{Caller, Scope};
use hindcast_services::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{
    app::App,
    overtime::TimeLimit,
    registry::{Manner, Reply},
};

/// Who asks, and until when they wait.
pub(super) struct Desk {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    pub(super) until: Instant,
}

impl Desk {
    /// What a tool tells somebody who looks on.
    pub(super) async fn look<T: DeserializeOwned>(&self, tool: &str, arguments: Value) -> Result<T, Failure> {
        let reply = self.call(tool, arguments, Manner::Glance).await?;
        read(reply.content)
    }

    /// Does what a button says.
    pub(super) async fn press(&self, tool: &str, arguments: Value) -> Result<Reply, Failure> {
        self.call(tool, arguments, Manner::Press).await
    }

    /// What a resource holds.
    pub(super) async fn read<T: DeserializeOwned>(&self, uri: &str) -> Result<T, Failure> {
        let text = self.read_text(uri).await?;
        read(serde_json::from_str(&text).unwrap_or_default())
    }

    /// The same as text.
    pub(super) async fn read_text(&self, uri: &str) -> Result<String, Failure> {
        let content = self.app.read_resource(&self.caller, uri, Some(self.limit())).await?;
        Ok(content.text)
    }

    pub(super) fn may(&self, scope: Scope) -> bool {
        self.caller.may(Some(scope))
    }

    async fn call(&self, tool: &str, arguments: Value, manner: Manner) -> Result<Reply, Failure> {
        let arguments = match arguments {
            Value::Object(arguments) => without_nulls(arguments),
            _ => Map::new(),
        };
        let named = (tool.to_owned(), arguments);
        self.app.call_for_page(self.caller.clone(), named, manner, self.limit()).await
    }

    fn limit(&self) -> TimeLimit {
        TimeLimit { until: self.until, unless_heard: false }
    }
}

fn without_nulls(mut arguments: Map<String, Value>) -> Map<String, Value> {
    arguments.retain(|_, value| !value.is_null());
    arguments
}

fn read<T: DeserializeOwned>(content: Value) -> Result<T, Failure> {
    serde_json::from_value(content).map_err(|error| {
        Failure::new(FailureKind::Internal, format!("the page does not understand the answer: {error}"))
            .hint("report it: page and tools are of one program, so that is a mistake in it")
    })
}
