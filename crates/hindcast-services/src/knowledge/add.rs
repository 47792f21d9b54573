//! Taking documents in: each wholly or not at all, and only what changed.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use hindcast_core::{
    identity::Caller,
    knowledge::{
        Collection, Document, EmbedError, NewChunk, NewDocument, NewVector, NewWatch, Ownership, Place,
        SourceFile, TextHash, WatchGrant,
    },
    progress::Progress,
    store::StoreError,
};
use hindcast_extract::{Extracted, Format, chunk};
use sha2::{Digest, Sha256};

use super::{
    KnowledgeService, Stopping, blocking,
    extraction::Extractor,
    invalid,
    names::{check_id, id_of_anything, id_of_name},
    reading::{Opened, Permit, Reader, is_gone},
    walk::{Found, FoundFile, WalkLimits, Walked, Walking, shown, walk},
};
use crate::Failure;

/// Few enough that progress is seen, and what the model likes best.
const EMBED_BATCH: usize = 8;

/// How often a file is looked at again that another process writes down meanwhile.
const TRIES: usize = 5;

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
    /// The id of a new collection; made from its name where absent.
    pub id: Option<String>,
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
    permit: Arc<Permit>,
    notices: Vec<String>,
}

impl Intake {
    /// Says something once.
    fn notice(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

/// A walk on behalf of a caller who waits for it.
struct Waited(Stopping);

impl Walking for Waited {
    fn is_stopped(&self) -> bool {
        self.0.is_set()
    }

    fn enter(&mut self, _folder: &Path) {}
}

/// A document that was read and cut, without vectors yet.
#[derive(Clone)]
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
        let policy = self.policy.reading.clone();
        let reader = Reader::of(caller);
        match request.material {
            Material::Text { name, text, mime_type } => {
                let given = self.prepare_text(&name, text, mime_type.as_deref()).await?;
                let permit = Arc::new(blocking(move || policy.permit(reader)).await?);
                let mut intake = self.intake(caller, &request.collection, request.id, request.ownership, permit).await?;
                let outcome = self.add_text(&mut intake, given, progress).await?;
                self.finished(caller, intake, vec![FileReport { path: name, outcome }]).await
            }
            Material::Paths { paths, watch } => {
                if paths.is_empty() {
                    return Err(invalid("there is nothing to add").hint("give `paths`, or `name` and `text`"));
                }
                let stopping = self.stopping.clone();
                let (permit, walked) = blocking(move || {
                    let permit = policy.permit(reader);
                    let walked = walk(&permit, &absolute(&paths)?, WalkLimits::USUAL, &mut Waited(stopping));
                    Ok::<_, Failure>((Arc::new(permit), walked))
                })
                .await??;
                let Walked { found, accepted, notices } = walked;
                let mut intake = self.intake(caller, &request.collection, request.id, request.ownership, permit).await?;
                intake.notices.extend(notices);
                let seen: HashSet<_> = found.iter().map(|found| found.shown.clone()).collect();
                let mut reports = self.add_found(&mut intake, found, progress).await?;
                reports.extend(self.remove_vanished(&intake, &accepted, &seen).await?);
                if watch {
                    self.watch(caller, &intake, &accepted).await?;
                }
                self.finished(caller, intake, reports).await
            }
        }
    }

    /// Has folders watched, with the caller's rights and for as long as the caller has them.
    async fn watch(&self, caller: &Caller, intake: &Intake, roots: &[PathBuf]) -> Result<(), Failure> {
        let grant = caller.key.as_ref().map_or(WatchGrant::Local, |key| WatchGrant::Key(key.id.clone()));
        for root in roots {
            let watch =
                NewWatch { collection: intake.collection.key, path: shown(root), grant: grant.clone() };
            self.store.watch(watch).await?;
        }
        Ok(())
    }

    async fn intake(
        &self,
        caller: &Caller,
        name: &str,
        id: Option<String>,
        ownership: Ownership,
        permit: Arc<Permit>,
    ) -> Result<Intake, Failure> {
        let found = self.find_collection(caller, name).await?;
        let (collection, is_new) = match (found, id) {
            (Some(collection), Some(id)) if collection.id != id => {
                return Err(invalid(format!("the collection `{name}` has the id `{}`", collection.id))
                    .hint("leave the id out, or rename the collection"));
            }
            (Some(collection), _) => (collection, false),
            (None, id) => {
                let id = self.free_collection_id(caller, id, name).await?;
                let made =
                    self.store.open_collection(ownership, id, name.trim().into(), self.clock.now()).await?;
                self.wrote.notify_one();
                (made, true)
            }
        };
        Ok(Intake { is_new, ..self.intake_into(collection, permit) })
    }

    /// The id that a new collection gets.
    async fn free_collection_id(
        &self,
        caller: &Caller,
        id: Option<String>,
        name: &str,
    ) -> Result<String, Failure> {
        let of_name = id_of_name(name)?;
        let Some(id) = id else { return Ok(of_name) };
        check_id(&id).map_err(|problem| invalid(problem).hint("leave the id out to have it made from the name"))?;
        match self.find_collection(caller, &id).await? {
            Some(taken) => Err(invalid(format!("the collection `{}` has the id `{id}` already", taken.name))
                .hint("choose another id, or add to that collection")),
            None => Ok(id),
        }
    }

    pub(super) fn intake_into(&self, collection: Collection, permit: Arc<Permit>) -> Intake {
        Intake { collection, is_new: false, permit, notices: Vec::new() }
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
            if progress.cancelled() || self.stopping.is_set() {
                let left = total - done;
                intake.notice(format!("stopped: {left} of {total} files were not looked at · hint: add them again"));
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
        let Some(format) = file.format() else {
            return failed(format!(
                "files of this type are not understood · hint: those that end in {} are",
                Format::known_extensions()
            ));
        };
        for _ in 0..TRIES {
            match self.try_file(intake, file, format, progress).await? {
                Ok(outcome) => return Ok(outcome),
                Err(Hindrance::Reason(reason)) => return failed(reason),
                // Another process was faster; what it made of the file is looked at.
                Err(Hindrance::Changed) => {}
            }
        }
        failed("it is changed again and again while it is read · hint: add it again".into())
    }

    async fn try_file(
        &self,
        intake: &mut Intake,
        file: &FoundFile,
        format: Format,
        progress: &dyn Progress,
    ) -> Result<Result<FileOutcome, Hindrance>, Failure> {
        let (limit, permit, real) = (self.policy.max_file_bytes, intake.permit.clone(), file.path.clone());
        let (opened, source) = match blocking(move || look_at(&permit, &real, limit)).await? {
            Ok(looked) => looked,
            Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
        };
        let mut known = self.store.document_at(intake.collection.key, &source.path).await?;
        if let Some(known) = known.as_ref().filter(|known| known.source.as_ref() == Some(&source)) {
            return Ok(Ok(FileOutcome::Unchanged { document: known.id.clone() }));
        }
        let bytes = match blocking(move || opened.read(limit)).await? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
        };
        let hash: TextHash = Sha256::digest(&bytes).into();
        if let Some(known) = known.as_ref().filter(|known| known.hash == hash) {
            self.store.refresh_source(known.version(), source.modified).await?;
            return Ok(Ok(FileOutcome::Unchanged { document: known.id.clone() }));
        }
        if known.is_none() {
            known = self.moved(intake, hash).await?;
        }
        let extractor = self.policy.extractor.clone();
        let prepared = match blocking(move || prepare(&extractor, format, bytes, hash)).await? {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
        };
        let name = prepared.extracted.title.clone().unwrap_or_else(|| title_of_file(file, format));
        let entry = Entry { ids: possible_ids(file, format), name, known, format, source: Some(source) };
        self.keep(intake, entry, prepared, progress).await
    }

    /// The document of a file that said the same and is gone: the file has moved.
    async fn moved(&self, intake: &Intake, hash: TextHash) -> Result<Option<Document>, Failure> {
        let same = self.store.documents_of_content(intake.collection.key, hash).await?;
        if same.is_empty() {
            return Ok(None);
        }
        blocking(move || {
            same.into_iter().find(|document| {
                let path = document.source.as_ref().map(|source| &*source.path);
                // A path that had to be escaped cannot be looked for.
                path.is_some_and(|path| !path.contains('\\') && is_gone(Path::new(path)))
            })
        })
        .await
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
        for _ in 0..TRIES {
            let known = self.store.find_document(intake.collection.key, &id).await?;
            if let Some(known) = known.as_ref().filter(|known| known.hash == prepared.hash) {
                return Ok(FileOutcome::Unchanged { document: known.id.clone() });
            }
            let entry = Entry { ids: vec![id.clone()], name: name.clone(), known, format, source: None };
            if let Ok(outcome) = self.keep(intake, entry, prepared.clone(), progress).await? {
                return Ok(outcome);
            }
        }
        Err(StoreError::Changed(format!("the document `{id}`")).into())
    }

    /// Makes the vectors, and only then touches the truth.
    async fn keep(
        &self,
        intake: &mut Intake,
        entry: Entry,
        mut prepared: Prepared,
        progress: &dyn Progress,
    ) -> Result<Result<FileOutcome, Hindrance>, Failure> {
        self.embed(intake, entry.known.as_ref(), &mut prepared, progress).await?;
        let was_known = entry.known.is_some();
        let kept = self.store.keep_document(NewDocument {
            collection: intake.collection.key,
            replaces: entry.known.as_ref().map(Document::version),
            ids: entry.ids,
            name: entry.name,
            description: prepared.extracted.description.unwrap_or_default(),
            mime_type: entry.format.served_mime_type().into(),
            original: prepared.original,
            text: prepared.extracted.text,
            hash: prepared.hash,
            source: entry.source,
            chunks: prepared.chunks,
            now: self.clock.now(),
        });
        let Document { id: document, chunks, .. } = match kept.await {
            Ok(document) => document,
            Err(StoreError::Changed(_)) => return Ok(Err(Hindrance::Changed)),
            Err(error) => return Err(error.into()),
        };
        self.wrote.notify_one();
        Ok(Ok(if was_known {
            FileOutcome::Updated { document, chunks }
        } else {
            FileOutcome::Added { document, chunks }
        }))
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
            if progress.cancelled() || self.stopping.is_set() {
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

    /// Removes documents whose files are gone from the folders that were read. What was `seen` there is not gone, even if its
    /// path cannot be written as text.
    pub(super) async fn remove_vanished(
        &self,
        intake: &Intake,
        roots: &[PathBuf],
        seen: &HashSet<String>,
    ) -> Result<Vec<FileReport>, Failure> {
        let mut candidates = Vec::new();
        for root in roots {
            let below = self.store.documents_below(intake.collection.key, &shown(root)).await?;
            let source = |document: Document| Some((document.source.clone()?.path, document));
            candidates.extend(below.into_iter().filter_map(source).filter(|(path, _)| !seen.contains(path)));
        }
        let gone = blocking(move || {
            candidates.retain(|(path, _)| is_gone(Path::new(path)));
            candidates
        })
        .await?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let versions = gone.iter().map(|(_, document)| document.version()).collect();
        let removed = self.store.remove_unchanged(versions, self.clock.now()).await?;
        self.wrote.notify_one();
        let report =
            |(path, document): (String, Document)| FileReport { path, outcome: FileOutcome::Removed { document: document.id } };
        Ok(gone.into_iter().filter(|(_, document)| removed.contains(&document.key)).map(report).collect())
    }
}

/// Why a file was not taken in.
enum Hindrance {
    Reason(String),
    /// Another process wrote it down meanwhile.
    Changed,
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
    /// Best first.
    ids: Vec<String>,
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

fn look_at(permit: &Permit, path: &Path, limit: u64) -> Result<(Opened, SourceFile), String> {
    let opened = permit.open(path)?;
    let metadata = &opened.metadata;
    if !metadata.is_file() {
        return Err("it is not a file any more".into());
    }
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
    Ok((opened, SourceFile { path: shown(path), modified, size }))
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

/// Ids that say which file it is, shortest first: its name, with the end and the folders only where others have that name.
fn possible_ids(file: &FoundFile, format: Format) -> Vec<String> {
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let parent = file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let relative = file.relative.to_string_lossy().replace('/', "-");
    let short = if format.is_code() { name.clone() } else { stem };
    let candidates = [short.into_owned(), name.clone().into_owned(), format!("{parent}-{name}"), relative];
    candidates.iter().map(|candidate| id_of_anything(candidate)).collect()
}
