//! How files are taken in: small ones in growing numbers, pages of HTML, and what searches cost meanwhile. Without embedding, whose
//! speed is measured by itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::mcp_client::McpClient;
use crate::command;
use crate::workspace::Workspace;

const LONGEST: Duration = Duration::from_secs(3600);
/// Searched in Python's documentation, where each has at least five hits.
const QUESTIONS: [&str; 5] = [
    "connection from several threads",
    "temporary directory",
    "parse a date",
    "match groups",
    "cache results",
];
/// How often all of them are asked before the ingest; during it they are asked until it ends.
const ROUNDS: usize = 40;
/// Files that are taken in while searches are timed.
const MEANWHILE: u64 = 20_000;

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
    /// Half of the searches took at most this long, in ms: before an ingest and during one.
    pub(super) search_before_ms: f64,
    pub(super) search_during_ms: f64,
    /// What five hits take, mean and most, in bytes of the whole answer.
    pub(super) hits_bytes: (usize, usize),
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
    let library = workspace.peers().join("documents/usr/share/doc/python3.11/html/library");
    let count = fs::read_dir(&library)
        .with_context(|| format!("`{}` is missing · hint: `cargo xtask peers`", library.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".html"))
        .count();
    let data = scratch.join("data-pages");
    let pages = take_in(hindcast, &data, &library, count as u64)?;
    let (search_before_ms, search_during_ms, hits_bytes) = searches(hindcast, &data, scratch)?;
    Ok(Figures { small, pages, search_before_ms, search_during_ms, hits_bytes })
}

/// Small notes, each another, a thousand in a folder.
fn write_files(folder: &Path, number: u64) -> Result<()> {
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

fn program(hindcast: &Path, data: &Path) -> Command {
    let mut program = Command::new(hindcast);
    program.arg("--data-dir").arg(data).env("HINDCAST_KNOWLEDGE_FETCH_MODEL", "false");
    program
}

fn take_in(hindcast: &Path, data: &Path, folder: &Path, files: u64) -> Result<Files> {
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

/// Searches that were timed one by one.
#[derive(Default)]
struct Searches {
    spent_ms: Vec<f64>,
    bytes: Vec<usize>,
}

impl Searches {
    /// Asks every question once.
    fn round(&mut self, client: &mut McpClient) -> Result<()> {
        for query in QUESTIONS {
            let begin = Instant::now();
            let arguments = json!({ "query": query, "collection": "notes", "limit": 5, "mode": "lexical" });
            let answer = client.call("knowledge/search", &arguments)?;
            self.spent_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
            self.bytes.push(answer.answer.bytes);
        }
        Ok(())
    }

    fn median_ms(&mut self) -> f64 {
        self.spent_ms.sort_by(f64::total_cmp);
        self.spent_ms.get(self.spent_ms.len() / 2).copied().unwrap_or_default()
    }
}

/// The median of searches in Python's documentation before and while other files are taken in, and what five hits take.
fn searches(hindcast: &Path, data: &Path, scratch: &Path) -> Result<(f64, f64, (usize, usize))> {
    let files = scratch.join("meanwhile");
    write_files(&files, MEANWHILE)?;
    let mut client = McpClient::lasting("hindcast", program(hindcast, data).arg("mcp"), LONGEST)?;
    Searches::default().round(&mut client)?;
    let mut before = Searches::default();
    for _ in 0..ROUNDS {
        before.round(&mut client)?;
    }
    println!("searching while {MEANWHILE} files are taken in");
    let add = json!({ "collection": "meanwhile", "paths": [files], "background": true });
    client.call("knowledge/add", &add)?;
    let mut during = Searches::default();
    while is_running(&mut client)? {
        during.round(&mut client)?;
    }
    drop(client);
    fs::remove_dir_all(&files)?;
    let bytes = &before.bytes;
    let mean = bytes.iter().sum::<usize>() / bytes.len().max(1);
    let most = bytes.iter().max().copied().unwrap_or(0);
    Ok((before.median_ms(), during.median_ms(), (mean, most)))
}

/// Whether the ingest in the background goes on; one that failed is an error.
fn is_running(client: &mut McpClient) -> Result<bool> {
    let status = client.call("knowledge/status", &json!({}))?.structured;
    let ingest = status["ingests"].get(0).context("no ingest in the background")?;
    match ingest["state"].as_str() {
        Some("running") => Ok(true),
        Some("done") => Ok(false),
        _ => bail!("the ingest in the background failed: {ingest}"),
    }
}
