//! From lines to instructions and back.

use hindcast_dotnet::image::pdb::{Document, LineMatch, Place};

use super::{Sample, mark};

impl Sample {
    fn document(&self) -> Document<'_> {
        self.pdb.documents_matching("sample.cs")[0]
    }

    /// The places of a marked line, each with its method's name.
    fn places(&self, name: &str) -> (LineMatch, Vec<(String, Place)>) {
        let (matched, places) =
            self.pdb.places_of_line(self.document(), mark(name)).expect("a line with code");
        let named = |place: Place| {
            let method = self.assembly.method(place.method).expect("a method of the assembly");
            (method.full_name().expect("a method with a name"), place)
        };
        (matched, places.into_iter().map(named).collect())
    }
}

#[test]
fn a_line_with_code_has_its_place() {
    let sample = Sample::open();
    let (matched, places) = sample.places("square");
    assert_eq!(matched, LineMatch::Exact);
    let [(method, place)] = &places[..] else { panic!("{places:?}") };
    assert_eq!(method, "Sample.Program.Main");
    assert_eq!((place.span.start_line, place.span.end_line), (mark("square"), mark("square")));
    let point = sample.pdb.point_at(place.method, place.il).unwrap();
    assert_eq!((point.il, point.span), (place.il, Some(place.span)));
    assert_eq!(sample.pdb.document(point.document).unwrap().path().as_deref(), Some("/sample/sample.cs"));
}

#[test]
fn a_line_with_several_statements_stops_at_the_first() {
    let sample = Sample::open();
    // The beginning, the condition and the step of a loop, in the order in which they are written.
    let (_, places) = sample.places("loop");
    assert_eq!(places.len(), 3);
    assert!(places.is_sorted_by_key(|(_, place)| place.span.start_column));
    assert!(places[0].1.il < places[2].1.il && places[2].1.il < places[1].1.il, "{places:?}");
    let (_, stops) = sample.pdb.breakpoint_places(sample.document(), mark("loop"), |_| false).unwrap();
    assert_eq!(stops, [places[0].1]);
    assert_eq!(sample.places("two_statements").1.len(), 2);
}

#[test]
fn a_line_without_code_leads_to_the_next_of_the_same_method() {
    let sample = Sample::open();
    let (matched, places) = sample.places("blank");
    assert_eq!(matched, LineMatch::Following);
    assert_eq!(places.len(), 1);
    assert_eq!(places[0].1.span.start_line, mark("long_statement"));
    // Whoever knows better may go on to the next method.
    let stops = sample.pdb.places_after(sample.document(), mark("async")).unwrap();
    assert_eq!(stops[0].span.start_line, mark("async") + 1);
    // Nothing follows between methods, before the first and after the last.
    for line in [mark("main_close") + 1, 1, 100_000] {
        assert_eq!(sample.pdb.places_of_line(sample.document(), line), None, "{line}");
    }
}

#[test]
fn a_line_within_a_statement_leads_to_its_beginning() {
    let sample = Sample::open();
    let (matched, places) = sample.places("long_statement_end");
    assert_eq!(matched, LineMatch::Within);
    let [(_, place)] = &places[..] else { panic!("{places:?}") };
    assert_eq!(
        (place.span.start_line, place.span.end_line),
        (mark("long_statement"), mark("long_statement_end"))
    );
}

#[test]
fn a_line_of_a_lambda_belongs_to_the_lambda() {
    let sample = Sample::open();
    let (matched, places) = sample.places("lambda");
    assert_eq!(matched, LineMatch::Exact);
    let [(method, _)] = &places[..] else { panic!("{places:?}") };
    assert_eq!(method, "Sample.Program+<>c__DisplayClass0_0.<Main>b__0");
    assert_eq!(sample.places("lambda_declaration").1[0].0, "Sample.Program.Main");
    // The statement that declares the lambda also goes on over this line.
    let (matched, places) = sample.places("lambda_blank");
    assert_eq!((matched, &places[0].0), (LineMatch::Following, method));
    assert_eq!(places[0].1.span.start_line, mark("lambda_blank") + 1);
}

#[test]
fn a_line_of_a_state_machine_belongs_to_the_method_that_moves_it() {
    let sample = Sample::open();
    for (line, method) in [
        ("async_first", "Sample.Program+<SumAsync>d__3.MoveNext"),
        ("await_delay", "Sample.Program+<SumAsync>d__3.MoveNext"),
        ("doubled", "Sample.Program+<Numbers>d__2.MoveNext"),
    ] {
        let (matched, places) = sample.places(line);
        assert_eq!((matched, places[0].0.as_str()), (LineMatch::Exact, method), "{line}");
    }
}

#[test]
fn a_statement_spans_all_its_instructions() {
    let sample = Sample::open();
    let (main, document) = (sample.program("Main"), sample.document());
    let place = |line| sample.pdb.places_of_line(document, line).unwrap().1[0];
    let (first, next) = (place(mark("square")), place(mark("square") + 1));
    let statement = sample.pdb.statement_at(main, first.il + 1).unwrap();
    assert_eq!((statement.il.clone(), statement.point.unwrap().il), (first.il..next.il, first.il));
    // The method's last statement has no end.
    let last = sample.pdb.statement_at(main, place(mark("main_close")).il).unwrap();
    assert_eq!(last.il.end, u32::MAX);
}

#[test]
fn hidden_code_belongs_to_the_statement_before() {
    let sample = Sample::open();
    let move_next = sample.method("Sample.Program+<SumAsync>d__3", "MoveNext");
    let points = sample.pdb.sequence_points(move_next).unwrap();
    assert!(points.is_sorted_by_key(|point| point.il));
    assert_eq!(points[0].span, None);
    // Nothing but the state machine's own code comes before the first statement.
    let beginning = sample.pdb.statement_at(move_next, 0).unwrap();
    assert_eq!((beginning.point, beginning.il.start), (None, 0));
    let hidden = points.iter().rposition(|point| point.span.is_none()).unwrap();
    let before = points[..hidden].iter().rev().find(|point| point.span.is_some()).unwrap();
    assert_eq!(sample.pdb.point_at(move_next, points[hidden].il), Some(*before));
    assert_eq!(
        sample
            .pdb
            .sequence_points(sample.program("Hidden"))
            .unwrap()
            .iter()
            .filter(|p| p.span.is_some())
            .count(),
        0
    );
}

#[test]
fn a_method_may_lie_in_another_document() {
    let sample = Sample::open();
    let elsewhere = sample.program("Elsewhere");
    let document = sample.pdb.documents_matching("generated/other.txt")[0];
    assert_eq!(sample.pdb.methods_in(document), [elsewhere]);
    assert_eq!(sample.pdb.method_lines(document, elsewhere), Some((1001, 1003)));
    let (matched, places) = sample.pdb.places_of_line(document, 1002).unwrap();
    assert_eq!((matched, places[0].method), (LineMatch::Exact, elsewhere));
    assert!(!sample.pdb.methods_in(sample.document()).contains(&elsewhere));
}

#[test]
fn a_document_is_found_by_the_end_of_its_path() {
    let sample = Sample::open();
    let found = |path: &str| sample.pdb.documents_matching(path).len();
    for path in ["sample.cs", "/sample/sample.cs", "sample/sample.cs", "sample\\sample.cs", "./sample.cs"] {
        assert_eq!(found(path), 1, "{path}");
    }
    for path in ["ample.cs", "Sample.cs", "other/sample.cs", "", "/"] {
        assert_eq!(found(path), 0, "{path}");
    }
}

#[test]
fn every_statement_is_found_by_its_line() {
    let sample = Sample::open();
    assert!(sample.pdb.lines_are_complete());
    let mut statements = 0;
    for method in sample.pdb.methods() {
        for point in sample.pdb.sequence_points(method).unwrap() {
            let Some(span) = point.span else { continue };
            let document = sample.pdb.document(point.document).unwrap();
            let (matched, places) = sample.pdb.places_of_line(document, span.start_line).unwrap();
            assert_eq!(matched, LineMatch::Exact);
            assert!(places.contains(&Place { method, il: point.il, span }), "{point:?}");
            statements += 1;
        }
    }
    assert!(statements > 80, "{statements}");
}
