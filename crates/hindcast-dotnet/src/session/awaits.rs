//! Async methods, stepped through as they are written.
//!
//! An async method that must wait returns, and goes on later, perhaps on another thread. Where a step comes to such a return,
//! breakpoints of its own are set where the method goes on, and where whoever awaits it does; the step goes on from there, if
//! it is the same call that gets there.

use hindcast_core::debug::{DebugError, Granularity, Stop};

use super::{Session, places::CodePlace, sites::Site, stack::ManagedFrame};
use crate::{
    cor::{Com, HandleValue, HeapValue2, ReferenceValue, Thread, Value},
    image::Token,
    modules::LoadedModule,
    values::Seen,
};
use std::rc::Rc;

/// `HANDLE_STRONG`.
const STRONG: u32 = 1;
/// The longest chain of awaiting methods that is followed.
const LONGEST_CHAIN: usize = 64;

/// A breakpoint that a step set for itself.
#[derive(Debug)]
pub(super) struct Gate {
    site: Rc<Site>,
    kind: GateKind,
    /// The call that it is about: its state machine, or its task where the state machine is moved.
    identity: Option<Com<HandleValue>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateKind {
    /// The method returns to wait.
    Yields { resumes_in: Token, resumes_at: u32 },
    /// The method goes on.
    Resumes,
}

/// An async method that waits for another.
#[derive(Debug, Clone)]
pub(super) struct Awaiting {
    pub(super) module: Rc<LoadedModule>,
    /// `MoveNext`.
    pub(super) method: Token,
    /// Where it goes on.
    pub(super) offset: u32,
    state_machine: Seen,
}

impl Awaiting {
    /// As a frame, which is on no stack.
    pub(super) fn frame(self) -> ManagedFrame {
        ManagedFrame {
            frame: None,
            state_machine: Some(self.state_machine),
            module: self.module,
            method: self.method,
            offset: self.offset,
        }
    }
}

impl Gate {
    pub(super) fn close(self) {
        // The debuggee may be gone.
        if let Some(identity) = &self.identity {
            let _ = identity.dispose();
        }
    }
}

impl Session {
    /// Sets breakpoints where a step over the frame's line may have to wait, and where its callers go on.
    pub(super) fn gates_for(&self, frame: &ManagedFrame, granularity: Granularity) -> Vec<Gate> {
        let mut gates = Vec::new();
        let Some(pdb) = frame.module.pdb() else { return gates };
        let Ok(Some(stepping)) = pdb.async_stepping(frame.method) else { return gates };
        let Some(state_machine) = self.state_machine(frame) else { return gates };
        if granularity != Granularity::Out {
            let ranges = super::steps::line_ranges(frame);
            let on_line = |offset: u32| ranges.iter().any(|range| (range.start..range.end).contains(&offset));
            for wait in stepping.awaits.iter().filter(|wait| on_line(wait.yields_at)) {
                let place = self.code_place(&frame.module, frame.method, wait.yields_at);
                let kind = GateKind::Yields { resumes_in: wait.resumes_in, resumes_at: wait.resumes_at };
                gates.extend(self.gate(&place, kind, &state_machine));
            }
        }
        if let Some(awaiting) = self.awaiting_of(&state_machine) {
            let place = self.code_place(&awaiting.module, awaiting.method, awaiting.offset);
            gates.extend(self.gate(&place, GateKind::Resumes, &awaiting.state_machine));
        }
        gates
    }

    fn gate(&self, place: &CodePlace, kind: GateKind, state_machine: &Seen) -> Option<Gate> {
        let site = self.sites.hold(place).ok()?;
        Some(Gate { site, kind, identity: self.handle_of(state_machine) })
    }

    pub(super) fn code_place(&self, module: &Rc<LoadedModule>, method: Token, offset: u32) -> CodePlace {
        let location = self.place_of(module, method, offset);
        CodePlace { module: module.clone(), method, offset, location }
    }

    /// One of the step's own breakpoints was hit.
    pub(super) fn gate_passed(
        &mut self,
        thread: &Com<Thread>,
        hit: usize,
    ) -> Result<Option<Stop>, DebugError> {
        let Some(stepping) = &self.stepping else { return Ok(None) };
        let Some(gate) = stepping.gates.iter().find(|gate| gate.site.is(hit)) else {
            return Ok(None);
        };
        let kind = gate.kind;
        let (frames, _) = self.frames(thread, 1)?;
        let Some(frame) = frames.first().cloned() else { return Ok(None) };
        match self.is_same_call(hit, &frame) {
            Some(true) => {}
            Some(false) => return Ok(None),
            // A step that went on for ever would be worse than one that says what it does not know.
            None => self.doubt_step(),
        }
        match kind {
            GateKind::Yields { resumes_in, resumes_at } => {
                let Some(state_machine) = self.state_machine(&frame) else { return Ok(None) };
                let place = self.code_place(&frame.module, resumes_in, resumes_at);
                let gate = self.gate(&place, GateKind::Resumes, &state_machine);
                self.step_waits(gate);
                Ok(None)
            }
            GateKind::Resumes => self.step_goes_on(thread, &frame),
        }
    }

    /// Whether a frame belongs to the call that a gate is about; none where the runtime does not tell.
    fn is_same_call(&self, hit: usize, frame: &ManagedFrame) -> Option<bool> {
        let gates = self.stepping.iter().flat_map(|stepping| &stepping.gates);
        let gate = gates.into_iter().find(|gate| gate.site.is(hit));
        let wanted = gate.and_then(|gate| gate.identity.as_ref())?;
        let found = self.state_machine(frame).and_then(|seen| self.identity_value(&seen));
        let found = found
            .and_then(|value| value.cast::<ReferenceValue>())
            .and_then(|reference| reference.value().ok());
        Some(wanted.value().ok()? == found?)
    }

    /// The state machine of a frame's method.
    pub(super) fn state_machine(&self, frame: &ManagedFrame) -> Option<Seen> {
        frame.module.pdb()?.kickoff_method(frame.method)?;
        match &frame.frame {
            Some(stack_frame) => self.values().see(&stack_frame.argument(0).ok()?).ok(),
            None => frame.state_machine.clone(),
        }
    }

    /// Whether a frame's method is async and has come to its end, where it tells those that wait for it.
    pub(super) fn is_finished(&self, frame: &ManagedFrame) -> bool {
        /// What compilers set the state to before the task is completed.
        const FINISHED: i64 = -2;
        let state_machine = self.state_machine(frame);
        let state = state_machine.and_then(|seen| self.values().integer_field(&seen, &["<>1__state"]));
        state == Some(FINISHED)
    }

    /// What stays the same for one call: the state machine where it is an object, the task that it completes otherwise.
    fn identity_value(&self, state_machine: &Seen) -> Option<Com<Value>> {
        if !state_machine.of.is_value_type() {
            return Some(state_machine.value.clone());
        }
        self.task_of(state_machine).map(|task| task.value).filter(|value| {
            value.cast::<ReferenceValue>().is_some_and(|reference| reference.is_null() == Ok(false))
        })
    }

    fn handle_of(&self, state_machine: &Seen) -> Option<Com<HandleValue>> {
        let value = self.identity_value(state_machine)?;
        let object = value.cast::<ReferenceValue>()?.dereference().ok()?;
        object.cast::<HeapValue2>()?.create_handle(STRONG).ok()
    }

    /// The task that a state machine completes; none before it first waits.
    fn task_of(&self, state_machine: &Seen) -> Option<Seen> {
        let values = self.values();
        let builder = values.field_seen(state_machine, "<>t__builder")?;
        let mut current = builder;
        for _ in 0..4 {
            if let Some(task) =
                values.any_field(&current, &["m_task", "_task"]).filter(|task| !task.is_null())
            {
                return Some(task);
            }
            // Builders are wrapped in each other.
            current = values.any_field(&current, &["m_builder", "_methodBuilder", "_builder"])?;
        }
        None
    }

    /// The async methods that wait for a frame's method, the nearest first.
    pub(super) fn awaiting_chain(&self, frame: &ManagedFrame) -> Vec<Awaiting> {
        let mut chain: Vec<Awaiting> = Vec::new();
        let mut current = self.state_machine(frame);
        while let Some(state_machine) = current
            && chain.len() < LONGEST_CHAIN
        {
            let Some(awaiting) = self.awaiting_of(&state_machine) else { break };
            current = Some(awaiting.state_machine.clone());
            chain.push(awaiting);
        }
        chain
    }

    /// The method that goes on when a state machine's task is done.
    fn awaiting_of(&self, state_machine: &Seen) -> Option<Awaiting> {
        let task = self.task_of(state_machine)?;
        let continuation = self.values().field_seen(&task, "m_continuationObject")?;
        self.continued_by(continuation, 0)
    }

    /// Whose state machine a continuation moves.
    fn continued_by(&self, continuation: Seen, depth: u32) -> Option<Awaiting> {
        if continuation.is_null() || depth > 6 {
            return None;
        }
        let values = self.values();
        // The box of a state machine is a task itself.
        if let Some(state_machine) = values.field_seen(&continuation, "StateMachine") {
            return self.awaiting_with(state_machine);
        }
        // A delegate, a wrapper around one, or a list of which the first is told.
        let next = ["_target", "m_action", "_action", "_continuation", "m_continuation", "_innerTask"]
            .iter()
            .find_map(|name| values.field_seen(&continuation, name).filter(|next| !next.is_null()));
        self.continued_by(next?, depth + 1)
    }

    pub(super) fn awaiting_with(&self, state_machine: Seen) -> Option<Awaiting> {
        let definition = state_machine.of.definition.clone()?;
        let module = definition.module.clone();
        let method = definition.type_def()?.methods_named("MoveNext").next()?.token();
        let state = self.values().integer_field(&state_machine, &["<>1__state"])?;
        let stepping = module.pdb()?.async_stepping(method).ok()??;
        let wait = stepping.awaits.get(usize::try_from(state).ok()?)?;
        Some(Awaiting { module, method: wait.resumes_in, offset: wait.resumes_at, state_machine })
    }
}
