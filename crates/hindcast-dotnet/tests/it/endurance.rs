//! Many sessions one after the other: nothing hangs, and nothing is left behind.

use hindcast_core::debug::StopReason;
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

/// A few in CI; the 200 with `HINDCAST_ORACLES=full`.
fn rounds() -> usize {
    if std::env::var("HINDCAST_ORACLES").is_ok_and(|oracles| oracles == "full") { 200 } else { 3 }
}

on_both! {
    fn programs_are_launched_again_and_again(runtime: &Runtime) {
        let mut pids = Vec::new();
        for round in 0..rounds() {
            let mut debuggee = Plan::of("Hello").args(&["a", "b"]).stdin("x\n").launch(runtime);
            let pid = debuggee.backend.target().pid.unwrap();
            pids.push(pid);
            debuggee.break_at("greeting");
            assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
            match round % 3 {
                // To its end.
                0 => {
                    debuggee.go_on();
                    assert_eq!(debuggee.go_on().exit_code, Some(41));
                }
                // Dropped at a breakpoint.
                1 => {}
                // Dropped in the middle of its start.
                _ => drop(Plan::of("Hello").launch(runtime)),
            }
            drop(debuggee);
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "round {round}: {pid} is still there");
        }
        for folder in ["/dev/shm", "/tmp"] {
            let names = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
            let names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            for pid in &pids {
                let marks = [format!("{pid:08x}"), format!("-{pid}-")];
                let left: Vec<_> = names.iter().filter(|name| marks.iter().any(|mark| name.contains(mark))).collect();
                assert!(left.is_empty(), "{pid} has left {left:?}");
            }
        }
    }
}
