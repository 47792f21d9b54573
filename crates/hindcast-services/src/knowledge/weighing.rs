//! What speaks against a passage besides its scores.

use hindcast_core::knowledge::{FoundChunk, is_unspaced};

/// What is left of the relevance of a passage that has only parts of the one name that was asked for.
const LACKS_THE_NAME: f32 = 0.35;

/// What is left of the relevance of a passage that uses the name which another passage defines.
const ONLY_USES_THE_NAME: f32 = 0.9;

/// What is left of the relevance of a section of a few words. Its headings have the words of many questions, and it has few others.
const SAYS_LITTLE: f32 = 0.85;
const FEW_WORDS: usize = 10;

/// Lowers the relevance of passages that lack the name which was asked for, or say little, and puts the best first again.
pub(super) fn weigh(query: &str, found: &mut [(FoundChunk, f32)]) {
    let name = only_name(query);
    let is_defined = name
        .as_deref()
        .is_some_and(|name| found.iter().any(|(found, _)| defines(&found.headings, &found.text, name)));
    for (found, score) in &mut *found {
        if let Some(name) = name.as_deref() {
            if !has_name(found, name) {
                *score *= LACKS_THE_NAME;
            } else if is_defined && !defines(&found.headings, &found.text, name) {
                *score *= ONLY_USES_THE_NAME;
            }
        }
        if says_little(found) {
            *score *= SAYS_LITTLE;
        }
    }
    found.sort_by(|(_, one), (_, other)| other.total_cmp(one));
}

/// The name that a query is, such as `update-rc.d` or `check_same_thread`: one word of parts, which word search also finds by its parts.
fn only_name(query: &str) -> Option<String> {
    // Around a name stand quotes, `()` of a call, the end of a question.
    let query = query.trim_matches(|char: char| !char.is_alphanumeric());
    let is_joint = |letters: &[u8]| {
        let [before, joint, after] = letters else { return false };
        before.is_ascii_alphanumeric()
            && b"-_./:".contains(joint)
            && (after.is_ascii_alphanumeric() || after == joint)
    };
    let is_name = !query.contains(char::is_whitespace) && query.as_bytes().windows(3).any(is_joint);
    is_name.then(|| spelled(query))
}

/// Whether a passage, its headings or its document's name have a name whole.
fn has_name(found: &FoundChunk, name: &str) -> bool {
    [&found.text, &found.headings, &found.document.name].into_iter().any(|text| spelled(text).contains(name))
}

/// Whether a passage begins with a name, or its last heading does, as where a function is explained: `os.path.join(path, *paths)`,
/// `class csv.DictReader(f)`, `--no-wait`.
fn defines(headings: &str, text: &str, name: &str) -> bool {
    let heading = headings.rsplit(" › ").next().unwrap_or_default();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    [heading, first].into_iter().any(|line| {
        let line = line.trim_start_matches(|char: char| !char.is_alphanumeric());
        let line = ["async ", "class ", "def ", "fn ", "function ", "pub "]
            .iter()
            .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
        let rest = spelled(line);
        // What leads to the name may stand before it.
        let end =
            rest.find(|char: char| !(char.is_alphanumeric() || " .:".contains(char))).unwrap_or(rest.len());
        let (named, behind) = rest.split_at(end);
        let named = named.trim_end();
        let is_signature = behind.starts_with('(') || behind.is_empty();
        is_signature
            && named
                .strip_suffix(name)
                .is_some_and(|before| before.is_empty() || before.ends_with(['.', ':']))
    })
}

/// Whether a passage is a section of a few words in a longer document.
fn says_little(found: &FoundChunk) -> bool {
    // Without spaces between words, two characters are about one.
    let words_in = |run: &str| 1 + run.chars().filter(|char| is_unspaced(*char)).count() / 2;
    let words: usize = found.text.split_whitespace().take(FEW_WORDS).map(words_in).sum();
    found.document.chunks > 1 && !found.headings.is_empty() && words < FEW_WORDS
}

/// `Time-Travel`, `time_travel` and `time travel` are one name.
fn spelled(text: &str) -> String {
    text.to_lowercase().replace(['-', '_'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_that_begins_with_a_name_defines_it() {
        let name = only_name("functools.lru_cache").unwrap();
        for (headings, text, is_so) in [
            ("functools", "@functools.lru_cache(user_function)\n\nDecorator", true),
            ("functools › functools.lru_cache(maxsize=128)", "Decorator", true),
            ("functools", "Changed in version 3.8: functools.lru_cache(f) takes", false),
            ("functools", "functools.lru_caches(f)", false),
            ("functools", "use functools.lru_cache(f)", false),
        ] {
            assert_eq!(defines(headings, text, &name), is_so, "{text}");
        }
        let field = only_name("lru_cache").unwrap();
        assert!(defines("", "class functools.lru_cache(f)", &field));
    }

    #[test]
    fn a_query_that_is_one_name_is_told_from_words() {
        for (query, name) in [
            ("update-rc.d", Some("update rc.d")),
            (" check_same_thread ", Some("check same thread")),
            ("std::vec", Some("std::vec")),
            ("os.path", Some("os.path")),
            ("os.path.join()", Some("os.path.join")),
            ("`update-rc.d`?", Some("update rc.d")),
            ("heron", None),
            ("the heron.", None),
            ("40P01", None),
            ("time-travel debugging", None),
            ("...", None),
        ] {
            assert_eq!(only_name(query).as_deref(), name, "{query}");
        }
    }
}
