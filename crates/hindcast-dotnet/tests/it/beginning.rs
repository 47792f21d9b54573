//! Stops while a thread is about to begin.

use hindcast_core::debug::StopReason;
use hindcast_fixtures::{dotnet::Runtime, oracle_size};

use crate::{
    debuggee::{Plan, on_both},
    evaluate::{assigned, check},
};

on_both! {
    fn the_runtime_answers_while_a_thread_is_about_to_begin(runtime: &Runtime) {
        for rounds in (0..oracle_size(12, 400)).map(|launch| launch * 1_500 % 150_000) {
            let mut debuggee = Plan::of("Starting").args(&[&rounds.to_string()]).launch(runtime);
            debuggee.break_at("started");
            assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
            // Makes a string in the program, which the runtime could not do while that thread had its lock.
            check(&mut debuggee, &[("text = \"after\"", "\"after\"")], assigned);
            debuggee.go_on();
            assert_eq!(debuggee.printed(), "after\n", "{rounds}");
        }
    }
}
