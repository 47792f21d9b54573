//! A fake engine for tests of the layers above: it "debugs" a script, not a process.
//!
//! Honest where it matters to a caller: it keeps the seam's promises about interrupts, resuming,
//! pausing, ending and going back, and counts the sessions that are alive, so that tests can tell
//! leftovers.

mod backend;
mod breakpoints;
mod machine;
mod past;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    AttachRequest, CoreRequest, DebugBackend, DebugEngine, DebugError, Fault, FaultAccess, FaultKind,
    HowBegun, LaunchRequest, OutputStream, RaisedSignal, RuntimeAddr, SourceFile, Variable,
};
use backend::{Beginning, FakeBackend};

/// Where the first step's instruction is; each further one is 4 bytes on.
pub const FAKE_CODE: RuntimeAddr = RuntimeAddr(0x40_1000);
/// A page of the fake's heap, readable.
pub const FAKE_HEAP: RuntimeAddr = RuntimeAddr(0x50_0000);
/// The fake's stack pointer.
pub const FAKE_STACK_POINTER: RuntimeAddr = RuntimeAddr(0x7fff_ffff_e000);

/// Begins sessions with one scripted program.
pub struct FakeEngine {
    program: Arc<FakeProgram>,
    alive: Arc<AtomicUsize>,
}

/// What the fake "runs".
#[derive(Debug, Clone, Default)]
pub struct FakeProgram {
    /// The source file that the symbols name.
    pub file: String,
    /// One after the other.
    pub steps: Vec<FakeStep>,
    /// What is in memory at [`FAKE_HEAP`].
    pub heap: Vec<u8>,
    /// Where to read the source, where that is not simply `file`.
    pub source: Option<SourceFile>,
    /// Whether it is managed code: a .NET session without machine code, registers, memory and past.
    pub managed: bool,
}

/// One line and one instruction of the script.
#[derive(Debug, Clone, Default)]
pub struct FakeStep {
    /// The function it is in.
    pub function: String,
    /// Its line.
    pub line: u32,
    /// Who called: function and line, inner first.
    pub callers: Vec<(String, u32)>,
    /// What is in scope.
    pub locals: Vec<Variable>,
    /// What happens when it is executed.
    pub act: FakeAct,
    /// The variable that this step computes another one's value from.
    pub computes_from: Option<String>,
}

/// What a step does.
#[derive(Debug, Clone, Default)]
pub enum FakeAct {
    /// Nothing to be seen.
    #[default]
    Nothing,
    /// Prints.
    Print(OutputStream, String),
    /// Waits until something is written to its input, and prints that.
    AwaitInput,
    /// Goes on for ever.
    Spin,
    /// Is done at once, but going back over it goes on for ever.
    SlowToReplay,
    /// Raises a signal, which ends the program when it goes on.
    Raise(RaisedSignal),
    /// Panics as a Rust program does.
    Panic(String),
    /// Ends.
    Exit(i32),
    /// The engine itself panics.
    EngineFault,
}

impl FakeStep {
    /// A step of `main` that does `act` on `line`.
    pub fn main(line: u32, act: FakeAct) -> Self {
        Self { function: "main".into(), line, act, ..Self::default() }
    }

    /// The same with a local variable.
    #[must_use]
    pub fn local(mut self, name: &str, type_name: &str, value: &str) -> Self {
        let address = FAKE_STACK_POINTER.offset(8 * i64::try_from(self.locals.len()).unwrap_or_default());
        self.locals.push(Variable {
            name: name.into(),
            type_name: type_name.into(),
            value: value.into(),
            address: Some(address),
            ..Variable::default()
        });
        self
    }

    /// The same, computing what the next step shows from this variable.
    #[must_use]
    pub fn computing_from(mut self, name: &str) -> Self {
        self.computes_from = Some(name.into());
        self
    }

    /// The same in another function, called from `main` on `line`.
    #[must_use]
    pub fn within(mut self, function: &str, line: u32) -> Self {
        self.callers.push((std::mem::replace(&mut self.function, function.into()), line));
        self
    }
}

impl FakeProgram {
    /// Counts to three in `counter.c`, printing, and ends.
    pub fn counter(file: &str) -> Self {
        let says = |text: &str| FakeAct::Print(OutputStream::Stdout, format!("{text}\n"));
        let steps = vec![
            FakeStep::main(4, FakeAct::Nothing).local("count", "i32", "0"),
            FakeStep::main(5, says("one")).local("count", "i32", "1").local("limit", "i32", "3"),
            FakeStep::main(5, says("two")).local("count", "i32", "2").local("limit", "i32", "3"),
            FakeStep::main(11, FakeAct::Nothing).within("report", 6).local("total", "i32", "42").local(
                "password",
                "char *",
                "\"hunter2\"",
            ),
            FakeStep::main(7, says("three")).local("count", "i32", "3").local("limit", "i32", "3"),
            FakeStep::main(8, FakeAct::Exit(0)).local("count", "i32", "3"),
        ];
        Self { file: file.into(), steps, heap: b"hello from the heap".to_vec(), source: None, managed: false }
    }

    /// Writes beyond an array over a pointer, goes on for a while, and dies of that.
    pub fn overrun() -> Self {
        let signal = RaisedSignal {
            name: "SIGSEGV".into(),
            number: 11,
            cause: Some("address not mapped".into()),
            fault_address: Some(RuntimeAddr(0x4242_4242)),
            fault: Some(Box::new(Fault {
                kind: FaultKind::Unmapped,
                access: Some(FaultAccess::Read),
                pointer: None,
                region: None,
            })),
            handled: false,
        };
        let good = "0x500000 \"EUR\"";
        let bad = "0x42424242";
        let steps = vec![
            FakeStep::main(10, FakeAct::Nothing).local("currency", "char *", good),
            FakeStep::main(20, FakeAct::Nothing)
                .within("rename_owner", 11)
                .local("currency", "char *", good)
                .local("name", "char *", "\"BBBBBBBB\"")
                .computing_from("name"),
            FakeStep::main(12, FakeAct::Print(OutputStream::Stdout, "renamed\n".into()))
                .local("currency", "char *", bad),
            FakeStep::main(13, FakeAct::Nothing).local("currency", "char *", bad),
            FakeStep::main(30, FakeAct::Raise(signal))
                .within("print_statement", 14)
                .local("currency", "char *", bad),
        ];
        Self { file: "/src/overrun.c".into(), steps, heap: Vec::new(), source: None, managed: false }
    }

    /// Enters `main`, does `act` and ends.
    pub fn doing(act: FakeAct) -> Self {
        let steps = vec![
            FakeStep::main(1, FakeAct::Nothing).local("x", "i32", "1"),
            FakeStep::main(2, act).local("x", "i32", "2"),
            FakeStep::main(3, FakeAct::Exit(0)).local("x", "i32", "3"),
        ];
        Self { file: "/src/fake.c".into(), steps, heap: Vec::new(), source: None, managed: false }
    }
}

impl FakeEngine {
    /// An engine for this program, whatever it is asked to begin.
    pub fn new(program: FakeProgram) -> Self {
        Self { program: Arc::new(program), alive: Arc::default() }
    }

    /// How many sessions are alive.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn begin(&self, beginning: Beginning) -> Box<dyn DebugBackend> {
        Box::new(FakeBackend::new(self.program.clone(), self.alive.clone(), beginning))
    }
}

impl DebugEngine for FakeEngine {
    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        if request.program.ends_with("broken") {
            return Err(DebugError::LaunchFailed(
                format!("cannot start `{}`", request.program.display()).into(),
            ));
        }
        Ok(self.begin(Beginning {
            how: HowBegun::Launch,
            pid: 12345,
            executable: request.program.display().to_string(),
            args: request.args.clone(),
            cwd: request.cwd.as_ref().map_or("/".into(), |cwd| cwd.display().to_string()),
            stop_at_entry: request.stop_at_entry,
            record: request.record,
            output: request.output.clone(),
        }))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        Ok(self.begin(Beginning {
            pid: request.pid,
            record: request.record,
            ..Beginning::of(HowBegun::Attach, request.output.clone())
        }))
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let beginning = Beginning::of(HowBegun::Core, Arc::new(super::OutputLog::new(0)));
        let program = request.program.as_ref().map(|program| program.display().to_string());
        Ok(self.begin(Beginning { executable: program.unwrap_or(beginning.executable.clone()), ..beginning }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::{Movement, Outcome, OutputLog, StopReason};

    fn begun(program: FakeProgram) -> Box<dyn DebugBackend> {
        let beginning = Beginning::of(HowBegun::Launch, Arc::new(OutputLog::new(100)));
        let mut backend = FakeEngine::new(program).begin(Beginning { record: true, ..beginning });
        backend.run(Movement::Begin).unwrap();
        backend
    }

    fn line(backend: &mut dyn DebugBackend) -> Option<u32> {
        backend.threads().unwrap()[0].location.as_ref().and_then(|location| location.line)
    }

    #[test]
    fn an_interrupt_is_remembered_until_a_run_has_ended_for_it() {
        let mut backend = begun(FakeProgram::counter("/src/counter.c"));
        let before = line(&mut *backend);
        backend.interrupt().interrupt();
        backend.interrupt().interrupt();
        assert_eq!(backend.run(Movement::Continue).unwrap(), Outcome::Interrupted);
        assert_eq!(line(&mut *backend), before);
        let resumed = backend.run(Movement::Resume).unwrap();
        assert!(matches!(resumed, Outcome::Stopped(stop) if stop.reason == StopReason::Exit));
    }

    #[test]
    fn a_movement_that_never_began_can_be_paused() {
        let mut backend = begun(FakeProgram::doing(FakeAct::Spin));
        backend.interrupt().interrupt();
        assert_eq!(backend.run(Movement::Continue).unwrap(), Outcome::Interrupted);
        assert_eq!(backend.pause().unwrap().reason, StopReason::Pause);
        assert_eq!(line(&mut *backend), Some(1));
    }
}
