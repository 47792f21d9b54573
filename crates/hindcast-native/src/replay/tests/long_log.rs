//! Programs whose log does not fit into what it may take.

use std::{fs::File, time::Duration};

use hindcast_fixtures::Fixture;

use super::{Recorded, wrong_visits};
use crate::{
    process::{Ended, Halt},
    replay::Position,
};

/// Less than the log of a program that does anything.
const LITTLE: u64 = 4 << 10;
/// Half of what the log of 20,000 ticks takes; the last events alone, which are not packed yet, take a third of it.
const BUDGET: u64 = 300 << 10;

fn idle(ticks: &str) -> Recorded {
    Recorded::start(&Fixture::c("idle").build().path, &[ticks])
}

#[test]
fn a_log_in_a_file_is_replayed_to_the_same_states() {
    let mut recorded = idle("6000");
    let log = &mut recorded.process.recorder_mut().unwrap().log;
    log.spill_to(tempfile::tempfile().unwrap(), LITTLE);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(5), 20);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert!(recorded.process.recorder().unwrap().log.is_spilled());
    assert!(!seen.is_empty());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    recorded.replay_whole().unwrap();
}

#[test]
fn a_full_disk_ends_the_recording_and_what_it_holds_stays() {
    let mut recorded = idle("6000");
    let full = File::options().read(true).write(true).open("/dev/full").unwrap();
    recorded.process.recorder_mut().unwrap().log.spill_to(full, LITTLE);
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)), "the program does not notice");
    let recorder = recorded.process.recorder().unwrap();
    let reason = recorder.why_incomplete().unwrap_or_default();
    assert!(reason.contains("No space left on device") && reason.contains("TMPDIR"), "{reason}");
    assert!(recorder.log.len() > 0 && recorder.timeline.len() > 0);
    recorded.replay_whole().unwrap();
}

#[test]
fn a_log_that_outgrows_its_budget_forgets_its_beginning() {
    let mut recorded = idle("20000");
    recorded.process.recorder_mut().unwrap().set_budget(BUDGET);
    let (halt, mut seen) = recorded.run_with_stops(Duration::from_millis(20), usize::MAX);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    let recorder = recorded.process.recorder().unwrap();
    assert!(recorder.is_active(), "{:?}", recorder.why_ended());
    let first = recorder.timeline.first().cloned().unwrap();
    let first_event = recorder.timeline.get(&first).unwrap().event;
    assert!(first_event > 0 && recorder.log.get(first_event - 1).is_none());
    assert!(recorder.log.get(first_event).is_some());
    let all = seen.len();
    seen.retain(|position, _| *position >= Position { anchor: first.clone(), steps: 0 });
    assert!(!seen.is_empty() && seen.len() < all, "{} of {all} stops", seen.len());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    recorded.replay_whole().unwrap();
}
