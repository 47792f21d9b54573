//! The files that a remote caller brings: `put`, `list`, `remove`.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_core::identity::{Caller, Scope};
use hindcast_services::{
    Failure, FailureKind,
    debug::{DebugService, Piece, Workspace, WorkspaceFile},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    excerpt::shown_target,
    registry::{Answer, Call, Declaration, Effects, Registry, Tool},
};

pub(super) fn declare(registry: &mut Registry, debug: &Arc<DebugService>) {
    registry.add_tool(Put(debug.clone()));
    registry.add_tool(List(debug.clone()));
    registry.add_tool(Remove(debug.clone()));
}

struct Put(Arc<DebugService>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PutInput {
    /// Relative, such as `build/app`
    path: PathBuf,
    #[serde(default)]
    text: Option<String>,
    /// Or in base64
    #[serde(default)]
    base64: Option<String>,
    /// For large files in pieces
    #[serde(default)]
    append: bool,
    /// Whether it can be launched
    #[serde(default)]
    executable: bool,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct FileView {
    path: String,
    bytes: u64,
    executable: bool,
}

impl From<WorkspaceFile> for FileView {
    fn from(WorkspaceFile { path, bytes, executable }: WorkspaceFile) -> Self {
        Self { path, bytes, executable }
    }
}

#[async_trait]
impl Tool for Put {
    type Input = PutInput;
    type Output = FileView;

    const DECLARATION: Declaration = Declaration {
        name: "workspace/put",
        description: "Upload a program, core file, recording or source, to launch it by its path",
        scope: Some(Scope::DebugWrite),
        feature: None,
        effects: Effects::Destructive { idempotent: false },
    };

    fn target(input: &PutInput) -> Option<String> {
        Some(shown_target(&input.path))
    }

    async fn call(&self, call: &Call, input: PutInput) -> Result<Answer<FileView>, Failure> {
        let bytes = match (input.text, input.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => BASE64_STANDARD.decode(base64.trim()).map_err(|error| {
                Failure::new(FailureKind::InvalidInput, format!("`base64` cannot be read: {error}"))
                    .hint("use the standard alphabet, with `=` at the end")
            })?,
            _ => {
                return Err(Failure::new(
                    FailureKind::InvalidInput,
                    "one of `text` and `base64` says what the file holds",
                )
                .hint("give one of them"));
            }
        };
        let (append, executable, path) = (input.append, input.executable, input.path);
        let put = on_files(&self.0, &call.caller, move |debug, caller| {
            debug.put_into_workspace(caller, &Piece { path: &path, bytes: &bytes, append, executable })
        });
        let content = FileView::from(put.await?);
        Ok(Answer { text: format!("{}: {} bytes", content.path, content.bytes), content })
    }
}

struct List(Arc<DebugService>);

/// Files that an answer shows.
const MOST_SHOWN: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    #[serde(default)]
    offset: usize,
    /// How many files to show
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = MOST_SHOWN))]
    limit: usize,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

fn usual_limit() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
struct WorkspaceView {
    /// Where programs see it; relative paths begin there
    folder: String,
    files: Vec<FileView>,
    /// How many files there are
    total: usize,
    /// The bytes of all files
    bytes: u64,
    /// The most that they may have
    limit: u64,
}

impl WorkspaceView {
    fn of(workspace: Workspace) -> Self {
        Self {
            folder: workspace.folder.display().to_string(),
            files: workspace.files.into_iter().map(Into::into).collect(),
            total: workspace.total,
            bytes: workspace.bytes,
            limit: workspace.most_bytes,
        }
    }

    fn in_a_line(&self) -> String {
        format!("{} files, {} of {} bytes", self.total, self.bytes, self.limit)
    }
}

#[async_trait]
impl Tool for List {
    type Input = ListInput;
    type Output = WorkspaceView;

    const DECLARATION: Declaration = Declaration {
        name: "workspace/list",
        description: "List the files in the workspace",
        scope: Some(Scope::DebugRead),
        feature: None,
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, input: ListInput) -> Result<Answer<WorkspaceView>, Failure> {
        let ListInput { offset, limit, .. } = input;
        let limit = limit.clamp(1, MOST_SHOWN);
        let listed =
            on_files(&self.0, &call.caller, move |debug, caller| debug.workspace_of(caller, offset, limit));
        let content = WorkspaceView::of(listed.await?);
        let mut text = content.in_a_line();
        for file in &content.files {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n{} {} bytes", file.path, file.bytes);
        }
        let shown = offset.saturating_add(content.files.len());
        if shown < content.total {
            let _ = write!(text, "\n… {} more: `offset` {shown}", content.total - shown);
        }
        Ok(Answer { text, content })
    }
}

struct Remove(Arc<DebugService>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoveInput {
    path: PathBuf,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct LeftView {
    /// How many files are left
    total: usize,
    /// Their bytes
    bytes: u64,
    /// The most that they may have
    limit: u64,
}

#[async_trait]
impl Tool for Remove {
    type Input = RemoveInput;
    type Output = LeftView;

    const DECLARATION: Declaration = Declaration {
        name: "workspace/remove",
        description: "Remove a file or folder from the workspace",
        scope: Some(Scope::DebugWrite),
        feature: None,
        effects: Effects::Destructive { idempotent: true },
    };

    fn target(input: &RemoveInput) -> Option<String> {
        Some(shown_target(&input.path))
    }

    async fn call(&self, call: &Call, input: RemoveInput) -> Result<Answer<LeftView>, Failure> {
        let removed = on_files(&self.0, &call.caller, move |debug, caller| {
            debug.remove_from_workspace(caller, &input.path)
        });
        let left = WorkspaceView::of(removed.await?);
        let text = left.in_a_line();
        let WorkspaceView { total, bytes, limit, .. } = left;
        Ok(Answer { text, content: LeftView { total, bytes, limit } })
    }
}

/// Works with files apart from the threads that serve connections.
async fn on_files<T: Send + 'static>(
    debug: &Arc<DebugService>,
    caller: &Caller,
    work: impl FnOnce(&DebugService, &Caller) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (debug, caller) = (debug.clone(), caller.clone());
    let worked = tokio::task::spawn_blocking(move || work(&debug, &caller)).await;
    worked.unwrap_or_else(|error| {
        tracing::error!(%error, "work on a workspace failed");
        Err(Failure::new(FailureKind::Internal, "the work on the workspace failed")
            .hint("ask the operator to look at the server's log, and try again"))
    })
}
