//! A running server, the key of somebody who uses it, and the processes that it has started.

use std::path::{Path, PathBuf};

use hindcast_fixtures::Fixture;
use serde_json::{Value, json};

use crate::server::{Server, helpful_error};

/// A server with a key to it.
pub(crate) struct Hosted {
    pub(crate) server: Server,
    pub(crate) key: String,
}

impl Hosted {
    /// The text of a call that succeeds.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> String {
        self.answer(tool, arguments).0
    }

    /// The text and the content of a call that succeeds.
    pub(crate) fn answer(&self, tool: &str, arguments: Value) -> (String, Value) {
        let answer = self.server.call(&self.key, tool, arguments);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {answer}"));
        (text.to_owned(), result["structuredContent"].clone())
    }

    /// The error of a call that fails.
    pub(crate) fn refused(&self, tool: &str, arguments: Value) -> Value {
        helpful_error(&self.server.call(&self.key, tool, arguments))
    }

    /// The processes that the server has started, at any depth.
    pub(crate) fn processes(&self) -> Vec<u64> {
        descendants_of(self.server.pid().into())
    }
}

/// A server whose tenants see the fixtures, and the key of one.
pub(crate) fn for_tenant(environment: &[(&str, &str)]) -> Hosted {
    let sources = Fixture::c("escapes").build().source;
    let readable = format!("{},{}", fixtures_folder().display(), sources.parent().unwrap().display());
    let mut all = vec![("HINDCAST_DEBUG_READABLE", readable.as_str())];
    all.extend(environment);
    let server = Server::start_with(&all);
    let key = server.tenant_key();
    Hosted { server, key }
}

fn fixtures_folder() -> PathBuf {
    let built = Fixture::c("escapes").build().path;
    built.parent().and_then(Path::parent).unwrap().canonicalize().unwrap()
}

/// Runs `program`, which is the fixture `escapes`, and gives what it says of each attempt.
pub(crate) fn attempt(hosted: &Hosted, program: &Path, attempts: &[(&str, &str)]) -> String {
    let args: Vec<_> = attempts.iter().flat_map(|(what, with)| [*what, *with]).collect();
    let arguments = json!({ "program": program, "args": args, "stop_at_entry": false, "record": false });
    hosted.call("debugger/launch", arguments);
    let ended = hosted.call("debugger/wait", json!({ "until": "exited", "timeout_ms": 60_000 }));
    assert!(ended.contains("exit code 7") || ended.contains("code 7"), "{ended}");
    hosted.call("debugger/read_output", json!({ "limit": 65536 }))
}

/// Each attempt that was not refused.
pub(crate) fn succeeded(told: &str) -> Vec<&str> {
    told.lines().filter(|line| line.contains(": done")).collect()
}

/// All children of a process, also dead ones that it has not waited for.
pub(crate) fn children_of(parent: u64) -> Vec<u64> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u64 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may contain anything; state and parent follow.
        let ppid = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        Some((pid, ppid))
    });
    processes.filter(|&(_, ppid): &(u64, u64)| ppid == parent).map(|(pid, _)| pid).collect()
}

/// All processes below a process, the nearest first.
pub(crate) fn descendants_of(process: u64) -> Vec<u64> {
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(children_of(parent));
        at += 1;
    }
    found.split_off(1)
}
