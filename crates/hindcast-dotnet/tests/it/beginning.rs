//! Programs that are about to begin, and stops while a thread is.

use hindcast_core::debug::{DebugEngine as _, DebugError, LaunchRequest, Place, StopReason};
use hindcast_dotnet::DotnetEngine;
use hindcast_fixtures::{dotnet::Runtime, oracle_size};

use crate::{
    debuggee::{Plan, on_both},
    evaluate::{assigned, check},
};

on_both! {
    fn what_only_native_programs_can_do_is_refused(runtime: &Runtime) {
        let plain = || Plan::of("Starting").request(runtime);
        let options = [
            ("chaos", LaunchRequest { chaos: Some(7), ..plain() }),
            ("follow", LaunchRequest { follow: Some("child".into()), ..plain() }),
            ("follow_forks", LaunchRequest { follow_forks: true, ..plain() }),
            ("record_from", LaunchRequest { record_from: Some(Place::Function("Main".into())), ..plain() }),
        ];
        for (option, request) in options {
            match DotnetEngine.launch(&request).map(drop) {
                Err(DebugError::Unsupported(reason)) => assert!(reason.to_string().starts_with(&format!("`{option}` "))),
                other => panic!("{option}: {other:?}"),
            }
        }
    }

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
