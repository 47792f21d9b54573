//! One list out of two: what was found by its words and what was found by its meaning.

use std::collections::HashMap;

use hindcast_core::knowledge::{ChunkId, ScoredChunk};

/// What is known about the material besides the scores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence {
    /// Which share of the candidates is source code, 0..1.
    pub code_share: f32,
}

impl Evidence {
    /// From whether each candidate is source code.
    pub fn from_candidates(is_code: impl Iterator<Item = bool>) -> Self {
        let (code, all) = is_code.fold((0, 0), |(code, all), is_code| (code + u32::from(is_code), all + 1));
        Self { code_share: if all == 0 { 0.0 } else { code as f32 / all as f32 } }
    }
}

/// Whether a text of unknown kind is source code, by how its lines end and what stands in them.
pub fn looks_like_code(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let telling = |line: &&&str| {
        line.ends_with(['{', '}', ';', ':', ')', ',', '\\', ']'])
            || ["def ", "class ", "return", "import ", "from ", "if ", "for ", "#", "//", "@", "\"\"\""]
                .iter()
                .any(|beginning| line.starts_with(beginning))
            || [" = ", "->", "=>", "==", "()", "::", "+="].iter().any(|part| line.contains(part))
    };
    lines.len() >= 2 && lines.iter().filter(telling).count() * 2 > lines.len()
}

/// How much meaning counts against words in prose and in code: questions are asked in prose, so the words of code say less.
const DENSE_WEIGHT_PROSE: f32 = 0.6;
const DENSE_WEIGHT_CODE: f32 = 0.9;

/// Joins the two lists, best first, with relevances of 0..1. Either list may be empty: the other then decides alone.
pub fn fuse(lexical: &[ScoredChunk], dense: &[ScoredChunk], evidence: Evidence) -> Vec<ScoredChunk> {
    let dense_weight = match (lexical.is_empty(), dense.is_empty()) {
        (_, true) => 0.0,
        (true, false) => 1.0,
        (false, false) => {
            DENSE_WEIGHT_PROSE
                + (DENSE_WEIGHT_CODE - DENSE_WEIGHT_PROSE) * evidence.code_share.clamp(0.0, 1.0)
        }
    };
    let mut relevances: HashMap<ChunkId, f32> = HashMap::with_capacity(lexical.len() + dense.len());
    for (list, weight) in [(lexical, 1.0 - dense_weight), (dense, dense_weight)] {
        for hit in list {
            *relevances.entry(hit.chunk).or_default() += weight * hit.score.clamp(0.0, 1.0);
        }
    }
    let mut fused: Vec<_> =
        relevances.into_iter().map(|(chunk, score)| ScoredChunk { chunk, score }).collect();
    fused.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.chunk.cmp(&other.chunk)));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(scores: &[(i64, f32)]) -> Vec<ScoredChunk> {
        scores.iter().map(|&(chunk, score)| ScoredChunk { chunk: ChunkId(chunk), score }).collect()
    }

    #[test]
    fn one_list_alone_keeps_its_order_and_scores() {
        let only = hits(&[(3, 0.9), (1, 0.4), (2, 0.1)]);
        assert_eq!(fuse(&only, &[], Evidence::default()), only);
        assert_eq!(fuse(&[], &only, Evidence::default()), only);
    }

    #[test]
    fn what_both_lists_have_comes_first() {
        let fused =
            fuse(&hits(&[(1, 0.5), (2, 0.45)]), &hits(&[(3, 0.5), (2, 0.45)]), Evidence { code_share: 0.0 });
        assert_eq!(fused[0].chunk, ChunkId(2));
        assert!(fused.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
    }
}
