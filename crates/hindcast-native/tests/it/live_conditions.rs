//! Conditions and hit counts of the live program, which code beside it judges while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use hindcast_core::debug::{
    CodeBreakpoint, Destination, Movement, Outcome, OutputStream, Place, StopReason, Trigger,
};
use hindcast_fixtures::{Fixture, oracle_size};

use crate::{
    conditions::{C, CPP, RUST, Random, Vocabulary},
    debuggee::Debuggee,
};

fn at_mark(debuggee: &Debuggee, mark: &str) -> CodeBreakpoint {
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line(mark));
    CodeBreakpoint::at(Place::Line { file, line })
}

/// Where a program stops that goes on to one condition after the other.
fn stops(fixture: &Fixture, mark: &str, rounds: &str, breakpoints: &[CodeBreakpoint]) -> Vec<String> {
    let mut debuggee = Debuggee::record(fixture, &[rounds]);
    let mut seen = Vec::new();
    for breakpoint in breakpoints {
        let place = at_mark(&debuggee, mark).place;
        let set = debuggee.add(CodeBreakpoint { place, ..breakpoint.clone() });
        for _ in 0..3 {
            let stop = debuggee.go().clone();
            assert_eq!(stop.reason, StopReason::Breakpoint, "{breakpoint:?}: {stop:?}");
            let known = debuggee.backend().breakpoints().expect("breakpoints");
            let hits = known.iter().find(|known| known.id == set.id).expect("the breakpoint").hit_count;
            let round = debuggee.value_of("round");
            seen.push(format!("{round} {hits} {}", stop.detail.is_some()));
        }
        debuggee.backend().remove_breakpoint(set.id).expect("removed");
    }
    seen
}

#[test]
fn live_conditions_that_code_judges_hold_where_those_that_are_evaluated_do() {
    let count = oracle_size(4, 60);
    let rounds = (count * 3 * 32 * 210).to_string();
    let c = |mark, optimisation| (Fixture::c("conditions").flags([optimisation]), mark, &C);
    let cpp = |optimisation| (Fixture::cpp("conditions").flags([optimisation]), "judged", &CPP);
    let rust = |optimisation: &'static [&'static str]| {
        (Fixture::rust("conditions").flags(optimisation.iter().copied()), "judged", &RUST)
    };
    let programs = [
        c("judged", "-O0"),
        c("judged", "-O1"),
        c("written", "-O2"),
        cpp("-O0"),
        cpp("-O2"),
        rust(&[]),
        rust(&["-C", "opt-level=2"]),
    ];
    for (seed, (fixture, mark, words)) in programs.into_iter().enumerate() {
        let (by_code, evaluated) = random_breakpoints(seed as u64 + 1, words, count);
        let expected = stops(&fixture, mark, &rounds, &evaluated);
        assert_eq!(stops(&fixture, mark, &rounds, &by_code), expected, "{by_code:?}");
    }
}

/// Breakpoints with random conditions, as code judges them, and as nobody makes code of.
fn random_breakpoints(
    seed: u64,
    words: &Vocabulary,
    count: usize,
) -> (Vec<CodeBreakpoint>, Vec<CodeBreakpoint>) {
    let mut random = Random(seed);
    let nowhere = Place::Line { file: String::new(), line: 1 };
    let one = |_| {
        // It holds sometimes, whatever it is.
        let condition = format!("({}) && round % 40 > 30 || round % 200 == 199", random.condition(words));
        let mut breakpoint = CodeBreakpoint::at(nowhere.clone());
        breakpoint.condition = Some(condition.clone());
        if random.below(2) == 0 {
            breakpoint.hit_count = 1 + random.below(20) as u64;
            breakpoint.hit_count_multiple = random.below(5) as u64;
        }
        let evaluated =
            CodeBreakpoint { condition: Some(format!("({condition}) ? 1 : 0")), ..breakpoint.clone() };
        (breakpoint, evaluated)
    };
    (0..count).map(one).unzip()
}

/// Goes back, past the signals that its handler deals with.
fn back(debuggee: &mut Debuggee) -> StopReason {
    loop {
        let reason = debuggee.movement(Movement::ReverseContinue).reason;
        if reason != StopReason::Signal {
            return reason;
        }
    }
}

/// What it prints, and how often a condition held where nobody stopped.
fn run_through(fixture: &Fixture, args: &[&str], mark: &str, condition: Option<&str>) -> (String, u64) {
    let mut debuggee = Debuggee::record(fixture, args);
    let id = condition.map(|condition| {
        let mut breakpoint = at_mark(&debuggee, mark);
        breakpoint.condition = Some(condition.into());
        breakpoint.hit_count = 1 << 40;
        debuggee.add(breakpoint).id
    });
    debuggee.break_at("done");
    // What its handler deals with is told all the same.
    while debuggee.go().reason == StopReason::Signal {}
    let printed = debuggee.printed();
    let known = debuggee.backend().breakpoints().expect("breakpoints");
    let hits = known.iter().find(|known| Some(known.id) == id).map_or(0, |known| known.hit_count);
    if let Some(id) = id {
        debuggee.backend().remove_breakpoint(id).expect("removed");
        // The recording leads where it led.
        let place = at_mark(&debuggee, mark).place;
        let name = if mark == "passed" { "number" } else { "i" };
        let mut breakpoint = CodeBreakpoint::at(place);
        breakpoint.condition = Some(format!("{name} == 12345"));
        debuggee.add(breakpoint);
        assert_eq!(back(&mut debuggee), StopReason::Breakpoint);
        assert_eq!(debuggee.value_of(name), "12345");
        assert_eq!(back(&mut debuggee), StopReason::HistoryStart);
        debuggee.movement(Movement::Goto(Destination::Present));
    }
    debuggee.expect_exit(0);
    (printed, hits)
}

#[test]
fn a_program_that_is_judged_while_it_runs_does_what_it_did() {
    let passes: i64 = if oracle_size(0, 1) == 1 { 1_000_000 } else { 20_000 };
    let count = passes.to_string();
    for optimisation in ["-O0", "-O1"] {
        let fixture = Fixture::c("sieved").flags([optimisation]);
        for (what, mark, condition, expected) in [
            ("quiet", "passed", "number % 1000 == 999", passes / 1000),
            ("quiet", "mixed", "i >= 1000 && i != 2000", passes - 1001),
            ("alarms", "passed", "number % 1000 == 999", passes / 1000),
            ("alarms", "mixed", "i % 5 == 4", passes / 5),
            // The pass that fails is made again, and counts once.
            ("faults", "passed", "number % 1000 == 500 && number >= 0", passes / 1000),
        ] {
            let (printed, hits) = run_through(&fixture, &[what, &count], mark, Some(condition));
            assert_eq!(hits, expected as u64, "{optimisation} {what} {mark}");
            let faults = if what == "faults" { passes / 1000 } else { 0 };
            let start = format!("{passes} passes, sum {}, mixed ", passes * (passes - 1) / 2);
            assert!(printed.starts_with(&start), "{optimisation} {what}: {printed}");
            let end = format!(", {faults} faults, all alarms\n");
            assert!(printed.replace("\r\n", "\n").ends_with(&end), "{optimisation} {what}: {printed}");
            if what == "quiet" {
                assert_eq!(printed, run_through(&fixture, &[what, &count], mark, None).0);
            }
        }
    }
}

#[test]
fn a_million_passes_of_a_false_condition_take_seconds_and_not_minutes() {
    let mut debuggee = Debuggee::record(&Fixture::c("sieved").flags(["-O1"]), &["quiet", "1000000"]);
    let mut breakpoint = at_mark(&debuggee, "passed");
    breakpoint.condition = Some("number == -5".into());
    debuggee.add(breakpoint);
    let begun = std::time::Instant::now();
    debuggee.run_to("done");
    let taken = begun.elapsed();
    eprintln!("1,000,000 passes took {taken:?}");
    assert!(taken.as_secs() < 20, "{taken:?}");
    debuggee.expect_exit(0);
}

#[test]
fn hits_are_counted_up_to_where_the_program_ends_or_becomes_another() {
    for (what, ends) in [("quiet", true), ("becomes", false)] {
        let mut debuggee = Debuggee::record(&Fixture::c("sieved").flags(["-O1"]), &[what, "5000"]);
        let mut breakpoint = at_mark(&debuggee, "passed");
        breakpoint.condition = Some("number % 10 == 3".into());
        breakpoint.hit_count = 1 << 40;
        let id = debuggee.add(breakpoint).id;
        debuggee.expect_exit(0);
        let known = debuggee.backend().breakpoints().expect("breakpoints");
        let hits = known.iter().find(|known| known.id == id).unwrap().hit_count;
        // The other program has ten passes.
        assert_eq!(hits, if ends { 500 } else { 501 }, "{what}");
    }
}

#[test]
fn hits_of_threads_are_judged_with_the_variables_of_the_thread_that_passes() {
    const THREADS: u64 = 4;
    const WORK: u64 = 3000;
    const MEETINGS: u64 = 3;
    let args = [THREADS, WORK, MEETINGS].map(|number| number.to_string());
    let args = [&*args[0], &args[1], &args[2]];
    let rounds = THREADS * MEETINGS;
    for (condition, expected) in [
        ("i % 15 == 14", rounds * (WORK / 15)),
        ("seed == 2000 && i < 300", 300),
        ("seed >= 1000 && i == work - 1", rounds - MEETINGS),
        ("work < 0", 0),
    ] {
        let mut debuggee = Debuggee::record(&Fixture::c("crowd").flags(["-O0", "-pthread"]), &args);
        let mut breakpoint = at_mark(&debuggee, "computes");
        breakpoint.condition = Some(condition.into());
        breakpoint.hit_count = 1 << 40;
        let id = debuggee.add(breakpoint.clone()).id;
        debuggee.run_to("done");
        let known = debuggee.backend().breakpoints().expect("breakpoints");
        assert_eq!(known.iter().find(|known| known.id == id).unwrap().hit_count, expected, "{condition}");
        debuggee.backend().remove_breakpoint(id).expect("removed");
        if expected > 0 {
            breakpoint.hit_count = 0;
            debuggee.add(breakpoint);
            assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
            debuggee.movement(Movement::Goto(Destination::Present));
        }
        debuggee.expect_exit(0);
    }
}

#[test]
fn whoever_looks_while_the_program_runs_sees_it_as_if_nobody_judged_it() {
    const PASSES: u64 = 1_000_000;
    let fixture = Fixture::c("sieved").flags(["-O1"]);
    let mut debuggee = Debuggee::record(&fixture, &["quiet", &PASSES.to_string()]);
    let mut breakpoint = at_mark(&debuggee, "passed");
    breakpoint.condition = Some("number % 4 != 1".into());
    breakpoint.hit_count = 1 << 40;
    let id = debuggee.add(breakpoint).id;
    let last = debuggee.break_at("done").id;
    let interrupt = debuggee.backend().interrupt();
    let over = AtomicBool::new(false);
    let mut looks = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                interrupt.interrupt();
                std::thread::yield_now();
            }
        });
        let mut movement = Movement::Continue;
        let stop = loop {
            match debuggee.backend().run(movement).unwrap() {
                Outcome::Stopped(stop) => break stop,
                Outcome::Interrupted => movement = Movement::Resume,
            }
            let thread = debuggee.backend().threads().unwrap()[0].id;
            let stack = debuggee.backend().stack(thread, 3).unwrap();
            let function = stack.frames[0].location.function.clone().unwrap_or_default();
            assert!(!function.is_empty(), "{:?}", stack.frames);
            looks += 1;
        };
        over.store(true, Ordering::Relaxed);
        assert_eq!(stop.breakpoints, [last]);
    });
    // Fewer where other programs keep the processors busy.
    assert!(looks > 2, "{looks}");
    let known = debuggee.backend().breakpoints().expect("breakpoints");
    let hits = known.iter().find(|known| known.id == id).unwrap().hit_count;
    assert_eq!(hits, PASSES - PASSES / 4, "after {looks} looks");
    let begins = format!("{PASSES} passes, sum {}, ", PASSES * (PASSES - 1) / 2);
    assert!(debuggee.printed().starts_with(&begins), "{}", debuggee.printed());
    debuggee.backend().remove_breakpoint(last).unwrap();
    // The last interruption may have come after that.
    while let Outcome::Interrupted = debuggee.backend().run(Movement::Continue).unwrap() {}
}

#[test]
fn tracepoints_log_what_a_condition_chooses_and_stop_at_their_number() {
    let mut debuggee = Debuggee::record(&Fixture::c("sieved").flags(["-O0"]), &["quiet", "20000"]);
    let mut breakpoint = at_mark(&debuggee, "passed");
    breakpoint.condition = Some("number % 1000 == 7".into());
    breakpoint.log_message = Some("at {number}".into());
    breakpoint.max_notifications = 12;
    let id = debuggee.add(breakpoint).id;
    debuggee.run_to("done");
    let known = debuggee.backend().breakpoints().expect("breakpoints");
    let known = known.iter().find(|known| known.id == id).unwrap();
    assert_eq!((known.hit_count, known.notifications_sent), (20, 12));
    let logged = debuggee.output.read(0, usize::MAX, Some(OutputStream::Log));
    let bytes: Vec<u8> = logged.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let expected: String = (0..12).map(|index| format!("at {}\n", index * 1000 + 7)).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
    debuggee.expect_exit(0);
}

#[test]
fn a_condition_that_nobody_makes_code_of_says_so() {
    let mut debuggee = Debuggee::record(&Fixture::c("sieved").flags(["-O0"]), &["quiet", "100"]);
    let note = |debuggee: &mut Debuggee, condition: &str| {
        let mut breakpoint = at_mark(debuggee, "passed");
        breakpoint.condition = Some(condition.into());
        let set = debuggee.backend().add_breakpoint(Trigger::Code(breakpoint)).unwrap();
        format!("{:?}", set.binding)
    };
    assert!(!note(&mut debuggee, "number > 3").contains("evaluated"));
    assert!(note(&mut debuggee, "number * 2 > 3").contains("evaluated at each pass"));
    debuggee.run_to("passed");
}

#[test]
fn hits_are_counted_apart_by_a_value_live_and_in_the_past() {
    const ROUNDS: u64 = 100_000;
    let mut debuggee = Debuggee::record(&Fixture::c("conditions").flags(["-O0"]), &[&ROUNDS.to_string()]);
    let count = |debuggee: &mut Debuggee, by: Option<&str>, condition: Option<&str>| {
        let mut breakpoint = at_mark(debuggee, "judged");
        (breakpoint.count_only, breakpoint.count_by) = (true, by.map(str::to_owned));
        breakpoint.condition = condition.map(str::to_owned);
        debuggee.add(breakpoint).id
    };
    let told = |debuggee: &mut Debuggee, id| {
        let known = debuggee.backend().breakpoints().expect("breakpoints");
        let known = known.iter().find(|known| known.id == id).unwrap().clone();
        let counts: Vec<_> =
            known.counts.iter().map(|count| format!("{} {}", count.value, count.hits)).collect();
        (known.hit_count, counts)
    };
    let id = count(&mut debuggee, Some("colour"), Some("round % 10 == 3 || odd"));
    debuggee.run_to("done");
    // Each odd round, among which all are that end in 3; which colour it has, goes by three.
    let expected = |colour: u64| (0..ROUNDS).filter(|round| round % 2 == 1 && round % 3 == colour).count();
    let (hits, mut counts) = told(&mut debuggee, id);
    assert_eq!(hits, ROUNDS / 2);
    counts.sort();
    let mut wanted =
        ["RED", "GREEN", "BLUE"].iter().zip(0..).map(|(name, colour)| format!("{name} {}", expected(colour)));
    let mut wanted: Vec<_> = wanted.by_ref().collect();
    wanted.sort();
    assert_eq!(counts, wanted);
    debuggee.backend().remove_breakpoint(id).expect("removed");

    // In the past the same, without stopping.
    let id = count(&mut debuggee, None, Some("round % 1000 == 7"));
    debuggee.movement(Movement::Goto(Destination::Start));
    assert_eq!(debuggee.go().reason, StopReason::Present);
    assert_eq!(told(&mut debuggee, id).0, ROUNDS / 1000);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::HistoryStart);
    assert_eq!(told(&mut debuggee, id), (0, Vec::new()));
    debuggee.backend().remove_breakpoint(id).expect("removed");
    // One by one, where values are told apart.
    let mut breakpoint = at_mark(&debuggee, "judged");
    breakpoint.condition = Some("round == 60".into());
    let stop = debuggee.add(breakpoint).id;
    let id = count(&mut debuggee, Some("round % 3"), None);
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
    let (hits, mut counts) = told(&mut debuggee, id);
    counts.sort();
    assert_eq!((hits, counts), (61, vec!["0 21".to_owned(), "1 20".into(), "2 20".into()]));
    for id in [stop, id] {
        debuggee.backend().remove_breakpoint(id).expect("removed");
    }
    debuggee.movement(Movement::Goto(Destination::Present));
    debuggee.expect_exit(0);
}
