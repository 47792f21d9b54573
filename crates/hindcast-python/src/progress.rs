//! How far a frame has come: its lines, by the instruction that it keeps in its slot.

use crate::{Code, Frame, ReadError, Reader, Thread, layout::ToFrame};

/// Where the instruction of a frame belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is not of this code: the memory is, or was, something else's.
    Outside,
    /// Before its first line: the call is being made.
    Beginning,
    /// The compiler made it for no line.
    Unplaced,
    /// In this line.
    Line(u32),
}

/// What it means that a frame comes from one instruction to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Nothing: it is as if it were still at the first.
    Passing,
    /// It is where it was.
    Stays,
    /// It has come to another line, to its beginning, or to its end.
    Comes(Progress),
}

/// The lines of some code, to be looked up without its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMap {
    /// Where the instructions are.
    units: u64,
    groups: Vec<Group>,
}

/// Instructions of one line that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    start: u32,
    end: u32,
    progress: Progress,
}

/// The owner of the frame of a generator or a coroutine, once that object is made.
const OWNED_BY_GENERATOR: u8 = 1;

impl LineMap {
    fn group(&self, instruction: u64) -> Option<(u32, usize)> {
        // Before the first instruction a frame stands one unit before its code.
        let unit = (instruction as i64).wrapping_sub(self.units as i64) / 2;
        let unit = if unit == -1 { 0 } else { u32::try_from(unit).ok()? };
        let number = self.groups.partition_point(|group| group.end <= unit);
        (number < self.groups.len()).then_some((unit, number))
    }

    /// The instructions at which the stretches of a line begin.
    pub(crate) fn starts_of(&self, line: u32) -> impl Iterator<Item = u64> + '_ {
        let of_line = self.groups.iter().filter(move |group| group.progress == Progress::Line(line));
        of_line.map(|group| self.units + 2 * u64::from(group.start))
    }

    /// Where the instruction at an address belongs.
    pub fn at(&self, instruction: u64) -> Progress {
        self.group(instruction).map_or(Progress::Outside, |(_, number)| self.groups[number].progress)
    }

    /// What it means that the instruction at `now` follows the one at `before`.
    pub fn comes(&self, before: u64, now: u64) -> Move {
        let Some((unit, number)) = self.group(now) else { return Move::Comes(Progress::Outside) };
        let here = &self.groups[number];
        if here.progress == Progress::Unplaced {
            return Move::Passing;
        }
        // What belongs to no line goes on with the one before.
        let placed = |number: &usize| self.groups[*number].progress != Progress::Unplaced;
        let before =
            self.group(before).and_then(|(unit, number)| Some((unit, (0..=number).rev().find(placed)?)));
        match before.map(|(unit, number)| (unit, self.groups[number].progress)) {
            Some((_, progress)) if progress == here.progress => Move::Stays,
            // Nothing jumps forwards into the middle of a line: Python 3.12 writes there what it goes on behind. But the first
            // instruction of a line can have been carried out with the last one of the line before.
            Some((from, Progress::Line(_))) if unit > here.start + 1 && unit > from => Move::Passing,
            _ => Move::Comes(here.progress),
        }
    }
}

impl Code {
    /// The lines of this code.
    pub fn line_map(&self) -> LineMap {
        let mut groups: Vec<Group> = Vec::new();
        for stretch in &self.lines {
            let is_beginning = groups.last().is_none_or(|group| group.progress == Progress::Beginning);
            let progress = match stretch.position {
                None if is_beginning => Progress::Beginning,
                None => Progress::Unplaced,
                // What the compiler adds before the first statement has the line of the definition, and no width.
                Some(place)
                    if is_beginning
                        && place.line <= self.first_line
                        && matches!(place.columns, None | Some((0, 0))) =>
                {
                    Progress::Beginning
                }
                Some(place) => Progress::Line(place.line),
            };
            match groups.last_mut() {
                Some(group) if group.progress == progress => group.end = stretch.units.end,
                _ => groups.push(Group { start: stretch.units.start, end: stretch.units.end, progress }),
            }
        }
        LineMap { units: self.units, groups }
    }
}

impl Reader<'_> {
    /// Where a frame keeps the instruction that it has come to: written when each instruction begins.
    pub fn progress_slot(&self, frame: &Frame) -> u64 {
        frame.address + self.python.layout.frame_ip
    }

    /// For the frame of a generator or a coroutine, the byte that becomes 0 whenever it goes on.
    pub fn resumption_slot(&self, frame: &Frame) -> Option<u64> {
        let layout = self.python.layout;
        let is_generator = self.byte(frame.address + layout.frame_owner).ok()? == OWNED_BY_GENERATOR;
        is_generator.then(|| frame.address - layout.generator_frame + layout.generator_state)
    }

    /// Where the interpreter keeps which frame of a thread is the innermost, and what leads there: written whenever that
    /// changes.
    pub fn innermost_slots(&self, thread: &Thread) -> Result<Vec<u64>, ReadError> {
        Ok(match self.python.layout.to_frame {
            ToFrame::Direct(offset) => vec![thread.state + offset],
            ToFrame::ThroughC(to, in_it) => {
                let slot = thread.state + to;
                vec![self.word(slot)? + in_it, slot]
            }
        })
    }
}
