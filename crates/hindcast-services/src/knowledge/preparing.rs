//! One document: read, and cut into what is found of it.

use hindcast_core::{
    identity::PrincipalId,
    knowledge::{CollectionSettings, Language, NewChunk, Place, TextHash, hash_of},
};
use hindcast_extract::{Extracted, Format, written_in};

use super::{
    KnowledgeService, blocking,
    extraction::{Cut, Extractor, Unread},
};
use crate::Failure;

/// A document as it was found.
pub(super) struct Original {
    pub(super) format: Format,
    pub(super) bytes: Vec<u8>,
    pub(super) hash: TextHash,
    /// The name of its encoding, where whoever sent it told one.
    pub(super) charset: Option<String>,
}

/// A document that was read and cut, without vectors yet.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) original: Vec<u8>,
    pub(super) hash: TextHash,
    pub(super) extracted: Extracted,
    pub(super) language: Option<Language>,
    pub(super) chunks: Vec<NewChunk>,
}

impl KnowledgeService {
    /// Reads and cuts a document, or says why it cannot be. What the reader died of is not given to it again: a watched folder
    /// is looked through often.
    pub(super) async fn prepare(
        &self,
        owner: &PrincipalId,
        original: Original,
        settings: &CollectionSettings,
    ) -> Result<Result<Prepared, String>, Failure> {
        let (format, hash) = (original.format, original.hash);
        if let Some(reason) = self.deadly.reason(format, hash) {
            return Ok(Err(reason));
        }
        let place = match format.needs_parser() {
            true => Some(self.readers.place(owner).await),
            false => None,
        };
        let (extractor, settings) = (self.policy.extractor.clone(), settings.clone());
        let prepared = blocking(move || {
            // Also a reader whose caller is gone keeps its place until it ends.
            let _place = place;
            prepare(&extractor, original, &settings)
        })
        .await?;
        Ok(prepared.map_err(|unread| match unread {
            Unread::Refused(reason) => reason,
            Unread::Died(reason) => {
                self.deadly.remember(format, hash, &reason);
                reason
            }
        }))
    }
}

/// Reads and cuts a document. Blocks.
fn prepare(
    extractor: &Extractor,
    original: Original,
    settings: &CollectionSettings,
) -> Result<Prepared, Unread> {
    let broken = || Unread::Refused("its reader tells of pieces that it does not have".into());
    let largest = settings.passage_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let Cut { extracted, chunks: cut } = extractor.extract(&original, largest)?;
    let Original { format, bytes: original, hash, .. } = original;
    let text = match &extracted.text {
        Some(text) => text,
        None => std::str::from_utf8(&original).map_err(|error| Unread::Refused(error.to_string()))?,
    };
    let mut chunks = Vec::with_capacity(cut.len());
    for chunk in cut {
        let headings = chunk.headings.join(" › ");
        let bytes = (chunk.range.start as u64, chunk.range.end as u64);
        let text = text.get(chunk.range).ok_or_else(broken)?.to_owned();
        chunks.push(NewChunk {
            hash: hash_of(&headings, &text),
            headings,
            text,
            place: Place { bytes, lines: chunk.lines, page: chunk.page },
            is_code: format.is_code(),
            vector: None,
        });
    }
    let language = match settings.language {
        _ if format.is_code() => None,
        None => written_in(text).and_then(Language::of_tag),
        decided => decided,
    };
    Ok(Prepared { original, hash, extracted, language, chunks })
}
