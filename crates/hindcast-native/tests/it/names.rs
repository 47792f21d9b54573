//! What names mean in a frame: C++ has many of the same.

use hindcast_core::debug::{
    Access, CodeBreakpoint, Evaluation, FrameRef, NumberFormat, Place, StopReason, Trigger, ValueLimits,
    Watched, Watchpoint,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::{Debuggee, with_remedies};

/// What expressions are shown as, or why they are not.
fn compare(debuggee: &mut Debuggee, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        let shown = debuggee.evaluate(expression).unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(shown, *expected, "{expression}");
    }
}

fn type_of(debuggee: &mut Debuggee, expression: &str) -> String {
    let evaluation = Evaluation {
        expression: expression.to_owned(),
        frame: FrameRef::of(debuggee.thread(), 0),
        limits: ValueLimits::default(),
        format: NumberFormat::Auto,
        may_write: false,
        allow_calls: None,
    };
    debuggee.backend().evaluate(&evaluation).expect("it has a value").type_name
}

#[test]
fn a_name_means_a_local_before_a_member_before_a_global_before_a_librarys() {
    for fixture in [Fixture::cpp("names"), Fixture::cpp("names").clang()] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("in_method");
        compare(
            &mut debuggee,
            &[
                ("outer", "4"),
                ("total", "10"),
                ("state", "30"),
                ("based", "20"),
                ("sizeof(R)", "5"),
                ("sizeof(fraction)", "8"),
                ("sizeof fraction", "8"),
                ("deep::total", "3"),
                // Only the object's own class has it.
                ("hidden", "50"),
            ],
        );
        debuggee.run_to("in_namespace");
        compare(&mut debuggee, &[("total", "3"), ("outer", "2")]);
        // A file of a library keeps one for itself.
        let error = debuggee.evaluate("state").unwrap_err();
        assert!(error.contains("no variable `state` here"), "{error}");
    }
}

#[test]
fn casts_between_base_and_derived_classes_move_the_pointer() {
    for fixture in [Fixture::cpp("classes"), Fixture::cpp("classes").clang()] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("in_main");
        compare(
            &mut debuggee,
            &[
                ("((D*)p)->d", "3"),
                ("((D&)*p).d", "3"),
                ("((B*)&d)->b", "2"),
                ("((B&)d).b", "2"),
                ("((B)d).b", "2"),
                ("p == (B*)&d", "true"),
                ("p == &d", "true"),
                ("(D*)p == &d", "true"),
                ("(void*)p == (void*)&d", "false"),
                ("(B*)none", "null"),
                ("(B*)none == nullptr", "true"),
                ("((Root*)&bottom)->root", "4"),
                ("(Root*)&bottom == root", "true"),
                // The object tells what it is a part of.
                ("((Bottom*)root)->bottom", "7"),
                ("((Right*)root)->right", "6"),
            ],
        );
        let why = debuggee.complaint("(Derived*)plain");
        assert!(why.contains("`Derived` around this `Plain`") && why.contains("virtual base"), "{why}");
        let why = debuggee.evaluate("(Plain*)&twice").unwrap_err();
        assert!(why.contains("several base classes `Plain`"), "{why}");
        compare(&mut debuggee, &[("((Plain*)(Twice2*)&twice)->plain", "8")]);
    }
}

#[test]
fn a_reference_is_what_it_refers_to() {
    for fixture in [Fixture::cpp("classes"), Fixture::cpp("classes").clang()] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("in_callee");
        let expected = [
            ("&reference == &count", "true"),
            ("*&reference", "1"),
            ("&part == &whole", "true"),
            ("sizeof(whole) == sizeof(D)", "true"),
        ];
        compare(&mut debuggee, &expected);
        assert_eq!(type_of(&mut debuggee, "&reference"), "int *");
        let local = debuggee.local("reference");
        let count = debuggee.value_of("&count");
        assert_eq!(local.address.map(|address| address.to_string()).as_deref(), count.split(' ').next());
        let frame = FrameRef::of(debuggee.thread(), 0);
        let watched = Watched::Expression { text: "reference".into(), frame };
        let watch = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
        debuggee.backend().add_breakpoint(Trigger::Watch(watch)).expect("it can be watched");
        assert_eq!(debuggee.go().reason, StopReason::Watchpoint);
        let line = debuggee.built.line("assigned");
        assert!((line..=line + 1).contains(&debuggee.line().expect("a line")), "{:?}", debuggee.stop);
        assert_eq!(debuggee.value_of("count"), "5");
    }
}

#[test]
fn enumerators_functions_and_statics_are_known_by_their_names() {
    for fixture in
        [Fixture::cpp("names"), Fixture::cpp("names").clang(), Fixture::cpp("names").flags(["-gdwarf-4"])]
    {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("in_main");
        let twice = debuggee.value_of("chosen");
        compare(
            &mut debuggee,
            &[
                ("flags & F_C", "4"),
                ("flags & F_B", "0"),
                ("F_B", "F_B"),
                ("F_B + 1", "3"),
                ("(flags & F_C) == F_C", "true"),
                ("flags == (F_A | F_C)", "true"),
                ("EC::B", "B"),
                ("kind == EC::B", "true"),
                ("kind == EC::A", "false"),
                ("(int)EC::B", "7"),
                ("(int)deep::Kind::First", "11"),
                ("deep::Free + 0", "12"),
                ("deep::Loose::Free + 0", "12"),
                ("deep::fixed", "13"),
                ("Shared::On + 0", "9"),
                ("chosen == twice", "true"),
                ("chosen == &twice", "true"),
                ("*chosen == twice", "true"),
                ("twice", &twice),
                ("&twice", &twice),
                ("Shared::bs", "60"),
                ("Der::bs", "60"),
                ("d.bs", "60"),
                ("d.sm", "63"),
                ("d.Der::sm", "63"),
                ("Der::sm", "63"),
                ("ns::T::ce", "64"),
                ("t.ce", "64"),
                ("ns::T::half", "0.5"),
                ("Der::ce", "61"),
                ("d.cs", "62"),
                ("d.is", "0.25"),
            ],
        );
        assert_eq!(type_of(&mut debuggee, "&twice"), "int (*)(int)");
        debuggee.run_to("in_shared");
        compare(&mut debuggee, &[("bs", "60"), ("ce", "61"), ("is", "0.25"), ("On + 0", "9")]);
    }
}

#[test]
fn a_condition_may_ask_for_the_bits_of_an_enumerator() {
    let mut debuggee = Debuggee::launch(&Fixture::cpp("names"), &[]);
    let line = debuggee.built.line("in_main");
    let file = debuggee.built.source_text();
    let mut breakpoint = CodeBreakpoint::at(Place::Line { file, line });
    breakpoint.condition = Some("flags & F_C".into());
    debuggee.add(breakpoint);
    assert_eq!(debuggee.go().reason, StopReason::Breakpoint);
}

#[test]
fn a_name_with_colons_before_it_is_not_a_local() {
    let mut debuggee = Debuggee::launch(&Fixture::cpp("names"), &[]);
    debuggee.run_to("in_main");
    compare(
        &mut debuggee,
        &[("total", "5"), ("::total", "1"), ("::deep::total", "3"), ("(long)::total", "1")],
    );
    debuggee.run_to("in_method");
    compare(&mut debuggee, &[("::total", "1"), ("::outer + outer", "6"), ("sizeof(::R)", "5")]);
}

#[test]
fn a_member_of_two_base_classes_is_ambiguous_until_one_is_chosen() {
    for fixture in [Fixture::cpp("classes"), Fixture::cpp("classes").clang()] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("in_main");
        let why = debuggee.evaluate("mm.x").unwrap_err();
        assert_eq!(why, "`x` of `MM` is ambiguous at column 3: `M1` and `M2` have one each");
        compare(
            &mut debuggee,
            &[("mm.M2::x", "2"), ("mm.M1::x", "1"), ("(&mm)->M2::x + 1", "3"), ("bottom.root", "4")],
        );
    }
}

#[test]
fn the_programs_code_is_not_run_and_the_error_says_why() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let frame = FrameRef::of(debuggee.thread(), 0);
    let mut refused = |allow_calls| {
        let evaluation = Evaluation {
            expression: "square(3)".into(),
            frame,
            limits: ValueLimits::default(),
            format: NumberFormat::Auto,
            may_write: false,
            allow_calls,
        };
        with_remedies(&debuggee.backend().evaluate(&evaluation).expect_err("nothing is called"))
    };
    assert!(refused(None).contains("the program's functions are not called"), "{}", refused(None));
    let allowed = refused(Some(std::time::Duration::from_secs(5)));
    assert!(allowed.contains("native sessions cannot run the program's code"), "{allowed}");
}
