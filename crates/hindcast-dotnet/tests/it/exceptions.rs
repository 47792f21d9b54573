//! Exceptions and threads.

use hindcast_core::debug::{Binding, ExceptionBreakpoint, Movement, Outcome, StopReason, Trigger};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

fn of_type(exception_type: &str) -> ExceptionBreakpoint {
    ExceptionBreakpoint {
        exception_type: exception_type.to_owned(),
        first_chance: true,
        second_chance: true,
        include_subtypes: true,
        enabled: true,
    }
}

on_both! {
    fn a_stack_overflow_is_shown(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").args(&["overflow"]).launch(runtime);
        let stop = debuggee.go_on();
        if runtime.version.starts_with("3.") {
            // That runtime gives up without a word to its debugger.
            assert_eq!(stop.signal.unwrap().name, "SIGABRT");
            return;
        }
        assert_eq!(stop.exception.unwrap().exception_type, "System.StackOverflowException");
        assert_eq!(debuggee.stack().frames.len(), 100);
        assert!(debuggee.evaluate("depth").contains("overflowed"));
        assert_eq!(debuggee.backend.threads().unwrap()[0].name, "Main Thread");
        assert_eq!(debuggee.go_on().reason, StopReason::Exit);
    }

    fn what_was_null_is_told(runtime: &Runtime) {
        let cases = [
            ("customer", "`customer` is null"),
            ("address", "`customer.Address` is null"),
            ("street", "`customer.Address.Street` is null"),
            ("lines", "`customer.Address.Lines` is null"),
            ("name", "`other.Name` is null"),
        ];
        for (which, expected) in cases {
            let mut debuggee = Plan::of("Exceptions").args(&["nullref", which]).launch(runtime);
            let raised = debuggee.go_on().exception.unwrap();
            assert_eq!(raised.exception_type, "System.NullReferenceException");
            assert!(raised.unhandled);
            assert_eq!(raised.because.as_deref(), Some(expected));
        }
    }

    fn an_exception_that_nobody_catches_stops_the_program_unasked(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").args(&["unhandled"]).launch(runtime);
        let stop = debuggee.go_on();
        assert_eq!(stop.reason, StopReason::Exception);
        let raised = stop.exception.unwrap();
        assert_eq!((raised.exception_type.as_str(), raised.unhandled), ("Fixtures.OrderException", true));
        assert_eq!(raised.message.as_deref(), Some("nobody cares"));
        assert_eq!(debuggee.line(), debuggee.program.line("unhandled"));
        assert_eq!(debuggee.evaluate("$exception.Order"), "77");
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.signal.unwrap().name.as_str()), (StopReason::Exit, "SIGABRT"));
    }

    fn exceptions_stop_by_type_subtype_and_chance(runtime: &Runtime) {
        let lines = |wanted: &ExceptionBreakpoint| {
            let mut debuggee = Plan::of("Exceptions").launch(runtime);
            let id = debuggee.backend.add_breakpoint(Trigger::Exception(wanted.clone())).unwrap().id;
            let mut lines: Vec<u32> = Vec::new();
            loop {
                let stop = debuggee.go_on();
                if stop.reason == StopReason::Exit {
                    break;
                }
                assert_eq!(stop.breakpoints, [id]);
                assert!(!stop.exception.unwrap().unhandled);
                lines.push(debuggee.stack().frames.iter().find_map(|frame| frame.location.line).unwrap());
            }
            let hits = debuggee.backend.breakpoints().unwrap()[0].hit_count;
            assert_eq!(hits, lines.len() as u64);
            (lines, debuggee.program)
        };
        let (found, program) = lines(&ExceptionBreakpoint { include_subtypes: false, ..of_type("Fixtures.LateOrderException") });
        assert_eq!(found, [program.line("throw_late")]);
        let (found, _) = lines(&ExceptionBreakpoint { include_subtypes: false, ..of_type("Fixtures.OrderException") });
        assert!(!found.contains(&program.line("throw_late")) && found.contains(&program.line("throw_order")));
        let (with_subtypes, _) = lines(&of_type("Fixtures.OrderException"));
        assert_eq!(with_subtypes.len(), found.len() + 1);
        let (found, _) = lines(&ExceptionBreakpoint { first_chance: false, ..of_type("*") });
        assert!(found.is_empty());
        let (all, _) = lines(&of_type("*"));
        assert!(all.len() > with_subtypes.len(), "{all:?}");
        let (short, _) = lines(&of_type("DivideByZeroException"));
        assert_eq!(short.len(), 1);
    }

    fn exceptions_of_generic_types_stop_by_the_names_of_the_source(runtime: &Runtime) {
        let cases: [(&str, &[&str]); 6] = [
            ("PairException", &["of_int", "of_string"]),
            ("PairException`1", &["of_int", "of_string"]),
            ("Fixtures.PairException<>", &["of_int", "of_string"]),
            ("PairException<int>", &["of_int"]),
            ("Fixtures.PairException<System.String>", &["of_string"]),
            ("PairException<long>", &[]),
        ];
        for (name, expected) in cases {
            let mut debuggee = Plan::of("Corners").launch(runtime);
            let set = debuggee.backend.add_breakpoint(Trigger::Exception(of_type(name))).unwrap();
            assert!(matches!(set.binding, Binding::Bound { note: None, .. }), "{name}: {set:?}");
            for mark in expected {
                assert_eq!(debuggee.go_on().reason, StopReason::Exception, "{name}");
                assert_eq!(debuggee.line(), debuggee.program.line(mark), "{name}");
            }
            assert_eq!(debuggee.go_on().reason, StopReason::Exit, "{name}");
        }
    }

    fn a_type_of_exceptions_that_is_nowhere_is_waited_for(runtime: &Runtime) {
        let mut debuggee = Plan::of("Corners").launch(runtime);
        let set = debuggee.backend.add_breakpoint(Trigger::Exception(of_type("Foo.Bar"))).unwrap();
        let Binding::Bound { note, .. } = set.binding else { panic!("{set:?}") };
        assert_eq!(note.as_deref(), Some("no loaded assembly has a type `Foo.Bar`; it stops once one is loaded"));
    }

    fn inner_exceptions_are_told(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").launch(runtime);
        debuggee.backend.add_breakpoint(Trigger::Exception(of_type("System.InvalidOperationException"))).unwrap();
        let raised = debuggee.go_on().exception.unwrap();
        assert_eq!(raised.message.as_deref(), Some("wrapped"));
        assert_eq!(raised.inner.len(), 1);
        assert_eq!(raised.inner[0].exception_type, "Fixtures.OrderException");
        assert_eq!(raised.inner[0].message.as_deref(), Some("no such order"));
    }

    fn exceptions_side_by_side_are_told_as_such(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").launch(runtime);
        debuggee.backend.add_breakpoint(Trigger::Exception(of_type("System.AggregateException"))).unwrap();
        let inner = debuggee.go_on().exception.unwrap().inner;
        let told: Vec<_> = inner.iter().map(|inner| (inner.depth, inner.exception_type.as_str())).collect();
        let expected =
            [(1, "Fixtures.OrderException"), (1, "System.AggregateException"), (2, "System.TimeoutException")];
        assert_eq!(told, expected);
    }

    fn debugger_break_stops_the_program(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").args(&["break"]).launch(runtime);
        let stop = debuggee.go_on();
        assert_eq!(stop.reason, StopReason::Breakpoint);
        assert!(stop.detail.unwrap().contains("Debugger.Break()"));
        assert_eq!(debuggee.go_on().exit_code, Some(3));
    }

    fn a_deadlock_is_told_thread_by_thread(runtime: &Runtime) {
        let mut debuggee = Plan::of("Threads").args(&["deadlock"]).launch(runtime);
        let interrupt = debuggee.backend.interrupt();
        // The program says when both hold one lock each; then they want the other's.
        let log = debuggee.output.clone();
        let ringing = std::thread::spawn(move || {
            let says = || {
                let chunk = log.read(0, usize::MAX, None);
                String::from_utf8_lossy(&chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>()).into_owned()
            };
            while !says().contains("deadlocked") {
                std::thread::yield_now();
            }
            interrupt.interrupt();
        });
        assert_eq!(debuggee.backend.run(Movement::Continue).unwrap(), Outcome::Interrupted);
        ringing.join().unwrap();
        debuggee.backend.pause().unwrap();
        // Both wait a little later than they say so.
        loop {
            let threads = debuggee.backend.threads().unwrap();
            let waits = |name: &str| {
                threads.iter().find(|thread| thread.name == name).and_then(|thread| thread.waits_for.clone()).unwrap_or_default()
            };
            let (left, right) = (waits("left"), waits("right"));
            if left.contains("(right) holds") && right.contains("(left) holds") {
                assert!(left.starts_with("the lock on a `object`"), "{left}");
                break;
            }
            let interrupt = debuggee.backend.interrupt();
            let ringing = std::thread::spawn(move || {
                (0..10_000).for_each(|_| std::thread::yield_now());
                interrupt.interrupt();
            });
            debuggee.backend.run(Movement::Continue).unwrap();
            ringing.join().unwrap();
            debuggee.backend.pause().unwrap();
        }
    }
}
