//! Texts a second, ours and onnxruntime's, on the same texts, model and number of threads.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::peers;
use crate::workspace::Workspace;

const TEXTS: usize = 64;
/// More than the model's window, whatever the words: every text is 256 tokens.
const WORDS: usize = 300;
/// Measured to be the best of 1 to 32 for onnxruntime; ours chooses for itself.
const PEER_BATCH: &str = "8";

/// One embedder in one round.
#[derive(Deserialize)]
struct Round {
    seconds: f64,
    processor_seconds: f64,
    vectors: Vec<Vec<f32>>,
}

/// What was measured of one embedder.
pub(super) struct Figures {
    /// Of the best round.
    pub(super) texts_per_second: f64,
    /// Processor time of the best round, for a text.
    pub(super) processor_ms_per_text: f64,
}

/// Both embedders.
pub(super) struct Comparison {
    pub(super) threads: usize,
    pub(super) ours: Figures,
    pub(super) peer: Figures,
    /// The smallest cosine between the two vectors of a text.
    pub(super) agreement: f32,
}

/// Both take turns, so that a busy neighbour disturbs both.
pub(super) fn measure(workspace: &Workspace, measure: &Path, rounds: usize) -> Result<Comparison> {
    let models = peers::models_folder(workspace);
    let threads = std::thread::available_parallelism()?.get();
    let texts = texts()?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(round(Command::new(measure).arg("embed").arg(&models), &texts)?);
        let mut python = Command::new(peers::embedding_python(workspace));
        python.arg(workspace.root.join("peers/embedding/embed.py")).arg(models.join("all-MiniLM-L6-v2"));
        peer.push(round(python.args([&threads.to_string(), PEER_BATCH]), &texts)?);
    }
    let pairs = ours[0].vectors.iter().zip(&peer[0].vectors);
    let cosine =
        |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>();
    let agreement = pairs.map(|(one, other)| cosine(one, other)).fold(1.0, f32::min);
    Ok(Comparison { threads, ours: best(&ours)?, peer: best(&peer)?, agreement })
}

fn best(rounds: &[Round]) -> Result<Figures> {
    let best =
        rounds.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds)).context("no round")?;
    Ok(Figures {
        texts_per_second: TEXTS as f64 / best.seconds,
        processor_ms_per_text: best.processor_seconds * 1e3 / TEXTS as f64,
    })
}

/// Everyday words in ever another order, one JSON string a line.
fn texts() -> Result<String> {
    const VOCABULARY: [&str; 24] = [
        "the", "server", "answers", "a", "request", "within", "time", "and", "writes", "every", "row",
        "before", "it", "sends", "what", "was", "asked", "index", "memory", "reads", "pages", "from", "disk",
        "again",
    ];
    let mut lines = String::new();
    for text in 0..TEXTS {
        let words: Vec<&str> = (0..WORDS)
            .map(|word| VOCABULARY[(word * (text * 2 + 7) + word / 5) % VOCABULARY.len()])
            .collect();
        lines.push_str(&serde_json::to_string(&words.join(" "))?);
        lines.push('\n');
    }
    Ok(lines)
}

fn round(command: &mut Command, texts: &str) -> Result<Round> {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start")?;
    process.stdin.take().context("no input")?.write_all(texts.as_bytes())?;
    let output = process.wait_with_output()?;
    if !output.status.success() {
        bail!("an embedder ended with {}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
