//! Programs that were optimised when they were linked: what one file declares has its code in another unit.

use hindcast_core::debug::{CodeBreakpoint, Movement, Place};
use hindcast_fixtures::{Fixture, mark_in, source_of};

use crate::debuggee::Debuggee;

const WAYS: [&[&str]; 4] = [
    &["-O2", "-flto"],
    &["-O2", "-flto", "-gdwarf-4"],
    &["-O2", "-flto", "-flto-partition=max"],
    &["-O0", "-flto"],
];

fn linked(flags: &[&str]) -> Debuggee {
    Debuggee::launch(&Fixture::c("linked").with("c/linked_other.c").flags(flags), &[])
}

#[test]
fn what_clang_optimises_when_it_links_is_seen_too() {
    for flags in [["-O2", "-flto"], ["-O2", "-flto=thin"]] {
        let fixture = Fixture::c("linked").with("c/linked_other.c").clang().flags(flags);
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        for name in ["raise_level", "bump", "shrink"] {
            debuggee.add(CodeBreakpoint::at(Place::Function(name.into())));
        }
        let mut levels = Vec::new();
        for name in ["raise_level", "bump", "shrink"] {
            debuggee.go();
            assert_eq!(debuggee.function(), name, "{flags:?}: {:?}", debuggee.stop);
            levels.push(debuggee.value_of("level"));
        }
        // Each file has its own; optimised code may have written it already.
        assert!(["11", "12"].contains(&&*levels[0]), "{flags:?}: {levels:?}");
        assert!(levels[1..].iter().all(|level| ["22", "23"].contains(&&**level)), "{flags:?}: {levels:?}");
        debuggee.break_at("printing");
        debuggee.go();
        assert_eq!(debuggee.value_of("counter"), "8", "{flags:?}");
        assert_eq!(debuggee.value_of("shared.value"), "42", "{flags:?}");
    }
}

fn in_other_file(mark: &str) -> Place {
    let source = source_of("c/linked_other.c");
    Place::Line { line: mark_in(&source, mark), file: source.to_string_lossy().into_owned() }
}

#[test]
fn globals_of_the_other_file_are_evaluated() {
    for flags in WAYS {
        let mut debuggee = linked(flags);
        debuggee.run_to("printing");
        assert_eq!(debuggee.value_of("counter"), "8", "{flags:?}");
        assert_eq!(debuggee.value_of("shared.value"), "42", "{flags:?}");
        assert_eq!(debuggee.value_of("shared.next == &shared"), "true", "{flags:?}");
        assert_eq!(debuggee.value_of("LINKS + 0"), "3", "{flags:?}");
    }
}

#[test]
fn a_name_means_what_the_file_of_the_function_calls_so() {
    for flags in WAYS {
        let mut debuggee = linked(flags);
        debuggee.run_to("before_bump");
        assert_eq!(debuggee.value_of("level"), "12", "{flags:?}");
        debuggee.movement(Movement::RunTo(in_other_file("bumped")));
        assert_eq!((debuggee.function().as_str(), &*debuggee.value_of("level")), ("bump", "23"), "{flags:?}");
        if !flags.contains(&"-flto-partition=max") {
            assert_eq!(debuggee.value_of("bumps"), "1", "{flags:?}");
        }
        assert_eq!(debuggee.evaluate_in(1, "level").as_deref(), Ok("12"), "{flags:?}");
        // Inlined in `main`, which is of the first file.
        debuggee.movement(Movement::RunTo(in_other_file("shrink_level")));
        assert_eq!(debuggee.function(), "shrink", "{flags:?}");
        // Optimised code may have written it already.
        let level = debuggee.value_of("level");
        assert!(["22", "23"].contains(&&*level), "{flags:?}: {level}");
        assert_eq!(debuggee.evaluate_in(1, "level").as_deref(), Ok("12"), "{flags:?}");
        debuggee.expect_exit(0);
    }
}

#[test]
fn functions_of_the_other_file_are_found_by_name_also_where_they_are_inlined() {
    for flags in WAYS {
        let mut debuggee = linked(flags);
        for name in ["raise_level", "bump", "shrink"] {
            debuggee.add(CodeBreakpoint::at(Place::Function(name.into())));
        }
        for name in ["raise_level", "bump", "shrink"] {
            debuggee.go();
            assert_eq!(debuggee.function(), name, "{flags:?}: {:?}", debuggee.stop);
            assert_eq!(debuggee.value_of("by"), "1", "{flags:?}");
        }
        debuggee.expect_exit(0);
    }
}

#[test]
fn the_globals_of_a_file_are_listed_wherever_their_code_went() {
    for flags in WAYS {
        let mut debuggee = linked(flags);
        debuggee.movement(Movement::RunTo(in_other_file("bump_level")));
        let mut names: Vec<_> = debuggee.globals().into_iter().map(|global| global.name).collect();
        names.sort();
        names.retain(|name| name != "unread");
        assert_eq!(names, ["counter", "level", "links", "shared"], "{flags:?}");
    }
}

#[test]
fn a_global_that_the_optimiser_removed_is_said_to_be_so() {
    let mut debuggee = linked(&["-O2", "-flto"]);
    debuggee.run_to("before_bump");
    let said = debuggee.evaluate("unread");
    assert!(said.as_ref().is_ok_and(|value| value.contains("optimised out")), "{said:?}");
}
