//! A session with a .NET program.
//!
//! The debuggee stands whenever nothing is asked of it. A movement lets it go on and takes events out of the channel that
//! the runtime fills (see [`crate::cor`]) until one of them is a stop; each event is answered by going on or by staying.

mod awaits;
mod beginning;
mod breakpoints;
mod evaluate;
mod events;
mod exceptions;
mod frame;
mod functions;
mod given_up;
mod hoisted;
mod interrupt;
mod late;
mod launch;
mod look;
mod nulls;
mod places;
mod sites;
mod stack;
mod steps;
mod threads;
mod thrown;
mod waits;

use std::{borrow::Cow, collections::VecDeque, rc::Rc, sync::Arc, time::Duration};

use hindcast_core::debug::{
    Breakpoint, BreakpointChange, BreakpointId, Claim, CompletionKind, DebugBackend, DebugError, Ending,
    Evaluation, Interrupt, Module, Movement, Outcome, OutputLog, SourceFile, Stack, Stop, StopAtEntry,
    Target, Thread, ThreadId, Trigger, Variable, VariablePage, VariableQuery,
};
use hindcast_streams::{InputRefused, Pump};

use self::{
    breakpoints::Breakpoints, events::Plan, interrupt::Bell, sites::Sites, stack::StackCache,
    steps::Stepping, threads::Threads,
};
use crate::{
    cor::{
        Calls, Com, CorError, CorEvent, Debugging, Events, Hresult, Image, Process, Remains, Spawned,
        forget_pages,
    },
    modules::Modules,
    values::Values,
    visible::visible,
};

/// How long an answer that may be wrong because the process has been killed waits for that to be known.
const A_MOMENT: Duration = Duration::from_millis(30);

/// A live session.
pub(crate) struct Session {
    target: Target,
    debugging: Debugging,
    events: Events,
    bell: Arc<Bell>,
    /// The process, living or not.
    remains: Remains,
    /// The program that it was when the session began.
    image: Option<Image>,
    /// Told of every call into the runtime's library.
    calls: Arc<Calls>,
    /// The program, where we started it.
    launched: Option<Spawned>,
    /// Held while we are attached to a program that was running.
    claim: Option<Claim>,
    pump: Option<Pump>,
    output: Arc<OutputLog>,
    modules: Modules,
    sites: Sites,
    breakpoints: Breakpoints,
    threads: Threads,
    stacks: StackCache,
    state: State,
    plan: Plan,
    stepping: Option<Stepping>,
    stop_at_entry: StopAtEntry,
    just_my_code: bool,
    /// The stop that everything stands at.
    last_stop: Option<Stop>,
    /// A thread whose stack has overflowed: the runtime takes minutes to find a variable in it.
    overflowed: Option<ThreadId>,
    /// The calls that were run for evaluations and cannot be ended.
    stuck: Vec<Stuck>,
    /// Whether somebody had stopped the process by a signal, before we made it stand.
    was_stopped: bool,
    /// What happened to other threads while code ran for an evaluation.
    postponed: VecDeque<CorEvent>,
}

/// A call that nobody can end: it waits in native code, or was made while an exception was handled, where the newer runtimes
/// prevent it.
#[derive(Debug)]
struct Stuck {
    /// The thread, as the system counts.
    thread: u32,
    /// Where the frame is that the call was made from.
    caller: Option<u64>,
    /// The object of the evaluation, which tells when it is over.
    eval: usize,
    /// Whether it was made on a thread with an exception, on a runtime that ends no code then.
    in_exception: bool,
}

/// Whether the debuggee runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It stands, and goes on when it is told to, once.
    Standing,
    /// It runs.
    Running,
    /// It has ended.
    Ended,
}

impl Session {
    fn process(&self) -> &Com<Process> {
        &self.debugging.process
    }

    fn values(&self) -> Values<'_> {
        Values { modules: &self.modules, process: self.process() }
    }

    /// Whether a real that is too large for a type of whole numbers becomes the nearest of them.
    fn makes_numbers_fit(&self) -> bool {
        self.is_since_nine()
    }

    /// Whether the runtime ends no code while it handles an exception.
    fn keeps_code_in_exceptions(&self) -> bool {
        self.is_since_nine()
    }

    fn is_since_nine(&self) -> bool {
        let version = self.target.runtime.as_deref().and_then(|name| name.strip_prefix(".NET "));
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major >= 9)
    }

    /// Nothing is asked of the program any more.
    fn leave(&mut self) {
        self.state = State::Ended;
        self.sites.leave();
        self.postponed.clear();
        self.claim = None;
    }

    fn alive(&self) -> Result<(), DebugError> {
        if self.state == State::Ended { Err(DebugError::Ended) } else { Ok(()) }
    }

    /// Whether the program has ended, which the runtime's library may not have noticed. Calls into that may never return then.
    fn is_gone(&self) -> bool {
        self.is_replaced()
            || match &self.launched {
                Some(spawned) => spawned.ended().is_some(),
                None => !self.remains.is_alive(),
            }
    }

    /// Whether the process has become another program, by `exec`.
    fn is_replaced(&self) -> bool {
        self.image.zip(self.target.pid).is_some_and(|(image, pid)| image.is_replaced(pid))
    }

    /// Asks something of the runtime's library, which dies of questions about a process that has ended.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Self) -> Result<T, DebugError>) -> Result<T, DebugError> {
        let calls = self.calls.clone();
        let _call = calls.enter();
        if self.state != State::Ended && self.is_gone() {
            return Err(DebugError::Ended);
        }
        forget_pages();
        let answer = question(self);
        self.or_ended(answer)
    }

    /// What an answer means: where the process has ended, that is why something failed.
    fn or_ended<T>(&self, answer: Result<T, DebugError>) -> Result<T, DebugError> {
        match answer {
            Err(DebugError::System(_)) if self.is_gone_soon() => Err(DebugError::Ended),
            // Where memory cannot be read any more, it looks as if nothing were there.
            Err(_) if self.is_gone_within(A_MOMENT) => Err(DebugError::Ended),
            answer => answer,
        }
    }

    fn module_list(&self) -> Vec<Module> {
        let described = |loaded: &Rc<crate::modules::LoadedModule>| Module {
            name: loaded.name.clone(),
            path: visible(&loaded.path).into_owned(),
            base: None,
            size: None,
            symbols: match loaded.symbols() {
                symbols if symbols.pdb.is_some() => format!("pdb ({})", visible(&symbols.from)),
                symbols => format!("none ({})", visible(&symbols.from)),
            },
            build_id: loaded.assembly().and_then(|assembly| assembly.mvid()).map(|mvid| mvid.to_string()),
        };
        self.modules.iter().map(described).collect()
    }
}

/// Escapes what cannot be seen in names; values and types are made so that it can.
fn make_visible(variable: &mut Variable) {
    if let Cow::Owned(name) = visible(&variable.name) {
        variable.name = name;
    }
    variable.children.iter_mut().for_each(make_visible);
}

/// What a failed call means for the session.
fn failed(error: CorError) -> DebugError {
    match error.code {
        Hresult::PROCESS_TERMINATED | Hresult::DETACHED => DebugError::Ended,
        _ => DebugError::System(format!("the .NET runtime's debugging interface: {error}").into()),
    }
}

impl DebugBackend for Session {
    fn target(&self) -> &Target {
        &self.target
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.bell.clone()
    }

    fn run(&mut self, movement: Movement) -> Result<Outcome, DebugError> {
        let _call = self.calls.enter();
        self.carry_out(movement)
    }

    fn pause(&mut self) -> Result<Stop, DebugError> {
        self.ask(|session| session.paused())
    }

    fn ended_meanwhile(&mut self) -> Result<Option<Stop>, DebugError> {
        Ok(self.killed_meanwhile())
    }

    fn end(&mut self, how: Ending) -> Result<(), DebugError> {
        let _call = self.calls.enter();
        self.finish(how)
    }

    fn write_input(&mut self, text: &[u8], eof: bool) -> Result<(), DebugError> {
        let Some(pump) = &self.pump else {
            let what = "this program's input is not ours to write: it was attached to";
            return Err(DebugError::Unsupported(what.into()));
        };
        pump.write_input(text, eof).map_err(|refused| match refused {
            InputRefused::Ended => DebugError::Unsupported("the program's input has ended".into()),
            InputRefused::TooMuch(waiting) => DebugError::System(
                format!("{waiting} bytes of input wait for the program to read them").into(),
            ),
        })
    }

    fn add_breakpoint(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        self.ask(|session| {
            session.alive()?;
            session.wake();
            session.added(trigger)
        })
    }

    fn change_breakpoint(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        self.ask(|session| {
            session.wake();
            session.changed(id, change)
        })
    }

    fn remove_breakpoint(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.ask(|session| {
            session.wake();
            session.removed(id)
        })
    }

    fn breakpoints(&mut self) -> Result<Vec<Breakpoint>, DebugError> {
        Ok(self.breakpoints.all())
    }

    fn threads(&mut self) -> Result<Vec<Thread>, DebugError> {
        self.ask(|session| session.thread_list())
    }

    fn stack(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        self.ask(|session| session.stack_of(thread, max_frames))
    }

    fn variables(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        self.ask(|session| {
            let mut page = session.variables_of(query)?;
            page.variables.iter_mut().for_each(make_visible);
            Ok(page)
        })
    }

    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        self.ask(|session| {
            session.wake();
            let mut variable = session.evaluated(evaluation)?;
            make_visible(&mut variable);
            Ok(variable)
        })
    }

    fn modules(&mut self) -> Result<Vec<Module>, DebugError> {
        self.ask(|session| Ok(session.module_list()))
    }

    fn source_file(&mut self, path: &str) -> Result<Option<SourceFile>, DebugError> {
        Ok(self.source_of(path))
    }

    fn complete(
        &mut self,
        kind: CompletionKind,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, DebugError> {
        self.ask(|session| Ok(session.completions(kind, prefix, limit)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _call = self.calls.enter();
        let how = if self.launched.is_some() { Ending::Terminate } else { Ending::Detach };
        // Nobody is left to hear of a failure.
        let _ = self.finish(how);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_can_be_seen_too() {
        let mut variable = named("a\n", vec![named("b\u{1b}", Vec::new())]);
        make_visible(&mut variable);
        assert_eq!((variable.name.as_str(), variable.children[0].name.as_str()), ("a\\n", "b\\u001b"));
    }

    fn named(name: &str, children: Vec<Variable>) -> Variable {
        Variable {
            name: name.into(),
            type_name: "int".into(),
            value: "1".into(),
            state: hindcast_core::debug::ValueState::Available,
            address: None,
            children,
            child_count: None,
            truncated: false,
        }
    }
}
