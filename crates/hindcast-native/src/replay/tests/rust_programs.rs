//! Programs in Rust that everybody has who builds one: `cargo`, and tests that run beside each other.

use hindcast_fixtures::{debian::Nature, oracle_size};

use super::{check_program, check_run};

#[test]
fn cargo_tells_its_version_as_without_a_recorder() {
    check_program(&[env!("CARGO"), "--version"]);
}

#[test]
fn a_test_binary_with_eight_threads_runs_as_without_a_recorder() {
    if oracle_size(0, 1) == 0 {
        return;
    }
    let this = std::env::current_exe().unwrap();
    // Tests that make no process. Which of them ends first is a matter of chance.
    let command = [this.to_str().unwrap(), "--test-threads=8", "look::", "record::log::"];
    check_run(&command, &|| {}, Nature::Random);
}
