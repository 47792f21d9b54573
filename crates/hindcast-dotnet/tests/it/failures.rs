//! Exceptions that are found elsewhere than they were thrown, and what exceptions say.

use std::time::Duration;

use hindcast_core::debug::{ExceptionBreakpoint, Location, StopReason, Trigger};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Debuggee, Plan, on_both};

fn failing(runtime: &Runtime, how: &str) -> Debuggee {
    Plan::of("Failures").args(&[how]).launch(runtime)
}

/// `Method:mark` for each place.
fn places(debuggee: &Debuggee, thrown_at: &[Location]) -> Vec<String> {
    let marks = debuggee.program.marks();
    let place = |location: &Location| {
        let function = location.function.as_deref().unwrap_or("?").rsplit('.').next().unwrap_or("?");
        let mark = marks.iter().find(|(_, line)| Some(*line) == location.line);
        format!("{function}:{}", mark.map_or("?", |(mark, _)| mark))
    };
    thrown_at.iter().map(place).collect()
}

on_both! {
    fn an_exception_out_of_async_main_tells_where_it_was_thrown(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "null");
        let stop = debuggee.go_on();
        let raised = stop.exception.unwrap();
        assert_eq!((raised.exception_type.as_str(), raised.unhandled), ("System.NullReferenceException", true));
        assert_eq!(places(&debuggee, &raised.thrown_at), ["Length:null", "Deliver:deliver", "Main:await_null"]);
        assert_eq!(raised.because, None, "what was null is gone");
        assert_eq!(debuggee.go_on().reason, StopReason::Exit);
    }

    fn an_exception_out_of_async_void_tells_where_it_was_thrown(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "void");
        let raised = debuggee.go_on().exception.unwrap();
        assert_eq!(raised.message.as_deref(), Some("refused"));
        assert_eq!(places(&debuggee, &raised.thrown_at), ["Refuse:refuse", "Void:void"]);
    }

    fn an_exception_that_is_thrown_again_tells_where_it_was_thrown_first(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "again");
        let raised = debuggee.go_on().exception.unwrap();
        let thrown_at = places(&debuggee, &raised.thrown_at);
        assert_eq!(thrown_at.first().map(String::as_str), Some("Length:null"), "{thrown_at:?}");
        assert_eq!(raised.because, None);
    }

    fn an_async_method_that_has_thrown_is_at_no_line(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "after");
        debuggee.break_at("after");
        let stop = debuggee.go_on();
        let stack = debuggee.backend.stack(stop.thread, 100).unwrap();
        let is_late = |location: &&Location| location.function.as_deref().is_some_and(|name| name.ends_with("Late"));
        let late = stack.frames.iter().map(|frame| &frame.location).find(is_late).unwrap();
        // It stands in what the compiler made of the end, and not at the statement before that.
        assert_eq!(late.line, None, "{late:?}");
    }

    fn messages_are_those_that_the_program_prints(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "messages");
        debuggee.break_at("said");
        debuggee.go_on();
        let count: usize = debuggee.evaluate("all.Count").parse().unwrap();
        assert!(count > 20, "{count}");
        let printed = debuggee.printed_when(|printed| printed.matches('\n').count() == count);
        for (at, line) in printed.lines().enumerate() {
            let message = debuggee.evaluate(&format!("all[{at}].Message"));
            let expected = format!("{:?}", line.replace('|', "\n"));
            assert_eq!(message, expected.replace("\\'", "'"), "message {at}");
        }
    }

    fn a_class_that_computes_its_message_is_run_only_where_that_is_allowed(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "coded");
        let raised = debuggee.go_on().exception.unwrap();
        assert_eq!(raised.message.as_deref(), Some("outer"));
        let because = raised.because.unwrap();
        assert!(because.contains("`CodedException` computes its message"), "{because}");
        let refused = debuggee.evaluate("$exception.Message");
        assert!(refused.contains("`Message` is a property that computes its value"), "{refused}");
        let mut evaluation = debuggee.evaluation("$exception.Message");
        evaluation.allow_calls = Some(Duration::from_secs(5));
        let message = debuggee.backend.evaluate(&evaluation).unwrap().value;
        assert_eq!(message, "\"Coded[42]: outer\"");
    }

    fn all_exceptions_of_an_aggregate_are_told(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "wait");
        let raised = debuggee.go_on().exception.unwrap();
        assert_eq!(raised.exception_type, "System.AggregateException");
        let thrown: Vec<Location> = raised.inner.iter().filter_map(|inner| inner.thrown_at.clone()).collect();
        let mut inner: Vec<(&str, String)> =
            raised.inner.iter().map(|inner| inner.exception_type.as_str()).zip(places(&debuggee, &thrown)).collect();
        // They are in the order in which they were thrown, which is anybody's guess.
        inner.sort();
        assert_eq!(inner, [
            ("System.InvalidOperationException", "Refuse:refuse".into()),
            ("System.InvalidOperationException", "Refuse:refuse".into()),
            ("System.NullReferenceException", "Length:null".into()),
        ]);
        let message = format!("{:?}", raised.inner[2].message.as_deref().unwrap());
        assert_eq!(debuggee.evaluate("$exception.InnerExceptions[2].Message"), message);
        assert_eq!(debuggee.evaluate("$exception.InnerExceptions.Count"), "3");
        let shown = debuggee.backend.evaluate(&debuggee.evaluation("$exception")).unwrap();
        let names: Vec<&str> = shown.children.iter().map(|child| child.name.as_str()).collect();
        assert!(names.contains(&"InnerExceptions"), "{names:?}");
    }

    fn fail_fast_is_named(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "failfast");
        let raised = debuggee.go_on().exception.unwrap();
        assert_eq!(raised.exception_type, "System.ExecutionEngineException");
        let message = raised.message.unwrap();
        assert!(message.starts_with("Environment.FailFast was called"), "{message}");
    }

    fn an_assertion_that_fails_is_named(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "assert");
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.breakpoints.len()), (StopReason::Breakpoint, 0));
        let detail = stop.detail.unwrap();
        assert!(detail.starts_with("Debug.Assert or Debug.Fail called Debugger.Break()"), "{detail}");
        assert_eq!(debuggee.go_on().exit_code, Some(5));
    }

    fn a_stack_in_a_handler_has_no_frame_twice(runtime: &Runtime) {
        let mut debuggee = failing(runtime, "null");
        let all = ExceptionBreakpoint {
            exception_type: "*".into(),
            first_chance: true,
            second_chance: false,
            include_subtypes: true,
            enabled: true,
        };
        debuggee.backend.add_breakpoint(Trigger::Exception(all)).unwrap();
        let mut own = |expected: &[&str]| {
            debuggee.go_on();
            let frames = debuggee.stack().frames;
            let frames: Vec<Location> = frames.into_iter().map(|frame| frame.location).collect();
            let own: Vec<Location> = frames.into_iter().filter(|location| !location.library).collect();
            assert_eq!(places(&debuggee, &own), expected);
        };
        own(&["Length:null", "Deliver:deliver", "Main:await_null"]);
        // `Main` is moved on by a handler in `Deliver`, which did not call it.
        own(&["Main:await_null"]);
    }

    fn a_handler_stands_for_its_method_on_the_stack(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").launch(runtime);
        let names = |debuggee: &mut Debuggee| {
            let frames = debuggee.stack().frames;
            let name = |location: &Location| location.function.as_deref()?.rsplit('.').next().map(str::to_owned);
            frames.iter().filter_map(|frame| name(&frame.location)).collect::<Vec<_>>()
        };
        debuggee.break_at("caught_late");
        debuggee.break_at("is_small");
        debuggee.break_at("finally");
        debuggee.go_on();
        assert_eq!(names(&mut debuggee), ["Caught", "All", "Main"]);
        assert_eq!(debuggee.evaluate("late.Days"), "2");
        debuggee.go_on();
        let filter = names(&mut debuggee);
        assert_eq!(filter[..2], ["IsSmall", "Filtered"]);
        assert_eq!(filter[filter.len() - 2..], ["All", "Main"]);
        debuggee.go_on();
        debuggee.go_on();
        assert_eq!(names(&mut debuggee), ["Finally", "All", "Main"]);
    }
}
