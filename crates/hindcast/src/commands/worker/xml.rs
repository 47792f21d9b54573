//! `hindcast worker xml`: a process that holds documents against schemas for a server, and ends itself when it must.

use std::{
    io::{BufRead, Write},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use anyhow::Result;
use hindcast_services::documents::{Assignment, OUT_OF_MEMORY, OUT_OF_TIME, worker::Worker};

/// How often the watch looks.
const GLANCE: Duration = Duration::from_millis(10);

/// After so long without a task the worker goes home.
const PATIENCE: Duration = Duration::from_secs(60);

/// Elements nest, and so do the validator's calls.
const STACK: usize = 64 << 20;

/// What the task at hand may still take.
#[derive(Clone, Copy)]
struct Allowance {
    processor_time: Duration,
    memory: u64,
}

pub(super) fn run() -> Result<ExitCode> {
    let current: Arc<Mutex<Option<Allowance>>> = Arc::default();
    let watched = current.clone();
    std::thread::spawn(move || watch(&watched));
    let (send, lines) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
        // Nobody is there any more to answer to, whatever is under way.
        std::process::exit(0);
    });
    std::thread::Builder::new().stack_size(STACK).spawn(move || serve(&lines, &current))?.join().ok();
    Ok(ExitCode::SUCCESS)
}

fn serve(lines: &mpsc::Receiver<String>, current: &Mutex<Option<Allowance>>) {
    let mut worker = Worker::default();
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        let Ok(assignment) = serde_json::from_str::<Assignment>(&line) else { break };
        let processor_time = processor_time() + Duration::from_millis(assignment.time_ms);
        let set = |allowance| *current.lock().unwrap_or_else(PoisonError::into_inner) = allowance;
        set(Some(Allowance { processor_time, memory: assignment.memory }));
        let reply = worker.run(&assignment.task);
        set(None);
        let Ok(mut answer) = serde_json::to_string(&reply) else { break };
        answer.push('\n');
        let mut out = std::io::stdout().lock();
        if out.write_all(answer.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
}

/// Ends the process when a task takes more than it may.
fn watch(current: &Mutex<Option<Allowance>>) {
    loop {
        let glanced = Instant::now();
        let allowance = *current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allowance) = allowance {
            if processor_time() > allowance.processor_time {
                std::process::exit(OUT_OF_TIME);
            }
            if resident_bytes().is_some_and(|bytes| bytes > allowance.memory) {
                std::process::exit(OUT_OF_MEMORY);
            }
        }
        std::thread::sleep(GLANCE.saturating_sub(glanced.elapsed()));
    }
}

/// The processor time that this process has taken.
#[cfg(unix)]
fn processor_time() -> Duration {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}

/// Where the system does not tell, the time that has passed must do.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    STARTED.get_or_init(Instant::now).elapsed()
}

/// The memory that this process has, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
