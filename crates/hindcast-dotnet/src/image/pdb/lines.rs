//! From lines to instructions.

use std::collections::BTreeMap;

use super::sequence::Span;
use super::{Document, Pdb};
use crate::image::token::Token;

/// A statement's place in the document and in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The method.
    pub method: Token,
    /// The offset of the statement's first instruction.
    pub il: u32,
    /// Where it stands.
    pub span: Span,
}

/// How the places that were found relate to the line that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineMatch {
    /// Statements begin on the line.
    Exact,
    /// A statement began before the line and goes on over it.
    Within,
    /// The line has no code; the places are on the next line of the same method that has.
    Following,
    /// The line is in no method; the places are on the next line of the document that has code.
    Beyond,
}

/// All statements by document and line.
#[derive(Debug, Default)]
pub(super) struct LineIndex {
    documents: BTreeMap<u32, DocumentLines>,
    is_complete: bool,
}

#[derive(Debug, Default)]
struct DocumentLines {
    /// In the order of lines, columns, methods and offsets.
    statements: Vec<Entry>,
    /// Where every method begins and ends, in the order of methods.
    methods: Vec<Extent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    span: Span,
    method: u32,
    il: u32,
}

#[derive(Debug, Clone, Copy)]
struct Extent {
    method: u32,
    /// The line and column.
    first: (u32, u32),
    /// The line and the column after the last.
    last: (u32, u32),
}

impl Pdb {
    fn line_index(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(self))
    }

    /// Whether every method is found by its lines. Not so where methods share their points, as no compiler writes them.
    pub fn lines_are_complete(&self) -> bool {
        self.line_index().is_complete
    }

    /// The methods that have code in a document.
    pub fn methods_in(&self, document: Document<'_>) -> Vec<Token> {
        let lines = self.line_index().documents.get(&document.number());
        lines.map_or(Vec::new(), |lines| {
            lines.methods.iter().map(|extent| Token::method(extent.method)).collect()
        })
    }

    /// The first and last line of a method's code in a document.
    pub fn method_lines(&self, document: Document<'_>, method: Token) -> Option<(u32, u32)> {
        let methods = &self.line_index().documents.get(&document.number())?.methods;
        let place = methods.binary_search_by_key(&method.row(), |extent| extent.method).ok()?;
        Some((methods[place].first.0, methods[place].last.0))
    }

    /// All statements of a line, in the order of columns: a line may hold several, and belong to several methods.
    ///
    /// Where none begins on the line, those that go on over it, innermost only. Where there are none either, or a lambda lies
    /// between, those of the next line with code in a method that also has code before.
    pub fn places_of_line(&self, document: Document<'_>, line: u32) -> Option<(LineMatch, Vec<Place>)> {
        let lines = self.line_index().documents.get(&document.number())?;
        let exact = lines.on_line(line);
        if !exact.is_empty() {
            return Some((LineMatch::Exact, exact.iter().map(Entry::place).collect()));
        }
        let within = lines.over_line(line);
        // A lambda in the statement lies between the statement and the line.
        let statement = within.first().map_or((0, 0), |place| place.span.start());
        let following = lines.following(line, statement);
        if !following.is_empty() {
            return Some((LineMatch::Following, following));
        }
        (!within.is_empty()).then_some((LineMatch::Within, within))
    }

    /// The statements of the first line with code after a line, in whatever method: what the head of a method leads to, but also
    /// a comment before it.
    pub fn places_after(&self, document: Document<'_>, line: u32) -> Option<Vec<Place>> {
        let lines = self.line_index().documents.get(&document.number())?;
        let next = lines.statements.partition_point(|entry| entry.span.start_line <= line);
        let next = lines.statements.get(next)?.span.start_line;
        Some(lines.on_line(next).iter().map(Entry::place).collect())
    }

    /// The innermost statement that a stretch of the text lies in, and each copy of it: `from` and `to` are lines and columns, as
    /// in a [`Span`]. None where the stretch lies in no statement, or in a lambda but in none of its statements.
    pub fn places_around(&self, document: Document<'_>, from: (u32, u32), to: (u32, u32)) -> Vec<Place> {
        let Some(lines) = self.line_index().documents.get(&document.number()) else { return Vec::new() };
        let before = lines.statements.partition_point(|entry| entry.span.start() <= from);
        let around = lines.statements[..before].iter().filter(|entry| entry.span.end() >= to);
        // Of those that begin together the shortest.
        let spans = around.clone().map(|entry| entry.span);
        let innermost = spans.max_by_key(|span| (span.start(), std::cmp::Reverse(span.end())));
        let Some(innermost) = innermost else { return Vec::new() };
        let is_between =
            |extent: &Extent| extent.first > innermost.start() && extent.first <= from && extent.last >= to;
        if lines.methods.iter().any(is_between) {
            return Vec::new();
        }
        around.filter(|entry| entry.span == innermost).map(Entry::place).collect()
    }

    /// Where to stop for a line: in each method the first statement of [`Self::places_of_line`], and each copy of it. A line
    /// that is in no method leads to [`Self::places_after`] it; none is behind the last code of the document.
    ///
    /// The initializers of fields belong to constructors, which therefore lie around members between the two. Such a member's
    /// head leads to its own code: `is_constructor` says which methods do not count as lying around a line.
    pub fn breakpoint_places(
        &self,
        document: Document<'_>,
        line: u32,
        is_constructor: impl Fn(Token) -> bool,
    ) -> Option<(LineMatch, Vec<Place>)> {
        let beyond = || Some((LineMatch::Beyond, self.places_after(document, line)?));
        let (mut matched, mut places) = self.places_of_line(document, line).or_else(beyond)?;
        if matched == LineMatch::Following && places.iter().all(|place| is_constructor(place.method)) {
            (matched, places) = beyond()?;
        }
        let mut first: BTreeMap<Token, Span> = BTreeMap::new();
        for place in &places {
            first.entry(place.method).or_insert(place.span);
        }
        let places = places.into_iter().filter(|place| first.get(&place.method) == Some(&place.span));
        Some((matched, places.collect()))
    }
}

impl LineIndex {
    fn new(pdb: &Pdb) -> Self {
        let mut index = Self { is_complete: true, ..Self::default() };
        // Methods have their own points. A file in which they share them could make any number out of few.
        let mut budget = pdb.metadata.blob_bytes().saturating_mul(2);
        for method in pdb.methods() {
            match budget.checked_sub(pdb.points_size(method)) {
                Some(left) => budget = left,
                None => {
                    index.is_complete = false;
                    continue;
                }
            }
            match pdb.sequence_points(method) {
                Ok(points) => index.add(method, &points),
                Err(_) => index.is_complete = false,
            }
        }
        for lines in index.documents.values_mut() {
            lines.statements.sort_unstable();
        }
        index
    }

    fn add(&mut self, method: Token, points: &[super::SequencePoint]) {
        for point in points {
            let Some(span) = point.span else { continue };
            let lines = self.documents.entry(point.document).or_default();
            lines.statements.push(Entry { span, method: method.row(), il: point.il });
            match lines.methods.last_mut() {
                Some(extent) if extent.method == method.row() => {
                    extent.first = extent.first.min(span.start());
                    extent.last = extent.last.max(span.end());
                }
                _ => {
                    lines.methods.push(Extent { method: method.row(), first: span.start(), last: span.end() })
                }
            }
        }
    }
}

impl DocumentLines {
    fn on_line(&self, line: u32) -> &[Entry] {
        let start = self.statements.partition_point(|entry| entry.span.start_line < line);
        let count = self.statements[start..].partition_point(|entry| entry.span.start_line == line);
        &self.statements[start..start + count]
    }

    /// Statements that began before a line and go on over it: those that began last, because others lie around them.
    fn over_line(&self, line: u32) -> Vec<Place> {
        let before = self.statements.partition_point(|entry| entry.span.start_line < line);
        let over: Vec<&Entry> =
            self.statements[..before].iter().filter(|entry| entry.span.end_line >= line).collect();
        let Some(innermost) = over.iter().map(|entry| entry.span.start()).max() else { return Vec::new() };
        over.into_iter().filter(|entry| entry.span.start() == innermost).map(Entry::place).collect()
    }

    /// The statements of the next line with code, in methods that begin before the line, end after it and begin after `after`.
    fn following(&self, line: u32, after: (u32, u32)) -> Vec<Place> {
        let is_around =
            |extent: &&Extent| extent.first > after && extent.first.0 < line && extent.last.0 >= line;
        let around: Vec<u32> = self.methods.iter().filter(is_around).map(|extent| extent.method).collect();
        let start = self.statements.partition_point(|entry| entry.span.start_line < line);
        let mut following = self.statements[start..]
            .iter()
            .filter(|entry| around.binary_search(&entry.method).is_ok())
            .peekable();
        let Some(next) = following.peek().map(|entry| entry.span.start_line) else { return Vec::new() };
        following.take_while(|entry| entry.span.start_line == next).map(Entry::place).collect()
    }
}

impl Entry {
    fn place(&self) -> Place {
        Place { method: Token::method(self.method), il: self.il, span: self.span }
    }
}
