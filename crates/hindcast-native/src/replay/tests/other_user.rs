//! A program that runs as another user than whoever records it, so that its copies may not open what we can.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    time::Duration,
};

use hindcast_fixtures::Fixture;

use super::{Recorded, wrong_visits};
use crate::{
    process::{Ended, Halt},
    record::SELF_CHECK,
};

const NOBODY: u32 = 65534;

#[test]
fn a_program_that_sets_its_user_is_recorded_and_replayed() {
    // Only who may trace everything gets such a program to keep its rights; others run it with their own.
    let is_root = nix::unistd::geteuid().is_root();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("program");
    fs::copy(Fixture::c("system_calls").flags(["-no-pie", "-Wall", "-Wextra"]).build().path, &program)
        .unwrap();
    if is_root {
        chown(&program, Some(NOBODY), None).unwrap();
    }
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    SELF_CHECK.set(true);
    // It maps a file, after the libraries that it needs.
    let mut recorded = Recorded::start(&program, &["mmap"]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(1), 20);
    let printed = fs::read_to_string(recorded.output.path()).unwrap();
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{printed}");
    let recorder = recorded.process.recorder().unwrap();
    assert_eq!(recorder.why_incomplete(), None);
    assert!(!seen.is_empty());
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
    recorded.replay_whole().unwrap();
}
