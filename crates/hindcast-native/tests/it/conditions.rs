//! Conditions and hit counts in the past: what code beside the program judges is what the debugger judges at each pass.

use hindcast_core::debug::{CodeBreakpoint, Destination, Moment, Movement, Place, StopReason};
use hindcast_fixtures::{Fixture, oracle_size};

use crate::debuggee::Debuggee;

/// Numbers that look random and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    /// A comparison of two numbers.
    fn comparison(&mut self, words: &Vocabulary) -> String {
        const CONSTANTS: &[&str] =
            &["0", "1", "-1", "5", "100", "-40", "127", "200", "65535", "-32768", "0x80000000", "4294967295"];
        const RELATIONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
        match self.below(10) {
            0..=2 => self.one_of(words.truths).into(),
            3..=5 => {
                let (one, other) = (self.one_of(words.values), self.one_of(words.values));
                format!("{one} {} {other}", self.one_of(RELATIONS))
            }
            _ => {
                let (value, constant) = (self.one_of(words.values), self.one_of(CONSTANTS));
                format!("{value} {} {constant}", self.one_of(RELATIONS))
            }
        }
    }

    pub(crate) fn condition(&mut self, words: &Vocabulary) -> String {
        let mut next = || self.comparison(words);
        let (one, two, three) = (next(), next(), next());
        match self.below(6) {
            0 => format!("({one}) && ({two})"),
            1 => format!("({one}) || ({two})"),
            2 => format!("!(({one}) && ({two})) || ({three})"),
            _ => one,
        }
    }
}

/// What conditions are made of.
pub(crate) struct Vocabulary {
    /// Numbers.
    values: &'static [&'static str],
    /// What is true or false by itself.
    truths: &'static [&'static str],
}

pub(crate) const C: Vocabulary = Vocabulary {
    values: &[
        "round",
        "small",
        "medium",
        "large",
        "huge",
        "key",
        "byte",
        "total",
        "narrow",
        "item->key",
        "item->kind",
        "items[3].key",
        "item->next->key",
        "round % 7",
        "key % 5",
        "large & 12",
        "byte & 3",
    ],
    truths: &[
        "odd",
        "!odd",
        "odd == true",
        "odd == 0",
        "item",
        "!item",
        "small",
        "!byte",
        "colour == RED",
        "colour != GREEN",
        "colour == BLUE",
        "item == 0",
        "item != nullptr",
        "item == item->next",
    ],
};

pub(crate) const CPP: Vocabulary = Vocabulary {
    values: &[
        "round",
        "total",
        "passes",
        "this->passes",
        "own.key",
        "own.weight",
        "item.key",
        "item.depth",
        "item.weight",
        "item.size",
        "maybe->key",
        "maybe->size",
        "current->key",
        "current->next->depth",
        "item.owned->key",
        "passes % 7",
        "item.depth & 12",
    ],
    truths: &[
        "item.odd",
        "!item.odd",
        "maybe",
        "!current",
        "maybe == current",
        "item.next == maybe",
        "item.colour == Colour::red",
        "item.colour != Colour::green",
        "current->colour == Colour::blue",
        "maybe->odd",
        "spare",
    ],
};

pub(crate) const RUST: Vocabulary = Vocabulary {
    values: &[
        "round",
        "self.total",
        "self.passes",
        "self.own.count",
        "item.key",
        "item.depth",
        "item.boxed.count",
        "item.boxed.size",
        "item.shared.size",
        "item.cell.value.value",
        "*seen",
        "self.passes % 7",
    ],
    truths: &["item.odd", "!item.odd", "item.odd == true", "item.key == 3 || item.odd"],
};

fn moment(debuggee: &mut Debuggee) -> Moment {
    let past = debuggee.backend().time_travel().expect("it travels");
    past.now().expect("it can tell").expect("there is a moment").moment
}

/// Where a breakpoint stops on the way back from the present, at most so often, and then forwards again.
fn stops(debuggee: &mut Debuggee, breakpoint: &CodeBreakpoint, most: usize) -> Vec<String> {
    debuggee.movement(Movement::Goto(Destination::Present));
    let id = debuggee.add(breakpoint.clone()).id;
    let mut seen = Vec::new();
    for movement in [Movement::ReverseContinue, Movement::Continue] {
        for _ in 0..most {
            let stop = debuggee.movement(movement.clone()).clone();
            let known = debuggee.backend().breakpoints().expect("they can be listed");
            let hits = known.iter().find(|known| known.id == id).map(|known| known.hit_count);
            let round = debuggee.evaluate("round").unwrap_or_default();
            seen.push(format!(
                "{:?} {round} {hits:?} {} {}",
                stop.reason,
                stop.detail.is_some(),
                moment(debuggee)
            ));
            if stop.reason != StopReason::Breakpoint {
                break;
            }
        }
    }
    debuggee.backend().remove_breakpoint(id).expect("it is there");
    seen
}

#[test]
fn conditions_that_code_judges_hold_at_the_same_moments_as_those_that_are_evaluated() {
    let rounds = oracle_size(60, 600).to_string();
    let count = oracle_size(6, 100);
    // Reading the symbols takes longest, so one session is asked about several places.
    for (optimisation, marks) in
        [("-O0", &["judged", "followed"][..]), ("-O1", &["judged"]), ("-O2", &["written", "followed"])]
    {
        let mut debuggee = Debuggee::record(&Fixture::c("conditions").flags([optimisation]), &[&rounds]);
        debuggee.run_to("done");
        for mark in marks {
            check_conditions(&mut debuggee, mark, &C, count);
        }
        debuggee.movement(Movement::Goto(Destination::Present));
        debuggee.expect_exit(0);
    }
}

#[test]
fn conditions_over_members_are_judged_by_code_as_they_are_evaluated() {
    let rounds = oracle_size(60, 600).to_string();
    let count = oracle_size(3, 150);
    let cpp = |optimisation| (Fixture::cpp("conditions").flags([optimisation]), &CPP);
    let rust = |optimisation: &'static [&'static str]| {
        (Fixture::rust("conditions").flags(optimisation.iter().copied()), &RUST)
    };
    for (fixture, words) in [cpp("-O0"), cpp("-O2"), rust(&[]), rust(&["-C", "opt-level=2"])] {
        let mut debuggee = Debuggee::record(&fixture, &[&rounds]);
        debuggee.run_to("done");
        check_conditions(&mut debuggee, "judged", words, count);
    }
}

/// Random conditions at a place, each judged by code and evaluated at each pass.
fn check_conditions(debuggee: &mut Debuggee, mark: &str, words: &Vocabulary, count: usize) {
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line(mark));
    let mut random = Random(line.into());
    for _ in 0..count {
        let condition = random.condition(words);
        let mut breakpoint = CodeBreakpoint::at(Place::Line { file: file.clone(), line });
        if random.below(3) == 0 {
            breakpoint.hit_count = 1 + random.below(20) as u64;
            breakpoint.hit_count_multiple = random.below(5) as u64;
        }
        breakpoint.condition = Some(condition.clone());
        let by_code = stops(debuggee, &breakpoint, 4);
        // Nobody makes code of this one.
        breakpoint.condition = Some(format!("({condition}) ? 1 : 0"));
        let by_evaluation = stops(debuggee, &breakpoint, 4);
        assert_eq!(by_code, by_evaluation, "{} {breakpoint:?}", debuggee.built.path.display());
    }
}

#[test]
fn a_line_that_is_passed_a_million_times_is_found_by_its_condition_and_by_its_hits() {
    let mut debuggee = Debuggee::record(&Fixture::c("conditions").flags(["-O1"]), &["1000000"]);
    debuggee.run_to("done");
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("judged"));
    let mut breakpoint = CodeBreakpoint::at(Place::Line { file, line });
    for (condition, round) in [("round == 3", "3"), ("round % 1000 == 7 && round < 500000", "499007")] {
        breakpoint.condition = Some(condition.into());
        let id = debuggee.add(breakpoint.clone()).id;
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
        assert_eq!(debuggee.value_of("round"), round);
        debuggee.backend().remove_breakpoint(id).unwrap();
        debuggee.movement(Movement::Goto(Destination::Present));
    }
    breakpoint.condition = None;
    breakpoint.hit_count = 999_990;
    let id = debuggee.add(breakpoint.clone()).id;
    // The last hit before it was set is number 1.
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
    assert_eq!(debuggee.value_of("round"), "10");
    debuggee.backend().remove_breakpoint(id).unwrap();

    // Forwards again.
    breakpoint.hit_count = 900_000;
    let id = debuggee.add(breakpoint.clone()).id;
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
    assert_eq!(debuggee.value_of("round"), "900010");
    debuggee.backend().remove_breakpoint(id).unwrap();
    debuggee.movement(Movement::Goto(Destination::Start));
    breakpoint.hit_count = 2;
    breakpoint.condition = Some("large == 2663434465".into());
    debuggee.add(breakpoint);
    assert_eq!(debuggee.go().reason, StopReason::Present, "it holds once");
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    debuggee.movement(Movement::Goto(Destination::Present));
    debuggee.expect_exit(0);
}

/// Threads run one after the other in a replay: each pass is judged with the variables of the thread that makes it.
#[test]
fn conditions_and_hits_of_threads_are_those_of_the_thread_that_passes() {
    let mut debuggee = Debuggee::record(&Fixture::c("crowd").flags(["-O0", "-pthread"]), &["4", "40", "1"]);
    debuggee.run_to("done");
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("computes"));
    const HITS: [(u64, u64); 3] = [(0, 0), (3, 0), (0, 2)];
    let conditions = ["i == 7", "seed == 2000 && i < 3", "seed >= 1000 && i % 15 == 14", "work != 40"];
    for (first, condition) in conditions.into_iter().enumerate() {
        // Each kind of hits with some condition; every one with each where there is time.
        for (hit_count, hit_count_multiple) in
            HITS.into_iter().cycle().skip(first).take(oracle_size(1, HITS.len()))
        {
            let mut breakpoint = CodeBreakpoint::at(Place::Line { file: file.clone(), line });
            (breakpoint.hit_count, breakpoint.hit_count_multiple) = (hit_count, hit_count_multiple);
            breakpoint.condition = Some(condition.into());
            let by_code = stops(&mut debuggee, &breakpoint, 5);
            breakpoint.condition = Some(format!("({condition}) ? 1 : 0"));
            assert_eq!(by_code, stops(&mut debuggee, &breakpoint, 5), "{condition} {hit_count}");
        }
    }
    debuggee.movement(Movement::Goto(Destination::Present));
    debuggee.expect_exit(0);
}
