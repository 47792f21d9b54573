//! What a model said: without its thoughts, with what it cites, and whether that supports it.

use std::collections::HashSet;

/// A sentence supports itself on a passage that has this share of its words.
const SHARED_WORDS: f32 = 0.5;

/// Shorter words are in every passage.
const SHORTEST_WORD: usize = 4;

const THOUGHT: (&str, &str) = ("<think>", "</think>");

/// The text without what stands between `<think>` and `</think>`, which some models say aloud. A thought that has not ended goes to
/// the end.
pub(super) fn without_thoughts(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    // Some servers leave out where the first thought begins.
    if let Some(end) = rest.find(THOUGHT.1)
        && rest.find(THOUGHT.0).is_none_or(|start| start > end)
    {
        rest = &rest[end + THOUGHT.1.len()..];
    }
    while let Some(start) = rest.find(THOUGHT.0) {
        said.push_str(&rest[..start]);
        let after = &rest[start..];
        rest = after.find(THOUGHT.1).map_or("", |end| &after[end + THOUGHT.1.len()..]);
    }
    said.push_str(rest);
    said.trim().to_owned()
}

/// The passages that a text cites: `[1]`, `[2, 3]`, `[1-3]`, `【4】`.
pub(super) fn cited(text: &str) -> HashSet<usize> {
    let mut found = HashSet::new();
    for part in text.split(['[', '【']).skip(1) {
        let Some(end) = part.find([']', '】']) else { continue };
        let inside = &part[..end];
        let is_citation = inside.chars().any(|char| char.is_ascii_digit())
            && inside.chars().all(|char| char.is_ascii_digit() || ", -–;".contains(char));
        if !is_citation {
            continue;
        }
        for piece in inside.split([',', ';']) {
            let mut ends = piece.split(['-', '–']).filter_map(|number| number.trim().parse::<usize>().ok());
            if let Some(first) = ends.next() {
                let last = ends.next().unwrap_or(first).min(first + 50);
                found.extend(first..=last.max(first));
            }
        }
    }
    found
}

/// The sentences of an answer, with what they cite.
pub(super) fn sentences(text: &str) -> Vec<(String, HashSet<usize>)> {
    let mut sentences: Vec<(String, HashSet<usize>)> = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, char) in text.char_indices() {
        let next = at + char.len_utf8();
        let is_end = char == '\n'
            || ("。！？".contains(char))
            || (".!?".contains(char) && bytes.get(next).is_none_or(u8::is_ascii_whitespace));
        if is_end || next == text.len() {
            let (behind, sentence) = without_leading_citations(text[start..next].trim());
            start = next;
            // `It stands in water. [1]` cites behind the full stop.
            if let Some(last) = sentences.last_mut() {
                last.1.extend(cited(behind));
            }
            if !sentence.is_empty() {
                sentences.push((sentence.to_owned(), cited(sentence)));
            }
        }
    }
    sentences
}

/// The citations that a text begins with, and the rest.
fn without_leading_citations(text: &str) -> (&str, &str) {
    let mut rest = text;
    while let Some(inside) = rest.strip_prefix(['[', '【'])
        && let Some((number, after)) = inside.split_once([']', '】'])
        && number.starts_with(|char: char| char.is_ascii_digit())
    {
        rest = after.trim_start_matches([' ', '.', ',']);
    }
    text.split_at(text.len() - rest.len())
}

/// Whether the words and numbers of a sentence are those of the passages it cites.
pub(super) fn is_supported(sentence: &str, passages: &str) -> bool {
    let (said, there) = (words(sentence), words(passages));
    let numbers = |words: &HashSet<String>| -> HashSet<String> {
        words.iter().filter(|word| word.chars().all(|char| char.is_ascii_digit())).cloned().collect()
    };
    if !numbers(&said).is_subset(&numbers(&there)) {
        return false;
    }
    let telling: Vec<_> = said.iter().filter(|word| word.chars().count() >= SHORTEST_WORD).collect();
    let is_there = |word: &&&String| {
        // Forms of one word begin alike.
        let stem: String =
            word.chars().take(word.chars().count().saturating_sub(2).max(SHORTEST_WORD)).collect();
        there.iter().any(|other| other.starts_with(&stem))
    };
    telling.is_empty()
        || telling.iter().filter(is_there).count() as f32 >= SHARED_WORDS * telling.len() as f32
}

/// The words of a text in lower case, without its citations.
fn words(text: &str) -> HashSet<String> {
    let mut plain = String::with_capacity(text.len());
    for (number, part) in text.split(['[', '【']).enumerate() {
        let is_citation = number > 0 && part.chars().next().is_some_and(|char| char.is_ascii_digit());
        plain.push_str(if is_citation {
            part.split_once([']', '】']).map_or("", |(_, after)| after)
        } else {
            part
        });
        plain.push(' ');
    }
    let words = plain.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_not_said() {
        assert_eq!(without_thoughts("<think>hm\n[9]</think>\nIt is so [1]."), "It is so [1].");
        assert_eq!(without_thoughts("It <think>begun"), "It");
        assert_eq!(without_thoughts("hm</think>So."), "So.");
        assert_eq!(without_thoughts("plain"), "plain");
    }

    #[test]
    fn citations_are_read_in_every_form() {
        let of = |text: &str| {
            let mut found: Vec<_> = cited(text).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(of("One [1], two [2,3] and [5-6]; 【8】."), [1, 2, 3, 5, 6, 8]);
        assert!(of("an array[i] of [words] and [] (2)").is_empty());
    }

    #[test]
    fn a_sentence_is_held_against_what_it_cites() {
        let passage = "The heron stands in shallow water and waits for fish. It weighs 2 kg.";
        assert!(is_supported("Herons wait in shallow water [1].", passage));
        assert!(is_supported("It weighs 2 kg [1].", passage));
        assert!(!is_supported("It weighs 3 kg [1].", passage));
        assert!(!is_supported("Herons migrate to Africa during winter months [1].", passage));
        let told = sentences("It stands in water. [1] It eats fish [2].\n- And sleeps");
        let cites: Vec<_> = told.iter().map(|(sentence, cites)| (&**sentence, cites.len())).collect();
        assert_eq!(cites, [("It stands in water.", 1), ("It eats fish [2].", 1), ("- And sleeps", 0)]);
    }
}
