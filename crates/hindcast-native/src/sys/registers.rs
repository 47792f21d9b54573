//! Registers of x86-64.

/// The general registers of a thread.
#[derive(Clone, Copy)]
pub(crate) struct GeneralRegisters(pub(super) libc::user_regs_struct);

impl GeneralRegisters {
    /// What a core file or a recording keeps.
    pub(crate) fn from_words(words: [u64; 27]) -> Self {
        // SAFETY: both are 27 words of plain numbers.
        Self(unsafe { std::mem::transmute::<[u64; 27], libc::user_regs_struct>(words) })
    }

    /// As [`Self::from_words`] takes them.
    pub(crate) fn words(&self) -> [u64; 27] {
        // SAFETY: both are 27 words of plain numbers.
        unsafe { std::mem::transmute::<libc::user_regs_struct, [u64; 27]>(self.0) }
    }

    pub(crate) fn pc(&self) -> u64 {
        self.0.rip
    }

    /// Whether it stands in a system call that it makes again when it goes on.
    pub(crate) fn is_call_interrupted(&self) -> bool {
        self.0.orig_rax as i64 >= 0 && super::restarts(self.0.rax as i64)
    }

    pub(crate) fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// Where thread-local storage is found.
    pub(crate) fn fs_base(&self) -> u64 {
        self.0.fs_base
    }

    /// In the order of their DWARF numbers.
    pub(crate) fn dwarf(&self) -> [u64; 17] {
        let r = &self.0;
        [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15, r.rip,
        ]
    }

    /// By name, such as `rax`, `eflags` or `fs_base`.
    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        let mut copy = *self;
        copy.slot(name).copied()
    }

    /// By name; false where there is no such register.
    pub(crate) fn set(&mut self, name: &str, value: u64) -> bool {
        match self.slot(name) {
            Some(slot) => {
                *slot = value;
                true
            }
            None => false,
        }
    }

    fn slot(&mut self, name: &str) -> Option<&mut u64> {
        let r = &mut self.0;
        Some(match name {
            "rax" => &mut r.rax,
            "rbx" => &mut r.rbx,
            "rcx" => &mut r.rcx,
            "rdx" => &mut r.rdx,
            "rsi" => &mut r.rsi,
            "rdi" => &mut r.rdi,
            "rbp" => &mut r.rbp,
            "rsp" => &mut r.rsp,
            "r8" => &mut r.r8,
            "r9" => &mut r.r9,
            "r10" => &mut r.r10,
            "r11" => &mut r.r11,
            "r12" => &mut r.r12,
            "r13" => &mut r.r13,
            "r14" => &mut r.r14,
            "r15" => &mut r.r15,
            "rip" => &mut r.rip,
            "eflags" => &mut r.eflags,
            "cs" => &mut r.cs,
            "ss" => &mut r.ss,
            "ds" => &mut r.ds,
            "es" => &mut r.es,
            "fs" => &mut r.fs,
            "gs" => &mut r.gs,
            "fs_base" => &mut r.fs_base,
            "gs_base" => &mut r.gs_base,
            "orig_rax" => &mut r.orig_rax,
            _ => return None,
        })
    }
}
