//! Steps that are wound back lead to the states that they came from.

use std::time::Duration;

use hindcast_fixtures::{Fixture, oracle_size};

use super::{Recorded, state_of};
use crate::{
    process::{Ended, Halt},
    replay::{Advance, Pause},
};

/// At moments of a program: many steps, and all of them back, at once and one by one. How many steps could be wound
/// back at a moment, on average: how many moments there are is a matter of the machine's speed.
fn check_winding(mut recorded: Recorded, every: Duration) -> usize {
    let steps = oracle_size(150, 1000);
    let (halt, seen) = recorded.run_with_stops(every, 16);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    let mut wound = 0;
    for position in seen.keys() {
        recorded.with_context(|context| {
            let mut replica = context.replica_of(position, &mut None).unwrap();
            replica.keep_steps();
            // Those since the last step that cannot be wound back.
            let mut states = vec![state_of(&replica)];
            for step in 1..=steps {
                if replica.advance(context.log, Advance::Step, u64::MAX).unwrap() == Pause::Boundary {
                    return;
                }
                if replica.steps_kept() == 0 {
                    states.clear();
                }
                states.push(state_of(&replica));
                let back = replica.steps_kept().min(7);
                if step % 20 == 0 {
                    assert!(replica.wind_back(back).unwrap());
                    states.truncate(states.len() - back as usize);
                    assert_eq!(state_of(&replica), *states.last().unwrap(), "{back} steps before {position}");
                }
            }
            while replica.steps_kept() > 0 {
                assert!(replica.wind_back(1).unwrap());
                states.pop();
                let place = replica.pc().unwrap();
                assert_eq!(state_of(&replica), *states.last().unwrap(), "at {place:#x} after {position}");
                wound += 1;
            }
            assert!(!replica.wind_back(1).unwrap(), "it says so where it cannot");
            // And on from there, as the first time.
            let mut again = context.replica_of(position, &mut None).unwrap();
            let mut on = 0;
            while state_of(&again) != state_of(&replica) {
                again.advance(context.log, Advance::Step, u64::MAX).unwrap();
                on += 1;
                assert!(on <= steps, "this state was never there");
            }
        });
    }
    wound / seen.len()
}

#[test]
fn all_kinds_of_writes_are_wound_back() {
    let program = Fixture::c("odd_writes").flags(["-O1"]).build().path;
    let wound = check_winding(Recorded::start(&program, &["3000000"]), Duration::from_millis(20));
    // About 25, as chance has it: those since the last instruction that cannot be wound back.
    assert!(wound > 12, "{wound}");
}

#[test]
fn steps_among_signals_and_system_calls_are_wound_back() {
    let wound = check_winding(Recorded::fixture("-O1", &["alarms", "400"]), Duration::from_millis(2));
    assert!(wound > 4, "{wound}");
}

#[test]
fn steps_of_real_programs_are_wound_back() {
    let scripts: [&[&str]; 2] = [
        &[
            "/usr/bin/perl",
            "-e",
            "my %h; $h{$_ % 97} += $_ ** 0.5 for 1..200000; print join(',', sort values %h)",
        ],
        &[
            "/usr/bin/sqlite3",
            ":memory:",
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000)
          SELECT sum(length(hex(x * x))), avg(x / 7.0) FROM n;",
        ],
    ];
    for command in scripts {
        let recorded = Recorded::start(command[0].as_ref(), &command[1..]);
        let wound = check_winding(recorded, Duration::from_millis(10));
        assert!(wound >= 25, "{}: {wound}", command[0]);
    }
}
