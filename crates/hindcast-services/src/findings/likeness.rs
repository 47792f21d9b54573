//! How alike two failures are, by their fingerprints.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use super::{
    fingerprint::{Fingerprint, FrameMark},
    normal,
};

/// How much each part counts among those that both fingerprints have.
const KIND: f32 = 1.0;
const ACCESS: f32 = 1.0;
const MESSAGE: f32 = 2.5;
const EXPRESSION: f32 = 1.0;
const STACK: f32 = 3.0;

/// How much less each frame counts than the one inside of it.
const OUTER: f32 = 0.65;

/// A frame that only has the shape of its statement in common.
const BY_SHAPE: f32 = 0.8;

/// What is left where another signal or exception ended the program: the same mistake may show in two ways.
const OTHER_KIND: f32 = 0.45;

/// Frames that are alike at least this much are told.
const TOLD: f32 = 0.55;

/// How rare names are among all findings: what every finding has tells them not apart.
#[derive(Debug, Default)]
pub(super) struct Rarity {
    among: f32,
    frames: HashMap<String, f32>,
}

impl Rarity {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Fingerprint>) -> Self {
        let mut rarity = Self::default();
        for fingerprint in all {
            rarity.among += 1.0;
            let mut names: Vec<&str> = fingerprint.frames.iter().map(|frame| &*frame.function).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                *rarity.frames.entry(name.to_owned()).or_default() += 1.0;
            }
        }
        rarity
    }

    /// From 1 for a name that none or one has to a third for one that all have.
    fn weight(&self, name: &str) -> f32 {
        let count = self.frames.get(name).copied().unwrap_or_default();
        1.0 / (1.0 + 2.0 * (count - 1.0).max(0.0) / self.among.max(1.0))
    }
}

/// How alike two failures are, and in what.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Likeness {
    /// 0..1.
    pub(super) score: f32,
    /// What agrees, in words.
    pub(super) agreeing: Vec<String>,
}

/// A failure that others are compared with: what of it has to be taken apart for that is taken apart once.
pub(super) struct Comparison {
    one: Fingerprint,
    frames: Vec<Frame>,
}

impl Comparison {
    pub(super) fn new(one: Fingerprint) -> Self {
        let frames = one.frames.iter().map(Frame::of).collect();
        Self { one, frames }
    }

    /// Compares what both failures have.
    pub(super) fn with(&self, other: &Fingerprint, rarity: &Rarity) -> Likeness {
        let one = &self.one;
        let mut sum = Sum::default();
        let mut agreeing = Vec::new();
        let same_kind = one.kind == other.kind;
        if !one.kind.is_empty() && !other.kind.is_empty() {
            sum.take(KIND, if same_kind { 1.0 } else { 0.0 });
            if same_kind {
                agreeing.push(one.kind.clone());
            }
        }
        if !one.access.is_empty() && !other.access.is_empty() {
            let alike = access(&one.access, &other.access);
            sum.take(ACCESS, alike);
            if alike > TOLD {
                agreeing.push(one.access.replace('_', " "));
            }
        }
        if !one.message.is_empty() && !other.message.is_empty() {
            let alike = words(&one.message).alike(&words(&other.message));
            // A message that says nothing but a name is no evidence.
            sum.take(MESSAGE, alike * alike);
            if alike > 0.8 {
                agreeing.push(format!("\"{}\"", one.message));
            }
        }
        if !one.expression.is_empty() && !other.expression.is_empty() {
            let alike = Shape::of(&one.expression).alike(&Shape::of(&other.expression));
            sum.take(EXPRESSION, alike);
            if alike > 0.99 {
                agreeing.push(format!("`{}` was bad as `{}` was", one.expression, other.expression));
            }
        }
        if !one.frames.is_empty() && !other.frames.is_empty() {
            let others: Vec<Frame> = other.frames.iter().map(Frame::of).collect();
            let (alike, pairs) = stacks(&self.frames, &others, rarity);
            sum.take(STACK, alike);
            agreeing.extend(pairs);
        }
        let factor = if same_kind || one.kind.is_empty() || other.kind.is_empty() { 1.0 } else { OTHER_KIND };
        Likeness { score: sum.share() * factor, agreeing }
    }
}

#[derive(Default)]
struct Sum {
    sum: f32,
    weight: f32,
}

impl Sum {
    fn take(&mut self, weight: f32, alike: f32) {
        self.sum += weight * alike;
        self.weight += weight;
    }

    fn share(&self) -> f32 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }
}

/// `null_dereference read` and `null_dereference write` are alike, but not the same.
fn access(one: &str, other: &str) -> f32 {
    let kind = |access: &str| access.split(' ').next().unwrap_or_default().to_owned();
    let is_wild = |access: &str| ["unmapped", "non_canonical", "out_of_bounds"].contains(&&*kind(access));
    match one == other {
        true => 1.0,
        false if kind(one) == kind(other) => 0.7,
        // Which of them it is depends on what stood there by chance.
        false if is_wild(one) && is_wild(other) => 0.6,
        false => 0.0,
    }
}

/// Words of which it matters how often each is there, not where.
struct Bag(Vec<u64>);

impl Bag {
    fn of<T: Hash>(words: impl Iterator<Item = T>) -> Self {
        let hash = |word: T| {
            let mut hasher = DefaultHasher::new();
            word.hash(&mut hasher);
            hasher.finish()
        };
        let mut words: Vec<u64> = words.map(hash).collect();
        words.sort_unstable();
        Self(words)
    }

    /// What two have in common: twice the common part by both.
    fn alike(&self, other: &Self) -> f32 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0_u32;
        while let (Some(one), Some(another)) = (ours.peek(), theirs.peek()) {
            let order = one.cmp(another);
            if order.is_le() {
                ours.next();
            }
            if order.is_ge() {
                theirs.next();
            }
            common += u32::from(order.is_eq());
        }
        let both = self.0.len() + other.0.len();
        if both == 0 { 0.0 } else { 2.0 * common as f32 / both as f32 }
    }
}

fn words(text: &str) -> Bag {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Bag::of(words.filter(|word| !word.is_empty()).map(str::to_lowercase))
}

/// A piece of code when names do not matter.
struct Shape {
    words: Vec<String>,
    pairs: Bag,
}

impl Shape {
    fn of(code: &str) -> Self {
        let words = normal::shape(code);
        let ends = [&["^".to_owned()], &*words, &["$".to_owned()]].concat();
        let pairs = Bag::of(ends.windows(2));
        Self { words, pairs }
    }

    fn alike(&self, other: &Self) -> f32 {
        if self.words == other.words {
            return if self.words.is_empty() { 0.0 } else { 1.0 };
        }
        self.pairs.alike(&other.pairs)
    }
}

/// A frame, taken apart.
struct Frame {
    is_own: bool,
    function: String,
    /// None where the statement is not known.
    shape: Option<Shape>,
    called: Bag,
    names: Bag,
}

impl Frame {
    fn of(mark: &FrameMark) -> Self {
        let FrameMark { is_own, function, statement } = mark;
        let called = statement.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        Self {
            is_own: *is_own,
            function: function.clone(),
            shape: (!statement.is_empty()).then(|| Shape::of(statement)),
            called: Bag::of(called.filter(|part| part.chars().count() > 1).map(str::to_lowercase)),
            names: Bag::of(normal::parts(function).into_iter()),
        }
    }

    fn alike(&self, other: &Self) -> f32 {
        let is_same = self.function == other.function;
        if self.is_own != other.is_own {
            return if is_same { 1.0 } else { 0.0 };
        }
        if !self.is_own {
            return if is_same { 1.0 } else { library(&self.function, &other.function) };
        }
        let names = if is_same { 1.0 } else { self.names.alike(&other.names) };
        let (Some(one), Some(another)) = (&self.shape, &other.shape) else { return names };
        let (shape, words) = (one.alike(another), self.called.alike(&other.called));
        match &*self.function {
            // `main` says nothing of what it does.
            "main" => shape * 0.7 + words * 0.3,
            _ => (shape * BY_SHAPE + words * (1.0 - BY_SHAPE)).max(names * 0.6 + shape * 0.3 + words * 0.1),
        }
    }
}

/// `std::vector::_M_range_check` and `std::vector::at` are of one kind.
fn library(one: &str, other: &str) -> f32 {
    let of = |name: &str| name.rsplit_once("::").map(|(of, _)| of.to_owned());
    if of(one).is_some() && of(one) == of(other) { 0.5 } else { 0.0 }
}

/// The best way to lay one stack beside the other, the innermost frames counting most, and the pairs that agree.
fn stacks(one: &[Frame], other: &[Frame], rarity: &Rarity) -> (f32, Vec<String>) {
    let depths = |frames: &[Frame]| -> Vec<f32> {
        let mut depth = 1.0;
        let weight = |frame: &Frame| {
            let weight = depth * rarity.weight(&frame.function);
            depth *= OUTER;
            weight
        };
        frames.iter().map(weight).collect()
    };
    let (ones, others) = (depths(one), depths(other));
    let alike: Vec<Vec<f32>> =
        one.iter().map(|frame| other.iter().map(|another| frame.alike(another)).collect()).collect();
    let value = |row: usize, column: usize| alike[row][column] * (ones[row] * others[column]).sqrt();
    let mut best = vec![vec![0.0_f32; other.len() + 1]; one.len() + 1];
    for row in (0..one.len()).rev() {
        for column in (0..other.len()).rev() {
            let both = best[row + 1][column + 1] + value(row, column);
            best[row][column] = both.max(best[row + 1][column]).max(best[row][column + 1]);
        }
    }
    let (mut row, mut column, mut told) = (0, 0, Vec::new());
    while row < one.len() && column < other.len() {
        let both = best[row + 1][column + 1] + value(row, column);
        if best[row][column] > both {
            if best[row + 1][column] >= best[row][column + 1] {
                row += 1
            } else {
                column += 1
            }
            continue;
        }
        if alike[row][column] >= TOLD && told.len() < 4 {
            told.push(match one[row].function == other[column].function {
                true => format!("frame {}", one[row].function),
                false => format!("frame {} like {}", one[row].function, other[column].function),
            });
        }
        (row, column) = (row + 1, column + 1);
    }
    let all = ones.iter().sum::<f32>() + others.iter().sum::<f32>();
    (if all > 0.0 { 2.0 * best[0][0] / all } else { 0.0 }, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(function: &str, statement: &str) -> FrameMark {
        FrameMark { is_own: true, function: function.into(), statement: statement.into() }
    }

    fn crash(kind: &str, access: &str, frames: &[FrameMark]) -> Fingerprint {
        Fingerprint {
            kind: kind.into(),
            access: access.into(),
            frames: frames.to_vec(),
            ..Fingerprint::default()
        }
    }

    fn score(one: &Fingerprint, other: &Fingerprint) -> f32 {
        Comparison::new(one.clone()).with(other, &Rarity::default()).score
    }

    #[test]
    fn the_same_failure_under_other_names_is_nearer_than_another_at_the_same_signal() {
        let known = crash(
            "SIGSEGV",
            "null_dereference read",
            &[own("price_of", "return item->price;"), own("total", "sum += price_of(find(list, key));")],
        );
        let renamed = crash(
            "SIGSEGV",
            "null_dereference read",
            &[own("length", "return song->seconds;"), own("played", "all += length(search(album, title));")],
        );
        let other = crash(
            "SIGSEGV",
            "null_dereference write",
            &[own("fill", "buffer[index] = 0;"), own("prepare", "fill(grid, width * height);")],
        );
        assert!((score(&known, &known) - 1.0).abs() < 0.001);
        assert!(score(&known, &renamed) > 0.8, "{}", score(&known, &renamed));
        assert!(score(&known, &other) < score(&known, &renamed) - 0.2);
    }

    #[test]
    fn a_frame_that_was_put_in_between_does_little() {
        let [inner, outer] =
            [own("take", "return queue->head->value;"), own("main", "printf(\"%d\", take(q));")];
        let known = crash("SIGSEGV", "", &[inner.clone(), outer.clone()]);
        let wrapped = crash("SIGSEGV", "", &[inner, own("serve", "work(q);"), outer]);
        assert!(score(&known, &wrapped) > 0.8);
    }

    #[test]
    fn another_signal_or_exception_is_far_but_not_out_of_reach() {
        let frames = [own("drop_all", "free(list->data);")];
        let (one, other) = (crash("SIGABRT", "", &frames), crash("SIGSEGV", "", &frames));
        assert!(score(&one, &other) > 0.25 && score(&one, &other) < 0.5);
    }

    #[test]
    fn what_agrees_is_told() {
        let one = crash("SIGSEGV", "", &[own("total", "a = b->c;"), own("main", "total();")]);
        let alike = Comparison::new(one.clone()).with(&one, &Rarity::of([&one].into_iter()));
        assert_eq!(alike.agreeing, ["SIGSEGV", "frame total", "frame main"]);
    }

    /// A tenant may keep thousands of findings: each is compared with every question of those who see them.
    #[test]
    fn a_comparison_takes_each_frame_apart_once() {
        let long = "a->b(c, d[e]); ".repeat(10_000);
        let mut text = "    kind: KeyError\n".to_owned();
        for number in 0..12 {
            text += &format!("    frame: f{number}_{long} | {long}\n");
        }
        let hostile = Fingerprint::parse(&text);
        let bytes: usize =
            hostile.frames.iter().map(|frame| frame.function.len() + frame.statement.len()).sum();
        assert!(bytes <= 12 * 460, "{bytes}");
        let asked = Comparison::new(hostile.clone());
        assert!(asked.with(&hostile, &Rarity::default()).score > 0.9);
        let words =
            asked.frames.iter().map(|frame| frame.shape.as_ref().map_or(0, |shape| shape.words.len()));
        assert!(words.max() <= Some(60));
    }

    #[test]
    fn nothing_is_like_nothing() {
        let empty = Fingerprint::default();
        assert_eq!(score(&empty, &empty), 0.0);
    }
}
