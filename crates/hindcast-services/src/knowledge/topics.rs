//! What queries are about.

use std::collections::HashMap;

/// Words that say nothing about a topic, as they stand in questions.
const STOP_WORDS: &str = " a about after all also am an and any are as at be been before being best between both but by can \
    could did do does doing done each every explain find for from get give given go had has have he help her here him his \
    how i if in into is it its just know let like list look make many me mean means more most much must my need no not of on \
    one only or other our out over please say see she should show so some such tell than that the their them then there \
    these they thing things this those to too under up us use used using very want was way we well were what when where \
    which while who whom whose why will with without work works would you your ";

/// How many words a topic has at most.
const LONGEST: usize = 3;

/// The most frequent noun phrases of the queries: words that stand together without stop words, singular and plural joined.
/// A query that has one of them does not count for the next.
pub(super) fn topics(queries: &[(String, u64)], count: usize) -> Vec<String> {
    let mut rest: Vec<(Vec<String>, u64)> =
        queries.iter().map(|(query, times)| (phrases_of(query), *times)).collect();
    let mut topics = Vec::new();
    while topics.len() < count
        && let Some((topic, spelling)) = most_frequent(&rest)
    {
        rest.retain(|(phrases, _)| phrases.iter().all(|phrase| singular(phrase) != topic));
        topics.push(spelling);
    }
    topics
}

/// A phrase in the singular, and as it is mostly spelt.
fn most_frequent(queries: &[(Vec<String>, u64)]) -> Option<(String, String)> {
    let mut phrases: HashMap<String, (u64, HashMap<&str, u64>)> = HashMap::new();
    for (query, times) in queries {
        for phrase in query {
            let (total, spellings) = phrases.entry(singular(phrase)).or_default();
            *total += times;
            *spellings.entry(phrase).or_default() += times;
        }
    }
    // Of two that are equally frequent the longer says more.
    let (topic, (_, spellings)) = phrases.into_iter().max_by(|(one, (a, _)), (other, (b, _))| {
        a.cmp(b).then(words(one).cmp(&words(other))).then(other.cmp(one))
    })?;
    let spelling = spellings.into_iter().max_by(|(one, a), (other, b)| a.cmp(b).then(other.cmp(one)))?;
    Some((topic, spelling.0.into()))
}

fn words(phrase: &str) -> usize {
    phrase.split(' ').count()
}

fn phrases_of(query: &str) -> Vec<String> {
    let lower = query.to_lowercase();
    let mut phrases = Vec::new();
    for clause in lower.split(['.', ',', ';', ':', '?', '!', '(', ')', '"', '\n']) {
        let words: Vec<_> = clause
            .split(|char: char| !char.is_alphanumeric() && !matches!(char, '-' | '_' | '+' | '#' | '\''))
            .filter(|word| !word.is_empty())
            .collect();
        let runs = words.split(|word| STOP_WORDS.contains(&format!(" {word} ")));
        for run in runs.filter(|run| !run.is_empty()) {
            for length in 1..=LONGEST {
                phrases.extend(run.windows(length).map(|words| words.join(" ")));
            }
        }
    }
    phrases
}

/// With its words in the singular, well enough to join what belongs together.
fn singular(phrase: &str) -> String {
    let words: Vec<_> = phrase.split(' ').map(singular_word).collect();
    words.join(" ")
}

fn singular_word(word: &str) -> String {
    let stem = |ending: &str, instead: &str| {
        let stem = word.strip_suffix(ending)?;
        (stem.len() > 2).then(|| format!("{stem}{instead}"))
    };
    if ["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        return word.into();
    }
    stem("ies", "y").or_else(|| stem("sses", "ss")).or_else(|| stem("s", "")).unwrap_or_else(|| word.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_phrases_are_the_topics() {
        let queries = [
            ("How do neural networks learn?".to_owned(), 4),
            ("what is a neural network".to_owned(), 3),
            ("transformer architecture".to_owned(), 5),
            ("training optimization, please".to_owned(), 2),
            ("where is it".to_owned(), 9),
        ];
        assert_eq!(
            topics(&queries, 3),
            ["neural networks", "transformer architecture", "training optimization"]
        );
        assert!(topics(&[], 3).is_empty());
    }
}
