//! Profiles in the configuration file.

use std::{path::Path, process::Command, sync::Arc};

use hindcast_fixtures::adapters;
use serde_json::json;

use super::{data, python, refused, text};
use crate::knowledge::Client;

/// A client with this configuration file; none where these tests are skipped.
pub(super) fn configured(configuration: &str) -> Option<Client> {
    configured_with(configuration, &[])
}

/// The same with more variables.
pub(super) fn configured_with(configuration: &str, more: &[(&str, &str)]) -> Option<Client> {
    let environment = adapters::environment()?;
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let file = folder.path().join("config.toml");
    std::fs::write(&file, configuration).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hindcast"));
    command.env("HINDCAST_CONFIG", file);
    command.envs(environment).envs(more.iter().copied()).env(super::MARK, folder.path());
    Some(Client::by(folder, command))
}

#[test]
fn a_profile_of_the_configuration_debugs_files_of_its_own_kind() {
    let configuration = r#"
        [debug.adapters.snake]
        title = "Snake"
        languages = ["snake"]
        extensions = ["snake"]
        commands = [["python3", "-m", "debugpy.adapter"]]
        program_is_started_by = "terminal"
        uncaught = ["uncaught"]

        [debug.adapters.snake.launch]
        program = "{program}"
        args = "{args}"
        cwd = "{cwd}"
        console = "integratedTerminal"
        stopOnEntry = "{stop_at_entry}"
    "#;
    let Some(mut client) = configured(configuration) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("app.snake");
    std::fs::copy(&python().script.path, &program).unwrap();
    let said = text(&mut client, "launch", json!({ "program": program, "stdin": "hello\n" }));
    assert!(said.contains("Engine: Snake (snake)"), "{said}");
    let line = python().script.line("loop_body");
    text(&mut client, "set_breakpoint", json!({ "file": "app.snake", "line": line }));
    let stop = data(&mut client, "continue", json!({}));
    assert_eq!(stop["location"]["line"], line, "{stop}");
}

#[test]
fn a_profile_that_is_wrong_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[debug.adapters.lua]\ncomands = []\n").unwrap();
    let shown = run(&["config", "show", "--config", file.to_str().unwrap()], folder.path());
    assert!(
        shown.contains("debug.adapters") && shown.contains("lua") && shown.contains("comands"),
        "{shown}"
    );
}

fn run(arguments: &[&str], folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hindcast"));
    let output = command.args(arguments).arg("--data-dir").arg(folder).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn a_language_that_nobody_knows_is_refused_with_those_that_there_are() {
    let Some(mut client) = super::client() else { return };
    let program = python().script.path;
    let (code, why) = refused(&mut client, "launch", json!({ "program": program, "language": "cobol" }));
    assert_eq!(code, -32602);
    assert!(why.contains("there is no language `cobol`") && why.contains("`python`"), "{why}");
}

#[test]
fn an_adapter_that_is_not_installed_is_named_with_what_to_install() {
    let Some(mut client) = super::client_with(&[("PATH", "/nowhere")]) else { return };
    for (program, adapter) in [(python().script.path, "debugpy"), (super::go().script.path, "delve")] {
        let (code, why) = refused(&mut client, "launch", json!({ "program": program }));
        assert_eq!(code, -32602);
        assert!(
            why.contains(adapter) && why.contains("cannot be started") && why.contains("· install "),
            "{why}"
        );
    }
}
