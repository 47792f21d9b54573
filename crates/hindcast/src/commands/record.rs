//! `hindcast record`: runs a program under the recorder, as if it ran alone, and tells what was recorded.
//!
//! The program has our standard streams and is in our process group, so what it reads, prints and is sent by a
//! terminal never goes through us.

mod signals;
mod tries;

use std::{
    ffi::OsString,
    fmt::Write as _,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use hindcast_core::{
    debug::{Movement, Place, StopAtEntry, StopReason, Streams, ThreadId, TraceFormat, TraceRequest},
    identity::Caller,
};
use hindcast_services::{
    Events,
    debug::{DebugService, ExportTo, LaunchOptions, Mask, Session, State, Until, Viewport},
};

use self::{
    signals::Signals,
    tries::{Limits, Tried, until_failure},
};
use super::{patience, recorded_runtime};
use crate::{config::Config, options::Record, wiring};

/// What shells answer for a program that a signal ended.
const SIGNALLED: i32 = 128;
/// What `timeout` exits with for a program that takes too long.
const HANGS: u8 = 124;
/// What Rust lets a program exit with that panics.
const PANICKED: i32 = 101;

pub(super) fn run(config: &Config, options: Record) -> Result<ExitCode> {
    // First of all, because threads have from the one that starts them which signals they leave to others.
    let mut signals = Signals::take()?;
    let service = wiring::debug_service(config, wiring::debug_engine(&config.debug)?, Events::default())?;
    let runtime = recorded_runtime()?;
    let code = runtime.block_on(async {
        let code = record(&service, options, &mut signals, &mut std::io::stderr()).await;
        service.end_all().await;
        code
    });
    runtime.shutdown_background();
    Ok(ExitCode::from(code?))
}

/// Runs the program to its end or to its crash; the exit code is the program's own.
async fn record(
    service: &DebugService,
    options: Record,
    signals: &mut Signals,
    stderr: &mut dyn Write,
) -> Result<u8> {
    let caller = Caller::local();
    let output = options.output.map(|file| service.new_file(&caller, &file)).transpose()?;
    let mut command = options.command.into_iter();
    let program = command.next().context("no program is named")?;
    let launch = LaunchOptions {
        program: program.into(),
        args: command.enumerate().map(text).collect::<Result<_>>()?,
        stop_at_entry: StopAtEntry::No,
        streams: Streams::Inherited,
        record: true,
        chaos: options.chaos,
        follow: options.follow,
        record_from: options.from.as_deref().map(Place::named),
        ..LaunchOptions::default()
    };
    let (program, args) = (launch.program.clone(), launch.args.clone());
    let started = Instant::now();
    // Where nobody reads our own words, the program still has its exit code and the recording is written.
    let mut say = |text: &str| drop(writeln!(stderr, "{text}").and_then(|()| stderr.flush()));
    let (session, view, seed, hangs, took) = if options.until_failure {
        let limits = Limits {
            first_seed: options.chaos.unwrap_or(1),
            tries: options.tries,
            hang_after: Duration::from_secs(options.hang_after),
        };
        match until_failure(service, &caller, launch, &limits, signals).await? {
            Tried::Ended(signal) => return Ok(signalled(signal)),
            Tried::AllPassed => {
                let (tries, seconds) = (counted(limits.tries, "run"), started.elapsed().as_secs_f64());
                say(&format!(
                    "hindcast: {tries}, each with another schedule, and none failed ({seconds:.1} s)"
                ));
                return Ok(0);
            }
            Tried::Failed(failed) => {
                say(&printed(&failed.session));
                let tried = failed.seed.wrapping_sub(limits.first_seed) + 1;
                let hangs = if failed.hangs { "hangs" } else { "fails" };
                say(&format!("hindcast: run {tried} of {} {hangs}, with seed {}", limits.tries, failed.seed));
                (failed.session, failed.view, Some(failed.seed), failed.hangs, failed.took)
            }
        }
    } else {
        // Whoever runs their own program sees what it prints.
        let (session, _) = service.launch(&caller, launch, Mask::new(false), &patience(0)).await?;
        let view = follow(&session, signals).await?;
        (session, view, options.chaos, false, started.elapsed())
    };
    // A failure that was looked for is kept.
    let kept = || service.new_file(&caller, &kept_file(&program, seed));
    let output = match output {
        None if options.until_failure => Some(kept()?),
        output => output,
    };
    say(&format!("\nhindcast: {}", summary(&session, &view, took)));
    let told = async {
        if view.state == State::Paused {
            say(&format!("\n{}", session.autopsy(10, 1).await?));
            let launch = match &output {
                Some(file) => serde_json::json!({ "trace": file.path() }),
                None => launch_again(&program, &args, seed),
            };
            say(&how_to_go_back(&session, &launch));
        }
        if let Some(file) = output {
            let request =
                TraceRequest { format: TraceFormat::Binary, start_snapshot: None, end_snapshot: None };
            let path = file.path().to_owned();
            let exported = session.export(request, ExportTo::File(file), &patience(u64::MAX)).await?;
            let (shown, bytes) = (path.display(), exported.bytes);
            say(&format!("hindcast: wrote {shown} ({bytes} bytes); `hindcast replay {shown}` opens it"));
        }
        Ok(if hangs { HANGS } else { exit_code(&session) })
    };
    tokio::select! {
        code = told => code,
        // The program is no more: what would have ended it ends us.
        signal = signals.ending() => Ok(signalled(signal)),
    }
}

/// An argument as a recording keeps it.
fn text((place, argument): (usize, OsString)) -> Result<String> {
    argument.into_string().map_err(|argument| {
        anyhow!(
            "argument {} of the program, `{}`, is not UTF-8, and a recording keeps arguments as text · hint: name the file \
             through a link with another name, or let a script that you record pass the argument on",
            place + 1,
            argument.display()
        )
    })
}

/// Passes on signals that only we got, until the program has ended or crashed.
async fn follow(session: &Arc<Session>, signals: &mut Signals) -> Result<Viewport> {
    let pid = session.standing().target.and_then(|target| target.pid);
    loop {
        let patience = patience(u64::MAX);
        let view = tokio::select! {
            view = session.wait(Until::Stopped, &patience) => view,
            signal = signals.for_the_program() => {
                if session.standing().state != State::Exited && let Some(pid) = pid {
                    signal.pass_on(pid);
                }
                continue;
            }
        };
        match view.state {
            State::Running => {}
            State::Exited => return Ok(view),
            State::Paused if is_crash(session, &view) => return Ok(view),
            State::Paused => {
                if view.reason == Some(StopReason::Signal) {
                    signals::stop_with(view.signal.as_deref());
                }
                session.depart(Movement::Continue).await?;
            }
        }
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
                && target.is_some_and(|target| view.thread_id == target.pid.map(ThreadId))
        }
        _ => false,
    }
}

fn summary(session: &Session, view: &Viewport, took: Duration) -> String {
    let standing = session.standing();
    let name = standing.target.as_ref().map_or("the program", |target| target.name.as_str());
    let seconds = took.as_secs_f64();
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
                "; recorded {}, {}, {} bytes",
                counted(recording.events, "event"),
                counted(recording.checkpoints, "snapshot"),
                recording.bytes
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

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What the program printed, where it did not print it to our own streams.
fn printed(session: &Session) -> String {
    let output = session.read_output(Some(0), usize::MAX, None).output;
    format!("{}{}", output.stdout, output.stderr)
}

/// Where a failure is kept that nobody named a file for: a file that is not there yet.
fn kept_file(program: &Path, seed: Option<u64>) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let seed = seed.unwrap_or_default();
    let others = (2..).map(|number| format!("{name}-seed-{seed}-{number}.trace"));
    let mut names = std::iter::once(format!("{name}-seed-{seed}.trace")).chain(others).map(PathBuf::from);
    names.find(|file| !file.exists()).unwrap_or_default()
}

/// What `debugger/launch` needs for the same run.
fn launch_again(program: &Path, args: &[String], seed: Option<u64>) -> serde_json::Value {
    let mut launch = serde_json::json!({ "program": program, "args": args });
    if let Some(seed) = seed {
        launch["chaos"] = seed.into();
    }
    launch
}

fn how_to_go_back(session: &Session, launch: &serde_json::Value) -> String {
    if !session.standing().has_history() {
        return String::new();
    }
    // A recording opens where it ends.
    let run = if launch["trace"].is_null() { "\n  debugger/continue      {}" } else { "" };
    format!(
        "\nTo go back from here, have an agent do the same (`hindcast mcp install`):\n  \
         debugger/launch        {launch}{run}\n  \
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

fn signalled(signal: i32) -> u8 {
    u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX)
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
        let options = Record {
            output: Some(file.clone()),
            chaos: None,
            follow: None,
            from: None,
            until_failure: false,
            tries: 1,
            hang_after: 1,
            command: vec![program.into_os_string(), "-v".into()],
        };
        let mut stderr = Vec::new();
        let mut signals = Signals::take().unwrap();
        let code = record(&service, options, &mut signals, &mut stderr).await.unwrap();
        service.end_all().await;
        assert_eq!(engine.alive(), 0);
        let trace = Trace::read(std::fs::File::open(file).unwrap()).unwrap();
        Recorded { code, stderr: String::from_utf8(stderr).unwrap(), trace }
    }

    #[tokio::test]
    async fn a_program_runs_as_if_alone_and_what_was_recorded_is_told() {
        let mut program = FakeProgram::counter("/src/counter.c");
        let last = program.steps.len() - 1;
        program.steps[last] = FakeStep::main(8, FakeAct::Exit(7));
        let recorded = recorded(program).await;
        assert_eq!(recorded.code, 7);
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
        assert_eq!(recorded.code, 139);
        for part in [
            "program was stopped by SIGSEGV after",
            "SIGSEGV: read of ",
            "Stack trace:",
            "next: debugger/last_write with expression `currency`",
            "debugger/launch        {\"trace\":",
        ] {
            assert!(recorded.stderr.contains(part), "no `{part}` in:\n{}", recorded.stderr);
        }
    }
}
