//! Searching in the program's data: `find`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::debug::{
    ElementPage, ElementSearch, FoundPointer, PointerKind, PointerPage, PointerSearch, ValueLimits, Variable,
};
use hindcast_services::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Desk, invalid, looks, thread};
use crate::registry::{Answer, Call, Declaration, Tool};

pub(super) struct Find(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindInput {
    /// Container, or `builds[*].job[*]`, `list(head, next)`, `tree(root, l, r)`, `reachable(p)`
    #[serde(default)]
    r#in: Option<String>,
    /// Instead: who points to this object, pointer's target or address
    #[serde(default)]
    points_to: Option<String>,
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

/// What was found.
#[derive(Serialize, JsonSchema)]
pub(super) struct Found {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    elements: Option<ElementPage>,
    /// Who points to it
    #[serde(skip_serializing_if = "Option::is_none")]
    points_to: Option<PointerPage>,
}

#[async_trait]
impl Tool for Find {
    type Input = FindInput;
    type Output = Found;

    const DECLARATION: Declaration =
        looks("debugger/find", "Find elements of containers, lists or trees, or who points to an object");

    async fn call(&self, call: &Call, input: FindInput) -> Result<Answer<Found>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let frame = session.frame(thread(input.thread_id), input.frame)?;
        let limit = input.limit.clamp(1, 200);
        let elements = match (input.r#in, input.points_to) {
            (Some(elements), None) => elements,
            (None, Some(target)) => {
                let search = PointerSearch { target, frame, offset: input.offset, limit };
                let page = session.pointers(search.clone()).await?;
                let text = told_pointers(&page, &search);
                return Ok(Answer { text, content: Found { elements: None, points_to: Some(page) } });
            }
            _ => return Err(invalid("not one thing is to be found").hint("give either `in` or `points_to`")),
        };
        let search = ElementSearch {
            elements,
            condition: input.r#where,
            show: input.show,
            order: input.sort_by,
            duplicates_of: input.duplicates_of,
            frame,
            offset: input.offset,
            limit,
            limits: ValueLimits { depth: 0, ..ValueLimits::default() },
        };
        let (offset, elements) = (search.offset, search.elements.clone());
        let page = session.find(search).await?;
        let text = told(&page, offset, &elements);
        Ok(Answer { text, content: Found { elements: Some(page), points_to: None } })
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

fn told_pointers(page: &PointerPage, search: &PointerSearch) -> String {
    let what = if page.is_block { "a heap block of " } else { "" };
    let mut text = format!("{} pointers to {what}{} bytes at {}", page.found, page.size, page.address);
    let _ = write!(text, " (`{}`), in {} kB", search.target, page.searched >> 10);
    for pointer in &page.pointers {
        let _ = write!(text, "\n{}", place(pointer));
        let inside = pointer.to.0 - page.address.0;
        if inside > 0 {
            let _ = write!(text, " → +{inside:#x}");
        }
    }
    let shown = search.offset + page.pointers.len() as u64;
    if shown < page.found {
        let _ = write!(text, "\n… {} more: `offset` {shown}", page.found - shown);
    }
    if let Some(block) = page.pointers.iter().find_map(|pointer| pointer.block) {
        let _ = write!(text, "\nwho allocated a block: `debugger/history` with address \"{block}\"");
    }
    text
}

fn place(pointer: &FoundPointer) -> String {
    let thread = pointer.thread.map(|thread| format!(", thread {thread}")).unwrap_or_default();
    let frame = pointer.frame.map(|frame| format!(" of frame {frame}")).unwrap_or_default();
    let address = pointer.address.map(|address| address.to_string()).unwrap_or_default();
    match (pointer.kind, &pointer.name) {
        (PointerKind::Register, name) => format!("{}{thread}", name.as_deref().unwrap_or_default()),
        (PointerKind::Stack, Some(name)) => format!("`{name}`{frame}{thread} ({address})"),
        (PointerKind::Stack, None) => format!("{address} on the stack{thread}"),
        (PointerKind::Global, Some(name)) => format!("`{name}` ({address})"),
        (PointerKind::Global, None) => format!("{address} among globals"),
        (PointerKind::Heap, _) => match (pointer.block, pointer.block_size) {
            (Some(block), Some(size)) => format!("{address} in a heap block of {size} bytes at {block}"),
            _ => format!("{address} in the heap"),
        },
        (PointerKind::Memory, _) => address,
    }
}

fn value(value: &Variable) -> String {
    match value.name.as_str() {
        "it" => value.value.clone(),
        name => format!("{name} = {}", value.value),
    }
}
