//! The bytes of a file: mapped where that is possible, so that only what is looked at costs memory.

use std::{
    borrow::Cow,
    fs::File,
    ops::{Deref, Range},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hindcast_mapping::MappedFile;

use super::ElfFile;

/// What of a file may stay in memory behind whoever reads all of it.
const WINDOW: usize = 8 << 20;

/// Where the bytes of an ELF file are.
pub(super) enum Source {
    Mapped { file: MappedFile, passed: AtomicUsize },
    File(File),
    Bytes(Vec<u8>),
}

impl Source {
    pub(super) fn new(file: File) -> Self {
        match MappedFile::new(&file) {
            Ok(file) => Self::Mapped { file, passed: AtomicUsize::new(0) },
            Err(_) => Self::File(file),
        }
    }

    /// Bytes that are known to be within the file.
    pub(super) fn read(&self, range: Range<usize>) -> Option<Cow<'_, [u8]>> {
        if let Self::File(file) = self {
            let mut buffer = vec![0; range.len()];
            file.read_exact_at(&mut buffer, range.start as u64).ok()?;
            return Some(Cow::Owned(buffer));
        }
        self.in_memory()?.get(range).map(Cow::Borrowed)
    }

    /// All bytes, where looking at them needs no reading.
    fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::Mapped { file, .. } => Some(file.bytes()),
            Self::Bytes(bytes) => Some(bytes),
            Self::File(_) => None,
        }
    }

    pub(super) fn passed(&self, length: usize) {
        if let Self::Mapped { file, passed } = self
            && passed.fetch_add(length, Ordering::Relaxed) + length > WINDOW
        {
            passed.store(0, Ordering::Relaxed);
            file.give_back(0..usize::MAX);
        }
    }
}

/// The bytes of a section, unpacked.
pub(super) enum Content {
    /// They stand in the file as they are.
    Within(Range<usize>),
    Apart(Vec<u8>),
}

impl Content {
    pub(super) fn bytes<'a>(&'a self, source: &'a Source) -> &'a [u8] {
        match self {
            Self::Within(range) => {
                source.in_memory().and_then(|bytes| bytes.get(range.clone())).unwrap_or_default()
            }
            Self::Apart(bytes) => bytes,
        }
    }

    /// Bytes of the file that are used as they are.
    pub(super) fn of(source: &Source, range: Range<usize>) -> Option<Self> {
        match source.read(range.clone())? {
            Cow::Borrowed(_) => Some(Self::Within(range)),
            Cow::Owned(bytes) => Some(Self::Apart(bytes)),
        }
    }
}

/// A section that keeps its file.
pub(crate) struct SectionData {
    elf: Arc<ElfFile>,
    content: Content,
}

impl SectionData {
    pub(super) fn new(elf: &Arc<ElfFile>, content: Content) -> Self {
        Self { elf: Arc::clone(elf), content }
    }
}

impl Deref for SectionData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.content.bytes(&self.elf.source)
    }
}
