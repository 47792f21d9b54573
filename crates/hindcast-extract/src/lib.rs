//! Documents in, text and chunks out.
//!
//! ```text
//! bytes ──Format──▶ extract ──Extracted (text, title, pages)──▶ chunk ──▶ pieces with their place and headings
//! ```
//!
//! Nothing here does IO, and nothing is trusted: what is read may be broken or made to hurt. Sizes are limited; whoever
//! calls this on files of strangers does so in a process of its own, which is what limits time and memory.

mod archive;
mod chunk;
mod dated;
mod docstrings;
mod docx;
mod encoding;
mod epub;
mod format;
mod html;
mod latex;
mod links;
mod mail;
mod man;
mod markup;
mod notebook;
mod office;
mod opendocument;
mod outline;
mod pdf;
mod plain;
mod rustdoc;
mod summary;
mod syntax;
mod table;
mod written_in;
mod xlsx;

use std::ops::Range;

use jiff::Timestamp;

pub use chunk::{Chunk, chunk, chunk_within};
pub use format::{Format, Language};
pub use links::{Links, links};
pub use written_in::written_in;

/// Grows whenever a reader or the cutting into chunks makes something else of the same file: documents that an older version read
/// are read again when they are added.
pub const READER: u32 = 8;

/// Why a document has no text for us.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It has content but no text.
    #[error("it has no text · hint: a scanned document needs to go through text recognition first")]
    NoText,
    /// Its bytes are not text.
    #[error("it is not text: byte {0} cannot be read in any known encoding")]
    NotText(usize),
    /// It breaks the rules of its format.
    #[error("it is not a readable {format} file: {reason}")]
    Broken {
        /// Which format.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Its pages are pictures.
    #[error(
        "its {0} pages are images without text · hint: let `ocrmypdf in.pdf out.pdf` recognise the text first"
    )]
    Scanned(usize),
    /// Nothing in a Python module is documented.
    #[error("it has no docstrings")]
    NoDocstrings,
    /// The page only leads to another one.
    #[error("it only leads to another page")]
    Redirect,
    /// It asks for a password.
    #[error(
        "it is protected by a password · hint: save it without one, such as with `qpdf --password=… --decrypt in.pdf out.pdf`"
    )]
    Protected,
    /// Reading it would unpack far more than a document of its size has.
    #[error(
        "it unpacks to more than {megabytes} MB, which cannot be read · hint: divide it, or print it to a new PDF"
    )]
    UnpacksToMore {
        /// What it may unpack to: all of it, or the part that is too large.
        megabytes: u64,
    },
    /// Unpacked it would be too large.
    #[error("unpacked it is larger than {0} bytes, which a document of its size should not be")]
    TooLarge(u64),
    /// Its sections are so many that what leads to them would be far larger than what they say.
    #[error("it has more headings than can be kept with its passages · hint: divide it into several files")]
    TooManyHeadings,
}

/// What a document says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extracted {
    /// The text that is served; none when the bytes themselves are that.
    pub text: Option<String>,
    /// What it calls itself.
    pub title: Option<String>,
    /// What it is about, in a sentence.
    pub description: Option<String>,
    /// What it says it is about, in words; for documentation of software, its name and version, such as `serde@1.0.229`.
    pub tags: Vec<String>,
    /// When it was last changed or sent, as it says itself.
    pub dated: Option<Timestamp>,
    /// Where in the text each page stands, where there are pages.
    pub pages: Vec<Range<usize>>,
    /// From which byte of the text on which line of the original is shown, ascending; empty where the text is the original. The lines
    /// of a spreadsheet are its rows.
    pub lines: Vec<(usize, u64)>,
    /// The blocks of the text, where the reader knows them better than its format tells; empty where it does not.
    pub blocks: Vec<Block>,
}

/// A part of a text that is not cut unless it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where it stands.
    pub range: Range<usize>,
    /// What it is.
    pub role: Role,
}

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Begins a section.
    Heading {
        /// 1 is outermost.
        level: u8,
        /// Without markup.
        name: String,
    },
    /// Begins a section and says something by itself, such as a function's signature.
    Term {
        /// 1 is outermost.
        level: u8,
        /// What it is about.
        name: String,
    },
    /// Something that is said.
    Body,
    /// A table of contents, or a notice of what is missing: served, but not searched.
    Links,
}

/// The text of a document.
pub fn extract(format: Format, bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_sent(format, bytes, None)
}

/// The text of a document that came with the name of its encoding, such as the `charset=` of an HTTP header. The name counts more
/// than what the document says of itself, and less than its byte order mark or that it is valid UTF-8. A name that nobody knows, or
/// that does not fit the bytes, is passed over; so is any name in formats that have their own way of telling, such as PDF.
pub fn extract_sent(format: Format, bytes: &[u8], charset: Option<&str>) -> Result<Extracted, ExtractError> {
    if bytes.is_empty() {
        return Err(ExtractError::Empty);
    }
    let unpacked = unpacked(bytes)?;
    let is_packed = unpacked.is_some();
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let mut extracted = read(format, bytes, charset)?;
    if is_packed && extracted.text.is_none() {
        extracted.text = Some(encoding::decoded_as(bytes, charset)?.into_owned());
    }
    let text = match &extracted.text {
        Some(text) => text,
        None => std::str::from_utf8(bytes).map_err(|error| ExtractError::NotText(error.valid_up_to()))?,
    };
    if extracted.blocks.is_empty() {
        extracted.blocks = match format {
            Format::Csv | Format::Tsv => table::blocks(format, text),
            _ => markup::blocks(format, text),
        };
    }
    if text.trim().is_empty() {
        // Only these are made of pictures by scanners.
        return Err(if format == Format::Pdf { ExtractError::NoText } else { ExtractError::Empty });
    }
    let summary = summary::of(format, text);
    extracted.title = extracted.title.or(summary.title);
    extracted.description = extracted.description.or(summary.description);
    extracted.tags.extend(summary.tags);
    extracted.dated = extracted.dated.or(summary.dated);
    Ok(extracted)
}

fn read(format: Format, bytes: &[u8], charset: Option<&str>) -> Result<Extracted, ExtractError> {
    let text = || encoding::decoded_as(bytes, charset);
    match format {
        Format::Pdf => pdf::extract(bytes),
        Format::Docx => docx::extract(bytes),
        Format::Pptx => office::pptx(bytes),
        Format::Xlsx => xlsx::extract(bytes),
        Format::Odt | Format::Odp | Format::Ods => opendocument::extract(bytes),
        Format::Epub => epub::extract(bytes),
        Format::Html => html::extract(&text()?),
        Format::Notebook => notebook::extract(&text()?),
        Format::Docstrings => docstrings::extract(&text()?),
        Format::Rustdoc => rustdoc::extract(bytes),
        Format::Mbox => mail::extract(bytes, true),
        Format::Mail => mail::extract(bytes, false),
        Format::Man => {
            let text = text()?;
            // A name such as `notes.1` is not only that of a manual page.
            match man::is_troff(&text) {
                true if man::leads_elsewhere(&text) => Err(ExtractError::Redirect),
                true => Ok(man::extract(&text)),
                false => plain::extract(bytes, charset),
            }
        }
        Format::Latex => {
            let extracted = latex::extract(&text()?);
            // A file of nothing but definitions is searched as it is.
            let has_text = extracted.text.as_ref().is_some_and(|text| !text.trim().is_empty());
            if has_text { Ok(extracted) } else { plain::extract(bytes, charset) }
        }
        _ => plain::extract(bytes, charset),
    }
}

/// What a compressed file unpacks to.
const LARGEST_UNPACKED: u64 = 64 * 1024 * 1024;

/// The bytes of a file that gzip packed; none where it did not.
fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, ExtractError> {
    use std::io::Read;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(None);
    }
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(LARGEST_UNPACKED + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| ExtractError::Broken { format: "gzip", reason: error.to_string() })?;
    if unpacked.len() as u64 > LARGEST_UNPACKED {
        return Err(ExtractError::TooLarge(LARGEST_UNPACKED));
    }
    Ok(Some(unpacked))
}
