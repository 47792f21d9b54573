//! Collections, documents and chunks, as the truth keeps them.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{ChunkId, CollectionKey, Language};
use crate::identity::{KeyId, PrincipalId};

/// A document, by its row in the truth. Never given to another document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey(pub i64);

/// What one text hashes to; equal texts need one vector.
pub type TextHash = [u8; 32];

/// The hash of a chunk. Chunks with equal hashes share a vector.
pub fn hash_of(headings: &str, text: &str) -> TextHash {
    Sha256::new().chain_update(headings).chain_update([0]).chain_update(text).finalize().into()
}

/// Passages of fewer bytes say too little to be found, and of more too much to be told apart.
pub const SMALLEST_PASSAGE: u32 = 200;
/// See [`SMALLEST_PASSAGE`].
pub const LARGEST_PASSAGE: u32 = 8000;

/// Whose a collection is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// Everybody's.
    Shared,
    /// Only this principal sees it.
    Private(PrincipalId),
}

/// A collection and how much is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// Its row.
    pub key: CollectionKey,
    /// Whose it is.
    pub ownership: Ownership,
    /// Who made it: the owner of a private collection, and whoever may change a shared one besides an admin.
    pub maker: PrincipalId,
    /// Its name in URIs.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When something in it last changed.
    pub updated_at: Timestamp,
    /// When it was last searched or read.
    pub accessed_at: Option<Timestamp>,
    /// How many documents it has.
    pub documents: u64,
    /// How many chunks they have.
    pub chunks: u64,
    /// What was decided for it.
    pub settings: CollectionSettings,
    /// The model whose vectors answer; another than the settings' while theirs are made. None before there are any.
    pub vectors_by: Option<String>,
}

/// What is decided for one collection. What is absent is as usual.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectionSettings {
    /// The model that makes its vectors.
    pub model: Option<String>,
    /// What its documents are written in; told from each document where absent.
    pub language: Option<Language>,
    /// How large its passages are at most, in bytes.
    pub passage_bytes: Option<u32>,
}

impl CollectionSettings {
    /// Whether nothing was decided.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The file a document was made from, as it was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its absolute path, as text. A path that is not UTF-8 is escaped and so cannot be opened by this.
    pub path: String,
    /// When it was last modified, in nanoseconds since the epoch.
    pub modified: i64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is on the disk of another machine: what is at its path here says nothing about it.
    pub is_elsewhere: bool,
}

impl SourceFile {
    /// Whether it is a page of the web, which is the same from every machine.
    pub fn is_page(&self) -> bool {
        ["http://", "https://"].iter().any(|scheme| self.path.starts_with(scheme))
    }
}

/// A document without its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its row.
    pub key: DocumentKey,
    /// Where it belongs.
    pub collection: CollectionKey,
    /// Its name in URIs.
    pub id: String,
    /// Its title.
    pub name: String,
    /// What it is about, in a sentence.
    pub description: String,
    /// What it is served as.
    pub mime_type: String,
    /// What the original is written in.
    pub source_type: String,
    /// Which version of the readers made its text.
    pub reader: u32,
    /// What it is written in, where that was told or could be seen.
    pub language: Option<Language>,
    /// When it was last changed or sent, as it says itself.
    pub dated: Option<Timestamp>,
    /// The size of the original in bytes.
    pub size: u64,
    /// How many chunks it has.
    pub chunks: u64,
    /// What the original hashes to.
    pub hash: TextHash,
    /// When it first came in.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The file it was made from; none when it was given as text.
    pub source: Option<SourceFile>,
}

impl Document {
    /// The document as it is now, for a writer that must not undo what another process writes meanwhile.
    pub fn version(&self) -> DocumentVersion {
        DocumentVersion {
            key: self.key,
            hash: self.hash,
            modified: self.source.as_ref().map(|source| source.modified),
        }
    }
}

/// A document as somebody read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentVersion {
    /// Its row.
    pub key: DocumentKey,
    /// What the original hashed to.
    pub hash: TextHash,
    /// When its file was last modified.
    pub modified: Option<i64>,
}

/// Where in a document something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First byte and the byte after the last, in the served text.
    pub bytes: (u64, u64),
    /// First and last line, from 1.
    pub lines: (u64, u64),
    /// The page, from 1, where there are pages.
    pub page: Option<u64>,
}

/// A chunk that is to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChunk {
    /// Its text.
    pub text: String,
    /// What its headings and text hash to.
    pub hash: TextHash,
    /// The headings that lead to it, outermost first, joined by ` › `.
    pub headings: String,
    /// Where it stands.
    pub place: Place,
    /// Whether it is source code.
    pub is_code: bool,
    /// Its vector and the model that made it; none when there is no model, or when the chunk was there before.
    pub vector: Option<NewVector>,
}

/// A vector that is to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVector {
    /// The model that made it.
    pub model: String,
    /// Its numbers.
    pub numbers: Vec<f32>,
}

/// The tags of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags {
    /// From the document itself; the next version of it decides anew.
    pub own: Vec<String>,
    /// From whoever added it; they stay.
    pub given: Vec<String>,
}

/// Which documents a search is narrowed to. What is absent does not narrow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentFilter {
    /// Those whose path contains this; of texts without a file, whose id does.
    pub path: Option<String>,
    /// Those whose original is written in this MIME type.
    pub source_type: Option<String>,
    /// Those with this tag.
    pub tag: Option<String>,
    /// Those from this time on. A document's time is the one it gives itself, else its file's, else that of its last change here.
    pub since: Option<Timestamp>,
    /// Those from before this time.
    pub until: Option<Timestamp>,
}

impl DocumentFilter {
    /// Whether it lets every document through.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// A document that is to be kept, whole.
#[derive(Debug, Clone)]
pub struct NewDocument {
    /// Where it belongs.
    pub collection: CollectionKey,
    /// The document whose place it takes, as it was read; none for a new one.
    pub replaces: Option<DocumentVersion>,
    /// The names it may have in URIs, best first. A document that takes another's place keeps that one's.
    pub ids: Vec<String>,
    /// Its title.
    pub name: String,
    /// What it is about, in a sentence.
    pub description: String,
    /// What it is served as.
    pub mime_type: String,
    /// What the original is written in.
    pub source_type: String,
    /// Which version of the readers made its text.
    pub reader: u32,
    /// What it is written in, where that was told or could be seen.
    pub language: Option<Language>,
    /// When it was last changed or sent, as it says itself.
    pub dated: Option<Timestamp>,
    /// What it says it is about, and what whoever added it says.
    pub tags: Tags,
    /// The bytes as they came.
    pub original: Vec<u8>,
    /// The text that is served; none when that is the original itself.
    pub text: Option<String>,
    /// What the original hashes to.
    pub hash: TextHash,
    /// The file it was made from.
    pub source: Option<SourceFile>,
    /// All its chunks, in order.
    pub chunks: Vec<NewChunk>,
    /// The time.
    pub now: Timestamp,
}

/// A chunk with all that a hit tells.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChunk {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Its text.
    pub text: String,
    /// The headings that lead to it.
    pub headings: String,
    /// Where it stands.
    pub place: Place,
    /// Whether it is source code.
    pub is_code: bool,
    /// The collection's id.
    pub collection: String,
    /// The document it is part of.
    pub document: Document,
}

/// Whose rights count when a watched folder is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchGrant {
    /// The user of this machine, on the command line or over standard input.
    Local,
    /// The holder of this key, as long as the key is good.
    Key(KeyId),
    /// Nobody knows: an older version did not write it down.
    Unknown,
}

/// A folder or file that is to be kept up to date.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewWatch {
    /// Into which collection the files go.
    pub collection: CollectionKey,
    /// The file or folder.
    pub path: String,
    /// Which of its files.
    pub patterns: Patterns,
    /// Whose rights count.
    pub grant: WatchGrant,
}

/// Which files of a folder are taken, as in a `.gitignore`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Patterns {
    /// Only these; all where empty.
    pub include: Vec<String>,
    /// None of these.
    pub exclude: Vec<String>,
}

/// A folder or file that is kept up to date.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watch {
    /// Its row; never given to another watch.
    pub key: i64,
    /// The machine that it is on, where that is not this one: only servers there can watch it.
    pub elsewhere: Option<String>,
    /// Into which collection the files go.
    pub collection: CollectionKey,
    /// The file or folder.
    pub path: String,
    /// Which of its files.
    pub patterns: Patterns,
    /// Whose rights count.
    pub grant: WatchGrant,
}
