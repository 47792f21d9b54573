//! Async methods, stepped through as they are written.
//!
//! An async method that must wait returns, and goes on later, perhaps on another thread. Where a step comes to such a return,
//! breakpoints of its own are set where the method goes on, and where whoever awaits it does; the step goes on from there, if
//! it is the same call that gets there.

use hindcast_core::debug::{DebugError, Granularity, Stop};

use super::{Session, places::CodePlace, sites::Site, stack::ManagedFrame, steps::Stepping};
use crate::{
    cor::{Com, HandleValue, ReferenceValue, Thread, Value},
    image::Token,
    modules::LoadedModule,
    values::Seen,
};
use std::rc::Rc;

/// The longest chain of awaiting methods that is followed.
const LONGEST_CHAIN: usize = 64;

/// The most objects that are looked at between a method and the one that awaits it.
const LONGEST_WAY: usize = 128;

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
        let is_gate = |stepping: &Stepping| stepping.gates.iter().any(|gate| gate.site.is(hit));
        if !self.stepping.as_ref().is_some_and(is_gate) {
            return Ok(None);
        }
        let (frames, _) = self.frames(thread, 1)?;
        let Some(frame) = frames.first().cloned() else { return Ok(None) };
        let Some((kind, is_sure)) = self.gate_of_call(hit, &frame) else { return Ok(None) };
        if !is_sure {
            // A step that went on for ever would be worse than one that says what it does not know.
            self.doubt_step();
        }
        match kind {
            GateKind::Yields { resumes_in, resumes_at } => {
                let Some(state_machine) = self.state_machine(&frame) else { return Ok(None) };
                let place = self.code_place(&frame.module, resumes_in, resumes_at);
                let gate = self.gate(&place, GateKind::Resumes, &state_machine);
                self.step_waits(gate);
                Ok(None)
            }
            GateKind::Resumes => self.step_goes_on(thread),
        }
    }

    /// The gate that a frame's call has come to, and whether it is sure that it is the same call.
    fn gate_of_call(&self, hit: usize, frame: &ManagedFrame) -> Option<(GateKind, bool)> {
        let found = self.state_machine(frame).and_then(|seen| self.identity_value(&seen));
        let found = found
            .and_then(|value| value.cast::<ReferenceValue>())
            .and_then(|reference| reference.value().ok());
        let gates = self.stepping.iter().flat_map(|stepping| &stepping.gates);
        let mut gates = gates.filter(|gate| gate.site.is(hit)).filter_map(|gate| {
            let wanted = gate.identity.as_ref().and_then(|identity| identity.value().ok());
            match (wanted, found) {
                (Some(wanted), Some(found)) => (wanted == found).then_some((gate.kind, true)),
                // The runtime does not tell.
                _ => Some((gate.kind, false)),
            }
        });
        gates.next()
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
        let Some(state_machine) = self.state_machine(frame) else { return false };
        let Some(state) = self.values().integer_field(&state_machine, &["<>1__state"]) else { return false };
        // Where an async iterator gives an item, its state is one of those below.
        state == FINISHED || state < FINISHED && self.promise_of(&state_machine).is_some()
    }

    /// Whether two frames belong to one call of an async iterator, of which the outer gave an item.
    pub(super) fn is_same_iterator(&self, one: &ManagedFrame, other: &ManagedFrame) -> bool {
        if one.method != other.method || !Rc::ptr_eq(&one.module, &other.module) {
            return false;
        }
        let address = |frame: &ManagedFrame| {
            let state_machine = self.state_machine(frame)?;
            self.promise_of(&state_machine)?;
            state_machine.value.cast::<ReferenceValue>()?.value().ok()
        };
        address(one).is_some_and(|address_of_one| Some(address_of_one) == address(other))
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
        self.identity_value(state_machine)?.cast::<ReferenceValue>()?.hold()
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

    /// The method that goes on when a state machine's task is done, or its next item is there.
    fn awaiting_of(&self, state_machine: &Seen) -> Option<Awaiting> {
        self.continued_by(self.continuation_of(state_machine)?, &mut { LONGEST_WAY })
    }

    /// What goes on when a state machine's task is done or, for an async iterator, when it gives an item or has ended. Null
    /// where nobody waits yet.
    fn continuation_of(&self, state_machine: &Seen) -> Option<Seen> {
        let values = self.values();
        let Some(promise) = self.promise_of(state_machine) else {
            return values.field_seen(&self.task_of(state_machine)?, "m_continuationObject");
        };
        let with = values.field_seen(&promise, "_continuationState").filter(|with| !with.is_null());
        with.or_else(|| values.field_seen(&promise, "_continuation"))
    }

    /// Whether nobody waits for an async method that has waited itself.
    pub(super) fn is_unclaimed(&self, frame: &ManagedFrame) -> bool {
        let continuation = self.state_machine(frame).and_then(|seen| self.continuation_of(&seen));
        continuation.is_some_and(|continuation| continuation.is_null())
    }

    /// What an async iterator keeps whoever waits for its next item in.
    fn promise_of(&self, state_machine: &Seen) -> Option<Seen> {
        self.values().field_seen(state_machine, "<>v__promiseOfValueOrEnd")
    }

    /// Whose state machine a continuation moves: the first one of the program, with whatever the framework has between.
    /// Looks at `most` objects, because they may lead to each other.
    fn continued_by(&self, continuation: Seen, most: &mut usize) -> Option<Awaiting> {
        *most = most.checked_sub(1)?;
        if continuation.is_null() {
            return None;
        }
        let values = self.values();
        // The box of a state machine is a task itself.
        if let Some(state_machine) = values.field_seen(&continuation, "StateMachine") {
            let definition = state_machine.of.definition.as_ref();
            if definition.is_some_and(|definition| definition.module.pdb().is_some()) {
                return self.awaiting_with(state_machine);
            }
        }
        // A delegate, a wrapper around one, or a list of which the first is told.
        let next = ["_target", "m_action", "_action", "_continuation", "m_continuation", "_innerTask"]
            .iter()
            .find_map(|name| values.field_seen(&continuation, name).filter(|next| !next.is_null()));
        // A task that is done when others are, as of `Task.WhenAll`, has one that goes on when it is.
        next.and_then(|next| self.continued_by(next, most)).or_else(|| {
            let behind = values.field_seen(&continuation, "m_continuationObject")?;
            self.continued_by(behind, most)
        })
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
