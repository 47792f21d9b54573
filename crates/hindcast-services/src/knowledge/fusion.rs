//! One list out of two: what was found by its words and what was found by its meaning.

use std::collections::HashMap;

use hindcast_core::knowledge::{ChunkId, ScoredChunk};

/// What is known about the material besides the scores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence {
    /// Which share of the candidates is source code, 0..1.
    pub code_share: f32,
    /// Whether the question has only words that every text has.
    pub says_nothing: bool,
    /// Whether the question is in a language that no model here knows: their cosines then say little.
    pub is_foreign: bool,
    /// How many chunks were searched, about.
    pub searched: u64,
}

impl Evidence {
    /// From whether each candidate is source code.
    pub fn from_candidates(is_code: impl Iterator<Item = bool>) -> Self {
        let (code, all) = is_code.fold((0, 0), |(code, all), is_code| (code + u32::from(is_code), all + 1));
        Self { code_share: if all == 0 { 0.0 } else { code as f32 / all as f32 }, ..Self::default() }
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
const DENSE_WEIGHT_PROSE: f32 = 0.55;
const DENSE_WEIGHT_CODE: f32 = 0.92;

/// The same for questions in a language that the model does not know: names and loanwords still tell a little. What is near by
/// meaning alone is no more relevant than this: to such a model all texts in Japanese are alike.
const DENSE_WEIGHT_FOREIGN: f32 = 0.15;

/// A chunk that has every word of a question once has about two thirds of this of the most there could be.
const ALL_THE_WORDS: f32 = 1.5;

/// The cosine of texts that have nothing to do with each other reaches this among a few, the most with letters that are no words
/// (measured: `asdf` 0.22, `qwertz uiop` 0.26); a passage that answers a question reaches the last.
const NO_MEANING: f32 = 0.2;
const FULL_MEANING: f32 = 0.65;

/// How widely such cosines scatter. The best of many is further out than the best of a few (measured: up to 0.33 among 11,645).
const SCATTER: f32 = 0.0775;

/// What the best of so many unrelated texts reaches, as the largest of so many normal numbers does.
fn no_meaning(among: u64) -> f32 {
    (SCATTER * (2.0 * (among.max(1) as f32).ln()).sqrt()).max(NO_MEANING)
}

/// With words to go by, less meaning is something.
const LITTLE_MEANING: f32 = 0.15;

/// A passage that answers has this share of what could be had by words.
const FULL_WORDS: f32 = 0.8;

/// Where the model does not know the language, a passage with this share or less does not answer (measured in German, French and
/// Japanese: 30 questions that the documents do not answer reach 0.41, 19 that they do 0.44 and more).
const NO_ANSWER_BY_WORDS: f32 = 0.36;

/// Relevance by words alone is raised to this power: a passage with half of the words of a question rarely answers it.
const BY_WORDS_ALONE: f32 = 1.6;

/// This much by words stays above what counts as nothing.
const A_FEW_WORDS: f32 = 0.16;

/// What is left of a relevance where the question has no word that tells texts apart.
const SAYS_NOTHING: f32 = 0.15;

/// Log-odds of cross-encoders: that a passage has nothing to do with the question, and that it surely answers it. What is told between
/// them grows evenly, because an answer that is only a part of its passage often has log-odds below zero.
const NO_ANSWER: f32 = -6.0;
const SURE_ANSWER: f32 = 6.0;

/// The relevance of a passage that a cross-encoder has judged.
pub fn relevance_of_judgement(log_odds: f32) -> f32 {
    ((log_odds - NO_ANSWER) / (SURE_ANSWER - NO_ANSWER)).clamp(0.0, 1.0)
}

/// Joins the two lists, best first, with relevances of 0..1. Either list may be empty: the other then decides alone.
///
/// Both kinds of scores mean the same for every question (a cosine, a share of the words), so they are added as they are:
/// stretching each list to 0..1 first, as is often done, was no better and makes the best of nothing look like a good hit.
pub fn fuse(lexical: &[ScoredChunk], dense: &[ScoredChunk], evidence: Evidence) -> Vec<ScoredChunk> {
    let words = |hit: &ScoredChunk| (hit.chunk, (hit.score * ALL_THE_WORDS).clamp(0.0, 1.0));
    let meaning = |hit: &ScoredChunk| (hit.chunk, hit.score.clamp(0.0, 1.0));
    let scale = |none: f32, full: f32| {
        let full = if evidence.says_nothing { none + (full - none) / SAYS_NOTHING } else { full };
        Scale {
            none,
            full,
            power: 1.0,
            most: 1.0,
            few: if evidence.says_nothing { 0.0 } else { A_FEW_WORDS },
        }
    };
    let Some(last) = dense.last() else {
        let scale = Scale { power: BY_WORDS_ALONE, ..scale(0.0, 1.0) };
        return best_first(lexical.iter().map(words), scale);
    };
    if lexical.is_empty() {
        let most = if evidence.is_foreign { DENSE_WEIGHT_FOREIGN } else { 1.0 };
        let scale = Scale { most, ..scale(no_meaning(evidence.searched), FULL_MEANING) };
        return best_first(dense.iter().map(meaning), scale);
    }
    let dense_weight = match evidence.is_foreign {
        true => DENSE_WEIGHT_FOREIGN,
        false => {
            DENSE_WEIGHT_PROSE
                + (DENSE_WEIGHT_CODE - DENSE_WEIGHT_PROSE) * evidence.code_share.clamp(0.0, 1.0)
        }
    };
    // What the list of the near does not have is further away than its last, but not by much.
    let furthest = dense_weight * meaning(last).1;
    let mut relevances: HashMap<ChunkId, f32> =
        dense.iter().map(meaning).map(|(chunk, score)| (chunk, dense_weight * score)).collect();
    for (chunk, score) in lexical.iter().map(words) {
        *relevances.entry(chunk).or_insert(furthest) += (1.0 - dense_weight) * score;
    }
    let by_words = |share: f32| (1.0 - dense_weight) * share;
    let scale = match evidence.is_foreign {
        // What the furthest has, every text has.
        true => scale(furthest + by_words(NO_ANSWER_BY_WORDS), furthest + by_words(FULL_WORDS)),
        false => scale(dense_weight * LITTLE_MEANING, dense_weight * FULL_MEANING + by_words(FULL_WORDS)),
    };
    best_first(relevances.into_iter(), scale)
}

/// Which scores are no relevance at all and full relevance, and how relevance grows in between.
#[derive(Clone, Copy)]
struct Scale {
    none: f32,
    full: f32,
    power: f32,
    /// Up to here relevance is not raised to the power.
    few: f32,
    /// The highest relevance that is reported.
    most: f32,
}

/// Sorts, then says how good each is.
fn best_first(relevances: impl Iterator<Item = (ChunkId, f32)>, scale: Scale) -> Vec<ScoredChunk> {
    let mut sorted: Vec<_> = relevances.collect();
    sorted
        .sort_by(|(chunk, score), (other, other_score)| other_score.total_cmp(score).then(chunk.cmp(other)));
    let relevance = |score: f32| {
        let share = ((score - scale.none) / (scale.full - scale.none)).clamp(0.0, 1.0);
        scale.most * share.powf(scale.power).max(share.min(scale.few))
    };
    sorted.into_iter().map(|(chunk, score)| ScoredChunk { chunk, score: relevance(score) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(scores: &[(i64, f32)]) -> Vec<ScoredChunk> {
        scores.iter().map(|&(chunk, score)| ScoredChunk { chunk: ChunkId(chunk), score }).collect()
    }

    fn order(fused: &[ScoredChunk]) -> Vec<i64> {
        fused.iter().map(|hit| hit.chunk.0).collect()
    }

    #[test]
    fn one_list_alone_keeps_its_order() {
        let only = hits(&[(3, 0.9), (1, 0.4), (2, 0.1)]);
        assert_eq!(order(&fuse(&only, &[], Evidence::default())), [3, 1, 2]);
        assert_eq!(order(&fuse(&[], &only, Evidence::default())), [3, 1, 2]);
        assert!(fuse(&[], &[], Evidence::default()).is_empty());
    }

    #[test]
    fn what_both_lists_have_comes_first() {
        let (lexical, dense) = (hits(&[(1, 0.5), (2, 0.45)]), hits(&[(3, 0.5), (2, 0.45), (4, 0.2)]));
        let fused = fuse(&lexical, &dense, Evidence::default());
        assert_eq!(fused[0].chunk, ChunkId(2));
        assert!(fused.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
    }

    #[test]
    fn in_code_meaning_decides_and_in_prose_both_do() {
        let (lexical, dense) = (hits(&[(1, 0.5)]), hits(&[(2, 0.6), (3, 0.4)]));
        assert_eq!(
            fuse(&lexical, &dense, Evidence { code_share: 1.0, ..Evidence::default() })[0].chunk,
            ChunkId(2)
        );
        assert_eq!(
            fuse(&lexical, &dense, Evidence { code_share: 0.0, ..Evidence::default() })[0].chunk,
            ChunkId(1)
        );
    }

    #[test]
    fn words_decide_where_the_model_does_not_know_the_language() {
        let (lexical, dense) = (hits(&[(1, 0.1)]), hits(&[(2, 0.6), (3, 0.4)]));
        assert_eq!(fuse(&lexical, &dense, Evidence::default())[0].chunk, ChunkId(2));
        let foreign = Evidence { is_foreign: true, ..Evidence::default() };
        assert_eq!(fuse(&lexical, &dense, foreign)[0].chunk, ChunkId(1));
    }

    #[test]
    fn relevances_tell_a_good_hit_from_the_best_of_nothing() {
        let best = |lexical: f32, dense: f32| {
            fuse(&hits(&[(1, lexical)]), &hits(&[(1, dense)]), Evidence::default())[0].score
        };
        let minimum = 0.3;
        assert!(best(0.4, 0.6) > 2.0 * minimum);
        assert!(best(0.0, 0.5) > minimum, "found by its meaning alone");
        assert!(best(0.05, 0.2) < minimum);
        let by_meaning = |dense: f32| fuse(&[], &hits(&[(1, dense)]), Evidence::default())[0].score;
        assert!(by_meaning(0.26) < 0.15, "letters that are no words");
        assert!(by_meaning(0.4) > minimum);
        let among = |searched: u64, dense: f32| {
            fuse(&[], &hits(&[(1, dense)]), Evidence { searched, ..Evidence::default() })[0].score
        };
        assert!(
            among(12_000, 0.33) < 0.05 && among(12_000, 0.5) > minimum,
            "the best of many unrelated texts"
        );
        assert!(among(1_000_000, 0.6) > minimum);
        let foreign = Evidence { is_foreign: true, ..Evidence::default() };
        let by_words =
            |share: f32, evidence| fuse(&hits(&[(1, share / ALL_THE_WORDS)]), &[], evidence)[0].score;
        let few = by_words(0.25, Evidence::default());
        assert!(few > 0.15 && few < 0.2, "a few of the words: {few}");
        assert!(by_words(0.8, Evidence::default()) > 2.0 * minimum, "most of the words");
        let with_names =
            |share: f32| fuse(&hits(&[(1, share / ALL_THE_WORDS)]), &hits(&[(1, 0.3)]), foreign)[0].score;
        assert!(with_names(0.3) < minimum && with_names(0.8) > 2.0 * minimum, "{}", with_names(0.3));
        assert!(
            with_names(0.41) < 0.15 && with_names(0.44) > 0.15,
            "a passage that answers, and one that does not"
        );
        let near = fuse(&[], &hits(&[(1, 0.9), (2, 0.7)]), foreign);
        assert!(near[0].score <= 0.15, "near by meaning alone: {}", near[0].score);
        assert_eq!(near[0].chunk, ChunkId(1));
        let of_stop_words = Evidence { says_nothing: true, ..Evidence::default() };
        for dense in [&[][..], &hits(&[(1, 0.3)])] {
            assert!(fuse(&hits(&[(1, 1.0)]), dense, of_stop_words)[0].score < 0.2);
        }
    }

    #[test]
    fn code_is_told_from_prose() {
        assert!(looks_like_code(
            "def area(radius):\n    \"\"\"The area.\"\"\"\n    return PI * radius ** 2\n"
        ));
        assert!(!looks_like_code(
            "The area of a circle grows with the square\nof its radius, as everybody knows.\n"
        ));
        assert!(!looks_like_code("One line; nothing else"));
    }
}
