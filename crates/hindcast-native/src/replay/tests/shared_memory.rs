//! Memory that others could write to: it is as it was then, or the recording ends and says why.

use std::{fs, io::Read as _, os::unix::fs::FileExt as _, path::Path, time::Duration};

use hindcast_fixtures::Fixture;

use super::{Recorded, wrong_visits};
use crate::{
    process::{Ended, Halt, Process},
    record::SELF_CHECK,
    replay::ReplayError,
    sys::{Tid, TraceError},
};

fn start(arguments: &[&str]) -> Recorded {
    let program = Fixture::c("shared").flags(["-O1", "-no-pie"]).build().path;
    SELF_CHECK.set(true);
    Recorded::start(&program, arguments)
}

fn printed_alone(arguments: &[&str]) -> Vec<u8> {
    let program = Fixture::c("shared").flags(["-O1", "-no-pie"]).build().path;
    std::process::Command::new(program).args(arguments).output().unwrap().stdout
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A program that shares its memory with nobody is recorded to its end, and looking back changes nothing of it.
fn check_alone(arguments: &[&str]) {
    let expected = printed_alone(arguments);
    for file in arguments.iter().skip(1).filter(|file| Path::new(file).exists()) {
        fs::remove_file(file).unwrap();
    }
    let mut recorded = start(arguments);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(1), 10);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{arguments:?}");
    let recorder = recorded.process.recorder().unwrap();
    assert!(recorder.is_active(), "{arguments:?}: {:?}", recorder.why_ended());
    assert!(!seen.is_empty(), "{arguments:?}");
    assert_eq!(fs::read(recorded.output.path()).unwrap(), expected, "{arguments:?}");
    assert_eq!(wrong_visits(&mut recorded, &seen), 0, "{arguments:?}");
    recorded.replay_whole().unwrap();
}

#[test]
fn shared_memory_of_one_program_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["anonymous", "segment", "protected", "memory", "forks"] {
        check_alone(&[kind]);
    }
    for kind in ["file", "both_ways", "removed"] {
        check_alone(&[kind, text(&folder.path().join(kind))]);
    }
}

#[test]
fn a_visit_to_the_past_does_not_change_the_live_program() {
    for kind in ["anonymous", "segment", "protected", "memory"] {
        let expected = printed_alone(&[kind]);
        let mut recorded = start(&[kind]);
        let (halt, visits) = recorded.run_with_visits(Duration::from_millis(2), 5);
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
        assert!(visits > 0);
        assert_eq!(fs::read(recorded.output.path()).unwrap(), expected, "{kind}");
    }
}

/// The recording ends where others come to write, what came before can be visited, and the program is not disturbed.
fn check_ends(arguments: &[&str], reason: &str) {
    let mut recorded = start(arguments);
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)), "{arguments:?}");
    let why = recorded.process.recorder().unwrap().why_incomplete().unwrap_or_default().to_owned();
    assert!(why.contains(reason), "{arguments:?}: {why}");
    recorded.replay_whole().unwrap();
}

#[test]
fn a_recording_ends_where_others_can_write_to_memory() {
    let folder = tempfile::tempdir().unwrap();
    check_ends(&["child"], "started a process that shares memory");
    check_ends(&["child_file", text(&folder.path().join("file"))], "started a process that shares memory");
    check_ends(&["alias"], "the same memory at two places");
    check_ends(&["large"], "no more than 256 MB");
    check_ends(&["given"], "gave descriptors to another process");
    check_ends(&["given_before", text(&folder.path().join("given"))], "which another process may write to");
    let path = folder.path().join("open");
    let _writer = fs::File::create(&path).unwrap();
    check_ends(&["file", text(&path)], "which another process may write to");
}

#[test]
fn a_recording_ends_when_somebody_opens_what_the_program_maps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut recorded = start(&["other", text(&path)]);
    let halt = recorded.run_until(|recorded| fs::read(recorded.output.path()).unwrap() == b"ready\n");
    assert!(matches!(halt, Halt::Interrupted(_)));
    recorded.process.anchor().unwrap();
    assert!(recorded.process.recorder().unwrap().is_active());
    let known = recorded.process.recorder().unwrap().log.len();
    let mut bytes = vec![0; 8192];
    bytes[0] = 42;
    fs::write(&path, bytes).unwrap();
    let halt = recorded.run_until(|_| false);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert_eq!(fs::read(recorded.output.path()).unwrap(), b"ready\n42\n");
    let recorder = recorded.process.recorder().unwrap();
    assert_eq!(
        recorder.why_incomplete(),
        Some("another process opened a file that the program maps and can write to")
    );
    assert_eq!(recorder.log.len(), known, "what may be false was withdrawn");
    recorded.replay_whole().unwrap();
}

/// Nobody knows who has what it shares, and since when.
#[test]
fn a_process_that_shares_memory_is_not_recorded_from_an_attach_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let writer = fs::File::create(&path).unwrap();
    writer.set_len(8192).unwrap();
    let program = Fixture::c("shared").flags(["-O1", "-no-pie"]).build().path;
    for kind in ["other", "reads"] {
        let mut command = std::process::Command::new(&program);
        let mut child =
            command.args([kind, text(&path)]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let mut process = Process::attach(Tid(child.id() as i32)).unwrap();
        let refused = process.record_running(process.witness());
        assert!(matches!(refused, Err(TraceError::NotRecordable(_))), "{kind}: {refused:?}");
        process.detach();
        // It goes on, and sees what is written.
        writer.write_all_at(&[42], 0).unwrap();
        assert!(child.wait().unwrap().success(), "{kind}");
        writer.write_all_at(&[0], 0).unwrap();
    }
}

/// Another process comes and goes between two looks at who uses the memory.
#[test]
fn a_recording_ends_when_somebody_used_a_segment_that_the_program_maps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("done");
    let mut recorded = start(&["other_segment", text(&path)]);
    let printed = |recorded: &Recorded| fs::read_to_string(recorded.output.path()).unwrap();
    let halt = recorded.run_until(|recorded| printed(recorded).ends_with('\n'));
    assert!(matches!(halt, Halt::Interrupted(_)));
    recorded.process.anchor().unwrap();
    assert!(recorded.process.recorder().unwrap().is_active());
    printed_alone(&["write_to_segment", printed(&recorded).trim()]);
    fs::write(&path, "").unwrap();
    assert_eq!(recorded.run_until(|_| false), Halt::Ended(Ended::Exited(0)));
    assert!(printed(&recorded).ends_with("\n42\n"));
    let why = recorded.process.recorder().unwrap().why_incomplete().unwrap_or_default().to_owned();
    assert!(why.contains("another process may write to"), "{why}");
    recorded.replay_whole().unwrap();
}

#[test]
fn what_a_program_saw_in_a_file_that_has_changed_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![7; 8192]).unwrap();
    let mut recorded = start(&["later", text(&path)]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(2), usize::MAX);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert!(!seen.is_empty());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    fs::write(&path, vec![9; 8192]).unwrap();
    let refused = seen.keys().filter(|position| {
        recorded.with_context(|context| {
            matches!(context.replica_of(position, &mut None), Err(ReplayError::Changed(_)))
        })
    });
    assert!(refused.count() > 0);
    assert!(matches!(recorded.replay_whole(), Err(ReplayError::Changed(_))));
}
