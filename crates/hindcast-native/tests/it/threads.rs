//! Threads of a recorded program: one at a time, forwards and backwards.

use hindcast_core::debug::{
    CodeBreakpoint, Destination, Frame, Granularity, Moment, Movement, Place, StopReason, ThreadId,
};
use hindcast_fixtures::{Fixture, oracle_size};

use crate::{
    debuggee::Debuggee,
    time_travel::{check_last_writes, check_steps},
    writes::{last_write, now},
};

fn crowd() -> Fixture {
    Fixture::c("crowd").flags(["-O0", "-pthread"])
}

/// All threads, and where each stands.
fn everybody(debuggee: &mut Debuggee) -> Vec<(ThreadId, Vec<Frame>)> {
    let threads = debuggee.backend().threads().expect("there are threads");
    let stack =
        |debuggee: &mut Debuggee, thread| debuggee.backend().stack(thread, 16).expect("a stack").frames;
    threads.into_iter().map(|thread| (thread.id, stack(debuggee, thread.id))).collect()
}

fn go_to(debuggee: &mut Debuggee, moment: &Moment) {
    debuggee.movement(Movement::Goto(Destination::Moment(moment.clone())));
}

#[test]
fn all_stacks_are_there_in_the_past() {
    let mut debuggee = Debuggee::record(&crowd(), &["3", "2000", "3"]);
    debuggee.break_at("adds");
    let mut seen = Vec::new();
    for _ in 0..9 {
        let stop = debuggee.go().clone();
        assert_eq!(stop.reason, StopReason::Breakpoint);
        let everybody = everybody(&mut debuggee);
        seen.push((now(&mut debuggee), stop.thread, debuggee.value_of("sum"), everybody));
    }
    assert_eq!(seen[8].3.len(), 4, "{seen:?}");
    let threads: std::collections::BTreeSet<_> = seen.iter().map(|(_, thread, ..)| *thread).collect();
    assert_eq!(threads.len(), 3, "{threads:?}");
    // Back, hit by hit, and then across.
    for (moment, thread, sum, all) in seen.iter().rev().skip(1) {
        assert_eq!(debuggee.movement(Movement::ReverseContinue).reason, StopReason::Breakpoint);
        assert_eq!((&now(&mut debuggee), debuggee.stop.thread), (moment, *thread));
        assert_eq!((&debuggee.value_of("sum"), &everybody(&mut debuggee)), (sum, all));
    }
    for index in [7, 2, 5, 0, 8] {
        let (moment, thread, sum, all) = &seen[index];
        go_to(&mut debuggee, moment);
        assert_eq!(debuggee.stop.thread, *thread);
        assert_eq!((&debuggee.value_of("sum"), &everybody(&mut debuggee)), (sum, all));
    }
}

#[test]
fn the_last_write_names_its_thread() {
    let mut debuggee = Debuggee::record(&crowd(), &["4", "2000", "2"]);
    debuggee.break_at("adds");
    let mut last = None;
    for _ in 0..8 {
        last = Some(debuggee.go().thread);
    }
    debuggee.run_to("done");
    let writes = last_write(&mut debuggee, "sum", 1).unwrap();
    assert_eq!(Some(writes[0].thread), last);
    assert_eq!(writes[0].location.line, Some(debuggee.built.line("adds")));
}

#[test]
fn a_thread_is_stepped_forwards_and_backwards_among_the_turns_of_others() {
    let mut debuggee = Debuggee::record(&crowd(), &["3", "300", "3"]);
    debuggee.run_to("adds");
    let thread = debuggee.stop.thread;
    let mut lines = vec![(debuggee.line(), now(&mut debuggee))];
    // Across the condition variable and the barrier, where it waits for all others.
    for _ in 0..14 {
        let stop = debuggee.movement(Movement::Step { thread, granularity: Granularity::Over, count: 1 });
        assert_eq!((stop.reason, stop.thread), (StopReason::Step, thread));
        lines.push((debuggee.line(), now(&mut debuggee)));
    }
    let (_, last) = lines.last().cloned().unwrap();
    for (line, _) in lines.iter().rev().skip(1) {
        let step = Movement::StepBack { thread, granularity: Granularity::Over, count: 1 };
        assert_eq!(debuggee.movement(step).thread, thread);
        assert_eq!(debuggee.line(), *line, "{lines:?}");
    }
    // And again, in the past.
    go_to(&mut debuggee, &lines[0].1);
    for (line, _) in &lines[1..] {
        let step = Movement::Step { thread, granularity: Granularity::Over, count: 1 };
        assert_eq!(debuggee.movement(step).thread, thread);
        assert_eq!(debuggee.line(), *line, "{lines:?}");
    }
    assert_eq!(now(&mut debuggee), last);
}

#[test]
fn another_thread_than_the_one_that_stopped_can_be_stepped() {
    let mut debuggee = Debuggee::record(&crowd(), &["3", "300", "3"]);
    debuggee.run_to("adds");
    let stopped = debuggee.stop.thread;
    let others: Vec<_> = everybody(&mut debuggee).into_iter().map(|(thread, _)| thread).collect();
    for thread in others.into_iter().filter(|thread| *thread != stopped) {
        let step = Movement::Step { thread, granularity: Granularity::Instruction, count: 1 };
        let stop = debuggee.movement(step).clone();
        assert_eq!((stop.reason, stop.thread), (StopReason::Step, thread));
        let (here, all) = (now(&mut debuggee), everybody(&mut debuggee));
        let back = Movement::StepBack { thread, granularity: Granularity::Instruction, count: 1 };
        assert_eq!(debuggee.movement(back).thread, thread);
        go_to(&mut debuggee, &here);
        assert_eq!(everybody(&mut debuggee), all);
    }
    debuggee.expect_exit(0);
}

#[test]
fn before_its_first_instruction_a_thread_has_nowhere_to_go() {
    let mut debuggee = Debuggee::record(&crowd(), &["3", "300", "3"]);
    debuggee.run_to("computes");
    let thread = debuggee.stop.thread;
    let back = Movement::StepBack { thread, granularity: Granularity::Instruction, count: 5000 };
    let stop = debuggee.movement(back.clone()).clone();
    assert_eq!((stop.reason, stop.thread), (StopReason::ThreadStart, thread), "{stop:?}");
    let first = now(&mut debuggee);
    assert_eq!(debuggee.movement(back).reason, StopReason::ThreadStart);
    assert_eq!(now(&mut debuggee), first, "it stays where it is");
    // By lines one comes to the same instruction, though it has none.
    let over = Movement::Step { thread, granularity: Granularity::Instruction, count: 3 };
    debuggee.movement(over);
    let back = Movement::StepBack { thread, granularity: Granularity::Line, count: 9 };
    assert_eq!(debuggee.movement(back).reason, StopReason::ThreadStart);
    assert_eq!(now(&mut debuggee), first);
}

/// How often something stops until something else does.
fn stops(debuggee: &mut Debuggee, movement: &Movement) -> usize {
    std::iter::from_fn(|| {
        (debuggee.movement(movement.clone()).reason == StopReason::Breakpoint).then_some(())
    })
    .count()
}

#[test]
fn breakpoints_that_are_passed_are_hit_as_often_as_the_threads_come_there() {
    let passers = Fixture::c("passers").flags(["-O0", "-pthread"]);
    let place = || CodeBreakpoint::at(Place::Function("pass".into()));
    // And once where it prints. The first is judged by us at every pass, the others are only counted.
    let slow = CodeBreakpoint { condition: Some("(long)id * 2 == 2".into()), ..place() };
    let counted = CodeBreakpoint { hit_count_multiple: 10, ..place() };
    // With many rounds some of its stops are where a turn ends, too.
    let rounds = oracle_size(100, 500);
    let late = CodeBreakpoint { hit_count: 3 * rounds as u64, ..place() };
    for (breakpoint, expected) in [(slow, rounds + 1), (counted, 4 * rounds / 10 + 1), (late, rounds + 2)] {
        for _ in 0..oracle_size(1, 4) {
            let mut debuggee = Debuggee::record(&passers, &[&rounds.to_string()]);
            let text = format!("{breakpoint:?}");
            debuggee.break_at("printed");
            debuggee.add(breakpoint.clone());
            assert_eq!(stops(&mut debuggee, &Movement::Continue), expected, "{text}");
            debuggee.movement(Movement::Goto(Destination::Start));
            assert_eq!(stops(&mut debuggee, &Movement::Continue), expected, "{text}");
            assert_eq!(stops(&mut debuggee, &Movement::ReverseContinue), expected, "{text}");
        }
    }
}

/// Where breakpoints stop it, until something else does.
fn places(debuggee: &mut Debuggee, movement: &Movement) -> Vec<(Moment, ThreadId)> {
    let next = || {
        let stop = debuggee.movement(movement.clone()).clone();
        (stop.reason == StopReason::Breakpoint).then(|| (now(debuggee), stop.thread))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn breakpoints_in_a_random_schedule_stop_at_the_same_moments_in_the_past() {
    let relay = Fixture::c("relay").flags(["-O0", "-pthread"]);
    let [rounds, more] = [oracle_size(12, 50), oracle_size(8, 60)].map(|rounds| rounds.to_string());
    for seed in 1..=oracle_size(4, 40) as u64 {
        let args: [&str; 2] = if seed % 4 == 0 { [&more, "4"] } else { [&rounds, "2"] };
        let mut debuggee = Debuggee::record_chaos(&relay, &args, seed);
        debuggee.break_at("adds");
        debuggee.add(CodeBreakpoint::at(Place::Function("pthread_mutex_lock".into())));
        let live = places(&mut debuggee, &Movement::Continue);
        let mut back = places(&mut debuggee, &Movement::ReverseContinue);
        back.reverse();
        assert_eq!(back, live, "seed {seed}");
        assert_eq!(places(&mut debuggee, &Movement::Continue), live, "seed {seed}");
    }
}

#[test]
fn a_recording_with_threads_is_the_same_from_a_file() {
    let mut debuggee = Debuggee::record(&crowd(), &["3", "2000", "2"]);
    debuggee.break_at("adds");
    let mut seen = Vec::new();
    for _ in 0..6 {
        debuggee.go();
        let all = everybody(&mut debuggee);
        seen.push((now(&mut debuggee), debuggee.stop.thread, debuggee.value_of("sum"), all));
    }
    let file = debuggee.export((None, None));
    drop(debuggee);
    let mut opened = Debuggee::open(crowd().build(), file.path()).unwrap();
    for (moment, thread, sum, all) in seen.iter().rev() {
        go_to(&mut opened, moment);
        assert_eq!(opened.stop.thread, *thread);
        assert_eq!((&opened.value_of("sum"), &everybody(&mut opened)), (sum, all));
    }
}

#[test]
fn the_last_writes_of_threads_are_those_of_the_programs_own_log() {
    for threads in ["1", "2", "4", "16"] {
        let fixture = Fixture::c("thread_stores").flags(["-O1", "-pthread"]);
        check_last_writes(&fixture, &[threads], 480, oracle_size(8, 500));
    }
}

#[test]
fn steps_of_a_thread_back_undo_its_steps_forward() {
    for threads in ["1", "2", "4", "16"] {
        let rounds = oracle_size(300, 30_000).to_string();
        let mut debuggee = Debuggee::record(&crowd(), &[threads, &rounds, "3"]);
        let breakpoint = debuggee.break_at("adds");
        debuggee.go();
        debuggee.backend().remove_breakpoint(breakpoint.id).unwrap();
        check_steps(&mut debuggee, oracle_size(150, 20_000));
        debuggee.expect_exit(0);
    }
}
