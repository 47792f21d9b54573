//! Line tables: which line an instruction came from.

use std::{ops::Range, sync::Arc};

use gimli::ColumnType;

use super::View;

/// The decoded line table of a unit.
#[derive(Default)]
pub(crate) struct LineTable {
    /// By the table's own numbers.
    files: Vec<Option<Arc<str>>>,
    /// All rows, each sequence's together and by their address.
    rows: Vec<Row>,
    /// By their start.
    sequences: Vec<Sequence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) address: u64,
    pub(crate) file: u32,
    /// 0 for code of no line.
    pub(crate) line: u32,
    pub(crate) column: u16,
    pub(crate) is_stmt: bool,
    pub(crate) prologue_end: bool,
    /// Whether the line starts here, as far as a user is concerned: one that is in several parts (the
    /// compiler numbers them) has only one start.
    pub(crate) starts: bool,
}

struct Sequence {
    start: u64,
    end: u64,
    first: usize,
    last: usize,
}

impl LineTable {
    pub(crate) fn new(view: &View<'_>) -> Self {
        let Some(program) = view.line_program() else { return Self::default() };
        let header = program.header().clone();
        let most = header.file_names().len() as u64;
        let files = (0..=most).map(|file| view.path_of(&header, file).map(Arc::from)).collect();
        let mut table = Self { files, rows: Vec::new(), sequences: Vec::new() };
        let mut rows = program.rows();
        let mut first = 0;
        let mut in_parts = false;
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.end_sequence() {
                table.close_sequence(first, row.address());
                first = table.rows.len();
            } else {
                let mut next = Row::new(row);
                let last = table.rows[first..].last();
                let same = last.is_some_and(|last| last.line == next.line && last.file == next.file);
                in_parts = row.discriminator() != 0 || same && in_parts;
                // Several rows for one address are one place.
                let again = last.is_some_and(|last| same && last.starts && last.address == next.address);
                next.starts = again || !(same && in_parts);
                table.rows.push(next);
            }
        }
        table.rows.truncate(first);
        table.rows.shrink_to_fit();
        table.sequences.sort_by_key(|sequence| (sequence.start, sequence.end));
        table
    }

    fn close_sequence(&mut self, first: usize, end: u64) {
        let rows = &mut self.rows[first..];
        // Sequences are to be in order; damaged ones and some compilers' are not.
        if !rows.is_sorted_by_key(|row| row.address) {
            rows.sort_by_key(|row| row.address);
        }
        let start = rows.first().map_or(0, |row| row.address);
        // At 0 is what the linker dropped.
        if start == 0 || start >= end {
            self.rows.truncate(first);
            return;
        }
        self.sequences.push(Sequence { start, end, first, last: self.rows.len() });
    }

    pub(crate) fn file(&self, file: u32) -> Option<&Arc<str>> {
        self.files.get(file as usize)?.as_ref()
    }

    /// The row that covers an address, and how far it reaches.
    pub(crate) fn at(&self, address: u64) -> Option<(usize, Range<u64>)> {
        let sequence = self.sequence(address)?;
        let rows = &self.rows[sequence.first..sequence.last];
        let index = rows.partition_point(|row| row.address <= address).checked_sub(1)?;
        let end = rows[index + 1..].iter().find(|row| row.address > rows[index].address);
        let end = end.map_or(sequence.end, |row| row.address);
        // Of several rows at one address the last speaks, the others have no code; but the last that
        // begins a statement, where there is one, as gdb has it.
        let address = rows[index].address;
        let at_address = rows[..=index].iter().rev().take_while(|row| row.address == address);
        let earlier = at_address.take_while(|row| !row.is_stmt).count();
        let statement = index.checked_sub(earlier).filter(|&index| rows[index].address == address);
        Some((sequence.first + statement.unwrap_or(index), address..end))
    }

    /// The rows of the sequence that covers an address.
    pub(crate) fn sequence_rows(&self, address: u64) -> &[Row] {
        self.sequence(address).map_or(&[], |sequence| &self.rows[sequence.first..sequence.last])
    }

    fn sequence(&self, address: u64) -> Option<&Sequence> {
        let after = self.sequences.partition_point(|sequence| sequence.start <= address);
        self.sequences[..after].iter().rev().take(8).find(|sequence| address < sequence.end)
    }

    pub(crate) fn row(&self, index: usize) -> Row {
        self.rows[index]
    }

    /// The rows that begin within a range, each with the end of what it covers.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Row, u64)> + '_ {
        let reached = self.sequences.partition_point(|sequence| sequence.start < range.end);
        let sequences = self.sequences[..reached].iter().filter(move |sequence| sequence.end > range.start);
        sequences.flat_map(move |sequence| {
            let rows = &self.rows[sequence.first..sequence.last];
            let first = rows.partition_point(|row| row.address < range.start);
            let last = rows.partition_point(|row| row.address < range.end);
            (first..last.max(first)).map(move |index| {
                let end = rows.get(index + 1).map_or(sequence.end, |next| next.address);
                (rows[index], end)
            })
        })
    }
}

impl Row {
    pub(crate) fn new(row: &gimli::LineRow) -> Self {
        Self {
            address: row.address(),
            file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
            line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
            column: match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => u16::try_from(column.get()).unwrap_or(0),
            },
            is_stmt: row.is_stmt(),
            prologue_end: row.prologue_end(),
            starts: true,
        }
    }
}
