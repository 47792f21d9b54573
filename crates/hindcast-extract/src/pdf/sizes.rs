//! How large the letters of a page are, line by line.

use std::{cell::RefCell, collections::BTreeMap};

use pdf_extract::{ConvertToFmt, MediaBox, OutputDev, OutputError, PlainTextOutput, Transform};

/// A page has no more lines, nor sizes, that are looked at.
const MOST_LINES: usize = 2000;
const MOST_SIZES: usize = 64;

/// Words of a line that are so many times as far from each other as they are large stand in columns.
const GAP: f64 = 3.5;

/// In tenths of a point.
pub(super) type Size = u16;

/// The letters of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineSize {
    /// The smallest letter, and the largest; none is told of letters that do not stand upright.
    pub(super) smallest: Size,
    pub(super) largest: Size,
    pub(super) letters: u32,
    /// Whether it stands in columns, as a row of a table does.
    pub(super) is_divided: bool,
}

impl LineSize {
    const NOTHING: Self = Self { smallest: Size::MAX, largest: 0, letters: 0, is_divided: false };
}

/// What is known of a page.
#[derive(Default)]
pub(super) struct Sizes {
    /// By their lines in the page's text.
    pub(super) lines: Vec<LineSize>,
    /// How many letters there are of each size.
    pub(super) letters: BTreeMap<Size, u64>,
}

/// Writes the text of a page and notes how large it is.
pub(super) struct SizedOutput<'a> {
    plain: PlainTextOutput<PageText<'a>>,
    text: &'a RefCell<String>,
    sizes: Sizes,
    line: usize,
    /// Where the last letter ends.
    end: f64,
}

impl<'a> SizedOutput<'a> {
    /// Fails when the text gets longer than so many bytes.
    pub(super) fn new(text: &'a RefCell<String>, longest: usize) -> Self {
        let plain = PlainTextOutput::new(PageText { text, left: longest });
        Self { plain, text, sizes: Sizes::default(), line: 0, end: 0.0 }
    }

    pub(super) fn finish(self) -> Sizes {
        self.sizes
    }

    fn note(&mut self, size: Size, is_apart: bool, letters: u32) {
        if self.line >= MOST_LINES {
            return;
        }
        if self.sizes.lines.len() <= self.line {
            self.sizes.lines.resize(self.line + 1, LineSize::NOTHING);
        }
        let line = &mut self.sizes.lines[self.line];
        line.is_divided |= is_apart;
        if letters == 0 {
            return;
        }
        line.smallest = line.smallest.min(size);
        line.largest = line.largest.max(size);
        line.letters = line.letters.saturating_add(letters);
        if self.sizes.letters.len() < MOST_SIZES || self.sizes.letters.contains_key(&size) {
            *self.sizes.letters.entry(size).or_default() += u64::from(letters);
        }
    }
}

impl OutputDev for SizedOutput<'_> {
    fn begin_page(
        &mut self,
        number: u32,
        media_box: &MediaBox,
        art_box: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.plain.begin_page(number, media_box, art_box)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.plain.end_page()
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        spacing: f64,
        font_size: f64,
        char: &str,
    ) -> Result<(), OutputError> {
        let before = self.text.borrow().len();
        self.plain.output_character(place, width, spacing, font_size, char)?;
        // Only the other knows where lines end.
        let ends = self.text.borrow()[before..].matches('\n').count();
        self.line += ends;
        // The area of a letter; turned letters have none.
        let (across, up) = (place.m11 + place.m21, place.m12 + place.m22);
        let size = font_size.abs() * (across * up).sqrt();
        let letters = char.chars().filter(|char| char.is_alphabetic()).count() as u32;
        let is_apart = ends == 0 && before > 0 && place.m31 > self.end + size * GAP;
        // What is no number becomes zero.
        self.note((size * 10.0).round() as Size, is_apart, letters);
        self.end = place.m31 + width * size;
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.plain.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.plain.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.plain.end_line()
    }
}

/// Takes the text of a page as long as there is room.
struct PageText<'a> {
    text: &'a RefCell<String>,
    left: usize,
}

impl std::fmt::Write for PageText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        self.text.borrow_mut().push_str(text);
        Ok(())
    }
}

impl ConvertToFmt for PageText<'_> {
    type Writer = Self;

    fn convert(self) -> Self {
        self
    }
}
