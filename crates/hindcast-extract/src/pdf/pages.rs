//! Reads a PDF page by page.

use std::{cell::RefCell, panic::AssertUnwindSafe};

use pdf_extract::{
    Dictionary, Document, Error, Object, ObjectId, OutputError, encryption::DecryptionError, output_doc_page,
};

use super::{
    accents, broken,
    budget::{self, Budget, LoadError, TooMuch},
    outline::{self, Bookmark},
    sizes::{SizedOutput, Sizes},
};
use crate::ExtractError;

/// The text of a page, and of all pages, in bytes. A letter may stand for many.
const LONGEST_PAGE: usize = 4 << 20;
const LONGEST_TEXT: usize = 128 << 20;

/// What was read of a page.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    /// How large the letters of its lines are.
    pub(super) sizes: Sizes,
    has_image: bool,
    pub(super) has_failed: bool,
    /// The megabytes that it is not read for, because it unpacks to more.
    pub(super) exceeds: Option<u64>,
}

impl Page {
    /// What a reader must know who does not see it.
    pub(super) fn notice(&self, number: usize) -> Option<String> {
        match (self.has_failed, self.text.trim().is_empty()) {
            (true, true) => Some(format!("[page {number} cannot be read]")),
            (true, false) => Some(format!("[the rest of page {number} cannot be read]")),
            (false, true) if self.has_image => Some(format!("[page {number} is an image without text]")),
            (false, _) => None,
        }
    }
}

/// The pages, and the bookmarks that lead to them.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<Page>, Vec<Bookmark>), ExtractError> {
    let mut document = budget::load(bytes).map_err(|error| match error {
        LoadError::Pdf(error) => refused(&error),
        LoadError::TooMuch(megabytes) => budget::too_much(megabytes),
    })?;
    if document.is_encrypted() {
        // Many are encrypted with no password, only to forbid changes.
        document.decrypt("").map_err(|error| refused(&error))?;
    }
    let sizes = budget::measure(&mut document).map_err(budget::too_much)?;
    let ids: Vec<_> = document.page_iter().collect();
    let mut budget = Budget::new(&document, &sizes);
    let mut costs = Vec::with_capacity(ids.len());
    for id in &ids {
        costs.push(match budget.take_page(*id) {
            Ok(()) => None,
            Err(TooMuch::Page(megabytes)) => Some(megabytes),
            Err(TooMuch::Document(megabytes)) => return Err(budget::too_much(megabytes)),
        });
    }
    let bookmarks = outline::bookmarks(&document, &ids);
    let (mut pages, mut failed, mut left) = (Vec::new(), None, LONGEST_TEXT);
    for (id, exceeds) in ids.into_iter().zip(costs) {
        if exceeds.is_some() {
            pages.push(Page { exceeds, has_failed: true, ..Page::default() });
            continue;
        }
        // The library follows the parents of a page as deep as they go; what exceeds nothing has few.
        let has_image = has_image(&document, id);
        let text = RefCell::default();
        let mut output = SizedOutput::new(&text, left.min(LONGEST_PAGE));
        let read = read_page(&mut document, id, &mut output);
        let sizes = output.finish();
        let text = accents::put_on_letters(text.into_inner());
        left = left.saturating_sub(text.len());
        let has_failed = read.is_err();
        failed = read.err().flatten().or(failed);
        pages.push(Page { text, sizes, has_image, has_failed, exceeds });
    }
    let has_text = pages.iter().any(|page| !page.text.trim().is_empty());
    let is_too_much = pages.iter().any(|page| page.exceeds.is_some());
    match failed {
        Some(error) if !has_text && !is_too_much => Err(broken(error.to_string())),
        _ => Ok((pages, bookmarks)),
    }
}

/// Why a file cannot be read.
fn refused(error: &Error) -> ExtractError {
    match error {
        Error::InvalidPassword | Error::Decryption(DecryptionError::IncorrectPassword) => {
            ExtractError::Protected
        }
        error => broken(error.to_string()),
    }
}

/// Writes the text of a page. Fails with the reason, where there is one.
fn read_page(
    document: &mut Document,
    page: ObjectId,
    output: &mut SizedOutput<'_>,
) -> Result<(), Option<OutputError>> {
    // The library goes through all pages to find one, so the document is made to have no other.
    const CATALOG: ObjectId = (u32::MAX, 0);
    const PAGES: ObjectId = (u32::MAX - 1, 0);
    let pages = [("Type", Object::from("Pages")), ("Kids", vec![Object::from(page)].into())];
    let catalog = [("Type", Object::from("Catalog")), ("Pages", Object::from(PAGES))];
    document.objects.insert(PAGES, Dictionary::from_iter(pages).into());
    document.objects.insert(CATALOG, Dictionary::from_iter(catalog).into());
    document.trailer.set("Root", CATALOG);
    // A page that cannot be read does not cost the others.
    let read = AssertUnwindSafe(|| output_doc_page(document, output, 1));
    match std::panic::catch_unwind(read) {
        Ok(read) => read.map_err(Some),
        Err(_) => Err(None),
    }
}

/// Whether a page shows a picture, by what it says it needs.
fn has_image(document: &Document, page: ObjectId) -> bool {
    let Ok((own, shared)) = document.get_page_resources(page) else { return false };
    let shared = shared.into_iter().filter_map(|id| document.get_dictionary(id).ok());
    own.into_iter().chain(shared).any(|resources| {
        let Ok(objects) = document.get_dict_in_dict(resources, b"XObject") else { return false };
        objects.iter().any(|(_, object)| {
            let stream =
                object.as_reference().and_then(|id| document.get_object(id)).and_then(Object::as_stream);
            let kind = stream.and_then(|stream| stream.dict.get(b"Subtype")).and_then(Object::as_name);
            kind.is_ok_and(|kind| kind == b"Image")
        })
    })
}
