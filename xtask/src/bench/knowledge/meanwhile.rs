//! What searches cost while something else is taken in: by words while small files are taken in without embedding, by the same server
//! or by another process on its data folder, and by words and meaning while pages are taken in with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::ingest::{program, take_in, write_files};
use crate::bench::mcp_client::McpClient;
use crate::workspace::Workspace;
use crate::{command, peers};

const LONGEST: Duration = Duration::from_secs(3600);
/// Searched in Python's documentation, where each has at least five hits.
const QUESTIONS: [&str; 5] = [
    "connection from several threads",
    "temporary directory",
    "parse a date",
    "match groups",
    "cache results",
];
/// The pages that are searched where passages are embedded.
const PAGES: [&str; 6] =
    ["sqlite3.html", "tempfile.html", "datetime.html", "re.html", "functools.html", "threading.html"];
/// How often all questions are asked before the ingest.
const ROUNDS: usize = 40;
/// How often they are asked during one that takes longer.
const MOST_ROUNDS: usize = 400;
/// With fewer it is not known how long they take.
const FEWEST_ROUNDS: usize = 4;
/// Files that are taken in while searches by words are timed.
pub(super) const FILES: u64 = 20_000;

/// Searches before and during an ingest.
pub(super) struct Meanwhile {
    /// Half of the searches took at most this long, in ms.
    pub(super) before_ms: f64,
    pub(super) during_ms: f64,
    /// How many there were during the ingest.
    pub(super) during: usize,
    /// What five hits take, mean and most, in bytes of the whole answer.
    pub(super) hits_bytes: (usize, usize),
}

impl Meanwhile {
    /// How many times as long they take.
    pub(super) fn ratio(&self) -> f64 {
        self.during_ms / self.before_ms
    }
}

/// The pages of Python's library reference.
pub(super) fn library(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("documents/usr/share/doc/python3.11/html/library")
}

/// By words in Python's documentation, which is in the data folder already.
pub(super) fn by_words(hindcast: &Path, data: &Path, scratch: &Path) -> Result<Meanwhile> {
    let files = scratch.join("meanwhile");
    write_files(&files, FILES)?;
    let client = McpClient::lasting("hindcast", program(hindcast, data).arg("mcp"), LONGEST)?;
    let measured = measure(client, "lexical", |client| Adding::begin_here(client, &files))?;
    fs::remove_dir_all(&files)?;
    Ok(measured)
}

/// The same while `hindcast knowledge add` takes the files in.
pub(super) fn by_words_beside(hindcast: &Path, data: &Path, scratch: &Path) -> Result<Meanwhile> {
    let files = scratch.join("beside");
    write_files(&files, FILES)?;
    let client = McpClient::lasting("hindcast", program(hindcast, data).arg("mcp"), LONGEST)?;
    let measured = measure(client, "lexical", |_| Adding::begin_beside(hindcast, data, &files))?;
    fs::remove_dir_all(&files)?;
    Ok(measured)
}

/// By words and meaning in some pages, while all pages are taken into another collection and embedded by the same model.
pub(super) fn hybrid(workspace: &Workspace, hindcast: &Path, scratch: &Path) -> Result<Meanwhile> {
    let (data, library, some) =
        (scratch.join("data-embedded"), library(workspace), scratch.join("some-pages"));
    fs::create_dir_all(&some)?;
    for page in PAGES {
        let from = library.join(page);
        fs::copy(&from, some.join(page)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let model = peers::models_folder(workspace).join("all-MiniLM-L6-v2");
    command::capture(program(hindcast, &data).args(["models", "pull", "--from"]).arg(model))?;
    take_in(hindcast, &data, &some, PAGES.len() as u64)?;
    let client = McpClient::lasting("hindcast", program(hindcast, &data).arg("mcp"), LONGEST)?;
    measure(client, "hybrid", |client| Adding::begin_here(client, &library))
}

/// What is being taken in.
enum Adding {
    Here,
    Beside(Child),
}

impl Adding {
    fn begin_here(client: &mut McpClient, folder: &Path) -> Result<Self> {
        let add = json!({ "collection": "meanwhile", "paths": [folder], "background": true });
        client.call("knowledge/add", &add)?;
        Ok(Self::Here)
    }

    fn begin_beside(hindcast: &Path, data: &Path, folder: &Path) -> Result<Self> {
        let mut add = program(hindcast, data);
        add.args(["knowledge", "add", "beside"]).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self::Beside(add.spawn()?))
    }

    /// Whether something of it is there already; none when it has ended. One that failed is an error.
    fn has_begun(&mut self, client: &mut McpClient) -> Result<Option<bool>> {
        match self {
            // Before that it looks for files, and nothing is embedded.
            Self::Here => Ok(done(client)?.map(|done| done > 0)),
            Self::Beside(add) => match add.try_wait()? {
                None => Ok(Some(true)),
                Some(status) if status.success() => Ok(None),
                Some(status) => bail!("`hindcast knowledge add` failed: {status}"),
            },
        }
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        if let Self::Beside(add) = self {
            // It has ended, or nobody wants what it does.
            let _ = add.kill();
            let _ = add.wait();
        }
    }
}

/// Searches that were timed one by one.
#[derive(Default)]
struct Searches {
    spent_ms: Vec<f64>,
    bytes: Vec<usize>,
}

impl Searches {
    /// Asks every question once.
    fn round(&mut self, client: &mut McpClient, mode: &str) -> Result<()> {
        for query in QUESTIONS {
            let begin = Instant::now();
            let arguments = json!({ "query": query, "collection": "notes", "limit": 5, "mode": mode });
            let answer = client.call("knowledge/search", &arguments)?;
            self.spent_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
            self.bytes.push(answer.answer.bytes);
            // A search that has to do without the model says so, and would be too fast.
            if !answer.structured["notices"].is_null() {
                bail!("a search has something to say: {}", answer.structured["notices"]);
            }
        }
        Ok(())
    }

    fn median_ms(&mut self) -> f64 {
        self.spent_ms.sort_by(f64::total_cmp);
        self.spent_ms.get(self.spent_ms.len() / 2).copied().unwrap_or_default()
    }
}

/// Searches `notes` before and while something is taken in. The server ends with what it has by then.
fn measure(
    mut client: McpClient,
    mode: &str,
    begin: impl FnOnce(&mut McpClient) -> Result<Adding>,
) -> Result<Meanwhile> {
    Searches::default().round(&mut client, mode)?;
    let mut before = Searches::default();
    for _ in 0..ROUNDS {
        before.round(&mut client, mode)?;
    }
    println!("searching ({mode}) while files are taken in");
    let mut adding = begin(&mut client)?;
    let mut during = Searches::default();
    let mut rounds = 0;
    while rounds < MOST_ROUNDS {
        let Some(has_begun) = adding.has_begun(&mut client)? else { break };
        if has_begun {
            during.round(&mut client, mode)?;
            rounds += 1;
        }
    }
    if rounds < FEWEST_ROUNDS {
        bail!("the ingest ended after {rounds} rounds of searches");
    }
    let bytes = &before.bytes;
    let mean = bytes.iter().sum::<usize>() / bytes.len().max(1);
    let most = bytes.iter().max().copied().unwrap_or(0);
    Ok(Meanwhile {
        before_ms: before.median_ms(),
        during_ms: during.median_ms(),
        during: during.spent_ms.len(),
        hits_bytes: (mean, most),
    })
}

/// How many files the ingest in the background has looked at; none when it has ended. One that failed is an error.
fn done(client: &mut McpClient) -> Result<Option<u64>> {
    let status = client.call("knowledge/status", &json!({}))?.structured;
    let ingest = status["ingests"].get(0).context("no ingest in the background")?;
    match ingest["state"].as_str() {
        Some("running") => Ok(Some(ingest["done"].as_u64().unwrap_or_default())),
        Some("done") => Ok(None),
        _ => bail!("the ingest in the background failed: {}", Value::to_string(ingest)),
    }
}
