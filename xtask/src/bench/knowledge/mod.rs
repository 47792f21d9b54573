//! `cargo xtask bench knowledge`: how good the search is, how fast texts are embedded against onnxruntime, how another knowledge
//! base does on the same documents, how files are taken in, and how the indexes behave from ten thousand chunks to a million.

mod documents;
mod embedding;
mod ingest;
mod meanwhile;
mod peer;
mod quality;
mod report;
mod resting;
mod scale;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{document, machine};
use crate::scratch::ScratchFolder;
use crate::workspace::{DIST, Profile, RELEASE, Workspace};
use crate::{command, peers};
use documents::Part;
use report::Results;
use resting::Resting;

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// A set with known answers: a folder with corpus.jsonl, queries.jsonl and qrels.tsv; may be given several times
    #[arg(long = "set", value_name = "FOLDER")]
    sets: Vec<PathBuf>,
    /// How many chunks to index; may be given several times
    #[arg(long = "chunks", value_name = "N", default_values_t = [10_000, 100_000, 1_000_000])]
    chunks: Vec<u64>,
    /// A cross-encoder for a second measurement of each set: a folder that has it, or a name that `hindcast models pull` knows
    #[arg(long, value_name = "NAME|FOLDER")]
    reranker: Option<String>,
    /// How many small files to take in, such as a million; may be given several times
    #[arg(long = "files", value_name = "N", default_values_t = [1_000, 10_000, 100_000])]
    files: Vec<u64>,
    /// Documents to ask about, ours and the peer; may be given several times
    #[arg(
        long = "documents",
        value_name = "PART",
        value_enum,
        default_values_t = [Part::Python, Part::Rust, Part::Debian, Part::Notes]
    )]
    documents: Vec<Part>,
    /// Rounds of each embedder
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure what `cargo build --release` makes, which takes less time to build
    #[arg(long)]
    release: bool,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
}

impl Options {
    /// What was asked for, with the sets by their names.
    fn command(&self) -> String {
        let mut command = "cargo xtask bench knowledge".to_owned();
        for set in self.sets.iter().filter_map(|set| set.file_name()) {
            command += &format!(" --set {}", set.to_string_lossy());
        }
        for files in &self.files {
            command += &format!(" --files {files}");
        }
        if self.release {
            command += " --release";
        }
        command
    }
}

/// Measures everything in one run.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    peers::prepare(workspace)?;
    peers::prepare_knowledge(workspace)?;
    let (profile, profile_name) =
        if options.release { (Profile::Release, RELEASE) } else { (Profile::Dist, DIST) };
    let hindcast = workspace.build_hindcast(profile)?;
    let measure = build_measure(workspace, profile_name)?;
    let scratch = ScratchFolder::create(workspace, "bench-knowledge")?;
    let watch = machine::TreeWatch::start()?;

    let embedding = embedding::measure(workspace, &measure, usize::from(options.rounds))?;
    let quality = options
        .sets
        .iter()
        .map(|set| quality::measure(workspace, &hindcast, set, options.reranker.as_deref(), scratch.path()))
        .collect::<Result<Vec<_>>>()?;
    let peer = peer::measure(workspace, &hindcast, &options.documents, scratch.path())?;
    let ingest = ingest::measure(workspace, &hindcast, &options.files, scratch.path())?;
    let resting = Resting::begin(workspace, &hindcast, scratch.path())?;
    let scale = options
        .chunks
        .iter()
        .map(|&chunks| scale::measure(&measure, chunks, scratch.path()))
        .collect::<Result<Vec<_>>>()?;
    let results = Results {
        command: options.command(),
        machine: machine::describe_with(profile_name)?,
        neighbours_share: watch.share()?,
        rounds: options.rounds,
        embedding,
        quality,
        reranker: options.reranker.as_deref().map(quality::name_of),
        peer,
        ingest,
        scale,
        resting: resting.end()?,
    };
    let section = results.section();
    println!("\n{section}");
    match options.print {
        true => Ok(()),
        false => document::write_section(workspace, "knowledge", &section),
    }
}

/// The program that drives the engines themselves.
fn build_measure(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let arguments = ["build", "--profile", profile, "--package=hindcast-stores", "--example=measure"];
    command::run(&mut workspace.cargo(&arguments))?;
    Ok(workspace.target.join(profile).join("examples/measure"))
}
