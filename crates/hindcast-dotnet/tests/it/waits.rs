//! What threads wait for.

use hindcast_core::debug::{Movement, Outcome};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Debuggee, Plan, on_both};

/// What the main thread of a program that hangs waits for, once it does and that is as expected.
fn waits_for(runtime: &Runtime, way: &str, is_there: impl Fn(&str) -> bool) -> (String, Debuggee) {
    let mut debuggee = Plan::of("Hangs").args(&[way]).launch(runtime);
    let started = std::time::Instant::now();
    loop {
        let interrupt = debuggee.backend.interrupt();
        let ringing = std::thread::spawn(move || {
            (0..10_000).for_each(|_| std::thread::yield_now());
            interrupt.interrupt();
        });
        assert_eq!(debuggee.backend.run(Movement::Continue).unwrap(), Outcome::Interrupted);
        ringing.join().unwrap();
        debuggee.backend.pause().unwrap();
        let threads = debuggee.backend.threads().unwrap();
        let main = threads.into_iter().find(|thread| thread.name == "Main Thread").unwrap();
        let said = main.waits_for.unwrap_or_default();
        if debuggee.printed().contains("hanging") && is_there(&said) {
            return (said, debuggee);
        }
        assert!(started.elapsed().as_secs() < 20, "it only waits for: {said}");
    }
}

on_both! {
    fn a_task_that_has_completed_is_not_told_as_one_that_has_not(runtime: &Runtime) {
        let (said, debuggee) = waits_for(runtime, "posted", |said| said.contains("which awaits"));
        let line = debuggee.program.line("delayed");
        let start = format!("the task of Fixtures.Hangs.Delayed at Hangs.cs:{line}, which awaits a `Task.");
        let end = "that has completed: the method has not gone on yet (perhaps the SynchronizationContext";
        assert!(said.starts_with(&start) && said.contains(end), "{said}");
    }

    fn a_wait_for_a_value_task_is_one_for_its_task(runtime: &Runtime) {
        let (said, debuggee) = waits_for(runtime, "value_task", |said| !said.is_empty());
        let line = debuggee.program.line("wrapped");
        assert!(said.starts_with(&format!("the task of Fixtures.Hangs.Wrapped at Hangs.cs:{line}, which awaits")), "{said}");
        assert!(said.ends_with("a `Task<int>` that is not completed"), "{said}");
    }
}
