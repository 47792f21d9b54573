//! Programs of several threads: they run one at a time, and everything about them can be visited again.

use std::time::Duration;

use hindcast_fixtures::{Fixture, oracle_size};

use super::{Recorded, check_program, check_run, wrong_visits};
use crate::{
    process::{Ended, Halt},
    record::{Event, Leaves, SELF_CHECK},
};

fn crowd() -> String {
    Fixture::c("crowd").flags(["-O1", "-pthread"]).build().path.to_string_lossy().into_owned()
}

fn turns(recorded: &Recorded, wanted: impl Fn(Leaves) -> bool) -> usize {
    let log = &recorded.process.recorder().expect("it is recorded").log;
    let is_wanted = |event: &Event| matches!(event, Event::Turn { leaves, .. } if wanted(*leaves));
    log.range(0, log.len()).filter(|(_, event)| is_wanted(event)).count()
}

#[test]
fn threads_that_wait_for_each_other_are_replayed_to_the_same_states() {
    for count in ["1", "2", "16"] {
        check_program(&[&crowd(), count, "20000", "5"]);
    }
}

#[test]
fn threads_that_compute_at_the_same_time_take_turns_and_are_replayed_to_the_same_states() {
    SELF_CHECK.set(true);
    let program = crowd();
    let mut recorded = Recorded::start(program.as_ref(), &["4", "60000000", "2"]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(20), 30);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert_eq!(recorded.process.recorder().unwrap().why_ended(), None);
    assert!(turns(&recorded, |leaves| leaves == Leaves::Anywhere) > 3, "nobody was preempted");
    assert!(seen.len() > 3, "{}", seen.len());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    recorded.replay_whole().unwrap();
}

#[test]
fn random_moments_of_threads_are_visited_as_they_were() {
    let moments = oracle_size(30, 1000);
    for threads in [1, 2, 4, 16] {
        let work = (oracle_size(2_000_000, 60_000_000) / threads).to_string();
        let mut recorded = Recorded::start(crowd().as_ref(), &[&threads.to_string(), &work, "5"]);
        let (halt, seen) = recorded.run_with_stops(Duration::from_millis(1), moments);
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{threads}");
        assert_eq!(recorded.process.recorder().unwrap().why_ended(), None, "{threads}");
        assert!(seen.len() >= moments / 4, "{} of {moments} stops of {threads} threads", seen.len());
        assert_eq!(wrong_visits(&mut recorded, &seen), 0, "{threads}");
    }
}

#[test]
fn threads_that_pass_messages_are_replayed_to_the_same_states() {
    let program = Fixture::c("pipes").flags(["-O1", "-pthread"]).build().path;
    check_run(&[program.to_str().unwrap(), "100"], &|| {}, super::Nature::Random);
}

#[test]
fn programs_of_many_threads_behave_as_without_a_recorder_and_are_replayed_to_the_same_states() {
    check_program(&["/usr/bin/sort", "--parallel=4", "-S", "1M", "/usr/share/perl/5.36.0/unicore/Name.pl"]);
    check_program(&[
        "/usr/bin/python3",
        "-c",
        "from concurrent.futures import ThreadPoolExecutor as Pool\n\
         import hashlib\n\
         work = lambda n: hashlib.sha256(str(n).encode()).hexdigest()[:4]\n\
         with Pool(4) as pool: print(*pool.map(work, range(200)))",
    ]);
}

#[test]
fn signals_to_single_threads_are_replayed_to_the_same_states() {
    let program = Fixture::c("directed").flags(["-O1", "-pthread"]).build().path;
    check_program(&[program.to_str().unwrap()]);
}

#[test]
fn a_thread_becomes_another_program_and_the_recording_goes_on() {
    let program = Fixture::c("directed").flags(["-O1", "-pthread"]).build().path;
    check_program(&[program.to_str().unwrap(), "/bin/echo"]);
}

/// Runs a race with a schedule of its own; what was recorded, and how it ended or where it was stopped.
fn raced(race: &str, seed: u64) -> (Recorded, Halt) {
    SELF_CHECK.set(true);
    let program = Fixture::c("races").flags(["-O0", "-pthread"]).build().path;
    let mut recorded = Recorded::start(&program, &[race]);
    recorded.process.begin_chaos(seed);
    let halt = recorded.run();
    (recorded, halt)
}

/// The turns that threads took, without their numbers, which are others each time.
fn schedule(recorded: &Recorded) -> Vec<String> {
    let log = &recorded.process.recorder().expect("it is recorded").log;
    let mut known = vec![recorded.process.pid()];
    let mut index = |tid| {
        known.iter().position(|&known| known == tid).unwrap_or_else(|| {
            known.push(tid);
            known.len() - 1
        })
    };
    let mut shown = |event: &Event| match event {
        Event::Turn { to, leaves } => Some(format!("{leaves:?} {}", index(*to))),
        Event::Left { to, .. } => Some(format!("left {}", index(*to))),
        _ => None,
    };
    log.range(0, log.len()).filter_map(|(_, event)| shown(&event)).collect()
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let once = |seed| schedule(&raced("lost_item", seed).0);
    for seed in [3, 4] {
        let first = once(seed);
        assert!(first.len() > 3, "{first:?}");
        assert_eq!(once(seed), first);
    }
    assert_ne!(once(3), once(4));
}

#[test]
fn random_schedules_are_replayed_to_the_same_states() {
    for race in ["lost_update", "torn_sum", "lost_item", "two_owners"] {
        for seed in 0..oracle_size(4, 8) as u64 {
            let (mut recorded, halt) = raced(race, seed);
            assert!(matches!(halt, Halt::Ended(_)), "{race} {seed}: {halt:?}");
            assert_eq!(recorded.process.recorder().unwrap().why_ended(), None, "{race} {seed}");
            recorded.replay_whole().unwrap_or_else(|error| panic!("{race} {seed}: {error}"));
        }
    }
}
