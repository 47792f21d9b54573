//! Steps by lines.

use hindcast_core::debug::{DebugError, Granularity, Reason, Stop, StopReason, ThreadId};

use super::{Session, awaits::Gate, failed, stack::ManagedFrame};
use crate::cor::{Com, StepRange, Stepper, Stepper2, Thread};

/// Class constructors are not stepped into; filters and the like are.
const INTERCEPT: u32 = 0xffff & !0x01 & !0x04;

/// `STEP_CALL`: the step is at the beginning of a function.
const BY_CALL: u32 = 2;

/// A step that is under way.
#[derive(Debug)]
pub(super) struct Stepping {
    /// None while an async method waits.
    stepper: Option<Com<Stepper>>,
    /// Where it goes on when an async method has to wait.
    pub(super) gates: Vec<Gate>,
    /// The frame that the gates are for.
    gated: Option<u64>,
    /// Whether it may have gone on in another call of an async method than the one it began in.
    is_doubtful: bool,
    /// What it leaves, where that goes on with nobody.
    leaves: Option<String>,
    granularity: Granularity,
    /// How many are left, with this one.
    count: u32,
    start: Start,
}

/// Where a step began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Start {
    frame: Option<u64>,
    file: Option<String>,
    line: Option<u32>,
}

impl Session {
    pub(super) fn begin_step(
        &mut self,
        thread: ThreadId,
        granularity: Granularity,
        count: u32,
    ) -> Result<Option<Stop>, DebugError> {
        let object = self.thread(thread)?;
        if self.is_stuck(&object) {
            let what = "this thread cannot step, because a call that an evaluation made still runs on it";
            return Err(DebugError::Unsupported(
                Reason::new(what)
                    .advise("let the program go on; the call ends when what it waits for happens"),
            ));
        }
        if let Some(stop) = self.let_callers_wait(&object)? {
            return Ok(Some(stop));
        }
        let (frames, _) = self.frames(&object, 1)?;
        let frame = frames.first().cloned();
        let start = self.start_of(frame.as_ref());
        let gates = frame.as_ref().map(|frame| self.gates_for(frame, granularity)).unwrap_or_default();
        let mut stepping = Stepping {
            stepper: None,
            gates,
            gated: start.frame,
            is_doubtful: false,
            leaves: None,
            granularity,
            count: count.max(1),
            start,
        };
        if granularity == Granularity::Out && self.just_my_code && self.is_resumed(&object)? {
            // A stepper would go on to whatever the thread does next.
            let frame = frame.filter(|frame| stepping.gates.is_empty() && self.is_unclaimed(frame));
            stepping.leaves = frame.and_then(|frame| self.location(&frame).function);
        } else {
            stepping.stepper = Some(self.step_from(&object, frame.as_ref(), granularity)?);
        }
        self.stepping = Some(stepping);
        Ok(None)
    }

    fn start_of(&self, frame: Option<&ManagedFrame>) -> Start {
        let location = frame.map(|frame| self.location(frame)).unwrap_or_default();
        Start { frame: frame.and_then(Self::frame_identity), file: location.file, line: location.line }
    }

    /// Sets a stepper up; it works when the debuggee goes on.
    fn step_from(
        &self,
        thread: &Com<Thread>,
        frame: Option<&ManagedFrame>,
        granularity: Granularity,
    ) -> Result<Com<Stepper>, DebugError> {
        let stepper = thread.create_stepper().map_err(failed)?;
        stepper.set_unmapped_stop_mask(0).map_err(failed)?;
        stepper.set_intercept_mask(INTERCEPT).map_err(failed)?;
        if let Some(stepper) = stepper.cast::<Stepper2>().filter(|_| self.just_my_code) {
            stepper.set_just_my_code(1).map_err(failed)?;
        }
        let ranges = frame.map(line_ranges).unwrap_or_default();
        let is_into = granularity == Granularity::Line;
        match granularity {
            Granularity::Out => stepper.step_out(),
            _ if ranges.is_empty() => match frame {
                // Code without lines is left, not walked through.
                Some(_) => stepper.step_out(),
                None => stepper.step(is_into.into()),
            },
            _ => stepper.step_range(is_into, &ranges),
        }
        .map_err(failed)?;
        Ok(stepper)
    }

    /// A stepper says that it is done.
    pub(super) fn step_done(
        &mut self,
        thread: &Com<Thread>,
        stepper: &Com<Stepper>,
        reason: u32,
    ) -> Result<Option<Stop>, DebugError> {
        let Some(stepping) = &self.stepping else { return Ok(None) };
        if stepping.stepper.as_ref().map(Com::identity) != Some(stepper.identity()) {
            return Ok(None);
        }
        let is_over = stepping.granularity == Granularity::Over;
        if is_over && reason == BY_CALL && self.is_called_by_own_code(thread)? {
            let out = self.step_from(thread, None, Granularity::Out)?;
            if let Some(stepping) = &mut self.stepping {
                stepping.stepper = Some(out);
            }
            return Ok(None);
        }
        self.step_arrived(thread)
    }

    /// Whether the user's code has called what a thread is in. A step over that leaves a function for library code ends in the next
    /// function of the user that this calls; the runtime sometimes passes over that one, and stops in what it calls.
    fn is_called_by_own_code(&mut self, thread: &Com<Thread>) -> Result<bool, DebugError> {
        let (frames, _) = self.frames(thread, 2)?;
        Ok(frames.get(1).is_some_and(|caller| caller.module.is_mine()))
    }

    /// A step got somewhere: to the next line, or to a place from which it goes on.
    fn step_arrived(&mut self, thread: &Com<Thread>) -> Result<Option<Stop>, DebugError> {
        let Some(stepping) = &self.stepping else { return Ok(None) };
        let (granularity, count) = (stepping.granularity, stepping.count);
        let (frames, _) = self.frames(thread, 1)?;
        let frame = frames.first().cloned();
        if frame.is_none() {
            // The thread has left all managed code, as at the end of an optimised async `Main`.
            if let Some(stepping) = &mut self.stepping {
                stepping.stepper = None;
            }
            return Ok(None);
        }
        let now = self.start_of(frame.as_ref());
        let stepping = self.stepping.as_ref().filter(|_| granularity != Granularity::Out);
        let is_same_line = stepping.is_some_and(|stepping| stepping.start == now);
        let is_written = now.line.is_some() && !frame.as_ref().is_some_and(is_hidden);
        if is_same_line || !is_written {
            // In the middle of the line, or in code that the compiler made.
            let granularity = if granularity == Granularity::Out { Granularity::Over } else { granularity };
            let next = self.step_from(thread, frame.as_ref(), granularity)?;
            // An exception may have left the method that the step began in, for an async one that keeps it for its caller.
            let is_gated = self.stepping.as_ref().is_some_and(|stepping| stepping.gated == now.frame);
            let gates = frame.filter(|_| !is_gated).map(|frame| self.gates_for(&frame, granularity));
            if let Some(stepping) = &mut self.stepping {
                stepping.stepper = Some(next);
                stepping.gates.extend(gates.unwrap_or_default());
                stepping.gated = now.frame;
            }
            return Ok(None);
        }
        if count > 1 {
            let thread = self.thread_id(thread);
            self.end_steps();
            return self.begin_step(thread, granularity, count - 1);
        }
        Ok(Some(self.step_ended(thread)))
    }

    /// The stop at the end of a step.
    fn step_ended(&mut self, thread: &Com<Thread>) -> Stop {
        const DOUBT: &str = "another call of this async method may have got here first";
        let is_doubtful = self.stepping.as_ref().is_some_and(|stepping| stepping.is_doubtful);
        self.end_steps();
        self.stop_at(thread, StopReason::Step, is_doubtful.then_some(DOUBT))
    }

    /// Says of a stop that a step out of an async method could only end there.
    pub(super) fn tell_of_step(&self, stop: &mut Stop) {
        let left = self.stepping.as_ref().and_then(|stepping| stepping.leaves.as_ref());
        if let Some(left) = left {
            let said = format!("nothing awaited `{left}`, so the step out of it ran on");
            stop.detail = Some(stop.detail.take().map_or(said.clone(), |detail| format!("{detail}; {said}")));
        }
    }

    /// The step goes on where it cannot be told whether the same call does.
    pub(super) fn doubt_step(&mut self) {
        if let Some(stepping) = &mut self.stepping {
            stepping.is_doubtful = true;
        }
    }

    /// Forgets a step that is under way.
    pub(super) fn end_steps(&mut self) {
        if let Some(stepping) = self.stepping.take() {
            // It is done, or the debuggee is gone.
            if let Some(stepper) = &stepping.stepper {
                let _ = stepper.deactivate();
            }
            for gate in stepping.gates {
                gate.close();
            }
        }
    }

    /// The async method that is stepped through returns to wait: the step goes on behind this gate.
    pub(super) fn step_waits(&mut self, gate: Option<Gate>) {
        let Some(stepping) = &mut self.stepping else { return };
        if let Some(stepper) = stepping.stepper.take() {
            let _ = stepper.deactivate();
        }
        for gate in stepping.gates.drain(..) {
            gate.close();
        }
        stepping.gates.extend(gate);
    }

    /// An async method that was waited for goes on, or whoever awaits the one that has ended.
    pub(super) fn step_goes_on(&mut self, thread: &Com<Thread>) -> Result<Option<Stop>, DebugError> {
        self.step_waits(None);
        self.threads.waited_for = None;
        if let Some(stop) = self.let_callers_wait(thread)? {
            return Ok(Some(stop));
        }
        // The rest of the line that awaits has no line of its own: a step out of a method ends in it.
        let is_out = self.stepping.as_ref().is_some_and(|stepping| stepping.granularity == Granularity::Out);
        if is_out {
            return Ok(Some(self.step_ended(thread)));
        }
        let (frames, _) = self.frames(thread, 1)?;
        let Some(frame) = frames.first() else { return Ok(None) };
        let now = self.start_of(Some(frame));
        let stepper = self.step_from(thread, Some(frame), Granularity::Over)?;
        let gates = self.gates_for(frame, Granularity::Over);
        if let Some(stepping) = &mut self.stepping {
            let is_same_method = stepping.start.file == now.file && stepping.start.line == now.line;
            (stepping.stepper, stepping.gates, stepping.gated) = (Some(stepper), gates, now.frame);
            if is_same_method {
                stepping.start = now;
            }
        }
        Ok(None)
    }
}

/// Whether a frame is in code that the compiler wants hidden.
fn is_hidden(frame: &ManagedFrame) -> bool {
    let points =
        frame.module.pdb().and_then(|pdb| pdb.sequence_points(frame.method).ok()).unwrap_or_default();
    let point = points.iter().rev().find(|point| point.il <= frame.offset);
    point.is_none_or(|point| point.span.is_none())
}

/// The IL of the line that a frame is at: all statements of the line, with what the compiler put behind them. In code
/// that the compiler put before the first statement, that code.
pub(super) fn line_ranges(frame: &ManagedFrame) -> Vec<StepRange> {
    let Some(pdb) = frame.module.pdb() else { return Vec::new() };
    let Ok(points) = pdb.sequence_points(frame.method) else { return Vec::new() };
    let current = points.iter().rev().find(|point| point.il <= frame.offset && point.span.is_some());
    let line = current.and_then(|point| Some((point.document, point.span?.start_line)));
    let mut ranges: Vec<StepRange> = Vec::new();
    let mut inside = line.is_none();
    for (at, point) in points.iter().enumerate() {
        // Hidden code belongs to what is before it.
        inside = match point.span {
            Some(span) => line == Some((point.document, span.start_line)),
            None => inside,
        };
        let end = points.get(at + 1).map_or(u32::MAX, |next| next.il);
        match ranges.last_mut() {
            Some(last) if inside && last.end == point.il => last.end = end,
            _ if inside => ranges.push(StepRange { start: point.il, end }),
            _ => {}
        }
    }
    ranges
}
