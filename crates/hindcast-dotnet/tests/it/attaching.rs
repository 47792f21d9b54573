//! Attaching to a running program, pausing, and letting go.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use hindcast_core::debug::{
    AttachRequest, CodeBreakpoint, DebugBackend, DebugEngine, DebugError, Ending, Language, Movement,
    Outcome, OutputLog, Place, StopReason, Trigger,
};
use hindcast_dotnet::DotnetEngine;
use hindcast_fixtures::dotnet::{self, Runtime};
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

use crate::debuggee::on_both;

/// A program that runs, mostly the server fixture.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// None when it was told that there is no more.
    pub(crate) input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(runtime: &Runtime) -> Self {
        Self::of(runtime.command(&dotnet::program("Server")))
    }

    /// Any program that says when it is ready, and then reads its input.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, input, output };
        assert!(server.line().starts_with("ready"));
        server
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn attach(&self) -> Result<Box<dyn DebugBackend>, DebugError> {
        DotnetEngine.attach(&AttachRequest {
            pid: self.child.id(),
            port: None,
            record: false,
            language: Language::Auto,
            just_my_code: true,
            output: Arc::new(OutputLog::new(1 << 16)),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        dotnet::kill(&mut self.child);
    }
}

pub(crate) fn stopped(outcome: Outcome) -> hindcast_core::debug::Stop {
    match outcome {
        Outcome::Stopped(stop) => stop,
        Outcome::Interrupted => panic!("it was interrupted"),
    }
}

on_both! {
    fn a_program_that_was_built_again_is_shown_as_it_runs(runtime: &Runtime) {
        let (program, other) = (dotnet::program("Server"), dotnet::program("Async"));
        let folder = tempfile::tempdir().unwrap();
        let copy = |from: &std::path::Path, name: &str| {
            let to = folder.path().join(name);
            // As a build does it: a new file takes the place of the old one.
            std::fs::copy(from, to.with_extension("new")).unwrap();
            std::fs::rename(to.with_extension("new"), &to).unwrap();
            to
        };
        let dll = copy(&program.dll, "Server.dll");
        let symbols = copy(&program.dll.with_extension("pdb"), "Server.pdb");
        copy(&program.dll.with_extension("runtimeconfig.json"), "Server.runtimeconfig.json");
        let begin = || {
            let mut command = Command::new(&runtime.dotnet);
            command.arg(&dll).env("DOTNET_ROOT", &runtime.root);
            Server::of(command)
        };
        let names = |server: &Server| {
            let mut session = server.attach().unwrap();
            stopped(session.run(Movement::Begin).unwrap());
            let ticker = session.threads().unwrap().into_iter().find(|thread| thread.name == "ticker").unwrap();
            let frames = session.stack(ticker.id, 20).unwrap().frames;
            let names: Vec<_> = frames.into_iter().filter_map(|frame| frame.location.function).collect();
            let modules = session.modules().unwrap();
            let symbols = modules.into_iter().find(|module| module.name == "Server.dll").unwrap().symbols;
            session.end(Ending::Detach).unwrap();
            (names, symbols)
        };
        let server = begin();
        let (before, loaded) = names(&server);
        let tick = "Fixtures.Server.Tick".to_owned();
        assert!(before.contains(&tick), "{before:?}");
        assert_eq!(loaded, format!("pdb ({})", symbols.display()));
        // Only the assembly is another one: the symbols are still those of what runs.
        copy(&other.dll, "Server.dll");
        let again = "the assembly is read from the program's memory: its file was replaced, or is not here";
        let (shown, loaded) = names(&server);
        assert_eq!((shown, loaded), (before.clone(), format!("pdb ({}; {again})", symbols.display())));
        copy(&other.dll.with_extension("pdb"), "Server.pdb");
        let (shown, loaded) = names(&server);
        assert!(shown.contains(&tick), "{shown:?}");
        assert_eq!(loaded, format!("none (`{}` is of another build; {again})", symbols.display()));
        std::fs::remove_file(&dll).unwrap();
        let (shown, _) = names(&server);
        assert!(shown.contains(&tick), "{shown:?}");
    }

    fn a_running_program_is_stopped_looked_at_and_let_go(runtime: &Runtime) {
        let mut server = Server::start(runtime);
        let program = dotnet::program("Server");
        let mut session = server.attach().unwrap();
        let stop = stopped(session.run(Movement::Begin).unwrap());
        assert_eq!(stop.reason, StopReason::Pause);
        let target = session.target().clone();
        assert_eq!((target.pid, target.name.as_str()), (Some(server.child.id()), "Server"));
        let threads = session.threads().unwrap();
        assert!(threads.iter().any(|thread| thread.name == "ticker"), "{threads:?}");
        assert!(threads.iter().any(|thread| thread.id.0 == 1 && thread.name == "Main Thread"), "{threads:?}");
        let line = program.line("handle");
        let place = Place::Line { file: "Server.cs".into(), line };
        session.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place))).unwrap();
        server.ask("debugger");
        let stop = stopped(session.run(Movement::Continue).unwrap());
        assert_eq!(stop.reason, StopReason::Breakpoint);
        let stack = session.stack(stop.thread, 10).unwrap();
        assert_eq!(stack.frames[0].location.line, Some(line));
        session.end(Ending::Detach).unwrap();
        drop(session);
        assert_eq!(server.line(), "1: debugger attached: True");
        server.ask("debugger");
        assert_eq!(server.line(), "2: debugger attached: False");
        // And once more.
        let mut session = server.attach().unwrap();
        stopped(session.run(Movement::Begin).unwrap());
        drop(session);
        server.ask("abc");
        assert_eq!(server.line(), "3: cba");
    }

    fn the_library_that_reads_the_program_gets_large_pages(runtime: &Runtime) {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("SKIPPED: this kernel has no large pages");
            return;
        }
        let server = Server::start(runtime);
        let mut session = server.attach().unwrap();
        let stop = stopped(session.run(Movement::Begin).unwrap());
        session.stack(stop.thread, 10).unwrap();
        let memory = std::fs::read_to_string("/proc/self/smaps").unwrap();
        // Nobody else of this process asks for them.
        let is_asked_for = |line: &str| line.starts_with("VmFlags:") && line.contains(" hg");
        assert!(memory.lines().any(is_asked_for), "{memory}");
    }

    fn a_program_that_is_killed_while_it_stands_has_ended(runtime: &Runtime) {
        for is_buried in [false, true] {
            let mut server = Server::start(runtime);
            let mut session = server.attach().unwrap();
            let stop = stopped(session.run(Movement::Begin).unwrap());
            server.child.kill().unwrap();
            if is_buried && let Err(error) = server.child.wait() {
                // The runtime's debugging library waits for children, too, and was first.
                assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::ECHILD as i32));
            }
            while session.stack(stop.thread, 10) != Err(DebugError::Ended) {}
            assert_eq!(session.threads().unwrap_err(), DebugError::Ended);
            assert_eq!(session.modules().unwrap_err(), DebugError::Ended);
            let end = session.ended_meanwhile().unwrap().unwrap();
            assert_eq!(end.reason, StopReason::Exit);
        }
    }

    fn a_pause_stops_a_program_that_runs(runtime: &Runtime) {
        let server = Server::start(runtime);
        let mut session = server.attach().unwrap();
        stopped(session.run(Movement::Begin).unwrap());
        for _ in 0..20 {
            let interrupt = session.interrupt();
            let ringing = std::thread::spawn(move || interrupt.interrupt());
            assert_eq!(session.run(Movement::Continue).unwrap(), Outcome::Interrupted);
            ringing.join().unwrap();
            let stop = session.pause().unwrap();
            assert_eq!(stop.reason, StopReason::Pause);
            assert!(!session.stack(stop.thread, 10).unwrap().frames.is_empty());
        }
    }

    fn a_runtime_that_does_not_listen_is_told_from_one_that_may_not(runtime: &Runtime) {
        let program = dotnet::program("Server");
        let refused = |server: &Server| format!("{:?}", server.attach().err().unwrap());
        let mut server = Server::start(runtime);
        let pid = server.child.id();

        let signal = |signal| kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
        signal(Signal::SIGSTOP);
        waitpid(Pid::from_raw(pid.cast_signed()), Some(WaitPidFlag::WUNTRACED)).unwrap();
        let halted = refused(&server);
        assert!(halted.contains("is stopped by a signal") && halted.contains(&format!("kill -CONT {pid}")), "{halted}");
        signal(Signal::SIGCONT);

        // It goes on, and can be attached to.
        let mut session = server.attach().unwrap();
        stopped(session.run(Movement::Begin).unwrap());
        drop(session);
        server.ask("abc");
        assert_eq!(server.line(), "1: cba");

        let server = Server::start(runtime);
        let pipes = std::fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().path());
        let mark = format!("/tmp/clr-debug-pipe-{}-", server.child.id());
        for pipe in pipes.filter(|path| path.to_string_lossy().starts_with(&mark)) {
            std::fs::remove_file(pipe).unwrap();
        }
        let gone = refused(&server);
        assert!(gone.contains("-in` is not there") && gone.contains("start the program again"), "{gone}");

        let mut command = runtime.command(&program);
        // The first is what .NET Core 3.1 goes by.
        command.envs([("COMPlus_EnableDiagnostics", "0"), ("DOTNET_EnableDiagnostics", "0")]);
        let disabled = refused(&Server::of(command));
        assert!(disabled.contains("debugging is switched off") && disabled.contains("without that variable"), "{disabled}");
    }

    fn what_cannot_be_attached_to_is_refused_with_a_reason(_runtime: &Runtime) {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let request = |pid| AttachRequest {
            pid,
            port: None,
            record: false,
            language: Language::Dotnet,
            just_my_code: true,
            output: Arc::new(OutputLog::new(0)),
        };
        let native = DotnetEngine.attach(&request(sleeper.id())).err().unwrap().to_string();
        assert!(native.contains("has not loaded a .NET runtime"), "{native}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let gone = DotnetEngine.attach(&request(sleeper.id())).err().unwrap();
        assert_eq!(gone, DebugError::ProcessNotFound(sleeper.id()));
    }
}
