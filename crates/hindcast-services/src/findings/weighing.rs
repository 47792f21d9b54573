//! How the kinds of evidence are weighed against each other. The numbers were fitted to the crashes of `fixtures/crashes`:
//! docs/findings.md says how, and what came of it.

/// What speaks for two failures having the same cause.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Evidence {
    /// How alike the fingerprints are; none where one of them has none.
    pub(super) stack: Option<f32>,
    /// Words, as a share of what there could be.
    pub(super) words: f32,
    /// The cosine of what is said; none where there is no model.
    pub(super) meaning: Option<f32>,
}

/// Log-odds: each kind of evidence times its weight, above what they come to for failures that have nothing to do with each other.
struct Weights {
    stack: f32,
    words: f32,
    meaning: f32,
    none: f32,
}

const ALL: Weights = Weights { stack: 8.7, words: 4.7, meaning: 2.2, none: -8.5 };
const WITHOUT_MEANING: Weights = Weights { stack: 9.2, words: 4.9, meaning: 0.0, none: -7.7 };
/// A report is shorter than an autopsy, so it has more of its words in a text that is like it: these two were set by hand.
const WITHOUT_STACK: Weights = Weights { stack: 0.0, words: 8.0, meaning: 9.0, none: -7.0 };
const WORDS_ALONE: Weights = Weights { stack: 0.0, words: 11.0, meaning: 0.0, none: -4.5 };

impl Evidence {
    /// How likely it is that the cause is the same, 0..1.
    pub(super) fn score(self) -> f32 {
        let weights = match (self.stack, self.meaning) {
            (Some(_), Some(_)) => ALL,
            (Some(_), None) => WITHOUT_MEANING,
            (None, Some(_)) => WITHOUT_STACK,
            (None, None) => WORDS_ALONE,
        };
        let log_odds = weights.stack * self.stack.unwrap_or_default()
            + weights.words * self.words
            + weights.meaning * self.meaning.unwrap_or_default()
            + weights.none;
        1.0 / (1.0 + (-log_odds).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_evidence_of_any_kind_never_makes_it_less_likely() {
        let score = |stack, words, meaning| Evidence { stack, words, meaning }.score();
        for meaning in [None, Some(0.3), Some(0.7)] {
            for words in [0.0, 0.2, 0.6] {
                assert!(score(Some(0.9), words, meaning) > score(Some(0.4), words, meaning));
                assert!(score(Some(0.4), words + 0.1, meaning) > score(Some(0.4), words, meaning));
            }
        }
        assert!(score(Some(0.2), 0.1, Some(0.5)) > score(Some(0.2), 0.1, Some(0.3)));
        assert!(score(Some(1.0), 0.5, Some(0.8)) > 0.9 && score(Some(0.1), 0.02, Some(0.1)) < 0.1);
        assert!(score(None, 0.0, None) < 0.1);
    }
}
