//! The code of a script: what runs, and what its module keeps.

use std::{collections::HashSet, rc::Rc};

use crate::{
    Code, LineMap, Progress, ReadError, Reader, Thread,
    kind::Kind,
    layout::{OWNED_BY_C, ToFrame},
};

/// The innermost frame of a thread, as far as it takes a few numbers to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Where the frame is.
    pub frame: u64,
    /// Its code object.
    pub code: u64,
    /// The instruction that it has come to.
    pub instruction: u64,
}

/// In a function.
const CODE: u64 = 48;
/// In a module: its dictionary. In a static or class method, and in a property: the first function.
const INNER: u64 = 16;
/// In a property: the function that sets it.
const SETTER: u64 = 24;
/// In a class.
const CLASS_DICT: u64 = 264;
const MOST_NAMES: usize = 20_000;
/// No function is longer.
const MOST_UNITS: usize = 1 << 20;
const DEEPEST: u32 = 4;

impl Reader<'_> {
    /// Where a thread stands.
    pub fn standing(&self, thread: &Thread) -> Result<Option<Standing>, ReadError> {
        const MOST_OF_C: usize = 64;
        let layout = self.python.layout;
        let mut frame = match layout.to_frame {
            ToFrame::ThroughC(to, in_it) => self.word(self.word(thread.state + to)? + in_it)?,
            ToFrame::Direct(offset) => self.word(thread.state + offset)?,
        };
        for _ in 0..MOST_OF_C {
            if frame == 0 {
                break;
            }
            if layout.minor < 12 || self.byte(frame + layout.frame_owner)? != OWNED_BY_C {
                let code = self.word(frame + layout.frame_code)? & !layout.tag;
                return Ok(Some(Standing { frame, code, instruction: self.word(frame + layout.frame_ip)? }));
            }
            frame = self.word(frame + layout.frame_previous)?;
        }
        Ok(None)
    }

    /// The instructions at which a line is come to: the beginnings of its stretches, and where loops jump back to. There may be
    /// more: what is no jump is not told from one everywhere.
    pub fn starts_of_line(&self, code: &Code, lines: &LineMap, line: u32) -> Result<Vec<u64>, ReadError> {
        let Jumps { backward, extension, caches } = Jumps::of(self.python.layout.minor);
        let count = usize::try_from(self.size(code.address)?).unwrap_or(usize::MAX).min(MOST_UNITS);
        let bytes = self.bytes(code.units, 2 * count)?;
        let mut starts: Vec<_> = lines.starts_of(line).collect();
        let mut extended = 0_u64;
        for (unit, pair) in (0_u64..).zip(bytes.chunks_exact(2)) {
            let argument = extended << 8 | u64::from(pair[1]);
            extended = if pair[0] == *extension { argument & 0xff_ffff } else { 0 };
            if backward.contains(&pair[0])
                && let Some(target) = (unit + 1 + caches).checked_sub(argument)
            {
                let target = code.units + 2 * target;
                starts.extend((lines.at(target) == Progress::Line(line)).then_some(target));
            }
        }
        starts.sort_unstable();
        starts.dedup();
        Ok(starts)
    }

    /// The code at an address, with all code in it.
    pub fn code_within(&self, address: u64) -> Result<Vec<Rc<Code>>, ReadError> {
        let code = self.code(address)?;
        let mut found = self.inner_code(&code)?;
        found.push(code);
        Ok(found)
    }

    /// All code from a file that is wanted, as far as a frame or a module of that file keeps it. What cannot be read is left
    /// out.
    pub fn code_of(&self, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Rc<Code>> {
        const FRAMES: usize = 10_000;
        let mut search = Search { reader: self, is_wanted, seen: HashSet::new(), found: Vec::new() };
        for thread in self.threads().unwrap_or_default() {
            for frame in self.frames(&thread, FRAMES).frames {
                search.take(frame.code.address);
            }
        }
        // A module may be half made.
        let _ = search.modules();
        search.found
    }
}

/// The instructions that jump back, also in the forms that the interpreter gives them while it runs.
struct Jumps {
    backward: &'static [u8],
    /// The one whose argument comes before that of the next.
    extension: u8,
    /// Units between the jump and what it is counted from.
    caches: u64,
}

impl Jumps {
    const fn of(minor: u8) -> &'static Self {
        match minor {
            0..=11 => &Self { backward: &[140, 38, 173, 174, 175, 176], extension: 144, caches: 0 },
            12 => &Self { backward: &[140], extension: 144, caches: 0 },
            13 => &Self { backward: &[77], extension: 71, caches: 1 },
            _ => &Self { backward: &[75, 175, 176], extension: 69, caches: 1 },
        }
    }
}

struct Search<'s, 'm> {
    reader: &'s Reader<'m>,
    is_wanted: &'s dyn Fn(&str) -> bool,
    seen: HashSet<u64>,
    found: Vec<Rc<Code>>,
}

impl Search<'_, '_> {
    fn take(&mut self, code: u64) {
        for code in self.reader.code_within(code).unwrap_or_default() {
            if (self.is_wanted)(&code.file) && self.seen.insert(code.address) {
                self.found.push(code);
            }
        }
    }

    fn modules(&mut self) -> Result<(), ReadError> {
        let reader = self.reader;
        let Some(sys) = reader.sys_dict()? else { return Ok(()) };
        let Some(modules) = reader.entry_named(sys, "modules")? else { return Ok(()) };
        for module in reader.entries(modules.value, MOST_NAMES)? {
            if reader.type_of(module.value)?.kind != Kind::Module {
                continue;
            }
            let dict = reader.word(module.value + INNER)?;
            let file = reader.entry_named(dict, "__file__")?;
            let file = file.and_then(|file| reader.name(file.value).ok());
            // The script itself forgets its file when it has run.
            let is_main = reader.is_text(module.key, "__main__")?;
            if is_main || file.is_some_and(|file| (self.is_wanted)(&file)) {
                self.names(dict, 0);
            }
        }
        Ok(())
    }

    fn names(&mut self, dict: u64, depth: u32) {
        for entry in self.reader.entries(dict, MOST_NAMES).unwrap_or_default() {
            // What one name stands for says nothing of the others.
            let _ = self.object(entry.value, depth);
        }
    }

    fn object(&mut self, object: u64, depth: u32) -> Result<(), ReadError> {
        let reader = self.reader;
        match reader.type_of(object)?.kind {
            Kind::Function => self.take(reader.word(object + CODE)?),
            Kind::Type if depth < DEEPEST && self.seen.insert(object) => {
                self.names(reader.word(object + CLASS_DICT)?, depth + 1);
            }
            Kind::StaticMethod | Kind::ClassMethod if depth < DEEPEST => {
                self.object(reader.word(object + INNER)?, depth + 1)?;
            }
            Kind::Property if depth < DEEPEST => {
                for function in [INNER, SETTER] {
                    match reader.word(object + function)? {
                        0 => {}
                        function => self.object(function, depth + 1)?,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
