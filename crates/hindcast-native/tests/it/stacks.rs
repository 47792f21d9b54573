//! Stacks are those that gdb shows.

use hindcast_core::debug::{CodeBreakpoint, Place, Stdin, StopAtEntry, StopReason};
use hindcast_fixtures::Fixture;

use crate::{debuggee::Debuggee, gdb};

/// Stops at every line of the fixture with one of `marks`, as often as that happens, and compares the
/// stacks with gdb's. Returns how many were compared.
fn same_as_gdb(fixture: &Fixture, args: &[&str], marks: &[&str]) -> usize {
    const MOST: usize = 60;
    let built = fixture.build();
    let name = built.source.file_name().expect("it has a name").to_string_lossy().into_owned();
    let places: Vec<_> = marks.iter().map(|mark| format!("{name}:{}", built.line(mark))).collect();
    let judged = gdb::stacks(&built.path, args, &places, MOST);
    // Not in `main`: breakpoints there would count as seen.
    let mut debuggee = Debuggee::launch_with(fixture, args, StopAtEntry::Loader, Stdin::Written);
    for mark in marks {
        let place = Place::Line { file: built.source_text(), line: built.line(mark) };
        debuggee.add(CodeBreakpoint::at(place));
    }
    if judged.is_empty() {
        assert_eq!(debuggee.go().reason, StopReason::Exit, "{fixture:?}");
    }
    for (index, wanted) in judged.iter().enumerate() {
        assert_eq!(debuggee.go().reason, StopReason::Breakpoint, "{fixture:?} at stop {index}");
        let shown = |frame: hindcast_core::debug::Frame| {
            let file = frame.location.file?;
            let name = file.rsplit('/').next()?.to_owned();
            std::path::Path::new(&file)
                .exists()
                .then(|| format!("{name} {}", frame.location.line.unwrap_or(0)))
        };
        let ours: Vec<_> = debuggee.frames().into_iter().filter_map(shown).collect();
        assert_eq!(ours.join(" < "), *wanted, "{fixture:?} at stop {index}");
    }
    judged.len()
}

#[test]
fn two_hundred_stacks_are_those_of_gdb() {
    let mut compared = 0;
    let calls = ["square_body", "square_return", "factorial_base", "factorial_recursion", "add_x", "print"];
    let callbacks = ["compare", "even", "odd", "apply", "twice"];
    for level in ["-O0", "-Og", "-O1", "-O2"] {
        compared += same_as_gdb(&Fixture::c("calls").flags([level]), &[], &calls);
        compared += same_as_gdb(&Fixture::c("callbacks").flags([level]), &[], &callbacks);
        let signal = &Fixture::c("misbehave").flags([level]);
        compared += same_as_gdb(signal, &["signal"], &["handler", "signalled"]);
    }
    for flags in [["-gdwarf-4", "-O0"], ["-static", "-O0"], ["-fomit-frame-pointer", "-O0"]] {
        compared += same_as_gdb(&Fixture::c("calls").flags(flags), &[], &calls);
    }
    let figures = ["square_area", "circle_area", "larger", "inlined", "lambda", "print"];
    compared += same_as_gdb(&Fixture::cpp("figures"), &[], &figures);
    for level in ["-O1", "-O2"] {
        let virtuals = ["square_area", "circle_area", "print"];
        compared += same_as_gdb(&Fixture::cpp("figures").flags([level]), &[], &virtuals);
    }
    // A signal handler, tail calls, and recursion to some depth.
    for level in ["-O1", "-O2", "-O3"] {
        let deep = Fixture::c("callbacks").flags([level, "-fno-optimize-sibling-calls"]);
        compared += same_as_gdb(&deep, &[], &callbacks);
        compared += same_as_gdb(&Fixture::c("control").flags([level]), &[], &["switch", "print"]);
    }
    let rust = ["square_area", "larger", "inlined", "count", "print"];
    compared += same_as_gdb(&Fixture::rust("figures"), &[], &rust);
    compared += same_as_gdb(&Fixture::rust("figures").flags(["-O"]), &[], &["count"]);
    assert!(compared >= 200, "only {compared} stacks were compared");
}

#[test]
fn stacks_of_programs_by_clang_are_those_of_gdb() {
    let mut compared = 0;
    let calls = ["square_body", "square_return", "factorial_base", "factorial_recursion", "add_x", "print"];
    let callbacks = ["compare", "even", "odd", "apply", "twice"];
    for level in ["-O0", "-O2"] {
        compared += same_as_gdb(&Fixture::c("calls").clang().flags([level]), &[], &calls);
        // gdb moves breakpoints from lines that are gone to others, and stops there.
        let left = if level == "-O0" { &callbacks[..] } else { &["compare"] };
        compared += same_as_gdb(&Fixture::c("callbacks").clang().flags([level]), &[], left);
        let signal = &Fixture::c("misbehave").clang().flags([level]);
        compared += same_as_gdb(signal, &["signal"], &["handler", "signalled"]);
    }
    let figures = ["square_area", "circle_area", "larger", "inlined", "lambda", "print"];
    compared += same_as_gdb(&Fixture::cpp("figures").clang(), &[], &figures);
    compared += same_as_gdb(&Fixture::cpp("figures").clang().flags(["-O2"]), &[], &["square_area", "print"]);
    assert!(compared >= 50, "only {compared} stacks were compared");
}
