//! What can go wrong with files and frames.

use std::path::PathBuf;

/// Why a file gives no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file cannot be opened or read.
    #[error("cannot read `{path}`: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The file is something else.
    #[error("`{name}` is not an ELF file of x86-64; only Linux x86-64 programs are understood")]
    NotElf {
        /// The file.
        name: String,
    },
    /// The file contradicts itself.
    #[error("`{name}` is damaged: {what}")]
    Damaged {
        /// The file.
        name: String,
        /// What does not fit.
        what: &'static str,
    },
}

/// Why the place of a variable is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// The module went away, or the handle is of other symbols.
    #[error("the variable's module is not loaded any more")]
    Gone,
    /// The debug information does not follow its own rules.
    #[error("the debug information of the variable is damaged")]
    Damaged,
    /// A register is not known in this frame.
    #[error("register {0} is not known in this frame; a called function may have overwritten it")]
    Register(u16),
    /// Memory cannot be read.
    #[error(transparent)]
    Memory(#[from] crate::Unreadable),
    /// The frame's address is not known.
    #[error("the frame's address is not known")]
    Frame,
    /// The thread's block of variables is not known.
    #[error("the address of thread-local variables is not known here")]
    ThreadLocal,
    /// A construct that is not understood.
    #[error("the debug information uses {0}, which is not understood")]
    Unsupported(&'static str),
}

/// Why the caller of a frame is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnwindError {
    /// The frame has no program counter.
    #[error("the frame's program counter is not known")]
    NoPc,
    /// Nothing tells how to unwind there.
    #[error("no unwind information for {pc:#x}, and rbp leads nowhere; the frames above are unknown")]
    NoInformation {
        /// Where.
        pc: u64,
    },
    /// The unwind information needs a register that is not known.
    #[error("unwinding at {pc:#x} needs register {register}, which is not known")]
    Register {
        /// Where.
        pc: u64,
        /// Its DWARF number.
        register: u16,
    },
    /// The stack cannot be read.
    #[error(transparent)]
    Memory(#[from] crate::Unreadable),
    /// The unwind information does not follow its own rules.
    #[error("the unwind information for {pc:#x} is damaged")]
    Damaged {
        /// Where.
        pc: u64,
    },
    /// The caller would be below its callee: the stack is overwritten.
    #[error("the stack is damaged: the caller of {pc:#x} would be below it")]
    Corrupt {
        /// Where.
        pc: u64,
    },
}
