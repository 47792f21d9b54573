//! Code objects, and the table that says which line an instruction belongs to.

use std::ops::Range;

use crate::{ReadError, Reader, kind::Kind};

/// What a function, a class body or a module was compiled to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Where the object is.
    pub address: u64,
    /// As Python names it: often relative to the folder that the program was started in.
    pub file: String,
    /// Such as `Order.total`.
    pub name: String,
    /// Where the definition begins.
    pub first_line: u32,
    pub(crate) flags: u32,
    /// How many of the first names are arguments.
    pub(crate) arguments: u32,
    pub(crate) names: Vec<(String, u8)>,
    /// Where the instructions begin, in units of two bytes.
    pub units: u64,
    pub(crate) lines: Vec<Stretch>,
    /// Whether something in it may catch an exception: `except`, `finally`, `with`.
    pub has_handlers: bool,
    /// Code inside of this code: functions, classes, comprehensions.
    pub(crate) constants: u64,
}

/// Instructions that come from one place of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) units: Range<u32>,
    pub(crate) position: Option<Position>,
}

/// A place in a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 0, in bytes of UTF-8, where it is known.
    pub columns: Option<(u32, u32)>,
    /// The last line that it reaches into.
    pub end_line: u32,
}

/// In every code object.
const FLAGS: u64 = 48;
const CONSTANTS: u64 = 24;
const HANDLERS: u64 = 40;
const NAMES: u64 = 96;
const KINDS: u64 = 104;
pub(crate) const FILE: u64 = 112;
const QUALIFIED_NAME: u64 = 128;
const LINES: u64 = 136;
/// The function has locals of its own, so that they are no dictionary.
const IS_OPTIMISED: u32 = 1;
const HAS_REST: u32 = 4;
const HAS_KEYWORDS: u32 = 8;

impl Code {
    pub(crate) fn read(reader: &Reader<'_>, address: u64) -> Result<Self, ReadError> {
        const LONGEST_TABLE: u64 = 1 << 22;
        const MOST_NAMES: u64 = 1 << 12;
        let layout = reader.python.layout;
        if !address.is_multiple_of(8) || reader.word(address + 8)? != reader.python.code_type {
            return Err(ReadError::damaged(address, "it is no code object"));
        }
        let first_line = reader.half(address + layout.code_first_line)?;
        let flags = reader.half(address + FLAGS)?;
        let counts = address + layout.code_argcount;
        // With positional-only arguments, which are part of the first count; then those that are only named.
        let [placed, named] = [reader.half(counts)?, reader.half(counts + 8)?];
        let collecting = u32::from(flags & HAS_REST != 0) + u32::from(flags & HAS_KEYWORDS != 0);
        let arguments = placed.saturating_add(named).saturating_add(collecting);
        let names = reader.items(reader.word(address + NAMES)?, Kind::Tuple, 0, MOST_NAMES)?;
        let kinds = reader.byte_string(reader.word(address + KINDS)?, MOST_NAMES)?;
        let names: Result<Vec<_>, ReadError> =
            names.iter().zip(kinds).map(|(&name, kind)| Ok((reader.name(name)?, kind))).collect();
        let units = address + layout.code_units;
        let count = reader.size(address)?;
        let table = reader.byte_string(reader.word(address + LINES)?, LONGEST_TABLE)?;
        let lines = lines(&table, first_line);
        if lines.last().is_some_and(|last| u64::from(last.units.end) != count) {
            return Err(ReadError::damaged(address, "its table of lines has another length"));
        }
        Ok(Self {
            address,
            file: reader.name(reader.word(address + FILE)?)?,
            name: reader.name(reader.word(address + QUALIFIED_NAME)?)?,
            first_line,
            flags,
            arguments,
            names: names?,
            units,
            lines,
            has_handlers: reader.size(reader.word(address + HANDLERS)?)? > 0,
            constants: reader.word(address + CONSTANTS)?,
        })
    }

    /// Whether locals have slots in the frame; a module and the body of a class keep them in a dictionary.
    pub(crate) fn has_slots(&self) -> bool {
        self.flags & IS_OPTIMISED != 0
    }

    /// The place that the instruction at a unit comes from; none where the compiler made it for no place.
    pub(crate) fn position_of(&self, unit: i64) -> Option<Position> {
        let unit = u32::try_from(unit).ok()?;
        let number = self.lines.partition_point(|stretch| stretch.units.end <= unit);
        self.lines.get(number)?.position
    }

    /// Every line that has instructions, in order.
    pub fn lines_with_code(&self) -> Vec<u32> {
        let mut lines: Vec<_> =
            self.lines.iter().filter_map(|stretch| stretch.position.map(|position| position.line)).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Whether this is code of the language, of a package or of the interpreter itself.
    pub fn is_library(&self) -> bool {
        is_library(&self.file)
    }
}

/// Whether a file is part of Python's own library or of an installed package.
pub(crate) fn is_library(file: &str) -> bool {
    let is_installed = |part: &str| {
        part == "site-packages"
            || part == "dist-packages"
            || part.strip_prefix("python3").is_some_and(|rest| {
                rest.is_empty()
                    || rest.starts_with('.') && rest[1..].bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    let mut folders: Vec<_> = file.split('/').collect();
    folders.pop();
    file.starts_with('<') && file != "<string>" && file != "<stdin>"
        || folders.windows(2).any(|pair| {
            is_installed(pair[1]) && (pair[0].starts_with("lib") || pair[0].starts_with("python3"))
        })
        || folders.iter().any(|part| *part == "site-packages" || *part == "dist-packages")
}

/// Reads the table of lines (the form of PEP 657).
fn lines(table: &[u8], first_line: u32) -> Vec<Stretch> {
    let mut bytes = table.iter().copied();
    let (mut unit, mut line) = (0_u32, i64::from(first_line));
    let mut stretches = Vec::new();
    while let Some(head) = bytes.next() {
        let length = u32::from(head & 7) + 1;
        let code = head >> 3 & 15;
        let mut columns = None;
        let mut end_line = 0;
        let is_placed = match code {
            15 => false,
            14 => {
                line += signed(&mut bytes);
                end_line = i64::from(unsigned(&mut bytes));
                let (start, end) = (unsigned(&mut bytes), unsigned(&mut bytes));
                // They are kept from 1 on; none is 0.
                columns = start.checked_sub(1).zip(end.checked_sub(1));
                true
            }
            13 => {
                line += signed(&mut bytes);
                true
            }
            10..=12 => {
                line += i64::from(code - 10);
                columns = bytes.next().zip(bytes.next()).map(|(start, end)| (start.into(), end.into()));
                true
            }
            short => {
                columns = bytes.next().map(|packed| {
                    let start = u32::from(short) << 3 | u32::from(packed >> 4);
                    (start, start + u32::from(packed & 15))
                });
                true
            }
        };
        let position = u32::try_from(line).ok().filter(|_| is_placed).map(|line| {
            let end_line = line.saturating_add(u32::try_from(end_line).unwrap_or(0));
            Position { line, columns, end_line }
        });
        let Some(end) = unit.checked_add(length) else { break };
        stretches.push(Stretch { units: unit..end, position });
        unit = end;
    }
    stretches
}

/// A number in groups of six bits, the lowest first.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut value, mut shift) = (0_u32, 0);
    for byte in bytes {
        value |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    value
}

/// The same with the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    let value = i64::from(unsigned(bytes));
    if value & 1 == 1 { -(value >> 1) } else { value >> 1 }
}

impl Reader<'_> {
    /// The code objects in this one, with those in them: functions, classes, comprehensions.
    pub fn inner_code(&self, code: &Code) -> Result<Vec<std::rc::Rc<Code>>, ReadError> {
        const MOST: usize = 4096;
        const MOST_CONSTANTS: u64 = 1 << 16;
        let mut found = Vec::new();
        let mut open = vec![code.constants];
        while let Some(constants) = open.pop() {
            for constant in self.items(constants, Kind::Tuple, 0, MOST_CONSTANTS)? {
                if found.len() < MOST && self.type_of(constant)?.kind == Kind::Code {
                    let code = self.code(constant)?;
                    open.push(code.constants);
                    found.push(code);
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_code_is_told_from_the_users() {
        for file in [
            "<frozen importlib._bootstrap>",
            "/usr/lib/python3.11/json/__init__.py",
            "/home/a/venv/lib/python3.12/site-packages/flask/app.py",
            "/usr/lib/python3/dist-packages/six.py",
            "/opt/python3.13/lib/python3.13/asyncio/base_events.py",
        ] {
            assert!(is_library(file), "{file}");
        }
        for file in
            ["shop.py", "/home/a/python3/shop.py", "/srv/lib/shop.py", "<string>", "/home/python3.11/x.py"]
        {
            assert!(!is_library(file), "{file}");
        }
    }

    #[test]
    fn a_table_of_lines_is_read_in_all_its_forms() {
        // Short form, one line on with columns, no place, long form, without columns.
        let table = [
            0x80 | 2 << 3,
            0x35, // units 0..1, columns 19..24
            0x80 | 11 << 3 | 1,
            4,
            9,              // units 1..3, line + 1
            0x80 | 15 << 3, // unit 3..4
            0x80 | 14 << 3,
            6,
            1,
            3,
            8, // line + 3, one line more, columns 2..7
            0x80 | 13 << 3,
            5, // line - 2
        ];
        let stretches = lines(&table, 10);
        let told: Vec<_> = stretches
            .iter()
            .map(|stretch| {
                let place = stretch.position.map(|place| (place.line, place.end_line, place.columns));
                (stretch.units.clone(), place)
            })
            .collect();
        assert_eq!(
            told,
            [
                (0..1, Some((10, 10, Some((19, 24))))),
                (1..3, Some((11, 11, Some((4, 9))))),
                (3..4, None),
                (4..5, Some((14, 15, Some((2, 7))))),
                (5..6, Some((12, 12, None))),
            ]
        );
    }
}
