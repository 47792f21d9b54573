//! Steps: what a program logs of itself, and where a debugger that steps stands.

use std::collections::HashSet;

use hindcast_core::debug::{Granularity, StopReason};
use hindcast_fixtures::dotnet::{DotnetFixture, Runtime};

use crate::debuggee::{Debuggee, Plan, on_both};

/// Steps until the program ends, and tells the functions and lines it stands at.
fn walk(debuggee: &mut Debuggee, granularity: Granularity, most: usize, mut at: impl FnMut(&str, u32)) {
    for _ in 0..most {
        let stop = debuggee.step(granularity);
        if stop.reason == StopReason::Exit {
            return;
        }
        let stack = debuggee.stack();
        let location = &stack.frames[0].location;
        at(location.function.as_deref().unwrap_or("?"), location.line.unwrap_or(0));
    }
    panic!("it has not ended after {most} steps");
}

/// The numbers of lines that log.
fn logging_lines(debuggee: &Debuggee) -> HashSet<u32> {
    let text = std::fs::read_to_string(&debuggee.program.source).unwrap();
    let logs =
        |line: &str| !line.contains("static void S(") && [" S(", "V("].iter().any(|call| line.contains(call));
    (1u32..).zip(text.lines()).filter(|(_, line)| logs(line)).map(|(number, _)| number).collect()
}

/// The methods on the stack.
#[track_caller]
fn functions(debuggee: &mut Debuggee) -> Vec<String> {
    let frames = debuggee.stack().frames.into_iter();
    let name = |frame: hindcast_core::debug::Frame| {
        let waits = if frame.awaiting { " (awaits)" } else { "" };
        format!("{}{waits}", frame.location.function.unwrap())
    };
    frames.map(name).collect()
}

on_both! {
    fn a_step_into_calls_meets_every_line_that_the_program_logs(runtime: &Runtime) {
        let mut debuggee = Plan::of("Steps").args(&["lines"]).launch(runtime);
        let logging = logging_lines(&debuggee);
        let mut stood: Vec<u32> = Vec::new();
        walk(&mut debuggee, Granularity::Line, 2000, |_, line| {
            if logging.contains(&line) {
                stood.push(line);
            }
        });
        let printed = debuggee.printed();
        let mut logged: Vec<u32> = printed.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        // A line that logs twice is stood at once.
        logged.dedup();
        let mut expected = logged.iter();
        let mut next = expected.next();
        let mut before = HashSet::new();
        for line in stood {
            if next == Some(&line) {
                next = expected.next();
            } else {
                // It returns there from a call.
                assert!(before.contains(&line), "it stands at line {line}, which is not executed; {next:?} is next");
            }
            before.insert(line);
        }
        assert_eq!(next, None, "lines that it does not stop at");
        assert!(logged.len() > 100, "{logged:?}");
    }

    fn async_methods_are_stepped_as_they_are_written(runtime: &Runtime) {
        let mut debuggee = Plan::of("Async").launch(runtime);
        debuggee.break_at("outer_before");
        debuggee.go_on();
        let mut stood = Vec::new();
        walk(&mut debuggee, Granularity::Over, 200, |function, line| stood.push((function.to_owned(), line)));
        let source = std::fs::read_to_string(&debuggee.program.source).unwrap();
        let number = |text: &str| {
            let at = source.lines().position(|line| line.contains(text)).unwrap();
            u32::try_from(at).unwrap() + 1
        };
        let in_outer: Vec<u32> = stood.iter().filter(|(name, _)| name == "Fixtures.Async.Outer").map(|(_, line)| *line).collect();
        let first = number("var inner = await Middle(depth - 1);");
        // Line by line, over what awaits, to the closing brace.
        assert_eq!(in_outer, [first, first + 1, first + 2, first + 3, first + 4]);
        let in_main: Vec<u32> = stood.iter().filter(|(name, _)| name == "Fixtures.Async.Main").map(|(_, line)| *line).collect();
        // Whoever awaited it goes on behind the call; a loop goes round three times.
        let after = debuggee.program.line("after_outer");
        // Where nothing had to be waited for, the method returns into the middle of the line that called it.
        let in_main = in_main.strip_prefix(&[after - 1]).unwrap_or(&in_main);
        assert_eq!(in_main[..4], [after, after + 1, after + 2, after + 3]);
        let item = debuggee.program.line("item");
        assert_eq!(in_main.iter().filter(|line| **line == item).count(), 3);
        assert_eq!(in_main.iter().filter(|line| **line == debuggee.program.line("end")).count(), 1);
        assert!(stood.iter().all(|(name, _)| name == "Fixtures.Async.Outer" || name == "Fixtures.Async.Main"), "{stood:?}");
        assert_eq!(debuggee.printed(), std::fs::read_to_string(expected("Async")).unwrap());
    }

    fn a_step_out_of_an_async_method_ends_in_the_one_that_awaits_it(runtime: &Runtime) {
        let mut debuggee = awaited(runtime);
        let id = debuggee.backend.breakpoints().unwrap()[0].id;
        debuggee.backend.remove_breakpoint(id).unwrap();
        debuggee.step(Granularity::Out);
        let stack = debuggee.stack();
        assert_eq!(stack.frames[0].location.function.as_deref(), Some("Fixtures.Awaiting.Middle"));
    }

    fn the_stack_shows_who_awaits_whom(runtime: &Runtime) {
        let mut debuggee = awaited(runtime);
        let stack = debuggee.stack();
        let shown: Vec<_> = stack
            .frames
            .iter()
            .map(|frame| (frame.location.function.clone().unwrap(), frame.awaiting))
            .collect();
        let name = |method: &str| format!("Fixtures.Awaiting.{method}");
        let expected = [(name("Inner"), false), (name("Middle"), true), (name("Outer"), true), (name("Run"), true)];
        assert_eq!(shown, expected);
        // What a method keeps while it waits can be looked at.
        let thread = debuggee.stop.as_ref().unwrap().thread;
        let mut evaluation = debuggee.evaluation("before");
        evaluation.frame = hindcast_core::debug::FrameRef::of(thread, 2);
        assert_eq!(debuggee.backend.evaluate(&evaluation).unwrap().value, "30");
    }

    fn async_lambdas_and_local_functions_have_their_names_and_what_they_capture(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        for mark in ["async_lambda", "plain_lambda", "async_local"] {
            debuggee.break_at(mark);
        }
        debuggee.go_on();
        let waiting = ["Waits.Middle (awaits)", "Waits.Run (awaits)", "Waits.Start (awaits)"];
        assert_eq!(functions(&mut debuggee), [&["Waits.Run.lambda"], &waiting[..]].concat());
        assert_eq!(debuggee.local_lines(), ["int number = 2", "int local = 7", "int captured = 5"]);
        assert_eq!(debuggee.evaluate("captured + local"), "12");
        debuggee.go_on();
        assert_eq!(functions(&mut debuggee), [&["Waits.Run.lambda"], &waiting[1..]].concat());
        assert!(debuggee.local_lines().is_empty(), "{:?}", debuggee.local_lines());
        debuggee.go_on();
        assert_eq!(functions(&mut debuggee), [&["Waits.Run.Inner"], &waiting[1..]].concat());
        assert_eq!(debuggee.local_lines(), ["int step = 1", "int captured = 5"]);
    }

    fn a_method_that_goes_on_is_not_called_by_those_that_it_waited_for(runtime: &Runtime) {
        let mut debuggee = Plan::of("Places").launch(runtime);
        for mark in ["middle", "resumed", "done"] {
            debuggee.break_at(mark);
        }
        debuggee.go_on();
        assert_eq!(functions(&mut debuggee), ["Waits.Middle", "Waits.Run (awaits)", "Waits.Start (awaits)"]);
        debuggee.go_on();
        assert_eq!(functions(&mut debuggee), ["Waits.Run", "Waits.Start (awaits)"]);
        debuggee.go_on();
        assert_eq!(functions(&mut debuggee), ["Waits.Start", "Later.Pump", "Program.Main"]);
    }

    fn a_step_goes_into_code_that_is_not_the_users_where_that_is_asked_for(runtime: &Runtime) {
        let first_inside = |just_my_code: bool, mark: &str| {
            let mut debuggee = Plan { just_my_code, ..Plan::of("Steps") }.launch(runtime);
            debuggee.break_at(mark);
            debuggee.go_on();
            debuggee.step(Granularity::Line);
            debuggee.stack().frames[0].location.function.clone().unwrap()
        };
        let marks = ["through", "hidden", "not_mine"];
        // Into the lambda that the method calls, or to the next line.
        let own = ["Fixtures.Steps.Hidden.lambda", "Fixtures.Steps.Hidden.lambda", "Fixtures.Steps.Hidden"];
        assert_eq!(marks.map(|mark| first_inside(true, mark)), own);
        let all = ["Fixtures.Steps.StepThrough", "Fixtures.Steps.HiddenFromDebugger", "Fixtures.NotMine.Value"];
        assert_eq!(marks.map(|mark| first_inside(false, mark)), all);
    }

    fn the_stack_shows_all_frames_where_that_is_asked_for(runtime: &Runtime) {
        let libraries = |just_my_code: bool| {
            let mut debuggee = Plan { just_my_code, ..Plan::of("Awaiting") }.launch(runtime);
            debuggee.break_at("inner");
            debuggee.go_on();
            debuggee.stack().frames.iter().filter(|frame| frame.location.library).count()
        };
        assert_eq!(libraries(true), 0);
        // The threads that run what waited are the framework's.
        assert!(libraries(false) > 2);
    }

    fn a_step_that_may_be_in_another_call_says_so(runtime: &Runtime) {
        let fixture = DotnetFixture::new("Awaiting");
        let doubts = |fixture: DotnetFixture| {
            let mut debuggee = Plan { program: fixture.build(), ..Plan::of("Awaiting") }.launch(runtime);
            debuggee.break_at("waits");
            debuggee.go_on();
            let details = [(); 2].map(|()| debuggee.step(Granularity::Over).detail);
            assert_eq!(debuggee.line(), debuggee.program.line("inner"));
            details
        };
        // Until it waits for the first time, a call of an optimised method is nothing that could be known again.
        let doubt = "another call of this async method may have got here first".to_owned();
        assert_eq!(doubts(fixture.clone().optimized()), [Some(doubt), None]);
        assert_eq!(doubts(fixture), [None, None]);
    }

    fn async_iterators_are_awaited_by_those_that_they_give_items(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        debuggee.break_at("wait");
        debuggee.break_at("upper");
        let name = |name: &str| format!("Fixtures.Streams.{name}");
        for round in 0..3 {
            // The next item is asked for inside the iterator that gave one.
            debuggee.go_on();
            let stack = functions(&mut debuggee);
            assert_eq!(stack[..2], [name("Words"), name("Run")], "{round}");
            assert!(stack[2..].iter().all(|name| name.ends_with("Main (awaits)")), "{stack:?}");
            debuggee.go_on();
            let expected = [name("Words"), name("Run (awaits)"), name("Main (awaits)")];
            assert_eq!(functions(&mut debuggee), expected, "{round}");
        }
    }

    fn a_step_over_an_item_of_an_async_iterator_goes_on_where_it_is_used(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let yielded = debuggee.break_at("yield");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(yielded.id).unwrap();
        let each = debuggee.program.line("each");
        let mut stood = Vec::new();
        for _ in 0..7 {
            debuggee.step(Granularity::Over);
            stood.push(debuggee.line());
        }
        // The body, over its braces, over the wait for the next item.
        assert_eq!(stood, [each + 1, each + 2, each + 3, each + 4, each, each + 1, each + 2]);
        assert_eq!(functions(&mut debuggee)[0], "Fixtures.Streams.Run");
        assert!(debuggee.printed_when(|printed| printed.contains("THE")).starts_with("THE\n"));
    }

    fn a_step_out_of_an_async_iterator_ends_where_its_item_is_used(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let upper = debuggee.break_at("upper");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(upper.id).unwrap();
        debuggee.step(Granularity::Out);
        assert_eq!(functions(&mut debuggee)[0], "Fixtures.Streams.Run");
        assert_eq!(debuggee.line(), debuggee.program.line("each"));
        debuggee.step(Granularity::Over);
        debuggee.step(Granularity::Over);
        assert_eq!(debuggee.evaluate("word"), "\"THE\"");
    }

    fn a_step_out_of_an_async_method_that_a_thread_waits_for_runs_on(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let waits = debuggee.break_at("waits");
        debuggee.break_at("waited");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(waits.id).unwrap();
        let stop = debuggee.step(Granularity::Out);
        assert_eq!(debuggee.line(), debuggee.program.line("waited"));
        assert_eq!((stop.reason, stop.detail), (StopReason::Breakpoint, None));
        let stop = debuggee.step(Granularity::Out);
        assert_eq!((stop.reason, stop.exit_code, stop.detail), (StopReason::Exit, Some(0), None));
    }

    fn a_step_out_ends_where_a_task_is_awaited_that_stands_for_the_methods_own(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let words = debuggee.break_at("after_words");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(words.id).unwrap();
        debuggee.step(Granularity::Out);
        assert_eq!(functions(&mut debuggee)[0], "Fixtures.Streams.Main");
        debuggee.step(Granularity::Over);
        assert_eq!(debuggee.line(), debuggee.program.line("main"));
    }

    fn methods_await_each_other_through_the_framework(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let read = debuggee.break_at("read");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(read.id).unwrap();
        let name = |name: &str| format!("Fixtures.Streams.{name}");
        let expected = [name("Source.ReadAsync"), name("Run (awaits)"), name("Main (awaits)")];
        assert_eq!(functions(&mut debuggee), expected);
        debuggee.step(Granularity::Out);
        assert_eq!(functions(&mut debuggee), [name("Run"), name("Main (awaits)")]);
    }

    fn an_exception_that_leaves_through_an_async_method_is_stepped_to_its_catch(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        debuggee.break_at("finally");
        for guards in [&[][..], &["guarded"][..]] {
            debuggee.go_on();
            let mut stood = Vec::new();
            while !stood.contains(&debuggee.program.line("catch")) {
                assert!(stood.len() < 12, "it stood at {stood:?}");
                assert_eq!(debuggee.step(Granularity::Over).reason, StopReason::Step);
                stood.push(debuggee.line());
            }
            for guard in guards {
                assert!(stood.contains(&debuggee.program.line(guard)), "{guard}: {stood:?}");
            }
        }
    }

    fn callers_that_come_late_to_wait_are_waited_for(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let wait = debuggee.break_at("early_wait");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(wait.id).unwrap();
        debuggee.step(Granularity::Over);
        assert_eq!(debuggee.line(), debuggee.program.line("early"));
        let name = |name: &str| format!("Fixtures.Streams.{name}");
        let expected = [name("Early"), name("Late (awaits)"), name("Main (awaits)")];
        assert_eq!(functions(&mut debuggee), expected);
        debuggee.step(Granularity::Out);
        assert_eq!(functions(&mut debuggee), [name("Late"), name("Main (awaits)")]);
    }

    fn a_step_out_where_callers_come_late_to_wait_ends_in_them(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        let early = debuggee.break_at("early");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(early.id).unwrap();
        debuggee.step(Granularity::Out);
        assert_eq!(functions(&mut debuggee)[0], "Fixtures.Streams.Late");
    }

    fn a_step_out_of_an_async_method_that_nothing_awaits_says_so(runtime: &Runtime) {
        let mut debuggee = Plan::of("Streams").launch(runtime);
        debuggee.break_at("forgotten");
        debuggee.break_at("end");
        debuggee.go_on();
        let stop = debuggee.step(Granularity::Out);
        assert_eq!((stop.reason, debuggee.line()), (StopReason::Breakpoint, debuggee.program.line("end")));
        let said = "nothing awaited `Fixtures.Streams.Forgotten`, so the step out of it ran on";
        assert_eq!(stop.detail.as_deref(), Some(said));
    }

    fn the_core_library_of_fsharp_is_not_the_programs_own(runtime: &Runtime) {
        let mut debuggee = Plan::of("Shapes").launch(runtime);
        let agent = debuggee.break_at("agent");
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(agent.id).unwrap();
        for _ in 0..5 {
            // What calls the program there has symbols.
            let frames = debuggee.stack().frames.into_iter();
            let modules: HashSet<_> = frames.filter_map(|frame| frame.location.module).collect();
            assert_eq!(modules, HashSet::from(["Shapes.dll".to_owned()]));
            // The program may be done while the agent waits.
            if debuggee.step(Granularity::Over).reason == StopReason::Exit {
                break;
            }
        }
    }

    fn a_step_over_that_leaves_a_lambda_ends_in_the_next_one_and_in_nothing_that_it_calls(runtime: &Runtime) {
        let mut debuggee = Plan::of("Leaving").launch(runtime);
        let first = debuggee.break_at("where").id;
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(first).unwrap();
        assert_eq!(debuggee.step(Granularity::Over).reason, StopReason::Step);
        assert_eq!(functions(&mut debuggee)[0], "Leaving.Main.lambda");
        assert_eq!(debuggee.stack().frames[0].location.line, Some(debuggee.program.line("select")));
    }

    fn a_step_over_the_end_of_an_optimised_async_main_ends_the_program(runtime: &Runtime) {
        let program = DotnetFixture::new("Leaving").optimized().build();
        let mut debuggee = Plan { program, ..Plan::of("Leaving") }.launch(runtime);
        debuggee.break_at("end");
        debuggee.go_on();
        let end = (0..4).map(|_| debuggee.step(Granularity::Over)).find(|stop| stop.reason != StopReason::Step);
        assert_eq!(end.unwrap().exit_code, Some(7));
    }

    fn a_step_over_a_call_stays_in_the_method(runtime: &Runtime) {
        let mut debuggee = Plan::of("Steps").launch(runtime);
        debuggee.break_at("second_choice");
        debuggee.go_on();
        let line = debuggee.line();
        debuggee.step(Granularity::Over);
        assert_eq!(debuggee.line(), line + 1);
        assert_eq!(debuggee.stack().frames.len(), 1);
        debuggee.break_at("add");
        debuggee.go_on();
        assert_eq!(debuggee.stack().frames[0].location.function.as_deref(), Some("Fixtures.Steps.Add"));
        debuggee.step(Granularity::Out);
        let stack = debuggee.stack();
        assert_eq!(stack.frames[0].location.function.as_deref(), Some("Fixtures.Steps.SeveralLines"));
    }
}

/// Stands in `Inner`, which was resumed by another thread while the others await it.
fn awaited(runtime: &Runtime) -> Debuggee {
    let mut debuggee = Plan::of("Awaiting").launch(runtime);
    debuggee.break_at("inner");
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

/// What a program prints by itself.
fn expected(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../fixtures/dotnet/expected/{name}.txt"))
}
