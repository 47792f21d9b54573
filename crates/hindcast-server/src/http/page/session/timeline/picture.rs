//! Drawing: where marks are, which of them become one, and the SVG.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::{Lane, Mark, View, words};

/// What is marked, in the order of importance: where marks become one, it looks like the first.
pub(super) const KINDS: [(&str, &str); 11] = [
    ("write", "write"),
    ("signal", "signal"),
    ("stop", "stop"),
    ("breakpoint", "breakpoint"),
    ("tracepoint", "tracepoint"),
    ("exec", "another program"),
    ("fork", "process"),
    ("thread", "thread"),
    ("recording", "recording"),
    ("output", "output"),
    ("checkpoint", "checkpoint"),
];

/// Marks in all lanes together; each takes about 250 bytes of the page.
const MOST_MARKS: usize = 200;
/// Room for marks beside each other in a lane.
const FINEST: usize = 120;
const COARSEST: usize = 12;
/// In pixels.
const LANE: usize = 30;
/// How finely it is told when a thread ran.
const RUN_COLUMNS: usize = 400;

/// Where moments are.
pub(super) struct Picture {
    places: BTreeMap<String, usize>,
}

/// Marks that are drawn as one.
struct Group<'a> {
    marks: Vec<&'a Mark>,
    place: f64,
}

impl Picture {
    pub(super) fn new(lanes: &[Lane], edges: Vec<String>) -> Self {
        let mut moments: BTreeSet<String> = edges.into_iter().collect();
        for lane in lanes {
            moments.extend(lane.marks.iter().map(|mark| mark.moment.clone()));
            moments.extend(lane.runs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]));
        }
        Self { places: moments.into_iter().zip(0..).collect() }
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "it is a place in a picture")]
    fn place(&self, moment: &str) -> f64 {
        let last = self.places.len().saturating_sub(1).max(1) as f64;
        self.places.get(moment).copied().unwrap_or(0) as f64 / last
    }

    /// Marks beside each other as one, so coarsely that there are not too many.
    fn grouped<'a>(&self, lanes: &'a [Lane]) -> Vec<Vec<Group<'a>>> {
        let mut columns = FINEST;
        loop {
            let groups: Vec<_> = lanes.iter().map(|lane| self.groups(lane, columns)).collect();
            let count: usize = groups.iter().map(Vec::len).sum();
            if count <= MOST_MARKS || columns <= COARSEST {
                return groups;
            }
            columns = columns * 3 / 4;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the number of columns"
    )]
    #[expect(clippy::cast_precision_loss, reason = "it is a place in a picture")]
    fn groups<'a>(&self, lane: &'a Lane, columns: usize) -> Vec<Group<'a>> {
        let mut groups: BTreeMap<usize, Group<'a>> = BTreeMap::new();
        for mark in &lane.marks {
            let place = self.place(&mark.moment);
            let column = (place * columns as f64) as usize;
            groups.entry(column).or_insert_with(|| Group { marks: Vec::new(), place }).marks.push(mark);
        }
        groups.into_values().collect()
    }

    /// The picture.
    pub(super) fn draw(&self, view: &View, lanes: &[Lane], now: &str) -> Markup {
        let height = (lanes.len() * LANE).to_string();
        let here = percent(self.place(now));
        html! {
            div.picture {
                ol.lanes {
                    @for lane in lanes { li title=(lane.title) { (lane.name) } }
                }
                svg width="100%" height=(height) role="group" aria-label="Timeline" {
                    (shapes())
                    @for (row, lane) in lanes.iter().enumerate() {
                        @let middle = (row * LANE + LANE / 2).to_string();
                        line.lane x1="0" x2="100%" y1=(middle) y2=(middle) {}
                        svg x=(INSET) width=(INNER) y=(row * LANE + LANE / 2 - 3) height="6" viewBox={ "0 0 " (RUN_COLUMNS) " 6" }
                            preserveAspectRatio="none" aria-hidden="true" {
                            path.runs d=(self.runs(lane)) {}
                        }
                    }
                    line.now x1=(here) x2=(here) y1="0" y2=(height) {}
                    @for (row, groups) in self.grouped(lanes).iter().enumerate() {
                        @for group in groups { (group.draw(view, row * LANE + LANE / 2, now)) }
                    }
                }
            }
        }
    }

    /// When the thread of a lane ran, as a path of bars.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the number of columns"
    )]
    #[expect(clippy::cast_precision_loss, reason = "it is a place in a picture")]
    fn runs(&self, lane: &Lane) -> String {
        let mut columns = [false; RUN_COLUMNS];
        for (from, to) in &lane.runs {
            let column =
                |moment: &str| ((self.place(moment) * RUN_COLUMNS as f64) as usize).min(RUN_COLUMNS - 1);
            columns[column(from)..=column(to)].fill(true);
        }
        let mut path = String::new();
        let mut column = 0;
        while column < RUN_COLUMNS {
            let length = columns[column..].iter().take_while(|runs| **runs).count();
            if length > 0 {
                path += &format!("M{column} 0h{length}v6h-{length}z");
            }
            column += length.max(1);
        }
        path
    }
}

/// Marks keep away from the edges by this much, on both sides.
const INSET: &str = "1%";
const INNER: &str = "98%";

fn percent(place: f64) -> String {
    format!("{:.2}%", 1.0 + place * 98.0)
}

impl Group<'_> {
    fn draw(&self, view: &View, middle: usize, now: &str) -> Markup {
        let kind = KINDS.iter().find(|(kind, _)| self.marks.iter().any(|mark| mark.kind == *kind));
        let kind = kind.map_or("stop", |(kind, _)| *kind);
        let (Some(first), Some(last)) = (self.marks.first(), self.marks.last()) else { return html! {} };
        let is_one = self.marks.len() == 1 || first.moment == last.moment;
        let href = match is_one {
            true => view.link(&[("at", &first.moment)]),
            false => view.link(&[("since", &first.moment), ("until", &last.moment), ("at", "")]),
        };
        let told =
            if is_one { format!("{}: {}", first.kind, words::cut(&first.what, 80)) } else { self.summary() };
        let is_now = self.marks.iter().any(|mark| mark.moment == now);
        html! {
            a.mark .many[!is_one] .is-now[is_now] .{ "k-" (kind) } href=(href) aria-label=(told) {
                title { (told) }
                @if !is_one { use href="#m-many" x=(percent(self.place)) y=(middle) {} }
                use href={ "#m-" (kind) } x=(percent(self.place)) y=(middle) {}
            }
        }
    }

    /// `12 entries: 9 output, 3 breakpoint`.
    fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for mark in &self.marks {
            *counts.entry(mark.kind).or_default() += 1;
        }
        let told: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("{} entries: {}", self.marks.len(), told.join(", "))
    }
}

/// A shape for each kind: colours alone do not tell them apart.
fn shapes() -> Markup {
    let paths = [
        ("write", "M0-8 8 0 0 8-8 0z"),
        ("signal", "M0-8 8 7H-8z"),
        ("stop", "M-6-6H6V6H-6z"),
        ("breakpoint", "M0-6A6 6 0 0 1 0 6 6 6 0 0 1 0-6"),
        ("tracepoint", "M0-6 6 0 0 6-6 0z"),
        ("exec", "M-5-7 7 0-5 7z"),
        ("fork", "M-5-7 7 0-5 7z"),
        ("thread", "M-6-6 6 0-6 6z"),
        ("recording", "M-2-8H2V8H-2z"),
        ("output", "M-4-4H4V4H-4z"),
        ("checkpoint", "M-1.5-7H1.5V7H-1.5z"),
        ("many", "M0-11A11 11 0 0 1 0 11 11 11 0 0 1 0-11"),
    ];
    html! {
        defs { @for (kind, path) in paths { path id={ "m-" (kind) } d=(path) {} } }
    }
}

/// A mark for the legend.
pub(super) fn sample(kind: &str) -> Markup {
    html! {
        svg.{ "k-" (kind) } width="16" height="16" viewBox="-9 -9 18 18" aria-hidden="true" {
            use href={ "#m-" (kind) } {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(count: usize) -> Lane {
        let mut lane = Lane::new("thread 1", "");
        for number in 0..count {
            let kind = if number % 100 == 7 { "signal" } else { "output" };
            lane.marks.push(Mark { moment: format!("{number:06}"), kind, what: "stdout: x".into() });
        }
        lane
    }

    fn view() -> View {
        View::of("s", &crate::http::page::Fields::read(b"watch=x"))
    }

    #[test]
    fn ten_thousand_entries_become_a_small_picture_in_which_nothing_is_lost() {
        let lanes: Vec<_> = (0..10).map(|_| lane(1000)).collect();
        let picture = Picture::new(&lanes, Vec::new());
        let groups = picture.grouped(&lanes);
        assert!(groups.iter().map(Vec::len).sum::<usize>() <= MOST_MARKS);
        let marks: usize = groups.iter().flatten().map(|group| group.marks.len()).sum();
        assert_eq!(marks, 10_000);
        let drawn = picture.draw(&view(), &lanes, "000500").into_string();
        assert!(drawn.len() < 110_000, "{}", drawn.len());
    }

    #[test]
    fn a_mark_leads_to_its_moment_and_several_to_their_part() {
        let lanes = [lane(3)];
        let drawn = Picture::new(&lanes, Vec::new()).draw(&view(), &lanes, "000001").into_string();
        assert!(drawn.contains("/sessions/s?watch=x&amp;at=000002"), "{drawn}");
        let lanes = [lane(1000)];
        let drawn = Picture::new(&lanes, Vec::new()).draw(&view(), &lanes, "000001").into_string();
        assert!(drawn.contains("since=000000&amp;until=00000"), "{drawn}");
    }
}
