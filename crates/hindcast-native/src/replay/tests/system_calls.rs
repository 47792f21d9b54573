//! A recording forgets nothing that a system call did: `fixtures/c/system_calls` has a row for every call that the recorder
//! knows, and for many that it does not. Each row is recorded, looked at live at several moments, and replayed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use hindcast_fixtures::Fixture;
use object::{Object as _, ObjectSymbol as _};

use super::{Position, Recorded, ReplayError, state_of, wrong_visits};
use crate::{
    process::{Ended, Halt},
    record::{Effect, Event, SELF_CHECK, effect},
};

/// Rows after which nothing more can be recorded, and words of which the reason has one. To record such a row to its end
/// is right as well, as long as nothing that is shown is wrong.
const MAY_END: [(&[&str], &[&str]); 3] = [
    // What others write to shared memory, or what one mapping shows of another, is not seen.
    (
        &["share", "shared", "maps"],
        &[
            "child_writes_to_mapped_file",
            "child_writes_to_shared_memory",
            "clone_vm",
            "madvise_remove",
            "memfd_mapped_privately",
            "memfd_mapped_twice",
            "mmap_of_device",
            "copy_file_range_to_mapped_file",
            "fallocate_punches_mapped_file",
            "ftruncate_mapped_file",
            "mprotect_shared_mapping",
            "msync",
            "open_truncates_mapped_file",
            "sendfile_to_mapped_file",
            "splice_to_mapped_file",
            "truncate_mapped_file",
            "write_to_file_mapped_for_reading",
            "write_to_mapped_file",
            "write_to_mapped_file_opened_again",
            "mremap_doubles_a_shared_mapping",
            "read_into_shared_mapping",
            "remap_file_pages",
            "shmat",
            "store_to_shared_mapping",
            "vmsplice_gives",
        ],
    ),
    // A process that may not fork cannot be copied.
    (
        &["copied"],
        &["memfd_secret", "prctl_set_dumpable", "prctl_set_seccomp", "seccomp", "seccomp_that_forbids"],
    ),
    (&["shares its memory"], &["clone_vm"]),
];

/// Calls that no row makes, and why.
const WITHOUT_ROW: [(i64, &str); 0] = [];

/// No row stops so often, unless the recorder keeps it from going on.
const MOST_STOPS: usize = 200;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| Fixture::c("system_calls").flags(["-no-pie", "-Wall", "-Wextra"]).build().path)
}

/// The rows of one source file of the fixture, or all.
fn rows(file: Option<&str>) -> Vec<String> {
    let output = Command::new(program()).arg("list").args(file).output().unwrap();
    let rows: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(!rows.is_empty(), "{file:?} has no rows");
    rows
}

/// Where the function is in which the program is looked at.
fn look() -> u64 {
    let bytes = std::fs::read(program()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbols().find(|symbol| symbol.name() == Ok("look")).unwrap().address()
}

/// A row that was recorded to its end.
struct Row {
    recorded: Recorded,
    /// What it was like when it was looked at.
    seen: Vec<(Position, u64)>,
    printed: String,
    /// Why the recording ended before the program did.
    ended: Option<String>,
}

/// Runs a row under the recorder. Where it calls `look`, it is stopped, led a few steps further and looked at.
fn record(name: &str, checked: bool) -> Result<Row, String> {
    SELF_CHECK.set(checked);
    let mut recorded = Recorded::start(program(), &[name]);
    let look = look();
    let insert =
        |recorded: &mut Recorded| recorded.process.insert_breakpoint(look).map_err(|error| error.to_string());
    insert(&mut recorded)?;
    let mut seen = Vec::new();
    let mut random = Random::of(name);
    let mut stops = 0..MOST_STOPS;
    let halt = loop {
        stops.next().ok_or("it is stopped again and again, and does not get on")?;
        match recorded.process.run().map_err(|error| format!("it cannot go on: {error}"))? {
            Halt::Signal(tid, details) => recorded.process.deliver(tid, details.signal),
            Halt::Exec(_) => insert(&mut recorded)?,
            Halt::Breakpoint(tid, _) => {
                recorded.process.anchor().map_err(|error| format!("it cannot be copied: {error}"))?;
                for _ in 0..random.below(30) {
                    recorded.process.step(tid).map_err(|error| format!("it cannot be stepped: {error}"))?;
                }
                recorded.process.anchor().map_err(|error| format!("it cannot be copied: {error}"))?;
                let live = recorded.process.digest();
                let recorder = recorded.process.recorder_mut().unwrap();
                if let Some(position) = recorder.timeline.frontier().cloned() {
                    let anchor = recorder.timeline.get_mut(&position.anchor).unwrap();
                    anchor.pinned = true;
                    anchor.walked = anchor.walked.max(position.steps);
                    seen.push((position, live));
                }
                recorded.process.pass_breakpoint(tid);
            }
            halt => break halt,
        }
    };
    let printed = std::fs::read_to_string(recorded.output.path()).unwrap();
    if halt != Halt::Ended(Ended::Exited(0)) {
        return Err(format!("it ended with {halt:?} and printed {printed:?}"));
    }
    let ended = recorded.process.recorder().unwrap().why_incomplete().map(str::to_owned);
    Ok(Row { recorded, seen, printed, ended })
}

/// Whether a row is what it was when it is replayed.
fn check(name: &str) -> Result<(), String> {
    let mut row = record(name, true)?;
    if let Some(reason) = &row.ended {
        let expected = MAY_END
            .iter()
            .any(|(words, rows)| rows.contains(&name) && words.iter().any(|word| reason.contains(word)));
        if !expected {
            return Err(format!("the recording ends: {reason}"));
        }
    } else if row.seen.is_empty() && !row.printed.starts_with("skipped") {
        return Err("nothing of it was looked at".into());
    }
    row.recorded.replay_whole().map_err(|error| error.to_string())?;
    random_order(name, &mut row.seen);
    for (position, live) in &row.seen {
        let replica = row.recorded.with_context(|context| {
            context.replica_of(position, &mut None).map(|replica| state_of(&replica))
        });
        match replica {
            Ok(state) if state == *live => {}
            Ok(_) => return Err(format!("at {position} it is not what it was")),
            // It was withdrawn, and is not shown.
            Err(ReplayError::NoSuchMoment) if row.ended.is_some() => {}
            Err(error) => return Err(format!("{position} cannot be visited: {error}")),
        }
    }
    Ok(())
}

/// Every row of a source file of the fixture; all that are wrong are named.
fn check_file(file: &str) {
    let wrong: Vec<_> = rows(Some(file))
        .iter()
        .filter_map(|name| check(name).err().map(|problem| format!("{name}: {problem}")))
        .collect();
    assert!(wrong.is_empty(), "of system_calls/{file}.c these rows are wrong:\n{}", wrong.join("\n"));
}

#[test]
fn calls_with_many_faces_are_replayed_as_they_were() {
    check_file("control");
}

#[test]
fn requests_to_devices_are_replayed_as_they_were() {
    check_file("devices");
}

#[test]
fn files_are_replayed_as_they_were() {
    check_file("files");
}

#[test]
fn identity_and_limits_are_replayed_as_they_were() {
    check_file("identity");
}

#[test]
fn files_that_change_while_they_are_mapped_are_replayed_as_they_were() {
    check_file("mapped_files");
}

#[test]
fn the_address_space_is_replayed_as_it_was() {
    check_file("memory");
}

#[test]
fn rare_calls_are_replayed_as_they_were() {
    check_file("others");
}

#[test]
fn processes_are_replayed_as_they_were() {
    check_file("processes");
}

#[test]
fn signals_are_replayed_as_they_were() {
    check_file("signals");
}

#[test]
fn sockets_are_replayed_as_they_were() {
    check_file("sockets");
}

#[test]
fn clocks_and_timers_are_replayed_as_they_were() {
    check_file("time");
}

#[test]
fn waiting_is_replayed_as_it_was() {
    check_file("waiting");
}

/// The system writes what is left of the time when a call is stopped, and goes on with that.
#[test]
fn calls_that_are_stopped_in_the_middle_are_replayed_as_they_were() {
    let waiting: Vec<_> = rows(None).into_iter().filter(|name| name.starts_with("waits_in_")).collect();
    assert!(!waiting.is_empty());
    let check = |name: &String| {
        let mut recorded = Recorded::start(program(), &[name]);
        let (halt, seen) = recorded.run_with_stops(Duration::from_millis(10), 50);
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{name}");
        assert!(!seen.is_empty(), "{name}");
        match recorded.replay_whole() {
            Ok(_) => (wrong_visits(&mut recorded, &seen) > 0).then(|| format!("{name} is not what it was")),
            Err(error) => Some(format!("{name}: {error}")),
        }
    };
    let wrong: Vec<_> = waiting.iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "these rows are wrong:\n{}", wrong.join("\n"));
}

/// Whoever adds a call to the table adds a row for it.
#[test]
fn every_call_that_does_more_than_give_a_result_has_a_row() {
    // By number, the results that some row got.
    let mut results: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for name in rows(None) {
        // What is wrong with a row is told by its own test.
        let Ok(row) = record(&name, false) else { continue };
        let log = &row.recorded.process.recorder().unwrap().log;
        for (_, event) in log.range(0, log.len()) {
            let (number, result) = match &*event {
                Event::Call(call) => (call.number, call.result),
                Event::Barrier { number, result, .. } => (*number, *result),
                _ => continue,
            };
            results.entry(number).or_default().insert(result);
        }
    }
    // A call that the system only ever refuses is as good as seen: the row was skipped.
    let refused = [libc::EPERM, libc::ENOSYS, libc::EACCES].map(|error| i64::from(-error));
    let is_seen = |number: &i64| {
        results.get(number).is_some_and(|results| {
            let mut results = results.iter();
            results.any(|result| *result >= 0 || *result < -4095 || refused.contains(result))
        })
    };
    const LAST: i64 = 600;
    let missing: Vec<_> = (0..LAST)
        .filter(|number| {
            !matches!(effect(*number), Effect::Barrier | Effect::Result | Effect::Exit | Effect::Refused)
        })
        .filter(|number| !is_seen(number) && !WITHOUT_ROW.iter().any(|(without, _)| without == number))
        .collect();
    assert!(missing.is_empty(), "no row makes the system calls {missing:?} with success");
}

/// An order that has nothing to do with time.
fn random_order<T>(name: &str, list: &mut [T]) {
    let mut random = Random::of(name);
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last + 1));
    }
}

/// The same numbers for the same name.
struct Random(u64);

impl Random {
    fn of(name: &str) -> Self {
        Self(name.bytes().fold(12345, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
