//! Steps by lines of Python: frames that are followed, and the way forwards.
//!
//! A frame keeps the instruction that it has come to in a slot of its own, which is written when each instruction begins. Who
//! watches that slot sees the lines of this frame go by, and nothing of what it calls.

use hindcast_core::debug::{DebugError, Granularity, Reason, ThreadId, View};
use hindcast_python::{LineMap, Move, Progress};
use hindcast_symbols::Memory as _;

use super::super::{Session, system};
use crate::{
    process::Halt,
    sys::{Tid, WatchKind},
};

/// A frame that is followed by its lines.
#[derive(Debug, Clone)]
pub(super) struct Course {
    pub(super) frame: u64,
    /// Where it keeps its instruction.
    pub(super) slot: u64,
    pub(super) lines: LineMap,
    pub(super) is_library: bool,
    has_handlers: bool,
    /// Whether it is part of what imports modules.
    pub(super) is_import: bool,
    /// Of a generator: the byte that becomes 0 whenever it goes on.
    pub(super) resumed: Option<u64>,
}

/// Some steps forwards of one thread.
#[derive(Debug)]
pub(in crate::session) struct LineSteps {
    thread: Tid,
    granularity: Granularity,
    remaining: u32,
    /// What the current step watches; nothing before it has begun.
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// The frame whose line is left, then its callers.
    frames: Vec<Followed>,
    /// Whether that frame is gone.
    is_left: bool,
    /// What tells of calls, where these are stepped into, and what was last seen there.
    calls: Vec<(u64, u64)>,
    /// The debug registers that all this takes.
    registers: Vec<usize>,
}

#[derive(Debug)]
struct Followed {
    course: Course,
    /// What was last seen in its slot.
    seen: u64,
    /// The last instruction that counts.
    from: u64,
}

impl LineSteps {
    pub(in crate::session) fn new(thread: Tid, granularity: Granularity, count: u32) -> Self {
        Self { thread, granularity, remaining: count, watched: None }
    }

    pub(in crate::session) fn thread(&self) -> Tid {
        self.thread
    }

    pub(in crate::session) fn registers(&self) -> &[usize] {
        self.watched.as_ref().map_or(&[], |watched| &watched.registers)
    }
}

impl Session {
    /// Whether steps of a thread are by lines of Python.
    pub(in crate::session) fn steps_in_python(
        &mut self,
        thread: ThreadId,
        granularity: Granularity,
    ) -> Result<bool, DebugError> {
        if granularity == Granularity::Instruction || self.process.ended().is_some() {
            return Ok(false);
        }
        let tid = self.known_thread(thread)?;
        Ok(self.with_python(View::Auto, tid, |_| ())?.is_some())
    }

    /// The innermost frames of a thread that can be read.
    fn courses(&mut self, tid: Tid, limit: usize) -> Vec<Course> {
        let found = self.with_python(View::Python, tid, |speaker| {
            let course = |frame: &hindcast_python::Frame| Course {
                frame: frame.address,
                slot: speaker.reader.progress_slot(frame),
                lines: frame.code.line_map(),
                is_library: frame.code.is_library(),
                has_handlers: frame.code.has_handlers,
                is_import: frame.code.file.starts_with("<frozen "),
                resumed: speaker.reader.resumption_slot(frame),
            };
            speaker.reader.frames(&speaker.thread, limit).frames.iter().map(course).collect()
        });
        found.ok().flatten().unwrap_or_default()
    }

    pub(super) fn innermost(&mut self, tid: Tid) -> Option<Course> {
        self.courses(tid, 1).pop()
    }

    /// What tells which frame of a thread is the innermost, with what is there now.
    pub(super) fn calls_of(&mut self, tid: Tid) -> Vec<(u64, u64)> {
        let slots =
            self.with_python(View::Python, tid, |speaker| speaker.reader.innermost_slots(&speaker.thread));
        let slots = slots.ok().flatten().and_then(Result::ok).unwrap_or_default();
        slots.into_iter().filter_map(|slot| Some((slot, self.word_at(slot)?))).collect()
    }

    pub(super) fn word_at(&self, address: u64) -> Option<u64> {
        self.process.memory().read_pointer(address).ok()
    }

    /// Makes the next movement of steps forwards; `None` when they are done.
    pub(in crate::session) fn next_of_line_steps(
        &mut self,
        steps: &mut LineSteps,
    ) -> Result<Option<Halt>, DebugError> {
        if steps.remaining == 0 {
            return Ok(None);
        }
        if steps.watched.is_none() {
            self.watch_lines(steps, None)?;
        }
        self.run_watching().map(Some).map_err(system)
    }

    /// Watches the lines of the innermost frame from now on, and those of its callers. The line of the instruction `from` is
    /// to be left, if it is not the one where it stands.
    fn watch_lines(&mut self, steps: &mut LineSteps, from: Option<u64>) -> Result<(), DebugError> {
        const CALLERS: usize = 3;
        const DEEPEST: usize = 256;
        self.release_lines(steps);
        let mut frames: Vec<Followed> = Vec::new();
        for course in self.courses(steps.thread, DEEPEST) {
            // The library that stands between two calls of the user's is passed. Further out only an exception leads.
            let is_passed = match frames.len() {
                0 => false,
                1 => course.is_library,
                _ => course.is_library || !course.has_handlers,
            };
            if frames.len() <= CALLERS && !is_passed {
                let seen = self.word_at(course.slot).unwrap_or_default();
                frames.push(Followed { course, seen, from: seen });
            }
        }
        let first = frames.first_mut().ok_or_else(no_frame)?;
        first.from = from.unwrap_or(first.from);
        let watched = Watched { frames, is_left: false, calls: Vec::new(), registers: Vec::new() };
        self.arm_lines(steps, watched)
    }

    /// Sets debug registers to what steps watch.
    fn arm_lines(&mut self, steps: &mut LineSteps, mut watched: Watched) -> Result<(), DebugError> {
        if steps.granularity == Granularity::Line {
            watched.calls = self.calls_of(steps.thread);
        }
        let (frames, calls) = (&watched.frames, &watched.calls);
        // What matters least comes last: there may be too few registers for all.
        let slots = frames.iter().map(|frame| frame.course.slot);
        let wanted: Vec<_> =
            slots.clone().take(2).chain(calls.iter().map(|call| call.0)).chain(slots.skip(2)).collect();
        let needed = calls.len() + frames.len().min(2);
        for (number, slot) in wanted.into_iter().enumerate() {
            match self.process.watch(slot, 8, WatchKind::Write) {
                Ok(Some(registers)) => watched.registers.extend(registers),
                Err(error) => {
                    steps.watched = Some(watched);
                    self.release_lines(steps);
                    return Err(system(error));
                }
                Ok(None) if number < needed => {
                    steps.watched = Some(watched);
                    self.release_lines(steps);
                    let reason = Reason::new(
                        "steps by lines of Python need the processor's debug registers, which watchpoints have taken",
                    );
                    return Err(DebugError::Unsupported(reason.advise("remove a watchpoint")));
                }
                Ok(None) => break,
            }
        }
        steps.watched = Some(watched);
        Ok(())
    }

    /// Gives back what steps have watched.
    fn release_lines(&mut self, steps: &mut LineSteps) {
        if let Some(watched) = steps.watched.take() {
            // A program that has ended has nothing to give back.
            let _ = self.process.unwatch(&watched.registers);
        }
    }

    /// Something that steps watch was written.
    pub(in crate::session) fn line_stepped(
        &mut self,
        steps: &mut LineSteps,
        tid: Tid,
    ) -> Result<(), DebugError> {
        if tid != steps.thread {
            return Ok(());
        }
        let Some(mut watched) = steps.watched.take() else { return Ok(()) };
        let moved =
            watched.frames.iter().position(|frame| self.word_at(frame.course.slot) != Some(frame.seen));
        let meaning = match moved {
            Some(number) => {
                let course = &watched.frames[number].course;
                let (frame, now) = (course.frame, self.word_at(course.slot).unwrap_or_default());
                let meaning = watched.moved(number, now, steps.granularity);
                // A call is noted in its caller, too.
                let is_running = number == 0 || self.innermost(tid).is_some_and(|inner| inner.frame == frame);
                if is_running { meaning } else { Meaning::Nothing }
            }
            None => self.called_in_step(&watched, tid),
        };
        match meaning {
            Meaning::Nothing => steps.watched = Some(watched),
            Meaning::Calls => {
                let _ = self.process.unwatch(&watched.registers);
                watched.registers.clear();
                return self.arm_lines(steps, watched);
            }
            Meaning::Another(from) => {
                steps.watched = Some(watched);
                return self.watch_lines(steps, from);
            }
            Meaning::Done => {
                steps.remaining -= 1;
                steps.watched = Some(watched);
                self.release_lines(steps);
            }
        }
        Ok(())
    }

    /// What it means for steps that another frame may have become the innermost.
    fn called_in_step(&mut self, watched: &Watched, tid: Tid) -> Meaning {
        if watched.calls.is_empty() {
            return Meaning::Nothing;
        }
        let inner = self.innermost(tid);
        let here = || watched.frames.iter().skip(usize::from(watched.is_left));
        let is_another =
            |course: &Course| !course.is_library && here().all(|known| known.course.frame != course.frame);
        if inner.is_some_and(|inner| is_another(&inner)) {
            return Meaning::Another(None);
        }
        let slots = self.calls_of(tid).into_iter().map(|call| call.0);
        match slots.eq(watched.calls.iter().map(|call| call.0)) {
            true => Meaning::Nothing,
            // C code has begun to run Python, or is done with it.
            false => Meaning::Calls,
        }
    }
}

/// What something that steps watch means for them.
enum Meaning {
    Nothing,
    /// Calls are told of elsewhere.
    Calls,
    /// Another frame is followed now; the line of this instruction is to be left, if it is not the one where that stands.
    Another(Option<u64>),
    Done,
}

impl Watched {
    /// One of the frames has come to another instruction.
    fn moved(&mut self, number: usize, now: u64, granularity: Granularity) -> Meaning {
        let Followed { course, seen, from } = &mut self.frames[number];
        *seen = now;
        let before = *from;
        let moved = course.lines.comes(before, now);
        if moved != Move::Passing {
            *from = now;
        }
        match (number, granularity, moved) {
            // An exception has left it as well.
            (1.., _, Move::Comes(Progress::Outside | Progress::Beginning)) => Meaning::Nothing,
            (1.., Granularity::Out, _) | (1.., _, Move::Comes(Progress::Line(_))) => Meaning::Done,
            // Back in a caller: what is left of the line with the call is passed.
            (1.., ..) => Meaning::Another(Some(before)),
            (0, _, Move::Comes(Progress::Outside | Progress::Beginning)) => {
                // If it had begun, its memory is another frame's by now.
                self.is_left |= matches!(course.lines.at(before), Progress::Line(_));
                Meaning::Nothing
            }
            (0, Granularity::Line | Granularity::Over, Move::Comes(_)) if !self.is_left => Meaning::Done,
            _ => Meaning::Nothing,
        }
    }
}

pub(super) fn no_frame() -> DebugError {
    DebugError::NoHistory(
        Reason::new("no frame of Python can be read here")
            .advise("step by `granularity` \"instruction\", or go to another moment"),
    )
}
