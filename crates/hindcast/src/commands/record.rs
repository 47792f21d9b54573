//! `hindcast record`: runs a program under the recorder, as if it ran alone, and tells what was recorded.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Read, Write},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result};
use hindcast_core::{
    debug::{Movement, OutputStream, Stdin, StopAtEntry, StopReason, ThreadId, TraceFormat, TraceRequest},
    identity::Caller,
};
use hindcast_services::{
    Events,
    debug::{DebugService, ExportTo, LaunchOptions, Mask, Session, State, Until, Viewport},
};
use tokio::sync::mpsc;

use super::{patience, recorded_runtime, serve::StopSignals};
use crate::{config::Config, options::Record, wiring};

/// How long output may wait to be shown at most.
const LOOK_AGAIN: u64 = 200;
/// As much of what was printed is read at once.
const PIECE: usize = 64 << 10;
/// What shells answer for a program that a signal ended.
const SIGNALLED: i32 = 128;
/// What Rust lets a program exit with that panics.
const PANICKED: i32 = 101;
const INTERRUPTED: u8 = 130;

pub(super) fn run(config: &Config, options: Record) -> Result<ExitCode> {
    let service = wiring::debug_service(config, wiring::debug_engine(), Events::default())?;
    let runtime = recorded_runtime()?;
    let code = runtime.block_on(async {
        let mut stop = StopSignals::new()?;
        let mut screen = Screen::of_process();
        let code = tokio::select! {
            code = record(&service, options, &mut screen) => code,
            () = stop.next() => Ok(INTERRUPTED),
        };
        service.end_all().await;
        code
    });
    // A blocked read of standard input must not keep the process.
    runtime.shutdown_background();
    Ok(ExitCode::from(code?))
}

/// Where the program's output and our own words go.
struct Screen<'a> {
    stdout: Box<dyn Write + 'a>,
    stderr: Box<dyn Write + 'a>,
}

impl Screen<'_> {
    fn of_process() -> Self {
        Self { stdout: Box::new(std::io::stdout()), stderr: Box::new(std::io::stderr()) }
    }

    /// Shows what was printed since, and returns up to where.
    fn show(&mut self, session: &Session, mut since: u64) -> Result<u64> {
        loop {
            let chunk = session.raw_output(since, PIECE);
            for (stream, bytes) in &chunk.pieces {
                let to = if *stream == OutputStream::Stdout { &mut self.stdout } else { &mut self.stderr };
                to.write_all(bytes)?;
            }
            since = chunk.next;
            if !chunk.more {
                self.stdout.flush()?;
                self.stderr.flush()?;
                return Ok(since);
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<()> {
        writeln!(self.stderr, "{text}")?;
        Ok(self.stderr.flush()?)
    }
}

/// Runs the program to its end or to its crash; the exit code is the program's own.
async fn record(service: &DebugService, options: Record, screen: &mut Screen<'_>) -> Result<u8> {
    let caller = Caller::local();
    let output = options.output.map(|file| service.new_file(&caller, &file)).transpose()?;
    let mut command = options.command.into_iter();
    let program = command.next().context("no program is named")?;
    let (stdin, mut typed) = standard_input()?;
    let launch = LaunchOptions {
        program: program.into(),
        args: command.map(|argument| argument.to_string_lossy().into_owned()).collect(),
        stop_at_entry: StopAtEntry::No,
        stdin,
        record: true,
        ..LaunchOptions::default()
    };
    let (program, args) = (launch.program.clone(), launch.args.clone());
    let started = Instant::now();
    // Whoever runs their own program sees what it prints.
    let (session, _) = service.launch(&caller, launch, Mask::new(false), &patience(0)).await?;
    let view = follow(&session, &mut typed, screen).await?;
    screen.say(&format!("\nhindcast: {}", summary(&session, &view, started)))?;
    if view.state == State::Paused {
        screen.say(&format!("\n{}", session.autopsy(10, 1).await?))?;
        screen.say(&how_to_go_back(&session, &program.display().to_string(), &args))?;
    }
    if let Some(file) = output {
        let request = TraceRequest { format: TraceFormat::Binary, start_snapshot: None, end_snapshot: None };
        let exported = session.export(request, ExportTo::File(file.clone()), &patience(u64::MAX)).await?;
        let (shown, bytes) = (file.display(), exported.bytes);
        screen
            .say(&format!("hindcast: wrote {shown} ({bytes} bytes); `hindcast replay {shown}` opens it"))?;
    }
    Ok(exit_code(&session))
}

/// What the program reads: a file as it is, what comes through a pipe as a whole, a terminal line by line.
fn standard_input() -> Result<(Stdin, Option<mpsc::Receiver<Option<String>>>)> {
    let mut input = std::io::stdin();
    if input.is_terminal() {
        let (lines, typed) = mpsc::channel(16);
        std::thread::Builder::new().name("standard input".into()).spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { break };
                if lines.blocking_send(Some(line + "\n")).is_err() {
                    return;
                }
            }
            let _ = lines.blocking_send(None);
        })?;
        return Ok((Stdin::Terminal, Some(typed)));
    }
    if let Ok(file) = std::fs::canonicalize("/proc/self/fd/0")
        && file.is_file()
    {
        return Ok((Stdin::File(file), None));
    }
    let mut text = String::new();
    input.read_to_string(&mut text).context(
        "cannot read standard input as text · hint: give it as a file: `hindcast record -- PROGRAM < FILE`",
    )?;
    Ok((Stdin::Text(text), None))
}

/// Shows what the program prints, and gives it what is typed, until it has ended or crashed.
async fn follow(
    session: &Arc<Session>,
    typed: &mut Option<mpsc::Receiver<Option<String>>>,
    screen: &mut Screen<'_>,
) -> Result<Viewport> {
    let mut shown = 0;
    loop {
        let patience = patience(LOOK_AGAIN);
        let view = tokio::select! {
            view = session.wait(Until::Output, &patience) => view,
            line = next_line(typed) => {
                let eof = line.is_none();
                // It may have ended meanwhile, or never read.
                let _ = session.write_input(line.unwrap_or_default(), eof).await;
                if eof {
                    *typed = None;
                }
                continue;
            }
        };
        shown = screen.show(session, shown)?;
        match view.state {
            State::Running => {}
            State::Exited => return Ok(view),
            State::Paused if is_crash(session, &view) => return Ok(view),
            State::Paused => drop(session.depart(Movement::Continue).await?),
        }
    }
}

async fn next_line(typed: &mut Option<mpsc::Receiver<Option<String>>>) -> Option<String> {
    match typed {
        Some(lines) => lines.recv().await.flatten(),
        None => std::future::pending().await,
    }
}

/// Whether going on would only end it.
fn is_crash(session: &Session, view: &Viewport) -> bool {
    const DEADLY: [&str; 7] = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"];
    match view.reason {
        Some(StopReason::Signal) => {
            let stop = session.standing().scene.map(|scene| scene.stop.clone());
            stop.and_then(|stop| stop.signal)
                .is_some_and(|signal| DEADLY.contains(&&*signal.name) && !signal.handled)
        }
        // A panic in another thread than the first ends only that one.
        Some(StopReason::Exception) => {
            let target = session.standing().target;
            view.exception.as_ref().is_some_and(|raised| raised.unhandled)
                && target.is_some_and(|target| view.thread_id == Some(ThreadId(target.pid)))
        }
        _ => false,
    }
}

fn summary(session: &Session, view: &Viewport, started: Instant) -> String {
    let standing = session.standing();
    let name = standing.target.as_ref().map_or("the program", |target| target.name.as_str());
    let seconds = started.elapsed().as_secs_f64();
    let mut text = match (view.state, &view.signal, view.exit_code) {
        (State::Exited, _, Some(code)) => format!("{name} exited with code {code} after {seconds:.1} s"),
        (State::Exited, Some(signal), _) => format!("{name} was ended by {signal} after {seconds:.1} s"),
        (State::Paused, Some(signal), _) => format!("{name} was stopped by {signal} after {seconds:.1} s"),
        _ => format!("{name} stopped after {seconds:.1} s"),
    };
    match standing.recording.as_deref() {
        Some(recording) if recording.start.is_some() => {
            let _ = write!(
                text,
                "; recorded {} events, {} snapshots, {} bytes",
                recording.events, recording.checkpoints, recording.bytes
            );
            if let (Some(start), Some(end)) = (&recording.start, &recording.end) {
                let _ = write!(text, ", from moment {start} to {end}");
            }
            if let Some(reason) = &recording.reason {
                let _ = write!(text, "; then no more: {reason}");
            }
        }
        recording => {
            let reason = recording.and_then(|recording| recording.reason.as_deref());
            let _ = write!(text, "; nothing was recorded: {}", reason.unwrap_or("this engine cannot"));
        }
    }
    text
}

fn how_to_go_back(session: &Session, program: &str, args: &[String]) -> String {
    if !session.standing().has_history() {
        return String::new();
    }
    let launch = serde_json::json!({ "program": program, "args": args });
    format!(
        "\nTo go back from here, have an agent do the same (`hindcast mcp install`):\n  \
         debugger/launch        {launch}\n  \
         debugger/continue      {{}}\n  \
         debugger/last_write    {{\"expression\": \"the value that is wrong\"}}\n  \
         debugger/step_backward {{\"granularity\": \"over\"}}\n"
    )
}

fn exit_code(session: &Session) -> u8 {
    let scene = session.standing().scene;
    let stop = scene.as_ref().map(|scene| &scene.stop);
    let signalled = stop.and_then(|stop| stop.signal.as_ref()).map(|signal| SIGNALLED + signal.number);
    let panicked = stop.and_then(|stop| stop.exception.as_ref()).map(|_| PANICKED);
    let code = stop.and_then(|stop| stop.exit_code).or(signalled).or(panicked).unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::{
        Trace,
        fake::{FakeAct, FakeEngine, FakeProgram, FakeStep},
    };
    use hindcast_services::debug::TargetPolicy;

    use super::*;
    use crate::wiring::SystemClock;

    struct Recorded {
        code: u8,
        stdout: String,
        stderr: String,
        trace: Trace,
    }

    async fn recorded(program: FakeProgram) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(FakeEngine::new(program));
        let policy = TargetPolicy::default();
        let service =
            DebugService::new(policy, Some(engine.clone()), Events::default(), Arc::new(SystemClock));
        let program = folder.path().join("program");
        std::fs::write(&program, "").unwrap();
        let file = folder.path().join("trace.bin");
        let options =
            Record { output: Some(file.clone()), command: vec![program.into_os_string(), "-v".into()] };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut screen = Screen { stdout: Box::new(&mut stdout), stderr: Box::new(&mut stderr) };
        let code = record(&service, options, &mut screen).await.unwrap();
        drop(screen);
        service.end_all().await;
        assert_eq!(engine.alive(), 0);
        let trace = Trace::read(std::fs::File::open(file).unwrap()).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Recorded { code, stdout: text(stdout), stderr: text(stderr), trace }
    }

    #[tokio::test]
    async fn a_program_runs_as_if_alone_and_what_was_recorded_is_told() {
        let mut program = FakeProgram::counter("/src/counter.c");
        let last = program.steps.len() - 1;
        program.steps[last] = FakeStep::main(8, FakeAct::Exit(7));
        let recorded = recorded(program).await;
        assert_eq!((recorded.code, recorded.stdout.as_str()), (7, "one\ntwo\nthree\n"));
        assert!(
            recorded.stderr.contains("hindcast: program exited with code 7 after"),
            "{}",
            recorded.stderr
        );
        assert!(recorded.stderr.contains("recorded 6 events, 4 snapshots"), "{}", recorded.stderr);
        assert!(recorded.stderr.contains("hindcast replay"), "{}", recorded.stderr);
        assert_eq!(recorded.trace.events.len(), 6);
        assert_eq!(recorded.trace.head.target.args, ["-v"]);
    }

    #[tokio::test]
    async fn a_crash_is_explained_with_the_way_back() {
        let recorded = recorded(FakeProgram::overrun()).await;
        assert_eq!((recorded.code, recorded.stdout.as_str()), (139, "renamed\n"));
        for part in [
            "program was stopped by SIGSEGV after",
            "SIGSEGV: read of ",
            "Stack trace:",
            "next: debugger/last_write with expression `currency`",
            "debugger/launch        {\"args\":[\"-v\"],\"program\":",
        ] {
            assert!(recorded.stderr.contains(part), "no `{part}` in:\n{}", recorded.stderr);
        }
    }
}
