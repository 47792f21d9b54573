//! Variables, expressions, memory, registers, code.

use hindcast_core::debug::{CodeBreakpoint, Place, RegisterSet, RuntimeAddr, StopReason, ValueState};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

#[test]
fn locals_have_names_types_and_values() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("loop_add");
    let where_ = debuggee.local("where");
    assert_eq!((where_.type_name.as_str(), where_.value.as_str()), ("struct point", "{x = 3, y = 4}"));
    assert_eq!(debuggee.local("sum").value, "0");
    assert_eq!(debuggee.local("i").type_name, "int");
}

#[test]
fn each_thread_has_its_own_variables_of_rust() {
    for flags in [&[][..], &["-O"]] {
        let mut debuggee = Debuggee::launch(&Fixture::rust("lately").flags(flags), &[]);
        debuggee.break_at("here");
        debuggee.go();
        let own =
            ["PLAIN", "lately::MADE", "DROPPED", "COUNTED", "NEVER"].map(|name| debuggee.value_of(name));
        let unmade = "not made yet in this thread";
        assert_eq!(own, ["9", "[1, 2, 3, 4]", "\"main\"", "2", unmade], "{flags:?}");
        while debuggee.value_of("PLAIN") == "9" {
            debuggee.go();
        }
        let other = ["PLAIN", "MADE", "DROPPED", "COUNTED", "NEVER"].map(|name| debuggee.value_of(name));
        assert_eq!(other, ["77", unmade, "\"\"", unmade, unmade], "{flags:?}");
        debuggee.expect_exit(0);
    }
}

#[test]
fn what_async_makes_says_where_it_is_suspended() {
    let fixture = Fixture::rust("lately");
    let built = fixture.build();
    let (inner, first, second) = (built.line("inner"), built.line("first"), built.line("second"));
    let mut debuggee = Debuggee::launch(&fixture, &[]);
    debuggee.break_at("here");
    let mut future = || {
        debuggee.go();
        debuggee.evaluate_in(1, "future").unwrap()
    };
    assert!(future().starts_with("Unresumed { name: \"four\""));
    let waits_at = |shown: String, line, number| {
        let awaited = format!("Suspend0 at line {inner} {{ twice: {number}");
        assert!(shown.contains(&format!(" at line {line} {{")) && shown.contains(&awaited), "{shown}");
    };
    waits_at(future(), first, 6);
    waits_at(future(), second, 12);
    assert!(future().starts_with("Returned"));
}

#[test]
fn a_variable_before_its_declaration_is_said_to_be_not_yet_initialised() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    assert_eq!(debuggee.local("product").state, ValueState::NotYetInitialised);
    debuggee.run_to("print");
    assert_eq!(debuggee.local("product").value, "120");
}

#[test]
fn expressions_read_and_assignments_write() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("add_x");
    assert_eq!(debuggee.value_of("where->x + where->y * 2"), "11");
    assert_eq!(debuggee.value_of("*where"), "{x = 3, y = 4}");
    assert_eq!(debuggee.value_of("total == 0 && by < 3"), "true");
    debuggee.value_of("where->x = 100");
    assert_eq!(debuggee.value_of("where->x"), "100");
    let error = debuggee.complaint("wheer->x");
    assert!(error.contains("where"), "{error}");
    debuggee.expect_exit(0);
    assert!(debuggee.printed().contains("where 110 -6"), "{}", debuggee.printed());
}

#[test]
fn memory_registers_and_code_can_be_seen() {
    let mut debuggee = Debuggee::launch(&Fixture::c("calls"), &[]);
    debuggee.run_to("square_body");
    let frames = debuggee.frames();
    let frame = hindcast_core::debug::FrameRef::of(debuggee.thread(), 0);
    let pc = frames[0].location.address.unwrap();
    let registers = debuggee.backend().registers().unwrap().registers(frame, RegisterSet::All).unwrap();
    let rip = registers.iter().find(|register| register.name == "rip").unwrap();
    assert_eq!(rip.value.as_deref().unwrap().parse::<RuntimeAddr>().unwrap(), pc);
    assert!(registers.iter().any(|register| register.name == "ymm15" && register.value.is_some()));
    let code = debuggee.backend().raw_memory().unwrap().read(pc, 16).unwrap().bytes;
    let listing = debuggee
        .backend()
        .disassembly()
        .unwrap()
        .disassemble(&Place::Function("square".into()), 0, 8)
        .unwrap();
    let current = listing.iter().find(|instruction| instruction.current).unwrap();
    assert_eq!(current.address, pc);
    let bytes: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(bytes.starts_with(&current.bytes), "{bytes} {}", current.bytes);
    assert!(listing[0].symbol.as_deref() == Some("square"), "{listing:?}");
}

#[test]
fn a_parameter_that_is_gone_is_told_from_its_call() {
    let mut debuggee = Debuggee::launch(&Fixture::c("entry").flags(["-O2"]), &[]);
    debuggee.add(CodeBreakpoint::at(Place::Function("reached".into())));
    debuggee.go();
    assert_eq!(debuggee.frames()[1].location.function.as_deref(), Some("doubled"));
    let amount = debuggee.locals(1).into_iter().find(|local| local.name == "amount").expect("a parameter");
    assert_eq!((amount.value.as_str(), amount.state), ("42", ValueState::Available));
}

#[test]
fn what_pointers_that_do_not_exist_point_to_is_shown() {
    let mut debuggee = Debuggee::launch(&Fixture::c("implied").flags(["-O2"]), &[]);
    debuggee.add(CodeBreakpoint::at(Place::Function("reached".into())));
    let mut stop = 0;
    let mut compared = 0;
    while debuggee.go().reason == StopReason::Breakpoint {
        stop += 1;
        let printed = debuggee.printed();
        for line in printed.lines().filter_map(|line| line.strip_prefix(&format!("{stop} "))) {
            let (expression, expected) = line.trim_end().split_once(" = ").expect("a pair");
            let shown = debuggee.evaluate_in(1, expression);
            assert_eq!(shown.as_deref(), Ok(expected), "{expression} at stop {stop}");
            compared += 1;
        }
        if stop == 1 {
            let locals = debuggee.locals(1);
            let pointer = locals.iter().find(|local| local.name == "where").expect("a parameter");
            assert_eq!(
                (&*pointer.value, pointer.state),
                ("(no address) -> {x = 3, y = 5}", ValueState::Available)
            );
            let members: Vec<_> =
                pointer.children.iter().map(|child| (&*child.name, &*child.value)).collect();
            assert_eq!(members, [("x", "3"), ("y", "5")]);
            // It is nowhere, and so is what is beside it.
            let error = debuggee.evaluate_in(1, "where[1]").expect_err("one point");
            assert!(error.contains("1"), "{error}");
            assert!(debuggee.evaluate_in(1, "where == 0").is_err());
        }
    }
    assert_eq!((stop, compared), (4, 11));
}

#[test]
fn arrays_of_variable_length_have_the_length_of_their_frame() {
    for (fixture, is_whole) in [
        (Fixture::c("lengths"), true),
        (Fixture::c("lengths").clang(), false),
        (Fixture::c("lengths").flags(["-Og"]), false),
    ] {
        let mut debuggee = Debuggee::launch(&fixture, &[]);
        debuggee.run_to("filled");
        assert_eq!(debuggee.local("a").value, "[0, 1, 4]", "{fixture:?}");
        assert_eq!(debuggee.local("b").value, "[[0, 1], [10, 11], [20, 21]]");
        assert_eq!(debuggee.local("text").value, "\"n=3\"");
        assert_eq!(debuggee.value_of("b[1][1]"), "11");
        assert_eq!(debuggee.value_of("sizeof a"), "12");
        assert_eq!(debuggee.value_of("sizeof(b)"), "24");
        // The optimiser does without some, and clang does not say what pointers to arrays point to.
        if !is_whole {
            continue;
        }
        assert_eq!(debuggee.local("ps").value, "[{x = 0, y = 0}, {x = 1, y = -1}]");
        assert_eq!(debuggee.value_of("ps[1].y"), "-1");
        assert_eq!(debuggee.value_of("(*row)[1]"), "1");
        assert_eq!(debuggee.value_of("row[2][0]"), "20");
        debuggee.run_to("in_matrix");
        assert_eq!(debuggee.value_of("of[1][2]"), "6");
        assert_eq!(debuggee.value_of("of[0]"), "[1, 2, 3]");
    }
}

#[test]
fn guards_are_what_they_guard() {
    let mut debuggee = Debuggee::launch(&Fixture::rust("guards"), &[]);
    debuggee.run_to("held");
    for (expression, expected) in [
        ("*guard", "15"),
        ("*guard == 15", "true"),
        ("*reading", "[1, 2]"),
        ("reading[1]", "2"),
        ("*writing + 1", "19"),
        ("*borrowed", "16"),
    ] {
        assert_eq!(debuggee.value_of(expression), expected, "{expression}");
    }
}

#[test]
fn a_member_behind_a_pointer_that_cannot_be_read_is_not_said_to_be_missing() {
    let mut debuggee = Debuggee::launch(&Fixture::c("later"), &[]);
    assert_eq!(debuggee.value_of("&head->next").split(' ').next(), Some("0x8"));
    let error = debuggee.evaluate("head->next->value").unwrap_err();
    assert!(error.contains("cannot read memory at 0x8"), "{error}");
    let error = debuggee.evaluate("head->value").unwrap_or_else(|error| error);
    assert!(error.contains("cannot read"), "{error}");
}

#[test]
fn a_parameter_is_not_told_from_a_call_of_another_function() {
    let mut debuggee = Debuggee::launch(&Fixture::c("tails").flags(["-O2"]), &[]);
    debuggee.run_to("reached");
    let frame =
        debuggee.frames().into_iter().find(|frame| frame.location.function.as_deref() == Some("doubled"));
    let index = frame.expect("`doubled` is on the stack").index;
    let amount =
        debuggee.locals(index).into_iter().find(|local| local.name == "amount").expect("a parameter");
    // `main` passed 7, but not to this function.
    assert!(amount.value == "47" || amount.state == ValueState::OptimisedOut, "{amount:?}");
}

#[test]
fn locks_are_told_in_words() {
    let mut debuggee = Debuggee::record(&Fixture::cpp("locks").flags(["-pthread"]), &[]);
    debuggee.run_to("locked");
    let main = debuggee.thread().0;
    for (lock, words) in [
        ("held", format!("locked by thread {main}")),
        ("plain", format!("locked by thread {main}")),
        ("twice", format!("locked 2 times by thread {main}")),
        ("free_one", "unlocked".into()),
        ("for_signal", "unlocked".into()),
        ("read_by_one", "locked for reading by 1".into()),
        ("written", format!("locked for writing by thread {main}")),
        ("awaited", "1 thread waits".into()),
        ("nobody", "nobody waits".into()),
    ] {
        assert_eq!(debuggee.value_of(lock), words, "{lock}");
    }
}
