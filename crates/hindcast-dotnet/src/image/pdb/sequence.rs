//! Sequence points: which instructions come from which lines.

use std::ops::Range;

use super::Pdb;
use crate::image::cursor::Cursor;
use crate::image::error::ImageError;
use crate::image::token::{Table, Token};

/// Where a statement begins in a method's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencePoint {
    /// The offset of its first instruction.
    pub il: u32,
    /// The number of its document.
    pub document: u32,
    /// Where it stands in the document; none for code that the compiler wants hidden.
    pub span: Option<Span>,
}

/// A stretch of a document. Lines and columns are counted from 1; the end column is the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Span {
    pub start_line: u32,
    pub start_column: u32,
    pub end_line: u32,
    pub end_column: u32,
}

impl Span {
    /// The line and column where it begins.
    pub fn start(self) -> (u32, u32) {
        (self.start_line, self.start_column)
    }

    /// The line where it ends, and the column after its last.
    pub fn end(self) -> (u32, u32) {
        (self.end_line, self.end_column)
    }
}

/// The instructions of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// From its first instruction to the first of the next statement that is not hidden. Ends at `u32::MAX` where that is the end
    /// of the method, whose length the PDB does not tell.
    pub il: Range<u32>,
    /// Where it stands; none for hidden code before the first statement.
    pub point: Option<SequencePoint>,
}

/// Lines and columns beyond these do not exist.
const MAXIMAL_LINE: i64 = 0x1fff_ffff;
const MAXIMAL_COLUMN: i64 = 0xffff;

const MALFORMED: ImageError = ImageError::Malformed { what: "the sequence points of a method" };

impl Pdb {
    fn points_blob(&self, method: Token) -> Option<(u32, &[u8])> {
        let row = method.row_in(Table::MethodDef)?;
        let document = self.metadata.tables.cell(Table::MethodDebugInformation, row, 0)?;
        let blob = self.metadata.blob(Table::MethodDebugInformation, row, 1)?;
        (!blob.is_empty()).then_some((document, blob))
    }

    /// How many bytes the points of a method take.
    pub(super) fn points_size(&self, method: Token) -> usize {
        self.points_blob(method).map_or(0, |(_, blob)| blob.len())
    }

    /// Where the statements of a method begin, in the order of their instructions; nothing for a method without source.
    pub fn sequence_points(&self, method: Token) -> Result<Vec<SequencePoint>, ImageError> {
        let Some((document, blob)) = self.points_blob(method) else { return Ok(Vec::new()) };
        let mut points = Vec::new();
        let mut reader = PointReader::new(document, blob)?;
        while let Some(point) = reader.next()? {
            points.push(point);
        }
        Ok(points)
    }

    /// The types of the method's locals: a `StandAloneSig` of the assembly.
    pub fn local_signature(&self, method: Token) -> Option<Token> {
        let (_, blob) = self.points_blob(method)?;
        let token = Token::new(Table::StandAloneSig, Cursor::new(blob).compressed().ok()?);
        (!token.is_nil()).then_some(token)
    }

    /// The statement that an instruction belongs to: the last one at or before it that is not hidden.
    pub fn point_at(&self, method: Token, il: u32) -> Option<SequencePoint> {
        self.statement_at(method, il)?.point
    }

    /// The statement that an instruction belongs to, and all its instructions, to step over.
    pub fn statement_at(&self, method: Token, il: u32) -> Option<Statement> {
        let points = self.sequence_points(method).ok()?;
        let first = points.first()?;
        if il < first.il {
            return None;
        }
        let is_visible = |point: &&SequencePoint| point.span.is_some();
        let point = points.iter().rev().filter(is_visible).find(|point| point.il <= il).copied();
        let end = points.iter().filter(is_visible).map(|point| point.il).find(|start| *start > il);
        let start = point.map_or(first.il, |point| point.il);
        Some(Statement { il: start..end.unwrap_or(u32::MAX), point })
    }
}

/// Reads the blob of a method, whose numbers are differences.
struct PointReader<'a> {
    cursor: Cursor<'a>,
    document: u32,
    il: u32,
    is_first: bool,
    /// Where the last point began that was not hidden.
    start: Option<(i64, i64)>,
}

impl<'a> PointReader<'a> {
    fn new(document: u32, blob: &'a [u8]) -> Result<Self, ImageError> {
        let mut cursor = Cursor::new(blob);
        // The signature of the locals.
        cursor.compressed()?;
        // The row names no document where the points lie in several.
        let document = if document == 0 { cursor.compressed()? } else { document };
        Ok(Self { cursor, document, il: 0, is_first: true, start: None })
    }

    fn next(&mut self) -> Result<Option<SequencePoint>, ImageError> {
        while !self.cursor.is_at_end() {
            let distance = self.cursor.compressed()?;
            if distance == 0 && !self.is_first {
                // The points from here on lie in another document.
                self.document = self.cursor.compressed()?;
                continue;
            }
            self.il = self.il.checked_add(distance).ok_or(MALFORMED)?;
            self.is_first = false;
            let span = self.span()?;
            return Ok(Some(SequencePoint { il: self.il, document: self.document, span }));
        }
        Ok(None)
    }

    fn span(&mut self) -> Result<Option<Span>, ImageError> {
        let lines = self.cursor.compressed()?;
        let columns = if lines == 0 {
            i64::from(self.cursor.compressed()?)
        } else {
            i64::from(self.cursor.compressed_signed()?)
        };
        if lines == 0 && columns == 0 {
            return Ok(None);
        }
        let (line, column) = match self.start {
            None => (i64::from(self.cursor.compressed()?), i64::from(self.cursor.compressed()?)),
            Some((line, column)) => {
                let lines = i64::from(self.cursor.compressed_signed()?);
                (line + lines, column + i64::from(self.cursor.compressed_signed()?))
            }
        };
        self.start = Some((line, column));
        let end = (line + i64::from(lines), column + columns);
        let number = |value: i64, most: i64| {
            if (0..=most).contains(&value) { Ok(value as u32) } else { Err(MALFORMED) }
        };
        Ok(Some(Span {
            start_line: number(line, MAXIMAL_LINE)?,
            start_column: number(column, MAXIMAL_COLUMN)?,
            end_line: number(end.0, MAXIMAL_LINE)?,
            end_column: number(end.1, MAXIMAL_COLUMN)?,
        }))
    }
}
