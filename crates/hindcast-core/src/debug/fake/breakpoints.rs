//! The fake's breakpoints.

use super::{
    super::{
        Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, DebugError, OutputLog,
        OutputStream, Place, Trigger,
    },
    FakeStep,
    backend::{FakeBackend, address_of},
};

#[derive(Default)]
pub(super) struct Breakpoints {
    all: Vec<Breakpoint>,
    last: u32,
}

/// What getting to a step sets off.
pub(super) struct Hits {
    pub(super) stopping: Vec<BreakpointId>,
    pub(super) logged: Vec<String>,
}

impl Breakpoints {
    pub(super) fn add(&mut self, trigger: Trigger, binding: Binding) -> Breakpoint {
        self.last += 1;
        let id = BreakpointId(self.last);
        let added =
            Breakpoint { id, trigger, binding, hit_count: 0, notifications_sent: 0, counts: Vec::new() };
        self.all.push(added.clone());
        added
    }

    pub(super) fn all(&self) -> Vec<Breakpoint> {
        self.all.clone()
    }

    pub(super) fn remove(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let at = self.all.iter().position(|one| one.id == id).ok_or(DebugError::NoSuchBreakpoint(id))?;
        self.all.remove(at);
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        let found = self.all.iter_mut().find(|one| one.id == id).ok_or(DebugError::NoSuchBreakpoint(id))?;
        match &mut found.trigger {
            Trigger::Code(code) => {
                let text = |new: Option<String>, old: &mut Option<String>| {
                    if let Some(new) = new {
                        *old = Some(new).filter(|new| !new.is_empty());
                    }
                };
                code.enabled = change.enabled.unwrap_or(code.enabled);
                code.hit_count = change.hit_count.unwrap_or(code.hit_count);
                text(change.condition, &mut code.condition);
                text(change.log_message, &mut code.log_message);
            }
            Trigger::Watch(watch) => watch.enabled = change.enabled.unwrap_or(watch.enabled),
            Trigger::Exception(exception) => {
                exception.enabled = change.enabled.unwrap_or(exception.enabled);
            }
        }
        Ok(found.clone())
    }

    /// Which ones stop at this step, and what the others logged.
    pub(super) fn hit(&mut self, at: usize, step: &FakeStep, output: &OutputLog) -> Hits {
        let (mut stopping, mut logged) = (Vec::new(), Vec::new());
        for one in &mut self.all {
            let Binding::Bound { locations, .. } = &one.binding else { continue };
            let here = locations.iter().any(|location| location.address == Some(address_of(at)));
            let Trigger::Code(code) = &one.trigger else { continue };
            if !here || !code.enabled || !holds(code, step) {
                continue;
            }
            one.hit_count += 1;
            if one.hit_count < code.hit_count {
                continue;
            }
            match &code.log_message {
                Some(message) => {
                    one.notifications_sent += 1;
                    logged.push(filled(message, step));
                    output.push(OutputStream::Log, format!("{}\n", filled(message, step)).as_bytes());
                }
                None => stopping.push(one.id),
            }
        }
        self.all.retain(|one| {
            let temporary = matches!(&one.trigger, Trigger::Code(code) if code.temporary);
            !(temporary && stopping.contains(&one.id))
        });
        Hits { stopping, logged }
    }

    /// Which ones stop at this step when it is seen again; that counts no hits.
    pub(super) fn hit_again(&self, at: usize, step: &FakeStep) -> Vec<BreakpointId> {
        let stops = |one: &&Breakpoint| {
            let Binding::Bound { locations, .. } = &one.binding else { return false };
            let here = locations.iter().any(|location| location.address == Some(address_of(at)));
            match &one.trigger {
                Trigger::Code(code) => {
                    here && code.enabled && code.log_message.is_none() && holds(code, step)
                }
                Trigger::Watch(_) | Trigger::Exception(_) => false,
            }
        };
        self.all.iter().filter(stops).map(|one| one.id).collect()
    }
}

/// Conditions of the form `name == value`.
fn holds(code: &CodeBreakpoint, step: &FakeStep) -> bool {
    code.condition.as_ref().is_none_or(|condition| {
        condition.split_once("==").is_some_and(|(name, value)| {
            step.locals.iter().any(|local| local.name == name.trim() && local.value == value.trim())
        })
    })
}

fn filled(message: &str, step: &FakeStep) -> String {
    step.locals
        .iter()
        .fold(message.to_owned(), |text, local| text.replace(&format!("{{{}}}", local.name), &local.value))
}

impl FakeBackend {
    /// Where a trigger binds; places that do not exist are errors, functions may still come.
    pub(super) fn binding(&self, trigger: &Trigger) -> Result<Binding, DebugError> {
        let Trigger::Code(code) = trigger else {
            return Ok(Binding::Bound { locations: Vec::new(), note: None });
        };
        match self.place(&code.place) {
            Ok(at) => {
                let location = self.location(at);
                let note = match &code.place {
                    Place::Line { line, .. } if location.line != Some(*line) => Some(format!(
                        "line {line} has no code; it is on line {} instead",
                        self.program.steps[at].line
                    )),
                    _ => None,
                };
                Ok(Binding::Bound { locations: vec![location], note })
            }
            Err(_) if matches!(code.place, Place::Function(_)) => {
                Ok(Binding::Pending { reason: format!("no loaded module has `{}`", code.place) })
            }
            Err(error) => Err(error),
        }
    }
}
