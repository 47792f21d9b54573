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

/// Floating point and vector registers, as the processor saves them (XSAVE, uncompacted).
#[derive(Clone)]
pub(crate) struct VectorRegisters {
    area: Vec<u8>,
}

/// Where the upper halves of the ymm registers are, in the standard layout.
const YMM_HIGH: usize = 576;
/// Where the xmm registers are.
const XMM: usize = 160;
/// Where the x87 registers are, sixteen bytes each of which ten count.
const X87: usize = 32;
const XSTATE_COMPONENTS: usize = 512;

impl VectorRegisters {
    /// More than any processor's area without AMX tiles, which the system leaves out unless used.
    pub(super) const LARGEST: usize = 16 << 10;

    pub(crate) fn new(area: Vec<u8>) -> Self {
        Self { area }
    }

    pub(super) fn area(&self) -> &[u8] {
        &self.area
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.area
    }

    /// Which parts there are, and how long all of them are.
    pub(crate) fn layout(&self) -> (u64, u64) {
        // The system leaves this here for whoever asks.
        const PARTS: usize = 464;
        let parts = self.bytes(PARTS).map_or(0, u64::from_le_bytes);
        (parts, self.area.len() as u64)
    }

    pub(crate) fn xmm(&self, number: usize) -> Option<[u8; 16]> {
        (number < 16).then(|| self.bytes(XMM + 16 * number)).flatten()
    }

    /// Only where the processor has them.
    pub(crate) fn ymm(&self, number: usize) -> Option<[u8; 32]> {
        let low = self.xmm(number)?;
        let in_use: [u8; 8] = self.bytes(XSTATE_COMPONENTS)?;
        // Bit 2 tells whether the upper halves are anything but zero.
        let high = if in_use[0] & 4 == 0 { [0; 16] } else { self.bytes(YMM_HIGH + 16 * number)? };
        let mut whole = [0; 32];
        whole[..16].copy_from_slice(&low);
        whole[16..].copy_from_slice(&high);
        Some(whole)
    }

    /// `st(number)`.
    pub(crate) fn x87(&self, number: usize) -> Option<[u8; 10]> {
        (number < 8).then(|| self.bytes(X87 + 16 * number)).flatten()
    }

    /// False where there is no such register.
    pub(crate) fn set_xmm(&mut self, number: usize, value: &[u8]) -> bool {
        let start = XMM + 16 * number;
        if number >= 16 || value.len() > 16 || self.area.len() < start + 16 {
            return false;
        }
        self.area[start..start + value.len()].copy_from_slice(value);
        // Bit 1: the xmm registers are in use from now on.
        if let Some(components) = self.area.get_mut(XSTATE_COMPONENTS) {
            *components |= 2;
        }
        true
    }

    fn bytes<const N: usize>(&self, start: usize) -> Option<[u8; N]> {
        self.area.get(start..start + N)?.try_into().ok()
    }
}
