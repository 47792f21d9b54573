//! Searching in the program's data: `find`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{ElementPage, ElementSearch, ValueLimits, Variable};
use hindcast_services::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, looks, thread};
use crate::registry::{Answer, Call, Declaration, Tool};

pub(super) struct Find(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindInput {
    /// Container, or `builds[*].job[*]`, `list(head, next)`, `tree(root, left, right)`
    r#in: String,
    /// Condition on its members, `it`, `key`
    #[serde(default)]
    r#where: Option<String>,
    #[serde(default)]
    show: Vec<String>,
    /// `-price`: largest first
    #[serde(default)]
    sort_by: Option<String>,
    #[serde(default)]
    duplicates_of: Option<String>,
    #[serde(default)]
    offset: u64,
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 200))]
    limit: u32,
    #[serde(default)]
    frame: Option<u32>,
    #[serde(default)]
    thread_id: Option<u32>,
    #[serde(default)]
    session_id: Option<String>,
}

fn ten() -> u32 {
    10
}

/// Elements that were found.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Elements(ElementPage);

#[async_trait]
impl Tool for Find {
    type Input = FindInput;
    type Output = Elements;

    const DECLARATION: Declaration =
        looks("debugger/find", "Find elements of containers, linked lists or trees");

    async fn call(&self, call: &Call, input: FindInput) -> Result<Answer<Elements>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let frame = session.frame(thread(input.thread_id), input.frame)?;
        let search = ElementSearch {
            elements: input.r#in,
            condition: input.r#where,
            show: input.show,
            order: input.sort_by,
            duplicates_of: input.duplicates_of,
            frame,
            offset: input.offset,
            limit: input.limit.clamp(1, 200),
            limits: ValueLimits { depth: 0, ..ValueLimits::default() },
        };
        let (offset, elements) = (search.offset, search.elements.clone());
        let page = session.find(search).await?;
        Ok(Answer { text: told(&page, offset, &elements), content: Elements(page) })
    }
}

fn told(page: &ElementPage, offset: u64, elements: &str) -> String {
    let mut text = format!("{} of {} elements of `{elements}`", page.found, page.searched);
    if page.found == 0 {
        text = format!("none of {} elements of `{elements}`", page.searched);
    }
    for element in &page.elements {
        let values: Vec<_> = element.key.iter().chain(&element.values).map(value).collect();
        let name = element.expression.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        let _ = write!(text, "\n{name}{}", values.join(", "));
    }
    let shown = offset + page.elements.len() as u64;
    if shown < page.found {
        let _ = write!(text, "\n… {} more: `offset` {shown}", page.found - shown);
    }
    if page.unknown > 0 {
        let _ = write!(text, "\n{} could not be judged: what is asked of them is not there", page.unknown);
    }
    if let Some(broken) = &page.broken {
        let _ = write!(text, "\nnot all were looked at: {broken}");
    }
    text
}

fn value(value: &Variable) -> String {
    match value.name.as_str() {
        "it" => value.value.clone(),
        name => format!("{name} = {}", value.value),
    }
}
