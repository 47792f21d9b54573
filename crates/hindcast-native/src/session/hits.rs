//! What happens when a thread gets to one of the user's breakpoints.

use hindcast_core::debug::{
    BreakpointId, DebugError, OutputStream, RaisedException, Stop, StopReason, Trigger, ValueLimits,
};

use super::{Session, judge::stops_at, movement::Verdict, system};
use crate::{look::FrameScope, sys::Tid};

/// Whether a breakpoint instruction is the user's business.
#[derive(Debug)]
pub(super) enum Hit {
    Stop(Box<Stop>),
    /// No breakpoint there, or none that wants to stop.
    Nothing,
}

/// What a condition came to.
pub(super) enum Condition {
    True,
    False,
    Failed(String),
}

impl Session {
    /// Counts hits, writes log messages, and says whether to stop.
    pub(super) fn hits_at(&mut self, tid: Tid, address: u64) -> Result<Hit, DebugError> {
        let mut stopping = Vec::new();
        let mut details = Vec::new();
        let mut exception = None;
        for id in self.breakpoints.at(address) {
            match &self.breakpoints.get(id)?.trigger {
                Trigger::Code(_) => {
                    if let Some(detail) = self.code_hit(tid, id)? {
                        stopping.push(id);
                        details.extend(detail);
                    }
                }
                Trigger::Exception(_) => {
                    if let Some(raised) = self.exception_at(tid, address, id)? {
                        self.breakpoints.get_mut(id)?.hit_count += 1;
                        exception = Some(raised);
                        stopping.push(id);
                    }
                }
                Trigger::Watch(_) => {}
            }
        }
        if exception.is_none() {
            exception = self.unasked_panic(tid, address);
        }
        if stopping.is_empty() && exception.is_none() {
            return Ok(Hit::Nothing);
        }
        self.process.pass_breakpoint(tid);
        let mut stop = match exception {
            Some(raised) => self.stop_at_exception(tid, raised),
            None => self.stop_at(tid, StopReason::Breakpoint),
        };
        details.extend(stop.detail.take());
        stop.detail = (!details.is_empty()).then(|| details.join("; "));
        self.hidden = self.hidden_from(&stopping, address);
        self.remove_temporary(&stopping)?;
        stop.breakpoints = stopping;
        Ok(Hit::Stop(Box::new(stop)))
    }

    /// How many inlined calls are left out of what is shown where breakpoints stop.
    pub(super) fn hidden_from(&self, stopping: &[BreakpointId], address: u64) -> usize {
        let hidden =
            stopping.iter().filter_map(|&id| Some(self.breakpoints.get(id).ok()?.hidden.at(address)));
        hidden.max().unwrap_or(0)
    }

    /// What is raised where an exception breakpoint is, if it waits for that.
    pub(super) fn exception_at(
        &self,
        tid: Tid,
        address: u64,
        id: BreakpointId,
    ) -> Result<Option<RaisedException>, DebugError> {
        let entry = self.breakpoints.get(id)?;
        let (Trigger::Exception(wanted), Some(kind)) = (&entry.trigger, &entry.exception) else {
            return Ok(None);
        };
        let function = self.location(address).function.unwrap_or_default();
        Ok(self.raised(tid, kind, wanted, &function))
    }

    /// `Some` where it stops, with what is to be said of that.
    fn code_hit(&mut self, tid: Tid, id: BreakpointId) -> Result<Option<Option<String>>, DebugError> {
        let complaint = match self.condition(tid, id)? {
            Condition::False => return Ok(None),
            Condition::True => None,
            Condition::Failed(reason) => Some(reason),
        };
        self.count_hit(tid, id)?;
        let entry = self.breakpoints.get(id)?;
        let Trigger::Code(code) = &entry.trigger else { return Ok(None) };
        let counts = stops_at(code, entry.ordinal);
        if complaint.is_some() {
            return Ok(Some(complaint));
        }
        if !counts {
            return Ok(None);
        }
        if entry.template.is_none() {
            return Ok(Some(None));
        }
        if code.max_notifications == 0 || entry.notifications_sent < code.max_notifications {
            self.log_hit(tid, id)?;
        }
        Ok(None)
    }

    /// The thread that goes on from a breakpoint without hitting it was stopped there before it was judged: it counts.
    pub(super) fn count_unjudged(&mut self) -> Result<(), DebugError> {
        let Some(tid) = self.process.take_unjudged().filter(|tid| *tid == self.current) else {
            return Ok(());
        };
        let pc = self.process.registers(tid).map_err(system)?.pc();
        for id in self.breakpoints.at(pc) {
            if matches!(self.breakpoints.get(id)?.trigger, Trigger::Code(_)) {
                self.code_hit(tid, id)?;
            }
        }
        Ok(())
    }

    /// Counts a hit where a thread stands, apart by its value if that is asked for.
    pub(super) fn count_hit(&mut self, tid: Tid, id: BreakpointId) -> Result<(), DebugError> {
        let value = match &self.breakpoints.get(id)?.count_by {
            Some(template) => {
                Some(self.with_scope_of(tid, id, |scope| template.render(scope, ValueLimits::default()))?)
            }
            None => None,
        };
        self.breakpoints.get_mut(id)?.pass(1, value.map(|value| (value, 1)).into_iter().collect());
        Ok(())
    }

    pub(super) fn condition_holds(&mut self, tid: Tid, id: BreakpointId) -> Result<bool, DebugError> {
        Ok(!matches!(self.condition(tid, id)?, Condition::False))
    }

    fn condition(&self, tid: Tid, id: BreakpointId) -> Result<Condition, DebugError> {
        let Some(condition) = &self.breakpoints.get(id)?.condition else { return Ok(Condition::True) };
        let result = self.with_scope_of(tid, id, |scope| condition.is_true(scope))?;
        Ok(match result {
            Ok(true) => Condition::True,
            Ok(false) => Condition::False,
            // Stopping tells the user of the mistake; going on would hide it for ever.
            Err(error) => Condition::Failed(format!("the condition of breakpoint {id} fails: {error}")),
        })
    }

    /// Looks at the names that are meant where a thread stands at a breakpoint.
    fn with_scope_of<T>(
        &self,
        tid: Tid,
        id: BreakpointId,
        look: impl FnOnce(&FrameScope<'_>) -> T,
    ) -> Result<T, DebugError> {
        let mut thread = self.thread_scene(tid)?;
        thread.hidden = self.breakpoints.get(id)?.hidden.at(thread.registers.pc());
        self.with_scene(|scene| FrameScope::enter(scene, &thread, 0).map(|scope| look(&scope)))
    }

    fn log_hit(&mut self, tid: Tid, id: BreakpointId) -> Result<(), DebugError> {
        let Some(template) = &self.breakpoints.get(id)?.template else { return Ok(()) };
        let mut text = self.with_scope_of(tid, id, |scope| template.render(scope, ValueLimits::default()))?;
        text.push('\n');
        self.log.push(OutputStream::Log, text.as_bytes());
        self.breakpoints.get_mut(id)?.notifications_sent += 1;
        Ok(())
    }

    fn remove_temporary(&mut self, ids: &[BreakpointId]) -> Result<(), DebugError> {
        for &id in ids {
            if let Trigger::Code(code) = &self.breakpoints.get(id)?.trigger
                && code.temporary
            {
                self.removed(id)?;
            }
        }
        Ok(())
    }

    /// Debug registers told of an access.
    pub(super) fn judge_watch(&mut self, tid: Tid, slots: &[usize]) -> Result<Verdict, DebugError> {
        if self.is_awaited_by(slots) {
            self.look_for_awaited()?;
        }
        // An exception or a jump may have left the frame without returning.
        if let Some(stop) = self.left_frames(tid, None)? {
            return Ok(Verdict::Stop(stop));
        }
        let hit: Vec<_> = self
            .breakpoints
            .iter()
            .filter(|(_, entry)| entry.watching.as_ref().is_some_and(|watching| watching.is_hit_by(slots)))
            .map(|(id, _)| id)
            .collect();
        self.judge_watched(tid, hit)
    }

    /// Whether what happened to watched memory is to be told.
    pub(super) fn judge_watched(&mut self, tid: Tid, hit: Vec<BreakpointId>) -> Result<Verdict, DebugError> {
        let mut stopping = Vec::new();
        let mut details = Vec::new();
        for id in hit {
            if let Some(detail) = self.watch_hit(tid, id)? {
                stopping.push(id);
                details.push(detail);
            }
        }
        if stopping.is_empty() {
            return Ok(Verdict::Stepped(tid));
        }
        let mut stop = self.stop_at(tid, StopReason::Watchpoint);
        stop.breakpoints = stopping;
        stop.detail = Some(details.join("; "));
        Ok(Verdict::Stop(Box::new(stop)))
    }
}
