//! Where breakpoints go: lines, statements, methods.

use hindcast_core::debug::{Binding, CodeBreakpoint, Location, Place, StopReason};
use hindcast_fixtures::dotnet::{DotnetFixture, Runtime};

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

/// The line, from 1, that carries the comment `@line NAME`: no statement begins there.
fn bare_line(debuggee: &Debuggee, name: &str) -> u32 {
    let text = std::fs::read_to_string(&debuggee.program.source).unwrap();
    let mark = format!("// @line {name}");
    (1u32..).zip(text.lines()).find(|(_, line)| line.ends_with(&mark)).unwrap().0
}

fn lines(locations: &[Location]) -> Vec<u32> {
    locations.iter().filter_map(|location| location.line).collect()
}

on_both! {
    fn a_line_without_code_leads_to_the_next_statement(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let file = debuggee.program.source_text();
        let line = |mark: &str| debuggee.program.line(mark);
        let bare = |mark: &str| bare_line(&debuggee, mark);
        let cases = [
            ("the head of the file", 1, line("first")),
            ("a comment", bare("before_all"), line("first")),
            ("before an attribute", bare("attribute_next"), line("plus")),
            ("an attribute", bare("attribute_next") + 1, line("plus")),
            ("the end of a signature", bare("signature"), line("plus")),
            ("within a statement", bare("inside_statement"), line("plus") + 1),
            ("the end of a statement", bare("statement_end"), line("plus") + 1),
            ("between methods", bare("between"), line("less")),
            ("between an initializer and the constructor", line("add") - 2, line("add")),
            ("a brace before accessors", bare("indexer") + 1, bare("indexer") + 2),
        ];
        let behind = bare("behind_all");
        for (what, asked, expected) in cases {
            let (found, note) = bind(&mut debuggee, Place::Line { file: file.clone(), line: asked });
            assert_eq!(lines(&found), [expected], "{what}: {note}");
            assert_eq!(note, format!("line {asked} has no code of its own; it is on line {expected}"), "{what}");
        }
        let (found, note) = bind(&mut debuggee, Place::Line { file: file.clone(), line: behind });
        assert!(found.is_empty());
        assert_eq!(note, format!("no code is at or behind line {behind} of `{file}`"));

        let at = bare_line(&debuggee, "signature");
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
            ("left.Size // @line inside_statement\n + right.Size", (debuggee.program.line("plus") + 1, 9)),
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
        // The body has run once.
        debuggee.printed_when(|printed| printed.ends_with("\n18\n"));
        debuggee.go_on();
        assert_eq!(debuggee.evaluate("i"), "1");
    }

    fn members_have_all_the_names_that_people_give_them(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let line = |mark: &str| debuggee.program.line(mark);
        let bare = |mark: &str| bare_line(&debuggee, mark);
        let indexer = [bare("indexer") + 2, bare("indexer") + 4];
        let plus = line("plus");
        let cases: Vec<(&str, Vec<u32>)> = vec![
            ("Widget..ctor", vec![line("items")]),
            ("Widget.Widget(int)", vec![line("items")]),
            ("Widget.Size", vec![line("size"); 2]),
            ("Widget.get_Size", vec![line("size")]),
            ("Widget.set_Size", vec![line("size")]),
            ("Widget.Size.set", vec![line("size")]),
            ("Pair`2.Swap", vec![line("swap_two")]),
            ("Pair<T,U>.Swap", vec![line("swap_two")]),
            ("Pair<T>.Swap", vec![line("swap_one")]),
            ("Pair.Swap", vec![line("swap_one"), line("swap_two")]),
            ("Pair.Swap(T)", vec![line("swap_one")]),
            ("Widget.operator +", vec![plus]),
            ("Widget.operator +(Widget, Widget)", vec![plus]),
            ("Widget.op_Addition", vec![plus]),
            ("Widget.operator <", vec![line("less")]),
            ("Widget.explicit operator int", vec![line("to_int")]),
            ("<Main>$", vec![line("first")]),
            ("Program.<Main>$", vec![line("first")]),
            ("Program.Main", vec![line("first")]),
            ("Widget.this[]", indexer.to_vec()),
            ("Widget.this[int]", indexer.to_vec()),
            ("Widget.Item", indexer.to_vec()),
            ("Widget.get_Item", vec![indexer[0]]),
            ("Widget.IDisposable.Dispose", vec![line("dispose")]),
            ("Widget.System.IDisposable.Dispose", vec![line("dispose")]),
            ("Widget.Dispose", vec![line("dispose")]),
            ("Widget.IComparable<Widget>.CompareTo", vec![line("compare")]),
            ("Widget.Renamed.add", vec![line("add")]),
            ("Widget.add_Renamed", vec![line("add")]),
            ("Widget.Renamed", vec![line("add"), line("add") + 1]),
            ("Main.Local", vec![line("local")]),
            ("Waits.Run.Inner", vec![line("async_local") - 2]),
        ];
        for (name, expected) in cases {
            let (found, note) = bind(&mut debuggee, Place::Function(name.into()));
            assert_eq!((lines(&found), note.as_str()), (expected, ""), "{name}");
        }
        for (name, mark) in [("Pair<int, string>.Swap", "swap_two"), ("Pair<List<int>>.Swap", "swap_one")] {
            let (found, note) = bind(&mut debuggee, Place::Function(name.into()));
            assert_eq!(lines(&found), [debuggee.program.line(mark)], "{name}");
            assert_eq!(note, "it stops whatever the type arguments are: only a condition can tell them apart", "{name}");
        }
        // The compiler made the accessors of this event.
        let (found, note) = bind(&mut debuggee, Place::Function("Widget.Changed.add".into()));
        assert_eq!((found.len(), found[0].line, found[0].function.as_deref()), (1, None, Some("Widget.Changed.add")));
        assert_eq!(note, "`Widget.Changed.add` has no source of its own; it is at its first instruction");
        let set = debuggee.set(CodeBreakpoint::at(Place::Function("Widget.Changed.add".into())));
        assert_eq!(debuggee.go_on().breakpoints, [set.id]);
    }

    fn methods_of_the_framework_have_their_full_names(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let mut bound = |name: &str| {
            let (found, note) = bind(&mut debuggee, Place::Function(name.into()));
            assert!(!found.is_empty(), "{name}: {note}");
            assert!(found.iter().all(|location| location.library), "{name}");
            found.iter().filter_map(|location| location.function.clone()).collect::<Vec<_>>()
        };
        let concat = bound("string.Concat");
        assert!(concat.len() > 5, "{concat:?}");
        for name in ["System.String.Concat", "String.Concat"] {
            assert_eq!(bound(name), concat);
        }
        assert_eq!(bound("String.Concat(String, System.String)"), ["string.Concat"]);
        assert!(bound("System.Int32.ToString").iter().all(|name| name == "int.ToString"));
        assert_eq!(bound("System.Exception.Message"), ["System.Exception.Message.get"]);
        assert_eq!(bound("System.Collections.Generic.List`1..ctor").len(), 3);
    }

    fn a_name_that_is_nowhere_leads_to_similar_ones(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let mut why = |name: &str| {
            let (found, note) = bind(&mut debuggee, Place::Function(name.into()));
            assert!(found.is_empty(), "{name}");
            note
        };
        assert_eq!(
            why("Waits.Midle"),
            "no loaded assembly has a method `Waits.Midle` (did you mean `Waits.Middle`?); it binds when one is loaded"
        );
        assert!(why("Widgt.Size").contains("(did you mean `Widget.Size`"), "{}", why("Widgt.Size"));
        assert!(why("Pair.Swp").contains("`Pair<T, U>.Swap` or `Pair<T>.Swap`?"), "{}", why("Pair.Swp"));
        assert_eq!(why("Qqq.Zzz"), "no loaded assembly has a method `Qqq.Zzz`; it binds when one is loaded");
        assert!(why("Pair<T, U, V>.Swap").contains("did you mean"));
    }
    fn a_file_that_is_nowhere_leads_to_similar_ones(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        let mut why = |file: &str| {
            let (found, note) = bind(&mut debuggee, Place::Line { file: file.into(), line: 1 });
            assert!(found.is_empty(), "{file}");
            note
        };
        let said = "no loaded assembly has symbols for `places.cs` (did you mean `Places.cs`?); it binds when one is loaded";
        assert_eq!(why("places.cs"), said);
        assert!(why("other/Places.cs").contains("/Places.cs`?)"), "{}", why("other/Places.cs"));
        assert!(!why("Zebra.cs").contains("did you mean"), "{}", why("Zebra.cs"));
    }

    fn functions_of_fsharp_have_the_names_of_the_source(runtime: &Runtime) {
        let mut debuggee = Plan::of("Shapes").launch(runtime);
        let line = |mark: &str| debuggee.program.line(mark);
        let cases = [("go", line("go")), ("Shapes.go", line("go")), ("(|Even|Odd|)", line("pattern"))];
        for (name, expected) in cases {
            let (found, note) = bind(&mut debuggee, Place::Function(name.into()));
            assert_eq!(lines(&found), [expected], "{name}: {note}");
        }
        let (found, note) = bind(&mut debuggee, Place::Function("loop".into()));
        assert!(!found.is_empty() && found.iter().all(|place| !place.library), "{found:?} {note}");
        // What a function has inside is not meant by its own name.
        let (found, _) = bind(&mut debuggee, Place::Function("totals".into()));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    fn lambdas_in_constructors_are_called_alike(runtime: &Runtime) {
        let mut debuggee = Plan::of("Corners").launch(runtime);
        let (found, note) = bind(&mut debuggee, Place::Function("Handlers..ctor.lambda".into()));
        assert_eq!(lines(&found).len(), 2, "{found:?} {note}");
        for mark in ["plain", "later"] {
            debuggee.break_at(mark);
        }
        debuggee.go_on();
        debuggee.go_on();
        for mark in ["plain", "later"] {
            assert_eq!(debuggee.line(), debuggee.program.line(mark));
            let function = debuggee.stack().frames.swap_remove(0).location.function;
            assert_eq!(function.as_deref(), Some("Fixtures.Handlers..ctor.lambda"));
            debuggee.go_on();
        }
    }

    fn a_finally_of_an_iterator_belongs_to_it(runtime: &Runtime) {
        let mut debuggee = Plan::of("Corners").launch(runtime);
        let (found, _) = bind(&mut debuggee, Place::Function("Items".into()));
        assert_eq!(found.len(), 1, "{found:?}");
        debuggee.break_at("finally");
        // First at its end, then where it is given up.
        for (prefix, count, given) in [("item", 2, 2), ("first", 9, 1)] {
            assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
            let function = debuggee.stack().frames.swap_remove(0).location.function;
            assert_eq!(function.as_deref(), Some("Fixtures.Corners.Items"));
            let mut found = debuggee.local_lines();
            found.sort();
            let twice = given * 2;
            let expected = [
                format!("int count = {count}"),
                format!("int given = {given}"),
                format!("int twice = {twice}"),
                format!("string prefix = \"{prefix}\""),
            ];
            assert_eq!(found, expected);
        }
    }

    fn a_statement_that_optimised_code_does_not_stop_at_leads_to_the_one_before(runtime: &Runtime) {
        let mut plan = Plan::of("Corners");
        plan.program = DotnetFixture::new("Corners").optimized().build();
        let mut debuggee = plan.launch(runtime);
        let file = debuggee.program.source_text();
        let line = debuggee.program.line("shared");
        let statement = |text: &str| Place::Statement { file: file.clone(), text: text.into() };
        // Before the method is compiled, and after.
        let early = debuggee.set(CodeBreakpoint::at(statement("return *second + numbers[1]")));
        debuggee.set(CodeBreakpoint::at(statement("fixed (int* first = numbers)")));
        assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
        let (found, note) = bind(&mut debuggee, statement("return *second + numbers[1]"));
        assert_eq!(lines(&found), [line], "{note}");
        debuggee.go_on();
        assert_eq!(debuggee.stop.as_ref().unwrap().breakpoints, [early.id], "{note}");
    }
}
