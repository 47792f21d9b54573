//! Which processes and programs the holder of a key may touch.

use std::path::{Path, PathBuf};

use crate::{Failure, FailureKind};

/// What the operator allows over HTTP.
#[derive(Debug, Clone, Default)]
pub struct TargetPolicy {
    /// User ids besides the server's own.
    pub users: Vec<u32>,
    /// Programs besides those in `folders`; both empty means any.
    pub programs: Vec<PathBuf>,
    /// Folders whose programs are allowed, at any depth.
    pub folders: Vec<PathBuf>,
}

/// What is about to be started, or opened after it died.
pub(super) struct Launch<'a> {
    pub(super) program: &'a Path,
    /// The names of the variables that are set.
    pub(super) env: Vec<&'a str>,
    /// A file that is read on the caller's behalf; a real path, without links.
    pub(super) reads: Option<&'a Path>,
}

#[cfg(unix)]
fn changes_user(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(program).is_ok_and(|program| program.mode() & 0o6000 != 0)
}

#[cfg(not(unix))]
fn changes_user(_program: &Path) -> bool {
    false
}

/// What is known of a process before it is touched.
pub(super) struct Target {
    user: u32,
    /// None when the system does not tell.
    program: Option<PathBuf>,
    changes_user: bool,
}

impl Target {
    /// None when there is no such process.
    #[cfg(unix)]
    pub(super) fn of(pid: u32) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let user = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        let link = format!("/proc/{pid}/exe");
        // Through the link, so that a program that was replaced on disk is still the one that runs.
        let changes_user = changes_user(Path::new(&link));
        Some(Self { user, program: std::fs::read_link(link).ok(), changes_user })
    }

    #[cfg(not(unix))]
    pub(super) fn of(_pid: u32) -> Option<Self> {
        None
    }
}

impl TargetPolicy {
    /// Refuses what is not allowed, with the reason.
    pub(super) fn check(&self, pid: u32, target: &Target) -> Result<(), Failure> {
        let refuse = |details: String, hint: &str| {
            Err(Failure::new(FailureKind::PermissionDenied, details).hint(hint).fact("pid", pid))
        };
        let own = Target::of(std::process::id()).map(|own| own.user);
        if Some(target.user) != own && !self.users.contains(&target.user) {
            return refuse(
                format!("process {pid} belongs to another user"),
                "attach to a process of the server's own user, or have the operator add the user to `debug.allowed_users`",
            );
        }
        if target.changes_user {
            return refuse(
                format!("process {pid} runs a setuid or setgid program"),
                "debug a copy of the program without that mode",
            );
        }
        if target.program.as_deref().is_some_and(|program| self.allows(program)) || !self.restricts() {
            return Ok(());
        }
        refuse(
            format!("the program of process {pid} is not among those that may be debugged"),
            "have the operator add it to `debug.allowed_programs` or `debug.allowed_folders`",
        )
    }

    /// Refuses to start what is not allowed; `program` is a real path, without links.
    ///
    /// Where programs are restricted, so is what would make an allowed one run or read something else:
    /// the loader's variables, and files outside the allowed folders as its input.
    pub(super) fn check_launch(&self, launch: &Launch<'_>) -> Result<(), Failure> {
        let refuse = |details: String, hint: &str| {
            Err(Failure::new(FailureKind::PermissionDenied, details).hint(hint))
        };
        let shown = launch.program.display();
        if changes_user(launch.program) {
            return refuse(
                format!("`{shown}` is a setuid or setgid program"),
                "debug a copy of the program without that mode",
            );
        }
        if !self.restricts() {
            return Ok(());
        }
        if !self.allows(launch.program) {
            return refuse(
                format!("`{shown}` is not among the programs that may be debugged"),
                "have the operator add it to `debug.allowed_programs` or `debug.allowed_folders`",
            );
        }
        if let Some(name) = launch.env.iter().find(|name| name.starts_with("LD_")) {
            return refuse(
                format!("`{name}` may not be set: it would load other code into the program"),
                "leave it out of `env`",
            );
        }
        match launch.reads {
            Some(file) if !self.allows(file) => refuse(
                format!("`{}` is outside the folders that may be used", file.display()),
                "give its text as `stdin`, or put it into a folder of `debug.allowed_folders`",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses to write where nothing may be read either; `file` is a real path, without links.
    pub(super) fn check_written(&self, file: &Path) -> Result<(), Failure> {
        if !self.restricts() || self.folders.iter().any(|folder| file.starts_with(folder)) {
            return Ok(());
        }
        let details = format!("`{}` is outside the folders that may be used", file.display());
        Err(Failure::new(FailureKind::PermissionDenied, details)
            .hint("leave `path` out, or name a file in a folder of `debug.allowed_folders`"))
    }

    fn restricts(&self) -> bool {
        !(self.programs.is_empty() && self.folders.is_empty())
    }

    fn allows(&self, program: &Path) -> bool {
        self.programs.iter().any(|allowed| allowed == program)
            || self.folders.iter().any(|folder| program.starts_with(folder))
    }
}

/// The real path of a file that is not there yet.
pub(super) fn new_file(path: &Path) -> Result<PathBuf, Failure> {
    let shown: String = path.display().to_string().chars().take(200).collect();
    let refuse =
        |details: String, hint: &str| Err(Failure::new(FailureKind::InvalidInput, details).hint(hint));
    let Some((name, folder)) = path.file_name().zip(path.parent()) else {
        return refuse(format!("`{shown}` names no file"), "give an absolute path with a file name");
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Some(folder) = folder.canonicalize().ok().filter(|folder| folder.is_dir()) else {
        return refuse(format!("there is no folder for `{shown}`"), "make the folder first, or name another");
    };
    let file = folder.join(name);
    // A link counts as a file even where it leads nowhere.
    if file.symlink_metadata().is_ok() {
        return refuse(format!("there is a file `{shown}` already"), "name another, or remove it first");
    }
    Ok(file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn check(policy: TargetPolicy, target: Target) -> Option<String> {
        policy.check(7, &target).err().map(|failure| failure.details)
    }

    fn target(user: u32, program: &str) -> Target {
        Target { user, program: Some(program.into()), changes_user: false }
    }

    #[test]
    fn only_allowed_users_and_programs_may_be_touched() {
        let own = Target::of(std::process::id()).unwrap().user;
        assert_eq!(check(TargetPolicy::default(), target(own, "/bin/cat")), None);
        assert!(
            check(TargetPolicy::default(), target(own + 1, "/bin/cat")).unwrap().contains("another user")
        );
        let users = TargetPolicy { users: vec![own + 1], ..TargetPolicy::default() };
        assert_eq!(check(users, target(own + 1, "/bin/cat")), None);

        let folders = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
        assert_eq!(check(folders.clone(), target(own, "/opt/app/bin/server")), None);
        assert!(check(folders.clone(), target(own, "/opt/application")).unwrap().contains("not among"));
        assert!(check(folders, Target { program: None, ..target(own, "") }).unwrap().contains("not among"));

        let setuid = Target { changes_user: true, ..target(own, "/bin/su") };
        assert!(check(TargetPolicy::default(), setuid).unwrap().contains("setuid"));
    }

    #[test]
    fn only_allowed_programs_may_be_started_and_with_nothing_slipped_in() {
        let folders = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
        let check = |policy: &TargetPolicy, program: &str, env: &[&str], reads: Option<&str>| {
            let launch =
                Launch { program: Path::new(program), env: env.to_vec(), reads: reads.map(Path::new) };
            policy.check_launch(&launch).err().map(|failure| failure.details)
        };
        let any = TargetPolicy::default();
        assert_eq!(check(&any, "/bin/cat", &["LD_PRELOAD"], Some("/etc/hosts")), None);
        assert_eq!(check(&folders, "/opt/app/server", &["PATH"], Some("/opt/app/input")), None);
        assert!(check(&folders, "/bin/sh", &[], None).unwrap().contains("not among"));
        assert!(check(&folders, "/opt/app/server", &["LD_PRELOAD"], None).unwrap().contains("LD_PRELOAD"));
        assert!(check(&folders, "/opt/app/server", &[], Some("/etc/shadow")).unwrap().contains("outside"));
    }

    #[test]
    fn files_are_only_written_where_they_may_and_never_over_others() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let file = new_file(&folder.path().join("trace.bin")).unwrap();
        assert_eq!(file, real.join("trace.bin"));
        std::fs::write(&file, "").unwrap();
        assert!(new_file(&file).unwrap_err().details.contains("already"));
        std::os::unix::fs::symlink("/nowhere", real.join("link")).unwrap();
        assert!(new_file(&real.join("link")).unwrap_err().details.contains("already"));
        assert!(new_file(&real.join("no/such/trace.bin")).unwrap_err().details.contains("no folder"));
        assert!(new_file(Path::new("/")).unwrap_err().details.contains("names no file"));

        let any = TargetPolicy::default();
        assert!(any.check_written(&file).is_ok());
        let elsewhere = TargetPolicy { folders: vec!["/opt/app".into()], ..TargetPolicy::default() };
        assert!(elsewhere.check_written(&file).unwrap_err().details.contains("outside"));
        let here = TargetPolicy { folders: vec![real], ..TargetPolicy::default() };
        assert!(here.check_written(&file).is_ok());
    }
}
