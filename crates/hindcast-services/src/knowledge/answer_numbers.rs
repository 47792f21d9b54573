//! The numbers of a text, however they are written: `12,000`, `12 000` and `12000` are one, and so are `2kg` and `2 kg`.

use std::collections::HashSet;

use hindcast_core::knowledge::is_unspaced;

/// What stands between the thousands of a number, besides commas and full stops.
const GAPS: [char; 7] = [' ', '\'', '’', '_', '\u{a0}', '\u{2009}', '\u{202f}'];

/// A number, and how it may be meant: `1,234` is one number in English and another in German. Each way is a list, because `3,4`
/// may be two.
struct Number {
    ways: Vec<Vec<String>>,
    /// What it says besides: who has read `3.11.4` may speak of 3.11.
    roughly: Vec<String>,
}

/// Whether all numbers of a text stand in the other.
pub(super) fn are_all_in(said: &str, there: &str) -> bool {
    let there: HashSet<String> = numbers(there)
        .into_iter()
        .flat_map(|number| number.ways.into_iter().flatten().chain(number.roughly))
        .collect();
    let is_there = |number: &Number| number.ways.iter().any(|way| way.iter().all(|one| there.contains(one)));
    numbers(said).iter().all(is_there)
}

fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<char> = text.chars().map(narrow).collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
        } else if at > 0 && is_of_name(chars[at - 1]) {
            // A part of a name, such as `utf8`.
            at += run_of(&chars[at..]).len();
        } else {
            let (groups, separators, end) = groups_from(&chars, at);
            found.push(meant_by(&groups, &separators));
            at = end;
        }
    }
    found
}

/// The digit that one as wide as a Chinese character is.
fn narrow(character: char) -> char {
    match character {
        '\u{ff10}'..='\u{ff19}' => char::from(b'0' + (character as u32 - 0xff10) as u8),
        _ => character,
    }
}

/// Whether a digit behind this belongs to a name. Chinese and Japanese set numbers apart from words as little as words.
fn is_of_name(character: char) -> bool {
    (character.is_alphanumeric() && !is_unspaced(character)) || character == '_'
}

/// The runs of digits of one number, what stands between them, and where it ends.
fn groups_from(chars: &[char], start: usize) -> (Vec<String>, Vec<char>, usize) {
    let mut groups = vec![run_of(&chars[start..])];
    let mut separators = Vec::new();
    let mut at = start + groups[0].len();
    while let Some(&separator) = chars.get(at) {
        let next = run_of(&chars[at + 1..]);
        let is_gap = GAPS.contains(&separator) && next.len() == 3 && groups[0].len() <= 3;
        if next.is_empty() || !(is_gap || matches!(separator, ',' | '.')) {
            break;
        }
        at += 1 + next.len();
        separators.push(separator);
        groups.push(next);
    }
    (groups, separators, at)
}

fn run_of(chars: &[char]) -> String {
    chars.iter().take_while(|char| char.is_ascii_digit()).collect()
}

fn meant_by(groups: &[String], separators: &[char]) -> Number {
    let whole = |groups: &[String]| without_zeros(&groups.concat());
    let is_thousands = |groups: &[String]| {
        let (first, rest) = (&groups[0], &groups[1..]);
        first.len() <= 3 && !first.starts_with('0') && rest.iter().all(|group| group.len() == 3)
    };
    let Some((last, before)) = separators.split_last() else {
        return Number { ways: vec![vec![whole(groups)]], roughly: Vec::new() };
    };
    let (mut ways, mut roughly) = (Vec::new(), Vec::new());
    let is_alike = separators.iter().all(|separator| separator == last);
    if is_alike && is_thousands(groups) {
        ways.push(vec![whole(groups)]);
    }
    let (fraction, integer) = (&groups[groups.len() - 1], &groups[..groups.len() - 1]);
    let is_integer = integer.len() == 1 || (is_thousands(integer) && !before.contains(last));
    if matches!(last, ',' | '.') && is_integer {
        ways.push(vec![format!("{}.{fraction}", whole(integer))]);
    }
    if *last == '.' && is_alike {
        let dotted: Vec<String> = groups.iter().map(|group| without_zeros(group)).collect();
        if groups.len() > 2 {
            ways.push(vec![groups.join(".")]);
        }
        // A date such as 24.12.2024, or the chapters of a version.
        roughly.extend((1..groups.len()).map(|count| groups[..count].join(".")));
        if groups.len() > 2 {
            roughly.extend(dotted);
        }
    }
    let is_list = ways.is_empty() || separators.contains(&' ') || (separators.len() > 1 && *last == ',');
    if is_list || (*last == ',' && !is_thousands(groups)) {
        ways.push(groups.iter().map(|group| without_zeros(group)).collect());
    }
    Number { ways, roughly }
}

fn without_zeros(digits: &str) -> String {
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        for (said, there) in [
            ("12,000 herons", "12000 herons"),
            ("12000", "about 12 000 of them"),
            ("12'000", "12\u{202f}000"),
            ("1,234,567.5", "1.234.567,5"),
            ("2 kg", "2kg"),
            ("2kg", "a weight of 2 kg."),
            ("2.5 kg", "2,5 kg"),
            ("Python 3.11", "since 3.11.4"),
            ("Python 3", "3.11"),
            ("3, 4 and 5", "3,4,5"),
            ("1 May 2021", "2021-05-01"),
            ("24 December", "24.12.2024"),
            ("no number", "none"),
        ] {
            assert!(are_all_in(said, there), "{said:?} in {there:?}");
        }
    }

    #[test]
    fn another_number_is_not_the_same() {
        for (said, there) in [
            ("12 herons", "12,000 herons"),
            ("25 kg", "2.5 kg"),
            ("5 kg", "2.5 kg"),
            ("Python 3.1", "Python 3.10"),
            ("120000", "12,000"),
            ("1999", "199 and 9"),
            ("8 bits", "utf8"),
            ("2024", "24"),
        ] {
            assert!(!are_all_in(said, there), "{said:?} in {there:?}");
        }
    }
}
