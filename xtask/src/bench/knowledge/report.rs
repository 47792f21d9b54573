//! The part of docs/benchmarks.md that `cargo xtask bench knowledge` writes.

use super::embedding::Comparison;
use super::ingest::{Figures as IngestFigures, Files};
use super::meanwhile::{FILES as MEANWHILE_FILES, Meanwhile};
use super::peer::{Comparison as PeerComparison, Figures as PeerFigures};
use super::quality::SetFigures;
use super::resting::Figures as RestingFigures;
use super::scale::Figures as ScaleFigures;
use crate::bench::document::{busy_warning, goal, megabytes};

const EMBEDDING_GOAL: f64 = 0.9;
const HYBRID_GOAL: f64 = 0.6;
const RECALL_GOAL: f64 = 0.98;
const SEARCH_GOAL_MS: f64 = 10.0;
const OPEN_GOAL_MS: f64 = 2_000.0;
const RESTED_GOAL_MB: f64 = 60.0;
const FLAT_GOAL: f64 = 0.8;
const MEANWHILE_GOAL: f64 = 2.0;
const HITS_GOAL_BYTES: usize = 5_000;

const NO_RERANKER: &str = "Nothing was reranked: no cross-encoder was given with `--reranker`, and neither npm, PyPI, crates.io nor \
                           Debian offers one\n(looked through; see `docs/decisions.md`).";

/// Everything one run measured.
pub(super) struct Results {
    /// What was asked for.
    pub(super) command: String,
    pub(super) machine: String,
    pub(super) neighbours_share: f64,
    pub(super) rounds: u16,
    pub(super) embedding: Comparison,
    pub(super) quality: Vec<SetFigures>,
    /// The cross-encoder that sets were measured with, too.
    pub(super) reranker: Option<String>,
    pub(super) peer: PeerComparison,
    pub(super) ingest: IngestFigures,
    pub(super) scale: Vec<ScaleFigures>,
    pub(super) resting: RestingFigures,
}

impl Results {
    /// The section as Markdown.
    pub(super) fn section(&self) -> String {
        let mut lines = vec![
            "## Knowledge".to_owned(),
            String::new(),
            format!("`{}` on {}.", self.command, self.machine),
            String::new(),
        ];
        lines.extend(busy_warning(self.neighbours_share));
        lines.extend(self.embedding_lines());
        lines.extend(self.quality_lines());
        lines.extend(self.peer.lines());
        lines.extend(self.ingest.lines());
        lines.extend(self.scale_lines());
        lines.extend(["Goals:".to_owned(), String::new()]);
        lines.extend(self.goals());
        lines.join("\n")
    }

    fn embedding_lines(&self) -> Vec<String> {
        let Comparison { threads, ours, peer, agreement } = &self.embedding;
        vec![
            format!(
                "Embedding by all-MiniLM-L6-v2: texts of 256 tokens on {threads} threads, the same checkpoint by onnxruntime \
                 (version in\n`peers/embedding/`) in the same run, in turns, best of {} rounds. The vectors of the two agree \
                 to a cosine of {agreement:.4} or\nbetter.",
                self.rounds
            ),
            String::new(),
            "| | texts/s | processor ms a text |".into(),
            "|---|--:|--:|".into(),
            format!("| hindcast | {:.1} | {:.1} |", ours.texts_per_second, ours.processor_ms_per_text),
            format!("| onnxruntime | {:.1} | {:.1} |", peer.texts_per_second, peer.processor_ms_per_text),
            String::new(),
        ]
    }

    fn quality_lines(&self) -> Vec<String> {
        if self.quality.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![
            "How good the search is on sets with known answers (`hindcast knowledge eval`), nDCG@10 / recall@100.".into(),
            String::new(),
        ];
        let (name, line) = match &self.reranker {
            Some(reranker) => (format!(" reranked by {reranker} |"), "--:|"),
            None => (String::new(), ""),
        };
        lines.push(format!("| set | documents | questions | lexical | dense | hybrid |{name}"));
        lines.push(format!("|---|--:|--:|--:|--:|--:|{line}"));
        for set in &self.quality {
            let cells: Vec<String> = set
                .modes
                .iter()
                .chain(&set.reranked)
                .map(|figures| format!("{:.3} / {:.3}", figures.ndcg_at_10, figures.recall_at_100))
                .collect();
            let (documents, queries) =
                set.modes.first().map_or((0, 0), |mode| (mode.documents, mode.queries));
            lines.push(format!("| {} | {documents} | {queries} | {} |", set.name, cells.join(" | ")));
        }
        lines.push(String::new());
        if self.reranker.is_none() {
            lines.extend([NO_RERANKER.to_owned(), String::new()]);
        }
        lines
    }

    fn scale_lines(&self) -> Vec<String> {
        let mut lines = vec![
            "The indexes with made-up chunks of 120 words and vectors of 384 numbers. A search asks both indexes at once for a \
             hundred\ncandidates; opening includes the first search by meaning, in a process of its own, with the files in the \
             system's cache. The memory is\nwhat was resident after 500 searches, mapped files included."
                .into(),
            String::new(),
            "| chunks | words/s | vectors/s | disk MB | open ms | search p50 / p99 ms | words p50 | vectors p50 | resident MB | \
             recall@10 |"
                .into(),
            "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|".into(),
        ];
        for ScaleFigures { filling, searching, disk_mb } in &self.scale {
            lines.push(format!(
                "| {} | {:.0} | {:.0} | {disk_mb:.0} | {:.0} | {:.2} / {:.2} | {:.2} | {:.2} | {:.0} | {:.3} |",
                searching.chunks,
                filling.lexical_chunks_per_second,
                filling.vectors_per_second,
                searching.open_ms,
                searching.search_ms.p50,
                searching.search_ms.p99,
                searching.lexical_ms.p50,
                searching.vectors_ms.p50,
                searching.resident_mb,
                searching.recall_at_10,
            ));
        }
        lines.push(String::new());
        lines
    }

    fn goals(&self) -> Vec<String> {
        let ratio = self.embedding.ours.texts_per_second / self.embedding.peer.texts_per_second;
        let mut goals = vec![goal(
            ratio >= EMBEDDING_GOAL,
            &format!("embedding at 0.9 of onnxruntime's rate: {ratio:.2}"),
        )];
        for set in &self.quality {
            let of = |mode: &str| {
                set.modes.iter().find(|figures| figures.mode == mode).map_or(0.0, |mode| mode.ndcg_at_10)
            };
            let (better, hybrid) = (of("lexical").max(of("dense")), of("hybrid"));
            let name = &set.name;
            goals.push(goal(
                hybrid >= better,
                &format!("hybrid on {name} not below its better half: {hybrid:.3} and {better:.3}"),
            ));
            if name == "cosqa" {
                goals.push(goal(hybrid >= HYBRID_GOAL, &format!("hybrid on cosqa at 0.60: {hybrid:.3}")));
            }
        }
        goals.extend(self.ingest.goals());
        for ScaleFigures { searching, .. } in &self.scale {
            let (chunks, recall) = (searching.chunks, searching.recall_at_10);
            goals.push(goal(
                recall >= RECALL_GOAL,
                &format!("98 of 100 of the ten nearest of {chunks} found: {recall:.3}"),
            ));
        }
        if let Some(ScaleFigures { searching, .. }) =
            self.scale.iter().max_by_key(|figures| figures.searching.chunks)
        {
            let (chunks, p50, open) = (searching.chunks, searching.search_ms.p50, searching.open_ms);
            goals.push(goal(
                p50 < SEARCH_GOAL_MS,
                &format!("half of the searches in {chunks} chunks within 10 ms: {p50:.2} ms"),
            ));
            goals
                .push(goal(open < OPEN_GOAL_MS, &format!("{chunks} chunks opened within 2 s: {open:.0} ms")));
        }
        let RestingFigures { with_model, rested, rested_anonymous } = self.resting;
        let (with_model, rested) = (megabytes(with_model), megabytes(rested));
        let mapped = rested - megabytes(rested_anonymous);
        goals.push(goal(
            rested < RESTED_GOAL_MB,
            &format!(
                "a server that has searched rests within 60 MB once the model is unloaded: {rested:.1} MB, {mapped:.1} MB \
                 of them mapped files ({with_model:.1} MB with the model)"
            ),
        ));
        goals
    }
}

impl PeerComparison {
    fn lines(&self) -> Vec<String> {
        let Self { files, bytes, questions, ours, peer } = self;
        let mut lines = vec![
            format!(
                "Another knowledge base, mcp-local-rag (version in `peers/knowledge/`), with the same {files} documents ({:.1} MB of \
                 Markdown, turned\ninto it by turndown for both) and the same embedding model, both as they are set up by default \
                 and over MCP. Its copy of the\nmodel is made from our checkpoint, as an ONNX file. {questions} of the questions below \
                 are about these documents; a hit counts by the same rule,\nwith a file's title in place of headings. Five hits \
                 are asked for; passages of ours are cut to fit 5 kB unless they are asked for whole,\nwith `context: 1`, and then \
                 come with what stands around them. The memory is the most that the server had, taking in included.",
                *bytes as f64 / 1e6
            ),
            String::new(),
            "| | first hit right | among the first five | search p50 ms | bytes of an answer |".into(),
            "|---|--:|--:|--:|--:|".into(),
        ];
        let share =
            |count: usize| format!("{count}, {:.1} %", 100.0 * count as f64 / (*questions).max(1) as f64);
        for answers in ours.answers.iter().chain(&peer.answers) {
            lines.push(format!(
                "| {} | {} | {} | {:.1} | {} |",
                answers.name,
                share(answers.first),
                share(answers.five),
                answers.search_p50_ms,
                answers.bytes
            ));
        }
        lines.extend([
            String::new(),
            "| | taken in within s | passages | peak memory MB |".into(),
            "|---|--:|--:|--:|".into(),
        ]);
        for PeerFigures { name, ingest_seconds, passages, peak_memory, .. } in [ours, peer] {
            let memory = megabytes(*peak_memory);
            lines.push(format!("| {name} | {ingest_seconds:.0} | {passages} | {memory:.0} |"));
        }
        lines.push(String::new());
        lines
    }
}

impl IngestFigures {
    fn lines(&self) -> Vec<String> {
        let Self { small, pages, by_words, beside, hybrid } = self;
        let mut lines = vec![
            "Taking files in with `hindcast knowledge add`, words only: small notes in growing numbers, and the pages of Python's \
             library\nreference."
                .into(),
            String::new(),
            "| files | files/s |".into(),
            "|--:|--:|".into(),
        ];
        lines.extend(small.iter().map(|files| format!("| {} | {:.0} |", files.files, files.per_second)));
        lines.push(format!("| {} pages of HTML | {:.0} |", pages.files, pages.per_second));
        lines.extend([
            String::new(),
            format!(
                "Searches before and while a server takes other files in. By words: in those pages, while {MEANWHILE_FILES} small \
                 files are taken in without\nembedding. Hybrid: in six of the pages, while all of them are taken into another \
                 collection and embedded by the same model. Five hits\ntake {} bytes on average and {} at most.",
                by_words.hits_bytes.0, by_words.hits_bytes.1
            ),
            String::new(),
            "| search | before, p50 ms | during, p50 ms | searches during it |".into(),
            "|---|--:|--:|--:|".into(),
        ]);
        let row = |name, figures: &Meanwhile| {
            format!("| {name} | {:.1} | {:.1} | {} |", figures.before_ms, figures.during_ms, figures.during)
        };
        lines.extend([
            row("by words", by_words),
            row("by words, added by another process", beside),
            row("hybrid", hybrid),
            String::new(),
        ]);
        lines
    }

    fn goals(&self) -> Vec<String> {
        let Self { small, by_words, beside, hybrid, .. } = self;
        let told: Vec<_> = small.iter().map(|files| format!("{:.0}", files.per_second)).collect();
        let meanwhile = |name, figures: &Meanwhile| {
            let ratio = figures.ratio();
            goal(
                ratio <= MEANWHILE_GOAL,
                &format!("{name} during an ingest within twice their usual time: {ratio:.2}"),
            )
        };
        vec![
            goal(
                is_flat(small),
                &format!("files a second fall by no more than 20 % with their number: {}", told.join(", ")),
            ),
            meanwhile("searches by words", by_words),
            meanwhile("searches by words beside another process", beside),
            meanwhile("hybrid searches with the model", hybrid),
            goal(
                by_words.hits_bytes.0 <= HITS_GOAL_BYTES,
                &format!("five hits within 5 kB on average: {} bytes", by_words.hits_bytes.0),
            ),
        ]
    }
}

/// Whether a file costs about the same in every number of files: each is compared with all smaller ones.
fn is_flat(small: &[Files]) -> bool {
    small.iter().all(|more| {
        let fewer = small.iter().filter(|fewer| fewer.files < more.files);
        fewer.into_iter().all(|fewer| more.per_second >= FLAT_GOAL * fewer.per_second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_files_is_compared_with_all_smaller_ones() {
        let flat = |rates: &[(u64, f64)]| {
            let small: Vec<_> =
                rates.iter().map(|&(files, per_second)| Files { files, per_second }).collect();
            is_flat(&small)
        };
        assert!(flat(&[(1_000, 429.0), (10_000, 889.0), (100_000, 1135.0), (1_000_000, 910.0)]));
        assert!(!flat(&[(1_000, 429.0), (10_000, 889.0), (100_000, 1135.0), (1_000_000, 890.0)]));
        assert!(flat(&[(1_000_000, 910.0), (1_000, 429.0)]), "in any order");
    }
}
