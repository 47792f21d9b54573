//! Programs that run already are attached to, and run on when they are let go of, however that happens.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use hindcast_fixtures::adapters::{self, Script};
use serde_json::{Value, json};

use super::{client, data, local, refused, text};
use crate::knowledge::Client;

/// A program that was started by somebody else, and says what it does line by line.
struct Running {
    child: Child,
    lines: Receiver<String>,
    flag: PathBuf,
    _folder: tempfile::TempDir,
    /// What it started that does not end with it.
    others: Vec<u64>,
}

impl Running {
    /// Starts it in a folder, with the file that it looks for behind its arguments, and waits until it has said all of this.
    fn start(cwd: &Path, program: &str, args: &[String], env: &[(&str, &str)], says: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("flag");
        let mut command = Command::new(program);
        command
            .args(args)
            .arg(&flag)
            .current_dir(cwd)
            .envs(adapters::environment().unwrap())
            .envs(env.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        let running = Self { child, lines, flag, _folder: folder, others: Vec::new() };
        let mut missing = says.to_vec();
        while !missing.is_empty() {
            let line = running.next_line();
            missing.retain(|said| !line.contains(said));
        }
        running
    }

    fn next_line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(30)).expect("it says something")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails unless it sees a file that appears now.
    #[track_caller]
    fn assert_it_runs(&self) {
        std::fs::write(&self.flag, "").unwrap();
        while self.next_line() != "seen" {}
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What a debugger runs goes on when the debugger is killed.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            self.others.extend(children.split_whitespace().filter_map(|child| child.parse::<u64>().ok()));
        }
        for pid in &self.others {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(*pid).unwrap());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Attaches and looks around: the stop, a breakpoint, a value.
fn look(client: &mut Client, script: &Script, whom: &Value) -> Value {
    let attached = data(client, "attach", whom.clone());
    assert_eq!(
        (&attached["engine"], &attached["reason"]),
        (&json!("adapter"), &json!("pause")),
        "{attached}"
    );
    let line = script.line("spinning");
    let set = data(client, "set_breakpoint", json!({ "file": script.name(), "line": line }));
    assert_eq!(set["bound"][0]["line"], line, "{set}");
    let stop = data(client, "continue", json!({}));
    assert_eq!((&stop["reason"], &stop["location"]["line"]), (&json!("breakpoint"), &json!(line)), "{stop}");
    assert!(local(&stop, "count").parse::<u64>().unwrap() > 0, "{stop}");
    stop
}

/// Lets go of it in all ways: a program that stands, one that runs, and one whose debugger is killed.
fn attach_and_let_go(running: &mut Running, script: &Script, whom: &Value) {
    let Some(mut client) = client() else { return };
    look(&mut client, script, whom);
    let pid = data(&mut client, "status", json!({}))["sessions"][0]["pid"].as_u64().unwrap();
    if pid != u64::from(running.pid()) {
        running.others.push(pid);
    }
    text(&mut client, "disconnect", json!({}));
    running.assert_it_runs();

    look(&mut client, script, whom);
    text(&mut client, "remove_breakpoint", json!({ "id": "all" }));
    data(&mut client, "continue", json!({ "wait": false }));
    running.assert_it_runs();
    text(&mut client, "disconnect", json!({}));
    running.assert_it_runs();

    look(&mut client, script, whom);
    client.kill();
    running.assert_it_runs();
}

#[test]
fn python_is_attached_to_where_debugpy_listens() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("python/spin.py");
    let port = free_port();
    let listen = ["-m", "debugpy", "--listen", &format!("127.0.0.1:{port}")].map(str::to_owned);
    let args: Vec<_> = listen.into_iter().chain([script.path.display().to_string()]).collect();
    let mut running = Running::start(script.path.parent().unwrap(), "python3", &args, &[], &["ready"]);
    attach_and_let_go(&mut running, &script, &json!({ "port": port }));
    let pid = running.pid();
    attach_and_let_go(&mut running, &script, &json!({ "pid": pid }));
}

#[test]
fn node_is_attached_to_where_its_inspector_listens() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("javascript/spin.js");
    let port = free_port();
    let args = [format!("--inspect={port}"), script.path.display().to_string()];
    let mut running = Running::start(script.path.parent().unwrap(), "node", &args, &[], &["ready"]);
    attach_and_let_go(&mut running, &script, &json!({ "port": port }));
    let pid = running.pid();
    attach_and_let_go(&mut running, &script, &json!({ "pid": pid }));
}

#[test]
fn node_is_made_to_listen_when_it_is_attached_to_by_number() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("javascript/spin.js");
    // The port at which it listens when it is asked to.
    let args = [format!("--inspect-port={}", free_port()), script.path.display().to_string()];
    let mut running = Running::start(script.path.parent().unwrap(), "node", &args, &[], &["ready"]);
    let pid = running.pid();
    attach_and_let_go(&mut running, &script, &json!({ "pid": pid }));
}

#[test]
fn ruby_is_attached_to_at_its_port_and_at_its_file() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("ruby/spin.rb");
    let args = ["-r".to_owned(), "debug/open_nonstop".to_owned(), script.path.display().to_string()];
    let says = ["ready", "Debugger can attach"];
    let port = free_port().to_string();
    let mut running =
        Running::start(script.path.parent().unwrap(), "ruby", &args, &[("RUBY_DEBUG_PORT", &port)], &says);
    attach_and_let_go(&mut running, &script, &json!({ "port": port.parse::<u16>().unwrap() }));
    let pid = running.pid();
    attach_and_let_go(&mut running, &script, &json!({ "pid": pid }));

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut running = Running::start(
        script.path.parent().unwrap(),
        "ruby",
        &args,
        &[("RUBY_DEBUG_SOCK_DIR", folder)],
        &says,
    );
    let pid = running.pid();
    attach_and_let_go(&mut running, &script, &json!({ "pid": pid }));
}

#[test]
fn go_is_attached_to_where_delve_listens() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("go/spin/main.go");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("spin").display().to_string();
    let mut build = Command::new("go");
    build.args(["build", "-gcflags", "all=-N -l", "-o", &program]).arg(&script.path);
    assert!(build.status().unwrap().success());
    let port = free_port();
    let listen = format!("--listen=127.0.0.1:{port}");
    let args = ["exec", "--headless", "--accept-multiclient", "--continue", &listen, &program, "--"];
    let mut running =
        Running::start(script.path.parent().unwrap(), "dlv", &args.map(str::to_owned), &[], &["ready"]);
    attach_and_let_go(&mut running, &script, &json!({ "port": port }));
}

#[test]
fn java_is_attached_to_where_its_agent_listens() {
    if adapters::environment().is_none() {
        return;
    }
    let script = Script::new("java/Spin.java");
    let folder = tempfile::tempdir().unwrap();
    let classes = folder.path().display().to_string();
    let built = Command::new("javac").args(["-g", "-d", &classes]).arg(&script.path).status();
    assert!(built.unwrap().success());
    let port = free_port();
    let agent = format!("-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:{port}");
    let args = [agent, "-cp".into(), classes, "Spin".into()];
    let mut running = Running::start(script.path.parent().unwrap(), "java", &args, &[], &["ready"]);
    attach_and_let_go(&mut running, &script, &json!({ "port": port }));
}

#[test]
fn what_does_not_wait_for_debuggers_is_told_how_to() {
    let Some(mut client) = client() else { return };
    let script = Script::new("python/spin.py");
    let running = Running::start(
        script.path.parent().unwrap(),
        "python3",
        &[script.path.display().to_string()],
        &[],
        &["ready"],
    );
    let (_, why) = refused(&mut client, "attach", json!({ "pid": running.pid(), "language": "python" }));
    assert!(why.contains("does not wait for debuggers") && why.contains("debugpy --listen"), "{why}");
    let port = free_port();
    let (code, why) = refused(&mut client, "attach", json!({ "port": port }));
    assert_eq!(code, -32004);
    assert!(why.contains(&format!("nobody listens at port {port}")) && why.contains("--inspect"), "{why}");
    let (_, why) = refused(&mut client, "attach", json!({}));
    assert!(why.contains("give the `pid` of a process, or the `port`"), "{why}");
    let (_, why) = refused(&mut client, "attach", json!({ "pid": running.pid(), "port": port }));
    assert!(why.contains("give one of them"), "{why}");
    // Somebody else listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = std::thread::spawn(move || drop(listener.accept()));
    let (_, why) = refused(&mut client, "attach", json!({ "port": port, "language": "python" }));
    assert!(why.contains(&format!("debugpy cannot be reached at port {port}")), "{why}");
    silent.join().unwrap();
    running.assert_it_runs();
}

#[test]
fn a_server_that_waits_for_requests_is_attached_to_and_stops_at_the_next_one() {
    let Some(mut client) = client() else { return };
    let script = Script::new("javascript/idle.js");
    let args = [format!("--inspect-port={}", free_port()), script.path.display().to_string()];
    let running = Running::start(script.path.parent().unwrap(), "node", &args, &[], &[]);
    let ready = running.next_line();
    let port: u16 = ready.strip_prefix("ready ").unwrap().parse().unwrap();
    let attached = data(&mut client, "attach", json!({ "pid": running.pid() }));
    assert_eq!(attached["reason"], "pause", "{attached}");
    assert!(attached["detail"].as_str().unwrap().contains("none of its functions is running"), "{attached}");
    let line = script.line("answers");
    text(&mut client, "set_breakpoint", json!({ "file": "idle.js", "line": line }));
    data(&mut client, "continue", json!({ "wait": false }));
    let asked = std::thread::spawn(move || {
        let mut answer = String::new();
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_string(&mut answer).unwrap();
        answer
    });
    let stop = data(&mut client, "wait", json!({}));
    assert_eq!((&stop["reason"], &stop["location"]["line"]), (&json!("breakpoint"), &json!(line)), "{stop}");
    data(&mut client, "continue", json!({ "wait": false }));
    assert_eq!(asked.join().unwrap(), "answer 1\n");
}
