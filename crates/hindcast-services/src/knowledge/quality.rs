//! How good a search is, against judgements of what should be found.

use std::collections::HashMap;

/// Which documents answer a question, and how well: a grade above zero.
pub type Grades = HashMap<String, f64>;

/// The means over all questions that have judgements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quality {
    /// Normalised discounted cumulative gain of the first ten.
    pub ndcg_at_10: f64,
    /// Share of the good documents that are among the first hundred.
    pub recall_at_100: f64,
    /// How many questions.
    pub questions: usize,
}

impl Quality {
    /// Takes one more question into account: what was found, best first, each document once.
    pub fn count(&mut self, found: &[String], grades: &Grades) {
        if grades.values().all(|&grade| grade <= 0.0) {
            return;
        }
        let before = self.questions as f64;
        self.questions += 1;
        let now = self.questions as f64;
        self.ndcg_at_10 = (self.ndcg_at_10 * before + ndcg(found, grades, 10)) / now;
        self.recall_at_100 = (self.recall_at_100 * before + recall(found, grades, 100)) / now;
    }
}

/// Gains are the grades themselves, as trec_eval has it.
fn ndcg(found: &[String], grades: &Grades, depth: usize) -> f64 {
    let discounted = |gains: &mut dyn Iterator<Item = f64>| -> f64 {
        gains.take(depth).enumerate().map(|(rank, gain)| gain / (rank as f64 + 2.0).log2()).sum()
    };
    let mut best: Vec<f64> = grades.values().copied().filter(|&grade| grade > 0.0).collect();
    best.sort_by(|one, other| other.total_cmp(one));
    let gained =
        discounted(&mut found.iter().map(|document| grades.get(document).copied().unwrap_or(0.0).max(0.0)));
    gained / discounted(&mut best.into_iter())
}

fn recall(found: &[String], grades: &Grades, depth: usize) -> f64 {
    let is_good = |document: &&String| grades.get(*document).is_some_and(|&grade| grade > 0.0);
    let good = grades.values().filter(|&&grade| grade > 0.0).count();
    found.iter().take(depth).filter(is_good).count() as f64 / good as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(found: &[&str], grades: &[(&str, f64)]) -> Quality {
        let found: Vec<String> = found.iter().map(|document| (*document).into()).collect();
        let grades = grades.iter().map(|&(document, grade)| (document.into(), grade)).collect();
        let mut quality = Quality::default();
        quality.count(&found, &grades);
        quality
    }

    #[test]
    fn the_ideal_order_scores_one_and_nothing_found_scores_zero() {
        let grades = [("a", 2.0), ("b", 1.0)];
        assert_eq!(quality(&["a", "b", "x"], &grades).ndcg_at_10, 1.0);
        assert_eq!(quality(&["x", "y"], &grades), Quality { questions: 1, ..Quality::default() });
    }

    #[test]
    fn a_hit_further_down_counts_less_as_in_trec_eval() {
        let found = quality(&["x", "a"], &[("a", 1.0), ("b", 1.0)]);
        // 1/log2(3) of 1 + 1/log2(3).
        assert!((found.ndcg_at_10 - 0.386_853).abs() < 1e-6, "{found:?}");
        assert_eq!(found.recall_at_100, 0.5);
    }

    #[test]
    fn questions_without_an_answer_do_not_count() {
        assert_eq!(quality(&["a"], &[("a", 0.0)]).questions, 0);
    }
}
