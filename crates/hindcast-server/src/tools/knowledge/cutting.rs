//! How much of each passage an answer shows: the part with the words that were asked for.

use std::ops::Range;

/// A sentence or line that is longer is cut further.
const LONGEST_UNIT: usize = 160;

/// More words of a question are not looked for.
const MOST_WORDS: usize = 64;

/// What a question's words begin with, so that other forms of them count too.
pub(super) struct Wanted(Vec<Beginning>);

struct Beginning {
    letters: String,
    /// Whether it may stand inside of a word: scripts without spaces.
    anywhere: bool,
    /// Long words say more than short ones.
    weight: usize,
}

impl Wanted {
    pub(super) fn of(question: &str) -> Self {
        let mut beginnings: Vec<Beginning> = Vec::new();
        for word in words(&question.to_lowercase()) {
            let letters: Vec<char> = word.chars().collect();
            if letters.iter().any(|letter| is_without_spaces(*letter)) {
                beginnings.extend(letters.windows(2).map(|pair| Beginning {
                    letters: pair.iter().collect(),
                    anywhere: true,
                    weight: 4,
                }));
            } else if letters.len() > 1 {
                let most = if letters.len() < 4 { letters.len() } else { (letters.len() * 2 / 3 + 1).max(4) };
                let weight = if letters.len() < 4 { 1 } else { letters.len() };
                let letters = letters[..most.min(letters.len())].iter().collect();
                beginnings.push(Beginning { letters, anywhere: false, weight });
            }
        }
        beginnings.truncate(MOST_WORDS);
        Self(beginnings)
    }

    /// Which of them a text has, a bit each.
    fn found_in(&self, text: &str) -> u64 {
        let text = text.to_lowercase();
        let words: Vec<&str> = words(&text).collect();
        let is_there = |wanted: &Beginning| match wanted.anywhere {
            true => text.contains(&wanted.letters),
            false => words.iter().any(|word| word.starts_with(&wanted.letters)),
        };
        let found = (0..).zip(&self.0).filter(|(_, wanted)| is_there(wanted));
        found.fold(0, |bits, (number, _)| bits | 1 << number)
    }

    fn weigh(&self, found: u64) -> usize {
        let there = (0..).zip(&self.0).filter(|(number, _)| found & (1 << number) != 0);
        there.map(|(_, wanted)| wanted.weight).sum()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Chinese, Japanese and their neighbours.
fn is_without_spaces(letter: char) -> bool {
    ('\u{2e80}'..='\u{d7ff}').contains(&letter) || ('\u{f900}'..='\u{faff}').contains(&letter)
}

/// Bytes of a text inside a JSON string.
pub(super) fn cost(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            0..32 => 6,
            _ => 1,
        })
        .sum()
}

/// The best hit may take this many times the room of another: it answers most questions, if enough of it is there.
const BEST_WEIGHS: usize = 3;

/// Shares room among passages, the best first: short ones take what they need, and the others share the rest.
pub(super) fn shares(costs: &[usize], room: usize) -> Vec<usize> {
    let weight = |index: usize| if index == 0 { BEST_WEIGHS } else { 1 };
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&index| costs[index] / weight(index));
    let mut weights: usize = order.iter().map(|&index| weight(index)).sum();
    let (mut shares, mut left) = (vec![0; costs.len()], room);
    for index in order {
        shares[index] = costs[index].min(left * weight(index) / weights);
        left -= shares[index];
        weights -= weight(index);
    }
    shares
}

/// The part of a passage that has most of the words, in at most `room` bytes of JSON; whole where it fits.
pub(super) fn cut(passage: &str, wanted: &Wanted, room: usize) -> String {
    if cost(passage) <= room {
        return passage.to_owned();
    }
    // Two ellipses.
    let room = room.saturating_sub(6);
    // A unit of quotes takes twice its length.
    let units = units(passage, LONGEST_UNIT.min(room / 2).max(1));
    let found: Vec<u64> = units.iter().map(|unit| wanted.found_in(&passage[unit.clone()])).collect();
    let costs: Vec<usize> = units.iter().map(|unit| cost(&passage[unit.clone()])).collect();
    let mut best: Vec<Range<usize>> = Vec::new();
    let mut most = 0;
    for start in 0..units.len() {
        let (mut end, mut used, mut bits) = (start, 0, 0);
        while end < units.len() && used + costs[end] <= room {
            (used, bits) = (used + costs[end], bits | found[end]);
            end += 1;
        }
        let weight = wanted.weigh(bits);
        if weight > most {
            (most, best) = (weight, Vec::new());
        }
        if weight == most && end > start {
            best.push(start..end);
        }
    }
    // The beginning says what the rest is about; elsewhere the words should not stand at an end.
    let chosen = match best.first() {
        Some(first) if first.start == 0 => first.clone(),
        Some(_) => best[best.len() / 2].clone(),
        None => return String::new(),
    };
    let part = &passage[units[chosen.start].start..units[chosen.end - 1].end];
    let before = if chosen.start > 0 { "…" } else { "" };
    let after = if chosen.end < units.len() { "…" } else { "" };
    format!("{before}{}{after}", part.trim())
}

/// Lines and sentences, and parts of those that are longer than `longest`; together the whole text.
fn units(text: &str, longest: usize) -> Vec<Range<usize>> {
    let mut units = Vec::new();
    let (mut start, mut space) = (0, None);
    let mut last = ' ';
    for (at, letter) in text.char_indices() {
        let is_end = last == '\n'
            || (matches!(last, '.' | '!' | '?' | ';') && letter == ' ')
            || matches!(last, '。' | '！' | '？');
        if is_end && at > start {
            units.push(start..at);
            (start, space) = (at, None);
        } else if at - start >= longest {
            let end = space.filter(|space| *space > start).unwrap_or(at);
            units.push(start..end);
            (start, space) = (end, None);
        }
        if letter.is_whitespace() {
            space = Some(at);
        }
        last = letter;
    }
    if start < text.len() {
        units.push(start..text.len());
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_with_the_words_is_shown() {
        let filler = "Nothing of interest is said in this sentence. ".repeat(10);
        let passage = format!("{filler}The connection is shared by threads. {filler}");
        let shown = cut(&passage, &Wanted::of("connections of several threads"), 200);
        assert!(shown.contains("The connection is shared by threads."), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…') && cost(&shown) <= 200, "{shown}");
        let shown = cut(&passage, &Wanted::of("zeppelin"), 200);
        assert!(shown.starts_with("Nothing") && shown.ends_with('…'), "{shown}");
    }

    #[test]
    fn something_is_shown_in_little_room() {
        let sentence = "a sentence of words that goes on and on without an end ".repeat(10);
        let quotes = "\"".repeat(500);
        for passage in [&sentence, &quotes] {
            for room in [120, 130, 150, 170] {
                let shown = cut(passage, &Wanted::of("words"), room);
                assert!(shown.len() > 20 && cost(&shown) <= room, "{room}: {shown}");
            }
        }
    }

    #[test]
    fn words_of_scripts_without_spaces_are_found() {
        let passage = format!("{}鷺は湖のほとりに立つ。{}", "何もない。".repeat(40), "何もない。".repeat(40));
        let shown = cut(&passage, &Wanted::of("湖のほとりの鷺"), 150);
        assert!(shown.contains("湖のほとり") && cost(&shown) <= 150, "{shown}");
    }

    #[test]
    fn what_fits_is_whole_and_what_does_not_stays_within_its_room() {
        let wanted = Wanted::of("lake");
        assert_eq!(cut("The lake.\n\"Quoted\"", &wanted, 30), "The lake.\n\"Quoted\"");
        for passage in ["x".repeat(5000), "\n\"".repeat(900), "ä ".repeat(900), "a\u{1}".repeat(900)] {
            for room in [0, 5, 6, 7, 100, 250, 999] {
                let shown = cut(&passage, &wanted, room);
                assert!(cost(&shown) <= room.max(6), "{room}: {}", cost(&shown));
            }
        }
    }

    #[test]
    fn short_passages_leave_their_room_to_long_ones() {
        assert_eq!(shares(&[100, 1000, 1000], 900), [100, 400, 400]);
        assert_eq!(shares(&[1000, 1000, 1000], 1000), [600, 200, 200]);
        assert_eq!(shares(&[10, 20], 900), [10, 20]);
        assert_eq!(shares(&[], 900), [0; 0]);
    }

    #[test]
    fn costs_are_those_of_json() {
        let text = "a \"b\" \\ \n\r\t\u{8}\u{c}\u{1}\u{7f} äö 湖";
        assert_eq!(cost(text) + 2, serde_json::to_string(text).unwrap().len());
    }
}
