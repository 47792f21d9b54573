//! What a model said: without its thoughts, with what it cites, and whether that supports it.

use std::collections::HashSet;

use hindcast_core::knowledge::is_unspaced;

use super::answer_numbers;

/// A sentence supports itself on a passage that has this share of its words.
const SHARED_WORDS: f32 = 0.5;

/// Shorter words are in every passage.
const SHORTEST_WORD: usize = 4;

/// Ends a sentence wherever it stands, unless the quotation that it stands in ends with it.
const FULL_STOPS: &str = "。！？｡";

const CLOSING: &str = "」』）”’";

const THOUGHT: (&str, &str) = ("<think>", "</think>");

/// The text without what stands between `<think>` and `</think>`, which some models say aloud. A thought begins a line, and one
/// that has not ended goes to the end. A tag within a sentence or in code belongs to the answer.
pub(super) fn without_thoughts(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    // Some servers leave out where the first thought begins.
    let mut rest = lone_end(text).map_or(text, |end| &text[end..]);
    while let Some(start) = beginning(rest) {
        said.push_str(&rest[..start]);
        rest = end_of_thought(&rest[start..]).map_or("", |end| &rest[start + end..]);
    }
    said.push_str(rest);
    said.trim().to_owned()
}

/// Where the first thought begins.
fn beginning(text: &str) -> Option<usize> {
    prose(text).find_map(|(at, line)| {
        let plain = line.trim_start_matches(' ');
        let indent = line.len() - plain.len();
        (indent < 4 && plain.starts_with(THOUGHT.0)).then_some(at + indent)
    })
}

/// Behind the end of the thought that a text begins with.
fn end_of_thought(thought: &str) -> Option<usize> {
    let ends = thought.match_indices(THOUGHT.1);
    ends.map(|(at, tag)| (at, at + tag.len())).find(|(at, _)| !is_in_code(thought, *at)).map(|(_, end)| end)
}

/// Behind the end of a thought whose beginning is missing.
fn lone_end(text: &str) -> Option<usize> {
    let (at, end) = prose(text).find_map(|(at, line)| {
        let ends = line.match_indices(THOUGHT.1).map(|(within, tag)| (within, within + tag.len()));
        let is_said_of = |(start, end): (usize, usize)| {
            let is_within_sentence = line[..start].ends_with(' ') && !line[end..].trim().is_empty();
            is_within_sentence || is_in_code(line, start)
        };
        ends.into_iter().find(|place| !is_said_of(*place)).map(|(start, end)| (at + start, at + end))
    })?;
    (!text[..at].contains(THOUGHT.0)).then_some(end)
}

/// The lines of a text that are not in a block of code, with their places.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut at, mut is_code) = (0, false);
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let is_fence = ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence));
        is_code ^= is_fence;
        (!is_fence && !is_code).then_some((start, line))
    })
}

/// Whether a place is between the backticks of its line.
fn is_in_code(text: &str, at: usize) -> bool {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    line.matches('`').count() % 2 == 1
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
                let last = ends.next().unwrap_or(first).min(first.saturating_add(50));
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
        let is_quoted = || text[next..].starts_with(|next: char| CLOSING.contains(next));
        let is_end = char == '\n'
            || (FULL_STOPS.contains(char) && !is_quoted())
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

/// Words that say that something is not so.
const DENIALS: [&str; 10] =
    ["not", "never", "cannot", "no", "nor", "neither", "none", "nobody", "nothing", "without"];

/// Words by which a passage can say that something is not so without one of those.
const AS_GOOD_AS_DENIALS: [&str; 16] = [
    "avoid", "deny", "denie", "disable", "except", "fail", "forbid", "hardly", "ignore", "instead", "lack",
    "only", "prevent", "rarely", "refus", "unless",
];

/// Whether the words and numbers of a sentence are those of the passages it cites, and it does not deny what they say.
pub(super) fn is_supported(sentence: &str, passages: &str) -> bool {
    let sentence = without_citations(sentence);
    if !answer_numbers::are_all_in(&sentence, passages) || denies(&sentence, passages) {
        return false;
    }
    let (said, there) = (words(&sentence), words(passages));
    let telling: Vec<_> = telling(&said).collect();
    let is_word_there = |word: &&&String| is_in(word, &there);
    let pairs = pairs(&sentence);
    // Lines may end within a word.
    let unbroken: String = passages.chars().filter(|character| !character.is_whitespace()).collect();
    let found = telling.iter().filter(is_word_there).count()
        + pairs.iter().filter(|pair| unbroken.contains(&***pair)).count();
    found as f32 >= SHARED_WORDS * (telling.len() + pairs.len()) as f32
}

/// Whether an English sentence says with a passage's own words that something is not so, where the passage says it is.
fn denies(sentence: &str, passages: &str) -> bool {
    let said = words(sentence);
    if !has_denial(sentence, &said) {
        return false;
    }
    let told = || telling(&said).filter(|word| !DENIALS.contains(&word.as_str()));
    if told().count() < 2 {
        return false;
    }
    let mut repeated = sentences(passages).into_iter().filter(|(passage, _)| {
        let there = words(passage);
        told().all(|word| is_in(word, &there))
    });
    // Where several sentences have the words, one that denies is enough.
    let mut is_repeated = false;
    let agrees = repeated.any(|(passage, _)| {
        is_repeated = true;
        let there = words(&passage);
        has_denial(&passage, &there)
            || there.iter().any(|word| {
                AS_GOOD_AS_DENIALS.iter().any(|kin| word.starts_with(kin)) || word.starts_with("un")
            })
    });
    is_repeated && !agrees
}

fn has_denial(text: &str, words: &HashSet<String>) -> bool {
    DENIALS.iter().any(|denial| words.contains(*denial)) || text.contains("n't") || text.contains("n’t")
}

/// The words that are long enough to tell something.
fn telling(words: &HashSet<String>) -> impl Iterator<Item = &String> {
    words.iter().filter(|word| word.chars().count() >= SHORTEST_WORD)
}

/// Whether a form of a word is among others: forms of one word begin alike.
fn is_in(word: &str, others: &HashSet<String>) -> bool {
    let stem: String = word.chars().take(word.chars().count().saturating_sub(2).max(SHORTEST_WORD)).collect();
    others.iter().any(|other| other.starts_with(&stem))
}

fn without_citations(text: &str) -> String {
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
    plain
}

/// The words of a text in lower case, without scripts that do not set them apart.
fn words(text: &str) -> HashSet<String> {
    let is_between = |char: char| !char.is_alphanumeric() || is_unspaced(char);
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The pairs of characters in scripts that do not set words apart; a character that stands alone by itself.
fn pairs(text: &str) -> HashSet<String> {
    // Endings and particles of Japanese are in every passage.
    let is_hiragana = |char: char| matches!(char, '\u{3040}'..='\u{309f}');
    let mut pairs = HashSet::new();
    for run in text.split(|char: char| !is_unspaced(char) || is_hiragana(char)) {
        let characters: Vec<char> = run.chars().collect();
        match characters.len() {
            0 => {}
            1 => pairs.extend([run.to_owned()]),
            _ => pairs.extend(characters.windows(2).map(String::from_iter)),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_not_said() {
        assert_eq!(without_thoughts("<think>hm\n[9]</think>\nIt is so [1]."), "It is so [1].");
        assert_eq!(without_thoughts("It\n<think>begun"), "It");
        assert_eq!(without_thoughts("hm</think>So."), "So.");
        assert_eq!(without_thoughts("hm\n\n</think>\n\nSo."), "So.");
        assert_eq!(without_thoughts("<think>I explain `</think>` now</think>So."), "So.");
        assert_eq!(without_thoughts("plain"), "plain");
    }

    #[test]
    fn an_answer_that_is_about_the_tags_of_thoughts_is_whole() {
        for answer in [
            "The `<think>` tag begins a thought [1].\nIt is removed [2].",
            "Models write <think> first [1], and </think> at the end.",
            "Close it with `</think>`.\nThen answer [1].",
            "A thought that has </think> behind it is over [1].",
            "Like this:\n\n```xml\n<think>\nhm\n</think>\n```\n\nThat is all [1].",
            "Like this:\n\n    <think>hm\n\nThat is all [1].",
        ] {
            assert_eq!(without_thoughts(answer), answer);
            assert_eq!(without_thoughts(&format!("<think>hm</think>\n{answer}")), answer);
        }
    }

    #[test]
    fn citations_are_read_in_every_form() {
        let of = |text: &str| {
            let mut found: Vec<_> = cited(text).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(of("One [1], two [2,3] and [5-6]; 【8】."), [1, 2, 3, 5, 6, 8]);
        assert_eq!(of("[18446744073709551615], [3-18446744073709551615]").len(), 52);
        assert!(of("an array[i] of [words] and [] (2)").is_empty());
    }

    #[test]
    fn a_sentence_is_held_against_what_it_cites() {
        let passage = "The heron stands in shallow water and waits for fish. It weighs 2 kg.";
        assert!(is_supported("Herons wait in shallow water [1].", passage));
        assert!(is_supported("It weighs 2 kg [1].", passage));
        assert!(!is_supported("It weighs 3 kg [1].", passage));
        assert!(is_supported("It weighs 2kg [1].", passage));
        let colony = "The colony has 12,000 herons, each 2.5kg.";
        assert!(is_supported("The colony has 12000 herons of 2.5 kg [1].", colony));
        assert!(!is_supported("The colony has 12 herons [1].", colony));
        assert!(!is_supported("Herons migrate to Africa during winter months [1].", passage));
        assert!(!is_supported("Herons do not wait in shallow water [1].", passage));
        assert!(!is_supported("Herons don't wait in shallow water [1].", passage));
        let pool = "A pool does not close busy connections. Do avoid closing connections by hand.";
        assert!(is_supported("A pool never closes busy connections [1].", pool));
        assert!(is_supported("Connections should not be closed by hand [1].", pool));
        let told = sentences("It stands in water. [1] It eats fish [2].\n- And sleeps");
        let cites: Vec<_> = told.iter().map(|(sentence, cites)| (&**sentence, cites.len())).collect();
        assert_eq!(cites, [("It stands in water.", 1), ("It eats fish [2].", 1), ("- And sleeps", 0)]);
    }

    #[test]
    fn a_paraphrase_is_supported_also_where_words_are_not_set_apart() {
        let japanese = "アオサギは湖の浅\n瀬に立ち、魚が近づくのをじっと待つ。体重は約2キログラムで、春に高い木の上に巣を作る。";
        let chinese = "苍鹭站在湖边的浅水中，等待鱼儿靠近。它的体重约为2公斤，春天在高大的树上筑巢。";
        let korean = "왜가리는 호수의 얕은 물에 서서 물고기가 다가오기를 기다린다.";
        let thai = "นกกระสายืนอยู่ในน้ำตื้นของทะเลสาบและรอให้ปลาเข้ามาใกล้";
        let told = "如果一段时间内没有人使用，连接将被关闭。要再次使用已关闭的连接，请调用 open 函数。";
        for (passage, sentence, is_so) in [
            (japanese, "アオサギは浅瀬で魚を待っています[1]。", true),
            (japanese, "アオサギは魚が近づくのを浅瀬に立って待ちます[1]。", true),
            (japanese, "春になると、アオサギは高い木に巣を作ります[1]。", true),
            (japanese, "体重は2キログラムほどです[1]。", true),
            (japanese, "体重は３キログラムほどです[1]。", false),
            (japanese, "体重は２キログラムほどです[1]。", true),
            (japanese, "体重は3キログラムほどです[1]。", false),
            (japanese, "アオサギは冬にアフリカへ渡って昆虫を食べます[1]。", false),
            (japanese, "卵は三週間で孵化し、雛は夏に飛び立ちます[1]。", false),
            (chinese, "苍鹭在浅水中等待鱼[1]。", true),
            (chinese, "春天，苍鹭会在高大的树上筑巢[1]。", true),
            (chinese, "它的体重约为3公斤[1]。", false),
            (chinese, "苍鹭冬天迁徙到非洲，以昆虫为食[1]。", false),
            (told, "没有人使用的连接会被关闭[1]。", true),
            (told, "调用open函数可以再次使用连接[1]。", true),
            (told, "连接的数量可以在配置文件中修改[1]。", false),
            (korean, "왜가리는 얕은 물에서 물고기를 기다린다 [1].", true),
            (korean, "왜가리는 겨울에 아프리카로 이동한다 [1].", false),
            (thai, "นกกระสารอปลาในน้ำตื้น [1]", true),
            (thai, "ลูกนกฟักออกจากไข่หลังจากสามสัปดาห์ [1]", false),
        ] {
            assert_eq!(is_supported(sentence, passage), is_so, "{sentence}");
        }
    }

    #[test]
    fn sentences_end_without_a_space_where_none_is_written() {
        let told = sentences(
            "アオサギは待つ[1]。魚は来るか？[2]来る！「魚だ。」と言った[3]。苍鹭站着[1]｡它等鱼。[2]",
        );
        let cites: Vec<_> = told.iter().map(|(sentence, cites)| (&**sentence, cites.len())).collect();
        let expected = [
            ("アオサギは待つ[1]。", 1),
            ("魚は来るか？", 1),
            ("来る！", 0),
            ("「魚だ。」と言った[3]。", 1),
            ("苍鹭站着[1]｡", 1),
            ("它等鱼。", 1),
        ];
        assert_eq!(cites, expected);
    }
}
