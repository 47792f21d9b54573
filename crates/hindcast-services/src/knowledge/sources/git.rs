//! git, on repositories that may be made to hurt.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use super::super::extraction::Extractor;

/// For git to tell what it was asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// More files than a repository has that is looked after.
const MOST_FILES: usize = 500_000;

/// What git complains about has a few lines.
const LONGEST_COMPLAINT: u64 = 64 << 10;

/// git, which runs nothing that a repository's configuration names, changes nothing and asks nobody. Where there is a program to
/// start it, it ends with the server.
pub(super) fn command(extractor: &Extractor, folder: &Path) -> Command {
    let mut git = match extractor {
        Extractor::Program(program) => {
            let mut worker = Command::new(program);
            worker.args(["worker", "git", "--"]);
            worker
        }
        Extractor::Here => Command::new("git"),
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        git.env_remove(name);
    }
    for (name, value) in [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("LC_ALL", "C"),
    ] {
        git.env(name, value);
    }
    for setting in
        ["core.fsmonitor=false", "log.showSignature=false", "core.hooksPath=/dev/null", "log.mailmap=false"]
    {
        git.args(["-c", setting]);
    }
    git.arg("--no-pager").arg("-C").arg(folder);
    git
}

/// What git told.
pub(super) struct Told {
    pub(super) bytes: Vec<u8>,
    /// Whether it would have told more.
    pub(super) is_cut: bool,
}

/// Lets git tell at most so many bytes, and ends it when it takes longer than it may.
pub(super) fn run(mut git: Command, most: u64, patience: Duration) -> Result<Told, String> {
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        git.spawn().map_err(|error| format!("git cannot be started: {error} · hint: install git"))?;
    let read = |pipe: Option<Box<dyn Read + Send>>, most: u64| {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.map_or(Ok(0), |pipe| pipe.take(most).read_to_end(&mut bytes));
            let _ = sender.send(read.map(|_| bytes));
        });
        receiver
    };
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _), LONGEST_COMPLAINT);
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _), most);
    let told = stdout.recv_timeout(patience);
    let is_cut = told.as_ref().is_ok_and(|told| told.as_ref().is_ok_and(|bytes| bytes.len() as u64 == most));
    if told.is_err() || is_cut {
        // It would go on.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("git broke off: {error}"))?;
    let bytes = told
        .map_err(|_| {
            format!("git did not end within {} seconds · hint: try `git log` there", patience.as_secs())
        })?
        .map_err(|error| format!("git broke off: {error}"))?;
    if !status.success() && !is_cut {
        let complaint = stderr.recv_timeout(patience).ok().and_then(Result::ok).unwrap_or_default();
        return Err(said(&complaint));
    }
    Ok(Told { bytes, is_cut })
}

/// The first line of what git complains about.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().next().unwrap_or("git failed").trim_start_matches("fatal: ");
    let line: String = line.chars().take(300).collect();
    match line.starts_with("git cannot be started") {
        true => line,
        false => format!(
            "{line} · hint: give the folder of a repository that has commits and that `git log` can read"
        ),
    }
}

/// Refuses a folder of git's that has something on which git would wait for ever, or, where `no_links`, that leads elsewhere.
pub(super) fn check(folder: &Path, no_links: bool) -> Result<(), String> {
    let (mut pending, mut count) = (vec![PathBuf::from(folder)], 0);
    while let Some(folder) = pending.pop() {
        let unreadable = |error: std::io::Error| format!("`{}` cannot be read: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            count += 1;
            if count > MOST_FILES {
                return Err(format!("git keeps more than {MOST_FILES} files for it · hint: `git gc`"));
            }
            // Hooks are not run, and may be links to anywhere.
            if entry.file_name() == "hooks" {
                continue;
            }
            let leads_to_file =
                || fs::metadata(entry.path()).is_ok_and(|about| about.is_file() || about.is_dir());
            match kind {
                _ if kind.is_dir() => pending.push(entry.path()),
                _ if kind.is_file() => {}
                _ if kind.is_symlink() && !no_links && leads_to_file() => {}
                _ => {
                    return Err(format!(
                        "git would follow `{}`, which is no file · hint: put the file itself there",
                        entry.path().display()
                    ));
                }
            }
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_repository_that_leads_elsewhere_or_waits_for_ever_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (root, refs) = (folder.path(), folder.path().join("refs/heads"));
        fs::create_dir_all(&refs).unwrap();
        fs::write(refs.join("main"), "0").unwrap();
        assert_eq!(check(root, true), Ok(()));
        symlink("/usr", root.join("objects")).unwrap();
        assert!(check(root, true).is_err_and(|reason| reason.contains("objects`")));
        assert_eq!(check(root, false), Ok(()), "to the user of this machine it may lead anywhere");
        let made = Command::new("mkfifo").arg(root.join("packed-refs")).status().unwrap();
        assert!(made.success());
        assert!(check(root, false).is_err_and(|reason| reason.contains("packed-refs`")));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut sleeping = Command::new("sleep");
        sleeping.arg("1000");
        let ended = run(sleeping, 100, Duration::from_millis(50));
        assert!(ended.is_err_and(|reason| reason.contains("did not end within")));
        let mut endless = Command::new("yes");
        endless.arg("words");
        let ended = run(endless, 100, PATIENCE).map(|told| (told.bytes.len(), told.is_cut));
        assert_eq!(ended, Ok((100, true)));
    }
}
