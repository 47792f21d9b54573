//! Steps by lines of Python on the way back: where a line was begun, a function called, a generator left.

use hindcast_core::debug::{Granularity, Stop, StopReason};
use hindcast_python::{Move, Progress};
use hindcast_symbols::Memory as _;

use super::{
    super::{Session, function_around, travel::Halted},
    steps::{Course, no_frame},
};
use crate::{
    debuggee::{Claims, Judge, Quarry},
    process::CleanMemory,
    replay::{Pause, Position, ReplayError, Replica},
    sys::Tid,
};

impl Session {
    /// Steps back by lines, from where a thread stands.
    pub(in crate::session) fn step_back_in_python(
        &mut self,
        from: &Position,
        granularity: Granularity,
        count: u32,
        tid: Tid,
    ) -> Result<Stop, Halted> {
        let origin = self.interpreter.departed.take().unwrap_or_else(|| from.clone());
        let mut position = origin.clone();
        for _ in 0..count {
            match self.python_line_before(&position, granularity, tid) {
                Ok(Some(earlier)) => position = earlier,
                Ok(None) => return self.stop_at_first(position, tid),
                Err(halted) => {
                    // On the way it looked at other moments. Who goes on begins here anew.
                    let _ = self.land(&origin);
                    if matches!(halted, Halted::Interrupted) {
                        self.interpreter.departed = Some(origin);
                    }
                    return Err(halted);
                }
            }
        }
        self.land(&position)?;
        Ok(self.stop_at(self.process.acting(), StopReason::Step))
    }

    /// Where a thread began the line of Python before this one, or this one if it is half done; for steps out, where the
    /// function was called. `None` where nothing came before.
    fn python_line_before(
        &mut self,
        from: &Position,
        granularity: Granularity,
        tid: Tid,
    ) -> Result<Option<Position>, Halted> {
        const MOST_OF_LIBRARIES: u32 = 64;
        self.interpreter.looks_left = MOST_OF_LIBRARIES;
        self.land(from)?;
        let course = self.innermost(tid).ok_or_else(no_frame)?;
        if granularity == Granularity::Out {
            return self.own_call_before(from, course, granularity, tid);
        }
        // Right where a line begins, that is not the one before.
        let Some(before) = self.before_in_thread(from, tid)? else { return Ok(None) };
        match self.last_line(&before, &course, granularity, tid, 0)? {
            Some(begun) => Ok(Some(begun)),
            None => self.own_call_before(from, course, granularity, tid),
        }
    }

    /// Where the last line before a moment began: in a frame, or in what it called, if calls are stepped into. `None` where
    /// the frame had not begun a line since it was called.
    fn last_line(
        &mut self,
        from: &Position,
        course: &Course,
        granularity: Granularity,
        tid: Tid,
        depth: u32,
    ) -> Result<Option<Position>, Halted> {
        // Only moments that were visited keep their order when others are named between them.
        self.land(from)?;
        let Some(begun) = self.line_begun(from, course)? else { return Ok(None) };
        if let Some(resumed) = self.resumed_between(&begun, from, course)? {
            // What it called since it went on comes first, then who made it go on.
            return match granularity {
                Granularity::Line => self.last_line_called(&resumed, from, course, tid, depth),
                _ => Ok(None),
            };
        }
        let called = match granularity {
            Granularity::Line => self.last_line_called(&begun, from, course, tid, depth)?,
            _ => None,
        };
        Ok(Some(called.unwrap_or(begun)))
    }

    /// Where a frame was called from the user's code: the last line before that, or for steps out the call itself. What the
    /// library that stands between the two called before counts as well, where calls are stepped into.
    fn own_call_before(
        &mut self,
        from: &Position,
        mut course: Course,
        granularity: Granularity,
        tid: Tid,
    ) -> Result<Option<Position>, Halted> {
        const DEEPEST: usize = 256;
        let mut until = from.clone();
        for depth in 0..DEEPEST {
            let Some(call) = self.python_call_before(&until, &course, tid)? else { return Ok(None) };
            if depth > 0 && granularity == Granularity::Line {
                let inner = self.last_line_called(&call, &until, &course, tid, 0)?;
                if inner.is_some() {
                    return Ok(inner);
                }
                self.land(&call)?;
            }
            course = self.innermost(tid).ok_or_else(no_frame)?;
            if !course.is_library {
                let begun = match granularity {
                    Granularity::Out => None,
                    _ => self.last_line(&call, &course, granularity, tid, 0)?,
                };
                return Ok(Some(begun.unwrap_or(call)));
            }
            until = call;
        }
        Ok(None)
    }

    /// Where a frame last came to another line, if that was not its beginning.
    fn line_begun(&mut self, from: &Position, course: &Course) -> Result<Option<Position>, Halted> {
        let lines = &course.lines;
        let comes_to_another = |before: Option<u64>, now: u64| match lines.comes(before.unwrap_or(0), now) {
            Move::Passing => None,
            moved => Some(!matches!(moved, Move::Stays | Move::Comes(Progress::Outside))),
        };
        let Some(found) = self.last_change(from, None, (course.slot, 8), &comes_to_another)? else {
            return Ok(None);
        };
        self.land(&found)?;
        let here = self.word_at(course.slot).map(|now| course.lines.at(now));
        Ok(matches!(here, Some(Progress::Line(_))).then_some(found))
    }

    /// Where a generator last went on between two moments.
    fn resumed_between(
        &mut self,
        earlier: &Position,
        later: &Position,
        course: &Course,
    ) -> Result<Option<Position>, Halted> {
        let Some(state) = course.resumed else { return Ok(None) };
        self.last_change(later, Some(earlier), (state, 1), &|_, now| Some(now == 0))
    }

    /// Where the frame in which a thread stands was called, or a generator last went on; the thread is left standing there.
    fn python_call_before(
        &mut self,
        from: &Position,
        course: &Course,
        tid: Tid,
    ) -> Result<Option<Position>, Halted> {
        /// Between two frames there is none for so many instructions at most.
        const BETWEEN: usize = 500;
        let found = match course.resumed {
            Some(state) => self.last_change(from, None, (state, 1), &|_, now| Some(now == 0))?,
            None => {
                let is_at_beginning = |at: u64| course.lines.at(at) == Progress::Beginning;
                let begins = |before: Option<u64>, now| {
                    Some(is_at_beginning(now) && !before.is_some_and(is_at_beginning))
                };
                self.last_change(from, None, (course.slot, 8), &begins)?
            }
        };
        let Some(mut position) = found else { return Ok(None) };
        for _ in 0..BETWEEN {
            let Some(earlier) = self.before_in_thread(&position, tid)? else { return Ok(None) };
            position = earlier;
            self.land(&position)?;
            if self.innermost(tid).is_some_and(|inner| inner.frame != course.frame) {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// The last line of what a frame called between two moments, if that is the user's code; it is innermost at both.
    fn last_line_called(
        &mut self,
        earlier: &Position,
        later: &Position,
        course: &Course,
        tid: Tid,
        depth: u32,
    ) -> Result<Option<Position>, Halted> {
        const MOST_CALLS: usize = 4096;
        const DEEPEST: u32 = 64;
        self.land(later)?;
        let calls = self.calls_of(tid);
        let mut until = later.clone();
        for _ in 0..MOST_CALLS {
            let mut returned: Option<Position> = None;
            for &(slot, value) in &calls {
                let comes_back = |before: Option<u64>, now: u64| Some(now == value && before != Some(now));
                let found = self.last_change(&until, Some(earlier), (slot, 8), &comes_back)?;
                returned = returned.max(found);
            }
            let Some(returned) = returned else { return Ok(None) };
            let Some((inner, at)) = self.returning(earlier, &returned, course, tid)? else { return Ok(None) };
            if depth == DEEPEST {
                return Ok(None);
            }
            if inner.is_library {
                match self.interpreter.looks_left.checked_sub(1) {
                    Some(left) => self.interpreter.looks_left = left,
                    // What so much of a library called is not looked for.
                    None => return Ok(None),
                }
            }
            let found = match inner.is_library {
                true if inner.is_import => None,
                true => self.last_line_called(earlier, &at, &inner, tid, depth + 1)?,
                false => self.last_line(&at, &inner, Granularity::Line, tid, depth + 1)?,
            };
            // What made a generator had no line.
            if found.is_some() {
                return Ok(found);
            }
            until = at;
        }
        Ok(None)
    }

    /// The frame that returned to another one, where it last stood. Frames of C between the two are passed.
    fn returning(
        &mut self,
        earlier: &Position,
        returned: &Position,
        caller: &Course,
        tid: Tid,
    ) -> Result<Option<(Course, Position)>, Halted> {
        const DEEPEST: usize = 4;
        let mut returned = returned.clone();
        for _ in 0..DEEPEST {
            let Some(at) = self.before_in_thread(&returned, tid)? else { return Ok(None) };
            self.land(&at)?;
            let Some(inner) = self.innermost(tid) else { return Ok(None) };
            if inner.frame != caller.frame {
                return Ok(Some((inner, at)));
            }
            let Some((slot, _)) = self.calls_of(tid).first().copied() else { return Ok(None) };
            let Some(found) = self.last_change(&at, Some(earlier), (slot, 8), &|_, _| Some(true))? else {
                return Ok(None);
            };
            returned = found;
        }
        Ok(None)
    }

    /// Where a wanted change of a number was last made before a moment, and behind another one if there is one.
    pub(super) fn last_change(
        &mut self,
        before: &Position,
        behind: Option<&Position>,
        (address, size): (u64, u64),
        is_wanted: IsWanted<'_>,
    ) -> Result<Option<Position>, Halted> {
        let symbols = &self.symbols;
        let mut judge = Changes { address, size, last: None, is_wanted };
        let quarry = Quarry::Write { address, size };
        let found = self
            .process
            .find_change(before, behind, quarry, &mut judge, &|address| function_around(symbols, address))?;
        Ok(found.map(|found| found.position))
    }
}

/// Looks for changes of a number in replicas.
struct Changes<'w> {
    address: u64,
    size: u64,
    last: Option<u64>,
    is_wanted: IsWanted<'w>,
}

/// Whether a change is looked for, by what was there before and what is. `None` where it is as if nothing had been written.
type IsWanted<'w> = &'w dyn Fn(Option<u64>, u64) -> Option<bool>;

impl Changes<'_> {
    fn read(&self, replica: &Replica) -> Option<u64> {
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        memory.read_uint(self.address, self.size as usize).ok()
    }
}

impl Judge for Changes<'_> {
    fn begin(&mut self, replica: &Replica) {
        self.last = self.read(replica);
    }

    fn meet(&mut self, replica: &Replica, _: &Pause) -> Result<Claims, ReplayError> {
        let Some(now) = self.read(replica) else { return Ok(Claims::default()) };
        let is_wanted = (self.is_wanted)(self.last, now);
        if is_wanted.is_some() {
            self.last = Some(now);
        }
        Ok(Claims { breakpoints: Vec::new(), needs_look: is_wanted == Some(true) })
    }

    fn stops(&mut self, claims: &Claims) -> bool {
        claims.needs_look
    }
}
