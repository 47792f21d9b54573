//! Files that a program's debug information names are opened only if they are plain ones.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use hindcast_fixtures::Fixture;
use serde_json::json;

use crate::{
    debugger::is_alive,
    hosted::{Hosted, for_tenant},
    server::{Server, eventually, helpful_error},
};

/// What a server or a worker may take at most.
const MOST_MEMORY: u64 = 300 << 20;
/// A file that is waited for, or has no end, takes longer than any machine needs.
const LONGEST: Duration = Duration::from_secs(20);

/// A folder that programs of tenants can look into.
fn open_folder() -> (tempfile::TempDir, PathBuf) {
    let beside = Fixture::c("escapes").build().path;
    let folder = tempfile::tempdir_in(beside.ancestors().nth(2).unwrap()).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

fn run_in(folder: &Path, command: &str) {
    let words: Vec<_> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Those who may do everything are no better off: what would harm the server harms all.
fn unconfined_and_tenant() -> [Hosted; 2] {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    [Hosted { server, key }, for_tenant(&[])]
}

/// The most memory that was ever resident; nothing for a process that has ended.
fn peak_bytes(process: u64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024)
}

/// Ends the session; nothing of it may be left, and nothing may have taken much memory.
fn check_end(hosted: &Hosted) {
    let processes = hosted.processes();
    assert!(processes.len() >= 2, "{processes:?}");
    let peaks = processes.iter().map(|&process| peak_bytes(process));
    for peak in peaks.chain([hosted.server.peak_bytes()]) {
        assert!(peak < MOST_MEMORY, "{} MB", peak >> 20);
    }
    hosted.call("debugger/disconnect", json!({}));
    for process in processes {
        eventually("a process of the session ends", || !is_alive(process));
    }
}

#[test]
fn a_source_that_is_a_device_or_a_pipe_is_told_of_and_not_read() {
    let (_guard, folder) = open_folder();
    run_in(&folder, "mkfifo pipe.c");
    let (device, pipe) = (PathBuf::from("/dev/zero"), folder.join("pipe.c"));
    for (name, source) in [("device", &device), ("pipe", &pipe)] {
        let text = format!("#line 1 \"{}\"\nint main(void) {{\n return 0;\n}}\n", source.display());
        std::fs::write(folder.join(format!("{name}_names.c")), text).unwrap();
        run_in(&folder, &format!("cc -g -o {name} {name}_names.c"));
    }
    let [unconfined, tenant] = unconfined_and_tenant();
    let (unread, outside) = ("cannot be read here", "is outside the folders that may be used");
    for (hosted, name, source, why) in [
        (&unconfined, "device", &device, unread),
        (&unconfined, "pipe", &pipe, unread),
        (&tenant, "device", &device, outside),
        (&tenant, "pipe", &pipe, unread),
    ] {
        let began = Instant::now();
        let launched = hosted.call("debugger/launch", json!({ "program": folder.join(name) }));
        let told = format!("no source text: `{}` {why}", source.display());
        assert!(launched.contains(&told), "{launched}");
        let statement = json!({ "file": source, "statement": "return 0" });
        let set = hosted.server.call(&hosted.key, "debugger/set_breakpoint", statement).to_string();
        assert!(set.contains("to look for the statement"), "{set}");
        for method in ["resources/read", "resources/subscribe"] {
            let uri = format!("debugger://source/{}", source.display());
            helpful_error(&hosted.server.rpc(&hosted.key, method, json!({ "uri": uri })).json());
        }
        let stepped = hosted.call("debugger/step_forward", json!({ "granularity": "line" }));
        assert!(stepped.contains(&told), "{stepped}");
        assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
        check_end(hosted);
    }
}

#[test]
fn a_pipe_in_the_place_of_separate_debug_information_keeps_nobody_waiting() {
    let (_guard, folder) = open_folder();
    let text = "int main(void) {\n int heron = 1;\n return heron - 1;\n}\n";
    std::fs::write(folder.join("split.c"), text).unwrap();
    for command in [
        "cc -g -gsplit-dwarf -c split.c -o split.o",
        "cc -o split split.o",
        "cc -g -o linked split.c",
        "objcopy --only-keep-debug linked linked.debug",
        "objcopy --strip-debug linked",
        "objcopy --add-gnu-debuglink=linked.debug linked",
    ] {
        run_in(&folder, command);
    }
    let askers = unconfined_and_tenant();
    for (program, file) in [("split", "split.dwo"), ("linked", "linked.debug")] {
        // First as it should be, so that the file is one that is looked for.
        for is_pipe in [false, true] {
            if is_pipe {
                run_in(&folder, &format!("rm {file}"));
                run_in(&folder, &format!("mkfifo {file}"));
            }
            for hosted in &askers {
                let began = Instant::now();
                let launched = hosted.call("debugger/launch", json!({ "program": folder.join(program) }));
                assert!(launched.contains("main"), "{launched}");
                let variables = hosted.server.call(&hosted.key, "debugger/get_variables", json!({}));
                assert_eq!(variables.to_string().contains("heron"), !is_pipe, "{program}: {variables}");
                assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
                check_end(hosted);
            }
        }
    }
}
