//! Where a debugger is easily wrong: it tells what is true, or that it cannot tell.

use std::time::Duration;

use hindcast_core::debug::{
    CodeBreakpoint, ExceptionBreakpoint, FrameRef, Movement, StopReason, Trigger, ValueLimits, VariableScope,
};
use hindcast_fixtures::dotnet::{DotnetFixture, Runtime};

use crate::{
    attaching::{Server, stopped},
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{called, check, read},
    values::scope,
};

fn stand(runtime: &Runtime, mark: &str) -> Debuggee {
    let mut debuggee = Plan::of("Pitfalls").launch(runtime);
    debuggee.break_at(mark);
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

/// The exceptions of `Pitfalls.Nulls`, and what was null where that can be told.
const WHAT_WAS_NULL: [(&str, Option<&str>); 11] = [
    ("wrong_type", None),
    ("thrown", None),
    ("changed", Some("`second.Next.Next` is null")),
    ("filled", None),
    ("called", Some("`account.Next.Next` is null")),
    ("chained", Some("`account.Next.Next` is null")),
    ("private", Some("`account.Name` is null")),
    ("stored", Some("`missing` is null")),
    ("element", None),
    ("number", Some("`numbers` is null")),
    ("within", None),
];

fn null_references() -> Trigger {
    Trigger::Exception(ExceptionBreakpoint {
        exception_type: "System.NullReferenceException".into(),
        first_chance: true,
        second_chance: true,
        include_subtypes: false,
        enabled: true,
    })
}

on_both! {
    fn what_was_null_is_told_only_where_nothing_else_can_have_been(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").args(&["nulls"]).launch(runtime);
        debuggee.backend.add_breakpoint(null_references()).unwrap();
        let mut found = Vec::new();
        for (what, _) in WHAT_WAS_NULL {
            let stop = debuggee.go_on();
            found.push((what, stop.exception.and_then(|raised| raised.because)));
        }
        let found: Vec<_> = found.iter().map(|(what, because)| (*what, because.as_deref())).collect();
        assert_eq!(found, WHAT_WAS_NULL);
        assert_eq!(debuggee.go_on().reason, StopReason::Exit);
    }

    fn optimised_code_is_not_guessed_at(runtime: &Runtime) {
        let program = DotnetFixture::new("Pitfalls").optimized().build();
        let mut command = runtime.command(&program);
        command.arg("wait");
        let mut running = Server::of(command);
        let mut session = running.attach().unwrap();
        session.run(Movement::Begin).unwrap();
        session.add_breakpoint(null_references()).unwrap();
        running.ask("go on");
        for (what, expected) in WHAT_WAS_NULL {
            let because = stopped(session.run(Movement::Continue).unwrap()).exception.unwrap().because;
            assert!(because.is_none() || because.as_deref() == expected, "{what}: {because:?}");
        }
    }

    fn members_of_this_are_those_of_the_type_that_has_the_method(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "in_base");
        let in_base = [
            ("_log", "\"base log\""),
            ("this._log", "\"base log\""),
            ("((Bonus)this)._log", "\"bonus log\""),
            ("Kind", "\"bonus kind\""),
        ];
        check(&mut debuggee, &in_base, read);
        for mark in ["in_lambda", "in_async"] {
            debuggee.break_at(mark);
            debuggee.go_on();
            check(&mut debuggee, &in_base, read);
        }
        let condition = Some("_log == \"derived log\" && this._log != \"bonus log\"".into());
        let bound = debuggee.set(CodeBreakpoint { condition, ..debuggee.at("in_derived") });
        assert_eq!(debuggee.go_on().breakpoints, [bound.id]);
        check(&mut debuggee, &[("_log", "\"derived log\""), ("base._log", "\"base log\"")], read);
    }

    fn base_is_what_the_type_derives_from(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "in_derived");
        check(&mut debuggee, &[
            ("base.Kind", "\"base kind\""),
            ("this.Kind", "\"bonus kind\""),
            ("base.Name", "\"base name\""),
        ], read);
        check(&mut debuggee, &[
            // The runtime would run `Bonus.Describe`.
            ("base.Describe()", "error: the object overrides"),
            ("base.Length()", "8"),
            ("this.Describe()", "\"bonus\""),
            ("Describe()", "\"bonus\""),
            ("base.Own()", "error: has no member"),
        ], called);
    }

    fn keys_that_only_code_compares_are_not_said_to_be_missing(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "keys");
        check(&mut debuggee, &[
            ("cells[cell]", "error: allow_calls"),
            ("keys[key]", "error: allow_calls"),
            ("pairs[pair]", "\"pair\""),
            ("pairs[other]", "error: there is no item with the key"),
            ("anything[1L]", "\"long\""),
            ("anything[1]", "error: there is no item with the key 1"),
            ("anything[\"text\"]", "\"text\""),
            ("anything[DayOfWeek.Friday]", "\"day\""),
            ("ratios[double.NaN]", "\"none\""),
            ("ratios[2]", "\"two\""),
            ("longs[7]", "\"seven\""),
            ("longs[8]", "error: there is no item with the key 8"),
        ], read);
        check(&mut debuggee, &[("cells[cell]", "\"cell\""), ("keys[key]", "\"five\"")], called);
    }

    fn arrays_begin_where_they_begin(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "keys");
        check(&mut debuggee, &[
            ("grid[1, -1]", "11"),
            ("grid[2, -1]", "21"),
            ("grid[2, 0]", "22"),
            ("grid[0, 0]", "error: 0 is outside of [1] to [2]"),
            ("grid[1, 1]", "error: 1 is outside of [-1] to [0]"),
            ("grid[1, ^1]", "error: not supported"),
        ], read);
    }

    fn what_is_declared_as_an_object_is_compared_by_reference(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "keys");
        for with in [read, called] {
            check(&mut debuggee, &[
                ("first == second", "false"),
                ("first != second", "true"),
                ("first == first", "true"),
                ("(string)first == (string)second", "true"),
                ("first == text", "false"),
                ("text == again", "true"),
                ("text == \"aaa\"", "true"),
                ("first == \"aaa\"", "error: (string)"),
                ("first is \"aaa\"", "true"),
                ("one == another", "false"),
                ("one == one", "true"),
                ("friday == same", "false"),
                ("(DayOfWeek)friday == (DayOfWeek)same", "true"),
                ("(int)one == (int)another", "true"),
                ("first == null", "false"),
            ], with);
        }
    }

    fn values_are_shown_as_they_are(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "shown");
        check(&mut debuggee, &[
            ("shortest", "-10675199.02:48:05.4775808"),
            ("account", "base name bonus kind derived log"),
            ("holder", "base name"),
            // Which of two labels is meant depends on how it is declared.
            ("shelf", "{Inner = {Label = \"derived label\", Label (Labelled) = \"base label\"}}"),
            ("shelf.Inner.Label", "\"base label\""),
            ("failed", "{failed: InvalidOperationException: no number}"),
            ("unmade", "{not made yet}"),
            ("made", "{Value = 5}"),
        ], read);
        let failed = read(&mut debuggee, "failed").unwrap();
        assert_eq!(failed.children[0].name, "Exception");
    }

    fn links_that_go_round_end_somewhere(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "shown");
        assert!(read(&mut debuggee, "queue").unwrap().truncated);
        let ring = read(&mut debuggee, "ring").unwrap().value;
        assert!(ring.contains("Number = 5"), "{ring}");
    }

    fn statics_that_are_zero_are_told_from_those_that_are_not_made_yet(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").launch(runtime);
        check(&mut debuggee, &[("Switches.Total", "error: not initialised yet: nothing has used its fields")], read);
        let condition = Some("Total == 0 && !IsVerbose && number == 1".into());
        let bound = debuggee.set(CodeBreakpoint { condition, ..debuggee.at("in_switches") });
        assert_eq!(debuggee.go_on().breakpoints, [bound.id]);
        check(&mut debuggee, &[("number", "1"), ("Total", "0"), ("Switches.IsVerbose", "false")], read);
        let condition = Some("number == 2 && Total == 0".into());
        let bound = debuggee.set(CodeBreakpoint { condition, ..debuggee.at("in_counted") });
        let stop = debuggee.go_on();
        assert_eq!(stop.breakpoints, [bound.id]);
        check(&mut debuggee, &[
            ("number", "2"),
            // Other types that stand for `T` have their own.
            ("Total", "error: perhaps that is not initialised yet"),
        ], read);
        let statics = scope(&mut debuggee, VariableScope::Global, ValueLimits::default());
        assert_eq!(statics[0].value, "0 <perhaps not initialised yet>");
        debuggee.go_on();
    }

    fn calls_that_do_not_return_on_several_threads_are_all_remembered(runtime: &Runtime) {
        if runtime.version.starts_with("3.") {
            // This one can end code that sleeps.
            return;
        }
        let mut debuggee = Plan::of("Pitfalls").args(&["spin"]).launch(runtime);
        debuggee.break_at("spin");
        debuggee.go_on();
        let main = debuggee.stop.as_ref().unwrap().thread;
        let threads = debuggee.backend.threads().unwrap();
        let spinning = threads.iter().find(|thread| thread.name == "spinning").unwrap().id;
        let mut begun = |thread| {
            let mut evaluation = debuggee.evaluation("Doze()");
            evaluation.allow_calls = Some(Duration::from_millis(500));
            evaluation.frame = FrameRef::of(thread, 0);
            let error = debuggee.backend.evaluate(&evaluation).unwrap_err().to_string();
            assert!(error.contains("cannot be ended"), "{error}");
            debuggee.evaluate("dozes")
        };
        // Where one is known to run still, none is begun.
        assert_eq!([main, spinning, main, spinning].map(&mut begun), ["1", "2", "2", "2"]);
        assert_eq!(debuggee.go_on().exit_code, Some(0));
    }

    fn a_thread_that_an_evaluation_begins_stands_where_it_is_told_of(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").args(&["alone"]).launch(runtime);
        debuggee.break_at("alone");
        debuggee.go_on();
        debuggee.break_at("tick");
        assert_eq!(called(&mut debuggee, "BeginTicking()").unwrap().value, "0");
        for round in 0..10 {
            assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
            assert_eq!([debuggee.evaluate("round"), debuggee.evaluate("ticks")], [(); 2].map(|()| round.to_string()));
        }
        assert_eq!(debuggee.go_on().exit_code, Some(0));
    }

    fn a_thread_that_an_evaluation_waits_for_may_throw(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").args(&["alone"]).launch(runtime);
        debuggee.break_at("alone");
        debuggee.go_on();
        assert_eq!(called(&mut debuggee, "Await()").unwrap().value, "7");
        assert_eq!(debuggee.go_on().exit_code, Some(0));
    }

    fn what_other_threads_come_to_during_an_evaluation_is_told_afterwards(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").args(&["crowd"]).launch(runtime);
        debuggee.break_at("tick");
        let exceptions = ExceptionBreakpoint {
            exception_type: "System.TimeoutException".into(),
            first_chance: true,
            second_chance: false,
            include_subtypes: false,
            enabled: true,
        };
        debuggee.backend.add_breakpoint(Trigger::Exception(exceptions)).unwrap();
        let mut hits = [0, 0];
        let end = loop {
            let stop = debuggee.go_on();
            match stop.reason {
                StopReason::Breakpoint => hits[0] += 1,
                StopReason::Exception => hits[1] += 1,
                _ => break stop,
            }
            // A thread that came here while code ran on another one is in the middle of something.
            if let Err(error) = called(&mut debuggee, "Bump()") {
                assert!(error.contains("code cannot be run here") && error.contains("step over a line"), "{error}");
            }
        };
        assert_eq!(end.exit_code, Some(0));
        assert_eq!(hits, [100, 20]);
    }
}
