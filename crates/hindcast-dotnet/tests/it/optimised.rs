//! Optimised code: what is still known is right, and the rest is said to be unknown.

use hindcast_core::debug::{CodeBreakpoint, Movement, Place, StopReason, Trigger, ValueState};
use hindcast_fixtures::dotnet::{DotnetFixture, Runtime};

use crate::{
    attaching::{Server, stopped},
    debuggee::{locals_of, on_both},
};

on_both! {
    fn optimised_code_shows_only_what_is_true(runtime: &Runtime) {
        let program = DotnetFixture::new("Optimised").optimized().build();
        let mut server = Server::of(runtime.command(&program));
        let mut session = server.attach().unwrap();
        stopped(session.run(Movement::Begin).unwrap());
        let place = Place::Line { file: "Optimised.cs".into(), line: program.line("floating") };
        session.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
        server.ask("go");
        let stop = stopped(session.run(Movement::Continue).unwrap());
        assert_eq!(stop.reason, StopReason::Breakpoint);

        // Asking the runtime's library for what is in a floating-point register would crash it.
        let locals = locals_of(&mut *session, stop.thread);
        let shown = |name: &str| locals.iter().find(|local| local.name == name).unwrap();
        assert_eq!(shown("name").value, "\"abc\"");
        assert_eq!(shown("count").value, "5");
        for name in ["amount", "share", "pair"] {
            assert_ne!(shown(name).state, ValueState::Available, "{:?}", shown(name));
        }
        assert_eq!(shown("amount").value, "<optimised out>");

        // A caller is at its call, not behind it.
        let stop = stopped(session.run(Movement::Continue).unwrap());
        assert_eq!(stop.reason, StopReason::Exception);
        let frames = session.stack(stop.thread, 10).unwrap().frames;
        let lines: Vec<_> = frames.iter().filter_map(|frame| frame.location.line).collect();
        assert_eq!(lines[..2], ["fails", "calls"].map(|mark| program.line(mark)));
    }
}
