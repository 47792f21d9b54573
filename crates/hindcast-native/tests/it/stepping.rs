//! Steps visit the lines that gdb visits.

use hindcast_core::debug::{CodeBreakpoint, Granularity, Place, StopReason};
use hindcast_fixtures::{Fixture, oracle_size};

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
fn c_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks", "loops"] {
        same_as_gdb(&Fixture::c(name));
        same_as_gdb(&Fixture::c(name).flags(["-gdwarf-4"]));
        same_as_gdb(&Fixture::c(name).flags(["-static"]));
    }
}

#[test]
fn optimised_c_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks", "loops"] {
        for level in &["-O2", "-Og", "-O1", "-O3"][..oracle_size(2, 4)] {
            same_as_gdb(&Fixture::c(name).flags([level]));
        }
    }
}

#[test]
fn optimised_cpp_is_stepped_over_as_gdb_does() {
    for name in ["figures", "shapes"] {
        // Into is not compared: in what is inlined from the library, one takes the callers that gdb leaves out.
        for level in &["-O2", "-Og", "-O1", "-O3"][..oracle_size(1, 4)] {
            same_as_gdb_from(&Fixture::cpp(name).flags([level]), "main", &[OVER]);
        }
    }
}

#[test]
fn c_by_clang_is_stepped_as_gdb_does() {
    for name in ["calls", "control", "callbacks"] {
        same_as_gdb(&Fixture::c(name).clang());
    }
    for name in ["calls", "control", "loops"] {
        same_as_gdb(&Fixture::c(name).clang().flags(["-O2"]));
    }
    // gdb does not know Debian's clang by its name, so it does not believe its line table where a
    // function's frame is complete, and stops at the brace before.
    let callbacks = Fixture::c("callbacks").clang().flags(["-O2"]);
    same_as_gdb_but_for(&callbacks, "main", &[OVER, INTO], &["add_opens"]);
}

#[test]
fn cpp_is_stepped_as_gdb_does_and_into_handlers() {
    let with_gcc = "call_fail catch_problem caught handled_problem call_number catch_number caught_number \
        handled_number test_arguments main_return main_end";
    // It counts the choice of a handler to the function's end.
    let with_clang = "call_fail main_end catch_problem caught handled_problem call_number main_end catch_number \
        caught_number handled_number test_arguments main_return";
    // The unwinder of Debian does not tell gdb where exceptions land. What gcc compiled goes on after a
    // handler where the call would have returned to, so that gdb is there again; after clang's it is lost.
    let gdb_is_lost = |mark: &str| ["catch", "caught", "handled"].iter().any(|part| mark.starts_with(part));
    let gcc = Fixture::cpp("throws");
    for fixture in [&gcc, &gcc.clone().flags(["-static"])] {
        let (built, ours) = (fixture.build(), our_steps(fixture, Granularity::Over));
        let place = |mark: &str| format!("{} {}", built.source_text(), built.line(mark));
        assert_eq!(ours, with_gcc.split_whitespace().map(place).collect::<Vec<_>>(), "{fixture:?}");
        let mut judged = gdb::steps(&built.path, "main", "next");
        judged.retain(|place| place.starts_with(&built.source_text()));
        let outside = with_gcc.split_whitespace().filter(|mark| !gdb_is_lost(mark));
        assert_eq!(judged, outside.map(place).collect::<Vec<_>>(), "{fixture:?}");
    }
    let clang = gcc.clang();
    let (built, ours) = (clang.build(), our_steps(&clang, Granularity::Over));
    let place = |mark: &str| format!("{} {}", built.source_text(), built.line(mark));
    assert_eq!(ours, with_clang.split_whitespace().map(place).collect::<Vec<_>>());
    assert_eq!(gdb::steps(&built.path, "main", "next"), [place("call_fail")]);
}

#[test]
fn a_step_out_of_a_function_that_throws_ends_where_it_is_caught() {
    for fixture in [Fixture::cpp("throws"), Fixture::cpp("throws").clang()] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("throw_problem");
        assert_eq!(debuggee.step(Granularity::Out).reason, StopReason::Step);
        assert_eq!(debuggee.function(), "main");
        let caught = debuggee.built.line("caught");
        // The choice of the handler may be a line of its own.
        let lines: Vec<_> = (0..2)
            .map(|_| {
                debuggee.step(Granularity::Over);
                debuggee.line()
            })
            .collect();
        assert!(lines.contains(&Some(caught)), "{fixture:?}: {lines:?}");
        debuggee.expect_exit(0);
    }
}

/// gdb does not see these jumps: Debian's C library does not tell it of them.
#[test]
fn steps_over_and_out_of_calls_that_jump_away_end_where_they_land() {
    let gcc = Fixture::c("jumps");
    let (is_static, clang) = (gcc.clone().flags(["-static"]), gcc.clone().clang());
    for (fixture, from, granularity) in [
        (&gcc, "call_descend", Granularity::Over),
        (&gcc, "recursion", Granularity::Over),
        (&gcc, "bottom", Granularity::Over),
        (&gcc, "bottom", Granularity::Out),
        (&gcc, "leave", Granularity::Line),
        (&gcc, "leave", Granularity::Out),
        (&is_static, "recursion", Granularity::Over),
        (&clang, "bottom", Granularity::Out),
    ] {
        let mut debuggee = Debuggee::launch(fixture, &[]);
        debuggee.run_to(from);
        assert_eq!(debuggee.step(granularity).reason, StopReason::Step, "{from} {granularity:?}");
        let landing = debuggee.built.line("landing");
        let place = (debuggee.line(), debuggee.function());
        assert_eq!(place, (Some(landing), "main".into()), "{from} {granularity:?}");
        debuggee.step(Granularity::Over);
        assert_eq!(debuggee.line(), Some(debuggee.built.line("landed")));
        assert_eq!(debuggee.value_of("how"), "7");
        debuggee.expect_exit(0);
    }
    // Where the C library checks that a jump goes outwards.
    let checked = Fixture::c("jumps").flags(["-O1", "-D_FORTIFY_SOURCE=2"]);
    let mut debuggee = Debuggee::launch(&checked, &[]);
    debuggee.run_to("call_descend");
    assert_eq!(debuggee.step(Granularity::Over).reason, StopReason::Step);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("landing")));
}

#[test]
fn jumps_within_what_is_stepped_over_do_not_end_the_step() {
    let mut debuggee = Debuggee::launch(&Fixture::c("jumps"), &[]);
    debuggee.run_to("call_retry");
    debuggee.step(Granularity::Over);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("print")));
    assert_eq!(debuggee.value_of("tried"), "3");

    let mut debuggee = Debuggee::launch(&Fixture::c("jumps"), &[]);
    debuggee.run_to("retry_first");
    debuggee.step(Granularity::Out);
    assert_eq!((debuggee.line(), &*debuggee.function()), (Some(debuggee.built.line("call_retry")), "main"));

    let mut debuggee = Debuggee::launch(&Fixture::c("jumps"), &[]);
    debuggee.run_to("again");
    debuggee.step(Granularity::Over);
    assert_eq!(
        (debuggee.line(), &*debuggee.function()),
        (Some(debuggee.built.line("retry_landing")), "retry")
    );
    debuggee.step(Granularity::Out);
    assert_eq!(debuggee.function(), "main");
    debuggee.expect_exit(0);
}

#[test]
fn rust_is_stepped_over_as_gdb_does() {
    // Into is not compared: gdb would step for minutes through a library that has no source here.
    same_as_gdb_from(&Fixture::rust("figures"), "figures::main", &[OVER]);
}

#[test]
fn a_step_in_code_without_lines_ends_in_its_caller() {
    let without_lines = Fixture::c("calls").flags(["-g0"]);
    for (fixture, caller) in [(Fixture::c("calls"), "main"), (without_lines, "main")] {
        for granularity in [Granularity::Over, Granularity::Line] {
            let mut debuggee = Debuggee::launch(&fixture, &[]);
            debuggee.add(CodeBreakpoint::at(Place::Function("printf".into())));
            assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
            assert_eq!(debuggee.step(granularity).reason, StopReason::Step);
            assert_eq!(debuggee.function(), caller, "{fixture:?} {granularity:?}");
        }
    }
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
