//! Where a debugger is easily wrong: it tells what is true, or that it cannot tell.

use hindcast_core::debug::{ExceptionBreakpoint, StopReason, Trigger};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

on_both! {
    fn what_was_null_is_told_only_where_nothing_else_can_have_been(runtime: &Runtime) {
        let mut debuggee = Plan::of("Pitfalls").args(&["nulls"]).launch(runtime);
        let thrown = ExceptionBreakpoint {
            exception_type: "System.NullReferenceException".into(),
            first_chance: true,
            second_chance: true,
            include_subtypes: false,
            enabled: true,
        };
        debuggee.backend.add_breakpoint(Trigger::Exception(thrown)).unwrap();
        let expected = [
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
        let mut found = Vec::new();
        for (what, _) in expected {
            let stop = debuggee.go_on();
            found.push((what, stop.exception.and_then(|raised| raised.because)));
        }
        let found: Vec<_> = found.iter().map(|(what, because)| (*what, because.as_deref())).collect();
        assert_eq!(found, expected);
        assert_eq!(debuggee.go_on().reason, StopReason::Exit);
    }
}
