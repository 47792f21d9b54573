//! Steps visit the lines that gdb visits.

use hindcast_core::debug::{Granularity, StopReason};
use hindcast_fixtures::Fixture;

use crate::{debuggee::Debuggee, gdb};

/// `file line` of every stop with a line, from `main` to the end.
fn our_steps(fixture: &Fixture, granularity: Granularity) -> Vec<String> {
    let mut debuggee = Debuggee::launch(fixture, &[]);
    let mut visited = Vec::new();
    while debuggee.stop.reason != StopReason::Exit {
        let frame = debuggee.frames().into_iter().next().expect("there is a frame");
        let file = frame.location.file.unwrap_or_default();
        visited.push(format!("{file} {}", frame.location.line.unwrap_or(0)));
        assert!(visited.len() < 3000, "steps do not come to an end");
        debuggee.step(granularity);
    }
    visited
}

const OVER: (Granularity, &str) = (Granularity::Over, "next");
const INTO: (Granularity, &str) = (Granularity::Line, "step");

fn same_as_gdb(fixture: &Fixture) {
    same_as_gdb_from(fixture, "main", &[OVER, INTO]);
}

fn same_as_gdb_from(fixture: &Fixture, main: &str, ways: &[(Granularity, &str)]) {
    same_as_gdb_but_for(fixture, main, ways, &[]);
}

/// The lines with `passed` marks are gdb's alone.
fn same_as_gdb_but_for(fixture: &Fixture, main: &str, ways: &[(Granularity, &str)], passed: &[&str]) {
    let built = fixture.build();
    let place = |mark: &&str| format!("{} {}", built.source_text(), built.line(mark));
    let passed: Vec<_> = passed.iter().map(place).collect();
    for &(granularity, command) in ways {
        let mut judged = gdb::steps(&built.path, main, command);
        judged.retain(|place| !passed.contains(place));
        // gdb also stops in code that there is no source of, such as what called `main`.
        judged.retain(|place| {
            place.rsplit_once(' ').is_some_and(|(file, _)| std::path::Path::new(file).exists())
        });
        let ours = our_steps(fixture, granularity);
        // Everything at once would be thousands of lines.
        let differs = ours.iter().zip(&judged).position(|(ours, judged)| ours != judged);
        let at = differs.unwrap_or(ours.len().min(judged.len()));
        let around = |places: &[String]| {
            places[at.saturating_sub(3)..places.len().min(at + 3)]
                .join("\n    ")
                .replace(env!("CARGO_MANIFEST_DIR"), "")
        };
        assert!(
            ours == judged,
            "{fixture:?} by {command}:\n  ours {}\n  gdb's {}",
            around(&ours),
            around(&judged)
        );
    }
}

#[test]
fn c_at_every_optimisation_level_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks"] {
        same_as_gdb(&Fixture::c(name));
        same_as_gdb(&Fixture::c(name).flags(["-gdwarf-4"]));
        same_as_gdb(&Fixture::c(name).flags(["-static"]));
    }
}

#[test]
fn optimised_c_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks"] {
        for level in ["-Og", "-O1", "-O2", "-O3"] {
            same_as_gdb(&Fixture::c(name).flags([level]));
        }
    }
}

#[test]
fn c_by_clang_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks"] {
        same_as_gdb(&Fixture::c(name).clang());
    }
    for name in ["calls", "control"] {
        same_as_gdb(&Fixture::c(name).clang().flags(["-O2"]));
    }
    // gdb does not know Debian's clang by its name, so it does not believe its line table where a
    // function's frame is complete, and stops at the brace before.
    let callbacks = Fixture::c("callbacks").clang().flags(["-O2"]);
    same_as_gdb_but_for(&callbacks, "main", &[OVER, INTO], &["add_opens"]);
}

#[test]
fn cpp_is_stepped_as_gdb_does_and_into_handlers() {
    for fixture in [Fixture::cpp("throws"), Fixture::cpp("throws").flags(["-static"])] {
        let built = fixture.build();
        let ours = our_steps(&fixture, Granularity::Over);
        // gdb runs over handlers where it has no symbols of libgcc; all else is as it has it.
        let mut rest = ours.iter();
        let mut judged = gdb::steps(&built.path, "main", "next");
        judged.retain(|place| place.starts_with(&built.source_text()));
        assert!(
            judged.iter().all(|place| rest.any(|ours| ours == place)),
            "{ours:?} has not all of {judged:?}"
        );
        for mark in ["call_fail", "caught", "caught_number"] {
            let place = format!("{} {}", built.source_text(), built.line(mark));
            assert!(ours.contains(&place), "{ours:?} does not visit `{mark}`");
        }
    }
}

#[test]
fn a_step_out_of_a_function_that_throws_ends_where_it_is_caught() {
    let mut debuggee = Debuggee::launch(&Fixture::cpp("throws"), &[]);
    debuggee.run_to("throw_problem");
    assert_eq!(debuggee.step(Granularity::Out).reason, StopReason::Step);
    assert_eq!(debuggee.function(), "main");
    debuggee.step(Granularity::Over);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("caught")));
    debuggee.expect_exit(0);
}

#[test]
fn rust_is_stepped_over_as_gdb_does() {
    // Into is not compared: gdb would step for minutes through a library that has no source here.
    same_as_gdb_from(&Fixture::rust("figures"), "figures::main", &[OVER]);
}

#[test]
fn steps_over_a_recursion_stay_in_their_frame() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("factorial_recursion");
    assert_eq!(debuggee.value_of("n"), "5");
    debuggee.step(Granularity::Over);
    assert_eq!(debuggee.value_of("n"), "5");
    debuggee.step(Granularity::Out);
    assert_eq!(debuggee.function(), "main");
}

#[test]
fn a_breakpoint_on_the_way_ends_a_step() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("loop_body");
    let breakpoint = debuggee.break_at("square_return");
    let stop = debuggee.step(Granularity::Over);
    assert_eq!((stop.reason, stop.breakpoints.as_slice()), (StopReason::Breakpoint, &[breakpoint.id][..]));
    assert_eq!(debuggee.function(), "square");
}
