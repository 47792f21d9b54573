//! Taking files into one collection: what is read, made of it, and kept.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::UNIX_EPOCH};

use hindcast_core::{
    identity::PrincipalId,
    knowledge::{Collection, CollectionSettings, Document, NewDocument, SourceFile, Tags, TextHash},
    progress::Progress,
    store::StoreError,
};
use hindcast_extract::{ExtractError, Format, READER};
use sha2::{Digest, Sha256};

use super::{
    FileOutcome, FileReport, KnowledgeService,
    adding::Addition,
    blocking,
    embedding::LARGE,
    names::id_of_anything,
    preparing::{Original, Prepared},
    reading::{Opened, Permit, is_gone},
    reports::Reports,
    sources,
    walk::{Found, FoundFile, is_escaped, shown},
};
use crate::{Failure, FailureKind};

/// More versions of the readers than there will be.
const READERS: u32 = 10_000;

/// How often a file is looked at again that another process writes down meanwhile.
pub(super) const TRIES: usize = 5;

/// What is known while documents are taken into one collection.
pub(super) struct Intake {
    pub(super) collection: Collection,
    /// Whether it was made for what is taken in now.
    pub(super) is_new: bool,
    pub(super) permit: Arc<Permit>,
    /// For whom documents are read.
    pub(super) reads_for: PrincipalId,
    /// What whoever adds them says they are about.
    pub(super) tags: Vec<String>,
    /// Passages of the current file that are embedded.
    pub(super) parts: u64,
    /// How many files of a kind were passed over, and why.
    pub(super) skipped: BTreeMap<(String, String), u64>,
    pub(super) notices: Vec<String>,
    /// Whether somebody stopped it before everything was looked at.
    pub(super) is_stopped: bool,
    /// Whether something of it is watched from now on.
    pub(super) is_watched: bool,
    /// As long as it lasts, searches do not wait for the indexes.
    pub(super) _addition: Addition,
}

impl Intake {
    /// Counts a file that is not taken in for what it is.
    fn skip(&mut self, file: &FoundFile, reason: &str) {
        let end = file.path.extension().map(|end| format!(".{}", end.to_string_lossy().to_lowercase()));
        let kind = end.filter(|end| end.len() <= 20).unwrap_or_else(|| "without a known ending".into());
        self.skip_kind(&kind, reason);
    }

    /// Counts something of a kind that is not taken in.
    pub(super) fn skip_kind(&mut self, kind: &str, reason: &str) {
        let kind = kind.chars().take(80).collect();
        *self.skipped.entry((kind, reason.to_owned())).or_default() += 1;
    }

    /// Says something once.
    pub(super) fn notice(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

impl KnowledgeService {
    pub(super) fn intake_into(&self, collection: Collection, permit: Arc<Permit>) -> Intake {
        Intake {
            reads_for: collection.maker.clone(),
            collection,
            is_new: false,
            permit,
            tags: Vec::new(),
            parts: 0,
            skipped: BTreeMap::new(),
            notices: Vec::new(),
            is_stopped: false,
            is_watched: false,
            _addition: self.additions.begin(),
        }
    }

    /// Takes files in, one after the other.
    pub(super) async fn add_found(
        &self,
        intake: &mut Intake,
        found: Vec<Found>,
        progress: &dyn Progress,
    ) -> Result<Reports, Failure> {
        let total = found.len() as u64;
        let mut reports = Reports::default();
        for (done, found) in (0_u64..).zip(found) {
            if progress.cancelled() || self.stopping.is_set() {
                let left = total - done;
                intake.is_stopped = true;
                intake.notice(format!(
                    "stopped: {left} of {total} files were not looked at · hint: add them again"
                ));
                progress.report(done, Some(total), "stopped");
                return Ok(reports);
            }
            progress.report(done, Some(total), &found.shown);
            intake.parts = 0;
            let outcome = match found.file {
                Ok(file) if file.path.file_name().is_some_and(|name| name.to_str().is_none()) => {
                    FileOutcome::Failed {
                        reason: "its name is not UTF-8 · hint: give it another name".into(),
                    }
                }
                Ok(file) if !file.is_given && file.format().is_none() => {
                    intake.skip(&file, "files of this type are not understood");
                    continue;
                }
                Ok(file) => match self.add_file(intake, &file, progress).await.map_err(|failure| {
                    // What was taken in before stays.
                    let is_full = failure.kind == FailureKind::QuotaExceeded && total > 1;
                    let after = format!("; {done} of {total} files had been looked at before");
                    if is_full {
                        Failure { details: failure.details.clone() + &after, ..failure }
                    } else {
                        failure
                    }
                })? {
                    FileOutcome::Failed { reason } if !file.is_given && is_of_its_kind(&reason) => {
                        intake.skip(&file, &reason);
                        continue;
                    }
                    outcome => outcome,
                },
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
        let (opened, mut source) = match blocking(move || look_at(&permit, &real, limit)).await? {
            Ok(looked) => looked,
            Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
        };
        if file.reads_docstrings {
            source.path = sources::docstrings_path(&source.path);
        }
        let mut known = self.store.document_at(intake.collection.key, &source.path).await?;
        if source.size == 0 {
            return self.emptied(known, ExtractError::Empty.to_string()).await;
        }
        let reader = reader_of(&intake.collection.settings);
        let module = file
            .reads_docstrings
            .then(|| named_with(sources::module_name(&file.path), file.package.as_deref()));
        // A package may have been replaced by another version of it that left this module as it was.
        let is_read_so = |known: &&Document| {
            known.reader == reader && module.as_ref().is_none_or(|module| known.name == *module)
        };
        if let Some(known) =
            known.as_ref().filter(is_read_so).filter(|known| known.source.as_ref() == Some(&source))
        {
            self.tag(known, intake).await?;
            if known.chunks > LARGE as u64 {
                // A process that died may have left it half embedded.
                self.embed_kept(intake, known, progress).await?;
            }
            return Ok(Ok(FileOutcome::Unchanged { document: known.id.clone() }));
        }
        let bytes = match blocking(move || opened.read(limit)).await? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
        };
        let hash: TextHash = Sha256::digest(&bytes).into();
        if let Some(known) = known.as_ref().filter(is_read_so).filter(|known| known.hash == hash) {
            self.tag(known, intake).await?;
            self.store.refresh_source(known.version(), source.modified).await?;
            return Ok(Ok(FileOutcome::Unchanged { document: known.id.clone() }));
        }
        if known.is_none() {
            known = self.moved(intake, hash).await?;
        }
        let format = format.of_content(&bytes);
        let (owner, settings) = (&intake.reads_for, &intake.collection.settings);
        let prepared =
            match self.prepare(owner, Original { format, bytes, hash, charset: None }, settings).await? {
                Ok(mut prepared) => {
                    prepared.extracted.tags.extend(file.package.clone());
                    prepared
                }
                Err(reason) if says_nothing(&reason) => return self.emptied(known, reason).await,
                Err(reason) => return Ok(Err(Hindrance::Reason(reason))),
            };
        let name = match (module, &prepared.extracted.title) {
            (Some(module), _) => module,
            (None, Some(title)) if format == Format::Man => {
                named_with(title.clone(), prepared.extracted.tags.first().map(String::as_str))
            }
            (None, Some(title)) => title.clone(),
            (None, None) => title_of_file(file, format),
        };
        let entry = Entry { ids: possible_ids(file, format), name, known, format, source: Some(source) };
        self.keep(intake, entry, prepared, progress).await
    }

    /// A file that says nothing has no document: what it said before is not found any more.
    async fn emptied(
        &self,
        known: Option<Document>,
        reason: String,
    ) -> Result<Result<FileOutcome, Hindrance>, Failure> {
        let Some(known) = known else { return Ok(Err(Hindrance::Reason(reason))) };
        let removed = self.store.remove_unchanged(vec![known.version()], self.clock.now()).await?;
        if removed.is_empty() {
            return Ok(Err(Hindrance::Changed));
        }
        self.wrote.notify_one();
        Ok(Ok(FileOutcome::Removed { document: known.id }))
    }

    pub(super) async fn tag(&self, known: &Document, intake: &Intake) -> Result<(), Failure> {
        if !intake.tags.is_empty() {
            self.store.add_tags(known.key, intake.tags.clone()).await?;
        }
        Ok(())
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
                path.is_some_and(|path| !is_escaped(path) && sources::file_of(path).is_some_and(is_gone))
            })
        })
        .await
    }

    /// Makes the vectors, and only then touches the truth.
    pub(super) async fn keep(
        &self,
        intake: &mut Intake,
        entry: Entry,
        mut prepared: Prepared,
        progress: &dyn Progress,
    ) -> Result<Result<FileOutcome, Hindrance>, Failure> {
        self.take_room(&intake.collection, &intake.reads_for, entry.known.as_ref(), &prepared).await?;
        let is_large = self.embed(intake, entry.known.as_ref(), &mut prepared, progress).await?;
        let was_known = entry.known.is_some();
        let kept = self.store.keep_document(NewDocument {
            collection: intake.collection.key,
            replaces: entry.known.as_ref().map(Document::version),
            ids: entry.ids,
            name: entry.name,
            description: prepared.extracted.description.unwrap_or_default(),
            mime_type: entry.format.served_mime_type().into(),
            source_type: entry.format.mime_type().into(),
            reader: reader_of(&intake.collection.settings),
            language: prepared.language,
            dated: prepared.extracted.dated,
            tags: Tags { own: prepared.extracted.tags, given: intake.tags.clone() },
            original: prepared.original,
            text: prepared.extracted.text,
            hash: prepared.hash,
            source: entry.source,
            chunks: prepared.chunks,
            now: self.clock.now(),
        });
        let kept = match kept.await {
            Ok(document) => document,
            Err(StoreError::Changed(_)) => return Ok(Err(Hindrance::Changed)),
            Err(error) => return Err(error.into()),
        };
        self.wrote.notify_one();
        if is_large {
            self.embed_kept(intake, &kept, progress).await?;
        }
        let Document { id: document, chunks, .. } = kept;
        Ok(Ok(if was_known {
            FileOutcome::Updated { document, chunks }
        } else {
            FileOutcome::Added { document, chunks }
        }))
    }
}

/// Which version of the readers, and which size of passages, makes the text: what was read otherwise is read again when it is
/// added.
pub(super) fn reader_of(settings: &CollectionSettings) -> u32 {
    READER + settings.passage_bytes.map_or(0, |bytes| bytes * READERS)
}

/// Whether a file is not taken in for what many others are, too: that is told once.
fn is_of_its_kind(reason: &str) -> bool {
    // Packages are full of empty `__init__.py`.
    says_nothing(reason) || reason == ExtractError::Redirect.to_string()
}

/// Whether a file was refused because it has nothing to say.
fn says_nothing(reason: &str) -> bool {
    [ExtractError::Empty, ExtractError::NoDocstrings].iter().any(|error| reason == error.to_string())
}

/// Why a file was not taken in.
pub(super) enum Hindrance {
    Reason(String),
    /// Another process wrote it down meanwhile.
    Changed,
}

/// Where a document goes.
pub(super) struct Entry {
    /// Best first.
    pub(super) ids: Vec<String>,
    pub(super) name: String,
    pub(super) known: Option<Document>,
    pub(super) format: Format,
    pub(super) source: Option<SourceFile>,
}

fn look_at(permit: &Permit, path: &Path, limit: u64) -> Result<(Opened, SourceFile), String> {
    let opened = permit.open(path)?;
    let metadata = &opened.metadata;
    if !metadata.is_file() {
        return Err("it is not a file any more".into());
    }
    let size = metadata.len();
    if size > limit {
        return Err(format!(
            "it has {size} bytes, more than the {limit} that are allowed · hint: raise `knowledge.max_file_bytes`"
        ));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|age| i64::try_from(age.as_nanos()).ok()).unwrap_or_default();
    Ok((opened, SourceFile { path: shown(path), modified, size, is_elsewhere: false }))
}

/// A title with the version of the software that it is about, so that hits tell it: `ls(1), coreutils@9.1`.
fn named_with(title: String, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{title}, {version}"),
        None => title,
    }
}

fn title_of_file(file: &FoundFile, format: Format) -> String {
    let name = if format.is_code() { file.path.file_name() } else { file.path.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Ids that say which file it is, shortest first: its name, with the end and the folders only where others have that name.
fn possible_ids(file: &FoundFile, format: Format) -> Vec<String> {
    if format == Format::Docstrings {
        let module = sources::module_name(&file.path);
        let mut ids = vec![id_of_anything(&module)];
        // Not its version: an id stays when another one takes its place.
        let environment = sources::environment_name(&file.path);
        ids.extend(environment.map(|environment| id_of_anything(&format!("{module}-{environment}"))));
        ids.push(id_of_anything(&format!("{module}-docstrings")));
        return ids;
    }
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let parent = file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let relative = file.relative.to_string_lossy().replace('/', "-");
    let short = if format.is_code() { name.clone() } else { stem };
    let candidates = [short.into_owned(), name.clone().into_owned(), format!("{parent}-{name}"), relative];
    candidates.iter().map(|candidate| id_of_anything(candidate)).collect()
}
