//! How far ingests are, and what is watched.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{identity::Scope, license::Feature, printable::printable_lines};
use hindcast_services::{
    Failure,
    knowledge::{IngestStatus, KnowledgeService},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::{CountsView, FileView, in_a_line};
use crate::registry::{Answer, Call, Declaration, Effects, Tool};

pub(super) struct Status {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusInput {
    /// Only this ingest
    #[serde(default)]
    ingest: Option<String>,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StatusView {
    /// Your ingests in the background, newest first
    ingests: Vec<IngestView>,
    /// Folders that are kept up to date
    watches: Vec<WatchView>,
}

#[derive(Serialize, JsonSchema)]
struct IngestView {
    /// Its name
    ingest: String,
    /// The collection
    collection: String,
    /// running, stopping, done, stopped or failed
    state: &'static str,
    /// Files that were looked at
    done: u64,
    /// Files there are, once that is known
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// What is being done, or what became of it
    message: String,
    /// The first files that were not taken in
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FileView>,
    #[serde(skip)]
    failed_count: usize,
    /// When it began
    started_at: String,
    /// When it ended
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct WatchView {
    /// The collection's id
    collection: String,
    /// The folder or file
    path: String,
    /// Only files that fit one of these
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<String>,
    /// No files that fit one of these
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exclude: Vec<String>,
    /// Another server has the folder and watches it
    #[serde(rename = "elsewhere", skip_serializing_if = "std::ops::Not::not")]
    is_elsewhere: bool,
    /// Why it is not followed
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

impl From<IngestStatus> for IngestView {
    fn from(status: IngestStatus) -> Self {
        let report = status.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
        let failed = report.map(FileView::failed).unwrap_or_default();
        let failed_count = report.map_or(0, |report| CountsView::from(report).failed);
        let (state, message) = match status.outcome {
            None if status.is_stopping => ("stopping", "stops after the file it is at".to_owned()),
            None => ("running", status.current),
            Some(Ok(report)) => {
                let notices: String = report.notices.iter().map(|notice| format!("; {notice}")).collect();
                (if status.is_stopped { "stopped" } else { "done" }, in_a_line(&report) + &notices)
            }
            Some(Err(reason)) => ("failed", reason),
        };
        Self {
            ingest: status.id,
            collection: status.collection,
            state,
            done: status.done,
            total: status.total,
            message,
            failed,
            failed_count,
            started_at: status.started_at.to_string(),
            ended_at: status.ended_at.map(|ended| ended.to_string()),
        }
    }
}

#[async_trait]
impl Tool for Status {
    type Input = StatusInput;
    type Output = StatusView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/status",
        description: "How far additions in the background are; which folders are watched",
        scope: Some(Scope::KnowledgeRead),
        feature: Some(Feature::Knowledge),
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, input: StatusInput) -> Result<Answer<StatusView>, Failure> {
        let ingests = match &input.ingest {
            Some(id) => vec![self.knowledge.ingest(&call.caller, id)?],
            None => self.knowledge.ingests(&call.caller),
        };
        let ingests: Vec<_> = ingests.into_iter().map(IngestView::from).collect();
        let mut watches = Vec::new();
        for (collection, watch) in self.knowledge.watches(&call.caller).await? {
            let is_elsewhere = watch.elsewhere.is_some();
            let notice = if is_elsewhere { None } else { self.knowledge.watch_notice(&watch).await? };
            let (path, patterns) = (watch.path, watch.patterns);
            let (include, exclude) = (patterns.include, patterns.exclude);
            watches.push(WatchView { collection, path, include, exclude, is_elsewhere, notice });
        }
        let mut text = match ingests.len() {
            0 => "No additions in the background since the server started".to_owned(),
            1 => "1 addition in the background".to_owned(),
            count => format!("{count} additions in the background"),
        };
        for ingest in &ingests {
            let total = ingest.total.map_or(String::new(), |total| format!(" of {total}"));
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n{} ({}): {}{total} files; {}",
                ingest.ingest, ingest.state, ingest.done, ingest.message
            );
            FileView::tell_failed(&mut text, &ingest.failed, ingest.failed_count);
        }
        for watch in &watches {
            let by = if watch.is_elsewhere { " (by another server)" } else { "" };
            let _ = write!(text, "\nwatched for {}: {}{by}", watch.collection, watch.path);
            if let Some(notice) = &watch.notice {
                let _ = write!(text, " {notice}");
            }
        }
        let text = printable_lines(&text).into_owned();
        Ok(Answer { text, content: StatusView { ingests, watches } })
    }
}
