//! Values as a developer would write them.

use hindcast_core::debug::{
    CodeBreakpoint, FrameRef, Place, ValueLimits, ValueState, Variable, VariableQuery, VariableScope,
};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Debuggee, Plan, on_both};

/// What every local of `Values.cs` is shown as, in the order in which the marks are reached.
const EXPECTED: &str = include_str!("values.txt");

/// Lines of a mark with `name =`, sorted: where the compiler keeps a local is its own business.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

pub(crate) fn scope(debuggee: &mut Debuggee, scope: VariableScope, limits: ValueLimits) -> Vec<Variable> {
    let thread = debuggee.stop.as_ref().unwrap().thread;
    let frame = FrameRef::of(thread, 0);
    let query =
        VariableQuery { frame, scope, filter: None, offset: 0, limit: 100, limits, allow_calls: None };
    debuggee.backend.variables(&query).unwrap().variables
}

/// One local, with its parts.
#[track_caller]
fn local(debuggee: &mut Debuggee, name: &str, limits: ValueLimits) -> Variable {
    let found =
        scope(debuggee, VariableScope::Local, limits).into_iter().find(|variable| variable.name == name);
    found.unwrap_or_else(|| panic!("there is no {name}"))
}

fn parts(variable: &Variable) -> Vec<String> {
    variable.children.iter().map(|child| format!("{} = {}", child.name, child.value)).collect()
}

#[track_caller]
fn stand_at(debuggee: &mut Debuggee, mark: &str) {
    let bound = debuggee.break_at(mark);
    debuggee.go_on();
    debuggee.backend.remove_breakpoint(bound.id).unwrap();
}

/// Addresses differ from run to run.
fn without_address(line: String) -> String {
    match line.find(" = 0x") {
        Some(at) => format!("{} = <address>", &line[..at]),
        None => line,
    }
}

on_both! {
    fn every_kind_of_value_is_written_as_in_the_source(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let mut shown = Vec::new();
        let is_old = runtime.version.starts_with("3.");
        let of_this = |line: &&str| !line.ends_with(if is_old { "// new" } else { "// 3.1" });
        let bare = |line: &str| line.split("  // ").next().unwrap().to_owned();
        for block in EXPECTED.split("\n\n") {
            let (mark, lines) = block.trim().split_once('\n').unwrap();
            let mark = mark.trim_start_matches("== ");
            // The line of this mark begins no statement but that of a lambda.
            let line = debuggee.program.line(mark) + u32::from(mark == "strings");
            let file = debuggee.program.source.to_str().unwrap().to_owned();
            let bound = debuggee.set(CodeBreakpoint::at(Place::Line { file, line }));
            debuggee.go_on();
            debuggee.backend.remove_breakpoint(bound.id).unwrap();
            let expected = sorted(lines.lines().filter(of_this).map(bare).collect());
            let found = sorted(debuggee.local_lines().into_iter().map(without_address).collect());
            shown.push(found.join("\n"));
            pretty(mark, &expected, &found);
        }
        let stop = debuggee.go_on();
        assert_eq!(stop.exit_code, Some(0));
        let printed = include_str!("../../../../fixtures/dotnet/expected/Values.txt");
        assert_eq!(debuggee.printed(), printed, "looking has changed what the program does");
    }

    fn parts_are_paged(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        stand_at(&mut debuggee, "arrays");
        let window = ValueLimits { depth: 1, children: 3, offset: 9998, ..ValueLimits::default() };
        let large = local(&mut debuggee, "large", window);
        assert_eq!(parts(&large), ["[9998] = 9998", "[9999] = 9999"]);
        assert_eq!((large.child_count, large.value.as_str()), (Some(10000), "[0, 1, 2, 3, 4, 5, 6, 7, …]"));
        let window = ValueLimits { depth: 1, children: 2, offset: 3, ..ValueLimits::default() };
        let grid = local(&mut debuggee, "grid", window);
        assert_eq!(parts(&grid), ["[1,0] = 4", "[1,1] = 5"]);
        assert!(grid.truncated);
        let shifted = local(&mut debuggee, "shifted", ValueLimits::default());
        assert_eq!(parts(&shifted), ["[5] = 0", "[6] = 77", "[7] = 0"]);
        assert!(!shifted.truncated);
        let none = ValueLimits { depth: 0, ..ValueLimits::default() };
        assert_eq!(local(&mut debuggee, "numbers", none).children, []);
        let deep = local(&mut debuggee, "jagged", ValueLimits { depth: 2, ..ValueLimits::default() });
        assert_eq!(parts(&deep.children[1]), ["[0] = 2", "[1] = 3"]);
        stand_at(&mut debuggee, "collections");
        let window = ValueLimits { depth: 1, children: 1, offset: 1, ..ValueLimits::default() };
        for (name, expected) in [
            ("list", "[1] = 2"),
            ("dictionary", "[\"three\"] = 3"),
            ("nested", "[2] = []"),
            ("set", "[1] = \"blue\""),
            ("queue", "[1] = 4"),
            ("stack", "[1] = \"middle\""),
            ("sorted", "[\"mouse\"] = 13"),
            ("sortedList", "[2] = \"b\""),
            ("sortedSet", "[1] = 2"),
            ("linked", "[1] = 8"),
            ("immutable", "[1] = 5"),
            ("immutableList", "[1] = \"q\""),
        ] {
            assert_eq!(parts(&local(&mut debuggee, name, window)), [expected], "{name}");
        }
    }

    fn long_texts_are_cut_to_the_limit(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let line = debuggee.program.line("strings") + 1;
        let file = debuggee.program.source.to_str().unwrap().to_owned();
        debuggee.set(CodeBreakpoint::at(Place::Line { file, line }));
        debuggee.go_on();
        let limits = ValueLimits { text: 5, ..ValueLimits::default() };
        let long = local(&mut debuggee, "longText", limits);
        assert_eq!((long.value.as_str(), long.truncated), ("\"abcde\"… (20000 chars)", true));
        // A limit in the middle of 😀 leaves it out rather than showing half of it.
        let unicode = local(&mut debuggee, "unicode", ValueLimits { text: 11, ..limits });
        assert_eq!(unicode.value, "\"grüße 日本語 \"… (15 chars)");
        let whole = local(&mut debuggee, "longText", ValueLimits { text: 20000, ..limits });
        assert_eq!((whole.value.len(), whole.truncated), (20002, false));
    }

    fn parts_have_names_and_types(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let typed = |variable: &Variable| -> Vec<String> {
            variable.children.iter().map(|child| format!("{} {} = {}", child.type_name, child.name, child.value)).collect()
        };
        stand_at(&mut debuggee, "tuples");
        let named = local(&mut debuggee, "nested", ValueLimits::default());
        assert_eq!(typed(&named), [
            "int Item1 = 1",
            "(string Inner, int[] Numbers) Nested = (Inner: \"in\", Numbers: [1, 2])",
        ]);
        let eight = local(&mut debuggee, "eight", ValueLimits::default());
        assert_eq!(eight.children[8].name, "Item9");
        assert_eq!(eight.children[8].value, "9");
        stand_at(&mut debuggee, "tasks");
        let failed = local(&mut debuggee, "failed", ValueLimits::default());
        assert_eq!(typed(&failed), [
            "InvalidOperationException Exception = InvalidOperationException: task failed",
        ]);
        stand_at(&mut debuggee, "errors");
        let caught = local(&mut debuggee, "caught", ValueLimits::default());
        let caught = typed(&caught);
        for expected in [
            "int Code = 13",
            "string Message = \"outer\"",
            "ArgumentException InnerException = ArgumentException: inner",
        ] {
            assert!(caught.iter().any(|line| line == expected), "{expected} is not in {caught:#?}");
        }
        stand_at(&mut debuggee, "spans");
        let middle = local(&mut debuggee, "middle", ValueLimits { offset: 1, ..ValueLimits::default() });
        assert_eq!(typed(&middle), ["int [1] = 3", "int [2] = 4"]);
        let pointer = local(&mut debuggee, "pointer", ValueLimits::default());
        assert_eq!(typed(&pointer), ["int * = 17"]);
        assert_eq!(pointer.address.map(|at| format!("{:#x}", at.0)).as_deref(), Some(pointer.value.as_str()));
        let untyped = local(&mut debuggee, "untyped", ValueLimits::default());
        assert_eq!(typed(&untyped), [""; 0]);
        stand_at(&mut debuggee, "buffers");
        let vector = local(&mut debuggee, "vector", ValueLimits { offset: 2, ..ValueLimits::default() });
        assert_eq!(typed(&vector), ["int [2] = 3", "int [3] = 4"]);
        let unbound = local(&mut debuggee, "unbound", ValueLimits::default());
        assert_eq!(typed(&unbound), ["object Target = null"]);
    }

    fn objects_that_refer_to_each_other_end_somewhere(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        stand_at(&mut debuggee, "objects");
        let limits = ValueLimits { depth: 6, ..ValueLimits::default() };
        let node = local(&mut debuggee, "node", limits);
        let mut depth = 0;
        let mut current = &node;
        while let Some(next) = current.children.iter().find(|child| child.name == "Next") {
            depth += 1;
            current = next;
        }
        assert_eq!(depth, 6);
    }

    fn statics_are_shown_with_their_types_once_they_are_made(runtime: &Runtime) {
        let mut debuggee = Plan::of("Statics").launch(runtime);
        let lines = |debuggee: &mut Debuggee| -> Vec<String> {
            let statics = scope(debuggee, VariableScope::Global, ValueLimits::default());
            statics.iter().map(|it| format!("{} {} = {}", it.type_name, it.name, it.value)).collect()
        };
        stand_at(&mut debuggee, "before");
        let before = lines(&mut debuggee);
        assert!(before.iter().any(|line| line == "int perThread = 1"), "{before:#?}");
        assert_eq!(debuggee.evaluate("Settings.Name"), "\"constant\"");
        // Its initialisers run when the line does.
        let early = debuggee.evaluate("Settings.Count");
        assert!(early.contains("not initialised yet"), "{early}");
        stand_at(&mut debuggee, "lazily");
        for (expression, expected) in [
            ("Settings.Size", "12"),
            ("Settings.Count", "3"),
            ("Settings.Limits", "(Low: 1, High: 9)"),
            ("Settings.Title", "\"title\""),
            ("Settings.Inner.Names", "[\"x\", \"y\"]"),
        ] {
            assert_eq!(debuggee.evaluate(expression), expected, "{expression}");
        }
        let untouched = debuggee.evaluate("Untouched.Value");
        assert!(untouched.contains("not initialised yet"), "{untouched}");
        stand_at(&mut debuggee, "other");
        assert_eq!(debuggee.evaluate("Statics.perThread"), "10");
    }

    fn values_of_fsharp_look_like_fsharp(runtime: &Runtime) {
        let mut debuggee = Plan::of("Shapes").launch(runtime);
        stand_at(&mut debuggee, "values");
        let found = debuggee.local_lines();
        let values: Vec<_> = found.iter().filter_map(|line| line.split_once(' ')).collect();
        let value = |name: &str| {
            let start = format!("{name} = ");
            let line = found.iter().find_map(|line| line.find(&start).map(|at| &line[at + start.len()..]));
            line.unwrap_or_else(|| panic!("{name} is not in {values:#?}"))
        };
        assert_eq!(value("shapes"), "[Circle 2, Rectangle (2, 3.5), Nothing]");
        assert_eq!(value("some"), "Some 5");
        assert_eq!(value("none"), "None");
        assert_eq!(value("numbers"), "[1, 2, 3]");
        assert_eq!(value("map"), "{[\"one\"] = 1, [\"two\"] = 2}");
        assert_eq!(value("set"), "[1, 2, 3]");
        assert_eq!(value("result"), "Error \"wrong\"");
        assert_eq!(value("fine"), "Ok 1");
        assert_eq!(value("smalls"), "[Number 3, Named (\"sb\", 2), Bare]");
        assert_eq!(value("wrapped"), "Wrapped \"in\"");
        assert_eq!(value("present"), "ValueSome 3");
        assert_eq!(value("absent"), "ValueNone");
        assert_eq!(value("older"), "{Name = \"Ann\", Age = 31, Tags = [\"c\", \"a\", \"b\"]}");
    }

    fn constants_have_their_own_type(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let bound = debuggee.set(CodeBreakpoint::at(Place::Function("Fixtures.Base.Describe".into())));
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(bound.id).unwrap();
        let statics = scope(&mut debuggee, VariableScope::Global, ValueLimits::default());
        let lines: Vec<_> = statics.iter().map(|it| format!("{} {} = {}", it.type_name, it.name, it.value)).collect();
        assert_eq!(lines, ["int Limit = 100", "int Created = 2", "string Kind = \"base\""]);
        assert!(statics.iter().all(|variable| variable.state == ValueState::Available));
    }
}

#[track_caller]
fn pretty(mark: &str, expected: &[String], found: &[String]) {
    let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
    let more: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(missing.is_empty() && more.is_empty(), "at {mark}\nmissing {missing:#?}\ninstead {more:#?}");
}
