//! The stream of tables: where each table lies, and single cells of it.

use std::ops::Range;
use std::sync::OnceLock;

use super::bytes::ImageBytes;
use super::cursor::Cursor;
use super::error::ImageError;
use super::schema::{Coded, Column, columns, key_column};
use super::token::{Table, Token};

const TABLE_COUNT: usize = 64;
const MAXIMAL_COLUMNS: usize = 9;

/// Where the rows of all tables lie. Cells are read when they are asked for.
#[derive(Debug)]
pub(crate) struct Tables {
    bytes: ImageBytes,
    layouts: Box<[Layout; TABLE_COUNT]>,
    /// For each table that was searched and is not sorted: its rows in the order of their keys.
    orders: Box<[OnceLock<Order>; TABLE_COUNT]>,
}

type Order = Option<Vec<u32>>;

/// A table's place in the file and its columns' places in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    start: usize,
    rows: u32,
    row_size: u8,
    cells: [Cell; MAXIMAL_COLUMNS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    offset: u8,
    width: u8,
}

/// How many rows each table has, and which heaps need wide offsets.
struct Widths {
    /// Also counts rows in the assembly that a PDB belongs to.
    rows: [u32; TABLE_COUNT],
    heap_sizes: u8,
}

impl Tables {
    /// Reads the head of the stream that lies at `stream`. A PDB gives the row counts of the assembly it belongs to.
    pub(crate) fn parse(
        bytes: &ImageBytes,
        stream: Range<usize>,
        rows_elsewhere: &[u32; TABLE_COUNT],
    ) -> Result<Self, ImageError> {
        let data = bytes.range(&stream);
        let truncated = |_| ImageError::Truncated { what: "the stream of tables" };
        let mut cursor = Cursor::at(data, 6);
        let heap_sizes = cursor.u8().map_err(truncated)?;
        cursor.skip(1).map_err(truncated)?;
        let valid = cursor.u64().map_err(truncated)?;
        // Which tables are sorted.
        cursor.skip(8).map_err(truncated)?;
        let mut counts = [0; TABLE_COUNT];
        for (table, count) in counts.iter_mut().enumerate().filter(|(table, _)| valid >> table & 1 == 1) {
            *count = cursor.u32().map_err(truncated)?;
            if columns(table as u8).is_empty() || *count > 0xff_ffff {
                return Err(ImageError::Malformed { what: "the list of tables" });
            }
        }
        // The runtime writes four more bytes when it saves a program that was edited while it ran.
        if heap_sizes & 0x40 != 0 {
            cursor.skip(4).map_err(truncated)?;
        }
        let mut rows = counts;
        for (count, elsewhere) in rows.iter_mut().zip(rows_elsewhere) {
            *count = (*count).max(*elsewhere);
        }
        let layouts = lay_out(&counts, &Widths { rows, heap_sizes }, stream.start + cursor.position());
        let end = layouts.iter().map(|layout| layout.end()).max().unwrap_or(0);
        if end > stream.end {
            return Err(ImageError::Truncated { what: "the tables" });
        }
        Ok(Self { bytes: bytes.clone(), layouts, orders: Box::new([const { OnceLock::new() }; TABLE_COUNT]) })
    }

    /// How many rows a table has.
    pub(crate) fn rows(&self, table: Table) -> u32 {
        self.layouts[table as usize].rows
    }

    /// The token of every row.
    pub(crate) fn tokens(&self, table: Table) -> impl Iterator<Item = Token> + use<> {
        (1..=self.rows(table)).map(move |row| Token::new(table, row))
    }

    /// The number in a cell. Rows are counted from 1.
    pub(crate) fn cell(&self, table: Table, row: u32, column: usize) -> Option<u32> {
        let layout = &self.layouts[table as usize];
        if row == 0 || row > layout.rows {
            return None;
        }
        let cell = layout.cells.get(column)?;
        let start =
            layout.start + (row as usize - 1) * usize::from(layout.row_size) + usize::from(cell.offset);
        let bytes = self.bytes.all().get(start..start + usize::from(cell.width))?;
        match *bytes {
            [a, b] => Some(u32::from(u16::from_le_bytes([a, b]))),
            [a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// What a cell points to, if it points to anything.
    pub(crate) fn token(&self, table: Table, row: u32, column: usize) -> Option<Token> {
        let value = self.cell(table, row, column)?;
        let token = match columns(table as u8).get(column)? {
            Column::Row(target) => Token::new(*target, value),
            Column::Coded(coded) => decode(*coded, value)?,
            _ => return None,
        };
        (!token.is_nil()).then_some(token)
    }

    /// The rows whose key, which is one column of the table, points to `token`.
    ///
    /// Whether a table is sorted is looked up once, and not believed: a file that says so may be wrong, and searching all rows each
    /// time would let a small file take hours.
    pub(crate) fn rows_of(&self, table: Table, token: Token) -> Vec<u32> {
        let column = key_column(table);
        let wanted = match columns(table as u8).get(column) {
            Some(Column::Row(target)) => token.row_in(*target),
            Some(Column::Coded(coded)) => encode(*coded, token),
            _ => None,
        };
        let Some(wanted) = wanted else { return Vec::new() };
        let value = |row| self.cell(table, row, column).unwrap_or(0);
        match self.orders[table as usize].get_or_init(|| self.order(table)) {
            None => {
                let first = self.first_row_where(table, |row| value(row) >= wanted);
                (first..=self.rows(table)).take_while(|row| value(*row) == wanted).collect()
            }
            Some(order) => {
                let first = order.partition_point(|row| value(*row) < wanted);
                order[first..].iter().copied().take_while(|row| value(*row) == wanted).collect()
            }
        }
    }

    /// The rows in the order of their keys, or none where they already are.
    fn order(&self, table: Table) -> Order {
        let key = |row: &u32| self.cell(table, *row, key_column(table)).unwrap_or(0);
        let rows = 1..=self.rows(table);
        if rows.clone().is_sorted_by_key(|row| key(&row)) {
            return None;
        }
        let mut rows: Vec<u32> = rows.collect();
        rows.sort_by_key(key);
        Some(rows)
    }

    /// The first row for which `reached` holds, when it holds for all after it; one past the end if there is none.
    pub(crate) fn first_row_where(&self, table: Table, reached: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (1, self.rows(table) + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if reached(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The rows that a row owns in another table: from where its cell points to where the next row's does.
    pub(crate) fn owned(&self, table: Table, row: u32, column: usize) -> Range<u32> {
        let Some(Column::Row(target)) = columns(table as u8).get(column) else { return 0..0 };
        let past = self.list_length(*target) + 1;
        let Some(start) = self.cell(table, row, column) else { return 0..0 };
        let end = self.cell(table, row + 1, column).unwrap_or(past).min(past);
        if start == 0 || start > end { 0..0 } else { start..end }
    }

    /// The row whose list holds `child`.
    pub(crate) fn owner(&self, table: Table, column: usize, child: u32) -> Option<u32> {
        let after =
            self.first_row_where(table, |row| self.cell(table, row, column).unwrap_or(u32::MAX) > child);
        let row = after.checked_sub(1)?;
        self.owned(table, row, column).contains(&child).then_some(row)
    }

    /// Lists count rows of the table that stands between, if there is one.
    fn list_length(&self, target: Table) -> u32 {
        let between = pointers(target).map_or(0, |table| self.rows(table));
        if between > 0 { between } else { self.rows(target) }
    }

    /// The row that a place in a list means: another one only in programs that were edited while they ran.
    pub(crate) fn listed(&self, target: Table, place: u32) -> Option<u32> {
        match pointers(target).filter(|table| self.rows(*table) > 0) {
            Some(table) => self.cell(table, place, 0),
            None => Some(place),
        }
    }

    /// The place in a list that means a row: the inverse of [`Self::listed`].
    pub(crate) fn place_of(&self, target: Table, row: u32) -> Option<u32> {
        match pointers(target).filter(|table| self.rows(*table) > 0) {
            Some(table) => (1..=self.rows(table)).find(|place| self.cell(table, *place, 0) == Some(row)),
            None => Some(row),
        }
    }
}

impl Layout {
    fn end(&self) -> usize {
        self.start + self.rows as usize * usize::from(self.row_size)
    }
}

impl Widths {
    fn of(&self, column: Column) -> u8 {
        let heap = |bit: u8| if self.heap_sizes & bit != 0 { 4 } else { 2 };
        match column {
            Column::Short => 2,
            Column::Long => 4,
            Column::Text => heap(1),
            Column::Identifier => heap(2),
            Column::Bytes => heap(4),
            Column::Row(table) => {
                if self.rows[table as usize] > 0xffff {
                    4
                } else {
                    2
                }
            }
            Column::Coded(coded) => {
                let most = coded
                    .tables()
                    .iter()
                    .flatten()
                    .map(|table| self.rows[*table as usize])
                    .max()
                    .unwrap_or(0);
                if most >> (16 - coded.tag_bits()) > 0 { 4 } else { 2 }
            }
        }
    }
}

fn lay_out(counts: &[u32; TABLE_COUNT], widths: &Widths, start: usize) -> Box<[Layout; TABLE_COUNT]> {
    let mut layouts = Box::new([Layout::default(); TABLE_COUNT]);
    let mut start = start;
    for (table, layout) in layouts.iter_mut().enumerate() {
        let mut row_size = 0;
        for (cell, column) in layout.cells.iter_mut().zip(columns(table as u8)) {
            *cell = Cell { offset: row_size, width: widths.of(*column) };
            row_size += cell.width;
        }
        (layout.start, layout.rows, layout.row_size) = (start, counts[table], row_size);
        start = layout.end();
    }
    layouts
}

/// The table that stands between a list and the rows in it, in programs that were edited while they ran.
fn pointers(target: Table) -> Option<Table> {
    match target {
        Table::Field => Some(Table::FieldPtr),
        Table::MethodDef => Some(Table::MethodPtr),
        Table::Param => Some(Table::ParamPtr),
        Table::Event => Some(Table::EventPtr),
        Table::Property => Some(Table::PropertyPtr),
        _ => None,
    }
}

/// What a coded index means, also where signatures hold one. Nil when its row is 0.
pub(crate) fn decode(coded: Coded, value: u32) -> Option<Token> {
    let tag = value & ((1 << coded.tag_bits()) - 1);
    let table = (*coded.tables().get(tag as usize)?)?;
    Some(Token::new(table, value >> coded.tag_bits()))
}

fn encode(coded: Coded, token: Token) -> Option<u32> {
    let tag = coded.tables().iter().position(|table| *table == token.table() && table.is_some())?;
    Some(token.row() << coded.tag_bits() | tag as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Assembly;

    #[test]
    fn rows_are_found_in_tables_that_are_not_sorted() {
        let sample = include_bytes!("../../tests/data/sample.dll");
        let sorted = Assembly::parse(&sample[..]).unwrap();
        let layout = sorted.metadata.tables.layouts[Table::CustomAttribute as usize];
        let mut bytes = sample.to_vec();
        let table = &mut bytes[layout.start..layout.end()];
        let rows: Vec<Vec<u8>> = table.chunks(usize::from(layout.row_size)).map(<[u8]>::to_vec).collect();
        table.copy_from_slice(&rows.iter().rev().flatten().copied().collect::<Vec<_>>());
        let reversed = Assembly::parse(bytes).unwrap();
        let mut attributes = 0;
        for definition in sorted.types() {
            let names = |assembly: &Assembly| {
                let mut names: Vec<_> =
                    assembly.attributes(definition.token()).map(|attribute| attribute.type_name()).collect();
                names.sort();
                names
            };
            assert_eq!(names(&sorted), names(&reversed));
            attributes += names(&sorted).len();
        }
        assert!(attributes > 10, "{attributes}");
    }
}
