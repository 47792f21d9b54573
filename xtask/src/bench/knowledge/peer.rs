//! Another knowledge base beside ours: the same documents, questions and embedding model, both over MCP.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::documents::{Documents, Hit, Part, Question};
use crate::bench::{machine, mcp_client::McpClient, mcp_client::ToolAnswer, process_tree};
use crate::workspace::Workspace;
use crate::{command, peers};

const LONGEST: Duration = Duration::from_secs(4 * 3600);
const POLL: Duration = Duration::from_millis(250);
/// Hits that are asked for and looked at.
const HITS: usize = 5;

/// How one knowledge base answered in one way.
pub(super) struct Answers {
    pub(super) name: &'static str,
    /// Questions whose first hit is right.
    pub(super) first: usize,
    /// Questions with a right hit among the first five.
    pub(super) five: usize,
    pub(super) search_p50_ms: f64,
    /// Mean size of an answer, as it is sent.
    pub(super) bytes: usize,
}

/// One knowledge base.
pub(super) struct Figures {
    pub(super) name: &'static str,
    pub(super) ingest_seconds: f64,
    pub(super) passages: u64,
    pub(super) answers: Vec<Answers>,
    /// The most memory, taking in and searching, in kB.
    pub(super) peak_memory: u64,
}

/// Both on the same documents.
pub(super) struct Comparison {
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) questions: usize,
    pub(super) ours: Figures,
    pub(super) peer: Figures,
}

pub(super) fn measure(
    workspace: &Workspace,
    hindcast: &Path,
    parts: &[Part],
    scratch: &Path,
) -> Result<Comparison> {
    let documents = Documents::write(workspace, parts, &scratch.join("documents"))?;
    let ours = ours(workspace, hindcast, &documents, &scratch.join("data-documents"))?;
    let peer = local_rag(workspace, &documents, &scratch.join("lancedb"))?;
    let Documents { files, bytes, questions, .. } = &documents;
    Ok(Comparison { files: *files, bytes: *bytes, questions: questions.len(), ours, peer })
}

fn ours(workspace: &Workspace, hindcast: &Path, documents: &Documents, data: &Path) -> Result<Figures> {
    let run = || {
        let mut hindcast = Command::new(hindcast);
        hindcast.arg("--data-dir").arg(data);
        hindcast
    };
    let model = peers::models_folder(workspace).join("all-MiniLM-L6-v2");
    command::capture(run().args(["models", "pull", "--from"]).arg(model))?;
    let mut client = McpClient::lasting("hindcast", run().arg("mcp"), LONGEST)?;
    println!("hindcast takes {} documents in", documents.files);
    let begin = Instant::now();
    let add = json!({ "collection": "documents", "paths": [documents.folder] });
    let added = client.call("knowledge/add", &add)?.structured;
    let ingest_seconds = begin.elapsed().as_secs_f64();
    if added["added"] != documents.files {
        bail!("hindcast took in {} of {} documents", added["added"], documents.files);
    }
    let cut = |question: &str| json!({ "query": question, "limit": HITS });
    let whole = |question: &str| json!({ "query": question, "limit": HITS, "context": 1 });
    let mut search = |name, arguments: &dyn Fn(&str) -> Value| {
        ask(name, &mut client, "knowledge/search", documents, arguments, our_hits)
    };
    let answers = vec![search("hindcast", &cut)?, search("hindcast, whole passages", &whole)?];
    Ok(Figures {
        name: "hindcast",
        ingest_seconds,
        passages: added["chunks"].as_u64().context("no number of passages")?,
        answers,
        peak_memory: peak_memory(&client)?,
    })
}

fn our_hits(answer: &ToolAnswer) -> Result<Vec<Hit>> {
    let hits = answer.structured["hits"].as_array().context("an answer without hits")?;
    Ok(hits.iter().map(|hit| read_hit(hit, "path", "headings")).collect())
}

fn local_rag(workspace: &Workspace, documents: &Documents, database: &Path) -> Result<Figures> {
    let folder = peers::knowledge_folder(workspace);
    let mut server = Command::new(peers::node_in(&folder));
    server
        .arg(folder.join("node_modules/mcp-local-rag/dist/index.js"))
        .env("BASE_DIR", &documents.folder)
        .env("DB_PATH", database)
        .env("CACHE_DIR", peers::knowledge_models(workspace));
    let mut client = McpClient::lasting("mcp-local-rag", &mut server, LONGEST)?;
    println!("mcp-local-rag takes {} documents in", documents.files);
    let begin = Instant::now();
    let job = text_value(&client.call("sync_start", &json!({}))?)?;
    let job = json!({ "jobId": job["jobId"] });
    let done = loop {
        let status = text_value(&client.call("sync_status", &job)?)?;
        if status["state"] != "running" {
            break status;
        }
        std::thread::sleep(POLL);
    };
    let ingest_seconds = begin.elapsed().as_secs_f64();
    if done["state"] != "succeeded" || done["summary"]["upserted"] != documents.files {
        bail!("mcp-local-rag did not take all {} documents in: {done}", documents.files);
    }
    let passages = text_value(&client.call("status", &json!({}))?)?["chunkCount"].as_u64();
    let arguments = |question: &str| json!({ "query": question, "limit": HITS });
    let answers = ask("mcp-local-rag", &mut client, "query_documents", documents, arguments, local_rag_hits)?;
    Ok(Figures {
        name: "mcp-local-rag",
        ingest_seconds,
        passages: passages.context("no number of passages")?,
        answers: vec![answers],
        peak_memory: peak_memory(&client)?,
    })
}

fn local_rag_hits(answer: &ToolAnswer) -> Result<Vec<Hit>> {
    let hits = text_value(answer)?;
    let hits = hits.as_array().context("an answer without hits")?;
    Ok(hits.iter().map(|hit| read_hit(hit, "filePath", "fileTitle")).collect())
}

/// The JSON that a text begins with; warnings may follow it.
fn text_value(answer: &ToolAnswer) -> Result<Value> {
    let mut values = serde_json::Deserializer::from_str(&answer.answer.text).into_iter();
    values.next().context("an empty answer")?.with_context(|| format!("no JSON: `{}`", answer.answer.text))
}

fn read_hit(hit: &Value, path: &str, title: &str) -> Hit {
    let text = |key: &str| hit[key].as_str().unwrap_or_default();
    Hit { path: text(path).to_owned(), passage: format!("{}\n{}", text(title), text("text")) }
}

/// Asks every question once, after one that warms up.
fn ask(
    name: &'static str,
    client: &mut McpClient,
    tool: &str,
    documents: &Documents,
    arguments: impl Fn(&str) -> Value,
    hits: impl Fn(&ToolAnswer) -> Result<Vec<Hit>>,
) -> Result<Answers> {
    client.call(tool, &arguments("Which words warm a search up?"))?;
    let (mut first, mut five, mut bytes, mut spent) = (0, 0, 0, Vec::new());
    for question in &documents.questions {
        let arguments = arguments(&question.text);
        let begin = Instant::now();
        let answer = client.call(tool, &arguments)?;
        spent.push(begin.elapsed().as_secs_f64() * 1000.0);
        bytes += answer.answer.bytes;
        match place(question, &hits(&answer)?) {
            Some(0) => (first, five) = (first + 1, five + 1),
            Some(_) => five += 1,
            None => println!("{name} does not answer: {}", question.text),
        }
    }
    spent.sort_by(f64::total_cmp);
    let search_p50_ms = *spent.get(spent.len() / 2).context("no question is about these documents")?;
    Ok(Answers { name, first, five, search_p50_ms, bytes: bytes / documents.questions.len() })
}

/// Where the right passage stands among the first hits.
fn place(question: &Question, hits: &[Hit]) -> Option<usize> {
    hits.iter().take(HITS).position(|hit| question.is_answered_by(hit))
}

fn peak_memory(client: &McpClient) -> Result<u64> {
    let members = process_tree::members(client.conversation().process())?;
    Ok(members
        .into_iter()
        .filter_map(|process| machine::memory(process).ok())
        .map(|memory| memory.peak)
        .sum())
}
