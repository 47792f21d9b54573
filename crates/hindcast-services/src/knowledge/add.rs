//! Taking documents in: each wholly or not at all, and only what changed.

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hindcast_core::{
    identity::{Caller, Scope},
    knowledge::{
        Collection, CollectionKey, CollectionSettings, Document, NewWatch, Ownership, Patterns, TextHash,
        WatchGrant,
    },
    progress::Progress,
    store::StoreError,
};
use hindcast_extract::Format;
use sha2::{Digest, Sha256};

use super::{
    FileCounts, KnowledgeService, Stopping, blocking,
    collections::check_new_id,
    intake::{Entry, Intake, TRIES, reader_of},
    invalid,
    names::id_of_name,
    preparing::{Original, Prepared},
    reading::{Permit, Reader},
    reports::Reports,
    selection,
    sharing::Uploading,
    sources::{file_of, gather, is_read_once},
    walk::{WalkLimits, Walked, Walking, shown},
    watch::away,
};
use crate::{Failure, FailureKind};

/// What is to be taken in.
#[derive(Debug, Clone)]
pub enum Material {
    /// Files and folders.
    Paths {
        /// Which.
        paths: Vec<PathBuf>,
        /// Which files of the folders.
        patterns: Patterns,
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
    /// Id or name of the collection, which is made if there is none of that ownership.
    pub collection: String,
    /// The id of a new collection; made from its name where absent.
    pub id: Option<String>,
    /// Whose the collection is: the name means the caller's own or a shared one, never the other.
    pub ownership: Ownership,
    /// What.
    pub material: Material,
    /// What it is about: tags that the documents get besides their own.
    pub tags: Vec<String>,
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

/// Files that were passed over for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedKind {
    /// The end of their names, such as `.svg`.
    pub kind: String,
    /// Why they are not taken in.
    pub reason: String,
    /// How many.
    pub files: u64,
}

impl fmt::Display for SkippedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, reason, files } = self;
        write!(f, "{files} {} {kind}: {reason}", if *files == 1 { "file" } else { "files" })
    }
}

/// What became of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct AddReport {
    /// The collection, as it is now.
    pub collection: Collection,
    /// How many files were looked into.
    pub counts: FileCounts,
    /// The files, the first thousands of them: there may be millions.
    pub files: Vec<FileReport>,
    /// Files of folders that were passed over, by their kind.
    pub skipped: Vec<SkippedKind>,
    /// What else a person should know.
    pub notices: Vec<String>,
    /// Whether it was stopped before everything was looked at.
    pub is_stopped: bool,
    /// Whether something that was added is watched from now on.
    pub is_watched: bool,
}

/// How often a walk hears whether its caller has given up.
const GIVEN_UP: Duration = Duration::from_millis(500);

/// A walk on behalf of a caller who waits for it.
struct Waited {
    stopping: Stopping,
    is_given_up: Arc<AtomicBool>,
}

impl Walking for Waited {
    fn is_stopped(&self) -> bool {
        self.stopping.is_set() || self.is_given_up.load(Ordering::Relaxed)
    }

    fn enter(&mut self, _folder: &Path) {}
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
        let tags = checked_tags(request.tags)?;
        match request.material {
            Material::Text { name, text, mime_type } => {
                let found = self.find_owned(caller, &request.collection, &request.ownership).await?;
                let settings = found.map(|collection| collection.settings).unwrap_or_default();
                let given = self.prepare_text(caller, &name, text, mime_type.as_deref(), settings).await?;
                let permit = Arc::new(blocking(move || policy.permit(reader)).await?);
                let mut intake =
                    self.intake(caller, &request.collection, request.id, request.ownership, permit).await?;
                intake.tags = tags;
                self.check_may_replace(caller, &intake, &given).await?;
                let outcome = self.add_text(&mut intake, given, progress).await?;
                let reports = Reports::from(vec![FileReport { path: name, outcome }]);
                self.finished(caller, intake, reports).await
            }
            Material::Paths { paths, patterns, watch } => {
                let given = patterns.clone();
                blocking(move || selection::check(&given)).await??;
                if paths.is_empty() {
                    return Err(invalid("there is nothing to add").hint("give `paths`, or `name` and `text`"));
                }
                if paths.iter().any(|path| path.as_os_str().is_empty()) {
                    return Err(invalid("a path is empty").hint("name a file or a folder"));
                }
                let is_given_up = Arc::new(AtomicBool::new(false));
                let mut waited = Waited { stopping: self.stopping.clone(), is_given_up: is_given_up.clone() };
                let limits = WalkLimits::of(reader, self.policy.max_file_bytes);
                let chosen = patterns.clone();
                let mut walk = pin!(blocking(move || {
                    let permit = policy.permit(reader);
                    let gathered = gather(&permit, paths, &chosen, limits, &mut waited);
                    (Arc::new(permit), gathered)
                }));
                let (permit, gathered) = loop {
                    tokio::select! {
                        walked = &mut walk => break walked?,
                        () = tokio::time::sleep(GIVEN_UP) => {
                            is_given_up.store(progress.cancelled(), Ordering::Relaxed);
                        }
                    }
                };
                let seen = gathered.walked.seen();
                let Walked { found, accepted, notices, versions, .. } = gathered.walked;
                let mut intake =
                    self.intake(caller, &request.collection, request.id, request.ownership, permit).await?;
                intake.tags = tags;
                intake.notices.extend(notices);
                intake.notices.extend(versions);
                let mut reports = self.add_found(&mut intake, found, progress).await?;
                let there = self.there(&mut intake, accepted.clone()).await?;
                reports.extend(self.remove_vanished(&intake, &there, &seen).await?);
                for repository in gathered.repositories {
                    if watch {
                        intake.notice(not_watched(&format!("git:{}", shown(&repository))));
                    }
                    reports.extend(self.add_commits(&mut intake, repository, progress).await?);
                }
                for address in gathered.addresses {
                    if watch {
                        intake.notice(not_watched(&address));
                    }
                    reports.extend(self.add_pages(&mut intake, &address, progress).await?);
                }
                if watch {
                    self.watch(caller, &mut intake, &accepted, &patterns).await?;
                }
                self.finished(caller, intake, reports).await
            }
        }
    }

    /// The folders that are not away. An empty one with documents is the place of a drive that is not plugged in, for all we know.
    async fn there(&self, intake: &mut Intake, roots: Vec<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
        let told = blocking(move || {
            let is_away = |root: &Path| file_of(&shown(root)).is_some_and(|root| away(root, None).is_some());
            roots.into_iter().map(|root| (is_away(&root), root)).collect::<Vec<_>>()
        });
        let mut there = Vec::new();
        for (is_away, root) in told.await? {
            if !is_away {
                there.push(root);
            } else if self.has_documents_below(intake.collection.key, &shown(&root)).await? {
                intake.notice(format!(
                    "`{}` is empty, and its documents are kept: its drive may not be plugged in · hint: remove the documents if \
                     they are not wanted any more",
                    shown(&root)
                ));
            }
        }
        Ok(there)
    }

    /// Whether there is a document of a file in this folder.
    pub(super) async fn has_documents_below(
        &self,
        collection: CollectionKey,
        folder: &str,
    ) -> Result<bool, Failure> {
        Ok(!self.store.some_documents_below(collection, folder, "", 1).await?.is_empty())
    }

    /// Has folders watched, with the caller's rights and for as long as the caller has them.
    async fn watch(
        &self,
        caller: &Caller,
        intake: &mut Intake,
        roots: &[PathBuf],
        patterns: &Patterns,
    ) -> Result<(), Failure> {
        let grant = caller.key.as_ref().map_or(WatchGrant::Local, |key| WatchGrant::Key(key.id.clone()));
        for root in roots {
            if is_read_once(root) {
                intake.notice(not_watched(&shown(root)));
                continue;
            }
            if root.to_str().is_none() {
                intake.notice(format!("`{}` is not watched: its name is not UTF-8", shown(root)));
                continue;
            }
            let watch = NewWatch {
                collection: intake.collection.key,
                path: shown(root),
                patterns: patterns.clone(),
                grant: grant.clone(),
            };
            self.store.watch(watch).await?;
            intake.is_watched = true;
        }
        Ok(())
    }

    pub(super) async fn intake(
        &self,
        caller: &Caller,
        name: &str,
        id: Option<String>,
        ownership: Ownership,
        permit: Arc<Permit>,
    ) -> Result<Intake, Failure> {
        let found = self.find_owned(caller, name, &ownership).await?;
        let mut notices = Vec::new();
        let (collection, is_new) = match (found, id) {
            (Some(collection), Some(id)) if collection.id != id => {
                return Err(invalid(format!("the collection `{name}` has the id `{}`", collection.id))
                    .hint("leave the id out, or rename the collection"));
            }
            (Some(collection), _) => {
                if collection.maker != caller.principal {
                    notices.push("everybody sees this collection, and somebody else made it".into());
                }
                let own = Ownership::Private(caller.principal.clone());
                if ownership == Ownership::Shared && self.find_owned(caller, name, &own).await?.is_some() {
                    notices.push(format!(
                        "this is the shared collection, `{}@shared` to you: `{}` alone means your own of that name",
                        collection.id, collection.id
                    ));
                }
                (collection, false)
            }
            (None, id) => {
                let id = self.free_collection_id(caller, id, name, &ownership).await?;
                if ownership != Ownership::Shared
                    && self.find_owned(caller, name, &Ownership::Shared).await?.is_some()
                {
                    notices.push(
                        "this collection is yours alone; there is also a shared one of that name · hint: give `shared: true` to add to that"
                            .into(),
                    );
                }
                let maker = caller.principal.clone();
                let name = name.trim().into();
                let made = self.store.open_collection(ownership, maker, id, name, self.clock.now()).await?;
                self.wrote.notify_one();
                (made, true)
            }
        };
        let reads_for = caller.principal.clone();
        Ok(Intake { is_new, notices, reads_for, ..self.intake_into(collection, permit) })
    }

    /// The id that a new collection gets.
    async fn free_collection_id(
        &self,
        caller: &Caller,
        id: Option<String>,
        name: &str,
        ownership: &Ownership,
    ) -> Result<String, Failure> {
        let of_name = id_of_name(name)?;
        let Some(id) = id else {
            check_new_id(&of_name)?;
            return Ok(of_name);
        };
        check_new_id(&id)?;
        match self.find_owned(caller, &id, ownership).await? {
            Some(taken) => Err(invalid(format!("the collection `{}` has the id `{id}` already", taken.name))
                .hint("choose another id, or add to that collection")),
            None => Ok(id),
        }
    }

    pub(super) async fn finished(
        &self,
        caller: &Caller,
        mut intake: Intake,
        reports: Reports,
    ) -> Result<AddReport, Failure> {
        let Reports { files, counts, .. } = reports;
        let has_nothing = intake.is_new && counts.total() == counts.failed;
        // Somebody else may have found it useful meanwhile.
        if has_nothing && self.store.remove_unused_collection(intake.collection.key).await? {
            intake.notice("nothing was taken in, so the collection was not made".into());
        }
        self.wrote.notify_one();
        if !self.stopping.is_set() {
            self.indexing.catch_up(Uploading::AtOnce).await?;
            self.indexing.notice_of_shared().into_iter().for_each(|notice| intake.notice(notice));
        }
        let seen = self.collections(caller).await?;
        let collection = seen.into_iter().find(|seen| seen.key == intake.collection.key);
        let skipped = std::mem::take(&mut intake.skipped).into_iter();
        let skipped = skipped.map(|((kind, reason), files)| SkippedKind { kind, reason, files }).collect();
        let collection = collection.unwrap_or_else(|| intake.collection.clone());
        let Intake { notices, is_stopped, is_watched, .. } = intake;
        Ok(AddReport { collection, counts, files, skipped, notices, is_stopped, is_watched })
    }

    /// Everything that can be wrong with a text is found out before a collection is made for it.
    pub(super) async fn prepare_text(
        &self,
        caller: &Caller,
        name: &str,
        text: String,
        mime_type: Option<&str>,
        settings: CollectionSettings,
    ) -> Result<GivenText, Failure> {
        let format = text_format(name, mime_type)?;
        let id = id_of_name(name)?;
        if text.len() as u64 > self.policy.max_file_bytes {
            return Err(invalid(format!("`text` is larger than {} bytes", self.policy.max_file_bytes)));
        }
        let hash: TextHash = Sha256::digest(text.as_bytes()).into();
        let given = Original { format, bytes: text.into_bytes(), hash, charset: None };
        let prepared = self.prepare(&caller.principal, given, &settings).await?;
        let prepared = prepared.map_err(|reason| invalid(format!("the text was not added: {reason}")))?;
        let name = prepared.extracted.title.clone().unwrap_or_else(|| name.trim().to_owned());
        Ok(GivenText { id, name, format, prepared })
    }

    /// A text takes the place of the document of its name; only who may remove that may do so.
    pub(super) async fn check_may_replace(
        &self,
        caller: &Caller,
        intake: &Intake,
        given: &GivenText,
    ) -> Result<(), Failure> {
        let Collection { key, id: collection, maker, .. } = &intake.collection;
        if *maker == caller.principal || caller.may(Some(Scope::Admin)) {
            return Ok(());
        }
        let known = self.store.find_document(*key, &given.id).await?;
        if known.is_none_or(|known| known.hash == given.prepared.hash) {
            return Ok(());
        }
        let details = format!(
            "this would replace the document `{}`, which only the owner of the shared collection `{collection}` may do",
            given.id
        );
        Err(Failure::new(FailureKind::PermissionDenied, details)
            .hint("give the text another name, or ask the owner of the collection or an admin"))
    }

    pub(super) async fn add_text(
        &self,
        intake: &mut Intake,
        given: GivenText,
        progress: &dyn Progress,
    ) -> Result<FileOutcome, Failure> {
        let GivenText { id, name, format, prepared } = given;
        for _ in 0..TRIES {
            let known = self.store.find_document(intake.collection.key, &id).await?;
            let reader = reader_of(&intake.collection.settings);
            let is_same = |known: &&Document| known.hash == prepared.hash && known.reader == reader;
            if let Some(known) = known.as_ref().filter(is_same) {
                self.tag(known, intake).await?;
                return Ok(FileOutcome::Unchanged { document: known.id.clone() });
            }
            let entry = Entry { ids: vec![id.clone()], name: name.clone(), known, format, source: None };
            if let Ok(outcome) = self.keep(intake, entry, prepared.clone(), progress).await? {
                return Ok(outcome);
            }
        }
        Err(StoreError::Changed(format!("the document `{id}`")).into())
    }
}

fn not_watched(source: &str) -> String {
    format!("`{source}` is not watched · hint: add it again to take in what is new")
}

/// Tags without the white space around them; refused where they are empty, long or many.
fn checked_tags(tags: Vec<String>) -> Result<Vec<String>, Failure> {
    let tags: Vec<String> = tags.iter().map(|tag| tag.trim().trim_start_matches('#').to_owned()).collect();
    if tags.len() > 50 || tags.iter().any(|tag| tag.is_empty() || tag.len() > 200) {
        return Err(invalid("`tags` has an empty tag, one of more than 200 bytes, or more than 50")
            .hint("give a few short words"));
    }
    Ok(tags)
}

/// A text that can be taken in.
pub(super) struct GivenText {
    id: String,
    name: String,
    format: Format,
    prepared: Prepared,
}

fn text_format(name: &str, mime_type: Option<&str>) -> Result<Format, Failure> {
    let format = match mime_type {
        Some(mime_type) => Format::of_mime_type(mime_type).ok_or_else(|| {
            let shown: String = mime_type.chars().take(80).collect();
            invalid(format!("texts of the type `{shown}` are not understood"))
                .hint(format!("use one of {}", Format::known_mime_types()))
        })?,
        None => {
            let is_plain = |format: &Format| !matches!(format, Format::Man);
            Format::of_name(name).filter(is_plain).unwrap_or(Format::Markdown)
        }
    };
    let is_binary = format.is_converted()
        && !matches!(format, Format::Html | Format::Notebook | Format::Man | Format::Mail);
    if is_binary {
        return Err(
            invalid(format!("{} is not text", format.name().to_uppercase())).hint("give the file in `paths`")
        );
    }
    Ok(format)
}
