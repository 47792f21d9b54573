//! The commit messages of a git repository, each a document.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use hindcast_core::{
    knowledge::{Document, SourceFile, TextHash},
    progress::Progress,
};
use hindcast_extract::Format;
use sha2::{Digest, Sha256};

use super::{
    super::{
        FileOutcome, FileReport, KnowledgeService, blocking,
        extraction::Extractor,
        intake::{Entry, Intake, TRIES, reader_of},
        preparing::Original,
        reading::Permit,
        walk::shown,
    },
    COMMITS, git,
};
use crate::Failure;

/// The newest are taken, which say most about what is there now.
const MOST_COMMITS: usize = 20_000;

/// What all messages have together at most.
const MOST_BYTES: u64 = 64 << 20;

/// Between two fields, and between two commits.
const FIELD: char = '\x1f';
const COMMIT: char = '\x1e';

struct Commit {
    hash: String,
    author: String,
    date: String,
    /// Seconds since the epoch.
    time: i64,
    subject: String,
    body: String,
}

struct Log {
    /// The repository, however many work trees it has.
    root: String,
    commits: Vec<Commit>,
    is_complete: bool,
}

impl KnowledgeService {
    /// Takes in the commits of a repository that are not there yet, and removes those that its history lost.
    pub(in super::super) async fn add_commits(
        &self,
        intake: &mut Intake,
        repository: PathBuf,
        progress: &dyn Progress,
    ) -> Result<Vec<FileReport>, Failure> {
        let (permit, folder) = (intake.permit.clone(), repository.clone());
        let extractor = self.policy.extractor.clone();
        let log = match blocking(move || read_log(&extractor, &permit, &folder)).await? {
            Ok(log) => log,
            Err(reason) => {
                let path = format!("{COMMITS}{}", shown(&repository));
                return Ok(vec![FileReport { path, outcome: FileOutcome::Failed { reason } }]);
            }
        };
        if !log.is_complete {
            intake.notice(format!(
                "of `{}` only the newest {} commits were taken in",
                log.root,
                log.commits.len()
            ));
        }
        let total = log.commits.len() as u64;
        let (mut reports, mut seen) = (Vec::new(), HashSet::new());
        for (done, commit) in (0_u64..).zip(log.commits) {
            if progress.cancelled() || self.stopping.is_set() {
                intake.is_stopped = true;
                intake.notice(format!(
                    "stopped: {} of {total} commits were not looked at · hint: add them again",
                    total - done
                ));
                return Ok(reports);
            }
            progress.report(done, Some(total), &commit.subject);
            let path = format!("{COMMITS}{}/{}", log.root, commit.hash);
            let outcome = self.add_commit(intake, &path, commit, progress).await?;
            seen.insert(path.clone());
            reports.push(FileReport { path, outcome });
        }
        if log.is_complete {
            reports.extend(self.remove_lost(intake, &log.root, &seen).await?);
        }
        Ok(reports)
    }

    async fn add_commit(
        &self,
        intake: &mut Intake,
        path: &str,
        commit: Commit,
        progress: &dyn Progress,
    ) -> Result<FileOutcome, Failure> {
        let text = commit.text().into_bytes();
        let source = SourceFile {
            path: path.into(),
            modified: commit.time.saturating_mul(1_000_000_000),
            size: text.len() as u64,
            is_elsewhere: false,
        };
        let hash: TextHash = Sha256::digest(&text).into();
        for _ in 0..TRIES {
            let known = self.store.document_at(intake.collection.key, path).await?;
            let reader = reader_of(&intake.collection.settings);
            let is_same = |known: &&Document| known.hash == hash && known.reader == reader;
            if let Some(known) = known.as_ref().filter(is_same) {
                self.tag(known, intake).await?;
                return Ok(FileOutcome::Unchanged { document: known.id.clone() });
            }
            let (owner, settings) = (&intake.reads_for, &intake.collection.settings);
            let told = Original { format: Format::Markdown, bytes: text.clone(), hash, charset: None };
            let prepared = self.prepare(owner, told, settings).await?;
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(reason) => return Ok(FileOutcome::Failed { reason }),
            };
            let short = commit.hash.chars().take(12).collect();
            let entry = Entry {
                ids: vec![short, commit.hash.clone()],
                name: commit.title().to_owned(),
                known,
                format: Format::Markdown,
                source: Some(source.clone()),
            };
            if let Ok(outcome) = self.keep(intake, entry, prepared, progress).await? {
                return Ok(outcome);
            }
        }
        Ok(FileOutcome::Failed {
            reason: "another process changes it again and again · hint: add it again".into(),
        })
    }

    async fn remove_lost(
        &self,
        intake: &Intake,
        root: &str,
        seen: &HashSet<String>,
    ) -> Result<Vec<FileReport>, Failure> {
        let prefix = format!("{COMMITS}{root}");
        let below = self.store.documents_below(intake.collection.key, &prefix).await?;
        let is_lost = |document: &Document| {
            let path = document.source.as_ref().map(|source| &*source.path);
            // Those of a repository in this one are not ours.
            path.is_some_and(|path| {
                !seen.contains(path) && path.rsplit_once('/').is_some_and(|(of, _)| of == prefix)
            })
        };
        let lost: Vec<Document> = below.into_iter().filter(is_lost).collect();
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let removed = self
            .store
            .remove_unchanged(lost.iter().map(Document::version).collect(), self.clock.now())
            .await?;
        self.wrote.notify_one();
        let lost = lost.into_iter().filter(|document| removed.contains(&document.key));
        let report = |document: Document| {
            let path = document.source.map(|source| source.path).unwrap_or_default();
            FileReport { path, outcome: FileOutcome::Removed { document: document.id } }
        };
        Ok(lost.map(report).collect())
    }
}

impl Commit {
    fn parse(record: &str) -> Option<Self> {
        let mut fields = record.trim_start_matches('\n').splitn(6, FIELD).map(str::to_owned);
        let mut next = || fields.next();
        let (hash, author, date, time, subject, body) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        let is_hash = hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Self { hash, author, date, time: time.parse().unwrap_or_default(), subject, body })
    }

    fn title(&self) -> &str {
        if self.subject.trim().is_empty() { &self.hash } else { self.subject.trim() }
    }

    fn text(&self) -> String {
        let body = self.body.trim();
        let gap = if body.is_empty() { "" } else { "\n\n" };
        format!("# {}{gap}{body}\n\nCommit {} by {}, {}\n", self.title(), self.hash, self.author, self.date)
    }
}

fn read_log(extractor: &Extractor, permit: &Permit, folder: &Path) -> Result<Log, String> {
    let root = match root_of(extractor, permit, folder) {
        // Whether there is a repository around the folder, or where its `.git` leads, is not told.
        Err(_) if permit.is_remote() => return Err(UNREADABLE.into()),
        root => root?,
    };
    let format = ["%H", "%an", "%aI", "%at", "%s", "%b"].join(&FIELD.to_string());
    let mut log = git::command(extractor, folder);
    log.args([
        "log",
        "--no-show-signature",
        "--no-color",
        "--no-decorate",
        "--no-notes",
        "--no-ext-diff",
        "--no-patch",
    ])
    .args(["--encoding=UTF-8", &format!("--max-count={}", MOST_COMMITS + 1)])
    .arg(format!("--format=tformat:{format}{COMMIT}"));
    let told = git::run(log, MOST_BYTES, git::PATIENCE)?;
    let text = String::from_utf8_lossy(&told.bytes);
    let mut records: Vec<&str> = text.split(COMMIT).collect();
    // Behind the last commit is nothing, or half of one.
    records.pop();
    let mut commits: Vec<Commit> = records.into_iter().filter_map(Commit::parse).collect();
    let is_complete = !told.is_cut && commits.len() <= MOST_COMMITS;
    commits.truncate(MOST_COMMITS);
    Ok(Log { root, commits, is_complete })
}

const UNREADABLE: &str = "it is no git repository, or not wholly in the folders of `knowledge.allowed_folders` · hint: give the \
                          folder of a repository with commits";

/// The folder of the repository that a folder is in. What git reads there must be what the caller may read: a file `.git` can name
/// a repository elsewhere.
fn root_of(extractor: &Extractor, permit: &Permit, folder: &Path) -> Result<String, String> {
    let mut ask = git::command(extractor, folder);
    ask.args(["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"]);
    let answer = git::run(ask, MOST_BYTES, git::PATIENCE)?;
    let answer = String::from_utf8_lossy(&answer.bytes).into_owned();
    let folders =
        answer.lines().map(|line| permit.resolve(Path::new(line))).collect::<Result<Vec<_>, _>>()?;
    let common = folders.last().ok_or("git does not tell where the repository is")?;
    if permit.is_remote() && common.join("objects/info/alternates").exists() {
        return Err("it has objects in another repository, which may be elsewhere · hint: `git repack -a -d` and remove \
                    `objects/info/alternates`"
            .into());
    }
    for folder in &folders {
        git::check(folder, permit.is_remote())?;
    }
    let is_inside = common.file_name().is_some_and(|name| name == ".git");
    Ok(shown(common.parent().filter(|_| is_inside).unwrap_or(common)))
}
