//! Which processes the holder of a key may touch.

use std::path::PathBuf;

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
        let changes_user = std::fs::metadata(&link).is_ok_and(|program| program.mode() & 0o6000 != 0);
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
        if self.programs.is_empty() && self.folders.is_empty() {
            return Ok(());
        }
        let allowed = target.program.as_ref().is_some_and(|program| {
            self.programs.contains(program) || self.folders.iter().any(|folder| program.starts_with(folder))
        });
        if allowed {
            return Ok(());
        }
        refuse(
            format!("the program of process {pid} is not among those that may be debugged"),
            "have the operator add it to `debug.allowed_programs` or `debug.allowed_folders`",
        )
    }
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
}
