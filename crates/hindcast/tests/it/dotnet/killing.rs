//! Programs, workers and servers that are killed at random moments: nobody hangs, nothing is left, and what was attached to
//! runs on.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hindcast_fixtures::{
    dotnet::{self, DotnetProgram, Runtime},
    oracle_size,
};
use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::{Value, json};

use super::{Running, on_both, once, refusal, refused, text};
use crate::{
    debugger::is_alive,
    knowledge::Client,
    server::{Dice, eventually},
    workers::{is_worker, kill},
};

/// What a session does when something is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Beginning,
    Stepping,
    Evaluating,
    Running,
}

const MOMENTS: [Moment; 4] = [Moment::Beginning, Moment::Stepping, Moment::Evaluating, Moment::Running];

/// The moments of a test, each with dice of its own.
fn moments(seed: u64) -> impl Iterator<Item = (Moment, Dice)> {
    let rounds = oracle_size(MOMENTS.len(), 50);
    MOMENTS.into_iter().cycle().take(rounds).zip(seed..).map(|(moment, seed)| (moment, Dice(seed)))
}

/// Lets a random time pass: of what is asked meanwhile nobody knows how far it got.
fn a_while(stage: &Stage, dice: &mut Dice, moment: Moment) {
    // A launch takes longest, and has most that can be in the way.
    let most = match (moment, stage.attached) {
        (Moment::Beginning, None) => 400_000,
        _ => 40_000,
    };
    let until = Instant::now() + Duration::from_micros(dice.roll(most) as u64);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// A folder for temporary files of its own, by which all processes of a test are known.
struct Stage {
    program: DotnetProgram,
    temporary: tempfile::TempDir,
    root: String,
    /// A program that was running before, and is attached to.
    attached: Option<u32>,
    /// All such programs. Where one is killed, its runtime leaves files behind, which are not ours.
    started: Vec<u32>,
}

impl Stage {
    fn new(runtime: &Runtime) -> Self {
        let root = runtime.root.to_str().unwrap().to_owned();
        let temporary = tempfile::tempdir().unwrap();
        Self { program: dotnet::program("Server"), temporary, root, attached: None, started: Vec::new() }
    }

    /// One with a program that is running.
    fn with_running(runtime: &Runtime) -> (Self, Running) {
        let mut stage = Self::new(runtime);
        let running = stage.run_another(runtime);
        (stage, running)
    }

    /// Starts a program, and attaches to that from now on.
    fn run_another(&mut self, runtime: &Runtime) -> Running {
        let mut command = runtime.command(&self.program);
        command.envs(self.environment());
        let running = Running::of(command);
        self.attached = Some(running.pid());
        self.started.push(running.pid());
        running
    }

    fn folder(&self) -> &str {
        self.temporary.path().to_str().unwrap()
    }

    fn environment(&self) -> [(&str, &str); 2] {
        [("DOTNET_ROOT", &self.root), ("TMPDIR", self.folder())]
    }

    fn client(&self) -> Client {
        let mut client = Client::over(tempfile::tempdir().unwrap(), &self.environment());
        // What a server asks a worker once, it has asked then.
        works(self, &mut client);
        client
    }

    /// All living processes with this folder, except the server and what it attaches to.
    fn processes(&self) -> Vec<u64> {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |&pid: &u64| {
            let is_known = self.attached.is_some_and(|known| u64::from(known) == pid);
            !is_known
                && has(pid, "environ", self.folder())
                && !has(pid, "cmdline", "--data-dir")
                && is_alive(pid)
        };
        numbers.filter(is_ours).collect()
    }

    fn worker(&self) -> Option<u64> {
        // A guardian is a worker's copy.
        let workers: Vec<_> = self.processes().into_iter().filter(|&pid| is_worker(pid)).collect();
        workers.iter().copied().find(|&pid| parent(pid).is_none_or(|parent| !workers.contains(&parent)))
    }

    /// The program, before and after it has become one.
    fn launched(&self) -> Option<u64> {
        let worker = self.worker()?;
        let grandparent = |pid: u64| parent(pid).and_then(parent);
        self.processes().into_iter().find(|&pid| grandparent(pid) == Some(worker))
    }

    /// Everything that was launched is gone, and nothing of it is left.
    fn is_clean(&self, mut seen: BTreeSet<u64>) {
        eventually("all processes end", || {
            let left = self.processes();
            seen.extend(&left);
            left.is_empty()
        });
        let known: Vec<_> = self.started.iter().map(|pid| format!("-{pid}-")).collect();
        let is_left = |name: &String| !known.iter().any(|known| name.contains(known));
        let left = || names(self.temporary.path()).into_iter().filter(is_left).collect::<Vec<_>>();
        eventually("no file is left", || left().is_empty());
        let marks: Vec<_> = seen.iter().map(|pid| format!("{pid:08x}")).collect();
        let is_left =
            |name: &String| name.starts_with("sem.clr") && marks.iter().any(|mark| name.contains(mark));
        eventually("no semaphore is left", || !names(Path::new("/dev/shm")).iter().any(is_left));
    }

    /// What a client asks to begin a session.
    fn beginning(&self) -> (&'static str, Value) {
        match self.attached {
            Some(pid) => ("debugger/attach", json!({ "pid": pid })),
            None => ("debugger/launch", json!({ "program": self.program.dll })),
        }
    }

    /// Brings a session to a breakpoint in a thread that never ends.
    fn at_a_tick(&self, ask: &mut dyn FnMut(&str, Value) -> Value) {
        let (tool, arguments) = self.beginning();
        ask(tool, arguments);
        let line = self.program.line("tick");
        ask("debugger/set_breakpoint", json!({ "file": "Server.cs", "line": line }));
        let stopped = ask("debugger/continue", json!({}));
        assert_eq!(stopped["location"]["line"], line, "{stopped}");
    }

    /// What a client asks again and again.
    fn doing(&self, moment: Moment) -> (&'static str, Value) {
        let call = "System.Environment.GetEnvironmentVariable(\"TMPDIR\")";
        match moment {
            Moment::Beginning => self.beginning(),
            Moment::Stepping => ("debugger/step_forward", json!({})),
            Moment::Evaluating => ("debugger/evaluate", json!({ "expression": call, "allow_calls": true })),
            Moment::Running => ("debugger/continue", json!({ "timeout_ms": 20_000 })),
        }
    }
}

fn parent(pid: u64) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn has(pid: u64, file: &str, what: &str) -> bool {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Has a session do something and kills `victim` meanwhile. Gives the answer that tells of it.
fn kill_meanwhile(
    stage: &Stage,
    client: &mut Client,
    (moment, mut dice): (Moment, Dice),
    victim: fn(&Stage) -> Option<u64>,
) -> Value {
    if moment != Moment::Beginning {
        stage.at_a_tick(&mut |tool, arguments| client.call(tool, arguments));
    }
    if moment == Moment::Running {
        client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    }
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut pid = None;
            eventually("there is somebody to kill", || {
                pid = victim(stage);
                pid.is_some()
            });
            a_while(stage, &mut dice, moment);
            kill(pid.unwrap());
        });
        let (tool, arguments) = stage.doing(moment);
        loop {
            let is_killed = killer.is_finished();
            let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
            let result = &answer["result"];
            let state = result["structuredContent"]["state"].as_str().unwrap_or("paused");
            if !result.is_object() || state == "exited" {
                return answer;
            }
            assert!(!is_killed || state == "running", "{moment:?}: what was killed goes on: {answer}");
            if moment == Moment::Beginning {
                // It was quicker than the killer.
                eventually("the killer is done", || killer.is_finished());
                let step = json!({ "name": "debugger/step_forward", "arguments": {} });
                return client.request("tools/call", step);
            }
        }
    })
}

/// Another session can be had, and it is whole.
fn works(stage: &Stage, client: &mut Client) {
    let launched = text(client, "launch", json!({ "program": stage.program.dll }));
    assert!(launched.contains("Stopped at entry"), "{launched}");
    text(client, "disconnect", json!({}));
    stage.is_clean(BTreeSet::new());
}

/// What an answer says: the data's state, or the error's code, and how it is told.
fn told(answer: &Value) -> (String, String) {
    match answer["result"]["content"][0]["text"].as_str() {
        Some(text) => {
            (answer["result"]["structuredContent"]["state"].as_str().unwrap_or_default().into(), text.into())
        }
        None => {
            let (code, said) = refusal(answer);
            (code.to_string(), said)
        }
    }
}

/// The session is shown as ended, for the reason that counts.
fn has_ended(client: &mut Client, moment: Moment, why: &[&str]) {
    let mut status = String::new();
    eventually("the session is shown as ended", || {
        status = text(client, "status", json!({}));
        // What could not be begun is no session.
        let has_none = moment == Moment::Beginning && status.starts_with("No debug session");
        has_none || (status.contains(": exited") && why.iter().any(|why| status.contains(why)))
    });
}

#[test]
fn a_program_that_is_killed_has_ended_for_its_session() {
    on_both(|runtime| {
        let stage = Stage::new(runtime);
        let mut client = stage.client();
        for (moment, dice) in moments(1) {
            let answer = kill_meanwhile(&stage, &mut client, (moment, dice), Stage::launched);
            let (state, said) = told(&answer);
            let is_clear = match state.as_str() {
                "exited" => said.contains("Ended by SIGKILL"),
                "-32005" => {
                    let clear = ["program has ended", "program was ended by SIGKILL", "program was killed"];
                    clear.iter().any(|text| said.contains(text))
                }
                "-32602" => {
                    moment == Moment::Beginning && said.contains("ended before") && said.contains("(SIGKILL)")
                }
                _ => false,
            };
            assert!(is_clear, "{moment:?}: {answer}");
            has_ended(&mut client, moment, &["SIGKILL", "the program was killed"]);
            works(&stage, &mut client);
        }
    });
}

#[test]
fn an_attached_program_that_is_killed_has_ended_for_its_session() {
    on_both(|runtime| {
        let mut stage = Stage::new(runtime);
        let mut client = stage.client();
        for (moment, dice) in moments(6) {
            let _running = stage.run_another(runtime);
            let answer =
                kill_meanwhile(&stage, &mut client, (moment, dice), |stage| stage.attached.map(u64::from));
            let (state, said) = told(&answer);
            let is_clear = match state.as_str() {
                "exited" => said.contains("its exit code is unknown"),
                "-32005" => {
                    ["program has ended", "program was killed"].iter().any(|text| said.contains(text))
                }
                "-32004" => moment == Moment::Beginning && said.contains("there is no process"),
                _ => false,
            };
            assert!(is_clear, "{moment:?}: {answer}");
            has_ended(&mut client, moment, &["its exit code is unknown", "the program was killed"]);
            works(&stage, &mut client);
        }
    });
}

#[test]
fn what_a_signal_has_stopped_is_paused_and_is_stopped_again_when_it_is_let_go_of() {
    on_both(|runtime| {
        let (stage, mut running) = Stage::with_running(runtime);
        let mut client = stage.client();
        let (tool, arguments) = stage.beginning();
        let pid = running.pid();
        let send = |signal| {
            let pid = Pid::from_raw(pid.cast_signed());
            nix::sys::signal::kill(pid, signal).unwrap();
        };
        let is_stopped = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            status.contains("State:\tT")
        };
        for (round, goes_on, pauses) in [(1, true, true), (2, true, false), (3, false, false)] {
            client.call(tool, arguments.clone());
            if goes_on {
                text(&mut client, "continue", json!({ "wait": false }));
            }
            send(Signal::SIGSTOP);
            eventually("it is stopped", is_stopped);
            if pauses {
                let paused = text(&mut client, "pause", json!({}));
                assert!(paused.contains("Paused at"), "{paused}");
            }
            text(&mut client, "disconnect", json!({}));
            eventually("it is stopped again", is_stopped);
            send(Signal::SIGCONT);
            running.ask("abc");
            assert_eq!(running.line(), format!("{round}: cba"));
        }
    });
}

#[test]
fn what_was_attached_to_runs_on_when_a_call_in_it_does_not_return() {
    on_both(|runtime| {
        let (stage, mut running) = Stage::with_running(runtime);
        let mut client = stage.client();
        stage.at_a_tick(&mut |tool, arguments| client.call(tool, arguments));
        let call = json!({ "expression": "usleep(30000000)", "allow_calls": true });
        let (_, said) = refused(&mut client, "evaluate", call);
        assert!(said.contains("native code") || said.contains("did not return in time"), "{said}");
        text(&mut client, "disconnect", json!({}));
        running.ask("abc");
        assert_eq!(running.line(), "1: cba");
    });
}

#[test]
fn nobody_attaches_to_a_worker() {
    once(|runtime| {
        let stage = Stage::new(runtime);
        let mut client = stage.client();
        let (tool, arguments) = stage.beginning();
        client.call(tool, arguments);
        let worker = stage.worker().unwrap();
        let (code, said) = refused(&mut client, "attach", json!({ "pid": worker, "language": "c" }));
        assert_eq!(code, -32003, "{said}");
        assert!(said.contains("belongs to hindcast itself"), "{said}");
        text(&mut client, "disconnect", json!({}));
        stage.is_clean(BTreeSet::new());
    });
}

#[track_caller]
fn is_lost(moment: Moment, answer: &Value) {
    let (state, said) = told(answer);
    let is_clear = state == "-32005" && said.contains("its worker process was killed");
    assert!(is_clear, "{moment:?}: {answer}");
}

#[test]
fn a_worker_that_is_killed_takes_its_program_along() {
    on_both(|runtime| {
        let stage = Stage::new(runtime);
        let mut client = stage.client();
        for (moment, dice) in moments(2) {
            let answer = kill_meanwhile(&stage, &mut client, (moment, dice), Stage::worker);
            is_lost(moment, &answer);
            stage.is_clean(BTreeSet::new());
            has_ended(&mut client, moment, &["its worker process was killed"]);
            works(&stage, &mut client);
        }
    });
}

#[test]
fn what_was_attached_to_runs_on_when_its_worker_is_killed() {
    on_both(|runtime| {
        let (stage, mut running) = Stage::with_running(runtime);
        let mut client = stage.client();
        for (round, (moment, dice)) in (1..).zip(moments(3)) {
            let answer = kill_meanwhile(&stage, &mut client, (moment, dice), Stage::worker);
            is_lost(moment, &answer);
            running.ask("abc");
            assert_eq!(running.line(), format!("{round}: cba"), "{moment:?}");
            works(&stage, &mut client);
        }
    });
}

/// Kills a worker when it begins its `number`th write.
struct WriteKiller {
    strace: Child,
    writes: tempfile::NamedTempFile,
}

impl WriteKiller {
    fn set(worker: u64, number: usize) -> Self {
        let writes = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.args(["--follow-forks", "--trace=write", "--output"]).arg(writes.path());
        command.arg(format!("--inject=write:signal=SIGKILL:when={number}"));
        command.arg(format!("--attach={worker}"));
        let mut strace = command.stderr(Stdio::piped()).spawn().expect("strace is installed");
        let mut said = BufReader::new(strace.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains(" attached")));
        Self { strace, writes }
    }

    /// Whether it was killed between the two halves of a message that writes memory.
    fn has_split_a_message(mut self) -> bool {
        let pid = Pid::from_raw(self.strace.id().cast_signed());
        nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
        self.strace.wait().unwrap();
        let said = std::fs::read_to_string(self.writes.path()).unwrap();
        let mut writes = said.lines().filter(|line| line.contains(" write(")).rev();
        let (last, before) = (writes.next().unwrap_or_default(), writes.next().unwrap_or_default());
        !last.contains(", 48") && before.contains(r#""\7\0\0\0"#) && before.contains(", 48)")
    }
}

#[test]
fn what_was_attached_to_runs_on_when_its_worker_is_killed_within_an_evaluation() {
    on_both(|runtime| {
        let (mut stage, mut running) = Stage::with_running(runtime);
        let mut client = stage.client();
        let mut asked = 0;
        for number in (1..1000).step_by(oracle_size(2, 1)) {
            stage.at_a_tick(&mut |tool, arguments| client.call(tool, arguments));
            let killer = WriteKiller::set(stage.worker().unwrap(), number);
            let (tool, arguments) = stage.doing(Moment::Evaluating);
            let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
            client.request("tools/call", json!({ "name": "debugger/disconnect", "arguments": {} }));
            let is_whole = answer["result"].is_object();
            // What happens then is not known.
            if killer.has_split_a_message() && !is_whole {
                (stage, running) = Stage::with_running(runtime);
                client = stage.client();
                asked = 0;
                continue;
            }
            running.ask("abc");
            asked += 1;
            assert_eq!(running.line(), format!("{asked}: cba"), "killed at its write {number}");
            if is_whole {
                assert!(number > 20, "it was not killed");
                return;
            }
        }
        panic!("it makes more writes than an evaluation can need");
    });
}

/// Has a server do something and kills it meanwhile.
fn kill_server(stage: &Stage, (moment, mut dice): (Moment, Dice)) {
    let mut client = stage.client();
    if moment != Moment::Beginning {
        stage.at_a_tick(&mut |tool, arguments| client.call(tool, arguments));
    }
    if moment == Moment::Running {
        client.call("debugger/remove_breakpoint", json!({ "id": "all" }));
    }
    let (tool, arguments) = stage.doing(moment);
    // The first of them must have been begun, and the last not yet answered.
    let requests = if moment == Moment::Beginning { 1 } else { 20 };
    for _ in 0..requests {
        client.tell("tools/call", json!({ "name": tool, "arguments": arguments }));
    }
    eventually("there is a worker", || stage.worker().is_some());
    a_while(stage, &mut dice, moment);
    let processes = stage.processes().into_iter().collect();
    client.kill();
    stage.is_clean(processes);
}

#[test]
fn a_server_that_is_killed_takes_worker_and_program_along() {
    on_both(|runtime| {
        let stage = Stage::new(runtime);
        moments(4).for_each(|round| kill_server(&stage, round));
    });
}

#[test]
fn what_was_attached_to_runs_on_when_the_server_is_killed() {
    on_both(|runtime| {
        let (stage, mut running) = Stage::with_running(runtime);
        for (round, moment) in (1..).zip(moments(5)) {
            kill_server(&stage, moment);
            running.ask("abc");
            assert_eq!(running.line(), format!("{round}: cba"));
        }
    });
}

#[test]
fn what_was_left_by_both_server_and_worker_is_attached_to_again() {
    on_both(|runtime| {
        let (stage, mut running) = Stage::with_running(runtime);
        let mut client = stage.client();
        let (tool, arguments) = stage.beginning();
        client.call(tool, arguments.clone());
        let worker = i32::try_from(stage.worker().unwrap()).unwrap();
        // Neither may have the time to let go of it: the worker first stands still.
        let send = |signal| nix::sys::signal::kill(Pid::from_raw(worker), signal).unwrap();
        send(Signal::SIGSTOP);
        client.kill();
        send(Signal::SIGKILL);
        eventually("the worker is gone", || !is_alive(u64::try_from(worker).unwrap()));
        let mut next = stage.client();
        next.call(tool, arguments);
        next.call("debugger/disconnect", json!({}));
        running.ask("abc");
        assert_eq!(running.line(), "1: cba");
    });
}
