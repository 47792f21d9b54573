//! What two ways have in common, and where they differ.

use std::collections::BTreeMap;

use hindcast_core::debug::{PassedPost, WayCalls};

/// So many posts in a row must be the same where two ways join again.
const SAME_IN_A_ROW: usize = 3;
/// Posts further behind a difference are not looked at, of both ways together.
const FARTHEST: usize = 1200;

/// The first place at which two rows of posts differ; also where one of them ends.
pub(super) fn first_difference(here: &[PassedPost], there: &[PassedPost]) -> Option<usize> {
    let differs = here.iter().zip(there).position(|(one, other)| one.post != other.post);
    differs.or_else(|| (here.len() != there.len()).then(|| here.len().min(there.len())))
}

/// The posts behind a difference, and whether they go to the end of the way.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a> {
    pub(super) posts: &'a [PassedPost],
    pub(super) is_all: bool,
}

/// Where two ways join again that differ from their first posts on: the nearest place, what was called meanwhile left out.
/// Where there is none, calls count as well.
pub(super) fn join(here: Ahead<'_>, there: Ahead<'_>) -> Option<(usize, usize)> {
    let outer = |way: Ahead<'_>| -> Vec<(usize, u32)> {
        let frame = way.posts.first().map_or(0, |first| first.frame);
        let posts = way.posts.iter().enumerate().filter(|(_, passed)| passed.frame >= frame);
        posts.map(|(index, passed)| (index, passed.post)).collect()
    };
    let all = |way: Ahead<'_>| -> Vec<(usize, u32)> {
        way.posts.iter().enumerate().map(|(index, passed)| (index, passed.post)).collect()
    };
    let ends = (here.is_all, there.is_all);
    nearest(&outer(here), &outer(there), ends).or_else(|| nearest(&all(here), &all(there), ends))
}

fn nearest(
    here: &[(usize, u32)],
    there: &[(usize, u32)],
    (here_ends, there_ends): (bool, bool),
) -> Option<(usize, usize)> {
    let is_joint = |one: usize, other: usize| {
        let (one, other) = (&here[one..], &there[other..]);
        let same = one.iter().zip(other).take_while(|(one, other)| one.1 == other.1).count();
        let is_end = here_ends && same == one.len() || there_ends && same == other.len();
        same >= SAME_IN_A_ROW || same > 0 && is_end
    };
    for distance in 1..=FARTHEST.min(here.len() + there.len()) {
        for one in 0..=distance {
            let other = distance - one;
            if one < here.len() && other < there.len() && is_joint(one, other) {
                return Some((here[one].0, there[other].0));
            }
        }
    }
    None
}

/// A number that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Differing {
    /// Which of the calls and returns.
    pub(super) call: usize,
    pub(super) function: String,
    /// None for what was returned.
    pub(super) parameter: Option<String>,
    pub(super) here: String,
    pub(super) there: String,
    /// Whether it differed each time of several.
    pub(super) is_always: bool,
}

/// The parameters and results that differ, each where it first does, in the order of time.
pub(super) fn differing(here: &WayCalls, there: &WayCalls) -> Vec<Differing> {
    let mut counts: BTreeMap<(u32, bool, usize), (u64, u64)> = BTreeMap::new();
    let mut found: Vec<((u32, bool, usize), Differing)> = Vec::new();
    for (call, (one, other)) in here.calls.iter().zip(&there.calls).enumerate() {
        if (one.function, one.returned) != (other.function, other.returned) {
            break;
        }
        let Some(function) = here.functions.get(one.function as usize) else { break };
        for (slot, values) in one.values.iter().zip(&other.values).enumerate() {
            let (Some(value), Some(other_value)) = values else { continue };
            let key = (one.function, one.returned, slot);
            let (times, differs) = counts.entry(key).or_default();
            *times += 1;
            if value == other_value {
                continue;
            }
            *differs += 1;
            if *differs == 1 {
                let parameter = function.parameters.get(slot).filter(|_| !one.returned).cloned();
                let (here, there) = (value.clone(), other_value.clone());
                let function = function.name.clone();
                found.push((key, Differing { call, function, parameter, here, there, is_always: false }));
            }
        }
    }
    let told = found.into_iter().map(|(key, differing)| {
        let is_always = counts.get(&key).is_some_and(|(times, differs)| *times > 1 && times == differs);
        Differing { is_always, ..differing }
    });
    told.collect()
}

/// Names of variables, members and elements in a line of source. Some are none: whoever evaluates them will know.
pub(super) fn names_in(line: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let mut names: Vec<String> = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        match letters[at] {
            '"' => at = closing_quote(&letters, at),
            '/' if letters.get(at + 1) == Some(&'/') => break,
            letter if is_name(letter) => {
                let (end, ways) = path(&letters, at);
                if !letter.is_ascii_digit() {
                    for name in ways {
                        if !names.contains(&name) {
                            names.push(name);
                        }
                    }
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    names
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn closing_quote(letters: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < letters.len() && letters[at] != '"' {
        at += if letters[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// A name with its members and indexes, and where to go on; each of its beginnings may be a value.
fn path(letters: &[char], from: usize) -> (usize, Vec<String>) {
    let text = |end: usize| letters[from..end].iter().collect::<String>();
    let mut ways = Vec::new();
    let mut at = from;
    let mut inside = None;
    loop {
        while at < letters.len() && is_name(letters[at]) {
            at += 1;
        }
        // What is called is no value.
        if letters.get(at).is_some_and(|next| matches!(next, '(' | '!') && letters.get(at + 1) != Some(&'='))
        {
            break;
        }
        ways.push(text(at));
        if letters.get(at) == Some(&'[')
            && let Some(length) = letters[at..].iter().position(|letter| *letter == ']')
        {
            inside = inside.or(Some(at + 1));
            at += length + 1;
            ways.push(text(at));
        }
        let next = match letters.get(at..) {
            Some(['.', letter, ..]) if is_name(*letter) => at + 1,
            Some(['-', '>', letter, ..] | [':', ':', letter, ..]) if is_name(*letter) => at + 2,
            _ => break,
        };
        at = next;
    }
    // An index is looked at by itself, too.
    (inside.unwrap_or(at.max(from + 1)), ways)
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::{ComparedCall, ComparedFunction};

    use super::*;

    fn way(posts: &[(u32, u64)]) -> Vec<PassedPost> {
        posts.iter().map(|&(post, frame)| PassedPost { post, frame }).collect()
    }

    fn joined(here: &[PassedPost], there: &[PassedPost], is_all: bool) -> Option<(usize, usize)> {
        join(Ahead { posts: here, is_all }, Ahead { posts: there, is_all })
    }

    #[test]
    fn ways_join_where_the_same_posts_follow_and_calls_in_between_do_not_matter() {
        let here = way(&[(1, 50), (7, 50), (8, 50), (9, 50)]);
        let there = way(&[(2, 50), (30, 40), (7, 40), (8, 40), (9, 40), (7, 50), (8, 50), (9, 50)]);
        assert_eq!(joined(&here, &there, false), Some((1, 5)));
        assert_eq!(joined(&here[..2], &there[..2], false), None);
    }

    #[test]
    fn one_more_round_is_where_the_loop_goes_on() {
        let here = way(&[(5, 50), (6, 60), (7, 60)]);
        let there = way(&[(4, 50), (5, 50), (6, 60), (7, 60)]);
        assert_eq!(joined(&here, &there, false), Some((0, 1)));
        // At the end fewer will do.
        assert_eq!(joined(&here[..1], &there[..2], true), Some((0, 1)));
        assert_eq!(joined(&here[..1], &there[..2], false), None);
    }

    #[test]
    fn ways_join_in_a_call_that_one_of_them_does_not_leave() {
        let here = way(&[(1, 50), (8, 40)]);
        let there = way(&[(2, 50), (8, 40), (9, 40), (3, 50), (4, 50)]);
        let (here, there) = (Ahead { posts: &here, is_all: true }, Ahead { posts: &there, is_all: false });
        assert_eq!(join(here, there), Some((1, 1)));
    }

    #[test]
    fn a_row_that_is_shorter_differs_at_its_end() {
        let row = way(&[(1, 0), (2, 0)]);
        assert_eq!(first_difference(&row, &row), None);
        assert_eq!(first_difference(&row, &row[..1]), Some(1));
        assert_eq!(first_difference(&row, &way(&[(1, 9), (3, 0)])), Some(1));
    }

    #[test]
    fn what_differs_is_told_once_and_whether_it_always_does() {
        let calls = |values: &[(bool, &str)]| WayCalls {
            functions: vec![ComparedFunction { name: "scale".into(), parameters: vec!["by".into()] }],
            calls: values
                .iter()
                .map(|(returned, value)| ComparedCall {
                    function: 0,
                    returned: *returned,
                    values: vec![Some((*value).to_owned())],
                })
                .collect(),
            frequent: 0,
            wanted: None,
        };
        let here = calls(&[(false, "1"), (true, "9"), (false, "2"), (true, "8"), (false, "3")]);
        let there = calls(&[(false, "1"), (true, "7"), (false, "4"), (true, "6"), (false, "3")]);
        let found = differing(&here, &there);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].call, found[0].parameter.as_deref(), found[0].is_always), (1, None, true));
        assert_eq!(
            (found[1].call, found[1].parameter.as_deref(), found[1].is_always),
            (2, Some("by"), false)
        );
        assert_eq!((found[1].here.as_str(), found[1].there.as_str()), ("2", "4"));
    }

    #[test]
    fn names_are_found_with_members_and_indexes() {
        assert_eq!(
            names_in("if (used > job->limit && held[slot] != 0x1f)"),
            ["if", "used", "job", "job->limit", "held", "held[slot]", "slot"]
        );
        assert_eq!(names_in("match self.count { // note"), ["match", "self", "self.count"]);
        assert_eq!(names_in("say(\"a b\", total)"), ["total"]);
        assert_eq!(names_in("while list.next() != last {"), ["while", "list", "last"]);
    }
}
