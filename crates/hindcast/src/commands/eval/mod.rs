//! `hindcast knowledge eval`: how good the search is, measured on a set with known answers.
//!
//! It goes the way of every document: files are taken into a collection of a data folder, which lives as long as the
//! measurement, and searched as an agent searches.

mod judged_set;

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use hindcast_core::{identity::Caller, knowledge::Ownership};
use hindcast_services::{
    Events,
    knowledge::{
        self, AddRequest, FileOutcome, KnowledgeService, Material, SearchRequest, fusion::looks_like_code,
        quality::Quality,
    },
};
use serde_json::json;

use super::{print_json, print_text, progress_line::ProgressLine};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{EvaluateKnowledge, SearchMode},
    wiring,
};
use judged_set::{CorpusRow, JudgedSet};

const COLLECTION: &str = "eval";
/// Documents of several chunks take several places, so a few more than the hundred that are looked at.
const HITS: usize = 150;

pub(super) async fn run(config: &Config, options: &EvaluateKnowledge) -> Result<ExitCode> {
    let set = JudgedSet::read(options)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let corpus = scratch.path().join("corpus");
    write_corpus(&set.corpus, &corpus)?;
    let mut config = config.clone();
    let data = DataFolder::open(&scratch.path().join("data"))?;
    if options.mode == SearchMode::Lexical {
        config.knowledge.fetch_model = false;
    } else {
        lend_models(&DataFolder::existing(&config.data_dir)?, &data)?;
    }
    config.data_dir = scratch.path().join("data");
    config.knowledge.allowed_folders.clear();
    // What is tried goes with the folder.
    config.store = Default::default();
    let (service, indexes) = wiring::knowledge(&config, &data, None, &Events::default())?;
    let begin = Instant::now();
    take_in(&service, &corpus).await?;
    let ingest = begin.elapsed();
    let begin = Instant::now();
    let quality = ask(&service, &set, options.mode).await?;
    let measured = Measured { quality, ingest, search: begin.elapsed() };
    drop(service);
    drop(indexes);
    let vectors = wiring::qdrant(&config.vectors, || Ok(wiring::knowledge_store(&config, &data)?.name()?))?;
    if let Some(vectors) = vectors {
        // What was measured is not needed any more.
        tokio::task::spawn_blocking(move || vectors.remove_all()).await??;
    }
    report(options, &set, &measured)?;
    Ok(ExitCode::SUCCESS)
}

struct Measured {
    quality: Quality,
    ingest: Duration,
    search: Duration,
}

/// A file a document, named by its place, in the format that it looks like.
fn write_corpus(rows: &[CorpusRow], folder: &Path) -> Result<()> {
    fs::create_dir(folder).context("cannot make a temporary folder")?;
    for (place, CorpusRow { title, text, .. }) in rows.iter().enumerate() {
        let (extension, text) = match (looks_like_code(text), title.is_empty()) {
            (true, _) => ("py", text.clone()),
            (false, true) => ("txt", text.clone()),
            (false, false) => ("md", format!("# {}\n\n{text}\n", title.replace('\n', " "))),
        };
        fs::write(folder.join(format!("{place}.{extension}")), text)
            .context("cannot write a temporary file")?;
    }
    Ok(())
}

/// Lets the passing data folder use the models of the lasting one.
fn lend_models(from: &DataFolder, to: &DataFolder) -> Result<()> {
    if !from.models().is_dir() {
        bail!("there is no embedding model in the data folder · hint: run `hindcast models pull`");
    }
    for model in fs::read_dir(from.models())? {
        let model = model?;
        let folder = to.models().join(model.file_name());
        fs::create_dir_all(&folder)?;
        for file in fs::read_dir(model.path())? {
            let file = file?;
            let copy = folder.join(file.file_name());
            if fs::hard_link(file.path(), &copy).is_err() {
                fs::copy(file.path(), copy)?;
            }
        }
    }
    Ok(())
}

async fn take_in(service: &KnowledgeService, corpus: &Path) -> Result<()> {
    let material = Material::Paths { paths: vec![corpus.into()], patterns: Default::default(), watch: false };
    let request = AddRequest {
        collection: COLLECTION.into(),
        id: None,
        ownership: Ownership::Shared,
        material,
        tags: Vec::new(),
    };
    let progress = ProgressLine::new("files");
    let report = service.add(&Caller::local(), request, &progress).await?;
    progress.finish();
    for file in &report.files {
        if let FileOutcome::Failed { reason } = &file.outcome {
            tracing::warn!("{} is left out: {reason}", file.path);
        }
    }
    Ok(())
}

async fn ask(service: &KnowledgeService, set: &JudgedSet, mode: SearchMode) -> Result<Quality> {
    let mut quality = Quality::default();
    for question in &set.questions {
        let request = SearchRequest {
            query: question.text.clone(),
            collection: Some(COLLECTION.into()),
            limit: HITS,
            mode: match mode {
                SearchMode::Lexical => knowledge::SearchMode::Lexical,
                SearchMode::Dense => knowledge::SearchMode::Dense,
                SearchMode::Hybrid => knowledge::SearchMode::Hybrid,
            },
            // Each document is judged by itself.
            keeps_duplicates: true,
            ..SearchRequest::default()
        };
        let answer = service.search(&Caller::local(), request).await?;
        if let (Some(notice), true) = (answer.notices.first(), mode != SearchMode::Lexical) {
            bail!("{notice}");
        }
        let mut seen = HashSet::new();
        let places = answer.hits.iter().filter_map(|hit| {
            let path = Path::new(&hit.found.document.source.as_ref()?.path);
            path.file_stem()?.to_str()?.parse::<usize>().ok()
        });
        let found: Vec<String> =
            places.filter(|place| seen.insert(*place)).map(|place| set.corpus[place].id.clone()).collect();
        quality.count(&found, &set.judgements[&question.id]);
    }
    Ok(quality)
}

fn report(options: &EvaluateKnowledge, set: &JudgedSet, measured: &Measured) -> Result<()> {
    let mode = match options.mode {
        SearchMode::Lexical => "lexical",
        SearchMode::Dense => "dense",
        SearchMode::Hybrid => "hybrid",
    };
    let Quality { ndcg_at_10, recall_at_100, questions } = measured.quality;
    let documents = set.corpus.len();
    if options.output.json {
        return print_json(&json!({
            "mode": mode,
            "ndcg_at_10": ndcg_at_10,
            "recall_at_100": recall_at_100,
            "queries": questions,
            "documents": documents,
            "ingest_seconds": measured.ingest.as_secs_f64(),
            "search_seconds": measured.search.as_secs_f64(),
        }));
    }
    print_text(&format!(
        "{mode}: nDCG@10 {ndcg_at_10:.4}, recall@100 {recall_at_100:.4} ({questions} questions, {documents} documents)\n"
    ))
}
