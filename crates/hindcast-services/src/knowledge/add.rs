//! Taking documents in: each wholly or not at all, and only what changed.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use hindcast_core::{
    identity::Caller,
    knowledge::{
        Collection, Document, EmbedError, NewChunk, NewDocument, NewVector, Ownership, Place, SourceFile,
        TextHash, WatchedPath,
    },
    progress::Progress,
    store::StoreError,
};
use hindcast_extract::{Extracted, Format, chunk};
use sha2::{Digest, Sha256};

use super::{
    KnowledgeService, blocking,
    extraction::Extractor,
    invalid,
    names::{id_of_anything, id_of_name},
    walk::{Found, FoundFile, shown, walk},
};
use crate::Failure;

/// Few enough that progress is seen, and what the model likes best.
const EMBED_BATCH: usize = 8;

/// What is to be taken in.
#[derive(Debug, Clone)]
pub enum Material {
    /// Files and folders.
    Paths {
        /// Which.
        paths: Vec<PathBuf>,
        /// Whether they are kept up to date from now on.
        watch: bool,
    },
    /// A text that is not in a file.
    Text {
        /// What it is called.
        name: String,
        /// What it says.
        text: String,
        /// What it is written in; told by the name, or Markdown, where absent.
        mime_type: Option<String>,
    },
}

/// What is to be taken in, and where.
#[derive(Debug, Clone)]
pub struct AddRequest {
    /// Id or name of the collection, which is made if there is none.
    pub collection: String,
    /// Whose a new collection is.
    pub ownership: Ownership,
    /// What.
    pub material: Material,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOutcome {
    /// It is new.
    Added {
        /// The document's id.
        document: String,
        /// How many chunks it has.
        chunks: u64,
    },
    /// It took the place of what it said before.
    Updated {
        /// The document's id.
        document: String,
        /// How many chunks it has.
        chunks: u64,
    },
    /// It says what it said before.
    Unchanged {
        /// The document's id.
        document: String,
    },
    /// The file is gone, and so is the document.
    Removed {
        /// The document's id.
        document: String,
    },
    /// It was not taken in.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A file and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub path: String,
    /// What became of it.
    pub outcome: FileOutcome,
}

/// What became of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct AddReport {
    /// The collection, as it is now.
    pub collection: Collection,
    /// Every file.
    pub files: Vec<FileReport>,
    /// What else a person should know.
    pub notices: Vec<String>,
}

/// What is known while documents are taken into one collection.
pub(super) struct Intake {
    pub(super) collection: Collection,
    /// Whether it was made for what is taken in now.
    is_new: bool,
    /// The documents by the path they came from.
    known: HashMap<String, Document>,
    taken_ids: HashSet<String>,
    pub(super) notices: Vec<String>,
}

impl Intake {
    /// Says something once.
    fn notice(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

/// A document that was read and cut, without vectors yet.
struct Prepared {
    original: Vec<u8>,
    hash: TextHash,
    extracted: Extracted,
    chunks: Vec<NewChunk>,
}

impl KnowledgeService {
    /// Takes documents in. What fails for one file is told in the report; the rest go on.
    pub async fn add(
        &self,
        caller: &Caller,
        request: AddRequest,
        progress: &dyn Progress,
    ) -> Result<AddReport, Failure> {
        match request.material {
            Material::Text { name, text, mime_type } => {
                let given = self.prepare_text(&name, text, mime_type.as_deref()).await?;
                let mut intake = self.intake(caller, &request.collection, request.ownership).await?;
                let outcome = self.add_text(&mut intake, given, progress).await?;
                self.finished(caller, intake, vec![FileReport { path: name, outcome }]).await
            }
            Material::Paths { paths, watch } => {
                if paths.is_empty() {
                    return Err(invalid("there is nothing to add").hint("give `paths`, or `name` and `text`"));
                }
                let roots = absolute(&paths)?;
                let (policy, walker, walked) = (self.policy.reading.clone(), caller.clone(), roots.clone());
                let found = blocking(move || walk(&policy, &walker, &walked)).await?;
                let mut intake = self.intake(caller, &request.collection, request.ownership).await?;
                let mut reports = self.add_found(&mut intake, found, progress).await?;
                reports.extend(self.remove_vanished(&mut intake, &roots).await?);
                if watch {
                    for root in roots.iter().filter(|root| root.exists()) {
                        let watched = WatchedPath { collection: intake.collection.key, path: shown(root) };
                        self.store.watch_path(watched).await?;
                    }
                }
                self.finished(caller, intake, reports).await
            }
        }
    }

    async fn intake(&self, caller: &Caller, name: &str, ownership: Ownership) -> Result<Intake, Failure> {
        let (collection, is_new) = match self.find_collection(caller, name).await? {
            Some(collection) => (collection, false),
            None => {
                let id = id_of_name(name)?;
                let made =
                    self.store.open_collection(ownership, id, name.trim().into(), self.clock.now()).await?;
                self.wrote.notify_one();
                (made, true)
            }
        };
        Ok(Intake { is_new, ..self.intake_into(collection).await? })
    }

    pub(super) async fn intake_into(&self, collection: Collection) -> Result<Intake, Failure> {
        let documents = self.store.documents(collection.key).await?;
        let taken_ids = documents.iter().map(|document| document.id.clone()).collect();
        let by_path = |document: Document| Some((document.source.clone()?.path, document));
        let known = documents.into_iter().filter_map(by_path).collect();
        Ok(Intake { collection, is_new: false, known, taken_ids, notices: Vec::new() })
    }

    async fn finished(
        &self,
        caller: &Caller,
        mut intake: Intake,
        files: Vec<FileReport>,
    ) -> Result<AddReport, Failure> {
        let is_unused = intake.is_new
            && files.iter().all(|file| matches!(file.outcome, FileOutcome::Failed { .. }))
            // Somebody else may have found it useful meanwhile.
            && self.store.documents(intake.collection.key).await?.is_empty();
        if is_unused {
            self.store.remove_collection(intake.collection.key).await?;
            intake.notice("nothing was taken in, so the collection was not made".into());
        }
        self.wrote.notify_one();
        self.indexing.catch_up().await?;
        let seen = self.collections(caller).await?;
        let collection = seen.into_iter().find(|seen| seen.key == intake.collection.key);
        Ok(AddReport { collection: collection.unwrap_or(intake.collection), files, notices: intake.notices })
    }

    /// Takes files in, one after the other.
    pub(super) async fn add_found(
        &self,
        intake: &mut Intake,
        found: Vec<Found>,
        progress: &dyn Progress,
    ) -> Result<Vec<FileReport>, Failure> {
        let total = found.len() as u64;
        let mut reports = Vec::with_capacity(found.len());
        for (done, found) in (0_u64..).zip(found) {
            if progress.cancelled() {
                intake.notices.push(format!("stopped: {} of {total} files were not looked at", total - done));
                break;
            }
            progress.report(done, Some(total), &found.shown);
            let outcome = match found.file {
                Ok(file) => self.add_file(intake, &file, progress).await?,
                Err(reason) => FileOutcome::Failed { reason },
            };
            reports.push(FileReport { path: found.shown, outcome });
        }
        progress.report(total, Some(total), "done");
        Ok(reports)
    }

    async fn add_file(
        &self,
        intake: &mut Intake,
        file: &FoundFile,
        progress: &dyn Progress,
    ) -> Result<FileOutcome, Failure> {
        let failed = |reason: String| Ok(FileOutcome::Failed { reason });
        let Some(format) = file.path.extension().and_then(|end| Format::of_extension(end.to_str()?)) else {
            return failed(format!(
                "files of this type are not understood · hint: those that end in {} are",
                Format::known_extensions()
            ));
        };
        let path = shown(&file.path);
        let source = match look_at(&file.path, path.clone(), self.policy.max_file_bytes) {
            Ok(source) => source,
            Err(reason) => return failed(reason),
        };
        let known = intake.known.get(&path).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.source.as_ref() == Some(&source)) {
            return Ok(FileOutcome::Unchanged { document: known.id.clone() });
        }
        let (limit, real) = (self.policy.max_file_bytes, file.path.clone());
        let bytes = match blocking(move || read(&real, limit)).await? {
            Ok(bytes) => bytes,
            Err(reason) => return failed(reason),
        };
        let hash: TextHash = Sha256::digest(&bytes).into();
        if let Some(known) = known.as_ref().filter(|known| known.hash == hash) {
            self.store.refresh_source(known.key, source.modified).await?;
            return Ok(FileOutcome::Unchanged { document: known.id.clone() });
        }
        let extractor = self.policy.extractor.clone();
        let prepared = match blocking(move || prepare(&extractor, format, bytes, hash)).await? {
            Ok(prepared) => prepared,
            Err(reason) => return failed(reason),
        };
        let name = prepared.extracted.title.clone().unwrap_or_else(|| title_of_file(file, format));
        let id = match &known {
            Some(known) => known.id.clone(),
            None => free_id(&intake.taken_ids, file, format),
        };
        let entry = Entry { id, name, known, format, source: Some(source) };
        self.keep(intake, entry, prepared, progress).await
    }

    /// Everything that can be wrong with a text is found out before a collection is made for it.
    async fn prepare_text(
        &self,
        name: &str,
        text: String,
        mime_type: Option<&str>,
    ) -> Result<GivenText, Failure> {
        let format = text_format(name, mime_type)?;
        let id = id_of_name(name)?;
        if text.len() as u64 > self.policy.max_file_bytes {
            return Err(invalid(format!("`text` is larger than {} bytes", self.policy.max_file_bytes)));
        }
        let hash: TextHash = Sha256::digest(text.as_bytes()).into();
        let prepared = blocking(move || prepare(&Extractor::Here, format, text.into_bytes(), hash)).await?;
        let prepared = prepared.map_err(|reason| invalid(format!("the text was not added: {reason}")))?;
        let name = prepared.extracted.title.clone().unwrap_or_else(|| name.trim().to_owned());
        Ok(GivenText { id, name, format, prepared })
    }

    async fn add_text(
        &self,
        intake: &mut Intake,
        given: GivenText,
        progress: &dyn Progress,
    ) -> Result<FileOutcome, Failure> {
        let GivenText { id, name, format, prepared } = given;
        let known = self.store.find_document(intake.collection.key, &id).await?;
        if let Some(known) = known.as_ref().filter(|known| known.hash == prepared.hash) {
            return Ok(FileOutcome::Unchanged { document: known.id.clone() });
        }
        self.keep(intake, Entry { id, name, known, format, source: None }, prepared, progress).await
    }

    /// Makes the vectors, and only then touches the truth.
    async fn keep(
        &self,
        intake: &mut Intake,
        entry: Entry,
        mut prepared: Prepared,
        progress: &dyn Progress,
    ) -> Result<FileOutcome, Failure> {
        self.embed(intake, entry.known.as_ref(), &mut prepared, progress).await?;
        let was_known = entry.known.is_some();
        let mut new = NewDocument {
            collection: intake.collection.key,
            replaces: entry.known.as_ref().map(|known| known.key),
            id: entry.id,
            name: entry.name,
            description: prepared.extracted.description.unwrap_or_default(),
            mime_type: entry.format.served_mime_type().into(),
            original: prepared.original,
            text: prepared.extracted.text,
            hash: prepared.hash,
            source: entry.source,
            chunks: prepared.chunks,
            now: self.clock.now(),
        };
        let document = loop {
            match self.store.replace_document(new.clone()).await {
                Ok(document) => break document,
                // Another process was faster with that id.
                Err(StoreError::Exists(_)) => new.id = numbered(&new.id, &intake.taken_ids),
                // Another process has removed it: it comes anew.
                Err(StoreError::Missing(_)) if new.replaces.is_some() => new.replaces = None,
                Err(error) => return Err(error.into()),
            }
            intake.taken_ids.insert(new.id.clone());
        };
        self.wrote.notify_one();
        intake.taken_ids.insert(document.id.clone());
        if let Some(source) = &document.source {
            intake.known.insert(source.path.clone(), document.clone());
        }
        let (document, chunks) = (document.id, document.chunks);
        Ok(if was_known {
            FileOutcome::Updated { document, chunks }
        } else {
            FileOutcome::Added { document, chunks }
        })
    }

    /// Gives every chunk its vector that has none yet. Without a model they stay without, and that is said.
    async fn embed(
        &self,
        intake: &mut Intake,
        known: Option<&Document>,
        prepared: &mut Prepared,
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        let model = self.embedder.model().to_owned();
        let embedded: HashSet<TextHash> = match known {
            Some(known) => self.store.embedded_hashes(known.key, &model).await?.into_iter().collect(),
            None => HashSet::new(),
        };
        let missing: Vec<usize> = (0..prepared.chunks.len())
            .filter(|&index| !embedded.contains(&prepared.chunks[index].hash))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.installing.ensure(&self.embedder, progress).await? {
            intake.notice(lexical_only(&error));
            return Ok(());
        }
        for batch in missing.chunks(EMBED_BATCH) {
            if progress.cancelled() {
                break;
            }
            let texts: Vec<_> = batch
                .iter()
                .map(|&index| embedded_text(&prepared.chunks[index].headings, &prepared.chunks[index].text))
                .collect();
            let embedder = self.embedder.clone();
            let made =
                blocking(move || embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
            match made.await? {
                Ok(vectors) => {
                    for (&index, numbers) in batch.iter().zip(vectors) {
                        prepared.chunks[index].vector = Some(NewVector { model: model.clone(), numbers });
                    }
                }
                Err(error) => {
                    intake.notice(lexical_only(&error));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes documents whose files are gone from the folders that were read.
    pub(super) async fn remove_vanished(
        &self,
        intake: &mut Intake,
        roots: &[PathBuf],
    ) -> Result<Vec<FileReport>, Failure> {
        let is_gone = |path: &str| {
            let path = Path::new(path);
            roots.iter().any(|root| path.starts_with(root)) && std::fs::symlink_metadata(path).is_err()
        };
        let gone: Vec<_> = intake.known.keys().filter(|path| is_gone(path)).cloned().collect();
        let mut reports = Vec::new();
        for path in gone {
            let Some(document) = intake.known.remove(&path) else { continue };
            match self.store.remove_document(document.key, self.clock.now()).await {
                Ok(()) | Err(StoreError::Missing(_)) => {}
                Err(error) => return Err(error.into()),
            }
            self.wrote.notify_one();
            reports.push(FileReport { path, outcome: FileOutcome::Removed { document: document.id } });
        }
        Ok(reports)
    }
}

/// A text that can be taken in.
struct GivenText {
    id: String,
    name: String,
    format: Format,
    prepared: Prepared,
}

/// Where a document goes.
struct Entry {
    id: String,
    name: String,
    known: Option<Document>,
    format: Format,
    source: Option<SourceFile>,
}

/// What is said when chunks have no vectors.
pub(super) fn lexical_only(error: &EmbedError) -> String {
    format!("found by words only, not by meaning: {error}")
}

/// What the model reads of a chunk.
pub(super) fn embedded_text(headings: &str, text: &str) -> String {
    if headings.is_empty() { text.to_owned() } else { format!("{headings}\n{text}") }
}

fn absolute(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    // A path that is not there is told in its file's report.
    let absolute = |path: &PathBuf| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    paths
        .iter()
        .map(|path| absolute(path).map_err(|error| invalid(format!("`{}`: {error}", path.display()))))
        .collect()
}

fn text_format(name: &str, mime_type: Option<&str>) -> Result<Format, Failure> {
    let format = match mime_type {
        Some(mime_type) => Format::of_mime_type(mime_type).ok_or_else(|| {
            let shown: String = mime_type.chars().take(80).collect();
            invalid(format!("texts of the type `{shown}` are not understood"))
                .hint(format!("use one of {}", Format::known_mime_types()))
        })?,
        None => {
            let extension = Path::new(name).extension().and_then(|end| end.to_str());
            extension.and_then(Format::of_extension).unwrap_or(Format::Markdown)
        }
    };
    if matches!(format, Format::Pdf | Format::Docx) {
        return Err(invalid("PDF and DOCX are not text").hint("give the file in `paths`"));
    }
    Ok(format)
}

fn look_at(path: &Path, shown: String, limit: u64) -> Result<SourceFile, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let size = metadata.len();
    if size == 0 {
        return Err("it is empty".into());
    }
    if size > limit {
        return Err(format!(
            "it has {size} bytes, more than the {limit} that are allowed · hint: raise `knowledge.max_file_bytes`"
        ));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|age| i64::try_from(age.as_nanos()).ok()).unwrap_or_default();
    Ok(SourceFile { path: shown, modified, size })
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // It may have grown since it was looked at.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(format!("it has more than the {limit} bytes that are allowed"));
    }
    Ok(bytes)
}

fn prepare(
    extractor: &Extractor,
    format: Format,
    original: Vec<u8>,
    hash: TextHash,
) -> Result<Prepared, String> {
    let extracted = extractor.extract(format, &original)?;
    let text = match &extracted.text {
        Some(text) => text,
        None => std::str::from_utf8(&original).map_err(|error| error.to_string())?,
    };
    let chunks = chunk(format, text, &extracted)
        .into_iter()
        .map(|chunk| {
            let headings = chunk.headings.join(" › ");
            let text = text[chunk.range.clone()].to_owned();
            let hash = Sha256::new().chain_update(&headings).chain_update([0]).chain_update(&text).finalize();
            let bytes = (chunk.range.start as u64, chunk.range.end as u64);
            NewChunk {
                hash: hash.into(),
                headings,
                text,
                place: Place { bytes, lines: chunk.lines, page: chunk.page },
                is_code: format.is_code(),
                vector: None,
            }
        })
        .collect();
    Ok(Prepared { original, hash, extracted, chunks })
}

fn title_of_file(file: &FoundFile, format: Format) -> String {
    let name = if format.is_code() { file.path.file_name() } else { file.path.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// The shortest id that says which file it is: its name, with the end and the folders only where others have that name.
fn free_id(taken: &HashSet<String>, file: &FoundFile, format: Format) -> String {
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let parent = file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let relative = file.relative.to_string_lossy().replace('/', "-");
    let short = if format.is_code() { name.clone() } else { stem };
    let candidates = [short.into_owned(), name.clone().into_owned(), format!("{parent}-{name}"), relative];
    let candidates: Vec<_> = candidates.iter().map(|candidate| id_of_anything(candidate)).collect();
    candidates
        .iter()
        .find(|candidate| !taken.contains(*candidate))
        .cloned()
        .unwrap_or_else(|| numbered(&candidates[0], taken))
}

fn numbered(id: &str, taken: &HashSet<String>) -> String {
    (2..)
        .map(|number| format!("{id}-{number}"))
        .find(|id| !taken.contains(id))
        .unwrap_or_else(|| id.to_owned())
}
