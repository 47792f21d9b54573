//! Which calls are made at the page, and how the code there treats them.

use super::super::calls::{self, Effect, Out};
use crate::sys::call_page::KINDS;

/// What the code looks at before it makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The first argument is a descriptor that nobody has to wait for.
    Descriptor,
    /// fcntl, as far as it changes nothing but the table of descriptors.
    Flags,
    /// futex, to wake others.
    Wake,
    /// epoll, first without waiting.
    Poll,
    /// Opens a file; this argument has the flags.
    Open(usize),
    /// The second argument is not used.
    NoSecond,
    /// A socket, without an address.
    Socket,
    /// Protection of memory that is no code.
    NoCode,
    /// It always returns at once.
    Nothing,
}

impl Check {
    /// As the code knows it.
    fn number(self) -> u64 {
        match self {
            Self::Descriptor => 1,
            Self::Flags => 2,
            Self::Wake => 3,
            Self::Poll => 4,
            Self::Open(_) => 5,
            Self::NoSecond => 6,
            Self::Socket => 7,
            Self::NoCode => 8,
            Self::Nothing => 9,
        }
    }
}

/// Of what is printed, as much as is kept.
const PRINTED: u64 = 1024;

/// All kinds, by the number of the call; 0 where it is not made at the page.
pub(super) fn table() -> Vec<u64> {
    (0..KINDS as i64).map(|number| check(number).map_or(0, |check| word(number, check))).collect()
}

fn check(number: i64) -> Option<Check> {
    Some(match number {
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_getdents64 => Check::Descriptor,
        libc::SYS_fcntl => Check::Flags,
        libc::SYS_futex => Check::Wake,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Check::Poll,
        libc::SYS_open => Check::Open(1),
        libc::SYS_openat => Check::Open(2),
        libc::SYS_gettimeofday => Check::NoSecond,
        libc::SYS_recvfrom | libc::SYS_sendto => Check::Socket,
        libc::SYS_mprotect => Check::NoCode,
        libc::SYS_close
        | libc::SYS_lseek
        | libc::SYS_fadvise64
        | libc::SYS_access
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_fstat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_statfs
        | libc::SYS_fstatfs
        | libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_getcwd
        | libc::SYS_chdir
        | libc::SYS_fchdir
        | libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_rename
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_umask
        | libc::SYS_epoll_ctl
        | libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_time
        | libc::SYS_getrusage
        | libc::SYS_times
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getppid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getpgid
        | libc::SYS_getpgrp
        | libc::SYS_getsid
        | libc::SYS_getrlimit
        | libc::SYS_uname
        | libc::SYS_sysinfo
        | libc::SYS_getrandom
        | libc::SYS_brk => Check::Nothing,
        _ => return None,
    })
}

/// What the code reads: the check, what is written, by which arguments, and of which size.
fn word(number: i64, check: Check) -> u64 {
    let (out, pointer, count, size) = match (check, out_of(number)) {
        (Check::Open(flags), _) => (0, flags, 0, 0),
        // Its beginning is kept for the timeline.
        _ if number == libc::SYS_write => (3, 1, 0, PRINTED),
        (_, Some(Out::Fixed(at, size))) => (1, at, 0, size),
        (_, Some(Out::Result(at))) => (2, at, at + 1, 1),
        (_, Some(Out::ResultWithin(at, most))) => (2, at, most, 1),
        (_, Some(Out::ResultTimes(at, size))) => (2, at, at + 1, size),
        _ => (0, 0, 0, 0),
    };
    check.number() | out << 8 | (pointer as u64) << 16 | (count as u64) << 24 | size << 32
}

/// What a call writes; those at the page write to one place at most.
fn out_of(number: i64) -> Option<Out> {
    match calls::effect(number) {
        Effect::Writes(outs) => outs.first().copied(),
        _ => None,
    }
}

/// Where a call at the page wrote what was noted with it.
pub(super) fn written_to(number: i64, arguments: &[u64; 6]) -> Option<u64> {
    match out_of(number) {
        _ if number == libc::SYS_write => Some(arguments[1]),
        Some(Out::Fixed(at, _) | Out::Result(at) | Out::ResultWithin(at, _) | Out::ResultTimes(at, _)) => {
            Some(arguments[at])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever else a call writes or does would be missing in the log.
    #[test]
    fn calls_at_the_page_do_nothing_that_is_not_noted() {
        for number in 0..KINDS as i64 {
            let Some(check) = check(number) else { continue };
            match calls::effect(number) {
                Effect::Result => {}
                Effect::Writes([Out::Fixed(..) | Out::Result(_) | Out::ResultTimes(..)]) => {}
                // What else it writes is asked for by an argument, which the code looks at.
                Effect::Writes([Out::Fixed(..), Out::Fixed(1, _)]) => assert_eq!(check, Check::NoSecond),
                Effect::Writes([Out::ResultWithin(..), Out::Length(4, _)]) => {
                    assert_eq!(check, Check::Socket);
                }
                Effect::Space => assert!([Check::NoCode, Check::Nothing].contains(&check), "{number}"),
                Effect::Control => assert!([Check::Flags, Check::Wake].contains(&check), "{number}"),
                effect => panic!("{number}: {effect:?}"),
            }
        }
        // What can be asked for by these is only a result.
        for (number, what) in [0, 1, 2, 3, libc::F_DUPFD_CLOEXEC as u64]
            .map(|command| (libc::SYS_fcntl, command))
            .into_iter()
            .chain([(libc::SYS_futex, libc::FUTEX_WAKE as u64)])
        {
            assert_eq!(calls::effect_of(number, &[0, what, 0, 0, 0, 0]), Effect::Result, "{number} {what}");
        }
    }
}
