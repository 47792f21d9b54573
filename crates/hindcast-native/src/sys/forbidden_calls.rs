//! A filter against system calls that a debuggee never needs, and that have often been a way out.
//!
//! What is not named is allowed: a debugger shows programs as they are, so those that are odd but harmless run as elsewhere.

use std::io;

/// What a filter is shown of a call: its number, the machine it is meant for, its first argument.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;
/// Numbers from here on are those of the x32 ABI.
const X32: u32 = 0x4000_0000;

/// Namespaces that `clone` may not make.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// Which families of sockets a process may make. Connected pairs (`socketpair`) are always allowed: nobody else is at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Those that stay inside namespaces, or in the network that the operator has opened.
    Usual,
    /// The network, and no Unix sockets.
    Network,
    None,
}

impl Sockets {
    fn families(self) -> &'static [i32] {
        match self {
            Self::Usual => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Self::Network => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Self::None => &[],
        }
    }
}

/// `open_tree_attr`, of Linux 6.15; the same number in 32-bit programs.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Mounting, other namespaces, modules, keys, clocks, raw devices; and interfaces whose faults were ways out of confinements
/// (`bpf`, `io_uring`, `userfaultfd`, `perf_event_open`).
pub(crate) const FORBIDDEN: [libc::c_long; 53] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_sysfs,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// The same in the numbers of 32-bit programs, which have clocks of 64 bits besides (404, 405); `socketcall` (102) hides which
/// socket it makes.
pub(crate) const FORBIDDEN_32: [u32; 57] = [
    21, 22, 52, 217, 61, 428, 429, 430, 431, 432, 433, 442, 310, 346, 342, 341, 338, 131, 443, 51, 87, 115,
    88, 74, 121, 128, 350, 129, 283, 357, 336, 374, 425, 426, 427, 288, 286, 287, 79, 25, 264, 343, 124, 110,
    101, 253, 111, 103, 86, 149, 135, 294, 317, 102, 404, 405, 467,
];

/// Forbids them to this process and all that it starts; there is no way back. Needs `no_new_privs`.
pub(crate) fn forbid_calls(sockets: Sockets) -> io::Result<()> {
    let families = sockets.families();
    let numbers = FORBIDDEN.map(|number| number as u32);
    let (clone, clone3, socket) = (libc::SYS_clone as u32, libc::SYS_clone3 as u32, libc::SYS_socket as u32);
    let wide = rules(&numbers, Makers { clone, clone3, socket }, families);
    let narrow = rules(&FORBIDDEN_32, Makers { clone: 120, clone3: 435, socket: 359 }, families);
    let over_wide = u32::try_from(wide.len() + 3).map_err(io::Error::other)?;
    let mut program = vec![
        load(MACHINE),
        jump_if(X86_64, 1, 0),
        statement(libc::BPF_JMP | libc::BPF_JA, over_wide),
        load(NUMBER),
        jump_if_at_least(X32, 0, 1),
        refuse(libc::ENOSYS),
    ];
    program.extend(wide);
    program.extend([jump_if(I386, 1, 0), refuse(libc::ENOSYS), load(NUMBER)]);
    program.extend(narrow);
    install(&mut program)
}

/// Calls that are judged by what they make.
struct Makers {
    clone: u32,
    clone3: u32,
    socket: u32,
}

/// The rules for one numbering of the calls, whose number is loaded.
fn rules(forbidden: &[u32], makers: Makers, families: &[i32]) -> Vec<libc::sock_filter> {
    let Makers { clone, clone3, socket } = makers;
    let mut rules = Vec::new();
    for &number in forbidden {
        rules.extend([jump_if(number, 0, 1), refuse(libc::EPERM)]);
    }
    // Its flags are in memory, where a filter does not see them. Libraries then use `clone`.
    rules.extend([jump_if(clone3, 0, 1), refuse(libc::ENOSYS)]);
    let any_of = statement(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, NEW_NAMESPACES);
    rules.extend([
        jump_if(clone, 0, 4),
        load(FIRST_ARGUMENT),
        libc::sock_filter { jt: 0, jf: 1, ..any_of },
        refuse(libc::EPERM),
        allow(),
    ]);
    let count = u8::try_from(families.len()).unwrap_or_default();
    rules.extend([jump_if(socket, 0, count + 3), load(FIRST_ARGUMENT)]);
    for (passed, &family) in (0u8..).zip(families) {
        // To what allows it, behind the refusal.
        rules.push(jump_if(family as u32, count - passed, 0));
    }
    rules.extend([refuse(libc::EAFNOSUPPORT), allow()]);
    rules.push(allow());
    rules
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn jump_if(value: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    let jump = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value);
    libc::sock_filter { jt: if_so, jf: if_not, ..jump }
}

fn jump_if_at_least(value: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    let jump = statement(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, value);
    libc::sock_filter { jt: if_so, jf: if_not, ..jump }
}

fn refuse(error: i32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32)
}

fn allow() -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW)
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

fn install(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter and its program live for the call.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system answers a call whose arguments mean nothing.
    fn answer_to(number: libc::c_long) -> Option<i32> {
        // SAFETY: no argument is a valid address, size or descriptor, so that the system reads and writes nothing.
        let answer = unsafe { libc::syscall(number, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64) };
        (answer == -1).then(|| io::Error::last_os_error().raw_os_error()).flatten()
    }

    #[test]
    fn each_forbidden_call_is_refused_by_the_filter_whatever_rights_the_process_has() {
        // A filter holds for the thread that asks for it. Where root runs this, nothing else answers `EPERM` to these arguments.
        let filtered = std::thread::spawn(|| {
            nix::sys::prctl::set_no_new_privs().unwrap();
            forbid_calls(Sockets::Usual).unwrap();
            for number in FORBIDDEN {
                assert_eq!(answer_to(number), Some(libc::EPERM), "{number}");
            }
            assert_eq!(answer_to(libc::SYS_clone3), Some(libc::ENOSYS));
            assert_eq!(answer_to(libc::SYS_getpid | libc::c_long::from(X32)), Some(libc::ENOSYS));
            // What is not named is left to the system.
            assert_eq!(answer_to(libc::SYS_close), Some(libc::EBADF));
        });
        filtered.join().unwrap();
    }
}
