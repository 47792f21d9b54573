//! Breakpoints and the first stop.

use hindcast_core::debug::{Granularity, StopReason};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

on_both! {
    fn a_program_stops_in_main_at_breakpoints_and_at_its_end(runtime: &Runtime) {
        let mut debuggee = Plan::of("Hello").args(&["Ann", "Bob"]).stdin("x\n").launch(runtime);
        let stop = debuggee.stop.clone().unwrap();
        assert_eq!(stop.reason, StopReason::Entry);
        assert_eq!(debuggee.stack().frames[0].location.function.as_deref(), Some("Hello.Main"));
        let bound = debuggee.break_at("greeting");
        println!("{bound:?}");
        let stop = debuggee.go_on();
        assert_eq!(stop.reason, StopReason::Breakpoint);
        assert_eq!(stop.breakpoints, [bound.id]);
        assert_eq!(debuggee.line(), debuggee.program.line("greeting"));
        println!("{:#?}", debuggee.local_lines());
        println!("{:#?}", debuggee.stack());
        println!("{:?}", ["index + 1", "args[0] + greeting", "args.Length", "name == \"Ann\"", "nope", "greeting.ToUpper()"].map(|text| debuggee.evaluate(text)));
        debuggee.step(Granularity::Over);
        println!("line {}", debuggee.line());
        debuggee.go_on();
        debuggee.backend.remove_breakpoint(bound.id).unwrap();
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.exit_code), (StopReason::Exit, Some(41)));
        assert_eq!(debuggee.printed(), "Hello, Ann! (0)\nHello, Bob! (1)\necho 1: x (1)\n2 arguments, 1 lines\n");
    }
}
