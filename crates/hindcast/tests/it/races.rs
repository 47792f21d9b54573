//! `hindcast record --until-failure` finds races that plain runs hardly ever show.

use std::{
    path::Path,
    process::{Command, Output},
};

use hindcast_fixtures::{Fixture, oracle_size};

use crate::server::command;

const RACES: [&str; 10] = [
    "lost_update",
    "made_twice",
    "two_owners",
    "torn_sum",
    "lost_item",
    "no_room",
    "taken_away",
    "deadlock",
    "early_flag",
    "lost_wakeup",
];

fn program() -> String {
    Fixture::c("races").flags(["-O0", "-pthread"]).build().path.to_string_lossy().into_owned()
}

/// Looks for a failure of a race, and keeps what fails in `folder`.
fn look_for(race: &str, tries: u32, folder: &Path) -> (Output, String) {
    let mut looking = command();
    looking.current_dir(folder).args(["record", "--until-failure", "--hang-after", "5", "--tries"]);
    let output = looking.arg(tries.to_string()).args(["--", &program(), race]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn races_that_plain_runs_hardly_ever_show_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut missed = Vec::new();
    let races = &RACES[..oracle_size(5, RACES.len())];
    for &race in races {
        let (output, said) = look_for(race, 200, folder.path());
        let code = output.status.code();
        match code {
            Some(0) => missed.push(race),
            // An assertion, a crash, or a hang.
            Some(134 | 139 | 124) => assert!(said.contains("with seed"), "{race}: {said}"),
            _ => panic!("{race} ended with {code:?}: {said}"),
        }
    }
    assert!(5 * missed.len() <= races.len(), "{missed:?}");
}

/// How often the races fail without a recorder. Other work on the machine makes them fail more often, so this is asked only
/// where all oracles run.
#[test]
fn plain_runs_hardly_ever_show_them() {
    let runs = oracle_size(0, 300);
    let program = program();
    for race in RACES {
        let fails = |_: &usize| !Command::new(&program).arg(race).output().expect("it runs").status.success();
        let failed = (0..runs).filter(fails).count();
        assert!(failed * 100 <= runs.max(100), "{race}: {failed} of {runs}");
    }
}

#[test]
fn the_run_that_failed_is_kept_and_can_be_opened_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (output, said) = look_for("lost_item", 200, folder.path());
    assert_eq!(output.status.code(), Some(134), "{said}");
    let seed = said.split("with seed ").nth(1).and_then(|rest| rest.lines().next()).expect("a seed");
    let kept = folder.path().join(format!("races-seed-{seed}.trace"));
    assert!(said.contains(&format!("races-seed-{seed}.trace")) && kept.exists(), "{said}");
    let opens = said.lines().find(|line| line.contains("debugger/launch")).unwrap_or_default();
    assert!(opens.contains("\"trace\":") && opens.contains(&format!("races-seed-{seed}.trace")), "{said}");
    let shown = command().arg("replay").arg(&kept).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("SIGABRT"), "{shown:?}");
}

#[test]
fn a_program_that_never_fails_is_said_to_have_passed() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        command().args(["record", "--until-failure", "--tries", "3", "--", "/bin/true"]).output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("3 runs, each with another schedule, and none failed"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
