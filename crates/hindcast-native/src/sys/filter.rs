//! A machine that allows less, for tests.

/// A system call that is not made any more by this thread, and by what it starts: it has this answer instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter {
    pub(crate) call: libc::c_long,
    /// Only with this as its first argument.
    pub(crate) argument: Option<u32>,
    /// An error, or 0.
    pub(crate) answer: i32,
}

impl Filter {
    /// There is no way back.
    pub(crate) fn install(self) {
        // What the filter is shown: the number of the call is at 0, its first argument at 16.
        let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
        let unless = |value: u32, skip: u8| libc::sock_filter {
            jf: skip,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
        };
        let end = |answer| statement(libc::BPF_RET | libc::BPF_K, answer);
        let refuse = end(libc::SECCOMP_RET_ERRNO | self.answer as u32);
        let mut program = match self.argument {
            Some(argument) => {
                vec![load(0), unless(self.call as u32, 3), load(16), unless(argument, 1), refuse]
            }
            None => vec![load(0), unless(self.call as u32, 1), refuse],
        };
        program.push(end(libc::SECCOMP_RET_ALLOW));
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the filter and its program live for the calls.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
        }
    }
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}
