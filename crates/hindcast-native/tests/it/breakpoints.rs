//! Breakpoints, tracepoints, watchpoints, exceptions.

use std::collections::BTreeMap;

use hindcast_core::debug::{
    Access, Binding, Breakpoint, BreakpointChange, CodeBreakpoint, DebugError, ExceptionBreakpoint, FrameRef,
    Granularity, Movement, OutputStream, Place, Remedy, RuntimeAddr, Stop, StopReason, Trigger, Watched,
    Watchpoint,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

#[test]
fn a_line_breakpoint_is_hit_each_time_the_line_is_reached() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &["4"]);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("main_first")));
    let breakpoint = debuggee.break_at("loop_body");
    for i in 0..5 {
        assert_eq!(debuggee.go().breakpoints, [breakpoint.id]);
        assert_eq!(debuggee.value_of("i"), i.to_string());
    }
    debuggee.expect_exit(4);
}

#[test]
fn a_function_breakpoint_stops_behind_the_prologue() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.add(CodeBreakpoint::at(Place::Function("square".into())));
    debuggee.go();
    assert_eq!(debuggee.line(), Some(debuggee.built.line("square_body")));
    assert_eq!(debuggee.value_of("number"), "0");
}

#[test]
fn a_condition_is_true_only_where_it_is() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("square_return"));
    let place = Place::Line { file, line };
    debuggee.add(CodeBreakpoint {
        condition: Some("result > 5 && number != 3".into()),
        ..CodeBreakpoint::at(place)
    });
    debuggee.go();
    assert_eq!(debuggee.value_of("number"), "4");
    debuggee.expect_exit(0);
}

#[test]
fn hit_counts_multiples_and_temporary_breakpoints_stop_as_often_as_they_say() {
    let values = |change: fn(&mut CodeBreakpoint)| {
        let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
        let (file, line) = (debuggee.built.source_text(), debuggee.built.line("loop_body"));
        let mut breakpoint = CodeBreakpoint::at(Place::Line { file, line });
        change(&mut breakpoint);
        debuggee.add(breakpoint);
        let mut values = Vec::new();
        while debuggee.go().reason == StopReason::Breakpoint {
            values.push(debuggee.value_of("i"));
        }
        values
    };
    assert_eq!(values(|breakpoint| breakpoint.hit_count = 4), ["3", "4"]);
    assert_eq!(values(|breakpoint| breakpoint.hit_count_multiple = 2), ["1", "3"]);
    assert_eq!(values(|breakpoint| breakpoint.temporary = true), ["0"]);
    assert_eq!(values(|breakpoint| breakpoint.enabled = false), [""; 0]);
}

#[test]
fn a_tracepoint_writes_and_does_not_stop() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("square_return"));
    let place = Place::Line { file, line };
    let trace = CodeBreakpoint {
        log_message: Some("square of {number} is {result}".into()),
        max_notifications: 3,
        ..CodeBreakpoint::at(place)
    };
    let breakpoint = debuggee.add(trace);
    debuggee.expect_exit(0);
    let logged = debuggee.output.read(0, 10_000, Some(OutputStream::Log));
    let text: Vec<u8> = logged.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(String::from_utf8(text).unwrap(), "square of 0 is 0\nsquare of 1 is 1\nsquare of 2 is 4\n");
    let breakpoint = debuggee
        .backend()
        .breakpoints()
        .unwrap()
        .into_iter()
        .find(|found| found.id == breakpoint.id)
        .unwrap();
    assert_eq!((breakpoint.hit_count, breakpoint.notifications_sent), (5, 3));
}

#[test]
fn a_breakpoint_on_a_line_without_code_moves_or_says_where_code_is() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let file = debuggee.built.source_text();
    let far = CodeBreakpoint::at(Place::Line { file: file.clone(), line: 100_000 });
    let refused = debuggee.backend().add_breakpoint(Trigger::Code(far));
    let Err(DebugError::BreakpointFailed(reason)) = refused else { panic!("{refused:?}") };
    let last = debuggee.built.line("main_return") + 1;
    assert_eq!(reason.remedies, [Remedy::advice(format!("line {last} is its last with code"))]);
    assert!(debuggee.backend().breakpoints().unwrap().is_empty());
    let asked = debuggee.built.line("square_body") - 2;
    let moved = debuggee.add(CodeBreakpoint::at(Place::Line { file: file.clone(), line: asked }));
    let Binding::Bound { locations, note: Some(note) } = moved.binding else { panic!("{moved:?}") };
    assert_eq!(locations[0].line, Some(asked + 2));
    assert!(note.contains(&format!("line {asked} has no code; moved to line")), "{note}");
    let unknown = debuggee.add(CodeBreakpoint::at(Place::Line { file: "nosuch.c".into(), line: 1 }));
    assert!(matches!(unknown.binding, Binding::Pending { .. }), "{unknown:?}");
    let by_text = debuggee
        .add(CodeBreakpoint::at(Place::Statement { file, text: "int  product =factorial( 5 )".into() }));
    let Binding::Bound { locations, .. } = by_text.binding else { panic!("{by_text:?}") };
    assert_eq!(locations[0].line, Some(debuggee.built.line("before_factorial")));
}

#[test]
fn a_statement_is_found_in_the_file_that_has_it_where_libraries_have_one_of_that_name() {
    let mut debuggee = Debuggee::launch(&Fixture::rust("map"), &[]);
    let place = Place::Statement { file: "map.rs".into(), text: "// PUTTING".into() };
    let id = debuggee.add(CodeBreakpoint::at(place)).id;
    for _ in 0..3 {
        assert_eq!(debuggee.go().breakpoints, [id]);
        assert!(debuggee.function().ends_with("put"), "{}", debuggee.function());
    }
    debuggee.expect_exit(0);
    let mut debuggee = Debuggee::launch(&Fixture::rust("map"), &[]);
    let place = Place::Statement { file: "map.rs".into(), text: "nowhere written".into() };
    let nowhere = debuggee.backend().add_breakpoint(Trigger::Code(CodeBreakpoint::at(place)));
    assert!(format!("{nowhere:?}").contains("contains `nowhere written`"), "{nowhere:?}");
}

#[test]
fn a_watchpoint_tells_every_write_with_old_and_new_value() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let frame = FrameRef::of(debuggee.thread(), 0);
    let watched = Watched::Expression { text: "total".into(), frame };
    let watch = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watch)).unwrap();
    let mut changes = Vec::new();
    while debuggee.go().reason == StopReason::Watchpoint {
        changes.push(debuggee.stop.detail.clone().unwrap());
    }
    assert_eq!(
        changes,
        [
            "total written with the same value: 0 (0x0)",
            "total: 0 (0x0) → 1 (0x1)",
            "total: 1 (0x1) → 3 (0x3)",
            "total: 3 (0x3) → 6 (0x6)",
            "total: 6 (0x6) → 10 (0xa)",
        ]
    );
    assert_eq!(debuggee.stop.exit_code, Some(0));
}

fn watch(debuggee: &mut Debuggee, text: &str) -> Breakpoint {
    let frame = FrameRef::of(debuggee.thread(), 0);
    let watched = Watched::Expression { text: text.into(), frame };
    let watch = Watchpoint { watched, access: Access::Write, condition: None, enabled: true };
    debuggee.backend().add_breakpoint(Trigger::Watch(watch)).expect("it can be watched")
}

#[test]
fn a_watchpoint_on_a_local_ends_with_its_function() {
    for granularity in [None, Some(Granularity::Instruction)] {
        let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
        debuggee.run_to("square_return");
        let set = watch(&mut debuggee, "result");
        match granularity {
            None => drop(debuggee.go()),
            Some(granularity) => {
                while debuggee.stop.reason != StopReason::Watchpoint {
                    debuggee.step(granularity);
                }
            }
        }
        let Stop { reason, detail, breakpoints, .. } = debuggee.stop.clone();
        assert_eq!((reason, breakpoints), (StopReason::Watchpoint, vec![set.id]));
        assert!(detail.as_deref().is_some_and(|detail| detail.starts_with("`result` is gone")), "{detail:?}");
        assert_eq!(debuggee.function(), "main");
        assert_eq!(debuggee.backend().breakpoints().unwrap(), []);
        debuggee.expect_exit(0);
    }
}

#[test]
fn a_watchpoint_in_a_recursion_ends_with_its_own_call() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("factorial_recursion");
    watch(&mut debuggee, "n");
    assert_eq!(debuggee.go().reason, StopReason::Watchpoint);
    assert_eq!(debuggee.function(), "main", "the inner calls of the function returned to the same place");
}

#[test]
fn what_debug_registers_cannot_hold_is_watched_by_steps() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    for _ in 0..4 {
        watch(&mut debuggee, "argv");
    }
    let fifth = watch(&mut debuggee, "total");
    let Binding::Bound { note: Some(note), .. } = fifth.binding else { panic!("{fifth:?}") };
    assert!(note.contains("single steps"), "{note}");
    let breakpoint = debuggee.break_at("square_return");
    let (mut changes, mut hits) = (Vec::new(), 0);
    while debuggee.go().reason != StopReason::Exit && changes.len() < 4 {
        if debuggee.stop.breakpoints == [breakpoint.id] {
            hits += 1;
        } else {
            changes.push(debuggee.stop.detail.clone().unwrap());
        }
    }
    let expected = [
        "total: 0 (0x0) → 1 (0x1)",
        "total: 1 (0x1) → 3 (0x3)",
        "total: 3 (0x3) → 6 (0x6)",
        "total: 6 (0x6) → 10 (0xa)",
    ];
    assert_eq!(changes, expected);
    assert_eq!(hits, 5, "breakpoints are hit as well");
}

fn exception(debuggee: &mut Debuggee, exception_type: &str) {
    exception_with(debuggee, exception_type, true);
}

fn exception_with(debuggee: &mut Debuggee, exception_type: &str, first_chance: bool) {
    let exception = ExceptionBreakpoint {
        exception_type: exception_type.into(),
        first_chance,
        second_chance: true,
        include_subtypes: true,
        enabled: true,
    };
    debuggee.backend().add_breakpoint(Trigger::Exception(exception)).expect("the breakpoint can be set");
}

#[test]
fn a_thrown_exception_stops_by_its_type_and_by_its_base() {
    for wanted in ["cpp:app::Problem", "cpp:std::runtime_error", "cpp:std::exception"] {
        let mut debuggee = Debuggee::launch(&Fixture::cpp("throws"), &[]);
        exception(&mut debuggee, wanted);
        assert_eq!(debuggee.go().reason, StopReason::Exception, "{wanted}");
        let raised = debuggee.stop.exception.clone().unwrap();
        assert_eq!(raised.exception_type, "cpp:app::Problem");
        assert_eq!(raised.message.as_deref(), Some("the disk is full"));
        let line = debuggee.built.line("throw_problem");
        assert!(debuggee.frames().iter().any(|frame| frame.location.line == Some(line)));
        // The number that is thrown next is neither.
        debuggee.expect_exit(0);
    }
}

#[test]
fn a_panic_stops_with_its_message() {
    let mut debuggee = Debuggee::launch(&Fixture::rust("panics"), &[]);
    exception(&mut debuggee, "rust:panic");
    assert_eq!(debuggee.go().reason, StopReason::Exception);
    let raised = debuggee.stop.exception.clone().unwrap();
    let message = raised.message.unwrap();
    assert!(message.contains("index out of bounds: the len is 2 but the index is 5"), "{message}");
    assert!(!raised.unhandled && !message.contains("backtrace"), "{message}");
    let line = debuggee.built.line("index");
    assert!(debuggee.frames().iter().any(|frame| frame.location.line == Some(line)));
    debuggee.expect_exit(0);
}

#[test]
fn a_panic_that_nobody_catches_stops_unasked_and_one_that_is_caught_does_not() {
    for optimised in ["-Copt-level=0", "-Copt-level=3"] {
        let fixture = Fixture::rust("panics").flags(["-g", optimised]);
        let mut debuggee = Debuggee::launch(&fixture, &["uncaught"]);
        assert_eq!(debuggee.go().reason, StopReason::Exception);
        let raised = debuggee.stop.exception.clone().unwrap();
        let message = raised.message.unwrap();
        assert!(raised.unhandled && message.contains("the len is 3 but the index is 3"), "{message}");
        assert!(debuggee.stop.breakpoints.is_empty());
        debuggee.expect_exit(101);
    }
    let mut debuggee = Debuggee::launch(&Fixture::rust("panics"), &[]);
    debuggee.expect_exit(0);
}

#[test]
fn an_exception_stops_only_when_nobody_catches_it_if_that_is_asked() {
    for (wanted, stops) in
        [("cpp:app::Problem", true), ("cpp:std::exception", true), ("cpp:*", true), ("cpp:int", false)]
    {
        let mut debuggee = Debuggee::launch(&Fixture::cpp("throws"), &["uncaught"]);
        exception_with(&mut debuggee, wanted, false);
        let reason = debuggee.go().reason;
        assert_eq!(reason == StopReason::Exception, stops, "{wanted}");
        // Whether or not it was waited for, it is known when the program is aborted.
        let raised = debuggee.stop.exception.clone().unwrap();
        assert_eq!(
            (raised.exception_type.as_str(), raised.unhandled),
            ("cpp:app::Problem", true),
            "{wanted}"
        );
        assert_eq!(raised.message.as_deref(), Some("the disk is full"));
    }
}

#[test]
fn parameters_choose_one_of_several_functions() {
    let mut debuggee = Debuggee::launch(&Fixture::cpp("overloads"), &[]);
    for (name, marks) in [
        ("app::over(int)", &["over_int"][..]),
        ("over( char const* )", &["over_text"]),
        ("over(const char *)", &["over_text"]),
        ("over", &["over_int", "over_double", "over_text"]),
        ("over(long)", &["over_int", "over_double", "over_text"]),
    ] {
        let breakpoint = debuggee.add(CodeBreakpoint::at(Place::Function(name.into())));
        let Binding::Bound { locations, note } = &breakpoint.binding else { panic!("{breakpoint:?}") };
        let lines: Vec<_> = locations.iter().filter_map(|location| location.line).collect();
        assert_eq!(lines, marks.iter().map(|mark| debuggee.built.line(mark)).collect::<Vec<_>>(), "{name}");
        let told = note.as_deref().is_some_and(|note| note.contains("(int), (double), (char const*)"));
        assert_eq!(told, name == "over(long)", "{note:?}");
    }
}

#[test]
fn an_inlined_template_is_seen_from_its_beginning() {
    for name in ["add", "add<int>", "/^add/"] {
        let mut debuggee = Debuggee::launch(&Fixture::cpp("overloads").flags(["-O1"]), &[]);
        debuggee.add(CodeBreakpoint::at(Place::Function(name.into())));
        debuggee.go();
        let frames = debuggee.frames();
        let functions: Vec<_> =
            frames.iter().take(2).map(|frame| frame.location.function.clone().unwrap()).collect();
        assert_eq!(functions, ["add<int>", "main"], "{name}");
    }
}

#[test]
fn a_bare_name_means_the_programs_own_function() {
    // The library has many of that name.
    let mut debuggee = Debuggee::launch(&Fixture::rust("figures"), &[]);
    let breakpoint = debuggee.add(CodeBreakpoint::at(Place::Function("count".into())));
    let Binding::Bound { locations, note } = &breakpoint.binding else { panic!("{breakpoint:?}") };
    let source = debuggee.built.source_text();
    assert!(locations.iter().all(|location| location.file.as_deref() == Some(&*source)), "{locations:?}");
    assert!(note.as_deref().is_some_and(|note| note.contains("more in libraries")), "{note:?}");
    let breakpoint = debuggee.add(CodeBreakpoint::at(Place::Function("Iterator::count".into())));
    assert!(matches!(breakpoint.binding, Binding::Bound { .. }), "{breakpoint:?}");
}

fn pending(debuggee: &mut Debuggee, breakpoint: &Breakpoint) -> Option<String> {
    let all = debuggee.backend().breakpoints().expect("they are known");
    let now = all.into_iter().find(|other| other.id == breakpoint.id).expect("it is still there");
    match now.binding {
        Binding::Pending { reason } => Some(reason),
        Binding::Bound { .. } => None,
    }
}

fn watch_memory(address: u64) -> Trigger {
    let watched = Watched::Memory { address: RuntimeAddr(address), size: 8 };
    Trigger::Watch(Watchpoint { watched, access: Access::Write, condition: None, enabled: true })
}

#[test]
fn memory_that_is_not_mapped_yet_is_watched_from_the_moment_it_is() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    let watch = debuggee.backend().add_breakpoint(watch_memory(0x2_0000_0000)).unwrap();
    let reason = pending(&mut debuggee, &watch).expect("nothing is there yet");
    assert!(reason.contains("0x200000000"), "{reason}");
    debuggee.run_to("mapped");
    assert_eq!(pending(&mut debuggee, &watch), None);
    let mut told = Vec::new();
    while debuggee.go().reason == StopReason::Watchpoint {
        told.push(debuggee.stop.detail.clone().unwrap());
    }
    let name = "8 bytes at 0x200000000";
    assert_eq!(told, [format!("{name}: 0 (0x0) → 7 (0x7)"), format!("{name}: 7 (0x7) → 8 (0x8)")]);
}

#[test]
fn the_first_write_to_memory_that_was_just_mapped_is_told() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    debuggee.backend().add_breakpoint(watch_memory(0x2_0000_0000)).unwrap();
    assert_eq!(debuggee.go().reason, StopReason::Watchpoint);
    let detail = debuggee.stop.detail.clone().unwrap();
    assert_eq!(detail, "8 bytes at 0x200000000: not mapped → 7 (0x7)");
}

#[test]
fn an_expression_is_watched_once_it_has_a_place() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    let value = watch(&mut debuggee, "head->next->value");
    let reason = pending(&mut debuggee, &value).expect("`head` is null");
    assert!(reason.contains("head->next->value"), "{reason}");
    assert_eq!(debuggee.go().reason, StopReason::Watchpoint);
    assert_eq!(debuggee.stop.breakpoints, [value.id]);
    assert_eq!(debuggee.stop.detail.as_deref(), Some("head->next->value: 0 (0x0) → 4 (0x4)"));
    assert_eq!(pending(&mut debuggee, &value), None);
    debuggee.backend().remove_breakpoint(value.id).unwrap();
    debuggee.expect_exit(0);
    assert!(debuggee.printed().starts_with("0 4 8"), "{}", debuggee.printed());
}

#[test]
fn a_local_that_is_not_declared_yet_is_watched_from_its_declaration_on() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    let last = watch(&mut debuggee, "last");
    assert!(pending(&mut debuggee, &last).is_some());
    debuggee.run_to("end");
    assert_eq!(pending(&mut debuggee, &last), None);
}

#[test]
fn an_awaited_watchpoint_that_is_removed_or_disabled_stops_nothing() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    let removed = watch(&mut debuggee, "head->value");
    let disabled = watch(&mut debuggee, "head->next->value");
    debuggee.backend().remove_breakpoint(removed.id).unwrap();
    let change = BreakpointChange { enabled: Some(false), ..BreakpointChange::default() };
    debuggee.backend().change_breakpoint(disabled.id, change).unwrap();
    debuggee.expect_exit(0);
    let change = BreakpointChange { enabled: Some(true), ..BreakpointChange::default() };
    debuggee.backend().change_breakpoint(disabled.id, change).unwrap();
}

#[test]
fn breakpoints_are_managed_after_the_end_and_hold_on_the_way_back() {
    let mut debuggee = Debuggee::record(&Fixture::c("calls"), &[]);
    let kept = debuggee.break_at("factorial_base");
    let removed = debuggee.break_at("before_factorial");
    let disabled = debuggee.break_at("factorial_recursion");
    while debuggee.go().reason == StopReason::Breakpoint {}
    assert_eq!(debuggee.stop.reason, StopReason::Exit, "{:?}", debuggee.stop);
    let added = debuggee.break_at("loop_add");
    assert!(matches!(added.binding, Binding::Bound { .. }), "{added:?}");
    debuggee.backend().remove_breakpoint(removed.id).unwrap();
    let change = BreakpointChange { enabled: Some(false), ..BreakpointChange::default() };
    debuggee.backend().change_breakpoint(disabled.id, change).unwrap();
    let ids: Vec<_> =
        debuggee.backend().breakpoints().unwrap().iter().map(|breakpoint| breakpoint.id).collect();
    assert_eq!(ids, [kept.id, disabled.id, added.id]);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [kept.id]);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [added.id]);
    // What is set in the past holds after the end was seen again.
    let printing = debuggee.break_at("print");
    while debuggee.go().reason == StopReason::Breakpoint {}
    assert_eq!(debuggee.stop.reason, StopReason::Exit, "{:?}", debuggee.stop);
    assert_eq!(debuggee.movement(Movement::ReverseContinue).breakpoints, [printing.id]);
}

#[test]
fn breakpoints_are_managed_after_the_end_of_a_program_without_history() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    let breakpoint = debuggee.break_at("loop_add");
    debuggee.backend().remove_breakpoint(breakpoint.id).unwrap();
    debuggee.expect_exit(0);
    let added = debuggee.break_at("print");
    assert!(matches!(added.binding, Binding::Bound { .. }), "{added:?}");
    let watch = debuggee.backend().add_breakpoint(watch_memory(0x2_0000_0000)).unwrap();
    assert!(matches!(watch.binding, Binding::Pending { .. }), "{watch:?}");
    for id in [added.id, watch.id] {
        debuggee.backend().remove_breakpoint(id).unwrap();
    }
    assert!(debuggee.backend().breakpoints().unwrap().is_empty());
}

#[test]
fn a_line_is_stopped_at_also_where_part_of_it_was_moved_away() {
    let mut debuggee = Debuggee::launch(&Fixture::c("colds").flags(["-O2"]), &[]);
    let both = debuggee.break_at("both");
    assert_eq!(debuggee.go().breakpoints, [both.id]);
    assert_eq!(debuggee.function(), "work");
}

#[test]
fn a_line_whose_code_was_copied_is_stopped_at_in_each_copy_and_once_in_a_pass() {
    let mut debuggee = Debuggee::launch(&Fixture::c("copies").flags(["-O3"]), &[]);
    let (file, line) = (debuggee.built.source_text(), debuggee.built.line("ends"));
    let condition = Some("whole->self->in.x < -5 && index % 2 == 1".into());
    let odd_and_low = CodeBreakpoint { condition, ..CodeBreakpoint::at(Place::Line { file, line }) };
    let set = [
        (debuggee.break_at("ends"), 2, 64),
        (debuggee.add(odd_and_low), 2, 4),
        // In one of two loops, whose line is in three pieces that follow each other.
        (debuggee.break_at("adds"), 2, 7),
        (debuggee.break_at("rounds"), 1, 2),
    ];
    let mut hits: BTreeMap<_, u32> = BTreeMap::new();
    while debuggee.go().reason == StopReason::Breakpoint {
        for id in &debuggee.stop.breakpoints {
            *hits.entry(*id).or_default() += 1;
        }
    }
    for (breakpoint, places, expected) in set {
        let Binding::Bound { locations, note } = &breakpoint.binding else { panic!("{breakpoint:?}") };
        assert_eq!((locations.len(), hits.get(&breakpoint.id)), (places, Some(&expected)), "{breakpoint:?}");
        assert!(note.as_ref().is_none_or(|note| !note.contains("pieces")), "{note:?}");
    }
}

#[test]
fn what_may_be_a_copy_of_a_lines_code_is_said() {
    let mut debuggee = Debuggee::launch(&Fixture::c("copies").flags(["-O3"]), &[]);
    let chosen = debuggee.break_at("chosen");
    let Binding::Bound { locations, note } = &chosen.binding else { panic!("{chosen:?}") };
    assert_eq!(locations.len(), 1);
    let line = debuggee.built.line("chosen");
    let said = format!("line {line} has 2 pieces of code in `choose`; it stops at the first only");
    assert_eq!(note.as_deref(), Some(&*said));
}
