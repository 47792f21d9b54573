//! Steps by lines.

use hindcast_core::debug::{DebugError, Granularity, Stop, StopReason, ThreadId};

use super::{Session, failed, stack::ManagedFrame};
use crate::cor::{Com, StepRange, Stepper, Stepper2, Thread};

/// Class constructors are not stepped into; filters and the like are.
const INTERCEPT: u32 = 0xffff & !0x01 & !0x04;

/// A step that is under way.
#[derive(Debug)]
pub(super) struct Stepping {
    stepper: Com<Stepper>,
    thread: ThreadId,
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
    ) -> Result<(), DebugError> {
        let object = self.thread(thread)?;
        let (frames, _) = self.frames(&object, 1)?;
        let frame = frames.first().cloned();
        let start = self.start_of(frame.as_ref());
        let stepper = self.step_from(&object, frame.as_ref(), granularity)?;
        self.stepping = Some(Stepping { stepper, thread, granularity, count: count.max(1), start });
        Ok(())
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
    ) -> Result<Option<Stop>, DebugError> {
        let Some(stepping) = &self.stepping else { return Ok(None) };
        if stepping.stepper.identity() != stepper.identity() {
            return Ok(None);
        }
        let (granularity, count) = (stepping.granularity, stepping.count);
        let (frames, _) = self.frames(thread, 1)?;
        let frame = frames.first().cloned();
        let now = self.start_of(frame.as_ref());
        let stepping = self.stepping.as_ref().filter(|_| granularity != Granularity::Out);
        let is_same_line = stepping.is_some_and(|stepping| stepping.start == now);
        let has_line = now.line.is_some();
        if (is_same_line || !has_line) && frame.is_some() {
            // In the middle of the line, or in code that the compiler made.
            let granularity = if granularity == Granularity::Out { Granularity::Over } else { granularity };
            let next = self.step_from(thread, frame.as_ref(), granularity)?;
            if let Some(stepping) = &mut self.stepping {
                stepping.stepper = next;
            }
            return Ok(None);
        }
        if count > 1 {
            let next = self.step_from(thread, frame.as_ref(), granularity)?;
            if let Some(stepping) = &mut self.stepping {
                (stepping.stepper, stepping.count, stepping.start) = (next, count - 1, now);
            }
            return Ok(None);
        }
        self.end_steps();
        Ok(Some(self.stop_at(thread, StopReason::Step, None)))
    }

    /// Forgets a step that is under way.
    pub(super) fn end_steps(&mut self) {
        if let Some(stepping) = self.stepping.take() {
            // It is done, or the debuggee is gone.
            let _ = stepping.stepper.deactivate();
        }
    }
}

/// The IL of the line that a frame is at: all statements of the line, with what the compiler put behind them.
fn line_ranges(frame: &ManagedFrame) -> Vec<StepRange> {
    let Some(pdb) = frame.module.pdb() else { return Vec::new() };
    let Ok(points) = pdb.sequence_points(frame.method) else { return Vec::new() };
    let Some(current) = pdb.statement_at(frame.method, frame.offset).and_then(|statement| statement.point) else {
        return Vec::new();
    };
    let Some(line) = current.span.map(|span| span.start_line) else { return Vec::new() };
    let mut ranges: Vec<StepRange> = Vec::new();
    let mut inside = false;
    for (at, point) in points.iter().enumerate() {
        // Hidden code belongs to what is before it.
        inside = match point.span {
            Some(span) => span.start_line == line && point.document == current.document,
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
