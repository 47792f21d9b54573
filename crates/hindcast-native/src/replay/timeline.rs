//! Moments of a recording that can be named, in the order of time.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use super::Frozen;
use crate::{
    record::{Event, Log},
    sys,
};

/// A copy of the process, by which moments are named.
pub(crate) struct Anchor {
    pub(crate) frozen: Frozen,
    /// How many events had happened.
    pub(crate) event: u64,
    /// Whether it stands right behind the last of them.
    pub(crate) aligned: bool,
    /// How many steps behind it are moments that somebody was told of.
    pub(crate) walked: u32,
    /// Whether somebody was told of it, so that it must stay.
    pub(crate) pinned: bool,
    /// As the user sees it.
    pub(crate) number: u64,
    /// How long the process had computed, where that is known.
    pub(crate) time: Option<Duration>,
}

/// The name of an anchor; names sort in the order of time. One that is not right behind an event has
/// a fraction, so that there is always room for another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label {
    event: u64,
    /// Digits to the base of 36.
    fraction: String,
}

impl Label {
    /// Right behind so many events.
    pub(crate) fn after_events(event: u64) -> Self {
        Self { event, fraction: String::new() }
    }

    /// How many events have happened, if it is right behind the last of them.
    pub(crate) fn aligned_event(&self) -> Option<u64> {
        self.fraction.is_empty().then_some(self.event)
    }
}

/// A moment: so many steps after an anchor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    pub(crate) anchor: Label,
    pub(crate) steps: u32,
}

/// All anchors.
#[derive(Default)]
pub(crate) struct Timeline {
    anchors: BTreeMap<Label, Anchor>,
    numbers: u64,
    /// Where the live process stands, while that is known.
    frontier: Option<Position>,
    /// How long the process had computed when the recording ended.
    end_time: Option<Duration>,
}

/// More that nobody was told of are thinned out, the older the more.
const MOST: usize = 128;
/// Beyond this also those that somebody was told of.
const MOST_KNOWN: usize = 2000;
/// So many stay however little memory there is.
const FEWEST: usize = 48;
/// Beyond this the history begins later: what cannot be replayed needs a copy each.
const LIMIT: usize = 2500;
/// So many of the last stay.
const RECENT: usize = 32;

impl Timeline {
    /// The live process was copied where it stands.
    pub(crate) fn push(&mut self, frozen: Frozen, event: u64, aligned: bool, time: Option<Duration>) {
        let label = match self.last().cloned() {
            Some(last) => self.insert_after(&last, frozen, event, aligned),
            None => {
                let label = Label::after_events(event);
                self.add(label.clone(), frozen, event, true);
                label
            }
        };
        if let Some(anchor) = self.anchors.get_mut(&label) {
            anchor.time = time;
        }
        self.frontier = Some(Position { anchor: label, steps: 0 });
    }

    /// A process was copied between this anchor and the next. More are expected between the two, before it.
    pub(crate) fn insert_after(
        &mut self,
        before: &Label,
        frozen: Frozen,
        event: u64,
        aligned: bool,
    ) -> Label {
        let fraction =
            if aligned { String::new() } else { self.fraction_after(before, event, Leaving::RoomBefore) };
        self.insert(Label { event, fraction }, frozen, event, aligned)
    }

    /// The same, where more are expected behind it.
    pub(crate) fn insert_right_after(&mut self, before: &Label, frozen: Frozen, event: u64) -> Label {
        let fraction = self.fraction_after(before, event, Leaving::RoomBehind);
        self.insert(Label { event, fraction }, frozen, event, false)
    }

    fn fraction_after(&self, before: &Label, event: u64, leaving: Leaving) -> String {
        let low = if before.event == event { before.fraction.as_str() } else { "" };
        let next = self.after(before).filter(|next| next.event == event && next.fraction.as_str() > low);
        between(low, next.map(|next| next.fraction.as_str()), leaving)
    }

    fn insert(&mut self, label: Label, frozen: Frozen, event: u64, aligned: bool) -> Label {
        if !self.anchors.contains_key(&label) {
            self.add(label.clone(), frozen, event, aligned);
        }
        label
    }

    fn add(&mut self, label: Label, frozen: Frozen, event: u64, aligned: bool) {
        let number = self.numbers;
        self.numbers += 1;
        self.anchors
            .insert(label, Anchor { frozen, event, aligned, walked: 0, pinned: false, number, time: None });
    }

    /// An anchor of a recording that was made before; false where it is not later than all others.
    pub(crate) fn restore(&mut self, label: Label, anchor: Anchor) -> bool {
        if self.last().is_some_and(|last| *last >= label) {
            return false;
        }
        self.numbers = self.numbers.max(anchor.number.saturating_add(1));
        self.anchors.insert(label, anchor);
        true
    }

    /// The first anchor with this number, or a later one.
    pub(crate) fn numbered(&self, number: u64) -> Option<&Label> {
        self.anchors.iter().find(|(_, anchor)| anchor.number >= number).map(|(label, _)| label)
    }

    /// Drops an anchor that was only on the way to another one, unless it is where that way began.
    pub(crate) fn discard(&mut self, label: &Label, start: &Label) {
        let needed = |anchor: &Anchor| anchor.pinned || anchor.walked > 0 || anchor.aligned;
        if label != start && !self.anchors.get(label).is_some_and(needed) {
            self.anchors.remove(label);
        }
    }

    /// The recording ends here, when the process had computed for so long.
    pub(crate) fn end_at(&mut self, time: Option<Duration>) {
        self.end_time = time;
    }

    /// How long the process had computed at the end of the recording, as far as that is known.
    pub(crate) fn end_time(&self) -> Option<Duration> {
        self.end_time.or_else(|| self.anchors.values().filter_map(|anchor| anchor.time).next_back())
    }

    /// Where the live process stands, if it has a name.
    pub(crate) fn frontier(&self) -> Option<&Position> {
        self.frontier.as_ref()
    }

    /// The live process stands here.
    pub(crate) fn set_frontier(&mut self, position: Position) {
        self.frontier = Some(position);
    }

    /// The live process made one step.
    pub(crate) fn step_frontier(&mut self) {
        if let Some(position) = &mut self.frontier {
            position.steps += 1;
        }
    }

    /// The live process went on, nobody knows how far.
    pub(crate) fn leave_frontier(&mut self) {
        self.frontier = None;
    }

    pub(crate) fn get(&self, label: &Label) -> Option<&Anchor> {
        self.anchors.get(label)
    }

    pub(crate) fn get_mut(&mut self, label: &Label) -> Option<&mut Anchor> {
        self.anchors.get_mut(label)
    }

    pub(crate) fn first(&self) -> Option<&Label> {
        self.anchors.keys().next()
    }

    pub(crate) fn last(&self) -> Option<&Label> {
        self.anchors.keys().next_back()
    }

    pub(crate) fn before(&self, label: &Label) -> Option<&Label> {
        self.anchors.range(..label.clone()).next_back().map(|(label, _)| label)
    }

    pub(crate) fn after(&self, label: &Label) -> Option<&Label> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.anchors.range((Excluded(label.clone()), Unbounded)).next().map(|(label, _)| label)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Label, &Anchor)> {
        self.anchors.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// The last anchor at which no more than `event` events had happened.
    pub(crate) fn at_event(&self, event: u64) -> Option<&Label> {
        self.anchors.iter().rev().find(|(_, anchor)| anchor.event <= event).map(|(label, _)| label)
    }

    /// Whether this anchor is where history goes on after something that came at a moment of its own, between two
    /// instructions: a signal, a change by the user, or the turn of another thread. The anchor before stands at that moment.
    pub(crate) fn follows_interruption(&self, label: &Label, log: &Log) -> bool {
        self.break_before(label, log) == Some(true)
    }

    /// Whether this anchor stands at such a moment: nothing but the anchor tells when that was.
    pub(crate) fn precedes_interruption(&self, label: &Label, log: &Log) -> bool {
        self.after(label).is_some_and(|next| self.follows_interruption(next, log))
    }

    /// Whether a thread's turn ends at this anchor.
    pub(crate) fn gives_way_at(&self, label: &Label, log: &Log) -> bool {
        let event = self.get(label).and_then(|anchor| log.get(anchor.event));
        event.is_some_and(|event| matches!(*event, Event::Turn { .. }))
            && self.precedes_interruption(label, log)
    }

    /// Whether the history before this anchor cannot be replayed up to it.
    pub(crate) fn follows_barrier(&self, label: &Label, log: &Log) -> bool {
        self.break_before(label, log).is_some()
    }

    /// Whether the event that this anchor is right behind cannot be replayed; and then, whether it is an interruption.
    fn break_before(&self, label: &Label, log: &Log) -> Option<bool> {
        log.break_at(self.get(label).filter(|anchor| anchor.aligned)?.event.checked_sub(1)?)
    }

    /// Drops an anchor where there are too many, or too little memory: the one that is missed least.
    pub(crate) fn thin(&mut self, log: &Log, memory_is_short: bool) {
        // Moments that somebody was told of stay, as long as there is room.
        let is_known = |anchor: &Anchor| anchor.pinned || anchor.walked > 0;
        let crowded = self.anchors.len() > MOST_KNOWN || memory_is_short && self.anchors.len() > FEWEST;
        if !crowded && self.anchors.values().filter(|anchor| !is_known(anchor)).count() <= MOST {
            return;
        }
        let labels: Vec<_> = self.anchors.keys().cloned().collect();
        let newest = self.numbers as f64;
        let number = |label: &Label| self.anchors[label].number as f64;
        let candidate = labels[..labels.len() - RECENT]
            .windows(3)
            .filter(|window| {
                let anchor = &self.anchors[&window[1]];
                (crowded || !is_known(anchor))
                    && !self.follows_barrier(&window[1], log)
                    && !self.follows_interruption(&window[2], log)
            })
            .min_by(|left, right| {
                // The gap that it would leave, measured by how long ago that is.
                let loss = |window: &[Label]| {
                    (number(&window[2]) - number(&window[0])).abs() / (newest - number(&window[1]) + 1.0)
                };
                loss(left).total_cmp(&loss(right))
            })
            .map(|window| window[1].clone());
        if let Some(label) = candidate {
            self.anchors.remove(&label);
        }
    }

    /// Drops the anchors whose copies were ended from outside, where others lead to what comes after them.
    pub(crate) fn drop_lost(&mut self, log: &Log) {
        let is_there = |anchor: &Anchor| sys::mappings(anchor.frozen.tid()).is_ok_and(|all| !all.is_empty());
        let frontier = self.frontier().map(|frontier| &frontier.anchor);
        let lost = self.anchors.iter().skip(1).filter(|(label, anchor)| {
            !is_there(anchor)
                && frontier != Some(label)
                && !self.follows_barrier(label, log)
                && !self.precedes_interruption(label, log)
        });
        let lost: Vec<_> = lost.map(|(label, _)| label.clone()).collect();
        for label in &lost {
            self.anchors.remove(label);
        }
    }

    /// Whether there are more than can be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.anchors.len() > LIMIT
    }

    /// Drops the oldest anchor, unless it is the only one; returns the events before the next.
    pub(crate) fn forget_first(&mut self) -> Option<u64> {
        if self.anchors.len() < 2 {
            return None;
        }
        self.anchors.pop_first();
        self.anchors.values().next().map(|anchor| anchor.event)
    }
}

/// Where more names are expected: they stay short there.
#[derive(Debug, Clone, Copy)]
enum Leaving {
    RoomBefore,
    RoomBehind,
}

/// Digits between two fractions; nearer to the second, because one mostly goes backwards.
fn between(low: &str, high: Option<&str>, leaving: Leaving) -> String {
    const BASE: u32 = 36;
    let digit = |text: &str, index: usize| {
        text.as_bytes().get(index).map_or(0, |&byte| char::from(byte).to_digit(BASE).unwrap_or(0))
    };
    let mut result = String::new();
    let mut bounded = high;
    for index in 0.. {
        let from = digit(low, index);
        let to = bounded.map_or(BASE, |high| digit(high, index));
        let text = |value: u32| char::from_digit(value, BASE).unwrap_or('0');
        if to > from + 1 {
            let share = match leaving {
                Leaving::RoomBefore => (to - from) * 7 / 8,
                Leaving::RoomBehind => (to - from) / 8,
            };
            let chosen = from + share.clamp(1, to - from - 1);
            result.push(text(chosen));
            break;
        }
        result.push(text(from));
        if to == from + 1 {
            // Whatever follows is below the upper one.
            bounded = None;
        }
    }
    result
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}", self.anchor.event)?;
        if !self.anchor.fraction.is_empty() {
            write!(f, ".{}", self.anchor.fraction)?;
        }
        // A plus sorts before the point of a fraction, and before all digits.
        write!(f, "+{:06}", self.steps)
    }
}

/// Not a moment of this recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotAPosition;

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (label, steps) = text.split_once('+').ok_or(NotAPosition)?;
        let (event, fraction) = label.split_once('.').unwrap_or((label, ""));
        let valid = fraction.chars().all(|digit| digit.is_ascii_digit() || digit.is_ascii_lowercase());
        match (event.parse(), steps.parse()) {
            (Ok(event), Ok(steps)) if valid => {
                Ok(Self { anchor: Label { event, fraction: fraction.to_owned() }, steps })
            }
            _ => Err(NotAPosition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_can_always_be_found_between_two_others() {
        let mut high: Option<String> = None;
        for _ in 0..200 {
            let middle = between("", high.as_deref(), Leaving::RoomBefore);
            assert!(middle.as_str() > "" && high.as_deref().is_none_or(|high| middle.as_str() < high));
            high = Some(middle);
        }
        let mut low = String::new();
        for _ in 0..200 {
            let middle = between(&low, Some("z"), Leaving::RoomBehind);
            assert!(middle.as_str() > low.as_str() && middle.as_str() < "z", "{low} {middle}");
            low = middle;
        }
    }

    #[test]
    fn texts_sort_in_the_order_of_time() {
        let position = |event, fraction: &str, steps| Position {
            anchor: Label { event, fraction: fraction.into() },
            steps,
        };
        let ordered = [
            position(1, "", 0),
            position(1, "", 7),
            position(1, "", 12),
            position(1, "a", 0),
            position(1, "a", 3),
            position(1, "ab", 0),
            position(2, "", 0),
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string(), "{pair:?}");
        }
        for position in ordered {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
    }
}
