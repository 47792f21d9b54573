//! Many sessions one after the other: nothing hangs, and nothing is left behind.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use hindcast_core::debug::{CodeBreakpoint, Ending, Movement, Place, StopReason, Trigger};
use hindcast_fixtures::{
    dotnet::{Runtime, program},
    oracle_size,
};

use crate::{
    attaching::{Server, stopped},
    debuggee::{Plan, on_both},
};

/// A few in CI.
fn rounds() -> usize {
    oracle_size(3, 200)
}

/// More than a runtime starts threads by itself, so that one for each round is noticed.
fn attach_rounds() -> usize {
    rounds().max(8)
}

on_both! {
    fn programs_are_launched_again_and_again(runtime: &Runtime) {
        let mut traces = Vec::new();
        for round in 0..rounds() {
            let mut debuggee = Plan::of("Hello").args(&["a", "b"]).stdin("x\n").launch(runtime);
            let pid = debuggee.backend.target().pid.unwrap();
            traces.push(Traces::of(pid));
            debuggee.break_at("greeting");
            assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
            match round % 3 {
                // To its end.
                0 => {
                    debuggee.go_on();
                    assert_eq!(debuggee.go_on().exit_code, Some(41));
                }
                // Dropped at a breakpoint.
                1 => {}
                // Dropped in the middle of its start.
                _ => drop(Plan::of("Hello").launch(runtime)),
            }
            drop(debuggee);
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "round {round}: {pid} is still there");
        }
        for trace in traces {
            assert_eq!(trace.left(), [""; 0]);
        }
    }

    fn a_program_is_attached_to_and_let_go_again_and_again(runtime: &Runtime) {
        let mut server = Server::start(runtime);
        let traces = Traces::of(server.child.id());
        let own = traces.left();
        let place = Place::Line { file: "Server.cs".into(), line: program("Server").line("handle") };
        let mut first = None;
        let mut before = Vec::new();
        for round in 0..attach_rounds() {
            let mut session = server.attach().unwrap();
            before = traces.pipes();
            stopped(session.run(Movement::Begin).unwrap());
            match round % 3 {
                // Let go at a breakpoint.
                0 => {
                    session.add_breakpoint(Trigger::Code(CodeBreakpoint::at(place.clone()))).unwrap();
                    server.ask("abc");
                    assert_eq!(stopped(session.run(Movement::Continue).unwrap()).reason, StopReason::Breakpoint);
                    session.end(Ending::Detach).unwrap();
                }
                // Let go while it runs, as far as we know.
                1 => {
                    session.interrupt().interrupt();
                    session.run(Movement::Continue).unwrap();
                    server.ask("abc");
                }
                // Let go where it stands.
                _ => server.ask("abc"),
            }
            drop(session);
            assert_eq!(server.line(), format!("{}: cba", round + 1), "it answers");
            let most = *first.get_or_insert_with(|| Counts::of(&server));
            eventually(&format!("round {round}: {most:?} at most"), &|| Counts::of(&server), |now| now.within(most));
            // The runtime makes its pipes anew for the next debugger, so one may be missing for a moment.
            let more: Vec<_> = traces.left().into_iter().filter(|name| !own.contains(name)).collect();
            assert_eq!(more, [""; 0], "round {round}");
        }
        // A runtime that ends while it makes its pipes anew leaves them.
        let made_anew = || traces.pipes().iter().filter(|pipe| !before.contains(pipe)).count();
        eventually("both pipes are made anew", &made_anew, |pipes| pipes == 2);
        drop(server.input.take());
        assert_eq!(server.line(), format!("served {}", attach_rounds()));
        assert_eq!(server.child.wait().unwrap().code(), Some(i32::try_from(attach_rounds()).unwrap()));
        assert_eq!(traces.left(), [""; 0]);
    }
}

/// What a program has open and running.
#[derive(Debug, Clone, Copy)]
struct Counts {
    descriptors: usize,
    threads: usize,
}

impl Counts {
    /// Without its connections to debuggers: they stay open as long as the library in this process, which never lets go.
    fn of(server: &Server) -> Self {
        let pid = server.child.id();
        let entries =
            |folder: &str| std::fs::read_dir(format!("/proc/{pid}/{folder}")).unwrap().filter_map(Result::ok);
        let pipe = format!("clr-debug-pipe-{pid}-");
        let paths = entries("fd").filter_map(|file| std::fs::read_link(file.path()).ok());
        let descriptors = paths.filter(|path| !path.to_string_lossy().contains(&pipe)).count();
        Self { descriptors, threads: entries("task").count() }
    }

    /// A runtime opens some files and starts some threads when it needs them, once; what each round adds is more than that.
    fn within(self, most: Self) -> bool {
        let once = 4 + attach_rounds() / 25;
        self.descriptors <= most.descriptors + once && self.threads <= most.threads + once
    }
}

/// Waits until what is looked at is as it should be.
#[track_caller]
fn eventually<T: Copy + std::fmt::Debug>(what: &str, look: &dyn Fn() -> T, is_right: impl Fn(T) -> bool) {
    let started = Instant::now();
    loop {
        let seen = look();
        if is_right(seen) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "never happened: {what}; it is {seen:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// How the files are named that a runtime or its debugger makes for one process: by its number and when it started.
struct Traces([String; 2]);

impl Traces {
    /// The process must live.
    fn of(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let since: u64 =
            stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        Self([format!("{pid:08x}{since:016x}"), format!("-{pid}-{since}-")])
    }

    /// The pipes for a debugger, and when each was made.
    fn pipes(&self) -> Vec<(String, SystemTime)> {
        let pipes = self.left().into_iter().filter(|name| name.starts_with("clr-debug-pipe-"));
        let made = |name: &String| std::fs::metadata(format!("/tmp/{name}")).and_then(|pipe| pipe.created());
        pipes.filter_map(|name| made(&name).ok().map(|made| (name, made))).collect()
    }

    /// Those that are there.
    fn left(&self) -> Vec<String> {
        let entries = ["/dev/shm", "/tmp"].map(|folder| std::fs::read_dir(folder).unwrap());
        let names = entries.into_iter().flatten().filter_map(Result::ok);
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut mine: Vec<_> = names.filter(|name| self.0.iter().any(|mark| name.contains(mark))).collect();
        mine.sort();
        mine
    }
}
