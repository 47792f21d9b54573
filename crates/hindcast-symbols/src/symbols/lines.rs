//! Lines of code at addresses, and where functions really begin.

use std::{ops::Range, sync::Arc};

use super::Symbols;
use crate::{
    dwarf::lines::{LineTable, Row},
    module::{FunctionDie, LoadedModule},
};

/// A stretch of code that came from one line; its neighbours may be of the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    /// The file, absolute as far as the debug information knows.
    pub file: Option<Arc<str>>,
    /// The line.
    pub line: u32,
    /// The column, from 1.
    pub column: Option<u32>,
    /// Whether a statement begins there.
    pub is_stmt: bool,
    /// Whether the line, or a part of it that counts by itself, starts at exactly the address that was
    /// asked about. A step may stop there if a statement begins there as well.
    pub starts: bool,
    /// Its code.
    pub range: Range<u64>,
}

impl Symbols {
    /// The line at an address; `None` for code of no line.
    pub fn line_at(&self, address: u64) -> Option<LineRow> {
        let module = self.loaded_at(address)?;
        let mut row = module.line_row_at(module.to_file(address)).filter(|row| row.line != 0)?;
        row.range = module.to_runtime(row.range.start)..module.to_runtime(row.range.end);
        Some(row)
    }

    /// The next line of a source file in the code from an address on.
    pub fn line_ahead(&self, address: u64, file: &str) -> Option<u32> {
        let module = self.loaded_at(address)?;
        let debug = module.debug()?;
        let address = module.to_file(address);
        let table = debug.lines(debug.unit_at(address)?)?;
        let rows = table.sequence_rows(address);
        let ahead = rows[rows.partition_point(|row| row.address <= address)..].iter();
        let mut lines = ahead.filter(|row| row.line != 0).map(|row| describe(table, *row, address..address));
        lines.find(|row| row.file.as_deref() == Some(file)).map(|row| row.line)
    }

    /// As [`Symbols::line_at`], for steps: code of no line counts to the line before it, as other
    /// debuggers have it.
    pub fn line_of_step(&self, address: u64) -> Option<LineRow> {
        self.line_at(address).or_else(|| {
            let module = self.loaded_at(address)?;
            let debug = module.debug()?;
            let file_address = module.to_file(address);
            let table = debug.lines(debug.unit_at(file_address)?)?;
            let rows = table.sequence_rows(file_address);
            let after = rows.partition_point(|row| row.address <= file_address);
            let before = rows[..after].iter().rev().find(|row| row.line != 0)?;
            let next = rows.get(after).map_or(file_address + 1, |row| row.address);
            let range = module.to_runtime(before.address)..module.to_runtime(next);
            Some(LineRow { starts: false, ..describe(table, *before, range) })
        })
    }
}

impl LoadedModule {
    /// The line at a file address, in file addresses.
    pub(super) fn line_row_at(&self, address: u64) -> Option<LineRow> {
        self.any_row_at(address).filter(|row| row.line > 0)
    }

    /// As [`Self::line_row_at`], and for code of no line with line 0.
    pub(super) fn any_row_at(&self, address: u64) -> Option<LineRow> {
        let debug = self.debug()?;
        let table = debug.lines(debug.unit_at(address)?)?;
        let (index, range) = table.at(address)?;
        let row = table.row(index);
        let starts = row.starts && row.address == address;
        Some(LineRow { starts, ..describe(table, row, range) })
    }

    /// Whether no instruction of its line is before `address` in the function that begins at `start`.
    pub(super) fn line_begins_at(&self, start: u64, address: u64) -> bool {
        let begins = || {
            let debug = self.debug()?;
            let table = debug.lines(debug.unit_at(address)?)?;
            let (index, range) = table.at(address)?;
            let here = table.row(index);
            let before = || {
                table
                    .within(start..address)
                    .any(|(row, end)| row.line == here.line && row.file == here.file && row.address < end)
            };
            Some(range.start == address && !before())
        };
        begins().unwrap_or(false)
    }

    /// Where a breakpoint on a function goes: behind the instructions that make its frame.
    pub(crate) fn after_prologue(&self, function: &FunctionDie) -> u64 {
        let Some(range) = function.ranges.first().cloned() else { return 0 };
        self.behind_prologue(function, &range)
            .filter(|address| range.contains(address))
            .unwrap_or(range.start)
    }

    /// Whether a function that begins a little before an address is still making its frame there.
    pub(crate) fn is_in_prologue(&self, address: u64) -> bool {
        self.function_die_at(address).is_some_and(|function| {
            let begins = function.ranges.first().is_some_and(|range| range.contains(&address));
            begins && address < self.after_prologue(&function)
        })
    }

    fn behind_prologue(&self, function: &FunctionDie, range: &Range<u64>) -> Option<u64> {
        let debug = self.debug()?;
        let table = debug.lines(function.unit)?;
        // Compilers that mark the end of the prologue are believed.
        if let Some((row, _)) = table.within(range.clone()).take(64).find(|(row, _)| row.prologue_end) {
            return Some(row.address);
        }
        // Where variables have locations for every instruction, they hold from the first on.
        let (file, index) = debug.code_unit(function.unit)?;
        if debug.index(file, index)?.has_location_lists {
            return None;
        }
        let after = self.after_frame_setup(range.start)?;
        let (index, row_range) = table.at(after)?;
        if table.row(index).address == after {
            return Some(after);
        }
        Some(row_range.end)
    }

    /// The address behind `push %rbp; mov %rsp,%rbp`, where a function begins with that.
    pub(super) fn after_frame_setup(&self, start: u64) -> Option<u64> {
        const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let code = self.elf.read_loaded(start, 16)?;
        let skipped = if code.starts_with(&LANDING_PAD) { LANDING_PAD.len() } else { 0 };
        let setup = code[skipped..].strip_prefix(&[0x55])?;
        let moved = setup.starts_with(&[0x48, 0x89, 0xe5]) || setup.starts_with(&[0x48, 0x8b, 0xec]);
        moved.then(|| start + skipped as u64 + 4)
    }
}

fn describe(table: &LineTable, row: Row, range: Range<u64>) -> LineRow {
    LineRow {
        file: table.file(row.file).cloned(),
        line: row.line,
        column: (row.column > 0).then_some(u32::from(row.column)),
        is_stmt: row.is_stmt,
        starts: row.starts,
        range,
    }
}
