//! nDCG and recall on sets with known answers, through the product's own command.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::Workspace;
use crate::{command, peers};

/// What `hindcast knowledge eval` tells.
#[derive(Deserialize)]
pub(super) struct Figures {
    pub(super) mode: String,
    pub(super) ndcg_at_10: f64,
    pub(super) recall_at_100: f64,
    pub(super) queries: usize,
    pub(super) documents: usize,
}

/// All modes on one set.
pub(super) struct SetFigures {
    pub(super) name: String,
    /// Lexical, dense, hybrid.
    pub(super) modes: Vec<Figures>,
    /// Hybrid, with a cross-encoder that reads the best passages.
    pub(super) reranked: Option<Figures>,
}

/// The name that a cross-encoder has once it is pulled.
pub(super) fn name_of(reranker: &str) -> String {
    let name = reranker.trim_end_matches('/');
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// Evaluates every mode.
pub(super) fn measure(
    workspace: &Workspace,
    hindcast: &Path,
    set: &Path,
    reranker: Option<&str>,
    scratch: &Path,
) -> Result<SetFigures> {
    let data = scratch.join("data");
    let models = peers::models_folder(workspace).join("all-MiniLM-L6-v2");
    let run = |arguments: &[&str]| {
        let mut hindcast = Command::new(hindcast);
        hindcast.arg("--data-dir").arg(&data).args(arguments);
        hindcast
    };
    command::capture(run(&["models", "pull", "--from"]).arg(models))?;
    if let Some(reranker) = reranker {
        let mut pull = run(&["models", "pull"]);
        match Path::new(reranker).is_dir() {
            true => pull.arg(name_of(reranker)).arg("--from").arg(reranker),
            false => pull.arg(reranker),
        };
        command::capture(&mut pull)?;
    }
    let evaluate = |mode: &str, reranker: &str| -> Result<Figures> {
        println!("evaluating {mode} on {}, reranker: {reranker}", set.display());
        let mut eval = run(&["knowledge", "eval", "--json", "--mode", mode]);
        eval.env("HINDCAST_KNOWLEDGE_RERANKER", reranker);
        for (flag, file) in
            [("--corpus", "corpus.jsonl"), ("--queries", "queries.jsonl"), ("--qrels", "qrels.tsv")]
        {
            eval.arg(flag).arg(set.join(file));
        }
        Ok(serde_json::from_str(&command::capture(&mut eval)?)?)
    };
    let modes = ["lexical", "dense", "hybrid"];
    let modes = modes.into_iter().map(|mode| evaluate(mode, "off")).collect::<Result<_>>()?;
    let reranked = reranker.map(|reranker| evaluate("hybrid", &name_of(reranker))).transpose()?;
    let name = set.file_name().context("a set is a folder with a name")?.to_string_lossy().into_owned();
    Ok(SetFigures { name, modes, reranked })
}
