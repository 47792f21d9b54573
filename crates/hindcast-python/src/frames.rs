//! Threads and their frames.

use std::rc::Rc;

use crate::{
    Code, Position, ReadError, Reader, Slot, Target,
    code::FILE,
    kind::Kind,
    layout::{OWNED_BY_C, ToFrame},
};

/// A thread that the interpreter knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub(crate) state: u64,
    /// As `threading.get_ident()` has it: on Linux, where the thread's own storage begins.
    pub ident: u64,
}

/// A call of Python code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where the interpreter keeps it.
    pub address: u64,
    /// What is being run.
    pub code: Rc<Code>,
    /// Which of the code's units it has come to: less than 0 before the first.
    pub unit: i64,
    /// Where that is in the source.
    pub position: Option<Position>,
    /// The dictionary of globals.
    pub(crate) globals: u64,
    pub(crate) builtins: u64,
    /// The dictionary of locals, where they have no slots.
    pub(crate) locals: u64,
}

impl Frame {
    /// The line; none where the compiler made the instruction for no line.
    pub fn line(&self) -> Option<u32> {
        match self.position {
            Some(position) => Some(position.line),
            None => (self.unit < 0).then_some(self.code.first_line),
        }
    }
}

/// The inner part of a thread's stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames {
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// Whether there are more.
    pub more: bool,
    /// Why it could not be followed further.
    pub broken: Option<ReadError>,
}

/// What kind of name a local is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalKind {
    /// It came with the call.
    Argument,
    /// The function's own.
    Own,
    /// A variable of an enclosing function.
    Enclosing,
}

/// A local variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// As the source names it.
    pub name: String,
    /// What kind of name it is.
    pub kind: LocalKind,
    /// The object; none where it has no value at this point.
    pub object: Option<u64>,
    /// Where the pointer to the object is.
    pub slot: Slot,
}

const IS_FREE: u8 = 0x80;
const IS_CELL: u8 = 0x40;
/// Where a cell keeps its pointer.
pub(crate) const CELL_SLOT: u64 = 16;

impl Reader<'_> {
    /// The threads of all interpreters.
    pub fn threads(&self) -> Result<Vec<Thread>, ReadError> {
        const NEXT: u64 = 8;
        const MOST: usize = 4096;
        let layout = self.python.layout;
        let mut threads = Vec::new();
        let mut interpreter = self.word(self.python.runtime + layout.interpreters)?;
        let mut interpreters = 0;
        while interpreter != 0 && interpreters < MOST {
            let mut state = self.word(interpreter + layout.threads)?;
            while state != 0 && threads.len() < MOST {
                threads.push(Thread { state, ident: self.word(state + layout.thread_ident)? });
                state = self.word(state + NEXT)?;
            }
            interpreter = self.word(interpreter + layout.next_interpreter)?;
            interpreters += 1;
        }
        Ok(threads)
    }

    /// The innermost `limit` frames of a thread.
    pub fn frames(&self, thread: &Thread, limit: usize) -> Frames {
        let mut found = Frames::default();
        if let Err(error) = self.follow_frames(thread, limit, &mut found) {
            found.broken = Some(error);
        }
        found
    }

    fn follow_frames(&self, thread: &Thread, limit: usize, found: &mut Frames) -> Result<(), ReadError> {
        /// Frames of C code stand between, so that more are looked at than told.
        const MOST: usize = 1 << 20;
        let layout = self.python.layout;
        let mut at = match layout.to_frame {
            ToFrame::ThroughC(to, in_it) => match self.word(thread.state + to)? {
                0 => 0,
                c_frame => self.word(c_frame + in_it)?,
            },
            ToFrame::Direct(offset) => self.word(thread.state + offset)?,
        };
        let mut seen = 0;
        while at != 0 {
            if seen == MOST {
                return Err(ReadError::damaged(at, "the stack repeats itself"));
            }
            seen += 1;
            let previous = self.word(at + layout.frame_previous)?;
            if let Some(frame) = self.frame(at)? {
                if found.frames.len() == limit {
                    found.more = true;
                    return Ok(());
                }
                found.frames.push(frame);
            }
            if previous == at {
                return Err(ReadError::damaged(at, "the stack repeats itself"));
            }
            at = previous;
        }
        Ok(())
    }

    /// The frame at an address; none where it only stands for C code.
    pub(crate) fn frame(&self, address: u64) -> Result<Option<Frame>, ReadError> {
        let layout = self.python.layout;
        let code = self.word(address + layout.frame_code)?;
        if layout.minor >= 12 && self.byte(address + layout.frame_owner)? == OWNED_BY_C {
            return Ok(None);
        }
        if self.is_for_a_new_object(code & !layout.tag)? {
            return Ok(None);
        }
        let code = self.code(code & !layout.tag)?;
        let ip = self.word(address + layout.frame_ip)?;
        let unit = (ip as i64).wrapping_sub(code.units as i64) / 2;
        if unit < -1 || unit > code.lines.last().map_or(0, |last| i64::from(last.units.end)) {
            return Err(ReadError::damaged(address, "it stands outside of its code"));
        }
        let position = code.position_of(unit);
        Ok(Some(Frame {
            address,
            unit,
            position,
            globals: self.word(address + layout.frame_globals)?,
            builtins: self.word(address + layout.frame_builtins)?,
            locals: self.word(address + layout.frame_locals)?,
            code,
        }))
    }

    /// Whether this is the code that stands below a frame of `__init__` from 3.13 on: it only checks what that returns.
    fn is_for_a_new_object(&self, code: u64) -> Result<bool, ReadError> {
        Ok(self.python.layout.minor >= 13 && self.is_text(self.word(code + FILE)?, "__init__")?)
    }

    /// Whether an address is the pointer in a cell, which closures share.
    pub fn is_in_cell(&self, address: u64) -> bool {
        self.type_of(address.wrapping_sub(CELL_SLOT)).is_ok_and(|info| info.kind == Kind::Cell)
    }

    /// Whether an address is a variable of a frame that is on the stack of some thread.
    pub fn is_in_live_frame(&self, address: u64) -> Result<bool, ReadError> {
        const LOOKED_AT: usize = 10_000;
        for thread in self.threads()? {
            let found = self.frames(&thread, LOOKED_AT);
            let is_inside = |frame: &Frame| {
                let first = frame.address + self.python.layout.frame_values;
                (first..first + 8 * frame.code.names.len() as u64).contains(&address)
            };
            if found.frames.iter().any(is_inside) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The local variables of a frame, arguments first.
    pub fn locals(&self, frame: &Frame) -> Result<Vec<Local>, ReadError> {
        const MOST: usize = 4096;
        let mut of_dict = Vec::new();
        if !frame.code.has_slots() && frame.locals != 0 && self.type_of(frame.locals)?.kind == Kind::Dict {
            of_dict = self.named_entries(frame.locals, MOST)?;
        }
        let arguments = frame.code.arguments as usize;
        let first = frame.address + self.python.layout.frame_values;
        let tag = self.python.layout.tag;
        let values: Vec<_> =
            self.words(first, frame.code.names.len())?.into_iter().map(|value| value & !tag).collect();
        let locals = frame.code.names.iter().zip(values).enumerate();
        let in_slots: Result<Vec<_>, ReadError> = locals
            .map(|(index, ((name, kind), value))| {
                let (mut object, mut slot) =
                    (Some(value).filter(|value| *value != 0), first + index as u64 * 8);
                // A cell is made when the function begins; before that the slot has the argument itself.
                if let (Some(cell), true) = (object, kind & (IS_CELL | IS_FREE) != 0)
                    && self.type_of(cell)?.kind == Kind::Cell
                {
                    slot = cell + CELL_SLOT;
                    object = Some(self.word(slot)?).filter(|value| *value != 0);
                }
                let kind = match index < arguments {
                    true => LocalKind::Argument,
                    false if kind & IS_FREE != 0 => LocalKind::Enclosing,
                    false => LocalKind::Own,
                };
                let slot = Slot { address: slot, target: Target::Fixed(slot) };
                Ok(Local { name: name.clone(), kind, object, slot })
            })
            .collect();
        let mut locals = in_slots?;
        if !frame.code.has_slots() {
            // Slots are for the variables of comprehensions then, which hide others while they have a value.
            locals.retain(|local| local.object.is_some());
            of_dict.retain(|named| locals.iter().all(|local| local.name != named.name));
            locals.append(&mut of_dict);
        }
        Ok(locals)
    }

    /// The global variables that a frame sees, without built-in names and modules' own names.
    pub fn globals(&self, frame: &Frame) -> Result<Vec<Local>, ReadError> {
        const MOST: usize = 4096;
        let mut globals = self.named_entries(frame.globals, MOST)?;
        globals.retain(|global| !(global.name.starts_with("__") && global.name.ends_with("__")));
        Ok(globals)
    }

    fn named_entries(&self, dict: u64, limit: usize) -> Result<Vec<Local>, ReadError> {
        let mut found = Vec::new();
        for entry in self.entries(dict, limit)? {
            if self.type_of(entry.key)?.kind == Kind::Str {
                let name = self.name(entry.key)?;
                let slot = entry.slot_in(dict);
                found.push(Local { name, kind: LocalKind::Own, object: Some(entry.value), slot });
            }
        }
        Ok(found)
    }
}
