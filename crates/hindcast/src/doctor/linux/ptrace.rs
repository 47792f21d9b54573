//! Whether processes can be traced, found out by tracing one of our own.

use std::{
    ffi::OsStr,
    io,
    process::{Child, Command, Stdio},
};

use nix::{
    errno::Errno,
    sys::{
        ptrace,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

use crate::doctor::{Check, find_program};

const PTRACE: &str = "ptrace";
const SECCOMP: &str = "seccomp";

/// Programs that wait for their standard input to end, and do nothing else.
const WAITING_PROGRAMS: [(&str, &[&str]); 2] = [("cat", &[]), ("sh", &["-c", "read line"])];

const LIFT_CONTAINER_LIMITS: &str =
    "in a container, start it with `--cap-add SYS_PTRACE --security-opt seccomp=unconfined`";

/// What came of attaching to a child.
#[derive(Debug, PartialEq)]
pub(super) enum Attempt {
    Attached,
    Refused(Errno),
    /// There was nothing to attach to.
    NoChild(String),
}

/// Attaches to a child and lets it go. The child has ended and is reaped when this returns.
pub(super) fn attempt(search_path: Option<&OsStr>) -> Attempt {
    match WaitingChild::start(search_path) {
        Ok(child) => child.attach_and_detach(),
        Err(error) => Attempt::NoChild(error.to_string()),
    }
}

/// A child that does nothing but wait, and ends with its guard whatever happens.
struct WaitingChild {
    child: Child,
}

impl WaitingChild {
    fn start(search_path: Option<&OsStr>) -> io::Result<Self> {
        let (program, arguments) = WAITING_PROGRAMS
            .iter()
            .find_map(|(name, arguments)| Some((find_program(search_path, name)?, *arguments)))
            .ok_or(io::Error::new(io::ErrorKind::NotFound, "neither `cat` nor `sh` is on the PATH"))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child })
    }

    fn pid(&self) -> Pid {
        // Process numbers are positive and far below 2³¹, std only gives them another type.
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn attach_and_detach(&self) -> Attempt {
        let pid = self.pid();
        // EXITKILL: should we be killed in between, the child is not left stopped for ever.
        let traced = ptrace::seize(pid, ptrace::Options::PTRACE_O_EXITKILL)
            .and_then(|()| ptrace::interrupt(pid))
            .and_then(|()| waitpid(pid, Some(WaitPidFlag::__WALL)))
            .and_then(|_stopped| ptrace::detach(pid, None));
        match traced {
            Ok(()) => Attempt::Attached,
            Err(errno) => Attempt::Refused(errno),
        }
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // Both only fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `scope` is kernel.yama.ptrace_scope, `None` without Yama; `may_trace_anything` is
/// CAP_SYS_PTRACE.
pub(super) fn check(scope: Option<u8>, may_trace_anything: bool, attempt: &Attempt) -> Check {
    let yama = match scope {
        Some(scope) => format!("kernel.yama.ptrace_scope is {scope}"),
        None => "no Yama in this kernel".to_owned(),
    };
    match (attempt, scope) {
        (Attempt::Attached, Some(1)) if !may_trace_anything => Check::warn(
            PTRACE,
            format!("programs can be launched, but not attached to: {yama}"),
            "to attach, run `sudo sysctl kernel.yama.ptrace_scope=0`, or grant CAP_SYS_PTRACE by \
             `sudo setcap cap_sys_ptrace+ep` on the program",
        ),
        (Attempt::Attached, _) => Check::ok(PTRACE, format!("attached to a child and let it go ({yama})")),
        (Attempt::Refused(errno), Some(3)) => Check::fail(
            PTRACE,
            format!("cannot attach ({errno}): {yama}, which forbids it to everybody"),
            "set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and reboot: 3 cannot be taken back before",
        ),
        (Attempt::Refused(errno), Some(2)) if !may_trace_anything => Check::fail(
            PTRACE,
            format!("cannot attach ({errno}): {yama}, which asks for CAP_SYS_PTRACE"),
            "run `sudo sysctl kernel.yama.ptrace_scope=1`",
        ),
        (Attempt::Refused(errno), _) => {
            Check::fail(PTRACE, format!("cannot attach to a child: {errno} ({yama})"), LIFT_CONTAINER_LIMITS)
        }
        (Attempt::NoChild(reason), _) => Check::warn(
            PTRACE,
            format!("not tried, there is no child to attach to: {reason} ({yama})"),
            "make `cat` or `sh` available on the PATH and run this again",
        ),
    }
}

/// Whether a system call filter stands in the way of tracing.
pub(super) fn check_seccomp(mode: Option<u8>, scope: Option<u8>, attempt: &Attempt) -> Check {
    match (mode, attempt) {
        (None, _) => Check::ok(SECCOMP, "not in this kernel"),
        (Some(0), _) => Check::ok(SECCOMP, "no filter is active"),
        (_, Attempt::Attached) => Check::ok(SECCOMP, "a filter is active and lets ptrace pass"),
        (_, Attempt::Refused(_)) if scope >= Some(2) => Check::warn(
            SECCOMP,
            "a filter is active; whether it lets ptrace pass cannot be told while Yama forbids it",
            "mend ptrace_scope and run this again",
        ),
        (_, Attempt::Refused(errno)) => Check::fail(
            SECCOMP,
            format!("a filter is active and ptrace is refused ({errno})"),
            LIFT_CONTAINER_LIMITS,
        ),
        (_, Attempt::NoChild(_)) => Check::warn(
            SECCOMP,
            "a filter is active; whether it lets ptrace pass was not tried",
            "mend the check `ptrace` and run this again",
        ),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;

    use super::*;
    use crate::doctor::Status;

    fn search_path() -> Option<std::ffi::OsString> {
        std::env::var_os("PATH")
    }

    #[test]
    fn the_child_is_gone_after_the_attempt_whatever_its_outcome() {
        let child = WaitingChild::start(search_path().as_deref()).expect("a child");
        let pid = child.pid();
        assert_eq!(kill(pid, None), Ok(()));
        let outcome = child.attach_and_detach();
        assert!(matches!(outcome, Attempt::Attached | Attempt::Refused(_)), "{outcome:?}");
        // Detached and alive: the attempt itself must not have ended it.
        assert_eq!(kill(pid, None), Ok(()));
        drop(child);
        // Not even a zombie, to which a signal could still be sent.
        assert_eq!(kill(pid, None), Err(Errno::ESRCH));
    }

    #[test]
    fn a_child_that_is_still_traced_is_gone_too() {
        let child = WaitingChild::start(search_path().as_deref()).expect("a child");
        let pid = child.pid();
        // May be refused where tests run; then there is nothing more to see than above.
        let _ = ptrace::seize(pid, ptrace::Options::empty());
        let _ = ptrace::interrupt(pid);
        drop(child);
        assert_eq!(kill(pid, None), Err(Errno::ESRCH));
    }

    #[test]
    fn without_a_program_to_start_the_attempt_says_so() {
        let empty = tempfile::tempdir().expect("a folder");
        let outcome = attempt(Some(empty.path().as_os_str()));
        let reason = "neither `cat` nor `sh` is on the PATH".to_owned();
        assert_eq!(outcome, Attempt::NoChild(reason));
        assert_eq!(check(None, false, &outcome).status, Status::Warn);
    }

    #[test]
    fn the_verdict_weighs_scope_capability_and_outcome() {
        let refused = || Attempt::Refused(Errno::EPERM);
        for (scope, capable, attempt, status, remedy) in [
            (Some(0), false, Attempt::Attached, Status::Ok, ""),
            (None, false, Attempt::Attached, Status::Ok, ""),
            (Some(1), true, Attempt::Attached, Status::Ok, ""),
            (Some(1), false, Attempt::Attached, Status::Warn, "kernel.yama.ptrace_scope=0"),
            (Some(2), false, refused(), Status::Fail, "kernel.yama.ptrace_scope=1"),
            (Some(3), true, refused(), Status::Fail, "reboot"),
            (Some(0), false, refused(), Status::Fail, "--cap-add SYS_PTRACE"),
            (None, true, refused(), Status::Fail, "--cap-add SYS_PTRACE"),
        ] {
            let checked = check(scope, capable, &attempt);
            assert_eq!(checked.status, status, "{checked:?}");
            assert!(checked.remedy.clone().unwrap_or_default().contains(remedy), "{checked:?}");
        }
    }

    #[test]
    fn a_filter_is_blamed_only_when_nothing_else_explains_the_refusal() {
        let refused = || Attempt::Refused(Errno::EPERM);
        for (mode, scope, attempt, expected) in [
            (None, None, Attempt::Attached, Status::Ok),
            (Some(0), Some(1), refused(), Status::Ok),
            (Some(2), Some(1), Attempt::Attached, Status::Ok),
            (Some(2), Some(1), refused(), Status::Fail),
            (Some(2), None, refused(), Status::Fail),
            (Some(2), Some(3), refused(), Status::Warn),
        ] {
            let checked = check_seccomp(mode, scope, &attempt);
            assert_eq!(checked.status, expected, "{checked:?}");
        }
    }
}
