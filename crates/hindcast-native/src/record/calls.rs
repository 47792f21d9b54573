//! What each system call does to the program that makes it. Whatever is not here is a barrier, which
//! is always right and only slower.

use super::controls;

/// How a call is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only its result is seen.
    Result,
    /// The system writes to the program's memory. More than it writes may be named, never less.
    Writes(&'static [Out]),
    /// Changes the address space: made again in a replica.
    Space,
    /// Goes back from a signal handler: made again in a replica.
    SignalReturn,
    /// Depends on what is asked for.
    Control,
    /// Not to be had while recording: the result would not be the same again.
    Refused,
    /// Ends the program.
    Exit,
    /// Makes a process or a thread.
    Spawn,
    /// Makes a thread.
    Thread,
    /// Ends a thread, and others go on.
    Leave,
    /// Where it succeeds, the process can no longer be copied, for this reason.
    EndsRecording(&'static str),
    /// Cannot be replayed.
    Barrier,
}

/// Memory that a call writes. Numbers are those of its arguments, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// So many bytes.
    Fixed(usize, u64),
    /// As many bytes as the result says.
    Result(usize),
    /// As many bytes as the result says, but no more than another argument says.
    ResultWithin(usize, usize),
    /// As many as the result says, of this size.
    ResultTimes(usize, u64),
    /// As many as another argument says, of this size.
    Counted(usize, usize, u64),
    /// At most as many bytes as the number at another argument says, and that number.
    Length(usize, usize),
    /// As many bits as another argument says, in words of 64.
    Bits(usize, usize),
    /// A byte for each page of the length that another argument says.
    Pages(usize, usize),
    /// As many bytes as the result says, to the places that a list names.
    Vectors(usize, usize),
    /// A message: its header and what that names.
    Message(usize),
    /// The lengths of as many messages as the result says, which were sent.
    SentMessages(usize),
    /// As many messages as the result says, with their lengths.
    Messages(usize),
}

use Effect::{Barrier, Control, Exit, Refused, Result, SignalReturn, Space, Spawn, Writes};
use Out::{
    Bits, Counted, Fixed, Length, Message, Messages, Pages, ResultTimes, ResultWithin, SentMessages, Vectors,
};

const STAT: u64 = 144;
const TIMESPEC: u64 = 16;
const TIMEVAL: u64 = 16;
const RUSAGE: u64 = 144;
const SIGINFO: u64 = 128;
const SIGSET: u64 = 8;
const STATFS: u64 = 120;

/// What the call of this number does.
pub(crate) fn effect(number: i64) -> Effect {
    match number {
        // Files, by descriptor.
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_getdents64 | libc::SYS_getdents => {
            Writes(&[Out::Result(1)])
        }
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => Writes(&[Vectors(1, 2)]),
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_close
        | libc::SYS_close_range
        | libc::SYS_lseek
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_flock
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync
        | libc::SYS_syncfs
        | libc::SYS_sync_file_range
        | libc::SYS_truncate
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fadvise64
        | libc::SYS_readahead
        | libc::SYS_access
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_chdir
        | libc::SYS_fchdir
        | libc::SYS_chroot
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_mkdir
        | libc::SYS_mkdirat
        | libc::SYS_rmdir
        | libc::SYS_link
        | libc::SYS_linkat
        | libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_symlink
        | libc::SYS_symlinkat
        | libc::SYS_mknod
        | libc::SYS_mknodat
        | libc::SYS_chmod
        | libc::SYS_fchmod
        | libc::SYS_fchmodat
        | libc::SYS_chown
        | libc::SYS_fchown
        | libc::SYS_lchown
        | libc::SYS_fchownat
        | libc::SYS_utime
        | libc::SYS_utimes
        | libc::SYS_utimensat
        | libc::SYS_futimesat
        | libc::SYS_umask
        | libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_fsetxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr
        | libc::SYS_fremovexattr
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_inotify_add_watch
        | libc::SYS_inotify_rm_watch
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_timerfd_create
        | libc::SYS_memfd_create
        | libc::SYS_pidfd_open
        | libc::SYS_pidfd_send_signal
        | libc::SYS_mount
        | libc::SYS_umount2 => Result,
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_fstat => Writes(&[Fixed(1, STAT)]),
        libc::SYS_newfstatat => Writes(&[Fixed(2, STAT)]),
        libc::SYS_statx => Writes(&[Fixed(4, 256)]),
        libc::SYS_statfs | libc::SYS_fstatfs => Writes(&[Fixed(1, STATFS)]),
        libc::SYS_readlink => Writes(&[Out::Result(1)]),
        libc::SYS_readlinkat => Writes(&[Out::Result(2)]),
        libc::SYS_getcwd => Writes(&[Out::Result(0)]),
        libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_fgetxattr => Writes(&[ResultWithin(2, 3)]),
        libc::SYS_listxattr | libc::SYS_llistxattr | libc::SYS_flistxattr => Writes(&[ResultWithin(1, 2)]),
        libc::SYS_pipe | libc::SYS_pipe2 => Writes(&[Fixed(0, 8)]),
        libc::SYS_sendfile => Writes(&[Fixed(2, 8)]),
        libc::SYS_copy_file_range | libc::SYS_splice => Writes(&[Fixed(1, 8), Fixed(3, 8)]),
        libc::SYS_tee => Result,
        libc::SYS_ioctl
        | libc::SYS_fcntl
        | libc::SYS_prctl
        | libc::SYS_arch_prctl
        | libc::SYS_seccomp
        | libc::SYS_madvise
        | libc::SYS_personality
        | libc::SYS_futex
        | libc::SYS_getsockopt
        | libc::SYS_setsockopt => Control,
        // Waiting.
        libc::SYS_poll | libc::SYS_ppoll => Writes(&[Counted(0, 1, 8), Fixed(2, TIMESPEC)]),
        libc::SYS_select | libc::SYS_pselect6 => {
            Writes(&[Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, TIMESPEC)])
        }
        libc::SYS_epoll_create | libc::SYS_epoll_create1 | libc::SYS_epoll_ctl => Result,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            Writes(&[ResultTimes(1, 12)])
        }
        libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_sched_yield => Result,
        libc::SYS_nanosleep => Writes(&[Fixed(1, TIMESPEC)]),
        libc::SYS_clock_nanosleep => Writes(&[Fixed(3, TIMESPEC)]),
        // Sockets.
        libc::SYS_socket
        | libc::SYS_connect
        | libc::SYS_bind
        | libc::SYS_listen
        | libc::SYS_shutdown
        | libc::SYS_sendto
        | libc::SYS_sendmsg => Result,
        libc::SYS_sendmmsg => Writes(&[SentMessages(1)]),
        libc::SYS_socketpair => Writes(&[Fixed(3, 8)]),
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername => {
            Writes(&[Length(1, 2)])
        }
        libc::SYS_recvfrom => Writes(&[ResultWithin(1, 2), Length(4, 5)]),
        libc::SYS_recvmsg => Writes(&[Message(1)]),
        libc::SYS_recvmmsg => Writes(&[Messages(1), Fixed(4, TIMESPEC)]),
        // Time.
        libc::SYS_time => Writes(&[Fixed(0, 8)]),
        libc::SYS_gettimeofday => Writes(&[Fixed(0, TIMEVAL), Fixed(1, 8)]),
        libc::SYS_clock_gettime | libc::SYS_clock_getres => Writes(&[Fixed(1, TIMESPEC)]),
        libc::SYS_times => Writes(&[Fixed(0, 32)]),
        libc::SYS_getitimer => Writes(&[Fixed(1, 32)]),
        libc::SYS_setitimer => Writes(&[Fixed(2, 32)]),
        libc::SYS_timer_create => Writes(&[Fixed(2, 4)]),
        libc::SYS_timer_settime => Writes(&[Fixed(3, 32)]),
        libc::SYS_timer_gettime => Writes(&[Fixed(1, 32)]),
        libc::SYS_timerfd_settime => Writes(&[Fixed(3, 32)]),
        libc::SYS_timerfd_gettime => Writes(&[Fixed(1, 32)]),
        libc::SYS_timer_delete | libc::SYS_timer_getoverrun | libc::SYS_alarm => Result,
        // Who and where.
        libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getppid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getpgid
        | libc::SYS_getpgrp
        | libc::SYS_getsid
        | libc::SYS_setpgid
        | libc::SYS_setsid
        | libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_setgroups
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list
        | libc::SYS_getpriority
        | libc::SYS_setpriority
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_setparam
        | libc::SYS_sched_getscheduler
        | libc::SYS_sched_get_priority_max
        | libc::SYS_sched_get_priority_min
        | libc::SYS_setrlimit
        | libc::SYS_ioprio_get
        | libc::SYS_ioprio_set
        | libc::SYS_membarrier
        | libc::SYS_sethostname
        | libc::SYS_kill
        | libc::SYS_tgkill
        | libc::SYS_tkill
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_mlock
        | libc::SYS_mlock2
        | libc::SYS_munlock
        | libc::SYS_mlockall
        | libc::SYS_munlockall
        | libc::SYS_msync
        | libc::SYS_mbind
        | libc::SYS_set_mempolicy
        | libc::SYS_landlock_create_ruleset => Result,
        libc::SYS_getgroups => Writes(&[ResultTimes(1, 4)]),
        libc::SYS_getresuid | libc::SYS_getresgid => Writes(&[Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)]),
        libc::SYS_capget => Writes(&[Fixed(0, 8), Fixed(1, 24)]),
        // The version that the system would understand.
        libc::SYS_capset => Writes(&[Fixed(0, 8)]),
        libc::SYS_uname => Writes(&[Fixed(0, 390)]),
        libc::SYS_sysinfo => Writes(&[Fixed(0, 112)]),
        libc::SYS_getrusage => Writes(&[Fixed(1, RUSAGE)]),
        libc::SYS_getrlimit => Writes(&[Fixed(1, 16)]),
        libc::SYS_prlimit64 => Writes(&[Fixed(3, 16)]),
        libc::SYS_sched_getaffinity => Writes(&[Out::Result(2)]),
        libc::SYS_sched_getparam => Writes(&[Fixed(1, 4)]),
        libc::SYS_sched_getattr => Writes(&[Counted(1, 2, 1)]),
        libc::SYS_sched_rr_get_interval => Writes(&[Fixed(1, TIMESPEC)]),
        libc::SYS_getcpu => Writes(&[Fixed(0, 4), Fixed(1, 4)]),
        libc::SYS_getrandom => Writes(&[Out::Result(0)]),
        libc::SYS_get_robust_list => Writes(&[Fixed(1, 8), Fixed(2, 8)]),
        libc::SYS_get_mempolicy => Writes(&[Fixed(0, 4), Bits(1, 2)]),
        libc::SYS_mincore => Writes(&[Pages(2, 1)]),
        libc::SYS_wait4 => Writes(&[Fixed(1, 4), Fixed(3, RUSAGE)]),
        libc::SYS_waitid => Writes(&[Fixed(2, SIGINFO), Fixed(4, RUSAGE)]),
        // Signals: a replica gets none, so that what it would do with them does not matter.
        libc::SYS_rt_sigaction => Writes(&[Fixed(2, 32)]),
        libc::SYS_rt_sigprocmask => Writes(&[Fixed(2, SIGSET)]),
        libc::SYS_rt_sigpending => Writes(&[Fixed(0, SIGSET)]),
        libc::SYS_rt_sigtimedwait => Writes(&[Fixed(1, SIGINFO)]),
        libc::SYS_sigaltstack => Writes(&[Fixed(1, 24)]),
        libc::SYS_rt_sigreturn => SignalReturn,
        // The address space.
        libc::SYS_brk
        | libc::SYS_mmap
        | libc::SYS_munmap
        | libc::SYS_mprotect
        | libc::SYS_mremap
        | libc::SYS_pkey_mprotect => Space,
        libc::SYS_rseq
        | libc::SYS_io_uring_setup
        | libc::SYS_io_uring_enter
        | libc::SYS_io_uring_register
        | libc::SYS_userfaultfd
        | libc::SYS_io_setup => Refused,
        libc::SYS_exit | libc::SYS_exit_group => Exit,
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => Spawn,
        _ => Barrier,
    }
}

/// What a call does, also where that depends on what is asked of it.
pub(crate) fn effect_of(number: i64, arguments: &[u64; 6]) -> Effect {
    match effect(number) {
        Control => controls::control(number, arguments),
        effect => effect,
    }
}

/// What a 32-bit system call does, which has another number: it can be made in a 64-bit program as well. All but those
/// that make or end a process are barriers.
pub(crate) fn effect_in_32_bits(number: i64) -> Effect {
    const EXIT: i64 = 1;
    const EXIT_GROUP: i64 = 252;
    match number {
        EXIT | EXIT_GROUP => Exit,
        number if cloning_in_64_bits(number).is_some() => Spawn,
        _ => Barrier,
    }
}

/// The 64-bit number of a 32-bit call that makes a process.
pub(crate) fn cloning_in_64_bits(number: i64) -> Option<i64> {
    Some(match number {
        2 => libc::SYS_fork,
        120 => libc::SYS_clone,
        190 => libc::SYS_vfork,
        435 => libc::SYS_clone3,
        _ => return None,
    })
}

/// What a call writes that is interrupted and will be made again: how much of its time is left, and that nothing has
/// happened yet.
pub(crate) fn written_when_interrupted(number: i64) -> &'static [Out] {
    match number {
        libc::SYS_nanosleep => &[Fixed(1, TIMESPEC)],
        libc::SYS_clock_nanosleep => &[Fixed(3, TIMESPEC)],
        libc::SYS_select | libc::SYS_pselect6 => &[Fixed(4, TIMESPEC)],
        libc::SYS_poll => &[Counted(0, 1, 8)],
        libc::SYS_ppoll => &[Counted(0, 1, 8), Fixed(2, TIMESPEC)],
        libc::SYS_waitid => &[Fixed(2, SIGINFO)],
        _ => &[],
    }
}

/// Whether a replica makes the call for real: it then changes only the replica itself.
pub(crate) fn is_made_again(number: i64, arguments: &[u64; 6]) -> bool {
    matches!(effect_of(number, arguments), Space | SignalReturn)
}
