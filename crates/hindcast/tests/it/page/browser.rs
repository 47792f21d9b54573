//! A real Chromium drives the page: `peers/page/browse.mjs`.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{crashed, overrun};
use crate::{sdk::peers, server::Server};

const SCENARIOS: [&str; 10] = [
    "sign_in",
    "open_the_crash",
    "click_the_guilty_write",
    "keys_step_in_both_directions",
    "a_breakpoint_is_set_and_removed_by_its_line",
    "what_others_do_is_followed",
    "it_works_without_scripts",
    "nothing_keeps_anybody_out",
    "it_fits_a_phone",
    "nothing_is_complained_about",
];

/// A line that the script prints.
#[derive(Deserialize)]
struct Outcome {
    scenario: String,
    ok: bool,
    detail: Value,
}

#[test]
fn a_browser_finds_the_guilty_write_of_a_recorded_crash() {
    let Some(peers) = peers() else { return };
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let session = crashed(&server, &key, &overrun());
    let document = "# Overruns\n\nAn overrun writes beyond the end of an array, over what lies behind it.";
    server.call(
        &key,
        "knowledge/add",
        json!({ "collection": "handbook", "name": "overruns.md", "text": document }),
    );
    // Where to keep pictures, for whoever wants to look: they are no test.
    let shots = std::env::var_os("HINDCAST_PAGE_SHOTS");
    let target = json!({
        "url": format!("http://localhost:{}", server.address.port()),
        "key": key, "session": session, "expression": "account->currency", "shots": shots,
    });
    let folder = peers.join("page");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/page/browse.mjs");
    let mut node = Command::new(folder.join("node_modules/node/bin/node"));
    node.current_dir(&folder).args([
        "--input-type=module",
        "--eval",
        &std::fs::read_to_string(script).unwrap(),
        "--",
    ]);
    node.arg(target.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = node.output().unwrap_or_else(|error| panic!("{error}: {:?}", node.get_program()));
    let printed = String::from_utf8(output.stdout).unwrap();
    let (mut ran, mut failed) = (Vec::new(), String::new());
    for line in printed.lines() {
        let Outcome { scenario, ok, detail } =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        println!("{} {scenario}: {detail}", if ok { "ok    " } else { "FAILED" });
        if !ok {
            failed += &format!("\n{scenario}: {}\n", detail.as_str().unwrap_or_default());
        }
        ran.push(scenario);
    }
    assert!(failed.is_empty() && output.status.success(), "{}{failed}", output.status);
    ran.retain(|scenario| scenario != "screenshots");
    assert_eq!(ran, SCENARIOS);
}
