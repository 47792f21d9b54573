//! How files are taken in: small ones in growing numbers and pages of HTML, by words only, because the speed of embedding is measured
//! by itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::meanwhile::{self, Meanwhile};
use crate::command;
use crate::workspace::Workspace;

/// Files of one number.
pub(super) struct Files {
    pub(super) files: u64,
    pub(super) per_second: f64,
}

/// Everything about taking in.
pub(super) struct Figures {
    pub(super) small: Vec<Files>,
    /// Pages of Python's documentation.
    pub(super) pages: Files,
    pub(super) by_words: Meanwhile,
    /// The same while another process takes the files in.
    pub(super) beside: Meanwhile,
    pub(super) hybrid: Meanwhile,
}

pub(super) fn measure(
    workspace: &Workspace,
    hindcast: &Path,
    numbers: &[u64],
    scratch: &Path,
) -> Result<Figures> {
    let small = numbers
        .iter()
        .map(|&number| {
            let files = scratch.join(format!("files-{number}"));
            write_files(&files, number)?;
            let taken = take_in(hindcast, &scratch.join(format!("data-{number}")), &files, number);
            fs::remove_dir_all(&files)?;
            taken
        })
        .collect::<Result<Vec<_>>>()?;
    let library = meanwhile::library(workspace);
    let count = fs::read_dir(&library)
        .with_context(|| format!("`{}` is missing · hint: `cargo xtask peers`", library.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".html"))
        .count();
    let data = scratch.join("data-pages");
    let pages = take_in(hindcast, &data, &library, count as u64)?;
    let by_words = meanwhile::by_words(hindcast, &data, scratch)?;
    let beside = meanwhile::by_words_beside(hindcast, &data, scratch)?;
    let hybrid = meanwhile::hybrid(workspace, hindcast, scratch)?;
    Ok(Figures { small, pages, by_words, beside, hybrid })
}

/// Small notes, each another, a thousand in a folder.
pub(super) fn write_files(folder: &Path, number: u64) -> Result<()> {
    for file in 0..number {
        let within = folder.join((file / 1000).to_string());
        if file % 1000 == 0 {
            fs::create_dir_all(&within)?;
        }
        let text = format!(
            "# Note {file}\n\nThe heron number {file} stands in lake {} and waits for {} fish.\n",
            file * 7 % 1013,
            file % 17
        );
        fs::write(within.join(format!("note-{file}.md")), text)?;
    }
    Ok(())
}

/// Ours, which fetches no model by itself.
pub(super) fn program(hindcast: &Path, data: &Path) -> Command {
    let mut program = Command::new(hindcast);
    program.arg("--data-dir").arg(data).env("HINDCAST_KNOWLEDGE_FETCH_MODEL", "false");
    program
}

/// Takes a folder into the collection `notes`.
pub(super) fn take_in(hindcast: &Path, data: &Path, folder: &Path, files: u64) -> Result<Files> {
    println!("taking in {files} files");
    let begin = Instant::now();
    let told =
        command::capture(program(hindcast, data).args(["knowledge", "add", "notes", "--json"]).arg(folder))?;
    let per_second = files as f64 / begin.elapsed().as_secs_f64();
    let told: Value = serde_json::from_str(&told).context("`knowledge add --json` did not print JSON")?;
    let documents = &told["collection"]["documents"];
    if *documents != files {
        bail!("{documents} of {files} files were taken in");
    }
    Ok(Files { files, per_second })
}
