//! Functions and lines by name, compared with where gdb sets breakpoints.

use hindcast_fixtures::{Built, Fixture};
use hindcast_symbols::{FunctionPattern, Symbols};

use crate::support::{bias, gdb, hexadecimal, loaded};

fn named(symbols: &Symbols, name: &str) -> Vec<String> {
    let mut names: Vec<String> = symbols
        .functions_named(&FunctionPattern::Exact(name.to_owned()), 50)
        .into_iter()
        .map(|target| target.name)
        .collect();
    names.sort();
    names
}

/// The addresses of gdb's breakpoints.
fn breakpoints_of_gdb(built: &Built, place: &str) -> Vec<u64> {
    let said = gdb(&built.path, &[&format!("break {place}"), "info breakpoints"]);
    let table = said.split("Address").nth(1).unwrap_or("");
    let mut found: Vec<u64> = table
        .split_whitespace()
        .filter(|word| word.starts_with("0x") && word.len() == 18)
        .map(|word| hexadecimal(word) + bias(&built.path))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn names_without_namespaces_and_arguments_find_all_that_fit() {
    let built = Fixture::cpp("shapes").build();
    let symbols = loaded(&built.path);
    assert_eq!(named(&symbols, "twice"), ["twice<double>", "twice<int>"]);
    assert_eq!(named(&symbols, "twice<int>"), ["twice<int>"]);
    assert_eq!(named(&symbols, "Square::area"), ["geometry::Square::area"]);
    assert_eq!(named(&symbols, "hidden"), ["geometry::(anonymous namespace)::hidden"]);
    assert_eq!(named(&symbols, "Box::sum"), ["geometry::Box<int, 4>::sum"]);
    assert_eq!(named(&symbols, "geometry::Box<int,4>::sum"), ["geometry::Box<int, 4>::sum"]);
    assert_eq!(named(&symbols, "::counter"), ["counter"]);
    assert_eq!(named(&symbols, "no_such_function"), [""; 0]);
    let regex =
        FunctionPattern::Regex(regex_lite::Regex::new("^geometry::.*(area|sum)$").expect("a pattern"));
    let found = symbols.functions_named(&regex, 50);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn rust_functions_are_found_by_path_method_and_closure() {
    let built = Fixture::rust("shapes").build();
    let symbols = loaded(&built.path);
    assert_eq!(named(&symbols, "shapes::square"), ["shapes::square"]);
    assert_eq!(named(&symbols, "square"), ["shapes::square"]);
    assert_eq!(named(&symbols, "Point::area").len(), 1, "{:?}", named(&symbols, "area"));
    assert_eq!(named(&symbols, "Point::sum").len(), 1, "{:?}", named(&symbols, "sum"));
    let closures =
        FunctionPattern::Regex(regex_lite::Regex::new(r"^shapes::main::\{+closure").expect("a pattern"));
    assert!(!symbols.functions_named(&closures, 50).is_empty());
    let methods = FunctionPattern::Regex(regex_lite::Regex::new("Point<f64> as .*area$").expect("a pattern"));
    assert_eq!(symbols.functions_named(&methods, 50).len(), 1, "a name with `..` in its symbol");
    assert!(named(&symbols, "main").contains(&"shapes::main".to_owned()), "{:?}", named(&symbols, "main"));
    assert!(symbols.complete_function("shapes::sq", 10).contains(&"shapes::square".to_owned()));
    assert!(symbols.producer().is_some_and(|producer| producer.starts_with("Rust (")));
}

#[test]
fn inlined_copies_are_found_by_their_functions_name() {
    for built in [
        Fixture::cpp("shapes").flags(["-O2"]).build(),
        Fixture::cpp("shapes").flags(["-O2", "-gsplit-dwarf"]).build(),
        Fixture::rust("shapes").flags(["-O"]).build(),
    ] {
        let symbols = loaded(&built.path);
        let found = symbols.functions_named(&FunctionPattern::Exact("inlined_one".to_owned()), 10);
        assert!(found.iter().any(|target| target.inlined), "{found:?} in {}", built.path.display());
        let frames = symbols.frames_at(found[0].address);
        assert!(frames[0].inlined && frames.len() > 1, "{frames:?}");
    }
}

#[test]
fn functions_are_where_gdb_breaks_on_them() {
    let cases = [
        (
            Fixture::cpp("shapes").build(),
            vec!["twice", "geometry::Square::area", "geometry::Square::Square", "main"],
        ),
        (
            Fixture::cpp("shapes").flags(["-O2"]).build(),
            vec!["geometry::Square::area", "main", "counter", "inlined_one"],
        ),
        (
            Fixture::cpp("shapes").flags(["-gdwarf-4", "-no-pie"]).build(),
            vec!["twice", "geometry::Shape::~Shape"],
        ),
        (Fixture::rust("shapes").build(), vec!["shapes::square", "shapes::describe", "shapes::main"]),
        (Fixture::rust("shapes").flags(["-O"]).build(), vec!["shapes::square", "shapes::describe"]),
    ];
    for (built, names) in cases {
        let symbols = loaded(&built.path);
        for name in names {
            let found = symbols.functions_named(&FunctionPattern::Exact(name.to_owned()), 50);
            let ours: Vec<u64> = found.iter().map(|target| target.address).collect();
            assert_eq!(ours, breakpoints_of_gdb(&built, name), "{name} in {}", built.path.display());
        }
    }
}

/// Compares the addresses of marked lines with gdb's breakpoints.
fn lines_agree_with_gdb(fixture: &Fixture, marks: &[&str]) {
    let built = fixture.build();
    let symbols = loaded(&built.path);
    let name = built.source.file_name().expect("a name").to_string_lossy().into_owned();
    for mark in marks {
        let line = built.line(mark);
        let matches = symbols.addresses_of_line(&name, line);
        let ours: Vec<u64> = matches.targets.iter().map(|target| target.address).collect();
        let theirs = breakpoints_of_gdb(&built, &format!("{name}:{line}"));
        assert_eq!(ours, theirs, "@mark {mark} of {}: {matches:x?}", built.path.display());
    }
}

#[test]
fn lines_are_where_gdb_breaks_on_them() {
    let marks = [
        "square_body",
        "square_return",
        "factorial_test",
        "factorial_base",
        "add_x",
        "main_first",
        "loop_body",
    ];
    for flags in [&["-O0"] as &[&str], &["-gdwarf-4"], &["-static"], &["-gsplit-dwarf"]] {
        lines_agree_with_gdb(&Fixture::c("calls").flags(flags), &marks);
    }
    let marks = [
        "square_body",
        "square_return",
        "factorial_test",
        "factorial_base",
        "add_x",
        "main_first",
        "loop_body",
        "print",
    ];
    lines_agree_with_gdb(&Fixture::c("calls").flags(["-O1"]), &marks);
    lines_agree_with_gdb(&Fixture::c("calls").flags(["-O2"]), &marks);
    let marks =
        ["hidden_body", "area", "constructor", "box_sum", "twice_body", "lambda_body", "main_sum", "print"];
    lines_agree_with_gdb(&Fixture::cpp("shapes"), &marks);
    let marks = [
        "point_sum",
        "point_area",
        "square_body",
        "inlined_body",
        "describe_empty",
        "closure_body",
        "main_total",
    ];
    lines_agree_with_gdb(&Fixture::rust("shapes"), &marks);
}

#[test]
fn a_line_without_code_moves_to_the_next_one_that_has() {
    let built = Fixture::c("calls").build();
    let symbols = loaded(&built.path);
    // The first line, a blank one before a function, and one behind the end of the file.
    for line in [1, built.line("square_body") - 2, built.line("factorial_base") + 3] {
        let moved = symbols.addresses_of_line("calls.c", line);
        let ours: Vec<u64> = moved.targets.iter().map(|target| target.address).collect();
        assert_eq!(ours, breakpoints_of_gdb(&built, &format!("calls.c:{line}")), "{line}");
        assert!(moved.moved_to.is_some_and(|to| to > line), "{moved:?}");
    }
    let behind = symbols.addresses_of_line("calls.c", 100_000);
    assert_eq!((behind.targets.len(), behind.last), (0, Some(built.line("main_return") + 1)));
    let unknown = symbols.addresses_of_line("no_such_file.c", 1);
    assert!(unknown.targets.is_empty() && unknown.files.is_empty());

    let built = Fixture::cpp("shapes").build();
    let symbols = loaded(&built.path);
    let after = built.line("box_sum") + 1;
    let moved = symbols.addresses_of_line("cpp/shapes.cpp", after);
    assert_eq!(moved.moved_to.is_some(), !moved.targets.is_empty() && moved.targets[0].line != after);
}

#[test]
fn source_files_are_found_by_unique_endings_only() {
    let built = Fixture::cpp("shapes").build();
    let symbols = loaded(&built.path);
    let path = built.source_text();
    assert_eq!(symbols.find_source(&path).as_deref(), Some(path.as_str()));
    assert_eq!(symbols.find_source("cpp/shapes.cpp").as_deref(), Some(path.as_str()));
    assert_eq!(symbols.find_source("hapes.cpp"), None);
    assert_eq!(symbols.find_source("/etc/passwd"), None);
    assert!(symbols.source_files("shapes", 10).iter().any(|file| **file == *path));
    assert!(symbols.source_files("", 3).len() == 3);
}
