//! The indexes from small to large, filled with made-up chunks.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// How fast they were filled.
#[derive(Deserialize)]
pub(super) struct Filling {
    pub(super) lexical_chunks_per_second: f64,
    pub(super) vectors_per_second: f64,
}

/// Middle and end of many searches.
#[derive(Deserialize)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// How they were searched, by a process that only does that.
#[derive(Deserialize)]
pub(super) struct Searching {
    pub(super) chunks: u64,
    pub(super) open_ms: f64,
    pub(super) search_ms: Times,
    pub(super) lexical_ms: Times,
    pub(super) vectors_ms: Times,
    pub(super) resident_mb: f64,
    pub(super) recall_at_10: f64,
}

/// One size.
pub(super) struct Figures {
    pub(super) filling: Filling,
    pub(super) searching: Searching,
    pub(super) disk_mb: f64,
}

/// Fills and searches so many chunks.
pub(super) fn measure(measure: &Path, chunks: u64, scratch: &Path) -> Result<Figures> {
    println!("indexing {chunks} chunks");
    let folder = scratch.join(format!("chunks-{chunks}"));
    let filling = command::capture(Command::new(measure).arg("fill").arg(&folder).arg(chunks.to_string()))?;
    let searching = command::capture(Command::new(measure).arg("search").arg(&folder))?;
    let disk_mb = folder_bytes(&folder)? as f64 / 1e6;
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(Figures {
        filling: serde_json::from_str(&filling)?,
        searching: serde_json::from_str(&searching)?,
        disk_mb,
    })
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        bytes +=
            if entry.file_type()?.is_dir() { folder_bytes(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
