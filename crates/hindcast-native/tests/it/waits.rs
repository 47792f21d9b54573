//! Programs that do not go on: what each thread waits for, live, recorded, attached to, and in a core file.

use std::{
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};

use hindcast_core::debug::{
    AttachRequest, CoreRequest, DebugBackend, DebugEngine as _, Ending, Language, Movement, Outcome,
    OutputLog, Thread, ThreadId, Wait, WaitKind,
};
use hindcast_fixtures::Fixture;
use hindcast_native::NativeEngine;

use crate::debuggee::Debuggee;

/// For so long a program runs before it is looked at.
const TURN: Duration = Duration::from_millis(50);

fn c() -> Fixture {
    Fixture::c("hangs").flags(["-pthread"])
}

fn cpp() -> Fixture {
    Fixture::cpp("hangs").flags(["-pthread"])
}

fn rust() -> Fixture {
    Fixture::rust("hangs")
}

/// Lets the program run until all its threads wait, and so many there are; what each waits for.
fn hanging(debuggee: &mut Debuggee, count: usize) -> Vec<Thread> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let interrupt = debuggee.backend().interrupt();
        let ringing = std::thread::spawn(move || {
            std::thread::park_timeout(TURN);
            interrupt.interrupt();
        });
        let outcome = debuggee.backend().run(Movement::Continue).expect("it moves");
        assert_eq!(outcome, Outcome::Interrupted);
        ringing.join().expect("it rings");
        debuggee.stop = debuggee.backend().pause().expect("it stands still");
        let threads = debuggee.backend().threads().expect("there are threads");
        if threads.len() == count && threads.iter().all(|thread| thread.wait.is_some()) {
            return threads;
        }
        assert!(Instant::now() < until, "never: {count} threads wait: {threads:#?}");
    }
}

/// Looks at the same hang unrecorded and recorded.
fn both_ways(fixture: &Fixture, way: &str, count: usize, look: impl Fn(&mut Debuggee, &[Thread])) {
    for begin in [Debuggee::launch, Debuggee::record] {
        let mut debuggee = begin(fixture, &[way]);
        let threads = hanging(&mut debuggee, count);
        look(&mut debuggee, &threads);
    }
}

fn named<'a>(threads: &'a [Thread], name: &str) -> &'a Thread {
    let found = threads.iter().find(|thread| thread.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` among {threads:#?}"))
}

fn wait_of(thread: &Thread) -> &Wait {
    thread.wait.as_ref().expect("it waits")
}

/// What the only thread waits for, in words and as data; it waits at a mark.
#[track_caller]
fn check_alone(fixture: &Fixture, way: &str, words: &str, check: impl Fn(&Wait)) {
    both_ways(fixture, way, 1, |debuggee, threads| {
        assert_eq!(threads[0].waits_for.as_deref(), Some(words), "{threads:#?}");
        check(wait_of(&threads[0]));
        assert_eq!(own_line(debuggee, threads[0].id), Some(debuggee.built.line(way)));
    });
}

/// The line where a thread's own code waits.
fn own_line(debuggee: &mut Debuggee, thread: ThreadId) -> Option<u32> {
    let source = debuggee.built.source_text();
    let frames = debuggee.backend().stack(thread, 30).expect("a stack").frames;
    frames.iter().find(|frame| frame.location.file.as_ref() == Some(&source))?.location.line
}

fn said(thread: &Thread) -> &str {
    thread.waits_for.as_deref().expect("it waits")
}

#[test]
fn mutexes_that_are_taken_in_opposite_order_name_their_holders() {
    both_ways(&c(), "opposite", 3, |debuggee, threads| {
        let (left, right, main) = (named(threads, "left"), named(threads, "right"), named(threads, "hangs"));
        assert_eq!(said(left), format!("the lock `second`, which thread {} (right) holds", right.id));
        assert_eq!(said(right), format!("the lock `first`, which thread {} (left) holds", left.id));
        assert_eq!(said(main), format!("the end of thread {} (left)", left.id));
        for (thread, holder) in [(left, right), (right, left), (main, left)] {
            assert_eq!(wait_of(thread).held_by, Some(holder.id));
            assert!(wait_of(thread).is_for_ever() && wait_of(thread).only_threads, "{thread:?}");
        }
        assert_eq!(wait_of(left).kind, WaitKind::Lock);
        assert_eq!(wait_of(main).kind, WaitKind::Thread);
        for (thread, mark) in [(left, "left"), (right, "right"), (main, "joins")] {
            assert_eq!(own_line(debuggee, thread.id), Some(debuggee.built.line(mark)));
        }
    });
}

#[test]
fn mutexes_of_cpp_name_their_holders() {
    both_ways(&cpp(), "opposite", 3, |debuggee, threads| {
        let (left, right, main) = (named(threads, "left"), named(threads, "right"), named(threads, "hangs"));
        assert_eq!(said(left), format!("the lock `theirs`, which thread {} (right) holds", right.id));
        assert_eq!(said(right), format!("the lock `ours`, which thread {} (left) holds", left.id));
        assert_eq!(said(main), format!("the end of thread {} (left)", left.id));
        assert_eq!(own_line(debuggee, left.id), Some(debuggee.built.line("opposite")));
    });
}

#[test]
fn mutexes_of_rust_say_that_they_do_not_know_their_holders() {
    both_ways(&rust(), "opposite", 3, |debuggee, threads| {
        let (left, right, main) = (named(threads, "left"), named(threads, "right"), named(threads, "hangs"));
        assert_eq!(said(left), "the lock `hangs::SECOND`, which does not say who holds it");
        assert_eq!(said(right), "the lock `hangs::FIRST`, which does not say who holds it");
        assert_eq!(said(main), format!("the end of thread {} (left)", left.id));
        for thread in [left, right] {
            let wait = wait_of(thread);
            assert_eq!((wait.held_by, wait.object.as_deref()), (None, Some("std::sync::Mutex")));
            assert!(wait.holder_unknown && wait.is_for_ever() && wait.only_threads);
            assert_eq!(own_line(debuggee, thread.id), Some(debuggee.built.line("opposite")));
        }
        assert_eq!(own_line(debuggee, main.id), Some(debuggee.built.line("joins")));
    });
}

#[test]
fn a_lock_within_a_variable_is_told_with_its_place_in_it_and_its_keeper() {
    both_ways(&c(), "held", 2, |debuggee, threads| {
        let (main, keeper) = (named(threads, "hangs"), named(threads, "keeper"));
        assert_eq!(said(main), format!("the lock `ledger+8`, which thread {} (keeper) holds", keeper.id));
        assert_eq!(said(keeper), "a signal of the `sem_t` `slots`");
        assert_eq!(own_line(debuggee, keeper.id), Some(debuggee.built.line("keeps")));
    });
}

#[test]
fn a_lock_for_reading_and_writing_names_who_writes() {
    both_ways(&c(), "written", 2, |debuggee, threads| {
        let (main, keeper) = (named(threads, "hangs"), named(threads, "keeper"));
        assert_eq!(said(main), format!("the lock `table`, which thread {} (keeper) holds", keeper.id));
        assert_eq!(own_line(debuggee, main.id), Some(debuggee.built.line("reads_table")));
    });
    check_alone(&rust(), "written", "the lock `hangs::TABLE`, which does not say who holds it", |wait| {
        assert_eq!(wait.object.as_deref(), Some("std::sync::RwLock"));
    });
}

#[test]
fn a_thread_that_locks_twice_waits_for_itself() {
    both_ways(&c(), "self", 1, |debuggee, threads| {
        assert_eq!(said(&threads[0]), "the lock `first`, which the same thread holds");
        assert_eq!(wait_of(&threads[0]).held_by, Some(threads[0].id));
        assert_eq!(own_line(debuggee, threads[0].id), Some(debuggee.built.line("self")));
    });
}

#[test]
fn a_lock_of_a_thread_that_has_ended_is_told_as_one() {
    both_ways(&c(), "ended", 1, |_, threads| {
        let holder = wait_of(&threads[0]).held_by.unwrap();
        let words = format!("the lock `first`, which thread {holder} (no longer in this process) holds");
        assert_eq!(said(&threads[0]), words);
        assert_ne!(holder, threads[0].id);
    });
}

#[test]
fn a_thread_that_never_ends_is_named_by_who_joins_it() {
    both_ways(&c(), "joined", 2, |debuggee, threads| {
        let (main, meets) = (named(threads, "hangs"), named(threads, "meets"));
        assert_eq!(said(main), format!("the end of thread {} (meets)", meets.id));
        assert_eq!(said(meets), "other threads to reach the barrier `never`");
        assert_eq!(own_line(debuggee, main.id), Some(debuggee.built.line("joined")));
        assert_eq!(own_line(debuggee, meets.id), Some(debuggee.built.line("meets")));
    });
}

#[test]
fn a_condition_variable_that_nobody_signals_is_named() {
    check_alone(&c(), "condition", "a signal of the condition variable `ready`", |wait| {
        assert!(wait.is_for_ever() && wait.only_threads && wait.held_by.is_none());
        assert_eq!(wait.kind, WaitKind::Condition);
    });
    let unnamed = "a signal of a condition variable";
    check_alone(&cpp(), "condition", unnamed, |wait| assert!(wait.only_threads));
    check_alone(&rust(), "condition", unnamed, |wait| {
        assert_eq!(wait.object.as_deref(), Some("std::sync::Condvar"));
        assert!(wait.only_threads);
    });
}

#[test]
fn a_signalled_thread_waits_for_the_lock_that_it_gave_away() {
    both_ways(&c(), "signalled", 2, |debuggee, threads| {
        let (main, waits) = (named(threads, "hangs"), named(threads, "waits"));
        assert_eq!(said(waits), format!("the lock `first`, which thread {} (hangs) holds", main.id));
        assert_eq!(own_line(debuggee, waits.id), Some(debuggee.built.line("waits_again")));
    });
}

#[test]
fn a_wait_that_ends_at_some_time_is_not_for_ever() {
    check_alone(&c(), "timed", "a signal of the condition variable `ready`", |wait| {
        assert!(!wait.is_for_ever() && wait.may_time_out && !wait.only_threads);
    });
    check_alone(&c(), "sleeps", "1000000005 ms to pass", |wait| {
        assert_eq!((wait.kind, wait.timeout_ms), (WaitKind::Time, Some(1_000_000_005)));
    });
    // What is left is written where the time was that was asked for.
    both_ways(&rust(), "sleeps", 1, |debuggee, threads| {
        let wait = wait_of(&threads[0]);
        assert_eq!(wait.kind, WaitKind::Time);
        assert!((900_000_000..=1_000_000_000).contains(&wait.timeout_ms.unwrap()), "{wait:?}");
        assert_eq!(own_line(debuggee, threads[0].id), Some(debuggee.built.line("sleeps")));
    });
}

#[test]
fn descriptors_are_told_with_what_they_are() {
    let of_pipe = |wait: &Wait| {
        assert_eq!(wait.kind, WaitKind::Descriptor);
        assert_eq!(wait.descriptors[0].file.as_deref(), Some("a pipe"));
        assert!(!wait.only_threads);
    };
    check_alone(&c(), "reads", "descriptor 3 (a pipe), in `read`", of_pipe);
    check_alone(&c(), "polls", "descriptor 3 (a pipe), in `poll`, for 1000000 ms at most", of_pipe);
    check_alone(&c(), "events", "descriptor 4 (a pipe), in `epoll_wait`", of_pipe);
}

#[test]
fn a_child_process_is_told_by_its_number() {
    both_ways(&c(), "child", 1, |debuggee, threads| {
        let wait = wait_of(&threads[0]);
        let process = wait.process.expect("it has a number");
        assert_eq!(said(&threads[0]), format!("the end of process {process}"));
        assert_eq!(wait.kind, WaitKind::Process);
        assert_eq!(own_line(debuggee, threads[0].id), Some(debuggee.built.line("child")));
    });
}

#[test]
fn what_is_made_of_other_waits_is_told_by_its_own_name() {
    check_alone(&rust(), "receives", "another thread at the other end of a channel", |wait| {
        assert_eq!(wait.object.as_deref(), Some("std::sync::mpsc::Receiver"));
    });
    check_alone(&rust(), "parks", "another thread to unpark it", |wait| assert!(wait.only_threads));
    check_alone(&cpp(), "promised", "a signal of a `std::future`", |wait| assert!(wait.only_threads));
}

/// A program that nobody debugs, killed when dropped.
struct Alone(Child);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it ends");
    }
}

impl Alone {
    fn start(way: &str) -> Self {
        Self(Command::new(c().build().path).arg(way).spawn().expect("it starts"))
    }

    /// Waits until so many threads are there, and all sleep in the kernel.
    fn await_hang(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        let task = format!("/proc/{}/task", self.0.id());
        let sleeps = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'));
        loop {
            let threads = std::fs::read_dir(&task).expect("it lives");
            let stats = threads.filter_map(|thread| {
                std::fs::read_to_string(thread.expect("it lives").path().join("stat")).ok()
            });
            let states: Vec<_> = stats.map(sleeps).collect();
            if states == vec![true; count] {
                return;
            }
            assert!(Instant::now() < until, "never: {count} threads sleep: {states:?}");
            std::thread::yield_now();
        }
    }
}

/// Three threads, of which two have what the other wants.
#[track_caller]
fn check_opposite(threads: &[Thread]) {
    let holder = |lock: &str| {
        let waits = |thread: &&Thread| wait_of(thread).name.as_deref() == Some(lock);
        let waiting = threads.iter().find(waits).expect("somebody wants the lock");
        (waiting.id, wait_of(waiting).held_by.expect("somebody holds it"))
    };
    assert_eq!(threads.len(), 3, "{threads:#?}");
    let ((left, of_second), (right, of_first)) = (holder("second"), holder("first"));
    assert_eq!((of_second, of_first), (right, left), "{threads:#?}");
    assert!(threads.iter().any(|thread| wait_of(thread).kind == WaitKind::Thread), "{threads:#?}");
}

fn attached(pid: u32) -> Box<dyn DebugBackend> {
    let request = AttachRequest {
        pid,
        port: None,
        record: false,
        language: Language::Auto,
        just_my_code: true,
        output: Arc::new(OutputLog::new(1000)),
    };
    let mut backend = NativeEngine.attach(&request).expect("it is there");
    backend.run(Movement::Begin).expect("it begins");
    backend
}

#[test]
fn a_program_that_is_attached_to_tells_the_same() {
    let program = Alone::start("opposite");
    program.await_hang(3);
    let mut backend = attached(program.0.id());
    check_opposite(&backend.threads().unwrap());
    backend.end(Ending::Detach).unwrap();
    drop(backend);
    // Calls that go on after an interruption have another number the second time.
    for way in ["sleeps", "polls"] {
        let program = Alone::start(way);
        program.await_hang(1);
        let mut waits = Vec::new();
        for _ in 0..2 {
            let mut backend = attached(program.0.id());
            waits.push(backend.threads().unwrap()[0].wait.clone().unwrap());
            backend.end(Ending::Detach).unwrap();
            drop(backend);
            program.await_hang(1);
        }
        assert_eq!(waits[0], waits[1], "{way}");
    }
}

#[test]
fn a_core_file_tells_the_same() {
    let program = Alone::start("opposite");
    program.await_hang(3);
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx", "-p", &program.0.id().to_string()]);
    let output = gdb.args(["-ex", &format!("generate-core-file {}", core.display())]).output().unwrap();
    assert!(core.exists(), "{output:?}");
    let mut backend = NativeEngine.open_core(&CoreRequest { core, program: None }).unwrap();
    check_opposite(&backend.threads().unwrap());
}

#[test]
fn the_past_and_a_recording_from_a_file_tell_the_same() {
    let mut debuggee = Debuggee::record(&c(), &["opposite"]);
    check_opposite(&hanging(&mut debuggee, 3));
    let file = debuggee.export((None, None));
    debuggee.movement(Movement::ReverseContinue);
    let threads = debuggee.backend().threads().unwrap();
    assert!(threads.iter().all(|thread| thread.wait.is_none()), "at its start nobody waits: {threads:#?}");
    drop(debuggee);
    let mut opened = Debuggee::open(c().build(), file.path()).unwrap();
    check_opposite(&opened.backend().threads().unwrap());
}

#[test]
fn who_works_does_not_wait() {
    for begin in [Debuggee::launch, Debuggee::record] {
        let mut debuggee = begin(&c(), &["spins"]);
        debuggee.run_to("spins");
        let threads = debuggee.backend().threads().unwrap();
        assert!(threads.iter().all(|thread| thread.wait.is_none() && thread.waits_for.is_none()));
    }
}
