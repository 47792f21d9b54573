//! The files behind the paths that were given.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use hindcast_extract::Format;

use hindcast_core::knowledge::Patterns;
use sha2::{Digest, Sha256};

use super::{
    reading::{Opened, Permit, Reader},
    selection::{LeftOut, Rules},
};

/// A file that was found, or why it cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// As it is shown.
    pub(super) shown: String,
    /// Where it truly is, and the name it has below the path that was given.
    pub(super) file: Result<FoundFile, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// Folders and name below the path that was given.
    pub(super) relative: PathBuf,
    /// Whether it was named itself, and not found in a folder.
    pub(super) is_given: bool,
    /// Whether only what a Python module says about itself is taken.
    pub(super) reads_docstrings: bool,
    /// The tag of the installed package that it is part of, such as `click@8.1.7`.
    pub(super) package: Option<String>,
}

impl FoundFile {
    /// What it is written in, as its name tells.
    pub(super) fn format(&self) -> Option<Format> {
        if self.reads_docstrings {
            return Some(Format::Docstrings);
        }
        Format::of_path(&self.path)
    }
}

/// How much one walk looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkLimits {
    pub(super) files: usize,
    /// Of the files that are read.
    pub(super) bytes: u64,
    /// Larger files are not read.
    pub(super) file_bytes: u64,
    pub(super) depth: usize,
    pub(super) time: Duration,
}

impl WalkLimits {
    /// The user of this machine waits for nobody else and can stop at any time. A key of a server may take a minute of it.
    pub(super) fn of(reader: Reader, file_bytes: u64) -> Self {
        let (files, bytes, time) = match reader {
            Reader::Local => (5_000_000, 1 << 40, Duration::from_secs(3600)),
            Reader::Remote => (200_000, 10 << 30, Duration::from_secs(60)),
        };
        Self { files, bytes, file_bytes, depth: 100, time }
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) found: Vec<Found>,
    /// The true paths of what was given and may be read.
    pub(super) accepted: Vec<PathBuf>,
    /// What was left out, and why.
    pub(super) notices: Vec<String>,
    /// Which versions of packages were found.
    pub(super) versions: Vec<String>,
    /// Files and folders that are ignored or excluded, and since when; none where it is since the walk.
    pub(super) left_out: HashMap<String, Option<SystemTime>>,
}

/// What stands for a path, in a seventh of its memory: there may be millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PathHash([u8; 16]);

impl PathHash {
    fn of(path: &[u8]) -> Self {
        let whole: [u8; 32] = Sha256::digest(path).into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

/// What a walk saw.
#[derive(Debug)]
pub(super) struct Seen {
    paths: HashSet<PathHash>,
    left_out: HashMap<String, Option<SystemTime>>,
    is_complete: bool,
}

impl Walked {
    /// What was seen, by its path as text.
    pub(super) fn seen(&self) -> Seen {
        let paths = self.found.iter().map(|found| PathHash::of(found.shown.as_bytes())).collect();
        Seen { paths, left_out: self.left_out.clone(), is_complete: self.notices.is_empty() }
    }
}

impl Seen {
    /// Whether a file may be gone, as far as the walk tells. A path that had to be escaped cannot be looked for on the disk, so
    /// only a walk that saw everything can tell.
    pub(super) fn misses(&self, path: &str) -> bool {
        !self.paths.contains(&PathHash::of(path.as_bytes())) && (self.is_complete || !is_escaped(path))
    }

    /// The file or folder that was left out and has this file, if that came after the file was taken in. A file that was taken in
    /// although it was ignored then was named itself.
    pub(super) fn left_out_since<'a>(&self, path: &'a str, taken_in: SystemTime) -> Option<&'a Path> {
        let is_later = |since: &Option<SystemTime>| since.is_none_or(|since| since + CLOCK_STEP >= taken_in);
        Path::new(path)
            .ancestors()
            .find(|one| one.to_str().and_then(|one| self.left_out.get(one)).is_some_and(is_later))
    }
}

/// The clock of a file system may be this much behind.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// Whether a path may be one that is not UTF-8, and so not the path of its file.
pub(super) fn is_escaped(path: &str) -> bool {
    path.contains('\\')
}

/// Whoever wants to know how a walk goes.
pub(super) trait Walking {
    /// Whether to stop here.
    fn is_stopped(&self) -> bool;
    /// A folder is about to be read.
    fn enter(&mut self, folder: &Path);
}

/// What of the roots is taken.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    patterns: &'a Patterns,
    /// The folder that the roots are parts of; none where they were named themselves.
    base: Option<&'a Path>,
    /// Whether what `.gitignore` and `.ignore` name is taken, too.
    with_ignored: bool,
}

impl<'a> Selection<'a> {
    /// Of what was named itself.
    pub(super) fn of(patterns: &'a Patterns) -> Self {
        Self { patterns, base: None, with_ignored: false }
    }

    /// Also what is ignored: environments of Python ignore themselves.
    pub(super) fn with_ignored(self) -> Self {
        Self { with_ignored: true, ..self }
    }

    /// Of parts of a folder that was named.
    pub(super) fn within(patterns: &'a Patterns, base: &'a Path) -> Self {
        Self { patterns, base: Some(base), with_ignored: false }
    }
}

/// All files, in the order of their names. Links are followed, each folder is read once. Hidden files are left out, and what
/// `.gitignore`, `.ignore` and the patterns say.
pub(super) fn walk(
    permit: &Permit,
    roots: &[PathBuf],
    selection: Selection<'_>,
    limits: WalkLimits,
    walking: &mut dyn Walking,
) -> Walked {
    let mut walk = Walk {
        permit,
        limits,
        walking,
        end: Instant::now() + limits.time,
        bytes: 0,
        folders: HashSet::new(),
        files: HashSet::new(),
        walked: Walked::default(),
        is_over: false,
        rules: Rules::default(),
        reads_rules: true,
        is_asked: selection.base.is_none(),
    };
    for root in roots {
        let base = selection.base.filter(|base| root.starts_with(base) && root != base);
        // Files are told by their true paths, so a root that is reached by a link is known by its own.
        let real = permit.resolve(root).unwrap_or_else(|_| root.clone());
        walk.rules = Rules::below(base.unwrap_or(&real), selection.patterns);
        walk.reads_rules = !selection.with_ignored;
        if walk.reads_rules {
            walk.rules.take_from_above(permit, root, base);
        }
        let is_left_out = base.is_some_and(|base| {
            let mut folders = root.ancestors().skip(1).take_while(|folder| folder != &base);
            folders.any(|folder| walk.leaves_out(folder, true))
        });
        if !is_left_out {
            let accepted = walk.take(root, Path::new(""), usize::from(base.is_some()));
            walk.walked.accepted.extend(accepted);
        }
    }
    walk.walked
}

struct Walk<'a> {
    permit: &'a Permit,
    limits: WalkLimits,
    walking: &'a mut dyn Walking,
    end: Instant,
    bytes: u64,
    folders: HashSet<PathBuf>,
    files: HashSet<PathHash>,
    walked: Walked,
    /// A limit was reached, and that was said.
    is_over: bool,
    rules: Rules,
    reads_rules: bool,
    /// Whether somebody gave the patterns just now.
    is_asked: bool,
}

enum Entry {
    LeftOut,
    File(PathBuf, u64),
    Folder(PathBuf, Vec<PathBuf>),
}

impl Walk<'_> {
    /// The true path of what may be read. What may not be is told by the path that was given.
    fn take(&mut self, path: &Path, relative: &Path, depth: usize) -> Option<PathBuf> {
        if self.is_over(path) {
            return None;
        }
        match self.look(path, depth) {
            Ok(Entry::Folder(real, children)) => {
                if self.reads_rules {
                    self.rules.enter(self.permit, &real);
                }
                for child in children {
                    let name = child.file_name().unwrap_or_default();
                    self.take(&child, &relative.join(name), depth + 1);
                }
                if self.reads_rules {
                    self.rules.leave();
                }
                Some(real)
            }
            Ok(Entry::LeftOut) => None,
            Ok(Entry::File(real, size)) => {
                if self.files.insert(PathHash::of(real.as_os_str().as_encoded_bytes())) {
                    // What changed in a watched folder has no folders either.
                    let relative = if relative.as_os_str().is_empty() {
                        Path::new(real.file_name().unwrap_or_default())
                    } else {
                        relative
                    };
                    let file = FoundFile {
                        path: real.clone(),
                        relative: relative.into(),
                        is_given: depth == 0,
                        reads_docstrings: false,
                        package: None,
                    };
                    let is_read = file.format().is_some() && size <= self.limits.file_bytes;
                    self.bytes += if is_read { size } else { 0 };
                    self.walked.found.push(Found { shown: shown(&real), file: Ok(file) });
                }
                Some(real)
            }
            Err(reason) => {
                self.walked.found.push(Found { shown: shown(path), file: Err(reason) });
                None
            }
        }
    }

    fn look(&mut self, path: &Path, depth: usize) -> Result<Entry, String> {
        let (real, opened) = self.open(path, depth)?;
        let kind = opened.metadata.file_type();
        if depth > 0 && self.leaves_out(path, kind.is_dir()) {
            return Ok(Entry::LeftOut);
        }
        if kind.is_file() {
            return Ok(Entry::File(real, opened.metadata.len()));
        }
        if !kind.is_dir() {
            return Err("it is neither a file nor a folder".into());
        }
        if depth > self.limits.depth {
            return Err(format!(
                "it is more than {} folders deep · hint: add it by itself",
                self.limits.depth
            ));
        }
        if !self.folders.insert(real.clone()) {
            return Err("it leads to a folder that is read already".into());
        }
        self.walking.enter(&real);
        let children = opened.names()?.into_iter().map(|name| real.join(name)).collect();
        Ok(Entry::Folder(real, children))
    }

    /// Whether something is not taken; remembers what is taken no more.
    fn leaves_out(&mut self, path: &Path, is_folder: bool) -> bool {
        let left_out = self.rules.leave_out(path, is_folder);
        let since = match left_out {
            Some(LeftOut::Excluded) if self.is_asked => None,
            Some(LeftOut::Ignored(Some(since))) => Some(since),
            _ => return left_out.is_some(),
        };
        self.walked.left_out.insert(shown(path), since);
        true
    }

    /// Opens what is at a path, and gives its true path. What is not a link in a folder whose true path is known needs no
    /// resolving, which is most of the work.
    fn open(&self, path: &Path, depth: usize) -> Result<(PathBuf, Opened), String> {
        if depth > 0 {
            let opened = self.permit.open(path)?;
            if !opened.metadata.is_symlink() {
                return Ok((path.into(), opened));
            }
        }
        let real = self.permit.resolve(path)?;
        let opened = self.permit.open(&real)?;
        Ok((real, opened))
    }

    /// Whether a limit is reached; said once.
    fn is_over(&mut self, path: &Path) -> bool {
        if self.is_over {
            return true;
        }
        let limits = self.limits;
        let reason = if self.walking.is_stopped() {
            "it was stopped".to_owned()
        } else if self.walked.found.len() >= limits.files {
            format!("there are more than {} files", limits.files)
        } else if self.bytes > limits.bytes {
            format!("the files have more than {} bytes", limits.bytes)
        } else if Instant::now() > self.end {
            format!("looking took more than {} seconds", limits.time.as_secs())
        } else {
            return false;
        };
        self.is_over = true;
        let notice = format!(
            "not everything was looked at: {reason}; left out from `{}` on · hint: add the folders below it one by one",
            shown(path)
        );
        self.walked.notices.push(notice);
        true
    }
}

/// A path as text, always the same for the same path.
pub(super) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => path.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
    }
}

#[cfg(all(test, unix))]
pub(super) mod tests {
    use std::{fs, os::unix::fs::symlink, sync::Arc};

    use hindcast_core::identity::{
        Caller, Environment, KeyId, KeyRecord, PrincipalId, ScopeSet, SecretHash, Tier,
    };

    use super::{super::reading::ReadPolicy, *};

    pub(in super::super) struct Alone;

    impl Walking for Alone {
        fn is_stopped(&self) -> bool {
            false
        }
        fn enter(&mut self, _folder: &Path) {}
    }

    fn usual() -> WalkLimits {
        WalkLimits::of(Reader::Local, 1 << 20)
    }

    fn walk_as(reader: Reader, policy: &ReadPolicy, limits: WalkLimits, root: &Path) -> Walked {
        walk(&policy.permit(reader), &[root.into()], Selection::of(&Patterns::default()), limits, &mut Alone)
    }

    #[test]
    fn the_local_user_may_take_in_millions_of_files_and_a_key_may_not() {
        let key = KeyRecord {
            id: KeyId("abc".into()),
            name: "test".into(),
            owner: PrincipalId("somebody".into()),
            environment: Environment::Live,
            tier: Tier::Free,
            own_limits: None,
            scopes: ScopeSet::standard(),
            secret: SecretHash([0; 32]),
            created_at: hindcast_core::Timestamp::UNIX_EPOCH,
            expires_at: None,
            revoked_at: None,
            rotated_at: None,
            allowed_ips: Vec::new(),
            last_used_at: None,
        };
        let holder = Caller { key: Some(Arc::new(key)), ..Caller::local() };
        let limits = |caller: &Caller| WalkLimits::of(Reader::of(caller), 1 << 20);
        let (local, remote) = (limits(&Caller::local()), limits(&holder));
        assert!(local.files > 1_000_000 && local.time > Duration::from_secs(1800) && local.bytes > 1 << 39);
        assert_eq!((remote.files, remote.bytes, remote.time), (200_000, 10 << 30, Duration::from_secs(60)));
    }

    #[test]
    fn patterns_hold_below_a_folder_that_is_reached_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/sub")).unwrap();
        for file in ["real/a.md", "real/b.txt", "real/sub/c.md", "real/sub/d.txt"] {
            fs::write(root.join(file), "words").unwrap();
        }
        symlink(root.join("real"), root.join("link")).unwrap();
        let patterns = Patterns { include: vec!["*.md".into()], exclude: vec!["sub/".into()] };
        let permit = ReadPolicy::default().permit(Reader::Local);
        let walked = walk(&permit, &[root.join("link")], Selection::of(&patterns), usual(), &mut Alone);
        let found: Vec<_> = walked.found.into_iter().map(|found| found.shown).collect();
        assert_eq!(found, [shown(&root.join("real/a.md"))]);
    }

    #[test]
    fn every_file_is_found_once_and_loops_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["a.md", "sub/with space\nand line.md", "sub/🦀.txt", "sub/.hidden/x.md"] {
            fs::write(root.join(name), "words").unwrap();
        }
        symlink(&root, root.join("sub/loop")).unwrap();
        symlink(root.join("nowhere"), root.join("dangling")).unwrap();
        symlink(root.join("a.md"), root.join("z.md")).unwrap();
        let walked = walk_as(Reader::Local, &ReadPolicy::default(), usual(), &root);
        let told: Vec<_> = walked
            .found
            .iter()
            .map(|found| {
                let name = Path::new(&found.shown).strip_prefix(&root).unwrap().to_str().unwrap();
                (name, found.file.as_ref().err().map(String::as_str))
            })
            .collect();
        let expected = [
            ("a.md", None),
            ("dangling", Some("it is a link to nothing")),
            ("sub/loop", Some("it leads to a folder that is read already")),
            ("sub/with space\nand line.md", None),
            ("sub/🦀.txt", None),
        ];
        assert_eq!(told, expected);
        assert_eq!((walked.accepted, walked.notices), (vec![root], Vec::new()));
    }

    #[test]
    fn links_out_of_the_allowed_folders_are_followed_only_for_the_local_user() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("open")).unwrap();
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("secret.md"), "words").unwrap();
        symlink(root.join("secret.md"), root.join("open/link.md")).unwrap();
        let policy = ReadPolicy {
            allowed_folders: vec![root.join("open")],
            forbidden_folders: vec![root.join("data")],
        };
        let walk = |reader, path: &str| walk_as(reader, &policy, usual(), &root.join(path));
        assert!(walk(Reader::Local, "open").found[0].file.is_ok());
        assert!(walk(Reader::Remote, "open").found[0].file.is_err());
        for (reader, path) in [(Reader::Local, "data"), (Reader::Remote, "secret.md"), (Reader::Remote, "")] {
            let walked = walk(reader, path);
            assert!(walked.found[0].file.is_err() && walked.accepted.is_empty(), "{reader:?} {path}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_to_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a.md", "z.md"] {
            fs::write(root.join(name), "words").unwrap();
        }
        fs::File::create(root.join("sparse.md")).unwrap().set_len(50 << 30).unwrap();
        let walked = walk_as(Reader::Local, &ReadPolicy::default(), usual(), &root);
        assert_eq!((walked.found.len(), walked.notices), (3, Vec::new()));
    }

    #[test]
    fn what_goes_beyond_the_limits_is_left_out_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("d/e")).unwrap();
        for name in ["a.md", "b.md", "c.md", "d/e/f.md"] {
            fs::write(root.join(name), "words").unwrap();
        }
        let check = |limits: WalkLimits, files: usize, notice: &str| {
            let walked = walk_as(Reader::Local, &ReadPolicy::default(), limits, &root);
            assert_eq!(walked.found.iter().filter(|found| found.file.is_ok()).count(), files, "{notice}");
            let said = walked.notices.join(" ")
                + &walked
                    .found
                    .iter()
                    .filter_map(|found| found.file.as_ref().err())
                    .cloned()
                    .collect::<String>();
            assert!(said.contains(notice), "{said}");
        };
        let usual = usual();
        check(usual, 4, "");
        check(WalkLimits { files: 2, ..usual }, 2, "more than 2 files");
        check(WalkLimits { bytes: 9, ..usual }, 2, "more than 9 bytes");
        check(WalkLimits { depth: 1, ..usual }, 3, "more than 1 folders deep");
        check(WalkLimits { time: Duration::ZERO, ..usual }, 0, "more than 0 seconds");
    }

    #[test]
    fn what_is_ignored_or_not_chosen_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["sub/build", "docs", ".git", ".hidden"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for name in [
            ".git/hook.md",
            ".hidden/f.md",
            ".hidden.md",
            "docs/.hidden.md",
            "a.md",
            "a.log",
            "keep.log",
            "sub/b.md",
            "sub/build/out.md",
            "docs/c.md",
            "docs/draft.md",
            "sub/d.txt",
        ] {
            fs::write(root.join(name), "words").unwrap();
        }
        fs::write(root.join(".gitignore"), "*.log\n!keep.log\nbuild/\n").unwrap();
        fs::write(root.join("docs/.ignore"), "draft*\n").unwrap();
        let check =
            |roots: &[&str], base: Option<&Path>, include: &[&str], exclude: &[&str], expected: &[&str]| {
                let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
                let patterns = Patterns { include: own(include), exclude: own(exclude) };
                let roots: Vec<_> = roots.iter().map(|path| root.join(path)).collect();
                let selection = Selection { patterns: &patterns, base, with_ignored: false };
                let permit = ReadPolicy::default().permit(Reader::Local);
                let walked = walk(&permit, &roots, selection, usual(), &mut Alone);
                let found: Vec<_> = walked
                    .found
                    .iter()
                    .map(|found| Path::new(&found.shown).strip_prefix(&root).unwrap().to_str().unwrap())
                    .collect();
                assert_eq!(found, expected, "{include:?} {exclude:?}");
            };
        check(&[""], None, &[], &[], &["a.md", "docs/c.md", "keep.log", "sub/b.md", "sub/d.txt"]);
        check(&[""], None, &["*.md"], &[], &["a.md", "docs/c.md", "sub/b.md"]);
        check(&[""], None, &["sub/"], &["*.txt"], &["sub/b.md"]);
        check(&[""], None, &[], &["docs"], &["a.md", "keep.log", "sub/b.md", "sub/d.txt"]);
        check(&[""], None, &[".*"], &[], &[]);
        // What somebody names is meant.
        check(&["a.log"], None, &[], &[], &["a.log"]);
        check(&[".hidden.md", ".hidden"], None, &[], &[], &[".hidden.md", ".hidden/f.md"]);
        check(&["docs"], None, &[], &[], &["docs/c.md"]);
        // What changed in a folder that is watched.
        let changed = ["a.log", "sub/build/out.md", "docs/draft.md", "docs/c.md"];
        check(&changed, Some(&root), &[], &[], &["docs/c.md"]);
        check(&changed, Some(&root), &[], &["docs/"], &[]);
    }
}
