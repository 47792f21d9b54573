//! What reading a PDF may cost: a small file can unpack to gigabytes, or draw the same thing a billion times.
//!
//! ```text
//! load: pictures are dropped, object streams are unpacked within bounds ─▶ measure: every other stream ─▶ before each page: what
//! it and the forms that it draws come to
//! ```
//!
//! The library unpacks some things before they can be counted. Only the memory and the time of the process that reads the file bound
//! these:
//!
//! - object streams of encrypted files;
//! - cross-reference streams;
//! - an object stream that holds the `/Length` of other streams, once for each of them.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    io::{BufReader, Read, Write},
};

use flate2::read::{DeflateDecoder, ZlibDecoder};
use pdf_extract::{
    Dictionary, Document, LoadOptions, Object, ObjectId, Stream, content::Content, filters::png,
};

use super::outline::dictionary;
use crate::ExtractError;

const MEGABYTE: u64 = 1 << 20;

/// What all streams unpack to, without pictures, and what is drawn of them on all pages: each at most so many megabytes.
const MOST: u64 = 512;

/// What one stream unpacks to.
const MOST_OF_STREAM: u64 = 64;

/// What a page and the forms that are open at the same time unpack to. What is made of them to read takes fifty times as much.
const MOST_OPEN: u64 = 16;

/// What a page draws, again and again.
const MOST_OF_PAGE: u64 = 64;

/// Forms in forms.
const DEEPEST: usize = 24;

/// Parents of a page.
const MOST_PARENTS: usize = 64;

/// A row of pixels, in bytes.
const LONGEST_ROW: i64 = 8 << 20;

/// Drawing an empty form costs as much as so many bytes.
const COST_OF_DRAWING: u64 = 64;

thread_local! {
    /// What object streams may still unpack to while a document is loaded, in bytes, or what they exceed, in megabytes.
    static LEFT: Cell<Result<u64, u64>> = const { Cell::new(Ok(0)) };
}

/// That a file unpacks to more than it may.
pub(super) fn too_much(megabytes: u64) -> ExtractError {
    ExtractError::UnpacksToMore { megabytes }
}

/// A document without its pictures.
pub(super) fn load(bytes: &[u8]) -> Result<Document, LoadError> {
    LEFT.set(Ok(MOST * MEGABYTE));
    let document = Document::load_mem_with_options(bytes, LoadOptions::with_filter(keep))?;
    LEFT.get().map(|_| document).map_err(LoadError::TooMuch)
}

/// Why a document cannot be loaded.
pub(super) enum LoadError {
    Pdf(pdf_extract::Error),
    /// It unpacks to more than so many megabytes.
    TooMuch(u64),
}

impl From<pdf_extract::Error> for LoadError {
    fn from(error: pdf_extract::Error) -> Self {
        Self::Pdf(error)
    }
}

/// Called for every object of a file that is not encrypted, before its own stream is unpacked. What it returns counts only for what
/// stands in object streams, where there are no streams.
fn keep(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    let Object::Stream(stream) = object else { return Some((id, object.clone())) };
    if is_unread(stream) {
        stream.set_plain_content(Vec::new());
    } else if stream.dict.has_type(b"ObjStm") {
        let taken = LEFT.get().and_then(|left| {
            let most = left.min(MOST_OF_STREAM * MEGABYTE);
            let exceeded = if most < left { MOST_OF_STREAM } else { MOST };
            let content = unpacked(stream, most).ok_or(exceeded)?;
            Ok((left - content.len() as u64, content))
        });
        LEFT.set(taken.as_ref().map(|(left, _)| *left).map_err(|exceeded| *exceeded));
        stream.set_plain_content(taken.map(|(_, content)| content).unwrap_or_default());
    }
    Some((id, Object::Null))
}

/// Whether a stream says nothing that is read: a picture, a file that is attached, a font's outlines.
fn is_unread(stream: &Stream) -> bool {
    let is = |key: &[u8], name: &[u8]| {
        stream.dict.get(key).and_then(Object::as_name).is_ok_and(|found| found == name)
    };
    is(b"Subtype", b"Image")
        || is(b"Type", b"EmbeddedFile")
        || is(b"Type", b"Metadata")
        || stream.dict.has(b"FunctionType")
}

/// What a stream says; none where it would be more than so many bytes. Leaves damaged streams packed, as the library does.
fn unpacked(stream: &Stream, most: u64) -> Option<Vec<u8>> {
    let Ok(filters) = stream.filters() else { return within(stream.content.clone(), most) };
    let parameters = stream.dict.get(b"DecodeParms").and_then(Object::as_dict).ok();
    let row = row(parameters);
    // A row is allocated as long as it is said to be.
    if row.is_some_and(|(pixel, columns)| pixel.saturating_mul(columns) > LONGEST_ROW) {
        return None;
    }
    let without_predictor = |content: Vec<u8>| match row {
        Some((pixel, columns)) => png::decode_frame(&content, pixel as usize, columns as usize).ok(),
        None => Some(content),
    };
    let mut content = stream.content.clone();
    for filter in filters {
        let decoded = match filter {
            b"FlateDecode" => without_predictor(inflated(&content, most)?),
            b"LZWDecode" => without_predictor(without_lzw(&content, parameters, most)?),
            // At most four times as large.
            b"ASCII85Decode" if content.len() as u64 <= most => {
                let dictionary = Dictionary::from_iter([("Filter", Object::from("ASCII85Decode"))]);
                Stream::new(dictionary, content).decompressed_content().ok()
            }
            b"ASCII85Decode" => return None,
            _ => None,
        };
        let Some(decoded) = decoded else { return within(stream.content.clone(), most) };
        content = decoded;
    }
    within(content, most)
}

/// The bytes of a pixel, and the pixels of a row, where a stream has the differences between rows.
fn row(parameters: Option<&Dictionary>) -> Option<(i64, i64)> {
    let number = |name: &[u8], least: i64| {
        parameters.and_then(|all| all.get(name).and_then(Object::as_i64).ok()).unwrap_or(least).max(least)
    };
    let pixel = number(b"Colors", 1).saturating_mul(number(b"BitsPerComponent", 8)) / 8;
    (10..=15).contains(&number(b"Predictor", 1)).then(|| (pixel, number(b"Columns", 1)))
}

fn within(content: Vec<u8>, most: u64) -> Option<Vec<u8>> {
    (content.len() as u64 <= most).then_some(content)
}

fn inflated(packed: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    // What is damaged counts as far as it is whole.
    if ZlibDecoder::new(packed).take(most + 1).read_to_end(&mut content).is_err() && content.is_empty() {
        let _ =
            DeflateDecoder::new(packed.get(2..).unwrap_or_default()).take(most + 1).read_to_end(&mut content);
    }
    within(content, most)
}

fn without_lzw(packed: &[u8], parameters: Option<&Dictionary>, most: u64) -> Option<Vec<u8>> {
    use weezl::{BitOrder, decode::Decoder};
    let early = parameters.and_then(|all| all.get(b"EarlyChange").and_then(Object::as_i64).ok());
    let mut decoder = match early {
        Some(0) => Decoder::new(BitOrder::Msb, 8),
        _ => Decoder::with_tiff_size_switch(BitOrder::Msb, 8),
    };
    let mut content = Bounded { content: Vec::new(), most, is_over: false };
    let _ = decoder.into_stream(&mut content).decode_all(BufReader::new(packed)).status;
    (!content.is_over).then_some(content.content)
}

/// Takes so many bytes and no more.
struct Bounded {
    content: Vec<u8>,
    most: u64,
    is_over: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.content.len() + bytes.len()) as u64 > self.most {
            self.is_over = true;
            return Err(std::io::Error::other("too large"));
        }
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Drops what is not read, and measures the rest. Gives the bytes of every stream when unpacked, or what they exceed, in megabytes.
pub(super) fn measure(document: &mut Document) -> Result<HashMap<ObjectId, u64>, u64> {
    let unread = unread(document);
    let mut sizes = HashMap::new();
    let mut left = MOST * MEGABYTE;
    for (id, object) in &mut document.objects {
        let Object::Stream(stream) = object else { continue };
        if unread.contains(id)
            || is_unread(stream)
            || stream.dict.has_type(b"ObjStm")
            || stream.dict.has_type(b"XRef")
        {
            stream.set_plain_content(Vec::new());
            continue;
        }
        let size = unpacked(stream, MOST_OF_STREAM * MEGABYTE).ok_or(MOST_OF_STREAM)?.len() as u64;
        left = left.checked_sub(size).ok_or(MOST)?;
        sizes.insert(*id, size);
    }
    Ok(sizes)
}

/// Streams that only others say are not read: profiles of colours and TrueType fonts. A page that sets its colour a million times
/// would unpack the profile as often.
fn unread(document: &Document) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    let mut open: Vec<&Object> = document.objects.values().collect();
    while let Some(object) = open.pop() {
        let dictionary = match object {
            Object::Array(parts) => {
                if let [Object::Name(name), Object::Reference(id), ..] = &parts[..]
                    && name == b"ICCBased"
                {
                    found.insert(*id);
                }
                open.extend(parts);
                continue;
            }
            Object::Dictionary(dictionary) => dictionary,
            Object::Stream(stream) => &stream.dict,
            _ => continue,
        };
        found.extend(dictionary.get(b"FontFile2").and_then(Object::as_reference));
        open.extend(dictionary.iter().map(|(_, value)| value));
    }
    found
}

/// That reading on costs too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// This page, more than so many megabytes.
    Page(u64),
    /// All pages together.
    Document(u64),
}

/// What drawing something comes to, in bytes.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    /// With everything as often as it is drawn.
    all: u64,
    /// What is open at the same time.
    open: u64,
}

/// Counts what pages draw, before they are drawn.
pub(super) struct Budget<'a> {
    document: &'a Document,
    sizes: &'a HashMap<ObjectId, u64>,
    left: u64,
    /// Forms by what they are and the resources they are drawn with. While one is looked at, it is too much.
    forms: HashMap<(*const Stream, *const Dictionary), Result<Drawn, TooMuch>>,
}

impl<'a> Budget<'a> {
    pub(super) fn new(document: &'a Document, sizes: &'a HashMap<ObjectId, u64>) -> Self {
        Self { document, sizes, left: MOST * MEGABYTE, forms: HashMap::new() }
    }

    /// Takes what a page costs off what is left.
    pub(super) fn take_page(&mut self, page: ObjectId) -> Result<(), TooMuch> {
        let contents = self.document.get_page_contents(page);
        let size: u64 = contents.iter().filter_map(|id| self.size(*id)).map(|size| size + 1).sum();
        if size > MOST_OPEN * MEGABYTE {
            return Err(TooMuch::Page(MOST_OPEN));
        }
        // A page whose parents are its children would be looked through for ever.
        let resources = self.resources(page).ok_or(TooMuch::Page(MOST_OPEN))?;
        let before = self.left;
        let all = match resources.filter(|resources| self.has_forms(resources)) {
            None => size,
            Some(resources) => {
                let content = self.document.get_page_content(page).unwrap_or_default();
                self.drawn(&content, resources, 0)?.all
            }
        };
        // What was looked at is drawn at least once.
        let looked_at = before - self.left;
        self.charge((all + COST_OF_DRAWING).saturating_sub(looked_at))
    }

    /// The bytes of a stream when unpacked. A reference may lead to another.
    fn size(&self, id: ObjectId) -> Option<u64> {
        let (id, _) = self.document.dereference(&Object::Reference(id)).ok()?;
        self.sizes.get(&id?).copied()
    }

    /// What a page needs, of its own or of its parents; an error where they have no end.
    fn resources(&self, page: ObjectId) -> Option<Option<&'a Dictionary>> {
        let mut node = self.document.get_dictionary(page).ok()?;
        let mut found = None;
        for _ in 0..MOST_PARENTS {
            found = found.or_else(|| dictionary(self.document, node, b"Resources"));
            let parent = node.get(b"Parent").and_then(Object::as_reference);
            match parent.and_then(|parent| self.document.get_dictionary(parent)) {
                Ok(parent) => node = parent,
                Err(_) => return Some(found),
            }
        }
        None
    }

    fn has_forms(&self, resources: &Dictionary) -> bool {
        let Some(objects) = dictionary(self.document, resources, b"XObject") else { return false };
        objects
            .iter()
            .any(|(_, object)| stream(self.document, object).is_some_and(|stream| !stream.content.is_empty()))
    }

    fn drawn(&mut self, content: &[u8], resources: &'a Dictionary, depth: usize) -> Result<Drawn, TooMuch> {
        let size = content.len() as u64;
        self.charge(size)?;
        if size > MOST_OPEN * MEGABYTE {
            return Err(TooMuch::Page(MOST_OPEN));
        }
        if depth > DEEPEST {
            return Err(TooMuch::Page(MOST_OF_PAGE));
        }
        let mut drawn = Drawn { all: size, open: size };
        // The library draws nothing of what it cannot decode.
        let Ok(content) = Content::decode(content) else { return Ok(drawn) };
        let Some(objects) = dictionary(self.document, resources, b"XObject") else { return Ok(drawn) };
        let mut times: HashMap<&[u8], u64> = HashMap::new();
        for operation in &content.operations {
            if operation.operator == "Do"
                && let Some(Object::Name(name)) = operation.operands.first()
            {
                *times.entry(name).or_default() += 1;
            }
        }
        for (name, times) in times {
            let Some(form) = objects.get(name).ok().and_then(|form| stream(self.document, form)) else {
                continue;
            };
            let form = self.form(form, resources, depth + 1)?;
            drawn.all = drawn.all.saturating_add((form.all + COST_OF_DRAWING).saturating_mul(times));
            drawn.open = drawn.open.max(size + form.open);
        }
        if drawn.all > MOST_OF_PAGE * MEGABYTE {
            return Err(TooMuch::Page(MOST_OF_PAGE));
        }
        if drawn.open > MOST_OPEN * MEGABYTE {
            return Err(TooMuch::Page(MOST_OPEN));
        }
        Ok(drawn)
    }

    fn form(&mut self, form: &'a Stream, resources: &'a Dictionary, depth: usize) -> Result<Drawn, TooMuch> {
        let resources = dictionary(self.document, &form.dict, b"Resources").unwrap_or(resources);
        let key = (std::ptr::from_ref(form), std::ptr::from_ref(resources));
        if let Some(known) = self.forms.get(&key) {
            return *known;
        }
        // A form that draws itself is met again before it is known.
        self.forms.insert(key, Err(TooMuch::Page(MOST_OF_PAGE)));
        let content = unpacked(form, MOST_OPEN * MEGABYTE).ok_or(TooMuch::Page(MOST_OPEN))?;
        let drawn = self.drawn(&content, resources, depth);
        self.forms.insert(key, drawn);
        drawn
    }

    fn charge(&mut self, cost: u64) -> Result<(), TooMuch> {
        self.left = self.left.checked_sub(cost).ok_or(TooMuch::Document(MOST))?;
        Ok(())
    }
}

fn stream<'a>(document: &'a Document, object: &'a Object) -> Option<&'a Stream> {
    document.dereference(object).ok()?.1.as_stream().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that draws a form of this many bytes so often.
    fn page_with_form(bytes: usize, times: usize) -> (Document, ObjectId) {
        let mut document = Document::with_version("1.5");
        let form = document.add_object(Stream::new(Dictionary::new(), vec![b' '; bytes]));
        let contents = document.add_object(Stream::new(Dictionary::new(), b"/X Do ".repeat(times)));
        let objects = Dictionary::from_iter([("X", Object::from(form))]);
        let resources = Dictionary::from_iter([("XObject", Object::from(objects))]);
        let page = [("Resources", Object::from(resources)), ("Contents", Object::from(contents))];
        let page = document.add_object(Dictionary::from_iter(page));
        (document, page)
    }

    #[test]
    fn a_page_costs_what_it_draws_once() {
        let (mut document, page) = page_with_form(1000, 3);
        let sizes = measure(&mut document).unwrap();
        let mut budget = Budget::new(&document, &sizes);
        // The contents end with a line feed.
        let cost = 3 * 6 + 1 + 3 * (1000 + COST_OF_DRAWING) + COST_OF_DRAWING;
        for times in 1..=2 {
            assert_eq!(budget.take_page(page), Ok(()));
            assert_eq!(budget.left, MOST * MEGABYTE - times * cost);
        }
    }

    #[test]
    fn a_form_that_exceeds_what_is_left_for_all_pages_is_not_blamed_on_its_page() {
        let (mut document, page) = page_with_form(1000, 1);
        let sizes = measure(&mut document).unwrap();
        let mut budget = Budget { left: 500, ..Budget::new(&document, &sizes) };
        assert_eq!(budget.take_page(page), Err(TooMuch::Document(MOST)));
    }

    #[test]
    fn object_streams_tell_which_limit_they_exceed() {
        let exceeded = |left: u64, size: u64| {
            LEFT.set(Ok(left));
            let dictionary = Dictionary::from_iter([("Type", Object::from("ObjStm"))]);
            let mut object = Object::from(Stream::new(dictionary, vec![b' '; size as usize]));
            keep((1, 0), &mut object).unwrap();
            LEFT.get()
        };
        assert_eq!(exceeded(100, 100), Ok(0));
        assert_eq!(exceeded(100, 101), Err(MOST));
        let large = MOST_OF_STREAM * MEGABYTE + 1;
        assert_eq!(exceeded(2 * large, large), Err(MOST_OF_STREAM));
    }
}
