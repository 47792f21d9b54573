//! Breakpoints and the first stop.

use hindcast_core::debug::{
    Binding, BreakpointChange, CodeBreakpoint, Granularity, Movement, Place, StopReason, Trigger,
};
use hindcast_fixtures::dotnet::{DotnetFixture, Runtime};

use crate::debuggee::{Plan, on_both};

on_both! {
    fn a_program_stops_in_main_at_breakpoints_and_at_its_end(runtime: &Runtime) {
        let mut debuggee = Plan::of("Hello").args(&["Ann", "Bob"]).stdin("x\n").launch(runtime);
        let stop = debuggee.stop.clone().unwrap();
        assert_eq!((stop.reason, stop.thread.0), (StopReason::Entry, 1));
        assert_eq!(debuggee.stack().frames[0].location.function.as_deref(), Some("Hello.Main"));
        let bound = debuggee.break_at("greeting");
        let stop = debuggee.go_on();
        assert_eq!(stop.reason, StopReason::Breakpoint);
        assert_eq!(stop.breakpoints, [bound.id]);
        assert_eq!(debuggee.line(), debuggee.program.line("greeting"));
        assert_eq!(debuggee.evaluate("name + index"), "\"Ann0\"");
        debuggee.go_on();
        assert_eq!(debuggee.evaluate("name + index"), "\"Bob1\"");
        debuggee.backend.remove_breakpoint(bound.id).unwrap();
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.exit_code), (StopReason::Exit, Some(41)));
        assert_eq!(debuggee.printed(), "Hello, Ann! (0)\nHello, Bob! (1)\necho 1: x (1)\n2 arguments, 1 lines\n");
    }

    fn breakpoints_have_conditions_counts_and_messages(runtime: &Runtime) {
        let args: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let stops = |breakpoint: &dyn Fn(CodeBreakpoint) -> CodeBreakpoint| {
            let mut debuggee = Plan::of("Hello").args(&args).stdin("").launch(runtime);
            let set = breakpoint(debuggee.at("greeting"));
            debuggee.set(set);
            let mut indices = Vec::new();
            while debuggee.go_on().reason == StopReason::Breakpoint {
                indices.push(debuggee.evaluate("index"));
            }
            (indices, debuggee)
        };
        let (found, _) = stops(&|breakpoint| CodeBreakpoint { condition: Some("index % 4 == 1 && name != null".into()), ..breakpoint });
        assert_eq!(found, ["1", "5", "9"]);
        let (found, _) = stops(&|breakpoint| CodeBreakpoint { hit_count: 8, ..breakpoint });
        assert_eq!(found, ["7", "8", "9"]);
        let (found, _) = stops(&|breakpoint| CodeBreakpoint { hit_count_multiple: 5, ..breakpoint });
        assert_eq!(found, ["4", "9"]);
        let (found, _) = stops(&|breakpoint| CodeBreakpoint { temporary: true, ..breakpoint });
        assert_eq!(found, ["0"]);
        let message = "{name,nq} is {index + 1}";
        let (found, mut debuggee) = stops(&|breakpoint| CodeBreakpoint { log_message: Some(message.into()), max_notifications: 2, ..breakpoint });
        assert!(found.is_empty());
        assert_eq!(debuggee.logged(), "n0 is 1\nn1 is 2\n");
        let told = debuggee.backend.breakpoints().unwrap();
        assert_eq!((told[0].hit_count, told[0].notifications_sent), (10, 2));
    }

    fn two_breakpoints_at_one_place_are_hit_together(runtime: &Runtime) {
        let mut debuggee = Plan::of("Hello").args(&["a", "b", "c"]).stdin("").launch(runtime);
        let message = debuggee.at("greeting");
        debuggee.set(CodeBreakpoint { log_message: Some("{index}".into()), ..message });
        let second = debuggee.break_at("greeting");
        let third = debuggee.break_at("greeting");
        assert_eq!(debuggee.go_on().breakpoints, [second.id, third.id]);
        assert_eq!(debuggee.logged(), "0\n");
        let change = BreakpointChange { enabled: Some(false), ..BreakpointChange::default() };
        debuggee.backend.change_breakpoint(second.id, change).unwrap();
        assert_eq!(debuggee.go_on().breakpoints, [third.id]);
        assert_eq!(debuggee.evaluate("index"), "1");
        // A step over the line meets none of them again.
        debuggee.step(Granularity::Over);
        assert_ne!(debuggee.line(), debuggee.program.line("greeting"));
        debuggee.backend.remove_breakpoint(third.id).unwrap();
        debuggee.backend.run(Movement::RunTo(Place::Line {
            file: debuggee.program.source.to_str().unwrap().to_owned(),
            line: debuggee.program.line("greeting"),
        })).unwrap();
        assert_eq!((debuggee.evaluate("index"), debuggee.logged().as_str()), ("2".to_owned(), "0\n1\n2\n"));
        let counts: Vec<_> = debuggee.backend.breakpoints().unwrap().iter().map(|told| told.hit_count).collect();
        assert_eq!(counts, [3, 1]);
    }

    fn a_condition_that_fails_stops_and_says_why(runtime: &Runtime) {
        let mut debuggee = Plan::of("Hello").args(&["a"]).stdin("").launch(runtime);
        let breakpoint = CodeBreakpoint { condition: Some("nothing > 1".into()), ..debuggee.at("greeting") };
        debuggee.set(breakpoint);
        let stop = debuggee.go_on();
        assert!(stop.detail.unwrap().contains("there is no `nothing` here"));
        for condition in ["index = 3", "Echo() > 1", "1 +"] {
            let breakpoint = CodeBreakpoint { condition: Some(condition.into()), ..debuggee.at("greeting") };
            assert!(debuggee.backend.add_breakpoint(Trigger::Code(breakpoint)).is_err(), "{condition}");
        }
    }

    fn methods_are_found_by_their_names(runtime: &Runtime) {
        let cases = [
            ("Hello", "Echo", "Hello.Echo"),
            ("Async", "Async.Inner", "Fixtures.Async.Inner"),
            ("Generics", "Box.Map", "Fixtures.Box<T>.Map"),
            ("Lambdas", "/lambda$/", "lambda"),
            ("Iterators", "Iterators.Squares", "Fixtures.Iterators.Squares"),
        ];
        for (program, name, expected) in cases {
            let mut debuggee = Plan::of(program).launch(runtime);
            let found = debuggee.backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(Place::Function(name.into())))).unwrap();
            let Binding::Bound { locations, .. } = &found.binding else { panic!("{program} {name}: {:?}", found.binding) };
            let function = locations[0].function.clone().unwrap();
            assert!(function.contains(expected), "{program} {name}: {function}");
        }
    }

    fn a_breakpoint_waits_for_the_assembly_that_has_its_line(runtime: &Runtime) {
        let plugin = DotnetFixture::library("Plugin").build();
        let mut plan = Plan::of("Loader").stdin("\n");
        plan.args = vec![plugin.dll.to_str().unwrap().to_owned()];
        let mut debuggee = plan.launch(runtime);
        let place = Place::Function("Plugin.Run".into());
        let pending = debuggee.backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
        assert!(matches!(pending.binding, Binding::Pending { .. }), "{pending:?}");
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.breakpoints), (StopReason::Breakpoint, vec![pending.id]));
        let bound = debuggee.backend.breakpoints().unwrap();
        assert!(matches!(bound[0].binding, Binding::Bound { .. }));
    }

    fn statements_are_found_by_their_text(runtime: &Runtime) {
        let mut debuggee = Plan::of("Hello").stdin("").launch(runtime);
        let place = Place::Statement { file: "Hello.cs".into(), text: "return   count;".into() };
        debuggee.backend.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
        debuggee.go_on();
        assert_eq!(debuggee.line(), debuggee.program.line("echoed"));
    }

    fn programs_start_from_their_executable_and_with_embedded_symbols(runtime: &Runtime) {
        let mut plan = Plan::of("Hello").stdin("");
        plan.path = Some(plan.program.executable.clone());
        let mut debuggee = plan.launch(runtime);
        assert_eq!(debuggee.stop.as_ref().unwrap().reason, StopReason::Entry);
        assert_eq!(debuggee.backend.target().name, "Hello");
        assert_eq!(debuggee.go_on().exit_code, Some(40));
        let mut plan = Plan::of("Hello").stdin("");
        plan.program = DotnetFixture::new("Hello").embedded().build();
        let mut debuggee = plan.launch(runtime);
        debuggee.break_at("end");
        debuggee.go_on();
        assert_eq!(debuggee.line(), debuggee.program.line("end"));
        let mut plan = Plan::of("Hello").stdin("");
        plan.program = DotnetFixture::new("Hello").optimized().build();
        let mut debuggee = plan.launch(runtime);
        debuggee.break_at("echoed");
        debuggee.go_on();
        assert_eq!(debuggee.evaluate("count"), "0");
    }
}
