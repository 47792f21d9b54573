//! Exceptions and threads.

use hindcast_core::debug::{ExceptionBreakpoint, StopReason, Trigger};
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

    fn explore(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").launch(runtime);
        debuggee.backend.add_breakpoint(Trigger::Exception(of_type("*"))).unwrap();
        loop {
            let stop = debuggee.go_on();
            println!("{:?} {:?} {:?}", stop.reason, stop.detail, stop.exception.as_ref().map(|raised| raised.unhandled));
            if stop.reason == StopReason::Exit { break; }
            let stack = debuggee.stack();
            for frame in stack.frames.iter().take(4) { println!("    {:?} {:?}", frame.location.function, frame.location.line); }
        }
        for args in [&["unhandled"][..], &["nullref", "customer"], &["thread"], &["task"], &["failfast"], &["break"]] {
            println!("== {args:?}");
            let mut debuggee = Plan::of("Exceptions").args(args).launch(runtime);
            for _ in 0..3 {
            let stop = debuggee.go_on();
            println!("{:?} {:?} {:?} {:?} {:?}", stop.reason, stop.detail, stop.exception, stop.exit_code, stop.signal);
            if stop.reason == StopReason::Exit { break; }
            let stack = debuggee.stack();
            for frame in stack.frames.iter().take(4) { println!("    {:?} {:?}", frame.location.function, frame.location.line); }
            println!("  {:?}", debuggee.local_lines());
            println!("  {:?}", debuggee.backend.threads().unwrap().iter().map(|thread| format!("{} {}", thread.id, thread.name)).collect::<Vec<_>>());
            }
        }
    }
}
