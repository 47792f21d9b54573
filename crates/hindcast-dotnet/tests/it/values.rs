//! Values as a developer would write them.

use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

on_both! {
    fn explore(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let mut marks: Vec<_> = debuggee.program.marks().into_iter().collect();
        marks.sort();
        for (mark, line) in marks {
            println!("mark {mark} {line}");
            debuggee.break_at(&mark);
        }
        loop {
            let stop = debuggee.go_on();
            if stop.exit_code.is_some() || stop.signal.is_some() { println!("{stop:?}"); break; }
            println!("== line {} {:?}", debuggee.line(), stop.detail);
            for line in debuggee.local_lines() { println!("   {line}"); }
        }
        println!("{}", debuggee.printed());
    }
}
