//! Words by tantivy. One index for all collections, derived from the truth.

mod files;
mod languages;
mod opened;
mod sealed;
mod statistics;
mod words;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError},
};

use hindcast_core::knowledge::{
    ChunkId, ChunkSet, CollectionKey, Generation, IndexError, Language, LexicalEntry, LexicalRead,
    LexicalWrite, ScoredChunk,
};
use languages::{Question, Stems};
use opened::{Committed, Opened, clear};
use statistics::{Extent, Statistics, Terms, Visible};
use tantivy::{
    IndexWriter, Searcher, TantivyDocument, TantivyError, Term,
    collector::{Count, FilterCollector, TopDocs},
    directory::error::LockError,
    query::{BooleanQuery, BoostQuery, ConstScoreQuery, Occur, Query, TermQuery, TermSetQuery},
    schema::{FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions},
    tokenizer::PreTokenizedString,
};

/// Name of the analysis in the index's schema. Another way to cut words needs another name, which makes old indexes
/// differ and be made again.
const WORDS: &str = "words-3";
/// Memory for documents that are not written yet.
const WRITER_MEMORY: usize = 48 << 20;
/// As in tantivy's BM25: no chunk scores more for a word than its rarity times this.
const BM25_MOST: f32 = 1.0 + 1.2;

/// The lexical index in a folder. Where its files turn out to be damaged, it is begun anew, with no generation: whoever keeps it
/// at the truth adds everything again.
pub struct LexicalIndex {
    folder: PathBuf,
    opened: RwLock<Arc<Opened>>,
    fields: Fields,
    /// There only between the first change and the commit: an idle index has no threads and no lock on its files.
    writer: Mutex<Option<IndexWriter>>,
    changed: Mutex<Changed>,
    /// Of what was added since the last commit.
    stems: Mutex<Stems>,
}

#[derive(Clone, Copy)]
struct Fields {
    chunk: Field,
    collection: Field,
    language: Field,
    words: Field,
}

/// What was done since the last commit.
#[derive(Default)]
struct Changed {
    added: BTreeMap<CollectionKey, Extent>,
    /// Something was removed: a collection may have nothing left.
    has_removed: bool,
    /// The files were thrown away since the run of changes began.
    is_lost: bool,
}

impl LexicalIndex {
    /// Opens the index, making it the first time. One that cannot be read is begun anew, with no generation: the truth is
    /// elsewhere.
    pub fn open(folder: &Path) -> Result<Self, IndexError> {
        let made = fs::create_dir_all(folder).map_err(|error| IndexError::Unavailable(error.to_string()));
        made.and_then(|()| Self::open_as_found(folder)).or_else(|error| {
            tracing::warn!("{error}; it is made again");
            clear(folder).map_err(|error| IndexError::Unavailable(error.to_string()))?;
            Self::open_as_found(folder)
        })
    }

    fn open_as_found(folder: &Path) -> Result<Self, IndexError> {
        caught(|| {
            let index = Self {
                folder: folder.to_owned(),
                opened: RwLock::new(Arc::new(Opened::open(folder)?)),
                fields: schema().1,
                writer: Mutex::default(),
                changed: Mutex::default(),
                stems: Mutex::default(),
            };
            index.note_all(&index.opened())?;
            Ok(index)
        })
    }

    fn opened(&self) -> Arc<Opened> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads from the index. Where that fails because a file is damaged, the index is begun anew, and the failure is `Corrupt`.
    fn read<T>(&self, work: impl FnOnce(&Opened) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let opened = self.opened();
        if let Some(damage) = opened.files.damage() {
            return Err(damage);
        }
        match caught(|| work(&opened)) {
            Err(IndexError::Corrupt(reason)) => {
                let mut writer = self.writer();
                // Somebody else may have found the same.
                if !Arc::ptr_eq(&opened, &self.opened()) {
                    return Err(IndexError::Corrupt(reason));
                }
                Err(self.examine(&mut writer, reason))
            }
            done => done,
        }
    }

    /// Gives the failure for what went wrong: `Corrupt` where a file is damaged, after the index was begun anew. The same failure
    /// with sound files would come again, so they are kept.
    fn examine(&self, writer: &mut Option<IndexWriter>, reason: String) -> IndexError {
        match self.opened().files.verify() {
            Err(damage) => self.begin_anew(writer, damage),
            Ok(()) => IndexError::Unavailable(reason),
        }
    }

    /// Begins the index anew where somebody has damaged its files since they were written or verified, and fails then.
    fn look(&self, writer: &mut Option<IndexWriter>) -> Result<(), IndexError> {
        self.opened().files.look().map_err(|damage| self.begin_anew(writer, damage))
    }

    /// Throws the files away; gives the failure for those who wanted to use them.
    fn begin_anew(&self, writer: &mut Option<IndexWriter>, damage: IndexError) -> IndexError {
        let lost = self.opened();
        // Whoever cannot begin it tries again at every search.
        if lost.files.damage().is_none() {
            tracing::warn!("{damage}; it is made again");
        }
        *writer = None;
        self.take_changed();
        self.changed().is_lost = true;
        // Nobody reads on, also if it cannot be begun.
        lost.files.note_damage(&damage);
        lost.note().generation = None;
        let begun = clear(&self.folder)
            .map_err(|error| IndexError::Unavailable(error.to_string()))
            .and_then(|()| Opened::open(&self.folder));
        match begun {
            Ok(begun) => {
                *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(begun);
                damage
            }
            Err(error) => error,
        }
    }

    /// What was done since the last commit, which counts as done with.
    fn take_changed(&self) -> Changed {
        let mut changed = self.changed();
        let none = Changed { is_lost: changed.is_lost, ..Changed::default() };
        std::mem::replace(&mut *changed, none)
    }

    /// Notes what a commit left. Looks at all chunks only where some were removed: a commit costs what it adds.
    fn note_commit(&self, opened: &Opened, generation: Generation) -> Result<(), IndexError> {
        let changed = self.take_changed();
        if changed.has_removed {
            return self.note_all(opened);
        }
        opened.reader.reload().map_err(unreadable)?;
        let languages = self.languages(opened)?;
        let mut committed = opened.note();
        committed.generation = Some(generation);
        for (collection, extent) in changed.added {
            committed.collections.entry(collection).or_default().add(extent);
        }
        committed.languages = languages;
        Ok(())
    }

    /// What the committed chunks are written in.
    fn languages(&self, opened: &Opened) -> Result<Vec<Language>, IndexError> {
        let searcher = opened.reader.searcher();
        let mut languages = Vec::new();
        for &language in Language::ALL {
            let term = Term::from_field_text(self.fields.language, language.code());
            if searcher.doc_freq(&term).map_err(unreadable)? > 0 {
                languages.push(language);
            }
        }
        Ok(languages)
    }

    /// A question, taken apart for what there is to find.
    fn question(&self, question: &str) -> Question {
        Question::of(question, &self.opened().committed().languages)
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the last commit left.
    fn note_all(&self, opened: &Opened) -> Result<(), IndexError> {
        opened.reader.reload().map_err(unreadable)?;
        let payload = opened.index.load_metas().map_err(unreadable)?.payload;
        let generation = payload.and_then(|payload| payload.parse().ok()).map(Generation);
        let mut collections: BTreeMap<_, Extent> = BTreeMap::new();
        self.each_chunk(opened, |collection, _, words| {
            collections.entry(collection).or_default().add(Extent { chunks: 1, words });
        })?;
        let languages = self.languages(opened)?;
        *opened.note() = Committed { generation, collections, languages };
        Ok(())
    }

    /// Visits every committed chunk, in no order, with how many words it has, about.
    fn each_chunk(
        &self,
        opened: &Opened,
        mut visit: impl FnMut(CollectionKey, ChunkId, u64),
    ) -> Result<(), IndexError> {
        for segment in opened.reader.searcher().segment_readers() {
            let lengths = segment.get_fieldnorms_reader(self.fields.words).map_err(unreadable)?;
            let columns = segment.fast_fields();
            let collections = columns.i64("collection").map_err(unreadable)?;
            let chunks = columns.i64("chunk").map_err(unreadable)?;
            for document in segment.doc_ids_alive() {
                if let (Some(collection), Some(chunk)) = (collections.first(document), chunks.first(document))
                {
                    visit(CollectionKey(collection), ChunkId(chunk), lengths.fieldnorm(document).into());
                }
            }
        }
        Ok(())
    }

    /// Does something with the writer, which is made if there is none. One that fails is let go with all that was not committed: the
    /// next starts again from the last commit.
    fn write<T>(
        &self,
        work: impl FnOnce(&mut IndexWriter) -> Result<T, TantivyError>,
    ) -> Result<T, IndexError> {
        let mut kept = self.writer();
        if self.changed().is_lost {
            *kept = None;
            return Err(IndexError::Corrupt("the word index lost its files while it was changed".into()));
        }
        let writer = match &mut *kept {
            Some(writer) => writer,
            none => {
                // Merging reads what was there before.
                self.look(none)?;
                let writer = self.opened().index.writer_with_num_threads(1, WRITER_MEMORY);
                match writer {
                    Ok(writer) => none.insert(writer),
                    Err(error) => return Err(self.failed_to_write(none, error)),
                }
            }
        };
        let done = catch_unwind(AssertUnwindSafe(|| work(writer)));
        let failure = match done {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => self.failed_to_write(&mut kept, error),
            Err(panic) => self.examine(&mut kept, panicked(&*panic)),
        };
        *kept = None;
        self.take_changed();
        Err(failure)
    }

    /// The failure for what the writer says, which may be damage of the files.
    fn failed_to_write(&self, writer: &mut Option<IndexWriter>, error: TantivyError) -> IndexError {
        match error {
            TantivyError::LockFailure(..) => unavailable(error),
            error => self.examine(writer, error.to_string()),
        }
    }

    fn stems(&self) -> MutexGuard<'_, Stems> {
        self.stems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<IndexWriter>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terms of a question about some collections.
    fn terms(&self, searcher: &Searcher, question: &str, visible: &Visible) -> Result<Terms, IndexError> {
        let chunks = visible.extent.chunks;
        let mut terms = Terms { most: 0.0, frequencies: HashMap::new(), words: Vec::new() };
        for forms in self.question(question).words {
            let mut having = 0;
            let mut found = Vec::new();
            for form in &forms {
                let term = Term::from_field_text(self.fields.words, form);
                let frequency = frequency(searcher, &term, visible).map_err(unreadable)?;
                having += frequency;
                if frequency > 0 && !terms.frequencies.contains_key(&term) {
                    found.push(term);
                }
            }
            let having = having.min(chunks);
            let rarity = (1.0 + ((chunks - having) as f32 + 0.5) / (having as f32 + 0.5)).ln();
            let weight = words::weight(&forms[0]);
            terms.most += weight * BM25_MOST * rarity;
            terms.frequencies.extend(found.iter().map(|term| (term.clone(), having)));
            terms.words.extend(found.into_iter().map(|term| (term, weight)));
        }
        Ok(terms)
    }

    /// These collections, or all.
    fn visible(opened: &Opened, within: Option<&[CollectionKey]>) -> Visible {
        let committed = opened.committed();
        let mut extent = Extent::default();
        let Some(within) = within else {
            committed.collections.values().for_each(|one| extent.add(*one));
            return Visible { named: None, only: None, extent };
        };
        let named: Arc<HashSet<_>> = Arc::new(within.iter().map(|key| key.0).collect());
        let known = named.iter().filter_map(|key| committed.collections.get(&CollectionKey(*key)));
        let mut count = 0;
        for one in known {
            extent.add(*one);
            count += 1;
        }
        let is_all = count == committed.collections.len();
        Visible { only: (!is_all).then(|| named.clone()), named: Some(named), extent }
    }

    fn search_in(
        &self,
        opened: &Opened,
        query: &str,
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        let searcher = opened.reader.searcher();
        let visible = Self::visible(opened, within);
        let mut terms = self.terms(&searcher, query, &visible)?;
        if terms.words.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let words = std::mem::take(&mut terms.words).into_iter().map(|(term, weight)| {
            let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
            let query: Box<dyn Query> = Box::new(BoostQuery::new(Box::new(query), weight));
            (Occur::Should, query)
        });
        let words: Box<dyn Query> = Box::new(BooleanQuery::new(words.collect()));
        let query = match filter(self.fields, &visible) {
            Some(filter) => Box::new(BooleanQuery::new(vec![(Occur::Must, filter), (Occur::Must, words)])),
            None => words,
        };
        let best = TopDocs::with_limit(limit).order_by_score();
        let statistics = Statistics { extent: visible.extent, frequencies: &terms.frequencies };
        let hits = match only.cloned() {
            // The set is asked of every chunk that has a word, before the best are chosen.
            Some(only) => {
                let fits = move |chunk: i64| only.contains(ChunkId(chunk));
                let fitting = FilterCollector::new("chunk".to_owned(), fits, best);
                searcher.search_with_statistics_provider(&query, &fitting, &statistics)
            }
            None => searcher.search_with_statistics_provider(&query, &best, &statistics),
        };
        let hits = hits.map_err(unreadable)?;
        let mut scored = Vec::with_capacity(hits.len());
        for (score, address) in hits {
            let columns = searcher.segment_reader(address.segment_ord).fast_fields();
            let number = |column: &str| {
                let found = columns.i64(column).map_err(unreadable)?.first(address.doc_id);
                found.ok_or_else(|| IndexError::Corrupt(format!("a chunk without its {column}")))
            };
            let (chunk, collection) = (number("chunk")?, number("collection")?);
            // A commit may have brought a collection that was not known when this search began.
            if visible.named.as_ref().is_some_and(|named| !named.contains(&collection)) {
                continue;
            }
            scored.push(ScoredChunk { chunk: ChunkId(chunk), score: (score / terms.most).clamp(0.0, 1.0) });
        }
        Ok(scored)
    }
}

/// In how many of the chunks that can be seen a term is.
fn frequency(searcher: &Searcher, term: &Term, visible: &Visible) -> tantivy::Result<u64> {
    let Some(only) = visible.only.clone() else { return searcher.doc_freq(term) };
    let having = TermQuery::new(term.clone(), IndexRecordOption::Basic);
    let seen = FilterCollector::new("collection".to_owned(), move |key: i64| only.contains(&key), Count);
    Ok(searcher.search(&having, &seen)? as u64)
}

/// The filter for some collections.
fn filter(fields: Fields, visible: &Visible) -> Option<Box<dyn Query>> {
    let terms = visible.only.as_ref()?.iter().map(|key| Term::from_field_i64(fields.collection, *key));
    Some(Box::new(ConstScoreQuery::new(Box::new(TermSetQuery::new(terms)), 0.0)))
}

impl LexicalRead for LexicalIndex {
    fn search(
        &self,
        query: &str,
        within: Option<&[CollectionKey]>,
        only: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<ScoredChunk>, IndexError> {
        self.read(|opened| self.search_in(opened, query, within, only, limit))
    }

    fn is_telling(&self, query: &str) -> bool {
        self.question(query).is_telling
    }

    fn language_of(&self, query: &str) -> Language {
        self.question(query).language
    }

    fn len(&self) -> usize {
        self.opened().reader.searcher().num_docs() as usize
    }
}

impl LexicalWrite for LexicalIndex {
    fn begin(&self) {
        // Together with the writer, so that no run begins while files are thrown away.
        let _writer = self.writer();
        self.changed().is_lost = false;
    }

    fn add(&self, entries: &[LexicalEntry<'_>]) -> Result<(), IndexError> {
        let Fields { chunk, collection, language, words } = self.fields;
        let mut stems = self.stems();
        let mut added: Vec<(CollectionKey, Extent)> = Vec::with_capacity(entries.len());
        self.write(|writer| {
            for entry in entries {
                let mut extent = Extent { chunks: 1, words: 0 };
                writer.delete_term(Term::from_field_i64(chunk, entry.chunk.0));
                let mut document = TantivyDocument::default();
                document.add_i64(chunk, entry.chunk.0);
                document.add_i64(collection, entry.collection.0);
                let written_in = entry.language.unwrap_or(Language::English);
                document.add_text(language, written_in.code());
                for text in [entry.headings, entry.text] {
                    let tokens = stems.of_text(text, written_in);
                    extent.words += tokens.len() as u64;
                    // What was cut is not kept, so it need not be said again.
                    document
                        .add_pre_tokenized_text(words, PreTokenizedString { text: String::new(), tokens });
                }
                writer.add_document(document)?;
                added.push((entry.collection, extent));
            }
            Ok(())
        })?;
        let mut changed = self.changed();
        for (collection, extent) in added {
            changed.added.entry(collection).or_default().add(extent);
        }
        Ok(())
    }

    fn remove(&self, chunks: &[ChunkId]) -> Result<(), IndexError> {
        self.changed().has_removed |= !chunks.is_empty();
        self.write(|writer| {
            for chunk in chunks {
                writer.delete_term(Term::from_field_i64(self.fields.chunk, chunk.0));
            }
            Ok(())
        })
    }

    fn remove_collection(&self, collection: CollectionKey) -> Result<(), IndexError> {
        self.changed().has_removed = true;
        self.write(|writer| {
            writer.delete_term(Term::from_field_i64(self.fields.collection, collection.0));
            Ok(())
        })
    }

    fn collections(&self) -> Result<Vec<CollectionKey>, IndexError> {
        Ok(self.opened().committed().collections.keys().copied().collect())
    }

    fn contents(&self, wanted: CollectionKey) -> Result<Vec<ChunkId>, IndexError> {
        let mut contents = Vec::new();
        // What is compared with the truth is what is there.
        self.opened().files.finish_verification();
        self.look(&mut self.writer())?;
        self.read(|opened| {
            self.each_chunk(opened, |collection, chunk, _| {
                if collection == wanted {
                    contents.push(chunk);
                }
            })
        })?;
        contents.sort_unstable();
        Ok(contents)
    }

    fn generation(&self) -> Option<Generation> {
        let writer = match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            // While it is written, its files come and go.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut writer) = writer.filter(|writer| writer.is_none()) {
            self.look(&mut writer).ok()?;
        }
        self.opened().committed().generation
    }

    fn commit(&self, generation: Generation) -> Result<(), IndexError> {
        let opened = self.write(|writer| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&generation.0.to_string());
            prepared.commit()?;
            // A search may find damage as soon as others may write. What it begins anew does not have what was committed here.
            Ok(self.opened())
        })?;
        self.read(|_| self.note_commit(&opened, generation))?;
        *self.stems() = Stems::default();
        // Merging what became many small files belongs to the commit; afterwards nothing runs and nothing is locked.
        let mut kept = self.writer();
        let Some(writer) = kept.take() else { return Ok(()) };
        if let Err(error) = writer.wait_merging_threads() {
            return Err(self.failed_to_write(&mut kept, error));
        }
        opened.reader.reload().map_err(unreadable)?;
        opened.files.note_sound()?;
        match opened.files.damage() {
            Some(damage) => Err(damage),
            None => Ok(()),
        }
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = TextFieldIndexing::default()
        .set_tokenizer(WORDS)
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(true);
    let fields = Fields {
        chunk: schema.add_i64_field("chunk", INDEXED | FAST),
        collection: schema.add_i64_field("collection", INDEXED | FAST),
        language: schema.add_text_field("language", STRING),
        words: schema.add_text_field("words", TextOptions::default().set_indexing_options(words)),
    };
    (schema.build(), fields)
}

/// Does something with tantivy, which may panic where a file is not what it should be.
fn caught<T>(work: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(IndexError::Corrupt(panicked(&*panic))))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("tantivy panicked: {}", text.unwrap_or("for an unknown reason"))
}

fn unreadable(error: TantivyError) -> IndexError {
    IndexError::Corrupt(error.to_string())
}

fn unavailable(error: TantivyError) -> IndexError {
    IndexError::Unavailable(match error {
        TantivyError::LockFailure(LockError::LockBusy, _) => "another process writes to it".into(),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests;
