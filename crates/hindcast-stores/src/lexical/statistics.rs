//! How much there is to search, and how rare the words of a question are in it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tantivy::{Term, query::Bm25StatisticsProvider, schema::Field};

/// The terms of a question and how rare they are.
pub(super) struct Terms {
    /// The score that no chunk can exceed.
    pub(super) most: f32,
    /// How many chunks have a term's word in any of its forms.
    pub(super) frequencies: HashMap<Term, u64>,
    /// Each with how much it counts.
    pub(super) words: Vec<(Term, f32)>,
}

/// How much there is of a collection, or of several.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) chunks: u64,
    pub(super) words: u64,
}

impl Extent {
    pub(super) fn add(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.words += other.words;
    }
}

/// The collections that a question is about.
pub(super) struct Visible {
    /// Their numbers; none if it is about everything.
    pub(super) named: Option<Arc<HashSet<i64>>>,
    /// The same; none if these are all that there are.
    pub(super) only: Option<Arc<HashSet<i64>>>,
    pub(super) extent: Extent,
}

/// What is known about the terms of a question. Only what the asker can see counts: nobody can learn from scores what others
/// have, or change them. A word is as rare as all its forms together: the form of one language must not outweigh that of
/// another because less is written in it.
pub(super) struct Statistics<'a> {
    pub(super) extent: Extent,
    pub(super) frequencies: &'a HashMap<Term, u64>,
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.extent.words.max(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.extent.chunks)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.frequencies.get(term).copied().unwrap_or(0))
    }
}
