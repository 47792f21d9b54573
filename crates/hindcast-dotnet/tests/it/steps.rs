//! Steps: what a program logs of itself, and where a debugger that steps stands.

use std::collections::HashSet;

use hindcast_core::debug::{Granularity, StopReason};
use hindcast_fixtures::dotnet::Runtime;

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

    fn explore(runtime: &Runtime) {
        let mut debuggee = Plan::of("Async").launch(runtime);
        debuggee.break_at("outer_before");
        debuggee.go_on();
        for _ in 0..40 {
            let stop = debuggee.step(Granularity::Over);
            if stop.reason == StopReason::Exit { println!("{stop:?}"); break; }
            let stack = debuggee.stack();
            let frame = &stack.frames[0].location;
            println!("{:?} thread {} {:?}:{:?} depth {}", stop.reason, stop.thread, frame.function, frame.line, stack.frames.len());
            println!("     {:?}", debuggee.local_lines());
        }
    }
}
