//! A session with the script.

use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    super::{
        Breakpoint, BreakpointChange, BreakpointId, CompletionKind, DebugBackend, DebugError, Disassembly,
        Ending, Engine, Evaluation, Frame, Granularity, HappeningKind, HowBegun, Interrupt, Location, Module,
        Movement, Outcome, OutputLog, OutputStream, Place, RaisedException, RawMemory, Reason, Registers,
        Remedy, RuntimeAddr, SourceFile, Stack, Stop, StopAtEntry, StopReason, Target, Thread, ThreadId,
        ThreadState, TimeTravel, Trigger, Variable, VariablePage, VariableQuery, VariableScope,
    },
    FAKE_CODE, FakeAct, FakeProgram, FakeStep,
    breakpoints::{Breakpoints, Hits},
    past::Recorder,
};

pub(super) struct Beginning {
    pub(super) how: HowBegun,
    pub(super) pid: u32,
    pub(super) executable: String,
    pub(super) args: Vec<String>,
    pub(super) cwd: String,
    pub(super) stop_at_entry: StopAtEntry,
    pub(super) record: bool,
    pub(super) output: Arc<OutputLog>,
}

impl Beginning {
    pub(super) fn of(how: HowBegun, output: Arc<OutputLog>) -> Self {
        Self {
            how,
            pid: 12345,
            executable: "/bin/fake".into(),
            args: Vec::new(),
            cwd: "/".into(),
            stop_at_entry: StopAtEntry::Main,
            record: false,
            output,
        }
    }
}

pub(super) const MAIN: ThreadId = ThreadId(1);
const WORKER: ThreadId = ThreadId(4);

pub(super) struct FakeBackend {
    pub(super) program: Arc<FakeProgram>,
    pub(super) at: usize,
    pub(super) target: Target,
    stop_at_entry: StopAtEntry,
    output: Arc<OutputLog>,
    pub(super) bell: Arc<Bell>,
    pub(super) breakpoints: Breakpoints,
    /// What an interrupt cut short.
    unfinished: Option<Movement>,
    input: Vec<u8>,
    pub(super) ended: bool,
    /// Whether the signal of the current step was already told.
    pub(super) raised: bool,
    pub(super) recorder: Option<Recorder>,
    alive: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Interrupt for Bell {
    fn interrupt(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl Bell {
    /// Whether it was rung since the last time it was asked; waits a little for that.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .changed
            .wait_timeout_while(rung, at_most, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *rung)
    }
}

impl FakeBackend {
    pub(super) fn new(program: Arc<FakeProgram>, alive: Arc<AtomicUsize>, beginning: Beginning) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        let executable = PathBuf::from(&beginning.executable);
        let target = Target {
            engine: if program.managed { Engine::Dotnet } else { Engine::Native },
            pid: Some(beginning.pid),
            name: executable.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            executable: beginning.executable,
            args: beginning.args,
            cwd: beginning.cwd,
            how: beginning.how,
            since: "2026-02-05T10:30:00Z".parse().unwrap_or_default(),
            runtime: Some("C (fake)".into()),
            followed: None,
        };
        Self {
            program,
            at: 0,
            target,
            stop_at_entry: beginning.stop_at_entry,
            output: beginning.output,
            bell: Arc::default(),
            breakpoints: Breakpoints::default(),
            unfinished: None,
            input: Vec::new(),
            ended: false,
            raised: false,
            recorder: beginning.record.then(Recorder::default),
            alive,
        }
    }

    pub(super) fn step(&self) -> &FakeStep {
        &self.program.steps[self.at.min(self.program.steps.len() - 1)]
    }

    pub(super) fn standing(&self) -> Result<(), DebugError> {
        if self.ended { Err(DebugError::Ended) } else { Ok(()) }
    }

    pub(super) fn stop(reason: StopReason) -> Stop {
        Stop {
            reason,
            detail: None,
            thread: MAIN,
            breakpoints: Vec::new(),
            signal: None,
            exception: None,
            exit_code: None,
        }
    }

    /// Executes the current step. `Some` when that is the end of the movement.
    fn execute(&mut self) -> Option<Outcome> {
        match self.step().act.clone() {
            FakeAct::Nothing | FakeAct::SlowToReplay => {}
            FakeAct::Print(stream, text) => {
                self.output.push(stream, text.as_bytes());
                self.note(HappeningKind::Output, text.trim_end().to_owned());
            }
            FakeAct::AwaitInput if self.input.is_empty() => {
                let rung = self.bell.wait(Duration::from_secs(60));
                return rung.then_some(Outcome::Interrupted);
            }
            FakeAct::AwaitInput => {
                let input = std::mem::take(&mut self.input);
                self.output.push(OutputStream::Stdout, &input);
            }
            FakeAct::Spin => {
                let rung = self.bell.wait(Duration::from_secs(60));
                return rung.then_some(Outcome::Interrupted);
            }
            FakeAct::Raise(signal) if self.raised => {
                self.ended = true;
                let stop = Stop { signal: Some(signal), ..Self::stop(StopReason::Exit) };
                return Some(Outcome::Stopped(stop));
            }
            FakeAct::Raise(signal) => {
                self.raised = true;
                let stop = Stop { signal: Some(signal), ..Self::stop(StopReason::Signal) };
                return Some(Outcome::Stopped(stop));
            }
            FakeAct::Panic(message) if !self.raised => {
                self.raised = true;
                let exception_type = "rust:panic".into();
                let exception = Some(RaisedException {
                    exception_type,
                    message: Some(message),
                    unhandled: true,
                    ..Default::default()
                });
                return Some(Outcome::Stopped(Stop { exception, ..Self::stop(StopReason::Exception) }));
            }
            FakeAct::Panic(_) | FakeAct::Exit(_) => {
                self.ended = true;
                let code = if let FakeAct::Exit(code) = self.step().act { code } else { 101 };
                let stop = Stop { exit_code: Some(code), ..Self::stop(StopReason::Exit) };
                return Some(Outcome::Stopped(stop));
            }
            FakeAct::EngineFault => panic!("the fake engine was told to fail"),
        }
        self.at += 1;
        self.raised = false;
        None
    }

    /// Executes steps until `arrived` says so or something else stops it.
    fn go(&mut self, reason: StopReason, arrived: impl Fn(&Self) -> bool) -> Outcome {
        loop {
            if self.is_in_past() {
                if let Some(stop) = self.see_again() {
                    return Outcome::Stopped(stop);
                }
                if arrived(self) {
                    return Outcome::Stopped(Self::stop(reason));
                }
                continue;
            }
            let before = self.at;
            if let Some(outcome) = self.execute() {
                return outcome;
            }
            if self.at == before {
                continue;
            }
            let step = self.step().clone();
            let Hits { stopping, logged } = self.breakpoints.hit(self.at, &step, &self.output);
            for message in logged {
                self.note(HappeningKind::Tracepoint, message);
            }
            if !stopping.is_empty() {
                let stop = Stop { breakpoints: stopping, ..Self::stop(StopReason::Breakpoint) };
                return Outcome::Stopped(stop);
            }
            if arrived(self) {
                return Outcome::Stopped(Self::stop(reason));
            }
        }
    }

    fn carry_out(&mut self, movement: &Movement) -> Result<Outcome, DebugError> {
        match movement {
            Movement::Begin if self.target.how == HowBegun::Core => {
                // A core stands where the program died.
                let dying = |step: &FakeStep| matches!(step.act, FakeAct::Raise(_));
                self.at = self.program.steps.iter().position(dying).unwrap_or(0);
                let signal = match &self.step().act {
                    FakeAct::Raise(signal) => Some(signal.clone()),
                    _ => None,
                };
                Ok(Outcome::Stopped(Stop { signal, ..Self::stop(StopReason::Signal) }))
            }
            Movement::Begin if self.stop_at_entry == StopAtEntry::No => {
                Ok(self.go(StopReason::Step, |_| false))
            }
            Movement::Begin if self.target.how == HowBegun::Attach => {
                Ok(Outcome::Stopped(Self::stop(StopReason::Pause)))
            }
            Movement::Begin => Ok(Outcome::Stopped(Self::stop(StopReason::Entry))),
            Movement::Continue => Ok(self.go(StopReason::Step, |_| false)),
            Movement::Step { thread, .. } if *thread != MAIN => Err(DebugError::NoSuchThread(*thread)),
            Movement::Step { granularity, count, .. } => {
                let mut outcome = Outcome::Stopped(Self::stop(StopReason::Step));
                for _ in 0..*count {
                    let depth = self.step().callers.len();
                    let granularity = *granularity;
                    outcome = self.go(StopReason::Step, |fake| match granularity {
                        Granularity::Instruction | Granularity::Line => true,
                        Granularity::Over => fake.step().callers.len() <= depth,
                        Granularity::Out => fake.step().callers.len() < depth,
                    });
                    if !matches!(&outcome, Outcome::Stopped(stop) if stop.reason == StopReason::Step) {
                        break;
                    }
                }
                Ok(outcome)
            }
            Movement::RunTo(place) => {
                let at = self.place(place)?;
                Ok(self.go(StopReason::Step, |fake| fake.at == at))
            }
            Movement::StepBack { .. } | Movement::ReverseContinue | Movement::Goto(_) => {
                self.go_back(movement)
            }
            Movement::Resume => Err(DebugError::System("nothing was interrupted".into())),
        }
    }

    /// The step at a place.
    pub(super) fn place(&self, place: &Place) -> Result<usize, DebugError> {
        let steps = &self.program.steps;
        let found = match place {
            Place::Address(address) => (0..steps.len()).find(|at| address_of(*at) == *address),
            Place::Line { file, line } if self.program.file.ends_with(file.as_str()) => {
                steps.iter().position(|step| step.line >= *line)
            }
            Place::Function(name) => steps.iter().position(|step| step.function == *name),
            Place::Line { .. } | Place::Statement { .. } => None,
        };
        found.ok_or_else(|| {
            DebugError::BreakpointFailed(
                Reason::new(format!("there is no code at {place}")).advise("try `main`"),
            )
        })
    }

    pub(super) fn location(&self, at: usize) -> Location {
        let step = &self.program.steps[at];
        Location {
            file: Some(self.program.file.clone()),
            line: Some(step.line),
            column: Some(1),
            function: Some(step.function.clone()),
            module: Some(self.target.name.clone()),
            library: false,
            address: Some(address_of(at)),
        }
    }

    pub(super) fn stack_at(&self, at: usize) -> Stack {
        let inner = (self.location(at), self.offset_in_function(at));
        let outer = self.program.steps[at].callers.iter().map(|(function, line)| {
            let at = self.program.steps.iter().position(|step| step.function == *function).unwrap_or(0);
            (Location { function: Some(function.clone()), line: Some(*line), ..self.location(at) }, 0x20)
        });
        let frames = (0..).zip(std::iter::once(inner).chain(outer)).map(|(index, (location, offset))| {
            Frame { index, location, offset: Some(offset), inlined: false, signal: false, awaiting: false }
        });
        Stack { thread: MAIN, frames: frames.collect(), more: false, broken: None }
    }

    pub(super) fn offset_in_function(&self, at: usize) -> u64 {
        let step = &self.program.steps[at];
        let first = self.program.steps.iter().position(|other| other.function == step.function);
        4 * (at - first.unwrap_or(at)) as u64
    }
}

pub(super) fn address_of(at: usize) -> RuntimeAddr {
    RuntimeAddr(FAKE_CODE.0 + 4 * at as u64)
}

impl Drop for FakeBackend {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DebugBackend for FakeBackend {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.bell.clone()
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        let movement = match movement {
            Movement::Resume => self.unfinished.take().unwrap_or(Movement::Resume),
            other => other,
        };
        if !movement.is_travel() {
            self.standing()?;
        }
        if self.bell.wait(Duration::ZERO) {
            self.unfinished = Some(movement);
            return Ok(Outcome::Interrupted);
        }
        let outcome = self.carry_out(&movement)?;
        if outcome == Outcome::Interrupted {
            // The script stands inside a step that does not end, so only where it was going counts.
            self.unfinished = Some(if movement == Movement::Begin { Movement::Continue } else { movement });
        }
        if let Outcome::Stopped(stop) = &outcome {
            self.note_stop(stop);
        }
        Ok(outcome)
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        self.standing()?;
        self.unfinished = None;
        Ok(Self::stop(StopReason::Pause))
    }

    fn end(&mut self, _how: Ending) -> Result<(), DebugError> {
        self.ended = true;
        Ok(())
    }

    fn write_input(&mut self, text: &[u8], _eof: bool) -> Result<(), DebugError> {
        self.standing()?;
        self.input.extend_from_slice(text);
        Ok(())
    }

    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        self.standing()?;
        let bound = self.binding(&trigger)?;
        Ok(self.breakpoints.add(trigger, bound))
    }

    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        self.breakpoints.change(id, change)
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.breakpoints.remove(id)
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        Ok(self.breakpoints.all())
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        self.standing()?;
        let thread = |id, name: &str, location| Thread {
            id,
            name: name.into(),
            state: ThreadState::Suspended,
            location,
            waits_for: None,
            wait: None,
        };
        Ok(vec![thread(MAIN, "main", Some(self.location(self.at))), thread(WORKER, "worker", None)])
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        self.standing()?;
        if thread == WORKER {
            return Ok(Stack {
                thread,
                frames: Vec::new(),
                more: false,
                broken: Some("no unwind rows".into()),
            });
        }
        if thread != MAIN {
            return Err(DebugError::NoSuchThread(thread));
        }
        let mut stack = self.stack_at(self.at);
        stack.more = stack.frames.len() > max_frames as usize;
        stack.frames.truncate(max_frames as usize);
        Ok(stack)
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        self.standing()?;
        let frames = u32::try_from(self.step().callers.len() + 1).unwrap_or(u32::MAX);
        if query.frame.index >= frames {
            return Err(DebugError::NoSuchFrame { index: query.frame.index, frames });
        }
        let own = query.frame.index == 0 && query.scope != VariableScope::Global;
        let mut variables = if own { self.step().locals.clone() } else { Vec::new() };
        variables.retain(|one| query.filter.as_ref().is_none_or(|filter| one.name.contains(filter)));
        let total = u32::try_from(variables.len()).unwrap_or(u32::MAX);
        let page = variables.into_iter().skip(query.offset as usize).take(query.limit as usize);
        Ok(VariablePage { variables: page.collect(), total })
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        self.standing()?;
        let (name, value) = match evaluation.expression.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (evaluation.expression.trim(), None),
        };
        if value.is_some() && !evaluation.may_write {
            return Err(DebugError::Expression("this would change the program".into()));
        }
        if value.is_some() && self.is_in_past() {
            let reason = Reason::new("the past cannot be changed").remedy(Remedy::GoToPresent);
            return Err(DebugError::Unsupported(reason));
        }
        let program = Arc::make_mut(&mut self.program);
        let variable = program.steps[self.at].locals.iter_mut().find(|one| one.name == name);
        let variable =
            variable.ok_or_else(|| DebugError::Expression(format!("there is no `{name}` here").into()))?;
        if let Some(value) = value {
            variable.value = value.into();
        }
        Ok(variable.clone())
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        Ok(vec![Module {
            name: self.target.name.clone(),
            path: self.target.executable.clone(),
            base: Some(RuntimeAddr(0x40_0000)),
            size: Some(0x2000),
            symbols: "dwarf".into(),
            build_id: None,
        }])
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        let known = || self.program.source.clone().unwrap_or_else(|| SourceFile::on_disk(path.into()));
        Ok((path == self.program.file).then(known))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        let mut names: Vec<_> = match kind {
            CompletionKind::File => vec![self.program.file.clone()],
            CompletionKind::Function => self.program.steps.iter().map(|step| step.function.clone()).collect(),
            CompletionKind::Variable => self.step().locals.iter().map(|local| local.name.clone()).collect(),
        };
        names.sort();
        names.dedup();
        names.retain(|name| name.starts_with(prefix));
        names.truncate(limit);
        Ok(names)
    }

    fn raw_memory(&mut self) -> Option<&mut dyn RawMemory> {
        if self.program.managed { None } else { Some(self) }
    }

    fn registers(&mut self) -> Option<&mut dyn Registers> {
        if self.program.managed { None } else { Some(self) }
    }

    fn disassembly(&mut self) -> Option<&mut dyn Disassembly> {
        if self.program.managed { None } else { Some(self) }
    }

    fn time_travel(&mut self) -> Option<&mut dyn TimeTravel> {
        if self.target.how == HowBegun::Core || self.program.managed { None } else { Some(self) }
    }
}
