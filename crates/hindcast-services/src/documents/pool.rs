//! The worker processes: started when they are needed, ended when they take too long, gone when the server is.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;

use super::worker::{HeldSchema, Reply, Task};
use crate::{Failure, FailureKind};

/// How a worker is started: this program again, with other arguments.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Processor time for a task.
    pub time: Duration,
    /// Memory of the process.
    pub memory: u64,
}

/// The code with which a worker ends itself when its time is up.
pub const OUT_OF_TIME: i32 = 41;

/// The code with which a worker ends itself when it has taken too much memory.
pub const OUT_OF_MEMORY: i32 = 42;

/// Validations at the same time.
const WORKERS: usize = 2;

/// A machine may be busy: a worker gets so many times its processor time before it is taken for stuck.
const PATIENCE: u32 = 15;

/// Documents of this size get the time once, larger ones accordingly more.
const BYTES_PER_TIME: u64 = 4 << 20;

pub(super) struct WorkerPool {
    command: WorkerCommand,
    free: Semaphore,
    idle: Mutex<Vec<Process>>,
}

/// A task with the time it gets.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Assignment {
    /// The task.
    pub task: Task,
    /// Processor time in milliseconds.
    pub time_ms: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl WorkerPool {
    pub(super) fn new(command: WorkerCommand) -> Self {
        Self { command, free: Semaphore::new(WORKERS), idle: Mutex::default() }
    }

    /// What the idle workers hold.
    pub(super) fn held(&self) -> Vec<HeldSchema> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().flat_map(|process| process.held.iter().cloned()).collect()
    }

    /// Has a task done.
    pub(super) async fn run(&self, task: Task, document_bytes: u64) -> Reply {
        let _permit = self.free.acquire().await.map_err(|_| lost("the server is stopping"))?;
        let units = 1 + document_bytes / BYTES_PER_TIME;
        let time = self.command.time * u32::try_from(units).unwrap_or(u32::MAX);
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let assignment = Arc::new(Assignment { task, time_ms, memory: self.command.memory });
        // A worker that has been idle for long may just have gone home.
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(process) = idle {
            match self.ask(process, assignment.clone(), time).await {
                Ok(reply) => return reply,
                Err(Ended::GoneHome) => {}
                Err(ended) => return Err(self.explain(ended, time)),
            }
        }
        let process = Process::start(&self.command)
            .map_err(|error| lost(&format!("no worker process can be started: {error}")))?;
        match self.ask(process, assignment, time).await {
            Ok(reply) => reply,
            Err(ended) => Err(self.explain(ended, time)),
        }
    }

    async fn ask(
        &self,
        mut process: Process,
        assignment: Arc<Assignment>,
        time: Duration,
    ) -> Result<Reply, Ended> {
        let child = process.child.clone();
        let asked = tokio::task::spawn_blocking(move || (process.ask(&assignment), process));
        let Ok(joined) = tokio::time::timeout(time.saturating_mul(PATIENCE), asked).await else {
            child.end();
            return Err(Ended::Stuck);
        };
        let (answer, mut process) = joined.map_err(|error| Ended::Failed(error.to_string()))?;
        match answer {
            Ok(reply) => {
                if let Ok(done) = &reply {
                    process.held.clone_from(&done.held);
                }
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
                Ok(reply)
            }
            Err(error) => Err(process.how_it_ended(&error)),
        }
    }

    fn explain(&self, ended: Ended, time: Duration) -> Failure {
        let limit = |details: String, key: &str| {
            Failure::new(FailureKind::InvalidInput, details)
                .hint(format!("simplify the schema (patterns, occurrence bounds, assertions), or have the operator raise `documents.{key}`"))
        };
        match ended {
            Ended::OutOfTime | Ended::Stuck => limit(
                format!("the validation was given up after {} ms of processor time", time.as_millis()),
                "validation_timeout_ms",
            ),
            Ended::OutOfMemory => limit(
                format!("the validation was given up: it needs more than {} MiB", self.command.memory >> 20),
                "validation_memory_bytes",
            ),
            Ended::GoneHome | Ended::Crashed => Failure::new(
                FailureKind::InvalidInput,
                "the validation ended in a fault of its worker process; the server goes on",
            )
            .hint("the schema or the document is beyond what the validator can stand; simplify it and report it"),
            Ended::Failed(details) => lost(&details),
        }
    }
}

fn lost(details: &str) -> Failure {
    Failure::new(FailureKind::Internal, details).hint("try again; if it stays, look at the server's log")
}

/// Why a worker gave no answer.
enum Ended {
    GoneHome,
    OutOfTime,
    OutOfMemory,
    Crashed,
    Stuck,
    Failed(String),
}

/// A child that is killed and waited for when nobody holds it any more.
struct Kept(Mutex<Child>);

impl Kept {
    fn end(&self) -> Option<i32> {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that ended by itself keeps its code.
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        // It may be gone already; waiting is what matters.
        let _ = child.kill();
        child.wait().ok().and_then(|status| status.code())
    }

    fn wait(&self) -> Option<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wait().ok().and_then(|status| status.code())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}

/// A worker process.
struct Process {
    child: Arc<Kept>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    held: Vec<HeldSchema>,
    tasks: u64,
}

impl Process {
    fn start(command: &WorkerCommand) -> std::io::Result<Self> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(Kept(Mutex::new(child)));
        match (input, output) {
            (Some(input), Some(output)) => {
                Ok(Self { child, input, output: BufReader::new(output), held: Vec::new(), tasks: 0 })
            }
            _ => Err(std::io::Error::other("the worker has no pipes")),
        }
    }

    fn ask(&mut self, assignment: &Assignment) -> std::io::Result<Reply> {
        let mut line = serde_json::to_string(assignment)?;
        line.push('\n');
        self.input.write_all(line.as_bytes())?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.tasks += 1;
        Ok(serde_json::from_str::<Reply>(&answer)?)
    }

    fn how_it_ended(&self, error: &std::io::Error) -> Ended {
        if !matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe) {
            return Ended::Failed(format!("the worker answers nonsense: {error}"));
        }
        match self.child.wait() {
            Some(0) if self.tasks > 0 => Ended::GoneHome,
            Some(OUT_OF_TIME) => Ended::OutOfTime,
            Some(OUT_OF_MEMORY) => Ended::OutOfMemory,
            _ => Ended::Crashed,
        }
    }
}
