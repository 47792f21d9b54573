//! Where breakpoints go: lines, statements, methods.

use hindcast_core::debug::{Binding, CodeBreakpoint, Location, Place, StopReason};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Debuggee, Plan, on_both};

/// Where a breakpoint is, and what is said of it.
#[track_caller]
fn bind(debuggee: &mut Debuggee, place: Place) -> (Vec<Location>, String) {
    let set = debuggee.set(CodeBreakpoint::at(place));
    debuggee.backend.remove_breakpoint(set.id).unwrap();
    match set.binding {
        Binding::Bound { locations, note } => (locations, note.unwrap_or_default()),
        Binding::Pending { reason } => (Vec::new(), reason),
    }
}

fn lines(locations: &[Location]) -> Vec<u32> {
    locations.iter().filter_map(|location| location.line).collect()
}

on_both! {
    fn a_line_without_code_leads_to_the_next_statement(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let file = debuggee.program.source_text();
        let line = |mark: &str| debuggee.program.line(mark);
        let cases = [
            ("the head of the file", 1, line("first")),
            ("a comment", line("before_all"), line("first")),
            ("before an attribute", line("attribute_next"), line("plus")),
            ("an attribute", line("attribute_next") + 1, line("plus")),
            ("the end of a signature", line("signature"), line("plus")),
            ("within a statement", line("inside_statement"), line("plus") + 1),
            ("the end of a statement", line("statement_end"), line("plus") + 1),
            ("between methods", line("between"), line("less")),
            ("between an initializer and the constructor", line("add") - 2, line("add")),
            ("a brace before accessors", line("indexer") + 1, line("indexer") + 2),
        ];
        let behind = line("behind_all");
        for (what, asked, expected) in cases {
            let (found, note) = bind(&mut debuggee, Place::Line { file: file.clone(), line: asked });
            assert_eq!(lines(&found), [expected], "{what}: {note}");
            assert_eq!(note, format!("line {asked} has no code of its own; it is on line {expected}"), "{what}");
        }
        let (found, note) = bind(&mut debuggee, Place::Line { file: file.clone(), line: behind });
        assert!(found.is_empty());
        assert_eq!(note, format!("no code is at or behind line {behind} of `{file}`"));

        let at = debuggee.program.line("signature");
        debuggee.set(CodeBreakpoint::at(Place::Line { file, line: at }));
        assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
        assert_eq!(debuggee.line(), debuggee.program.line("plus"));
    }

    fn a_statement_is_a_part_of_a_line(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let text = std::fs::read_to_string(&debuggee.program.source).unwrap();
        let column = |mark: &str, part: &str| {
            let line = text.lines().nth(debuggee.program.line(mark) as usize - 1).unwrap();
            (debuggee.program.line(mark), line.find(part).unwrap() as u32 + 1)
        };
        let cases = [
            ("i++", column("loop", "i++")),
            ("i < 2", column("loop", "i < 2")),
            ("j = 9", column("loop", "j = 9")),
            ("Outer(i", column("loop", "Outer")),
            // More than a statement.
            ("for (int i = 0, j = 9;", column("loop", "int i")),
            ("x *= 2;", column("lambda", "x *=")),
            ("Func<int, int> twice", column("lambda", "Func")),
            ("twice(4)", column("lambda", "Console")),
            ("left.Size // @mark inside_statement\n + right.Size", (debuggee.program.line("plus") + 1, 9)),
        ];
        for (statement, expected) in cases {
            let place = Place::Statement { file: "Places.cs".into(), text: statement.into() };
            let (found, note) = bind(&mut debuggee, place);
            let found: Vec<_> = found.iter().map(|at| (at.line.unwrap(), at.column.unwrap())).collect();
            assert_eq!(found, [expected], "{statement}: {note}");
        }
        let place = Place::Statement { file: "Places.cs".into(), text: "i++".into() };
        debuggee.set(CodeBreakpoint::at(place));
        debuggee.go_on();
        assert_eq!(debuggee.evaluate("i"), "0");
        assert!(debuggee.printed().ends_with("\n18\n"), "the body has run once: {}", debuggee.printed());
        debuggee.go_on();
        assert_eq!(debuggee.evaluate("i"), "1");
    }
}
