//! Calls with many faces: what they do depends on what is asked. As in the table of calls, whatever is not here is a barrier.

use super::calls::{
    Effect::{self, Barrier, EndsRecording, Refused, Result, Space, Writes},
    Out::{Fixed, Length},
};
use crate::sys::call_page;

/// The libc crate does not name these.
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
const ARCH_GET_CPUID: u64 = 0x1011;
const ARCH_SET_CPUID: u64 = 0x1012;
const ARCH_GET_XCOMP_SUPP: u64 = 0x1021;
const ARCH_GET_XCOMP_PERM: u64 = 0x1022;
/// Asked by some versions of the C library at every start.
const ARCH_CET_STATUS: u64 = 0x3001;
const MADV_DONTNEED_LOCKED: i32 = 24;
const MADV_COLLAPSE: i32 = 25;

const FILTERED: &str =
    "the program restricts the system calls that it may make, so that it can no longer be copied";
const DISPATCHED: &str =
    "the program has its own system calls told to it, which a replay would not tell it of";
const PROTECTED: &str = "the program keeps its memory from being read, so that it can no longer be copied";

/// What a call with many faces does, by what is asked of it.
pub(super) fn control(number: i64, arguments: &[u64; 6]) -> Effect {
    match number {
        libc::SYS_ioctl => ioctl(arguments[1]),
        libc::SYS_fcntl => fcntl(arguments[1] as i32),
        libc::SYS_prctl => prctl(arguments[0] as i32, arguments[1]),
        libc::SYS_arch_prctl => arch_prctl(arguments[0]),
        libc::SYS_madvise => madvise(arguments[2] as i32),
        libc::SYS_futex => futex(arguments[1] as i32),
        libc::SYS_getsockopt => getsockopt(arguments[1] as i32, arguments[2] as i32),
        libc::SYS_setsockopt => match is_known_option(arguments[1] as i32, arguments[2] as i32) {
            true => Result,
            false => Barrier,
        },
        libc::SYS_seccomp => match arguments[0] as u32 {
            libc::SECCOMP_SET_MODE_STRICT | libc::SECCOMP_SET_MODE_FILTER => EndsRecording(FILTERED),
            libc::SECCOMP_GET_ACTION_AVAIL => Result,
            _ => Barrier,
        },
        libc::SYS_personality if arguments[0] as u32 == u32::MAX => Result,
        _ => Barrier,
    }
}

fn futex(operation: i32) -> Effect {
    match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT
        | libc::FUTEX_WAKE
        | libc::FUTEX_REQUEUE
        | libc::FUTEX_CMP_REQUEUE
        | libc::FUTEX_WAIT_BITSET
        | libc::FUTEX_WAKE_BITSET => Result,
        libc::FUTEX_WAKE_OP => Writes(&[Fixed(4, 4)]),
        libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 | libc::FUTEX_TRYLOCK_PI | libc::FUTEX_UNLOCK_PI => {
            Writes(&[Fixed(0, 4)])
        }
        _ => Barrier,
    }
}

fn getsockopt(level: i32, option: i32) -> Effect {
    match (level, option) {
        // Its length is not in bytes.
        (libc::SOL_SOCKET, libc::SO_GET_FILTER) => Barrier,
        _ if is_known_option(level, option) => Writes(&[Length(3, 4)]),
        _ => Barrier,
    }
}

/// Whether an option of a socket has nothing but a value of some length. Others write to where pointers in it lead.
fn is_known_option(level: i32, option: i32) -> bool {
    /// Those of packet filters begin here.
    const TABLES: i32 = 64;
    match level {
        libc::SOL_SOCKET | libc::IPPROTO_UDP | libc::SOL_NETLINK => true,
        libc::IPPROTO_TCP => option != libc::TCP_ZEROCOPY_RECEIVE,
        libc::IPPROTO_IP | libc::IPPROTO_IPV6 => option < TABLES,
        _ => false,
    }
}

fn fcntl(command: i32) -> Effect {
    match command {
        libc::F_GETLK | libc::F_OFD_GETLK => Writes(&[Fixed(2, 32)]),
        F_GETOWN_EX => Writes(&[Fixed(2, 8)]),
        libc::F_DUPFD
        | libc::F_DUPFD_CLOEXEC
        | libc::F_GETFD
        | libc::F_SETFD
        | libc::F_GETFL
        | libc::F_SETFL
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW
        | libc::F_GETOWN
        | libc::F_SETOWN
        | F_SETOWN_EX
        | libc::F_GETLEASE
        | libc::F_SETLEASE
        | libc::F_NOTIFY
        | libc::F_GETPIPE_SZ
        | libc::F_SETPIPE_SZ
        | libc::F_ADD_SEALS
        | libc::F_GET_SEALS => Result,
        _ => Barrier,
    }
}

fn prctl(what: i32, first: u64) -> Effect {
    match what {
        libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER | libc::PR_GET_TSC => Writes(&[Fixed(1, 4)]),
        libc::PR_GET_NAME => Writes(&[Fixed(1, 16)]),
        libc::PR_GET_TID_ADDRESS => Writes(&[Fixed(1, 8)]),
        // It may not take back what makes it repeatable.
        libc::PR_SET_TSC => Refused,
        libc::PR_SET_SECCOMP => EndsRecording(FILTERED),
        call_page::PR_SET_SYSCALL_USER_DISPATCH => EndsRecording(DISPATCHED),
        libc::PR_SET_DUMPABLE if first == 0 => EndsRecording(PROTECTED),
        libc::PR_SET_PDEATHSIG
        | libc::PR_SET_NAME
        | libc::PR_SET_DUMPABLE
        | libc::PR_GET_DUMPABLE
        | libc::PR_SET_KEEPCAPS
        | libc::PR_GET_KEEPCAPS
        | libc::PR_GET_SECCOMP
        | libc::PR_CAPBSET_READ
        | libc::PR_CAPBSET_DROP
        | libc::PR_CAP_AMBIENT
        | libc::PR_SET_TIMERSLACK
        | libc::PR_GET_TIMERSLACK
        | libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_GET_NO_NEW_PRIVS
        | libc::PR_SET_CHILD_SUBREAPER
        | libc::PR_SET_SECUREBITS
        | libc::PR_GET_SECUREBITS
        | libc::PR_SET_THP_DISABLE
        | libc::PR_GET_THP_DISABLE
        | libc::PR_SET_PTRACER
        | libc::PR_GET_SPECULATION_CTRL
        | libc::PR_SET_VMA => Result,
        _ => Barrier,
    }
}

fn arch_prctl(what: u64) -> Effect {
    match what {
        // Registers, of the replica too.
        ARCH_SET_GS | ARCH_SET_FS => Space,
        ARCH_GET_FS | ARCH_GET_GS | ARCH_GET_XCOMP_SUPP | ARCH_GET_XCOMP_PERM => Writes(&[Fixed(1, 8)]),
        ARCH_CET_STATUS => Writes(&[Fixed(1, 24)]),
        ARCH_GET_CPUID => Result,
        ARCH_SET_CPUID => Refused,
        _ => Barrier,
    }
}

/// Whether memory is advised not to be in copies of the process, or to be empty there.
pub(super) fn keeps_from_forks(advice: i32) -> bool {
    [libc::MADV_DONTFORK, libc::MADV_WIPEONFORK].contains(&advice)
}

fn madvise(advice: i32) -> Effect {
    match advice {
        // A replica is to have all memory, and so are copies of it.
        libc::MADV_DONTFORK | libc::MADV_DOFORK | libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK => Result,
        // Only how fast it is.
        libc::MADV_NORMAL
        | libc::MADV_RANDOM
        | libc::MADV_SEQUENTIAL
        | libc::MADV_WILLNEED
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_DONTDUMP
        | libc::MADV_DODUMP
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | libc::MADV_POPULATE_READ
        | libc::MADV_POPULATE_WRITE
        | MADV_COLLAPSE => Result,
        libc::MADV_DONTNEED | libc::MADV_FREE | MADV_DONTNEED_LOCKED => Space,
        _ => Barrier,
    }
}

/// The number of a request only claims what it writes; some write elsewhere, or more. So only these are believed.
fn ioctl(request: u64) -> Effect {
    match request {
        libc::TCGETS => Writes(&[Fixed(2, 60)]),
        libc::TCGETS2 => Writes(&[Fixed(2, 44)]),
        libc::TIOCGWINSZ => Writes(&[Fixed(2, 8)]),
        libc::TIOCGPGRP
        | libc::TIOCGSID
        | libc::FIONREAD
        | libc::TIOCOUTQ
        | libc::TIOCMGET
        | libc::TIOCGPTN
        | libc::TIOCGPTLCK => Writes(&[Fixed(2, 4)]),
        BLKGETSIZE64 => Writes(&[Fixed(2, 8)]),
        FS_IOC_GETFLAGS | FS_IOC_GETVERSION => Writes(&[Fixed(2, 8)]),
        GET_NAME
        | GET_FLAGS
        | GET_ADDRESS
        | GET_OTHER_ADDRESS
        | GET_BROADCAST_ADDRESS
        | GET_NETWORK_MASK
        | GET_METRIC
        | GET_UNIT
        | GET_HARDWARE_ADDRESS
        | GET_INDEX
        | GET_QUEUE_LENGTH => Writes(&[Fixed(2, 40)]),
        libc::TCSETS
        | libc::TCSETSW
        | libc::TCSETSF
        | libc::TCSETS2
        | libc::TCSETSW2
        | libc::TCSETSF2
        | libc::TIOCSWINSZ
        | libc::TIOCSPGRP
        | libc::TIOCSPTLCK
        | libc::TIOCSCTTY
        | libc::TIOCNOTTY
        | libc::TCFLSH
        | libc::TCSBRK
        | libc::TCXONC
        | libc::FIONBIO
        | libc::FIOCLEX
        | libc::FIONCLEX
        | libc::FIOASYNC => Result,
        _ => Barrier,
    }
}

const BLKGETSIZE64: u64 = 0x8008_1272;
/// Flags and version of a file: the kernel writes an `int`, its header says `long`.
const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
const FS_IOC_GETVERSION: u64 = 0x8008_7601;
/// Questions about network interfaces that are answered within a `struct ifreq`.
const GET_NAME: u64 = 0x8910;
const GET_FLAGS: u64 = 0x8913;
const GET_ADDRESS: u64 = 0x8915;
const GET_OTHER_ADDRESS: u64 = 0x8917;
const GET_BROADCAST_ADDRESS: u64 = 0x8919;
const GET_NETWORK_MASK: u64 = 0x891b;
const GET_METRIC: u64 = 0x891d;
const GET_UNIT: u64 = 0x8921;
const GET_HARDWARE_ADDRESS: u64 = 0x8927;
const GET_INDEX: u64 = 0x8933;
const GET_QUEUE_LENGTH: u64 = 0x8942;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_barrier_in_every_arm() {
        const UNKNOWN: u64 = 0x7fff_1234;
        let asks = [
            (libc::SYS_ioctl, [0, UNKNOWN, 0, 0, 0, 0]),
            // `_IOR`, `_IOW` and `_IOWR` of 8 bytes: what they claim to write is not believed.
            (libc::SYS_ioctl, [0, 0x8008_1234, 0, 0, 0, 0]),
            (libc::SYS_ioctl, [0, 0x4008_1234, 0, 0, 0, 0]),
            (libc::SYS_ioctl, [0, 0xc008_1234, 0, 0, 0, 0]),
            // `SIOCGIFCONF` writes to where a pointer leads.
            (libc::SYS_ioctl, [0, 0x8912, 0, 0, 0, 0]),
            (libc::SYS_fcntl, [0, UNKNOWN, 0, 0, 0, 0]),
            (libc::SYS_prctl, [UNKNOWN, 0, 0, 0, 0, 0]),
            (libc::SYS_arch_prctl, [UNKNOWN, 0, 0, 0, 0, 0]),
            (libc::SYS_madvise, [0, 0, UNKNOWN, 0, 0, 0]),
            (libc::SYS_seccomp, [UNKNOWN, 0, 0, 0, 0, 0]),
            (libc::SYS_personality, [0, 0, 0, 0, 0, 0]),
            (libc::SYS_futex, [0, 0x7f, 0, 0, 0, 0]),
            (libc::SYS_getsockopt, [0, UNKNOWN, 0, 0, 0, 0]),
            (libc::SYS_setsockopt, [0, UNKNOWN, 0, 0, 0, 0]),
            // Of packet filters.
            (libc::SYS_getsockopt, [0, 0, 65, 0, 0, 0]),
            (libc::SYS_setsockopt, [0, 0, 64, 0, 0, 0]),
        ];
        for (number, arguments) in asks {
            assert_eq!(control(number, &arguments), Barrier, "{number} {arguments:x?}");
        }
    }
}
