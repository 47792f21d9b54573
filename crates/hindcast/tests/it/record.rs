//! `hindcast record` runs a program as its caller's shell would: same descriptors, same signals, same exit code.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Output, Stdio},
};

use hindcast_fixtures::Fixture;
use nix::{
    pty::{OpenptyResult, openpty},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::server::{HINDCAST, command};

/// Not text, and more than any buffer on the way holds.
fn twenty_megabytes(folder: &Path) -> (String, Vec<u8>) {
    let mut state = 1u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(20_000_000)
    .collect();
    let file = folder.join("bytes");
    std::fs::write(&file, &bytes).unwrap();
    (file.to_str().unwrap().to_owned(), bytes)
}

/// A program with the environment that the binary is tested in, and `$hindcast` for the binary.
fn with_environment(program: &str) -> Command {
    let mut started = Command::new(program);
    for (name, value) in command().get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    started.env("hindcast", HINDCAST).stdin(Stdio::null());
    started
}

fn shell(script: &str) -> Command {
    let mut shell = with_environment("bash");
    shell.arg("-c").arg(script);
    shell
}

fn run(script: &str) -> Output {
    shell(script).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn twenty_megabytes_arrive_whole_in_a_file_and_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = twenty_megabytes(folder.path());
    let copy = folder.path().join("copy");
    for round in 0..16 {
        let to_file = command()
            .args(["record", "--", "cat", &path])
            .stdout(File::create(&copy).unwrap())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(to_file.success());
        assert!(std::fs::read(&copy).unwrap() == bytes, "round {round}: the file is not the same");
        let piped = command().args(["record", "--", "cat", &path]).stderr(Stdio::null()).output().unwrap();
        assert!(piped.status.success());
        assert!(piped.stdout == bytes, "round {round}: {} bytes came", piped.stdout.len());
    }
}

#[test]
fn input_comes_as_it_is_from_a_file_and_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = twenty_megabytes(folder.path());
    let mut file = File::open(&path).unwrap();
    file.seek(SeekFrom::Start(12_345)).unwrap();
    let from_file = command().args(["record", "--", "cat"]).stdin(file).output().unwrap();
    assert!(from_file.stdout == bytes[12_345..], "it goes on where the file stands");
    let from_pipe = shell(&format!("cat {path} | $hindcast record -- cat")).output().unwrap();
    assert!(from_pipe.stdout == bytes);
    // What it does not read is still there for who comes next.
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let shared = run(&format!("{{ $hindcast record -- head -n 1; cat; }} < {path}"));
    assert_eq!(text(&shared.stdout), "one\ntwo\n", "{}", text(&shared.stderr));
}

#[test]
fn an_argument_that_is_no_text_is_refused_and_not_changed() {
    use std::os::unix::ffi::OsStrExt;
    let argument = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let output = command().args(["record", "--", "/bin/echo"]).arg(argument).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("argument 1") && told.contains("not UTF-8") && told.contains("hint:"), "{told}");
}

#[test]
fn a_variable_that_people_who_check_recordings_set_is_known() {
    let output =
        command().env("HINDCAST_SELF_CHECK", "0").args(["record", "--", "/bin/true"]).output().unwrap();
    assert!(!text(&output.stderr).contains("HINDCAST_SELF_CHECK"), "{output:?}");
}

#[test]
fn the_program_has_the_descriptors_of_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let program = Fixture::c("streams").build().path;
    std::fs::write(folder.path().join("file"), "some words\n").unwrap();
    for redirection in [
        "< file > out 2> err",
        "< file >> out 2>&1",
        "<&- > out 2> err",
        "<&- >&- 2> err",
        "<&- >&- 2>&-",
        "< /dev/null > /dev/null 2>&1",
        "<> file 1>&0 5< file",
        "| cat",
        "2>&1 | cat",
    ] {
        let seen = |prefix: &str, name: &str| {
            let (here, program) = (folder.path().display(), program.display());
            let script = format!("cd {here}; {prefix}{program} look 9> {name} {redirection}");
            let ran = run(&script);
            let seen = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(!seen.is_empty(), "{script}: {}", text(&ran.stderr));
            std::fs::write(folder.path().join("out"), "before").unwrap();
            seen
        };
        seen("", "first");
        let alone = seen("", "alone");
        assert_eq!(seen("$hindcast record -- ", "recorded"), alone, "{redirection}");
    }
}

#[test]
fn the_program_has_the_signals_of_its_caller() {
    for dispositions in ["", "trap '' PIPE", "trap '' HUP INT USR1"] {
        let seen = |prefix: &str| {
            let ran = run(&format!("{dispositions}\nexec {prefix} grep -E 'Sig(Blk|Ign)' /proc/self/status"));
            // Two are the C library's own.
            let all_but_its_own = |line: &str| {
                let (name, bits) = line.split_once(":\t").unwrap();
                format!("{name} {:x}", u64::from_str_radix(bits, 16).unwrap() & !(3 << 31))
            };
            text(&ran.stdout).lines().map(all_but_its_own).collect::<Vec<_>>()
        };
        assert_eq!(seen("$hindcast record --"), seen(""), "{dispositions}");
    }
}

#[test]
fn a_program_whose_reader_goes_is_ended_as_ever() {
    let ran = run("$hindcast record -- yes 2> /dev/null | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(text(&ran.stdout), "y\n141\n");
    // Our own words go nowhere then; the exit code is still the program's.
    let ran = run("$hindcast record -- sh -c 'echo one; exit 7' 2>&1 | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(text(&ran.stdout), "one\n7\n");
}

#[test]
fn what_is_sent_to_the_recorder_reaches_the_program() {
    for (program, signal, code) in [
        ("echo ready; read word", Signal::SIGTERM, 128 + 15),
        ("echo ready; read word", Signal::SIGINT, 128 + 2),
        // A signal that comes right before a `read` would leave it waiting, recorded or not.
        ("trap 'exit 9' HUP; echo ready; while :; do sleep 0.05; done", Signal::SIGHUP, 9),
        ("trap 'echo again; exit 8' USR1; echo ready; while :; do sleep 0.05; done", Signal::SIGUSR1, 8),
    ] {
        let mut recorder = command()
            .args(["record", "--", "sh", "-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        recorder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"ready\n");
        kill(Pid::from_raw(recorder.id() as i32), signal).unwrap();
        let input = recorder.stdin.take();
        assert_eq!(recorder.wait().unwrap().code(), Some(code), "{program}");
        drop(input);
    }
}

/// A shell with job control on a terminal of its own.
struct OnTerminal {
    shell: std::process::Child,
    terminal: File,
    shown: String,
}

impl OnTerminal {
    fn start(script: &str) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let mut session = with_environment("setsid");
        session.args(["--ctty", "--wait", "bash", "-c", &format!("set -m; {script}")]);
        let end = || Stdio::from(slave.try_clone().unwrap());
        let shell = session.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { shell, terminal: File::from(master), shown: String::new() }
    }

    /// Reads until this is shown.
    fn see(&mut self, wanted: &str) {
        let mut bytes = [0; 4096];
        while !self.shown.contains(wanted) {
            let count = self.terminal.read(&mut bytes).unwrap_or(0);
            assert!(count > 0, "no `{wanted}` in:\n{}", self.shown);
            self.shown.push_str(&text(&bytes[..count]));
        }
        let behind = self.shown.find(wanted).unwrap() + wanted.len();
        self.shown.drain(..behind);
    }

    fn press(&mut self, keys: &[u8]) {
        self.terminal.write_all(keys).unwrap();
    }

    fn end(mut self) {
        assert!(self.shell.wait().unwrap().success());
    }
}

const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";

#[test]
fn a_terminal_stays_one() {
    let mut terminal = OnTerminal::start(
        "$hindcast record -- sh -c '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && : < /dev/tty && tty; read word; echo got $word'",
    );
    terminal.see("/dev/pts/");
    terminal.press(b"this\n");
    terminal.see("got this");
    terminal.see("exited with code 0");
    terminal.end();
}

#[test]
fn ctrl_c_is_for_the_program_and_the_recording_is_kept() {
    let mut terminal =
        OnTerminal::start("$hindcast record -- sh -c 'echo rea\"\"dy; read word'; echo \"code $?\"");
    terminal.see("ready");
    terminal.press(CTRL_C);
    terminal.see("was ended by SIGINT");
    terminal.see("code 130");
    terminal.end();
    let mut terminal = OnTerminal::start(
        // A signal that comes right before a `read` would leave it waiting, recorded or not.
        "$hindcast record -- sh -c 'trap \"echo caught; over=1\" INT; echo rea\"\"dy; until [ $over ]; do sleep 0.05; done; \
         echo went on'; echo \"code $?\"",
    );
    terminal.see("ready");
    terminal.press(CTRL_C);
    terminal.see("caught");
    terminal.see("went on");
    terminal.see("code 0");
    terminal.end();
}

#[test]
fn ctrl_z_stops_both_and_the_shell_lets_both_go_on() {
    let mut terminal = OnTerminal::start(
        "$hindcast record -- sh -c 'echo rea\"\"dy; read word; echo got $word'; echo \"stopped $?\"; fg; echo \"code $?\"",
    );
    terminal.see("ready");
    terminal.press(CTRL_Z);
    terminal.see("stopped 148");
    terminal.see("hindcast record");
    terminal.press(b"this\n");
    terminal.see("got this");
    terminal.see("code 0");
    terminal.end();
}

#[test]
fn the_stated_range_is_all_that_can_be_visited() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.bin");
    let ran = command()
        .args(["record", "-o", trace.to_str().unwrap(), "--", "sh", "-c", "echo one; echo two; echo last"])
        .output()
        .unwrap();
    let said = text(&ran.stderr);
    let (_, range) = said.split_once("from moment ").unwrap_or_else(|| panic!("{said}"));
    let (start, rest) = range.split_once(" to ").unwrap();
    let end = rest.split_whitespace().next().unwrap();
    let mut client = crate::debugger::Client::new();
    client.call("debugger/launch", serde_json::json!({ "trace": trace }));
    let listed = client.call("debugger/timeline", serde_json::json!({ "kinds": ["output"] }));
    let last = listed.lines().find(|line| line.contains("last")).unwrap_or_else(|| panic!("{listed}"));
    let last = last.split_whitespace().find(|word| word.contains('+')).unwrap();
    assert!(start < last && last <= end, "{start} {last} {end}");
    for moment in [start, end] {
        let there = client.call("debugger/goto", serde_json::json!({ "moment": moment }));
        assert!(there.contains(moment), "{there}");
    }
}

#[test]
fn traps_and_places_of_the_recorder_change_nothing_for_the_program() {
    let program = Fixture::c("traps").build().path;
    let recorded = |mode: &str| {
        let ended = run(&format!("\"$hindcast\" record -- '{}' {mode}", program.display()));
        (ended.status.code(), text(&ended.stderr))
    };
    let (code, said) = recorded("raise");
    assert_eq!(code, Some(10), "{said}");
    assert!(!said.contains("then no more"), "{said}");
    // It takes away what the recorder works with.
    let (code, said) = recorded("unmap");
    assert_eq!(code, Some(128 + Signal::SIGSEGV as i32), "{said}");
    assert!(said.contains("can no longer be copied"), "{said}");
}

#[test]
fn a_program_that_stops_itself_without_a_terminal_is_let_go_on_by_its_child() {
    let program = Fixture::c("stopped").build().path;
    let ended = run(&format!("setsid --wait timeout 60 \"$hindcast\" record -- '{}'", program.display()));
    assert_eq!(ended.status.code(), Some(5), "{}", text(&ended.stderr));
}
